//! Records of one width, numbered from 0, of which only the newest are in memory.
//!
//! A history has millions of objects, and what is noted of each would not fit the budget. Older records go to a file
//! without a name, which the system keeps in its cache as long as there is room and which ends with the process.

use std::sync::Arc;

use bristlecone::{
    Error, Result,
    storage::{OpenMode, Storage, StorageFile, read_exact_at, write_all_at},
};

use crate::repository::files::passing_name;

/// Bytes of records that stay in memory before they go to the file.
const TAIL_BYTES: usize = 1 << 20;

/// Where tables put what does not stay in memory; in memory all the same where nothing is given.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    storage: Option<Arc<dyn Storage>>,
    // Whether the folder is that of a Git repository.
    of_git: bool,
}

impl Scratch {
    /// Files are made in this folder and removed at once: they live until they are closed.
    pub(crate) fn new(storage: Option<Arc<dyn Storage>>) -> Self {
        Self { storage, of_git: false }
    }

    /// The same for the common folder of a Git repository: should the process be killed before the name is gone, `git gc` removes
    /// the file in time.
    pub(crate) fn of_repository(storage: Arc<dyn Storage>) -> Self {
        Self { storage: Some(storage), of_git: true }
    }

    fn file(&self) -> Result<Option<Arc<dyn StorageFile>>> {
        let Some(storage) = &self.storage else { return Ok(None) };
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let name = if self.of_git {
            passing_name("objects/tmp_scratch_")
        } else {
            let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            format!("scratch-{}-{number}", std::process::id())
        };
        let failed = |error| Error::io(storage.describe(&name), error);
        // A process that had this number and was killed between the next two lines may have left one.
        let _ = storage.remove(&name);
        let file = storage.open(&name, OpenMode::CreateNew).map_err(failed)?;
        storage.remove(&name).map_err(failed)?;
        Ok(Some(file))
    }
}

/// Numbered records.
#[derive(Debug)]
pub(crate) struct Table {
    width: usize,
    scratch: Scratch,
    // Made when the first records go there.
    file: Option<Arc<dyn StorageFile>>,
    // Records in the file.
    spilled: u64,
    tail: Vec<u8>,
}

impl Table {
    /// An empty table of records of `width` bytes, at most 4 KiB.
    pub(crate) fn new(width: usize, scratch: &Scratch) -> Self {
        Self { width, scratch: scratch.clone(), file: None, spilled: 0, tail: Vec::new() }
    }

    /// Returns the number of records.
    pub(crate) fn len(&self) -> u64 {
        self.spilled + (self.tail.len() / self.width) as u64
    }

    /// Adds a record.
    pub(crate) fn push(&mut self, record: &[u8]) -> Result<()> {
        assert_eq!(record.len(), self.width, "records have one width");
        if self.tail.len() + record.len() > TAIL_BYTES && self.scratch.storage.is_some() {
            self.spill()?;
        }
        self.tail.extend_from_slice(record);
        Ok(())
    }

    /// Replaces record `number`; those between the last one and it are zero.
    pub(crate) fn set(&mut self, number: u32, record: &[u8]) -> Result<()> {
        let number = u64::from(number);
        if number < self.spilled
            && let Some(file) = &self.file
        {
            return write_all_at(&**file, record, number * self.width as u64).map_err(failed);
        }
        while self.len() <= number {
            self.push(&vec![0; self.width])?;
        }
        match number.checked_sub(self.spilled) {
            Some(place) => {
                let at = place as usize * self.width;
                self.tail[at..at + self.width].copy_from_slice(record);
                Ok(())
            }
            None => unreachable!("the last record is in memory"),
        }
    }

    /// Copies record `number` to `out`; zeroes if there is no such record.
    pub(crate) fn read(&self, number: u32, out: &mut [u8]) -> Result<()> {
        let number = u64::from(number);
        match (number.checked_sub(self.spilled), &self.file) {
            (Some(place), _) => {
                let at = place as usize * self.width;
                match self.tail.get(at..at + self.width) {
                    Some(record) => out.copy_from_slice(record),
                    None => out.fill(0),
                }
                Ok(())
            }
            (None, Some(file)) => read_exact_at(&**file, out, number * self.width as u64).map_err(failed),
            (None, None) => unreachable!("records that are not in memory are in the file"),
        }
    }

    fn spill(&mut self) -> Result<()> {
        if self.file.is_none() {
            self.file = self.scratch.file()?;
        }
        let Some(file) = &self.file else { return Ok(()) };
        // The second half stays: what was noted last is asked for most.
        let records = self.tail.len() / self.width / 2;
        let bytes = records * self.width;
        write_all_at(&**file, &self.tail[..bytes], self.spilled * self.width as u64).map_err(failed)?;
        self.tail.drain(..bytes);
        self.spilled += records as u64;
        Ok(())
    }
}

fn failed(source: std::io::Error) -> Error {
    Error::io("a temporary file".to_owned(), source)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use bristlecone::storage::RealStorage;
    use bristlecone_testkit::sim::Hooked;

    #[test]
    fn records_are_found_wherever_they_are() {
        let dir = tempfile::tempdir().unwrap();
        for scratch in [Scratch::default(), Scratch::new(Some(Arc::new(RealStorage::new(dir.path()))))] {
            let mut table = Table::new(72, &scratch);
            let record = |number: u32| [number.to_le_bytes().as_slice(), &[7; 68]].concat();
            for number in 0..50_000 {
                table.push(&record(number)).unwrap();
            }
            table.set(3, &record(1_000_003)).unwrap();
            table.set(49_999, &record(1_049_999)).unwrap();
            table.set(50_010, &record(50_010)).unwrap();
            let mut out = [1; 72];
            for (number, wanted) in [(0, 0), (3, 1_000_003), (25_000, 25_000), (49_999, 1_049_999), (50_010, 50_010)] {
                table.read(number, &mut out).unwrap();
                assert_eq!(out[..], record(wanted)[..], "{number}");
            }
            table.read(50_005, &mut out).unwrap();
            assert_eq!(out, [0; 72]);
            assert_eq!(table.len(), 50_011);
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "files without a name leave nothing");
    }

    /// A process may be killed before the name is gone.
    #[test]
    fn in_a_repository_a_file_has_a_name_that_git_clears_away() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("objects")).unwrap();
        let names = Arc::new(Mutex::new(Vec::new()));
        let told = names.clone();
        let hooked = Hooked::new(Arc::new(RealStorage::new(dir.path())), move |coming| {
            if coming.method == "open" {
                told.lock().unwrap().push(coming.name.to_owned());
            }
        });
        let mut table = Table::new(72, &Scratch::of_repository(Arc::new(hooked)));
        for _ in 0..50_000 {
            table.push(&[7; 72]).unwrap();
        }
        let names = names.lock().unwrap();
        assert!(names.len() == 1 && names[0].starts_with("objects/tmp_"), "{names:?}");
        assert_eq!(std::fs::read_dir(dir.path().join("objects")).unwrap().count(), 0);
    }
}
