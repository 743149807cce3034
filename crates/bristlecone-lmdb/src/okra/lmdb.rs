//! LMDB itself: an environment, its transactions and cursors. The only unsafe code of the map.
//!
//! `heed` borrows a write transaction as a whole for each of its cursors, so that a walk over children could not
//! write their parents, and it offers no way to its pointers. This module has what the map needs and no more.
//!
//! What makes it safe is one rule. LMDB gives out pointers into its pages, and a write may move them. So everything
//! that reads borrows the transaction or the cursors, and everything that writes borrows them exclusively: no slice
//! outlives the next write. [`Cursor`] and [`WriteCursors`] hold the transaction in these two ways.

use std::{
    ffi::{CStr, CString, OsStr, c_int, c_uint, c_void},
    fs,
    marker::PhantomData,
    path::{Path, PathBuf},
    ptr::{self, NonNull},
    slice,
    sync::{Arc, Mutex, PoisonError},
};

use bristlecone::storage::Origin;
use lmdb_master_sys as ffi;

use super::{
    error::{OkraError, Result},
    file::MapFile,
    node::METADATA_KEY,
};
use crate::env::{LOCK, lock_file, opens_otherwise, per_process::PerProcess};

/// The file of the data in a folder.
pub(super) const DATA: &str = "data.mdb";
/// How many transactions can read at a time, over all processes: LMDB's default.
const READERS_MAX: u32 = 126;
/// Reading transactions that are kept for the next reader, at most.
const IDLE_READERS_MAX: usize = 16;

/// The folders that are open, each with the process that opened it. LMDB loses its locks where one process opens a folder twice.
static OPEN: PerProcess<(Origin, PathBuf)> = PerProcess::new();

/// Notes that a process opens a folder; `false` if it has it open already.
fn note_open(origin: Origin, key: &Path) -> bool {
    let mut open = OPEN.lock();
    let is_new = !open.iter().any(|(of, other)| *of == origin && other == key);
    if is_new {
        open.push((origin, key.to_owned()));
    }
    is_new
}

/// Notes that a process closed a folder.
fn note_closed(origin: Origin, key: &Path) {
    OPEN.lock().retain(|(of, other)| *of != origin || other != key);
}

/// An open environment and the one database in it that is used.
pub(super) struct Env {
    env: NonNull<ffi::MDB_env>,
    dbi: ffi::MDB_dbi,
    /// The file of the data, for errors.
    file: String,
    /// The path under which [`OPEN`] has it.
    key: PathBuf,
    pages: MapFile,
    map_bytes: usize,
    /// LMDB's table of readers has the places of this process. One that it forks has copies of them, and is to leave them alone.
    origin: Origin,
    /// Reading transactions that ended and kept their place in LMDB's table of readers.
    idle: Mutex<Vec<IdleReader>>,
    /// The first failure of a sync. Held while one is made: the system tells one caller of what it could not write.
    unsynced: Mutex<Option<OkraError>>,
}

/// A transaction that was reset.
struct IdleReader(NonNull<ffi::MDB_txn>);

// SAFETY: a reset transaction of an environment without thread-local readers belongs to no thread.
unsafe impl Send for IdleReader {}
// SAFETY: LMDB's environments may be used by any thread; what is not is behind the mutex `idle`.
unsafe impl Send for Env {}
// SAFETY: as above.
unsafe impl Sync for Env {}

/// How an environment is opened.
pub(super) struct EnvOptions<'a> {
    /// The database's name, or the unnamed one.
    pub(super) database: Option<&'a str>,
    pub(super) map_bytes: usize,
    pub(super) read_only: bool,
    pub(super) sync: bool,
    /// Whether a named database is made where there is none.
    pub(super) create: bool,
}

