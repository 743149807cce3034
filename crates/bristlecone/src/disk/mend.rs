//! Mending frames of which a part is damaged: what was there follows from what stands around it.
//!
//! Where a frame begins and ends, its neighbours tell; which of its bytes are records, the checksums of these. How far the
//! log was durable, who wrote the frame and when, lies between what the neighbours say of themselves. The frame's trailer
//! depends on its whole head, and what is behind the frame repeats that trailer. So a head with which the trailer is right is
//! the one that was there. In the same way the moves of refs are right again once that trailer is, whether a byte of them was
//! damaged or the trailer itself.
//!
//! The head of a segment has a check of its own, which the first frame repeats (`mend/head.rs`).

mod head;

use std::{collections::HashMap, io, ops::Range, sync::Arc};

pub(super) use self::head::first_frame;
use super::{
    StoreHeader,
    frame::{self, EMPTY_BYTES, Frame, FrameKind, HEAD_BYTES, PAYLOAD_BYTES_MAX, TRAILER_BYTES, take_refs, take_state},
    segment::{Segment, SegmentHead},
    survey::each_record,
    walk::{FrameStep, FrameWalk},
};
use crate::{Error, storage::Storage};

/// So many heads are tried for a frame; fewer for a longer payload, each KiB of which takes as long as another head.
const TRIES_MAX: u64 = 1 << 22;
/// In a longer payload no damaged byte is looked for.
const PAYLOAD_MENDED_MAX: usize = 4 << 10;

/// What is known between two frames.
#[derive(Clone, Copy)]
struct Seam {
    /// The trailer of the frame before, or the check of the segment's head.
    chain: u64,
    /// The number of the frame behind.
    sequence: u64,
    /// How far the log was durable, and what the time was, as one of the two says.
    durable_end: u64,
    time: u32,
    /// The nonce of that frame; `None` of a segment's head.
    nonce: Option<u64>,
}

impl Seam {
    /// Returns what a segment's head tells of where its frames begin.
    const fn behind_head(head: &SegmentHead) -> Self {
        let (durable_end, time) = (head.durable_end, head.time);
        Self { chain: head.check, sequence: head.sequence, durable_end, time, nonce: None }
    }

    /// Returns what a segment's head tells of where the segment before ends.
    const fn before_head(head: &SegmentHead) -> Self {
        Self { chain: head.seed, ..Self::behind_head(head) }
    }

    const fn behind(frame: &Frame, trailer: u64) -> Self {
        let (durable_end, time) = (frame.durable_end, frame.time());
        let sequence = frame.sequence.wrapping_add(1);
        Self { chain: trailer, sequence, durable_end, time, nonce: Some(frame.nonce) }
    }

    const fn before(frame: &Frame) -> Self {
        let (durable_end, time) = (frame.durable_end, frame.time());
        Self { chain: frame.previous, sequence: frame.sequence, durable_end, time, nonce: Some(frame.nonce) }
    }
}

impl StoreHeader {
    /// Writes what of frames is damaged and follows from what stands around it, durably; returns how many frames these are. The caller
    /// holds the store's lock.
    pub(super) fn mend_frames(&self, storage: &Arc<dyn Storage>) -> Result<u64, Error> {
        let mut next: HashMap<u32, SegmentHead> = HashMap::new();
        self.each_segment(storage, false, &mut |segment| {
            next.extend(segment.head.map(|head| (head.previous, head)));
            Ok(false)
        })?;
        let mut mended = 0;
        self.each_segment(storage, true, &mut |segment| {
            mended += mend_segment(segment, self.salt, next.get(&segment.number))?;
            Ok(false)
        })?;
        Ok(mended)
    }
}

