//! Copies from and into stores with something around their backend, or that are only read: no way goes past that.

use std::{path::Path as FilePath, sync::atomic::Ordering::Relaxed};

use bristlecone::{Batch, Counted, Layered, Location, ReadOnly, Sink};

use super::*;

/// Makes a Git repository with one commit.
fn git_in(dir: &FilePath) -> AnyRepo {
    let repo = AnyRepo::create(Place::Git(dir.join("r.git")), format("git")).unwrap();
    crate::commit(&repo, "main", &[("a", "1")]);
    repo
}

#[test]
fn a_git_repository_that_is_only_read_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let repo = git_in(dir.path());
    let before = (refs(&repo), objects(&repo));
    for name in ["native", "git"] {
        let from = in_memory(&format(name));
        crate::commit(&from, "new", &[("b", "2")]);
        let opened = AnyRepo::open_read_only(Place::Git(dir.path().join("r.git"))).unwrap();
        for to in [opened, repo.wrapped(|backend| Arc::new(ReadOnly(backend)))] {
            let options = CopyOptions::default();
            let planned = copy::copy(&from, &to, &options.clone().dry_run(true), &mut |_| {}).unwrap();
            assert_eq!((planned.commits, planned.refs[0].change), (1, RefChange::New), "{name}");
            let error = copy::copy(&from, &to, &options, &mut |_| {}).unwrap_err();
            assert!(matches!(error, Error::Store(bristlecone::Error::ReadOnly)), "{name}: {error:?}");
        }
        assert!((refs(&repo), objects(&repo)) == before, "{name}");
    }
}

#[test]
fn what_lies_over_a_git_repository_is_copied_with_it_and_takes_what_comes() {
    let dir = tempfile::tempdir().unwrap();
    let repo = git_in(dir.path());
    let over = repo.wrapped(|backend| Arc::new(Layered::new(backend, [])));
    crate::commit(&over, "main", &[("b", "2")]);
    for name in ["git", "native"] {
        let to = in_memory(&format(name));
        assert_eq!(copied(&over, &to).commits, 2, "{name}");
        for (path, value) in [("a", "1"), ("b", "2")] {
            assert_eq!(crate::value(&to, "main", path).as_deref(), Some(value.as_bytes()), "{name}");
        }
    }
    let before = refs(&repo);
    let from = in_memory(&format("git"));
    crate::commit(&from, "new", &[("c", "3")]);
    assert!(copied(&from, &over).is_whole());
    assert_eq!(crate::value(&over, "new", "c").as_deref(), Some(&b"3"[..]));
    assert_eq!(refs(&repo), before, "it went into the upper store");
}

#[test]
fn a_copy_into_a_git_repository_goes_through_what_is_around_it() {
    let dir = tempfile::tempdir().unwrap();
    let repo = git_in(dir.path());
    let counted = Counted::new(repo.backend().clone());
    let counts = counted.counts();
    let to = repo.wrapped(|_| Arc::new(counted));
    let from = in_memory(&format("git"));
    for number in 0..5 {
        crate::commit(&from, "new", &[("b", &number.to_string())]);
    }
    // An object that no ref leads to need not have everything below it there.
    let head = from.branch("new").unwrap().head().unwrap().unwrap();
    let lone = from.backend().read(&head.oid().into()).unwrap().unwrap();
    let metadata: Vec<u64> = (0..).map_while(|index| lone.metadata_word(index)).collect();
    let mut batch = Batch::new();
    batch.put(lone.kind(), head.oid(), lone.body(), &vec![Location::NONE; lone.children()], &metadata);
    repo.backend().append(batch, &[], Durability::None).unwrap();
    assert_eq!((copied(&from, &to).commits, copied(&from, &to).commits), (5, 0));
    assert!(counts.appended_bytes.load(Relaxed) > 0);
    assert_eq!(repo.log(&[head], LogOptions::default()).map(Result::unwrap).count(), 5);
    assert_eq!(crate::value(&repo, "new", "b").as_deref(), Some(&b"4"[..]));
}
