//! Reading a pack: entries, chains of deltas, and the check of the whole.
//!
//! A chain is walked from the object to the first thing that is whole, in a loop, and then applied back. No delta is
//! trusted to lead there: a walk longer than the pack has objects goes in a circle.
//!
//! A pack of up to 64 KiB is checked against its digest when it is opened. Of a larger one a read checks the sums of
//! the streams that it inflates and the sizes of objects; damage that leaves these alone, such as a pointer to another
//! base of the same size, is found by the object's id ([`Odb::check`](crate::repository::odb::Odb::check)) or by
//! [`Pack::check`].

use std::io;
use std::sync::{Arc, RwLock};

use bristlecone::core::git::Algorithm;
use bristlecone::storage::Storage;
use bristlecone::{Error, Kind, Oid, Result};

use super::cache::{Base, BaseCache};
use super::data::Data;
use super::entry::{Entry, EntryKind};
use super::{Index, delta};
use crate::repository::error;

mod check;
mod entries;

/// The head of a pack in bytes: `12 = 4 magic + 4 version + 4 count`.
const HEADER_BYTES: u64 = 12;
/// The largest object that is kept because it was made by a delta, and so may be the base of the next.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// A pack of a repository.
///
/// Its index is read when it is opened, the pack itself when something is read from it.
#[derive(Debug)]
pub struct Pack {
    id: u32,
    name: String,
    file: String,
    storage: Arc<dyn Storage>,
    algorithm: Algorithm,
    index: Index,
    data: RwLock<Option<Arc<Data>>>,
    /// Whether the reader checks each entry by its checksum, so that the digest need not be checked.
    entries_only: bool,
}

impl Pack {
    /// Opens the pack `name` (`pack-…`, without ending) of the folder `dir`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if its index is damaged; those of the system.
    pub fn open(storage: &Arc<dyn Storage>, dir: &str, name: &str, algorithm: Algorithm) -> Result<Self> {
        let index = Index::open(&**storage, &format!("{dir}/{name}.idx"), algorithm)?;
        Ok(Self::with_index(storage, dir, name, algorithm, index, 0))
    }

    /// Returns the pack that `index` is of; `id` is its own among those that share a [`BaseCache`].
    pub(crate) fn with_index(
        storage: &Arc<dyn Storage>,
        dir: &str,
        name: &str,
        algorithm: Algorithm,
        index: Index,
        id: u32,
    ) -> Self {
        let file = format!("{dir}/{name}.pack");
        let (name, storage, data) = (name.to_owned(), storage.clone(), RwLock::new(None));
        Self { id, name, file, storage, algorithm, index, data, entries_only: false }
    }

    /// The same for a reader that calls [`Pack::check_entry`] for each entry that it reads: where the index has
    /// checksums, the digest is not looked at.
    pub(crate) fn entries_only(mut self) -> Self {
        self.entries_only = self.index.has_checksums();
        self
    }

    /// Returns the number that it was given.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Returns the name of its files without their ending.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its index.
    #[must_use]
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Replaces `out` by the object at a place of the index and returns its kind.
    ///
    /// # Errors
    /// [`Error::Corrupt`]; those of the system.
    ///
    /// # Panics
    /// Unless the place is below [`Index::len`].
    pub fn read(&self, n: usize, cache: &BaseCache, out: &mut Vec<u8>) -> Result<Kind> {
        let offset = self.offset(n)?;
        self.read_at(offset, cache, out).map_err(|error| named(error, || self.index.oid(n)))
    }

    /// Returns the kind and the size of the object at a place of the index, inflating next to nothing.
    ///
    /// # Errors
    /// [`Error::Corrupt`]; those of the system.
    ///
    /// # Panics
    /// Unless the place is below [`Index::len`].
    pub fn header(&self, n: usize, cache: &BaseCache) -> Result<(Kind, u64)> {
        let offset = self.offset(n)?;
        self.header_at(offset, cache).map_err(|error| named(error, || self.index.oid(n)))
    }

    /// Replaces `out` by the object at an offset and returns its kind.
    ///
    /// # Errors
    /// [`Error::Corrupt`]; those of the system.
    pub fn read_at(&self, offset: u64, cache: &BaseCache, out: &mut Vec<u8>) -> Result<Kind> {
        let data = self.data()?;
        out.clear();
        let mut deltas: Vec<(u64, Entry)> = Vec::new();
        let mut at = offset;
        let (kind, mut base) = loop {
            if let Some((kind, bytes)) = cache.get(self.id, at) {
                if deltas.is_empty() {
                    out.extend_from_slice(&bytes);
                    return Ok(kind);
                }
                break (kind, bytes);
            }
            let entry = self.entry_in(&data, at)?;
            let EntryKind::Whole(kind) = entry.kind else {
                deltas.push((at, entry));
                at = self.base(&entry, offset, deltas.len())?;
                continue;
            };
            if deltas.is_empty() {
                self.inflate_in(&data, at, &entry, out)?;
                return Ok(kind);
            }
            let mut bytes = Vec::new();
            self.inflate_in(&data, at, &entry, &mut bytes)?;
            break (kind, self.keep(cache, at, kind, bytes));
        };
        let mut instructions = Vec::new();
        while let Some((at, entry)) = deltas.pop() {
            instructions.clear();
            self.inflate_in(&data, at, &entry, &mut instructions)?;
            if deltas.is_empty() {
                delta::apply(&base, &instructions, out).map_err(|reason| self.corrupt(at, reason))?;
                if cache.is_on() && out.len() <= KEPT_BYTES_MAX {
                    self.keep(cache, at, kind, out.clone());
                }
            } else {
                let mut bytes = Vec::new();
                delta::apply(&base, &instructions, &mut bytes).map_err(|reason| self.corrupt(at, reason))?;
                base = self.keep(cache, at, kind, bytes);
            }
        }
        Ok(kind)
    }

