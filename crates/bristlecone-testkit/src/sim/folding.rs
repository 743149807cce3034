//! A simulated disk on which names that differ by the case of letters alone are one.

use std::{io, sync::Arc};

use bristlecone::storage::{OpenMode, Reach, Stat, Storage, StorageFile};

use super::SimStorage;

/// A disk that ignores the case of letters, and in which form an é is written, beyond the first use of a name, which it keeps.
#[derive(Clone, Debug, Default)]
pub struct Folding(SimStorage);

impl Folding {
    /// Returns a name in the letters of what is there.
    fn real(&self, name: &str) -> String {
        let mut real = String::new();
        for part in name.split('/').filter(|part| !part.is_empty()) {
            let there = self.0.list(&real).unwrap_or_default();
            let found = there.into_iter().find(|entry| folded(entry) == folded(part));
            if !real.is_empty() {
                real.push('/');
            }
            real.push_str(found.as_deref().unwrap_or(part));
        }
        real
    }
}

/// Returns what is the same for all names that are one. That an é is one with an e that has an accent behind it stands for all such
/// letters.
fn folded(name: &str) -> String {
    name.to_lowercase().replace('\u{e9}', "e\u{301}")
}

impl Storage for Folding {
    fn open(&self, name: &str, mode: OpenMode) -> io::Result<Arc<dyn StorageFile>> {
        self.0.open(&self.real(name), mode)
    }

    fn create_dir(&self, name: &str) -> io::Result<()> {
        self.0.create_dir(&self.real(name))
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.0.list(&self.real(dir))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(&self.real(from), &self.real(to))
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename_new(&self.real(from), &self.real(to))
    }

    fn exchange(&self, one: &str, other: &str) -> io::Result<()> {
        self.0.exchange(&self.real(one), &self.real(other))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(&self.real(name))
    }

    fn remove_dir(&self, dir: &str) -> io::Result<()> {
        self.0.remove_dir(&self.real(dir))
    }

    fn stat(&self, name: &str) -> io::Result<Stat> {
        let real = self.real(name);
        let stat = self.0.stat(&real)?;
        // Folders of the simulated disk have no numbers, and those of disks have.
        let number = real.bytes().fold(1_u64, |number, byte| number.wrapping_mul(31).wrapping_add(byte.into()));
        Ok(if stat.dir { Stat { id: number, ..stat } } else { stat })
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        self.0.sync_dir(&self.real(dir))
    }

    fn reach(&self) -> Reach {
        self.0.reach()
    }

    fn describe(&self, name: &str) -> String {
        self.0.describe(name)
    }
}
