//! A backend with a cache of objects in front of it.

#![deny(clippy::missing_trait_methods)]

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use bristlecone_core::{Bytes, Location, ObjRef, Object, Oid, Record};
use quick_cache::{Weighter, sync::Cache};

use super::{Backend, BackendStats, Batch, Durability, RefMove, Roots, Snapshot, SweepLimits, Swept, gather::Answers};
use crate::{Error, pass_backend, pass_snapshot};

/// Bytes beside an object's own: its key, the table's row, links, and the counters of its allocation.
const ENTRY_BYTES: u64 = 192;
/// Bytes of an object that the size of the table assumes.
const OBJECT_BYTES: u64 = 512;

/// A backend with a cache of objects, within one budget of bytes.
///
/// Made for backends whose reads cost system calls, decompression or a network. What is read enters the cache, and so does
/// what is appended; what is rarely asked for leaves it.
///
/// **Law.** Reading gives what the backend inside would give. An id names contents, so that an object that is kept is right
/// for ever, and its checksum is not computed again. Refs, positions, derived files and where objects are come from the
/// backend inside at each call, since other processes change them. An object that a sweep dropped is not found here either:
/// what was read before a sweep began is looked for again after it.
///
/// Records that the backend inside lends without a lock ([`Snapshot::peek`]) are borrowed from there.
#[derive(Debug)]
pub struct Cached {
    inner: Arc<dyn Backend>,
    cache: Arc<ObjectCache>,
}

/// How often objects were found in a [`Cached`] backend, and what it keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// Reads that the cache answered.
    pub hits: u64,
    /// Reads that the backend inside answered.
    pub misses: u64,
    /// Objects that are kept.
    pub objects: u64,
    /// Bytes that they take, with what stands around them.
    pub bytes: u64,
}

impl fmt::Display for CacheStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hits, misses, objects, bytes } = self;
        write!(f, "{hits} hits, {misses} misses, {objects} objects of {bytes} bytes")
    }
}

/// An object that is kept.
#[derive(Clone)]
struct Kept {
    object: Object<'static>,
    // How many sweeps had begun before it was read: after another one it may be gone.
    sweeps: u64,
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<Oid, Kept> for ByBytes {
    fn weight(&self, _: &Oid, kept: &Kept) -> u64 {
        // A range of shared bytes keeps all of them.
        let shared = match kept.object.body_slice(0..0) {
            Bytes::Shared { bytes, .. } => bytes.len(),
            Bytes::Grown { bytes, .. } => bytes.capacity(),
            Bytes::Borrowed(_) => 0,
        };
        shared as u64 + ENTRY_BYTES
    }
}

/// Objects by id.
struct ObjectCache {
    objects: Cache<Oid, Kept, ByBytes>,
    bytes_max: u64,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl fmt::Debug for ObjectCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectCache({})", self.stats())
    }
}

impl ObjectCache {
    fn new(bytes_max: u64) -> Self {
        let items = (bytes_max / OBJECT_BYTES).clamp(16, 1 << 22) as usize;
        let objects = Cache::with_weighter(items, bytes_max, ByBytes);
        Self { objects, bytes_max, hits: AtomicU64::new(0), misses: AtomicU64::new(0) }
    }

    /// Returns an object that is kept, if no sweep has begun since it was read: `sweeps` have by now. Counts the question.
    fn get(&self, oid: &Oid, sweeps: u64) -> Option<Object<'static>> {
        let found = self.find(oid, sweeps);
        self.count(found.is_some());
        found
    }

    fn find(&self, oid: &Oid, sweeps: u64) -> Option<Object<'static>> {
        self.objects.get(oid).filter(|kept| kept.sweeps == sweeps).map(|kept| kept.object)
    }

    fn count(&self, is_hit: bool) {
        if is_hit { &self.hits } else { &self.misses }.fetch_add(1, Relaxed);
    }

    /// Keeps an object that was there when `sweeps` sweeps had begun.
    fn insert(&self, oid: Oid, object: Object<'static>, sweeps: u64) {
        self.objects.insert(oid, Kept { object, sweeps });
    }

    fn stats(&self) -> CacheStats {
        CacheStats {
            hits: self.hits.load(Relaxed),
            misses: self.misses.load(Relaxed),
            objects: self.objects.len() as u64,
            bytes: self.objects.weight(),
        }
    }
}

