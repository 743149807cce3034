//! The disk engine: the backend that a store has unless another is asked for.
//!
//! **The idea.** The store is a log of frames in append-only segments. One append is one frame: the batch's
//! records and the moves of refs, written in one write, durable by one sync that all waiting threads share. Objects
//! are found by their locations, in a memory map; ids are indexed for the unsealed tail in memory and for each
//! sealed segment in a file beside it. Frames form a chain of checksums and carry what was known to be durable
//! when they were written, so that a torn tail is distinguished from damage.
//!
//! Any number of processes read and write: a file lock is held per append, and readers follow the log without
//! one. Segment numbers are never used twice. Every byte goes through [`Storage`].
//!
//! A collection copies live objects to *cold* segments beside the log and removes those in which they were
//! (`collect.rs`); processes say by which state of the store they read (`readers.rs`), and what they read is not removed.
//!
//! `docs/formats/disk.md` lists the bytes.

use std::{
    collections::BTreeMap,
    io,
    num::NonZero,
    sync::{
        Arc, Mutex, OnceLock, RwLock,
        atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::*},
    },
    time::Instant,
};

use bristlecone_core::{Location, ObjRef, Object, Oid, OidPrefix};

use crate::{
    Error,
    backend::{
        AbsentCommits, Backend, BackendStats, Batch, Capabilities, Damage, Durability, Position, RefMove, RefTarget,
        Retention, Roots, Snapshot, SweepDue, SweepLimits, Swept,
    },
    engine::{Derived, Poison},
    storage::Storage,
    sync::lock,
};

mod append;
mod background;
mod cache;
mod check;
mod cold;
mod collect;
mod due;
mod durable;
mod files;
mod filters;
mod find;
mod frame;
mod generations;
mod group;
mod handles;
mod header;
mod ids;
mod index;
mod live;
mod lock;
mod log;
mod maintenance;
mod marks;
mod memory;
mod mend;
mod moved;
mod notes;
mod prefix;
mod published;
mod read;
mod readers;
mod recovery;
mod refs;
mod repair;
mod request;
mod roll;
mod salvage;
mod sealed;
mod segment;
mod snapshot;
mod spare;
mod state;
mod stats;
mod survey;
mod sync;
mod sync_pipe;
mod table;
mod unreached;
mod upgrade;
mod verified;
mod view;
mod walk;
mod written;

#[cfg(test)]
mod tests;

pub use crate::engine::FormatTag;
pub use check::{CheckSummary, ObjectPart, ObjectParts};
pub use header::StoreHeader;
pub use repair::{AcceptedEnd, Repaired};

use files::{DERIVED, SEGMENTS, STORE, random_word, segment_name};
use frame::FrameKind;
use handles::Handles;
use lock::DiskLock;
use log::{DiskCounters, DiskState, LogWriter, Tail};
use moved::MovedPlaces;
use repair::RecoveryMode;
use segment::{SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SegmentHead};
use snapshot::DiskSnapshot;
pub use stats::{Collected, ReaderBehind};
use table::SegmentTable;
use verified::BitMemory;

