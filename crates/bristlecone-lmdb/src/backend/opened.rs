//! The open store: made, opened, shared by the handles of a process, synced and closed.

use std::{
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak,
        atomic::{AtomicU64, Ordering::*},
    },
    thread,
    time::{Duration, Instant},
};

use bristlecone::{
    BackendStats, Error, Oid, Pins, Result,
    engine::{Derived, FormatTag, Header, Poison, Queue, StoreLock, Worker},
    storage::{OpenMode, Origin, RealStorage, Storage, retry},
};

use super::{
    LmdbOptions,
    append::CallerAppends,
    rows::{STATE_KEY, State},
};
use crate::env::{
    self, Code, DATA, Database, Env, EnvOptions, LOCK, Txn,
    layout::{self, DataFile},
    per_process::PerProcess,
};

/// The backend's name.
pub(super) const NAME: &str = "lmdb";
/// The version of the files.
const VERSION: u32 = 1;
/// The folder of LMDB's files.
const FOLDER: &str = "lmdb";
/// There as long as a store is being made: what lies beside it was left by a process that was killed.
const CREATING: &str = "lmdb/creating";
/// The file of the pages.
pub(super) const DATA_NAME: &str = "lmdb/data.mdb";
/// The databases in the file.
const DATABASES: [&str; 3] = ["objects", "refs", "meta"];
/// The name of the one with what is counted.
const META: &[u8] = b"meta";
/// The number of the commit in a copy that LMDB's tools made without free pages.
const COPIED: u64 = 1;
/// How often the pages are looked at before they count as damaged.
const PAGE_TRIES: usize = 8;
/// The name of the one with the objects.
pub(super) const OBJECTS: &[u8] = b"objects";
/// The job of the thread: to sync what was appended.
pub(super) const SYNC: usize = 0;

/// A store that is open in this process.
#[derive(Debug)]
pub(super) struct OpenStore {
    pub(super) header: Header,
    pub(super) env: Env,
    pub(super) objects: Database,
    pub(super) refs: Database,
    pub(super) meta: Database,
    pub(super) storage: Arc<dyn Storage>,
    pub(super) derived: Derived,
    pub(super) queue: Queue<CallerAppends, Vec<Result<()>>>,
    pub(super) lock: StoreLock,
    pub(super) poison: Poison,
    pub(super) worker: Worker<Self, 1>,
    pub(super) pins: Pins,
    /// Held alone while a sweep drops objects, and by the callers that ask to keep some.
    pub(super) dropping: RwLock<()>,
    /// Held by the thread that sweeps.
    pub(super) sweeping: Mutex<()>,
    /// What this process appended since a sweep began, while it marks beside appends.
    pub(super) noted: Mutex<Option<Vec<Oid>>>,
    /// How many sweeps have begun. No other process sweeps as long as this one has the store open.
    pub(super) sweeps: AtomicU64,
    /// No higher than the position of the store.
    pub(super) position: AtomicU64,
    /// No higher than the number of appends of the store.
    pub(super) appends: AtomicU64,
    /// Appends of the store when this process wrote last.
    pub(super) own_appends: AtomicU64,
    /// Appends of the store when this process met those of another one: what refs left before is not known here.
    pub(super) foreign_appends: AtomicU64,
    /// Appends of the store when a snapshot was taken last.
    pub(super) snapshot_appends: AtomicU64,
    /// The last transaction, of any process, that is known to be durable.
    pub(super) durable_txn: AtomicU64,
    /// Held by the thread that syncs: who asks meanwhile waits for it.
    pub(super) syncing: Mutex<()>,
    pub(super) counters: Counters,
    // Declared last: once it is dropped the folder can be opened anew.
    _mark: OpenMark,
}

/// What [`BackendStats`] reports.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) bytes: AtomicU64,
    pub(super) writes: AtomicU64,
    pub(super) syncs: AtomicU64,
    pub(super) batches: AtomicU64,
}

/// A folder that is open, or being opened or closed, in this process.
#[derive(Debug)]
struct OpenMark {
    origin: Origin,
    folder: (u64, u64),
}

