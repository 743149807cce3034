//! Objects as they are read and written: bytes that may be borrowed from a map, and the places of
//! their children.
//!
//! A [`Location`] is a hint: where a backend put an object. It is never hashed. A reader compares the id found there with
//! the id wanted, so a stale hint costs time and nothing else.

use alloc::{sync::Arc, vec::Vec};
use core::{borrow::Borrow, cmp, fmt, hash, ops};

use crate::{Oid, Record};

/// What an object is. Kinds are hashed in separate domains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum Kind {
    /// A user's value, or a piece of a large one.
    Contents = 1,
    /// A directory, or a piece of a wide one.
    Node = 2,
    /// A commit.
    Commit = 3,
    /// The list of pieces of a large value.
    Pieces = 4,
    /// An annotated tag.
    Tag = 5,
}

impl Kind {
    /// Returns the kind with this number.
    #[must_use]
    pub const fn from_u8(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Contents,
            2 => Self::Node,
            3 => Self::Commit,
            4 => Self::Pieces,
            5 => Self::Tag,
            _ => return None,
        })
    }

    /// Returns the kind's name, as messages and JSON write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Contents => "contents",
            Self::Node => "node",
            Self::Commit => "commit",
            Self::Pieces => "pieces",
            Self::Tag => "tag",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where a backend put an object: an opaque hint, unhashed.
///
/// Below 2^63 a location is a backend's own. From 2^63 on it is an offset within the batch that is being
/// built ([`Location::pending`]); in a stored record it is a distance back from the record itself, so
/// that a batch does not depend on where it will land.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location(pub u64);

impl Location {
    /// No hint: the object is found by its id.
    pub const NONE: Self = Self(u64::MAX);
    const RELATIVE: u64 = 1 << 63;

    /// The place at this offset of a batch that has no place yet.
    #[must_use]
    pub const fn pending(offset: u64) -> Self {
        Self(Self::RELATIVE | offset)
    }

    /// Returns the offset in the batch, if this is a place in a batch that has none yet.
    #[must_use]
    #[inline]
    pub const fn pending_offset(self) -> Option<u64> {
        if self.0 & Self::RELATIVE != 0 && self.0 != u64::MAX { Some(self.0 & !Self::RELATIVE) } else { None }
    }

    /// Returns this place once its batch begins at `base`.
    #[must_use]
    #[inline]
    pub const fn resolve(self, base: Self) -> Self {
        match self.pending_offset() {
            // A backend without locations has no base either.
            Some(_) if !base.is_some() => Self::NONE,
            Some(offset) => Self(base.0.saturating_add(offset)),
            None => self,
        }
    }

    /// Returns how a record at `own` (an offset of the batch) writes this child.
    #[must_use]
    #[inline]
    pub(crate) const fn to_stored(self, own: u64) -> u64 {
        match self.pending_offset() {
            Some(offset) => Self::RELATIVE | (own - offset),
            None => self.0,
        }
    }

    /// Returns the place that a record at `own` wrote as `stored`.
    #[must_use]
    #[inline]
    pub(crate) const fn from_stored(stored: u64, own: Self) -> Self {
        if stored & Self::RELATIVE == 0 || stored == u64::MAX {
            return Self(stored);
        }
        match own.0.checked_sub(stored & !Self::RELATIVE) {
            Some(place) if own.is_some() => Self(place),
            _ => Self::NONE,
        }
    }

    /// Whether there is a hint.
    #[must_use]
    #[inline]
    pub const fn is_some(self) -> bool {
        self.0 != u64::MAX
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pending_offset() {
            Some(offset) => write!(f, "+{offset:#x}"),
            None if !self.is_some() => f.write_str("nowhere"),
            None => write!(f, "{:#x}:{:#x}", self.0 >> 32, self.0 & 0xffff_ffff),
        }
    }
}

