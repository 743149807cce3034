//! Counts in the database's files for which fjall takes memory before it has compared a checksum: a flipped bit in one of them
//! could ask for more memory than there is, which ends the process. They are looked at before fjall is.
//!
//! - A keyspace's folder has a list of its tables, `v` and a number, and `current`, which names the newest list and has its
//!   checksum. fjall writes the checksum and does not compare it.
//! - A table ends with its table of contents and a trailer that tells where that begins. The contents have a checksum, but fjall
//!   takes memory for as many entries as they claim before it has read one.
//!
//! What is missing or cut short is left to fjall, which tells it, or removes what a crash left.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt as _,
    path::Path,
};

use bristlecone::{Error, Result};
use twox_hash::XxHash3_128;

use super::database::corrupt;

const KEYSPACES: &str = "keyspaces";
const TABLES: &str = "tables";
const CURRENT: &str = "current";
/// The number of a list, its checksum, and the kind of checksum.
const CURRENT_BYTES: usize = 8 + 16 + 1;

/// The first bytes of a trailer: that it is one, its version, and the kind of its checksum.
const TRAILER_START: &[u8; 6] = b"SFA!\x01\x00";
/// The start, the checksum of the contents, where they begin, and how long they are.
const TRAILER_BYTES: usize = 6 + 16 + 8 + 8;
const CONTENTS_START: &[u8; 4] = b"TOC!";
/// The least that an entry of the contents takes: a place, a length, and the length of a name.
const ENTRY_BYTES: u64 = 8 + 8 + 2;

/// Returns [`Error::Corrupt`] if a count in a file of the database in `dir` cannot be right.
pub(super) fn check(dir: &Path) -> Result<()> {
    for keyspace in folder(&dir.join(KEYSPACES))? {
        check_list(&keyspace)?;
        for table in folder(&keyspace.join(TABLES))? {
            check_table(&table)?;
        }
    }
    Ok(())
}

/// Returns what is in a folder; nothing, if it is not there.
fn folder(path: &Path) -> Result<Vec<std::path::PathBuf>> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if is_missing(&error) => return Ok(Vec::new()),
        Err(error) => return Err(failed(path, error)),
    };
    entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<_>>().map_err(|error| failed(path, error))
}

/// Compares the list of a keyspace's tables with its checksum.
fn check_list(keyspace: &Path) -> Result<()> {
    let current = keyspace.join(CURRENT);
    let Some(bytes) = read(&current)? else { return Ok(()) };
    let Ok(bytes) = <[u8; CURRENT_BYTES]>::try_from(bytes) else {
        return Err(corrupt(&current, &format!("the file has no {CURRENT_BYTES} bytes")));
    };
    let (number, checksum) = (&bytes[..8], &bytes[8..24]);
    let number = u64::from_le_bytes(number.try_into().expect("8 bytes"));
    let list = keyspace.join(format!("v{number}"));
    match read(&list)? {
        Some(bytes) if XxHash3_128::oneshot(&bytes).to_le_bytes() != checksum => {
            Err(corrupt(&list, "the list of tables is not what its checksum was made of"))
        }
        _ => Ok(()),
    }
}

/// Compares how many entries a table's contents claim with how many bytes there are.
fn check_table(path: &Path) -> Result<()> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if is_missing(&error) => return Ok(()),
        Err(error) => return Err(failed(path, error)),
    };
    let bytes = file.metadata().map_err(|error| failed(path, error))?.len();
    let Some(trailer_at) = bytes.checked_sub(TRAILER_BYTES as u64) else { return Ok(()) };
    let mut trailer = [0; TRAILER_BYTES];
    file.read_exact_at(&mut trailer, trailer_at).map_err(|error| failed(path, error))?;
    let contents_at = u64::from_le_bytes(trailer[22..30].try_into().expect("8 bytes"));
    let Some(room) = trailer_at.checked_sub(contents_at).and_then(|bytes| bytes.checked_sub(8)) else { return Ok(()) };
    let mut start = [0; 8];
    file.read_exact_at(&mut start, contents_at).map_err(|error| failed(path, error))?;
    let (magic, count) = (&start[..4], &start[4..]);
    let count = u64::from(u32::from_le_bytes(count.try_into().expect("4 bytes")));
    if trailer.starts_with(TRAILER_START) && magic == CONTENTS_START && count > room / ENTRY_BYTES {
        let reason = format!("the table's contents claim {count} entries and have {room} bytes");
        return Err(corrupt(path, &reason));
    }
    Ok(())
}

/// Returns the bytes of a file, if it is there.
fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(failed(path, error)),
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory)
}

fn failed(path: &Path, error: io::Error) -> Error {
    Error::io(path.display().to_string(), error)
}
