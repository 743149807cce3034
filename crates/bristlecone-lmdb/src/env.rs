//! An LMDB environment: a file of pages that this process maps, and reads without copying.
//!
//! All calls of LMDB's C functions are here and below. Callers get transactions with lifetimes, and results; they see no
//! pointer. What is kept where LMDB leaves it to its users:
//!
//! - A map is resized only while no transaction of this process is open ([`Env::resize`]).
//! - A transaction that writes belongs to one thread, and there is one at a time in this process.
//! - Transactions that read are taken from a pool, without a lock ([`pool`]); they are tied to no thread.
//! - An environment is used and closed by the process alone that opened it. Callers see to it that a folder is opened once
//!   in a process: LMDB's locks are the process's, and closing one handle of two would drop them.
//!
//! LMDB believes what its pages say. [`layout`] checks the first two before they are mapped, and [`pages`] all of them on
//! demand.

use std::{
    ffi::{CStr, CString},
    fmt, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    ptr::{self, NonNull},
    sync::{
        Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicBool, Ordering::*},
    },
    thread,
    time::{Duration, Instant},
};

use bristlecone::{
    Error,
    storage::{Origin, Storage},
};
use lmdb_master_sys as ffi;

pub(crate) mod layout;
pub(crate) mod lock_file;
pub(crate) mod pages;
pub(crate) mod per_process;
mod pool;
mod readers;
mod txn;

use pool::ReaderPool;
pub use readers::LmdbReader;
pub(crate) use txn::{Database, ReadTxn, Txn, WriteTxn};

/// The file of the pages, in the folder of an environment.
pub(crate) const DATA: &str = "data.mdb";
/// The file of the table of readers.
pub(crate) const LOCK: &str = "lock.mdb";

/// How long a resize waits for the transactions of this process.
const RESIZE_WAIT: Duration = Duration::from_secs(1);
/// No map is made smaller than this, in bytes, however little the process may have.
const MAP_BYTES_MIN: usize = 1 << 20;
/// Maps are a multiple of this: every page size divides it.
const MAP_STEP: usize = 1 << 16;
/// How many transactions can read at a time, over all processes.
const READERS_MAX: u32 = 1022;

/// What an environment is opened with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EnvOptions {
    /// The address space that is reserved, in bytes, if the process may have so much; else a half, a quarter and so on.
    pub(crate) map_bytes: usize,
    /// Whether nothing is written.
    pub(crate) read_only: bool,
    /// How many named databases there can be.
    pub(crate) databases_max: u32,
}

/// A result code of LMDB or of the system; never that of success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) i32);

impl Code {
    pub(crate) const MAP_FULL: Self = Self(ffi::MDB_MAP_FULL);
    pub(crate) const NOT_FOUND: Self = Self(ffi::MDB_NOTFOUND);
    const MAP_RESIZED: Self = Self(ffi::MDB_MAP_RESIZED);

    /// Returns what the code says.
    fn text(self) -> String {
        // SAFETY: the function takes any number and returns a text that lives as long as the program.
        let text = unsafe { CStr::from_ptr(ffi::mdb_strerror(self.0)) };
        text.to_string_lossy().into_owned()
    }
}

/// Turns a returned code into a result.
fn done(code: i32) -> Result<(), Code> {
    if code == ffi::MDB_SUCCESS { Ok(()) } else { Err(Code(code)) }
}

/// Why an environment cannot go on, where no other error says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LmdbError {
    /// The map is full, and the process may not have a larger one.
    MapTooSmall {
        /// The map's size in bytes.
        bytes: u64,
        /// The size that was asked for.
        wanted: u64,
    },
    /// The map is full, and threads of this process were reading for so long that it could not be replaced.
    MapInUse {
        /// How long the resize waited, in milliseconds.
        waited_ms: u64,
    },
    /// The table of readers is full.
    ReadersFull {
        /// How many it has room for.
        readers: u32,
    },
    /// One step has more pages than a transaction of LMDB can hold.
    StepTooLarge,
}

