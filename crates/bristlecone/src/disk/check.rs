//! Checking everything there is to check, and walking over all objects.

use bristlecone_core::{Bytes, Location, Object, Oid, Record};

use super::{
    frame::FrameKind,
    index::{each_record, index_name},
    log::{Shared, Tail},
    segment::{SEGMENT_HEAD_BYTES, Segment, segment_name},
    walk::{Step, Walk},
};
use crate::{
    Error,
    backend::Damage,
    storage::{OpenMode, read_exact_at},
};

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
    /// Derived files that did not fit and will be made again; nothing is lost with them.
    pub stale_indexes: u64,
    /// What stands behind the last frame and is none: the start of an append that a crash cut short, or a
    /// flip in the very last one. It is no part of the store.
    pub torn_tail: Option<Damage>,
}

impl Shared {
    /// Checks every frame, record, seal and index, and reports what is damaged.
    pub(super) fn check(&self, report: &mut dyn FnMut(Damage)) -> Result<CheckSummary, Error> {
        self.refresh()?;
        let mut check = Check { shared: self, summary: CheckSummary::default(), report };
        let last = (self.published.end() >> 32) as u32;
        let first = self.first_segment.load(std::sync::atomic::Ordering::Acquire);
        let mut expected = None;
        if let Some(lost) = self.lost_end.get() {
            check.summary.damages += 1;
            (check.report)(lost.clone());
        }
        // Nothing removes segments yet, so the lowest is the one that has none before it.
        let before = self.segment(first)?.and_then(|segment| segment.head).map_or(0, |head| head.previous);
        if before != 0 {
            check.damage(segment_name(before), 0, None, "the segment is missing");
        }
        for number in first..=last {
            expected = match self.segment(number)? {
                Some(segment) => check.segment(segment, expected, number == last)?,
                None => {
                    check.damage(segment_name(number), 0, None, "the segment is missing");
                    None
                }
            };
        }
        Ok(check.summary)
    }

    /// Calls `each` for every object once, and reports damage.
    pub(super) fn each_object(
        &self,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<(), Error>,
        damage: &mut dyn FnMut(Damage),
    ) -> Result<(), Error> {
        self.refresh()?;
        let end = self.published.end();
        let last = (end >> 32) as u32;
        for number in self.first_segment.load(std::sync::atomic::Ordering::Acquire)..=last {
            let name = segment_name(number);
            let Some(segment) = self.segment(number)? else {
                damage(self.damage(&name, 0, None, "the segment is missing"));
                continue;
            };
            let to = if number == last { end & 0xffff_ffff } else { segment.bytes };
            let mut walk = Walk::new(segment, self.header.salt, frames_at(segment), to);
            let mut sealed = number == last;
            while let Some(step) = walk.step().map_err(|error| self.io(&name, error))? {
                match step {
                    Step::Gap { offset, .. } => damage(self.damage(&name, offset, None, "there is no frame here")),
                    Step::Frame { offset, frame, .. } => {
                        sealed |= frame.kind == FrameKind::Seal;
                        self.objects_of(segment, offset, u64::from(frame.record_bytes), each, damage)?;
                    }
                }
            }
            if !sealed || number == last && walk.at < to {
                damage(self.damage(&name, walk.at, None, "there is no frame here, and none behind it"));
            }
        }
        Ok(())
    }

    fn objects_of(
        &self,
        segment: &Segment,
        frame_at: u64,
        record_bytes: u64,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<(), Error>,
        damage: &mut dyn FnMut(Damage),
    ) -> Result<(), Error> {
        let mut result = Ok(());
        let stopped = each_record(segment, frame_at, record_bytes, &mut |at, record, bytes| {
            let Ok(oid) = Oid::new(record.oid) else { return };
            if result.is_err() {
                return;
            }
            let own = Location(segment.location(at));
            let whole = &bytes[..record.bytes() as usize];
            if let Err(error) = record.verify(whole) {
                damage(self.damage(&segment.name, at, Some(oid), error.to_string()));
                return;
            }
            // An object that was appended again is given where its index leads.
            match self.find(&oid) {
                Ok(Some(found)) if found.location() != own => {}
                _ => result = each(oid, &Object::from_record(record, Bytes::Borrowed(whole), own)),
            }
        });
        if let Some(at) = stopped.map_err(|error| self.io(&segment.name, error))? {
            damage(self.damage(&segment.name, at, None, "there is no record here"));
        }
        result
    }

