//! Appending: one thread writes for all that wait, in one write batch of the database, with one sync if one of them asks.

use std::{collections::HashMap, sync::atomic::Ordering::*};

use bristlecone::{
    Batch, Durability, Error, Location, Oid, RefMove, RefTarget, Result, Sink, check_moves, engine::Queue,
};

use super::{
    lock,
    open_store::{OpenStore, read_lock, write_lock},
    page::{self, Page},
    refs::{self, State},
};

/// One append: its objects and the moves of its refs.
pub(super) type Append = (Batch, Vec<RefMove>);
/// The appends that wait for a leader.
pub(super) type AppendQueue = Queue<CallerAppends, Vec<Result<Location>>>;

/// From so many bytes of pages on that are not in the index, the indexer reads them into memory.
const FRESH_BYTES: u64 = 4 << 20;

/// What one caller brought.
#[derive(Debug)]
pub(super) struct CallerAppends {
    pub(super) appends: Vec<Append>,
    pub(super) durability: Durability,
}

/// What the thread that appends works with.
#[derive(Debug)]
pub(super) struct Writer {
    state: State,
    /// Memory in which pages are put together.
    buffer: Vec<u8>,
}

impl Writer {
    pub(super) const fn new(state: State) -> Self {
        Self { state, buffer: Vec::new() }
    }

    /// Returns the state after the last append.
    pub(super) const fn state(&self) -> State {
        self.state
    }

    /// Sets the state after a change of pages that is no append.
    pub(super) const fn set_state(&mut self, state: State) {
        self.state = state;
    }
}

/// What is to be done about one append of a group.
struct Request<'a> {
    batch: &'a Batch,
    moves: &'a [RefMove],
}

/// What a group changes.
#[derive(Default)]
struct Group<'a> {
    pages: Vec<(u64, Page)>,
    bytes: u64,
    /// What refs hold after the group, by name.
    refs: HashMap<&'a str, Option<RefTarget>>,
    /// What refs held, and the positions of the moves that changed it.
    displaced: Vec<(u64, RefTarget)>,
    batches: Vec<&'a Batch>,
}

impl Group<'_> {
    /// Whether there is nothing to write to the database.
    fn is_empty(&self) -> bool {
        self.pages.is_empty() && self.refs.is_empty()
    }
}

impl OpenStore {
    /// Appends what a caller brought, together with what others bring at the time.
    pub(super) fn append(&self, caller: CallerAppends) -> Vec<Result<Location>> {
        let count = caller.appends.len();
        let durability = caller.durability;
        let done = self.ready().and_then(|()| {
            self.queue.run(caller, |callers| {
                let requests: Vec<Request<'_>> = callers
                    .iter()
                    .flat_map(|caller| &caller.appends)
                    .map(|(batch, moves)| Request { batch, moves })
                    .collect();
                let synced = callers.iter().any(|caller| caller.durability == Durability::Synced);
                let mut outcomes = self.append_group(&requests, synced).into_iter();
                callers.iter().map(|caller| outcomes.by_ref().take(caller.appends.len()).collect()).collect()
            })
        });
        if durability == Durability::Grouped {
            // Where there is no thread for it, the next append syncs.
            self.syncer.ask(0);
        }
        done.unwrap_or_else(|error| (0..count).map(|_| Err(error.clone())).collect())
    }

    /// Appends a batch without moves, which stays as it is.
    pub(super) fn append_unmoved(&self, batch: &Batch) -> Result<Location> {
        self.ready()?;
        self.append_batch(batch)
    }

    /// Appends a batch without moves and does nothing besides, for a sweep.
    pub(super) fn append_batch(&self, batch: &Batch) -> Result<Location> {
        let requests = [Request { batch, moves: &[] }];
        self.append_group(&requests, false).pop().unwrap_or(Err(Error::Unanswered))
    }

    fn ready(&self) -> Result<()> {
        if self.read_only {
            return Err(Error::ReadOnly);
        }
        self.holder.refuse_child()?;
        self.poison.check()?;
        self.do_owed()
    }

