//! Going on to the next segment: seal the old one, let the new one appear whole.
//!
//! The order: the new file is written under another name, the seal is written, the file gets its name. Where commits ask
//! for syncs, and in version 1 always, each step is durable before the next: a crash anywhere between leaves an unsealed
//! segment that goes on, or a sealed one whose next segment the next writer makes. Else the segment is begun *ahead*: nothing
//! is synced, its head says how far the log was durable, and recovery begins there. A sync then syncs all segments since, in
//! their order.

use std::{
    io,
    sync::Arc,
    sync::atomic::Ordering::*,
    time::{Duration, Instant, SystemTime},
};

use super::{
    files::{SEGMENTS, segment_name},
    frame::{self, Frame, FrameKind},
    log::{DiskState, LogWriter, Tail},
    refs::Refs,
    segment::{Segment, SegmentHead},
    spare::{NUMBER_FULL_GROWN, Spare, Zeroes, make_spare, segment_size, write_head},
    written::WrittenSegment,
};
use crate::Error;

/// So many segments that the log has left may wait to be synced; who goes on to another one syncs the first of them.
const AHEAD_MAX: usize = 4;

/// A segment that is full within this time, while no writer asks for syncs, is followed by a full-grown one: beginning a
/// segment costs syncs, and so fast a writer would soon wait for the next one.
const FULL_SOON: Duration = Duration::from_millis(500);

/// The segment that is to follow.
struct NextSegment {
    number: u32,
    /// Its head, with the refs.
    head: Vec<u8>,
    ahead: bool,
}

impl DiskState {
    /// Seals the segment in which the log ends, unless it is sealed, and begins the next with room for a
    /// frame of `frame_bytes`. The caller holds the store's lock and has caught up.
    pub(super) fn roll(&self, log: &mut LogWriter, frame_bytes: u64) -> Result<(), Error> {
        let ahead = log.tail.version >= 2 && !self.sync.wanted.load(Relaxed);
        self.roll_as(log, frame_bytes, log.tail.version, ahead)
    }

    /// As [`DiskState::roll`], and all that is before the new segment is durable.
    pub(super) fn roll_durably(&self, log: &mut LogWriter) -> Result<(), Error> {
        self.roll_as(log, 0, log.tail.version, false)
    }

    /// As [`DiskState::roll`], in a version of the engine; `ahead`: nothing need be durable before.
    pub(super) fn roll_as(
        &self,
        log: &mut LogWriter,
        frame_bytes: u64,
        version: u32,
        ahead: bool,
    ) -> Result<(), Error> {
        let old = self.tail_segment(&log.tail)?;
        let number = if log.tail.next != 0 { log.tail.next } else { log.tail.segment + 1 };
        if self.tables_behind.load(Relaxed) {
            let reason = "its head names tables of refs that are not there; put the store back from a backup";
            return Err(self.corrupt(&old.name, 0, reason));
        }
        let tabled = if version < 2 { None } else { self.tabled_refs(number)? };
        // A table of refs is synced for the segment that names it, so that little is left to win.
        let ahead = ahead && tabled.is_none();
        let rows = tabled.as_ref().map_or_else(|| self.published.refs().head_rows(), Refs::head_rows);
        let unsynced = self.options.background && !self.sync.wanted.load(Relaxed);
        let soon = unsynced && log.began.is_some_and(|began| began.elapsed() < FULL_SOON);
        let size_of = if soon { NUMBER_FULL_GROWN } else { number };
        let sized = |number| segment_size(number, self.header.segment_bytes, rows.len() as u64, frame_bytes);
        let mut bytes = sized(size_of)?;
        if !self.background.has_spare(bytes)
            && self.storage.free_bytes().is_ok_and(|free| free.is_some_and(|free| free < bytes))
        {
            // A short one fits where there is little room, and a collection needs one to give some back.
            bytes = sized(1)?;
        }
        let seal = (log.tail.next == 0).then(|| self.seal(&log.tail, number));
        let sealed = seal.as_ref().map_or(log.tail, |(_, tail)| *tail);

        self.sync_sealed(number, if ahead { AHEAD_MAX - 1 } else { 0 })?;
        self.settle_names()?;
        let mut spare = self.spare_of(bytes)?;
        let mut head = SegmentHead {
            number,
            previous: sealed.segment,
            bytes,
            sequence: sealed.sequence,
            seed: sealed.chain,
            previous_end: sealed.location(),
            durable_end: if ahead { self.sync.durable_end().min(sealed.location()) } else { sealed.location() },
            ahead,
            ref_bytes: 0,
            check: 0,
            version,
            state: self.table().state.reference(),
            time: if version < 2 { 0 } else { sealed.time.max(now_seconds()) },
        };
        let next = NextSegment { number, head: head.encode(&rows, self.header.salt), ahead };
        let written = match self.change_segment(log, &old, seal.as_ref(), &mut spare, &next) {
            Ok(written) => written,
            Err(error) => {
                // It is no segment, and where the disk is full its room is needed.
                let _ = self.storage.remove(&spare.name);
                return Err(error);
            }
        };
        self.enter_segment(log, spare, number, tabled)?;
        if self.options.background {
            self.background.index_soon(sealed.segment, written);
        }
        Ok(())
    }

