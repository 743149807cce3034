//! Trees, values and loaders that are held while other processes collect: what is committed of them is whole.

use std::sync::Arc;

use bristlecone::{
    CommitId, Durability, EntryKind, Error, Expected, Native, RefMove, Repo, SweepLimits, Tree, Value, merge,
};
use bristlecone_testkit::{
    hooked::{Hooked, Moment},
    sim::SimStorage,
};

use crate::{
    engine::tiny,
    retention::{check, create, info, open, set},
};

/// How many values the tree has that is held.
const HELD: usize = 30;

fn held_path(number: usize) -> String {
    format!("d{}/n{number}", number % 7)
}

/// Some are in their directories, some are objects of their own.
fn held_value(number: usize) -> Vec<u8> {
    format!("first {number} {}", "x".repeat(number % 2 * 5000)).into_bytes()
}

/// A store that two processes share, whose rules keep the last two commits of each branch.
struct Shared {
    disk: SimStorage,
    repo: Repo,
    commits: usize,
}

impl Shared {
    fn new() -> Self {
        let disk = SimStorage::new();
        let repo = create(&disk, &tiny());
        set(&repo, "last 2 refs/heads/*\n");
        let mut shared = Self { disk, repo, commits: 0 };
        (0..HELD).for_each(|number| _ = shared.commit(&held_path(number), &held_value(number)));
        shared
    }

    fn commit(&mut self, path: &str, value: &[u8]) -> CommitId {
        self.commits += 1;
        self.repo.branch("main").unwrap().edit(&info(self.commits), |tree| tree.set(path, value)).unwrap()
    }

    /// Collects in another process; nothing has a grace.
    fn sweep_elsewhere(&self) {
        let other = open(&self.disk, &tiny());
        assert!(other.sweep(&[], &SweepLimits::default()).unwrap().objects > 0);
    }

    /// Replaces every value in later commits, and collects in another process: what is held is gone from the store.
    fn cut(&mut self) {
        for number in 0..HELD {
            let value = format!("later {} {}", self.commits, "y".repeat(number % 2 * 5000));
            self.commit(&held_path(number), value.as_bytes());
        }
        self.sweep_elsewhere();
    }

    fn tree(&self) -> Tree {
        self.repo.branch("main").unwrap().tree().unwrap()
    }

    /// Collects, closes the store and opens it again.
    fn reopened(self) -> (SimStorage, Repo) {
        let Self { disk, repo, .. } = self;
        repo.sweep(&[], &SweepLimits::default()).unwrap();
        drop(repo);
        let repo = open(&disk, &tiny());
        (disk, repo)
    }

    /// Checks that the branch `side` has at `path` what was held, by a process that opens the store anew.
    fn side_has(self, path: &str) {
        let (disk, repo) = self.reopened();
        has_held(&repo.branch("side").unwrap().tree().unwrap(), path);
        drop(repo);
        check(&disk, &tiny());
    }
}

fn has_held(tree: &Tree, path: &str) {
    for number in 0..HELD {
        let path = format!("{path}{}", held_path(number));
        assert_eq!(*tree.get(&*path).unwrap().expect(&path), *held_value(number), "{path}");
    }
}

#[test]
fn a_directory_of_a_tree_that_was_cut_is_committed_whole() {
    // Cut before it is set, after that, or both.
    for (before, after) in [(true, false), (false, true), (true, true)] {
        let mut shared = Shared::new();
        let old = shared.tree();
        if before {
            shared.cut();
        }
        let mut tree = shared.repo.tree();
        tree.set_tree("copy", &old).unwrap();
        tree.set("copy/d0/new", "value").unwrap();
        tree.set_tree("deep/below/one", &old.get_tree("d1").unwrap().unwrap()).unwrap();
        has_held(&tree, "copy/");
        if after {
            shared.cut();
        }
        has_held(&tree, "copy/");
        let side = shared.repo.branch("side").unwrap();
        side.commit(&mut tree, &info(1000)).unwrap();
        assert_eq!(*tree.get("deep/below/one/n1").unwrap().unwrap(), *held_value(1));
        drop((tree, old, side));
        shared.side_has("copy/");
    }
}

