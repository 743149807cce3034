//! A set of object ids that gives each a number, in a dozen bytes of memory an id.
//!
//! Ids themselves are in a [`Table`]; in memory there are 32 bits of a keyed hash and the number. A hit is compared
//! with the whole id, so that no two ids are ever taken for one.

use std::hash::{BuildHasher, RandomState};

use bristlecone::{Error, Oid, Result};

use crate::history::table::{Scratch, Table};

/// Shards grow one at a time, so that growing takes little memory.
const SHARDS: usize = 64;
const FREE: u64 = u64::MAX;

/// Ids with numbers from 0, in the order they came.
#[derive(Debug)]
pub(crate) struct Ids {
    ids: Table,
    width: usize,
    shards: Vec<Shard>,
    // A user who does not know it cannot choose ids that collide.
    key: (u64, u64),
}

#[derive(Debug, Default)]
struct Shard {
    // The hash's lower half above, the number below.
    slots: Vec<u64>,
    len: usize,
}

impl Ids {
    /// An empty set of ids of `width` bytes.
    pub(crate) fn new(width: usize, scratch: &Scratch) -> Self {
        let random = RandomState::new();
        Self {
            ids: Table::new(width, scratch),
            width,
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            key: (random.hash_one(1) | 1, random.hash_one(2)),
        }
    }

    /// Returns how many ids there are.
    pub(crate) fn len(&self) -> u32 {
        self.ids.len() as u32
    }

    /// Returns the number of an id.
    pub(crate) fn get(&self, oid: &Oid) -> Result<Option<u32>> {
        let hash = self.hash(oid);
        let shard = &self.shards[hash as usize % SHARDS];
        shard.find(hash, |number| self.is(number, oid))
    }

    /// Adds an id that is not in the set and returns its number.
    pub(crate) fn insert(&mut self, oid: &Oid) -> Result<u32> {
        let number = u32::try_from(self.ids.len()).ok().filter(|&number| number < u32::MAX);
        let Some(number) = number else {
            return Err(Error::Usage { reason: "more than 4 thousand million objects are not transferred at once" });
        };
        let bytes = oid.as_bytes();
        if bytes.len() != self.width {
            return Err(Error::Usage { reason: "ids of two hash algorithms meet" });
        }
        self.ids.push(bytes)?;
        let hash = self.hash(oid);
        self.shards[hash as usize % SHARDS].insert(hash, number);
        Ok(number)
    }

    /// Returns the id with this number.
    pub(crate) fn oid(&self, number: u32) -> Result<Oid> {
        let mut bytes = [0; Oid::BYTES_MAX];
        self.ids.read(number, &mut bytes[..self.width])?;
        Ok(Oid::new(&bytes[..self.width]).expect("ids have a valid length"))
    }

    fn is(&self, number: u32, oid: &Oid) -> Result<bool> {
        let mut found = [0; Oid::BYTES_MAX];
        let found = &mut found[..self.width];
        self.ids.read(number, found)?;
        Ok(found == oid.as_bytes())
    }

    fn hash(&self, oid: &Oid) -> u64 {
        let product = u128::from(oid.prefix() ^ self.key.1) * u128::from(self.key.0);
        (product >> 64) as u64 ^ product as u64
    }
}

impl Shard {
    fn find(&self, hash: u64, is: impl Fn(u32) -> Result<bool>) -> Result<Option<u32>> {
        if self.slots.is_empty() {
            return Ok(None);
        }
        let mut at = self.place(hash);
        loop {
            let slot = self.slots[at];
            if slot == FREE {
                return Ok(None);
            }
            if slot >> 32 == hash & 0xffff_ffff && is(slot as u32)? {
                return Ok(Some(slot as u32));
            }
            at = self.next(at);
        }
    }

    fn insert(&mut self, hash: u64, number: u32) {
        if (self.len + 1) * 5 > self.slots.len() * 4 {
            self.grow();
        }
        self.put((hash & 0xffff_ffff) << 32 | u64::from(number));
        self.len += 1;
    }

    fn put(&mut self, slot: u64) {
        let mut at = self.place(slot >> 32);
        while self.slots[at] != FREE {
            at = self.next(at);
        }
        self.slots[at] = slot;
    }

    /// Grows by a half: 10 to 15 bytes an id, where doubling would take up to 20.
    fn grow(&mut self) {
        let slots = (self.slots.len() * 3 / 2).max(16);
        let old = std::mem::replace(&mut self.slots, vec![FREE; slots]);
        old.into_iter().filter(|&slot| slot != FREE).for_each(|slot| self.put(slot));
    }

    /// Where the search for a hash begins: a function of the half that slots keep, so that shards can grow.
    fn place(&self, hash: u64) -> usize {
        let spread = (hash & 0xffff_ffff).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        ((spread * self.slots.len() as u64) >> 32) as usize
    }

    fn next(&self, at: usize) -> usize {
        if at + 1 == self.slots.len() { 0 } else { at + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_keep_their_numbers() {
        let mut ids = Ids::new(20, &Scratch::default());
        // Ids that differ late, and in their first word alone.
        let oid = |number: u32| {
            let mut bytes = [0; 20];
            bytes[if number.is_multiple_of(2) { 0..4 } else { 16..20 }].copy_from_slice(&number.to_le_bytes());
            Oid::new(&bytes).unwrap()
        };
        for number in 0..2_000 {
            assert_eq!(ids.get(&oid(number)).unwrap(), None);
            assert_eq!(ids.insert(&oid(number)).unwrap(), number);
        }
        for number in 0..2_000 {
            assert_eq!(ids.get(&oid(number)).unwrap(), Some(number));
            assert_eq!(ids.oid(number).unwrap(), oid(number));
        }
        assert_eq!(ids.len(), 2_000);
        assert!(ids.insert(&Oid::from_array([1; 32])).is_err());
    }
}
