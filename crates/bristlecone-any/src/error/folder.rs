//! What is wrong with a folder of files.

use std::path::PathBuf;

use bristlecone::{Path, PathError, VALUE_BYTES_MAX, escape};

use super::kind::ErrorKind;
use crate::text::shown;

/// What is wrong with a folder of files, or with a tree that is to become one.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    // Taking in.
    /// The folder itself is ignored.
    #[error("{} is ignored by Git, as {by} says", shown(.dir))]
    Ignored {
        /// The folder.
        dir: PathBuf,
        /// The file of patterns that says so.
        by: String,
    },
    /// The folder of the store itself, or one in it.
    #[error("{} is in the store itself, whose files change meanwhile; import another folder", shown(.dir))]
    WithinStore {
        /// The folder.
        dir: PathBuf,
    },
    /// Git's index does not tell what is ignored.
    #[error("cannot tell what Git ignores: {why}")]
    Index {
        /// Why not.
        why: String,
    },
    /// A repository in the folder that cannot be read.
    #[error("cannot read the repository in {}", shown(.place))]
    Repository {
        /// Where.
        place: PathBuf,
        /// Why not.
        source: bristlecone::Error,
    },
    /// A name that no path can have.
    #[error("cannot import {}; move it elsewhere", shown(.place))]
    Name {
        /// The file or folder.
        place: PathBuf,
        /// Why not.
        source: PathError,
    },
    /// A file that became something else while it was read.
    #[error("{} became something else during the import; run it again", shown(.place))]
    Changed {
        /// The file.
        place: PathBuf,
    },
    /// A file that is larger than a value can be.
    #[error("{} is too large for a value: it has {bytes} bytes, and at most {VALUE_BYTES_MAX} fit", shown(.place))]
    TooLarge {
        /// The file.
        place: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// Executables and links in a store whose format has none.
    #[error("{} cannot be kept by the format {format}", counted(*.executables, *.links, .places))]
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
    #[error("the folder {} is not empty", shown(.dir))]
    NotEmpty {
        /// The folder.
        dir: PathBuf,
    },
    /// A file where the folder should be.
    #[error("{} is no folder; name one to export to", shown(.dir))]
    NotAFolder {
        /// The file.
        dir: PathBuf,
    },
    /// The folder of the store itself.
    #[error("{place} is the store itself; export to another folder")]
    TheStore {
        /// The folder, as it is shown.
        place: String,
    },
    /// What is there belongs to another store, or to Git.
    #[error("{place} is {what}, where export does not write; export to another folder")]
    Owned {
        /// Where, as it is shown.
        place: String,
        /// Whose it is.
        what: &'static str,
    },
    /// Directories that lie deeper in each other than folders may.
    #[error("folders lie deeper than {depth_max} at {path}")]
    TooDeep {
        /// The first of them.
        path: Path,
        /// How deep folders may lie.
        depth_max: usize,
    },
    /// A path that is too long for the system where it is to be.
    #[error("{path} would have a name of {bytes} bytes there, and the system takes {bytes_max}")]
    LongPath {
        /// The first of them.
        path: Path,
        /// How long the name would be, with that of the folder.
        bytes: usize,
        /// How long it may be.
        bytes_max: usize,
    },
    /// A step that cannot be the name of a file.
    #[error("the name \"{}\" {} {why}, so it cannot be a file's", short(.step), within(.dir))]
    FileName {
        /// The directory.
        dir: Path,
        /// The step.
        step: Vec<u8>,
        /// Why not.
        why: &'static str,
    },
    /// Something stands where a file or folder belongs.
    #[error("{place} is {what}; remove it and run the export again")]
    InTheWay {
        /// Where, as it is shown.
        place: String,
        /// What it is.
        what: &'static str,
    },
    /// A name that was written before.
    #[error("{place} is there already: names that differ in case alone may be one here; export to another folder")]
    AlreadyThere {
        /// Where, as it is shown.
        place: String,
    },
    /// What watches the export ended it.
    #[error("the export was stopped before its end: the files that it wrote are whole, and others are missing")]
    Stopped,
    /// A value that is shorter than its entry says.
    #[error("the value of {place} ends early")]
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
            | Self::WithinStore { .. }
            | Self::Index { .. }
            | Self::Name { .. }
            | Self::TooLarge { .. }
            | Self::NotKept { .. }
            | Self::NotEmpty { .. }
            | Self::NotAFolder { .. }
            | Self::TheStore { .. }
            | Self::Owned { .. } => ErrorKind::Mistake,
            _ => ErrorKind::Failed,
        }
    }
}

/// Shows how many executables and links there are, and some of them.
fn counted(executables: u64, links: u64, places: &[PathBuf]) -> String {
    let found = [(executables, "executable"), (links, "link")].into_iter().filter(|(many, _)| *many > 0);
    let found: Vec<_> = found.map(|(many, one)| format!("{many} {one}{}", if many == 1 { "" } else { "s" })).collect();
    let named: Vec<_> = places.iter().map(shown).collect();
    let more = if executables + links > named.len() as u64 { ", ..." } else { "" };
    format!("{} ({}{more})", found.join(" and "), named.join(", "))
}

fn within(dir: &Path) -> String {
    if dir.is_root() { "at the top".to_owned() } else { format!("in {dir}") }
}

/// Shows a name without slashes, and not all of a long one.
fn short(step: &[u8]) -> String {
    let name = escape(step).replace('/', "%2F");
    if name.chars().count() > 80 { name.chars().take(77).chain("...".chars()).collect() } else { name }
}
