//! Many edits become objects in parts: what a commit takes in memory is bounded, however many entries it has.
//!
//! A part is a tree of edits that lie behind those of earlier parts in the order of paths, so that each piece of a directory
//! is written by one part, but those at the ends and those above. Each part is applied to the root that the one before
//! resulted in, and roots do not depend on how edits are grouped: the last one is the root of all.

use std::{collections::HashSet, mem::size_of, sync::Arc};

use bristlecone_core::{Format, ObjRef};

use super::{
    NewLeaf, PatchEdit, Tree,
    patch::{Patch, PatchBase, PatchEdits, StepEdit},
};
use crate::{Error, Result, given_back::give_back_soon, store::FlushSink, swept::retry_swept};

/// Pending edits of a tree take about this much memory at most, unless it is set otherwise, where objects do not stay in memory.
pub(crate) const PENDING_BYTES_MAX: usize = 288 << 20;
/// The edits of a part take about one of so many equal shares of that.
const PARTS: usize = 32;
/// Edits are many from so many times as many on as are shared out of one directory.
const LARGE: usize = 2;
/// What an edit takes in the map of a directory, where nodes are filled as usual.
const EDIT_BYTES: usize = size_of::<StepEdit>() * 3 / 2;
/// What the edits of a directory take besides.
const DIR_BYTES: usize = size_of::<Patch>();
/// Directories that lie deeper are not divided.
const DIVIDED_LEVELS: usize = 64;
/// The allocator is asked to give back what edits took from so much on.
const GIVEN_BACK_MIN: usize = 64 << 20;

/// Returns about how much memory an edit takes, without what lies below it.
#[inline]
pub(super) fn edit_bytes(step: &[u8], edit: &PatchEdit) -> usize {
    let value = match edit {
        PatchEdit::Leaf(leaf) | PatchEdit::Over(leaf) => leaf_bytes(leaf),
        PatchEdit::Dir(_) | PatchEdit::Detached => DIR_BYTES,
        PatchEdit::Remove => 0,
    };
    EDIT_BYTES + step.len() + value
}

/// Returns about how much memory a directory takes when its first edit is made, with its edit in the one above.
#[inline]
pub(super) const fn dir_bytes() -> usize {
    EDIT_BYTES + DIR_BYTES
}

fn leaf_bytes(leaf: &NewLeaf) -> usize {
    match leaf {
        NewLeaf::Shared { value, .. } => value.as_bytes().len() + 2 * size_of::<usize>(),
        NewLeaf::Short { .. } | NewLeaf::Stored { .. } | NewLeaf::Foreign(_) => 0,
    }
}

impl<F: Format> Tree<F> {
    /// Notes that no edits are pending any more, and has the memory that they took given back if that was much.
    pub(super) fn forget_pending(&mut self) {
        let most = std::mem::take(&mut self.pending_most).max(self.pending);
        self.pending = 0;
        if most >= GIVEN_BACK_MIN {
            give_back_soon();
        }
    }

    /// Returns how large the edits of a part are; `None` where all become objects at once.
    pub(super) fn part_bytes(&self) -> Option<usize> {
        let part = self.store.pending_max() / PARTS;
        (self.pending > part && self.store.format.divides_dirs()).then_some(part)
    }

    /// Whether the edits are so many that threads of a pool of our own are worth waking.
    pub(crate) fn is_large(&self) -> bool {
        self.pending / EDIT_BYTES >= self.store.shared_min().saturating_mul(LARGE)
    }

    /// Counts edits that are about to be made and take so much memory. If that is too much, those before are written.
    #[inline]
    pub(super) fn count_pending(&mut self, bytes: usize) -> Result<()> {
        self.pending = self.pending.saturating_add(bytes);
        if self.pending > self.store.pending_max() { self.pending_full(bytes) } else { Ok(()) }
    }

