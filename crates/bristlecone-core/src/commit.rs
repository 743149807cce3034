//! Commits: a root, its parents, its author, dates and message.
//!
//! Names and messages are bytes, headers keep their order, and time zones keep their spelling, so that a
//! Git commit goes through without loss.

use alloc::{vec, vec::Vec};
use core::fmt;

use crate::{CommitId, ObjRef, TreeId};

/// A recorded state of a tree.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Commit {
    /// The root directory.
    pub tree: TreeId,
    /// The commits this one follows, in order.
    pub parents: Vec<CommitId>,
    /// Who made the change.
    pub author: Signature,
    /// Who recorded it.
    pub committer: Signature,
    /// Further headers in order, such as `encoding` or `gpgsig`.
    pub headers: Vec<(Vec<u8>, Vec<u8>)>,
    /// Why.
    pub message: Vec<u8>,
}

impl Commit {
    /// A commit by one person, at one time, with a message.
    #[must_use]
    pub fn new(tree: TreeId, parents: Vec<CommitId>, who: Signature, message: impl Into<Vec<u8>>) -> Self {
        Self { tree, parents, author: who.clone(), committer: who, headers: vec![], message: message.into() }
    }

    /// Returns what it names: its tree, and its parents in order.
    pub fn references(&self) -> impl Iterator<Item = ObjRef> {
        core::iter::once(self.tree.into()).chain(self.parents.iter().map(|&parent| parent.into()))
    }

    /// Returns the commit with its ids changed to those of one store: hints that the object itself brought are that store's.
    #[must_use]
    pub fn decoded_in(mut self, store: u32) -> Self {
        self.tree = TreeId::with_hint(self.tree.into(), store);
        self.parents.iter_mut().for_each(|parent| *parent = CommitId::with_hint((*parent).into(), store));
        self
    }

    /// Returns the commit without the hints that are not of the store of this number.
    #[must_use]
    pub fn in_store(mut self, store: u32) -> Self {
        self.tree = self.tree.in_store(store).into();
        self.parents.iter_mut().for_each(|parent| *parent = parent.in_store(store).into());
        self
    }
}

/// Who, and when.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Signature {
    /// Name and address as bytes, usually `Name <address>`.
    pub ident: Vec<u8>,
    /// Seconds since 1970-01-01 00:00 UTC.
    pub seconds: i64,
    /// The zone they were in.
    pub zone: Zone,
}

impl Signature {
    /// Returns a signature with this name at this time, in UTC.
    #[must_use]
    pub fn new(ident: impl Into<Vec<u8>>, seconds: i64) -> Self {
        Self { ident: ident.into(), seconds, zone: Zone::default() }
    }
}

/// A time zone as it was written: usually `+hhmm` or `-hhmm`. `-0000` differs from `+0000`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Zone(smallvec::SmallVec<[u8; 8]>);

impl Zone {
    /// Returns the zone with this spelling.
    #[must_use]
    pub fn from_bytes(text: &[u8]) -> Self {
        Self(text.into())
    }

    /// Returns the zone `minutes` minutes east of UTC, within a day of it.
    #[must_use]
    pub fn from_minutes(minutes: i16) -> Self {
        let (sign, size) = (if minutes < 0 { b'-' } else { b'+' }, minutes.unsigned_abs());
        let (hours, rest) = (size / 60 % 100, size % 60);
        let digit = |n: u16| b'0' + n as u8;
        Self([sign, digit(hours / 10), digit(hours % 10), digit(rest / 10), digit(rest % 10)].as_slice().into())
    }

    /// Returns the spelling.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the minutes east of UTC; 0 if the spelling is not `±hhmm`.
    #[must_use]
    pub fn minutes(&self) -> i16 {
        let [sign, digits @ ..] = &self.0[..] else { return 0 };
        if digits.len() != 4 || !digits.iter().all(u8::is_ascii_digit) {
            return 0;
        }
        let pair = |at: usize| i16::from(digits[at] - b'0') * 10 + i16::from(digits[at + 1] - b'0');
        let size = pair(0) * 60 + pair(2);
        if *sign == b'-' { -size } else { size }
    }
}

impl Default for Zone {
    fn default() -> Self {
        Self::from_bytes(b"+0000")
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::escape(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_keep_their_spelling() {
        assert_eq!(Zone::from_minutes(-330).as_bytes(), b"-0530");
        assert_eq!(Zone::from_minutes(845).minutes(), 845);
        assert_ne!(Zone::from_bytes(b"-0000"), Zone::from_bytes(b"+0000"));
        assert_eq!(Zone::from_bytes(b"+51800").minutes(), 0);
    }
}
