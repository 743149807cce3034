//! Entries that are made up from their numbers, and batches of them.

use crate::workload::{Random, add_up};

pub(super) const KEY_BYTES: usize = 34;
pub(super) const VALUE_BYTES: usize = 60;

/// Entries that are sorted at a time when a set is loaded.
const SORTED_AT_A_TIME: u64 = 1 << 18;

pub(super) type Key = [u8; KEY_BYTES];
pub(super) type Value = [u8; VALUE_BYTES];

/// The entries from one number up to another.
#[derive(Clone, Debug)]
pub(super) struct Set {
    pub(super) first: u64,
    pub(super) last: u64,
    random: u64,
}

/// What a batch looks up, adds and removes.
pub(super) struct Batch {
    pub(super) lookups: Vec<Key>,
    /// The sum of the values that lookups find.
    pub(super) sum: u64,
    pub(super) added: Vec<(Key, Value)>,
    pub(super) removed: Vec<Key>,
}

/// The finaliser of SplitMix64: numbers that differ give numbers spread over all 64 bits, each once.
const fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

const fn word(number: u64, index: u64) -> u64 {
    mix(number.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(index.wrapping_mul(0xd1b5_4a32_d192_ed03) + 1))
}

fn fill(bytes: &mut [u8], number: u64, from: u64) {
    for (index, part) in bytes.chunks_mut(8).enumerate() {
        part.copy_from_slice(&word(number, from + index as u64).to_be_bytes()[..part.len()]);
    }
}

/// Returns the key of an entry.
pub(super) fn key(number: u64) -> Key {
    let mut key = [0; KEY_BYTES];
    fill(&mut key, number, 0);
    key
}

/// Returns the value of an entry.
pub(super) fn value(number: u64) -> Value {
    let mut value = [0; VALUE_BYTES];
    fill(&mut value, number, 100);
    value
}

/// Returns what a value adds to a sum.
pub(super) fn weight(value: &[u8]) -> u64 {
    let word = value.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    word.wrapping_mul(value.len() as u64)
}

impl Set {
    pub(super) const fn new(entries: u64) -> Self {
        Self { first: 0, last: entries, random: 1 }
    }

    pub(super) const fn len(&self) -> u64 {
        self.last - self.first
    }

    /// Returns the next batch, and goes on to the set after it.
    pub(super) fn next_batch(&mut self, each: u64) -> Batch {
        self.random += 1;
        let (lookups, sum) = self.random_keys(self.random << 32, each);
        let added = (self.last..self.last + each).map(|number| (key(number), value(number))).collect();
        let removed = (self.first..self.first + each).map(key).collect();
        (self.first, self.last) = (self.first + each, self.last + each);
        Batch { lookups, sum, added, removed }
    }

    /// Returns keys of the set, chosen at random, and what their values add up to in this order.
    pub(super) fn random_keys(&self, seed: u64, count: u64) -> (Vec<Key>, u64) {
        let mut random = Random::new(seed + 7);
        let numbers: Vec<u64> = (0..count).map(|_| self.first + random.below(self.len())).collect();
        let sum = numbers.iter().fold(0, |sum, number| add_up(sum, weight(&value(*number))));
        (numbers.into_iter().map(key).collect(), sum)
    }

    /// Gives the entries in the order of their keys. Memory holds some of them at a time: numbers are looked through once for
    /// each part of the keys.
    pub(super) fn in_order<E>(&self, mut each: impl FnMut(&Key, &Value) -> Result<(), E>) -> Result<(), E> {
        let parts = self.len().div_ceil(SORTED_AT_A_TIME).next_power_of_two();
        let shift = 64 - parts.trailing_zeros();
        let mut part_of: Vec<(Key, u64)> = Vec::new();
        for part in 0..parts {
            part_of.clear();
            let here = |number: &u64| parts == 1 || word(*number, 0) >> shift == part;
            part_of.extend((self.first..self.last).filter(here).map(|number| (key(number), number)));
            part_of.sort_unstable();
            for (key, number) in &part_of {
                each(key, &value(*number))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_in_order_and_all_of_them() {
        let mut set = Set::new(SORTED_AT_A_TIME + 5);
        set.next_batch(3);
        let mut last: Option<Key> = None;
        let mut count = 0;
        set.in_order(|key, value| {
            assert!(last.is_none_or(|last| last < *key));
            assert_eq!(value.len(), VALUE_BYTES);
            (last, count) = (Some(*key), count + 1);
            Ok::<(), ()>(())
        })
        .unwrap();
        assert_eq!(count, set.len());
    }

    #[test]
    fn batches_look_up_and_remove_what_is_there_and_add_what_is_not() {
        let mut set = Set::new(1000);
        let before = set.clone();
        let there: std::collections::BTreeSet<Key> = (before.first..before.last).map(key).collect();
        let batch = set.next_batch(256);
        assert!(batch.lookups.iter().chain(&batch.removed).all(|key| there.contains(key)));
        assert!(batch.added.iter().all(|(key, _)| !there.contains(key)));
        assert_eq!((set.first, set.last), (256, 1256));
    }
}