    /// Appends a group. An append that is refused leaves the others as they are.
    fn append_group(&self, requests: &[Request<'_>], synced: bool) -> Vec<Result<Location>> {
        let mut writer = lock(&self.writer);
        let (mut state, mut group) = (writer.state, Group::default());
        let mut outcomes: Vec<Result<Location>> = Vec::with_capacity(requests.len());
        for request in requests {
            outcomes.push(self.take_in(request, &mut group, &mut state, &mut writer.buffer));
        }
        let written = self.poison.check().and_then(|()| self.poisoning(self.write(&group, &state, synced)));
        match written {
            Ok(()) => {
                writer.state = state;
                self.publish(group, state, synced);
            }
            Err(error) => {
                outcomes.iter_mut().filter(|outcome| outcome.is_ok()).for_each(|outcome| *outcome = Err(error.clone()))
            }
        }
        outcomes
    }

    /// Checks one append and adds it to the group.
    fn take_in<'a>(
        &self,
        request: &Request<'a>,
        group: &mut Group<'a>,
        state: &mut State,
        buffer: &mut Vec<u8>,
    ) -> Result<Location> {
        request.batch.check_size()?;
        {
            let refs = read_lock(&self.refs);
            check_moves(request.moves, |name| match group.refs.get(name) {
                Some(target) => target.as_ref(),
                None => refs.by_name.get(name),
            })?;
        }
        self.refuse_gone(request, &group.batches)?;
        let length = request.batch.bytes().len();
        let base = if length == 0 { Location::NONE } else { page::page_location(state.end) };
        page::cut(request.batch, state.end, buffer, |number, page| {
            group.bytes += page.bytes() as u64;
            state.bytes += page.bytes() as u64;
            group.pages.push((number, page));
        });
        state.end += page::pages_of(length);
        group.batches.push(request.batch);
        if request.moves.is_empty() {
            return Ok(base);
        }
        state.position += 1;
        let refs = read_lock(&self.refs);
        for wanted in request.moves {
            let after = wanted.resolved(base);
            let before = match group.refs.insert(&wanted.name, after.clone()) {
                Some(before) => before,
                None => refs.by_name.get(&wanted.name).cloned(),
            };
            state.sum_move(&wanted.name, before.as_ref(), after.as_ref());
            group.displaced.extend(before.map(|before| (state.position, before)));
        }
        Ok(base)
    }

    /// Fails if a sweep that began since the batch was made dropped what it or a move needs. `earlier`: what the group has
    /// before it.
    fn refuse_gone(&self, request: &Request<'_>, earlier: &[&Batch]) -> Result<()> {
        let mut gone: Vec<Oid> = Vec::new();
        for oid in request.batch.needed(request.moves, self.sweeps.load(Acquire)) {
            if earlier.iter().all(|batch| batch.known(&oid).is_none()) && self.locate(&oid)?.is_none() {
                gone.push(oid);
            }
        }
        if gone.is_empty() { Ok(()) } else { Err(Error::Gone { oids: gone }) }
    }

    /// Writes a group to the database.
    fn write(&self, group: &Group<'_>, state: &State, synced: bool) -> Result<()> {
        if group.is_empty() {
            return if synced { self.database.sync() } else { Ok(()) };
        }
        let mut changes = self.database.change();
        for (number, page) in &group.pages {
            changes.put_page(*number, page.value().clone());
        }
        for (name, target) in &group.refs {
            let key = refs::ref_key(name);
            match target {
                Some(target) => changes.put_ref(&key, &refs::encode_target(&key, target)),
                None => changes.remove_ref(&key),
            }
        }
        changes.put_state(state);
        changes.make(synced)
    }

    /// Shows a group that was written to readers. The caller holds the writer.
    fn publish(&self, group: Group<'_>, state: State, synced: bool) {
        let counters = &self.counters;
        counters.bytes.fetch_add(group.bytes, Relaxed);
        counters.writes.fetch_add(u64::from(!group.is_empty()), Relaxed);
        counters.batches.fetch_add(group.batches.len() as u64, Relaxed);
        for (number, page) in &group.pages {
            self.pages.keep(*number, page);
        }
        if let (Some(first), Some(last)) = (group.pages.first(), group.pages.last()) {
            let unwritten = self.index.note(first.0..last.0 + 1, group.bytes);
            // The worker reads what is fresh now and then, and writes the index when there is enough.
            if unwritten >= self.options.index_bytes
                || unwritten / FRESH_BYTES != (unwritten - group.bytes) / FRESH_BYTES
            {
                self.indexer.ask(0);
            }
        }
        let mut refs = write_lock(&self.refs);
        refs.state = state;
        for (position, before) in &group.displaced {
            self.pins.displaced(bristlecone::Position(*position), before);
        }
        for (name, target) in group.refs {
            match target {
                Some(target) => _ = refs.by_name.insert(name.to_owned(), target),
                None => _ = refs.by_name.remove(name),
            }
        }
        drop(refs);
        if synced {
            counters.syncs.fetch_add(1, Relaxed);
            self.note_durable(&state);
        }
    }
}
