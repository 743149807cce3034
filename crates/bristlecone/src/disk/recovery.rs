//! Finding the end of the log when a store is opened, and cutting what a crash left behind it.
//!
//! Mostly only the last segment is read: its head holds the refs, its frames move them. If it was begun ahead and nothing in
//! it says that it was durable, recovery begins in the segment in which what was durable ends. Frames before the last
//! `durable_end` are known to have been whole on the medium, so of these head and moves are checked, and the
//! records when they are read. What comes after is checked wholly; the first frame that is not whole ends the
//! log, and segments behind it are removed. If a later frame or segment claims that it was durable, the store is damaged, and
//! says where.

mod start;

use std::io;

use super::{
    StoreHeader,
    durable::{claimed_end, prepare},
    files::{CHUNK_BYTES, SEGMENTS, SPARE, cold_number, names_of_segments, segment_name, segment_number},
    frame::{self, Frame},
    log::{DiskState, LogWriter, Tail},
    refs::Refs,
    repair::{RecoveryMode, refusal},
    sealed::Form,
    segment::{Segment, SegmentHead},
    walk::find_frame,
};
use crate::{
    Error,
    storage::{OpenMode, write_all_at},
    sync::atomic::Ordering::*,
};

/// How far behind a clean end recovery looks for what a crash may have left.
const PEEK_BYTES: u64 = 64 << 10;

/// What says that more was durable than the log has.
pub(super) struct LaterClaim {
    /// The segment in which that stands.
    pub(super) segment: u32,
    pub(super) offset: u64,
}

impl DiskState {
    /// Finds the end of the log and the refs. The caller holds the store's lock unless the store is open for reading only.
    pub(super) fn recover(&self, log: &mut LogWriter, recovery: &mut RecoveryMode) -> Result<(), Error> {
        // Read before the segments are: the log only grows.
        let claimed = claimed_end(&self.storage, self.header.salt);
        if let Some(claimed) = claimed {
            // The process that noted that had made the names of that segment and of the header durable.
            self.sync.note_named((claimed >> 32) as u32);
        }
        let start = self.find_start()?;
        let durable = start.claimed;
        self.begin_state(log, &start.head);
        self.sync.note_durable(start.known);
        let refs = self.refs_of(start.refs)?;
        self.replay(log, &start.segment, Tail::start(&start.head), refs, durable)?;
        // The state of the store is looked at once, at the end: that of the first segment may have given way to a later one.
        let stopped = self.follow(log, true);
        if let RecoveryMode::AcceptEnd(accepted) = recovery {
            *accepted = self.accept_end(log, claimed, stopped)?;
            return Ok(());
        }
        stopped?;
        if self.lock.is_none() {
            self.refuse_damage(log)?;
            self.catch_up(log)?;
            if let Some(damage) = self.shortfall(&log.tail, claimed) {
                let _ = self.lost_end.set(damage);
            }
            return Ok(());
        }
        if let Some(damage) = self.shortfall(&log.tail, claimed) {
            // Where a frame stands behind the end, it tells more.
            self.refuse_damage(log)?;
            return Err(refusal(&damage));
        }
        self.note_sealed_end(log);
        self.clean(log, durable.max(claimed.unwrap_or(0)))?;
        self.remove_abandoned_all();
        self.end_upgrade(log)?;
        self.keep_companions();
        Ok(())
    }

    /// Makes what a store of an earlier version lacks: the copy of its header, and the file that says how far the log
    /// was durable. Both help after a loss. A store opens also where they cannot be written.
    fn keep_companions(&self) {
        let made = StoreHeader::read(&self.storage).and_then(|header| header.keep_copy(&self.storage)).unwrap_or(false);
        if prepare(&self.storage).unwrap_or(false) || made {
            let _ = self.storage.sync_dir(SEGMENTS);
        }
    }

    /// Notes that the log ends in a seal: so it is after a crash between two segments, but also if the segment behind
    /// was lost.
    fn note_sealed_end(&self, log: &LogWriter) {
        if log.tail.next == 0 {
            return;
        }
        let (last, next) = (segment_name(log.tail.segment), segment_name(log.tail.next));
        let _ = self.note.set(format!(
            "{} is the last segment and says that {next} follows, which is not there; so it is after a crash at that \
             moment, and nothing acknowledged is known to be missing",
            self.storage.describe(&last)
        ));
    }

