//! A pack that goes to its file as it is made.

use std::io;
use std::sync::Arc;

use bristlecone::core::git::Algorithm;
use bristlecone::storage::{OpenMode, Storage, StorageFile, write_all_at};
use bristlecone::{Error, Oid, Result};

use crate::repository::files::passing_name;
use crate::repository::hash::Hasher;
use crate::repository::pack::build::{IndexBuilder, header, pack_name};

/// What the names of packs begin with that are being written, and those of their indexes.
pub(crate) const REPACKED_PREFIX: &str = "tmp_fold_";
/// How much is gathered before it is written.
const BUFFER_BYTES: usize = 1 << 20;

/// A pack in the making. Its files are locked until they have their names; if the process dies first, the next opening
/// removes them, or `git prune`.
pub(super) struct PackWriter<'a> {
    storage: &'a dyn Storage,
    dir: &'static str,
    name: String,
    file: Arc<dyn StorageFile>,
    algorithm: Algorithm,
    hasher: Hasher,
    index: IndexBuilder,
    buffer: Vec<u8>,
    /// The offset at which the buffer begins.
    flushed: u64,
    /// The entry being written: its id, its offset, the checksum of what was flushed of it, and where the rest of it
    /// begins in the buffer.
    entry: Option<(Oid, u64, crc32fast::Hasher, usize)>,
}

/// Makes a file whose name begins like this, and takes its lock: a file that is found unlocked was left by a process
/// that died.
fn open_locked(storage: &dyn Storage, prefix: &str) -> Result<(String, Arc<dyn StorageFile>)> {
    loop {
        let name = passing_name(prefix);
        let open = || -> io::Result<Option<Arc<dyn StorageFile>>> {
            let file = storage.open(&name, OpenMode::CreateSealed)?;
            // A process that opened the repository just now may have taken it for one that was left.
            if !file.try_lock()? {
                return Ok(None);
            }
            match storage.stat(&name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                stat => Ok((file.id()? == stat?.id).then_some(file)),
            }
        };
        if let Some(file) = open().map_err(|source| Error::io(storage.describe(&name), source))? {
            return Ok((name, file));
        }
    }
}

/// A pack that is there.
pub(super) struct FinishedPack {
    pub(super) name: String,
    pub(super) pack_bytes: u64,
    pub(super) index: Vec<u8>,
}

impl<'a> PackWriter<'a> {
    /// Begins a pack of `count` objects in the folder `dir`.
    pub(super) fn create(
        storage: &'a dyn Storage,
        dir: &'static str,
        algorithm: Algorithm,
        count: usize,
    ) -> Result<Self> {
        let count = u32::try_from(count).map_err(|_| bristlecone::Error::TooLarge {
            what: "a pack, in objects,",
            bytes: count as u64,
            bytes_max: u64::from(u32::MAX),
        })?;
        let (name, file) = open_locked(storage, &format!("{dir}/{REPACKED_PREFIX}"))?;
        let buffer = header(count).to_vec();
        let (hasher, index) = (Hasher::new(algorithm), IndexBuilder::default());
        Ok(Self { storage, dir, name, file, algorithm, hasher, index, buffer, flushed: 0, entry: None })
    }

    /// Returns where the next entry will begin.
    pub(super) fn offset(&self) -> u64 {
        self.flushed + self.buffer.len() as u64
    }

    /// Writes an entry at once and returns its offset.
    pub(super) fn entry(&mut self, oid: Oid, write: impl FnOnce(&mut Vec<u8>)) -> Result<u64> {
        let offset = self.begin(oid, write)?;
        self.end();
        Ok(offset)
    }

    /// Begins an entry with what `write` appends, and returns its offset.
    pub(super) fn begin(&mut self, oid: Oid, write: impl FnOnce(&mut Vec<u8>)) -> Result<u64> {
        self.make_room()?;
        let (offset, begin) = (self.offset(), self.buffer.len());
        self.entry = Some((oid, offset, crc32fast::Hasher::new(), begin));
        write(&mut self.buffer);
        Ok(offset)
    }

    /// Goes on with the entry.
    pub(super) fn append(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<()> {
        self.make_room()?;
        write(&mut self.buffer)
    }

    /// Ends the entry.
    pub(super) fn end(&mut self) {
        if let Some((oid, offset, mut sum, begin)) = self.entry.take() {
            sum.update(&self.buffer[begin..]);
            self.index.add(oid, offset, sum.finalize());
        }
    }

    /// Flushes the buffer if it is full.
    fn make_room(&mut self) -> Result<()> {
        if self.buffer.len() < BUFFER_BYTES { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> Result<()> {
        if let Some((_, _, sum, begin)) = &mut self.entry {
            sum.update(&self.buffer[*begin..]);
            *begin = 0;
        }
        self.hasher.update(&self.buffer);
        self.put(&self.buffer)?;
        self.flushed += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn put(&self, bytes: &[u8]) -> Result<()> {
        write_all_at(&*self.file, bytes, self.flushed).map_err(|source| self.io(source))
    }

    /// Ends the pack, makes it durable and gives it its name, then its index.
    pub(super) fn finish(mut self) -> Result<FinishedPack> {
        let done = self.seal();
        if done.is_err() {
            self.discard();
        }
        done
    }

    fn seal(&mut self) -> Result<FinishedPack> {
        self.flush()?;
        let hasher = std::mem::replace(&mut self.hasher, Hasher::new(self.algorithm));
        let digest = hasher.finish();
        self.put(digest.as_bytes())?;
        self.flushed += digest.as_bytes().len() as u64;
        self.file.sync_data().map_err(|source| self.io(source))?;

        let index = std::mem::take(&mut self.index).finish(self.algorithm, &digest);
        let (other, file) = open_locked(self.storage, &format!("{}_idx-", self.name))?;
        let name = pack_name(&digest);
        let write_index = || {
            write_all_at(&*file, &index, 0)?;
            file.sync_data()?;
            // A reader that finds the index finds the pack.
            self.storage.rename(&self.name, &format!("{}/{name}.pack", self.dir))?;
            self.storage.rename(&other, &format!("{}/{name}.idx", self.dir))?;
            self.storage.sync_dir(self.dir)
        };
        let written = write_index();
        if written.is_err() {
            let _ = self.storage.remove(&other);
        }
        written.map_err(|source| self.io(source))?;
        Ok(FinishedPack { name, pack_bytes: self.flushed, index })
    }

    /// Removes what was written. A failure is no error of its own: `git prune` removes the rest.
    pub(super) fn discard(&self) {
        let _ = self.storage.remove(&self.name);
    }

    fn io(&self, source: io::Error) -> bristlecone::Error {
        Error::io(self.storage.describe(&self.name), source)
    }
}