#[test]
fn a_tree_that_was_cut_is_read_on_when_it_was_written_refreshed_or_forked() {
    let mut shared = Shared::new();
    let mut tree = shared.tree();
    shared.cut();
    // By now this process knows.
    shared.commit("later", b"1");
    tree.write().unwrap();
    has_held(&tree, "");
    tree.refresh();
    has_held(&tree, "");
    tree.set("new", "value").unwrap();
    let mut first = tree.fork_for_commit().unwrap();
    has_held(&tree, "");
    tree.set("newer", "value").unwrap();
    let mut second = tree.fork_for_commit().unwrap();
    has_held(&tree, "");
    let side = shared.repo.branch("side").unwrap();
    side.commit_over(None, &mut first, &[], &info(1000)).unwrap();
    has_held(&tree, "");
    side.commit_over(side.head().unwrap(), &mut second, &[], &info(1001)).unwrap();
    has_held(&tree, "");
    drop((tree, first, second, side));
    shared.side_has("");
}

#[test]
fn a_commit_of_a_tree_that_was_cut_is_submitted_once_it_is_prepared_again() {
    let mut shared = Shared::new();
    let mut tree = shared.tree();
    tree.set("new", "value").unwrap();
    shared.cut();
    let side = shared.repo.branch("side").unwrap();
    let submit = || {
        let prepared = side.prepare_over(None, &tree, &[], &info(1000)).unwrap();
        shared.repo.submit(vec![prepared]).pop().unwrap()
    };
    assert!(matches!(submit(), Err(Error::Gone { .. })));
    submit().unwrap();
    drop((tree, side));
    shared.side_has("");
}

#[test]
fn a_directory_of_a_tree_that_was_cut_is_written_whole_in_parts() {
    let mut shared = Shared::new();
    shared.repo.set_pending_max(64 << 10);
    let old = shared.tree();
    shared.cut();
    let mut tree = shared.tree();
    tree.set_tree("copy", &old).unwrap();
    (0..200).for_each(|number| tree.set(format!("copy/d{}/z{number}", number % 7), "x".repeat(100)).unwrap());
    shared.repo.branch("side").unwrap().commit_over(None, &mut tree, &[], &info(1000)).unwrap();
    drop((tree, old));
    shared.side_has("copy/");
}

#[test]
fn what_a_merge_takes_of_a_tree_that_was_cut_is_committed_whole() {
    for cut_first in [true, false] {
        let mut shared = Shared::new();
        let base = shared.repo.tree();
        let theirs = shared.tree();
        if cut_first {
            shared.cut();
        }
        // Directories and values are taken, some into a directory that ours has, too.
        let mut ours = shared.repo.tree();
        ours.set("own/value", "1").unwrap();
        ours.set("d0/own", "2").unwrap();
        shared.repo.branch("side").unwrap().commit(&mut ours, &info(1000)).unwrap();
        let merged = merge::trees(Some(&base), &ours, &theirs).unwrap();
        assert!(merged.conflicts.is_empty());
        let mut tree = merged.tree;
        has_held(&tree, "");
        if !cut_first {
            shared.cut();
        }
        shared.repo.branch("side").unwrap().commit(&mut tree, &info(1001)).unwrap();
        assert_eq!(tree.get("d0/own").unwrap().unwrap(), b"2");
        drop((tree, ours, theirs, base));
        shared.side_has("");
    }
}

#[test]
fn entries_that_a_merge_takes_of_a_map_that_was_cut_are_committed_whole() {
    let shared = Shared::new();
    let repo = &shared.repo;
    let branch = repo.branch("map").unwrap();
    let key = |number: u32| number.to_be_bytes();
    let mut map = repo.map();
    (0..9).for_each(|number| map.insert(&key(number), held_value(1)).unwrap());
    map.insert(&key(7), b"short").unwrap();
    map.commit(&branch, &info(2000)).unwrap();
    let theirs = map.clone();
    for number in 0..3 {
        map.insert(b"other", number.to_string()).unwrap();
        (0..9).for_each(|at| map.insert(&key(at), format!("{number} {at} {}", "z".repeat(6000))).unwrap());
        map.commit(&branch, &info(2001 + number)).unwrap();
    }
    shared.sweep_elsewhere();
    let mut ours = repo.map();
    ours.insert(b"own", b"1").unwrap();
    let mut merged = ours.merge(Some(&repo.map()), &theirs).unwrap();
    assert!(merged.conflicts.is_empty());
    merged.map.commit(&repo.branch("side").unwrap(), &info(2010)).unwrap();
    drop((branch, map, theirs, ours, merged));
    let (_, repo) = shared.reopened();
    let tree = repo.branch("side").unwrap().tree().unwrap();
    let values = tree.list("").unwrap().map(|entry| entry.unwrap().contents().unwrap().unwrap().len());
    let mut values: Vec<usize> = values.collect();
    values.sort_unstable();
    assert_eq!(values, [vec![1, 5], vec![held_value(1).len(); 8]].concat());
}

