//! Committing behind the rows: one thread applies them, another hashes and writes what they led to.
//!
//! At a Commit the tree is split ([`Tree::fork_for_commit`]): one part goes to the thread that commits, in the order of the trace,
//! the other is what a Checkout of that commit gives, and is there at once. Every answer and every hash is that of the
//! serial replay; only the clock knows. An error of a commit comes back with a later row, or at the end, and names
//! the row of the commit.

use std::{
    collections::{HashMap, VecDeque},
    sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel},
    time::{Duration, Instant},
};

use bristlecone::{Error, Format, Tree, WritingTree};

use super::{
    CommitHash, Place,
    commit::{Committer, Plan},
    error::Fault,
};
use crate::Scoped;

/// How many commits may wait. The trees bound it too.
const WAITING_MAX: usize = 4;

/// A commit that failed, which shows later.
#[derive(Debug)]
pub(super) struct Late {
    /// Its row.
    pub(super) place: Box<Place>,
    pub(super) fault: Box<Fault>,
}

/// A commit that was made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Made {
    /// How long it took.
    pub(super) took: Duration,
    /// When it was done, with all that belongs to its block.
    pub(super) at: Instant,
}

impl Made {
    fn now(took: Duration) -> Self {
        Self { took, at: Instant::now() }
    }
}

/// What commits of a trace are made by.
pub(super) trait Commits<F: Format> {
    /// Returns the tree of the commit that a recorded hash became, or will become.
    fn checkout(&mut self, hash: Scoped<CommitHash>) -> Result<Tree<F>, Fault>;

    /// Commits a tree, now or soon. Afterwards the tree is that of the commit.
    fn commit(&mut self, tree: &mut Tree<F>, plan: Plan, place: impl FnOnce() -> Place) -> Result<(), Fault>;

    /// Tells of each commit that was made since the last call, in order, and of the first that failed, with its row.
    fn made(&mut self, tell: &mut dyn FnMut(Made)) -> Result<(), Late>;
}

/// One after the other, on one thread.
pub(super) struct Serially<'c, F: Format> {
    committer: &'c mut Committer<F>,
    made: Option<Made>,
}

impl<'c, F: Format> Serially<'c, F> {
    pub(super) const fn new(committer: &'c mut Committer<F>) -> Self {
        Self { committer, made: None }
    }
}

impl<F: Format> Commits<F> for Serially<'_, F> {
    fn checkout(&mut self, hash: Scoped<CommitHash>) -> Result<Tree<F>, Fault> {
        self.committer.checkout(hash)
    }

    fn commit(&mut self, tree: &mut Tree<F>, plan: Plan, _: impl FnOnce() -> Place) -> Result<(), Fault> {
        self.made = Some(Made::now(self.committer.commit(tree, plan)?));
        Ok(())
    }

    fn made(&mut self, tell: &mut dyn FnMut(Made)) -> Result<(), Late> {
        self.made.take().into_iter().for_each(tell);
        Ok(())
    }
}

/// What the committing thread is told.
enum Job<F: Format> {
    /// With what says that the tree will be written, however long others before it take.
    Commit(Box<Tree<F>>, Plan, WritingTree),
    /// A commit that was mentioned for the last time, other than as a parent.
    Forget(CommitHash),
}

/// On a thread behind.
pub(super) struct Behind<F: Format> {
    jobs: SyncSender<Job<F>>,
    done: Receiver<Result<Made, Fault>>,
    // The rows of the commits that are on their way.
    places: VecDeque<Place>,
    // The trees of the commits that may be mentioned again.
    trees: HashMap<CommitHash, Tree<F>>,
}

