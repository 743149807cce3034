//! The parts of a transfer: what walks trees, what writes, what knows the objects that exist already, and how a thread
//! stops.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bristlecone::{Kind, Location, ObjRef, Oid};

use super::channel::{Closed, Named, Sender, TreeBase};
use crate::history::{
    error::{Origin, TransferError},
    report::Status,
};

/// How deep directories may be nested.
pub(crate) const DEPTH_MAX: usize = 2048;
/// Bytes of trees that are kept to compare others with.
pub(crate) const KEPT_TREES_BYTES_MAX: usize = 32 << 20;

/// Reads directories and values and sends them as Git has them.
pub(crate) trait Walker {
    /// Returns the queue to the writing thread.
    fn sender(&mut self) -> &mut Sender;

    /// Walks the tree of a commit and returns its number.
    fn commit_tree(&mut self, commit: &Oid, tree: &Oid) -> Result<u32, Stopped>;

    /// Walks a tree that a tag or ref names.
    fn lone_tree(&mut self, oid: &Oid) -> Result<u32, Stopped>;

    /// Reads a value that a tag or ref names.
    fn lone_blob(&mut self, oid: &Oid) -> Result<u32, Stopped>;

    /// Returns the number of an object that was met before; for the kind `None` only of one that is missing.
    ///
    /// # Errors
    /// One that was met as an object of another kind.
    fn known(&self, oid: &Oid, kind: Option<Kind>) -> Result<Option<u32>, Stopped>;

    /// Gives a missing object a number.
    fn missing(&mut self, kind: Kind, oid: &Oid, damage: Option<String>, from: Origin) -> Result<u32, Stopped>;

    /// Sends a commit that the destination has.
    fn commit_existing(&mut self, number: u32, oid: &Oid) -> Result<(), Stopped>;

    /// Sends a commit.
    fn commit(&mut self, commit: OutgoingCommit) -> Result<(), Stopped>;

    /// Sends a tag, and returns its number.
    fn tag(&mut self, oid: &Oid, raw: Vec<u8>, target: Named) -> Result<u32, Stopped>;

    /// Returns Git's id of what was sent, whose id here is `oid`.
    fn git_oid(&self, named: Named, oid: &Oid) -> Result<Oid, Stopped>;
}

/// A commit to be sent. `parents` are numbers of commits.
pub(crate) struct OutgoingCommit {
    pub(crate) number: u32,
    pub(crate) oid: Oid,
    pub(crate) raw: Vec<u8>,
    pub(crate) tree: u32,
    pub(crate) parents: Vec<u32>,
    pub(crate) shallow: bool,
}

/// What the destination has already.
pub(crate) trait Existing: Sync {
    /// Returns where an object is; `None` if the destination does not have it.
    fn find(&self, kind: Kind, oid: &Oid) -> Result<Option<Location>, TransferError>;

    /// Whether the destination has a commit, with all that it leads to; `number` is the one that it has.
    fn commit(&self, number: u32, oid: &Oid) -> Result<bool, TransferError>;

    /// Whether a destination that has an object has all that it leads to.
    fn closed(&self) -> bool;

    /// Called for an object that had a number from the beginning, before that is used for one of this kind.
    fn confirm(&self, number: u32, kind: Kind) -> Result<(), TransferError>;
}

/// Writes objects to the destination. Children come before parents, each object once, with the numbers of
/// [`Message`](super::channel::Message).
pub(crate) trait HistoryWriter: Send {
    /// Writes a value. `base`: what the same path holds in a newer commit; `whole`: it must be an object by itself.
    fn blob(&mut self, number: u32, oid: &Oid, raw: Vec<u8>, base: u32, whole: bool) -> Result<(), TransferError>;
    /// Writes a tree, unless it is invalid.
    fn tree(&mut self, tree: IncomingTree<'_>) -> Result<Validity, TransferError>;
    /// Notes where the destination has an object.
    fn existing(&mut self, number: u32, at: Location) -> Result<(), TransferError>;
    /// Writes a commit, unless it is invalid.
    fn commit(&mut self, commit: IncomingCommit<'_>) -> Result<Validity, TransferError>;
    /// Notes a commit that the destination has.
    fn commit_existing(&mut self, number: u32, oid: &Oid) -> Result<(), TransferError>;
    /// Writes a tag, unless it is invalid.
    fn tag(&mut self, number: u32, oid: &Oid, raw: &[u8], target: Named) -> Result<Validity, TransferError>;
    /// Makes an object of a value that was kept inline.
    fn whole(&mut self, number: u32) -> Result<(), TransferError>;
    /// Writes everything, durably.
    fn finish(&mut self) -> Result<(), TransferError>;
    /// Returns what stands for a commit, tree, value or tag.
    fn named(&mut self, named: Named, oid: &Oid) -> Result<ObjRef, TransferError>;
}

/// Whether an object is valid; what is wrong with it if not.
pub(crate) type Validity = Result<(), String>;

/// A tree on its way.
pub(crate) struct IncomingTree<'m> {
    pub(crate) number: u32,
    pub(crate) oid: &'m Oid,
    pub(crate) raw: &'m [u8],
    pub(crate) children: &'m [u32],
    pub(crate) base: Option<&'m TreeBase>,
    /// The commit that it was reached from.
    pub(crate) from: Option<Oid>,
}

/// A commit on its way.
pub(crate) struct IncomingCommit<'m> {
    pub(crate) number: u32,
    pub(crate) oid: &'m Oid,
    pub(crate) raw: &'m [u8],
    pub(crate) tree: u32,
    pub(crate) parents: &'m [u32],
    pub(crate) shallow: bool,
}

/// Why a thread ends early.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// The other thread has ended; it says why.
    Closed,
    Failed(TransferError),
}

impl<E: Into<TransferError>> From<E> for Stopped {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl From<Closed> for Stopped {
    fn from(_: Closed) -> Self {
        Self::Closed
    }
}

/// What was done so far, for the caller's progress.
#[derive(Debug, Default)]
pub(crate) struct Meters {
    pub(crate) commits_found: AtomicU64,
    pub(crate) commits_total: AtomicU64,
    pub(crate) commits: AtomicU64,
    pub(crate) objects: AtomicU64,
    pub(crate) bytes: AtomicU64,
}

impl Meters {
    pub(crate) fn object(&self, bytes: usize) {
        self.objects.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn status(&self) -> Status {
        Status {
            commits_found: self.commits_found.load(Relaxed),
            commits_total: self.commits_total.load(Relaxed),
            commits: self.commits.load(Relaxed),
            objects: self.objects.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
        }
    }
}
