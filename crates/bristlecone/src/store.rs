//! What a repository and its trees share: a format over a backend, and what is read of it.

use std::{
    fmt,
    ops::Deref,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
};

use bristlecone_core::{
    Checked, Commit, CommitId, Format, Kind, Location, ObjRef, Object, Oid, SHARED_MIN, Source, TreeId,
};

use crate::{
    AbsentCommits, Backend, Batch, Durability, Error, Result, Snapshot,
    oid_map::OidMap,
    repo::{Collector, StoredGraph, Upkeep},
    swept::retry_swept,
    tree::PENDING_BYTES_MAX,
};

mod sink;

pub(crate) use sink::FlushSink;

/// The number of the store that is made next. It wraps after four billions: then an old hint costs a read.
static NEXT_NUMBER: AtomicU32 = AtomicU32::new(1);

/// The number of the backend that a store is made over next. It never wraps: a value that is taken for one that the backend has
/// would be missing there.
static NEXT_BACKEND: AtomicU64 = AtomicU64::new(1);

fn next_backend() -> u64 {
    NEXT_BACKEND.fetch_add(1, Ordering::Relaxed)
}

/// A format over a backend.
pub(crate) struct StoreBase<F> {
    /// Before the backend: what it runs ends before that does.
    pub(crate) upkeep: Upkeep,
    /// As that.
    pub(crate) collector: Collector,
    pub(crate) format: F,
    pub(crate) backend: Arc<dyn Backend>,
    // By which ids know whether a hint is of this store.
    number: u32,
    /// By which values know whether this backend has them: its address may be another one's later. Stores beside each other
    /// share it.
    pub(crate) backend_number: u64,
    /// The id of the empty root, where the format has one.
    pub(crate) empty: Option<Oid>,
    /// Only part of the objects is here; a missing one was pruned.
    pub(crate) partial: bool,
    /// The commits by positions.
    pub(crate) graph: Arc<StoredGraph>,
    /// What copies found sound, for the next one.
    checked: Mutex<Checked>,
    /// The most bytes of memory that pending edits of a tree may take.
    pending_max: AtomicUsize,
    /// How many threads of our own large commits may have; 0 for as many as the machine has.
    threads: AtomicUsize,
    /// From how many changes of a directory on they are shared out.
    shared_min: AtomicUsize,
}

impl<F: Format> StoreBase<F> {
    pub(crate) fn new(format: F, backend: Arc<dyn Backend>) -> Arc<Self> {
        let empty = format.empty_dir(&mut Batch::new()).ok().map(|at| at.oid);
        Self::numbered(format, (backend, next_backend()), empty, false, Arc::default())
    }

    /// Returns a store that has only part of the objects.
    pub(crate) fn partial(format: F, backend: Arc<dyn Backend>, empty: Option<Oid>) -> Arc<Self> {
        Self::numbered(format, (backend, next_backend()), empty, true, Arc::default())
    }

    /// Returns the same store for another thread.
    pub(crate) fn beside(&self) -> Arc<Self> {
        let backend = (self.backend.clone(), self.backend_number);
        let beside = Self::numbered(self.format.clone(), backend, self.empty, self.partial, self.graph.clone());
        beside.set_pending_max(self.pending_max());
        beside.set_threads(self.threads());
        beside.set_shared_min(self.shared_min());
        beside
    }

    fn numbered(
        format: F,
        (backend, backend_number): (Arc<dyn Backend>, u64),
        empty: Option<Oid>,
        partial: bool,
        graph: Arc<StoredGraph>,
    ) -> Arc<Self> {
        let pending_max = if backend.capabilities().persistent { PENDING_BYTES_MAX } else { usize::MAX };
        Arc::new(Self {
            upkeep: Upkeep::default(),
            collector: Collector::default(),
            format,
            backend,
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
            backend_number,
            empty,
            partial,
            graph,
            checked: Mutex::default(),
            pending_max: AtomicUsize::new(pending_max),
            threads: AtomicUsize::new(0),
            shared_min: AtomicUsize::new(SHARED_MIN),
        })
    }

