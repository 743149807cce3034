//! Single entries of a pack: their heads, and what they hold.

use std::io;

use bristlecone::Result;

use super::{HEADER_BYTES, Pack};
use crate::repository::{
    pack::{
        data::Data,
        delta,
        entry::{Entry, HEAD_BYTES_MAX},
    },
    zlib,
};

/// How many bytes of a deflated delta are read for the sizes that it begins with, as a rule.
const FRONT_BYTES: usize = 256;
/// How many at most: a stream may begin with blocks that hold nothing.
const FRONT_BYTES_MAX: usize = 1 << 20;

impl Pack {
    /// Returns the head of the entry at an offset.
    ///
    /// # Errors
    /// [`Error::Corrupt`](bristlecone::Error::Corrupt); those of the system.
    pub fn entry(&self, offset: u64) -> Result<Entry> {
        self.entry_in(&*self.data()?, offset)
    }

    /// Appends what an entry holds, an object or a delta, and returns the offset at which it ends in the pack.
    ///
    /// # Errors
    /// [`Error::Corrupt`](bristlecone::Error::Corrupt); those of the system.
    pub fn inflate(&self, entry: &Entry, out: &mut Vec<u8>) -> Result<u64> {
        self.inflate_in(&*self.data()?, entry.data_offset, entry, out)
    }

    /// Appends the bytes of the pack from `begin` to `end` as they are.
    ///
    /// # Errors
    /// [`Error::Corrupt`](bristlecone::Error::Corrupt) if the pack ends before; those of the system.
    pub(crate) fn copy(&self, begin: u64, end: u64, out: &mut Vec<u8>) -> Result<()> {
        let data = self.data()?;
        let size = usize::try_from(end.saturating_sub(begin)).map_err(|_| self.corrupt(begin, "it is too large"))?;
        let mut buffer = Vec::new();
        let window = data.window(begin, size, &mut buffer).map_err(|source| self.io(source))?;
        out.extend_from_slice(window.get(..size).ok_or_else(|| self.corrupt(begin, "the pack is cut off"))?);
        Ok(())
    }

    /// Whether the zlib stream of an entry begins with a stored block: nothing was deflated.
    pub(crate) fn is_stored(&self, entry: &Entry) -> Result<bool> {
        let data = self.data()?;
        let mut buffer = Vec::new();
        let window = data.window(entry.data_offset, 3, &mut buffer).map_err(|source| self.io(source))?;
        Ok(window.get(2).is_some_and(|block| block & 0b110 == 0))
    }

    pub(super) fn entry_in(&self, data: &Data, offset: u64) -> Result<Entry> {
        let mut buffer = Vec::new();
        let end = self.end(data);
        if offset < HEADER_BYTES || offset >= end {
            return Err(self.corrupt(offset, "the index leads out of the pack"));
        }
        let window = data.window(offset, HEAD_BYTES_MAX, &mut buffer).map_err(|source| self.io(source))?;
        let window = &window[..window.len().min((end - offset) as usize)];
        Entry::parse(self.algorithm, window, offset).map_err(|reason| self.corrupt(offset, reason))
    }

    /// Appends what the entry at `offset` holds, and returns where it ends.
    pub(super) fn inflate_in(&self, data: &Data, offset: u64, entry: &Entry, out: &mut Vec<u8>) -> Result<u64> {
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

    /// Returns the size of what a delta makes, without a look at what it is against.
    pub(crate) fn size_made(&self, entry: &Entry) -> Result<u64> {
        self.result_size(&*self.data()?, entry)
    }

    pub(super) fn result_size(&self, data: &Data, entry: &Entry) -> Result<u64> {
        let front = self.front_in(data, entry, 20)?;
        let size = delta::sizes(&front).map_err(|reason| self.corrupt(entry.data_offset, reason));
        size.map(|sizes| sizes.1)
    }

    /// Returns at most `bytes` bytes of what an entry holds, from its beginning.
    pub(crate) fn front(&self, entry: &Entry, bytes: usize) -> Result<Vec<u8>> {
        self.front_in(&*self.data()?, entry, bytes)
    }

    fn front_in(&self, data: &Data, entry: &Entry, bytes: usize) -> Result<Vec<u8>> {
        let (mut buffer, mut front) = (Vec::new(), Vec::new());
        let mut looked = FRONT_BYTES;
        loop {
            let window = data.window(entry.data_offset, looked, &mut buffer).map_err(|source| self.io(source))?;
            let window = &window[..window.len().min(looked)];
            front.clear();
            zlib::inflate_front(window, bytes, &mut front).map_err(|reason| self.corrupt(entry.data_offset, reason))?;
            let enough = front.len() as u64 >= entry.size.min(bytes as u64);
            if enough || window.len() < looked || looked == FRONT_BYTES_MAX {
                return Ok(front);
            }
            looked *= 2;
        }
    }
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
