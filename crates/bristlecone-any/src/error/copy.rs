//! What is wrong with a copy from one store into another.

use std::{path::PathBuf, sync::Arc};

use bristlecone::CommitId;
use bristlecone_git::history::TransferError;

use super::kind::ErrorKind;
use crate::{copy::Loss, text::shown};

/// Why a store cannot be copied into another. No ref has moved.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// A store that is to be copied into itself.
    #[error("{place} is the store that is to be copied; name another place")]
    Same {
        /// Where it is.
        place: String,
    },
    /// A store without refs.
    #[error("{from} has no branch and no tag, so there is nothing to copy")]
    Nothing {
        /// The store.
        from: String,
    },
    /// A pattern that no ref matches.
    #[error("no ref of {from} matches \"{pattern}\"")]
    NoRef {
        /// The store.
        from: String,
        /// The pattern.
        pattern: String,
    },
    /// A folder in which a store would be made, and which holds something else.
    #[error("{} holds something that is no store", shown(.dir))]
    Occupied {
        /// The folder.
        dir: PathBuf,
    },
    /// A store of another format than was asked for.
    #[error(
        "{place} is a store of the format {found}, and {wanted} was asked for; leave the format out, or name another place"
    )]
    OtherFormat {
        /// The store.
        place: String,
        /// Its format.
        found: &'static str,
        /// The one that was asked for.
        wanted: &'static str,
    },
    /// What the format of the copy cannot keep, where everything was to be kept.
    #[error("the format {format} cannot keep {}", listed(.losses))]
    Losses {
        /// The format.
        format: &'static str,
        /// What it cannot keep.
        losses: Vec<Loss>,
    },
    /// A commit that the format of the copy cannot hold in any way.
    #[error("commit {id} cannot be converted to the format {format}")]
    Commit {
        /// The commit.
        id: CommitId,
        /// The format.
        format: &'static str,
        /// Why not.
        source: Box<bristlecone::Error>,
    },
    /// A Git repository could not be read or written.
    #[error("{0}")]
    Transfer(Arc<TransferError>),
}

impl CopyError {
    pub(super) fn kind(&self) -> ErrorKind {
        match self {
            Self::Same { .. } | Self::Occupied { .. } | Self::OtherFormat { .. } => ErrorKind::Mistake,
            Self::Nothing { .. } | Self::NoRef { .. } | Self::Losses { .. } => ErrorKind::NotFound,
            Self::Commit { .. } | Self::Transfer(_) => ErrorKind::Failed,
        }
    }
}

impl From<TransferError> for super::Error {
    fn from(error: TransferError) -> Self {
        match error {
            TransferError::Store(error) => Self::Store(error),
            TransferError::NoRef { from, pattern } => CopyError::NoRef { from, pattern }.into(),
            error => CopyError::Transfer(Arc::new(error)).into(),
        }
    }
}

fn listed(losses: &[Loss]) -> String {
    losses.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use bristlecone::{Oid, report};

    use super::*;

    #[test]
    fn a_commit_that_cannot_be_converted_says_once_why() {
        let id = CommitId::new(Oid::from_array([7; 32]));
        let why = bristlecone::Error::TooLarge { what: "a value", bytes: 9, bytes_max: 8 };
        let because = why.to_string();
        let error = super::super::Error::from(CopyError::Commit { id, format: "git", source: Box::new(why) });
        let text = report(&error);
        assert_eq!(text, format!("commit {id} cannot be converted to the format git: {because}"));
    }
}
