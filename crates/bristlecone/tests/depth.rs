//! Trees as deep as a path may be, on a small stack: nothing recurses by depth.
//!
//! A target of its own, so that little has to be built to run it without optimisation too, where frames are several
//! times as large: `just deep`, a step of `.ci/run`.

use std::{sync::Arc, thread};

use bristlecone::{
    EntryKind, Error, Format, Info, Listing, LogOptions, MemoryBackend, Native, Path, PathError, PlainTree, Repo, Tree,
    core::PATH_STEPS_MAX, disk::DiskOptions, merge,
};

type Outcome = Result<(), Error>;

/// The stack of every thread here.
const STACK_BYTES: usize = 256 << 10;

/// Does the work on a small stack.
fn on_a_small_stack(work: impl FnOnce() -> Outcome + Send + 'static) {
    let thread = thread::Builder::new().stack_size(STACK_BYTES).spawn(work).unwrap();
    thread.join().unwrap().unwrap();
}

fn memory<F: Format>(format: F) -> Repo<F> {
    Repo::with_backend(format, Arc::new(MemoryBackend::new()))
}

/// The path of `levels` steps, all but the last the same.
fn path(steps: usize, last: &str) -> Path {
    Path::from_steps(std::iter::repeat_n("d", steps - 1).chain([last])).unwrap()
}

/// A tree of as many levels as there may be, with a value on each.
fn deep<F: Format>(repo: &Repo<F>) -> Result<Tree<F>, Error> {
    let mut tree = repo.tree();
    for steps in 1..=PATH_STEPS_MAX {
        tree.set(path(steps, "v"), format!("level {steps}"))?;
    }
    Ok(tree)
}

/// Looks at every level of a tree, whatever of it is written.
fn look<F: Format>(tree: &Tree<F>) -> Outcome {
    let last = path(PATH_STEPS_MAX, "v");
    assert_eq!(tree.get(&last)?.as_deref(), Some(&b"level 1024"[..]));
    assert!(tree.contains(&last)? && tree.contains_tree("d")? && !tree.is_empty()?);
    assert_eq!(tree.entry("d")?.map(|entry| entry.kind()), Some(EntryKind::Dir));
    assert_eq!(tree.count("")?, 2);
    assert_eq!(tree.list_with("d/d/d", &Listing::new().reverse())?.count(), 2);
    let below = tree.get_tree("d/d")?.expect("there is a directory");
    assert_eq!(below.get(path(PATH_STEPS_MAX - 2, "v"))?.as_deref(), Some(&b"level 1024"[..]));
    assert_eq!(tree.walk_all("")?.count(), 2 * PATH_STEPS_MAX - 1);
    assert_eq!(tree.stats()?.depth, PATH_STEPS_MAX as u64);
    assert!(format!("{tree:?}").len() < 100_000, "a tree is shown in few words");
    assert_eq!(tree.reader().get(&last)?.as_deref(), Some(&b"level 1024"[..]));
    Ok(())
}

/// Everything that a tree can be asked for.
fn whole_life<F: Format>(repo: &Repo<F>) -> Outcome {
    let mut tree = deep(repo)?;
    look(&tree)?;
    let pending = tree.clone();
    let root = tree.root()?;
    let main = repo.branch("main")?;
    let first = main.commit(&mut tree, &Info::unsigned("deep"))?;
    assert_eq!(tree.root()?, root);
    look(&tree)?;
    look(&repo.checkout(first)?)?;
    assert!(pending.same(&tree)?);
    drop(pending);

    let last = path(PATH_STEPS_MAX, "v");
    tree.set(&last, "changed")?;
    let second = main.commit(&mut tree, &Info::unsigned("changed"))?;
    assert_eq!(repo.last_change(second, &last)?.map(|entry| entry.id), Some(second));
    repo.index_history(second)?;
    let filtered = LogOptions::default().paths(vec![last.clone()]);
    assert_eq!(repo.log(&[second], filtered).count(), 2);

    let before = repo.checkout(first)?;
    let paths: Vec<Path> = before.diff(&tree, "")?.map(|found| Ok(found?.path)).collect::<Result<_, Error>>()?;
    assert_eq!(paths, std::slice::from_ref(&last));
    // Against nothing: each level differs.
    let mut count = 0;
    for difference in repo.tree().diff(&tree, "")? {
        count += 1;
        assert_eq!(difference?.path.as_bytes().last(), Some(&b'v'));
    }
    assert_eq!(count, PATH_STEPS_MAX);

    let pruned = tree.prune([&last])?;
    assert_eq!(pruned.get(&last)?.as_deref(), Some(&b"changed"[..]));
    assert_eq!(pruned.root()?, tree.root()?);

    let other = memory(repo.format().clone());
    other.copy_objects(repo, &[second])?;
    assert_eq!(other.checkout(second.oid().into())?.get(&last)?.as_deref(), Some(&b"changed"[..]));
    let mut copied = other.tree();
    copied.set_tree("", &tree)?;
    assert!(copied.same(&tree)?);

    // What is left after all is removed, before anything is written.
    let mut emptied = repo.checkout(second)?;
    for steps in 1..=PATH_STEPS_MAX {
        emptied.remove(path(steps, "v"))?;
    }
    assert!(emptied.is_empty()? && emptied.entry("d")?.is_none() && emptied.list("")?.next().is_none());
    Ok(())
}