/// How a store on disk is used.
///
/// ```
/// # use bristlecone::DiskOptions;
/// let options = DiskOptions::default().lock_wait_ms(100).maps(false);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DiskOptions {
    /// The size of a full-grown segment in bytes, for a new store; 4 KiB to 4 GiB.
    pub segment_bytes: u64,
    /// Whether objects are read through memory maps. Without, a failing disk gives an error and no signal.
    ///
    /// All stores of a process together have maps for a quarter of what the system allows it (`vm.max_map_count`), one for
    /// each sealed segment and one for its index. Segments that are opened beyond that are read by calls.
    pub maps: bool,
    /// How many bytes of memory may show files, in all of this process, before pages of maps are released. It is measured
    /// as the store grows, where the system tells it. Released pages stay in the system's cache, but what is read of them
    /// again must be mapped and checked again.
    ///
    /// By default a quarter of the memory that the machine has, or that the process's control group may use, and 192 MiB at
    /// least. The system takes pages of maps back before a program must do without memory.
    pub map_bytes: u64,
    /// The budget in bytes for what is kept in memory of objects that were read: where there are maps, which of them were
    /// found right, a bit for each 32 bytes of the store, and in an eighth of it objects of segments without a map;
    /// elsewhere the objects.
    ///
    /// It is no budget for what finds objects, which stays in memory beside it: from the first lookup by id on 11 to 22 bytes for
    /// each record of the segment in which the log ends; a hundredth of the index of each sealed segment that was looked into, or
    /// all of it, 12 bytes for each record, where the process may have no further map and no further open file; the refs
    /// that moved lately; and 1 MiB of where objects are now, once one was looked for at a place that a collection has emptied.
    /// [`BackendStats::memory_bytes`] counts these, too.
    pub cache_bytes: u64,
    /// How long an append waits for the store's lock, in milliseconds.
    pub lock_wait_ms: u64,
    /// Whether new segments are filled with zeroes ahead, so that syncs need not write the file's extents: as long as these make
    /// about 128 KiB durable each or less, since beyond that the zeroes take more of the disk than they save.
    pub prezero: bool,
    /// Within how many milliseconds a grouped append is durable.
    pub grouped_ms: u64,
    /// Whether locations are used; without, every read goes through the indexes.
    pub locations: bool,
    /// Whether threads may work beside appends; without, what they would do is done at the next call.
    pub background: bool,
    /// The version of the engine's files for a new store: 1, which earlier programs read too and in which nothing is ever
    /// removed, or 2.
    pub version: u32,
    /// Whether the store is collected by itself ([`crate::Repo::set_collecting`]).
    pub collect: bool,
    /// How long a file becomes of those in which collections keep what is live, unless one object is longer; up to 4 GiB. A
    /// collection needs about so much room beside the store.
    pub cold_bytes: u64,
    handles: Handles,
}

setters! {
    DiskOptions {
        segment_bytes: u64,
        maps: bool,
        map_bytes: u64,
        cache_bytes: u64,
        lock_wait_ms: u64,
        prezero: bool,
        grouped_ms: u64,
        locations: bool,
        background: bool,
        version: u32,
        collect: bool,
        cold_bytes: u64,
    }
}

impl Default for DiskOptions {
    fn default() -> Self {
        Self {
            segment_bytes: 32 << 20,
            maps: true,
            map_bytes: memory::map_bytes(),
            cache_bytes: 64 << 20,
            lock_wait_ms: 10_000,
            prezero: true,
            grouped_ms: 10,
            locations: true,
            background: true,
            version: header::ENGINE_VERSION,
            collect: true,
            cold_bytes: 256 << 20,
            handles: Handles::default(),
        }
    }
}

/// A store on disk.
#[derive(Debug)]
pub struct DiskBackend {
    shared: Arc<DiskState>,
}

