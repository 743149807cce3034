//! Appending: objects first, one file each, then all moves of refs in one step.
//!
//! A leader writes for all callers of a group, with the store's lock held. Files are written in `new/`, synced where the
//! group is, noted in `unsynced`, and only then get the names under which they are found. So whatever is found and not
//! noted is durable.

use std::sync::{Arc, atomic::Ordering::*};

use bristlecone_core::{Location, Oid, Sink};

use super::{
    files::NEW,
    object,
    state::{FLUSH, FsState, OwnObject, Writer},
    table::RefTable,
    unsynced::UnsyncedObject,
};
use crate::{
    Error,
    backend::{Batch, Durability, RefMove, check_moves},
    oid_map::OidSet,
    storage::StorageFile,
    sync::read_lock,
};

/// Files that are synced together.
const SYNCED_AT_ONCE: usize = 64;
/// Objects that stay open until they are synced, at most.
const OPEN_MAX: usize = 128;

/// What one caller appends, each batch with its moves.
#[derive(Debug)]
pub(super) struct CallerAppends {
    pub(super) appends: Vec<(Batch, Vec<RefMove>)>,
    pub(super) durability: Durability,
}

/// Objects that were written and are not found yet.
#[derive(Debug, Default)]
struct NewObjects {
    list: Vec<NewObject>,
    /// Those that are not synced yet of a group that is.
    open: Vec<(String, Arc<dyn StorageFile>)>,
    /// Every object of the group, also those that were there.
    appended: Vec<Oid>,
}

#[derive(Debug)]
struct NewObject {
    noted: UnsyncedObject,
    part: String,
    file: Option<Arc<dyn StorageFile>>,
}

impl FsState {
    /// Appends what one caller brought, alone or together with callers that come at the same time.
    pub(super) fn append(&self, item: CallerAppends) -> Vec<Result<Location, Error>> {
        let count = item.appends.len();
        let ready = || self.lock.refuse_child().and_then(|()| self.flush_owed());
        let may_append = if self.read_only { Err(Error::ReadOnly) } else { ready() };
        let outcomes = may_append.and_then(|()| self.queue.run(item, |items| self.write_items(items)));
        let outcomes = outcomes.unwrap_or_else(|error| vec![Err(error); count]);
        outcomes.into_iter().map(|outcome| outcome.map(|()| Location::NONE)).collect()
    }

    /// Writes for all callers of a group.
    fn write_items(&self, items: &[&CallerAppends]) -> Vec<Vec<Result<(), Error>>> {
        let durability = items.iter().map(|item| item.durability).max().unwrap_or_default();
        let appends: Vec<&(Batch, Vec<RefMove>)> = items.iter().flat_map(|item| &item.appends).collect();
        let mut outcomes = vec![Ok(()); appends.len()];
        if let Err(error) = self.locked(|writer| self.write_group(writer, &appends, durability, &mut outcomes)) {
            outcomes.iter_mut().filter(|outcome| outcome.is_ok()).for_each(|outcome| *outcome = Err(error.clone()));
        }
        let mut outcomes = outcomes.into_iter();
        items.iter().map(|item| outcomes.by_ref().take(item.appends.len()).collect()).collect()
    }

    fn write_group(
        &self,
        writer: &mut Writer,
        appends: &[&(Batch, Vec<RefMove>)],
        durability: Durability,
        outcomes: &mut [Result<(), Error>],
    ) -> Result<(), Error> {
        if writer.own.len() > self.unsynced_max {
            self.make_durable(writer, None)?;
        }
        let synced = self.always_synced || durability == Durability::Synced;
        let table = self.plan(appends, outcomes)?;
        let batches =
            appends.iter().zip(&*outcomes).filter(|(_, outcome)| outcome.is_ok()).map(|((batch, _), _)| batch);
        let moves = table.is_some();
        let appended = self.write_objects(writer, batches, synced, moves)?;
        match table {
            _ if synced => self.make_durable(writer, table)?,
            Some(table) => {
                writer.moved = true;
                self.write_refs(table, false)?;
            }
            None => {}
        }
        self.writes.fetch_add(u64::from(moves || !appended.is_empty()), Relaxed);
        self.batches.fetch_add(outcomes.iter().filter(|outcome| outcome.is_ok()).count() as u64, Relaxed);
        self.know(appended.into_iter());
        if durability == Durability::Grouped && !synced {
            self.worker.ask(FLUSH);
        }
        Ok(())
    }

    /// Answers the appends that cannot be, and returns the refs as the others leave them, if one of them moves any.
    fn plan(
        &self,
        appends: &[&(Batch, Vec<RefMove>)],
        outcomes: &mut [Result<(), Error>],
    ) -> Result<Option<RefTable>, Error> {
        let known = read_lock(&self.refs);
        let mut next: Option<RefTable> = None;
        // Those that will be appended: a later one may lead a ref to what an earlier one has.
        let mut brought: Vec<&Batch> = Vec::with_capacity(appends.len());
        for ((batch, moves), outcome) in appends.iter().zip(outcomes) {
            let table = next.as_ref().unwrap_or(&known.table);
            let checked = batch.check_size().and_then(|()| check_moves(moves, |name| table.by_name.get(name)));
            *outcome = match checked {
                Ok(()) => self.refuse_gone(batch, moves, known.table.sweeps, &brought)?,
                refused => refused,
            };
            if outcome.is_err() {
                continue;
            }
            brought.push(batch);
            if moves.is_empty() {
                continue;
            }
            let table = next.get_or_insert_with(|| known.table.clone());
            table.position.0 += 1;
            for wanted in moves {
                match wanted.resolved(Location::NONE) {
                    Some(target) => _ = table.by_name.insert(wanted.name.clone(), target),
                    None => _ = table.by_name.remove(&wanted.name),
                }
            }
        }
        Ok(next)
    }

