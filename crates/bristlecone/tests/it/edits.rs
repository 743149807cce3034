//! Edits that race, commits that are submitted, and paths and values as callers have them.

use std::{cell::Cell, thread};

use bristlecone::{DiskOptions, Durability, Error, Info, Native, Repo};

fn info(durability: Durability) -> Info {
    Info::unsigned("an edit").durability(durability)
}

#[test]
fn a_commit_is_dated_now_and_signed_unless_told() {
    let seconds = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64;
    let repo = Repo::memory();
    let main = repo.branch("main").unwrap();
    let commit = |repo: &Repo, info: &Info| {
        let mut tree = repo.branch("main").unwrap().tree().unwrap();
        tree.set("n", "1").unwrap();
        let at = repo.branch("main").unwrap().commit(&mut tree, info).unwrap();
        repo.read_commit(at).unwrap()
    };
    let before = seconds();
    let plain = commit(&repo, &Info::message("one"));
    assert!((before..=seconds()).contains(&plain.author.seconds), "{:?}", plain.author);
    assert_eq!((&plain.author, &plain.author.ident[..]), (&plain.committer, repo.identity()));
    assert!(!repo.identity().is_empty());

    let ann = repo.clone().with_identity("Ann <ann@x>");
    assert_eq!(commit(&ann, &Info::message("two")).committer.ident, b"Ann <ann@x>");
    // The author is named; the committer is the repository's identity.
    let eve = bristlecone::Signature::new("Eve <eve@x>", 7);
    let both = commit(&ann, &Info::message("three").author(eve.clone()).header("encoding", "latin1"));
    assert_eq!((&both.author, &both.committer.ident[..]), (&eve, &b"Ann <ann@x>"[..]));
    assert_eq!(both.headers, [(b"encoding".to_vec(), b"latin1".to_vec())]);
    assert_eq!(commit(&ann, &Info::unsigned("four")).author, bristlecone::Signature::default());
    assert!(main.head().unwrap().is_some());
}

#[test]
fn edits_of_many_threads_all_land() -> Result<(), Error> {
    let repo = Repo::memory();
    thread::scope(|scope| {
        for writer in 0..4 {
            let branch = repo.branch("main").expect("a branch");
            scope.spawn(move || {
                for number in 0..100 {
                    let add = |tree: &mut bristlecone::Tree| tree.set(format!("{writer}/{number}"), "1");
                    branch.edit(&info(Durability::None), add).expect("an edit");
                }
            });
        }
    });
    let tree = repo.branch("main")?.tree()?;
    for writer in 0..4 {
        assert_eq!(tree.count(writer.to_string())?, 100);
    }
    Ok(())
}

#[test]
fn an_edit_that_always_loses_ends_in_a_conflict() -> Result<(), Error> {
    let repo = Repo::memory();
    let (branch, attempts) = (repo.branch("main")?, Cell::new(0));
    let refused = branch.edit(&info(Durability::None), |tree| {
        attempts.set(attempts.get() + 1);
        // Another writer is faster each time.
        let mut other = branch.tree()?;
        other.set("other", attempts.get().to_string())?;
        branch.commit(&mut other, &info(Durability::None))?;
        tree.set("never", "1")
    });
    assert!(matches!(refused, Err(Error::RefMoved { .. })), "{refused:?}");
    assert_eq!(attempts.get(), 100);
    assert!(!branch.tree()?.contains("never")?);
    Ok(())
}

#[test]
fn what_is_submitted_is_as_durable_as_it_was_prepared() -> Result<(), Error> {
    let dir = tempfile::tempdir().expect("a folder");
    let options = DiskOptions::default().background(false);
    let repo = Repo::create(dir.path().join("store"), Native::new(), options)?;
    let mut number = 0;
    for (asked, syncs) in [(&[Durability::None][..], false), (&[Durability::None, Durability::Synced], true)] {
        let mut prepared = Vec::new();
        for &durability in asked {
            number += 1;
            let mut tree = repo.tree();
            tree.set("a", number.to_string())?;
            prepared.push(repo.branch(&format!("b{number}"))?.prepare(&tree, &info(durability))?);
        }
        let before = repo.backend().stats().syncs;
        for submitted in repo.submit(prepared) {
            submitted?;
        }
        assert_eq!(repo.backend().stats().syncs > before, syncs, "{asked:?}");
    }
    Ok(())
}

#[test]
fn paths_are_text_or_steps_and_values_are_what_callers_have() -> Result<(), Error> {
    let mut tree = Repo::memory().tree();
    tree.set(["a", "100%"], [1, 2, 3])?;
    tree.set(&["a", "b"][..], vec![4])?;
    assert_eq!(tree.get("a/100%25")?.as_deref(), Some(&[1, 2, 3][..]));
    assert_eq!(tree.get(["a", "b"])?.as_deref(), Some(&[4][..]));
    assert!(matches!(tree.get(["a/b"]), Err(Error::Path(_))));
    Ok(())
}
