//! The backend: objects and refs of a store in a Git repository.
//!
//! **The idea.** What a store commits is Git's own: a batch becomes a pack with its index (or loose objects), and then
//! one ref moves, under Git's lock. That move is the commit point. Any Git that works beside us sees either all of
//! a commit or nothing of it. What Git cannot promise is absent from [`Capabilities`]: several refs do not move in one
//! step, and after a crash each ref is on its own.
//!
//! **In and out.** A batch comes in through `append`, with those of callers that come at the same time. `objects`
//! writes it, `move_ref` moves the ref, `journal` notes what is not durable, `durable` makes it so; `foreign` does that for
//! what a Git left. Reads go to `cache`, then to the repository. `recovery` sets right what a power cut left; `maintenance`
//! and `repack` work beside the callers, and `multi_pack_index` says which packs have to stay; `keep` protects packs that no
//! ref leads to yet, and `kept` says for how long.
//!
//! **Callers.** The store, through [`Backend`]; exports, to move refs. Nothing here knows a working tree or a history.
//!
//! `docs/formats/git-backend.md` lists the files that are kept beside Git's, and the order of the steps.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, TryLockError},
    thread,
    time::{Duration, Instant},
};

use bristlecone::{
    Backend, BackendStats, Batch, Capabilities, Damage, Durability, Error, Location, ObjRef, Object, Oid, OidPrefix,
    RefMove, RefTarget, Result, Snapshot, storage::Storage,
};

use crate::repository::{
    files::Files,
    layout::Layout,
    mutex::lock,
    odb::{Odb, OdbOptions},
    refs::Refs,
    shallow::ShallowFile,
};

mod append;
mod append_group;
mod cache;
mod durable;
mod foreign;
mod journal;
mod keep;
mod kept;
mod maintenance;
mod move_ref;
mod multi_pack_index;
mod objects;
mod open_repository;
mod options;
mod pack_files;
mod parts;
mod reachability;
mod recovery;
mod repack;
mod unsynced;

use append_group::CallerAppends;
pub(crate) use foreign::sync_left;
pub(crate) use journal::OURS;
pub(crate) use keep::{Keep, Keeps};
use open_repository::OpenRepository;
pub use options::GitOptions;
pub use parts::GitObjects;
pub(crate) use reachability::Reachability;

/// How long a process that ends waits for the move of a ref that has begun, and how often it looks.
const ABANDON_WAIT: Duration = Duration::from_secs(1);
const ABANDON_PAUSE: Duration = Duration::from_micros(500);

/// A store in a Git repository.
#[derive(Debug)]
pub struct GitBackend {
    repository: Arc<OpenRepository>,
}

impl GitBackend {
    /// Opens the repository whose common folder `storage` is rooted at; its alternates are not looked for. What a power
    /// cut left is set right.
    ///
    /// # Errors
    /// [`Error::NoStore`] if there is no repository; [`Error::Corrupt`], [`Error::Locked`], [`Error::Io`].
    pub fn open(storage: Arc<dyn Storage>, options: GitOptions) -> Result<Self> {
        let algorithm = options.algorithm;
        Self::open_with(storage.clone(), options, Vec::new(), || Odb::open(storage, algorithm, OdbOptions::default()))
    }

    /// Opens a repository of the operating system, with its alternates, as its configuration says. One whose refs are a
    /// symbolic link into another repository is only read, and [`GitBackend::notes`] says so.
    ///
    /// # Errors
    /// As [`GitBackend::open`].
    pub fn open_path(layout: &Layout, options: GitOptions) -> Result<Self> {
        let mut options = options;
        options.algorithm = layout.algorithm;
        layout.head_dir()?.clone_into(&mut options.head_dir);
        options.git_dir = Some(layout.git_dir.clone());
        // Git begins reflogs where there are working trees, unless its configuration says otherwise.
        let updates = layout.config.get("core.logallrefupdates");
        options.all_reflogs = updates.is_some_and(|value| value.eq_ignore_ascii_case(b"always"));
        options.reflogs &= match updates {
            Some(_) => options.all_reflogs || layout.config.bool("core.logallrefupdates").unwrap_or(true),
            None => !layout.is_bare(),
        };
        options.boot = options.boot.or_else(boot_id);
        options.ignore_case = layout.ignores_case();
        options.precious_objects |= layout.config.bool("extensions.preciousObjects") == Some(true);
        let reason = layout.read_only_reason().filter(|_| !options.read_only);
        options.read_only |= reason.is_some();
        let odb = || Odb::open_path(layout);
        Self::open_with(layout.storage(), options, reason.into_iter().collect(), odb)
    }

