//! Into a store of the format `git`: bytes as they are.

use std::sync::Arc;

use bristlecone::{
    Backend, Kind, Location, ObjRef, Oid, Repo, Sink,
    core::{
        FormatError,
        git::{self, Git},
    },
};

use crate::history::{
    error::TransferError,
    pipeline::{
        channel::Named,
        contract::{HistoryWriter, IncomingCommit, IncomingTree, Validity},
    },
    staging::{StagedLocation, StagedLocations, Staging, child_ids},
};

/// The longest value of a store.
const VALUE_BYTES_MAX: usize = u32::MAX as usize / 2;

/// A store of the format `git` that takes objects.
pub(crate) struct IntoGit {
    git: Git,
    repo: Repo<Git>,
    staging: Staging,
    // By number.
    objects: StagedLocations,
    commits: StagedLocations,
    generations: Vec<u32>,
}

impl IntoGit {
    /// `sweeps`: how many had begun before anything was looked up in the store.
    pub(crate) fn new(git: Git, backend: Arc<dyn Backend>, sweeps: u64) -> Self {
        let repo = Repo::with_backend(git, backend.clone());
        Self {
            git,
            repo,
            staging: Staging::new(backend, None, sweeps, child_ids(git)),
            objects: StagedLocations::default(),
            commits: StagedLocations::default(),
            generations: Vec::new(),
        }
    }

    fn set_commit(&mut self, number: u32, place: StagedLocation, generation: u64) {
        self.commits.set(number, place);
        let number = number as usize;
        if self.generations.len() <= number {
            self.generations.resize(number + 1, 0);
        }
        self.generations[number] = u32::try_from(generation).unwrap_or(u32::MAX);
    }

    fn at(&self, number: u32) -> Location {
        self.staging.location(self.objects.get(number))
    }

    fn commit_at(&self, number: u32) -> (Location, u32) {
        let generation = self.generations.get(number as usize).copied().unwrap_or(0);
        (self.staging.location(self.commits.get(number)), generation)
    }
}

impl HistoryWriter for IntoGit {
    fn blob(&mut self, number: u32, oid: &Oid, raw: Vec<u8>, _: u32, _: bool) -> Result<(), TransferError> {
        if raw.len() > VALUE_BYTES_MAX {
            return Err(TransferError::refused(format!("the blob {oid}"), "it has more than 2 GiB"));
        }
        self.staging.append_if_full(raw.len())?;
        let at = self.staging.sink().put(Kind::Contents, *oid, &raw, &[], &[]);
        self.objects.set(number, self.staging.staged(at));
        Ok(())
    }

    fn tree(&mut self, tree: IncomingTree<'_>) -> Result<Validity, TransferError> {
        self.staging.append_if_full(tree.raw.len())?;
        let entries = git::raw_entries(self.git.algorithm(), tree.raw).map_while(Result::ok);
        let kept = entries.zip(tree.children).filter(|(entry, _)| entry.kind() != bristlecone::EntryKind::Foreign);
        let mut places = kept.map(|(_, &number)| self.at(number));
        let mut place = |_: &Oid| places.next().unwrap_or(Location::NONE);
        let mut sink = self.staging.sink();
        let at = match self.git.put_raw_as(&mut sink, Kind::Node, *tree.oid, tree.raw, &mut place) {
            Ok(at) => at.at,
            Err(FormatError::Decode { source, .. }) => return Ok(Err(source.to_string())),
            Err(error) => return Err(TransferError::refused(format!("the tree {}", tree.oid), error)),
        };
        self.objects.set(tree.number, self.staging.staged(at));
        Ok(Ok(()))
    }

    fn existing(&mut self, number: u32, at: Location) -> Result<(), TransferError> {
        self.objects.set(number, StagedLocation(at.0));
        Ok(())
    }

    fn commit(&mut self, commit: IncomingCommit<'_>) -> Result<Validity, TransferError> {
        let decoded = match git::decode_commit(self.git.algorithm(), commit.raw) {
            Ok(decoded) => decoded,
            Err(wrong) => return Ok(Err(wrong.to_string())),
        };
        self.staging.append_if_full(commit.raw.len())?;
        let mut places = Vec::with_capacity(1 + decoded.parents.len());
        places.push(self.at(commit.tree));
        let mut above = 0;
        for &parent in commit.parents {
            let (at, generation) = self.commit_at(parent);
            places.push(at);
            above = above.max(generation);
        }
        // Parents that were never fetched have no location.
        places.resize(1 + decoded.parents.len(), Location::NONE);
        let generation = u64::from(above) + 1;
        let at = self.staging.sink().put(Kind::Commit, *commit.oid, commit.raw, &places, &[generation]);
        self.set_commit(commit.number, self.staging.staged(at), generation);
        Ok(Ok(()))
    }

    fn commit_existing(&mut self, number: u32, oid: &Oid) -> Result<(), TransferError> {
        let Some(object) = self.staging.snapshot.read(&ObjRef::from(*oid))? else { return Ok(()) };
        let at = object.location();
        drop(object);
        let numbered = self.repo.is_numbered()?;
        let generation = if numbered { self.repo.generation(self.repo.commit_id(ObjRef::new(*oid, at)))? } else { 0 };
        self.set_commit(number, StagedLocation(at.0), generation);
        Ok(())
    }

    fn tag(&mut self, number: u32, oid: &Oid, raw: &[u8], target: Named) -> Result<Validity, TransferError> {
        if let Err(wrong) = git::decode_tag(self.git.algorithm(), raw) {
            return Ok(Err(wrong.to_string()));
        }
        self.staging.append_if_full(raw.len())?;
        let place = match target {
            Named::Commit(number) => self.commit_at(number).0,
            Named::Tree(number) | Named::Blob(number) | Named::Tag(number) => self.at(number),
        };
        let at = self.staging.sink().put(Kind::Tag, *oid, raw, &[place], &[]);
        self.objects.set(number, self.staging.staged(at));
        Ok(Ok(()))
    }

    fn whole(&mut self, _: u32) -> Result<(), TransferError> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), TransferError> {
        Ok(self.staging.flush()?)
    }

    fn named(&mut self, named: Named, oid: &Oid) -> Result<ObjRef, TransferError> {
        let at = match named {
            Named::Commit(number) => self.commit_at(number).0,
            Named::Tree(number) | Named::Blob(number) | Named::Tag(number) => self.at(number),
        };
        Ok(ObjRef::new(*oid, at))
    }
}