    /// Writes the head of the next segment into `spare` and the `seal` of the old one, if that is to be sealed, and gives the file
    /// its name. Returns the records of the old one, if they are known.
    fn change_segment(
        &self,
        log: &mut LogWriter,
        old: &Segment,
        seal: Option<&(Vec<u8>, Tail)>,
        spare: &mut Spare,
        next: &NextSegment,
    ) -> Result<Option<WrittenSegment>, Error> {
        write_head(&self.storage, spare, &next.head, !next.ahead)?;
        self.counters.bytes_written.fetch_add(next.head.len() as u64, Relaxed);
        if let Some((bytes, sealed)) = seal {
            self.write_frame(old, bytes, log.tail.end)?;
            log.written.pass_small(old.number, log.tail.end, sealed.end);
            log.tail = *sealed;
            self.publish(sealed);
        }
        let sealed = log.tail;
        let written = log.written.take(&sealed);
        if !next.ahead {
            // The process that sealed it may have died before the sync.
            self.sync_segment(old)?;
            self.sync.note_durable(sealed.location());
        }
        let name = segment_name(next.number);
        let renamed = match self.storage.rename(&spare.name, &name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // A process that opened the store took it for abandoned, before it was locked.
                *spare = self.new_spare(spare.bytes)?;
                write_head(&self.storage, spare, &next.head, !next.ahead)?;
                self.storage.rename(&spare.name, &name)
            }
            renamed => renamed,
        };
        renamed.map_err(|error| self.io(&name, error))?;
        Ok(written)
    }

    /// Goes on in the new segment, whose name is made durable first unless it was begun ahead; `tabled`: the refs by the tables
    /// that it names, if these are others.
    fn enter_segment(&self, log: &mut LogWriter, spare: Spare, number: u32, tabled: Option<Refs>) -> Result<(), Error> {
        let name = segment_name(number);
        let _ = spare.file.unlock();
        let segment = Segment::with_file(&self.access(), spare.file, number);
        let segment = segment.map_err(|error| self.io(&name, error))?;
        let table = self.table();
        let segment = table.keep(Arc::new(segment)).ok_or_else(|| self.corrupt(&name, 0, "too many segments"))?;
        let head = segment.head.ok_or_else(|| segment.head_error(self.header.salt))?;
        if !head.ahead {
            self.sync_names(SEGMENTS)?;
            self.sync.note_named(number);
            self.sync.note_durable(Tail::start(&head).location());
        }
        log.tail = Tail::start(&head);
        log.written.begin(&log.tail, self.options.background);
        log.began = Some(Instant::now());
        self.sync.note_sealed(head.previous_end);
        match tabled {
            Some(tabled) => self.publish_with(&log.tail, |refs| *refs = tabled),
            None => self.publish(&log.tail),
        }
        self.leave(&head);
        if !head.ahead {
            self.note_end(log.tail.location(), true);
        }
        self.sync.wanted.store(false, Relaxed);
        if self.options.background {
            self.background.spare_asked.store(false, Relaxed);
        }
        Ok(())
    }

    /// Returns the frame that seals a segment, and the tail behind it.
    fn seal(&self, tail: &Tail, next: u32) -> (Vec<u8>, Tail) {
        let payload = u64::from(next).to_le_bytes();
        let (bytes, mut after) = self.small_frame(tail, FrameKind::Seal, &payload, self.sync.durable_end());
        after.next = next;
        (bytes, after)
    }

    /// Returns the word that tells this opening's frames from those of others; in version 2 with the time.
    pub(super) fn stamp(&self, tail: &Tail) -> u64 {
        if tail.version < 2 {
            return self.nonce;
        }
        self.nonce & !u64::from(u32::MAX) | u64::from(tail.time.max(now_seconds()))
    }

    /// Returns a frame without records, and the tail behind it.
    pub(super) fn small_frame(&self, tail: &Tail, kind: FrameKind, payload: &[u8], durable: u64) -> (Vec<u8>, Tail) {
        let frame = Frame {
            kind,
            sequence: tail.sequence,
            durable_end: durable,
            previous: tail.chain,
            nonce: self.stamp(tail),
            record_bytes: 0,
            payload_bytes: payload.len() as u32,
            records_check: frame::records_check(&[]),
        };
        let head = frame.encode(tail.location(), self.header.salt);
        let trailer = frame::trailer(&head, payload);
        let mut after = *tail;
        after.pass_frame(&frame, trailer);
        ([&head[..], payload, &trailer.to_le_bytes()].concat(), after)
    }

    /// Writes one small frame, or leaves zeroes where it would have been.
    pub(super) fn write_frame(&self, segment: &Segment, bytes: &[u8], at: u64) -> Result<(), Error> {
        self.counters.writes.fetch_add(1, Relaxed);
        self.counters.bytes_written.fetch_add(bytes.len() as u64, Relaxed);
        segment.write_all_at(bytes, at).map_err(|error| {
            let error = self.io(&segment.name, error);
            self.erase_torn_tail(segment, at, at + bytes.len() as u64, &error).unwrap_or(error)
        })
    }

    /// Returns a file for the next segment: one that was prepared, or a new one.
    fn spare_of(&self, bytes: u64) -> Result<Spare, Error> {
        match self.background.take_spare(bytes) {
            Some(spare) => Ok(spare),
            None => self.new_spare(bytes),
        }
    }

    fn new_spare(&self, bytes: u64) -> Result<Spare, Error> {
        // Without a thread it is now or never; with one it was not fast enough, and a writer that asks for syncs had
        // better wait once than at each of them.
        let background = self.options.background && !self.sync.wanted.load(Relaxed);
        let now = self.options.prezero && !background && self.sync.zeroes_pay();
        let spare = make_spare(&self.storage, bytes, &Zeroes::now(now))?;
        spare.ok_or_else(|| self.corrupt(SEGMENTS, 0, "no file for a segment"))
    }
}

/// Returns the seconds since 1970, until 2106.
pub(super) fn now_seconds() -> u32 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seconds = u32::try_from(now.as_secs()).unwrap_or(u32::MAX);
    #[cfg(test)]
    let seconds = seconds.saturating_add(LATER.get());
    seconds
}

#[cfg(test)]
thread_local! {
    /// How much later it is for this thread, in seconds.
    pub(super) static LATER: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}
