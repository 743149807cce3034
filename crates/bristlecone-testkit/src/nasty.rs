//! A backend that gives no reader more than it was promised.
//!
//! Whenever a snapshot is dropped, every object moves to other memory, and locations that led to one object lead to
//! another. What was there before is overwritten and unmapped, except what a snapshot lent. If the caller says how, it also
//! sweeps each time, so that objects which no snapshot holds are gone at once. Handles made by [`Nasty::beside`] share the
//! store as processes would, each with snapshots that know nothing of those of the others but through the store.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::*},
    },
};

use bristlecone::{
    Backend, BackendStats, Batch, Capabilities, Damage, Durability, Error, Pin, Pins, Position, RefMove, RefTarget,
    Roots, Snapshot, SweepLimits, Swept, check_moves,
};
use bristlecone_core::{Format, Location, ObjRef, Object, Oid, record_bytes};
use memmap2::MmapMut;

/// What freed memory is overwritten with.
const POISON: u8 = 0xdb;

/// Calls its last argument with the id of everything that an object names.
pub type Children = dyn Fn(&Oid, &Object<'_>, &mut dyn FnMut(Oid)) -> Result<(), Error> + Send + Sync;

/// The backend, or one of several handles of it.
pub struct Nasty(Arc<NastyShared>);

struct NastyShared {
    state: Mutex<NastyState>,
    pins: Pins,
    /// How to find what an object names: with it, objects that no snapshot holds are dropped at once.
    children: Option<Box<Children>>,
    sweeps: AtomicU64,
    moves: AtomicU64,
    /// Whether objects go as soon as one has been located.
    sweep_behind_locate: AtomicBool,
    derived: Mutex<HashMap<String, Vec<u8>>>,
}

#[derive(Default)]
struct NastyState {
    /// Objects in the order in which they were appended; a location is a place in it and in the memory of now.
    objects: Vec<KeptRecord>,
    index: HashMap<Oid, usize>,
    refs: BTreeMap<String, RefTarget>,
    position: Position,
    appended: u64,
}

#[derive(Clone)]
struct KeptRecord {
    oid: Oid,
    memory: Arc<RecordMemory>,
    at: Range<usize>,
    /// How many were appended before it, and before it was appended last.
    number: u64,
    again: u64,
}

impl KeptRecord {
    fn record(&self) -> &[u8] {
        &self.memory.0[self.at.clone()]
    }
}

/// Records, one after another. When it is freed it is overwritten and unmapped.
struct RecordMemory(MmapMut);

impl RecordMemory {
    /// Returns memory with these records, and where each is.
    fn new<'r>(records: impl Iterator<Item = &'r [u8]> + Clone) -> (Arc<Self>, Vec<Range<usize>>) {
        let mut map = MmapMut::map_anon(records.clone().map(<[u8]>::len).sum::<usize>().max(1)).expect("memory");
        let mut end = 0;
        let mut place = |record: &[u8]| {
            let start = end;
            end += record.len();
            map[start..end].copy_from_slice(record);
            start..end
        };
        let places = records.map(&mut place).collect();
        (Arc::new(Self(map)), places)
    }
}

