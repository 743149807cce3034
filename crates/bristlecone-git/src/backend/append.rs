//! Appending: objects first, then refs, one after the other.
//!
//! A leader checks what every append of its group expects, writes the objects of those that may go on as one pack, and
//! then takes the store's lock and moves each ref once, to what the last of its moves says. The check is done again
//! with the ref's own lock held, since a Git may have been faster.

use std::{cell::Cell, collections::BTreeMap, sync::atomic::Ordering::*, time::Instant};

use bristlecone::{
    Batch, Durability, Error, Expected, Format, Kind, Oid, RefTarget, Result,
    core::{RECORD_HEADER_BYTES, git::Git, write_record},
    storage::Reach,
};

use super::{
    append_group::{Append, CallerAppends, Moves, Request},
    keep::Keep,
    objects::{self, Written},
    open_repository::{FLUSH, OpenRepository},
    pack_files,
};
use crate::repository::{
    files::Unsynced,
    mutex::lock,
    refs::{STORE_HEAD, Staged, check_name},
};

/// Refs that moved and stay open, at most, before everything is made durable.
const REFS_MAX: usize = 256;

impl OpenRepository {
    /// Appends what one caller brought, alone or together with callers that come at the same time.
    pub(super) fn append(&self, item: CallerAppends) -> Vec<Result<()>> {
        let count = item.appends.len();
        let outcomes = self.may_append().and_then(|()| self.queue.run(item, |items| self.write_items(items)));
        outcomes.unwrap_or_else(|error| vec![Err(error); count])
    }

    fn may_append(&self) -> Result<()> {
        if self.options.read_only {
            return Err(Error::ReadOnly);
        }
        self.store_lock.refuse_child()?;
        self.poison.check()?;
        self.flush_deferred()
    }

    /// Writes for all callers of a group.
    fn write_items(&self, items: &[&CallerAppends]) -> Vec<Vec<Result<()>>> {
        let durability = items.iter().map(|item| item.durability).max().unwrap_or_default();
        let appends: Vec<&Append> = items.iter().flat_map(|item| &item.appends).collect();
        let mut requests: Vec<Request<'_>> = appends.iter().map(|append| self.request(append)).collect();
        if let Err(error) = self.write_group(&mut requests, durability) {
            for request in requests.iter_mut().filter(|request| request.is_open()) {
                request.outcome = Some(Err(error.clone()));
            }
        }
        let mut outcomes = requests.into_iter().map(|request| request.outcome.unwrap_or(Ok(())));
        items.iter().map(|item| outcomes.by_ref().take(item.appends.len()).collect()).collect()
    }

