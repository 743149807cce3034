//! One pass over CBOR (RFC 8949): what blocks need of it, and no more.
//!
//! Nothing is called again from itself, and nothing is allocated for items less than 33 deep. Lengths are compared with what is
//! left before anything is believed of them, and items lie within each other at most [`DEPTH_MAX`] deep. Integers need not be
//! minimal, and arrays, maps and strings may be of indefinite length: real blocks have all of that.

use std::ops::Range;

use smallvec::SmallVec;

use crate::BlockError;

/// How deep items may lie within each other. The ledger has no bound; a transaction of 16 KiB cannot be deeper than that.
pub(crate) const DEPTH_MAX: usize = 1 << 16;

/// What is said of bytes that end too early.
pub(crate) const ENDS_EARLY: [&str; 3] =
    ["it ends within an item", "a length goes beyond the end", "more items are announced than there are bytes"];

const BREAK: u8 = 0xff;
/// The tag of sets.
const SET: u64 = 258;
/// The tag of CBOR within a string.
const ENCODED: u64 = 24;
/// The tag of an integer in a string of bytes.
const LARGE: u64 = 2;

/// The kinds of item.
pub(crate) mod major {
    pub(super) const UNSIGNED: u8 = 0;
    pub(super) const NEGATIVE: u8 = 1;
    pub(super) const BYTES: u8 = 2;
    pub(super) const TEXT: u8 = 3;
    pub(super) const ARRAY: u8 = 4;
    pub(crate) const MAP: u8 = 5;
    pub(super) const TAG: u8 = 6;
}

/// How many items follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    /// So many.
    Known(u64),
    /// As many as there are before a break.
    UntilBreak,
}

/// Reads items one after another.
#[derive(Clone, Debug)]
pub(crate) struct Cbor<'b> {
    bytes: &'b [u8],
    at: usize,
}

/// The first bytes of an item.
struct Head {
    major: u8,
    /// The number that follows; `None` for an indefinite length.
    value: Option<u64>,
}

impl<'b> Cbor<'b> {
    pub(crate) const fn new(bytes: &'b [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Begins within bytes whose offsets are to be those of errors.
    pub(crate) const fn within(bytes: &'b [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    pub(crate) const fn at(&self) -> usize {
        self.at
    }

    pub(crate) const fn error(&self, reason: &'static str) -> BlockError {
        BlockError { offset: self.at, reason }
    }

    /// Returns an error unless everything was read.
    pub(crate) fn end(&self) -> Result<(), BlockError> {
        if self.at == self.bytes.len() { Ok(()) } else { Err(self.error("bytes follow the last item")) }
    }

    fn peek(&self) -> Result<u8, BlockError> {
        self.bytes.get(self.at).copied().ok_or_else(|| self.error(ENDS_EARLY[0]))
    }

    fn take(&mut self, count: u64) -> Result<&'b [u8], BlockError> {
        let left = self.bytes.get(self.at..).unwrap_or(&[]);
        let taken = usize::try_from(count).ok().and_then(|count| left.get(..count));
        let taken = taken.ok_or_else(|| self.error(ENDS_EARLY[1]))?;
        self.at += taken.len();
        Ok(taken)
    }

