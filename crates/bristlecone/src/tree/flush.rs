//! From edits to objects: each patched directory, children first, through the format's `update`.
//!
//! Directories whose children are not done yet wait in a list, not on the stack: trees are deep.
//!
//! On a thread of a rayon pool, the edits below a wide directory are done in halves that other threads of the pool may
//! take, and so are the values of one that has many long ones. A half that was taken fills a batch of its own, which the
//! other absorbs behind its own objects, so that the batch that results is the same, byte for byte, whichever thread did
//! what. Large edits by a thread in no pool are done in one of our own.

use std::{
    ops::Range,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::*},
    },
};

use bristlecone_core::{
    Change, ChangeList, ChangeTarget, EntryKind, Format, Location, Mode, ObjRef, Oid, Path, Sink, Target, TreeId,
};

use smallvec::SmallVec;

use self::{
    ahead::{PendingEdit, PendingEdits},
    hashed::HashedValues,
    made::MadeDirs,
};
use super::{
    NewLeaf, PatchEdit, Tree,
    patch::{Patch, PatchBase, PatchEdits},
};
use crate::{
    Error, Result,
    given_back::put_off,
    pool,
    prefetched::Prefetched,
    store::{FlushSink, StoreView, flush_prewritten, lock_values},
    swept::retry_swept,
    waiting::Unwritten,
};

mod ahead;
mod hashed;
mod made;

/// From this many edited directories below one on, threads share the work.
const HALVED_MIN: usize = 6;
/// From this many values on that are objects of their own, too.
const HALVED_VALUES_MIN: usize = 256;
/// How often halves are halved again, those of directories within directories included: into 128 parts, and what lies
/// deeper is done by one thread. Each time takes some 20 KiB of stack in an unoptimised build.
const PARTED_MAX: u32 = 7;

/// The changes that the edits of a directory make; most directories on the way have one.
type DirChanges<'c> = SmallVec<[Change<'c>; 1]>;

/// What a step becomes: bound to something, or to nothing.
type NewBinding<'c> = Option<(EntryKind, ChangeTarget<'c>)>;

/// Edits that remove or put values: what they make needs no sink, and is made when it is needed.
struct ValueEdits<'c>(Vec<(&'c [u8], &'c PatchEdit)>);

impl ChangeList for ValueEdits<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn get(&self, index: usize) -> Change<'_> {
        let (step, edit) = self.0[index];
        let to = match edit {
            PatchEdit::Leaf(leaf) | PatchEdit::Over(leaf) => {
                leaf.at_hand().map(|value| (leaf.kind(), ChangeTarget::Inline(value)))
            }
            PatchEdit::Remove | PatchEdit::Dir(_) | PatchEdit::Detached => None,
        };
        Change { step, mode: Mode::USUAL, to }
    }
}

/// The changes that half of a directory's edits make: some of those of the whole, or in a list of their own.
enum HalfChanges<'c> {
    There(Range<usize>),
    Beside(DirChanges<'c>),
}

/// A patched directory that is being done.
struct OpenDir<'c> {
    patch: &'c Patch,
    base: Option<ObjRef>,
    /// The edits still to come, and the changes that those before made.
    edits: PatchEdits<'c>,
    changes: DirChanges<'c>,
    /// Its step in the directory above, and the directory that is stored there.
    step: &'c [u8],
    here: Option<ObjRef>,
    /// All edits, where they are many and each removes or puts a value.
    values: Option<ValueEdits<'c>>,
    /// The ids of values among them that are objects of their own, where they are many.
    hashed: Option<Box<HashedValues<'c, PatchEdits<'c>>>>,
    /// Whether something stands there though there is nothing below it: a value, or a directory that was stored empty.
    stands: bool,
    /// Its edits are not in this place alone.
    is_shared: bool,
}

/// The edits of a tree while they become objects.
struct Flush<'t, F: Format> {
    tree: &'t Tree<F>,
    source: Prefetched<&'t StoreView<F>, PendingEdit<'t, F>>,
    /// What directories became whose edits are in several places. Edits live for `'t`.
    made: MadeDirs,
}

