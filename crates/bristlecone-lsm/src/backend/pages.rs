//! Pages in memory: those that can be lent, and those that are kept to be found sooner.
//!
//! A *shelf* is a table of pages in which nothing moves. A snapshot has one, and lends from it without a lock for as long as
//! it lives. All snapshots of one time share a shelf. Pages are put on it as they are read and written, until it is
//! full; then a new one takes its place for later snapshots. Behind the shelves is a cache that drops what was not asked
//! for, and behind that the database.
//!
//! A page from which a sweep dropped objects is *unclean* until it is removed. It is on no shelf that is used from then on, and
//! who reads from it by place asks the index whether the object is still there.

use std::{
    collections::HashSet,
    sync::{
        Arc, OnceLock, RwLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*},
    },
};

use bristlecone::{Error, Result};
use quick_cache::{Weighter, sync::Cache};

use super::{
    database::Database,
    open_store::{read_lock, write_lock},
    page::Page,
};

/// Places on a shelf. Pages of a batch have numbers in a row, so that those which are used together take places of their own.
const PLACES: usize = 4096;
/// After so many pages that found their place taken, a shelf counts as full.
const REFUSED_MAX: usize = PLACES / 4;
/// Bytes that stand around a page in the cache.
const AROUND_BYTES: u64 = 96;
/// Bytes of a page that the size of the cache's table assumes.
const PAGE_BYTES: u64 = 4096;

/// Pages that stay as long as the shelf.
#[derive(Debug)]
pub(super) struct Shelf {
    places: Box<[OnceLock<(u64, Page)>]>,
    bytes: AtomicU64,
    refused: AtomicUsize,
}

impl Shelf {
    fn new() -> Self {
        let places = (0..PLACES).map(|_| OnceLock::new()).collect();
        Self { places, bytes: AtomicU64::new(0), refused: AtomicUsize::new(0) }
    }

    /// Returns a page that is on the shelf.
    #[inline]
    pub(super) fn get(&self, number: u64) -> Option<&Page> {
        let (found, page) = self.places[number as usize % PLACES].get()?;
        (*found == number).then_some(page)
    }

    /// Puts a page on the shelf if there is room; returns whether the shelf is full now.
    fn put(&self, number: u64, page: &Page, bytes_max: u64) -> bool {
        let mut put = false;
        let (there, _) = self.places[number as usize % PLACES].get_or_init(|| {
            put = true;
            (number, page.clone())
        });
        if put {
            return self.bytes.fetch_add(page.bytes() as u64, Relaxed) + page.bytes() as u64 > bytes_max;
        }
        *there != number && self.refused.fetch_add(1, Relaxed) >= REFUSED_MAX
    }
}

#[derive(Clone, Debug)]
struct ByBytes;

impl Weighter<u64, Page> for ByBytes {
    fn weight(&self, _: &u64, page: &Page) -> u64 {
        page.bytes() as u64 + AROUND_BYTES
    }
}

/// The pages of a store in memory.
#[derive(Debug)]
pub(super) struct Pages {
    shelf: RwLock<Arc<Shelf>>,
    shelf_bytes: u64,
    cache: Cache<u64, Page, ByBytes>,
    unclean: RwLock<Unclean>,
    has_unclean: AtomicBool,
}

/// Pages from which objects were dropped.
#[derive(Debug, Default)]
struct Unclean {
    numbers: HashSet<u64>,
    // How often pages were removed: what was read before is not kept after.
    removals: u64,
}

impl Pages {
    /// Returns no pages. `cache_bytes`: for the shelf and the cache together.
    pub(super) fn new(cache_bytes: u64) -> Self {
        let shelf_bytes = cache_bytes / 2;
        let bytes = cache_bytes - shelf_bytes;
        let count = (bytes / PAGE_BYTES).clamp(16, 1 << 20) as usize;
        Self {
            shelf: RwLock::new(Arc::new(Shelf::new())),
            shelf_bytes,
            cache: Cache::with_weighter(count, bytes, ByBytes),
            unclean: RwLock::default(),
            has_unclean: AtomicBool::new(false),
        }
    }

