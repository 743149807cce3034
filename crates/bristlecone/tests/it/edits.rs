//! Edits that race, commits that are submitted, and paths and values as callers have them.

use std::{cell::Cell, sync::Arc, thread};

use bristlecone::{
    DiskOptions, Durability, EntryKind, Error, Format, Info, MemoryBackend, Native, PlainTree, ReadOnly, Repo, Tree,
};
use bristlecone_testkit::generate::Rng;

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
    assert_eq!((&plain.author, &plain.author.ident[..]), (&plain.committer, repo.committer()));
    assert!(!repo.committer().is_empty());

    let ann = repo.clone().with_committer("Ann <ann@x>");
    assert_eq!(commit(&ann, &Info::message("two")).committer.ident, b"Ann <ann@x>");
    // The author is named; the committer is the repository's.
    let eve = bristlecone::Signature::new("Eve <eve@x>", 7);
    let both = commit(&ann, &Info::message("three").author(eve.clone()).header("encoding", "latin1"));
    assert_eq!((&both.author, &both.committer.ident[..]), (&eve, &b"Ann <ann@x>"[..]));
    assert_eq!(both.headers, [(b"encoding".to_vec(), b"latin1".to_vec())]);
    assert_eq!(commit(&ann, &Info::unsigned("four")).author, bristlecone::Signature::default());
    assert!(main.head().unwrap().is_some());
}

#[test]
fn long_values_are_read_and_hashed_without_being_written() {
    let backend = Arc::new(MemoryBackend::new());
    let repo = Repo::with_backend(Native::new(), backend.clone());
    let read_only = Repo::with_backend(Native::new(), Arc::new(ReadOnly(backend)));
    // One of a single object, and one of many pieces.
    let (short, long) = (vec![7; 5000], Rng::new(1).bytes(300_000));
    let (mut tree, mut other) = (repo.tree(), read_only.tree());
    let before = repo.backend().stats();
    for tree in [&mut tree, &mut other] {
        tree.set("short", &short).unwrap();
        tree.set("long", &long).unwrap();
        tree.set("long again", &long).unwrap();
    }
    let root = tree.root().unwrap();
    for tree in [&tree, &other, &other.clone(), &other.get_tree("").unwrap().unwrap()] {
        assert_eq!(tree.root().unwrap(), root);
        assert!(tree.get("short").unwrap().unwrap() == short && tree.get("long").unwrap().unwrap() == long);
        let entry = tree.entry("long").unwrap().unwrap();
        assert_eq!(entry.read(70_000..140_000).unwrap().unwrap(), long[70_000..140_000]);
        assert_eq!(entry.read(299_990..400_000).unwrap().unwrap(), long[299_990..]);
    }
    assert_eq!(repo.backend().stats().batches, before.batches);
    // Values that are shared stay with the tree there.
    other.set("shared", short.clone()).unwrap();
    assert_eq!(other.get("shared").unwrap().unwrap(), short);
    assert!(matches!(other.write(), Err(Error::ReadOnly)));
    // Whichever of two trees writes first, the other one reads on.
    let mut clone = tree.clone();
    assert_eq!(clone.write().unwrap(), root);
    assert!(tree.get("long").unwrap().unwrap() == long);
    assert_eq!(repo.tree_at(root).get("long").unwrap().unwrap(), long);
    assert_eq!(tree.write().unwrap(), root);
}

#[test]
fn directories_with_long_values_are_put_into_trees_that_are_not_written() {
    let long = Rng::new(1).bytes(5000);
    let (mut here, mut elsewhere) = (Repo::memory().tree(), Repo::memory().tree());
    let read_only = Repo::with_backend(Native::new(), Arc::new(ReadOnly(Arc::new(MemoryBackend::new()))));
    let mut there = read_only.tree();
    elsewhere.set("x", &long).unwrap();
    for tree in [&mut here, &mut there] {
        // From another repository, of the tree itself, and as a plain value.
        tree.set_tree("copied", &elsewhere).unwrap();
        tree.set("d/x", &long[1..]).unwrap();
        let dir = tree.get_tree("d").unwrap().unwrap();
        tree.set_tree("again", &dir).unwrap();
        tree.set_plain("plain", &dir.to_plain().unwrap()).unwrap();
        assert!(tree.get("copied/x").unwrap().unwrap() == long);
        for path in ["d/x", "again/x", "plain/x"] {
            assert!(tree.get(path).unwrap().unwrap() == long[1..], "{path}");
        }
    }
    assert_eq!(here.root().unwrap(), there.root().unwrap());
    // Of another tree of the same repository.
    let mut other = read_only.tree();
    other.set_tree("all", &there).unwrap();
    assert!(other.get("all/d/x").unwrap().unwrap() == long[1..]);
    assert_eq!(other.get_tree("all").unwrap().unwrap().root().unwrap(), here.root().unwrap());
    // Those that are written are read from the store.
    here.write().unwrap();
    assert!(here.get("plain/x").unwrap().unwrap() == long[1..] && here.get("copied/x").unwrap().unwrap() == long);
}

