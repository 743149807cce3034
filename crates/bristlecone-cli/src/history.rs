//! Walking commits: newest first, or children before parents; all, or those that changed a path.

use std::{
    collections::{BinaryHeap, HashSet},
    ops::ControlFlow,
};

use bristlecone::{Commit, EntryKind, ObjRef, Oid, Path};

use crate::{failure::Result, open::Opened};

/// Which commits to walk, and how.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    /// Every child before its parents, whatever their dates.
    pub(crate) topological: bool,
    /// Only commits that changed what is at this path.
    pub(crate) path: Option<Path>,
}

/// A commit on the way, ordered by what comes first.
struct Waiting {
    key: (i128, i128),
    at: ObjRef,
    commit: Commit,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.key, self.at.oid).cmp(&(other.key, other.at.oid))
    }
}

impl Walk {
    /// Calls `each` for the commits that lead to `from`, until it breaks.
    pub(crate) fn run(
        &self,
        opened: &Opened,
        from: ObjRef,
        each: &mut dyn FnMut(&ObjRef, &Commit) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let mut seen = HashSet::from([from.oid]);
        let mut heap = BinaryHeap::from([self.waiting(opened, from)?]);
        while let Some(Waiting { at, commit, .. }) = heap.pop() {
            if self.changes(opened, &commit)? && each(&at, &commit)?.is_break() {
                return Ok(());
            }
            for parent in &commit.parents {
                if seen.insert(parent.oid) {
                    heap.push(self.waiting(opened, *parent)?);
                }
            }
        }
        Ok(())
    }

    fn waiting(&self, opened: &Opened, at: ObjRef) -> Result<Waiting> {
        let commit = opened.repo.commit(at)?;
        let generation = i128::from(opened.repo.generation(at)?);
        let seconds = i128::from(commit.committer.seconds);
        let key = if self.topological { (generation, seconds) } else { (seconds, generation) };
        Ok(Waiting { key, at, commit })
    }

    /// Whether the commit has something else at the path than each of its parents.
    fn changes(&self, opened: &Opened, commit: &Commit) -> Result<bool> {
        let Some(path) = &self.path else { return Ok(true) };
        let here = content(opened, commit, path)?;
        for parent in &commit.parents {
            if content(opened, &opened.repo.commit(*parent)?, path)? == here {
                return Ok(false);
            }
        }
        Ok(!commit.parents.is_empty() || here.is_some())
    }
}

/// What is at a path, comparable without loading it.
#[derive(PartialEq, Eq)]
enum Content {
    Object(EntryKind, Oid),
    Inline(EntryKind, Vec<u8>),
}

fn content(opened: &Opened, commit: &Commit, path: &Path) -> Result<Option<Content>> {
    if path.is_root() {
        return Ok(Some(Content::Object(EntryKind::Dir, commit.tree.oid)));
    }
    let tree = opened.repo.tree_at(commit.tree);
    let Some(entry) = tree.get(path)? else { return Ok(None) };
    let kind = entry.kind();
    Ok(Some(match (entry.object(), entry.foreign()) {
        (Some(at), _) => Content::Object(kind, at.oid),
        (None, Some(oid)) => Content::Object(kind, oid),
        (None, None) => Content::Inline(kind, entry.contents()?.unwrap_or_else(|| (&[][..]).into()).to_vec()),
    }))
}
