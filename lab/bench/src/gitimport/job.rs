//! The ways to import a history, and one import as it is handed to the process that does it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Who imports, and into what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum By {
    /// We, into a store of Git's format on disk.
    Git,
    /// We, into a store of the native format on disk.
    Native,
    /// `git fast-export | git fast-import`, into a fresh repository.
    FastImport,
    /// `git clone`, into a fresh repository.
    Clone,
}

impl By {
    pub(super) const ALL: [Self; 4] = [Self::Git, Self::Native, Self::FastImport, Self::Clone];

    pub(super) const fn is_ours(self) -> bool {
        matches!(self, Self::Git | Self::Native)
    }

    pub(super) fn row_name(self, name: &str) -> String {
        match self {
            Self::Git => format!("{name} disk git"),
            Self::Native => format!("{name} disk native"),
            Self::FastImport => "git fast-export | git fast-import".into(),
            Self::Clone => "git clone".into(),
        }
    }
}

/// One import of ours, as it is handed to the process that does it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ImportJob {
    pub(super) by: By,
    pub(super) source: PathBuf,
    pub(super) dest: PathBuf,
}
