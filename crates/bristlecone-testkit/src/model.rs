//! The plainest thing that a tree with history could be: sorted maps, copied whole.
//!
//! [`Model`] has the semantics of a tree: directories are there as long as something is in them, a value
//! replaces the directory at its path, and a path below a value replaces that value by a directory.
//! [`History`] keeps commits and branches. Nothing here is shared, cached or lazy, so that there is little
//! to be wrong.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

/// A number beside each value that the caller gives a meaning, such as the kind of entry.
pub type Tag = u8;

/// What a path is bound to.
pub type Bound = (Tag, Arc<[u8]>);

/// A tree: values by path.
///
/// A path is the bytes of its steps joined by `/`; the empty path is the root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    values: BTreeMap<Vec<u8>, Bound>,
}

/// An entry of a directory, as [`Model::list`] gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listed {
    /// A value.
    Value(Tag, Arc<[u8]>),
    /// A directory.
    Dir,
}

impl Model {
    /// Returns the empty tree.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the value at a path.
    #[must_use]
    pub fn find(&self, path: &[u8]) -> Option<&[u8]> {
        self.values.get(path).map(|(_, value)| &value[..])
    }

    /// Returns what a path is bound to, with its tag.
    #[must_use]
    pub fn get(&self, path: &[u8]) -> Option<&Bound> {
        self.values.get(path)
    }

    /// Whether there is a directory at a path. The root is one, always.
    #[must_use]
    pub fn is_dir(&self, path: &[u8]) -> bool {
        path.is_empty() || self.below(path).next().is_some()
    }

    /// Binds a path to a value.
    ///
    /// # Panics
    /// For the root, which is no value.
    pub fn add(&mut self, path: &[u8], tag: Tag, value: &[u8]) {
        assert!(!path.is_empty(), "the root is a directory");
        self.make_way(path);
        self.values.insert(path.to_vec(), (tag, value.into()));
    }

    /// Unbinds a path with all below it, and every directory that is empty then.
    pub fn remove(&mut self, path: &[u8]) {
        let below: Vec<Vec<u8>> = self.below(path).map(|(path, _)| path.clone()).collect();
        for path in below {
            self.values.remove(&path);
        }
        self.values.remove(path);
    }

    /// Returns the directory at a path as a tree; `None` if there is no directory.
    #[must_use]
    pub fn subtree(&self, path: &[u8]) -> Option<Self> {
        self.is_dir(path).then(|| {
            let skip = if path.is_empty() { 0 } else { path.len() + 1 };
            let values = self.below(path).map(|(path, value)| (path[skip..].to_vec(), value.clone()));
            Self { values: values.collect() }
        })
    }

    /// Puts a tree at a path in place of what is there. An empty one removes the path.
    pub fn add_tree(&mut self, path: &[u8], tree: &Self) {
        self.remove(path);
        if tree.values.is_empty() {
            return;
        }
        self.make_way(path);
        for (below, value) in &tree.values {
            self.values.insert(join(path, below), value.clone());
        }
    }

    /// Returns the entries of a directory by step, in order; none if there is no directory.
    #[must_use]
    pub fn list(&self, path: &[u8]) -> BTreeMap<Vec<u8>, Listed> {
        let skip = if path.is_empty() { 0 } else { path.len() + 1 };
        let mut entries = BTreeMap::new();
        for (path, (tag, value)) in self.below(path) {
            let rest = &path[skip..];
            match rest.iter().position(|&b| b == b'/') {
                Some(end) => entries.insert(rest[..end].to_vec(), Listed::Dir),
                None => entries.insert(rest.to_vec(), Listed::Value(*tag, value.clone())),
            };
        }
        entries
    }

    /// Returns the number of values below a path, or `count_max` if there are more.
    #[must_use]
    pub fn count_below(&self, path: &[u8], count_max: usize) -> usize {
        self.below(path).take(count_max).count()
    }

    /// Returns all values by path, in the order of the bytes of paths.
    pub fn values(&self) -> impl Iterator<Item = (&[u8], Tag, &[u8])> {
        self.values.iter().map(|(path, (tag, value))| (&path[..], *tag, &value[..]))
    }

    /// Returns the number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the paths at which two trees hold different values, in order, with both values.
    #[must_use]
    pub fn diff<'a>(&'a self, other: &'a Self) -> BTreeMap<&'a [u8], Differing<'a>> {
        let mut paths = BTreeMap::new();
        for (path, value) in &self.values {
            paths.insert(&path[..], (Some(value), None));
        }
        for (path, value) in &other.values {
            match paths.entry(&path[..]) {
                Entry::Occupied(same) if same.get().0 == Some(value) => drop(same.remove()),
                Entry::Occupied(mut changed) => changed.get_mut().1 = Some(value),
                Entry::Vacant(new) => drop(new.insert((None, Some(value)))),
            }
        }
        paths
    }

    /// Returns the values below a path, itself not counted.
    fn below<'a>(&'a self, path: &[u8]) -> impl Iterator<Item = (&'a Vec<u8>, &'a Bound)> + use<'a> {
        let mut prefix = path.to_vec();
        if !path.is_empty() {
            prefix.push(b'/');
        }
        self.values.range(prefix.clone()..).take_while(move |(path, _)| path.starts_with(&prefix))
    }

    /// Removes what is at a path, and values where it needs directories.
    fn make_way(&mut self, path: &[u8]) {
        self.remove(path);
        for (end, _) in path.iter().enumerate().filter(|(_, b)| **b == b'/') {
            self.values.remove(&path[..end]);
        }
    }
}

