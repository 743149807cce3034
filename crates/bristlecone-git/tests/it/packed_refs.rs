//! Refs that are removed while others pack refs, and what a killed or failed removal leaves to other programs.

use std::{
    path::Path,
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
    backend::{GitBackend, GitOptions},
    history::{ExportOptions, StoreFormat, TransferError, export},
    layout::Layout,
};
use bristlecone_needs::needs;
use bristlecone_testkit::{
    crash::Engine,
    git::Git as RealGit,
    sim::{Fault, Hooked, Policy, SimStorage, Times},
};

use crate::{
    backend::{info, open},
    sim::write,
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

/// On such a file system they would be one file.
#[test]
fn two_refs_that_differ_by_case_alone_are_not_made_where_files_ignore_case() {
    for ignore_case in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        Layout::init(dir.path(), true, Algorithm::Sha1).unwrap();
        let config = format!("[core]\n\tbare = true\n\tignoreCase = {ignore_case}\n");
        std::fs::write(dir.path().join("config"), config).unwrap();
        let (_backend, repo) = open(dir.path(), GitOptions::default());
        commit(&repo, "side");
        // It goes on as before.
        commit(&repo, "side");
        let info = info("other", Durability::None);
        let made = repo.branch("SIDE").unwrap().edit(&info, |tree| tree.set("n", "other"));
        match made {
            Err(Error::RefClash { name, other }) => {
                assert_eq!((ignore_case, &*name, &*other), (true, "refs/heads/SIDE", "refs/heads/side"));
            }
            made => assert!(made.is_ok() && !ignore_case, "{made:?}"),
        }
    }
}

