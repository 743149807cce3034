//! Going over a segment to learn which records are in it, in any state.
//!
//! Where a frame's head and the checksum over its records are right, its records follow one another. Elsewhere (in a
//! frame whose records are damaged, or where the head of a frame is) every place where a record may start is tried, and
//! a record counts if its own checksum is right. What no such record covers is *lost*, unless it is plain that no record
//! was there. Of most lost records the header can still be read, so that it is known which objects they were.

use std::{io, ops::Range};

use bristlecone_core::{Oid, RECORD_HEADER_BYTES, Record, RecordHeader};

use super::{
    cold::{COLD_HEAD_BYTES, cold_is_whole},
    files::CHUNK_BYTES,
    frame::{self, Frame, FrameKind, HEAD_BYTES, PREVIOUS_AT, TRAILER_BYTES, take_refs, word32, word64},
    ids::LostRange,
    salvage::{EachRecord, Stretch},
    sealed::{IndexEntry, SealedIndex, Tie, sort_entries, sort_key},
    segment::Segment,
    state::ColdSegment,
    walk::{FrameStep, FrameWalk},
};

/// In a longer run of lost records, and in more bytes of refs among them, records are not told apart.
pub(super) const LOST_RECORDS_MAX: usize = 64;
const ROWS_BYTES_MAX: u64 = 1 << 20;

/// What was found in a stretch of a segment.
#[derive(Debug, Default)]
pub(super) struct SegmentSurvey {
    /// The records that can be read, without order.
    pub(super) entries: Vec<IndexEntry>,
    /// Where records may have been that cannot be read any more.
    pub(super) lost: Vec<LostRange>,
    /// What an index of the segment is tied to: known if the segment goes from its head to its seal without a fault.
    pub(super) sealed: Option<Tie>,
}

/// What is known of an object and a lost stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LossVerdict {
    /// Its record was at this offset.
    Was(u64),
    /// Its record was not there.
    WasNot,
    Unknown,
}

impl SegmentSurvey {
    /// Goes over a sealed segment. `end`: where its seal ends, as far as another segment knows.
    pub(super) fn of_sealed(segment: &Segment, salt: u64, end: Option<u64>) -> io::Result<Self> {
        let from = segment.frames_at();
        let mut survey = Self::default();
        let mut chain = segment.head.map(|head| (head.check, head.sequence));
        let mut sealed = false;
        let to = end.unwrap_or(segment.bytes).min(segment.bytes);
        let mut walk = FrameWalk::new(segment, salt, from, to);
        while let Some(step) = walk.step()? {
            let FrameStep::Frame { offset, frame, head } = step else {
                let FrameStep::Gap { offset, end } = step else { continue };
                survey.gap(segment, offset, end)?;
                chain = None;
                continue;
            };
            let sound = survey.frame(segment, offset, &frame)? && chain == Some((frame.previous, frame.sequence));
            let trailer = segment.payload(offset, &frame, &head)?.map(|(_, trailer)| trailer);
            chain = trailer.filter(|_| sound).map(|trailer| (trailer, frame.sequence.wrapping_add(1)));
            sealed = frame.kind == FrameKind::Seal;
        }
        match end {
            _ if sealed => {}
            Some(end) if walk.at < end && end <= segment.bytes => survey.gap(segment, walk.at, end)?,
            // It is not known how the segment went on.
            _ => survey.lost.push(LostRange { range: walk.at..end.unwrap_or(0).max(segment.bytes), records: None }),
        }
        survey.sealed = chain.filter(|_| sealed).map(|(word, _)| Tie { word, end: walk.at });
        Ok(survey)
    }

    /// Goes over a cold segment.
    pub(super) fn of_cold(segment: &Segment, salt: u64, cold: &ColdSegment) -> io::Result<Self> {
        let mut survey = Self::default();
        let whole = cold_is_whole(segment, salt, cold)?;
        let stretch = Stretch::of_records(COLD_HEAD_BYTES..segment.bytes.max(COLD_HEAD_BYTES));
        for range in stretch.salvage(segment, &mut |at, record, _| survey.enter(at, record))? {
            let records = headers(segment, &range, &|rest| Ok(rest.is_empty()))?;
            survey.lost.push(LostRange { range, records });
        }
        // A file that was cut short had more, and nothing tells what.
        let cut = segment.bytes.max(COLD_HEAD_BYTES)..cold.bytes;
        if !cut.is_empty() {
            survey.lost.push(LostRange { range: cut, records: None });
        }
        survey.sealed = (whole && survey.lost.is_empty()).then_some(Tie { word: cold.check, end: cold.bytes });
        Ok(survey)
    }

