//! What readers hold of a store on disk: the table that they read by, and a pin.

use std::sync::Arc;

use bristlecone_core::{Location, ObjRef, Object, Oid};

use super::{log::DiskState, table::SegmentTable, view::DiskView};
use crate::{
    Error,
    backend::{AbsentCommits, Pin, Pins, Position, Snapshot},
};

/// What can be read of a store on disk. Segments that were opened stay open as long as the store.
#[derive(Debug)]
pub(super) struct DiskSnapshot {
    table: Arc<SegmentTable>,
    pin: Pin<DiskState>,
}

impl DiskSnapshot {
    /// Returns what can be read from now on, with all below `roots`.
    pub(super) fn new(store: &Arc<DiskState>, roots: &[Oid]) -> Self {
        let end = store.published.end();
        let pin = Pin::new(store.clone(), Position(end), end, roots);
        // After the pin: what it holds is not dropped from a table that is taken later.
        Self { table: store.table(), pin }
    }

    /// Goes on to the table of now, and lets go of the one before on this thread: what was emptied may be removed once this returns.
    pub(super) fn leave_table(&mut self) {
        self.table = self.pin.store().table();
    }

    /// Ends reading, as [`DiskSnapshot::leave_table`] does.
    pub(super) fn end(mut self) {
        self.leave_table();
    }

    #[inline]
    fn view(&self) -> DiskView<'_> {
        self.pin.store().view(&self.table)
    }

    /// Goes on to the table of now, if that is another one.
    fn follow_table(&mut self) {
        let store = self.pin.store();
        if self.table.state.epoch != store.tables.epoch() {
            let left = std::mem::replace(&mut self.table, store.table());
            store.leave_table(left);
        }
    }
}

impl AsRef<Pins> for DiskState {
    #[inline]
    fn as_ref(&self) -> &Pins {
        &self.pins
    }
}

impl Drop for DiskSnapshot {
    fn drop(&mut self) {
        self.follow_table();
    }
}

impl Snapshot for DiskSnapshot {
    #[inline]
    fn peek(&self, oid: &[u8], at: Location) -> Option<&[u8]> {
        self.view().peek(oid, at)
    }

    #[inline]
    fn read(&self, at: &ObjRef) -> Result<Option<Object<'_>>, Error> {
        self.view().read(at)
    }

    fn locate(&self, oid: &Oid) -> Option<Location> {
        self.view().locate(oid)
    }

    fn sweeps(&self) -> Option<u64> {
        Some(self.table.state.epoch)
    }

    fn position(&self) -> Option<Position> {
        Some(self.pin.position())
    }

    fn absent(&self) -> Result<Option<Arc<AbsentCommits>>, Error> {
        Ok(Some(self.table.state.absent.clone()))
    }

    fn keep(&self, root: &Oid) {
        self.pin.keep(root);
    }

    fn refresh(&mut self, roots: &[Oid]) -> bool {
        let end = self.pin.store().published.end();
        self.pin.move_to(Position(end), end, roots);
        self.follow_table();
        true
    }
}
