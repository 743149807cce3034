//! Every backend conforms with every combinator around it, and the same edits end on the same roots everywhere.

use std::{path::Path, sync::Arc};

use bristlecone::{
    Backend,
    disk::{DiskBackend, DiskOptions, FormatTag},
    fs::{FsBackend, FsOptions},
    storage::{RealStorage, Storage},
};
use bristlecone_core::git::Algorithm;
use bristlecone_git::{
    backend::{GitBackend, GitOptions},
    layout::Layout,
};
use bristlecone_lmdb::backend::{LmdbBackend, LmdbOptions};
use bristlecone_lsm::{LsmBackend, LsmOptions};
use bristlecone_testkit::{
    conformance::{
        COMBINATORS, MEMORY, NewBackend, Pile, Subject, run_matrix, run_pile, the_same_edits_end_on_the_same_roots,
    },
    sim::SimStorage,
};

/// Every backend that there is: a new one joins with a line.
const SUBJECTS: &[Subject] = &[
    MEMORY,
    DISK,
    FILES,
    Subject { name: "fs on the simulated disk", make: |_| files(Arc::new(SimStorage::new())) },
    LSM,
    LMDB,
    GIT,
    Subject { name: "git with SHA-256", make: |dir| git(dir, Algorithm::Sha256) },
];

pub(crate) const DISK: Subject = Subject { name: "disk", make: |dir| disk(Arc::new(RealStorage::new(dir))) };
pub(crate) const FILES: Subject = Subject { name: "fs", make: |dir| files(Arc::new(RealStorage::new(dir))) };
pub(crate) const LSM: Subject = Subject { name: "lsm", make: lsm };
pub(crate) const LMDB: Subject = Subject { name: "lmdb", make: lmdb };
pub(crate) const GIT: Subject = Subject { name: "git", make: |dir| git(dir, Algorithm::Sha1) };
const SIMULATED: Subject = Subject { name: "disk on the simulated disk", make: |_| disk(Arc::new(SimStorage::new())) };

fn tag() -> FormatTag {
    FormatTag { name: "native".to_owned(), version: 1, options: String::new() }
}

fn disk(storage: Arc<dyn Storage>) -> NewBackend {
    let options = DiskOptions::default().segment_bytes(1 << 20);
    let made = DiskBackend::create(storage.clone(), tag(), options.clone()).unwrap();
    let open = move || -> Arc<dyn Backend> {
        Arc::new(DiskBackend::open(storage.clone(), None, options.clone(), false).unwrap())
    };
    (Arc::new(made), Some(Box::new(open)))
}

fn files(storage: Arc<dyn Storage>) -> NewBackend {
    let made = FsBackend::create(storage.clone(), tag(), FsOptions::default()).unwrap();
    let open = move || -> Arc<dyn Backend> {
        Arc::new(FsBackend::open(storage.clone(), FsOptions::default(), false).unwrap())
    };
    (Arc::new(made), Some(Box::new(open)))
}

fn lsm(dir: &Path) -> NewBackend {
    let dir = dir.join("store");
    let made = LsmBackend::create(&dir, tag(), LsmOptions::default()).unwrap();
    let open = move || -> Arc<dyn Backend> { Arc::new(LsmBackend::open(&dir, LsmOptions::default(), false).unwrap()) };
    (Arc::new(made), Some(Box::new(open)))
}

fn lmdb(dir: &Path) -> NewBackend {
    let dir = dir.join("store");
    let made = LmdbBackend::create(&dir, tag(), LmdbOptions::default()).unwrap();
    let open =
        move || -> Arc<dyn Backend> { Arc::new(LmdbBackend::open(&dir, LmdbOptions::default(), false).unwrap()) };
    (Arc::new(made), Some(Box::new(open)))
}

fn git(dir: &Path, algorithm: Algorithm) -> NewBackend {
    let layout = Layout::init(dir, true, algorithm).unwrap();
    let open = move || -> Arc<dyn Backend> { Arc::new(GitBackend::open_path(&layout, GitOptions::default()).unwrap()) };
    (open(), Some(Box::new(open)))
}

/// Each combinator, and each two that stand side by side in the list.
fn alone_and_stacked() -> impl Iterator<Item = Pile<'static>> {
    COMBINATORS.chunks(1).chain(COMBINATORS.windows(2))
}

#[test]
fn combinators_over_memory_conform() {
    let dir = tempfile::tempdir().unwrap();
    alone_and_stacked().for_each(|pile| run_pile(&MEMORY, pile, dir.path()));
}

#[test]
fn combinators_over_the_disk_engine_conform() {
    let dir = tempfile::tempdir().unwrap();
    alone_and_stacked().for_each(|pile| run_pile(&SIMULATED, pile, dir.path()));
}

#[test]
fn roots_are_the_same_everywhere() {
    let dir = tempfile::tempdir().unwrap();
    SUBJECTS.iter().for_each(|subject| the_same_edits_end_on_the_same_roots(subject, &[], dir.path()));
    for subject in [&MEMORY, &SIMULATED] {
        alone_and_stacked().for_each(|pile| the_same_edits_end_on_the_same_roots(subject, pile, dir.path()));
    }
}

/// Every backend in every combinator and every two of them: `.ci/lane matrix` runs it.
#[test]
#[ignore = "it takes minutes: the lane `matrix` runs it"]
fn every_backend_conforms_in_every_combinator() {
    for subject in SUBJECTS {
        let dir = tempfile::tempdir().unwrap();
        run_matrix(subject, dir.path());
    }
}
