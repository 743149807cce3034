//! What the backend and its threads share.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering::*},
    },
};

use bristlecone::{
    BackendStats, Bytes, Damage, Error, Kind, Object, Oid, RefTarget, Result,
    core::{FormatError, RECORD_HEADER_BYTES, git, write_record},
    engine::{Derived, Poison, StoreLock, Worker},
    report,
    storage::Reach,
};

use super::{
    append_group::AppendQueue,
    cache::{Recent, Records},
    foreign::SettledValues,
    journal::{Journal, OURS},
    keep::{self, Keeps},
    kept::KeptPacks,
    options::GitOptions,
    pack_files, recovery,
    unsynced::OpenFiles,
};
use crate::repository::{
    files::{DAY, Files},
    mutex::lock,
    odb::Odb,
    refs::{Damaged, LockWait, LogRules, MoveRules, Refs, STORE_HEAD},
};

/// The jobs of the worker, in their order: a sync was promised within a time.
pub(super) const FLUSH: usize = 0;
pub(super) const REPACK: usize = FLUSH + 1;
pub(super) const TRASH: usize = REPACK + 1;
pub(super) const JOBS: usize = TRASH + 1;

const LOCK: &str = "bristlecone/lock";
const REPACK_LOCK: &str = "bristlecone/fold.lock";
/// The folder of derived files.
const DERIVED: &str = "bristlecone/derived";

/// Everything of an open repository.
#[derive(Debug)]
pub(super) struct OpenRepository {
    pub(super) files: Files,
    pub(super) derived: Derived,
    pub(super) options: GitOptions,
    /// The process of ours that moves refs holds it; Git does not know it. The first write makes the file and opens it.
    pub(super) store_lock: StoreLock,
    pub(super) odb: Odb,
    pub(super) refs: Refs,
    pub(super) rules: MoveRules,
    pub(super) records: Records,
    pub(super) recent: Recent,
    pub(super) queue: AppendQueue,
    pub(super) worker: Worker<Self, JOBS>,
    pub(super) keeps: Keeps,
    pub(super) open_files: OpenFiles,
    /// What a user should know of what was found at the opening.
    pub(super) notes: Vec<String>,
    /// What only one thread at a time does.
    pub(super) writer: Mutex<Writer>,
    pub(super) poison: Poison,
    pub(super) counters: Counters,
    /// Threads that wait for the writer.
    pub(super) waiting: AtomicUsize,
    /// The process that repacks holds it.
    pub(super) repack_lock: StoreLock,
}

/// What is needed to write.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) journal: Journal,
    /// Values of refs that this process moved refs to, or made durable.
    pub(super) settled: SettledValues,
    /// What protects packs of which no ref knows yet.
    pub(super) kept: KeptPacks,
}

/// What was done since the backend was opened.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) writes: AtomicU64,
    pub(super) batches: AtomicU64,
    /// Packs that were written since the last repack.
    pub(super) new_packs: AtomicU64,
}

