//! Backends around backends: one that refuses changes, one that counts.

#![deny(clippy::missing_trait_methods)]

use std::sync::{Arc, atomic::Ordering::Relaxed};

use bristlecone_core::{Location, ObjRef, Object, Oid};

use super::{
    AbsentCommits, Backend, Batch, Counts, Durability, Latencies, RefMove, Retention, Roots, Snapshot, SweepLimits,
    Swept,
};
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

    fn append_keeping(&self, _: &mut Batch) -> Result<Location, Error> {
        Err(Error::ReadOnly)
    }

    fn append_many(&self, batches: Vec<(Batch, Vec<RefMove>)>, _: Durability) -> Vec<Result<Location, Error>> {
        batches.iter().map(|_| Err(Error::ReadOnly)).collect()
    }

    fn replace_retention(&self, _: Option<&Retention>, _: &Retention) -> Result<bool, Error> {
        Err(Error::ReadOnly)
    }

    fn note_absent(&self, _: &AbsentCommits) -> Result<(), Error> {
        Err(Error::ReadOnly)
    }

    fn flush(&self) -> Result<(), Error> {
        Ok(())
    }

    fn write_derived(&self, _: &str, _: &[u8]) -> Result<(), Error> {
        Err(Error::ReadOnly)
    }

    pass_backend! {
        0: name, capabilities, snapshot, read, locate, position, sweeps, sweep_due, get_ref, list_refs, shallow, absent,
        retention, promised_to, each_object, each_with_prefix, clear_caches, stats, read_derived
    }
}

/// A backend that counts what goes through it, and times it: to find out what a program asks for and what that costs, or to
/// prove how little it is.
///
/// A read costs some ten instructions more; the clock is looked at for few of them ([`Counts::read_times`]).
///
/// ```
/// use std::sync::Arc;
/// use bristlecone::{Counted, Info, MemoryBackend, Native, Repo};
///
/// let counted = Counted::new(Arc::new(MemoryBackend::new()));
/// let counts = counted.counts();
/// let main = Repo::with_backend(Native::new(), Arc::new(counted)).branch("main")?;
/// main.edit(&Info::message("first"), |tree| tree.set("fruit/plum", "blue"))?;
/// println!("{counts}");
/// # assert!(counts.to_string().contains("in 1 batches"), "{counts}");
/// # Ok::<(), bristlecone::Error>(())
/// ```
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

    /// Counts a batch with so many objects and bytes, if it was appended.
    fn count_batch(&self, (objects, bytes): (u64, u64), appended: &Result<Location, Error>) {
        if appended.is_ok() {
            self.counts.appends.fetch_add(1, Relaxed);
            self.counts.objects.fetch_add(objects, Relaxed);
            self.counts.appended_bytes.fetch_add(bytes, Relaxed);
        }
    }

    fn times(&self, durability: Durability) -> &Latencies {
        match durability {
            Durability::Synced => &self.counts.sync_times,
            Durability::None | Durability::Grouped => &self.counts.append_times,
        }
    }
}

/// Returns how many objects and bytes a batch has.
fn extent(batch: &Batch) -> (u64, u64) {
    (batch.len() as u64, batch.bytes().len() as u64)
}

/// Returns the bytes of an object that was read, if it was there.
fn found_bytes(read: &Result<Option<Object<'_>>, Error>) -> Option<u64> {
    read.as_ref().ok()?.as_ref().map(|object| object.read_bytes() as u64)
}

impl Backend for Counted {
    fn snapshot(&self, roots: &[Oid]) -> Arc<dyn Snapshot> {
        Arc::new(CountedSnapshot { inner: self.inner.snapshot(roots), counts: self.counts.clone() })
    }

    fn read(&self, at: &ObjRef) -> Result<Option<Object<'static>>, Error> {
        self.counts.read(|| self.inner.read(at), found_bytes)
    }

    fn locate(&self, oid: &Oid) -> Option<Location> {
        self.counts.located.fetch_add(1, Relaxed);
        self.inner.locate(oid)
    }

    fn append(&self, batch: Batch, moves: &[RefMove], durability: Durability) -> Result<Location, Error> {
        let extent = extent(&batch);
        let appended = self.times(durability).time(|| self.inner.append(batch, moves, durability));
        self.count_batch(extent, &appended);
        appended
    }

    fn append_keeping(&self, batch: &mut Batch) -> Result<Location, Error> {
        let extent = extent(batch);
        let appended = self.counts.append_times.time(|| self.inner.append_keeping(batch));
        self.count_batch(extent, &appended);
        appended
    }

    fn append_many(&self, batches: Vec<(Batch, Vec<RefMove>)>, durability: Durability) -> Vec<Result<Location, Error>> {
        let extents: Vec<(u64, u64)> = batches.iter().map(|(batch, _)| extent(batch)).collect();
        let appended = self.times(durability).time(|| self.inner.append_many(batches, durability));
        extents.into_iter().zip(&appended).for_each(|(extent, appended)| self.count_batch(extent, appended));
        appended
    }

    fn flush(&self) -> Result<(), Error> {
        self.counts.sync_times.time(|| self.inner.flush())
    }

    pass_backend! {
        inner: name, capabilities, position, sweeps, sweep, sweep_due, get_ref, list_refs, shallow, absent, note_absent,
        retention, replace_retention, promised_to,
        each_object, each_with_prefix, clear_caches, stats, read_derived, write_derived
    }
}

/// What is read from a [`Counted`] backend.
#[derive(Debug)]
struct CountedSnapshot {
    inner: Arc<dyn Snapshot>,
    counts: Arc<Counts>,
}

impl Snapshot for CountedSnapshot {
    #[inline]
    fn read(&self, at: &ObjRef) -> Result<Option<Object<'_>>, Error> {
        self.counts.read(|| self.inner.read(at), found_bytes)
    }

    #[inline]
    fn peek(&self, oid: &[u8], at: Location) -> Option<&[u8]> {
        self.counts.peek(|| self.inner.peek(oid, at))
    }

    fn read_many(&self, at: &[ObjRef], bytes_max: usize) -> Result<Vec<Option<Object<'_>>>, Error> {
        let found = self.counts.read_times.time(|| self.inner.read_many(at, bytes_max)).inspect_err(|_| {
            // That of the first object.
            self.counts.reads.fetch_add(1, Relaxed);
            self.counts.absent.fetch_add(1, Relaxed);
        })?;
        let bytes: usize = found.iter().flatten().map(Object::read_bytes).sum();
        self.counts.reads.fetch_add(found.len() as u64, Relaxed);
        self.counts.absent.fetch_add(found.iter().filter(|object| object.is_none()).count() as u64, Relaxed);
        self.counts.read_bytes.fetch_add(bytes as u64, Relaxed);
        Ok(found)
    }

    fn locate(&self, oid: &Oid) -> Option<Location> {
        self.counts.located.fetch_add(1, Relaxed);
        self.inner.locate(oid)
    }

    pass_snapshot! {
        inner: position, sweeps, absent, keep, refresh
    }
}
