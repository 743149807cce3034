//! Records: the blocks in the order of the chain, a line each, after a header that says how many are durable.

use std::{ops::RangeInclusive, path::Path};

use super::{
    IndexError, IndexPart, Indexed,
    bytes::Bytes,
    line::{LINE_BYTES, Line, half, put, sum, word},
};
use crate::{BlockHash, BlockPlace, Point};

/// The bytes before the first line: a page, so that lines lie in pages of their own.
pub(super) const HEADER_BYTES: usize = 4096;
/// "This is a file of records."
const MAGIC: [u8; 8] = *b"bcIdxRec";
/// What files have that this code writes.
pub(super) const VERSION: u32 = 1;
/// A new file has room for so many records.
const RECORDS_MIN: usize = 1024;
/// A file grows by at most so many bytes, so that little is reserved in vain.
const GROWTH_BYTES_MAX: usize = 32 << 20;

/// Records of blocks, sorted by slot and number.
pub(super) struct Records {
    bytes: Bytes,
    /// The identity of the index: its lines are wrong in any other.
    pub(super) id: u64,
    /// How many there are.
    pub(super) count: u32,
    /// As many are there after a crash.
    pub(super) durable: u32,
}

/// What records are sorted by.
#[derive(Clone, Copy, Debug)]
pub(super) enum Field {
    Slot,
    Number,
}

impl Field {
    const fn of(self, point: &Point) -> u64 {
        match self {
            Self::Slot => point.slot,
            Self::Number => point.number,
        }
    }
}

#[inline]
fn decoded(line: &Line) -> Indexed {
    let mut hash = BlockHash([0; 32]);
    hash.0.copy_from_slice(&line[..32]);
    let point = Point { slot: word(line, 4), number: word(line, 5), hash };
    Indexed {
        point,
        place: BlockPlace { chunk: half(line, 48), offset: u64::from(half(line, 56)), bytes: half(line, 52) },
    }
}

impl Records {
    /// Makes an empty file of records, or records in memory.
    pub(super) fn create(path: Option<&Path>, id: u64) -> Result<Self, IndexError> {
        let bytes = Bytes::zeros(path, HEADER_BYTES + RECORDS_MIN * LINE_BYTES)?;
        let mut records = Self { bytes, id, count: 0, durable: 0 };
        records.write_header()?;
        Ok(records)
    }

    /// Opens a file with the records that are durable. Records are not read.
    pub(super) fn open(path: &Path) -> Result<Self, IndexError> {
        let mut records = Self { bytes: Bytes::open(path)?, id: 0, count: 0, durable: 0 };
        let wrong = |reason| records.damaged(IndexPart::Header, 0, reason);
        let Some(header) = records.bytes.first_chunk::<LINE_BYTES>().filter(|_| records.bytes.len() >= HEADER_BYTES)
        else {
            return Err(wrong("the file is shorter than its header"));
        };
        if header[..8] != MAGIC {
            return Err(wrong("the file is no file of records"));
        }
        if half(header, 8) != VERSION {
            return Err(wrong("it has a version that is not known here"));
        }
        let (id, count) = (word(header, 2), word(header, 3));
        if word(header, 7) != sum(header, 0, id, u64::MAX) {
            return Err(wrong("its checksum is wrong"));
        }
        let room = (records.bytes.len() - HEADER_BYTES) / LINE_BYTES;
        let Some(count) = u32::try_from(count).ok().filter(|count| *count as usize <= room) else {
            return Err(wrong("it promises more records than the file has"));
        };
        (records.id, records.count, records.durable) = (id, count, count);
        Ok(records)
    }

    /// Makes room for one more record.
    pub(super) fn reserve(&mut self) -> Result<(), IndexError> {
        let bytes = self.bytes.len();
        if HEADER_BYTES + (self.count as usize + 1) * LINE_BYTES > bytes {
            self.bytes.grow(bytes + bytes.min(GROWTH_BYTES_MAX).next_multiple_of(HEADER_BYTES))?;
        }
        Ok(())
    }

    /// Adds a record; [`Records::reserve`] made room for it.
    pub(super) fn push(&mut self, block: &Indexed, offset: u32) {
        let mut line = [0; LINE_BYTES];
        put(&mut line, 0, &block.point.hash.0);
        put(&mut line, 32, &block.point.slot.to_le_bytes());
        put(&mut line, 40, &block.point.number.to_le_bytes());
        put(&mut line, 48, &block.place.chunk.to_le_bytes());
        put(&mut line, 52, &block.place.bytes.to_le_bytes());
        put(&mut line, 56, &offset.to_le_bytes());
        let check = sum(&line, u64::from(offset), self.id, u64::from(self.count)) as u32;
        put(&mut line, 60, &check.to_le_bytes());
        let start = HEADER_BYTES + self.count as usize * LINE_BYTES;
        self.bytes[start..start + LINE_BYTES].copy_from_slice(&line);
        self.count += 1;
    }

    /// Returns a record's bytes, unread; `None` from the count on.
    #[inline]
    pub(super) fn line(&self, number: u32) -> Option<&Line> {
        let start = HEADER_BYTES + number as usize * LINE_BYTES;
        let line = self.bytes.get(start..start + LINE_BYTES)?;
        if number < self.count { line.first_chunk() } else { None }
    }

