//! The record: how backends of ours keep one object. `docs/formats/disk.md` section 2 lists the bytes.
//!
//! A record is a header with the object's id, the locations of its children, metadata words, and the
//! format's bytes. Children earlier in the same batch are named by their distance, so that the bytes of
//! a batch do not depend on where the batch is appended.

use alloc::vec::Vec;
use core::{error, fmt};

use twox_hash::XxHash3_64;

use crate::{Kind, Location, Oid};

const CHECKSUM_AT: usize = 0;
const BODY_BYTES_AT: usize = CHECKSUM_AT + 4;
const CHILDREN_AT: usize = BODY_BYTES_AT + 4;
const KIND_AT: usize = CHILDREN_AT + 4;
const ID_BYTES_AT: usize = KIND_AT + 1;
const METADATA_AT: usize = ID_BYTES_AT + 1;
const ZERO_AT: usize = METADATA_AT + 1;
const ID_AT: usize = ZERO_AT + 1;
/// Bytes before the child locations: 48 = 4 checksum + 4 body length + 4 children + 1 kind + 1 id length
/// + 1 metadata words + 1 zero + 32 id.
pub const RECORD_HEADER_BYTES: usize = ID_AT + Oid::BYTES_MAX;
const _: () = assert!(RECORD_HEADER_BYTES == 48, "the fields of a record's header add up");
/// Bytes of a child location, and of a metadata word.
const WORD_BYTES: usize = 8;
/// What the checksum is over begins here.
const CHECKED_AT: usize = CHECKSUM_AT + 4;
/// Records start at multiples of this many bytes.
pub(crate) const RECORD_ALIGN: usize = 8;

/// The header of a record, read where it lies, field by field. Nothing is checked.
#[derive(Clone, Copy, Debug)]
pub struct RecordHeader<'a>(&'a [u8; RECORD_HEADER_BYTES]);

impl<'a> RecordHeader<'a> {
    /// Takes the header at the start of `bytes`; `None` if there are fewer bytes than a header has.
    #[must_use]
    #[inline(always)]
    pub fn first(bytes: &'a [u8]) -> Option<Self> {
        bytes.first_chunk().map(Self)
    }

    #[inline(always)]
    const fn word(self, at: usize) -> u32 {
        u32::from_le_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]])
    }

    const fn checksum(self) -> u32 {
        self.word(CHECKSUM_AT)
    }

    /// Returns the length of the body in bytes.
    #[must_use]
    #[inline(always)]
    pub const fn body_bytes(self) -> u32 {
        self.word(BODY_BYTES_AT)
    }

    /// Returns how many child locations follow the header.
    #[must_use]
    #[inline(always)]
    pub const fn children(self) -> u32 {
        self.word(CHILDREN_AT)
    }

    /// Returns the kind of the object; `None` where the byte stands for no kind.
    #[must_use]
    #[inline(always)]
    pub const fn kind(self) -> Option<Kind> {
        Kind::from_u8(self.0[KIND_AT])
    }

    /// Whether the object is of this kind.
    #[must_use]
    #[inline(always)]
    pub const fn is_kind(self, kind: Kind) -> bool {
        self.0[KIND_AT] == kind as u8
    }

    /// Returns how many metadata words follow the child locations.
    #[must_use]
    #[inline(always)]
    pub const fn metadata_words(self) -> u8 {
        self.0[METADATA_AT]
    }

    /// Returns the id; `None` where ids cannot have its length.
    #[must_use]
    #[inline(always)]
    pub fn oid(self) -> Option<&'a [u8]> {
        let bytes = usize::from(self.0[ID_BYTES_AT]);
        if bytes == 0 { None } else { self.padded_oid().get(..bytes) }
    }

    /// Returns the 32 bytes that the id is at the start of.
    #[must_use]
    #[inline(always)]
    pub fn padded_oid(self) -> &'a [u8; Oid::BYTES_MAX] {
        self.0.last_chunk().expect("a header ends in the id")
    }

    /// Whether the record is of the object with this id.
    #[must_use]
    #[inline(always)]
    pub fn is_of(self, oid: &[u8]) -> bool {
        if usize::from(self.0[ID_BYTES_AT]) != oid.len() {
            return false;
        }
        let found = self.padded_oid();
        // Ids of 32 and of 20 bytes, which is nearly all, are compared without a call.
        match (oid.first_chunk::<{ Oid::BYTES_MAX }>(), oid.first_chunk::<20>()) {
            (Some(wanted), _) => same_id(found, wanted),
            (None, Some(wanted)) if oid.len() == 20 => found.first_chunk() == Some(wanted),
            _ => found.get(..oid.len()) == Some(oid),
        }
    }

    /// Returns how many of three fields hold what no header has there: kind, length of the id, and the byte that is zero.
    #[must_use]
    #[inline(always)]
    pub fn faults(self) -> usize {
        [self.kind().is_none(), self.oid().is_none(), self.0[ZERO_AT] != 0].into_iter().filter(|&wrong| wrong).count()
    }

    /// Returns where the body starts, in bytes from the start of the record.
    #[must_use]
    #[inline(always)]
    pub const fn body_at(self) -> u64 {
        body_at(self.children(), self.metadata_words())
    }

    /// Returns the length of the record in bytes, without the padding that follows.
    #[must_use]
    #[inline(always)]
    pub const fn bytes(self) -> u64 {
        self.body_at() + self.body_bytes() as u64
    }
}

