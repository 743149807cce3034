//! A store whose objects are read ahead of work that does not know of it.

use std::{
    ops::Deref,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use bristlecone_core::{AHEAD_BYTES_MAX, Format, Kind, Location, ObjRef, Object, Prefetch, Source, Task, lent};

use crate::{Error, Result, store::StoreView};

/// Where the store lends no object, it is taken from what was read ahead, or read with what tasks lack.
#[derive(Debug)]
pub(crate) struct Prefetched<R, T: Task> {
    store: R,
    ahead: Mutex<Prefetch<T>>,
    // An object was not lent, and no task lacked it.
    far: AtomicBool,
}

impl<F: Format, R: Deref<Target = StoreView<F>>, T: Task> Prefetched<R, T> {
    /// Reads nothing yet.
    pub(crate) fn new(store: R, tasks: Option<T::Below>) -> Self {
        Self { store, ahead: Mutex::new(Prefetch::new(tasks)), far: AtomicBool::new(false) }
    }

    /// Whether an object was not lent that no task lacked.
    #[inline]
    pub(crate) fn is_far(&self) -> bool {
        self.far.load(Relaxed)
    }

    /// Adds tasks that are done before all others.
    pub(crate) fn expect(&self, tasks: T::Below) {
        self.ahead().expect(tasks);
    }

    /// Has these tasks in place of all others, if an object was not lent, since this was asked last, that no task lacked.
    #[inline]
    pub(crate) fn expect_anew(&self, tasks: impl FnOnce() -> T::Below) {
        if self.is_far() {
            self.far.store(false, Relaxed);
            self.ahead().expect_anew(tasks());
        }
    }

    /// Returns an object that is lent or was read ahead.
    pub(crate) fn get(&self, kind: Kind, at: &ObjRef) -> Option<Object<'_>> {
        lent(&*self.store, kind, at).or_else(|| self.ahead().get(kind, at))
    }

    fn ahead(&self) -> MutexGuard<'_, Prefetch<T>> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cold]
    fn read_ahead(&self, wanted: &[(Kind, ObjRef)], bytes_max: usize) -> Result<Vec<Object<'static>>> {
        let mut ahead = self.ahead();
        let objects = ahead.read_many(&*self.store, wanted, bytes_max);
        if !ahead.has_foreseen() {
            self.far.store(true, Relaxed);
        }
        objects
    }
}

impl<F: Format, R: Deref<Target = StoreView<F>>, T: Task> Source for Prefetched<R, T> {
    type Error = Error;

    #[inline]
    fn peek(&self, oid: &[u8], at: Location) -> Option<&[u8]> {
        self.store.peek(oid, at)
    }

    #[inline]
    fn read<'a>(&'a self, kind: Kind, at: &ObjRef) -> Result<Object<'a>> {
        if let Some(object) = lent(&*self.store, kind, at) {
            return Ok(object);
        }
        match self.read_ahead(&[(kind, *at)], AHEAD_BYTES_MAX)?.pop() {
            Some(object) => Ok(object),
            None => self.store.read(kind, at),
        }
    }

    fn read_many<'a>(&'a self, wanted: &[(Kind, ObjRef)], bytes_max: usize) -> Result<Vec<Object<'a>>> {
        self.read_ahead(wanted, bytes_max)
    }
}