#[test]
fn a_stored_value_that_was_dropped_is_committed_whole() {
    let bytes: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
    for (before, after) in [(true, false), (false, true), (true, true)] {
        let mut shared = Shared::new();
        let value = shared.repo.write_value(&mut &bytes[..]).unwrap();
        if before {
            shared.cut();
        }
        let mut tree = shared.repo.tree();
        tree.set_stored("value", EntryKind::Value, &value).unwrap();
        assert_eq!(*tree.get("value").unwrap().unwrap(), *bytes);
        if after {
            shared.cut();
        }
        shared.repo.branch("side").unwrap().commit(&mut tree, &info(1000)).unwrap();
        drop((tree, value));
        let (disk, repo) = shared.reopened();
        let tree = repo.branch("side").unwrap().tree().unwrap();
        assert_eq!(*tree.get("value").unwrap().unwrap(), *bytes);
        drop((tree, repo));
        check(&disk, &tiny());
    }
}

#[test]
fn a_shared_value_that_was_dropped_is_committed_whole() {
    for whole_tree in [false, true] {
        let mut shared = Shared::new();
        let value = Value::new(vec![7; 10_000]);
        shared.repo.branch("main").unwrap().edit(&info(999), |tree| tree.set("value", &value)).unwrap();
        // The store has the value, and this process does not know yet that it is about to be dropped.
        let mut tree = shared.repo.tree();
        tree.set("a", &value).unwrap();
        if whole_tree {
            let inner = tree;
            tree = shared.repo.tree();
            tree.set_tree("inner", &inner).unwrap();
        }
        shared.repo.branch("main").unwrap().edit(&info(999), |tree| tree.remove("value")).unwrap();
        shared.cut();
        shared.repo.branch("side").unwrap().commit(&mut tree, &info(1000)).unwrap();
        drop(tree);
        let (_, repo) = shared.reopened();
        let tree = repo.branch("side").unwrap().tree().unwrap();
        assert_eq!(tree.get(if whole_tree { "inner/a" } else { "a" }).unwrap().unwrap(), [7; 10_000]);
    }
}

#[test]
fn a_value_that_waits_beside_one_that_was_dropped_is_read_and_more_is_set() {
    let mut shared = Shared::new();
    shared.repo.branch("main").unwrap().edit(&info(999), |tree| tree.set("value", vec![7; 10_000])).unwrap();
    let mut tree = shared.repo.tree();
    tree.set("b", vec![8; 10_000]).unwrap();
    // The store has this one, so it does not wait.
    tree.set("a", vec![7; 10_000]).unwrap();
    shared.repo.branch("main").unwrap().edit(&info(999), |tree| tree.remove("value")).unwrap();
    shared.cut();
    assert_eq!(tree.get("b").unwrap().unwrap(), [8; 10_000]);
    assert_eq!(tree.get("a").unwrap().unwrap(), [7; 10_000]);
    let mut other = tree.clone();
    for number in 0..200 {
        other.set(&*format!("many/{number}"), vec![number; 10_000]).unwrap();
    }
    let mut outer = shared.repo.tree();
    outer.set_tree("inner", &other).unwrap();
    shared.repo.branch("side").unwrap().commit(&mut outer, &info(1000)).unwrap();
    drop((tree, other, outer));
    let (_, repo) = shared.reopened();
    let tree = repo.branch("side").unwrap().tree().unwrap();
    for (path, byte) in [("inner/a", 7), ("inner/b", 8), ("inner/many/199", 199)] {
        assert_eq!(tree.get(path).unwrap().unwrap(), [byte; 10_000]);
    }
}

