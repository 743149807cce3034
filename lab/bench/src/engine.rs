//! Opening the store that a job works on, and opening it again with nothing in memory.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use bristlecone::{Backend, BackendStats, Format, Native, Repo, disk::DiskOptions};
use bristlecone_any::{AnyFormat, OpenOptions, Place};
use bristlecone_git::backend::GitOptions;

use crate::{
    BenchError,
    error::Result,
    job::{Job, Switches, Target},
};

/// Tells the stores of one process apart.
static STORES: AtomicU64 = AtomicU64::new(0);

/// An open store, removed with its files when it is dropped.
pub(crate) struct Engine<F: Format = Native> {
    format: F,
    // Absent only while the store is opened again.
    backend: Option<Arc<dyn Backend>>,
    options: OpenOptions,
    place: Place,
    // Of a store that has files.
    dir: Option<PathBuf>,
}

impl<F: Format + Into<AnyFormat>> Engine<F> {
    /// Makes an empty store of this format for a job.
    pub(crate) fn create(job: &Job, format: F) -> Result<Self> {
        let number = STORES.fetch_add(1, Relaxed);
        let dir = job.dir.join(format!("store-{}-{number}", std::process::id()));
        let (place, dir) = match job.target {
            Target::Memory => (Place::Memory, None),
            // A bare one, as its name says.
            target if target.is_git() => (Place::Git(dir.with_extension("git")), Some(dir.with_extension("git"))),
            Target::LsmNone | Target::LsmSynced => (Place::Lsm(dir.clone()), Some(dir)),
            Target::LmdbNone | Target::LmdbSynced => (Place::Lmdb(dir.clone()), Some(dir)),
            Target::FsNone | Target::FsSynced => (Place::Fs(dir.clone()), Some(dir)),
            _ => (Place::Disk(dir.clone()), Some(dir)),
        };
        let options = OpenOptions::new().disk(disk_options(&job.switches)).git(git_options(job));
        let options = options.format(format.clone().into());
        if let Some(dir) = &dir {
            fs::create_dir_all(dir).map_err(BenchError::io(dir))?;
        }
        let backend = Some(options.create(place.clone())?.backend().clone());
        let mut engine = Self { format, backend, options, place, dir };
        engine.reopen()?;
        Ok(engine)
    }
}

impl<F: Format> Engine<F> {
    /// Returns the folder of a store that has files.
    pub(crate) fn dir(&self) -> Option<&Path> {
        self.dir.as_deref()
    }

    /// Returns a repository over the store.
    pub(crate) fn repo(&self) -> Repo<F> {
        Repo::with_backend(self.format.clone(), self.backend().clone())
    }

    pub(crate) const fn format(&self) -> &F {
        &self.format
    }

    pub(crate) fn backend(&self) -> &Arc<dyn Backend> {
        self.backend.as_ref().expect("the store is open between calls")
    }

    pub(crate) fn stats(&self) -> BackendStats {
        self.backend().stats()
    }

    /// Opens the store again, so that nothing of it is in this process's memory; what the system caches of
    /// its files stays. The memory backend is its own store: there only new handles are made. Every
    /// repository must have been dropped.
    pub(crate) fn reopen(&mut self) -> Result<()> {
        self.close()?;
        self.open()
    }

    /// Closes a store that has files.
    pub(crate) fn close(&mut self) -> Result<()> {
        if self.dir.is_none() {
            return Ok(());
        }
        let Some(backend) = self.backend.take() else { return Ok(()) };
        if Arc::strong_count(&backend) > 1 {
            return Err(BenchError::usage("a store is closed while a handle of it is in use"));
        }
        Ok(())
    }

    /// Opens a store that was closed.
    pub(crate) fn open(&mut self) -> Result<()> {
        if self.dir.is_some() {
            self.backend = Some(self.options.open(self.place.clone())?.backend().clone());
        }
        Ok(())
    }

    /// Folds the packs of a store in a Git repository, as far as they can be.
    pub(crate) fn fold(&mut self) -> Result<()> {
        self.close()?;
        if let Place::Git(_) = self.place {
            let repo = self.options.open(self.place.clone())?;
            repo.git().map_or(Ok(()), |(git, _)| git.repack_all())?;
            repo.close()?;
        }
        self.open()
    }
}

impl<F: Format> Drop for Engine<F> {
    fn drop(&mut self) {
        self.backend = None;
        if let Some(dir) = &self.dir {
            // The folder above is removed by whoever made it, should this fail.
            let _ = fs::remove_dir_all(dir);
        }
    }
}

/// Returns the format with the switches that change roots.
pub(crate) const fn native(switches: &Switches) -> Native {
    let format = Native::new().split(switches.split);
    if switches.inline { format } else { format.inline(0) }
}

fn git_options(job: &Job) -> GitOptions {
    let mut options = GitOptions::default().loose(job.target.is_loose());
    if let Some(bytes) = job.switches.cache_bytes {
        options.cache_bytes = bytes;
    }
    options
}

fn disk_options(switches: &Switches) -> DiskOptions {
    let mut options = DiskOptions::default().maps(switches.maps).locations(switches.direct);
    if let Some(bytes) = switches.cache_bytes {
        options.cache_bytes = bytes;
    }
    options
}
