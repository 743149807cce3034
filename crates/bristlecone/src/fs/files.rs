//! The files of a store by their names: every failure names its file, and a call that is interrupted is made again.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use crate::{
    Error,
    storage::{OpenMode, Stat, Storage, StorageFile, Unopened, read_exact_at, retry, write_all_at},
};

/// The folder of objects, in folders by the first byte of their ids.
pub(super) const OBJECTS: &str = "objects";
/// The folder of files that are being written.
pub(super) const NEW: &str = "new";
/// The folder of files that the processes which have the store open hold locks of.
pub(super) const OPEN: &str = "open";
/// The folder of derived files.
pub(super) const DERIVED: &str = "derived";
/// The file of the store's lock.
pub(super) const LOCK: &str = "lock";
/// The file of the header, which `engine::Header` writes.
pub(super) const STORE: &str = "store";
/// What is read of a file first: most objects are shorter.
const FIRST_BYTES: usize = 4096;

/// The files of a store.
#[derive(Debug)]
pub(super) struct Files {
    storage: Arc<dyn Storage>,
    pub(super) syncs: AtomicU64,
    pub(super) bytes_written: AtomicU64,
}

impl Files {
    pub(super) fn new(storage: Arc<dyn Storage>) -> Self {
        Self { storage, syncs: AtomicU64::new(0), bytes_written: AtomicU64::new(0) }
    }

    pub(super) fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    pub(super) fn describe(&self, name: &str) -> String {
        self.storage.describe(name)
    }

    /// Makes a call, again as long as it is interrupted; its failure names the file.
    pub(super) fn call<T>(&self, name: &str, call: impl FnMut() -> io::Result<T>) -> Result<T, Error> {
        retry(call).map_err(|error| Error::io(self.describe(name), error))
    }

    /// As [`Files::call`], with `None` where the file is absent.
    fn call_if_there<T>(&self, name: &str, call: impl FnMut() -> io::Result<T>) -> Result<Option<T>, Error> {
        match retry(call) {
            Err(error) if is_absent(&error) => Ok(None),
            done => done.map(Some).map_err(|error| Error::io(self.describe(name), error)),
        }
    }

    pub(super) fn open(&self, name: &str, mode: OpenMode) -> Result<Arc<dyn StorageFile>, Error> {
        self.call(name, || self.storage.open(name, mode))
    }

    pub(super) fn open_if_there(&self, name: &str) -> Result<Option<Arc<dyn StorageFile>>, Error> {
        self.call_if_there(name, || self.storage.open(name, OpenMode::Read))
    }

    pub(super) fn stat(&self, name: &str) -> Result<Option<Stat>, Error> {
        self.call_if_there(name, || self.storage.stat(name))
    }

    /// Returns the names in a folder, in order; none if the folder is absent.
    pub(super) fn list(&self, folder: &str) -> Result<Vec<String>, Error> {
        let mut names = self.call_if_there(folder, || self.storage.list(folder))?.unwrap_or_default();
        names.sort_unstable();
        Ok(names)
    }

    pub(super) fn create_dir(&self, name: &str) -> Result<(), Error> {
        self.call(name, || self.storage.create_dir(name))
    }

    /// Creates a folder in one that is there; its name is not durable.
    pub(super) fn create_dir_unsynced(&self, name: &str) -> Result<(), Error> {
        self.call(name, || self.storage.create_dir_unsynced(name))
    }

