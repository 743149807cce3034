//! Where the objects of a flush go: into a batch, or early to the backend.

use std::{
    cell::RefCell,
    sync::{Mutex, PoisonError},
};

use bristlecone_core::{Kind, Location, Oid, SHARED_MIN, Sink};

use crate::{Backend, Batch, Error, Result, Snapshot, backend::Absorbed, pool};

/// A batch that is being filled, above what a snapshot shows.
pub(crate) struct FlushSink<'b> {
    pub(crate) batch: Batch,
    snapshot: &'b dyn Snapshot,
    // What the batch need not hold, since the store has it.
    left_out: RefCell<Vec<Oid>>,
    // Steps that were bound to directories, as the last updates told.
    replaced: Vec<Vec<u8>>,
    buffer: Vec<u8>,
    shared_min: usize,
    early: Option<&'b dyn Backend>,
    // The memory of a batch that was appended early.
    spare: Option<Batch>,
    // Why one could not be: what was made since has no places.
    failed: Option<Error>,
}

/// What comes apart is appended early from so many bytes on for each change from which a directory is shared out: 128 KiB, unless
/// that is set otherwise.
const EARLY_BYTES: usize = 16;

impl<'b> FlushSink<'b> {
    pub(crate) fn new(batch: Batch, snapshot: &'b dyn Snapshot) -> Self {
        Self {
            batch,
            snapshot,
            left_out: RefCell::default(),
            replaced: Vec::new(),
            buffer: Vec::new(),
            shared_min: SHARED_MIN,
            early: None,
            spare: None,
            failed: None,
        }
    }

    /// Returns the same sink, where directories with so many changes are shared out.
    pub(super) const fn sharing_from(mut self, changes: usize) -> Self {
        self.shared_min = changes;
        self
    }

    /// From now on what can be apart ([`Sink::apart`]) is appended to `backend` as soon as it is made: while one thread writes, others
    /// go on, and it need not be held in memory until all is made. [`FlushSink::written`] says whether that succeeded.
    pub(crate) const fn write_early(&mut self, backend: &'b dyn Backend) {
        self.early = Some(backend);
    }

    /// Fails if something could not be appended early.
    ///
    /// # Errors
    /// As [`Backend::append`].
    pub(crate) fn written(&mut self) -> Result<()> {
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Returns an empty sink to be filled beside this one, in this memory.
    fn beside(&self, mut batch: Batch) -> Self {
        batch.clear();
        Self { early: self.early, ..Self::new(batch, self.snapshot).sharing_from(self.shared_min) }
    }

    /// Takes in what a sink was given that was filled beside this one, behind its own; returns where it is now.
    fn absorb(&mut self, mut beside: Self) -> Absorbed {
        self.take_notes(&mut beside);
        self.batch.absorb(beside.batch)
    }

    /// Takes in what another sink was told besides objects.
    fn take_notes(&mut self, beside: &mut Self) {
        self.left_out.get_mut().append(beside.left_out.get_mut());
        self.replaced.append(&mut beside.replaced);
        self.failed = match (self.failed.take(), beside.failed.take()) {
            // After what the other one has met, nothing more was written.
            (Some(Error::Poisoned { .. }), Some(failed)) => Some(failed),
            (failed, beside) => failed.or(beside),
        };
    }

    /// Appends what a sink was given that was filled beside this one, and returns where that begins. Its memory is kept for the
    /// next one.
    fn append_early(&mut self, backend: &dyn Backend, mut beside: Self) -> Result<Location> {
        let mut batch = std::mem::take(&mut beside.batch);
        beside.left_out.get_mut().drain(..).for_each(|oid| batch.leave_out(oid));
        self.take_notes(&mut beside);
        // Nothing leads to them yet. The snapshot keeps them from sweeps of this process; whether one of another process has dropped
        // some is looked up when that is appended which names them.
        self.left_out.get_mut().extend(batch.offsets().map(|(oid, _)| oid));
        let base = backend.append_keeping(&mut batch)?;
        self.spare = Some(batch);
        Ok(base)
    }

    /// Notes that the batch does not hold an object, and keeps that in the store.
    pub(crate) fn leave_out(&self, oid: &Oid) {
        self.keep(oid);
        self.builds_on(oid);
    }

    /// Keeps an object in the store if it is there. Whoever leaves it out looks for it after that, and then notes it: one that
    /// is put after all would be asked for in vain.
    pub(crate) fn keep(&self, oid: &Oid) {
        self.snapshot.keep(oid);
    }

    /// Notes an object that the batch hangs together with and that the snapshot keeps: another process may have dropped it.
    pub(crate) fn builds_on(&self, oid: &Oid) {
        self.left_out.borrow_mut().push(*oid);
    }

    #[inline]
    pub(crate) const fn has_replaced(&self) -> bool {
        !self.replaced.is_empty()
    }

    /// Returns the steps that were bound to directories and are bound to something else, by the updates since this was
    /// asked last.
    pub(crate) fn take_replaced(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.replaced)
    }

