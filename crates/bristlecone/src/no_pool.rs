//! What stands for [`pool`](crate::pool) without the feature `rayon`: no thread belongs to a pool.

/// Whether the calling thread belongs to a pool.
pub(crate) const fn is_here() -> bool {
    false
}

/// Does some work that waits in the pool, and returns whether there was any.
pub(crate) const fn help() -> bool {
    false
}

/// Calls `work`; there is no pool to call it in.
pub(crate) fn within<R: Send>(_: usize, work: impl FnOnce() -> R + Send) -> R {
    work()
}

/// Calls both, one after the other, and returns what both return. The argument of `other` says that no other thread calls
/// it.
pub(crate) fn join<A: Send, B: Send>(one: impl FnOnce() -> A + Send, other: impl FnOnce(bool) -> B + Send) -> (A, B) {
    (one(), other(false))
}
