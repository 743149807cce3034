//! The state of an open store: where its log ends, what refs hold, and how to catch up with others.
//!
//! To find out what is committed, a process looks at the byte behind the known end: as long as it is zero
//! nothing was appended. Else frames are read and checked one by one; one that is not whole is not there yet.

use std::{
    io,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, RwLock, TryLockError,
        atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::*},
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    DiskOptions, StoreHeader,
    background::Background,
    cache::RecordCache,
    collect::{Held, SettledOids},
    files::{SEGMENTS, segment_name, segment_number},
    frame::{Frame, FrameKind, HEAD_BYTES, RefRow, TRAILER_BYTES, take_refs, take_state, word64},
    generations::Generations,
    handles::SegmentAccess,
    index::TailIndex,
    lock::DiskLock,
    moved::MovedPlaces,
    published::Published,
    readers::{OwedNote, ReaderNote},
    refs::Refs,
    request::DiskAppendQueue,
    segment::{COLD, COLD_LOCATION, PAGE_BYTES, Segment, SegmentHead},
    state::{StateRef, state_name},
    sync_pipe::SyncPipe,
    table::SegmentTable,
    unreached::Unreached,
    verified::BitMemory,
    view::DiskView,
    written::WrittenRecords,
};
use crate::{
    Error,
    backend::{Damage, Pins, Position, RefTarget},
    engine::{Derived, Poison},
    storage::{OpenMode, Storage},
};

/// A reader that finds the log taken looks again at once so often, and then after a pause each time.
const YIELDS: u32 = 16;
const PAUSE: Duration = Duration::from_micros(50);

/// Where the log ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tail {
    pub(super) segment: u32,
    /// The offset behind the last frame.
    pub(super) end: u64,
    /// The last frame's trailer.
    pub(super) chain: u64,
    /// The number of the next frame.
    pub(super) sequence: u64,
    /// The segment that goes on, once this one is sealed; else 0.
    pub(super) next: u32,
    /// Whether the last frame is a checkpoint.
    pub(super) checkpoint: bool,
    /// The version of the engine that the segment is written in.
    pub(super) version: u32,
    /// When the last frame was written, in seconds since 1970; 0 in a segment of version 1.
    pub(super) time: u32,
}

/// A frame that was found to be whole and to go on from the tail.
pub(super) struct FoundFrame {
    pub(super) frame: Frame,
    pub(super) rows: Vec<RefRow>,
    /// The state of the store from here on, if the frame names one.
    pub(super) state: Option<StateRef>,
    chain: u64,
    next: u32,
}

impl Tail {
    /// Returns the tail of a segment without frames.
    pub(super) const fn start(head: &SegmentHead) -> Self {
        Self {
            segment: head.number,
            end: head.frames_at(),
            chain: head.check,
            sequence: head.sequence,
            next: 0,
            checkpoint: false,
            version: head.version,
            time: head.time,
        }
    }

    /// Returns the location of the end.
    pub(super) const fn location(&self) -> u64 {
        (self.segment as u64) << 32 | self.end
    }