    /// Checks what can be checked without looking at anything.
    fn request<'a>(&self, (batch, moves): &'a Append) -> Request<'a> {
        let check = || {
            for (index, wanted) in moves.iter().enumerate() {
                if wanted.name != STORE_HEAD {
                    check_name(&wanted.name)?;
                }
                if let Some(RefTarget::Symbolic(name)) = &wanted.to {
                    check_name(name)?;
                }
                if moves[..index].iter().any(|earlier| earlier.name == wanted.name) {
                    return Err(Error::RefName { name: wanted.name.clone() });
                }
                if let Some(RefTarget::Object(at)) = &wanted.to
                    && at.oid.as_bytes().len() != self.options.algorithm.oid_bytes()
                {
                    return Err(Error::Usage { reason: "the repository has ids of another hash" });
                }
            }
            if moves.len() > 1 {
                return Err(Error::Usage { reason: "a Git repository moves one ref at a time" });
            }
            objects::check_batch(self.options.algorithm, batch)
        };
        Request { batch, wanted: moves.first(), outcome: check().err().map(Err) }
    }

    fn write_group(&self, requests: &mut [Request<'_>], durability: Durability) -> Result<()> {
        // Where another machine may open the repository, what only this one has in memory would be lost to it.
        let synced = durability == Durability::Synced || self.files.reach() == Reach::Shared;
        let moves = self.plan(requests)?;
        let batches: Vec<&Batch> = requests.iter().filter(|request| request.is_open()).map(|r| r.batch).collect();
        if moves.is_empty() && batches.iter().all(|batch| batch.is_empty()) {
            return if synced && !batches.is_empty() { self.flush() } else { Ok(()) };
        }
        let mut staged = BTreeMap::new();
        let with = if synced { Some(self.stage_moves(&moves, &mut staged)?) } else { None };
        let mut written = self.write_objects(&batches, with)?;
        let result = self.locked(|writer| {
            if synced || self.open_files.is_full() || self.refs.unsynced() > REFS_MAX {
                // What is acknowledged as durable includes all that came before.
                self.make_durable(writer)?;
            }
            self.settle_bases(writer, requests)?;
            let mut noted = synced;
            for (name, moves) in &moves {
                let staged = staged.remove(name.as_str());
                let moved = self.move_ref(writer, requests, (name, moves), staged, &mut written, synced, &mut noted);
                if let Err(error) = moved {
                    for &index in &moves.requests {
                        requests[index].outcome.get_or_insert_with(|| Err(error.clone()));
                    }
                }
            }
            if !noted && requests.iter().any(|request| matches!(request.outcome, None | Some(Ok(())))) {
                self.note_objects(writer, &mut written)?;
            }
            Ok(())
        });
        drop(staged);
        self.settle(requests, written, result.is_ok())?;
        result?;
        self.counters.batches.fetch_add(batches.len() as u64, Relaxed);
        match durability {
            Durability::None => self.write_out(),
            Durability::Grouped => _ = self.worker.ask(FLUSH),
            Durability::Synced => {}
        }
        self.repack_soon();
        self.empty_trash_soon();
        Ok(())
    }

    /// Writes what refs will hold; returns the files, which become durable with the objects. At the first append there
    /// is no folder for them yet: they are written later.
    fn stage_moves<'s>(
        &'s self,
        moves: &'s BTreeMap<String, Moves>,
        staged: &mut BTreeMap<&'s str, Staged<'s>>,
    ) -> Result<Vec<Unsynced>> {
        let mut files = Vec::new();
        if !self.store_lock.is_open() {
            return Ok(files);
        }
        for (name, moves) in moves {
            if let Some(target) = &moves.now {
                let (value, file) = self.refs.stage(target)?;
                staged.insert(name, value);
                files.push(file);
            }
        }
        Ok(files)
    }

    /// Checks in order what every append expects, and answers those that cannot go on.
    fn plan(&self, requests: &mut [Request<'_>]) -> Result<BTreeMap<String, Moves>> {
        let mut plan: BTreeMap<String, Moves> = BTreeMap::new();
        for (index, request) in requests.iter_mut().enumerate() {
            let Some(wanted) = request.wanted.filter(|_| request.outcome.is_none()) else { continue };
            if !plan.contains_key(&wanted.name) {
                let now = match self.get_ref(&wanted.name) {
                    // A move that expects anything may write over a file that makes no sense.
                    Err(Error::Corrupt { .. }) if wanted.expected == Expected::Any => None,
                    Err(error) => {
                        request.outcome = Some(Err(error));
                        continue;
                    }
                    Ok(now) => now,
                };
                plan.insert(wanted.name.clone(), Moves { before: now.clone(), now, ..Moves::default() });
            }
            let Some(moves) = plan.get_mut(&wanted.name) else { continue };
            if wanted.allows(moves.now.as_ref()) {
                moves.requests.push(index);
                moves.now = request.target();
            } else {
                let (name, found) = (wanted.name.clone(), moves.now.clone());
                request.outcome = Some(Err(Error::RefMoved { name, found }));
            }
        }
        plan.retain(|_, moves| !moves.requests.is_empty());
        Ok(plan)
    }

    /// Writes the objects of a group; no ref leads to them yet. Those that are durable are found at once, others once
    /// the journal knows of them.
    ///
    /// What comes `with` them is made durable as they are.
    fn write_objects(&self, batches: &[&Batch], with: Option<Vec<Unsynced>>) -> Result<Written> {
        let unwritten = self.unwritten(batches)?;
        let batches: Vec<&Batch> = batches.iter().copied().chain(&unwritten).collect();
        let relied = Cell::new(false);
        let known = |oid: &Oid| {
            let found = self.recent.contains(oid);
            relied.set(relied.get() || found);
            found
        };
        let (files, synced) = (&self.files, with.is_some());
        let done = || -> Result<Written> {
            let mut written = if self.options.loose {
                objects::write_loose(files, self.options.algorithm, &batches, known, with)?
            } else {
                let (builder, oids) = objects::build_pack(self.options.algorithm, &batches, known)?;
                if builder.is_empty() {
                    files.sync_all(&with.unwrap_or_default())?;
                    return Ok(Written::nothing(relied.get()));
                }
                objects::write_pack(files, &self.keeps, builder, oids, with)?
            };
            written.relied = relied.get();
            if synced {
                self.publish(&mut written)?;
                if written.pack.is_some() {
                    files.sync_dir(pack_files::PACKS)?;
                } else {
                    objects::sync_fan_out(files, &written.oids)?;
                }
            }
            Ok(written)
        };
        if synced { self.poison.note(done()) } else { done() }
    }

    /// Returns the tree without entries where batches leave it out and nobody wrote it: it is read all the same, so a copy
    /// leaves it out, and `git fsck` asks for it.
    fn unwritten(&self, batches: &[&Batch]) -> Result<Option<Batch>> {
        let empty = self.odb.empty_tree();
        if !batches.iter().any(|batch| batch.left_out().0.contains(&empty)) {
            return Ok(None);
        }
        // One in a protected pack is not written again, but noted as relied on.
        if self.odb.is_written(&empty)? && !self.recent.contains(&empty) {
            return Ok(None);
        }
        let mut batch = Batch::new();
        Git::new(self.options.algorithm).empty_dir(&mut batch)?;
        Ok(Some(batch))
    }

    /// Gives what was written the names under which all processes find it.
    pub(super) fn publish(&self, written: &mut Written) -> Result<()> {
        written.publish(&self.files)?;
        self.counters.writes.fetch_add(1, Relaxed);
        self.counters.new_packs.fetch_add(u64::from(written.pack.is_some()), Relaxed);
        match &mut written.pack {
            Some(pack) => self.odb.add_pack_with(&pack.name, std::mem::take(&mut pack.index)),
            None => Ok(()),
        }
    }

    /// Remembers what was written, or takes back what came to nothing.
    fn settle(&self, requests: &[Request<'_>], written: Written, succeeded: bool) -> Result<()> {
        let good = |request: &&Request<'_>| succeeded && matches!(request.outcome, None | Some(Ok(())));
        let moved = requests.iter().filter(good).any(|request| request.wanted.is_some());
        // What came without a move has no ref that leads to it.
        let unled = requests.iter().filter(good).any(|request| request.wanted.is_none());
        requests.iter().filter(good).for_each(|request| self.remember(request.batch));
        // After any other error the ref may have moved; then the objects must stay.
        let refused = |error: &Error| matches!(error, Error::RefMoved { .. } | Error::RefClash { .. });
        let in_vain = requests.iter().all(|request| matches!(&request.outcome, Some(Err(error)) if refused(error)));
        if written.is_hidden() {
            if let Some(pack) = &written.pack {
                self.odb.forget_pack(&pack.name);
            }
            return written.take_back(&self.files, &self.keeps);
        }
        if !(moved || unled) && in_vain {
            // A Git that wrote the same objects meanwhile found these, and may rely on them: they stay until a `git gc`.
            return written.pack.map_or(Ok(()), |pack| self.keeps.release(pack.keep));
        }
        let mut writer = lock(&self.writer);
        let ended = if moved { writer.kept.ref_moved(Instant::now()) } else { Vec::new() };
        if unled && written.relied {
            writer.kept.renew();
        }
        let mut led = None;
        match written.pack {
            Some(pack) if moved && !unled => led = Some(pack.keep),
            Some(mut pack) => {
                if unled {
                    self.recent.insert(written.oids.into_iter());
                }
                self.keeps.close_beyond(writer.kept.len(), &mut pack.keep);
                writer.kept.add(pack.keep);
            }
            None => {}
        }
        drop(writer);
        self.end_kept(ended)?;
        led.map_or(Ok(()), |keep| self.keeps.release(keep))
    }

    /// Ends the protection of packs. What is in them may be dropped by a Git from then on, and is written again if it
    /// comes again.
    pub(super) fn end_kept(&self, kept: Vec<Keep>) -> Result<()> {
        if !kept.is_empty() {
            self.recent.clear();
        }
        kept.into_iter().try_for_each(|keep| self.keeps.release(keep))
    }

    /// Keeps what the next commit will read.
    fn remember(&self, batch: &Batch) {
        for entry in batch.records() {
            let record = &entry.record;
            let Ok(oid) = Oid::new(record.oid) else { continue };
            if !matches!(record.kind, Kind::Node | Kind::Commit) {
                continue;
            }
            if record.children == 0 && record.metadata_words == 0 {
                self.records.insert_written(oid, entry.bytes.into());
            } else {
                let body = &entry.bytes[record.body_at()..];
                let mut bytes = Vec::with_capacity(RECORD_HEADER_BYTES + body.len() + 8);
                write_record(&mut bytes, record.kind, &oid, body, &[], &[]);
                bytes.truncate(RECORD_HEADER_BYTES + body.len());
                self.records.insert_written(oid, bytes.into());
            }
        }
    }
}
