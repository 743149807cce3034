//! Files that a sparse checkout leaves out of a folder.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path as FilePath};

use bristlecone::{EntryKind, Path};

use super::{Contents, read::Bytes, rules::Rules};
use crate::{AnyRepo, Tree, error::Result};

/// Adds files that a sparse checkout leaves out of the folder: they are as the index has them. Returns how many there are.
pub(super) fn add(repo: &AnyRepo, dir: &FilePath, rules: &Rules, tree: &mut Tree) -> Result<u64> {
    let mut count = 0;
    for (path, item) in rules.skipped() {
        if dir.join(OsStr::from_bytes(path)).symlink_metadata().is_ok() {
            continue;
        }
        let contents = match item.kind {
            EntryKind::Foreign => Contents::Submodule(item.oid),
            kind => Contents::Value(kind, Bytes::Here(repo.contents(item.oid.into())?)),
        };
        contents.add_to(tree, &Path::from_bytes(path)?)?;
        count += 1;
    }
    Ok(count)
}
