//! Okra's ordered map on LMDB, byte for byte: entries in the order of their keys, and above them a tree of hashes.
//!
//! The tree is a function of the entries: the hash of a node decides whether a node of the level above begins there.
//! Two maps with the same entries have the same root and the same bytes, whichever way they were made; two that differ
//! find out where by asking for the nodes that differ. Files are those of [Okra](https://github.com/canvasxyz/okra),
//! which reads ours as we read its. The layout is in `docs/formats/okra.md`.
//!
//! A map keeps its last state alone, in LMDB's own transactions: one writer at a time, and any number of readers that
//! it does not disturb. It has no history, no branches and no proofs; the native map has those.
//!
//! ```
//! # fn main() -> bristlecone_lmdb::okra::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! use bristlecone_lmdb::okra::{OkraMap, OkraOptions};
//!
//! let map = OkraMap::create(dir.path().join("map"), &OkraOptions::default())?;
//! let mut writer = map.write()?;
//! writer.insert(b"a", b"foo")?;
//! writer.insert(b"c", b"baz")?;
//! let root = writer.commit()?;
//! assert_eq!(root.hash.to_string(), "bcc54f494ba524b62accf2c03cfe2d1b");
//!
//! let reader = map.read()?;
//! assert_eq!(reader.get(b"a")?, Some(&b"foo"[..]));
//! assert_eq!(reader.root()?, root);
//! # Ok(())
//! # }
//! ```

mod check;
mod error;
mod file;
mod keys;
mod lmdb;
mod load;
mod metadata;
mod node;
mod rehash;
mod snapshot;
mod sync;
mod writer;

use std::{fmt, fs, io, path::Path, sync::Arc};

use bristlecone::storage::{RealStorage, Storage as _, retry};
use lmdb::{At, Env, EnvOptions, Txn};
use metadata::Metadata;
use node::METADATA_KEY;

pub use {
    check::OkraCheck,
    error::{OkraError, Result},
    metadata::{Mode, VERSION},
    node::{FANOUT, HASH_BYTES, KEY_BYTES_MAX, NodeHash, OkraNode, OkraRoot, VALUE_BYTES_MAX},
    snapshot::{Entries, Entry, OkraCursor, OkraSnapshot},
    sync::{Difference, Source, SyncStats},
    writer::OkraWriter,
};

/// The default of [`OkraOptions::map_bytes_max`]: 1 TiB of address space.
const MAP_BYTES_MAX: u64 = if usize::BITS < 64 { 1 << 30 } else { 1 << 40 };

/// How a map is opened.
#[derive(Clone, Debug)]
pub struct OkraOptions {
    mode: Option<Mode>,
    map_bytes_max: u64,
    read_only: bool,
    sync: bool,
    database: Option<String>,
}

impl Default for OkraOptions {
    fn default() -> Self {
        Self { mode: None, map_bytes_max: MAP_BYTES_MAX, read_only: false, sync: true, database: None }
    }
}

impl OkraOptions {
    /// The mode. A new map is in store mode unless another one is given; an existing map of another mode is refused.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// Bytes that the file may have at most; 1 TiB by default. They are reserved as address space, not on disk, and
    /// count anew with each opening.
    #[must_use]
    pub fn map_bytes_max(mut self, bytes: u64) -> Self {
        self.map_bytes_max = bytes;
        self
    }

    /// Whether the map is only read. `false` by default.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// Whether a commit syncs the file before it returns. `true` by default, as LMDB and Okra do.
    ///
    /// Without it (LMDB's `MDB_NOSYNC`) a commit survives the end of the process, and a power cut may **destroy the
    /// file**, not only the last commits: the system writes pages in any order. [`OkraMap::flush`] syncs at a chosen
    /// moment, and protects until the next commit.
    #[must_use]
    pub fn sync(mut self, sync: bool) -> Self {
        self.sync = sync;
        self
    }

    /// The name of the database within the file; by default it is the unnamed one, as in Okra.
    #[must_use]
    pub fn database(mut self, name: impl Into<String>) -> Self {
        self.database = Some(name.into());
        self
    }
}

/// An ordered map in an LMDB file. Threads share it. A process that is forked from the one that opened it drops it and opens it anew;
/// snapshots and writers that were begun before fail there with [`OkraError::Forked`].
pub struct OkraMap {
    env: Env,
    mode: Mode,
    read_only: bool,
}

impl OkraMap {
    /// Makes a map in a folder, which is made if it is missing.
    ///
    /// # Errors
    /// [`OkraError::Exists`] where there is a map; [`OkraError::Incompatible`] where there is something else, or where a map with a
    /// name is to be made in a file whose unnamed database is a map;
    /// [`OkraError::ReadOnly`] where the options say so; those of the system.
    pub fn create(path: impl AsRef<Path>, options: &OkraOptions) -> Result<Self> {
        let path = path.as_ref();
        if options.read_only {
            return Err(OkraError::ReadOnly { file: path.display().to_string() });
        }
        let failed = |source| OkraError::Io { file: path.display().to_string(), source: Arc::new(source) };
        let beside = || path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = if path.is_file() { beside() } else { path };
        let storage = RealStorage::new(folder);
        if !path.is_file() {
            retry(|| storage.create_dir("")).map_err(failed)?;
        }
        let env = open_env(path, options, true)?;
        let mode = options.mode.unwrap_or(Mode::Store);
        // Where another process makes a map at the same time, one of them finds the other's.
        let mut txn = env.begin(false)?;
        match read_metadata(&txn, env.file(), options) {
            Err(OkraError::NoMap { .. }) => {}
            Err(error) => return Err(error),
            Ok(_) => return Err(OkraError::Exists { file: env.file().to_owned() }),
        }
        let mut cursors = txn.write_cursors()?;
        cursors.put(At::Children, &[0], &NodeHash::of_empty().0)?;
        cursors.put(At::Children, &METADATA_KEY, &Metadata::new(mode).encode())?;
        drop(cursors);
        txn.commit()?;
        if options.sync {
            // LMDB syncs the file, and not its name.
            storage.sync_dir("").map_err(failed)?;
        }
        Ok(Self { env, mode, read_only: false })
    }

