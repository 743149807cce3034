//! Where an id is: a table of the tail in memory, and a sorted file beside each sealed segment.
//! `docs/formats/disk.md` section 5 lists the bytes.
//!
//! Both hold part of an id and an offset; whoever asks compares the whole id at the record. Both are made
//! from the segment alone, and only when an id is first looked for without a location.

use std::{borrow::Cow, fmt, io, sync::Arc};

use bristlecone_core::Record;
use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

use super::{
    frame::{HEAD_BYTES, word32, word64},
    segment::{CHUNK_BYTES, SEGMENTS, Segment},
};
use crate::storage::{FileMap, StorageFile, read_exact_at};

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
}

impl TailIndex {
    /// Starts over with another segment.
    pub(super) fn reset(&mut self, segment: u32, upto: u64) {
        *self = Self { segment, upto, ..Self::default() };
    }

    /// Adds a record. `same` says whether the record at an offset has the same id: then that one is replaced.
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

    /// Returns the first offset under this prefix that `is_it` accepts.
    pub(super) fn find(&self, prefix: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
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

    /// Returns the bytes of memory that the table takes.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.slots.capacity() as u64 * 8
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

const MAGIC: u64 = u64::from_le_bytes(*b"BCONEIDX");
const NUMBER_AT: usize = 8;
const BITS_AT: usize = NUMBER_AT + 4;
const COUNT_AT: usize = BITS_AT + 4;
const SEAL_AT: usize = COUNT_AT + 8;
const CHECK_AT: usize = SEAL_AT + 8;
/// Bytes before the table: 40 = 8 magic + 4 segment number + 4 bits + 8 count + 8 seal + 8 check.
const INDEX_HEAD_BYTES: usize = CHECK_AT + 8;
const _: () = assert!(INDEX_HEAD_BYTES == 40, "the fields of an index's head add up");
const BITS_MAX: u32 = 24;

/// Returns the name of a segment's index.
pub(super) fn index_name(number: u32) -> String {
    format!("{SEGMENTS}/{number:08}.idx")
}

/// Returns the bytes of the index over these prefixes and offsets of a segment sealed by `seal`.
pub(super) fn encode_index(number: u32, seal: u64, mut entries: Vec<(u64, u32)>) -> Vec<u8> {
    // Equal prefixes: the newest first, as the tail's table answers.
    entries.sort_unstable_by_key(|&(prefix, offset)| (prefix, !offset));
    // About 16 entries for each step of the table.
    let bits = (entries.len() / 16).max(1).ilog2().min(BITS_MAX);
    let steps = 1_usize << bits;
    let mut out = Vec::with_capacity(INDEX_HEAD_BYTES + (steps + 2) * 4 + entries.len() * 12);
    out.extend_from_slice(&MAGIC.to_le_bytes());
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(&bits.to_le_bytes());
    out.extend_from_slice(&(entries.len() as u64).to_le_bytes());
    out.extend_from_slice(&seal.to_le_bytes());
    out.extend_from_slice(&[0; 8]);
    let mut below = 0;
    for step in 0..=steps {
        below += entries[below..].iter().take_while(|entry| step == steps || bucket(entry.0, bits) < step).count();
        out.extend_from_slice(&(below as u32).to_le_bytes());
    }
    out.resize(out.len().next_multiple_of(8), 0);
    for (prefix, _) in &entries {
        out.extend_from_slice(&prefix.to_le_bytes());
    }
    for (_, offset) in &entries {
        out.extend_from_slice(&offset.to_le_bytes());
    }
    let check = xxh3_64_with_seed(&out[INDEX_HEAD_BYTES..], xxh3_64_with_seed(&out[..CHECK_AT], 0));
    out[CHECK_AT..INDEX_HEAD_BYTES].copy_from_slice(&check.to_le_bytes());
    out
}

fn bucket(prefix: u64, bits: u32) -> usize {
    if bits == 0 { 0 } else { (prefix >> (64 - bits)) as usize }
}

enum IndexBytes {
    Map(FileMap),
    File(Arc<dyn StorageFile>),
    Owned(Vec<u8>),
}

/// The sorted index of a sealed segment.
pub(super) struct SealedIndex {
    bytes: IndexBytes,
    bits: u32,
    count: u64,
    prefixes_at: u64,
    offsets_at: u64,
}

impl SealedIndex {
    /// Wraps bytes that were just encoded.
    pub(super) fn from_bytes(bytes: Vec<u8>) -> Option<Self> {
        let (number, seal) = (word32(&bytes, NUMBER_AT), word64(&bytes, SEAL_AT));
        let end = bytes.len() as u64;
        Self::with(IndexBytes::Owned(bytes), end, number, seal).ok()?
    }

    /// Wraps the file of segment `number`, sealed by `seal`; `None` if it is damaged or of another making.
    pub(super) fn from_file(
        file: Arc<dyn StorageFile>,
        number: u32,
        seal: u64,
        maps: bool,
    ) -> io::Result<Option<Self>> {
        let end = file.len()?;
        let map = if maps { file.map(end)? } else { None };
        let bytes = map.map_or(IndexBytes::File(file), IndexBytes::Map);
        Self::with(bytes, end, number, seal)
    }

    fn with(bytes: IndexBytes, end: u64, number: u32, seal: u64) -> io::Result<Option<Self>> {
        if end < INDEX_HEAD_BYTES as u64 {
            return Ok(None);
        }
        let mut index = Self { bytes, bits: 0, count: 0, prefixes_at: 0, offsets_at: 0 };
        let head = index.get(0, INDEX_HEAD_BYTES as u64)?.into_owned();
        index.bits = word32(&head, BITS_AT);
        index.count = word64(&head, COUNT_AT);
        if word64(&head, 0) != MAGIC
            || word32(&head, NUMBER_AT) != number
            || word64(&head, SEAL_AT) != seal
            || index.bits > BITS_MAX
            || index.count > u64::from(u32::MAX)
        {
            return Ok(None);
        }
        let table = ((1_u64 << index.bits) + 1) * 4;
        index.prefixes_at = (INDEX_HEAD_BYTES as u64 + table).next_multiple_of(8);
        index.offsets_at = index.prefixes_at + index.count * 8;
        let used = index.offsets_at + index.count * 4;
        if used > end {
            return Ok(None);
        }
        let (mut state, mut at) = (Xxh3::with_seed(xxh3_64_with_seed(&head[..CHECK_AT], 0)), INDEX_HEAD_BYTES as u64);
        while at < used {
            let chunk = index.get(at, CHUNK_BYTES.min(used - at))?;
            state.update(&chunk);
            at += chunk.len() as u64;
        }
        Ok((state.digest() == word64(&head, CHECK_AT)).then_some(index))
    }

    /// Returns the first offset under this prefix that `is_it` accepts.
    pub(super) fn find(&self, prefix: u64, mut is_it: impl FnMut(u32) -> bool) -> io::Result<Option<u32>> {
        let step = self.get(INDEX_HEAD_BYTES as u64 + bucket(prefix, self.bits) as u64 * 4, 8)?;
        let (mut low, end) = (u64::from(word32(&step, 0)), u64::from(word32(&step, 4)).min(self.count));
        let mut high = end;
        while low < high {
            let middle = low + (high - low) / 2;
            if self.prefix(middle)? < prefix { low = middle + 1 } else { high = middle }
        }
        while low < end && self.prefix(low)? == prefix {
            let offset = word32(&self.get(self.offsets_at + low * 4, 4)?, 0);
            if is_it(offset) {
                return Ok(Some(offset));
            }
            low += 1;
        }
        Ok(None)
    }

    /// Returns the bytes of memory that the index takes, maps left out.
    pub(super) fn memory_bytes(&self) -> u64 {
        if let IndexBytes::Owned(bytes) = &self.bytes { bytes.len() as u64 } else { 0 }
    }

    /// Returns the bytes of the index that are mapped.
    pub(super) fn mapped_bytes(&self) -> u64 {
        if let IndexBytes::Map(map) = &self.bytes { map.len() as u64 } else { 0 }
    }

    fn prefix(&self, index: u64) -> io::Result<u64> {
        Ok(word64(&self.get(self.prefixes_at + index * 8, 8)?, 0))
    }

    fn get(&self, at: u64, bytes: u64) -> io::Result<Cow<'_, [u8]>> {
        let range = at as usize..(at + bytes) as usize;
        let short = io::ErrorKind::UnexpectedEof;
        Ok(match &self.bytes {
            IndexBytes::Map(map) => Cow::Borrowed(map.get(range).ok_or(short)?),
            IndexBytes::Owned(owned) => Cow::Borrowed(owned.get(range).ok_or(short)?),
            IndexBytes::File(file) => {
                let mut buffer = vec![0; bytes as usize];
                read_exact_at(&**file, &mut buffer, at)?;
                Cow::Owned(buffer)
            }
        })
    }
}

impl fmt::Debug for SealedIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealedIndex({} entries)", self.count)
    }
}

