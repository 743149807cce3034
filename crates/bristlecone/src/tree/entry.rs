//! An entry of a directory, whose value is read when it is asked for.

use bristlecone_core::{Bytes, EntryKind, Format, ObjRef, Oid, Target, native::Native};

use super::{Binding, DirRef, NewLeaf, Tree};
use crate::{Result, merge::Version};

/// An entry of a directory.
#[derive(Clone, Debug)]
pub struct DirEntry<'t, F: Format = Native> {
    tree: &'t Tree<F>,
    step: Bytes<'t>,
    pub(super) binding: Binding<'t>,
    // The value of an object, if it was read ahead.
    pub(super) value: Option<Bytes<'t>>,
}

impl<'t, F: Format> DirEntry<'t, F> {
    pub(super) const fn new(tree: &'t Tree<F>, step: Bytes<'t>, binding: Binding<'t>) -> Self {
        Self { tree, step, binding, value: None }
    }

    /// Returns the step with the value; without one if the entry is no value.
    pub(crate) fn into_step(self) -> Result<(Bytes<'t>, Option<Bytes<'t>>)> {
        let value = self.contents()?;
        Ok((self.step, value))
    }

    /// Returns what a merge calls it; `None` for a directory, and for what is not written yet.
    pub(crate) fn version(&self) -> Option<Version> {
        match &self.binding {
            Binding::Stored(kind, target) => Some(Version::new(*kind, target.clone())),
            _ => None,
        }
    }

    /// Returns the step that it is bound to.
    #[must_use]
    pub fn step(&self) -> &[u8] {
        &self.step
    }

    /// Returns what it is.
    #[must_use]
    pub const fn kind(&self) -> EntryKind {
        self.binding.kind()
    }

    /// Returns the value's length in bytes, without loading it; `None` if it is no value, and where the format's
    /// directories do not say how long values are, as Git's do not.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        match &self.binding {
            Binding::Stored(_, Target::Inline(bytes)) => Some(bytes.len() as u64),
            Binding::Stored(kind, Target::Object { bytes, .. }) if kind.has_contents() => {
                Some(*bytes).filter(|&bytes| bytes != Target::UNKNOWN_BYTES)
            }
            Binding::Leaf(NewLeaf::Short { bytes, .. }) => Some(bytes.len() as u64),
            Binding::Leaf(NewLeaf::Shared { value, .. }) => Some(value.as_bytes().len() as u64),
            Binding::Leaf(NewLeaf::Stored { bytes, .. }) => Some(*bytes),
            _ => None,
        }
    }

    /// Returns the value's length in bytes, loading the value if nothing else tells; `None` if it is no value.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn length(&self) -> Result<Option<u64>> {
        match self.bytes() {
            Some(bytes) => Ok(Some(bytes)),
            None => Ok(self.contents()?.map(|bytes| bytes.len() as u64)),
        }
    }

    /// Returns the value; `None` if the entry is no value.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn contents(&self) -> Result<Option<Bytes<'t>>> {
        match &self.value {
            Some(value) => Ok(Some(value.clone())),
            None => self.tree.contents(&self.binding),
        }
    }

    /// Returns `range` of the value, loading only the pieces of a large one that it touches. What lies
    /// beyond the end is left out; a range that ends before it starts is empty.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn read(&self, range: std::ops::Range<u64>) -> Result<Option<Bytes<'t>>> {
        match &self.binding {
            Binding::Stored(kind, Target::Object { at, .. }) if kind.has_contents() && self.value.is_none() => {
                self.tree.read_value(at, range).map(Some)
            }
            Binding::Leaf(NewLeaf::Stored { at, .. }) => self.tree.read_value(at, range).map(Some),
            _ => Ok(self.contents()?.map(|bytes| {
                let end = range.end.min(bytes.len() as u64);
                bytes.slice(range.start.min(end) as usize..end as usize)
            })),
        }
    }

    /// Returns the directory as a tree of its own; `None` if the entry is no directory.
    #[must_use]
    pub fn tree(&self) -> Option<Tree<F>> {
        match &self.binding {
            Binding::Dir(dir) => Some(self.tree.subtree(dir)),
            _ => None,
        }
    }

    /// Returns the foreign id; `None` if the entry is no foreign id.
    #[must_use]
    pub const fn foreign(&self) -> Option<Oid> {
        match &self.binding {
            Binding::Stored(_, Target::Foreign(oid)) | Binding::Leaf(NewLeaf::Foreign(oid)) => Some(*oid),
            _ => None,
        }
    }

    /// Returns the object that the entry is stored as; `None` for inline values and pending edits.
    #[must_use]
    pub const fn object(&self) -> Option<ObjRef> {
        match &self.binding {
            Binding::Stored(_, Target::Object { at, .. }) => Some(*at),
            Binding::Dir(DirRef { patch: None, base, .. }) => *base,
            _ => None,
        }
    }
}
