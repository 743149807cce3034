//! The directory that a thread last looked something up in, so that lookups by whole paths in one directory walk down to it once.
//!
//! What is remembered is a fact about a root, which no edit changes: the tree with an edit has another root.

use std::cell::{Cell, RefCell};

use bristlecone_core::{ObjRef, Oid};

/// Longer paths of directories are not remembered.
const DIR_BYTES_MAX: usize = 120;

thread_local! {
    static LAST: Last = const { Last { asked: Cell::new((0, 0)), found: RefCell::new(None) } };
}

struct Last {
    // The length and the last bytes of the path that was asked for last.
    asked: Cell<(usize, u64)>,
    found: RefCell<Option<Found>>,
}

struct Found {
    store: u32,
    root: Oid,
    path: [u8; DIR_BYTES_MAX],
    bytes: usize,
    dir: ObjRef,
}

/// What is remembered of a directory.
pub(super) enum Remembered {
    Is(ObjRef),
    /// The one before had a path like this: to be remembered.
    Again,
    Nothing,
}

/// Returns what this thread remembers of the directory at `path` below a root in the store with this number.
#[inline]
pub(super) fn find(store: u32, root: &Oid, path: &[u8]) -> Remembered {
    LAST.with(|last| {
        let asked = (path.len(), path.last_chunk().map_or(0, |&end| u64::from_le_bytes(end)));
        if last.asked.replace(asked) != asked {
            return Remembered::Nothing;
        }
        match &*last.found.borrow() {
            Some(found) if found.path[..found.bytes] == *path && found.store == store && found.root == *root => {
                Remembered::Is(found.dir)
            }
            _ => Remembered::Again,
        }
    })
}

/// Remembers a directory.
pub(super) fn note(store: u32, root: &Oid, path: &[u8], dir: &ObjRef) {
    let mut bytes = [0; DIR_BYTES_MAX];
    let Some(start) = bytes.get_mut(..path.len()) else { return };
    start.copy_from_slice(path);
    let found = Found { store, root: *root, path: bytes, bytes: path.len(), dir: *dir };
    LAST.with(|last| *last.found.borrow_mut() = Some(found));
}
