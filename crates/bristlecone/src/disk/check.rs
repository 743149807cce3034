//! Checking everything there is to check, and walking over all objects.

use std::ops::Range;

use bristlecone_core::{Bytes, Location, Object, Oid, Record};

use super::{
    cold::{COLD_HEAD_BYTES, cold_is_whole},
    files::{SEGMENTS, segment_name},
    find::missing_text,
    frame::{Frame, FrameKind, HEAD_BYTES},
    log::{DiskState, Tail},
    refs::{RefTable, RefTableName},
    sealed::Form,
    segment::{COLD, Segment},
    state::ColdSegment,
    survey::{each_record, salvage},
    view::DiskView,
    walk::{FrameStep, FrameWalk},
};
use crate::{Error, backend::Damage};

/// What a check went through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckSummary {
    /// Segments.
    pub segments: u64,
    /// Frames.
    pub frames: u64,
    /// Records, each copy of an object counted.
    pub records: u64,
    /// Bytes of the log.
    pub bytes: u64,
    /// How often damage was reported.
    pub damages: u64,
    /// Indexes that are not those of their segments. Lookups pass them over; nothing is lost with them.
    pub stale_indexes: u64,
    /// The files of those indexes.
    pub stale_index_files: Vec<String>,
    /// Bytes behind the last frame that are no frame: the start of an append that a crash cut short, or a
    /// flip in the very last one. It is no part of the store.
    pub torn_tail: Option<Damage>,
}

impl DiskState {
    /// Checks every frame, record, seal and index, and reports what is damaged.
    pub(super) fn check(&self, report: &mut dyn FnMut(Damage)) -> Result<CheckSummary, Error> {
        self.refresh()?;
        let table = self.table();
        self.view(&table).check(report)
    }

    /// Calls `each` for every object once, and reports damage.
    pub(super) fn each_object(
        &self,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<(), Error>,
        damage: &mut dyn FnMut(Damage),
    ) -> Result<(), Error> {
        self.refresh()?;
        let table = self.table();
        self.view(&table).each_object(each, damage)
    }

    fn damage(&self, name: &str, offset: u64, oid: Option<Oid>, reason: impl Into<String>) -> Damage {
        Damage { file: self.storage.describe(name), offset, oid, reason: reason.into() }
    }
}

