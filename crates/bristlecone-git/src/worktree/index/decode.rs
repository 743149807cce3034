//! From bytes to an index.

use bristlecone::{Oid, core::git::Algorithm};

use super::{EXTENDED, Index, IndexEntry, IndexError, IndexStat, PATH_BYTES_MAX, order};

/// Version 4 leaves out what a path has in common with the one before: all paths together may have this many times the
/// bytes of the index, so that a small file cannot fill the memory.
const NAMES_GROWTH_MAX: usize = 16;
/// The stat fields of an entry, in bytes: ten numbers of four.
const STAT_BYTES: usize = 40;

impl Index {
    /// Reads an index.
    pub(in super::super) fn decode(algorithm: Algorithm, bytes: &[u8]) -> Result<Self, IndexError> {
        let oid_bytes = algorithm.oid_bytes();
        let Some(end) = bytes.len().checked_sub(oid_bytes).filter(|&end| end >= 12) else {
            return Err(IndexError::Damaged(bytes.len(), "it is too short"));
        };
        if &bytes[..4] != b"DIRC" {
            return Err(IndexError::Damaged(0, "it does not begin as an index does"));
        }
        // With `index.skipHash` there are zeros in place of the hash.
        let trailer = &bytes[end..];
        if trailer.iter().any(|&byte| byte != 0) && algorithm.digest(&[&bytes[..end]]).as_bytes() != trailer {
            return Err(IndexError::Damaged(end, "its hash is not that of its bytes"));
        }
        let mut input = Input { bytes: &bytes[..end], at: 4 };
        let (version, count) = (input.u32()?, input.u32()?);
        if !(2..=4).contains(&version) {
            let way = "write it again with `git update-index --index-version 2`";
            return Err(IndexError::Unsupported(format!("the index has the version {version}; {way}")));
        }
        let mut index = Self { version, ..Self::empty(algorithm) };
        index.entries.reserve((count as usize).min(end / (STAT_BYTES + oid_bytes + 2)));
        for _ in 0..count {
            index.read_entry(&mut input, oid_bytes)?;
        }
        index.read_extensions(&mut input)?;
        Ok(index)
    }

    fn read_entry(&mut self, input: &mut Input<'_>, oid_bytes: usize) -> Result<(), IndexError> {
        let began = input.at;
        let ctime = (input.u32()?, input.u32()?);
        let mtime = (input.u32()?, input.u32()?);
        let (device, inode, mode) = (input.u32()?, input.u32()?, input.u32()?);
        let (user, group, bytes) = (input.u32()?, input.u32()?, input.u32()?);
        let stat = IndexStat { ctime, mtime, device, inode, user, group, bytes };
        let oid =
            Oid::new(input.take(oid_bytes)?).map_err(|_| IndexError::Damaged(began, "an id of no known length"))?;
        let flags = input.u16()?;
        let extended = if self.version >= 3 && flags & EXTENDED != 0 { input.u16()? } else { 0 };
        let start = self.names.len();
        if self.version == 4 {
            let cut = input.varint()?;
            let before = self.entries.last().map_or((0, 0), |last| last.path);
            let Some(kept) = (before.1 as usize).checked_sub(cut) else {
                return Err(IndexError::Damaged(began, "a path is cut by more than the one before has"));
            };
            self.names.extend_from_within(before.0 as usize..before.0 as usize + kept);
        }
        self.names.extend_from_slice(input.until_zero()?);
        if self.version < 4 {
            // One to eight zeros, so that the next entry begins at a multiple of eight from here.
            input.at = began + (input.at - began).next_multiple_of(8);
        }
        let length = self.names.len() - start;
        if length == 0 {
            // Of an entry that is in the other part of the index.
            return Err(split());
        }
        if length > PATH_BYTES_MAX {
            return Err(IndexError::Damaged(began, "a path is longer than 4,096 bytes"));
        }
        if self.names.len() > input.bytes.len().saturating_mul(NAMES_GROWTH_MAX) || self.names.len() > u32::MAX as usize
        {
            return Err(IndexError::Damaged(began, "its paths are longer than any real ones"));
        }
        let entry = IndexEntry { stat, mode, oid, flags, extended, path: (start as u32, length as u32) };
        if let Some(last) = self.entries.last()
            && order((self.path(last), last.flags), (&self.names[start..], flags)).is_ge()
        {
            return Err(IndexError::Damaged(began, "its entries are not in order"));
        }
        if entry.mode & 0o170_000 == 0o040_000 {
            return Err(sparse());
        }
        self.entries.push(entry);
        Ok(())
    }

    fn read_extensions(&mut self, input: &mut Input<'_>) -> Result<(), IndexError> {
        while input.at < input.bytes.len() {
            let name = input.take(4)?;
            let length = input.u32()? as usize;
            let body = input.take(length)?;
            match name {
                b"REUC" => self.resolved = Some(body.to_vec()),
                b"link" => return Err(split()),
                b"sdir" => return Err(sparse()),
                // Those with a capital letter are caches that Git makes again.
                [b'A'..=b'Z', ..] => {}
                _ => {
                    let name = bristlecone::escape(name);
                    let way = "commit with git instead";
                    return Err(IndexError::Unsupported(format!("the index has the extension {name}; {way}")));
                }
            }
        }
        Ok(())
    }
}

fn split() -> IndexError {
    let way = "join it with `git update-index --no-split-index`";
    IndexError::Unsupported(format!("the index is split in two; {way}"))
}

fn sparse() -> IndexError {
    let way = "write them out with `git sparse-checkout reapply --no-sparse-index`";
    IndexError::Unsupported(format!("the index stands for whole directories of a sparse checkout; {way}"))
}

struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], IndexError> {
        let end = self.at.checked_add(count).filter(|&end| end <= self.bytes.len());
        let Some(end) = end else { return Err(IndexError::Damaged(self.at, "it ends early")) };
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn u32(&mut self) -> Result<u32, IndexError> {
        let bytes = self.take(4)?;
        Ok(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn u16(&mut self) -> Result<u16, IndexError> {
        let bytes = self.take(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// Reads a number as packs write offsets: seven bits at a time, the highest first, with one added for each more.
    fn varint(&mut self) -> Result<usize, IndexError> {
        let began = self.at;
        let mut byte = self.take(1)?[0];
        let mut number = usize::from(byte & 0x7f);
        while byte & 0x80 != 0 {
            byte = self.take(1)?[0];
            number = number
                .checked_add(1)
                .and_then(|number| number.checked_mul(128))
                .filter(|&number| number <= PATH_BYTES_MAX)
                .ok_or(IndexError::Damaged(began, "a path is cut by more than the one before has"))?
                + usize::from(byte & 0x7f);
        }
        Ok(number)
    }

    /// Returns what stands before the next zero, and passes over that.
    fn until_zero(&mut self) -> Result<&'a [u8], IndexError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some(length) = rest.iter().position(|&byte| byte == 0) else {
            return Err(IndexError::Damaged(self.at, "a path has no end"));
        };
        self.at += length + 1;
        Ok(&rest[..length])
    }
}
