//! Branches: named heads, moved by compare-and-set.

use std::{
    hash::{BuildHasher as _, RandomState},
    time::Duration,
};

use bristlecone_core::{CommitId, Format, ObjRef, native::Native};

use super::{
    BRANCHES, Info, Prepared, Repo, check_ref_name, checkout_root,
    commit::head_move,
    commit_root,
    last_head::{self, BranchNumber, LastHead},
};
use crate::{Durability, Error, Expected, RefMove, RefTarget, Result, Tree, backend::check_moves, swept::retry_swept};

/// How often an edit is repeated when another writer moved the branch first.
const ATTEMPTS_MAX: u32 = 99;
/// The longest wait before it is repeated.
const WAIT_MAX: Duration = Duration::from_millis(5);

/// Waits before the next attempt: at first not at all, then longer and longer, by no two threads as long.
fn back_off(attempt: u32) {
    if attempt < 2 {
        return std::thread::yield_now();
    }
    let most = Duration::from_micros(20).saturating_mul(1 << attempt.min(16)).min(WAIT_MAX);
    // Each hasher has another seed.
    let part = RandomState::new().hash_one(attempt) % 1024;
    std::thread::sleep(most / 1024 * part as u32);
}

/// A branch of a repository, which need not exist yet.
#[derive(Clone, Debug)]
pub struct Branch<F: Format = Native> {
    repo: Repo<F>,
    // The full name of the ref.
    name: String,
    number: BranchNumber,
}

impl<F: Format> Branch<F> {
    pub(super) fn new(repo: Repo<F>, name: &str) -> Result<Self> {
        let name = format!("{BRANCHES}{name}");
        check_ref_name(&name)?;
        Ok(Self { repo, name, number: BranchNumber::next() })
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name[BRANCHES.len()..]
    }

    /// Returns the full name of the ref.
    #[must_use]
    pub fn ref_name(&self) -> &str {
        &self.name
    }

    /// Returns the commit that the branch names now; `None` if it does not exist.
    ///
    /// # Errors
    /// Those of the backend.
    pub fn head(&self) -> Result<Option<CommitId>> {
        Ok(self.repo.resolve(&self.name)?.map(|at| self.repo.shared.commit_id(at)))
    }

    /// Checks the head's tree out; an empty tree if the branch does not exist.
    ///
    /// # Errors
    /// As [`Repo::read_commit`].
    pub fn tree(&self) -> Result<Tree<F>> {
        // Taken before the ref is read: what that leads to then stays.
        let store = self.repo.now();
        let (position, sweeps) = (store.backend.position()?, store.sweeps());
        // While no ref moves, this one does not either.
        if let Some((head, root)) = position.and_then(|at| last_head::at_position(self.number, at, sweeps)) {
            return Ok(checkout_root(store, head, root));
        }
        let Some(head) = self.repo.resolve(&self.name)? else { return Ok(Tree::at(store, None)) };
        let root = match last_head::root_of(self.number, &head) {
            Some(root) => root,
            None => commit_root(&store, &head)?,
        };
        last_head::keep(LastHead { branch: self.number, position, sweeps, head, root });
        Ok(checkout_root(store, head, root))
    }

    /// Returns the full name of the ref that moves when the branch does: its own, or where that is a symbolic ref,
    /// the one it leads to.
    ///
    /// # Errors
    /// As [`Repo::resolve`].
    pub fn moving_ref(&self) -> Result<String> {
        self.repo.last_ref(&self.name)
    }

    /// Commits a tree, with the commit it was checked out from as its parent, and moves the branch, if that
    /// commit is still its head; all in one step. The tree goes on from there. Where the branch is a symbolic ref, the
    /// one it leads to moves.
    ///
    /// # Errors
    /// [`Error::RefMoved`] if the branch has moved since: the tree keeps its edits. As [`Repo::commit_tree`].
    pub fn commit(&self, tree: &mut Tree<F>, info: &Info) -> Result<CommitId> {
        let parent = tree.written_origin()?.map(|at| tree.store.commit_id(at));
        self.commit_over(parent, tree, parent.as_slice(), info)
    }

    /// As [`Branch::commit`], with parents of the caller's choice, such as those of a merge. The branch must
    /// still name the first of them, or not exist if there are no parents.
    ///
    /// # Errors
    /// As [`Branch::commit`].
    pub fn commit_with_parents(&self, tree: &mut Tree<F>, parents: &[CommitId], info: &Info) -> Result<CommitId> {
        self.commit_over(parents.first().copied(), tree, parents, info)
    }

    /// As [`Branch::commit_with_parents`], where the branch must name `expected` (`None`: not exist), whatever the
    /// parents are: it may leave the line that it was on.
    ///
    /// # Errors
    /// As [`Branch::commit`].
    pub fn commit_over(
        &self,
        expected: Option<CommitId>,
        tree: &mut Tree<F>,
        parents: &[CommitId],
        info: &Info,
    ) -> Result<CommitId> {
        self.commit_and_move(expected, tree, parents, info, &[])
    }

