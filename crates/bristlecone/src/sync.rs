//! The primitives that lock-free parts are built on, in one place, so that `tests/interleavings.rs` can build
//! the same files on primitives whose every interleaving is explored.

pub(crate) use std::{
    hint,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, Weak, atomic},
    thread,
};