impl fmt::Display for LmdbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MapTooSmall { bytes, wanted } => write!(
                f,
                "the memory map of {bytes} bytes is full, and the system refuses one of {wanted} bytes; raise the process's \
                 limit of address space, or end what else takes it"
            ),
            Self::MapInUse { waited_ms } => write!(
                f,
                "the memory map is full and cannot be replaced, since a thread of this process has been reading through it \
                 for {waited_ms} ms; let it end and try again, or open the store with a larger map"
            ),
            Self::ReadersFull { readers } => write!(
                f,
                "all {readers} places for readers are taken; close other processes that have the store open, or clear those \
                 of processes that ended"
            ),
            Self::StepTooLarge => {
                f.write_str("one step writes more pages than LMDB can hold; write it in smaller steps")
            }
        }
    }
}

impl std::error::Error for LmdbError {}

/// Whether an environment that could not be opened may open with these changed: with a smaller map; or to be read alone, without the
/// table of readers, which needs a file that can be written.
pub(crate) fn opens_otherwise(code: i32, read_only: bool, map_bytes: &mut usize, flags: &mut u32) -> bool {
    let no_lock = matches!(code, libc::EACCES | libc::EPERM | libc::EROFS);
    if code == libc::ENOMEM && *map_bytes > MAP_BYTES_MIN {
        *map_bytes = (*map_bytes / 2).max(MAP_BYTES_MIN).next_multiple_of(MAP_STEP);
        return true;
    }
    let otherwise = no_lock && read_only && *flags & ffi::MDB_NOLOCK == 0;
    if otherwise {
        *flags |= ffi::MDB_NOLOCK;
    }
    otherwise
}

/// An open environment.
pub(crate) struct Env {
    ptr: NonNull<ffi::MDB_env>,
    dir: PathBuf,
    read_only: bool,
    origin: Origin,
    pool: ReaderPool,
    /// Held by the transaction that writes, and while the map is resized.
    writer: Mutex<()>,
    /// A resize failed half way: there is no map.
    unmapped: AtomicBool,
}

// SAFETY: LMDB allows all threads to use one environment. What it does not allow at a time is kept apart by `writer` and
// `pool`.
unsafe impl Send for Env {}
// SAFETY: as above.
unsafe impl Sync for Env {}

impl Env {
    /// Opens the environment in a folder, which is there, and makes its files if they are absent and may be written.
    ///
    /// The first pages of an existing file were checked by the caller ([`layout::check`]), and no other handle of this process
    /// has the folder open.
    pub(crate) fn open(dir: &Path, options: &EnvOptions) -> Result<Self, Error> {
        let mut bytes = options.map_bytes.max(MAP_BYTES_MIN).next_multiple_of(MAP_STEP);
        let mut flags = ffi::MDB_NOTLS | ffi::MDB_NORDAHEAD;
        if options.read_only {
            flags |= ffi::MDB_RDONLY;
        }
        loop {
            let refused = match Self::open_once(dir, options, bytes, flags) {
                Ok(ptr) => {
                    let (dir, read_only, origin) = (dir.to_owned(), options.read_only, Origin::here());
                    let (pool, writer, unmapped) = (ReaderPool::default(), Mutex::new(()), AtomicBool::new(false));
                    return Ok(Self { ptr, dir, read_only, origin, pool, writer, unmapped });
                }
                Err(refused) => refused,
            };
            if !opens_otherwise(refused.0, options.read_only, &mut bytes, &mut flags) {
                return Err(error_of(dir, refused));
            }
        }
    }

    fn open_once(dir: &Path, options: &EnvOptions, bytes: usize, flags: u32) -> Result<NonNull<ffi::MDB_env>, Code> {
        let path = CString::new(dir.as_os_str().as_bytes()).map_err(|_| Code(libc::EINVAL))?;
        if flags & ffi::MDB_NOLOCK == 0 {
            let allocated = lock_file::allocate(&dir.join(LOCK), READERS_MAX, 0o666);
            allocated.map_err(|error| Code(error.raw_os_error().unwrap_or(libc::ENOSPC)))?;
        }
        let mut env = ptr::null_mut();
        // SAFETY: the function writes a pointer to `env`, or fails.
        done(unsafe { ffi::mdb_env_create(&raw mut env) })?;
        // SAFETY: `env` was just made and is not open; the path ends in a zero and is copied. After a failure the
        // environment must be closed, and is used no more.
        let opened = unsafe {
            done(ffi::mdb_env_set_mapsize(env, bytes))
                .and_then(|()| done(ffi::mdb_env_set_maxreaders(env, READERS_MAX)))
                .and_then(|()| done(ffi::mdb_env_set_maxdbs(env, options.databases_max)))
                .and_then(|()| done(ffi::mdb_env_open(env, path.as_ptr(), flags, 0o666)))
        };
        match (opened, NonNull::new(env)) {
            (Ok(()), Some(env)) => Ok(env),
            (opened, _) => {
                // SAFETY: as above.
                unsafe { ffi::mdb_env_close(env) };
                Err(opened.err().unwrap_or(Code(libc::ENOMEM)))
            }
        }
    }

