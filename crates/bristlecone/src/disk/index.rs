//! Where an id of the tail is: a table in memory, made from the segment at the first lookup of an id without a
//! location, and while there are such lookups from what this process appends. It holds part of an id and an offset; the
//! caller compares the whole id at the record.

use std::{
    ops::RangeInclusive,
    sync::atomic::{AtomicBool, Ordering::*},
};

use bristlecone_core::{Oid, RECORD_HEADER_BYTES, RecordHeader};

use super::{
    append::AppendedFrame, frame::HEAD_BYTES, ids::LostRange, log::DiskState, sealed::IndexEntry, segment::Segment,
};

/// The index of the unsealed tail: open addressing, 8 bytes a slot, at most three quarters full.
#[derive(Debug, Default)]
pub(super) struct TailIndex {
    /// The segment that is indexed.
    pub(super) segment: u32,
    /// How far its frames are indexed.
    pub(super) upto: u64,
    // The upper half of the id's hash and the offset; 0 is empty, as no record starts at 0.
    slots: Vec<u64>,
    len: usize,
    // Whether an id was looked up since something was added.
    asked: AtomicBool,
    /// Where records may have been that cannot be read any more.
    pub(super) lost: Vec<LostRange>,
    /// The same in the order of ids, once they were asked for by their first digits.
    pub(super) sorted: SortedTail,
}

/// The ids of the tail in their order.
#[derive(Debug, Default)]
pub(super) struct SortedTail {
    /// How far the segment's frames are in it.
    pub(super) upto: u64,
    // The first bytes of an id as a big-endian integer, and the offset of its record.
    entries: Vec<IndexEntry>,
}

impl SortedTail {
    /// Adds the records up to an offset.
    pub(super) fn extend(&mut self, entries: impl Iterator<Item = IndexEntry>, upto: u64) {
        self.entries.extend(entries.map(|(prefix, offset)| (prefix.swap_bytes(), offset)));
        // One long run is sorted already.
        self.entries.sort();
        self.upto = upto;
    }

    /// Returns the offsets of records whose ids' first bytes are in this range.
    pub(super) fn between(&self, keys: &RangeInclusive<u64>) -> impl Iterator<Item = u32> {
        let begin = self.entries.partition_point(|entry| entry.0 < *keys.start());
        let end = *keys.end();
        self.entries[begin..].iter().take_while(move |entry| entry.0 <= end).map(|entry| entry.1)
    }
}

impl TailIndex {
    /// Starts over with another segment.
    pub(super) fn reset(&mut self, segment: u32, upto: u64) {
        *self = Self { segment, upto, ..Self::default() };
    }

