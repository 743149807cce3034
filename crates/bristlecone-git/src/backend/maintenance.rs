//! Maintenance beside appends: the worker's thread syncs what grouped appends deferred, repacks, and empties the trash.

use std::time::Duration;

use bristlecone::engine::Worker;

use super::{
    open_repository::{FLUSH, JOBS, OpenRepository, REPACK, TRASH},
    options::GitOptions,
};

/// How long files that are no longer needed wait to be removed.
const TRASH_PAUSE: Duration = Duration::from_secs(1);
/// Files in the trash from which on the worker empties it, and beyond which an append helps.
const TRASH_SOON: usize = 16;
const TRASH_MAX: usize = 256;

/// Returns the worker of a repository.
pub(super) fn worker(options: &GitOptions) -> Worker<OpenRepository, JOBS> {
    // Half of what was promised: the other half is for the sync.
    let flush_pause = Duration::from_millis(options.grouped_ms.div_ceil(2));
    Worker::new("cone-git", options.background, [flush_pause, Duration::ZERO, TRASH_PAUSE], OpenRepository::work)
}

impl OpenRepository {
    fn work(&self, job: usize) {
        match job {
            FLUSH => {
                // After a failed sync the next append says so. A lock that is held is tried again.
                if self.flush().is_err() && !self.poison.is_set() {
                    self.worker.ask(FLUSH);
                }
            }
            REPACK => self.repack_some(),
            _ => _ = self.refs.empty_trash(usize::MAX),
        }
    }

    /// Has the trash emptied: when it is quiet, since a process that makes files waits for one that removes some, or at
    /// once while there is much. What cannot be removed is tried again by a later opening.
    pub(super) fn empty_trash_soon(&self) {
        match self.refs.trash_len() {
            files if files > TRASH_MAX || !self.options.background => _ = self.refs.empty_trash(2),
            files if files >= TRASH_SOON => _ = self.worker.ask(TRASH),
            _ => {}
        }
    }
}
