//! An open store: its refs as this process knows them, and what its threads and other processes share.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, RwLock,
        atomic::{AtomicU64, Ordering::*},
    },
    thread,
    time::Duration,
};

use bristlecone_core::{Location, ObjRef, Object, Oid};

use super::{
    append::CallerAppends,
    files::{Files, is_unopened},
    object,
    options::FsOptions,
    sessions::Session,
    table::RefTable,
    unsynced::UnsyncedFile,
};
use crate::{
    Error,
    backend::{Pin, Pins, Position, RefTarget, Snapshot},
    engine::{Derived, Header, Poison, Queue, StoreLock, Worker},
    oid_map::OidMap,
    report,
    storage::{OpenMode, StorageFile, retry},
    sync::{lock, read_lock, write_lock},
};

/// The refs that are durable.
pub(super) const REFS: &str = "refs";
/// The refs as they are now, where that is not durable.
pub(super) const REFS_UNSYNCED: &str = "refs.unsynced";
/// A list of refs that is being written.
pub(super) const REFS_NEW: &str = "refs.new";
/// The number of the list of refs that a new store has.
pub(super) const SERIAL_FIRST: u64 = 1;
/// No list of refs is longer.
const REFS_BYTES_MAX: u64 = 1 << 30;
/// The only job of the worker.
pub(super) const FLUSH: usize = 0;
/// How long the worker waits after a flush that failed before it makes it again. Each one syncs all that waits, and on a full disk all
/// of them fail.
const FLUSH_PAUSE: Duration = Duration::from_millis(100);
/// Ids that are known to be there, at most, unless a snapshot needs more.
const KNOWN_MAX: usize = 1 << 20;

/// An open store.
#[derive(Debug)]
pub(super) struct FsState {
    pub(super) files: Arc<Files>,
    pub(super) header: Header,
    /// Of which start of the machine files are that are not durable.
    pub(super) boot: String,
    /// Whether nothing is left unsynced: it is not known when the machine was started, or several machines use the store.
    pub(super) always_synced: bool,
    /// Objects that this process leaves unsynced, at most, beside those of one append.
    pub(super) unsynced_max: usize,
    pub(super) read_only: bool,
    pub(super) lock: StoreLock,
    pub(super) session: Option<Session>,
    pub(super) queue: Queue<CallerAppends, Vec<Result<(), Error>>>,
    pub(super) worker: Worker<Self, 1>,
    pub(super) poison: Poison,
    pub(super) derived: Derived,
    pub(super) pins: Pins,
    pub(super) refs: RwLock<KnownRefs>,
    pub(super) known: RwLock<KnownObjects>,
    /// What only the holder of the store's lock uses.
    pub(super) writer: Mutex<Writer>,
    /// Held by the thread that sweeps.
    pub(super) sweeping: Mutex<()>,
    pub(super) sweeps: AtomicU64,
    pub(super) writes: AtomicU64,
    pub(super) batches: AtomicU64,
}

/// What is needed to write.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) unsynced: UnsyncedFile,
    /// The objects of `unsynced` that this process wrote.
    pub(super) own: OidMap<OwnObject>,
    /// How many of them are open.
    pub(super) open: usize,
    /// Whether this process moved refs, and no process has made that durable.
    pub(super) moved: bool,
    /// The number of the list of refs that was durable when `unsynced` was last read.
    pub(super) durable_serial: u64,
    /// The number of the list of refs when this process last held the lock.
    pub(super) serial: u64,
}

impl Writer {
    /// Whether this process appended something that may not be durable.
    pub(super) fn has_unsynced(&self) -> bool {
        self.moved || !self.own.is_empty()
    }

    /// Forgets what this process appended, since it is durable.
    pub(super) fn forget_own(&mut self) {
        self.own.clear();
        (self.open, self.moved) = (0, false);
    }
}

/// An object that this process wrote and that is not durable yet.
#[derive(Debug)]
pub(super) enum OwnObject {
    /// Open as it was written. A failed write-back is reported to this handle for certain.
    Open(Arc<dyn StorageFile>),
    /// Closed since.
    Closed,
    /// Synced; its name is not durable.
    Synced,
}

/// The refs as this process last saw them.
#[derive(Debug)]
pub(super) struct KnownRefs {
    pub(super) table: RefTable,
    /// Whether the table is that of `refs`.
    pub(super) durable: bool,
    /// The number of the table that is durable.
    pub(super) durable_serial: u64,
    files: RefFiles,
}

/// The two lists of refs, open: as long as they are, no other file gets their numbers.
#[derive(Clone, Debug)]
struct RefFiles {
    durable: OpenFile,
    unsynced: Option<OpenFile>,
}

#[derive(Clone, Debug)]
struct OpenFile {
    // Its number; `None` where files have none.
    id: Option<u64>,
    _file: Arc<dyn StorageFile>,
}

