//! Which objects are known to lie in cold segments and to stay there, with all below them.

use bristlecone_core::{Location, Oid};

/// Of so many objects that is remembered at least and at most, a power of two: 48 bytes each.
const SETTLED_MIN: u64 = 1 << 16;
const SETTLED_MAX: u64 = 1 << 20;

/// Objects of cold segments that are live, as far as it is remembered, and where they are.
///
/// Most of what a newer tree names, the tree of the last collection named, too, and by places that were emptied since. What is
/// found here need not be looked for, nor looked at.
///
/// **Law.** Whatever [`SettledOids::has`] says is there was noted since the last collection of the whole began, or is one of those
/// that were. A later collection in part leaves cold segments with all that is live in them, so that it may rely on this as well.
#[derive(Debug, Default)]
pub(in crate::disk) struct SettledOids {
    // Each in one of the two places that its first digits give: a power of two of them, none until a collection begins.
    places: Vec<Option<Settled>>,
    // What was noted earlier than this round may be dead.
    since: u32,
    round: u32,
}

#[derive(Clone, Copy, Debug)]
struct Settled {
    oid: Oid,
    // Whether the object names no other, which never changes.
    childless: bool,
    round: u32,
    at: Location,
}

impl SettledOids {
    /// Begins a collection of a store that has about so many live objects; one of the `whole` finds anew what is live.
    pub(super) fn begin(&mut self, whole: bool, objects: u64) {
        self.round = match self.round.checked_add(1) {
            Some(round) => round,
            None => {
                *self = Self::default();
                1
            }
        };
        if whole {
            self.since = self.round;
        }
        // One that is twice as large as need be stays.
        if self.places.len() > 2 * places(objects) {
            self.resize(places(objects));
        }
        self.make_room(objects);
    }

    /// Makes room for so many objects, if there is less.
    pub(super) fn make_room(&mut self, objects: u64) {
        if self.places.len() < places(objects) {
            self.resize(places(objects));
        }
    }

    fn resize(&mut self, places: usize) {
        let known = std::mem::replace(&mut self.places, vec![None; places]);
        known.into_iter().flatten().for_each(|known| self.put(known));
    }

    fn slots(&self, oid: &Oid) -> [usize; 2] {
        let digits = oid.as_bytes().first_chunk().map_or(0, |digits| u32::from_le_bytes(*digits));
        let first = digits as usize & self.places.len().wrapping_sub(1);
        [first, first ^ 1]
    }

    fn find(&self, oid: &Oid) -> Option<&Settled> {
        self.slots(oid).iter().find_map(|&slot| self.places.get(slot)?.as_ref().filter(|known| known.oid == *oid))
    }

    /// Notes that an object lies in a cold segment and stays there, with all below it; `childless`: it was looked at, and there is
    /// nothing below it.
    pub(super) fn note(&mut self, oid: Oid, at: Location, childless: bool) {
        self.put(Settled { oid, childless, round: self.round, at });
    }

    /// Notes where an object is from now on, if it is remembered.
    pub(super) fn moved(&mut self, oid: &Oid, at: Location) {
        for slot in self.slots(oid) {
            if let Some(Some(known)) = self.places.get_mut(slot)
                && known.oid == *oid
            {
                known.at = at;
            }
        }
    }

    fn put(&mut self, settled: Settled) {
        let slots = self.slots(&settled.oid).map(|slot| (slot, self.places.get(slot).copied().flatten()));
        let same = slots.iter().find(|(_, known)| known.is_some_and(|known| known.oid == settled.oid));
        let childless = same.is_some_and(|(_, known)| known.is_some_and(|known| known.childless));
        let settled = Settled { childless: settled.childless || childless, ..settled };
        // Otherwise one that is free, or the one that was noted longer ago.
        let oldest = || slots.iter().min_by_key(|(_, known)| known.map_or(0, |known| known.round));
        if let Some(place) = same.or_else(oldest).and_then(|&(slot, _)| self.places.get_mut(slot)) {
            *place = Some(settled);
        }
    }

    /// Whether it is known of an object that it stays, with all below it.
    pub(super) fn has(&self, oid: &Oid) -> bool {
        self.stays(oid).is_some()
    }

    /// Returns where an object is of which that is known.
    pub(super) fn stays(&self, oid: &Oid) -> Option<Location> {
        self.find(oid).filter(|known| known.round >= self.since).map(|known| known.at)
    }

    /// Returns where an object was when it was noted, if it is known to have nothing below it.
    pub(super) fn childless(&self, oid: &Oid) -> Option<Location> {
        self.find(oid).filter(|known| known.childless).map(|known| known.at)
    }

    /// Returns where an object was when it was noted: it may have been dropped or gone elsewhere since.
    pub(super) fn place(&self, oid: &Oid) -> Option<Location> {
        self.find(oid).map(|known| known.at)
    }
}