    /// Returns the error of a code that a call on this environment returned.
    #[cold]
    pub(crate) fn error(&self, code: Code) -> Error {
        error_of(&self.dir, code)
    }

    /// Returns the path of a file of the environment, for messages.
    pub(crate) fn describe(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    /// Whether the environment can only be read.
    pub(crate) const fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Opens a transaction that reads what was committed last.
    ///
    /// A map that another process outgrew is replaced first.
    #[inline]
    pub(crate) fn read(&self) -> Result<ReadTxn<'_>, Error> {
        self.origin.check()?;
        for _ in 0..8 {
            match ReadTxn::begin(self) {
                Ok(txn) => return Ok(txn),
                Err(Code::MAP_RESIZED) => self.follow()?,
                Err(Code(ffi::MDB_READERS_FULL)) if self.clear_dead_readers()? > 0 => {}
                Err(code) => return Err(self.error(code)),
            }
        }
        Err(self.error(Code::MAP_RESIZED))
    }

    /// Opens the transaction that writes, once no other is open, in any process.
    ///
    /// `synced`: whether its commit is durable when it returns. If not, a power cut may undo it, and nothing worse.
    pub(crate) fn write(&self, synced: bool) -> Result<WriteTxn<'_>, Error> {
        // Pages that a process saw which was killed while it read would never be used again.
        self.clear_dead_readers()?;
        for _ in 0..8 {
            match WriteTxn::begin(self, synced) {
                Ok(txn) => return Ok(txn),
                Err(Code::MAP_RESIZED) => self.follow()?,
                Err(code) => return Err(self.error(code)),
            }
        }
        Err(self.error(Code::MAP_RESIZED))
    }

    /// Makes durable what was committed.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        self.origin.check()?;
        let _claim = self.pool.claim();
        self.check_map().map_err(|code| self.error(code))?;
        // SAFETY: the environment is open and has a map, which stays while a place in the pool is claimed.
        done(unsafe { ffi::mdb_env_sync(self.ptr.as_ptr(), 1) }).map_err(|code| self.error(code))
    }

    /// Replaces the map by one of twice the size or more, so that `bytes` more fit.
    pub(crate) fn grow(&self, bytes: u64) -> Result<(), Error> {
        let info = self.info();
        let wanted = info.map_bytes.saturating_mul(2).max(info.map_bytes.saturating_add(2 * bytes));
        self.resize(info.map_bytes, wanted)
    }

    /// Whether a thread waits until no transaction of this process is open, so that it can replace the map.
    pub(crate) fn is_resizing(&self) -> bool {
        self.pool.is_resizing()
    }

    /// Replaces the map by one that shows all that other processes wrote.
    fn follow(&self) -> Result<(), Error> {
        let info = self.info();
        self.resize(info.map_bytes, info.map_bytes.max(info.used_bytes).saturating_mul(2))
    }

    /// Replaces the map, unless another thread has done so since it had `from` bytes. Waits for the transactions of this
    /// process, but no longer than [`RESIZE_WAIT`].
    fn resize(&self, from: u64, wanted: u64) -> Result<(), Error> {
        let since = Instant::now();
        let in_use = || {
            let waited_ms = since.elapsed().as_millis() as u64;
            Error::backend(self.describe(DATA), LmdbError::MapInUse { waited_ms })
        };
        let Some(_writer) = self.try_writer(since + RESIZE_WAIT) else { return Err(in_use()) };
        let Some(_idle) = self.pool.idle(since + RESIZE_WAIT) else { return Err(in_use()) };
        self.check_map().map_err(|code| self.error(code))?;
        if self.info_of_map().map_bytes != from {
            return Ok(());
        }
        let too_small = || Error::backend(self.describe(DATA), LmdbError::MapTooSmall { bytes: from, wanted });
        let Ok(size) = usize::try_from(wanted) else { return Err(too_small()) };
        // LMDB gives the old map back before it asks for the new one.
        if !has_address_space(size.saturating_sub(from as usize)) {
            return Err(too_small());
        }
        // SAFETY: no transaction of this process is open: `_writer` and `_idle` keep new ones out. Nothing that was read
        // through the map is used without one.
        match done(unsafe { ffi::mdb_env_set_mapsize(self.ptr.as_ptr(), size.next_multiple_of(MAP_STEP)) }) {
            Ok(()) => Ok(()),
            Err(Code(libc::ENOMEM)) => {
                self.unmapped.store(true, SeqCst);
                Err(too_small())
            }
            Err(code) => {
                self.unmapped.store(true, SeqCst);
                Err(self.error(code))
            }
        }
    }

    fn try_writer(&self, until: Instant) -> Option<MutexGuard<'_, ()>> {
        loop {
            match self.writer.try_lock() {
                Ok(guard) => return Some(guard),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if Instant::now() >= until => return None,
                Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_micros(100)),
            }
        }
    }

    /// Fails where a resize left no map. To be asked with the right to open a transaction, and before.
    #[inline]
    fn check_map(&self) -> Result<(), Code> {
        if self.unmapped.load(Relaxed) { Err(Code(libc::ENOMEM)) } else { Ok(()) }
    }

    /// Returns the sizes of the environment as of the last commit.
    pub(crate) fn info(&self) -> EnvInfo {
        let _claim = self.pool.claim();
        self.info_of_map()
    }

    /// As [`Env::info`], for a caller that keeps others from replacing the map.
    fn info_of_map(&self) -> EnvInfo {
        if self.unmapped.load(SeqCst) {
            return EnvInfo::default();
        }
        // SAFETY: both structures are plain numbers.
        let (mut info, mut stat): (ffi::MDB_envinfo, ffi::MDB_stat) = unsafe { std::mem::zeroed() };
        // SAFETY: the environment is open and has a map; the functions write to the structures alone.
        unsafe {
            ffi::mdb_env_info(self.ptr.as_ptr(), &raw mut info);
            ffi::mdb_env_stat(self.ptr.as_ptr(), &raw mut stat);
        }
        let page_bytes = u64::from(stat.ms_psize);
        let used_bytes = (info.me_last_pgno as u64).saturating_add(1).saturating_mul(page_bytes);
        EnvInfo { map_bytes: info.me_mapsize as u64, used_bytes, page_bytes, map_at: info.me_mapaddr as usize }
    }
}

