//! A page: the records of one batch that begin within one 16 KiB of the address space, as the value of one key.
//!
//! `docs/formats/lsm.md` lists the bytes. A record that is longer than a page makes its value longer; the pages that it
//! covers have no value. The checksum is over all of the value and the number of the page, so that no page passes for
//! another one.

use std::ops::Range;

use bristlecone::{
    Batch, Location, Object, Oid,
    core::{Record, RecordHeader},
};
use fjall::Slice;
use twox_hash::XxHash3_64;

/// A location is the number of a page, shifted by so much, and an offset in it.
pub(super) const PAGE_BITS: u32 = 14;
const CHECK_BYTES: usize = 8;
const SKIP_AT: usize = CHECK_BYTES;
const LENGTH_AT: usize = SKIP_AT + 4;
/// Bytes before the records: 16 = 8 checksum + 4 offset of the first record + 4 length of the records.
const HEAD_BYTES: usize = LENGTH_AT + 4;
const _: () = assert!(HEAD_BYTES == 16, "the fields of a page's head add up");
/// Records begin at multiples of so many bytes.
const RECORD_ALIGN: usize = 8;

/// Returns the first address of a page.
pub(super) const fn page_location(number: u64) -> Location {
    Location(number << PAGE_BITS)
}

/// Returns the page of a location, and the offset in it.
#[inline]
pub(super) const fn split(at: Location) -> (u64, usize) {
    (at.0 >> PAGE_BITS, (at.0 & ((1 << PAGE_BITS) - 1)) as usize)
}

/// Returns how many pages so many bytes take.
pub(super) const fn pages_of(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(1 << PAGE_BITS)
}

/// A page whose checksum was found right. Clones share the bytes.
#[derive(Clone, Debug)]
pub(super) struct Page(Slice);

impl Page {
    /// Makes a page of the records of a batch that begin in it. `skip`: how far from the page's first address.
    fn new(number: u64, skip: usize, records: &[u8], buffer: &mut Vec<u8>) -> Self {
        buffer.clear();
        buffer.extend_from_slice(&[0; CHECK_BYTES]);
        buffer.extend_from_slice(&(skip as u32).to_le_bytes());
        buffer.extend_from_slice(&(records.len() as u32).to_le_bytes());
        buffer.extend_from_slice(records);
        let check = XxHash3_64::oneshot_with_seed(number, &buffer[CHECK_BYTES..]);
        buffer[..CHECK_BYTES].copy_from_slice(&check.to_le_bytes());
        Self(Slice::new(buffer))
    }

    /// Takes a page that was read, if its bytes are those that were written.
    pub(super) fn verified(number: u64, value: Slice) -> Result<Self, &'static str> {
        let Some((check, rest)) = value.split_first_chunk() else { return Err("the page is cut short") };
        if XxHash3_64::oneshot_with_seed(number, rest) != u64::from_le_bytes(*check) {
            return Err("the page's checksum is wrong");
        }
        let page = Self(value);
        // What passes the checksum and is no page was written by another program.
        if page.0.len() < HEAD_BYTES || page.word(LENGTH_AT) != page.0.len() - HEAD_BYTES {
            return Err("the page's length is wrong");
        }
        Ok(page)
    }

    #[inline]
    fn word(&self, at: usize) -> usize {
        self.0[at..].first_chunk().map_or(0, |word| u32::from_le_bytes(*word) as usize)
    }

    /// Returns the bytes of the value.
    pub(super) const fn value(&self) -> &Slice {
        &self.0
    }

    /// Returns how many bytes the value takes.
    pub(super) fn bytes(&self) -> usize {
        self.0.len()
    }

    /// Returns the record at an offset, if it is that of an object.
    #[inline]
    pub(super) fn record_of(&self, oid: &[u8], offset: usize) -> Option<&[u8]> {
        let bytes = self.0.get(HEAD_BYTES + offset.checked_sub(self.word(SKIP_AT))?..)?;
        let header = RecordHeader::first(bytes)?;
        if !header.is_of(oid) || header.faults() != 0 {
            return None;
        }
        bytes.get(..usize::try_from(header.bytes()).ok()?)
    }

    /// Returns every record with its id and where it is. They end where the bytes are no record.
    pub(super) fn records(&self, number: u64) -> impl Iterator<Item = (Oid, Location, &[u8])> {
        let (skip, bytes) = (self.word(SKIP_AT), &self.0[HEAD_BYTES..]);
        let mut offset = 0;
        std::iter::from_fn(move || {
            let record = Record::parse(bytes.get(offset..)?).ok()?;
            let (oid, length) = (Oid::new(record.oid).ok()?, record.bytes() as usize);
            let at = Location(page_location(number).0 + (skip + offset) as u64);
            let whole = &bytes[offset..offset + length];
            offset += length.next_multiple_of(RECORD_ALIGN);
            Some((oid, at, whole))
        })
    }
}