#[test]
fn trees_of_three_times_are_read_together() {
    let mut shared = Shared::new();
    let first = shared.tree();
    shared.cut();
    let second = shared.tree();
    shared.commit("d1/n1", b"of the second time");
    let second = (second, shared.tree());
    shared.cut();
    let mut third = shared.tree();
    third.set_tree("first", &first).unwrap();
    third.set_tree("second", &second.1).unwrap();
    // A tree that was read at the first time, in which one of several times is set.
    let mut tree = first.clone();
    tree.set_tree("all", &third).unwrap();
    for path in ["", "all/first/"] {
        has_held(&tree, path);
    }
    assert_eq!(tree.get("all/second/d1/n1").unwrap().unwrap(), b"of the second time");
    assert_eq!(tree.get("all/d1/n1").unwrap().unwrap(), &*third.get("d1/n1").unwrap().unwrap());
    shared.repo.branch("side").unwrap().commit_over(None, &mut tree, &[], &info(1000)).unwrap();
    drop((tree, first, second, third));
    shared.side_has("all/first/");
}

#[test]
fn a_tree_of_a_commit_that_was_cut_is_written_and_committed_without_it() {
    let mut shared = Shared::new();
    let head = shared.repo.branch("main").unwrap().head().unwrap().unwrap();
    let checkout = || shared.repo.checkout(head).unwrap();
    let (mut written, mut committed, mut bound, mut merged) = (checkout(), checkout(), checkout(), checkout());
    // One that goes on from a commit of its own.
    let mut own = checkout();
    own.set("own", "1").unwrap();
    shared.repo.branch("own").unwrap().commit_over(None, &mut own, &[head], &info(900)).unwrap();
    for number in 901..904 {
        let edit = |tree: &mut Tree| tree.replace("d0", number.to_string());
        shared.repo.branch("own").unwrap().edit(&info(number), edit).unwrap();
    }
    shared.cut();
    written.set("x", "y").unwrap();
    written.write().unwrap();
    has_held(&written, "");
    committed.set("x", "y").unwrap();
    let id = shared.repo.commit_tree(&mut committed, &[], &info(1000)).unwrap();
    has_held(&shared.repo.checkout(id).unwrap(), "");
    let mut tree = shared.tree();
    tree.set_tree("", &bound).unwrap();
    tree.set("x", "y").unwrap();
    shared.repo.branch("bound").unwrap().commit_over(None, &mut tree, &[], &info(1001)).unwrap();
    merged.set("x", "y").unwrap();
    let mut tree = merge::trees(Some(&bound), &merged, &bound).unwrap().tree;
    has_held(&tree, "");
    shared.repo.branch("merged").unwrap().commit_over(None, &mut tree, &[], &info(1002)).unwrap();
    own.set("x", "y").unwrap();
    shared.repo.branch("side").unwrap().commit_over(None, &mut own, &[], &info(1003)).unwrap();
    // A commit upon the one that was cut is refused.
    bound.set("x", "y").unwrap();
    let refused = shared.repo.commit_tree(&mut bound, &[head], &info(1004));
    assert!(matches!(&refused, Err(Error::Gone { oids }) if *oids == [head.oid()]), "{refused:?}");
    drop((tree, written, committed, bound, merged, own));
    for branch in ["bound", "merged"] {
        has_held(&shared.repo.branch(branch).unwrap().tree().unwrap(), "");
    }
    shared.side_has("");
}

#[test]
fn differences_from_a_tree_that_was_cut_are_those_of_what_it_holds() {
    let mut shared = Shared::new();
    let old = shared.tree();
    shared.cut();
    let mut edited = shared.tree();
    edited.set("d0/more", "2").unwrap();
    for (fresh, more) in [(shared.tree(), 0), (edited, 1)] {
        for (before, after) in [(&old, &fresh), (&fresh, &old)] {
            let mut count = 0;
            for found in before.diff(after, "").unwrap() {
                let found = found.unwrap();
                count += 1;
                for (tree, entry) in [(before, &found.before), (after, &found.after)] {
                    let value = tree.get(&found.path).unwrap();
                    let shown = entry.as_ref().map(|entry| entry.contents().unwrap().unwrap());
                    assert_eq!(shown.as_deref(), value.as_deref(), "{}", found.path);
                }
            }
            assert_eq!(count, HELD + more);
        }
    }
}

