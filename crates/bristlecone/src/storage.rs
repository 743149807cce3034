//! The byte seam: everything that reaches a disk goes through [`Storage`].
//!
//! The engines above know no path of the operating system, only names relative to one folder. The real
//! implementation is [`RealStorage`]; `bristlecone-testkit` has a simulated disk that forgets, tears and
//! reorders what was not synced and fails any call, so that every crash point is a unit test.
//!
//! **Contract.** Writes are durable after `sync_data` of their file; names (creation, rename, removal) after
//! `sync_dir` of their folder. Between two syncs the order in which writes reach the medium is unknown, and
//! a write may reach it in part, sector by sector. A rename is atomic. A lock ends with its holder.

use std::{fmt, io, sync::Arc};

mod origin;
mod real;
mod unopened;

pub use origin::Origin;
pub use real::{RealStorage, Sharing};
pub use unopened::Unopened;

/// A folder in which an engine keeps its files.
pub trait Storage: Send + Sync + fmt::Debug {
    /// Opens a file. Names use `/` between folders.
    ///
    /// Only plain files are opened: a folder, a pipe or a device is refused at once, and so is a symbolic link unless
    /// the storage follows links.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] or [`io::ErrorKind::AlreadyExists`] according to `mode`; [`io::ErrorKind::IsADirectory`]
    /// for a folder; [`io::ErrorKind::InvalidInput`] for what else is no plain file; others of the system.
    fn open(&self, name: &str, mode: OpenMode) -> io::Result<Arc<dyn StorageFile>>;

    /// Creates a folder, and those above it, unless they are there. The empty name is the folder of the storage itself,
    /// whose name is durable afterwards also where the folder was there before.
    ///
    /// # Errors
    /// Those of the system.
    fn create_dir(&self, name: &str) -> io::Result<()>;

    /// Creates a folder in one that is there, unless there is one of this name. Its name is durable after a sync of the folder
    /// above; [`Storage::create_dir`] may make that durable at once, and then takes as long.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] without the folder above; others of the system.
    fn create_dir_unsynced(&self, name: &str) -> io::Result<()> {
        self.create_dir(name)
    }

    /// Returns the names in a folder, without order; the empty name is the folder of the storage itself.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]; others of the system.
    fn list(&self, dir: &str) -> io::Result<Vec<String>>;

