//! Objects on their way into a store: appended in large batches, and readable before they are.
//!
//! The flush of a tree fills one batch and forgets it once it is appended. A transfer fills one after the other, and
//! what it notes of an object must lead there before and after the object's batch is appended: that is what a
//! [`StagedLocation`] is for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bristlecone::{
    Backend, Batch, BatchRecord, Bytes, Durability, Error, Format, Kind, Location, ObjRef, Object, Oid, Result, Sink,
    Snapshot,
    core::{FormatError, Record, Source},
};

use crate::history::presence::PresenceIndex;

/// Bytes of a batch from which on it is appended.
const BATCH_BYTES: usize = 8 << 20;
/// The bit that marks an offset in a batch, whose number follows.
const IN_BATCH: u64 = 1 << 63;

/// Calls its last argument with the id of every child of an object, in the order of its locations.
pub(crate) type ChildIds =
    Box<dyn Fn(Kind, &[u8], &mut dyn FnMut(Oid)) -> std::result::Result<(), FormatError> + Send + Sync>;

/// Returns how a format names the children of objects.
pub(crate) fn child_ids<F: Format>(format: F) -> ChildIds {
    Box::new(move |kind, body, each| format.child_ids(kind, body, each))
}

/// What was put and not appended yet, over a backend.
pub(crate) struct Staging {
    pub(crate) backend: Arc<dyn Backend>,
    // No ref leads to what was put until all of it was: the snapshot keeps a sweep from dropping it.
    pub(crate) snapshot: Arc<dyn Snapshot>,
    // Behind locks only because updates may be shared out; nothing waits for them.
    batch: Mutex<Batch>,
    buffer: Mutex<Vec<u8>>,
    // Locations at which the appended batches begin.
    bases: Vec<Location>,
    /// Searched for each object before it is put, where the store may have some already.
    presence: Option<PresenceIndex>,
    // How many sweeps had begun before anything was looked up.
    sweeps: u64,
    // `None` where no sweep drops anything.
    child_ids: Option<ChildIds>,
}

/// Where an object is: a location, or an offset in one of the staged batches, whose location is known later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StagedLocation(pub(crate) u64);

/// Staged locations by number, in pieces, so that growing never takes twice the memory.
#[derive(Debug, Default)]
pub(crate) struct StagedLocations(Vec<Box<[StagedLocation; PLACES]>>);

const PLACES: usize = 1 << 13;

impl StagedLocations {
    pub(crate) fn set(&mut self, number: u32, place: StagedLocation) {
        let number = number as usize;
        while self.0.len() * PLACES <= number {
            self.0.push(Box::new([StagedLocation(u64::MAX); PLACES]));
        }
        self.0[number / PLACES][number % PLACES] = place;
    }

    pub(crate) fn get(&self, number: u32) -> StagedLocation {
        let number = number as usize;
        self.0.get(number / PLACES).map_or(StagedLocation(u64::MAX), |piece| piece[number % PLACES])
    }
}