impl DiskBackend {
    /// Makes a store in an empty place and opens it.
    ///
    /// A crash leaves either no store, and making one works again, or a whole one. Nothing but what such a crash left is
    /// replaced.
    ///
    /// # Errors
    /// [`Error::Exists`]; [`Error::Lost`] where a store lacks its header; [`Error::Locked`], [`Error::NoSpace`],
    /// [`Error::Io`].
    pub fn create(storage: Arc<dyn Storage>, format: FormatTag, options: DiskOptions) -> Result<Self, Error> {
        let segment_bytes = options.segment_bytes.clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX).next_multiple_of(8);
        let version = options.version.clamp(1, header::ENGINE_VERSION);
        Self::create_as(storage, StoreHeader::new(format, segment_bytes, version), options, random_word())
    }

    fn create_as(
        storage: Arc<dyn Storage>,
        header: StoreHeader,
        options: DiskOptions,
        nonce: u64,
    ) -> Result<Self, Error> {
        for dir in ["", SEGMENTS, DERIVED] {
            storage.create_dir(dir).map_err(|error| Error::io(storage.describe(dir), error))?;
        }
        let store_lock = DiskLock::open(&storage, &options)?;
        storage.sync_dir("").map_err(|error| Error::io(storage.describe(""), error))?;
        let guard = store_lock.take()?;
        match StoreHeader::read(&storage) {
            Err(Error::NoStore { .. }) => {}
            Err(error @ (Error::Io { .. } | Error::Lost { .. })) => return Err(error),
            _ => return Err(Error::Exists { file: storage.describe("") }),
        }
        // What an attempt before this one left, and nothing else is there, would not fit the new header.
        for name in storage.list(SEGMENTS).map_err(|error| Error::io(storage.describe(SEGMENTS), error))? {
            let name = format!("{SEGMENTS}/{name}");
            storage.remove(&name).map_err(|error| Error::io(storage.describe(&name), error))?;
        }
        header.keep_copy(&storage)?;
        durable::prepare(&storage)?;
        first_segment(&storage, &header, &options)?;
        header.write(&storage)?;
        drop(guard);
        let shared = Self::load(storage, header, Some(store_lock), options, nonce, &mut RecoveryMode::Usual)?;
        lock(&shared.log).began = Some(Instant::now());
        Ok(Self::of(shared))
    }

    /// Opens a store, cutting off what a crash left half written.
    ///
    /// `format`: the name of the format that the store must have, if that matters here. `read_only`: nothing
    /// of the store is written and no writer waits, a torn tail is passed over, and where the end of the log is lost, what is
    /// before it can be read; [`DiskBackend::lost_end`] tells. A file in the folder `readers` says that this process reads, where
    /// it may write there: without one a collection may remove what it reads.
    ///
    /// # Errors
    /// [`Error::NoStore`]; [`Error::Incompatible`] for another format; [`Error::Corrupt`] naming what is damaged;
    /// [`Error::Lost`] where the header is missing, or, for writing, the end of the log; [`Error::Locked`], [`Error::Io`].
    pub fn open(
        storage: Arc<dyn Storage>,
        format: Option<&str>,
        options: DiskOptions,
        read_only: bool,
    ) -> Result<Self, Error> {
        let header = StoreHeader::read(&storage)?;
        if let Some(expected) = format.filter(|&name| name != header.format.name) {
            return Err(Error::Incompatible {
                file: storage.describe(STORE),
                found: format!("objects of the format {}", header.format.name),
                expected: format!("the format {expected}"),
            });
        }
        let store_lock = if read_only { None } else { Some(DiskLock::open(&storage, &options)?) };
        let nonce = random_word();
        let shared = Self::load(storage, header, store_lock, options, nonce, &mut RecoveryMode::Usual)?;
        Ok(Self::of(shared))
    }

    fn load(
        storage: Arc<dyn Storage>,
        header: StoreHeader,
        store_lock: Option<DiskLock>,
        options: DiskOptions,
        nonce: u64,
        recovery: &mut RecoveryMode,
    ) -> Result<DiskState, Error> {
        if let Some(store_lock) = &store_lock {
            store_lock.expect(&header);
        }
        let tail = Tail {
            segment: 0,
            end: 0,
            chain: 0,
            sequence: 0,
            next: 0,
            checkpoint: false,
            version: header.engine_version,
            time: 0,
        };
        // Where there are maps, few segments are without one, if any.
        let cache_bytes = if options.maps { options.cache_bytes / 8 } else { options.cache_bytes };
        let cache = Some(cache::record_cache(cache_bytes));
        let bits = Arc::new(BitMemory::new(options.cache_bytes - if options.maps { cache_bytes } else { 0 }));
        let background = DiskState::background(&options);
        let shared = DiskState {
            derived: Derived::new(storage.clone(), DERIVED),
            storage,
            version: AtomicU32::new(header.engine_version),
            header,
            options,
            lock: store_lock,
            nonce,
            tables: generations::Generations::new(),
            reader: OnceLock::new(),
            reader_owed: readers::OwedNote::default(),
            named_at: AtomicU64::new(0),
            tables_behind: AtomicBool::new(false),
            emptied: AtomicBool::new(false),
            swept_to: AtomicU32::new(0),
            due_at: AtomicU64::new(u64::MAX),
            overdue_at: AtomicU64::new(u64::MAX),
            copied_percent: AtomicU8::new(0),
            held: Mutex::default(),
            settled: Mutex::default(),
            gate: Mutex::default(),
            log: Mutex::new(LogWriter {
                tail,
                buffer: Vec::new(),
                appended: false,
                began: None,
                named: None,
                written: written::WrittenRecords::default(),
            }),
            published: published::Published::default(),
            followed: AtomicU64::new(0),
            writing: AtomicBool::new(false),
            queue: request::DiskAppendQueue::default(),
            sync: sync_pipe::SyncPipe::default(),
            poison: Poison::default(),
            lost_end: OnceLock::new(),
            note: OnceLock::new(),
            counters: DiskCounters::default(),
            tail_index: RwLock::default(),
            moved: MovedPlaces::default(),
            cache,
            bits,
            background,
            unreached: unreached::Unreached::default(),
            pins: crate::Pins::default(),
        };
        // Before anything is read.
        shared.begin_reading();
        {
            let mut log = lock(&shared.log);
            let _guard = shared.lock.as_ref().map(DiskLock::take).transpose()?;
            if let Err(error) = shared.recover(&mut log, recovery) {
                shared.end_reading();
                return Err(error);
            }
            if shared.lock.is_some() {
                let names = shared.derived.names();
                shared.gather_notes(&names);
                shared.derived.remove_abandoned_of(&names);
            }
        }
        shared.look_for_garbage();
        shared.tidy();
        // The memory of maps is measured once the store has grown from here.
        shared.background.trimmed_at.store(shared.published.end(), Relaxed);
        Ok(shared)
    }

    fn of(shared: DiskState) -> Self {
        let shared = Arc::new(shared);
        shared.background.serve(&shared);
        Self { shared }
    }

    /// Returns where the end of the log is lost, if it is: the store was durable beyond it. Only a store that is open
    /// for reading can be so.
    #[must_use]
    pub fn lost_end(&self) -> Option<&Damage> {
        self.shared.lost_end.get()
    }

    /// Returns what the last collection left, and who has the store open.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn collected(&self) -> Result<Collected, Error> {
        self.shared.refresh()?;
        self.shared.collected()
    }

    /// Returns what the opening met that is no damage and yet worth telling, if anything.
    #[must_use]
    pub fn note(&self) -> Option<&str> {
        self.shared.note.get().map(String::as_str)
    }

    /// Reads what the store in `storage` says of itself.
    ///
    /// # Errors
    /// [`Error::NoStore`]; [`Error::Corrupt`]; [`Error::Incompatible`] for another version of the engine; [`Error::Io`].
    pub fn header_in(storage: &Arc<dyn Storage>) -> Result<StoreHeader, Error> {
        StoreHeader::read(storage)
    }

    /// Returns what the store says of itself.
    #[must_use]
    pub fn header(&self) -> &StoreHeader {
        &self.shared.header
    }

    /// Makes everything durable and notes that nothing more was being written, so that damage to the last
    /// append can later be told from an append that a crash cut short. Dropping the backend does the same,
    /// as far as it can.
    ///
    /// # Errors
    /// As [`Backend::flush`].
    pub fn close(&self) -> Result<(), Error> {
        let shared = &self.shared;
        // The threads and the lock are those of the process that opened the store, not of one that was forked from it.
        if shared.lock.as_ref().is_none_or(|store_lock| !store_lock.is_own()) {
            return Ok(());
        }
        shared.stop_background();
        // Before the lock, which another process may hold for long: what was appended is durable whatever comes of that.
        shared.flush_deferred()?;
        if !lock(&shared.log).appended {
            return shared.poison.check();
        }
        shared.sync_to(shared.published.end())?;
        shared.locked(|log| {
            if log.tail.version >= 2 && shared.has_many_moved() {
                // The next opening takes longer where that fails; nothing else does, unless nothing can be written any more.
                let _ = shared.roll(log, 0);
                shared.poison.check()?;
            }
            // What other processes have appended by now, and a segment that was just begun.
            shared.sync_to(log.tail.location())?;
            shared.note_end(log.tail.location(), false);
            let segment = shared.tail_segment(&log.tail)?;
            let room = log.tail.end + frame::EMPTY_BYTES + frame::SEAL_BYTES <= segment.bytes;
            if room && !log.tail.checkpoint && log.tail.next == 0 {
                // It only says that nothing follows. Should a power cut lose it, the next writer looks for itself: no thread
                // waits for a sync of it.
                let (bytes, after) = shared.small_frame(&log.tail, FrameKind::Checkpoint, &[], log.tail.location());
                shared.write_frame(&segment, &bytes, log.tail.end)?;
                log.tail = after;
                shared.publish(&after);
            }
            log.appended = false;
            Ok(())
        })
    }

    /// Says what the appends that follow are for, such as `git /home/ann/project`: what they leave if no ref moves is
    /// counted under this name, and [`DiskBackend::forget_work`] takes it back.
    pub fn begin_work(&self, source: &str) {
        self.shared.set_source(source);
    }

    /// Takes back what operations for `source` were counted to have left: refs lead to it by now.
    ///
    /// # Errors
    /// As [`Backend::flush`].
    pub fn forget_work(&self, source: &str) -> Result<(), Error> {
        self.shared.forget_source(source)
    }

    /// Returns how many bytes this backend has appended that no ref leads to, since it was opened or a ref last moved to
    /// what it had appended. [`BackendStats::reclaimable_bytes`] counts them once the backend is gone.
    #[must_use]
    pub fn unreached_bytes(&self) -> u64 {
        self.shared.unreached.bytes()
    }

    /// Ends writing at once, because whatever it was for is given up: appends that are under way are finished, later
    /// ones refused, and what was appended is closed as by [`DiskBackend::close`] and counted.
    ///
    /// # Errors
    /// As [`DiskBackend::close`]; it is counted all the same.
    pub fn abandon(&self) -> Result<(), Error> {
        self.shared.unreached.stopped.store(true, Release);
        let closed = self.close();
        self.shared.leave_note();
        closed
    }

    /// Checks that `bytes` more bytes of files fit where the store is, as far as the system tells. What is free changes
    /// at any time: the check saves work that cannot succeed, and promises nothing.
    ///
    /// # Errors
    /// [`Error::NoRoom`].
    pub fn check_room(&self, bytes: u64) -> Result<(), Error> {
        self.shared.check_room(bytes)
    }

    /// Checks every frame, record, seal and index of the store, and calls `report` for each damage. All cores work on it.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Expired`] where a collection that did not wait for this process has removed segments meanwhile.
    pub fn check(&self, report: &mut dyn FnMut(Damage)) -> Result<CheckSummary, Error> {
        self.check_with(std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN), report)
    }

    /// As [`DiskBackend::check`], on at most so many threads. The summary and the order of damages are the same for any number.
    ///
    /// Memory of maps is let go of beyond [`DiskOptions::map_bytes`], and beyond 192 MiB, since all is read once.
    ///
    /// # Errors
    /// As [`DiskBackend::check`].
    pub fn check_with(&self, threads: NonZero<usize>, report: &mut dyn FnMut(Damage)) -> Result<CheckSummary, Error> {
        self.shared.check(threads, report)
    }

    /// Returns the objects that the store has now, in parts for threads: [`Backend::each_object`] on several of them.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn objects(&self) -> Result<ObjectParts<'_>, Error> {
        ObjectParts::new(&self.shared)
    }
}