impl OpenFile {
    fn new(file: Arc<dyn StorageFile>) -> Self {
        Self { id: retry(|| file.id()).ok(), _file: file }
    }
}

/// Objects that are known to be there, each with its place in the order of appends.
#[derive(Debug, Default)]
pub(super) struct KnownObjects {
    pub(super) places: OidMap<u64>,
    pub(super) next: u64,
    /// How many of them are worth looking through for those that no snapshot needs.
    many: usize,
    /// The place behind that of the last append of another process that this one has noticed.
    pub(super) foreign: u64,
    /// What this process appended, or was to, since a sweep of its began, as long as that is under way.
    pub(super) noted: Option<Vec<Oid>>,
}

impl FsState {
    /// Makes the value of an open store; the refs are read.
    pub(super) fn new(
        files: Arc<Files>,
        header: Header,
        options: &FsOptions,
        (boot, always_synced): (String, bool),
        lock: StoreLock,
        session: Option<Session>,
        unsynced: UnsyncedFile,
    ) -> Result<Arc<Self>, Error> {
        let refs = KnownRefs::load(&files, &boot)?;
        let (durable_serial, serial) = (refs.durable_serial, refs.table.serial);
        // Half of what was promised: the other half is for the sync.
        let pause = Duration::from_millis(options.grouped_ms.div_ceil(2));
        let state = Arc::new(Self {
            sweeps: AtomicU64::new(refs.table.sweeps),
            derived: Derived::new(files.storage().clone(), super::files::DERIVED),
            worker: Worker::new("cone-fs", options.background, [pause], Self::work),
            files,
            header,
            boot,
            always_synced,
            unsynced_max: options.unsynced_max,
            read_only: session.is_none(),
            lock,
            session,
            queue: Queue::default(),
            poison: Poison::default(),
            pins: Pins::default(),
            refs: RwLock::new(refs),
            known: RwLock::default(),
            sweeping: Mutex::default(),
            writer: Mutex::new(Writer {
                unsynced,
                own: OidMap::default(),
                open: 0,
                moved: false,
                durable_serial,
                serial,
            }),
            writes: AtomicU64::new(0),
            batches: AtomicU64::new(0),
        });
        state.worker.serve(&state);
        Ok(state)
    }

    fn work(&self, _: usize) {
        // After a failed sync the next append says so. A lock that is held is tried again.
        if self.flush().is_err() && !self.poison.is_set() {
            thread::sleep(FLUSH_PAUSE);
            if self.worker.is_stopping() {
                self.worker.owe(FLUSH);
            } else {
                self.worker.ask(FLUSH);
            }
        }
    }

    /// Calls `work` with the store's lock held, and everything known that other processes did.
    pub(super) fn locked<R>(&self, work: impl FnOnce(&mut Writer) -> Result<R, Error>) -> Result<R, Error> {
        if self.read_only {
            return Err(Error::ReadOnly);
        }
        let _guard = self.lock.take()?;
        self.poison.check()?;
        let mut writer = lock(&self.writer);
        self.refresh()?;
        let (durable_serial, serial) = {
            let refs = read_lock(&self.refs);
            (refs.durable_serial, refs.table.serial)
        };
        let flushed = writer.durable_serial != durable_serial;
        if flushed {
            writer.forget_own();
        }
        // What is appended is noted until a list of refs is written behind it.
        if writer.unsynced.refresh(flushed)? || serial != writer.serial {
            self.note_foreign();
        }
        writer.durable_serial = durable_serial;
        let is_sweeping = read_lock(&self.refs).table.sweeping;
        let ended = if is_sweeping { self.end_sweep(&mut writer) } else { Ok(()) };
        let done = ended.and_then(|()| work(&mut writer));
        writer.serial = read_lock(&self.refs).table.serial;
        done
    }

    /// Notes that another process appended, or moved refs, at some time before now.
    fn note_foreign(&self) {
        let mut known = write_lock(&self.known);
        known.next += 1;
        known.foreign = known.next;
    }

