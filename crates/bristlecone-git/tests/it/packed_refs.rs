//! Refs that are removed while others pack refs, and what a killed or failed removal leaves to other programs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use bristlecone::{
    Backend, Durability, Error, Repo,
    core::git::{Algorithm, Git},
    storage::Storage,
};
use bristlecone_git::{
    backend::GitOptions,
    layout::Layout,
};
use bristlecone_testkit::{
    crash::Engine,
    sim::{Hooked, SimStorage},
};

use crate::{
    backend::{info, open},
    sims::SimGit,
};

fn commit(repo: &Repo<Git>, branch: &str) {
    let info = info(branch, Durability::None);
    repo.branch(branch).unwrap().edit(&info, |tree| tree.set("n", branch.as_bytes())).unwrap();
}

fn remove(repo: &Repo<Git>, branch: &str) -> bristlecone::Result<()> {
    let branch = repo.branch(branch)?;
    branch.compare_and_set(branch.head()?, None, Durability::Synced).map(drop)
}

fn repo(backend: Arc<dyn Backend>) -> Repo<Git> {
    Repo::with_backend(Git::new(Algorithm::Sha1), backend)
}

/// A Git that packs refs holds the lock of `packed-refs` alone while it reads their files.
#[test]
fn a_ref_that_was_never_packed_is_not_removed_while_a_git_packs_refs() {
    let dir = tempfile::tempdir().unwrap();
    Layout::init(dir.path(), true, Algorithm::Sha1).unwrap();
    let (_backend, repo) = open(dir.path(), GitOptions::default().lock_wait_ms(50));
    commit(&repo, "side");
    let lock = dir.path().join("packed-refs.lock");
    std::fs::write(&lock, "").unwrap();
    let head = repo.branch("side").unwrap().head().unwrap();
    assert!(matches!(remove(&repo, "side"), Err(Error::Locked { .. })));
    assert_eq!(repo.branch("side").unwrap().head().unwrap(), head);
    std::fs::remove_file(&lock).unwrap();
    remove(&repo, "side").unwrap();
    assert_eq!(repo.branch("side").unwrap().head().unwrap(), None);
    assert!(!lock.exists());
}

#[test]
fn the_lock_of_packed_refs_is_held_until_the_file_of_a_removed_ref_is_gone() {
    let sim = SimStorage::new();
    drop(SimGit::default().create(Arc::new(sim.clone())).unwrap());
    let (inner, seen) = (sim.clone(), Arc::new(AtomicBool::new(false)));
    let told = seen.clone();
    let hooked = Hooked::new(Arc::new(sim.clone()), move |coming| {
        if coming.method == "remove" && coming.name == "refs/heads/side" {
            assert!(inner.contents("packed-refs.lock").is_some(), "a Git may pack the ref right now");
            told.store(true, Relaxed);
        }
    });
    let repo = repo(SimGit::default().open(Arc::new(hooked)).unwrap());
    commit(&repo, "side");
    remove(&repo, "side").unwrap();
    assert!(seen.load(Relaxed) && sim.contents("packed-refs.lock").is_none());
}