    /// As [`Branch::commit_over`], with moves of other refs in the same step: all of it is done, or nothing.
    ///
    /// # Errors
    /// As [`Branch::commit`]; [`Error::RefMoved`] names the first ref that is not as expected; [`Error::Usage`] in a
    /// backend that moves one ref at a time ([`crate::Capabilities::several_refs`]).
    pub fn commit_and_move(
        &self,
        expected: Option<CommitId>,
        tree: &mut Tree<F>,
        parents: &[CommitId],
        info: &Info,
        moves: &[RefMove],
    ) -> Result<CommitId> {
        let commit = |name: &str, tree: &mut Tree<F>| -> Result<CommitId> {
            let change = |tree: &mut Tree<F>| {
                if tree.is_large() {
                    self.check_unmoved(name, expected)?;
                }
                let mut prepared = self.repo.prepare(tree, parents, info)?;
                prepared.and_move(head_move(name, expected.map(ObjRef::from), prepared.head));
                moves.iter().for_each(|wanted| prepared.and_move(wanted.clone()));
                self.repo.finish(tree, prepared, info.durability)
            };
            retry_swept(tree, |tree| &*tree.store, change)
        };
        let done = commit(&self.name, tree);
        match self.moved_instead(done.as_ref().err())? {
            Some(moving) => commit(&moving, tree),
            None => done,
        }
    }

    /// Fails if a ref is not as expected: before much is written for a commit that cannot be.
    fn check_unmoved(&self, name: &str, expected: Option<CommitId>) -> Result<()> {
        let found = self.repo.shared.backend.get_ref(name)?;
        let expected = expected.map_or(Expected::Absent, |id| Expected::Is(RefTarget::Object(id.into())));
        let wanted = RefMove { name: name.to_owned(), expected, to: None };
        check_moves(&[wanted], |_| found.as_ref())
    }

    /// Returns the ref that is to move in the branch's place, if a conflict says that the branch is a symbolic ref.
    fn moved_instead(&self, error: Option<&Error>) -> Result<Option<String>> {
        match error {
            Some(Error::RefMoved { name, .. }) if *name == self.name => {
                Ok(Some(self.moving_ref()?).filter(|moving| *moving != self.name))
            }
            _ => Ok(None),
        }
    }

    /// Encodes and hashes what [`Branch::commit`] would write, for [`Repo::submit`]. It moves the branch's own ref: not
    /// for a branch that is a symbolic ref.
    ///
    /// # Errors
    /// As [`Branch::commit`].
    pub fn prepare(&self, tree: &Tree<F>, info: &Info) -> Result<Prepared<F>> {
        let parent = tree.written_origin()?.map(|at| tree.store.commit_id(at));
        let mut prepared = self.repo.prepare(tree, parent.as_slice(), info)?;
        prepared.and_move(head_move(&self.name, parent.map(ObjRef::from), prepared.head));
        Ok(prepared)
    }

    /// Encodes and hashes what [`Branch::commit_over`] would write, for [`Repo::submit`]. Where the branch is a symbolic
    /// ref, the one it leads to now moves.
    ///
    /// # Errors
    /// As [`Branch::commit`].
    pub fn prepare_over(
        &self,
        expected: Option<CommitId>,
        tree: &Tree<F>,
        parents: &[CommitId],
        info: &Info,
    ) -> Result<Prepared<F>> {
        let mut prepared = self.repo.prepare(tree, parents, info)?;
        prepared.and_move(head_move(&self.moving_ref()?, expected.map(ObjRef::from), prepared.head));
        Ok(prepared)
    }

    /// Edits the head's tree and commits it, again from the start if another writer moved the branch first: up to 100
    /// times, after waits that grow to some milliseconds.
    ///
    /// # Errors
    /// What `edit` returns; as [`Branch::commit`]; [`Error::RefMoved`] if others were faster each time.
    pub fn edit(&self, info: &Info, edit: impl FnMut(&mut Tree<F>) -> Result<()>) -> Result<CommitId> {
        self.try_edit(info, edit)
    }

    /// As [`Branch::edit`], where the edit may fail with an error of the caller's own.
    ///
    /// ```
    /// # use bristlecone::{Error, Info, Repo};
    /// #[derive(Debug)]
    /// enum Refused { Taken, Store(Error) }
    /// impl From<Error> for Refused {
    ///     fn from(error: Error) -> Self { Self::Store(error) }
    /// }
    /// let users = Repo::memory().branch("users")?;
    /// let register = |name: &str| {
    ///     users.try_edit(&Info::message("a user"), |tree| {
    ///         if tree.contains(name)? { return Err(Refused::Taken) }
    ///         Ok(tree.set(name, "active")?)
    ///     })
    /// };
    /// assert!(register("ann").is_ok());
    /// assert!(matches!(register("ann"), Err(Refused::Taken)));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Branch::edit`].
    pub fn try_edit<E: From<Error>>(
        &self,
        info: &Info,
        mut edit: impl FnMut(&mut Tree<F>) -> Result<(), E>,
    ) -> Result<CommitId, E> {
        let mut attempt = 0;
        loop {
            let mut tree = self.tree()?;
            edit(&mut tree)?;
            match self.commit(&mut tree, info) {
                Err(Error::RefMoved { .. }) if attempt < ATTEMPTS_MAX => back_off(attempt),
                done => return Ok(done?),
            }
            attempt += 1;
        }
    }

    /// Moves the branch from `expected` (`None`: it must not exist) to `to` (`None`: it is removed). Where it is a symbolic
    /// ref, the one it leads to moves.
    ///
    /// # Errors
    /// [`Error::RefMoved`] if it is not as expected; those of the backend.
    pub fn compare_and_set(
        &self,
        expected: Option<CommitId>,
        to: Option<CommitId>,
        durability: Durability,
    ) -> Result<()> {
        let target = |id: Option<CommitId>| id.map(|id| RefTarget::Object(self.repo.shared.commit_ref(id)));
        let done = self.repo.compare_and_set(&self.name, target(expected), target(to), durability);
        match self.moved_instead(done.as_ref().err())? {
            Some(moving) => self.repo.compare_and_set(&moving, target(expected), target(to), durability),
            None => done,
        }
    }
}
