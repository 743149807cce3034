//! The lock of the store: the process that has the store open holds it until it closes it.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use bristlecone::{
    Error, Result,
    storage::{OpenMode, Origin, Storage, StorageFile, retry},
};

const NAME: &str = "lock";
/// How long a wait lasts until it looks again.
const PAUSE: Duration = Duration::from_millis(2);

/// The lock, held until dropped.
#[derive(Debug)]
pub(super) struct Holder {
    file: Arc<dyn StorageFile>,
    origin: Origin,
}

impl Holder {
    /// Takes the lock. Waits for another process at most so long.
    pub(super) fn take(storage: &dyn Storage, wait_ms: u64) -> Result<Self> {
        let failed = |error| Error::io(storage.describe(NAME), error);
        let file = retry(|| storage.open(NAME, OpenMode::Create)).map_err(failed)?;
        let since = Instant::now();
        while !retry(|| file.try_lock()).map_err(failed)? {
            let waited = since.elapsed();
            if waited >= Duration::from_millis(wait_ms) {
                let holder = file.lock_holder().unwrap_or_else(|| "another process".to_owned());
                return Err(Error::Locked {
                    file: storage.describe(NAME),
                    holder,
                    waited_ms: waited.as_millis() as u64,
                });
            }
            thread::sleep(PAUSE);
        }
        Ok(Self { file, origin: Origin::here() })
    }

    /// Fails in a process that was forked from the one which opened the store.
    pub(super) fn refuse_child(&self) -> Result<()> {
        self.origin.check()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        if self.origin.is_here() {
            // A lock that cannot be given back ends with the handle.
            let _ = self.file.unlock();
        }
    }
}