/// Mends the frames of a segment; `next`: the head of the segment that goes on from it, if one does.
fn mend_segment(segment: &Segment, salt: u64, next: Option<&SegmentHead>) -> io::Result<u64> {
    let Some(head) = &segment.head else { return Ok(0) };
    let ends = vec![segment.location(segment.frames_at())];
    let mut mender =
        Mender { segment, salt, version: head.version, before: Some(Seam::behind_head(head)), ends, mended: 0 };
    let next = next.filter(|next| next.previous_end >> 32 == u64::from(segment.number));
    let next = next.map(|next| (next.previous_end & 0xffff_ffff, Seam::before_head(next)));
    // What is known where a frame ends: by the frame behind it, or by the next segment if it is the seal.
    let behind = |end: u64| -> io::Result<Option<Seam>> {
        match segment.frame(end, salt)? {
            Some((frame, _)) => Ok(Some(Seam::before(&frame))),
            None => Ok(next.filter(|next| next.0 == end).map(|next| next.1)),
        }
    };
    let mut walk = FrameWalk::new(segment, salt, segment.frames_at(), segment.bytes);
    while let Some(step) = walk.step()? {
        match step {
            FrameStep::Frame { offset, frame, head } => {
                mender.pass(offset, &frame, &head)?;
                if mender.before.is_none()
                    && let Some(behind) = behind(offset + frame.bytes())?
                {
                    mender.fill_payload(offset, &frame, &head, &behind)?;
                }
            }
            FrameStep::Gap { offset, end } => {
                if let Some(behind) = behind(end)? {
                    mender.fill_head(offset..end, &behind)?;
                }
            }
        }
    }
    // The seal, its head damaged, behind which no frame is.
    if let Some((end, behind)) = next.filter(|next| !walk.sealed && (walk.at + 1..=segment.bytes).contains(&next.0)) {
        mender.fill_head(walk.at..end, &behind)?;
    }
    if mender.mended > 0 {
        segment.file()?.sync_data()?;
    }
    Ok(mender.mended)
}

struct Mender<'s> {
    segment: &'s Segment,
    salt: u64,
    version: u32,
    // What is known where the next frame begins; `None` if the one before is damaged.
    before: Option<Seam>,
    // Where frames begin and end.
    ends: Vec<u64>,
    mended: u64,
}

