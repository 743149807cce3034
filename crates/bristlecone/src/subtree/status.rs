//! How a subtree stands.

use std::sync::Arc;

use bristlecone_core::{CommitId, Format};

use super::{Joint, Subtree, survey::HistorySurvey};
use crate::{LogOptions, Repo, Result, backend::Layered};

/// How a subtree stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// What was joined last; `None` if nothing was.
    pub joint: Option<Joint>,
    /// The newest commit of the subtree's history.
    pub split: CommitId,
    /// Commits of that history that what was joined last does not lead to; all of them if nothing was joined.
    pub since: u64,
    /// How it stands to the other repository, where one was given.
    pub compared: Option<Compared>,
}

/// How a subtree stands to a commit of another repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compared {
    /// Whether directory and root hold the same.
    pub same: bool,
    /// Commits of the subtree that the other lacks.
    pub ahead: u64,
    /// Commits of the other that the subtree lacks.
    pub behind: u64,
}

impl<F: Format> Subtree<F> {
    /// Returns how the subtree of `head` stands, and how to a commit of another repository, which is read where it is;
    /// `None` if `head` has no such directory. Nothing is written.
    ///
    /// # Errors
    /// As [`Subtree::split`].
    pub fn status(&self, head: CommitId, other: Option<(&Repo<F>, CommitId)>) -> Result<Option<Status>> {
        let others = other.iter().map(|(repo, _)| repo.backend().clone());
        let both = Layered::new(self.repo.backend().clone(), others);
        let repo = Repo::with_backend(self.repo.format().clone(), Arc::new(both));
        let subtree = Self { repo, prefix: self.prefix.clone() };
        subtree.status_here(head, other.map(|(_, theirs)| theirs.oid().into()))
    }

    fn status_here(&self, head: CommitId, theirs: Option<CommitId>) -> Result<Option<Status>> {
        let repo = &self.repo;
        let survey = HistorySurvey::new(self, head)?;
        let Some(split) = self.split_surveyed(&survey, None, None)? else { return Ok(None) };
        let joint = survey.last_joint();
        let since = match joint {
            None => {
                let mut log = repo.log(&[split.head], LogOptions::default());
                log.try_fold(0, |count, entry| entry.map(|_| count + 1))?
            }
            Some(joint) => repo.count_between(repo.peel(joint.theirs)?, split.head)?,
        };
        let compared = match theirs {
            None => None,
            Some(theirs) => {
                let (ahead, behind) = repo.ahead_behind(split.head, theirs)?;
                Some(Compared {
                    same: repo.read_commit(theirs)?.tree == repo.read_commit(split.head)?.tree,
                    ahead,
                    behind,
                })
            }
        };
        Ok(Some(Status { joint, split: split.head, since, compared }))
    }
}
