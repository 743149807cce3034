//! Which records of mapped segments were found right: a bit for each 32 bytes, in which at most one record of at least 48
//! bytes starts.
//!
//! Bits lie in anonymous maps, of which one serves many segments. The system gives memory to a page of bits when one
//! of them is first set, and takes it back where the page is released: its bits are clear from then on. No address ever
//! becomes invalid as long as the segment is there, so readers need no lock. What is committed never changes, so
//! a bit that is set is true, whichever thread set it and when. One that was lost costs a second check of the record.

use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{
            AtomicU64,
            Ordering::{AcqRel, Relaxed},
        },
    },
};

use memmap2::{MmapMut, MmapRaw};

use crate::sync::lock;

/// Bytes that a bit stands for.
const GRANULE_BYTES: usize = 32;
/// Address space that is mapped at a time: the bits of 1 GiB of segments.
const MAP_BYTES: usize = 4 << 20;

/// The memory that bits of all segments of a store take.
pub(super) struct BitMemory {
    bytes_max: u64,
    page_bytes: usize,
    // Bytes of pages in which a bit was set.
    held: AtomicU64,
    // The newest map, and how much of it is given away.
    map: Mutex<(Option<Arc<MmapRaw>>, usize)>,
    // The segment after the one whose bits were released last.
    hand: Mutex<u32>,
}

impl BitMemory {
    /// Returns memory of at most `bytes_max` bytes; more by an eighth, and a page for each thread that reads at the time.
    pub(super) fn new(bytes_max: u64) -> Self {
        Self {
            bytes_max,
            page_bytes: rustix::param::page_size(),
            held: AtomicU64::new(0),
            map: Mutex::default(),
            hand: Mutex::default(),
        }
    }

    /// Returns the bytes of memory that bits take.
    pub(super) fn bytes(&self) -> u64 {
        self.held.load(Relaxed)
    }

    /// Keeps to the budget: releases the bits of one segment after the other, round and round, until an eighth of the
    /// budget is free again. `numbers`: the segments there are, ascending; `forget` releases the bits of one.
    #[inline]
    pub(super) fn trim(&self, numbers: impl Fn() -> Vec<u32>, forget: impl Fn(u32)) {
        if self.bytes() > self.bytes_max {
            self.trim_now(&numbers(), forget);
        }
    }

    #[cold]
    fn trim_now(&self, numbers: &[u32], forget: impl Fn(u32)) {
        // One thread does for all, unless it falls behind.
        let mut hand = match self.hand.try_lock() {
            Ok(hand) => hand,
            Err(_) if self.bytes() <= self.bytes_max + self.bytes_max / 8 => return,
            Err(_) => lock(&self.hand),
        };
        let from = numbers.partition_point(|&number| number < *hand);
        for &number in numbers[from..].iter().chain(&numbers[..from]) {
            if self.bytes() <= self.bytes_max - self.bytes_max / 8 {
                return;
            }
            forget(number);
            *hand = number + 1;
        }
    }

    /// Returns clear bytes, and where they begin in their map; `None` where the system gives no address space.
    fn take(&self, bytes: usize) -> Option<(Arc<MmapRaw>, usize)> {
        let mut last = lock(&self.map);
        if last.0.as_ref().is_none_or(|map| map.len() - last.1 < bytes) {
            let map = MmapRaw::from(MmapMut::map_anon(bytes.max(MAP_BYTES)).ok()?);
            // Without this, the first bit would take 2 MiB on some systems.
            #[cfg(target_os = "linux")]
            let _ = map.advise(memmap2::Advice::NoHugePage);
            *last = (Some(Arc::new(map)), 0);
        }
        let (map, from) = (last.0.clone()?, last.1);
        last.1 += bytes;
        Some((map, from))
    }
}

/// The bits of one segment.
pub(super) struct Verified {
    // In the map, which is kept as long.
    words: &'static [AtomicU64],
    map: Option<(Arc<MmapRaw>, usize)>,
    // A bit for each page of bits: whether it takes memory.
    touched: Box<[AtomicU64]>,
    memory: Arc<BitMemory>,
}

