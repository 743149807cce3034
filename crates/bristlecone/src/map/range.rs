//! The entries of a map within bounds.

use std::ops::RangeBounds;

use bristlecone_core::{Bytes, native::Native};

use super::{Map, not_a_value};
use crate::{DirEntry, Entries, Listing, Result};

/// The entries of a map within bounds, from either end: keys and values.
#[derive(Debug)]
pub struct MapRange<'m>(Entries<'m, Native>);

impl<'m> MapRange<'m> {
    pub(super) fn new<K: AsRef<[u8]>>(map: &'m Map, bounds: impl RangeBounds<K>) -> Result<Self> {
        Self::listing(map, &Listing::new().range(bounds))
    }

    fn listing(map: &'m Map, listing: &Listing) -> Result<Self> {
        Ok(Self(map.tree.list_steps(listing)?))
    }

    /// Returns the last entry of all, reading one piece of each level.
    pub(super) fn last(map: &'m Map) -> Result<Option<(Bytes<'m>, Bytes<'m>)>> {
        Self::listing(map, &Listing::new().reverse().limit(1))?.next().transpose()
    }
}

fn pair<'m>(entry: Result<DirEntry<'m, Native>>) -> Result<(Bytes<'m>, Bytes<'m>)> {
    let (key, value) = entry?.into_step()?;
    match value {
        Some(value) => Ok((key, value)),
        None => Err(not_a_value(&key)),
    }
}

impl<'m> Iterator for MapRange<'m> {
    type Item = Result<(Bytes<'m>, Bytes<'m>)>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(pair)
    }
}

impl DoubleEndedIterator for MapRange<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(pair)
    }
}
