//! Listing a tree in the order of names, which is not quite Git's: there, `a.b` stands before the directory `a`.

use alloc::{sync::Arc, vec::Vec};
use core::ops::Range;

use super::{bad, raw::RawEntry, table::GitTable, target};
use crate::{
    DecodeError, Direction, Entry, Kind, Location, Next, ObjRef, Object, ObjectWalk, Source, Window,
    format::search::prefix,
};

/// A walk over the entries of a directory, in order of names or against it.
#[derive(Clone, Debug)]
pub struct GitListing<'a> {
    oid_bytes: usize,
    state: GitListingState<'a>,
    from: Option<Arc<[u8]>>,
    to: Option<Arc<[u8]>>,
    direction: Direction,
    // Whether entries matter.
    items: bool,
}

#[derive(Clone, Debug)]
enum GitListingState<'a> {
    /// The tree is not read yet.
    Start(ObjRef),
    /// The tree is read; these places in the order are still to come.
    Listed(SortedTree<'a>, Range<usize>),
    End,
}

impl GitListing<'_> {
    pub(super) fn new(
        oid_bytes: usize,
        dir: &ObjRef,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        direction: Direction,
    ) -> Self {
        let (from, to) = (from.map(Arc::from), to.map(Arc::from));
        Self { oid_bytes, state: GitListingState::Start(*dir), from, to, direction, items: true }
    }
}

impl<'a, S: Source> ObjectWalk<'a, S> for GitListing<'a> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self, window: &mut Window<'a, S>) -> Result<Next<Entry<'a>>, S::Error> {
        loop {
            match &mut self.state {
                GitListingState::Start(root) => {
                    let Some(object) = window.get(Kind::Node, root) else { return Ok(Next::Wants(Kind::Node, *root)) };
                    let listed = SortedTree::new(self.oid_bytes, object).map_err(bad)?;
                    let rest = listed.range(self.from.as_deref(), self.to.as_deref()).map_err(bad)?;
                    self.state = GitListingState::Listed(listed, rest);
                }
                GitListingState::Listed(listed, rest) if self.items => {
                    let place = match self.direction {
                        Direction::Forward => rest.next(),
                        Direction::Reverse => rest.next_back(),
                    };
                    let Some(place) = place else { return Ok(Next::End) };
                    return Ok(Next::Item(listed.entry(place).map_err(bad)?));
                }
                GitListingState::Listed(..) | GitListingState::End => return Ok(Next::End),
            }
        }
    }

    fn scout(&self, items: bool) -> Self {
        Self { items, ..self.clone() }
    }

    fn skip(&mut self) {
        self.state = GitListingState::End;
    }
}

/// A tree whose entries can be had in the order of names.
#[derive(Clone, Debug)]
pub(super) struct SortedTree<'a> {
    oid_bytes: usize,
    object: Object<'a>,
    /// How many entries it has.
    pub(super) count: usize,
    // Which entry of Git's order is at each place; empty if Git's order is that of names.
    order: Option<Arc<[u32]>>,
    // Which child each entry of Git's order is; empty if there is no location, or one for every entry.
    ranks: Option<Arc<[u32]>>,
}

impl<'a> SortedTree<'a> {
    pub(super) fn new(oid_bytes: usize, object: Object<'a>) -> Result<Self, DecodeError> {
        let table = GitTable::parse(oid_bytes, object.body())?;
        let count = table.count;
        let order = if is_ordered(&table)? { None } else { Some(sorted(&table)?.into()) };
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

    fn table(&self) -> Result<GitTable<'_>, DecodeError> {
        GitTable::parse(self.oid_bytes, self.object.body())
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
fn is_ordered(table: &GitTable<'_>) -> Result<bool, DecodeError> {
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
fn sorted(table: &GitTable<'_>) -> Result<Vec<u32>, DecodeError> {
    let mut keys = Vec::with_capacity(table.count);
    for index in 0..table.count {
        let name = table.entry(index)?.name;
        keys.push((prefix(name), name, index as u32));
    }
    keys.sort();
    Ok(keys.into_iter().map(|(_, _, index)| index).collect())
}
