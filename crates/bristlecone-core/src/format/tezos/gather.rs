//! All entries of a directory, from wherever its pieces hold them.

use alloc::vec::Vec;

use super::{
    Tezos, bad, inconsistent,
    node::{Leaf, Node, at_depth},
    update::Items,
};
use crate::{DecodeError, FormatError, Kind, Location, ObjRef, Object, Oid, Source, format::search::prefix};

/// The leaves of a directory or of a part of one, loaded.
pub(super) struct Gathered<'a> {
    pub(super) leaves: Vec<Object<'a>>,
    /// It is the root of a directory that is hashed flat.
    pub(super) flat: bool,
    // The pieces of its buckets.
    children: Vec<(u32, ObjRef)>,
}

/// Loads every leaf below the piece at a depth. `flat`: what it is a piece of is hashed flat.
pub(super) fn gather<'a, S: Source>(
    format: &Tezos,
    source: &'a S,
    piece: Object<'a>,
    depth: u8,
    flat: bool,
) -> Result<Gathered<'a>, S::Error> {
    let mut gathered = Gathered { leaves: Vec::new(), flat: false, children: Vec::new() };
    if let Node::Inner(inner) = Node::parse(piece.body()).map_err(bad)? {
        gathered.flat = inner.flat;
        for (index, (bucket, hash)) in inner.buckets().enumerate() {
            gathered.children.push((bucket, ObjRef::new(Oid::from_array(*hash), piece.child(index))));
        }
        gathered.leaves.reserve(inner.hashes.len());
    }
    load(format, source, piece, depth, flat, &mut gathered.leaves)?;
    Ok(gathered)
}

/// Appends the leaves below a piece, and returns how many entries they have.
fn load<'a, S: Source>(
    format: &Tezos,
    source: &'a S,
    piece: Object<'a>,
    depth: u8,
    flat: bool,
    leaves: &mut Vec<Object<'a>>,
) -> Result<u64, S::Error> {
    let inner = match at_depth(format, &piece, depth, flat)? {
        Node::Inner(inner) => inner,
        Node::Leaf(leaf) if leaf.len() == 0 => return Err(inconsistent("a directory is not empty").into()),
        Node::Leaf(leaf) => {
            let count = leaf.len() as u64;
            leaves.push(piece);
            return Ok(count);
        }
    };
    format.check_depth(depth)?;
    let mut found = 0;
    for (index, (bucket, hash)) in inner.buckets().enumerate() {
        let child = source.read(Kind::Node, &ObjRef::new(Oid::from_array(*hash), piece.child(index)))?;
        let first = leaves.len();
        found += load(format, source, child, depth + 1, inner.flat, leaves)?;
        check_bucket(format, &leaves[first..], inner.flat, depth, bucket)?;
    }
    if found == 0 || found != inner.count {
        return Err(inconsistent("it does not hold as many entries as it counts").into());
    }
    Ok(found)
}

/// Checks that leaves are in the bucket of their first names. Pieces that are named again and again, of which
/// few objects could make a walk without end, fail here the second time.
pub(super) fn check_bucket(
    format: &Tezos,
    leaves: &[Object<'_>],
    flat: bool,
    depth: u8,
    bucket: u32,
) -> Result<(), FormatError> {
    for object in leaves {
        let name = leaf(object).and_then(|leaf| leaf.name(0)).map_err(bad)?;
        if format.bucket_of(flat, depth, name) != bucket {
            return Err(inconsistent("it holds a name of another bucket"));
        }
    }
    Ok(())
}

impl Gathered<'_> {
    /// Returns every entry, in order of names.
    pub(super) fn items(&self) -> Result<Items<'_>, DecodeError> {
        let mut items = Items::new();
        for object in &self.leaves {
            leaf(object)?.items(object, &mut items)?;
        }
        if self.leaves.len() > 1 {
            sort(&mut items);
        }
        Ok(items)
    }

    /// Returns the piece of one of its buckets.
    pub(super) fn child(&self, bucket: u32) -> Option<ObjRef> {
        let index = self.children.binary_search_by_key(&bucket, |(bucket, _)| *bucket).ok()?;
        Some(self.children[index].1)
    }

    /// Returns where every entry is, as leaf and index, in order of names.
    pub(super) fn order(&self) -> Result<Vec<(u32, u32)>, DecodeError> {
        let mut order = Vec::new();
        for (number, object) in self.leaves.iter().enumerate() {
            let leaf = leaf(object)?;
            for index in 0..leaf.len() {
                let item = leaf.item(index, |_| Location::NONE)?;
                order.push((prefix(item.name()), item.name(), number as u32, index as u32));
            }
        }
        order.sort_unstable();
        Ok(order.into_iter().map(|(_, _, leaf, index)| (leaf, index)).collect())
    }
}

pub(super) fn leaf<'b>(object: &'b Object<'_>) -> Result<Leaf<'b>, DecodeError> {
    match Node::parse(object.body())? {
        Node::Leaf(leaf) => Ok(leaf),
        Node::Inner(_) => Err(DecodeError { offset: 0, reason: "it is no leaf" }),
    }
}

/// Sorts entries by name; the first eight bytes decide nearly always.
fn sort(items: &mut Items<'_>) {
    let mut keys: Vec<(u64, u32)> =
        items.iter().enumerate().map(|(index, item)| (prefix(item.name()), index as u32)).collect();
    keys.sort_unstable_by(|one, other| {
        one.0.cmp(&other.0).then_with(|| items[one.1 as usize].name().cmp(items[other.1 as usize].name()))
    });
    let sorted: Items<'_> = keys.iter().map(|(_, index)| items[*index as usize]).collect();
    items.copy_from_slice(&sorted);
}
