//! Sweeping memory: what is left of slabs with dead objects moves, and the slabs are freed once no thread reads them.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, atomic::Ordering::*},
};

use bristlecone_core::{Location, ObjRef, Object, Oid, Record, Sink};

use super::{MemoryIndex, MemoryRefs, MemoryState, read_lock, slab_of, write_lock};
use crate::{
    Error,
    backend::{Batch, Reached, RefTarget, Roots, Snapshot, SweepLimits, Swept},
};

/// Objects that move are appended in runs of this many bytes.
const RUN_BYTES: usize = 1 << 20;

impl MemoryState {
    /// Drops what nothing leads to. It marks beside appends; no thread appends or moves a ref while it decides what goes. Reading
    /// goes on.
    pub(super) fn sweep(self: &Arc<Self>, roots: &Roots<'_>, limits: &SweepLimits) -> Result<Swept, Error> {
        // Taken before the lock, which it needs itself.
        let reader = self.snapshot(&[]);
        let read = |oid: &Oid| reader.read(&ObjRef::from(*oid));
        let mut reached = Reached::default();
        let from = self.refs_and_pins(&read_lock(&self.refs));
        reached.reach(roots, read, from.into_iter().chain(roots.oids.iter().copied()))?;
        let mut refs = write_lock(&self.refs);
        self.sweeps.fetch_add(1, AcqRel);
        // What was appended, moved or kept meanwhile.
        let from = self.refs_and_pins(&refs).into_iter().chain(self.young()).chain(reached.take_absent());
        reached.reach(&roots.unwatched(), read, from)?;
        let dead: Vec<Oid> = self.indexed().places.keys().filter(|oid| !reached.contains(oid)).copied().collect();
        let (dead, swept) = roots.choose(read, &dead, limits)?;
        drop(reader);
        if dead.is_empty() || limits.dry_run {
            return Ok(swept);
        }
        let mut index = write_lock(&self.index);
        let places = dead.iter().filter_map(|(oid, _)| index.places.remove(oid));
        let mut slabs: HashSet<u64> = places.map(|place| slab_of(place.at)).collect();
        // A hint may lead to a copy of what is gone.
        let copies = index.copies.iter().filter(|(oid, _)| !index.places.contains_key(oid));
        slabs.extend(copies.map(|(_, at)| slab_of(*at)));
        index.copies.retain(|(_, at)| !slabs.contains(&slab_of(*at)));
        let moved = self.evacuate(&mut index, &slabs);
        for target in refs.by_name.values_mut() {
            if let RefTarget::Object(at) = target
                && let Some(place) = moved.get(&at.at)
            {
                *at = ObjRef::new(at.oid, *place);
            }
        }
        self.arena.drop_slabs(|number| slabs.contains(&(number as u64)));
        // What was looked up meanwhile may be of what went.
        self.sweeps.fetch_add(1, AcqRel);
        Ok(swept)
    }

    /// Returns what refs lead to, and what snapshots hold.
    fn refs_and_pins(&self, refs: &MemoryRefs) -> Vec<Oid> {
        let mut from = self.pins.roots();
        from.extend(refs.by_name.values().filter_map(|target| match target {
            RefTarget::Object(at) => Some(at.oid),
            RefTarget::Symbolic(_) => None,
        }));
        from
    }

    /// Returns the objects that were appended since the oldest snapshot was taken.
    fn young(&self) -> Vec<Oid> {
        let Some(first) = self.pins.appended() else { return Vec::new() };
        let index = self.indexed();
        index.places.iter().filter(|(_, place)| place.batch >= first).map(|(oid, _)| *oid).collect()
    }

    /// Copies what is left in some slabs into others, and returns where it went.
    fn evacuate(&self, index: &mut MemoryIndex, slabs: &HashSet<u64>) -> HashMap<Location, Location> {
        self.arena.leave_slab();
        let table = self.arena.table();
        let mut left: Vec<(Location, Oid)> = index.places.iter().map(|(oid, place)| (place.at, *oid)).collect();
        left.retain(|(at, _)| slabs.contains(&slab_of(*at)));
        // Children first, as they were appended.
        left.sort_unstable_by_key(|(at, _)| *at);
        let mut run = MoveRun::default();
        for (at, oid) in left {
            let Some((bytes, record)) = table.get(at).and_then(|bytes| Some((bytes, Record::parse(bytes).ok()?)))
            else {
                continue;
            };
            let object = Object::from_record(&record, bytes[..record.bytes() as usize].into(), at);
            run.put(&object, oid, at);
            if run.batch.bytes().len() >= RUN_BYTES {
                self.settle(&mut run, index);
            }
        }
        self.settle(&mut run, index);
        let gone = |slab: &u64| table.get(Location(slab << 32)).map_or(0, |bytes| bytes.len() as u64);
        self.bytes.fetch_sub(slabs.iter().map(gone).sum(), Relaxed);
        run.moved
    }

    /// Keeps a run and notes where its objects are now.
    fn settle(&self, run: &mut MoveRun, index: &mut MemoryIndex) {
        let bytes = std::mem::take(&mut run.batch).into_bytes();
        if bytes.is_empty() {
            return;
        }
        self.bytes.fetch_add(bytes.len() as u64, Relaxed);
        let base = self.arena.keep(bytes);
        for (from, oid, to) in run.pending.drain(..) {
            run.moved.insert(from, to.resolve(base));
            index.places.entry(oid).and_modify(|place| place.at = to.resolve(base));
        }
    }
}

/// Objects that move to another place.
#[derive(Default)]
struct MoveRun {
    batch: Batch,
    /// Where each of the batch was, and where it is in it.
    pending: Vec<(Location, Oid, Location)>,
    moved: HashMap<Location, Location>,
}

impl MoveRun {
    fn put(&mut self, object: &Object<'_>, oid: Oid, at: Location) {
        let child = |index: usize| {
            let old = object.child(index);
            self.moved.get(&old).copied().unwrap_or(old)
        };
        let children: Vec<Location> = (0..object.children()).map(child).collect();
        let metadata: Vec<u64> = (0..).map_while(|index| object.metadata_word(index)).collect();
        let to = self.batch.put(object.kind(), oid, object.body(), &children, &metadata);
        self.pending.push((at, oid, to));
    }
}
