//! Syncs beside the blocks: the disk makes one commit durable while the next block is applied.

use std::{
    sync::{
        Arc,
        mpsc::{Receiver, RecvError, SyncSender, sync_channel},
    },
    thread::JoinHandle,
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
    synced: Receiver<Result<()>>,
    thread: Option<JoinHandle<()>>,
    waiting: usize,
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
                    let done = backend.append(Batch::new(), &[], Durability::Synced).map(|_| ());
                    if outbox.send(done).is_err() {
                        break;
                    }
                }
            })
            .map_err(|error| Error::backend("a thread for syncs", error))?;
        Ok(Self { commits: Some(commits), synced, thread: Some(thread), waiting: 0 })
    }

    /// Returns how many commits wait for their syncs, as far as is known here.
    pub(super) const fn waiting(&self) -> usize {
        self.waiting
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
    /// Those of the sync: what was committed since the one before may be lost in a power cut.
    pub(super) fn settle(&mut self) -> Result<()> {
        while self.waiting > 0 {
            self.wait()?;
        }
        Ok(())
    }

    /// Waits for the sync of the commit that waits longest.
    fn wait(&mut self) -> Result<()> {
        self.waiting -= 1;
        self.synced.recv().unwrap_or_else(|RecvError| {
            Err(Error::backend("a commit is made durable", std::io::Error::other("the thread that syncs is gone")))
        })
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
