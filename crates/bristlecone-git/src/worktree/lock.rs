//! The lock of an index: Git's own, a file beside it that becomes the new index.

use std::{
    io,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use bristlecone::{
    Error, Result,
    storage::{OpenMode, Storage, StorageFile},
};

use crate::repository::{files::Files, refs::held_error};

const INDEX: &str = "index";
const LOCK: &str = "index.lock";
/// How long to sleep between two tries.
const PAUSE: Duration = Duration::from_millis(10);

/// The lock, held; dropping it gives it up.
#[derive(Debug)]
pub(super) struct IndexLock {
    files: Files,
    file: Arc<dyn StorageFile>,
    done: bool,
}

impl IndexLock {
    /// Takes the lock of the index in the folder of `storage`, waiting for other processes for `wait_ms` milliseconds
    /// at most.
    pub(super) fn take(storage: Arc<dyn Storage>, wait_ms: u64) -> Result<Self> {
        let files = Files::new(storage);
        let began = Instant::now();
        loop {
            match files.open_raw(LOCK, OpenMode::CreateNew) {
                Ok(file) => return Ok(Self { files, file, done: false }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(source) => return Err(Error::io(files.describe(LOCK), source)),
            }
            let waited = began.elapsed();
            if waited >= Duration::from_millis(wait_ms) {
                held_error(&files, LOCK, waited)?.map_or(Ok(()), Err)?;
            }
            thread::sleep(PAUSE);
        }
    }

    /// Makes `bytes` the index, durable if wanted, and gives the lock up.
    pub(super) fn replace(mut self, bytes: &[u8], synced: bool) -> Result<()> {
        self.files.write_at(LOCK, &*self.file, bytes, 0)?;
        if synced {
            self.files.sync_open(LOCK, &*self.file)?;
        }
        self.files.rename(LOCK, INDEX)?;
        self.done = true;
        if synced { self.files.sync_dir("").map(drop) } else { Ok(()) }
    }
}

impl Drop for IndexLock {
    fn drop(&mut self) {
        if !self.done {
            // There is no caller to tell; the next process that wants the lock learns of it.
            let _ = self.files.remove(LOCK);
        }
    }
}

#[cfg(test)]
mod tests {
    use bristlecone::storage::RealStorage;

    use super::*;

    #[test]
    fn the_wait_ends_also_for_a_folder_and_for_a_link_that_leads_nowhere() {
        for link in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let lock = dir.path().join(LOCK);
            if link {
                std::os::unix::fs::symlink("nowhere", &lock).unwrap();
            } else {
                std::fs::create_dir(&lock).unwrap();
            }
            let began = Instant::now();
            let storage = Arc::new(RealStorage::new(dir.path()).following_links());
            let taken = IndexLock::take(storage, 20);
            assert!(matches!(taken, Err(Error::Locked { .. })), "{taken:?}");
            assert!(began.elapsed() < Duration::from_secs(1));
        }
    }
}
