//! Editing: finding the place in the patch, and the value's way into it.

use std::sync::Arc;

use bristlecone_core::{EntryKind, Format, ObjRef, Path};

use super::{
    Tree,
    patch::{self, Base, Edit, Finger, Leaf, Patch},
};
use crate::{
    Error, NewValue, Result, VALUE_BYTES_MAX,
    store::{Store, put_early},
    value::Owner,
};

/// Values of so many bytes and more are hashed and written when they are set.
const EARLY_VALUE_BYTES: usize = 4096;
/// Values of up to so many bytes are copied into the patch.
const SHORT_BYTES: usize = 48;

impl<F: Format> Tree<F> {
    /// Applies one edit at a path other than the root.
    #[inline]
    pub(super) fn edit(&mut self, path: &Path, edit: Edit) -> Result<()> {
        let Some((parent, step)) = path.split_last() else { return Err(Error::RootPath) };
        let dir = self.edited_parent(parent, !matches!(edit, Edit::Remove));
        let Some(dir) = dir else { return Ok(()) };
        if let Edit::Leaf(leaf) = edit {
            if let Some(leaf) = dir.set_leaf(step, leaf) {
                return self.set_over_edits(path, leaf);
            }
        } else {
            dir.set(step, edit);
        }
        Ok(())
    }

    /// Sets a value where edits below a directory are pending, if they leave nothing there.
    #[cold]
    fn set_over_edits(&mut self, path: &Path, leaf: Leaf) -> Result<()> {
        if self.kind(path)? == Some(EntryKind::Dir) {
            return Err(Error::IsDirectory { path: path.clone() });
        }
        self.edit(path, Edit::Over(leaf))
    }

    /// Returns the patch of a directory, to be edited; `None` where nothing is, and so nothing is to be removed.
    #[inline]
    fn edited_parent(&mut self, parent: &[u8], covers: bool) -> Option<&mut Patch> {
        let here = |finger: &Finger| finger.parent == parent && (finger.patch.covers || !covers);
        if !self.finger.as_deref().is_some_and(here) {
            self.settle();
            let base = self.base;
            let root = self.patch.get_or_insert_with(|| Arc::new(Patch::new(Base::Own(base))));
            if parent.is_empty() {
                return Some(Arc::make_mut(root));
            }
            if !covers && patch::is_blocked(root, parent) {
                return None;
            }
            self.finger = Some(Box::new(patch::take_out(root, parent, covers)));
        }
        self.finger.as_mut().map(|finger| Arc::make_mut(&mut finger.patch))
    }

    /// Puts the finger's directory back.
    pub(super) fn settle(&mut self) {
        if let Some(finger) = self.finger.take() {
            let root = self.patch.as_mut().expect("a finger has a patch that it was taken from");
            patch::put_back(root, &finger);
        }
    }

    /// Makes a leaf of a value.
    #[inline]
    pub(super) fn leaf(&mut self, kind: EntryKind, value: NewValue<'_>) -> Result<Leaf> {
        let bytes = value.as_bytes();
        if bytes.len() <= SHORT_BYTES {
            return Ok(Leaf::Short { kind, bytes: bytes.into() });
        }
        let length = bytes.len() as u64;
        if length < EARLY_VALUE_BYTES as u64 {
            let value = match value {
                NewValue::Bytes(bytes) => crate::Value::new(bytes),
                NewValue::Value(value) => value,
            };
            return Ok(Leaf::Shared { kind, value });
        }
        if length > VALUE_BYTES_MAX {
            return Err(Error::TooLarge { what: "a value", bytes: length, bytes_max: VALUE_BYTES_MAX });
        }
        let owner = (owner(&self.store), self.store.backend.sweeps());
        let at = match &value {
            NewValue::Value(shared) => shared.stored(owner),
            NewValue::Bytes(_) => None,
        };
        match at.filter(|at| self.keeps(at, owner.1)) {
            Some(at) => Ok(Leaf::Stored { kind, at, bytes: length }),
            None => self.put_leaf(kind, &value, owner),
        }
    }

    /// Keeps a value that was there after so many sweeps; returns whether it is still there.
    fn keeps(&self, at: &ObjRef, sweeps: u64) -> bool {
        self.store.snapshot.keep(&at.oid);
        self.store.backend.sweeps() == sweeps
    }

    /// Hashes a large value and puts it on its way.
    fn put_leaf(&mut self, kind: EntryKind, value: &NewValue<'_>, owner: Owner) -> Result<Leaf> {
        let bytes = value.as_bytes();
        let at = put_early(&self.store, self.early.get_or_insert_default(), bytes)?;
        if let NewValue::Value(shared) = value
            && let Some(early) = &self.early
        {
            // A shared value may be set in a tree that does not share what is on its way here.
            crate::store::flush_early(&self.store, early)?;
            let place = self.store.snapshot.locate(&at.oid);
            shared.set_stored(owner, ObjRef::new(at.oid, place.unwrap_or(at.at)));
        }
        Ok(Leaf::Stored { kind, at, bytes: bytes.len() as u64 })
    }

    /// Returns base and patch of `tree` for use in this tree, copying its objects where they are in another
    /// backend.
    pub(super) fn adopt(&mut self, tree: &Self) -> Result<(Option<ObjRef>, Option<Arc<Patch>>)> {
        if owner(&tree.store) == owner(&self.store) {
            let mut tree = tree.clone();
            tree.settle();
            tree.rebase()?;
            if let Some(patch) = &mut tree.patch {
                Arc::make_mut(patch).base = Base::Own(tree.base);
            }
            return Ok((tree.base, tree.patch));
        }
        let mut copy = Self::at(self.store.clone(), None);
        for entry in tree.walk_all("")? {
            let (path, entry) = entry?;
            match (entry.kind(), entry.contents()?) {
                (EntryKind::Dir, _) => {}
                (kind, Some(bytes)) => copy.set_kind(&path, kind, &bytes[..])?,
                (_, None) => {
                    if let Some(oid) = entry.foreign() {
                        copy.set_foreign(&path, oid)?;
                    }
                }
            }
        }
        copy.settle();
        if let Some(early) = &copy.early {
            crate::store::flush_early(&copy.store, early)?;
        }
        Ok((copy.base, copy.patch))
    }
}

/// Tells backends of this process apart.
fn owner<F>(store: &Store<F>) -> usize {
    Arc::as_ptr(&store.backend).cast::<()>() as usize
}