impl Env {
    /// Opens the environment at a folder, or at a file (LMDB's `MDB_NOSUBDIR`) where the path is one. The file `data.mdb` stands
    /// for its folder, and a link for what it leads to: LMDB's lock has its name by the path, and each file needs one lock.
    pub(super) fn open(path: &Path, options: &EnvOptions<'_>) -> Result<Self> {
        let is_file = path.is_file();
        let file = if is_file { path.to_owned() } else { path.join(DATA) }.display().to_string();
        let failed = |source| OkraError::Io { file: file.clone(), source: Arc::new(source) };
        let mut key = fs::canonicalize(path).map_err(failed)?;
        let is_file = is_file && !(key.file_name() == Some(OsStr::new(DATA)) && key.pop());
        let pages = if is_file {
            let (folder, name) = (key.parent().unwrap_or(&key), key.file_name().unwrap_or_default());
            MapFile::new(folder, name.to_string_lossy().into_owned(), file.clone(), options.database)
        } else {
            MapFile::new(&key, DATA.to_owned(), file.clone(), options.database)
        };
        let origin = Origin::here();
        if !note_open(origin, &key) {
            return Err(OkraError::AlreadyOpen { file });
        }
        // From here on dropping it closes what was opened.
        let mut env = match create_env() {
            Ok(env) => {
                let (map_bytes, idle, unsynced) = (options.map_bytes, Mutex::default(), Mutex::default());
                Self { env, dbi: 0, file, key, pages, map_bytes, origin, idle, unsynced }
            }
            Err(code) => {
                note_closed(origin, &key);
                return Err(failure(&file, options.map_bytes, code));
            }
        };
        env.start(is_file, options)?;
        Ok(env)
    }

    fn start(&mut self, is_file: bool, options: &EnvOptions<'_>) -> Result<()> {
        self.pages.check_before_open()?;
        let path = CString::new(self.key.as_os_str().as_encoded_bytes())
            .map_err(|_| OkraError::NoMap { file: self.file.clone() })?;
        let mut flags = ffi::MDB_NOTLS;
        for (set, flag) in
            [(is_file, ffi::MDB_NOSUBDIR), (options.read_only, ffi::MDB_RDONLY), (!options.sync, ffi::MDB_NOSYNC)]
        {
            flags |= if set { flag } else { 0 };
        }
        loop {
            let code = self.open_once(&path, is_file, options, flags)?;
            if !opens_otherwise(code, options.read_only, &mut self.map_bytes, &mut flags) {
                self.ok(code)?;
                break;
            }
            // LMDB wants another one after a failure.
            let fresh = create_env().map_err(|code| failure(&self.file, self.map_bytes, code))?;
            let failed = std::mem::replace(&mut self.env, fresh);
            // SAFETY: it could not be opened, so that nothing is of it, and it is used no more.
            unsafe { ffi::mdb_env_close(failed.as_ptr()) };
        }
        let name =
            options.database.map(CString::new).transpose().map_err(|_| OkraError::NoMap { file: self.file.clone() })?;
        let create = if options.create && name.is_some() { ffi::MDB_CREATE } else { 0 };
        let mut dbi = 0;
        let txn = self.begin(create == 0)?;
        if create != 0 {
            self.refuse_unnamed_map(&txn)?;
        }
        let name = name.as_ref().map_or(ptr::null(), |name| name.as_ptr());
        // SAFETY: the transaction is live, and `name` is null or ends with a zero.
        self.ok(unsafe { ffi::mdb_dbi_open(txn.txn.as_ptr(), name, create, &raw mut dbi) })?;
        let mut flags = 0;
        // SAFETY: the transaction is live, and the handle is of this environment.
        self.ok(unsafe { ffi::mdb_dbi_flags(txn.txn.as_ptr(), dbi, &raw mut flags) })?;
        if flags & !ffi::MDB_CREATE != 0 {
            return Err(OkraError::Incompatible {
                file: self.file.clone(),
                found: format!("an LMDB database with the flags {flags:#x}"),
                expected: "one without flags, as Okra makes them".to_owned(),
            });
        }
        // The handle remains valid once the transaction that opened it has committed.
        txn.commit()?;
        self.dbi = dbi;
        Ok(())
    }