    #[cold]
    fn pending_full(&mut self, bytes: usize) -> Result<()> {
        let most = self.store.pending_max();
        // Some may have been counted twice, and some be gone.
        let enough = most / 4 * 3;
        let known = self.patch.as_ref().map_or(Some(0), |patch| self.bytes_of(patch, enough));
        self.pending = known.unwrap_or(enough) + bytes;
        self.forget_written();
        // Whoever writes what this tree goes on from may be the caller.
        if known.is_some() || !self.in_flight.is_empty() {
            return Ok(());
        }
        match self.write_pending() {
            // The commit says it, unless the path is replaced before.
            Err(Error::IsDirectory { .. }) => Ok(()),
            Ok(()) => {
                (self.pending_most, self.pending) = (self.pending_most.max(most), bytes);
                Ok(())
            }
            failed => failed,
        }
    }

    /// Writes the pending edits. The tree counts as edited as before.
    fn write_pending(&mut self) -> Result<()> {
        self.attach_active();
        let root = self.append_edits()?;
        self.base = root.and_then(|root| self.store.unless_empty(root));
        self.levels = self.levels_most();
        self.patch = Some(Arc::new(Patch::new(PatchBase::Own(self.base))));
        Ok(())
    }

    /// Hashes and writes what was edited, and returns the root; `None` for an empty tree, of which some formats have no object.
    /// The edits stay pending.
    pub(crate) fn append_edits(&mut self) -> Result<Option<ObjRef>> {
        retry_swept(
            self,
            |tree| &*tree.store,
            |tree| {
                let mut sink = tree.sink();
                let root = tree.flush_pending(&mut sink)?;
                root.map(|root| tree.store.append(&mut sink, root)).transpose()
            },
        )
    }

    /// Returns about how much memory edits take; `None` if that is more than `most`. Edits that several places share count once.
    fn bytes_of(&self, patch: &Patch, most: usize) -> Option<usize> {
        let (mut open, mut shared) = (vec![patch], HashSet::new());
        let mut bytes = 0;
        while let Some(patch) = open.pop() {
            for (step, edit) in patch.iter() {
                bytes += edit_bytes(step, edit);
                if bytes > most {
                    return None;
                }
                match edit {
                    PatchEdit::Dir(below) if Arc::strong_count(below) > 1 && !shared.insert(Arc::as_ptr(below)) => {}
                    PatchEdit::Dir(below) => open.push(below),
                    PatchEdit::Detached => open.push(self.active_patch()),
                    PatchEdit::Leaf(_) | PatchEdit::Over(_) | PatchEdit::Remove => {}
                }
            }
        }
        Some(bytes)
    }
}

/// The parts of a tree's edits, in the order of paths.
pub(super) struct EditParts<'t, F: Format> {
    tree: &'t Tree<F>,
    bytes: usize,
    // The directories on the way to the edit that comes next.
    open: Vec<PartedDir<'t>>,
}

/// A directory of which some edits are in parts already.
struct PartedDir<'t> {
    step: &'t [u8],
    patch: &'t Patch,
    edits: PatchEdits<'t>,
    /// An edit that did not fit.
    put_back: Option<(&'t [u8], &'t PatchEdit)>,
    /// An earlier part was applied to what its edits apply to.
    begun: bool,
    /// Those of its edits that are in this part.
    part: Vec<StepEdit>,
}

impl<'t> PartedDir<'t> {
    fn new(step: &'t [u8], patch: &'t Patch) -> Self {
        Self { step, patch, edits: patch.iter(), put_back: None, begun: false, part: Vec::new() }
    }

    fn next(&mut self) -> Option<(&'t [u8], &'t PatchEdit)> {
        self.put_back.take().or_else(|| self.edits.next())
    }

    /// Returns what this part has of it; `None` where that changes nothing.
    fn take_part(&mut self) -> Option<Patch> {
        if self.begun && self.part.is_empty() {
            return None;
        }
        let base = if self.begun { PatchBase::Inherit } else { self.patch.base };
        self.begun = true;
        Some(Patch::of_part(base, self.patch, std::mem::take(&mut self.part)))
    }
}

