//! The queue of group commit: one leads and writes for all who wait.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bristlecone::{Batch, Durability, Error, RefMove, Result};

/// One append: its objects and the move of its ref.
pub(super) type Append = (Batch, Vec<RefMove>);

/// What one caller brought: appends that are acknowledged together.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) appends: Vec<Append>,
    pub(super) durability: Durability,
}

/// Who leads, and those who wait.
#[derive(Debug, Default)]
pub(super) struct Queue {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    leading: bool,
    waiting: Vec<Arc<Waiter>>,
}

#[derive(Debug)]
struct Waiter {
    item: Item,
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug)]
enum State {
    Waits,
    Leads,
    Done(Vec<Result<()>>),
}

impl Queue {
    /// Has an item written by `write`, which gets one item or more and answers each append of each: here, or by another
    /// thread that leads.
    pub(super) fn run(&self, item: Item, write: impl FnOnce(&[&Item]) -> Vec<Vec<Result<()>>>) -> Vec<Result<()>> {
        let waiter = {
            let mut inner = lock(&self.inner);
            if !inner.leading {
                inner.leading = true;
                drop(inner);
                let lead = Lead(self);
                let outcome = write(&[&item]).pop().unwrap_or_default();
                drop(lead);
                return outcome;
            }
            let waiter = Arc::new(Waiter { item, state: Mutex::new(State::Waits), wake: Condvar::new() });
            inner.waiting.push(waiter.clone());
            waiter
        };
        let mut state = lock(&waiter.state);
        loop {
            match std::mem::replace(&mut *state, State::Waits) {
                State::Waits => state = waiter.wake.wait(state).unwrap_or_else(PoisonError::into_inner),
                State::Done(outcome) => return outcome,
                State::Leads => break,
            }
        }
        drop(state);
        self.lead(&waiter, write)
    }

    /// Writes for everybody who waits, this thread first.
    fn lead(&self, own: &Arc<Waiter>, write: impl FnOnce(&[&Item]) -> Vec<Vec<Result<()>>>) -> Vec<Result<()>> {
        let lead = Lead(self);
        let group = Group(std::mem::take(&mut lock(&self.inner).waiting));
        let items: Vec<&Item> = group.0.iter().map(|waiter| &waiter.item).collect();
        let outcomes = write(&items);
        drop(lead);
        let mut result = Vec::new();
        for (waiter, outcome) in group.0.iter().zip(outcomes) {
            if Arc::ptr_eq(waiter, own) {
                result = outcome;
            } else {
                waiter.set(State::Done(outcome));
            }
        }
        result
    }
}

/// The lead, passed on when dropped.
struct Lead<'q>(&'q Queue);

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let mut inner = lock(&self.0.inner);
        match inner.waiting.first() {
            Some(next) => next.set(State::Leads),
            None => inner.leading = false,
        }
    }
}

/// Those whom one leads; whoever is not answered in the end learns that much.
struct Group(Vec<Arc<Waiter>>);

impl Drop for Group {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let lost = || Err(Error::Poisoned { reason: "the thread that was writing has panicked".to_owned() });
            for waiter in &self.0 {
                waiter.set(State::Done(waiter.item.appends.iter().map(|_| lost()).collect()));
            }
        }
    }
}

impl Waiter {
    fn set(&self, state: State) {
        *lock(&self.state) = state;
        self.wake.notify_one();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
