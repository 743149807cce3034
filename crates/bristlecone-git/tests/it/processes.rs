//! Other processes at work on the same repository: real Git, and ours. Nothing is lost, and each reads all.

use std::{
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread,
};

use bristlecone::{
    Backend, Batch, Durability, Error, Expected, Info, Kind, RefMove, RefTarget, Signature, Sink as _,
    core::git::Algorithm,
    storage::{OpenMode, Storage as _, write_all_at},
};
use bristlecone_git::{
    backend::{GitBackend, GitOptions},
    layout::Layout,
};
use bristlecone_needs::needs;
use bristlecone_testkit::{
    crash::Engine as _,
    git::Git,
    sim::{Hooked, SimStorage},
};

use crate::{
    backend::{info, open},
    sims::SimGit,
};

/// Commits to a branch of ours until `count` are there, each on top of whatever is there.
fn commit_ours(dir: &Path, name: &str, by: &str, count: usize, options: GitOptions) {
    let (_backend, repo) = open(dir, options);
    let branch = repo.branch(name).unwrap();
    for n in 0..count {
        let durability = [Durability::None, Durability::Grouped, Durability::Synced][n % 3];
        let info = info(&format!("{by} {n}"), durability);
        branch.edit(&info, |tree| tree.set(format!("{by}/{n}"), format!("{by} {n}").as_bytes())).unwrap();
    }
}

/// Runs `git` until it succeeds and returns what it prints: it fails where another Git removes a folder, or packs,
/// under its hands.
fn insist(git: &Git, arguments: &[&str]) -> String {
    for _ in 0..200 {
        let (done, text) = git.attempt(arguments);
        if done {
            return text.trim_end().to_owned();
        }
    }
    panic!("git {arguments:?} never succeeds: {}", git.attempt(arguments).1);
}

/// The same with Git's plumbing: a compare-and-set of the branch, again until it succeeds.
fn commit_gits(git: &Git, name: &str, by: &str, count: usize) {
    let full = format!("refs/heads/{name}");
    for n in 0..count {
        loop {
            let old = insist(git, &["rev-parse", "-q", "--verify", &full]);
            let tree = insist(git, &["rev-parse", &format!("{old}^{{tree}}")]);
            let new = insist(git, &["commit-tree", "-p", &old, "-m", &format!("{by} {n}"), &tree]);
            if git.attempt(&["update-ref", "-m", "by Git", &full, &new, &old]).0 {
                break;
            }
        }
    }
}

#[needs(git)]
#[test]
fn commits_of_ours_and_of_git_meet_on_one_branch() {
    const EACH: usize = 40;
    for loose in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let git = Git::init(dir.path(), &[]);
        git.write("file", "0");
        git.commit_all("first");
        git.run(&["branch", "shared"]);
        let (ended, rounds) = (AtomicBool::new(false), AtomicUsize::new(0));
        let options = || GitOptions::default().loose(loose).repack_min(8);
        thread::scope(|scope| {
            let workers = [
                scope.spawn(|| commit_ours(dir.path(), "shared", "one", EACH, options())),
                scope.spawn(|| commit_ours(dir.path(), "shared", "two", EACH, options())),
                scope.spawn(|| commit_gits(&Git::new(dir.path()), "shared", "git", EACH)),
                // In the working tree, on the branch that is checked out.
                scope.spawn(|| {
                    let git = Git::new(dir.path());
                    for n in 0..EACH {
                        git.write("file", format!("main {n}"));
                        insist(&git, &["commit", "-q", "-a", "-m", &format!("main {n}")]);
                    }
                }),
            ];
            scope.spawn(|| {
                let git = Git::new(dir.path());
                while !ended.load(SeqCst) {
                    // Git gives up where another holds a lock that it wants at once.
                    for order in [&["pack-refs", "--all"][..], &["repack", "-adq"], &["gc", "-q"]] {
                        git.attempt(order);
                    }
                    rounds.fetch_add(1, SeqCst);
                }
            });
            let failed = workers.into_iter().map(thread::ScopedJoinHandle::join).any(|joined| joined.is_err());
            ended.store(true, SeqCst);
            assert!(!failed, "a worker panicked");
        });
        assert!(rounds.load(SeqCst) > 0);
        assert_eq!(git.text(&["rev-list", "--count", "shared"]), (1 + 3 * EACH).to_string());
        assert_eq!(git.text(&["rev-list", "--count", "main"]), (1 + EACH).to_string());
        let subjects = git.text(&["log", "--format=%s", "shared"]);
        for by in ["one", "two", "git"] {
            let of: Vec<&str> = subjects.lines().filter(|line| line.starts_with(by)).collect();
            let wanted: Vec<String> = (0..EACH).rev().map(|n| format!("{by} {n}")).collect();
            assert_eq!(of, wanted);
        }
        git.fsck();
        let (_backend, repo) = open(dir.path(), GitOptions::default());
        let tree = repo.branch("shared").unwrap().tree().unwrap();
        for n in 0..EACH {
            let found = tree.get(format!("one/{n}")).unwrap();
            assert_eq!(found.as_deref(), Some(format!("one {n}").as_bytes()));
        }
    }
}