    /// Opens what was created, and returns LMDB's code.
    fn open_once(&self, path: &CStr, is_file: bool, options: &EnvOptions<'_>, flags: c_uint) -> Result<c_int> {
        if flags & ffi::MDB_NOLOCK == 0 {
            let mut lock = self.key.clone();
            if is_file {
                lock.as_mut_os_string().push("-lock");
            } else {
                lock.push(LOCK);
            }
            lock_file::allocate(&lock, READERS_MAX, 0o644)
                .map_err(|error| OkraError::io(lock.display().to_string(), error))?;
        }
        let env = self.env.as_ptr();
        // SAFETY: `env` was created, is not open yet, and is used by this thread alone; `path` ends with a zero.
        unsafe {
            self.ok(ffi::mdb_env_set_mapsize(env, self.map_bytes))?;
            self.ok(ffi::mdb_env_set_maxdbs(env, u32::from(options.database.is_some())))?;
            Ok(ffi::mdb_env_open(env, path.as_ptr(), flags, 0o644))
        }
    }

    /// Fails if the unnamed database is a map: the names of databases are entries of it, and would be nodes of the map.
    fn refuse_unnamed_map(&self, txn: &Txn<'_>) -> Result<()> {
        let (mut unnamed, mut key, mut value) = (0, val(&METADATA_KEY), val(&[]));
        // SAFETY: the transaction is live; a null name stands for the unnamed database.
        self.ok(unsafe { ffi::mdb_dbi_open(txn.txn.as_ptr(), ptr::null(), 0, &raw mut unnamed) })?;
        // SAFETY: the transaction is live; LMDB reads `key` and writes `value`.
        match unsafe { ffi::mdb_get(txn.txn.as_ptr(), unnamed, &raw mut key, &raw mut value) } {
            ffi::MDB_NOTFOUND => Ok(()),
            0 => Err(OkraError::Incompatible {
                file: self.file.clone(),
                found: "an unnamed LMDB database with an entry at ff, as an Okra map has one".to_owned(),
                expected: "a file without one, for a map with a name".to_owned(),
            }),
            code => self.ok(code),
        }
    }

    pub(super) fn file(&self) -> &str {
        &self.file
    }

    /// Begins a transaction that reads, or the one that writes; waits for another writer.
    pub(super) fn begin(&self, read_only: bool) -> Result<Txn<'_>> {
        self.check_origin()?;
        if read_only {
            let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            if let Some(IdleReader(txn)) = idle {
                // SAFETY: the transaction was reset and belongs to nobody else, as it was taken from the list.
                let code = unsafe { ffi::mdb_txn_renew(txn.as_ptr()) };
                if code == 0 {
                    return Ok(Txn { txn, env: self, read_only });
                }
                // SAFETY: as above; it is not used again.
                unsafe { ffi::mdb_txn_abort(txn.as_ptr()) };
                return self.ok(code).map(|()| unreachable!("a code that is not zero is an error"));
            }
        }
        if !read_only {
            // Pages that a reader saw which was killed would never be written again.
            self.clear_dead_readers()?;
        }
        let mut txn = ptr::null_mut();
        let flags = if read_only { ffi::MDB_RDONLY } else { 0 };
        // SAFETY: the environment is open.
        let mut begin = || unsafe { ffi::mdb_txn_begin(self.env.as_ptr(), ptr::null_mut(), flags, &raw mut txn) };
        let mut code = begin();
        if code == ffi::MDB_READERS_FULL && self.clear_dead_readers()? > 0 {
            code = begin();
        }
        self.ok(code)?;
        match NonNull::new(txn) {
            Some(txn) => Ok(Txn { txn, env: self, read_only }),
            None => Err(self.failure(ffi::MDB_PROBLEM)),
        }
    }

    /// Gives the places of readers free whose processes ended without doing so; returns how many there were.
    fn clear_dead_readers(&self) -> Result<u32> {
        let mut dead = 0;
        // SAFETY: the environment is open; LMDB writes the number.
        self.ok(unsafe { ffi::mdb_reader_check(self.env.as_ptr(), &raw mut dead) })?;
        Ok(dead.unsigned_abs())
    }

    /// Syncs the file. After a failure every later sync fails: it would succeed without what the first one lost.
    pub(super) fn flush(&self) -> Result<()> {
        self.check_origin()?;
        // SAFETY: the environment is open.
        let sync = || unsafe { ffi::mdb_env_sync(self.env.as_ptr(), 1) };
        self.sync_by(sync)
    }

    /// Syncs by a call that returns LMDB's code, unless an earlier sync failed.
    fn sync_by(&self, sync: impl FnOnce() -> c_int) -> Result<()> {
        let mut failed = self.unsynced.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = &*failed {
            return Err(error.clone());
        }
        match sync() {
            0 => Ok(()),
            code => Err(failed.insert(self.sync_failure(code)).clone()),
        }
    }

    /// What a code says that a sync returned. Commits were made before it, and `NoSpace` would say that nothing was.
    #[cold]
    fn sync_failure(&self, code: c_int) -> OkraError {
        if code > 0 {
            let source = Arc::new(std::io::Error::from_raw_os_error(code));
            return OkraError::Io { file: self.file.clone(), source };
        }
        failure(&self.file, self.map_bytes, code)
    }

    /// Fails in a process that was forked from the one that opened the environment.
    #[inline]
    fn check_origin(&self) -> Result<()> {
        if self.origin.is_here() { Ok(()) } else { Err(OkraError::Forked { file: self.file.clone() }) }
    }

    fn ok(&self, code: c_int) -> Result<()> {
        if code == 0 { Ok(()) } else { Err(self.failure(code)) }
    }

    /// What a code says that a call on this environment returned.
    #[cold]
    fn failure(&self, code: c_int) -> OkraError {
        // LMDB calls a short write so, which a full disk is the usual reason for.
        if code == libc::EFBIG || (code == libc::EIO && self.pages.has_no_room()) {
            return OkraError::NoSpace { file: self.file.clone() };
        }
        failure(&self.file, self.map_bytes, code)
    }
}

