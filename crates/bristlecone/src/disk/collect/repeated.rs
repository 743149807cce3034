//! Children that an object has in common with an earlier version of it.

use bristlecone_core::{Location, ObjRef, Oid};

/// So many lists of children are remembered, a power of two, 24 bytes each, and so many children of each and of all at most, 48 bytes
/// each. Of two in one list each takes the place of the other: there are several times as many lists as there are children.
const LISTS: usize = 1 << 17;
const CHILDREN_MAX: usize = 1 << 10;
const ALL_MAX: usize = 1 << 19;

/// Children of objects that were gone through lately.
///
/// A directory of which one entry changes names what it named before, but for one. Nobody says of which object one is a version, but
/// most versions have the same first child.
///
/// **Law.** A child that is said to be repeated was noted before, with the same place.
#[derive(Default)]
pub(super) struct RepeatedChildren {
    // By the first child's digits; none until the first child is noted.
    lists: Vec<Vec<ObjRef>>,
    // The children in all of them.
    all: usize,
    // Where the children of the object are that is gone through, and how many were noted.
    list: usize,
    noted: usize,
}

impl RepeatedChildren {
    /// Begins with the children of the next object.
    pub(super) fn begin(&mut self) {
        self.noted = 0;
    }

    /// Notes the next child of the object; returns whether an object before had the same one there.
    pub(super) fn note(&mut self, child: &ObjRef) -> bool {
        let index = self.noted;
        self.noted += 1;
        if index == 0 {
            self.list = list_of(&child.oid);
        }
        // Two of one id are equal wherever they are.
        if self.place(self.list, index, &child.oid) == Some(child.at) {
            return true;
        }
        self.put(self.list, index, *child);
        false
    }

    /// Returns the place with which a child was put there, if it was.
    pub(super) fn place(&self, list: usize, index: usize, oid: &Oid) -> Option<Location> {
        let known = self.lists.get(list)?.get(index)?;
        (known.oid == *oid).then_some(known.at)
    }

    /// Puts a child into a list, unless it would be behind its end.
    pub(super) fn put(&mut self, list: usize, index: usize, child: ObjRef) {
        if self.lists.is_empty() || index == 0 && self.all > ALL_MAX {
            self.lists.clear();
            self.lists.resize_with(LISTS, Vec::new);
            self.all = 0;
        }
        let list = &mut self.lists[list];
        if let Some(known) = list.get_mut(index) {
            *known = child;
        } else if index == list.len() && index < CHILDREN_MAX {
            list.push(child);
            self.all += 1;
        }
    }
}

