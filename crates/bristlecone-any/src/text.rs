//! How kinds of objects and names of the system are written.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use bristlecone::{Kind, escape};

/// Returns the name of a kind of objects, as entries of directories have it: `dir` and `value`.
#[must_use]
pub fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Node => "dir",
        Kind::Contents | Kind::Pieces => "value",
        kind => kind.name(),
    }
}

/// Returns a name of the system as it is, or escaped as paths in stores are if it cannot be printed.
#[must_use]
pub fn shown(name: impl AsRef<OsStr>) -> String {
    match name.as_ref().to_str() {
        Some(text) if !text.contains(|letter: char| letter.is_control()) => text.to_owned(),
        _ => escape(name.as_ref().as_bytes()),
    }
}