/// Merges in which both sides changed something on every level, and one in which each level is in conflict.
fn merges<F: Format>(repo: &Repo<F>) -> Outcome {
    let base = deep(repo)?;
    let (mut ours, mut theirs, mut against) = (base.clone(), base.clone(), base.clone());
    for steps in 1..=PATH_STEPS_MAX {
        ours.set(path(steps, "ours"), "1")?;
        theirs.set(path(steps, "theirs"), "2")?;
        ours.set(path(steps, "v"), "3")?;
        against.set(path(steps, "v"), "4")?;
    }
    let merged = merge::trees(Some(&base), &ours, &theirs)?;
    assert!(merged.conflicts.is_empty());
    assert_eq!(merged.tree.walk_all("")?.count(), 4 * PATH_STEPS_MAX - 1);
    for base in [Some(&base), None] {
        let merged = merge::trees(base, &ours, &against)?;
        assert_eq!(merged.conflicts.len(), PATH_STEPS_MAX);
        assert!(merged.conflicts.is_sorted_by(|one, other| one.path < other.path));
        assert_eq!(merged.tree.get(path(PATH_STEPS_MAX, "v"))?.as_deref(), Some(&b"3"[..]));
    }
    Ok(())
}

#[test]
fn a_tree_of_every_level_lives_on_a_small_stack() {
    on_a_small_stack(|| whole_life(&memory(Native::new())));
}

#[cfg(any(feature = "git", feature = "tezos"))]
#[test]
fn a_tree_of_every_level_lives_on_a_small_stack_in_other_formats() {
    #[cfg(feature = "git")]
    on_a_small_stack(|| whole_life(&memory(bristlecone::Git::sha1())));
    #[cfg(feature = "tezos")]
    on_a_small_stack(|| whole_life(&memory(bristlecone::Tezos::new())));
}

#[test]
fn a_tree_of_every_level_lives_on_a_small_stack_on_disk() {
    on_a_small_stack(|| {
        let dir = tempfile::tempdir().unwrap();
        whole_life(&Repo::create(dir.path().join("store"), Native::new(), DiskOptions::default())?)
    });
}

#[test]
fn trees_of_every_level_are_merged_on_a_small_stack() {
    on_a_small_stack(|| merges(&memory(Native::new())));
    #[cfg(feature = "git")]
    on_a_small_stack(|| merges(&memory(bristlecone::Git::sha256())));
}

#[cfg(feature = "rayon")]
#[test]
fn a_tree_of_every_level_is_committed_by_a_pool_with_small_stacks() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).stack_size(STACK_BYTES).build().unwrap();
    let roots = |threads: bool| {
        let repo = Repo::memory();
        let mut tree = repo.tree();
        // Wide enough on each level to be shared between threads.
        for steps in 2..=PATH_STEPS_MAX {
            for n in 0..7 {
                let above = Path::from_steps(std::iter::repeat_n("d", steps - 2)).unwrap();
                tree.set(above.join(format!("side {n}").as_bytes()).unwrap().join(b"v").unwrap(), "1").unwrap();
            }
        }
        let commit = || {
            repo.branch("main").unwrap().commit(&mut tree, &Info::unsigned("wide and deep")).unwrap();
            tree.root().unwrap()
        };
        if threads {
            pool.install(commit)
        } else {
            let mut commit = commit;
            commit()
        }
    };
    let (shared, alone) = (roots(true), roots(false));
    assert_eq!(shared, alone);
}

#[test]
fn a_plain_tree_of_every_level_lives_on_a_small_stack() {
    on_a_small_stack(|| {
        let repo = Repo::memory();
        let tree = deep(&repo)?;
        let plain = tree.to_plain()?;
        let again = plain.clone();
        assert!(again == plain && format!("{again:?}").contains("level 1024"));
        let mut other = repo.tree();
        other.set_plain("", &again)?;
        assert!(other.same(&tree)?);
        other.set(path(PATH_STEPS_MAX, "v"), "changed")?;
        assert!(other.to_plain()? != plain);
        let mut above = again;
        for _ in 0..10_000 {
            above = PlainTree::Dir([(b"d".to_vec(), above)].into());
        }
        assert!(above.clone() == above);
        assert!(matches!(other.set_plain("", &above), Err(Error::Path(PathError::TooDeep { .. }))));
        Ok(())
    });
}