    /// Renames a file, replacing what has the new name.
    ///
    /// # Errors
    /// Those of the system.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Renames a file unless something has the new name, in one atomic step.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`]; [`io::ErrorKind::NotFound`]; [`io::ErrorKind::Unsupported`] where the system
    /// cannot.
    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        let _ = (from, to);
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Gives each of two files the name of the other, in one atomic step. Much cheaper than a rename over a file where
    /// file systems flush what replaces another.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] unless both are there; [`io::ErrorKind::Unsupported`] where the system cannot.
    fn exchange(&self, one: &str, other: &str) -> io::Result<()> {
        let _ = (one, other);
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Removes a file.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]; others of the system.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Removes an empty folder.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`], [`io::ErrorKind::DirectoryNotEmpty`]; others of the system.
    fn remove_dir(&self, dir: &str) -> io::Result<()> {
        let _ = dir;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns what a name stands for, links followed.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]; others of the system.
    fn stat(&self, name: &str) -> io::Result<Stat> {
        let _ = name;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Makes the names in a folder durable.
    ///
    /// # Errors
    /// Those of the system. After a failure nothing is known of the names that changed since the last success, unless the folder
    /// could not be opened: [`Unopened::is`] tells.
    fn sync_dir(&self, dir: &str) -> io::Result<()>;

    /// Returns how many bytes files here may still take, in all; `None` where that is unknown.
    ///
    /// # Errors
    /// Those of the system.
    fn free_bytes(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }

    /// Returns what is different after each start of the machine: as long as it is the same, no power cut took what was not
    /// synced. `None` where that is unknown.
    fn boot(&self) -> Option<String> {
        None
    }

    /// Returns which processes the locks of files keep out.
    fn reach(&self) -> Reach {
        Reach::Unknown
    }

    /// Returns how messages should name a file: its path for a real one.
    fn describe(&self, name: &str) -> String;
}

/// Which processes the locks of files keep out, among all that can open the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All: only one machine can open the files.
    Local,
    /// All, also on other machines.
    Shared,
    /// It is not known: another machine may open the files and not see the locks.
    Unknown,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// It is a folder.
    pub dir: bool,
    /// Bytes of a file.
    pub bytes: u64,
    /// The number of the file in its file system: another file that takes the name has another.
    pub id: u64,
    /// When it was changed last, in nanoseconds since 1970-01-01 00:00 UTC; 0 where that is unknown.
    pub modified_ns: u64,
}

/// How to open a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// An existing file, to be read.
    Read,
    /// An existing file, to be read and written.
    Write,
    /// A new file, to be read and written; it must not exist.
    CreateNew,
    /// The same for a file that is written once, through this handle: its mode lets no process write to it later.
    CreateSealed,
    /// A file to be read and written, created if absent, kept if present.
    Create,
}

/// One open file.
pub trait StorageFile: Send + Sync + fmt::Debug {
    /// Reads into `buffer` from `offset` and returns how many bytes there were; 0 at the end. May be short.
    ///
    /// # Errors
    /// Those of the system.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes from `bytes` at `offset`, extending the file, and returns how many were written. May be short.
    ///
    /// # Errors
    /// Those of the system.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Returns the length in bytes.
    ///
    /// # Errors
    /// Those of the system.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file has no bytes.
    ///
    /// # Errors
    /// Those of the system.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Sets the length, cutting or padding with zeroes.
    ///
    /// # Errors
    /// Those of the system.
    fn set_len(&self, bytes: u64) -> io::Result<()>;

    /// Makes the contents durable, and the length where reading them needs it.
    ///
    /// # Errors
    /// Those of the system. After a failure nothing is known of what was written since the last success.
    fn sync_data(&self) -> io::Result<()>;

    /// Asks the system to begin writing what is not durable, and does not wait: several files that begin together are
    /// durable sooner, each by a [`StorageFile::sync_data`] that follows. It promises nothing, and where the system has
    /// no such call nothing happens.
    fn begin_sync(&self) {}

    /// As [`StorageFile::begin_sync`], but waits until what was begun before has been written: for a caller that writes much,
    /// part by part, while others sync. Their syncs wait for one part at most.
    ///
    /// # Errors
    /// Of a write that failed: the system tells this file of it once, so that a later sync of it may succeed. What was written
    /// since the last success is then lost for good, as after a failed [`StorageFile::sync_data`].
    fn begin_next_sync(&self) -> io::Result<()> {
        self.begin_sync();
        Ok(())
    }

    /// Makes durable everything in the file system of this file, names included, and returns whether there is such a call:
    /// for a caller with thousands of files. It waits for what other programs wrote, too.
    ///
    /// # Errors
    /// Those of the system: also where a write failed, of any file, since this one was opened.
    fn sync_file_system(&self) -> io::Result<bool> {
        Ok(false)
    }

    /// Maps the first `bytes` bytes for reading; `None` where the storage has no maps.
    ///
    /// Bytes written later through any handle or process show in the map.
    ///
    /// # Errors
    /// Those of the system.
    fn map(&self, bytes: u64) -> io::Result<Option<FileMap>>;

    /// Takes the file's exclusive lock if it is free, across handles, threads and processes.
    /// Returns whether it was taken. A lock ends with [`StorageFile::unlock`], the handle or the process.
    ///
    /// # Errors
    /// Those of the system.
    fn try_lock(&self) -> io::Result<bool>;

    /// Gives the lock back.
    ///
    /// # Errors
    /// Those of the system.
    fn unlock(&self) -> io::Result<()>;

    /// Gives the file the time of now as that of its last change, as if it had been written; it may be open for reading alone.
    ///
    /// # Errors
    /// [`io::ErrorKind::PermissionDenied`] for a file of another user; [`io::ErrorKind::Unsupported`] where there is no such
    /// call; others of the system.
    fn touch(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns the number of the file in its file system, as [`Stat::id`] has it for the file of a name.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] where files have no numbers; others of the system.
    fn id(&self) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns the holder of the lock, if that can be found out: `process 123 (cone)`.
    fn lock_holder(&self) -> Option<String>;
}

/// A map of a file's first bytes, which dereferences to them. A plain type: reads go through it.
#[derive(Debug)]
pub struct FileMap(memmap2::Mmap);

impl FileMap {
    /// Maps the first `bytes` bytes of a file, for a [`StorageFile::map`]. `bytes`: at least 1.
    ///
    /// # Errors
    /// Those of the system.
    ///
    /// # Safety
    /// As long as the map lives, the file holds these bytes: it is not shortened. Writers use calls of the system, and
    /// readers rely on no byte that may be written at the time: engines accept bytes of a map by a checksum over them, and
    /// bytes accepted once are not written again.
    pub unsafe fn of_file(file: &std::fs::File, bytes: usize) -> io::Result<Self> {
        // SAFETY: the map is shared and only read; that its bytes stay in the file is what the caller promises.
        let map = unsafe { memmap2::MmapOptions::new().len(bytes).map(file)? };
        Ok(Self(map))
    }

    /// Lets go of the memory that shows the file's pages; what is read again comes from the system's cache. Where the
    /// system has no such call, nothing happens.
    pub(crate) fn forget(&self) {
        #[cfg(unix)]
        {
            // SAFETY: the map shows a file and is never written through, so pages that were released come back as they
            // were; only memory without a file, or changed privately, would lose its contents.
            let _ = unsafe { self.0.unchecked_advise(memmap2::UncheckedAdvice::DontNeed) };
        }
    }
}

impl std::ops::Deref for FileMap {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// Makes a call again as long as it is interrupted.
///
/// # Errors
/// Those of the call.
pub fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Renames a file unless something has the new name: in one step where the system can, or else after a look.
pub(crate) fn rename_free(storage: &dyn Storage, from: &str, to: &str) -> io::Result<()> {
    match storage.rename_new(from, to) {
        // What a file system says that cannot.
        Err(error) if matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput) => {}
        renamed => return renamed,
    }
    match storage.stat(to) {
        Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => storage.rename(from, to),
        Err(error) => Err(error),
    }
}

/// Reads exactly `buffer.len()` bytes, trying again when interrupted.
///
/// # Errors
/// [`io::ErrorKind::UnexpectedEof`] at the end of the file; others of the system.
pub fn read_exact_at(file: &dyn StorageFile, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        match retry(|| file.read_at(buffer, offset))? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                buffer = &mut buffer[count..];
                offset += count as u64;
            }
        }
    }
    Ok(())
}

/// Writes all of `bytes`, trying again when interrupted and going on after a short write.
///
/// # Errors
/// [`io::ErrorKind::WriteZero`] if nothing more can be written; others of the system.
pub fn write_all_at(file: &dyn StorageFile, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match retry(|| file.write_at(bytes, offset))? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => {
                bytes = &bytes[count..];
                offset += count as u64;
            }
        }
    }
    Ok(())
}
