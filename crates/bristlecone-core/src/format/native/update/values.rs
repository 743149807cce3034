//! Values that become objects of their own, given to the sink right before the piece that names them.
//!
//! Threads share a wide level in stretches, each with a sink of its own (`stretch.rs`). The place of a value that one sink was
//! given means nothing to another one, so a value goes where the piece goes. Until then its number among the changes stands for
//! its place.

use alloc::vec::Vec;
use core::ops::Range;

use smallvec::SmallVec;

use super::{
    super::{Native, contents, id, lanes},
    LevelEdits, NodeItem, check_change,
    stretch::{LevelChanges, is_pending},
};
use crate::{Change, ChangeList, ChangeTarget, EntryKind, Format, FormatError, Location, ObjRef, Oid, Sink};

/// So many values are hashed at a time.
const TOGETHER: usize = 64;
/// No offset in a batch has this bit.
const VALUE: u64 = 1 << 62;

/// Returns what stands for the place of a value, by the number of its change.
const fn value_place(number: usize) -> Location {
    Location::pending(VALUE | number as u64)
}

/// Returns the number of the change, if that is what a place stands for.
#[inline]
pub(super) const fn value_number(at: Location) -> Option<usize> {
    match at.pending_offset() {
        Some(offset) if offset & VALUE != 0 => Some((offset & !VALUE) as usize),
        _ => None,
    }
}

/// Where the values are.
pub(super) trait Values: Sync {
    /// Returns the value that a change puts.
    fn value(&self, number: usize) -> Option<&[u8]>;
}

/// Changes that are made when they are needed.
pub(super) struct Listed<'c, C> {
    list: &'c C,
    /// Longer values are objects of their own.
    inline: usize,
    names_pending: bool,
}

impl<'c, C: ChangeList> Listed<'c, C> {
    /// Fails where a change is too long for the piece that it falls into.
    pub(super) fn checked(native: &Native, list: &'c C) -> Result<Self, FormatError> {
        let mut listed = Self { list, inline: native.inline_bytes_max(), names_pending: false };
        for index in 0..list.len() {
            let change = list.get(index);
            let is_outside = listed.outside(&change).is_some();
            check_change(native, &Change { to: change.to.filter(|_| !is_outside), ..change })?;
            listed.names_pending |= is_pending(&change);
        }
        Ok(listed)
    }

    /// Returns what a change puts, if that is a value that becomes an object.
    #[inline]
    fn outside(&self, change: &Change<'c>) -> Option<(EntryKind, &'c [u8])> {
        match change.to {
            Some((kind, ChangeTarget::Inline(value))) if value.len() > self.inline => Some((kind, value)),
            _ => None,
        }
    }

    /// Adds a change; a value that is hashed together with others waits for them.
    #[inline]
    fn add(&self, number: usize, edits: &mut LevelEdits, wait: &mut Waiting<'c>) {
        let change = self.list.get(number);
        let Some((kind, value)) = self.outside(&change) else { return edits.add(&change) };
        let together = lanes::WHOLE_BYTES.contains(&value.len());
        let oid = if together { UNKNOWN } else { contents::put(&mut Unheard, value).oid };
        edits.add(&Change { to: Some((kind, object(oid, value, number))), ..change });
        if together {
            wait.values.push(value);
            wait.changes.push(edits.len() - 1);
            if wait.values.len() == TOGETHER {
                wait.hash(edits);
            }
        }
    }
}

/// Stands for an id until it is known.
const UNKNOWN: Oid = Oid::from_array([0; 32]);

/// Returns what a value becomes whose place is not known yet.
const fn object<'c>(oid: Oid, value: &[u8], number: usize) -> ChangeTarget<'c> {
    ChangeTarget::Object { at: ObjRef::new(oid, value_place(number)), bytes: value.len() as u64 }
}

/// Values of changes that were added with ids that are not known yet.
#[derive(Default)]
struct Waiting<'c> {
    values: SmallVec<[&'c [u8]; TOGETHER]>,
    changes: SmallVec<[usize; TOGETHER]>,
    ids: Vec<Oid>,
}

impl Waiting<'_> {
    fn hash(&mut self, edits: &mut LevelEdits) {
        self.ids.clear();
        id::all_contents(&self.values, &mut self.ids);
        for (&change, oid) in self.changes.iter().zip(&self.ids) {
            edits.set_object(change, oid);
        }
        self.values.clear();
        self.changes.clear();
    }
}

impl<C: ChangeList> LevelChanges for Listed<'_, C> {
    fn len(&self) -> usize {
        self.list.len()
    }

    fn step(&self, index: usize) -> &[u8] {
        self.list.get(index).step
    }

    fn puts(&self, index: usize) -> bool {
        self.list.get(index).to.is_some()
    }

    fn names_pending(&self) -> bool {
        self.names_pending
    }

    fn part(&self, range: Range<usize>) -> LevelEdits {
        let (mut edits, mut wait) = (LevelEdits::with_capacity(range.len()), Waiting::default());
        range.for_each(|number| self.add(number, &mut edits, &mut wait));
        wait.hash(&mut edits);
        edits
    }
}

impl<C: ChangeList> Values for Listed<'_, C> {
    fn value(&self, number: usize) -> Option<&[u8]> {
        self.outside(&self.list.get(number)).map(|(_, value)| value)
    }
}

/// Tells a sink of the values that it is going to be given, of those that items name.
pub(super) fn expect<K: Sink>(sink: &K, items: &[NodeItem<'_>]) {
    let values = items.iter().filter(|item| value_number(item.at).is_some());
    let ids: SmallVec<[Oid; TOGETHER]> =
        values.filter_map(|item| item.bytes.last_chunk()).map(|id| Oid::from_array(*id)).collect();
    sink.expect(&ids);
}

/// Gives a value to a sink whose number stands for the place of an item's child, and returns where it is.
#[inline(never)]
pub(super) fn put_value<K: Sink>(sink: &mut K, values: &dyn Values, item: &NodeItem<'_>, number: usize) -> Location {
    let Some(value) = values.value(number) else { return Location::NONE };
    // An item ends with the id of its child.
    match item.bytes.last_chunk() {
        Some(oid) if value.len() <= contents::WHOLE_BYTES_MAX => {
            contents::put_as(sink, Oid::from_array(*oid), value).at
        }
        _ => contents::put(sink, value).at,
    }
}

/// Takes nothing, where only the id is asked for.
pub(super) struct Unheard;

impl Sink for Unheard {
    fn put(&mut self, _: crate::Kind, _: Oid, _: &[u8], _: &[Location], _: &[u64]) -> Location {
        Location::NONE
    }

    fn known(&self, _: &Oid) -> Option<Location> {
        None
    }
}
