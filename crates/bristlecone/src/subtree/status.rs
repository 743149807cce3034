//! How a subtree stands.

use bristlecone_core::{Format, ObjRef};

use super::{Joint, Subtree, survey::Survey};
use crate::{LogOptions, Repo, Result};

/// How a subtree stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// What was joined last; `None` if nothing was.
    pub joint: Option<Joint>,
    /// The newest commit of the subtree's history.
    pub split: ObjRef,
    /// Commits of that history that came after the last join; all of them if nothing was joined. `None` if what was
    /// joined is not here.
    pub since: Option<u64>,
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
    /// Returns how the subtree of `head` stands, and how to the commit `theirs`, whose objects are here; `None` if
    /// `head` has no such directory.
    ///
    /// # Errors
    /// As [`Subtree::split`].
    pub fn status(&self, head: ObjRef, theirs: Option<ObjRef>, from: Option<&Repo<F>>) -> Result<Option<Status>> {
        let survey = Survey::new(self, head)?;
        let Some(split) = self.split_surveyed(&survey, None, from)? else { return Ok(None) };
        let joint = survey.last_joint();
        let since = match joint {
            None => {
                let mut log = self.repo.log(&[split.head], LogOptions::default());
                Some(log.try_fold(0, |count, entry| entry.map(|_| count + 1))?)
            }
            Some(joint) => match self.repo.store.backend.read(&joint.theirs.into())? {
                Some(_) => Some(self.repo.count_between(self.repo.peel(joint.theirs)?, split.head)?),
                None => None,
            },
        };
        let compared = match theirs {
            None => None,
            Some(theirs) => {
                let (ahead, behind) = self.repo.ahead_behind(split.head, theirs)?;
                let same = self.repo.commit(theirs)?.tree == self.repo.commit(split.head)?.tree;
                Some(Compared { same, ahead, behind })
            }
        };
        Ok(Some(Status { joint, split: split.head, since, compared }))
    }
}
