//! What can go wrong with a measurement.

use std::{io, path::Path};

use bristlecone_cardano::{
    ChainError, GenesisError, IndexError, replay::ReplayError as ChainReplayError, utxo::UtxoError,
};
use bristlecone_tezos::replay::ReplayError;
use thiserror::Error;

/// What can go wrong with a measurement.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BenchError {
    /// Options that make no sense together, or that this version does not have.
    #[error("{reason}")]
    Usage {
        /// Why, and what to do.
        reason: String,
    },
    /// The store that is measured failed.
    #[error(transparent)]
    Store(#[from] bristlecone::Error),
    /// A scenario ended with contents or answers that are not those that it should end with.
    #[error("{scenario}: wrong result: {reason}")]
    Wrong {
        /// The scenario.
        scenario: String,
        /// What differs.
        reason: String,
    },
    /// A history could not be imported or exported.
    #[error(transparent)]
    Transfer(#[from] bristlecone_git::history::TransferError),
    /// A replay ended early: a wrong answer or hash, a damaged trace, a store that failed.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// A replay of a chain ended early: a damaged chain, a missing input, a wrong digest, a store that failed.
    #[error(transparent)]
    Chain(Box<ChainReplayError>),
    /// A genesis file that is none.
    #[error(transparent)]
    Genesis(#[from] GenesisError),
    /// The user interrupted a replay.
    #[error("interrupted")]
    Stopped,
    /// A scenario's process failed.
    #[error("{scenario}: its process failed: {reason}")]
    Child {
        /// The scenario.
        scenario: String,
        /// What it said.
        reason: String,
    },
    /// Another program or library that is measured beside ours failed.
    #[error("{peer} failed: {reason}")]
    Peer {
        /// Which.
        peer: &'static str,
        /// What it said.
        reason: String,
    },
    /// A file of results that is none.
    #[error("{file}: these are no results: {reason}; name another file or remove this one")]
    Results {
        /// The file.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The system failed.
    #[error("{file} cannot be read or written")]
    Io {
        /// The file.
        file: String,
        /// Why.
        source: io::Error,
    },
}

impl From<bristlecone_any::Error> for BenchError {
    fn from(error: bristlecone_any::Error) -> Self {
        match error {
            bristlecone_any::Error::Store(error) => Self::Store(error),
            error => Self::usage(error.to_string()),
        }
    }
}

impl From<ChainReplayError> for BenchError {
    fn from(error: ChainReplayError) -> Self {
        Self::Chain(Box::new(error))
    }
}

impl From<ChainError> for BenchError {
    fn from(error: ChainError) -> Self {
        ChainReplayError::from(error).into()
    }
}

impl From<IndexError> for BenchError {
    fn from(error: IndexError) -> Self {
        ChainReplayError::from(error).into()
    }
}

impl From<UtxoError> for BenchError {
    fn from(error: UtxoError) -> Self {
        ChainReplayError::from(error).into()
    }
}

impl BenchError {
    pub(crate) fn io(file: &Path) -> impl FnOnce(io::Error) -> Self {
        let file = file.display().to_string();
        move |source| Self::Io { file, source }
    }

    pub(crate) fn usage(reason: impl Into<String>) -> Self {
        Self::Usage { reason: reason.into() }
    }

    /// Whether the caller asked for something that makes no sense.
    #[must_use]
    pub const fn is_usage(&self) -> bool {
        matches!(self, Self::Usage { .. })
    }
}

pub(crate) type Result<T, E = BenchError> = std::result::Result<T, E>;
