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

use crate::repository::{
    files::{self, Files, ReadOutcome},
    refs::holder,
};

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
            if waited >= Duration::from_millis(wait_ms)
                && let Some(stat) = files.stat(LOCK)?
                && let ReadOutcome::Bytes(bytes) = files.read_up_to(LOCK, 64)?
            {
                let file = files.describe(LOCK);
                let holder = holder(&file, &bytes, files::age(&stat));
                return Err(Error::Locked { file, holder, waited_ms: waited.as_millis() as u64 });
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