fn create_env() -> std::result::Result<NonNull<ffi::MDB_env>, c_int> {
    let mut env = ptr::null_mut();
    // SAFETY: it writes the pointer and nothing else.
    let code = unsafe { ffi::mdb_env_create(&raw mut env) };
    NonNull::new(env).filter(|_| code == 0).ok_or(code)
}

impl Drop for Env {
    fn drop(&mut self) {
        // What a forked process would close is its parent's.
        if self.origin.is_here() {
            let idle = self.idle.get_mut().unwrap_or_else(PoisonError::into_inner);
            for IdleReader(txn) in idle.drain(..) {
                // SAFETY: it was reset, and is not used again.
                unsafe { ffi::mdb_txn_abort(txn.as_ptr()) };
            }
            // SAFETY: transactions borrow the environment, so that there are none left.
            unsafe { ffi::mdb_env_close(self.env.as_ptr()) };
        }
        note_closed(self.origin, &self.key);
    }
}

/// What LMDB's code says, of a file.
fn failure(file: &str, map_bytes: usize, code: c_int) -> OkraError {
    let file = file.to_owned();
    match code {
        ffi::MDB_MAP_RESIZED => OkraError::MapResized { file, bytes: map_bytes as u64 },
        ffi::MDB_MAP_FULL => OkraError::MapFull { file, bytes_max: map_bytes as u64 },
        ffi::MDB_INVALID => OkraError::Incompatible {
            file,
            found: "a file that is not LMDB's".to_owned(),
            expected: "an LMDB file with an Okra map".to_owned(),
        },
        ffi::MDB_VERSION_MISMATCH => OkraError::Incompatible {
            file,
            found: "a file of another version of LMDB, or one that a process with another version holds open"
                .to_owned(),
            expected: "a file of LMDB 0.9 that such a process does not hold open".to_owned(),
        },
        ffi::MDB_NOTFOUND => OkraError::NoMap { file },
        code if code > 0 => OkraError::io(file, std::io::Error::from_raw_os_error(code)),
        code => {
            // SAFETY: LMDB gives a static text for each of its codes.
            let text = unsafe { CStr::from_ptr(ffi::mdb_strerror(code)) };
            OkraError::Lmdb { file, code, reason: text.to_string_lossy().into_owned() }
        }
    }
}

/// A transaction.
pub(super) struct Txn<'e> {
    txn: NonNull<ffi::MDB_txn>,
    env: &'e Env,
    read_only: bool,
}

