//! A file's lock that a busy process keeps between two uses.
//!
//! Taking a lock and giving it back are two calls of the system, which is a few per cent of a small commit. A lock that
//! guards nothing by itself may be held for longer than it is needed: a process that has used it twice within
//! [`BUSY_MS`] and met nobody else keeps it. It gives the lock back when it sees another process, or, by a worker,
//! [`KEPT_MS`] after it was used last.

use std::{
    sync::{
        Arc,
        atomic::{
            AtomicU8, AtomicU64,
            Ordering::{Relaxed, SeqCst},
        },
    },
    thread,
    time::Duration,
};

use super::coarse_ms;
use crate::{
    engine::Worker,
    storage::{Origin, StorageFile},
};

/// Two uses within this many milliseconds make a busy process.
const BUSY_MS: u64 = 10;
/// How many milliseconds the lock is kept without a use.
const KEPT_MS: u64 = 5;
/// For this many milliseconds after another process was met the lock is not kept.
const LONG_MS: u64 = 1000;

/// The lock is not held.
const FREE: u8 = 0;
/// It is held and in use, or is just being given back.
const USED: u8 = 1;
/// It is held and not in use.
const KEPT: u8 = 2;

/// A file whose lock is kept. One thread of the process uses it at a time.
#[derive(Debug)]
pub(super) struct KeptLock {
    file: Arc<dyn StorageFile>,
    origin: Origin,
    state: AtomicU8,
    used_ms: AtomicU64,
    met_ms: AtomicU64,
    worker: Worker<Self, 1>,
}

impl KeptLock {
    pub(super) fn new(file: Arc<dyn StorageFile>) -> Arc<Self> {
        let pause = Duration::from_millis(KEPT_MS);
        let worker = Worker::new("cone-lock", true, [pause], |kept: &Self, _| kept.look());
        let (origin, state) = (Origin::here(), AtomicU8::new(FREE));
        let kept = Self { file, origin, state, used_ms: AtomicU64::new(0), met_ms: AtomicU64::new(0), worker };
        let kept = Arc::new(kept);
        kept.worker.serve(&kept);
        kept
    }

    pub(super) fn file(&self) -> &Arc<dyn StorageFile> {
        &self.file
    }

    /// Goes on to use the lock if it was kept, and returns whether it was.
    pub(super) fn take_kept(&self) -> bool {
        loop {
            match self.state.compare_exchange(KEPT, USED, SeqCst, SeqCst) {
                Ok(_) => return true,
                Err(FREE) => return false,
                // The thread is giving it back.
                Err(_) => thread::yield_now(),
            }
        }
    }

    /// Says that the caller has locked the file.
    pub(super) fn taken(&self) {
        self.state.store(USED, SeqCst);
    }

    /// Says that another process uses the store: the lock is given back, and not kept for a while.
    pub(super) fn share(&self) {
        self.met_ms.store(coarse_ms(), Relaxed);
        self.give_back();
    }

    /// Ends a use. If it `may_keep` the lock, a busy process does.
    pub(super) fn let_go(&self, may_keep: bool) {
        let now = coarse_ms();
        let since = now.saturating_sub(self.used_ms.swap(now, Relaxed));
        let met = self.met_ms.load(Relaxed);
        let alone = met == 0 || now.saturating_sub(met) > LONG_MS;
        self.state.store(KEPT, SeqCst);
        if !(may_keep && alone && since <= BUSY_MS && self.worker.ask(0)) {
            self.give_back();
        }
    }

    /// Gives the lock back if it is held and not in use. One that cannot be given back ends with the handle.
    pub(super) fn give_back(&self) {
        if self.state.compare_exchange(KEPT, USED, SeqCst, SeqCst).is_ok() {
            let _ = self.file.unlock();
            self.state.store(FREE, SeqCst);
        }
    }

    /// Gives the lock back unless it was used lately. What the worker does.
    fn look(&self) {
        if coarse_ms().saturating_sub(self.used_ms.load(Relaxed)) >= KEPT_MS {
            self.give_back();
        } else {
            self.worker.ask(0);
        }
    }
}

impl Drop for KeptLock {
    fn drop(&mut self) {
        // A forked child has a copy of the handle, and the lock is not its own.
        if self.origin.is_here() {
            self.give_back();
        }
    }
}
