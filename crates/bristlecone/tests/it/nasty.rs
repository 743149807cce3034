//! On a backend where objects that no snapshot holds are gone at once, and all others move: trees, iterators, merges and
//! walks through history find what they were promised, in threads of two handles that share nothing but the store.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::*},
    },
    thread,
    time::Duration,
};

use bristlecone::{
    Batch, Durability, EntryKind, Error, Format, Info, LogOptions, Native, Object, RefTarget, Repo, Sink, SweepLimits,
    Tree, merge,
    subtree::{Pulled, PushOptions, Pushed},
};
use bristlecone_testkit::{generate::Rng, nasty::Nasty};

/// Returns two handles of one store, as two processes would have them.
fn two<F: Format>(format: &F) -> (Repo<F>, Repo<F>, Nasty) {
    let nasty = Nasty::sweeping(format.clone());
    let repo = |nasty: &Nasty| Repo::with_backend(format.clone(), Arc::new(nasty.beside()));
    (repo(&nasty), repo(&nasty), nasty)
}

fn info(message: &str) -> Info {
    Info::unsigned(message).durability(Durability::None)
}

/// Values of all sizes: inline, one object, hashed when they are set, in pieces.
fn value(number: u64) -> Vec<u8> {
    let bytes = [10, 100, 3000, 20_000, 300_000][number as usize % 5];
    Rng::new(number).bytes(bytes)
}

/// Checks a tree that `fill` made with this number.
fn check<F: Format>(tree: &Tree<F>, number: u64) -> Result<(), Error> {
    for entry in tree.walk_all("")? {
        let (path, entry) = entry?;
        if entry.kind() != EntryKind::Dir {
            let name: u64 = path.to_string().rsplit('/').next().unwrap().parse().unwrap();
            assert!(entry.contents()?.as_deref() == Some(&value(name)[..]), "{path}");
        }
    }
    assert_eq!(tree.get(format!("d/{}", number % 7))?.as_deref(), Some(&value(number % 7)[..]));
    Ok(())
}

fn fill<F: Format>(tree: &mut Tree<F>, number: u64) -> Result<(), Error> {
    for name in 0..7 {
        tree.set(format!("d/{name}"), value(name))?;
    }
    for name in number..number + 5 {
        tree.set(format!("run{}/of/{name}", number % 3), value(name))?;
    }
    Ok(())
}

