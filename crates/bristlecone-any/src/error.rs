//! What can go wrong, as values.

use std::{
    convert::Infallible,
    error, fmt, io,
    os::unix::ffi::OsStrExt,
    path::{Path as FilePath, PathBuf},
    sync::Arc,
};

use bristlecone::{EntryKind, Oid, Path, PathError, core::FormatError, escape};

use crate::{folder::FolderError, identity::Moment, revision::RevisionError};

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong with a store of any format and backend.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The store itself says so.
    Store(bristlecone::Error),
    /// The system failed on a file or folder.
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
    Url {
        /// The url.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No store where one was looked for.
    NoStore {
        /// The folder.
        dir: PathBuf,
        /// Whether the folders above it were looked into, too.
        or_above: bool,
    },
    /// A Git repository that belongs to another user, whose settings are not to be trusted.
    ForeignOwner {
        /// The folder or file that does.
        place: PathBuf,
        /// The number of its user.
        owner: u32,
        /// What to name as safe if it is: the working tree, or the folder of the repository.
        top: PathBuf,
    },
    /// A Git repository where a store of the disk engine is needed.
    GitRepository {
        /// Its folder.
        dir: PathBuf,
    },
    /// A format that a backend does not keep.
    Unfit {
        /// The format.
        format: &'static str,
        /// The backend.
        backend: &'static str,
    },

    // What is named in it.
    /// A revision that is none, or is not there.
    Revision(RevisionError),
    /// Nothing at a path.
    NothingAt {
        /// The path.
        path: Path,
        /// The value on the way there, below which nothing can be.
        value_above: Option<Path>,
    },
    /// Something else than a directory at a path.
    NotADirectory {
        /// The path.
        path: Path,
        /// What is there.
        kind: EntryKind,
    },
    /// The id of a commit of another repository at a path, which has no contents here.
    Submodule {
        /// The path.
        path: Path,
        /// The id.
        oid: Oid,
    },
    /// What is wrong with a folder of files.
    Folder(FolderError),

    // Branches and who commits.
    /// What is checked out is a ref, and no branch.
    Head {
        /// The ref.
        name: String,
    },
    /// A name that is legal and that no branch should be given.
    BranchName {
        /// The name.
        name: String,
        /// Why not.
        why: &'static str,
    },
    /// Somebody who is not written `Name <mail>`.
    Ident {
        /// What is written.
        ident: Vec<u8>,
    },
    /// A zone that a format cannot keep.
    Zone {
        /// The format.
        format: &'static str,
        /// The moment in that zone.
        when: Moment,
    },
    /// `SOURCE_DATE_EPOCH` is no number of seconds.
    Epoch {
        /// What it is.
        text: String,
    },
}

/// Whose fault an error is, for exit codes, status codes and classes of exceptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller asks for what makes no sense, or cannot be.
    Mistake,
    /// What was named is not there.
    NotFound,
    /// Damage, or the outside world.
    Failed,
}

impl Error {
    /// Returns whose fault it is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Store(error) => ErrorKind::of(error),
            Self::Revision(error) => error.kind(),
            Self::Folder(error) => error.kind(),
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

impl ErrorKind {
    /// Returns whose fault an error of a store is.
    #[must_use]
    pub fn of(error: &bristlecone::Error) -> Self {
        use bristlecone::Error::*;
        match error {
            Path(_) | RootPath | RefName { .. } | Usage { .. } | Exists { .. } => Self::Mistake,
            Format(FormatError::Unsupported { .. }) => Self::Mistake,
            NoRef { .. } => Self::NotFound,
            _ => Self::Failed,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Io { doing, file, .. } => write!(f, "cannot {doing} {file}"),
            Self::Url { url, reason } => write!(f, "{url} names no store: {reason}"),
            Self::NoStore { dir, or_above: false } => write!(f, "no store in {}", shown(dir)),
            Self::NoStore { dir, .. } => write!(f, "no store in {} or any folder above it", shown(dir)),
            Self::ForeignOwner { place, owner, top } => write!(
                f,
                "{} belongs to another user ({owner}), whose settings Git would not trust either; if you do, run `git \
                 config --global --add safe.directory {}`",
                shown(place),
                shown(top)
            ),
            Self::GitRepository { dir } => write!(
                f,
                "{} is a Git repository; `git fsck` tells what is wrong with it, and Git repairs it",
                shown(dir)
            ),
            Self::Unfit { format, backend } => {
                write!(f, "the backend {backend} keeps no objects of the format {format}; choose another of the two")
            }
            Self::Revision(error) => error.fmt(f),
            Self::NothingAt { path, value_above: None } => write!(f, "there is nothing at {path}"),
            Self::NothingAt { path, value_above: Some(above) } => {
                write!(f, "there is nothing at {path}: {above} is a value, not a directory")
            }
            Self::NotADirectory { path, kind } => write!(f, "{path} is a {}, not a directory", kind.name()),
            Self::Submodule { path, oid } => write!(
                f,
                "{path} is the id {oid} of a commit in another repository (a submodule), and has no contents here; look there"
            ),
            Self::Folder(error) => error.fmt(f),
            Self::Head { name } => write!(f, "HEAD names {name}, which is no branch"),
            Self::BranchName { name, why } => {
                write!(f, "\"{name}\" cannot be the name of a branch: {why}; choose another name")
            }
            Self::Ident { ident } => {
                write!(f, "\"{}\" names no author; write it as \"Name <mail>\"", escape(ident))
            }
            Self::Zone { format, when } => {
                write!(f, "a commit of the format {format} cannot keep the zone {}", escape(when.zone.as_bytes()))
            }
            Self::Epoch { text } => {
                write!(f, "SOURCE_DATE_EPOCH is \"{text}\"; set it to seconds since 1970, or unset it")
            }
        }
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Store(error) => error.source(),
            Self::Io { source, .. } => Some(&**source),
            Self::Folder(error) => error.source(),
            _ => None,
        }
    }
}

impl From<bristlecone::Error> for Error {
    fn from(error: bristlecone::Error) -> Self {
        Self::Store(error)
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

/// Shows a name of the system.
pub(crate) fn shown(name: &FilePath) -> String {
    escape(name.as_os_str().as_bytes())
}
