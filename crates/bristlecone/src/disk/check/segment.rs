//! Checking one segment, and the indexes beside it.

use bristlecone_core::Oid;

use super::lost_record;
use crate::{
    Error,
    backend::Damage,
    disk::{
        cold::{COLD_HEAD_BYTES, cold_is_whole},
        frame::{Frame, FrameKind, HEAD_BYTES},
        log::Tail,
        refs::RefTableName,
        salvage::Stretch,
        sealed::Form,
        segment::{COLD, Segment, SegmentHead},
        state::ColdSegment,
        survey::{each_record, salvage_gap},
        view::DiskView,
        walk::{FrameStep, FrameWalk},
    },
    storage::OpenMode,
};

/// What a check found in one segment.
#[derive(Debug, Default)]
pub(super) struct SegmentFindings {
    pub(super) is_missing: bool,
    pub(super) frames: u64,
    pub(super) records: u64,
    pub(super) bytes: u64,
    pub(super) damages: Vec<Damage>,
    pub(super) torn_tail: Option<Damage>,
    /// The names of indexes that are not its own.
    pub(super) stale: Vec<String>,
    /// The tables of refs that its head names.
    pub(super) tables: Vec<RefTableName>,
    /// The check and the number of the frame before, as its head has them.
    pub(super) from: Option<(u64, u64)>,
    /// What the next segment should go on from, if this one is sealed.
    pub(super) tail: Option<Tail>,
}

impl DiskView<'_> {
    /// Checks a segment with the indexes that it has. The log ends in the segment `last`.
    pub(super) fn check_segment(&self, number: u32, last: u32, forms: &[Form]) -> Result<SegmentFindings, Error> {
        let mut check = SegmentCheck { shared: *self, found: SegmentFindings::default() };
        let segment = match self.segment(number) {
            // Without its marks it cannot be opened.
            Err(error) => {
                check.found.damages.push(Damage::of(error)?);
                return Ok(check.found);
            }
            Ok(segment) => segment,
        };
        match (segment, self.table.state.cold(number)) {
            (None, _) => check.found.is_missing = true,
            (Some(segment), Some(cold)) => check.cold(segment, cold)?,
            (Some(segment), None) => check.log(segment, number == last)?,
        }
        let sealed = segment.filter(|_| number < last || number >= COLD);
        check.indexes(number, sealed, forms)?;
        Ok(check.found)
    }
}

struct SegmentCheck<'a> {
    shared: DiskView<'a>,
    found: SegmentFindings,
}

