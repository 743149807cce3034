//! What a history holds of a subtree: which of its commits are of the other repository, and where they were joined.
//!
//! A history with a subtree has two kinds of commits: our own, which may have the directory, and those of the other
//! repository, whose root is the directory. The messages of joins, and descent, tell which is which: what
//! follows commits of the other repository alone is one of them.

use bristlecone_core::{Commit, CommitId, Format, Kind, ObjRef, Oid, Source};

use super::{Joint, Subtree, is_elsewhere, message::Trailers};
use crate::{
    Error, Result,
    oid_map::{OidMap, OidSet},
};

/// A history, parents first.
pub(super) struct HistorySurvey {
    /// The commits; each comes behind its parents.
    pub(super) nodes: Vec<SurveyedCommit>,
    /// Where each is in the list.
    pub(super) index: OidMap<usize>,
}

/// A commit of a history.
pub(super) struct SurveyedCommit {
    pub(super) at: CommitId,
    pub(super) root: ObjRef,
    /// Places of the parents in the list.
    pub(super) parents: Vec<usize>,
    /// One more than the largest of the parents'.
    pub(super) generation: u64,
    /// The subtree's directory.
    pub(super) dir: Option<ObjRef>,
    pub(super) origin: CommitOrigin,
    /// The place of the commit that an earlier split made of it and that was joined.
    pub(super) became: Option<usize>,
    seconds: i64,
    trailers: Option<Trailers>,
}

/// Where a commit is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommitOrigin {
    /// It is ours.
    Ours,
    /// It is of the other repository.
    Theirs,
    /// It stands for this one of the other repository and all before it.
    Squashed(Oid),
}

impl SurveyedCommit {
    /// Returns the commit of the other repository that it is or stands for.
    const fn theirs(&self) -> Option<Oid> {
        match self.origin {
            CommitOrigin::Ours => None,
            CommitOrigin::Theirs => Some(self.at.oid()),
            CommitOrigin::Squashed(theirs) => Some(theirs),
        }
    }
}

/// A commit that will enter the list after its parents.
struct OpenSurvey {
    at: CommitId,
    commit: Commit,
    // Parents that were looked at.
    parents: usize,
}

impl HistorySurvey {
    /// Reads the history of `head`.
    pub(super) fn new<F: Format>(subtree: &Subtree<F>, head: CommitId) -> Result<Self> {
        let mut survey = Self { nodes: Vec::new(), index: OidMap::default() };
        let mut entered = OidSet::default();
        let mut stack = Vec::new();
        entered.insert(head.oid());
        stack.push(open(subtree, head)?);
        // Without recursion: histories are deep.
        while let Some(top) = stack.last_mut() {
            match top.commit.parents.get(top.parents) {
                Some(&parent) => {
                    top.parents += 1;
                    if entered.insert(parent.oid()) {
                        stack.push(open(subtree, parent)?);
                    }
                }
                None => {
                    let Some(done) = stack.pop() else { break };
                    survey.add(subtree, done)?;
                }
            }
        }
        survey.tell_apart(subtree)?;
        Ok(survey)
    }

    fn add<F: Format>(&mut self, subtree: &Subtree<F>, done: OpenSurvey) -> Result<()> {
        let OpenSurvey { at, commit, .. } = done;
        let mut parents = Vec::with_capacity(commit.parents.len());
        for parent in &commit.parents {
            let at = self.index.get(&parent.oid()).copied();
            parents.push(at.ok_or(Error::Usage { reason: "a commit descends from itself" })?);
        }
        let first = parents.first().map(|&parent| &self.nodes[parent]);
        let dir = match first.filter(|first| first.root == commit.tree.into()) {
            Some(first) => first.dir,
            None => subtree.dir(&commit.tree.into())?,
        };
        let above = parents.iter().map(|&parent| self.nodes[parent].generation).max().unwrap_or(0);
        self.index.insert(at.oid(), self.nodes.len());
        self.nodes.push(SurveyedCommit {
            at,
            root: commit.tree.into(),
            parents,
            generation: above.saturating_add(1),
            dir,
            origin: CommitOrigin::Ours,
            became: None,
            seconds: commit.committer.seconds,
            trailers: Trailers::read(&commit.message, &subtree.prefix),
        });
        Ok(())
    }