impl<F: Format> Tree<F> {
    pub(crate) fn sink(&self) -> FlushSink<'_> {
        self.store.sink()
    }

    /// Gives every new object to `sink` and returns the root, whose location may be pending there. The tree
    /// itself is unchanged.
    pub(crate) fn flush_into(&self, sink: &mut FlushSink<'_>) -> Result<ObjRef> {
        let root = self.flush_parts(sink, None)?;
        self.root_or_empty(sink, root)
    }

    /// As [`Tree::flush_into`], where prewritten values are written, and most objects may be at once if there are many: the sink
    /// gets the rest.
    pub(crate) fn flush_writing<'t>(&'t self, sink: &mut FlushSink<'t>) -> Result<ObjRef> {
        let root = self.flush_pending(sink)?;
        self.root_or_empty(sink, root)
    }

    /// As [`Tree::flush_writing`]; `None` for an empty tree, of which some formats have no object.
    pub(super) fn flush_pending<'t>(&'t self, sink: &mut FlushSink<'t>) -> Result<Option<ObjRef>> {
        if let Some(prewritten) = &self.prewritten {
            flush_prewritten(&self.store, prewritten)?;
        }
        self.write_early(sink);
        self.flush_parts(sink, self.part_bytes())
    }

    /// Has a sink append at once what many edits make, where the backend keeps objects elsewhere than in memory, and by places: the
    /// objects that name them know those then.
    pub(super) fn write_early<'t>(&'t self, sink: &mut FlushSink<'t>) {
        let capabilities = self.store.backend.capabilities();
        if self.is_large() && capabilities.persistent && capabilities.locations {
            sink.write_early(&*self.store.backend);
        }
    }

    /// Fails where a commit of the edits would, hashing them. Writes nothing.
    pub(super) fn check_edits(&self) -> Result<()> {
        self.flush_parts(&mut self.sink(), None).map(drop)
    }

    fn root_or_empty(&self, sink: &mut FlushSink<'_>, root: Option<ObjRef>) -> Result<ObjRef> {
        match root {
            Some(root) => Ok(root),
            None => Ok(self.store.format.empty_dir(sink)?),
        }
    }

    /// Returns the root with its objects as they are shown before anything of the edits is written.
    pub(super) fn unwritten(&self) -> Result<(ObjRef, Arc<StoreView<F>>)> {
        let mut sink = self.sink();
        let root = self.flush_into(&mut sink)?;
        let (batch, below) = (sink.take(), self.store.snapshot.clone());
        let shown = Unwritten { batch, prewritten: self.prewritten.clone(), below };
        Ok((root, self.store.with(Arc::new(shown))))
    }

    /// Gives all objects to `sink`, or the last part of them, where parts are written that are so large.
    fn flush_parts(&self, sink: &mut FlushSink<'_>, part_bytes: Option<usize>) -> Result<Option<ObjRef>> {
        let base = self.written_base()?;
        base.iter().for_each(|base| sink.builds_on(&base.oid));
        let mut flush = || match (&self.patch, part_bytes) {
            (Some(patch), None) => self.flush_patch(sink, patch, base),
            (Some(patch), Some(bytes)) => self.flush_in_parts(sink, patch, base, bytes),
            (None, _) => Ok(base),
        };
        let root = if self.is_large() {
            put_off();
            pool::within(self.store.threads(), flush)
        } else {
            flush()
        };
        match &self.patch {
            Some(patch) => root.map_err(|error| self.with_path(error, patch, base)),
            None => root,
        }
    }

    /// Gives every new object of some edits of the root to `sink` and returns what the root becomes.
    pub(super) fn flush_patch(
        &self,
        sink: &mut FlushSink<'_>,
        patch: &Patch,
        base: Option<ObjRef>,
    ) -> Result<Option<ObjRef>> {
        let tasks = PendingEdits { tree: self, base, edits: patch.iter(), dir: None };
        let source = Prefetched::new(&*self.store, Some(tasks));
        let flush = Flush { tree: self, source, made: MadeDirs::default() };
        let root = flush.dir(sink, patch, base);
        sink.written()?;
        root
    }

    /// Takes `root`, which holds what this tree holds, for the tree's own, and the commit that it is of.
    pub(crate) fn flushed(&mut self, root: ObjRef, commit: Option<ObjRef>) {
        self.base = self.store.unless_empty(root);
        self.levels = self.levels_most();
        (self.patch, self.active) = (None, None);
        let spent = std::mem::take(&mut self.in_flight);
        if let Some(ticket) = &self.ticket {
            ticket.leave(spent);
        }
        self.forget_pending();
        if let Some(prewritten) = &self.prewritten {
            lock_values(prewritten).forget_places();
        }
        if commit.is_some() {
            (self.origin, self.after) = (commit, None);
        }
        self.renew(commit.is_some());
        self.complete_ticket(commit.is_some());
    }

    /// Lets go of what was kept for this tree and is not needed any more, so that it can be swept: for a tree that is held
    /// for long and read from. A commit does the same. A tree with pending edits stays as it is.
    ///
    /// What the tree holds does not change; to see what others have committed, check their commit out.
    pub fn refresh(&mut self) {
        self.forget_written();
        if !self.is_edited() && self.in_flight.is_empty() {
            self.renew(false);
        }
    }

    /// Goes on with a snapshot of now, which keeps what this tree was written as. `committed`: the origin leads to that.
    fn renew(&mut self, committed: bool) {
        if !committed && self.is_dropped() {
            return;
        }
        let base = if committed { None } else { self.base };
        let roots: SmallVec<[Oid; 2]> = self.origin.iter().chain(&base).map(|at| at.oid).collect();
        match Arc::get_mut(&mut self.store) {
            Some(store) => store.refresh(&roots),
            None => self.store = self.store.with(self.store.backend.snapshot(&roots)),
        }
        self.held.clear();
    }

    /// Whether another process has dropped what this tree goes on from: a snapshot of now does not show that, the tree's own does.
    pub(super) fn is_dropped(&self) -> bool {
        let Some(base) = self.base else { return false };
        let backend = &self.store.backend;
        if self.store.snapshot.sweeps().is_none_or(|sweeps| sweeps == backend.sweeps()) {
            return false;
        }
        let now = backend.snapshot(&[base.oid]);
        !matches!(now.read(&base.oid.into()), Ok(Some(_)))
    }

    /// Hashes and writes what was edited, and returns the root. No ref leads to it yet.
    ///
    /// # Errors
    /// As [`Tree::get`], and those of [`crate::Backend::append`].
    pub fn write(&mut self) -> Result<TreeId> {
        let _writing = self.writing_here();
        let root = retry_swept(
            self,
            |tree| &*tree.store,
            |tree| {
                let mut sink = tree.sink();
                let root = tree.flush_writing(&mut sink)?;
                tree.store.append(&mut sink, root)
            },
        )?;
        self.rebase()?;
        self.flushed(root, None);
        Ok(self.store.tree_id(root))
    }

    /// Says the whole path where a value was set in place of a directory: an update knows the step alone.
    #[cold]
    fn with_path(&self, error: Error, patch: &Patch, base: Option<ObjRef>) -> Error {
        if !matches!(error, Error::IsDirectory { .. }) {
            return error;
        }
        match self.first_over_dir(patch, base) {
            Ok(Some(path)) => Error::IsDirectory { path },
            Ok(None) => error,
            Err(other) => other,
        }
    }

    /// Returns a path where a value was set in place of a directory.
    fn first_over_dir(&self, patch: &Patch, base: Option<ObjRef>) -> Result<Option<Path>> {
        let mut open = vec![(Path::root(), patch, base)];
        while let Some((path, patch, base)) = open.pop() {
            for (step, edit) in patch.iter() {
                let stored = match &base {
                    Some(dir) => self.store.format.find(&*self.store, dir, step)?,
                    None => None,
                };
                let dir = match stored {
                    Some((EntryKind::Dir, Target::Object { at, .. })) => Some(at),
                    _ => None,
                };
                let below: &Patch = match edit {
                    PatchEdit::Leaf(_) if dir.is_some() => return Ok(Some(path.join(step)?)),
                    PatchEdit::Leaf(_) | PatchEdit::Over(_) | PatchEdit::Remove => continue,
                    PatchEdit::Dir(below) => below,
                    PatchEdit::Detached => self.active_patch(),
                };
                let path = path.join(step)?;
                let base = match below.base {
                    PatchBase::AfterLeaf if dir.is_some() => return Ok(Some(path)),
                    of => of.own().unwrap_or(dir),
                };
                open.push((path, below, base));
            }
        }
        Ok(None)
    }
}

