//! The index: what Git will commit next, and by which a changed file is noticed without being read.
//!
//! Versions 2, 3 and 4 are read and written again in the version that they had (one of version 2 becomes 3 where an
//! entry needs it). Extensions that may be left out are, but for the record of resolved conflicts; those that may not
//! (a split index, directories of a sparse one) are refused by name.
//!
//! Source: Git's documentation, `gitformat-index`.

use std::cmp::Ordering;

use bristlecone::{EntryKind, Oid, core::git::Algorithm};

mod decode;
mod encode;

/// The longest path, in bytes.
pub(super) const PATH_BYTES_MAX: usize = 4096;
/// The bits of [`IndexEntry::flags`]: the stage of an entry with a conflict.
const STAGE: u16 = 0x3000;
/// The bit of [`IndexEntry::flags`] that says that there are [`IndexEntry::extended`] ones.
const EXTENDED: u16 = 0x4000;
/// The bit of [`IndexEntry::extended`] for files that a sparse checkout leaves out.
const SKIP_WORKTREE: u16 = 0x4000;
/// The bit of [`IndexEntry::extended`] for files that `git add -N` announced.
const INTENT_TO_ADD: u16 = 0x2000;

/// The entries of an index, in order of paths, and of stages within one.
#[derive(Debug)]
pub(super) struct Index {
    algorithm: Algorithm,
    version: u32,
    // All paths, one behind the other.
    names: Vec<u8>,
    entries: Vec<IndexEntry>,
    // The record of resolved conflicts, as it was.
    resolved: Option<Vec<u8>>,
}

/// One entry.
#[derive(Clone, Debug)]
pub(super) struct IndexEntry {
    /// The file as it was when it was last known to be as the entry says.
    pub(super) stat: IndexStat,
    pub(super) mode: u32,
    pub(super) oid: Oid,
    flags: u16,
    extended: u16,
    // Where the path is in the names of the index.
    path: (u32, u32),
}

/// A path, and what it is bound to from now on: the file as it is, its mode, the id of its contents.
pub(super) type Binding<'p> = (&'p [u8], Option<(IndexStat, u32, Oid)>);

/// What the system says of a file, cut to 32 bits each, as the index has it. The order is that of the bytes, but for
/// the mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct IndexStat {
    pub(super) ctime: (u32, u32),
    pub(super) mtime: (u32, u32),
    pub(super) device: u32,
    pub(super) inode: u32,
    pub(super) user: u32,
    pub(super) group: u32,
    pub(super) bytes: u32,
}

/// Why an index cannot be used.
#[derive(Debug)]
pub(super) enum IndexError {
    /// It is damaged at this offset in bytes.
    Damaged(usize, &'static str),
    /// It is valid, and has something that cannot be written here: what, and what to do.
    Unsupported(String),
}

impl Index {
    /// An index without entries.
    pub(super) fn empty(algorithm: Algorithm) -> Self {
        Self { algorithm, version: 2, names: Vec::new(), entries: Vec::new(), resolved: None }
    }

    pub(super) fn path(&self, entry: &IndexEntry) -> &[u8] {
        let (at, bytes) = (entry.path.0 as usize, entry.path.1 as usize);
        &self.names[at..at + bytes]
    }

    /// Whether a merge left conflicts.
    pub(super) fn has_conflicts(&self) -> bool {
        self.entries.iter().any(|entry| entry.flags & STAGE != 0)
    }

    /// Returns the entry at a path; there are no conflicts.
    pub(super) fn get(&self, path: &[u8]) -> Option<&IndexEntry> {
        self.find(path).ok().map(|index| &self.entries[index])
    }

    /// Returns the entries below the directory `path`.
    pub(super) fn below<'a>(&'a self, path: &'a [u8]) -> impl Iterator<Item = &'a IndexEntry> {
        let prefix = [path, b"/"].concat();
        let first = self.find(&prefix).unwrap_or_else(|index| index);
        self.entries[first..].iter().take_while(move |entry| self.path(entry).starts_with(&prefix))
    }

    /// Returns the entries whose files a sparse checkout leaves out.
    pub(super) fn skipped(&self) -> impl Iterator<Item = &IndexEntry> {
        self.entries.iter().filter(|entry| entry.is_skipped())
    }

    fn find(&self, path: &[u8]) -> Result<usize, usize> {
        self.entries.binary_search_by(|entry| self.path(entry).cmp(path))
    }

    /// Binds paths anew, or removes them (`None`): `changes` are in order of paths, each path once.
    pub(super) fn change(&mut self, changes: &[Binding<'_>]) {
        let old = std::mem::take(&mut self.entries);
        let mut entries = Vec::with_capacity(old.len() + changes.len());
        let mut old = old.into_iter().peekable();
        for (path, to) in changes {
            while let Some(entry) = old.next_if(|entry| self.path(entry) < *path) {
                entries.push(entry);
            }
            while old.next_if(|entry| self.path(entry) == *path).is_some() {}
            if let Some((stat, mode, oid)) = *to {
                let place = (self.names.len() as u32, path.len() as u32);
                self.names.extend_from_slice(path);
                entries.push(IndexEntry { stat, mode, oid, flags: 0, extended: 0, path: place });
            }
        }
        entries.extend(old);
        self.entries = entries;
    }

    /// Makes every entry for which `doubtful` says so one whose file Git reads before it believes it.
    pub(super) fn doubt(&mut self, mut doubtful: impl FnMut(&IndexEntry, &[u8]) -> bool) {
        for entry in &mut self.entries {
            let (at, bytes) = (entry.path.0 as usize, entry.path.1 as usize);
            if doubtful(entry, &self.names[at..at + bytes]) {
                // Git takes a size of 0 for changed where the object is not empty.
                entry.stat.bytes = 0;
            }
        }
    }
}

impl IndexEntry {
    /// Whether a sparse checkout leaves the file out.
    pub(super) const fn is_skipped(&self) -> bool {
        self.extended & SKIP_WORKTREE != 0
    }

    /// Whether the file was announced and not added.
    pub(super) const fn is_intended(&self) -> bool {
        self.extended & INTENT_TO_ADD != 0
    }

    /// Returns what the entry is.
    pub(super) const fn kind(&self) -> EntryKind {
        match self.mode & 0o170_000 {
            0o120_000 => EntryKind::Link,
            0o100_000 if self.mode & 0o100 != 0 => EntryKind::Executable,
            0o100_000 => EntryKind::Value,
            0o040_000 => EntryKind::Dir,
            _ => EntryKind::Foreign,
        }
    }
}

/// Returns the mode by which the index spells a kind.
pub(super) const fn mode_of(kind: EntryKind) -> u32 {
    match kind {
        EntryKind::Value => 0o100_644,
        EntryKind::Executable => 0o100_755,
        EntryKind::Link => 0o120_000,
        EntryKind::Dir => 0o040_000,
        EntryKind::Foreign => 0o160_000,
    }
}

/// The order of entries: of paths as bytes, then of stages.
fn order(one: (&[u8], u16), other: (&[u8], u16)) -> Ordering {
    one.0.cmp(other.0).then((one.1 & STAGE).cmp(&(other.1 & STAGE)))
}

#[cfg(test)]
mod tests;
