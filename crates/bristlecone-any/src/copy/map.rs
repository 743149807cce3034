//! Which commit of a copy stands for which of the original: derived files, which may vanish at any time.
//!
//! A conversion makes the same commit of the same one each time, so a loss costs the time to convert again, and nothing else.
//! What a copy that was stopped has noted in refs counts, too. Entries are written after what they name is durable. They are read in order of files; a small last file is written again
//! with what is new.

use std::collections::HashMap;

use bristlecone::{CommitId, Format, Oid};

use super::checkpoint;
use crate::{error::Result, format::AnyFormat, repo::AnyRepo};

/// Bytes from which on a file is not written again.
const FILE_BYTES_WANTED: usize = 4 << 20;
/// An entry: for each of two ids its length, and 32 bytes with zeroes behind it.
const ENTRY_BYTES: usize = 2 * ID_BYTES;
const ID_BYTES: usize = 1 + Oid::BYTES_MAX;
/// The version of the conversion: another one makes other commits.
const VERSION: u32 = 1;

/// How much of its history an original has: the same commit is converted to others where less of it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HistoryPart {
    /// All of it.
    Whole,
    /// Retention has cut some.
    Cut,
    /// What a shallow clone has, which a later fetch may add to.
    Shallow,
}

/// The commits that were converted, by those of the original.
pub(super) struct CommitMap<'c> {
    to: &'c AnyRepo,
    commits: HashMap<Oid, Oid>,
    // How the files are called, and how they begin; `None` if nothing is kept.
    files: Option<(String, String)>,
    // The file that is written next, and what is in it.
    file: u32,
    entries: Vec<u8>,
    changed: bool,
}

impl<'c> CommitMap<'c> {
    /// Reads what was kept of conversions from a format. Those of a history that was cut are kept apart, and go on from what
    /// was converted while it was whole; those of a shallow one are not kept.
    pub(super) fn read(from: &AnyFormat, to: &'c AnyRepo, part: HistoryPart) -> Result<Self> {
        let options = from.options().replace(' ', "_");
        let name = format!("copy-map-{}-{options}", from.name());
        let head = format!("copy-map {VERSION} {} {} | {}\n", from.name(), from.options(), to.format().options());
        let mut map = Self { to, commits: HashMap::new(), files: None, file: 0, entries: Vec::new(), changed: false };
        if part == HistoryPart::Shallow {
            return Ok(map);
        }
        map.load(name.clone(), head.clone())?;
        if part == HistoryPart::Cut {
            map.load(format!("{name}-cut"), head)?;
            return Ok(map);
        }
        checkpoint::noted(to)?.into_iter().for_each(|(original, copy)| map.insert(original, copy));
        Ok(map)
    }

    /// Reads files of a name, to which what is new is written from now on.
    fn load(&mut self, name: String, head: String) -> Result<()> {
        (self.file, self.entries) = (0, Vec::new());
        while let Some(bytes) = self.to.backend().read_derived(&numbered(&name, self.file))? {
            let Some(entries) = bytes.strip_prefix(head.as_bytes()) else { break };
            for entry in entries.chunks_exact(ENTRY_BYTES) {
                if let (Some(from), Some(to)) = (id(&entry[..ID_BYTES]), id(&entry[ID_BYTES..])) {
                    self.commits.insert(from, to);
                }
            }
            if entries.len() < FILE_BYTES_WANTED {
                self.entries = entries.to_vec();
                break;
            }
            self.file += 1;
        }
        self.files = Some((name, head));
        Ok(())
    }

    /// Returns the commit of the copy that stands for one of the original.
    pub(super) fn get(&self, original: &Oid) -> Option<CommitId> {
        self.commits.get(original).map(|&oid| CommitId::new(oid))
    }

    /// Whether a commit was converted, and is still there with all that is below it.
    pub(super) fn is_there(&self, original: &Oid) -> Result<bool> {
        match self.commits.get(original) {
            Some(oid) => Ok(self.to.backend().read(&(*oid).into())?.is_some()),
            None => Ok(false),
        }
    }

    pub(super) fn insert(&mut self, original: Oid, copy: Oid) {
        if self.commits.insert(original, copy) == Some(copy) {
            return;
        }
        for oid in [original, copy] {
            self.entries.push(oid.as_bytes().len() as u8);
            self.entries.extend_from_slice(oid.padded());
        }
        self.changed = true;
    }

    /// Writes what is new, all of which is durable by now.
    pub(super) fn save(&mut self) -> Result<()> {
        let Some((name, head)) = &self.files else { return Ok(()) };
        if !std::mem::take(&mut self.changed) {
            return Ok(());
        }
        let backend = self.to.backend();
        backend.write_derived(&numbered(name, self.file), &[head.as_bytes(), &self.entries].concat())?;
        if self.entries.len() >= FILE_BYTES_WANTED {
            (self.file, self.entries) = (self.file + 1, Vec::new());
            // A file that an earlier conversion left under this name would be read as the next one.
            backend.write_derived(&numbered(name, self.file), head.as_bytes())?;
        }
        Ok(())
    }

    /// Returns the original of each commit of the copy.
    pub(super) fn originals(&self) -> HashMap<Oid, Oid> {
        self.commits.iter().map(|(original, copy)| (*copy, *original)).collect()
    }
}

fn numbered(name: &str, file: u32) -> String {
    format!("{name}-{file:05}")
}

fn id(bytes: &[u8]) -> Option<Oid> {
    let (len, digits) = bytes.split_first()?;
    Oid::new(digits.get(..usize::from(*len))?).ok()
}