    /// Answers a batch that needs, or a move of which needs, what a sweep dropped since. A sweep that is under way leaves the rest of
    /// what it needs, so that it passes once it is made again. An error of the outer result is one of looking.
    fn refuse_gone(
        &self,
        batch: &Batch,
        moves: &[RefMove],
        sweeps: u64,
        brought: &[&Batch],
    ) -> Result<Result<(), Error>, Error> {
        let (mut gone, needed) = (Vec::new(), batch.needed(moves, sweeps));
        for oid in &needed {
            let is_there = || self.knows(oid) || brought.iter().any(|earlier| earlier.known(oid).is_some());
            if !is_there() && self.files.stat(&object::path_of(oid))?.is_none() {
                gone.push(*oid);
            }
        }
        if gone.is_empty() {
            return Ok(Ok(()));
        }
        self.note(&needed);
        Ok(Err(Error::Gone { oids: gone }))
    }

    /// Writes the objects that are not there whole, and returns all of them.
    fn write_objects<'b>(
        &self,
        writer: &mut Writer,
        batches: impl Iterator<Item = &'b Batch>,
        synced: bool,
        moves: bool,
    ) -> Result<Vec<Oid>, Error> {
        let mut new = NewObjects::default();
        let written = self.write_parts(&mut new, batches, synced, OPEN_MAX.saturating_sub(writer.open));
        let done = written.and_then(|()| {
            self.note(&new.appended);
            self.name_objects(writer, &mut new, synced, moves)
        });
        if done.is_err() {
            // What has no name yet is of no use. The next process that opens the store removes it otherwise.
            new.list.iter().for_each(|object| _ = self.files.remove(&object.part));
        }
        done.map(|()| new.appended)
    }

    /// Writes the files in the folder of new ones, durably in a group that is.
    fn write_parts<'b>(
        &self,
        new: &mut NewObjects,
        batches: impl Iterator<Item = &'b Batch>,
        synced: bool,
        open_max: usize,
    ) -> Result<(), Error> {
        let (mut bytes, mut seen) = (Vec::new(), OidSet::default());
        let since = read_lock(&self.refs).durable_serial;
        for found in batches.flat_map(Batch::records) {
            let Ok(oid) = Oid::new(found.record.oid) else { continue };
            if !seen.insert(oid) {
                continue;
            }
            new.appended.push(oid);
            let whole = if self.knows(&oid) { Some(true) } else { object::is_whole(&self.files, &oid)? };
            let damaged = match whole {
                Some(true) => continue,
                Some(false) => self.files.stat(&object::path_of(&oid))?.map(|stat| stat.id),
                None => None,
            };
            let noted = UnsyncedObject { oid, damaged };
            object::encode(&mut bytes, &oid, &found.record, found.bytes, since);
            let part = format!("{NEW}/{}", new.list.len());
            let file = self.files.write_new(&part, &bytes)?;
            if synced {
                new.open.push((part.clone(), file));
                if new.open.len() >= SYNCED_AT_ONCE {
                    self.sync_all(std::mem::take(&mut new.open))?;
                }
                new.list.push(NewObject { noted, part, file: None });
            } else {
                let file = (new.list.len() < open_max).then_some(file);
                new.list.push(NewObject { noted, part, file });
            }
        }
        self.sync_all(std::mem::take(&mut new.open))
    }

    /// Notes what is not durable, and gives the objects the names under which they are found.
    fn name_objects(&self, writer: &mut Writer, new: &mut NewObjects, synced: bool, moves: bool) -> Result<(), Error> {
        let noted: Vec<UnsyncedObject> = new.list.iter().map(|object| object.noted).collect();
        if noted.is_empty() && !moves && !new.appended.is_empty() {
            writer.unsynced.tell()?;
        } else {
            writer.unsynced.add(&noted, false, moves)?;
        }
        // Of a synced append, too, a power cut may leave an object without what it names.
        if !noted.is_empty() {
            self.poisons(writer.unsynced.mark())?;
        }
        for object in &mut new.list {
            let path = object::path_of(&object.noted.oid);
            if !self.files.rename_into(&object.part, &path)? {
                writer.unsynced.add(&[], true, false)?;
                self.files.create_dir_unsynced(&object::folder_of(&object.noted.oid))?;
                self.files.rename(&object.part, &path)?;
            }
            let own = match object.file.take() {
                _ if synced => OwnObject::Synced,
                Some(file) => {
                    writer.open += 1;
                    OwnObject::Open(file)
                }
                None => OwnObject::Closed,
            };
            writer.own.insert(object.noted.oid, own);
        }
        Ok(())
    }

    /// Makes files durable, all at once as far as the system can.
    pub(super) fn sync_all(&self, open: Vec<(String, Arc<dyn StorageFile>)>) -> Result<(), Error> {
        open.iter().for_each(|(_, file)| file.begin_sync());
        self.poisons(open.iter().try_for_each(|(name, file)| self.files.sync(name, &**file)))
    }
}
