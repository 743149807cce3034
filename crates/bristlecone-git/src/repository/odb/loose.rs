//! Loose objects: one file each, a header and the object's bytes, deflated together.
//!
//! ```text
//! file = zlib(type ' ' size 0 bytes)        the type as a word, the size in decimal digits
//! ```

use bristlecone::core::git::{kind_of, type_name};
use bristlecone::{Kind, Oid};

use crate::repository::pack::Compression;
use crate::repository::zlib;

/// The longest header in bytes: `commit `, 20 digits, a zero.
const HEADER_BYTES_MAX: usize = 28;

/// Returns the name of an object's file below the folder of objects: `ab/cdef…`.
#[must_use]
pub fn name(oid: &Oid) -> String {
    let hex = oid.to_string();
    format!("{}/{}", &hex[..2], &hex[2..])
}

/// Appends the file of an object whose bytes, as Git has them, are `raw`.
///
/// # Panics
/// For a kind that Git does not have.
pub fn encode(kind: Kind, raw: &[u8], compression: Compression, out: &mut Vec<u8>) {
    let name = type_name(kind).expect("a kind that Git has");
    let mut whole = Vec::with_capacity(HEADER_BYTES_MAX + raw.len());
    whole.extend_from_slice(format!("{name} {}\0", raw.len()).as_bytes());
    whole.extend_from_slice(raw);
    compression.write(&whole, out);
}

/// Replaces `out` by the bytes of the object that a file holds and returns its kind.
///
/// # Errors
/// What is wrong with the file.
pub fn decode(file: &[u8], out: &mut Vec<u8>) -> Result<Kind, &'static str> {
    let (kind, size, header_bytes) = read_header(file)?;
    out.clear();
    let used = zlib::inflate(file, header_bytes as u64 + size, out)?;
    if used != file.len() {
        return Err("something follows the object in its file");
    }
    out.drain(..header_bytes);
    Ok(kind)
}

/// Returns the kind and the size that a file states, of which the first 64 bytes or more are given.
///
/// # Errors
/// What is wrong with the file.
pub fn decode_header(file: &[u8]) -> Result<(Kind, u64), &'static str> {
    read_header(file).map(|(kind, size, _)| (kind, size))
}

/// Returns the kind, the size of the object and that of the header.
fn read_header(file: &[u8]) -> Result<(Kind, u64, usize), &'static str> {
    let mut front = Vec::with_capacity(HEADER_BYTES_MAX);
    zlib::inflate_front(file, HEADER_BYTES_MAX, &mut front)?;
    let bad = "it does not begin with the header of an object";
    let end = front.iter().position(|byte| *byte == 0).ok_or(bad)?;
    let space = front[..end].iter().position(|byte| *byte == b' ').ok_or(bad)?;
    let kind = kind_of(&front[..space]).ok_or(bad)?;
    let digits = &front[space + 1..end];
    if digits.is_empty() || (digits[0] == b'0' && digits.len() > 1) || !digits.iter().all(u8::is_ascii_digit) {
        return Err(bad);
    }
    let size = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).ok_or(bad)?;
    if size > zlib::OBJECT_BYTES_MAX {
        return Err(zlib::TOO_LARGE);
    }
    Ok((kind, size, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_back_and_others_are_refused() {
        for kind in [Kind::Contents, Kind::Node, Kind::Commit, Kind::Tag] {
            for raw in [&b""[..], b"x", &[7; 100_000]] {
                for compression in [Compression::Stored, Compression::Level(1)] {
                    let mut file = Vec::new();
                    encode(kind, raw, compression, &mut file);
                    let mut out = b"old".to_vec();
                    assert_eq!(decode(&file, &mut out), Ok(kind));
                    assert_eq!(out, raw);
                    assert_eq!(decode_header(&file[..file.len().min(64)]), Ok((kind, raw.len() as u64)));
                    for at in 0..file.len().min(200) {
                        let mut bad = file.clone();
                        bad[at] ^= 1 << (at % 8);
                        // The level in the header, and the bits that pad a stored block, mean nothing.
                        if decode(&bad, &mut out).is_ok() {
                            assert_eq!(out, raw);
                        }
                        assert!(decode(&file[..at], &mut out).is_err());
                    }
                    file.push(0);
                    assert!(decode(&file, &mut out).is_err());
                }
            }
        }
        for header in
            [&b"blob 1"[..], b"blob\0x", b"blob 01\0x", b"blob +1\0x", b"bolb 1\0x", b" 1\0x", b"blob 2\0x", b""]
        {
            let mut file = Vec::new();
            Compression::Stored.write(header, &mut file);
            assert!(decode(&file, &mut Vec::new()).is_err(), "{}", header.escape_ascii());
        }
        let mut file = Vec::new();
        Compression::Stored.write(b"blob 4294967296\0x", &mut file);
        assert_eq!(decode(&file, &mut Vec::new()), Err(zlib::TOO_LARGE));
    }
}