/// An object's id and where it was last seen. Two are equal if their ids are. Backends and formats speak of objects so;
/// users of a repository have ids that say of what they are: [`crate::CommitId`] and [`crate::TreeId`].
#[derive(Clone, Copy)]
pub struct ObjRef {
    /// The id.
    pub oid: Oid,
    /// A hint for the backend.
    pub at: Location,
}

impl ObjRef {
    /// Returns a reference with a hint.
    #[must_use]
    pub const fn new(oid: Oid, at: Location) -> Self {
        Self { oid, at }
    }
}

impl From<Oid> for ObjRef {
    fn from(oid: Oid) -> Self {
        Self { oid, at: Location::NONE }
    }
}

impl PartialEq for ObjRef {
    fn eq(&self, other: &Self) -> bool {
        self.oid == other.oid
    }
}

impl Eq for ObjRef {}

impl PartialOrd for ObjRef {
    fn partial_cmp(&self, other: &Self) -> Option<cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ObjRef {
    fn cmp(&self, other: &Self) -> cmp::Ordering {
        self.oid.cmp(&other.oid)
    }
}

impl hash::Hash for ObjRef {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        self.oid.hash(state);
    }
}

impl fmt::Debug for ObjRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {:?}", self.oid, self.at)
    }
}

/// Bytes borrowed from a backend's memory, or shared.
#[derive(Clone)]
pub enum Bytes<'a> {
    /// Borrowed, from a map or an arena that lives as long as the backend.
    Borrowed(&'a [u8]),
    /// A range of shared bytes.
    Shared {
        /// The whole.
        bytes: Arc<[u8]>,
        /// Where the range starts in it.
        start: usize,
        /// Where it ends.
        end: usize,
    },
    /// A range of shared bytes that were put together in memory that grew.
    Grown {
        /// The whole.
        bytes: Arc<Vec<u8>>,
        /// Where the range starts in it.
        start: usize,
        /// Where it ends.
        end: usize,
    },
}

impl<'a> Bytes<'a> {
    /// Returns the bytes of `range` without copying them.
    ///
    /// # Panics
    /// If the range is not within the bytes, as slicing does.
    #[must_use]
    #[inline]
    pub fn slice(&self, range: ops::Range<usize>) -> Bytes<'a> {
        match self {
            Self::Borrowed(bytes) => Self::Borrowed(&bytes[range]),
            Self::Shared { bytes, start, end } => {
                let (from, to) = (start + range.start, start + range.end);
                assert!(from <= to && to <= *end, "a range beyond the bytes");
                Self::Shared { bytes: bytes.clone(), start: from, end: to }
            }
            Self::Grown { bytes, start, end } => {
                let (from, to) = (start + range.start, start + range.end);
                assert!(from <= to && to <= *end, "a range beyond the bytes");
                Self::Grown { bytes: bytes.clone(), start: from, end: to }
            }
        }
    }

    /// Returns bytes that borrow nothing, copying them if they are borrowed now.
    #[must_use]
    pub fn into_static(self) -> Bytes<'static> {
        match self {
            Self::Borrowed(bytes) => Bytes::from(Arc::from(bytes)),
            Self::Shared { bytes, start, end } => Bytes::Shared { bytes, start, end },
            Self::Grown { bytes, start, end } => Bytes::Grown { bytes, start, end },
        }
    }
}

impl Default for Bytes<'_> {
    /// No bytes.
    fn default() -> Self {
        Self::Borrowed(&[])
    }
}

impl From<Arc<[u8]>> for Bytes<'_> {
    fn from(bytes: Arc<[u8]>) -> Self {
        let end = bytes.len();
        Self::Shared { bytes, start: 0, end }
    }
}

impl From<Vec<u8>> for Bytes<'_> {
    /// Shares the bytes where they are.
    fn from(bytes: Vec<u8>) -> Self {
        let end = bytes.len();
        Self::Grown { bytes: Arc::new(bytes), start: 0, end }
    }
}

