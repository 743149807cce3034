//! Which segments there are, and those that are open.
//!
//! A table is of one collection: the next collection drops segments, and who goes on from it reads by another table. What
//! was read is borrowed from the maps of a table's segments, so a snapshot holds its table, and a segment that was removed
//! stays readable until the last table that has it is gone.

use std::{
    fmt,
    ops::RangeInclusive,
    sync::{Arc, OnceLock, RwLock},
};

use super::{
    filters::SearchPlan,
    segment::{COLD, SEGMENTS_MAX, Segment},
    state::StoreState,
};
use crate::sync::{read_lock, write_lock};

const LEAF: usize = 1 << 12;
/// Leaves of each of the two ranges of numbers.
const LEAVES: usize = SEGMENTS_MAX as usize / LEAF;
type SegmentLeaf = Box<[OnceLock<Arc<Segment>>]>;

/// The segments there are after a collection, and those that were opened so far by number. Finding one takes no lock; none
/// is ever dropped before the table is, so that what was read may be borrowed from their maps.
pub(super) struct SegmentTable {
    /// What the last collection left.
    pub(super) state: StoreState,
    // Those of the log, then the cold ones.
    opened: Box<[OnceLock<SegmentLeaf>]>,
    // The numbers that segments of the log have, ascending: those that were listed, and what was opened since.
    numbers: RwLock<Arc<Vec<u32>>>,
    /// How lookups by id go through sealed segments.
    pub(super) plan: RwLock<Option<Arc<SearchPlan>>>,
}

impl SegmentTable {
    pub(super) fn new(state: StoreState) -> Self {
        let opened = (0..2 * LEAVES).map(|_| OnceLock::new()).collect();
        Self { state, opened, numbers: RwLock::default(), plan: RwLock::default() }
    }

    /// Returns a table for what a later collection left, with what is open of that.
    pub(super) fn after(&self, state: StoreState) -> Self {
        let table = Self::new(state);
        table.note(self.numbers().iter().copied());
        // One of which other records are live is opened anew, so that none that was found right before is read.
        let stays = |number| table.has(number) && (number < COLD || table.state.shares_cold(&self.state, number));
        for segment in self.opened().filter(|segment| stays(segment.number)) {
            table.keep(segment.clone());
        }
        table
    }

    /// Whether the table has a segment of this number, if there is one.
    pub(super) fn has(&self, number: u32) -> bool {
        if number >= COLD { self.state.cold(number).is_some() } else { number >= self.state.base }
    }

    /// Returns the segment if it was opened before.
    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<&Arc<Segment>> {
        let (leaf, place) = place(number);
        // Another number may have the same place.
        self.opened[leaf].get()?.get(place)?.get().filter(|segment| segment.number == number)
    }

    /// Keeps a segment, or the one that another thread opened meanwhile; `None` where there are more than
    /// [`SEGMENTS_MAX`] numbers between two.
    pub(super) fn keep(&self, segment: Arc<Segment>) -> Option<&Arc<Segment>> {
        let (leaf, place) = place(segment.number);
        let number = segment.number;
        let leaf = self.opened[leaf].get_or_init(|| (0..LEAF).map(|_| OnceLock::new()).collect());
        let kept = leaf[place].get_or_init(|| segment);
        if kept.number != number {
            return None;
        }
        self.note(std::iter::once(kept.number));
        Some(kept)
    }

    /// Notes that there are segments of these numbers, as far as they are of the log and were not removed.
    pub(super) fn note(&self, found: impl Iterator<Item = u32>) {
        let mut numbers = write_lock(&self.numbers);
        let known = numbers.len();
        let found = found.filter(|&number| number < COLD && number >= self.state.base);
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

    /// Returns the numbers of the log's segments, ascending. Only these are ever gone through: the numbers between
    /// them may be millions.
    pub(super) fn numbers(&self) -> Arc<Vec<u32>> {
        read_lock(&self.numbers).clone()
    }

    /// Returns the numbers of all segments, ascending.
    pub(super) fn all_numbers(&self) -> Vec<u32> {
        let cold = self.state.cold.iter().map(|cold| cold.number);
        self.numbers().iter().copied().chain(cold).collect()
    }

    /// Returns the ranges of numbers from the first one of the log up to `last` that are missing.
    pub(super) fn missing(&self, numbers: &[u32], last: u32) -> impl Iterator<Item = RangeInclusive<u32>> {
        // Mostly none is, and one look tells, as the numbers ascend.
        let (first, at) = (self.state.base, last.saturating_sub(self.state.base) as usize);
        let whole = numbers.first() == Some(&first) && numbers.get(at) == Some(&last);
        missing_numbers(if whole { &[] } else { numbers }, if whole { last + 1 } else { first }, last)
    }

    /// Returns every segment that was opened.
    pub(super) fn opened(&self) -> impl Iterator<Item = &Arc<Segment>> {
        self.opened.iter().filter_map(OnceLock::get).flatten().filter_map(OnceLock::get)
    }
}

/// Returns the leaf of a number and the place in it, which numbers that differ by [`SEGMENTS_MAX`] share: by then a
/// collection has removed the first of them.
#[inline]
const fn place(number: u32) -> (usize, usize) {
    let (cold, number) = ((number >= COLD) as usize, (number % SEGMENTS_MAX) as usize);
    (cold * LEAVES + number / LEAF, number % LEAF)
}

/// Returns the ranges of numbers from `first` to `last` that `numbers`, ascending, lack.
fn missing_numbers(numbers: &[u32], first: u32, last: u32) -> impl Iterator<Item = RangeInclusive<u32>> {
    let mut next = first;
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

/// Returns the numbers of the segments that some tables have, ascending.
pub(super) fn numbers_of(tables: &[Arc<SegmentTable>]) -> Vec<u32> {
    let mut numbers: Vec<u32> = tables.iter().flat_map(|table| table.all_numbers()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_share_places_and_a_place_never_answers_for_another_number() {
        for number in [1, SEGMENTS_MAX - 1, SEGMENTS_MAX, COLD - 1, COLD, COLD + SEGMENTS_MAX, u32::MAX] {
            let (leaf, at) = place(number);
            assert!(leaf < 2 * LEAVES && at < LEAF, "{number}");
            assert_eq!(leaf >= LEAVES, number >= COLD, "{number}");
        }
        assert_eq!(place(5), place(5 + SEGMENTS_MAX));
        assert_ne!(place(5), place(5 + COLD));
    }
}
