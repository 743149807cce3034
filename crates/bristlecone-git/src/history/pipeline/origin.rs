//! Where in a commit a damaged object is.

use std::collections::HashSet;

use bristlecone::{
    EntryKind, Oid,
    core::git::{self, Algorithm},
};

use crate::history::{
    error::Origin,
    objects::{CommitHead, Objects},
};

/// How many trees are looked through.
const TREES_MAX: usize = 100_000;

/// Returns where a commit holds an object, as far as that can be found.
pub(crate) fn origin(objects: &impl Objects, algorithm: Algorithm, commit: Option<&Oid>, wanted: &Oid) -> Origin {
    let Some(commit) = commit else { return Origin::History };
    Origin::Path(*commit, path(objects, algorithm, commit, wanted).unwrap_or_default())
}

fn path(objects: &impl Objects, algorithm: Algorithm, commit: &Oid, wanted: &Oid) -> Option<Vec<u8>> {
    let mut raw = Vec::new();
    objects.read(commit, &mut raw).ok()??;
    let root = CommitHead::parse(algorithm.oid_bytes(), &raw)?.tree;
    let mut seen = HashSet::from([root]);
    let mut stack = vec![(root, Vec::new())];
    while let Some((tree, path)) = stack.pop() {
        if objects.read(&tree, &mut raw).ok().flatten().is_none() {
            continue;
        }
        for entry in git::raw_entries(algorithm, &raw).map_while(Result::ok) {
            let (oid, mut at) = (entry.oid(), path.clone());
            at.extend_from_slice(entry.name);
            if oid == *wanted {
                return Some(at);
            }
            if entry.kind() == EntryKind::Dir && seen.len() < TREES_MAX && seen.insert(oid) {
                at.push(b'/');
                stack.push((oid, at));
            }
        }
    }
    None
}