impl<F: Format> Behind<F> {
    /// Calls `work` with a thread behind it that commits; returns once all commits are made or one has failed. Both are
    /// threads of one pool, in which large commits are shared out.
    ///
    /// # Errors
    /// If there can be no threads.
    pub(super) fn with<T: Send>(
        threads: usize,
        committer: &mut Committer<F>,
        work: impl FnOnce(&mut Self) -> T + Send,
    ) -> Result<(T, Self), Error> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads.max(2))
            .thread_name(|index| format!("replay-{index}"))
            .build()
            .map_err(|error| Error::backend("a pool of threads", error))?;
        let (jobs, inbox) = sync_channel(WAITING_MAX);
        let (outbox, done) = channel();
        let mut behind = Self { jobs, done, places: VecDeque::new(), trees: HashMap::new() };
        let worked = pool.install(|| {
            rayon::scope(|scope| {
                let (started, start) = sync_channel(1);
                scope.spawn(move |_| {
                    let _ = started.send(());
                    commit_all(committer, inbox, &outbox);
                });
                // Without this, the thread of the rows could take the job itself when it helps.
                let _ = start.recv();
                let worked = work(&mut behind);
                // The thread ends with its last job.
                behind.jobs = sync_channel(0).0;
                worked
            })
        });
        Ok((worked, behind))
    }

    /// Returns the first failure with its row; what was to follow is not waited for.
    fn first_failed(&mut self, fault: Fault) -> Late {
        let place = self.places.pop_front().unwrap_or_default();
        self.places.clear();
        Late { place: Box::new(place), fault: Box::new(fault) }
    }

    /// Tells the other thread; whether it is gone is learnt from what it has sent.
    fn tell(&self, job: Job<F>) {
        let _ = self.jobs.send(job);
    }
}

/// Commits what comes in until nothing more does or something fails; what is then still waiting is dropped, so that
/// nobody waits for it.
fn commit_all<F: Format>(committer: &mut Committer<F>, inbox: Receiver<Job<F>>, outbox: &Sender<Result<Made, Fault>>) {
    for job in inbox {
        let (mut tree, plan, _writing) = match job {
            Job::Commit(tree, plan, writing) => (tree, plan, writing),
            Job::Forget(hash) => {
                committer.forget(hash);
                continue;
            }
        };
        let made = committer.commit(&mut tree, plan).map(Made::now);
        let failed = made.is_err();
        // The other thread asks no more if the rows have failed.
        let _ = outbox.send(made);
        if failed {
            return;
        }
    }
}

impl<F: Format> Commits<F> for Behind<F> {
    fn checkout(&mut self, hash: Scoped<CommitHash>) -> Result<Tree<F>, Fault> {
        let Scoped { value, keep } = hash;
        if keep {
            return self.trees.get(&value).cloned().ok_or(Fault::Commit { hash: value });
        }
        self.tell(Job::Forget(value));
        self.trees.remove(&value).ok_or(Fault::Commit { hash: value })
    }

    fn commit(&mut self, tree: &mut Tree<F>, plan: Plan, place: impl FnOnce() -> Place) -> Result<(), Fault> {
        for parent in plan.parents() {
            let known = if parent.keep {
                self.trees.contains_key(&parent.value)
            } else {
                self.trees.remove(&parent.value).is_some()
            };
            if !known {
                return Err(Fault::Commit { hash: parent.value });
            }
        }
        let frozen = tree.fork_for_commit()?;
        let (hash, writing) = (plan.hash(), frozen.writing());
        self.places.push_back(place());
        self.tell(Job::Commit(Box::new(frozen), plan, writing));
        if hash.keep {
            self.trees.insert(hash.value, tree.clone());
        } else {
            self.trees.remove(&hash.value);
        }
        Ok(())
    }

    fn made(&mut self, tell: &mut dyn FnMut(Made)) -> Result<(), Late> {
        loop {
            match self.done.try_recv() {
                Ok(Ok(made)) => {
                    self.places.pop_front();
                    tell(made);
                }
                Ok(Err(fault)) => return Err(self.first_failed(fault)),
                Err(TryRecvError::Disconnected) if !self.places.is_empty() => {
                    let gone = std::io::Error::other("the thread that commits is gone");
                    return Err(self.first_failed(Fault::Store(Error::io(String::new(), gone))));
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return Ok(()),
            }
        }
    }
}
