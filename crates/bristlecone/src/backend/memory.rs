//! The memory backend: batches kept in an arena, never moved, so that reads borrow them without a lock.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Mutex, RwLock, RwLockReadGuard,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use bristlecone_core::{Location, ObjRef, Object, Oid, Record};

use super::{
    Backend, BackendStats, Batch, Capabilities, Damage, Durability, RefMove, RefTarget, arena::Arena, check_moves,
    peek_record,
};
use crate::{Error, oid_map::OidHasher};

/// Keeps everything in memory; nothing is ever dropped before the backend is.
#[derive(Debug, Default)]
pub struct MemoryBackend {
    arena: Arena,
    // Where each batch starts, and its length in bytes.
    batches: boxcar::Vec<(Location, u32)>,
    // Objects by id, of the first so many batches: most are only ever found by location, so batches are
    // indexed when an id is first looked for after them.
    index: RwLock<Index>,
    refs: RwLock<BTreeMap<String, RefTarget>>,
    derived: Mutex<HashMap<String, Vec<u8>>>,
    bytes: AtomicU64,
}

#[derive(Debug, Default)]
struct Index {
    batches: usize,
    places: HashMap<Oid, Location, OidHasher>,
}

impl MemoryBackend {
    /// Returns an empty backend.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    #[inline]
    fn at(&self, oid: &Oid, at: Location) -> Option<Object<'_>> {
        let bytes = self.arena.get(at)?;
        let record = Record::parse(bytes).ok()?;
        if record.oid != oid.as_bytes() {
            return None;
        }
        Some(Object::from_record(&record, bytes[..record.bytes() as usize].into(), at))
    }

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
        self.batches.push((base, length as u32));
    }

    /// Returns the index with every batch in it.
    fn indexed(&self) -> RwLockReadGuard<'_, Index> {
        loop {
            let index = self.index.read().expect("no writer panics");
            if index.batches == self.batches.count() {
                return index;
            }
            drop(index);
            self.index_more();
        }
    }

    fn index_more(&self) {
        let mut index = self.index.write().expect("no writer panics");
        // A batch that is being pushed leaves a gap for a moment; the rest waits for it.
        while let Some(&(base, length)) = self.batches.get(index.batches) {
            let bytes = self.arena.get(base).and_then(|bytes| bytes.get(..length as usize)).unwrap_or_default();
            let mut offset = 0;
            while let Some(record) = bytes.get(offset..).and_then(|rest| Record::parse(rest).ok()) {
                if let Ok(oid) = Oid::new(record.oid) {
                    index.places.entry(oid).or_insert(Location(base.0 + offset as u64));
                }
                offset += (record.bytes() as usize).next_multiple_of(8);
            }
            index.batches += 1;
        }
    }
}

impl Backend for MemoryBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "memory",
            persistent: false,
            atomic_commits: true,
            several_refs: true,
            locations: true,
            processes: false,
            words: true,
            git: None,
        }
    }

    #[inline]
    fn peek(&self, oid: &[u8], at: Location) -> Option<&[u8]> {
        peek_record(self.arena.get(at)?, oid)
    }

    #[inline]
    fn read(&self, at: &ObjRef) -> Result<Option<Object<'_>>, Error> {
        if at.at.is_some()
            && let Some(object) = self.at(&at.oid, at.at)
        {
            return Ok(Some(object));
        }
        Ok(self.locate(&at.oid).and_then(|found| self.at(&at.oid, found)))
    }

    fn locate(&self, oid: &Oid) -> Option<Location> {
        self.indexed().places.get(oid).copied()
    }

    fn append(&self, batch: Batch, moves: &[RefMove], _: Durability) -> Result<Location, Error> {
        if moves.is_empty() {
            return Ok(self.keep(batch));
        }
        // The check and the move are one step under the lock of the refs; the objects in between are cheap.
        let mut refs = self.refs.write().expect("no writer panics");
        check_moves(moves, |name| refs.get(name))?;
        let base = self.keep(batch);
        for wanted in moves {
            match wanted.resolved(base) {
                Some(target) => refs.insert(wanted.name.clone(), target),
                None => refs.remove(&wanted.name),
            };
        }
        Ok(base)
    }

    fn append_keeping(&self, batch: &mut Batch) -> Result<(), Error> {
        match self.arena.keep_copy(batch.bytes()) {
            Some(base) => self.note(base, batch.bytes().len()),
            None => _ = self.keep(std::mem::take(batch)),
        }
        batch.clear();
        Ok(())
    }

    fn get_ref(&self, name: &str) -> Result<Option<RefTarget>, Error> {
        Ok(self.refs.read().expect("no writer panics").get(name).cloned())
    }

    fn list_refs(&self, prefix: &str) -> Result<BTreeMap<String, RefTarget>, Error> {
        let refs = self.refs.read().expect("no writer panics");
        let from = refs.range(prefix.to_owned()..).take_while(|(name, _)| name.starts_with(prefix));
        Ok(from.map(|(name, target)| (name.clone(), target.clone())).collect())
    }

    fn flush(&self) -> Result<(), Error> {
        Ok(())
    }

    fn each_object(
        &self,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<(), Error>,
        _: &mut dyn FnMut(Damage),
    ) -> Result<(), Error> {
        let places: Vec<(Oid, Location)> = self.indexed().places.iter().map(|(oid, at)| (*oid, *at)).collect();
        for (oid, at) in places {
            if let Some(object) = self.at(&oid, at) {
                each(oid, &object)?;
            }
        }
        Ok(())
    }

    fn stats(&self) -> BackendStats {
        let bytes = self.bytes.load(Relaxed);
        let batches = self.batches.count() as u64;
        let entries = self.index.read().expect("no writer panics").places.capacity();
        BackendStats {
            bytes_written: bytes,
            writes: batches,
            batches,
            store_bytes: bytes,
            memory_bytes: bytes + entries as u64 * 48,
            ..BackendStats::default()
        }
    }

    fn read_derived(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.derived.lock().expect("no writer panics").get(name).cloned())
    }

    fn write_derived(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        self.derived.lock().expect("no writer panics").insert(name.to_owned(), bytes.to_vec());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bristlecone_core::Location;

    use super::super::arena::{Arena, LONG_BYTES};

    #[test]
    fn what_is_kept_stays_and_nothing_else_is_seen() {
        let arena = Arena::default();
        let mut places = Vec::new();
        for n in 0..3000usize {
            let run = vec![n as u8 | 1; 8 * (n * 37 % 900) + if n % 500 == 0 { LONG_BYTES } else { 8 }];
            places.push((arena.keep(run.clone()), run));
        }
        for (at, run) in &places {
            assert_eq!(&arena.get(*at).unwrap()[..run.len()], &run[..]);
        }
        assert!(arena.get(Location(u64::from(u32::MAX))).is_none());
        assert!(arena.get(Location(999 << 32)).is_none());
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
                        assert_eq!(&arena.get(at).unwrap()[..run.len()], &run[..]);
                    }
                });
            }
        });
    }
}
