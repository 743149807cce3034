//! Splitting: the history of a directory as that of a repository of its own.

use bristlecone_core::{Commit, CommitId, Format, Location, ObjRef, Oid, Sink};

use super::{
    Subtree, is_elsewhere,
    rewrite::rewritten,
    survey::{CommitOrigin, HistorySurvey, SurveyedCommit},
};
use crate::{
    Batch, Durability, Repo, Result,
    oid_map::{OidMap, OidSet},
    repo::CommitGraph,
    store::FlushSink,
};

/// Bytes of new commits that are appended together.
const BATCH_BYTES: usize = 1 << 20;

/// The history of a subtree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Its newest commit.
    pub head: CommitId,
    /// How many commits were made for it; those that were here from an earlier time are not counted.
    pub written: u64,
}

impl<F: Format> Subtree<F> {
    /// Returns the history of the subtree up to the commit `head`, as commits whose root is the subtree's directory;
    /// `None` if `head` has no such directory. Those that are not here yet are written; no ref is moved.
    ///
    /// Each commit that changed the directory is copied, with its author, committer, dates and message, and with what
    /// its parents became for parents; further headers are dropped, and text is turned to UTF-8. Odd names, dates and zones
    /// become what Git makes of them; what it fails on is copied as it is. One that has the same
    /// directory as what a parent became is that, unless it merges more. Commits of the other repository that were
    /// joined are themselves, and a squashed one is the commit that it stands for. The same history gives the same
    /// commits, and on a linear one those of `git subtree split`. As there, a commit that has no such directory any
    /// more stands for itself, with all its history, among what follows it.
    ///
    /// `onto`, of the other repository, is taken for the origin of the first commit that has the directory, where
    /// history does not tell. `from` is asked for squashed commits that are not here; they are copied.
    ///
    /// Reads every commit of the history, and the way to the directory in each. No ref leads to the new history: it is
    /// kept as what [`Repo::copy_objects`] copies.
    ///
    /// # Errors
    /// [`Missing`](crate::Error::Missing) for a squashed commit that is nowhere, and where the history is shallow;
    /// [`Absent`](crate::Error::Absent) where retention has cut it; as [`Repo::read_commit`] and [`Repo::copy_objects`].
    pub fn split(&self, head: CommitId, onto: Option<CommitId>, from: Option<&Repo<F>>) -> Result<Option<Split>> {
        let survey = HistorySurvey::new(self, head)?;
        self.split_surveyed(&survey, onto, from)
    }

    /// As [`Subtree::split`], of a history that was read.
    pub(super) fn split_surveyed(
        &self,
        survey: &HistorySurvey,
        onto: Option<CommitId>,
        from: Option<&Repo<F>>,
    ) -> Result<Option<Split>> {
        if survey.nodes.last().is_none_or(|head| head.dir.is_none()) {
            return Ok(None);
        }
        let store = self.repo.now();
        let sink = store.sink();
        let numbered = self.repo.shared.backend.capabilities().metadata_words;
        let mut work = SplitWork {
            subtree: self,
            from,
            sink,
            numbered,
            graph: CommitGraph::new(store.clone()),
            made: Vec::with_capacity(survey.nodes.len()),
            known: OidMap::default(),
            written: 0,
        };
        let onto = onto.map(|at| work.other(at)).transpose()?;
        for node in &survey.nodes {
            let made = work.make(survey, node, onto.as_ref())?;
            work.made.push(made);
        }
        work.append()?;
        let Some(head) = work.made.pop().flatten() else { return Ok(None) };
        Ok(Some(Split { head: self.repo.peel(head.at)?, written: work.written }))
    }
}

/// A commit of the subtree's history.
#[derive(Clone, Debug)]
struct SplitCommit {
    at: CommitId,
    /// Its root.
    root: Oid,
}

/// What ancestry needs to know of one.
#[derive(Clone, Debug)]
struct AncestryLine {
    generation: u64,
    parents: Vec<Oid>,
}

struct SplitWork<'w, F: Format> {
    subtree: &'w Subtree<F>,
    from: Option<&'w Repo<F>>,
    sink: FlushSink<'w>,
    numbered: bool,
    graph: CommitGraph<F>,
    // What each commit of the survey became; `None` if it has nothing to do with the subtree.
    made: Vec<Option<SplitCommit>>,
    // Every commit of the new history that was met so far.
    known: OidMap<AncestryLine>,
    written: u64,
}