#[test]
fn differences_from_a_map_that_was_cut_are_those_of_what_it_holds() {
    let shared = Shared::new();
    let branch = shared.repo.branch("map").unwrap();
    let mut map = shared.repo.map();
    let fill = |map: &mut bristlecone::Map, text: &str| {
        (0..3000_u32).for_each(|number| map.insert(&number.to_be_bytes(), format!("{text} {number}")).unwrap());
    };
    fill(&mut map, "first");
    map.commit(&branch, &info(2000)).unwrap();
    let old = map.clone();
    for number in 0..3 {
        fill(&mut map, &number.to_string());
        map.commit(&branch, &info(2001 + number)).unwrap();
    }
    shared.sweep_elsewhere();
    let fresh = branch.map().unwrap();
    for (before, after) in [(&old, &fresh), (&fresh, &old)] {
        assert_eq!(before.diff(after).unwrap().map(Result::unwrap).count(), 3000);
    }
}

/// An entry whose value is an object of its own.
fn loaded(number: u32) -> ([u8; 4], Vec<u8>) {
    (number.to_be_bytes(), number.to_le_bytes().repeat(300))
}

/// Loaded entries make three batches.
const LOADED: u32 = 11_000;

fn has_loaded(repo: &Repo) {
    let map = repo.branch("side").unwrap().map().unwrap();
    let mut numbers = 0..LOADED;
    for entry in map.iter().unwrap() {
        let (key, value) = entry.unwrap();
        let wanted = loaded(numbers.next().unwrap());
        assert_eq!((&*key, &*value), (&wanted.0[..], &*wanted.1));
    }
    assert!(numbers.is_empty());
}

#[test]
fn a_map_is_loaded_whole_though_another_process_drops_its_first_parts() {
    let shared = Shared::new();
    let mut loader = shared.repo.map_loader();
    for number in 0..LOADED {
        let (key, value) = loaded(number);
        loader.push(&key, &value).unwrap();
        if number == LOADED / 2 || number == LOADED - 100 {
            shared.sweep_elsewhere();
        }
    }
    let mut map = loader.finish().unwrap();
    map.commit(&shared.repo.branch("side").unwrap(), &info(1000)).unwrap();
    drop(map);
    has_loaded(&shared.reopened().1);
}

#[test]
fn a_loader_goes_on_with_the_same_entry_after_an_append_that_failed() {
    let shared = Shared::new();
    let mut loader = shared.repo.map_loader();
    let mut failed = 0;
    for number in 0..LOADED {
        let (key, value) = loaded(number);
        if number % 5000 == 0 {
            shared.disk.limit_space(Some(shared.disk.bytes()));
        }
        while let Err(error) = loader.push(&key, &value) {
            assert!(matches!(error, Error::NoSpace { .. }), "{error:?}");
            shared.disk.limit_space(None);
            failed += 1;
        }
        assert_eq!(loader.count(), u64::from(number) + 1);
    }
    assert!(failed > 1, "{failed} appends failed");
    shared.disk.limit_space(None);
    let mut map = loader.finish().unwrap();
    map.commit(&shared.repo.branch("side").unwrap(), &info(1000)).unwrap();
    drop(map);
    has_loaded(&shared.reopened().1);
}

/// A store that has every second value, to which no ref leads; another process collects before its second append from now on,
/// without a grace.
fn collected_after_an_append() -> Repo {
    let disk = SimStorage::new();
    let repo = create(&disk, &tiny());
    let mut values = repo.tree();
    (0..LARGE).step_by(2).for_each(|number| values.set(held_path(number), large(number)).unwrap());
    values.write().unwrap();
    drop(values);
    let hooked = Hooked::new(repo.backend().clone(), move |moment| {
        if moment == Moment::Before(1) {
            open(&disk, &tiny()).sweep(&[], &SweepLimits::default()).unwrap();
        }
    });
    Repo::with_backend(Native::new(), Arc::new(hooked))
}

/// So many values of 8 KiB take several batches.
const LARGE: usize = 1200;

fn large(number: usize) -> Vec<u8> {
    number.to_le_bytes().repeat(1024)
}

/// Makes the branch `main`, which is not there.
fn make_branch(repo: &Repo, head: CommitId) {
    let wanted = RefMove { name: "refs/heads/main".to_owned(), expected: Expected::Absent, to: Some(head.into()) };
    repo.move_refs(&[wanted], Durability::None).unwrap();
}

