//! Pages in memory: those that can be lent, and those that are kept to be found sooner.
//!
//! A *shelf* is a table of pages in which nothing moves. A snapshot has one, and lends from it without a lock for as long as
//! it lives. All snapshots of one time share a shelf. Pages are put on it as they are read and written, until it is
//! full; then a new one takes its place for later snapshots. Behind the shelves is a cache that drops what was not asked
//! for, and behind that the database.

use std::sync::{
    Arc, OnceLock, PoisonError, RwLock,
    atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
};

use bristlecone::{Error, Result};
use quick_cache::{Weighter, sync::Cache};

use super::{database::Database, page::Page};

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
        }
    }

    /// Returns the shelf of now.
    pub(super) fn shelf(&self) -> Arc<Shelf> {
        self.shelf.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Keeps a page that was read or written.
    pub(super) fn keep(&self, number: u64, page: &Page) {
        self.put_on_shelf(&self.shelf(), number, page);
        self.cache.insert(number, page.clone());
    }

    fn put_on_shelf(&self, shelf: &Arc<Shelf>, number: u64, page: &Page) {
        // A page as long as a shelf would leave no room for another.
        if (page.bytes() as u64) < self.shelf_bytes / 8 && shelf.put(number, page, self.shelf_bytes) {
            let mut current = self.shelf.write().unwrap_or_else(PoisonError::into_inner);
            if Arc::ptr_eq(&current, shelf) {
                *current = Arc::new(Shelf::new());
            }
        }
    }

    /// Returns a page, from memory or from the database; `None` if there is no such page.
    pub(super) fn get(&self, database: &Database, number: u64) -> Result<Option<Page>> {
        let shelf = self.shelf();
        if let Some(page) = shelf.get(number) {
            return Ok(Some(page.clone()));
        }
        if let Some(page) = self.cache.get(&number) {
            self.put_on_shelf(&shelf, number, &page);
            return Ok(Some(page));
        }
        let page = Self::read(database, number)?;
        if let Some(page) = &page {
            self.keep(number, page);
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
        *self.shelf.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(Shelf::new());
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
