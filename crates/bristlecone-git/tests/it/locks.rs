//! Lock files of refs: whose they are, how long they are waited for, and who removes them.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

use bristlecone::{
    Backend, Durability, Error, Repo,
    core::git::{Algorithm, Git},
    storage::{OpenMode, RealStorage, Storage as _},
};
use bristlecone_git::{
    backend::{GitBackend, GitOptions},
    layout::Layout,
};
use bristlecone_needs::needs;
use bristlecone_testkit::{
    crash::Engine,
    git::Git as RealGit,
    sim::{Policy, SimStorage},
};

use crate::{
    backend::{info, open},
    sim::write,
    sims::SimGit,
};

const WAIT_MS: u64 = 300;

fn commit(repo: &Repo<Git>, branch: &str, n: usize) -> bristlecone::Result<()> {
    let info = info(&format!("number {n}"), Durability::None);
    repo.branch(branch)?.edit(&info, |tree| tree.set("n", n.to_string().as_bytes())).map(drop)
}

/// Checks that a move was given up in time, and what its error says.
fn assert_told(error: Error, began: Instant, lock: &str) {
    let Error::Locked { file, holder, waited_ms } = error else { panic!("{error}") };
    assert!(file.ends_with(lock), "{file}");
    assert!((WAIT_MS..10 * WAIT_MS).contains(&waited_ms), "waited {waited_ms} ms");
    assert!(began.elapsed() < Duration::from_millis(20 * WAIT_MS));
    assert!(holder.contains("old") && holder.contains(&format!("rm '{file}'")), "{holder}");
}

#[needs(git)]
#[test]
fn a_ref_that_git_has_prepared_is_left_to_git() {
    for order in ["delete refs/heads/side", "verify refs/heads/side", "update refs/heads/side HEAD~1"] {
        let dir = tempfile::tempdir().unwrap();
        let git = RealGit::init(dir.path(), &[]);
        git.commit_all("first");
        let tip = git.commit_all("second");
        git.run(&["branch", "side"]);
        let mut child = git.command(&["update-ref", "--stdin"]);
        let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut orders = child.stdin.take().unwrap();
        let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
        write!(orders, "start\n{order} {tip}\nprepare\n").unwrap();
        for answer in ["start: ok", "prepare: ok"] {
            assert_eq!(answers.next().unwrap().unwrap(), answer);
        }
        let lock = dir.path().join(".git/refs/heads/side.lock");
        let (_backend, repo) = open(dir.path(), GitOptions::default().lock_wait_ms(WAIT_MS));
        let began = Instant::now();
        assert_told(commit(&repo, "side", 1).unwrap_err(), began, "refs/heads/side.lock");
        assert!(lock.exists());
        writeln!(orders, "commit").unwrap();
        drop(orders);
        assert!(child.wait().unwrap().success(), "{order}");
        assert!(!lock.exists());
        commit(&repo, "side", 2).unwrap();
        git.fsck();
    }
}

#[needs(git)]
#[test]
fn every_lock_of_gits_is_waited_for_as_long_as_asked_and_no_longer() {
    let dir = tempfile::tempdir().unwrap();
    let git = RealGit::init(dir.path(), &[]);
    git.commit_all("first");
    git.run(&["branch", "side"]);
    git.run(&["pack-refs", "--all"]);
    let (backend, repo) = open(dir.path(), GitOptions::default().lock_wait_ms(WAIT_MS));
    commit(&repo, "side", 0).unwrap();
    type Move = fn(&Repo<Git>) -> bristlecone::Result<()>;
    let moves: [(&str, Move); 3] = [
        ("HEAD.lock", |repo| commit(repo, "main", 1)),
        ("refs/heads/main.lock", |repo| commit(repo, "main", 1)),
        ("packed-refs.lock", |repo| {
            let side = repo.branch("side")?;
            side.compare_and_set(side.head()?, None, Durability::None).map(drop)
        }),
    ];
    for (name, moved) in moves {
        let lock = dir.path().join(".git").join(name);
        std::fs::write(&lock, "").unwrap();
        let began = Instant::now();
        assert_told(moved(&repo).unwrap_err(), began, name);
        std::fs::remove_file(&lock).unwrap();
    }
    commit(&repo, "main", 1).unwrap();
    drop(backend);
}

/// Returns a repository after a power cut in the middle of unsynced commits, with these bytes in the lock of the
/// branch.
fn cut_with_lock(text: &[u8]) -> SimStorage {
    let sim = SimStorage::new();
    let backend = SimGit::default().create(Arc::new(sim.clone())).unwrap();
    let repo = Repo::with_backend(Git::new(Algorithm::Sha1), backend.clone());
    commit(&repo, "main", 0).unwrap();
    let cut = sim.reboot(1, Policy::Kept);
    write(&cut, "refs/heads/main.lock", text);
    cut
}

