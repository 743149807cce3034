//! The lock of the store, held for one append: a wait has a limit, and then the holder is named.

use std::{
    io,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use crate::{
    Error,
    storage::{OpenMode, Storage, StorageFile},
};

/// The name of the lock's file.
pub(super) const LOCK: &str = "lock";

/// The file whose lock writers take.
#[derive(Debug)]
pub(super) struct StoreLock {
    file: Arc<dyn StorageFile>,
    name: String,
    wait_ms: u64,
}

impl StoreLock {
    /// Opens the lock's file, making it if need be.
    pub(super) fn open(storage: &Arc<dyn Storage>, wait_ms: u64) -> Result<Self, Error> {
        let name = storage.describe(LOCK);
        let file = storage.open(LOCK, OpenMode::Create).map_err(|error| Error::io(name.clone(), error))?;
        Ok(Self { file, name, wait_ms })
    }

    /// Takes the lock, waiting for it as long as allowed.
    ///
    /// # Errors
    /// [`Error::Locked`] naming the holder; [`Error::Io`].
    pub(super) fn take(&self) -> Result<StoreLockGuard<'_>, Error> {
        if self.try_take()? {
            return Ok(StoreLockGuard(self));
        }
        let start = Instant::now();
        // A holder is done within microseconds, unless it syncs or was stopped.
        let mut pause = Duration::from_micros(5);
        loop {
            thread::sleep(pause);
            if self.try_take()? {
                return Ok(StoreLockGuard(self));
            }
            let waited = start.elapsed();
            if waited >= Duration::from_millis(self.wait_ms) {
                let holder = self.file.lock_holder().unwrap_or_else(|| "another process".to_owned());
                return Err(Error::Locked { file: self.name.clone(), holder, waited_ms: waited.as_millis() as u64 });
            }
            pause = (pause * 2).min(Duration::from_millis(1));
        }
    }

    fn try_take(&self) -> Result<bool, Error> {
        match self.file.try_lock() {
            Ok(taken) => Ok(taken),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            Err(error) => Err(Error::io(self.name.clone(), error)),
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