/// Writers of two handles edit one branch, and move another back and forth, while readers look on.
fn everybody_at_once<F: Format>(format: &F, rounds: u64) {
    let (one, other, nasty) = two(format);
    // One of the two writes its edits in parts.
    one.set_pending_max(3_000);
    one.branch("main").unwrap().edit(&info("first"), |tree| fill(tree, 0)).unwrap();
    let done = AtomicBool::new(false);
    let edits = AtomicU64::new(0);
    thread::scope(|scope| {
        let writers: Vec<_> = [&one, &other]
            .into_iter()
            .enumerate()
            .map(|(writer, repo)| {
                let edits = &edits;
                scope.spawn(move || -> Result<(), Error> {
                    for round in 0..rounds {
                        let number = round * 2 + writer as u64;
                        let branch = repo.branch("main")?;
                        branch.edit(&info("edit"), |tree| fill(tree, number))?;
                        edits.fetch_add(1, Relaxed);
                        // A branch of its own, which is left behind again and again.
                        let own = repo.branch(&format!("own{writer}"))?;
                        let mut tree = repo.tree();
                        tree.set_tree("from/main", &branch.tree()?)?;
                        tree.set("number", number.to_string())?;
                        tree.set("d/0", value(0))?;
                        own.commit_over(own.head()?, &mut tree, &[], &info("over"))?;
                        assert_eq!(tree.get("from/main/d/3")?.as_deref(), Some(&value(3)[..]));
                    }
                    Ok(())
                })
            })
            .collect();
        for (reader, repo) in [&one, &other].into_iter().enumerate() {
            let done = &done;
            scope.spawn(move || {
                while !done.load(Acquire) {
                    // What this one is left for may have nothing in common with it, and is there while it is held.
                    let own = repo.branch(&format!("own{reader}")).unwrap().tree().unwrap();
                    if !own.is_empty().unwrap() {
                        check(&own.get_tree("from/main").unwrap().unwrap(), 0).unwrap();
                    }
                    let tree = repo.branch("main").unwrap().tree().unwrap();
                    check(&tree, 0).unwrap();
                    let mut entries = tree.list("d").unwrap();
                    let first = entries.next().unwrap().unwrap();
                    thread::yield_now();
                    assert_eq!(entries.count(), 6);
                    assert_eq!(first.contents().unwrap().unwrap().len(), value(0).len());
                    let head = repo.branch("main").unwrap().head().unwrap().unwrap();
                    for entry in repo.log(&[head], LogOptions::default().limit(20)) {
                        entry.unwrap();
                    }
                }
            });
        }
        let ended: Vec<_> = writers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        done.store(true, Release);
        ended.into_iter().for_each(|ended| ended.unwrap().unwrap());
    });
    assert!(nasty.moves() > rounds, "{nasty:?}");
    let head = one.branch("main").unwrap().head().unwrap().unwrap();
    let log = one.log(&[head], LogOptions::default());
    assert_eq!(log.map(|entry| entry.map(drop)).collect::<Result<Vec<_>, _>>().unwrap().len() as u64, rounds * 2 + 1);
    check(&other.branch("main").unwrap().tree().unwrap(), 0).unwrap();
}

#[test]
fn everybody_finds_everything_at_once() {
    everybody_at_once(&Native::new(), 25);
    #[cfg(feature = "git")]
    everybody_at_once(&bristlecone::Git::sha1(), 10);
    #[cfg(feature = "tezos")]
    everybody_at_once(&bristlecone::Tezos::new(), 10);
}

#[test]
fn a_tree_keeps_what_it_was_checked_out_from() -> Result<(), Error> {
    let (repo, other, _) = two(&Native::new());
    let main = repo.branch("main")?;
    let head = main.edit(&info("first"), |tree| fill(tree, 0))?;
    let held = repo.checkout(head)?;
    let value_held = held.get("d/4")?.expect("a value");
    // The branch goes, in the other process, and comes back as something else.
    other.branch("main")?.compare_and_set(Some(head), None, Durability::None)?;
    other.branch("main")?.edit(&info("other"), |tree| tree.set("x", "1"))?;
    assert_eq!(value_held, value(4));
    check(&held, 0)?;
    let (kept, clone) = (held.get_tree("d")?.expect("a directory"), held.clone());
    drop(value_held);
    drop(held);
    other.branch("main")?.edit(&info("again"), |tree| tree.set("x", "2"))?;
    assert_eq!(kept.get("4")?.expect("a value"), value(4));
    drop(kept);
    check(&clone, 0)?;
    drop(clone);
    drop(other.branch("main")?.tree()?);
    assert!(matches!(repo.checkout(head), Err(Error::Missing { .. })), "no snapshot held it");
    Ok(())
}

