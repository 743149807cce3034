//! Files of the operating system: the [`Storage`] that stores live on.
//!
//! Reads and writes are positional, syncs are `fdatasync`, the lock is `flock`, which belongs to the open
//! file and so holds between threads as between processes. Nothing is kept open but what callers hold.
//!
//! **Maps.** A map shows the file as it is, also what other processes write later. If the medium fails while a mapped page
//! is loaded, the system ends the process with `SIGBUS`: there is no error to return. A caller that needs errors opens the
//! store with maps off and pays a system call for each read. The same signal comes if a mapped file is truncated; the
//! engines never do that. A file system in memory (tmpfs) that is full sends it too, when a page is read that was never
//! written; the engines read such places by system calls.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::fs::{FlockOperation, flock};

use super::{FileMap, OpenMode, Reach, Stat, Storage, StorageFile, Unopened};

mod reach;
mod sharing;

pub use sharing::Sharing;

/// A folder of the operating system.
#[derive(Clone, Debug)]
pub struct RealStorage {
    dir: PathBuf,
    follows_links: bool,
    sharing: Sharing,
}

impl RealStorage {
    /// Returns the storage in the folder `dir`, which need not exist before something is created in it.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), follows_links: false, sharing: Sharing::default() }
    }

    /// Returns the storage with symbolic links followed when files are opened, as Git does in its repositories.
    #[must_use]
    pub fn following_links(self) -> Self {
        Self { follows_links: true, ..self }
    }

    /// Returns the storage with files and folders made for the users that `sharing` names.
    #[must_use]
    pub fn shared(self, sharing: Sharing) -> Self {
        Self { sharing, ..self }
    }

    /// Returns the folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn path(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.dir.clone() } else { self.dir.join(name) }
    }
}

impl Storage for RealStorage {
    fn open(&self, name: &str, mode: OpenMode) -> io::Result<Arc<dyn StorageFile>> {
        let mut options = OpenOptions::new();
        let links = if self.follows_links { 0 } else { libc::O_NOFOLLOW };
        // Without blocking: opening a pipe would wait for a process at its other end. For plain files it makes no
        // difference.
        options.read(true).custom_flags(links | libc::O_NONBLOCK);
        match mode {
            OpenMode::Read => {}
            OpenMode::Write => _ = options.write(true),
            OpenMode::CreateNew => _ = options.write(true).create_new(true),
            OpenMode::CreateSealed => _ = options.write(true).create_new(true).mode(0o444),
            OpenMode::Create => _ = options.write(true).create(true).truncate(false),
        }
        let file = options.open(self.path(name)).map_err(|error| match error.raw_os_error() {
            Some(libc::ELOOP) if !self.follows_links => no_plain_file("a symbolic link"),
            Some(libc::EISDIR) => folder(),
            Some(libc::ENXIO) => no_plain_file("a socket or a device"),
            _ => error,
        })?;
        let kind = file.metadata()?.file_type();
        if !kind.is_file() {
            return Err(if kind.is_dir() { folder() } else { no_plain_file("a pipe, a socket or a device") });
        }
        if matches!(mode, OpenMode::CreateNew | OpenMode::CreateSealed | OpenMode::Create) {
            self.sharing.apply_to_file(&file)?;
        }
        Ok(Arc::new(RealFile(file)))
    }

