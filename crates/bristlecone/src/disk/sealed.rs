//! The index of a sealed segment: a sorted file beside it. `docs/formats/disk.md` section 5 lists the bytes.
//!
//! An entry holds the first bytes of an id and an offset; the caller compares the whole id at the record. There are
//! two forms. The older one is bound to its segment by the head's check alone, so it may have been made over damage, or
//! of another segment that went on from the same head. The newer one carries the trailer of the seal, on which every
//! frame depends, and is only written for a segment that was read from its head to its seal without a fault.
//!
//! What is read here may be any bytes: a file that is not of its form, in its order and for its segment's number is not
//! taken for an index. Whether its entries are those of the segment's records only the segment can tell.

use std::{borrow::Cow, fmt, io, sync::Arc};

use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

use super::{
    files::{CHUNK_BYTES, SEGMENTS},
    frame::{word32, word64},
    handles::{CountedMap, SegmentAccess, Share},
    segment::COLD,
};
use crate::storage::{StorageFile, read_exact_at};

/// A prefix of an id, and the offset of its record.
pub(super) type IndexEntry = (u64, u32);

/// How an index is bound to its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// By the check of the segment's head: `.idx`.
    Head,
    /// By the trailer of its seal: `.ids`.
    Seal,
}

const NUMBER_AT: usize = 8;
const BITS_AT: usize = NUMBER_AT + 4;
const COUNT_AT: usize = BITS_AT + 4;
const TIE_AT: usize = COUNT_AT + 8;
/// Where the two forms part: 32 = 8 magic + 4 segment number + 4 bits + 8 count + 8 tie.
const END_AT: usize = TIE_AT + 8;
const _: () = assert!(END_AT == 32, "the fields that both forms share add up");
const BITS_MAX: u32 = 24;
/// The shortest record: an index has no more entries than its segment has room for.
const RECORD_BYTES_MIN: u64 = bristlecone_core::RECORD_HEADER_BYTES as u64;

/// How names of indexes of cold segments end.
const COLD_EXTENSION: &str = ".cids";

impl Form {
    /// Returns the name of a segment's index.
    pub(super) fn name(self, number: u32) -> String {
        match number.checked_sub(COLD) {
            None => format!("{SEGMENTS}/{number:08}{}", self.extension()),
            Some(place) => format!("{SEGMENTS}/{place:08}{COLD_EXTENSION}"),
        }
    }

    /// Returns the segment and the form that a file of this name in the segments' folder is an index for.
    pub(super) fn of_name(name: &str) -> Option<(u32, Self)> {
        if let Some(digits) = name.strip_suffix(COLD_EXTENSION) {
            let place = digits.parse().ok().filter(|&place: &u32| format!("{place:08}") == digits && place < COLD)?;
            return Some((COLD + place, Self::Seal));
        }
        let form = [Self::Head, Self::Seal].into_iter().find(|form| name.ends_with(form.extension()))?;
        let digits = name.strip_suffix(form.extension())?;
        let number = digits.parse().ok().filter(|&number: &u32| format!("{number:08}") == digits)?;
        Some((number, form))
    }

    /// Returns how names of this form end.
    const fn extension(self) -> &'static str {
        match self {
            Self::Head => ".idx",
            Self::Seal => ".ids",
        }
    }

    const fn magic(self) -> u64 {
        match self {
            Self::Head => u64::from_le_bytes(*b"BCONEIDX"),
            Self::Seal => u64::from_le_bytes(*b"BCONEIDS"),
        }
    }

    /// Returns where the check is: behind what is tied to, and, in the newer form, the offset behind the seal.
    const fn check_at(self) -> usize {
        match self {
            Self::Head => END_AT,
            Self::Seal => END_AT + 8,
        }
    }

    const fn head_bytes(self) -> usize {
        self.check_at() + 8
    }
}

/// What an index is tied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tie {
    /// The check of the segment's head, or the trailer of its seal.
    pub(super) word: u64,
    /// The offset behind the seal; 0 in the older form.
    pub(super) end: u64,
}

