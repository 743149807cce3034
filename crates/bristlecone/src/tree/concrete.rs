//! Trees as plain values, and their statistics.

use std::collections::BTreeMap;

use bristlecone_core::{AsPath, EntryKind, Format, Oid, Path};

use super::Tree;
use crate::{Error, Result};

/// A tree as a plain value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Concrete {
    /// A directory.
    Dir(BTreeMap<Vec<u8>, Concrete>),
    /// A value, executable or link.
    Value(EntryKind, Vec<u8>),
    /// An id of another store.
    Foreign(Oid),
}

/// Sizes of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeStats {
    /// Directories below the root.
    pub dirs: u64,
    /// Values, executables and links.
    pub values: u64,
    /// Ids of other stores.
    pub foreign: u64,
    /// Bytes of all values; one that is bound twice counts twice.
    pub value_bytes: u64,
    /// Steps of the longest path.
    pub depth: u64,
    /// Entries of the widest directory.
    pub width: u64,
}

/// Binds the path that `steps` are; directories come before what is in them.
fn insert(dir: &mut BTreeMap<Vec<u8>, Concrete>, steps: &mut dyn Iterator<Item = &[u8]>, concrete: Concrete) {
    let Some(step) = steps.next() else { return };
    match dir.get_mut(step) {
        Some(Concrete::Dir(below)) => insert(below, steps, concrete),
        _ => {
            dir.insert(step.to_vec(), concrete);
        }
    }
}

impl<F: Format> Tree<F> {
    /// Returns the tree as a plain value. `tree.add_concrete("", &tree.to_concrete()?)` changes nothing that is not
    /// Git's alone: unusual modes and empty directories are not set again.
    ///
    /// # Errors
    /// As [`Tree::find`].
    pub fn to_concrete(&self) -> Result<Concrete> {
        let mut root = BTreeMap::new();
        for entry in self.walk_all("")? {
            let (path, entry) = entry?;
            let concrete = match (entry.kind(), entry.foreign()) {
                (_, Some(oid)) => Concrete::Foreign(oid),
                (EntryKind::Dir, _) => Concrete::Dir(BTreeMap::new()),
                (kind, _) => Concrete::Value(kind, entry.contents()?.unwrap_or_else(|| (&[][..]).into()).to_vec()),
            };
            insert(&mut root, &mut path.steps(), concrete);
        }
        Ok(Concrete::Dir(root))
    }

    /// Binds `path` to a plain value; the root takes a directory only.
    ///
    /// # Errors
    /// As [`Tree::add`].
    pub fn add_concrete(&mut self, path: impl AsPath, concrete: &Concrete) -> Result<()> {
        let path = path.as_path()?;
        match concrete {
            Concrete::Value(kind, bytes) => self.add_kind(&*path, *kind, bytes),
            Concrete::Foreign(oid) => self.add_foreign(&*path, *oid),
            Concrete::Dir(entries) => {
                self.remove(&*path)?;
                self.add_entries(&path, entries)
            }
        }
    }

    fn add_entries(&mut self, path: &Path, entries: &BTreeMap<Vec<u8>, Concrete>) -> Result<()> {
        for (step, concrete) in entries {
            let path = path.join(step).map_err(Error::from)?;
            match concrete {
                Concrete::Dir(entries) => self.add_entries(&path, entries)?,
                leaf => self.add_concrete(&path, leaf)?,
            }
        }
        Ok(())
    }

    /// Returns the sizes of the tree, walking all of it. Values are loaded only where nothing else tells how long they
    /// are ([`crate::DirEntry::bytes`]).
    ///
    /// # Errors
    /// As [`Tree::find`].
    pub fn stats(&self) -> Result<TreeStats> {
        let mut stats = TreeStats { width: self.count("")?, ..TreeStats::default() };
        for entry in self.walk_all("")? {
            let (path, entry) = entry?;
            stats.depth = stats.depth.max(path.len() as u64);
            match entry.kind() {
                EntryKind::Dir => {
                    stats.dirs += 1;
                    stats.width = stats.width.max(self.count(&path)?);
                }
                EntryKind::Foreign => stats.foreign += 1,
                _ => {
                    stats.values += 1;
                    stats.value_bytes += entry.length()?.unwrap_or(0);
                }
            }
        }
        Ok(stats)
    }
}
