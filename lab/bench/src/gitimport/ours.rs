//! What we do: the import of `cone import --git`, into a store on disk.

use std::{path::Path, sync::Arc, time::Instant};

use bristlecone::{
    core::git::Algorithm,
    storage::{RealStorage, Storage},
};
use bristlecone_any::{AnyFormat, AnyRepo, Place};
use bristlecone_git::history::{self, ExportOptions, ImportOptions, Repository, StoreFormat};

use super::job::{By, ImportJob};
use crate::{BenchError, error::Result, measure::Run, rss::Sampler};

/// Imports into a new store and makes it durable.
pub(super) fn import(job: &ImportJob) -> Result<Run> {
    let sampler = Sampler::start();
    let format = match job.by {
        By::Native => AnyFormat::default(),
        _ => AnyFormat::git(Repository::open(&job.source)?.algorithm()),
    };
    let repo = AnyRepo::create(Place::Disk(job.dest.clone()), format)?;
    let (store, backend) = (store_of(&repo)?, repo.backend());
    let started = Instant::now();
    let source = Repository::open(&job.source)?;
    let storage: Arc<dyn Storage> = Arc::new(RealStorage::new(&job.dest));
    let options = ImportOptions::default().scratch(storage);
    let report = history::import(&source, store, backend, &options, &mut |_| {})?;
    backend.flush()?;
    let seconds = started.elapsed().as_secs_f64();
    let peak = sampler.finish();
    let wrong = report.missing.first().map(|missing| format!("the {} {} is missing", missing.kind, missing.oid));
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
pub(super) fn export(store: &Path, algorithm: Algorithm, to: &Path) -> Result<()> {
    let repo = AnyRepo::open_read_only(Place::Disk(store.to_owned()))?;
    let options = ExportOptions::default().bare(true).algorithm(algorithm);
    history::export(store_of(&repo)?, repo.backend(), to, &options, &mut |_| {})?;
    Ok(())
}

fn store_of(repo: &AnyRepo) -> Result<StoreFormat> {
    repo.format().transfer_store().ok_or_else(|| BenchError::usage("this format holds no history of Git"))
}
