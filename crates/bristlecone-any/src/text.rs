//! How kinds of objects and names of the system are written.

use std::{os::unix::ffi::OsStrExt, path::Path};

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

/// Returns a name of the system, escaped where it could not be printed.
pub(crate) fn shown(name: &Path) -> String {
    escape(name.as_os_str().as_bytes())
}
