//! Derived files: what may be lost at any time. `docs/formats/disk.md` section 6 lists the bytes.

use std::io;

use xxhash_rust::xxh3::xxh3_64;

use super::{
    frame::word64,
    header::{open_empty, random_word},
    log::Shared,
};
use crate::{
    Error,
    storage::{OpenMode, read_exact_at, write_all_at},
};

/// The folder of derived files.
pub(super) const DERIVED: &str = "derived";
const MAGIC: &[u8; 8] = b"BCONEDRV";
/// Bytes before the contents: 24 = 8 magic + 8 length + 8 check.
const HEAD_BYTES: usize = 24;

impl Shared {
    /// Reads a derived file; damage is absence.
    pub(super) fn read_derived(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        self.read_derived_file(&path(name), u64::MAX)
    }

    /// As [`Shared::read_derived`], by the path; contents of more than `bytes_max` bytes are damage.
    pub(super) fn read_derived_file(&self, path: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, Error> {
        let failed = |error| self.io(path, error);
        let file = match self.storage.open(path, OpenMode::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(failed)?,
        };
        let bytes = file.len().map_err(failed)?;
        let body_bytes = bytes.checked_sub(HEAD_BYTES as u64).filter(|&bytes| bytes <= bytes_max);
        let Some(body_bytes) = body_bytes else { return Ok(None) };
        let mut head = [0; HEAD_BYTES];
        read_exact_at(&*file, &mut head, 0).map_err(failed)?;
        if head[..8] != MAGIC[..] || word64(&head, 8) != body_bytes {
            return Ok(None);
        }
        let mut body = vec![0; body_bytes as usize];
        read_exact_at(&*file, &mut body, HEAD_BYTES as u64).map_err(failed)?;
        Ok((xxh3_64(&body) == word64(&head, 16)).then_some(body))
    }

    /// Replaces a derived file, in one step as far as readers see.
    pub(super) fn write_derived(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        if self.lock.is_none() {
            return Err(Error::ReadOnly);
        }
        self.write_derived_file(&path(name), bytes)
    }

    /// As [`Shared::write_derived`], by the path.
    pub(super) fn write_derived_file(&self, path: &str, bytes: &[u8]) -> Result<(), Error> {
        let new = format!("{path}.new-{:016x}", random_word());
        let file = open_empty(&self.storage, &new)?;
        let mut head = [0; HEAD_BYTES];
        head[..8].copy_from_slice(MAGIC);
        head[8..16].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
        head[16..].copy_from_slice(&xxh3_64(bytes).to_le_bytes());
        let written = write_all_at(&*file, &head, 0)
            .and_then(|()| write_all_at(&*file, bytes, HEAD_BYTES as u64))
            .and_then(|()| self.storage.rename(&new, path));
        written.map_err(|error| {
            let _ = self.storage.remove(&new);
            self.io(path, error)
        })
    }
}

/// Returns the path of a derived file; bytes that a file's name may lack are written `%XX`.
fn path(name: &str) -> String {
    let mut path = format!("{DERIVED}/");
    for (index, byte) in name.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => path.push(char::from(byte)),
            b'.' if index > 0 => path.push('.'),
            _ => path.push_str(&format!("%{byte:02X}")),
        }
    }
    path
}
