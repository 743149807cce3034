//! What can go wrong, as values.

use std::{
    convert::Infallible,
    io,
    path::{Path as FilePath, PathBuf},
    sync::Arc,
};

use bristlecone::{EntryKind, Oid, Path, PathError, escape};

use crate::{moment::Moment, text::shown};

mod copy;
mod folder;
mod kind;
mod revision;

pub use copy::CopyError;
pub use folder::FolderError;
pub use kind::ErrorKind;
pub use revision::RevisionError;

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong with a store of any format and backend.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store itself says so.
    #[error(transparent)]
    Store(#[from] bristlecone::Error),
    /// The system failed on a file or folder.
    #[error("cannot {doing} {file}")]
    Io {
        /// What was to be done with it, such as `read`.
        doing: &'static str,
        /// The file or folder, as text.
        file: String,
        /// Why.
        source: Arc<io::Error>,
    },

    // Finding and opening.
    /// A url that names no place where stores are.
    #[error("{url} names no store: {reason}")]
    Url {
        /// The url.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No store where one was looked for.
    #[error("no store in {}{}", shown(.dir), if *.or_above { " or any folder above it" } else { "" })]
    NoStore {
        /// The folder.
        dir: PathBuf,
        /// Whether the folders above it were looked into, too.
        or_above: bool,
    },
    /// A Git repository that belongs to another user, whose settings are not to be trusted.
    #[error("{} belongs to another user ({owner}), whose settings Git would not trust either; if you do, run `git config --global --add \
         safe.directory {}`", shown(.place), shown(.top))]
    ForeignOwner {
        /// The folder or file that does.
        place: PathBuf,
        /// The number of its user.
        owner: u32,
        /// What to name as safe if it is: the working tree, or the folder of the repository.
        top: PathBuf,
    },
    /// A Git repository where a store of the disk engine is needed.
    #[error("{} is a Git repository; `git fsck` tells what is wrong with it, and Git repairs it", shown(.dir))]
    GitRepository {
        /// Its folder.
        dir: PathBuf,
    },
    /// A format that a backend does not keep.
    #[error("the backend {backend} keeps no objects of the format {format}; choose another of the two")]
    Unfit {
        /// The format.
        format: &'static str,
        /// The backend.
        backend: &'static str,
    },

    // What is named in it.
    /// A revision that is none, or is not there.
    #[error(transparent)]
    Revision(#[from] RevisionError),
    /// Nothing at a path.
    #[error("there is nothing at {path}{}", .value_above.as_ref().map(|above| format!(": {above} is a value, not a directory")).unwrap_or_default())]
    NothingAt {
        /// The path.
        path: Path,
        /// The value on the way there, below which nothing can be.
        value_above: Option<Path>,
    },
    /// Something else than a directory at a path.
    #[error("{path} is a {}, not a directory", .kind.name())]
    NotADirectory {
        /// The path.
        path: Path,
        /// What is there.
        kind: EntryKind,
    },
    /// The id of a commit of another repository at a path, which has no contents here.
    #[error(
        "{path} is the id {oid} of a commit in another repository (a submodule), and has no contents here; look there"
    )]
    Submodule {
        /// The path.
        path: Path,
        /// The id.
        oid: Oid,
    },
    /// What is wrong with a folder of files.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// Why a store cannot be copied into another.
    #[error(transparent)]
    Copy(#[from] CopyError),

    // Branches and who commits.
    /// What is checked out is a ref, and no branch.
    #[error("HEAD names {}, which is no branch", escape(.name.as_bytes()))]
    Head {
        /// The ref.
        name: String,
    },
    /// A name that is legal and that no branch should be given.
    #[error("\"{}\" cannot be the name of a branch: {why}; choose another name", escape(.name.as_bytes()))]
    BranchName {
        /// The name.
        name: String,
        /// Why not.
        why: &'static str,
    },
    /// An author who is not written `Name <mail>`.
    #[error("\"{}\" names no author; write it as \"Name <mail>\"", escape(.ident))]
    Ident {
        /// What is written.
        ident: Vec<u8>,
    },
    /// A zone that a format cannot keep.
    #[error("a commit of the format {format} cannot keep the zone {}", escape(.when.zone.as_bytes()))]
    Zone {
        /// The format.
        format: &'static str,
        /// The moment in that zone.
        when: Moment,
    },
    /// `SOURCE_DATE_EPOCH` is no number of seconds.
    #[error("SOURCE_DATE_EPOCH is \"{text}\"; set it to seconds since 1970, or unset it")]
    Epoch {
        /// What it is.
        text: String,
    },
}

impl Error {
    /// Returns whose fault it is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Store(error) => ErrorKind::of(error),
            Self::Revision(error) => error.kind(),
            Self::Folder(error) => error.kind(),
            Self::Copy(error) => error.kind(),
            Self::NoStore { .. } | Self::NothingAt { .. } => ErrorKind::NotFound,
            Self::Io { .. } | Self::ForeignOwner { .. } | Self::Head { .. } => ErrorKind::Failed,
            _ => ErrorKind::Mistake,
        }
    }

    /// Wraps a failure of the system.
    pub(crate) fn io(doing: &'static str, file: impl AsRef<FilePath>, source: io::Error) -> Self {
        Self::Io { doing, file: shown(file.as_ref()), source: Arc::new(source) }
    }

    /// Whether there is no store, so that one can be made.
    pub(crate) fn is_no_store(&self) -> bool {
        matches!(self, Self::NoStore { .. } | Self::Store(bristlecone::Error::NoStore { .. }))
    }
}

impl From<PathError> for Error {
    fn from(error: PathError) -> Self {
        Self::Store(error.into())
    }
}

/// For places that need no parsing.
impl From<Infallible> for Error {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}
