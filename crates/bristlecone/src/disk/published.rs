//! What readers see of the log: the refs, and where it ends.
//!
//! A ref leads into the log, so a reader must never see a ref before the end that covers its object: a thread that looks
//! the object up by its id searches no further than that end. Both are therefore published in one step, while the lock
//! on the refs is held. This file knows nothing of frames; `tests/interleavings.rs` builds it on explored primitives.

use crate::sync::{
    PoisonError, RwLock, RwLockReadGuard,
    atomic::{AtomicU64, Ordering::*},
};

/// The refs `R`, and where the log ends.
#[derive(Debug, Default)]
pub(super) struct Published<R> {
    refs: RwLock<R>,
    // The location of the end, and in the highest bit, which no location has, whether the segment there is sealed: in one word, so
    // that nobody takes the end of one segment for that of another.
    end: AtomicU64,
}

const SEALED: u64 = 1 << 63;

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
        debug_assert_eq!(end & SEALED, 0);
        self.end.store(if sealed { end | SEALED } else { end }, Release);
    }

    /// Returns the refs.
    pub(super) fn refs(&self) -> RwLockReadGuard<'_, R> {
        self.refs.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the location of the log's end.
    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.end.load(Acquire) & !SEALED
    }

    /// Returns the location of the log's end, unless the segment there is sealed.
    pub(super) fn open_end(&self) -> Option<u64> {
        let end = self.end.load(Acquire);
        (end & SEALED == 0).then_some(end)
    }
}
