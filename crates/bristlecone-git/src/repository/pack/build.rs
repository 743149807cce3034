//! Making a pack and its index in memory.

use bristlecone::core::git::Algorithm;
use bristlecone::{Kind, Oid, to_hex};

use super::{entry, index::MAGIC};
use crate::repository::zlib;

/// Offsets from here on are far ones in an index.
const FAR_OFFSET: u64 = 1 << 31;

/// How the bytes of an entry are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not compressed: a zlib stream of stored blocks, at the speed of a copy.
    Stored,
    /// Deflated at this level, 1 to 9.
    Level(u32),
}

impl Compression {
    /// Appends a zlib stream that holds `raw`.
    pub(crate) fn write(self, raw: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Stored => zlib::stored(raw, out),
            Self::Level(level) => zlib::deflate(raw, level, out),
        }
    }
}

/// A pack in the making.
///
/// Each object may be added once: readers would find either, but strict ones refuse the pack.
#[derive(Debug)]
pub struct Builder {
    algorithm: Algorithm,
    pack: Vec<u8>,
    index: IndexBuilder,
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
        Self { algorithm, pack: header(0).to_vec(), index: IndexBuilder::default() }
    }

    /// Returns the hash of the ids.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Returns the number of objects so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.index.entries.len()
    }

    /// Whether there is no object yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes of the pack so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.pack.len() as u64
    }

    /// Adds an object whose bytes, as Git has them, are `raw`, and returns its offset in the pack.
    ///
    /// # Panics
    /// For a kind that Git does not have.
    pub fn add(&mut self, kind: Kind, oid: Oid, raw: &[u8], compression: Compression) -> u64 {
        let begin = self.pack.len();
        entry::write_whole(kind, raw.len() as u64, &mut self.pack);
        compression.write(raw, &mut self.pack);
        self.entered(oid, begin)
    }

    /// Adds an object as a delta against the one at `base_offset` of this pack, and returns its offset.
    ///
    /// # Panics
    /// Unless `base_offset` lies within what was added.
    pub fn add_delta(&mut self, oid: Oid, base_offset: u64, delta: &[u8], compression: Compression) -> u64 {
        let begin = self.pack.len();
        assert!((12..begin as u64).contains(&base_offset), "no entry begins at {base_offset}");
        entry::write_offset_delta(begin as u64 - base_offset, delta.len() as u64, &mut self.pack);
        compression.write(delta, &mut self.pack);
        self.entered(oid, begin)
    }

    /// Adds an object as a delta against the one with the id `base`, which must be in this pack when it is finished,
    /// and returns its offset.
    pub fn add_ref_delta(&mut self, oid: Oid, base: Oid, delta: &[u8], compression: Compression) -> u64 {
        let begin = self.pack.len();
        entry::write_oid_delta(&base, delta.len() as u64, &mut self.pack);
        compression.write(delta, &mut self.pack);
        self.entered(oid, begin)
    }

    fn entered(&mut self, oid: Oid, begin: usize) -> u64 {
        self.index.add(oid, begin as u64, crc32fast::hash(&self.pack[begin..]));
        begin as u64
    }

    /// Ends the pack and makes its index.
    ///
    /// # Panics
    /// With more than 2^32 - 1 objects.
    #[must_use]
    pub fn finish(mut self) -> BuiltPack {
        let count = u32::try_from(self.len()).expect("a pack of fewer objects");
        self.pack[..12].copy_from_slice(&header(count));
        let digest = self.algorithm.digest(&[&self.pack]);
        self.pack.extend_from_slice(digest.as_bytes());
        let index = self.index.finish(self.algorithm, &digest);
        BuiltPack { name: pack_name(&digest), pack: self.pack, index }
    }
}

/// Returns the head of a pack, version 2.
pub(super) fn header(count: u32) -> [u8; 12] {
    let mut header = *b"PACK\0\0\0\x02\0\0\0\0";
    header[8..].copy_from_slice(&count.to_be_bytes());
    header
}

/// Returns the name of the files of a pack whose last bytes are `digest`.
pub(super) fn pack_name(digest: &Oid) -> String {
    format!("pack-{}", to_hex(digest.as_bytes()))
}

/// An index in the making.
#[derive(Debug, Default)]
pub(super) struct IndexBuilder {
    entries: Vec<(Oid, u64, u32)>,
}

impl IndexBuilder {
    pub(super) fn add(&mut self, oid: Oid, offset: u64, crc: u32) {
        self.entries.push((oid, offset, crc));
    }

    /// Returns the bytes of an index, version 2, of the pack that ends with `digest`.
    pub(super) fn finish(mut self, algorithm: Algorithm, digest: &Oid) -> Vec<u8> {
        self.entries.sort_unstable_by_key(|entry| entry.0);
        let oid_bytes = algorithm.oid_bytes();
        let mut out = Vec::with_capacity(8 + 1024 + self.entries.len() * (oid_bytes + 8) + 2 * oid_bytes);
        out.extend_from_slice(&MAGIC);
        let mut counts = [0_u32; 256];
        for (oid, ..) in &self.entries {
            counts[usize::from(oid.as_bytes()[0])] += 1;
        }
        let mut sum = 0;
        for count in counts {
            sum += count;
            out.extend_from_slice(&sum.to_be_bytes());
        }
        for (oid, ..) in &self.entries {
            out.extend_from_slice(oid.as_bytes());
        }
        for (_, _, crc) in &self.entries {
            out.extend_from_slice(&crc.to_be_bytes());
        }
        let mut far = Vec::new();
        for &(_, offset, _) in &self.entries {
            let word = if offset < FAR_OFFSET {
                offset as u32
            } else {
                far.push(offset);
                FAR_OFFSET as u32 | (far.len() - 1) as u32
            };
            out.extend_from_slice(&word.to_be_bytes());
        }
        for offset in far {
            out.extend_from_slice(&offset.to_be_bytes());
        }
        out.extend_from_slice(digest.as_bytes());
        let own = algorithm.digest(&[&out]);
        out.extend_from_slice(own.as_bytes());
        out
    }
}