    /// Takes in what other processes did to the refs.
    pub(super) fn refresh(&self) -> Result<(), Error> {
        let id = |name: &str| match retry(|| self.files.storage().stat(name)) {
            Ok(stat) => Some(Some(stat.id)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some(None),
            Err(_) => None,
        };
        let found = (id(REFS), id(REFS_UNSYNCED));
        {
            let known = read_lock(&self.refs);
            let unsynced = known.files.unsynced.as_ref().map(|open| open.id);
            let (durable, same_unsynced) = (known.files.durable.id, unsynced.map_or(Some(None), |id| id.map(Some)));
            // Of a folder that other machines share, the system may remember what it was.
            let is_told = !self.always_synced;
            if is_told && durable.is_some() && found.0 == Some(durable) && found.1.is_some() && found.1 == same_unsynced
            {
                return Ok(());
            }
        }
        let loaded = KnownRefs::load(&self.files, &self.boot)?;
        let mut known = write_lock(&self.refs);
        if loaded.table.serial >= known.table.serial {
            self.publish(&mut known, loaded);
        }
        Ok(())
    }

    /// Goes on with other refs, and notes what the old ones led to.
    fn publish(&self, known: &mut KnownRefs, next: KnownRefs) {
        for (name, target) in &known.table.by_name {
            if next.table.by_name.get(name) != Some(target) {
                self.pins.displaced(next.table.position, target);
            }
        }
        self.sweeps.store(next.table.sweeps, Release);
        *known = next;
    }

    /// Writes the refs anew, durably or not. The caller holds the store's lock and has noted that they are not durable.
    pub(super) fn write_refs(&self, table: RefTable, durable: bool) -> Result<(), Error> {
        let serial = read_lock(&self.refs).table.serial + 1;
        let (table, open) = self.write_table(table, serial, durable)?;
        self.publish_written(&mut write_lock(&self.refs), table, open, durable);
        Ok(())
    }

    /// As [`FsState::write_refs`], where the caller keeps other threads from the refs.
    pub(super) fn write_known_refs(&self, known: &mut KnownRefs, table: RefTable, durable: bool) -> Result<(), Error> {
        let (table, open) = self.write_table(table, known.table.serial + 1, durable)?;
        self.publish_written(known, table, open, durable);
        Ok(())
    }

    fn write_table(&self, mut table: RefTable, serial: u64, durable: bool) -> Result<(RefTable, OpenFile), Error> {
        table.serial = serial;
        let text = table.encode(&self.boot);
        if text.len() as u64 > REFS_BYTES_MAX {
            let bytes = text.len() as u64;
            return Err(Error::TooLarge { what: "the list of refs", bytes, bytes_max: REFS_BYTES_MAX });
        }
        let files = &self.files;
        let file = files.write_new(REFS_NEW, text.as_bytes())?;
        if durable {
            self.poisons(files.sync(REFS_NEW, &*file))?;
            self.poisons(files.rename(REFS_NEW, REFS).and_then(|()| files.sync_name(REFS, &*file)))?;
        } else {
            files.replace(REFS_NEW, REFS_UNSYNCED)?;
        }
        Ok((table, OpenFile::new(file)))
    }

    fn publish_written(&self, known: &mut KnownRefs, table: RefTable, open: OpenFile, durable: bool) {
        let (mut files, mut durable_serial) = (known.files.clone(), known.durable_serial);
        if durable {
            (files.durable, durable_serial) = (open, table.serial);
        } else {
            files.unsynced = Some(open);
        }
        self.publish(known, KnownRefs { table, durable, durable_serial, files });
    }

    /// Passes on the result of a step that makes something durable: after a failure nothing more is written.
    pub(super) fn poisons<T>(&self, done: Result<T, Error>) -> Result<T, Error> {
        if let Err(error) = &done {
            let _ = self.poison.set(report(error));
        }
        done
    }

    /// Makes the names in a folder durable. One that cannot be opened was not synced: no sync has failed then, and what
    /// counts on this one is not done.
    pub(super) fn sync_folder(&self, name: &str) -> Result<(), Error> {
        match self.files.sync_dir(name) {
            Err(error) if is_unopened(&error) => Err(error),
            done => self.poisons(done),
        }
    }

    pub(super) fn get_ref(&self, name: &str) -> Result<Option<RefTarget>, Error> {
        self.refresh()?;
        Ok(read_lock(&self.refs).table.by_name.get(name).cloned())
    }

    pub(super) fn list_refs(&self, prefix: &str) -> Result<BTreeMap<String, RefTarget>, Error> {
        self.refresh()?;
        let known = read_lock(&self.refs);
        let from = known.table.by_name.range(prefix.to_owned()..).take_while(|(name, _)| name.starts_with(prefix));
        Ok(from.map(|(name, target)| (name.clone(), target.clone())).collect())
    }

    pub(super) fn position(&self) -> Result<Position, Error> {
        self.refresh()?;
        Ok(read_lock(&self.refs).table.position)
    }

    pub(super) fn read(&self, oid: &Oid) -> Result<Option<Object<'static>>, Error> {
        object::read(&self.files, oid)?.transpose().map_err(|damaged| damaged.into_error(&self.files, oid))
    }

    pub(super) fn knows(&self, oid: &Oid) -> bool {
        read_lock(&self.known).places.contains_key(oid)
    }

    /// Notes that objects were appended, now.
    pub(super) fn know(&self, oids: impl Iterator<Item = Oid>) {
        let mut known = write_lock(&self.known);
        if known.places.len() >= known.many {
            let first = self.pins.appended().unwrap_or(u64::MAX);
            known.places.retain(|_, place| *place >= first);
            known.many = known.places.len() + KNOWN_MAX;
        }
        let place = known.next;
        known.next += 1;
        known.places.extend(oids.map(|oid| (oid, place)));
    }

