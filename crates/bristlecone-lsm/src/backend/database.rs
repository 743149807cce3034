//! The database: three keyspaces, and the errors of fjall as ours.
//!
//! - `records`: pages of records by number;
//! - `ids`: where each object is, by id; written in sorted runs and behind the pages;
//! - `refs`: refs by name, the state, and the pages that a sweep has still to clean.
//!
//! fjall is told to keep values in the tree, to compress nothing, and to keep memtables and journals short. Bytes that it
//! cannot make sense of may make it panic; the panic ends here, as [`Error::Corrupt`].

use std::{
    io,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use bristlecone::{Error, Location, Oid, OidPrefix, Result};
use fjall::{
    AbstractTree as _, CompressionType, Database as Fjall, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch,
    PersistMode, Slice,
    compaction::Leveled,
    config::{BlockSizePolicy, CompressionPolicy, PartitioningPolicy, RestartIntervalPolicy},
};

use super::{
    counts,
    refs::{self, State},
};
use crate::{LsmError, LsmOptions};

/// The folder of the database, in the store's.
pub(super) const FOLDER: &str = "lsm";
/// The file with which fjall says that a database is there. Without it, fjall would make a new one.
const MARKER: &str = "version";
/// Journals have numbers for names, and end so.
const JOURNAL_SUFFIX: &str = ".jnl";
const RECORDS: &str = "records";
const IDS: &str = "ids";
const REFS: &str = "refs";

/// Memory that indexes and refs take until they are in tables.
const OTHER_MEMTABLE_BYTES: u64 = 4 << 20;
/// The part of the cache's budget that fjall has for blocks: what was read is kept as pages.
const BLOCKS_PART: u64 = 4;
/// From this size on of all journals, fjall writes what keeps the oldest from being removed.
const JOURNALS_BYTES: u64 = 256 << 20;
/// Pages are values of up to 16 KiB; a block of this size has one or more of them.
const RECORDS_BLOCK_BYTES: u32 = 4 << 10;
/// Ids are random, so that a merge takes a whole level; small levels keep it short, since memtables wait for it.
const IDS_TABLE_BYTES: u64 = 16 << 20;
/// From so many memtables on that wait to be written, and so many runs of tables that wait to be merged, appends wait. At one
/// more, and at 30, fjall waits itself: for ever, if its thread has ended.
const SEALED_MAX: usize = 3;
const RUNS_MAX: usize = 26;
/// While as many are sealed as may be, the next one may grow to so many times its size: the thread that writes memtables also merges
/// tables, which takes a second at times.
const MEMTABLE_GROWTH_MAX: u64 = 4;
/// From so many bytes on fjall takes a memtable for full, in stores of this version: they are sealed here before that, or appends wait.
/// Versions of before leave sealing to it.
const FULL_BYTES: u64 = 128 << 20;
/// How often blocks of data restart, level by level. It is what fjall does by itself, with a word more: fjall keeps a keyspace's options
/// and does not tell from which size on it takes a memtable for full, so that this says of a keyspace that it is [`FULL_BYTES`].
const RESTARTS: [u8; 3] = [10, 16, 16];
/// How often a waiting append looks again.
const PAUSE: Duration = Duration::from_millis(1);

/// The database of a store.
pub(super) struct Database {
    db: Fjall,
    records: Keyspace,
    ids: Keyspace,
    refs: Keyspace,
    path: PathBuf,
    /// A memtable of pages is sealed from so many bytes on.
    memtable_bytes: u64,
    /// To so many bytes a memtable may grow before appends wait. `None`: not beyond what it is sealed from, since fjall may take it for
    /// full; versions of before made such keyspaces.
    memtable_bytes_max: Option<u64>,
    /// How long a change waits for room at most.
    room_wait: Duration,
}

/// Changes that are made together.
pub(super) struct Changes<'a> {
    database: &'a Database,
    batch: OwnedWriteBatch,
    /// Whether places leave the index.
    from_index: bool,
}

