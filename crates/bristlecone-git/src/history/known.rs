//! Which object of a `native` store came from which of Git's: derived files that may vanish at any time.
//!
//! An entry is written after its object is durable. The files are numbered; a small last one is written again with
//! what is new, so that there are few. `docs/git.md` says what a loss costs: time.

use std::{collections::HashSet, sync::Arc, time::Instant};

use bristlecone::{Backend, Format, Native, Oid, Result, core::git::Algorithm};

use crate::history::{
    ids::Ids,
    table::{Scratch, Table},
};

/// Bytes from which on a file is not written again.
const FILE_BYTES_WANTED: usize = 4 << 20;
/// Entries are written when this many wait, after this many imported bytes, or after this many seconds.
const ENTRIES_MAX: usize = 100_000;
const IMPORTED_BYTES_MAX: u64 = 100 << 20;
const SECONDS_MAX: u64 = 5;

/// What the native object of a Git object is, in a fixed number of bytes.
///
/// An object: 49 = 1 word + 32 id + 8 place + 8 length in bytes (of a commit, its generation number). A value that
/// lives in its directory: a word, its length in 2 bytes, its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    Nothing,
    Object { oid: Oid, place: u64, bytes: u64 },
    Inline(Vec<u8>),
}

impl Bound {
    /// Returns the width of records.
    pub(crate) fn width(native: &Native) -> usize {
        49.max(3 + native.inline_bytes_max())
    }

    pub(crate) fn encode(&self, out: &mut [u8]) {
        out.fill(0);
        match self {
            Self::Nothing => {}
            Self::Object { oid, place, bytes } => {
                out[0] = 1;
                out[1..33].copy_from_slice(oid.padded());
                out[33..41].copy_from_slice(&place.to_le_bytes());
                out[41..49].copy_from_slice(&bytes.to_le_bytes());
            }
            Self::Inline(value) => {
                out[0] = 2;
                out[1..3].copy_from_slice(&(value.len() as u16).to_le_bytes());
                out[3..3 + value.len()].copy_from_slice(value);
            }
        }
    }

    pub(crate) fn decode(record: &[u8]) -> Self {
        let word = |at: usize| record[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        match record.first() {
            Some(1) => {
                let mut oid = [0; 32];
                oid.copy_from_slice(&record[1..33]);
                Self::Object { oid: Oid::from_array(oid), place: word(33), bytes: word(41) }
            }
            Some(2) => {
                let length = usize::from(u16::from_le_bytes([record[1], record[2]]));
                record.get(3..3 + length).map_or(Self::Nothing, |value| Self::Inline(value.to_vec()))
            }
            _ => Self::Nothing,
        }
    }
}

/// What was imported before, by Git's ids.
pub(crate) struct Known {
    pub(crate) commits: Ids,
    pub(crate) others: Ids,
    pub(crate) bounds: Arc<KnownBounds>,
    next: Next,
}

/// The native objects of those.
pub(crate) struct KnownBounds {
    pub(crate) commits: Table,
    pub(crate) others: Table,
}

/// Where entries are written next.
struct Next {
    file: u32,
    // What is in that file already.
    entries: Vec<u8>,
}

const OF_COMMIT: u8 = 1;

impl Known {
    /// Reads what was written; nothing where that does not fit the store.
    pub(crate) fn read(
        backend: &dyn Backend,
        native: &Native,
        algorithm: Algorithm,
        scratch: &Scratch,
    ) -> Result<Self> {
        let mut known = Self::nothing(native, algorithm, scratch);
        let head = head(native, algorithm);
        let (id, record) = (algorithm.oid_bytes(), Bound::width(native));
        let mut bounds = KnownBounds { commits: Table::new(record, scratch), others: Table::new(record, scratch) };
        while let Some(bytes) = backend.read_derived(&name(known.next.file))? {
            let Some(entries) = bytes.strip_prefix(head.as_bytes()) else { break };
            for entry in entries.chunks_exact(1 + id + record) {
                let Ok(oid) = Oid::new(&entry[1..=id]) else { continue };
                let (ids, bounds) = if entry[0] == OF_COMMIT {
                    (&mut known.commits, &mut bounds.commits)
                } else {
                    (&mut known.others, &mut bounds.others)
                };
                if ids.get(&oid)?.is_none() {
                    ids.insert(&oid)?;
                    bounds.push(&entry[1 + id..])?;
                }
            }
            if entries.len() < FILE_BYTES_WANTED {
                known.next.entries = entries.to_vec();
                break;
            }
            known.next.file += 1;
        }
        known.bounds = Arc::new(bounds);
        Ok(known)
    }

    /// What is known where nothing was written.
    pub(crate) fn nothing(native: &Native, algorithm: Algorithm, scratch: &Scratch) -> Self {
        let (id, record) = (algorithm.oid_bytes(), Bound::width(native));
        let bounds = KnownBounds { commits: Table::new(record, scratch), others: Table::new(record, scratch) };
        let (commits, others) = (Ids::new(id, scratch), Ids::new(id, scratch));
        Self { commits, others, bounds: Arc::new(bounds), next: Next { file: 0, entries: Vec::new() } }
    }

