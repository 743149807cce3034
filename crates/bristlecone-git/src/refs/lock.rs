//! Git's locks: `NAME.lock` exists for as long as somebody changes `NAME`.
//!
//! Our own lock files say that they are ours. They are only ever made by whoever holds the lock of the store (the
//! `flock` on `bristlecone/lock`), so one that such a holder meets was left by somebody who died, and is removed. An
//! empty one, or one of zeroes, may be what a power cut left of ours, or be held by a Git at work: it is removed once
//! it has stayed the same for long.

use std::{
    io, process, thread,
    time::{Duration, Instant},
};

use bristlecone::{
    Error, Result,
    storage::{OpenMode, write_all_at},
};

use crate::{
    error,
    files::{Files, Found, folder, is_absent},
};

/// A lock file that nobody needs at the time: it is given other names again and again, since file systems take long to
/// make a file where many were removed.
const SPARE: &str = "bristlecone/lock-spare";
/// What our lock files begin with.
const OURS: &[u8] = b"bristlecone ";
/// How often folders that vanish under the hands are made again.
const FOLDERS_MAX: usize = 20;

/// How long to wait for a lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LockWait {
    /// For one that somebody holds, in milliseconds.
    pub(crate) held_ms: u64,
    /// Until one that is empty counts as left behind, in milliseconds.
    pub(crate) stale_ms: u64,
}

/// A lock file of ours, removed when dropped.
#[derive(Debug)]
pub(crate) struct RefLock {
    files: Files,
    // The lock file; empty once it was removed.
    name: String,
}

impl RefLock {
    /// Makes the lock file of `path`, and the folders that it is in. The lock of the store must be held.
    ///
    /// # Errors
    /// [`Error::Locked`] if somebody else holds it for longer than allowed; [`Error::Io`], with
    /// [`io::ErrorKind::NotADirectory`] if a file is where a folder should be.
    pub(crate) fn take(files: &Files, path: &str, wait: LockWait) -> Result<Self> {
        let name = format!("{path}.lock");
        let mut waiting = None;
        let mut folders = 0;
        if files.rename_new_raw(SPARE, &name).is_ok() {
            return Ok(Self { files: files.clone(), name });
        }
        loop {
            match files.open_raw(&name, OpenMode::CreateNew) {
                Ok(file) => {
                    let lock = Self { files: files.clone(), name };
                    let line = format!("bristlecone {}\n", process::id());
                    files.named(&lock.name, write_all_at(&*file, line.as_bytes(), 0))?;
                    return Ok(lock);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    waiting.get_or_insert_with(|| Waiting::new(wait)).step(files, &name)?;
                }
                // Git removes folders that become empty, also one that was made just now.
                Err(error) if is_absent(&error) && folders < FOLDERS_MAX => {
                    folders += 1;
                    make_dir(files, folder(path))?;
                }
                Err(error) => return Err(error::io(files.describe(&name), error)),
            }
        }
    }

    /// Removes the lock file.
    pub(crate) fn release(mut self) -> Result<()> {
        let name = std::mem::take(&mut self.name);
        match self.files.rename_new_raw(&name, SPARE) {
            Ok(()) => Ok(()),
            Err(_) => self.files.remove(&name).map(drop),
        }
    }
}

impl Drop for RefLock {
    fn drop(&mut self) {
        if !self.name.is_empty() {
            // The next holder of the store's lock removes what stays.
            let _ = self.files.remove(&self.name);
        }
    }
}

/// Makes a folder; says so if a file is where it should be.
fn make_dir(files: &Files, dir: &str) -> Result<()> {
    match files.create_dir(dir) {
        Err(Error::Io { file, source })
            if matches!(source.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory) =>
        {
            Err(Error::Io { file, source: io::ErrorKind::NotADirectory.into() })
        }
        made => made,
    }
}

/// A wait for somebody else's lock.
struct Waiting {
    wait: LockWait,
    began: Instant,
    pause: Duration,
    // The lock as it was first seen without a word in it.
    wordless: Option<(Instant, u64)>,
}

impl Waiting {
    fn new(wait: LockWait) -> Self {
        // Git holds the lock of a ref for a fraction of a millisecond.
        Self { wait, began: Instant::now(), pause: Duration::from_micros(50), wordless: None }
    }

    /// Removes a lock that nobody holds, or waits a little.
    fn step(&mut self, files: &Files, name: &str) -> Result<()> {
        let Found::Bytes(bytes) = files.read_up_to(name, 64)? else { return Ok(()) };
        if bytes.starts_with(OURS) {
            return files.remove(name).map(drop);
        }
        if bytes.iter().all(|&byte| byte == 0) || OURS.starts_with(&bytes) {
            let Some(stat) = files.stat(name)? else { return Ok(()) };
            let (since, id) = *self.wordless.get_or_insert((Instant::now(), stat.id));
            if id != stat.id {
                self.wordless = None;
            } else if since.elapsed() >= Duration::from_millis(self.wait.stale_ms) {
                self.wordless = None;
                return files.remove(name).map(drop);
            }
        } else {
            self.wordless = None;
        }
        let waited = self.began.elapsed();
        if waited >= Duration::from_millis(self.wait.held_ms) {
            return Err(Error::Locked {
                file: files.describe(name),
                holder: "another Git process (remove the file if none is at work)".to_owned(),
                waited_ms: waited.as_millis() as u64,
            });
        }
        thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(Duration::from_millis(10));
        Ok(())
    }
}
