//! Reading objects that wait in a batch, above what a snapshot shows.

use std::ops::Range;

use bristlecone_core::{Bytes, Format, Kind, Location, ObjRef, Object, Sink, Source};

use crate::{
    Batch, Error, Result, Snapshot,
    store::{Prewritten, StoreView, check_kind, lock_values},
};

/// What a batch was given so far, and what was there before.
pub(crate) struct Arrived<'c> {
    pub(crate) batch: &'c Batch,
    pub(crate) snapshot: &'c dyn Snapshot,
}

impl Arrived<'_> {
    /// Reads an object of whatever kind.
    pub(crate) fn read_any(&self, at: &ObjRef) -> Result<Option<Object<'_>>> {
        match self.put(at) {
            Some(object) => Ok(Some(object)),
            None => self.snapshot.read(at),
        }
    }

    /// Returns an object that was put. A place that is not pending is one in the backend.
    fn put(&self, at: &ObjRef) -> Option<Object<'_>> {
        let placed = at.at.is_some() && at.at.pending_offset().is_none();
        if placed { None } else { self.batch.read(at) }
    }
}

impl Source for Arrived<'_> {
    type Error = Error;

    fn peek(&self, oid: &[u8], at: Location) -> Option<&[u8]> {
        if at.pending_offset().is_some() { None } else { self.snapshot.peek(oid, at) }
    }

    fn read<'a>(&'a self, kind: Kind, at: &ObjRef) -> Result<Object<'a>> {
        let object = self.read_any(at)?.ok_or(Error::Missing { kind, oid: at.oid })?;
        check_kind(kind, &object, at.oid)?;
        Ok(object)
    }
}

/// Returns a range of a value that waits among the prewritten ones; `None` if it does not.
pub(crate) fn read_waiting<F: Format>(
    store: &StoreView<F>,
    prewritten: &Prewritten,
    at: &ObjRef,
    range: Range<u64>,
) -> Result<Option<Bytes<'static>>> {
    let values = lock_values(prewritten);
    let Some(place) = values.batch().known(&at.oid) else { return Ok(None) };
    let waiting = Arrived { batch: values.batch(), snapshot: &*store.snapshot };
    let bytes = store.format.read_contents(&waiting, &ObjRef::new(at.oid, place), range)?;
    // Owned: whoever commits first takes the batch away.
    Ok(Some(bytes.into_static()))
}
