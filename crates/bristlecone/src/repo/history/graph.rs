//! Commits as walks read them: decoded, with their generation numbers.

use std::{cmp::Ordering, collections::BTreeSet, sync::Arc};

use bristlecone_core::{
    AHEAD_BYTES_MAX, AHEAD_OBJECTS_MAX, CallSize, Commit, Format, Kind, ObjRef, Object, Oid, Source, lent,
};

use smallvec::SmallVec;

use super::{super::retention::standing, LogEntry, ahead::Far, circle::circular, watch::Watch};
use crate::{
    AbsentCommits, Backend, DEEPENED, Result,
    oid_map::{OidMap, OidSet},
    store::StoreView,
};

/// How many parents of waiting commits are examined when one must be read.
pub(super) const LOOK_AHEAD_MAX: usize = 4 * AHEAD_OBJECTS_MAX;
/// In place of a generation number: it is being computed.
const OPEN: u64 = 0;

/// The commits of a store.
#[derive(Debug)]
pub(crate) struct CommitGraph<F: Format> {
    pub(super) store: Arc<StoreView<F>>,
    // What commits are read from together with trees, in a log of paths.
    source: Option<Arc<Far<F>>>,
    // Whether the numbers that commits carry can be believed, once that is known.
    numbered: Option<bool>,
    // Generation numbers of commits that came without, computed once for each walk.
    computed: OidMap<u64>,
    // Commits that history ends with, once they are known.
    shallow: Option<BTreeSet<Oid>>,
    // What retention has cut, once it is known.
    absent: Option<Arc<AbsentCommits>>,
    // Commits that were read ahead, and their bytes where they were read.
    ahead: OidMap<(LoadedCommit, usize)>,
    ahead_bytes: usize,
    call: CallSize,
}

/// A commit with its place, and its generation number if it carries one.
type LoadedCommit = (ObjRef, Commit, Option<u64>);

/// The parents of a commit.
pub(super) type Parents = SmallVec<[ObjRef; 2]>;

impl<F: Format> CommitGraph<F> {
    pub(crate) fn new(store: Arc<StoreView<F>>) -> Self {
        let (computed, ahead) = (OidMap::default(), OidMap::default());
        Self {
            store,
            source: None,
            numbered: None,
            computed,
            shallow: None,
            absent: None,
            ahead,
            ahead_bytes: 0,
            call: CallSize::new(AHEAD_OBJECTS_MAX),
        }
    }

    /// Reads commits from where trees are compared, if they are.
    pub(super) fn beside(self, watch: Option<&Watch<F>>) -> Self {
        Self { source: watch.map(|watch| watch.source().clone()), ..self }
    }

    /// Whether commits carry their generation numbers. Elsewhere, and where history was deepened since, one is known only after a
    /// walk through all of history.
    pub(super) fn numbered(&mut self) -> Result<bool> {
        Ok(match self.numbered {
            Some(numbered) => numbered,
            None => *self.numbered.insert(is_numbered(&*self.store.backend)?),
        })
    }

    /// Reads a commit, with its generation number where commits carry them.
    pub(super) fn read(&mut self, at: &ObjRef) -> Result<LogEntry> {
        if self.numbered()? {
            return self.read_numbered(at);
        }
        let (at, commit, generation) = self.load(at)?;
        Ok(self.entry(at, commit, generation))
    }

    /// Reads a commit alone.
    pub(super) fn commit(&mut self, at: &ObjRef) -> Result<Commit> {
        Ok(self.load_as_it_is(at)?.1)
    }

    /// Reads a commit and its generation number, computing it if need be.
    pub(crate) fn read_numbered(&mut self, at: &ObjRef) -> Result<LogEntry> {
        let (at, commit, stored) = self.load(at)?;
        let generation = match stored.or_else(|| self.computed.get(&at.oid).copied()) {
            Some(generation) => generation,
            None => {
                let parents = self.parents(&at.oid, &commit)?;
                self.compute(&at, parents)?
            }
        };
        Ok(self.entry(at, commit, Some(generation)))
    }

