//! Counters and sizes of an open store.

use std::{
    collections::HashSet,
    sync::{Arc, atomic::Ordering::*},
};

use super::{
    collect::segments_before,
    files::{DERIVED, SEGMENTS, STORE, cold_number, segment_number},
    filters::Run,
    ids::SegmentIds,
    log::DiskState,
    marks::{LiveMarks, marks_of_name},
    readers::Who,
    refs::table_number,
    sealed::Form,
    state::state_epoch,
};
use crate::{
    Error,
    backend::BackendStats,
    storage::OpenMode,
    sync::{lock, read_lock},
};

/// What the last collection left, and who has the store open.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Collected {
    /// How often a collection or a rule of retention has changed the state of the store.
    pub states: u64,
    /// When the last collection ended, in seconds since 1970, if that is known.
    pub time: Option<u64>,
    /// Bytes of cold segments: of what was live, and of what is garbage by now.
    pub cold_bytes: u64,
    /// Bytes of what the last collection of the whole store found to be live in cold segments, if that is known.
    pub live_bytes: Option<u64>,
    /// Bytes of segments of the log that the last collection left, since most of what is in them is live, and of what came while it ran.
    pub log_bytes: u64,
    /// How many collections there were since, each of the log alone.
    pub partial: u32,
    /// How many processes have the store open and say so, this one included.
    pub processes: usize,
    /// Those that read by an earlier state than the newest, for which collections leave files.
    pub behind: Vec<ReaderBehind>,
    /// Bytes of files that collections emptied, and that go once no process reads them.
    pub emptied_bytes: u64,
}

/// A process that reads by an earlier state of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReaderBehind {
    /// The number of the process, where it told.
    pub process: Option<u32>,
    /// The number of the state; 0 if it told none, or has only just begun.
    pub state: u64,
    /// Since when it reads by that state, in seconds since 1970, where it told.
    pub since: Option<u64>,
}

impl DiskState {
    /// Returns counters and sizes. Sizes that cannot be found out count as nothing.
    pub(super) fn stats(&self) -> BackendStats {
        let (store_bytes, file_bytes) = self.sizes();
        let (mut memory, mut mapped) = (self.cache.as_ref().map_or(0, |cache| cache.weight()), 0);
        memory += self.bits.bytes();
        // Snapshots may have segments that the newest table has not; others are of several tables.
        let mut counted = HashSet::new();
        for table in self.tables.all() {
            for segment in table.opened().filter(|segment| counted.insert(Arc::as_ptr(segment))) {
                memory += segment.memory_bytes();
                mapped += segment.mapped().map_or(0, |map| map.len() as u64);
                mapped += segment.ids.get().map_or(0, SegmentIds::mapped_bytes);
                mapped += segment.live.as_ref().map_or(0, LiveMarks::mapped_bytes);
            }
            if let Some(plan) = read_lock(&table.plan).as_ref() {
                let (own, shown) = plan.filter_bytes();
                (memory, mapped) = (memory + own, mapped + shown);
            }
        }
        memory += read_lock(&self.tail_index).memory_bytes();
        memory += self.moved.memory_bytes();
        memory += lock(&self.log).buffer.capacity() as u64;
        memory += self.published.refs().memory_bytes();
        BackendStats {
            bytes_written: self.counters.bytes_written.load(Relaxed),
            writes: self.counters.writes.load(Relaxed),
            syncs: self.counters.syncs.load(Relaxed),
            batches: self.counters.batches.load(Relaxed),
            store_bytes,
            file_bytes,
            memory_bytes: memory,
            mapped_bytes: mapped,
            reclaimable_bytes: self.reclaimable_bytes(),
        }
    }