impl Mender<'_> {
    /// Goes on behind a frame with a right head.
    fn pass(&mut self, offset: u64, frame: &Frame, head: &[u8; HEAD_BYTES]) -> io::Result<()> {
        let payload = self.segment.payload(offset, frame, head)?;
        self.before = payload.map(|(_, trailer)| Seam::behind(frame, trailer));
        self.ends.push(self.segment.location(offset + frame.bytes()));
        Ok(())
    }

    /// Writes payload and trailer of a frame with a right head, if a byte of the one or any of the other is all that is damaged.
    fn fill_payload(&mut self, offset: u64, frame: &Frame, head: &[u8; HEAD_BYTES], behind: &Seam) -> io::Result<()> {
        let at = offset + HEAD_BYTES as u64 + u64::from(frame.record_bytes);
        let mut payload = self.segment.bytes_at(at, u64::from(frame.payload_bytes))?.into_owned();
        if behind.sequence != frame.sequence.wrapping_add(1)
            || !mend_byte(&mut payload, |payload| frame::trailer(head, payload) == behind.chain)
        {
            return Ok(());
        }
        payload.extend_from_slice(&behind.chain.to_le_bytes());
        self.segment.write_all_at(&payload, at)?;
        self.mended += 1;
        self.pass(offset, frame, head)
    }

    /// Writes head and trailer of the frame that has these bytes, if it is one and no more than these is damaged.
    fn fill_head(&mut self, range: Range<u64>, behind: &Seam) -> io::Result<()> {
        let Some(before) = self.before.take() else { return Ok(()) };
        let Some(head) = self.head(&range, &before, behind)? else { return Ok(()) };
        self.segment.write_all_at(&head, range.start)?;
        self.segment.write_all_at(&behind.chain.to_le_bytes(), range.end - TRAILER_BYTES as u64)?;
        self.mended += 1;
        match self.segment.frame(range.start, self.salt)? {
            Some((frame, head)) => self.pass(range.start, &frame, &head),
            None => Ok(()),
        }
    }

    /// Returns the head of the frame that has these bytes, if it follows from what stands around it. The trailer is what the frame
    /// behind repeats, whatever stands there.
    fn head(&self, range: &Range<u64>, before: &Seam, behind: &Seam) -> io::Result<Option<[u8; HEAD_BYTES]>> {
        let (segment, span) = (self.segment, range.end - range.start);
        if span < EMPTY_BYTES || behind.sequence != before.sequence.wrapping_add(1) {
            return Ok(None);
        }
        let (records_at, most) = (range.start + HEAD_BYTES as u64, span - EMPTY_BYTES);
        let mut wrong = None;
        let stopped = each_record(segment, range.start, most, &mut |at, record, bytes| {
            if wrong.is_none() && record.verify(bytes).is_err() {
                wrong = Some(at);
            }
        })?;
        let record_bytes = wrong.or(stopped).map_or(most, |at| at - records_at);
        let payload_bytes = most - record_bytes;
        if payload_bytes > u64::from(PAYLOAD_BYTES_MAX) {
            return Ok(None);
        }
        let payload = segment.bytes_at(records_at + record_bytes, payload_bytes)?;
        let like = Frame {
            kind: FrameKind::Batch,
            sequence: before.sequence,
            durable_end: before.durable_end,
            previous: before.chain,
            nonce: 0,
            record_bytes: record_bytes as u32,
            payload_bytes: payload_bytes as u32,
            records_check: segment.records_check(records_at, record_bytes)?,
        };
        Ok(self.search(segment.location(range.start), like, &payload, before, behind))
    }

    /// Returns the head of a frame like this one at a location, with which its trailer is right, if there is one.
    fn search(&self, at: u64, like: Frame, payload: &[u8], before: &Seam, behind: &Seam) -> Option<[u8; HEAD_BYTES]> {
        let alone = like.record_bytes == 0;
        let fits = |kind: &FrameKind| match kind {
            FrameKind::Batch => take_refs(payload).is_some(),
            FrameKind::Seal => alone && payload.len() == 8,
            FrameKind::Checkpoint => alone && payload.is_empty(),
            FrameKind::State => alone && take_state(payload).is_some(),
        };
        let kinds = [FrameKind::Batch, FrameKind::Seal, FrameKind::Checkpoint, FrameKind::State];
        let durable_ends = self.durable_ends(at, before, behind);
        // The lower half of a nonce is the time, in version 2.
        let (clock, seconds) = match self.version {
            ..2 => (0, 0..1),
            _ => (u64::from(u32::MAX), u64::from(before.time)..u64::from(behind.time) + 1),
        };
        let mut writers: Vec<u64> = before.nonce.into_iter().chain(behind.nonce).map(|nonce| nonce & !clock).collect();
        writers.dedup();
        let times = seconds.end.saturating_sub(seconds.start);
        let tries = durable_ends.len() as u64 * writers.len() as u64 * times;
        if tries > TRIES_MAX / (1 + payload.len() as u64 / 1024) {
            return None;
        }
        for kind in kinds.into_iter().filter(fits) {
            for (&durable_end, &writer) in durable_ends.iter().flat_map(|end| writers.iter().map(move |one| (end, one)))
            {
                for second in seconds.clone() {
                    let head = Frame { kind, durable_end, nonce: writer | second, ..like }.encode(at, self.salt);
                    if frame::trailer(&head, payload) == behind.chain {
                        return Some(head);
                    }
                }
            }
        }
        None
    }

    /// Returns how far the log may have been durable when a frame at a location was written, as far as this segment tells.
    fn durable_ends(&self, at: u64, before: &Seam, behind: &Seam) -> Vec<u64> {
        let (from, to) = (before.durable_end, behind.durable_end.min(at));
        let mut ends: Vec<u64> = self.ends.iter().copied().filter(|end| (from..=to).contains(end)).collect();
        ends.extend([from, to]);
        ends.sort_unstable();
        ends.dedup();
        ends
    }
}

/// Whether bytes are right, or become so where one of them is another, which takes its place then.
fn mend_byte(bytes: &mut [u8], is_right: impl Fn(&[u8]) -> bool) -> bool {
    if is_right(bytes) || bytes.len() > PAYLOAD_MENDED_MAX {
        return is_right(bytes);
    }
    for at in 0..bytes.len() {
        let found = bytes[at];
        for byte in 0..=u8::MAX {
            bytes[at] = byte;
            if is_right(bytes) {
                return true;
            }
        }
        bytes[at] = found;
    }
    false
}