impl Txn<'_> {
    pub(super) fn file(&self) -> &str {
        &self.env.file
    }

    /// Returns the value at a key.
    #[inline]
    pub(super) fn get(&self, key: &[u8]) -> Result<Option<&[u8]>> {
        self.env.check_origin()?;
        let (mut key, mut value) = (val(key), val(&[]));
        // SAFETY: the transaction is live; LMDB reads `key` and writes `value`, which points into pages that stay as
        // they are until the transaction is borrowed exclusively or ends.
        let code = unsafe { ffi::mdb_get(self.txn.as_ptr(), self.env.dbi, &raw mut key, &raw mut value) };
        match code {
            // SAFETY: the slice borrows the transaction.
            0 => Ok(Some(unsafe { slice_of(&value) })),
            ffi::MDB_NOTFOUND => Ok(None),
            code => Err(self.env.failure(code)),
        }
    }

    /// Checks every page of the map without LMDB.
    pub(super) fn check_pages(&self) -> Result<()> {
        // SAFETY: the transaction is live.
        let number = unsafe { ffi::mdb_txn_id(self.txn.as_ptr()) };
        self.env.pages.check_pages(number as u64, !self.read_only)
    }

    /// Returns the count of entries in the database, and that of its pages.
    pub(super) fn stat(&self) -> Result<(u64, u64)> {
        self.env.check_origin()?;
        let mut stat = ffi::MDB_stat {
            ms_psize: 0,
            ms_depth: 0,
            ms_branch_pages: 0,
            ms_leaf_pages: 0,
            ms_overflow_pages: 0,
            ms_entries: 0,
        };
        // SAFETY: the transaction is live, and LMDB writes the structure alone.
        self.env.ok(unsafe { ffi::mdb_stat(self.txn.as_ptr(), self.env.dbi, &raw mut stat) })?;
        let pages = stat.ms_branch_pages + stat.ms_leaf_pages + stat.ms_overflow_pages;
        Ok((stat.ms_entries as u64, pages as u64))
    }

    /// Opens a cursor that reads.
    pub(super) fn cursor(&self) -> Result<Cursor<'_>> {
        Ok(Cursor { raw: RawCursor::open(self)?, txn: PhantomData })
    }

    /// Opens two cursors that write.
    pub(super) fn write_cursors(&mut self) -> Result<WriteCursors<'_>> {
        let raw = [RawCursor::open(self)?, RawCursor::open(self)?];
        Ok(WriteCursors { raw, txn: PhantomData })
    }

    /// Commits. What fails leaves the database as it was.
    pub(super) fn commit(self) -> Result<()> {
        self.env.check_origin()?;
        let (txn, env) = (self.txn, self.env);
        std::mem::forget(self);
        // SAFETY: the transaction is live, has no cursors, and is freed by this call whatever it returns.
        env.ok(unsafe { ffi::mdb_txn_commit(txn.as_ptr()) })
    }
}

impl Drop for Txn<'_> {
    fn drop(&mut self) {
        // A forked process would end its parent's.
        if !self.env.origin.is_here() {
            return;
        }
        if self.read_only {
            let mut idle = self.env.idle.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.len() < IDLE_READERS_MAX {
                // SAFETY: the transaction is live and only reads; its cursors borrowed it and are closed.
                unsafe { ffi::mdb_txn_reset(self.txn.as_ptr()) };
                idle.push(IdleReader(self.txn));
                return;
            }
        }
        // SAFETY: the transaction is live, its cursors borrowed it and are closed, and it is not used again.
        unsafe { ffi::mdb_txn_abort(self.txn.as_ptr()) };
    }
}

/// A key and its value, in LMDB's pages.
pub(super) type Item<'a> = (&'a [u8], &'a [u8]);

/// A cursor as LMDB gives it. Its users see to it that no slice outlives the next write.
struct RawCursor<'e> {
    cursor: NonNull<ffi::MDB_cursor>,
    env: &'e Env,
}

impl<'e> RawCursor<'e> {
    fn open(txn: &Txn<'e>) -> Result<Self> {
        // The transaction is the parent's: pages that it reads may be written over, and what is written goes to its file.
        txn.env.check_origin()?;
        let mut cursor = ptr::null_mut();
        // SAFETY: the transaction is live.
        txn.env.ok(unsafe { ffi::mdb_cursor_open(txn.txn.as_ptr(), txn.env.dbi, &raw mut cursor) })?;
        match NonNull::new(cursor) {
            Some(cursor) => Ok(Self { cursor, env: txn.env }),
            None => Err(txn.env.failure(ffi::MDB_PROBLEM)),
        }
    }