    /// Returns the batch with what it left out, and begins another.
    pub(crate) fn take(&mut self) -> Batch {
        let next = Batch::since(self.batch.left_out().1);
        let mut batch = std::mem::replace(&mut self.batch, next);
        self.left_out.get_mut().drain(..).for_each(|oid| batch.leave_out(oid));
        batch
    }
}

impl Sink for FlushSink<'_> {
    #[inline]
    fn put(&mut self, kind: Kind, oid: Oid, body: &[u8], children: &[Location], metadata: &[u64]) -> Location {
        self.batch.put(kind, oid, body, children, metadata)
    }

    fn take_buffer(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    fn give_buffer(&mut self, buffer: Vec<u8>) {
        self.buffer = buffer;
    }

    fn known(&self, oid: &Oid) -> Option<Location> {
        if let Some(at) = self.batch.known(oid) {
            return Some(at);
        }
        self.snapshot.locate(oid)?;
        // Kept first and then looked up again: what is there now stays. What was swept between is not left out, but put.
        self.keep(oid);
        let at = self.snapshot.locate(oid)?;
        self.builds_on(oid);
        Some(at)
    }

    fn expect(&self, oids: &[Oid]) {
        self.batch.expect(oids);
    }

    fn dir_replaced(&mut self, step: &[u8]) {
        self.replaced.push(step.to_vec());
    }

    /// On a thread of a pool, another one may call `other`.
    fn join<A: Send, B: Send>(
        &mut self,
        one: impl FnOnce(&mut Self) -> A + Send,
        other: impl FnOnce(&mut Self) -> B + Send,
        moved: impl FnOnce(&mut B, &dyn Fn(Location) -> Location),
    ) -> (A, B) {
        if !pool::is_here() {
            return (one(self), other(self));
        }
        let beside = self.beside(Batch::since(self.batch.left_out().1));
        let shared = Mutex::new(self);
        let own = || shared.lock().unwrap_or_else(PoisonError::into_inner);
        let (one, (mut other, beside)) = pool::join(
            || one(&mut own()),
            |migrated| {
                if !migrated {
                    // The first half is done: the sink is free.
                    return (other(&mut own()), None);
                }
                let mut beside = beside;
                (other(&mut beside), Some(beside))
            },
        );
        if let Some(beside) = beside {
            let absorbed = own().absorb(beside);
            moved(&mut other, &|at| absorbed.place(at));
        }
        (one, other)
    }

    fn apart<A>(
        &mut self,
        make: impl FnOnce(&mut Self) -> A,
        moved: impl FnOnce(&mut A, &dyn Fn(Location) -> Location),
    ) -> A {
        let Some(backend) = self.early.filter(|_| self.failed.is_none()) else { return make(self) };
        let batch = self.spare.take().unwrap_or_else(|| Batch::since(self.batch.left_out().1));
        let mut beside = self.beside(batch);
        let mut made = make(&mut beside);
        if beside.batch.bytes().len() < self.shared_min.saturating_mul(EARLY_BYTES) {
            let absorbed = self.absorb(beside);
            moved(&mut made, &|at| absorbed.place(at));
            return made;
        }
        let base = match self.append_early(backend, beside) {
            Ok(base) => base,
            Err(error) => {
                self.failed = Some(error);
                Location::NONE
            }
        };
        moved(&mut made, &|at| at.resolve(base));
        made
    }

    fn shared_min(&self) -> usize {
        self.shared_min
    }
}
