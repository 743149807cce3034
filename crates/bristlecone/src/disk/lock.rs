//! The lock of the store, held for one append: a wait has a limit, and then the holder is named.
//!
//! It is two locks. `lock` is the one that every version of the engine takes. That file may be removed while a writer
//! holds the lock, and the next writer would lock a file of its own. So the header is locked as well, whose loss is
//! noticed: without it no store opens. A writer checks now and then whether both names still lead to the files that it
//! locks, and opens them again if not.
//!
//! A writer that appends again and again keeps the header locked in between (`lock/kept.rs`).

mod collector;
mod kept;

use std::{
    io,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

pub(super) use self::collector::CollectorLock;
use self::kept::KeptLock;
use super::{
    DiskOptions,
    files::{LOCK, STORE},
    header::StoreHeader,
};
use crate::{
    Error,
    engine::Wait,
    storage::{OpenMode, Origin, Storage, StorageFile},
    sync::lock,
};

/// After so long every writer has looked at the names again: the clock by which they look goes on at least every 10 ms.
pub(super) const NOTICED: Duration = Duration::from_millis(25);
/// How often files that another process replaces meanwhile are opened again before that is an error.
const ATTEMPTS: usize = 20;

/// The lock that writers take.
#[derive(Debug)]
pub(super) struct DiskLock {
    storage: Arc<dyn Storage>,
    files: Mutex<Arc<LockFiles>>,
    /// What the header says, once that is known.
    header: OnceLock<StoreHeader>,
    origin: Origin,
    wait_ms: u64,
    /// Whether the header may stay locked between two appends, which needs a thread.
    keeps: bool,
}

/// The files that are locked, in this order.
#[derive(Debug)]
struct LockFiles {
    lock: Arc<dyn StorageFile>,
    /// `None` while the store is being made.
    header: Option<Arc<KeptLock>>,
    /// When the names were looked at last, in milliseconds of [`coarse_ms`]; 0: never.
    looked_ms: AtomicU64,
}

impl LockFiles {
    fn open(storage: &Arc<dyn Storage>) -> Result<Arc<Self>, Error> {
        let lock = storage.open(LOCK, OpenMode::Create).map_err(|error| Error::io(storage.describe(LOCK), error))?;
        let header = match open_header(storage) {
            Ok(file) => Some(KeptLock::new(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(Error::io(storage.describe(STORE), error)),
        };
        Ok(Arc::new(Self { lock, header, looked_ms: AtomicU64::new(0) }))
    }

    /// Whether the names stand for these files, as far as was looked lately. The caller holds the locks.
    fn are_named(&self, storage: &Arc<dyn Storage>) -> Result<bool, Error> {
        let now = coarse_ms();
        if self.header.is_some() && now == self.looked_ms.load(Relaxed) {
            return Ok(true);
        }
        let header = self.header.as_ref().map(|header| header.file());
        if !stands_for(storage, LOCK, Some(&self.lock))? || !stands_for(storage, STORE, header)? {
            return Ok(false);
        }
        self.looked_ms.store(now, Relaxed);
        Ok(true)
    }
}

/// Opens the header to lock it: for writing, too, where that is allowed, since NFS locks no file exclusively that is open for
/// reading alone. Nothing is written to it.
fn open_header(storage: &Arc<dyn Storage>) -> io::Result<Arc<dyn StorageFile>> {
    match storage.open(STORE, OpenMode::Write) {
        // As another user's.
        Err(error) if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem) => {
            storage.open(STORE, OpenMode::Read)
        }
        opened => opened,
    }
}

/// Whether a name stands for a file that was opened under it; without one, for none.
fn stands_for(storage: &Arc<dyn Storage>, name: &str, file: Option<&Arc<dyn StorageFile>>) -> Result<bool, Error> {
    let named = match storage.stat(name) {
        Ok(found) => Some(found.id),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        // A storage whose files have no numbers.
        Err(error) if error.kind() == io::ErrorKind::Unsupported => return Ok(true),
        Err(error) => return Err(Error::io(storage.describe(name), error)),
    };
    match file.map(|file| file.id()).transpose() {
        Ok(own) => Ok(named == own),
        Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(true),
        Err(error) => Err(Error::io(storage.describe(name), error)),
    }
}

/// Returns a clock's milliseconds, plus one. It goes on in steps of some milliseconds and costs next to nothing.
#[cfg(target_os = "linux")]
fn coarse_ms() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000 + 1
}

/// As above, from the ordinary clock.
#[cfg(not(target_os = "linux"))]
fn coarse_ms() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000 + 1
}

