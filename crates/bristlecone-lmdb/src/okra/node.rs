//! Nodes: their hashes, which of them are boundaries, and their bytes in LMDB.

use std::fmt;

/// `K`: bytes of a hash.
pub const HASH_BYTES: usize = 16;

/// `Q`: the count of children that a node has on average.
pub const FANOUT: u32 = 32;

/// A key has at least one byte and at most this many: LMDB's 511 less the byte of the level.
pub const KEY_BYTES_MAX: usize = 510;

/// A value has at most this many bytes. LMDB's own bound is 2^32 - 1, but it writes a value with one call, which the system cuts short at
/// 2 GiB, less a page; a margin is kept for what stands around it.
pub const VALUE_BYTES_MAX: usize = (1 << 31) - (1 << 20);

/// The key of the metadata; no level reaches it.
pub(super) const METADATA_KEY: [u8; 1] = [0xff];

/// The highest level. A tree of honest hashes has one level for each factor of 32; this bound keeps hashes that a
/// caller of index mode chose, and damage, from climbing into the metadata.
pub(super) const LEVEL_MAX: u8 = 0xfe;

/// A node is a boundary when the first four bytes of its hash, as a number, are less.
const BOUNDARY_BOUND: u32 = ((1_u64 << 32) / FANOUT as u64) as u32;

/// The hash of a node: the first 16 bytes of a BLAKE3 digest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeHash(pub [u8; HASH_BYTES]);

impl NodeHash {
    /// Returns the hash of an entry: that of both lengths and both texts.
    ///
    /// `key` and `value` have at most 2^32 - 1 bytes each.
    ///
    /// Source: docs/formats/okra.md section 1.
    #[must_use]
    pub fn of_entry(key: &[u8], value: &[u8]) -> Self {
        let bytes = 8 + key.len() + value.len();
        let mut buffer = [0; 256];
        if let Some(input) = buffer.get_mut(..bytes) {
            input[..4].copy_from_slice(&length(key));
            input[4..4 + key.len()].copy_from_slice(key);
            input[4 + key.len()..8 + key.len()].copy_from_slice(&length(value));
            input[8 + key.len()..].copy_from_slice(value);
            return Self::of(input);
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update(&length(key)).update(key).update(&length(value)).update(value);
        Self::cut(&hasher.finalize())
    }

    /// Returns the hash of the anchor of level 0, which is the root of the empty map.
    #[must_use]
    pub fn of_empty() -> Self {
        Self::of(&[])
    }

    /// Returns the hash of some bytes.
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self::cut(&blake3::hash(bytes))
    }

    fn cut(digest: &blake3::Hash) -> Self {
        Self(*digest.as_bytes().first_chunk().expect("a digest is longer"))
    }

    /// The hash at the beginning of a value in LMDB.
    #[inline]
    pub(super) fn at(value: &[u8]) -> Option<Self> {
        value.first_chunk().map(|bytes| Self(*bytes))
    }

    /// Tells whether a node with this hash begins a node of the level above.
    #[must_use]
    #[inline]
    pub fn is_boundary(&self) -> bool {
        let [a, b, c, d, ..] = self.0;
        u32::from_be_bytes([a, b, c, d]) < BOUNDARY_BOUND
    }
}

fn length(bytes: &[u8]) -> [u8; 4] {
    // Callers keep keys and values below 2^32 bytes; a longer one cannot come from LMDB.
    u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes()
}

impl fmt::Display for NodeHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for NodeHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The root of a map: two maps with the same entries have the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OkraRoot {
    /// Its level: 0 for the empty map, at least 1 for every other.
    pub level: u8,
    /// Its hash.
    pub hash: NodeHash,
}

/// A node as a [`Source`](super::Source) gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OkraNode {
    /// The key of the first entry below it; an anchor has none.
    pub key: Option<Vec<u8>>,
    /// Its hash.
    pub hash: NodeHash,
    /// The value of an entry; the node of a higher level, an anchor, and a map in index mode have none.
    pub value: Option<Vec<u8>>,
}

