//! The backend `fs`: the contract, what people see in its folder, damage, and other processes.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::Relaxed},
};

use bristlecone::{
    Backend, Error,
    fs::{FsBackend, FsOptions},
    storage::{RealStorage, Storage},
};
use bristlecone_testkit::{conformance, crash::Engine, sim::SimStorage};

use crate::engine::format_tag;

/// The backend without threads, so that every run makes the same calls.
pub(crate) struct FsEngine;

pub(crate) fn options() -> FsOptions {
    FsOptions::default().background(false).lock_wait_ms(100)
}

impl Engine for FsEngine {
    fn create(&self, storage: Arc<dyn Storage>) -> Result<Arc<dyn Backend>, Error> {
        Ok(Arc::new(FsBackend::create(storage, format_tag(), options())?))
    }

    fn open(&self, storage: Arc<dyn Storage>) -> Result<Arc<dyn Backend>, Error> {
        Ok(Arc::new(FsBackend::open(storage, options(), false)?))
    }
}

#[test]
fn files_conform() {
    let (dir, count) = (tempfile::tempdir().unwrap(), AtomicU32::new(0));
    conformance::run_reopening(|| {
        let storage: Arc<dyn Storage> =
            Arc::new(RealStorage::new(dir.path().join(count.fetch_add(1, Relaxed).to_string())));
        let backend = FsBackend::create(storage.clone(), format_tag(), FsOptions::default()).unwrap();
        let open = move || -> Arc<dyn Backend> {
            Arc::new(FsBackend::open(storage.clone(), FsOptions::default(), false).unwrap())
        };
        (Arc::new(backend) as Arc<dyn Backend>, open)
    });
}

#[test]
fn simulated_files_conform() {
    conformance::run_reopening(|| {
        let disk = SimStorage::new();
        let backend = FsEngine.create(Arc::new(disk.clone())).unwrap();
        (backend, move || FsEngine.open(Arc::new(disk.clone())).unwrap())
    });
}