impl Database {
    /// Makes a database in `dir`, where there must be none.
    pub(super) fn create(dir: &Path, options: &LsmOptions) -> Result<Self> {
        Self::start(dir.join(FOLDER), options, true)
    }

    /// Opens the database in `dir`.
    pub(super) fn open(dir: &Path, options: &LsmOptions) -> Result<Self> {
        let path = dir.join(FOLDER);
        let marker = path.join(MARKER);
        match marker.try_exists() {
            Ok(true) => {
                counts::check(&path)?;
                Self::start(path, options, false)
            }
            Ok(false) => Err(lost(&marker, "the database of this store is not there")),
            Err(error) => Err(Error::io(marker.display().to_string(), error)),
        }
    }

    fn start(path: PathBuf, options: &LsmOptions, create: bool) -> Result<Self> {
        let start = || {
            // With two threads, one of them turns in circles while the other compacts.
            let db = Fjall::builder(&path)
                .cache_size(options.cache_bytes / BLOCKS_PART)
                .worker_threads(1)
                .max_journaling_size(JOURNALS_BYTES)
                .journal_compression(CompressionType::None)
                .open()?;
            if !create && ![RECORDS, IDS, REFS].iter().all(|name| db.keyspace_exists(name)) {
                return Ok(None);
            }
            let keyspace = || {
                let mut options = KeyspaceCreateOptions::default()
                    .max_memtable_size(FULL_BYTES)
                    .data_block_restart_interval_policy(RestartIntervalPolicy::new(RESTARTS))
                    .data_block_compression_policy(CompressionPolicy::all(CompressionType::None));
                // Else a search reads the filter and the block index of a whole table, a megabyte each.
                options.filter_block_partitioning_policy = PartitioningPolicy::all(true);
                options.index_block_partitioning_policy = PartitioningPolicy::all(true);
                options
            };
            // What is looked for in `records` is there, so that filters would only cost.
            let records = db.keyspace(RECORDS, || {
                keyspace()
                    .expect_point_read_hits(true)
                    .data_block_size_policy(BlockSizePolicy::all(RECORDS_BLOCK_BYTES))
            })?;
            let ids = db.keyspace(IDS, || {
                let merges = Leveled::default().with_table_target_size(IDS_TABLE_BYTES);
                keyspace().compaction_strategy(Arc::new(merges))
            })?;
            let refs = db.keyspace(REFS, keyspace)?;
            Ok(Some((db, records, ids, refs)))
        };
        match guarded(&path, start)? {
            Some((db, records, ids, refs)) => {
                let memtable_bytes = options.memtable_bytes.min(FULL_BYTES);
                let is_new = |keyspace: &&Keyspace| keyspace.config.data_block_restart_interval_policy[..] == RESTARTS;
                let may_grow = [&records, &ids, &refs].iter().all(is_new);
                let grown = memtable_bytes.max(OTHER_MEMTABLE_BYTES) * MEMTABLE_GROWTH_MAX;
                let memtable_bytes_max = may_grow.then_some(grown.min(FULL_BYTES));
                let room_wait = Duration::from_millis(options.room_wait_ms);
                Ok(Self { db, records, ids, refs, path, memtable_bytes, memtable_bytes_max, room_wait })
            }
            None => Err(lost(&path, "the database of this store lacks a keyspace")),
        }
    }

