//! Which processes read the store, and by which of its states: a file for each, locked as long as the process has the store
//! open. `docs/formats/disk.md` section 9 lists the bytes.
//!
//! A collection removes no file that such a process may still read. Who dies lets go of its lock, and counts no more. The
//! file is written when the store is opened and when the oldest state that is read by changes, which is after a collection;
//! taking a snapshot costs no system call.

use std::{
    io,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use twox_hash::XxHash3_64;

use super::{
    background::MAINTAIN,
    files::{SEGMENTS, random_word},
    frame::{word32, word64},
    lock::DiskLock,
    log::DiskState,
    roll::now_seconds,
    state::{StoreState, state_epoch},
    table::SegmentTable,
};
use crate::{
    Error,
    storage::{OpenMode, Origin, StorageFile, read_exact_at, write_all_at},
    sync::{
        atomic::{AtomicBool, Ordering::*},
        lock,
    },
};

/// The folder of the files.
pub(super) const READERS: &str = "readers";
/// How the name of a file begins that is not whole yet.
const NEW: &str = "new-";
/// No opening takes longer than so many seconds, until the process says by which state it reads.
const OPENING_SECONDS: u32 = 600;
/// How often a file is begun anew that another process took for one of the dead.
const ATTEMPTS: usize = 100;
/// After so long a file is tried again for which there was no room.
const AGAIN_AFTER: Duration = Duration::from_millis(100);
const MAGIC: u64 = u64::from_le_bytes(*b"BCONEPIN");
/// Bytes of the first part of a file, which every version knows: 24 = 8 magic + 8 epoch + 8 check.
const NOTE_BYTES: usize = 24;
/// Bytes of a file: 40 = the first part + 4 process + 4 time + 8 check.
const WHOLE_BYTES: usize = NOTE_BYTES + 16;

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

impl ReaderNote {
    fn write(&self, epoch: u64, salt: u64) -> io::Result<()> {
        let who = Who { process: std::process::id(), since: now_seconds() };
        write_all_at(&*self.file, &encode(epoch, who, salt), 0)
    }
}

/// Whether there was no room for the file when the store was opened, and when it was tried again last.
#[derive(Debug, Default)]
pub(super) struct OwedNote {
    is_owed: AtomicBool,
    tried: Mutex<Option<Instant>>,
}

/// Which process reads, and since when by the state that it names, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Who {
    pub(super) process: u32,
    pub(super) since: u32,
}

fn encode(epoch: u64, who: Who, salt: u64) -> [u8; WHOLE_BYTES] {
    let mut bytes = [0; WHOLE_BYTES];
    bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
    bytes[8..16].copy_from_slice(&epoch.to_le_bytes());
    let check = XxHash3_64::oneshot_with_seed(salt, &bytes[..16]);
    bytes[16..NOTE_BYTES].copy_from_slice(&check.to_le_bytes());
    bytes[24..28].copy_from_slice(&who.process.to_le_bytes());
    bytes[28..32].copy_from_slice(&who.since.to_le_bytes());
    let check = XxHash3_64::oneshot_with_seed(salt, &bytes[..32]);
    bytes[32..].copy_from_slice(&check.to_le_bytes());
    bytes
}

/// Returns which process wrote a file; `None` where that is not told or damaged.
fn decode_who(bytes: &[u8; WHOLE_BYTES], salt: u64) -> Option<Who> {
    let right = word64(bytes, 32) == XxHash3_64::oneshot_with_seed(salt, &bytes[..32]);
    right.then(|| Who { process: word32(bytes, 24), since: word32(bytes, 28) })
}

