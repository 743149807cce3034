//! Loose objects: one file each, a header and the object's bytes, deflated together.

use bristlecone::{Kind, Oid};

use crate::pack::Compression;

/// Returns the name of an object's file below the folder of objects: `ab/cdef…`.
#[must_use]
pub fn name(oid: &Oid) -> String {
    let hex = oid.to_string();
    format!("{}/{}", &hex[..2], &hex[2..])
}

/// Appends the file of an object whose bytes, as Git has them, are `raw`.
///
/// # Panics
/// For a kind that Git does not have.
pub fn encode(_kind: Kind, _raw: &[u8], _compression: Compression, _out: &mut Vec<u8>) {
    todo!()
}

/// Replaces `out` by the bytes of the object that a file holds and returns its kind.
///
/// # Errors
/// What is wrong with the file.
pub fn decode(_file: &[u8], _out: &mut Vec<u8>) -> Result<Kind, &'static str> {
    todo!()
}

/// Returns the kind and the size that a file states, of which the first 64 bytes or more are given.
///
/// # Errors
/// What is wrong with the file.
pub fn decode_header(_file: &[u8]) -> Result<(Kind, u64), &'static str> {
    todo!()
}
