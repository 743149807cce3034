//! Pending edits: a tree of sorted maps, copied on write, changed in place where no other tree shares them.

use std::{borrow::Borrow, cmp::Ordering, fmt, sync::Arc};

use bristlecone_core::{EntryKind, ObjRef, Oid};
use smallvec::SmallVec;

use self::map::StepMap;
use crate::Value;

mod map;

/// What a directory's edits apply to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PatchBase {
    /// Whatever the directory above has at this step.
    Inherit,
    /// This directory, or an empty one.
    Own(Option<ObjRef>),
    /// An empty one in place of a value that was set where no directory may be: one that is stored there is still an error.
    AfterLeaf,
}

impl PatchBase {
    /// Returns the directory, or an empty one; `None` where that is what the directory above has.
    #[inline]
    pub(crate) const fn own(self) -> Option<Option<ObjRef>> {
        match self {
            Self::Inherit => None,
            Self::Own(base) => Some(base),
            Self::AfterLeaf => Some(None),
        }
    }
}

/// How many levels are dropped by recursion; deeper ones are dropped by a loop.
const DROPPED_LEVELS: u16 = 32;

/// The edits of one directory.
#[derive(Clone)]
pub(crate) struct Patch {
    pub(crate) base: PatchBase,
    // Something was added here or below. It replaces a value that stands where the directory is, even if the addition is
    // removed again.
    pub(crate) replaces_value: bool,
    // At least the steps of the longest path that was edited here or below. What was put into the active directory counts
    // once that is attached again.
    pub(crate) levels: u16,
    edits: StepMap,
}

/// One edit.
#[derive(Clone, Debug)]
pub(crate) enum PatchEdit {
    Remove,
    /// A value where no directory may be.
    Leaf(NewLeaf),
    /// A value in place of whatever is there.
    Over(NewLeaf),
    Dir(Arc<Patch>),
    /// The directory is the active one: its edits are detached from the patch.
    Detached,
}

/// A value that was set.
#[derive(Clone, Debug)]
pub(crate) enum NewLeaf {
    Short { kind: EntryKind, bytes: SmallVec<[u8; 48]> },
    Shared { kind: EntryKind, value: Value },
    Stored { kind: EntryKind, at: ObjRef, bytes: u64 },
    Foreign(Oid),
}

impl NewLeaf {
    /// Returns a value that is at hand.
    #[inline]
    pub(crate) fn at_hand(&self) -> Option<&[u8]> {
        match self {
            Self::Short { bytes, .. } => Some(bytes),
            Self::Shared { value, .. } => Some(value.as_bytes()),
            Self::Stored { .. } | Self::Foreign(_) => None,
        }
    }

    pub(crate) const fn kind(&self) -> EntryKind {
        match self {
            Self::Short { kind, .. } | Self::Shared { kind, .. } | Self::Stored { kind, .. } => *kind,
            Self::Foreign(_) => EntryKind::Foreign,
        }
    }
}

/// How many commits in flight a tree may go on from.
pub(crate) const IN_FLIGHT_MAX: usize = 2;

/// PatchLayers of edits, the newest first.
pub(crate) type PatchLayers<'t> = SmallVec<[&'t Arc<Patch>; IN_FLIGHT_MAX + 1]>;

/// Refers to a directory of a tree: its edits and what they apply to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirRef<'t> {
    pub(crate) patch: Option<&'t Arc<Patch>>,
    /// Edits below those, of commits in flight, the newest first; without gaps.
    pub(crate) lower: [Option<&'t Arc<Patch>>; IN_FLIGHT_MAX],
    pub(crate) base: Option<ObjRef>,
}

impl<'t> DirRef<'t> {
    /// A directory without edits.
    #[inline]
    pub(crate) const fn stored(base: Option<ObjRef>) -> Self {
        Self { patch: None, lower: [None; IN_FLIGHT_MAX], base }
    }

