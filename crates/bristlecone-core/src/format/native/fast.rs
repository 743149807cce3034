//! Lookups in records that can be borrowed: no object is built, no id is copied, nothing is counted.
//!
//! These answer what [`super::Native::find`] and `descend` would by the general way, or decline
//! ([`Peek::Declined`]) wherever anything is out of the ordinary; the general way then says what.

use super::{
    cut::step_hash,
    node::{MODE, names_object},
    steps::last_at_most,
};
use crate::{
    EntryKind, Location, Source,
    format::{
        borrowed::Borrowed,
        descend::{self, ReachedDir, StepLookup},
        search::{first_fingerprint, mask, next_fingerprint, prefix},
    },
};

/// What a borrowed lookup found.
pub(super) enum Peek<'a> {
    /// It cannot tell.
    Declined,
    /// The step is not bound.
    Nothing,
    /// The step is bound to this item of a leaf; what follows its step is `rest` (a mode, where the tag says that
    /// there is one), and its child, if it has one, is at the location.
    Item { tag: u8, rest: &'a [u8], child: Location },
}

/// A borrowed record of a node.
#[derive(Clone, Copy)]
struct BorrowedNode<'a> {
    record: Borrowed<'a>,
    level: u8,
    flags: u8,
    count: usize,
    // The body from the fingerprints (leaves) or the table (inner nodes) on.
    rest: &'a [u8],
}

impl<'a> BorrowedNode<'a> {
    #[inline(always)]
    fn new(record: &'a [u8], own: Location) -> Option<Self> {
        let record = Borrowed::node(record, own)?;
        let (head, rest) = record.body.split_first_chunk::<4>()?;
        let [level, flags, low, high] = *head;
        // Wide nodes are rare; the general way reads them.
        if flags & 1 != 0 {
            return None;
        }
        Some(Self { record, level, flags, count: usize::from(u16::from_le_bytes([low, high])), rest })
    }

    /// Returns the table and the items behind it, with as many bytes as the table says.
    #[inline(always)]
    fn table(&self) -> Option<(&'a [[u8; 2]], &'a [u8])> {
        let fingerprints = if self.level == 0 { self.count } else { 0 };
        let (table, items) = self.rest.get(fingerprints..)?.split_at_checked(self.count * 2)?;
        Some((table.as_chunks().0, items))
    }

    #[inline(always)]
    fn child(&self, index: usize) -> Location {
        self.record.child(index)
    }
}

#[inline(always)]
fn item<'a>(table: &[[u8; 2]], items: &'a [u8], index: usize) -> Option<&'a [u8]> {
    items.get(start(table, index)?..start_behind(table, index)?)
}

/// Returns where an item starts: where the one before it ends.
#[inline(always)]
pub(super) fn start(table: &[[u8; 2]], index: usize) -> Option<usize> {
    if index == 0 { Some(0) } else { start_behind(table, index - 1) }
}

/// Returns where what follows an item starts: where that ends.
#[inline(always)]
pub(super) fn start_behind(table: &[[u8; 2]], index: usize) -> Option<usize> {
    table.get(index).map(|&end| usize::from(u16::from_le_bytes(end)))
}

/// Splits a run with a length of one byte in front; longer ones are rare.
#[inline(always)]
pub(super) fn short_run(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&length, rest) = bytes.split_first()?;
    if length >= 0x80 {
        return None;
    }
    rest.split_at_checked(usize::from(length))
}

/// Looks `step` up in the directory whose root piece has id `oid` and stands at `at`.
#[inline]
pub(super) fn find<'a, S: Source>(source: &'a S, oid: &[u8], at: Location, step: &[u8]) -> Peek<'a> {
    lookup(source, oid, at, step).unwrap_or(Peek::Declined)
}

#[inline(always)]
fn lookup<'a, S: Source>(source: &'a S, oid: &[u8], at: Location, step: &[u8]) -> Option<Peek<'a>> {
    let mut node = BorrowedNode::new(source.peek(oid, at)?, at)?;
    if node.level == 0 && node.count == 1 {
        return lookup_only(&node, step);
    }
    // While the first loads are under way.
    let (wanted, fingerprint) = (prefix(step), step_hash(step) as u8);
    while node.level > 0 {
        let (table, items) = node.table()?;
        let Some(index) = last_at_most(table, items, step, wanted)? else { return Some(Peek::Nothing) };
        let (_, rest) = short_run(item(table, items, index)?)?;
        let (oid, at) = (rest.get(..32)?, node.child(index));
        let below = BorrowedNode::new(source.peek(oid, at)?, at)?;
        if below.level >= node.level {
            return None;
        }
        node = below;
    }
    let (table, items) = node.table()?;
    let index = match node.count {
        0 => return Some(Peek::Nothing),
        1 => return lookup_only(&node, step),
        count => {
            let mut found = first_fingerprint(node.rest, count, fingerprint);
            loop {
                let Some(index) = found else { return Some(Peek::Nothing) };
                if is_bound(items, start(table, index)?, step, wanted)? {
                    break index;
                }
                found = next_fingerprint(node.rest.get(..count)?, fingerprint, index + 1);
            }
        }
    };
    let (&tag, tail) = item(table, items, index)?.split_first()?;
    let (_, rest) = short_run(tail)?;
    let child = if !names_object(tag) {
        Location::NONE
    } else if node.flags & 2 != 0 {
        node.child(index)
    } else {
        let mut rank = 0;
        for earlier in 0..index {
            let tag = *item(table, items, earlier)?.first()?;
            rank += usize::from(names_object(tag));
        }
        node.child(rank)
    };
    Some(Peek::Item { tag, rest, child })
}

