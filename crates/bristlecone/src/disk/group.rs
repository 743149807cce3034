//! Group commit: the first thread that comes leads, and writes for all that wait.
//!
//! A leader takes the store's lock, reads what other processes appended, checks each waiting append against
//! the refs in order, writes all their frames in one write, and gives the lock back. Before it syncs it hands
//! the lead on, so that the next group is written meanwhile. What is long, the checksum over the records, is
//! computed before another thread waits for it.

use std::sync::atomic::{AtomicBool, Ordering::*};

use bristlecone_core::Location;

use super::{
    background::FLUSH,
    frame::{TRAILER_BYTES, word64},
    log::{DiskState, LogWriter},
    request::{AppendGroup, AppendRequest, Appended, QueuedAppend},
};
use crate::{
    Error,
    backend::{Batch, DEEPENED, Durability, RefMove},
    engine::{Entered, Lead, Waited},
    sync::lock,
};

/// Bytes that may wait to be written out where no caller asked for a sync.
const WRITE_OUT_BYTES: u64 = 4 << 20;

impl DiskState {
    /// Appends one batch, alone or with those that come at the same time.
    pub(super) fn append(&self, batch: Batch, moves: &[RefMove], durability: Durability) -> Result<Location, Error> {
        let request = AppendRequest::new(&batch, moves)?;
        let check = request.check;
        // Only a waiting thread leaves its batch; a leading one writes from where the batch is.
        let mut batch = batch;
        let entered = self.queue.enter(|| {
            let batch = std::mem::take(&mut batch);
            QueuedAppend { check, batch, moves: moves.to_vec(), durability }
        });
        match entered {
            Entered::Leads(lead) => {
                let request = AppendRequest { records: batch.bytes(), check, moves, batch: &batch };
                let mut appended = [None];
                self.write_group(&[request], &mut appended);
                drop(lead);
                let [appended] = appended;
                let (base, end) = appended.unwrap_or(Err(Error::Unanswered))?;
                self.ensure(end, durability)?;
                Ok(if batch.is_empty() { Location::NONE } else { base })
            }
            Entered::Waits(waiter) => match self.queue.wait(&waiter) {
                Waited::Answered(outcome) => outcome.flatten(),
                Waited::Leads(lead, group) => {
                    self.lead(lead, group);
                    waiter.take().flatten()
                }
            },
        }
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
            match AppendRequest::new(batch, moves) {
                Ok(request) => {
                    requests.push(request);
                    places.push(index);
                    outcomes.push(None);
                }
                Err(error) => outcomes.push(Some(Err(error))),
            }
        }
        let mut appended: Vec<Option<Appended>> = requests.iter().map(|_| None).collect();
        // A group of many does not queue: the thread that leads now finishes first.
        self.write_group(&requests, &mut appended);
        let last = appended.iter().flatten().filter_map(|appended| Some(appended.as_ref().ok()?.1)).max();
        let ensured = last.map_or(Ok(()), |end| self.ensure(end, durability));
        for (index, appended) in places.into_iter().zip(appended) {
            let base = appended.unwrap_or(Err(Error::Unanswered)).and_then(|(base, _)| match &ensured {
                Ok(()) => Ok(if appends[index].0.is_empty() { Location::NONE } else { base }),
                Err(error) => Err(error.clone()),
            });
            outcomes[index] = Some(base);
        }
        outcomes.into_iter().map(|outcome| outcome.unwrap_or(Err(Error::Unanswered))).collect()
    }

    /// Notes, before it is so, that batches bring back what retention has cut: what stands above it may have smaller generation
    /// numbers.
    pub(super) fn note_returned<'b>(&self, batches: impl IntoIterator<Item = &'b Batch>) -> Result<(), Error> {
        // Another process may have noted since what is absent.
        self.refresh()?;
        let returns = self.tables.with_current(|table| {
            let absent = &table.state.absent;
            !absent.is_empty()
                && batches.into_iter().any(|batch| batch.offsets().any(|(oid, _)| absent.contains_key(&oid)))
        });
        if !returns || self.get_ref(DEEPENED)?.is_some() {
            return Ok(());
        }
        self.append(Batch::new(), &[RefMove::deepened()], Durability::None).map(|_| ())
    }

    /// Does what an append without objects and moves asks for: its durability.
    pub(super) fn idle_append(&self, durability: Durability) -> Result<Location, Error> {
        if self.lock.is_none() {
            return Err(Error::ReadOnly);
        }
        self.poison.check()?;
        self.ensure(self.published.end(), durability)?;
        Ok(Location::NONE)
    }

    /// Does the flush that grouped appends asked for where no thread does it.
    #[inline]
    pub(super) fn flush_deferred(&self) -> Result<(), Error> {
        if self.background.flusher.take_owed(FLUSH) { self.flush_published() } else { Ok(()) }
    }

    /// Syncs all that this process knows of. Where that fails and appends wait for it, it is owed: the next one does it, or fails.
    pub(super) fn flush_published(&self) -> Result<(), Error> {
        let flushed = self.sync_to(self.published.end());
        if flushed.is_err() && self.sync.wanted.load(Relaxed) {
            self.background.flusher.owe(FLUSH);
        }
        flushed
    }

    /// Does what an append's durability asks for once it is written.
    fn ensure(&self, end: u64, durability: Durability) -> Result<(), Error> {
        if durability == Durability::None {
            self.write_out(end);
            return Ok(());
        }
        // First of all: whoever fails to sync looks at it.
        self.sync.wanted.store(true, Relaxed);
        if durability == Durability::Synced {
            return self.sync_to(end);
        }
        self.background.flusher.ask(FLUSH);
        Ok(())
    }

    /// Has appends without durability written out once they are many, so that the sync which ends a segment finds little
    /// left to do.
    #[inline]
    fn write_out(&self, end: u64) {
        let durable = self.sync.durable_end();
        let since = if durable >> 32 == end >> 32 { end - durable.min(end) } else { WRITE_OUT_BYTES };
        if since >= WRITE_OUT_BYTES && self.options.background {
            self.background.flusher.ask(FLUSH);
        }
    }

    /// Writes for all threads that wait, this one included, and answers them.
    fn lead(&self, lead: Lead<'_, QueuedAppend, Result<Location, Error>>, group: AppendGroup) {
        let requests: Vec<AppendRequest<'_>> = group.iter().map(|waiter| waiter.item().request()).collect();
        let mut appended: Vec<Option<Appended>> = group.iter().map(|_| None).collect();
        self.write_group(&requests, &mut appended);
        drop(lead);
        let mut last = 0;
        let mut later = Vec::new();
        for (waiter, appended) in group.iter().zip(appended) {
            match appended.unwrap_or(Err(Error::Unanswered)) {
                Err(error) => waiter.finish(Err(error)),
                Ok((base, end)) => {
                    let base = if waiter.item().batch.is_empty() { Location::NONE } else { base };
                    if waiter.item().durability == Durability::Synced {
                        last = last.max(end);
                        later.push((waiter, base));
                    } else {
                        waiter.finish(self.ensure(end, waiter.item().durability).map(|()| base));
                    }
                }
            }
        }
        if later.is_empty() {
            return;
        }
        let ensured = self.ensure(last, Durability::Synced);
        for (waiter, base) in later {
            waiter.finish(ensured.as_ref().map(|()| base).map_err(Error::clone));
        }
    }

    /// Writes a group under the store's lock.
    fn write_group(&self, requests: &[AppendRequest<'_>], appended: &mut [Option<Appended>]) {
        let result = self.locked(|log| {
            log.appended = true;
            self.write_frames(log, requests, appended)
        });
        if let Err(error) = result {
            for place in appended.iter_mut().filter(|place| place.is_none()) {
                *place = Some(Err(error.clone()));
            }
        }
    }

    /// Calls `work` with the store's lock held, the tail known and clean.
    ///
    /// The log is taken last, so that a thread that only reads does not wait for another process.
    pub(super) fn locked(&self, work: impl FnOnce(&mut LogWriter) -> Result<(), Error>) -> Result<(), Error> {
        let Some(store_lock) = &self.lock else { return Err(Error::ReadOnly) };
        let _gate = lock(&self.gate);
        self.poison.check()?;
        let _guard = store_lock.take()?;
        let log = &mut *lock(&self.log);
        self.catch_up(log)?;
        // From here on no other process can have committed what this one has not met.
        let _writing = WritingFlag::begin(&self.writing);
        self.followed.store(0, Release);
        // No other process writes now: what shows behind the end and is no frame was left by a process that died.
        if log.tail.next == 0 && self.shows_bytes(&*self.tail_segment(&log.tail)?, log.tail.end)? {
            self.cut_tail(log)?;
        }
        work(log)
    }
}

