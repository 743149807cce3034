//! The index: where each object is, by id.
//!
//! The database has it for all pages before a mark. What was appended later is read into memory when a thread first looks
//! for an id, or by the worker before that; when there is much of it, the worker writes it to the database as one sorted
//! run and moves the mark. So a commit pays nothing for the index, and what a process reads again after it was killed is
//! bounded. An id that was appended twice is where it was appended last.

use std::{
    collections::HashMap,
    ops::Range,
    sync::{
        Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicBool, AtomicU64, Ordering::*},
    },
};

use bristlecone::{Error, Location, Oid, Result};

use super::{
    database::Database,
    page::{PAGE_BITS, Page},
    pages::{Pages, damaged},
    refs,
};

/// Pages are read into memory in steps of so many bytes, so that readers never wait for long.
const STEP_BYTES: usize = 1 << 20;
/// From so many pages on a range is walked, and not asked for page by page.
const WALKED_MIN: u64 = 64;
/// How much an entry takes in memory.
const ENTRY_BYTES: u64 = 64;

type Places = HashMap<Oid, Location>;

/// The index of a store.
#[derive(Debug)]
pub(super) struct Index {
    tail: RwLock<Tail>,
    /// Pages that are not in the tail yet, ascending.
    fresh: Mutex<Vec<Range<u64>>>,
    has_fresh: AtomicBool,
    /// Bytes of pages that are not in the database's index.
    unwritten_bytes: AtomicU64,
    /// Held while the index is written, and by sweeps.
    pub(super) maintenance: Mutex<()>,
}

#[derive(Debug, Default)]
struct Tail {
    places: Places,
    /// What is being written to the database.
    flushing: Arc<Places>,
    /// Pages before this one are in one of these, or in the database.
    end: u64,
    /// The first page that could not be read. Objects of such a page are not known to be absent.
    damage: Option<Error>,
}

impl Tail {
    fn get(&self, oid: &Oid) -> Option<Location> {
        self.places.get(oid).or_else(|| self.flushing.get(oid)).copied()
    }

    fn add(&mut self, number: u64, page: &Page) {
        self.places.extend(page.records(number).map(|(oid, at, _)| (oid, at)));
    }
}

impl Index {
    /// Returns the index of a store of which the database has all before page `indexed`, and which ends at page `end`.
    /// `bytes`: of all pages.
    pub(super) fn new(indexed: u64, end: u64, bytes: u64) -> Self {
        let fresh: Vec<Range<u64>> = Some(indexed..end).filter(|pages| !pages.is_empty()).into_iter().collect();
        let has_fresh = AtomicBool::new(!fresh.is_empty());
        // An estimate from above: pages before the mark are not told from those after it without reading them.
        let unwritten_bytes = if fresh.is_empty() { 0 } else { bytes.min((end - indexed) << PAGE_BITS) };
        Self {
            tail: RwLock::new(Tail { end: indexed, ..Tail::default() }),
            fresh: Mutex::new(fresh),
            has_fresh,
            unwritten_bytes: AtomicU64::new(unwritten_bytes),
            maintenance: Mutex::default(),
        }
    }

    fn read_tail(&self) -> RwLockReadGuard<'_, Tail> {
        self.tail.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_tail(&self) -> RwLockWriteGuard<'_, Tail> {
        self.tail.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn fresh(&self) -> std::sync::MutexGuard<'_, Vec<Range<u64>>> {
        self.fresh.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes pages that were appended, in the order of their numbers. Returns the bytes of pages that are not in the
    /// database's index.
    pub(super) fn note(&self, pages: Range<u64>, bytes: u64) -> u64 {
        let mut fresh = self.fresh();
        match fresh.last_mut() {
            Some(last) if last.end == pages.start => last.end = pages.end,
            _ => fresh.push(pages),
        }
        self.has_fresh.store(true, Release);
        drop(fresh);
        self.unwritten_bytes.fetch_add(bytes, Relaxed) + bytes
    }

    /// Returns where an object is; `None` if there is no such object.
    pub(super) fn locate(&self, database: &Database, pages: &Pages, oid: &Oid) -> Result<Option<Location>> {
        loop {
            // Asked for first: an entry goes from pages to the tail and on to the database, and is never between.
            let complete = !self.has_fresh.load(Acquire);
            if let Some(at) = self.read_tail().get(oid) {
                return Ok(Some(at));
            }
            if let Some(at) = database.location(oid)? {
                return Ok(Some(at));
            }
            if complete {
                return match &self.read_tail().damage {
                    None => Ok(None),
                    Some(damage) => Err(damage.clone()),
                };
            }
            self.read_some(database, pages)?;
        }
    }

