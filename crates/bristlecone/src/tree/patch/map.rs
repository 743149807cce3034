//! A sorted map from steps to edits: a short list while it is small, as on the way to an edit, then a tree.

use std::{
    collections::{BTreeMap, btree_map},
    ops::Bound::{Excluded, Included, Unbounded},
    sync::Arc,
};

use smallvec::SmallVec;

use super::{Patch, PatchEdit, StepKey, StepRef};

/// A list grows to this many edits.
const LIST_MAX: usize = 8;

#[derive(Clone, Debug)]
pub(super) enum StepMap {
    List(SmallVec<[(StepKey, PatchEdit); 1]>),
    /// Edits that came all at once, and no step besides.
    Sorted(Vec<(StepKey, PatchEdit)>),
    Tree(BTreeMap<StepKey, PatchEdit>),
}

impl Default for StepMap {
    fn default() -> Self {
        Self::List(SmallVec::new())
    }
}

impl StepMap {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::List(list) => list.len(),
            Self::Sorted(list) => list.len(),
            Self::Tree(tree) => tree.len(),
        }
    }

    /// Returns the edit of a step.
    #[inline]
    pub(super) fn get(&self, step: StepRef<'_>) -> Option<&PatchEdit> {
        match self {
            Self::List(list) => {
                let is_it = |known: &StepKey| known.first == step.first && known.bytes[..] == *step.bytes;
                list.iter().find(|(known, _)| is_it(known)).map(|(_, edit)| edit)
            }
            Self::Sorted(list) => {
                let at = list.binary_search_by(|(known, _)| known.as_ref().cmp(&step)).ok()?;
                Some(&list[at].1)
            }
            Self::Tree(tree) if step.is_long() => tree.get(step.bytes),
            Self::Tree(tree) => tree.get(&step.key()),
        }
    }

    /// As [`StepMap::get_or_insert`] for a step that is likely to be there: its key is made only if it is not.
    pub(super) fn get_likely(&mut self, step: StepRef<'_>, new: impl FnOnce() -> PatchEdit) -> &mut PatchEdit {
        if !step.is_long() || !matches!(self, Self::Tree(_)) {
            return self.get_or_insert(step, new);
        }
        let Self::Tree(tree) = self else { unreachable!("just seen") };
        // Looked up twice, since what is found and returned would stay borrowed where it is not found.
        if !tree.contains_key(step.bytes) {
            tree.insert(step.key(), new());
        }
        tree.get_mut(step.bytes).expect("it is there")
    }

    /// Returns the edit of a step, which is `new` unless there was one.
    pub(super) fn get_or_insert(&mut self, step: StepRef<'_>, new: impl FnOnce() -> PatchEdit) -> &mut PatchEdit {
        let search = |list: &[(StepKey, PatchEdit)]| list.binary_search_by(|(known, _)| known.as_ref().cmp(&step));
        match self {
            Self::List(list) if list.len() == LIST_MAX && search(list).is_err() => {
                *self = Self::Tree(std::mem::take(list).into_iter().collect());
            }
            Self::Sorted(list) if search(list).is_err() => {
                *self = Self::Tree(std::mem::take(list).into_iter().collect());
            }
            _ => {}
        }
        match self {
            Self::List(list) => {
                let at = search(list).unwrap_or_else(|at| {
                    list.insert(at, (step.key(), new()));
                    at
                });
                &mut list[at].1
            }
            Self::Sorted(list) => {
                // The step is there, or the edits would be a tree by now.
                let at = list.partition_point(|(known, _)| known.as_ref() < step);
                &mut list[at].1
            }
            Self::Tree(tree) => match tree.entry(step.key()) {
                btree_map::Entry::Vacant(vacant) => vacant.insert(new()),
                btree_map::Entry::Occupied(occupied) => occupied.into_mut(),
            },
        }
    }

    /// Moves the directories to `dirs`; removals stand where they were.
    pub(super) fn take_dirs(&mut self, dirs: &mut Vec<Arc<Patch>>) {
        let mut take = |edit: &mut PatchEdit| {
            if matches!(edit, PatchEdit::Dir(_))
                && let PatchEdit::Dir(below) = std::mem::replace(edit, PatchEdit::Remove)
            {
                dirs.push(below);
            }
        };
        match self {
            Self::List(list) => list.iter_mut().for_each(|(_, edit)| take(edit)),
            Self::Sorted(list) => list.iter_mut().for_each(|(_, edit)| take(edit)),
            Self::Tree(tree) => tree.values_mut().for_each(take),
        }
    }

    /// Returns the edits whose steps lie in `from..to`.
    pub(super) fn range<'s>(&'s self, from: Option<&[u8]>, to: Option<&[u8]>) -> MapRange<'s> {
        if let (Some(from), Some(to)) = (from, to)
            && from >= to
        {
            return MapRange::default();
        }
        let (from, to) = (from.map(StepKey::new), to.map(StepKey::new));
        let within = |list: &'s [(StepKey, PatchEdit)]| {
            let place = |step: &StepKey| list.partition_point(|(known, _)| known < step);
            let start = from.as_ref().map_or(0, place);
            let end = to.as_ref().map_or(list.len(), place);
            MapRange::List(list[start..end].iter())
        };
        match self {
            Self::List(list) => within(list),
            Self::Sorted(list) => within(list),
            Self::Tree(tree) => {
                let low = from.map_or(Unbounded, Included);
                let high = to.map_or(Unbounded, Excluded);
                MapRange::Tree(tree.range((low, high)))
            }
        }
    }
}

/// Edits in order.
#[derive(Clone)]
pub(super) enum MapRange<'m> {
    List(std::slice::Iter<'m, (StepKey, PatchEdit)>),
    Tree(btree_map::Range<'m, StepKey, PatchEdit>),
}

impl Default for MapRange<'_> {
    fn default() -> Self {
        Self::List([].iter())
    }
}

impl<'m> Iterator for MapRange<'m> {
    type Item = (&'m StepKey, &'m PatchEdit);

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Self::List(list) => list.size_hint(),
            Self::Tree(tree) => tree.size_hint(),
        }
    }

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::List(list) => list.next().map(|(step, edit)| (step, edit)),
            Self::Tree(tree) => tree.next(),
        }
    }
}

impl DoubleEndedIterator for MapRange<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        match self {
            Self::List(list) => list.next_back().map(|(step, edit)| (step, edit)),
            Self::Tree(tree) => tree.next_back(),
        }
    }
}
