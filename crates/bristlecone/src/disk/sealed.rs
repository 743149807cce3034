//! The index of a sealed segment: a sorted file beside it. `docs/formats/disk.md` section 5 lists the bytes.
//!
//! An entry holds the first bytes of an id and an offset; the caller compares the whole id at the record. There are
//! two forms. The older one is bound to its segment by the head's check alone, so it may have been made over damage, or
//! of another segment that went on from the same head. The newer one carries the trailer of the seal, on which every
//! frame depends, and is only written for a segment that was read from its head to its seal without a fault. It has two layouts:
//! `steps.rs`, which the older form has too, and `blocks.rs`, which is written today.
//!
//! What is read here may be any bytes: a file that is not of its form, in its order and for its segment's number is not
//! taken for an index. Whether its entries are those of the segment's records only the segment can tell.

mod blocks;
mod steps;

use std::{borrow::Cow, fmt, io, ops::RangeInclusive, sync::Arc};

use self::{blocks::Blocks, steps::Steps};
use super::{
    files::{CHUNK_BYTES, SEGMENTS},
    frame::word64,
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

/// Begins the earlier layout of the newer form.
const INDEX_IDS: u64 = u64::from_le_bytes(*b"BCONEIDS");
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
}

/// What an index is tied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tie {
    /// The check of the segment's head, or the trailer of its seal.
    pub(super) word: u64,
    /// The offset behind the seal; 0 in the older form.
    pub(super) end: u64,
}

/// Why an index gives no answer.
#[derive(Debug)]
pub(super) enum IndexFault {
    Io(io::Error),
    /// A part of it is not what was written.
    Damaged,
}

impl From<io::Error> for IndexFault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Returns the bytes of the index over these entries of a segment, bound to its seal.
pub(super) fn encode_index(number: u32, tie: Tie, entries: &[IndexEntry]) -> Vec<u8> {
    blocks::encode(number, tie, entries)
}

/// Sorts entries by their prefixes; of equal ones the newest is first, as the tail's table answers.
pub(super) fn sort_entries(entries: &mut [IndexEntry]) {
    entries.sort_unstable_by_key(|&entry| sort_key(entry));
}

/// What [`sort_entries`] sorts by.
pub(super) const fn sort_key((prefix, offset): IndexEntry) -> IndexEntry {
    (prefix, !offset)
}

/// The bytes of a file that lookups search.
#[derive(Debug)]
pub(super) enum IndexBytes {
    Map(CountedMap),
    File { file: Arc<dyn StorageFile>, _share: Share },
    Owned(Vec<u8>),
}

impl IndexBytes {
    /// Opens a file of `end` bytes: maps it if the store is to be mapped and there may be a further map, else keeps it open or reads
    /// all of it.
    pub(super) fn open(file: Arc<dyn StorageFile>, end: u64, access: &SegmentAccess<'_>) -> io::Result<Self> {
        let map = if access.bits.is_some() { access.handles.map(&*file, end)? } else { None };
        if let Some(map) = map {
            return Ok(Self::Map(map));
        }
        if let Some(share) = access.handles.file() {
            return Ok(Self::File { file, _share: share });
        }
        // Another file may take its name, so it is not opened again.
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(end as usize).map_err(|_| io::ErrorKind::OutOfMemory)?;
        bytes.resize(end as usize, 0);
        read_exact_at(&*file, &mut bytes, 0)?;
        Ok(Self::Owned(bytes))
    }

    /// Returns the bytes of memory that this takes, maps left out.
    pub(super) fn memory_bytes(&self) -> u64 {
        if let Self::Owned(bytes) = self { bytes.len() as u64 } else { 0 }
    }

    /// Returns the bytes that are mapped.
    pub(super) fn mapped_bytes(&self) -> u64 {
        if let Self::Map(map) = self { map.len() as u64 } else { 0 }
    }

    /// Lets go of the memory that shows the file, until it is read again.
    pub(super) fn forget_pages(&self) {
        if let Self::Map(map) = self {
            map.forget();
        }
    }

    /// Returns all bytes, if they are in memory.
    fn map_or_owned(&self) -> Option<&[u8]> {
        match self {
            Self::Map(map) => Some(map),
            Self::Owned(owned) => Some(owned),
            Self::File { .. } => None,
        }
    }

    pub(super) fn get(&self, at: u64, bytes: u64) -> io::Result<Cow<'_, [u8]>> {
        if let Self::File { file, .. } = self {
            let mut buffer = vec![0; bytes as usize];
            read_exact_at(&**file, &mut buffer, at)?;
            return Ok(Cow::Owned(buffer));
        }
        let range = at as usize..(at + bytes) as usize;
        let all = self.map_or_owned().unwrap_or_default();
        Ok(Cow::Borrowed(all.get(range).ok_or(io::ErrorKind::UnexpectedEof)?))
    }
}

#[derive(Debug)]
enum Layout {
    Steps(Steps),
    Blocks(Blocks),
}

