//! What was appended and no ref leads to: counted while it is so, noted beside the log, and added up once the process that
//! appended it has ended.
//!
//! Nothing appended is ever taken back: other processes may have read it, and prepared batches may refer to it. So an
//! operation that ends before its ref moves leaves bytes for a collector. A backend that has appended a mebibyte or more
//! of them keeps a *note* of how many, a small file that is locked as long as the backend lives. A note that no process
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

use twox_hash::XxHash3_64;

use super::frame::word64;
use crate::{
    backend::RefTarget,
    storage::{StorageFile, read_exact_at, write_all_at},
};

const NOTE_MAGIC: &[u8; 8] = b"BCONEUNR";
/// Bytes of a note: 32 = 8 magic + 8 source + 8 count + 8 check. They are within a sector, so a note is never torn.
const NOTE_BYTES: usize = 32;

/// What one backend has appended that no ref leads to.
#[derive(Debug, Default)]
pub(super) struct Unreached {
    // Both change under the log's lock alone.
    bytes: AtomicU64,
    // The location of the first frame of them.
    first: AtomicU64,
    /// What the note says.
    pub(super) noted: AtomicU64,
    /// What the appends are for: 0 if the caller did not say.
    pub(super) source: AtomicU64,
    pub(super) note: Mutex<NoteState>,
    /// Set when the backend is to append no more.
    pub(super) stopped: AtomicBool,
}

/// Whether a backend keeps a note.
#[derive(Debug, Default)]
pub(super) enum NoteState {
    /// It has not appended enough yet.
    #[default]
    Nothing,
    /// It does.
    Note(Note),
    /// It has ended: other backends count what it left.
    Left,
}

/// The file that says how much a backend has left so far.
#[derive(Debug)]
pub(super) struct Note {
    pub(super) file: Arc<dyn StorageFile>,
    pub(super) name: String,
}

/// What a backend that has ended, or a sum of several, has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnreachedBytes {
    // The number in the note's name; 0 for a sum.
    pub(super) note: u64,
    pub(super) source: u64,
    pub(super) bytes: u64,
}

impl Unreached {
    /// Takes over a frame of `bytes` bytes that this backend has written at the location `at`. The caller holds the log.
    ///
    /// A ref that moves to an object at the first of the counted frames or behind it leads to all of them, as far as
    /// can be told: a caller that appends ahead moves a ref to what it appends last.
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

impl Note {
    pub(super) fn write(&self, source: u64, bytes: u64) -> io::Result<()> {
        let mut out = NOTE_MAGIC.to_vec();
        out.extend_from_slice(&source.to_le_bytes());
        out.extend_from_slice(&bytes.to_le_bytes());
        let check = XxHash3_64::oneshot(&out);
        out.extend_from_slice(&check.to_le_bytes());
        write_all_at(&*self.file, &out, 0)
    }
}

pub(super) fn read_note(file: &dyn StorageFile, note: u64) -> Option<UnreachedBytes> {
    let mut bytes = [0; NOTE_BYTES];
    read_exact_at(file, &mut bytes, 0).ok()?;
    let check = NOTE_BYTES - 8;
    let right = bytes[..8] == NOTE_MAGIC[..] && XxHash3_64::oneshot(&bytes[..check]) == word64(&bytes, check);
    right.then(|| UnreachedBytes { note, source: word64(&bytes, 8), bytes: word64(&bytes, 16) })
}

/// Returns what stands for a source in notes; never 0, which stands for none.
pub(super) fn source_word(source: &str) -> u64 {
    XxHash3_64::oneshot(source.as_bytes()).max(1)
}