impl DiskView<'_> {
    fn check(&self, report: &mut dyn FnMut(Damage)) -> Result<CheckSummary, Error> {
        let mut check = Check { shared: *self, summary: CheckSummary::default(), tables: Vec::new(), report };
        let last = (self.published.end() >> 32) as u32;
        if let Some(lost) = self.lost_end.get() {
            check.damage_is(lost.clone());
        }
        let numbers = self.table.numbers();
        let (mut gone, mut expected) = (Vec::new(), None);
        for &number in numbers.iter().take_while(|&&number| number <= last) {
            expected = match self.segment(number)? {
                Some(segment) => {
                    let expected = expected.filter(|tail: &Tail| tail.segment + 1 == number);
                    check.segment(segment, expected, number == last)?
                }
                None => {
                    gone.push(number..=number);
                    None
                }
            };
        }
        gone.extend(self.table.missing(&numbers, last));
        for cold in &*self.table.state.cold {
            match self.segment(cold.number)? {
                Some(segment) => check.cold(segment, cold)?,
                None => gone.push(cold.number..=cold.number),
            }
        }
        if let Some(damage) = self.missing_damage(gone) {
            check.damage_is(damage);
        }
        check.tables()?;
        check.indexes(&numbers, last)?;
        Ok(check.summary)
    }

    fn each_object(
        &self,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<(), Error>,
        damage: &mut dyn FnMut(Damage),
    ) -> Result<(), Error> {
        let end = self.published.end();
        let last = (end >> 32) as u32;
        let numbers = self.table.numbers();
        let mut gone: Vec<_> = self.table.missing(&numbers, last).collect();
        for &number in numbers.iter().take_while(|&&number| number <= last) {
            let name = segment_name(number);
            let Some(segment) = self.segment(number)? else {
                gone.push(number..=number);
                continue;
            };
            let to = if number == last { end & 0xffff_ffff } else { segment.bytes };
            let mut walk = FrameWalk::new(segment, self.header.salt, segment.frames_at(), to);
            let mut sealed = number == last;
            while let Some(step) = walk.step().map_err(|error| self.io(&name, error))? {
                match step {
                    FrameStep::Gap { offset, end } => {
                        damage(self.damage(&name, offset, None, "there is no frame here"));
                        self.salvaged_objects(segment, offset..end, each, &mut |_, _| ())?;
                    }
                    FrameStep::Frame { offset, frame, .. } => {
                        sealed |= frame.kind == FrameKind::Seal;
                        self.objects_of(segment, offset, &frame, each, damage)?;
                    }
                }
            }
            if !sealed || number == last && walk.at < to {
                damage(self.damage(&name, walk.at, None, "there is no frame here, and none behind it"));
            }
        }
        for cold in &*self.table.state.cold {
            match self.segment(cold.number)? {
                Some(segment) => self.cold_objects(segment, each, damage)?,
                None => gone.push(cold.number..=cold.number),
            }
        }
        self.missing_damage(gone).into_iter().for_each(damage);
        Ok(())
    }

    /// Calls `each` for the objects of a frame.
    fn objects_of(
        &self,
        segment: &Segment,
        frame_at: u64,
        frame: &Frame,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<(), Error>,
        damage: &mut dyn FnMut(Damage),
    ) -> Result<(), Error> {
        let failed = |error| self.io(&segment.name, error);
        let record_bytes = u64::from(frame.record_bytes);
        if !segment.records_right(frame_at, frame).map_err(failed)? {
            let records_at = frame_at + HEAD_BYTES as u64;
            return self.salvaged_objects(segment, records_at..records_at + record_bytes, each, &mut |at, bytes| {
                let (oid, reason) = lost_record(bytes);
                damage(self.damage(&segment.name, at, oid, reason));
            });
        }
        let mut result = Ok(());
        let stopped = each_record(segment, frame_at, record_bytes, &mut |at, record, bytes| {
            if result.is_ok() {
                result = match record.verify(bytes) {
                    Ok(()) => self.give(segment, at, record, bytes, each),
                    Err(error) => {
                        damage(self.damage(&segment.name, at, Oid::new(record.oid).ok(), error.to_string()));
                        Ok(())
                    }
                };
            }
        });
        if let Some(at) = stopped.map_err(failed)? {
            damage(self.damage(&segment.name, at, None, "there is no record here"));
        }
        result
    }

    /// Calls `each` for the objects of a cold segment.
    fn cold_objects(
        &self,
        segment: &Segment,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<(), Error>,
        damage: &mut dyn FnMut(Damage),
    ) -> Result<(), Error> {
        let records = COLD_HEAD_BYTES..segment.bytes.max(COLD_HEAD_BYTES);
        self.salvaged_objects(segment, records, each, &mut |at, bytes| {
            let (oid, reason) = lost_record(bytes);
            damage(self.damage(&segment.name, at, oid, reason));
        })
    }

    /// Calls `each` for the objects that can be read in a damaged stretch, and `lost` with offset and bytes of what
    /// lies between them.
    fn salvaged_objects(
        &self,
        segment: &Segment,
        range: Range<u64>,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<(), Error>,
        lost: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<(), Error> {
        let failed = |error| self.io(&segment.name, error);
        let mut result = Ok(());
        let uncovered = salvage(segment, range, &mut |at, record, bytes| {
            if result.is_ok() {
                result = self.give(segment, at, record, bytes, each);
            }
        });
        for range in uncovered.map_err(failed)? {
            let mut buffer = Vec::new();
            lost(range.start, segment.window(range.start, range.end - range.start, &mut buffer).map_err(failed)?);
        }
        result
    }

    /// Calls `each` with the object of a sound record, unless it was appended again: that one is given where its index
    /// leads.
    fn give(
        &self,
        segment: &Segment,
        at: u64,
        record: &Record<'_>,
        bytes: &[u8],
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Ok(oid) = Oid::new(record.oid) else { return Ok(()) };
        let own = Location(segment.location(at));
        match self.find(&oid) {
            Ok(Some(found)) if found.location() != own => Ok(()),
            _ => {
                let whole = Bytes::Borrowed(&bytes[..record.bytes() as usize]);
                each(oid, &Object::from_record(record, whole, own))
            }
        }
    }

    /// Returns the one finding that names all segments that are missing.
    fn missing_damage(&self, mut gone: Vec<std::ops::RangeInclusive<u32>>) -> Option<Damage> {
        gone.sort_unstable_by_key(|range| *range.start());
        let first = *gone.first()?.start();
        Some(self.damage(&segment_name(first), 0, None, missing_text(&gone)))
    }
}

