//! Reading objects: by location from the map, else by id through the indexes. No lock is taken on the way
//! by location.
//!
//! A record's checksum is verified when it is first read; where the store is mapped, a bit remembers that.
//! Bits are set only for what is committed, so that bytes behind the end, which may still change, are
//! verified each time.

use std::{
    io,
    sync::{Arc, atomic::Ordering::*},
};

use bristlecone_core::{Bytes, Location, ObjRef, Object, Oid, RECORD_HEADER_BYTES, Record};
use quick_cache::{Weighter, sync::Cache};

use super::{
    index::{SealedIndex, each_record, encode_index, index_name},
    log::{Shared, read_lock, write_lock},
    segment::{SEGMENT_HEAD_BYTES, Segment},
    walk::{Step, Walk},
};
use crate::{
    Error,
    backend::peek_record,
    storage::{OpenMode, write_all_at},
};

/// Objects read without a map, by location, within a budget of bytes.
pub(super) type RecordCache = Cache<u64, Arc<[u8]>, ByBytes>;

/// Weighs a cached record.
#[derive(Clone, Debug)]
pub(super) struct ByBytes;

impl Weighter<u64, Arc<[u8]>> for ByBytes {
    fn weight(&self, _: &u64, bytes: &Arc<[u8]>) -> u64 {
        // 64: the key, the table's row and the counters of the allocation.
        bytes.len() as u64 + 64
    }
}

/// Returns an empty cache for `bytes` bytes.
pub(super) fn record_cache(bytes: u64) -> RecordCache {
    Cache::with_weighter((bytes / 512).clamp(16, 1 << 24) as usize, bytes, ByBytes)
}

/// What is at a location.
enum Probe<'a> {
    Found(Object<'a>),
    /// Another object, or none: the location is a wrong hint.
    Other,
    /// The object, damaged.
    Bad(String),
}

/// The first read without a map: most objects are no longer.
const FIRST_READ_BYTES: usize = 1024;

