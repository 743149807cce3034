//! What the store that takes a history has of it already.

use std::{
    collections::HashSet,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use bristlecone::{
    Backend, Kind, Location, LogOptions, Native, ObjRef, Oid, OidPrefix, RefTarget, Repo, Snapshot, core::git::Git,
};

use crate::history::{
    canonical::kind_in_git,
    error::TransferError,
    ids::Ids,
    known::{Bound, KnownBounds},
    objects::{CommitHead, Objects, StoreObjects, note_tree, tag_target},
    pipeline::contract::Existing,
    presence::PresenceIndex,
    table::{Scratch, Table},
};

/// What a store of the format `git` has.
pub(crate) struct GitExisting {
    repo: Repo<Git>,
    // `None` if the store is empty, so that a search is needless.
    presence: Option<PresenceIndex>,
    closed: bool,
    // The tree without entries, if the store is a Git repository.
    empty_tree: Option<Oid>,
    // Commits that refs lead to.
    reachable: OnceLock<HashSet<Oid>>,
    // What refs and tags name, with its directories and values; a Git may drop others.
    held: OnceLock<Ids>,
    git: Git,
    scratch: Scratch,
}

impl GitExisting {
    pub(crate) fn new(git: Git, backend: Arc<dyn Backend>, presence: Option<PresenceIndex>, scratch: &Scratch) -> Self {
        let can = backend.capabilities();
        let (closed, empty_tree) = (can.atomic_commits, can.git.map(|algorithm| algorithm.object_id(Kind::Node, b"")));
        let repo = Repo::with_backend(git, backend);
        let (reachable, held) = (OnceLock::new(), OnceLock::new());
        Self { repo, presence, closed, empty_tree, reachable, held, git, scratch: scratch.clone() }
    }

    /// Returns the objects that refs name, and those that tags among them lead to.
    fn named(&self) -> Result<Vec<(Kind, ObjRef)>, TransferError> {
        let (backend, mut named, mut met) = (self.repo.backend(), Vec::new(), HashSet::new());
        for target in backend.list_refs("")?.into_values() {
            let RefTarget::Object(mut at) = target else { continue };
            // The bytes of a tag need not be what its id says: damaged ones may name each other in a circle.
            while met.insert(at.oid)
                && let Some(object) = backend.read(&at)?
            {
                named.push((object.kind(), at));
                let below =
                    if object.kind() == Kind::Tag { tag_target(self.git.algorithm(), object.body()) } else { None };
                let Some((oid, _)) = below else { break };
                at = ObjRef::from(oid);
            }
        }
        Ok(named)
    }

    /// Returns what refs and tags name, with the directories and values of that. Others may be written a second time; in
    /// a repository they may be gone, although this process has them in memory or has a file open that was removed.
    fn held(&self) -> Result<&Ids, TransferError> {
        if let Some(held) = self.held.get() {
            return Ok(held);
        }
        let (objects, algorithm) = (StoreObjects::new(&**self.repo.backend()), self.git.algorithm());
        let (mut held, mut raw) = (Ids::new(algorithm.oid_bytes(), &self.scratch), Vec::new());
        for (kind, ObjRef { oid, .. }) in self.named()? {
            let root = match kind {
                Kind::Commit if objects.read(&oid, &mut raw)?.is_some() => {
                    CommitHead::parse(algorithm.oid_bytes(), &raw).map(|head| head.tree)
                }
                Kind::Node => Some(oid),
                _ => None,
            };
            match root {
                Some(root) => note_tree(&objects, algorithm, root, &mut held)?,
                None if held.get(&oid)?.is_none() => _ = held.insert(&oid)?,
                None => {}
            }
        }
        Ok(self.held.get_or_init(|| held))
    }

    /// Whether the repository itself has an object.
    fn is_written(&self, oid: &Oid) -> Result<bool, TransferError> {
        let (mut found, whole) = (false, OidPrefix::from(*oid));
        self.repo.backend().each_with_prefix(&whole, &mut |_, _| {
            found = true;
            Ok(())
        })?;
        Ok(found)
    }

    fn present(&self, kind: Kind, oid: &Oid) -> Result<Option<Location>, TransferError> {
        match &self.presence {
            None => Ok(None),
            Some(presence) => Ok(presence.find(Some(kind), oid)?),
        }
    }

    /// Returns the commits that refs lead to.
    fn reachable(&self) -> Result<&HashSet<Oid>, TransferError> {
        if let Some(reachable) = self.reachable.get() {
            return Ok(reachable);
        }
        let commits = self.named()?.into_iter().filter(|(kind, _)| *kind == Kind::Commit);
        let tips: Vec<_> = commits.map(|(_, at)| self.repo.commit_id(at)).collect();
        let mut reachable = HashSet::new();
        for entry in self.repo.log(&tips, LogOptions::default()) {
            reachable.insert(entry?.id.oid());
        }
        Ok(self.reachable.get_or_init(|| reachable))
    }
}

impl Existing for GitExisting {
    fn find(&self, kind: Kind, oid: &Oid) -> Result<Option<Location>, TransferError> {
        // The tree without entries is read also where refs lead to it and nobody wrote it, and `git fsck` asks for it.
        let dropped = match self.empty_tree {
            Some(empty_tree) => self.held()?.get(oid)?.is_none() || *oid == empty_tree && !self.is_written(oid)?,
            None => false,
        };
        if dropped { Ok(None) } else { self.present(kind, oid) }
    }

    fn commit(&self, _: u32, oid: &Oid) -> Result<bool, TransferError> {
        if self.present(Kind::Commit, oid)?.is_none() {
            return Ok(false);
        }
        // Where a crash can lose some of what was written and keep the rest, only refs tell what is complete.
        Ok(self.closed || self.reachable()?.contains(oid))
    }

    fn closed(&self) -> bool {
        self.closed
    }

    fn confirm(&self, _: u32, _: Kind) -> Result<(), TransferError> {
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

    /// Whether the derived files list an object that the store does not have, or the history names one as what it is not: who
    /// begins without them is told which.
    pub(crate) fn is_stale(&self) -> bool {
        self.stale.load(Relaxed)
    }

    fn confirm_in(&self, table: &Table, kind: Kind, number: u32) -> Result<(), TransferError> {
        let mut record = vec![0; self.width];
        table.read(number, &mut record)?;
        let (oid, place) = match Bound::decode(&record) {
            Bound::Inline(_) if kind == Kind::Contents => return Ok(()),
            Bound::Object { oid, place, .. } => (oid, place),
            Bound::Inline(_) | Bound::Nothing => (Oid::from_array([0; 32]), Location::NONE.0),
        };
        match self.snapshot.read(&ObjRef::new(oid, Location(place)))? {
            Some(object) if kind_in_git(object.kind()) == kind => Ok(()),
            _ => {
                self.stale.store(true, Relaxed);
                Err(bristlecone::Error::Missing { kind, oid }.into())
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
        self.confirm_in(&self.known.commits, Kind::Commit, number)?;
        Ok(true)
    }

    fn closed(&self) -> bool {
        true
    }

    fn confirm(&self, number: u32, kind: Kind) -> Result<(), TransferError> {
        self.confirm_in(&self.known.others, kind, number)
    }
}