/// Returns which object's record these bytes were, where that can be told, and what is wrong with them.
fn lost_record(bytes: &[u8]) -> (Option<Oid>, String) {
    let whole = Record::parse(bytes).ok();
    match whole.and_then(|record| Some((Oid::new(record.oid).ok()?, record.verify(bytes).err()?))) {
        Some((oid, error)) => (Some(oid), error.to_string()),
        None => (None, "there is no record here".to_owned()),
    }
}

struct Check<'a> {
    shared: DiskView<'a>,
    summary: CheckSummary,
    // The tables of refs that heads of segments name.
    tables: Vec<RefTableName>,
    report: &'a mut dyn FnMut(Damage),
}

impl Check<'_> {
    /// Checks a segment that should go on from `expected`, and returns what the next should go on from.
    fn segment(&mut self, segment: &Segment, expected: Option<Tail>, last: bool) -> Result<Option<Tail>, Error> {
        let shared = self.shared;
        let failed = |error| shared.io(&segment.name, error);
        self.summary.segments += 1;
        let head = segment.read_head(shared.header.salt).map_err(failed)?.map(|(head, refs)| {
            self.tables.extend(refs.tables);
            head
        });
        match (&head, expected) {
            (None, _) => self.damage(segment.name.clone(), 0, None, "the segment's head is damaged"),
            (Some(head), Some(tail)) if (head.seed, head.sequence) != (tail.chain, tail.sequence) => {
                self.damage(segment.name.clone(), 0, None, "the segment does not go on from the one before");
            }
            _ => {}
        }
        let mut tail = head.as_ref().map(Tail::start);
        let mut walk = FrameWalk::new(segment, shared.header.salt, segment.frames_at(), segment.bytes);
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
                    self.damage(segment.name.clone(), offset, None, "there is no frame here, though one follows");
                    let records = &mut self.summary.records;
                    salvage(segment, offset..end, &mut |_, _, _| *records += 1).map_err(failed)?;
                    tail = None;
                }
                FrameStep::Frame { offset, frame, head } => {
                    self.summary.frames += 1;
                    let right = segment.records_right(offset, &frame).map_err(failed)?;
                    self.records(segment, offset, &frame, right)?;
                    if !right {
                        self.damage(segment.name.clone(), offset, None, "the records of this frame are damaged");
                    }
                    if tail.is_some_and(|tail| (tail.chain, tail.sequence) != (frame.previous, frame.sequence)) {
                        self.damage(segment.name.clone(), offset, None, "the frame does not follow the one before");
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
                        self.damage(segment.name.clone(), offset, None, "the refs moved by this frame are damaged");
                    }
                }
            }
            behind = walk.at;
        }
        self.summary.bytes += behind;
        if last {
            self.torn_tail(segment, behind)?;
            return Ok(None);
        }
        if tail.is_some_and(|tail| tail.next == 0) {
            self.damage(segment.name.clone(), behind, None, "the segment is not sealed, though another follows");
        }
        Ok(tail.filter(|tail| tail.next != 0))
    }

    /// Checks a cold segment.
    fn cold(&mut self, segment: &Segment, cold: &ColdSegment) -> Result<(), Error> {
        let failed = |error| self.shared.io(&segment.name, error);
        self.summary.segments += 1;
        let (mut bad, mut count) = (Vec::new(), 0);
        let whole = cold_is_whole(segment, self.shared.header.salt, cold).map_err(failed)?;
        let records = COLD_HEAD_BYTES..segment.bytes.max(COLD_HEAD_BYTES);
        let uncovered = salvage(segment, records, &mut |_, _, _| count += 1).map_err(failed)?;
        for range in uncovered {
            let mut buffer = Vec::new();
            let bytes = segment.window(range.start, range.end - range.start, &mut buffer).map_err(failed)?;
            let (oid, reason) = lost_record(bytes);
            bad.push((range.start, oid, reason));
        }
        if !whole && bad.is_empty() {
            bad.push((0, None, "the cold segment is not what the store's state says".to_owned()));
        }
        self.summary.records += count;
        self.summary.bytes += segment.bytes;
        for (at, oid, reason) in bad {
            self.damage(segment.name.clone(), at, oid, reason);
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
            for range in salvage(segment, at..at + record_bytes, &mut |_, _, _| count += 1).map_err(failed)? {
                let mut buffer = Vec::new();
                let bytes = segment.window(range.start, range.end - range.start, &mut buffer).map_err(failed)?;
                let (oid, reason) = lost_record(bytes);
                bad.push((range.start, oid, reason));
            }
        }
        self.summary.records += count;
        for (at, oid, reason) in bad {
            self.damage(segment.name.clone(), at, oid, reason);
        }
        Ok(())
    }

    fn torn_tail(&mut self, segment: &Segment, at: u64) -> Result<(), Error> {
        if self.shared.shows_bytes(segment, at)? && at < segment.bytes {
            let reason = "an append that was cut short, or a flip in the last one: it is no part of the store";
            self.summary.torn_tail = Some(self.shared.damage(&segment.name, at, None, reason));
        }
        Ok(())
    }

    /// Compares every index with its segment.
    fn indexes(&mut self, numbers: &[u32], last: u32) -> Result<(), Error> {
        let shared = self.shared;
        let mut names = shared.storage.list(SEGMENTS).map_err(|error| shared.io(SEGMENTS, error))?;
        names.sort_unstable();
        let mut surveyed = None;
        for name in names {
            let Some((number, form)) = Form::of_name(&name) else { continue };
            // The check passes over segments that were sealed since it began.
            let removed = !shared.table.has(number);
            if removed || number > last && number < COLD {
                continue;
            }
            let sealed = number >= COLD || numbers.binary_search(&number).is_ok() && number < last;
            let fits = match shared.segment(number)?.filter(|_| sealed) {
                None => false,
                Some(segment) => {
                    let survey = match surveyed.take() {
                        Some((same, survey)) if same == number => survey,
                        _ => shared.survey(segment)?,
                    };
                    let (_, survey) = surveyed.insert((number, survey));
                    match shared.index_file(segment, form) {
                        Some(index) => shared.agrees(segment, &index, survey)?,
                        None => false,
                    }
                }
            };
            if !fits {
                self.summary.stale_indexes += 1;
                self.summary.stale_index_files.push(shared.storage.describe(&format!("{SEGMENTS}/{name}")));
            }
        }
        Ok(())
    }

    /// Checks the tables of refs.
    fn tables(&mut self) -> Result<(), Error> {
        let mut names = std::mem::take(&mut self.tables);
        names.sort_unstable_by_key(|table| (table.number, table.check));
        names.dedup();
        let shared = self.shared;
        for name in names {
            let mut failed = Vec::new();
            match RefTable::open(&shared.storage, shared.header.salt, name) {
                Ok(table) => table.check(&mut |error| failed.push(error)),
                Err(error) => failed.push(error),
            }
            for error in failed {
                match error {
                    Error::Corrupt { file, offset, oid, reason } => {
                        self.damage_is(Damage { file, offset, oid, reason });
                    }
                    other => return Err(other),
                }
            }
        }
        Ok(())
    }

    fn damage(&mut self, name: String, offset: u64, oid: Option<Oid>, reason: impl Into<String>) {
        self.damage_is(self.shared.damage(&name, offset, oid, reason));
    }

    fn damage_is(&mut self, damage: Damage) {
        self.summary.damages += 1;
        (self.report)(damage);
    }
}