    /// Moves and returns what is there.
    ///
    /// # Safety
    /// No write may come while the slices live.
    #[inline]
    unsafe fn get<'a>(&mut self, key: &[u8], operation: ffi::MDB_cursor_op) -> Result<Option<Item<'a>>> {
        let (mut key, mut value) = (val(key), val(&[]));
        // SAFETY: the cursor is open, since the transaction that it borrows is; LMDB reads `key` and writes both.
        let code = unsafe { ffi::mdb_cursor_get(self.cursor.as_ptr(), &raw mut key, &raw mut value, operation) };
        match code {
            // SAFETY: LMDB set both, and the caller bounds their life.
            0 => Ok(Some(unsafe { (slice_of(&key), slice_of(&value)) })),
            ffi::MDB_NOTFOUND => Ok(None),
            code => Err(self.failure(code)),
        }
    }

    fn put(&mut self, key: &[u8], value: &[u8], flags: c_uint) -> Result<()> {
        let (mut key, mut value) = (val(key), val(value));
        // SAFETY: the cursor is open and of the transaction that writes; LMDB copies what it is given.
        let code = unsafe { ffi::mdb_cursor_put(self.cursor.as_ptr(), &raw mut key, &raw mut value, flags) };
        if code == 0 { Ok(()) } else { Err(self.failure(code)) }
    }

    #[cold]
    fn failure(&self, code: c_int) -> OkraError {
        self.env.failure(code)
    }
}

impl Drop for RawCursor<'_> {
    fn drop(&mut self) {
        // SAFETY: it is open, as its transaction has not ended, and it is not used again.
        unsafe { ffi::mdb_cursor_close(self.cursor.as_ptr()) };
    }
}

/// A cursor that reads. What it gives lives as long as the borrow of the transaction: nothing writes meanwhile.
pub(super) struct Cursor<'t> {
    raw: RawCursor<'t>,
    txn: PhantomData<&'t Txn<'t>>,
}

impl<'t> Cursor<'t> {
    /// Moves to the first key that is not less.
    #[inline]
    pub(super) fn seek(&mut self, key: &[u8]) -> Result<Option<Item<'t>>> {
        // SAFETY: the transaction is borrowed as long as the slices live, so that nothing writes.
        unsafe { self.raw.get(key, ffi::MDB_SET_RANGE) }
    }

    /// Moves to the next key, or to the first one.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<Item<'t>>> {
        // SAFETY: the transaction is borrowed as long as the slices live, so that nothing writes.
        unsafe { self.raw.get(&[], ffi::MDB_NEXT) }
    }

    /// Moves to the key before, or to the last one.
    #[inline]
    pub(super) fn prev(&mut self) -> Result<Option<Item<'t>>> {
        // SAFETY: the transaction is borrowed as long as the slices live, so that nothing writes.
        unsafe { self.raw.get(&[], ffi::MDB_PREV) }
    }
}

/// Which of two cursors.
#[derive(Clone, Copy)]
pub(super) enum At {
    /// The one that walks over a level.
    Children,
    /// The one that walks over the level above.
    Parents,
}

/// Two cursors of the transaction that writes. LMDB keeps each where it is while the other one writes. Every call
/// borrows both exclusively, so that what one of them gave cannot outlive a write of the other.
pub(super) struct WriteCursors<'t> {
    raw: [RawCursor<'t>; 2],
    txn: PhantomData<&'t mut Txn<'t>>,
}

