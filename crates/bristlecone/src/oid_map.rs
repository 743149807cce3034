//! Tables keyed by object id: the id is its own hash.

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasher, Hasher},
};

use bristlecone_core::Oid;

/// A table keyed by object id.
pub(crate) type OidMap<T> = HashMap<Oid, T, OidHasher>;
/// A set of object ids.
pub(crate) type OidSet = HashSet<Oid, OidHasher>;

/// Takes the first word of an id for its hash.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OidHasher;

impl BuildHasher for OidHasher {
    type Hasher = Word;

    fn build_hasher(&self) -> Word {
        Word(0)
    }
}

/// The hasher of [`OidHasher`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word(u64);

impl Hasher for Word {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = self.0.rotate_left(5) ^ word;
    }
}
