//! What is wrong with a revision.

use bristlecone::{Kind, Oid, escape};

use super::kind::ErrorKind;
use crate::text::kind_name;

/// What is wrong with a revision. Its text is escaped, so that it can be shown as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RevisionError {
    /// A text that cannot be a revision.
    #[error("\"{text}\" names no revision: {reason}")]
    Syntax {
        /// The text.
        text: String,
        /// Why not.
        reason: String,
    },
    /// The first digits of several ids.
    #[error("the ids of {count} objects begin with {digits}; give more digits")]
    Ambiguous {
        /// The digits.
        digits: String,
        /// How many objects have such ids.
        count: usize,
    },
    /// An object where a commit is wanted, or a directory.
    #[error("{oid} is a {}, no commit{}", kind_name(*.found), if *.tree { " and no directory" } else { "" })]
    WrongKind {
        /// The object.
        oid: Oid,
        /// What it is.
        found: Kind,
        /// Whether a directory would do.
        tree: bool,
    },
    /// What is named leads to no object of the kind that `^{KIND}` asks for.
    #[error("{text} leads to a {}, and to no {wanted}", kind_name(*.found))]
    Peel {
        /// The revision.
        text: String,
        /// What it leads to.
        found: Kind,
        /// What is asked for.
        wanted: Kind,
    },
    /// The id of an object of another store, such as a submodule's.
    #[error("{text} is an id of another store")]
    Foreign {
        /// The revision.
        text: String,
    },
    /// A value that is kept in its directory, so that it has no id.
    #[error("{text} is kept in its directory and has no id of its own")]
    Inline {
        /// The revision.
        text: String,
    },
    /// `@{N}` in a store without reflogs.
    #[error(
        "@{{N}} reads a reflog, and only Git repositories keep one; name a commit by its id, or relative to another, as in \
         main~1"
    )]
    NoReflog,
    /// A reflog that does not go back so far.
    #[error("the reflog of {} goes back {moves} moves, not {asked}; `git reflog` shows them", escape(.name.as_bytes()))]
    ReflogEnd {
        /// The ref.
        name: String,
        /// How many moves there are.
        moves: usize,
        /// The move that is asked for.
        asked: usize,
    },
    /// What is no regular expression.
    #[error("\"{text}\" is no regular expression: {reason}; put a backslash before a letter that is meant as it is")]
    Pattern {
        /// The text.
        text: String,
        /// Why not.
        reason: String,
    },
    /// No commit has such a message.
    #[error("no commit has \"{words}\" in its message")]
    NoMessage {
        /// What was looked for.
        words: String,
    },
    /// Two sides of `A...B` without a common ancestor.
    #[error("the two sides of {text} have no common ancestor")]
    NoAncestor {
        /// Both with the dots.
        text: String,
    },
    /// A word that is a revision and a path.
    #[error(
        "\"{word}\" is a revision and a path; write `{word} --` if the revision is meant, `-- {word}` if the path is"
    )]
    Both {
        /// The word.
        word: String,
    },
    /// A word that is no revision and no path.
    #[error("\"{word}\" is no revision and no path")]
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
