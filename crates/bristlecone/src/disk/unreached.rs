//! What was appended and no ref leads to: counted while it is so, noted beside the log, and added up once whoever
//! appended it is gone.
//!
//! Nothing appended is ever taken back: other processes may have followed it, and prepared batches may lean on it. So
//! an operation that ends before its ref moves leaves bytes for a collector. A backend that has appended a mebibyte or
//! more of them keeps a *note* of how many, a small file that is locked as long as the backend lives. A note that nobody
//! holds was left by a backend that ended, or by a process that was killed. The next one to open the store for writing
//! adds such notes to the *count*.
//!
//! All of it is an estimate, never synced, and harmless to lose. `docs/formats/disk.md` section 6.1 lists the bytes.

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::*},
    },
};

use xxhash_rust::xxh3::xxh3_64;

use super::{
    frame::word64,
    header::random_word,
    log::{DERIVED, Shared, lock},
};
use crate::{
    Error,
    backend::RefTarget,
    storage::{OpenMode, StorageFile, read_exact_at, write_all_at},
};

/// The file of the count. Derived files of callers cannot have names with this first letter.
const COUNT: &str = "derived/@reclaimable";
/// How the names of notes begin, within their folder; 16 hexadecimal digits follow.
const NOTE: &str = "@unreached-";
/// A note that is not whole yet.
const NOTE_NEW: &str = "@new-unreached-";
const NOTE_MAGIC: &[u8; 8] = b"BCONEUNR";
/// Bytes of a note: 32 = 8 magic + 8 source + 8 count + 8 check. They are within a sector, so a note is never torn.
const NOTE_BYTES: usize = 32;
/// The note is written anew when the count has changed by so many bytes: a system call in so many written.
const STEP_BYTES: u64 = 1 << 20;
/// Bytes of an entry of the count: 24 = 8 note + 8 source + 8 count.
const ENTRY_BYTES: usize = 24;
/// The count has no more entries; those that came first are added up in one.
const ENTRIES_MAX: usize = 64;
/// No more notes are looked at in one go, each an open file; the others wait for the next opening.
const NOTES_MAX: usize = 64;

/// What one backend has appended that no ref leads to.
#[derive(Debug, Default)]
pub(super) struct Unreached {
    // Both change under the log's lock alone.
    bytes: AtomicU64,
    // The location of the first frame of them.
    first: AtomicU64,
    /// What the note says.
    noted: AtomicU64,
    /// What the appends are for: 0 if nobody said.
    source: AtomicU64,
    pub(super) note: Mutex<Kept>,
    /// Set when the backend is to append no more.
    pub(super) stopped: AtomicBool,
}

/// Whether a backend keeps a note.
#[derive(Debug, Default)]
pub(super) enum Kept {
    /// It has not appended enough yet.
    #[default]
    Nothing,
    /// It does.
    Note(Note),
    /// It is done: others count what it left.
    Left,
}

/// The file that says how much a backend has left so far.
#[derive(Debug)]
pub(super) struct Note {
    file: Arc<dyn StorageFile>,
    name: String,
}

/// What a backend that is gone, or a sum of several, has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Left {
    // The number in the note's name; 0 for a sum.
    note: u64,
    source: u64,
    bytes: u64,
}

impl Unreached {
    /// Takes over a frame of `bytes` bytes that this backend has written at the location `at`. The caller holds the log.
    ///
    /// A ref that moves to an object at the first of the counted frames or behind it leads to all of them, as far as
    /// can be told: who appends ahead moves a ref to what it appends last.
    pub(super) fn pass(&self, at: u64, bytes: u64, targets: &[Option<RefTarget>]) {
        let before = self.bytes.load(Relaxed);
        if targets.is_empty() {
            if before == 0 {
                self.first.store(at, Relaxed);
            }
            self.bytes.store(before + bytes, Relaxed);
            return;
        }
        let first = self.first.load(Relaxed);
        let reaches = |target: &Option<RefTarget>| match target {
            Some(RefTarget::Object(to)) => !to.at.is_some() || to.at.0 >= first,
            _ => false,
        };
        if before > 0 && targets.iter().any(reaches) {
            self.bytes.store(0, Relaxed);
        }
    }

