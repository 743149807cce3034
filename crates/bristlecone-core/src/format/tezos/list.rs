//! Listing a directory in order of names. One leaf is in order; pieces are loaded whole and sorted.

use alloc::vec::Vec;
use core::{marker::PhantomData, ops::Range};

use super::{Direction, Tezos, bad, gather};
use crate::{Entry, FormatError, Kind, Mode, ObjRef, Object, Source};

/// The entries of a directory, in order of names or against it.
///
/// A directory in pieces is loaded and sorted when the walk begins: memory grows with its entries.
#[derive(Debug)]
pub struct Entries<'a, S> {
    leaves: Vec<Object<'a>>,
    order: Order,
    // Places in the order that are still to come.
    rest: Range<usize>,
    direction: Direction,
    source: PhantomData<fn() -> S>,
}

#[derive(Debug)]
enum Order {
    /// That of the one leaf.
    Leaf,
    /// Leaf and index of each entry.
    Sorted(Vec<(u32, u32)>),
}

impl<'a, S: Source> Entries<'a, S> {
    pub(super) fn new(
        format: &Tezos,
        source: &'a S,
        dir: &ObjRef,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        direction: Direction,
    ) -> Result<Self, S::Error> {
        let gathered = gather::gather(format, source, source.read(Kind::Node, dir)?, 0, false)?;
        let bound = |name: Option<&[u8]>, none: usize, order: &Order| match (name, order) {
            (None, _) => Ok(none),
            (Some(name), Order::Leaf) => gather::leaf(&gathered.leaves[0])?.first_at_least(name),
            (Some(name), Order::Sorted(order)) => {
                let before = |&(leaf, index): &(u32, u32)| {
                    let leaf = gather::leaf(&gathered.leaves[leaf as usize]);
                    leaf.and_then(|leaf| leaf.name(index as usize)).is_ok_and(|found| found < name)
                };
                Ok(order.partition_point(before))
            }
        };
        let (order, count) = match &gathered.leaves[..] {
            [only] => (Order::Leaf, gather::leaf(only).map_err(bad)?.len()),
            _ => {
                let order = gathered.order().map_err(bad)?;
                let count = order.len();
                (Order::Sorted(order), count)
            }
        };
        let start = bound(from, 0, &order).map_err(bad)?;
        let end = bound(to, count, &order).map_err(bad)?;
        Ok(Self { leaves: gathered.leaves, order, rest: start..end.max(start), direction, source: PhantomData })
    }

    fn entry(&self, place: usize) -> Result<Entry<'a>, FormatError> {
        let (leaf, index) = match &self.order {
            Order::Leaf => (0, place),
            Order::Sorted(order) => (order[place].0 as usize, order[place].1 as usize),
        };
        entry_at(&self.leaves[leaf], index)
    }
}

/// Returns an entry of a leaf.
pub(super) fn entry_at<'a>(object: &Object<'a>, index: usize) -> Result<Entry<'a>, FormatError> {
    let leaf = gather::leaf(object).map_err(bad)?;
    let (name, _) = leaf.ranges(index).map_err(bad)?;
    let target = leaf.target(index, |index| object.child(index), |range| object.body_slice(range));
    let (kind, target) = target.map_err(bad)?;
    Ok(Entry { step: object.body_slice(name), kind, mode: Mode::USUAL, target })
}

impl<'a, S: Source> Iterator for Entries<'a, S> {
    type Item = Result<Entry<'a>, S::Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let place = match self.direction {
            Direction::Forward => self.rest.next()?,
            Direction::Reverse => self.rest.next_back()?,
        };
        let entry = self.entry(place);
        if entry.is_err() {
            self.rest = 0..0;
        }
        Some(entry.map_err(S::Error::from))
    }
}
