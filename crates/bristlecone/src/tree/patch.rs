//! Pending edits: a tree of sorted maps, copied on write, changed in place where nobody else holds them.

use std::{cmp::Ordering, fmt, sync::Arc};

use bristlecone_core::{EntryKind, ObjRef, Oid};
use smallvec::SmallVec;

use self::map::StepMap;
use crate::Value;

mod map;

/// What a directory's edits apply to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Base {
    /// Whatever the directory above has at this step.
    Inherit,
    /// This directory, or an empty one.
    Own(Option<ObjRef>),
}

/// So many levels are let go of by one call in another.
const DROPPED_LEVELS: u16 = 32;

/// The edits of one directory.
#[derive(Clone)]
pub(crate) struct Patch {
    pub(crate) base: Base,
    // Something was added here or below: a value that the directory inherits its place from is gone, even if
    // the addition is taken back.
    pub(crate) covers: bool,
    // At least the steps of the longest path that was edited here or below. What was put into a directory in the finger
    // counts once that is put back.
    pub(crate) levels: u16,
    edits: StepMap,
}

/// One edit.
#[derive(Clone, Debug)]
pub(crate) enum Edit {
    Remove,
    /// A value where no directory may be.
    Leaf(Leaf),
    /// A value in place of whatever is there.
    Over(Leaf),
    Dir(Arc<Patch>),
    /// The directory's edits are in the finger.
    Taken,
}

/// A value that was set.
#[derive(Clone, Debug)]
pub(crate) enum Leaf {
    Short { kind: EntryKind, bytes: SmallVec<[u8; 48]> },
    Shared { kind: EntryKind, value: Value },
    Stored { kind: EntryKind, at: ObjRef, bytes: u64 },
    Foreign(Oid),
}

impl Leaf {
    pub(crate) const fn kind(&self) -> EntryKind {
        match self {
            Self::Short { kind, .. } | Self::Shared { kind, .. } | Self::Stored { kind, .. } => *kind,
            Self::Foreign(_) => EntryKind::Foreign,
        }
    }
}

/// How many trees on their way to a commit another may go on from.
pub(crate) const LAYERS_MAX: usize = 2;

/// Layers of edits, the newest first.
pub(crate) type Layers<'t> = SmallVec<[&'t Arc<Patch>; LAYERS_MAX + 1]>;

/// A directory in a walk: its edits and what they apply to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'t> {
    pub(crate) patch: Option<&'t Arc<Patch>>,
    /// Edits below those, the newest first, of trees that are on their way to a commit; without gaps.
    pub(crate) lower: [Option<&'t Arc<Patch>>; LAYERS_MAX],
    pub(crate) base: Option<ObjRef>,
}

impl<'t> Place<'t> {
    /// A directory without edits.
    #[inline]
    pub(crate) const fn stored(base: Option<ObjRef>) -> Self {
        Self { patch: None, lower: [None; LAYERS_MAX], base }
    }

    /// A directory with one layer of edits.
    #[inline]
    pub(crate) const fn patched(patch: &'t Arc<Patch>, base: Option<ObjRef>) -> Self {
        Self { patch: Some(patch), lower: [None; LAYERS_MAX], base }
    }

    /// A directory with layers of edits, the newest first.
    pub(crate) fn layered(layers: &[&'t Arc<Patch>], base: Option<ObjRef>) -> Self {
        let Some((patch, rest)) = layers.split_first() else { return Self::stored(base) };
        let mut place = Self::patched(patch, base);
        for (lower, layer) in place.lower.iter_mut().zip(rest) {
            *lower = Some(layer);
        }
        debug_assert!(rest.len() <= LAYERS_MAX);
        place
    }

    /// Whether there is more than one layer of edits.
    #[inline]
    pub(crate) const fn is_layered(&self) -> bool {
        self.lower[0].is_some()
    }

    /// Returns the layers of edits, the newest first.
    pub(crate) fn layers(&self) -> Layers<'t> {
        self.patch.into_iter().chain(self.lower.into_iter().flatten()).collect()
    }
}

/// The directory edited last, out of its place in the patch.
#[derive(Clone, Debug)]
pub(crate) struct Finger {
    /// Its path, steps joined by `/`; never the root.
    pub(crate) parent: Vec<u8>,
    /// How many steps that are.
    steps: u16,
    pub(crate) patch: Arc<Patch>,
}

