//! What is wrong with a revision.

use std::{error, fmt};

use bristlecone::{Kind, Oid};

use crate::{
    error::{Error, ErrorKind},
    path::kind_name,
};

/// What is wrong with a revision. Its text is escaped, so that it can be shown as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RevisionError {
    /// A text that cannot be a revision.
    Syntax {
        /// The text.
        text: String,
        /// Why not.
        reason: String,
    },
    /// The first digits of several ids.
    Ambiguous {
        /// The digits.
        digits: String,
        /// How many objects have such ids.
        count: usize,
    },
    /// An object where a commit is wanted, or a directory.
    WrongKind {
        /// The object.
        oid: Oid,
        /// What it is.
        found: Kind,
        /// Whether a directory would do.
        tree: bool,
    },
    /// What is named leads to no object of the kind that `^{KIND}` asks for.
    Peel {
        /// The revision.
        text: String,
        /// What it leads to.
        found: Kind,
        /// What is asked for.
        wanted: Kind,
    },
    /// The id of an object of another store, such as a submodule's.
    Foreign {
        /// The revision.
        text: String,
    },
    /// A value that is kept in its directory, so that it has no id.
    Inline {
        /// The revision.
        text: String,
    },
    /// `@{N}` in a store without reflogs.
    NoReflog,
    /// A reflog that does not go back so far.
    ReflogEnd {
        /// The ref.
        name: String,
        /// How many moves there are.
        moves: usize,
        /// The move that is asked for.
        asked: usize,
    },
    /// What is no regular expression.
    Pattern {
        /// The text.
        text: String,
        /// Why not.
        reason: String,
    },
    /// No commit has such a message.
    NoMessage {
        /// What was looked for.
        words: String,
    },
    /// Two sides of `A...B` without a common ancestor.
    NoAncestor {
        /// Both with the dots.
        text: String,
    },
    /// A word that is a revision and a path.
    Both {
        /// The word.
        word: String,
    },
    /// A word that is no revision and no path.
    Neither {
        /// The word.
        word: String,
    },
}

impl RevisionError {
    pub(crate) const fn kind(&self) -> ErrorKind {
        match self {
            Self::Syntax { .. }
            | Self::Ambiguous { .. }
            | Self::WrongKind { .. }
            | Self::Inline { .. }
            | Self::NoReflog
            | Self::Pattern { .. }
            | Self::Both { .. } => ErrorKind::Mistake,
            _ => ErrorKind::NotFound,
        }
    }
}

impl fmt::Display for RevisionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax { text, reason } => write!(f, "\"{text}\" names no revision: {reason}"),
            Self::Ambiguous { digits, count } => {
                write!(f, "the ids of {count} objects begin with {digits}; give more digits")
            }
            Self::WrongKind { oid, found, tree } => {
                let or = if *tree { " and no directory" } else { "" };
                write!(f, "{oid} is a {}, no commit{or}", kind_name(*found))
            }
            Self::Peel { text, found, wanted } => {
                write!(f, "{text} leads to a {}, and to no {wanted}", kind_name(*found))
            }
            Self::Foreign { text } => write!(f, "{text} is an id of another store"),
            Self::Inline { text } => write!(f, "{text} is kept in its directory and has no id of its own"),
            Self::NoReflog => f.write_str(
                "@{N} reads a reflog, and only Git repositories keep one; name a commit by its id, or relative to another, \
                 as in main~1",
            ),
            Self::ReflogEnd { name, moves, asked } => {
                write!(f, "the reflog of {name} goes back {moves} moves, not {asked}; `git reflog` shows them")
            }
            Self::Pattern { text, reason } => write!(
                f,
                "\"{text}\" is no regular expression: {reason}; put a backslash before a letter that is meant as it is"
            ),
            Self::NoMessage { words } => write!(f, "no commit has \"{words}\" in its message"),
            Self::NoAncestor { text } => write!(f, "the two sides of {text} have no common ancestor"),
            Self::Both { word } => write!(
                f,
                "\"{word}\" is a revision and a path; write `{word} --` if the revision is meant, `-- {word}` if the path is"
            ),
            Self::Neither { word } => write!(f, "\"{word}\" is no revision and no path"),
        }
    }
}

impl error::Error for RevisionError {}

impl From<RevisionError> for Error {
    fn from(error: RevisionError) -> Self {
        Self::Revision(error)
    }
}
