//! Checks of a pack: when it is opened, of one entry, and of the whole.

use bristlecone::Result;

use super::{HEADER_BYTES, Pack, named};
use crate::repository::{
    hash::Hasher,
    pack::data::{Data, WHOLE_BYTES_MAX},
};

impl Pack {
    /// Checks the pack and its index as wholes: digests, order, checksums of entries. Objects are not looked into.
    ///
    /// # Errors
    /// [`Error::Corrupt`](bristlecone::Error::Corrupt) with what is wrong first; those of the system.
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

    /// Checks the bytes of the entry at a place of the index, from `offset` to `end`, against the checksum in the
    /// index, if it has them.
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

    /// Checks what a pack says of itself against its index.
    pub(super) fn check_header(&self, data: &Data) -> Result<()> {
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
}
