//! What differs between two directories: pieces that both hold by id are skipped, whatever is below the others
//! is compared in order of names.

use alloc::{sync::Arc, vec::Vec};
use core::{cmp::Ordering, ops::Range};

use super::{
    Tezos, bad,
    gather::{self, Gather, inner},
    inconsistent,
    list::entry_at,
    node::{InnerView, PieceView, at_depth},
};
use crate::{FormatError, Kind, Location, Next, ObjRef, Object, ObjectWalk, Oid, Source, Window, format::EntryPair};

/// A walk over the bindings that differ between two directories, in order: before, after. They are found when the walk
/// begins; memory grows with what is below pieces that differ.
#[derive(Clone, Debug)]
pub struct TezosComparison<'a> {
    format: Tezos,
    from: Option<Arc<[u8]>>,
    to: Option<Arc<[u8]>>,
    // Inner pieces of both sides whose children are being compared, from the roots down.
    open: Vec<OpenPair<'a>>,
    // Two pieces that are being read, and two below which leaves are being gathered.
    reading: Option<Reading<'a>>,
    gathering: [Option<Gather<'a>>; 2],
    // The leaves on both sides that may differ.
    leaves: [Vec<Object<'a>>; 2],
    // What was found, and what of it is still to come.
    found: Option<(Arc<DifferingEntries<'a>>, Range<usize>)>,
    scout: Option<TezosDiffScout>,
}

/// Entries that differ, each a leaf of its side and a place in it.
#[derive(Debug)]
struct DifferingEntries<'a> {
    leaves: [Vec<Object<'a>>; 2],
    pairs: Vec<[Option<(u32, u32)>; 2]>,
}

/// What a scout remembers.
#[derive(Clone, Copy, Debug)]
struct TezosDiffScout {
    /// Whether pairs matter.
    items: bool,
    /// Whether a piece was passed over. What one side lacks may be in it, so that pairs mean nothing.
    lacking: bool,
}

/// Two pieces of a depth.
#[derive(Clone, Debug)]
struct Reading<'a> {
    at: [Option<ObjRef>; 2],
    read: [Option<Object<'a>>; 2],
    depth: u8,
    /// What they are pieces of is hashed flat.
    flat: bool,
    /// A scout passed over one of them.
    lacking: bool,
}

/// Two inner pieces of a depth that are both hashed flat, or both not.
#[derive(Clone, Debug)]
struct OpenPair<'a> {
    pieces: [Object<'a>; 2],
    depth: u8,
    flat: bool,
    // The bucket that comes next.
    bucket: u32,
    // How many leaves there were before the first bucket, and before the last one.
    first: [usize; 2],
    last: [usize; 2],
}

impl<'a> TezosComparison<'a> {
    pub(super) fn new(
        format: &Tezos,
        before: Option<&ObjRef>,
        after: Option<&ObjRef>,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
    ) -> Self {
        Self {
            format: *format,
            from: from.map(Arc::from),
            to: to.map(Arc::from),
            open: Vec::new(),
            reading: Reading::of([before.copied(), after.copied()], 0, false),
            gathering: [None, None],
            leaves: [Vec::new(), Vec::new()],
            found: None,
            scout: None,
        }
    }

    fn gathered(&self) -> [usize; 2] {
        [self.leaves[0].len(), self.leaves[1].len()]
    }

    /// Goes on until all leaves that may differ are there; returns what is wanted.
    fn gather<S: Source>(&mut self, window: &mut Window<'a, S>) -> Result<Option<ObjRef>, S::Error> {
        loop {
            if let Some(reading) = &mut self.reading {
                if let Some(at) = reading.read(window) {
                    return Ok(Some(at));
                }
                if let Some(reading) = self.reading.take() {
                    self.enter(reading)?;
                }
            }
            for (gathering, leaves) in self.gathering.iter_mut().zip(&mut self.leaves) {
                if let Some(gather) = gathering {
                    if let Next::Wants(_, at) = gather.next(window)? {
                        return Ok(Some(at));
                    }
                    leaves.append(&mut gather.take_leaves());
                    *gathering = None;
                }
            }
            if self.open.is_empty() {
                return Ok(None);
            }
            self.next_bucket()?;
        }
    }

    /// Begins with two pieces that were read: bucket by bucket where that can be, else with all of their leaves.
    fn enter(&mut self, reading: Reading<'a>) -> Result<(), FormatError> {
        let Reading { read, depth, flat, lacking, .. } = reading;
        if lacking {
            return Ok(());
        }
        if let [Some(one), Some(other)] = &read
            && let PieceView::Inner(old) = at_depth(&self.format, one, depth, flat)?
            && let PieceView::Inner(new) = at_depth(&self.format, other, depth, flat)?
            && old.flat == new.flat
        {
            self.format.check_depth(depth)?;
            let (pieces, flat, found) = ([one.clone(), other.clone()], old.flat, self.gathered());
            self.open.push(OpenPair { pieces, depth, flat, bucket: 0, first: found, last: found });
            return Ok(());
        }
        for (gathering, piece) in self.gathering.iter_mut().zip(read) {
            let lenient = self.scout.is_some();
            *gathering = piece.map(|piece| Gather::below(&self.format, piece, depth, flat, lenient)).transpose()?;
        }
        Ok(())
    }

    /// Ends with one bucket of the innermost pieces and begins with the next.
    fn next_bucket(&mut self) -> Result<(), FormatError> {
        let gathered = self.gathered();
        let Some(open) = self.open.last_mut() else { return Ok(()) };
        if let Some(bucket) = open.bucket.checked_sub(1).filter(|_| self.scout.is_none()) {
            for (leaves, last) in self.leaves.iter().zip(open.last) {
                gather::check_bucket(&self.format, &leaves[last..], open.flat, open.depth, bucket)?;
            }
        }
        if open.bucket == self.format.buckets_of(open.flat) {
            // Without this, a few pieces that differ in nothing could be compared without end.
            if self.scout.is_none() && open.first == gathered {
                return Err(inconsistent("it holds the same as a piece with another id"));
            }
            self.open.pop();
            return Ok(());
        }
        let [one, other] = &open.pieces;
        let children = [child(one, &inner(one)?, open.bucket), child(other, &inner(other)?, open.bucket)];
        (open.bucket, open.last) = (open.bucket + 1, gathered);
        self.reading = Reading::of(children, open.depth + 1, open.flat);
        Ok(())
    }

    /// Compares the leaves in order of names.
    fn compare(&mut self) -> Result<DifferingEntries<'a>, FormatError> {
        let leaves = core::mem::take(&mut self.leaves);
        let (before, after) = (listed(&leaves[0])?, listed(&leaves[1])?);
        let (from, to) = (self.from.as_deref(), self.to.as_deref());
        let inside = |name: &[u8]| from.is_none_or(|from| name >= from) && to.is_none_or(|to| name < to);
        let mut pairs = Vec::new();
        let (mut one, mut other) = (before.iter().peekable(), after.iter().peekable());
        loop {
            let order = match (one.peek(), other.peek()) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(one), Some(other)) => one.name.cmp(other.name),
            };
            let old = if order.is_le() { one.next() } else { None };
            let new = if order.is_ge() { other.next() } else { None };
            let name = old.or(new).map_or(&[][..], |listed| listed.name);
            if !inside(name) || matches!((old, new), (Some(old), Some(new)) if old.same(new)) {
                continue;
            }
            pairs.push([old, new].map(|of| of.map(|of| (of.leaf, of.index))));
        }
        Ok(DifferingEntries { leaves, pairs })
    }
}

