//! Values that were appended early, so that an equal one elsewhere in the directory is not appended again.

use std::{
    array,
    sync::{Mutex, PoisonError},
};

use bristlecone_core::{Kind, Location, ObjRef, Oid};

use crate::{Backend, Batch, Result, backend::BatchRecord};

/// The values of a directory are kept apart by their ids in so many slots, each of which remembers the last one.
const SLOTS: usize = 4096;

/// Where a flush appends what comes apart, and the values that it appended there last.
pub(super) struct Early<'b> {
    backend: &'b dyn Backend,
    values: Box<[Mutex<Option<ObjRef>>; SLOTS]>,
}

impl<'b> Early<'b> {
    pub(super) fn new(backend: &'b dyn Backend) -> Self {
        Self { backend, values: Box::new(array::from_fn(|_| Mutex::new(None))) }
    }

    fn slot(&self, oid: &Oid) -> &Mutex<Option<ObjRef>> {
        &self.values[oid.prefix() as usize % SLOTS]
    }

    /// Returns where a value was appended, if that is remembered.
    pub(super) fn find(&self, oid: &Oid) -> Option<Location> {
        let slot = self.slot(oid).lock().unwrap_or_else(PoisonError::into_inner);
        slot.filter(|value| value.oid == *oid).map(|value| value.at)
    }

    /// Appends a batch, remembers its values, and returns where it begins. The batch is empty then.
    pub(super) fn append(&self, batch: &mut Batch) -> Result<Location> {
        let values: Vec<ObjRef> = batch.records().filter_map(|record| value(&record)).collect();
        let base = self.backend.append_keeping(batch)?;
        for value in values {
            let at = value.at.resolve(base);
            *self.slot(&value.oid).lock().unwrap_or_else(PoisonError::into_inner) = Some(ObjRef::new(value.oid, at));
        }
        Ok(base)
    }
}

/// Returns the value that a record of a batch is, at its place there.
fn value(record: &BatchRecord<'_>) -> Option<ObjRef> {
    let at = Location::pending(u64::from(record.offset));
    let oid = Oid::new(record.record.oid).ok().filter(|_| record.record.kind == Kind::Contents)?;
    Some(ObjRef::new(oid, at))
}
