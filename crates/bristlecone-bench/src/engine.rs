//! Opening the store that a job works on, and opening it again with nothing in memory.

use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use bristlecone::{
    Backend, BackendStats, Format, MemoryBackend, Native, Repo,
    disk::{DiskBackend, DiskOptions, FormatTag},
    storage::RealStorage,
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
    disk: Option<OnDisk>,
}

struct OnDisk {
    dir: PathBuf,
    options: DiskOptions,
}

impl<F: Format> Engine<F> {
    /// Makes an empty store of this format for a job.
    pub(crate) fn create(job: &Job, format: F) -> Result<Self> {
        if job.target == Target::Memory {
            return Ok(Self { format, backend: Some(Arc::new(MemoryBackend::new())), disk: None });
        }
        let number = STORES.fetch_add(1, Relaxed);
        let dir = job.dir.join(format!("store-{}-{number}", std::process::id()));
        fs::create_dir_all(&dir).map_err(BenchError::io(&dir))?;
        let options = disk_options(&job.switches);
        let disk = OnDisk { dir, options };
        let tag = FormatTag { name: F::NAME.into(), version: F::VERSION, options: format.options() };
        let backend = DiskBackend::create(Arc::new(RealStorage::new(&disk.dir)), tag, disk.options.clone())?;
        Ok(Self { format, backend: Some(Arc::new(backend)), disk: Some(disk) })
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

    /// Closes a store on disk.
    pub(crate) fn close(&mut self) -> Result<()> {
        if self.disk.is_none() {
            return Ok(());
        }
        let Some(backend) = self.backend.take() else { return Ok(()) };
        if Arc::strong_count(&backend) > 1 {
            return Err(BenchError::usage("a store is closed while a handle of it is in use"));
        }
        Ok(())
    }

    /// Opens a store on disk that was closed.
    pub(crate) fn open(&mut self) -> Result<()> {
        let Some(disk) = &self.disk else { return Ok(()) };
        let storage = Arc::new(RealStorage::new(&disk.dir));
        self.backend = Some(Arc::new(DiskBackend::open(storage, Some(F::NAME), disk.options.clone(), false)?));
        Ok(())
    }
}

impl<F: Format> Drop for Engine<F> {
    fn drop(&mut self) {
        self.backend = None;
        if let Some(disk) = &self.disk {
            // The folder above is removed by whoever made it, should this fail.
            let _ = fs::remove_dir_all(&disk.dir);
        }
    }
}

/// Returns the format with the switches that change roots.
pub(crate) const fn native(switches: &Switches) -> Native {
    let format = Native::new().split(switches.split);
    if switches.inline { format } else { format.inline(0) }
}

fn disk_options(switches: &Switches) -> DiskOptions {
    let mut options = DiskOptions { maps: switches.maps, locations: switches.direct, ..DiskOptions::default() };
    if let Some(bytes) = switches.cache_bytes {
        options.cache_bytes = bytes;
    }
    options
}
