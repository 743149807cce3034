//! The parents of a commit, as rows have them.

use crate::{cursor::Cursor, encode::put_scoped_hash, scoped::Scoped};

/// The parents of a commit: base58 hashes with their scopes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hashes<'a> {
    // Encoded mentions, checked when the row was decoded.
    pub(crate) bytes: &'a [u8],
    pub(crate) count: usize,
}

impl<'a> Hashes<'a> {
    /// Returns the hashes in order.
    pub fn iter(&self) -> impl Iterator<Item = Scoped<&'a [u8]>> + Clone + use<'a> {
        let mut cursor = Cursor::new(self.bytes);
        // The bytes are sound: nothing ends early.
        (0..self.count).map_while(move |_| cursor.scoped_hash().ok())
    }

    /// Returns how many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// Hashes with their scopes that own their bytes, to be filled again and again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HashesBuf {
    bytes: Vec<u8>,
    count: usize,
}

impl HashesBuf {
    /// Returns an empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: Vec::new(), count: 0 }
    }

    /// Removes all hashes and keeps the space.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
    }

    /// Appends one hash, the base58 text of a commit hash.
    pub fn push(&mut self, hash: Scoped<&[u8]>) {
        put_scoped_hash(&mut self.bytes, hash);
        self.count += 1;
    }

    /// Returns the list.
    #[must_use]
    pub fn as_hashes(&self) -> Hashes<'_> {
        Hashes { bytes: &self.bytes, count: self.count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_come_back_as_they_went_in() {
        let mut hashes = HashesBuf::new();
        let all = [Scoped::keep(&b"CoA"[..]), Scoped::forget(b""), Scoped::forget(b"CoB")];
        all.iter().for_each(|&hash| hashes.push(hash));
        assert_eq!(hashes.as_hashes().iter().collect::<Vec<_>>(), all);
        assert_eq!(hashes.as_hashes().len(), 3);
    }
}
