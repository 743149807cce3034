//! What readers see of the log: the refs, and where it ends.
//!
//! A ref leads into the log, so a reader must never see a ref before the end that covers its object: a thread that looks
//! the object up by its id searches no further than that end. Both are therefore published in one step, while the lock
//! on the refs is held. This file knows nothing of frames; `tests/interleavings.rs` builds it on explored primitives.

use crate::sync::{
    PoisonError, RwLock, RwLockReadGuard,
    atomic::{AtomicBool, AtomicU64, Ordering::*},
};

/// The refs `R`, and where the log ends.
#[derive(Debug, Default)]
pub(super) struct Published<R> {
    refs: RwLock<R>,
    // The location of the end, and whether the segment there is sealed.
    end: AtomicU64,
    sealed: AtomicBool,
}

impl<R> Published<R> {
    /// Lets readers see the moves of refs that `apply` makes, and the end of the log that covers what they lead to.
    pub(super) fn advance_with(&self, end: u64, sealed: bool, apply: impl FnOnce(&mut R)) {
        let mut refs = self.refs.write().unwrap_or_else(PoisonError::into_inner);
        apply(&mut refs);
        // Before the lock is released: the next reader of these refs finds the end that goes with them.
        self.advance(end, sealed);
        drop(refs);
    }

    /// Lets readers see a new end of the log, where no ref moved.
    pub(super) fn advance(&self, end: u64, sealed: bool) {
        self.sealed.store(sealed, Release);
        self.end.store(end, Release);
    }

    /// Returns the refs.
    pub(super) fn refs(&self) -> RwLockReadGuard<'_, R> {
        self.refs.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the location of the log's end.
    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.end.load(Acquire)
    }

    /// Returns whether the segment in which the log ends is sealed.
    pub(super) fn is_sealed(&self) -> bool {
        self.sealed.load(Acquire)
    }
}
