//! Every backend of this crate keeps the contract, on real files and on the simulated disk.

use std::sync::Arc;

use bristlecone::{
    Backend, Counted, MemoryBackend,
    disk::{DiskBackend, DiskOptions},
    storage::{RealStorage, Storage},
};
use bristlecone_testkit::{conformance, sim::SimStorage};

use crate::engine::{format_tag, open, tiny};

/// Proves the disk engine with these options, over folders that `storage` makes.
fn conforms(options: &DiskOptions, storage: impl Fn() -> Arc<dyn Storage>) {
    conformance::run_reopening(|| {
        let storage = storage();
        let backend = DiskBackend::create(storage.clone(), format_tag(), options.clone()).unwrap();
        let options = options.clone();
        (Arc::new(backend) as Arc<dyn Backend>, move || open(storage.clone(), &options).unwrap())
    });
}

/// Proves the disk engine with these options on real files.
fn conforms_on_files(options: &DiskOptions) {
    let dirs = std::cell::RefCell::new(Vec::new());
    conforms(options, || {
        let dir = tempfile::tempdir().unwrap();
        let storage = Arc::new(RealStorage::new(dir.path()));
        dirs.borrow_mut().push(dir);
        storage
    });
}

#[test]
fn the_memory_backend_conforms() {
    conformance::run(|| Arc::new(MemoryBackend::new()));
}

#[test]
fn a_counting_backend_conforms() {
    conformance::run(|| Arc::new(Counted::new(Arc::new(MemoryBackend::new()))));
}

#[test]
fn the_disk_engine_conforms_with_maps() {
    conforms_on_files(&DiskOptions::default().segment_bytes(1 << 20));
}

#[test]
fn the_disk_engine_conforms_without_maps() {
    conforms_on_files(&DiskOptions::default().maps(false).segment_bytes(1 << 20));
}

#[test]
fn the_disk_engine_conforms_without_locations() {
    conforms_on_files(&DiskOptions::default().locations(false).segment_bytes(1 << 20));
}

#[test]
fn the_disk_engine_conforms_with_tiny_segments() {
    conforms_on_files(&DiskOptions::default().segment_bytes(4096));
}

#[test]
fn the_disk_engine_conforms_without_threads() {
    conforms_on_files(&DiskOptions::default().background(false).segment_bytes(1 << 16));
}

#[test]
fn the_disk_engine_conforms_on_the_simulated_disk() {
    for options in [tiny(), tiny().background(true)] {
        conforms(&options, || Arc::new(SimStorage::new()));
    }
}
