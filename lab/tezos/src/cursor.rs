//! A position in the bytes of a row, and the primitive encodings read from there. `docs/formats/trace.md` lists them.

use crate::scoped::Scoped;

/// Values of varints are below this.
pub(crate) const VARINT_BOUND: u64 = 1 << 62;
/// The longest varint, in bytes.
pub(crate) const VARINT_BYTES_MAX: usize = 9;

/// What is wrong with a row, and where in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The offset in the row, in bytes.
    pub(crate) at: usize,
    pub(crate) reason: &'static str,
}

/// A position in the bytes of a row.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    #[inline]
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Begins inside the bytes.
    #[inline]
    pub(crate) const fn at(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    /// Returns how far it has come.
    #[inline]
    pub(crate) const fn offset(&self) -> usize {
        self.at
    }

    /// Returns the bytes from here to `end`, which is further in the same bytes.
    pub(crate) fn until(&self, end: &Self) -> &'a [u8] {
        &self.bytes[self.at..end.at]
    }

    /// Returns the bytes from here on.
    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    #[cold]
    pub(crate) const fn fault(&self, reason: &'static str) -> Fault {
        Fault { at: self.at, reason }
    }

    /// Reads a varint; forms that are longer than needed are fine.
    #[inline]
    pub(crate) fn varint(&mut self) -> Result<u64, Fault> {
        match self.bytes.get(self.at) {
            Some(&byte) if byte < 0x80 => {
                self.at += 1;
                Ok(u64::from(byte))
            }
            _ => self.long_varint(),
        }
    }

    #[inline(never)]
    fn long_varint(&mut self) -> Result<u64, Fault> {
        match varint(self.rest()) {
            Varint::Whole { value, bytes } => {
                self.at += bytes;
                Ok(value)
            }
            Varint::Partial => Err(self.fault("the row ends inside a number")),
            Varint::TooLarge => Err(self.fault("a number has more than 9 bytes or is not below 2^62")),
        }
    }

    #[inline]
    pub(crate) fn take(&mut self, count: u64) -> Result<&'a [u8], Fault> {
        if count > (self.bytes.len() - self.at) as u64 {
            return Err(self.fault("a field is longer than what is left of the row"));
        }
        let end = self.at + count as usize;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    #[inline]
    pub(crate) fn string(&mut self) -> Result<&'a [u8], Fault> {
        let length = self.varint()?;
        self.take(length)
    }

    #[inline]
    pub(crate) fn int64(&mut self) -> Result<i64, Fault> {
        match self.rest().first_chunk() {
            Some(&bytes) => {
                self.at += 8;
                Ok(i64::from_be_bytes(bytes))
            }
            None => Err(self.fault("the row ends inside a 64-bit integer")),
        }
    }

    #[inline]
    pub(crate) fn flag(&mut self) -> Result<bool, Fault> {
        Ok(self.take(1)?[0] != 0)
    }

    #[inline]
    pub(crate) fn scope(&mut self) -> Result<bool, Fault> {
        let at = self.at;
        match self.varint()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Fault { at, reason: "a scope is neither 0 (forget) nor 1 (keep)" }),
        }
    }

    #[inline]
    pub(crate) fn scoped_hash(&mut self) -> Result<Scoped<&'a [u8]>, Fault> {
        let keep = self.scope()?;
        Ok(Scoped { value: self.string()?, keep })
    }
}

/// What a varint at the start of some bytes is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Varint {
    /// A number, and how many bytes it takes.
    Whole { value: u64, bytes: usize },
    /// The bytes end inside it.
    Partial,
    /// More than 9 bytes, or 2^62 and above.
    TooLarge,
}

/// Reads the varint at the start of `bytes`.
pub(crate) fn varint(bytes: &[u8]) -> Varint {
    let mut value = 0;
    for (index, &byte) in bytes.iter().take(VARINT_BYTES_MAX).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            return if value < VARINT_BOUND { Varint::Whole { value, bytes: index + 1 } } else { Varint::TooLarge };
        }
    }
    if bytes.len() < VARINT_BYTES_MAX { Varint::Partial } else { Varint::TooLarge }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::put_varint;

    #[test]
    fn varints_round_trip_up_to_their_bound() {
        for value in [0, 1, 127, 128, 16_383, 16_384, 1 << 32, VARINT_BOUND - 1] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(varint(&out), Varint::Whole { value, bytes: out.len() });
            assert_eq!(varint(&out[..out.len() - 1]), Varint::Partial);
            assert_eq!(Cursor::new(&out).varint(), Ok(value));
        }
    }

    #[test]
    fn hostile_varints_are_refused() {
        let mut out = Vec::new();
        put_varint(&mut out, VARINT_BOUND);
        assert_eq!((out.len(), varint(&out)), (9, Varint::TooLarge));
        assert_eq!(varint(&[0x80; 9]), Varint::TooLarge, "more than nine bytes");
        assert_eq!(varint(&[0x80; 8]), Varint::Partial);
        assert_eq!(varint(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]), Varint::TooLarge);
        assert_eq!(varint(&[0x81, 0x80, 0x00]), Varint::Whole { value: 1, bytes: 3 }, "longer than needed");
        assert!(Cursor::new(&[0x80; 20]).varint().is_err());
        assert!(Cursor::new(&[]).varint().is_err());
    }
}
