//! Cold segments: what a collection found to be live, beside the log. `docs/formats/disk.md` section 10 lists the bytes.
//!
//! A cold segment is written whole and durably before it has its name, and never changes. Its records follow one another,
//! without frames; the children of each are before it, there or in another cold segment.

use std::{hash::Hasher, io, sync::Arc};

use bristlecone_core::{Location, Oid, Record};
use twox_hash::XxHash3_64;

use super::{
    files::{CHUNK_BYTES, open_aside, segment_name},
    frame::{word32, word64},
    sealed::{Form, IndexEntry, Tie, encode_index},
    segment::{COLD, Segment},
    state::{ColdSegment, write_whole},
};
use crate::{
    Error,
    storage::{Storage, StorageFile, rename_free, retry, write_all_at},
};

const MAGIC: u64 = u64::from_le_bytes(*b"BCONECLD");
const NUMBER_AT: usize = 8;
const BYTES_AT: usize = NUMBER_AT + 8;
const RECORDS_AT: usize = BYTES_AT + 8;
const SUM_AT: usize = RECORDS_AT + 8;
const CHECK_AT: usize = SUM_AT + 8;
const HEAD_BYTES: usize = 64;
const _: () = assert!(CHECK_AT + 8 <= HEAD_BYTES, "the fields of a cold segment's head fit");
/// Where the first record of a cold segment is: 64 = 8 magic + 8 number + 8 file bytes + 8 records + 8 sum + 8 check
/// + 16 zeroes.
pub(super) const COLD_HEAD_BYTES: u64 = HEAD_BYTES as u64;
/// How much is written at a time; and while commits are synced, which wait for no more.
const WRITE_BYTES: usize = 1 << 20;
const WRITE_BYTES_BESIDE_SYNCS: usize = 1 << 17;
/// Where a record's own checksum ends, and its children begin.
const RECORD_SUM_BYTES: usize = 4;

/// Whether a cold segment is the one that the state names, whole.
pub(super) fn cold_is_whole(segment: &Segment, salt: u64, cold: &ColdSegment) -> io::Result<bool> {
    if segment.bytes != cold.bytes || segment.bytes < COLD_HEAD_BYTES {
        return Ok(false);
    }
    let head = segment.bytes_at(0, COLD_HEAD_BYTES)?;
    let check = XxHash3_64::oneshot_with_seed(salt, &head[..CHECK_AT]);
    let right = word64(&head, 0) == MAGIC
        && COLD.checked_add(word32(&head, NUMBER_AT)) == Some(cold.number)
        && word64(&head, BYTES_AT) == cold.bytes
        && word64(&head, RECORDS_AT) == cold.records
        && word64(&head, CHECK_AT) == check
        && check == cold.check;
    if !right {
        return Ok(false);
    }
    let (mut sum, mut at, mut buffer) = (XxHash3_64::new(), COLD_HEAD_BYTES, Vec::new());
    while at < segment.bytes {
        let chunk = segment.window(at, CHUNK_BYTES.min(segment.bytes - at), &mut buffer)?;
        sum.write(chunk);
        at += chunk.len() as u64;
    }
    Ok(sum.finish() == word64(&head, SUM_AT))
}

/// A cold segment that is being written.
pub(super) struct ColdWriter {
    storage: Arc<dyn Storage>,
    salt: u64,
    number: u32,
    aside: String,
    file: Arc<dyn StorageFile>,
    buffer: Vec<u8>,
    // Where the buffer goes.
    at: u64,
    sum: XxHash3_64,
    entries: Vec<IndexEntry>,
    beside_syncs: bool,
}

impl ColdWriter {
    /// Begins the cold segment of this number; `beside_syncs`: while commits are synced.
    pub(super) fn new(storage: &Arc<dyn Storage>, salt: u64, number: u32, beside_syncs: bool) -> Result<Self, Error> {
        let (file, aside) = open_aside(storage)?;
        let (storage, buffer) = (storage.clone(), Vec::with_capacity(WRITE_BYTES));
        Ok(Self {
            beside_syncs,
            storage,
            salt,
            number,
            aside,
            file,
            buffer,
            at: COLD_HEAD_BYTES,
            sum: XxHash3_64::new(),
            entries: Vec::new(),
        })
    }

