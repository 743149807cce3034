//! Reading one file or link.

use std::{
    fs::{self, File, OpenOptions},
    io::Read,
    os::unix::{
        ffi::OsStringExt,
        fs::{MetadataExt, OpenOptionsExt},
    },
    path::Path as FilePath,
};

use bristlecone::{EntryKind, VALUE_BYTES_MAX};
use rustix::fs::OFlags;

use crate::{
    failure::{Failure, Result},
    text::show,
};

/// Any of the three executable bits.
pub(super) const EXECUTABLE: u32 = 0o111;

/// Reads what the scan found at `place`: kind, bytes, and what `take` took from the budget for them.
pub(super) fn entry(
    place: &FilePath,
    link: bool,
    take: &mut dyn FnMut(u64) -> u64,
) -> Result<(EntryKind, Vec<u8>, u64)> {
    if link {
        let target = fs::read_link(place).map_err(|error| Failure::file("read the link", show(place), &error))?;
        return Ok((EntryKind::Link, target.into_os_string().into_vec(), 0));
    }
    let failed = |error| Failure::file("read", show(place), &error);
    let mut file = open(place)?;
    let found = file.metadata().map_err(failed)?;
    if !found.is_file() {
        return Err(changed(place));
    }
    let size = found.len();
    if size > VALUE_BYTES_MAX {
        return Err(too_large(place, size));
    }
    let held = take(size);
    // One byte more than there should be, so that the end is seen without another buffer.
    let mut bytes = Vec::with_capacity(size as usize + 1);
    file.by_ref().take(VALUE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > VALUE_BYTES_MAX {
        return Err(too_large(place, bytes.len() as u64));
    }
    let kind = if found.mode() & EXECUTABLE != 0 { EntryKind::Executable } else { EntryKind::Value };
    Ok((kind, bytes, held))
}

/// Opens a file without following a link or waiting on a pipe that took its place.
fn open(place: &FilePath) -> Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(place).map_err(|error| {
        if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) {
            return changed(place);
        }
        Failure::file("read", show(place), &error)
    })
}

fn changed(place: &FilePath) -> Failure {
    Failure::failed(format!("{} became something else during the import; run it again", show(place)))
}

pub(super) fn too_large(place: &FilePath, bytes: u64) -> Failure {
    Failure::too_large(show(place), Some(bytes))
}
