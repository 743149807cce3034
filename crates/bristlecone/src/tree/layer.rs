//! Going on from a tree while another thread commits it.
//!
//! [`Tree::ahead`] parts a tree in two: one to be committed elsewhere, and one that goes on. The latter looks
//! through the pending edits of the former as through one more layer of its own, until the commit has given them
//! a root. What needs that root, such as hashing, waits for it.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
    time::{Duration, Instant},
};

use bristlecone_core::{Format, ObjRef, Oid};
use smallvec::SmallVec;

use super::{
    Tree,
    patch::{LAYERS_MAX, Layers, Patch, Place},
};
use crate::{Error, Result, pool};

/// How soon a thread of a pool that waits looks again for work to share.
const HELP_AGAIN: Duration = Duration::from_micros(20);
/// How long a thread waits while no other is at what it waits for: perhaps it is the one that should be.
const IDLE_MAX: Duration = Duration::from_secs(5);

/// The edits of a tree that is on its way to a commit.
#[derive(Debug)]
pub(super) struct Layer {
    // What stands over everything below; `None`: nothing.
    patch: Option<Arc<Patch>>,
    outcome: OnceLock<Outcome>,
    // How many calls are writing it, and when the last of them ended.
    work: Mutex<Work>,
    changed: Condvar,
    // The layer that it goes on from itself, which is to be written first.
    below: Weak<Layer>,
}

/// How many calls are at a layer, or since when there is none.
#[derive(Debug)]
enum Work {
    Calls(u32),
    IdleSince(Instant),
}

/// What became of it.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    /// Its root (`None`: nothing), and the commit if it was one.
    Written { base: Option<ObjRef>, origin: Option<ObjRef> },
    /// Nobody will write it.
    Dropped,
}

/// The duty to say what became of a layer.
#[derive(Debug)]
pub(super) struct Promise(Arc<Layer>);

impl Promise {
    /// Says that the layer was written.
    pub(super) fn keep(&self, base: Option<ObjRef>, origin: Option<ObjRef>) {
        self.0.decide(Outcome::Written { base, origin });
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.0.decide(Outcome::Dropped);
    }
}

/// A call that writes the tree of a layer: whoever waits for it waits on.
#[derive(Debug)]
pub(crate) struct Writing(Option<Arc<Layer>>);

impl Drop for Writing {
    fn drop(&mut self) {
        if let Some(layer) = &self.0 {
            let mut work = layer.lock();
            *work = match *work {
                Work::Calls(calls @ 2..) => Work::Calls(calls - 1),
                _ => Work::IdleSince(Instant::now()),
            };
        }
    }
}

impl Layer {
    fn new(patch: Option<Arc<Patch>>, below: Weak<Self>) -> Self {
        let work = Mutex::new(Work::IdleSince(Instant::now()));
        Self { patch, outcome: OnceLock::new(), work, changed: Condvar::default(), below }
    }

