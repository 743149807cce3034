//! Hashing entries: flat, as a leaf piece, and as a whole tree of pieces.

use alloc::vec::Vec;

use super::{
    Tezos, bad, gather, id, inconsistent,
    node::{DIR, LeafItem, LeafItems, PieceView},
};
use crate::{FormatError, Location, Object, Source, codec::write_varint};

/// Appends the pre-image of a flat directory.
pub(super) fn append_flat(out: &mut Vec<u8>, items: &[LeafItem<'_>]) {
    out.extend_from_slice(&(items.len() as u64).to_be_bytes());
    for item in items {
        id::append_flat(out, item.tag == DIR, item.named, item.hash);
    }
}

/// Appends the pre-image of a leaf piece.
pub(super) fn append_leaf_piece<'w, 'i: 'w>(out: &mut Vec<u8>, items: impl ExactSizeIterator<Item = &'w LeafItem<'i>>) {
    out.push(0);
    write_varint(out, items.len() as u64);
    for item in items {
        id::append_piece(out, item.tag == DIR, item.named, item.hash);
    }
}

/// Returns the hash of the piece at a depth that holds `items`, sorted by name: all of it, from the definition.
/// Directories that are kept whole are hashed so, and what is built in pieces is checked against it.
pub(super) fn piece(format: &Tezos, items: &[&LeafItem<'_>], depth: u8) -> Result<[u8; id::ID_BYTES], FormatError> {
    if items.len() <= format.leaf_max() {
        let mut preimage = Vec::new();
        append_leaf_piece(&mut preimage, items.iter().copied());
        return Ok(id::blake2b(&preimage));
    }
    let (bitmap, hashes) = buckets(format, items, depth)?;
    Ok(id::inner(depth, items.len() as u64, bitmap, &hashes))
}

/// Returns which buckets of the inner piece at a depth that holds `items` are not empty, and the hashes of those.
fn buckets(format: &Tezos, items: &[&LeafItem<'_>], depth: u8) -> Result<(u64, Vec<u8>), FormatError> {
    format.check_depth(depth)?;
    let mut buckets: Vec<Vec<&LeafItem<'_>>> = alloc::vec![Vec::new(); format.buckets() as usize];
    for item in items {
        buckets[format.bucket(depth, item.name()) as usize].push(item);
    }
    let (mut bitmap, mut hashes) = (0_u64, Vec::new());
    for (bucket, items) in buckets.iter().enumerate().filter(|(_, items)| !items.is_empty()) {
        bitmap |= 1 << bucket;
        hashes.extend_from_slice(&piece(format, items, depth + 1)?);
    }
    Ok((bitmap, hashes))
}

/// Returns which buckets of a directory that is hashed flat are not empty, and the hashes of their pieces.
fn flat_pieces(format: &Tezos, items: &[&LeafItem<'_>]) -> (u64, Vec<u8>) {
    let (mut bitmap, mut hashes) = (0_u64, Vec::new());
    for bucket in 0..format.flat_buckets() {
        let of_bucket = |item: &&&LeafItem<'_>| format.bucket_of(true, 0, item.name()) == bucket;
        let members: Vec<&LeafItem<'_>> = items.iter().filter(of_bucket).copied().collect();
        if !members.is_empty() {
            let mut preimage = Vec::new();
            append_leaf_piece(&mut preimage, members.iter().copied());
            bitmap |= 1 << bucket;
            hashes.extend_from_slice(&id::blake2b(&preimage));
        }
    }
    (bitmap, hashes)
}

/// Refuses entries that the reference could not spread, though here one leaf holds them.
pub(super) fn check_spread(format: &Tezos, items: &[LeafItem<'_>], depth: u8) -> Result<(), FormatError> {
    if items.len() <= format.leaf_max() {
        return Ok(());
    }
    format.check_depth(depth)?;
    let mut counts = [0_u16; 64];
    for item in items {
        counts[format.bucket(depth, item.name()) as usize] += 1;
    }
    for (bucket, _) in counts.iter().enumerate().filter(|(_, count)| usize::from(**count) > format.leaf_max()) {
        let of_bucket = |item: &&LeafItem<'_>| format.bucket(depth, item.name()) as usize == bucket;
        let members: Vec<LeafItem<'_>> = items.iter().filter(of_bucket).copied().collect();
        check_spread(format, &members, depth + 1)?;
    }
    Ok(())
}

/// Returns the hash of a stored piece. That of a flat root is computed from all of its leaves, once its pieces are
/// found to be those of the entries.
pub(super) fn stored<S: Source>(
    format: &Tezos,
    source: &S,
    object: &Object<'_>,
) -> Result<[u8; id::ID_BYTES], S::Error> {
    match PieceView::parse(object.body()).map_err(bad)? {
        PieceView::Inner(inner) if !inner.flat => {
            Ok(id::inner(inner.depth, inner.count, inner.bitmap, inner.hashes.as_flattened()))
        }
        PieceView::Inner(inner) if inner.count > u64::from(format.stable) => {
            Err(inconsistent("it counts more entries than are hashed flat").into())
        }
        PieceView::Inner(inner) => {
            let gathered = gather::gather(format, source, object.clone(), 0, false)?;
            let items = gathered.items().map_err(bad)?;
            check_spread(format, &items, 0)?;
            let all: Vec<&LeafItem<'_>> = items.iter().collect();
            let (bitmap, hashes) = flat_pieces(format, &all);
            if bitmap != inner.bitmap || hashes != inner.hashes.as_flattened() {
                return Err(inconsistent("its pieces are not those of its entries").into());
            }
            Ok(flat(&items))
        }
        PieceView::Leaf(leaf) => {
            let mut items = LeafItems::new();
            leaf.items(&NO_PLACES[..], &mut items).map_err(bad)?;
            if leaf.root && items.len() > usize::from(format.stable) {
                let all: Vec<&LeafItem<'_>> = items.iter().collect();
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

fn flat(items: &[LeafItem<'_>]) -> [u8; id::ID_BYTES] {
    let mut preimage = Vec::new();
    append_flat(&mut preimage, items);
    id::blake2b(&preimage)
}