/// Returns the object of a whole record.
pub(super) fn object_of<'a>(bytes: bristlecone::Bytes<'a>, at: Location) -> Option<Object<'a>> {
    let shared = bytes.clone();
    let record = Record::parse(&bytes).ok()?;
    Some(Object::from_record(&record, shared, at))
}

/// Cuts a batch that begins on page `first` into pages, and calls `each` with their numbers.
pub(super) fn cut(batch: &Batch, first: u64, buffer: &mut Vec<u8>, mut each: impl FnMut(u64, Page)) {
    let bytes = batch.bytes();
    let mut give = |records: Range<usize>| {
        let (page, skip) = (records.start >> PAGE_BITS, records.start & ((1 << PAGE_BITS) - 1));
        let number = first + page as u64;
        each(number, Page::new(number, skip, &bytes[records], buffer));
    };
    let mut start = None;
    for (_, offset) in batch.offsets() {
        let offset = offset as usize;
        match start {
            Some(from) if from >> PAGE_BITS == offset >> PAGE_BITS => {}
            Some(from) => {
                give(from..offset);
                start = Some(offset);
            }
            None => start = Some(offset),
        }
    }
    if let Some(from) = start {
        give(from..bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use bristlecone::{Kind, Sink as _};

    use super::*;

    /// A batch of objects with bodies of these lengths.
    fn batch(lengths: &[usize]) -> Batch {
        let mut batch = Batch::new();
        for (number, length) in lengths.iter().enumerate() {
            let oid = Oid::from_array([number as u8; 32]);
            batch.put(Kind::Contents, oid, &vec![number as u8; *length], &[], &[]);
        }
        batch
    }

    fn pages(batch: &Batch, first: u64) -> Vec<(u64, Page)> {
        let mut pages = Vec::new();
        cut(batch, first, &mut Vec::new(), |number, page| pages.push((number, page)));
        pages
    }

    #[test]
    fn every_record_is_found_at_its_place() {
        let lengths = [10, 20_000, 5, 16_384 - 64, 0, 300_000, 1, 2, 3, 16_384 - 48];
        let batch = batch(&lengths);
        let pages = pages(&batch, 40);
        let mut met = Vec::new();
        for (number, page) in &pages {
            assert!((40..40 + pages_of(batch.bytes().len())).contains(number));
            met.extend(page.records(*number).map(|(oid, at, record)| (oid, at, record.to_vec())));
        }
        let wanted: Vec<_> = batch
            .records()
            .map(|record| {
                let at = Location(page_location(40).0 + u64::from(record.offset));
                (Oid::new(record.record.oid).unwrap(), at, record.bytes.to_vec())
            })
            .collect();
        assert_eq!(met, wanted);
        for (oid, at, record) in wanted {
            let (number, offset) = split(at);
            let page = &pages.iter().find(|page| page.0 == number).expect("the page").1;
            assert_eq!(page.record_of(oid.as_bytes(), offset), Some(&record[..]));
            assert_eq!(page.record_of(&[99; 32], offset), None);
            assert_eq!(page.record_of(oid.as_bytes(), offset + 8), None);
        }
    }

    #[test]
    fn a_page_that_was_changed_or_is_another_is_refused() {
        let (number, page) = pages(&batch(&[100, 20]), 7).remove(0);
        let bytes = page.value().to_vec();
        assert!(Page::verified(number, Slice::new(&bytes)).is_ok());
        assert!(Page::verified(number + 1, Slice::new(&bytes)).is_err());
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Page::verified(number, Slice::new(&flipped)).is_err(), "bit {bit}");
        }
        for cut in 0..bytes.len() {
            assert!(Page::verified(number, Slice::new(&bytes[..cut])).is_err(), "cut at {cut}");
        }
    }
}
