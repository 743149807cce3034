//! Copies of histories that retention has cut: with their gaps, until a store that has what is lacking is copied.

use bristlecone::SweepLimits;

use super::*;

/// Commits a number of times to a branch, each time another value.
fn chain(repo: &AnyRepo, commits: usize) -> Vec<CommitId> {
    (0..commits).map(|n| crate::commit(repo, "main", &[(&format!("p{n}"), "1")]).oid.into()).collect()
}

fn on_disk(name: &str) -> AnyRepo {
    let format = format(name);
    let backend = DiskBackend::create(Arc::new(SimStorage::new()), format.tag(), tiny()).unwrap();
    in_memory(&format).wrapped(|_| Arc::new(backend))
}

/// Returns a copy of a store that keeps the last commits of each branch.
fn cut_to(whole: &AnyRepo, kept: usize) -> AnyRepo {
    let cut = on_disk(whole.format().name());
    let commits = copied(whole, &cut).commits;
    cut.set_retention(&format!("last {kept} refs/heads/*\n").parse().unwrap()).unwrap();
    assert_eq!(cut.sweep(&[], &SweepLimits::default()).unwrap().commits, commits - kept as u64);
    cut
}

/// Returns how many commits a branch leads to.
fn commits(repo: &AnyRepo) -> usize {
    let head = repo.branch("main").unwrap().head().unwrap().unwrap();
    repo.log(&[head], LogOptions::default()).map(Result::unwrap).count()
}

#[test]
fn a_whole_history_fills_a_copy_of_one_that_was_cut() {
    let (whole, backup) = (in_memory(&format("native")), on_disk("native"));
    let ids = chain(&whole, 10);
    let cut = cut_to(&whole, 3);
    assert_eq!(copied(&cut, &backup).commits, 3);
    assert_eq!((backup.backend().absent().unwrap().len(), commits(&backup)), (1, 3));
    let planned = copy::copy(&whole, &backup, &CopyOptions::default().dry_run(true), &mut |_| {}).unwrap();
    assert_eq!((planned.commits, copied(&whole, &backup).commits, copied(&whole, &backup).commits), (7, 7, 0));
    assert!(told(&backup) == told(&whole));
    assert_eq!((backup.generation(ids[6]).unwrap(), backup.generation(ids[9]).unwrap()), (7, 10));
    assert!(backup.is_ancestor(ids[2], ids[9]).unwrap());
    // What the rules of the copy itself have cut stays away.
    assert_eq!((copied(&whole, &cut).commits, commits(&cut)), (0, 3));
}