#[test]
fn a_lock_of_another_program_is_waited_for_and_one_that_we_left_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    Layout::init(dir.path(), true, Algorithm::Sha1).unwrap();
    let options = GitOptions::default().lock_wait_ms(50);
    let (_backend, repo) = open(dir.path(), options);
    let branch = repo.branch("main").unwrap();
    let commit = |n: usize| {
        let mut tree = branch.tree()?;
        tree.set("n", n.to_string().as_bytes())?;
        branch.commit(&mut tree, &Info::message("m").by(Signature::new("A <a@b>", 1)))
    };
    commit(0).unwrap();
    let lock = dir.path().join("refs/heads/main.lock");
    for (n, (text, left)) in [
        ("4b825dc642cb6eb9a060e54bf8d69288fbee4904\n", false),
        ("", false),
        ("\0\0\0\0\0\0\0", false),
        ("bristle", false),
        ("bristlecone 1\n", true),
        ("bristlecone 99999 by somebody\n", true),
    ]
    .into_iter()
    .enumerate()
    {
        std::fs::write(&lock, text).unwrap();
        match commit(n + 1) {
            Ok(_) => assert!(left && !lock.exists(), "{text:?}"),
            Err(Error::Locked { file, waited_ms, .. }) => {
                assert!(!left && waited_ms >= 50 && file.ends_with("refs/heads/main.lock"), "{text:?}");
                std::fs::remove_file(&lock).unwrap();
            }
            Err(error) => panic!("{text:?}: {error}"),
        }
    }
}

#[needs(git)]
#[test]
fn a_process_that_is_killed_leaves_nothing_in_the_way() {
    if let Ok(dir) = std::env::var("BRISTLECONE_TEST_KILLED_DIR") {
        commit_ours(Path::new(&dir), "main", "child", usize::MAX, GitOptions::default().repack_min(8));
    }
    let dir = tempfile::tempdir().unwrap();
    let git = Git::init(dir.path(), &["--bare"]);
    let mut count = 0;
    for round in 0..12_u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "processes::a_process_that_is_killed_leaves_nothing_in_the_way"])
            .env("BRISTLECONE_TEST_KILLED_DIR", dir.path())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        thread::sleep(std::time::Duration::from_millis(120 + round * 7));
        child.kill().unwrap();
        child.wait().unwrap();
        commit_ours(dir.path(), "main", "parent", 3, GitOptions::default());
        let now: usize = git.text(&["rev-list", "--count", "main"]).parse().unwrap();
        assert!(now >= count + 3);
        count = now;
        let names = |dir: &str| {
            let names = std::fs::read_dir(git.dir().join(dir)).unwrap();
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(names("refs/heads"), ["main"]);
        let names = names("objects/pack");
        assert!(names.iter().all(|name| name.ends_with(".pack") || name.ends_with(".idx")), "{names:?}");
    }
    git.fsck();
}

