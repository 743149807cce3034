//! The errors of the store: the caller's mistakes, what was not found, damage, and the outside world.

use std::{error, fmt, io, sync::Arc};

use bristlecone_core::{FormatError, Kind, Oid, Path, PathError, escape};

use crate::backend::{AbsentReason, RefTarget};

/// What can go wrong with a store.
///
/// The text of an error says what it knows itself, and not what its cause says ([`std::error::Error::source`]).
/// [`report`](crate::report) says all of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    // The caller's mistakes.
    /// Text or bytes that are no path.
    Path(PathError),
    /// The root is a directory and cannot be a value.
    RootPath,
    /// A value was set where a directory is, without asking to replace it ([`crate::Tree::replace`]).
    IsDirectory {
        /// Where.
        path: Path,
    },
    /// What is at a key of a map is no value, but a directory or a foreign id; or at a path a foreign id.
    NotAValue {
        /// The key or path, as text.
        key: String,
    },
    /// The bytes of a key or value are none of its type.
    Codec {
        /// The key, as text.
        key: String,
        /// What is wrong.
        source: crate::CodecError,
    },
    /// A name that no ref can have, or a ref that is named twice in one step.
    RefName {
        /// The name.
        name: String,
    },
    /// A ref is not what the caller expected, since another writer moved it. Nothing was changed.
    RefMoved {
        /// The ref.
        name: String,
        /// What it holds.
        found: Option<RefTarget>,
    },
    /// A ref whose name is a folder of another's, or the other way round, where refs are files.
    RefClash {
        /// The ref.
        name: String,
        /// The other one.
        other: String,
    },
    /// A call that the store cannot carry out.
    Usage {
        /// Why not.
        reason: &'static str,
    },
    /// A call waits for a commit in flight, and no other thread makes it ([`crate::Tree::fork_for_commit`]).
    Uncommitted {
        /// How long the caller waited.
        waited_ms: u64,
        /// Whether a call on this very thread makes it, which did another job of a pool meanwhile, and goes on once that has ended.
        here: bool,
    },
    /// Changing what is open for reading only.
    ReadOnly,
    /// Something larger than the store can hold.
    TooLarge {
        /// What it is.
        what: &'static str,
        /// Its size.
        bytes: u64,
        /// The bound.
        bytes_max: u64,
    },
    /// A format that cannot do it.
    Format(FormatError),
    /// A store of another format or a newer version.
    Incompatible {
        /// The header file.
        file: String,
        /// What the store says.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// A store where one should be made.
    Exists {
        /// Where.
        file: String,
    },

    // Not found.
    /// There is no store at this place.
    NoStore {
        /// Where.
        file: String,
    },
    /// A ref that does not exist.
    NoRef {
        /// The name.
        name: String,
    },
    /// An object that should be there.
    Missing {
        /// Its kind.
        kind: Kind,
        /// Its id.
        oid: Oid,
    },
    /// An object that is absent on purpose: where the store was cloned from it will be given when it is needed.
    Promised {
        /// Its kind.
        kind: Kind,
        /// Its id.
        oid: Oid,
        /// The folder of the store.
        folder: String,
    },
    /// What a batch left out since the store had it, or what a ref was to lead to, was swept before the batch was appended.
    Gone {
        /// The objects.
        oids: Vec<Oid>,
    },
    /// What a snapshot reads was removed by a collection that did not know of the reader, or for which the reader was beyond the
    /// limit of snapshots.
    Expired {
        /// The file that is no longer there.
        file: String,
    },
    /// An object is not there on purpose.
    Absent {
        /// Its id.
        oid: Oid,
        /// Why.
        reason: AbsentReason,
    },
    /// A pruned tree was asked for what it lacks.
    Pruned {
        /// The object that it lacks.
        oid: Oid,
    },

    // Damage.
    /// An object of another kind than the one that names it says.
    WrongKind {
        /// The object.
        oid: Oid,
        /// What it is.
        found: Kind,
        /// What it should be.
        expected: Kind,
    },
    /// Bytes that are not what was written.
    Corrupt {
        /// The file.
        file: String,
        /// The offset in bytes.
        offset: u64,
        /// The object there, if that is known.
        oid: Option<Oid>,
        /// What is wrong.
        reason: String,
    },
    /// A file that a store cannot be without is missing, or ends before what was acknowledged.
    Lost {
        /// The file.
        file: String,
        /// What is missing, and what to do.
        reason: String,
    },
    /// An object whose bytes are sound and make no sense.
    BadObject {
        /// The object.
        oid: Oid,
        /// What is wrong.
        source: FormatError,
    },

    // The outside world.
    /// Another holder kept the lock too long.
    Locked {
        /// The lock file.
        file: String,
        /// The holder.
        holder: String,
        /// How long the caller waited.
        waited_ms: u64,
    },
    /// No space on the device.
    NoSpace {
        /// The file being written.
        file: String,
    },
    /// Less free space than an operation will need, found out before it began.
    NoRoom {
        /// The store.
        place: String,
        /// Bytes needed.
        bytes: u64,
        /// Bytes free.
        free: u64,
    },
    /// An earlier write or sync failed; what is on disk is unknown.
    Poisoned {
        /// The first failure.
        reason: String,
    },
    /// What watches the operation ended it; nothing was changed.
    Stopped,
    /// The thread that led the group of this append panicked: the append may have been made or not.
    Unanswered,
    /// The system failed.
    Io {
        /// The file.
        file: String,
        /// Why.
        source: Arc<io::Error>,
    },
    /// A backend failed in a way of its own.
    Backend {
        /// The store, or the part of it.
        place: String,
        /// Why.
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(error) => error.fmt(f),
            Self::RootPath => f.write_str("the root of a tree is a directory; name an entry in it"),
            Self::IsDirectory { path } => {
                write!(f, "{path} is a directory, and a value was set there; remove the directory, or replace it")
            }
            Self::NotAValue { key } => write!(
                f,
                "at \"{key}\" is a directory or a foreign id, not a value; read it through the tree, or remove it"
            ),
            Self::Codec { key, .. } => write!(f, "the entry at \"{key}\" is not of the map's types"),
            Self::RefName { name } => {
                write!(
                    f,
                    "\"{}\" cannot name a ref, or is named twice in one step: a name has 1 to 1024 bytes; none of its parts \
                     is empty, begins with a dot or ends with .lock; it has no space, control character, \"..\", \"@{{\" or any \
                     of ~^:?*[\\, and does not end with a dot",
                    escape(name.as_bytes())
                )
            }
            Self::RefMoved { name, .. } => {
                write!(f, "the ref {} has moved; read it again and retry", escape(name.as_bytes()))
            }
            Self::RefClash { name, other } => {
                let (name, other) = (escape(name.as_bytes()), escape(other.as_bytes()));
                write!(f, "the ref {name} cannot be made: {other} is in the way")
            }
            Self::Usage { reason } => f.write_str(reason),
            Self::Uncommitted { here: true, .. } => f.write_str(
                "this waits for the commit of a tree that `fork_for_commit` gave, and this thread is making it: within that \
                 commit it took up this job of its pool; repeat the call after the commit, or wait on a thread outside of \
                 the pool",
            ),
            Self::Uncommitted { waited_ms, here: false } => write!(
                f,
                "this waits for the commit of a tree that `fork_for_commit` gave, and in {waited_ms} ms no other \
                 thread was making it; commit or write that tree first, or on another thread"
            ),
            Self::ReadOnly => f.write_str("the store is open for reading only"),
            Self::TooLarge { what, bytes, bytes_max } => {
                write!(f, "{what} is too large: {bytes} bytes, at most {bytes_max}")
            }
            Self::Format(error) => error.fmt(f),
            Self::Incompatible { file, found, expected } => {
                write!(f, "{file}: this store has {found}, this program expects {expected}")
            }
            Self::Exists { file } => write!(f, "{file}: there is a store already"),
            Self::NoStore { file } => write!(f, "{file}: there is no store here; make one, or name another place"),
            Self::NoRef { name } => write!(f, "there is no ref {}", escape(name.as_bytes())),
            Self::Missing { kind, oid } => write!(f, "the {kind} object {oid} is missing from the store"),
            Self::Promised { kind, oid, folder } => {
                write!(f, "the {kind} object {oid} is not in {folder}, which is a clone without all objects")
            }
            Self::Gone { oids } => {
                let (count, first) = (oids.len(), oids.first().map(ToString::to_string).unwrap_or_default());
                write!(
                    f,
                    "{count} objects that were in the store have been swept, such as {first}; make the change again"
                )
            }
            Self::Expired { file } => write!(
                f,
                "a collection has removed {file}, by which this snapshot reads, since it is older than the store's limit of \
                 snapshots or this process could not say in the folder `readers` that it reads; take a new snapshot"
            ),
            Self::Absent { oid, reason: AbsentReason::Cut } => {
                write!(f, "{oid} is no longer in the store: its retention has cut this part of history")
            }
            Self::Pruned { oid } => write!(f, "this tree was pruned: it does not hold {oid}"),
            Self::WrongKind { oid, found, expected } => {
                write!(f, "object {oid} is of kind {found}, where {expected} is expected")
            }
            Self::Corrupt { file, offset, reason, .. } => write!(f, "{file} is damaged at byte {offset}: {reason}"),
            Self::Lost { file, reason } => write!(f, "{file}: {reason}"),
            Self::BadObject { oid, .. } => write!(f, "object {oid} is damaged"),
            Self::Locked { file, holder, waited_ms } => {
                write!(f, "{file} is locked by {holder}; waited {waited_ms} ms")
            }
            Self::NoSpace { file } => write!(f, "{file}: no space left on the device; nothing was committed"),
            Self::NoRoom { place, bytes, free } => {
                write!(f, "{place}: {bytes} bytes are needed and {free} are free; nothing was written")
            }
            Self::Stopped => f.write_str("the operation was stopped before its end; nothing was changed"),
            Self::Poisoned { reason } => {
                write!(f, "an earlier sync failed ({reason}); reopen the store to go on from what is on disk")
            }
            Self::Unanswered => f.write_str(
                "the thread that wrote for this one panicked; the commit may have been made or not: read the refs again",
            ),
            Self::Io { file, .. } => write!(f, "{file} cannot be read or written"),
            Self::Backend { place, .. } => write!(f, "{place} has failed"),
        }
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Path(error) => error.source(),
            Self::Format(error) => error.source(),
            Self::BadObject { source, .. } => Some(source),
            Self::Codec { source, .. } => Some(source),
            Self::Io { source, .. } => Some(&**source),
            Self::Backend { source, .. } => Some(&**source),
            _ => None,
        }
    }
}

/// Returns what an error says and what its causes say, in one line, each after a colon.
///
/// ```
/// # use bristlecone::{Error, report};
/// let error = Error::backend("the bucket", "no answer in 5 s");
/// assert_eq!(error.to_string(), "the bucket has failed");
/// assert_eq!(report(&error), "the bucket has failed: no answer in 5 s");
/// ```
#[must_use]
pub fn report(error: &(dyn error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

impl From<PathError> for Error {
    fn from(error: PathError) -> Self {
        Self::Path(error)
    }
}

impl From<FormatError> for Error {
    fn from(error: FormatError) -> Self {
        Self::Format(error)
    }
}

impl Error {
    /// Wraps the cause of a backend's failure that is not among those above: `place` says of what.
    pub fn backend(place: impl Into<String>, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Backend { place: place.into(), source: Arc::from(cause.into()) }
    }

    /// Wraps a failure of the system with the file's name; a full device is an error of its own.
    pub fn io(file: impl Into<String>, source: io::Error) -> Self {
        let file = file.into();
        if source.kind() == io::ErrorKind::StorageFull || source.kind() == io::ErrorKind::QuotaExceeded {
            return Self::NoSpace { file };
        }
        Self::Io { file, source: Arc::new(source) }
    }
}
