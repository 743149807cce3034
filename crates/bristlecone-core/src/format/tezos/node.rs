//! The pieces of a directory as they are stored, read in place. Section 5 of the format's page.

use alloc::vec::Vec;

use smallvec::SmallVec;

use super::{
    Tezos, bad,
    id::{self, ID_BYTES},
    inconsistent,
};
use crate::{
    Bytes, EntryKind, FormatError, Kind, Location, ObjRef, Object, Oid, STEP_BYTES_MAX, Target,
    codec::{ByteReader, DecodeError, write_varint},
    format::{native::step_hash, search::next_fingerprint},
};

/// Bytes before a leaf's tables: 4 = 1 shape + 1 flags + 2 count.
const LEAF_HEADER_BYTES: usize = 4;
/// The same of a wide leaf: 8 = 1 shape + 1 flags + 2 zero + 4 count.
const WIDE_HEADER_BYTES: usize = 8;
/// Bytes before an inner piece's hashes: 16 = 1 shape + 1 depth + 2 zero + 4 count + 8 bitmap.
const INNER_HEADER_BYTES: usize = 16;

/// A whole directory.
const ROOT_LEAF: u8 = 0;
/// A piece without pieces below.
const LEAF: u8 = 1;
/// The root of a directory that is hashed flat, though its entries are in pieces.
const FLAT_ROOT: u8 = 2;
/// A piece with pieces below.
const INNER: u8 = 3;

/// Ends have four bytes each.
const WIDE: u8 = 1;
/// Every item has a child.
const ALL_CHILDREN: u8 = 2;

/// The item is a directory.
pub(super) const DIR: u8 = 0;
/// The item is a value that is an object of its own.
pub(super) const VALUE: u8 = 1;
/// The item is a value that lives in the leaf.
pub(super) const INLINE: u8 = 2;

/// A stored piece, with its header read. Every access is checked: the bytes may be hostile.
#[derive(Clone, Copy, Debug)]
pub(super) enum PieceView<'b> {
    Leaf(LeafView<'b>),
    Inner(InnerView<'b>),
}

/// Entries sorted by name.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeafView<'b> {
    /// It is a whole directory.
    pub(super) root: bool,
    flags: u8,
    count: usize,
    fingerprints: &'b [u8],
    tags: &'b [u8],
    ends: &'b [u8],
    hashes: &'b [[u8; ID_BYTES]],
    items: &'b [u8],
    items_at: usize,
}

/// Buckets of entries, each a piece of the next depth.
#[derive(Clone, Copy, Debug)]
pub(super) struct InnerView<'b> {
    /// Its id is that of the flat directory.
    pub(super) flat: bool,
    pub(super) depth: u8,
    /// Entries below.
    pub(super) count: u64,
    /// Which buckets are not empty.
    pub(super) bitmap: u64,
    /// The hashes of those.
    pub(super) hashes: &'b [[u8; ID_BYTES]],
}

/// What a piece knows of a name.
#[derive(Debug)]
pub(super) enum PieceLookup<'b> {
    Nothing,
    Item { index: usize },
    Child { index: usize, hash: &'b [u8; ID_BYTES] },
}

/// One entry of a leaf.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeafItem<'w> {
    /// The name with its length in front.
    pub(super) named: &'w [u8],
    /// Where the name starts in that.
    pub(super) name_at: u8,
    pub(super) tag: u8,
    pub(super) fingerprint: u8,
    /// An inline value, or the length of one that is an object.
    pub(super) payload: &'w [u8],
    pub(super) hash: &'w [u8; ID_BYTES],
    /// Where the child is, if there is one.
    pub(super) at: Location,
}

/// The entries of a directory; most directories have few.
pub(super) type LeafItems<'w> = SmallVec<[LeafItem<'w>; 4]>;

impl<'w> LeafItem<'w> {
    #[inline]
    pub(super) fn name(&self) -> &'w [u8] {
        self.named.get(usize::from(self.name_at)..).unwrap_or_default()
    }

    /// Whether both bind their name to the same.
    #[inline]
    pub(super) fn same(&self, other: &Self) -> bool {
        self.tag == other.tag && self.hash == other.hash && self.payload == other.payload
    }
}

/// Where the children of a leaf are.
pub(super) trait ChildLocations {
    fn place(&self, index: usize) -> Location;
}

impl ChildLocations for Object<'_> {
    fn place(&self, index: usize) -> Location {
        self.child(index)
    }
}

impl ChildLocations for [Location] {
    fn place(&self, index: usize) -> Location {
        self.get(index).copied().unwrap_or(Location::NONE)
    }
}

