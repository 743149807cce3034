//! An open store: its parts, and how it is made, opened and closed.

use std::{
    collections::BTreeMap,
    fmt,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU64, Ordering::*},
    },
    time::Duration,
};

use bristlecone::{
    Error, Pins, RefTarget, Result,
    engine::{Derived, FormatTag, Header, Poison, Worker},
    storage::{RealStorage, Storage},
};

use super::{
    append::{AppendQueue, Writer},
    database::{Database, FOLDER},
    durable::Durable,
    holder::Holder,
    index::Index,
    lock,
    pages::Pages,
    refs::{self, Decoded, State},
    try_lock,
};
use crate::LsmOptions;

/// The name of the backend, also in headers.
pub(super) const NAME: &str = "lsm";
/// The version of its files.
const VERSION: u32 = 1;

/// An open store.
pub(super) struct OpenStore {
    pub(super) options: LsmOptions,
    pub(super) read_only: bool,
    pub(super) header: Header,
    pub(super) database: Database,
    pub(super) pages: Pages,
    pub(super) index: Index,
    /// Held while anything is appended.
    pub(super) writer: Mutex<Writer>,
    pub(super) queue: AppendQueue,
    /// Held for a moment by appends that are done, and by a sweep while it decides what goes.
    pub(super) refs: RwLock<RefTable>,
    pub(super) pins: Pins,
    /// Held by walks over all pages; a sweep moves objects only while there is none.
    pub(super) walking: RwLock<()>,
    /// How many sweeps have begun.
    pub(super) sweeps: AtomicU64,
    pub(super) poison: Poison,
    pub(super) durable: Option<Durable>,
    pub(super) derived: Derived,
    pub(super) counters: Counters,
    /// Syncs what grouped appends left.
    pub(super) syncer: Worker<Self, 1>,
    /// Writes the index.
    pub(super) indexer: Worker<Self, 1>,
    // Last: the database is closed before another process may open it.
    pub(super) holder: Holder,
}

/// Refs, and the state of the store as readers see it.
#[derive(Debug, Default)]
pub(super) struct RefTable {
    pub(super) by_name: BTreeMap<String, RefTarget>,
    pub(super) state: State,
}

/// What was done since the store was opened.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) bytes: AtomicU64,
    pub(super) writes: AtomicU64,
    pub(super) syncs: AtomicU64,
    pub(super) batches: AtomicU64,
}

pub(super) fn read_lock<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn write_lock<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

/// What the database says of refs and state.
#[derive(Default)]
struct Found {
    refs: RefTable,
    indexed: u64,
    unclean: Vec<u64>,
}

/// The sum of all refs.
#[derive(Default)]
struct Sum {
    found: u64,
    /// What the last move left, if the version that wrote it kept one.
    wanted: Option<u64>,
}

