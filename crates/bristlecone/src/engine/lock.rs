//! The lock of a store: one file, locked by the process that writes. A wait has a bound, and then the holder is named.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, OnceLock},
    thread,
    time::{Duration, Instant},
};

use crate::{
    Error,
    storage::{OpenMode, Origin, Storage, StorageFile, retry},
    sync::lock,
};

/// The lock that writers take, over a file that is never removed.
///
/// One thread of one process holds it at a time. A process that was forked from the one which made the value is refused:
/// both would hold one lock.
#[derive(Debug)]
pub struct StoreLock {
    storage: Arc<dyn Storage>,
    name: String,
    wait_ms: u64,
    origin: Origin,
    /// Opened, and made, when the lock is first taken.
    file: OnceLock<Arc<dyn StorageFile>>,
    /// Held with the lock: the system keeps processes apart, and the threads of one are not its concern.
    gate: Mutex<()>,
}

impl StoreLock {
    /// Returns the lock over the file `name`. `wait_ms`: how long [`StoreLock::take`] waits for other processes, in
    /// milliseconds.
    pub fn new(storage: Arc<dyn Storage>, name: impl Into<String>, wait_ms: u64) -> Self {
        let (origin, file) = (Origin::here(), OnceLock::new());
        Self { storage, name: name.into(), wait_ms, origin, file, gate: Mutex::default() }
    }

    /// Takes the lock. Other threads of this process are waited for without a bound, other processes as long as allowed.
    /// The file and its folder are made if need be.
    ///
    /// # Errors
    /// [`Error::Locked`] naming the holder; [`Error::Usage`] in a forked process; [`Error::Io`].
    pub fn take(&self) -> Result<StoreLockGuard<'_>, Error> {
        self.refuse_child()?;
        let gate = lock(&self.gate);
        let file = match self.file.get() {
            Some(file) => file,
            None => {
                let opened = self.open().map_err(|error| Error::io(self.storage.describe(&self.name), error))?;
                self.file.get_or_init(|| opened)
            }
        };
        Wait::new(self.wait_ms).lock(&*self.storage, &**file, &self.name, || {})?;
        Ok(StoreLockGuard { file: &**file, _gate: gate })
    }

    /// Whether the lock was taken before, so that its file and folder are there.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.file.get().is_some()
    }

    /// Fails in a process that was forked from the one which opened the store.
    ///
    /// # Errors
    /// [`Error::Usage`].
    pub fn refuse_child(&self) -> Result<(), Error> {
        self.origin.check()
    }

    fn open(&self) -> io::Result<Arc<dyn StorageFile>> {
        let open = || retry(|| self.storage.open(&self.name, OpenMode::Create));
        match (open(), self.name.rsplit_once('/')) {
            (Err(error), Some((folder, _))) if error.kind() == io::ErrorKind::NotFound => {
                retry(|| self.storage.create_dir(folder))?;
                open()
            }
            (opened, _) => opened,
        }
    }
}

/// The lock, held until dropped.
#[derive(Debug)]
#[must_use = "the lock is given back once it is dropped"]
pub struct StoreLockGuard<'a> {
    file: &'a dyn StorageFile,
    _gate: MutexGuard<'a, ()>,
}

impl Drop for StoreLockGuard<'_> {
    fn drop(&mut self) {
        // A lock that cannot be given back ends with the handle; there is nothing better to do here.
        let _ = self.file.unlock();
    }
}

/// A wait for the lock of a file, or of several one after the other, with one bound.
#[derive(Debug)]
pub(crate) struct Wait {
    bound_ms: u64,
    since: Option<Instant>,
}

impl Wait {
    pub(crate) const fn new(bound_ms: u64) -> Self {
        Self { bound_ms, since: None }
    }

    /// Takes a file's lock as soon as it is free; calls `meets` each time that another is found to hold it.
    #[inline]
    pub(crate) fn lock(
        &mut self,
        storage: &dyn Storage,
        file: &dyn StorageFile,
        name: &str,
        meets: impl Fn(),
    ) -> Result<(), Error> {
        // A holder is done within microseconds, unless it syncs or was stopped.
        let mut pause = Duration::from_micros(5);
        loop {
            match file.try_lock() {
                Ok(true) => return Ok(()),
                Ok(false) => meets(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io(storage.describe(name), error)),
            }
            let waited = self.since.get_or_insert_with(Instant::now).elapsed();
            if waited >= Duration::from_millis(self.bound_ms) {
                let holder = file.lock_holder().unwrap_or_else(|| "another process".to_owned());
                let file = storage.describe(name);
                return Err(Error::Locked { file, holder, waited_ms: waited.as_millis() as u64 });
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(1));
        }
    }
}
