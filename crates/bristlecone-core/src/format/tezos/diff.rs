//! What differs between two directories: pieces that both hold by id are skipped, whatever is below the others
//! is compared in order of names.

use alloc::vec::{IntoIter, Vec};
use core::{cmp::Ordering, marker::PhantomData};

use super::{
    Tezos, bad, gather, inconsistent,
    list::entry_at,
    node::{Inner, Node, at_depth},
};
use crate::{Entry, FormatError, Kind, Location, ObjRef, Object, Oid, Source};

type Pair<'a> = (Option<Entry<'a>>, Option<Entry<'a>>);

/// The bindings that differ between two directories, in order: before, after. They are found when the walk
/// begins; memory grows with what is below pieces that differ.
#[derive(Debug)]
pub struct Differences<'a, S> {
    pairs: IntoIter<Pair<'a>>,
    source: PhantomData<fn() -> S>,
}

impl<'a, S: Source> Differences<'a, S> {
    pub(super) fn new(
        format: &Tezos,
        source: &'a S,
        before: Option<&ObjRef>,
        after: Option<&ObjRef>,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
    ) -> Result<Self, S::Error> {
        let mut sides = Sides { format, source, before: Vec::new(), after: Vec::new() };
        sides.compare(before.copied(), after.copied(), 0, false)?;
        let (before, after) = (listed(&sides.before)?, listed(&sides.after)?);
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
            let entry = |of: Option<&Listed<'_, 'a>>| of.map(|of| entry_at(of.object, of.index)).transpose();
            pairs.push((entry(old)?, entry(new)?));
        }
        Ok(Self { pairs: pairs.into_iter(), source: PhantomData })
    }
}

impl<'a, S: Source> Iterator for Differences<'a, S> {
    type Item = Result<Pair<'a>, S::Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.pairs.next().map(Ok)
    }
}

/// The leaves on both sides that may differ.
struct Sides<'f, 'a, S> {
    format: &'f Tezos,
    source: &'a S,
    before: Vec<Object<'a>>,
    after: Vec<Object<'a>>,
}

impl<'a, S: Source> Sides<'_, 'a, S> {
    /// Compares two pieces of a depth. `flat`: what they are pieces of is hashed flat.
    fn compare(
        &mut self,
        before: Option<ObjRef>,
        after: Option<ObjRef>,
        depth: u8,
        flat: bool,
    ) -> Result<(), S::Error> {
        if before == after {
            return Ok(());
        }
        let read = |at: Option<ObjRef>| at.map(|at| self.source.read(Kind::Node, &at)).transpose();
        let (before, after) = (read(before)?, read(after)?);
        if let (Some(one), Some(other)) = (&before, &after)
            && let Node::Inner(old) = at_depth(self.format, one, depth, flat)?
            && let Node::Inner(new) = at_depth(self.format, other, depth, flat)?
            && old.flat == new.flat
        {
            let flat = old.flat;
            self.format.check_depth(depth)?;
            let first = (self.before.len(), self.after.len());
            for bucket in 0..self.format.buckets_of(flat) {
                let first = (self.before.len(), self.after.len());
                self.compare(child(one, &old, bucket), child(other, &new, bucket), depth + 1, flat)?;
                gather::check_bucket(self.format, &self.before[first.0..], flat, depth, bucket)?;
                gather::check_bucket(self.format, &self.after[first.1..], flat, depth, bucket)?;
            }
            // Without this, a few pieces that differ in nothing could be compared without end.
            if first == (self.before.len(), self.after.len()) {
                return Err(inconsistent("it holds the same as a piece with another id").into());
            }
            return Ok(());
        }
        for (side, into) in [(before, &mut self.before), (after, &mut self.after)] {
            if let Some(piece) = side {
                into.extend(gather::gather(self.format, self.source, piece, depth, flat)?.leaves);
            }
        }
        Ok(())
    }
}

fn child(object: &Object<'_>, inner: &Inner<'_>, bucket: u32) -> Option<ObjRef> {
    let index = inner.index(bucket)?;
    Some(ObjRef::new(Oid::from_array(inner.hashes[index]), object.child(index)))
}

/// An entry of a leaf, to be sorted.
struct Listed<'o, 'a> {
    name: &'o [u8],
    object: &'o Object<'a>,
    index: usize,
    tag: u8,
    hash: [u8; 32],
}

impl Listed<'_, '_> {
    fn same(&self, other: &Self) -> bool {
        // Whether a value is inline is a matter of storage.
        self.hash == other.hash && (self.tag == super::node::DIR) == (other.tag == super::node::DIR)
    }
}

fn listed<'o, 'a>(leaves: &'o [Object<'a>]) -> Result<Vec<Listed<'o, 'a>>, FormatError> {
    let mut all = Vec::new();
    for object in leaves {
        let leaf = gather::leaf(object).map_err(bad)?;
        for index in 0..leaf.len() {
            let item = leaf.item(index, |_| Location::NONE).map_err(bad)?;
            all.push(Listed { name: item.name(), object, index, tag: item.tag, hash: *item.hash });
        }
    }
    all.sort_unstable_by(|one, other| one.name.cmp(other.name));
    Ok(all)
}
