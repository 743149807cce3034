//! Which ids a collection went through lately.

use bristlecone_core::Oid;

/// So many ids that were gone through are remembered at a time at least and at most, a power of two: 33 bytes each.
const RECENT_MIN: usize = 1 << 16;
const RECENT_MAX: usize = 1 << 18;

/// Ids that were gone through lately: as many as there are places, each in the place that its first digits give. Most of what is
/// asked for is there, and what is not is gone through again.
pub(super) struct RecentOids {
    // None until the first is noted.
    oids: Vec<Option<Oid>>,
    places: usize,
}

impl Default for RecentOids {
    fn default() -> Self {
        Self::with_places(RECENT_MIN)
    }
}

impl RecentOids {
    /// Returns one that remembers about so many ids, within its bounds.
    pub(super) fn with_places(places: usize) -> Self {
        Self { oids: Vec::new(), places: places.clamp(RECENT_MIN, RECENT_MAX).next_power_of_two() }
    }

    /// Notes an id; returns whether it was not known.
    pub(super) fn note(&mut self, oid: Oid) -> bool {
        if self.oids.is_empty() {
            self.oids.resize(self.places, None);
        }
        let digits = oid.as_bytes().first_chunk().map_or(0, |digits| u32::from_le_bytes(*digits));
        let place = &mut self.oids[digits as usize % self.places];
        let new = *place != Some(oid);
        *place = Some(oid);
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oid(place: u32, rest: u8) -> Oid {
        let mut bytes = [rest; 32];
        bytes[..4].copy_from_slice(&place.to_le_bytes());
        Oid::new(&bytes).unwrap()
    }

    #[test]
    fn an_id_is_known_until_another_takes_its_place() {
        let mut recent = RecentOids::default();
        let last = RECENT_MIN as u32 - 1;
        for (place, rest) in [(0, 1), (last, 1), (7, 1), (7, 2), (7 + last + 1, 2)] {
            assert!(recent.note(oid(place, rest)), "{place} {rest}");
            assert!(!recent.note(oid(place, rest)), "{place} {rest}");
        }
        // Those in other places are still known; of those in one place the last.
        assert!(!recent.note(oid(0, 1)) && !recent.note(oid(last, 1)));
        assert!(recent.note(oid(7, 1)));
        assert!(recent.note(oid(7, 2)));
    }

    /// A false answer would lose what was not gone through.
    #[test]
    fn whatever_is_said_to_be_known_was_noted() {
        let (mut recent, mut noted) = (RecentOids::default(), std::collections::BTreeSet::new());
        let (mut random, mut repeated) = (1_u64, 0);
        for _ in 0..200_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let oid = oid((random >> 40) as u32 % (3 * RECENT_MIN as u32), (random >> 33) as u8 % 2);
            let known = !recent.note(oid);
            assert!(!known || noted.contains(&oid));
            noted.insert(oid);
            repeated += u32::from(known);
        }
        assert!(repeated > 1_000, "{repeated}");
    }
}
