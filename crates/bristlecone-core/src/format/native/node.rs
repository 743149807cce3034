//! The node: one piece of a directory, read in place. Section 3 of the format's page.

use alloc::vec::Vec;

use super::{
    cut::{self, step_hash},
    id, read_oid,
};
use crate::{
    ChangeTarget, EntryKind, FormatError, Kind, Location, Mode, ObjRef, Object, Oid, STEP_BYTES_MAX, Target,
    codec::{AppendBytes, ByteReader, DecodeError, write_prefixed, write_varint},
};

/// Bytes of a narrow header: 4 = 1 level + 1 flags + 2 count.
const HEADER_BYTES: usize = 4;
/// Bytes of a wide header: 8 = 1 level + 1 flags + 2 zero + 4 count.
const WIDE_HEADER_BYTES: usize = 8;
/// Bytes of a wide leaf for each item, beside the item: 5 = 4 end + 1 fingerprint.
const WIDE_ITEM_BYTES: u64 = 5;
const WIDE: u8 = 1;
/// Every item has a child: the child's index is the item's.
const ALL_CHILDREN: u8 = 2;
/// No item has a child.
const NO_CHILDREN: u8 = 4;
/// The header of a leaf of one item, its flags to be set.
pub(super) const SINGLE_LEAF: [u8; HEADER_BYTES] = [0, 0, 1, 0];
/// The highest level: 64^10 items are more than can be stored.
const LEVEL_MAX: u8 = 40;
/// Set in the tag of an item whose value is inline; the lower bits are the kind.
pub(super) const INLINE: u8 = 8;
/// Set in the tag of an item that Git spells unusually: the mode follows the step.
pub(super) const MODE: u8 = 16;

/// A node's bytes, with the header read. Every access is checked: the bytes may be hostile.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeView<'b> {
    pub(super) level: u8,
    flags: u8,
    count: usize,
    // One byte of each step's hash; leaves only.
    fingerprints: &'b [u8],
    ends: &'b [u8],
    items: &'b [u8],
    items_at: usize,
}

/// What a node knows of a step.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NodeLookup {
    Nothing,
    Item { index: usize },
    Child { index: usize, oid: Oid },
}

/// What an item of a leaf says of what it is bound to.
pub(super) enum Said {
    Inline { bytes: usize },
    Value { bytes: u64, oid: Oid },
    Dir(Oid),
    Foreign,
}

/// What the cuts around a node depend on.
#[derive(Clone, Copy)]
pub(super) struct NodeSurvey {
    pub(super) weight: u64,
    pub(super) low: Option<u64>,
}

/// An item of an inner node.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeChild<'b> {
    pub(super) step: &'b [u8],
    pub(super) oid: Oid,
    pub(super) count: u64,
    pub(super) weight: u64,
}

impl<'b> NodeView<'b> {
    #[inline]
    pub(super) fn parse(body: &'b [u8]) -> Result<Self, DecodeError> {
        let short = DecodeError { offset: 0, reason: "it is shorter than its header says" };
        let header: &[u8; HEADER_BYTES] = body.first_chunk().ok_or(short)?;
        let (level, flags) = (header[0], header[1]);
        let wide = flags & WIDE != 0;
        let (count, mut at) = if wide {
            let header: &[u8; WIDE_HEADER_BYTES] = body.first_chunk().ok_or(short)?;
            (u32::from_le_bytes([header[4], header[5], header[6], header[7]]) as usize, WIDE_HEADER_BYTES)
        } else {
            (usize::from(u16::from_le_bytes([header[2], header[3]])), HEADER_BYTES)
        };
        if level > LEVEL_MAX {
            return Err(DecodeError { offset: 0, reason: "its level is too high" });
        }
        let fingerprints: &[u8] = if level == 0 {
            let fingerprints = body.get(at..).and_then(|rest| rest.get(..count)).ok_or(short)?;
            at += count;
            fingerprints
        } else {
            &[]
        };
        let table = count.checked_mul(if wide { 4 } else { 2 }).ok_or(short)?;
        let ends = body.get(at..).and_then(|rest| rest.get(..table)).ok_or(short)?;
        at += table;
        Ok(Self { level, flags, count, fingerprints, ends, items: &body[at..], items_at: at })
    }