impl OpenStore {
    /// Makes a store in `dir` and opens it.
    pub(super) fn create(dir: &Path, format: FormatTag, options: LsmOptions) -> Result<Arc<Self>> {
        let storage: Arc<dyn Storage> = Arc::new(RealStorage::new(dir));
        storage.create_dir("").map_err(|error| Error::io(storage.describe(""), error))?;
        if Header::backend_in(&*storage)?.is_some() {
            return Err(Error::Exists { file: storage.describe("") });
        }
        let holder = Holder::take(&*storage, options.lock_wait_ms)?;
        // Another process may have been faster.
        if Header::backend_in(&*storage)?.is_some() {
            return Err(Error::Exists { file: storage.describe("") });
        }
        if Durable::is_in(&*storage) {
            let reason = "there is a store without its header; put the file back from a backup of this store";
            return Err(Error::Lost { file: storage.describe("store"), reason: reason.to_owned() });
        }
        // What a creation left that was killed before it wrote the header.
        let database = dir.join(FOLDER);
        match std::fs::remove_dir_all(&database) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io(database.display().to_string(), error));
            }
            _ => {}
        }
        let database = Database::create(dir, &options)?;
        database.sync()?;
        let header = Header { backend: NAME, version: VERSION, format };
        header.write(&*storage)?;
        Self::assemble(storage, header, database, holder, options, false)
    }

    /// Opens the store in `dir`.
    pub(super) fn open(dir: &Path, options: LsmOptions, read_only: bool) -> Result<Arc<Self>> {
        let storage: Arc<dyn Storage> = Arc::new(RealStorage::new(dir));
        let header = Self::header_in(&*storage)?;
        let holder = Holder::take(&*storage, options.lock_wait_ms)?;
        let database = Database::open(dir, &options)?;
        Self::assemble(storage, header, database, holder, options, read_only)
    }

    /// Reads the header of a store.
    pub(super) fn header_in(storage: &dyn Storage) -> Result<Header> {
        Header::read(storage, NAME, VERSION)
    }

    fn assemble(
        storage: Arc<dyn Storage>,
        header: Header,
        database: Database,
        holder: Holder,
        options: LsmOptions,
        read_only: bool,
    ) -> Result<Arc<Self>> {
        let found = Found::read(&database)?;
        let state = found.refs.state;
        Durable::check(&*storage, &state, &database.path().display().to_string())?;
        let durable = if read_only { None } else { Some(Durable::open(&*storage)?) };
        let works = options.background && !read_only;
        // The sync itself takes a part of the time.
        let delay = Duration::from_micros(options.grouped_ms.saturating_mul(800));
        let store = Arc::new(Self {
            pages: Pages::new(Database::pages_budget(options.cache_bytes)),
            index: Index::new(found.indexed, state.end, state.bytes),
            writer: Mutex::new(Writer::new(state)),
            queue: AppendQueue::default(),
            refs: RwLock::new(found.refs),
            pins: Pins::default(),
            walking: RwLock::default(),
            sweeps: AtomicU64::new(0),
            poison: Poison::default(),
            durable,
            derived: Derived::new(storage, "derived"),
            counters: Counters::default(),
            syncer: Worker::new("cone-lsm-sync", works, [delay], |store: &Self, _| _ = store.flush()),
            indexer: Worker::new("cone-lsm-index", works, [Duration::ZERO], |store: &Self, _| {
                store.database.write_ahead();
                store.write_index();
            }),
            options,
            read_only,
            header,
            database,
            holder,
        });
        store.pages.mark(found.unclean);
        if !read_only {
            store.derived.remove_abandoned();
        }
        store.syncer.serve(&store);
        store.indexer.serve(&store);
        Ok(store)
    }

    /// Makes everything durable that was appended so far.
    pub(super) fn flush(&self) -> Result<()> {
        if self.read_only {
            return Ok(());
        }
        self.holder.refuse_child()?;
        self.poison.check()?;
        // What is appended from here on may be durable as well, and need not.
        let state = read_lock(&self.refs).state;
        let synced = self.database.sync();
        self.counters.syncs.fetch_add(1, Relaxed);
        self.poisoning(synced)?;
        self.note_durable(&state);
        Ok(())
    }

    /// Notes that a state is durable.
    pub(super) fn note_durable(&self, state: &State) {
        if let Some(durable) = &self.durable {
            durable.note(state);
        }
    }

    /// Passes on the result of a write. After a failure nothing more is written: the database does not, either. Where there was no room
    /// in time ([`Error::Backend`]) it goes on, and so does the store.
    pub(super) fn poisoning<T>(&self, done: Result<T>) -> Result<T> {
        done.map_err(|error| match error {
            // `NoSpace` says that nothing was committed. The database does not tell: it may be there after the next opening.
            Error::NoSpace { file } => self.poison.set(format!("{file}: no space left on the device")),
            error @ Error::Backend { .. } => error,
            error => {
                let _ = self.poison.set(bristlecone::report(&error));
                error
            }
        })
    }

    /// Writes the index, or reads into memory what is to be written later.
    fn write_index(&self) {
        let _one = lock(&self.index.maintenance);
        self.write_index_alone();
    }

    /// As [`OpenStore::write_index`]. The caller holds `maintenance`.
    fn write_index_alone(&self) {
        let done = if self.index.unwritten_bytes() >= self.options.index_bytes {
            self.write_whole_index()
        } else {
            self.index.read_all(&self.database, &self.pages)
        };
        // A page that cannot be read is told to the caller that looks for it.
        if let Err(error @ (Error::Io { .. } | Error::NoSpace { .. } | Error::Poisoned { .. })) = done {
            let _ = self.poisoning::<()>(Err(error));
        }
    }

    /// Writes the index up to now. The caller holds `maintenance`.
    pub(super) fn write_whole_index(&self) -> Result<()> {
        self.index.write(&self.database, &self.pages, || self.flush())
    }

    /// Does what a thread would do, where there is none.
    pub(super) fn do_owed(&self) -> Result<()> {
        if self.syncer.is_owed(0) {
            self.syncer.settle(0, || self.flush())?;
        }
        // A sweep holds `maintenance` for long: a later append does it then.
        if self.indexer.is_owed(0)
            && let Some(_one) = try_lock(&self.index.maintenance)
            && self.indexer.take_owed(0)
        {
            self.write_index_alone();
        }
        Ok(())
    }

    /// Ends the threads and makes everything durable.
    pub(super) fn close(&self) -> Result<()> {
        if self.read_only || self.holder.refuse_child().is_err() {
            return Ok(());
        }
        self.syncer.stop();
        self.indexer.stop();
        self.flush()
    }
}

impl Found {
    fn read(database: &Database) -> Result<Self> {
        let (mut found, mut has_state, mut sum) = (Self::default(), false, Sum::default());
        database.each_ref(|key, value| {
            match refs::decode(key, value) {
                Some(Decoded::State { state, has_sum }) => {
                    (found.refs.state, has_state) = (state, true);
                    sum.wanted = has_sum.then_some(state.refs_sum);
                }
                Some(Decoded::Indexed(end)) => found.indexed = end,
                Some(Decoded::Ref(name, target)) => {
                    sum.found = sum.found.wrapping_add(refs::checksum_of(value));
                    found.refs.by_name.insert(name, target);
                }
                Some(Decoded::Unclean(page)) => found.unclean.push(page),
                None => {
                    let key = bristlecone::escape(key);
                    return Err(database.corrupt(&format!("the value of the key {key} in refs is damaged")));
                }
            }
            Ok(())
        })?;
        if !has_state && (found.indexed > 0 || !found.refs.by_name.is_empty()) {
            return Err(database.corrupt("the state of the store is missing"));
        }
        if sum.wanted.is_some_and(|wanted| wanted != sum.found) {
            let reason =
                "the refs are not all of the last move: the journal is damaged, or files are of different times";
            return Err(database.corrupt(reason));
        }
        // Written with the next change, also where an earlier version wrote none.
        found.refs.state.refs_sum = sum.found;
        Ok(found)
    }
}

impl Drop for OpenStore {
    fn drop(&mut self) {
        if self.holder.refuse_child().is_err() {
            self.database.leave_open();
        }
    }
}

impl fmt::Debug for OpenStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenStore({})", self.database.path().display())
    }
}
