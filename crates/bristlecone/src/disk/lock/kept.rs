//! A file's lock that a busy process keeps between two uses.
//!
//! Taking a lock and giving it back are two calls of the system, which is a few per cent of a small commit. A lock that
//! guards nothing by itself may be held for longer than it is needed: a process that has used it twice within
//! [`BUSY_MS`] and met nobody else keeps it. It gives the lock back when it sees another process, or, by a thread,
//! [`KEPT_MS`] after it was used last.

use std::{
    sync::{
        Arc, Weak,
        atomic::{
            AtomicBool, AtomicU8, AtomicU64,
            Ordering::{Relaxed, SeqCst},
        },
    },
    thread,
    time::Duration,
};

use super::coarse_ms;
use crate::storage::{Origin, StorageFile};

/// Two uses within so many milliseconds make a busy process.
const BUSY_MS: u64 = 10;
/// How many milliseconds the lock is kept without a use.
const KEPT_MS: u64 = 5;
/// For so many milliseconds after another process was met the lock is not kept, and after so many without a use the
/// thread ends.
const LONG_MS: u64 = 1000;

/// The lock is not held.
const FREE: u8 = 0;
/// It is held and in use, or is just being given back.
const USED: u8 = 1;
/// It is held and not in use.
const KEPT: u8 = 2;

/// A file whose lock is kept. One thread of the process uses it at a time.
#[derive(Debug)]
pub(super) struct Kept {
    file: Arc<dyn StorageFile>,
    origin: Origin,
    state: AtomicU8,
    used_ms: AtomicU64,
    met_ms: AtomicU64,
    /// Whether a thread looks after it.
    watched: AtomicBool,
}

impl Kept {
    pub(super) fn new(file: Arc<dyn StorageFile>) -> Self {
        let (state, watched) = (AtomicU8::new(FREE), AtomicBool::new(false));
        Self { file, origin: Origin::here(), state, used_ms: AtomicU64::new(0), met_ms: AtomicU64::new(0), watched }
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
    pub(super) fn let_go(self: &Arc<Self>, may_keep: bool) {
        let now = coarse_ms();
        let since = now.saturating_sub(self.used_ms.swap(now, Relaxed));
        let met = self.met_ms.load(Relaxed);
        let alone = met == 0 || now.saturating_sub(met) > LONG_MS;
        self.state.store(KEPT, SeqCst);
        if !(may_keep && alone && since <= BUSY_MS && self.is_watched()) {
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

    /// Makes a thread look after the lock, and returns whether one does.
    fn is_watched(self: &Arc<Self>) -> bool {
        if self.watched.load(SeqCst) || self.watched.swap(true, SeqCst) {
            return true;
        }
        let kept = Arc::downgrade(self);
        let made = thread::Builder::new().name("cone-lock".to_owned()).spawn(move || watch(&kept)).is_ok();
        if !made {
            self.watched.store(false, SeqCst);
        }
        made
    }
}

/// Gives a lock back that nobody has used for a while, until it is not used for long.
fn watch(kept: &Weak<Kept>) {
    loop {
        thread::sleep(Duration::from_millis(KEPT_MS));
        let Some(kept) = kept.upgrade() else { return };
        let idle = coarse_ms().saturating_sub(kept.used_ms.load(Relaxed));
        if idle >= KEPT_MS {
            kept.give_back();
        }
        if idle > LONG_MS {
            kept.watched.store(false, SeqCst);
            // Either its user sees that nobody looks after it, or this thread sees that it is kept.
            if kept.state.load(SeqCst) != KEPT || kept.watched.swap(true, SeqCst) {
                return;
            }
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // A forked child has a copy of the handle, and the lock is not its own.
        if self.origin.is_here() {
            self.give_back();
        }
    }
}