impl SegmentCheck<'_> {
    /// Checks a segment of the log.
    fn log(&mut self, segment: &Segment, last: bool) -> Result<(), Error> {
        let shared = self.shared;
        let failed = |error| shared.io(&segment.name, error);
        let mut head = segment.read_head(shared.header.salt).map_err(failed)?;
        if head.is_none() {
            let (offset, reason) = match segment.head_error(shared.header.salt) {
                Error::Incompatible { found, .. } => (0, found),
                Error::Corrupt { offset, reason, .. } => (offset, reason),
                _ => (0, "the segment's head is damaged".to_owned()),
            };
            self.damage(segment, offset, None, reason);
            head = segment.head_before_cut(shared.header.salt).map_err(failed)?;
        }
        let head = head.map(|(head, refs)| {
            self.found.tables = refs.tables;
            self.found.from = Some((head.seed, head.sequence));
            head
        });
        let frames_at = head.as_ref().map_or_else(|| segment.frames_at(), SegmentHead::frames_at);
        let mut tail = head.as_ref().map(Tail::start);
        let mut walk = FrameWalk::new(segment, shared.header.salt, frames_at, segment.bytes);
        let mut behind = walk.at;
        loop {
            // The check passes over frames that were appended since it began.
            let end = shared.published.end();
            if last && segment.location(walk.at) >= end {
                break;
            }
            let Some(step) = walk.step().map_err(failed)? else { break };
            match step {
                FrameStep::Gap { offset, end } => {
                    self.damage(segment, offset, None, "there is no frame here, though one follows");
                    let records = &mut self.found.records;
                    salvage_gap(segment, offset..end, &mut |_, _, _| *records += 1).map_err(failed)?;
                    tail = None;
                }
                FrameStep::Frame { offset, frame, head } => {
                    self.found.frames += 1;
                    let right = segment.records_right(offset, &frame).map_err(failed)?;
                    self.records(segment, offset, &frame, right)?;
                    if !right {
                        self.damage(segment, offset, None, "the records of this frame are damaged");
                    }
                    if tail.is_some_and(|tail| (tail.chain, tail.sequence) != (frame.previous, frame.sequence)) {
                        self.damage(segment, offset, None, "the frame does not follow the one before");
                    }
                    let payload = segment.payload(offset, &frame, &head).map_err(failed)?;
                    tail = payload.map(|(_, chain)| {
                        let mut next = tail.unwrap_or(Tail {
                            segment: segment.number,
                            end: offset,
                            chain: frame.previous,
                            sequence: frame.sequence,
                            next: 0,
                            checkpoint: false,
                            version: segment.head.map_or(shared.header.engine_version, |head| head.version),
                            time: frame.time(),
                        });
                        next.pass_frame(&frame, chain);
                        next.next = u32::from(frame.kind == FrameKind::Seal);
                        next
                    });
                    if tail.is_none() {
                        self.damage(segment, offset, None, "the refs moved by this frame are damaged");
                    }
                }
            }
            behind = walk.at;
        }
        self.found.bytes += behind;
        if last {
            return self.torn_tail(segment, behind);
        }
        if tail.is_some_and(|tail| tail.next == 0) {
            self.damage(segment, behind, None, "the segment is not sealed, though another follows");
        }
        self.found.tail = tail.filter(|tail| tail.next != 0);
        Ok(())
    }

    /// Checks a cold segment.
    fn cold(&mut self, segment: &Segment, cold: &ColdSegment) -> Result<(), Error> {
        let failed = |error| self.shared.io(&segment.name, error);
        let (mut bad, mut count, mut live, mut unmarked, mut checked) = (Vec::new(), 0, 0, None, None);
        let whole = cold_is_whole(segment, self.shared.header.salt, cold).map_err(failed)?;
        let records = COLD_HEAD_BYTES..segment.bytes.max(COLD_HEAD_BYTES);
        let uncovered = Stretch::of_records(records).salvage(segment, &mut |at, _, _| {
            count += 1;
            match segment.is_next_live(at, &mut checked) {
                Ok(is_live) => live += u64::from(is_live),
                Err(error) => _ = unmarked.get_or_insert(error),
            }
        });
        let uncovered = uncovered.map_err(failed)?;
        for range in uncovered {
            let mut buffer = Vec::new();
            let bytes = segment.window(range.start, range.end - range.start, &mut buffer).map_err(failed)?;
            let (oid, reason) = lost_record(bytes);
            bad.push((range.start, oid, reason));
        }
        if segment.bytes < cold.bytes {
            let reason = format!("the file has {} of {} bytes: it was cut", segment.bytes, cold.bytes);
            bad.push((segment.bytes, None, reason));
        }
        if !whole && bad.is_empty() {
            bad.push((0, None, "the cold segment is not what the store's state says".to_owned()));
        }
        if let Some(error) = unmarked {
            self.found.damages.push(Damage::of(self.shared.unmarked(segment, error))?);
        } else if bad.is_empty() && live != self.shared.table.state.live_of(cold).0 {
            bad.push((0, None, "its marks are of other records than the cold segment has".to_owned()));
        }
        self.found.records += count;
        self.found.bytes += segment.bytes;
        for (at, oid, reason) in bad {
            self.damage(segment, at, oid, reason);
        }
        Ok(())
    }

    /// Checks every record of a frame; `right`: whether their common checksum is.
    fn records(&mut self, segment: &Segment, frame_at: u64, frame: &Frame, right: bool) -> Result<(), Error> {
        let failed = |error| self.shared.io(&segment.name, error);
        let record_bytes = u64::from(frame.record_bytes);
        let (mut bad, mut count) = (Vec::new(), 0);
        if right {
            let stopped = each_record(segment, frame_at, record_bytes, &mut |at, record, bytes| {
                count += 1;
                bad.extend(record.verify(bytes).err().map(|error| (at, Oid::new(record.oid).ok(), error.to_string())));
            });
            bad.extend(stopped.map_err(failed)?.map(|at| (at, None, "there is no record here".to_owned())));
        } else {
            let at = frame_at + HEAD_BYTES as u64;
            let stretch = Stretch::of_records(at..at + record_bytes);
            for range in stretch.salvage(segment, &mut |_, _, _| count += 1).map_err(failed)? {
                let mut buffer = Vec::new();
                let bytes = segment.window(range.start, range.end - range.start, &mut buffer).map_err(failed)?;
                let (oid, reason) = lost_record(bytes);
                bad.push((range.start, oid, reason));
            }
        }
        self.found.records += count;
        for (at, oid, reason) in bad {
            self.damage(segment, at, oid, reason);
        }
        Ok(())
    }

    fn torn_tail(&mut self, segment: &Segment, at: u64) -> Result<(), Error> {
        if self.shared.shows_bytes(segment, at)? && at < segment.bytes {
            let reason = "an append that was cut short, or a flip in the last one: it is no part of the store";
            self.found.torn_tail = Some(self.shared.damage(&segment.name, at, None, reason));
        }
        Ok(())
    }

    /// Compares indexes with the segment, if that is sealed.
    fn indexes(&mut self, number: u32, sealed: Option<&Segment>, forms: &[Form]) -> Result<(), Error> {
        let mut surveyed = None;
        for &form in forms {
            let fits = match sealed {
                None => false,
                Some(segment) => {
                    let survey = match &mut surveyed {
                        Some(survey) => survey,
                        none => none.insert(self.shared.survey(segment)?),
                    };
                    match self.shared.index_file(segment, form) {
                        Some(index) => survey.agrees_with(&index, form == Form::Seal),
                        None => false,
                    }
                }
            };
            // A collection may have removed it meanwhile.
            if !fits && self.shared.storage.open(&form.name(number), OpenMode::Read).is_ok() {
                self.found.stale.push(form.name(number));
            }
        }
        Ok(())
    }

    fn damage(&mut self, segment: &Segment, offset: u64, oid: Option<Oid>, reason: impl Into<String>) {
        self.found.damages.push(self.shared.damage(&segment.name, offset, oid, reason));
    }
}