    /// Returns the numbers of the segments of the log whose files are there, ascending.
    pub(super) fn listed_segments(&self) -> Result<Vec<u32>, Error> {
        let names = names_of_segments(&*self.storage)?;
        let mut numbers = Vec::new();
        for name in &names {
            if let Some(number) = segment_number(name).filter(|&number| number != 0) {
                numbers.push(number);
            }
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Removes what was to become a segment and never did.
    fn remove_abandoned_all(&self) {
        for name in self.storage.list(SEGMENTS).unwrap_or_default() {
            if name.starts_with(SPARE) {
                self.remove_abandoned(&format!("{SEGMENTS}/{name}"));
            }
            if cold_number(&name).is_some() {
                // The first collection may have been cut short: then there is no state to tell.
                self.emptied.store(true, Relaxed);
            }
        }
    }

    /// Removes a file that no process prepares any more. It is waste, so a failure is ignored.
    fn remove_abandoned(&self, name: &str) {
        if let Ok(file) = self.storage.open(name, OpenMode::Write)
            && file.try_lock().unwrap_or(false)
        {
            let _ = self.storage.remove(name);
        }
    }

    /// Notes the state that the head of a segment names; a later frame may name another.
    pub(super) fn begin_state(&self, log: &mut LogWriter, head: &SegmentHead) {
        self.named_at.store(head.previous_end, Release);
        self.version.store(head.version, Relaxed);
        log.named = Some(head.state);
    }

    /// Goes through the frames of the segment and lets them count.
    fn replay(
        &self,
        log: &mut LogWriter,
        segment: &Segment,
        start: Tail,
        refs: Refs,
        durable: u64,
    ) -> Result<(), Error> {
        log.tail = start;
        self.publish_with(&log.tail, |published| *published = refs);
        loop {
            let check_records = log.tail.location() >= durable;
            let found = log.tail.find(segment, self.header.salt, check_records);
            let Some(found) = found.map_err(|error| self.io(&segment.name, error))? else { return Ok(()) };
            self.accept(log, found, false)?;
        }
    }

    /// Makes the end of the log one that appends can follow: nothing behind it, and all before it durable.
    fn clean(&self, log: &mut LogWriter, durable: u64) -> Result<(), Error> {
        self.remove_behind(log)?;
        let segment = self.tail_segment(&log.tail)?;
        let end = log.tail.end;
        if log.tail.next == 0 {
            let clean = log.tail.checkpoint && !self.shows_any(&segment, end, end + PEEK_BYTES)?;
            if !clean && self.shows_any(&segment, end, segment.bytes)? {
                self.cut_tail(log)?;
            }
        }
        let location = log.tail.location();
        if location <= durable {
            return Ok(());
        }
        let mut ends = self.sync.undurable();
        ends.push(location);
        for &end in &ends {
            let segment = self.current_segment((end >> 32) as u32)?;
            let missing = || self.corrupt(&segment_name((end >> 32) as u32), 0, "the segment has vanished");
            let from = if durable >> 32 == end >> 32 { durable & 0xffff_ffff } else { 0 };
            self.write_again(&*segment.ok_or_else(missing)?, from, end & 0xffff_ffff)?;
        }
        if log.tail.checkpoint && durable == location - frame::EMPTY_BYTES {
            // A clean close left the checkpoint without a sync. Nothing stands on it yet, and the next sync covers it.
            return Ok(());
        }
        self.sync_sealed(segment.number, 0)?;
        self.sync_segment(&segment)?;
        self.sync.note_durable(location);
        self.release_durable();
        Ok(())
    }

    /// Removes segments behind the one in which the log ends, which a power cut left of what was not durable, durably.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if something in them had been durable.
    pub(super) fn remove_behind(&self, log: &mut LogWriter) -> Result<(), Error> {
        let mut behind = self.listed_segments()?;
        behind.retain(|&number| number > log.tail.segment);
        if behind.is_empty() {
            return Ok(());
        }
        self.refuse_damage(log)?;
        self.remove_segments(&behind)
    }

    /// Removes segments of the log, which are given in their order, durably.
    pub(super) fn remove_segments(&self, numbers: &[u32]) -> Result<(), Error> {
        // The last first: what is left if the power is cut meanwhile goes on from what is before it.
        for &number in numbers.iter().rev() {
            for name in [Form::Seal.name(number), segment_name(number)] {
                match self.storage.remove(&name) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(self.io(&name, error)),
                    _ => {}
                }
            }
        }
        self.storage.sync_dir(SEGMENTS).map_err(|error| self.io(SEGMENTS, error))
    }

    /// Writes bytes of the log once more as they are.
    ///
    /// A sync that failed may have left pages that read right, count as written and are not on the medium; this
    /// makes the next sync write them, whichever process calls it. Whole frames are never changed, so it takes
    /// no lock.
    pub(super) fn write_again(&self, segment: &Segment, from: u64, to: u64) -> Result<(), Error> {
        let failed = |error| self.io(&segment.name, error);
        // Another thread may close it meanwhile, once all of it is durable.
        let file = segment.writable().map_err(failed)?;
        let (mut at, mut buffer) = (from, Vec::new());
        while at < to {
            buffer.resize(CHUNK_BYTES.min(to - at) as usize, 0);
            segment.read_exact_at(&mut buffer, at).map_err(failed)?;
            write_all_at(&*file, &buffer, at).map_err(failed)?;
            at += buffer.len() as u64;
        }
        Ok(())
    }

    /// Zeroes what a crash left behind the end, and makes that durable before anything else is written.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it was no torn tail but had been durable.
    pub(super) fn cut_tail(&self, log: &mut LogWriter) -> Result<(), Error> {
        self.refuse_damage(log)?;
        let segment = self.tail_segment(&log.tail)?;
        let shown = segment.zero_shown(log.tail.end, segment.bytes).map_err(|error| self.io(&segment.name, error))?;
        if shown { self.sync_segment(&segment) } else { Ok(()) }
    }

    /// Fails if a frame or a segment behind the end says that what is at the end was durable.
    fn refuse_damage(&self, log: &mut LogWriter) -> Result<(), Error> {
        loop {
            let Some(later) = self.later_claim(&log.tail)? else { return Ok(()) };
            // Without the lock another process may have completed the frame, or begun the segment, meanwhile.
            let before = log.tail.location();
            if self.lock.is_none() {
                self.catch_up(log)?;
            }
            if log.tail.location() == before {
                let (name, reason) = self.claim_text(&log.tail, &later);
                return Err(self.corrupt(&name, if log.tail.next == 0 { log.tail.end } else { 0 }, reason));
            }
        }
    }

    /// Returns the file that is damaged where something behind the end of the log says that what is there was durable, and in what
    /// way.
    pub(super) fn claim_text(&self, tail: &Tail, later: &LaterClaim) -> (String, String) {
        let offset = later.offset;
        let claims = match later.segment == tail.segment {
            true => format!("the one at byte {offset} follows it and says that it was durable"),
            false => format!("{} follows and says that it was durable", segment_name(later.segment)),
        };
        match tail.next {
            0 => (segment_name(tail.segment), format!("there is no sound frame here, but {claims}")),
            next => (segment_name(next), format!("the segment is missing or its head is damaged, but {claims}")),
        }
    }

    /// Returns a frame or a segment behind the end of the log which says that more than the log has was durable.
    pub(super) fn later_claim(&self, tail: &Tail) -> Result<Option<LaterClaim>, Error> {
        if tail.next == 0 {
            let segment = self.tail_segment(tail)?;
            if let Some(offset) = self.claim_behind(&segment, tail)? {
                return Ok(Some(LaterClaim { segment: segment.number, offset }));
            }
        }
        for number in self.listed_segments()?.into_iter().filter(|&number| number > tail.segment) {
            let Some(segment) = self.segment_file(number)? else { continue };
            if segment.head.is_some_and(|head| head.durable_end > tail.location()) {
                return Ok(Some(LaterClaim { segment: number, offset: 0 }));
            }
            if let Some(offset) = self.claim_from(&segment, segment.frames_at(), tail)? {
                return Ok(Some(LaterClaim { segment: number, offset }));
            }
        }
        Ok(None)
    }

    /// Returns the offset of a frame behind the tail which says that more than the tail was durable.
    fn claim_behind(&self, segment: &Segment, tail: &Tail) -> Result<Option<u64>, Error> {
        if !self.shows_bytes(segment, tail.end)? && !self.shows_any(segment, tail.end, segment.bytes)? {
            return Ok(None);
        }
        self.claim_from(segment, tail.end, tail)
    }

    /// Returns the offset of a frame in a segment, from an offset on, which says that more than the tail was durable.
    fn claim_from(&self, segment: &Segment, from: u64, tail: &Tail) -> Result<Option<u64>, Error> {
        let is_more = |frame: &Frame| frame.durable_end > tail.location();
        let found = find_frame(segment, from, segment.bytes, self.header.salt, is_more);
        Ok(found.map_err(|error| self.io(&segment.name, error))?.map(|(offset, _)| offset))
    }

    /// Whether any byte of the range is not zero.
    pub(super) fn shows_any(&self, segment: &Segment, from: u64, to: u64) -> Result<bool, Error> {
        let (mut at, to, mut buffer) = (from, to.min(segment.bytes), Vec::new());
        while at < to {
            let chunk = segment.unwritten(at, CHUNK_BYTES.min(to - at), &mut buffer);
            let chunk = chunk.map_err(|error| self.io(&segment.name, error))?;
            if chunk.iter().any(|&byte| byte != 0) {
                return Ok(true);
            }
            at += chunk.len() as u64;
        }
        Ok(false)
    }
}