/// Returns the bytes of the index over these entries of a segment.
pub(super) fn encode_index(form: Form, number: u32, tie: Tie, entries: &[IndexEntry]) -> Vec<u8> {
    let mut entries = entries.to_vec();
    sort_entries(&mut entries);
    // About 16 entries for each step of the table.
    let bits = (entries.len() / 16).max(1).ilog2().min(BITS_MAX);
    let steps = 1_usize << bits;
    let mut out = Vec::with_capacity(form.head_bytes() + (steps + 2) * 4 + entries.len() * 12);
    out.extend_from_slice(&form.magic().to_le_bytes());
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(&bits.to_le_bytes());
    out.extend_from_slice(&(entries.len() as u64).to_le_bytes());
    out.extend_from_slice(&tie.word.to_le_bytes());
    if form == Form::Seal {
        out.extend_from_slice(&tie.end.to_le_bytes());
    }
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
    let (check_at, head_bytes) = (form.check_at(), form.head_bytes());
    let check = xxh3_64_with_seed(&out[head_bytes..], xxh3_64_with_seed(&out[..check_at], 0));
    out[check_at..head_bytes].copy_from_slice(&check.to_le_bytes());
    out
}

/// Sorts entries by their prefixes; of equal ones the newest is first, as the tail's table answers.
pub(super) fn sort_entries(entries: &mut [IndexEntry]) {
    entries.sort_unstable_by_key(|&(prefix, offset)| (prefix, !offset));
}

fn bucket(prefix: u64, bits: u32) -> usize {
    if bits == 0 { 0 } else { (prefix >> (64 - bits)) as usize }
}

enum IndexBytes {
    Map(CountedMap),
    File { file: Arc<dyn StorageFile>, _share: Share },
    Owned(Vec<u8>),
}

/// The sorted index of a sealed segment.
pub(super) struct SealedIndex {
    bytes: IndexBytes,
    /// What it is tied to; the caller compares that with the segment.
    pub(super) tie: Tie,
    bits: u32,
    count: u64,
    table_at: u64,
    prefixes_at: u64,
    offsets_at: u64,
}

impl SealedIndex {
    /// Wraps bytes that were just encoded.
    pub(super) fn from_bytes(form: Form, bytes: Vec<u8>) -> Option<Self> {
        let number = word32(&bytes, NUMBER_AT);
        let end = bytes.len() as u64;
        Self::with(IndexBytes::Owned(bytes), end, form, number, u64::MAX).ok()?
    }

    /// Wraps the file of segment `number`, which is `segment_bytes` long; `None` if it is damaged or no such index.
    pub(super) fn from_file(
        file: Arc<dyn StorageFile>,
        form: Form,
        number: u32,
        segment_bytes: u64,
        access: &SegmentAccess<'_>,
    ) -> io::Result<Option<Self>> {
        let end = file.len()?;
        // A record takes more room than what an index says of it.
        if end > segment_bytes.saturating_add(CHUNK_BYTES) {
            return Ok(None);
        }
        let map = if access.bits.is_some() { access.handles.map(&*file, end)? } else { None };
        let bytes = if let Some(map) = map {
            IndexBytes::Map(map)
        } else if let Some(share) = access.handles.file() {
            IndexBytes::File { file, _share: share }
        } else {
            // Another file may take its name, so it is not opened again.
            let mut bytes = vec![0; end as usize];
            read_exact_at(&*file, &mut bytes, 0)?;
            IndexBytes::Owned(bytes)
        };
        Self::with(bytes, end, form, number, segment_bytes)
    }

