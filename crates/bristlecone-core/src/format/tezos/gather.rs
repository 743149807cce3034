//! All entries of a directory, from wherever its pieces hold them.

use alloc::vec::Vec;

use super::{
    Tezos, bad, inconsistent,
    node::{Leaf, Node},
    update::Items,
};
use crate::{DecodeError, Kind, Location, ObjRef, Object, Oid, Source, format::search::prefix};

/// The leaves of a directory or of a part of one, loaded.
pub(super) struct Gathered<'a> {
    pub(super) leaves: Vec<Object<'a>>,
    // The pieces of the root's buckets.
    children: Vec<(u32, ObjRef)>,
}

/// Loads every leaf below a piece.
pub(super) fn gather<'a, S: Source>(format: &Tezos, source: &'a S, root: Object<'a>) -> Result<Gathered<'a>, S::Error> {
    let mut gathered = Gathered { leaves: Vec::new(), children: Vec::new() };
    if let Node::Inner(inner) = Node::parse(root.body()).map_err(bad)? {
        for (index, (bucket, hash)) in inner.buckets().enumerate() {
            gathered.children.push((bucket, ObjRef::new(Oid::from_array(*hash), root.child(index))));
        }
        gathered.leaves.reserve(inner.hashes.len());
    }
    load(format, source, root, &mut gathered.leaves)?;
    Ok(gathered)
}

fn load<'a, S: Source>(
    format: &Tezos,
    source: &'a S,
    piece: Object<'a>,
    leaves: &mut Vec<Object<'a>>,
) -> Result<(), S::Error> {
    let depth = match Node::parse(piece.body()).map_err(bad)? {
        Node::Leaf(_) => {
            leaves.push(piece);
            return Ok(());
        }
        Node::Inner(inner) => inner.depth,
    };
    format.check_depth(depth)?;
    let mut index = 0;
    loop {
        let child = match Node::parse(piece.body()).map_err(bad)? {
            Node::Inner(inner) if index < inner.hashes.len() => Oid::from_array(inner.hashes[index]),
            _ => return Ok(()),
        };
        let object = source.read(Kind::Node, &ObjRef::new(child, piece.child(index)))?;
        match Node::parse(object.body()).map_err(bad)? {
            Node::Leaf(leaf) if !leaf.root => leaves.push(object),
            Node::Inner(inner) if inner.depth == depth + 1 => load(format, source, object, leaves)?,
            _ => return Err(inconsistent("its depth is not that of its place").into()),
        }
        index += 1;
    }
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

    /// Returns the piece of one of the root's buckets.
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
