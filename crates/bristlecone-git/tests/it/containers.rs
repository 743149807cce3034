//! Processes that do not see each other at one repository: in containers, or on several machines.

use std::{
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

use bristlecone::{
    Backend, Batch, Durability, Error, Kind, Repo,
    core::{
        Sink,
        git::{Algorithm, Git},
    },
    storage::{Reach, RealStorage, Storage},
};
use bristlecone_git::{
    backend::{GitBackend, GitOptions},
    layout::Layout,
};
use bristlecone_needs::needs;
use bristlecone_testkit::{
    crash::Engine,
    git::Git as RealGit,
    sim::{Hooked, Lie, Lying, SimStorage},
};

use crate::{
    backend::{info, open},
    sims::SimGit,
};

const PACKS: &str = "objects/pack";

/// Opens a repository in a process that says so of the start of its machine.
fn opened(storage: Arc<dyn Storage>, boot: &str) -> Arc<GitBackend> {
    let options = GitOptions::default().boot(Some(boot.to_owned())).background(false);
    Arc::new(GitBackend::open(storage, options).unwrap())
}

fn repo(backend: &Arc<GitBackend>) -> Repo<Git> {
    Repo::with_backend(Git::new(Algorithm::Sha1), backend.clone())
}

fn commit(backend: &Arc<GitBackend>, n: usize) -> bristlecone::Result<()> {
    let branch = repo(backend).branch("main")?;
    let done =
        branch.edit(&info(&format!("number {n}"), Durability::Synced), |tree| tree.set("n", n.to_string().as_bytes()));
    done.map(drop)
}

/// Returns a new repository in which something was committed.
fn begun() -> SimStorage {
    let sim = SimStorage::new();
    SimGit::default().create(Arc::new(sim.clone())).unwrap();
    commit(&opened(Arc::new(sim.clone()), "one"), 0).unwrap();
    sim
}

fn keeps(storage: &dyn Storage) -> Vec<String> {
    storage.list(PACKS).unwrap().into_iter().filter(|name| name.ends_with(".keep")).collect()
}

/// Writes an object that no ref leads to; its pack stays protected for as long as the backend is open.
fn write_object(backend: &Arc<GitBackend>) {
    let body = b"something";
    let mut batch = Batch::new();
    batch.put(Kind::Contents, Algorithm::Sha1.object_id(Kind::Contents, body), body, &[], &[]);
    backend.append(batch, &[], Durability::Synced).unwrap();
}

#[test]
fn a_pack_in_progress_is_left_alone_whatever_its_process_is_called() {
    // One machine is the same start as that of the writer, and one is another.
    for boot in ["one", "two"] {
        let dir = tempfile::tempdir().unwrap();
        Layout::init(dir.path(), true, Algorithm::Sha1).unwrap();
        let real = Arc::new(RealStorage::new(dir.path()).following_links());
        commit(&opened(real.clone(), "one"), 0).unwrap();
        let (raw, once) = (real.clone(), AtomicBool::new(false));
        // Between the pack and its index another process opens the repository.
        let hooked = Hooked::new(real.clone(), move |coming| {
            if coming.method == "rename" && coming.name.contains("/tmp_idx_") && !once.swap(true, SeqCst) {
                drop(opened(raw.clone(), boot));
            }
        });
        let backend = opened(Arc::new(hooked), "one");
        for n in 1..3 {
            commit(&backend, n).unwrap();
        }
        drop(backend);
        let last = opened(real.clone(), "one");
        assert_eq!(repo(&last).branch("main").unwrap().tree().unwrap().get("n").unwrap().as_deref(), Some(&b"2"[..]));
        assert_eq!(keeps(&*real), Vec::<String>::new());
    }
}

#[test]
fn a_process_that_can_take_the_lock_of_a_protection_may_end_it() {
    for boot in ["one", "two"] {
        let sim = begun();
        let process = sim.process();
        let backend = opened(Arc::new(process.clone()), "one");
        write_object(&backend);
        assert_eq!(keeps(&sim).len(), 1);
        drop(opened(Arc::new(sim.clone()), boot));
        assert_eq!(keeps(&sim).len(), 1, "it is held by a process that lives");
        // The process is killed. Its number is still that of one that lives: ours.
        process.stop_after(process.process_calls());
        drop(opened(Arc::new(sim.clone()), boot));
        assert_eq!(keeps(&sim), Vec::<String>::new(), "no process holds it any more");
        drop(backend);
    }
}

/// Makes a file look two days old.
fn age(path: &Path) {
    let time = std::time::SystemTime::now() - std::time::Duration::from_secs(2 * 24 * 60 * 60);
    std::fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

/// Where other machines may not see locks, this one sees nothing of theirs: whatever it asks for is given.
#[test]
fn where_locks_may_not_reach_only_what_is_old_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    Layout::init(dir.path(), true, Algorithm::Sha1).unwrap();
    let elsewhere = |reach| {
        let real = Arc::new(RealStorage::new(dir.path()).following_links());
        Arc::new(Hooked::new(Arc::new(Lying::new(real, Lie::Locks)), |_| {}).with_reach(reach)) as Arc<dyn Storage>
    };
    let storage = elsewhere(Reach::Unknown);
    let writer = opened(storage.clone(), "one");
    commit(&writer, 0).unwrap();
    write_object(&writer);
    let keep = dir.path().join(PACKS).join(&keeps(&*storage)[0]);
    let idx = keep.with_extension("idx");
    std::fs::rename(&idx, keep.with_extension("gone")).unwrap();
    let other = opened(elsewhere(Reach::Unknown), "one");
    assert!(keep.exists() && keep.with_extension("pack").exists());
    let notes: Vec<&str> = other.notes().collect();
    assert!(notes.len() == 1 && notes[0].contains("other machines") && notes[0].contains("a day"), "{notes:?}");
    // So it is with the lock of a ref.
    let lock = dir.path().join("refs/heads/main.lock");
    std::fs::write(&lock, "bristlecone 1\n").unwrap();
    let brief = GitOptions::default().lock_wait_ms(20).background(false);
    let brief = Arc::new(GitBackend::open(elsewhere(Reach::Unknown), brief).unwrap());
    assert!(matches!(commit(&brief, 1), Err(Error::Locked { .. })));
    age(&lock);
    commit(&brief, 1).unwrap();
    age(&keep);
    drop(opened(elsewhere(Reach::Unknown), "one"));
    assert!(!keep.exists() && !keep.with_extension("pack").exists());
    drop((writer, other, brief));
}

#[test]
fn where_locks_may_not_reach_recovery_waits_for_a_day() {
    let dir = tempfile::tempdir().unwrap();
    Layout::init(dir.path(), true, Algorithm::Sha1).unwrap();
    let real = Arc::new(RealStorage::new(dir.path()).following_links());
    let storage = || Arc::new(Hooked::new(real.clone(), |_| {}).with_reach(Reach::Unknown));
    let writer = opened(storage(), "one");
    let branch = repo(&writer).branch("main").unwrap();
    branch.edit(&info("not synced", Durability::None), |tree| tree.set("a", b"b")).unwrap();
    let journal = dir.path().join("bristlecone/journal-1");
    let before = std::fs::read(&journal).unwrap();
    let other = opened(storage(), "two");
    assert_eq!(other.notes().count(), 1, "{:?}", other.notes().collect::<Vec<_>>());
    assert_eq!(std::fs::read(&journal).unwrap(), before);
    age(&journal);
    let other = opened(storage(), "two");
    assert_eq!(other.notes().count(), 0);
    assert!(std::fs::read_to_string(dir.path().join("bristlecone/journal-0")).unwrap().contains(" clean two"));
    assert!(repo(&other).branch("main").unwrap().head().unwrap().is_some());
    drop(writer);
}

const DIR: &str = "BRISTLECONE_TEST_CONTAINER_DIR";
const BRANCH: &str = "BRISTLECONE_TEST_CONTAINER_BRANCH";
const COMMITS: usize = 60;

#[test]
#[ignore = "the body of a child process that another test starts"]
fn body_of_a_container() {
    let (dir, branch) = (std::env::var(DIR).unwrap(), std::env::var(BRANCH).unwrap());
    for n in 0..COMMITS {
        let (_backend, repo) = open(Path::new(&dir), GitOptions::default().repack_min(8));
        let durability = [Durability::None, Durability::Synced][n % 2];
        // Both containers make the same objects.
        let add = |tree: &mut bristlecone::Tree<Git>| tree.set(format!("f{n}"), n.to_string().as_bytes());
        repo.branch(&branch).unwrap().edit(&info(&format!("number {n}"), durability), add).unwrap();
    }
}

#[needs(git, namespaces)]
#[test]
fn two_containers_lose_nothing_of_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let git = RealGit::init(dir.path(), &["--bare"]);
    let container = |branch: &str| {
        let mut command = Command::new("unshare");
        command.args(["-pf", "--mount-proc"]).arg(std::env::current_exe().unwrap());
        command.args(["--exact", "--ignored", "containers::body_of_a_container"]);
        command
            .env(DIR, dir.path())
            .env(BRANCH, branch)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        command.spawn().unwrap()
    };
    for child in [container("A"), container("B")] {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    git.fsck();
    for branch in ["A", "B"] {
        assert_eq!(git.text(&["rev-list", "--count", branch]), COMMITS.to_string());
    }
    let left = std::fs::read_dir(dir.path().join(PACKS)).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().ends_with(".keep")).collect();
    assert!(left.is_empty(), "{left:?}");
}
