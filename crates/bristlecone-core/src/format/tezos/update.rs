//! Applying changes to a directory.
//!
//! A small directory is one leaf, merged with its changes and hashed anew. One whose hash is flat though it is
//! in pieces needs all of its entries for the hash, so all of them are gathered; pieces without changes stay.
//! In larger ones only the pieces on the way to changes are touched (`pieces`).

use alloc::vec::Vec;

use smallvec::SmallVec;

use super::{
    Tezos, bad,
    edits::{TezosEdits, merge},
    gather::{Gathered, gather},
    hash, id,
    node::{LeafItem, LeafItems, PieceView, at_depth, encode_inner, encode_leaf},
};
use crate::{Change, FormatError, Kind, Location, ObjRef, Object, Oid, Sink, Source};

mod pieces;

pub(super) fn update<S: Source, K: Sink>(
    format: &Tezos,
    source: &S,
    sink: &mut K,
    base: Option<&ObjRef>,
    changes: &[Change<'_>],
) -> Result<Option<ObjRef>, S::Error> {
    debug_assert!(changes.windows(2).all(|pair| pair[0].step < pair[1].step), "changes are sorted");
    let edits = TezosEdits::new(changes)?;
    let out = sink.take_buffer();
    let mut writer = TezosWriter { format, sink, out };
    let root = writer.update(source, base, &edits);
    let out = core::mem::take(&mut writer.out);
    sink.give_buffer(out);
    root
}

/// Reads what an update of one step reads: the pieces on the way to it; and all that are below one which may become a leaf,
/// or of which the hash takes all entries.
pub(super) fn read<S: Source>(
    format: &Tezos,
    source: &S,
    base: &ObjRef,
    step: &[u8],
    removes: bool,
) -> Result<(), S::Error> {
    let mut at = *base;
    for depth in 0..format.depth_end() {
        let object = source.read(Kind::Node, &at)?;
        let PieceView::Inner(inner) = at_depth(format, &object, depth, false)? else { return Ok(()) };
        let few = if depth == 0 { usize::from(format.stable) } else { format.leaf_max() };
        if inner.flat || inner.count <= few as u64 + u64::from(removes) {
            return gather(format, source, object.clone(), depth, false).map(drop);
        }
        let Some(index) = inner.index(format.bucket(depth, step)) else { return Ok(()) };
        at = ObjRef::new(Oid::from_array(inner.hashes[index]), object.child(index));
    }
    Ok(())
}

struct TezosWriter<'s, K> {
    format: &'s Tezos,
    sink: &'s mut K,
    // A body, and behind it the pre-image that its id is of.
    out: Vec<u8>,
}

