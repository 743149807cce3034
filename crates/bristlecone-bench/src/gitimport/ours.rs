//! What we do: the import of `cone import --git`, into a store on disk.

use std::{path::Path, sync::Arc, time::Instant};

use bristlecone::{
    Backend, Format, Native,
    core::git::{Algorithm, Git},
    disk::{DiskBackend, DiskOptions, FormatTag},
    storage::RealStorage,
};
use bristlecone_git::transfer::{self, ExportOptions, ImportOptions, Repository, Store};

use super::{By, Job};
use crate::{BenchError, error::Result, measure::Run, rss::Sampler};

/// Imports into a new store and makes it durable.
pub(super) fn import(job: &Job) -> Result<Run> {
    let sampler = Sampler::start();
    let git = Git::new(Repository::open(&job.source)?.algorithm());
    let (store, backend) = match job.by {
        By::Native => (Store::Native(Native::new()), create(&job.dest, &Native::new())?),
        _ => (Store::Git(git), create(&job.dest, &git)?),
    };
    let started = Instant::now();
    let source = Repository::open(&job.source)?;
    let storage = Arc::new(RealStorage::new(&job.dest));
    let options = ImportOptions { scratch: Some(storage), ..ImportOptions::default() };
    let report = transfer::import(&source, store, &backend, &options, &mut |_| {})?;
    backend.flush()?;
    let seconds = started.elapsed().as_secs_f64();
    let peak = sampler.finish();
    let wrong = report.lost.first().map(|lost| format!("the {} {} is missing", lost.kind, lost.oid));
    let stats = backend.stats();
    Ok(Run {
        seconds,
        wrong,
        store_bytes: stats.store_bytes,
        bytes_written: stats.bytes_written,
        syncs: stats.syncs,
        rss_anon_kb: peak.anon_kb,
        rss_file_kb: peak.file_kb,
        maxrss_kb: peak.max_kb,
        ..Run::default()
    })
}

/// Exports an imported store into a new bare repository with ids of this hash.
pub(super) fn export(by: By, store: &Path, algorithm: Algorithm, to: &Path) -> Result<()> {
    let storage = Arc::new(RealStorage::new(store));
    let backend: Arc<dyn Backend> = Arc::new(DiskBackend::open(storage, None, DiskOptions::default(), true)?);
    let store = match by {
        By::Native => Store::Native(Native::new()),
        _ => Store::Git(Git::new(algorithm)),
    };
    let options = ExportOptions { bare: true, algorithm: Some(algorithm), ..ExportOptions::default() };
    transfer::export(store, &backend, to, &options, &mut |_| {})?;
    Ok(())
}

fn create<F: Format>(dir: &Path, format: &F) -> Result<Arc<dyn Backend>> {
    std::fs::create_dir_all(dir).map_err(BenchError::io(dir))?;
    let tag = FormatTag { name: F::NAME.into(), version: F::VERSION, options: format.options() };
    Ok(Arc::new(DiskBackend::create(Arc::new(RealStorage::new(dir)), tag, DiskOptions::default())?))
}