impl WriteCursors<'_> {
    /// Moves to the first key that is not less.
    pub(super) fn seek(&mut self, at: At, key: &[u8]) -> Result<Option<Item<'_>>> {
        // SAFETY: both cursors are borrowed as long as the slices live, so that nothing writes.
        unsafe { self.raw[at as usize].get(key, ffi::MDB_SET_RANGE) }
    }

    /// Moves to a key; where it is missing, [`WriteCursors::prev`] gives the one before.
    pub(super) fn seek_exact(&mut self, at: At, key: &[u8]) -> Result<Option<&[u8]>> {
        // SAFETY: both cursors are borrowed as long as the slice lives, so that nothing writes.
        Ok(unsafe { self.raw[at as usize].get(key, ffi::MDB_SET) }?.map(|(_, value)| value))
    }

    /// Returns the value where the cursor stands.
    pub(super) fn value(&mut self, at: At) -> Result<Option<&[u8]>> {
        // SAFETY: both cursors are borrowed as long as the slice lives, so that nothing writes.
        Ok(unsafe { self.raw[at as usize].get(&[], ffi::MDB_GET_CURRENT) }?.map(|(_, value)| value))
    }

    /// Moves to the next key; after [`WriteCursors::remove`], to the one behind what was removed.
    #[inline]
    pub(super) fn next(&mut self, at: At) -> Result<Option<Item<'_>>> {
        // SAFETY: both cursors are borrowed as long as the slices live, so that nothing writes.
        unsafe { self.raw[at as usize].get(&[], ffi::MDB_NEXT) }
    }

    /// Moves to the key before.
    pub(super) fn prev(&mut self, at: At) -> Result<Option<Item<'_>>> {
        // SAFETY: both cursors are borrowed as long as the slices live, so that nothing writes.
        unsafe { self.raw[at as usize].get(&[], ffi::MDB_PREV) }
    }

    /// Inserts or replaces, and stays there.
    pub(super) fn put(&mut self, at: At, key: &[u8], value: &[u8]) -> Result<()> {
        self.raw[at as usize].put(key, value, 0)
    }

    /// Replaces the value at the key where the cursor stands, which is `key`.
    pub(super) fn replace(&mut self, at: At, key: &[u8], value: &[u8]) -> Result<()> {
        self.raw[at as usize].put(key, value, ffi::MDB_CURRENT)
    }

    /// Adds what is greater than every key.
    pub(super) fn append(&mut self, at: At, key: &[u8], value: &[u8]) -> Result<()> {
        self.raw[at as usize].put(key, value, ffi::MDB_APPEND)
    }

    /// Removes what the cursor stands at.
    pub(super) fn remove(&mut self, at: At) -> Result<()> {
        let raw = &mut self.raw[at as usize];
        // SAFETY: the cursor is open and of the transaction that writes.
        let code = unsafe { ffi::mdb_cursor_del(raw.cursor.as_ptr(), 0) };
        if code == 0 { Ok(()) } else { Err(raw.failure(code)) }
    }
}

#[inline]
fn val(bytes: &[u8]) -> ffi::MDB_val {
    ffi::MDB_val { mv_size: bytes.len(), mv_data: bytes.as_ptr().cast::<c_void>().cast_mut() }
}

/// The bytes that LMDB points at.
///
/// # Safety
/// LMDB set `value`, and no write comes while the slice lives.
#[inline]
unsafe fn slice_of<'a>(value: &ffi::MDB_val) -> &'a [u8] {
    if value.mv_size == 0 {
        return &[];
    }
    // SAFETY: LMDB returned this pointer and length for a page of the live transaction.
    unsafe { slice::from_raw_parts(value.mv_data.cast::<u8>(), value.mv_size) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_that_failed_is_told_by_later_ones_and_says_nothing_of_commits() {
        let dir = tempfile::tempdir().unwrap();
        let options = EnvOptions { database: None, map_bytes: 1 << 24, read_only: false, sync: false, create: true };
        let env = Env::open(dir.path(), &options).unwrap();
        env.flush().unwrap();
        for code in [libc::ENOSPC, libc::EIO] {
            let told = env.sync_by(|| code);
            let Err(OkraError::Io { source, .. }) = &told else { panic!("{told:?}") };
            assert_eq!(source.raw_os_error(), Some(libc::ENOSPC), "the first failure");
        }
        let told = env.flush();
        assert!(matches!(told, Err(OkraError::Io { .. })), "{told:?}");
        env.begin(true).unwrap();
        drop(env);
        Env::open(dir.path(), &options).unwrap().flush().unwrap();
    }
}