impl<F: Format> SplitWork<'_, F> {
    /// Returns what a commit becomes; its parents became theirs before.
    fn make(
        &mut self,
        survey: &HistorySurvey,
        node: &SurveyedCommit,
        onto: Option<&SplitCommit>,
    ) -> Result<Option<SplitCommit>> {
        match node.origin {
            CommitOrigin::Theirs => return Ok(Some(self.itself(survey, node))),
            CommitOrigin::Squashed(theirs) => return self.other(theirs.into()).map(Some),
            CommitOrigin::Ours => {}
        }
        if let Some(became) = node.became {
            return Ok(Some(self.itself(survey, &survey.nodes[became])));
        }
        let mut parents: Vec<SplitCommit> = Vec::with_capacity(node.parents.len());
        for parent in node.parents.iter().filter_map(|&parent| self.made[parent].as_ref()) {
            if !parents.iter().any(|other| other.at == parent.at) {
                parents.push(parent.clone());
            }
        }
        let Some(dir) = node.dir else {
            return Ok(if parents.is_empty() { None } else { Some(self.itself(survey, node)) });
        };
        if parents.is_empty() {
            parents.extend(onto.cloned());
        }
        match self.stands_for(&parents, &dir)? {
            Some(same) => Ok(Some(same)),
            None => self.copy(node, dir, &parents).map(Some),
        }
    }

    /// The commit itself, as part of the new history.
    fn itself(&mut self, survey: &HistorySurvey, node: &SurveyedCommit) -> SplitCommit {
        let parents = node.parents.iter().map(|&parent| survey.nodes[parent].at.oid()).collect();
        self.known.insert(node.at.oid(), AncestryLine { generation: node.generation, parents });
        SplitCommit { at: node.at, root: node.root.oid }
    }

    /// A commit of the other repository that our history does not lead to.
    fn other(&mut self, theirs: CommitId) -> Result<SplitCommit> {
        let repo = &self.subtree.repo;
        let at = match (repo.peel(theirs), self.from) {
            (Err(error), Some(from)) if is_elsewhere(&error) => {
                repo.copy_objects(from, &[theirs.oid()])?;
                repo.peel(theirs.oid())?
            }
            (found, _) => found?,
        };
        Ok(SplitCommit { at, root: repo.read_commit(at)?.tree.oid() })
    }

    /// Returns the parent that a commit with this directory is the same as: all others must lead to it.
    fn stands_for(&mut self, parents: &[SplitCommit], dir: &ObjRef) -> Result<Option<SplitCommit>> {
        for same in parents.iter().filter(|parent| parent.root == dir.oid) {
            let mut all = true;
            for other in parents.iter().filter(|other| other.at != same.at) {
                all = all && self.is_ancestor(&other.at, &same.at)?;
            }
            if all {
                return Ok(Some(same.clone()));
            }
        }
        Ok(None)
    }

    fn copy(&mut self, node: &SurveyedCommit, dir: ObjRef, parents: &[SplitCommit]) -> Result<SplitCommit> {
        let repo = &self.subtree.repo;
        let mut generation = 1;
        for parent in parents {
            generation = generation.max(self.line(&parent.at.oid())?.generation + 1);
        }
        let places = parents.iter().map(|parent| match self.sink.known(&parent.at.oid()) {
            Some(place) => ObjRef::new(parent.at.oid(), place).into(),
            None => {
                self.sink.builds_on(&parent.at.oid());
                parent.at
            }
        });
        let commit = rewritten(&repo.read_commit(node.at)?, dir.into(), places.collect());
        if let Some(dir) = repo.shared.unless_empty(dir) {
            self.sink.builds_on(&dir.oid);
        }
        let number = if self.numbered { generation } else { 0 };
        let oid = repo.shared.format.put_copied_commit(&mut Batch::new(), &without_places(&commit), number)?.oid;
        let parents = commit.parents.iter().map(|parent| parent.oid()).collect();
        self.known.insert(oid, AncestryLine { generation, parents });
        let place = match self.kept(&oid)? {
            Some(place) => place,
            None => {
                repo.shared.format.put_copied_commit(&mut self.sink, &commit, number)?;
                self.written += 1;
                if self.sink.batch.bytes().len() >= BATCH_BYTES {
                    self.append()?;
                }
                // While the object is pending, the sink is asked for it.
                Location::NONE
            }
        };
        Ok(SplitCommit { at: repo.shared.commit_id(ObjRef::new(oid, place)), root: dir.oid })
    }

    /// Returns where a commit is that is there already, which stays.
    fn kept(&self, oid: &Oid) -> Result<Option<Location>> {
        let backend = &self.subtree.repo.shared.backend;
        if backend.read(&(*oid).into())?.is_none() {
            return Ok(None);
        }
        // Kept first and then looked up again: what is there now stays.
        self.sink.keep(oid);
        let found = backend.read(&(*oid).into())?;
        if found.is_some() {
            self.sink.builds_on(oid);
        }
        Ok(found.map(|object| object.location()))
    }

    fn append(&mut self) -> Result<()> {
        if self.sink.batch.is_empty() {
            return Ok(());
        }
        let batch = self.sink.take();
        self.subtree.repo.shared.backend.append(batch, &[], Durability::None).map(|_| ())
    }

    /// Whether `descendant` can be followed back to `ancestor` in the new history, of which part is not written yet.
    fn is_ancestor(&mut self, ancestor: &CommitId, descendant: &CommitId) -> Result<bool> {
        let floor = self.line(&ancestor.oid())?.generation;
        let mut seen = OidSet::default();
        let mut stack = vec![descendant.oid()];
        while let Some(oid) = stack.pop() {
            if oid == ancestor.oid() {
                return Ok(true);
            }
            if seen.insert(oid) && self.line(&oid)?.generation > floor {
                stack.extend(&self.line(&oid)?.parents);
            }
        }
        Ok(false)
    }

    fn line(&mut self, oid: &Oid) -> Result<AncestryLine> {
        if let Some(line) = self.known.get(oid) {
            return Ok(line.clone());
        }
        let node = self.graph.node(&ObjRef::from(*oid))?;
        let line =
            AncestryLine { generation: node.generation, parents: node.parents.iter().map(|at| at.oid).collect() };
        self.known.insert(*oid, line.clone());
        Ok(line)
    }
}

/// Returns a commit whose parents' places are left out: they are not hashed, and may be those of another batch.
fn without_places(commit: &Commit) -> Commit {
    let parents = commit.parents.iter().map(|parent| parent.oid().into()).collect();
    Commit { tree: commit.tree.oid().into(), parents, ..commit.clone() }
}