impl Finger {
    /// As [`Patch::levels`], from the root.
    pub(crate) fn levels(&self) -> u16 {
        self.steps + self.patch.levels
    }
}

impl fmt::Debug for Patch {
    /// Says how many edits there are: what they are would be said of every level below.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Patch");
        shown.field("base", &self.base).field("covers", &self.covers).field("edits", &self.len()).finish()
    }
}

impl Drop for Patch {
    /// Lets go of the directories below one by one, if they lie deep.
    fn drop(&mut self) {
        if self.levels <= DROPPED_LEVELS {
            return;
        }
        let mut waiting = Vec::new();
        self.edits.take_dirs(&mut waiting);
        while let Some(below) = waiting.pop() {
            if let Some(mut patch) = Arc::into_inner(below)
                && patch.levels > DROPPED_LEVELS
            {
                patch.edits.take_dirs(&mut waiting);
                patch.levels = 1;
            }
        }
    }
}

impl Patch {
    pub(crate) fn new(base: Base) -> Self {
        Self { base, covers: false, levels: 1, edits: StepMap::default() }
    }

    #[inline]
    pub(crate) fn get(&self, step: &[u8]) -> Option<&Edit> {
        self.edits.get(first_bytes(step), step)
    }

    /// Makes an edit, whatever is there.
    #[inline]
    pub(crate) fn set(&mut self, step: &[u8], edit: Edit) {
        if let Edit::Dir(below) = &edit {
            self.levels = self.levels.max(below.levels + 1);
        }
        self.edits.insert(Step::new(step), edit);
    }

    /// Sets a value; returns it where there are edits of a directory.
    #[inline]
    pub(crate) fn set_leaf(&mut self, step: &[u8], leaf: Leaf) -> Option<Leaf> {
        let mut leaf = Some(leaf);
        let slot = self.edits.get_or_insert(Step::new(step), || leaf.take().map_or(Edit::Remove, Edit::Leaf));
        let leaf = leaf?;
        match slot {
            Edit::Dir(_) | Edit::Taken => return Some(leaf),
            // What is stored there is known to go.
            Edit::Remove | Edit::Over(_) => *slot = Edit::Over(leaf),
            Edit::Leaf(_) => *slot = Edit::Leaf(leaf),
        }
        None
    }

    pub(crate) fn len(&self) -> usize {
        self.edits.len()
    }

    pub(crate) fn iter(&self) -> Edits<'_> {
        self.range(None, None)
    }

    /// Returns the edits in `from..to`.
    pub(crate) fn range(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> Edits<'_> {
        Edits(self.edits.range(from, to))
    }

    /// Returns the edits of the directory at `step`, made so that it can be edited; `covers` marks it.
    fn enter(&mut self, step: &[u8], covers: bool) -> &mut Arc<Patch> {
        let slot = self.edits.get_or_insert(Step::new(step), || Edit::Dir(Arc::new(Self::new(Base::Inherit))));
        if !matches!(slot, Edit::Dir(_)) {
            *slot = Edit::Dir(Arc::new(Self::new(Base::Own(None))));
        }
        match slot {
            Edit::Dir(below) => {
                if covers && !below.covers {
                    Arc::make_mut(below).covers = true;
                }
                below
            }
            _ => unreachable!("just made a directory"),
        }
    }

    fn slot(&mut self, step: &[u8]) -> Option<&mut Edit> {
        self.edits.get_mut(&Step::new(step))
    }
}

/// Edits by step, in order.
#[derive(Default)]
pub(crate) struct Edits<'p>(map::Range<'p>);

impl<'p> Iterator for Edits<'p> {
    type Item = (&'p [u8], &'p Edit);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(step, edit)| (step.as_bytes(), edit))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl DoubleEndedIterator for Edits<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(|(step, edit)| (step.as_bytes(), edit))
    }
}

/// Takes the directory at `parent` out of the patch and leaves [`Edit::Taken`].
pub(crate) fn take_out(root: &mut Arc<Patch>, parent: &[u8], covers: bool) -> Finger {
    let mut rest = parent.split(|&byte| byte == b'/');
    let last = rest.next_back().unwrap_or_default();
    let mut patch = Arc::make_mut(root);
    let steps = parent.iter().filter(|&&byte| byte == b'/').count() as u16 + 1;
    let mut levels = steps + 1;
    for step in rest {
        patch.levels = patch.levels.max(levels);
        levels -= 1;
        patch = Arc::make_mut(patch.enter(step, covers));
    }
    patch.levels = patch.levels.max(levels);
    patch.enter(last, covers);
    let slot = patch.slot(last).expect("just entered");
    let Edit::Dir(taken) = std::mem::replace(slot, Edit::Taken) else { unreachable!("just entered") };
    Finger { parent: parent.to_vec(), steps, patch: taken }
}