#[test]
fn what_was_taken_over_from_other_trees_stays_until_it_is_written() -> Result<(), Error> {
    let (repo, other, _) = two(&Native::new());
    let side = repo.branch("side")?;
    let head = side.edit(&info("side"), |tree| fill(tree, 3))?;
    // Stored parts, edited parts, and values that were written ahead, each of a tree that goes at once. No ref leads to
    // them by the time another takes them over.
    let (stored, mut edited) = (side.tree()?, side.tree()?);
    edited.set("d/6", value(6))?;
    edited.set("d/4", value(4))?;
    other.branch("side")?.compare_and_set(Some(head), None, Durability::None)?;
    let mut tree = repo.tree();
    tree.set_tree("edited", &edited)?;
    tree.set_tree("stored", &stored)?;
    let shared = bristlecone::Value::new(value(3));
    tree.set("shared", &shared)?;
    drop((stored, edited));
    drop(other.tree());
    check(&tree.get_tree("edited")?.expect("a directory"), 3)?;
    tree.write()?;
    drop(other.tree());
    let main = repo.branch("main")?;
    main.commit(&mut tree, &info("all"))?;
    drop(tree);
    for repo in [&repo, &other] {
        let tree = repo.branch("main")?.tree()?;
        check(&tree.get_tree("stored")?.expect("a directory"), 3)?;
        assert_eq!(tree.get("shared")?.expect("a value"), value(3));
    }
    // A shared value whose place was swept is written again.
    main.compare_and_set(main.head()?, None, Durability::None)?;
    drop(other.tree());
    main.edit(&info("shared"), |tree| tree.set("again", &shared))?;
    assert_eq!(main.tree()?.get("again")?.expect("a value"), value(3));
    Ok(())
}

#[test]
fn a_commit_prepared_before_a_sweep_is_whole_after_it() -> Result<(), Error> {
    let (repo, other, _) = two(&Native::new());
    let main = repo.branch("main")?;
    let first = main.edit(&info("first"), |tree| fill(tree, 1))?;
    let mut tree = main.tree()?;
    tree.set("d/8", value(8))?;
    let prepared = main.prepare(&tree, &info("prepared"))?;
    drop(tree);
    // Nothing leads to what it goes on from for a while.
    other.branch("main")?.compare_and_set(Some(first), None, Durability::None)?;
    drop(other.tree());
    other.branch("main")?.compare_and_set(None, Some(first), Durability::None)?;
    repo.submit(vec![prepared]).pop().expect("an answer")?;
    let tree = other.branch("main")?.tree()?;
    check(&tree.get_tree("")?.expect("a root"), 1)?;
    assert_eq!(tree.get("d/8")?.expect("a value"), value(8));
    Ok(())
}

#[test]
fn a_value_that_was_written_stays_while_a_tree_binds_it() -> Result<(), Error> {
    let (repo, other, _) = two(&Native::new());
    let large = Rng::new(14).bytes(3 << 20);
    let streamed = repo.write_value(&mut &large[..])?;
    let mut tree = repo.tree();
    drop(other.tree());
    tree.set_stored("streamed", EntryKind::Value, &streamed)?;
    drop(streamed);
    drop(other.tree());
    assert!(tree.get("streamed")?.as_deref() == Some(&large[..]));
    repo.branch("main")?.commit(&mut tree, &info("streamed"))?;
    drop(tree);
    assert!(other.branch("main")?.tree()?.get("streamed")?.as_deref() == Some(&large[..]));
    Ok(())
}

#[test]
fn a_value_that_is_swept_while_it_is_looked_for_is_written() -> Result<(), Error> {
    let (repo, other, nasty) = two(&Native::new());
    let main = repo.branch("main")?;
    // A large one is written ahead of the commit; of one in pieces the first piece goes, and the rest with it.
    for (number, value) in [value(3), value(4), value(2)].into_iter().enumerate() {
        // It is there, and nothing leads to it.
        let mut batch = Batch::new();
        repo.format().put_contents(&mut batch, &value)?;
        repo.backend().append(batch, &[], Durability::None)?;
        let mut tree = main.tree()?;
        nasty.sweep_behind_locate();
        tree.set(format!("value/{number}"), &value)?;
        main.commit(&mut tree, &info("swept"))?;
        drop(tree);
        assert!(other.branch("main")?.tree()?.get(format!("value/{number}"))?.as_deref() == Some(&value[..]));
    }
    Ok(())
}