impl<'t, F: Format> Flush<'t, F> {
    /// Returns the directory that a patched one becomes; `None` if it is empty.
    fn dir(&self, sink: &mut FlushSink<'_>, patch: &'t Patch, base: Option<ObjRef>) -> Result<Option<ObjRef>> {
        if let Some(values) = self.value_edits(sink, patch) {
            return self.changed_values(sink, patch, base, &values);
        }
        let changes = match self.shared(sink, base, patch, 0)? {
            Some(changes) => changes,
            None => {
                let mut changes = DirChanges::with_capacity(patch.len());
                self.edits(sink, base, (patch.iter(), patch.len()), 0, &mut changes)?;
                changes
            }
        };
        self.changed(sink, patch, base, &changes)
    }

    #[inline]
    fn changed(
        &self,
        sink: &mut FlushSink<'_>,
        patch: &Patch,
        base: Option<ObjRef>,
        changes: &[Change<'_>],
    ) -> Result<Option<ObjRef>> {
        if changes.is_empty() {
            return Ok(base);
        }
        let made = self.tree.store.format.update(&self.source, sink, base.as_ref(), changes)?;
        if sink.has_replaced() {
            check_replaced(sink, patch)?;
        }
        Ok(made)
    }

    /// Returns the edits of a directory if they are many, and none of them puts anything but a value that it holds itself or that is
    /// short enough to be hashed together with others. Longer ones are shared out value by value.
    #[inline]
    fn value_edits(&self, sink: &FlushSink<'_>, patch: &'t Patch) -> Option<ValueEdits<'t>> {
        if patch.len() < sink.shared_min().max(1) { None } else { self.many_value_edits(patch) }
    }

