//! Which segments there are, and those that are open.

use std::{
    fmt,
    ops::RangeInclusive,
    sync::{Arc, OnceLock, RwLock},
};

use super::segment::{NUMBER_END, Segment};
use crate::sync::{read_lock, write_lock};

const LEAF: usize = 1 << 12;
type SegmentLeaf = Box<[OnceLock<Box<Segment>>]>;

/// The segments there are, and those that were opened so far by number. Finding one takes no lock; none is ever dropped
/// before the table is, so that what was read may be borrowed from their maps.
pub(super) struct SegmentTable {
    opened: Box<[OnceLock<SegmentLeaf>]>,
    // The numbers that segments have, ascending: those that were listed, and what was opened since.
    numbers: RwLock<Arc<Vec<u32>>>,
}

impl SegmentTable {
    pub(super) fn new() -> Self {
        let opened = (0..NUMBER_END as usize / LEAF).map(|_| OnceLock::new()).collect();
        Self { opened, numbers: RwLock::default() }
    }

    /// Returns the segment if it was opened before.
    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<&Segment> {
        let number = number as usize;
        Some(self.opened.get(number / LEAF)?.get()?.get(number % LEAF)?.get()?)
    }

    /// Keeps a segment, or the one that another thread opened meanwhile; `None` for a number out of bounds.
    pub(super) fn keep(&self, segment: Segment) -> Option<&Segment> {
        let number = segment.number as usize;
        let leaf = self.opened.get(number / LEAF)?.get_or_init(|| (0..LEAF).map(|_| OnceLock::new()).collect());
        let kept = leaf[number % LEAF].get_or_init(|| Box::new(segment));
        self.note(std::iter::once(kept.number));
        Some(kept)
    }

    /// Notes that there are segments of these numbers.
    pub(super) fn note(&self, found: impl Iterator<Item = u32>) {
        let mut numbers = write_lock(&self.numbers);
        let known = numbers.len();
        let new: Vec<u32> = found.filter(|number| numbers.binary_search(number).is_err()).collect();
        if !new.is_empty() {
            let numbers = Arc::make_mut(&mut numbers);
            numbers.extend(new);
            // Mostly one, and the highest.
            if !numbers[known.saturating_sub(1)..].is_sorted() {
                numbers.sort_unstable();
            }
            numbers.dedup();
        }
    }

    /// Returns the numbers of the segments there are, ascending. Only these are ever gone through: the numbers between
    /// them may be millions.
    pub(super) fn numbers(&self) -> Arc<Vec<u32>> {
        read_lock(&self.numbers).clone()
    }

    /// Returns every segment that was opened.
    pub(super) fn opened(&self) -> impl Iterator<Item = &Segment> {
        self.opened.iter().filter_map(OnceLock::get).flatten().filter_map(OnceLock::get).map(|segment| &**segment)
    }
}

/// Returns the ranges of numbers up to `last` that `numbers`, ascending, lack.
pub(super) fn missing_numbers(numbers: &[u32], last: u32) -> impl Iterator<Item = RangeInclusive<u32>> {
    let mut next = 1;
    let bounds = numbers.iter().copied().take_while(move |&number| number <= last).chain(std::iter::once(last + 1));
    bounds.filter_map(move |number| {
        let missing = next..=number.saturating_sub(1);
        next = number + 1;
        (missing.start() <= missing.end()).then_some(missing)
    })
}

impl fmt::Debug for SegmentTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.opened()).finish()
    }
}
