//! A store in a Git repository: real Git reads what it writes, and the reverse.

use std::{path::Path, sync::Arc};

use bristlecone::{
    Backend, Batch, Durability, Error, Expected, Info, RefMove, RefTarget, Repo, Signature,
    core::git::{Algorithm, Git},
};
use bristlecone_git::{
    backend::{GitBackend, GitOptions},
    layout::Layout,
};
use bristlecone_needs::needs;
use bristlecone_testkit::git::Git as RealGit;

pub(crate) fn open(dir: &Path, options: GitOptions) -> (Arc<GitBackend>, Repo<Git>) {
    let layout = Layout::open(dir).unwrap();
    let backend = Arc::new(GitBackend::open_path(&layout, options).unwrap());
    (backend.clone(), Repo::with_backend(Git::new(layout.algorithm), backend))
}

pub(crate) fn info(message: &str, durability: Durability) -> Info {
    Info::message(message).by(Signature::new("A <a@example.org>", 1_700_000_000)).durability(durability)
}

#[needs(git)]
#[test]
fn git_reads_what_is_committed() {
    for (algorithm, loose) in
        [(Algorithm::Sha1, false), (Algorithm::Sha1, true), (Algorithm::Sha256, false), (Algorithm::Sha256, true)]
    {
        let dir = tempfile::tempdir().unwrap();
        Layout::init(dir.path(), false, algorithm).unwrap();
        let git = RealGit::new(dir.path());
        let (backend, repo) = open(dir.path(), GitOptions::default().loose(loose));
        let branch = repo.branch("side").unwrap();
        let mut tree = branch.tree().unwrap();
        let mut commits = Vec::new();
        for n in 0..30 {
            tree.set(format!("d{}/e/f{n}", n % 3), format!("value {n}").as_bytes()).unwrap();
            let durability = [Durability::None, Durability::Grouped, Durability::Synced][n % 3];
            commits.push(branch.commit(&mut tree, &info(&format!("number {n}\n\nmore"), durability)).unwrap());
            assert_eq!(git.text(&["rev-parse", "side"]), commits[n].oid().to_string());
        }
        git.fsck();
        assert_eq!(git.text(&["rev-list", "--count", "side"]), "30");
        assert_eq!(git.text(&["show", "side:d2/e/f29"]), "value 29");
        let log = git.text(&["reflog", "show", "--format=%gs", "side"]);
        assert_eq!((log.lines().count(), log.lines().next()), (30, Some("commit: number 29")));
        drop((branch, tree, repo, backend));
        git.fsck();
        let (_backend, repo) = open(dir.path(), GitOptions::default());
        let tree = repo.branch("side").unwrap().tree().unwrap();
        for n in 0..30 {
            let found = tree.get(format!("d{}/e/f{n}", n % 3)).unwrap();
            assert_eq!(found.as_deref(), Some(format!("value {n}").as_bytes()));
        }
        let keeps = git.text(&["count-objects", "-v"]);
        assert!(keeps.contains("garbage: 0"), "{keeps}");
        let names = std::fs::read_dir(dir.path().join(".git/objects/pack")).unwrap();
        let kept = names.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|e| e == "keep"));
        assert_eq!(kept.count(), 0);
    }
}

/// What a process left that died while it wrote a derived file goes when the repository is opened to be written.
#[test]
fn what_is_left_of_a_derived_file_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    Layout::init(dir.path(), false, Algorithm::Sha1).unwrap();
    bristlecone_testkit::conformance::what_is_left_of_a_derived_file_is_removed(
        &dir.path().join(".git/bristlecone/derived"),
        &|read_only| open(dir.path(), GitOptions::default().read_only(read_only)).0,
    );
}

