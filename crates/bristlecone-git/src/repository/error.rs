//! Errors of damaged files, with their names.

use bristlecone::{Error, Oid};

/// Says that the bytes of `file` at `offset` are not what they should be.
pub(crate) fn corrupt(file: impl Into<String>, offset: u64, oid: Option<Oid>, reason: impl Into<String>) -> Error {
    Error::Corrupt { file: file.into(), offset, oid, reason: reason.into() }
}