impl<'a> DifferingEntries<'a> {
    fn pair(&self, index: usize) -> Result<EntryPair<'a>, FormatError> {
        let entry = |side: usize| {
            let place = self.pairs[index][side];
            place.map(|(leaf, index)| entry_at(&self.leaves[side][leaf as usize], index as usize)).transpose()
        };
        Ok((entry(0)?, entry(1)?))
    }
}

impl<'a> Reading<'a> {
    /// Begins to read two pieces; `None` if they are the same.
    fn of(at: [Option<ObjRef>; 2], depth: u8, flat: bool) -> Option<Self> {
        (at[0] != at[1]).then_some(Self { at, read: [None, None], depth, flat, lacking: false })
    }

    /// Reads on; returns what is wanted.
    fn read<S: Source>(&mut self, window: &mut Window<'a, S>) -> Option<ObjRef> {
        for (at, read) in self.at.iter().zip(&mut self.read) {
            if let (Some(at), None) = (at, &read) {
                *read = window.get(Kind::Node, at);
                if read.is_none() {
                    return Some(*at);
                }
            }
        }
        None
    }

    /// Passes over the piece that is wanted.
    fn skip(&mut self) {
        self.lacking = true;
        for (at, read) in self.at.iter_mut().zip(&self.read) {
            if at.is_some() && read.is_none() {
                *at = None;
                return;
            }
        }
    }
}