    fn entry(&self, at: ObjRef, commit: Commit, generation: Option<u64>) -> LogEntry {
        LogEntry { id: self.store.commit_id(at), commit, generation }
    }

    /// Returns the parents that history goes on with: none where a shallow clone was cut, and what is kept behind what retention
    /// has cut.
    pub(crate) fn parents(&mut self, oid: &Oid, commit: &Commit) -> Result<Parents> {
        let shallow = match &self.shallow {
            Some(shallow) => shallow,
            None => self.shallow.insert(self.store.backend.shallow()?),
        };
        if shallow.contains(oid) {
            return Ok(Parents::new());
        }
        let absent = match &self.absent {
            Some(absent) => absent,
            None => self.absent.insert(self.store.absent()?),
        };
        if absent.is_empty() {
            return Ok(commit.parents.iter().map(|&parent| parent.into()).collect());
        }
        let mut parents = Parents::new();
        for &parent in &commit.parents {
            parents.extend(standing(&self.store, absent, parent.into())?.filter(|next| !parents.contains(next)));
        }
        Ok(parents)
    }

    /// Reads what a walk needs of a commit.
    pub(crate) fn node(&mut self, at: &ObjRef) -> Result<QueuedCommit> {
        let entry = self.read_numbered(at)?;
        let parents = self.parents(&entry.id.oid(), &entry.commit)?;
        Ok(QueuedCommit { at: entry.id.into(), generation: entry.generation.unwrap_or_default(), parents })
    }

    /// Reads the generation number of a commit, where it carries one, and its parents.
    pub(super) fn links(&mut self, at: &ObjRef) -> Result<(Option<u64>, Parents)> {
        let (at, commit, generation) = self.load(at)?;
        Ok((generation, self.parents(&at.oid, &commit)?))
    }

    /// Whether a commit takes a call of its own, unless it is read ahead: it was not, and the store does not lend it. One
    /// that is lent waits from now on as if it had been read ahead.
    pub(super) fn is_far(&mut self, at: &ObjRef) -> bool {
        if self.ahead.contains_key(&at.oid) {
            return false;
        }
        let (store, source) = (self.store.clone(), self.source.clone());
        let object = match &source {
            Some(source) => source.get(Kind::Commit, at),
            None => lent(&*store, Kind::Commit, at),
        };
        let Some(object) = object else { return true };
        if let Ok(loaded) = self.decode(at, &object) {
            self.ahead.insert(at.oid, (loaded, 0));
        }
        false
    }

    /// Whether a commit takes a call, which may bring others with it: then a walk says what it will want, and looks ahead.
    pub(super) fn looks_ahead(&mut self, at: &ObjRef) -> bool {
        self.is_far(at) && !self.call.is_single()
    }

    /// Reads `first` and, in the same call, what a walk will want after it. Where `first` is not far, nothing is read.
    ///
    /// What is read waits until it is asked for: [`AHEAD_BYTES_MAX`] bytes at most, and one commit more.
    pub(super) fn look_ahead(&mut self, first: &ObjRef, others: impl IntoIterator<Item = ObjRef>) -> Result<()> {
        if !self.looks_ahead(first) {
            return Ok(());
        }
        let (mut wanted, mut asked) = (vec![(Kind::Commit, *first)], OidSet::from_iter([first.oid]));
        for at in others {
            if wanted.len() >= self.call.objects() {
                break;
            }
            if asked.insert(at.oid) && self.is_far(&at) {
                wanted.push((Kind::Commit, at));
            }
        }
        if self.ahead_bytes > AHEAD_BYTES_MAX / 2 {
            self.ahead.clear();
            self.ahead_bytes = 0;
        }
        let (store, source, room) = (self.store.clone(), self.source.clone(), AHEAD_BYTES_MAX - self.ahead_bytes);
        let objects = match &source {
            Some(source) => source.read_many(&wanted, room)?,
            None => store.read_many(&wanted, room)?,
        };
        let bytes: usize = objects.iter().map(Object::read_bytes).sum();
        self.call.answered(wanted.len(), objects.len() >= wanted.len() || bytes >= room);
        for ((_, at), object) in wanted.iter().zip(objects) {
            // What is wrong with a commit is reported when it is asked for.
            if let Ok(loaded) = self.decode(at, &object) {
                self.ahead_bytes += object.read_bytes();
                self.ahead.insert(at.oid, (loaded, object.read_bytes()));
            }
        }
        Ok(())
    }