struct OpenFolder {
    origin: Origin,
    folder: (u64, u64),
    /// Dangling while the store is opened or closed.
    store: Weak<OpenStore>,
}

static OPEN: PerProcess<OpenFolder> = PerProcess::new();

impl OpenMark {
    /// Marks a folder, or returns the store that is open there.
    fn take(dir: &Path, wait_ms: u64) -> Result<std::result::Result<Self, Arc<OpenStore>>> {
        let described = || dir.display().to_string();
        let found = dir.metadata().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                let reason = "the folder of the pages is missing; put it back from a backup".to_owned();
                Error::Lost { file: described(), reason }
            }
            _ => Error::io(described(), error),
        })?;
        let (origin, folder) = (Origin::here(), (found.dev(), found.ino()));
        let since = Instant::now();
        loop {
            let mut open = OPEN.lock();
            match open.iter().find(|open| open.origin == origin && open.folder == folder) {
                None => {
                    open.push(OpenFolder { origin, folder, store: Weak::new() });
                    return Ok(Ok(Self { origin, folder }));
                }
                Some(open) => {
                    if let Some(store) = open.store.upgrade() {
                        return Ok(Err(store));
                    }
                }
            }
            drop(open);
            let waited_ms = since.elapsed().as_millis() as u64;
            if waited_ms >= wait_ms {
                let holder = "another thread of this process, which opens or closes it".to_owned();
                return Err(Error::Locked { file: described(), holder, waited_ms });
            }
            thread::sleep(Duration::from_micros(200));
        }
    }

    fn serve(&self, store: &Arc<OpenStore>) {
        let mut open = OPEN.lock();
        if let Some(open) = open.iter_mut().find(|open| open.origin == self.origin && open.folder == self.folder) {
            open.store = Arc::downgrade(store);
        }
    }
}

impl Drop for OpenMark {
    fn drop(&mut self) {
        OPEN.lock().retain(|open| open.origin != self.origin || open.folder != self.folder);
    }
}

/// A store's folder, before it is open.
struct Folder {
    storage: Arc<dyn Storage>,
    lmdb: PathBuf,
    lock: StoreLock,
}

impl Folder {
    fn new(dir: &Path, options: &LmdbOptions) -> Self {
        let storage: Arc<dyn Storage> = Arc::new(RealStorage::new(dir));
        let lock = StoreLock::new(storage.clone(), "lock", options.lock_wait_ms);
        Self { storage, lmdb: dir.join(FOLDER), lock }
    }

