//! The memory backend: batches kept in an arena, never moved while they are read, so that reads borrow them without
//! a lock.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU64, Ordering::*},
    },
};

use bristlecone_core::{Location, ObjRef, Object, Oid, OidPrefix, Record};

use super::{
    Backend, BackendStats, Batch, Capabilities, Damage, Durability, Pin, Pins, Position, RefMove, RefTarget, Roots,
    Snapshot, SweepLimits, Swept,
    arena::{Arena, SlabTable},
    check_moves, peek_record,
};
use crate::{Error, oid_map::OidHasher};

mod sweep;

/// Keeps everything in memory; what nothing leads to is dropped by [`Backend::sweep`].
#[derive(Debug, Default)]
pub struct MemoryBackend(Arc<MemoryState>);

#[derive(Debug, Default)]
struct MemoryState {
    arena: Arena,
    // Where each batch starts, and its length in bytes.
    batches: boxcar::Vec<(Location, u32)>,
    // Objects by id, of a number of first batches: most are only ever found by location, so batches are
    // indexed when an id is first looked for after them.
    index: RwLock<MemoryIndex>,
    // Held while anything is appended or a snapshot taken, and alone by a sweep and by appends that move refs.
    refs: RwLock<MemoryRefs>,
    pins: Pins,
    derived: Mutex<HashMap<String, Vec<u8>>>,
    // Bytes of records that are there, and that ever were.
    bytes: AtomicU64,
    appended: AtomicU64,
    // How many sweeps have begun.
    sweeps: AtomicU64,
}

#[derive(Debug, Default)]
struct MemoryRefs {
    by_name: BTreeMap<String, RefTarget>,
    position: Position,
}

#[derive(Debug, Default)]
struct MemoryIndex {
    batches: usize,
    places: HashMap<Oid, ObjectPlace, OidHasher>,
    // Where objects are as well, in other slabs: they were appended again.
    copies: Vec<(Oid, Location)>,
}

/// Where an object is, and the number of the batch that had it last.
#[derive(Clone, Copy, Debug)]
struct ObjectPlace {
    at: Location,
    batch: u64,
}

/// Returns the number of the slab that a place is in.
const fn slab_of(at: Location) -> u64 {
    at.0 >> 32
}

fn read_lock<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write_lock<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

impl MemoryBackend {
    /// Returns an empty backend.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl MemoryState {
    fn keep(&self, batch: Batch) -> Location {
        if batch.is_empty() {
            return Location::NONE;
        }
        let bytes = batch.into_bytes();
        let length = bytes.len();
        let base = self.arena.keep(bytes);
        self.note(base, length);
        base
    }

    fn note(&self, base: Location, length: usize) {
        self.bytes.fetch_add(length as u64, Relaxed);
        self.appended.fetch_add(length as u64, Relaxed);
        self.batches.push((base, length as u32));
    }

    /// Fails if a batch is too large, or a sweep that began since it was made dropped what it or a move needs. The caller holds the refs.
    fn check_batch(&self, batch: &Batch, moves: &[RefMove]) -> Result<(), Error> {
        batch.check_size()?;
        let mut gone = batch.needed(moves, self.sweeps.load(Acquire));
        if gone.is_empty() {
            return Ok(());
        }
        let index = self.indexed();
        gone.retain(|oid| !index.places.contains_key(oid));
        if gone.is_empty() { Ok(()) } else { Err(Error::Gone { oids: gone }) }
    }

    fn locate(&self, oid: &Oid) -> Option<Location> {
        self.indexed().places.get(oid).map(|place| place.at)
    }