#[test]
fn a_commit_does_not_wait_for_what_a_dropped_clone_took_over() -> Result<(), Error> {
    let (repo, other, _) = two(&Native::new());
    let side = repo.branch("side")?;
    let head = side.edit(&info("side"), |tree| tree.set("v", value(3)))?;
    let mut tree = repo.tree();
    tree.set("w", value(8))?;
    let mut clone = tree.clone();
    other.branch("side")?.compare_and_set(Some(head), None, Durability::None)?;
    // From here on the clone alone keeps what the branch led to.
    tree.write()?;
    // Both trees share what waits to be written: a value, and none of the one that the store has.
    clone.set("x", value(13))?;
    clone.set("v", value(3))?;
    drop(clone);
    tree.set("y", "1")?;
    repo.branch("main")?.commit(&mut tree, &info("the rest"))?;
    assert_eq!(other.branch("main")?.tree()?.get("w")?.expect("a value"), value(8));
    Ok(())
}

#[test]
fn pieces_of_a_value_that_waits_stay_though_the_clone_that_set_it_is_dropped() -> Result<(), Error> {
    let (repo, other, _) = two(&Native::new());
    let side = repo.branch("side")?;
    let head = side.edit(&info("side"), |tree| tree.set("v", value(4)))?;
    let mut tree = repo.tree();
    tree.set("w", value(8))?;
    let mut clone = tree.clone();
    other.branch("side")?.compare_and_set(Some(head), None, Durability::None)?;
    // From here on the clone alone keeps what the branch led to.
    tree.write()?;
    // Its first pieces are there, and the rest waits to be written by either tree.
    let longer = [&value(4)[..], b"more"].concat();
    clone.set("v", &longer)?;
    drop(clone);
    tree.set("y", "1")?;
    repo.branch("main")?.commit(&mut tree, &info("the rest"))?;
    assert_eq!(other.branch("main")?.tree()?.get("w")?.expect("a value"), value(8));
    Ok(())
}

#[test]
fn a_merge_that_writes_nothing_keeps_what_it_took() -> Result<(), Error> {
    let (repo, other, _) = two(&Native::new());
    let side = repo.branch("side")?;
    let head = side.edit(&info("side"), |tree| fill(tree, 2))?;
    let theirs = side.tree()?;
    other.branch("side")?.compare_and_set(Some(head), None, Durability::None)?;
    let merged = merge::trees(None, &repo.tree(), &theirs)?;
    assert_eq!(merged.tree.root()?, theirs.root()?);
    drop(theirs);
    drop(other.tree());
    check(&merged.tree, 2)
}

#[test]
fn merges_and_trees_ahead_of_their_commits_keep_their_parts() -> Result<(), Error> {
    let (repo, other, _) = two(&Native::new());
    let main = repo.branch("main")?;
    let base = main.edit(&info("base"), |tree| fill(tree, 0))?;
    let (mut ours, mut theirs) = (repo.checkout(base)?, repo.checkout(base)?);
    ours.set("ours/1", value(1))?;
    theirs.set("theirs/3", value(3))?;
    let merged = merge::trees(Some(&repo.checkout(base)?), &ours, &theirs)?;
    assert!(merged.conflicts.is_empty());
    let mut tree = merged.tree;
    drop((ours, theirs));
    other.branch("main")?.compare_and_set(Some(base), None, Durability::None)?;
    drop(other.tree());
    assert_eq!(tree.get("theirs/3")?.expect("a value"), value(3));
    // One tree after another goes on from the last, which is committed later.
    let mut in_flight = Vec::new();
    for number in 10..12 {
        tree.set(format!("ahead/{number}"), value(number))?;
        in_flight.push(tree.fork_for_commit()?);
        assert_eq!(tree.get("ours/1")?.expect("a value"), value(1));
    }
    let line = repo.branch("line")?;
    for (number, mut tree) in in_flight.into_iter().enumerate() {
        line.commit_over(line.head()?, &mut tree, &[], &info("ahead"))?;
        drop(tree);
        drop(other.tree());
        assert_eq!(line.tree()?.get("ahead/10")?.expect("a value"), value(10), "commit {number}");
    }
    line.compare_and_set(line.head()?, None, Durability::None)?;
    drop(other.tree());
    for number in 10..12 {
        assert_eq!(tree.get(format!("ahead/{number}"))?.expect("a value"), value(number));
    }
    assert_eq!(tree.get("d/3")?.expect("a value"), value(3));
    line.commit_over(None, &mut tree, &[], &info("last"))?;
    check(&line.tree()?.get_tree("")?.expect("a root"), 0).map(drop)
}

