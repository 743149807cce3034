//! Lookups in records that can be borrowed: no object is built, no id is copied, nothing is counted.
//!
//! These answer what [`super::Git::find`] and `descend` would by the general way, or decline wherever anything is out
//! of the ordinary (submodules beside locations, full slots, damage); the general way then says what.

use super::{
    Git,
    raw::usual,
    table::{GitTable, PROBES, SLOTS_MIN, WIDE},
    target,
};
use crate::{
    EntryKind, Location, ObjRef, Oid, Source, Target,
    format::{
        borrowed::Borrowed,
        descend::{self, ReachedDir, StepLookup},
        native::step_hash,
        search::prefix,
    },
};

/// An entry that was found.
struct GitHit<'a> {
    kind: EntryKind,
    oid: &'a [u8],
    at: Location,
}

/// The result of a lookup: nothing there, or an entry.
type GitAnswer<'a> = Option<GitHit<'a>>;

/// Looks a name up in the directory with id `oid`, which may stand at `at`; `None` where this cannot tell.
#[inline(always)]
fn lookup<'a, S: Source>(git: &Git, source: &'a S, oid: &[u8], at: Location, name: &[u8]) -> Option<GitAnswer<'a>> {
    let record = Borrowed::node(source.peek(oid, at)?, at)?;
    let (head, rest) = record.body.split_first_chunk::<4>()?;
    let count = u32::from_le_bytes(*head) as usize;
    let found = if count < SLOTS_MIN { few(git, count, rest, name)? } else { many(git, record.body, name)? };
    let Some((index, kind, oid)) = found else { return Some(None) };
    let at = match record.children() {
        0 => Location::NONE,
        children if children == count & !(WIDE as usize) => record.child(index),
        _ => return None,
    };
    Some(Some(GitHit { kind, oid, at }))
}

/// An entry of a tree: its index, kind and id.
type FastEntry<'a> = (usize, EntryKind, &'a [u8]);

/// Looks a name up among so few entries that there are no slots. `rest`: what follows the head of the body.
#[inline(always)]
fn few<'a>(git: &Git, count: usize, rest: &'a [u8], name: &[u8]) -> Option<Option<FastEntry<'a>>> {
    let (ends, raw) = rest.split_at_checked(count * 2)?;
    let mut start = 0;
    for (index, end) in ends.as_chunks::<2>().0.iter().enumerate() {
        let end = usize::from(u16::from_le_bytes(*end));
        if let Some((kind, oid)) = named(git, raw.get(start..end)?, name)? {
            return Some(Some((index, kind, oid)));
        }
        start = end;
    }
    Some(None)
}

/// Looks a name up through the slots.
#[inline]
fn many<'a>(git: &Git, body: &'a [u8], name: &[u8]) -> Option<Option<FastEntry<'a>>> {
    let table = GitTable::parse(git.oid_bytes(), body).ok()?;
    if !table.has_slots() {
        return None;
    }
    let mut slot = step_hash(name) as usize;
    for _ in 0..PROBES {
        let Some(index) = table.slot(slot) else { return Some(None) };
        if let Some((kind, oid)) = named(git, table.bytes(index)?, name)? {
            return Some(Some((index, kind, oid)));
        }
        slot = slot.wrapping_add(1);
    }
    None
}

/// Returns kind and id of an entry if it has this name; `None` where its mode is not spelled as usual.
#[inline(always)]
fn named<'a>(git: &Git, entry: &'a [u8], name: &[u8]) -> Option<Option<(EntryKind, &'a [u8])>> {
    let (kind, mode_bytes) = usual(entry)?;
    // Mode, space, name, zero, id.
    if entry.len() != mode_bytes + 2 + name.len() + git.oid_bytes() {
        return Some(None);
    }
    let (found, rest) = entry.get(mode_bytes + 1..)?.split_at_checked(name.len())?;
    Some(if is_same(found, name) { Some((kind, rest.get(1..)?)) } else { None })
}

/// Compares names of one length. Short ones are compared without a call.
#[inline(always)]
fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() <= 8 { prefix(one) == prefix(other) } else { one == other }
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

/// Walks the steps of `path` down from a directory through borrowed records, as [`descend::borrowed`] says.
#[inline]
pub(super) fn descend<'a, S: Source>(
    git: &Git,
    source: &'a S,
    dir: ReachedDir<'a>,
    path: &[u8],
) -> (usize, Option<ReachedDir<'a>>) {
    descend::borrowed(dir, path, |(oid, at), step| match lookup(git, source, oid, at, step) {
        Some(Some(hit)) if hit.kind == EntryKind::Dir => StepLookup::Dir((hit.oid, hit.at)),
        Some(_) => StepLookup::NoDir,
        None => StepLookup::Declined,
    })
}
