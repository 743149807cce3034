//! What a commit changes in a working tree, and why a working tree cannot follow.

use bristlecone::{EntryKind, Error, Oid, Result};

/// A file or link as a tree has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeItem {
    /// What it is; no directory.
    pub kind: EntryKind,
    /// The id of its contents, or of the commit of a submodule.
    pub oid: Oid,
}

/// A path at which a commit differs from the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Where, from the top: steps separated by slashes.
    pub path: Vec<u8>,
    /// What was there.
    pub before: Option<TreeItem>,
    /// What is there then.
    pub after: Option<TreeItem>,
}

/// Why a working tree cannot follow a commit. Nothing has changed.
#[derive(Debug)]
pub enum Refusal {
    /// These paths cannot: each with a reason.
    Paths(Vec<(Vec<u8>, String)>),
    /// The working tree as a whole cannot: why, and what to do.
    Whole(String),
    /// Something failed.
    Failed(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// What a working tree did to follow a commit.
#[derive(Debug, Default)]
pub struct Followed {
    /// How many files and links were written.
    pub written: u64,
    /// How many were removed.
    pub removed: u64,
    /// Paths that could not follow, each with a reason: file and index entry are as they were, and differ from the
    /// commit.
    pub failed: Vec<(Vec<u8>, String)>,
}

/// Gives the bytes of a file or link in the tree of the commit, by path; `None` where nothing is bound.
pub type ReadFile<'a> = &'a mut dyn FnMut(&[u8]) -> Result<Option<Vec<u8>>>;