impl Drop for Env {
    fn drop(&mut self) {
        // A forked child has a copy of the handle. What it would close is its parent's.
        if self.origin.is_here() {
            self.pool.close();
            // SAFETY: no transaction is open: each borrows this value.
            unsafe { ffi::mdb_env_close(self.ptr.as_ptr()) };
        }
    }
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Env({})", self.dir.display())
    }
}

/// The sizes of an environment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EnvInfo {
    pub(crate) map_bytes: u64,
    /// Bytes up to the last page that is in use.
    pub(crate) used_bytes: u64,
    pub(crate) page_bytes: u64,
    /// The address of the first byte of the file.
    pub(crate) map_at: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the system would give this process so much more address space now.
fn has_address_space(bytes: usize) -> bool {
    if bytes == 0 {
        return true;
    }
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new map at an address that the system chooses touches no memory of this process; it is unmapped at once.
    unsafe {
        let at = libc::mmap(ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0);
        at != libc::MAP_FAILED && libc::munmap(at, bytes) == 0
    }
}

/// Whether the device, or the limit of a file's size that the process has, leaves no room for `bytes` more of a file that has
/// `file_bytes`. LMDB calls a write that was cut short there an error of the device.
pub(crate) fn has_no_room(storage: &dyn Storage, file_bytes: u64, bytes: u64) -> bool {
    let is_full = matches!(storage.free_bytes(), Ok(Some(free)) if free < bytes);
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the function writes to the structure alone.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) } == 0;
    is_full || known && limit.rlim_cur != libc::RLIM_INFINITY && limit.rlim_cur < file_bytes.saturating_add(bytes)
}

