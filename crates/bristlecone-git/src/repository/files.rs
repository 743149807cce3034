//! Small files by name: read, made, renamed and synced, with errors that name them.
//!
//! A call that a signal interrupted is made again. An absent file is no error where absence is usual.

use std::{
    hash::{BuildHasher, RandomState},
    io,
    sync::{
        Arc, LazyLock, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bristlecone::{
    Error, Result,
    storage::{OpenMode, Reach, Stat, Storage, StorageFile, retry, write_all_at},
};

/// A folder of files, with counters of what is done to them.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    storage: Arc<dyn Storage>,
    counts: Arc<Counts>,
    reach: Arc<OnceLock<Reach>>,
}

/// What was done so far.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Bytes written.
    pub(crate) bytes: AtomicU64,
    /// Syncs of files and folders.
    pub(crate) syncs: AtomicU64,
}

/// A file that is open and may not be durable, with its name.
pub(crate) type Unsynced = (String, Arc<dyn StorageFile>);

/// Where it is unknown whether other machines see a lock, nothing younger than this counts as left behind.
pub(crate) const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What a name leads to.
#[derive(Debug)]
pub(crate) enum ReadOutcome {
    /// Nothing.
    Absent,
    /// A folder.
    Dir,
    /// A file with these bytes.
    Bytes(Vec<u8>),
}

impl Files {
    pub(crate) fn new(storage: Arc<dyn Storage>) -> Self {
        Self { storage, counts: Arc::default(), reach: Arc::default() }
    }

    /// Returns whom the locks of files keep out.
    pub(crate) fn reach(&self) -> Reach {
        *self.reach.get_or_init(|| self.storage.reach())
    }

    pub(crate) fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    pub(crate) fn describe(&self, name: &str) -> String {
        self.storage.describe(name)
    }

    /// Names the file in an error.
    pub(crate) fn named<T>(&self, name: &str, done: io::Result<T>) -> Result<T> {
        done.map_err(|source| Error::io(self.storage.describe(name), source))
    }

    /// Opens a file as the storage does; an interrupted call is done again.
    pub(crate) fn open_raw(&self, name: &str, mode: OpenMode) -> io::Result<Arc<dyn StorageFile>> {
        retry(|| self.storage.open(name, mode))
    }

    pub(crate) fn open(&self, name: &str, mode: OpenMode) -> Result<Arc<dyn StorageFile>> {
        self.named(name, self.open_raw(name, mode))
    }

    /// Opens a file for reading; `None` if it is absent.
    pub(crate) fn open_if_there(&self, name: &str) -> Result<Option<Arc<dyn StorageFile>>> {
        match self.open_raw(name, OpenMode::Read) {
            Err(error) if is_absent(&error) => Ok(None),
            opened => self.named(name, opened).map(Some),
        }
    }

    /// Reads a file of at most `bytes_max` bytes; of a longer one, its first `bytes_max` bytes.
    pub(crate) fn read_up_to(&self, name: &str, bytes_max: usize) -> Result<ReadOutcome> {
        let read = || -> io::Result<Vec<u8>> {
            let file = self.open_raw(name, OpenMode::Read)?;
            read_to_end(&*file, 0, bytes_max)
        };
        match read() {
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => Ok(ReadOutcome::Dir),
            Err(error) if is_absent(&error) => Ok(ReadOutcome::Absent),
            read => self.named(name, read).map(ReadOutcome::Bytes),
        }
    }