    /// Goes over the frames between two offsets.
    pub(super) fn of_frames(segment: &Segment, salt: u64, from: u64, to: u64) -> io::Result<Self> {
        let mut survey = Self::default();
        let mut walk = FrameWalk::new(segment, salt, from, to);
        while let Some(step) = walk.step()? {
            match step {
                FrameStep::Frame { offset, frame, .. } => _ = survey.frame(segment, offset, &frame)?,
                FrameStep::Gap { offset, end } => survey.gap(segment, offset, end)?,
            }
        }
        // The heads of the last frames are damaged.
        if walk.at < to {
            survey.gap(segment, walk.at, to)?;
        }
        Ok(survey)
    }

    /// Takes the records of a frame with a right head, and returns whether all of them are right.
    fn frame(&mut self, segment: &Segment, offset: u64, frame: &Frame) -> io::Result<bool> {
        let record_bytes = u64::from(frame.record_bytes);
        let before = self.entries.len();
        if segment.records_right(offset, frame)? {
            let stopped = each_record(segment, offset, record_bytes, &mut |at, record, _| self.enter(at, record))?;
            if stopped.is_none() {
                return Ok(true);
            }
            self.entries.truncate(before);
        }
        let at = offset + HEAD_BYTES as u64;
        let stretch = Stretch::of_records(at..at + record_bytes);
        for range in stretch.salvage(segment, &mut |at, record, _| self.enter(at, record))? {
            let records = headers(segment, &range, &|rest| Ok(rest.is_empty()))?;
            self.lost.push(LostRange { range, records });
        }
        Ok(false)
    }

    /// Takes the records from bytes that begin and end where frames do, though the head of the first, at least, is
    /// damaged.
    fn gap(&mut self, segment: &Segment, from: u64, to: u64) -> io::Result<()> {
        for range in salvage_gap(segment, from..to, &mut |at, record, _| self.enter(at, record))? {
            let (first, last) = (range.start == from, range.end == to);
            if is_between_records(segment, &range, first, last)? {
                continue;
            }
            let records_at = if first { range.start + HEAD_BYTES as u64 } else { range.start };
            let is_end = |rest: &Range<u64>| is_between_records(segment, rest, false, last);
            let records = headers(segment, &(records_at.min(range.end)..range.end), &is_end)?;
            self.lost.push(LostRange { range, records });
        }
        Ok(())
    }

    /// Whether an index has the entries that the segment's records give, and of others only such as lead to what is lost. One that is
    /// `bound` was made of the whole segment: if anything is lost now, what it does not have lies within what was lost and only looks
    /// like a record. Sorts the entries.
    pub(super) fn agrees_with(&mut self, index: &SealedIndex, bound: bool) -> bool {
        sort_entries(&mut self.entries);
        let mut wanted = self.entries.iter().peekable();
        let Ok(entries) = index.entries() else { return false };
        let no_record = bound && !self.lost.is_empty();
        for entry in entries {
            while no_record && wanted.next_if(|&&wanted| sort_key(wanted) < sort_key(entry)).is_some() {}
            if wanted.next_if(|&&wanted| wanted == entry).is_none()
                && !self.lost.iter().any(|lost| lost.range.contains(&u64::from(entry.1)))
            {
                return false;
            }
        }
        no_record || wanted.next().is_none()
    }

    fn enter(&mut self, at: u64, record: &Record<'_>) {
        if let Ok(oid) = Oid::new(record.oid) {
            self.entries.push((oid.prefix(), at as u32));
        }
    }
}

impl LostRange {
    /// Returns whether an object was here. Ids are as good as random, so one that shares half of its bytes with what is
    /// in a damaged header is the one that was there.
    pub(super) fn verdict(&self, segment: &Segment, oid: &Oid) -> io::Result<LossVerdict> {
        let Some(records) = &self.records else { return Ok(LossVerdict::Unknown) };
        let id = oid.as_bytes();
        for &at in records {
            let header = segment.bytes_at(at, RECORD_HEADER_BYTES as u64)?;
            let Some(header) = RecordHeader::first(&header) else { continue };
            let same = header.padded_oid().iter().zip(id).filter(|(found, wanted)| found == wanted).count();
            if same * 2 >= id.len() {
                return Ok(LossVerdict::Was(at));
            }
        }
        Ok(LossVerdict::WasNot)
    }
}

