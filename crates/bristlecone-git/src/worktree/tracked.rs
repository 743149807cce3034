//! What the index has, for callers that only read it.

use std::path::{Path, PathBuf};

use super::{
    change::{Refusal, TreeItem},
    index::Index,
    view::read_index,
};
use crate::repository::layout::Layout;

/// The paths that the index has. It is read once and without a lock: Git replaces the file as a whole.
#[derive(Debug)]
pub struct Tracked {
    worktree: PathBuf,
    index: Index,
}

impl Tracked {
    /// Reads the index of the working tree; `None` of a bare repository.
    ///
    /// # Errors
    /// [`Refusal::Whole`] for an index that is not understood; [`Refusal::Failed`] with [`bristlecone::Error::Corrupt`]
    /// or [`bristlecone::Error::Io`].
    pub fn of(layout: &Layout) -> Result<Option<Self>, Refusal> {
        let Some(worktree) = &layout.worktree else { return Ok(None) };
        let (index, _) = read_index(layout)?;
        Ok(Some(Self { worktree: worktree.clone(), index }))
    }

    /// Returns the folder that the paths are below.
    #[must_use]
    pub fn worktree(&self) -> &Path {
        &self.worktree
    }

    /// Returns what the index has at a path. Of the sides of a conflict it is the first.
    #[must_use]
    pub fn item(&self, path: &[u8]) -> Option<TreeItem> {
        self.index.get(path).map(|entry| TreeItem { kind: entry.kind(), oid: entry.oid })
    }

    /// Whether the index has something below the folder `path`.
    #[must_use]
    pub fn has_below(&self, path: &[u8]) -> bool {
        path.is_empty() || self.index.below(path).next().is_some()
    }

    /// Returns what a sparse checkout leaves out, with its paths.
    pub fn skipped(&self) -> impl Iterator<Item = (&[u8], TreeItem)> {
        self.index.skipped().map(|entry| (self.index.path(entry), TreeItem { kind: entry.kind(), oid: entry.oid }))
    }
}
