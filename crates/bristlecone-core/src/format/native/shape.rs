//! What a directory looks like in pieces, for those who draw it or measure it.

use super::{
    bad,
    cursor::view,
    node::{NodeView, Said},
};
use crate::{FormatError, Kind, ObjRef, Object};

/// One piece of a directory: a leaf (level 0), whose items are entries, or one above, whose items are pieces of the level
/// below. A directory is its piece of the highest level.
pub struct Piece<'b> {
    object: &'b Object<'b>,
    node: NodeView<'b>,
}

/// A piece as the one above it names it.
#[derive(Clone, Copy, Debug)]
pub struct PieceChild<'b> {
    /// The step that its first entry may have at least.
    pub first: &'b [u8],
    /// Where it is.
    pub at: ObjRef,
    /// How many entries are below it.
    pub entries: u64,
}

impl<'b> Piece<'b> {
    /// Reads the header of a piece.
    ///
    /// # Errors
    /// [`FormatError`] if the object is no piece of a directory, or its header makes no sense.
    pub fn new(object: &'b Object<'b>) -> Result<Self, FormatError> {
        Ok(Self { object, node: view(object)? })
    }

    /// Returns the level; 0 is that of the leaves.
    #[must_use]
    pub const fn level(&self) -> u8 {
        self.node.level
    }

    /// Returns how many items the piece has.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.node.len()
    }

    /// Whether the piece has no items: that of an empty directory.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the step of the first item, if there is one.
    ///
    /// # Errors
    /// [`FormatError::Decode`] if it makes no sense.
    pub fn first(&self) -> Result<Option<&'b [u8]>, FormatError> {
        if self.is_empty() { Ok(None) } else { self.node.step(0).map(Some).map_err(bad(Kind::Node)) }
    }

    /// Returns how many entries are in the piece or below it.
    ///
    /// # Errors
    /// [`FormatError::Decode`] if an item makes no sense.
    pub fn entries(&self) -> Result<u64, FormatError> {
        self.node.count().map_err(bad(Kind::Node))
    }

    /// Returns the bytes of all values that entries of a leaf name and that are objects of their own; 0 above the leaves.
    ///
    /// # Errors
    /// [`FormatError::Decode`] if an item makes no sense.
    pub fn far_bytes(&self) -> Result<u64, FormatError> {
        let mut total = 0_u64;
        if self.level() == 0 {
            for index in 0..self.len() {
                if let (_, Said::Value { bytes, .. }) = self.node.said(index).map_err(bad(Kind::Node))? {
                    total = total.saturating_add(bytes);
                }
            }
        }
        Ok(total)
    }

    /// Returns the piece that item `index` names, counted from zero; `None` for a leaf, or if there are fewer.
    ///
    /// # Errors
    /// [`FormatError::Decode`] if the item makes no sense.
    pub fn child(&self, index: usize) -> Result<Option<PieceChild<'b>>, FormatError> {
        if self.level() == 0 || index >= self.len() {
            return Ok(None);
        }
        let child = self.node.child(index).map_err(bad(Kind::Node))?;
        let at = ObjRef::new(child.oid, self.object.child(index));
        Ok(Some(PieceChild { first: child.step, at, entries: child.count }))
    }
}
