//! The backend: objects and refs of a store in a Git repository.
//!
//! **The idea.** What a store commits is Git's own: a batch becomes a pack with its index (or loose objects), and then
//! one ref moves, under Git's lock. That move is the commit point. Any Git that works beside us sees either all of a
//! commit or nothing of it. What Git cannot promise is absent from [`Capabilities`]: several refs do not move in one
//! step, and after a crash each ref is on its own.
//!
//! `docs/formats/git-backend.md` lists the files that are kept beside Git's, and the order of the steps.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bristlecone::{
    Backend, BackendStats, Batch, Capabilities, Damage, Durability, Error, Location, ObjRef, Object, Oid, RefMove,
    RefTarget, Result, Snapshot, core::git::Algorithm, storage::Storage,
};

use crate::{
    files::Files,
    layout::Layout,
    odb::{Odb, OdbOptions},
    refs::Refs,
};

mod append;
mod cache;
mod durable;
mod fold;
mod journal;
mod keep;
mod objects;
mod recovery;
mod shared;
mod unsynced;
mod walk;
mod worker;

use append::Item;
use shared::Shared;

/// How a repository is used.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GitOptions {
    /// The hash of the ids. [`GitBackend::open_path`] takes that of the repository instead.
    pub algorithm: Algorithm,
    /// Whether objects are written one file each, as `git add` does, and not as packs.
    pub loose: bool,
    /// Whether nothing is written, not even a folder.
    pub read_only: bool,
    /// How long a move of a ref waits for each lock of somebody else, in milliseconds.
    pub lock_wait_ms: u64,
    /// The budget in bytes for objects kept in memory. A half at most is for those that are never dropped.
    pub cache_bytes: u64,
    /// Whether many small packs are folded into larger ones as they pile up.
    pub fold: bool,
    /// So many small packs are many.
    pub fold_min: usize,
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

bristlecone::setters! {
    GitOptions {
        algorithm: Algorithm,
        loose: bool,
        read_only: bool,
        lock_wait_ms: u64,
        cache_bytes: u64,
        fold: bool,
        fold_min: usize,
        grouped_ms: u64,
        background: bool,
        head_dir: into String,
        who: into Vec<u8>,
        reflogs: bool,
        boot: into Option<String>,
    }
}

impl Default for GitOptions {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::Sha1,
            loose: false,
            read_only: false,
            lock_wait_ms: 10_000,
            cache_bytes: 64 << 20,
            fold: true,
            fold_min: 48,
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
    shared: Arc<Shared>,
}

impl GitBackend {
    /// Opens the repository whose common folder `storage` is rooted at; its alternates are not looked for. What a power
    /// cut left is set right.
    ///
    /// # Errors
    /// [`Error::NoStore`] if there is none; [`Error::Corrupt`], [`Error::Locked`], [`Error::Io`].
    pub fn open(storage: Arc<dyn Storage>, options: GitOptions) -> Result<Self> {
        let algorithm = options.algorithm;
        Self::open_with(storage.clone(), options, || Odb::open(storage, algorithm, OdbOptions::default()))
    }

    /// Opens a repository of the operating system, with its alternates, as its configuration says.
    ///
    /// # Errors
    /// As [`GitBackend::open`].
    pub fn open_path(layout: &Layout, options: GitOptions) -> Result<Self> {
        let mut options = options;
        options.algorithm = layout.algorithm;
        if layout.git_dir != layout.common_dir
            && let Ok(below) = layout.git_dir.strip_prefix(&layout.common_dir)
        {
            below.to_str().unwrap_or_default().clone_into(&mut options.head_dir);
        }
        // Git begins reflogs where there are working trees, unless it is told otherwise.
        options.reflogs &= match layout.config.get("core.logallrefupdates") {
            Some(b"always") => true,
            Some(_) => layout.config.bool("core.logallrefupdates").unwrap_or(true),
            None => !layout.is_bare(),
        };
        options.boot = options.boot.or_else(boot_id);
        let odb = || Odb::open_path(layout);
        Self::open_with(layout.storage(), options, odb)
    }

    fn open_with(storage: Arc<dyn Storage>, options: GitOptions, odb: impl FnOnce() -> Result<Odb>) -> Result<Self> {
        let files = Files::new(storage);
        if files.stat("objects")?.is_none() {
            return Err(Error::NoStore { file: files.describe("") });
        }
        Ok(Self { shared: Shared::open(files, options, odb)? })
    }

    /// Returns the objects.
    #[must_use]
    pub fn odb(&self) -> &Odb {
        &self.shared.odb
    }

    /// Returns the refs as Git keeps them.
    #[must_use]
    pub fn refs(&self) -> &Refs {
        &self.shared.refs
    }

    /// Returns how the repository is used.
    #[must_use]
    pub fn options(&self) -> &GitOptions {
        &self.shared.options
    }

    /// Returns what Git's own `HEAD` names: a branch, which need not exist, or an object.
    ///
    /// # Errors
    /// [`Error::Corrupt`]; [`Error::Io`].
    pub fn git_head(&self) -> Result<Option<RefTarget>> {
        self.shared.refs.get("HEAD")
    }

    /// Returns what somebody should know of what was found when the repository was opened, a sentence each.
    pub fn notes(&self) -> impl Iterator<Item = &str> {
        self.shared.notes.iter().map(String::as_str)
    }

