//! Committing: from a tree and its edits to one append.

use std::sync::Arc;

use bristlecone_core::{Commit, CommitId, Format, Kind, ObjRef, Signature, Source, TreeId, native::Native};

use super::{
    Repo,
    history::{CommitGraph, EditedPaths},
};
use crate::{
    Backend, Batch, Durability, Error, Layered, RefMove, RefTarget, Result, Snapshot, Tree,
    store::{StoreView, resolve},
    swept::retry_swept,
};

/// What to record with a commit, and how durable it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Info {
    /// The author of the change, and the date; `None` for the committer of the repository ([`Repo::committer`]), now.
    pub author: Option<Signature>,
    /// The committer who recorded it, and the date; `None` as for the author.
    pub committer: Option<Signature>,
    /// Further headers, in order.
    pub headers: Vec<(Vec<u8>, Vec<u8>)>,
    /// Why.
    pub message: Vec<u8>,
    /// When the commit is acknowledged.
    pub durability: Durability,
}

impl Info {
    /// A message, signed by the committer of the repository at the time of the commit, which is synced.
    #[must_use]
    pub fn message(message: impl Into<Vec<u8>>) -> Self {
        Self {
            author: None,
            committer: None,
            headers: Vec::new(),
            message: message.into(),
            durability: Durability::Synced,
        }
    }

    /// As [`Info::message`], without a name and at second 0: a commit whose id depends on its tree, parents and message
    /// alone.
    ///
    /// ```
    /// # use bristlecone::{Info, Repo};
    /// let commit = |repo: &Repo| repo.commit_tree(&mut repo.tree(), &[], &Info::unsigned("the same"));
    /// assert_eq!(commit(&Repo::memory())?, commit(&Repo::memory())?);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    #[must_use]
    pub fn unsigned(message: impl Into<Vec<u8>>) -> Self {
        Self::message(message).by(Signature::new("", 0))
    }

    /// Sets author and committer.
    #[must_use]
    pub fn by(self, who: Signature) -> Self {
        self.author(who.clone()).committer(who)
    }

    /// Sets the author of the change, and the date.
    #[must_use]
    pub fn author(mut self, who: Signature) -> Self {
        self.author = Some(who);
        self
    }

    /// Sets the committer who records it, and the date.
    #[must_use]
    pub fn committer(mut self, who: Signature) -> Self {
        self.committer = Some(who);
        self
    }

    /// Adds a header, such as `encoding`, behind those there are.
    #[must_use]
    pub fn header(mut self, name: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets when the commit is acknowledged.
    #[must_use]
    pub const fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }
}

/// A commit that is encoded and hashed, and waits to be appended.
#[derive(Debug)]
pub struct Prepared<F: Format = Native> {
    // Where what the batch leaves out is.
    pub(super) backend: Arc<dyn Backend>,
    pub(super) batch: Batch,
    // Keeps what the batch leaves out.
    pub(super) kept: Arc<dyn Snapshot>,
    pub(super) moves: Vec<RefMove>,
    pub(super) durability: Durability,
    // The commit, its place pending in the batch.
    pub(super) head: ObjRef,
    pub(super) root: ObjRef,
    // What may differ from the first parent, where the edits tell.
    pub(super) edited: Option<EditedPaths>,
    format: std::marker::PhantomData<F>,
}

impl<F: Format> Prepared<F> {
    /// Returns the commit's id.
    #[must_use]
    pub const fn id(&self) -> CommitId {
        CommitId::new(self.head.oid)
    }

    /// Returns the id of the tree that the commit has.
    #[must_use]
    pub const fn root(&self) -> TreeId {
        TreeId::new(self.root.oid)
    }

    /// Adds a move of another ref to the same step.
    pub fn and_move(&mut self, wanted: RefMove) {
        self.moves.push(wanted);
    }
}

impl<F: Format> Repo<F> {
    /// Commits a tree without moving any ref: its edits and the commit are written, nothing leads to them.
    ///
    /// # Errors
    /// As [`Tree::get`]; [`Error::Usage`] for a tree of another repository, which [`Tree::set_tree`] binds in one of this;
    /// [`Error::Format`] if the format would lose something; those of the backend.
    pub fn commit_tree(&self, tree: &mut Tree<F>, parents: &[CommitId], info: &Info) -> Result<CommitId> {
        retry_swept(
            tree,
            |tree| &*tree.store,
            |tree| {
                let prepared = self.prepare(tree, parents, info)?;
                self.finish(tree, prepared, info.durability)
            },
        )
    }