impl<'a, S: Source> ObjectWalk<'a, S> for TezosComparison<'a> {
    type Item = EntryPair<'a>;

    #[inline]
    fn next(&mut self, window: &mut Window<'a, S>) -> Result<Next<EntryPair<'a>>, S::Error> {
        loop {
            if let Some((found, rest)) = &mut self.found {
                let Some(index) = rest.next() else { return Ok(Next::End) };
                return Ok(Next::Item(found.pair(index)?));
            }
            if let Some(at) = self.gather(window)? {
                return Ok(Next::Wants(Kind::Node, at));
            }
            if self.scout.is_some_and(|scout| scout.lacking || !scout.items) {
                return Ok(Next::End);
            }
            let found = self.compare()?;
            let count = found.pairs.len();
            self.found = Some((Arc::new(found), 0..count));
        }
    }

    fn scout(&self, items: bool) -> Self {
        let gathering =
            self.gathering.each_ref().map(|gather| gather.as_ref().map(|gather| ObjectWalk::<S>::scout(gather, true)));
        Self { gathering, scout: Some(TezosDiffScout { items, lacking: false }), ..self.clone() }
    }

    fn skip(&mut self) {
        if let Some(scout) = &mut self.scout {
            scout.lacking = true;
        }
        match (&mut self.reading, &mut self.gathering) {
            (Some(reading), _) => reading.skip(),
            (None, [Some(gather), _] | [None, Some(gather)]) => ObjectWalk::<S>::skip(gather),
            (None, [None, None]) => {}
        }
    }
}

fn child(object: &Object<'_>, inner: &InnerView<'_>, bucket: u32) -> Option<ObjRef> {
    let index = inner.index(bucket)?;
    Some(ObjRef::new(Oid::from_array(inner.hashes[index]), object.child(index)))
}

/// An entry of a leaf, to be sorted.
struct ListedEntry<'o> {
    name: &'o [u8],
    leaf: u32,
    index: u32,
    tag: u8,
    hash: [u8; 32],
}

impl ListedEntry<'_> {
    fn same(&self, other: &Self) -> bool {
        // Whether a value is inline is a matter of storage.
        self.hash == other.hash && (self.tag == super::node::DIR) == (other.tag == super::node::DIR)
    }
}

fn listed<'o>(leaves: &'o [Object<'_>]) -> Result<Vec<ListedEntry<'o>>, FormatError> {
    let mut all = Vec::new();
    for (number, object) in leaves.iter().enumerate() {
        let leaf = gather::leaf(object).map_err(bad)?;
        for index in 0..leaf.len() {
            let item = leaf.item(index, |_| Location::NONE).map_err(bad)?;
            let (name, tag, hash) = (item.name(), item.tag, *item.hash);
            all.push(ListedEntry { name, leaf: number as u32, index: index as u32, tag, hash });
        }
    }
    all.sort_unstable_by(|one, other| one.name.cmp(other.name));
    Ok(all)
}
