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

    /// Returns the mode by which Git's trees usually spell the kind.
    #[must_use]
    pub const fn git_mode(self) -> &'static str {
        match self {
            Self::Value => "100644",
            Self::Executable => "100755",
            Self::Link => "120000",
            Self::Dir => "40000",
            Self::Foreign => "160000",
        }
    }
}

impl core::fmt::Display for EntryKind {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

/// How Git spelled an entry's mode, where that is not how entries of its kind are usually spelled.
///
/// The id of a Git tree depends on it: old repositories hold `100664` and zero-padded modes. A format that is to
/// give such ids back keeps it with the entry; an entry that is set is spelled as usual.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Mode {
    digits: [u8; Self::BYTES_MAX],
    len: u8,
}

impl Mode {
    /// The usual spelling of the entry's kind.
    pub const USUAL: Self = Self { digits: [0; Self::BYTES_MAX], len: 0 };
    /// The longest spelling, in octal digits.
    pub const BYTES_MAX: usize = 11;

    /// Returns the mode with this spelling of an entry of kind `kind`; [`Mode::USUAL`] if it is the usual one.
    /// `None` unless it is 1 to 11 octal digits.
    #[must_use]
    pub fn spelled(kind: EntryKind, digits: &[u8]) -> Option<Self> {
        if digits == kind.git_mode().as_bytes() {
            return Some(Self::USUAL);
        }
        let octal = digits.iter().all(|digit| (b'0'..=b'7').contains(digit));
        if digits.is_empty() || digits.len() > Self::BYTES_MAX || !octal {
            return None;
        }
        let mut mode = Self { digits: [0; Self::BYTES_MAX], len: digits.len() as u8 };
        mode.digits[..digits.len()].copy_from_slice(digits);
        Some(mode)
    }

    /// Returns how it is kept with an entry of kind `kind`: digits that spell that kind as usual are
    /// [`Mode::USUAL`], whatever kind they were read for.
    #[must_use]
    #[inline]
    pub fn of_kind(self, kind: EntryKind) -> Self {
        if !self.is_usual() && self.as_bytes() == kind.git_mode().as_bytes() { Self::USUAL } else { self }
    }

    /// Whether it is the usual one of the entry's kind.
    #[must_use]
    pub const fn is_usual(&self) -> bool {
        self.len == 0
    }

    /// Returns the octal digits of an unusual mode; nothing of a usual one.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.digits[..usize::from(self.len)]
    }
}

impl core::fmt::Debug for Mode {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(if self.is_usual() { "usual" } else { core::str::from_utf8(self.as_bytes()).unwrap_or("?") })
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
        /// The value's length in bytes; [`Target::UNKNOWN_BYTES`] where the format's directories do not say.
        bytes: u64,
    },
    /// An id of another store.
    Foreign(Oid),
}

impl Target<'_> {
    /// Stands for the length of a value where the format's directories do not say it, as Git's do not.
    pub const UNKNOWN_BYTES: u64 = u64::MAX;

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
    /// How Git spelled that, if not as usual.
    pub mode: Mode,
    /// What it leads to.
    pub target: Target<'a>,
}

/// A change to one binding of a directory.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The step.
    pub step: &'a [u8],
    /// How Git spells what it is bound to from now on, if not as usual. A format that keeps no modes refuses others.
    pub mode: Mode,
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

/// The changes of a directory, sorted by step without duplicates. One that is asked for again is made again, and is the same.
///
/// A value in them ([`ChangeTarget::Inline`]) that is longer than the format keeps within a directory becomes an object of its
/// own, which the format gives to the sink.
pub trait ChangeList: Sync {
    /// Returns how many there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns one of them.
    fn get(&self, index: usize) -> Change<'_>;
}
