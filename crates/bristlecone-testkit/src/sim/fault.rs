//! Calls by number, and what happens to some of them.

use std::{fmt, io, sync::Arc};

/// What a numbered call was.
#[derive(Clone, Debug)]
pub struct Call {
    /// The kind.
    pub kind: CallKind,
    /// The file or folder; for a rename the old name, for an exchange the first.
    pub name: Arc<str>,
    /// Where it wrote or read, or the length that it set.
    pub offset: u64,
    /// How many bytes it wrote or read.
    pub bytes: u64,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} \"{}\"", self.kind, self.name)?;
        match self.kind {
            CallKind::Write | CallKind::Read | CallKind::Map => write!(f, " {} bytes at {}", self.bytes, self.offset),
            CallKind::SetLen => write!(f, " to {}", self.offset),
            _ => Ok(()),
        }
    }
}

/// The kinds of calls that have numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallKind {
    /// A write to a file.
    Write,
    /// A change of a file's length.
    SetLen,
    /// A sync of a file.
    Sync,
    /// A sync of a folder.
    SyncDir,
    /// A new file.
    Create,
    /// A new folder.
    CreateDir,
    /// A rename.
    Rename,
    /// An exchange of two names.
    Exchange,
    /// A removal.
    Remove,
    /// A removal of a folder.
    RemoveDir,
    /// A read; numbered only where asked for.
    Read,
    /// A map of a file; numbered where reads are.
    Map,
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Input/output error. A write may have gone part of the way; after a sync nothing is known of what it
    /// should have made durable.
    Io,
    /// As [`Fault::Io`]; and after a sync of a folder the names that it should have made durable count as durable and are not, so
    /// that no later sync brings them.
    Forgotten,
    /// No space left on the device. A write may have gone part of the way.
    NoSpace,
    /// Interrupted by a signal; nothing happened.
    Interrupted,
    /// Success, but a write or read of half the bytes; other calls are as ever.
    Short,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Io, Self::Forgotten, Self::NoSpace, Self::Interrupted, Self::Short];

    /// Returns the system's error, if the fault is one.
    #[must_use]
    pub fn error(self) -> Option<io::Error> {
        // The numbers of Linux: 5 = EIO, 28 = ENOSPC, 4 = EINTR.
        Some(match self {
            Self::Io | Self::Forgotten => io::Error::from_raw_os_error(5),
            Self::NoSpace => io::Error::from_raw_os_error(28),
            Self::Interrupted => io::Error::from_raw_os_error(4),
            Self::Short => return None,
        })
    }
}

/// How often a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// At one call.
    Once,
    /// At that call and every later one.
    Forever,
}
