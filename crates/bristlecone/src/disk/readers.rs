//! Which processes read the store, and by which of its states: a file for each, locked as long as the process has the store
//! open. `docs/formats/disk.md` section 9 lists the bytes.
//!
//! A collection removes no file that such a process may still read. Who dies lets go of its lock, and counts no more. The
//! file is written when the store is opened and when the oldest state that is read by changes, which is after a collection;
//! taking a snapshot costs no system call.

use std::{
    io,
    sync::{Arc, Mutex},
};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{files::random_word, frame::word64, log::DiskState};
use crate::{
    storage::{OpenMode, Origin, StorageFile, read_exact_at, write_all_at},
    sync::lock,
};

/// The folder of the files.
pub(super) const READERS: &str = "readers";
/// How the name of a file begins that is not whole yet.
const NEW: &str = "new-";
/// How often a file is begun anew that another process took for one of the dead.
const ATTEMPTS: usize = 100;
const MAGIC: u64 = u64::from_le_bytes(*b"BCONEPIN");
/// Bytes of a file: 24 = 8 magic + 8 epoch + 8 check.
const NOTE_BYTES: usize = 24;

/// What tells other processes that this one reads.
#[derive(Debug)]
pub(super) struct ReaderNote {
    file: Arc<dyn StorageFile>,
    name: String,
    // The process whose it is, and not that of one which was forked from it.
    origin: Origin,
    // The epoch that the file says.
    told: Mutex<u64>,
}

/// What other processes read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Readers {
    /// How many have the store open, this process included if it could say so.
    pub(super) count: usize,
    /// The oldest state that one of them reads by; `u64::MAX` if there is none.
    pub(super) oldest: u64,
}

impl ReaderNote {
    fn write(&self, epoch: u64, salt: u64) -> io::Result<()> {
        write_all_at(&*self.file, &encode(epoch, salt), 0)
    }
}

fn encode(epoch: u64, salt: u64) -> [u8; NOTE_BYTES] {
    let mut bytes = [0; NOTE_BYTES];
    bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
    bytes[8..16].copy_from_slice(&epoch.to_le_bytes());
    let check = xxh3_64_with_seed(&bytes[..16], salt);
    bytes[16..].copy_from_slice(&check.to_le_bytes());
    bytes
}

/// Returns the epoch that a file says; 0, which keeps everything, where it says nothing.
fn decode(bytes: &[u8; NOTE_BYTES], salt: u64) -> u64 {
    let right = word64(bytes, 0) == MAGIC && word64(bytes, 16) == xxh3_64_with_seed(&bytes[..16], salt);
    if right { word64(bytes, 8) } else { 0 }
}

impl DiskState {
    /// Says that this process reads, before it reads anything: from now on nothing that the store's state names is removed.
    /// Where the folder cannot be written, nothing says so.
    pub(super) fn begin_reading(&self) {
        let begin = |new: &str, name: String| -> io::Result<Option<ReaderNote>> {
            self.storage.create_dir_unsynced(READERS)?;
            let file = self.storage.open(new, OpenMode::CreateNew)?;
            // Until it is locked, a process that looks who reads may lock it, and remove it.
            if !file.try_lock()? {
                return Ok(None);
            }
            let note = ReaderNote { file, name, origin: Origin::here(), told: Mutex::new(0) };
            note.write(0, self.header.salt)?;
            match self.storage.rename(new, &note.name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                renamed => renamed.map(|()| Some(note)),
            }
        };
        for _ in 0..ATTEMPTS {
            let word = random_word();
            let new = format!("{READERS}/{NEW}{word:016x}");
            let begun = begin(&new, format!("{READERS}/{word:016x}"));
            if !matches!(begun, Ok(Some(_))) {
                let _ = self.storage.remove(&new);
            }
            match begun {
                Ok(Some(note)) => {
                    let _ = self.reader.set(note);
                    return;
                }
                Ok(None) => {}
                Err(_) => return,
            }
        }
    }

    /// Says by which state this process reads at least, if that has changed.
    pub(super) fn tell_readers(&self) {
        let Some(note) = self.reader.get().filter(|note| note.origin.is_here()) else { return };
        let mut told = lock(&note.told);
        let oldest = self.tables.oldest_epoch();
        // Where it cannot be written, what was told before keeps more.
        if oldest != *told && note.write(oldest, self.header.salt).is_ok() {
            *told = oldest;
        }
    }

    /// Goes on after a snapshot that read by an older state is gone: tells the others, and removes what only that needed.
    pub(super) fn left_table(&self) {
        if self.tables.older() == 0 {
            self.tell_readers();
            self.tidy();
        }
    }

    /// Says that this process reads no more.
    pub(super) fn end_reading(&self) {
        if let Some(note) = self.reader.get().filter(|note| note.origin.is_here()) {
            let _ = self.storage.remove(&note.name);
        }
    }

    /// Returns who reads the store, and removes the files of processes that are gone. Where the system cannot tell, nothing
    /// may be removed.
    pub(super) fn readers(&self) -> io::Result<Readers> {
        let names = match self.storage.list(READERS) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            names => names?,
        };
        let mut readers = Readers { count: 0, oldest: u64::MAX };
        for name in names {
            let path = format!("{READERS}/{name}");
            let file = match self.storage.open(&path, OpenMode::Write) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                file => file?,
            };
            if file.try_lock()? {
                // Whoever was just making it makes another one.
                let _ = self.storage.remove(&path);
                continue;
            }
            let mut bytes = [0; NOTE_BYTES];
            let epoch = read_exact_at(&*file, &mut bytes, 0).map_or(0, |()| decode(&bytes, self.header.salt));
            readers = Readers { count: readers.count + 1, oldest: readers.oldest.min(epoch) };
        }
        Ok(readers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_note_keeps_everything() {
        let bytes = encode(7, 5);
        assert_eq!((decode(&bytes, 5), decode(&bytes, 6), decode(&[0; NOTE_BYTES], 5)), (7, 0, 0));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&flipped, 5), 0, "bit {bit}");
        }
    }
}
