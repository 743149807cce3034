//! A reader that remembers the directory it was in.

use bristlecone_core::{AsPath, Bytes, Format, native::Native};

use super::{DirRef, Tree};
use crate::Result;

/// Looks paths up in one tree and remembers the last directory, so that a run of lookups in one directory does not walk
/// the path again. Each thread has its own.
#[derive(Debug)]
pub struct Reader<'t, F: Format = Native> {
    tree: &'t Tree<F>,
    parent: Vec<u8>,
    dir: Option<DirRef<'t>>,
}

impl<F: Format> Tree<F> {
    /// Returns a reader of this tree.
    #[must_use]
    pub fn reader(&self) -> Reader<'_, F> {
        Reader { tree: self, parent: Vec::new(), dir: Some(self.root_in_flight()) }
    }
}

impl<'t, F: Format> Reader<'t, F> {
    /// As [`Tree::get`].
    ///
    /// # Errors
    /// As [`Tree::get`].
    #[inline]
    pub fn get(&mut self, path: impl AsPath) -> Result<Option<Bytes<'t>>> {
        let path = path.as_path()?;
        let Some((parent, step)) = path.split_last() else { return Ok(None) };
        if self.parent != parent {
            self.dir = self.tree.walk_in_flight(parent)?;
            self.parent.clear();
            self.parent.extend_from_slice(parent);
        }
        match &self.dir {
            Some(dir) => self.tree.find_in(dir, step),
            None => Ok(None),
        }
    }
}