    /// Returns the kind and the size of the object at an offset, inflating next to nothing.
    ///
    /// # Errors
    /// [`Error::Corrupt`]; those of the system.
    pub fn header_at(&self, offset: u64, cache: &BaseCache) -> Result<(Kind, u64)> {
        let data = self.data()?;
        let mut at = offset;
        let mut size = None;
        for steps in 1.. {
            if let Some((kind, bytes)) = cache.get(self.id, at) {
                return Ok((kind, size.unwrap_or(bytes.len() as u64)));
            }
            let entry = self.entry_in(&data, at)?;
            if let EntryKind::Whole(kind) = entry.kind {
                return Ok((kind, size.unwrap_or(entry.size)));
            }
            if size.is_none() {
                size = Some(self.result_size(&data, &entry)?);
            }
            at = self.base(&entry, offset, steps)?;
        }
        unreachable!("a chain has an end, or is longer than the pack")
    }

    /// Opens the file, if it is not open, and returns how much memory that takes of our own.
    pub(crate) fn open_now(&self) -> Result<u64> {
        let data = self.data()?;
        Ok(if let Data::Bytes(bytes) = &*data { bytes.len() as u64 } else { 0 })
    }

    /// Closes the file until something is read again.
    pub(crate) fn close(&self) {
        *self.data.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = None;
    }

    /// Whether the file is open.
    pub(crate) fn is_open(&self) -> bool {
        self.data.read().unwrap_or_else(|poisoned| poisoned.into_inner()).is_some()
    }

    /// Returns what messages call the pack.
    pub(crate) fn describe(&self) -> String {
        self.storage.describe(&self.file)
    }

    pub(crate) fn offset(&self, n: usize) -> Result<u64> {
        self.index.offset(n).ok_or_else(|| {
            error::corrupt(self.index.file(), 0, Some(self.index.oid(n)), "the offset of this object is invalid")
        })
    }

    /// Returns where entries end: before the digest.
    pub(crate) fn entries_end(&self) -> Result<u64> {
        Ok(self.end(&*self.data()?))
    }

    fn end(&self, data: &Data) -> u64 {
        data.len().saturating_sub(self.algorithm.oid_bytes() as u64)
    }

    /// Returns the bytes of the pack, opening it if need be.
    fn data(&self) -> Result<Arc<Data>> {
        if let Some(data) = &*self.data.read().unwrap_or_else(|poisoned| poisoned.into_inner()) {
            return Ok(data.clone());
        }
        let data = Data::open(&*self.storage, &self.file, false).map_err(|source| self.io(source))?;
        self.check_header(&data)?;
        let mut place = self.data.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        Ok(place.get_or_insert(Arc::new(data)).clone())
    }

    /// Returns the offset of the base of a delta, the `steps`th on the way from the object at `offset`.
    fn base(&self, entry: &Entry, offset: u64, steps: usize) -> Result<u64> {
        if steps > self.index.len() {
            return Err(self.corrupt(offset, "the deltas go in a circle"));
        }
        match entry.kind {
            EntryKind::OffsetDelta(base) => Ok(base),
            EntryKind::OidDelta(oid) => {
                let n = self.index.find(&oid).ok_or_else(|| {
                    error::corrupt(self.describe(), offset, None, format!("the base of the delta, {oid}, is not here"))
                })?;
                self.offset(n)
            }
            EntryKind::Whole(_) => Err(self.corrupt(offset, "an object that is whole has no base")),
        }
    }

    fn keep(&self, cache: &BaseCache, offset: u64, kind: Kind, bytes: Vec<u8>) -> Arc<Vec<u8>> {
        let base: Base = (kind, Arc::new(bytes));
        let bytes = base.1.clone();
        cache.insert(self.id, offset, base);
        bytes
    }

    fn corrupt(&self, offset: u64, reason: &'static str) -> Error {
        error::corrupt(self.describe(), offset, None, reason)
    }

    fn io(&self, source: io::Error) -> Error {
        Error::io(self.describe(), source)
    }
}

/// Says of which object damage is, unless that is known.
fn named(error: Error, name: impl FnOnce() -> Oid) -> Error {
    match error {
        Error::Corrupt { file, offset, oid: None, reason } => {
            Error::Corrupt { file, offset, oid: Some(name()), reason }
        }
        other => other,
    }
}
