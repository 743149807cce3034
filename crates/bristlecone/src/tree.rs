//! The tree: a lazy view of a directory and all below it, with edits that wait in memory.
//!
//! A tree is a root (an object of the store, or nothing) and a patch: the edits since, as a tree of sorted
//! maps of its own. Lookups go through the patch into the stored objects and load what they pass; edits
//! touch the patch alone, without hashing and without I/O, until it takes more memory than it may. Committing merges
//! the patch into the objects, directory by directory from the leaves up; a large one in parts.
//!
//! Trees are values: cloning one shares the patch until either is edited.

use std::sync::Arc;

use bristlecone_core::{
    AsPath, Bytes, CommitId, EntryKind, Format, ObjRef, Oid, PATH_STEPS_MAX, Path, PathError, TreeId, native::Native,
};

use self::{
    in_flight::{CommitTicket, InFlight},
    lookup::Binding,
    patch::{ActiveDir, DirRef, NewLeaf, Patch, PatchBase, PatchEdit},
    remembered::Remembered,
};
use crate::{
    Error, NewValue, Result, Snapshot, StoredValue,
    repo::Stored,
    store::{Prewritten, StoreView, flush_prewritten},
};

mod cursor;
mod diff;
mod edit;
mod edited;
mod entry;
mod flush;
mod in_flight;
mod list;
mod listing;
mod lookup;
mod parts;
mod patch;
mod plain;
mod prune;
mod reader;
mod remembered;
mod step_diff;
mod steps;
mod walk;

pub use cursor::Cursor;
pub use diff::{Difference, Differences};
pub use entry::DirEntry;
pub use in_flight::WritingTree;
pub use list::Entries;
pub use listing::Listing;
pub(crate) use parts::PENDING_BYTES_MAX;
pub(crate) use patch::StepEdit;
pub use plain::{PlainTree, TreeStats};
pub use reader::Reader;
pub(crate) use step_diff::StepDifferences;
pub(crate) use steps::{StepChange, StepValue};
pub use walk::Walk;

/// How many levels a stored directory of which nothing else is known is taken to have, at most.
const STORED_LEVELS: u16 = (PATH_STEPS_MAX - 64) as u16;

/// A directory of the store with all below it, and edits that are not committed yet.
///
/// **Law (roots).** The root of a tree is a function of its contents and the format's options alone.
///
/// **Law (empty).** Trees make no empty directory: with its last entry a directory is gone. One that an import stored is
/// a directory without entries; what is removed below it leaves it, what is added below it takes its place.
///
/// What is set is spelled by Git as usual; an entry that was imported with another mode keeps it until then.
///
/// ```
/// # use bristlecone::Repo;
/// let repo = Repo::memory();
/// let (mut one, mut other) = (repo.tree(), repo.tree());
/// one.set("a/b", b"1")?;
/// one.set("c", b"2")?;
/// other.set("c", b"0")?;
/// other.set("a/b", b"1")?;
/// other.set("c", b"2")?;
/// assert_eq!(one.root()?, other.root()?);
/// # Ok::<(), bristlecone::Error>(())
/// ```
#[derive(Debug)]
pub struct Tree<F: Format = Native> {
    pub(crate) store: Arc<StoreView<F>>,
    // What keeps the parts that came from other trees, until they are written here.
    held: Vec<Arc<dyn Snapshot>>,
    base: Option<ObjRef>,
    // An upper bound for the steps of the longest path in the base.
    levels: u16,
    patch: Option<Arc<Patch>>,
    // About the memory that the edits take, or more.
    pending: usize,
    // What they took when they were written last before the commit.
    pending_most: usize,
    // The directory edited last, detached from the patch so that a run of edits in it does not walk the path again.
    // `PatchEdit::Detached` stands where it belongs.
    active: Option<ActiveDir>,
    prewritten: Option<Prewritten>,
    pub(crate) origin: Option<ObjRef>,
    // Commits in flight that this tree goes on from, the newest first. The base is what the oldest of them goes on from.
    in_flight: Vec<Arc<InFlight>>,
    // The newest commit in flight that this tree went on from; that commit is the origin.
    after: Option<Arc<InFlight>>,
    // Set while another tree goes on from this one.
    ticket: Option<CommitTicket>,
}

impl<F: Format> Clone for Tree<F> {
    fn clone(&self) -> Self {
        Self {
            store: self.store.clone(),
            held: self.held.clone(),
            base: self.base,
            levels: self.levels,
            patch: self.patch.clone(),
            pending: self.pending,
            pending_most: self.pending_most,
            active: self.active.clone(),
            prewritten: self.prewritten.clone(),
            origin: self.origin,
            in_flight: self.in_flight.clone(),
            after: self.after.clone(),
            ticket: None,
        }
    }
}

