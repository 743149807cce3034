//! The contract of a backend: objects by id, refs by name.
//!
//! A backend takes whole [`Batch`]es of objects together with moves of refs, and gives objects back by id,
//! with an optional hint where they are, through a [`Snapshot`]. It knows nothing of trees. `bristlecone-testkit` proves an
//! implementation with its conformance suite.
//!
//! **Law.** `append` with ref moves happens wholly or not at all ([`Capabilities::atomic_commits`] says whether a
//! crash keeps that too), and is linearisable: two appends that expect the same old value of a ref cannot
//! both succeed.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fmt,
    sync::Arc,
};

use bristlecone_core::{Algorithm, CommitId, Location, ObjRef, Object, Oid, OidPrefix, RecordHeader, TagId};

use crate::Error;

mod absent;
mod arena;
mod batch;
mod cached;
mod counts;
mod gather;
mod layered;
mod memory;
mod pass;
mod pins;
mod reached;
mod retention;
mod snapshot;
mod sweep;
mod sweep_list;
mod wrap;

pub use absent::{AbsentCommit, AbsentCommits, AbsentReason, Cut, CutSize, absent_commits};
pub(crate) use absent::{DroppedCommit, Keeping, MissingFrom, all_absent};
pub(crate) use batch::Absorbed;
pub use batch::{Batch, BatchRecord};
pub use cached::{CacheStats, Cached};
pub use counts::{Counts, Latencies};
pub use layered::Layered;
pub use memory::MemoryBackend;
pub use pins::{Pin, Pins};
pub use reached::Reached;
pub use retention::{Keep, Retention};
pub use snapshot::{Position, Snapshot};
pub(crate) use sweep::TOLD_EVERY;
pub use sweep::{CutRules, ObjectChildren, Roots, SweepDue, SweepLimits, SweepStatus, SweepStep, SweepWatch, Swept};
pub use sweep_list::SweepList;
pub use wrap::{Counted, ReadOnly};

/// Refs whose names start with this, and end with the id of a commit, say that the commit's parents were never fetched.
pub const SHALLOW: &str = "shallow/";

/// A ref of this name says that commits came to be here behind ones that were here before: so the generation numbers that commits
/// carry may be too small, and nobody believes them. It is symbolic, and leads nowhere.
pub const DEEPENED: &str = "shallow/deepened";

/// Keeps objects and refs.
pub trait Backend: Send + Sync + fmt::Debug {
    /// Returns the backend's name, as people and the command line write it.
    fn name(&self) -> &'static str;

    /// Returns what this backend can promise.
    fn capabilities(&self) -> Capabilities;

    /// Returns what can be read from now on, for as long as the snapshot is held; `roots` stay with all below them, too.
    ///
    /// Costs no system call: other processes learn of this process's snapshots when it opens the store.
    fn snapshot(&self, roots: &[Oid]) -> Arc<dyn Snapshot>;

