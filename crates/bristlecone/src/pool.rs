//! The rayon pool that the calling thread belongs to, if it belongs to one.

/// Whether the calling thread belongs to a pool.
pub(crate) fn is_here() -> bool {
    rayon::current_thread_index().is_some()
}

/// Does some work that waits in the pool, and returns whether there was any.
pub(crate) fn help() -> bool {
    rayon::yield_now() == Some(rayon::Yield::Executed)
}

/// Calls both, and returns what both return. Another thread of the pool may call `other`, whose argument says whether that
/// is so, at the same time; else it is called after `one`.
pub(crate) fn join<A: Send, B: Send>(one: impl FnOnce() -> A + Send, other: impl FnOnce(bool) -> B + Send) -> (A, B) {
    rayon::join_context(|_| one(), |context| other(context.migrated()))
}