    #[inline]
    fn head(&mut self) -> Result<Head, BlockError> {
        let first = self.peek()?;
        let major = first >> 5;
        let value = match first & 0x1f {
            small @ 0..=23 => {
                self.at += 1;
                Some(u64::from(small))
            }
            wide @ 24..=27 => {
                let from = self.at;
                self.at += 1;
                let bytes = self.take(1 << (wide - 24)).map_err(|error| BlockError { offset: from, ..error })?;
                Some(bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
            }
            31 if matches!(major, major::BYTES..=major::MAP) => {
                self.at += 1;
                None
            }
            31 => return Err(self.error("a break where an item must be")),
            _ => return Err(self.error("a byte that begins no item")),
        };
        Ok(Head { major, value })
    }

    /// Reads the head of an item of a kind.
    fn expect(&mut self, major: u8, reason: &'static str) -> Result<Option<u64>, BlockError> {
        let at = self.at;
        let head = self.head()?;
        if head.major == major { Ok(head.value) } else { Err(BlockError { offset: at, reason }) }
    }

    /// Reads an integer that is not negative.
    pub(crate) fn unsigned(&mut self, reason: &'static str) -> Result<u64, BlockError> {
        let at = self.at;
        self.expect(major::UNSIGNED, reason)?.ok_or(BlockError { offset: at, reason })
    }

    /// Reads an integer that is not negative, also one in a string of bytes behind the tag of large integers.
    pub(crate) fn amount(&mut self, reason: &'static str) -> Result<u64, BlockError> {
        let wrong = BlockError { offset: self.at, reason };
        if self.peek()? >> 5 != major::TAG {
            return self.unsigned(reason);
        }
        if self.expect(major::TAG, reason)? != Some(LARGE) {
            return Err(wrong);
        }
        let bytes = self.bytes(reason)?;
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        if bytes.len() - zeros > 8 {
            return Err(wrong);
        }
        Ok(bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    /// Reads a string of bytes that is in one piece.
    pub(crate) fn bytes(&mut self, reason: &'static str) -> Result<&'b [u8], BlockError> {
        let at = self.at;
        let length = self.expect(major::BYTES, reason)?.ok_or(BlockError { offset: at, reason })?;
        self.take(length)
    }

    /// Reads a string of 32 bytes.
    pub(crate) fn hash(&mut self, reason: &'static str) -> Result<[u8; 32], BlockError> {
        let at = self.at;
        self.bytes(reason)?.try_into().map_err(|_| BlockError { offset: at, reason })
    }

    /// Reads the head of an array.
    pub(crate) fn array(&mut self, reason: &'static str) -> Result<Count, BlockError> {
        self.count(major::ARRAY, 1, reason)
    }

    /// Reads the head of an array of a certain length, which may be said by a break: [`done`](Self::done) then reads it.
    pub(crate) fn array_of(&mut self, length: Range<u64>, reason: &'static str) -> Result<Count, BlockError> {
        let at = self.at;
        match self.array(reason)? {
            Count::Known(count) if !length.contains(&count) => Err(BlockError { offset: at, reason }),
            count => Ok(count),
        }
    }

    /// Reads the head of an array, or of a set.
    pub(crate) fn array_or_set(&mut self, reason: &'static str) -> Result<Count, BlockError> {
        let at = self.at;
        if self.peek()? >> 5 == major::TAG && self.expect(major::TAG, reason)? != Some(SET) {
            return Err(BlockError { offset: at, reason });
        }
        self.array(reason)
    }

    /// Reads the head of a map.
    pub(crate) fn map(&mut self, reason: &'static str) -> Result<Count, BlockError> {
        self.count(major::MAP, 2, reason)
    }

    fn count(&mut self, major: u8, items: u64, reason: &'static str) -> Result<Count, BlockError> {
        let at = self.at;
        let Some(count) = self.expect(major, reason)? else { return Ok(Count::UntilBreak) };
        // Each item takes a byte at least.
        if count > (self.bytes.len() - self.at) as u64 / items {
            return Err(BlockError { offset: at, reason: ENDS_EARLY[2] });
        }
        Ok(Count::Known(count))
    }

    /// Whether no item is left of an array or map, of which one is taken off else. The break is read.
    pub(crate) fn done(&mut self, count: &mut Count) -> Result<bool, BlockError> {
        match count {
            Count::Known(0) => Ok(true),
            Count::Known(left) => {
                *left -= 1;
                Ok(false)
            }
            Count::UntilBreak if self.peek()? == BREAK => {
                self.at += 1;
                *count = Count::Known(0);
                Ok(true)
            }
            Count::UntilBreak => Ok(false),
        }
    }

    /// Skips what is left of an array.
    pub(crate) fn rest(&mut self, mut count: Count) -> Result<(), BlockError> {
        while !self.done(&mut count)? {
            self.skip()?;
        }
        Ok(())
    }

    /// Takes an item off an array, in which there must be one.
    pub(crate) fn next(&mut self, count: &mut Count, reason: &'static str) -> Result<(), BlockError> {
        let at = self.at;
        if self.done(count)? { Err(BlockError { offset: at, reason }) } else { Ok(()) }
    }

    /// Reads null, if it is there.
    pub(crate) fn null(&mut self) -> bool {
        let null = self.bytes.get(self.at) == Some(&0xf6);
        self.at += usize::from(null);
        null
    }

    /// Reads CBOR within a string, behind its tag; returns a reader of it.
    pub(crate) fn encoded(&mut self, reason: &'static str) -> Result<Self, BlockError> {
        let at = self.at;
        if self.expect(major::TAG, reason)? != Some(ENCODED) {
            return Err(BlockError { offset: at, reason });
        }
        let inner = self.bytes(reason)?;
        let end = self.at;
        Ok(Self { bytes: &self.bytes[..end], at: end - inner.len() })
    }

    /// Returns bytes by where they lie, as [`item`](Self::item) says.
    pub(crate) fn slice(&self, at: Range<usize>) -> &'b [u8] {
        self.bytes.get(at).unwrap_or(&[])
    }

    /// Skips an item and returns where it lies.
    pub(crate) fn item(&mut self) -> Result<Range<usize>, BlockError> {
        let from = self.at;
        self.skip()?;
        Ok(from..self.at)
    }

    /// Skips an item with all within it.
    pub(crate) fn skip(&mut self) -> Result<(), BlockError> {
        /// What is left of an item in which others lie.
        enum Open {
            Items(u64),
            Array,
            Keys,
            Values,
        }
        // Most items are shallow, and need no memory but the stack.
        let mut open: SmallVec<[Open; 32]> = SmallVec::new();
        let mut tagged = false;
        loop {
            let mut complete = true;
            let mut within = None;
            if self.peek()? == BREAK {
                match open.last() {
                    Some(Open::Array | Open::Keys) if !tagged => _ = open.pop(),
                    _ => return Err(self.error("a break where an item must be")),
                }
                self.at += 1;
            } else {
                let at = self.at;
                let head = self.head()?;
                tagged = head.major == major::TAG;
                match (head.major, head.value) {
                    (major::UNSIGNED | major::NEGATIVE, _) => {}
                    (major::BYTES | major::TEXT, Some(length)) => {
                        self.take(length)?;
                    }
                    (kind @ (major::BYTES | major::TEXT), None) => self.pieces(kind)?,
                    (major::ARRAY, Some(0)) | (major::MAP, Some(0)) => {}
                    (kind @ (major::ARRAY | major::MAP), Some(count)) => {
                        let items = u64::from(kind == major::MAP) + 1;
                        if count > (self.bytes.len() - self.at) as u64 / items {
                            return Err(BlockError { offset: at, reason: ENDS_EARLY[2] });
                        }
                        within = Some(Open::Items(count * items));
                    }
                    (major::ARRAY, None) => within = Some(Open::Array),
                    (major::MAP, None) => within = Some(Open::Keys),
                    (major::TAG, _) => complete = false,
                    _ => {}
                }
            }
            if let Some(within) = within {
                if open.len() == DEPTH_MAX {
                    return Err(self.error("items lie too deep within each other"));
                }
                open.push(within);
                complete = false;
            }
            while complete {
                let Some(top) = open.last_mut() else { return Ok(()) };
                match top {
                    Open::Items(1) => _ = open.pop(),
                    Open::Items(left) => {
                        *left -= 1;
                        complete = false;
                    }
                    Open::Array => complete = false,
                    kind @ Open::Keys => (*kind, complete) = (Open::Values, false),
                    kind @ Open::Values => (*kind, complete) = (Open::Keys, false),
                }
            }
        }
    }

    /// Skips the pieces of a string of indefinite length.
    fn pieces(&mut self, kind: u8) -> Result<(), BlockError> {
        loop {
            if self.peek()? == BREAK {
                self.at += 1;
                return Ok(());
            }
            let reason = "a string whose pieces are no strings";
            let at = self.at;
            let length = self.expect(kind, reason)?.ok_or(BlockError { offset: at, reason })?;
            self.take(length)?;
        }
    }
}

/// Writes the head of an item in as few bytes as there can be.
pub(crate) fn head(cbor: &mut Vec<u8>, major: u8, value: u64) {
    let major = major << 5;
    match value {
        0..=23 => cbor.push(major | value as u8),
        24..=0xff => cbor.extend_from_slice(&[major | 24, value as u8]),
        0x100..=0xffff => {
            cbor.push(major | 25);
            cbor.extend_from_slice(&(value as u16).to_be_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            cbor.push(major | 26);
            cbor.extend_from_slice(&(value as u32).to_be_bytes());
        }
        _ => {
            cbor.push(major | 27);
            cbor.extend_from_slice(&value.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skip(bytes: &[u8]) -> Result<usize, BlockError> {
        let mut cbor = Cbor::new(bytes);
        cbor.skip().map(|()| cbor.at())
    }

    #[test]
    fn items_of_every_kind_are_skipped_whole() {
        let items: [&[u8]; 16] = [
            &[0x00],
            &[0x1b, 0, 0, 0, 0, 0, 0, 0, 1],
            &[0x38, 0x20],
            &[0x43, 1, 2, 3],
            &[0x5f, 0x42, 1, 2, 0x41, 3, 0xff],
            &[0x7f, 0x61, b'a', 0xff],
            &[0x80],
            &[0x83, 1, 0x81, 2, 3],
            &[0x9f, 1, 0x9f, 0xff, 0xff],
            &[0xa1, 1, 2],
            &[0xbf, 1, 2, 0xff],
            &[0xbf, 0xff],
            &[0xd9, 1, 2, 0x81, 0xc1, 5],
            &[0xf6],
            &[0xf8, 0xff],
            &[0xfb, 1, 2, 3, 4, 5, 6, 7, 8],
        ];
        for item in items {
            assert_eq!(skip(item), Ok(item.len()), "{item:x?}");
            for cut in 0..item.len() {
                assert!(skip(&item[..cut]).is_err(), "{item:x?} cut at {cut}");
            }
            let two = [item, &[0x00]].concat();
            assert_eq!(skip(&two), Ok(item.len()), "{item:x?} with another behind it");
        }
    }

    #[test]
    fn what_is_no_item_is_refused() {
        let bad: [&[u8]; 10] = [
            &[0xff],
            &[0x1c],
            &[0x3f],
            &[0xdf],
            &[0x82, 1, 0xff],
            &[0xbf, 1, 0xff],
            &[0x9f, 0xc1, 0xff],
            &[0x5f, 0x61, b'a', 0xff],
            &[0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0],
            &[0x5b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0],
        ];
        for item in bad {
            assert!(skip(item).is_err(), "{item:x?}");
        }
    }

    #[test]
    fn depth_has_a_bound_beyond_what_a_transaction_holds() {
        let nested = |depth: usize| [vec![0x81; depth], vec![0]].concat();
        assert_eq!(skip(&nested(DEPTH_MAX)), Ok(DEPTH_MAX + 1));
        assert!(skip(&nested(DEPTH_MAX + 1)).is_err());
        assert!(skip(&vec![0x81; 10_000_000]).is_err());
        assert!(skip(&vec![0xc1; 1_000_000]).is_err(), "tags without an end");
    }
}
