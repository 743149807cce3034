//! Making a pack and its index in memory.

use bristlecone::core::git::Algorithm;
use bristlecone::{Kind, Oid};

/// How the bytes of an entry are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not compressed: a zlib stream of stored blocks, at the speed of a copy.
    Stored,
    /// Deflated at this level, 1 to 9.
    Level(u32),
}

/// A pack in the making.
///
/// Each object may be added once: readers would find either, but strict ones refuse the pack.
#[derive(Debug)]
pub struct Builder {
    algorithm: Algorithm,
    pack: Vec<u8>,
}

/// A pack and its index, whole.
#[derive(Clone, Debug)]
pub struct BuiltPack {
    /// The name of both files without their ending: `pack-` and the digest of the pack in hexadecimal.
    pub name: String,
    /// The bytes of `NAME.pack`.
    pub pack: Vec<u8>,
    /// The bytes of `NAME.idx`, version 2.
    pub index: Vec<u8>,
}

impl Builder {
    /// Begins a pack.
    #[must_use]
    pub fn new(algorithm: Algorithm) -> Self {
        Self { algorithm, pack: Vec::new() }
    }

    /// Returns the number of objects so far.
    #[must_use]
    pub fn len(&self) -> usize {
        todo!()
    }

    /// Whether there is no object yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.pack.len() as u64
    }

    /// Adds an object whose bytes, as Git has them, are `raw`, and returns its offset in the pack.
    ///
    /// # Panics
    /// For a kind that Git does not have.
    pub fn add(&mut self, _kind: Kind, _oid: Oid, _raw: &[u8], _compression: Compression) -> u64 {
        todo!("{:?}", self.algorithm)
    }

    /// Adds an object as a delta against the one at `base_offset` of this pack, and returns its offset.
    ///
    /// # Panics
    /// Unless `base_offset` lies within what was added.
    pub fn add_delta(&mut self, _oid: Oid, _base_offset: u64, _delta: &[u8], _compression: Compression) -> u64 {
        todo!()
    }

    /// Adds an object as a delta against the one with the id `base`, which must be in this pack when it is finished,
    /// and returns its offset.
    pub fn add_ref_delta(&mut self, _oid: Oid, _base: Oid, _delta: &[u8], _compression: Compression) -> u64 {
        todo!()
    }

    /// Ends the pack and makes its index.
    #[must_use]
    pub fn finish(self) -> BuiltPack {
        todo!()
    }
}
