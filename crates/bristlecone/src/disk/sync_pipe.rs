//! Which thread syncs, and how far the log is durable.

use std::sync::{
    Condvar, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*},
};

use crate::{Error, engine::Poison, sync::lock};

/// Whether a thread syncs, and how far everything is known to be durable.
#[derive(Debug, Default)]
pub(super) struct SyncPipe {
    // Whether a thread is syncing.
    busy: Mutex<bool>,
    done: Condvar,
    // Held by the thread that syncs a segment.
    one: Mutex<()>,
    // The location up to which everything is durable.
    durable_end: AtomicU64,
    // This process has made the names of the segments up to this one durable; 0: not even the header's.
    named: AtomicU32,
    /// Whether a caller asked for durability since the segment began: then the next one is worth zeroing.
    pub(super) wanted: AtomicBool,
}

impl SyncPipe {
    /// Returns the location up to which everything is known to be durable.
    pub(super) fn durable_end(&self) -> u64 {
        self.durable_end.load(Acquire)
    }

    /// Notes that everything up to a location is durable.
    pub(super) fn note_durable(&self, end: u64) {
        self.durable_end.fetch_max(end, AcqRel);
    }

    /// Returns the number up to which segments are known to have durable names.
    pub(super) fn named(&self) -> u32 {
        self.named.load(Acquire)
    }

    /// Notes that the names of segments up to this one are durable.
    pub(super) fn note_named(&self, number: u32) {
        self.named.fetch_max(number, AcqRel);
    }

    /// Waits until everything up to `end` is durable, or until no thread syncs: then the caller does, while it holds what is
    /// returned.
    pub(super) fn wait(&self, end: u64, poison: &Poison) -> Result<Option<Busy<'_>>, Error> {
        let mut busy = lock(&self.busy);
        loop {
            if self.durable_end() >= end {
                return Ok(None);
            }
            poison.check()?;
            if !*busy {
                *busy = true;
                return Ok(Some(Busy(self)));
            }
            busy = self.done.wait(busy).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets one thread sync a segment at a time.
    pub(super) fn one(&self) -> MutexGuard<'_, ()> {
        lock(&self.one)
    }
}

/// Says while it lives that a thread syncs. Its drop wakes the threads that wait, also after a panic.
pub(super) struct Busy<'a>(&'a SyncPipe);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        *lock(&self.0.busy) = false;
        self.0.done.notify_all();
    }
}