    fn open_with(
        storage: Arc<dyn Storage>,
        options: GitOptions,
        notes: Vec<String>,
        odb: impl FnOnce() -> Result<Odb>,
    ) -> Result<Self> {
        let files = Files::new(storage);
        if files.stat("objects")?.is_none() {
            return Err(Error::NoStore { file: files.describe("") });
        }
        let worker = maintenance::worker(&options);
        Ok(Self { repository: OpenRepository::open(files, options, worker, notes, odb)? })
    }

    /// Returns the objects.
    #[must_use]
    pub fn odb(&self) -> &Odb {
        &self.repository.odb
    }

    /// Returns the refs as Git keeps them.
    #[must_use]
    pub fn refs(&self) -> &Refs {
        &self.repository.refs
    }

    /// Returns how the repository is used.
    #[must_use]
    pub fn options(&self) -> &GitOptions {
        &self.repository.options
    }

    /// Returns what Git's own `HEAD` names: a branch, which need not exist, or an object.
    ///
    /// # Errors
    /// [`Error::Corrupt`]; [`Error::Io`].
    pub fn git_head(&self) -> Result<Option<RefTarget>> {
        self.repository.refs.get("HEAD")
    }

    /// Lists all refs but those that make no sense, which `damage` hears of.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn sound_refs(&self, damage: &mut dyn FnMut(Damage)) -> Result<BTreeMap<String, RefTarget>> {
        self.repository.list_sound("", &mut |error| match error {
            Error::Corrupt { file, offset, oid, reason } => {
                damage(Damage { file, offset, oid, reason });
                Ok(())
            }
            error => Err(error),
        })
    }

    /// Returns what a user should know of what was found when the repository was opened, a sentence each.
    pub fn notes(&self) -> impl Iterator<Item = &str> {
        self.repository.notes.iter().map(String::as_str)
    }

    /// Repacks all packs of this repository into one, but for those that say that they stay as they are. Where
    /// [`GitOptions::precious_objects`] is set all stay, as with `git gc`.
    ///
    /// # Errors
    /// [`Error::Corrupt`]; [`Error::ReadOnly`], [`Error::Io`].
    pub fn repack_all(&self) -> Result<()> {
        self.repository.repack_all()
    }

    /// Makes everything durable and ends the threads. Dropping the backend does the same, as far as it can.
    ///
    /// # Errors
    /// As [`Backend::flush`].
    pub fn close(&self) -> Result<()> {
        let repository = &self.repository;
        // Threads, locks and what is to be tidied up are those of the process that opened the repository.
        if repository.store_lock.refuse_child().is_err() {
            return Ok(());
        }
        repository.worker.stop();
        let flushed = repository.flush();
        // Many short runs leave as many packs as a long one.
        if flushed.is_ok() && repository.wants_repack() {
            repository.repack_some();
        }
        // What no ref led to until now has no protection any more, as in any Git.
        let kept = lock(&repository.writer).kept.take();
        repository.end_kept(kept)?;
        repository.keeps.close();
        if !repository.options.read_only {
            repository.refs.empty_trash(usize::MAX)?;
        }
        flushed
    }

    /// Gives up, in a process that is about to end while other threads are at work. A move of a ref that has begun ends first,
    /// so that no lock stays, unless it waits for another process or takes longer than a second; whatever would begin later
    /// fails. What no ref leads to has no protection any more, as in any Git.
    ///
    /// # Errors
    /// [`Error::Usage`] in a child of the process that opened the repository; [`Error::Io`].
    pub fn abandon(&self) -> Result<()> {
        let repository = &self.repository;
        repository.store_lock.refuse_child()?;
        // Looked at once the lock is there: a move that runs goes on, and none begins behind it.
        let _ = repository.poison.set("the process ends");
        let until = Instant::now() + ABANDON_WAIT;
        let kept = loop {
            match repository.writer.try_lock() {
                Err(TryLockError::WouldBlock) if Instant::now() < until => thread::sleep(ABANDON_PAUSE),
                Err(TryLockError::WouldBlock) => return Ok(()),
                Ok(mut writer) => break writer.kept.take(),
                Err(TryLockError::Poisoned(_)) => return Ok(()),
            }
        };
        repository.end_kept(kept)?;
        repository.keeps.close();
        Ok(())
    }
}

