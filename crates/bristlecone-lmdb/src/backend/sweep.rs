//! Sweeps: objects that nothing leads to are removed, in transactions of a bounded size.
//!
//! A sweep marks beside appends, in rounds: each looks at what came during the one before. It lists what it did not reach, and from then
//! on holds the store's lock, so no ref moves and nothing is appended. What goes is on the list and was not reached by then; what was
//! appended since the sweep began stays, with all below it.
//!
//! What snapshots keep can grow meanwhile: each transaction is chosen with new roots shut out, and what they lead to is left out of it.
//! No object is removed before those that name it, so all below a new root is there still.
//!
//! What another process reads is not known here. A sweep therefore needs the store to itself among processes.

use std::{
    collections::HashMap,
    process,
    sync::{
        PoisonError,
        atomic::Ordering::{Acquire, Relaxed, Release},
    },
};

use bristlecone::{Error, Oid, Reached, RefTarget, Result, Roots, SweepLimits, Swept, engine::StoreLockGuard};

use super::{
    append::Failure,
    opened::OpenStore,
    rows::{self, STATE_KEY},
};
use crate::env::{Code, LOCK, WriteTxn};

/// One transaction removes this many objects at most.
const STEP_OBJECTS: usize = 4096;
/// About as many bytes, of pages that lead to those, it writes.
const STEP_BYTES: u64 = 1 << 24;

/// Rounds beside appends. What so few objects bring during one waits until appends do.
const ROUNDS_MAX: usize = 24;
const ROUND_OBJECTS: usize = 1 << 10;
/// Beside appends, one transaction looks at about so many bytes of objects: as long as it is open no page that appends free is used
/// again, and the map makes no room for a larger one.
const LOOK_BYTES: usize = 1 << 22;

/// What a sweep goes through.
struct Sweep<'s> {
    store: &'s OpenStore,
    roots: &'s Roots<'s>,
    live: Reached,
    /// Objects that were there and not live when they were listed.
    unreached: Vec<Oid>,
    /// How many dead objects name each.
    named: HashMap<Oid, u32>,
    /// Dead objects that no dead one names.
    next: Vec<Oid>,
}

/// Notes what this process appends, until it is dropped.
struct NotedAppends<'s>(&'s OpenStore);

impl<'s> NotedAppends<'s> {
    /// Begins. The caller holds the store's lock.
    fn begin(store: &'s OpenStore) -> Self {
        *store.noted() = Some(Vec::new());
        Self(store)
    }

    /// Returns what was appended since this was asked last.
    fn take(&self) -> Vec<Oid> {
        self.0.noted().as_mut().map(std::mem::take).unwrap_or_default()
    }
}

impl Drop for NotedAppends<'_> {
    fn drop(&mut self) {
        *self.0.noted() = None;
    }
}

impl OpenStore {
    /// Drops what nothing leads to.
    pub(super) fn sweep(&self, roots: &Roots<'_>, limits: &SweepLimits) -> Result<Swept> {
        self.lock.refuse_child()?;
        let _one = self.sweeping.lock().unwrap_or_else(PoisonError::into_inner);
        let guard = self.lock_alone()?;
        let (noted, appends) = (NotedAppends::begin(self), self.state()?.appends);
        drop(guard);
        let (live, unreached, named) = (Reached::default(), Vec::new(), HashMap::new());
        let mut sweep = Sweep { store: self, roots, live, unreached, named, next: Vec::new() };
        sweep.mark_beside_appends(&noted)?;
        sweep.list_unreached()?;
        let _guard = self.lock_alone()?;
        if !limits.dry_run {
            self.begin_sweep()?;
        }
        sweep.mark(noted.take())?;
        if appends < self.foreign_appends.load(Acquire) {
            // Another process had the store meanwhile. What it appended is on no list, and may name what is.
            sweep.list_unreached()?;
        }
        sweep.find_dead()?;
        let unwatched = roots.unwatched();
        // Who is told how far it is may take a snapshot.
        sweep.roots = &unwatched;
        let mut swept = Swept::default();
        while !sweep.next.is_empty() && !swept.more {
            sweep.step(limits, &mut swept)?;
        }
        Ok(swept)
    }