impl DiskLock {
    /// Opens the lock's files, making `lock` if need be.
    pub(super) fn open(storage: &Arc<dyn Storage>, options: &DiskOptions) -> Result<Self, Error> {
        let files = Mutex::new(LockFiles::open(storage)?);
        let (wait_ms, keeps) = (options.lock_wait_ms, options.background);
        Ok(Self { storage: storage.clone(), files, header: OnceLock::new(), origin: Origin::here(), wait_ms, keeps })
    }

    /// Sets the header of the store: the lock is never taken under another one.
    pub(super) fn expect(&self, header: &StoreHeader) {
        let _ = self.header.set(header.clone());
    }

    /// Fails in a process that was forked from the one which opened the store: both would hold one lock.
    pub(super) fn refuse_child(&self) -> Result<(), Error> {
        self.origin.check()
    }

    /// Whether this process opened the store.
    pub(super) fn is_own(&self) -> bool {
        self.origin.is_here()
    }

    /// Takes the lock, waiting for it as long as allowed.
    ///
    /// # Errors
    /// [`Error::Locked`] naming the holder; [`Error::Usage`] in a forked process; [`Error::Lost`] if the header has
    /// vanished; [`Error::Io`].
    pub(super) fn take(&self) -> Result<DiskLockGuard, Error> {
        self.refuse_child()?;
        let mut wait = Wait::new(self.wait_ms);
        for _ in 0..ATTEMPTS {
            let files = lock(&self.files).clone();
            let mut guard = DiskLockGuard { files, headed: false, keeps: self.keeps };
            let header = guard.files.header.as_ref();
            // The holder of `lock` may be waiting for the header.
            let meets = || header.into_iter().for_each(|header| header.share());
            wait.lock(&*self.storage, &*guard.files.lock, LOCK, meets)?;
            if let Some(header) = header {
                if !header.take_kept() {
                    if let Err(error) = wait.lock(&*self.storage, &**header.file(), STORE, meets) {
                        drop(guard);
                        return Err(error);
                    }
                    header.taken();
                }
                guard.headed = true;
            }
            if guard.files.are_named(&self.storage)? {
                return Ok(guard);
            }
            guard.keeps = false;
            drop(guard);
            *lock(&self.files) = LockFiles::open(&self.storage)?;
            if let Some(expected) = self.header.get()
                && !StoreHeader::read(&self.storage)?.is_of(expected)
            {
                let reason = "another store has taken the place of the one that was opened here; open it anew";
                return Err(Error::Lost { file: self.storage.describe(STORE), reason: reason.to_owned() });
            }
        }
        let file = self.storage.describe(LOCK);
        Err(Error::Locked { file, holder: "something that replaces it again and again".to_owned(), waited_ms: 0 })
    }
}

/// The lock, held until dropped.
#[derive(Debug)]
pub(super) struct DiskLockGuard {
    files: Arc<LockFiles>,
    /// Whether the header is locked too.
    headed: bool,
    /// Whether it may stay so.
    keeps: bool,
}

impl Drop for DiskLockGuard {
    fn drop(&mut self) {
        // A lock that cannot be given back ends with the handle; there is nothing better to do here.
        if let Some(header) = self.files.header.as_ref().filter(|_| self.headed) {
            header.let_go(self.keeps);
        }
        let _ = self.files.lock.unlock();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, OpenOptions, Permissions},
        os::unix::fs::PermissionsExt,
    };

    use super::*;
    use crate::storage::RealStorage;

    /// NFS locks no file exclusively that is open for reading alone.
    #[test]
    fn the_header_is_locked_open_for_writing_where_that_is_allowed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(STORE);
        fs::write(&path, "header").unwrap();
        let storage: Arc<dyn Storage> = Arc::new(RealStorage::new(dir.path()));
        let may_write = || {
            let files = LockFiles::open(&storage).unwrap();
            let header = files.header.as_ref().unwrap().file();
            assert!(header.try_lock().unwrap());
            let set = header.set_len(6);
            header.unlock().unwrap();
            set.is_ok()
        };
        assert!(may_write());
        fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
        // Nothing keeps the superuser out.
        assert_eq!(may_write(), OpenOptions::new().write(true).open(&path).is_ok());
        assert_eq!(fs::read(&path).unwrap(), b"header");
    }
}