    #[cold]
    fn many_value_edits(&self, patch: &'t Patch) -> Option<ValueEdits<'t>> {
        let format = &self.tree.store.format;
        let long = format.hashed_together().end.max(format.inline_bytes_max() + 1);
        let is_short = |edit: &PatchEdit| match edit {
            PatchEdit::Remove => true,
            PatchEdit::Leaf(leaf) | PatchEdit::Over(leaf) => leaf.at_hand().is_some_and(|value| value.len() < long),
            PatchEdit::Dir(_) | PatchEdit::Detached => false,
        };
        let mut edits = Vec::with_capacity(patch.len());
        for (step, edit) in patch.iter() {
            if !is_short(edit) {
                return None;
            }
            edits.push((step, edit));
        }
        Some(ValueEdits(edits))
    }

    fn changed_values(
        &self,
        sink: &mut FlushSink<'_>,
        patch: &Patch,
        base: Option<ObjRef>,
        values: &ValueEdits<'_>,
    ) -> Result<Option<ObjRef>> {
        let made = self.tree.store.format.update_list(&self.source, sink, base.as_ref(), values)?;
        if sink.has_replaced() {
            check_replaced(sink, patch)?;
        }
        Ok(made)
    }

    /// Adds the changes that so many edits of a directory make, with everything below them given to the sink.
    fn edits(
        &self,
        sink: &mut FlushSink<'_>,
        base: Option<ObjRef>,
        (edits, count): (impl Iterator<Item = (&'t [u8], &'t PatchEdit)> + Clone, usize),
        parted: u32,
        changes: &mut DirChanges<'t>,
    ) -> Result<()> {
        let format = &self.tree.store.format;
        let mut hashed = HashedValues::of(format, &edits, count);
        for (step, edit) in edits {
            let to = match edit {
                PatchEdit::Remove => Some(None),
                PatchEdit::Leaf(leaf) | PatchEdit::Over(leaf) => {
                    let id = hashed.as_mut().and_then(|hashed| hashed.next(format, sink, leaf));
                    Some(Some((leaf.kind(), self.leaf(sink, leaf, id)?)))
                }
                PatchEdit::Dir(below) => self.below(sink, base, step, below, parted)?,
                PatchEdit::Detached => self.below(sink, base, step, self.tree.active_patch(), parted)?,
            };
            if let Some(to) = to {
                changes.push(Change { step, mode: Mode::USUAL, to });
            }
        }
        Ok(())
    }

    /// Returns what a patched directory's step becomes: `None` if it stays as it is.
    fn below(
        &self,
        sink: &mut FlushSink<'_>,
        base: Option<ObjRef>,
        step: &'t [u8],
        below: &'t Arc<Patch>,
        parted: u32,
    ) -> Result<Option<NewBinding<'t>>> {
        let mut open: Vec<OpenDir<'t>> = Vec::with_capacity(usize::from(below.levels));
        open.push(self.open(sink, base, step, below, parted)?);
        loop {
            let Some(dir) = open.last_mut() else { return Ok(None) };
            let Some((step, edit)) = dir.edits.next() else {
                let made = match &dir.values {
                    Some(values) => self.changed_values(sink, dir.patch, dir.base, values)?,
                    None => self.changed(sink, dir.patch, dir.base, &dir.changes)?,
                };
                if dir.is_shared {
                    self.made.note(dir.patch, dir.base, made);
                }
                let (step, to) = (dir.step, dir.becomes(made));
                open.pop();
                let Some(above) = open.last_mut() else { return Ok(to) };
                if let Some(to) = to {
                    above.changes.push(Change { step, mode: Mode::USUAL, to });
                }
                continue;
            };
            let to = match edit {
                PatchEdit::Remove => None,
                PatchEdit::Leaf(leaf) | PatchEdit::Over(leaf) => {
                    let id = dir.hashed.as_mut().and_then(|hashed| hashed.next(&self.tree.store.format, sink, leaf));
                    Some((leaf.kind(), self.leaf(sink, leaf, id)?))
                }
                PatchEdit::Dir(_) | PatchEdit::Detached => {
                    let below = if let PatchEdit::Dir(below) = edit { below } else { self.tree.active_patch() };
                    let below = self.open(sink, dir.base, step, below, parted)?;
                    open.push(below);
                    continue;
                }
            };
            dir.changes.push(Change { step, mode: Mode::USUAL, to });
        }
    }