    /// Reads one object, copied. A caller that reads many takes a [`Backend::snapshot`] and borrows from it.
    ///
    /// # Errors
    /// As [`Snapshot::read`].
    fn read(&self, at: &ObjRef) -> Result<Option<Object<'static>>, Error> {
        Ok(self.snapshot(&[]).read(at)?.map(Object::into_static))
    }

    /// As [`Snapshot::locate`], now.
    fn locate(&self, oid: &Oid) -> Option<Location> {
        self.snapshot(&[]).locate(oid)
    }

    /// Returns the position of the last move of a ref: a total order of all moves, of which a later one has a higher
    /// position. `None` where the backend has none ([`Capabilities::positions`]).
    ///
    /// While the position stays, so do all refs, whichever process moves them: [`crate::Branch::tree`] reads none anew then.
    ///
    /// # Errors
    /// As [`Backend::get_ref`].
    fn position(&self) -> Result<Option<Position>, Error> {
        Ok(None)
    }

    /// Returns how many sweeps have begun, for [`Batch::leave_out`]; 0 where nothing is ever swept.
    fn sweeps(&self) -> u64 {
        0
    }

    /// Drops objects that nothing leads to: no ref, no snapshot, and none of `roots`; of these at most as many as `limits`
    /// say. Dropped objects are not found any more, except by the snapshots that show them.
    ///
    /// # Errors
    /// [`Error::Usage`] where the backend cannot ([`Capabilities::sweep`]); what reading meets, before anything is dropped, unless
    /// it came after something was; [`Error::ReadOnly`], [`Error::Io`].
    fn sweep(&self, roots: &Roots<'_>, limits: &SweepLimits) -> Result<Swept, Error> {
        let _ = (roots, limits);
        Err(Error::Usage { reason: "this backend drops nothing" })
    }

    /// Returns whether a sweep is due, which a repository then begins by itself. Costs next to nothing.
    fn sweep_due(&self) -> SweepDue {
        SweepDue::No
    }

    /// Adds the batch's objects and moves the refs, all in one step.
    ///
    /// Returns the location of the batch's first byte, from which pending locations resolve.
    ///
    /// # Errors
    /// [`Error::RefMoved`] if a ref is not what its move expects: nothing is then added. [`Error::Locked`],
    /// [`Error::ReadOnly`], [`Error::NoSpace`], [`Error::Io`], and [`Error::TooLarge`] beyond [`Batch::BYTES_MAX`]; then no ref has
    /// moved. [`Error::Poisoned`] after a failed sync, until the store is opened again. [`Error::Gone`] if a sweep
    /// dropped objects that the batch left out, or that a ref is to lead to, as [`Batch::needed`] lists them: nothing is then added.
    fn append(&self, batch: Batch, moves: &[RefMove], durability: Durability) -> Result<Location, Error>;

    /// Appends a batch without moving a ref, acknowledged after the append, and leaves the batch empty; on an
    /// error the batch stays as it is, so that nothing in it is lost. Returns what [`Backend::append`] does.
    ///
    /// # Errors
    /// As [`Backend::append`].
    fn append_keeping(&self, batch: &mut Batch) -> Result<Location, Error> {
        let base = self.append(batch.clone(), &[], Durability::None)?;
        batch.clear();
        Ok(base)
    }

    /// Appends many batches, each with its own ref moves and on its own terms, sharing writes and syncs where
    /// the backend can. The answers are in the order of the batches.
    fn append_many(&self, batches: Vec<(Batch, Vec<RefMove>)>, durability: Durability) -> Vec<Result<Location, Error>> {
        batches.into_iter().map(|(batch, moves)| self.append(batch, &moves, durability)).collect()
    }

    /// Returns what a ref holds now, as other processes see it too.
    ///
    /// # Errors
    /// [`Error::Corrupt`]; [`Error::Io`].
    fn get_ref(&self, name: &str) -> Result<Option<RefTarget>, Error>;

    /// Returns the refs whose names start with `prefix`, in order of names.
    ///
    /// # Errors
    /// As [`Backend::get_ref`].
    fn list_refs(&self, prefix: &str) -> Result<BTreeMap<String, RefTarget>, Error>;

    /// Returns the commits whose parents are absent on purpose, since they were never fetched. History ends with them.
    ///
    /// # Errors
    /// As [`Backend::get_ref`].
    fn shallow(&self) -> Result<BTreeSet<Oid>, Error> {
        let refs = self.list_refs(SHALLOW)?;
        Ok(refs.keys().filter_map(|name| name[SHALLOW.len()..].parse().ok()).collect())
    }

    /// Returns the commits that something here names and that retention has cut, as the last sweep left them.
    ///
    /// # Errors
    /// As [`Backend::get_ref`].
    fn absent(&self) -> Result<Arc<AbsentCommits>, Error> {
        Ok(Arc::default())
    }

    /// Returns which commits the store keeps. Whoever knows the format follows these rules in a [`Backend::sweep`].
    ///
    /// # Errors
    /// As [`Backend::get_ref`]; [`Error::Usage`] for rules that this version does not know.
    fn retention(&self) -> Result<Retention, Error> {
        Ok(Retention::default())
    }

    /// Sets which commits the store keeps, durably, if it keeps those of `expected` until then; returns whether it does. `None`
    /// for whatever it keeps, by rules that this version does not know, too.
    ///
    /// # Errors
    /// [`Error::Usage`] where the backend cannot ([`Capabilities::retention`]), and for rules that do not come back from their
    /// text ([`Retention::set`]); those of [`Backend::append`].
    fn replace_retention(&self, expected: Option<&Retention>, retention: &Retention) -> Result<bool, Error> {
        let _ = (expected, retention);
        Err(Error::Usage { reason: "a store of this backend keeps all commits that refs lead to" })
    }

    /// Adds to what [`Backend::absent`] lists, durably: commits that a copy leaves out since they were cut where it comes from.
    ///
    /// # Errors
    /// [`Error::Usage`] where the backend cannot ([`Capabilities::retention`]); those of [`Backend::append`].
    fn note_absent(&self, absent: &AbsentCommits) -> Result<(), Error> {
        let reason = "its history was cut by retention, which a store of this backend cannot note; copy it to one of the disk engine";
        if absent.is_empty() { Ok(()) } else { Err(Error::Usage { reason }) }
    }

    /// Returns the folder of the store, if objects may be absent from it that the store which it was cloned from promised to
    /// give when they are needed.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn promised_to(&self) -> Result<Option<String>, Error> {
        Ok(None)
    }

    /// Makes everything that was appended so far durable.
    ///
    /// # Errors
    /// As [`Backend::append`].
    fn flush(&self) -> Result<(), Error>;

    /// Calls `each` for every object, in no order. Damaged ones are reported to `damage` and passed over.
    ///
    /// # Errors
    /// [`Error::Io`]; whatever `each` returns.
    fn each_object(
        &self,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<(), Error>,
        damage: &mut dyn FnMut(Damage),
    ) -> Result<(), Error>;

    /// Calls `each` for every object whose id begins with some digits, in no order, and for copies of it maybe again. Damaged
    /// ones are passed over. Unless a backend does better, every object is looked at.
    ///
    /// # Errors
    /// As [`Backend::each_object`].
    fn each_with_prefix(
        &self,
        prefix: &OidPrefix,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut each = |oid, object: &Object<'_>| if prefix.matches(&oid) { each(oid, object) } else { Ok(()) };
        self.each_object(&mut each, &mut |_| ())
    }

    /// Drops every object that is only kept to be found sooner.
    fn clear_caches(&self) {}

    /// Returns counters and sizes.
    fn stats(&self) -> BackendStats;

    /// Reads a derived file: a cache that may be lost at any time, such as an index of history.
    ///
    /// # Errors
    /// [`Error::Io`]. Damage is absence.
    fn read_derived(&self, name: &str) -> Result<Option<Vec<u8>>, Error>;

    /// Replaces a derived file. Not durable; a crash leaves the old one, the new one or none.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::ReadOnly`].
    fn write_derived(&self, name: &str, bytes: &[u8]) -> Result<(), Error>;
}

