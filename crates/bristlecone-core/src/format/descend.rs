//! Going down a path of directories, which every format does the same way: through records that can be borrowed as far
//! as there are any, then one step by the general way, and so on.

use super::search::slash;
use crate::{EntryKind, FormatError, Kind, Location, ObjRef, Oid, Target};

/// A directory that was reached through borrowed records: its id and its place.
pub(super) type ReachedDir<'a> = (&'a [u8], Location);

/// What a borrowed record says of a step.
pub(super) enum StepLookup<'a> {
    /// It is bound to this directory.
    Dir(ReachedDir<'a>),
    /// It is bound to no directory.
    NoDir,
    /// It cannot tell: the general way must go on.
    Declined,
}

/// Walks the steps of `path` (joined by `/`) down from a directory, as far as `step` can tell.
///
/// Returns how many bytes of the path were walked, and the directory reached there; `None` where a step is not bound to
/// a directory.
#[inline(always)]
pub(super) fn borrowed<'a>(
    dir: ReachedDir<'a>,
    path: &[u8],
    step: impl Fn(ReachedDir<'a>, &[u8]) -> StepLookup<'a>,
) -> (usize, Option<ReachedDir<'a>>) {
    let mut dir = dir;
    let mut walked = 0;
    while walked < path.len() {
        let rest = &path[walked..];
        let length = slash(rest);
        match step(dir, &rest[..length]) {
            StepLookup::Dir(below) => dir = below,
            StepLookup::NoDir => return (path.len(), None),
            StepLookup::Declined => return (walked, Some(dir)),
        }
        walked = (walked + length + 1).min(path.len());
    }
    (walked, Some(dir))
}

/// Gives what was reached an id of its own.
#[inline(always)]
pub(super) fn owned(
    (walked, reached): (usize, Option<ReachedDir<'_>>),
) -> Result<(usize, Option<ObjRef>), FormatError> {
    let Some((oid, at)) = reached else { return Ok((walked, None)) };
    let reason = "an id has no valid length";
    let oid = Oid::new(oid).map_err(|_| FormatError::Inconsistent { kind: Kind::Node, reason })?;
    Ok((walked, Some(ObjRef::new(oid, at))))
}

/// Walks the whole path: `borrowed` as far as it can, `find` where it must.
#[inline(always)]
pub(super) fn descend<'s, E: From<FormatError>>(
    dir: &ObjRef,
    path: &[u8],
    borrowed: impl Fn(&ObjRef, &[u8]) -> Result<(usize, Option<ObjRef>), FormatError>,
    find: impl Fn(&ObjRef, &[u8]) -> Result<Option<(EntryKind, Target<'s>)>, E>,
) -> Result<Option<ObjRef>, E> {
    let (mut dir, mut rest) = (*dir, path);
    while !rest.is_empty() {
        let (walked, reached) = borrowed(&dir, rest)?;
        let Some(reached) = reached else { return Ok(None) };
        dir = reached;
        rest = &rest[walked..];
        if rest.is_empty() {
            break;
        }
        let length = slash(rest);
        match find(&dir, &rest[..length])? {
            Some((EntryKind::Dir, Target::Object { at, .. })) => dir = at,
            _ => return Ok(None),
        }
        rest = rest.get(length + 1..).unwrap_or_default();
    }
    Ok(Some(dir))
}