/// Returns the list of the children of an object whose first child is this.
pub(super) fn list_of(first: &Oid) -> usize {
    first.as_bytes().first_chunk().map_or(0, |digits| u32::from_le_bytes(*digits)) as usize % LISTS
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use bristlecone_core::{Location, Oid};

    use super::*;

    fn child(number: u32, at: u64) -> ObjRef {
        let mut bytes = [7; 32];
        bytes[..4].copy_from_slice(&number.to_le_bytes());
        ObjRef::new(Oid::from_array(bytes), Location(at))
    }

    fn repeated(known: &mut RepeatedChildren, children: &[(u32, u64)]) -> Vec<bool> {
        known.begin();
        children.iter().map(|&(number, at)| known.note(&child(number, at))).collect()
    }

    #[test]
    fn a_child_is_repeated_where_the_version_before_had_it_at_that_place() {
        let mut known = RepeatedChildren::default();
        assert_eq!(repeated(&mut known, &[(1, 10), (2, 20), (3, 30)]), [false; 3]);
        assert_eq!(repeated(&mut known, &[(1, 10), (4, 40), (3, 30)]), [true, false, true]);
        // The same object elsewhere is another copy of it.
        assert_eq!(repeated(&mut known, &[(1, 10), (4, 41), (3, 30), (5, 50)]), [true, false, true, false]);
        assert_eq!(repeated(&mut known, &[(1, 10), (4, 40)]), [true, false]);
        // One of another first child, that takes no list of theirs.
        assert_eq!(repeated(&mut known, &[(6, 60), (4, 40)]), [false; 2]);
        assert_eq!(repeated(&mut known, &[(1, 10), (4, 40), (3, 30), (5, 50)]), [true; 4]);
        // One that takes their list.
        assert_eq!(repeated(&mut known, &[(1 + LISTS as u32, 10), (4, 40)]), [false, true]);
        assert_eq!(repeated(&mut known, &[(1, 10), (4, 40)]), [false, true]);
    }

    #[test]
    fn long_lists_are_remembered_in_part() {
        let mut known = RepeatedChildren::default();
        let children: Vec<(u32, u64)> = (0..2 * CHILDREN_MAX as u32).map(|number| (number, 1)).collect();
        repeated(&mut known, &children);
        let again = repeated(&mut known, &children);
        assert!(again[..CHILDREN_MAX].iter().all(|&known| known) && !again[CHILDREN_MAX..].iter().any(|&known| known));
    }

    #[test]
    fn so_many_children_are_remembered_and_no_more() {
        let mut known = RepeatedChildren::default();
        let children = |first: u32| (0..CHILDREN_MAX as u32).map(move |number| (first + number * LISTS as u32, 1));
        let lists = |known: &mut RepeatedChildren| {
            for first in 0..ALL_MAX as u32 / CHILDREN_MAX as u32 + 1 {
                let children: Vec<(u32, u64)> = children(first).collect();
                assert!(!repeated(known, &children).contains(&true));
            }
        };
        lists(&mut known);
        assert_eq!(known.all, ALL_MAX + CHILDREN_MAX);
        // All are forgotten once there are more, with the next list.
        assert_eq!(repeated(&mut known, &[(0, 1)]), [true]);
        assert_eq!(repeated(&mut known, &[(LISTS as u32 - 1, 1)]), [false]);
        assert_eq!(repeated(&mut known, &[(0, 1)]), [false]);
        assert_eq!(known.all, 2);
    }

    #[test]
    fn a_child_that_was_put_has_the_place_with_which_it_was_put() {
        let mut known = RepeatedChildren::default();
        let (first, place) = (child(1, 10), |known: &RepeatedChildren, index, number| {
            known.place(list_of(&child(1, 0).oid), index, &child(number, 0).oid).map(|at| at.0)
        });
        let list = list_of(&first.oid);
        assert_eq!(place(&known, 0, 1), None);
        known.put(list, 0, first);
        // One before it is not there, so it would be in another one's place.
        known.put(list, 2, child(3, 30));
        known.put(list, 1, child(2, 20));
        assert_eq!([place(&known, 0, 1), place(&known, 1, 2), place(&known, 2, 3)], [Some(10), Some(20), None]);
        assert_eq!([place(&known, 0, 2), place(&known, 1, 3)], [None; 2], "another child is there");
        known.put(list, 1, child(4, 40));
        assert_eq!([place(&known, 1, 2), place(&known, 1, 4)], [None, Some(40)]);
    }

    /// A false answer would lose what was not gone through.
    #[test]
    fn whatever_is_said_to_be_repeated_was_noted() {
        let (mut known, mut noted, mut random, mut found) = (RepeatedChildren::default(), HashSet::new(), 1_u64, 0);
        let mut below = |bound: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % bound
        };
        for _ in 0..20_000 {
            known.begin();
            for _ in 0..below(6) {
                let (number, at) = (below(40) as u32 * (LISTS as u32 / 8), below(2));
                let is_repeated = known.note(&child(number, at));
                assert!(!is_repeated || noted.contains(&(number, at)), "{number} at {at}");
                noted.insert((number, at));
                found += u32::from(is_repeated);
            }
        }
        assert!(found > 1000, "{found}");
    }
}
