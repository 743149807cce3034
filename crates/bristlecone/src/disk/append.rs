//! Appending: whoever comes first leads, and writes for all who wait.
//!
//! A leader takes the store's lock, reads what other processes appended, checks each waiting append against
//! the refs in order, writes all their frames in one write, and gives the lock back. Before it syncs it hands
//! the lead on, so that the next group is written meanwhile. What is long, the checksum over the records, is
//! computed before anybody waits for it.

use std::{
    collections::HashMap,
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering::*},
    },
    thread::{self, Thread},
};

use bristlecone_core::Location;
use smallvec::SmallVec;

use super::{
    frame::{self, EMPTY_BYTES, Frame, FrameKind, HEAD_BYTES, put_ref, ref_bytes},
    log::{Log, Shared, Tail, lock, read_lock, write_lock},
    roll::RESERVED_BYTES,
    segment::{CHUNK_BYTES, Segment},
};
use crate::{
    Error,
    backend::{Batch, Durability, RefMove, RefTarget, check_moves},
    storage::{StorageFile, write_all_at},
};

/// Records from this length on are written from where they are, not copied into the buffer first: two
/// more system calls cost less.
const DIRECT_BYTES: usize = 64 << 10;
/// The buffer is written before it grows beyond this.
const BUFFER_BYTES: usize = 4 << 20;

/// What one append asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<'a> {
    records: &'a [u8],
    check: u64,
    moves: &'a [RefMove],
}

/// Where an append landed: its first byte, and the location behind its frame.
pub(super) type Landed = Result<(Location, u64), Error>;

impl<'a> Request<'a> {
    /// Returns a request, its records checksummed.
    pub(super) fn new(records: &'a [u8], moves: &'a [RefMove]) -> Result<Self, Error> {
        let (bytes, bytes_max) = (records.len() as u64, Batch::BYTES_MAX as u64);
        if bytes > bytes_max {
            return Err(Error::TooLarge { what: "a batch", bytes, bytes_max });
        }
        for wanted in moves {
            if let Some(RefTarget::Symbolic(name)) = &wanted.to
                && name.len() > RefMove::NAME_BYTES_MAX
            {
                return Err(Error::RefName { name: name.clone() });
            }
        }
        Ok(Self { records, check: frame::records_check(records), moves })
    }
}

/// Those who wait.
#[derive(Debug, Default)]
pub(super) struct Queue {
    leading: bool,
    waiting: Vec<Arc<Waiter>>,
}

#[derive(Debug)]
struct Waiter {
    batch: Batch,
    check: u64,
    moves: Vec<RefMove>,
    durability: Durability,
    state: AtomicU32,
    outcome: Mutex<Option<Result<Location, Error>>>,
    thread: Thread,
}

const WAITING: u32 = 0;
const LEADS: u32 = 1;
const DONE: u32 = 2;
/// How often a waiter looks before it sleeps: about as long as a write takes.
const SPINS: u32 = 200;

impl Waiter {
    fn wait(&self) -> u32 {
        for _ in 0..SPINS {
            let state = self.state.load(Acquire);
            if state != WAITING {
                return state;
            }
            std::hint::spin_loop();
        }
        loop {
            let state = self.state.load(Acquire);
            if state != WAITING {
                return state;
            }
            thread::park();
        }
    }

    fn set(&self, state: u32) {
        self.state.store(state, Release);
        self.thread.unpark();
    }

    fn finish(&self, outcome: Result<Location, Error>) {
        *lock(&self.outcome) = Some(outcome);
        self.set(DONE);
    }

    fn request(&self) -> Request<'_> {
        Request { records: self.batch.bytes(), check: self.check, moves: &self.moves }
    }
}

/// The lead, passed on when dropped.
struct Lead<'a>(&'a Shared);

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        self.0.pass_on();
    }
}