impl<'a> From<&'a [u8]> for Bytes<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Borrowed(bytes)
    }
}

impl ops::Deref for Bytes<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Shared { bytes, start, end } => &bytes[*start..*end],
            Self::Grown { bytes, start, end } => &bytes[*start..*end],
        }
    }
}

impl AsRef<[u8]> for Bytes<'_> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl PartialEq for Bytes<'_> {
    fn eq(&self, other: &Self) -> bool {
        self[..] == other[..]
    }
}

impl Eq for Bytes<'_> {}

impl PartialOrd for Bytes<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Bytes<'_> {
    fn cmp(&self, other: &Self) -> cmp::Ordering {
        self[..].cmp(&other[..])
    }
}

impl hash::Hash for Bytes<'_> {
    /// As the slice, which finds the bytes in a map of them ([`Borrow`]).
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        self[..].hash(state);
    }
}

impl Borrow<[u8]> for Bytes<'_> {
    fn borrow(&self) -> &[u8] {
        self
    }
}

/// Compares bytes with other owners of bytes.
macro_rules! bytes_eq {
    ($($other:ty),*) => {$(
        impl PartialEq<$other> for Bytes<'_> {
            fn eq(&self, other: &$other) -> bool {
                let other: &[u8] = other.as_ref();
                self[..] == *other
            }
        }
    )*};
}

bytes_eq!([u8], &[u8], Vec<u8>, str, &str);

impl<const N: usize> PartialEq<[u8; N]> for Bytes<'_> {
    fn eq(&self, other: &[u8; N]) -> bool {
        self[..] == other[..]
    }
}

impl<const N: usize> PartialEq<&[u8; N]> for Bytes<'_> {
    fn eq(&self, other: &&[u8; N]) -> bool {
        self[..] == other[..]
    }
}

impl fmt::Debug for Bytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", crate::escape(self))
    }
}

/// An object as read: its kind, its body, and where its children are.
#[derive(Clone, Debug)]
pub struct Object<'a> {
    bytes: Bytes<'a>,
    kind: Kind,
    // Where the child locations begin, how many there are, and where the body begins and ends.
    children_at: u32,
    children: u32,
    metadata_words: u8,
    body_at: u32,
    own: Location,
}

impl<'a> Object<'a> {
    /// An object that is nothing but its body: its children have no locations.
    #[must_use]
    pub const fn from_body(kind: Kind, bytes: Bytes<'a>) -> Self {
        Self { bytes, kind, children_at: 0, children: 0, metadata_words: 0, body_at: 0, own: Location::NONE }
    }

    /// The object of a record whose bytes are `bytes` and which stands at `own`.
    #[must_use]
    #[inline]
    pub fn from_record(record: &Record<'_>, bytes: Bytes<'a>, own: Location) -> Self {
        Self {
            bytes,
            kind: record.kind,
            children_at: crate::RECORD_HEADER_BYTES as u32,
            children: record.children,
            metadata_words: record.metadata_words,
            body_at: record.body_at() as u32,
            own,
        }
    }

