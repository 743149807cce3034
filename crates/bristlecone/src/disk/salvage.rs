//! Salvaging the records of a stretch in which something is damaged, or may be.
//!
//! Records follow one another from a known place on. A value may hold whatever looks like records, right checksums and
//! all, so nothing within a record is taken for one, be it damaged or not, as long as it can be told where that record
//! ends: where its header says, if a sound record or the end of the stretch is there, or where the header would say with
//! one bit flipped back, if the checksum is right then. Only where neither is so (a header that was overwritten) is
//! every place behind tried.

use std::{io, ops::Range};

use bristlecone_core::{RECORD_HEADER_BYTES, Record, RecordHeader};

use super::{
    files::CHUNK_BYTES,
    segment::Segment,
    survey::{LOST_RECORDS_MAX, is_overwritten},
};

/// How many bytes are read, at most, for each byte that records are salvaged from: bytes that look like headers may lie
/// within each other, each with a length to the end. Once to mend headers, and once to try every place.
const SALVAGE_FACTOR: u64 = 8;
/// The bits of a header before the id: those of the length are among them.
const HEADER_BITS: usize = 128;

/// What is handed the offset, header and bytes of each record.
pub(super) type EachRecord<'e> = &'e mut dyn FnMut(u64, &Record<'_>, &[u8]);

/// Where records begin in a stretch, and where they end.
pub(super) struct Stretch<'f> {
    pub(super) range: Range<u64>,
    /// Where the first record is; `None` if that is not known.
    pub(super) first: Option<u64>,
    /// Says whether no record is in the rest of the stretch.
    pub(super) is_end: &'f dyn Fn(&Range<u64>) -> io::Result<bool>,
}

impl Stretch<'_> {
    /// A stretch of nothing but records.
    pub(super) fn of_records(range: Range<u64>) -> Self {
        Self { first: Some(range.start), range, is_end: &|rest| Ok(rest.is_empty()) }
    }

    /// Calls `each` for every record of the stretch whose checksum is right, and returns what none of them covers.
    pub(super) fn salvage(&self, segment: &Segment, each: EachRecord<'_>) -> io::Result<Vec<Range<u64>>> {
        let Range { start, end } = self.range;
        let reader = Reader { segment, end, buffer: Vec::new(), from: 0 };
        let budget = (end - start) * SALVAGE_FACTOR + CHUNK_BYTES;
        let mut salvage = Salvage { reader, is_end: self.is_end, rest: start, uncovered: Vec::new(), budget };
        let behind = match self.first {
            Some(first) => salvage.follow(first.min(end), each)?,
            None => start,
        };
        salvage.try_all(behind, each)?;
        if salvage.rest < end {
            salvage.uncovered.push(salvage.rest..end);
        }
        Ok(salvage.uncovered)
    }
}

struct Salvage<'s> {
    reader: Reader<'s>,
    is_end: &'s dyn Fn(&Range<u64>) -> io::Result<bool>,
    // Behind the last record.
    rest: u64,
    uncovered: Vec<Range<u64>>,
    // How many bytes may still be read to mend headers.
    budget: u64,
}