/// Calls `each` with offset, header and bytes of every record between two offsets of a segment, and
/// returns where there is none although there should be.
pub(super) fn each_record(
    segment: &Segment,
    frame_at: u64,
    record_bytes: u64,
    each: &mut dyn FnMut(u64, &Record<'_>, &[u8]),
) -> io::Result<Option<u64>> {
    let mut at = frame_at + HEAD_BYTES as u64;
    let end = at + record_bytes;
    let (mut buffer, mut window) = (Vec::new(), CHUNK_BYTES);
    while at < end {
        let bytes = segment.window(at, window.min(end - at), &mut buffer)?;
        let mut used = 0;
        while let Some(rest) = bytes.get(used..).filter(|rest| !rest.is_empty()) {
            let Ok(record) = Record::parse(rest) else { break };
            each(at + used as u64, &record, rest);
            used += (record.bytes() as usize).next_multiple_of(8);
        }
        if used == 0 {
            // Either no record, or one that is longer than the window.
            if window >= end - at {
                return Ok(Some(at));
            }
            window *= 2;
        }
        at += used as u64;
    }
    Ok(None)
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

    #[test]
    fn a_sealed_index_finds_all_and_knows_when_it_is_damaged() {
        for count in [0, 1, 15, 16, 17, 1000] {
            let entries: Vec<(u64, u32)> = words().take(count).zip(100..).collect();
            let bytes = encode_index(3, 77, entries.clone());
            let index = SealedIndex::from_bytes(bytes.clone()).unwrap();
            for (prefix, offset) in entries {
                assert_eq!(index.find(prefix, |found| found == offset).unwrap(), Some(offset));
                assert_eq!(index.find(prefix ^ 1, |_| true).unwrap(), None);
            }
            for byte in 0..bytes.len() {
                let mut flipped = bytes.clone();
                flipped[byte] ^= 4;
                let end = bytes.len() as u64;
                let found = SealedIndex::with(IndexBytes::Owned(flipped), end, 3, 77).unwrap();
                assert!(found.is_none(), "byte {byte} of {count}");
            }
        }
    }

    #[test]
    fn equal_prefixes_answer_the_newest_first() {
        let index = SealedIndex::from_bytes(encode_index(1, 1, vec![(5, 10), (5, 30), (5, 20)])).unwrap();
        assert_eq!(index.find(5, |_| true).unwrap(), Some(30));
        assert_eq!(index.find(5, |offset| offset < 30).unwrap(), Some(20));
    }
}
