//! Seeded generators: the same seed gives the same numbers, paths, values and operations everywhere.
//!
//! [`Rng`] is SplitMix64, small enough to be read at a glance. It is no source of secrets.

use std::{
    process,
    time::{SystemTime, UNIX_EPOCH},
};

mod edits;

pub use edits::{Edit, Shape, Universe, VALUE_SIZES, value};

/// A deterministic source of numbers.
///
/// ```
/// use bristlecone_testkit::generate::Rng;
/// assert_eq!(Rng::new(7).next_u64(), Rng::new(7).next_u64());
/// ```
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Returns the generator with this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a generator that is another one in each process, also in one that has the number of an earlier process: ids that
    /// are made of it do not come again.
    ///
    /// # Panics
    /// Where the clock stands before 1970.
    #[must_use]
    pub fn of_this_process() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock stands after 1970");
        Self::stream(now.as_nanos() as u64, u64::from(process::id()))
    }

    /// Returns the generator for one of many independent streams of a seed.
    #[must_use]
    pub fn stream(seed: u64, stream: u64) -> Self {
        let mut rng = Self(seed ^ stream.wrapping_mul(0xd6e8_feb8_6659_fd93));
        Self(rng.next_u64())
    }

    /// Returns the next number.
    pub fn next_u64(&mut self) -> u64 {
        // Source: Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`.
    ///
    /// # Panics
    /// If `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "no number is below 0");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns an index into something of length `len`.
    ///
    /// # Panics
    /// If `len` is 0.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Returns true in `times` of `out_of` cases.
    pub fn chance(&mut self, times: u64, out_of: u64) -> bool {
        self.below(out_of) < times
    }

    /// Returns one of the items.
    ///
    /// # Panics
    /// If there are no items.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.index(items.len())]
    }

    /// Puts the items in a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in (1..items.len()).rev() {
            items.swap(index, self.index(index + 1));
        }
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }

    /// Returns `count` bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.fill(&mut bytes);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_below_their_bound_and_reach_it() {
        let mut rng = Rng::new(1);
        let mut seen = [false; 7];
        for _ in 0..1000 {
            seen[rng.index(7)] = true;
        }
        assert_eq!(seen, [true; 7]);
    }

    #[test]
    fn shuffling_keeps_the_items() {
        let mut items: Vec<u32> = (0..100).collect();
        Rng::new(2).shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
