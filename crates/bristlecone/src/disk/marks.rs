//! Which records of a cold segment are live, where others in it are dead: a file of bits that the state names.
//! `docs/formats/disk.md` section 10.1 lists the bytes.
//!
//! A dead record may name objects that are gone. So no lookup finds it, by its id or by its location, from the state on in
//! which the first of these may be gone. A segment is opened anew by the state that names other marks for it: what remembers
//! which of its records were found right, begins empty then, and only live ones are ever noted there.

use std::{borrow::Cow, hash::Hasher, io, sync::Arc};

use twox_hash::XxHash3_64;

use super::{
    files::{CHUNK_BYTES, SEGMENTS, numbered},
    frame::word64,
    handles::SegmentAccess,
    live::{LIVE_WORD_BYTES, bit_of},
    lock::CollectorLock,
    log::DiskState,
    sealed::IndexBytes,
    segment::{COLD, Segment},
    state::{ColdMarks, ColdSegment, write_whole_if},
    table::SegmentTable,
};
use crate::{
    Error,
    storage::{OpenMode, Storage},
};

const MAGIC: u64 = u64::from_le_bytes(*b"BCONELIV");
const NUMBER_AT: usize = 8;
const EPOCH_AT: usize = NUMBER_AT + 8;
const COLD_AT: usize = EPOCH_AT + 8;
const BYTES_AT: usize = COLD_AT + 8;
const CHECK_AT: usize = BYTES_AT + 8;
/// Bytes before the bits: 48 = 8 magic + 8 number + 8 epoch + 8 check of the cold segment + 8 its length + 8 check.
const HEAD_BYTES: usize = CHECK_AT + 8;
const _: () = assert!(HEAD_BYTES == 48, "the fields of the head of marks add up");

/// Bytes of bits that are checked at a time.
const PART_BYTES: u64 = 512;
const _: () = assert!(CHUNK_BYTES.is_multiple_of(PART_BYTES), "parts begin where chunks do");

/// Returns the name of the marks that a state of this number was the first to name for a cold segment.
pub(super) fn marks_name(number: u32, epoch: u64) -> String {
    format!("{SEGMENTS}/{:08}-{epoch:08}.live", number.saturating_sub(COLD))
}

/// Returns the cold segment and the number of the state that marks with this name in the segments' folder are of.
pub(super) fn marks_of_name(name: &str) -> Option<(u32, u64)> {
    let (place, epoch) = name.strip_suffix(".live")?.split_once('-')?;
    let number = COLD + numbered(place).filter(|&place| place > 0)?;
    let epoch = epoch.parse().ok()?;
    (format!("{SEGMENTS}/{name}") == marks_name(number, epoch)).then_some((number, epoch))
}

fn file_bytes(segment_bytes: u64) -> u64 {
    HEAD_BYTES as u64 + segment_bytes.div_ceil(LIVE_WORD_BYTES) * 8
}

fn put_head(number: u32, epoch: u64, cold: &ColdSegment) -> [u8; CHECK_AT] {
    let mut head = [0; CHECK_AT];
    head[..NUMBER_AT].copy_from_slice(&MAGIC.to_le_bytes());
    head[NUMBER_AT..EPOCH_AT].copy_from_slice(&u64::from(number - COLD).to_le_bytes());
    head[EPOCH_AT..COLD_AT].copy_from_slice(&epoch.to_le_bytes());
    head[COLD_AT..BYTES_AT].copy_from_slice(&cold.check.to_le_bytes());
    head[BYTES_AT..CHECK_AT].copy_from_slice(&cold.bytes.to_le_bytes());
    head
}

/// Writes the marks of a cold segment, durably but for their name, and returns what the state of this number says of them.
/// `bits`: a bit for each 32 bytes of the file, set where a live record begins. The caller holds the lock of the collector: another
/// collection would give them the same name.
pub(super) fn write_marks(
    (storage, salt): (&Arc<dyn Storage>, u64),
    collector: &CollectorLock,
    epoch: u64,
    cold: &ColdSegment,
    bits: &[u64],
    live_bytes: u64,
) -> Result<ColdMarks, Error> {
    let head = put_head(cold.number, epoch, cold);
    let mut file = head.to_vec();
    file.resize(HEAD_BYTES, 0);
    bits.iter().for_each(|word| file.extend_from_slice(&word.to_le_bytes()));
    let check = XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot_with_seed(salt, &head), &file[HEAD_BYTES..]);
    file[CHECK_AT..HEAD_BYTES].copy_from_slice(&check.to_le_bytes());
    write_whole_if(storage, &marks_name(cold.number, epoch), &file, || collector.check())?;
    let records = bits.iter().map(|word| u64::from(word.count_ones())).sum();
    Ok(ColdMarks { number: cold.number, epoch, records, bytes: live_bytes, check })
}

/// The marks of an open cold segment.
#[derive(Debug)]
pub(super) struct LiveMarks {
    bytes: IndexBytes,
    end: u64,
    // Checks over parts of the bits as they were when all were compared: what the file shows later is not.
    parts: Vec<u64>,
}

