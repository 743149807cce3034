//! Pushing: what was split, brought to another repository.

use bristlecone_core::{CommitId, Format};

use super::{PushOptions, Split, Subtree};
use crate::{Copied, Durability, Error, Repo, Result};

/// What a push comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// The branch was there already.
    Already(Split),
    /// The branch has this commit, which the subtree does not lead back to: pull it first. Nothing was changed.
    Behind(CommitId),
    /// The branch moved.
    Moved {
        /// What it holds now.
        split: Split,
        /// What it held; `None` if it is new.
        from: Option<CommitId>,
        /// What was copied.
        copied: Copied,
    },
}

impl<F: Format> Subtree<F> {
    /// Splits the history of `head`, copies what is new of it to another repository, and moves a branch there: only
    /// forward, unless forced, and only if it is not moved meanwhile.
    ///
    /// Whether a working tree shows that branch is for the caller to look at.
    ///
    /// # Errors
    /// [`Error::Usage`] if `head` has no such directory; [`Error::RefMoved`] if the branch was moved meanwhile;
    /// [`Error::RefName`]; as [`Subtree::split`] and [`Repo::copy_objects`].
    pub fn push(&self, head: CommitId, other: &Repo<F>, branch: &str, options: PushOptions) -> Result<Pushed> {
        // What is split and copied stays until the branch leads to it.
        let _kept = (self.repo.now(), other.now());
        let branch = other.branch(branch)?;
        let Some(split) = self.split(head, None, Some(other))? else {
            return Err(Error::Usage { reason: "there is no directory at the prefix" });
        };
        let from = branch.head()?;
        if from == Some(split.head) {
            return Ok(Pushed::Already(split));
        }
        if let Some(from) = from
            && !options.force
            && !self.leads_to(split.head, from)?
        {
            return Ok(Pushed::Behind(from));
        }
        let copied = other.copy_objects(&self.repo, &[split.head])?;
        if options.durability == Durability::Synced {
            // A ref must not be durable before what it leads to.
            other.flush()?;
        }
        let to = other.peel(split.head.oid())?;
        branch.compare_and_set(from, Some(to), options.durability)?;
        Ok(Pushed::Moved { split, from, copied })
    }

    /// Whether a commit of another repository is among the ancestors of one that is here.
    pub(super) fn leads_to(&self, head: CommitId, ancestor: CommitId) -> Result<bool> {
        // What is not here is no ancestor of what is.
        let ancestor = CommitId::from(ancestor.oid());
        Ok(self.repo.shared.backend.read(&ancestor.into())?.is_some() && self.repo.is_ancestor(ancestor, head)?)
    }
}
