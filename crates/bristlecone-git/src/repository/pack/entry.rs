//! The head of an entry: what it is, how large, and what it is a delta against.
//!
//! ```text
//! entry = kind and size, base?, zlib stream
//! ```
//!
//! The first byte holds a continuation bit, three bits of kind and the lowest four of the size; more bytes of seven
//! bits follow, lowest first. A delta against an entry of the same pack says how far back it begins, highest bits
//! first, each continued group counted from one; one against an id has the id.
//!
//! Source: Git's documentation, gitformat-pack.

use bristlecone::core::git::Algorithm;
use bristlecone::{Kind, Oid};

/// The longest head, in bytes: 10 for the size, and an id or a distance.
pub(crate) const HEAD_BYTES_MAX: usize = 10 + 32;

const OFFSET_DELTA: u8 = 6;
const OID_DELTA: u8 = 7;

/// What an entry holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// An object, whole.
    Whole(Kind),
    /// A delta against the entry at this offset of the pack.
    OffsetDelta(u64),
    /// A delta against the object with this id.
    OidDelta(Oid),
}

/// The head of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it holds.
    pub kind: EntryKind,
    /// The size in bytes of what is deflated: the object, or the delta.
    pub size: u64,
    /// The offset in the pack at which the zlib stream begins.
    pub data_offset: u64,
}

impl Entry {
    /// Reads the head at the front of `bytes`, which are those of the pack from `offset` on.
    pub(crate) fn parse(algorithm: Algorithm, bytes: &[u8], offset: u64) -> Result<Self, &'static str> {
        let cut_off = "the entry is cut off";
        let mut at = 0;
        let mut next = || {
            let byte = bytes.get(at).copied().ok_or(cut_off);
            at += 1;
            byte
        };
        let first = next()?;
        let mut size = u64::from(first & 15);
        let mut shift = 4;
        let mut byte = first;
        while byte & 0x80 != 0 {
            byte = next()?;
            let part = u64::from(byte & 0x7f);
            if shift > 57 || (part << shift) >> shift != part {
                return Err("the size of the entry is too large");
            }
            size |= part << shift;
            shift += 7;
        }
        let kind = match first >> 4 & 7 {
            1 => EntryKind::Whole(Kind::Commit),
            2 => EntryKind::Whole(Kind::Node),
            3 => EntryKind::Whole(Kind::Contents),
            4 => EntryKind::Whole(Kind::Tag),
            OFFSET_DELTA => {
                let mut byte = next()?;
                let mut distance = u64::from(byte & 0x7f);
                while byte & 0x80 != 0 {
                    byte = next()?;
                    if distance >= 1 << 56 {
                        return Err("the distance of a delta to its base is too large");
                    }
                    distance = (distance + 1) << 7 | u64::from(byte & 0x7f);
                }
                let base = if distance == 0 { None } else { offset.checked_sub(distance) };
                EntryKind::OffsetDelta(base.ok_or("the base of a delta lies outside of the pack")?)
            }
            OID_DELTA => {
                let id = bytes.get(at..at + algorithm.oid_bytes()).ok_or(cut_off)?;
                at += id.len();
                EntryKind::OidDelta(Oid::new(id).map_err(|_| cut_off)?)
            }
            _ => return Err("the entry is of no known kind"),
        };
        Ok(Self { kind, size, data_offset: offset + at as u64 })
    }
}

/// Appends the head of a whole object.
pub(crate) fn write_whole(kind: Kind, size: u64, out: &mut Vec<u8>) {
    let number = match kind {
        Kind::Commit => 1,
        Kind::Node => 2,
        Kind::Contents => 3,
        Kind::Tag => 4,
        _ => panic!("Git has no objects of kind {kind}"),
    };
    write_kind(number, size, out);
}

/// Appends the head of a delta of `size` bytes whose base begins `distance` bytes before it, 1 or more.
pub(crate) fn write_offset_delta(distance: u64, size: u64, out: &mut Vec<u8>) {
    write_kind(OFFSET_DELTA, size, out);
    let mut groups = [0; 10];
    let mut at = groups.len() - 1;
    let mut rest = distance;
    groups[at] = (rest & 0x7f) as u8;
    rest >>= 7;
    while rest > 0 {
        rest -= 1;
        at -= 1;
        groups[at] = 0x80 | (rest & 0x7f) as u8;
        rest >>= 7;
    }
    out.extend_from_slice(&groups[at..]);
}

/// Appends the head of a delta of `size` bytes against an id.
pub(crate) fn write_oid_delta(base: &Oid, size: u64, out: &mut Vec<u8>) {
    write_kind(OID_DELTA, size, out);
    out.extend_from_slice(base.as_bytes());
}

fn write_kind(number: u8, size: u64, out: &mut Vec<u8>) {
    let mut byte = number << 4 | (size & 15) as u8;
    let mut rest = size >> 4;
    while rest > 0 {
        out.push(byte | 0x80);
        byte = (rest & 0x7f) as u8;
        rest >>= 7;
    }
    out.push(byte);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_come_back_as_they_were_written() {
        let sizes = [0, 1, 15, 16, 2047, 2048, 1 << 31, u64::from(u32::MAX), 1 << 40, u64::MAX >> 4];
        let base = Oid::new(&[9; 20]).unwrap();
        for size in sizes {
            for kind in [Kind::Commit, Kind::Node, Kind::Contents, Kind::Tag] {
                let mut head = Vec::new();
                write_whole(kind, size, &mut head);
                let entry = Entry::parse(Algorithm::Sha1, &head, 7).unwrap();
                let data_offset = 7 + head.len() as u64;
                assert_eq!(entry, Entry { kind: EntryKind::Whole(kind), size, data_offset });
                assert!(Entry::parse(Algorithm::Sha1, &head[..head.len() - 1], 7).is_err());
            }
            let mut head = Vec::new();
            write_oid_delta(&base, size, &mut head);
            assert_eq!(Entry::parse(Algorithm::Sha1, &head, 0).unwrap().kind, EntryKind::OidDelta(base));
            for distance in [1, 127, 128, 129, 16_511, 16_512, 1 << 32, 1 << 50] {
                let mut head = Vec::new();
                write_offset_delta(distance, size, &mut head);
                let entry = Entry::parse(Algorithm::Sha1, &head, 1 << 51).unwrap();
                assert_eq!(entry.kind, EntryKind::OffsetDelta((1 << 51) - distance));
                assert!(head.len() <= HEAD_BYTES_MAX);
                assert!(Entry::parse(Algorithm::Sha1, &head, distance - 1).is_err());
            }
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for bytes in [&[0xff; 40][..], &[0x80; 40], &[0x05], &[0x00], &[0x60, 0x00], &[], &[0x70, 1, 2]] {
            assert!(Entry::parse(Algorithm::Sha1, bytes, 1000).is_err(), "{bytes:?}");
        }
    }
}
