//! The contract of a backend: objects by id, refs by name.
//!
//! A backend takes whole [`Batch`]es of objects together with moves of refs, and gives objects back by id,
//! with an optional hint where they are. It knows nothing of trees. `bristlecone-testkit` proves an
//! implementation with its conformance suite.
//!
//! **Law.** `append` with ref moves happens wholly or not at all ([`Capabilities::atomic_commits`] says whether a
//! crash keeps that too), and is linearisable: two appends that expect the same old value of a ref cannot
//! both succeed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use bristlecone_core::{Location, ObjRef, Object, Oid, git, record_length};

use crate::Error;

mod arena;
mod batch;
mod layered;
mod memory;
mod wrap;

pub use batch::{Batch, BatchRecord};
pub use layered::Layered;
pub use memory::MemoryBackend;
pub use wrap::{Counted, Counts, ReadOnly};

/// Refs whose names start with this, and end with the id of a commit, say that the commit's parents were never fetched.
pub const SHALLOW: &str = "shallow/";

/// Keeps objects and refs.
pub trait Backend: Send + Sync + fmt::Debug {
    /// Returns what this backend can promise.
    fn capabilities(&self) -> Capabilities;

    /// Reads one object, by its hint where that leads to the right id, else by its id.
    /// `Ok(None)` if there is none.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is damaged; [`Error::Io`].
    fn read(&self, at: &ObjRef) -> Result<Option<Object<'_>>, Error>;

    /// Returns the record of an object that is where the hint says and can be borrowed without a lock, checked;
    /// `None` in any other case. The fast way of [`Backend::read`], which answers for the rest.
    fn peek(&self, oid: &[u8], at: Location) -> Option<&[u8]> {
        let _ = (oid, at);
        None
    }

    /// Reads many objects; slow media overlap the waits. The answers are in the order of the questions.
    ///
    /// There may be fewer answers than questions, but not none: they end behind the object with which they hold `bytes_max`
    /// bytes or more, and before one that cannot be read.
    ///
    /// # Errors
    /// As [`Backend::read`], for the first one.
    fn read_many(&self, at: &[ObjRef], bytes_max: usize) -> Result<Vec<Option<Object<'_>>>, Error> {
        let (mut found, mut bytes) = (Vec::with_capacity(at.len()), 0);
        for at in at {
            match self.read(at) {
                Ok(object) => {
                    bytes += object.as_ref().map_or(0, Object::read_bytes);
                    found.push(object);
                }
                Err(error) if found.is_empty() => return Err(error),
                Err(_) => break,
            }
            if bytes >= bytes_max {
                break;
            }
        }
        Ok(found)
    }

    /// Returns where the object with this id is, if that is known without reading: it need not be complete.
    fn locate(&self, oid: &Oid) -> Option<Location>;

    /// Adds the batch's objects and moves the refs, all in one step.
    ///
    /// Returns the location of the batch's first byte, from which pending locations resolve.
    ///
    /// # Errors
    /// [`Error::Conflict`] if a ref is not what its move expects: nothing is then added. [`Error::Locked`],
    /// [`Error::ReadOnly`], [`Error::NoSpace`], [`Error::Io`]; then no ref has moved. [`Error::Poisoned`]
    /// after a failed sync, until the store is opened again.
    fn append(&self, batch: Batch, moves: &[RefMove], durability: Durability) -> Result<Location, Error>;

    /// Appends a batch without moving a ref, acknowledged after the append, and leaves the batch empty; on an
    /// error the batch stays as it is, so that nothing in it is lost.
    ///
    /// # Errors
    /// As [`Backend::append`].
    fn append_keeping(&self, batch: &mut Batch) -> Result<(), Error> {
        self.append(batch.clone(), &[], Durability::None)?;
        batch.clear();
        Ok(())
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
    /// The backend's name, as the command line writes it.
    pub name: &'static str,
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
    /// The unhashed words of objects are kept.
    pub words: bool,
    /// Objects are Git's, with ids of this algorithm, and refs are named as Git names them: nothing else can be kept.
    pub git: Option<git::Algorithm>,
}

/// When an append is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, PartialOrd, Ord)]
pub enum Durability {
    /// After the append: survives the process, not a power cut.
    None,
    /// After the append, and synced within 10 ms.
    Grouped,
    /// After the sync: survives a power cut.
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

/// What a ref holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefTarget {
    /// An object, usually a commit.
    Object(ObjRef),
    /// The name of another ref.
    Symbolic(String),
}

/// What a ref must hold for a move to happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Anything.
    Any,
    /// Nothing: the ref must not exist.
    Absent,
    /// Just this.
    Is(RefTarget),
}

/// One move of one ref.
#[derive(Clone, Debug, PartialEq, Eq)]
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
/// [`Error::Conflict`] naming the first ref that is not as expected; [`Error::RefName`] for a name that is none.
pub fn check_moves<'a>(moves: &[RefMove], current: impl Fn(&str) -> Option<&'a RefTarget>) -> Result<(), Error> {
    for (index, wanted) in moves.iter().enumerate() {
        if wanted.name.is_empty() || wanted.name.len() > RefMove::NAME_BYTES_MAX || wanted.name.contains('\0') {
            return Err(Error::RefName { name: wanted.name.clone() });
        }
        if moves[..index].iter().any(|earlier| earlier.name == wanted.name) {
            return Err(Error::RefName { name: wanted.name.clone() });
        }
        let found = current(&wanted.name);
        if !wanted.allows(found) {
            return Err(Error::Conflict { name: wanted.name.clone(), found: found.cloned() });
        }
    }
    Ok(())
}

/// Returns the bytes of the record at the start of `bytes` if it is that of `oid`. Its checksum is not checked.
#[inline(always)]
pub(crate) fn peek_record<'a>(bytes: &'a [u8], oid: &[u8]) -> Option<&'a [u8]> {
    let header = bytes.first_chunk::<{ bristlecone_core::RECORD_HEADER_BYTES }>()?;
    if usize::from(header[13]) != oid.len() {
        return None;
    }
    // Ids of 32 bytes, which is nearly all, are compared without a call.
    let same = match (header[16..].first_chunk::<32>(), oid.first_chunk::<32>()) {
        (Some(found), Some(wanted)) => same_id(found, wanted),
        _ => header.get(16..16 + oid.len()) == Some(oid),
    };
    let length = record_length(header);
    if same && length <= bytes.len() as u64 { bytes.get(..length as usize) } else { None }
}

#[inline(always)]
fn same_id(one: &[u8; 32], other: &[u8; 32]) -> bool {
    let word = |id: &[u8; 32], at: usize| id[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    let differs = |at: usize| word(one, at) ^ word(other, at);
    differs(0) | differs(8) | differs(16) | differs(24) == 0
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
