//! Syncs beside the blocks: the disk makes one commit durable while the next block is applied.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        mpsc::{Receiver, RecvError, SyncSender, sync_channel},
    },
    thread::JoinHandle,
    time::Instant,
};

use bristlecone::{Backend, Batch, Durability, Error, Result};

/// So many commits wait for their syncs. With one, both threads wait to be woken at each block; what more bring is in
/// `docs/performance.md`.
const WAITING_MAX: usize = 4;

/// A thread that syncs a store once for each commit, or for several that wait.
#[derive(Debug)]
pub(super) struct Syncer {
    /// `None` only while it is dropped.
    commits: Option<SyncSender<()>>,
    synced: Receiver<Result<Instant>>,
    thread: Option<JoinHandle<()>>,
    waiting: usize,
    /// When commits became durable, until somebody asks.
    durable_at: VecDeque<Instant>,
    /// Why a sync failed: whatever the store does then, nothing more is committed.
    failed: Option<Error>,
}

impl Syncer {
    /// Begins the thread.
    ///
    /// # Errors
    /// [`Error::Io`] if there can be none.
    pub(super) fn new(backend: Arc<dyn Backend>) -> Result<Self> {
        let (commits, inbox) = sync_channel::<()>(WAITING_MAX);
        let (outbox, synced) = sync_channel(WAITING_MAX);
        let thread = std::thread::Builder::new()
            .name("utxo-sync".into())
            .spawn(move || {
                for () in inbox {
                    // An append of nothing does what its durability asks for.
                    let done = backend.append(Batch::new(), &[], Durability::Synced).map(|_| Instant::now());
                    if outbox.send(done).is_err() {
                        break;
                    }
                }
            })
            .map_err(|error| Error::backend("a thread for syncs", error))?;
        let durable_at = VecDeque::new();
        Ok(Self { commits: Some(commits), synced, thread: Some(thread), waiting: 0, durable_at, failed: None })
    }

    /// Returns how many commits wait for their syncs, as far as is known here.
    pub(super) const fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns when the oldest commit became durable of those that were not asked for; `None` if there is none.
    pub(super) fn durable_at(&mut self) -> Option<Instant> {
        self.durable_at.pop_front()
    }

    /// Fails once a sync has failed: a commit behind it is not to be made.
    ///
    /// # Errors
    /// That of the first sync that failed.
    pub(super) fn check(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Begins to make a commit durable that was just made; waits until no more than [`WAITING_MAX`] wait.
    ///
    /// # Errors
    /// As [`Syncer::settle`].
    pub(super) fn begin(&mut self) -> Result<()> {
        while self.waiting >= WAITING_MAX {
            self.wait()?;
        }
        // Whether the thread is gone is learnt from what it sends.
        let _ = self.commits.as_ref().map(|commits| commits.send(()));
        self.waiting += 1;
        Ok(())
    }

    /// Waits until every commit is durable.
    ///
    /// # Errors
    /// Those of the sync: what was committed since the one before may be lost in a power cut. After one this fails always.
    pub(super) fn settle(&mut self) -> Result<()> {
        while self.waiting > 0 {
            self.wait()?;
        }
        self.check()
    }

    /// Waits for the sync of the commit that waits longest.
    fn wait(&mut self) -> Result<()> {
        self.waiting -= 1;
        let synced = self.synced.recv().unwrap_or_else(|RecvError| {
            Err(Error::backend("a commit is made durable", std::io::Error::other("the thread that syncs is gone")))
        });
        let at = synced.inspect_err(|error| _ = self.failed.get_or_insert_with(|| error.clone()))?;
        self.durable_at.push_back(at);
        Ok(())
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        drop(self.commits.take());
        if let Some(thread) = self.thread.take() {
            // What it panicked with was printed, and the sync that it did not answer failed.
            let _ = thread.join();
        }
    }
}
