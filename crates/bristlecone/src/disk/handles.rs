//! How many maps and open files the sealed segments of a process have. The system limits both, and the rest of the process
//! needs some, too. A store may have more segments than either limit.
//!
//! All stores of the process count together, and take at most a quarter of what the system allows. A sealed segment that
//! comes too late for a map is read by calls through an open file, and one that comes too late for that through a file
//! that is opened for each read. A map, once made, stays as long as the store, since what was read is borrowed from it.

use std::{
    io,
    ops::Deref,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use super::verified::BitMemory;
use crate::storage::{FileMap, Storage, StorageFile};

/// The part of what the system allows that stores take.
const PART: u64 = 4;
/// What Linux allows unless told otherwise; taken where the system does not tell.
const MAPS_USUAL: u64 = 65_530;
const FILES_USUAL: u64 = 1024;

/// What the stores that have it in common may hold.
#[derive(Clone, Debug)]
pub(super) struct Handles {
    maps: Arc<Allowance>,
    files: Arc<Allowance>,
}

impl Handles {
    /// Returns handles with these limits, which only their clones share.
    pub(super) fn new(maps: u64, files: u64) -> Self {
        let allowance = |max| Arc::new(Allowance { max, used: AtomicU64::new(0) });
        Self { maps: allowance(maps), files: allowance(files) }
    }

    /// Maps a file's first bytes; `None` if there may be no further map, or the storage has none.
    pub(super) fn map(&self, file: &dyn StorageFile, bytes: u64) -> io::Result<Option<CountedMap>> {
        let Some(share) = self.maps.take() else { return Ok(None) };
        match file.map(bytes) {
            Ok(map) => Ok(map.map(|map| CountedMap { map, _share: share })),
            // Others in the process have taken what was left.
            Err(error) if error.kind() == io::ErrorKind::OutOfMemory => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the right to keep a file open, unless too many are open.
    pub(super) fn file(&self) -> Option<Share> {
        self.files.take()
    }
}

impl Default for Handles {
    /// Those that all stores of the process have in common.
    fn default() -> Self {
        static PROCESS: OnceLock<Handles> = OnceLock::new();
        PROCESS.get_or_init(|| Self::new(maps_allowed() / PART, files_allowed() / PART)).clone()
    }
}

/// Returns how many maps a process may have.
fn maps_allowed() -> u64 {
    let text = std::fs::read_to_string("/proc/sys/vm/max_map_count").ok();
    text.and_then(|text| text.trim().parse().ok()).unwrap_or(MAPS_USUAL)
}

/// Returns how many files a process may have open.
fn files_allowed() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(FILES_USUAL)
}

#[derive(Debug)]
struct Allowance {
    max: u64,
    used: AtomicU64,
}

impl Allowance {
    fn take(self: &Arc<Self>) -> Option<Share> {
        let more = |used| (used < self.max).then_some(used + 1);
        self.used.fetch_update(Relaxed, Relaxed, more).ok().map(|_| Share(self.clone()))
    }
}

/// How segments of a store are opened.
pub(super) struct SegmentAccess<'s> {
    pub(super) storage: &'s Arc<dyn Storage>,
    pub(super) salt: u64,
    /// The version of the store's files.
    pub(super) version: u32,
    /// What keeps bits for segments, if they are to be mapped.
    pub(super) bits: Option<&'s Arc<BitMemory>>,
    pub(super) handles: &'s Handles,
}

/// One of what is allowed, until it is dropped.
#[derive(Debug)]
pub(super) struct Share(Arc<Allowance>);

impl Drop for Share {
    fn drop(&mut self) {
        self.0.used.fetch_sub(1, Relaxed);
    }
}

/// A map, and the share that it takes; the map goes first.
#[derive(Debug)]
pub(super) struct CountedMap {
    map: FileMap,
    _share: Share,
}

impl CountedMap {
    /// As [`FileMap::forget`].
    pub(super) fn forget(&self) {
        self.map.forget();
    }
}

impl Deref for CountedMap {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        &self.map
    }
}