const fn wrong(offset: usize, reason: &'static str) -> DecodeError {
    DecodeError { offset, reason }
}

impl<'b> PieceView<'b> {
    #[inline]
    pub(super) fn parse(body: &'b [u8]) -> Result<Self, DecodeError> {
        match body.first() {
            Some(&shape @ (ROOT_LEAF | LEAF)) => LeafView::parse(shape == ROOT_LEAF, body).map(Self::Leaf),
            Some(&shape @ (FLAT_ROOT | INNER)) => InnerView::parse(shape == FLAT_ROOT, body).map(Self::Inner),
            Some(_) => Err(wrong(0, "its shape is unknown")),
            None => Err(wrong(0, "it is empty")),
        }
    }

    /// Returns the number of entries below.
    pub(super) const fn count(&self) -> u64 {
        match self {
            Self::Leaf(leaf) => leaf.count as u64,
            Self::Inner(inner) => inner.count,
        }
    }

    /// Whether a piece of this shape can be at a depth.
    #[inline]
    pub(super) const fn is_at(&self, depth: u8) -> bool {
        match self {
            Self::Leaf(leaf) => leaf.root == (depth == 0),
            Self::Inner(inner) => inner.depth == depth,
        }
    }

    /// Looks a name up, of which `bucket` gives the bucket, in a flat root or not, at a depth.
    #[inline(always)]
    pub(super) fn find(
        &self,
        name: &[u8],
        bucket: impl FnOnce(bool, u8) -> u32,
    ) -> Result<PieceLookup<'b>, DecodeError> {
        match self {
            Self::Leaf(leaf) => leaf.find(name),
            Self::Inner(inner) => Ok(inner.find(bucket(inner.flat, inner.depth))),
        }
    }
}

impl<'b> LeafView<'b> {
    #[inline]
    fn parse(root: bool, body: &'b [u8]) -> Result<Self, DecodeError> {
        let short = wrong(0, "it is shorter than its header says");
        let header: &[u8; LEAF_HEADER_BYTES] = body.first_chunk().ok_or(short)?;
        let flags = header[1];
        let (count, at, width) = if flags & WIDE == 0 {
            (usize::from(u16::from_le_bytes([header[2], header[3]])), LEAF_HEADER_BYTES, 2)
        } else {
            let header: &[u8; WIDE_HEADER_BYTES] = body.first_chunk().ok_or(short)?;
            (u32::from_le_bytes([header[4], header[5], header[6], header[7]]) as usize, WIDE_HEADER_BYTES, 4)
        };
        let items_at = count.checked_mul(2 + width + ID_BYTES).and_then(|tables| tables.checked_add(at));
        let items_at = items_at.ok_or(short)?;
        let (head, items) = body.split_at_checked(items_at).ok_or(short)?;
        let (fingerprints, head) = head[at..].split_at(count);
        let (tags, head) = head.split_at(count);
        let (ends, hashes) = head.split_at(count * width);
        let (hashes, _) = hashes.as_chunks();
        Ok(Self { root, flags, count, fingerprints, tags, ends, hashes, items, items_at })
    }

    #[inline]
    pub(super) const fn len(&self) -> usize {
        self.count
    }

    #[inline]
    fn end(&self, index: usize) -> usize {
        if self.flags & WIDE == 0 {
            self.ends.as_chunks::<2>().0.get(index).map_or(0, |end| usize::from(u16::from_le_bytes(*end)))
        } else {
            self.ends.as_chunks::<4>().0.get(index).map_or(0, |end| u32::from_le_bytes(*end) as usize)
        }
    }

    #[inline]
    fn start(&self, index: usize) -> usize {
        if index == 0 { 0 } else { self.end(index - 1) }
    }

    /// Returns name, with its length in front, where it starts in that, and what follows it.
    #[inline]
    fn bytes(&self, index: usize) -> Result<(&'b [u8], usize, &'b [u8]), DecodeError> {
        let item = self.items.get(self.start(index)..self.end(index));
        let item = item.ok_or(wrong(self.items_at, "the table of items does not fit the items"))?;
        // A length of one byte covers nearly every name.
        if let Some(&length) = item.first()
            && length < 0x80
            && let Some((named, rest)) = item.split_at_checked(1 + usize::from(length))
        {
            return Ok((named, 1, rest));
        }
        let mut reader = ByteReader::new(item);
        let length = reader.length()?;
        let name_at = reader.offset();
        let (named, rest) = item.split_at(name_at + length);
        Ok((named, name_at, rest))
    }