impl<F: Format> Tree<F> {
    pub(crate) fn at(store: Arc<StoreView<F>>, base: Option<ObjRef>) -> Self {
        let base = base.and_then(|at| store.unless_empty(at));
        Self {
            store,
            held: Vec::new(),
            levels: if base.is_some() { STORED_LEVELS } else { 0 },
            base,
            patch: None,
            pending: 0,
            pending_most: 0,
            active: None,
            prewritten: None,
            origin: None,
            in_flight: Vec::new(),
            after: None,
            ticket: None,
        }
    }

    /// Returns the commit that this tree was checked out from or committed as last; `None` for a tree that goes on from a
    /// commit in flight ([`Tree::fork_for_commit`]), until it is committed itself.
    #[must_use]
    pub fn origin(&self) -> Option<CommitId> {
        self.origin.map(|at| self.store.commit_id(at))
    }

    /// Returns the value at `path`; `None` if there is no entry, or a directory.
    ///
    /// Loads at most one object for each level of the path and for each level of a wide directory.
    ///
    /// # Errors
    /// [`Error::Path`]; [`Error::Missing`], [`Error::Corrupt`] and others of the backend.
    pub fn get(&self, path: impl AsPath) -> Result<Option<Bytes<'_>>> {
        let path = path.as_path()?;
        let Some((parent, step)) = path.split_last() else { return Ok(None) };
        if self.patch.is_none() && self.in_flight.is_empty() {
            let Some(base) = &self.base else { return Ok(None) };
            if parent.is_empty() {
                return self.find_stored(base, step);
            }
            let store = self.store.number();
            let remembered = remembered::find(store, &base.oid, parent);
            if let Remembered::Is(dir) = &remembered {
                return self.find_stored(dir, step);
            }
            let Some(dir) = self.store.format.descend(&*self.store, base, parent)? else { return Ok(None) };
            if let Remembered::Again = remembered {
                remembered::note(store, &base.oid, parent, &dir);
            }
            return self.find_stored(&dir, step);
        }
        let Some(dir) = self.walk_in_flight(parent)? else { return Ok(None) };
        self.find_in(&dir, step)
    }

    /// Returns what is at `path`, with its kind.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn entry(&self, path: impl AsPath) -> Result<Option<DirEntry<'_, F>>> {
        let path = path.as_path()?;
        let Some((parent, step)) = path.split_last() else { return Ok(None) };
        let Some(dir) = self.walk(parent)? else { return Ok(None) };
        let binding = self.resolved(&dir, step)?;
        Ok(binding.map(|binding| DirEntry::new(self, Bytes::from(step).into_static(), binding)))
    }

    /// Returns the tree below `path`, as a handle that may be kept; `None` if there is no directory. The
    /// root of a tree is always a directory.
    ///
    /// Lookups below the handle do not walk `path` again.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn get_tree(&self, path: impl AsPath) -> Result<Option<Self>> {
        let path = path.as_path()?;
        if path.is_root() {
            return Ok(Some(self.clone()));
        }
        if self.active.as_ref().is_some_and(|active| active.parent.starts_with(path.as_bytes())) {
            let mut attached = self.clone();
            attached.attach_active();
            return attached.get_tree(&*path);
        }
        let Some((parent, step)) = path.split_last() else { return Ok(None) };
        let Some(dir) = self.walk(parent)? else { return Ok(None) };
        match self.resolved(&dir, step)? {
            Some(Binding::Dir(dir)) => Ok(Some(self.subtree(&dir))),
            _ => Ok(None),
        }
    }

    /// Whether there is a value at `path`.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn contains(&self, path: impl AsPath) -> Result<bool> {
        Ok(self.kind(path)?.is_some_and(|kind| kind != EntryKind::Dir))
    }

    /// Whether there is a directory at `path`.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn contains_tree(&self, path: impl AsPath) -> Result<bool> {
        Ok(self.kind(path)? == Some(EntryKind::Dir))
    }

    /// Returns the kind of what is at `path`, without loading it; `None` if there is nothing. The root is a
    /// directory.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn kind(&self, path: impl AsPath) -> Result<Option<EntryKind>> {
        let path = path.as_path()?;
        let Some((parent, step)) = path.split_last() else { return Ok(Some(EntryKind::Dir)) };
        let Some(dir) = self.walk_in_flight(parent)? else { return Ok(None) };
        Ok(self.resolved(&dir, step)?.map(|binding| binding.kind()))
    }

    /// Whether the tree has no entries.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn is_empty(&self) -> Result<bool> {
        self.is_empty_at(&self.root_dir()?)
    }

    /// Whether there are pending edits; they may change nothing.
    #[must_use]
    pub const fn is_edited(&self) -> bool {
        self.patch.is_some()
    }

    /// Returns the id of the root, hashing what was edited. Writes nothing.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn root(&self) -> Result<TreeId> {
        if let (Some(base), None, None) = (self.written_base()?, &self.patch, &self.active) {
            return Ok(self.store.tree_id(base));
        }
        let mut sink = self.sink();
        Ok(self.flush_into(&mut sink)?.oid.into())
    }

    /// Whether two trees have the same contents: their roots are equal.
    ///
    /// # Errors
    /// As [`Tree::root`].
    pub fn same(&self, other: &Self) -> Result<bool> {
        Ok(self.root()? == other.root()?)
    }

    /// Returns a directory as a tree of its own.
    fn subtree(&self, dir: &DirRef<'_>) -> Self {
        let patch = dir.patch.map(|patch| {
            // The active directory may lie below: attach it. The base of a root's patch is
            // the tree's, whatever the patch says.
            let mut patch = patch.clone();
            if let Some(active) = &self.active {
                patch::attach_below(&mut patch, active);
            }
            patch
        });
        Self {
            store: self.store.clone(),
            held: self.held_below(),
            base: dir.base.and_then(|at| self.store.unless_empty(at)),
            levels: self.levels_most().saturating_sub(1),
            patch,
            pending: self.pending,
            pending_most: 0,
            active: None,
            prewritten: self.prewritten.clone(),
            origin: None,
            in_flight: Vec::new(),
            after: None,
            ticket: None,
        }
    }
}