    /// A directory with one layer of edits.
    #[inline]
    pub(crate) const fn patched(patch: &'t Arc<Patch>, base: Option<ObjRef>) -> Self {
        Self { patch: Some(patch), lower: [None; IN_FLIGHT_MAX], base }
    }

    /// A directory with layers of edits, the newest first.
    pub(crate) fn layered(layers: &[&'t Arc<Patch>], base: Option<ObjRef>) -> Self {
        let Some((patch, rest)) = layers.split_first() else { return Self::stored(base) };
        let mut dir = Self::patched(patch, base);
        for (lower, layer) in dir.lower.iter_mut().zip(rest) {
            *lower = Some(layer);
        }
        debug_assert!(rest.len() <= IN_FLIGHT_MAX);
        dir
    }

    /// Whether there is more than one layer of edits.
    #[inline]
    pub(crate) const fn is_layered(&self) -> bool {
        self.lower[0].is_some()
    }

    /// Returns the layers of edits, the newest first.
    pub(crate) fn layers(&self) -> PatchLayers<'t> {
        self.patch.into_iter().chain(self.lower.into_iter().flatten()).collect()
    }
}

/// The directory edited last, detached from the patch.
#[derive(Clone, Debug)]
pub(crate) struct ActiveDir {
    /// Its path, steps joined by `/`; never the root.
    pub(crate) parent: Vec<u8>,
    /// The number of its steps.
    steps: u16,
    pub(crate) patch: Arc<Patch>,
}

impl ActiveDir {
    /// As [`Patch::levels`], from the root.
    pub(crate) fn levels(&self) -> u16 {
        self.steps + self.patch.levels
    }
}

impl fmt::Debug for Patch {
    /// Shows the number of edits. Their contents would be repeated for every level below.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Patch");
        shown
            .field("base", &self.base)
            .field("replaces_value", &self.replaces_value)
            .field("edits", &self.len())
            .finish()
    }
}

impl Drop for Patch {
    /// Drops the directories below one by one, if they lie deep.
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
    pub(crate) fn new(base: PatchBase) -> Self {
        Self { base, replaces_value: false, levels: 1, edits: StepMap::default() }
    }

    /// Returns some of the edits of a directory, in order.
    pub(crate) fn of_part(base: PatchBase, whole: &Self, edits: Vec<StepEdit>) -> Self {
        let mut part =
            Self { base, replaces_value: whole.replaces_value, levels: whole.levels, edits: StepMap::default() };
        part.set_many(edits);
        part
    }

    #[inline]
    pub(crate) fn get(&self, step: &[u8]) -> Option<&PatchEdit> {
        self.edits.get(StepRef::new(step))
    }

    /// Makes an edit, whatever is there.
    #[inline]
    pub(crate) fn set(&mut self, step: &[u8], edit: PatchEdit) {
        if let PatchEdit::Dir(below) = &edit {
            self.levels = self.levels.max(below.levels + 1);
        }
        let mut edit = Some(edit);
        let slot = self.edits.get_or_insert(StepRef::new(step), || edit.take().unwrap_or(PatchEdit::Remove));
        if let Some(edit) = edit {
            *slot = edit;
        }
    }

    /// Sets a value; returns it where there are edits of a directory.
    #[inline]
    pub(crate) fn set_leaf(&mut self, step: &[u8], leaf: NewLeaf) -> Option<NewLeaf> {
        let mut leaf = Some(leaf);
        let slot =
            self.edits.get_or_insert(StepRef::new(step), || leaf.take().map_or(PatchEdit::Remove, PatchEdit::Leaf));
        let leaf = leaf?;
        match slot {
            PatchEdit::Dir(_) | PatchEdit::Detached => return Some(leaf),
            // What is stored there is known to go.
            PatchEdit::Remove | PatchEdit::Over(_) => *slot = PatchEdit::Over(leaf),
            PatchEdit::Leaf(_) => *slot = PatchEdit::Leaf(leaf),
        }
        None
    }

