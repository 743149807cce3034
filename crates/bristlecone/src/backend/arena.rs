//! Memory that is appended to and never moves: bytes that were kept can be borrowed for as long as the table that led to
//! them.
//!
//! A table of slabs only grows; to drop slabs is to go on with another table, which shares the others.
//!
//! Runs of bytes are copied into slabs of several MiB, on huge pages where the system has them: storing a
//! commit of 4 KiB otherwise costs a page fault. Once half of a slab is full, a thread makes the next one and has the system
//! clear its pages, which takes a third as long as the commits that fill them. Long runs stay where they are and are slabs of their
//! own.

use std::slice;

use bristlecone_core::Location;
use memmap2::MmapMut;

use crate::sync::{
    Arc, Mutex, PoisonError, RwLock,
    atomic::{AtomicUsize, Ordering::*},
    thread,
};

/// The size of a slab in bytes.
const SLAB_BYTES: usize = 8 << 20;
/// Runs from this length on become slabs of their own.
pub(super) const LONG_BYTES: usize = 2 << 20;

/// Append-only memory. A location is the number of a slab in the upper 32 bits and an offset in it in the
/// lower ones.
#[derive(Debug, Default)]
pub(super) struct Arena {
    current: RwLock<Arc<SlabTable>>,
    filling: Mutex<Filling>,
    spare: Arc<Mutex<SpareSlab>>,
}

/// Which slab is being filled.
#[derive(Debug, Default)]
struct Filling {
    number: Option<usize>,
    /// Whether the one after it was asked for.
    asked: bool,
}

/// A slab to come.
#[derive(Debug, Default)]
struct SpareSlab {
    /// Whether a thread makes one, or has.
    asked: bool,
    slab: Option<Slab>,
}

/// Slabs by their numbers, which are never given twice.
#[derive(Debug, Default)]
pub(super) struct SlabTable {
    // One without bytes stands for one that was dropped.
    slabs: boxcar::Vec<Arc<Slab>>,
}

impl SlabTable {
    /// Returns what was kept from a location on: the run that starts there, and perhaps others behind it.
    #[inline(always)]
    pub(super) fn get(&self, at: Location) -> Option<&[u8]> {
        self.slabs.get((at.0 >> 32) as usize)?.get(at.0 as u32 as usize)
    }

    fn push(&self, slab: Slab) -> usize {
        self.slabs.push(Arc::new(slab))
    }
}

#[derive(Debug)]
pub(super) struct Slab {
    // The first byte of the memory, and how many there are.
    start: *mut u8,
    bytes: usize,
    // Bytes that were kept: they never change again.
    kept: AtomicUsize,
    _memory: SlabMemory,
}

#[derive(Debug)]
enum SlabMemory {
    /// Kept whole.
    Whole { _bytes: Vec<u8> },
    /// Filled from the start.
    Filling { _map: MmapMut },
}

// SAFETY: the pointer is to memory that the slab owns through its map or vector. It is written only by `Slab::fill`,
// which the arena calls under its lock, beyond `kept`; and read only below `kept`.
unsafe impl Send for Slab {}
// SAFETY: as for `Send`.
unsafe impl Sync for Slab {}

impl Slab {
    /// Returns an empty slab; `cleared`: its pages are made at once, not when they are written first.
    fn new(cleared: bool) -> std::io::Result<Self> {
        let mut map = MmapMut::map_anon(SLAB_BYTES)?;
        #[cfg(target_os = "linux")]
        {
            // Without huge pages, and without pages made before, it only takes longer.
            let _ = map.advise(memmap2::Advice::HugePage);
            let _ = if cleared { map.advise(memmap2::Advice::PopulateWrite) } else { Ok(()) };
        }
        #[cfg(not(target_os = "linux"))]
        let _ = cleared;
        let (start, bytes) = (map.as_mut_ptr(), map.len());
        Ok(Self { start, bytes, kept: AtomicUsize::new(0), _memory: SlabMemory::Filling { _map: map } })
    }

    /// Returns a slab that is full.
    fn whole(mut run: Vec<u8>) -> Self {
        run.shrink_to_fit();
        let (start, bytes) = (run.as_mut_ptr(), run.len());
        Self { start, bytes, kept: AtomicUsize::new(bytes), _memory: SlabMemory::Whole { _bytes: run } }
    }