    /// Folds all packs of this repository into one, but for those that say they are to be kept as they are.
    ///
    /// # Errors
    /// [`Error::Corrupt`]; [`Error::ReadOnly`], [`Error::Io`].
    pub fn fold_all(&self) -> Result<()> {
        self.shared.fold_all()
    }

    /// Makes everything durable and ends the threads. Dropping the backend does the same, as far as it can.
    ///
    /// # Errors
    /// As [`Backend::flush`].
    pub fn close(&self) -> Result<()> {
        let shared = &self.shared;
        // Threads, locks and what is to be tidied up are those of the process that opened the repository.
        if shared.store_lock.refuse_child().is_err() {
            return Ok(());
        }
        shared.worker.stop();
        let flushed = shared.flush();
        // Many short runs leave as many packs as a long one.
        if flushed.is_ok() && shared.wants_folding() {
            shared.fold_some();
        }
        // What no ref led to until now has no protection any more, as in any Git.
        for keep in std::mem::take(&mut shared::lock(&shared.writer).kept) {
            shared.keeps.release(keep)?;
        }
        shared.keeps.close();
        if !shared.options.read_only {
            shared.refs.remove_left(usize::MAX)?;
        }
        flushed
    }
}

impl Drop for GitBackend {
    fn drop(&mut self) {
        // Whoever wants to know calls `close`.
        let _ = self.close();
    }
}

/// Returns what the system calls the time since it was started, where it does.
fn boot_id() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned()).filter(|id| !id.is_empty() && !id.contains(char::is_whitespace))
}

/// What can be read of a repository. Records that were lent stay as long as the backend, and what may go is up to Git.
#[derive(Debug)]
struct GitSnapshot(Arc<Shared>);

impl Snapshot for GitSnapshot {
    #[inline]
    fn peek(&self, oid: &[u8], _: Location) -> Option<&[u8]> {
        self.0.records.peek(oid)
    }

    #[inline]
    fn read(&self, at: &ObjRef) -> Result<Option<Object<'_>>> {
        self.0.read(&at.oid)
    }

    /// Returns "nowhere in particular" for an object that is certainly there: it need not be written again.
    fn locate(&self, oid: &Oid) -> Option<Location> {
        self.0.recent.contains(oid).then_some(Location::NONE)
    }

    fn keep(&self, _: &Oid) {}
}

impl Backend for GitBackend {
    fn name(&self) -> &'static str {
        "git"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            persistent: true,
            atomic_commits: false,
            several_refs: false,
            locations: false,
            processes: true,
            metadata_words: false,
            positions: false,
            sweep: false,
            git: Some(self.shared.options.algorithm),
        }
    }

    fn snapshot(&self, _: &[Oid]) -> Arc<dyn Snapshot> {
        Arc::new(GitSnapshot(self.shared.clone()))
    }

    fn read(&self, at: &ObjRef) -> Result<Option<Object<'static>>> {
        Ok(self.shared.read(&at.oid)?.map(Object::into_static))
    }

    fn append(&self, batch: Batch, moves: &[RefMove], durability: Durability) -> Result<Location> {
        let mut outcomes = self.append_many(vec![(batch, moves.to_vec())], durability);
        outcomes.pop().unwrap_or(Ok(Location::NONE))
    }

    fn append_many(&self, batches: Vec<(Batch, Vec<RefMove>)>, durability: Durability) -> Vec<Result<Location>> {
        let outcomes = self.shared.append(Item { appends: batches, durability });
        outcomes.into_iter().map(|outcome| outcome.map(|()| Location::NONE)).collect()
    }

    fn get_ref(&self, name: &str) -> Result<Option<RefTarget>> {
        self.shared.get_ref(name)
    }

    fn list_refs(&self, prefix: &str) -> Result<BTreeMap<String, RefTarget>> {
        self.shared.list_refs(prefix)
    }

    fn shallow(&self) -> Result<BTreeSet<Oid>> {
        let text = self.shared.files.read("shallow")?.unwrap_or_default();
        Ok(text
            .split(|&byte| byte == b'\n')
            .filter_map(|line| str::from_utf8(line).ok()?.trim().parse().ok())
            .collect())
    }

    fn promised_to(&self) -> Result<Option<String>> {
        let partial = !self.odb().promisor_packs()?.is_empty();
        Ok(partial.then(|| self.shared.files.describe("")))
    }

    fn flush(&self) -> Result<()> {
        self.shared.flush()
    }

    fn each_object(
        &self,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<(), Error>,
        damage: &mut dyn FnMut(Damage),
    ) -> Result<()> {
        self.shared.each_object(each, damage)
    }

    /// Drops what is kept in memory, but for what may be borrowed: records that were read again and again stay.
    fn clear_caches(&self) {
        self.shared.records.clear();
    }

    fn stats(&self) -> BackendStats {
        self.shared.stats()
    }

    fn read_derived(&self, name: &str) -> Result<Option<Vec<u8>>> {
        self.shared.derived.read(name)
    }

    fn write_derived(&self, name: &str, bytes: &[u8]) -> Result<()> {
        if self.shared.options.read_only {
            return Err(Error::ReadOnly);
        }
        self.shared.derived.write(name, bytes)
    }
}
