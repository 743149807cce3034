//! The queue of group commit: one thread leads and writes for all that wait, and the lead is never lost.
//!
//! A thread that comes while no other leads takes the lead. Others leave an item and wait. When the lead is passed on, the
//! first of them takes it, with everything that waits by then, its own item among it. The queue knows nothing of
//! commits. `tests/interleavings.rs` builds this file on explored primitives.

use std::ops::Deref;

use crate::{
    Error,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU32, Ordering::*},
        hint, lock,
        thread::{self, Thread},
    },
};

/// The queue of appends: items of type `T`, each answered by an `R`.
///
/// [`Queue::run`] is what most backends need. One that passes the lead on before it syncs, or whose leader writes
/// from where its data lies, calls [`Queue::enter`] and [`Queue::wait`].
#[derive(Debug)]
pub struct Queue<T, R> {
    inner: Mutex<QueueInner<T, R>>,
}

#[derive(Debug)]
struct QueueInner<T, R> {
    leading: bool,
    waiting: Vec<Arc<Waiter<T, R>>>,
}

/// A thread that waits, with the item that it left.
#[derive(Debug)]
pub struct Waiter<T, R> {
    item: T,
    state: AtomicU32,
    answer: Mutex<Option<R>>,
    thread: Thread,
}

/// How a thread entered the queue.
#[derive(Debug)]
pub enum Entered<'q, T, R> {
    /// No thread led: this one does, for itself.
    Leads(Lead<'q, T, R>),
    /// Another thread leads.
    Waits(Arc<Waiter<T, R>>),
}

/// How waiting ended.
#[derive(Debug)]
pub enum Waited<'q, T, R> {
    /// The lead was passed on: this thread leads, for all of these, itself among them.
    Leads(Lead<'q, T, R>, Group<T, R>),
    /// A leader answered, or ended without an answer: [`Error::Unanswered`].
    Answered(Result<R, Error>),
}

/// The waiting threads for which a leader writes, in the order in which they came. Those without an answer get
/// [`Error::Unanswered`] when it is dropped: their leader panicked.
#[derive(Debug)]
pub struct Group<T, R>(Vec<Arc<Waiter<T, R>>>);

/// The lead. It is passed on when dropped.
#[derive(Debug)]
pub struct Lead<'q, T, R>(&'q Queue<T, R>);

const WAITING: u32 = 0;
const LEADS: u32 = 1;
const DONE: u32 = 2;
/// How often a waiter looks before it sleeps: about as long as a write takes.
const SPINS: u32 = 200;

impl<T, R> Default for Queue<T, R> {
    fn default() -> Self {
        Self { inner: Mutex::new(QueueInner { leading: false, waiting: Vec::new() }) }
    }
}

impl<T, R> Queue<T, R> {
    /// Has `item` written and returns its answer: by `write`, called on this thread, or by another thread that leads.
    ///
    /// `write` gets one item or more, in the order in which they came, and returns an answer for each. It is called by
    /// one thread at a time.
    ///
    /// # Errors
    /// [`Error::Unanswered`] if the thread that led panicked, or returned too few answers.
    pub fn run(&self, item: T, write: impl FnOnce(&[&T]) -> Vec<R>) -> Result<R, Error> {
        let waiter = match self.try_lead() {
            Ok(lead) => {
                let answer = write(&[&item]).pop();
                drop(lead);
                return answer.ok_or(Error::Unanswered);
            }
            Err(inner) => leave(inner, item),
        };
        match self.wait(&waiter) {
            Waited::Answered(answer) => answer,
            Waited::Leads(lead, group) => {
                let answers = write(&group.iter().map(|waiter| waiter.item()).collect::<Vec<_>>());
                drop(lead);
                group.iter().zip(answers).for_each(|(waiter, answer)| waiter.finish(answer));
                waiter.take()
            }
        }
    }

    /// Takes the lead, or leaves what `item` makes and has to [`wait`](Queue::wait).
    pub fn enter(&self, item: impl FnOnce() -> T) -> Entered<'_, T, R> {
        match self.try_lead() {
            Ok(lead) => Entered::Leads(lead),
            Err(inner) => Entered::Waits(leave(inner, item())),
        }
    }

    /// Waits until a leader answers or the lead comes here. The thread that entered calls it, once.
    pub fn wait(&self, waiter: &Waiter<T, R>) -> Waited<'_, T, R> {
        if waiter.wait() == DONE {
            return Waited::Answered(waiter.take());
        }
        let group = std::mem::take(&mut lock(&self.inner).waiting);
        Waited::Leads(Lead(self), Group(group))
    }

    /// Takes the lead if no thread has it; else returns the place where an item is left, still locked.
    #[inline]
    fn try_lead(&self) -> Result<Lead<'_, T, R>, MutexGuard<'_, QueueInner<T, R>>> {
        let mut inner = lock(&self.inner);
        if inner.leading {
            return Err(inner);
        }
        inner.leading = true;
        Ok(Lead(self))
    }
}

/// Leaves an item to be written by the next leader.
fn leave<T, R>(mut inner: MutexGuard<'_, QueueInner<T, R>>, item: T) -> Arc<Waiter<T, R>> {
    let (state, answer) = (AtomicU32::new(WAITING), Mutex::new(None));
    let waiter = Arc::new(Waiter { item, state, answer, thread: thread::current() });
    inner.waiting.push(waiter.clone());
    waiter
}

impl<T, R> Deref for Group<T, R> {
    type Target = [Arc<Waiter<T, R>>];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<T, R> Drop for Group<T, R> {
    fn drop(&mut self) {
        self.0.iter().for_each(|waiter| waiter.release());
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
    /// Returns what was left.
    pub fn item(&self) -> &T {
        &self.item
    }

    /// Answers, once.
    pub fn finish(&self, answer: R) {
        *lock(&self.answer) = Some(answer);
        self.set(DONE);
    }

    /// Takes the answer.
    ///
    /// # Errors
    /// [`Error::Unanswered`] if there is no answer.
    pub fn take(&self) -> Result<R, Error> {
        lock(&self.answer).take().ok_or(Error::Unanswered)
    }

    /// Lets the thread go on without an answer, unless it has one.
    fn release(&self) {
        if self.state.load(Acquire) != DONE {
            self.set(DONE);
        }
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

#[cfg(test)]
impl<T, R> Queue<T, R> {
    /// Returns how many wait.
    pub(super) fn waiting_count(&self) -> usize {
        lock(&self.inner).waiting.len()
    }
}
