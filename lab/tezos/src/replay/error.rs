//! What can end a replay early, and the row where it happened.

use std::fmt;

use bristlecone::{Error, PathError};
use thiserror::Error;

use super::CommitHash;
use crate::{ContextId, TraceError};

/// What can end a replay early.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The trace cannot be read further.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A row of the trace could not be replayed.
    #[error("{place}: {}", bristlecone::report(&**fault))]
    Row {
        /// Which row.
        place: Box<Place>,
        /// What happened.
        fault: Box<Fault>,
    },
    /// The store failed outside of any row.
    #[error(transparent)]
    Store(#[from] Error),
    /// A trace that is too large for what it was asked to be used for.
    #[error("{file}: {bytes} bytes are too many to be cut into pieces, at most {bytes_max} are; replay fewer commits")]
    TooLarge {
        /// The trace.
        file: String,
        /// How much of it was asked for.
        bytes: u64,
        /// The bound.
        bytes_max: u64,
    },
}

impl ReplayError {
    /// Whether the store gave another answer or hash than the trace has recorded.
    #[must_use]
    pub fn is_wrong(&self) -> bool {
        matches!(self, Self::Row { fault, .. } if fault.is_wrong())
    }

    /// Returns the row where it happened, where it was one.
    #[must_use]
    pub fn place(&self) -> Option<&Place> {
        match self {
            Self::Row { place, .. } => Some(place),
            _ => None,
        }
    }

    /// Returns the failure of the store, if that is what it was.
    #[must_use]
    pub fn store(&self) -> Option<&Error> {
        match self {
            Self::Row { fault, .. } => match &**fault {
                Fault::Store(error) => Some(error),
                _ => None,
            },
            Self::Store(error) => Some(error),
            _ => None,
        }
    }
}

/// A row of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The trace.
    pub file: String,
    /// Where the row begins, in bytes from the start of the trace.
    pub offset: u64,
    /// Which commit it belongs to, the first being 1.
    pub commit: u64,
    /// Which row of that commit it is, the first being 1.
    pub row: u64,
    /// What the row does.
    pub operation: &'static str,
    /// The key, as the trace has it, or its first 4,096 bytes; empty where the row has none.
    pub key: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, offset, commit, row, operation, key } = self;
        write!(f, "{file}: commit {commit}, row {row} (at byte {offset}), {operation}")?;
        if key.is_empty() { Ok(()) } else { write!(f, " {key}") }
    }
}

/// What can go wrong with a row.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Fault {
    /// Another answer than the recorded one.
    #[error("the trace has {expected} there, this store {found}")]
    Answer {
        /// What the trace says.
        expected: &'static str,
        /// What was found.
        found: &'static str,
    },
    /// A copy of what does not exist.
    #[error("there is nothing to copy")]
    NoSource,
    /// Another commit hash than the recorded one.
    #[error("the trace has the commit {expected}, this store made {found}")]
    Hash {
        /// What the trace says.
        expected: CommitHash,
        /// What was made.
        found: CommitHash,
    },
    /// A context that no row before has made, or that was to be forgotten.
    #[error("no row before has made the context {id}, or it was marked as never used again; the trace is damaged")]
    Context {
        /// Its id.
        id: ContextId,
    },
    /// A commit that no row before has made, or that was to be forgotten.
    #[error("no row before has made the commit {hash}, or it was marked as never used again; the trace is damaged")]
    Commit {
        /// Its hash.
        hash: CommitHash,
    },
    /// A text that is no commit hash.
    #[error("\"{text}\" is no commit hash; the trace is damaged")]
    HashText {
        /// The text, at most 60 bytes of it.
        text: String,
    },
    /// A key that cannot be a path.
    #[error("the key cannot be a path here")]
    Path(#[from] PathError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] Error),
}

impl Fault {
    /// Whether the store gave another answer or hash than the trace has recorded.
    #[must_use]
    pub const fn is_wrong(&self) -> bool {
        matches!(self, Self::Answer { .. } | Self::NoSource | Self::Hash { .. })
    }
}
