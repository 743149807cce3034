//! The conformance suite, in every way of writing objects, on real files and on simulated ones.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::Relaxed},
};

use bristlecone::{Backend, core::git::Algorithm};
use bristlecone_git::{
    backend::{GitBackend, GitOptions},
    layout::Layout,
};
use bristlecone_testkit::{conformance, crash::Engine, sim::SimStorage};

use crate::sims::SimGit;

fn on_real_files(algorithm: Algorithm, loose: bool, bare: bool) {
    let dir = tempfile::tempdir().unwrap();
    let count = AtomicU32::new(0);
    conformance::run_reopening(|| {
        let dir = dir.path().join(count.fetch_add(1, Relaxed).to_string());
        let layout = Layout::init(&dir, bare, algorithm).unwrap();
        let open = move || -> Arc<dyn Backend> {
            let options = GitOptions::default().loose(loose);
            Arc::new(GitBackend::open_path(&layout, options).unwrap())
        };
        (open(), open)
    });
}

#[test]
fn packs_conform() {
    on_real_files(Algorithm::Sha1, false, false);
}

#[test]
fn packs_with_sha256_conform() {
    on_real_files(Algorithm::Sha256, false, true);
}

#[test]
fn loose_objects_conform() {
    on_real_files(Algorithm::Sha1, true, true);
    on_real_files(Algorithm::Sha256, true, false);
}

#[test]
fn simulated_disks_conform() {
    for loose in [false, true] {
        for algorithm in [Algorithm::Sha1, Algorithm::Sha256] {
            conformance::run_reopening(|| {
                let disk = SimStorage::new();
                let engine = SimGit { algorithm, loose, repack_min: 6, ..SimGit::default() };
                let backend = engine.create(Arc::new(disk.clone())).unwrap();
                (backend, move || engine.open(Arc::new(disk.clone())).unwrap())
            });
        }
    }
}