#[test]
fn a_directory_of_another_store_that_is_there_already_stays() -> Result<(), Error> {
    let (repo, other, _) = two(&Native::new());
    let from = Repo::memory();
    let mut theirs = from.tree();
    fill(&mut theirs, 1)?;
    theirs.write()?;
    // All of it is there, and nothing leads to it.
    let mut batch = Batch::new();
    let mut put = |oid, object: &Object<'_>| {
        batch.put(object.kind(), oid, object.body(), &[], &[]);
        Ok(())
    };
    from.backend().each_object(&mut put, &mut |damage| panic!("{damage:?}"))?;
    repo.backend().append(batch, &[], Durability::None)?;
    let mut tree = repo.tree();
    tree.set_tree("theirs", &theirs)?;
    repo.branch("main")?.commit(&mut tree, &info("theirs"))?;
    drop(tree);
    check(&other.branch("main")?.tree()?.get_tree("theirs")?.expect("a directory"), 1)
}

#[cfg(feature = "git")]
#[test]
fn a_tree_keeps_what_the_one_before_it_was_written_as() -> Result<(), Error> {
    // Directories that are there are not written again in Git's format.
    let (repo, other, _) = two(&bristlecone::Git::sha1());
    let mut first = repo.tree();
    fill(&mut first, 1)?;
    first.write()?;
    let mut tree = repo.tree();
    fill(&mut tree, 1)?;
    let mut fork = tree.fork_for_commit()?;
    fork.write()?;
    drop((first, fork));
    drop(other.tree());
    check(&tree, 1)?;
    let dir = tree.clone().get_tree("d")?.expect("a directory");
    tree.set("d/8", value(8))?;
    let mut second = tree.fork_for_commit()?;
    drop(other.tree());
    assert_eq!(tree.get("d/3")?.expect("a value"), value(3));
    repo.branch("main")?.commit(&mut second, &info("on"))?;
    drop((tree, second));
    assert_eq!(dir.get("3")?.expect("a value"), value(3));
    check(&other.branch("main")?.tree()?, 1)
}

#[test]
fn a_subtree_is_pulled_and_pushed_though_nothing_leads_to_its_parts_yet() -> Result<(), Error> {
    let (repo, _, _) = two(&Native::new());
    let (theirs, main) = (repo.branch("theirs")?, repo.branch("main")?);
    let first = theirs.edit(&info("theirs"), |tree| fill(tree, 0))?;
    let ours = main.edit(&info("ours"), |tree| tree.set("ours", value(14)))?;
    let below = repo.subtree("below")?;
    let mut joined = below.add(ours, first, None, None)?;
    let said = |message: &[u8]| Info::unsigned(message).durability(Durability::None);
    main.commit_with_parents(&mut joined.tree, &joined.parents, &said(&joined.message))?;
    drop(joined);
    main.edit(&info("below"), |tree| tree.set("below/d/8", value(8)))?;
    let second = theirs.edit(&info("more"), |tree| tree.set("d/9", value(9)))?;
    let pulled = below.pull(main.head()?.expect("a head"), second, None, None)?;
    let Pulled::Joined(mut joined) = pulled else { panic!("{pulled:?}") };
    main.commit_with_parents(&mut joined.tree, &joined.parents, &said(&joined.message))?;
    drop(joined);
    check(&main.tree()?.get_tree("below")?.expect("a directory"), 0)?;
    let (elsewhere, _, _) = two(&Native::new());
    let line = elsewhere.branch("line")?;
    let pushed = below.push(main.head()?.expect("a head"), &elsewhere, "line", PushOptions::default())?;
    assert!(matches!(pushed, Pushed::Moved { .. }), "{pushed:?}");
    check(&line.tree()?, 0)
}

