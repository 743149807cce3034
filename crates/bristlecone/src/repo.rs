//! The repository: trees, commits and branches over one backend.

use std::{
    borrow::Cow,
    sync::{Arc, OnceLock},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bristlecone_core::{
    Checked, Commit, CommitId, Format, Kind, ObjRef, Object, Oid, OidPrefix, Signature, Source, TreeId, native::Native,
};

use crate::{
    Backend, Batch, Durability, Error, Expected, MemoryBackend, RefMove, RefTarget, Result, Tree, Value,
    store::{StoreBase, StoreView, resolve},
    swept::write_anew,
};

mod beside;
mod branch;
mod collector;
mod commit;
mod history;
mod identity;
mod last_head;
mod open;
mod refname;
mod retention;
mod sweep;
mod tag;
mod upkeep;
mod value;

pub use branch::Branch;
pub(crate) use collector::Collector;
pub use commit::{Info, Prepared};
pub(crate) use history::{CommitGraph, EditedPaths, EditedPathsList, StoredGraph};
pub use history::{IndexedCommits, Log, LogEntry, LogOptions, LogOrder};
pub use identity::user_at_host;
pub use refname::check_ref_name;
pub use tag::PeeledTags;
pub(crate) use upkeep::Upkeep;
pub(crate) use value::Stored;
pub use value::StoredValue;

/// Refs of branches start with this.
pub(crate) const BRANCHES: &str = "refs/heads/";
/// The ref of the checked-out branch or commit.
pub(crate) const HEAD: &str = "HEAD";
/// How many symbolic refs are followed in a row.
const SYMBOLIC_MAX: usize = 8;

/// An open store with its format. Cheap to clone; clones share everything.
#[derive(Debug)]
pub struct Repo<F: Format = Native> {
    pub(crate) shared: Arc<StoreBase<F>>,
    // The name that commits are signed with, if one was set.
    committer: Option<Arc<[u8]>>,
}

impl<F: Format> Clone for Repo<F> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), committer: self.committer.clone() }
    }
}

impl Repo<Native> {
    /// Returns an empty repository of the native format in memory.
    #[must_use]
    pub fn memory() -> Self {
        Self::with_backend(Native::new(), Arc::new(MemoryBackend::new()))
    }
}

impl<F: Format> Repo<F> {
    /// Returns a repository of a format over any backend.
    #[must_use]
    pub fn with_backend(format: F, backend: Arc<dyn Backend>) -> Self {
        Self::of(StoreBase::new(format, backend))
    }

    pub(crate) const fn of(shared: Arc<StoreBase<F>>) -> Self {
        Self { shared, committer: None }
    }

    /// Sets the committer, usually `Name <address>`, who is the author, too, where [`Info`] names nobody. It holds for this
    /// handle and what is made from it, and is not kept in the store.
    ///
    /// ```
    /// # use bristlecone::{Info, Repo};
    /// let repo = Repo::memory().with_committer("Ann <ann@example.org>");
    /// let at = repo.branch("main")?.edit(&Info::message("first"), |tree| tree.set("a", "1"))?;
    /// assert_eq!(repo.read_commit(at)?.author.ident, b"Ann <ann@example.org>");
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    #[must_use]
    pub fn with_committer(mut self, ident: impl Into<Vec<u8>>) -> Self {
        self.committer = Some(Arc::from(ident.into()));
        self
    }

    /// Returns the committer, who is the author, too, where [`Info`] names nobody: unless [`Repo::with_committer`] set it,
    /// [`user_at_host`].
    #[must_use]
    pub fn committer(&self) -> &[u8] {
        static USER: OnceLock<Vec<u8>> = OnceLock::new();
        match &self.committer {
            Some(ident) => ident,
            None => USER.get_or_init(user_at_host),
        }
    }

    /// Returns the committer at this time, in UTC.
    fn sign(&self) -> Signature {
        let seconds = |since: Duration| i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
        // A clock that stands before 1970 counts as 1970.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, seconds);
        Signature::new(self.committer(), now)
    }

    /// Sets about how many bytes of memory the pending edits of one tree may take, for all trees of this repository and its
    /// clones. Unless it is set, that is 288 MiB, or all there is where the backend keeps objects in memory anyway.
    ///
    /// Where edits take more, the tree writes their objects, to which no ref leads, and goes on from there. A commit writes
    /// the objects of large edits in parts of a thirty-second of that, so that it needs little memory besides. The root is
    /// the same.
    ///
    /// Pieces of directories that edits reach again after that are written again, and what they replace stays in the store
    /// until a collection: who adds many entries in the order of their paths writes little twice.
    pub fn set_pending_max(&self, bytes: usize) {
        self.shared.set_pending_max(bytes);
    }