impl Cached {
    /// Returns the backend with an empty cache of at most `bytes` bytes in front of it. An object that takes a good part of
    /// that is not kept.
    #[must_use]
    pub fn new(inner: Arc<dyn Backend>, bytes: u64) -> Self {
        Self { inner, cache: Arc::new(ObjectCache::new(bytes)) }
    }

    /// Returns how often objects were found in the cache, and what it keeps.
    #[must_use]
    pub fn cache_stats(&self) -> CacheStats {
        self.cache.stats()
    }

    /// Returns copies of a batch's objects, up to half of the budget, as a read would give them.
    fn copies(&self, batch: &Batch) -> Copies {
        let sweeps = self.inner.sweeps();
        let can = self.inner.capabilities();
        let mut copies = Copies { objects: Vec::new(), sweeps, whole: can.metadata_words && can.git.is_none() };
        let mut room = self.cache.bytes_max / 2;
        for record in batch.records() {
            let bytes = record.bytes.len() as u64 + ENTRY_BYTES;
            if bytes > room {
                break;
            }
            room -= bytes;
            copies.objects.push((record.offset, record.bytes.into()));
        }
        copies
    }

    /// Keeps what was appended. The batch begins at `base`.
    fn keep(&self, copies: Copies, base: Location) {
        for (offset, bytes) in copies.objects {
            let Ok(record) = Record::parse(&bytes) else { continue };
            let Ok(oid) = Oid::new(record.oid) else { continue };
            let object = if copies.whole {
                Object::from_record(&record, bytes.clone().into(), Location::pending(offset.into()).resolve(base))
            } else {
                let body = record.body_at()..bytes.len();
                Object::from_body(record.kind, Bytes::from(bytes.clone()).slice(body))
            };
            self.cache.insert(oid, object, copies.sweeps);
        }
    }
}

/// Objects that enter the cache once they are appended.
struct Copies {
    // The offset of each in its batch, and its record.
    objects: Vec<(u32, Arc<[u8]>)>,
    sweeps: u64,
    // Whether the backend keeps metadata words and where children are, too.
    whole: bool,
}

impl Backend for Cached {
    fn snapshot(&self, roots: &[Oid]) -> Arc<dyn Snapshot> {
        // Before the snapshot is taken: what a later sweep drops is then told by its number.
        let sweeps = self.inner.sweeps();
        let inner = self.inner.snapshot(roots);
        Arc::new(CachedSnapshot { inner, backend: self.inner.clone(), cache: self.cache.clone(), sweeps })
    }