fn has_all(tree: &Tree) {
    for number in 0..LARGE {
        assert_eq!(tree.get(&*held_path(number)).unwrap().as_deref(), Some(&large(number)[..]), "{number}");
    }
}

#[test]
fn what_is_copied_is_whole_whatever_another_process_collects_meanwhile() {
    let (from, to) = (Repo::memory(), collected_after_an_append());
    let mut tree = from.tree();
    (0..LARGE).for_each(|number| tree.set(held_path(number), large(number)).unwrap());
    let first = from.commit_tree(&mut tree, &[], &info(1)).unwrap();
    tree.set("last", "1").unwrap();
    let head = from.commit_tree(&mut tree, &[first], &info(2)).unwrap();
    to.copy_objects(&from, &[head]).unwrap();
    make_branch(&to, head);
    has_all(&to.branch("main").unwrap().tree().unwrap());
    has_all(&to.checkout(first).unwrap());
}

/// Commits until the log goes on in another segment.
fn commit_beside(repo: &Repo, number: usize) {
    for again in 0..4 {
        let value = format!("{number} {again} {}", "x".repeat(4000));
        repo.branch("other").unwrap().edit(&info(again), |tree| tree.set("last", &*value)).unwrap();
    }
}

#[test]
fn what_a_copy_brought_in_earlier_batches_is_there_whatever_another_process_collects() {
    let (from, disk) = (Repo::memory(), SimStorage::new());
    let mut tree = from.tree();
    (0..LARGE).for_each(|number| tree.set(held_path(number), large(number)).unwrap());
    let head = from.commit_tree(&mut tree, &[], &info(1)).unwrap();
    let backend = create(&disk, &tiny()).backend().clone();
    let here = Repo::with_backend(Native::new(), backend.clone());
    // After each batch another thread commits, so that no place of what came in it is known when the next one is made. Another
    // process collects before the third one, which names what came in the first two and brings nothing of it again.
    let hook = move |moment| match moment {
        Moment::Before(2) => {
            let swept = open(&disk, &tiny()).sweep(&[], &SweepLimits::default()).unwrap();
            assert!(swept.objects > 1000, "{}", swept.objects);
        }
        Moment::Before(_) => {}
        Moment::After(appends) => {
            commit_beside(&here, appends);
        }
    };
    let to = Repo::with_backend(Native::new(), Arc::new(Hooked::new(backend, hook)));
    to.copy_objects(&from, &[head]).unwrap();
    make_branch(&to, head);
    has_all(&to.branch("main").unwrap().tree().unwrap());
}

#[test]
fn what_is_written_anew_in_several_batches_is_whole_though_another_process_drops_the_first_ones_again() {
    let disk = SimStorage::new();
    let backend = create(&disk, &tiny()).backend().clone();
    let here = Repo::with_backend(Native::new(), backend.clone());
    // The first append finds that all is gone; the second and third one bring it again.
    let (elsewhere, beside) = (disk.clone(), here.clone());
    let hook = move |moment| match moment {
        Moment::Before(2) => {
            let swept = open(&elsewhere, &tiny()).sweep(&[], &SweepLimits::default()).unwrap();
            assert!(swept.objects > 1000, "{}", swept.objects);
        }
        Moment::Before(_) => {}
        Moment::After(appends) => {
            commit_beside(&beside, appends);
        }
    };
    let mut tree = here.tree();
    (0..LARGE).for_each(|number| tree.set(held_path(number), large(number)).unwrap());
    let first = here.commit_tree(&mut tree, &[], &info(1)).unwrap();
    drop(tree);
    let repo = Repo::with_backend(Native::new(), Arc::new(Hooked::new(backend, hook)));
    let mut held = repo.checkout(first).unwrap();
    assert!(open(&disk, &tiny()).sweep(&[], &SweepLimits::default()).unwrap().objects > 1000);
    held.set("new", "1").unwrap();
    let again = repo.commit_tree(&mut held, &[], &info(2)).unwrap();
    make_branch(&repo, again);
    drop((held, repo, here));
    let repo = open(&disk, &tiny());
    has_all(&repo.branch("main").unwrap().tree().unwrap());
    check(&disk, &tiny());
}