    /// Returns the frame that goes on from here, if it is there and right; `records`: these are checked too. As
    /// nothing may have been written, no map is looked at before its end was found.
    pub(super) fn find(&self, segment: &Segment, salt: u64, records: bool) -> io::Result<Option<FoundFrame>> {
        let Some((frame, head)) = segment.unwritten_frame(self.end, salt, &mut None)? else { return Ok(None) };
        if self.next != 0 || frame.previous != self.chain || frame.sequence != self.sequence {
            return Ok(None);
        }
        // No process can have known more to be durable than there was.
        if frame.durable_end > self.location() + frame.bytes() {
            return Ok(None);
        }
        if !segment.may_be_shown(self.end, &frame, &head)? {
            return Ok(None);
        }
        let Some((payload, chain)) = segment.payload(self.end, &frame, &head)? else { return Ok(None) };
        let mut state = None;
        let (rows, next) = match frame.kind {
            FrameKind::Batch => match take_refs(&payload) {
                Some(rows) => (rows, 0),
                None => return Ok(None),
            },
            FrameKind::Seal if payload.len() == 8 => (Vec::new(), word64(&payload, 0)),
            FrameKind::Checkpoint if payload.is_empty() => (Vec::new(), 0),
            FrameKind::State if self.version >= 2 => match take_state(&payload) {
                Some((named, rows)) => {
                    state = Some(named);
                    (rows, 0)
                }
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        let sealed = frame.kind == FrameKind::Seal;
        if sealed && !(u64::from(self.segment) + 1..u64::from(COLD)).contains(&next) {
            return Ok(None);
        }
        if records && !segment.records_right(self.end, &frame)? {
            return Ok(None);
        }
        Ok(Some(FoundFrame { frame, rows, state, chain, next: next as u32 }))
    }

    /// Goes on behind the frame.
    pub(super) fn pass(&mut self, found: &FoundFrame) {
        self.pass_frame(&found.frame, found.chain);
        self.next = found.next;
    }

    /// Goes on behind a frame with this trailer.
    pub(super) fn pass_frame(&mut self, frame: &Frame, chain: u64) {
        self.end += frame.bytes();
        self.chain = chain;
        // No log has so many frames, but a made-up head may say so.
        self.sequence = self.sequence.wrapping_add(1);
        self.checkpoint = frame.kind == FrameKind::Checkpoint;
        if self.version >= 2 {
            self.time = frame.time();
        }
    }
}

/// What appenders need, one at a time.
#[derive(Debug)]
pub(super) struct LogWriter {
    pub(super) tail: Tail,
    /// Frames that are to be written to the file.
    pub(super) buffer: Vec<u8>,
    /// Whether this backend has appended anything that a clean close should seal with a checkpoint.
    pub(super) appended: bool,
    /// When this backend began the segment in which the log ends, if it did.
    pub(super) began: Option<Instant>,
    /// The records of that segment, as far as this backend wrote them.
    pub(super) written: WrittenRecords,
    /// The state that the last frames named, until the tables follow.
    pub(super) named: Option<StateRef>,
}

/// Counters since the store was opened.
#[derive(Debug, Default)]
pub(super) struct DiskCounters {
    pub(super) bytes_written: AtomicU64,
    pub(super) writes: AtomicU64,
    pub(super) syncs: AtomicU64,
    pub(super) batches: AtomicU64,
}

/// An open store.
#[derive(Debug)]
pub(super) struct DiskState {
    pub(super) storage: Arc<dyn Storage>,
    pub(super) derived: Derived,
    pub(super) header: StoreHeader,
    pub(super) options: DiskOptions,
    /// `None` where the store is open for reading only.
    pub(super) lock: Option<DiskLock>,
    pub(super) nonce: u64,
    pub(super) tables: Generations,
    /// What tells other processes by which states this one reads.
    pub(super) reader: OnceLock<ReaderNote>,
    /// Whether that is still to be made.
    pub(super) reader_owed: OwedNote,
    /// Where the frame ends that named the state.
    pub(super) named_at: AtomicU64,
    /// Whether the last head named tables of refs that were not there.
    pub(super) tables_behind: AtomicBool,
    /// Whether there may be files that a collection emptied.
    pub(super) emptied: AtomicBool,
    /// The segment that the collection began which this process has under way; 0 if it has none.
    pub(super) swept_to: AtomicU32,
    /// Where the log ends when the next collection is due.
    pub(super) due_at: AtomicU64,
    /// Where the log ends when a collection that is under way does not keep up.
    pub(super) overdue_at: AtomicU64,
    /// How much of what it emptied the last collection of this process copied, in percent.
    pub(super) copied_percent: AtomicU8,
    /// What collections kept for snapshots that are still held.
    pub(super) held: Mutex<Vec<Held>>,
    /// What the last collection knew to lie in cold segments and to stay, and the number of the state that it left.
    pub(super) settled: Mutex<(u64, SettledOids)>,
    /// The version of the engine that the log is written in.
    pub(super) version: AtomicU32,
    /// Lets one thread at a time wait for the store's lock. Taken before that and before the log.
    pub(super) gate: Mutex<()>,
    pub(super) log: Mutex<LogWriter>,
    /// What readers see: refs and the end of the log.
    pub(super) published: Published<Refs>,
    /// The trailer of the last frame, if that was read without the store's lock or before this process took it, and not written
    /// here; else 0. Changes under the log's lock alone, before the end is published that goes with it.
    pub(super) followed: AtomicU64,
    /// Set while a leader of this process holds the store's lock and has caught up: no other process can have committed.
    pub(super) writing: AtomicBool,
    pub(super) queue: DiskAppendQueue,
    pub(super) sync: SyncPipe,
    pub(super) poison: Poison,
    /// Where the log ends before what was durable, in a store that is open for reading.
    pub(super) lost_end: OnceLock<Damage>,
    /// What the opening met that is no damage.
    pub(super) note: OnceLock<String>,
    pub(super) counters: DiskCounters,
    pub(super) tail_index: RwLock<TailIndex>,
    /// Where hints of before a collection lead now.
    pub(super) moved: MovedPlaces,
    pub(super) cache: Option<RecordCache>,
    /// What remembers which records in maps were found right.
    pub(super) bits: Arc<BitMemory>,
    pub(super) background: Background<Self>,
    pub(super) unreached: Unreached,
    /// What snapshots of this process hold.
    pub(super) pins: Pins,
}

impl DiskState {
    /// Returns the table of the store's state.
    pub(super) fn table(&self) -> Arc<SegmentTable> {
        self.tables.current()
    }

    /// Returns the table that reads go by now, and a location up to which it has all of the log.
    pub(super) fn table_and_end(&self) -> (Arc<SegmentTable>, u64) {
        loop {
            let (table, end) = (self.table(), self.published.end());
            // What is published later may be in segments that a later table alone has.
            if Arc::ptr_eq(&table, &self.table()) {
                return (table, end);
            }
        }
    }

    /// Returns the store as it is read by a table.
    #[inline]
    pub(super) const fn view<'a>(&'a self, table: &'a SegmentTable) -> DiskView<'a> {
        DiskView { state: self, table }
    }

    /// Returns the segment that the store's state has under this number, opening it if need be.
    pub(super) fn current_segment(&self, number: u32) -> Result<Option<Arc<Segment>>, Error> {
        let table = self.table();
        match table.get(number) {
            Some(segment) => Ok(Some(segment.clone())),
            None => Ok(self.open_segment(&table, number)?.cloned()),
        }
    }

    /// Returns how segments are opened.
    pub(super) fn access(&self) -> SegmentAccess<'_> {
        SegmentAccess {
            storage: &self.storage,
            salt: self.header.salt,
            version: self.header.engine_version,
            bits: self.options.maps.then_some(&self.bits),
            handles: &self.options.handles,
        }
    }

    /// Opens a segment and keeps it in a table that has it.
    #[cold]
    pub(super) fn open_segment<'t>(
        &self,
        table: &'t SegmentTable,
        number: u32,
    ) -> Result<Option<&'t Arc<Segment>>, Error> {
        // A file that stands behind the end of the log is none of its segments, though a location of before a crash lead there.
        let is_behind = number > (self.published.end() >> 32) as u32 && number < COLD;
        if number == 0 || is_behind || !table.has(number) {
            return Ok(None);
        }
        match Segment::open(&self.access(), number, self.lock.is_some() && number < COLD) {
            Ok(Some(mut segment)) => {
                let emptied = table.state.cold(number).is_some_and(|cold| segment.bytes < cold.bytes);
                if emptied && let Some(expired) = self.view(table).expired(&segment.name) {
                    return Err(expired);
                }
                self.mark_segment(table, &mut segment)?;
                if number >= COLD || number < (self.published.end() >> 32) as u32 {
                    segment.release();
                }
                Ok(table.keep(Arc::new(segment)))
            }
            Ok(None) => Ok(None),
            Err(error) => Err(self.io(&segment_name(number), error)),
        }
    }

    /// Whether what is at this location can change no more.
    #[inline]
    pub(super) fn is_committed(&self, at: u64) -> bool {
        at >= COLD_LOCATION || at < self.published.end()
    }

    /// Returns the segment in which the log ends.
    pub(super) fn tail_segment(&self, tail: &Tail) -> Result<Arc<Segment>, Error> {
        let name = || segment_name(tail.segment);
        self.current_segment(tail.segment)?.ok_or_else(|| self.corrupt(&name(), 0, "the segment has vanished"))
    }

    /// Learns what other processes have committed, if anything.
    pub(super) fn refresh(&self) -> Result<(), Error> {
        self.lock.as_ref().map_or(Ok(()), DiskLock::refuse_child)?;
        if !self.has_news()? {
            return Ok(());
        }
        match self.log_unless_written() {
            Some(mut log) => self.catch_up(&mut log),
            // What shows behind the end is what this process is writing.
            None => Ok(()),
        }
    }

    /// Takes the log; `None` once a leader of this process writes, which knows what other processes have committed.
    fn log_unless_written(&self) -> Option<MutexGuard<'_, LogWriter>> {
        let mut turns = 0;
        loop {
            match self.log.try_lock() {
                Ok(log) => return Some(log),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if self.writing.load(Acquire) => return None,
                // A leader that is about to write, and to sync, holds the log until it has: it is not waited for by the lock.
                Err(TryLockError::WouldBlock) if turns < YIELDS => {
                    turns += 1;
                    thread::yield_now();
                }
                Err(TryLockError::WouldBlock) => thread::sleep(PAUSE),
            }
        }
    }

    /// Returns what a ref holds as this process knows it.
    pub(super) fn get_ref(&self, name: &str) -> Result<Option<RefTarget>, Error> {
        let tables = match self.published.refs().moved(name) {
            Ok(target) => return Ok(target.cloned()),
            Err(tables) => tables.clone(),
        };
        tables.get(name)
    }

    /// Whether there may be something behind the known end.
    fn has_news(&self) -> Result<bool, Error> {
        let Some(end) = self.published.open_end() else { return Ok(true) };
        let (number, offset) = ((end >> 32) as u32, end & 0xffff_ffff);
        let shown = |segment: &Arc<Segment>| self.shows_news(segment, offset);
        if let Some(shown) = self.tables.with_current(|table| table.get(number).map(shown)) {
            return shown;
        }
        self.current_segment(number)?.as_ref().map_or(Ok(true), shown)
    }

    /// Whether the first byte of a frame shows at the known end, or the frame before it, which was followed, is not there any more.
    fn shows_news(&self, segment: &Segment, offset: u64) -> Result<bool, Error> {
        let (chain, trailer_at) = (self.followed.load(Acquire), offset.saturating_sub(TRAILER_BYTES as u64));
        if chain == 0 {
            return self.shows_bytes(segment, offset);
        }
        let failed = |error| self.io(&segment.name, error);
        if segment.mapped().is_some() || offset + HEAD_BYTES as u64 > segment.bytes {
            let trailer = segment.bytes_at(trailer_at, TRAILER_BYTES as u64).map_err(failed)?;
            return Ok(word64(&trailer, 0) != chain || self.shows_bytes(segment, offset)?);
        }
        // With one call.
        let mut words = [0; TRAILER_BYTES + 8];
        segment.read_exact_at(&mut words, trailer_at).map_err(failed)?;
        Ok(word64(&words, 0) != chain || word64(&words, TRAILER_BYTES) != 0)
    }

    /// Whether the first byte of a frame shows at `offset`.
    pub(super) fn shows_bytes(&self, segment: &Segment, offset: u64) -> Result<bool, Error> {
        if offset + HEAD_BYTES as u64 > segment.bytes {
            return Ok(false);
        }
        let mut magic = [0; 8];
        match segment.mapped() {
            // Not where a page begins, which may never have been written.
            Some(map) if !offset.is_multiple_of(PAGE_BYTES) => {
                magic.copy_from_slice(&map[offset as usize..offset as usize + 8]);
            }
            _ => segment.read_exact_at(&mut magic, offset).map_err(|error| self.io(&segment.name, error))?,
        }
        Ok(magic != [0; 8])
    }

    /// Reads whole frames from the tail on, into the next segments too.
    pub(super) fn catch_up(&self, log: &mut LogWriter) -> Result<(), Error> {
        // Who only reads may have come before any writer since the power was cut.
        self.follow(log, self.lock.is_none())
    }

    /// As [`DiskState::catch_up`]; `torn`: the log ends before a segment of which the power took the head.
    pub(super) fn follow(&self, log: &mut LogWriter, torn: bool) -> Result<(), Error> {
        self.follow_frames(log, torn)?;
        while let Some(gone) = self.try_follow_state(log)? {
            // A collection that did not wait for this process removes it once the log names the one that takes its place.
            let before = log.tail.location();
            self.follow_frames(log, torn)?;
            if log.tail.location() == before {
                return Err(gone);
            }
        }
        Ok(())
    }

    /// As [`DiskState::follow`], up to where the log ends now, and whatever states it names.
    fn follow_frames(&self, log: &mut LogWriter, torn: bool) -> Result<(), Error> {
        loop {
            if log.tail.next != 0 {
                if !self.enter_next(log, torn)? && !self.leap(log)? {
                    return self.refuse_taken_back(log);
                }
                continue;
            }
            let segment = self.tail_segment(&log.tail)?;
            if !self.shows_bytes(&segment, log.tail.end)? {
                // Zeroes may stand in the place of a frame that was followed, too.
                return self.refuse_taken_back(log);
            }
            let found = log.tail.find(&segment, self.header.salt, true);
            let Some(found) = found.map_err(|error| self.io(&segment.name, error))? else {
                // What shows may be what was written in the place of a frame that was followed.
                return self.refuse_taken_back(log);
            };
            self.accept(log, found, self.lock.is_some())?;
        }
    }

    /// Takes over a frame that was found; `keeps`: what refs held stays for the snapshots of this process.
    pub(super) fn accept(&self, log: &mut LogWriter, found: FoundFrame, keeps: bool) -> Result<(), Error> {
        self.sync.note_durable(found.frame.durable_end.min(log.tail.location()));
        log.tail.pass(&found);
        self.followed.store(log.tail.chain, Release);
        if let Some(named) = found.state {
            log.named = Some(named);
            self.named_at.store(log.tail.location(), Release);
        }
        if found.rows.is_empty() {
            self.publish(&log.tail);
            return Ok(());
        }
        let position = Position(log.tail.location());
        let mut done = Ok(());
        self.publish_with(&log.tail, |refs| {
            for (name, target) in found.rows {
                if !keeps {
                    refs.put(&name, target);
                    continue;
                }
                match refs.replace(&name, target) {
                    Ok(before) => before.into_iter().for_each(|before| self.pins.displaced(position, &before)),
                    // What is not known cannot be kept: this process appends and collects no more.
                    Err(error) => done = Err(self.poison.set(error.to_string())),
                }
            }
        });
        done
    }

    /// Lets readers go on by the state that frames named, if they did.
    pub(super) fn follow_state(&self, log: &mut LogWriter) -> Result<(), Error> {
        self.try_follow_state(log)?.map_or(Ok(()), Err)
    }

    /// As [`DiskState::follow_state`]; returns the error of a state whose file is not there.
    fn try_follow_state(&self, log: &mut LogWriter) -> Result<Option<Error>, Error> {
        let Some(named) = log.named else { return Ok(None) };
        if named.epoch != self.tables.epoch() {
            let Some(state) = self.read_state(named)? else {
                let gone = self.corrupt(&state_name(named.epoch), 0, "the state of the store is missing");
                return Ok(Some(gone));
            };
            self.tables.advance(state, log.tail.location());
            self.next_due(|| self.appended_from());
            self.emptied.store(true, Relaxed);
            self.tell_readers();
        }
        log.named = None;
        Ok(None)
    }

    /// Lets readers see a new tail.
    pub(super) fn publish(&self, tail: &Tail) {
        self.published.advance(tail.location(), tail.next != 0);
        self.begin_owed_reading();
    }

    /// Lets readers see a new tail, and the moves of refs that `apply` makes, in one step.
    pub(super) fn publish_with(&self, tail: &Tail, apply: impl FnOnce(&mut Refs)) {
        self.published.advance_with(tail.location(), tail.next != 0, apply);
        self.begin_owed_reading();
    }

    /// Moves from a sealed segment to the next, if that is there; one whose head the power may have taken is not, if `torn`.
    fn enter_next(&self, log: &mut LogWriter, torn: bool) -> Result<bool, Error> {
        let table = self.table();
        let number = log.tail.next;
        let found = match table.get(number) {
            Some(segment) => Some(segment.clone()),
            // Another file takes its place if it turns out to be torn, so it is not kept before it is known to go on.
            None if table.has(number) => self.segment_file(number)?.map(Arc::new),
            None => None,
        };
        let Some(segment) = found else { return Ok(false) };
        let corrupt = |reason| Err(self.corrupt(&segment.name, 0, reason));
        let Some(head) = segment.head else {
            let is_torn = torn && segment.may_be_torn().map_err(|error| self.io(&segment.name, error))?;
            return if is_torn { Ok(false) } else { Err(segment.head_error(self.header.salt)) };
        };
        let tail = &log.tail;
        if (head.seed, head.sequence, head.previous) != (tail.chain, tail.sequence, tail.segment) {
            return corrupt("the segment does not go on from the one before");
        }
        let refs = segment.read_head(self.header.salt).map_err(|error| self.io(&segment.name, error))?;
        let tabled = refs.map(|(_, refs)| self.follow_tables(refs)).transpose()?.flatten();
        let name = segment.name.clone();
        table.keep(segment).ok_or_else(|| self.corrupt(&name, 0, "too many segments"))?;
        log.tail = Tail::start(&head);
        self.followed.store(0, Release);
        self.sync.note_durable(head.durable_end);
        self.sync.note_sealed(head.previous_end);
        self.sync.note_followed(head.number);
        match tabled {
            Some(tabled) => self.publish_with(&log.tail, |refs| *refs = tabled),
            None => self.publish(&log.tail),
        }
        self.leave(&head);
        Ok(true)
    }

    /// Opens a segment of the log by its name, whether or not it is known.
    pub(super) fn segment_file(&self, number: u32) -> Result<Option<Segment>, Error> {
        let opened = Segment::open(&self.access(), number, self.lock.is_some());
        opened.map_err(|error| self.io(&segment_name(number), error))
    }

    /// Goes on in the last segment where another process has removed the one in which this process was, or the one after it: a
    /// collection does not wait for who could not say that it reads. Returns whether it was so.
    #[cold]
    fn leap(&self, log: &mut LogWriter) -> Result<bool, Error> {
        let is_there = |number: u32| {
            let name = segment_name(number);
            match self.storage.open(&name, OpenMode::Read) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
                Err(error) => Err(self.io(&name, error)),
                Ok(_) => Ok(true),
            }
        };
        let here = is_there(log.tail.segment)?;
        if here && (is_there(log.tail.next)? || !self.goes_on_behind(log.tail.next)?) {
            return Ok(false);
        }
        let start = self.find_start()?;
        if start.head.number <= log.tail.segment.max(log.tail.next) {
            if here {
                return Ok(false);
            }
            return Err(self.corrupt(&segment_name(log.tail.segment), 0, "the segment has vanished"));
        }
        let refs = self.refs_of(start.refs)?;
        self.begin_state(log, &start.head);
        log.tail = Tail::start(&start.head);
        self.followed.store(0, Release);
        self.sync.note_durable(start.known);
        self.sync.note_followed(start.head.number);
        self.publish_with(&log.tail, |published| *published = refs);
        Ok(true)
    }

    /// Whether the log has a segment with a higher number.
    fn goes_on_behind(&self, number: u32) -> Result<bool, Error> {
        let names = self.storage.list(SEGMENTS).map_err(|error| self.io(SEGMENTS, error))?;
        Ok(names.iter().filter_map(|name| segment_number(name)).any(|other| other > number))
    }

    /// Goes on in the next segment, and releases those before it that are durable.
    pub(super) fn leave(&self, next: &SegmentHead) {
        self.version.store(next.version, Relaxed);
        self.tables.note(&[next.number]);
        self.release_durable();
    }

    /// Wraps a failure at a file of the store.
    pub(super) fn io(&self, name: &str, error: io::Error) -> Error {
        Error::io(self.storage.describe(name), error)
    }

    /// Returns the error that names damage.
    pub(super) fn corrupt(&self, name: &str, offset: u64, reason: impl Into<String>) -> Error {
        Error::Corrupt { file: self.storage.describe(name), offset, oid: None, reason: reason.into() }
    }
}