    /// Returns how many bytes of memory pending edits of a tree may take.
    #[inline]
    pub(crate) fn pending_max(&self) -> usize {
        self.pending_max.load(Ordering::Relaxed)
    }

    pub(crate) fn set_pending_max(&self, bytes: usize) {
        self.pending_max.store(bytes, Ordering::Relaxed);
    }

    /// Returns how many threads of our own large commits may have; 0 for as many as the machine has.
    pub(crate) fn threads(&self) -> usize {
        self.threads.load(Ordering::Relaxed)
    }

    pub(crate) fn set_threads(&self, threads: usize) {
        self.threads.store(threads, Ordering::Relaxed);
    }

    /// Returns from how many changes of a directory on they are shared out.
    #[inline]
    pub(crate) fn shared_min(&self) -> usize {
        self.shared_min.load(Ordering::Relaxed)
    }

    pub(crate) fn set_shared_min(&self, changes: usize) {
        self.shared_min.store(changes, Ordering::Relaxed);
    }

    /// Returns the number by which hints of this store are told from others.
    pub(crate) const fn number(&self) -> u32 {
        self.number
    }

    /// Returns a reference to a commit, without a hint of another store.
    pub(crate) const fn commit_ref(&self, id: CommitId) -> ObjRef {
        id.in_store(self.number)
    }

    /// Returns references to commits, without hints of other stores.
    pub(crate) fn commit_refs(&self, ids: &[CommitId]) -> Vec<ObjRef> {
        ids.iter().map(|&id| self.commit_ref(id)).collect()
    }

    /// Returns the id of a commit of this store, with its hint.
    pub(crate) const fn commit_id(&self, at: ObjRef) -> CommitId {
        CommitId::with_hint(at, self.number)
    }

    /// Returns a reference to a directory, without a hint of another store.
    pub(crate) const fn tree_ref(&self, id: TreeId) -> ObjRef {
        id.in_store(self.number)
    }

    /// Returns the id of a directory of this store, with its hint.
    pub(crate) const fn tree_id(&self, at: ObjRef) -> TreeId {
        TreeId::with_hint(at, self.number)
    }

    /// Returns the commit that an object of this store is.
    pub(crate) fn decode_commit(&self, object: &Object<'_>, oid: Oid) -> Result<Commit> {
        let commit = self.format.decode_commit(object).map_err(|source| Error::BadObject { oid, source })?;
        Ok(commit.decoded_in(self.number))
    }

    /// Returns a commit without hints of other stores, to be written in this one.
    pub(crate) fn own_commit(&self, commit: &Commit) -> Commit {
        commit.clone().in_store(self.number)
    }

    /// Returns what can be read from now on. `roots` stay with all below them.
    pub(crate) fn now(self: &Arc<Self>, roots: &[Oid]) -> Arc<StoreView<F>> {
        let snapshot = self.backend.snapshot(roots);
        Arc::new(StoreView { format: self.format.clone(), shared: self.clone(), snapshot, joined: Vec::new() })
    }

