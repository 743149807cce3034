//! Copies of what is read from lower stores, on their way to the upper one: each goes behind what it names.

use std::{fmt, sync::Mutex};

use bristlecone_core::{Location, ObjRef, Object, Oid, Sink};

use crate::{
    Error,
    backend::{Backend, Batch},
    oid_map::OidMap,
    sync::lock,
};

/// Objects are copied in batches of about as many bytes.
pub(super) const COPIED_BYTES: usize = 64 << 10;
/// Bytes of objects that wait in memory for what they name.
const WAITING_BYTES_MAX: usize = 4 << 20;
/// Bytes that an object takes besides, for each that it names and for itself.
const NAMED_BYTES: usize = 64;

/// Calls its last argument with the id of everything that an object names.
pub(super) type Children = dyn Fn(&Oid, &Object<'_>, &mut dyn FnMut(Oid)) -> Result<(), Error> + Send + Sync;

/// Objects that were read from lower stores and are not in the upper one yet.
pub(super) struct Copies {
    children: Box<Children>,
    pending: Mutex<Pending>,
}

#[derive(Default)]
struct Pending {
    // What is appended next.
    batch: Batch,
    // Objects by one that they name and that the upper store lacks, and then by their own ids.
    waiting: OidMap<OidMap<Incoming<'static>>>,
    waiting_bytes: usize,
}

/// An object that is to be copied.
struct Incoming<'a> {
    oid: Oid,
    object: Object<'a>,
    named: Vec<Oid>,
    // How many of those that it names were found in the upper store, from the first on.
    found: usize,
}

impl Copies {
    pub(super) fn new(children: Box<Children>) -> Self {
        Self { children, pending: Mutex::default() }
    }

    /// Copies an object to the upper store, and what waited for it alone, or lets it wait for what it names.
    pub(super) fn add(&self, upper: &dyn Backend, oid: Oid, object: &Object<'_>) {
        if lock(&self.pending).batch.known(&oid).is_some() {
            return;
        }
        let mut named = Vec::new();
        // What cannot be copied is in the lower store.
        if (self.children)(&oid, object, &mut |child| named.push(child)).is_err() {
            return;
        }
        let mut pending = lock(&self.pending);
        let mut arrived = vec![Incoming { oid, object: object.clone(), named, found: 0 }];
        while let Some(mut one) = arrived.pop() {
            match pending.lacking(upper, &mut one) {
                Ok(Some(child)) => pending.wait(child, one),
                Ok(None) => {
                    if !pending.put(upper, &one) {
                        // What else has arrived may name what was dropped.
                        return;
                    }
                    arrived.extend(pending.take_waiting(&one.oid));
                }
                Err(_) => {}
            }
        }
    }

    /// Appends what has arrived. What the upper store refuses is dropped: it is in the lower store.
    pub(super) fn flush(&self, upper: &dyn Backend) {
        lock(&self.pending).append(upper);
    }
}

impl Pending {
    /// Returns one of those that an object names and that are neither in the upper store nor on their way there.
    fn lacking(&self, upper: &dyn Backend, one: &mut Incoming<'_>) -> Result<Option<Oid>, Error> {
        while let Some(child) = one.named.get(one.found) {
            let there = self.batch.known(child).is_some()
                || upper.locate(child).is_some()
                || upper.read(&ObjRef::from(*child))?.is_some();
            if !there {
                return Ok(Some(*child));
            }
            one.found += 1;
        }
        Ok(None)
    }

    fn wait(&mut self, child: Oid, one: Incoming<'_>) {
        if self.waiting_bytes >= WAITING_BYTES_MAX {
            // What is read again waits again.
            self.drop_waiting();
        }
        let Incoming { oid, object, named, found } = one;
        let one = Incoming { oid, object: object.into_static(), named, found };
        self.waiting_bytes += one.bytes();
        if let Some(before) = self.waiting.entry(child).or_default().insert(oid, one) {
            self.waiting_bytes -= before.bytes();
        }
    }

    /// Returns what waited for an object.
    fn take_waiting(&mut self, oid: &Oid) -> Vec<Incoming<'static>> {
        let waited: Vec<Incoming<'static>> = self.waiting.remove(oid).unwrap_or_default().into_values().collect();
        self.waiting_bytes -= waited.iter().map(Incoming::bytes).sum::<usize>();
        waited
    }

    /// Puts an object into the batch; returns whether the upper store has refused none.
    fn put(&mut self, upper: &dyn Backend, one: &Incoming<'_>) -> bool {
        // A sweep may drop what was found there: then the upper store refuses the batch.
        for child in &one.named {
            if self.batch.known(child).is_none() {
                self.batch.leave_out(*child);
            }
        }
        put_copy(&mut self.batch, one.oid, &one.object, &one.named);
        self.batch.bytes().len() < COPIED_BYTES || self.append(upper)
    }

    /// Appends the batch, or drops it with what counts on it; returns whether it was taken.
    fn append(&mut self, upper: &dyn Backend) -> bool {
        let taken = self.batch.is_empty() || upper.append_keeping(&mut self.batch).is_ok();
        if !taken {
            self.batch.clear();
            self.drop_waiting();
        }
        taken
    }

    fn drop_waiting(&mut self) {
        self.waiting.clear();
        self.waiting_bytes = 0;
    }
}

impl Incoming<'_> {
    fn bytes(&self) -> usize {
        self.object.read_bytes() + NAMED_BYTES * (1 + self.named.len())
    }
}

/// Puts an object of another store into a batch. `children`: what it names, in the order of places.
pub(super) fn put_copy(batch: &mut Batch, oid: Oid, object: &Object<'_>, children: &[Oid]) {
    // A place in another store is a hint that leads nowhere here, and right there.
    let place = |index: usize| children.get(index).and_then(|oid| batch.known(oid)).unwrap_or(object.child(index));
    let places: Vec<Location> = (0..object.children()).map(place).collect();
    let metadata: Vec<u64> = (0..).map_while(|index| object.metadata_word(index)).collect();
    batch.put(object.kind(), oid, object.body(), &places, &metadata);
}

impl fmt::Debug for Copies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Copies").finish_non_exhaustive()
    }
}
