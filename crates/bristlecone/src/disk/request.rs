//! What appends ask for, alone and in the queue of a group.

use bristlecone_core::Location;

use super::{
    append::payload_bytes,
    frame::{self, PAYLOAD_BYTES_MAX},
};
use crate::{
    Error,
    backend::{Batch, Durability, RefMove, RefTarget},
    engine,
};

/// What one append asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct AppendRequest<'a> {
    pub(super) records: &'a [u8],
    pub(super) check: u64,
    pub(super) moves: &'a [RefMove],
    /// Where the records are from.
    pub(super) batch: &'a Batch,
}

/// Where an append put its frame: its first byte, and the location behind its frame.
pub(super) type Appended = Result<(Location, u64), Error>;

impl<'a> AppendRequest<'a> {
    /// Returns a request, its records checksummed.
    pub(super) fn new(batch: &'a Batch, moves: &'a [RefMove]) -> Result<Self, Error> {
        let records = batch.bytes();
        batch.check_size()?;
        for wanted in moves {
            if let Some(RefTarget::Symbolic(name)) = &wanted.to
                && name.len() > RefMove::NAME_BYTES_MAX
            {
                return Err(Error::RefName { name: name.clone() });
            }
        }
        let (bytes, bytes_max) = (payload_bytes(moves) as u64, u64::from(PAYLOAD_BYTES_MAX));
        if bytes > bytes_max {
            return Err(Error::TooLarge { what: "a list of moved refs", bytes, bytes_max });
        }
        Ok(Self { records, check: frame::records_check(records), moves, batch })
    }
}

/// What one append leaves in the queue.
#[derive(Debug)]
pub(super) struct QueuedAppend {
    pub(super) batch: Batch,
    pub(super) check: u64,
    pub(super) moves: Vec<RefMove>,
    pub(super) durability: Durability,
}

impl QueuedAppend {
    pub(super) fn request(&self) -> AppendRequest<'_> {
        AppendRequest { records: self.batch.bytes(), check: self.check, moves: &self.moves, batch: &self.batch }
    }
}

pub(super) type AppendGroup = engine::Group<QueuedAppend, Result<Location, Error>>;
/// The appends that wait for a leader.
pub(super) type DiskAppendQueue = engine::Queue<QueuedAppend, Result<Location, Error>>;
