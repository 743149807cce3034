//! Hashing entries: flat, as a leaf piece, and as a whole tree of pieces.

use alloc::vec::Vec;

use super::{
    Tezos, bad, gather, id, inconsistent,
    node::{DIR, Item, Node},
    update::Items,
};
use crate::{FormatError, Location, Object, Source, codec::write_varint};

/// Appends the pre-image of a flat directory.
pub(super) fn append_flat(out: &mut Vec<u8>, items: &[Item<'_>]) {
    out.extend_from_slice(&(items.len() as u64).to_be_bytes());
    for item in items {
        id::append_flat(out, item.tag == DIR, item.named, item.hash);
    }
}

/// Appends the pre-image of a leaf piece.
pub(super) fn append_leaf_piece<'w, 'i: 'w>(out: &mut Vec<u8>, items: impl ExactSizeIterator<Item = &'w Item<'i>>) {
    out.push(0);
    write_varint(out, items.len() as u64);
    for item in items {
        id::append_piece(out, item.tag == DIR, item.named, item.hash);
    }
}

/// Returns the hash of the piece at a depth that holds `items`, sorted by name: all of it, from the definition.
/// Directories that are kept whole are hashed so, and what is built in pieces is checked against it.
pub(super) fn piece(format: &Tezos, items: &[&Item<'_>], depth: u8) -> Result<[u8; id::ID_BYTES], FormatError> {
    if items.len() <= format.leaf_max() {
        let mut preimage = Vec::new();
        append_leaf_piece(&mut preimage, items.iter().copied());
        return Ok(id::blake2b(&preimage));
    }
    format.check_depth(depth)?;
    let mut buckets: Vec<Vec<&Item<'_>>> = alloc::vec![Vec::new(); format.buckets() as usize];
    for item in items {
        buckets[format.bucket(depth, item.name()) as usize].push(item);
    }
    let (mut bitmap, mut hashes) = (0_u64, Vec::new());
    for (bucket, items) in buckets.iter().enumerate().filter(|(_, items)| !items.is_empty()) {
        bitmap |= 1 << bucket;
        hashes.extend_from_slice(&piece(format, items, depth + 1)?);
    }
    Ok(id::inner(depth, items.len() as u64, bitmap, &hashes))
}

/// Returns the hash of a stored piece. That of a flat root is computed from all of its leaves, each in the bucket
/// where it must be.
pub(super) fn stored<S: Source>(
    format: &Tezos,
    source: &S,
    object: &Object<'_>,
) -> Result<[u8; id::ID_BYTES], S::Error> {
    match Node::parse(object.body()).map_err(bad)? {
        Node::Inner(inner) if !inner.flat => {
            Ok(id::inner(inner.depth, inner.count, inner.bitmap, inner.hashes.as_flattened()))
        }
        Node::Inner(inner) => {
            let gathered = gather::gather(format, source, object.clone())?;
            let items = gathered.items().map_err(bad)?;
            let bitmap = items.iter().fold(0_u64, |bitmap, item| bitmap | 1 << format.bucket(0, item.name()));
            if items.len() as u64 != inner.count || bitmap != inner.bitmap {
                return Err(inconsistent("its pieces do not hold what it counts").into());
            }
            Ok(flat(&items))
        }
        Node::Leaf(leaf) => {
            let mut items = Items::new();
            leaf.items(&NO_PLACES[..], &mut items).map_err(bad)?;
            if leaf.root && items.len() > usize::from(format.stable) {
                let all: Vec<&Item<'_>> = items.iter().collect();
                return Ok(piece(format, &all, 0)?);
            }
            if leaf.root {
                return Ok(flat(&items));
            }
            let mut preimage = Vec::new();
            append_leaf_piece(&mut preimage, items.iter());
            Ok(id::blake2b(&preimage))
        }
    }
}

const NO_PLACES: [Location; 0] = [];

fn flat(items: &[Item<'_>]) -> [u8; id::ID_BYTES] {
    let mut preimage = Vec::new();
    append_flat(&mut preimage, items);
    id::blake2b(&preimage)
}
