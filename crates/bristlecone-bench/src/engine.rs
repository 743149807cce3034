//! Opening the store that a job works on, and opening it again with nothing in memory.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use bristlecone::{
    Backend, BackendStats, Format, MemoryBackend, Native, Repo,
    core::git::Algorithm,
    disk::{DiskBackend, DiskOptions, FormatTag},
    storage::RealStorage,
};
use bristlecone_git::{
    backend::{GitBackend, GitOptions},
    layout::Layout,
};

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
    home: Option<Home>,
}

/// Where a store is that has files.
struct Home {
    dir: PathBuf,
    kind: Kind,
}

enum Kind {
    Disk(DiskOptions),
    Git(GitOptions),
}

impl<F: Format> Engine<F> {
    /// Makes an empty store of this format for a job.
    pub(crate) fn create(job: &Job, format: F) -> Result<Self> {
        if job.target == Target::Memory {
            return Ok(Self { format, backend: Some(Arc::new(MemoryBackend::new())), home: None });
        }
        let number = STORES.fetch_add(1, Relaxed);
        let dir = job.dir.join(format!("store-{}-{number}", std::process::id()));
        fs::create_dir_all(&dir).map_err(BenchError::io(&dir))?;
        let kind = if job.target.is_git() {
            Layout::init(&dir, true, Algorithm::Sha1)?;
            Kind::Git(git_options(job))
        } else {
            let options = disk_options(&job.switches);
            let tag = FormatTag { name: F::NAME.into(), version: F::VERSION, options: format.options() };
            DiskBackend::create(Arc::new(RealStorage::new(&dir)), tag, options.clone())?;
            Kind::Disk(options)
        };
        let mut engine = Self { format, backend: None, home: Some(Home { dir, kind }) };
        engine.open()?;
        Ok(engine)
    }

    /// Returns the folder of a store that has files.
    pub(crate) fn dir(&self) -> Option<&Path> {
        self.home.as_ref().map(|home| home.dir.as_path())
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
        if self.home.is_none() {
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
        self.backend = match &self.home {
            None => return Ok(()),
            Some(Home { dir, kind: Kind::Disk(options) }) => {
                let storage = Arc::new(RealStorage::new(dir));
                Some(Arc::new(DiskBackend::open(storage, Some(F::NAME), options.clone(), false)?))
            }
            Some(Home { dir, kind: Kind::Git(options) }) => {
                Some(Arc::new(GitBackend::open_path(&Layout::open(dir)?, options.clone())?))
            }
        };
        Ok(())
    }

    /// Folds the packs of a store in a Git repository, as far as they can be.
    pub(crate) fn fold(&mut self) -> Result<()> {
        self.close()?;
        if let Some(Home { dir, kind: Kind::Git(options) }) = &self.home {
            let backend = GitBackend::open_path(&Layout::open(dir)?, options.clone())?;
            backend.fold_all()?;
            backend.close()?;
        }
        self.open()
    }
}

impl<F: Format> Drop for Engine<F> {
    fn drop(&mut self) {
        self.backend = None;
        if let Some(home) = &self.home {
            // The folder above is removed by whoever made it, should this fail.
            let _ = fs::remove_dir_all(&home.dir);
        }
    }
}

/// Returns the format with the switches that change roots.
pub(crate) const fn native(switches: &Switches) -> Native {
    let format = Native::new().split(switches.split);
    if switches.inline { format } else { format.inline(0) }
}

fn git_options(job: &Job) -> GitOptions {
    let mut options = GitOptions { loose: job.target.is_loose(), ..GitOptions::default() };
    if let Some(bytes) = job.switches.cache_bytes {
        options.cache_bytes = bytes;
    }
    options
}

fn disk_options(switches: &Switches) -> DiskOptions {
    let mut options = DiskOptions { maps: switches.maps, locations: switches.direct, ..DiskOptions::default() };
    if let Some(bytes) = switches.cache_bytes {
        options.cache_bytes = bytes;
    }
    options
}
