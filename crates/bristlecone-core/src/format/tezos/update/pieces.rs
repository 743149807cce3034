//! Large directories: only the pieces on the way to changes are read and written.

use alloc::vec::Vec;

use smallvec::SmallVec;

use super::{InnerChildren, LeafItems, TezosWriter};
use crate::{
    FormatError, Kind, Location, ObjRef, Object, Oid, Sink, Source,
    format::tezos::{
        bad,
        edits::{TezosEdits, merge},
        gather::gather,
        hash, id, inconsistent,
        node::{InnerView, LeafItem, LeafView, PieceView, at_depth, encode_leaf},
        unsupported,
    },
};

/// What became of a piece.
enum UpdatedPiece {
    /// What it was.
    Same,
    /// So few entries that a piece above may take them in; not written yet.
    Leaf(LeafBody),
    /// Written.
    Written { at: ObjRef, count: u64 },
}

/// An encoded leaf.
struct LeafBody {
    body: Vec<u8>,
    locations: SmallVec<[Location; 4]>,
    count: u64,
}

impl<K: Sink> TezosWriter<'_, K> {
    /// Updates a directory that has more entries than are hashed flat, before and after.
    pub(super) fn update_pieces<S: Source>(
        &mut self,
        source: &S,
        base: &ObjRef,
        object: &Object<'_>,
        root: &InnerView<'_>,
        edits: &TezosEdits<'_>,
    ) -> Result<Option<ObjRef>, S::Error> {
        let all: Vec<u32> = (0..edits.len() as u32).collect();
        match self.rewrite_inner(source, object, root, edits, &all)? {
            UpdatedPiece::Same => Ok(Some(*base)),
            UpdatedPiece::Written { at, .. } => Ok(Some(at)),
            UpdatedPiece::Leaf(_) => Err(inconsistent("it holds fewer entries than it counts").into()),
        }
    }

    /// Applies those of the edits that `which` lists to the piece at a depth, and returns what it becomes and how
    /// many entries it had.
    fn rewrite<S: Source>(
        &mut self,
        source: &S,
        depth: u8,
        at: &ObjRef,
        edits: &TezosEdits<'_>,
        which: &[u32],
    ) -> Result<(UpdatedPiece, u64), S::Error> {
        let object = source.read(Kind::Node, at)?;
        match at_depth(self.format, &object, depth, false)? {
            PieceView::Leaf(leaf) => Ok((self.rewrite_leaf(&object, &leaf, depth, edits, which)?, leaf.len() as u64)),
            PieceView::Inner(inner) => {
                self.format.check_depth(depth)?;
                Ok((self.rewrite_inner(source, &object, &inner, edits, which)?, inner.count))
            }
        }
    }

    fn rewrite_leaf(
        &mut self,
        object: &Object<'_>,
        leaf: &LeafView<'_>,
        depth: u8,
        edits: &TezosEdits<'_>,
        which: &[u32],
    ) -> Result<UpdatedPiece, FormatError> {
        let (mut old, mut items) = (LeafItems::with_capacity(leaf.len()), LeafItems::new());
        leaf.items(object, &mut old).map_err(bad)?;
        let mut changed = false;
        merge(&old, edits, which.iter().map(|&index| index as usize), &mut items, self.sink, &mut |_| changed = true);
        if changed { self.piece_of(&items, depth) } else { Ok(UpdatedPiece::Same) }
    }

    /// Makes a piece of entries: a leaf, not written, if they are few.
    fn piece_of(&mut self, items: &[LeafItem<'_>], depth: u8) -> Result<UpdatedPiece, FormatError> {
        if items.len() > self.format.leaf_max() {
            let all: Vec<u32> = (0..items.len() as u32).collect();
            return Ok(UpdatedPiece::Written { at: self.put_piece(items, &all, depth)?, count: items.len() as u64 });
        }
        let (mut body, mut locations) = (Vec::new(), SmallVec::new());
        encode_leaf(&mut body, &mut locations, false, items);
        Ok(UpdatedPiece::Leaf(LeafBody { body, locations, count: items.len() as u64 }))
    }

    fn rewrite_inner<S: Source>(
        &mut self,
        source: &S,
        object: &Object<'_>,
        inner: &InnerView<'_>,
        edits: &TezosEdits<'_>,
        which: &[u32],
    ) -> Result<UpdatedPiece, S::Error> {
        let (depth, below) = (inner.depth, inner.depth + 1);
        let mut changed: SmallVec<[(u32, UpdatedPiece); 4]> = SmallVec::new();
        let mut count = inner.count;
        let groups = by_bucket(which, |index| self.format.bucket(depth, edits.step(index)));
        for (bucket, which) in groups {
            let (piece, before) = match inner.index(bucket) {
                Some(index) => {
                    let child = ObjRef::new(Oid::from_array(inner.hashes[index]), object.child(index));
                    self.rewrite(source, below, &child, edits, &which)?
                }
                None => {
                    let items: LeafItems<'_> = which.iter().filter_map(|&index| edits.item(index as usize)).collect();
                    if items.is_empty() {
                        continue;
                    }
                    (self.piece_of(&items, below)?, 0)
                }
            };
            let after = match &piece {
                UpdatedPiece::Same => continue,
                UpdatedPiece::Leaf(leaf) => leaf.count,
                UpdatedPiece::Written { count, .. } => *count,
            };
            count = (count + after).checked_sub(before).ok_or(inconsistent("it counts fewer entries than it has"))?;
            changed.push((bucket, piece));
        }
        if changed.is_empty() {
            return Ok(UpdatedPiece::Same);
        }
        if count > u64::from(u32::MAX) {
            return Err(unsupported("a directory of more than 4,294,967,295 entries").into());
        }
        if count > self.format.leaf_max() as u64 {
            return Ok(self.put_changed(object, inner, &changed, count));
        }
        self.collapse(source, object, inner, &changed)
    }

    /// Writes the changed children of an inner piece, and the piece.
    fn put_changed(
        &mut self,
        object: &Object<'_>,
        inner: &InnerView<'_>,
        changed: &[(u32, UpdatedPiece)],
        count: u64,
    ) -> UpdatedPiece {
        let mut children = InnerChildren::default();
        let mut changed = changed.iter().peekable();
        for bucket in 0..self.format.buckets() {
            let child = match changed.next_if(|(of, _)| *of == bucket) {
                Some((_, UpdatedPiece::Leaf(leaf))) if leaf.count == 0 => continue,
                Some((_, UpdatedPiece::Leaf(leaf))) => self.put_leaf_body(leaf),
                Some((_, UpdatedPiece::Written { at, .. })) => *at,
                Some((_, UpdatedPiece::Same)) | None => match inner.index(bucket) {
                    Some(index) => ObjRef::new(Oid::from_array(inner.hashes[index]), object.child(index)),
                    None => continue,
                },
            };
            children.push(bucket, child);
        }
        UpdatedPiece::Written { at: self.put_inner(inner.depth, count, &children), count }
    }

    fn put_leaf_body(&mut self, leaf: &LeafBody) -> ObjRef {
        let Ok(PieceView::Leaf(view)) = PieceView::parse(&leaf.body) else { unreachable!("it was just encoded") };
        self.out.clear();
        let mut items: SmallVec<[LeafItem<'_>; 32]> = SmallVec::new();
        view.items(&leaf.locations[..], &mut items).expect("it was just encoded");
        hash::append_leaf_piece(&mut self.out, items.iter());
        let oid = Oid::from_array(id::blake2b(&self.out));
        ObjRef::new(oid, self.sink.put(Kind::Node, oid, &leaf.body, &leaf.locations, &[]))
    }

    /// Takes the few entries that are left below an inner piece into one leaf.
    fn collapse<S: Source>(
        &mut self,
        source: &S,
        object: &Object<'_>,
        inner: &InnerView<'_>,
        changed: &[(u32, UpdatedPiece)],
    ) -> Result<UpdatedPiece, S::Error> {
        let mut kept = Vec::new();
        for (index, (bucket, hash)) in inner.buckets().enumerate() {
            if changed.iter().all(|(of, _)| *of != bucket) {
                let at = ObjRef::new(Oid::from_array(*hash), object.child(index));
                kept.push(gather(self.format, source, source.read(Kind::Node, &at)?, inner.depth + 1, false)?);
            }
        }
        let mut items = LeafItems::new();
        for gathered in &kept {
            items.extend(gathered.items().map_err(bad)?);
        }
        for (_, piece) in changed {
            let UpdatedPiece::Leaf(leaf) = piece else {
                return Err(inconsistent("it counts fewer entries than it has").into());
            };
            if let PieceView::Leaf(view) = PieceView::parse(&leaf.body).map_err(bad)? {
                view.items(&leaf.locations[..], &mut items).map_err(bad)?;
            }
        }
        items.sort_unstable_by(|one, other| one.name().cmp(other.name()));
        Ok(self.piece_of(&items, inner.depth)?)
    }
}

/// Returns the edits of each bucket, the buckets in order and within each the edits.
fn by_bucket(which: &[u32], of: impl Fn(usize) -> u32) -> Vec<(u32, Vec<u32>)> {
    let mut sorted: Vec<(u32, u32)> = which.iter().map(|&index| (of(index as usize), index)).collect();
    sorted.sort_unstable();
    sorted
        .chunk_by(|one, other| one.0 == other.0)
        .map(|group| (group[0].0, group.iter().map(|it| it.1).collect()))
        .collect()
}