/// Calls `each` with offset, header and bytes of every record of a frame, and returns where a record should be and is not.
/// Checksums are not checked.
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

/// Calls `each` with the records, and returns what none of them covers, of bytes that begin and end where frames do.
pub(super) fn salvage_gap(segment: &Segment, range: Range<u64>, each: EachRecord<'_>) -> io::Result<Vec<Range<u64>>> {
    // Where the segment's own head is damaged, the refs come first.
    let known = segment.head.is_some() || range.start != segment.rows_at;
    let first = known.then_some(range.start + HEAD_BYTES as u64);
    let is_end = |rest: &Range<u64>| is_between_records(segment, rest, false, true);
    Stretch { range, first, is_end: &is_end }.salvage(segment, each)
}

/// Whether a header was overwritten with the same byte: then it tells nothing.
pub(super) fn is_overwritten(header: RecordHeader<'_>) -> bool {
    let id = header.padded_oid();
    id.iter().all(|&byte| byte == id[0])
}

/// Returns the offsets of the records that made up a stretch in which none is whole, as far as their headers tell:
/// `None` unless each follows from the one before, with at most one field that does not fit, and that in the last.
/// `is_end` says whether no record is in the rest of the stretch.
fn headers(
    segment: &Segment,
    range: &Range<u64>,
    is_end: &dyn Fn(&Range<u64>) -> io::Result<bool>,
) -> io::Result<Option<Vec<u64>>> {
    let (mut at, mut records) = (range.start, Vec::new());
    while records.is_empty() || !is_end(&(at..range.end))? {
        let left = range.end - at;
        if left < RECORD_HEADER_BYTES as u64 || records.len() >= LOST_RECORDS_MAX {
            return Ok(None);
        }
        let bytes = segment.bytes_at(at, RECORD_HEADER_BYTES as u64)?;
        let Some(header) = RecordHeader::first(&bytes) else { return Ok(None) };
        if is_overwritten(header) {
            return Ok(None);
        }
        records.push(at);
        match (header.faults(), header.bytes().next_multiple_of(8)) {
            (0, span) if span < left => at += span,
            (0, _) => break,
            (1, span) if span == left => break,
            _ => return Ok(None),
        }
    }
    Ok(Some(records))
}

/// Whether a stretch holds no record, only what frames have besides: heads, moves of refs and trailers. `first`,
/// `last`: whether it begins where a frame does, and ends where one does.
fn is_between_records(segment: &Segment, range: &Range<u64>, first: bool, last: bool) -> io::Result<bool> {
    let (head, trailer) = (HEAD_BYTES as u64, TRAILER_BYTES as u64);
    if first && segment.head.is_none() && range.start == segment.rows_at {
        // The segment's own head is damaged: the refs come first.
        return holds_rows(segment, range.start, range.end);
    }
    let from = if first { range.start + head } else { range.start };
    if last {
        return holds_rows(segment, from, range.end.saturating_sub(trailer));
    }
    if from + head + trailer > range.end {
        return Ok(if first { from == range.end } else { range.end - from < RECORD_HEADER_BYTES as u64 });
    }
    // The next frame's head is damaged too, then. It repeats the trailer before it.
    let seam = segment.bytes_at(range.end - head - trailer, head + trailer)?;
    let repeats = word64(&seam, 0) != 0 && word64(&seam, 0) == word64(&seam, TRAILER_BYTES + PREVIOUS_AT);
    let is_seam = repeats || word32(&seam, TRAILER_BYTES) == frame::MAGIC;
    Ok(is_seam && holds_rows(segment, from, range.end - head - trailer)?)
}

/// Whether a stretch is too short for a record, or rows of refs and nothing else.
fn holds_rows(segment: &Segment, from: u64, to: u64) -> io::Result<bool> {
    let bytes = to.saturating_sub(from);
    if bytes < RECORD_HEADER_BYTES as u64 || bytes > ROWS_BYTES_MAX {
        return Ok(bytes < RECORD_HEADER_BYTES as u64);
    }
    Ok(take_refs(&segment.bytes_at(from, bytes)?).is_some())
}