    /// Sets a value in place of edits of a directory, which leave nothing there.
    pub(crate) fn set_over(&mut self, step: &[u8], leaf: NewLeaf) {
        let after_leaf =
            matches!(self.get(step), Some(PatchEdit::Dir(below)) if matches!(below.base, PatchBase::AfterLeaf));
        self.set(step, if after_leaf { PatchEdit::Leaf(leaf) } else { PatchEdit::Over(leaf) });
    }

    /// Makes many edits, whatever is there; they are sorted by [`sort_steps`].
    pub(crate) fn set_many(&mut self, edits: Vec<StepEdit>) {
        if self.edits.len() == 0 {
            self.edits = StepMap::Sorted(edits.into_iter().map(|StepEdit(step, edit)| (step, edit)).collect());
            return;
        }
        for StepEdit(step, edit) in edits {
            match edit {
                PatchEdit::Leaf(leaf) => {
                    if let Some(leaf) = self.set_leaf(step.as_bytes(), leaf) {
                        self.set_over(step.as_bytes(), leaf);
                    }
                }
                edit => self.set(step.as_bytes(), edit),
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.edits.len()
    }

    pub(crate) fn iter(&self) -> PatchEdits<'_> {
        self.range(None, None)
    }

    /// Returns the edits in `from..to`.
    pub(crate) fn range(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> PatchEdits<'_> {
        PatchEdits(self.edits.range(from, to))
    }

    /// Returns the edits of the directory at `step`, made so that it can be edited; `replaces_value` marks it.
    fn enter(&mut self, step: &[u8], replaces_value: bool) -> &mut Arc<Patch> {
        match self.enter_slot(step, replaces_value) {
            PatchEdit::Dir(below) => below,
            _ => unreachable!("just made a directory"),
        }
    }

    /// As [`Patch::enter`], and returns where the directory stands.
    fn enter_slot(&mut self, step: &[u8], replaces_value: bool) -> &mut PatchEdit {
        let new = || PatchEdit::Dir(Arc::new(Self::new(PatchBase::Inherit)));
        let slot = self.edits.get_likely(StepRef::new(step), new);
        if !matches!(slot, PatchEdit::Dir(_)) {
            let base = if matches!(slot, PatchEdit::Leaf(_)) { PatchBase::AfterLeaf } else { PatchBase::Own(None) };
            *slot = PatchEdit::Dir(Arc::new(Self::new(base)));
        }
        if let PatchEdit::Dir(below) = slot
            && replaces_value
            && !below.replaces_value
        {
            Arc::make_mut(below).replaces_value = true;
        }
        slot
    }
}

/// Edits by step, in order.
#[derive(Clone, Default)]
pub(crate) struct PatchEdits<'p>(map::MapRange<'p>);

impl<'p> Iterator for PatchEdits<'p> {
    type Item = (&'p [u8], &'p PatchEdit);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(step, edit)| (step.as_bytes(), edit))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl DoubleEndedIterator for PatchEdits<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(|(step, edit)| (step.as_bytes(), edit))
    }
}

/// Detaches the directory at `parent` from the patch, where it leaves [`PatchEdit::Detached`]. `kept`: what its path is kept in.
pub(crate) fn detach(root: &mut Arc<Patch>, parent: &[u8], replaces_value: bool, mut kept: Vec<u8>) -> ActiveDir {
    let mut rest = parent.split(|&byte| byte == b'/');
    let last = rest.next_back().unwrap_or_default();
    let mut patch = Arc::make_mut(root);
    let steps = parent.iter().filter(|&&byte| byte == b'/').count() as u16 + 1;
    let mut levels = steps + 1;
    for step in rest {
        patch.levels = patch.levels.max(levels);
        levels -= 1;
        patch = Arc::make_mut(patch.enter(step, replaces_value));
    }
    patch.levels = patch.levels.max(levels);
    let slot = patch.enter_slot(last, replaces_value);
    let PatchEdit::Dir(taken) = std::mem::replace(slot, PatchEdit::Detached) else { unreachable!("just entered") };
    kept.clear();
    kept.extend_from_slice(parent);
    ActiveDir { parent: kept, steps, patch: taken }
}