/// Hashes children one after another, however many there are, in a small memory.
pub(super) struct ChildrenHasher {
    buffer: Vec<u8>,
    hasher: blake3::Hasher,
    /// Whether the hasher has some of the children.
    spilled: bool,
}

/// Bytes of children that are gathered before they are hashed: four times those of the average node.
const GATHERED_BYTES: usize = 4 * FANOUT as usize * HASH_BYTES;

impl ChildrenHasher {
    pub(super) fn new() -> Self {
        Self { buffer: Vec::with_capacity(GATHERED_BYTES), hasher: blake3::Hasher::new(), spilled: false }
    }

    #[inline]
    pub(super) fn push(&mut self, child: NodeHash) {
        if self.buffer.len() == GATHERED_BYTES {
            self.hasher.update(&self.buffer);
            self.buffer.clear();
            self.spilled = true;
        }
        self.buffer.extend_from_slice(&child.0);
    }

    /// Returns the hash of the children, and begins anew.
    pub(super) fn finish(&mut self) -> NodeHash {
        let hash = if self.spilled {
            let digest = self.hasher.update(&self.buffer).finalize();
            self.hasher.reset();
            self.spilled = false;
            NodeHash::cut(&digest)
        } else {
            NodeHash::of(&self.buffer)
        };
        self.buffer.clear();
        hash
    }
}

/// The key of a node in LMDB: its level and its key.
pub(super) struct NodeKey {
    bytes: [u8; 1 + KEY_BYTES_MAX],
    len: usize,
}

impl NodeKey {
    /// `key` has at most [`KEY_BYTES_MAX`] bytes; what is longer is cut, and is the key of no node.
    #[inline]
    pub(super) fn new(level: u8, key: &[u8]) -> Self {
        let mut new = Self { bytes: [0; 1 + KEY_BYTES_MAX], len: 0 };
        new.set(level, key);
        new
    }

    #[inline]
    pub(super) fn set(&mut self, level: u8, key: &[u8]) {
        let key = &key[..key.len().min(KEY_BYTES_MAX)];
        self.bytes[0] = level;
        self.bytes[1..=key.len()].copy_from_slice(key);
        self.len = 1 + key.len();
    }

    pub(super) fn set_level(&mut self, level: u8) {
        self.bytes[0] = level;
    }

    /// With the level.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Without the level.
    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        &self.bytes[1..self.len]
    }
}

/// Bytes for people.
pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;

    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_have_one_hash_however_many_there_are() {
        let mut hasher = ChildrenHasher::new();
        for count in [0, 1, 127, 128, 129, 256, 300, 5, 1000] {
            let children: Vec<_> = (0..count).map(|n: u32| NodeHash::of(&n.to_be_bytes())).collect();
            children.iter().for_each(|child| hasher.push(*child));
            let all: Vec<u8> = children.iter().flat_map(|child| child.0).collect();
            assert_eq!(hasher.finish(), NodeHash::of(&all), "{count} children");
        }
    }

    #[test]
    fn entries_have_one_hash_however_long_they_are() {
        for bytes in [0, 100, 247, 248, 249, 5000] {
            let value = vec![7; bytes];
            let input = [&[0, 0, 0, 1, b'k'], &(bytes as u32).to_be_bytes()[..], &value].concat();
            assert_eq!(NodeHash::of_entry(b"k", &value), NodeHash::of(&input), "{bytes} bytes");
        }
    }

    #[test]
    fn one_hash_of_32_is_a_boundary() {
        let with = |first: [u8; 4]| NodeHash([&first[..], &[0xff; 12]].concat().try_into().unwrap());
        assert!(with([0x07, 0xff, 0xff, 0xff]).is_boundary());
        assert!(!with([0x08, 0, 0, 0]).is_boundary());
    }
}
