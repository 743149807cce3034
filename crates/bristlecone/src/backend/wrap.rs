//! Backends around backends: one that refuses changes, one that counts.

#![deny(clippy::missing_trait_methods)]

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use bristlecone_core::{Location, ObjRef, Object, Oid};

use super::{Backend, Batch, Durability, RefMove, Roots, Snapshot, SweepLimits, Swept};
use crate::{Error, pass_backend, pass_snapshot};

/// A backend that refuses every change.
#[derive(Clone, Debug)]
pub struct ReadOnly(pub Arc<dyn Backend>);

impl Backend for ReadOnly {
    fn sweep(&self, roots: &Roots<'_>, limits: &SweepLimits) -> Result<Swept, Error> {
        let _ = (roots, limits);
        Err(Error::ReadOnly)
    }

    fn append(&self, _: Batch, _: &[RefMove], _: Durability) -> Result<Location, Error> {
        Err(Error::ReadOnly)
    }

    fn append_keeping(&self, _: &mut Batch) -> Result<(), Error> {
        Err(Error::ReadOnly)
    }

    fn append_many(&self, batches: Vec<(Batch, Vec<RefMove>)>, _: Durability) -> Vec<Result<Location, Error>> {
        batches.iter().map(|_| Err(Error::ReadOnly)).collect()
    }

    fn flush(&self) -> Result<(), Error> {
        Ok(())
    }

    fn write_derived(&self, _: &str, _: &[u8]) -> Result<(), Error> {
        Err(Error::ReadOnly)
    }

    pass_backend! {
        0: name, capabilities, snapshot, read, locate, position, sweeps, get_ref, list_refs, shallow,
        promised_to, each_object, clear_caches, stats, read_derived
    }
}

/// How often a [`Counted`] backend was asked.
#[derive(Debug, Default)]
pub struct Counts {
    /// Objects read.
    pub reads: AtomicU64,
    /// Batches appended.
    pub appends: AtomicU64,
    /// Objects in them.
    pub objects: AtomicU64,
    /// Objects asked for by [`Backend::locate`]: formats ask for values that they have hashed, that of Git for trees, too.
    pub located: AtomicU64,
}

/// A backend that counts what goes through it, to prove how little that is.
#[derive(Clone, Debug)]
pub struct Counted {
    inner: Arc<dyn Backend>,
    counts: Arc<Counts>,
}

impl Counted {
    /// Wraps a backend.
    #[must_use]
    pub fn new(inner: Arc<dyn Backend>) -> Self {
        Self { inner, counts: Arc::default() }
    }

    /// Returns the counters, which go on counting.
    #[must_use]
    pub fn counts(&self) -> Arc<Counts> {
        self.counts.clone()
    }
}

impl Backend for Counted {
    fn snapshot(&self, roots: &[Oid]) -> Arc<dyn Snapshot> {
        Arc::new(CountedSnapshot { inner: self.inner.snapshot(roots), counts: self.counts.clone() })
    }

    fn read(&self, at: &ObjRef) -> Result<Option<Object<'static>>, Error> {
        self.counts.reads.fetch_add(1, Relaxed);
        self.inner.read(at)
    }

    fn locate(&self, oid: &Oid) -> Option<Location> {
        self.counts.located.fetch_add(1, Relaxed);
        self.inner.locate(oid)
    }

    fn append(&self, batch: Batch, moves: &[RefMove], durability: Durability) -> Result<Location, Error> {
        self.counts.appends.fetch_add(1, Relaxed);
        self.counts.objects.fetch_add(batch.len() as u64, Relaxed);
        self.inner.append(batch, moves, durability)
    }

    fn append_keeping(&self, batch: &mut Batch) -> Result<(), Error> {
        self.counts.appends.fetch_add(1, Relaxed);
        self.counts.objects.fetch_add(batch.len() as u64, Relaxed);
        self.inner.append_keeping(batch)
    }

    fn append_many(&self, batches: Vec<(Batch, Vec<RefMove>)>, durability: Durability) -> Vec<Result<Location, Error>> {
        self.counts.appends.fetch_add(batches.len() as u64, Relaxed);
        self.counts.objects.fetch_add(batches.iter().map(|(batch, _)| batch.len() as u64).sum(), Relaxed);
        self.inner.append_many(batches, durability)
    }

    pass_backend! {
        inner: name, capabilities, position, sweeps, sweep, get_ref, list_refs, shallow, promised_to, flush,
        each_object, clear_caches, stats, read_derived, write_derived
    }
}

/// What is read from a [`Counted`] backend.
#[derive(Debug)]
struct CountedSnapshot {
    inner: Arc<dyn Snapshot>,
    counts: Arc<Counts>,
}

impl Snapshot for CountedSnapshot {
    fn read(&self, at: &ObjRef) -> Result<Option<Object<'_>>, Error> {
        self.counts.reads.fetch_add(1, Relaxed);
        self.inner.read(at)
    }

    fn peek(&self, oid: &[u8], at: Location) -> Option<&[u8]> {
        self.inner.peek(oid, at).inspect(|_| {
            self.counts.reads.fetch_add(1, Relaxed);
        })
    }

    fn read_many(&self, at: &[ObjRef], bytes_max: usize) -> Result<Vec<Option<Object<'_>>>, Error> {
        let found = self.inner.read_many(at, bytes_max)?;
        self.counts.reads.fetch_add(found.len() as u64, Relaxed);
        Ok(found)
    }

    fn locate(&self, oid: &Oid) -> Option<Location> {
        self.counts.located.fetch_add(1, Relaxed);
        self.inner.locate(oid)
    }

    pass_snapshot! {
        inner: position, keep, refresh
    }
}