/// Returns the epoch that a file says; 0, which keeps everything, where it says nothing.
fn decode(bytes: &[u8], salt: u64) -> u64 {
    let right = word64(bytes, 0) == MAGIC && word64(bytes, 16) == XxHash3_64::oneshot_with_seed(salt, &bytes[..16]);
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
                    self.reader_owed.is_owed.store(false, Relaxed);
                    return;
                }
                Ok(None) => {}
                Err(error) => {
                    // Once it is owed, it stays so, whatever else comes in between.
                    if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
                        self.reader_owed.is_owed.store(true, Relaxed);
                    }
                    return;
                }
            }
        }
    }

    /// Says that this process reads, if there was no room for that before.
    #[inline]
    pub(super) fn begin_owed_reading(&self) {
        if self.reader_owed.is_owed.load(Relaxed) {
            self.try_owed_reading();
        }
    }

    #[cold]
    fn try_owed_reading(&self) {
        // Another thread may just be doing it.
        let Ok(mut tried) = self.reader_owed.tried.try_lock() else { return };
        let is_due = tried.is_none_or(|tried| tried.elapsed() >= AGAIN_AFTER);
        if !is_due || !self.reader_owed.is_owed.load(Relaxed) {
            return;
        }
        self.begin_reading();
        *tried = Some(Instant::now());
        self.tell_readers();
    }

    /// Says by which state this process reads at least, if that has changed; returns whether it has.
    pub(super) fn tell_readers(&self) -> bool {
        let Some(note) = self.reader.get().filter(|note| note.origin.is_here()) else { return false };
        let mut told = lock(&note.told);
        let oldest = self.tables.oldest_epoch(&|_| false);
        // Where it cannot be written, what was told before keeps more.
        let tells = oldest != *told && note.write(oldest, self.header.salt).is_ok();
        if tells {
            *told = oldest;
        }
        tells
    }

    /// Lets go of the table of an older state by which a snapshot read. Where nothing else reads by it, maps of what was emptied
    /// end, and files are removed of which the system may be writing parts: tens of milliseconds, for which no commit should wait.
    pub(super) fn leave_table(&self, left: Arc<SegmentTable>) {
        // In a process that was forked another thread may have held the lock of the jobs for ever.
        let beside = self.options.background
            && !self.background.ended.load(Relaxed)
            && self.lock.as_ref().is_some_and(DiskLock::is_own);
        if beside {
            lock(&self.background.jobs).left.push(left);
            if self.background.maintenance.ask(MAINTAIN) {
                return;
            }
            self.background.drop_left();
        } else {
            drop(left);
        }
        self.left_table();
    }

    /// Goes on after a snapshot that read by an older state is gone: tells the others, and removes what only that needed.
    pub(super) fn left_table(&self) {
        if self.tell_readers() || self.tables.is_alone() {
            self.tidy();
        }
    }

    /// Returns the number of the oldest state by which something is read that the limit of snapshots has not ended, here or in
    /// another process; at most that of `newest`.
    pub(super) fn oldest_read(&self, newest: &StoreState) -> Result<u64, Error> {
        let mut told = Vec::new();
        self.each_reader(&mut |epoch, who| told.push((epoch, who)))?;
        told.retain(|(epoch, _)| *epoch < newest.epoch);
        let Some(limit) = newest.snapshot_limit() else {
            let told = told.iter().map(|(epoch, _)| *epoch).min().unwrap_or(newest.epoch);
            return Ok(told.min(self.tables.oldest_epoch(&|_| false)));
        };
        let mut oldest = newest.epoch.min(self.tables.oldest_epoch(&|time| limit.has_passed(time)));
        if told.is_empty() {
            return Ok(oldest);
        }
        let names = self.storage.list(SEGMENTS).map_err(|error| self.io(SEGMENTS, error))?;
        for (epoch, who) in told {
            let next = names.iter().filter_map(|name| state_epoch(name)).filter(|&other| other > epoch).min();
            let next = next.and_then(|next| self.read_state_file(next).ok()?);
            // A process that has only just begun to open the store has told no state.
            let begun = epoch == 0 && !who.is_some_and(|who| limit.at_least(OPENING_SECONDS).has_passed(who.since));
            if begun || !next.is_some_and(|next| limit.has_passed(next.time)) {
                oldest = oldest.min(epoch);
            }
        }
        Ok(oldest)
    }

    /// Says that this process reads no more.
    pub(super) fn end_reading(&self) {
        if let Some(note) = self.reader.get().filter(|note| note.origin.is_here()) {
            let _ = self.storage.remove(&note.name);
        }
    }

    /// Calls `each` with the state by which each process reads at least that has the store open, this one included, and with
    /// what it says of itself. Removes the files of processes that are gone. Where the system cannot tell, nothing may be
    /// removed.
    pub(super) fn each_reader(&self, each: &mut dyn FnMut(u64, Option<Who>)) -> Result<(), Error> {
        let names = match self.storage.list(READERS) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            names => names.map_err(|error| self.io(READERS, error))?,
        };
        for name in names {
            let path = format!("{READERS}/{name}");
            let denied = |error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied;
            let opened = match self.storage.open(&path, OpenMode::Write) {
                // Another user's.
                Err(error) if denied(&error) => self.storage.open(&path, OpenMode::Read),
                opened => opened,
            };
            let file = match opened {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                // One that says nothing: it may read by any state.
                Err(error) if denied(&error) => {
                    each(0, None);
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
                    return Err(self.corrupt(
                        &path,
                        0,
                        "this is a folder, where processes have files alone; remove it",
                    ));
                }
                file => file.map_err(|error| self.io(&path, error))?,
            };
            if file.try_lock().map_err(|error| self.io(&path, error))? {
                // Whoever was just making it makes another one.
                let _ = self.storage.remove(&path);
                continue;
            }
            let (mut bytes, salt) = ([0; WHOLE_BYTES], self.header.salt);
            let epoch = read_exact_at(&*file, &mut bytes[..NOTE_BYTES], 0).map_or(0, |()| decode(&bytes, salt));
            // Programs before this one write the first part alone.
            let who = read_exact_at(&*file, &mut bytes, 0).ok().and_then(|()| decode_who(&bytes, salt));
            each(epoch, who);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_note_keeps_everything() {
        let who = Who { process: 4711, since: 99 };
        let bytes = encode(7, who, 5);
        assert_eq!((decode(&bytes, 5), decode(&bytes, 6), decode(&[0; NOTE_BYTES], 5)), (7, 0, 0));
        assert_eq!((decode_who(&bytes, 5), decode_who(&bytes, 6)), (Some(who), None));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            let epoch = if bit < NOTE_BYTES * 8 { 0 } else { 7 };
            assert_eq!((decode(&flipped, 5), decode_who(&flipped, 5)), (epoch, None), "bit {bit}");
        }
    }
}
