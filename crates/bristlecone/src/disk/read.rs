//! Reading objects: by location from the map, else by id (`find.rs`). No lock is taken on the way by location.
//!
//! A record's checksum is verified when it is first read; where the store is mapped, a bit remembers that.
//! Bits are set only for what is committed, so that bytes behind the end, which may still change, are
//! verified each time.

use std::{io, sync::Arc};

use bristlecone_core::{Bytes, Location, ObjRef, Object, Oid, RECORD_HEADER_BYTES, Record, RecordHeader};

use super::{
    files::segment_name,
    marks::marks_name,
    segment::Segment,
    table::numbers_of,
    view::DiskView,
    walk::{FrameStep, FrameWalk},
};
use crate::{Error, backend::peek_record};

/// What is at a location.
pub(super) enum Probe<'a> {
    Found(Object<'a>),
    /// Another object, or none: the location is a wrong hint.
    Other,
    /// The object, which a collection found to be dead: it may name what is gone, and is as good as absent.
    Dead,
    /// The object, damaged.
    Bad(String),
}

/// The first read without a map: most objects are no longer.
const FIRST_READ_BYTES: usize = 1024;

impl<'a> DiskView<'a> {
    /// Reads the object that `at` names.
    #[inline]
    pub(super) fn read(&self, at: &ObjRef) -> Result<Option<Object<'a>>, Error> {
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
    pub(super) fn peek(&self, oid: &[u8], at: Location) -> Option<&'a [u8]> {
        match self.verified_bytes(at) {
            Some(bytes) => peek_record(bytes, oid),
            None => self.peek_first(oid, at),
        }
    }

    /// As [`DiskState::peek`], for a record that was not read before, or that a collection has moved.
    #[cold]
    fn peek_first(&self, oid: &[u8], at: Location) -> Option<&'a [u8]> {
        if !self.options.locations || !at.is_some() || at.pending_offset().is_some() {
            return None;
        }
        if !self.table.has((at.0 >> 32) as u32) {
            return self.peek_moved(oid, at);
        }
        self.segment((at.0 >> 32) as u32).ok()??.mapped()?;
        // The slow way reports what fails here.
        self.probe(&Oid::new(oid).ok()?, at).ok()?;
        peek_record(self.verified_bytes(at)?, oid)
    }

    /// As [`DiskState::peek`], for a record that a collection has moved.
    fn peek_moved(&self, oid: &[u8], at: Location) -> Option<&'a [u8]> {
        let known = self.moved.get(at).and_then(|now| self.verified_bytes(now));
        if let Some(record) = known.and_then(|bytes| peek_record(bytes, oid)) {
            return Some(record);
        }
        let now = self.find_moved(&ObjRef::new(Oid::new(oid).ok()?, at))?.location();
        peek_record(self.verified_bytes(now)?, oid)
    }

    /// Returns the bytes from a location on, if a record there was verified before.
    #[inline]
    fn verified_bytes(&self, at: Location) -> Option<&'a [u8]> {
        let offset = at.0 as u32 as usize;
        let segment = self.table.get((at.0 >> 32) as u32)?;
        if !segment.verified.has(offset) || !self.options.locations {
            return None;
        }
        segment.mapped()?.get(offset..)
    }

    #[inline(never)]
    fn read_slowly(&self, at: &ObjRef) -> Result<Option<Object<'a>>, Error> {
        let hint = if self.options.locations { at.at } else { Location::NONE };
        if hint.is_some() && hint.pending_offset().is_none() {
            let failed = match self.probe(&at.oid, hint) {
                Ok(Probe::Found(object)) => return Ok(Some(object)),
                Ok(Probe::Other | Probe::Dead) => None,
                Ok(Probe::Bad(reason)) => Some(self.damaged(&at.oid, hint, reason)),
                Err(error) => Some(error),
            };
            if let Some(error) = failed {
                // It may have been appended again since.
                return self.find(&at.oid).ok().flatten().map(Some).ok_or(error);
            }
            if let Some(object) = self.find_moved(at) {
                return Ok(Some(object));
            }
        }
        let known = self.published.end();
        let mut found = self.find(&at.oid);
        if !matches!(found, Ok(Some(_))) {
            // Another process, or another thread since, may have appended it.
            self.refresh()?;
            if self.published.end() != known {
                found = self.find(&at.oid);
            }
        }
        if let Some(object) = found? {
            return Ok(Some(object));
        }
        self.refuse_damaged_hint(&at.oid, hint)?;
        Ok(None)
    }

    /// Looks for the object at a location.
    pub(super) fn probe(&self, oid: &Oid, at: Location) -> Result<Probe<'a>, Error> {
        let offset = at.0 & 0xffff_ffff;
        let Some(segment) = self.segment((at.0 >> 32) as u32)? else { return Ok(Probe::Other) };
        if !offset.is_multiple_of(8) || offset + RECORD_HEADER_BYTES as u64 > segment.bytes {
            return Ok(Probe::Other);
        }
        if !segment.is_live(offset).map_err(|error| self.unmarked(segment, error))? {
            let same = self.has_id(segment, oid, offset);
            return Ok(if same { Probe::Dead } else { Probe::Other });
        }
        let Some(map) = segment.mapped() else { return self.probe_file(segment, oid, at, offset) };
        let bytes = &map[offset as usize..];
        let Ok(record) = Record::parse(bytes) else { return Ok(Probe::Other) };
        if record.oid != oid.as_bytes() {
            return Ok(Probe::Other);
        }
        let whole = &bytes[..record.bytes() as usize];
        if !segment.verified.has_once(offset as usize) {
            let committed = self.is_committed(at.0);
            match record.verify(whole) {
                Ok(()) if committed => self.note_verified(segment, offset),
                Ok(()) => {}
                Err(error) if committed => return Ok(Probe::Bad(error.to_string())),
                Err(_) => return Ok(Probe::Other),
            }
        }
        Ok(Probe::Found(Object::from_record(&record, Bytes::Borrowed(whole), at)))
    }

    /// Returns the error of marks that cannot be read, or are not what they were when they were opened.
    #[cold]
    pub(super) fn unmarked(&self, segment: &Segment, error: io::Error) -> Error {
        let Some(marks) = self.table.state.marks(segment.number) else { return self.io(&segment.name, error) };
        let name = marks_name(marks.number, marks.epoch);
        match error.kind() {
            io::ErrorKind::InvalidData => self.corrupt(&name, 0, error.to_string()),
            _ => self.io(&name, error),
        }
    }

    fn note_verified(&self, segment: &Segment, offset: u64) {
        segment.verified.note(offset as usize);
        // Snapshots may have segments that this table has not.
        let forget = |number| {
            for table in self.tables.all() {
                table.get(number).into_iter().for_each(|segment| segment.verified.forget());
            }
        };
        self.bits.trim(|| numbers_of(&self.tables.all()), forget);
    }

    fn probe_file(&self, segment: &'a Segment, oid: &Oid, at: Location, offset: u64) -> Result<Probe<'a>, Error> {
        if let Some(bytes) = self.cache.as_ref().and_then(|cache| cache.get(&at.0)) {
            return Ok(match Record::parse(&bytes) {
                Ok(record) if record.oid == oid.as_bytes() => {
                    let object = Object::from_record(&record, Bytes::from(bytes.clone()), at);
                    Probe::Found(object)
                }
                _ => Probe::Other,
            });
        }
        let committed = self.is_committed(at.0);
        let mut first = [0; FIRST_READ_BYTES];
        let first = &mut first[..FIRST_READ_BYTES.min((segment.bytes - offset) as usize)];
        let failed = |error| self.io(&segment.name, error);
        segment.read_exact_at(first, offset).map_err(failed)?;
        // A header tells the length; what it says is checked against the file before anything is allocated.
        let at_start = |header: &RecordHeader<'_>| header.padded_oid().starts_with(oid.as_bytes());
        let Some(header) = RecordHeader::first(first).filter(at_start) else {
            return Ok(Probe::Other);
        };
        let span = header.bytes();
        if span > segment.bytes - offset {
            let reason = "the record's length leads beyond the file".to_owned();
            return Ok(if committed { Probe::Bad(reason) } else { Probe::Other });
        }
        let mut bytes: Arc<[u8]> = Arc::from(vec![0; span as usize]);
        let Some(buffer) = Arc::get_mut(&mut bytes) else { return Ok(Probe::Other) };
        let have = first.len().min(buffer.len());
        buffer[..have].copy_from_slice(&first[..have]);
        segment.read_exact_at(&mut buffer[have..], offset + have as u64).map_err(failed)?;
        let record = match Record::parse(&bytes).and_then(|record| record.verify(&bytes).map(|()| record)) {
            Ok(record) if record.oid == oid.as_bytes() => record,
            Err(error) if committed => return Ok(Probe::Bad(error.to_string())),
            _ => return Ok(Probe::Other),
        };
        let object = Object::from_record(&record, Bytes::from(bytes.clone()), at);
        if committed && let Some(cache) = &self.cache {
            cache.insert(at.0, bytes);
        }
        Ok(Probe::Found(object))
    }

    /// Fails if the hint leads into a frame whose records are damaged: then the object may have been there.
    fn refuse_damaged_hint(&self, oid: &Oid, hint: Location) -> Result<(), Error> {
        let number = (hint.0 >> 32) as u32;
        if !hint.is_some() || hint.pending_offset().is_some() || hint.0 >= self.published.end() {
            // A cold segment has no frames, and its records are found by its index.
            return Ok(());
        }
        let Some(segment) = self.segment(number)? else {
            // Beyond those that a collection has removed, none is gone but by damage.
            let gone = self.table.has(number);
            return if gone { Err(self.missing_object(oid, hint)) } else { Ok(()) };
        };
        let place = hint.0 & 0xffff_ffff;
        let from = segment.frames_at();
        let mut damaged = false;
        let failed = |error| self.io(&segment.name, error);
        let mut walk = FrameWalk::new(segment, self.header.salt, from, segment.bytes);
        while walk.at <= place {
            let Some(step) = walk.step().map_err(failed)? else {
                // The place is committed: behind a frame that is not the seal there was another one.
                damaged = !walk.sealed;
                break;
            };
            match step {
                FrameStep::Frame { offset, frame, .. } if (offset..offset + frame.bytes()).contains(&place) => {
                    damaged = !segment.records_right(offset, &frame).map_err(failed)?;
                }
                FrameStep::Gap { offset, end } if (offset..end).contains(&place) => damaged = true,
                _ => {}
            }
        }
        if damaged {
            return Err(self.damaged(oid, hint, "the object should be here, and is not".to_owned()));
        }
        Ok(())
    }

    /// Returns the error that says that the segment that an object was in is missing.
    fn missing_object(&self, oid: &Oid, at: Location) -> Error {
        let expired = self.expired(&segment_name((at.0 >> 32) as u32));
        expired.unwrap_or_else(|| self.damaged(oid, at, "the segment is missing".to_owned()))
    }

    /// Returns the error that says that an object was at a location, or may have been, and is damaged.
    pub(super) fn damaged(&self, oid: &Oid, at: Location, reason: String) -> Error {
        Error::Corrupt {
            file: self.storage.describe(&super::files::segment_name((at.0 >> 32) as u32)),
            offset: at.0 & 0xffff_ffff,
            oid: Some(*oid),
            reason,
        }
    }
}
