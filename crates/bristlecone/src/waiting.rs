//! Reading objects that wait in a batch, above what a snapshot shows.

use std::{ops::Range, sync::Arc};

use bristlecone_core::{Bytes, Format, Kind, Location, ObjRef, Object, Oid, Sink, Source};

use crate::{
    AbsentCommits, Batch, Error, Result, Snapshot,
    backend::Position,
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

/// Returns an object of a batch: a pending place may be one in another.
fn find<'b>(batch: &'b Batch, at: &ObjRef) -> Option<Object<'b>> {
    batch.read(at).or_else(|| batch.read(&at.oid.into()))
}

/// What a snapshot shows, with what a tree has made and not written.
#[derive(Debug)]
pub(crate) struct Unwritten {
    pub(crate) batch: Batch,
    pub(crate) prewritten: Option<Prewritten>,
    pub(crate) below: Arc<dyn Snapshot>,
}

impl Snapshot for Unwritten {
    fn read(&self, at: &ObjRef) -> Result<Option<Object<'_>>> {
        if let Some(object) = find(&self.batch, at) {
            return Ok(Some(object));
        }
        if let Some(values) = &self.prewritten
            && let Some(object) = find(lock_values(values).batch(), at)
        {
            return Ok(Some(object.into_static()));
        }
        self.below.read(&if at.at.pending_offset().is_some() { at.oid.into() } else { *at })
    }

    fn locate(&self, oid: &Oid) -> Option<Location> {
        self.below.locate(oid)
    }

    fn position(&self) -> Option<Position> {
        self.below.position()
    }

    fn sweeps(&self) -> Option<u64> {
        self.below.sweeps()
    }

    fn absent(&self) -> Result<Option<Arc<AbsentCommits>>> {
        self.below.absent()
    }

    fn keep(&self, root: &Oid) {
        self.below.keep(root);
    }
}