/// A clone may have both.
#[test]
fn one_of_two_packed_refs_that_differ_by_case_alone_is_removed_where_files_ignore_case() {
    let dir = tempfile::tempdir().unwrap();
    Layout::init(dir.path(), true, Algorithm::Sha1).unwrap();
    std::fs::write(
        dir.path().join("config"),
        "[core]\n\tbare = true\n\tignoreCase = true\n\tlogAllRefUpdates = true\n",
    )
    .unwrap();
    let (backend, made) = open(dir.path(), GitOptions::default());
    commit(&made, "side");
    let head = made.branch("side").unwrap().head().unwrap().unwrap();
    drop((backend, made));
    let lines = ["SIDE", "side"].map(|name| format!("{} refs/heads/{name}\n", head.oid()));
    std::fs::write(dir.path().join("packed-refs"), lines.concat()).unwrap();
    std::fs::remove_file(dir.path().join("refs/heads/side")).unwrap();
    let (_backend, repo) = open(dir.path(), GitOptions::default());
    let moved = repo.branch("SIDE").unwrap().edit(&info("more", Durability::None), |tree| tree.set("n", "more"));
    assert!(matches!(moved, Err(Error::RefClash { .. })), "{moved:?}");
    remove(&repo, "SIDE").unwrap();
    let heads = ["SIDE", "side"].map(|name| repo.branch(name).unwrap().head().unwrap());
    assert_eq!(heads, [None, Some(head)]);
    assert!(dir.path().join("logs/refs/heads/side").is_file());
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

/// Git makes this file with a name that must be free.
#[test]
fn a_removal_that_fails_leaves_no_new_bytes_of_packed_refs() {
    let mut failed = 0;
    for call in 1.. {
        let sim = SimStorage::new();
        let made = repo(SimGit::default().create(Arc::new(sim.clone())).unwrap());
        commit(&made, "side");
        let head = made.branch("side").unwrap().head().unwrap().unwrap();
        write(&sim, "packed-refs", format!("{} refs/heads/side\n", head.oid()).as_bytes());
        let before = sim.calls();
        sim.fail_at(before + call, Fault::NoSpace, Times::Once);
        let done = remove(&made, "side");
        let reached = sim.calls() >= before + call;
        sim.heal();
        for name in ["packed-refs.new", "packed-refs.lock"] {
            assert!(sim.contents(name).is_none(), "{name} stays after call {call} failed");
        }
        if !reached {
            done.unwrap();
            break;
        }
        failed += usize::from(done.is_err());
    }
    assert!(failed >= 3, "{failed}");
}

/// Where the system refuses to remove a folder it may be a link, as in a folder of another user.
#[test]
fn a_folder_in_the_way_of_a_ref_that_cannot_be_removed_is_not_looked_into() {
    let (sim, way) = (SimStorage::new(), "refs/heads/side/folder");
    drop(SimGit::default().create(Arc::new(sim.clone())).unwrap());
    sim.create_dir(&format!("{way}/inside")).unwrap();
    let failing = sim.clone();
    let hooked = Hooked::new(Arc::new(sim.clone()), move |coming| {
        if coming.method == "remove_dir" && coming.name == way {
            failing.fail_at(failing.calls() + 1, Fault::Io, Times::Once);
        }
    });
    let repo = repo(SimGit::default().open(Arc::new(hooked)).unwrap());
    let info = info("side", Durability::None);
    let refused = repo.branch("side").unwrap().edit(&info, |tree| tree.set("n", "side"));
    assert!(matches!(refused, Err(Error::Io { .. })), "{refused:?}");
    assert!(sim.stat(&format!("{way}/inside")).is_ok());
}

/// By default Git syncs `packed-refs` no more than other refs, and it removes the files of those that it packed.
#[test]
fn a_flush_makes_durable_what_a_git_packed_meanwhile() {
    let sim = SimStorage::new();
    let backend = SimGit::default().create(Arc::new(sim.clone())).unwrap();
    let made = repo(backend.clone());
    commit(&made, "side");
    let head = made.branch("side").unwrap().head().unwrap().unwrap();
    write(&sim, "packed-refs.new", format!("{} refs/heads/side\n", head.oid()).as_bytes());
    sim.rename("packed-refs.new", "packed-refs").unwrap();
    sim.remove("refs/heads/side").unwrap();
    backend.flush().unwrap();
    let cut = SimGit::default().open(Arc::new(sim.reboot(1, Policy::Lost))).unwrap();
    assert_eq!(repo(cut).branch("side").unwrap().head().unwrap(), Some(head));
}

/// Puts what a process of ours leaves that is killed while it removes a packed ref, and what one leaves that is killed
/// while it moves the branch that is checked out.
fn leave(dir: &Path, words: &str) {
    for name in ["packed-refs.lock", "HEAD.lock", "worktrees/tree/HEAD.lock"] {
        std::fs::write(dir.join(name), words).unwrap();
    }
    std::fs::write(dir.join("packed-refs.new"), "# pack-refs with:").unwrap();
}

#[needs(git)]
#[test]
fn locks_that_a_killed_process_left_are_gone_after_the_next_opening() {
    let dir = tempfile::tempdir().unwrap();
    let git = RealGit::init(dir.path().join("main"), &[]);
    git.commit_all("first");
    git.run(&["worktree", "add", "-q", "../tree"]);
    let (_backend, repo) = open(git.dir(), GitOptions::default());
    commit(&repo, "side");
    let common = git.dir().join(".git");
    leave(&common, "bristlecone 1\n");
    assert!(!git.attempt(&["pack-refs", "--all"]).0, "Git waits for nobody's lock");
    let (_backend, repo) = open(git.dir(), GitOptions::default());
    commit(&repo, "other");
    git.run(&["pack-refs", "--all"]);
    git.run(&["branch", "-D", "side"]);
    git.run(&["symbolic-ref", "HEAD", "refs/heads/other"]);
    git.run(&["-C", "../tree", "checkout", "-q", "--detach"]);
    // New bytes alone, as a power cut may leave them.
    std::fs::write(common.join("packed-refs.new"), "").unwrap();
    drop(open(git.dir(), GitOptions::default()));
    assert!(!common.join("packed-refs.lock").exists());
    git.run(&["pack-refs", "--all"]);
}

#[test]
fn the_locks_of_other_programs_stay_with_what_they_lock() {
    let sim = SimStorage::new();
    drop(SimGit::default().create(Arc::new(sim.clone())).unwrap());
    commit(&repo(SimGit::default().open(Arc::new(sim.clone())).unwrap()), "side");
    let names = ["packed-refs.lock", "packed-refs.new", "HEAD.lock", "worktrees/tree/HEAD.lock"];
    names.iter().for_each(|name| write(&sim, name, b""));
    let options = SimGit::default().options().boot(Some("the same".to_owned()));
    for _ in 0..2 {
        drop(GitBackend::open(Arc::new(sim.clone()), options.clone()).unwrap());
    }
    for name in names {
        assert!(sim.contents(name).is_some(), "{name}");
    }
    assert!(sim.list("").unwrap().iter().any(|name| name == "bristlecone"));
}

/// A process of ours that comes by the repository itself sees no lock that is kept beside the links.
#[needs(git)]
#[test]
fn a_folder_that_has_its_refs_by_links_is_only_read() {
    let dir = tempfile::tempdir().unwrap();
    let git = RealGit::init(dir.path().join("main"), &[]);
    let head = git.commit_all("first");
    git.run(&["branch", "side"]);
    git.run(&["pack-refs", "--all"]);
    // What `git new-workdir` makes.
    let (own, other) = (git.dir().join(".git"), dir.path().join("other"));
    std::fs::create_dir_all(other.join(".git")).unwrap();
    for name in ["config", "refs", "objects", "packed-refs"] {
        std::os::unix::fs::symlink(own.join(name), other.join(".git").join(name)).unwrap();
    }
    std::fs::copy(own.join("HEAD"), other.join(".git/HEAD")).unwrap();
    let (backend, repo) = open(&other, GitOptions::default());
    assert_eq!(repo.branch("side").unwrap().head().unwrap().unwrap().oid().to_string(), head);
    let notes: Vec<&str> = backend.notes().collect();
    assert!(notes.len() == 1 && notes[0].contains("refs is a symbolic link to"), "{notes:?}");
    assert!(matches!(remove(&repo, "side"), Err(Error::ReadOnly)));
    let options = ExportOptions::default();
    let store = StoreFormat::Git(Git::new(Algorithm::Sha1));
    let error = export(store, repo.backend(), &other, &options, &mut |_| {}).unwrap_err();
    assert!(matches!(error, TransferError::Refused { .. }), "{error}");
    drop((backend, repo));
    assert!(other.join(".git/packed-refs").is_symlink() && !other.join(".git/bristlecone").exists());
    assert_eq!(git.text(&["rev-parse", "side"]), head);
}