/// Whether a pending value or removal stands on the way to `path`, so that nothing is below it.
pub(crate) fn is_blocked(root: &Patch, parent: &[u8]) -> bool {
    let mut patch = root;
    for step in parent.split(|&byte| byte == b'/') {
        match patch.get(step) {
            Some(PatchEdit::Dir(below)) => patch = below,
            Some(PatchEdit::Leaf(_) | PatchEdit::Over(_) | PatchEdit::Remove) => return true,
            Some(PatchEdit::Detached) | None => return false,
        }
    }
    false
}

/// Attaches the active directory where it belongs, and returns what its path was kept in.
pub(crate) fn attach(root: &mut Arc<Patch>, active: ActiveDir) -> Vec<u8> {
    put_at(root, &active.parent, active.steps, active.patch);
    active.parent
}

/// Replaces [`PatchEdit::Detached`] below `patch`, if it is there. It stands in one place at most, and the way to it from any
/// directory is an end of its path.
pub(crate) fn attach_below(patch: &mut Arc<Patch>, active: &ActiveDir) {
    let (mut end, mut steps) = (&active.parent[..], active.steps);
    while !leads_to_detached(patch, end) {
        let Some(slash) = end.iter().position(|&byte| byte == b'/') else { return };
        (end, steps) = (&end[slash + 1..], steps - 1);
    }
    put_at(patch, end, steps, active.patch.clone());
}

fn leads_to_detached(patch: &Patch, path: &[u8]) -> bool {
    let mut patch = patch;
    let mut steps = path.split(|&byte| byte == b'/');
    while let Some(step) = steps.next() {
        match patch.get(step) {
            Some(PatchEdit::Dir(below)) => patch = below,
            Some(PatchEdit::Detached) => return steps.next().is_none(),
            _ => return false,
        }
    }
    false
}

/// Puts a directory at a path of `steps` steps, at least one.
fn put_at(root: &mut Arc<Patch>, path: &[u8], steps: u16, dir: Arc<Patch>) {
    let mut rest = path.split(|&byte| byte == b'/');
    let last = rest.next_back().unwrap_or_default();
    let mut levels = steps + dir.levels;
    let mut patch = Arc::make_mut(root);
    for step in rest {
        patch.levels = patch.levels.max(levels);
        levels -= 1;
        patch = Arc::make_mut(patch.enter(step, dir.replaces_value));
    }
    patch.levels = patch.levels.max(dir.levels + 1);
    *patch.edits.get_likely(StepRef::new(last), || PatchEdit::Detached) = PatchEdit::Dir(dir);
}

/// An edit of a step: no directory.
#[derive(Clone, Debug)]
pub(crate) struct StepEdit(StepKey, PatchEdit);

impl StepEdit {
    pub(crate) fn new(step: &[u8], edit: PatchEdit) -> Self {
        Self(StepKey::new(step), edit)
    }

    pub(crate) fn step(&self) -> &[u8] {
        self.0.as_bytes()
    }

    pub(crate) const fn edit(&self) -> &PatchEdit {
        &self.1
    }

    pub(crate) fn into_edit(self) -> PatchEdit {
        self.1
    }

    /// Whether the edit binds the step to a value where no directory may be.
    pub(crate) const fn is_leaf(&self) -> bool {
        matches!(self.1, PatchEdit::Leaf(_))
    }
}