    /// Returns the index with every batch in it.
    fn indexed(&self) -> RwLockReadGuard<'_, MemoryIndex> {
        loop {
            let index = read_lock(&self.index);
            if index.batches == self.batches.count() {
                return index;
            }
            drop(index);
            self.index_more();
        }
    }

    fn index_more(&self) {
        let mut held = write_lock(&self.index);
        let index = &mut *held;
        // Taken under the lock, which a sweep holds while it goes on with another table: an older one lacks later slabs.
        let table = self.arena.table();
        // A batch that is being pushed leaves a gap for a moment; the rest waits for it.
        while let Some(&(base, length)) = self.batches.get(index.batches) {
            let bytes = table.get(base).and_then(|bytes| bytes.get(..length as usize)).unwrap_or_default();
            let (mut offset, batch) = (0, index.batches as u64);
            while let Some(record) = bytes.get(offset..).and_then(|rest| Record::parse(rest).ok()) {
                if let Ok(oid) = Oid::new(record.oid) {
                    let at = Location(base.0 + offset as u64);
                    let place = index.places.entry(oid).or_insert(ObjectPlace { at, batch });
                    place.batch = batch;
                    if slab_of(place.at) != slab_of(at) {
                        index.copies.push((oid, at));
                    }
                }
                offset += (record.bytes() as usize).next_multiple_of(8);
            }
            index.batches += 1;
        }
    }

    fn snapshot(self: &Arc<Self>, roots: &[Oid]) -> MemorySnapshot {
        let refs = read_lock(&self.refs);
        let pin = Pin::new(self.clone(), refs.position, self.batches.count() as u64, roots);
        let sweeps = self.sweeps.load(Acquire);
        MemorySnapshot { tables: Tables::new(self.arena.table()), pin, sweeps }
    }

    /// Calls `each` for every object whose id is wanted.
    fn each_wanted(
        self: &Arc<Self>,
        is_wanted: impl Fn(&Oid) -> bool,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let snapshot = self.snapshot(&[]);
        let index = self.indexed();
        let wanted = index.places.iter().filter(|&(oid, _)| is_wanted(oid));
        let places: Vec<ObjRef> = wanted.map(|(oid, place)| ObjRef::new(*oid, place.at)).collect();
        drop(index);
        for at in places {
            if let Some(object) = snapshot.read(&at)? {
                each(at.oid, &object)?;
            }
        }
        Ok(())
    }
}

/// The tables of slabs that a snapshot has read from. What is lent from one stays as long as they do.
#[derive(Debug)]
struct Tables {
    first: Arc<SlabTable>,
    later: OnceLock<Box<Tables>>,
}

impl Tables {
    const fn new(first: Arc<SlabTable>) -> Self {
        Self { first, later: OnceLock::new() }
    }

    fn get(&self, at: Location) -> Option<&[u8]> {
        let mut tables = self;
        loop {
            if let Some(bytes) = tables.first.get(at) {
                return Some(bytes);
            }
            tables = tables.later.get()?;
        }
    }

    /// Adds the table of today, if it is another than the last; returns whether it was.
    fn add(&self, current: &Arc<SlabTable>) -> bool {
        let mut tables = self;
        while !Arc::ptr_eq(&tables.first, current) {
            let mut added = false;
            tables = tables.later.get_or_init(|| {
                added = true;
                Box::new(Self::new(current.clone()))
            });
            if added {
                return true;
            }
        }
        false
    }
}

/// What can be read from memory, and what is not to be dropped from it.
#[derive(Debug)]
struct MemorySnapshot {
    tables: Tables,
    pin: Pin<MemoryState>,
    // How many sweeps had begun: the tables show what later ones drop, where a hint leads to it.
    sweeps: u64,
}

impl AsRef<Pins> for MemoryState {
    #[inline]
    fn as_ref(&self) -> &Pins {
        &self.pins
    }
}

impl MemorySnapshot {
    #[inline]
    fn at(&self, oid: &Oid, at: Location) -> Option<Object<'_>> {
        let bytes = self.tables.get(at)?;
        let record = Record::parse(bytes).ok()?;
        if record.oid != oid.as_bytes() {
            return None;
        }
        Some(Object::from_record(&record, bytes[..record.bytes() as usize].into(), at))
    }
}

impl Snapshot for MemorySnapshot {
    #[inline]
    fn peek(&self, oid: &[u8], at: Location) -> Option<&[u8]> {
        peek_record(self.tables.first.get(at)?, oid)
    }

    #[inline]
    fn read(&self, at: &ObjRef) -> Result<Option<Object<'_>>, Error> {
        if at.at.is_some()
            && let Some(object) = self.at(&at.oid, at.at)
        {
            return Ok(Some(object));
        }
        loop {
            let Some(found) = self.pin.store().locate(&at.oid) else { return Ok(None) };
            if let Some(object) = self.at(&at.oid, found) {
                return Ok(Some(object));
            }
            // It was appended or moved since the tables were taken; if it moves on meanwhile, there is another.
            if !self.tables.add(&self.pin.store().arena.table()) && self.pin.store().locate(&at.oid) == Some(found) {
                return Ok(None);
            }
        }
    }

    fn locate(&self, oid: &Oid) -> Option<Location> {
        self.pin.store().locate(oid)
    }

    fn position(&self) -> Option<Position> {
        Some(self.pin.position())
    }

    fn sweeps(&self) -> Option<u64> {
        Some(self.sweeps)
    }

    fn keep(&self, root: &Oid) {
        // No sweep is under way.
        let _refs = read_lock(&self.pin.store().refs);
        self.pin.keep(root);
    }

    fn refresh(&mut self, roots: &[Oid]) -> bool {
        let store = self.pin.store().clone();
        let refs = read_lock(&store.refs);
        self.pin.move_to(refs.position, store.batches.count() as u64, roots);
        self.sweeps = store.sweeps.load(Acquire);
        drop(refs);
        store.arena.follow(&mut self.tables.first);
        self.tables.later.take();
        true
    }
}