impl OpenRepository {
    /// Opens a repository: first what a crash left is set right, then its objects, which `odb` opens, are there.
    pub(super) fn open(
        files: Files,
        options: GitOptions,
        worker: Worker<Self, JOBS>,
        mut notes: Vec<String>,
        odb: impl FnOnce() -> Result<Odb>,
    ) -> Result<Arc<Self>> {
        let refs = Refs::with_files(files.clone(), options.algorithm, &options.head_dir);
        let refs = refs.with_git_dir(options.git_dir.clone()).with_ignore_case(options.ignore_case);
        let wait = LockWait { held_ms: options.lock_wait_ms };
        let log = LogRules { begin: options.reflogs, all: options.all_reflogs, who: options.committer.clone() };
        let rules = MoveRules { wait, log };
        let journal = Journal::new(files.clone(), options.boot.clone());
        let mut writer = Writer { journal, settled: SettledValues::default(), kept: KeptPacks::default() };
        let store_lock = StoreLock::new(files.storage().clone(), LOCK, options.lock_wait_ms);
        // A process that finds another one repacking has nothing to do.
        let repack_lock = StoreLock::new(files.storage().clone(), REPACK_LOCK, 0);
        // Without our folder no process of ours wrote here.
        let ours = !options.read_only && files.stat(OURS)?.is_some();
        let guard = if ours { Some(store_lock.take()?) } else { None };
        let journal = &mut writer.journal;
        let mut recovery = None;
        if ours {
            journal.refresh()?;
            let left = keep::sweep(&files)?;
            if left > 0 {
                notes.push(left_note(&files, left));
            }
            refs.sweep()?;
            let lost_power = journal.is_dirty() && (options.boot.is_none() || journal.now().boot != options.boot);
            if lost_power && files.reach() == Reach::Unknown && !journal.is_older(DAY)? {
                notes.push(put_off_note(&files));
            } else if lost_power {
                recovery = Some(recovery::Recovery::of_packs(&files, options.algorithm, journal.now())?);
            }
        }
        let odb = odb()?;
        if let Some(recovery) = recovery {
            recovery.finish(&files, &odb, &refs, &rules, journal)?;
        }
        drop(guard);
        let keeps = Keeps::new(files.clone());
        let shared = Arc::new(Self {
            records: Records::new(options.cache_bytes),
            recent: Recent::new(),
            derived: Derived::new(files.storage().clone(), DERIVED),
            files,
            options,
            store_lock,
            odb,
            refs,
            rules,
            queue: AppendQueue::default(),
            worker,
            keeps,
            open_files: OpenFiles::default(),
            notes,
            writer: Mutex::new(writer),
            poison: Poison::default(),
            counters: Counters::default(),
            waiting: AtomicUsize::new(0),
            repack_lock,
        });
        if ours {
            shared.derived.remove_abandoned();
        }
        shared.worker.serve(&shared);
        Ok(shared)
    }

    /// Calls `work` with the store's lock held and the journal known.
    pub(super) fn locked<R>(&self, work: impl FnOnce(&mut Writer) -> Result<R>) -> Result<R> {
        if self.options.read_only {
            return Err(Error::ReadOnly);
        }
        self.store_lock.refuse_child()?;
        self.waiting.fetch_add(1, Relaxed);
        let mut writer = lock(&self.writer);
        self.waiting.fetch_sub(1, Relaxed);
        self.poison.check()?;
        let _guard = self.store_lock.take()?;
        writer.journal.refresh()?;
        work(&mut writer)
    }