    fn with(bytes: IndexBytes, end: u64, form: Form, number: u32, segment_bytes: u64) -> io::Result<Option<Self>> {
        let (check_at, head_bytes) = (form.check_at(), form.head_bytes());
        if end < head_bytes as u64 {
            return Ok(None);
        }
        let tie = Tie { word: 0, end: 0 };
        let mut index =
            Self { bytes, tie, bits: 0, count: 0, table_at: head_bytes as u64, prefixes_at: 0, offsets_at: 0 };
        let head = index.get(0, head_bytes as u64)?.into_owned();
        index.bits = word32(&head, BITS_AT);
        index.count = word64(&head, COUNT_AT);
        index.tie.word = word64(&head, TIE_AT);
        if form == Form::Seal {
            index.tie.end = word64(&head, END_AT);
        }
        if word64(&head, 0) != form.magic()
            || word32(&head, NUMBER_AT) != number
            || index.bits > BITS_MAX
            || index.count > u64::from(u32::MAX).min(segment_bytes / RECORD_BYTES_MIN)
        {
            return Ok(None);
        }
        index.prefixes_at = (index.table_at + index.table_bytes()).next_multiple_of(8);
        index.offsets_at = index.prefixes_at + index.count * 8;
        let used = index.offsets_at + index.count * 4;
        if used > end {
            return Ok(None);
        }
        let (mut state, mut at) = (Xxh3::with_seed(xxh3_64_with_seed(&head[..check_at], 0)), head_bytes as u64);
        while at < used {
            let chunk = index.get(at, CHUNK_BYTES.min(used - at))?;
            state.update(&chunk);
            at += chunk.len() as u64;
        }
        Ok((state.digest() == word64(&head, check_at) && index.is_ordered()?).then_some(index))
    }

    /// Whether the prefixes ascend and the table says where each step of them begins: what a search relies on.
    fn is_ordered(&self) -> io::Result<bool> {
        let table = self.get(self.table_at, self.table_bytes())?;
        let steps = 1_usize << self.bits;
        let begins = |step: usize| u64::from(word32(&table, step * 4));
        if begins(0) != 0 || begins(steps) != self.count {
            return Ok(false);
        }
        let (mut at, mut last, mut step) = (0, 0, 0);
        while at < self.count {
            let chunk = self.get(self.prefixes_at + at * 8, (CHUNK_BYTES / 8).min(self.count - at) * 8)?;
            for word in chunk.chunks_exact(8) {
                let prefix = word64(word, 0);
                if prefix < last {
                    return Ok(false);
                }
                last = prefix;
                while step < bucket(prefix, self.bits) {
                    step += 1;
                    if begins(step) != at {
                        return Ok(false);
                    }
                }
                at += 1;
            }
        }
        Ok((step + 1..steps).all(|step| begins(step) == self.count))
    }

