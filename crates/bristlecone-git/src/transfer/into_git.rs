//! Into a store of the format `git`: bytes as they are.

use std::{
    collections::HashSet,
    sync::{Arc, OnceLock},
};

use bristlecone::{
    Backend, Kind, Location, LogOptions, ObjRef, Oid, RefTarget, Repo, Sink,
    core::{
        FormatError,
        git::{self, Git},
    },
};

use super::{
    channel::Named,
    error::TransferError,
    pool::{Place, Places, Pool},
    present::Present,
    pump::{CommitIn, Sound, Target, TreeIn},
    walk::There,
};

/// The longest value of a store.
const VALUE_BYTES_MAX: usize = u32::MAX as usize / 2;

/// A store of the format `git` that takes objects.
pub(super) struct IntoGit {
    git: Git,
    repo: Repo<Git>,
    pool: Pool,
    // By number.
    objects: Places,
    commits: Places,
    generations: Vec<u32>,
}

impl IntoGit {
    pub(super) fn new(git: Git, backend: Arc<dyn Backend>) -> Self {
        let repo = Repo::with_backend(git, backend.clone());
        Self {
            git,
            repo,
            pool: Pool::new(backend, None),
            objects: Places::default(),
            commits: Places::default(),
            generations: Vec::new(),
        }
    }

    fn set_commit(&mut self, number: u32, place: Place, generation: u64) {
        self.commits.set(number, place);
        let number = number as usize;
        if self.generations.len() <= number {
            self.generations.resize(number + 1, 0);
        }
        self.generations[number] = u32::try_from(generation).unwrap_or(u32::MAX);
    }

    fn at(&self, number: u32) -> Location {
        self.pool.location(self.objects.get(number))
    }

    fn commit_at(&self, number: u32) -> (Location, u32) {
        let generation = self.generations.get(number as usize).copied().unwrap_or(0);
        (self.pool.location(self.commits.get(number)), generation)
    }
}

impl Target for IntoGit {
    fn blob(&mut self, number: u32, oid: &Oid, raw: Vec<u8>, _: u32, _: bool) -> Result<(), TransferError> {
        if raw.len() > VALUE_BYTES_MAX {
            return Err(TransferError::refused(format!("the blob {oid}"), "it has more than 2 GiB"));
        }
        self.pool.tend(raw.len())?;
        let at = self.pool.sink().put(Kind::Contents, *oid, &raw, &[], &[]);
        self.objects.set(number, self.pool.place(at));
        Ok(())
    }

    fn tree(&mut self, tree: TreeIn<'_>) -> Result<Sound, TransferError> {
        self.pool.tend(tree.raw.len())?;
        let entries = git::raw_entries(self.git.algorithm(), tree.raw).map_while(Result::ok);
        let kept = entries.zip(tree.children).filter(|(entry, _)| entry.kind() != bristlecone::EntryKind::Foreign);
        let mut places = kept.map(|(_, &number)| self.at(number));
        let mut place = |_: &Oid| places.next().unwrap_or(Location::NONE);
        let mut sink = self.pool.sink();
        let at = match self.git.put_raw_as(&mut sink, Kind::Node, *tree.oid, tree.raw, &mut place) {
            Ok(at) => at.at,
            Err(FormatError::Decode { source, .. }) => return Ok(Err(source.to_string())),
            Err(error) => return Err(TransferError::refused(format!("the tree {}", tree.oid), error)),
        };
        self.objects.set(tree.number, self.pool.place(at));
        Ok(Ok(()))
    }

    fn there(&mut self, number: u32, at: Location) -> Result<(), TransferError> {
        self.objects.set(number, Place(at.0));
        Ok(())
    }

    fn commit(&mut self, commit: CommitIn<'_>) -> Result<Sound, TransferError> {
        let decoded = match git::decode_commit(self.git.algorithm(), commit.raw) {
            Ok(decoded) => decoded,
            Err(wrong) => return Ok(Err(wrong.to_string())),
        };
        self.pool.tend(commit.raw.len())?;
        let mut places = Vec::with_capacity(1 + decoded.parents.len());
        places.push(self.at(commit.tree));
        let mut above = 0;
        for &parent in commit.parents {
            let (at, generation) = self.commit_at(parent);
            places.push(at);
            above = above.max(generation);
        }
        // Parents that were never fetched have no place.
        places.resize(1 + decoded.parents.len(), Location::NONE);
        let generation = u64::from(above) + 1;
        let at = self.pool.sink().put(Kind::Commit, *commit.oid, commit.raw, &places, &[generation]);
        self.set_commit(commit.number, self.pool.place(at), generation);
        Ok(Ok(()))
    }

    fn commit_there(&mut self, number: u32, oid: &Oid) -> Result<(), TransferError> {
        let Some(object) = self.pool.snapshot.read(&ObjRef::from(*oid))? else { return Ok(()) };
        let at = object.location();
        drop(object);
        let words = self.pool.backend.capabilities().metadata_words;
        let generation = if words { self.repo.generation(self.repo.commit_id(ObjRef::new(*oid, at)))? } else { 0 };
        self.set_commit(number, Place(at.0), generation);
        Ok(())
    }

    fn tag(&mut self, number: u32, oid: &Oid, raw: &[u8], target: Named) -> Result<Sound, TransferError> {
        if let Err(wrong) = git::decode_tag(self.git.algorithm(), raw) {
            return Ok(Err(wrong.to_string()));
        }
        self.pool.tend(raw.len())?;
        let place = match target {
            Named::Commit(number) => self.commit_at(number).0,
            Named::Tree(number) | Named::Blob(number) | Named::Tag(number) => self.at(number),
        };
        let at = self.pool.sink().put(Kind::Tag, *oid, raw, &[place], &[]);
        self.objects.set(number, self.pool.place(at));
        Ok(Ok(()))
    }

    fn whole(&mut self, _: u32) -> Result<(), TransferError> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), TransferError> {
        Ok(self.pool.flush()?)
    }

    fn named(&mut self, named: Named, oid: &Oid) -> Result<ObjRef, TransferError> {
        let at = match named {
            Named::Commit(number) => self.commit_at(number).0,
            Named::Tree(number) | Named::Blob(number) | Named::Tag(number) => self.at(number),
        };
        Ok(ObjRef::new(*oid, at))
    }
}

/// What a store of the format `git` has.
pub(super) struct ThereGit {
    repo: Repo<Git>,
    // `None` if nothing is there, so that nobody need ask.
    present: Option<Present>,
    closed: bool,
    // Commits that refs lead to.
    reachable: OnceLock<HashSet<Oid>>,
}

impl ThereGit {
    pub(super) fn new(git: Git, backend: Arc<dyn Backend>, present: Option<Present>) -> Self {
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