impl Staging {
    /// Returns what puts objects into a backend. `sweeps`: how many had begun before anything was looked up in it.
    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        presence: Option<PresenceIndex>,
        sweeps: u64,
        child_ids: ChildIds,
    ) -> Self {
        let child_ids = Some(child_ids).filter(|_| backend.capabilities().sweep);
        let batch = Mutex::new(Batch::since(sweeps));
        Self { batch, presence, sweeps, child_ids, ..Self::reading(backend) }
    }

    /// Returns what reads from a backend, and puts objects nowhere.
    pub(crate) fn reading(backend: Arc<dyn Backend>) -> Self {
        let (snapshot, sweeps) = (backend.snapshot(&[]), backend.sweeps());
        let (batch, buffer, bases) = (Mutex::default(), Mutex::default(), Vec::new());
        Self { backend, snapshot, batch, buffer, bases, presence: None, sweeps, child_ids: None }
    }

    /// Returns what to remember of a location that the sink gave.
    pub(crate) fn staged(&self, at: Location) -> StagedLocation {
        match at.pending_offset() {
            Some(offset) => StagedLocation(IN_BATCH | (self.bases.len() as u64) << 32 | offset),
            None => StagedLocation(at.0),
        }
    }

    /// Returns the location that stands for it now.
    pub(crate) fn location(&self, place: StagedLocation) -> Location {
        if place.0 & IN_BATCH == 0 || place.0 == u64::MAX {
            return Location(place.0);
        }
        let pending = Location::pending(place.0 & 0xffff_ffff);
        match self.bases.get(((place.0 & !IN_BATCH) >> 32) as usize) {
            Some(base) => pending.resolve(*base),
            None => pending,
        }
    }

    /// Returns a sink.
    pub(crate) fn sink(&self) -> StagingSink<'_> {
        StagingSink(self)
    }

    fn own_batch(&mut self) -> &mut Batch {
        self.batch.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends the batch if it is full, or if `coming` more bytes would make it much too large.
    pub(crate) fn append_if_full(&mut self, coming: usize) -> Result<()> {
        let waiting = self.own_batch().bytes().len();
        if waiting >= BATCH_BYTES || (waiting > 0 && waiting + coming > 4 * BATCH_BYTES) {
            return self.append();
        }
        Ok(())
    }

    /// Appends the batch. [`Error::Gone`] if a sweep has dropped what it hangs together with.
    pub(crate) fn append(&mut self) -> Result<()> {
        let next = Batch::since(self.sweeps);
        let mut batch = std::mem::replace(self.own_batch(), next);
        if batch.is_empty() {
            return Ok(());
        }
        self.built_on(&batch)?.into_iter().for_each(|oid| batch.leave_out(oid));
        let base = self.backend.append(batch, &[], Durability::None)?;
        self.bases.push(base);
        Ok(())
    }

    /// Returns what objects of a batch name that are not in it: they were there, or in a batch before, and a sweep of another
    /// process may drop both.
    fn built_on(&self, batch: &Batch) -> Result<Vec<Oid>> {
        let mut found = Vec::new();
        let Some(child_ids) = &self.child_ids else { return Ok(found) };
        for BatchRecord { record, bytes, offset } in batch.records() {
            let object = Object::from_record(&record, bytes.into(), Location::pending(offset.into()));
            let mut index = 0;
            let mut each = |child: Oid| {
                // A parent that was never fetched has no place.
                let is_there = object.kind() != Kind::Commit || object.child(index).is_some();
                index += 1;
                if is_there && batch.known(&child).is_none() {
                    found.push(child);
                }
            };
            child_ids(object.kind(), object.body(), &mut each)?;
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// Appends the batch and makes everything durable.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.append()?;
        self.backend.flush()
    }
}

impl Source for Staging {
    type Error = Error;

    fn peek(&self, oid: &[u8], at: Location) -> Option<&[u8]> {
        if at.pending_offset().is_some() { None } else { self.snapshot.peek(oid, at) }
    }

    fn read<'a>(&'a self, kind: Kind, at: &ObjRef) -> Result<Object<'a>> {
        if let Some(object) = self.waiting(at) {
            return Ok(object);
        }
        let Some(object) = self.snapshot.read(at)? else { return Err(Error::Missing { kind, oid: at.oid }) };
        if object.kind() != kind && !(kind == Kind::Contents && object.kind() == Kind::Pieces) {
            return Err(Error::WrongKind { oid: at.oid, found: object.kind(), expected: kind });
        }
        Ok(object)
    }
}

impl Staging {
    /// Copies an object out of the batch, which goes on growing meanwhile.
    fn waiting(&self, at: &ObjRef) -> Option<Object<'static>> {
        let batch = locked(&self.batch);
        let offset = at.at.pending_offset().or_else(|| {
            let unknown = !at.at.is_some();
            batch.known(&at.oid).filter(|_| unknown).and_then(Location::pending_offset)
        })?;
        let bytes = batch.bytes().get(offset as usize..)?;
        let record = Record::parse(bytes).ok().filter(|record| record.oid == at.oid.as_bytes())?;
        let whole: Arc<[u8]> = Arc::from(&bytes[..record.bytes() as usize]);
        Some(Object::from_record(&record, Bytes::from(whole), Location::pending(offset)))
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Puts objects into the batch.
pub(crate) struct StagingSink<'p>(&'p Staging);

impl Sink for StagingSink<'_> {
    fn put(&mut self, kind: Kind, oid: Oid, body: &[u8], children: &[Location], metadata: &[u64]) -> Location {
        if let Some(at) = self.stored(Some(kind), &oid) {
            return at;
        }
        locked(&self.0.batch).put(kind, oid, body, children, metadata)
    }

    fn take_buffer(&mut self) -> Vec<u8> {
        std::mem::take(&mut locked(&self.0.buffer))
    }

    fn give_buffer(&mut self, buffer: Vec<u8>) {
        *locked(&self.0.buffer) = buffer;
    }

    fn known(&self, oid: &Oid) -> Option<Location> {
        locked(&self.0.batch).known(oid).or_else(|| self.stored(None, oid))
    }
}

impl StagingSink<'_> {
    /// Returns where the store has an object; one that is damaged is written again.
    fn stored(&self, kind: Option<Kind>, oid: &Oid) -> Option<Location> {
        let found = self.0.presence.as_ref()?.find(kind, oid);
        found.ok().flatten().filter(|at| at.is_some())
    }
}