    /// Reads all pages into memory that are not in the index.
    pub(super) fn read_all(&self, database: &Database, pages: &Pages) -> Result<()> {
        while self.has_fresh.load(Acquire) {
            self.read_some(database, pages)?;
        }
        Ok(())
    }

    /// Reads a step of pages into memory.
    fn read_some(&self, database: &Database, pages: &Pages) -> Result<()> {
        let mut tail = self.write_tail();
        let Some(range) = self.fresh().first().cloned() else { return Ok(()) };
        let (mut bytes, mut number) = (0, range.start);
        let walked = range.end - range.start >= WALKED_MIN;
        if walked {
            database.each_page(range.clone(), &mut |found, value| {
                number = found + 1;
                bytes += value.len();
                match Page::verified(found, value) {
                    Ok(page) => tail.add(found, &page),
                    Err(reason) => _ = tail.damage.get_or_insert_with(|| damaged(database, found, reason)),
                }
                Ok(bytes < STEP_BYTES)
            })?;
            // There were no more pages, though numbers.
            if bytes < STEP_BYTES {
                number = range.end;
            }
        }
        while !walked && number < range.end && bytes < STEP_BYTES {
            match pages.get(database, number) {
                Ok(Some(page)) => {
                    tail.add(number, &page);
                    bytes += page.bytes();
                }
                // Covered by a long record.
                Ok(None) => {}
                Err(error @ Error::Corrupt { .. }) => _ = tail.damage.get_or_insert(error),
                Err(error) => return Err(error),
            }
            number += 1;
        }
        tail.end = number;
        let mut fresh = self.fresh();
        // Appends go on at the end of the last range; only this thread, which has the tail, takes from the first.
        let done = match fresh.first_mut() {
            Some(first) => {
                first.start = number;
                first.start >= first.end
            }
            None => false,
        };
        if done {
            fresh.remove(0);
        }
        self.has_fresh.store(!fresh.is_empty(), Release);
        Ok(())
    }

    /// Returns how many bytes of pages are not in the database's index.
    pub(super) fn unwritten_bytes(&self) -> u64 {
        self.unwritten_bytes.load(Relaxed)
    }

    /// Writes all that is in memory to the database's index. The caller holds `maintenance`, and has made durable what
    /// was appended: the index must not lead to pages that a power cut takes back.
    pub(super) fn write(&self, database: &Database, pages: &Pages, sync: impl FnOnce() -> Result<()>) -> Result<()> {
        let before = self.unwritten_bytes.load(Relaxed);
        self.read_all(database, pages)?;
        let (flushing, end) = {
            let mut tail = self.write_tail();
            if let Some(damage) = &tail.damage {
                // The mark stays before the damaged page, so that it is told again.
                return Err(damage.clone());
            }
            let mut places = std::mem::take(&mut tail.places);
            if !tail.flushing.is_empty() {
                // What an earlier try left.
                for (oid, at) in tail.flushing.iter() {
                    places.entry(*oid).or_insert(*at);
                }
            }
            tail.flushing = Arc::new(places);
            (tail.flushing.clone(), tail.end)
        };
        if flushing.is_empty() {
            return Ok(());
        }
        sync()?;
        let mut sorted: Vec<(Oid, Location)> = flushing.iter().map(|(oid, at)| (*oid, *at)).collect();
        sorted.sort_unstable_by(|one, other| one.0.as_bytes().cmp(other.0.as_bytes()));
        database.index(&sorted)?;
        let mut changes = database.change();
        changes.put_ref(refs::INDEXED, &refs::encode_indexed(end));
        changes.make(false)?;
        self.write_tail().flushing = Arc::default();
        self.unwritten_bytes.fetch_sub(before, Relaxed);
        // Many entries are freed here, and no reader waits for it.
        drop(flushing);
        Ok(())
    }

    /// Returns how many bytes of memory it takes.
    pub(super) fn memory_bytes(&self) -> u64 {
        let tail = self.read_tail();
        (tail.places.capacity() + tail.flushing.capacity()) as u64 * ENTRY_BYTES
    }
}