    fn has(&self, name: &str) -> Result<bool> {
        match retry(|| self.storage.stat(name)) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(self.failed(name, error)),
        }
    }

    /// Fails if there is a store.
    fn refuse_store(&self) -> Result<()> {
        if self.has("store")? { Err(Error::Exists { file: self.storage.describe("") }) } else { Ok(()) }
    }

    fn remove(&self, name: &str) -> Result<()> {
        match retry(|| self.storage.remove(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(self.failed(name, error)),
            _ => Ok(()),
        }
    }

    fn failed(&self, name: &str, error: std::io::Error) -> Error {
        Error::io(self.storage.describe(name), error)
    }

    fn open_env(&self, options: &LmdbOptions, read_only: bool) -> Result<Env> {
        let map_bytes = usize::try_from(options.map_bytes).unwrap_or(usize::MAX >> 1);
        Env::open(&self.lmdb, &EnvOptions { map_bytes, read_only, databases_max: DATABASES.len() as u32 })
    }

    /// Checks the pages that are needed to open the store, before LMDB sees them.
    fn check_pages(&self) -> Result<()> {
        let mut checked = Ok(());
        for _ in 0..PAGE_TRIES {
            let Some(found) = layout::check(&*self.storage, DATA_NAME)? else {
                let reason = "the file of the pages is missing; put it back from a backup".to_owned();
                return Err(Error::Lost { file: self.storage.describe(DATA_NAME), reason });
            };
            checked =
                env::pages::check(&*self.storage, DATA_NAME, &found, META).and_then(|()| self.check_turns(&found));
            // A reader takes no lock: pages that it looks at may be used again meanwhile.
            if !matches!(checked, Err(Error::Corrupt { .. } | Error::Lost { .. })) {
                break;
            }
        }
        checked
    }

    /// Checks that the first page which does not count is of the commit that it says: one that counts, with a bit of its
    /// number flipped, would pass for it, and the last commit be lost without a word.
    fn check_turns(&self, found: &DataFile) -> Result<()> {
        let older = found.older;
        let state = env::pages::value_at(&*self.storage, DATA_NAME, older, META, STATE_KEY)?;
        match state.as_deref().and_then(State::decode) {
            Some(state) if state.txn != older.txn && older.txn != COPIED => {
                let (said, txn) = (older.txn, state.txn);
                let reason = format!(
                    "a first page says that it is of commit {said}, and leads to commit {txn}; put the file back from a backup"
                );
                Err(Error::Corrupt { file: self.storage.describe(DATA_NAME), offset: 0, oid: None, reason })
            }
            _ => Ok(()),
        }
    }

    /// Makes what a header stands for. Nothing counts until that is written.
    fn make(&self, header: &Header, options: &LmdbOptions) -> Result<()> {
        let step = |name: &str, done: std::io::Result<()>| done.map_err(|error| self.failed(name, error));
        let (data, table) = (DATA_NAME, format!("{FOLDER}/{LOCK}"));
        if self.has(CREATING)? {
            self.remove(data)?;
            self.remove(&table)?;
        } else if self.has(data)? {
            let reason = "there are pages here, and the store's header is missing; put the file store back from a backup, \
                          or make the store elsewhere";
            return Err(Error::Lost { file: self.storage.describe(data), reason: reason.to_owned() });
        }
        step(FOLDER, retry(|| self.storage.create_dir(FOLDER)))?;
        step(CREATING, retry(|| self.storage.open(CREATING, OpenMode::Create)).map(drop))?;
        step(FOLDER, self.storage.sync_dir(FOLDER))?;
        let Ok(_mark) = OpenMark::take(&self.lmdb, options.lock_wait_ms)? else {
            return Err(Error::Exists { file: self.storage.describe("") });
        };
        let env = self.open_env(options, false)?;
        let mut txn = env.write(true)?;
        let state = State { txn: txn.id(), ..State::default() };
        let made = txn.create_databases(DATABASES).and_then(|[_, _, meta]| txn.put(meta, STATE_KEY, &state.encode()));
        made.and_then(|()| txn.commit()).map_err(|code| env.error(code))?;
        drop(env);
        step(FOLDER, self.storage.sync_dir(FOLDER))?;
        header.write(&*self.storage)?;
        self.remove(CREATING)
    }
}

impl OpenStore {
    pub(super) fn create(dir: &Path, format: FormatTag, options: &LmdbOptions) -> Result<Arc<Self>> {
        let folder = Folder::new(dir, options);
        retry(|| folder.storage.create_dir("")).map_err(|error| folder.failed("", error))?;
        folder.refuse_store()?;
        let guard = folder.lock.take()?;
        // Another process may have been faster.
        folder.refuse_store()?;
        folder.make(&Header { backend: NAME, version: VERSION, format }, options)?;
        drop(guard);
        Self::open(dir, options, false)
    }

