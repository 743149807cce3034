//! Listing a directory in order of names. One leaf is in order; pieces are loaded whole and sorted.

use alloc::{sync::Arc, vec::Vec};
use core::ops::Range;

use super::{
    Direction, Tezos, bad,
    gather::{self, Gather},
};
use crate::{DecodeError, Entry, FormatError, Mode, Next, ObjRef, Object, ObjectWalk, Source, Window};

/// A walk over the entries of a directory, in order of names or against it.
///
/// A directory in pieces is loaded and sorted when the walk begins: memory grows with its entries.
#[derive(Clone, Debug)]
pub struct TezosListing<'a> {
    state: TezosListingState<'a>,
    from: Option<Arc<[u8]>>,
    to: Option<Arc<[u8]>>,
    direction: Direction,
    // What a scout is asked for: entries, or what is wanted alone.
    scout: Option<bool>,
}

#[derive(Clone, Debug)]
enum TezosListingState<'a> {
    Gathering(Gather<'a>),
    /// Places in the order that are still to come.
    Listed(Arc<GatheredEntries<'a>>, Range<usize>),
}

/// All entries of a directory.
#[derive(Debug)]
struct GatheredEntries<'a> {
    leaves: Vec<Object<'a>>,
    order: LeafOrder,
}

#[derive(Debug)]
enum LeafOrder {
    /// That of the one leaf.
    Leaf,
    /// Leaf and index of each entry.
    Sorted(Vec<(u32, u32)>),
}

impl<'a> GatheredEntries<'a> {
    /// Puts leaves in order. A scout takes them as they are.
    fn new(leaves: Vec<Object<'a>>, sort: bool) -> Result<Self, DecodeError> {
        let order = match &leaves[..] {
            [_] => LeafOrder::Leaf,
            _ => LeafOrder::Sorted(gather::order(&leaves, sort)?),
        };
        Ok(Self { leaves, order })
    }

    /// Returns the places of the names in `from..to`.
    fn range(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> Result<Range<usize>, DecodeError> {
        let count = match &self.order {
            LeafOrder::Leaf => gather::leaf(&self.leaves[0])?.len(),
            LeafOrder::Sorted(order) => order.len(),
        };
        let bound = |name: Option<&[u8]>, none: usize| match (name, &self.order) {
            (None, _) => Ok(none),
            (Some(name), LeafOrder::Leaf) => gather::leaf(&self.leaves[0])?.first_at_least(name),
            (Some(name), LeafOrder::Sorted(order)) => {
                let before = |&(leaf, index): &(u32, u32)| {
                    let leaf = gather::leaf(&self.leaves[leaf as usize]);
                    leaf.and_then(|leaf| leaf.name(index as usize)).is_ok_and(|found| found < name)
                };
                Ok(order.partition_point(before))
            }
        };
        let (start, end) = (bound(from, 0)?, bound(to, count)?);
        Ok(start..end.max(start))
    }

    #[inline]
    fn entry(&self, place: usize) -> Result<Entry<'a>, FormatError> {
        let (leaf, index) = match &self.order {
            LeafOrder::Leaf => (0, place),
            LeafOrder::Sorted(order) => (order[place].0 as usize, order[place].1 as usize),
        };
        entry_at(&self.leaves[leaf], index)
    }
}

/// Returns an entry of a leaf.
#[inline]
pub(super) fn entry_at<'a>(object: &Object<'a>, index: usize) -> Result<Entry<'a>, FormatError> {
    let leaf = gather::leaf(object).map_err(bad)?;
    let (name, _) = leaf.ranges(index).map_err(bad)?;
    let target = leaf.target(index, |index| object.child(index), |range| object.body_slice(range));
    let (kind, target) = target.map_err(bad)?;
    Ok(Entry { step: object.body_slice(name), kind, mode: Mode::USUAL, target })
}

impl TezosListing<'_> {
    pub(super) fn new(
        format: &Tezos,
        dir: &ObjRef,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        direction: Direction,
    ) -> Self {
        let state = TezosListingState::Gathering(Gather::new(format, *dir));
        Self { state, from: from.map(Arc::from), to: to.map(Arc::from), direction, scout: None }
    }
}

impl<'a, S: Source> ObjectWalk<'a, S> for TezosListing<'a> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self, window: &mut Window<'a, S>) -> Result<Next<Entry<'a>>, S::Error> {
        loop {
            match &mut self.state {
                TezosListingState::Gathering(gather) => {
                    if let Next::Wants(kind, at) = gather.next(window)? {
                        return Ok(Next::Wants(kind, at));
                    }
                    if self.scout == Some(false) {
                        return Ok(Next::End);
                    }
                    let listed = GatheredEntries::new(gather.take_leaves(), self.scout.is_none()).map_err(bad)?;
                    let rest = listed.range(self.from.as_deref(), self.to.as_deref()).map_err(bad)?;
                    self.state = TezosListingState::Listed(Arc::new(listed), rest);
                }
                TezosListingState::Listed(listed, rest) => {
                    if self.scout == Some(false) {
                        return Ok(Next::End);
                    }
                    let place = match self.direction {
                        Direction::Forward => rest.next(),
                        Direction::Reverse => rest.next_back(),
                    };
                    let Some(place) = place else { return Ok(Next::End) };
                    return Ok(Next::Item(listed.entry(place)?));
                }
            }
        }
    }

    fn scout(&self, items: bool) -> Self {
        let state = match &self.state {
            TezosListingState::Gathering(gather) => TezosListingState::Gathering(ObjectWalk::<S>::scout(gather, items)),
            listed @ TezosListingState::Listed(..) => listed.clone(),
        };
        let (from, to) = (self.from.clone(), self.to.clone());
        Self { state, from, to, direction: self.direction, scout: Some(items) }
    }

    fn skip(&mut self) {
        if let TezosListingState::Gathering(gather) = &mut self.state {
            ObjectWalk::<S>::skip(gather);
        }
    }
}
