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
use crate::{Change, Location};

/// The changes of one level. Items are encoded once, into one buffer.
pub(super) struct LevelEdits {
    buffer: SmallVec<[u8; 128]>,
    list: SmallVec<[EncodedItem; 2]>,
}

struct EncodedItem {
    step: Range<u32>,
    // Empty for a removal: an item has at least two bytes.
    item: Range<u32>,
    at: Location,
    count: u64,
    fingerprint: u8,
}

/// One change.
pub(super) struct NativeEdit<'e> {
    pub(super) step: &'e [u8],
    pub(super) item: Option<NodeItem<'e>>,
}

/// Returns a place in the bytes of changes. Those of the leaves were counted before, or are a stretch of a wide level; those above have
/// a small part of that.
#[inline]
fn place(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("the changes of a level have fewer than 4 GiB")
}

impl LevelEdits {
    pub(super) fn new() -> Self {
        Self { buffer: SmallVec::new(), list: SmallVec::new() }
    }

    pub(super) fn from_changes<'c>(changes: impl ExactSizeIterator<Item = Change<'c>>) -> Self {
        let mut edits = Self::new();
        edits.buffer.reserve(changes.len() * 32);
        edits.list.reserve(changes.len());
        for change in changes {
            let Some((kind, target)) = &change.to else {
                edits.remove(change.step);
                continue;
            };
            let start = edits.buffer.len();
            write_leaf_item(&mut edits.buffer, change.step, change.mode, *kind, target);
            let at = match target {
                crate::ChangeTarget::Object { at, .. } => at.at,
                _ => Location::NONE,
            };
            edits.push(start, 1, change.step, at, 1, step_hash(change.step) as u8);
        }
        edits
    }

    /// Returns changes that put items of a level.
    pub(super) fn from_items(level: u8, items: &[NodeItem<'_>]) -> Self {
        let mut edits = Self::new();
        edits.list.reserve(items.len());
        for item in items {
            let start = edits.buffer.len();
            edits.buffer.extend_from_slice(item.bytes);
            edits.push(start, usize::from(level == 0), item.step, item.at, item.count, item.fingerprint);
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
        let list = &other.list[range];
        let (Some(first), Some(last)) = (list.first(), list.last()) else { return };
        // Bytes are in the order of changes; the step of a put lies within its item.
        let start = if first.item.is_empty() { first.step.start } else { first.item.start };
        let base = place(self.buffer.len());
        self.buffer.extend_from_slice(&other.buffer[start as usize..last.item.end as usize]);
        place(self.buffer.len());
        let here = |range: &Range<u32>| range.start - start + base..range.end - start + base;
        self.list.extend(list.iter().map(|change| EncodedItem {
            step: here(&change.step),
            item: here(&change.item),
            at: change.at,
            count: change.count,
            fingerprint: change.fingerprint,
        }));
    }

    /// Says where the objects are now that were at places.
    pub(super) fn moved(&mut self, place: &dyn Fn(Location) -> Location) {
        self.list.iter_mut().for_each(|change| change.at = place(change.at));
    }

    /// Adds a removal.
    pub(super) fn remove(&mut self, step: &[u8]) {
        let start = place(self.buffer.len());
        self.buffer.extend_from_slice(step);
        let end = place(self.buffer.len());
        self.list.push(EncodedItem { step: start..end, item: end..end, at: Location::NONE, count: 0, fingerprint: 0 });
    }

    /// Adds a piece as an item of the level above it.
    pub(super) fn put_child(&mut self, child: &NodeChild<'_>, at: Location) {
        let start = self.buffer.len();
        write_inner_item(&mut self.buffer, child);
        self.push(start, 0, child.step, at, child.count, 0);
    }

    /// Records the item that was just written from `start`, whose step's length follows `tag` bytes.
    fn push(&mut self, start: usize, tag: usize, step: &[u8], at: Location, count: u64, fingerprint: u8) {
        let skip = start + tag + if step.len() < 0x80 { 1 } else { 2 };
        let range = |from: usize, to: usize| place(from)..place(to);
        self.list.push(EncodedItem {
            step: range(skip, skip + step.len()),
            item: range(start, self.buffer.len()),
            at,
            count,
            fingerprint,
        });
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
        let bytes = |range: &Range<u32>| &self.buffer[range.start as usize..range.end as usize];
        let step = bytes(&slot.step);
        let item = (!slot.item.is_empty()).then(|| NodeItem {
            bytes: bytes(&slot.item),
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