    #[inline]
    pub(super) const fn len(&self) -> usize {
        self.count
    }

    /// Returns where the items begin in the body; the table of their ends is right before them.
    #[inline]
    pub(super) const fn items_at(&self) -> usize {
        self.items_at
    }

    /// Whether an end takes four bytes in the table, not two.
    #[inline]
    pub(super) const fn is_wide(&self) -> bool {
        self.flags & WIDE != 0
    }

    #[inline]
    fn end(&self, index: usize) -> usize {
        if self.flags & WIDE != 0 {
            let at = index * 4;
            match self.ends.get(at..at + 4) {
                Some(end) => u32::from_le_bytes([end[0], end[1], end[2], end[3]]) as usize,
                None => 0,
            }
        } else {
            let at = index * 2;
            match self.ends.get(at..at + 2) {
                Some(end) => usize::from(u16::from_le_bytes([end[0], end[1]])),
                None => 0,
            }
        }
    }

    #[inline]
    fn start(&self, index: usize) -> usize {
        if index == 0 { 0 } else { self.end(index - 1) }
    }

    /// Returns the bytes of an item.
    #[inline]
    pub(super) fn item(&self, index: usize) -> Result<&'b [u8], DecodeError> {
        let (start, end) = (self.start(index), self.end(index));
        self.items
            .get(start..end)
            .ok_or(DecodeError { offset: self.items_at, reason: "the table of items does not fit the items" })
    }

    /// Returns where an item is in the body.
    #[inline]
    pub(super) fn item_range(&self, index: usize) -> core::ops::Range<usize> {
        self.items_at + self.start(index)..self.items_at + self.end(index)
    }

    /// Returns the step of an item.
    #[inline]
    pub(super) fn step(&self, index: usize) -> Result<&'b [u8], DecodeError> {
        item_step(self.level, self.item(index)?)
    }

    /// Returns the byte of an item's step hash that a leaf keeps.
    #[inline]
    pub(super) fn fingerprint(&self, index: usize) -> u8 {
        self.fingerprints.get(index).copied().unwrap_or(0)
    }

    /// Returns the index of the child that an item is in the record's locations.
    #[inline]
    pub(super) fn child_index(&self, index: usize) -> Result<Option<usize>, DecodeError> {
        if self.flags & ALL_CHILDREN != 0 {
            return Ok(Some(index));
        }
        if self.flags & NO_CHILDREN != 0 || !has_child(self.level, self.item(index)?) {
            return Ok(None);
        }
        let mut rank = 0;
        for earlier in 0..index {
            rank += usize::from(has_child(self.level, self.item(earlier)?));
        }
        Ok(Some(rank))
    }

    /// Looks `step` up: the item in a leaf, or the child of an inner node in whose range it lies.
    #[inline]
    pub(super) fn find(&self, step: &[u8]) -> Result<NodeLookup, DecodeError> {
        if self.level > 0 {
            let Some(index) = self.last_at_most(step)? else { return Ok(NodeLookup::Nothing) };
            let child = self.child(index)?;
            return Ok(NodeLookup::Child { index, oid: child.oid });
        }
        if self.count <= 2 {
            for index in 0..self.count {
                if self.step(index)? == step {
                    return Ok(NodeLookup::Item { index });
                }
            }
            return Ok(NodeLookup::Nothing);
        }
        for index in memchr::memchr_iter(step_hash(step) as u8, self.fingerprints) {
            if self.step(index)? == step {
                return Ok(NodeLookup::Item { index });
            }
        }
        Ok(NodeLookup::Nothing)
    }

    /// Returns the index of the last item whose step is at most `step`.
    #[inline]
    pub(super) fn last_at_most(&self, step: &[u8]) -> Result<Option<usize>, DecodeError> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = (low + high) / 2;
            if self.step(middle)? <= step {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low.checked_sub(1))
    }

    /// Returns the index of the first item whose step is at least `step`.
    pub(super) fn first_at_least(&self, step: &[u8]) -> Result<usize, DecodeError> {
        Ok(match self.last_at_most(step)? {
            Some(index) if self.step(index)? == step => index,
            Some(index) => index + 1,
            None => 0,
        })
    }

    /// Returns an item of an inner node.
    #[inline]
    pub(super) fn child(&self, index: usize) -> Result<NodeChild<'b>, DecodeError> {
        let mut reader = ByteReader::new(self.item(index)?);
        let step = reader.prefixed()?;
        Ok(NodeChild { step, oid: read_oid(&mut reader)?, count: reader.varint()?, weight: reader.varint()? })
    }

    /// Returns what an item of a leaf is, how Git spells that, and what it leads to.
    #[inline]
    pub(super) fn bound<'a>(
        &self,
        object: &Object<'a>,
        index: usize,
    ) -> Result<(EntryKind, Mode, Target<'a>), DecodeError> {
        let mut reader = ByteReader::new(self.item(index)?);
        let ItemHead { inline, kind, mode, .. } = ItemHead::read(&mut reader)?;
        let child = || -> Result<Location, DecodeError> {
            Ok(self.child_index(index)?.map_or(Location::NONE, |index| object.child(index)))
        };
        let target = match kind {
            EntryKind::Dir => Target::Object { at: ObjRef::new(read_oid(&mut reader)?, child()?), bytes: 0 },
            EntryKind::Foreign => {
                let digest = reader.prefixed()?;
                Target::Foreign(Oid::new(digest).map_err(|_| reader.error("a foreign id has no valid length"))?)
            }
            _ if inline => {
                let value = reader.prefixed()?;
                let end = self.items_at + self.start(index) + reader.offset();
                Target::Inline(object.body_slice(end - value.len()..end))
            }
            _ => {
                let bytes = reader.varint()?;
                Target::Object { at: ObjRef::new(read_oid(&mut reader)?, child()?), bytes }
            }
        };
        Ok((kind, mode, target))
    }

    /// Returns the step of an item of a leaf, and what the item says of what it is bound to.
    #[inline]
    pub(super) fn said(&self, index: usize) -> Result<(&'b [u8], Said), DecodeError> {
        let mut reader = ByteReader::new(self.item(index)?);
        let ItemHead { step, inline, kind, .. } = ItemHead::read(&mut reader)?;
        let said = match kind {
            EntryKind::Dir => Said::Dir(read_oid(&mut reader)?),
            EntryKind::Foreign => Said::Foreign,
            _ if inline => Said::Inline { bytes: reader.prefixed()?.len() },
            _ => Said::Value { bytes: reader.varint()?, oid: read_oid(&mut reader)? },
        };
        Ok((step, said))
    }

    /// Returns what the items weigh together, and the smallest hash of those behind the first.
    pub(super) fn survey(&self) -> Result<NodeSurvey, DecodeError> {
        let mut survey = NodeSurvey { weight: 0, low: None };
        for index in 0..self.count {
            let step = self.step(index)?;
            survey.weight = survey.weight.saturating_add(cut::weight(self.level, step));
            if index > 0 {
                let hash = cut::level_hash(self.level, step);
                survey.low = Some(survey.low.map_or(hash, |low| low.min(hash)));
            }
        }
        Ok(survey)
    }

    /// Returns where the step of an item is in the body.
    pub(super) fn step_range(&self, index: usize) -> Result<core::ops::Range<usize>, DecodeError> {
        let step = self.step(index)?;
        let skip = usize::from(self.level == 0) + varint_bytes(step.len());
        let start = self.items_at + self.start(index) + skip;
        Ok(start..start + step.len())
    }

    /// Returns the number of entries below.
    pub(super) fn count(&self) -> Result<u64, DecodeError> {
        if self.level == 0 {
            return Ok(self.count as u64);
        }
        let mut total = 0u64;
        for index in 0..self.count {
            total = total.saturating_add(self.child(index)?.count);
        }
        Ok(total)
    }

    /// Returns the id.
    pub(super) fn id(&self, group: u8) -> Result<Oid, DecodeError> {
        let mut start = 0;
        for index in 0..self.count {
            let end = self.end(index);
            if end < start || end > self.items.len() {
                return Err(DecodeError { offset: self.items_at, reason: "the table of items is not in order" });
            }
            start = end;
        }
        Ok(id::node(self.level, self.items, self.count, group, |index| self.end(index)))
    }
}

