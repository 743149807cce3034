//! The index: where each object is, by id.
//!
//! The database has it for all pages before a mark. What was appended later is read into memory when a thread first looks
//! for an id, or by the worker before that; when there is much of it, the worker writes it to the database as one sorted
//! run and moves the mark. So a commit pays nothing for the index, and what a process reads again after it was killed is
//! bounded. An id that was appended twice is where it was appended last.

use std::{
    collections::{HashMap, VecDeque},
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicBool, AtomicU64, Ordering::*},
    },
};

use bristlecone::{Error, Location, Oid, OidPrefix, Result};

use super::{
    database::Database,
    lock,
    page::{PAGE_BITS, Page},
    pages::{Pages, damaged},
    refs,
};

/// Pages are read into memory in steps of so many bytes, so that what is there is found soon.
const STEP_BYTES: usize = 1 << 20;
/// The index in memory is in so many tables, each with a lock: a lookup waits for a few entries of a step, and for no table
/// of millions that grows.
const TABLES: usize = 256;
/// From so many pages on a range is walked, and not asked for page by page.
const WALKED_MIN: u64 = 64;
/// How much an entry takes in memory.
const ENTRY_BYTES: u64 = 64;

type Places = HashMap<Oid, Location>;

/// The index of a store.
#[derive(Debug)]
pub(super) struct Index {
    /// What is not in the database yet, by the first byte of the id.
    tables: Vec<RwLock<Table>>,
    /// Pages before this one are in the tables or in the database. Held while pages are read into the tables.
    end: Mutex<u64>,
    /// The first page that could not be read. Objects of such a page are not known to be absent.
    damage: Mutex<Option<Error>>,
    /// Pages that are not in the tables yet, ascending.
    fresh: Mutex<VecDeque<Range<u64>>>,
    has_fresh: AtomicBool,
    /// Bytes of pages that are not in the database's index.
    unwritten_bytes: AtomicU64,
    /// Held while the index is written, and by sweeps.
    pub(super) maintenance: Mutex<()>,
}

#[derive(Debug, Default)]
struct Table {
    places: Places,
    /// What is being written to the database.
    flushing: Arc<Places>,
}

impl Table {
    fn get(&self, oid: &Oid) -> Option<Location> {
        self.places.get(oid).or_else(|| self.flushing.get(oid)).copied()
    }

    /// Takes out what is to be written; it is found until that is done.
    fn flush(&mut self) -> Arc<Places> {
        let mut places = std::mem::take(&mut self.places);
        // What an earlier try left.
        for (oid, at) in self.flushing.iter() {
            places.entry(*oid).or_insert(*at);
        }
        self.flushing = Arc::new(places);
        self.flushing.clone()
    }
}

/// Objects of pages that were read, for each table.
struct Step(Vec<Vec<(Oid, Location)>>);

impl Step {
    fn new() -> Self {
        Self((0..TABLES).map(|_| Vec::new()).collect())
    }

    fn add(&mut self, number: u64, page: &Page) {
        page.records(number).for_each(|(oid, at, _)| self.0[table_of(&oid)].push((oid, at)));
    }
}

/// Returns the number of the table that an id is in.
fn table_of(oid: &Oid) -> usize {
    oid.as_bytes().first().copied().map_or(0, usize::from) % TABLES
}

impl Index {
    /// Returns the index of a store of which the database has all before page `indexed`, and which ends at page `end`.
    /// `bytes`: of all pages.
    pub(super) fn new(indexed: u64, end: u64, bytes: u64) -> Self {
        let fresh: VecDeque<Range<u64>> = Some(indexed..end).filter(|pages| !pages.is_empty()).into_iter().collect();
        let has_fresh = AtomicBool::new(!fresh.is_empty());
        // An estimate from above: pages before the mark are not told from those after it without reading them.
        let unwritten_bytes = if fresh.is_empty() { 0 } else { bytes.min((end - indexed) << PAGE_BITS) };
        Self {
            tables: (0..TABLES).map(|_| RwLock::default()).collect(),
            end: Mutex::new(indexed),
            damage: Mutex::default(),
            fresh: Mutex::new(fresh),
            has_fresh,
            unwritten_bytes: AtomicU64::new(unwritten_bytes),
            maintenance: Mutex::default(),
        }
    }

