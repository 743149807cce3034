//! A store that a command writes to, and what the command leaves there that nothing leads to.

use std::path::{Path, PathBuf};

use bristlecone::Position;
use bristlecone_any::{AnyBackend, AnyRepo};

/// A store of its own that is open for writing.
pub(super) struct Written {
    repo: AnyRepo,
    dir: PathBuf,
    // Where the store itself does not count what nothing leads to: the position of its refs, and how much was appended before.
    before: Option<(Position, u64)>,
}

/// What stays in a store that nothing leads to.
#[derive(Debug)]
pub(crate) struct Left {
    /// The folder of the store.
    pub(crate) dir: PathBuf,
    /// How much it is.
    pub(crate) bytes: u64,
    /// Whether the store counts it, so that it can be seen later, too.
    pub(crate) is_counted: bool,
}

impl Written {
    /// `None` of a store in memory.
    pub(super) fn new(repo: &AnyRepo) -> Option<Self> {
        let dir = repo.dir()?.to_owned();
        let counts = repo.disk().is_some() || repo.git().is_some();
        let before = if counts { None } else { position(repo).map(|at| (at, appended(repo))) };
        Some(Self { repo: repo.clone(), dir, before })
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) const fn repo(&self) -> &AnyRepo {
        &self.repo
    }

    /// Ends the writing, as far as the backend can, and returns what stays; `at_work`: other threads are at it, and the process ends.
    /// Where the store does not count that, it is what was appended while no ref moved. A Git repository counts for itself.
    pub(super) fn end(&self, at_work: bool) -> Left {
        if let (Some((git, _)), true) = (self.repo.git(), at_work) {
            // What stays is set right by the next one who opens the repository.
            let _ = git.abandon();
        }
        let bytes = match (self.repo.disk(), &self.before) {
            (Some(disk), _) => {
                // What cannot be closed now is cleaned up by the next one who opens the store.
                let _ = disk.abandon();
                disk.unreached_bytes()
            }
            (None, Some((at, before))) if position(&self.repo) == Some(*at) => {
                appended(&self.repo).saturating_sub(*before)
            }
            _ => 0,
        };
        Left { dir: self.dir.clone(), bytes, is_counted: self.repo.disk().is_some() }
    }
}

/// Returns what changes with every move of refs.
fn position(repo: &AnyRepo) -> Option<Position> {
    repo.backend().position().ok().flatten()
}

/// Returns how much was appended since the store was opened.
fn appended(repo: &AnyRepo) -> u64 {
    match repo.any_backend() {
        // Its other figures take a walk over all files.
        AnyBackend::Fs(fs) => fs.written_bytes(),
        _ => repo.backend().stats().bytes_written,
    }
}
