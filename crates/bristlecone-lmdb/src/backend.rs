//! The backend `lmdb`: objects and refs of a store in one file of LMDB.
//!
//! **The idea.** A step, with all objects and all moves of refs of the callers that wait, is one transaction of LMDB: there
//! wholly or not at all, in the order of its number. Everything else follows from that: several refs move together, moves
//! have positions, and a crash leaves what some commit left.
//!
//! **Reading.** A [`Snapshot`] holds no transaction of LMDB: as long as one is open, no page that is freed can be used again,
//! by any process, and the file grows. Each read opens one for a moment, from a pool, checks the object's checksum and
//! copies it out. What a snapshot shows is kept from our own sweeps by [`Pins`](bristlecone::Pins).
//!
//! **Durability.** The data of every commit are synced before the page that makes them count. [`Durability::Synced`] has that
//! page synced as well; the others leave it to the system, so that a power cut may undo the last commits and nothing else.
//!
//! **In and out.** `append` writes groups of steps, `snapshot` reads, `sweep` drops, `opened` opens and shares what is open
//! in this process, `rows` knows the bytes. All of LMDB is behind `env`.
//!
//! `docs/formats/lmdb.md` lists the files and bytes, `docs/decisions/0029-lmdb.md` says why.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, atomic::Ordering::*},
};

use bristlecone::{
    Backend, BackendStats, Batch, Capabilities, Damage, Durability, Error, Location, ObjRef, Object, Oid, OidPrefix,
    Position, RefMove, RefTarget, Result, Roots, Snapshot, SweepLimits, Swept,
    engine::{FormatTag, Header},
};

mod append;
mod opened;
mod options;
mod rows;
mod snapshot;
mod sweep;

use append::CallerAppends;
use opened::OpenStore;
pub use options::LmdbOptions;
use rows::decode_ref;
use snapshot::LmdbSnapshot;

pub use crate::env::{LmdbError, LmdbReader};

/// A store in a file of LMDB.
///
/// All handles of a process on one folder share what is open. A process that was forked opens the store anew.
#[derive(Debug)]
pub struct LmdbBackend {
    store: Arc<OpenStore>,
    read_only: bool,
}

impl LmdbBackend {
    /// Makes a store in a folder, which is made if need be, and opens it.
    ///
    /// What a killed process left that was making one is replaced; nothing else is.
    ///
    /// # Errors
    /// [`Error::Exists`]; [`Error::Lost`] where a store lacks its header; [`Error::Locked`], [`Error::NoSpace`],
    /// [`Error::Io`].
    pub fn create(dir: impl AsRef<Path>, format: FormatTag, options: LmdbOptions) -> Result<Self> {
        Ok(Self { store: OpenStore::create(dir.as_ref(), format, &options)?, read_only: false })
    }

    /// Opens the store in a folder. A folder that cannot be written can be opened to be read; no process may write there
    /// meanwhile.
    ///
    /// An opening to read takes no lock: what no ref leads to may go in a sweep of another process that is under way, also where a
    /// snapshot here has it for a root.
    ///
    /// # Errors
    /// [`Error::NoStore`]; [`Error::Incompatible`] for the store of another backend or a newer version; [`Error::Corrupt`],
    /// [`Error::Lost`] where its pages are not there or not whole; [`Error::Usage`] if this process has it open to be read
    /// only, and now to be written; [`Error::Locked`], [`Error::Io`].
    pub fn open(dir: impl AsRef<Path>, options: LmdbOptions, read_only: bool) -> Result<Self> {
        Ok(Self { store: OpenStore::open(dir.as_ref(), &options, read_only)?, read_only })
    }

    /// Returns what the store's header says.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.store.header
    }

    /// Returns the places in LMDB's table of readers that are taken, by all processes. Each process that has the store open
    /// has one at least. One that has been at the same transaction for long keeps pages from being used again.
    ///
    /// # Errors
    /// [`Error::Usage`] in a forked process.
    pub fn readers(&self) -> Result<Vec<LmdbReader>> {
        self.store.env.readers()
    }

    /// Frees the places of processes that ended without giving them back, and returns how many they were.
    ///
    /// # Errors
    /// As [`LmdbBackend::readers`]; [`Error::Io`].
    pub fn clear_dead_readers(&self) -> Result<u64> {
        self.store.env.clear_dead_readers()
    }

    /// Makes everything durable and ends the thread. Dropping the last handle of a process does the same, as far as it can.
    ///
    /// # Errors
    /// As [`Backend::flush`].
    pub fn close(&self) -> Result<()> {
        self.store.close()
    }

    fn refuse_read_only(&self) -> Result<()> {
        if self.read_only { Err(Error::ReadOnly) } else { Ok(()) }
    }
}

