//! The notes that backends keep on what they appended and no ref leads to, and their count. `unreached.rs` says what they
//! are for.

use std::{io, sync::atomic::Ordering::*};

use super::{
    files::{DERIVED, NOTE, NOTE_NEW, UNREACHED_COUNT, random_word},
    frame::word64,
    log::DiskState,
    unreached::{Note, NoteState, UnreachedBytes, read_note, source_word},
};
use crate::{Error, storage::OpenMode, sync::lock};

/// The note is written again when the count has changed by this many bytes: one system call for as many bytes appended.
const STEP_BYTES: u64 = 1 << 20;
/// Bytes of an entry of the count: 24 = 8 note + 8 source + 8 count.
const ENTRY_BYTES: usize = 24;
/// The most entries of the count; beyond that the first ones are added up in one.
const ENTRIES_MAX: usize = 64;
/// The most notes that are read at a time, each an open file; the others wait for the next opening.
const NOTES_MAX: usize = 64;

impl DiskState {
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

    fn write_kept(&self, kept: &mut NoteState) {
        let bytes = self.unreached.bytes();
        self.unreached.noted.store(bytes, Relaxed);
        if matches!(kept, NoteState::Nothing) && bytes > 0 {
            *kept = self.make_note().map_or(NoteState::Nothing, NoteState::Note);
        }
        if let NoteState::Note(note) = kept {
            let _ = note.write(self.unreached.source.load(Relaxed), bytes);
        }
    }

    /// Leaves a note that says all, or none if there is nothing to say. From then on it counts.
    pub(super) fn leave_note(&self) {
        // The note belongs to the process that made it, and not to one that was forked from it.
        if self.lock.as_ref().is_none_or(|store_lock| !store_lock.is_own()) {
            return;
        }
        let mut kept = lock(&self.unreached.note);
        self.write_kept(&mut kept);
        // The handle goes, and the lock with it.
        if let NoteState::Note(note) = std::mem::replace(&mut *kept, NoteState::Left)
            && self.unreached.bytes() == 0
        {
            let _ = self.storage.remove(&note.name);
        }
    }

    /// Makes a note: it has its name once it is whole and locked, so that no process takes it for abandoned.
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

    /// Adds the notes of backends that have ended to the count; `names`: the files among which they are. The caller holds the
    /// store's lock.
    pub(super) fn gather_notes(&self, names: &[String]) {
        let notes = self.abandoned(names, OpenMode::Write);
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

    /// Returns how many bytes backends that have ended left, as far as is known.
    pub(super) fn reclaimable_bytes(&self) -> u64 {
        let counted = self.read_count();
        let noted = self.abandoned(&self.derived.names(), OpenMode::Read).into_iter().filter_map(|(_, left)| left);
        let noted = noted.filter(|left| counted.iter().all(|one| one.note != left.note));
        counted.iter().copied().chain(noted).fold(0, |sum, left| sum.saturating_add(left.bytes))
    }

    /// Takes back what was counted for `source`: refs lead to it now.
    pub(super) fn forget_source(&self, source: &str) -> Result<(), Error> {
        let source = source_word(source);
        self.locked(|_| {
            self.gather_notes(&self.derived.names());
            let mut all = self.read_count();
            let before = all.len();
            all.retain(|left| left.source != source);
            if all.len() == before { Ok(()) } else { self.write_count(all) }
        })
    }

    /// Takes back so many bytes, the oldest first, of what was counted of processes that have ended: a collection has
    /// dropped them.
    pub(super) fn forget_bytes(&self, mut dropped: u64) -> Result<(), Error> {
        self.locked(|_| {
            self.gather_notes(&self.derived.names());
            let mut all = self.read_count();
            if all.is_empty() || dropped == 0 {
                return Ok(());
            }
            for left in &mut all {
                let gone = left.bytes.min(dropped);
                (left.bytes, dropped) = (left.bytes - gone, dropped - gone);
            }
            all.retain(|left| left.bytes > 0);
            self.write_count(all)
        })
    }

    /// Returns the notes with these names that no process holds, locked, and what they say; `None` where they say nothing.
    fn abandoned(&self, names: &[String], mode: OpenMode) -> Vec<(Note, Option<UnreachedBytes>)> {
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

    fn read_count(&self) -> Vec<UnreachedBytes> {
        let bytes = self
            .derived
            .read_at(UNREACHED_COUNT, (ENTRIES_MAX * ENTRY_BYTES) as u64)
            .ok()
            .flatten()
            .unwrap_or_default();
        let entry = |bytes: &[u8]| UnreachedBytes {
            note: word64(bytes, 0),
            source: word64(bytes, 8),
            bytes: word64(bytes, 16),
        };
        bytes.chunks_exact(ENTRY_BYTES).map(entry).collect()
    }

    fn write_count(&self, mut all: Vec<UnreachedBytes>) -> Result<(), Error> {
        if all.len() > ENTRIES_MAX {
            let older = all.drain(..=all.len() - ENTRIES_MAX);
            let bytes = older.fold(0, |sum: u64, left| sum.saturating_add(left.bytes));
            all.insert(0, UnreachedBytes { note: 0, source: 0, bytes });
        }
        let words = all.iter().flat_map(|left| [left.note, left.source, left.bytes]);
        self.derived.write_at(UNREACHED_COUNT, &words.flat_map(u64::to_le_bytes).collect::<Vec<u8>>())
    }
}
