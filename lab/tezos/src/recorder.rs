//! Recording: what is done to a repository of Tezos contexts, as a trace.
//!
//! Whether a mention of a context or commit is the last one is not known when its row is written. So every mention
//! is written as one that others follow, the place of each living thing's last mention is kept, and when the last
//! handle of the thing goes, that place is changed. In a line of blocks this happens a row later, while the row is
//! still in memory.

use std::{
    collections::HashMap,
    io::{Seek, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bristlecone::{CommitId, Durability, Error, Info, Repo, Signature, Tezos, core::tezos::commit_text};
use thiserror::Error;

use crate::{
    TraceError,
    hashes::HashesBuf,
    row::Row,
    scoped::{ContextId, Scoped},
    writer::Writer,
};

mod tree;

pub use tree::RecordedTree;

/// Who makes all commits of a trace.
const AUTHOR: &str = "Tezos";

/// Writes down what is done to the trees that it hands out.
///
/// A trace begins with the empty tree: what a repository holds already is no part of it.
///
/// ```
/// use bristlecone::{MemoryBackend, Repo, Tezos};
/// use bristlecone_tezos::{Reader, Recorder, TraceInfo};
///
/// let file = tempfile::tempfile()?;
/// let repo = Repo::with_backend(Tezos::new(), std::sync::Arc::new(MemoryBackend::new()));
/// let (recorder, mut tree) = Recorder::new(repo, file.try_clone()?)?;
/// tree.set("data/version", b"genesis")?;
/// let head = recorder.commit(&mut tree, &[], 1_530_374_852, b"Genesis")?;
/// println!("{}", head.hash());
/// recorder.finish()?;
/// # use std::io::Seek;
/// # (&file).rewind()?;
/// # let (mut reader, mut info) = (Reader::new(&file, "recorded")?, TraceInfo::new());
/// # while info.read_row(&mut reader)? {}
/// # assert_eq!((info.rows_all(), info.last_commit()), (2, head.hash().as_bytes()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Recorder {
    repo: Repo<Tezos>,
    shared: Arc<Shared>,
    durability: Durability,
}

impl Recorder {
    /// Begins a trace, and returns the empty tree with which it begins. `write` may hold something before it.
    ///
    /// # Errors
    /// [`RecordError::Trace`].
    pub fn new(
        repo: Repo<Tezos>,
        write: impl Write + Seek + Send + 'static,
    ) -> Result<(Self, RecordedTree), RecordError> {
        let writer = Writer::named(Box::new(write) as Box<dyn Target>, "the trace being recorded")?;
        let shared = Arc::new(Shared(Mutex::new(State::new(writer))));
        let context = Context::new(0, &shared, &mut shared.lock());
        let tree = RecordedTree::new(repo.tree(), context);
        Ok((Self { repo, shared, durability: Durability::Synced }, tree))
    }

    /// Sets when commits are acknowledged; at first, when they are synced.
    #[must_use]
    pub const fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Returns the repository.
    #[must_use]
    pub const fn repo(&self) -> &Repo<Tezos> {
        &self.repo
    }

    /// Commits a tree, as the author `Tezos`; `date` in seconds since 1970-01-01 00:00 UTC. No branch is moved.
    ///
    /// # Errors
    /// [`RecordError::Store`] as [`Repo::commit_tree`], for an empty tree too; [`RecordError::Foreign`];
    /// [`RecordError::Trace`]; [`RecordError::Ended`].
    pub fn commit(
        &self,
        tree: &mut RecordedTree,
        parents: &[&RecordedCommit],
        date: i64,
        message: &[u8],
    ) -> Result<RecordedCommit, RecordError> {
        self.check(tree.context())?;
        parents.iter().try_for_each(|parent| self.check(&parent.hash))?;
        let who = Signature::new(AUTHOR, date);
        let info = Info::message(message).by(who).durability(self.durability);
        let above: Vec<CommitId> = parents.iter().map(|parent| parent.at).collect();
        let at = self.repo.commit_tree(tree.tree_mut(), &above, &info)?;
        let text = commit_text(&at.oid());
        let mut hashes = HashesBuf::new();
        parents.iter().for_each(|parent| hashes.push(Scoped::keep(parent.hash().as_bytes())));
        let mut state = self.shared.lock();
        state.record(&Row::Commit {
            hash: Scoped::keep(text.as_bytes()),
            date,
            message,
            parents: hashes.as_hashes(),
            input: Scoped::keep(tree.context().name),
        })?;
        Ok(RecordedCommit { at, hash: Hash::new(text, &self.shared, &mut state) })
    }

    /// Returns the tree of a commit of this recording.
    ///
    /// # Errors
    /// [`RecordError::Store`] as [`Repo::checkout`]; [`RecordError::Foreign`]; [`RecordError::Trace`];
    /// [`RecordError::Ended`].
    pub fn checkout(&self, commit: &RecordedCommit) -> Result<RecordedTree, RecordError> {
        self.check(&commit.hash)?;
        let tree = self.repo.checkout(commit.at)?;
        let mut state = self.shared.lock();
        let output = state.next_context();
        state.record(&Row::Checkout { hash: Scoped::keep(commit.hash().as_bytes()), output: Scoped::keep(output) })?;
        Ok(RecordedTree::new(tree, Context::new(output, &self.shared, &mut state)))
    }

    /// Ends the trace: what is alive is not mentioned again. Handles that are left can no longer be used.
    ///
    /// # Errors
    /// [`RecordError::Trace`] if writing failed now or at any time before.
    pub fn finish(self) -> Result<(), RecordError> {
        self.shared.lock().finish()
    }

    fn check<T: Living>(&self, thing: &Arc<Handle<T>>) -> Result<(), RecordError> {
        if Arc::ptr_eq(&thing.shared, &self.shared) { Ok(()) } else { Err(RecordError::Foreign) }
    }
}

/// A commit of a recording. Its hash is mentioned for the last time when all clones are gone.
#[derive(Clone, Debug)]
pub struct RecordedCommit {
    at: CommitId,
    hash: Arc<Hash>,
}

impl RecordedCommit {
    /// Returns where the commit is in the repository.
    #[must_use]
    pub const fn at(&self) -> CommitId {
        self.at
    }

    /// Returns the base58 text of its hash.
    #[must_use]
    pub fn hash(&self) -> &str {
        &self.hash.name
    }
}

/// Why something could not be recorded.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The store did not do it, so nothing was recorded.
    #[error(transparent)]
    Store(#[from] Error),
    /// The trace could not be written; the recording is of no use any more.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A tree or commit of another recording.
    #[error("a tree or commit belongs to another recording")]
    Foreign,
    /// A copy of what is not there.
    #[error("there is nothing at {path} to copy")]
    NothingToCopy {
        /// Where.
        path: String,
    },
    /// The recording was finished, or could not be written before.
    #[error("the recording has ended")]
    Ended,
}

/// What a trace is written to.
trait Target: Write + Seek + Send {}

impl<T: Write + Seek + Send> Target for T {}

/// The trace being written, and what is alive in it.
struct Shared(Mutex<State>);

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct State {
    // `None` when the trace has ended, well or not.
    writer: Option<Writer<Box<dyn Target>>>,
    // What ended it, if the end was not told to anybody.
    failure: Option<TraceError>,
    // The offset of the scope tag of the last mention of what is alive. A context that was never mentioned has none.
    contexts: HashMap<ContextId, u64>,
    // For commits also the number of handles: the same commit may be made twice.
    hashes: HashMap<String, (u64, usize)>,
    context_next: ContextId,
}

impl State {
    fn new(writer: Writer<Box<dyn Target>>) -> Self {
        let (contexts, hashes) = Default::default();
        Self { writer: Some(writer), failure: None, contexts, hashes, context_next: 1 }
    }

    fn next_context(&mut self) -> ContextId {
        self.context_next += 1;
        self.context_next - 1
    }

    /// Writes a row and notes the mentions in it.
    fn record(&mut self, row: &Row<'_>) -> Result<(), RecordError> {
        if let Some(error) = self.failure.take() {
            return Err(error.into());
        }
        let writer = self.writer.as_mut().ok_or(RecordError::Ended)?;
        if let Err(error) = writer.row(row) {
            self.writer = None;
            return Err(error.into());
        }
        let mut offsets = writer.scope_offsets().iter().copied();
        let (contexts, hashes) = (&mut self.contexts, &mut self.hashes);
        let mut hash = |text: &[u8], offset: Option<u64>| {
            if let (Ok(text), Some(offset)) = (std::str::from_utf8(text), offset) {
                match hashes.get_mut(text) {
                    Some((last, _)) => *last = offset,
                    None => drop(hashes.insert(text.to_owned(), (offset, 0))),
                }
            }
        };
        let mut context = |context: Scoped<ContextId>, offset: Option<u64>| {
            offset.map(|offset| contexts.insert(context.value, offset));
        };
        match *row {
            Row::Checkout { hash: mentioned, output } => {
                hash(mentioned.value, offsets.next());
                context(output, offsets.next());
            }
            Row::Add { input, output, .. } | Row::Remove { input, output, .. } | Row::Copy { input, output, .. } => {
                context(input, offsets.next());
                context(output, offsets.next());
            }
            Row::Find { input, .. } | Row::Mem { input, .. } | Row::MemTree { input, .. } => {
                context(input, offsets.next());
            }
            Row::Commit { hash: made, parents, input, .. } => {
                hash(made.value, offsets.next());
                parents.iter().for_each(|parent| hash(parent.value, offsets.next()));
                context(input, offsets.next());
            }
        }
        Ok(())
    }

    /// Marks a mention as the last one. A failure has no caller to go to here: the next call returns it.
    fn forget(&mut self, offset: u64) {
        if let Some(writer) = &mut self.writer
            && let Err(error) = writer.forget(offset)
        {
            self.writer = None;
            self.failure = Some(error);
        }
    }

    fn finish(&mut self) -> Result<(), RecordError> {
        let (contexts, hashes) = (std::mem::take(&mut self.contexts), std::mem::take(&mut self.hashes));
        contexts.into_values().for_each(|offset| self.forget(offset));
        hashes.into_values().for_each(|(offset, _)| self.forget(offset));
        if let Some(error) = self.failure.take() {
            return Err(error.into());
        }
        self.writer.take().ok_or(RecordError::Ended)?.finish()?;
        Ok(())
    }
}

/// A name in the trace that a tree or commit holds. It may be mentioned until it is dropped.
#[derive(Debug)]
struct Handle<T: Living> {
    name: T,
    shared: Arc<Shared>,
}

type Context = Handle<ContextId>;
type Hash = Handle<String>;

/// What can be alive in a trace.
trait Living: Sized {
    /// Notes that a handle came.
    fn held(&self, state: &mut State);
    /// Notes that a handle went; returns the place of the last mention if it was the last handle.
    fn dropped(&self, state: &mut State) -> Option<u64>;
}

impl Living for ContextId {
    fn held(&self, _: &mut State) {}

    fn dropped(&self, state: &mut State) -> Option<u64> {
        state.contexts.remove(self)
    }
}

impl Living for String {
    fn held(&self, state: &mut State) {
        if let Some((_, handles)) = state.hashes.get_mut(self) {
            *handles += 1;
        }
    }

    fn dropped(&self, state: &mut State) -> Option<u64> {
        let (_, handles) = state.hashes.get_mut(self)?;
        *handles -= 1;
        if *handles > 0 {
            return None;
        }
        state.hashes.remove(self).map(|(offset, _)| offset)
    }
}

impl<T: Living> Handle<T> {
    /// Makes a handle of what a row has just mentioned, before anybody else has the state.
    fn new(name: T, shared: &Arc<Shared>, state: &mut State) -> Arc<Self> {
        name.held(state);
        Arc::new(Self { name, shared: shared.clone() })
    }
}

impl<T: Living> Drop for Handle<T> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        if let Some(offset) = self.name.dropped(&mut state) {
            state.forget(offset);
        }
    }
}