impl Verified {
    /// Returns clear bits for a segment of this length: none, so that nothing is remembered, where there is no memory.
    pub(super) fn new(memory: &Arc<BitMemory>, segment_bytes: u64) -> Self {
        let words = (segment_bytes as usize).div_ceil(GRANULE_BYTES).div_ceil(64);
        let bytes = (words * 8).next_multiple_of(memory.page_bytes);
        let map = if words == 0 { None } else { memory.take(bytes) };
        let touched = (0..(bytes / memory.page_bytes).div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        let words = match &map {
            // SAFETY: the map is not unmapped before `self`, and the slice is not given away for longer. `take` gave these
            // bytes, which begin at a page's beginning, to no other segment; they are zero, and only used as atomic words.
            Some((map, from)) => unsafe {
                std::slice::from_raw_parts(map.as_mut_ptr().add(*from).cast::<AtomicU64>(), words)
            },
            None => &[],
        };
        Self { words, map, touched, memory: memory.clone() }
    }

    /// Whether the record at `offset` is known to be right.
    #[inline]
    pub(super) fn has(&self, offset: usize) -> bool {
        let granule = offset / GRANULE_BYTES;
        self.words.get(granule / 64).is_some_and(|word| word.load(Relaxed) & 1 << (granule % 64) != 0)
    }

    /// As [`Verified::has`], where that is asked once: a page that no bit has touched is not read, since the system would give
    /// it zeroes, and take these away from all processors for the first bit.
    pub(super) fn has_once(&self, offset: usize) -> bool {
        let page = offset / GRANULE_BYTES / 8 / self.memory.page_bytes;
        self.touched.get(page / 64).is_some_and(|flags| flags.load(Relaxed) & 1 << (page % 64) != 0) && self.has(offset)
    }

    /// Notes that the record at `offset` is right.
    pub(super) fn note(&self, offset: usize) {
        let granule = offset / GRANULE_BYTES;
        let Some(word) = self.words.get(granule / 64) else { return };
        if word.fetch_or(1 << (granule % 64), Relaxed) == 0 {
            // A bit beside it has touched the page before.
            self.touch(granule / 8);
        }
    }

    /// Counts the page in which this byte of the bits lies, the first time.
    fn touch(&self, byte: usize) {
        let page = byte / self.memory.page_bytes;
        let flag = 1 << (page % 64);
        let bytes = self.memory.page_bytes as u64;
        // Counted before it shows, so that who gives it back has something to subtract from.
        self.memory.held.fetch_add(bytes, Relaxed);
        if self.touched[page / 64].fetch_or(flag, AcqRel) & flag != 0 {
            self.memory.held.fetch_sub(bytes, Relaxed);
        }
    }

    /// Clears all bits and gives their memory back.
    pub(super) fn forget(&self) {
        let pages: u32 = self.touched.iter().map(|flags| flags.swap(0, AcqRel).count_ones()).sum();
        let Some((map, from)) = self.map.as_ref().filter(|_| pages > 0) else { return };
        self.memory.held.fetch_sub(u64::from(pages) * self.memory.page_bytes as u64, Relaxed);
        if !give_back(map, *from, size_of_val(self.words)) {
            self.words.iter().for_each(|word| word.store(0, Relaxed));
        }
    }
}

/// Gives the memory of some pages back, which are zero from then on; returns whether the system does that.
fn give_back(map: &MmapRaw, from: usize, bytes: usize) -> bool {
    // SAFETY: the map has no file, so what it holds is lost and reads as zero. Nothing else lies in these pages than words
    // of one segment, which may be cleared at any time.
    #[cfg(target_os = "linux")]
    return unsafe { map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, from, bytes) }.is_ok();
    // Elsewhere the call promises less.
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (map, from, bytes);
        false
    }
}

impl Drop for Verified {
    fn drop(&mut self) {
        self.forget();
    }
}

