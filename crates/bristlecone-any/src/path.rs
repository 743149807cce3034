//! Paths as people write them, and what is said where there is nothing at one.

use std::{ffi::OsStr, fmt::Write, os::unix::ffi::OsStrExt};

use bristlecone::{EntryKind, Path};

pub use crate::text::kind_name;
use crate::{
    Tree,
    error::{Error, Result},
};

/// Returns the path that a text is: steps separated by `/`, `%XX` for any byte. Bytes that are not UTF-8 stand for
/// themselves. A slash behind the last step is left out, as listings show it and shells complete it.
///
/// # Errors
/// [`bristlecone::Error::Path`].
pub fn parse(text: &OsStr) -> Result<Path> {
    let text = as_text(text);
    let steps = text.strip_suffix('/').filter(|steps| !steps.is_empty() && !steps.ends_with('/'));
    Ok(steps.unwrap_or(&text).parse()?)
}

fn as_text(name: &OsStr) -> String {
    let mut text = String::new();
    for chunk in name.as_bytes().utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

/// Checks that there is a directory at `path`.
///
/// # Errors
/// [`Error::NotADirectory`], [`Error::Submodule`], [`Error::NothingAt`]; those of the backend.
pub fn check_dir(tree: &Tree, path: &Path) -> Result<()> {
    if path.is_root() {
        return Ok(());
    }
    match tree.entry(path)? {
        Some(entry) if entry.kind() == EntryKind::Dir => Ok(()),
        Some(entry) => Err(match entry.foreign() {
            Some(oid) => Error::Submodule { path: path.clone(), oid },
            None => Error::NotADirectory { path: path.clone(), kind: entry.kind() },
        }),
        None => Err(nothing_at(tree, path)?),
    }
}

/// Returns the error for a path at which there is nothing.
///
/// # Errors
/// Those of the backend.
pub fn nothing_at(tree: &Tree, path: &Path) -> Result<Error> {
    Ok(Error::NothingAt { path: path.clone(), value_above: value_above(tree, path)? })
}

/// Returns the path above `path` that holds a value, if one does.
///
/// # Errors
/// Those of the backend.
pub fn value_above(tree: &Tree, path: &Path) -> Result<Option<Path>> {
    let mut above = Path::root();
    let steps: Vec<&[u8]> = path.steps().collect();
    for step in steps.iter().take(steps.len().saturating_sub(1)) {
        above.push(step)?;
        match tree.entry(&above)? {
            Some(entry) if entry.kind() == EntryKind::Dir => {}
            Some(_) => return Ok(Some(above)),
            None => return Ok(None),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_are_not_utf8_are_paths_too() {
        assert_eq!(parse(OsStr::from_bytes(b"a/\xff%20")).unwrap().as_bytes(), b"a/\xff ");
    }
}
