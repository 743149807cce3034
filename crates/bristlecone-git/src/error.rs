//! Errors of the system and of damaged files, with their names.

use std::io;

use bristlecone::{Error, Oid};

/// Wraps a failure of the system with the file's name.
pub(crate) fn io(file: impl Into<String>, source: io::Error) -> Error {
    let file = file.into();
    if source.kind() == io::ErrorKind::StorageFull || source.kind() == io::ErrorKind::QuotaExceeded {
        return Error::NoSpace { file };
    }
    Error::Io { file, source }
}

/// Says that the bytes of `file` at `offset` are not what they should be.
pub(crate) fn corrupt(file: impl Into<String>, offset: u64, oid: Option<Oid>, reason: impl Into<String>) -> Error {
    Error::Corrupt { file: file.into(), offset, oid, reason: reason.into() }
}

/// Repeats an error to another one who waited for the same.
pub(crate) fn again(error: &Error) -> Error {
    match error {
        Error::NoSpace { file } => Error::NoSpace { file: file.clone() },
        Error::Poisoned { reason } => Error::Poisoned { reason: reason.clone() },
        Error::ReadOnly => Error::ReadOnly,
        Error::Usage { reason } => Error::Usage { reason },
        Error::RefName { name } => Error::RefName { name: name.clone() },
        Error::RefClash { name, other } => Error::RefClash { name: name.clone(), other: other.clone() },
        Error::Conflict { name, found } => Error::Conflict { name: name.clone(), found: found.clone() },
        Error::Locked { file, holder, waited_ms } => {
            Error::Locked { file: file.clone(), holder: holder.clone(), waited_ms: *waited_ms }
        }
        Error::Corrupt { file, offset, oid, reason } => {
            Error::Corrupt { file: file.clone(), offset: *offset, oid: *oid, reason: reason.clone() }
        }
        Error::Io { file, source } => {
            Error::Io { file: file.clone(), source: io::Error::new(source.kind(), source.to_string()) }
        }
        other => Error::Io { file: String::new(), source: io::Error::other(other.to_string()) },
    }
}