    fn read(&self, at: &ObjRef) -> Result<Option<Object<'static>>, Error> {
        if self.inner.capabilities().processes {
            // Learns whether another process has swept.
            self.inner.position()?;
        }
        let sweeps = self.inner.sweeps();
        if let Some(object) = self.cache.get(&at.oid, sweeps) {
            return Ok(Some(object));
        }
        let found = self.inner.read(at)?;
        if let Some(object) = &found {
            self.cache.insert(at.oid, object.clone(), sweeps);
        }
        Ok(found)
    }

    fn sweep(&self, roots: &Roots<'_>, limits: &SweepLimits) -> Result<Swept, Error> {
        let swept = self.inner.sweep(roots, limits)?;
        // What is known to be there stays in the cache, and the rest leaves it.
        let sweeps = self.inner.sweeps();
        let snapshot = self.inner.snapshot(&[]);
        let all: Vec<(Oid, Kept)> = self.cache.objects.iter().collect();
        for (oid, kept) in all {
            match snapshot.locate(&oid) {
                Some(_) => self.cache.insert(oid, kept.object, sweeps),
                None => _ = self.cache.objects.remove(&oid),
            }
        }
        Ok(swept)
    }

    fn append(&self, batch: Batch, moves: &[RefMove], durability: Durability) -> Result<Location, Error> {
        let copies = self.copies(&batch);
        let appended = self.inner.append(batch, moves, durability);
        if let Ok(base) = appended {
            self.keep(copies, base);
        }
        appended
    }

    fn append_keeping(&self, batch: &mut Batch) -> Result<Location, Error> {
        let copies = self.copies(batch);
        let base = self.inner.append_keeping(batch)?;
        self.keep(copies, base);
        Ok(base)
    }

    fn append_many(&self, batches: Vec<(Batch, Vec<RefMove>)>, durability: Durability) -> Vec<Result<Location, Error>> {
        let copies: Vec<Copies> = batches.iter().map(|(batch, _)| self.copies(batch)).collect();
        let appended = self.inner.append_many(batches, durability);
        for (copies, appended) in copies.into_iter().zip(&appended) {
            if let Ok(base) = appended {
                self.keep(copies, *base);
            }
        }
        appended
    }

    fn clear_caches(&self) {
        self.cache.objects.clear();
        self.inner.clear_caches();
    }

    fn stats(&self) -> BackendStats {
        let inner = self.inner.stats();
        BackendStats { memory_bytes: inner.memory_bytes + self.cache.objects.weight(), ..inner }
    }

    pass_backend! {
        inner: name, capabilities, locate, position, sweeps, sweep_due, get_ref, list_refs, shallow, absent, note_absent, retention, replace_retention, promised_to, flush, each_object, each_with_prefix,
        read_derived, write_derived
    }
}

/// What is read through the cache.
#[derive(Debug)]
struct CachedSnapshot {
    inner: Arc<dyn Snapshot>,
    // Says how many sweeps have begun.
    backend: Arc<dyn Backend>,
    cache: Arc<ObjectCache>,
    // How many had when the snapshot was taken. Taking one waits for a sweep that is under way, so what it finds later is
    // gone only if another sweep begins.
    sweeps: u64,
}

impl CachedSnapshot {
    fn keep_read(&self, oid: Oid, object: &Object<'_>) {
        // After another sweep only what later snapshots find is sure to be there.
        if self.sweeps == self.backend.sweeps() {
            self.cache.insert(oid, object.clone().into_static(), self.sweeps);
        }
    }
}

impl Snapshot for CachedSnapshot {
    fn read(&self, at: &ObjRef) -> Result<Option<Object<'_>>, Error> {
        if let Some(object) = self.cache.get(&at.oid, self.backend.sweeps()) {
            return Ok(Some(object));
        }
        let found = self.inner.read(at)?;
        if let Some(object) = &found {
            self.keep_read(at.oid, object);
        }
        Ok(found)
    }

    fn read_many(&self, at: &[ObjRef], bytes_max: usize) -> Result<Vec<Option<Object<'_>>>, Error> {
        let sweeps = self.backend.sweeps();
        let found: Vec<_> = at.iter().map(|at| self.cache.find(&at.oid, sweeps)).collect();
        let hits: Vec<bool> = found.iter().map(Option::is_some).collect();
        let mut answers = Answers::new(found, bytes_max);
        let asked = answers.ask(&*self.inner, at, |at, object| self.keep_read(at.oid, object));
        // The one that fails is the first.
        asked.inspect_err(|_| self.cache.count(false))?;
        let found = answers.finish();
        // Questions without an answer are asked again, and count then.
        hits.iter().take(found.len()).for_each(|&is_hit| self.cache.count(is_hit));
        Ok(found)
    }

    fn keep(&self, root: &Oid) {
        self.inner.keep(root);
        // The caller looks next whether it is there, and the backend inside is to answer.
        self.cache.objects.remove(root);
    }

    fn refresh(&mut self, roots: &[Oid]) -> bool {
        let sweeps = self.backend.sweeps();
        let moved = Arc::get_mut(&mut self.inner).is_some_and(|inner| inner.refresh(roots));
        if moved {
            self.sweeps = sweeps;
        }
        moved
    }

    fn peek(&self, oid: &[u8], at: Location) -> Option<&[u8]> {
        self.inner.peek(oid, at)
    }

    pass_snapshot! { inner: locate, position, sweeps, absent }
}
