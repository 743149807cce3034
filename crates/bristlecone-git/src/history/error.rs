//! What can go wrong between a repository and a store.

use std::fmt;

use bristlecone::{Kind, Oid, core::git, escape};
use thiserror::Error;

/// Why a history could not be transferred. No ref has moved then.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The store or the repository failed, or is damaged.
    #[error(transparent)]
    Store(#[from] bristlecone::Error),
    /// An object is missing or damaged.
    #[error("{0}")]
    Missing(Box<Missing>),
    /// The destination cannot keep an object or ref.
    #[error("{what} cannot be kept: {reason}")]
    Refused {
        /// The object, with where it was met, or the ref.
        what: String,
        /// Why not.
        reason: String,
    },
    /// There is no repository at a path.
    #[error("{path}: there is no Git repository here")]
    NoRepository {
        /// Where.
        path: String,
    },
    /// The folder where a repository is to be made is not empty.
    #[error("the folder {path} holds something that is no Git repository")]
    Occupied {
        /// The folder.
        path: String,
    },
    /// Ids of two hash algorithms.
    #[error("the objects of {from} have ids of {found}, and those of the store of {expected}")]
    Algorithm {
        /// The repository.
        from: String,
        /// Its algorithm.
        found: &'static str,
        /// The store's.
        expected: &'static str,
    },
    /// A pattern that no ref matches.
    #[error("no ref of {from} matches \"{pattern}\"")]
    NoRef {
        /// The repository or store.
        from: String,
        /// The pattern.
        pattern: String,
    },
}

impl TransferError {
    pub(crate) fn refused(what: impl Into<String>, reason: impl fmt::Display) -> Self {
        Self::Refused { what: what.into(), reason: reason.to_string() }
    }
}

/// An object that is missing or damaged, and what needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// What it should be.
    pub kind: Kind,
    /// Its id.
    pub oid: Oid,
    /// What is wrong with it; `None` if it is absent.
    pub damage: Option<String>,
    /// What leads to it.
    pub from: Origin,
}

/// What leads to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A ref.
    Ref(String),
    /// A commit whose parent it is.
    Child(Oid),
    /// Some ref leads to it through commits.
    History,
    /// A commit holds it at a path, which is empty for the root.
    Path(Oid, Vec<u8>),
    /// A tag names it.
    Tag(Oid),
    /// A tree that a tag or ref names holds it at a path.
    Tree(Vec<u8>),
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = git::type_name(self.kind).unwrap_or("object");
        match &self.damage {
            None => write!(f, "the {name} {} is missing", self.oid)?,
            Some(reason) => write!(f, "the {name} {} is damaged ({reason})", self.oid)?,
        }
        write!(f, "; {}", self.from)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ref(name) => write!(f, "{} names it", escape(name.as_bytes())),
            Self::Child(oid) => write!(f, "it is a parent of commit {oid}"),
            Self::History => f.write_str("refs lead to it"),
            Self::Path(oid, path) if path.is_empty() => write!(f, "it is the root of commit {oid}"),
            Self::Path(oid, path) => write!(f, "commit {oid} holds it at {}", escape(path)),
            Self::Tag(oid) => write!(f, "the tag {oid} names it"),
            Self::Tree(path) => write!(f, "a tree that a tag or ref names holds it at \"{}\"", escape(path)),
        }
    }
}
