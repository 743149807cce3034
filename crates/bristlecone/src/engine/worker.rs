//! A thread that works beside the calls of a backend: syncs for grouped commits, indexes, folding.
//!
//! The thread is started when there is first something to do, and ends when it is stopped or its owner is dropped. What
//! it does must not be needed for anything to be right. `tests/interleavings.rs` builds this file on explored primitives.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

use crate::{
    storage::Origin,
    sync::{
        Arc, Condvar, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, Ordering::*},
        lock,
        thread::{self, JoinHandle},
    },
};

/// A thread with `JOBS` jobs, numbered from 0, that it does for an owner of type `O`.
///
/// A job that is asked for again before it was begun is done once. A job that is asked for while it is being done is done
/// again. Jobs come in the order of their numbers: one waits while one before it is asked for, also if that one is not due.
#[derive(Debug)]
pub struct Worker<O, const JOBS: usize> {
    inner: Arc<WorkerInner<O, JOBS>>,
}

#[derive(Debug)]
struct WorkerInner<O, const JOBS: usize> {
    name: &'static str,
    delays: [Duration; JOBS],
    /// Whether there may be a thread at all.
    enabled: bool,
    origin: Origin,
    work: fn(&O, usize),
    /// Which jobs are asked for and not begun.
    asked: [AtomicBool; JOBS],
    /// Which jobs were asked for and are left to the callers.
    owed: [AtomicBool; JOBS],
    stopping: AtomicBool,
    /// Held by the caller that stops the thread.
    stops: Mutex<()>,
    state: Mutex<WorkerState<O, JOBS>>,
    wake: Condvar,
}

#[derive(Debug)]
struct WorkerState<O, const JOBS: usize> {
    owner: Option<Weak<O>>,
    thread: Option<JoinHandle<()>>,
    /// Whether there is to be no thread any more.
    finished: bool,
    /// When each job was asked for.
    since: [Option<Instant>; JOBS],
}

impl<O: Send + Sync + 'static, const JOBS: usize> Worker<O, JOBS> {
    /// Returns a worker that has no thread yet.
    ///
    /// `name`: the thread's. `enabled`: without, no thread is ever started. `delays`: how long each job waits after it is
    /// asked for. `work` does a job; one that panics is over.
    pub fn new(name: &'static str, enabled: bool, delays: [Duration; JOBS], work: fn(&O, usize)) -> Self {
        let state = WorkerState { owner: None, thread: None, finished: false, since: [None; JOBS] };
        let inner = WorkerInner {
            name,
            delays,
            enabled,
            origin: Origin::here(),
            work,
            asked: [const { AtomicBool::new(false) }; JOBS],
            owed: [const { AtomicBool::new(false) }; JOBS],
            stopping: AtomicBool::new(false),
            stops: Mutex::new(()),
            state: Mutex::new(state),
            wake: Condvar::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Names the owner, which has the worker as a part of it. What was asked for before begins now.
    pub fn serve(&self, owner: &Arc<O>) {
        let mut state = lock(&self.inner.state);
        state.owner = Some(Arc::downgrade(owner));
        self.inner.start(&mut state);
    }

    /// Asks for a job. What the caller did before it asked is seen by the job.
    ///
    /// Returns whether a thread will do it. Without threads, in a process that was forked, and where the system has no
    /// thread to give, the job is owed: see [`Worker::take_owed`].
    #[inline]
    pub fn ask(&self, job: usize) -> bool {
        let inner = &self.inner;
        let asked = inner.enabled && (inner.asked[job].swap(true, SeqCst) || inner.begin(job));
        if !asked {
            self.owe(job);
        }
        asked
    }

    /// Leaves a job to the callers: see [`Worker::take_owed`]. One that could not be done, for example.
    #[inline]
    pub fn owe(&self, job: usize) {
        self.inner.owed[job].store(true, Release);
    }

    /// Returns whether a job is owed that no thread will do, and takes it: a backend does it at its next call.
    #[inline]
    pub fn take_owed(&self, job: usize) -> bool {
        self.inner.owed[job].load(Relaxed) && self.inner.owed[job].swap(false, AcqRel)
    }

    /// Whether a job is owed that no thread will do.
    #[inline]
    #[must_use]
    pub fn is_owed(&self, job: usize) -> bool {
        self.inner.owed[job].load(Relaxed)
    }

    /// Does a job for a caller, by `work`. If it was owed and fails, it is owed again: the next call does it, or fails.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn settle<T, E>(&self, job: usize, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        // Taken first: what is asked for meanwhile is not done by this.
        let is_owed = self.take_owed(job);
        let done = work();
        if is_owed && done.is_err() {
            self.owe(job);
        }
        done
    }

    /// Whether the thread is being stopped: a long job ends early then.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.inner.stopping.load(SeqCst)
    }

    /// Ends the thread and waits for it. Jobs that were asked for and not begun are owed from then on: the caller does them
    /// where that matters. A later request for a job gets a new thread.
    pub fn stop(&self) {
        let inner = &self.inner;
        if !inner.origin.is_here() {
            return;
        }
        let _one = lock(&inner.stops);
        inner.end();
        let mut state = lock(&inner.state);
        inner.stopping.store(state.finished, SeqCst);
        inner.start(&mut state);
    }

    /// As [`Worker::stop`], but no later request gets a thread. One that was just started would have the owner for a moment longer
    /// than whoever lets go of it.
    pub fn finish(&self) {
        if self.inner.origin.is_here() {
            lock(&self.inner.state).finished = true;
            self.stop();
        }
    }
}

