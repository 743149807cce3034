//! Commit hashes as traces write them: 52 characters of base58 with a checksum.

use std::fmt;

use bristlecone::Oid;

/// What stands before the hash in the text: it makes it begin with `Co`.
const PREFIX: [u8; 2] = [0x4f, 0xc7];

/// The hash of a context's commit.
///
/// ```
/// # use bristlecone_trace::CommitHash;
/// let genesis = CommitHash::parse(b"CoV8SQumiVU9saiu3FVNeDNewJaJH8yWdsGF3WLdsRr2P9S7MzCj").unwrap();
/// assert_eq!(genesis.as_bytes()[..4], [0x3f, 0xdf, 0x8e, 0x76]);
/// assert!(CommitHash::parse(b"CoV8SQumiVU9saiu3FVNeDNewJaJH8yWdsGF3WLdsRr2P9S7MzCk").is_none());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CommitHash([u8; 32]);

impl CommitHash {
    /// The length of the text.
    pub const TEXT_BYTES: usize = 52;

    /// Returns the hash that a text stands for; `None` unless prefix, length and checksum are right.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        // Prefix, hash and checksum of four bytes; nothing is decoded that could not fit.
        let mut bytes = [0; PREFIX.len() + 32 + 4];
        if text.len() != Self::TEXT_BYTES {
            return None;
        }
        let length = bs58::decode(text).with_check(None).onto(&mut bytes).ok()?;
        let hash = bytes[..length].strip_prefix(&PREFIX)?;
        hash.try_into().ok().map(Self)
    }

    /// Returns the hash with these bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns the id of the commit in a format that hashes as Tezos does.
    #[must_use]
    pub const fn oid(&self) -> Oid {
        Oid::from_array(self.0)
    }
}

impl fmt::Display for CommitHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = PREFIX.to_vec();
        bytes.extend_from_slice(&self.0);
        f.write_str(&bs58::encode(bytes).with_check().into_string())
    }
}

impl fmt::Debug for CommitHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_changed_character_is_noticed() {
        let text = b"CoV8SQumiVU9saiu3FVNeDNewJaJH8yWdsGF3WLdsRr2P9S7MzCj";
        assert_eq!(CommitHash::parse(text).unwrap().to_string().as_bytes(), text);
        for at in 0..text.len() {
            for with in [b'1', b'z', b'0', 0xff] {
                let mut other = *text;
                other[at] = with;
                assert!(other == *text || CommitHash::parse(&other).is_none(), "{at}");
            }
        }
        for other in [&text[..51], b"", &[b'1'; 52], &[b'z'; 52], &[b'C'; 4000]] {
            assert!(CommitHash::parse(other).is_none());
        }
    }
}