impl Backend for LmdbBackend {
    fn name(&self) -> &'static str {
        opened::NAME
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
        Arc::new(LmdbSnapshot::take(&self.store, roots))
    }

    fn read(&self, at: &ObjRef) -> Result<Option<Object<'static>>> {
        self.store.read(&at.oid)
    }

    fn locate(&self, oid: &Oid) -> Option<Location> {
        self.store.locate(oid)
    }

    fn position(&self) -> Result<Option<Position>> {
        Ok(Some(Position(self.store.state()?.position)))
    }

    fn sweeps(&self) -> u64 {
        self.store.sweeps.load(Acquire)
    }

    fn sweep(&self, roots: &Roots<'_>, limits: &SweepLimits) -> Result<Swept> {
        self.refuse_read_only()?;
        self.store.sweep(roots, limits)
    }

    fn append(&self, batch: Batch, moves: &[RefMove], durability: Durability) -> Result<Location> {
        let mut outcomes = self.append_many(vec![(batch, moves.to_vec())], durability);
        outcomes.pop().unwrap_or(Ok(Location::NONE))
    }

    fn append_many(&self, batches: Vec<(Batch, Vec<RefMove>)>, durability: Durability) -> Vec<Result<Location>> {
        if let Err(error) = self.refuse_read_only() {
            return batches.iter().map(|_| Err(error.clone())).collect();
        }
        let outcomes = self.store.append(CallerAppends { appends: batches, durability });
        outcomes.into_iter().map(|outcome| outcome.map(|()| Location::NONE)).collect()
    }

    fn get_ref(&self, name: &str) -> Result<Option<RefTarget>> {
        let Some(key) = rows::ref_key(name) else { return Ok(None) };
        let env = &self.store.env;
        let txn = env.read()?;
        let Some(value) = txn.get(self.store.refs, &key).map_err(|code| env.error(code))? else { return Ok(None) };
        match decode_ref(value) {
            Some((found, target)) if found == name => Ok(Some(target)),
            _ => Err(self.store.corrupt(&txn, value, None, "a ref's bytes have another checksum")),
        }
    }

    fn list_refs(&self, prefix: &str) -> Result<BTreeMap<String, RefTarget>> {
        let env = &self.store.env;
        let txn = env.read()?;
        let from = rows::ref_keys_from(prefix);
        let mut found = BTreeMap::new();
        let mut scan = txn.scan(self.store.refs, from).map_err(|code| env.error(code))?;
        while let Some((key, value)) = scan.next().map_err(|code| env.error(code))? {
            if !key.starts_with(from) {
                break;
            }
            match decode_ref(value) {
                Some((name, target)) if rows::ref_key(name).as_deref() == Some(key) => {
                    if name.starts_with(prefix) {
                        found.insert(name.to_owned(), target);
                    }
                }
                _ => return Err(self.store.corrupt(&txn, value, None, "a ref's bytes have another checksum")),
            }
        }
        Ok(found)
    }

    fn flush(&self) -> Result<()> {
        self.store.flush()
    }

    fn each_object(
        &self,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<()>,
        damage: &mut dyn FnMut(Damage),
    ) -> Result<()> {
        self.store.each_object(each, damage)
    }

    fn each_with_prefix(
        &self,
        prefix: &OidPrefix,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<(), Error>,
    ) -> Result<()> {
        self.store.each_with_prefix(prefix, each)
    }

    fn stats(&self) -> BackendStats {
        self.store.stats()
    }

    fn read_derived(&self, name: &str) -> Result<Option<Vec<u8>>> {
        self.store.derived.read(name)
    }

    fn write_derived(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.refuse_read_only()?;
        self.store.derived.write(name, bytes)
    }
}
