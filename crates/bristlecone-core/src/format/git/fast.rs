//! Lookups in records that can be borrowed: no object is built, no id is copied, nothing is counted.
//!
//! These answer what [`super::Git::find`] and `descend` would by the general way, or decline wherever anything is out
//! of the ordinary (submodules beside locations, full slots, damage); the general way then says what.

use super::{
    Git,
    raw::usual,
    table::{PROBES, Table},
    target,
};
use crate::{
    EntryKind, Location, ObjRef, Oid, Source, Target,
    format::{borrowed::Borrowed, native::step_hash, search::slash},
};

/// An entry that was found.
struct Hit<'a> {
    kind: EntryKind,
    oid: &'a [u8],
    at: Location,
}

/// What a lookup came to: nothing there, or an entry.
type Answer<'a> = Option<Hit<'a>>;

/// Looks a name up in the directory with id `oid`, which may stand at `at`; `None` where this cannot tell.
#[inline(always)]
fn lookup<'a, S: Source>(git: &Git, source: &'a S, oid: &[u8], at: Location, name: &[u8]) -> Option<Answer<'a>> {
    let record = Borrowed::node(source.peek(oid, at)?, at)?;
    let oid_bytes = git.oid_bytes();
    let table = Table::parse(oid_bytes, record.body).ok()?;
    let (index, kind, oid) = if table.has_slots() {
        let mut slot = step_hash(name) as usize;
        let mut tries = 0;
        loop {
            let Some(index) = table.slot(slot) else { return Some(None) };
            if let Some((kind, oid)) = named(&table, oid_bytes, index, name)? {
                break (index, kind, oid);
            }
            tries += 1;
            if tries == PROBES {
                return None;
            }
            slot = slot.wrapping_add(1);
        }
    } else {
        let mut index = 0;
        loop {
            if index == table.count {
                return Some(None);
            }
            if let Some((kind, oid)) = named(&table, oid_bytes, index, name)? {
                break (index, kind, oid);
            }
            index += 1;
        }
    };
    let at = match record.children() {
        0 => Location::NONE,
        children if children == table.count => record.child(index),
        _ => return None,
    };
    Some(Some(Hit { kind, oid, at }))
}

/// Returns kind and id of an entry if it has this name; `None` where its mode is not spelled as usual, or the table
/// does not fit it.
#[inline(always)]
fn named<'a>(table: &Table<'a>, oid_bytes: usize, index: usize, name: &[u8]) -> Option<Option<(EntryKind, &'a [u8])>> {
    let entry = table.bytes(index)?;
    let (kind, mode_bytes) = usual(entry)?;
    // Mode, space, name, zero, id.
    if entry.len() != mode_bytes + 2 + name.len() + oid_bytes {
        return Some(None);
    }
    let (found, rest) = entry.get(mode_bytes + 1..)?.split_at_checked(name.len())?;
    Some(if found == name { Some((kind, rest.get(1..)?)) } else { None })
}

/// Looks a name up; `None` where the general way must tell.
#[inline]
pub(super) fn find<'a, S: Source>(
    git: &Git,
    source: &'a S,
    dir: &ObjRef,
    name: &[u8],
) -> Option<Option<(EntryKind, Target<'a>)>> {
    let Some(hit) = lookup(git, source, dir.oid.as_bytes(), dir.at, name)? else { return Some(None) };
    Some(Some(target(hit.kind, Oid::new(hit.oid).ok()?, || hit.at)))
}

/// Walks the steps of `path` (joined by `/`) down from a directory through borrowed records.
///
/// Returns how many bytes of the path were walked, and the directory reached there; `None` where a step is not
/// bound to a directory. It stops short where the general way must go on.
#[inline]
pub(super) fn descend<'a, S: Source>(
    git: &Git,
    source: &'a S,
    oid: &'a [u8],
    at: Location,
    path: &[u8],
) -> (usize, Option<(&'a [u8], Location)>) {
    let (mut oid, mut at) = (oid, at);
    let mut walked = 0;
    while walked < path.len() {
        let rest = &path[walked..];
        let length = slash(rest);
        match lookup(git, source, oid, at, &rest[..length]) {
            Some(Some(hit)) if hit.kind == EntryKind::Dir => (oid, at) = (hit.oid, hit.at),
            Some(_) => return (path.len(), None),
            None => return (walked, Some((oid, at))),
        }
        walked = (walked + length + 1).min(path.len());
    }
    (walked, Some((oid, at)))
}
