//! Locks between the threads of this process.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock. What it guards is whole after a panic too: every change is a single step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