    /// Reads a file; `None` if it is absent.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        match self.read_up_to(name, usize::MAX)? {
            ReadOutcome::Bytes(bytes) => Ok(Some(bytes)),
            ReadOutcome::Absent | ReadOutcome::Dir => Ok(None),
        }
    }

    /// Gives a file the time of now, as if it had been written, and returns whether there is one. The file of another user keeps
    /// its time.
    pub(crate) fn freshen(&self, name: &str) -> Result<bool> {
        match self.open_raw(name, OpenMode::Read) {
            Err(error) if is_absent(&error) => Ok(false),
            // What cannot be opened is there all the same.
            Err(_) => Ok(self.stat(name)?.is_some()),
            Ok(file) => {
                // As with Git, an object whose time cannot be set is as good as any other.
                let _ = retry(|| file.touch());
                Ok(true)
            }
        }
    }

    /// Writes at an offset of an open file.
    pub(crate) fn write_at(&self, name: &str, file: &dyn StorageFile, bytes: &[u8], offset: u64) -> Result<()> {
        self.counts.bytes.fetch_add(bytes.len() as u64, Relaxed);
        self.named(name, write_all_at(file, bytes, offset))
    }

    /// Makes a file and returns it. It is not durable. What has the name is removed first, never written over: after a
    /// power cut it may be one file with another that has a name to keep.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<Arc<dyn StorageFile>> {
        self.write_as(OpenMode::CreateNew, name, bytes)
    }

    /// The same for a file of objects, which no one has the right to write to later.
    pub(crate) fn write_sealed(&self, name: &str, bytes: &[u8]) -> Result<Arc<dyn StorageFile>> {
        self.write_as(OpenMode::CreateSealed, name, bytes)
    }

    fn write_as(&self, mode: OpenMode, name: &str, bytes: &[u8]) -> Result<Arc<dyn StorageFile>> {
        loop {
            match self.write_new_as(mode, name, bytes)? {
                Some(file) => return Ok(file),
                None => _ = self.remove(name)?,
            }
        }
    }

    /// Makes a file that is not there and returns it, not durable; `None` if something has the name.
    pub(crate) fn write_new(&self, name: &str, bytes: &[u8]) -> Result<Option<Arc<dyn StorageFile>>> {
        self.write_new_as(OpenMode::CreateNew, name, bytes)
    }

    fn write_new_as(&self, mode: OpenMode, name: &str, bytes: &[u8]) -> Result<Option<Arc<dyn StorageFile>>> {
        let file = match self.open_raw(name, mode) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            opened => self.named(name, opened)?,
        };
        let written = self.write_at(name, &*file, bytes, 0);
        if written.is_err() {
            // A part of a file is of no use. If it stays, that is no worse than what failed.
            let _ = self.remove(name);
        }
        written.map(|()| Some(file))
    }

    pub(crate) fn set_len(&self, name: &str, file: &dyn StorageFile, bytes: u64) -> Result<()> {
        self.named(name, retry(|| file.set_len(bytes)))
    }

    /// Makes the contents of an open file durable.
    pub(crate) fn sync_open(&self, name: &str, file: &dyn StorageFile) -> Result<()> {
        self.counts.syncs.fetch_add(1, Relaxed);
        self.synced(name, retry(|| file.sync_data()))
    }

    /// Names the file of a sync. Here a full device is an error of the medium, too: what was written before may be
    /// lost.
    fn synced<T>(&self, name: &str, done: io::Result<T>) -> Result<T> {
        done.map_err(|source| Error::Io { file: self.storage.describe(name), source: Arc::new(source) })
    }

    /// Makes the contents of several open files durable; the system begins with all of them at once.
    pub(crate) fn sync_all(&self, files: &[Unsynced]) -> Result<()> {
        files.iter().for_each(|(_, file)| file.begin_sync());
        files.iter().try_for_each(|(name, file)| self.sync_open(name, &**file))
    }

    /// Makes the contents of a file durable; returns whether there is one.
    pub(crate) fn sync(&self, name: &str) -> Result<bool> {
        let Some(file) = self.open_if_there(name)? else { return Ok(false) };
        self.sync_open(name, &*file)?;
        Ok(true)
    }

    /// Makes the names in a folder durable; returns whether there is one.
    pub(crate) fn sync_dir(&self, dir: &str) -> Result<bool> {
        self.counts.syncs.fetch_add(1, Relaxed);
        match retry(|| self.storage.sync_dir(dir)) {
            Err(error) if is_absent(&error) => Ok(false),
            done => self.synced(dir, done).map(|()| true),
        }
    }

    pub(crate) fn create_dir(&self, dir: &str) -> Result<()> {
        self.named(dir, retry(|| self.storage.create_dir(dir)))
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.named(to, retry(|| self.storage.rename(from, to)))
    }

    /// Renames a file unless something has the new name; the storage's own answer.
    pub(crate) fn rename_new_raw(&self, from: &str, to: &str) -> io::Result<()> {
        retry(|| self.storage.rename_new(from, to))
    }

    /// Puts a file in the place of another: by an exchange where the system can, since file systems flush what replaces
    /// another by a rename. `from` is the other file then, or is gone.
    pub(crate) fn replace(&self, from: &str, to: &str) -> Result<()> {
        match retry(|| self.storage.exchange(from, to)) {
            Ok(()) => Ok(()),
            Err(error) if exchange_cannot(&error) => self.rename(from, to),
            Err(error) => Err(Error::io(self.storage.describe(to), error)),
        }
    }

    /// Removes a file; returns whether there was one.
    pub(crate) fn remove(&self, name: &str) -> Result<bool> {
        match retry(|| self.storage.remove(name)) {
            Err(error) if is_absent(&error) => Ok(false),
            removed => self.named(name, removed).map(|()| true),
        }
    }

    /// Removes a folder if it is empty; returns whether it is gone.
    pub(crate) fn remove_dir(&self, dir: &str) -> Result<bool> {
        match retry(|| self.storage.remove_dir(dir)) {
            Err(error) if is_absent(&error) => Ok(true),
            Err(error) if is_not_empty(&error) => Ok(false),
            removed => self.named(dir, removed).map(|()| true),
        }
    }

    /// Returns the names in a folder; none if there is no folder.
    pub(crate) fn list(&self, dir: &str) -> Result<Vec<String>> {
        match retry(|| self.storage.list(dir)) {
            Err(error) if is_absent(&error) => Ok(Vec::new()),
            listed => self.named(dir, listed),
        }
    }

    /// Whether there is a file and it was not changed for this long.
    pub(crate) fn is_older(&self, name: &str, than: Duration) -> Result<bool> {
        Ok(self.stat(name)?.is_some_and(|stat| age(&stat) > than))
    }

    /// Takes the lock of an open file, if it is free and the file still has this name: the holder alone may change the
    /// file and what it stands for.
    pub(crate) fn lock_named(&self, name: &str, file: &dyn StorageFile) -> Result<bool> {
        if !self.named(name, file.try_lock())? {
            return Ok(false);
        }
        let id = self.named(name, file.id())?;
        if self.stat(name)?.is_some_and(|stat| stat.id == id) {
            return Ok(true);
        }
        self.named(name, file.unlock())?;
        Ok(false)
    }

    /// Returns what a name stands for; `None` for nothing.
    pub(crate) fn stat(&self, name: &str) -> Result<Option<Stat>> {
        match retry(|| self.storage.stat(name)) {
            Err(error) if is_absent(&error) => Ok(None),
            found => self.named(name, found).map(Some),
        }
    }
}

