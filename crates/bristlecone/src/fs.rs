//! The backend `fs`: one file an object, for stores that people look into with `ls` and `cat`.
//!
//! **The idea.** An object is the file `objects/ab/cdef…`, named by its id in hexadecimal digits: its body as it is, and a short
//! trailer with a checksum. All refs are one text file, which is replaced whole. So several refs move in one step, and a move
//! costs the list of refs: this backend is for stores with few of them.
//!
//! **Durability.** A file is written in `new/`, synced where the append is, noted in `unsynced`, and then renamed. The refs that
//! are durable are in `refs`; refs that moved on and are not durable yet are in `refs.unsynced`, which counts for the start of
//! the machine that it names and no other. So after a power cut a store is what it was when it was last durable, or what it
//! became by an append that was synced; and what was acknowledged before that is there, too.
//!
//! **Processes.** Any number of them read and write; one at a time holds the lock and writes. A sweep needs the store for its
//! process alone, since it does not know the snapshots of others; processes that opened the store for reading only have no
//! claim on anything.
//!
//! `docs/formats/fs.md` lists the files and their bytes.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering::*},
};

use bristlecone_core::{Location, ObjRef, Object, Oid, OidPrefix};

use crate::{
    Error,
    backend::{
        Backend, BackendStats, Batch, Capabilities, Damage, Durability, Position, RefMove, RefTarget, Roots, Snapshot,
        SweepLimits, Swept,
    },
    engine::{FormatTag, Header, StoreLock},
    storage::{Reach, Storage},
    sync::{lock, read_lock},
};

mod append;
mod durable;
mod files;
mod object;
mod options;
mod recovery;
mod sessions;
mod state;
mod sweep;
mod table;
mod unsynced;

pub use options::FsOptions;

use append::CallerAppends;
use files::{DERIVED, Files, LOCK, NEW, OBJECTS, OPEN, STORE};
use sessions::Session;
use state::{FsState, Writer};
use unsynced::UnsyncedFile;

/// The name in headers.
const BACKEND: &str = "fs";
/// The version of the files that this backend writes, and the only one that it reads.
const VERSION: u32 = 1;
/// Stands for a start of the machine that is not known.
const BOOT_UNKNOWN: &str = "unknown";

/// A store of files, one for each object.
#[derive(Debug)]
pub struct FsBackend(Arc<FsState>);

impl FsBackend {
    /// Makes a store in an empty place and opens it.
    ///
    /// A crash leaves either no store, and making one works again, or a whole one.
    ///
    /// # Errors
    /// [`Error::Exists`]; [`Error::Lost`] where a store lacks its header; [`Error::Locked`], [`Error::NoSpace`], [`Error::Io`].
    pub fn create(storage: Arc<dyn Storage>, format: FormatTag, options: FsOptions) -> Result<Self, Error> {
        expect_no_store(&storage)?;
        let files = Files::new(storage.clone());
        for folder in ["", OBJECTS, NEW, OPEN, DERIVED] {
            files.create_dir(folder)?;
        }
        let store_lock = StoreLock::new(storage.clone(), LOCK, options.lock_wait_ms);
        let guard = store_lock.take()?;
        // Another process may have been faster.
        expect_no_store(&storage)?;
        let (boot, _) = boot_of(&*storage, &options);
        state::create_refs(&files, &boot)?;
        files.sync_dir("")?;
        Header { backend: BACKEND, version: VERSION, format }.write(&*storage)?;
        drop(guard);
        Self::open(storage, options, false)
    }