impl Drop for GitBackend {
    fn drop(&mut self) {
        // A caller that wants to know calls `close`.
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
struct GitSnapshot(Arc<OpenRepository>);

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
            retention: false,
            git: Some(self.repository.options.algorithm),
        }
    }

    fn snapshot(&self, _: &[Oid]) -> Arc<dyn Snapshot> {
        Arc::new(GitSnapshot(self.repository.clone()))
    }

    fn read(&self, at: &ObjRef) -> Result<Option<Object<'static>>> {
        Ok(self.repository.read(&at.oid)?.map(Object::into_static))
    }

    fn append(&self, batch: Batch, moves: &[RefMove], durability: Durability) -> Result<Location> {
        let mut outcomes = self.append_many(vec![(batch, moves.to_vec())], durability);
        outcomes.pop().unwrap_or(Ok(Location::NONE))
    }

    fn append_many(&self, batches: Vec<(Batch, Vec<RefMove>)>, durability: Durability) -> Vec<Result<Location>> {
        let outcomes = self.repository.append(CallerAppends { appends: batches, durability });
        outcomes.into_iter().map(|outcome| outcome.map(|()| Location::NONE)).collect()
    }

    fn get_ref(&self, name: &str) -> Result<Option<RefTarget>> {
        self.repository.get_ref(name)
    }

    fn list_refs(&self, prefix: &str) -> Result<BTreeMap<String, RefTarget>> {
        self.repository.list_refs(prefix)
    }

    fn shallow(&self) -> Result<BTreeSet<Oid>> {
        let repository = &self.repository;
        let found = ShallowFile::read(&repository.files, repository.options.algorithm)?;
        Ok(found.commits.into_iter().collect())
    }

    fn promised_to(&self) -> Result<Option<String>> {
        let partial = !self.odb().promisor_packs()?.is_empty();
        Ok(partial.then(|| self.repository.files.describe("")))
    }

    fn flush(&self) -> Result<()> {
        self.repository.flush()
    }

    fn each_object(
        &self,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<(), Error>,
        damage: &mut dyn FnMut(Damage),
    ) -> Result<()> {
        self.repository.each_object(each, damage)
    }

    fn each_with_prefix(
        &self,
        prefix: &OidPrefix,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<(), Error>,
    ) -> Result<()> {
        let repository = &self.repository;
        repository.odb.each_with_prefix(prefix, &mut |oid| repository.object(&oid, each, &mut |_| ()))
    }

    /// Drops what is kept in memory, but for what may be borrowed: records that were read again and again stay.
    fn clear_caches(&self) {
        self.repository.records.clear();
    }

    fn stats(&self) -> BackendStats {
        self.repository.stats()
    }

    fn read_derived(&self, name: &str) -> Result<Option<Vec<u8>>> {
        self.repository.derived.read(name)
    }

    fn write_derived(&self, name: &str, bytes: &[u8]) -> Result<()> {
        if self.repository.options.read_only {
            return Err(Error::ReadOnly);
        }
        self.repository.derived.write(name, bytes)
    }
}
