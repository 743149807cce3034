//! Editing: finding the directory in the patch, and the value's way into it.

use std::sync::Arc;

use bristlecone_core::{EntryKind, Format, Location, ObjRef, Path};
use smallvec::SmallVec;

use super::{
    Tree,
    parts::{dir_bytes, edit_bytes},
    patch::{self, ActiveDir, NewLeaf, Patch, PatchBase, PatchEdit},
};
use crate::{
    Error, NewValue, Repo, Result, VALUE_BYTES_MAX,
    store::{StoreView, prewrite},
    swept::SWEPT_RETRIES_MAX,
    value::BackendOwner,
};

/// Values of this many bytes and more are hashed and written when they are set.
const PREWRITTEN_BYTES_MIN: usize = 4096;
/// Values of up to this many bytes are copied into the patch.
const SHORT_BYTES: usize = 48;

impl<F: Format> Tree<F> {
    /// Applies one edit at a path other than the root.
    #[inline]
    pub(super) fn edit(&mut self, path: &Path, edit: PatchEdit) -> Result<()> {
        let Some((parent, step)) = path.split_last() else { return Err(Error::RootPath) };
        self.count_pending(edit_bytes(step, &edit))?;
        let dir = self.edited_parent(parent, !matches!(edit, PatchEdit::Remove));
        let Some(dir) = dir else { return Ok(()) };
        if let PatchEdit::Leaf(leaf) = edit {
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
    fn set_over_edits(&mut self, path: &Path, leaf: NewLeaf) -> Result<()> {
        if self.kind(path)? == Some(EntryKind::Dir) {
            return Err(Error::IsDirectory { path: path.clone() });
        }
        let Some((parent, step)) = path.split_last() else { return Err(Error::RootPath) };
        if let Some(dir) = self.edited_parent(parent, true) {
            dir.set_over(step, leaf);
        }
        Ok(())
    }

    /// Returns the patch of a directory, to be edited; `None` where nothing is, and so nothing is to be removed.
    #[inline]
    fn edited_parent(&mut self, parent: &[u8], replaces_value: bool) -> Option<&mut Patch> {
        let here = |active: &ActiveDir| active.parent == parent && (active.patch.replaces_value || !replaces_value);
        if !self.active.as_ref().is_some_and(here) {
            let kept = self.attach_active();
            let base = self.base;
            let root = self.patch.get_or_insert_with(|| Arc::new(Patch::new(PatchBase::Own(base))));
            if parent.is_empty() {
                return Some(Arc::make_mut(root));
            }
            if !replaces_value && patch::is_blocked(root, parent) {
                return None;
            }
            let active = patch::detach(root, parent, replaces_value, kept);
            if active.patch.len() == 0 {
                self.pending = self.pending.saturating_add(dir_bytes());
            }
            self.active = Some(active);
        }
        self.active.as_mut().map(|active| Arc::make_mut(&mut active.patch))
    }

    /// Attaches the active directory to the patch again, and returns what its path was kept in.
    pub(super) fn attach_active(&mut self) -> Vec<u8> {
        self.active.take().map_or_else(Vec::new, |active| {
            let root = self.patch.as_mut().expect("an active directory has a patch that it was detached from");
            patch::attach(root, active)
        })
    }

    /// Makes a leaf of a value.
    #[inline]
    pub(super) fn leaf(&mut self, kind: EntryKind, value: NewValue<'_>) -> Result<NewLeaf> {
        let bytes = value.as_bytes();
        if bytes.len() <= SHORT_BYTES {
            // From a slice, since `into` copies byte by byte.
            return Ok(NewLeaf::Short { kind, bytes: SmallVec::from_slice(bytes) });
        }
        let length = bytes.len() as u64;
        if length < PREWRITTEN_BYTES_MIN as u64 {
            let value = match value {
                NewValue::Bytes(bytes) => crate::Value::new(bytes),
                NewValue::Value(value) => value,
            };
            return Ok(NewLeaf::Shared { kind, value });
        }
        if length > VALUE_BYTES_MAX {
            return Err(Error::TooLarge { what: "a value", bytes: length, bytes_max: VALUE_BYTES_MAX });
        }
        let owner = (self.store.backend_number, self.store.backend.sweeps());
        let at = match &value {
            NewValue::Value(shared) => shared.stored(owner),
            NewValue::Bytes(_) => None,
        };
        match at.filter(|at| self.keeps(at, owner.1)) {
            Some(at) => Ok(NewLeaf::Stored { kind, at, bytes: length }),
            None => self.put_leaf(kind, &value, owner),
        }
    }

    /// Keeps a value that was there after `sweeps` sweeps; returns whether it is still there.
    fn keeps(&self, at: &ObjRef, sweeps: u64) -> bool {
        self.store.snapshot.keep(&at.oid);
        self.store.backend.sweeps() == sweeps
    }

    /// Hashes a large value and adds it to the prewritten values.
    fn put_leaf(&mut self, kind: EntryKind, value: &NewValue<'_>, owner: BackendOwner) -> Result<NewLeaf> {
        let bytes = value.as_bytes();
        let at = prewrite(&self.store, self.prewritten.get_or_insert_default(), bytes)?;
        if let NewValue::Value(shared) = value
            && let Some(prewritten) = &self.prewritten
        {
            // A shared value may be set in a tree that does not share the prewritten values of this one.
            match crate::store::flush_prewritten(&self.store, prewritten) {
                Ok(()) => {
                    let location = self.store.snapshot.locate(&at.oid);
                    shared.set_stored(owner, ObjRef::new(at.oid, location.unwrap_or(at.at)));
                }
                // The tree can be edited and hashed all the same.
                Err(Error::ReadOnly) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(NewLeaf::Stored { kind, at, bytes: bytes.len() as u64 })
    }

    /// Returns base and patch of `tree` for use in this tree, and about how much memory the edits take; copies its objects where
    /// they are in another backend, or else what lies at its paths.
    pub(super) fn adopt(&mut self, tree: &Self) -> Result<(Option<ObjRef>, Option<Arc<Patch>>, usize)> {
        if Arc::ptr_eq(&tree.store.backend, &self.store.backend) {
            let mut tree = tree.clone();
            tree.attach_active();
            tree.rebase()?;
            if let Some(patch) = &mut tree.patch {
                Arc::make_mut(patch).base = PatchBase::Own(tree.base);
            }
            return Ok((tree.base, tree.patch, tree.pending));
        }
        if let Some(root) = self.copy_root(tree)? {
            return Ok((Some(root), None, 0));
        }
        let mut copy = self.beginning();
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
        copy.attach_active();
        Ok((copy.base, copy.patch, copy.pending))
    }

    /// Returns an empty tree that is to be put into this one: large values that are set in it are prewritten for both.
    pub(super) fn beginning(&mut self) -> Self {
        let mut tree = Self::at(self.store.clone(), None);
        tree.prewritten = Some(self.prewritten.get_or_insert_default().clone());
        tree
    }

    /// Copies the objects of a tree of another backend and returns the root; `None` where they would be others here, or nothing can
    /// be written.
    fn copy_root(&mut self, tree: &Self) -> Result<Option<ObjRef>> {
        if self.store.partial || !self.store.takes_objects_of(&tree.store) {
            return Ok(None);
        }
        let (root, shown) = tree.unwritten()?;
        let here = Repo::of(self.store.shared.clone());
        for _ in 0..SWEPT_RETRIES_MAX {
            match here.copy_shown(&shown, &[root], &mut |_| ()) {
                Ok(_) => {}
                Err(Error::ReadOnly) => return Ok(None),
                Err(error) => return Err(error),
            }
            // The snapshot of this tree keeps what was appended since. What was there before is kept first and then looked for.
            let kept = self.store.backend.snapshot(&[root.oid]);
            if !is_whole_dir(&self.store.with(kept.clone()), &root)? {
                continue;
            }
            // What another process drops is read through this one.
            self.hold(&[kept]);
            let place = self.store.snapshot.locate(&root.oid);
            return Ok(Some(ObjRef::new(root.oid, place.unwrap_or(Location::NONE))));
        }
        Err(Error::Gone { oids: vec![root.oid] })
    }
}

/// Whether an object is there, which fails where it stands for no whole directory, as a piece of one does that was copied.
fn is_whole_dir<F: Format>(store: &StoreView<F>, root: &ObjRef) -> Result<bool> {
    let Some(object) = store.snapshot.read(&root.oid.into())? else { return Ok(false) };
    let mut checked = store.take_checked();
    let done = store.format.check_structure(store, &object, true, &mut checked);
    store.keep_checked(checked);
    match done {
        Err(Error::Format(source)) => Err(Error::BadObject { oid: root.oid, source }),
        done => done.map(|()| true),
    }
}
