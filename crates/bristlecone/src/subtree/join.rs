//! Joining: the history of another repository below a directory, for the first time and again.

use bristlecone_core::{CommitId, Format, Kind, ObjRef, native::Native};

use super::{Joint, Pulled, Subtree, is_elsewhere, message, survey::HistorySurvey};
use crate::{
    Batch, DirEntry, Durability, Error, Info, LogOptions, LogOrder, Result, Tree,
    merge::{self, Conflict},
    store::StoreView,
    swept::retry_swept,
};

/// A merge to be committed: `branch.commit_with_parents(&mut joined.tree, &joined.parents, &info)` with its message.
#[derive(Clone, Debug)]
pub struct Joined<F: Format = Native> {
    /// The whole tree.
    pub tree: Tree<F>,
    /// Our commit, and the other repository's or the squashed one.
    pub parents: Vec<CommitId>,
    /// Why, as `git subtree` writes it.
    pub message: Vec<u8>,
}

impl<F: Format> Subtree<F> {
    /// Joins the history of `theirs`, a commit of another repository whose objects are here, to that of `ours`: its
    /// root becomes the subtree's directory.
    ///
    /// With `squash`, one commit stands for that history; it is written, by the authors that it says. `said` is the
    /// message in place of the usual one; the lines that describe the join are added to it.
    ///
    /// # Errors
    /// [`Error::Usage`] if something is at the prefix, or a value on the way to it, and if the root of `theirs` is
    /// empty; as [`crate::Repo::commit_tree`].
    pub fn add(
        &self,
        ours: CommitId,
        theirs: CommitId,
        squash: Option<&Info>,
        said: Option<&[u8]>,
    ) -> Result<Joined<F>> {
        let mut tree = self.repo.checkout(ours)?;
        let mut above = Some(self.prefix.clone());
        while let Some(path) = above {
            if path == self.prefix && tree.kind(&path)?.is_some() || tree.contains(&path)? {
                return Err(Error::Usage { reason: "there is something at the prefix already" });
            }
            above = path.split_last().map(|(parent, _)| bristlecone_core::Path::from_bytes(parent)).transpose()?;
        }
        let below = self.repo.checkout(theirs)?;
        if below.is_empty()? {
            return Err(Error::Usage { reason: "the commit to be added has an empty root" });
        }
        tree.set_tree(&self.prefix, &below)?;
        let (other, message) = match squash {
            None => (theirs, message::add(&self.prefix, ours.oid(), theirs.oid(), said)),
            Some(info) => {
                let text = message::squash(&self.prefix, None, theirs.oid(), b"");
                let squashed = self.squash(theirs, &[], text, info)?;
                let message = said.map_or_else(|| message::add_squashed(&self.prefix, squashed.oid()), <[u8]>::to_vec);
                (squashed, message)
            }
        };
        Ok(Joined { tree, parents: vec![ours, other], message })
    }

    /// Brings what changed up to `theirs`, a commit of the other repository whose objects are here, into the subtree
    /// of `ours`: a three-way merge of directories, see [`merge::trees`].
    ///
    /// Without `squash`, what both have in common is found in their histories, that of the subtree being split. With it,
    /// one commit stands for what is new since the last join, back too: `theirs` may be older than that.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no such directory, or nothing in common; as [`Subtree::split`].
    pub fn pull(
        &self,
        ours: CommitId,
        theirs: CommitId,
        squash: Option<&Info>,
        said: Option<&[u8]>,
    ) -> Result<Pulled<F>> {
        // What is split and merged stays until the tree that is returned holds it.
        let _kept = self.repo.now();
        let survey = HistorySurvey::new(self, ours)?;
        let Some(dir) = survey.nodes.last().and_then(|head| head.dir) else {
            return Err(Error::Usage { reason: "there is no directory at the prefix: add the subtree first" });
        };
        let before = if squash.is_some() { survey.last_joint() } else { None };
        let bases = match (squash, before) {
            (None, _) => self.common(&survey, theirs)?,
            (Some(_), Some(before)) => self.common_squashed(&survey, theirs, &before)?,
            (Some(_), None) => {
                return Err(Error::Usage { reason: "nothing was joined at the prefix: add the subtree first" });
            }
        };
        if bases.is_empty() {
            let reason = "the subtree and the commit have no history in common: was the subtree added from elsewhere?";
            return Err(Error::Usage { reason });
        }
        if bases.contains(&theirs) {
            return Ok(Pulled::Already);
        }
        let root = match self.merged(&bases, dir, theirs)? {
            Ok(root) => root,
            Err(conflicts) => return Ok(Pulled::Conflicts(conflicts)),
        };
        let mut tree = self.repo.checkout(ours)?;
        match root {
            Some(root) => tree.set_tree(&self.prefix, &self.repo.tree_at(self.repo.tree_id(root)))?,
            None => tree.remove(&self.prefix)?,
        }
        let other = match squash.zip(before) {
            None => theirs,
            Some((info, before)) => {
                let subjects = self.subjects(before.theirs.into(), theirs)?;
                let text = message::squash(&self.prefix, Some(before.theirs), theirs.oid(), &subjects);
                self.squash(theirs, &[before.here], text, info)?
            }
        };
        let message = said.map_or_else(|| message::pull(other.oid()), <[u8]>::to_vec);
        Ok(Pulled::Joined(Box::new(Joined { tree, parents: vec![ours, other], message })))
    }

