//! A storage that tells a test of each call before it is made: what comes in between is up to the test.

use std::{fmt, io, sync::Arc};

use bristlecone::storage::{FileMap, OpenMode, Reach, Stat, Storage, StorageFile};

/// What is about to be called, and the file or folder it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coming<'a> {
    /// The name of the method.
    pub method: &'static str,
    /// The file or folder.
    pub name: &'a str,
}

type Hook = dyn Fn(Coming<'_>) + Send + Sync;

/// A storage around another that calls a hook before every call; the hook may panic.
#[derive(Clone)]
pub struct Hooked {
    inner: Arc<dyn Storage>,
    hook: Arc<Hook>,
    reach: Reach,
}

impl Hooked {
    /// Wraps a storage.
    pub fn new(inner: Arc<dyn Storage>, hook: impl Fn(Coming<'_>) + Send + Sync + 'static) -> Self {
        let reach = inner.reach();
        Self { inner, hook: Arc::new(hook), reach }
    }

    /// Returns the storage as one whose locks reach so far.
    #[must_use]
    pub fn with_reach(self, reach: Reach) -> Self {
        Self { reach, ..self }
    }

    fn tell(&self, method: &'static str, name: &str) -> &dyn Storage {
        (self.hook)(Coming { method, name });
        &*self.inner
    }
}

impl Storage for Hooked {
    fn open(&self, name: &str, mode: OpenMode) -> io::Result<Arc<dyn StorageFile>> {
        let inner = self.tell("open", name).open(name, mode)?;
        Ok(Arc::new(HookedFile { inner, name: name.to_owned(), hook: self.hook.clone() }))
    }

    fn create_dir(&self, name: &str) -> io::Result<()> {
        self.tell("create_dir", name).create_dir(name)
    }

    fn create_dir_unsynced(&self, name: &str) -> io::Result<()> {
        self.tell("create_dir_unsynced", name).create_dir_unsynced(name)
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.tell("list", dir).list(dir)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.tell("rename", from).rename(from, to)
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        self.tell("rename_new", from).rename_new(from, to)
    }

    fn exchange(&self, one: &str, other: &str) -> io::Result<()> {
        self.tell("exchange", one).exchange(one, other)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.tell("remove", name).remove(name)
    }

    fn remove_dir(&self, dir: &str) -> io::Result<()> {
        self.tell("remove_dir", dir).remove_dir(dir)
    }

    fn stat(&self, name: &str) -> io::Result<Stat> {
        self.tell("stat", name).stat(name)
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        self.tell("sync_dir", dir).sync_dir(dir)
    }

    fn free_bytes(&self) -> io::Result<Option<u64>> {
        self.inner.free_bytes()
    }

    fn boot(&self) -> Option<String> {
        self.inner.boot()
    }

    fn reach(&self) -> Reach {
        self.reach
    }

    fn describe(&self, name: &str) -> String {
        self.inner.describe(name)
    }
}

struct HookedFile {
    inner: Arc<dyn StorageFile>,
    name: String,
    hook: Arc<Hook>,
}

impl HookedFile {
    fn tell(&self, method: &'static str) -> &dyn StorageFile {
        (self.hook)(Coming { method, name: &self.name });
        &*self.inner
    }
}

impl StorageFile for HookedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.tell("read_at").read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.tell("write_at").write_at(bytes, offset)
    }

    fn len(&self) -> io::Result<u64> {
        self.tell("len").len()
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.tell("set_len").set_len(bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.tell("sync_data").sync_data()
    }

    fn sync_file_system(&self) -> io::Result<bool> {
        self.tell("sync_file_system").sync_file_system()
    }

    fn begin_sync(&self) {
        self.tell("begin_sync").begin_sync();
    }

    fn begin_next_sync(&self) -> io::Result<()> {
        self.tell("begin_next_sync").begin_next_sync()
    }

    fn map(&self, bytes: u64) -> io::Result<Option<FileMap>> {
        self.tell("map").map(bytes)
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.tell("try_lock").try_lock()
    }

    fn unlock(&self) -> io::Result<()> {
        self.tell("unlock").unlock()
    }

    fn touch(&self) -> io::Result<()> {
        self.tell("touch").touch()
    }

    fn id(&self) -> io::Result<u64> {
        self.inner.id()
    }

    fn lock_holder(&self) -> Option<String> {
        self.inner.lock_holder()
    }
}

impl fmt::Debug for Hooked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, hooked", self.inner)
    }
}

impl fmt::Debug for HookedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, hooked", self.inner)
    }
}