impl<K: Sink> TezosWriter<'_, K> {
    fn update<S: Source>(
        &mut self,
        source: &S,
        base: Option<&ObjRef>,
        edits: &TezosEdits<'_>,
    ) -> Result<Option<ObjRef>, S::Error> {
        let Some(base) = base else {
            let mut items = LeafItems::with_capacity(edits.len());
            items.extend((0..edits.len()).filter_map(|index| edits.item(index)));
            return Ok(self.put_root(&items, None)?);
        };
        let object = source.read(Kind::Node, base)?;
        match at_depth(self.format, &object, 0, false)? {
            PieceView::Leaf(leaf) => {
                let (mut old, mut items) = (LeafItems::with_capacity(leaf.len()), LeafItems::new());
                leaf.items(&object, &mut old).map_err(bad)?;
                let mut changed = false;
                merge(&old, edits, 0..edits.len(), &mut items, self.sink, &mut |_| changed = true);
                if changed { Ok(self.put_root(&items, None)?) } else { Ok(Some(*base)) }
            }
            PieceView::Inner(inner) => {
                let few = usize::from(self.format.stable) + edits.removals();
                if inner.flat || inner.count <= few as u64 {
                    self.update_gathered(source, base, object, edits)
                } else {
                    self.update_pieces(source, base, &object, &inner, edits)
                }
            }
        }
    }

    /// Updates a directory in pieces of which all entries are needed.
    fn update_gathered<S: Source>(
        &mut self,
        source: &S,
        base: &ObjRef,
        root: Object<'_>,
        edits: &TezosEdits<'_>,
    ) -> Result<Option<ObjRef>, S::Error> {
        let gathered = gather(self.format, source, root, 0, false)?;
        let old = gathered.items().map_err(bad)?;
        let (mut items, mut dirty) = (LeafItems::new(), 0_u64);
        merge(&old, edits, 0..edits.len(), &mut items, self.sink, &mut |index| {
            dirty |= 1 << self.format.bucket_of(gathered.flat, 0, edits.step(index));
        });
        if dirty == 0 {
            return Ok(Some(*base));
        }
        Ok(self.put_root(&items, Some((&gathered, dirty)))?)
    }

    /// Writes a whole directory, of which the pieces of buckets that are not dirty may be there already.
    fn put_root(
        &mut self,
        items: &[LeafItem<'_>],
        old: Option<(&Gathered<'_>, u64)>,
    ) -> Result<Option<ObjRef>, FormatError> {
        if items.is_empty() {
            return Ok(None);
        }
        if items.len() <= self.format.leaf_max() || !self.format.split {
            return self.put_root_leaf(items).map(Some);
        }
        let flat = items.len() <= usize::from(self.format.stable);
        // Pieces are shared with what was there before if that was spread in the same way.
        let old = old.filter(|(gathered, _)| gathered.flat == flat);
        let mut children = InnerChildren::default();
        let buckets = Buckets::new(self.format, flat, 0, items);
        for bucket in 0..self.format.buckets_of(flat) {
            let of_bucket = buckets.of(bucket);
            if of_bucket.is_empty() {
                continue;
            }
            let known = old.filter(|(_, dirty)| dirty & (1 << bucket) == 0);
            let child = match known.and_then(|(gathered, _)| gathered.child(bucket)) {
                Some(at) => at,
                None if flat => self.put_flat_piece(items, of_bucket)?,
                None => self.put_piece(items, of_bucket, 1)?,
            };
            children.push(bucket, child);
        }
        let count = items.len() as u64;
        self.out.clear();
        encode_inner(&mut self.out, flat, 0, count, children.bitmap, &children.hashes);
        let body = self.out.len();
        let digest = if flat {
            hash::append_flat(&mut self.out, items);
            id::blake2b(&self.out[body..])
        } else {
            id::inner(0, count, children.bitmap, &children.hashes)
        };
        Ok(Some(self.put(digest, body, &children.locations)))
    }

    fn put_root_leaf(&mut self, items: &[LeafItem<'_>]) -> Result<ObjRef, FormatError> {
        let mut locations = SmallVec::new();
        self.out.clear();
        encode_leaf(&mut self.out, &mut locations, true, items);
        let body = self.out.len();
        let digest = if items.len() <= usize::from(self.format.stable) {
            hash::append_flat(&mut self.out, items);
            id::blake2b(&self.out[body..])
        } else {
            let all: Vec<&LeafItem<'_>> = items.iter().collect();
            hash::piece(self.format, &all, 0)?
        };
        Ok(self.put(digest, body, &locations))
    }

    /// Writes the piece of a directory that is hashed flat that holds those of `items` that `members` lists.
    fn put_flat_piece(&mut self, items: &[LeafItem<'_>], members: &[u32]) -> Result<ObjRef, FormatError> {
        let own: SmallVec<[LeafItem<'_>; 32]> = members.iter().map(|&index| items[index as usize]).collect();
        hash::check_spread(self.format, &own, 0)?;
        Ok(self.put_leaf_piece(&own))
    }

    /// Writes the piece at a depth that holds those of `items` that `members` lists, in order of names.
    fn put_piece(&mut self, items: &[LeafItem<'_>], members: &[u32], depth: u8) -> Result<ObjRef, FormatError> {
        if members.len() <= self.format.leaf_max() {
            let own: SmallVec<[LeafItem<'_>; 32]> = members.iter().map(|&index| items[index as usize]).collect();
            return Ok(self.put_leaf_piece(&own));
        }
        self.format.check_depth(depth)?;
        let own: Vec<LeafItem<'_>> = members.iter().map(|&index| items[index as usize]).collect();
        let buckets = Buckets::new(self.format, false, depth, &own);
        let mut children = InnerChildren::default();
        for bucket in 0..self.format.buckets() {
            let of_bucket = buckets.of(bucket);
            if !of_bucket.is_empty() {
                let child = self.put_piece(&own, of_bucket, depth + 1)?;
                children.push(bucket, child);
            }
        }
        Ok(self.put_inner(depth, own.len() as u64, &children))
    }

    fn put_leaf_piece(&mut self, items: &[LeafItem<'_>]) -> ObjRef {
        let mut locations = SmallVec::new();
        self.out.clear();
        encode_leaf(&mut self.out, &mut locations, false, items);
        let body = self.out.len();
        hash::append_leaf_piece(&mut self.out, items.iter());
        let digest = id::blake2b(&self.out[body..]);
        self.put(digest, body, &locations)
    }

    fn put_inner(&mut self, depth: u8, count: u64, children: &InnerChildren) -> ObjRef {
        self.out.clear();
        encode_inner(&mut self.out, false, depth, count, children.bitmap, &children.hashes);
        let digest = id::inner(depth, count, children.bitmap, &children.hashes);
        self.put(digest, self.out.len(), &children.locations)
    }

    /// Gives the first `body` bytes of the buffer to the sink.
    fn put(&mut self, digest: [u8; id::ID_BYTES], body: usize, locations: &[Location]) -> ObjRef {
        let oid = Oid::from_array(digest);
        ObjRef::new(oid, self.sink.put(Kind::Node, oid, &self.out[..body], locations, &[]))
    }
}

/// The children of an inner piece in the making, in order of buckets.
#[derive(Default)]
struct InnerChildren {
    bitmap: u64,
    hashes: SmallVec<[u8; 1024]>,
    locations: SmallVec<[Location; 32]>,
}

impl InnerChildren {
    fn push(&mut self, bucket: u32, at: ObjRef) {
        debug_assert!(self.bitmap >> bucket == 0, "buckets come in order");
        self.bitmap |= 1 << bucket;
        self.hashes.extend_from_slice(at.oid.padded());
        self.locations.push(at.at);
    }
}

/// Entries by their bucket, each bucket in order of names.
struct Buckets {
    // The entries' indexes, one bucket after the other, and where each bucket ends.
    order: Vec<u32>,
    ends: SmallVec<[u32; 32]>,
}

impl Buckets {
    fn new(format: &Tezos, flat: bool, depth: u8, items: &[LeafItem<'_>]) -> Self {
        let of: Vec<u8> = items.iter().map(|item| format.bucket_of(flat, depth, item.name()) as u8).collect();
        let mut ends: SmallVec<[u32; 32]> = SmallVec::from_elem(0, format.buckets_of(flat) as usize);
        for &bucket in &of {
            ends[usize::from(bucket)] += 1;
        }
        let mut start = 0;
        for end in &mut ends {
            (start, *end) = (start + *end, start);
        }
        let mut order = alloc::vec![0; items.len()];
        for (index, &bucket) in of.iter().enumerate() {
            let end = &mut ends[usize::from(bucket)];
            order[*end as usize] = index as u32;
            *end += 1;
        }
        Self { order, ends }
    }

    fn of(&self, bucket: u32) -> &[u32] {
        let bucket = bucket as usize;
        let start = if bucket == 0 { 0 } else { self.ends[bucket - 1] };
        &self.order[start as usize..self.ends[bucket] as usize]
    }
}