impl Shared {
    /// Appends one batch, alone or with those who come at the same time.
    pub(super) fn append(&self, batch: Batch, moves: &[RefMove], durability: Durability) -> Result<Location, Error> {
        let request = Request::new(batch.bytes(), moves)?;
        let mut queue = lock(&self.queue);
        if !queue.leading {
            queue.leading = true;
            drop(queue);
            let mut landed = [None];
            let lead = Lead(self);
            self.write_group(&[request], &mut landed);
            drop(lead);
            let [landed] = landed;
            let (base, end) = landed.unwrap_or_else(|| Err(unanswered()))?;
            self.settle(end, durability)?;
            return Ok(if batch.is_empty() { Location::NONE } else { base });
        }
        let waiter = Arc::new(Waiter {
            check: request.check,
            batch,
            moves: moves.to_vec(),
            durability,
            state: AtomicU32::new(WAITING),
            outcome: Mutex::new(None),
            thread: thread::current(),
        });
        queue.waiting.push(waiter.clone());
        drop(queue);
        if waiter.wait() == LEADS {
            self.lead();
        }
        lock(&waiter.outcome).take().unwrap_or_else(|| Err(unanswered()))
    }

    /// Appends many batches in one go; they share writes and a sync.
    pub(super) fn append_all(
        &self,
        appends: &[(Batch, Vec<RefMove>)],
        durability: Durability,
    ) -> Vec<Result<Location, Error>> {
        let mut outcomes: Vec<Option<Result<Location, Error>>> = Vec::with_capacity(appends.len());
        let mut requests = Vec::with_capacity(appends.len());
        let mut places = Vec::with_capacity(appends.len());
        for (index, (batch, moves)) in appends.iter().enumerate() {
            match Request::new(batch.bytes(), moves) {
                Ok(request) => {
                    requests.push(request);
                    places.push(index);
                    outcomes.push(None);
                }
                Err(error) => outcomes.push(Some(Err(error))),
            }
        }
        let mut landed: Vec<Option<Landed>> = requests.iter().map(|_| None).collect();
        // A group of many does not queue: whoever leads now finishes first.
        self.write_group(&requests, &mut landed);
        let last = landed.iter().flatten().filter_map(|landed| Some(landed.as_ref().ok()?.1)).max();
        let settled = last.map_or(Ok(()), |end| self.settle(end, durability));
        for (index, landed) in places.into_iter().zip(landed) {
            let base = landed.unwrap_or_else(|| Err(unanswered())).and_then(|(base, _)| match &settled {
                Ok(()) => Ok(if appends[index].0.is_empty() { Location::NONE } else { base }),
                Err(error) => Err(again(error)),
            });
            outcomes[index] = Some(base);
        }
        outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(|| Err(unanswered()))).collect()
    }

    /// Does what an append without objects and moves asks for: its durability.
    pub(super) fn idle_append(&self, durability: Durability) -> Result<Location, Error> {
        if self.lock.is_none() {
            return Err(Error::ReadOnly);
        }
        self.poisoned()?;
        self.settle(self.end.load(Acquire), durability)?;
        Ok(Location::NONE)
    }

    /// Syncs what grouped appends are owed where no thread does.
    #[inline]
    pub(super) fn pay_owed(&self) -> Result<(), Error> {
        if self.sync.owed.load(Relaxed) && self.sync.owed.swap(false, AcqRel) {
            self.sync_to(self.end.load(Acquire))?;
        }
        Ok(())
    }

    /// Does what an append's durability asks for once it is written.
    fn settle(&self, end: u64, durability: Durability) -> Result<(), Error> {
        match durability {
            Durability::None => return Ok(()),
            Durability::Grouped => {
                if self.options.background { self.background.flush_soon() } else { self.sync.owed.store(true, Release) }
            }
            Durability::Synced => self.sync_to(end)?,
        }
        self.sync.wanted.store(true, Relaxed);
        Ok(())
    }

    /// Writes for everybody who waits, this thread among them, and answers them.
    fn lead(&self) {
        let group = std::mem::take(&mut lock(&self.queue).waiting);
        let requests: Vec<Request<'_>> = group.iter().map(|waiter| waiter.request()).collect();
        let mut landed: Vec<Option<Landed>> = group.iter().map(|_| None).collect();
        let lead = Lead(self);
        self.write_group(&requests, &mut landed);
        drop(lead);
        let mut last = 0;
        let mut later = Vec::new();
        for (waiter, landed) in group.iter().zip(landed) {
            match landed.unwrap_or_else(|| Err(unanswered())) {
                Err(error) => waiter.finish(Err(error)),
                Ok((base, end)) => {
                    let base = if waiter.batch.is_empty() { Location::NONE } else { base };
                    if waiter.durability == Durability::Synced {
                        last = last.max(end);
                        later.push((waiter, base));
                    } else {
                        waiter.finish(self.settle(end, waiter.durability).map(|()| base));
                    }
                }
            }
        }
        if later.is_empty() {
            return;
        }
        let settled = self.settle(last, Durability::Synced);
        for (waiter, base) in later {
            waiter.finish(settled.as_ref().map(|()| base).map_err(again));
        }
    }

    /// Lets the first of those who wait lead, or nobody.
    fn pass_on(&self) {
        let mut queue = lock(&self.queue);
        match queue.waiting.first() {
            Some(next) => next.set(LEADS),
            None => queue.leading = false,
        }
    }

    /// Writes a group under the store's lock.
    fn write_group(&self, requests: &[Request<'_>], landed: &mut [Option<Landed>]) {
        let result = self.locked(|log| {
            log.appended = true;
            self.write_frames(log, requests, landed)
        });
        if let Err(error) = result {
            for place in landed.iter_mut().filter(|place| place.is_none()) {
                *place = Some(Err(again(&error)));
            }
        }
    }

    /// Calls `work` with the store's lock held, the tail known and clean.
    ///
    /// The log is taken last, so that whoever only reads does not wait for another process.
    pub(super) fn locked(&self, work: impl FnOnce(&mut Log) -> Result<(), Error>) -> Result<(), Error> {
        let Some(store_lock) = &self.lock else { return Err(Error::ReadOnly) };
        let _gate = lock(&self.gate);
        self.poisoned()?;
        let _guard = store_lock.take()?;
        let log = &mut *lock(&self.log);
        self.catch_up(log)?;
        // Nobody else writes now: what shows behind the end and is no frame was left by somebody who died.
        if log.tail.next == 0 && self.shows_bytes(self.tail_segment(&log.tail)?, log.tail.end)? {
            self.cut_tail(log)?;
        }
        self.writing.store(true, Release);
        let result = work(log);
        self.writing.store(false, Release);
        result
    }

    fn write_frames<'a>(
        &self,
        log: &mut Log,
        requests: &[Request<'a>],
        landed: &mut [Option<Landed>],
    ) -> Result<(), Error> {
        let mut run = Run::new(&log.tail);
        log.buffer.clear();
        for (index, request) in requests.iter().enumerate() {
            if let Err(error) = self.check_moves(&run, request) {
                landed[index] = Some(Err(error));
                continue;
            }
            let payload_bytes = payload_bytes(request.moves);
            let bytes = EMPTY_BYTES + request.records.len() as u64 + payload_bytes as u64;
            let mut segment = self.tail_segment(&log.tail)?;
            if run.tail.next != 0 || run.tail.end + bytes + RESERVED_BYTES > segment.bytes {
                self.write_run(log, &mut run, segment, landed)?;
                match self.roll(log, bytes) {
                    // Only this one is too large; others may fit.
                    Err(error @ Error::TooLarge { .. }) => {
                        landed[index] = Some(Err(error));
                        continue;
                    }
                    other => other?,
                }
                run = Run::new(&log.tail);
                segment = self.tail_segment(&log.tail)?;
            }
            let direct = request.records.len() >= DIRECT_BYTES;
            if direct || log.buffer.len() + bytes as usize > BUFFER_BYTES {
                self.write_run(log, &mut run, segment, landed)?;
            }
            self.put_frame(log, &mut run, index, request, payload_bytes, direct);
            if requests.len() > 1 {
                let planned = run.frames.last().map_or(&[][..], |planned| &planned.targets);
                run.overlay.extend(request.moves.iter().map(|wanted| &*wanted.name).zip(planned.iter().cloned()));
            }
            if direct {
                self.write_direct(log, &mut run, segment, request, landed)?;
            }
        }
        let segment = self.tail_segment(&log.tail)?;
        self.write_run(log, &mut run, segment, landed)
    }

    /// Checks an append against the refs as those before it in the group leave them.
    fn check_moves(&self, run: &Run<'_>, request: &Request<'_>) -> Result<(), Error> {
        if request.moves.is_empty() {
            return Ok(());
        }
        let refs = read_lock(&self.refs);
        check_moves(request.moves, |name| match run.overlay.get(name) {
            Some(target) => target.as_ref(),
            None => refs.get(name),
        })
    }

    /// Adds a frame to the run; `direct`: its records are left out of the buffer.
    fn put_frame<'a>(
        &self,
        log: &mut Log,
        run: &mut Run<'a>,
        index: usize,
        request: &Request<'a>,
        payload_bytes: usize,
        direct: bool,
    ) {
        let head = Frame {
            kind: FrameKind::Batch,
            sequence: run.tail.sequence,
            durable_end: self.sync.durable_end(),
            previous: run.tail.chain,
            nonce: self.nonce,
            record_bytes: request.records.len() as u32,
            payload_bytes: payload_bytes as u32,
            records_check: request.check,
        };
        let location = run.tail.location();
        let base = Location(location + HEAD_BYTES as u64);
        let bytes = head.encode(location, self.header.salt);
        let out = &mut log.buffer;
        out.extend_from_slice(&bytes);
        if !direct {
            out.extend_from_slice(request.records);
        }
        let payload_at = out.len();
        let targets: Targets = request.moves.iter().map(|wanted| wanted.resolved(base)).collect();
        for (wanted, target) in request.moves.iter().zip(&targets) {
            put_ref(out, &wanted.name, target.as_ref());
        }
        out.resize(payload_at + payload_bytes, 0);
        let trailer = frame::trailer(&bytes, &out[payload_at..]);
        out.extend_from_slice(&trailer.to_le_bytes());
        run.tail.pass_frame(&head, trailer);
        run.frames.push(Planned { index, base, moves: request.moves, targets, after: run.tail });
    }

    /// Writes the frames of a run in one write, and lets them count.
    ///
    /// Frames that reached the file whole before a failure count; the rest is zeroed.
    fn write_run(
        &self,
        log: &mut Log,
        run: &mut Run<'_>,
        segment: &Segment,
        landed: &mut [Option<Landed>],
    ) -> Result<(), Error> {
        if run.frames.is_empty() {
            return Ok(());
        }
        let start = log.tail.end;
        let (written, error) = write_counted(&*segment.file, &log.buffer, start);
        let whole = run.frames.iter().take_while(|planned| planned.after.end <= start + written).count();
        let end = start + log.buffer.len() as u64;
        self.finish_run(log, run, whole, landed);
        match error {
            None => Ok(()),
            Some(error) => {
                let error = self.io(&segment.name, error);
                Err(self.neutralise(segment, log.tail.end, end, &error).unwrap_or(error))
            }
        }
    }

    /// Writes the one frame of a run around records that are not in the buffer; its head comes last.
    fn write_direct(
        &self,
        log: &mut Log,
        run: &mut Run<'_>,
        segment: &Segment,
        request: &Request<'_>,
        landed: &mut [Option<Landed>],
    ) -> Result<(), Error> {
        let start = log.tail.end;
        let records_at = start + HEAD_BYTES as u64;
        let (head, rest) = log.buffer.split_at(HEAD_BYTES);
        let result = write_all_at(&*segment.file, request.records, records_at)
            .and_then(|()| write_all_at(&*segment.file, rest, records_at + request.records.len() as u64))
            .and_then(|()| write_all_at(&*segment.file, head, start));
        match result {
            Ok(()) => {
                self.counters.bytes_written.fetch_add(request.records.len() as u64, Relaxed);
                self.finish_run(log, run, 1, landed);
                Ok(())
            }
            Err(error) => {
                let error = self.io(&segment.name, error);
                Err(self.neutralise(segment, start, run.tail.end, &error).unwrap_or(error))
            }
        }
    }

    /// Lets the first `whole` frames of the run count, and forgets the others.
    fn finish_run(&self, log: &mut Log, run: &mut Run<'_>, whole: usize, landed: &mut [Option<Landed>]) {
        self.counters.writes.fetch_add(1, Relaxed);
        self.counters.batches.fetch_add(whole as u64, Relaxed);
        self.counters.bytes_written.fetch_add(log.buffer.len() as u64, Relaxed);
        let moved = run.frames[..whole].iter().any(|planned| !planned.targets.is_empty());
        let mut refs = moved.then(|| write_lock(&self.refs));
        for planned in run.frames.drain(..).take(whole) {
            if let Some(refs) = &mut refs {
                for (wanted, target) in planned.moves.iter().zip(planned.targets) {
                    match (target, refs.get_mut(&wanted.name)) {
                        (Some(target), Some(place)) => *place = target,
                        (Some(target), None) => _ = refs.insert(wanted.name.clone(), target),
                        (None, _) => _ = refs.remove(&wanted.name),
                    }
                }
            }
            landed[planned.index] = Some(Ok((planned.base, planned.after.location())));
            log.tail = planned.after;
        }
        drop(refs);
        self.publish(&log.tail);
        log.buffer.clear();
        run.tail = log.tail;
    }

    /// Puts zeroes where a write failed, so that nothing of it can ever count, and syncs them.
    ///
    /// Returns an error of its own, after which nothing more is written, if that fails too.
    pub(super) fn neutralise(&self, segment: &Segment, from: u64, to: u64, why: &Error) -> Option<Error> {
        let reason = || format!("{why}");
        if zero_shown(segment, from, to).is_err() {
            return Some(self.poison_with(reason()));
        }
        self.counters.syncs.fetch_add(1, Relaxed);
        segment.file.sync_data().is_err().then(|| self.poison_with(reason()))
    }
}

