//! Behaviour of the Git crate, with real `git` as the judge.

mod odb;
mod backend;
mod git;