impl fmt::Debug for BitMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BitMemory({} of {} bytes)", self.bytes(), self.bytes_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bits of segments of 8 KiB, of 1 GiB and one byte less than 4 GiB, which have maps in common and of their own.
    fn some() -> (Arc<BitMemory>, Vec<Verified>) {
        let memory = Arc::new(BitMemory::new(1 << 20));
        let lengths = [8192, 1 << 30, 8192, (1 << 32) - 8, 8192];
        let all = lengths.into_iter().map(|bytes| Verified::new(&memory, bytes)).collect();
        (memory, all)
    }

    #[test]
    fn a_record_that_is_right_says_nothing_of_others() {
        let (_memory, all) = some();
        let noted = [(0, 64), (0, 8160), (1, 0), (1, (1 << 30) - 32), (3, 1 << 31), (3, (1 << 32) - 64), (4, 4000)];
        for (segment, offset) in noted {
            all[segment].note(offset);
        }
        // Beyond the segment nothing is known, and nothing is noted.
        all[2].note(8192);
        let mut found = Vec::new();
        for (segment, bits) in all.iter().enumerate() {
            let near = |at: usize| (at.saturating_sub(8192)..at.saturating_add(8192)).step_by(32);
            let places: std::collections::BTreeSet<usize> =
                [0, 8192, 1 << 30, 1 << 31, 1 << 32].into_iter().flat_map(near).collect();
            found.extend(places.into_iter().filter(|&at| bits.has(at)).map(|at| (segment, at)));
        }
        assert_eq!(found, noted);
    }

    #[test]
    fn memory_is_counted_by_pages_and_comes_back() {
        let (memory, mut all) = some();
        let page = memory.page_bytes as u64;
        assert_eq!(memory.bytes(), 0);
        for offset in (0..8192).step_by(32) {
            all[0].note(offset);
        }
        assert_eq!(memory.bytes(), page);
        let apart = memory.page_bytes * 8 * GRANULE_BYTES;
        (0..10).for_each(|n| all[1].note(n * apart));
        assert_eq!(memory.bytes(), 11 * page);
        all[0].forget();
        assert!((0..8192).all(|offset| !all[0].has(offset)) && all[1].has(9 * apart), "one segment, and no other");
        assert_eq!(memory.bytes(), 10 * page);
        all[0].note(64);
        assert_eq!((memory.bytes(), all[0].has(64), all[0].has(96)), (11 * page, true, false));
        all.remove(1);
        assert_eq!(memory.bytes(), page);
    }

    #[test]
    fn bits_are_let_go_of_in_turn() {
        let page = BitMemory::new(0).page_bytes as u64;
        let memory = Arc::new(BitMemory::new(8 * page));
        let all: Vec<Verified> = (0..20).map(|_| Verified::new(&memory, 8192)).collect();
        let numbers = Arc::new((1..=20).collect::<Vec<u32>>());
        let trim = || memory.trim(|| numbers.to_vec(), |number| all[number as usize - 1].forget());
        for (index, bits) in all.iter().enumerate() {
            bits.note(64);
            trim();
            assert!(memory.bytes() <= 8 * page && bits.has(64), "segment {index}");
        }
        let kept: Vec<usize> = (0..20).filter(|&index| all[index].has(64)).collect();
        assert_eq!(kept, (12..20).collect::<Vec<_>>(), "the oldest went first");
        all[0].note(64);
        trim();
        assert!(!all[12].has(64) && all[0].has(64), "it goes on where it was");
    }

    /// A page that is counted by one thread and given back by another at the same time never counts below nothing.
    #[test]
    fn memory_never_counts_as_less_than_none() {
        let memory = Arc::new(BitMemory::new(1 << 20));
        let bits = Verified::new(&memory, 1 << 16);
        let (bits_ref, rounds) = (&bits, 300_000);
        std::thread::scope(|scope| {
            let noting = scope.spawn(move || (0..rounds).for_each(|_| bits_ref.note(0)));
            let forgetting = scope.spawn(move || (0..rounds / 10).for_each(|_| bits_ref.forget()));
            while !noting.is_finished() || !forgetting.is_finished() {
                assert!(memory.bytes() <= 2 * memory.page_bytes as u64, "{}", memory.bytes());
            }
        });
        bits.forget();
        assert_eq!(memory.bytes(), 0);
    }
}