    /// Returns the object borrowing nothing, its bytes copied if they are borrowed now.
    #[must_use]
    pub fn into_static(self) -> Object<'static> {
        let Self { bytes, kind, children_at, children, metadata_words, body_at, own } = self;
        Object { bytes: bytes.into_static(), kind, children_at, children, metadata_words, body_at, own }
    }

    /// Returns the kind.
    #[must_use]
    #[inline]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the format's bytes.
    #[must_use]
    #[inline]
    pub fn body(&self) -> &[u8] {
        &self.bytes[self.body_at as usize..]
    }

    /// Returns the format's bytes for as long as the backend lends them; `None` for an object that has bytes of its own.
    #[must_use]
    #[inline]
    pub fn lent_body(&self) -> Option<&'a [u8]> {
        match &self.bytes {
            Bytes::Borrowed(bytes) => bytes.get(self.body_at as usize..),
            _ => None,
        }
    }

    /// Returns the format's bytes, or a range of them, to be kept.
    ///
    /// # Panics
    /// If the range is not within the body, as slicing does.
    #[must_use]
    #[inline]
    pub fn body_slice(&self, range: ops::Range<usize>) -> Bytes<'a> {
        let at = self.body_at as usize;
        self.bytes.slice(at + range.start..at + range.end)
    }

    /// Returns the format's bytes, to be kept.
    #[must_use]
    pub fn into_body(self) -> Bytes<'a> {
        self.bytes.slice(self.body_at as usize..self.bytes.len())
    }

    /// Returns where child `index` is, in the format's order of children.
    #[must_use]
    #[inline]
    pub fn child(&self, index: usize) -> Location {
        if index >= self.children as usize {
            return Location::NONE;
        }
        Location::from_stored(self.word(index), self.own)
    }

    /// Returns how many child locations are recorded.
    #[must_use]
    pub const fn children(&self) -> usize {
        self.children as usize
    }

    /// Returns metadata word `index` of the record, where it has one. Metadata words are no part of the id.
    #[must_use]
    pub fn metadata_word(&self, index: usize) -> Option<u64> {
        (index < usize::from(self.metadata_words)).then(|| self.word(self.children as usize + index))
    }

    /// Returns where the object itself is.
    #[must_use]
    pub const fn location(&self) -> Location {
        self.own
    }

    /// Returns how many bytes it takes where it was read: the body with what the record says besides.
    #[must_use]
    pub fn read_bytes(&self) -> usize {
        self.bytes.len()
    }

    #[inline]
    fn word(&self, index: usize) -> u64 {
        let at = self.children_at as usize + index * 8;
        let mut word = [0; 8];
        word.copy_from_slice(&self.bytes[at..at + 8]);
        u64::from_le_bytes(word)
    }
}

/// Where objects come from.
pub trait Source {
    /// What reading can fail with; also carries what is wrong with an object.
    type Error: From<crate::FormatError> + Send;

    /// Returns the record of an object that is where the hint says and can be borrowed, checked; `None` in any
    /// other case, for whatever reason. The record's kind is not checked.
    #[inline]
    fn peek(&self, oid: &[u8], at: Location) -> Option<&[u8]> {
        let _ = (oid, at);
        None
    }

    /// Reads the object `at` names, which must be of kind `kind`.
    ///
    /// # Errors
    /// If the object is absent, damaged, of another kind, or cannot be read.
    fn read<'a>(&'a self, kind: Kind, at: &ObjRef) -> Result<Object<'a>, Self::Error>;

    /// Reads several objects at once, each of its own kind, in the order in which they are asked for.
    ///
    /// The answer may be shorter than `wanted`, but has the first object if any is wanted: it ends behind the object with
    /// which it holds `bytes_max` bytes or more, and before one that cannot be read. So an object that was asked for in
    /// case it is needed fails where it is needed, and nowhere else.
    ///
    /// The default reads the first alone: a source that gains nothing by reading ahead need not do it.
    ///
    /// # Errors
    /// As [`Source::read`], for the first one.
    fn read_many<'a>(&'a self, wanted: &[(Kind, ObjRef)], bytes_max: usize) -> Result<Vec<Object<'a>>, Self::Error> {
        let _ = bytes_max;
        wanted.first().map(|(kind, at)| self.read(*kind, at)).into_iter().collect()
    }
}

/// A source without objects, for what needs none.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSource;

impl Source for NoSource {
    type Error = crate::FormatError;

    fn read<'a>(&'a self, kind: Kind, _: &ObjRef) -> Result<Object<'a>, Self::Error> {
        Err(crate::FormatError::Inconsistent { kind, reason: "it is missing" })
    }
}