/// What an item of a leaf begins with.
struct ItemHead<'b> {
    step: &'b [u8],
    inline: bool,
    kind: EntryKind,
    mode: Mode,
}

impl<'b> ItemHead<'b> {
    #[inline]
    fn read(reader: &mut ByteReader<'b>) -> Result<Self, DecodeError> {
        let tag = reader.byte()?;
        let step = reader.prefixed()?;
        let kind = EntryKind::from_u8(tag & !(INLINE | MODE)).ok_or(reader.error("an item has an unknown kind"))?;
        let mode = if tag & MODE != 0 { read_mode(reader, kind)? } else { Mode::USUAL };
        Ok(Self { step, inline: tag & INLINE != 0, kind, mode })
    }
}

#[cold]
fn read_mode(reader: &mut ByteReader<'_>, kind: EntryKind) -> Result<Mode, DecodeError> {
    let mode = Mode::spelled(kind, reader.prefixed()?).ok_or(reader.error("a mode is not 1 to 11 octal digits"))?;
    if mode.is_usual() { Err(reader.error("a mode is written though it is the usual one")) } else { Ok(mode) }
}

/// Returns what a borrowed item leads to, `rest` being its bytes after the step; `None` if it is damaged, or of an
/// unusual mode.
#[inline]
pub(super) fn borrowed_target(tag: u8, rest: &[u8], child: Location) -> Option<(EntryKind, Target<'_>)> {
    let kind = EntryKind::from_u8(tag & !INLINE)?;
    let mut reader = ByteReader::new(rest);
    let target = match kind {
        EntryKind::Dir => Target::Object { at: ObjRef::new(read_oid(&mut reader).ok()?, child), bytes: 0 },
        EntryKind::Foreign => Target::Foreign(Oid::new(reader.prefixed().ok()?).ok()?),
        _ if tag & INLINE != 0 => Target::Inline(reader.prefixed().ok()?.into()),
        _ => {
            let bytes = reader.varint().ok()?;
            Target::Object { at: ObjRef::new(read_oid(&mut reader).ok()?, child), bytes }
        }
    };
    Some((kind, target))
}

