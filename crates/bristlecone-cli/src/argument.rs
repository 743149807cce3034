//! From words of the command line to paths.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use bristlecone::Path;
use bristlecone_any::path;

use crate::failure::{Failure, Result};

/// Returns the path of a value, which has no slash behind it.
pub(crate) fn value_path(argument: &OsStr) -> Result<Path> {
    let path = entry_path(argument)?;
    if argument.as_bytes().ends_with(b"/") {
        let way = format!("leave the slash out, or name an entry in it such as {path}/name");
        return Err(Failure::usage(format!("\"{path}/\" names a directory, and a value is to be set; {way}")));
    }
    Ok(path)
}

/// Returns the path of an entry, which the root is not.
pub(crate) fn entry_path(argument: &OsStr) -> Result<Path> {
    let path = path::parse(argument)?;
    if path.is_root() {
        return Err(Failure::usage("an empty path is the root, which is a directory; name an entry in it"));
    }
    Ok(path)
}

/// Returns the one step that an argument is.
pub(crate) fn step(argument: &OsStr) -> Result<Vec<u8>> {
    let path = path::parse(argument)?;
    match path.len() {
        0 => {
            Err(Failure::usage("the name of a step is empty; name an entry of the directory, or leave the option out"))
        }
        1 => Ok(path.as_bytes().to_vec()),
        _ => Err(Failure::usage(format!(
            "\"{path}\" is more than one step; give one, without a slash, and the directory as the path"
        ))),
    }
}