    /// Finds out which commits are of the other repository.
    fn tell_apart<F: Format>(&mut self, subtree: &Subtree<F>) -> Result<()> {
        for at in 0..self.nodes.len() {
            let node = &self.nodes[at];
            let Some(Trailers { mainline, split: Some(split), .. }) = &node.trailers else { continue };
            let joined = node.parents.iter().copied().find(|&parent| self.nodes[parent].at.oid() == *split);
            match (mainline, joined) {
                (Some(mainline), Some(joined)) => {
                    let before = node.parents.iter().copied().find(|&parent| self.nodes[parent].at.oid() == *mainline);
                    self.nodes[joined].origin = CommitOrigin::Theirs;
                    if let Some(before) =
                        before.filter(|&before| self.nodes[before].dir == Some(self.nodes[joined].root))
                    {
                        self.nodes[before].became = Some(joined);
                    }
                }
                // A message may have been copied: the root must be that of the commit that it stands for.
                (None, _) if node.parents.len() < 2 && stands_for(subtree, node, *split)? => {
                    self.nodes[at].origin = CommitOrigin::Squashed(*split);
                }
                _ => {}
            }
        }
        for at in 0..self.nodes.len() {
            let node = &self.nodes[at];
            if node.origin != CommitOrigin::Ours || node.parents.is_empty() {
                continue;
            }
            let mut theirs = node.parents.iter().map(|&parent| self.nodes[parent].origin != CommitOrigin::Ours);
            // What they merged with something else has no such directory as a rule.
            let all = if node.dir.is_some() { theirs.all(|theirs| theirs) } else { theirs.any(|theirs| theirs) };
            if all {
                self.nodes[at].origin = CommitOrigin::Theirs;
            }
        }
        Ok(())
    }

    /// Returns the commit that was joined last.
    pub(super) fn last_joint(&self) -> Option<Joint> {
        let mut last: Option<(u64, i64, Joint)> = None;
        for by in self.nodes.iter().filter(|node| node.origin == CommitOrigin::Ours && node.parents.len() > 1) {
            for &parent in &by.parents {
                let here = &self.nodes[parent];
                let Some(theirs) = here.theirs() else { continue };
                let place = (by.generation, by.seconds);
                // The later of two that one commit joined.
                if last.as_ref().is_none_or(|last| place >= (last.0, last.1)) {
                    last = Some((place.0, place.1, Joint { theirs, here: here.at, by: by.at }));
                }
            }
        }
        last.map(|(_, _, joint)| joint)
    }
}

fn open<F: Format>(subtree: &Subtree<F>, id: CommitId) -> Result<OpenSurvey> {
    let store = subtree.repo.now();
    let at = store.commit_ref(id);
    let object = store.read(Kind::Commit, &at)?;
    let place = if object.location().is_some() { object.location() } else { at.at };
    let commit = store.decode_commit(&object, at.oid)?;
    Ok(OpenSurvey { at: store.commit_id(ObjRef::new(at.oid, place)), commit, parents: 0 })
}

/// Whether a commit stands for this one of the other repository, as far as can be told here: it has the same root.
fn stands_for<F: Format>(subtree: &Subtree<F>, node: &SurveyedCommit, theirs: Oid) -> Result<bool> {
    match subtree.repo.peel(theirs) {
        Ok(at) => Ok(subtree.repo.read_commit(at)?.tree == node.root.oid.into()),
        // One of our own, whose message quotes that of another, has the directory.
        Err(error) if is_elsewhere(&error) => Ok(node.dir.is_none()),
        Err(Error::WrongKind { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
