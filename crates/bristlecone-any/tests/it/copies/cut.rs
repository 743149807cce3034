//! Copies of histories that retention has cut: with their gaps, until a store that has what is lacking is copied.

use bristlecone::{Retention, SweepLimits};

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

/// Returns a copy of a store, in this format, that keeps the last commits of each branch.
fn cut_to(whole: &AnyRepo, name: &str, kept: usize) -> AnyRepo {
    let cut = on_disk(name);
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
    let cut = cut_to(&whole, "native", 3);
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

#[needs(git)]
#[test]
fn a_git_repository_fills_a_store_whose_history_was_cut() {
    for name in ["git", "native"] {
        let dir = tempfile::tempdir().unwrap();
        let whole = AnyRepo::create(Place::Git(dir.path().join("whole.git")), format("git")).unwrap();
        chain(&whole, 10);
        let cut = cut_to(&whole, name, 3);
        // What its own rules have cut stays away.
        assert_eq!((copied(&whole, &cut).commits, commits(&cut)), (0, 3), "{name}");
        let backup = on_disk(name);
        assert_eq!((copied(&cut, &backup).commits, commits(&backup)), (3, 3), "{name}");
        cut.set_retention(&Retention::default()).unwrap();
        for to in [&cut, &backup] {
            if name == "git" {
                let planned = copy::copy(&whole, to, &CopyOptions::default().dry_run(true), &mut |_| {}).unwrap();
                assert_eq!(planned.commits, 7);
            }
            assert!(copied(&whole, to).is_whole(), "{name}");
            assert_eq!(commits(to), 10, "{name}");
            assert!(told(to) == told(&whole), "{name}");
            assert_eq!(copied(&whole, to).commits, 0, "{name}");
        }
    }
}

#[test]
fn histories_that_were_cut_in_different_places_are_converted_each_by_itself() {
    let (whole, to) = (in_memory(&format("native")), in_memory(&format("git")));
    chain(&whole, 10);
    let (three, six) = (cut_to(&whole, "native", 3), cut_to(&whole, "native", 6));
    assert_eq!((copied(&three, &to).commits, copied(&three, &to).commits), (3, 0));
    let options = CopyOptions::default().force(true);
    let error = copy::copy(&six, &to, &options.clone().strict(true), &mut |_| {}).unwrap_err();
    let Error::Copy(CopyError::Losses { losses, .. }) = &error else { panic!("{error:?}") };
    assert_eq!((losses.len(), losses[0].kind, losses[0].count), (1, LossKind::Cut, 1));
    let planned = copy::copy(&six, &to, &options.clone().dry_run(true), &mut |_| {}).unwrap();
    let report = copy::copy(&six, &to, &options, &mut |_| {}).unwrap();
    assert_eq!((planned.commits, report.commits, commits(&to)), (6, 6, 6));
    // What is proven is not converted again, nor what came since.
    assert_eq!(copied(&six, &to).commits, 0);
    crate::commit(&six, "main", &[("more", "1")]);
    assert_eq!((copied(&six, &to).commits, commits(&to)), (1, 7));
    // That the copy has more than the other original is no harm.
    let back = copy::copy(&three, &to, &options, &mut |_| {}).unwrap();
    assert_eq!((back.commits, commits(&to)), (0, 6));
}

#[test]
fn a_store_that_is_cut_on_and_on_is_converted_commit_by_commit() {
    let (whole, to) = (in_memory(&format("native")), in_memory(&format("git")));
    chain(&whole, 5);
    let cut = cut_to(&whole, "native", 3);
    assert_eq!(copied(&cut, &to).commits, 3);
    for round in 1..4 {
        crate::commit(&cut, "main", &[(&format!("q{round}"), "1")]);
        assert_eq!(cut.sweep(&[], &SweepLimits::default()).unwrap().commits, 1);
        let report = copied(&cut, &to);
        assert!(report.is_whole(), "{report:?}");
        assert_eq!((report.commits, commits(&to)), (1, 3 + round));
    }
}

#[test]
fn what_follows_a_commit_without_entries_is_known_in_a_history_that_was_cut() {
    let (whole, to) = (in_memory(&format("native")), in_memory(&format("tezos")));
    chain(&whole, 5);
    let main = whole.branch("main").unwrap();
    let mut tree = whole.tree();
    let head = main.head().unwrap().unwrap();
    main.commit_with_parents(&mut tree, &[head], &Info::message("none")).unwrap();
    crate::commit(&whole, "main", &[("last", "1")]);
    let cut = cut_to(&whole, "native", 4);
    assert_eq!(copied(&cut, &to).commits, 4);
    assert_eq!(copied(&cut, &to).commits, 0);
    assert_eq!(commits(&to), 3, "all but the one without entries");
}

#[test]
fn a_stopped_conversion_of_a_cut_history_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (whole, to) = (in_memory(&format("native")), AnyRepo::create(dir.path(), format("git")).unwrap());
    chain(&whole, 100);
    let cut = cut_to(&whole, "native", 80);
    let good = cut.backend().get_ref("refs/heads/main").unwrap();
    cut.move_refs(&[broken(&cut)], Durability::None).unwrap();
    let options = CopyOptions::default().checkpoint_bytes(10);
    let error = copy::copy(&cut, &to, &options, &mut |_| {}).unwrap_err();
    assert!(matches!(error, Error::Store(bristlecone::Error::Missing { .. })), "{error:?}");
    let back = RefMove { name: "refs/heads/main".to_owned(), expected: Expected::Any, to: good };
    cut.move_refs(&[back], Durability::None).unwrap();
    let report = copy::copy(&cut, &to, &options, &mut |_| {}).unwrap();
    assert!(report.commits < 20, "{report:?}");
    assert_eq!(commits(&to), 80);
}