/// Returns the value that a borrowed item holds itself, as [`borrowed_target`] would; `None` if it holds none, or is out of
/// the ordinary.
#[inline(always)]
pub(super) fn borrowed_value(tag: u8, rest: &[u8]) -> Option<&[u8]> {
    if tag & INLINE == 0 || matches!(EntryKind::from_u8(tag & !INLINE)?, EntryKind::Dir | EntryKind::Foreign) {
        return None;
    }
    ByteReader::new(rest).prefixed().ok()
}

#[inline]
pub(super) fn item_step(level: u8, item: &[u8]) -> Result<&[u8], DecodeError> {
    let tag = usize::from(level == 0);
    // A length of one byte covers nearly every step.
    if let Some(&length) = item.get(tag)
        && length < 0x80
        && let Some(step) = item.get(tag + 1..tag + 1 + usize::from(length))
    {
        return Ok(step);
    }
    ByteReader::at(item, tag).prefixed()
}

/// Whether an item names an object of this store.
#[inline]
pub(super) fn has_child(level: u8, item: &[u8]) -> bool {
    level > 0 || item.first().is_some_and(|&tag| names_object(tag))
}

/// Whether an item is a directory's binding.
#[inline]
pub(super) fn is_dir(level: u8, item: &[u8]) -> bool {
    level == 0 && item.first().is_some_and(|&tag| tag & !MODE == EntryKind::Dir as u8)
}

