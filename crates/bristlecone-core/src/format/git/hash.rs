//! How ids are made, and what Git calls kinds of objects. Section 1 of the format's page.

use sha1::Digest as _;

use crate::{Algorithm, Kind, Oid};

impl Algorithm {
    /// Returns the digest of these bytes, one run after another.
    #[must_use]
    pub fn digest(self, runs: &[&[u8]]) -> Oid {
        let oid = match self {
            Self::Sha1 => {
                let mut hasher = sha1::Sha1::new();
                runs.iter().for_each(|run| hasher.update(run));
                Oid::new(&hasher.finalize())
            }
            Self::Sha256 => {
                let mut hasher = sha2::Sha256::new();
                runs.iter().for_each(|run| hasher.update(run));
                Oid::new(&hasher.finalize())
            }
        };
        oid.expect("digests have 20 or 32 bytes")
    }

    /// Returns the id of an object that came from elsewhere: by the SHA-1 that notices bytes made to collide, or by
    /// SHA-256. `None` if they were made to collide, or for a kind that Git does not have.
    #[must_use]
    pub fn received_id(self, kind: Kind, raw: &[u8]) -> Option<Oid> {
        type_name(kind)?;
        if self != Self::Sha1 {
            return Some(self.object_id(kind, raw));
        }
        let mut header = smallvec::SmallVec::<[u8; 32]>::new();
        write_header(kind, raw.len(), &mut header);
        let mut hasher = sha1dc::Hasher::new();
        hasher.update(&header);
        hasher.update(raw);
        Oid::new(hasher.finalize().ok()?.as_ref()).ok()
    }

    /// Returns the id of an object whose bytes, as Git has them, are `raw`.
    ///
    /// # Panics
    /// For a kind that Git does not have: [`Kind::Pieces`].
    #[must_use]
    pub fn object_id(self, kind: Kind, raw: &[u8]) -> Oid {
        let mut header = smallvec::SmallVec::<[u8; 32]>::new();
        write_header(kind, raw.len(), &mut header);
        self.digest(&[&header, raw])
    }
}

/// Appends the header that Git hashes in front of an object: `blob 12` and a zero byte.
fn write_header(kind: Kind, bytes: usize, out: &mut smallvec::SmallVec<[u8; 32]>) {
    out.extend_from_slice(type_name(kind).expect("a kind that Git has").as_bytes());
    out.push(b' ');
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = bytes;
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
    out.push(0);
}

/// Returns what Git calls objects of this kind; `None` for [`Kind::Pieces`], which it does not have.
#[must_use]
pub const fn type_name(kind: Kind) -> Option<&'static str> {
    Some(match kind {
        Kind::Contents => "blob",
        Kind::Node => "tree",
        Kind::Commit => "commit",
        Kind::Tag => "tag",
        Kind::Pieces => return None,
    })
}

/// Returns the kind that Git calls so.
#[must_use]
pub fn kind_of(type_name: &[u8]) -> Option<Kind> {
    Some(match type_name {
        b"blob" => Kind::Contents,
        b"tree" => Kind::Node,
        b"commit" => Kind::Commit,
        b"tag" => Kind::Tag,
        _ => return None,
    })
}