impl Drop for RecordMemory {
    fn drop(&mut self) {
        std::hint::black_box(&mut self.0[..]).fill(POISON);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Nasty {
    /// Returns an empty one that moves objects and sweeps when the caller asks for it.
    #[must_use]
    pub fn moving() -> Self {
        Self::with(None)
    }

    /// Returns an empty one that drops objects which no snapshot holds, as soon as a snapshot is dropped.
    #[must_use]
    pub fn sweeping<F: Format>(format: F) -> Self {
        Self::with(Some(Box::new(move |oid, object, each| {
            let decoded = format.children(object.kind(), object.body(), &mut |_, child| each(child));
            decoded.map_err(|source| Error::BadObject { oid: *oid, source })
        })))
    }

    fn with(children: Option<Box<Children>>) -> Self {
        let (sweeps, moves) = (AtomicU64::new(0), AtomicU64::new(0));
        let (state, pins, derived) = (Mutex::default(), Pins::default(), Mutex::default());
        let sweep_behind_locate = AtomicBool::new(false);
        Self(Arc::new(NastyShared { state, pins, children, sweeps, moves, sweep_behind_locate, derived }))
    }

    /// As if a snapshot were dropped by another thread right after the next object that is located: before whoever asked for
    /// it can keep it.
    pub fn sweep_behind_locate(&self) {
        self.0.sweep_behind_locate.store(true, Release);
    }

    /// Returns another handle of the store.
    #[must_use]
    pub fn beside(&self) -> Self {
        Self(self.0.clone())
    }

    /// Returns how often all objects have moved.
    #[must_use]
    pub fn moves(&self) -> u64 {
        self.0.moves.load(Relaxed)
    }
}

impl NastyShared {
    /// Gives every object other memory and another place.
    fn move_all(&self, state: &mut NastyState) {
        self.moves.fetch_add(1, Relaxed);
        let (memory, places) = RecordMemory::new(state.objects.iter().map(KeptRecord::record));
        for (kept, at) in state.objects.iter_mut().zip(places) {
            (kept.memory, kept.at) = (memory.clone(), at);
        }
        // A place of today leads to the object before it from now on.
        if !state.objects.is_empty() {
            state.objects.rotate_left(1);
        }
        state.index = state.objects.iter().enumerate().map(|(place, kept)| (kept.oid, place)).collect();
    }

    /// Drops what nothing leads to.
    fn sweep(
        &self,
        state: &mut NastyState,
        oids: &[Oid],
        children: &EachChild<'_>,
        limits: &SweepLimits,
    ) -> Result<Swept, Error> {
        self.sweeps.fetch_add(1, AcqRel);
        let mut open: Vec<Oid> = self.pins.roots();
        open.extend(oids);
        let young = self.pins.appended().unwrap_or(u64::MAX);
        open.extend(state.objects.iter().filter(|kept| kept.again >= young).map(|kept| kept.oid));
        open.extend(state.refs.values().filter_map(|target| match target {
            RefTarget::Object(at) => Some(at.oid),
            RefTarget::Symbolic(_) => None,
        }));
        let live = reach(state, open, children)?;
        let dead: HashSet<Oid> = state.objects.iter().map(|kept| kept.oid).filter(|oid| !live.contains(oid)).collect();
        let mut swept = Swept::default();
        let mut gone = HashSet::new();
        // The newest first: whatever names an object came after it.
        let mut order: Vec<&KeptRecord> = state.objects.iter().filter(|kept| dead.contains(&kept.oid)).collect();
        order.sort_unstable_by_key(|kept| std::cmp::Reverse(kept.number));
        for kept in order {
            let bytes = kept.record().len() as u64;
            if swept.objects >= limits.objects || swept.bytes.saturating_add(bytes) > limits.bytes {
                swept.more = true;
                break;
            }
            (swept.objects, swept.bytes) = (swept.objects + 1, swept.bytes + bytes);
            gone.insert(kept.oid);
        }
        state.objects.retain(|kept| !gone.contains(&kept.oid));
        self.move_all(state);
        Ok(swept)
    }

    fn release(&self) {
        let mut state = lock(&self.state);
        match &self.children {
            Some(children) => {
                self.sweep(&mut state, &[], children, &SweepLimits::default()).expect("objects that decode");
            }
            None => self.move_all(&mut state),
        }
    }
}

type EachChild<'a> = dyn Fn(&Oid, &Object<'_>, &mut dyn FnMut(Oid)) -> Result<(), Error> + 'a;

fn reach(state: &NastyState, mut open: Vec<Oid>, children: &EachChild<'_>) -> Result<HashSet<Oid>, Error> {
    let mut live = HashSet::new();
    while let Some(oid) = open.pop() {
        let Some(&place) = state.index.get(&oid) else { continue };
        if live.insert(oid) {
            children(&oid, &object(state.objects[place].record(), place), &mut |child| open.push(child))?;
        }
    }
    Ok(live)
}

fn object(record: &[u8], place: usize) -> Object<'_> {
    let (record, bytes) = record_bytes(record).expect("a record of a batch");
    Object::from_record(&record, bytes.into(), Location(place as u64 * 8))
}

/// What is read of it. It holds the memory of what it lent, and nothing else.
struct NastySnapshot {
    shared: Arc<NastyShared>,
    lent: boxcar::Vec<Arc<RecordMemory>>,
    pin: Option<Pin<NastyShared>>,
}

impl AsRef<Pins> for NastyShared {
    fn as_ref(&self) -> &Pins {
        &self.pins
    }
}

impl NastySnapshot {
    /// Holds the memory of an object for as long as the snapshot.
    fn lend(&self, oid: &[u8], at: Option<Location>) -> Option<(&[u8], usize)> {
        let state = lock(&self.shared.state);
        let place = match at {
            Some(at) => usize::try_from(at.0 / 8).ok()?,
            None => *state.index.get(&Oid::new(oid).ok()?)?,
        };
        let kept = state.objects.get(place).filter(|kept| kept.oid.as_bytes() == oid)?;
        let last = self.lent.count().checked_sub(1).and_then(|last| self.lent.get(last));
        let memory = match last.filter(|memory| Arc::ptr_eq(memory, &kept.memory)) {
            Some(memory) => memory,
            None => self.lent.get(self.lent.push(kept.memory.clone()))?,
        };
        Some((&memory.0[kept.at.clone()], place))
    }
}