impl<'t, F: Format> EditParts<'t, F> {
    /// Begins with the first edit of a tree's root.
    pub(super) fn new(tree: &'t Tree<F>, patch: &'t Patch, bytes: usize) -> Self {
        Self { tree, bytes, open: vec![PartedDir::new(b"", patch)] }
    }

    /// Returns the next part, and whether it is the last one.
    pub(super) fn next_part(&mut self) -> (Patch, bool) {
        let mut left = self.bytes;
        loop {
            let levels = self.open.len();
            let Some(dir) = self.open.last_mut() else { return (Patch::new(PatchBase::Inherit), true) };
            let Some((step, edit)) = dir.next() else {
                let part = dir.take_part();
                let step = dir.step;
                self.open.pop();
                match (self.open.last_mut(), part) {
                    (None, part) => return (part.unwrap_or_else(|| Patch::new(PatchBase::Inherit)), true),
                    (Some(above), Some(part)) => above.part.push(StepEdit::new(step, PatchEdit::Dir(Arc::new(part)))),
                    (Some(_), None) => {}
                }
                continue;
            };
            let below: Option<&Arc<Patch>> = match edit {
                PatchEdit::Dir(below) => Some(below),
                PatchEdit::Detached => Some(self.tree.active_patch()),
                PatchEdit::Leaf(_) | PatchEdit::Over(_) | PatchEdit::Remove => None,
            };
            let bytes = match below {
                Some(below) => self.tree.bytes_of(below, left),
                None => Some(edit_bytes(step, edit)),
            };
            match (bytes.filter(|&bytes| bytes <= left), below) {
                (Some(bytes), _) => {
                    left -= bytes;
                    dir.part.push(StepEdit::new(step, edit.clone()));
                }
                // What does not fit comes next, unless it fits into no part.
                (None, _) if left < self.bytes / 2 => {
                    dir.put_back = Some((step, edit));
                    return (self.close_part(), false);
                }
                (None, Some(below)) if levels < DIVIDED_LEVELS => self.open.push(PartedDir::new(step, below)),
                (None, _) => {
                    left = 0;
                    dir.part.push(StepEdit::new(step, edit.clone()));
                }
            }
        }
    }

    /// Returns the part that ends within all open directories.
    fn close_part(&mut self) -> Patch {
        let mut below: Option<StepEdit> = None;
        for dir in self.open.iter_mut().rev() {
            dir.part.extend(below.take());
            let step = dir.step;
            below = dir.take_part().map(|part| StepEdit::new(step, PatchEdit::Dir(Arc::new(part))));
        }
        match below.map(StepEdit::into_edit) {
            Some(PatchEdit::Dir(part)) => Arc::unwrap_or_clone(part),
            _ => Patch::new(PatchBase::Inherit),
        }
    }
}

impl<F: Format> Tree<F> {
    /// Writes all parts of the edits but the last, which goes to `sink`; returns what the root becomes.
    pub(super) fn flush_in_parts(
        &self,
        sink: &mut FlushSink<'_>,
        patch: &Patch,
        mut base: Option<ObjRef>,
        bytes: usize,
    ) -> Result<Option<ObjRef>> {
        let sweeps = sink.batch.left_out().1;
        let mut parts = EditParts::new(self, patch, bytes);
        loop {
            let (part, last) = parts.next_part();
            if last {
                base.iter().for_each(|base| sink.builds_on(&base.oid));
                return self.flush_patch(sink, &part, base);
            }
            // The tree's snapshot keeps what was appended since. What another process drops is looked up again.
            let mut sink = self.store.sink_since(sweeps);
            self.write_early(&mut sink);
            base.iter().for_each(|base| sink.builds_on(&base.oid));
            base = match self.flush_patch(&mut sink, &part, base)? {
                Some(root) => {
                    let root = self.store.append(&mut sink, root)?;
                    self.store.unless_empty(root)
                }
                None => None,
            };
        }
    }
}
