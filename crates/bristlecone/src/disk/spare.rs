//! Files for segments to come: made under another name, filled with zeroes ahead of the appends.

use std::{io, sync::Arc};

use super::{
    files::{SEGMENTS, SPARE, open_empty, random_word},
    frame::{EMPTY_BYTES, SEAL_BYTES},
    segment::{SEGMENT_BYTES_MAX, SEGMENT_HEAD_BYTES},
};
use crate::{
    Error,
    storage::{Storage, StorageFile, retry, write_all_at},
};

/// The first segment's size in bytes; each is twice the one before until they are full-grown, so that a small
/// store is a small file.
const FIRST_SEGMENT_BYTES: u64 = 1 << 20;
/// Segments from this one on are full-grown, whatever that is.
pub(super) const NUMBER_FULL_GROWN: u32 = 13;
/// Room that appends leave in a segment: for its seal, and for one checkpoint before it.
pub(super) const RESERVED_BYTES: u64 = SEAL_BYTES + EMPTY_BYTES;
/// How much is zeroed at a time where a commit waits for it, and beside commits.
const ZERO_BYTES: usize = 1 << 18;
const ZERO_BYTES_BESIDE: usize = 1 << 16;

/// A file that will be a segment.
#[derive(Debug)]
pub(super) struct Spare {
    pub(super) file: Arc<dyn StorageFile>,
    pub(super) name: String,
    pub(super) bytes: u64,
}

/// Whether a file is filled with zeroes, so that appends to it need no space of their own.
pub(super) enum Zeroes<'s> {
    No,
    /// As fast as can be.
    Now,
    /// Part by part, while others sync; before each it is asked whether to stop, which may take a while.
    Beside(&'s dyn Fn() -> bool),
}

impl Zeroes<'_> {
    /// Fills a file at once if that is `wanted`.
    pub(super) const fn now(wanted: bool) -> Self {
        if wanted { Self::Now } else { Self::No }
    }
}

/// Makes a file of `bytes` bytes that reads as zeroes; `None` where the work was stopped.
pub(super) fn make_spare(storage: &Arc<dyn Storage>, bytes: u64, zeroes: &Zeroes<'_>) -> Result<Option<Spare>, Error> {
    let name = format!("{SEGMENTS}/{}{:016x}", SPARE, random_word());
    let file = open_empty(storage, &name)?;
    let failed = |error| Error::io(storage.describe(&name), error);
    // The lock says that a process prepares it; a file of this name without a lock is waste.
    file.try_lock().map_err(failed)?;
    let filled = match zeroes {
        Zeroes::No => file.set_len(bytes).map(|()| true),
        Zeroes::Now => fill(&*file, bytes, ZERO_BYTES, &|| Ok(false)),
        Zeroes::Beside(stop) => fill(&*file, bytes, ZERO_BYTES_BESIDE, &|| {
            retry(|| file.begin_next_sync())?;
            Ok(stop())
        }),
    };
    if !matches!(filled, Ok(true)) {
        let _ = storage.remove(&name);
    }
    if !filled.map_err(failed)? {
        return Ok(None);
    }
    Ok(Some(Spare { file, name, bytes }))
}

/// Fills a file with zeroes, some bytes at a time, and asks before each whether to stop; returns whether all of it is filled.
fn fill(file: &dyn StorageFile, bytes: u64, part: usize, stop: &dyn Fn() -> io::Result<bool>) -> io::Result<bool> {
    let zeroes = vec![0; part];
    let mut at = 0;
    while at < bytes {
        if stop()? {
            return Ok(false);
        }
        let chunk = &zeroes[..(bytes - at).min(part as u64) as usize];
        write_all_at(file, chunk, at)?;
        at += chunk.len() as u64;
    }
    Ok(true)
}

/// Returns the size of segment `number` that must hold `row_bytes` of refs and a frame of `frame_bytes`.
pub(super) fn segment_size(number: u32, segment_bytes: u64, row_bytes: u64, frame_bytes: u64) -> Result<u64, Error> {
    let doublings = number.saturating_sub(1).min(NUMBER_FULL_GROWN - 1);
    let grown = (FIRST_SEGMENT_BYTES << doublings).min(segment_bytes);
    // With refs taking a quarter at most, writing them again at each segment costs little.
    let needed = (SEGMENT_HEAD_BYTES as u64 + row_bytes + frame_bytes + RESERVED_BYTES).max(4 * row_bytes);
    let bytes = grown.max(needed).next_multiple_of(4096);
    if bytes > SEGMENT_BYTES_MAX {
        return Err(Error::TooLarge { what: "a batch", bytes, bytes_max: SEGMENT_BYTES_MAX });
    }
    Ok(bytes)
}

/// Writes the head into a file that is to be a segment; `sync`: makes it durable.
pub(super) fn write_head(storage: &Arc<dyn Storage>, spare: &Spare, head: &[u8], sync: bool) -> Result<(), Error> {
    let failed = |error| Error::io(storage.describe(&spare.name), error);
    write_all_at(&*spare.file, head, 0).map_err(failed)?;
    if sync { spare.file.sync_data().map_err(failed) } else { Ok(()) }
}