    fn read_table(&self, oid: &Oid) -> RwLockReadGuard<'_, Table> {
        self.tables[table_of(oid)].read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_tables(&self) -> impl Iterator<Item = RwLockWriteGuard<'_, Table>> {
        self.tables.iter().map(|table| table.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the error of the first page that could not be read.
    fn damage(&self) -> Option<Error> {
        lock(&self.damage).clone()
    }

    fn fresh(&self) -> MutexGuard<'_, VecDeque<Range<u64>>> {
        lock(&self.fresh)
    }

    /// Returns the page before which all are that were noted by now.
    fn noted(&self) -> u64 {
        self.fresh().back().map_or(0, |pages| pages.end)
    }

    /// Whether every page before this one is in the tables or in the database.
    fn has_read(&self, end: u64) -> bool {
        *lock(&self.end) >= end
    }

    /// Notes pages that were appended, in the order of their numbers. Returns the bytes of pages that are not in the
    /// database's index.
    pub(super) fn note(&self, pages: Range<u64>, bytes: u64) -> u64 {
        let mut fresh = self.fresh();
        match fresh.back_mut() {
            Some(last) if last.end == pages.start => last.end = pages.end,
            _ => fresh.push_back(pages),
        }
        self.has_fresh.store(true, Release);
        drop(fresh);
        self.unwritten_bytes.fetch_add(bytes, Relaxed) + bytes
    }

    /// Returns where an object is; `None` if there was no such object when this was called.
    pub(super) fn locate(&self, database: &Database, pages: &Pages, oid: &Oid) -> Result<Option<Location>> {
        // What is appended meanwhile may come faster than it is read.
        let mut wanted = None;
        loop {
            // Asked for first: an entry goes from pages to a table and on to the database, and is never between.
            let complete = wanted.map_or_else(|| !self.has_fresh.load(Acquire), |end| self.has_read(end));
            if let Some(at) = self.read_table(oid).get(oid) {
                return Ok(Some(at));
            }
            if let Some(at) = database.location(oid)? {
                return Ok(Some(at));
            }
            if complete {
                return self.damage().map_or(Ok(None), Err);
            }
            wanted.get_or_insert_with(|| self.noted());
            self.read_some(database, pages)?;
        }
    }

    /// Returns the ids in memory that begin with these digits; some of them twice.
    pub(super) fn ids_with_prefix(&self, prefix: &OidPrefix) -> Vec<Oid> {
        let (words, mut found): (_, Vec<Oid>) = (prefix.first_words(), Vec::new());
        // The first byte of an id is the number of its table.
        let first_byte = |&word: &u64| (word >> 56) as usize;
        for table in &self.tables[first_byte(words.start())..=first_byte(words.end())] {
            let table = table.read().unwrap_or_else(PoisonError::into_inner);
            found.extend(table.places.keys().chain(table.flushing.keys()).filter(|oid| prefix.matches(oid)));
        }
        found
    }

    /// Reads all pages into memory that are not in the index, of those that were appended when this was called.
    pub(super) fn read_all(&self, database: &Database, pages: &Pages) -> Result<()> {
        let wanted = self.noted();
        while !self.has_read(wanted) {
            self.read_some(database, pages)?;
        }
        Ok(())
    }