impl Snapshot for NastySnapshot {
    fn read(&self, at: &ObjRef) -> Result<Option<Object<'_>>, Error> {
        let hinted = if at.at.is_some() { self.lend(at.oid.as_bytes(), Some(at.at)) } else { None };
        let found = hinted.or_else(|| self.lend(at.oid.as_bytes(), None));
        Ok(found.map(|(record, place)| object(record, place)))
    }

    fn peek(&self, oid: &[u8], at: Location) -> Option<&[u8]> {
        Some(self.lend(oid, Some(at))?.0)
    }

    fn locate(&self, oid: &Oid) -> Option<Location> {
        let place = *lock(&self.shared.state).index.get(oid)?;
        if self.shared.sweep_behind_locate.swap(false, AcqRel) {
            self.shared.release();
        }
        Some(Location(place as u64 * 8))
    }

    fn position(&self) -> Option<Position> {
        self.pin.as_ref().map(Pin::position)
    }

    fn keep(&self, root: &Oid) {
        // No sweep is under way.
        let _state = lock(&self.shared.state);
        if let Some(pin) = &self.pin {
            pin.keep(root);
        }
    }

    fn refresh(&mut self, roots: &[Oid]) -> bool {
        let state = lock(&self.shared.state);
        if let Some(pin) = &mut self.pin {
            pin.move_to(state.position, state.appended, roots);
        }
        drop(state);
        self.lent = boxcar::Vec::new();
        self.shared.release();
        true
    }
}

impl Drop for NastySnapshot {
    fn drop(&mut self) {
        drop(self.pin.take());
        self.shared.release();
    }
}

impl Backend for Nasty {
    fn name(&self) -> &'static str {
        "nasty"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            persistent: false,
            atomic_commits: true,
            several_refs: true,
            locations: true,
            processes: true,
            metadata_words: true,
            positions: true,
            sweep: true,
            retention: false,
            git: None,
        }
    }

    fn snapshot(&self, roots: &[Oid]) -> Arc<dyn Snapshot> {
        let state = lock(&self.0.state);
        let pin = Some(Pin::new(self.0.clone(), state.position, state.appended, roots));
        Arc::new(NastySnapshot { shared: self.0.clone(), lent: boxcar::Vec::new(), pin })
    }

    fn append(&self, batch: Batch, moves: &[RefMove], _: Durability) -> Result<Location, Error> {
        let mut state = lock(&self.0.state);
        check_moves(moves, |name| state.refs.get(name))?;
        let mut gone = batch.needed(moves, self.0.sweeps.load(Acquire));
        gone.retain(|oid| !state.index.contains_key(oid));
        if !gone.is_empty() {
            return Err(Error::Gone { oids: gone });
        }
        let (memory, places) =
            RecordMemory::new(batch.records().map(|record| record.bytes).collect::<Vec<_>>().into_iter());
        for (record, at) in batch.records().zip(places) {
            let oid = Oid::new(record.record.oid).expect("an id of a batch");
            let (place, number) = (state.objects.len(), state.appended);
            state.appended += 1;
            if let Some(&known) = state.index.get(&oid) {
                state.objects[known].again = number;
                continue;
            }
            state.objects.push(KeptRecord { oid, memory: memory.clone(), at, number, again: number });
            state.index.insert(oid, place);
        }
        if !moves.is_empty() {
            state.position.0 += 1;
        }
        for wanted in moves {
            // Locations in a batch mean nothing here.
            let before = match wanted.resolved(Location::NONE) {
                Some(target) => state.refs.insert(wanted.name.clone(), target),
                None => state.refs.remove(&wanted.name),
            };
            if let Some(before) = before {
                self.0.pins.displaced(state.position, &before);
            }
        }
        Ok(Location::NONE)
    }

    fn get_ref(&self, name: &str) -> Result<Option<RefTarget>, Error> {
        Ok(lock(&self.0.state).refs.get(name).cloned())
    }

    fn list_refs(&self, prefix: &str) -> Result<BTreeMap<String, RefTarget>, Error> {
        let state = lock(&self.0.state);
        let from = state.refs.range(prefix.to_owned()..).take_while(|(name, _)| name.starts_with(prefix));
        Ok(from.map(|(name, target)| (name.clone(), target.clone())).collect())
    }

    fn position(&self) -> Result<Option<Position>, Error> {
        Ok(Some(lock(&self.0.state).position))
    }

    fn sweeps(&self) -> u64 {
        self.0.sweeps.load(Acquire)
    }

    fn sweep(&self, roots: &Roots<'_>, limits: &SweepLimits) -> Result<Swept, Error> {
        let mut state = lock(&self.0.state);
        self.0.sweep(&mut state, roots.oids, roots.children, limits)
    }

    fn flush(&self) -> Result<(), Error> {
        Ok(())
    }

    fn each_object(
        &self,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<(), Error>,
        _: &mut dyn FnMut(Damage),
    ) -> Result<(), Error> {
        let objects = lock(&self.0.state).objects.clone();
        objects.iter().enumerate().try_for_each(|(place, kept)| each(kept.oid, &object(kept.record(), place)))
    }

    fn stats(&self) -> BackendStats {
        let bytes = lock(&self.0.state).objects.iter().map(|kept| kept.record().len() as u64).sum();
        BackendStats { store_bytes: bytes, memory_bytes: bytes, ..BackendStats::default() }
    }

    fn read_derived(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        Ok(lock(&self.0.derived).get(name).cloned())
    }

    fn write_derived(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        lock(&self.0.derived).insert(name.to_owned(), bytes.to_vec());
        Ok(())
    }
}

impl fmt::Debug for Nasty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nasty({} objects, moved {} times)", lock(&self.0.state).objects.len(), self.moves())
    }
}

impl fmt::Debug for NastySnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NastySnapshot({} records lent)", self.lent.count())
    }
}
