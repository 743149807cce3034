//! Changes of one level in encoded form: sorted by step, each a new item or a removal.

use core::ops::Range;

use smallvec::SmallVec;

use super::{
    super::{
        cut::step_hash,
        node::{NodeChild, write_inner_item, write_leaf_item},
    },
    NodeItem,
};
use crate::{Change, ChangeTarget, Location, Oid};

/// The changes of one level. Items are encoded once, into one buffer.
pub(super) struct LevelEdits {
    buffer: SmallVec<[u8; 128]>,
    list: SmallVec<[EncodedItem; 2]>,
}

struct EncodedItem {
    // Its bytes begin where those of the change before end: those of the item, or of a removal's step alone.
    end: usize,
    step_bytes: usize,
    at: Location,
    count: u64,
    step_offset: u8,
    fingerprint: u8,
    puts: bool,
}

/// One change.
pub(super) struct NativeEdit<'e> {
    pub(super) step: &'e [u8],
    pub(super) item: Option<NodeItem<'e>>,
}

impl LevelEdits {
    pub(super) fn new() -> Self {
        Self { buffer: SmallVec::new(), list: SmallVec::new() }
    }

    /// Returns none, with room for so many.
    pub(super) fn with_capacity(changes: usize) -> Self {
        let mut edits = Self::new();
        edits.buffer.reserve(changes * 32);
        edits.list.reserve(changes);
        edits
    }

    pub(super) fn from_changes<'c>(changes: impl ExactSizeIterator<Item = Change<'c>>) -> Self {
        let mut edits = Self::with_capacity(changes.len());
        changes.for_each(|change| edits.add(&change));
        edits
    }

    #[inline]
    pub(super) fn add(&mut self, change: &Change<'_>) {
        let Some((kind, target)) = &change.to else {
            self.remove(change.step);
            return;
        };
        write_leaf_item(&mut self.buffer, change.step, change.mode, *kind, target);
        let at = match target {
            ChangeTarget::Object { at, .. } => at.at,
            _ => Location::NONE,
        };
        self.push(1, change.step, at, 1, step_hash(change.step) as u8);
    }

    /// Replaces the id of the object that a change puts.
    pub(super) fn set_object(&mut self, index: usize, oid: &Oid) {
        let end = self.list[index].end;
        let id = oid.as_bytes();
        // An item ends with it.
        self.buffer[end - id.len()..end].copy_from_slice(id);
    }

    /// Returns changes that put items of a level.
    pub(super) fn from_items(level: u8, items: &[NodeItem<'_>]) -> Self {
        let mut edits = Self::new();
        edits.list.reserve(items.len());
        for item in items {
            edits.buffer.extend_from_slice(item.bytes);
            edits.push(u8::from(level == 0), item.step, item.at, item.count, item.fingerprint);
        }
        edits
    }

    /// Returns some of the changes.
    pub(super) fn copy_of(&self, range: Range<usize>) -> Self {
        let mut copy = Self::new();
        copy.append_range(self, range);
        copy
    }

    /// Adds changes of steps that come behind these.
    pub(super) fn append(&mut self, other: &Self) {
        self.append_range(other, 0..other.len());
    }

    fn append_range(&mut self, other: &Self, range: Range<usize>) {
        let (start, base) = (other.start(range.start), self.buffer.len());
        let list = &other.list[range];
        let Some(last) = list.last() else { return };
        self.buffer.extend_from_slice(&other.buffer[start..last.end]);
        self.list.extend(list.iter().map(|change| EncodedItem { end: change.end - start + base, ..*change }));
    }

    /// Says where the objects are now that were at places.
    pub(super) fn moved(&mut self, place: &dyn Fn(Location) -> Location) {
        self.list.iter_mut().for_each(|change| change.at = place(change.at));
    }

    /// Adds a removal.
    pub(super) fn remove(&mut self, step: &[u8]) {
        self.buffer.extend_from_slice(step);
        self.list.push(EncodedItem {
            end: self.buffer.len(),
            step_bytes: step.len(),
            at: Location::NONE,
            count: 0,
            step_offset: 0,
            fingerprint: 0,
            puts: false,
        });
    }

    /// Adds a piece as an item of the level above it.
    pub(super) fn put_child(&mut self, child: &NodeChild<'_>, at: Location) {
        write_inner_item(&mut self.buffer, child);
        self.push(0, child.step, at, child.count, 0);
    }

    /// Records the item that was just written, whose step's length follows `tag` bytes.
    fn push(&mut self, tag: u8, step: &[u8], at: Location, count: u64, fingerprint: u8) {
        self.list.push(EncodedItem {
            end: self.buffer.len(),
            step_bytes: step.len(),
            at,
            count,
            step_offset: tag + if step.len() < 0x80 { 1 } else { 2 },
            fingerprint,
            puts: true,
        });
    }

    /// Returns where the bytes of a change begin.
    #[inline]
    fn start(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.list[before].end)
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    #[inline]
    pub(super) fn get(&self, index: usize) -> NativeEdit<'_> {
        let slot = &self.list[index];
        let bytes = &self.buffer[self.start(index)..slot.end];
        let step = &bytes[usize::from(slot.step_offset)..][..slot.step_bytes];
        let item = slot.puts.then_some(NodeItem {
            bytes,
            step,
            at: slot.at,
            count: slot.count,
            fingerprint: slot.fingerprint,
        });
        NativeEdit { step, item }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = NativeEdit<'_>> {
        (0..self.len()).map(|index| self.get(index))
    }
}

#[cfg(test)]
mod tests {
    use alloc::{vec, vec::Vec};

    use super::*;
    use crate::{ChangeTarget, EntryKind, Mode};

    fn facts(edits: &LevelEdits) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        edits.iter().map(|edit| (edit.step.to_vec(), edit.item.map(|item| item.bytes.to_vec()))).collect()
    }

    #[test]
    fn changes_are_the_same_when_they_are_copied_and_appended() {
        let long = [b'b'; 200];
        let put = |value| Some((EntryKind::Value, ChangeTarget::Inline(value)));
        let change = |step, to| Change { step, mode: Mode::USUAL, to };
        let changes = [change(b"a", put(b"1")), change(&long, put(b"2")), change(b"c", None), change(b"d", put(b"3"))];
        let all = LevelEdits::from_changes(changes.into_iter());
        let steps: Vec<&[u8]> = all.iter().map(|edit| edit.step).collect();
        assert_eq!(steps, [&b"a"[..], &long, b"c", b"d"]);
        let puts: Vec<bool> = all.iter().map(|edit| edit.item.is_some()).collect();
        assert_eq!(puts, [true, true, false, true]);
        for middle in 0..=all.len() {
            let mut parts = all.copy_of(0..middle);
            parts.append(&all.copy_of(middle..all.len()));
            assert_eq!(facts(&parts), facts(&all), "parted at {middle}");
        }
    }

    #[test]
    #[ignore = "it takes 5 GiB of memory"]
    fn a_level_holds_more_than_4_gib_of_changes() {
        let mut edits = LevelEdits::new();
        let (step, count) = (vec![b'a'; 1 << 20], (1 << 12) + 1);
        edits.buffer.reserve_exact(step.len() * count + 1);
        for _ in 0..count {
            edits.remove(&step);
        }
        edits.append(&LevelEdits::from_changes([Change { step: b"b", mode: Mode::USUAL, to: None }].into_iter()));
        assert_eq!(edits.get(count - 1).step, &step[..]);
        assert_eq!(edits.get(count).step, b"b");
    }
}
