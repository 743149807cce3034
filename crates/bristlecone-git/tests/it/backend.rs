//! A store in a Git repository: real Git reads what it writes, and the reverse.

use std::{path::Path, sync::Arc};

use bristlecone::{
    Durability, Info, Repo, Signature,
    core::git::{Algorithm, Git},
};
use bristlecone_git::{
    backend::{GitBackend, GitOptions},
    layout::Layout,
};
use bristlecone_testkit::git::{self, Git as RealGit};

fn open(dir: &Path, options: GitOptions) -> (Arc<GitBackend>, Repo<Git>) {
    let layout = Layout::open(dir).unwrap();
    let backend = Arc::new(GitBackend::open_path(&layout, options).unwrap());
    (backend.clone(), Repo::with_backend(Git::new(layout.algorithm), backend))
}

fn info(message: &str, durability: Durability) -> Info {
    Info::message(message).by(Signature::new("A <a@example.org>", 1_700_000_000)).durability(durability)
}

#[test]
fn git_reads_what_is_committed() {
    if !git::is_there("git_reads_what_is_committed") {
        return;
    }
    for (algorithm, loose) in
        [(Algorithm::Sha1, false), (Algorithm::Sha1, true), (Algorithm::Sha256, false), (Algorithm::Sha256, true)]
    {
        let dir = tempfile::tempdir().unwrap();
        Layout::init(dir.path(), false, algorithm).unwrap();
        let git = RealGit::new(dir.path());
        let (backend, repo) = open(dir.path(), GitOptions { loose, ..GitOptions::default() });
        let branch = repo.branch("side").unwrap();
        let mut tree = branch.tree().unwrap();
        let mut commits = Vec::new();
        for n in 0..30 {
            tree.add(&format!("d{}/e/f{n}", n % 3), format!("value {n}").as_bytes()).unwrap();
            let durability = [Durability::None, Durability::Grouped, Durability::Synced][n % 3];
            commits.push(branch.commit(&mut tree, &info(&format!("number {n}\n\nmore"), durability)).unwrap());
            assert_eq!(git.text(&["rev-parse", "side"]), commits[n].oid.to_string());
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
            let found = tree.find(&format!("d{}/e/f{n}", n % 3)).unwrap();
            assert_eq!(found.as_deref(), Some(format!("value {n}").as_bytes()));
        }
        let keeps = git.text(&["count-objects", "-v"]);
        assert!(keeps.contains("garbage: 0"), "{keeps}");
        let names = std::fs::read_dir(dir.path().join(".git/objects/pack")).unwrap();
        let kept = names.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|e| e == "keep"));
        assert_eq!(kept.count(), 0);
    }
}