/// Whether the item of a leaf with this tag names an object of this store. Of the kinds that there are, only
/// foreign ones have the bit of [`EntryKind::Foreign`].
#[inline(always)]
pub(super) const fn names_object(tag: u8) -> bool {
    tag & (INLINE | EntryKind::Foreign as u8) == 0
}

const fn varint_bytes(mut value: usize) -> usize {
    let mut bytes = 1;
    while value >= 0x80 {
        value >>= 7;
        bytes += 1;
    }
    bytes
}

/// Appends an item of a leaf to `out`.
pub(super) fn write_leaf_item(
    out: &mut impl AppendBytes,
    step: &[u8],
    mode: Mode,
    kind: EntryKind,
    target: &ChangeTarget<'_>,
) {
    use ChangeTarget::{Foreign, Inline, Object};
    let tag = kind as u8 | if matches!(target, Inline(_)) { INLINE } else { 0 };
    if mode.of_kind(kind).is_usual() {
        out.append_byte(tag);
        write_prefixed(out, step);
    } else {
        out.append_byte(tag | MODE);
        write_prefixed(out, step);
        write_prefixed(out, mode.as_bytes());
    }
    match target {
        Inline(value) => write_prefixed(out, value),
        Object { at, bytes } => {
            if kind != EntryKind::Dir {
                write_varint(out, *bytes);
            }
            out.append_bytes(at.oid.as_bytes());
        }
        Foreign(oid) => write_prefixed(out, oid.as_bytes()),
    }
}

/// Counts the bytes that are written.
struct WrittenBytes(u64);

impl AppendBytes for WrittenBytes {
    #[inline]
    fn append_byte(&mut self, _: u8) {
        self.0 += 1;
    }

    #[inline]
    fn append_bytes(&mut self, bytes: &[u8]) {
        self.0 += bytes.len() as u64;
    }
}

/// Returns the bytes of an item of a leaf.
#[inline]
pub(super) fn leaf_item_bytes(step: &[u8], mode: Mode, kind: EntryKind, target: &ChangeTarget<'_>) -> u64 {
    let mut written = WrittenBytes(0);
    write_leaf_item(&mut written, step, mode, kind, target);
    written.0
}

/// Fails where a node of so many items, which have so many bytes together, would be longer than a node can be: ends in it, and
/// its own length in a record, have 32 bits.
pub(super) fn check_length(items: usize, bytes: u64) -> Result<(), FormatError> {
    let beside = (items as u64).saturating_mul(WIDE_ITEM_BYTES).saturating_add(WIDE_HEADER_BYTES as u64);
    if beside.saturating_add(bytes) > u64::from(u32::MAX) {
        return Err(FormatError::Unsupported { format: "native", what: "4 GiB of entries in one piece" });
    }
    Ok(())
}

/// Appends an item of an inner node to `out`.
pub(super) fn write_inner_item(out: &mut impl AppendBytes, child: &NodeChild<'_>) {
    write_prefixed(out, child.step);
    out.append_bytes(child.oid.as_bytes());
    write_varint(out, child.count);
    write_varint(out, child.weight);
}

/// Returns the flags of a narrow node of which all items have a child, or no item has one.
pub(super) const fn leaf_flags(children: bool) -> u8 {
    if children { ALL_CHILDREN } else { NO_CHILDREN }
}

/// What encoding needs of an item.
pub(super) trait EncodeItem {
    fn bytes(&self) -> &[u8];
    fn fingerprint(&self) -> u8;
}

