//! What is kept in memory: records of objects, and which objects were written lately and are protected.
//!
//! Records are in two tiers. The lower is a cache with a budget. What is read again and again rises into the upper, in
//! which nothing moves and nothing is dropped, so that it is borrowed without a lock and for as long as the backend:
//! the fast way of reads. The upper tier ends growing at its part of the budget; up to half of that, whatever is read
//! rises.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, OnceLock, PoisonError, RwLock,
        atomic::{AtomicU32, AtomicUsize, Ordering::*},
    },
    time::{Duration, Instant},
};

use bristlecone::{
    Bytes, Object, Oid,
    core::{RECORD_HEADER_BYTES, RecordHeader},
};
use quick_cache::{Weighter, sync::Cache};

/// Records from this length on do not rise.
const PINNED_BYTES_MAX: usize = 256 << 10;
/// Bytes of a record that the sizes of tables assume.
const RECORD_BYTES: u64 = 256;
/// How often a record that was read from the repository is asked for before it rises.
const ASKED_READ: u32 = 2;
/// How often one that was just written is: the next commit reads it and then never again.
const ASKED_WRITTEN: u32 = 16;

/// A record in the lower tier.
#[derive(Debug)]
struct Kept {
    bytes: Arc<[u8]>,
    // How often it must still be asked for before it rises.
    left: AtomicU32,
}

#[derive(Clone, Debug)]
struct ByBytes;

impl Weighter<Oid, Arc<Kept>> for ByBytes {
    fn weight(&self, _: &Oid, kept: &Arc<Kept>) -> u64 {
        // 96 bytes for what stands around a record: id, counters and links.
        kept.bytes.len() as u64 + 96
    }
}

/// Records by id.
#[derive(Debug)]
pub(super) struct Records {
    lower: Cache<Oid, Arc<Kept>, ByBytes>,
    upper: Pinned,
}

impl Records {
    /// Returns empty tiers that take `bytes` bytes together, at most.
    pub(super) fn new(bytes: u64) -> Self {
        let upper = bytes / 2;
        let lower = bytes - upper;
        let items = (lower / RECORD_BYTES).clamp(16, 1 << 22) as usize;
        Self { lower: Cache::with_weighter(items, lower, ByBytes), upper: Pinned::new(upper) }
    }

    /// Returns the record of an object that rose, borrowed.
    #[inline]
    pub(super) fn peek(&self, oid: &[u8]) -> Option<&[u8]> {
        self.upper.get(oid)
    }

    /// Returns an object that is kept.
    #[inline]
    pub(super) fn get(&self, oid: &Oid) -> Option<Object<'_>> {
        if let Some(bytes) = self.upper.get(oid.as_bytes()) {
            return object(Bytes::Borrowed(bytes));
        }
        let kept = self.lower.get(oid)?;
        // A count that wraps would take four billion reads of what is too large to rise.
        if kept.left.fetch_sub(1, Relaxed) == 1
            && let Some(bytes) = self.upper.insert(&kept.bytes)
        {
            self.lower.remove(oid);
            return object(Bytes::Borrowed(bytes));
        }
        object(Bytes::from(kept.bytes.clone()))
    }

    /// Keeps a record that was read, and returns its object. As long as the upper tier is less than half full the
    /// record rises at once: most programs read no more than that.
    pub(super) fn keep_read(&self, oid: Oid, record: Vec<u8>) -> Option<Object<'_>> {
        if self.upper.bytes.load(Relaxed) < self.upper.bytes_max / 2
            && let Some(bytes) = self.upper.insert(&record)
        {
            return object(Bytes::Borrowed(bytes));
        }
        let bytes: Arc<[u8]> = record.into();
        self.insert(oid, bytes.clone(), ASKED_READ);
        object(Bytes::from(bytes))
    }

    /// Keeps a record that was written.
    pub(super) fn insert_written(&self, oid: Oid, bytes: Arc<[u8]>) {
        self.insert(oid, bytes, ASKED_WRITTEN);
    }

    fn insert(&self, oid: Oid, bytes: Arc<[u8]>, asked: u32) {
        self.lower.insert(oid, Arc::new(Kept { bytes, left: AtomicU32::new(asked) }));
    }

    /// Empties the lower tier. What rose may be borrowed and stays.
    pub(super) fn clear(&self) {
        self.lower.clear();
    }

    /// Returns the bytes of memory that the tiers take.
    pub(super) fn bytes(&self) -> u64 {
        self.lower.weight() + self.upper.memory_bytes()
    }
}