    /// Returns how many bytes there are.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }
}

impl Shared {
    /// Says what the appends that follow are for.
    pub(super) fn set_source(&self, source: &str) {
        self.unreached.source.store(source_word(source), Relaxed);
    }

    /// Refuses appends after [`super::DiskBackend::abandon`].
    #[inline]
    pub(super) fn going_on(&self) -> Result<(), Error> {
        if self.unreached.stopped.load(Acquire) {
            return Err(Error::Usage { reason: "writing to the store was given up here; open it again to write" });
        }
        Ok(())
    }

    /// Brings the note up to date if much has changed since it was written. A note that cannot be written is no failure.
    #[inline]
    pub(super) fn keep_note(&self) {
        let (now, noted) = (self.unreached.bytes(), self.unreached.noted.load(Relaxed));
        if now.abs_diff(noted) >= STEP_BYTES || (now == 0 && noted != 0) {
            self.write_note();
        }
    }

    #[cold]
    fn write_note(&self) {
        self.write_kept(&mut lock(&self.unreached.note));
    }

    fn write_kept(&self, kept: &mut Kept) {
        let bytes = self.unreached.bytes();
        self.unreached.noted.store(bytes, Relaxed);
        if matches!(kept, Kept::Nothing) && bytes > 0 {
            *kept = self.make_note().map_or(Kept::Nothing, Kept::Note);
        }
        if let Kept::Note(note) = kept {
            let _ = note.write(self.unreached.source.load(Relaxed), bytes);
        }
    }

    /// Leaves a note that says all, or none if there is nothing to say. From then on it counts.
    pub(super) fn leave_note(&self) {
        // The note of a process is none of one that was forked from it.
        if self.lock.as_ref().is_none_or(|store_lock| !store_lock.is_own()) {
            return;
        }
        let mut kept = lock(&self.unreached.note);
        self.write_kept(&mut kept);
        // The handle goes, and the lock with it.
        if let Kept::Note(note) = std::mem::replace(&mut *kept, Kept::Left)
            && self.unreached.bytes() == 0
        {
            let _ = self.storage.remove(&note.name);
        }
    }

    /// Makes a note: it has its name once it is whole and locked, so that nobody takes it for abandoned.
    fn make_note(&self) -> io::Result<Note> {
        let word = random_word().max(1);
        let (new, name) = (format!("{DERIVED}/{NOTE_NEW}{word:016x}"), format!("{DERIVED}/{NOTE}{word:016x}"));
        let note = Note { file: self.storage.open(&new, OpenMode::CreateNew)?, name };
        let made = note
            .file
            .try_lock()
            .and_then(|_| note.write(self.unreached.source.load(Relaxed), 0))
            .and_then(|()| self.storage.rename(&new, &note.name));
        made.inspect_err(|_| _ = self.storage.remove(&new)).map(|()| note)
    }

    /// Adds the notes of those who are gone to the count. The caller holds the store's lock.
    pub(super) fn gather_notes(&self) {
        let notes = self.abandoned(OpenMode::Write);
        if notes.is_empty() {
            return;
        }
        let mut all = self.read_count();
        let before = all.len();
        for (_, left) in &notes {
            if let Some(left) = left.filter(|left| left.bytes > 0 && all.iter().all(|one| one.note != left.note)) {
                all.push(left);
            }
        }
        if all.len() > before && self.write_count(all).is_err() {
            // There is no room, perhaps. The notes stay and count.
            return;
        }
        for (note, _) in notes {
            let _ = self.storage.remove(&note.name);
        }
    }

