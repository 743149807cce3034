//! Commits in flight: going on from a tree while another thread commits it.
//!
//! [`Tree::fork_for_commit`] splits a
//! tree in two: one to be committed by another thread, and one that goes on. The latter sees the pending edits of the
//! former as one more layer of its own, until the commit has given them a root. What needs that root, such as hashing,
//! waits for it.

use std::{
    cell::RefCell,
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
    time::{Duration, Instant},
};

use bristlecone_core::{Format, ObjRef, Oid};
use smallvec::SmallVec;

use super::{
    Tree,
    patch::{DirRef, IN_FLIGHT_MAX, Patch, PatchLayers},
};
use crate::{Error, Result, Snapshot, pool, sync::lock};

/// How soon a waiting thread of a pool looks again for work to share.
const HELP_INTERVAL: Duration = Duration::from_micros(20);
/// How long a thread waits for a commit on which no thread works: perhaps the waiting thread is the one that should.
const IDLE_MAX: Duration = Duration::from_secs(5);

thread_local! {
    /// The trees in flight that calls on this thread write, by their addresses, the innermost call last. A thread of a pool that waits
    /// for others does another job of the pool meanwhile, and that may come to wait for one of these.
    static WRITTEN_HERE: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// The edits of a tree whose commit is in flight.
#[derive(Debug)]
pub(super) struct InFlight {
    // The edits; `None` if there are none.
    patch: Option<Arc<Patch>>,
    outcome: OnceLock<CommitOutcome>,
    // Keeps what was written without a commit: it may have been there before, and whoever goes on from it does not keep it yet.
    kept: OnceLock<Arc<dyn Snapshot>>,
    // How many calls write the tree, and when the last of them ended.
    work: Mutex<Writers>,
    changed: Condvar,
    // The commit in flight that this one goes on from, which is to be written first.
    below: Weak<InFlight>,
    // Those that it went on from until it was written. The thread that goes on from it drops them, which made their edits: an
    // allocator has threads wait for each other where one gives back what another one has got.
    spent: Mutex<Vec<Arc<InFlight>>>,
}

/// How many calls write a tree in flight, or since when there is no such call.
#[derive(Debug)]
enum Writers {
    Calls(u32),
    IdleSince(Instant),
}

/// What became of a commit in flight.
#[derive(Clone, Copy, Debug)]
enum CommitOutcome {
    /// The root that was written (`None`: an empty tree), and the commit if there was one.
    Written { base: Option<ObjRef>, origin: Option<ObjRef> },
    /// The tree was dropped: no thread will write it.
    Dropped,
}

/// Held by the tree that is to be committed: says what became of it, at the latest when it is dropped.
#[derive(Debug)]
pub(super) struct CommitTicket(Arc<InFlight>);

impl CommitTicket {
    /// Says that the tree was written, and what keeps that where no commit does.
    pub(super) fn complete(&self, base: Option<ObjRef>, origin: Option<ObjRef>, kept: Option<Arc<dyn Snapshot>>) {
        if let Some(kept) = kept {
            let _ = self.0.kept.set(kept);
        }
        self.0.decide(CommitOutcome::Written { base, origin });
    }

    /// Leaves what the tree went on from to the thread that goes on from it.
    pub(super) fn leave(&self, mut spent: Vec<Arc<InFlight>>) {
        lock(&self.0.spent).append(&mut spent);
    }
}

impl Drop for CommitTicket {
    fn drop(&mut self) {
        self.0.decide(CommitOutcome::Dropped);
    }
}

/// Says that a tree in flight is being written, or will be: while it lives, threads that wait for the tree go on waiting. By
/// [`Tree::writing`].
#[derive(Debug)]
#[must_use = "threads wait no longer once it is dropped"]
pub struct WritingTree(Option<Arc<InFlight>>);

impl Drop for WritingTree {
    fn drop(&mut self) {
        if let Some(layer) = &self.0 {
            let mut work = layer.lock();
            *work = match *work {
                Writers::Calls(calls @ 2..) => Writers::Calls(calls - 1),
                _ => Writers::IdleSince(Instant::now()),
            };
        }
    }
}

/// Says that a call on this thread is writing a tree in flight, until it is dropped where it was made. By [`Tree::writing_here`].
#[derive(Debug)]
#[must_use = "the call counts no longer once it is dropped"]
pub(crate) struct WritingCall(WritingTree);

impl Drop for WritingCall {
    fn drop(&mut self) {
        if self.0.0.is_some() {
            WRITTEN_HERE.with_borrow_mut(|written| _ = written.pop());
        }
    }
}

impl InFlight {
    fn new(patch: Option<Arc<Patch>>, below: Weak<Self>) -> Self {
        let work = Mutex::new(Writers::IdleSince(Instant::now()));
        let (outcome, kept, changed, spent) = (OnceLock::new(), OnceLock::new(), Condvar::default(), Mutex::default());
        Self { patch, outcome, kept, work, changed, below, spent }
    }

    fn lock(&self) -> MutexGuard<'_, Writers> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first decision stands.
    fn decide(&self, outcome: CommitOutcome) {
        if self.outcome.set(outcome).is_ok() {
            // A thread that looked before and found no outcome is waiting by the time this lock is held.
            drop(self.lock());
            self.changed.notify_all();
        }
    }

    /// Returns for how long no call has written this tree, or one that is to be written before it.
    fn idle(&self) -> Duration {
        let own = |layer: &Self| match &*layer.lock() {
            Writers::Calls(_) => Duration::ZERO,
            Writers::IdleSince(since) => since.elapsed(),
        };
        let mut idle = own(self);
        let mut below = self.below.upgrade();
        while let Some(layer) = below.filter(|layer| layer.outcome.get().is_none()) {
            idle = idle.min(own(&layer));
            below = layer.below.upgrade();
        }
        idle
    }

    /// Whether a call on this thread writes this tree, or one that is to be written before it. That call goes on once this thread
    /// waits no longer.
    fn is_written_here(&self) -> bool {
        WRITTEN_HERE.with_borrow(|written| {
            let is_here = |layer: &Self| written.contains(&std::ptr::from_ref(layer).addr());
            let mut found = is_here(self);
            let mut below = self.below.upgrade();
            while let Some(layer) = below.filter(|layer| !found && layer.outcome.get().is_none()) {
                found = is_here(&layer);
                below = layer.below.upgrade();
            }
            found
        })
    }

    /// Returns root and commit once there are any.
    fn wait(&self) -> Result<(Option<ObjRef>, Option<ObjRef>)> {
        let began = Instant::now();
        loop {
            if self.outcome.get().is_none() {
                if self.is_written_here() {
                    return Err(Error::Uncommitted { waited_ms: began.elapsed().as_millis() as u64, here: true });
                }
                if pool::help() {
                    // A thread of a pool helps: part of what it waits for may lie in the pool.
                    continue;
                }
            }
            // The time that the caller has waited counts, not what went by before it asked.
            let (idle, waited) = (self.idle(), began.elapsed());
            let guard = self.lock();
            match self.outcome.get() {
                Some(CommitOutcome::Written { base, origin }) => return Ok((*base, *origin)),
                Some(CommitOutcome::Dropped) => {
                    return Err(Error::Usage {
                        reason: "the tree that this one goes on from was dropped, not committed",
                    });
                }
                None if idle.min(waited) >= IDLE_MAX => {
                    return Err(Error::Uncommitted { waited_ms: waited.as_millis() as u64, here: false });
                }
                None => {}
            }
            let again = if pool::is_here() { HELP_INTERVAL } else { IDLE_MAX - idle.min(waited) };
            drop(self.changed.wait_timeout(guard, again).unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn written(&self) -> Option<(Option<ObjRef>, Option<ObjRef>)> {
        match self.outcome.get()? {
            CommitOutcome::Written { base, origin } => Some((*base, *origin)),
            CommitOutcome::Dropped => None,
        }
    }
}

impl<F: Format> Tree<F> {
    /// Returns the tree as it is, to be committed, and goes on from it: lookups and edits here see what it holds at
    /// once, so that one thread can prepare the next commit while another hashes and writes this one.
    ///
    /// [`Tree::get`], [`Tree::kind`], [`Tree::contains`], [`Tree::contains_tree`] and edits do not wait for the commit;
    /// whatever else asks for something of the tree, such as its root, its entries or a subtree, does. With two commits in
    /// flight the next call waits for the older one. A thread that holds both trees must not wait for itself: it commits
    /// the returned tree first.
    ///
    /// ```
    /// # use bristlecone::{Info, LogOptions, Repo};
    /// let repo = Repo::memory();
    /// let main = repo.branch("main")?;
    /// let mut tree = main.tree()?;
    /// tree.set("a", b"1")?;
    /// let mut first = tree.fork_for_commit()?;
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
    /// [`Error::Uncommitted`] if two are in flight, and for 5 seconds no thread has committed or written the older one or
    /// one before it. All calls that wait can return it. They change nothing then, and can be repeated. In a rayon pool a thread that
    /// commits one tree may do another job of the pool meanwhile: if that waits for the same commit, it gets this error at once, and
    /// is to be repeated after that commit.
    pub fn fork_for_commit(&mut self) -> Result<Self> {
        self.attach_active();
        self.forget_written();
        if self.in_flight.len() >= IN_FLIGHT_MAX {
            let oldest = self.in_flight.len() - 1;
            self.in_flight[oldest].wait()?;
            self.forget_written();
        }
        self.levels = self.levels_most();
        let patch = self.patch.take();
        let below = self.in_flight.first().map_or_else(Weak::new, Arc::downgrade);
        let layer = Arc::new(InFlight::new(patch.clone(), below));
        // Prewritten values belong to both.
        let prewritten = self.prewritten.get_or_insert_default().clone();
        // The snapshot of this tree keeps what it goes on from; that of the returned tree keeps what was edited so far.
        let roots: SmallVec<[Oid; 2]> = self.origin.iter().chain(&self.base).map(|at| at.oid).collect();
        let now = self.store.backend.snapshot(&roots);
        let store = if self.is_dropped() {
            // Until the returned tree is committed, which writes it anew, it is read through the snapshot of before.
            self.store.joined(&[now]).unwrap_or_else(|| self.store.clone())
        } else {
            self.store.with(now)
        };
        let frozen = Self {
            store: std::mem::replace(&mut self.store, store),
            held: std::mem::take(&mut self.held),
            base: self.base,
            levels: self.levels,
            patch,
            pending: std::mem::take(&mut self.pending),
            pending_most: std::mem::take(&mut self.pending_most),
            active: None,
            prewritten: Some(prewritten),
            origin: self.origin.take(),
            in_flight: self.in_flight.clone(),
            after: self.after.replace(layer.clone()),
            ticket: Some(CommitTicket(layer.clone())),
        };
        self.in_flight.insert(0, layer);
        Ok(frozen)
    }

    /// Forgets the commits in flight that have a root by now.
    pub(super) fn forget_written(&mut self) {
        let written = self.in_flight.iter().enumerate().find_map(|(index, layer)| Some((index, layer.written()?)));
        if let Some((index, (base, _))) = written {
            if let (Some(base), Some(_)) = (&base, self.in_flight[index].kept.get()) {
                self.store.snapshot.keep(&base.oid);
            }
            self.base = base;
            self.in_flight.drain(index..).for_each(|layer| lock(&layer.spent).clear());
        }
        if let Some((_, origin)) = self.after.as_ref().and_then(|after| after.written()) {
            (self.origin, self.after) = (origin, None);
        }
    }

    /// Returns what keeps objects for this tree, or for a directory of it that becomes a tree of its own.
    pub(super) fn held_below(&self) -> Vec<Arc<dyn Snapshot>> {
        let written = self.in_flight.iter().filter_map(|layer| layer.kept.get());
        self.held.iter().chain(written).cloned().collect()
    }

    /// Waits until what this tree goes on from is written, and goes on from its root.
    pub(crate) fn rebase(&mut self) -> Result<()> {
        self.origin = self.written_origin()?;
        self.after = None;
        self.written_base()?;
        self.forget_written();
        Ok(())
    }

    /// Returns what the edits apply to, once that is written.
    pub(super) fn written_base(&self) -> Result<Option<ObjRef>> {
        match self.in_flight.first() {
            None => Ok(self.base),
            Some(newest) => Ok(newest.wait()?.0),
        }
    }

    /// Says that the tree is being written, or will be, until what is returned is dropped.
    ///
    /// A thread that waits for a tree of [`Tree::fork_for_commit`] gives up with [`Error::Uncommitted`] when for 5 seconds no
    /// call has written that tree. Where trees wait for their turn, in a queue of another thread, each is to be given away
    /// with this.
    pub fn writing(&self) -> WritingTree {
        let layer = self.ticket.as_ref().map(|ticket| ticket.0.clone());
        if let Some(layer) = &layer {
            let mut work = layer.lock();
            *work = match *work {
                Writers::Calls(calls) => Writers::Calls(calls + 1),
                Writers::IdleSince(_) => Writers::Calls(1),
            };
        }
        WritingTree(layer)
    }

    /// As [`Tree::writing`], for a call on this thread that writes the tree itself.
    pub(crate) fn writing_here(&self) -> WritingCall {
        let writing = self.writing();
        if let Some(layer) = &writing.0 {
            WRITTEN_HERE.with_borrow_mut(|written| written.push(Arc::as_ptr(layer).addr()));
        }
        WritingCall(writing)
    }

    /// Returns the commit that the tree goes on from, once there is one.
    pub(crate) fn written_origin(&self) -> Result<Option<ObjRef>> {
        match (self.origin, &self.after) {
            (None, Some(after)) => Ok(after.wait()?.1),
            (origin, _) => Ok(origin),
        }
    }

    /// Returns the root directory with the edits of all commits in flight.
    pub(super) fn root_in_flight(&self) -> DirRef<'_> {
        let mut layers: PatchLayers<'_> = self.patch.iter().collect();
        for layer in &self.in_flight {
            if let Some((base, _)) = layer.written() {
                return DirRef::layered(&layers, base);
            }
            layers.extend(&layer.patch);
        }
        DirRef::layered(&layers, self.base)
    }

    /// Tells the tree that goes on from this one what this one was written as. `committed`: the origin leads to that.
    pub(crate) fn complete_ticket(&mut self, committed: bool) {
        if let Some(ticket) = self.ticket.take() {
            let kept = (!committed).then(|| self.store.snapshot.clone());
            ticket.complete(self.base, self.origin, kept);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::VecDeque, thread};

    use super::*;
    use crate::{Info, LogOptions, Repo, Tree};

    #[test]
    fn edits_are_dropped_by_the_thread_that_made_them() {
        for most in 1..=IN_FLIGHT_MAX {
            let repo = Repo::memory();
            let main = repo.branch("main").unwrap();
            let mut tree = main.tree().unwrap();
            let commit = |mut frozen: Tree| {
                main.commit(&mut frozen, &Info::message("next")).unwrap();
            };
            let (mut waiting, mut layers) = (VecDeque::new(), Vec::new());
            let alive = |layers: &[Weak<InFlight>]| layers.iter().filter(|layer| layer.strong_count() > 0).count();
            for number in 0..8 {
                tree.set("a/b", format!("{number}")).unwrap();
                waiting.push_back(tree.fork_for_commit().unwrap());
                layers.push(Arc::downgrade(&tree.in_flight[0]));
                if waiting.len() == most {
                    let (frozen, before) = (waiting.pop_front().unwrap(), alive(&layers));
                    assert!(before <= most + 1, "{before} with {most} in flight");
                    thread::scope(|scope| scope.spawn(|| commit(frozen)).join()).unwrap();
                    assert_eq!(alive(&layers), before, "with {most} in flight");
                }
            }
            waiting.into_iter().for_each(commit);
            let head = main.head().unwrap().unwrap();
            assert_eq!(repo.log(&[head], LogOptions::default()).count(), 8);
            assert_eq!(main.tree().unwrap().get("a/b").unwrap().unwrap(), b"7");
        }
    }
}
