//! What readers hold of a backend: memory that stays, and a claim on what is not to be dropped.

use std::{fmt, sync::Arc};

use bristlecone_core::{Location, ObjRef, Object, Oid};

use super::AbsentCommits;
use crate::Error;

/// A place in the total order of ref moves. Later moves have higher positions; what the numbers are is the backend's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(pub u64);

/// A store as of one moment, to be read for as long as the snapshot is held.
///
/// Objects are named by what is in them, so a snapshot shows nothing wrong however old it is. It decides two things:
///
/// - **What stays.** Everything that a ref led to at its position, that one of its roots leads to, or that was
///   appended since it was taken, whatever is swept meanwhile. It names no files: a collector may move all of it.
/// - **What may be borrowed.** Bytes that a snapshot lent are there as long as it is, and never change.
///
/// What was appended later is found through it as well.
pub trait Snapshot: Send + Sync + fmt::Debug {
    /// Reads one object, by its hint where that leads to the right id, else by its id.
    /// `Ok(None)` if there is no such object.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is damaged; [`Error::Io`].
    fn read(&self, at: &ObjRef) -> Result<Option<Object<'_>>, Error>;

    /// Returns the record of an object that is where the hint says and can be borrowed without a lock, checked;
    /// `None` in any other case. The fast way of [`Snapshot::read`], which answers for the rest.
    fn peek(&self, oid: &[u8], at: Location) -> Option<&[u8]> {
        let _ = (oid, at);
        None
    }

    /// Reads many objects; slow media overlap the waits. The answers are in the order of the questions.
    ///
    /// There may be fewer answers than questions, but not none: they end behind the object with which they hold `bytes_max`
    /// bytes or more, and before one that cannot be read. A backend where a call for many costs as much as many calls
    /// answers with the first alone, as the default does: then nothing is read that may not be wanted.
    ///
    /// # Errors
    /// As [`Snapshot::read`], for the first one.
    fn read_many(&self, at: &[ObjRef], bytes_max: usize) -> Result<Vec<Option<Object<'_>>>, Error> {
        let _ = bytes_max;
        at.iter().take(1).map(|at| self.read(at)).collect()
    }

    /// Returns where the object with this id is, if that is known without reading: it need not be complete.
    fn locate(&self, oid: &Oid) -> Option<Location>;

    /// Returns the position of the last ref move that it is known to show; `None` where moves have none.
    fn position(&self) -> Option<Position> {
        None
    }

    /// Returns how many sweeps had begun when this was taken, if it shows what was there before later ones: a batch that leaves
    /// out what is found here is made since then ([`crate::Batch::since`]). `None` where [`crate::Backend::sweeps`] tells.
    fn sweeps(&self) -> Option<u64> {
        None
    }

    /// Returns what is absent on purpose in what this shows, where a sweep may have changed that since it was taken; `None` where
    /// [`crate::Backend::absent`] tells. A snapshot that shows commits which were dropped since must know what is behind them.
    ///
    /// # Errors
    /// Those of the backend.
    fn absent(&self) -> Result<Option<Arc<AbsentCommits>>, Error> {
        Ok(None)
    }

    /// Keeps an object and all below it as long as the snapshot. One that is there after this call stays.
    fn keep(&self, root: &Oid);

    /// Moves on to now, and returns whether it did: as if another snapshot were taken with these roots, and then this one
    /// dropped, but in place. The caller is the only one that holds the snapshot.
    ///
    /// A snapshot that cannot, or need not, answers `false` and stays as it is; the caller then takes another one.
    fn refresh(&mut self, roots: &[Oid]) -> bool {
        let _ = roots;
        false
    }
}
