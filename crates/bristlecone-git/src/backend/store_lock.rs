//! The lock of the store: whoever moves refs holds it, among processes of ours. Git does not know it.

use std::{
    io,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use bristlecone::{
    Error, Result,
    storage::{OpenMode, StorageFile},
};

use super::journal::OURS;
use crate::files::Files;

const LOCK: &str = "bristlecone/lock";

/// The file whose lock writers take.
#[derive(Debug)]
pub(super) struct StoreLock {
    file: Arc<dyn StorageFile>,
    name: String,
}

impl StoreLock {
    /// Opens the lock's file, making it and its folder if need be.
    pub(super) fn open(files: &Files) -> Result<Self> {
        let file = match files.open_raw(LOCK, OpenMode::Create) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                files.create_dir(OURS)?;
                files.open(LOCK, OpenMode::Create)?
            }
            opened => files.named(LOCK, opened)?,
        };
        Ok(Self { file, name: files.describe(LOCK) })
    }

    /// Takes the lock, waiting for it as long as allowed.
    ///
    /// # Errors
    /// [`Error::Locked`] naming the holder; [`Error::Io`].
    pub(super) fn take(&self, wait_ms: u64) -> Result<StoreLockGuard<'_>> {
        let start = Instant::now();
        let mut pause = Duration::from_micros(5);
        loop {
            match self.file.try_lock() {
                Ok(true) => return Ok(StoreLockGuard(self)),
                Ok(false) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io(self.name.clone(), error)),
            }
            let waited = start.elapsed();
            if waited >= Duration::from_millis(wait_ms) {
                let holder = self.file.lock_holder().unwrap_or_else(|| "another process".to_owned());
                return Err(Error::Locked { file: self.name.clone(), holder, waited_ms: waited.as_millis() as u64 });
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(1));
        }
    }
}

/// The lock, held until dropped.
#[derive(Debug)]
pub(super) struct StoreLockGuard<'a>(&'a StoreLock);

impl Drop for StoreLockGuard<'_> {
    fn drop(&mut self) {
        // A lock that cannot be given back ends with the handle; nobody could do better here.
        let _ = self.0.file.unlock();
    }
}