impl LiveMarks {
    /// Opens the marks that a state names for a cold segment; `None` if the file is another, or damaged.
    fn open(access: &SegmentAccess<'_>, cold: &ColdSegment, marks: &ColdMarks) -> io::Result<Option<Self>> {
        let file = access.storage.open(&marks_name(marks.number, marks.epoch), OpenMode::Read)?;
        let end = file.len()?;
        if end != file_bytes(cold.bytes) {
            return Ok(None);
        }
        let bytes = IndexBytes::open(file, end, access)?;
        let head = put_head(marks.number, marks.epoch, cold);
        let found = bytes.get(0, HEAD_BYTES as u64)?;
        let right = found[..CHECK_AT] == head && word64(&found, CHECK_AT) == marks.check;
        let (mut sum, mut at) =
            (XxHash3_64::with_seed(XxHash3_64::oneshot_with_seed(access.salt, &head)), HEAD_BYTES as u64);
        let mut parts = Vec::new();
        while right && at < end {
            let chunk = bytes.get(at, CHUNK_BYTES.min(end - at))?;
            sum.write(&chunk);
            parts.extend(chunk.chunks(PART_BYTES as usize).map(XxHash3_64::oneshot));
            at += chunk.len() as u64;
        }
        let right = right && sum.finish() == marks.check;
        Ok(right.then_some(Self { bytes, end, parts }))
    }

    /// Whether a live record begins at an offset. An error of the kind `InvalidData` says that the marks are damaged.
    pub(super) fn has(&self, offset: u64) -> io::Result<bool> {
        let (byte, bit) = bit_of(offset);
        if HEAD_BYTES as u64 + byte >= self.end {
            return Ok(false);
        }
        // Who is told that a record is dead takes the object for absent; who is told that it is live builds on what it names.
        let part = self.part(byte / PART_BYTES)?;
        Ok(part[(byte % PART_BYTES) as usize] & bit != 0)
    }

    /// As [`LiveMarks::has`], for one offset after another: `checked` is the part that was looked at last.
    pub(super) fn has_next(&self, offset: u64, checked: &mut Option<u64>) -> io::Result<bool> {
        let (byte, bit) = bit_of(offset);
        let at = HEAD_BYTES as u64 + byte;
        if at >= self.end {
            return Ok(false);
        }
        if *checked != Some(byte / PART_BYTES) {
            self.part(byte / PART_BYTES)?;
            *checked = Some(byte / PART_BYTES);
        }
        Ok(self.bytes.get(at, 1)?[0] & bit != 0)
    }

    /// Returns a part of the bits, which must be what it was when all were compared.
    fn part(&self, part: u64) -> io::Result<Cow<'_, [u8]>> {
        let from = HEAD_BYTES as u64 + part * PART_BYTES;
        let bits = self.bytes.get(from, PART_BYTES.min(self.end - from))?;
        if self.parts.get(part as usize) != Some(&XxHash3_64::oneshot(&bits)) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the marks of what is live are damaged"));
        }
        Ok(bits)
    }

    /// Returns the bytes of memory that the marks take, maps left out.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.bytes.memory_bytes() + (self.parts.capacity() * size_of::<u64>()) as u64
    }

    /// Returns the bytes of the marks that are mapped.
    pub(super) fn mapped_bytes(&self) -> u64 {
        self.bytes.mapped_bytes()
    }

    /// As [`IndexBytes::forget_pages`].
    pub(super) fn forget_pages(&self) {
        self.bytes.forget_pages();
    }
}

impl DiskState {
    /// Gives a cold segment the marks that the state of a table names for it, if it names any.
    ///
    /// # Errors
    /// [`Error::Corrupt`] where the marks are missing or damaged: which of its records may be read cannot be told then.
    pub(super) fn mark_segment(&self, table: &SegmentTable, segment: &mut Segment) -> Result<(), Error> {
        let number = segment.number;
        let (Some(cold), Some(marks)) = (table.state.cold(number), table.state.marks(number)) else { return Ok(()) };
        let name = marks_name(number, marks.epoch);
        match LiveMarks::open(&self.access(), cold, marks) {
            Ok(Some(live)) => {
                segment.live = Some(live);
                Ok(())
            }
            Ok(None) => Err(self.corrupt(&name, 0, "the marks of what is live are damaged")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let expired = self.view(table).expired(&name);
                Err(expired.unwrap_or_else(|| self.corrupt(&name, 0, "the marks of what is live are missing")))
            }
            Err(error) => Err(self.io(&name, error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_marks_are_those_of_their_segments_and_states() {
        for (number, epoch) in [(COLD + 1, 1), (COLD + 99_999_999, 100_000_000), (COLD + 7, u64::MAX)] {
            let name = marks_name(number, epoch);
            assert_eq!(marks_of_name(name.strip_prefix("segments/").unwrap()), Some((number, epoch)));
        }
        for wrong in
            ["00000001.live", "00000000-00000001.live", "1-00000001.live", "00000001-1.live", "00000001-+0000001.live"]
        {
            assert_eq!(marks_of_name(wrong), None, "{wrong}");
        }
    }
}
