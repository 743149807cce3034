//! Reading a pack: entries, chains of deltas, and the check of the whole.
//!
//! A chain is walked from the object to the first thing that is whole, in a loop, and then applied back. No delta is
//! trusted to lead there: a walk longer than the pack has objects goes in a circle.
//!
//! A pack of up to 64 KiB is checked against its digest when it is opened. Of a larger one a read checks the sums of
//! the streams that it inflates and the sizes of objects; damage that leaves these alone, such as a pointer to another base of
//! the same size, is found by the object's id ([`Odb::check`](crate::repository::odb::Odb::check)) or by [`Pack::check`].

use std::io;
use std::sync::{Arc, RwLock};

use bristlecone::core::git::Algorithm;
use bristlecone::storage::Storage;
use bristlecone::{Error, Kind, Oid, Result};

use super::cache::{Base, BaseCache};
use super::data::{Data, WHOLE_BYTES_MAX};
use super::entry::{Entry, EntryKind, HEAD_BYTES_MAX};
use super::{Index, delta};
use crate::repository::hash::Hasher;
use crate::repository::{error, zlib};

/// The head of a pack in bytes: `12 = 4 magic + 4 version + 4 count`.
const HEADER_BYTES: u64 = 12;
/// How many bytes of a deflated delta are read for the sizes that it begins with.
const FRONT_BYTES: usize = 256;
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
    /// Whether whoever reads checks entries by their checksums, so that the digest need not be.
    entries_only: bool,
}

/// What stops a read, before it has a name and a place.
enum Fault {
    Bad(&'static str),
    Io(io::Error),
}

impl From<&'static str> for Fault {
    fn from(reason: &'static str) -> Self {
        Self::Bad(reason)
    }
}

impl From<io::Error> for Fault {
    fn from(source: io::Error) -> Self {
        Self::Io(source)
    }
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

    /// The same for a reader that calls [`Pack::check_entry`] for each entry that it reads: where the index has checksums,
    /// the digest is not looked at.
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

    /// Returns the head of the entry at an offset.
    ///
    /// # Errors
    /// [`Error::Corrupt`]; those of the system.
    pub fn entry(&self, offset: u64) -> Result<Entry> {
        self.entry_in(&*self.data()?, offset)
    }

    /// Appends what an entry holds, an object or a delta, and returns the offset at which it ends in the pack.
    ///
    /// # Errors
    /// [`Error::Corrupt`]; those of the system.
    pub fn inflate(&self, entry: &Entry, out: &mut Vec<u8>) -> Result<u64> {
        self.inflate_in(&*self.data()?, entry.data_offset, entry, out)
    }

    /// Appends the bytes of the pack from `begin` to `end` as they are.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the pack ends before; those of the system.
    pub(crate) fn copy(&self, begin: u64, end: u64, out: &mut Vec<u8>) -> Result<()> {
        let data = self.data()?;
        let size = usize::try_from(end.saturating_sub(begin)).map_err(|_| self.corrupt(begin, "it is too large"))?;
        let mut buffer = Vec::new();
        let window = data.window(begin, size, &mut buffer).map_err(|source| self.io(source))?;
        out.extend_from_slice(window.get(..size).ok_or_else(|| self.corrupt(begin, "the pack is cut off"))?);
        Ok(())
    }

    /// Checks the pack and its index as wholes: digests, order, checksums of entries. Objects are not looked into.
    ///
    /// # Errors
    /// [`Error::Corrupt`] with what is wrong first; those of the system.
    pub fn check(&self) -> Result<()> {
        self.index.check()?;
        let data = self.data()?;
        let end = self.end(&data);
        self.check_digest(&data)?;
        let order = self.index.by_offset()?;
        for (i, &(offset, n)) in order.iter().enumerate() {
            let next = order.get(i + 1).map_or(end, |next| next.0);
            self.check_entry(n as usize, offset, next.min(end))?;
        }
        Ok(())
    }

    /// Checks the bytes of the entry at a place of the index, from `offset` to `end`, against the checksum in the index,
    /// if it has them.
    pub(crate) fn check_entry(&self, n: usize, offset: u64, end: u64) -> Result<()> {
        let Some(crc) = self.index.crc(n) else { return Ok(()) };
        let data = self.data()?;
        let mut sum = crc32fast::Hasher::new();
        let mut buffer = Vec::new();
        let mut at = offset;
        while at < end {
            let window = data.window(at, 1, &mut buffer).map_err(|source| self.io(source))?;
            let window = &window[..window.len().min((end - at) as usize)];
            if window.is_empty() {
                return Err(self.corrupt(at, "the pack is cut off"));
            }
            sum.update(window);
            at += window.len() as u64;
        }
        if sum.finalize() == crc {
            return Ok(());
        }
        let error = self.corrupt(offset, "the entry is not what its checksum says");
        Err(named(error, || self.index.oid(n)))
    }

    /// Whether the zlib stream of an entry begins with a stored block: nothing was deflated.
    pub(crate) fn is_stored(&self, entry: &Entry) -> Result<bool> {
        let data = self.data()?;
        let mut buffer = Vec::new();
        let window = data.window(entry.data_offset, 3, &mut buffer).map_err(|source| self.io(source))?;
        Ok(window.get(2).is_some_and(|block| block & 0b110 == 0))
    }

