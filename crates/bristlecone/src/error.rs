//! The errors of the store: the caller's mistakes, what was not found, damage, and the outside world.

use std::{io, sync::Arc};

use bristlecone_core::{FormatError, Kind, Oid, PathError};
use thiserror::Error;

use crate::backend::RefTarget;

/// What can go wrong with a store.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum Error {
    // The caller's mistakes.
    /// Text or bytes that are no path.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The root is a directory and cannot be a value.
    #[error("the root of a tree is a directory; name an entry in it")]
    RootPath,
    /// A ref name that is none, or named twice in one step.
    #[error("\"{name}\" cannot be the name of a ref here: 1 to 1024 bytes, no NUL, each ref once in a step")]
    RefName {
        /// The name.
        name: String,
    },
    /// A ref is not what the caller expected: somebody else moved it.
    #[error("the ref {name} has moved; read it again and retry")]
    Conflict {
        /// The ref.
        name: String,
        /// What it holds.
        found: Option<RefTarget>,
    },
    /// A ref whose name is a folder of another's, or the other way round, where refs are files.
    #[error("the ref {name} cannot be made: {other} is in the way")]
    RefClash {
        /// The ref.
        name: String,
        /// The other one.
        other: String,
    },
    /// A call that makes no sense.
    #[error("{reason}")]
    Usage {
        /// Why not.
        reason: &'static str,
    },
    /// What a tree on its way to a commit gives is asked for, and nobody commits it ([`crate::Tree::ahead`]).
    #[error(
        "this waits for the commit of a tree that `ahead` gave, and in {waited_ms} ms no thread has begun it; commit or \
         write that tree first, or on another thread"
    )]
    Uncommitted {
        /// How long the caller waited.
        waited_ms: u64,
    },
    /// Changing what is open for reading only.
    #[error("the store is open for reading only")]
    ReadOnly,
    /// Something larger than the store can hold.
    #[error("{what} is too large: {bytes} bytes, at most {bytes_max}")]
    TooLarge {
        /// What it is.
        what: &'static str,
        /// Its size.
        bytes: u64,
        /// The bound.
        bytes_max: u64,
    },
    /// A format that cannot do it.
    #[error(transparent)]
    Format(FormatError),
    /// A store of another format or a newer version.
    #[error("{file}: this store has {found}, this program expects {expected}")]
    Incompatible {
        /// The header file.
        file: String,
        /// What the store says.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// A store where one should be made.
    #[error("{file}: there is a store already")]
    Exists {
        /// Where.
        file: String,
    },

    // Not found.
    /// No store where one was looked for.
    #[error("{file}: there is no store here; make one with `init`")]
    NoStore {
        /// Where.
        file: String,
    },
    /// A ref that does not exist.
    #[error("there is no ref {name}")]
    NoRef {
        /// The name.
        name: String,
    },
    /// An object that should be there.
    #[error("the {kind} object {oid} is missing from the store")]
    Missing {
        /// Its kind.
        kind: Kind,
        /// Its id.
        oid: Oid,
    },
    /// An object that is absent on purpose: where the store was cloned from it will be given when it is needed.
    #[error("the {kind} object {oid} is not in {folder}, which is a clone without all objects")]
    Promised {
        /// Its kind.
        kind: Kind,
        /// Its id.
        oid: Oid,
        /// The folder of the store.
        folder: String,
    },
    /// What a batch left out since the store had it was swept before the batch was appended.
    #[error("{} objects that were in the store have been swept, such as {}; make the change again", oids.len(), first(oids))]
    Gone {
        /// The objects.
        oids: Vec<Oid>,
    },
    /// A pruned tree was asked for what it lacks.
    #[error("this tree was pruned: it does not hold {oid}")]
    Pruned {
        /// The object that it lacks.
        oid: Oid,
    },

    // Damage.
    /// An object of another kind than the one that names it says.
    #[error("object {oid} is of kind {found}, where {expected} is expected")]
    WrongKind {
        /// The object.
        oid: Oid,
        /// What it is.
        found: Kind,
        /// What it should be.
        expected: Kind,
    },
    /// Bytes that are not what was written.
    #[error("{file} is damaged at byte {offset}: {reason}; `check` lists what is affected")]
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
    #[error("{file}: {reason}")]
    Lost {
        /// The file.
        file: String,
        /// What is missing, and what to do.
        reason: String,
    },
    /// An object whose bytes are sound and make no sense.
    #[error("object {oid} is damaged: {source}")]
    BadObject {
        /// The object.
        oid: Oid,
        /// What is wrong.
        source: FormatError,
    },

    // The outside world.
    /// The lock was held too long by somebody else.
    #[error("{file} is locked by {holder}; waited {waited_ms} ms")]
    Locked {
        /// The lock file.
        file: String,
        /// Who holds it.
        holder: String,
        /// How long the caller waited.
        waited_ms: u64,
    },
    /// No space on the device.
    #[error("{file}: no space left on the device; nothing was committed")]
    NoSpace {
        /// The file being written.
        file: String,
    },
    /// Less free space than an operation will need, found out before it began.
    #[error("{place}: {bytes} bytes are needed and {free} are free; nothing was written")]
    NoRoom {
        /// The store.
        place: String,
        /// Bytes needed.
        bytes: u64,
        /// Bytes free.
        free: u64,
    },
    /// An earlier write or sync failed; what is on disk is unknown.
    #[error("an earlier sync failed ({reason}); reopen the store to go on from what is on disk")]
    Poisoned {
        /// The first failure.
        reason: String,
    },
    /// The system failed.
    #[error("{file}: {source}")]
    Io {
        /// The file.
        file: String,
        /// Why.
        source: Arc<io::Error>,
    },
    /// A backend failed in a way of its own.
    #[error("{place}")]
    Backend {
        /// The store, or the part of it.
        place: String,
        /// Why.
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
}

impl From<FormatError> for Error {
    fn from(error: FormatError) -> Self {
        Self::Format(error)
    }
}

impl Error {
    /// Wraps the cause of a backend's failure that is none of those above: `place` says of what.
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

/// Returns the first of some ids, for a message.
fn first(oids: &[Oid]) -> String {
    oids.first().map(ToString::to_string).unwrap_or_default()
}