    /// Reads an object, from memory or from the repository.
    pub(super) fn read(&self, oid: &Oid) -> Result<Option<Object<'_>>> {
        if let Some(object) = self.records.get(oid) {
            return Ok(Some(object));
        }
        if oid.as_bytes().len() != self.options.algorithm.oid_bytes() {
            return Ok(None);
        }
        let Some((kind, body)) = self.read_body(oid)? else { return Ok(None) };
        let mut record = Vec::new();
        write_record(&mut record, kind, oid, &body, &[], &[]);
        record.truncate(RECORD_HEADER_BYTES + body.len());
        Ok(self.records.keep_read(*oid, record))
    }

    /// Reads the kind and the stored body of an object from the repository.
    fn read_body(&self, oid: &Oid) -> Result<Option<(Kind, Vec<u8>)>> {
        let mut raw = Vec::new();
        let Some(kind) = self.odb.read(oid, &mut raw)? else { return Ok(None) };
        if kind != Kind::Node {
            return Ok(Some((kind, raw)));
        }
        let mut body = Vec::new();
        match git::tree_body(self.options.algorithm, &raw, &mut body) {
            Ok(()) => Ok(Some((kind, body))),
            Err(source) => Err(Error::BadObject { oid: *oid, source: FormatError::Decode { kind, source } }),
        }
    }

    /// Calls `each` for every object; damaged ones are reported to `damage`.
    pub(super) fn each_object(
        &self,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<()>,
        damage: &mut dyn FnMut(Damage),
    ) -> Result<()> {
        self.odb.each_oid(&mut |oid| self.object(&oid, each, damage))
    }

    /// Calls `each` for an object, unless it is damaged, which is reported to `damage`.
    pub(super) fn object(
        &self,
        oid: &Oid,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<()>,
        damage: &mut dyn FnMut(Damage),
    ) -> Result<()> {
        let (file, offset, reason) = match self.read_body(oid) {
            Ok(Some((kind, body))) => {
                return each(*oid, &Object::from_body(kind, Bytes::from(Arc::<[u8]>::from(body))));
            }
            // Another process repacked or removed it meanwhile.
            Ok(None) => return Ok(()),
            Err(Error::Corrupt { file, offset, reason, .. }) => (file, offset, reason),
            Err(error @ Error::BadObject { .. }) => (self.files.describe("objects"), 0, report(&error)),
            Err(error) => return Err(error),
        };
        damage(Damage { file, offset, oid: Some(*oid), reason });
        Ok(())
    }

    /// Returns counters and sizes.
    pub(super) fn stats(&self) -> BackendStats {
        let counts = self.files.counts();
        let mut bytes = 0;
        for name in self.files.list(pack_files::PACKS).unwrap_or_default() {
            let stat = self.files.stat(&format!("{}/{name}", pack_files::PACKS));
            bytes += stat.ok().flatten().map_or(0, |stat| stat.bytes);
        }
        for dir in self.files.list("objects").unwrap_or_default().iter().filter(|name| name.len() == 2) {
            for name in self.files.list(&format!("objects/{dir}")).unwrap_or_default() {
                let stat = self.files.stat(&format!("objects/{dir}/{name}"));
                bytes += stat.ok().flatten().map_or(0, |stat| stat.bytes);
            }
        }
        BackendStats {
            bytes_written: counts.bytes.load(Relaxed),
            writes: self.counters.writes.load(Relaxed),
            syncs: counts.syncs.load(Relaxed),
            batches: self.counters.batches.load(Relaxed),
            store_bytes: bytes,
            file_bytes: bytes,
            memory_bytes: self.records.bytes(),
            mapped_bytes: 0,
            // `git gc` counts that itself.
            reclaimable_bytes: 0,
        }
    }

    /// Returns what a ref holds, or the store's own HEAD.
    pub(super) fn get_ref(&self, name: &str) -> Result<Option<RefTarget>> {
        if name == STORE_HEAD {
            return self.refs.store_head();
        }
        // What cannot be the name of a ref is not there.
        match self.refs.get(name) {
            Err(Error::RefName { .. }) => Ok(None),
            got => got,
        }
    }

    pub(super) fn list_refs(&self, prefix: &str) -> Result<BTreeMap<String, RefTarget>> {
        self.list_sound(prefix, &mut Err)
    }

    /// As [`OpenRepository::list_refs`], and as [`Refs::list_sound`].
    pub(super) fn list_sound(&self, prefix: &str, damaged: &mut Damaged<'_>) -> Result<BTreeMap<String, RefTarget>> {
        let mut refs = self.refs.list_sound(prefix, damaged)?;
        if STORE_HEAD.starts_with(prefix) {
            match self.refs.store_head() {
                Ok(target) => refs.extend(target.map(|target| (STORE_HEAD.to_owned(), target))),
                Err(error) => damaged(error)?,
            }
        }
        Ok(refs)
    }
}

/// Says that files stay which a process on another machine may need.
fn left_note(files: &Files, count: usize) -> String {
    format!(
        "{}: the file system does not say whether other machines see our locks, so {count} unfinished {} left where a \
         writer elsewhere may need them; what is older than a day is removed",
        files.describe(pack_files::PACKS),
        if count == 1 { "pack is" } else { "packs are" }
    )
}

/// Says that a recovery waits.
fn put_off_note(files: &Files) -> String {
    format!(
        "{}: another machine was writing here, or this one lost its power; the file system does not say whether other \
         machines see our locks, so nothing is set right before a day without a write",
        files.describe(OURS)
    )
}