    /// Opens the file, if it is not open, and returns how much memory that takes of our own.
    pub(crate) fn open_now(&self) -> Result<u64> {
        let data = self.data()?;
        Ok(if let Data::Bytes(bytes) = &*data { bytes.len() as u64 } else { 0 })
    }

    /// Lets go of the file until something is read again.
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
            error::corrupt(self.index.file(), 0, Some(self.index.oid(n)), "the offset of this object is none")
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
        self.greet(&data)?;
        let mut place = self.data.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        Ok(place.get_or_insert(Arc::new(data)).clone())
    }

    /// Checks what a pack says of itself against its index.
    fn greet(&self, data: &Data) -> Result<()> {
        let mut buffer = Vec::new();
        let window = data.window(0, HEADER_BYTES as usize, &mut buffer).map_err(|source| self.io(source))?;
        let header = window.first_chunk::<12>().ok_or_else(|| self.corrupt(0, "the pack is cut off"))?;
        if &header[..4] != b"PACK" || !matches!(header[4..8], [0, 0, 0, 2 | 3]) {
            return Err(self.corrupt(0, "this is no pack of version 2 or 3"));
        }
        let count = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
        if count as usize != self.index.len() {
            return Err(self.corrupt(8, "the pack and its index differ in their number of objects"));
        }
        let end = self.end(data);
        let oid_bytes = self.algorithm.oid_bytes();
        let mut buffer = Vec::new();
        let window = data.window(end, oid_bytes, &mut buffer).map_err(|source| self.io(source))?;
        if end < HEADER_BYTES || window != self.index.pack_digest() {
            return Err(self.corrupt(end, "the index is of another pack, or the pack is cut off"));
        }
        // What is so small that it was read rather than mapped costs little to check whole.
        if data.len() <= WHOLE_BYTES_MAX && !self.entries_only { self.check_digest(data) } else { Ok(()) }
    }

    fn check_digest(&self, data: &Data) -> Result<()> {
        let end = self.end(data);
        let mut hasher = Hasher::new(self.algorithm);
        let mut buffer = Vec::new();
        let mut at = 0;
        while at < end {
            let window = data.window(at, 1 << 16, &mut buffer).map_err(|source| self.io(source))?;
            let window = &window[..window.len().min((end - at) as usize)];
            hasher.update(window);
            at += window.len() as u64;
        }
        if hasher.finish().as_bytes() != self.index.pack_digest() {
            return Err(self.corrupt(end, "the pack is not what its digest says"));
        }
        Ok(())
    }

    fn entry_in(&self, data: &Data, offset: u64) -> Result<Entry> {
        let mut buffer = Vec::new();
        let end = self.end(data);
        if offset < HEADER_BYTES || offset >= end {
            return Err(self.corrupt(offset, "the index leads out of the pack"));
        }
        let window = data.window(offset, HEAD_BYTES_MAX, &mut buffer).map_err(|source| self.io(source))?;
        let window = &window[..window.len().min((end - offset) as usize)];
        Entry::parse(self.algorithm, window, offset).map_err(|reason| self.corrupt(offset, reason))
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

    /// Appends what the entry at `offset` holds, and returns where it ends.
    fn inflate_in(&self, data: &Data, offset: u64, entry: &Entry, out: &mut Vec<u8>) -> Result<u64> {
        let end = self.end(data);
        if let Some(all) = data.slice() {
            let input = &all[..end as usize];
            let input = input.get(entry.data_offset as usize..).unwrap_or_default();
            let used = zlib::inflate(input, entry.size, out).map_err(|reason| self.corrupt(offset, reason))?;
            return Ok(entry.data_offset + used as u64);
        }
        let mut at = entry.data_offset;
        let mut buffer = Vec::new();
        let used = zlib::inflating(entry.size, out, |stream| {
            loop {
                let window = data.window(at, 1, &mut buffer)?;
                let window = &window[..window.len().min(end.saturating_sub(at) as usize)];
                match stream.push(window)? {
                    Some(used) => return Ok(used),
                    None if window.is_empty() => return Err(Fault::Bad("the compressed bytes end too early")),
                    None => at += window.len() as u64,
                }
            }
        });
        match used {
            Ok(used) => Ok(entry.data_offset + used),
            Err(Fault::Bad(reason)) => Err(self.corrupt(offset, reason)),
            Err(Fault::Io(source)) => Err(self.io(source)),
        }
    }

    /// Returns the size of what a delta makes.
    fn result_size(&self, data: &Data, entry: &Entry) -> Result<u64> {
        let front = self.front_in(data, entry, 20)?;
        let size = delta::sizes(&front).map_err(|reason| self.corrupt(entry.data_offset, reason));
        size.map(|sizes| sizes.1)
    }

    /// Returns at most `bytes` bytes of what an entry holds, from its beginning.
    pub(crate) fn front(&self, entry: &Entry, bytes: usize) -> Result<Vec<u8>> {
        self.front_in(&*self.data()?, entry, bytes)
    }

    fn front_in(&self, data: &Data, entry: &Entry, bytes: usize) -> Result<Vec<u8>> {
        let mut buffer = Vec::new();
        let window = data.window(entry.data_offset, FRONT_BYTES, &mut buffer).map_err(|source| self.io(source))?;
        let window = &window[..window.len().min(FRONT_BYTES)];
        let mut front = Vec::new();
        match zlib::inflate_front(window, bytes, &mut front) {
            Ok(()) => Ok(front),
            Err(reason) => Err(self.corrupt(entry.data_offset, reason)),
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
