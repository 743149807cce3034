//! What is wrong with a folder of files.

use std::{error, fmt, path::PathBuf};

use bristlecone::{Path, PathError, VALUE_BYTES_MAX, escape};

use crate::error::{Error, ErrorKind, shown};

/// What is wrong with a folder of files, or with a tree that is to become one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum FolderError {
    // Taking in.
    /// The folder itself is ignored.
    Ignored {
        /// The folder.
        dir: PathBuf,
        /// The file of patterns that says so.
        by: String,
    },
    /// Git's index does not tell what is ignored.
    Index {
        /// Why not.
        why: String,
    },
    /// A repository in the folder that cannot be read.
    Repository {
        /// Where.
        place: PathBuf,
        /// Why not.
        source: bristlecone::Error,
    },
    /// A name that no path can have.
    Name {
        /// The file or folder.
        place: PathBuf,
        /// Why not.
        source: PathError,
    },
    /// A file that became something else while it was read.
    Changed {
        /// The file.
        place: PathBuf,
    },
    /// A file that is larger than a value can be.
    TooLarge {
        /// The file.
        place: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// Executables and links in a store whose format has none.
    NotKept {
        /// How many executables.
        executables: u64,
        /// How many links.
        links: u64,
        /// Some of both.
        places: Vec<PathBuf>,
        /// The format.
        format: &'static str,
    },

    // Giving out.
    /// A folder that holds something already.
    NotEmpty {
        /// The folder.
        dir: PathBuf,
    },
    /// A file where the folder should be.
    NotAFolder {
        /// The file.
        dir: PathBuf,
    },
    /// The folder of the store itself.
    TheStore {
        /// The folder, as it is shown.
        place: String,
    },
    /// Directories that lie deeper in each other than folders may.
    TooDeep {
        /// The first of them.
        path: Path,
        /// How deep folders may lie.
        depth_max: usize,
    },
    /// A step that cannot be the name of a file.
    FileName {
        /// The directory.
        dir: Path,
        /// The step.
        step: Vec<u8>,
        /// Why not.
        why: &'static str,
    },
    /// Something stands where a file or folder belongs.
    InTheWay {
        /// Where, as it is shown.
        place: String,
        /// What it is.
        what: &'static str,
    },
    /// A name that was written before.
    AlreadyThere {
        /// Where, as it is shown.
        place: String,
    },
    /// A value that is shorter than its entry says.
    EndsEarly {
        /// Where, as it is shown.
        place: String,
    },
}

impl FolderError {
    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            Self::Repository { source, .. } => ErrorKind::of(source),
            Self::Ignored { .. }
            | Self::Index { .. }
            | Self::Name { .. }
            | Self::NotKept { .. }
            | Self::NotEmpty { .. }
            | Self::NotAFolder { .. }
            | Self::TheStore { .. } => ErrorKind::Mistake,
            _ => ErrorKind::Failed,
        }
    }
}

impl fmt::Display for FolderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ignored { dir, by } => write!(f, "{} is ignored by Git, as {by} says", shown(dir)),
            Self::Index { why } => write!(f, "cannot tell what Git ignores: {why}"),
            Self::Repository { place, .. } => write!(f, "cannot read the repository in {}", shown(place)),
            Self::Name { place, .. } => write!(f, "cannot import {}; move it elsewhere", shown(place)),
            Self::Changed { place } => {
                write!(f, "{} became something else during the import; run it again", shown(place))
            }
            Self::TooLarge { place, bytes } => {
                let place = shown(place);
                write!(f, "{place} is too large for a value: it has {bytes} bytes, and at most {VALUE_BYTES_MAX} fit")
            }
            Self::NotKept { executables, links, places, format } => {
                let count = |count: u64, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
                let found = [(*executables, "executable"), (*links, "link")];
                let found = found.iter().filter(|(many, _)| *many > 0).map(|(many, one)| count(*many, one));
                let named: Vec<String> = places.iter().map(|place| shown(place)).collect();
                let more = if executables + links > named.len() as u64 { ", ..." } else { "" };
                let (found, named) = (found.collect::<Vec<_>>().join(" and "), named.join(", "));
                write!(f, "{found} ({named}{more}) cannot be kept by the format {format}")
            }
            Self::NotEmpty { dir } => write!(f, "the folder {} is not empty", shown(dir)),
            Self::NotAFolder { dir } => write!(f, "{} is no folder; name one to export to", shown(dir)),
            Self::TheStore { place } => write!(f, "{place} is the store itself; export to another folder"),
            Self::TooDeep { path, depth_max } => write!(f, "folders lie deeper than {depth_max} at {path}"),
            Self::FileName { dir, step, why } => {
                let place = if dir.is_root() { "at the top".to_owned() } else { format!("in {dir}") };
                let mut name = escape(step).replace('/', "%2F");
                if name.chars().count() > 80 {
                    name = name.chars().take(77).chain("...".chars()).collect();
                }
                write!(f, "the name \"{name}\" {place} {why}, so it cannot be a file's")
            }
            Self::InTheWay { place, what } => write!(f, "{place} is {what}; remove it and run the export again"),
            Self::AlreadyThere { place } => write!(
                f,
                "{place} is there already: names that differ in case alone may be one here; export to another folder"
            ),
            Self::EndsEarly { place } => write!(f, "the value of {place} ends early"),
        }
    }
}

impl error::Error for FolderError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Repository { source, .. } => Some(source),
            Self::Name { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl From<FolderError> for Error {
    fn from(error: FolderError) -> Self {
        Self::Folder(error)
    }
}