    /// Returns what the subtree's history and `theirs` have in common: `theirs` itself if all of it is in that history.
    fn common(&self, survey: &HistorySurvey, theirs: CommitId) -> Result<Vec<CommitId>> {
        match self.split_surveyed(survey, None, None)? {
            Some(split) => self.repo.merge_bases(split.head, theirs),
            None => Ok(Vec::new()),
        }
    }

    /// The same where `before` was squashed last. Its root stands for what is in common if `theirs` leads elsewhere:
    /// back, or to a line beside it.
    fn common_squashed(&self, survey: &HistorySurvey, theirs: CommitId, before: &Joint) -> Result<Vec<CommitId>> {
        if before.theirs == theirs.oid() {
            return Ok(vec![theirs]);
        }
        let joined = match self.repo.peel(before.theirs) {
            Ok(joined) => joined,
            // It is as good as here: the root of what stands for it is its root.
            Err(error) if is_elsewhere(&error) => return Ok(vec![before.here]),
            Err(error) => return Err(error),
        };
        let bases = match self.common(survey, theirs) {
            // Something that was squashed earlier is not here.
            Err(
                Error::Missing { kind: Kind::Commit, .. }
                | Error::Promised { kind: Kind::Commit, .. }
                | Error::Absent { .. },
            ) => Vec::new(),
            bases => bases?,
        };
        for base in &bases {
            if !self.repo.is_ancestor(joined, *base)? {
                return Ok(vec![before.here]);
            }
        }
        Ok(if bases.is_empty() { vec![before.here] } else { bases })
    }

    /// Merges the root of `theirs` into our directory; `Err` with the conflicts.
    ///
    /// Where histories crossed each other there are several bases. Each must lead to the same; where they do not, one of
    /// them would bring back what a commit removed, and that is a conflict.
    fn merged(
        &self,
        bases: &[CommitId],
        dir: ObjRef,
        theirs: CommitId,
    ) -> Result<std::result::Result<Option<ObjRef>, Vec<Conflict>>> {
        let mut store = self.repo.now();
        retry_swept(&mut store, |store| store, |store| self.merged_in(store, bases, dir, theirs))
    }

    fn merged_in(
        &self,
        store: &StoreView<F>,
        bases: &[CommitId],
        dir: ObjRef,
        theirs: CommitId,
    ) -> Result<std::result::Result<Option<ObjRef>, Vec<Conflict>>> {
        let mut first: Option<(Option<ObjRef>, Batch)> = None;
        for base in bases {
            let mut sink = store.sink();
            let roots = (self.root(*base)?, self.root(theirs)?);
            let (root, conflicts) = merge::roots(store, &mut sink, roots.0, Some(dir), roots.1)?;
            if !conflicts.is_empty() {
                return Ok(Err(conflicts));
            }
            match &first {
                None => first = Some((root, sink.take())),
                Some((found, _)) if *found == root => {}
                Some(_) => return Ok(Err(self.contested(dir, theirs)?)),
            }
        }
        let Some((root, batch)) = first else { return Ok(Ok(Some(dir))) };
        if batch.is_empty() {
            return Ok(Ok(root));
        }
        let base = store.backend.append(batch, &[], Durability::None)?;
        Ok(Ok(root.map(|root| ObjRef::new(root.oid, root.at.resolve(base)))))
    }

    /// Everything that the sides have differently.
    fn contested(&self, dir: ObjRef, theirs: CommitId) -> Result<Vec<Conflict>> {
        let ours = self.repo.tree_at(self.repo.tree_id(dir));
        let root = self.root(theirs)?;
        let theirs = root.map_or_else(|| self.repo.tree(), |at| self.repo.tree_at(self.repo.tree_id(at)));
        let version = |entry: Option<DirEntry<'_, F>>| entry.and_then(|entry| entry.version());
        let mut conflicts = Vec::new();
        for one in ours.diff(&theirs, "")? {
            let one = one?;
            let (ours, theirs) = (version(one.before), version(one.after));
            conflicts.push(Conflict { path: one.path, base: None, ours, theirs });
        }
        Ok(conflicts)
    }

    /// Returns the root of a commit; `None` if it is empty.
    fn root(&self, at: CommitId) -> Result<Option<ObjRef>> {
        let root = self.repo.read_commit(at)?.tree;
        Ok(self.repo.shared.unless_empty(root.into()))
    }

    /// Writes the commit that stands for `theirs`.
    fn squash(&self, theirs: CommitId, parents: &[CommitId], message: Vec<u8>, info: &Info) -> Result<CommitId> {
        let info = Info { message, ..info.clone() }.durability(Durability::None);
        self.repo.commit_tree(&mut self.repo.checkout(theirs)?, parents, &info)
    }

    /// Returns a line for each commit that comes with `theirs` after `before`, and for each that goes again.
    fn subjects(&self, before: CommitId, theirs: CommitId) -> Result<Vec<u8>> {
        if self.repo.shared.backend.read(&before.into())?.is_none() {
            return Ok(Vec::new());
        }
        let before = self.repo.peel(before)?;
        let mut lines = Vec::new();
        for (sign, from, to) in [("", before, theirs), ("REVERT: ", theirs, before)] {
            let options = LogOptions::default().exclude(vec![from]).order(LogOrder::Date);
            for entry in self.repo.log(&[to], options) {
                let entry = entry?;
                lines.extend(message::subject(sign, entry.id.oid(), &entry.commit.message));
            }
        }
        Ok(lines)
    }
}