    pub(super) fn open(dir: &Path, options: &LmdbOptions, read_only: bool) -> Result<Arc<Self>> {
        let folder = Folder::new(dir, options);
        let header = Header::read(&*folder.storage, NAME, VERSION)?;
        let mark = match OpenMark::take(&folder.lmdb, options.lock_wait_ms)? {
            Ok(mark) => mark,
            Err(store) if store.env.is_read_only() && !read_only => {
                let reason = "this process has the store open for reading only; close that first";
                return Err(Error::Usage { reason });
            }
            Err(store) => return Ok(store),
        };
        // A sweep of another process, which counts those that have the store open, is not under way.
        let guard = if read_only { None } else { Some(folder.lock.take()?) };
        folder.check_pages()?;
        if !read_only {
            folder.remove(CREATING)?;
        }
        let env = folder.open_env(options, read_only)?;
        let ([objects, refs, meta], state) = Self::first_look(&env)?;
        drop(guard);
        let Folder { storage, lock, .. } = folder;
        let delay = Duration::from_millis(options.grouped_ms / 2);
        let store = Arc::new(Self {
            header,
            env,
            objects,
            refs,
            meta,
            derived: Derived::new(storage.clone(), "derived"),
            storage,
            queue: Queue::default(),
            lock,
            poison: Poison::default(),
            worker: Worker::new("cone-lmdb", options.background, [delay], |store: &Self, _| {
                // Whoever waits for it was told that it would come.
                if store.flush().is_err() && !store.poison.is_set() {
                    store.worker.ask(SYNC);
                }
            }),
            pins: Pins::default(),
            dropping: RwLock::new(()),
            sweeps: AtomicU64::new(state.sweeps),
            position: AtomicU64::new(state.position),
            appends: AtomicU64::new(state.appends),
            own_appends: AtomicU64::new(state.appends),
            sweeping: Mutex::default(),
            noted: Mutex::default(),
            foreign_appends: AtomicU64::new(state.appends),
            snapshot_appends: AtomicU64::new(0),
            // Another process may have ended before it synced.
            durable_txn: AtomicU64::new(0),
            syncing: Mutex::new(()),
            counters: Counters::default(),
            _mark: mark,
        });
        if !read_only {
            store.derived.remove_abandoned();
        }
        store.worker.serve(&store);
        store._mark.serve(&store);
        Ok(store)
    }

    /// Opens the databases and reads the state, of a file that may be anything that LMDB opens.
    fn first_look(env: &Env) -> Result<([Database; 3], State)> {
        let txn = env.read()?;
        let corrupt = |reason: &str| {
            let reason = format!("{reason}; put the file back from a backup");
            Error::Corrupt { file: env.describe(DATA), offset: 0, oid: None, reason }
        };
        let databases = match txn.databases(DATABASES) {
            Ok(Some(databases)) => databases,
            Ok(None) => return Err(corrupt("it is a file of LMDB without the databases of a store")),
            Err(code) => return Err(env.error(code)),
        };
        drop(txn);
        let txn = env.read()?;
        let value = txn.get(databases[2], STATE_KEY).map_err(|code| env.error(code))?;
        let Some(state) = value.and_then(State::decode) else {
            return Err(corrupt("what the store counts has another checksum"));
        };
        if state.txn != txn.id() && txn.id() != COPIED {
            let (found, wanted) = (txn.id(), state.txn);
            let reason = format!("the last commit is number {found} in the first pages, and {wanted} in the store");
            return Err(corrupt(&reason));
        }
        Ok((databases, state))
    }

    /// Returns what a sweep that is under way is told of what is appended.
    pub(super) fn noted(&self) -> MutexGuard<'_, Option<Vec<Oid>>> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what is counted now, by all processes.
    pub(super) fn state(&self) -> Result<State> {
        let txn = self.env.read()?;
        let state = self.state_in(&txn)?;
        self.position.fetch_max(state.position, AcqRel);
        self.appends.fetch_max(state.appends, AcqRel);
        Ok(state)
    }

    /// Returns what is counted, as a transaction sees it.
    pub(super) fn state_in(&self, txn: &Txn<'_>) -> Result<State> {
        let value = txn.get(self.meta, STATE_KEY).map_err(|code| self.env.error(code))?.unwrap_or_default();
        let reason = "what the store counts has another checksum";
        State::decode(value).ok_or_else(|| self.corrupt(txn, value, None, reason))
    }

    /// Returns the error for bytes that a transaction lent and that cannot be right.
    #[cold]
    pub(super) fn corrupt(&self, txn: &Txn<'_>, lent: &[u8], oid: Option<Oid>, reason: &str) -> Error {
        let offset = if lent.is_empty() { 0 } else { txn.offset_of(lent) };
        Error::Corrupt { file: self.env.describe(DATA), offset, oid, reason: reason.to_owned() }
    }

