//! A storage that lies: what a test suite must catch if it is worth running.

use std::{
    fmt, io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use bristlecone::storage::{FileMap, OpenMode, Reach, Stat, Storage, StorageFile};

/// What a [`Lying`] storage only pretends to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// Syncs of files succeed and do nothing.
    Syncs,
    /// Syncs of folders succeed and do nothing.
    DirSyncs,
    /// Locks are given to every caller.
    Locks,
}

/// A storage around another that pretends to do something, to prove that suites notice.
#[derive(Clone, Debug)]
pub struct Lying {
    inner: Arc<dyn Storage>,
    lie: Arc<Habit>,
}

/// When to lie.
#[derive(Debug)]
struct Habit {
    lie: Lie,
    /// How many calls of the kind are still done.
    honest: AtomicU64,
}

impl Habit {
    /// Whether this call is one to lie about.
    fn strikes(&self, lie: Lie) -> bool {
        let spent = |left: u64| left.checked_sub(1);
        self.lie == lie && self.honest.fetch_update(Relaxed, Relaxed, spent).is_err()
    }
}

impl Lying {
    /// Wraps a storage.
    #[must_use]
    pub fn new(inner: Arc<dyn Storage>, lie: Lie) -> Self {
        Self::after(inner, lie, 0)
    }

    /// Wraps a storage that does the first `honest` calls of the kind as it should.
    #[must_use]
    pub fn after(inner: Arc<dyn Storage>, lie: Lie, honest: u64) -> Self {
        Self { inner, lie: Arc::new(Habit { lie, honest: AtomicU64::new(honest) }) }
    }
}

impl Storage for Lying {
    fn open(&self, name: &str, mode: OpenMode) -> io::Result<Arc<dyn StorageFile>> {
        Ok(Arc::new(LyingFile { inner: self.inner.open(name, mode)?, lie: self.lie.clone() }))
    }

    fn create_dir(&self, name: &str) -> io::Result<()> {
        self.inner.create_dir(name)
    }

    fn create_dir_unsynced(&self, name: &str) -> io::Result<()> {
        self.inner.create_dir_unsynced(name)
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.inner.list(dir)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename_new(from, to)
    }

    fn exchange(&self, one: &str, other: &str) -> io::Result<()> {
        self.inner.exchange(one, other)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(name)
    }

    fn remove_dir(&self, dir: &str) -> io::Result<()> {
        self.inner.remove_dir(dir)
    }

    fn stat(&self, name: &str) -> io::Result<Stat> {
        self.inner.stat(name)
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        if self.lie.strikes(Lie::DirSyncs) { Ok(()) } else { self.inner.sync_dir(dir) }
    }

    fn free_bytes(&self) -> io::Result<Option<u64>> {
        self.inner.free_bytes()
    }

    fn boot(&self) -> Option<String> {
        self.inner.boot()
    }

    fn reach(&self) -> Reach {
        self.inner.reach()
    }

    fn describe(&self, name: &str) -> String {
        self.inner.describe(name)
    }
}

struct LyingFile {
    inner: Arc<dyn StorageFile>,
    lie: Arc<Habit>,
}

impl StorageFile for LyingFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.inner.write_at(bytes, offset)
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.inner.set_len(bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.lie.strikes(Lie::Syncs) { Ok(()) } else { self.inner.sync_data() }
    }

    fn sync_file_system(&self) -> io::Result<bool> {
        if self.lie.strikes(Lie::Syncs) { Ok(true) } else { self.inner.sync_file_system() }
    }

    fn map(&self, bytes: u64) -> io::Result<Option<FileMap>> {
        self.inner.map(bytes)
    }

    fn try_lock(&self) -> io::Result<bool> {
        if self.lie.strikes(Lie::Locks) { Ok(true) } else { self.inner.try_lock() }
    }

    fn unlock(&self) -> io::Result<()> {
        self.inner.unlock()
    }

    fn touch(&self) -> io::Result<()> {
        self.inner.touch()
    }

    fn id(&self) -> io::Result<u64> {
        self.inner.id()
    }

    fn lock_holder(&self) -> Option<String> {
        self.inner.lock_holder()
    }
}

impl fmt::Debug for LyingFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, lying about {:?}", self.inner, self.lie.lie)
    }
}
