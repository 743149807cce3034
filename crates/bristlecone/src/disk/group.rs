//! Group commit: whoever comes first leads, and writes for all who wait.
//!
//! A leader takes the store's lock, reads what other processes appended, checks each waiting append against
//! the refs in order, writes all their frames in one write, and gives the lock back. Before it syncs it hands
//! the lead on, so that the next group is written meanwhile. What is long, the checksum over the records, is
//! computed before anybody waits for it.

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering::*},
    },
    thread::{self, Thread},
};

use bristlecone_core::Location;

use super::{
    frame,
    log::{Log, Shared, lock},
};
use crate::{
    Error,
    backend::{Batch, Durability, RefMove, RefTarget},
};

/// What one append asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<'a> {
    pub(super) records: &'a [u8],
    pub(super) check: u64,
    pub(super) moves: &'a [RefMove],
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
                if self.options.background {
                    self.background.flush_soon()
                } else {
                    self.sync.owed.store(true, Release)
                }
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
        Error::TooLarge { what, bytes, bytes_max } => Error::TooLarge { what, bytes: *bytes, bytes_max: *bytes_max },
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
