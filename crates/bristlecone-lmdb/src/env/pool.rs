//! The transactions that read, kept to be used again: a reset transaction keeps its place in the table of readers, and
//! costs a few stores to renew.
//!
//! A thread claims a place with one exchange, waits for no other thread, and gives it back with one store. A resize of the
//! map claims them all.

use std::{
    array,
    cell::Cell,
    ptr::{self, NonNull},
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering::*},
    },
    thread,
    time::{Duration, Instant},
};

use lmdb_master_sys as ffi;

use super::lock;

/// How many transactions of a process read at a time. A thread that finds no place waits for one.
const PLACES: usize = 64;

/// The places of an environment.
pub(super) struct ReaderPool {
    places: [Place; PLACES],
    /// Set while the map is resized, by the thread that holds `resize`.
    resizing: AtomicBool,
    resize: Mutex<()>,
}

/// Null: free, without a transaction; [`claimed`]; or a transaction that was reset. On a cache line of its own.
#[repr(align(128))]
struct Place(AtomicPtr<ffi::MDB_txn>);

/// Returns the mark of a place that a thread has: the address of no transaction.
const fn claimed() -> *mut ffi::MDB_txn {
    ptr::without_provenance_mut(1)
}

/// Returns the place where this thread looks first.
fn own_place() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    OWN.with(|own| {
        if own.get() == usize::MAX {
            own.set(NEXT.fetch_add(1, Relaxed) % PLACES);
        }
        own.get()
    })
}

impl Default for ReaderPool {
    fn default() -> Self {
        let places = array::from_fn(|_| Place(AtomicPtr::new(ptr::null_mut())));
        Self { places, resizing: AtomicBool::new(false), resize: Mutex::new(()) }
    }
}

impl ReaderPool {
    /// Claims a place. As long as it is held the map stays.
    #[inline]
    pub(super) fn claim(&self) -> Claim<'_> {
        let own = own_place();
        loop {
            for step in 0..PLACES {
                let place = &self.places[(own + step) % PLACES].0;
                let held = place.load(Relaxed);
                if held == claimed() || place.compare_exchange(held, claimed(), SeqCst, Relaxed).is_err() {
                    continue;
                }
                // A resize sets the mark first and looks at the places then: one of the two sees the other.
                if !self.resizing.load(SeqCst) {
                    return Claim { place, txn: NonNull::new(held) };
                }
                place.store(held, SeqCst);
                drop(lock(&self.resize));
                break;
            }
            thread::yield_now();
        }
    }

    /// Keeps threads from claiming places, once none is claimed; `None` if some still are when the time has come.
    pub(super) fn idle(&self, until: Instant) -> Option<Idle<'_>> {
        let guard = lock(&self.resize);
        self.resizing.store(true, SeqCst);
        let idle = Idle { pool: self, _guard: guard };
        while self.places.iter().any(|place| place.0.load(SeqCst) == claimed()) {
            if Instant::now() >= until {
                return None;
            }
            thread::sleep(Duration::from_micros(50));
        }
        Some(idle)
    }

    /// Whether a thread waits until no place is claimed, or has seen to it.
    pub(super) fn is_resizing(&self) -> bool {
        self.resizing.load(SeqCst)
    }

    /// Ends every transaction. No place is claimed, and none will be.
    pub(super) fn close(&self) {
        for place in &self.places {
            let held = place.0.swap(ptr::null_mut(), SeqCst);
            if !held.is_null() && held != claimed() {
                // SAFETY: what a free place holds is a transaction that was reset, and only there.
                unsafe { ffi::mdb_txn_abort(held) };
            }
        }
    }
}

/// A place that a thread has, with the transaction that it found there or put there.
pub(super) struct Claim<'p> {
    place: &'p AtomicPtr<ffi::MDB_txn>,
    /// Reset, when the place is given back.
    pub(super) txn: Option<NonNull<ffi::MDB_txn>>,
}

impl Drop for Claim<'_> {
    #[inline]
    fn drop(&mut self) {
        self.place.store(self.txn.map_or(ptr::null_mut(), NonNull::as_ptr), SeqCst);
    }
}

/// As long as it is held no thread reads.
pub(super) struct Idle<'p> {
    pool: &'p ReaderPool,
    _guard: MutexGuard<'p, ()>,
}

impl Drop for Idle<'_> {
    fn drop(&mut self) {
        self.pool.resizing.store(false, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(20);

    #[test]
    fn all_places_can_be_claimed_and_the_next_thread_waits_for_one() {
        let pool = ReaderPool::default();
        let mut claims: Vec<Claim<'_>> = (0..PLACES).map(|_| pool.claim()).collect();
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                drop(pool.claim());
                done.store(true, SeqCst);
            });
            thread::sleep(SOON);
            assert!(!done.load(SeqCst), "there was no place");
            claims.pop();
        });
        assert!(done.load(SeqCst));
    }

    #[test]
    fn a_resize_and_a_reader_keep_each_other_out() {
        let pool = ReaderPool::default();
        let claim = pool.claim();
        assert!(pool.idle(Instant::now() + SOON).is_none(), "a thread reads");
        drop(pool.claim());
        drop(claim);
        let idle = pool.idle(Instant::now()).expect("no thread reads");
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                drop(pool.claim());
                done.store(true, SeqCst);
            });
            thread::sleep(SOON);
            assert!(!done.load(SeqCst), "the map is being resized");
            drop(idle);
        });
        assert!(done.load(SeqCst));
    }
}
