//! A budget of bytes that threads take from and give back to.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Bounds the bytes that are in memory at a time.
pub(super) struct Budget {
    bytes: u64,
    state: Mutex<State>,
    given: Condvar,
}

#[derive(Default)]
struct State {
    taken: u64,
    // The work was given up: no thread waits any more.
    open: bool,
}

impl Budget {
    pub(super) fn new(bytes: u64) -> Self {
        Self { bytes, state: Mutex::default(), given: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes these bytes if they are free, and returns how many to give back. What is larger than the
    /// budget needs all of it.
    pub(super) fn try_take(&self, bytes: u64) -> Option<u64> {
        let bytes = bytes.min(self.bytes);
        let mut state = self.state();
        if !state.open && state.taken.saturating_add(bytes) > self.bytes {
            return None;
        }
        state.taken += bytes;
        Some(bytes)
    }

    /// As [`Budget::try_take`], waiting until they are free. A thread that waits must hold none that only it
    /// themselves can give back.
    pub(super) fn take(&self, bytes: u64) -> u64 {
        let bytes = bytes.min(self.bytes);
        let mut state = self.state();
        while !state.open && state.taken.saturating_add(bytes) > self.bytes {
            state = self.given.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.taken += bytes;
        bytes
    }

    /// Gives back what was taken.
    pub(super) fn give(&self, bytes: u64) {
        if bytes > 0 {
            self.state().taken -= bytes;
            self.given.notify_all();
        }
    }

    /// Lets everybody through: the work is given up.
    pub(super) fn open(&self) {
        self.state().open = true;
        self.given.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_larger_than_the_budget_takes_all_of_it() {
        let budget = Budget::new(10);
        assert_eq!(budget.try_take(4), Some(4));
        assert_eq!(budget.try_take(7), None);
        assert_eq!(budget.try_take(100), None);
        budget.give(4);
        assert_eq!(budget.take(100), 10);
        budget.open();
        assert_eq!(budget.take(1), 1);
    }
}