#[test]
fn a_damaged_pack_keeps_no_others_from_being_repacked() {
    let dir = tempfile::tempdir().unwrap();
    Layout::init(dir.path(), true, Algorithm::Sha1).unwrap();
    let options = || GitOptions::default().background(false).repack(false);
    let (backend, repo) = open(dir.path(), options());
    for n in 0..6 {
        let info = info(&format!("number {n}"), Durability::Synced);
        repo.branch("main").unwrap().edit(&info, |tree| tree.set(format!("f{n}"), format!("value {n}"))).unwrap();
    }
    drop((backend, repo));
    let packs = || {
        let entries = std::fs::read_dir(dir.path().join("objects/pack")).unwrap();
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.retain(|path| path.extension().is_some_and(|ending| ending == "pack"));
        paths
    };
    assert_eq!(packs().len(), 6);
    let damaged = packs().remove(2);
    let mut bytes = std::fs::read(&damaged).unwrap();
    bytes[20] ^= 1;
    std::fs::remove_file(&damaged).unwrap();
    std::fs::write(&damaged, bytes).unwrap();
    let (backend, _) = open(dir.path(), options());
    let done = backend.repack_all();
    assert!(matches!(&done, Err(Error::Corrupt { file, .. }) if *file == damaged.display().to_string()), "{done:?}");
    assert!(packs().len() == 2 && packs().contains(&damaged), "the others became one");
}

#[test]
fn no_pack_is_removed_where_objects_are_precious() {
    let dir = tempfile::tempdir().unwrap();
    Layout::init(dir.path(), true, Algorithm::Sha1).unwrap();
    let config = "[core]\n\trepositoryFormatVersion = 1\n\tbare = true\n[extensions]\n\tpreciousObjects = true\n";
    std::fs::write(dir.path().join("config"), config).unwrap();
    let (backend, repo) = open(dir.path(), GitOptions::default().background(false).repack_min(4));
    for n in 0..12 {
        let info = info(&format!("number {n}"), Durability::Synced);
        repo.branch("main").unwrap().edit(&info, |tree| tree.set(format!("f{n}"), format!("value {n}"))).unwrap();
    }
    backend.repack_all().unwrap();
    backend.close().unwrap();
    let names = std::fs::read_dir(dir.path().join("objects/pack")).unwrap();
    let packs = names.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|ending| ending == "pack"));
    assert_eq!(packs.count(), 12);
}

#[test]
fn reflogs_are_begun_for_the_refs_that_the_configuration_says() {
    for (value, branch, tag) in [("false", false, false), ("true", true, false), ("Always", true, true)] {
        let dir = tempfile::tempdir().unwrap();
        Layout::init(dir.path(), true, Algorithm::Sha1).unwrap();
        std::fs::write(dir.path().join("config"), format!("[core]\n\tbare = true\n\tlogAllRefUpdates = {value}\n"))
            .unwrap();
        let (backend, repo) = open(dir.path(), GitOptions::default());
        let add = |tree: &mut bristlecone::Tree<Git>| tree.set("f", "x");
        let made = repo.branch("main").unwrap().edit(&info("one", Durability::None), add).unwrap();
        let to = Some(RefTarget::Object(made.oid().into()));
        let moved = RefMove { name: "refs/tags/t".to_owned(), expected: Expected::Absent, to };
        backend.append(Batch::new(), &[moved], Durability::None).unwrap();
        let logs = ["heads/main", "tags/t"].map(|name| dir.path().join("logs/refs").join(name).exists());
        assert_eq!(logs, [branch, tag], "{value}");
    }
}

#[needs(git)]
#[test]
fn many_small_packs_are_folded_as_they_come() {
    for background in [false, true] {
        for durability in [Durability::None, Durability::Synced] {
            let dir = tempfile::tempdir().unwrap();
            Layout::init(dir.path(), true, Algorithm::Sha1).unwrap();
            let git = RealGit::new(dir.path());
            let options = GitOptions::default().background(background).repack_min(10);
            let (backend, repo) = open(dir.path(), options);
            let branch = repo.branch("main").unwrap();
            let mut tree = branch.tree().unwrap();
            let commit = |tree: &mut bristlecone::Tree<Git>, n: usize| {
                tree.set(format!("wide/{}", n % 300), format!("value {n}").as_bytes()).unwrap();
                branch.commit(tree, &info(&format!("number {n}"), durability)).unwrap();
            };
            (0..300).for_each(|n| tree.set(format!("wide/{n}"), b"first").unwrap());
            (0..200).for_each(|n| commit(&mut tree, n));
            backend.close().unwrap();
            let packs = backend.odb().pack_names().len();
            assert!(packs < 60, "{packs} packs");
            (200..210).for_each(|n| commit(&mut tree, n));
            backend.repack_all().unwrap();
            assert_eq!(backend.odb().pack_names().len(), 1);
            git.fsck();
            assert_eq!(git.text(&["rev-list", "--count", "main"]), "210");
            let repacked = backend.stats().store_bytes;
            git.run(&["gc", "-q"]);
            let garbage_collected = backend.stats().store_bytes;
            assert!(repacked * 2 <= garbage_collected * 3, "{repacked} bytes repacked, {garbage_collected} by Git");
            // What was repacked and what Git packed since is read all the same.
            repo.clear_caches();
            assert_eq!(branch.tree().unwrap().get("wide/9").unwrap().as_deref(), Some(&b"value 9"[..]));
            (210..220).for_each(|n| commit(&mut tree, n));
            backend.close().unwrap();
            git.fsck();
        }
    }
}