    /// Opens a store. What a power cut or a process that was stopped left is set right first.
    ///
    /// `read_only`: nothing is written or locked, and nothing is set right; what is found is as whole as after any opening. A
    /// sweep of another process may drop what this one has not read yet and no ref leads to.
    ///
    /// # Errors
    /// [`Error::NoStore`]; [`Error::Incompatible`] for the store of another backend or version; [`Error::Corrupt`] naming what
    /// is damaged; [`Error::Lost`] where the header or the refs are missing; [`Error::Locked`], [`Error::Io`].
    pub fn open(storage: Arc<dyn Storage>, options: FsOptions, read_only: bool) -> Result<Self, Error> {
        let header = read_header(&storage)?;
        let files = Arc::new(Files::new(storage.clone()));
        let boot = boot_of(&*storage, &options);
        let store_lock = StoreLock::new(storage, LOCK, options.lock_wait_ms);
        let mut unsynced = UnsyncedFile::new(files.clone(), boot.0.clone());
        if read_only {
            return Ok(Self(FsState::new(files, header, &options, boot, store_lock, None, unsynced)?));
        }
        let guard = store_lock.take()?;
        let session = Session::begin(&files)?;
        recovery::remove_parts(&files)?;
        let (is_earlier, alone) = (unsynced.open()?, session.other(&files)?.is_none());
        // Where everything is synced, what is noted and of no process was never acknowledged.
        if is_earlier || (boot.1 && alone && !unsynced.is_blank()) {
            recovery::remove_unsynced(&files, alone)?;
            unsynced.empty()?;
        } else if alone {
            recovery::set_back_if_torn(&files, unsynced.now())?;
        }
        drop(guard);
        let state = FsState::new(files, header, &options, boot, store_lock, Some(session), unsynced)?;
        if read_lock(&state.refs).durable_serial == state::SERIAL_FIRST {
            // The process that made the store may have been stopped before the name of the header was durable.
            state.poisons(state.files.sync_dir(""))?;
        }
        // A sweep that was cut off is ended.
        state.locked(|_| Ok(()))?;
        state.derived.remove_abandoned();
        Ok(Self(state))
    }

    /// Returns what the store says of itself.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.0.header
    }

    /// Returns how many bytes this process has written, as [`BackendStats::bytes_written`] says without its other figures, which take
    /// a walk over all files.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.0.files.bytes_written.load(Relaxed)
    }

    /// Makes durable what this process appended and ends its thread. Dropping the backend does the same, as far as it can.
    ///
    /// # Errors
    /// As [`Backend::flush`].
    pub fn close(&self) -> Result<(), Error> {
        let state = &self.0;
        // The thread and the lock are those of the process that opened the store, not of one that was forked from it.
        if state.read_only || state.lock.refuse_child().is_err() {
            return Ok(());
        }
        state.worker.stop();
        state.poison.check()?;
        let is_settled = |writer: &Writer| !writer.has_unsynced() && !writer.unsynced.is_marked();
        if is_settled(&lock(&state.writer)) {
            return Ok(());
        }
        state.locked(|writer| {
            if writer.has_unsynced() {
                state.make_durable(writer, None)?;
            }
            let alone = state.session.as_ref().is_some_and(|session| matches!(session.other(&state.files), Ok(None)));
            if alone && writer.unsynced.now().is_empty() { writer.unsynced.empty() } else { Ok(()) }
        })
    }
}

impl Drop for FsBackend {
    fn drop(&mut self) {
        // A caller that wants to know calls `close`.
        let _ = self.close();
    }
}

/// Fails unless a store can be made here.
fn expect_no_store(storage: &Arc<dyn Storage>) -> Result<(), Error> {
    match read_header(storage) {
        Err(Error::NoStore { .. }) => Ok(()),
        Err(error @ (Error::Io { .. } | Error::Lost { .. })) => Err(error),
        _ => Err(Error::Exists { file: storage.describe("") }),
    }
}

/// Reads the header.
fn read_header(storage: &Arc<dyn Storage>) -> Result<Header, Error> {
    match Header::read(&**storage, BACKEND, VERSION) {
        Err(Error::NoStore { file }) => {
            if recovery::has_objects(storage)? {
                let reason = "the header is missing, though objects are there; put it back from a backup of this store";
                return Err(Error::Lost { file: storage.describe(STORE), reason: reason.to_owned() });
            }
            Err(Error::NoStore { file })
        }
        read => read,
    }
}

/// Returns the start of the machine, and whether everything has to be synced: it is not known, or other machines write too.
fn boot_of(storage: &dyn Storage, options: &FsOptions) -> (String, bool) {
    let boot = options.boot.clone().or_else(|| storage.boot()).filter(|boot| !boot.is_empty());
    let word = |boot: String| boot.chars().map(|letter| if letter.is_whitespace() { '-' } else { letter }).collect();
    match boot.map(word) {
        Some(boot) if storage.reach() == Reach::Local => (boot, false),
        _ => (BOOT_UNKNOWN.to_owned(), true),
    }
}

