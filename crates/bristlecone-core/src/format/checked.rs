//! What a check of many objects has found sound, so that versions of one directory are not read again and again.

use alloc::{boxed::Box, vec::Vec};

use super::{AHEAD_OBJECTS_MAX, CallSize};

/// Slots that the first fact makes.
const SLOTS_FIRST: usize = 256;
/// Slots at most: 2 MiB of them, and as many facts of some 100 bytes each.
const SLOTS_MAX: usize = 1 << 16;
/// Longer facts are not kept, so that long names cannot fill memory.
const FACT_BYTES_MAX: usize = 320;

/// Facts that held when they were checked, of which some are forgotten.
///
/// One belongs to one format with its options and to one source of objects whose ids are right. What it holds changes no
/// answer of [`Format::check_structure`](super::Format::check_structure), only its cost. Memory: 24 MiB at most.
#[derive(Clone, Debug)]
pub struct Checked {
    /// A power of two of them, or none. A fact has one place, where a later one takes over from it.
    slots: Vec<Option<Fact>>,
    used: usize,
    /// The size of the next call: small where the source answered with less.
    call: CallSize,
}

impl Default for Checked {
    fn default() -> Self {
        Self { slots: Vec::new(), used: 0, call: CallSize::new(AHEAD_OBJECTS_MAX) }
    }
}

#[derive(Clone, Debug)]
struct Fact {
    place: u64,
    bytes: Box<[u8]>,
}

impl Checked {
    /// Knows nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) const fn call(&self) -> CallSize {
        self.call
    }

    pub(crate) const fn set_call(&mut self, call: CallSize) {
        self.call = call;
    }

    /// Whether the fact that these parts say one after another, read as one run of bytes, is known.
    ///
    /// `place` is any number that the fact determines, in which all bits matter.
    pub(crate) fn knows(&self, place: u64, parts: &[&[u8]]) -> bool {
        let Some(Some(fact)) = self.slots.get(self.slot(place)) else { return false };
        let mut rest = &fact.bytes[..];
        let same = parts.iter().all(|part| match rest.strip_prefix(*part) {
            Some(behind) => {
                rest = behind;
                true
            }
            None => false,
        });
        same && rest.is_empty()
    }

    /// Notes a fact.
    pub(crate) fn learn(&mut self, place: u64, parts: &[&[u8]]) {
        if parts.iter().map(|part| part.len()).sum::<usize>() > FACT_BYTES_MAX {
            return;
        }
        if self.used * 2 >= self.slots.len() && self.slots.len() < SLOTS_MAX {
            self.grow();
        }
        let fact = Fact { place, bytes: parts.concat().into() };
        self.put(fact);
    }

    fn grow(&mut self) {
        let slots = (self.slots.len() * 2).max(SLOTS_FIRST);
        let old = core::mem::replace(&mut self.slots, alloc::vec![None; slots]);
        self.used = 0;
        old.into_iter().flatten().for_each(|fact| self.put(fact));
    }

    fn put(&mut self, fact: Fact) {
        let slot = self.slot(fact.place);
        self.used += usize::from(self.slots[slot].replace(fact).is_none());
    }

    /// Returns the slot of a place; beyond the last one if there are no slots.
    fn slot(&self, place: u64) -> usize {
        // The upper bits count too, whatever places are made of.
        (place ^ place >> 32) as usize & self.slots.len().wrapping_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_known_as_they_were_learnt_and_memory_is_bounded() {
        let mut checked = Checked::new();
        assert!(!checked.knows(0, &[]));
        for number in 0..100_u64 {
            checked.learn(number, &[b"fact", &number.to_le_bytes()]);
        }
        for number in 0..100_u64 {
            assert!(checked.knows(number, &[b"fac", b"t", &number.to_le_bytes()]));
            assert!(!checked.knows(number, &[b"fact"]));
            assert!(!checked.knows(number, &[b"fact", &number.to_le_bytes(), b"!"]));
            assert!(!checked.knows(number + 1, &[b"fact", &number.to_le_bytes()]));
        }
        checked.learn(7, &[&[1; FACT_BYTES_MAX + 1]]);
        assert!(checked.knows(7, &[b"fact", &7_u64.to_le_bytes()]), "a fact that is too long displaces no other");
        for number in 0..200_000_u64 {
            checked.learn(number.wrapping_mul(0x9e37_79b9_7f4a_7c15), &[&number.to_le_bytes()]);
        }
        assert_eq!(checked.slots.len(), SLOTS_MAX);
    }
}
