//! Where objects are now that hints of before a collection lead to.
//!
//! A record keeps the places that it was written with. Whatever names an object of a segment which was emptied since names a place that
//! is gone, each time it is read, and what is there now only a search of the indexes tells. So that is remembered, as far as there is
//! room. It is a hint like any other: whoever follows it compares the id, and searches again where it misleads.

use std::sync::OnceLock;

use bristlecone_core::Location;

use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Places that are remembered: 1 MiB, from the first one on.
const PLACES: usize = 1 << 16;

/// Places of before, each with that of today. Two that share an entry take turns.
#[derive(Debug, Default)]
pub(super) struct MovedPlaces(OnceLock<Box<[Moved]>>);

/// The two words need not be of one move: then they mislead.
#[derive(Debug, Default)]
struct Moved {
    from: AtomicU64,
    to: AtomicU64,
}

impl MovedPlaces {
    /// Returns where to look for what was at a place.
    #[inline]
    pub(super) fn get(&self, from: Location) -> Option<Location> {
        let moved = &self.0.get()?[entry(from)];
        (moved.from.load(Relaxed) == from.0).then(|| Location(moved.to.load(Relaxed)))
    }

    /// Notes where what was at a place is now.
    pub(super) fn note(&self, from: Location, to: Location) {
        let all = self.0.get_or_init(|| (0..PLACES).map(|_| Moved::default()).collect());
        let moved = &all[entry(from)];
        moved.from.store(from.0, Relaxed);
        moved.to.store(to.0, Relaxed);
    }

    /// Returns the bytes of memory that the places take.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.0.get().map_or(0, |all| size_of_val(&**all) as u64)
    }
}

/// Returns the entry of a place. Records begin at multiples of 8.
#[inline]
const fn entry(at: Location) -> usize {
    ((at.0 >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - PLACES.trailing_zeros())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_remembered_until_another_takes_its_entry() {
        let moved = MovedPlaces::default();
        assert_eq!((moved.get(Location(64)), moved.memory_bytes()), (None, 0));
        moved.note(Location(64), Location(1 << 40));
        assert_eq!(moved.memory_bytes(), 1 << 20);
        assert_eq!((moved.get(Location(64)), moved.get(Location(72))), (Some(Location(1 << 40)), None));
        moved.note(Location(64), Location(2 << 40));
        assert_eq!(moved.get(Location(64)), Some(Location(2 << 40)));
        let places = (9_u64..).map(|number| Location(number * 8));
        let other = places.clone().find(|at| entry(*at) == entry(Location(64))).unwrap();
        moved.note(other, Location(3 << 40));
        assert_eq!((moved.get(Location(64)), moved.get(other)), (None, Some(Location(3 << 40))));
        let entries: std::collections::HashSet<usize> = places.take(4096).map(entry).collect();
        assert!(entries.len() > 3800, "neighbours are spread: {}", entries.len());
    }
}