/// Returns the error of a code, for the environment in a folder.
fn error_of(dir: &Path, code: Code) -> Error {
    let file = dir.join(DATA).display().to_string();
    let corrupt = |reason: String| Error::Corrupt { file: file.clone(), offset: 0, oid: None, reason };
    match code.0 {
        ffi::MDB_CORRUPTED | ffi::MDB_PAGE_NOTFOUND | ffi::MDB_CURSOR_FULL | ffi::MDB_BAD_TXN | ffi::MDB_PROBLEM => {
            corrupt(format!("LMDB found a page that cannot be right ({})", code.text()))
        }
        ffi::MDB_INVALID => corrupt("the first pages are not those of an LMDB file".to_owned()),
        ffi::MDB_VERSION_MISMATCH => {
            let file = dir.join(LOCK).display().to_string();
            let found = "been opened by another version of LMDB".to_owned();
            Error::Incompatible { file, found, expected: "that its processes have one version".to_owned() }
        }
        ffi::MDB_READERS_FULL => Error::backend(file, LmdbError::ReadersFull { readers: READERS_MAX }),
        ffi::MDB_TXN_FULL => Error::backend(file, LmdbError::StepTooLarge),
        ffi::MDB_PANIC => Error::Poisoned { reason: format!("{file}: {}", code.text()) },
        code if code > 0 => Error::io(file, io::Error::from_raw_os_error(code)),
        _ => Error::backend(file, code.text()),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader},
        process::{self, Command, Stdio},
    };

    use super::*;

    /// Names the folder of an environment to a process that reads it until it is killed.
    const READ: &str = "BRISTLECONE_TEST_LMDB_READ";

    #[test]
    fn a_reader_that_was_killed_keeps_no_pages() {
        let options = EnvOptions { map_bytes: 1 << 24, read_only: false, databases_max: 1 };
        if let Some(dir) = std::env::var_os(READ) {
            let env = Env::open(Path::new(&dir), &options).unwrap();
            let _reading = env.read().unwrap();
            println!("reads");
            thread::sleep(Duration::from_secs(60));
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let env = Env::open(dir.path(), &options).unwrap();
        let mut txn = env.write(false).unwrap();
        let [database] = txn.create_databases(["objects"]).unwrap();
        txn.commit().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", "env::tests::a_reader_that_was_killed_keeps_no_pages"])
            .env(READ, dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.map(Result::unwrap).any(|line| line.ends_with("reads")), "the process has ended");
        child.kill().unwrap();
        child.wait().unwrap();
        let others = || env.readers().unwrap().into_iter().filter(|reader| reader.process != process::id());
        assert!(others().any(|reader| reader.txn.is_some()));
        for number in 0..100_u8 {
            let mut txn = env.write(false).unwrap();
            txn.put(database, b"key", &[number; 300]).unwrap();
            txn.commit().unwrap();
        }
        let (pages, left) = (env.info().used_bytes / env.info().page_bytes, others().count());
        assert!(pages < 100 && left == 0, "{pages} pages, {left} readers that are gone");
    }

    #[test]
    fn a_resize_waits_for_reads_of_this_process_and_gives_up_in_time() {
        let dir = tempfile::tempdir().unwrap();
        let options = EnvOptions { map_bytes: MAP_BYTES_MIN, read_only: false, databases_max: 1 };
        let env = Env::open(dir.path(), &options).unwrap();
        let before = env.info().map_bytes;
        let reading = env.read().unwrap();
        let since = Instant::now();
        let refused = env.grow(0).unwrap_err();
        let waited = since.elapsed();
        let Error::Backend { source, .. } = &refused else { panic!("{refused:?}") };
        assert!(matches!(source.downcast_ref(), Some(LmdbError::MapInUse { waited_ms: 1000.. })), "{source}");
        assert!(waited >= RESIZE_WAIT && waited < 5 * RESIZE_WAIT, "{waited:?}");
        assert_eq!((env.info().map_bytes, reading.id()), (before, 0), "nothing has changed");
        drop(reading);
        env.grow(0).unwrap();
        assert_eq!(env.info().map_bytes, 2 * before);
        // A thread that asks for what another has done meanwhile.
        env.resize(before, 8 * before).unwrap();
        assert_eq!(env.info().map_bytes, 2 * before);
    }
}
