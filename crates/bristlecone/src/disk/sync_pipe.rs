//! Which thread syncs, and how far the log is durable.

use std::{
    collections::VecDeque,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*},
    },
};

use crate::{Error, engine::Poison, sync::lock};

/// Whether a thread syncs, and how far everything is known to be durable.
#[derive(Debug, Default)]
pub(super) struct SyncPipe {
    // Whether a thread is syncing.
    busy: Mutex<bool>,
    done: Condvar,
    // Held by the thread that syncs a segment.
    one: Mutex<()>,
    // The location up to which everything is durable.
    durable_end: AtomicU64,
    // Where segments end that the log has left, ascending, as long as they may still have to be synced.
    sealed: Mutex<VecDeque<u64>>,
    // This process has made the names of the segments up to this one durable; 0: not even the header's.
    named: AtomicU32,
    // Segments that were opened to follow what another process wrote, until they are synced here: a sync that failed there before is
    // not told here.
    followed: Mutex<Vec<u32>>,
    // This process has made durable what openings removed.
    settled: AtomicBool,
    // Held by the thread that notes in a file how far the log is durable; up to which location this process has made such notes
    // durable themselves.
    noting: Mutex<u64>,
    /// Whether a caller asked for durability since the segment began: then the next one is worth zeroing, and is begun once all
    /// before it is durable.
    pub(super) wanted: AtomicBool,
    // About how many bytes the last syncs made durable each: the last one counts half.
    sync_bytes: AtomicU64,
}

/// Where syncs make more bytes durable, zeroes ahead of them cost more of the disk than they save: between 70 and 250 KB, as
/// `docs/performance.md` has it.
const ZEROED_SYNC_BYTES_MAX: u64 = 128 << 10;

impl SyncPipe {
    /// Notes how many bytes a sync made durable.
    pub(super) fn note_sync_bytes(&self, bytes: u64) {
        self.sync_bytes.store(u64::midpoint(self.sync_bytes.load(Relaxed), bytes), Relaxed);
    }

    /// Whether syncs are so small that a segment filled with zeroes makes them quicker.
    pub(super) fn zeroes_pay(&self) -> bool {
        self.sync_bytes.load(Relaxed) <= ZEROED_SYNC_BYTES_MAX
    }

    /// Returns the location up to which everything is known to be durable.
    pub(super) fn durable_end(&self) -> u64 {
        self.durable_end.load(Acquire)
    }

    /// Notes that everything up to a location is durable.
    pub(super) fn note_durable(&self, end: u64) {
        self.durable_end.fetch_max(end, AcqRel);
    }

    /// Notes where a segment ends that the log leaves.
    pub(super) fn note_sealed(&self, end: u64) {
        let mut sealed = lock(&self.sealed);
        if sealed.back().is_none_or(|&last| last < end) {
            sealed.push_back(end);
        }
    }

    /// Returns the ends of segments that the log has left and that are not known to be durable, ascending.
    pub(super) fn undurable(&self) -> Vec<u64> {
        let durable = self.durable_end();
        lock(&self.sealed).iter().copied().filter(|&end| end > durable).collect()
    }

    /// Returns the numbers of segments that the log has left and that have become durable, each once.
    pub(super) fn take_durable(&self) -> Vec<u32> {
        let durable = self.durable_end();
        let mut sealed = lock(&self.sealed);
        let count = sealed.partition_point(|&end| end <= durable);
        sealed.drain(..count).map(|end| (end >> 32) as u32).collect()
    }

    /// Returns the number up to which segments are known to have durable names.
    pub(super) fn named(&self) -> u32 {
        self.named.load(Acquire)
    }

    /// Notes that the names of segments up to this one are durable.
    pub(super) fn note_named(&self, number: u32) {
        self.named.fetch_max(number, AcqRel);
    }

    /// Notes that the log goes on in a segment that another process began.
    pub(super) fn note_followed(&self, number: u32) {
        let mut followed = lock(&self.followed);
        let durable = (self.durable_end() >> 32) as u32;
        followed.retain(|&before| before >= durable && before != number);
        followed.push(number);
    }

    /// Whether that was noted of a segment since it was synced here.
    pub(super) fn is_followed(&self, number: u32) -> bool {
        lock(&self.followed).contains(&number)
    }

    /// Notes that a segment was synced here.
    pub(super) fn note_synced(&self, number: u32) {
        lock(&self.followed).retain(|&followed| followed != number);
    }

    /// Whether this process has made durable which segments openings removed.
    pub(super) fn is_settled(&self) -> bool {
        self.settled.load(Acquire)
    }

    /// Notes that it has.
    pub(super) fn note_settled(&self) {
        self.settled.store(true, Release);
    }

    /// Waits until everything up to `end` is durable, or until no thread syncs: then the caller does, while it holds what is
    /// returned.
    pub(super) fn wait(&self, end: u64, poison: &Poison) -> Result<Option<Busy<'_>>, Error> {
        let mut busy = lock(&self.busy);
        loop {
            if self.durable_end() >= end {
                return Ok(None);
            }
            poison.check()?;
            if !*busy {
                *busy = true;
                return Ok(Some(Busy(self)));
            }
            busy = self.done.wait(busy).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets one thread sync a segment at a time.
    pub(super) fn one(&self) -> MutexGuard<'_, ()> {
        lock(&self.one)
    }

    /// Lets one thread at a time note how far the log is durable: up to which location notes of this process are durable themselves.
    pub(super) fn noting(&self) -> MutexGuard<'_, u64> {
        lock(&self.noting)
    }
}

/// Says while it lives that a thread syncs. Its drop wakes the threads that wait, also after a panic.
pub(super) struct Busy<'a>(&'a SyncPipe);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        *lock(&self.0.busy) = false;
        self.0.done.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_zeroed_for_small_syncs_and_again_soon_after_a_large_one() {
        let pipe = SyncPipe::default();
        let sync = |bytes| {
            pipe.note_sync_bytes(bytes);
            pipe.zeroes_pay()
        };
        assert!(pipe.zeroes_pay() && sync(4096) && sync(70 << 10));
        assert!(!sync(250 << 10) && !sync(250 << 10));
        assert!(!sync(64 << 20));
        let until = (0..).position(|_| sync(4096)).unwrap();
        assert!(until < 10, "{until} small syncs");
    }
}