    /// Begins changes that are made together.
    pub(super) fn change(&self) -> Changes<'_> {
        Changes { database: self, batch: self.db.batch(), from_index: false }
    }

    /// Returns how much of a budget is left for pages.
    pub(super) const fn pages_budget(cache_bytes: u64) -> u64 {
        cache_bytes - cache_bytes / BLOCKS_PART
    }

    /// Returns the keyspaces, and from how many bytes on their memtables are sealed.
    fn keyspaces(&self) -> [(&Keyspace, u64); 3] {
        let other = OTHER_MEMTABLE_BYTES;
        [(&self.records, self.memtable_bytes), (&self.refs, other), (&self.ids, other)]
    }

    /// Waits until the database can take more; `from_index`: also of what leaves the index, which nobody else waits for. An
    /// [`Error::Backend`] says that there was no room in time.
    fn wait_for_room(&self, from_index: bool) -> Result<()> {
        let is_full = |(keyspace, bytes_max): (&Keyspace, u64)| {
            let tree = &keyspace.tree;
            let sealed = tree.sealed_memtable_count();
            let has_grown = || tree.active_memtable().size() > self.memtable_bytes_max.unwrap_or(bytes_max);
            // One more may be sealed: opening seals as many as there are journals.
            sealed > SEALED_MAX || sealed == SEALED_MAX && has_grown() || tree.l0_run_count() >= RUNS_MAX
        };
        let [records, refs, ids] = self.keyspaces();
        let mut since = None;
        while is_full(records) || is_full(refs) || from_index && is_full(ids) {
            // Fails if the database's thread ended with an error.
            guarded(&self.path, || self.db.persist(PersistMode::Buffer))?;
            let waited = since.get_or_insert_with(Instant::now).elapsed();
            if waited > self.room_wait {
                let waited_ms = waited.as_millis() as u64;
                return Err(Error::backend(self.path.display().to_string(), LsmError::Busy { waited_ms }));
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Seals memtables that are full. fjall would send its thread a message for each change of a full one, through a channel that
    /// holds a thousand; while the thread merges tables so many come, and then it waits for ever to send itself one.
    fn seal_full(&self) {
        for (keyspace, bytes_max) in self.keyspaces() {
            let is_full = keyspace.tree.active_memtable().size() > bytes_max;
            if is_full && keyspace.tree.sealed_memtable_count() < SEALED_MAX {
                // The change is made. What keeps a memtable from being sealed keeps the next change from being made, too.
                let _ = guarded(&self.path, || keyspace.rotate_memtable());
            }
        }
    }

    /// Makes everything durable that was changed so far.
    pub(super) fn sync(&self) -> Result<()> {
        guarded(&self.path, || self.db.persist(PersistMode::SyncData))
    }

    /// Has the system write what is in the journal, so that the next sync has little to do. fjall holds its journal while it
    /// syncs, and appends wait; here they do not. It promises nothing: a failure shows in the next sync as well.
    pub(super) fn write_ahead(&self) {
        let number = |name: &str| name.strip_suffix(JOURNAL_SUFFIX)?.parse::<u64>().ok();
        let files = std::fs::read_dir(&self.path).into_iter().flatten().flatten();
        let newest = files.filter_map(|file| number(file.file_name().to_str()?)).max();
        if let Some(newest) = newest {
            let path = self.path.join(format!("{newest}{JOURNAL_SUFFIX}"));
            let _ = std::fs::File::open(path).and_then(|file| file.sync_data());
        }
    }

    /// Returns the value of a page.
    pub(super) fn page(&self, number: u64) -> Result<Option<Slice>> {
        guarded(&self.path, || self.records.get(number.to_be_bytes()))
    }

    /// Calls `each` with the pages of a range, ascending, until it returns `false`.
    pub(super) fn each_page(&self, pages: Range<u64>, each: &mut dyn FnMut(u64, Slice) -> Result<bool>) -> Result<()> {
        let range = pages.start.to_be_bytes()..pages.end.to_be_bytes();
        let mut found = guarded(&self.path, || Ok(self.records.range(range)))?;
        while let Some(item) = guarded(&self.path, || found.next().map(fjall::Guard::into_inner).transpose())? {
            let Ok(number) = <[u8; 8]>::try_from(&*item.0) else {
                return Err(corrupt(&self.path, "the key of a page has no 8 bytes"));
            };
            if !each(u64::from_be_bytes(number), item.1)? {
                break;
            }
        }
        Ok(())
    }

    /// Returns where an object is, as far as the index goes.
    pub(super) fn location(&self, oid: &Oid) -> Result<Option<Location>> {
        let Some(value) = guarded(&self.path, || self.ids.get(oid.as_bytes()))? else { return Ok(None) };
        self.decode_location(&value).map(Some)
    }

    fn decode_location(&self, value: &[u8]) -> Result<Location> {
        match value.try_into() {
            Ok(bytes) => Ok(Location(u64::from_le_bytes(bytes))),
            Err(_) => Err(corrupt(&self.path, "a location in the index has no 8 bytes")),
        }
    }

    /// Calls `each` with the ids in the index that begin with these digits, ascending, until it returns `false`.
    pub(super) fn each_id(&self, prefix: &OidPrefix, each: &mut dyn FnMut(Oid) -> bool) -> Result<()> {
        let from = prefix.least().to_vec();
        let mut found = guarded(&self.path, || Ok(self.ids.range(from..)))?;
        while let Some((key, _)) = guarded(&self.path, || found.next().map(fjall::Guard::into_inner).transpose())? {
            let oid = Oid::new(&key).map_err(|_| corrupt(&self.path, "a key of the index is no id"))?;
            if !prefix.matches(&oid) || !each(oid) {
                break;
            }
        }
        Ok(())
    }

    /// Adds places to the index, durably. `places`: ascending by the bytes of the ids, each id once.
    pub(super) fn index(&self, places: &[(Oid, Location)]) -> Result<()> {
        guarded(&self.path, || {
            let mut run = self.ids.start_ingestion()?;
            for (oid, at) in places {
                run.write(oid.as_bytes(), at.0.to_le_bytes())?;
            }
            run.finish()
        })
    }

    /// Calls `each` with the keys and values of `refs`.
    pub(super) fn each_ref(&self, mut each: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        let mut found = guarded(&self.path, || Ok(self.refs.iter()))?;
        while let Some((key, value)) = guarded(&self.path, || found.next().map(fjall::Guard::into_inner).transpose())? {
            each(&key, &value)?;
        }
        Ok(())
    }

    /// Returns how many bytes the files take.
    pub(super) fn file_bytes(&self) -> u64 {
        guarded(&self.path, || self.db.disk_space()).unwrap_or_default()
    }

    /// Returns how many bytes of memory caches and memtables take.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.db.cache_size() + self.db.write_buffer_size()
    }

    /// Leaves the database open for good, in a process that was forked: fjall would wait for threads that only the process has
    /// which opened it.
    pub(super) fn leave_open(&self) {
        std::mem::forget(self.db.clone());
    }

    /// Returns an error that names the database.
    pub(super) fn corrupt(&self, reason: &str) -> Error {
        corrupt(&self.path, reason)
    }

    /// Returns the name of the pages, for messages.
    pub(super) fn pages_name(&self) -> String {
        format!("{}/{RECORDS}", self.path.display())
    }

    /// Returns the folder.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Changes<'_> {
    pub(super) fn put_page(&mut self, number: u64, value: Slice) {
        self.batch.insert(&self.database.records, number.to_be_bytes(), value);
    }

    pub(super) fn remove_page(&mut self, number: u64) {
        self.batch.remove(&self.database.records, number.to_be_bytes());
    }

    pub(super) fn put_ref(&mut self, key: &[u8], value: &[u8]) {
        self.batch.insert(&self.database.refs, key, value);
    }

    pub(super) fn remove_ref(&mut self, key: &[u8]) {
        self.batch.remove(&self.database.refs, key);
    }

    pub(super) fn put_state(&mut self, state: &State) {
        self.put_ref(refs::STATE, &state.encode());
    }

    pub(super) fn remove_location(&mut self, oid: &Oid) {
        self.batch.remove(&self.database.ids, oid.as_bytes());
        self.from_index = true;
    }

    /// Makes the changes, all or none: the system has them when this returns, the medium if `sync` is set. With an
    /// [`Error::Backend`] none is made, and the database goes on.
    pub(super) fn make(self, sync: bool) -> Result<()> {
        self.database.wait_for_room(self.from_index)?;
        let mode = if sync { PersistMode::SyncData } else { PersistMode::Buffer };
        guarded(&self.database.path, || self.batch.durability(Some(mode)).commit())?;
        self.database.seal_full();
        Ok(())
    }
}

/// Makes a call of fjall. What it panics with was caused by damaged bytes.
fn guarded<T>(path: &Path, call: impl FnOnce() -> fjall::Result<T>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(done) => done.map_err(|error| from_fjall(path, error)),
        Err(_) => Err(corrupt(path, "the database cannot make sense of its files")),
    }
}

