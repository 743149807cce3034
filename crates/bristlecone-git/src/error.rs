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