/// What a backend promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// What was appended is there after the process ends.
    pub persistent: bool,
    /// A crash keeps a batch and its ref moves together, or neither.
    pub atomic_commits: bool,
    /// Several refs can move in one step.
    pub several_refs: bool,
    /// Hints lead to objects without a search.
    pub locations: bool,
    /// Several processes can work on the store at a time.
    pub processes: bool,
    /// The metadata words of objects are kept.
    pub metadata_words: bool,
    /// Moves of refs have positions.
    pub positions: bool,
    /// What nothing leads to can be dropped.
    pub sweep: bool,
    /// Rules say which commits are kept, and a sweep drops the others.
    pub retention: bool,
    /// Objects are Git's, with ids of this algorithm, and refs are named as Git names them: nothing else can be kept.
    pub git: Option<Algorithm>,
}

/// When an append is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub enum Durability {
    /// After the append: survives the process, not a power cut.
    None,
    /// After the append, and synced within 10 ms, or what the options of the backend say (`grouped_ms`). Where that sync fails, a
    /// later append or flush says so.
    Grouped,
    /// After the sync: survives a power cut, with all that was appended before it.
    #[default]
    Synced,
}

impl Durability {
    /// Returns the name that rows and options use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Grouped => "grouped",
            Self::Synced => "synced",
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a ref holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RefTarget {
    /// An object, usually a commit.
    Object(ObjRef),
    /// The name of another ref.
    Symbolic(String),
}

impl From<CommitId> for RefTarget {
    fn from(id: CommitId) -> Self {
        Self::Object(id.into())
    }
}

impl From<TagId> for RefTarget {
    fn from(id: TagId) -> Self {
        Self::Object(id.into())
    }
}

/// What a ref must hold for a move to happen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Expected {
    /// Anything.
    Any,
    /// Nothing: the ref must not exist.
    Absent,
    /// Just this.
    Is(RefTarget),
}

/// One move of one ref.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RefMove {
    /// The ref's name, of at most 1,024 bytes.
    pub name: String,
    /// What it must hold.
    pub expected: Expected,
    /// What it holds from then on; `None` removes it. A pending location is one of the same batch.
    pub to: Option<RefTarget>,
}

impl RefMove {
    /// The longest name of a ref, in bytes.
    pub const NAME_BYTES_MAX: usize = 1024;

