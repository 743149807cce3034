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
    /// `None` of a Git repository, which counts for itself, and of a store in memory.
    pub(super) fn new(repo: &AnyRepo) -> Option<Self> {
        let dir = repo.dir().filter(|_| repo.git().is_none())?.to_owned();
        let before = if repo.disk().is_none() { position(repo).map(|at| (at, appended(repo))) } else { None };
        Some(Self { repo: repo.clone(), dir, before })
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) const fn repo(&self) -> &AnyRepo {
        &self.repo
    }

    /// Ends the writing, as far as the backend can while other threads are at it, and returns what stays. Where the store does not
    /// count that, it is what was appended while no ref moved.
    pub(super) fn end(&self) -> Left {
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
