//! The tables of segments that this process reads by: that of the store's state, and older ones that snapshots still hold.
//! `tests/interleavings.rs` builds this file on explored primitives.

use super::{state::StoreState, table::SegmentTable};
use crate::sync::{
    Arc, Mutex, RwLock, Weak,
    atomic::{AtomicU64, Ordering::*},
    lock, read_lock, write_lock,
};

/// The table to read by from now on, and those that are still read by.
#[derive(Debug)]
pub(super) struct Generations {
    current: RwLock<Arc<SegmentTable>>,
    epoch: AtomicU64,
    older: Mutex<Vec<OlderTable>>,
}

/// A table before the current one, as long as a snapshot has it.
#[derive(Debug)]
struct OlderTable {
    table: Weak<SegmentTable>,
    // When the state after it was made, in seconds since 1970, and where in the log it was announced.
    time: u32,
    at: u64,
}

impl Generations {
    pub(super) fn new() -> Self {
        let table = Arc::new(SegmentTable::new(StoreState::default()));
        Self { current: RwLock::new(table), epoch: AtomicU64::new(0), older: Mutex::default() }
    }

    /// Returns the table of the store's state, as far as this process knows it.
    pub(super) fn current(&self) -> Arc<SegmentTable> {
        read_lock(&self.current).clone()
    }

    /// Looks at the table of the store's state, which cannot change meanwhile: for a short look that is made very often.
    #[inline]
    pub(super) fn with_current<T>(&self, look: impl FnOnce(&SegmentTable) -> T) -> T {
        look(&read_lock(&self.current))
    }

    /// Returns every table that is read by: the current one and older ones that are held.
    pub(super) fn all(&self) -> Vec<Arc<SegmentTable>> {
        // In this order, so that one which just gives way is among the older ones.
        let mut tables = vec![self.current()];
        tables.extend(lock(&self.older).iter().filter_map(|older| older.table.upgrade()));
        tables
    }

    /// Returns the number of the state of the current table.
    #[inline]
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Acquire)
    }

    /// Goes on with a later state, which was announced at a location.
    pub(super) fn advance(&self, state: StoreState, at: u64) {
        let time = state.time;
        let mut current = write_lock(&self.current);
        let next = Arc::new(current.after(state));
        {
            // Before the number is that of the next one: at any time, a table that is held is listed or has the current number.
            let mut list = lock(&self.older);
            list.retain(|older| older.table.strong_count() > 0);
            list.push(OlderTable { table: Arc::downgrade(&current), time, at });
        }
        self.epoch.store(next.state.epoch, Release);
        *current = next;
    }

    /// Notes in every table that there are segments of these numbers: a snapshot finds what comes later, too.
    pub(super) fn note(&self, found: &[u32]) {
        self.all().iter().for_each(|table| table.note(found.iter().copied()));
    }

    /// Returns the number of the oldest state by which something is still read here; tables that have given way at a time of
    /// which `expired` is true do not count.
    pub(super) fn oldest_epoch(&self, expired: &dyn Fn(u32) -> bool) -> u64 {
        let list = lock(&self.older);
        let held = list.iter().filter(|older| !expired(older.time)).filter_map(|older| older.table.upgrade());
        held.map(|table| table.state.epoch).min().unwrap_or(u64::MAX).min(self.epoch())
    }

    /// Whether no table is held beside the current one.
    pub(super) fn is_alone(&self) -> bool {
        lock(&self.older).iter().all(|older| older.table.strong_count() == 0)
    }

    /// Returns the location before which snapshots were taken whose tables have given way at a time of which `expired` is true.
    pub(super) fn expired_before(&self, expired: &dyn Fn(u32) -> bool) -> u64 {
        let list = lock(&self.older);
        list.iter().filter(|older| expired(older.time)).map(|older| older.at).max().unwrap_or(0)
    }
}