/// Makes the first segment, whole before it has its name.
fn first_segment(storage: &Arc<dyn Storage>, header: &StoreHeader, options: &DiskOptions) -> Result<(), Error> {
    let bytes = spare::segment_size(1, header.segment_bytes, 0, 0)?;
    let Some(spare) = spare::make_spare(storage, bytes, &spare::Zeroes::now(options.prezero))? else {
        return Err(Error::io(storage.describe(SEGMENTS), io::ErrorKind::Interrupted.into()));
    };
    let mut head = SegmentHead {
        number: 1,
        previous: 0,
        bytes,
        sequence: 1,
        seed: 0,
        previous_end: 0,
        durable_end: 0,
        ahead: false,
        ref_bytes: 0,
        check: 0,
        version: header.engine_version,
        state: state::StateRef::FIRST,
        time: if header.engine_version < 2 { 0 } else { roll::now_seconds() },
    };
    spare::write_head(storage, &spare, &head.encode(&[], header.salt), true)?;
    let name = segment_name(1);
    storage.rename(&spare.name, &name).map_err(|error| Error::io(storage.describe(&name), error))?;
    let _ = spare.file.unlock();
    storage.sync_dir(SEGMENTS).map_err(|error| Error::io(storage.describe(SEGMENTS), error))
}