#[needs(git)]
#[test]
fn what_was_abandoned_writes_no_more_and_others_go_on() {
    let dir = tempfile::tempdir().unwrap();
    Layout::init(dir.path(), true, Algorithm::Sha1).unwrap();
    let git = RealGit::new(dir.path());
    let (backend, repo) = open(dir.path(), GitOptions::default());
    let commit = |repo: &Repo<Git>, value: &str| {
        let info = info(value, Durability::Synced);
        repo.branch("main")?.edit(&info, |tree| tree.set("n", value.as_bytes())).map(drop)
    };
    commit(&repo, "1").unwrap();
    backend.abandon().unwrap();
    let refused = commit(&repo, "2");
    assert!(matches!(refused, Err(Error::Poisoned { .. })), "{refused:?}");
    let (_other, again) = open(dir.path(), GitOptions::default());
    commit(&again, "3").unwrap();
    git.fsck();
    assert_eq!(git.text(&["log", "--format=%s", "main"]), "3\n1");
}

/// Prints how fast commits and reads are; run it alone, with optimisations.
#[test]
#[ignore = "measures; says nothing by itself"]
fn speed_of_commits_and_reads() {
    let dir = tempfile::tempdir_in(std::env::var("BRISTLECONE_TEST_DIR").unwrap_or("/tmp".to_owned())).unwrap();
    Layout::init(dir.path(), true, Algorithm::Sha1).unwrap();
    let (backend, repo) = open(dir.path(), GitOptions::default());
    let branch = repo.branch("main").unwrap();
    let mut tree = branch.tree().unwrap();
    let path = |n: usize| format!("a/b/c/d/e/f/g/h/i/j/entry{n}");
    (0..1000).for_each(|n| tree.set(path(n), format!("value {n} of twenty").as_bytes()).unwrap());
    branch.commit(&mut tree, &info("base", Durability::Synced)).unwrap();
    for (durability, count) in [(Durability::None, 3000), (Durability::Grouped, 1000), (Durability::Synced, 200)] {
        let before = backend.stats();
        let start = std::time::Instant::now();
        for n in 0..count {
            tree.set(path(n % 1000), format!("value {n} of {}", durability.name()).as_bytes()).unwrap();
            branch.commit(&mut tree, &info("one entry", durability)).unwrap();
        }
        let seconds = start.elapsed().as_secs_f64();
        let after = backend.stats();
        println!(
            "{}: {:.0} commits/s, {:.2} syncs a commit, {} packs",
            durability.name(),
            count as f64 / seconds,
            (after.syncs - before.syncs) as f64 / count as f64,
            backend.odb().pack_names().len()
        );
    }
    drop((tree, branch, repo, backend));
    let (_backend, repo) = open(dir.path(), GitOptions::default());
    let tree = repo.branch("main").unwrap().tree().unwrap();
    let paths: Vec<bristlecone::Path> = (0..1000).map(|n| path(n).parse().unwrap()).collect();
    for round in 0..4 {
        let start = std::time::Instant::now();
        let mut at = 7;
        for _ in 0..200_000 {
            at = (at * 31 + 17) % 1000;
            assert!(tree.get(&paths[at]).unwrap().is_some());
        }
        println!("round {round}: {:.0} lookups/s", 200_000.0 / start.elapsed().as_secs_f64());
    }
}
