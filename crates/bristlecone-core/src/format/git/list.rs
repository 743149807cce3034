//! Listing a tree in the order of names, which is not quite Git's: there, `a.b` stands before the directory `a`.

use alloc::vec::Vec;
use core::{marker::PhantomData, ops::Range};

use super::{bad, raw::RawEntry, table::Table, target};
use crate::{DecodeError, Direction, Entry, Location, Object, Source, format::search::prefix};

/// The entries of a directory, in order of names or against it.
#[derive(Debug)]
pub struct Entries<'a, S> {
    listed: Listed<'a>,
    // Places in the order that are still to come.
    rest: Range<usize>,
    direction: Direction,
    source: PhantomData<fn() -> S>,
}

impl<'a, S: Source> Entries<'a, S> {
    pub(super) fn new(
        oid_bytes: usize,
        object: Object<'a>,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        direction: Direction,
    ) -> Result<Self, DecodeError> {
        let listed = Listed::new(oid_bytes, object)?;
        let rest = listed.range(from, to)?;
        Ok(Self { listed, rest, direction, source: PhantomData })
    }
}

impl<'a, S: Source> Iterator for Entries<'a, S> {
    type Item = Result<Entry<'a>, S::Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let place = match self.direction {
            Direction::Forward => self.rest.next()?,
            Direction::Reverse => self.rest.next_back()?,
        };
        let entry = self.listed.entry(place);
        if entry.is_err() {
            self.rest = 0..0;
        }
        Some(entry.map_err(|source| S::Error::from(bad(source))))
    }
}

/// A tree whose entries can be had in the order of names.
#[derive(Debug)]
pub(super) struct Listed<'a> {
    oid_bytes: usize,
    object: Object<'a>,
    /// How many entries it has.
    pub(super) count: usize,
    // Which entry of Git's order is at each place; none if that is the order of names.
    order: Option<Vec<u32>>,
    // Which child each entry of Git's order is; none if there is no location, or one for every entry.
    ranks: Option<Vec<u32>>,
}

impl<'a> Listed<'a> {
    pub(super) fn new(oid_bytes: usize, object: Object<'a>) -> Result<Self, DecodeError> {
        let table = Table::parse(oid_bytes, object.body())?;
        let count = table.count;
        let order = if is_ordered(&table)? { None } else { Some(sorted(&table)?) };
        let ranks = match object.children() {
            0 => None,
            children if children == count => None,
            _ => {
                let rank = |next: &mut u32, index| {
                    let rank = *next;
                    *next += u32::from(!table.is_foreign(index));
                    Some(rank)
                };
                Some((0..count).scan(0, rank).collect())
            }
        };
        Ok(Self { oid_bytes, object, count, order, ranks })
    }

    fn table(&self) -> Result<Table<'_>, DecodeError> {
        Table::parse(self.oid_bytes, self.object.body())
    }

    /// Returns which entry of Git's order is at a place of the order of names.
    fn index(&self, place: usize) -> usize {
        self.order.as_ref().map_or(place, |order| order[place] as usize)
    }

    /// Returns the places of the names in `from..to`.
    pub(super) fn range(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> Result<Range<usize>, DecodeError> {
        let bound = |name: Option<&[u8]>, none| name.map_or(Ok(none), |name| self.first_at_least(name));
        let (start, end) = (bound(from, 0)?, bound(to, self.count)?);
        Ok(start..end.max(start))
    }

    fn first_at_least(&self, name: &[u8]) -> Result<usize, DecodeError> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.raw(middle)?.name < name {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// Returns the entry at a place as Git has it.
    pub(super) fn raw(&self, place: usize) -> Result<RawEntry<'_>, DecodeError> {
        self.table()?.entry(self.index(place))
    }

    /// Returns the entry at a place.
    pub(super) fn entry(&self, place: usize) -> Result<Entry<'a>, DecodeError> {
        let table = self.table()?;
        let index = self.index(place);
        let entry = table.entry(index)?;
        let name_at = table.raw_at + table.start(index) + entry.mode.len() + 1;
        let location = || match (&self.ranks, self.object.children()) {
            (None, 0) => Location::NONE,
            (None, _) => self.object.child(index),
            (Some(ranks), _) => self.object.child(ranks[index] as usize),
        };
        let (kind, target) = target(entry.kind(), entry.oid(), location);
        let step = self.object.body_slice(name_at..name_at + entry.name.len());
        Ok(Entry { step, kind, mode: entry.spelling(), target })
    }
}

/// Whether Git's order is that of names: no directory is behind what follows its name.
fn is_ordered(table: &Table<'_>) -> Result<bool, DecodeError> {
    let mut before: &[u8] = b"";
    for index in 0..table.count {
        let name = table.entry(index)?.name;
        if before >= name {
            return Ok(false);
        }
        before = name;
    }
    Ok(true)
}

/// Returns the indices of all entries in the order of names. They are nearly in it, which the sort makes use of.
fn sorted(table: &Table<'_>) -> Result<Vec<u32>, DecodeError> {
    let mut keys = Vec::with_capacity(table.count);
    for index in 0..table.count {
        let name = table.entry(index)?.name;
        keys.push((prefix(name), name, index as u32));
    }
    keys.sort();
    Ok(keys.into_iter().map(|(_, _, index)| index).collect())
}