    #[inline]
    pub(super) fn name(&self, index: usize) -> Result<&'b [u8], DecodeError> {
        let (named, name_at, _) = self.bytes(index)?;
        Ok(&named[name_at..])
    }

    /// Returns one entry; `child` gives the locations of children.
    #[inline]
    pub(super) fn item(&self, index: usize, child: impl Fn(usize) -> Location) -> Result<LeafItem<'b>, DecodeError> {
        let (named, name_at, payload) = self.bytes(index)?;
        let (Some(&tag), Some(&fingerprint), Some(hash)) =
            (self.tags.get(index), self.fingerprints.get(index), self.hashes.get(index))
        else {
            return Err(wrong(self.items_at, "there is no such item"));
        };
        let at = if tag == INLINE { Location::NONE } else { child(self.rank(index)) };
        Ok(LeafItem { named, name_at: name_at as u8, tag, fingerprint, payload, hash, at })
    }

    /// Appends every entry to `out`.
    pub(super) fn items(
        &self,
        places: &(impl ChildLocations + ?Sized),
        out: &mut impl Extend<LeafItem<'b>>,
    ) -> Result<(), DecodeError> {
        let mut rank = 0;
        for index in 0..self.count {
            let mut item = self.item_at_rank(index)?;
            if item.tag != INLINE {
                item.at = places.place(rank);
                rank += 1;
            }
            out.extend([item]);
        }
        Ok(())
    }

    #[inline]
    fn item_at_rank(&self, index: usize) -> Result<LeafItem<'b>, DecodeError> {
        let (named, name_at, payload) = self.bytes(index)?;
        let hash = self.hashes.get(index).ok_or(wrong(self.items_at, "there is no such item"))?;
        let (tag, fingerprint) = (self.tags[index], self.fingerprints[index]);
        Ok(LeafItem { named, name_at: name_at as u8, tag, fingerprint, payload, hash, at: Location::NONE })
    }

    /// Returns the index of an item's child among the record's locations.
    #[inline]
    fn rank(&self, index: usize) -> usize {
        if self.flags & ALL_CHILDREN != 0 {
            return index;
        }
        self.tags.iter().take(index).filter(|&&tag| tag != INLINE).count()
    }

    #[inline]
    fn find(&self, name: &[u8]) -> Result<PieceLookup<'b>, DecodeError> {
        if self.count <= 2 {
            for index in 0..self.count {
                if self.name(index)? == name {
                    return Ok(PieceLookup::Item { index });
                }
            }
            return Ok(PieceLookup::Nothing);
        }
        let fingerprint = step_hash(name) as u8;
        let mut from = 0;
        while let Some(index) = next_fingerprint(self.fingerprints, fingerprint, from) {
            if self.name(index)? == name {
                return Ok(PieceLookup::Item { index });
            }
            from = index + 1;
        }
        Ok(PieceLookup::Nothing)
    }

    /// Returns the index of the first entry whose name is at least `name`.
    pub(super) fn first_at_least(&self, name: &[u8]) -> Result<usize, DecodeError> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = (low + high) / 2;
            if self.name(middle)? < name {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// Returns where the name of an entry is in the body, and where what follows it is.
    pub(super) fn ranges(
        &self,
        index: usize,
    ) -> Result<(core::ops::Range<usize>, core::ops::Range<usize>), DecodeError> {
        let (named, name_at, payload) = self.bytes(index)?;
        let start = self.items_at + self.start(index);
        let end = start + named.len();
        Ok((start + name_at..end, end..end + payload.len()))
    }

    /// Returns what an entry leads to. `inline` makes bytes of the range of the body where they are.
    #[inline]
    pub(super) fn target<'a>(
        &self,
        index: usize,
        child: impl Fn(usize) -> Location,
        inline: impl FnOnce(core::ops::Range<usize>) -> Bytes<'a>,
    ) -> Result<(EntryKind, Target<'a>), DecodeError> {
        let item = self.item(index, child)?;
        let at = ObjRef::new(Oid::from_array(*item.hash), item.at);
        Ok(match item.tag {
            DIR => (EntryKind::Dir, Target::Object { at, bytes: 0 }),
            VALUE => (EntryKind::Value, Target::Object { at, bytes: ByteReader::new(item.payload).varint()? }),
            INLINE => (EntryKind::Value, Target::Inline(inline(self.ranges(index)?.1))),
            _ => return Err(wrong(self.items_at, "an item has an unknown tag")),
        })
    }
}

