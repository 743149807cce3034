//! The backend: [`LsmBackend`] over its parts.
//!
//! **In and out.** A batch comes in through `append`, with those of callers that come at the same time. It is cut into
//! pages (`page`) and given to the database (`database`) together with refs and state (`refs`). Reads go to the pages in
//! memory (`pages`), then to the database; searches by id go to `index`. `durable` is the witness of what was synced, and
//! `sweep` drops what nothing leads to. `open_store` puts the parts together.

use std::{
    collections::BTreeMap,
    fmt,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::Ordering::{Acquire, Relaxed},
    },
};

use bristlecone::{
    Backend, BackendStats, Batch, Capabilities, Damage, Durability, Error, Location, ObjRef, Object, Oid, OidPrefix,
    Position, RefMove, RefTarget, Result, Roots, Snapshot, SweepLimits, Swept,
    engine::{FormatTag, Header},
    storage::RealStorage,
};

use crate::LsmOptions;

mod append;
mod counts;
mod database;
mod durable;
mod holder;
mod index;
mod open_store;
mod page;
mod pages;
mod refs;
mod snapshot;
mod sweep;
mod walk;

use append::CallerAppends;
use open_store::{NAME, OpenStore, read_lock};

/// A store on a log-structured merge tree.
///
/// The process that has it open is the only one. A snapshot that outlives the backend keeps the store open.
pub struct LsmBackend {
    store: Arc<OpenStore>,
}

/// Locks a mutex. A thread that panicked while it held one left nothing half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As [`lock`], unless another thread holds it.
fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

impl LsmBackend {
    /// Makes a store in the folder `dir`, which is made if need be, and opens it. The header is written last: what a
    /// creation leaves that was killed is replaced by the next one.
    ///
    /// # Errors
    /// [`Error::Exists`]; [`Error::Lost`] where a store lacks its header; [`Error::Locked`], [`Error::NoSpace`],
    /// [`Error::Io`].
    pub fn create(dir: impl AsRef<Path>, format: FormatTag, options: LsmOptions) -> Result<Self> {
        Ok(Self { store: OpenStore::create(dir.as_ref(), format, options)? })
    }

    /// Opens the store in the folder `dir`.
    ///
    /// `read_only`: writes are refused. The database writes in its own folder nevertheless: it erases the torn tail of its
    /// journal and goes on compacting, so that the folder must let it.
    ///
    /// # Errors
    /// [`Error::NoStore`]; [`Error::Incompatible`] for the store of another backend or a newer version; [`Error::Locked`]
    /// naming the process that has it open; [`Error::Lost`] if it ends before what was durable; [`Error::Corrupt`],
    /// [`Error::Io`].
    pub fn open(dir: impl AsRef<Path>, options: LsmOptions, read_only: bool) -> Result<Self> {
        Ok(Self { store: OpenStore::open(dir.as_ref(), options, read_only)? })
    }

    /// Reads the header of the store in the folder `dir`, without opening the store.
    ///
    /// # Errors
    /// [`Error::NoStore`]; [`Error::Incompatible`]; [`Error::Corrupt`], [`Error::Io`].
    pub fn header_in(dir: impl AsRef<Path>) -> Result<Header> {
        OpenStore::header_in(&RealStorage::new(dir.as_ref()))
    }

    /// Returns the header.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.store.header
    }

    /// Makes everything durable and ends the threads. Dropping the backend does the same, as far as it can.
    ///
    /// # Errors
    /// As [`Backend::flush`].
    pub fn close(&self) -> Result<()> {
        self.store.close()
    }
}

impl Drop for LsmBackend {
    fn drop(&mut self) {
        // A caller that wants to know calls `close`.
        let _ = self.close();
    }
}

impl fmt::Debug for LsmBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LsmBackend").field(&self.store).finish()
    }
}

impl Backend for LsmBackend {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            persistent: true,
            atomic_commits: true,
            several_refs: true,
            locations: true,
            processes: false,
            metadata_words: true,
            positions: true,
            sweep: true,
            retention: false,
            git: None,
        }
    }

    fn snapshot(&self, roots: &[Oid]) -> Arc<dyn Snapshot> {
        Arc::new(self.store.snapshot(roots))
    }

    fn read(&self, at: &ObjRef) -> Result<Option<Object<'static>>> {
        self.store.read(at)
    }

    fn locate(&self, oid: &Oid) -> Option<Location> {
        self.store.locate(oid).ok().flatten()
    }

    fn position(&self) -> Result<Option<Position>> {
        Ok(Some(Position(read_lock(&self.store.refs).state.position)))
    }

    fn sweeps(&self) -> u64 {
        self.store.sweeps.load(Acquire)
    }

    fn sweep(&self, roots: &Roots<'_>, limits: &SweepLimits) -> Result<Swept> {
        self.store.sweep(roots, limits)
    }

    fn append(&self, batch: Batch, moves: &[RefMove], durability: Durability) -> Result<Location> {
        let mut outcomes = self.append_many(vec![(batch, moves.to_vec())], durability);
        outcomes.pop().unwrap_or(Err(Error::Unanswered))
    }

    fn append_keeping(&self, batch: &mut Batch) -> Result<Location> {
        let base = self.store.append_unmoved(batch)?;
        batch.clear();
        Ok(base)
    }

    fn append_many(&self, batches: Vec<(Batch, Vec<RefMove>)>, durability: Durability) -> Vec<Result<Location>> {
        self.store.append(CallerAppends { appends: batches, durability })
    }

    fn get_ref(&self, name: &str) -> Result<Option<RefTarget>> {
        Ok(read_lock(&self.store.refs).by_name.get(name).cloned())
    }

    fn list_refs(&self, prefix: &str) -> Result<BTreeMap<String, RefTarget>> {
        let refs = read_lock(&self.store.refs);
        let from = refs.by_name.range(prefix.to_owned()..).take_while(|(name, _)| name.starts_with(prefix));
        Ok(from.map(|(name, target)| (name.clone(), target.clone())).collect())
    }

    fn flush(&self) -> Result<()> {
        self.store.flush()
    }

    fn each_object(
        &self,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<()>,
        damage: &mut dyn FnMut(Damage),
    ) -> Result<()> {
        self.store.each_object(each, damage)
    }

    fn each_with_prefix(
        &self,
        prefix: &OidPrefix,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<(), Error>,
    ) -> Result<()> {
        self.store.each_with_prefix(prefix, each)
    }

    fn clear_caches(&self) {
        self.store.pages.clear();
    }

    fn stats(&self) -> BackendStats {
        let (store, counters) = (&self.store, &self.store.counters);
        BackendStats {
            bytes_written: counters.bytes.load(Relaxed),
            writes: counters.writes.load(Relaxed),
            syncs: counters.syncs.load(Relaxed),
            batches: counters.batches.load(Relaxed),
            store_bytes: read_lock(&store.refs).state.bytes,
            file_bytes: store.database.file_bytes(),
            memory_bytes: store.pages.memory_bytes() + store.index.memory_bytes() + store.database.memory_bytes(),
            ..BackendStats::default()
        }
    }

    fn read_derived(&self, name: &str) -> Result<Option<Vec<u8>>> {
        self.store.derived.read(name)
    }

    fn write_derived(&self, name: &str, bytes: &[u8]) -> Result<()> {
        if self.store.read_only {
            return Err(Error::ReadOnly);
        }
        self.store.derived.write(name, bytes)
    }
}