/// Returns how many places there are to be for so many objects: twice as many, so that few take the place of others.
pub(super) fn places(objects: u64) -> usize {
    (2 * objects.clamp(SETTLED_MIN / 2, SETTLED_MAX / 2)).next_power_of_two() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oid(slot: u32, rest: u8) -> Oid {
        let mut bytes = [rest; 32];
        bytes[..4].copy_from_slice(&slot.to_le_bytes());
        Oid::from_array(bytes)
    }

    #[test]
    fn what_was_noted_stays_until_a_collection_of_the_whole() {
        let mut settled = SettledOids::default();
        assert!(!settled.has(&oid(0, 0)) && settled.place(&oid(0, 0)).is_none());
        settled.begin(true, 0);
        settled.note(oid(7, 1), Location(70), false);
        assert!(settled.has(&oid(7, 1)) && !settled.has(&oid(7, 2)));
        settled.begin(false, 0);
        settled.note(oid(6, 3), Location(60), false);
        assert!(settled.has(&oid(7, 1)) && settled.has(&oid(6, 3)));
        settled.begin(true, 0);
        // It is no longer known to be live, only where it was.
        assert!(!settled.has(&oid(7, 1)) && settled.place(&oid(7, 1)) == Some(Location(70)));
        settled.note(oid(7, 1), Location(71), false);
        assert!(settled.has(&oid(7, 1)) && settled.place(&oid(7, 1)) == Some(Location(71)));
        settled.moved(&oid(7, 1), Location(72));
        settled.moved(&oid(7, 2), Location(73));
        assert_eq!([1, 2].map(|rest| settled.place(&oid(7, rest))), [Some(Location(72)), None]);
        settled.begin(true, 0);
        settled.moved(&oid(7, 1), Location(74));
        assert!(!settled.has(&oid(7, 1)), "what moved is no more known to be live than before");
    }

    #[test]
    fn two_of_the_same_digits_are_known_and_a_third_takes_the_place_of_the_oldest() {
        let mut settled = SettledOids::default();
        for rest in 1..=3 {
            settled.begin(rest == 1, 0);
            settled.note(oid(9, rest), Location(rest.into()), false);
            settled.note(oid(9, rest), Location(rest.into()), false);
        }
        assert_eq!([1, 2, 3].map(|rest| settled.has(&oid(9, rest))), [false, true, true]);
        assert_eq!(settled.place(&oid(9, 3)), Some(Location(3)));
    }

    #[test]
    fn rounds_begin_anew_when_there_are_no_more() {
        let mut settled = SettledOids { round: u32::MAX - 1, since: 1, ..SettledOids::default() };
        settled.begin(false, 0);
        settled.note(oid(1, 1), Location(1), false);
        assert!(settled.has(&oid(1, 1)));
        settled.begin(false, 0);
        assert!(!settled.has(&oid(1, 1)) && settled.place(&oid(1, 1)).is_none());
        settled.note(oid(1, 1), Location(1), false);
        assert!(settled.has(&oid(1, 1)));
    }

    #[test]
    fn there_is_room_for_twice_what_is_live_and_what_is_known_stays_when_that_changes() {
        assert_eq!([0, 32_768, 32_769, 163_000, 1 << 40].map(places), [65_536, 65_536, 131_072, 524_288, 1 << 20]);
        let mut settled = SettledOids::default();
        settled.begin(true, 0);
        (0..1000).for_each(|slot| settled.note(oid(slot, 1), Location(slot.into()), false));
        for objects in [1 << 18, 0] {
            settled.begin(false, objects);
            assert_eq!(settled.places.len(), places(objects));
            assert!(
                (0..1000)
                    .all(|slot| settled.has(&oid(slot, 1))
                        && settled.place(&oid(slot, 1)) == Some(Location(slot.into())))
            );
        }
        settled.make_room(1 << 17);
        assert_eq!(settled.places.len(), places(0).max(places(1 << 17)));
        settled.make_room(0);
        assert_eq!(settled.places.len(), places(1 << 17), "there is room");
        assert!((0..1000).all(|slot| settled.has(&oid(slot, 1))));
        // What is dead by then stays so.
        settled.begin(true, 1 << 18);
        assert!((0..1000).all(|slot| !settled.has(&oid(slot, 1))));
    }

    #[test]
    fn an_object_without_children_stays_one_wherever_it_is() {
        let mut settled = SettledOids::default();
        settled.begin(true, 0);
        settled.note(oid(1, 1), Location(10), true);
        settled.note(oid(2, 1), Location(20), false);
        settled.note(oid(1, 1), Location(11), false);
        settled.moved(&oid(1, 1), Location(12));
        let childless = |settled: &SettledOids| [1, 2, 3].map(|slot| settled.childless(&oid(slot, 1)));
        assert_eq!(childless(&settled), [Some(Location(12)), None, None]);
        settled.begin(true, 1 << 18);
        assert_eq!((childless(&settled)[0], settled.stays(&oid(1, 1))), (Some(Location(12)), None));
        // One that takes its place.
        (2..4).for_each(|rest| settled.note(oid(1, rest), Location(30), false));
        assert_eq!(childless(&settled), [None; 3]);
    }
}
