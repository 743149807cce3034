//! Appends: what waits becomes one transaction.

use std::{
    collections::BTreeMap,
    sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use bristlecone::{
    Batch, BatchRecord, Durability, Error, Location, Oid, Position, RefMove, RefTarget, Result, check_moves,
};

use super::{
    opened::{OpenStore, SYNC},
    rows::{self, STATE_KEY, State},
};
use crate::env::{Code, WriteTxn};

/// The longest record. LMDB writes a value with one call, the system writes no more than 2 GiB, less a page, with one, and LMDB takes
/// that for a disk that fails. A margin is kept for what stands around a record.
const OBJECT_BYTES_MAX: u64 = (1 << 31) - (1 << 20);
const _: () = assert!(OBJECT_BYTES_MAX + (1 << 16) <= 0x7fff_0000, "one call writes the longest object");

/// What one caller appends: batches, each with its own moves.
#[derive(Debug)]
pub(super) struct CallerAppends {
    pub(super) appends: Vec<(Batch, Vec<RefMove>)>,
    pub(super) durability: Durability,
}

/// Why a transaction could not be filled.
pub(super) enum Failure {
    Code(Code),
    Error(Error),
}

impl From<Code> for Failure {
    fn from(code: Code) -> Self {
        Self::Code(code)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// A transaction that holds what it will.
#[derive(Default)]
struct Filled {
    /// An answer for each append of each caller, if the transaction commits.
    outcomes: Vec<Vec<Result<()>>>,
    /// What refs left, and the position of the move.
    displaced: Vec<(Position, RefTarget)>,
    /// The objects, where a sweep wants to know them.
    noted: Option<Vec<Oid>>,
    state: State,
    batches: u64,
}

impl OpenStore {
    /// Appends all that a caller has, with what others have who wait.
    pub(super) fn append(&self, appends: CallerAppends) -> Vec<Result<()>> {
        let count = appends.appends.len();
        let ready = self.lock.refuse_child().and_then(|()| self.sync_owed());
        let ran = ready.and_then(|()| self.queue.run(appends, |waiting| self.write_group(waiting)));
        ran.unwrap_or_else(|error| vec![Err(error); count])
    }

    /// Writes for all that wait.
    fn write_group(&self, waiting: &[&CallerAppends]) -> Vec<Vec<Result<()>>> {
        let durability = waiting.iter().map(|caller| caller.durability).max().unwrap_or(Durability::None);
        match self.commit_group(waiting, durability) {
            Ok(outcomes) => outcomes,
            Err(error) => waiting.iter().map(|caller| vec![Err(error.clone()); caller.appends.len()]).collect(),
        }
    }

    fn commit_group(&self, waiting: &[&CallerAppends], durability: Durability) -> Result<Vec<Vec<Result<()>>>> {
        let _guard = self.lock.take()?;
        self.poison.check()?;
        let synced = durability == Durability::Synced;
        let batches = || waiting.iter().flat_map(|caller| &caller.appends).map(|(batch, _)| batch);
        let bytes: u64 = batches().map(|batch| batch.bytes().len() as u64).sum();
        loop {
            let mut txn = self.env.write(synced)?;
            let failed = match self.fill(&mut txn, waiting) {
                // Nothing to commit: what was appended before is synced all the same.
                Ok(filled) if filled.batches == 0 => {
                    drop(txn);
                    if synced {
                        self.flush()?;
                    }
                    return Ok(filled.outcomes);
                }
                Ok(filled) => match txn.commit() {
                    Ok(()) => {
                        self.committed(&filled, bytes, durability);
                        return Ok(filled.outcomes);
                    }
                    Err(code) => code,
                },
                Err(Failure::Error(error)) => return Err(error),
                Err(Failure::Code(code)) => {
                    drop(txn);
                    code
                }
            };
            if failed != Code::MAP_FULL {
                return Err(self.commit_failed(failed, bytes));
            }
            self.grow(bytes)?;
        }
    }

    /// Notes what a commit did. The caller holds the store's lock.
    fn committed(&self, filled: &Filled, bytes: u64, durability: Durability) {
        for (position, target) in &filled.displaced {
            self.pins.displaced(*position, target);
        }
        if let (Some(noted), Some(appended)) = (&mut *self.noted(), &filled.noted) {
            noted.extend_from_slice(appended);
        }
        self.position.fetch_max(filled.state.position, AcqRel);
        self.appends.fetch_max(filled.state.appends, AcqRel);
        self.own_appends.store(filled.state.appends, Release);
        let counters = &self.counters;
        counters.bytes.fetch_add(bytes, Relaxed);
        counters.writes.fetch_add(1, Relaxed);
        counters.batches.fetch_add(filled.batches, Relaxed);
        // The data are synced, and for `Synced` the page that makes them count as well.
        counters.syncs.fetch_add(1 + u64::from(durability == Durability::Synced), Relaxed);
        if durability == Durability::Synced {
            self.durable_txn.fetch_max(filled.state.txn, AcqRel);
        }
        if durability == Durability::Grouped && !self.worker.ask(SYNC) {
            // Refs have moved by now, and an error would say that none has: the next append tells of a failure.
            let _ = self.sync_owed();
        }
    }

    /// Puts everything that can be done into a transaction, in the order in which it came.
    fn fill(&self, txn: &mut WriteTxn<'_>, waiting: &[&CallerAppends]) -> Result<Filled, Failure> {
        let noted = self.noted().is_some().then(Vec::new);
        let mut filled = Filled { state: self.state_in(txn)?, noted, ..Filled::default() };
        self.note_foreign(&filled.state);
        let mut value = Vec::new();
        for caller in waiting {
            let mut outcomes = Vec::with_capacity(caller.appends.len());
            for (batch, moves) in &caller.appends {
                outcomes.push(match self.fill_one(txn, batch, moves, &mut filled, &mut value) {
                    // These come before the append has put anything.
                    Err(Failure::Error(
                        error @ (Error::RefMoved { .. }
                        | Error::RefName { .. }
                        | Error::Gone { .. }
                        | Error::TooLarge { .. }),
                    )) => Err(error),
                    Err(failure) => return Err(failure),
                    Ok(()) => Ok(()),
                });
            }
            filled.outcomes.push(outcomes);
        }
        if filled.batches > 0 {
            filled.state.txn = txn.id();
            txn.put(self.meta, STATE_KEY, &filled.state.encode())?;
        }
        Ok(filled)
    }

    fn fill_one(
        &self,
        txn: &mut WriteTxn<'_>,
        batch: &Batch,
        moves: &[RefMove],
        filled: &mut Filled,
        value: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        batch.check_size()?;
        if batch.bytes().len() as u64 > OBJECT_BYTES_MAX {
            check_objects(batch.records().map(|found| found.bytes.len() as u64))?;
        }
        let held = self.held_refs(txn, moves)?;
        check_moves(moves, |name| held.get(name))?;
        self.refuse_gone(txn, batch, moves, &filled.state)?;
        if batch.is_empty() && moves.is_empty() {
            return Ok(());
        }
        filled.batches += 1;
        filled.state.appends += 1;
        self.put_objects(txn, batch, filled.state.appends, value)?;
        if let Some(noted) = &mut filled.noted {
            noted.extend(batch.records().filter_map(|found| Oid::new(found.record.oid).ok()));
        }
        if moves.is_empty() {
            return Ok(());
        }
        filled.state.position += 1;
        for wanted in moves {
            let Some(key) = rows::ref_key(&wanted.name) else { continue };
            match wanted.resolved(Location::NONE) {
                Some(target) => txn.put(self.refs, &key, &rows::encode_ref(&wanted.name, &target))?,
                None => txn.remove(self.refs, &key)?,
            }
            if let Some(before) = held.get(&wanted.name) {
                filled.displaced.push((Position(filled.state.position), before.clone()));
            }
        }
        Ok(())
    }

    /// Returns what the refs hold that are to move.
    fn held_refs(&self, txn: &WriteTxn<'_>, moves: &[RefMove]) -> Result<BTreeMap<String, RefTarget>, Failure> {
        let mut held = BTreeMap::new();
        for wanted in moves {
            let Some(key) = rows::ref_key(&wanted.name) else { continue };
            let Some(value) = txn.get(self.refs, &key)? else { continue };
            match rows::decode_ref(value) {
                Some((name, target)) if name == wanted.name => _ = held.insert(name.to_owned(), target),
                _ => return Err(self.corrupt(txn, value, None, "a ref's bytes have another checksum").into()),
            }
        }
        Ok(held)
    }

    /// Fails if a sweep that began since the batch was made dropped what it or a move needs. What earlier appends of the
    /// group brought is in the transaction. A sweep that is under way leaves the rest of what is needed, so that the batch passes once it
    /// is made again.
    fn refuse_gone(&self, txn: &WriteTxn<'_>, batch: &Batch, moves: &[RefMove], state: &State) -> Result<(), Failure> {
        let (mut gone, needed) = (Vec::new(), batch.needed(moves, state.sweeps));
        for oid in &needed {
            if txn.get(self.objects, oid.as_bytes())?.is_none() {
                gone.push(*oid);
            }
        }
        if gone.is_empty() {
            return Ok(());
        }
        if let Some(noted) = &mut *self.noted() {
            noted.extend(needed);
        }
        Err(Error::Gone { oids: gone }.into())
    }

    /// Puts the objects of a batch that are not there. In the order of their ids, so that those on one page meet it once.
    fn put_objects(
        &self,
        txn: &mut WriteTxn<'_>,
        batch: &Batch,
        append: u64,
        value: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let mut records: Vec<BatchRecord<'_>> = batch.records().collect();
        records.sort_unstable_by_key(|found| found.record.oid);
        for found in records {
            let key = found.record.oid;
            rows::encode_object(value, found.bytes, append);
            let known = txn.put_new(self.objects, key, value)?;
            // One that is damaged is there again. One that came before a snapshot that is held stays as long as that.
            let again = known.is_some_and(|known| match rows::decode_object(key, known) {
                Ok(row) => row.append <= self.snapshot_appends.load(Acquire) && !self.pins.is_empty(),
                Err(_) => true,
            });
            if again {
                txn.put(self.objects, key, value)?;
            }
        }
        Ok(())
    }

    /// Notes whether another process appended since this one did.
    pub(super) fn note_foreign(&self, state: &State) {
        if state.appends != self.own_appends.load(Acquire) {
            self.foreign_appends.fetch_max(state.appends, AcqRel);
        }
    }
}

/// Fails if one of the objects with so many bytes is longer than LMDB can write.
fn check_objects(mut lengths: impl Iterator<Item = u64>) -> Result<()> {
    match lengths.find(|&bytes| bytes > OBJECT_BYTES_MAX) {
        Some(bytes) => Err(Error::TooLarge { what: "an object in LMDB", bytes, bytes_max: OBJECT_BYTES_MAX }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Barrier, thread, time::Duration};

    use bristlecone::{Kind, Sink, engine::FormatTag};

    use super::{super::LmdbOptions, *};

    #[test]
    fn a_sync_that_is_owed_to_grouped_appends_is_made_by_the_next_append() {
        let dir = tempfile::tempdir().unwrap();
        let format = FormatTag { name: "native".to_owned(), version: 1, options: String::new() };
        let store = OpenStore::create(dir.path(), format, &LmdbOptions::default().background(false)).unwrap();
        let append = |byte: u8, durability| {
            let mut batch = Batch::new();
            batch.put(Kind::Contents, Oid::from_array([byte; 32]), b"a value", &[], &[]);
            store.append(CallerAppends { appends: vec![(batch, Vec::new())], durability }).remove(0)
        };
        let syncs = || store.counters.syncs.load(Relaxed);
        append(1, Durability::None).unwrap();
        // As after a sync that could not be made.
        store.worker.owe(SYNC);
        let before = syncs();
        append(2, Durability::None).unwrap();
        assert_eq!(syncs() - before, 2, "what is owed, and the data");
        append(3, Durability::None).unwrap();
        assert_eq!(syncs() - before, 3, "nothing is owed any more");
    }

    #[test]
    fn a_sync_that_finds_no_room_does_not_say_that_nothing_was_committed() {
        let dir = tempfile::tempdir().unwrap();
        let format = FormatTag { name: "native".to_owned(), version: 1, options: String::new() };
        let store = OpenStore::create(dir.path(), format, &LmdbOptions::default()).unwrap();
        let told = store.sync_failed(Error::NoSpace { file: "the pages".to_owned() });
        assert!(matches!(&told, Error::Poisoned { reason } if reason.contains("the pages: no space")), "{told:?}");
        assert!(matches!(store.flush(), Err(Error::Poisoned { .. })));
    }

    #[test]
    fn objects_that_lmdb_cannot_write_with_one_call_are_refused() {
        check_objects([0, OBJECT_BYTES_MAX].into_iter()).unwrap();
        let refused = check_objects([1, OBJECT_BYTES_MAX + 8, 2].into_iter());
        assert!(matches!(refused, Err(Error::TooLarge { bytes, .. }) if bytes == OBJECT_BYTES_MAX + 8), "{refused:?}");
    }

    #[test]
    fn an_append_that_needs_a_larger_map_waits_for_a_sync_that_takes_long() {
        let dir = tempfile::tempdir().unwrap();
        let format = FormatTag { name: "native".to_owned(), version: 1, options: String::new() };
        let store = OpenStore::create(dir.path(), format, &LmdbOptions::default().map_bytes(1 << 20)).unwrap();
        let mut batch = Batch::new();
        batch.put(Kind::Contents, Oid::from_array([1; 32]), &vec![1; 3 << 20], &[], &[]);
        let begun = Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                // What a sync holds.
                let _alone = store.syncing.lock().unwrap();
                let _map = store.env.read().unwrap();
                begun.wait();
                thread::sleep(Duration::from_millis(1500));
            });
            begun.wait();
            let appends = CallerAppends { appends: vec![(batch, Vec::new())], durability: Durability::None };
            store.append(appends).remove(0).unwrap();
        });
    }
}
