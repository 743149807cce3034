//! A reader that remembers the directory it was in.

use bristlecone_core::{AsPath, Bytes, Format, native::Native};

use super::{Place, Tree};
use crate::Result;

/// Looks paths up in one tree and remembers the last directory, so that a run of lookups in one place does
/// not walk the path again. Each thread has its own.
#[derive(Debug)]
pub struct Reader<'t, F: Format = Native> {
    tree: &'t Tree<F>,
    parent: Vec<u8>,
    place: Option<Place<'t>>,
}

impl<F: Format> Tree<F> {
    /// Returns a reader of this tree.
    #[must_use]
    pub fn reader(&self) -> Reader<'_, F> {
        Reader { tree: self, parent: Vec::new(), place: Some(self.layered_root()) }
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
            self.place = self.tree.walk_layered(parent)?;
            self.parent.clear();
            self.parent.extend_from_slice(parent);
        }
        match &self.place {
            Some(place) => self.tree.find_in(place, step),
            None => Ok(None),
        }
    }
}