/// Returns the object of a record that is kept: all of them are without places and words.
#[inline]
fn object(bytes: Bytes<'_>) -> Option<Object<'_>> {
    let kind = RecordHeader::first(&bytes)?.kind()?;
    let end = bytes.len();
    Some(Object::from_body(kind, bytes.slice(RECORD_HEADER_BYTES..end)))
}

/// Records that stay, found without a lock: an open table. A slot that is taken stays so. A table that fills up is
/// followed by a larger one with the same records; it stays too, since a reader may be looking at it.
#[derive(Debug)]
struct Pinned {
    // Made when there is first something to keep in them.
    tables: [OnceLock<Box<[RecordSlot]>>; TABLES],
    /// The table that is looked at.
    now: AtomicUsize,
    bytes: AtomicUsize,
    bytes_max: usize,
    // How many slots of that table are taken. The lock is held to insert.
    taken: Mutex<usize>,
}

/// A place for one record.
type RecordSlot = OnceLock<Arc<[u8]>>;

/// Slots of the first table, and how many times as many the next one has each time. Few at first: pages that were never
/// touched and caches that are left alone cost nothing.
const FIRST_SLOTS: usize = 1 << 11;
const GROWTH: usize = 8;
const TABLES: usize = 6;

impl Pinned {
    fn new(bytes_max: u64) -> Self {
        Self {
            tables: [const { OnceLock::new() }; TABLES],
            now: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            bytes_max: bytes_max as usize,
            taken: Mutex::default(),
        }
    }

    /// How many slots the last table has, a power of two.
    fn slots_max(&self) -> usize {
        (self.bytes_max as u64 / RECORD_BYTES).clamp(64, 1 << 24).next_power_of_two() as usize
    }

    /// Returns the bytes of memory that it takes.
    fn memory_bytes(&self) -> u64 {
        let slots: usize = self.tables.iter().filter_map(OnceLock::get).map(|slots| slots.len()).sum();
        (self.bytes.load(Relaxed) + slots * size_of::<RecordSlot>()) as u64
    }

    #[inline]
    fn get(&self, oid: &[u8]) -> Option<&[u8]> {
        let slots = self.tables.get(self.now.load(Acquire))?.get()?;
        let mask = slots.len() - 1;
        let mut at = u64::from_le_bytes(*oid.first_chunk()?) as usize & mask;
        loop {
            let record = slots[at].get()?;
            if is_of(record, oid) {
                return Some(record);
            }
            at = (at + 1) & mask;
        }
    }

    /// Copies a record and returns the copy; `None` where there is no room.
    fn insert(&self, record: &[u8]) -> Option<&[u8]> {
        let id = id_of(record)?;
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(there) = self.get(id) {
            return Some(there);
        }
        let bytes = self.bytes.load(Relaxed) + record.len();
        if record.len() > PINNED_BYTES_MAX || bytes > self.bytes_max {
            return None;
        }
        let slots = self.with_room(*taken)?;
        self.bytes.store(bytes, Relaxed);
        *taken += 1;
        put(slots, record.into())
    }

    /// Returns a table with room for one more record beside those there are; `None` if it may not grow.
    fn with_room(&self, taken: usize) -> Option<&[RecordSlot]> {
        let now = self.now.load(Relaxed);
        let empty = |slots: usize| -> Box<[RecordSlot]> {
            (0..slots.min(self.slots_max())).map(|_| RecordSlot::new()).collect()
        };
        let slots = self.tables[now].get_or_init(|| empty(FIRST_SLOTS));
        // A table that is three quarters full still ends searches soon.
        if taken < slots.len() / 4 * 3 {
            return Some(slots);
        }
        if slots.len() >= self.slots_max() {
            return None;
        }
        let larger = self.tables.get(now + 1)?.get_or_init(|| {
            let larger = empty(slots.len() * GROWTH);
            slots.iter().filter_map(OnceLock::get).for_each(|record| _ = put(&larger, record.clone()));
            larger
        });
        self.now.store(now + 1, Release);
        Some(larger)
    }
}

/// Puts a record into a table that has room for it and does not have it.
fn put(slots: &[RecordSlot], record: Arc<[u8]>) -> Option<&[u8]> {
    let mask = slots.len() - 1;
    let mut at = u64::from_le_bytes(*id_of(&record)?.first_chunk()?) as usize & mask;
    while slots[at].get().is_some() {
        at = (at + 1) & mask;
    }
    Some(slots[at].get_or_init(|| record))
}

/// Returns the id that a record states.
fn id_of(record: &[u8]) -> Option<&[u8]> {
    RecordHeader::first(record)?.oid()
}

/// Whether a record is of the object with this id.
#[inline(always)]
fn is_of(record: &[u8], oid: &[u8]) -> bool {
    RecordHeader::first(record).is_some_and(|header| header.is_of(oid))
}

/// Ids in a set before the older one is dropped.
const RECENT_MAX: usize = 1 << 17;
/// For how long an object is known to be there, at most: memory is for what was written lately.
const RECENT: Duration = Duration::from_secs(600);

/// Objects that were written and certainly exist, since their packs are still protected: two sets, of which the older one
/// is dropped in time. What is not protected may be dropped by a Git at any time.
#[derive(Debug)]
pub(super) struct Recent {
    sets: RwLock<Sets>,
}

#[derive(Debug)]
struct Sets {
    newer: HashSet<Oid>,
    older: HashSet<Oid>,
    turned: Instant,
}

impl Recent {
    pub(super) fn new() -> Self {
        let sets = Sets { newer: HashSet::new(), older: HashSet::new(), turned: Instant::now() };
        Self { sets: RwLock::new(sets) }
    }

    pub(super) fn contains(&self, oid: &Oid) -> bool {
        let sets = self.sets.read().unwrap_or_else(PoisonError::into_inner);
        if sets.turned.elapsed() > RECENT {
            return false;
        }
        sets.newer.contains(oid) || sets.older.contains(oid)
    }

    pub(super) fn insert(&self, oids: impl Iterator<Item = Oid>) {
        let mut sets = self.sets.write().unwrap_or_else(PoisonError::into_inner);
        let stale = sets.turned.elapsed() > RECENT;
        if stale || sets.newer.len() > RECENT_MAX || sets.turned.elapsed() > RECENT / 2 {
            let newer = std::mem::take(&mut sets.newer);
            sets.older = if stale { HashSet::new() } else { newer };
            sets.turned = Instant::now();
        }
        sets.newer.extend(oids);
    }

    /// Forgets all of them: some are no longer protected.
    pub(super) fn clear(&self) {
        let mut sets = self.sets.write().unwrap_or_else(PoisonError::into_inner);
        (sets.newer, sets.older) = (HashSet::new(), HashSet::new());
    }
}

#[cfg(test)]
mod tests {
    use bristlecone::{Kind, core::write_record};

    use super::*;

    fn oid(number: u32) -> Oid {
        let mut id = [0; 20];
        id[..4].copy_from_slice(&number.wrapping_mul(0x9e37_79b9).to_le_bytes());
        id[4..8].copy_from_slice(&(number % 3).to_le_bytes());
        id[16..].copy_from_slice(&number.to_le_bytes());
        Oid::new(&id).unwrap()
    }

    fn record(number: u32, bytes: usize) -> Arc<[u8]> {
        let mut out = Vec::new();
        write_record(&mut out, Kind::Node, &oid(number), &vec![number as u8; bytes], &[], &[]);
        out.truncate(48 + bytes);
        out.into()
    }

    #[test]
    fn what_is_asked_for_again_rises_and_stays() {
        let records = Records::new(1 << 20);
        // The first rise at once; then the upper tier is half full.
        let mut first = 0;
        while records.upper.bytes.load(Relaxed) < records.upper.bytes_max / 2 {
            assert_eq!(
                records.keep_read(oid(first), record(first, 300).to_vec()).unwrap().body(),
                vec![first as u8; 300]
            );
            assert!(records.peek(oid(first).as_bytes()).is_some());
            first += 1;
        }
        for n in first..first + 500 {
            records.keep_read(oid(n), record(n, 20 + n as usize % 50).to_vec());
        }
        for n in first..first + 500 {
            assert!(records.peek(oid(n).as_bytes()).is_none());
            for _ in 0..3 {
                assert_eq!(records.get(&oid(n)).unwrap().body(), vec![n as u8; 20 + n as usize % 50]);
            }
        }
        let borrowed: Vec<&[u8]> = (first..first + 500).map(|n| records.peek(oid(n).as_bytes()).unwrap()).collect();
        records.clear();
        for n in first..first + 500 {
            assert_eq!(borrowed[(n - first) as usize], &*record(n, 20 + n as usize % 50));
            assert!(records.get(&oid(n)).is_some() && records.get(&oid(n + 2000)).is_none());
        }
    }

    #[test]
    fn the_upper_tier_keeps_within_its_budget() {
        let records = Records::new(100_000);
        for n in 0..5000 {
            records.keep_read(oid(n), record(n, 300).to_vec());
            for _ in 0..4 {
                records.get(&oid(n));
            }
        }
        assert!(records.upper.bytes.load(Relaxed) <= 50_000);
        let risen = (0..5000).filter(|&n| records.peek(oid(n).as_bytes()).is_some()).count();
        assert!((50..=143).contains(&risen), "{risen}");
    }

    #[test]
    fn threads_find_what_others_raise() {
        let records = Records::new(4 << 20);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let records = &records;
                scope.spawn(move || {
                    for n in 0..4000 {
                        let n = (n * 7 + thread * 1000) % 4000;
                        match records.get(&oid(n)) {
                            Some(object) => assert_eq!(object.body(), [n as u8; 40]),
                            None => _ = records.keep_read(oid(n), record(n, 40).to_vec()),
                        }
                    }
                });
            }
        });
    }
}