    /// Whether a commit of the repository became one of these.
    pub(crate) fn has_become(&self, native: &Native, oids: &HashSet<Oid>) -> Result<bool> {
        let mut record = vec![0; Bound::width(native)];
        for number in (0..self.commits.len()).filter(|_| !oids.is_empty()) {
            self.bounds.commits.read(number, &mut record)?;
            if let Bound::Object { oid, .. } = Bound::decode(&record)
                && oids.contains(&oid)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns how to write more, and what was known.
    pub(crate) fn split(self, native: &Native, algorithm: Algorithm) -> (Ids, Ids, Arc<KnownBounds>, MapWriter) {
        let writer = MapWriter {
            head: head(native, algorithm),
            next: self.next,
            waiting: Vec::new(),
            imported: 0,
            since: Instant::now(),
            added: false,
        };
        (self.commits, self.others, self.bounds, writer)
    }
}

/// Writes entries from time to time.
pub(crate) struct MapWriter {
    head: String,
    next: Next,
    // Whether of a commit, Git's id, and the number.
    waiting: Vec<(bool, Oid, u32)>,
    imported: u64,
    since: Instant,
    added: bool,
}

impl MapWriter {
    /// Notes an object that is to be written.
    pub(crate) fn note(&mut self, commit: bool, oid: &Oid, number: u32, bytes: usize) {
        self.waiting.push((commit, *oid, number));
        self.imported += bytes as u64;
    }

    /// Whether it is time to write.
    pub(crate) fn is_due(&self) -> bool {
        self.imported >= IMPORTED_BYTES_MAX
            || self.waiting.len() >= ENTRIES_MAX
            || (self.waiting.len() % 1024 == 1023 && self.since.elapsed().as_secs() >= SECONDS_MAX)
    }

    /// Takes out what was noted.
    pub(crate) fn take(&mut self) -> Vec<(bool, Oid, u32)> {
        (self.imported, self.since) = (0, Instant::now());
        std::mem::take(&mut self.waiting)
    }

    /// Adds an entry to the file, all of which is durable by now.
    pub(crate) fn add(&mut self, commit: bool, oid: &Oid, record: &[u8]) {
        self.next.entries.push(if commit { OF_COMMIT } else { 0 });
        self.next.entries.extend_from_slice(oid.as_bytes());
        self.next.entries.extend_from_slice(record);
        self.added = true;
    }

    /// Writes what was added.
    pub(crate) fn write(&mut self, backend: &dyn Backend) -> Result<()> {
        if !std::mem::take(&mut self.added) {
            return Ok(());
        }
        backend.write_derived(&name(self.next.file), &[self.head.as_bytes(), &self.next.entries].concat())?;
        if self.next.entries.len() >= FILE_BYTES_WANTED {
            self.next = Next { file: self.next.file + 1, entries: Vec::new() };
            // A file that an earlier store left under this name would be read as the next one.
            backend.write_derived(&name(self.next.file), self.head.as_bytes())?;
        }
        Ok(())
    }
}

fn name(file: u32) -> String {
    format!("git-map-{file:05}")
}

fn head(native: &Native, algorithm: Algorithm) -> String {
    format!("git-map 1 {} {}\n", algorithm.name(), native.options())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bristlecone::MemoryBackend;

    #[test]
    fn bounds_round_trip() {
        let native = Native::new().inline(300);
        for bound in [
            Bound::Nothing,
            Bound::Object { oid: Oid::from_array([7; 32]), place: 1 << 40, bytes: 77 },
            Bound::Inline(vec![1; 300]),
            Bound::Inline(Vec::new()),
        ] {
            let mut record = vec![9; Bound::width(&native)];
            bound.encode(&mut record);
            assert_eq!(Bound::decode(&record), bound);
        }
    }

    #[test]
    fn entries_come_back_from_several_files_and_only_where_they_fit() {
        let (backend, native, scratch) = (MemoryBackend::new(), Native::new(), Scratch::default());
        let oid = |number: u32| Oid::new(&[&number.to_be_bytes()[..], &[5; 16]].concat()).unwrap();
        let mut count = 0;
        for _ in 0..5 {
            let known = Known::read(&backend, &native, Algorithm::Sha1, &scratch).unwrap();
            assert_eq!(known.others.len() + known.commits.len(), count);
            let (.., mut writer) = known.split(&native, Algorithm::Sha1);
            for number in count..count + 40_000 {
                writer.note(number % 9 == 0, &oid(number), number, 0);
            }
            for (commit, oid, number) in writer.take() {
                let mut record = vec![0; Bound::width(&native)];
                let bound = Bound::Object { oid: Oid::from_array([3; 32]), place: 5, bytes: number.into() };
                bound.encode(&mut record);
                writer.add(commit, &oid, &record);
            }
            writer.write(&backend).unwrap();
            count += 40_000;
        }
        assert!(backend.read_derived("git-map-00002").unwrap().is_some());
        let known = Known::read(&backend, &native, Algorithm::Sha1, &scratch).unwrap();
        let mut record = vec![0; Bound::width(&native)];
        known.bounds.others.read(known.others.get(&oid(100_001)).unwrap().unwrap(), &mut record).unwrap();
        assert!(matches!(Bound::decode(&record), Bound::Object { bytes: 100_001, .. }));
        for other in [native.inline(0), native.split(false)] {
            assert_eq!(Known::read(&backend, &other, Algorithm::Sha1, &scratch).unwrap().others.len(), 0);
        }
        assert_eq!(Known::read(&backend, &native, Algorithm::Sha256, &scratch).unwrap().others.len(), 0);
    }
}
