//! The backend: objects and refs of a store in a Git repository.
//!
//! **The idea.** What a store commits is Git's own: a batch becomes a pack with its index (or loose objects), and then
//! one ref moves, under Git's lock. That move is the commit point. Any Git that works beside us sees either all of a
//! commit or nothing of it. What Git cannot promise is absent from [`Capabilities`]: several refs do not move in one
//! step, and after a crash each ref is on its own.
//!
//! `docs/formats/git-backend.md` lists the files that are kept beside Git's, and the order of the steps.

use std::{collections::BTreeMap, sync::Arc};

use bristlecone::{
    Backend, BackendStats, Batch, Capabilities, Damage, Durability, Error, Location, ObjRef, Object, Oid, RefMove,
    RefTarget, Result, core::git::Algorithm, storage::Storage,
};

use crate::{layout::Layout, odb::Odb, refs::Refs};

/// How a repository is used.
#[derive(Clone, Debug)]
pub struct GitOptions {
    /// The hash of the ids. [`GitBackend::open_path`] takes that of the repository instead.
    pub algorithm: Algorithm,
    /// Whether objects are written one file each, as `git add` does, and not as packs.
    pub loose: bool,
    /// Whether nothing is written, not even a folder.
    pub read_only: bool,
    /// How long a move of a ref waits for a lock of somebody else, in milliseconds.
    pub lock_wait_ms: u64,
    /// How long a lock file of a ref may be empty before it counts as left by a power cut, in milliseconds.
    pub stale_lock_ms: u64,
    /// The budget in bytes for objects kept in memory. A half at most is for those that are never dropped.
    pub cache_bytes: u64,
    /// Whether many small packs are folded into larger ones as they pile up.
    pub fold: bool,
    /// Within how many milliseconds a grouped append is durable.
    pub grouped_ms: u64,
    /// Whether threads may work beside appends; without, what they would do is done at the next call.
    pub background: bool,
    /// The folder, below that of the storage, of the working tree whose `HEAD` is meant: empty for the main one,
    /// `worktrees/NAME` for a linked one. The store's own HEAD is `bristlecone/HEAD` in it.
    pub head_dir: String,
    /// Who moves refs, as reflogs say it: `Name <email>`.
    pub who: Vec<u8>,
    /// Whether moves of branches are noted in reflogs.
    pub reflogs: bool,
    /// What is different after each start of the machine; what is not synced survives as long as it is the same. `None`:
    /// unknown, so that anything may be lost between any two openings.
    pub boot: Option<String>,
}

impl Default for GitOptions {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::Sha1,
            loose: false,
            read_only: false,
            lock_wait_ms: 10_000,
            stale_lock_ms: 10_000,
            cache_bytes: 64 << 20,
            fold: true,
            grouped_ms: 10,
            background: true,
            head_dir: String::new(),
            who: b"bristlecone <bristlecone@localhost>".to_vec(),
            reflogs: true,
            boot: None,
        }
    }
}

/// A store in a Git repository.
#[derive(Debug)]
pub struct GitBackend {
    odb: Odb,
    refs: Refs,
}

impl GitBackend {
    /// Opens the repository whose common folder `storage` is rooted at; its alternates are not looked for.
    ///
    /// # Errors
    /// [`Error::NoStore`] if there is none; [`Error::Corrupt`], [`Error::Locked`], [`Error::Io`].
    pub fn open(_storage: Arc<dyn Storage>, _options: GitOptions) -> Result<Self> {
        todo!()
    }

    /// Opens a repository of the operating system, with its alternates, as its configuration says.
    ///
    /// # Errors
    /// As [`GitBackend::open`].
    pub fn open_path(_layout: &Layout, _options: GitOptions) -> Result<Self> {
        todo!()
    }

    /// Returns the objects.
    #[must_use]
    pub fn odb(&self) -> &Odb {
        &self.odb
    }

    /// Returns the refs as Git keeps them.
    #[must_use]
    pub fn refs(&self) -> &Refs {
        &self.refs
    }

    /// Returns what Git's own `HEAD` names: a branch, which need not exist, or an object.
    ///
    /// # Errors
    /// [`Error::Corrupt`]; [`Error::Io`].
    pub fn git_head(&self) -> Result<Option<RefTarget>> {
        todo!()
    }

    /// Folds all packs of this repository into one, but for those that say they are to be kept as they are.
    ///
    /// # Errors
    /// [`Error::Corrupt`]; [`Error::ReadOnly`], [`Error::Io`].
    pub fn fold_all(&self) -> Result<()> {
        todo!()
    }

    /// Makes everything durable and ends the threads. Dropping the backend does the same, as far as it can.
    ///
    /// # Errors
    /// As [`Backend::flush`].
    pub fn close(&self) -> Result<()> {
        todo!()
    }
}

impl Backend for GitBackend {
    fn capabilities(&self) -> Capabilities {
        todo!()
    }

    fn read(&self, _at: &ObjRef) -> Result<Option<Object<'_>>> {
        todo!()
    }

    fn locate(&self, _oid: &Oid) -> Option<Location> {
        todo!()
    }

    fn append(&self, _batch: Batch, _moves: &[RefMove], _durability: Durability) -> Result<Location> {
        todo!()
    }

    fn get_ref(&self, _name: &str) -> Result<Option<RefTarget>> {
        todo!()
    }

    fn list_refs(&self, _prefix: &str) -> Result<BTreeMap<String, RefTarget>> {
        todo!()
    }

    fn flush(&self) -> Result<()> {
        todo!()
    }

    fn each_object(
        &self,
        _each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<(), Error>,
        _damage: &mut dyn FnMut(Damage),
    ) -> Result<()> {
        todo!()
    }

    fn stats(&self) -> BackendStats {
        todo!()
    }

    fn read_derived(&self, _name: &str) -> Result<Option<Vec<u8>>> {
        todo!()
    }

    fn write_derived(&self, _name: &str, _bytes: &[u8]) -> Result<()> {
        todo!()
    }
}