/// Writes the body of a node over `out` and returns its id. The items are no longer than a node can be.
pub(super) fn encode<I: EncodeItem>(out: &mut Vec<u8>, level: u8, items: &[I], group: u8) -> Oid {
    encode_sized(out, level, items, group, bytes_of(items))
}

/// As [`encode`]; fails as [`check_length`] does: pieces that somebody forged may be too long together, where they become one.
pub(super) fn try_encode<I: EncodeItem>(
    out: &mut Vec<u8>,
    level: u8,
    items: &[I],
    group: u8,
) -> Result<Oid, FormatError> {
    let total = bytes_of(items);
    check_length(items.len(), total as u64)?;
    Ok(encode_sized(out, level, items, group, total))
}

fn bytes_of<I: EncodeItem>(items: &[I]) -> usize {
    items.iter().map(|item| item.bytes().len()).sum()
}

/// As [`encode`], of items that have so many bytes together.
fn encode_sized<I: EncodeItem>(out: &mut Vec<u8>, level: u8, items: &[I], group: u8, total: usize) -> Oid {
    let wide = items.len() > usize::from(u16::MAX) || total > usize::from(u16::MAX);
    let children = items.iter().filter(|item| has_child(level, item.bytes())).count();
    let mut flags = if wide { WIDE } else { 0 };
    if children == items.len() {
        flags |= ALL_CHILDREN;
    }
    if children == 0 {
        flags |= NO_CHILDREN;
    }
    out.clear();
    out.extend_from_slice(&[level, flags]);
    if wide {
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(&(items.len() as u32).to_le_bytes());
    } else {
        out.extend_from_slice(&(items.len() as u16).to_le_bytes());
    }
    if level == 0 {
        out.extend(items.iter().map(EncodeItem::fingerprint));
    }
    let table = out.len();
    let width = if wide { 4 } else { 2 };
    out.resize(table + items.len() * width, 0);
    let items_at = out.len();
    for (index, item) in items.iter().enumerate() {
        out.extend_from_slice(item.bytes());
        let end = ((out.len() - items_at) as u32).to_le_bytes();
        out[table + index * width..table + (index + 1) * width].copy_from_slice(&end[..width]);
    }
    let (head, bytes) = out.split_at(items_at);
    let ends = &head[table..];
    id::node(level, bytes, items.len(), group, |index| {
        let end = &ends[index * width..];
        if wide {
            u32::from_le_bytes([end[0], end[1], end[2], end[3]]) as usize
        } else {
            usize::from(u16::from_le_bytes([end[0], end[1]]))
        }
    })
}

/// Writes over `out` the body of `node` (of which `body` are the bytes) with item `index` replaced, and returns
/// the id; `None` where more than the item and the table would change.
pub(super) fn splice(
    out: &mut Vec<u8>,
    node: &NodeView<'_>,
    body: &[u8],
    index: usize,
    item: &[u8],
    group: u8,
) -> Option<Oid> {
    let (start, end) = (node.start(index), node.end(index));
    let (head, tail) = (node.items.get(..start)?, node.items.get(end..)?);
    let total = head.len() + item.len() + tail.len();
    let old = node.items.get(start..end)?;
    if node.flags & WIDE != 0
        || total > usize::from(u16::MAX)
        || has_child(node.level, old) != has_child(node.level, item)
    {
        return None;
    }
    out.clear();
    out.reserve(node.items_at + total);
    out.extend_from_slice(&body[..node.items_at]);
    let grown = (item.len() as u16).wrapping_sub((end - start) as u16);
    for entry in out[node.items_at - 2 * (node.count - index)..].chunks_exact_mut(2) {
        let end = u16::from_le_bytes([entry[0], entry[1]]).wrapping_add(grown);
        entry.copy_from_slice(&end.to_le_bytes());
    }
    out.extend_from_slice(head);
    out.extend_from_slice(item);
    out.extend_from_slice(tail);
    NodeView::parse(out).ok()?.id(group).ok()
}

