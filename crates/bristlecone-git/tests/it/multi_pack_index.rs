//! Packs that an index of Git's over several packs lists stay where they are, whatever their times say.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, SystemTime},
};

use bristlecone::{
    Durability, Repo,
    core::git::{Algorithm, Git},
    storage::RealStorage,
};
use bristlecone_git::{
    backend::{GitBackend, GitOptions},
    layout::Layout,
};
use bristlecone_needs::needs;
use bristlecone_testkit::{git::Git as RealGit, sim::Hooked};

use crate::backend::{info, open};

fn commit(repo: &Repo<Git>, numbers: std::ops::Range<usize>) {
    for n in numbers {
        let info = info(&format!("number {n}"), Durability::None);
        repo.branch("main").unwrap().edit(&info, |tree| tree.set(format!("f{n}"), b"value")).unwrap();
    }
}

fn init(dir: &Path) -> RealGit {
    Layout::init(dir, true, Algorithm::Sha1).unwrap();
    RealGit::new(dir)
}

/// Options with which only `repack_all` and the number of packs have any repacked.
fn options() -> GitOptions {
    GitOptions::default().background(false).repack(false)
}

/// Returns the names of the packs, without those that came since `before`.
fn packs(git: &RealGit, before: &[String]) -> Vec<String> {
    let names = std::fs::read_dir(git.dir().join("objects/pack")).unwrap();
    let mut names: Vec<String> = names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name.ends_with(".pack") && (before.is_empty() || before.contains(name)));
    names.sort_unstable();
    names
}

/// Checks that Git reads the repository through its index, and can pack it anew.
fn assert_usable(git: &RealGit, commits: &str) {
    let copy = tempfile::tempdir().unwrap();
    git.run(&["clone", "-q", "--bare", "--no-local", ".", copy.path().to_str().unwrap()]);
    assert_eq!(RealGit::new(copy.path()).text(&["rev-list", "--count", "main"]), commits);
    git.run(&["gc", "-q"]);
    git.fsck();
}

#[needs(git)]
#[test]
fn a_pack_that_is_listed_stays_also_if_it_was_touched_since() {
    let dir = tempfile::tempdir().unwrap();
    let git = init(dir.path());
    let (backend, repo) = open(dir.path(), options());
    commit(&repo, 0..5);
    git.run(&["multi-pack-index", "write", "--bitmap"]);
    let before = packs(&git, &[]);
    // As Git does it with a pack that has an object which is written again.
    let later = SystemTime::now() + Duration::from_secs(5);
    for name in &before {
        let file = std::fs::File::open(dir.path().join("objects/pack").join(name)).unwrap();
        file.set_modified(later).unwrap();
    }
    commit(&repo, 5..9);
    backend.repack_all().unwrap();
    assert_eq!(packs(&git, &before), before);
    assert_eq!(packs(&git, &[]).len(), before.len() + 1, "the others became one");
    assert_usable(&git, "9");
}

#[needs(git)]
#[test]
fn a_pack_that_is_listed_while_it_is_being_repacked_stays() {
    let dir = tempfile::tempdir().unwrap();
    init(dir.path());
    let (path, wrote) = (dir.path().to_owned(), Arc::new(AtomicBool::new(false)));
    let once = wrote.clone();
    let hooked = Hooked::new(Arc::new(RealStorage::new(dir.path())), move |coming| {
        if coming.method == "rename" && coming.name.contains("tmp_fold") && !once.swap(true, Relaxed) {
            RealGit::new(&path).run(&["multi-pack-index", "write"]);
        }
    });
    let git = RealGit::new(dir.path());
    let backend = Arc::new(GitBackend::open(Arc::new(hooked), options()).unwrap());
    let repo = Repo::with_backend(Git::new(Algorithm::Sha1), backend.clone());
    commit(&repo, 0..5);
    let before = packs(&git, &[]);
    backend.repack_all().unwrap();
    assert!(wrote.load(Relaxed));
    assert_eq!(packs(&git, &before), before);
    assert_usable(&git, "5");
}

#[needs(git)]
#[test]
fn a_pack_that_is_listed_before_it_is_durable_stays_and_is_made_so() {
    let dir = tempfile::tempdir().unwrap();
    let git = init(dir.path());
    let (backend, repo) = open(dir.path(), options().repack(true).repack_min(5));
    commit(&repo, 0..4);
    git.run(&["multi-pack-index", "write"]);
    let before = packs(&git, &[]);
    let syncs = bristlecone::Backend::stats(&*backend).syncs;
    commit(&repo, 4..5);
    assert_eq!(packs(&git, &before), before);
    let syncs = bristlecone::Backend::stats(&*backend).syncs - syncs;
    assert!(syncs >= 8, "{syncs} syncs for four packs and their indexes");
    assert_usable(&git, "5");
}

/// A Git that writes the index has listed packs before.
#[test]
fn no_pack_goes_while_a_git_writes_the_index() {
    let dir = tempfile::tempdir().unwrap();
    let git = init(dir.path());
    let (backend, repo) = open(dir.path(), options());
    commit(&repo, 0..5);
    let before = packs(&git, &[]);
    let lock = dir.path().join("objects/pack/multi-pack-index.lock");
    std::fs::write(&lock, "").unwrap();
    backend.repack_all().unwrap();
    assert_eq!(packs(&git, &before), before);
    std::fs::remove_file(&lock).unwrap();
    backend.repack_all().unwrap();
    assert_eq!(packs(&git, &[]).len(), 1);
}