/// Zeroes every stretch of the range that is not zero; returns whether there was one.
pub(super) fn zero_shown(segment: &Segment, from: u64, to: u64) -> io::Result<bool> {
    let (mut at, mut shown, mut buffer) = (from, false, Vec::new());
    while at < to.min(segment.bytes) {
        let chunk = segment.window(at, CHUNK_BYTES.min(to - at), &mut buffer)?;
        let bytes = chunk.len();
        let first = chunk.iter().position(|&byte| byte != 0);
        if let Some(first) = first {
            let last = chunk.iter().rposition(|&byte| byte != 0).unwrap_or(first);
            write_all_at(&*segment.file, &vec![0; last + 1 - first], at + first as u64)?;
            shown = true;
        }
        at += bytes as u64;
    }
    Ok(shown)
}

/// Writes all of `bytes`, and returns how many were written for sure and why not all.
fn write_counted(file: &dyn StorageFile, bytes: &[u8], offset: u64) -> (u64, Option<io::Error>) {
    let mut written = 0;
    while written < bytes.len() {
        match file.write_at(&bytes[written..], offset + written as u64) {
            Ok(0) => return (written as u64, Some(io::ErrorKind::WriteZero.into())),
            Ok(count) => written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (written as u64, Some(error)),
        }
    }
    (written as u64, None)
}