    /// Opens a map: the folder of an LMDB environment, or a file of LMDB's that stands alone. A file `data.mdb` is opened as its
    /// folder.
    ///
    /// # Errors
    /// [`OkraError::NoMap`]; [`OkraError::Incompatible`] for a file of another program, or a map of another version,
    /// with other constants or in another mode; [`OkraError::Corrupt`] where the first pages cannot be right, the file ends before
    /// a page in use, or any page of a file of up to 16 MiB cannot be right; [`OkraError::AlreadyOpen`]; those of the system and of LMDB.
    pub fn open(path: impl AsRef<Path>, options: &OkraOptions) -> Result<Self> {
        let path = path.as_ref();
        let is_file = found_at(path)?.is_some_and(|found| found.is_file());
        let data = if is_file { path.to_owned() } else { path.join(lmdb::DATA) };
        let file = data.display().to_string();
        match found_at(&data)? {
            Some(found) if found.is_file() && found.len() == 0 => {
                // LMDB would make a new environment of it.
                let reason = "the file is empty; put it back from a backup, or remove it and make a map there";
                return Err(OkraError::Corrupt { file, offset: 0, reason: reason.to_owned() });
            }
            Some(found) if found.is_file() => {}
            _ => return Err(OkraError::NoMap { file: path.display().to_string() }),
        }
        let env = open_env(path, options, false)?;
        let metadata = read_metadata(&env.begin(true)?, env.file(), options)?;
        Ok(Self { env, mode: metadata.mode, read_only: options.read_only })
    }

    /// Begins to read the map as it is now.
    ///
    /// # Errors
    /// [`OkraError::Forked`], and those of LMDB: it has room for 126 readers.
    pub fn read(&self) -> Result<OkraSnapshot<'_>> {
        Ok(OkraSnapshot { txn: self.env.begin(true)?, mode: self.mode })
    }

    /// Begins to change the map, when the writer before has ended, in whichever process.
    ///
    /// A thread that waits for its own writer waits for ever.
    ///
    /// # Errors
    /// [`OkraError::ReadOnly`], [`OkraError::Forked`], and those of LMDB.
    pub fn write(&self) -> Result<OkraWriter<'_>> {
        if self.read_only {
            return Err(OkraError::ReadOnly { file: self.env.file().to_owned() });
        }
        Ok(OkraWriter::new(OkraSnapshot { txn: self.env.begin(false)?, mode: self.mode }))
    }

    /// Makes all commits durable, where [`OkraOptions::sync`] left that out. Does nothing where the map is only read.
    ///
    /// # Errors
    /// Those of the system, a full device among them as [`OkraError::Io`]: the commits were made, and may not be durable. The system
    /// tells of what it could not write once, so every later call fails as the first one that did, until the map is opened again.
    pub fn flush(&self) -> Result<()> {
        if self.read_only { Ok(()) } else { self.env.flush() }
    }

    /// The mode.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The file of the map, for people.
    #[must_use]
    pub fn file(&self) -> &str {
        self.env.file()
    }
}

impl fmt::Debug for OkraMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OkraMap").field("file", &self.file()).field("mode", &self.mode).finish_non_exhaustive()
    }
}

/// Returns what is at a path, if something is.
fn found_at(path: &Path) -> Result<Option<fs::Metadata>> {
    match fs::metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(OkraError::io(path.display().to_string(), error)),
    }
}

fn open_env(path: &Path, options: &OkraOptions, create: bool) -> Result<Env> {
    let database = options.database.as_deref();
    let map_bytes = usize::try_from(options.map_bytes_max).unwrap_or(usize::MAX >> 1);
    let (read_only, sync) = (options.read_only, options.sync);
    Env::open(path, &EnvOptions { database, map_bytes, read_only, sync, create })
}

/// Reads the metadata; a database without entries is no map yet.
fn read_metadata(txn: &Txn<'_>, file: &str, options: &OkraOptions) -> Result<Metadata> {
    if let Some(bytes) = txn.get(&METADATA_KEY)? {
        return Metadata::decode(file, bytes, options.mode);
    }
    let file = file.to_owned();
    match txn.stat()? {
        (0, _) => Err(OkraError::NoMap { file }),
        (count, _) => Err(OkraError::Incompatible {
            file,
            found: format!("an LMDB database of another program, with {count} entries and none at ff"),
            expected: "an Okra map".to_owned(),
        }),
    }
}