    /// Writes a file that is not there; what an earlier process left under the name is removed.
    pub(super) fn write_new(&self, name: &str, bytes: &[u8]) -> Result<Arc<dyn StorageFile>, Error> {
        let open = || retry(|| self.storage.open(name, OpenMode::CreateNew));
        let opened = match open() {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.remove(name)?;
                open()
            }
            opened => opened,
        };
        let file = opened.map_err(|error| Error::io(self.describe(name), error))?;
        let written = write_all_at(&*file, bytes, 0);
        self.bytes_written.fetch_add(bytes.len() as u64, Relaxed);
        match written {
            Ok(()) => Ok(file),
            Err(error) => {
                // A part of it is of no use. The next process that opens the store removes it otherwise.
                let _ = self.remove(name);
                Err(Error::io(self.describe(name), error))
            }
        }
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        self.call(to, || self.storage.rename(from, to))
    }

    /// Renames a file; `false` if the folder that it should come to is absent.
    pub(super) fn rename_into(&self, from: &str, to: &str) -> Result<bool, Error> {
        Ok(self.call_if_there(to, || self.storage.rename(from, to))?.is_some())
    }

    /// Gives a file the name of another, which is no more. File systems flush what a rename puts in place of another file: an
    /// exchange of names does the same without.
    pub(super) fn replace(&self, from: &str, to: &str) -> Result<(), Error> {
        match retry(|| self.storage.exchange(from, to)) {
            Ok(()) => {
                // What stays is removed before the next file is written under this name.
                let _ = self.remove(from);
                Ok(())
            }
            Err(error) if is_absent(&error) || error.kind() == io::ErrorKind::Unsupported => self.rename(from, to),
            // Some file systems know the call and refuse it.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => self.rename(from, to),
            Err(error) => Err(Error::io(self.describe(to), error)),
        }
    }

    /// Removes a file; returns whether it was there.
    pub(super) fn remove(&self, name: &str) -> Result<bool, Error> {
        Ok(self.call_if_there(name, || self.storage.remove(name))?.is_some())
    }

    /// Makes the contents of a file durable. Any failure is final: a second call would succeed and say nothing of the first.
    pub(super) fn sync(&self, name: &str, file: &dyn StorageFile) -> Result<(), Error> {
        self.syncs.fetch_add(1, Relaxed);
        file.sync_data().map_err(|error| Error::io(self.describe(name), error))
    }

    pub(super) fn sync_dir(&self, name: &str) -> Result<(), Error> {
        self.syncs.fetch_add(1, Relaxed);
        self.call(name, || self.storage.sync_dir(name))
    }

    /// Makes the name durable that an open file has just got in the store's folder. Others see it already: where the folder cannot
    /// be opened, as by a process without a handle left, the file system is synced by the handle of the file.
    pub(super) fn sync_name(&self, name: &str, file: &dyn StorageFile) -> Result<(), Error> {
        let done = self.sync_dir("");
        if !done.as_ref().is_err_and(is_unopened) {
            return done;
        }
        let is_synced = file.sync_file_system().map_err(|error| Error::io(self.describe(name), error))?;
        if is_synced { Ok(()) } else { done }
    }

    /// Calls `take` with the bytes of a file, once or twice: with what a first read gave, and if `take` returns nothing for
    /// that, with all of it. `None` if the file is absent. The file may have `bytes_max` bytes.
    pub(super) fn read_with<T>(
        &self,
        name: &str,
        bytes_max: u64,
        mut take: impl FnMut(&[u8], bool) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some(file) = self.open_if_there(name)? else { return Ok(None) };
        let mut first = [0; FIRST_BYTES];
        let count = self.call(name, || file.read_at(&mut first, 0))?;
        if let Some(taken) = take(&first[..count], false) {
            return Ok(Some(taken));
        }
        let bytes = self.read_open(name, &*file, bytes_max)?;
        Ok(take(&bytes, true))
    }

    /// Returns the last bytes of a file; the inner `None` if it has fewer, the outer if it is absent.
    pub(super) fn read_end<const BYTES: usize>(&self, name: &str) -> Result<Option<Option<[u8; BYTES]>>, Error> {
        let Some(file) = self.open_if_there(name)? else { return Ok(None) };
        let Some(at) = self.call(name, || file.len())?.checked_sub(BYTES as u64) else { return Ok(Some(None)) };
        let mut buffer = [0; BYTES];
        self.call(name, || read_exact_at(&*file, &mut buffer, at))?;
        Ok(Some(Some(buffer)))
    }

    /// Returns the bytes of an open file, or an error if it has more than `bytes_max`.
    pub(super) fn read_open(&self, name: &str, file: &dyn StorageFile, bytes_max: u64) -> Result<Vec<u8>, Error> {
        let bytes = self.call(name, || file.len())?;
        if bytes > bytes_max {
            let reason = format!("the file has {bytes} bytes, and none of its kind has more than {bytes_max}");
            return Err(Error::Corrupt { file: self.describe(name), offset: bytes_max, oid: None, reason });
        }
        let mut buffer = vec![0; bytes as usize];
        self.call(name, || read_exact_at(file, &mut buffer, 0))?;
        Ok(buffer)
    }
}

/// Whether a folder was not synced since it could not be opened.
pub(super) fn is_unopened(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if Unopened::is(source))
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