    /// Takes what is known of the structure of objects; a copy beside this one begins with nothing.
    pub(crate) fn take_checked(&self) -> Checked {
        std::mem::take(&mut *self.checked.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Keeps that for the next copy.
    pub(crate) fn keep_checked(&self, checked: Checked) {
        *self.checked.lock().unwrap_or_else(PoisonError::into_inner) = checked;
    }

    /// Whether objects of another store are objects here as they are: it has the same format and options.
    pub(crate) fn takes_objects_of(&self, other: &Self) -> bool {
        self.format.options() == other.format.options() && self.empty == other.empty
    }

    /// Returns the directory, unless it is the empty one: that is a directory without an object to read.
    #[inline]
    pub(crate) fn unless_empty(&self, dir: ObjRef) -> Option<ObjRef> {
        if Some(dir.oid) == self.empty { None } else { Some(dir) }
    }
}

impl<F: fmt::Debug> fmt::Debug for StoreBase<F> {
    /// Says which backend it is: what that holds would fill pages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("StoreBase");
        shown.field("format", &self.format).field("backend", &self.backend.name()).finish_non_exhaustive()
    }
}

/// A format over a snapshot of a backend: what trees and walks read from.
pub(crate) struct StoreView<F> {
    pub(crate) format: F,
    pub(crate) shared: Arc<StoreBase<F>>,
    pub(crate) snapshot: Arc<dyn Snapshot>,
    /// The snapshots that this one joins; empty if it is one of the backend.
    joined: Vec<Arc<dyn Snapshot>>,
}

impl<F: fmt::Debug> fmt::Debug for StoreView<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.fmt(f)
    }
}

impl<F> Deref for StoreView<F> {
    type Target = StoreBase<F>;

    fn deref(&self) -> &StoreBase<F> {
        &self.shared
    }
}

impl<F: Format> StoreView<F> {
    /// Returns the same store to be read through another snapshot.
    pub(crate) fn with(&self, snapshot: Arc<dyn Snapshot>) -> Arc<Self> {
        self.with_joined(snapshot, Vec::new())
    }

    /// Returns the same store to be read through a snapshot that joins others.
    pub(crate) fn with_joined(&self, snapshot: Arc<dyn Snapshot>, joined: Vec<Arc<dyn Snapshot>>) -> Arc<Self> {
        Arc::new(Self { format: self.format.clone(), shared: self.shared.clone(), snapshot, joined })
    }

    /// Returns what is absent on purpose in what is read here.
    ///
    /// # Errors
    /// Those of the backend.
    pub(crate) fn absent(&self) -> Result<Arc<AbsentCommits>> {
        match self.snapshot.absent()? {
            Some(absent) => Ok(absent),
            None => self.backend.absent(),
        }
    }

    /// Returns the snapshots of the backend that it is read through.
    pub(crate) fn snapshots(&self) -> &[Arc<dyn Snapshot>] {
        if self.joined.is_empty() { std::slice::from_ref(&self.snapshot) } else { &self.joined }
    }

    /// Goes on with what can be read from now on; `roots` stay with all below them.
    pub(crate) fn refresh(&mut self, roots: &[Oid]) {
        self.joined = Vec::new();
        if !Arc::get_mut(&mut self.snapshot).is_some_and(|snapshot| snapshot.refresh(roots)) {
            self.snapshot = self.shared.backend.snapshot(roots);
        }
    }

    /// Returns how many sweeps had begun at what is shown here.
    pub(crate) fn sweeps(&self) -> u64 {
        self.snapshot.sweeps().unwrap_or_else(|| self.backend.sweeps())
    }

    /// Returns an empty batch's sink over what can be read here.
    pub(crate) fn sink(&self) -> FlushSink<'_> {
        self.sink_since(self.sweeps())
    }

    /// Returns an empty batch's sink, of a batch made when so many sweeps had begun.
    pub(crate) fn sink_since(&self, sweeps: u64) -> FlushSink<'_> {
        FlushSink::new(Batch::since(sweeps), &*self.snapshot).sharing_from(self.shared_min())
    }

    /// Appends what a sink holds, if anything, and returns where an object of it is.
    pub(crate) fn append(&self, sink: &mut FlushSink<'_>, at: ObjRef) -> Result<ObjRef> {
        let batch = sink.take();
        if batch.is_empty() {
            return Ok(at);
        }
        let base = self.backend.append(batch, &[], Durability::None)?;
        Ok(resolve(at, base))
    }
}

/// Returns the reference of an object of a batch, once it is known where the batch begins.
pub(crate) fn resolve(at: ObjRef, base: Location) -> ObjRef {
    ObjRef::new(at.oid, at.at.resolve(base))
}