    fn create_dir(&self, name: &str) -> io::Result<()> {
        let path = self.path(name);
        // From the top down, each name durable before anything is made below it: whatever is there already was made
        // so, except the last folder: the process that made it may have died before the sync.
        let mut missing = Vec::new();
        let mut above = path.as_path();
        while !above.as_os_str().is_empty() && !above.exists() {
            missing.push(above);
            let Some(parent) = above.parent() else { break };
            above = parent;
        }
        if name.is_empty() || !missing.is_empty() {
            match sync_parent(above) {
                // A folder of another user, who made its name durable.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                synced => synced?,
            }
        }
        for dir in missing.into_iter().rev() {
            match fs::create_dir(dir) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {}
                created => {
                    created?;
                    self.sharing.apply_to_folder(dir)?;
                }
            }
            sync_parent(dir)?;
        }
        Ok(())
    }

    fn create_dir_unsynced(&self, name: &str) -> io::Result<()> {
        let path = self.path(name);
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            created => created.and_then(|()| self.sharing.apply_to_folder(&path)),
        }
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.path(dir))? {
            // The engines make no name that is not text.
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path(from), self.path(to))
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{CWD, RenameFlags, renameat_with};
            Ok(renameat_with(CWD, self.path(from), CWD, self.path(to), RenameFlags::NOREPLACE)?)
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = (from, to);
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    fn exchange(&self, one: &str, other: &str) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{CWD, RenameFlags, renameat_with};
            Ok(renameat_with(CWD, self.path(one), CWD, self.path(other), RenameFlags::EXCHANGE)?)
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = (one, other);
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    fn remove_dir(&self, dir: &str) -> io::Result<()> {
        fs::remove_dir(self.path(dir))
    }

    fn stat(&self, name: &str) -> io::Result<Stat> {
        let found = fs::metadata(self.path(name))?;
        let modified = found.modified()?.duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        Ok(Stat { dir: found.is_dir(), bytes: found.len(), id: found.ino(), modified_ns: modified as u64 })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path(name))
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        File::open(self.path(dir)).map_err(Unopened::error)?.sync_all()
    }

    fn free_bytes(&self) -> io::Result<Option<u64>> {
        let found = rustix::fs::statvfs(&self.dir)?;
        // Space that is reserved for root is free for no other user. File systems that count nothing say 0 of 0.
        let blocks = if rustix::process::geteuid().is_root() { found.f_bfree } else { found.f_bavail };
        Ok((found.f_blocks > 0).then(|| blocks.saturating_mul(found.f_frsize)))
    }

    fn boot(&self) -> Option<String> {
        let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        Some(text.trim().to_owned()).filter(|id| !id.is_empty())
    }

    fn reach(&self) -> Reach {
        reach::of(&self.dir)
    }

    fn describe(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }
}

/// Makes the name of a folder durable.
fn sync_parent(dir: &Path) -> io::Result<()> {
    let Some(parent) = dir.parent() else { return Ok(()) };
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    File::open(parent)?.sync_all()
}

/// Returns the error of a name that stands for a folder.
fn folder() -> io::Error {
    io::Error::new(io::ErrorKind::IsADirectory, "this is a folder, and only a plain file is opened here")
}

/// Returns the error of a name that stands for `what`.
fn no_plain_file(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("this is {what}, and only a plain file is opened here"))
}

/// How often the system's list of locks is read before the holder counts as unknown.
const LIST_READS: usize = 8;

#[derive(Debug)]
struct RealFile(File);

impl RealFile {
    /// Asks the system to write what is not durable, and waits for what the flags say.
    #[cfg(target_os = "linux")]
    fn sync_range(&self, flags: libc::c_uint) -> io::Result<()> {
        use std::os::fd::AsRawFd;
        // SAFETY: the call takes numbers alone and the file is open. Zeroes: all of it.
        let done = unsafe { libc::sync_file_range(self.0.as_raw_fd(), 0, 0, flags) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Whether a system or a file system lacks the call.
#[cfg(target_os = "linux")]
fn is_unsupported(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL | libc::ESPIPE | libc::EOPNOTSUPP))
}

impl StorageFile for RealFile {
    #[inline]
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    #[inline]
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    #[cfg(target_os = "linux")]
    fn sync_file_system(&self) -> io::Result<bool> {
        rustix::fs::syncfs(&self.0)?;
        Ok(true)
    }

    fn begin_sync(&self) {
        #[cfg(target_os = "linux")]
        // It waits for nothing, so that an error shows again at the sync that follows.
        let _ = self.sync_range(libc::SYNC_FILE_RANGE_WRITE);
    }

    fn begin_next_sync(&self) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        match self.sync_range(libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE) {
            // Whoever waits is told of what failed, and the sync that follows is not.
            Err(error) if !is_unsupported(&error) => return Err(error),
            _ => {}
        }
        Ok(())
    }

    fn map(&self, bytes: u64) -> io::Result<Option<FileMap>> {
        let bytes = usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        if bytes == 0 || self.len()? < bytes as u64 {
            return Ok(None);
        }
        // SAFETY: `bytes` bytes are within the file, as was just checked, and no code of ours shortens a file that it may
        // have mapped. Bytes that another thread or process is writing at the time are never trusted: engines accept bytes
        // of a map by a checksum over them, and bytes accepted once are not written again. What remains is another program
        // that changes the file meanwhile, which the module's documentation names.
        unsafe { FileMap::of_file(&self.0, bytes) }.map(Some)
    }

