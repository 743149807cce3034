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
    pipeline::contract::There,
    presence::Present,
    table::Table,
};

/// What a store of the format `git` has.
pub(crate) struct ThereGit {
    repo: Repo<Git>,
    // `None` if nothing is there, so that nobody need ask.
    present: Option<Present>,
    closed: bool,
    // Commits that refs lead to.
    reachable: OnceLock<HashSet<Oid>>,
}

impl ThereGit {
    pub(crate) fn new(git: Git, backend: Arc<dyn Backend>, present: Option<Present>) -> Self {
        let closed = backend.capabilities().atomic_commits;
        Self { repo: Repo::with_backend(git, backend), present, closed, reachable: OnceLock::new() }
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

impl There for ThereGit {
    fn find(&self, kind: Kind, oid: &Oid) -> Result<Option<Location>, TransferError> {
        match &self.present {
            None => Ok(None),
            Some(present) => Ok(present.find(Some(kind), oid)?),
        }
    }

    fn commit(&self, _: u32, oid: &Oid) -> Result<bool, TransferError> {
        if self.find(Kind::Commit, oid)?.is_none() {
            return Ok(false);
        }
        // Where a crash can lose some of what was written and keep the rest, only refs tell what is whole.
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
pub(crate) struct ThereNative {
    snapshot: Arc<dyn Snapshot>,
    known: Arc<KnownBounds>,
    width: usize,
    stale: AtomicBool,
}

impl ThereNative {
    pub(crate) fn new(native: &Native, backend: &dyn Backend, known: Arc<KnownBounds>) -> Self {
        Self { snapshot: backend.snapshot(&[]), known, width: Bound::width(native), stale: AtomicBool::new(false) }
    }

    /// Whether the derived files told of something that is not there.
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

impl There for ThereNative {
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