impl<F: Format> Source for StoreView<F> {
    type Error = Error;

    #[inline]
    fn peek(&self, oid: &[u8], at: Location) -> Option<&[u8]> {
        self.snapshot.peek(oid, at)
    }

    #[inline]
    fn read<'a>(&'a self, kind: Kind, at: &ObjRef) -> Result<Object<'a>> {
        let Some(object) = self.snapshot.read(at)? else { return Err(self.missing(kind, at.oid)) };
        check_kind(kind, &object, at.oid)?;
        Ok(object)
    }

    fn read_many<'a>(&'a self, wanted: &[(Kind, ObjRef)], bytes_max: usize) -> Result<Vec<Object<'a>>> {
        let places: Vec<ObjRef> = wanted.iter().map(|(_, at)| *at).collect();
        let mut objects = Vec::with_capacity(places.len());
        for ((kind, at), object) in wanted.iter().zip(self.snapshot.read_many(&places, bytes_max)?) {
            match object {
                Some(object) if check_kind(*kind, &object, at.oid).is_ok() => objects.push(object),
                // What is wrong with it is reported when it is asked for first.
                _ if !objects.is_empty() => break,
                Some(object) => check_kind(*kind, &object, at.oid)?,
                None => return Err(self.missing(*kind, at.oid)),
            }
        }
        Ok(objects)
    }
}

/// Checks that an object is of the kind that was asked for. A large value stands for a value.
#[inline]
pub(crate) fn check_kind(kind: Kind, object: &Object<'_>, oid: Oid) -> Result<()> {
    let found = object.kind();
    if found == kind || (kind == Kind::Contents && found == Kind::Pieces) {
        return Ok(());
    }
    Err(Error::WrongKind { oid, found, expected: kind })
}

impl<F> StoreBase<F> {
    #[cold]
    pub(crate) fn missing(&self, kind: Kind, oid: Oid) -> Error {
        if self.partial {
            return Error::Pruned { oid };
        }
        if let Ok(absent) = self.backend.absent()
            && let Some(row) = absent.get(&oid)
        {
            return Error::Absent { oid, reason: row.reason };
        }
        match self.backend.promised_to() {
            Ok(Some(folder)) => Error::Promised { kind, oid, folder },
            Ok(None) | Err(_) => Error::Missing { kind, oid },
        }
    }
}

/// Prewritten values: large values that were hashed when they were set, and go to the backend before the commit.
///
/// Trees that were cloned from each other share them, so that the first one that commits writes all values.
#[derive(Debug, Default)]
pub(crate) struct PrewrittenValues {
    /// Those that the backend does not have yet.
    batch: Batch,
    /// What keeps the pieces of them that the backend has: the tree that set one may be dropped, and others go on with it.
    kept: Vec<Arc<dyn Snapshot>>,
    /// Where the backend has others, as of when `sweeps` sweeps had begun.
    places: OidMap<Location>,
    sweeps: u64,
    /// With so many bytes they are offered to the backend again, where nothing could be written before.
    due: usize,
}

pub(crate) type Prewritten = Arc<Mutex<PrewrittenValues>>;

/// Prewritten values wait until they have this many bytes together.
const PREWRITTEN_BYTES: usize = 1 << 20;

/// The places of so many prewritten values are remembered; of others they are looked up.
const PLACES_MAX: usize = 1 << 16;

impl PrewrittenValues {
    /// Returns those that the backend does not have yet.
    pub(crate) const fn batch(&self) -> &Batch {
        &self.batch
    }

    /// Returns where the backend has a value, and how many sweeps had begun then: it is there unless another one has.
    pub(crate) fn place(&self, oid: &Oid) -> Option<(Location, u64)> {
        self.places.get(oid).map(|&at| (at, self.sweeps))
    }

    /// Forgets where values are, once a commit leads to them.
    pub(crate) fn forget_places(&mut self) {
        self.places = OidMap::default();
    }