/// Three trees that go on from each other, of `levels` levels; all that the first holds is removed in the last.
fn fork_for_commit(repo: &Repo, levels: usize, between: bool) -> Outcome {
    let mut tree = repo.tree();
    for steps in 1..=levels {
        tree.set(path(steps, "v"), "1")?;
    }
    let mut first = tree.fork_for_commit()?;
    let mut second = if between { Some(tree.fork_for_commit()?) } else { None };
    for steps in 1..=levels {
        tree.remove(path(steps, "v"))?;
    }
    assert!(!tree.contains_tree("d")? && tree.get(path(levels, "v"))?.is_none());
    tree.set(path(levels, "w"), "2")?;
    assert!(tree.contains_tree("d")? && tree.kind("v")?.is_none());
    first.write()?;
    second.as_mut().map_or(Ok(()), |second| second.write().map(drop))?;
    assert_eq!(tree.walk_all("")?.count(), levels);
    Ok(())
}

#[test]
fn a_tree_of_every_level_goes_on_while_commits_are_in_flight_on_a_small_stack() {
    on_a_small_stack(|| {
        fork_for_commit(&Repo::memory(), PATH_STEPS_MAX, false)?;
        fork_for_commit(&Repo::memory(), 100, true)
    });
}

/// Puts a tree into another, again and again, as long as that goes; returns the levels that there are then.
fn nest<F: Format>(
    repo: &Repo<F>,
    mut between: impl FnMut(usize, &mut Tree<F>) -> Outcome,
) -> Result<(usize, Tree<F>), Error> {
    let mut tree = repo.tree();
    tree.set("v", "level 1024")?;
    for levels in 1..=10 * PATH_STEPS_MAX {
        let mut above = repo.tree();
        match above.set_tree("d", &tree) {
            Ok(()) => {}
            Err(Error::Path(PathError::TooDeep { steps })) => {
                assert_eq!(steps, levels + 1);
                assert!(above.is_empty()?, "a refusal changes nothing");
                return Ok((levels, tree));
            }
            Err(error) => return Err(error),
        }
        between(levels, &mut above)?;
        tree = above;
    }
    Ok((usize::MAX, tree))
}

#[test]
fn trees_are_not_put_into_each_other_deeper_than_paths_go() {
    on_a_small_stack(|| {
        let repo = Repo::memory();
        let pending = nest(&repo, |_, _| Ok(()))?;
        let written = nest(&repo, |_, tree| tree.write().map(drop))?;
        let mixed = nest(&repo, |level, tree| if level % 7 == 0 { tree.write().map(drop) } else { Ok(()) })?;
        for (levels, tree) in [&pending, &written, &mixed] {
            assert_eq!(*levels, PATH_STEPS_MAX);
            assert_eq!(tree.get(path(PATH_STEPS_MAX, "v"))?.as_deref(), Some(&b"level 1024"[..]));
            assert!(tree.same(&pending.1)?);
        }
        Ok(())
    });
}

#[test]
fn a_tree_does_not_go_where_it_is_too_deep() {
    on_a_small_stack(|| {
        let repo = Repo::memory();
        let mut part = repo.tree();
        part.set(path(700, "v"), "1")?;
        let written = repo.tree_at(part.clone().write()?);
        let (fits, too_deep) = (path(324, "at"), path(325, "at"));
        for part in [&part, &written] {
            let mut tree = repo.tree();
            tree.set("other", "2")?;
            let refused = tree.set_tree(&too_deep, part);
            assert!(matches!(refused, Err(Error::Path(PathError::TooDeep { steps: 1025 }))), "{refused:?}");
            tree.set_tree(&fits, part)?;
            // Also where it is the active directory.
            tree.set(
                too_deep.split_last().map(|(above, _)| Path::from_bytes(above).unwrap()).unwrap().join(b"x").unwrap(),
                "3",
            )?;
            assert!(tree.set_tree(&too_deep, part).is_err());
            assert_eq!(tree.stats()?.depth, PATH_STEPS_MAX as u64);
        }
        // What was once there does not count, nor what comes to nothing.
        part.remove(path(700, "v"))?;
        part.set("v", "1")?;
        let mut tree = repo.tree();
        tree.set_tree(&too_deep, &part)?;
        assert_eq!(tree.stats()?.depth, 326);
        Ok(())
    });
}