    /// Notes for a sweep that is under way what it leaves, with all below: what gets its names next, so that an object which is there has
    /// everything below it also where the append fails then; and what a refused append needs.
    pub(super) fn note(&self, oids: &[Oid]) {
        if let Some(noted) = &mut write_lock(&self.known).noted {
            noted.extend_from_slice(oids);
        }
    }

    pub(super) fn snapshot(self: &Arc<Self>, roots: &[Oid]) -> FsSnapshot {
        let refs = read_lock(&self.refs);
        FsSnapshot(Pin::new(self.clone(), refs.table.position, read_lock(&self.known).next, roots))
    }
}

impl KnownRefs {
    /// Reads both lists and takes the newer one that may be believed.
    fn load(files: &Files, boot: &str) -> Result<Self, Error> {
        let (file, mut table) = load_durable(files)?;
        let mut open = RefFiles { durable: OpenFile::new(file), unsynced: None };
        let (mut durable, durable_serial) = (true, table.serial);
        if let Some(file) = files.open_if_there(REFS_UNSYNCED)? {
            let bytes = files.read_open(REFS_UNSYNCED, &*file, REFS_BYTES_MAX)?;
            match RefTable::decode(&bytes) {
                Ok((newer, of)) if of == boot && newer.serial > table.serial => (table, durable) = (newer, false),
                // One that a power cut tore says nothing of this start of the machine.
                Err(wrong) if RefTable::is_of(&bytes, boot) => return Err(corrupt(files, REFS_UNSYNCED, wrong)),
                _ => {}
            }
            open.unsynced = Some(OpenFile::new(file));
        }
        Ok(Self { table, durable, durable_serial, files: open })
    }
}

/// Reads the list of refs that is durable.
fn load_durable(files: &Files) -> Result<(Arc<dyn StorageFile>, RefTable), Error> {
    let Some(file) = files.open_if_there(REFS)? else {
        let reason = "the refs of this store are missing; put the file back from a backup of it".to_owned();
        return Err(Error::Lost { file: files.describe(REFS), reason });
    };
    let bytes = files.read_open(REFS, &*file, REFS_BYTES_MAX)?;
    let (table, _) = RefTable::decode(&bytes).map_err(|wrong| corrupt(files, REFS, wrong))?;
    Ok((file, table))
}

/// Returns the number of the list of refs that is durable.
pub(super) fn durable_serial(files: &Files) -> Result<u64, Error> {
    load_durable(files).map(|(_, table)| table.serial)
}

fn corrupt(files: &Files, name: &str, (offset, reason): (u64, &str)) -> Error {
    let reason = format!("{reason}; put the file back from a backup of this store");
    Error::Corrupt { file: files.describe(name), offset, oid: None, reason }
}

/// What can be read of a store, and what is not to be dropped from it.
#[derive(Debug)]
pub(super) struct FsSnapshot(Pin<FsState>);

impl AsRef<Pins> for FsState {
    fn as_ref(&self) -> &Pins {
        &self.pins
    }
}

impl Snapshot for FsSnapshot {
    fn read(&self, at: &ObjRef) -> Result<Option<Object<'_>>, Error> {
        self.0.store().read(&at.oid)
    }

    /// Returns "nowhere in particular" for an object that is certainly there: it need not be written again.
    fn locate(&self, oid: &Oid) -> Option<Location> {
        self.0.store().knows(oid).then_some(Location::NONE)
    }

    fn position(&self) -> Option<Position> {
        Some(self.0.position())
    }

    fn keep(&self, root: &Oid) {
        // No sweep is under way.
        let _refs = read_lock(&self.0.store().refs);
        self.0.keep(root);
    }

    fn refresh(&mut self, roots: &[Oid]) -> bool {
        let store = self.0.store().clone();
        let refs = read_lock(&store.refs);
        self.0.move_to(refs.table.position, read_lock(&store.known).next, roots);
        true
    }
}

/// Removes what a creation that was stopped left of the lists of refs, and writes an empty one.
pub(super) fn create_refs(files: &Files, boot: &str) -> Result<(), Error> {
    for name in [REFS, REFS_UNSYNCED, super::unsynced::UNSYNCED] {
        files.remove(name)?;
    }
    let text = RefTable { serial: SERIAL_FIRST, ..RefTable::default() }.encode(boot);
    let file = files.write_new(REFS_NEW, text.as_bytes())?;
    files.sync(REFS_NEW, &*file)?;
    files.rename(REFS_NEW, REFS)?;
    files.open(super::unsynced::UNSYNCED, OpenMode::Create).map(drop)
}