impl DiskBackend {
    /// Whether reading failed since a collection went on meanwhile: by a later table it may find what it looks for elsewhere.
    fn goes_on<T>(&self, done: &Result<T, Error>, table: &Arc<SegmentTable>) -> Result<bool, Error> {
        if !matches!(done, Err(Error::Expired { .. })) {
            return Ok(false);
        }
        self.shared.refresh()?;
        Ok(!Arc::ptr_eq(table, &self.shared.table()))
    }

    /// Ends reading by a table. If a collection went on meanwhile, others were told that something is still read by it.
    fn leave_table(&self, table: Arc<SegmentTable>) {
        if table.state.epoch != self.shared.tables.epoch() {
            self.shared.leave_table(table);
        }
    }
}

impl Drop for DiskBackend {
    fn drop(&mut self) {
        self.shared.background.ended.store(true, Relaxed);
        // A caller that wants to know calls `close`.
        let _ = self.close();
        // What closing asked of them may have begun, and whoever opens the store next is to find that this process reads no more.
        self.shared.background.finish();
        self.shared.leave_note();
        self.shared.tidy();
    }
}

impl Drop for DiskState {
    fn drop(&mut self) {
        // Snapshots may outlive the backend, and read as long.
        self.end_reading();
    }
}

impl Backend for DiskBackend {
    fn name(&self) -> &'static str {
        "disk"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            persistent: true,
            atomic_commits: true,
            several_refs: true,
            locations: self.shared.options.locations,
            processes: true,
            metadata_words: true,
            positions: true,
            sweep: self.shared.version.load(Relaxed) >= 2,
            retention: self.shared.version.load(Relaxed) >= 2,
            git: None,
        }
    }

    fn snapshot(&self, roots: &[Oid]) -> Arc<dyn Snapshot> {
        Arc::new(DiskSnapshot::new(&self.shared, roots))
    }

    fn read(&self, at: &ObjRef) -> Result<Option<Object<'static>>, Error> {
        loop {
            // What another process has dropped is dropped here, too.
            self.shared.refresh()?;
            let table = self.shared.table();
            let read = self.shared.view(&table).read(at).map(|found| found.map(Object::into_static));
            let goes_on = self.goes_on(&read, &table);
            self.leave_table(table);
            if !goes_on? {
                return read;
            }
        }
    }

    fn locate(&self, oid: &Oid) -> Option<Location> {
        let table = self.shared.table();
        self.shared.view(&table).locate(oid)
    }

    fn sweeps(&self) -> u64 {
        self.shared.tables.epoch()
    }

    fn absent(&self) -> Result<Arc<AbsentCommits>, Error> {
        self.shared.refresh()?;
        Ok(self.shared.table().state.absent.clone())
    }

    fn retention(&self) -> Result<Retention, Error> {
        self.shared.refresh()?;
        self.shared.table().state.retention.parse()
    }

    fn replace_retention(&self, expected: Option<&Retention>, retention: &Retention) -> Result<bool, Error> {
        self.shared.refresh()?;
        let text = retention.to_text()?;
        self.shared.change_state(|state| {
            let is = |expected: &Retention| state.retention.parse().is_ok_and(|now: Retention| now == *expected);
            let is_expected = expected.is_none_or(is);
            if is_expected {
                (state.retention, state.whole) = (text.into(), None);
            }
            is_expected
        })
    }

    fn note_absent(&self, absent: &AbsentCommits) -> Result<(), Error> {
        if absent.is_empty() {
            return Ok(());
        }
        self.shared.refresh()?;
        self.shared.change_state(|state| {
            let mut all = (*state.absent).clone();
            absent.iter().for_each(|(oid, row)| _ = all.entry(*oid).or_insert(*row));
            state.absent = Arc::new(all);
            true
        })?;
        Ok(())
    }

    fn sweep(&self, roots: &Roots<'_>, limits: &SweepLimits) -> Result<Swept, Error> {
        self.shared.refresh()?;
        // Readers may have gone on since the last sweep: with its room given back, this one needs less.
        self.shared.tidy();
        let swept = self.shared.sweep(DiskSnapshot::new(&self.shared, &[]), roots, limits);
        if swept.is_ok() {
            // What the sweep read by is gone by now.
            self.shared.tidy();
            // The worker may just have read by an older state: it removes what is left once it has let go of that.
            if self.shared.options.background && self.shared.emptied.load(Relaxed) {
                self.shared.background.maintenance.ask(background::MAINTAIN);
            }
        }
        swept
    }

    #[inline]
    fn sweep_due(&self) -> SweepDue {
        let end = self.shared.published.end();
        if end < self.shared.due_at.load(Relaxed) {
            SweepDue::No
        } else if !self.shared.options.background {
            SweepDue::Now
        } else if end < self.shared.overdue_at.load(Relaxed) {
            SweepDue::Beside
        } else {
            SweepDue::Overdue
        }
    }

    fn append(&self, batch: Batch, moves: &[RefMove], durability: Durability) -> Result<Location, Error> {
        self.shared.going_on()?;
        self.shared.flush_deferred()?;
        self.shared.note_returned([&batch])?;
        let place = if batch.is_empty() && moves.is_empty() {
            self.shared.idle_append(durability)
        } else {
            self.shared.append(batch, moves, durability)
        };
        self.shared.keep_note();
        if self.shared.options.background {
            self.shared.wake_worker();
        }
        place
    }

    fn append_keeping(&self, batch: &mut Batch) -> Result<Location, Error> {
        self.shared.going_on()?;
        self.shared.flush_deferred()?;
        self.shared.note_returned([&*batch])?;
        let appends = [(std::mem::take(batch), Vec::new())];
        let outcome = self.shared.append_all(&appends, Durability::None).pop();
        let [(kept, _)] = appends;
        *batch = kept;
        self.shared.keep_note();
        let base = outcome.unwrap_or(Err(Error::Unanswered))?;
        batch.clear();
        if self.shared.options.background {
            self.shared.wake_worker();
        }
        Ok(base)
    }

    fn append_many(&self, batches: Vec<(Batch, Vec<RefMove>)>, durability: Durability) -> Vec<Result<Location, Error>> {
        let ready = self.shared.going_on().and_then(|()| self.shared.flush_deferred());
        if let Err(error) = ready.and_then(|()| self.shared.note_returned(batches.iter().map(|(batch, _)| batch))) {
            return batches.iter().map(|_| Err(error.clone())).collect();
        }
        let places = self.shared.append_all(&batches, durability);
        self.shared.keep_note();
        if self.shared.options.background {
            self.shared.wake_worker();
        }
        places
    }

    fn get_ref(&self, name: &str) -> Result<Option<RefTarget>, Error> {
        self.shared.refresh()?;
        self.shared.get_ref(name)
    }

    fn list_refs(&self, prefix: &str) -> Result<BTreeMap<String, RefTarget>, Error> {
        self.shared.refresh()?;
        let mut rows = self.shared.published.refs().rows(prefix);
        let mut refs = BTreeMap::new();
        while let Some((name, target)) = rows.next_ref()? {
            refs.insert(name, target);
        }
        Ok(refs)
    }

    fn position(&self) -> Result<Option<Position>, Error> {
        self.shared.refresh()?;
        Ok(Some(Position(self.shared.published.end())))
    }

    fn flush(&self) -> Result<(), Error> {
        if self.shared.lock.is_none() {
            return Ok(());
        }
        self.shared.poison.check()?;
        // What other processes appended is meant too.
        self.shared.refresh()?;
        self.shared.flush_deferred()?;
        self.shared.sync_to(self.shared.published.end())
    }

    fn each_object(
        &self,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<(), Error>,
        damage: &mut dyn FnMut(Damage),
    ) -> Result<(), Error> {
        self.shared.each_object(each, damage)
    }

    fn each_with_prefix(
        &self,
        prefix: &OidPrefix,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        loop {
            self.shared.refresh()?;
            let table = self.shared.table();
            let done = self.shared.view(&table).each_with_prefix(prefix, each);
            let goes_on = self.goes_on(&done, &table);
            self.leave_table(table);
            // What was found is given again.
            if !goes_on? {
                return done;
            }
        }
    }

    fn clear_caches(&self) {
        if let Some(cache) = &self.shared.cache {
            cache.clear();
        }
    }

    fn stats(&self) -> BackendStats {
        self.shared.stats()
    }

    fn read_derived(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        self.shared.derived.read(name)
    }

    fn write_derived(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        if self.shared.lock.is_none() {
            return Err(Error::ReadOnly);
        }
        self.shared.derived.write(name, bytes)
    }
}