/// What moved refs hold, in the order of the moves.
type Targets = SmallVec<[Option<RefTarget>; 1]>;

/// Frames that are written together.
#[derive(Debug)]
struct Run<'a> {
    /// Where the log ends once they are written.
    tail: Tail,
    frames: Vec<Planned<'a>>,
    /// What refs hold by then, as far as they move.
    overlay: HashMap<&'a str, Option<RefTarget>>,
}

#[derive(Debug)]
struct Planned<'a> {
    /// Which of the group's requests it is.
    index: usize,
    base: Location,
    moves: &'a [RefMove],
    targets: Targets,
    after: Tail,
}

impl Run<'_> {
    fn new(tail: &Tail) -> Self {
        Self { tail: *tail, frames: Vec::new(), overlay: HashMap::new() }
    }
}

fn payload_bytes(moves: &[RefMove]) -> usize {
    moves.iter().map(|wanted| ref_bytes(&wanted.name, wanted.to.as_ref())).sum::<usize>().next_multiple_of(8)
}

/// Repeats an error to another one of a group.
pub(super) fn again(error: &Error) -> Error {
    match error {
        Error::NoSpace { file } => Error::NoSpace { file: file.clone() },
        Error::Poisoned { reason } => Error::Poisoned { reason: reason.clone() },
        Error::ReadOnly => Error::ReadOnly,
        Error::Locked { file, holder, waited_ms } => {
            Error::Locked { file: file.clone(), holder: holder.clone(), waited_ms: *waited_ms }
        }
        Error::Corrupt { file, offset, oid, reason } => {
            Error::Corrupt { file: file.clone(), offset: *offset, oid: *oid, reason: reason.clone() }
        }
        Error::TooLarge { what, bytes, bytes_max } => {
            Error::TooLarge { what, bytes: *bytes, bytes_max: *bytes_max }
        }
        Error::Io { file, source } => {
            Error::Io { file: file.clone(), source: io::Error::new(source.kind(), source.to_string()) }
        }
        other => Error::Io { file: String::new(), source: io::Error::other(other.to_string()) },
    }
}

/// The error of a request that its leader forgot, which none does.
fn unanswered() -> Error {
    Error::Io { file: String::new(), source: io::Error::other("an append was not answered") }
}