    /// Keeps what a snapshot does until the values are given to the backend.
    fn keep(&mut self, snapshot: &Arc<dyn Snapshot>) {
        if !self.kept.iter().any(|kept| Arc::ptr_eq(kept, snapshot)) {
            self.kept.push(snapshot.clone());
        }
    }

    /// Gives all values to the backend.
    fn append<F: Format>(&mut self, store: &StoreView<F>) -> Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        // What another process has dropped of a value is read as the tree saw it that set the value.
        let shown = store.joined(&self.kept);
        let store = shown.as_deref().unwrap_or(store);
        let sweeps = self.batch.left_out().1;
        let offsets: Vec<(Oid, u32)> = self.batch.offsets().collect();
        // On an error the batch stays: trees refer to what is in it.
        let mut state = (store, &mut self.batch);
        let base = retry_swept(&mut state, |(store, _)| store, |(store, batch)| store.backend.append_keeping(batch))?;
        if sweeps != self.sweeps || self.places.len() + offsets.len() > PLACES_MAX {
            self.forget_places();
        }
        (self.sweeps, self.due) = (sweeps, 0);
        self.kept.clear();
        if base.is_some() {
            let place = |(oid, offset): (Oid, u32)| (oid, Location::pending(u64::from(offset)).resolve(base));
            self.places.extend(offsets.into_iter().map(place));
        }
        Ok(())
    }
}

pub(crate) fn lock_values(prewritten: &Prewritten) -> MutexGuard<'_, PrewrittenValues> {
    prewritten.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Hashes `value` and adds it to the prewritten values, unless the store has it. Returns its reference, without a location.
pub(crate) fn prewrite<F: Format>(store: &StoreView<F>, prewritten: &Prewritten, value: &[u8]) -> Result<ObjRef> {
    let mut values = lock_values(prewritten);
    check_room(values.batch.bytes().len(), value.len())?;
    if values.batch.is_empty() {
        values.batch = Batch::since(store.sweeps());
    }
    let left_out = values.batch.left_out().0.len();
    let mut sink = FlushSink::new(std::mem::take(&mut values.batch), &*store.snapshot);
    let put = store.format.put_contents(&mut sink, value);
    values.batch = sink.take();
    let at = put?;
    if at.at.pending_offset().is_none() {
        // The store has all of it, and the batch names none of it: only who binds it needs it. Other trees share the batch, and
        // go on with that if this one is dropped.
        values.batch.forget_left_out(left_out);
    } else if values.batch.left_out().0.len() > left_out {
        values.keep(&store.snapshot);
    }
    let waiting = values.batch.bytes().len();
    if waiting >= PREWRITTEN_BYTES.max(values.due) {
        match values.append(store) {
            Ok(()) => {}
            // They stay in memory, where the tree reads them. All of them are looked at for that, so not for each further one.
            Err(Error::ReadOnly) => values.due = waiting.saturating_mul(2),
            Err(error) => return Err(error),
        }
    }
    Ok(ObjRef::new(at.oid, if at.at.pending_offset().is_some() { Location::NONE } else { at.at }))
}

/// Fails if there is no room for a value of so many bytes beside what waits: places in a batch have 32 bits.
fn check_room(waiting: usize, value: usize) -> Result<()> {
    // Its pieces have heads, and are listed.
    let bytes = waiting.saturating_add(value).saturating_add(value / 64) as u64;
    let bytes_max = Batch::BYTES_MAX as u64;
    if bytes <= bytes_max {
        return Ok(());
    }
    Err(Error::TooLarge { what: "what waits in memory, since nothing can be written,", bytes, bytes_max })
}

/// Gives all prewritten values to the backend.
pub(crate) fn flush_prewritten<F: Format>(store: &StoreView<F>, prewritten: &Prewritten) -> Result<()> {
    lock_values(prewritten).append(store)
}

#[cfg(all(test, feature = "rayon"))]
mod tests;