    /// Returns the error of a code that ended a commit, and poisons the store where a sync may have failed.
    pub(super) fn commit_failed(&self, code: Code, bytes: u64) -> Error {
        // LMDB calls a short write so, which a full disk is the usual reason for.
        let no_space = code.0 == libc::EIO && self.has_no_room(bytes);
        if no_space || code.0 == libc::EFBIG {
            return Error::NoSpace { file: self.env.describe(DATA) };
        }
        match self.env.error(code) {
            error @ (Error::Io { .. } | Error::Poisoned { .. }) => {
                let _ = self.poison.set(bristlecone::report(&error));
                error
            }
            error => error,
        }
    }

    /// Whether there is no room for so many bytes.
    fn has_no_room(&self, bytes: u64) -> bool {
        // As many again for the pages above what changes.
        env::has_no_room(&*self.storage, self.file_bytes(), bytes.saturating_mul(2).saturating_add(1 << 20))
    }

    fn file_bytes(&self) -> u64 {
        self.storage.stat(DATA_NAME).map_or(0, |found| found.bytes)
    }

    /// Makes durable what was appended, by other processes too.
    pub(super) fn flush(&self) -> Result<()> {
        self.lock.refuse_child()?;
        if self.env.is_read_only() {
            return self.poison.check();
        }
        let _alone = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        self.poison.check()?;
        let last = self.env.read()?.id();
        if last <= self.durable_txn.load(Acquire) {
            return Ok(());
        }
        let synced = self.env.sync();
        self.counters.syncs.fetch_add(1, Relaxed);
        synced.map_err(|error| self.sync_failed(error))?;
        self.durable_txn.fetch_max(last, AcqRel);
        Ok(())
    }

    /// Poisons the store after a sync that failed, whatever the reason was, and returns the error: the next sync would succeed
    /// without what this one lost.
    #[cold]
    pub(super) fn sync_failed(&self, error: Error) -> Error {
        match error {
            // `NoSpace` says that nothing was committed, and commits were made before.
            Error::NoSpace { file } => self.poison.set(format!("{file}: no space left on the device")),
            error => {
                let _ = self.poison.set(bristlecone::report(&error));
                error
            }
        }
    }

    /// Makes the map larger, so that `bytes` more fit. A sync uses the map as a read does, and may take longer than reads are waited for.
    pub(super) fn grow(&self, bytes: u64) -> Result<()> {
        let _no_sync = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        self.env.grow(bytes)
    }

    /// Makes the sync that grouped appends wait for and no thread makes.
    pub(super) fn sync_owed(&self) -> Result<()> {
        if self.worker.is_owed(SYNC) { self.worker.settle(SYNC, || self.flush()) } else { Ok(()) }
    }

    pub(super) fn close(&self) -> Result<()> {
        if self.lock.refuse_child().is_err() {
            return Ok(());
        }
        self.worker.stop();
        self.flush()
    }

    pub(super) fn stats(&self) -> BackendStats {
        let info = self.env.info();
        let pages = self.env.read().ok().and_then(|txn| {
            [self.objects, self.refs, self.meta]
                .into_iter()
                .map(|database| txn.pages(database).ok())
                .sum::<Option<u64>>()
        });
        let counters = &self.counters;
        BackendStats {
            bytes_written: counters.bytes.load(Relaxed),
            writes: counters.writes.load(Relaxed),
            syncs: counters.syncs.load(Relaxed),
            batches: counters.batches.load(Relaxed),
            store_bytes: pages.unwrap_or(0) * info.page_bytes,
            file_bytes: self.file_bytes(),
            mapped_bytes: info.used_bytes,
            ..BackendStats::default()
        }
    }
}

impl Drop for OpenStore {
    fn drop(&mut self) {
        // A caller that wants to know calls `close`.
        let _ = self.close();
    }
}
