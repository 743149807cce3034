//! Changes, encoded once and lent as entries.

use core::{cmp::Ordering, ops::Range};

use smallvec::SmallVec;

use super::{
    id,
    node::{DIR, INLINE, LeafItem, LeafItems, VALUE, write_named},
    unsupported,
};
use crate::{
    Change, ChangeTarget, EntryKind, FormatError, Location, STEP_BYTES_MAX, Sink, codec::write_varint,
    format::native::step_hash,
};

/// Where names are among all has 32 bits.
const EDITS_BYTES_MAX: usize = 2 << 30;

/// Changes to a directory, sorted by name.
pub(super) struct TezosEdits<'c> {
    list: SmallVec<[TezosEdit<'c>; 1]>,
    // Names with their lengths, and the lengths of values.
    bytes: SmallVec<[u8; 160]>,
}

struct TezosEdit<'c> {
    step: &'c [u8],
    put: Option<EncodedPut<'c>>,
}

struct EncodedPut<'c> {
    named: Range<u32>,
    name_at: u8,
    tag: u8,
    fingerprint: u8,
    // An inline value; else where its length is.
    inline: &'c [u8],
    length: Range<u32>,
    hash: [u8; id::ID_BYTES],
    at: Location,
}

impl<'c> TezosEdits<'c> {
    pub(super) fn new(changes: &[Change<'c>]) -> Result<Self, FormatError> {
        let mut edits = Self { list: SmallVec::with_capacity(changes.len()), bytes: SmallVec::new() };
        for change in changes {
            if change.step.len() > STEP_BYTES_MAX {
                return Err(unsupported("a step of more than 4096 bytes"));
            }
            let put = match &change.to {
                Some((kind, _)) if !change.mode.of_kind(*kind).is_usual() => {
                    return Err(unsupported("an unusual mode of Git"));
                }
                Some((kind, target)) => Some(edits.put(change.step, *kind, target)?),
                None => None,
            };
            edits.list.push(TezosEdit { step: change.step, put });
        }
        Ok(edits)
    }

    fn put(&mut self, step: &[u8], kind: EntryKind, target: &ChangeTarget<'c>) -> Result<EncodedPut<'c>, FormatError> {
        if self.bytes.len() > EDITS_BYTES_MAX {
            return Err(unsupported("changes of one directory whose names have more than 2 GiB"));
        }
        let start = self.bytes.len() as u32;
        write_named(&mut self.bytes, step);
        let named = start..self.bytes.len() as u32;
        let name_at = (named.len() - step.len()) as u8;
        let none = named.end..named.end;
        let (tag, inline, hash, at) = match (kind, target) {
            (EntryKind::Value, ChangeTarget::Inline(value)) => (INLINE, *value, id::contents(value), Location::NONE),
            (_, ChangeTarget::Object { at, .. }) if at.oid.as_bytes().len() != id::ID_BYTES => {
                return Err(unsupported("an id that is not 32 bytes long"));
            }
            (EntryKind::Value, ChangeTarget::Object { at, bytes }) => {
                write_varint(&mut self.bytes, *bytes);
                (VALUE, &[][..], *at.oid.padded(), at.at)
            }
            (EntryKind::Dir, ChangeTarget::Object { at, .. }) => (DIR, &[][..], *at.oid.padded(), at.at),
            (EntryKind::Executable | EntryKind::Link, _) => {
                return Err(unsupported("an executable or a link; a value is all that an entry can be"));
            }
            _ => return Err(unsupported("an id of another store")),
        };
        let length = if tag == VALUE { none.start..self.bytes.len() as u32 } else { none };
        let fingerprint = step_hash(step) as u8;
        Ok(EncodedPut { named, name_at, tag, fingerprint, inline, length, hash, at })
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn removals(&self) -> usize {
        self.list.iter().filter(|edit| edit.put.is_none()).count()
    }

    pub(super) fn step(&self, index: usize) -> &'c [u8] {
        self.list[index].step
    }

    /// Returns the entry that a change binds its name to.
    #[inline]
    pub(super) fn item(&self, index: usize) -> Option<LeafItem<'_>> {
        let put = self.list[index].put.as_ref()?;
        let range = |range: &Range<u32>| &self.bytes[range.start as usize..range.end as usize];
        let payload = if put.tag == INLINE { put.inline } else { range(&put.length) };
        let (name_at, tag, fingerprint) = (put.name_at, put.tag, put.fingerprint);
        Some(LeafItem { named: range(&put.named), name_at, tag, fingerprint, payload, hash: &put.hash, at: put.at })
    }
}

/// Merges entries with the changes that `which` lists, both in order of names; calls `changed` for every change
/// that makes a difference.
pub(super) fn merge<'w>(
    old: &[LeafItem<'w>],
    edits: &'w TezosEdits<'_>,
    which: impl Iterator<Item = usize>,
    out: &mut LeafItems<'w>,
    sink: &mut impl Sink,
    changed: &mut impl FnMut(usize),
) {
    let mut rest = old;
    out.reserve(old.len() + which.size_hint().0);
    for index in which {
        let step = edits.step(index);
        let before = position(rest, step);
        out.extend_from_slice(&rest[..before]);
        rest = &rest[before..];
        let replaced = rest.split_first().filter(|(item, _)| item.name() == step);
        let item = edits.item(index);
        let differs = match (replaced, &item) {
            (Some((old, _)), Some(new)) => !old.same(new),
            (Some(_), None) | (None, Some(_)) => true,
            (None, None) => false,
        };
        if let (Some((old, _)), Some(new)) = (replaced, &item)
            && old.tag == DIR
            && new.tag != DIR
        {
            sink.dir_replaced(step);
        }
        if differs {
            changed(index);
        }
        if let Some((_, tail)) = replaced {
            rest = tail;
        }
        out.extend(item);
    }
    out.extend_from_slice(rest);
}

/// Returns how many entries come before `step`.
#[inline]
fn position(items: &[LeafItem<'_>], step: &[u8]) -> usize {
    if items.len() <= 8 {
        return items.iter().take_while(|item| item.name().cmp(step) == Ordering::Less).count();
    }
    items.partition_point(|item| item.name() < step)
}
