//! What a group of appends brings, and what came of each.

use bristlecone::{Batch, Durability, Location, ObjRef, Oid, RefMove, RefTarget, Result, engine::Queue};

/// One append: its objects and the move of its ref.
pub(super) type Append = (Batch, Vec<RefMove>);

/// What one caller brought: appends that are acknowledged together.
#[derive(Debug)]
pub(super) struct CallerAppends {
    pub(super) appends: Vec<Append>,
    pub(super) durability: Durability,
}

/// The appends that wait for a leader.
pub(super) type AppendQueue = Queue<CallerAppends, Vec<Result<()>>>;

/// One append of a group, and what came of it.
pub(super) struct Request<'a> {
    pub(super) batch: &'a Batch,
    pub(super) wanted: Option<&'a RefMove>,
    pub(super) outcome: Option<Result<()>>,
}

impl Request<'_> {
    pub(super) fn is_open(&self) -> bool {
        self.outcome.is_none()
    }

    /// Returns what the ref holds after the move.
    pub(super) fn target(&self) -> Option<RefTarget> {
        self.wanted.and_then(|wanted| wanted.to.clone()).map(|to| match to {
            RefTarget::Object(at) => RefTarget::Object(placeless(at.oid)),
            symbolic @ RefTarget::Symbolic(_) => symbolic,
        })
    }
}

/// The moves of one ref in a group, in order.
#[derive(Default)]
pub(super) struct Moves {
    pub(super) requests: Vec<usize>,
    /// What the ref held when it was looked at.
    pub(super) before: Option<RefTarget>,
    /// What it would hold now.
    pub(super) now: Option<RefTarget>,
}

/// Returns a reference without a place.
fn placeless(oid: Oid) -> ObjRef {
    ObjRef::new(oid, Location::NONE)
}
