//! The lock of an index: Git's own, a file beside it that becomes the new index.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use bristlecone::{Error, Result};

/// How long to sleep between two tries.
const PAUSE: Duration = Duration::from_millis(10);

/// The lock, held; dropping it gives it up.
#[derive(Debug)]
pub(super) struct IndexLock {
    path: PathBuf,
    index: PathBuf,
    file: File,
    done: bool,
}

impl IndexLock {
    /// Takes the lock of the index in `git_dir`, waiting for others for so many milliseconds at most.
    pub(super) fn take(git_dir: &Path, wait_ms: u64) -> Result<Self> {
        let (path, index) = (git_dir.join("index.lock"), git_dir.join("index"));
        let began = Instant::now();
        loop {
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => return Ok(Self { path, index, file, done: false }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(source) => return Err(Error::Io { file: path.display().to_string(), source }),
            }
            let waited = began.elapsed();
            if waited >= Duration::from_millis(wait_ms) {
                return Err(Error::Locked {
                    file: path.display().to_string(),
                    holder: "another process, or one that was killed (then remove the file)".to_owned(),
                    waited_ms: waited.as_millis() as u64,
                });
            }
            thread::sleep(PAUSE);
        }
    }

    /// Makes `bytes` the index, durable if wanted, and gives the lock up.
    pub(super) fn replace(mut self, bytes: &[u8], synced: bool) -> Result<()> {
        let failed = |source| Error::Io { file: self.index.display().to_string(), source };
        self.file.write_all(bytes).map_err(failed)?;
        if synced {
            self.file.sync_all().map_err(failed)?;
        }
        fs::rename(&self.path, &self.index).map_err(failed)?;
        self.done = true;
        if synced && let Some(folder) = self.index.parent() {
            File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
        }
        Ok(())
    }
}

impl Drop for IndexLock {
    fn drop(&mut self) {
        if !self.done {
            // Nobody could be told; the next who wants the lock is.
            let _ = fs::remove_file(&self.path);
        }
    }
}