impl Backend for MemoryBackend {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            persistent: false,
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
        Arc::new(self.0.snapshot(roots))
    }

    fn locate(&self, oid: &Oid) -> Option<Location> {
        self.0.locate(oid)
    }

    fn append(&self, batch: Batch, moves: &[RefMove], _: Durability) -> Result<Location, Error> {
        let shared = &*self.0;
        if moves.is_empty() {
            let _refs = read_lock(&shared.refs);
            shared.check_batch(&batch, moves)?;
            return Ok(shared.keep(batch));
        }
        // The check and the move are one step under the lock of the refs; the objects in between are cheap.
        let mut refs = write_lock(&shared.refs);
        check_moves(moves, |name| refs.by_name.get(name))?;
        shared.check_batch(&batch, moves)?;
        let base = shared.keep(batch);
        refs.position.0 += 1;
        for wanted in moves {
            let before = match wanted.resolved(base) {
                Some(target) => refs.by_name.insert(wanted.name.clone(), target),
                None => refs.by_name.remove(&wanted.name),
            };
            if let Some(before) = before {
                shared.pins.displaced(refs.position, &before);
            }
        }
        Ok(base)
    }

    fn append_keeping(&self, batch: &mut Batch) -> Result<Location, Error> {
        let shared = &*self.0;
        let _refs = read_lock(&shared.refs);
        shared.check_batch(batch, &[])?;
        let base = match shared.arena.keep_copy(batch.bytes()) {
            Some(base) => {
                shared.note(base, batch.bytes().len());
                base
            }
            None => shared.keep(std::mem::take(batch)),
        };
        batch.clear();
        Ok(base)
    }

    fn get_ref(&self, name: &str) -> Result<Option<RefTarget>, Error> {
        Ok(read_lock(&self.0.refs).by_name.get(name).cloned())
    }

    fn list_refs(&self, prefix: &str) -> Result<BTreeMap<String, RefTarget>, Error> {
        let refs = read_lock(&self.0.refs);
        let from = refs.by_name.range(prefix.to_owned()..).take_while(|(name, _)| name.starts_with(prefix));
        Ok(from.map(|(name, target)| (name.clone(), target.clone())).collect())
    }

    fn position(&self) -> Result<Option<Position>, Error> {
        Ok(Some(read_lock(&self.0.refs).position))
    }

    fn sweeps(&self) -> u64 {
        self.0.sweeps.load(Acquire)
    }

    fn sweep(&self, roots: &Roots<'_>, limits: &SweepLimits) -> Result<Swept, Error> {
        self.0.sweep(roots, limits)
    }

    fn flush(&self) -> Result<(), Error> {
        Ok(())
    }

    fn each_object(
        &self,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<(), Error>,
        _: &mut dyn FnMut(Damage),
    ) -> Result<(), Error> {
        self.0.each_wanted(|_| true, each)
    }

    /// Looks at the ids of all objects, and reads those alone that begin so.
    fn each_with_prefix(
        &self,
        prefix: &OidPrefix,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.0.each_wanted(|oid| prefix.matches(oid), each)
    }

    fn stats(&self) -> BackendStats {
        let (bytes, appended) = (self.0.bytes.load(Relaxed), self.0.appended.load(Relaxed));
        let batches = self.0.batches.count() as u64;
        let entries = read_lock(&self.0.index).places.capacity();
        BackendStats {
            bytes_written: appended,
            writes: batches,
            batches,
            store_bytes: bytes,
            memory_bytes: bytes + entries as u64 * 56,
            ..BackendStats::default()
        }
    }

    fn read_derived(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.0.derived.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned())
    }

    fn write_derived(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let mut derived = self.0.derived.lock().unwrap_or_else(PoisonError::into_inner);
        derived.insert(name.to_owned(), bytes.to_vec());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, thread, time::Duration};

    use bristlecone_core::{Kind, Location, ObjRef, Object, Oid, Sink};

    use super::{
        super::arena::{Arena, LONG_BYTES},
        Backend, Batch, Durability, Error, MemoryBackend, Roots, SweepLimits, read_lock,
    };

    fn one(byte: u8) -> (Oid, Batch) {
        let (oid, mut batch) = (Oid::from_array([byte; 32]), Batch::new());
        batch.put(Kind::Contents, oid, b"a value", &[], &[]);
        (oid, batch)
    }

    #[test]
    fn a_batch_is_indexed_though_the_table_was_replaced_while_a_thread_waited() {
        let backend = MemoryBackend::new();
        let state = &backend.0;
        let [(first, before), (second, after)] = [one(1), one(2)];
        backend.append(before, &[], Durability::None).unwrap();
        let index = read_lock(&state.index);
        thread::scope(|scope| {
            scope.spawn(|| state.index_more());
            // The thread waits for the index by then. If it does not yet, the test shows nothing, and does not fail.
            thread::sleep(Duration::from_millis(100));
            // What a sweep does, and an append after it.
            state.arena.leave_slab();
            state.arena.drop_slabs(|_| false);
            backend.append(after, &[], Durability::None).unwrap();
            drop(index);
        });
        assert!(backend.locate(&first).is_some() && backend.locate(&second).is_some());
    }

    #[test]
    fn what_was_looked_up_while_a_sweep_dropped_it_is_not_built_on() {
        let backend = MemoryBackend::new();
        let (gone, batch) = one(1);
        backend.append(batch, &[], Durability::None).unwrap();
        let (begun, found) = (backend.sweeps(), Cell::new(None));
        // What goes is asked for what it names once the sweep has begun.
        let children = |oid: &Oid, _: &Object<'_>, _: &mut dyn FnMut(Oid)| {
            let sweeps = backend.sweeps();
            if sweeps > begun && backend.locate(oid).is_some() {
                found.set(Some(sweeps));
            }
            Ok(())
        };
        assert_eq!(backend.sweep(&Roots::new(&[], &children), &SweepLimits::default()).unwrap().objects, 1);
        let mut next = Batch::since(found.get().expect("it was still found"));
        next.put(Kind::Node, Oid::from_array([2; 32]), b"what names it", &[], &[]);
        next.leave_out(gone);
        let refused = backend.append(next, &[], Durability::None);
        assert!(matches!(&refused, Err(Error::Gone { oids }) if *oids == [gone]), "{refused:?}");
    }

    #[test]
    fn what_was_appended_again_is_dropped_from_both_slabs() {
        let backend = MemoryBackend::new();
        let (oid, long) = (Oid::from_array([1; 32]), vec![7_u8; LONG_BYTES]);
        let append = || {
            let mut batch = Batch::since(backend.sweeps());
            batch.put(Kind::Contents, oid, &long, &[], &[]);
            backend.append(batch, &[], Durability::None).unwrap()
        };
        let places = [append(), append()];
        assert_ne!(places[0], places[1]);
        let children = |_: &Oid, _: &Object<'_>, _: &mut dyn FnMut(Oid)| Ok(());
        assert_eq!(backend.sweep(&Roots::new(&[], &children), &SweepLimits::default()).unwrap().objects, 1);
        for at in places {
            let hinted = ObjRef::new(oid, at);
            assert!(backend.read(&hinted).unwrap().is_none(), "{hinted:?} is still read where it was");
        }
        assert_eq!(backend.stats().store_bytes, 0);
    }

    #[test]
    fn what_is_kept_stays_and_nothing_else_is_seen() {
        let arena = Arena::default();
        let mut places = Vec::new();
        for n in 0..3000usize {
            let run = vec![n as u8 | 1; 8 * (n * 37 % 900) + if n % 500 == 0 { LONG_BYTES } else { 8 }];
            places.push((arena.keep(run.clone()), run));
        }
        for (at, run) in &places {
            assert_eq!(&arena.table().get(*at).unwrap()[..run.len()], &run[..]);
        }
        assert!(arena.table().get(Location(u64::from(u32::MAX))).is_none());
        assert!(arena.table().get(Location(999 << 32)).is_none());
    }

    #[test]
    fn threads_read_while_others_keep() {
        let arena = Arena::default();
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                let arena = &arena;
                scope.spawn(move || {
                    for n in 0..2000usize {
                        let run = vec![thread; 8 + 8 * (n % 50)];
                        let at = arena.keep(run.clone());
                        assert_eq!(&arena.table().get(at).unwrap()[..run.len()], &run[..]);
                    }
                });
            }
        });
    }
}
