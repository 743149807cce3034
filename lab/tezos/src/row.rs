//! Rows: one recorded operation each, borrowed from the reader's buffer.

use std::fmt;

use crate::{
    hashes::Hashes,
    key::Key,
    scoped::{ContextId, Scoped},
};

/// One row of a trace. Hashes are the base58 text of commit hashes, as bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row<'a> {
    /// Loads the tree of a commit.
    Checkout {
        /// The commit.
        hash: Scoped<&'a [u8]>,
        /// The context that it becomes.
        output: Scoped<ContextId>,
    },
    /// Binds a key to a value.
    Add {
        /// The key.
        key: Key<'a>,
        /// The value.
        value: &'a [u8],
        /// The context that is changed.
        input: Scoped<ContextId>,
        /// The context that results.
        output: Scoped<ContextId>,
    },
    /// Removes a value or directory.
    Remove {
        /// The key.
        key: Key<'a>,
        /// The context that is changed.
        input: Scoped<ContextId>,
        /// The context that results.
        output: Scoped<ContextId>,
    },
    /// Binds a key to what is at another.
    Copy {
        /// Where it is.
        source: Key<'a>,
        /// Where it goes.
        destination: Key<'a>,
        /// The context that is changed.
        input: Scoped<ContextId>,
        /// The context that results.
        output: Scoped<ContextId>,
    },
    /// Looks a value up.
    Find {
        /// The key.
        key: Key<'a>,
        /// Whether there was a value.
        found: bool,
        /// The context.
        input: Scoped<ContextId>,
    },
    /// Asks whether there is a value.
    Mem {
        /// The key.
        key: Key<'a>,
        /// The answer.
        found: bool,
        /// The context.
        input: Scoped<ContextId>,
    },
    /// Asks whether there is a value or a directory.
    MemTree {
        /// The key.
        key: Key<'a>,
        /// The answer.
        found: bool,
        /// The context.
        input: Scoped<ContextId>,
    },
    /// Makes a commit.
    Commit {
        /// Its hash.
        hash: Scoped<&'a [u8]>,
        /// Its date, in seconds since 1970-01-01 00:00 UTC.
        date: i64,
        /// Its message.
        message: &'a [u8],
        /// Its parents.
        parents: Hashes<'a>,
        /// The context that is committed.
        input: Scoped<ContextId>,
    },
}

impl<'a> Row<'a> {
    /// Returns which operation it is.
    #[must_use]
    #[inline]
    pub const fn kind(&self) -> RowKind {
        match self {
            Self::Checkout { .. } => RowKind::Checkout,
            Self::Add { .. } => RowKind::Add,
            Self::Remove { .. } => RowKind::Remove,
            Self::Copy { .. } => RowKind::Copy,
            Self::Find { .. } => RowKind::Find,
            Self::Mem { .. } => RowKind::Mem,
            Self::MemTree { .. } => RowKind::MemTree,
            Self::Commit { .. } => RowKind::Commit,
        }
    }

    /// Returns the operation's name, as the format writes it: `Find`, `Mem_tree`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.kind().name()
    }

    /// Returns the key that is read or changed: the destination of a copy. Checkouts and commits have none.
    #[must_use]
    pub const fn key(&self) -> Option<Key<'a>> {
        match *self {
            Self::Add { key, .. }
            | Self::Remove { key, .. }
            | Self::Copy { destination: key, .. }
            | Self::Find { key, .. }
            | Self::Mem { key, .. }
            | Self::MemTree { key, .. } => Some(key),
            Self::Checkout { .. } | Self::Commit { .. } => None,
        }
    }

    /// Returns the row with another key; for a copy, with another destination.
    #[must_use]
    pub const fn with_key(mut self, to: Key<'a>) -> Self {
        match &mut self {
            Self::Add { key, .. }
            | Self::Remove { key, .. }
            | Self::Copy { destination: key, .. }
            | Self::Find { key, .. }
            | Self::Mem { key, .. }
            | Self::MemTree { key, .. } => *key = to,
            Self::Checkout { .. } | Self::Commit { .. } => {}
        }
        self
    }
}

/// The operations, numbered as in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum RowKind {
    /// Loads the tree of a commit.
    Checkout = 0,
    /// Binds a key to a value.
    Add = 1,
    /// Removes a value or directory.
    Remove = 2,
    /// Binds a key to what is at another.
    Copy = 3,
    /// Looks a value up.
    Find = 4,
    /// Asks whether there is a value.
    Mem = 5,
    /// Asks whether there is a value or a directory.
    MemTree = 6,
    /// Makes a commit.
    Commit = 7,
}

impl RowKind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [Self; 8] =
        [Self::Checkout, Self::Add, Self::Remove, Self::Copy, Self::Find, Self::Mem, Self::MemTree, Self::Commit];

    /// Returns the name, as the format writes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Checkout => "Checkout",
            Self::Add => "Add",
            Self::Remove => "Remove",
            Self::Copy => "Copy",
            Self::Find => "Find",
            Self::Mem => "Mem",
            Self::MemTree => "Mem_tree",
            Self::Commit => "Commit",
        }
    }
}

impl fmt::Display for RowKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
