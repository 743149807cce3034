//! The memory backend: batches kept as they come, never moved, so that reads borrow them without a lock.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Mutex, RwLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use bristlecone_core::{Location, ObjRef, Object, Oid, Record};

use super::{Backend, BackendStats, Batch, Capabilities, Damage, Durability, RefMove, RefTarget, check_moves, peek_record};
use crate::{Error, oid_map::OidHasher};

/// How many parts the index of ids has, so that writers seldom wait for each other.
const SHARDS: usize = 16;

/// Keeps everything in memory; nothing is ever dropped before the backend is.
#[derive(Debug, Default)]
pub struct MemoryBackend {
    // A location is the number of a batch in the upper 32 bits and an offset in it in the lower ones.
    batches: boxcar::Vec<Box<[u8]>>,
    index: [RwLock<HashMap<Oid, Location, OidHasher>>; SHARDS],
    refs: RwLock<BTreeMap<String, RefTarget>>,
    derived: Mutex<HashMap<String, Vec<u8>>>,
    bytes: AtomicU64,
}

impl MemoryBackend {
    /// Returns an empty backend.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn shard(&self, oid: &Oid) -> &RwLock<HashMap<Oid, Location, OidHasher>> {
        &self.index[oid.padded()[31] as usize % SHARDS]
    }

    #[inline]
    fn at(&self, oid: &Oid, at: Location) -> Option<Object<'_>> {
        let bytes = self.batches.get((at.0 >> 32) as usize)?.get(at.0 as u32 as usize..)?;
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
        let offsets: Vec<(Oid, u32)> = batch.offsets().map(|(oid, at)| (*oid, at)).collect();
        let bytes = batch.into_bytes().into_boxed_slice();
        self.bytes.fetch_add(bytes.len() as u64, Relaxed);
        let base = Location((self.batches.push(bytes) as u64) << 32);
        for (oid, at) in offsets {
            let mut shard = self.shard(&oid).write().expect("no writer panics");
            shard.entry(oid).or_insert(Location(base.0 + u64::from(at)));
        }
        base
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
        }
    }

    #[inline]
    fn peek(&self, oid: &[u8], at: Location) -> Option<&[u8]> {
        let bytes = self.batches.get((at.0 >> 32) as usize)?.get(at.0 as u32 as usize..)?;
        peek_record(bytes, oid)
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
        self.shard(oid).read().expect("no writer panics").get(oid).copied()
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
        for shard in &self.index {
            let entries: Vec<(Oid, Location)> =
                shard.read().expect("no writer panics").iter().map(|(oid, at)| (*oid, *at)).collect();
            for (oid, at) in entries {
                if let Some(object) = self.at(&oid, at) {
                    each(oid, &object)?;
                }
            }
        }
        Ok(())
    }

    fn stats(&self) -> BackendStats {
        let bytes = self.bytes.load(Relaxed);
        let batches = self.batches.count() as u64;
        let entries: usize = self.index.iter().map(|shard| shard.read().expect("no writer panics").capacity()).sum();
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
