//! A working tree as it is found, before anything is changed.

use std::{
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::PathBuf,
};

use bristlecone::{EntryKind, Error, Kind, Oid, Result, core::git::Algorithm};

use super::{
    change::Refusal,
    folder::Top,
    index::{Index, IndexEntry, IndexError, IndexStat},
    settings::Settings,
};
use crate::repository::layout::Layout;

/// A working tree as it is found: its files, its index, its settings.
#[derive(Debug)]
pub(super) struct WorktreeView {
    pub(super) algorithm: Algorithm,
    pub(super) common_dir: PathBuf,
    // Files of attributes outside of the working tree, those that count for more last.
    pub(super) attributes_files: Vec<PathBuf>,
    pub(super) settings: Settings,
    pub(super) top: Top,
    pub(super) index: Index,
    // Entries whose files changed in this second or later may have changed again without a trace.
    pub(super) index_seconds: i64,
}

impl WorktreeView {
    /// Marks entries that the old index was too young to vouch for: the new one will be older than their files, so that
    /// a change in the same second would never be noticed.
    pub(super) fn doubt_racy(&mut self) {
        let (top, algorithm, seconds) = (&self.top, self.algorithm, self.index_seconds);
        self.index.doubt(|entry, path| {
            let racy = i64::from(entry.stat.mtime.0) >= seconds;
            let file = matches!(entry.kind(), EntryKind::Value | EntryKind::Executable | EntryKind::Link);
            racy && file
                && !entry.is_skipped()
                && !holds(top, algorithm, path, entry.kind(), entry.oid).unwrap_or(false)
        });
    }

    /// Whether the file of an entry is as the entry says, its executable bit left out.
    pub(super) fn is_unchanged(&self, entry: &IndexEntry, path: &[u8], stat: &IndexStat) -> io::Result<bool> {
        let known = entry.stat;
        let same = (known.mtime, known.ctime, known.inode, known.user, known.group, known.bytes)
            == (stat.mtime, stat.ctime, stat.inode, stat.user, stat.group, stat.bytes);
        if same && i64::from(stat.mtime.0) < self.index_seconds {
            return Ok(true);
        }
        holds(&self.top, self.algorithm, path, entry.kind(), entry.oid)
    }
}

/// Whether a file or link has the contents with this id.
pub(super) fn holds(top: &Top, algorithm: Algorithm, path: &[u8], kind: EntryKind, oid: Oid) -> io::Result<bool> {
    let bytes = top.read(path, kind == EntryKind::Link)?;
    Ok(bytes.is_some_and(|bytes| algorithm.object_id(Kind::Contents, &bytes) == oid))
}

/// Reads the index, and the second in which it was written.
pub(super) fn read_index(layout: &Layout) -> Result<(Index, i64), Refusal> {
    let path = layout.git_dir.join("index");
    let shown = path.display().to_string();
    let failed = |source| Error::io(shown.clone(), source);
    if fs::symlink_metadata(&path).is_ok_and(|found| found.is_symlink()) {
        return Err(Refusal::Whole(format!("{shown} is a link, which would be replaced; commit with git instead")));
    }
    let mut bytes = Vec::new();
    let seconds = match File::open(&path) {
        Ok(mut file) => {
            file.read_to_end(&mut bytes).map_err(failed)?;
            file.metadata().map_err(failed)?.mtime()
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Index::empty(layout.algorithm), 0)),
        Err(source) => return Err(Refusal::Failed(Error::io(shown, source))),
    };
    match Index::decode(layout.algorithm, &bytes) {
        Ok(index) => Ok((index, seconds)),
        Err(IndexError::Unsupported(why)) => Err(Refusal::Whole(why)),
        Err(IndexError::Damaged(offset, reason)) => Err(Refusal::Failed(Error::Corrupt {
            file: shown,
            offset: offset as u64,
            oid: None,
            reason: reason.to_owned(),
        })),
    }
}