    /// Encodes and hashes a commit of `tree`, which keeps its edits. Nothing that leads to it is written; of many edits, the
    /// objects of most are ([`Repo::set_pending_max`]).
    ///
    /// # Errors
    /// As [`Repo::commit_tree`].
    pub fn prepare(&self, tree: &Tree<F>, parents: &[CommitId], info: &Info) -> Result<Prepared<F>> {
        if !Arc::ptr_eq(&tree.store.backend, &self.shared.backend) {
            let reason =
                "a tree is committed in the repository that it is of: bind it in one of this repository (`set_tree`)";
            return Err(Error::Usage { reason });
        }
        let _writing = tree.writing_here();
        let store = &tree.store;
        let mut sink = store.sink();
        let root = tree.flush_writing(&mut sink)?;
        parents.iter().for_each(|&parent| sink.builds_on(&store.commit_ref(parent).oid));
        let mut number = 0;
        // Where the number is not kept it would be computed from all ancestors, for nothing.
        if self.shared.backend.capabilities().metadata_words {
            for &parent in parents {
                number = carried_generation(store, &store.commit_ref(parent))?.max(number);
            }
            number = number.saturating_add(1);
        }
        let author = info.author.clone().unwrap_or_else(|| self.sign());
        // Where neither is given, one signature serves for both.
        let committer = match (&info.committer, &info.author) {
            (Some(committer), _) => committer.clone(),
            (None, None) => author.clone(),
            (None, Some(_)) => self.sign(),
        };
        let commit = Commit {
            tree: root.into(),
            parents: parents.iter().map(|&parent| store.commit_ref(parent).into()).collect(),
            author,
            committer,
            headers: info.headers.clone(),
            message: info.message.clone(),
        };
        let head = self.shared.format.put_commit(&mut sink, &commit, number)?;
        let edited = if self.keeps_edited() { tree.edited_paths() } else { None };
        Ok(Prepared {
            backend: self.shared.backend.clone(),
            durability: info.durability,
            batch: sink.take(),
            kept: store.snapshot.clone(),
            moves: Vec::with_capacity(1),
            head,
            root,
            edited,
            format: std::marker::PhantomData,
        })
    }

    /// Returns a repository that has what was prepared in this one, too, in memory: to look at what a commit will hold
    /// before it is made. Nothing is written here through it, and refs do not move.
    ///
    /// # Errors
    /// Those of the backend.
    pub fn with_prepared(&self, prepared: &Prepared<F>) -> Result<Self> {
        let over = Layered::new(self.shared.backend.clone(), []);
        over.append(prepared.batch.clone(), &[], Durability::None)?;
        Ok(Self::with_backend(self.shared.format.clone(), Arc::new(over)))
    }

    /// Appends what was prepared from `tree`.
    pub(super) fn finish(&self, tree: &mut Tree<F>, prepared: Prepared<F>, durability: Durability) -> Result<CommitId> {
        let _writing = tree.writing_here();
        let base = self.shared.backend.append(prepared.batch, &prepared.moves, durability)?;
        self.collect_if_due();
        let head = resolve(prepared.head, base);
        self.note_commit(head, prepared.edited);
        self.keep_up_if_due(head);
        // What it kept the tree keeps, too, and goes on in place if it is the only one.
        drop(prepared.kept);
        tree.flushed(resolve(prepared.root, base), Some(head));
        Ok(self.shared.commit_id(head))
    }

    /// Writes a commit as it is: its tree and parents need not be here. For imports.
    ///
    /// # Errors
    /// [`Error::Format`] if the format would lose something; [`Error::Usage`] for a generation number above 2^32 - 1; those of the
    /// backend.
    pub fn write_commit(&self, commit: &Commit, generation: u64, durability: Durability) -> Result<CommitId> {
        if generation > u64::from(u32::MAX) {
            return Err(Error::Usage { reason: "no commit has a generation number above 2^32 - 1" });
        }
        let store = self.now();
        let mut sink = store.sink();
        let head = self.shared.format.put_commit(&mut sink, &store.own_commit(commit), generation)?;
        let base = self.shared.backend.append(sink.take(), &[], durability)?;
        Ok(self.shared.commit_id(resolve(head, base)))
    }
}

/// Returns the ref move that sets `name` to `head`.
pub(super) fn head_move(name: &str, expected: Option<ObjRef>, head: ObjRef) -> RefMove {
    use crate::Expected;
    let expected = expected.map_or(Expected::Absent, |at| Expected::Is(RefTarget::Object(at)));
    RefMove { name: name.to_owned(), expected, to: Some(RefTarget::Object(head)) }
}

/// Returns the number that a commit carries, or the one that its ancestors tell.
fn carried_generation<F: Format>(store: &Arc<StoreView<F>>, at: &ObjRef) -> Result<u64> {
    let carried = store.read(Kind::Commit, at)?.metadata_word(0).filter(|&generation| generation > 0);
    // One that history was deepened behind may be too small, and nobody believes what is made of it.
    carried.map_or_else(|| generation(store, at), Ok)
}

/// Returns the generation number of a commit.
pub(super) fn generation<F: Format>(store: &Arc<StoreView<F>>, at: &ObjRef) -> Result<u64> {
    let entry = CommitGraph::new(store.clone()).read_numbered(at)?;
    Ok(entry.number())
}