impl<F: Format> Tree<F> {
    /// Binds `path` to a value, replacing the value that is there, or one on the way. A directory there is not replaced:
    /// see [`Tree::replace`]. Whether one is stored there is found out by the commit, without reading more than it does
    /// anyway.
    ///
    /// Short values wait in memory; one of 4 KiB and more may be hashed and written ahead of the commit, and so are all where
    /// edits take more memory than they may ([`crate::Repo::set_pending_max`]). A value has at most 2 GiB.
    ///
    /// `tree.set(p, v)?; tree.get(p)? == Some(v)`; other paths are unchanged, but a value above `p`.
    ///
    /// # Errors
    /// [`Error::Path`]; [`Error::RootPath`] for the root; [`Error::TooLarge`], also where nothing can be written and
    /// large values wait in memory, 4 GiB of them together; those of the backend for large values, and where pending
    /// edits are written: what is set is not set then. [`Error::IsDirectory`] here for a directory with pending edits;
    /// for another one wherever the edits are hashed, as by [`Tree::root`], [`Tree::write`] and commits: the tree keeps
    /// its edits, and goes on once the path is replaced.
    pub fn set<'v>(&mut self, path: impl AsPath, value: impl Into<NewValue<'v>>) -> Result<()> {
        self.set_kind(path, EntryKind::Value, value)
    }

    /// As [`Tree::set`], where a directory there goes with all below it.
    ///
    /// ```
    /// # use bristlecone::{Error, Repo};
    /// let mut tree = Repo::memory().tree();
    /// tree.set("fruit/apple", "red")?;
    /// assert!(matches!(tree.set("fruit", "none"), Err(Error::IsDirectory { .. })));
    /// tree.replace("fruit", "none")?;
    /// assert_eq!(tree.get("fruit/apple")?, None);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tree::set`].
    pub fn replace<'v>(&mut self, path: impl AsPath, value: impl Into<NewValue<'v>>) -> Result<()> {
        let leaf = self.leaf(EntryKind::Value, value.into())?;
        self.edit(&*path.as_path()?, PatchEdit::Over(leaf))
    }

    /// Adds many values in one call; the last one counts where a path comes twice. Unless they take more memory than edits
    /// may ([`crate::Repo::set_pending_max`]), nothing but values of 4 KiB and more is hashed or written before the commit,
    /// which touches each piece of a directory once, so the order does not matter.
    ///
    /// ```
    /// # use bristlecone::Repo;
    /// let mut tree = Repo::memory().tree();
    /// tree.set_many((0..1000).map(|n| (format!("dir/{n}"), format!("value {n}"))))?;
    /// assert_eq!(tree.count("dir")?, 1000);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tree::set`]; what came before the entry that failed is added.
    pub fn set_many<'v, P: AsPath, V: Into<NewValue<'v>>>(
        &mut self,
        entries: impl IntoIterator<Item = (P, V)>,
    ) -> Result<()> {
        entries.into_iter().try_for_each(|(path, value)| self.set(path, value))
    }

    /// As [`Tree::set`], for a value, an executable or a link.
    ///
    /// # Errors
    /// As [`Tree::set`]; [`Error::Usage`] for a kind that is no value.
    pub fn set_kind<'v>(&mut self, path: impl AsPath, kind: EntryKind, value: impl Into<NewValue<'v>>) -> Result<()> {
        if !kind.has_contents() {
            return Err(Error::Usage { reason: "a directory or foreign id is not added as a value" });
        }
        let leaf = self.leaf(kind, value.into())?;
        self.edit(&*path.as_path()?, PatchEdit::Leaf(leaf))
    }

    /// As [`Tree::set_kind`], for a value that [`crate::Repo::write_value`] has written.
    ///
    /// # Errors
    /// As [`Tree::set_kind`]; [`Error::Usage`] for a value in another store.
    pub fn set_stored(&mut self, path: impl AsPath, kind: EntryKind, value: &StoredValue) -> Result<()> {
        let (backend, snapshots, at, bytes) = match &value.0 {
            Stored::Bytes(value) => return self.set_kind(path, kind, value),
            Stored::Pieces { backend, snapshots, at, bytes } => (backend, snapshots, *at, *bytes),
        };
        if !kind.has_contents() {
            return Err(Error::Usage { reason: "a directory or foreign id is not added as a value" });
        }
        if !Arc::ptr_eq(backend, &self.store.backend) {
            return Err(Error::Usage { reason: "a stored value is bound in trees of the repository that wrote it" });
        }
        self.hold(snapshots);
        self.edit(&*path.as_path()?, PatchEdit::Leaf(NewLeaf::Stored { kind, at, bytes }))
    }

    /// Binds `path` to an id of another store, such as a submodule's commit.
    ///
    /// # Errors
    /// As [`Tree::set`].
    pub fn set_foreign(&mut self, path: impl AsPath, oid: Oid) -> Result<()> {
        self.edit(&*path.as_path()?, PatchEdit::Leaf(NewLeaf::Foreign(oid)))
    }

    /// Removes what is at `path`, value or directory; nothing happens where there is nothing. Directories
    /// left empty are gone, too.
    ///
    /// # Errors
    /// [`Error::Path`]; those of the backend where pending edits are written: nothing is removed then.
    pub fn remove(&mut self, path: impl AsPath) -> Result<()> {
        let path = path.as_path()?;
        if path.is_root() {
            self.replace_root(None, None);
            (self.levels, self.pending) = (0, 0);
            return Ok(());
        }
        self.edit(&path, PatchEdit::Remove)
    }

    /// Binds `path` to a directory, replacing what is there; an empty one removes it. The root is replaced as a whole.
    /// Nothing is copied but the pending edits' pointers, when both trees are of one repository. From a repository of the same
    /// format and options objects are copied ([`crate::Repo::copy_objects`]), so that the directory has the same id here. From
    /// another one, or where nothing can be written here, every value is set here again at its path: modes that Git spells
    /// unusually and directories that were stored empty do not come along, and steps that no path has, such as keys of a
    /// map with a `/`, are refused.
    ///
    /// No path of the whole may have more steps than a [`Path`] can. How deep `tree` is, it knows of what was edited or
    /// written through it. A directory that was only read from the store is taken to have fewer than 960 levels; where
    /// that many and the steps of `path` would be too many, its directories are read and its levels counted.
    ///
    /// # Errors
    /// As [`Tree::set`]; [`PathError::TooDeep`] in [`Error::Path`] if something
    /// would lie too deep; then nothing is changed. [`Error::IsDirectory`] where a commit of `tree` is refused: here, or where the edits
    /// are written. [`Error::BadObject`] for objects of another repository that the format does not make of their contents.
    pub fn set_tree(&mut self, path: impl AsPath, tree: &Self) -> Result<()> {
        let path = path.as_path()?;
        let is_of_here = Arc::ptr_eq(&tree.store.backend, &self.store.backend);
        if let (true, Some(prewritten)) = (is_of_here, &tree.prewritten) {
            self.share_prewritten(tree, prewritten)?;
        }
        if tree.is_empty()? {
            if tree.is_edited() {
                // A value over a stored directory is refused, though edits below it came to nothing and leave nothing to see.
                tree.check_edits()?;
            }
            return self.remove(&*path);
        }
        let levels = tree.levels_below(&path)?;
        let (base, patch, pending) = self.adopt(tree)?;
        if is_of_here {
            self.hold(&tree.held);
            self.hold(tree.store.snapshots());
        }
        if path.is_root() {
            self.replace_root(base, patch);
            (self.levels, self.pending) = (levels, pending);
            return Ok(());
        }
        let mut patch = patch.unwrap_or_else(|| Arc::new(Patch::new(PatchBase::Own(base))));
        if patch.levels != levels {
            Arc::make_mut(&mut patch).levels = levels;
        }
        self.count_pending(pending)?;
        self.edit(&path, PatchEdit::Dir(patch))
    }

    /// Sees to it that this tree finds the prewritten values of another one of this repository.
    fn share_prewritten(&mut self, tree: &Self, prewritten: &Prewritten) -> Result<()> {
        match &self.prewritten {
            Some(own) if Arc::ptr_eq(own, prewritten) => Ok(()),
            Some(_) => flush_prewritten(&tree.store, prewritten),
            None => match flush_prewritten(&tree.store, prewritten) {
                // They stay in memory, where both trees read them.
                Err(Error::ReadOnly) => {
                    self.prewritten = Some(prewritten.clone());
                    Ok(())
                }
                done => done,
            },
        }
    }

    /// Takes a directory and edits of it in the place of all there is, which is an edit, too.
    fn replace_root(&mut self, base: Option<ObjRef>, patch: Option<Arc<Patch>>) {
        let same =
            !self.is_edited() && self.in_flight.is_empty() && self.base.map(|at| at.oid) == base.map(|at| at.oid);
        let edits = || Arc::new(Patch::new(PatchBase::Own(base)));
        self.patch = if same { patch } else { patch.or_else(|| Some(edits())) };
        (self.base, self.active) = (base, None);
        self.in_flight.clear();
    }

    /// Keeps what snapshots keep until the edits are written, and reads through them what was swept since they were taken.
    fn hold(&mut self, snapshots: &[Arc<dyn Snapshot>]) {
        for snapshot in snapshots {
            if !self.store.snapshots().iter().chain(&self.held).any(|held| Arc::ptr_eq(held, snapshot)) {
                self.held.push(snapshot.clone());
            }
        }
        if let Some(joined) = self.store.joined(snapshots) {
            self.store = joined;
        }
    }

    /// Returns at least as many steps as the longest path has, without reading anything.
    fn levels_most(&self) -> u16 {
        let edited = self.patch.as_ref().map_or(0, |patch| patch.levels);
        let active = self.active.as_ref().map_or(0, |active| active.levels());
        self.levels.max(edited).max(active)
    }

    /// As [`Tree::levels_most`], or counted if that would be too much below `path`.
    fn levels_below(&self, path: &Path) -> Result<u16> {
        let most = self.levels_most();
        if path.len() + usize::from(most) <= PATH_STEPS_MAX {
            return Ok(most);
        }
        let depth = self.count_levels()?;
        let steps = path.len() + depth;
        if steps > PATH_STEPS_MAX { Err(PathError::TooDeep { steps }.into()) } else { Ok(depth as u16) }
    }

    /// Replaces the value at `path` by what `change` makes of it; `None` removes it. It reads, so that a tree which goes on from one
    /// in flight waits for that ([`Tree::fork_for_commit`]).
    ///
    /// # Errors
    /// As [`Tree::get`] and [`Tree::set`]; [`Error::IsDirectory`]; [`Error::NotAValue`] for a foreign id.
    pub fn update(&mut self, path: impl AsPath, change: impl FnOnce(Option<&[u8]>) -> Option<Vec<u8>>) -> Result<()> {
        let path = path.as_path()?;
        if path.is_root() {
            return Err(Error::RootPath);
        }
        let (kind, value) = match self.entry(&*path)? {
            Some(entry) if entry.kind().has_contents() => {
                let bytes = entry.contents()?;
                (entry.kind(), change(bytes.as_deref()))
            }
            Some(entry) if entry.kind() == EntryKind::Dir => {
                return Err(Error::IsDirectory { path: path.into_owned() });
            }
            Some(_) => return Err(Error::NotAValue { key: path.to_string() }),
            None => (EntryKind::Value, change(None)),
        };
        match value {
            Some(value) => self.set_kind(&*path, kind, value),
            None => self.remove(&*path),
        }
    }
}