/// Checks every byte of a node's body and calls `each` for its children.
pub(super) fn children(body: &[u8], each: &mut dyn FnMut(Kind, Oid)) -> Result<(), DecodeError> {
    let node = NodeView::parse(body)?;
    let wrong = |reason| DecodeError { offset: 0, reason };
    let mut previous: Option<&[u8]> = None;
    let mut found = 0;
    for index in 0..node.count {
        let item = node.item(index)?;
        let step = node.step(index)?;
        if step.len() > STEP_BYTES_MAX {
            return Err(wrong("a step is too long"));
        }
        if previous.is_some_and(|previous| previous >= step) {
            return Err(wrong("its steps are not in order"));
        }
        previous = Some(step);
        found += usize::from(check_item(&node, index, item, each)?);
    }
    if node.start(node.count) != node.items.len() {
        return Err(wrong("there are bytes after the last item"));
    }
    let all = node.flags & ALL_CHILDREN != 0;
    let none = node.flags & NO_CHILDREN != 0;
    let wide = node.count > usize::from(u16::MAX) || node.items.len() > usize::from(u16::MAX);
    if all != (found == node.count) || none != (found == 0) || wide != (node.flags & WIDE != 0) || node.flags > 7 {
        return Err(wrong("its flags do not fit its items"));
    }
    if wide && body[2..4] != [0, 0] {
        return Err(wrong("its header has stray bytes"));
    }
    Ok(())
}

/// Calls `each` for the children of a node as [`children`] does. Leaves of inlined values are not gone through.
pub(super) fn child_ids(body: &[u8], each: &mut dyn FnMut(Oid)) -> Result<(), DecodeError> {
    let node = NodeView::parse(body)?;
    if node.flags & NO_CHILDREN != 0 {
        return Ok(());
    }
    for index in 0..node.count {
        let item = node.item(index)?;
        if has_child(node.level, item) {
            each(item_child(node.level, item)?);
        }
    }
    Ok(())
}

/// Returns the object that an item names, if it names one.
#[inline]
pub(super) fn item_child(level: u8, item: &[u8]) -> Result<Oid, DecodeError> {
    let mut reader = ByteReader::new(item);
    if level > 0 {
        reader.prefixed()?;
    } else if ItemHead::read(&mut reader)?.kind != EntryKind::Dir {
        reader.varint()?;
    }
    read_oid(&mut reader)
}

/// Checks one item and returns whether it has a child.
fn check_item(
    node: &NodeView<'_>,
    index: usize,
    item: &[u8],
    each: &mut dyn FnMut(Kind, Oid),
) -> Result<bool, DecodeError> {
    let mut reader = ByteReader::new(item);
    if node.level > 0 {
        reader.prefixed()?;
        each(Kind::Node, read_oid(&mut reader)?);
        reader.varint()?;
        reader.varint()?;
        return if reader.is_empty() { Ok(true) } else { Err(reader.error("an item has stray bytes")) };
    }
    let ItemHead { step, inline, kind, .. } = ItemHead::read(&mut reader)?;
    if node.fingerprint(index) != step_hash(step) as u8 {
        return Err(reader.error("a fingerprint is not that of its step"));
    }
    let child = match kind {
        EntryKind::Dir | EntryKind::Foreign if inline => {
            return Err(reader.error("an item that is no value is inline"));
        }
        EntryKind::Dir => {
            each(Kind::Node, read_oid(&mut reader)?);
            true
        }
        EntryKind::Foreign => {
            Oid::new(reader.prefixed()?).map_err(|_| reader.error("a foreign id has no valid length"))?;
            false
        }
        _ if inline => {
            reader.prefixed()?;
            false
        }
        _ => {
            let bytes = reader.varint()?;
            let kind = super::contents::kind_of(bytes);
            each(kind, read_oid(&mut reader)?);
            true
        }
    };
    if reader.is_empty() { Ok(child) } else { Err(reader.error("an item has stray bytes")) }
}