/// From this many changes on, a directory's changes are made in stretches of about half as many, which threads can share. A
/// stretch takes a millisecond at most, a look at what lies around it a few microseconds; and what it needs stays in the
/// processor's cache, so that one thread gains from it, too.
pub const SHARED_MIN: usize = 8192;

/// Where new objects go.
pub trait Sink {
    /// Takes an object and returns where it will be. The same object given twice is kept once.
    ///
    /// `children` are the locations of the children in the format's order. `metadata` are words that the record carries
    /// besides, and that are no part of the id.
    fn put(&mut self, kind: Kind, oid: Oid, body: &[u8], children: &[Location], metadata: &[u64]) -> Location;

    /// Lends a buffer whose memory is reused from object to object.
    fn take_buffer(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// Gives the buffer back.
    fn give_buffer(&mut self, buffer: Vec<u8>) {
        drop(buffer);
    }

    /// Returns where an object with this id is already known to be: in this sink or below it.
    fn known(&self, oid: &Oid) -> Option<Location>;

    /// Hears of objects that it will be asked for or given next, so that the processor can fetch at once what is looked at for all
    /// of them.
    fn expect(&self, oids: &[Oid]) {
        let _ = oids;
    }

    /// Hears from an update that a step which was bound to a directory is bound to something else from now on.
    fn dir_replaced(&mut self, step: &[u8]) {
        let _ = step;
    }

    /// Calls both, which give objects to this sink, and returns what both return. All that `one` gives comes before what
    /// `other` gives.
    ///
    /// A sink may have another thread call `other` at the same time, with a sink of its own whose objects it then takes in
    /// behind those of `one`. So `other` must not need what `one` gives, nor name places of what this sink was given before,
    /// which are not those of a sink beside it. The places that `other` learnt are others then: `moved` gets what it
    /// returned, and what to ask where something is now that was at a place.
    ///
    /// The default calls one after the other.
    fn join<A: Send, B: Send>(
        &mut self,
        one: impl FnOnce(&mut Self) -> A + Send,
        other: impl FnOnce(&mut Self) -> B + Send,
        moved: impl FnOnce(&mut B, &dyn Fn(Location) -> Location),
    ) -> (A, B)
    where
        Self: Sized,
    {
        let _ = moved;
        (one(self), other(self))
    }

    /// Calls `make`, which gives objects to this sink, and returns what it returns.
    ///
    /// A sink may give it another sink, and do at once with these objects what it does with its own later. So `make` must not name
    /// places of what this sink was given before. The places that it learnt may be others then: `moved` gets what it returned, and
    /// what to ask where something is now that was at a place.
    ///
    /// The default calls `make` with this sink.
    fn apart<A>(
        &mut self,
        make: impl FnOnce(&mut Self) -> A,
        moved: impl FnOnce(&mut A, &dyn Fn(Location) -> Location),
    ) -> A
    where
        Self: Sized,
    {
        let _ = moved;
        make(self)
    }

    /// From how many changes of a directory on it is worth while to share them out ([`Sink::join`]).
    fn shared_min(&self) -> usize {
        SHARED_MIN
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use std::collections::{BTreeMap, HashSet};

    use super::*;

    #[test]
    fn bytes_are_keys_as_slices_are_wherever_they_lie() {
        let all = [Bytes::from(&b"b"[..]), Bytes::from(vec![b'b']), Bytes::from(Arc::from(&b"b"[..]))];
        let set = HashSet::from(all);
        assert!(set.len() == 1 && set.contains(&b"b"[..]));
        let (short, long) = (Bytes::from(&b"b"[..]), Bytes::from(vec![b'b', 0]));
        let sorted = BTreeMap::from([(long, 2), (short, 1), (Bytes::default(), 0)]);
        assert_eq!(sorted.get(&b"b"[..]), Some(&1));
        assert_eq!(sorted.into_values().collect::<Vec<_>>(), [0, 1, 2]);
    }
}