    /// Notes that objects on these pages are dropped next.
    pub(super) fn mark(&self, numbers: impl IntoIterator<Item = u64>) {
        let mut unclean = write_lock(&self.unclean);
        unclean.numbers.extend(numbers);
        if !unclean.numbers.is_empty() {
            self.has_unclean.store(true, Release);
            // Snapshots that are there go on with what they have; what they held was not dropped.
            *write_lock(&self.shelf) = Arc::new(Shelf::new());
        }
    }

    /// Forgets pages that were removed from the database.
    pub(super) fn remove(&self, numbers: &[u64]) {
        let mut unclean = write_lock(&self.unclean);
        unclean.removals += 1;
        for number in numbers {
            self.cache.remove(number);
            unclean.numbers.remove(number);
        }
        self.has_unclean.store(!unclean.numbers.is_empty(), Release);
    }

    /// Whether objects on a page may have been dropped.
    pub(super) fn is_unclean(&self, number: u64) -> bool {
        self.has_unclean.load(Acquire) && read_lock(&self.unclean).numbers.contains(&number)
    }

    /// Returns the shelf of now.
    pub(super) fn shelf(&self) -> Arc<Shelf> {
        read_lock(&self.shelf).clone()
    }

    /// Keeps a page that was written.
    pub(super) fn keep(&self, number: u64, page: &Page) {
        let unclean = read_lock(&self.unclean);
        self.put_on_shelf(&unclean, number, page);
        self.cache.insert(number, page.clone());
    }

    /// Puts a page on the shelf of now.
    fn put_on_shelf(&self, unclean: &Unclean, number: u64, page: &Page) {
        if unclean.numbers.contains(&number) {
            return;
        }
        let shelf = &self.shelf();
        // A page as long as a shelf would leave no room for another.
        if (page.bytes() as u64) < self.shelf_bytes / 8 && shelf.put(number, page, self.shelf_bytes) {
            let mut current = write_lock(&self.shelf);
            if Arc::ptr_eq(&current, shelf) {
                *current = Arc::new(Shelf::new());
            }
        }
    }

    /// Returns a page, from memory or from the database; `None` if there is no such page.
    pub(super) fn get(&self, database: &Database, number: u64) -> Result<Option<Page>> {
        if let Some(page) = self.shelf().get(number) {
            return Ok(Some(page.clone()));
        }
        let removals = {
            let unclean = read_lock(&self.unclean);
            if let Some(page) = self.cache.get(&number) {
                self.put_on_shelf(&unclean, number, &page);
                return Ok(Some(page));
            }
            unclean.removals
        };
        let page = Self::read(database, number)?;
        if let Some(page) = &page {
            let unclean = read_lock(&self.unclean);
            if unclean.removals == removals {
                self.put_on_shelf(&unclean, number, page);
                self.cache.insert(number, page.clone());
            }
        }
        Ok(page)
    }

    /// Reads a page from the database, and keeps nothing of it.
    pub(super) fn read(database: &Database, number: u64) -> Result<Option<Page>> {
        let Some(value) = database.page(number)? else { return Ok(None) };
        Page::verified(number, value).map(Some).map_err(|reason| damaged(database, number, reason))
    }

    /// Drops what is kept. Shelves stay as long as snapshots have them.
    pub(super) fn clear(&self) {
        *write_lock(&self.shelf) = Arc::new(Shelf::new());
        self.cache.clear();
    }

    /// Returns how many bytes of memory they take, older shelves left out.
    pub(super) fn memory_bytes(&self) -> u64 {
        let shelf = self.shelf();
        let places = (PLACES * size_of::<OnceLock<(u64, Page)>>()) as u64;
        self.cache.weight() + shelf.bytes.load(Relaxed) + places
    }
}

/// Returns the error for a damaged page. The offset is the page's first address.
pub(super) fn damaged(database: &Database, number: u64, reason: &str) -> Error {
    let offset = super::page::page_location(number).0;
    let reason = format!("{reason}; put the folder back from a backup of this store");
    Error::Corrupt { file: database.pages_name(), offset, oid: None, reason }
}