/// Sorts edits by step; of those of one step the last stays.
pub(crate) fn sort_steps(mut edits: Vec<StepEdit>) -> Vec<StepEdit> {
    if edits.windows(2).all(|pair| pair[0].0 < pair[1].0) {
        return edits;
    }
    // Edits are large: their places are sorted, by what decides nearly every comparison.
    let mut order: Vec<(u64, u32)> = edits.iter().zip(0..).map(|(edit, place)| (edit.0.first, place)).collect();
    order.sort_unstable_by(|(first, place), (other, beside)| {
        let whole = || edits[*place as usize].0.cmp(&edits[*beside as usize].0);
        first.cmp(other).then_with(whole).then(place.cmp(beside))
    });
    let mut out: Vec<StepEdit> = Vec::with_capacity(edits.len());
    for (_, place) in order {
        let taken = std::mem::replace(&mut edits[place as usize], StepEdit::new(b"", PatchEdit::Remove));
        match out.last_mut() {
            Some(last) if last.0 == taken.0 => last.1 = after(&last.1, taken.1),
            _ => out.push(taken),
        }
    }
    out
}

/// Returns what an edit comes to behind another one of the same step: what was removed is known to go.
fn after(earlier: &PatchEdit, edit: PatchEdit) -> PatchEdit {
    match (earlier, edit) {
        (PatchEdit::Remove | PatchEdit::Over(_), PatchEdit::Leaf(leaf)) => PatchEdit::Over(leaf),
        (_, edit) => edit,
    }
}

/// A step as a key: its first eight bytes as an integer decide nearly every comparison.
#[derive(Clone, Debug)]
struct StepKey {
    first: u64,
    bytes: SmallVec<[u8; STEP_BYTES]>,
}

/// A step that is looked for.
#[derive(Clone, Copy, Debug)]
struct StepRef<'s> {
    first: u64,
    bytes: &'s [u8],
}

impl<'s> StepRef<'s> {
    #[inline]
    fn new(bytes: &'s [u8]) -> Self {
        Self { first: first_bytes(bytes), bytes }
    }

    /// Returns the key of the step.
    #[inline]
    fn key(self) -> StepKey {
        StepKey { first: self.first, bytes: SmallVec::from_slice(self.bytes) }
    }

    /// Whether the key of the step has a piece of memory of its own.
    #[inline]
    const fn is_long(self) -> bool {
        self.bytes.len() > STEP_BYTES
    }
}

/// Steps of so many bytes stand in their keys.
const STEP_BYTES: usize = 16;

/// Returns the first eight bytes of a step as an integer that orders as they do.
#[inline(always)]
fn first_bytes(step: &[u8]) -> u64 {
    if let Some(first) = step.first_chunk() {
        return u64::from_be_bytes(*first);
    }
    // Without a call: steps of two and three bytes are most of those on the way.
    step.iter().fold(0, |first, &byte| first << 8 | u64::from(byte)) << (8 * (8 - step.len()) % 64)
}

impl StepKey {
    #[inline]
    fn new(step: &[u8]) -> Self {
        StepRef::new(step).key()
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    #[inline]
    fn as_ref(&self) -> StepRef<'_> {
        StepRef { first: self.first, bytes: &self.bytes }
    }
}

/// Keys are in the order of their bytes.
impl Borrow<[u8]> for StepKey {
    fn borrow(&self) -> &[u8] {
        &self.bytes
    }
}

impl Ord for StepKey {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_ref().cmp(&other.as_ref())
    }
}

impl Ord for StepRef<'_> {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        match self.first.cmp(&other.first) {
            Ordering::Equal if self.bytes.len() <= 8 && other.bytes.len() <= 8 => {
                self.bytes.len().cmp(&other.bytes.len())
            }
            Ordering::Equal => self.bytes.cmp(other.bytes),
            decided => decided,
        }
    }
}

impl PartialOrd for StepRef<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for StepRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for StepRef<'_> {}

impl PartialOrd for StepKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for StepKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for StepKey {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_ordered_as_their_bytes() {
        let steps: [&[u8]; 9] = [b"", b"\0", b"\0\0", b"a", b"a\0", b"aaaaaaaa", b"aaaaaaaa\0", b"aaaaaaaab", b"b"];
        for (i, one) in steps.iter().enumerate() {
            for (j, other) in steps.iter().enumerate() {
                assert_eq!(StepKey::new(one).cmp(&StepKey::new(other)), i.cmp(&j), "{one:?} {other:?}");
            }
        }
    }
}