/// Looks `step` up in a leaf of one item, as each directory of a chain is: behind the fingerprint and the one
/// entry of the table comes the item.
#[inline(always)]
fn lookup_only<'a>(node: &BorrowedNode<'a>, step: &[u8]) -> Option<Peek<'a>> {
    let [tag, length, tail @ ..] = node.rest.get(3..)? else { return None };
    if usize::from(*length) != step.len() || *length >= 0x80 {
        return if step.len() < 0x80 { Some(Peek::Nothing) } else { None };
    }
    let same = match (step, tail) {
        ([one], [first, ..]) => one == first,
        _ => is_bound(node.rest.get(3..)?, 0, step, prefix(step))?,
    };
    if !same {
        return Some(Peek::Nothing);
    }
    let child = if names_object(*tag) { node.child(0) } else { Location::NONE };
    Some(Peek::Item { tag: *tag, rest: tail.get(step.len()..)?, child })
}

/// Whether the item of a leaf, which starts at `start` of the items, is bound to `step`.
#[inline(always)]
fn is_bound(items: &[u8], start: usize, step: &[u8], wanted: u64) -> Option<bool> {
    let item = items.get(start + 1..)?;
    let (&length, rest) = item.split_first()?;
    if usize::from(length) != step.len() || length >= 0x80 {
        // A step whose length takes two bytes is left to the general way.
        return if step.len() < 0x80 { Some(false) } else { None };
    }
    let Some(first) = rest.first_chunk() else { return Some(rest.get(..step.len())? == step) };
    if u64::from_be_bytes(*first) & mask(length) != wanted {
        return Some(false);
    }
    Some(length <= 8 || rest.get(8..step.len())? == step.get(8..)?)
}

/// Returns the fingerprint of `step` if it is the one entry of a directory that can be borrowed, and whether that is a
/// directory itself.
#[inline]
pub(super) fn only_entry<S: Source>(source: &S, oid: &[u8], at: Location, step: &[u8]) -> Option<(u8, bool)> {
    let node = BorrowedNode::new(source.peek(oid, at)?, at)?;
    if node.level != 0 || node.count != 1 {
        return None;
    }
    let (_, items) = node.table()?;
    if !is_bound(items, 0, step, prefix(step))? {
        return None;
    }
    Some((*node.rest.first()?, super::node::is_dir(0, items)))
}

/// Walks the steps of `path` down from a directory through borrowed records, as [`descend::borrowed`] says.
#[inline]
pub(super) fn descend<'a, S: Source>(
    source: &'a S,
    dir: ReachedDir<'a>,
    path: &[u8],
) -> (usize, Option<ReachedDir<'a>>) {
    descend::borrowed(dir, path, |(oid, at), step| match lookup(source, oid, at, step) {
        Some(Peek::Item { tag, rest, child }) if tag == EntryKind::Dir as u8 => match rest.get(..32) {
            Some(oid) => StepLookup::Dir((oid, child)),
            None => StepLookup::Declined,
        },
        // A directory may have a mode, which the general way reads.
        Some(Peek::Item { tag, .. }) if tag & MODE != 0 => StepLookup::Declined,
        Some(Peek::Item { .. } | Peek::Nothing) => StepLookup::NoDir,
        Some(Peek::Declined) | None => StepLookup::Declined,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::search::compare;

    #[test]
    fn prefixes_order_as_their_bytes() {
        let names: [&[u8]; 14] = [
            b"",
            b"\0",
            b"\0\0",
            b"\0\x01",
            b"a",
            b"a\0",
            b"ab",
            b"abc",
            b"abcd",
            b"abcde",
            b"abcdefg",
            b"abcdefgh",
            b"abcdefghi",
            b"b",
        ];
        for (i, one) in names.iter().enumerate() {
            for (j, other) in names.iter().enumerate() {
                assert_eq!(compare(one, prefix(one), other, prefix(other)), i.cmp(&j), "{one:?} {other:?}");
                let leaf = [&[8, one.len() as u8], *one, b"payload"].concat();
                assert_eq!(is_bound(&leaf, 0, other, prefix(other)), Some(i == j), "{one:?} {other:?}");
            }
        }
    }
}