fn opened(sim: &SimStorage, boot: &str) -> bristlecone::Result<Repo<Git>> {
    let options = GitOptions::default().boot(Some(boot.to_owned())).lock_wait_ms(30).background(false);
    let backend: Arc<dyn Backend> = Arc::new(GitBackend::open(Arc::new(sim.clone()), options)?);
    Ok(Repo::with_backend(Git::new(Algorithm::Sha1), backend))
}

#[test]
fn a_lock_without_a_word_goes_after_a_power_cut_and_only_then() {
    for text in [&b""[..], b"\0\0\0\0\0\0\0"] {
        let cut = cut_with_lock(text);
        let repo = opened(&cut, "after the cut").unwrap();
        assert!(cut.contents("refs/heads/main.lock").is_none());
        commit(&repo, "main", 1).unwrap();
        // While the machine runs another program holds it.
        write(&cut, "refs/heads/main.lock", text);
        assert!(matches!(commit(&repo, "main", 2), Err(Error::Locked { .. })));
        drop(repo);
        let repo = opened(&cut, "after the cut").unwrap();
        assert!(matches!(commit(&repo, "main", 2), Err(Error::Locked { .. })));
    }
    // A lock file with words in it belongs to another program at any time.
    let cut = cut_with_lock(b"4b825dc642cb6eb9a060e54bf8d69288fbee4904\n");
    let done = opened(&cut, "after the cut").and_then(|repo| commit(&repo, "main", 1));
    assert!(matches!(done, Err(Error::Locked { .. })), "{done:?}");
    assert!(cut.contents("refs/heads/main.lock").is_some());
}

#[needs(linux)]
#[test]
fn a_recovery_removes_no_lock_that_is_younger_than_the_start_of_the_machine() {
    let dir = tempfile::tempdir().unwrap();
    Layout::init(dir.path(), true, Algorithm::Sha1).unwrap();
    let opened = |boot: &str| {
        let options = GitOptions::default().boot(Some(boot.to_owned())).lock_wait_ms(30);
        let backend: Arc<dyn Backend> = Arc::new(GitBackend::open_path(&Layout::open(dir.path())?, options)?);
        Ok::<_, Error>(Repo::with_backend(Git::new(Algorithm::Sha1), backend))
    };
    let before = opened("before").unwrap();
    commit(&before, "main", 0).unwrap();
    let lock = dir.path().join("refs/heads/main.lock");
    let file = std::fs::File::create(&lock).unwrap();
    let done = opened("after").and_then(|repo| commit(&repo, "main", 1));
    assert!(matches!(done, Err(Error::Locked { .. })), "{done:?}");
    assert!(lock.exists());
    file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(1)).unwrap();
    opened("after").and_then(|repo| commit(&repo, "main", 1)).unwrap();
    assert!(!lock.exists());
    drop(before);
}

#[test]
fn what_was_written_for_a_lock_that_never_came_is_taken_back() {
    let dir = tempfile::tempdir().unwrap();
    Layout::init(dir.path(), true, Algorithm::Sha1).unwrap();
    let (_backend, repo) = open(dir.path(), GitOptions::default().lock_wait_ms(30));
    commit(&repo, "main", 0).unwrap();
    let packs = || std::fs::read_dir(dir.path().join("objects/pack")).unwrap().count();
    let before = packs();
    let lock = RealStorage::new(dir.path()).open("bristlecone/lock", OpenMode::Write).unwrap();
    assert!(lock.try_lock().unwrap());
    assert!(matches!(commit(&repo, "main", 1), Err(Error::Locked { .. })));
    assert_eq!(packs(), before);
    drop(lock);
    commit(&repo, "main", 1).unwrap();
}

/// Neither can be read, and neither is a lock of ours.
#[test]
fn the_wait_ends_also_for_a_folder_and_for_a_link_that_leads_nowhere() {
    for link in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        Layout::init(dir.path(), true, Algorithm::Sha1).unwrap();
        // For a folder, which no program makes, there is no wait.
        let (_backend, repo) = open(dir.path(), GitOptions::default().lock_wait_ms(if link { 20 } else { 60_000 }));
        let lock = dir.path().join("refs/heads/side.lock");
        if link {
            std::os::unix::fs::symlink("nowhere", &lock).unwrap();
        } else {
            std::fs::create_dir(&lock).unwrap();
        }
        let began = Instant::now();
        let error = commit(&repo, "side", 1).unwrap_err();
        let Error::Locked { file, holder, .. } = &error else { panic!("{error}") };
        assert!(file.ends_with("side.lock"), "{file}");
        let way_out = if link { "rm '" } else { "it is a folder, where locks are files; `rmdir '" };
        assert!(holder.contains(way_out), "{holder}");
        assert!(began.elapsed() < Duration::from_secs(1));
        if link { std::fs::remove_file(&lock) } else { std::fs::remove_dir(&lock) }.unwrap();
        commit(&repo, "side", 2).unwrap();
    }
}