fn from_fjall(path: &Path, error: fjall::Error) -> Error {
    use fjall::{Error as Fjall, LsmError};
    let place = path.display().to_string();
    match error {
        // A table that ends too early is damage, and the system did not fail.
        Fjall::Io(error) | Fjall::Storage(LsmError::Io(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
            corrupt(path, "a file of the database is cut short")
        }
        Fjall::Io(error) | Fjall::Storage(LsmError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
            lost(path, "a file of the database is not there")
        }
        Fjall::Io(error) | Fjall::Storage(LsmError::Io(error)) => Error::io(place, error),
        Fjall::Poisoned => Error::Poisoned { reason: format!("{place}: the database stopped writing after a failure") },
        Fjall::Locked => {
            Error::Locked { file: format!("{place}/lock"), holder: "another process".to_owned(), waited_ms: 0 }
        }
        Fjall::InvalidVersion(found) => {
            let found = format!("a database of version {found:?}");
            Error::Incompatible { file: place, found, expected: "version V3".to_owned() }
        }
        other => corrupt(path, &format!("the database says: {other:?}")),
    }
}

pub(super) fn corrupt(path: &Path, reason: &str) -> Error {
    let reason = format!("{reason}; put the folder back from a backup of this store");
    Error::Corrupt { file: path.display().to_string(), offset: 0, oid: None, reason }
}

fn lost(path: &Path, reason: &str) -> Error {
    let reason = format!("{reason}; put the folder back from a backup of this store");
    Error::Lost { file: path.display().to_string(), reason }
}

#[cfg(test)]
mod tests {
    use std::{
        cell::{Cell, RefCell},
        sync::atomic::{AtomicBool, Ordering::Relaxed},
    };

    use bristlecone::{
        Batch, Kind, ObjRef, Object, Roots, Sink as _, SweepLimits, SweepStatus, SweepStep, engine::FormatTag,
    };

    use super::{super::open_store::OpenStore, *};

    /// How long tests wait at most.
    const WAIT_MAX: Duration = Duration::from_secs(60);

    /// Makes a small page.
    fn put(database: &Database, number: u64) -> Result<()> {
        let mut changes = database.change();
        changes.put_page(number, vec![0; 100].into());
        changes.make(false)
    }

    /// Makes small pages, one after another, until it is enough.
    fn put_until(database: &Database, enough: &AtomicBool) -> Result<()> {
        (0..).take_while(|_| !enough.load(Relaxed)).try_for_each(|number| put(database, number))
    }

    #[test]
    fn what_leaves_the_index_waits_while_no_table_of_it_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let database = &Database::create(dir.path(), &LsmOptions::default().memtable_bytes(64 << 10)).unwrap();
        let enough = &AtomicBool::new(false);
        let size = || database.ids.tree.active_memtable().size();
        let sealed = || database.ids.tree.sealed_memtable_count();
        // fjall's thread waits for it with the first table of the index.
        let tables = database.ids.tree.get_flush_lock();
        thread::scope(|scope| {
            let remove = |step: u32| {
                let mut changes = database.change();
                for number in 0..4096_u32 {
                    let mut id = [0; 32];
                    id[..8].copy_from_slice(&[step.to_be_bytes(), number.to_be_bytes()].concat());
                    changes.remove_location(&Oid::from_array(id));
                }
                changes.make(false)
            };
            let removing = scope.spawn(move || (0..).take_while(|_| !enough.load(Relaxed)).try_for_each(remove));
            while size() <= database.memtable_bytes_max.unwrap() && !removing.is_finished() {
                thread::sleep(PAUSE);
            }
            thread::sleep(PAUSE * 500);
            let before = (sealed(), size());
            thread::sleep(PAUSE * 500);
            let after = (sealed(), size());
            enough.store(true, Relaxed);
            drop(tables);
            removing.join().unwrap().unwrap();
            assert_eq!(before.0, SEALED_MAX);
            assert_eq!(after, before, "it goes on growing");
        });
    }

    /// While a table is being written, more changes come than fjall's thread has room for messages, and they go on when it is done.
    #[test]
    fn changes_of_full_memtables_leave_room_for_what_the_thread_tells_itself() {
        let dir = tempfile::tempdir().unwrap();
        let database = &Database::create(dir.path(), &LsmOptions::default().memtable_bytes(64 << 10)).unwrap();
        let tree = &database.records.tree;
        let (enough, table) = (&AtomicBool::new(false), tree.get_flush_lock());
        thread::scope(|scope| {
            let putting = scope.spawn(move || put_until(database, enough));
            thread::sleep(PAUSE * 500);
            drop(table);
            let since = Instant::now();
            let mut written = 0;
            while written < 20 && since.elapsed() < WAIT_MAX / 4 {
                let before = tree.sealed_memtable_count();
                thread::sleep(PAUSE);
                written += before.saturating_sub(tree.sealed_memtable_count());
            }
            enough.store(true, Relaxed);
            putting.join().unwrap().unwrap();
            assert_eq!(written.min(20), 20, "no tables are written any more");
        });
    }

    /// In a store of a version that left it to fjall to seal memtables.
    #[test]
    fn a_memtable_that_fjall_takes_for_full_does_not_grow_on() {
        let dir = tempfile::tempdir().unwrap();
        let options = LsmOptions::default().memtable_bytes(64 << 10);
        let bytes_max = options.memtable_bytes;
        let before = Fjall::builder(dir.path().join(FOLDER)).open().unwrap();
        for name in [RECORDS, IDS, REFS] {
            before.keyspace(name, || KeyspaceCreateOptions::default().max_memtable_size(bytes_max)).unwrap();
        }
        drop(before);
        // What a store of this version says is kept.
        let other = tempfile::tempdir().unwrap();
        drop(Database::create(other.path(), &options).unwrap());
        assert!(Database::open(other.path(), &options).unwrap().memtable_bytes_max.is_some());
        let database = &Database::open(dir.path(), &options).unwrap();
        let tree = &database.records.tree;
        let (enough, table) = (&AtomicBool::new(false), tree.get_flush_lock());
        thread::scope(|scope| {
            let putting = scope.spawn(move || put_until(database, enough));
            while tree.sealed_memtable_count() < SEALED_MAX && !putting.is_finished() {
                thread::sleep(PAUSE);
            }
            thread::sleep(PAUSE * 500);
            let bytes = tree.active_memtable().size();
            enough.store(true, Relaxed);
            drop(table);
            putting.join().unwrap().unwrap();
            assert!(bytes < 2 * bytes_max, "{bytes} bytes");
        });
    }

    #[test]
    fn a_change_is_not_made_yet_where_fjall_would_wait_after_it() {
        let dir = tempfile::tempdir().unwrap();
        let database = &Database::create(dir.path(), &LsmOptions::default()).unwrap();
        let table = database.records.tree.get_flush_lock();
        for number in 0..=SEALED_MAX as u64 {
            put(database, number).unwrap();
            assert!(database.records.rotate_memtable().unwrap());
        }
        thread::scope(|scope| {
            let putting = scope.spawn(|| put(database, 99));
            thread::sleep(PAUSE * 200);
            let is_made = database.page(99).unwrap().is_some();
            drop(table);
            putting.join().unwrap().unwrap();
            assert!(!is_made, "{} memtables are sealed", SEALED_MAX + 1);
        });
        assert!(database.page(99).unwrap().is_some());
    }

    #[test]
    fn an_append_that_finds_no_room_in_time_fails_and_later_ones_go_on() {
        let dir = tempfile::tempdir().unwrap();
        let format = FormatTag { name: "native".to_owned(), version: 1, options: String::new() };
        let options = LsmOptions::default().room_wait_ms(200);
        let store = OpenStore::create(dir.path(), format, options.clone()).unwrap();
        let oid = |number: usize| Oid::from_array([number as u8; 32]);
        let append = |number| {
            let mut batch = Batch::new();
            batch.put(Kind::Contents, oid(number), b"a value", &[], &[]);
            store.append_unmoved(&batch)
        };
        let table = store.database.records.tree.get_flush_lock();
        for number in 0..=SEALED_MAX {
            append(number).unwrap();
            assert!(store.database.records.rotate_memtable().unwrap());
        }
        let refused = append(99);
        let Err(Error::Backend { source, .. }) = &refused else { panic!("{refused:?}") };
        assert!(matches!(source.downcast_ref(), Some(LsmError::Busy { waited_ms: 200.. })), "{source}");
        drop(table);
        let since = Instant::now();
        while let Err(error) = append(99) {
            assert!(matches!(error, Error::Backend { .. }) && since.elapsed() < WAIT_MAX, "{error}");
        }
        drop(store);
        let store = OpenStore::open(dir.path(), options, false).unwrap();
        for number in (0..=SEALED_MAX).chain([99]) {
            assert!(store.read(&ObjRef::from(oid(number))).unwrap().is_some(), "{number}");
        }
    }

    #[test]
    fn a_sweep_that_finds_no_room_in_time_fails_and_the_store_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let format = FormatTag { name: "native".to_owned(), version: 1, options: String::new() };
        let store = OpenStore::create(dir.path(), format, LsmOptions::default().room_wait_ms(200)).unwrap();
        let oid = |number: usize| Oid::from_array([number as u8; 32]);
        let append = |number| {
            let mut batch = Batch::new();
            batch.put(Kind::Contents, oid(number), b"a value", &[], &[]);
            store.append_unmoved(&batch)
        };
        append(1).unwrap();
        let (is_full, table, told) = (Cell::new(false), RefCell::new(None), RefCell::new(Vec::new()));
        let children = |_: &Oid, _: &Object<'_>, _: &mut dyn FnMut(Oid)| -> Result<()> {
            // Nothing leads to the object, so that the sweep is choosing what goes.
            if !is_full.replace(true) {
                *table.borrow_mut() = Some(store.database.ids.tree.get_flush_lock());
                for number in 0..=SEALED_MAX {
                    let mut changes = store.database.change();
                    changes.remove_location(&oid(100 + number));
                    changes.make(false)?;
                    assert!(store.database.ids.rotate_memtable().unwrap());
                }
            }
            Ok(())
        };
        let watch = |status: &SweepStatus| -> Result<()> {
            if status.step == SweepStep::Remove {
                told.borrow_mut().push(status.objects);
            }
            Ok(())
        };
        let sweep = || store.sweep(&Roots::new(&[], &children).watch(&watch), &SweepLimits::default());
        let refused = sweep();
        let Err(Error::Backend { source, .. }) = &refused else { panic!("{refused:?}") };
        // A step was not made: those before it were.
        assert!(source.to_string().contains("this one was not made"), "{source}");
        assert_eq!(*told.borrow(), [0]);
        drop(table.take());
        append(2).unwrap();
        let since = Instant::now();
        let swept = loop {
            match sweep() {
                Err(Error::Backend { .. }) if since.elapsed() < WAIT_MAX => {}
                done => break done.unwrap(),
            }
        };
        assert_eq!((swept.objects, swept.more), (2, false));
        for number in [1, 2] {
            assert!(store.read(&ObjRef::from(oid(number))).unwrap().is_none(), "{number}");
        }
    }
}