    /// Returns a record whose checksum is right.
    #[inline]
    pub(super) fn get(&self, number: u32) -> Result<Indexed, IndexError> {
        match self.verified(number) {
            Some(line) => Ok(decoded(line)),
            None => Err(self.wrong(number)),
        }
    }

    /// Returns the record of a number if it has a hash and its checksum is right.
    #[inline]
    pub(super) fn with_hash(&self, number: u32, hash: &BlockHash) -> Option<Indexed> {
        self.verified(number).filter(|line| line[..32] == hash.0).map(decoded)
    }

    /// Returns the line of a record if its checksum is right.
    #[inline]
    fn verified(&self, number: u32) -> Option<&Line> {
        let line = self.line(number)?;
        let sum = sum(line, u64::from(half(line, 56)), self.id, u64::from(number));
        (sum as u32 == half(line, 60)).then_some(line)
    }

    #[cold]
    fn wrong(&self, number: u32) -> IndexError {
        self.damaged(IndexPart::Records, u64::from(number), "its checksum is wrong")
    }

    /// Returns the number of the first record whose field is at least `key`, or with `after` more than it; the count if
    /// there is none.
    ///
    /// Slots and numbers are spread evenly, so it guesses, goes on from there by steps that double, and halves what is left.
    pub(super) fn first(&self, field: Field, key: u64, after: bool) -> Result<u32, IndexError> {
        let before = |value: u64| value < key || (after && value == key);
        let key_of = |number: u32| self.get(number).map(|block| field.of(&block.point));
        let Some(last) = self.count.checked_sub(1) else { return Ok(0) };
        let (first_key, last_key) = (key_of(0)?, key_of(last)?);
        if !before(first_key) || before(last_key) {
            return Ok(if before(last_key) { self.count } else { 0 });
        }
        let share = u128::from(key - first_key) * u128::from(last) / u128::from((last_key - first_key).max(1));
        let (mut low, mut high, mut step, mut upward) = (1, last, 1_u32, None);
        let mut next = share as u32;
        while low < high {
            let probe = next.clamp(low, high - 1);
            let up = before(key_of(probe)?);
            if up {
                low = probe + 1
            } else {
                high = probe
            }
            let is_bracketed = *upward.get_or_insert(up) != up;
            // Once it went the other way, half of what is left is better than any step.
            step = if is_bracketed { 0 } else { step.saturating_mul(2) };
            next = match (step, up) {
                (0, _) => low + (high - low) / 2,
                (_, true) => probe.saturating_add(step),
                (_, false) => probe.saturating_sub(step),
            };
        }
        Ok(low)
    }

    /// Forgets the records from a count on. Those that are durable are forgotten durably, before others take their place.
    pub(super) fn truncate(&mut self, count: u32) -> Result<(), IndexError> {
        self.count = count;
        if count < self.durable { self.write_header() } else { Ok(()) }
    }

    /// Makes all records durable, and then their count: a count that is durable has its records.
    pub(super) fn sync(&mut self) -> Result<(), IndexError> {
        if self.count == self.durable {
            return Ok(());
        }
        let from = HEADER_BYTES + self.durable.min(self.count) as usize * LINE_BYTES;
        let to = HEADER_BYTES + self.count as usize * LINE_BYTES;
        self.bytes.flush(from..to)?;
        self.write_header()
    }

    fn write_header(&mut self) -> Result<(), IndexError> {
        let mut header = [0; LINE_BYTES];
        put(&mut header, 0, &MAGIC);
        put(&mut header, 8, &VERSION.to_le_bytes());
        put(&mut header, 16, &self.id.to_le_bytes());
        put(&mut header, 24, &u64::from(self.count).to_le_bytes());
        let check = sum(&header, 0, self.id, u64::MAX);
        put(&mut header, 56, &check.to_le_bytes());
        self.bytes[..LINE_BYTES].copy_from_slice(&header);
        self.bytes.flush(0..LINE_BYTES)?;
        self.durable = self.count;
        Ok(())
    }

    pub(super) fn damaged(&self, part: IndexPart, number: u64, reason: &'static str) -> IndexError {
        IndexError::Damaged { name: self.bytes.name(), part, number, reason }
    }

    pub(super) fn name(&self) -> String {
        self.bytes.name()
    }
}

/// The blocks in a range of slots, in the order of the chain. After an error it ends.
pub struct Slots<'i> {
    records: &'i Records,
    next: Result<u32, Option<IndexError>>,
    last: u64,
}

impl<'i> Slots<'i> {
    pub(super) fn new(records: &'i Records, range: &RangeInclusive<u64>) -> Self {
        let next = records.first(Field::Slot, *range.start(), false).map_err(Some);
        Self { records, next, last: *range.end() }
    }
}

impl Iterator for Slots<'_> {
    type Item = Result<Indexed, IndexError>;

    fn next(&mut self) -> Option<Self::Item> {
        let number = match &mut self.next {
            Ok(number) => *number,
            Err(error) => return error.take().map(Err),
        };
        if number >= self.records.count {
            return None;
        }
        match self.records.get(number) {
            Ok(block) if block.point.slot > self.last => None,
            Ok(block) => {
                self.next = Ok(number + 1);
                Some(Ok(block))
            }
            Err(error) => {
                self.next = Err(None);
                Some(Err(error))
            }
        }
    }
}
