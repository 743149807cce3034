//! Stores of any format in any backend, as a program that is given their places uses them.

mod checks;
mod copies;
mod folders;
mod places;
mod revisions;

use bristlecone::{Info, ObjRef};
use bristlecone_any::AnyRepo;

/// Sets values in a branch, as one commit.
fn commit(repo: &AnyRepo, branch: &str, values: &[(&str, &str)]) -> ObjRef {
    let branch = repo.branch(branch).unwrap();
    let mut tree = branch.tree().unwrap();
    for (path, value) in values {
        tree.set(*path, *value).unwrap();
    }
    branch.commit(&mut tree, &Info::message(format!("set {}", values[0].0))).unwrap().into()
}

/// Returns a value at the head of a branch.
fn value(repo: &AnyRepo, branch: &str, path: &str) -> Option<Vec<u8>> {
    let tree = repo.branch(branch).unwrap().tree().unwrap();
    tree.get(path).unwrap().map(|bytes| bytes.to_vec())
}