#[test]
fn objects_copied_in_many_batches_are_there_when_a_ref_leads_to_them() -> Result<(), Error> {
    let (repo, other, _) = two(&Native::new());
    let from = Repo::memory();
    let main = from.branch("main")?;
    for number in 0..40 {
        main.edit(&info("commit"), |tree| fill(tree, number * 5))?;
    }
    let head = main.head()?.expect("a head");
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Acquire) {
                drop(other.tree());
                other.sweep(&[], &SweepLimits::default()).expect("a sweep");
                // The lock of the store is not fair: who takes it again at once may keep the copy from it for minutes.
                thread::sleep(Duration::from_millis(1));
            }
        });
        let copy = || -> Result<(), Error> {
            // Held until the ref leads to it.
            let held = repo.tree();
            repo.copy_objects(&from, &[head])?;
            let to = Some(RefTarget::Object(head.oid().into()));
            repo.compare_and_set("refs/heads/main", None, to, Durability::None)?;
            drop(held);
            Ok(())
        };
        let copied = copy();
        done.store(true, Release);
        copied
    })?;
    let log = other.log(&[other.branch("main")?.head()?.expect("a head")], LogOptions::default());
    for entry in log {
        check(&other.checkout(entry?.id)?, 0)?;
    }
    Ok(())
}

#[test]
fn a_tree_that_is_refreshed_keeps_itself_and_nothing_else() -> Result<(), Error> {
    let repo = Repo::memory();
    let main = repo.branch("main")?;
    main.edit(&info("first"), |tree| fill(tree, 0))?;
    let mut held = main.tree()?;
    let head = held.origin();
    let side = repo.branch("side")?;
    side.edit(&info("side"), |tree| tree.set("side", value(14)))?;
    side.compare_and_set(side.head()?, None, Durability::None)?;
    main.compare_and_set(head, None, Durability::None)?;
    let sweep = || Ok::<u64, Error>(repo.sweep(&[], &SweepLimits::default())?.bytes);
    assert_eq!(sweep()?, 0, "it came after the snapshot of a tree that is held");
    held.refresh();
    assert!(sweep()? > 300_000, "the value of the other branch");
    check(&held, 0)?;
    // With an edit that is not written yet, what that needs is kept, too.
    held.set("d/4", value(9))?;
    held.refresh();
    assert_eq!(sweep()?, 0);
    assert_eq!(held.get("d/4")?.expect("a value"), value(9));
    drop(held);
    assert!(sweep()? > 300_000 && repo.backend().stats().store_bytes < 100_000);
    Ok(())
}

/// What a tree was written as stays while the tree goes on from it, also where it was checked out from a commit.
#[test]
fn a_tree_keeps_what_it_was_written_as() -> Result<(), Error> {
    let (repo, other, _) = two(&Native::new());
    let main = repo.branch("main")?;
    main.edit(&info("first"), |tree| fill(tree, 1))?;
    let mut tree = main.tree()?;
    tree.set("x/3", value(3))?;
    let root = tree.write()?;
    // Snapshots that end sweep.
    drop(other.branch("main")?.tree()?);
    drop(main.tree()?);
    assert_eq!(tree.get("x/3")?.as_deref(), Some(&value(3)[..]));
    assert_eq!(tree.root()?, root);
    main.commit(&mut tree, &info("second"))?;
    check(&main.tree()?, 1)?;
    assert_eq!(main.tree()?.root()?, root);
    Ok(())
}
