//! The index of a pack: ids in order, and where each object lies.

use bristlecone::core::git::Algorithm;
use bristlecone::{Oid, Result};

/// An index over bytes that are mapped or owned.
#[derive(Debug)]
pub struct Index {
    algorithm: Algorithm,
}

impl Index {
    /// Reads an index, version 1 or 2, out of its bytes. `file` names it in errors.
    ///
    /// # Errors
    /// [`bristlecone::Error::Corrupt`] unless the sizes fit and the fan-out rises.
    pub fn from_bytes(_file: &str, algorithm: Algorithm, _bytes: Vec<u8>) -> Result<Self> {
        Ok(Self { algorithm })
    }

    /// Returns the number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        todo!("{:?}", self.algorithm)
    }

    /// Whether there is no object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the place of an id among the ids.
    #[must_use]
    pub fn find(&self, _oid: &Oid) -> Option<usize> {
        todo!()
    }

    /// Returns the id at a place below [`Index::len`].
    #[must_use]
    pub fn oid(&self, _n: usize) -> Oid {
        todo!()
    }

    /// Returns the offset in the pack of the object at a place below [`Index::len`].
    #[must_use]
    pub fn offset(&self, _n: usize) -> u64 {
        todo!()
    }

    /// Returns the checksum (CRC-32) of the entry, if the index has it: version 1 has none.
    #[must_use]
    pub fn crc(&self, _n: usize) -> Option<u32> {
        todo!()
    }
}
