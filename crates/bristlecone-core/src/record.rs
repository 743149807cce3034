//! The record: how backends of ours keep one object. `docs/formats/disk.md` section 2 lists the bytes.
//!
//! A record is a header with the object's id, the locations of its children, unhashed words, and the
//! format's bytes. Children earlier in the same batch are named by their distance, so that the bytes of
//! a batch do not depend on where the batch lands.

use alloc::vec::Vec;
use core::{error, fmt};

use xxhash_rust::xxh3::xxh3_64;

use crate::{Kind, Location, Oid};

/// Bytes before the child locations: 48 = 4 checksum + 4 body length + 4 children + 1 kind + 1 id length
/// + 1 words + 1 zero + 32 id.
pub const RECORD_HEADER_BYTES: usize = 48;
/// Records start at multiples of this many bytes.
pub(crate) const RECORD_ALIGN: usize = 8;

/// The decoded header of a record.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The object's id.
    pub oid: &'a [u8],
    /// Its kind.
    pub kind: Kind,
    /// How many child locations follow the header.
    pub children: u32,
    /// How many unhashed words follow those.
    pub aux: u8,
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
        let Some(header) = bytes.first_chunk::<RECORD_HEADER_BYTES>() else { return Err(RecordError::Short) };
        let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let Some(kind) = Kind::from_u8(header[12]) else { return Err(RecordError::Header) };
        let id_bytes = usize::from(header[13]);
        if id_bytes == 0 || id_bytes > Oid::BYTES_MAX || header[15] != 0 {
            return Err(RecordError::Header);
        }
        let record = Self {
            oid: &header[16..16 + id_bytes],
            kind,
            children: word(8),
            aux: header[14],
            body_bytes: word(4),
            checksum: word(0),
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
        RECORD_HEADER_BYTES as u64 + (self.children as u64 + self.aux as u64) * 8 + self.body_bytes as u64
    }

    /// Returns where the body starts.
    #[must_use]
    #[inline]
    pub const fn body_at(&self) -> usize {
        RECORD_HEADER_BYTES + (self.children as usize + self.aux as usize) * 8
    }

    /// Checks the checksum over the record, of which `bytes` are the bytes.
    ///
    /// # Errors
    /// [`RecordError::Checksum`] if it differs.
    pub fn verify(&self, bytes: &[u8]) -> Result<(), RecordError> {
        let whole = bytes.get(4..self.bytes() as usize).ok_or(RecordError::Short)?;
        let found = xxh3_64(whole) as u32;
        if found != self.checksum {
            return Err(RecordError::Checksum { expected: self.checksum, found });
        }
        Ok(())
    }
}

/// Returns the length in bytes of the record that this header is of, without the padding that follows.
/// Nothing is checked.
#[must_use]
#[inline(always)]
pub const fn record_length(header: &[u8; RECORD_HEADER_BYTES]) -> u64 {
    let body = u32::from_le_bytes([header[4], header[5], header[6], header[7]]) as u64;
    let children = u32::from_le_bytes([header[8], header[9], header[10], header[11]]) as u64;
    RECORD_HEADER_BYTES as u64 + (children + header[14] as u64) * 8 + body
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
pub const fn record_span(children: usize, aux: usize, body_bytes: usize) -> usize {
    (RECORD_HEADER_BYTES + (children + aux) * 8 + body_bytes).next_multiple_of(RECORD_ALIGN)
}

/// Appends a record to `out`, which holds a batch from its beginning, and returns its offset there.
///
/// `children` that are pending in this batch are written as distances.
pub fn write_record(out: &mut Vec<u8>, kind: Kind, oid: &Oid, body: &[u8], children: &[Location], aux: &[u64]) -> u64 {
    debug_assert!(out.len().is_multiple_of(RECORD_ALIGN));
    let start = out.len();
    out.reserve(record_span(children.len(), aux.len(), body.len()));
    let mut header = [0; RECORD_HEADER_BYTES];
    header[4..8].copy_from_slice(&(body.len() as u32).to_le_bytes());
    header[8..12].copy_from_slice(&(children.len() as u32).to_le_bytes());
    header[12] = kind as u8;
    header[13] = oid.as_bytes().len() as u8;
    header[14] = aux.len() as u8;
    header[16..48].copy_from_slice(oid.padded());
    out.extend_from_slice(&header);
    for child in children {
        out.extend_from_slice(&child.to_stored(start as u64).to_le_bytes());
    }
    for word in aux {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(body);
    let checksum = xxh3_64(&out[start + 4..]) as u32;
    out[start..start + 4].copy_from_slice(&checksum.to_le_bytes());
    out.resize(out.len().next_multiple_of(RECORD_ALIGN), 0);
    start as u64
}

/// Why bytes are no sound record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordError {
    /// Fewer bytes than the record has.
    Short,
    /// The header is none.
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
        assert_eq!((record.children, record.aux, record.body_bytes), (1, 1, 4));
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
        assert_eq!((object.aux(0), object.aux(1)), (Some(9), None));
        assert_eq!(object.body(), b"body");
    }
}
