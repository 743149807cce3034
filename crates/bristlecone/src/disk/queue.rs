//! The queue of group commit: one leads, others wait to be answered, and the lead is never lost.
//!
//! Whoever comes while nobody leads takes the lead. Others leave an item and wait; when the lead is passed on,
//! the first of them takes it, with everything that waits by then, its own item among it. This file knows
//! nothing of commits; `tests/interleavings.rs` builds it on explored primitives.

use std::ops::Deref;

use crate::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU32, Ordering::*},
    hint,
    thread::{self, Thread},
};

/// Who leads, and those who wait.
#[derive(Debug)]
pub(super) struct Queue<T, R> {
    inner: Mutex<Inner<T, R>>,
}

#[derive(Debug)]
struct Inner<T, R> {
    leading: bool,
    waiting: Vec<Arc<Waiter<T, R>>>,
}

/// One who waits, with what it brought.
#[derive(Debug)]
pub(super) struct Waiter<T, R> {
    pub(super) item: T,
    state: AtomicU32,
    outcome: Mutex<Option<R>>,
    thread: Thread,
}

/// How one enters.
pub(super) enum Entered<'q, T, R> {
    /// Nobody led: this thread does, for itself.
    Leads(Lead<'q, T, R>),
    /// Somebody leads.
    Waits(Arc<Waiter<T, R>>),
}

/// What waiting came to.
pub(super) enum Waited<'q, T, R> {
    /// The lead was passed on: this thread leads, for all of these, itself among them.
    Leads(Lead<'q, T, R>, Group<T, R>),
    /// Somebody answered; `None` if the leader forgot to.
    Answered(Option<R>),
}

/// Those for whom a leader writes. Whoever is not answered when it is dropped, because the leader panicked, learns that.
pub(super) struct Group<T, R>(Vec<Arc<Waiter<T, R>>>);

/// The lead, passed on when dropped.
pub(super) struct Lead<'q, T, R>(&'q Queue<T, R>);

const WAITING: u32 = 0;
const LEADS: u32 = 1;
const DONE: u32 = 2;
/// How often a waiter looks before it sleeps: about as long as a write takes.
const SPINS: u32 = 200;

impl<T, R> Default for Queue<T, R> {
    fn default() -> Self {
        Self { inner: Mutex::new(Inner { leading: false, waiting: Vec::new() }) }
    }
}

impl<T, R> Queue<T, R> {
    /// Takes the lead, or leaves what `item` makes and waits its turn.
    pub(super) fn enter(&self, item: impl FnOnce() -> T) -> Entered<'_, T, R> {
        let mut inner = lock(&self.inner);
        if !inner.leading {
            inner.leading = true;
            return Entered::Leads(Lead(self));
        }
        let waiter = Arc::new(Waiter {
            item: item(),
            state: AtomicU32::new(WAITING),
            outcome: Mutex::new(None),
            thread: thread::current(),
        });
        inner.waiting.push(waiter.clone());
        Entered::Waits(waiter)
    }

    /// Waits until somebody answers or the lead comes here. The thread that entered calls it, once.
    pub(super) fn wait(&self, waiter: &Waiter<T, R>) -> Waited<'_, T, R> {
        if waiter.wait() == DONE {
            return Waited::Answered(waiter.take());
        }
        let group = std::mem::take(&mut lock(&self.inner).waiting);
        Waited::Leads(Lead(self), Group(group))
    }
}

impl<T, R> Deref for Group<T, R> {
    type Target = [Arc<Waiter<T, R>>];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<T, R> Drop for Group<T, R> {
    fn drop(&mut self) {
        self.0.iter().for_each(|waiter| waiter.leave());
    }
}

impl<T, R> Drop for Lead<'_, T, R> {
    fn drop(&mut self) {
        let mut inner = lock(&self.0.inner);
        match inner.waiting.first() {
            Some(next) => next.set(LEADS),
            None => inner.leading = false,
        }
    }
}

impl<T, R> Waiter<T, R> {
    /// Answers.
    pub(super) fn finish(&self, outcome: R) {
        *lock(&self.outcome) = Some(outcome);
        self.set(DONE);
    }

    /// Lets the thread go on without an answer, unless it has one.
    fn leave(&self) {
        if self.state.load(Acquire) != DONE {
            self.set(DONE);
        }
    }

    /// Returns the answer, if there is one.
    pub(super) fn take(&self) -> Option<R> {
        lock(&self.outcome).take()
    }

    fn wait(&self) -> u32 {
        for _ in 0..SPINS {
            let state = self.state.load(Acquire);
            if state != WAITING {
                return state;
            }
            hint::spin_loop();
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
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
