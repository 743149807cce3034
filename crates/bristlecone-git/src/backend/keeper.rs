//! The thread beside appends: it syncs what grouped appends are owed, folds packs, and removes files that are
//! no longer needed.

use std::{
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, Ordering::*},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use super::shared::{Shared, lock};

/// How long files that are no longer needed wait to be removed.
const TIDY_PAUSE: Duration = Duration::from_secs(1);

/// When so many files are no longer needed, the thread removes them; whoever appends, too, when there are more than that.
const LEFT_SOON: usize = 16;
const LEFT_MAX: usize = 256;

/// Work for the thread.
#[derive(Debug, Default)]
pub(super) struct Keeper {
    jobs: Mutex<Jobs>,
    wake: Condvar,
    /// Whether there is something to do, so that the thread is needed.
    wanted: AtomicBool,
    pub(super) stop: AtomicBool,
}

#[derive(Debug, Default)]
struct Jobs {
    thread: Option<JoinHandle<()>>,
    flush_since: Option<Instant>,
    fold: bool,
    tidy_since: Option<Instant>,
}

impl Keeper {
    /// Asks for a sync soon.
    pub(super) fn flush_soon(&self) {
        let mut jobs = lock(&self.jobs);
        if jobs.flush_since.is_none() {
            jobs.flush_since = Some(Instant::now());
            self.wanted.store(true, Release);
            self.wake.notify_one();
        }
    }

    /// Asks for a look at whether packs should be folded.
    pub(super) fn fold_soon(&self) {
        let mut jobs = lock(&self.jobs);
        if !jobs.fold {
            jobs.fold = true;
            self.wanted.store(true, Release);
            self.wake.notify_one();
        }
    }

    /// Asks for files to be removed that are no longer needed, in a while.
    pub(super) fn tidy_soon(&self) {
        let mut jobs = lock(&self.jobs);
        if jobs.tidy_since.is_none() {
            jobs.tidy_since = Some(Instant::now());
            self.wanted.store(true, Release);
            self.wake.notify_one();
        }
    }
}

impl Shared {
    /// Sees after an append that the thread runs if it is needed.
    pub(super) fn tend(self: &Arc<Self>) {
        if !self.options.background || !self.keeper.wanted.load(Acquire) {
            return;
        }
        let mut jobs = lock(&self.keeper.jobs);
        if jobs.thread.is_none() {
            let shared = self.clone();
            jobs.thread = thread::Builder::new().name("cone-git".to_owned()).spawn(move || shared.keep()).ok();
        }
    }

    /// Sees to files that are no longer needed: they are removed when it is quiet, since whoever makes files waits for
    /// whoever removes some, or while there are many. What cannot be removed is tried again by a later opening.
    pub(super) fn tend_left(&self) {
        match self.refs.left_files() {
            left if left > LEFT_MAX || !self.options.background => _ = self.refs.remove_left(2),
            left if left >= LEFT_SOON => self.keeper.tidy_soon(),
            _ => {}
        }
    }

    fn keep(&self) {
        let keeper = &self.keeper;
        // Half of what was promised: the other half is for the sync.
        let pause = Duration::from_millis(self.options.grouped_ms.div_ceil(2));
        let mut jobs = lock(&keeper.jobs);
        while !keeper.stop.load(Acquire) {
            let due = jobs.flush_since.map(|since| pause.saturating_sub(since.elapsed()));
            let tidy = jobs.tidy_since.map(|since| TIDY_PAUSE.saturating_sub(since.elapsed()));
            if due == Some(Duration::ZERO) {
                jobs.flush_since = None;
                drop(jobs);
                // After a failed sync the next append says so. A lock that is held is tried again.
                if self.flush().is_err() && !self.poison.is_set() {
                    keeper.flush_soon();
                }
            } else if jobs.fold && due.is_none() {
                jobs.fold = false;
                drop(jobs);
                self.fold_some();
            } else if tidy == Some(Duration::ZERO) && due.is_none() {
                jobs.tidy_since = None;
                drop(jobs);
                let _ = self.refs.remove_left(usize::MAX);
            } else {
                let left = due.or(tidy).unwrap_or(Duration::from_secs(3600));
                let waited = keeper.wake.wait_timeout(jobs, left);
                jobs = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
                continue;
            }
            jobs = lock(&keeper.jobs);
        }
    }

    /// Ends the thread and waits for it.
    pub(super) fn stop_keeper(&self) {
        let keeper = &self.keeper;
        keeper.stop.store(true, Release);
        let thread = {
            let mut jobs = lock(&keeper.jobs);
            (jobs.flush_since, jobs.fold, jobs.tidy_since) = (None, false, None);
            jobs.thread.take()
        };
        keeper.wake.notify_all();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
        // Whoever goes on after a close gets a new thread.
        keeper.stop.store(false, Release);
        keeper.wanted.store(false, Release);
    }
}