    /// Reads a step of pages into memory.
    fn read_some(&self, database: &Database, pages: &Pages) -> Result<()> {
        let mut end = lock(&self.end);
        let Some(range) = self.fresh().front().cloned() else { return Ok(()) };
        let (mut bytes, mut number) = (0, range.start);
        let (mut step, mut damage) = (Step::new(), None);
        let walked = range.end - range.start >= WALKED_MIN;
        if walked {
            database.each_page(range.clone(), &mut |found, value| {
                number = found + 1;
                bytes += value.len();
                match Page::verified(found, value) {
                    Ok(page) => step.add(found, &page),
                    Err(reason) => _ = damage.get_or_insert_with(|| damaged(database, found, reason)),
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
                    step.add(number, &page);
                    bytes += page.bytes();
                }
                // Covered by a long record.
                Ok(None) => {}
                Err(error @ Error::Corrupt { .. }) => _ = damage.get_or_insert(error),
                Err(error) => return Err(error),
            }
            number += 1;
        }
        if let Some(damage) = damage {
            lock(&self.damage).get_or_insert(damage);
        }
        for (table, entries) in self.tables.iter().zip(step.0) {
            if !entries.is_empty() {
                table.write().unwrap_or_else(PoisonError::into_inner).places.extend(entries);
            }
        }
        *end = number;
        let mut fresh = self.fresh();
        // Appends go on at the end of the last range; only this thread, which has the end, takes from the first.
        let done = match fresh.front_mut() {
            Some(first) => {
                first.start = number;
                first.start >= first.end
            }
            None => false,
        };
        if done {
            fresh.pop_front();
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
        if let Some(damage) = self.damage() {
            // The mark stays before the damaged page, so that it is told again.
            return Err(damage);
        }
        let (flushing, end) = {
            let end = lock(&self.end);
            let flushing: Vec<Arc<Places>> = self.write_tables().map(|mut table| table.flush()).collect();
            (flushing, *end)
        };
        if flushing.iter().all(|places| places.is_empty()) {
            return Ok(());
        }
        sync()?;
        let entries = flushing.iter().flat_map(|places| places.iter());
        let mut sorted: Vec<(Oid, Location)> = entries.map(|(oid, at)| (*oid, *at)).collect();
        sorted.sort_unstable_by(|one, other| one.0.as_bytes().cmp(other.0.as_bytes()));
        database.index(&sorted)?;
        let mut changes = database.change();
        changes.put_ref(refs::INDEXED, &refs::encode_indexed(end));
        changes.make(false)?;
        self.write_tables().for_each(|mut table| table.flushing = Arc::default());
        self.unwritten_bytes.fetch_sub(before, Relaxed);
        // Many entries are freed here, and no reader waits for it.
        drop(flushing);
        Ok(())
    }

    /// Returns how many bytes of memory it takes.
    pub(super) fn memory_bytes(&self) -> u64 {
        let tables = self.tables.iter().map(|table| table.read().unwrap_or_else(PoisonError::into_inner));
        tables.map(|table| (table.places.capacity() + table.flushing.capacity()) as u64 * ENTRY_BYTES).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        thread,
        time::{Duration, Instant},
    };

    use super::*;
    use crate::LsmOptions;

    #[test]
    fn what_is_absent_is_told_and_the_index_is_read_while_pages_come_without_end() {
        const FLOOD: Duration = Duration::from_secs(20);
        let dir = tempfile::tempdir().unwrap();
        let database = Database::create(dir.path(), &LsmOptions::default()).unwrap();
        let (index, pages, enough) = (Index::new(0, 0, 0), Pages::new(1 << 20), AtomicBool::new(false));
        index.note(0..1, 0);
        let since = Instant::now();
        thread::scope(|scope| {
            scope.spawn(|| {
                for page in (1..).take_while(|_| !enough.load(Relaxed) && since.elapsed() < FLOOD) {
                    index.note(page..page + 1, 0);
                }
            });
            let located = index.locate(&database, &pages, &Oid::from_array([7; 32]));
            let read = index.read_all(&database, &pages);
            let waited = since.elapsed();
            enough.store(true, Relaxed);
            read.unwrap();
            assert_eq!(located.unwrap(), None);
            assert!(waited < FLOOD, "they waited for the end of the flood");
        });
        index.read_all(&database, &pages).unwrap();
        assert!(!index.has_fresh.load(Acquire) && index.fresh().is_empty());
    }
}
