//! Lists of what a process has open.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bristlecone::storage::Origin;

/// How many processes, each forked from the one before, have a list of their own. One that comes later shares that of the first.
const LISTS: usize = 64;

/// A list for each process of a line in which one was forked from the other.
///
/// A process that is forked while a thread of its parent holds the lock of the parent's list finds that lock held for ever, and has
/// no use for what is on the list.
pub(crate) struct PerProcess<T>([Mutex<Vec<T>>; LISTS]);

impl<T> PerProcess<T> {
    pub(crate) const fn new() -> Self {
        Self([const { Mutex::new(Vec::new()) }; LISTS])
    }

    /// Locks the list of this process. It may have items of another process, of which this one was forked.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        self.lock_of(Origin::here().forks())
    }

    fn lock_of(&self, forks: u32) -> MutexGuard<'_, Vec<T>> {
        self.0[forks as usize % LISTS].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_was_forked_while_the_list_was_locked_has_another_one() {
        let lists = PerProcess::new();
        let mut held = lists.lock_of(0);
        held.push("open");
        assert!(lists.lock_of(1).is_empty());
        drop(held);
        assert_eq!(*lists.lock_of(LISTS as u32), ["open"]);
    }
}