impl Salvage<'_> {
    /// Follows the records from the first on, and returns how far it can be told where they are.
    fn follow(&mut self, first: u64, each: EachRecord<'_>) -> io::Result<u64> {
        let (mut at, end) = (first, self.reader.end);
        while at < end {
            if let Some((record, whole)) = self.reader.sound(at)? {
                each(at, &record, whole);
                let bytes = whole.len() as u64;
                at = self.cover(at, bytes);
            } else if (self.is_end)(&(at..end))? {
                return Ok(end);
            } else {
                let next = match self.behind_mended(at)? {
                    None => self.behind_damaged(at)?,
                    next => next,
                };
                match next {
                    Some(next) => at = next,
                    None => return Ok(at),
                }
            }
        }
        Ok(at)
    }

    /// Tries every place from here on.
    fn try_all(&mut self, from: u64, each: EachRecord<'_>) -> io::Result<()> {
        let (mut at, end) = (from, self.reader.end);
        let mut budget = (end - from) * SALVAGE_FACTOR + CHUNK_BYTES;
        while at < end {
            // What would cost too much is passed over, for the sake of what is behind it.
            let length = self.reader.plausible(at)?.filter(|&length| length <= budget);
            if length.is_some()
                && let Some((record, whole)) = self.reader.sound(at)?
            {
                each(at, &record, whole);
                let bytes = whole.len() as u64;
                at = self.cover(at, bytes);
            } else {
                budget = budget - length.unwrap_or(0) + 8 * SALVAGE_FACTOR;
                at += 8;
            }
        }
        Ok(())
    }

    /// Notes that a record covers these bytes, and returns where the next one is.
    fn cover(&mut self, at: u64, bytes: u64) -> u64 {
        if self.rest < at {
            self.uncovered.push(self.rest..at);
        }
        self.rest = (at + bytes.next_multiple_of(8)).min(self.reader.end);
        self.rest
    }

    /// Returns where the record at an offset ends if one flipped bit of its header says something else.
    fn behind_mended(&mut self, at: u64) -> io::Result<Option<u64>> {
        let (end, mapped) = (self.reader.end, self.reader.segment.mapped().is_some());
        let header = self.reader.bytes(at, RECORD_HEADER_BYTES as u64)?.to_vec();
        let Some(found) = RecordHeader::first(&header).map(RecordHeader::bytes) else { return Ok(None) };
        for bit in 0..HEADER_BITS {
            let mut header = header.clone();
            header[bit / 8] ^= 1 << (bit % 8);
            let Some(mended) = RecordHeader::first(&header) else { continue };
            let (length, next) = (mended.bytes(), at + mended.bytes().next_multiple_of(8));
            if length == found || mended.faults() > 0 || at + length > end {
                continue;
            }
            let next = next.min(end);
            // Without a map a look at the next record reads as much as the reader takes at a time.
            let cost = length + if mapped { 0 } else { CHUNK_BYTES.min(end - next) };
            if cost > self.budget {
                continue;
            }
            if self.reader.plausible(next)?.is_none() && !(self.is_end)(&(next..end))? {
                self.budget -= cost - length;
                continue;
            }
            self.budget -= cost;
            let mut whole = self.reader.bytes(at, length)?.to_vec();
            whole[bit / 8] ^= 1 << (bit % 8);
            if Record::parse(&whole).is_ok_and(|record| record.verify(&whole).is_ok()) {
                return Ok(Some(next));
            }
        }
        Ok(None)
    }

    /// Returns where records go on behind damaged ones, if their headers lead there.
    fn behind_damaged(&mut self, from: u64) -> io::Result<Option<u64>> {
        let (mut at, end) = (from, self.reader.end);
        for _ in 0..LOST_RECORDS_MAX {
            let Some(header) = RecordHeader::first(self.reader.bytes(at, RECORD_HEADER_BYTES as u64)?) else { break };
            let length = header.bytes();
            if header.faults() > 1 || is_overwritten(header) || length > end - at {
                break;
            }
            at = (at + length.next_multiple_of(8)).min(end);
            if self.reader.sound(at)?.is_some() || (self.is_end)(&(at..end))? {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }
}

/// Reads a stretch in order, through a map or not.
struct Reader<'s> {
    segment: &'s Segment,
    end: u64,
    // Bytes from `from` on, where there is no map.
    buffer: Vec<u8>,
    from: u64,
}

impl Reader<'_> {
    /// Returns the bytes at an offset, fewer at the end.
    fn bytes(&mut self, at: u64, bytes: u64) -> io::Result<&[u8]> {
        let bytes = bytes.min(self.end.saturating_sub(at));
        if self.segment.mapped().is_some() {
            return self.segment.window(at, bytes, &mut self.buffer);
        }
        if at < self.from || at + bytes > self.from + self.buffer.len() as u64 {
            let window = bytes.max(CHUNK_BYTES.min(self.end.saturating_sub(at)));
            self.segment.unwritten(at, window, &mut self.buffer)?;
            self.from = at;
        }
        let rest = self.buffer.get((at - self.from) as usize..).unwrap_or_default();
        Ok(&rest[..rest.len().min(bytes as usize)])
    }

    /// Returns the length of what may be a record.
    fn plausible(&mut self, at: u64) -> io::Result<Option<u64>> {
        let left = self.end.saturating_sub(at);
        let header = RecordHeader::first(self.bytes(at, RECORD_HEADER_BYTES as u64)?);
        Ok(header.filter(|header| header.faults() == 0).map(RecordHeader::bytes).filter(|&length| length <= left))
    }

    /// Returns the record at an offset and its bytes, if its checksum is right.
    fn sound(&mut self, at: u64) -> io::Result<Option<(Record<'_>, &[u8])>> {
        let Some(length) = self.plausible(at)? else { return Ok(None) };
        let whole = self.bytes(at, length)?;
        Ok(Record::parse(whole).ok().filter(|record| record.verify(whole).is_ok()).map(|record| (record, whole)))
    }
}