    /// Returns how many bytes those who are gone have left, as far as is known.
    pub(super) fn reclaimable_bytes(&self) -> u64 {
        let counted = self.read_count();
        let noted = self.abandoned(OpenMode::Read).into_iter().filter_map(|(_, left)| left);
        let noted = noted.filter(|left| counted.iter().all(|one| one.note != left.note));
        counted.iter().copied().chain(noted).fold(0, |sum, left| sum.saturating_add(left.bytes))
    }

    /// Takes back what was counted for `source`: refs lead to it now.
    pub(super) fn forget_source(&self, source: &str) -> Result<(), Error> {
        let source = source_word(source);
        self.locked(|_| {
            self.gather_notes();
            let mut all = self.read_count();
            let before = all.len();
            all.retain(|left| left.source != source);
            if all.len() == before { Ok(()) } else { self.write_count(all) }
        })
    }

    /// Returns the notes that nobody holds, locked, and what they say; `None` where they say nothing.
    fn abandoned(&self, mode: OpenMode) -> Vec<(Note, Option<Left>)> {
        let names = self.storage.list(DERIVED).unwrap_or_default();
        let found = names.iter().filter_map(|name| {
            let number = name.strip_prefix(NOTE).or_else(|| name.strip_prefix(NOTE_NEW))?;
            let number = u64::from_str_radix(number, 16).ok().filter(|_| number.len() == 16)?;
            let path = format!("{DERIVED}/{name}");
            let file = self.storage.open(&path, mode).ok()?;
            if !file.try_lock().unwrap_or(false) {
                return None;
            }
            let left = read_note(&*file, number).filter(|_| name.starts_with(NOTE));
            Some((Note { file, name: path }, left))
        });
        found.take(NOTES_MAX).collect()
    }

    fn read_count(&self) -> Vec<Left> {
        let bytes = self.derived.read_at(COUNT, (ENTRIES_MAX * ENTRY_BYTES) as u64).ok().flatten().unwrap_or_default();
        let entry = |bytes: &[u8]| Left { note: word64(bytes, 0), source: word64(bytes, 8), bytes: word64(bytes, 16) };
        bytes.chunks_exact(ENTRY_BYTES).map(entry).collect()
    }

    fn write_count(&self, mut all: Vec<Left>) -> Result<(), Error> {
        if all.len() > ENTRIES_MAX {
            let older = all.drain(..=all.len() - ENTRIES_MAX);
            let bytes = older.fold(0, |sum: u64, left| sum.saturating_add(left.bytes));
            all.insert(0, Left { note: 0, source: 0, bytes });
        }
        let words = all.iter().flat_map(|left| [left.note, left.source, left.bytes]);
        self.derived.write_at(COUNT, &words.flat_map(u64::to_le_bytes).collect::<Vec<u8>>())
    }
}

impl Note {
    fn write(&self, source: u64, bytes: u64) -> io::Result<()> {
        let mut out = NOTE_MAGIC.to_vec();
        out.extend_from_slice(&source.to_le_bytes());
        out.extend_from_slice(&bytes.to_le_bytes());
        let check = xxh3_64(&out);
        out.extend_from_slice(&check.to_le_bytes());
        write_all_at(&*self.file, &out, 0)
    }
}

fn read_note(file: &dyn StorageFile, note: u64) -> Option<Left> {
    let mut bytes = [0; NOTE_BYTES];
    read_exact_at(file, &mut bytes, 0).ok()?;
    let check = NOTE_BYTES - 8;
    let right = bytes[..8] == NOTE_MAGIC[..] && xxh3_64(&bytes[..check]) == word64(&bytes, check);
    right.then(|| Left { note, source: word64(&bytes, 8), bytes: word64(&bytes, 16) })
}

/// Returns what stands for a source in notes; never 0, which stands for none.
fn source_word(source: &str) -> u64 {
    xxh3_64(source.as_bytes()).max(1)
}