#[needs(git)]
#[test]
fn reading_alone_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let git = Git::init(dir.path(), &[]);
    git.write("a/b", "c");
    git.commit_all("first");
    let listed = || {
        let output = Command::new("find").arg(dir.path()).args(["-printf", "%p %T@ %s\n"]).output().unwrap();
        let mut lines: Vec<String> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    let before = listed();
    for read_only in [true, false] {
        let (backend, repo) = open(dir.path(), GitOptions::default().read_only(read_only));
        assert_eq!(repo.branch("main").unwrap().tree().unwrap().get("a/b").unwrap().as_deref(), Some(&b"c"[..]));
        assert_eq!(backend.list_refs("").unwrap().len(), 1);
        backend.flush().unwrap();
        assert!(backend.git_head().unwrap().is_some());
        if read_only {
            let refused = backend.append(bristlecone::Batch::new(), &[], Durability::Synced);
            assert!(matches!(refused, Err(Error::ReadOnly)));
            assert!(matches!(backend.write_derived("x", b"y"), Err(Error::ReadOnly)));
            assert!(matches!(backend.repack_all(), Err(Error::ReadOnly)));
        }
        drop((repo, backend));
        assert_eq!(listed(), before);
    }
    assert!(matches!(
        GitBackend::open(
            std::sync::Arc::new(bristlecone::storage::RealStorage::new(dir.path())),
            GitOptions::default()
        ),
        Err(Error::NoStore { .. })
    ));
}

/// A folder is left where somebody was refused a ref below a packed one.
#[needs(git)]
#[test]
fn a_packed_branch_moves_where_an_empty_folder_is_in_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let git = Git::init(dir.path(), &[]);
    git.commit_all("first");
    git.run(&["branch", "topic"]);
    git.run(&["pack-refs", "--all"]);
    assert!(!git.attempt(&["branch", "topic/below"]).0);
    assert!(dir.path().join(".git/refs/heads/topic").is_dir(), "Git leaves a folder");
    commit_ours(dir.path(), "topic", "ours", 3, GitOptions::default());
    assert_eq!(git.text(&["rev-list", "--count", "topic"]).trim(), "4");
    git.fsck();
}

/// A Git that writes an object finds it in our pack, and writes none of its own.
#[test]
fn what_a_synced_append_made_visible_stays_though_its_ref_had_moved() {
    let sim = SimStorage::new();
    drop(SimGit::default().create(Arc::new(sim.clone())).unwrap());
    let object = |text: &str| {
        let (mut batch, oid) = (Batch::new(), Algorithm::Sha1.object_id(Kind::Contents, text.as_bytes()));
        batch.put(Kind::Contents, oid, text.as_bytes(), &[], &[]);
        (batch, oid)
    };
    let moves = |oid, expected| {
        [RefMove { name: "refs/tags/v".to_owned(), expected, to: Some(RefTarget::Object(bristlecone::Oid::into(oid))) }]
    };
    let ((first, first_oid), (second, second_oid)) = (object("first"), object("second"));
    let (inner, armed) = (sim.clone(), Arc::new(AtomicBool::new(false)));
    let is_armed = armed.clone();
    let hooked = Hooked::new(Arc::new(sim.clone()), move |coming| {
        // The pack has its name, and the ref is not locked yet.
        if (coming.method, coming.name) == ("sync_dir", "objects/pack") && is_armed.swap(false, SeqCst) {
            inner.create_dir("refs/tags").unwrap();
            let file = inner.open("refs/tags/v", OpenMode::CreateNew).unwrap();
            write_all_at(&*file, format!("{first_oid}\n").as_bytes(), 0).unwrap();
        }
    });
    let backend = SimGit::default().open(Arc::new(hooked)).unwrap();
    backend.append(first, &[], Durability::Synced).unwrap();
    armed.store(true, SeqCst);
    let refused = backend.append(second, &moves(second_oid, Expected::Absent), Durability::Synced);
    assert!(matches!(refused, Err(Error::RefMoved { .. })), "{refused:?}");
    assert!(!armed.load(SeqCst));
    drop(backend);
    let backend = SimGit::default().open(Arc::new(sim.clone())).unwrap();
    assert!(backend.read(&second_oid.into()).unwrap().is_some());
    // Nothing protects it from a `git gc`.
    let keeps = sim.list("objects/pack").unwrap().into_iter().filter(|name| name.ends_with(".keep"));
    assert_eq!(keeps.collect::<Vec<_>>(), Vec::<String>::new());
}