    /// Returns the move that goes before, or with, whatever lets history go on behind a commit that it ended with: [`DEEPENED`].
    #[must_use]
    pub fn deepened() -> Self {
        let to = Some(RefTarget::Symbolic(SHALLOW.to_owned()));
        Self { name: DEEPENED.to_owned(), expected: Expected::Any, to }
    }

    /// Whether the move may happen where the ref holds `current`.
    #[must_use]
    pub fn allows(&self, current: Option<&RefTarget>) -> bool {
        match &self.expected {
            Expected::Any => true,
            Expected::Absent => current.is_none(),
            Expected::Is(wanted) => current == Some(wanted),
        }
    }

    /// Returns what the ref holds once the batch begins at `base`.
    #[must_use]
    pub fn resolved(&self, base: Location) -> Option<RefTarget> {
        self.to.clone().map(|to| match to {
            RefTarget::Object(at) => RefTarget::Object(ObjRef::new(at.oid, at.at.resolve(base))),
            symbolic @ RefTarget::Symbolic(_) => symbolic,
        })
    }
}

/// Checks every move against the refs, as every backend must.
///
/// # Errors
/// [`Error::RefMoved`] naming the first ref that is not as expected; [`Error::RefName`] for a name that no ref can have.
pub fn check_moves<'a>(moves: &[RefMove], current: impl Fn(&str) -> Option<&'a RefTarget>) -> Result<(), Error> {
    let mut names = HashSet::new();
    for wanted in moves {
        if wanted.name.is_empty() || wanted.name.len() > RefMove::NAME_BYTES_MAX || wanted.name.contains('\0') {
            return Err(Error::RefName { name: wanted.name.clone() });
        }
        if moves.len() > 1 && !names.insert(&*wanted.name) {
            return Err(Error::RefName { name: wanted.name.clone() });
        }
        let found = current(&wanted.name);
        if !wanted.allows(found) {
            return Err(Error::RefMoved { name: wanted.name.clone(), found: found.cloned() });
        }
    }
    Ok(())
}

/// Returns the bytes of the record at the start of `bytes` if it is that of `oid`. Its checksum is not checked.
#[inline(always)]
pub(crate) fn peek_record<'a>(bytes: &'a [u8], oid: &[u8]) -> Option<&'a [u8]> {
    fetch_ahead(bytes);
    let header = RecordHeader::first(bytes)?;
    if header.is_of(oid) { bytes.get(..usize::try_from(header.bytes()).ok()?) } else { None }
}

/// Has the processor fetch the first kibibyte, most pieces of a directory whole.
///
/// A search in a piece reads a line of the cache here and there, and learns from each where the next one is. If none is in
/// the cache, it waits for each of them in turn. Nothing waits for these loads, so they are under way at once: lookups at
/// random in a directory of a million entries take two thirds of the time, and those that the cache answers up to 4 % more.
#[inline(always)]
fn fetch_ahead(bytes: &[u8]) {
    const LINE: usize = 64;
    if let Some(first) = bytes.first_chunk::<{ 16 * LINE }>() {
        let lines = first.iter().step_by(LINE);
        std::hint::black_box(lines.skip(1).fold(0, |all, byte| all ^ byte));
    }
}

/// Damage that a walk over all objects met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file, or whatever the backend keeps objects in.
    pub file: String,
    /// The offset in it, in bytes.
    pub offset: u64,
    /// The object, where that can still be told.
    pub oid: Option<Oid>,
    /// What is wrong.
    pub reason: String,
}

impl Damage {
    /// Returns the damage that an error tells of; another error as it is.
    pub(crate) fn of(error: Error) -> Result<Self, Error> {
        match error {
            Error::Corrupt { file, offset, oid, reason } => Ok(Self { file, offset, oid, reason }),
            error => Err(error),
        }
    }
}

/// Counters and sizes of a backend, since it was opened unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackendStats {
    /// Bytes appended, with all framing.
    pub bytes_written: u64,
    /// Appends that reached the medium (a group of commits is one).
    pub writes: u64,
    /// Syncs.
    pub syncs: u64,
    /// Batches appended.
    pub batches: u64,
    /// Bytes that the whole store takes, up to its tail; pre-allocated space beyond it left out.
    pub store_bytes: u64,
    /// Bytes in files, pre-allocated space included.
    pub file_bytes: u64,
    /// Bytes of memory in caches and indexes, maps left out.
    pub memory_bytes: u64,
    /// Bytes mapped.
    pub mapped_bytes: u64,
    /// Bytes in the store that nothing leads to: what operations appended that ended before a ref moved, over all
    /// processes. An estimate, in which operations that are under way are left out.
    pub reclaimable_bytes: u64,
}
