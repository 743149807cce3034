//! Hashes of what comes bit by bit, and the check of what comes from elsewhere.

use bristlecone::core::git::{Algorithm, type_name};
use bristlecone::{Kind, Oid};
use sha1::Digest as _;

/// A digest in the making.
pub(crate) enum Hasher {
    Sha1(sha1::Sha1),
    Sha256(sha2::Sha256),
}

impl Hasher {
    pub(crate) fn new(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Sha1 => Self::Sha1(sha1::Sha1::new()),
            Algorithm::Sha256 => Self::Sha256(sha2::Sha256::new()),
        }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha1(hasher) => hasher.update(bytes),
            Self::Sha256(hasher) => hasher.update(bytes),
        }
    }

    pub(crate) fn finish(self) -> Oid {
        let oid = match self {
            Self::Sha1(hasher) => Oid::new(&hasher.finalize()),
            Self::Sha256(hasher) => Oid::new(&hasher.finalize()),
        };
        oid.expect("digests have 20 or 32 bytes")
    }
}

/// Checks that an object has this id: by the SHA-1 that finds collisions, or by SHA-256.
///
/// # Errors
/// What is wrong with it.
pub fn check_id(algorithm: Algorithm, oid: &Oid, kind: Kind, raw: &[u8]) -> Result<(), String> {
    if type_name(kind).is_none() {
        return Err(format!("Git has no objects of kind {kind}"));
    }
    let found = algorithm.received_id(kind, raw).ok_or("its bytes were made to collide under SHA-1")?;
    if found == *oid { Ok(()) } else { Err(format!("its bytes hash to {found}")) }
}
