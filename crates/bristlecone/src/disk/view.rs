//! An open store, read by one of its tables.

use std::{
    io::{self, ErrorKind},
    ops::Deref,
};

use bristlecone_core::{Location, ObjRef, Object, Oid, RECORD_HEADER_BYTES, RecordHeader};

use super::{
    files::{SEGMENTS, segment_name},
    log::DiskState,
    read::Probe,
    segment::Segment,
    state::state_epoch,
    table::SegmentTable,
};
use crate::Error;

/// What can be read by a table: what it finds may be borrowed as long as that is held.
#[derive(Clone, Copy, Debug)]
pub(super) struct DiskView<'a> {
    pub(super) state: &'a DiskState,
    pub(super) table: &'a SegmentTable,
}

impl Deref for DiskView<'_> {
    type Target = DiskState;

    fn deref(&self) -> &DiskState {
        self.state
    }
}

impl<'a> DiskView<'a> {
    /// Returns the segment, opening it if need be; `None` if there is no such segment.
    #[inline]
    pub(super) fn segment(&self, number: u32) -> Result<Option<&'a Segment>, Error> {
        match self.table.get(number) {
            Some(segment) => Ok(Some(segment)),
            None => Ok(self.state.open_segment(self.table, number)?.map(|segment| &**segment)),
        }
    }

    /// Whether another process has collected the store since, of which this one may not know yet.
    #[cold]
    pub(super) fn is_passed(&self) -> bool {
        let is_older = |than: u64| self.table.state.epoch < than;
        match self.log.try_lock() {
            // What cannot be learned now leaves the file missing.
            Ok(mut log) => _ = self.catch_up(&mut log),
            // Another thread may be about to learn it: the file of the state is there before anything is removed.
            Err(_) => {
                let names = self.storage.list(SEGMENTS).unwrap_or_default();
                if names.iter().filter_map(|name| state_epoch(name)).any(is_older) {
                    return true;
                }
            }
        }
        is_older(self.tables.epoch())
    }

    /// Wraps a failure at a file of the store: what cannot be read may have been removed since, where it is not held open.
    pub(super) fn io(&self, name: &str, error: io::Error) -> Error {
        let removed = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::UnexpectedEof);
        let expired = if removed { self.expired(name) } else { None };
        expired.unwrap_or_else(|| self.state.io(name, error))
    }

    /// Returns the error of a reader that misses the file `name` because a collection has passed it, if one has.
    #[cold]
    pub(super) fn expired(&self, name: &str) -> Option<Error> {
        self.is_passed().then(|| Error::Expired { file: self.storage.describe(name) })
    }

    /// Returns the object at a place; `None` if it is not there.
    pub(super) fn find_at(&self, at: &ObjRef) -> Result<Option<Object<'a>>, Error> {
        match self.probe(&at.oid, at.at)? {
            Probe::Found(object) => Ok(Some(object)),
            Probe::Other | Probe::Dead => Ok(None),
            Probe::Bad(reason) => Err(self.damaged(&at.oid, at.at, reason)),
        }
    }

    /// Whether the record at a place is live and says that it is of this object. What else is in it is not looked at.
    pub(super) fn is_at(&self, oid: &Oid, at: Location) -> bool {
        self.span_at(oid, at).is_some()
    }

    /// Returns how many bytes the record at a place says that it takes, if it is live and says that it is of this object.
    pub(super) fn span_at(&self, oid: &Oid, at: Location) -> Option<u64> {
        let offset = at.0 & 0xffff_ffff;
        let segment = self.segment((at.0 >> 32) as u32).ok()??;
        let is_live = at.is_some() && offset.is_multiple_of(8) && matches!(segment.is_live(offset), Ok(true));
        if is_live { self.span_of(segment, oid, offset) } else { None }
    }

    /// Whether the record at an offset says that it is of this object.
    pub(super) fn has_id(&self, segment: &Segment, oid: &Oid, offset: u64) -> bool {
        self.span_of(segment, oid, offset).is_some()
    }

    fn span_of(&self, segment: &Segment, oid: &Oid, offset: u64) -> Option<u64> {
        let header = segment.bytes_at(offset, RECORD_HEADER_BYTES as u64).ok()?;
        let header = RecordHeader::first(&header)?;
        (header.oid() == Some(oid.as_bytes())).then(|| header.bytes())
    }

    /// Returns where the frames of a segment of the log end from which another one goes on: behind its seal, as the head of that one
    /// says; the end of the file where that head is damaged.
    pub(super) fn frames_end(&self, segment: &Segment) -> Result<u64, Error> {
        let next = self.segment(self.after(segment.number)? as u32)?.and_then(|next| next.head);
        let end = next.map(|head| head.previous_end).filter(|end| end >> 32 == u64::from(segment.number));
        Ok(end.map_or(segment.bytes, |end| end & 0xffff_ffff))
    }

    /// Returns the number of the segment that goes on from this one.
    pub(super) fn after(&self, number: u32) -> Result<u64, Error> {
        let numbers = self.table.numbers();
        let next = numbers.get(numbers.partition_point(|&other| other <= number));
        let missing = || self.corrupt(&segment_name(number), 0, "the segment that goes on from this one is missing");
        next.map(|&next| u64::from(next)).ok_or_else(missing)
    }
}