    /// Begins with a directory below another; what threads can share of it is done at once.
    fn open(
        &self,
        sink: &mut FlushSink<'_>,
        base: Option<ObjRef>,
        step: &'t [u8],
        below: &'t Arc<Patch>,
        parted: u32,
    ) -> Result<OpenDir<'t>> {
        let stored = match &base {
            Some(dir) => self.tree.store.format.find(&self.source, dir, step)?,
            None => None,
        };
        let (here, stands) = match stored {
            Some((EntryKind::Dir, Target::Object { at, .. })) => {
                let here = self.tree.store.unless_empty(at);
                (here, here.is_none())
            }
            Some(_) => (None, true),
            None => (None, false),
        };
        let base = match below.base {
            PatchBase::AfterLeaf if here.is_some() => return Err(Error::IsDirectory { path: Path::from_bytes(step)? }),
            PatchBase::Own(base) => {
                // It came from another tree: what this one goes on from need not lead to it.
                base.iter().for_each(|base| sink.builds_on(&base.oid));
                base
            }
            PatchBase::AfterLeaf => None,
            PatchBase::Inherit => here,
        };
        let is_shared = Arc::strong_count(below) > 1;
        if is_shared && let Some(made) = self.made.get(sink, below, base) {
            // As if all its edits had been done, and had led to that.
            let (edits, changes) = (PatchEdits::default(), DirChanges::new());
            let is_shared = false;
            return Ok(OpenDir {
                patch: below,
                base: made,
                edits,
                changes,
                step,
                here,
                stands,
                values: None,
                hashed: None,
                is_shared,
            });
        }
        let values = self.value_edits(sink, below);
        let (edits, changes) = if values.is_some() {
            (PatchEdits::default(), DirChanges::new())
        } else {
            match self.shared(sink, base, below, parted)? {
                Some(changes) => (PatchEdits::default(), changes),
                None => (below.iter(), DirChanges::with_capacity(below.len())),
            }
        };
        // Where the changes are made already, no edits are left.
        let hashed = HashedValues::of(&self.tree.store.format, &edits, below.len()).map(Box::new);
        Ok(OpenDir { patch: below, base, edits, changes, step, here, stands, values, hashed, is_shared })
    }

    /// Returns the changes that all edits of a directory make if it is wide enough for threads to share it, and there are
    /// any.
    #[inline]
    fn shared(
        &self,
        sink: &mut FlushSink<'_>,
        base: Option<ObjRef>,
        patch: &'t Patch,
        parted: u32,
    ) -> Result<Option<DirChanges<'t>>> {
        if patch.len() < HALVED_MIN || parted >= PARTED_MAX || !pool::is_here() {
            return Ok(None);
        }
        self.shared_wide(sink, base, patch, parted).map(Some)
    }

    #[cold]
    fn shared_wide(
        &self,
        sink: &mut FlushSink<'_>,
        base: Option<ObjRef>,
        patch: &'t Patch,
        parted: u32,
    ) -> Result<DirChanges<'t>> {
        let edits: Vec<(&[u8], &PatchEdit)> = patch.iter().collect();
        let mut changes = DirChanges::with_capacity(edits.len());
        self.halves(sink, base, &edits, parted, &mut changes)?;
        Ok(changes)
    }

    /// As [`Flush::edits`], in two halves of which another thread may take the second; adds the changes to `changes`.
    fn halves(
        &self,
        sink: &mut FlushSink<'_>,
        base: Option<ObjRef>,
        edits: &[(&'t [u8], &'t PatchEdit)],
        parted: u32,
        changes: &mut DirChanges<'t>,
    ) -> Result<()> {
        if parted >= PARTED_MAX || !self.is_halved(edits) {
            return self.edits(sink, base, (edits.iter().copied(), edits.len()), parted, changes);
        }
        let (one, other) = edits.split_at(edits.len() / 2);
        let (shared, is_behind) = (Mutex::new(changes), AtomicBool::new(false));
        let (one, other) = sink.join(
            |sink| {
                let mut changes = shared.lock().unwrap_or_else(PoisonError::into_inner);
                let done = self.halves(sink, base, one, parted + 1, &mut changes);
                is_behind.store(true, Release);
                done
            },
            |sink| {
                // The first half may be done: then the changes of this one come right behind.
                if is_behind.load(Acquire) {
                    let mut changes = shared.lock().unwrap_or_else(PoisonError::into_inner);
                    let first = changes.len();
                    self.halves(sink, base, other, parted + 1, &mut changes)?;
                    return Ok(HalfChanges::There(first..changes.len()));
                }
                let mut changes = DirChanges::with_capacity(other.len());
                self.halves(sink, base, other, parted + 1, &mut changes)?;
                Ok(HalfChanges::Beside(changes))
            },
            |half: &mut Result<HalfChanges<'t>>, place| {
                let mut there = shared.lock().unwrap_or_else(PoisonError::into_inner);
                let half = match half {
                    Ok(HalfChanges::There(range)) => &mut there[range.clone()],
                    Ok(HalfChanges::Beside(changes)) => &mut changes[..],
                    Err(_) => return,
                };
                for change in half {
                    if let Some((_, ChangeTarget::Object { at, .. })) = &mut change.to {
                        at.at = place(at.at);
                    }
                }
            },
        );
        one?;
        if let HalfChanges::Beside(mut behind) = other? {
            shared.into_inner().unwrap_or_else(PoisonError::into_inner).append(&mut behind);
        }
        Ok(())
    }

    /// Whether there is enough to be done for edits of a directory that threads should share it.
    fn is_halved(&self, edits: &[(&'t [u8], &'t PatchEdit)]) -> bool {
        let inline = self.tree.store.format.inline_bytes_max();
        let (mut dirs, mut values) = (0, 0);
        for (_, edit) in edits {
            match edit {
                PatchEdit::Dir(_) | PatchEdit::Detached => dirs += 1,
                PatchEdit::Leaf(leaf) | PatchEdit::Over(leaf) => {
                    values += usize::from(leaf.at_hand().is_some_and(|value| value.len() > inline));
                }
                PatchEdit::Remove => {}
            }
            if dirs >= HALVED_MIN || values >= HALVED_VALUES_MIN {
                return true;
            }
        }
        false
    }

    /// Returns where a large value is that was written before, and notes it as left out.
    fn place(&self, sink: &FlushSink<'_>, oid: &Oid) -> Option<Location> {
        let tree = self.tree;
        let place = tree.prewritten.as_ref().and_then(|prewritten| lock_values(prewritten).place(oid));
        if let Some((at, sweeps)) = place {
            // Kept first, so that it stays if it is still there.
            sink.keep(oid);
            if tree.store.backend.sweeps() == sweeps {
                sink.builds_on(oid);
                return Some(at);
            }
        }
        sink.known(oid)
    }

    /// Returns what a value becomes; `id`: what it has, where it was hashed ahead.
    fn leaf(&self, sink: &mut FlushSink<'_>, leaf: &'t NewLeaf, id: Option<Oid>) -> Result<ChangeTarget<'t>> {
        let inline = self.tree.store.format.inline_bytes_max();
        let value = match leaf {
            NewLeaf::Short { bytes, .. } => &bytes[..],
            NewLeaf::Shared { value, .. } => value.as_bytes(),
            NewLeaf::Stored { at, bytes, .. } => {
                let place = if at.at.is_some() { None } else { self.place(sink, &at.oid) };
                if place.is_none() {
                    sink.builds_on(&at.oid);
                }
                let at = ObjRef::new(at.oid, place.unwrap_or(at.at));
                return Ok(ChangeTarget::Object { at, bytes: *bytes });
            }
            NewLeaf::Foreign(oid) => return Ok(ChangeTarget::Foreign(*oid)),
        };
        if value.len() <= inline {
            return Ok(ChangeTarget::Inline(value));
        }
        let at = match id {
            Some(id) => self.tree.store.format.put_contents_as(sink, id, value)?,
            None => self.tree.store.format.put_contents(sink, value)?,
        };
        Ok(ChangeTarget::Object { at, bytes: value.len() as u64 })
    }
}

/// Fails where a value was set in place of a directory, though the caller did not ask to replace it.
#[cold]
fn check_replaced(sink: &mut FlushSink<'_>, patch: &Patch) -> Result<()> {
    let mut replaced = sink.take_replaced().into_iter();
    match replaced.find(|step| matches!(patch.get(step), Some(PatchEdit::Leaf(_)))) {
        Some(step) => Err(Error::IsDirectory { path: Path::from_bytes(step)? }),
        None => Ok(()),
    }
}

impl<'c> OpenDir<'c> {
    /// Returns what its step becomes now that it is `made` (`None`: nothing is left in it); `None` if it stays as it is.
    fn becomes(&self, made: Option<ObjRef>) -> Option<NewBinding<'c>> {
        match made {
            Some(dir) if Some(dir.oid) == self.here.map(|at| at.oid) => None,
            Some(at) => Some(Some((EntryKind::Dir, ChangeTarget::Object { at, bytes: 0 }))),
            // Removals below it leave it; an empty directory set in its place removes it.
            None if self.stands && !self.patch.replaces_value && matches!(self.patch.base, PatchBase::Inherit) => None,
            None if self.here.is_none() && !self.stands => None,
            None => Some(None),
        }
    }
}
