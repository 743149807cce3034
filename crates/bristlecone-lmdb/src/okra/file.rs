//! The file of a map, read without LMDB: it believes what a page says, and a damaged one can end the process.
//!
//! The first pages are looked at before LMDB maps the file; all pages where the file is small or shorter than these say, and when
//! the map is checked.

use std::{io, path::Path, sync::Arc};

use bristlecone::storage::{OpenMode, RealStorage, Storage, StorageFile, retry};

use super::error::{OkraError, Result};
use crate::env::{
    has_no_room,
    layout::{BadMeta, DataFile, Meta, TRIES},
    pages::{PageFault, PageWalk},
};

/// All pages of a file that is no longer than this are looked at before it is mapped: that takes some milliseconds.
const SMALL_BYTES: u64 = 16 << 20;
/// A write that was cut short found less room than this, in bytes.
const ROOM_BYTES: u64 = 1 << 20;

/// The file of the data.
#[derive(Debug)]
pub(super) struct MapFile {
    storage: RealStorage,
    name: String,
    /// The file as errors name it.
    shown: String,
    /// The name of the database that is the map.
    database: Option<Vec<u8>>,
}

impl MapFile {
    /// Returns the file `name` of a folder.
    pub(super) fn new(folder: &Path, name: String, shown: String, database: Option<&str>) -> Self {
        let database = database.map(|name| name.as_bytes().to_vec());
        Self { storage: RealStorage::new(folder), name, shown, database }
    }

    /// Checks what LMDB would follow out of the file, before it maps it. A file that is absent or empty is one to be made.
    pub(super) fn check_before_open(&self) -> Result<()> {
        let mut checked = Ok(());
        for _ in 0..TRIES {
            checked = self.check_once();
            // Another process may write these pages meanwhile.
            if !matches!(checked, Err(OkraError::Corrupt { .. })) {
                break;
            }
        }
        checked
    }

    fn check_once(&self) -> Result<()> {
        let file = match retry(|| self.storage.open(&self.name, OpenMode::Read)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            opened => opened.map_err(|error| self.failed(error))?,
        };
        if file.len().map_err(|error| self.failed(error))? == 0 {
            return Ok(());
        }
        let found = match DataFile::read(&*file).map_err(|error| self.failed(error))? {
            Ok(found) => found,
            Err(bad) => return Err(self.refused(bad)),
        };
        let (bytes, is_short) = (found.bytes, found.is_short());
        if !is_short && bytes > SMALL_BYTES {
            return Ok(());
        }
        let faults = self.walk(&*file, found.meta)?;
        let Some(PageFault { offset, reason }) = faults.first() else { return Ok(()) };
        // Where another process commits meanwhile, it may use pages of this commit again: what was met says nothing then.
        match DataFile::read(&*file).map_err(|error| self.failed(error))? {
            Ok(now) if now.meta.txn != found.meta.txn => Ok(()),
            _ if is_short => {
                let reason = format!("it has {bytes} bytes, less than its first pages say: {reason}");
                Err(self.corrupt(*offset, &reason))
            }
            _ => Err(self.corrupt(*offset, reason)),
        }
    }

    /// Checks every page of the map, as the transaction with this number left them; the caller keeps them from being used again.
    /// `is_newest`: no later commit can come.
    pub(super) fn check_pages(&self, txn: u64, is_newest: bool) -> Result<()> {
        let opened = retry(|| self.storage.open(&self.name, OpenMode::Read)).map_err(|error| self.failed(error))?;
        let metas = match Meta::read_both(&*opened).map_err(|error| self.failed(error))? {
            Ok(metas) => metas,
            Err(bad) => return Err(self.refused(bad)),
        };
        let newest = metas.into_iter().max_by_key(|meta| meta.txn).filter(|_| is_newest);
        let Some(meta) = newest.or_else(|| metas.into_iter().find(|meta| meta.txn == txn)) else {
            // Two commits came since the reader began. Their first pages were sound, and its own are not told any more.
            return Ok(());
        };
        let faults = self.walk(&*opened, meta)?;
        faults.first().map_or(Ok(()), |PageFault { offset, reason }| Err(self.corrupt(*offset, reason)))
    }

    /// Whether the device has no room, or the file is as long as this process may make it.
    pub(super) fn has_no_room(&self) -> bool {
        let bytes = self.storage.stat(&self.name).map_or(0, |found| found.bytes);
        has_no_room(&self.storage, bytes, ROOM_BYTES)
    }

    fn walk(&self, file: &dyn StorageFile, meta: Meta) -> Result<Vec<PageFault>> {
        let walked = PageWalk::new(file, meta).and_then(|walk| walk.run_map(self.database.as_deref()));
        walked.map_err(|error| self.failed(error))
    }

    fn failed(&self, error: io::Error) -> OkraError {
        match error.kind() {
            // Another program cuts the file.
            io::ErrorKind::UnexpectedEof => self.corrupt(0, "the file ends before a page that is in use"),
            _ => OkraError::Io { file: self.shown.clone(), source: Arc::new(error) },
        }
    }

    fn corrupt(&self, offset: u64, reason: &str) -> OkraError {
        let reason = format!("{reason}; put the file back from a backup");
        OkraError::Corrupt { file: self.shown.clone(), offset, reason }
    }

    fn refused(&self, bad: BadMeta) -> OkraError {
        let incompatible = |found: String, expected: &str| OkraError::Incompatible {
            file: self.shown.clone(),
            found,
            expected: expected.to_owned(),
        };
        match bad {
            BadMeta::Foreign => incompatible("a file that is not LMDB's".to_owned(), "an LMDB file with an Okra map"),
            BadMeta::Version(version) => incompatible(format!("LMDB's format {version}"), "a file of LMDB 0.9"),
            BadMeta::Flags(flags) => incompatible(
                format!("an LMDB database with the flags {flags:#x}"),
                "one without flags, as Okra makes them",
            ),
            BadMeta::Damaged(offset, reason) => OkraError::Corrupt { file: self.shown.clone(), offset, reason },
        }
    }
}
