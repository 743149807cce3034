//! Maps of simulated files: beside each file that was mapped, a nameless one in memory that is written along with it.
//!
//! A file gets its twin when it is first mapped, so that disks without maps cost what they did; the twin belongs to one
//! disk and not to its copies, whose files are mapped anew. Twins never become shorter, so that a map stays valid as
//! long as it is held: where a real map beyond the end of a cut file ends the process, one here shows zeroes.

use std::{fs::File, io, os::unix::fs::FileExt};

use bristlecone::storage::FileMap;

use super::file;

/// How much is copied at a time.
const CHUNK_BYTES: u64 = 64 << 10;

/// What maps of one simulated file show.
#[derive(Debug)]
pub(super) struct Twin {
    file: File,
    bytes: u64,
}

impl Twin {
    /// Returns a twin that holds what readers of the file see.
    pub(super) fn of(file: &file::FileState) -> io::Result<Self> {
        let mut twin = Self { file: nameless_file()?, bytes: 0 };
        twin.set_len(0, file.len())?;
        file.each_page(|bytes, offset| twin.file.write_all_at(bytes, offset))?;
        Ok(twin)
    }

    /// Maps the first `bytes` bytes, which the file must have.
    pub(super) fn map(&self, bytes: usize) -> io::Result<FileMap> {
        assert!(bytes > 0 && bytes as u64 <= self.bytes, "a map of {bytes} bytes of {}", self.bytes);
        // SAFETY: the twin has these bytes, as was just checked. It has no name and its handle stays in here, where it
        // is written by calls of the system alone and never cut.
        unsafe { FileMap::of_file(&self.file, bytes) }
    }

    /// Writes along.
    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.bytes = self.bytes.max(offset + bytes.len() as u64);
        self.file.write_all_at(bytes, offset)
    }

    /// Follows the file from one length to another.
    pub(super) fn set_len(&mut self, from: u64, to: u64) -> io::Result<()> {
        if to > self.bytes {
            self.bytes = to;
            self.file.set_len(to)?;
        }
        let mut at = to;
        while at < from {
            let count = CHUNK_BYTES.min(from - at);
            self.file.write_all_at(&vec![0; count as usize], at)?;
            at += count;
        }
        Ok(())
    }

    /// Copies all of the file again, after it changed otherwise than by writes.
    pub(super) fn renew(&mut self, file: &file::FileState) -> io::Result<()> {
        self.set_len(self.bytes, file.len())?;
        let (mut at, mut buffer) = (0, vec![0; CHUNK_BYTES as usize]);
        while at < file.len() {
            let count = file.read(&mut buffer, at);
            self.file.write_all_at(&buffer[..count], at)?;
            at += count as u64;
        }
        Ok(())
    }
}

#[cfg(target_os = "linux")]
fn nameless_file() -> io::Result<File> {
    Ok(rustix::fs::memfd_create("simulated file", rustix::fs::MemfdFlags::CLOEXEC)?.into())
}

#[cfg(not(target_os = "linux"))]
fn nameless_file() -> io::Result<File> {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let name = format!("simulated-file-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
    let path = std::env::temp_dir().join(name);
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(path)?;
    Ok(file)
}
