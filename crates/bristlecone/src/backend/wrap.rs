//! Backends around backends: one that refuses changes, one that counts.

#![deny(clippy::missing_trait_methods)]

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use bristlecone_core::{Location, ObjRef, Object, Oid};

use super::{Backend, BackendStats, Batch, Capabilities, Damage, Durability, RefMove, RefTarget};
use crate::Error;

/// A backend that refuses every change.
#[derive(Clone, Debug)]
pub struct ReadOnly(pub Arc<dyn Backend>);

impl Backend for ReadOnly {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn read(&self, at: &ObjRef) -> Result<Option<Object<'_>>, Error> {
        self.0.read(at)
    }

    fn peek(&self, oid: &[u8], at: Location) -> Option<&[u8]> {
        self.0.peek(oid, at)
    }

    fn read_many(&self, at: &[ObjRef], bytes_max: usize) -> Result<Vec<Option<Object<'_>>>, Error> {
        self.0.read_many(at, bytes_max)
    }

    fn locate(&self, oid: &Oid) -> Option<Location> {
        self.0.locate(oid)
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

    fn get_ref(&self, name: &str) -> Result<Option<RefTarget>, Error> {
        self.0.get_ref(name)
    }

    fn list_refs(&self, prefix: &str) -> Result<BTreeMap<String, RefTarget>, Error> {
        self.0.list_refs(prefix)
    }

    fn shallow(&self) -> Result<BTreeSet<Oid>, Error> {
        self.0.shallow()
    }

    fn promised_to(&self) -> Result<Option<String>, Error> {
        self.0.promised_to()
    }

    fn flush(&self) -> Result<(), Error> {
        Ok(())
    }

    fn each_object(
        &self,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<(), Error>,
        damage: &mut dyn FnMut(Damage),
    ) -> Result<(), Error> {
        self.0.each_object(each, damage)
    }

    fn clear_caches(&self) {
        self.0.clear_caches();
    }

    fn stats(&self) -> BackendStats {
        self.0.stats()
    }

    fn read_derived(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        self.0.read_derived(name)
    }

    fn write_derived(&self, _: &str, _: &[u8]) -> Result<(), Error> {
        Err(Error::ReadOnly)
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
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

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

    fn get_ref(&self, name: &str) -> Result<Option<RefTarget>, Error> {
        self.inner.get_ref(name)
    }

    fn list_refs(&self, prefix: &str) -> Result<BTreeMap<String, RefTarget>, Error> {
        self.inner.list_refs(prefix)
    }

    fn shallow(&self) -> Result<BTreeSet<Oid>, Error> {
        self.inner.shallow()
    }

    fn promised_to(&self) -> Result<Option<String>, Error> {
        self.inner.promised_to()
    }

    fn flush(&self) -> Result<(), Error> {
        self.inner.flush()
    }

    fn each_object(
        &self,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<(), Error>,
        damage: &mut dyn FnMut(Damage),
    ) -> Result<(), Error> {
        self.inner.each_object(each, damage)
    }

    fn clear_caches(&self) {
        self.inner.clear_caches();
    }

    fn stats(&self) -> BackendStats {
        self.inner.stats()
    }

    fn read_derived(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        self.inner.read_derived(name)
    }

    fn write_derived(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        self.inner.write_derived(name, bytes)
    }
}