    /// Returns the first offset under this prefix that `is_it` accepts.
    pub(super) fn find(&self, prefix: u64, mut is_it: impl FnMut(u32) -> bool) -> io::Result<Option<u32>> {
        let step = self.get(self.table_at + bucket(prefix, self.bits) as u64 * 4, 8)?;
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

    /// Returns how many entries there are.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// Returns all entries, in their order.
    pub(super) fn entries(&self) -> io::Result<Vec<IndexEntry>> {
        let mut entries = Vec::with_capacity(self.count as usize);
        while (entries.len() as u64) < self.count {
            let at = entries.len() as u64;
            let take = (CHUNK_BYTES / 8).min(self.count - at);
            let prefixes = self.get(self.prefixes_at + at * 8, take * 8)?;
            let offsets = self.get(self.offsets_at + at * 4, take * 4)?;
            let pairs = prefixes.chunks_exact(8).zip(offsets.chunks_exact(4));
            entries.extend(pairs.map(|(prefix, offset)| (word64(prefix, 0), word32(offset, 0))));
        }
        Ok(entries)
    }

    /// Returns the bytes of memory that the index takes, maps left out.
    pub(super) fn memory_bytes(&self) -> u64 {
        if let IndexBytes::Owned(bytes) = &self.bytes { bytes.len() as u64 } else { 0 }
    }

    /// Returns the bytes of the index that are mapped.
    pub(super) fn mapped_bytes(&self) -> u64 {
        if let IndexBytes::Map(map) = &self.bytes { map.len() as u64 } else { 0 }
    }

    const fn table_bytes(&self) -> u64 {
        ((1_u64 << self.bits) + 1) * 4
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
            IndexBytes::File { file, .. } => {
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

#[cfg(test)]
mod tests {
    use super::*;

    const TIE: Tie = Tie { word: 77, end: 0 };

    fn words() -> impl Iterator<Item = u64> {
        let mut state = 1_u64;
        std::iter::repeat_with(move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state ^ state >> 29
        })
    }

    fn load(form: Form, bytes: Vec<u8>) -> Option<SealedIndex> {
        let end = bytes.len() as u64;
        SealedIndex::with(IndexBytes::Owned(bytes), end, form, 3, 1 << 20).unwrap()
    }

    /// The older form is written no more, but stores have it.
    #[test]
    fn both_forms_keep_their_names_and_magic_words() {
        for (form, name, word) in
            [(Form::Head, "segments/00000007.idx", b"BCONEIDX"), (Form::Seal, "segments/00000007.ids", b"BCONEIDS")]
        {
            assert_eq!(form.name(7), name);
            assert_eq!(Form::of_name(&name["segments/".len()..]), Some((7, form)));
            assert_eq!(encode_index(form, 7, TIE, &[(5, 10)])[..8], word[..]);
        }
    }

    #[test]
    fn an_index_finds_all_and_knows_when_it_is_damaged() {
        for (form, tie) in [(Form::Head, TIE), (Form::Seal, Tie { word: 78, end: 1234 })] {
            for count in [0, 1, 15, 16, 17, 1000] {
                let entries: Vec<IndexEntry> = words().take(count).zip(100..).collect();
                let bytes = encode_index(form, 3, tie, &entries);
                let index = load(form, bytes.clone()).unwrap();
                assert_eq!(index.tie, tie);
                for &(prefix, offset) in &entries {
                    assert_eq!(index.find(prefix, |found| found == offset).unwrap(), Some(offset));
                    assert_eq!(index.find(prefix ^ 1, |_| true).unwrap(), None);
                }
                let mut sorted = entries;
                sort_entries(&mut sorted);
                assert_eq!(index.entries().unwrap(), sorted);
                for byte in 0..bytes.len() {
                    let mut flipped = bytes.clone();
                    flipped[byte] ^= 4;
                    assert!(load(form, flipped).is_none(), "byte {byte} of {count}");
                }
                for cut in 0..bytes.len() {
                    assert!(load(form, bytes[..cut].to_vec()).is_none(), "cut at {cut} of {count}");
                }
            }
        }
    }

    #[test]
    fn equal_prefixes_answer_the_newest_first() {
        let bytes = encode_index(Form::Head, 1, TIE, &[(5, 10), (5, 30), (5, 20)]);
        let index = SealedIndex::from_bytes(Form::Head, bytes).unwrap();
        assert_eq!(index.find(5, |_| true).unwrap(), Some(30));
        assert_eq!(index.find(5, |offset| offset < 30).unwrap(), Some(20));
    }

    #[test]
    fn an_index_out_of_order_is_none_though_its_check_is_right() {
        let entries: Vec<IndexEntry> = words().take(100).zip(100..).collect();
        let sound = encode_index(Form::Seal, 3, TIE, &entries);
        let (table_at, table_bytes) = (Form::Seal.head_bytes(), 5 * 4);
        let prefixes_at = (table_at + table_bytes).next_multiple_of(8);
        let forged = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = sound.clone();
            change(&mut bytes);
            let head_bytes = Form::Seal.head_bytes();
            let check = xxh3_64_with_seed(
                &bytes[head_bytes.min(bytes.len())..],
                xxh3_64_with_seed(&bytes[..Form::Seal.check_at()], 0),
            );
            bytes[Form::Seal.check_at()..head_bytes].copy_from_slice(&check.to_le_bytes());
            load(Form::Seal, bytes)
        };
        assert!(forged(&|_| {}).is_some());
        assert!(forged(&|bytes| bytes[prefixes_at..prefixes_at + 16].rotate_left(8)).is_none(), "unsorted");
        for step in 0..5 {
            assert!(forged(&|bytes| bytes[table_at + step * 4] ^= 1).is_none(), "step {step}");
        }
        for bits in [0_u32, 1, 3, 24, 25, 63, 64, u32::MAX] {
            assert!(forged(&|bytes| bytes[BITS_AT..BITS_AT + 4].copy_from_slice(&bits.to_le_bytes())).is_none());
        }
        for count in [0_u64, 99, 101, u64::from(u32::MAX), u64::MAX, 1 << 61] {
            assert!(forged(&|bytes| bytes[COUNT_AT..COUNT_AT + 8].copy_from_slice(&count.to_le_bytes())).is_none());
        }
    }
}