    /// Returns how long the segment is so far.
    pub(super) fn bytes(&self) -> u64 {
        self.at + self.buffer.len() as u64
    }

    /// Adds a record that is right, with these places of its children, and returns its own.
    pub(super) fn put(&mut self, oid: &Oid, record: &[u8], children: &[Location]) -> Result<Location, Error> {
        let at = self.bytes();
        let start = self.buffer.len();
        self.buffer.extend_from_slice(record);
        let whole = &mut self.buffer[start..];
        let mut is_other = false;
        for (index, child) in children.iter().enumerate() {
            let place = bristlecone_core::RECORD_HEADER_BYTES + 8 * index;
            let (place, child) = (&mut whole[place..place + 8], child.0.to_le_bytes());
            is_other |= *place != child;
            place.copy_from_slice(&child);
        }
        if is_other {
            let sum = XxHash3_64::oneshot(&whole[RECORD_SUM_BYTES..]) as u32;
            whole[..RECORD_SUM_BYTES].copy_from_slice(&sum.to_le_bytes());
        }
        debug_assert!(Record::parse(whole).is_ok_and(|record| record.verify(whole).is_ok()), "a whole record");
        self.buffer.resize(self.buffer.len().next_multiple_of(8), 0);
        self.entries.push((oid.prefix(), at as u32));
        if self.buffer.len() >= if self.beside_syncs { WRITE_BYTES_BESIDE_SYNCS } else { WRITE_BYTES } {
            self.write_out()?;
        }
        Ok(Location(u64::from(self.number) << 32 | at))
    }

    fn write_out(&mut self) -> Result<(), Error> {
        self.sum.write(&self.buffer);
        let failed = |error| Error::io(self.storage.describe(&self.aside), error);
        write_all_at(&*self.file, &self.buffer, self.at).map_err(failed)?;
        // What is written now need not be written by the sync at the end, for which other writers' syncs would wait.
        if self.beside_syncs {
            retry(|| self.file.begin_next_sync()).map_err(failed)?;
        } else {
            self.file.begin_sync();
        }
        self.at += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Makes the segment durable and gives it its name, which is durable after a sync of the folder; and writes its index.
    pub(super) fn finish(mut self) -> Result<ColdSegment, Error> {
        self.write_out()?;
        let mut head = [0; HEAD_BYTES];
        head[..8].copy_from_slice(&MAGIC.to_le_bytes());
        head[NUMBER_AT..BYTES_AT].copy_from_slice(&u64::from(self.number - COLD).to_le_bytes());
        head[BYTES_AT..RECORDS_AT].copy_from_slice(&self.at.to_le_bytes());
        head[RECORDS_AT..SUM_AT].copy_from_slice(&(self.entries.len() as u64).to_le_bytes());
        head[SUM_AT..CHECK_AT].copy_from_slice(&self.sum.finish().to_le_bytes());
        let check = XxHash3_64::oneshot_with_seed(self.salt, &head[..CHECK_AT]);
        head[CHECK_AT..CHECK_AT + 8].copy_from_slice(&check.to_le_bytes());
        let name = segment_name(self.number);
        let named = (|| {
            write_all_at(&*self.file, &head, 0)?;
            self.file.sync_data()?;
            rename_free(&*self.storage, &self.aside, &name)?;
            self.file.unlock()
        })();
        named.map_err(|error| Error::io(self.storage.describe(&name), error))?;
        let (number, bytes) = (self.number, self.at);
        let index = encode_index(number, Tie { word: check, end: bytes }, &self.entries);
        // Without it, the first lookup makes one.
        let _ = write_whole(&self.storage, &Form::Seal.name(number), &index);
        Ok(ColdSegment { number, bytes, records: self.entries.len() as u64, check })
    }
}

impl Drop for ColdWriter {
    fn drop(&mut self) {
        // Nothing has this name once the segment has its own.
        let _ = self.storage.remove(&self.aside);
    }
}