    /// Returns what was kept from `offset` on.
    #[inline(always)]
    fn get(&self, offset: usize) -> Option<&[u8]> {
        let kept = self.kept.load(Acquire);
        if offset > kept {
            return None;
        }
        // SAFETY: `kept` is at most `bytes`, the length of the memory, which lives where it is as long as `self`, and
        // `offset <= kept`. What is below `kept` was written before it was stored with `Release`, and is never written
        // again.
        Some(unsafe { slice::from_raw_parts(self.start.add(offset), kept - offset) })
    }

    /// Appends `run` and returns its offset; `None` if there is no room. One caller at a time.
    fn fill(&self, run: &[u8]) -> Option<usize> {
        let kept = self.kept.load(Relaxed);
        if run.len() > self.bytes - kept {
            return None;
        }
        // SAFETY: `kept + run.len()` is at most the length of the memory. No other thread writes (the arena holds its
        // lock), and no thread reads beyond `kept`.
        unsafe { run.as_ptr().copy_to_nonoverlapping(self.start.add(kept), run.len()) };
        self.kept.store(kept + run.len(), Release);
        Some(kept)
    }
}

impl Arena {
    /// Returns the table of today.
    pub(super) fn table(&self) -> Arc<SlabTable> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts the table of today in the place of another, if it is another.
    pub(super) fn follow(&self, table: &mut Arc<SlabTable>) {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(table, &current) {
            *table = current.clone();
        }
    }

    /// Keeps a copy of a run, whose length is a multiple of 8; `None` if it is too long for a slab.
    pub(super) fn keep_copy(&self, run: &[u8]) -> Option<Location> {
        if run.len() >= LONG_BYTES {
            return None;
        }
        let mut filling = self.filling.lock().unwrap_or_else(PoisonError::into_inner);
        let table = self.current.read().unwrap_or_else(PoisonError::into_inner);
        let place = |number: usize| {
            let offset = table.slabs.get(number)?.fill(run)?;
            Some((Location((number as u64) << 32 | offset as u64), offset + run.len()))
        };
        let placed = filling.number.and_then(place);
        let (at, kept) = match placed {
            Some(placed) => placed,
            None => {
                let slab = match self.take_spare() {
                    Some(slab) => slab,
                    None => Slab::new(false).ok()?,
                };
                let number = table.push(slab);
                *filling = Filling { number: Some(number), asked: false };
                place(number)?
            }
        };
        if kept >= SLAB_BYTES / 2 && !filling.asked {
            filling.asked = true;
            self.make_spare();
        }
        Some(at)
    }

    /// Returns the slab that a thread has made, if it has. Waits for no lock: in a forked process its holder may be missing.
    fn take_spare(&self) -> Option<Slab> {
        let mut spare = self.spare.try_lock().ok()?;
        let slab = spare.slab.take()?;
        spare.asked = false;
        Some(slab)
    }

    /// Has a thread make a slab, unless one does or there is one.
    fn make_spare(&self) {
        let Ok(mut spare) = self.spare.try_lock() else { return };
        if spare.asked {
            return;
        }
        let shared = self.spare.clone();
        let make = move || {
            let slab = Slab::new(true).ok();
            let mut spare = shared.lock().unwrap_or_else(PoisonError::into_inner);
            spare.asked = slab.is_some();
            spare.slab = slab;
        };
        // Without a thread the slab is made when it is needed.
        spare.asked = thread::Builder::new().name("cone-memory".to_owned()).spawn(make).is_ok();
    }

    /// Keeps a run, whose length is a multiple of 8, and returns where it starts.
    pub(super) fn keep(&self, run: Vec<u8>) -> Location {
        if let Some(at) = self.keep_copy(&run) {
            return at;
        }
        let table = self.current.read().unwrap_or_else(PoisonError::into_inner);
        Location((table.push(Slab::whole(run)) as u64) << 32)
    }

    /// Has the next run begin a slab.
    pub(super) fn leave_slab(&self) {
        *self.filling.lock().unwrap_or_else(PoisonError::into_inner) = Filling::default();
    }

    /// Goes on with a table that lacks some slabs, of which none is being filled. They are there as long as a table is
    /// that has them.
    pub(super) fn drop_slabs(&self, dropped: impl Fn(usize) -> bool) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let (left, none) = (SlabTable::default(), Arc::new(Slab::whole(Vec::new())));
        for (number, slab) in &current.slabs {
            left.slabs.push(if dropped(number) { none.clone() } else { slab.clone() });
        }
        *current = Arc::new(left);
    }
}
