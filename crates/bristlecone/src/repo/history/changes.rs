//! Which paths differ between a commit and its first parent.

use bristlecone_core::{Entry, EntryKind, Format, ObjRef, PATH_STEPS_MAX, Target};

use super::filter::path_hash;
use crate::{Result, store::Store};

/// A commit that changed more paths counts as one that may have changed any.
pub(super) const CHANGES_MAX: usize = 512;

/// The hashes of the paths that changed, directories on the way included, sorted; `None` if there are too many.
pub(super) type Changes = Option<Vec<u32>>;

/// Returns what changed between two roots. The root itself is no path here.
///
/// Touches only what differs, and stops once there is too much of it.
pub(super) fn changes<F: Format>(store: &Store<F>, before: Option<ObjRef>, after: ObjRef) -> Result<Changes> {
    let mut hashes = Vec::new();
    let mut stack = vec![Pair { path: Vec::new(), steps: 0, before, after: Some(after) }];
    while let Some(pair) = stack.pop() {
        // No path that can be asked for is longer.
        if pair.steps >= PATH_STEPS_MAX {
            continue;
        }
        for difference in store.format.diff(store, pair.before.as_ref(), pair.after.as_ref(), None, None)? {
            let (before, after) = difference?;
            let Some(entry) = before.as_ref().or(after.as_ref()) else { continue };
            if hashes.len() == CHANGES_MAX {
                return Ok(None);
            }
            let mut path = pair.path.clone();
            if pair.steps > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(&entry.step);
            hashes.push(path_hash(&path));
            let (before, after) = (dir(before.as_ref()), dir(after.as_ref()));
            if before.is_some() || after.is_some() {
                stack.push(Pair { path, steps: pair.steps + 1, before, after });
            }
        }
    }
    hashes.sort_unstable();
    hashes.dedup();
    Ok(Some(hashes))
}

/// A directory that differs.
struct Pair {
    path: Vec<u8>,
    steps: usize,
    before: Option<ObjRef>,
    after: Option<ObjRef>,
}

fn dir(entry: Option<&Entry<'_>>) -> Option<ObjRef> {
    match entry {
        Some(Entry { kind: EntryKind::Dir, target: Target::Object { at, .. }, .. }) => Some(*at),
        _ => None,
    }
}
