//! Where the records of a batch are, by their ids: a few bytes each, since the records say the ids themselves.

use bristlecone_core::Oid;

/// Where a record is, with the beginning of its id. Offsets are multiples of 8, and the lowest bit is set: so 0 is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordPlace(u64);

impl RecordPlace {
    #[inline]
    pub(super) fn new(oid: &[u8], at: u32) -> Self {
        Self(u64::from(beginning(oid)) << 32 | u64::from(at) | 1)
    }

    #[inline]
    pub(super) const fn at(self) -> u32 {
        self.0 as u32 & !1
    }

    /// Whether the id begins as the record's does.
    #[inline]
    pub(super) fn may_be(self, oid: &[u8]) -> bool {
        self.beginning() == beginning(oid)
    }

    const fn beginning(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Returns the place behind so many other bytes.
    pub(super) const fn behind(self, bytes: u32) -> Self {
        Self(self.0 + bytes as u64)
    }
}

#[inline]
fn beginning(oid: &[u8]) -> u32 {
    let mut word = [0; 4];
    let length = oid.len().min(4);
    word[..length].copy_from_slice(&oid[..length]);
    u32::from_le_bytes(word)
}

/// A table with open addressing, at most half full: the slot of a place is the first free one from that on which the beginning
/// of its id names.
#[derive(Clone, Debug, Default)]
pub(super) struct BatchIndex {
    // As many as a power of two, or none.
    slots: Vec<u64>,
    used: usize,
}

/// The fewest slots of a table that is not empty.
const SLOTS_MIN: usize = 128;

impl BatchIndex {
    /// Makes room for more places. `all` are those that the table is of: those that are in it, if it has any.
    #[inline]
    pub(super) fn reserve(&mut self, all: &[RecordPlace], more: usize) {
        if (all.len() + more) * 2 > self.slots.len() {
            self.grow(all, more);
        }
    }

    #[cold]
    fn grow(&mut self, all: &[RecordPlace], more: usize) {
        let slots = ((all.len() + more) * 4).next_power_of_two().max(SLOTS_MIN);
        *self = Self { slots: vec![0; slots], used: 0 };
        all.iter().for_each(|place| self.insert(*place));
    }

    /// Adds a place, for which there is room.
    #[inline]
    pub(super) fn insert(&mut self, place: RecordPlace) {
        debug_assert!(self.used * 2 < self.slots.len(), "room was made before");
        let mut slot = self.first_slot(place.beginning());
        while self.slots[slot] != 0 {
            slot = self.next_slot(slot);
        }
        self.slots[slot] = place.0;
        self.used += 1;
    }

    /// Returns the offset of the record with this id; `is_it` says whether that is so of one.
    #[inline]
    pub(super) fn find(&self, oid: &[u8], is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let mut slot = self.first_slot(beginning(oid));
        loop {
            match RecordPlace(*self.slots.get(slot)?) {
                RecordPlace(0) => return None,
                place if place.may_be(oid) && is_it(place.at()) => return Some(place.at()),
                _ => slot = self.next_slot(slot),
            }
        }
    }

    /// Has the processor fetch what looking for some ids begins with: nothing waits for these loads, so they are all under way at
    /// once.
    pub(super) fn fetch(&self, oids: &[Oid]) {
        let slot = |oid: &Oid| self.slots.get(self.first_slot(beginning(oid.as_bytes()))).copied().unwrap_or(0);
        std::hint::black_box(oids.iter().fold(0, |all, oid| all ^ slot(oid)));
    }

    #[inline]
    fn first_slot(&self, beginning: u32) -> usize {
        beginning as usize & self.slots.len().wrapping_sub(1)
    }

    #[inline]
    fn next_slot(&self, slot: usize) -> usize {
        (slot + 1) & (self.slots.len() - 1)
    }
}
