//! Files that a sparse checkout leaves out of a folder.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path as FilePath};

use bristlecone::{EntryKind, Format, Kind, ObjRef, Path, core::Source};

use super::{Contents, read::Bytes, rules::Rules};
use crate::{failure::Result, formats::Tree, open::Opened};

/// Adds files that a sparse checkout leaves out of the folder: they are as the index has them. Returns how many there are.
pub(super) fn add(opened: &Opened, dir: &FilePath, rules: &Rules, tree: &mut Tree) -> Result<u64> {
    let mut count = 0;
    for (path, item) in rules.skipped() {
        if dir.join(OsStr::from_bytes(path)).symlink_metadata().is_ok() {
            continue;
        }
        let contents = match item.kind {
            EntryKind::Foreign => Contents::Submodule(item.oid),
            kind => {
                let (at, objects) = (ObjRef::from(item.oid), Objects(opened));
                let bytes = opened.repo.format().read_contents(&objects, &at, 0..u64::MAX)?;
                Contents::Value(kind, Bytes::Here(bytes.to_vec()))
            }
        };
        contents.add_to(tree, &Path::from_bytes(path)?)?;
        count += 1;
    }
    Ok(count)
}

/// The objects of a store.
struct Objects<'a>(&'a Opened);

impl Source for Objects<'_> {
    type Error = bristlecone::Error;

    fn read<'a>(&'a self, kind: Kind, at: &ObjRef) -> bristlecone::Result<bristlecone::Object<'a>> {
        let object = self.0.repo.backend().read(at)?;
        object.ok_or(bristlecone::Error::Missing { kind, oid: at.oid })
    }
}