impl<'b> InnerView<'b> {
    #[inline]
    fn parse(flat: bool, body: &'b [u8]) -> Result<Self, DecodeError> {
        let (header, hashes) =
            body.split_first_chunk::<INNER_HEADER_BYTES>().ok_or(wrong(0, "it is shorter than its header says"))?;
        let (hashes, rest) = hashes.as_chunks();
        let [_, depth, zero_1, zero_2, c0, c1, c2, c3, bitmap @ ..] = *header;
        let bitmap = u64::from_le_bytes(bitmap);
        if hashes.len() != bitmap.count_ones() as usize || !rest.is_empty() || zero_1 | zero_2 != 0 {
            return Err(wrong(INNER_HEADER_BYTES, "its bitmap does not fit its hashes"));
        }
        if flat && depth > 0 {
            return Err(wrong(1, "a root has a depth"));
        }
        Ok(Self { flat, depth, count: u64::from(u32::from_le_bytes([c0, c1, c2, c3])), bitmap, hashes })
    }

    #[inline]
    fn find(&self, bucket: u32) -> PieceLookup<'b> {
        match self.index(bucket) {
            Some(index) => PieceLookup::Child { index, hash: &self.hashes[index] },
            None => PieceLookup::Nothing,
        }
    }

    /// Whether it has no bucket beyond the last.
    #[inline]
    pub(super) fn fits(&self, format: &Tezos) -> bool {
        self.bitmap.checked_shr(format.buckets_of(self.flat)).is_none_or(|beyond| beyond == 0)
    }

    /// Returns the index of a bucket that is not empty.
    #[inline]
    pub(super) fn index(&self, bucket: u32) -> Option<usize> {
        let bit = 1_u64.checked_shl(bucket)?;
        (self.bitmap & bit != 0).then(|| (self.bitmap & (bit - 1)).count_ones() as usize)
    }

    /// Returns the buckets that are not empty, in order.
    pub(super) fn buckets(&self) -> impl Iterator<Item = (u32, &'b [u8; ID_BYTES])> + use<'b> {
        let mut rest = self.bitmap;
        self.hashes.iter().map(move |hash| {
            let bucket = rest.trailing_zeros();
            rest &= rest.wrapping_sub(1);
            (bucket, hash)
        })
    }
}

/// Appends the body of a leaf to `out`, and the locations of its children to `locations`.
pub(super) fn encode_leaf(
    out: &mut Vec<u8>,
    locations: &mut SmallVec<[Location; 4]>,
    root: bool,
    items: &[LeafItem<'_>],
) {
    let total: usize = items.iter().map(|item| item.named.len() + item.payload.len()).sum();
    let wide = items.len() > usize::from(u16::MAX) || total > usize::from(u16::MAX);
    locations.reserve(items.len());
    locations.extend(items.iter().filter(|item| item.tag != INLINE).map(|item| item.at));
    let all = if locations.len() == items.len() { ALL_CHILDREN } else { 0 };
    out.reserve(WIDE_HEADER_BYTES + items.len() * (6 + ID_BYTES) + total);
    out.extend_from_slice(&[if root { ROOT_LEAF } else { LEAF }, all | if wide { WIDE } else { 0 }]);
    if wide {
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(&(items.len() as u32).to_le_bytes());
    } else {
        out.extend_from_slice(&(items.len() as u16).to_le_bytes());
    }
    out.extend(items.iter().map(|item| item.fingerprint));
    out.extend(items.iter().map(|item| item.tag));
    let mut end = 0;
    for item in items {
        end += item.named.len() + item.payload.len();
        let bytes = (end as u32).to_le_bytes();
        out.extend_from_slice(if wide { &bytes } else { &bytes[..2] });
    }
    for item in items {
        out.extend_from_slice(item.hash);
    }
    for item in items {
        out.extend_from_slice(item.named);
        out.extend_from_slice(item.payload);
    }
}

/// Appends the body of an inner piece to `out`.
pub(super) fn encode_inner(out: &mut Vec<u8>, flat: bool, depth: u8, count: u64, bitmap: u64, hashes: &[u8]) {
    out.extend_from_slice(&[if flat { FLAT_ROOT } else { INNER }, depth, 0, 0]);
    out.extend_from_slice(&(count as u32).to_le_bytes());
    out.extend_from_slice(&bitmap.to_le_bytes());
    out.extend_from_slice(hashes);
}

/// Appends the length of `name` and the name.
pub(super) fn write_named(out: &mut impl crate::codec::AppendBytes, name: &[u8]) {
    write_varint(out, name.len() as u64);
    out.append_bytes(name);
}

/// Returns the piece that an object is, if it can be at this depth; at depth 0 it is a whole directory. `flat`: what
/// it is a piece of is hashed flat.
pub(super) fn at_depth<'b>(
    format: &Tezos,
    object: &'b Object<'_>,
    depth: u8,
    flat: bool,
) -> Result<PieceView<'b>, FormatError> {
    let node = PieceView::parse(object.body()).map_err(bad)?;
    match &node {
        _ if !node.is_at(depth) => Err(inconsistent("its depth is not that of its place")),
        PieceView::Inner(_) if flat => Err(inconsistent("a piece of a directory that is hashed flat is no leaf")),
        PieceView::Inner(inner) if !inner.fits(format) => Err(inconsistent("it has a bucket that there is not")),
        PieceView::Leaf(leaf) if depth > 0 && !flat && leaf.count > format.leaf_max() => {
            Err(inconsistent("it has more entries than a piece may have"))
        }
        _ => Ok(node),
    }
}