    /// Takes the store's lock, if no other process has a claim on the store.
    fn lock_alone(&self) -> Result<StoreLockGuard<'_>> {
        let guard = self.lock.take()?;
        self.poison.check()?;
        self.refuse_others()?;
        Ok(guard)
    }

    /// Fails if another process has the store open, or wrote since a snapshot was taken that is held: what that snapshot
    /// shows is then not known here.
    fn refuse_others(&self) -> Result<()> {
        self.env.clear_dead_readers()?;
        let other = self.env.readers()?.into_iter().find(|reader| reader.process != process::id());
        if let Some(other) = other {
            let holder = format!("process {}, which has the store open", other.process);
            return Err(Error::Locked { file: self.env.describe(LOCK), holder, waited_ms: 0 });
        }
        self.note_foreign(&self.state()?);
        match self.pins.appended() {
            Some(first) if first < self.foreign_appends.load(Acquire) => {
                let reason = "a snapshot is held that is older than what another process wrote; drop it or refresh it, \
                              and sweep again";
                Err(Error::Usage { reason })
            }
            _ => Ok(()),
        }
    }

    /// Counts the sweep, before it looks at anything: what a batch left out before is looked for when that is appended.
    fn begin_sweep(&self) -> Result<()> {
        self.commit_step(|txn| {
            let mut state = self.state_in(txn)?;
            (state.sweeps, state.txn) = (state.sweeps + 1, txn.id());
            Ok(txn.put(self.meta, STATE_KEY, &state.encode())?)
        })?;
        self.sweeps.store(self.state()?.sweeps, Release);
        Ok(())
    }

    /// Commits a transaction, made again with a larger map if need be.
    fn commit_step(&self, fill: impl Fn(&mut WriteTxn<'_>) -> Result<(), Failure>) -> Result<()> {
        loop {
            let mut txn = self.env.write(false)?;
            let filled = fill(&mut txn);
            match filled.and_then(|()| Ok(txn.commit()?)) {
                Ok(()) => break,
                Err(Failure::Code(Code::MAP_FULL)) => self.grow(STEP_BYTES)?,
                Err(Failure::Code(code)) => return Err(self.commit_failed(code, STEP_BYTES)),
                Err(Failure::Error(error)) => return Err(error),
            }
        }
        self.counters.writes.fetch_add(1, Relaxed);
        self.counters.syncs.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Returns what refs lead to.
    fn ref_targets(&self) -> Result<Vec<Oid>> {
        let failed = |code| self.env.error(code);
        let txn = self.env.read()?;
        let mut scan = txn.scan(self.refs, &[]).map_err(failed)?;
        let mut found = Vec::new();
        while let Some((_, value)) = scan.next().map_err(failed)? {
            match rows::decode_ref(value) {
                Some((_, RefTarget::Object(at))) => found.push(at.oid),
                Some((_, RefTarget::Symbolic(_))) => {}
                None => return Err(self.corrupt(&txn, value, None, "a ref's bytes have another checksum")),
            }
        }
        Ok(found)
    }

    /// Returns the objects that were appended since the oldest snapshot was taken, looking at so many bytes at a time.
    fn young_objects(&self, bytes_max: usize) -> Result<Vec<Oid>> {
        let mut young = Vec::new();
        let Some(first) = self.pins.appended() else { return Ok(young) };
        let mut each = |oid: Oid, append: u64| young.extend((append > first).then_some(oid));
        self.each_append_in_parts(bytes_max, &mut each)?;
        Ok(young)
    }

    /// Calls `each` as [`OpenStore::each_append`] for all objects, in a transaction for each so many bytes.
    fn each_append_in_parts(&self, bytes_max: usize, each: &mut dyn FnMut(Oid, u64)) -> Result<()> {
        let mut from = Some(Vec::new());
        while let Some(key) = from {
            from = self.each_append(&key, bytes_max, each)?;
        }
        Ok(())
    }

    /// Calls `each` with the objects from a key on, and the number of the append that wrote each last. It ends behind so many bytes of
    /// objects, and returns the key to go on from.
    fn each_append(&self, from: &[u8], bytes_max: usize, each: &mut dyn FnMut(Oid, u64)) -> Result<Option<Vec<u8>>> {
        let failed = |code| self.env.error(code);
        let txn = self.env.read()?;
        let mut scan = txn.scan(self.objects, from).map_err(failed)?;
        let mut bytes = 0;
        while let Some((key, value)) = scan.next().map_err(failed)? {
            if bytes >= bytes_max {
                return Ok(Some(key.to_vec()));
            }
            bytes += value.len();
            let oid = Oid::new(key).map_err(|_| self.corrupt(&txn, key, None, "an object's key is no id"))?;
            match rows::decode_object(key, value) {
                Ok(row) => each(oid, row.append),
                Err(reason) => return Err(self.corrupt(&txn, value, Some(oid), reason)),
            }
        }
        Ok(None)
    }
}

impl Sweep<'_> {
    /// Marks what is live, and what becomes so meanwhile, until that is little.
    fn mark_beside_appends(&mut self, appends: &NotedAppends<'_>) -> Result<()> {
        let mut from = self.store.young_objects(LOOK_BYTES)?;
        for _ in 0..ROUNDS_MAX {
            // What comes during the last round stays noted for the caller.
            from.append(&mut appends.take());
            let before = self.live.objects();
            self.mark(std::mem::take(&mut from))?;
            if self.live.objects() - before < ROUND_OBJECTS {
                break;
            }
        }
        Ok(())
    }

    /// Lists what is there and not live.
    fn list_unreached(&mut self) -> Result<()> {
        self.unreached.clear();
        let Self { store, live, unreached, .. } = self;
        let mut each = |oid: Oid, _: u64| unreached.extend((!live.contains(&oid)).then_some(oid));
        store.each_append_in_parts(LOOK_BYTES, &mut each)
    }

    /// Marks what refs, snapshots and roots lead to, and some more objects.
    fn mark(&mut self, from: Vec<Oid>) -> Result<()> {
        let absent = self.live.take_absent();
        let roots = self.roots.oids.iter().copied();
        let refs = self.store.ref_targets()?;
        self.reach(from.into_iter().chain(absent).chain(refs).chain(roots).chain(self.store.pins.roots()))
    }

    /// Adds to what is live all that some objects lead to.
    fn reach(&mut self, from: impl IntoIterator<Item = Oid>) -> Result<()> {
        self.live.reach(self.roots, |oid| self.store.read(oid), from)
    }

    /// Calls `each` with what an object names; with nothing if it is absent.
    fn each_child(&self, oid: &Oid, each: &mut dyn FnMut(Oid)) -> Result<()> {
        match self.store.read(oid)? {
            Some(object) => (self.roots.children)(oid, &object, each),
            None => Ok(()),
        }
    }

    /// Counts how often each dead object is named by others.
    fn find_dead(&mut self) -> Result<()> {
        let unreached = std::mem::take(&mut self.unreached);
        let dead: Vec<Oid> = unreached.into_iter().filter(|oid| !self.live.contains(oid)).collect();
        let mut named: HashMap<Oid, u32> = dead.iter().map(|oid| (*oid, 0)).collect();
        for oid in &dead {
            self.each_child(oid, &mut |child| _ = named.entry(child).and_modify(|count| *count += 1))?;
        }
        self.next = dead.into_iter().filter(|oid| named[oid] == 0).collect();
        self.named = named;
        Ok(())
    }

    /// Removes some dead objects, which none of the rest names.
    fn step(&mut self, limits: &SweepLimits, swept: &mut Swept) -> Result<()> {
        let store = self.store;
        let _alone = store.dropping.write().unwrap_or_else(PoisonError::into_inner);
        self.reach(store.pins.roots())?;
        let mut chosen = Vec::new();
        while chosen.len() < STEP_OBJECTS {
            let Some(oid) = self.next.pop() else { break };
            if self.live.contains(&oid) {
                continue;
            }
            let bytes = store.read_bytes(&oid)?.unwrap_or(0);
            if swept.objects >= limits.objects || swept.bytes.saturating_add(bytes) > limits.bytes {
                swept.more = true;
                continue;
            }
            (swept.objects, swept.bytes) = (swept.objects + 1, swept.bytes + bytes);
            let (mut free, named) = (Vec::new(), &mut self.named);
            if let Some(object) = store.read(&oid)? {
                (self.roots.children)(&oid, &object, &mut |child| {
                    if let Some(count) = named.get_mut(&child) {
                        *count -= 1;
                        free.extend((*count == 0).then_some(child));
                    }
                })?;
            }
            self.next.append(&mut free);
            chosen.push(oid);
        }
        if limits.dry_run {
            return Ok(());
        }
        chosen.sort_unstable();
        store.commit_step(|txn| {
            for oid in &chosen {
                txn.remove(store.objects, oid.as_bytes())?;
            }
            let mut state = store.state_in(txn)?;
            // What was read before may be of what goes: a cache that goes by this number looks again.
            (state.sweeps, state.txn) = (state.sweeps + 1, txn.id());
            Ok(txn.put(store.meta, STATE_KEY, &state.encode())?)
        })?;
        store.sweeps.store(store.state()?.sweeps, Release);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, path::Path, sync::Arc};

    use bristlecone::{Batch, Durability, Kind, Object, Sink, SweepStatus, engine::FormatTag};

    use super::{
        super::{LmdbOptions, append::CallerAppends, snapshot::LmdbSnapshot},
        *,
    };

    fn make(dir: &Path) -> Arc<OpenStore> {
        let format = FormatTag { name: "native".to_owned(), version: 1, options: String::new() };
        OpenStore::create(dir, format, &LmdbOptions::default().map_bytes(1 << 20)).unwrap()
    }

    fn oid(number: u16) -> Oid {
        let mut bytes = [0; 32];
        bytes[..2].copy_from_slice(&number.to_be_bytes());
        Oid::from_array(bytes)
    }

    fn append(store: &OpenStore, oids: &[Oid]) {
        let mut batch = Batch::new();
        for oid in oids {
            batch.put(Kind::Contents, *oid, b"a value", &[], &[]);
        }
        let appends = CallerAppends { appends: vec![(batch, Vec::new())], durability: Durability::None };
        store.append(appends).remove(0).unwrap();
    }

    #[test]
    fn the_map_can_grow_between_the_parts_in_which_objects_are_looked_at() {
        let dir = tempfile::tempdir().unwrap();
        let store = make(dir.path());
        append(&store, &[oid(2)]);
        assert!(store.young_objects(1).unwrap().is_empty(), "no snapshot is held");
        let snapshot = LmdbSnapshot::take(&store, &[]);
        [4, 1, 3].into_iter().for_each(|number| append(&store, &[oid(number)]));
        let (mut met, mut from) = (Vec::new(), Some(Vec::new()));
        while let Some(key) = from {
            from = store.each_append(&key, 1, &mut |oid, _| met.push(oid)).unwrap();
            store.grow(1 << 20).unwrap();
        }
        assert_eq!(met, [1, 2, 3, 4].map(oid));
        assert_eq!(store.young_objects(1).unwrap(), [1, 3, 4].map(oid));
        assert_eq!(store.young_objects(LOOK_BYTES).unwrap(), [1, 3, 4].map(oid));
        drop(snapshot);
    }

    #[test]
    fn what_is_appended_beside_a_sweep_stays_with_all_below_it() {
        let dir = tempfile::tempdir().unwrap();
        let store = make(dir.path());
        let live: Vec<Oid> = (1..=300).map(oid).collect();
        let [named, gone, new] = [1001, 1002, 1003].map(oid);
        append(&store, &live);
        append(&store, &[named, gone]);
        let told = Cell::new(false);
        let watch = |_: &SweepStatus| -> Result<()> {
            if !told.replace(true) {
                append(&store, &[new]);
            }
            Ok(())
        };
        let children = |oid: &Oid, _: &Object<'_>, each: &mut dyn FnMut(Oid)| -> Result<()> {
            if *oid == new {
                each(named);
            }
            Ok(())
        };
        let swept = store.sweep(&Roots::new(&live, &children).watch(&watch), &SweepLimits::default()).unwrap();
        assert!(told.get());
        assert_eq!(swept.objects, 1);
        assert_eq!([named, gone, new].map(|oid| store.locate(&oid).is_some()), [true, false, true]);
        // Nothing leads to them: the next sweep drops them.
        let swept = store.sweep(&Roots::new(&live, &children), &SweepLimits::default()).unwrap();
        assert_eq!(swept.objects, 2);
    }

    #[test]
    fn what_is_appended_during_the_last_round_beside_appends_stays() {
        let dir = tempfile::tempdir().unwrap();
        let store = make(dir.path());
        // A round marks so many, and as many come meanwhile.
        let many: u16 = 1280;
        assert!(usize::from(many) >= ROUND_OBJECTS, "another round follows");
        let batch = |number: u16| -> Vec<Oid> { (number * many..(number + 1) * many).map(oid).collect() };
        let live = batch(0);
        append(&store, &live);
        let rounds = Cell::new(0_u16);
        let watch = |status: &SweepStatus| -> Result<()> {
            if usize::from(rounds.get()) < ROUNDS_MAX && status.objects % u64::from(many) == 256 {
                rounds.set(rounds.get() + 1);
                append(&store, &batch(rounds.get()));
            }
            Ok(())
        };
        let children = |_: &Oid, _: &Object<'_>, _: &mut dyn FnMut(Oid)| -> Result<()> { Ok(()) };
        let swept = store.sweep(&Roots::new(&live, &children).watch(&watch), &SweepLimits::default()).unwrap();
        assert_eq!((usize::from(rounds.get()), swept.objects), (ROUNDS_MAX, 0));
    }
}
