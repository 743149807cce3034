//! Lookups in records that can be borrowed: no object is built, no id is copied, nothing is counted.
//!
//! These answer what [`super::Native::find`] and `descend` would by the general way, or decline
//! ([`Peek::Declined`]) wherever anything is out of the ordinary; the general way then says what.

use super::{
    cut::step_hash,
    node::{MODE, names_object},
};
use crate::{
    EntryKind, Location, Source,
    format::{
        borrowed::Borrowed,
        descend::{self, ReachedDir, StepLookup},
        search::{compare, find_fingerprint, mask, prefix},
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
fn start(table: &[[u8; 2]], index: usize) -> Option<usize> {
    if index == 0 { Some(0) } else { start_behind(table, index - 1) }
}

/// Returns where what follows an item starts: where that ends.
#[inline(always)]
fn start_behind(table: &[[u8; 2]], index: usize) -> Option<usize> {
    table.get(index).map(|&end| usize::from(u16::from_le_bytes(end)))
}

/// Splits a run with a length of one byte in front; longer ones are rare.
#[inline(always)]
fn short_run(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
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
            let fingerprints = node.rest.get(..count)?;
            let mut from = 0;
            loop {
                let Some(index) = find_fingerprint(fingerprints, fingerprint, from) else { return Some(Peek::Nothing) };
                if is_bound(items, start(table, index)?, step, wanted)? {
                    break index;
                }
                from = index + 1;
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

/// Returns the last of the items of an inner node whose step is at most `step`. A function of its own: inlined, it has too few
/// registers.
#[inline(never)]
fn last_at_most(table: &[[u8; 2]], items: &[u8], step: &[u8], wanted: u64) -> Option<Option<usize>> {
    // No jump depends on the data: such jumps cost more than the comparisons. Of three comparisons at a time none waits for
    // another.
    let (mut base, mut size) = (0, table.len());
    let at = |index: usize| start_behind(table, index - 1);
    while size > 3 {
        let quarter = size / 4;
        let places = [at(base + quarter)?, at(base + 2 * quarter)?, at(base + 3 * quarter)?];
        let [one, two, three] =
            [inner_head(items, places[0])?, inner_head(items, places[1])?, inner_head(items, places[2])?];
        let mut passed = usize::from(one.0 < wanted) + usize::from(two.0 < wanted) + usize::from(three.0 < wanted);
        if one.0 == wanted || two.0 == wanted || three.0 == wanted || one.1 | two.1 | three.1 >= 0x80 {
            passed = 0;
            for place in places {
                passed += usize::from(at_most(items, place, step, wanted)?);
            }
        }
        base += quarter * passed;
        size -= 3 * quarter;
    }
    while size > 1 {
        let half = size / 2;
        base += half * usize::from(at_most(items, at(base + half)?, step, wanted)?);
        size -= half;
    }
    Some((!table.is_empty() && (base > 0 || at_most(items, 0, step, wanted)?)).then_some(base))
}

/// Returns the first eight bytes of the step of an inner item, as an integer, and the byte that is its length if it is short.
#[inline(always)]
fn inner_head(items: &[u8], start: usize) -> Option<(u64, u8)> {
    // Behind the step an inner item has an id, so eight bytes can be taken whatever the step's length.
    let [length, first @ ..] = items.get(start..start + 9)?.first_chunk::<9>()?;
    Some((u64::from_be_bytes(*first) & mask(*length), *length))
}

/// Whether the step of the item of an inner node that starts at `start` is at most `step`.
#[inline]
fn at_most(items: &[u8], start: usize, step: &[u8], wanted: u64) -> Option<bool> {
    let (found, length) = inner_head(items, start)?;
    if found == wanted {
        let (name, _) = short_run(items.get(start..)?)?;
        return Some(compare(name, found, step, wanted).is_le());
    }
    if length < 0x80 { Some(found < wanted) } else { None }
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
    use alloc::{format, vec, vec::Vec};

    use super::*;

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
                let inner = [&[one.len() as u8], *one, &[7; 34][..]].concat();
                assert_eq!(at_most(&inner, 0, other, prefix(other)), Some(i <= j), "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn the_last_item_at_most_a_step_is_found_in_nodes_of_any_size() {
        // Short steps, and such as agree in eight bytes and more; twice as many as items, so that half fall between items.
        let mut steps: Vec<Vec<u8>> = (0..120_u32)
            .map(|n| match n % 4 {
                0 => format!("{n}").into_bytes(),
                1 => format!("entry-00{n}").into_bytes(),
                2 => vec![0; n as usize / 4],
                _ => format!("entry-00{n}-{}", "x".repeat(n as usize * 2)).into_bytes(),
            })
            .filter(|step| step.len() < 0x80)
            .collect();
        steps.sort();
        steps.dedup();
        for count in 0..=steps.len() / 2 {
            let (mut table, mut items) = (Vec::new(), Vec::new());
            let own: Vec<&Vec<u8>> = steps.iter().skip(1).step_by(2).take(count).collect();
            for step in &own {
                items.push(step.len() as u8);
                items.extend_from_slice(step);
                items.extend_from_slice(&[7; 34]);
                table.push((items.len() as u16).to_le_bytes());
            }
            for step in &steps {
                let wanted = own.iter().rposition(|own| *own <= step);
                assert_eq!(last_at_most(&table, &items, step, prefix(step)), Some(wanted), "{count}: {step:?}");
            }
        }
    }
}