    /// Adds a record. `same` says whether the record at an offset has the same id, and is replaced therefore.
    pub(super) fn insert(&mut self, prefix: u64, offset: u32, same: impl Fn(u32) -> bool) {
        if (self.len + 1) * 4 > self.slots.len() * 3 {
            self.grow();
        }
        let hash = spread(prefix);
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                self.len += 1;
            } else if slot >> 32 != hash >> 32 || !same(slot as u32) {
                at = (at + 1) & mask;
                continue;
            }
            self.slots[at] = hash & !0xffff_ffff | u64::from(offset);
            return;
        }
    }

    /// Adds records of the segment that is indexed.
    pub(super) fn extend(&mut self, segment: &Segment, entries: impl Iterator<Item = IndexEntry>) {
        let same = |one: u32, other: u32| id_at(segment, one).is_some_and(|one| Some(one) == id_at(segment, other));
        for (prefix, offset) in entries {
            self.insert(prefix, offset, |other| same(offset, other));
        }
    }

    /// Adds frames that this process has appended, if ids were looked up since something was added last: else they may never be
    /// asked for, and are found in the segment if they are. The table goes on from what is before them, or stays.
    fn follow<'b>(&mut self, segment: &Segment, frames: impl Iterator<Item = AppendedFrame<'b>>) {
        if self.segment != segment.number || !std::mem::take(self.asked.get_mut()) {
            return;
        }
        for frame in frames {
            if self.upto == frame.at {
                let records_at = frame.at as u32 + HEAD_BYTES as u32;
                self.extend(segment, frame.batch.prefixes().map(|(prefix, offset)| (prefix, records_at + offset)));
                self.upto = frame.end;
            }
        }
    }

    /// Returns the first offset under this prefix that `is_it` accepts.
    pub(super) fn find(&self, prefix: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        if !self.asked.load(Relaxed) {
            self.asked.store(true, Relaxed);
        }
        if self.slots.is_empty() {
            return None;
        }
        let hash = spread(prefix);
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                return None;
            }
            if slot >> 32 == hash >> 32 && is_it(slot as u32) {
                return Some(slot as u32);
            }
            at = (at + 1) & mask;
        }
    }

    /// Whether the record at an offset that was found for an id is of another one, which the table cannot tell from it. Where it is
    /// not, and not the object either, its header has decayed.
    pub(super) fn collides(segment: &Segment, oid: &Oid, offset: u32) -> bool {
        let is_same = |other: &Oid| spread(other.prefix()) >> 32 == spread(oid.prefix()) >> 32;
        id_at(segment, offset).is_some_and(|other| other != *oid && is_same(&other))
    }

    /// Returns the bytes of memory that the table takes.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.slots.capacity() as u64 * 8 + (self.sorted.entries.capacity() * size_of::<IndexEntry>()) as u64
    }

    // A slot does not hold the half of the hash that placed it, so that growing needs the slots' places:
    // the lower bits that are known are those of the old table, and the rest comes from the upper half.
    fn grow(&mut self) {
        let slots = (self.slots.len() * 2).max(1024);
        let old = std::mem::replace(&mut self.slots, vec![0; slots]);
        let mask = slots - 1;
        for slot in old.into_iter().filter(|&slot| slot != 0) {
            let mut at = place(slot >> 32) as usize & mask;
            while self.slots[at] != 0 {
                at = (at + 1) & mask;
            }
            self.slots[at] = slot;
        }
    }
}

/// Returns the id of the record at an offset, if its header tells.
fn id_at(segment: &Segment, offset: u32) -> Option<Oid> {
    let header = segment.bytes_at(u64::from(offset), RECORD_HEADER_BYTES as u64).ok()?;
    Oid::new(RecordHeader::first(&header)?.oid()?).ok()
}

/// Makes a uniform hash of an id's prefix, whose lower half follows from its upper half.
///
/// Short ids leave the upper bytes of a prefix empty; the product spreads what there is.
fn spread(prefix: u64) -> u64 {
    let high = prefix.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    high << 32 | place(high)
}

fn place(high: u64) -> u64 {
    (high.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 32) & 0xffff_ffff
}

impl DiskState {
    /// Adds frames that this process has appended to the table of the tail, where that is of use.
    pub(super) fn index_appended<'b>(&self, segment: &Segment, frames: impl Iterator<Item = AppendedFrame<'b>>) {
        // A thread that looks up an id meanwhile, or brings the table up to date, is not waited for.
        if let Ok(mut index) = self.tail_index.try_write() {
            index.follow(segment, frames);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> impl Iterator<Item = u64> {
        let mut state = 1_u64;
        std::iter::repeat_with(move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state ^ state >> 29
        })
    }

    #[test]
    fn the_tail_finds_what_was_put_in_while_growing() {
        let mut index = TailIndex::default();
        let ids: Vec<u64> = words().take(5000).chain((0..200).map(|n| n * 3)).collect();
        for (offset, &id) in ids.iter().enumerate() {
            index.insert(id, offset as u32 + 8, |_| false);
        }
        for (offset, &id) in ids.iter().enumerate() {
            assert!(index.find(id, |found| ids[found as usize - 8] == id).is_some(), "{offset}");
        }
        assert_eq!(index.find(12345, |found| ids[found as usize - 8] == 12345), None);
        index.insert(ids[0], 99_999, |offset| offset == 8);
        assert_eq!(index.find(ids[0], |_| true), Some(99_999));
        assert!(index.memory_bytes() < 5200 * 24);
    }
}