/// Reads from `offset` to the end, or until there are `bytes_max` bytes.
pub(crate) fn read_to_end(file: &dyn StorageFile, offset: u64, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 256.min(bytes_max)];
    let mut filled = 0;
    while filled < bytes_max {
        if filled == bytes.len() {
            // The length of a file is believed no further than it is read.
            let more = (file.len()?.saturating_sub(offset + filled as u64)).clamp(256, 4 << 20) as usize;
            bytes.resize((filled + more).min(bytes_max), 0);
        }
        match retry(|| file.read_at(&mut bytes[filled..], offset + filled as u64))? {
            0 => break,
            count => filled += count,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// Whether there is nothing by the name: also where something above it is a file.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Whether a folder was not removed since it is not empty; systems call that by one of two names.
pub(crate) fn is_not_empty(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists)
}

/// Whether names cannot be exchanged here at all.
fn exchange_cannot(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput)
}

/// Returns how long ago a file was changed.
pub(crate) fn age(stat: &Stat) -> Duration {
    let since = UNIX_EPOCH + Duration::from_nanos(stat.modified_ns);
    SystemTime::now().duration_since(since).unwrap_or_default()
}

/// Returns a name that no file has or had, which begins like this.
pub(crate) fn passing_name(prefix: &str) -> String {
    // No other process has this number, also where processes do not see each other and have the same one.
    static PROCESS: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(std::process::id()));
    static FILES: AtomicU64 = AtomicU64::new(0);
    format!("{prefix}{:016x}-{}", *PROCESS, FILES.fetch_add(1, Relaxed))
}

/// Returns the folder that a name is in.
pub(crate) fn folder(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Returns a name below a folder, which may be the empty one.
pub(crate) fn below(dir: &str, name: &str) -> String {
    if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") }
}