    fn load(&mut self, at: &ObjRef) -> Result<LoadedCommit> {
        let numbered = self.numbered()?;
        let (at, commit, carried) = self.load_as_it_is(at)?;
        Ok((at, commit, carried.filter(|_| numbered)))
    }

    fn load_as_it_is(&mut self, at: &ObjRef) -> Result<LoadedCommit> {
        if let Some((loaded, bytes)) = self.ahead.remove(&at.oid) {
            self.ahead_bytes -= bytes;
            return Ok(loaded);
        }
        match &self.source {
            Some(source) => self.decode(at, &source.read(Kind::Commit, at)?),
            None => self.decode(at, &self.store.read(Kind::Commit, at)?),
        }
    }

    fn decode(&self, at: &ObjRef, object: &Object<'_>) -> Result<LoadedCommit> {
        let commit = self.store.decode_commit(object, at.oid)?;
        let place = if object.location().is_some() { object.location() } else { at.at };
        Ok((ObjRef::new(at.oid, place), commit, object.metadata_word(0).filter(|&generation| generation > 0)))
    }

    /// Computes the generation number of a commit whose record has none, from its ancestors'.
    fn compute(&mut self, at: &ObjRef, parents: Parents) -> Result<u64> {
        self.computed.insert(at.oid, OPEN);
        let mut stack = vec![OpenCommit { oid: at.oid, parents: parents.into_iter(), above: 0 }];
        let computed = self.compute_all(&mut stack);
        // Those that are left after an error have no number.
        stack.iter().for_each(|open| _ = self.computed.remove(&open.oid));
        computed
    }

    /// Computes the numbers of commits, of which each but the first is a parent of the one before; returns that of the first.
    fn compute_all(&mut self, stack: &mut Vec<OpenCommit>) -> Result<u64> {
        while let Some(top) = stack.last_mut() {
            let Some(parent) = top.parents.next() else {
                let generation = top.above.saturating_add(1);
                self.computed.insert(top.oid, generation);
                stack.pop();
                match stack.last_mut() {
                    Some(below) => below.above = below.above.max(generation),
                    None => return Ok(generation),
                }
                continue;
            };
            match self.computed.get(&parent.oid) {
                Some(&OPEN) => return Err(circular(parent.oid)),
                Some(&generation) => {
                    top.above = top.above.max(generation);
                    continue;
                }
                None => {}
            }
            let (parent, commit, stored) = self.load(&parent)?;
            match stored {
                Some(generation) => top.above = top.above.max(generation),
                None => {
                    let parents = self.parents(&parent.oid, &commit)?;
                    self.computed.insert(parent.oid, OPEN);
                    stack.push(OpenCommit { oid: parent.oid, parents: parents.into_iter(), above: 0 });
                }
            }
        }
        unreachable!("the loop ends with the commit that it began with")
    }
}

/// Whether commits of a store carry generation numbers that can be believed.
pub(crate) fn is_numbered(backend: &dyn Backend) -> Result<bool> {
    Ok(backend.capabilities().metadata_words && backend.get_ref(DEEPENED)?.is_none())
}

/// A commit whose parents are being looked at.
struct OpenCommit {
    oid: Oid,
    parents: smallvec::IntoIter<[ObjRef; 2]>,
    above: u64,
}

/// A commit in a queue: the one with the highest generation number comes out first.
#[derive(Clone, Debug)]
pub(crate) struct QueuedCommit {
    pub(crate) at: ObjRef,
    pub(crate) generation: u64,
    pub(crate) parents: Parents,
}

impl Ord for QueuedCommit {
    fn cmp(&self, other: &Self) -> Ordering {
        // The id only makes the order of answers the same each time.
        self.generation.cmp(&other.generation).then(self.at.oid.cmp(&other.at.oid))
    }
}

impl PartialOrd for QueuedCommit {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for QueuedCommit {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for QueuedCommit {}