    fn try_lock(&self) -> io::Result<bool> {
        loop {
            match flock(&self.0, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(true),
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(false),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn unlock(&self) -> io::Result<()> {
        Ok(flock(&self.0, FlockOperation::Unlock)?)
    }

    fn touch(&self) -> io::Result<()> {
        self.0.set_modified(std::time::SystemTime::now())
    }

    fn id(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.ino())
    }

    fn lock_holder(&self) -> Option<String> {
        let stat = rustix::fs::fstat(&self.0).ok()?;
        let (major, minor) = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
        let file = format!("{major:02x}:{minor:02x}:{}", stat.st_ino);
        // The list may change while it is read and then lacks lines that were there all the time.
        let process = (0..LIST_READS).find_map(|_| {
            let locks = fs::read_to_string("/proc/locks").ok()?;
            locks.lines().find_map(|line| holder_in(line, &file))
        })?;
        match fs::read_to_string(format!("/proc/{process}/comm")) {
            Ok(name) => Some(format!("process {process} ({})", name.trim_end())),
            Err(_) => Some(format!("process {process}")),
        }
    }
}

/// Returns the process that a line of `/proc/locks` says holds an exclusive `flock` on `file`.
///
/// A line: `1: FLOCK  ADVISORY  WRITE 1234 fd:01:5678 0 EOF`; waiters have `->` in the second place.
fn holder_in(line: &str, file: &str) -> Option<u32> {
    let mut words = line.split_whitespace().skip(1);
    if words.next()? != "FLOCK" {
        return None;
    }
    let process = words.nth(2)?;
    (words.next()? == file).then(|| process.parse().ok())?
}

#[cfg(all(test, target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod synced;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{read_exact_at, write_all_at};

    #[test]
    fn a_lock_belongs_to_the_open_file_and_names_its_holder() {
        let dir = tempfile::tempdir().unwrap();
        let storage = RealStorage::new(dir.path());
        let first = storage.open("lock", OpenMode::Create).unwrap();
        let second = storage.open("lock", OpenMode::Create).unwrap();
        assert!(first.try_lock().unwrap());
        assert!(!second.try_lock().unwrap());
        if cfg!(target_os = "linux") && Path::new("/proc/locks").exists() {
            let holder = second.lock_holder().expect("/proc/locks lists the lock");
            assert!(holder.starts_with(&format!("process {}", std::process::id())), "{holder}");
        }
        first.unlock().unwrap();
        assert!(second.try_lock().unwrap());
        drop(second);
        assert!(first.try_lock().unwrap());
    }

    #[test]
    fn what_is_no_plain_file_is_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let storage = RealStorage::new(dir.path());
        fs::write(dir.path().join("plain"), "mine").unwrap();
        std::os::unix::fs::symlink("plain", dir.path().join("link")).unwrap();
        std::os::unix::fs::symlink("nowhere", dir.path().join("dangling")).unwrap();
        fs::create_dir(dir.path().join("folder")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, dir.path().join("pipe"), rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)
            .unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
        for name in ["link", "dangling", "folder", "pipe", "socket"] {
            for mode in [OpenMode::Read, OpenMode::Write, OpenMode::Create] {
                let error = storage.open(name, mode).unwrap_err();
                let kind = if name == "folder" { io::ErrorKind::IsADirectory } else { io::ErrorKind::InvalidInput };
                assert_eq!(error.kind(), kind, "{name}, {mode:?}: {error}");
            }
            assert_eq!(storage.open(name, OpenMode::CreateNew).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        }
        assert!(!dir.path().join("nowhere").exists());
        let following = storage.clone().following_links();
        let file = following.open("link", OpenMode::Write).unwrap();
        assert_eq!(file.id().unwrap(), storage.open("plain", OpenMode::Read).unwrap().id().unwrap());
        assert_eq!(file.id().unwrap(), storage.stat("plain").unwrap().id);
        assert_eq!(following.open("pipe", OpenMode::Read).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_map_shows_what_is_written_later() {
        let dir = tempfile::tempdir().unwrap();
        let storage = RealStorage::new(dir.path().join("deep/er"));
        storage.create_dir("").unwrap();
        let file = storage.open("file", OpenMode::CreateNew).unwrap();
        assert!(file.map(4096).unwrap().is_none());
        file.set_len(4096).unwrap();
        let map = file.map(4096).unwrap().unwrap();
        write_all_at(&*file, b"later", 100).unwrap();
        assert_eq!(&map[100..105], b"later");
        let mut read = [0; 5];
        read_exact_at(&*file, &mut read, 100).unwrap();
        assert_eq!(&read, b"later");
        assert!(read_exact_at(&*file, &mut read, 4094).is_err());
        assert_eq!(storage.open("file", OpenMode::CreateNew).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(storage.open("none", OpenMode::Write).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(storage.list("").unwrap(), ["file"]);
    }
}