    fn damage(&self, name: &str, offset: u64, oid: Option<Oid>, reason: impl Into<String>) -> Damage {
        Damage { file: self.storage.describe(name), offset, oid, reason: reason.into() }
    }
}

fn frames_at(segment: &Segment) -> u64 {
    segment.head.map_or(SEGMENT_HEAD_BYTES as u64, |head| head.frames_at())
}

struct Check<'a> {
    shared: &'a Shared,
    summary: CheckSummary,
    report: &'a mut dyn FnMut(Damage),
}

impl Check<'_> {
    /// Checks a segment that should go on from `expected`, and returns what the next should go on from.
    fn segment(&mut self, segment: &Segment, expected: Option<Tail>, last: bool) -> Result<Option<Tail>, Error> {
        let shared = self.shared;
        let failed = |error| shared.io(&segment.name, error);
        self.summary.segments += 1;
        let head = segment.read_head(shared.header.salt).map_err(failed)?.map(|(head, _)| head);
        match (&head, expected) {
            (None, _) => self.damage(segment.name.clone(), 0, None, "the segment's head is damaged"),
            (Some(head), Some(tail)) if (head.seed, head.sequence) != (tail.chain, tail.sequence) => {
                self.damage(segment.name.clone(), 0, None, "the segment does not go on from the one before");
            }
            _ => {}
        }
        let mut tail = head.as_ref().map(Tail::start);
        let mut walk = Walk::new(segment, shared.header.salt, frames_at(segment), segment.bytes);
        let mut behind = walk.at;
        loop {
            // Frames that were appended since the check began are none of its business.
            let end = shared.published.end();
            if last && segment.location(walk.at) >= end {
                break;
            }
            let Some(step) = walk.step().map_err(failed)? else { break };
            match step {
                Step::Gap { offset, .. } => {
                    self.damage(segment.name.clone(), offset, None, "there is no frame here, though one follows");
                    tail = None;
                }
                Step::Frame { offset, frame, head } => {
                    self.summary.frames += 1;
                    self.records(segment, offset, u64::from(frame.record_bytes))?;
                    if !segment.records_right(offset, &frame).map_err(failed)? {
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
        self.index(segment)?;
        Ok(tail.filter(|tail| tail.next != 0))
    }

    fn records(&mut self, segment: &Segment, frame_at: u64, record_bytes: u64) -> Result<(), Error> {
        let mut bad = Vec::new();
        let stopped = each_record(segment, frame_at, record_bytes, &mut |at, record: &Record<'_>, bytes| {
            self.summary.records += 1;
            if let Err(error) = record.verify(bytes) {
                bad.push((at, Oid::new(record.oid).ok(), error.to_string()));
            }
        });
        if let Some(at) = stopped.map_err(|error| self.shared.io(&segment.name, error))? {
            bad.push((at, None, "there is no record here".to_owned()));
        }
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

    /// Compares the index of a sealed segment with one made anew.
    fn index(&mut self, segment: &Segment) -> Result<(), Error> {
        let name = index_name(segment.number);
        let Ok(file) = self.shared.storage.open(&name, OpenMode::Read) else { return Ok(()) };
        let wanted = self.shared.index_bytes(segment)?;
        let mut found = vec![0; wanted.len()];
        let same = read_exact_at(&*file, &mut found, 0).is_ok() && found == wanted;
        self.summary.stale_indexes += u64::from(!same);
        Ok(())
    }

    fn damage(&mut self, name: String, offset: u64, oid: Option<Oid>, reason: impl Into<String>) {
        self.summary.damages += 1;
        (self.report)(self.shared.damage(&name, offset, oid, reason));
    }
}