impl Shared {
    /// Reads the object that `at` names.
    #[inline]
    pub(super) fn read(&self, at: &ObjRef) -> Result<Option<Object<'_>>, Error> {
        // The way of an object that was read before through this location: no call, nothing copied.
        if let Some(bytes) = self.verified_bytes(at.at)
            && let Ok(record) = Record::parse(bytes)
            && record.oid == at.oid.as_bytes()
        {
            let whole = Bytes::Borrowed(&bytes[..record.bytes() as usize]);
            return Ok(Some(Object::from_record(&record, whole, at.at)));
        }
        self.read_slowly(at)
    }

    /// Returns the record of an object that can be borrowed from where the hint says.
    #[inline]
    pub(super) fn peek(&self, oid: &[u8], at: Location) -> Option<&[u8]> {
        match self.verified_bytes(at) {
            Some(bytes) => peek_record(bytes, oid),
            None => self.peek_first(oid, at),
        }
    }

    /// As [`Shared::peek`], for a record that was not read before.
    #[cold]
    fn peek_first(&self, oid: &[u8], at: Location) -> Option<&[u8]> {
        if !self.options.locations || !at.is_some() || at.pending_offset().is_some() {
            return None;
        }
        // What fails here is told by the slow way.
        self.probe(&Oid::new(oid).ok()?, at).ok()?;
        peek_record(self.verified_bytes(at)?, oid)
    }

    /// Returns the bytes from a location on, if a record there was verified before.
    #[inline]
    fn verified_bytes(&self, at: Location) -> Option<&[u8]> {
        let offset = at.0 as u32 as usize;
        let segment = self.segments.get((at.0 >> 32) as u32)?;
        if !segment.is_verified(offset) || !self.options.locations {
            return None;
        }
        segment.mapped()?.get(offset..)
    }

    #[inline(never)]
    fn read_slowly(&self, at: &ObjRef) -> Result<Option<Object<'_>>, Error> {
        let hint = if self.options.locations { at.at } else { Location::NONE };
        if hint.is_some() && hint.pending_offset().is_none() {
            match self.probe(&at.oid, hint)? {
                Probe::Found(object) => return Ok(Some(object)),
                Probe::Bad(reason) => return Err(self.damaged(&at.oid, hint, reason)),
                Probe::Other => {}
            }
        }
        let known = self.published.end();
        if let Some(object) = self.find(&at.oid)? {
            return Ok(Some(object));
        }
        // Another process, or another thread since, may have appended it.
        self.refresh()?;
        if self.published.end() != known
            && let Some(object) = self.find(&at.oid)?
        {
            return Ok(Some(object));
        }
        self.refuse_damaged_hint(&at.oid, hint)?;
        Ok(None)
    }

    /// Finds an object by its id alone: in the tail, then in sealed segments, the newest first.
    pub(super) fn find(&self, oid: &Oid) -> Result<Option<Object<'_>>, Error> {
        let mut search = Search { shared: self, oid, object: None, bad: None, failed: None };
        let tail = self.search_tail(&mut search)?;
        let mut number = tail.saturating_sub(1);
        let first = self.first_segment.load(Acquire);
        while search.object.is_none() && number >= first && number > 0 {
            if let Some(segment) = self.segment(number)? {
                let index = self.sealed_index(segment)?;
                let found = index.find(oid.prefix(), |offset| search.accepts(number, offset));
                found.map_err(|error| self.io(&index_name(number), error))?;
            }
            number -= 1;
        }
        match (search.object, search.failed, search.bad) {
            (Some(object), _, _) => Ok(Some(object)),
            (None, Some(error), _) => Err(error),
            (None, None, Some((at, reason))) => Err(self.damaged(oid, at, reason)),
            (None, None, None) => Ok(None),
        }
    }

    /// Returns where an object of the tail is.
    pub(super) fn locate(&self, oid: &Oid) -> Option<Location> {
        let mut search = Search { shared: self, oid, object: None, bad: None, failed: None };
        self.search_tail(&mut search).ok()?;
        Some(search.object?.location())
    }

    /// Asks the index of the tail, brought up to date, and returns the segment that it is of.
    fn search_tail(&self, search: &mut Search<'_, '_>) -> Result<u32, Error> {
        let end = self.published.end();
        let (number, upto) = ((end >> 32) as u32, end & 0xffff_ffff);
        let prefix = search.oid.prefix();
        let index = read_lock(&self.tail_index);
        if index.segment == number && index.upto >= upto {
            index.find(prefix, |offset| search.accepts(number, offset));
            return Ok(number);
        }
        drop(index);
        let mut index = write_lock(&self.tail_index);
        // Read again under the lock, so that the table never goes back.
        let end = self.published.end();
        let (number, upto) = ((end >> 32) as u32, end & 0xffff_ffff);
        let Some(segment) = self.segment(number)? else { return Ok(number) };
        if index.segment != number {
            let from = segment.head.map_or(SEGMENT_HEAD_BYTES as u64, |head| head.frames_at());
            index.reset(number, from);
        }
        if index.upto < upto {
            let from = index.upto;
            let mut records = Vec::new();
            self.records_between(segment, from, upto, &mut |prefix, offset| records.push((prefix, offset)))?;
            let same = |one: u32, other: u32| {
                let id = |at| segment.bytes_at(u64::from(at) + 13, 35).map(|bytes| bytes.into_owned());
                matches!((id(one), id(other)), (Ok(one), Ok(other)) if one[0] == other[0] && one[3..] == other[3..])
            };
            for (prefix, offset) in records {
                index.insert(prefix, offset, |other| same(offset, other));
            }
            index.upto = upto;
        }
        index.find(prefix, |offset| search.accepts(number, offset));
        Ok(number)
    }

    /// Returns the index of a sealed segment: from its file, else made again from the segment.
    pub(super) fn sealed_index<'a>(&self, segment: &'a Segment) -> Result<&'a SealedIndex, Error> {
        if let Some(index) = segment.index.get() {
            return Ok(index);
        }
        let name = index_name(segment.number);
        let seal = segment.head.map_or(0, |head| head.check);
        let from_file = || -> io::Result<Option<SealedIndex>> {
            let file = self.storage.open(&name, OpenMode::Read)?;
            SealedIndex::from_file(file, segment.number, seal, self.options.maps)
        };
        // Whatever is wrong with the file, it can be made again.
        if let Ok(Some(index)) = from_file() {
            return Ok(segment.index.get_or_init(|| index));
        }
        let bytes = self.index_bytes(segment)?;
        let written = || -> io::Result<Option<SealedIndex>> {
            // Whoever writes it writes the same bytes, so they may be written in place.
            let file = self.storage.open(&name, OpenMode::Create)?;
            write_all_at(&*file, &bytes, 0)?;
            SealedIndex::from_file(file, segment.number, seal, self.options.maps)
        };
        let index = if self.lock.is_some() { written().ok().flatten() } else { None };
        let index = match index {
            Some(index) => index,
            None => SealedIndex::from_bytes(bytes).ok_or_else(|| self.corrupt(&name, 0, "the index cannot be made"))?,
        };
        Ok(segment.index.get_or_init(|| index))
    }

    /// Makes the bytes of the index of a sealed segment.
    pub(super) fn index_bytes(&self, segment: &Segment) -> Result<Vec<u8>, Error> {
        let from = segment.head.map_or(SEGMENT_HEAD_BYTES as u64, |head| head.frames_at());
        let mut entries = Vec::new();
        self.records_between(segment, from, segment.bytes, &mut |prefix, offset| entries.push((prefix, offset)))?;
        Ok(encode_index(segment.number, segment.head.map_or(0, |head| head.check), entries))
    }

    /// Calls `each` with prefix and offset of the records between two offsets.
    fn records_between(
        &self,
        segment: &Segment,
        from: u64,
        to: u64,
        each: &mut dyn FnMut(u64, u32),
    ) -> Result<(), Error> {
        let failed = |error| self.io(&segment.name, error);
        let mut walk = Walk::new(segment, self.header.salt, from, to);
        while let Some(step) = walk.step().map_err(failed)? {
            let Step::Frame { offset, frame, .. } = step else { continue };
            let walked = each_record(segment, offset, u64::from(frame.record_bytes), &mut |at, record, _| {
                if let Ok(oid) = Oid::new(record.oid) {
                    each(oid.prefix(), at as u32);
                }
            });
            walked.map_err(failed)?;
        }
        Ok(())
    }

    fn probe(&self, oid: &Oid, at: Location) -> Result<Probe<'_>, Error> {
        let offset = at.0 & 0xffff_ffff;
        let Some(segment) = self.segment((at.0 >> 32) as u32)? else { return Ok(Probe::Other) };
        if !offset.is_multiple_of(8) || offset + RECORD_HEADER_BYTES as u64 > segment.bytes {
            return Ok(Probe::Other);
        }
        let Some(map) = segment.mapped() else { return self.probe_file(segment, oid, at, offset) };
        let bytes = &map[offset as usize..];
        let Ok(record) = Record::parse(bytes) else { return Ok(Probe::Other) };
        if record.oid != oid.as_bytes() {
            return Ok(Probe::Other);
        }
        let whole = &bytes[..record.bytes() as usize];
        if !segment.is_verified(offset as usize) {
            let settled = at.0 < self.published.end();
            match record.verify(whole) {
                Ok(()) if settled => segment.set_verified(offset as usize),
                Ok(()) => {}
                Err(error) if settled => return Ok(Probe::Bad(error.to_string())),
                Err(_) => return Ok(Probe::Other),
            }
        }
        Ok(Probe::Found(Object::from_record(&record, Bytes::Borrowed(whole), at)))
    }

    fn probe_file(&self, segment: &Segment, oid: &Oid, at: Location, offset: u64) -> Result<Probe<'_>, Error> {
        if let Some(bytes) = self.cache.as_ref().and_then(|cache| cache.get(&at.0)) {
            return Ok(match Record::parse(&bytes) {
                Ok(record) if record.oid == oid.as_bytes() => {
                    let object = Object::from_record(&record, Bytes::from(bytes.clone()), at);
                    Probe::Found(object)
                }
                _ => Probe::Other,
            });
        }
        let settled = at.0 < self.published.end();
        let mut first = [0; FIRST_READ_BYTES];
        let first = &mut first[..FIRST_READ_BYTES.min((segment.bytes - offset) as usize)];
        let failed = |error| self.io(&segment.name, error);
        segment.read_exact_at(first, offset).map_err(failed)?;
        // A header tells the length; what it says is checked against the file before anything is allocated.
        let span = 48 + 8 * (u64::from(word(first, 8)) + u64::from(first[14])) + u64::from(word(first, 4));
        if first[16..16 + oid.as_bytes().len()] != *oid.as_bytes() {
            return Ok(Probe::Other);
        }
        if span > segment.bytes - offset {
            let reason = "the record's length leads beyond the file".to_owned();
            return Ok(if settled { Probe::Bad(reason) } else { Probe::Other });
        }
        let mut bytes: Arc<[u8]> = Arc::from(vec![0; span as usize]);
        let Some(buffer) = Arc::get_mut(&mut bytes) else { return Ok(Probe::Other) };
        let have = first.len().min(buffer.len());
        buffer[..have].copy_from_slice(&first[..have]);
        segment.read_exact_at(&mut buffer[have..], offset + have as u64).map_err(failed)?;
        let record = match Record::parse(&bytes).and_then(|record| record.verify(&bytes).map(|()| record)) {
            Ok(record) if record.oid == oid.as_bytes() => record,
            Err(error) if settled => return Ok(Probe::Bad(error.to_string())),
            _ => return Ok(Probe::Other),
        };
        let object = Object::from_record(&record, Bytes::from(bytes.clone()), at);
        if settled && let Some(cache) = &self.cache {
            cache.insert(at.0, bytes);
        }
        Ok(Probe::Found(object))
    }

    /// Fails if the hint leads into a frame whose records are damaged: then the object may have been there.
    fn refuse_damaged_hint(&self, oid: &Oid, hint: Location) -> Result<(), Error> {
        let number = (hint.0 >> 32) as u32;
        if !hint.is_some() || hint.pending_offset().is_some() || hint.0 >= self.published.end() {
            return Ok(());
        }
        let Some(segment) = self.segment(number)? else { return Ok(()) };
        let place = hint.0 & 0xffff_ffff;
        let from = segment.head.map_or(SEGMENT_HEAD_BYTES as u64, |head| head.frames_at());
        let mut damaged = false;
        let failed = |error| self.io(&segment.name, error);
        let mut walk = Walk::new(segment, self.header.salt, from, segment.bytes);
        while walk.at <= place {
            let Some(step) = walk.step().map_err(failed)? else { break };
            match step {
                Step::Frame { offset, frame, .. } if (offset..offset + frame.bytes()).contains(&place) => {
                    damaged = !segment.records_right(offset, &frame).map_err(failed)?;
                }
                Step::Gap { offset, end } if (offset..end).contains(&place) => damaged = true,
                _ => {}
            }
        }
        if damaged {
            return Err(self.damaged(oid, hint, "the object should be here, and is not".to_owned()));
        }
        Ok(())
    }

    fn damaged(&self, oid: &Oid, at: Location, reason: String) -> Error {
        Error::Corrupt {
            file: self.storage.describe(&super::segment::segment_name((at.0 >> 32) as u32)),
            offset: at.0 & 0xffff_ffff,
            oid: Some(*oid),
            reason,
        }
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    super::frame::word32(bytes, at)
}

/// A search for an object by its id.
struct Search<'s, 'o> {
    shared: &'s Shared,
    oid: &'o Oid,
    object: Option<Object<'s>>,
    /// Where it was met and is damaged.
    bad: Option<(Location, String)>,
    failed: Option<Error>,
}

impl Search<'_, '_> {
    /// Whether the object is at this place of a segment; it is kept then.
    fn accepts(&mut self, segment: u32, offset: u32) -> bool {
        let at = Location(u64::from(segment) << 32 | u64::from(offset));
        match self.shared.probe(self.oid, at) {
            Ok(Probe::Found(object)) => self.object = Some(object),
            Ok(Probe::Other) => {}
            Ok(Probe::Bad(reason)) => self.bad = Some((at, reason)),
            Err(error) => self.failed = Some(error),
        }
        self.object.is_some()
    }
}
