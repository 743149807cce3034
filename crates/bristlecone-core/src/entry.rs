//! Entries: what a directory binds to a step, in no particular format.

use crate::{Bytes, ObjRef, Oid};

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum EntryKind {
    /// A value.
    Value = 0,
    /// A value with the executable bit, as Git keeps one.
    Executable = 1,
    /// A symbolic link: a value that is the link's target.
    Link = 2,
    /// A directory.
    Dir = 3,
    /// The id of an object of another store, such as a submodule's commit.
    Foreign = 4,
}

impl EntryKind {
    /// Returns the kind with this number.
    #[must_use]
    #[inline]
    pub const fn from_u8(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Value,
            1 => Self::Executable,
            2 => Self::Link,
            3 => Self::Dir,
            4 => Self::Foreign,
            _ => return None,
        })
    }

    /// Whether the entry holds bytes: a value, executable or link.
    #[must_use]
    #[inline]
    pub const fn has_contents(self) -> bool {
        matches!(self, Self::Value | Self::Executable | Self::Link)
    }

    /// Returns the kind's name, as JSON and messages write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Value => "value",
            Self::Executable => "executable",
            Self::Link => "link",
            Self::Dir => "dir",
            Self::Foreign => "foreign",
        }
    }
}

/// What an entry leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// A value that lives in the directory itself.
    Inline(Bytes<'a>),
    /// An object: a value of `bytes` bytes, or a directory (`bytes` is then 0).
    Object {
        /// The object.
        at: ObjRef,
        /// The value's length in bytes.
        bytes: u64,
    },
    /// An id of another store.
    Foreign(Oid),
}

impl Target<'_> {
    /// Returns a target that borrows nothing.
    #[must_use]
    pub fn into_static(self) -> Target<'static> {
        match self {
            Self::Inline(bytes) => Target::Inline(bytes.into_static()),
            Self::Object { at, bytes } => Target::Object { at, bytes },
            Self::Foreign(oid) => Target::Foreign(oid),
        }
    }
}

/// One binding of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The step that it is bound to.
    pub step: Bytes<'a>,
    /// What it is.
    pub kind: EntryKind,
    /// What it leads to.
    pub target: Target<'a>,
}

/// A change to one binding of a directory.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The step.
    pub step: &'a [u8],
    /// What it is bound to from now on; `None` removes it.
    pub to: Option<(EntryKind, ChangeTarget<'a>)>,
}

/// What a changed binding leads to.
#[derive(Clone, Copy, Debug)]
pub enum ChangeTarget<'a> {
    /// A value short enough to live in the directory.
    Inline(&'a [u8]),
    /// An object, already given to the sink or stored: a value of `bytes` bytes, or a directory.
    Object {
        /// The object.
        at: ObjRef,
        /// The value's length in bytes; 0 for a directory.
        bytes: u64,
    },
    /// An id of another store.
    Foreign(Oid),
}
