//! A sorted map from steps to edits: a short list while it is small, as on the way to an edit, then a tree.

use std::{
    collections::{BTreeMap, btree_map},
    ops::Bound::{Excluded, Included, Unbounded},
    sync::Arc,
};

use smallvec::SmallVec;

use super::{Patch, PatchEdit, StepKey};

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

    /// Returns the edit of a step, of which `first` are the first bytes.
    #[inline]
    pub(super) fn get(&self, first: u64, step: &[u8]) -> Option<&PatchEdit> {
        match self {
            Self::List(list) => {
                let known = list.iter().find(|(known, _)| known.first == first && known.bytes[..] == *step);
                known.map(|(_, edit)| edit)
            }
            Self::Sorted(list) => {
                let place = list.partition_point(|(known, _)| {
                    if known.first == first { known.as_bytes() < step } else { known.first < first }
                });
                list.get(place).filter(|(known, _)| known.as_bytes() == step).map(|(_, edit)| edit)
            }
            Self::Tree(tree) => tree.get(&StepKey::new(step)),
        }
    }

    pub(super) fn get_mut(&mut self, step: &StepKey) -> Option<&mut PatchEdit> {
        match self {
            Self::List(list) => list.iter_mut().find(|(known, _)| known == step).map(|(_, edit)| edit),
            Self::Sorted(list) => {
                let place = list.binary_search_by(|(known, _)| known.cmp(step)).ok()?;
                Some(&mut list[place].1)
            }
            Self::Tree(tree) => tree.get_mut(step),
        }
    }

    #[inline]
    pub(super) fn insert(&mut self, step: StepKey, edit: PatchEdit) {
        let mut edit = Some(edit);
        let slot = self.get_or_insert(step, || edit.take().unwrap_or(PatchEdit::Remove));
        if let Some(edit) = edit {
            *slot = edit;
        }
    }

    pub(super) fn get_or_insert(&mut self, step: StepKey, new: impl FnOnce() -> PatchEdit) -> &mut PatchEdit {
        if let Self::List(list) = self
            && list.len() == LIST_MAX
            && list.binary_search_by(|(known, _)| known.cmp(&step)).is_err()
        {
            *self = Self::Tree(std::mem::take(list).into_iter().collect());
        }
        if let Self::Sorted(list) = self
            && list.binary_search_by(|(known, _)| known.cmp(&step)).is_err()
        {
            *self = Self::Tree(std::mem::take(list).into_iter().collect());
        }
        match self {
            Self::List(list) => {
                let at = match list.binary_search_by(|(known, _)| known.cmp(&step)) {
                    Ok(at) => at,
                    Err(at) => {
                        list.insert(at, (step, new()));
                        at
                    }
                };
                &mut list[at].1
            }
            Self::Sorted(list) => {
                // The step is there, or the edits would be a tree by now.
                let at = list.partition_point(|(known, _)| *known < step);
                &mut list[at].1
            }
            Self::Tree(tree) => match tree.entry(step) {
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