#[inline(always)]
fn same_id(one: &[u8; Oid::BYTES_MAX], other: &[u8; Oid::BYTES_MAX]) -> bool {
    let word =
        |id: &[u8; Oid::BYTES_MAX], at: usize| id[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    let differs = |at: usize| word(one, at) ^ word(other, at);
    differs(0) | differs(8) | differs(16) | differs(24) == 0
}

#[inline(always)]
const fn body_at(children: u32, metadata_words: u8) -> u64 {
    RECORD_HEADER_BYTES as u64 + (children as u64 + metadata_words as u64) * WORD_BYTES as u64
}

/// The decoded header of a record.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The object's id.
    pub oid: &'a [u8],
    /// Its kind.
    pub kind: Kind,
    /// How many child locations follow the header.
    pub children: u32,
    /// How many metadata words follow those.
    pub metadata_words: u8,
    /// Bytes of the body.
    pub body_bytes: u32,
    checksum: u32,
}

impl<'a> Record<'a> {
    /// Reads the header at the start of `bytes`, which may go on beyond the record.
    ///
    /// # Errors
    /// [`RecordError`] if this is no record, or one that is longer than `bytes`.
    #[inline(always)]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, RecordError> {
        let Some(header) = RecordHeader::first(bytes) else { return Err(RecordError::Short) };
        let (Some(kind), Some(oid), 0) = (header.kind(), header.oid(), header.0[ZERO_AT]) else {
            return Err(RecordError::Header);
        };
        let record = Self {
            oid,
            kind,
            children: header.children(),
            metadata_words: header.metadata_words(),
            body_bytes: header.body_bytes(),
            checksum: header.checksum(),
        };
        if record.bytes() > bytes.len() as u64 {
            return Err(RecordError::Short);
        }
        Ok(record)
    }

    /// Returns the length in bytes, without the padding that follows.
    #[must_use]
    #[inline]
    pub const fn bytes(&self) -> u64 {
        body_at(self.children, self.metadata_words) + self.body_bytes as u64
    }

    /// Returns where the body starts.
    #[must_use]
    #[inline]
    pub const fn body_at(&self) -> usize {
        body_at(self.children, self.metadata_words) as usize
    }

    /// Checks the checksum over the record, of which `bytes` are the bytes.
    ///
    /// # Errors
    /// [`RecordError::Checksum`] if it differs.
    pub fn verify(&self, bytes: &[u8]) -> Result<(), RecordError> {
        let whole = bytes.get(CHECKED_AT..self.bytes() as usize).ok_or(RecordError::Short)?;
        let found = XxHash3_64::oneshot(whole) as u32;
        if found != self.checksum {
            return Err(RecordError::Checksum { expected: self.checksum, found });
        }
        Ok(())
    }
}

/// Returns the bytes of the record at the start of `bytes`, checked.
///
/// # Errors
/// [`RecordError`] if there is no sound record.
pub fn record_bytes(bytes: &[u8]) -> Result<(Record<'_>, &[u8]), RecordError> {
    let record = Record::parse(bytes)?;
    record.verify(bytes)?;
    Ok((record, &bytes[..record.bytes() as usize]))
}

/// Returns how far the next record is from the start of one with these parts, in bytes.
#[must_use]
pub const fn record_span(children: usize, metadata_words: usize, body_bytes: usize) -> usize {
    (RECORD_HEADER_BYTES + (children + metadata_words) * WORD_BYTES + body_bytes).next_multiple_of(RECORD_ALIGN)
}

