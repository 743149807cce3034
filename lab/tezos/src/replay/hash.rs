//! Commit hashes as traces write them: 52 characters of base58 with a checksum.

use std::fmt;

use bristlecone::{
    Oid,
    core::tezos::{commit_text, parse_commit_text},
};

/// The hash of a context's commit.
///
/// ```
/// # use bristlecone_tezos::CommitHash;
/// let genesis = CommitHash::parse(b"CoV8SQumiVU9saiu3FVNeDNewJaJH8yWdsGF3WLdsRr2P9S7MzCj").unwrap();
/// assert_eq!(genesis.oid().as_bytes()[..4], [0x3f, 0xdf, 0x8e, 0x76]);
/// assert!(CommitHash::parse(b"CoV8SQumiVU9saiu3FVNeDNewJaJH8yWdsGF3WLdsRr2P9S7MzCk").is_none());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CommitHash(Oid);

impl CommitHash {
    /// Returns the hash that a text stands for; `None` unless prefix, length and checksum are right.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        parse_commit_text(text).map(Self)
    }

    /// Returns the hash with the digest of an id, as it would be written.
    #[must_use]
    pub const fn of(oid: Oid) -> Self {
        Self(oid)
    }

    /// Returns the id of the commit in a format that hashes as Tezos does.
    #[must_use]
    pub const fn oid(&self) -> Oid {
        self.0
    }
}

impl fmt::Display for CommitHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&commit_text(&self.0))
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