    /// Sets how many threads a large commit may have, for all trees of this repository and its clones: 1 for none but the
    /// caller's, 0 for as many as the machine has. Unless it is set, it is 0.
    ///
    /// This is about callers in no rayon pool, whose large commits (from some 16,000 edits on) and those of
    /// [`Tree::write`](crate::Tree::write) are hashed by a pool of our own, while the caller waits. All
    /// repositories share the pool of a number of threads; it is made when it is needed first, and then stays. A caller on a
    /// thread of a pool has the threads of that. The objects are the same, whatever the number of threads.
    ///
    /// Without the feature `rayon` there is one thread.
    pub fn set_threads(&self, threads: usize) {
        self.shared.set_threads(threads);
    }

    /// Sets from how many changes of one directory on threads share them, so that tests can do it with few.
    #[doc(hidden)]
    pub fn set_shared_min(&self, changes: usize) {
        self.shared.set_shared_min(changes);
    }

    /// Returns the backend.
    #[must_use]
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.shared.backend
    }

    /// Returns the format with its options.
    #[must_use]
    pub fn format(&self) -> &F {
        &self.shared.format
    }

    /// Returns what can be read from now on.
    pub(crate) fn now(&self) -> Arc<StoreView<F>> {
        self.shared.now(&[])
    }

    /// Returns an empty tree.
    #[must_use]
    pub fn tree(&self) -> Tree<F> {
        Tree::at(self.now(), None)
    }

    /// Returns the tree whose root is `root`, loading nothing.
    #[must_use]
    pub fn tree_at(&self, root: TreeId) -> Tree<F> {
        let root = self.shared.tree_ref(root);
        Tree::at(self.shared.now(&[root.oid]), Some(root))
    }

    /// Returns a value to be set at several places.
    #[must_use]
    pub fn value(&self, bytes: impl Into<Box<[u8]>>) -> Value {
        Value::new(bytes)
    }

    /// Returns the commit with this id.
    ///
    /// # Errors
    /// [`Error::Missing`]; [`Error::WrongKind`] if it is no commit; [`Error::Corrupt`] and others of the backend.
    pub fn read_commit(&self, id: CommitId) -> Result<Commit> {
        let at = self.shared.commit_ref(id);
        let store = self.now();
        let object = store.read(Kind::Commit, &at)?;
        store.decode_commit(&object, at.oid)
    }

    /// Returns the id of a commit, with the hint that this store's backend gave: for callers that work with the backend
    /// itself.
    #[must_use]
    pub fn commit_id(&self, at: ObjRef) -> CommitId {
        self.shared.commit_id(at)
    }

    /// Returns the id of a directory, with the hint that this store's backend gave.
    #[must_use]
    pub fn tree_id(&self, at: ObjRef) -> TreeId {
        self.shared.tree_id(at)
    }

    /// Returns the generation number of a commit: 1 for one without parents, else one more than the largest
    /// of its parents'.
    ///
    /// Costs one read, unless the commit came without its number, as from another store's objects, or what numbers say is believed
    /// no more ([`Repo::is_numbered`]).
    ///
    /// # Errors
    /// As [`Repo::read_commit`].
    pub fn generation(&self, id: CommitId) -> Result<u64> {
        commit::generation(&self.now(), &self.shared.commit_ref(id))
    }

    /// Whether commits carry generation numbers that can be believed: the backend keeps them, and history was never deepened
    /// behind a commit that it had ended with ([`crate::DEEPENED`]).
    ///
    /// # Errors
    /// Those of the backend.
    pub fn is_numbered(&self) -> Result<bool> {
        history::is_numbered(&*self.shared.backend)
    }

    /// Returns the tree of a commit, with the commit as its origin.
    ///
    /// # Errors
    /// As [`Repo::read_commit`].
    pub fn checkout(&self, id: CommitId) -> Result<Tree<F>> {
        let at = self.shared.commit_ref(id);
        checkout(self.shared.now(&[at.oid]), at)
    }

    /// Returns a branch, which need not exist yet.
    ///
    /// # Errors
    /// [`Error::RefName`] for a name that no branch can have.
    pub fn branch(&self, name: &str) -> Result<Branch<F>> {
        Branch::new(self.clone(), name)
    }

    /// Returns the names of the branches, in order.
    ///
    /// # Errors
    /// Those of the backend.
    pub fn branches(&self) -> Result<Vec<String>> {
        let refs = self.shared.backend.list_refs(BRANCHES)?;
        Ok(refs.into_keys().map(|name| name[BRANCHES.len()..].to_owned()).collect())
    }

    /// Returns the object that a ref leads to, through symbolic refs: a commit, or an annotated tag, which
    /// [`Repo::peel`] follows.
    ///
    /// # Errors
    /// Those of the backend; [`Error::Usage`] for symbolic refs in a circle.
    pub fn resolve(&self, name: &str) -> Result<Option<ObjRef>> {
        let mut name = Cow::Borrowed(name);
        for _ in 0..SYMBOLIC_MAX {
            match self.shared.backend.get_ref(&name)? {
                None => return Ok(None),
                Some(RefTarget::Object(at)) => return Ok(Some(at)),
                Some(RefTarget::Symbolic(next)) => name = Cow::Owned(next),
            }
        }
        Err(Error::Usage { reason: "symbolic refs lead to each other in a circle" })
    }

    /// Returns the last ref that `name` leads to through symbolic refs, which need not exist: `name` itself where it is
    /// not symbolic.
    pub(crate) fn last_ref(&self, name: &str) -> Result<String> {
        let mut name = name.to_owned();
        for _ in 0..SYMBOLIC_MAX {
            match self.shared.backend.get_ref(&name)? {
                Some(RefTarget::Symbolic(next)) => name = next,
                _ => return Ok(name),
            }
        }
        Err(Error::Usage { reason: "symbolic refs lead to each other in a circle" })
    }

    /// Moves refs in one step: all of them, or none.
    ///
    /// # Errors
    /// [`Error::RefMoved`] names the first ref that is not as expected; those of the backend.
    pub fn move_refs(&self, moves: &[RefMove], durability: Durability) -> Result<()> {
        self.shared.backend.append(Batch::new(), moves, durability).map(|_| ())
    }

    /// Moves one ref if it holds `expected`.
    ///
    /// # Errors
    /// [`Error::RefMoved`] if it does not; those of the backend.
    pub fn compare_and_set(
        &self,
        name: &str,
        expected: Option<RefTarget>,
        to: Option<RefTarget>,
        durability: Durability,
    ) -> Result<()> {
        check_ref_name(name)?;
        let expected = expected.map_or(Expected::Absent, Expected::Is);
        let wanted = RefMove { name: name.to_owned(), expected, to };
        self.move_refs(&[wanted], durability)
    }

    /// Returns what HEAD holds: the checked-out branch as a symbolic ref, or a commit if it is detached.
    ///
    /// # Errors
    /// Those of the backend.
    pub fn head(&self) -> Result<Option<RefTarget>> {
        self.shared.backend.get_ref(HEAD)
    }

    /// Makes HEAD name a branch, which need not exist yet.
    ///
    /// # Errors
    /// [`Error::RefName`]; those of the backend.
    pub fn set_head(&self, branch: &str) -> Result<()> {
        let target = RefTarget::Symbolic(self.branch(branch)?.ref_name().to_owned());
        self.point_head(target)
    }

    /// Makes HEAD name a commit itself.
    ///
    /// # Errors
    /// As [`Repo::read_commit`]; those of the backend.
    pub fn detach_head(&self, id: CommitId) -> Result<()> {
        self.read_commit(id)?;
        self.point_head(RefTarget::Object(self.shared.commit_ref(id)))
    }

    fn point_head(&self, target: RefTarget) -> Result<()> {
        let wanted = RefMove { name: HEAD.to_owned(), expected: Expected::Any, to: Some(target) };
        self.move_refs(&[wanted], Durability::Synced)
    }

    /// Drops every object that is only kept to be found sooner. Trees go on; pending edits stay.
    pub fn clear_caches(&self) {
        self.shared.backend.clear_caches();
    }

    /// Makes everything that was committed so far durable.
    ///
    /// # Errors
    /// Those of the backend.
    pub fn flush(&self) -> Result<()> {
        self.shared.backend.flush()
    }

    /// Returns the full reference of an object whose id starts with these hexadecimal digits; `None` if there is no such
    /// object, an error if there are several. Some backends look at every object ([`Backend::each_with_prefix`]): for people, not
    /// for programs.
    ///
    /// # Errors
    /// [`Error::Usage`] if these are no digits, or ambiguous ones; those of the backend.
    pub fn find_object(&self, digits: &str) -> Result<Option<(Kind, ObjRef)>> {
        let prefix = digits.parse::<OidPrefix>().ok().filter(|_| digits.len() >= 4);
        let prefix = prefix.ok_or(Error::Usage { reason: "an id is named by at least four hexadecimal digits" })?;
        if let Ok(oid) = digits.parse::<Oid>()
            && let Some(object) = self.shared.backend.read(&oid.into())?
        {
            return Ok(Some((object.kind(), ObjRef::new(oid, object.location()))));
        }
        let mut found: Option<(Kind, ObjRef)> = None;
        let mut several = false;
        self.shared.backend.each_with_prefix(&prefix, &mut |oid, object| {
            several |= found.is_some_and(|(_, at)| at.oid != oid);
            found = Some((object.kind(), ObjRef::new(oid, object.location())));
            Ok(())
        })?;
        if several { Err(Error::Usage { reason: "several objects have ids that start so" }) } else { Ok(found) }
    }

    /// Returns the id that an object must have by its contents, for checks.
    ///
    /// # Errors
    /// [`Error::Format`] if it does not decode; those of the backend where its hash takes other objects.
    pub fn hash_object(&self, object: &Object<'_>) -> Result<Oid> {
        self.shared.format.object_id(&*self.now(), object)
    }

    /// Checks what must hold between an object and those below it, for checks; see [`Format::check_structure`].
    ///
    /// # Errors
    /// [`Error::Format`] for what breaks a rule; those of the backend.
    pub fn check_structure(&self, object: &Object<'_>, whole: bool, checked: &mut Checked) -> Result<()> {
        self.shared.format.check_structure(&*self.now(), object, whole, checked)
    }

    /// Submits prepared commits together: one write and one sync for all, each on its own terms. All are acknowledged as
    /// the most durable of them asks.
    ///
    /// The answers are in the order of the commits: [`Error::Usage`] for one that was prepared in another repository; [`Error::Gone`]
    /// where another process has dropped what the commit goes on from, which is written anew then: prepared once more from the same
    /// tree, it can be submitted.
    #[must_use = "each commit may have failed"]
    pub fn submit(&self, commits: Vec<Prepared<F>>) -> Vec<Result<CommitId>> {
        let is_own = |prepared: &Prepared<F>| Arc::ptr_eq(&prepared.backend, &self.shared.backend);
        let of_here: Vec<bool> = commits.iter().map(is_own).collect();
        let own: Vec<Prepared<F>> = commits.into_iter().filter(is_own).collect();
        let durability = own.iter().map(|prepared| prepared.durability).max().unwrap_or(Durability::None);
        let parts = own
            .into_iter()
            .map(|prepared| ((prepared.batch, prepared.moves), (prepared.head, prepared.edited, prepared.kept)));
        let (batches, heads): (Vec<_>, Vec<_>) = parts.unzip();
        let placed = self.shared.backend.append_many(batches, durability);
        self.collect_if_due();
        let made = placed.into_iter().zip(heads).map(|(base, (head, edited, kept))| match base {
            Ok(base) => {
                let head = resolve(head, base);
                self.note_commit(head, edited);
                Ok(head)
            }
            Err(error) => {
                if let Error::Gone { oids } = &error {
                    write_anew(&self.now().with(kept), oids)?;
                }
                Err(error)
            }
        });
        let made: Vec<Result<ObjRef>> = made.collect();
        if let Some(&last) = made.iter().flatten().last() {
            self.keep_up_if_due(last);
        }
        let mut made = made.into_iter();
        let answer = |is_here: bool| -> Result<CommitId> {
            if !is_here {
                return Err(Error::Usage { reason: "a commit is submitted in the repository that prepared it" });
            }
            let head = made.next().unwrap_or(Err(Error::Unanswered))?;
            Ok(self.shared.commit_id(head))
        };
        of_here.into_iter().map(answer).collect()
    }
}

/// Returns the tree of a commit that the store keeps.
fn checkout<F: Format>(store: Arc<StoreView<F>>, at: ObjRef) -> Result<Tree<F>> {
    let root = commit_root(&store, &at)?;
    Ok(checkout_root(store, at, root))
}

/// Returns the root of a commit.
fn commit_root<F: Format>(store: &StoreView<F>, at: &ObjRef) -> Result<ObjRef> {
    let object = store.read(Kind::Commit, at)?;
    store.format.commit_tree(&object).map_err(|source| Error::BadObject { oid: at.oid, source })
}

/// Returns the tree of a commit with this root.
fn checkout_root<F: Format>(store: Arc<StoreView<F>>, at: ObjRef, root: ObjRef) -> Tree<F> {
    let mut tree = Tree::at(store, Some(root));
    tree.origin = Some(at);
    tree
}