impl DiskState {
    /// Fails where the last frame that this process followed is not there any more: its write failed after all of it could be
    /// read, and the process that wrote it took it back. What that frame did is seen here, and nowhere else.
    pub(super) fn refuse_taken_back(&self, log: &LogWriter) -> Result<(), Error> {
        let followed = self.followed.load(Acquire);
        if followed == 0 {
            return Ok(());
        }
        let segment = self.tail_segment(&log.tail)?;
        let trailer_at = log.tail.end - TRAILER_BYTES as u64;
        let trailer = segment.bytes_at(trailer_at, TRAILER_BYTES as u64);
        let trailer = trailer.map_err(|error| self.io(&segment.name, error))?;
        if word64(&trailer, 0) == followed {
            return Ok(());
        }
        let name = self.storage.describe(&segment.name);
        Err(self
            .poison
            .set(format!("{name}: the process that wrote the last frame took it back, since its write failed")))
    }
}

/// Says while it lives that a leader of this process writes; its drop tells, also if the leader panics.
struct WritingFlag<'a>(&'a AtomicBool);

impl<'a> WritingFlag<'a> {
    fn begin(flag: &'a AtomicBool) -> Self {
        flag.store(true, Release);
        Self(flag)
    }
}

impl Drop for WritingFlag<'_> {
    fn drop(&mut self) {
        self.0.store(false, Release);
    }
}
