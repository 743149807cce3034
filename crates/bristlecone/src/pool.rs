//! The rayon pool that the calling thread belongs to, if it belongs to one; and pools of our own.

use std::{
    collections::BTreeMap,
    num::NonZero,
    process,
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use rayon::{ThreadPool, ThreadPoolBuilder};

/// Pools of our own, by the number of their process and of their threads. They are made when they are needed, and stay. A
/// process that was forked has no threads of those that it finds here, and makes its own.
static OWN: Mutex<BTreeMap<(u32, usize), Arc<ThreadPool>>> = Mutex::new(BTreeMap::new());

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

/// Calls `work` in a pool: that of the calling thread; if it belongs to none, one of our own of so many threads, 0 for as many
/// as the machine has. Where that makes one thread, or there can be no pool, the calling thread does the work itself.
pub(crate) fn within<R: Send>(threads: usize, work: impl FnOnce() -> R + Send) -> R {
    if is_here() {
        return work();
    }
    match own(threads) {
        Some(pool) => pool.install(work),
        None => work(),
    }
}

fn own(threads: usize) -> Option<Arc<ThreadPool>> {
    let threads = if threads == 0 { thread::available_parallelism().map_or(1, NonZero::get) } else { threads };
    if threads == 1 {
        return None;
    }
    let wanted = (process::id(), threads);
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(pool) = own.get(&wanted) {
        return Some(pool.clone());
    }
    let named = ThreadPoolBuilder::new().num_threads(threads).thread_name(|number| format!("bristlecone-{number}"));
    let pool = Arc::new(named.build().ok()?);
    own.insert(wanted, pool.clone());
    Some(pool)
}
