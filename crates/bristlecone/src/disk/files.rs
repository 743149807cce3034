//! The files and folders of a store: their names, which are part of the format, and how new ones are made.
//! `docs/formats/disk.md` lists them.

use std::{
    hash::{BuildHasher, Hasher},
    io,
    sync::Arc,
};

use super::segment::COLD;
use crate::{
    Error,
    storage::{OpenMode, Storage, StorageFile},
};

/// The header.
pub(super) const STORE: &str = "store";
pub(super) const STORE_NEW: &str = "store.new";
/// The header's copy.
pub(super) const STORE_COPY: &str = "segments/store.copy";
pub(super) const STORE_COPY_NEW: &str = "segments/store.copy.new";
/// The file that writers lock.
pub(super) const LOCK: &str = "lock";
/// The file that a collection locks.
pub(super) const COLLECTOR: &str = "collector";
/// The folder of segments and their indexes.
pub(super) const SEGMENTS: &str = "segments";
/// How far the log was durable at least.
pub(super) const DURABLE: &str = "segments/durable";
/// How segments in the making are named, until they get their number.
pub(super) const SPARE: &str = "next-";
/// How files are named that keep what stood behind an end which was accepted.
pub(super) const BEHIND: &str = "behind-";
/// The folder of derived files.
pub(super) const DERIVED: &str = "derived";
/// The file of the count of unreached bytes. Derived files of callers cannot have names with this first letter.
pub(super) const UNREACHED_COUNT: &str = "derived/@reclaimable";
/// When a collection last began by itself in a store that keeps all.
pub(super) const COLLECTED: &str = "derived/@collected";
/// How the names of notes on unreached bytes begin, within their folder; 16 hexadecimal digits follow.
pub(super) const NOTE: &str = "@unreached-";
/// A note that is not whole yet.
pub(super) const NOTE_NEW: &str = "@new-unreached-";

/// How much is read at a time where there is no map.
pub(super) const CHUNK_BYTES: u64 = 1 << 18;

/// Returns the name of a segment.
pub(super) fn segment_name(number: u32) -> String {
    match number.checked_sub(COLD) {
        None => format!("{SEGMENTS}/{number:08}.seg"),
        Some(place) => format!("{SEGMENTS}/{place:08}.cold"),
    }
}

/// Returns the names of the files in the folder of segments, which every store has.
pub(super) fn names_of_segments(storage: &dyn Storage) -> Result<Vec<String>, Error> {
    storage.list(SEGMENTS).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            let reason =
                "the folder of the segments is missing, and with it all that the store held; put it back from a backup";
            Error::Lost { file: storage.describe(SEGMENTS), reason: reason.to_owned() }
        }
        _ => Error::io(storage.describe(SEGMENTS), error),
    })
}

/// Returns the number of the cold segment with this name in its folder.
pub(super) fn cold_number(name: &str) -> Option<u32> {
    Some(COLD + numbered(name.strip_suffix(".cold")?).filter(|&place| place > 0)?)
}

/// Returns the number of the segment with this name in its folder.
pub(super) fn segment_number(name: &str) -> Option<u32> {
    numbered(name.strip_suffix(".seg")?)
}

/// Returns a number below [`COLD`] that is written in eight digits, or in more where it needs them.
pub(super) fn numbered(digits: &str) -> Option<u32> {
    let right = digits.len() == 8 || digits.len() > 8 && !digits.starts_with('0');
    let right = right && digits.bytes().all(|digit| digit.is_ascii_digit());
    right.then(|| digits.parse().ok()).flatten().filter(|&number| number < COLD)
}

/// Opens a new file of this name in place of one that may be there.
pub(super) fn open_empty(storage: &Arc<dyn Storage>, name: &str) -> Result<Arc<dyn StorageFile>, Error> {
    match storage.remove(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(Error::io(storage.describe(name), error)),
        _ => {}
    }
    storage.open(name, OpenMode::CreateNew).map_err(|error| Error::io(storage.describe(name), error))
}

/// How often a file in the making is begun anew that another process took for waste.
const ATTEMPTS: usize = 100;

/// Makes a file under a name that every version takes for waste once no process holds its lock, and locks it; returns it with
/// its name.
pub(super) fn open_aside(storage: &Arc<dyn Storage>) -> Result<(Arc<dyn StorageFile>, String), Error> {
    for _ in 0..ATTEMPTS {
        let name = format!("{SEGMENTS}/{SPARE}{:016x}", random_word());
        let file = open_empty(storage, &name)?;
        // Until it is locked, a process that opens the store may remove it.
        let locked = file.try_lock().map_err(|error| Error::io(storage.describe(&name), error))?;
        if locked && storage.open(&name, OpenMode::Read).is_ok() {
            return Ok((file, name));
        }
        let _ = storage.remove(&name);
    }
    Err(Error::io(storage.describe(SEGMENTS), io::ErrorKind::Interrupted.into()))
}

/// Returns a word that differs between any two calls, in any two processes.
///
/// It need not be secret; it keeps apart what would otherwise look alike.
pub(super) fn random_word() -> u64 {
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}
