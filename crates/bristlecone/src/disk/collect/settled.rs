//! Which objects are known to lie in cold segments and to stay there, with all below them.

use bristlecone_core::{Location, Oid};

/// Of so many objects that is remembered at a time, at most: 48 bytes each.
const SETTLED_MAX: usize = 1 << 17;

/// Objects of cold segments that are live, as far as it is remembered, and where they are.
///
/// Most of what a newer tree names, the tree of the last collection named, too, and by places that were emptied since. What is
/// found here need not be looked for, nor looked at.
///
/// **Law.** Whatever [`SettledOids::has`] says is there was noted since the last collection of the whole began, or is one of those
/// that were. A later collection in part leaves cold segments with all that is live in them, so that it may rely on this as well.
#[derive(Debug, Default)]
pub(in crate::disk) struct SettledOids {
    // Each in one of the two places that its first digits give. Empty until the first is noted.
    places: Vec<Option<Settled>>,
    // What was noted earlier than this round may be dead.
    since: u32,
    round: u32,
}

#[derive(Clone, Copy, Debug)]
struct Settled {
    oid: Oid,
    round: u32,
    at: Location,
}

impl SettledOids {
    /// Begins a collection; one of the `whole` finds anew what is live.
    pub(super) fn begin(&mut self, whole: bool) {
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
    }

    fn slots(oid: &Oid) -> [usize; 2] {
        let digits = oid.as_bytes().first_chunk().map_or(0, |digits| u32::from_le_bytes(*digits));
        let first = digits as usize % SETTLED_MAX;
        [first, first ^ 1]
    }

    fn find(&self, oid: &Oid) -> Option<&Settled> {
        Self::slots(oid).iter().find_map(|&slot| self.places.get(slot)?.as_ref().filter(|known| known.oid == *oid))
    }

    /// Notes that an object lies in a cold segment and stays there, with all below it.
    pub(super) fn note(&mut self, oid: Oid, at: Location) {
        if self.places.is_empty() {
            self.places.resize(SETTLED_MAX, None);
        }
        let slots = Self::slots(&oid);
        let same = slots.iter().find(|&&slot| self.places[slot].is_some_and(|known| known.oid == oid));
        // Otherwise one that is free, or the one that was noted longer ago.
        let oldest = || slots.into_iter().min_by_key(|&slot| self.places[slot].map_or(0, |known| known.round));
        if let Some(slot) = same.copied().or_else(oldest) {
            self.places[slot] = Some(Settled { oid, round: self.round, at });
        }
    }

    /// Whether it is known of an object that it stays, with all below it.
    pub(super) fn has(&self, oid: &Oid) -> bool {
        self.find(oid).is_some_and(|known| known.round >= self.since)
    }

    /// Returns where an object was when it was noted: it may have been dropped or gone elsewhere since.
    pub(super) fn place(&self, oid: &Oid) -> Option<Location> {
        self.find(oid).map(|known| known.at)
    }
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
        settled.begin(true);
        settled.note(oid(7, 1), Location(70));
        assert!(settled.has(&oid(7, 1)) && !settled.has(&oid(7, 2)));
        settled.begin(false);
        settled.note(oid(6, 3), Location(60));
        assert!(settled.has(&oid(7, 1)) && settled.has(&oid(6, 3)));
        settled.begin(true);
        // It is no longer known to be live, only where it was.
        assert!(!settled.has(&oid(7, 1)) && settled.place(&oid(7, 1)) == Some(Location(70)));
        settled.note(oid(7, 1), Location(71));
        assert!(settled.has(&oid(7, 1)) && settled.place(&oid(7, 1)) == Some(Location(71)));
    }

    #[test]
    fn two_of_the_same_digits_are_known_and_a_third_takes_the_place_of_the_oldest() {
        let mut settled = SettledOids::default();
        for rest in 1..=3 {
            settled.begin(rest == 1);
            settled.note(oid(9, rest), Location(rest.into()));
            settled.note(oid(9, rest), Location(rest.into()));
        }
        assert_eq!([1, 2, 3].map(|rest| settled.has(&oid(9, rest))), [false, true, true]);
        assert_eq!(settled.place(&oid(9, 3)), Some(Location(3)));
    }

    #[test]
    fn rounds_begin_anew_when_there_are_no_more() {
        let mut settled = SettledOids { round: u32::MAX - 1, since: 1, ..SettledOids::default() };
        settled.begin(false);
        settled.note(oid(1, 1), Location(1));
        assert!(settled.has(&oid(1, 1)));
        settled.begin(false);
        assert!(!settled.has(&oid(1, 1)) && settled.place(&oid(1, 1)).is_none());
        settled.note(oid(1, 1), Location(1));
        assert!(settled.has(&oid(1, 1)));
    }
}
