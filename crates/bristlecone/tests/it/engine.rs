//! The disk engine as the suites make and open it.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use bristlecone::{
    Backend, Damage, Error, Object, Oid, OidPrefix,
    disk::{DiskBackend, DiskOptions, FormatTag},
    storage::Storage,
};
use bristlecone_testkit::{
    crash::Engine,
    sim::{Lie, Lying, SimStorage},
};

/// What the stores of the suites say of their format.
pub(crate) fn format_tag() -> FormatTag {
    FormatTag { name: "native".to_owned(), version: 1, options: String::new() }
}

/// The smallest segments, cold ones of a few objects, and no threads, so that every run makes the same calls.
pub(crate) fn tiny() -> DiskOptions {
    DiskOptions::default().segment_bytes(4096).cold_bytes(2048).maps(false).background(false).collect(false)
}

/// The smallest segments, and else as a store is used unless options say otherwise: objects are read through maps, and
/// threads sync, prepare segments and make indexes.
pub(crate) fn tiny_as_shipped() -> DiskOptions {
    tiny().maps(true).background(true).grouped_ms(0)
}

/// As [`tiny_as_shipped`], without threads.
pub(crate) fn tiny_with_maps() -> DiskOptions {
    tiny().maps(true)
}

/// Returns how many objects a store gives for the first digits of an id.
pub(crate) fn count_with_digits(backend: &dyn Backend, id: Oid, digits: usize) -> usize {
    let prefix: OidPrefix = id.to_string()[..digits].parse().unwrap();
    let mut count = 0;
    let each = &mut |_, _: &Object<'_>| {
        count += 1;
        Ok(())
    };
    backend.each_with_prefix(&prefix, each).unwrap();
    count
}

pub(crate) fn open(storage: Arc<dyn Storage>, options: &DiskOptions) -> Result<Arc<dyn Backend>, Error> {
    Ok(Arc::new(DiskBackend::open(storage, None, options.clone(), false)?))
}

/// Opens a store of the smallest segments.
pub(crate) fn open_tiny(disk: &SimStorage, read_only: bool) -> Result<DiskBackend, Error> {
    DiskBackend::open(Arc::new(disk.clone()), None, tiny(), read_only)
}

/// Checks a store, and returns what is damaged.
pub(crate) fn check(backend: &DiskBackend) -> Vec<Damage> {
    let mut damages = Vec::new();
    backend.check(&mut |damage| damages.push(damage)).unwrap();
    damages
}

/// The disk engine with its options, over a storage that may lie to it.
pub(crate) struct DiskEngine {
    pub(crate) options: DiskOptions,
    /// What the storage lies about, after how many honest calls.
    pub(crate) lie: Option<(Lie, u64)>,
}

impl DiskEngine {
    pub(crate) fn new(options: DiskOptions) -> Self {
        Self { options, lie: None }
    }

    fn storage(&self, storage: Arc<dyn Storage>) -> Arc<dyn Storage> {
        match self.lie {
            Some((lie, honest)) => Arc::new(Lying::after(storage, lie, honest)),
            None => storage,
        }
    }
}

impl Engine for DiskEngine {
    fn create(&self, storage: Arc<dyn Storage>) -> Result<Arc<dyn Backend>, Error> {
        Ok(Arc::new(DiskBackend::create(self.storage(storage), format_tag(), self.options.clone())?))
    }

    fn open(&self, storage: Arc<dyn Storage>) -> Result<Arc<dyn Backend>, Error> {
        open(self.storage(storage), &self.options)
    }

    /// Before two steps of three, threads come to the end of their work; before the third they may be in the middle.
    fn rest(&self, storage: &SimStorage) {
        let (mut calls, mut quiet) = (storage.calls(), 0);
        if !self.options.background || calls % 3 == 0 {
            return;
        }
        while quiet < 3 {
            std::thread::sleep(Duration::from_micros(50));
            let before = std::mem::replace(&mut calls, storage.calls());
            quiet = if calls == before { quiet + 1 } else { 0 };
        }
    }
}

/// A store on a simulated disk, to be opened again and again.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    disk: SimStorage,
    options: DiskOptions,
}

impl Store {
    /// Makes a store with segments of 64 KiB.
    pub(crate) fn simulated_small() -> Self {
        let store = Self { disk: SimStorage::new(), options: tiny().segment_bytes(1 << 16) };
        DiskBackend::create(Arc::new(store.disk.clone()), format_tag(), store.options.clone()).unwrap();
        store
    }

    pub(crate) fn open(&self) -> Arc<dyn Backend> {
        open(Arc::new(self.disk.clone()), &self.options).unwrap()
    }
}

/// Waits for what a thread beside appends does soon, ten seconds at most.
pub(crate) fn is_soon(mut done: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    while !done() {
        if began.elapsed() > Duration::from_secs(10) {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
    true
}
