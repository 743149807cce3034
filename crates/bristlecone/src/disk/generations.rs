//! The tables of segments that this process reads by: that of the store's state, and older ones that snapshots still hold.

use std::sync::{
    Arc, Mutex, RwLock, Weak,
    atomic::{AtomicU64, Ordering::*},
};

use super::{state::StoreState, table::SegmentTable};
use crate::sync::{lock, read_lock, write_lock};

/// The table to read by from now on, and those that are still read by.
#[derive(Debug)]
pub(super) struct Generations {
    current: RwLock<Arc<SegmentTable>>,
    epoch: AtomicU64,
    // Those before the current one, as long as a snapshot has them.
    older: Mutex<Vec<Weak<SegmentTable>>>,
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

    /// Returns the number of the state of the current table.
    #[inline]
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Acquire)
    }

    /// Goes on with a later state.
    pub(super) fn advance(&self, state: StoreState) {
        let mut current = write_lock(&self.current);
        let next = Arc::new(current.after(state));
        self.epoch.store(next.state.epoch, Release);
        let older = std::mem::replace(&mut *current, next);
        drop(current);
        let mut list = lock(&self.older);
        list.retain(|table| table.strong_count() > 0);
        list.push(Arc::downgrade(&older));
    }

    /// Notes in every table that there are segments of these numbers: a snapshot finds what comes later, too.
    pub(super) fn note(&self, found: &[u32]) {
        self.current().note(found.iter().copied());
        for table in lock(&self.older).iter().filter_map(Weak::upgrade) {
            table.note(found.iter().copied());
        }
    }

    /// Returns the number of the oldest state by which something is still read here.
    pub(super) fn oldest_epoch(&self) -> u64 {
        let mut list = lock(&self.older);
        list.retain(|table| table.strong_count() > 0);
        let held = list.iter().filter_map(Weak::upgrade).map(|table| table.state.epoch).min();
        held.unwrap_or(u64::MAX).min(self.epoch())
    }

    /// Returns how many tables are still held beside the current one.
    pub(super) fn older(&self) -> usize {
        let mut list = lock(&self.older);
        list.retain(|table| table.strong_count() > 0);
        list.len()
    }
}
