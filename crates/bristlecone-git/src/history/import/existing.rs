//! What the store that takes a history has of it already.

use std::{
    collections::HashSet,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use bristlecone::{
    Backend, Kind, Location, LogOptions, Native, ObjRef, Oid, RefTarget, Repo, Snapshot, core::git::Git,
};

use crate::history::{
    error::TransferError,
    known::{Bound, KnownBounds},
    pipeline::contract::Existing,
    presence::PresenceIndex,
    table::Table,
};

/// What a store of the format `git` has.
pub(crate) struct GitExisting {
    repo: Repo<Git>,
    // `None` if the store is empty, so that a search is needless.
    presence: Option<PresenceIndex>,
    closed: bool,
    // Commits that refs lead to.
    reachable: OnceLock<HashSet<Oid>>,
}

impl GitExisting {
    pub(crate) fn new(git: Git, backend: Arc<dyn Backend>, presence: Option<PresenceIndex>) -> Self {
        let closed = backend.capabilities().atomic_commits;
        Self { repo: Repo::with_backend(git, backend), presence, closed, reachable: OnceLock::new() }
    }

    /// Returns the commits that refs lead to.
    fn reachable(&self) -> Result<&HashSet<Oid>, TransferError> {
        if let Some(reachable) = self.reachable.get() {
            return Ok(reachable);
        }
        let mut tips = Vec::new();
        for target in self.repo.backend().list_refs("")?.into_values() {
            if let RefTarget::Object(at) = target
                && let Some(object) = self.repo.backend().read(&at)?
                && object.kind() == Kind::Commit
            {
                tips.push(self.repo.commit_id(at));
            }
        }
        let mut reachable = HashSet::new();
        for entry in self.repo.log(&tips, LogOptions::default()) {
            reachable.insert(entry?.id.oid());
        }
        Ok(self.reachable.get_or_init(|| reachable))
    }
}

impl Existing for GitExisting {
    fn find(&self, kind: Kind, oid: &Oid) -> Result<Option<Location>, TransferError> {
        match &self.presence {
            None => Ok(None),
            Some(presence) => Ok(presence.find(Some(kind), oid)?),
        }
    }

    fn commit(&self, _: u32, oid: &Oid) -> Result<bool, TransferError> {
        if self.find(Kind::Commit, oid)?.is_none() {
            return Ok(false);
        }
        // Where a crash can lose some of what was written and keep the rest, only refs tell what is complete.
        Ok(self.closed || self.reachable()?.contains(oid))
    }

    fn closed(&self) -> bool {
        self.closed
    }

    fn confirm(&self, _: u32) -> Result<(), TransferError> {
        Ok(())
    }
}

/// What a store of the format `native` has, as far as the derived files tell.
pub(crate) struct NativeExisting {
    snapshot: Arc<dyn Snapshot>,
    known: Arc<KnownBounds>,
    width: usize,
    stale: AtomicBool,
}

impl NativeExisting {
    pub(crate) fn new(native: &Native, backend: &dyn Backend, known: Arc<KnownBounds>) -> Self {
        Self { snapshot: backend.snapshot(&[]), known, width: Bound::width(native), stale: AtomicBool::new(false) }
    }

    /// Whether the derived files list an object that the store does not have.
    pub(crate) fn is_stale(&self) -> bool {
        self.stale.load(Relaxed)
    }

    fn confirm_in(&self, table: &Table, kind: Option<Kind>, number: u32) -> Result<(), TransferError> {
        let mut record = vec![0; self.width];
        table.read(number, &mut record)?;
        let (oid, place) = match Bound::decode(&record) {
            Bound::Inline(_) => return Ok(()),
            Bound::Object { oid, place, .. } => (oid, place),
            Bound::Nothing => (Oid::from_array([0; 32]), Location::NONE.0),
        };
        match self.snapshot.read(&ObjRef::new(oid, Location(place)))? {
            Some(object) if kind.is_none_or(|kind| kind == object.kind()) => Ok(()),
            _ => {
                self.stale.store(true, Relaxed);
                Err(bristlecone::Error::Missing { kind: kind.unwrap_or(Kind::Contents), oid }.into())
            }
        }
    }
}

impl Existing for NativeExisting {
    fn find(&self, _: Kind, _: &Oid) -> Result<Option<Location>, TransferError> {
        Ok(None)
    }

    fn commit(&self, number: u32, _: &Oid) -> Result<bool, TransferError> {
        if u64::from(number) >= self.known.commits.len() {
            return Ok(false);
        }
        self.confirm_in(&self.known.commits, Some(Kind::Commit), number)?;
        Ok(true)
    }

    fn closed(&self) -> bool {
        true
    }

    fn confirm(&self, number: u32) -> Result<(), TransferError> {
        self.confirm_in(&self.known.others, None, number)
    }
}
