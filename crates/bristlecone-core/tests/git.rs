//! The format of Git: ids that real Git gave, directories against a sorted map, and what is kept and refused.

mod git {
    mod commits;
    mod hostile;
    mod known;
    mod names;
    mod objects;
    mod trees;
}