/// What two trees hold at one path: before and after.
pub type Differing<'a> = (Option<&'a Bound>, Option<&'a Bound>);

fn join(path: &[u8], below: &[u8]) -> Vec<u8> {
    if path.is_empty() { below.to_vec() } else { [path, b"/", below].concat() }
}

/// Commits in the order in which they were made, and branches.
#[derive(Clone, Debug, Default)]
pub struct History {
    commits: Vec<ModelCommit>,
    branches: BTreeMap<String, usize>,
}

/// A commit of a [`History`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelCommit {
    /// What it recorded.
    pub tree: Model,
    /// Its parents, by their numbers.
    pub parents: Vec<usize>,
    /// Why.
    pub message: Vec<u8>,
}

impl History {
    /// Returns a history without commits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Commits a tree on a branch, above its head, and returns the commit's number.
    pub fn commit(&mut self, branch: &str, tree: &Model, message: &[u8]) -> usize {
        let parents = self.head(branch).into_iter().collect();
        self.commits.push(ModelCommit { tree: tree.clone(), parents, message: message.to_vec() });
        self.branches.insert(branch.to_owned(), self.commits.len() - 1);
        self.commits.len() - 1
    }

    /// Moves a branch from `expected` to `to`, and returns whether it was there.
    pub fn compare_and_set(&mut self, branch: &str, expected: Option<usize>, to: Option<usize>) -> bool {
        let moved = self.head(branch) == expected;
        if moved {
            match to {
                Some(to) => self.branches.insert(branch.to_owned(), to),
                None => self.branches.remove(branch),
            };
        }
        moved
    }

    /// Returns the commit that a branch is at.
    #[must_use]
    pub fn head(&self, branch: &str) -> Option<usize> {
        self.branches.get(branch).copied()
    }

    /// Returns a commit by its number.
    ///
    /// # Panics
    /// If there is no such entry.
    #[must_use]
    pub fn get(&self, number: usize) -> &ModelCommit {
        &self.commits[number]
    }

    /// Returns the tree that a branch is at; the empty one if there is no such branch.
    #[must_use]
    pub fn tree(&self, branch: &str) -> Model {
        self.head(branch).map_or_else(Model::new, |number| self.commits[number].tree.clone())
    }

    /// Returns the branches with their heads, in order of names.
    #[must_use]
    pub fn branches(&self) -> &BTreeMap<String, usize> {
        &self.branches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(values: &[(&str, &str)]) -> Model {
        let mut model = Model::new();
        for (path, value) in values {
            model.add(path.as_bytes(), 0, value.as_bytes());
        }
        model
    }

    #[test]
    fn a_value_replaces_a_directory_and_a_directory_a_value() {
        let mut tree = model(&[("a/b", "1"), ("a/c", "2"), ("ab", "3")]);
        tree.add(b"a", 0, b"4");
        assert_eq!(tree, model(&[("a", "4"), ("ab", "3")]));
        tree.add(b"a/b/c", 0, b"5");
        assert_eq!(tree, model(&[("a/b/c", "5"), ("ab", "3")]));
        tree.remove(b"a/b/c");
        assert!(!tree.is_dir(b"a") && tree.is_dir(b""));
        tree.remove(b"");
        assert!(tree.is_empty());
    }

    #[test]
    fn listing_gives_steps_in_order() {
        let tree = model(&[("a/b", "1"), ("a/c/d", "2"), ("a-", "3")]);
        let steps: Vec<Vec<u8>> = tree.list(b"").into_keys().collect();
        assert_eq!(steps, [b"a".to_vec(), b"a-".to_vec()]);
        assert_eq!(tree.list(b"a")[&b"c"[..]], Listed::Dir);
        assert!(tree.list(b"a/b").is_empty());
    }

    #[test]
    fn a_tree_moves_with_all_it_holds() {
        let mut tree = model(&[("a/b", "1"), ("a/c/d", "2"), ("x/y", "3")]);
        let part = tree.subtree(b"a").unwrap();
        tree.add_tree(b"x/y", &part);
        assert_eq!(tree, model(&[("a/b", "1"), ("a/c/d", "2"), ("x/y/b", "1"), ("x/y/c/d", "2")]));
        tree.add_tree(b"x", &Model::new());
        assert!(!tree.is_dir(b"x") && tree.subtree(b"x").is_none());
    }

    #[test]
    fn differences_are_at_the_paths_that_changed() {
        let (before, after) = (model(&[("a", "1"), ("b", "2")]), model(&[("b", "3"), ("c/d", "4")]));
        let paths: Vec<&[u8]> = before.diff(&after).into_keys().collect();
        assert_eq!(paths, [&b"a"[..], b"b", b"c/d"]);
        assert!(before.diff(&before).is_empty());
    }

    #[test]
    fn branches_move_by_compare_and_set() {
        let mut history = History::new();
        let first = history.commit("main", &model(&[("a", "1")]), b"one");
        let second = history.commit("main", &model(&[("a", "2")]), b"two");
        assert_eq!(history.get(second).parents, [first]);
        assert!(!history.compare_and_set("main", Some(first), None));
        assert!(history.compare_and_set("main", Some(second), Some(first)));
        assert_eq!(history.tree("main"), model(&[("a", "1")]));
    }
}