/// Checks every byte of a piece's body and calls `each` for its children.
pub(super) fn children(format: &Tezos, body: &[u8], each: &mut dyn FnMut(Kind, Oid)) -> Result<(), DecodeError> {
    match PieceView::parse(body)? {
        PieceView::Inner(inner) => inner_children(format, &inner, each),
        PieceView::Leaf(leaf) if !leaf.root && leaf.count > usize::from(format.stable) => {
            Err(wrong(2, "it has more entries than a piece may have"))
        }
        PieceView::Leaf(leaf) => leaf_children(body, &leaf, each),
    }
}

fn inner_children(format: &Tezos, inner: &InnerView<'_>, each: &mut dyn FnMut(Kind, Oid)) -> Result<(), DecodeError> {
    let few = inner.count <= u64::from(format.stable);
    if inner.depth >= format.depth_end() {
        return Err(wrong(1, "its depth is beyond the bound"));
    }
    if inner.count <= format.leaf_max() as u64 {
        return Err(wrong(4, "it has no more entries than one leaf holds"));
    }
    if inner.depth == 0 && inner.flat != few {
        return Err(wrong(0, "it is hashed flat and has too many entries, or the reverse"));
    }
    if inner.hashes.is_empty() || !inner.fits(format) {
        return Err(wrong(8, "it has no pieces, or one in a bucket that there is not"));
    }
    inner.hashes.iter().for_each(|hash| each(Kind::Node, Oid::from_array(*hash)));
    Ok(())
}

fn leaf_children(body: &[u8], leaf: &LeafView<'_>, each: &mut dyn FnMut(Kind, Oid)) -> Result<(), DecodeError> {
    let mut previous: Option<&[u8]> = None;
    let mut found = 0;
    if leaf.count == 0 {
        return Err(wrong(2, "a directory is not empty"));
    }
    for index in 0..leaf.count {
        let item = leaf.item(index, |_| Location::NONE)?;
        let name = item.name();
        if name.len() > STEP_BYTES_MAX {
            return Err(wrong(leaf.items_at, "a name is too long"));
        }
        if previous.is_some_and(|previous| previous >= name) {
            return Err(wrong(leaf.items_at, "its names are not in order"));
        }
        previous = Some(name);
        if item.fingerprint != step_hash(name) as u8 {
            return Err(wrong(leaf.items_at, "a fingerprint is not that of its name"));
        }
        let kind = match item.tag {
            DIR if item.payload.is_empty() => Kind::Node,
            VALUE => {
                let mut reader = ByteReader::new(item.payload);
                reader.varint()?;
                if !reader.is_empty() {
                    return Err(wrong(leaf.items_at, "an item has stray bytes"));
                }
                Kind::Contents
            }
            INLINE if id::contents(item.payload) == *item.hash => continue,
            INLINE => return Err(wrong(leaf.items_at, "an inline value's hash is not that of its bytes")),
            _ => return Err(wrong(leaf.items_at, "an item has an unknown tag or stray bytes")),
        };
        found += 1;
        each(kind, Oid::from_array(*item.hash));
    }
    let wide = leaf.count > usize::from(u16::MAX) || leaf.items.len() > usize::from(u16::MAX);
    let flags = if wide { WIDE } else { 0 } | if found == leaf.count { ALL_CHILDREN } else { 0 };
    if leaf.end(leaf.count - 1) != leaf.items.len() || leaf.flags != flags || (wide && body[2..4] != [0, 0]) {
        return Err(wrong(1, "its header does not fit its items"));
    }
    Ok(())
}
