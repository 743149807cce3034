//! Lookups in records that can be borrowed: no object is built, no id is copied, nothing is counted.
//!
//! These answer what [`super::Tezos::find`] and `descend` would by the general way, or decline wherever anything is
//! out of the ordinary (wide leaves, long names, damage); the general way then says what.

use super::{
    Tezos,
    id::ID_BYTES,
    node::{DIR, INLINE, PieceView, VALUE},
};
use crate::{
    ByteReader, Bytes, EntryKind, Location, ObjRef, Oid, Source, Target,
    format::{
        borrowed::Borrowed,
        descend::{self, ReachedDir, StepLookup},
        native::step_hash,
        search::{first_fingerprint, mask, prefix},
    },
};

/// A borrowed record of a piece.
type BorrowedPiece<'a> = Borrowed<'a>;

/// An entry that was found.
pub(super) struct TezosHit<'a> {
    piece: BorrowedPiece<'a>,
    tag: u8,
    hash: &'a [u8; ID_BYTES],
    // What follows the name.
    payload: &'a [u8],
    // Which of the record's children it is.
    rank: usize,
}

/// The result of a lookup: nothing there, or an entry.
type TezosAnswer<'a> = Option<TezosHit<'a>>;

#[inline(always)]
fn peek<'a, S: Source>(source: &'a S, oid: &[u8], at: Location) -> Option<BorrowedPiece<'a>> {
    Borrowed::node(source.peek(oid, at)?, at)
}

/// Looks a name up in a narrow leaf of `count` entries, whose tables are `rest`.
#[inline(always)]
fn find_in_leaf<'a>(
    piece: BorrowedPiece<'a>,
    flags: u8,
    count: usize,
    rest: &'a [u8],
    name: &[u8],
) -> Option<TezosAnswer<'a>> {
    let fingerprints = rest;
    let (tags, rest) = rest.get(count..)?.split_at_checked(count)?;
    let (ends, rest) = rest.split_at_checked(count * 2)?;
    let (hashes, items) = rest.split_at_checked(count * ID_BYTES)?;
    let wanted = prefix(name);
    let end = |index: usize| Some(usize::from(u16::from_le_bytes(*ends.get(index * 2..)?.first_chunk()?)));
    let start = |index: usize| if index == 0 { Some(0) } else { end(index - 1) };
    let item = |index: usize| items.get(start(index)?..end(index)?);
    let index = if count <= 2 {
        let mut index = 0;
        loop {
            if index == count {
                return Some(None);
            }
            if is_named(item(index)?, name, wanted)? {
                break index;
            }
            index += 1;
        }
    } else {
        let Some(index) = first_fingerprint(fingerprints, count, step_hash(name) as u8) else { return Some(None) };
        // Another name with the same fingerprint is rare: the general way goes on.
        if !is_named(item(index)?, name, wanted)? {
            return None;
        }
        index
    };
    let payload = item(index)?.get(1 + name.len()..)?;
    let hash = hashes.get(index * ID_BYTES..)?.first_chunk()?;
    let rank = if flags & 2 != 0 { index } else { tags[..index].iter().map(|&tag| usize::from(tag != INLINE)).sum() };
    Some(Some(TezosHit { piece, tag: tags[index], hash, payload, rank }))
}

/// Whether an item begins with this name. A name whose length takes two bytes, and damage, are for the general way.
#[inline(always)]
fn is_named(item: &[u8], name: &[u8], wanted: u64) -> Option<bool> {
    let (&length, rest) = item.split_first()?;
    if length >= 0x80 || name.len() >= 0x80 || usize::from(length) > rest.len() {
        return None;
    }
    if usize::from(length) != name.len() {
        return Some(false);
    }
    let Some(first) = rest.first_chunk() else { return Some(rest.get(..name.len())? == name) };
    if u64::from_be_bytes(*first) & mask(length) != wanted {
        return Some(false);
    }
    Some(length <= 8 || rest.get(8..name.len())? == name.get(8..)?)
}

/// Looks a name up in the directory whose root has id `oid` and stands at `at`; `None` where this cannot tell.
#[inline(always)]
fn lookup<'a, S: Source>(
    format: &Tezos,
    source: &'a S,
    oid: &[u8],
    at: Location,
    name: &[u8],
) -> Option<TezosAnswer<'a>> {
    let mut piece = peek(source, oid, at)?;
    let (mut depth, mut flat) = (0, false);
    loop {
        let (head, rest) = piece.body.split_first_chunk::<4>()?;
        match *head {
            [shape @ (0 | 1), flags, low, high] if flags & 1 == 0 && (shape == 0) == (depth == 0) => {
                let count = usize::from(u16::from_le_bytes([low, high]));
                if count > format.leaf_max() && depth > 0 && !flat {
                    return None;
                }
                return find_in_leaf(piece, flags, count, rest, name);
            }
            [2 | 3, ..] if !flat => {
                let Ok(PieceView::Inner(inner)) = PieceView::parse(piece.body) else { return None };
                if inner.depth != depth || !inner.fits(format) {
                    return None;
                }
                flat = inner.flat;
                let Some(index) = inner.index(format.bucket_of(inner.flat, depth, name)) else { return Some(None) };
                piece = peek(source, inner.hashes.get(index)?, piece.child(index))?;
                depth = depth.checked_add(1)?;
            }
            _ => return None,
        }
    }
}

/// Looks a name up; `None` where the general way must tell.
#[inline]
pub(super) fn find<'a, S: Source>(
    format: &Tezos,
    source: &'a S,
    dir: &ObjRef,
    name: &[u8],
) -> Option<Option<(EntryKind, Target<'a>)>> {
    let Some(hit) = lookup(format, source, dir.oid.as_bytes(), dir.at, name)? else { return Some(None) };
    let object = || ObjRef::new(Oid::from_array(*hit.hash), hit.piece.child(hit.rank));
    Some(Some(match hit.tag {
        DIR => (EntryKind::Dir, Target::Object { at: object(), bytes: 0 }),
        VALUE => {
            (EntryKind::Value, Target::Object { at: object(), bytes: ByteReader::new(hit.payload).varint().ok()? })
        }
        INLINE => (EntryKind::Value, Target::Inline(Bytes::from(hit.payload))),
        _ => return None,
    }))
}

/// Walks the steps of `path` down from a directory through borrowed records, as [`descend::borrowed`] says.
#[inline]
pub(super) fn descend<'a, S: Source>(
    format: &Tezos,
    source: &'a S,
    dir: ReachedDir<'a>,
    path: &[u8],
) -> (usize, Option<ReachedDir<'a>>) {
    descend::borrowed(dir, path, |(oid, at), step| match lookup(format, source, oid, at, step) {
        Some(Some(hit)) if hit.tag == DIR => StepLookup::Dir((hit.hash, hit.piece.child(hit.rank))),
        Some(_) => StepLookup::NoDir,
        None => StepLookup::Declined,
    })
}