/// Whether a pending value or removal stands on the way to `path`, so that nothing is below it.
pub(crate) fn is_blocked(root: &Patch, parent: &[u8]) -> bool {
    let mut patch = root;
    for step in parent.split(|&byte| byte == b'/') {
        match patch.get(step) {
            Some(Edit::Dir(below)) => patch = below,
            Some(Edit::Leaf(_) | Edit::Over(_) | Edit::Remove) => return true,
            Some(Edit::Taken) | None => return false,
        }
    }
    false
}

/// Puts the finger's directory back where it belongs.
pub(crate) fn put_back(root: &mut Arc<Patch>, finger: &Finger) {
    put_at(root, &finger.parent, finger.steps, &finger.patch);
}

/// Replaces [`Edit::Taken`] below `patch`, if it is there: it stands in at most one place, and the way to it from any
/// directory is an end of its path.
pub(crate) fn put_back_below(patch: &mut Arc<Patch>, finger: &Finger) {
    let (mut end, mut steps) = (&finger.parent[..], finger.steps);
    while !leads_to_taken(patch, end) {
        let Some(slash) = end.iter().position(|&byte| byte == b'/') else { return };
        (end, steps) = (&end[slash + 1..], steps - 1);
    }
    put_at(patch, end, steps, &finger.patch);
}

fn leads_to_taken(patch: &Patch, path: &[u8]) -> bool {
    let mut patch = patch;
    let mut steps = path.split(|&byte| byte == b'/');
    while let Some(step) = steps.next() {
        match patch.get(step) {
            Some(Edit::Dir(below)) => patch = below,
            Some(Edit::Taken) => return steps.next().is_none(),
            _ => return false,
        }
    }
    false
}

/// Puts a directory at a path of so many steps, at least one.
fn put_at(root: &mut Arc<Patch>, path: &[u8], steps: u16, dir: &Arc<Patch>) {
    let mut rest = path.split(|&byte| byte == b'/');
    let last = rest.next_back().unwrap_or_default();
    let mut levels = steps + dir.levels;
    let mut patch = Arc::make_mut(root);
    for step in rest {
        patch.levels = patch.levels.max(levels);
        levels -= 1;
        patch = Arc::make_mut(patch.enter(step, dir.covers));
    }
    patch.set(last, Edit::Dir(dir.clone()));
}

/// A step as a key: its first eight bytes as an integer decide nearly every comparison.
#[derive(Clone, Debug)]
struct Step {
    first: u64,
    bytes: SmallVec<[u8; 16]>,
}

/// Returns the first eight bytes of a step as an integer that orders as they do.
#[inline(always)]
fn first_bytes(step: &[u8]) -> u64 {
    if let Some(first) = step.first_chunk() {
        return u64::from_be_bytes(*first);
    }
    // Without a call: steps of two and three bytes are most of those on the way.
    step.iter().fold(0, |first, &byte| first << 8 | u64::from(byte)) << (8 * (8 - step.len()) % 64)
}

impl Step {
    #[inline]
    fn new(step: &[u8]) -> Self {
        Self { first: first_bytes(step), bytes: SmallVec::from_slice(step) }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Ord for Step {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        match self.first.cmp(&other.first) {
            Ordering::Equal if self.bytes.len() <= 8 && other.bytes.len() <= 8 => {
                self.bytes.len().cmp(&other.bytes.len())
            }
            Ordering::Equal => self.bytes.cmp(&other.bytes),
            decided => decided,
        }
    }
}

impl PartialOrd for Step {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Step {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Step {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_ordered_as_their_bytes() {
        let steps: [&[u8]; 9] = [b"", b"\0", b"\0\0", b"a", b"a\0", b"aaaaaaaa", b"aaaaaaaa\0", b"aaaaaaaab", b"b"];
        for (i, one) in steps.iter().enumerate() {
            for (j, other) in steps.iter().enumerate() {
                assert_eq!(Step::new(one).cmp(&Step::new(other)), i.cmp(&j), "{one:?} {other:?}");
            }
        }
    }
}