/// Appends a record to `out`, which holds a batch from its beginning, and returns its offset there.
///
/// `children` that are pending in this batch are written as distances.
pub fn write_record(
    out: &mut Vec<u8>,
    kind: Kind,
    oid: &Oid,
    body: &[u8],
    children: &[Location],
    metadata: &[u64],
) -> u64 {
    debug_assert!(out.len().is_multiple_of(RECORD_ALIGN));
    let start = out.len();
    out.reserve(record_span(children.len(), metadata.len(), body.len()));
    let mut header = [0; RECORD_HEADER_BYTES];
    header[BODY_BYTES_AT..CHILDREN_AT].copy_from_slice(&(body.len() as u32).to_le_bytes());
    header[CHILDREN_AT..KIND_AT].copy_from_slice(&(children.len() as u32).to_le_bytes());
    header[KIND_AT] = kind as u8;
    header[ID_BYTES_AT] = oid.as_bytes().len() as u8;
    header[METADATA_AT] = metadata.len() as u8;
    header[ID_AT..].copy_from_slice(oid.padded());
    out.extend_from_slice(&header);
    for child in children {
        out.extend_from_slice(&child.to_stored(start as u64).to_le_bytes());
    }
    for word in metadata {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(body);
    let checksum = XxHash3_64::oneshot(&out[start + CHECKED_AT..]) as u32;
    out[start + CHECKSUM_AT..start + CHECKED_AT].copy_from_slice(&checksum.to_le_bytes());
    out.resize(out.len().next_multiple_of(RECORD_ALIGN), 0);
    start as u64
}

/// Why bytes are no sound record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordError {
    /// Fewer bytes than the record has.
    Short,
    /// The bytes do not begin with a header.
    Header,
    /// The bytes changed since they were written.
    Checksum {
        /// As written.
        expected: u32,
        /// As computed.
        found: u32,
    },
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short => f.write_str("the record is cut short"),
            Self::Header => f.write_str("there is no record header"),
            Self::Checksum { expected, found } => {
                write!(f, "the record's checksum is {found:#010x}, not {expected:#010x}")
            }
        }
    }
}

impl error::Error for RecordError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_is_found() {
        let mut out = Vec::new();
        let oid = Oid::from_array([7; 32]);
        let first = write_record(&mut out, Kind::Contents, &oid, b"piece", &[], &[]);
        let second = write_record(&mut out, Kind::Node, &oid, b"body", &[Location::pending(first)], &[9]);
        let bytes = &out[second as usize..];
        let (record, whole) = record_bytes(bytes).unwrap();
        assert_eq!((record.children, record.metadata_words, record.body_bytes), (1, 1, 4));
        for bit in 0..whole.len() * 8 {
            let mut flipped = whole.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(record_bytes(&flipped).is_err(), "bit {bit}");
        }
        for cut in 0..whole.len() {
            assert!(record_bytes(&whole[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn a_header_says_what_its_record_says_and_is_of_no_other_id() {
        for length in [1, 7, 19, 20, 21, 31, 32] {
            let id: Vec<u8> = (1..=length).collect();
            let mut out = Vec::new();
            write_record(&mut out, Kind::Commit, &Oid::new(&id).unwrap(), b"body", &[Location(8); 3], &[7, 9]);
            let (header, record) = (RecordHeader::first(&out).unwrap(), Record::parse(&out).unwrap());
            assert_eq!((header.oid(), record.oid), (Some(&id[..]), &id[..]));
            assert_eq!((header.kind(), header.faults()), (Some(record.kind), 0));
            assert_eq!((header.children(), header.metadata_words(), header.body_bytes()), (3, 2, 4));
            assert_eq!((header.bytes(), header.body_at()), (record.bytes(), record.body_at() as u64));
            assert!(header.is_kind(Kind::Commit) && !header.is_kind(Kind::Node) && header.is_of(&id));
            for at in 0..id.len() {
                let mut other = id.clone();
                other[at] ^= 0x80;
                assert!(!header.is_of(&other) && !header.is_of(&id[..at]), "{length} bytes, byte {at}");
            }
            assert!(!header.is_of(&[&id[..], &[0]].concat()), "{length} bytes and one more");
        }
        assert!(RecordHeader::first(&[0; RECORD_HEADER_BYTES - 1]).is_none());
        let wrong = RecordHeader::first(&[0xff; RECORD_HEADER_BYTES]).unwrap();
        assert_eq!((wrong.kind(), wrong.oid(), wrong.faults()), (None, None, 3));
    }

    #[test]
    fn children_are_found_wherever_the_batch_lands() {
        let mut out = Vec::new();
        let oid = Oid::from_array([7; 32]);
        let child = write_record(&mut out, Kind::Contents, &oid, b"piece", &[], &[]);
        let far = Location(77);
        let own = write_record(&mut out, Kind::Node, &oid, b"body", &[Location::pending(child), far], &[9]);
        let bytes = &out[own as usize..];
        let (record, whole) = record_bytes(bytes).unwrap();
        let base = Location(0x5_0000_0100);
        let object = crate::Object::from_record(&record, whole.into(), Location::pending(own).resolve(base));
        assert_eq!(object.child(0), Location(base.0 + child));
        assert_eq!(object.child(1), far);
        assert_eq!(object.child(2), Location::NONE);
        assert_eq!((object.metadata_word(0), object.metadata_word(1)), (Some(9), None));
        assert_eq!(object.body(), b"body");
    }
}
