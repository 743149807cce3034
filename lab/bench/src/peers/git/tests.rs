//! Every peer that is there, very small; what they leave is compared with the others.

use bristlecone_needs::needs;

use std::{fs, path::Path};

use super::{library::Plan, *};
use crate::{
    job::{Sizes, Switches},
    workload::Workload,
};

fn job(target: Target, work: Work, dir: &Path) -> Job {
    let sizes = Sizes { ncommits: 5, tree_add: 30, depth: 2, nreads: 100, ..Sizes::default() };
    let (switches, dir, name) = (Switches::default(), dir.to_owned(), "test".into());
    Job { work, target, value_bytes: 20, sizes, switches, dir, name, label: None, judged: true }
}

fn works() -> [Work; 4] {
    let reads = |way| Work::Reads { way, threads: 1, long: false };
    [Work::Commits, Work::Incremental { long: false, touch_all: false }, reads(Way::InOrder), reads(Way::Walk)]
}

#[needs(git)]
#[test]
fn git_fast_import_makes_sound_commits() {
    make_the_same_commits(&[Target::FastImport]);
}

#[cfg_attr(not(feature = "git-peers"), ignore = "needs the feature git-peers")]
#[cfg_attr(feature = "git-peers", needs(git))]
#[test]
fn peers_make_the_same_commits() {
    make_the_same_commits(&Target::PEERS);
}

fn make_the_same_commits(targets: &[Target]) {
    let dir = tempfile::tempdir().unwrap();
    for work in works() {
        let mut heads = Vec::new();
        for &target in targets.iter().filter(|target| does(**target, work, 20)) {
            let run = run(&job(target, work, dir.path())).unwrap().remove(0);
            assert_eq!(run.wrong, None, "{target:?} {work:?}");
            assert!(run.ops > 0 && run.seconds > 0.0, "{target:?} {work:?}");
            heads.push(run.head.unwrap());
        }
        assert!(heads.windows(2).all(|pair| pair[0] == pair[1]), "{work:?}: {heads:?}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "no repository is left behind");
}

#[test]
fn another_root_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let job = job(Target::FastImport, Work::Commits, dir.path());
    let workload = Workload::new(&job);
    let plan = Plan::new(&job, &workload);
    let mut run = Run::default();
    plan.check(&workload, ("0".repeat(40), "1".repeat(40)), &mut run).unwrap();
    assert!(run.wrong.unwrap().contains("is not that of its contents"));
}

#[test]
fn what_is_left_out_is_named() {
    let said = left_out(&Target::PEERS);
    assert_eq!(said.iter().any(|line| line.contains("--features git-peers")), !cfg!(feature = "git-peers"));
    assert!(left_out(&Target::NATIVE).is_empty());
}

#[cfg(feature = "git-peers")]
#[test]
fn versions_are_those_that_are_built_in() {
    let manifest = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml")).unwrap();
    let version = gitoxide::VERSION.strip_prefix("gix ").unwrap();
    assert!(manifest.contains(&format!("gix = {{ version = \"{version}\"")));
    assert!(version_of(Target::Libgit2).starts_with("libgit2 1."));
}

#[cfg(feature = "git-peers")]
fn version_of(target: Target) -> String {
    version(target).unwrap()
}