    /// Returns what the last collection left, and who has the store open.
    pub(super) fn collected(&self) -> Result<Collected, Error> {
        let table = self.table();
        let (mut processes, mut behind) = (0, Vec::new());
        let each = &mut |state, who: Option<Who>| {
            processes += 1;
            if state < table.state.epoch {
                let (process, since) = (who.map(|who| who.process), who.map(|who| u64::from(who.since)));
                behind.push(ReaderBehind { process, state, since });
            }
        };
        self.each_reader(each)?;
        let length = |name: &str| self.storage.open(name, OpenMode::Read).and_then(|file| file.len()).unwrap_or(0);
        let names = self.storage.list(SEGMENTS).unwrap_or_default();
        let emptied = names.iter().filter(|name| {
            let number = segment_number(name).or_else(|| cold_number(name));
            number.is_some_and(|number| !table.has(number))
        });
        let emptied_bytes = emptied.map(|name| length(&format!("{SEGMENTS}/{name}"))).sum();
        let (view, from) = (self.view(&table), self.appended_from());
        let log_bytes = segments_before(&view, from)?.iter().map(|segment| segment.bytes).sum();
        Ok(Collected {
            log_bytes,
            states: table.state.epoch,
            time: table.state.whole.map(|whole| whole.time.into()).filter(|time| *time > 0),
            cold_bytes: table.state.cold_bytes(),
            live_bytes: table.state.whole.map(|whole| whole.bytes),
            partial: table.state.whole.map_or(0, |whole| whole.since),
            processes,
            behind,
            emptied_bytes,
        })
    }

    /// Returns an error if it is known that `bytes` more do not fit where the store is.
    pub(super) fn check_room(&self, bytes: u64) -> Result<(), Error> {
        self.check_free(bytes, || {
            let (used, files) = self.sizes();
            files.saturating_sub(used)
        })
    }

    /// As [`DiskState::check_room`], where of what the files take `ready` bytes can be used.
    pub(super) fn check_free(&self, bytes: u64, ready: impl FnOnce() -> u64) -> Result<(), Error> {
        // Where the system does not tell, the writes will.
        let Ok(Some(free)) = self.storage.free_bytes() else { return Ok(()) };
        let free = free.saturating_add(ready());
        if bytes <= free {
            return Ok(());
        }
        Err(Error::NoRoom { place: self.storage.describe(""), bytes, free })
    }

    /// Returns the bytes of the store up to its tail, and those of all its files.
    pub(super) fn sizes(&self) -> (u64, u64) {
        let end = self.published.end();
        let tail = (end >> 32) as u32;
        let length = |name: &str| self.storage.open(name, OpenMode::Read).and_then(|file| file.len()).unwrap_or(0);
        let header = length(STORE);
        let table = self.table();
        let (mut used, mut files) = (header, header);
        for name in self.storage.list(DERIVED).unwrap_or_default() {
            let bytes = length(&format!("{DERIVED}/{name}"));
            (used, files) = (used + bytes, files + bytes);
        }
        for name in self.storage.list(SEGMENTS).unwrap_or_default() {
            let bytes = length(&format!("{SEGMENTS}/{name}"));
            files += bytes;
            // What a collection emptied is no part of the store, though a process may read it.
            let indexed = Form::of_name(&name).map(|(number, _)| number);
            let marked = marks_of_name(&name).map(|(number, _)| number);
            let number = segment_number(&name).or_else(|| cold_number(&name)).or(indexed).or(marked);
            if number.is_some_and(|number| !table.has(number)) {
                continue;
            }
            used += match segment_number(&name) {
                Some(number) if number == tail => end & 0xffff_ffff,
                // A power cut has left it behind the end.
                Some(number) if number > tail => 0,
                // The segment after a sealed one knows where that ended.
                Some(number) => match self.current_segment(number + 1) {
                    Ok(Some(next)) => next.head.map_or(bytes, |head| head.previous_end & 0xffff_ffff),
                    _ => bytes,
                },
                None if Form::of_name(&name).is_some() || cold_number(&name).is_some() => bytes,
                None if Run::of_name(&name).is_some() || marked.is_some() => bytes,
                None if state_epoch(&name).is_some() || table_number(&name).is_some() => bytes,
                None => 0,
            };
        }
        (used, files)
    }
}