impl Backend for FsBackend {
    fn name(&self) -> &'static str {
        BACKEND
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            persistent: true,
            atomic_commits: true,
            several_refs: true,
            locations: false,
            processes: true,
            metadata_words: true,
            positions: true,
            sweep: true,
            retention: false,
            git: None,
        }
    }

    fn snapshot(&self, roots: &[Oid]) -> Arc<dyn Snapshot> {
        Arc::new(self.0.snapshot(roots))
    }

    fn read(&self, at: &ObjRef) -> Result<Option<Object<'static>>, Error> {
        self.0.read(&at.oid)
    }

    fn locate(&self, oid: &Oid) -> Option<Location> {
        self.0.knows(oid).then_some(Location::NONE)
    }

    fn position(&self) -> Result<Option<Position>, Error> {
        self.0.position().map(Some)
    }

    fn sweeps(&self) -> u64 {
        self.0.sweeps.load(Acquire)
    }

    /// Drops what nothing leads to.
    ///
    /// # Errors
    /// [`Error::Locked`] while another process has the store open for writing: what its snapshots keep is not known here.
    /// [`Error::Usage`] where a snapshot is held that is older than what another process wrote: what of that it keeps is not
    /// known here.
    fn sweep(&self, roots: &Roots<'_>, limits: &SweepLimits) -> Result<Swept, Error> {
        self.0.sweep(roots, limits)
    }

    fn append(&self, batch: Batch, moves: &[RefMove], durability: Durability) -> Result<Location, Error> {
        let mut outcomes = self.append_many(vec![(batch, moves.to_vec())], durability);
        outcomes.pop().unwrap_or(Ok(Location::NONE))
    }

    fn append_many(&self, batches: Vec<(Batch, Vec<RefMove>)>, durability: Durability) -> Vec<Result<Location, Error>> {
        self.0.append(CallerAppends { appends: batches, durability })
    }

    fn get_ref(&self, name: &str) -> Result<Option<RefTarget>, Error> {
        self.0.get_ref(name)
    }

    fn list_refs(&self, prefix: &str) -> Result<BTreeMap<String, RefTarget>, Error> {
        self.0.list_refs(prefix)
    }

    fn flush(&self) -> Result<(), Error> {
        self.0.flush()
    }

    fn each_object(
        &self,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<(), Error>,
        damage: &mut dyn FnMut(Damage),
    ) -> Result<(), Error> {
        let files = &self.0.files;
        durable::each_object_file(files, |oid, name| {
            let found = oid.map(|oid| object::read(files, &oid).map(|read| (oid, read))).transpose()?;
            let reason = match found {
                Some((oid, Some(Ok(object)))) => return each(oid, &object),
                // A sweep removed it meanwhile.
                Some((_, None)) => return Ok(()),
                Some((_, Some(Err(damaged)))) => damaged.reason,
                None => "no object can have this name; move the file out of the store",
            };
            damage(Damage { file: files.describe(name), offset: 0, oid, reason: reason.to_owned() });
            Ok(())
        })
    }

    /// Lists the folders that ids which begin so can be in: one for two digits or more.
    fn each_with_prefix(
        &self,
        prefix: &OidPrefix,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (files, digits) = (&self.0.files, prefix.to_string());
        durable::each_object_file_in(files, &digits[..digits.len().min(2)], |oid, _| {
            let Some(oid) = oid.filter(|oid| prefix.matches(oid)) else { return Ok(()) };
            match object::read(files, &oid)? {
                Some(Ok(object)) => each(oid, &object),
                // It is damaged, or a sweep removed it meanwhile.
                Some(Err(_)) | None => Ok(()),
            }
        })
    }

    fn stats(&self) -> BackendStats {
        let (state, files) = (&self.0, &self.0.files);
        let mut bytes = 0;
        let count = |_: Option<Oid>, name: &str| -> Result<(), Error> {
            bytes += files.stat(name)?.map_or(0, |stat| stat.bytes);
            Ok(())
        };
        // What cannot be counted is not.
        let _ = durable::each_object_file(files, count);
        let known = read_lock(&state.known).places.capacity() as u64;
        BackendStats {
            bytes_written: files.bytes_written.load(Relaxed),
            writes: state.writes.load(Relaxed),
            syncs: files.syncs.load(Relaxed),
            batches: state.batches.load(Relaxed),
            store_bytes: bytes,
            file_bytes: bytes,
            memory_bytes: known * 48,
            ..BackendStats::default()
        }
    }

    fn read_derived(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        self.0.derived.read(name)
    }

    fn write_derived(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        if self.0.read_only {
            return Err(Error::ReadOnly);
        }
        self.0.derived.write(name, bytes)
    }
}