impl<O, const JOBS: usize> Drop for Worker<O, JOBS> {
    fn drop(&mut self) {
        // A forked child has the handle, and no thread.
        if self.inner.origin.is_here() {
            self.inner.end();
        }
    }
}

impl<O: Send + Sync + 'static, const JOBS: usize> WorkerInner<O, JOBS> {
    /// Has a job begin that was just asked for.
    #[cold]
    fn begin(self: &Arc<Self>, job: usize) -> bool {
        // Another thread may have held the lock when this process was forked.
        if !self.origin.is_here() {
            self.asked[job].store(false, SeqCst);
            return false;
        }
        let mut state = lock(&self.state);
        state.since[job] = Some(Instant::now());
        let starts = self.start(&mut state);
        self.wake.notify_one();
        starts
    }

    /// Starts the thread if it is needed and may run; returns whether one will do what is asked for.
    fn start(self: &Arc<Self>, state: &mut WorkerState<O, JOBS>) -> bool {
        if state.finished {
            self.forget(state);
            return false;
        }
        // The caller that names the owner, or stops the thread, calls this again.
        let idle = state.since.iter().all(Option::is_none);
        if idle || state.owner.is_none() || state.thread.is_some() || self.stopping.load(SeqCst) {
            return true;
        }
        let inner = self.clone();
        state.thread = thread::Builder::new().name(self.name.to_owned()).spawn(move || inner.run()).ok();
        if state.thread.is_none() {
            self.forget(state);
        }
        state.thread.is_some()
    }

    /// The thread: does what is asked for until it is stopped or its owner is gone.
    fn run(&self) {
        let mut state = lock(&self.state);
        while !self.stopping.load(SeqCst) {
            let left = |job: usize| Some((job, self.delays[job].saturating_sub(state.since[job]?.elapsed())));
            state = match (0..JOBS).find_map(left) {
                None => self.wake.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some((job, Duration::ZERO)) => {
                    state.since[job] = None;
                    let owner = state.owner.as_ref().and_then(Weak::upgrade);
                    drop(state);
                    // A caller that asked before this wrote before this; one that asks after it asks for another run.
                    self.asked[job].swap(false, SeqCst);
                    let Some(owner) = owner else { return };
                    let _ = catch_unwind(AssertUnwindSafe(|| (self.work)(&owner, job)));
                    // It may be the last to have it, and end the thread that this is.
                    drop(owner);
                    lock(&self.state)
                }
                Some((_, left)) => self.wake.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }
}

impl<O, const JOBS: usize> WorkerInner<O, JOBS> {
    /// Ends the thread, and waits for it unless it is this one.
    fn end(&self) {
        self.stopping.store(true, SeqCst);
        let thread = {
            let mut state = lock(&self.state);
            self.forget(&mut state);
            state.thread.take()
        };
        self.wake.notify_all();
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != thread::current().id()) {
            let _ = thread.join();
        }
    }

    /// Leaves what is asked for to the callers.
    fn forget(&self, state: &mut WorkerState<O, JOBS>) {
        state.since = [None; JOBS];
        for (asked, owed) in self.asked.iter().zip(&self.owed) {
            if asked.swap(false, SeqCst) {
                owed.store(true, Release);
            }
        }
    }
}