    fn lock(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first decision stands.
    fn decide(&self, outcome: Outcome) {
        if self.outcome.set(outcome).is_ok() {
            // Whoever looked before and found nothing is waiting by the time this lock is had.
            drop(self.lock());
            self.changed.notify_all();
        }
    }

    /// Returns how long no call has been writing the layer or one that is to be written before it.
    fn idle(&self) -> Duration {
        let own = |layer: &Self| match &*layer.lock() {
            Work::Calls(_) => Duration::ZERO,
            Work::IdleSince(since) => since.elapsed(),
        };
        let mut idle = own(self);
        let mut below = self.below.upgrade();
        while let Some(layer) = below.filter(|layer| layer.outcome.get().is_none()) {
            idle = idle.min(own(&layer));
            below = layer.below.upgrade();
        }
        idle
    }

    /// Returns root and commit once there are any.
    fn wait(&self) -> Result<(Option<ObjRef>, Option<ObjRef>)> {
        let began = Instant::now();
        loop {
            if self.outcome.get().is_none() && pool::help() {
                // A thread of a pool helps: what it waits for may have been shared out.
                continue;
            }
            // The time that the caller has waited counts, not what went by before it asked.
            let (idle, waited) = (self.idle(), began.elapsed());
            let guard = self.lock();
            match self.outcome.get() {
                Some(Outcome::Written { base, origin }) => return Ok((*base, *origin)),
                Some(Outcome::Dropped) => {
                    return Err(Error::Usage {
                        reason: "the tree that this one goes on from was dropped, not committed",
                    });
                }
                None if idle.min(waited) >= IDLE_MAX => {
                    return Err(Error::Uncommitted { waited_ms: waited.as_millis() as u64 });
                }
                None => {}
            }
            let again = if pool::is_here() { HELP_AGAIN } else { IDLE_MAX - idle.min(waited) };
            drop(self.changed.wait_timeout(guard, again).unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn written(&self) -> Option<(Option<ObjRef>, Option<ObjRef>)> {
        match self.outcome.get()? {
            Outcome::Written { base, origin } => Some((*base, *origin)),
            Outcome::Dropped => None,
        }
    }
}

impl<F: Format> Tree<F> {
    /// Returns the tree as it is, to be committed, and goes on from it: lookups and edits here see what it holds at
    /// once, so that one thread can prepare the next commit while another hashes and writes this one.
    ///
    /// [`Tree::get`], [`Tree::kind`], [`Tree::contains`], [`Tree::contains_tree`] and edits do not wait for the commit; whatever else asks for
    /// something of the tree, such as its root, its entries or a subtree, does. With two commits on their
    /// way the next call waits for the older. A thread that holds both trees must not wait for itself: it commits the
    /// one that this returns first.
    ///
    /// ```
    /// # use bristlecone::{Info, LogOptions, Repo};
    /// let repo = Repo::memory();
    /// let main = repo.branch("main")?;
    /// let mut tree = main.tree()?;
    /// tree.set("a", b"1")?;
    /// let mut first = tree.ahead()?;
    /// std::thread::scope(|scope| {
    ///     let commit = scope.spawn(|| main.commit(&mut first, &Info::message("first")));
    ///     tree.set("b", b"2")?;
    ///     assert!(tree.contains("a")? && tree.contains("b")?);
    ///     commit.join().expect("no panic")
    /// })?;
    /// main.commit(&mut tree, &Info::message("second"))?;
    /// let head = tree.origin().expect("it was committed");
    /// assert_eq!(repo.log(&[head], LogOptions::default()).count(), 2);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] if an earlier tree that this one goes on from was dropped without being committed;
    /// [`Error::Uncommitted`] if two are on their way, and for 5 seconds no thread has been committing or writing the
    /// older one or one before it. So do all calls that wait: nothing is changed by them, and they can be made again.
    pub fn ahead(&mut self) -> Result<Self> {
        self.settle();
        self.forget_written();
        if self.lower.len() >= LAYERS_MAX {
            let oldest = self.lower.len() - 1;
            self.lower[oldest].wait()?;
            self.forget_written();
        }
        self.levels = self.levels_most();
        let patch = self.patch.take();
        let below = self.lower.first().map_or_else(Weak::new, Arc::downgrade);
        let layer = Arc::new(Layer::new(patch.clone(), below));
        // Large values that are on their way belong to both.
        let early = self.early.get_or_insert_default().clone();
        // What this tree goes on from, or will, is kept by its own snapshot; what was edited so far, by that of the other.
        let roots: SmallVec<[Oid; 2]> = self.origin.iter().chain(&self.base).map(|at| at.oid).collect();
        let store = self.store.with(self.store.backend.snapshot(&roots));
        let frozen = Self {
            store: std::mem::replace(&mut self.store, store),
            held: std::mem::take(&mut self.held),
            base: self.base,
            levels: self.levels,
            patch,
            finger: None,
            early: Some(early),
            origin: self.origin.take(),
            lower: self.lower.clone(),
            after: self.after.replace(layer.clone()),
            promise: Some(Promise(layer.clone())),
        };
        self.lower.insert(0, layer);
        Ok(frozen)
    }

    /// Lets go of the layers that have a root by now.
    pub(super) fn forget_written(&mut self) {
        let written = self.lower.iter().enumerate().find_map(|(index, layer)| Some((index, layer.written()?)));
        if let Some((index, (base, _))) = written {
            self.base = base;
            self.lower.truncate(index);
        }
    }

    /// Waits until what this tree goes on from is written, and goes on from its root.
    pub(crate) fn rebase(&mut self) -> Result<()> {
        self.origin = self.written_origin()?;
        self.after = None;
        self.base = self.written_base()?;
        self.lower.clear();
        Ok(())
    }

    /// Returns what the edits apply to, once that is written.
    pub(super) fn written_base(&self) -> Result<Option<ObjRef>> {
        match self.lower.first() {
            None => Ok(self.base),
            Some(newest) => Ok(newest.wait()?.0),
        }
    }

    /// Says that the tree is being written, until what is returned is dropped.
    pub(crate) fn writing(&self) -> Writing {
        let layer = self.promise.as_ref().map(|promise| promise.0.clone());
        if let Some(layer) = &layer {
            let mut work = layer.lock();
            *work = match *work {
                Work::Calls(calls) => Work::Calls(calls + 1),
                Work::IdleSince(_) => Work::Calls(1),
            };
        }
        Writing(layer)
    }

    /// Returns the commit that the tree goes on from, once there is one.
    pub(crate) fn written_origin(&self) -> Result<Option<ObjRef>> {
        match (self.origin, &self.after) {
            (None, Some(after)) => Ok(after.wait()?.1),
            (origin, _) => Ok(origin),
        }
    }

    /// Returns the root as a place with all layers that have no root yet.
    pub(super) fn layered_root(&self) -> Place<'_> {
        let mut layers: Layers<'_> = self.patch.iter().collect();
        for layer in &self.lower {
            if let Some((base, _)) = layer.written() {
                return Place::layered(&layers, base);
            }
            layers.extend(&layer.patch);
        }
        Place::layered(&layers, self.base)
    }

    /// Tells the tree that goes on from this one what became of it.
    pub(crate) fn keep_promise(&mut self) {
        if let Some(promise) = self.promise.take() {
            promise.keep(self.base, self.origin);
        }
    }
}