#[test]
fn a_tree_that_a_commit_refuses_takes_the_place_of_nothing_though_nothing_is_left_in_it() -> Result<(), Error> {
    let (here, elsewhere) = (Repo::memory(), Repo::memory());
    for repo in [&here, &elsewhere] {
        let mut refused = repo.tree();
        refused.set("dir/x", "1")?;
        refused.write()?;
        refused.set("dir", "2")?;
        refused.set("dir/y", "3")?;
        refused.remove("dir/y")?;
        let mut tree = here.tree();
        tree.set("a/b", "1")?;
        for path in ["a", "c", ""] {
            let set = tree.set_tree(path, &refused);
            assert!(matches!(&set, Err(Error::IsDirectory { path }) if path.to_string() == "dir"), "{set:?}");
        }
        assert_eq!(tree.get("a/b")?.as_deref(), Some(&b"1"[..]));
        // Once that is removed, it is an empty one.
        refused.remove("dir")?;
        tree.set_tree("a", &refused)?;
        assert!(tree.is_empty()?);
    }
    Ok(())
}

#[test]
fn a_value_over_a_stored_directory_is_refused_whatever_is_set_below_it_then() -> Result<(), Error> {
    let repo = Repo::memory();
    let main = repo.branch("main")?;
    main.edit(&info(Durability::None), |tree| {
        ["dir/x", "dir/y", "deep/er/x", "value"].into_iter().try_for_each(|path| tree.set(path, "1"))
    })?;
    for at in ["dir", "deep/er", "deep"] {
        for emptied in [false, true] {
            let mut tree = main.tree()?;
            tree.set(at, "v")?;
            tree.set(format!("{at}/z"), "w")?;
            if emptied {
                tree.remove(format!("{at}/z"))?;
                tree.set(at, "v")?;
            }
            let refused = main.commit(&mut tree, &info(Durability::None));
            assert!(matches!(&refused, Err(Error::IsDirectory { path }) if path.to_string() == at), "{refused:?}");
            assert!(matches!(tree.root(), Err(Error::IsDirectory { .. })));
            // Replaced it may be.
            tree.replace(at, "v")?;
            tree.set(format!("{at}/z"), "w")?;
            assert_eq!(tree.list(at)?.count(), 1);
            tree.root()?;
        }
    }
    let mut tree = main.tree()?;
    for path in ["value", "value/z", "new", "new/z"] {
        tree.set(path, "v")?;
    }
    main.commit(&mut tree, &info(Durability::None))?;
    assert_eq!((tree.get("value/z")?.as_deref(), tree.get("new/z")?.as_deref()), (Some(&b"v"[..]), Some(&b"v"[..])));
    Ok(())
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

/// What a thread remembers of its last directory is never taken for another one: of another root, of another store, or with a
/// path that ends like it.
#[test]
fn lookups_in_one_directory_after_another_answer_for_the_right_one() {
    let dir = tempfile::tempdir().unwrap();
    let repos = [Repo::memory(), Repo::create(dir.path(), Native::new(), DiskOptions::default()).unwrap()];
    let long = "x".repeat(119);
    let dirs =
        ["a", "b", "one/directory", "two/directory", "one/directorx", "a/b/c/d/e/f/g", &long, &format!("{long}yz")];
    let value = |version: usize, place: usize, dir: usize, name: usize| format!("{version} {place} {dir} {name}");
    let trees: Vec<_> = (0..6_usize)
        .map(|index| {
            let (place, version) = (index % 2, index / 2);
            let mut tree = repos[place].tree();
            for (at, dir) in dirs.iter().enumerate() {
                // Each version lacks a directory that the others have.
                for name in (0..3).filter(|_| at != version) {
                    tree.set(format!("{dir}/{name}"), value(version, place, at, name).as_str()).unwrap();
                }
            }
            let head = repos[place].branch(&format!("{version}")).unwrap();
            head.commit(&mut tree, &Info::unsigned("m")).unwrap();
            (place, version, head.tree().unwrap())
        })
        .collect();
    let mut rng = Rng::new(11);
    let (mut tree, mut at) = (0, 0);
    for _ in 0..60_000 {
        // Runs in one directory of one tree, and of others in between.
        if rng.below(4) == 0 {
            tree = rng.below(trees.len() as u64) as usize;
        }
        if rng.below(4) == 0 {
            at = rng.below(dirs.len() as u64) as usize;
        }
        let (place, version, tree) = &trees[tree];
        let name = rng.below(4) as usize;
        let wanted = (at != *version && name < 3).then(|| value(*version, *place, at, name).into_bytes());
        let found = tree.get(format!("{}/{name}", dirs[at])).unwrap();
        assert_eq!(found.as_deref(), wanted.as_deref(), "{version} {place} {} {name}", dirs[at]);
    }
    // An edit is seen at once, and what was read before stands in the tree without it.
    let mut edited = trees[0].2.clone();
    for _ in 0..4 {
        assert!(trees[0].2.get("b/0").unwrap().is_some() && edited.get("b/0").unwrap().is_some());
    }
    edited.remove("b/0").unwrap();
    assert!(trees[0].2.get("b/0").unwrap().is_some() && edited.get("b/0").unwrap().is_none());
    edited.write().unwrap();
    for _ in 0..4 {
        assert!(trees[0].2.get("b/0").unwrap().is_some() && edited.get("b/0").unwrap().is_none());
    }
}

#[test]
fn a_plain_directory_that_is_refused_changes_nothing() {
    let mut tree = Repo::memory().tree();
    tree.set("d/old", "1").unwrap();
    let root = tree.root().unwrap();
    let value = || PlainTree::Value(EntryKind::Value, b"2".to_vec());
    let dir = |step: &[u8]| PlainTree::Dir([(b"a".to_vec(), value()), (step.to_vec(), value())].into());
    for path in ["d", "", "new"] {
        for step in [&b"x/y"[..], b""] {
            assert!(matches!(tree.set_plain(path, &dir(step)), Err(Error::Path(_))), "{path}");
            assert_eq!(tree.root().unwrap(), root);
        }
    }
    tree.set_plain("d", &dir(b"b")).unwrap();
    assert_eq!(tree.to_plain().unwrap(), PlainTree::Dir([(b"d".to_vec(), dir(b"b"))].into()));
}

#[test]
fn values_that_are_hashed_together_have_the_ids_that_they_have_one_by_one() {
    for inline in [0, 48, 300, 512] {
        let repo = Repo::with_backend(Native::new().inline(inline), Arc::new(MemoryBackend::new()));
        let mut rng = Rng::new(inline as u64 + 1);
        let value = |number: u64, rng: &mut Rng| rng.bytes(number as usize * 7 % 1200);
        let (mut at_once, mut one_by_one) = (repo.tree(), repo.tree());
        // What stands there before is replaced, removed, or stays, and trees of other times are set among the values.
        let mut before = repo.tree();
        for number in 0..120 {
            before.set(format!("d{}/n{number:03}", number % 2), value(number + 50, &mut rng)).unwrap();
        }
        let before = before.get_tree("d0").unwrap().unwrap();
        for number in 0..600 {
            let path = format!("d{}/n{:03}", number % 3, number * 37 % 200);
            let long = value(number, &mut rng);
            for tree in [&mut at_once, &mut one_by_one] {
                match number % 11 {
                    9 => tree.remove(&*path).unwrap(),
                    10 => tree.set_tree(&*format!("{path}-tree"), &before).unwrap(),
                    _ => tree.set(&*path, &*long).unwrap(),
                }
            }
            one_by_one.write().unwrap();
        }
        let root = at_once.root().unwrap();
        assert_eq!(root, one_by_one.root().unwrap(), "values of up to {inline} bytes inline");
        assert_eq!(at_once.write().unwrap(), root);
        for entry in one_by_one.list("d1").unwrap() {
            let path = bristlecone::Path::from_bytes(b"d1").unwrap().join(entry.unwrap().step()).unwrap();
            assert_eq!(at_once.get(&path).unwrap(), one_by_one.get(&path).unwrap());
        }
    }
}

#[test]
fn a_root_that_was_removed_or_replaced_is_edited() {
    let repo = Repo::memory();
    let main = repo.branch("main").unwrap();
    let mut tree = repo.tree();
    tree.remove("").unwrap();
    assert!(!tree.is_edited(), "there was nothing");
    tree.set("a", "1").unwrap();
    let first = main.commit(&mut tree, &info(Durability::None)).unwrap();
    let empty = repo.tree().root().unwrap();
    tree.set("b", "2").unwrap();
    main.commit(&mut tree, &info(Durability::None)).unwrap();

    let mut removed = main.tree().unwrap();
    removed.remove("").unwrap();
    assert!(removed.is_edited() && removed.is_empty().unwrap() && removed.list("").unwrap().next().is_none());
    removed.refresh();
    assert_eq!(removed.root().unwrap(), empty);
    removed.set("c", "3").unwrap();
    assert_eq!((removed.get("a").unwrap(), removed.get("c").unwrap().as_deref()), (None, Some(&b"3"[..])));

    let old = repo.checkout(first).unwrap();
    let mut replaced = main.tree().unwrap();
    replaced.set_tree("", &old).unwrap();
    assert!(replaced.is_edited() && !replaced.contains("b").unwrap() && replaced.contains("a").unwrap());
    assert_eq!(replaced.root().unwrap(), old.root().unwrap());
    let head = main.commit(&mut replaced, &info(Durability::None)).unwrap();
    assert!(!replaced.is_edited());
    assert_eq!(repo.checkout(head).unwrap().root().unwrap(), old.root().unwrap());
    // What is there already is no edit.
    replaced.set_tree("", &old).unwrap();
    assert!(!replaced.is_edited());
}

#[test]
fn an_update_leaves_a_foreign_id() {
    let repo = Repo::memory();
    let mut tree = repo.tree();
    tree.set_foreign("sub", bristlecone::Oid::from_array([7; 32])).unwrap();
    let refused = tree.update("sub", |old| old.map(<[u8]>::to_vec));
    assert!(matches!(&refused, Err(Error::NotAValue { key }) if key == "sub"), "{refused:?}");
    assert_eq!(tree.kind("sub").unwrap(), Some(EntryKind::Foreign));
}

#[test]
fn an_update_of_the_root_is_refused() {
    let mut tree = Repo::memory().tree();
    tree.set("a", "1").unwrap();
    for value in [None, Some(vec![1_u8])] {
        assert!(matches!(tree.update("", |_| value), Err(Error::RootPath)));
        assert!(tree.contains("a").unwrap());
    }
}

#[test]
fn copies_of_copies_become_objects_once() {
    /// Copies a directory into itself so many times, which doubles it each time.
    fn copy<F: Format>(tree: &mut Tree<F>, copies: usize, write: bool) {
        tree.set("d/x", "1").unwrap();
        for number in 0..copies {
            let dir = tree.get_tree("d").unwrap().unwrap();
            tree.set_tree(format!("d/c{number:02}"), &dir).unwrap();
            if write {
                tree.write().unwrap();
            }
        }
    }
    fn run<F: Format>(format: F, threads: usize) {
        let repo = Repo::with_backend(format, Arc::new(MemoryBackend::new()));
        repo.set_threads(threads);
        // What is copied is stored, or its edits are.
        let (mut stored, mut pending) = (repo.tree(), repo.tree());
        copy(&mut stored, 9, true);
        copy(&mut pending, 9, false);
        // A place of its own among the copies.
        for tree in [&mut stored, &mut pending] {
            tree.set("d/c07/c03/y", "2").unwrap();
            tree.remove("d/c08/c02").unwrap();
        }
        assert_eq!(pending.root().unwrap(), stored.root().unwrap());

        let branch = repo.branch("main").unwrap();
        let mut tree = branch.tree().unwrap();
        copy(&mut tree, 60, false);
        let before = repo.backend().stats().bytes_written;
        branch.commit(&mut tree, &info(Durability::None)).unwrap();
        let written = repo.backend().stats().bytes_written - before;
        assert!(written < 1 << 20, "{written} bytes");
        let deepest: String = (0..60).rev().map(|number| format!("/c{number:02}")).collect();
        assert_eq!(branch.tree().unwrap().get(format!("d{deepest}/x")).unwrap().as_deref(), Some(&b"1"[..]));
    }
    let (sender, done) = std::sync::mpsc::channel();
    for threads in [1, 2] {
        let sender = sender.clone();
        thread::spawn(move || {
            run(Native::new(), threads);
            #[cfg(feature = "tezos")]
            run(bristlecone::Tezos::new(), threads);
            sender.send(()).unwrap();
        });
    }
    for _ in 0..2 {
        done.recv_timeout(std::time::Duration::from_secs(120))
            .expect("copies of copies take for ever, or a thread failed");
    }
}
