//! Reading of encoded bytes that were not checked yet: every step is bounded and returns an error.

use alloc::vec::Vec;
use core::{error, fmt};

/// Why bytes do not decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// Where, in bytes from the start of the object's body.
    pub offset: usize,
    /// What is wrong there.
    pub reason: &'static str,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {} of the object: {}", self.offset, self.reason)
    }
}

impl error::Error for DecodeError {}

/// A position in bytes that are being decoded.
#[derive(Clone, Debug)]
pub struct ByteReader<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> ByteReader<'a> {
    /// Starts at the first of these bytes.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, offset: 0 }
    }

    /// Starts at this offset of these bytes.
    #[must_use]
    pub const fn at(bytes: &'a [u8], offset: usize) -> Self {
        Self { bytes, offset }
    }

    /// Returns how many bytes have been read.
    #[must_use]
    pub const fn offset(&self) -> usize {
        self.offset
    }

    /// Whether nothing is left.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.offset >= self.bytes.len()
    }

    /// An error at this position.
    #[must_use]
    pub const fn error(&self, reason: &'static str) -> DecodeError {
        DecodeError { offset: self.offset, reason }
    }

    /// Reads one byte.
    ///
    /// # Errors
    /// [`DecodeError`] at the end of the bytes.
    #[inline]
    pub fn byte(&mut self) -> Result<u8, DecodeError> {
        let byte = *self.bytes.get(self.offset).ok_or(self.error("it ends too early"))?;
        self.offset += 1;
        Ok(byte)
    }

    /// Reads `count` bytes.
    ///
    /// # Errors
    /// [`DecodeError`] if fewer are left.
    #[inline]
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let end = self.offset.checked_add(count).ok_or(self.error("a length is too large"))?;
        let taken = self.bytes.get(self.offset..end).ok_or(self.error("it ends too early"))?;
        self.offset = end;
        Ok(taken)
    }

    /// Reads a fixed number of bytes.
    ///
    /// # Errors
    /// [`DecodeError`] if fewer are left.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// Reads an unsigned LEB128 integer in its shortest form.
    ///
    /// # Errors
    /// [`DecodeError`] if it does not end, exceeds 64 bits or is not in its shortest form.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, DecodeError> {
        let first = self.byte()?;
        if first < 0x80 {
            return Ok(u64::from(first));
        }
        let mut value = u64::from(first & 0x7f);
        let mut shift = 7;
        loop {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                return Err(self.error("an integer exceeds 64 bits"));
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                if byte == 0 {
                    return Err(self.error("an integer is not in its shortest form"));
                }
                return Ok(value);
            }
            shift += 7;
        }
    }

    /// Reads a varint that is a length in memory.
    ///
    /// # Errors
    /// As [`ByteReader::varint`], and if the length exceeds what is left: nothing is allocated for it.
    #[inline]
    pub fn length(&mut self) -> Result<usize, DecodeError> {
        let length = self.varint()?;
        if length > (self.bytes.len() - self.offset.min(self.bytes.len())) as u64 {
            return Err(self.error("a length exceeds the object"));
        }
        Ok(length as usize)
    }

    /// Reads a length and that many bytes.
    ///
    /// # Errors
    /// As [`ByteReader::length`].
    #[inline]
    pub fn prefixed(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = self.length()?;
        self.take(length)
    }
}

/// What encoders write to.
pub(crate) trait AppendBytes {
    fn append_byte(&mut self, byte: u8);
    fn append_bytes(&mut self, bytes: &[u8]);
}

impl AppendBytes for Vec<u8> {
    #[inline]
    fn append_byte(&mut self, byte: u8) {
        self.push(byte);
    }

    #[inline]
    fn append_bytes(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

impl<const N: usize> AppendBytes for smallvec::SmallVec<[u8; N]> {
    #[inline]
    fn append_byte(&mut self, byte: u8) {
        self.push(byte);
    }

    #[inline]
    fn append_bytes(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Appends `value` as an unsigned LEB128 integer in its shortest form.
#[inline]
pub(crate) fn write_varint(out: &mut impl AppendBytes, mut value: u64) {
    while value >= 0x80 {
        out.append_byte(value as u8 | 0x80);
        value >>= 7;
    }
    out.append_byte(value as u8);
}

/// Appends the length of `bytes` as a varint, then the bytes.
#[inline]
pub(crate) fn write_prefixed(out: &mut impl AppendBytes, bytes: &[u8]) {
    write_varint(out, bytes.len() as u64);
    out.append_bytes(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_and_have_one_form() {
        for value in [0, 1, 127, 128, 300, 1 << 32, u64::MAX - 1, u64::MAX] {
            let mut out = Vec::new();
            write_varint(&mut out, value);
            let mut reader = ByteReader::new(&out);
            assert_eq!(reader.varint(), Ok(value));
            assert!(reader.is_empty());
        }
        assert!(ByteReader::new(&[0x80, 0]).varint().is_err(), "longer than needed");
        assert!(ByteReader::new(&[0xff; 11]).varint().is_err(), "without end");
        assert!(ByteReader::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]).varint().is_err());
        assert!(ByteReader::new(&[5, 0]).length().is_err(), "longer than the rest");
    }
}
