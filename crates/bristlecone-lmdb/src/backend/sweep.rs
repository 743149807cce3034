//! Sweeps: objects that nothing leads to are removed, in transactions of a bounded size.
//!
//! A sweep marks beside appends, in rounds: each looks at what came during the one before. It lists what it did not reach, in the order
//! in which that goes: no object before those that name it. From then on it holds the store's lock for one transaction at a time, and
//! others go first between two of them. What goes is on the list and was not reached by then; what was appended since the sweep began
//! stays, with all below it.
//!
//! What snapshots keep can grow meanwhile: each transaction is filled with new roots shut out, and what they lead to is left out of it.
//! All below a new root is there still, by the order of the list.
//!
//! What another process reads is not known here. A sweep therefore needs the store to itself among processes.

use std::{
    mem, process,
    sync::{
        PoisonError,
        atomic::Ordering::{Acquire, Relaxed, Release},
    },
};

use bristlecone::{
    Error, Oid, Reached, RefTarget, Result, Roots, SweepLimits, SweepList, Swept, engine::StoreLockGuard,
};

use super::{
    append::Failure,
    opened::OpenStore,
    rows::{self, STATE_KEY},
};
use crate::env::{Code, LOCK, WriteTxn};

#[cfg(test)]
mod tests;

/// About as many bytes a transaction writes, of pages that lead to what it removes.
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
    noted: NotedAppends<'s>,
    live: Reached,
    list: SweepList,
}

/// Notes what this process appends, until it is dropped.
struct NotedAppends<'s> {
    store: &'s OpenStore,
    /// Appends of the store when this began.
    first: u64,
}

impl<'s> NotedAppends<'s> {
    /// Begins. The caller holds the store's lock.
    fn begin(store: &'s OpenStore) -> Result<Self> {
        let first = store.state()?.appends;
        *store.noted() = Some(Vec::new());
        Ok(Self { store, first })
    }

    /// Returns what was appended since this was asked last.
    fn take(&self) -> Vec<Oid> {
        self.store.noted().as_mut().map(mem::take).unwrap_or_default()
    }

    /// Whether another process appended since this began. The caller holds the store's lock, and has looked what others did.
    fn are_foreign(&self) -> bool {
        self.first < self.store.foreign_appends.load(Acquire)
    }

    /// Passes over what other processes appended by now. The caller holds the store's lock.
    fn pass_foreign(&mut self) {
        self.first = self.store.foreign_appends.load(Acquire);
    }
}

impl Drop for NotedAppends<'_> {
    fn drop(&mut self) {
        *self.store.noted() = None;
    }
}

impl OpenStore {
    /// Drops what nothing leads to.
    pub(super) fn sweep(&self, roots: &Roots<'_>, limits: &SweepLimits) -> Result<Swept> {
        self.lock.refuse_child()?;
        let _one = self.sweeping.lock().unwrap_or_else(PoisonError::into_inner);
        let guard = self.lock_alone()?;
        let noted = NotedAppends::begin(self)?;
        drop(guard);
        let (live, list) = (Reached::default(), SweepList::default());
        let mut sweep = Sweep { store: self, roots, noted, live, list };
        sweep.mark_beside_appends(self.young_objects(LOOK_BYTES)?)?;
        sweep.choose(limits)?;
        // Choosing may take as long as marking.
        sweep.mark_beside_appends(Vec::new())?;
        let mut stepped = sweep.begin(limits);
        loop {
            if let Some(swept) = sweep.list.after_step(stepped, roots, limits)? {
                return Ok(swept);
            }
            stepped = sweep.go_on();
        }
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
    fn mark_beside_appends(&mut self, mut from: Vec<Oid>) -> Result<()> {
        for _ in 0..ROUNDS_MAX {
            // What comes during the last round stays noted.
            from.append(&mut self.noted.take());
            let before = self.live.objects();
            self.mark(self.roots, mem::take(&mut from))?;
            if self.live.objects() - before < ROUND_OBJECTS {
                break;
            }
        }
        Ok(())
    }

    /// Chooses what goes: what is there and not live.
    fn choose(&mut self, limits: &SweepLimits) -> Result<()> {
        let (store, mut dead) = (self.store, Vec::new());
        let mut each = |oid: Oid, _: u64| dead.extend((!self.live.contains(&oid)).then_some(oid));
        store.each_append_in_parts(LOOK_BYTES, &mut each)?;
        self.list.choose(self.roots, |oid| store.read(oid), &dead, limits)
    }

    /// Marks what refs, snapshots and roots lead to, and some more objects.
    fn mark(&mut self, roots: &Roots<'_>, from: Vec<Oid>) -> Result<()> {
        let store = self.store;
        let from = from.into_iter().chain(self.live.take_absent()).chain(store.ref_targets()?);
        let from = from.chain(roots.oids.iter().copied()).chain(store.pins.roots());
        self.live.reach(roots, |oid| store.read(oid), from)
    }

    /// Marks what came since it was last looked. The caller holds the store's lock.
    fn mark_rest(&mut self) -> Result<()> {
        let noted = self.noted.take();
        self.mark(&self.roots.unwatched(), noted)
    }

    /// Begins to remove what was chosen, or counts it.
    fn begin(&mut self, limits: &SweepLimits) -> Result<()> {
        let store = self.store;
        let _guard = store.lock_alone()?;
        if !limits.dry_run {
            store.begin_sweep()?;
        }
        if self.noted.are_foreign() {
            // Another process had the store meanwhile. What it appended is on no list, and may name what is.
            self.noted.pass_foreign();
            self.mark_rest()?;
            self.choose(limits)?;
        }
        if !limits.dry_run {
            return self.step();
        }
        self.mark_rest()?;
        self.list.count_rest(&self.live);
        Ok(())
    }

    /// Goes on to remove what was chosen, behind others that went first, unless one of them was another process.
    fn go_on(&mut self) -> Result<()> {
        let store = self.store;
        match store.lock_alone() {
            Ok(_guard) if !self.noted.are_foreign() => self.step(),
            // It has the store open, or its lock, or wrote.
            Ok(_) | Err(Error::Locked { .. } | Error::Usage { .. }) => {
                self.list.leave_rest();
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Removes some of what was chosen, unless something leads to it by now. The caller holds the store's lock.
    fn step(&mut self) -> Result<()> {
        self.mark_rest()?;
        let store = self.store;
        // From here on no snapshot keeps anything new.
        let _alone = store.dropping.write().unwrap_or_else(PoisonError::into_inner);
        self.live.reach(&self.roots.unwatched(), |oid| store.read(oid), store.pins.roots())?;
        let (mut dead, dead_bytes) = self.list.next_step(&self.live);
        if dead.is_empty() {
            return Ok(());
        }
        dead.sort_unstable();
        store.commit_step(|txn| {
            for oid in &dead {
                txn.remove(store.objects, oid.as_bytes())?;
            }
            let mut state = store.state_in(txn)?;
            // What was read before may be of what goes: a cache that goes by this number looks again.
            (state.sweeps, state.txn) = (state.sweeps + 1, txn.id());
            Ok(txn.put(store.meta, STATE_KEY, &state.encode())?)
        })?;
        self.list.note_removed(dead.len(), dead_bytes);
        store.sweeps.store(store.state()?.sweeps, Release);
        Ok(())
    }
}