/// The sorted index of a sealed segment.
pub(super) struct SealedIndex {
    bytes: IndexBytes,
    /// What it is tied to; the caller compares that with the segment.
    pub(super) tie: Tie,
    layout: Layout,
}

impl SealedIndex {
    /// Wraps what was just encoded.
    pub(super) fn from_bytes(number: u32, bytes: Vec<u8>) -> Option<Self> {
        let end = bytes.len() as u64;
        Self::with(IndexBytes::Owned(bytes), end, Form::Seal, number, u64::MAX).ok()?
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
        let bytes = IndexBytes::open(file, end, access)?;
        Self::with(bytes, end, form, number, segment_bytes)
    }

    fn with(bytes: IndexBytes, end: u64, form: Form, number: u32, segment_bytes: u64) -> io::Result<Option<Self>> {
        if end < 8 {
            return Ok(None);
        }
        let magic = word64(&bytes.get(0, 8)?, 0);
        let found = if form == Form::Seal && magic == blocks::MAGIC {
            Blocks::read(&bytes, end, number, segment_bytes)?.map(|(blocks, tie)| (Layout::Blocks(blocks), tie))
        } else {
            Steps::read(&bytes, end, form, number, segment_bytes)?.map(|(steps, tie)| (Layout::Steps(steps), tie))
        };
        Ok(found.map(|(layout, tie)| Self { bytes, tie, layout }))
    }

    /// Returns the first offset under this prefix that `is_it` accepts.
    pub(super) fn find(&self, prefix: u64, is_it: impl FnMut(u32) -> bool) -> Result<Option<u32>, IndexFault> {
        match &self.layout {
            Layout::Steps(steps) => steps.find(&self.bytes, prefix, is_it),
            Layout::Blocks(blocks) => blocks.find(&self.bytes, prefix, is_it),
        }
    }

    /// Calls `each` for the entries of ids whose first eight bytes, as a big-endian integer, are in this range.
    pub(super) fn each_between(
        &self,
        keys: RangeInclusive<u64>,
        each: &mut dyn FnMut(IndexEntry),
    ) -> Result<(), IndexFault> {
        match &self.layout {
            Layout::Steps(steps) => steps.each(&self.bytes, &mut |entry| {
                if keys.contains(&entry.0.swap_bytes()) {
                    each(entry);
                }
            }),
            Layout::Blocks(blocks) => blocks.each_between(&self.bytes, keys, &mut |entry| {
                each(entry);
                true
            }),
        }
    }

    /// Returns how many entries there are.
    pub(super) const fn count(&self) -> u64 {
        match &self.layout {
            Layout::Steps(steps) => steps.count,
            Layout::Blocks(blocks) => blocks.count,
        }
    }

    /// Returns all entries, as [`sort_entries`] sorts them.
    pub(super) fn entries(&self) -> Result<Vec<IndexEntry>, IndexFault> {
        let mut entries = Vec::with_capacity(self.count() as usize);
        match &self.layout {
            Layout::Steps(steps) => steps.each(&self.bytes, &mut |entry| entries.push(entry))?,
            Layout::Blocks(blocks) => {
                blocks.each(&self.bytes, &mut |entry| entries.push(entry))?;
                sort_entries(&mut entries);
            }
        }
        Ok(entries)
    }

    /// Returns the bytes of memory that the index takes, maps left out.
    pub(super) fn memory_bytes(&self) -> u64 {
        let checked = match &self.layout {
            Layout::Steps(steps) => steps.memory_bytes(),
            Layout::Blocks(blocks) => blocks.memory_bytes(),
        };
        checked + self.bytes.memory_bytes()
    }

    /// As [`IndexBytes::forget_pages`].
    pub(super) fn forget_pages(&self) {
        self.bytes.forget_pages();
    }

    /// Returns the bytes of the index that are mapped.
    pub(super) fn mapped_bytes(&self) -> u64 {
        self.bytes.mapped_bytes()
    }

    /// Whether its entries are in the order of ids.
    pub(super) const fn is_in_order(&self) -> bool {
        matches!(self.layout, Layout::Blocks(_))
    }
}

impl fmt::Debug for SealedIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealedIndex({} entries)", self.count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn words() -> impl Iterator<Item = u64> {
        let mut state = 1_u64;
        std::iter::repeat_with(move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state ^ state >> 29
        })
    }

    pub(super) fn load(form: Form, bytes: Vec<u8>) -> Option<SealedIndex> {
        let end = bytes.len() as u64;
        SealedIndex::with(IndexBytes::Owned(bytes), end, form, 3, 1 << 20).unwrap()
    }

    #[test]
    fn both_forms_keep_their_names_and_magic_words() {
        for (form, name) in [(Form::Head, "segments/00000007.idx"), (Form::Seal, "segments/00000007.ids")] {
            assert_eq!(form.name(7), name);
            assert_eq!(Form::of_name(&name["segments/".len()..]), Some((7, form)));
        }
        assert_eq!(encode_index(7, Tie { word: 77, end: 0 }, &[(5, 10)])[..8], *b"BCONEID2");
    }
}
