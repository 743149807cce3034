//! Where there is no room for a copy of all that is live in the log, it is emptied in parts: what stays and what goes is the same as at
//! once, in less room, and whatever comes between two parts.

use std::collections::BTreeSet;

use bristlecone::{CommitId, Error, Oid, Repo, SweepLimits, Swept};
use bristlecone_testkit::{crash::step, sim::SimStorage};

use crate::{
    grown::{COMMITS, Ended, History, Store, each_way, limits, objects, options, states, value},
    retention::{check, messages, open},
};

/// Each commit adds a value, and the last three are to stay: nearly all is live.
const HISTORY: History = History { values: usize::MAX, rules: "last 3 refs/heads/*\nlast 2 refs/tags/*\n" };

/// What the system says is free, about half of what a copy of all takes.
const FREE_BYTES: u64 = 160_000;

#[test]
fn what_stays_and_what_goes_is_the_same_in_parts() {
    each_way(|options| {
        let (whole_disk, whole, _) = HISTORY.grown(options);
        let at_once = whole.sweep(&[], &limits()).unwrap();
        assert_eq!(states(&whole_disk, options), 1);
        let (disk, repo, ids) = HISTORY.grown(options);
        disk.tell_free(Some(FREE_BYTES));
        let planned = repo.sweep(&[], &limits().dry_run(true)).unwrap();
        // The first one after rules were set is of the whole, whatever it is asked for; the parts before its last are no first one.
        let swept = repo.sweep(&[], &limits().partial(true)).unwrap();
        assert_eq!((planned, swept), (swept, at_once));
        assert!(states(&disk, options) > 3, "{}", states(&disk, options));
        assert_eq!(objects(&repo), objects(&whole));
        assert_eq!(repo.backend().absent().unwrap(), whole.backend().absent().unwrap());
        for repo in [&repo, &open(&disk, options)] {
            assert_eq!(messages(repo, &[ids[COMMITS - 1]]), ["89", "88", "87"]);
            (COMMITS - 3..COMMITS).for_each(|number| HISTORY.is_whole(repo, ids[number], number));
        }
        assert_eq!(repo.sweep(&[], &limits()).unwrap(), Swept::default());
        // The tree that goes on has the root of one that was never collected.
        let (_, uncollected, _) = HISTORY.grown(options);
        let root = |repo: &Repo| repo.read_commit(HISTORY.add(repo, "main", COMMITS)).unwrap().tree.oid();
        assert_eq!(root(&repo), root(&uncollected));
        drop(repo);
        check(&disk, options);
    });
}

#[test]
fn no_room_is_needed_for_a_copy_of_all_that_is_live() {
    each_way(|options| {
        let (disk, repo, ids) = HISTORY.grown(options);
        let before = disk.bytes();
        let live = (0..COMMITS).map(|number| value(number).len() as u64).sum::<u64>();
        disk.limit_space(Some(before + live / 2));
        // One with a limit, though it leaves nothing, is done at once.
        let full = repo.sweep(&[], &limits().objects(u64::MAX - 1));
        assert!(matches!(full, Err(Error::NoRoom { .. } | Error::NoSpace { .. })), "{full:?}");
        assert!(repo.sweep(&[], &SweepLimits::default()).unwrap().commits > 80);
        HISTORY.is_whole(&repo, ids[COMMITS - 1], COMMITS - 1);
        assert!(disk.bytes() < before, "{} of {before}", disk.bytes());
        drop(repo);
        check(&disk, options);
    });
}

/// Who watches ends the collection after any number of steps, or the process is killed after any call: the store is whole, and the
/// next collection goes on to the same end.
#[test]
fn a_collection_in_parts_that_ends_anywhere_leaves_a_whole_store() {
    let [options, ..] = options();
    let (_, whole, _) = HISTORY.grown(&options);
    whole.sweep(&[], &limits()).unwrap();
    let wanted = objects(&whole);
    let finish = |disk: &SimStorage, ids: &[CommitId]| {
        check(disk, &options);
        let repo = open(disk, &options);
        (COMMITS - 3..COMMITS).for_each(|number| HISTORY.is_whole(&repo, ids[number], number));
        // What did not go as yet is there, and nothing that is there counts as absent. What main led to when an earlier part ended is
        // no longer kept, and not yet dropped.
        let is_there = |oid: Oid| repo.backend().read(&oid.into()).unwrap().is_some();
        let there: Vec<usize> = (0..COMMITS).rev().filter(|&number| is_there(ids[number].oid())).collect();
        let listed = messages(&repo, &[ids[COMMITS - 1]]);
        assert!(there.len() - listed.len() <= 4, "{there:?} {listed:?}");
        assert_eq!(listed, there[..listed.len()].iter().map(|number| number.to_string()).collect::<Vec<_>>());
        assert!(repo.backend().absent().unwrap().keys().all(|oid| !is_there(*oid)));
        let states = states(disk, &options);
        repo.sweep(&[], &limits()).unwrap();
        assert_eq!(objects(&repo), wanted, "after {states} states");
        assert_eq!(messages(&repo, &[ids[COMMITS - 1]]).len(), 3);
        states
    };
    let make = || told(HISTORY.grown(&options));
    let (mut stopped, mut killed) = (BTreeSet::new(), BTreeSet::new());
    HISTORY.end_anywhere(&options, &limits(), (step(3, 1), step(7, 1)), make, |disk, ids, by, swept| match by {
        Ended::Stopped => {
            // What went is told, and where nothing did, that it was ended.
            assert_eq!(swept.is_ok(), states(disk, &options) > 0, "{swept:?}");
            stopped.insert(finish(disk, ids));
        }
        Ended::Killed => _ = killed.insert(finish(disk, ids)),
    });
    assert!(stopped.len() > 3 && killed.len() > 3, "{stopped:?} {killed:?}");
}

/// Tells what is free, and returns the store.
fn told(store: Store) -> Store {
    store.0.tell_free(Some(FREE_BYTES));
    store
}

/// Another process commits, and points at commits that are about to go, before each step of a collection.
#[test]
fn what_refs_keep_that_move_between_parts_stays() {
    for options in options() {
        for turn in (0..40).step_by(step(5, 2) as usize) {
            let store = told(HISTORY.grown(&options));
            let (other, all, tagged) = HISTORY.collect_with_moves(&store, &options, &limits(), turn);
            let (disk, repo, _) = store;
            for repo in [&repo, &other, &open(&disk, &options)] {
                (all.len() - 3..all.len()).for_each(|number| HISTORY.is_whole(repo, all[number], number));
                for &old in &tagged {
                    HISTORY.is_whole(repo, all[old], old);
                }
            }
            repo.sweep(&[], &SweepLimits::default()).unwrap();
            (all.len() - 3..all.len()).for_each(|number| HISTORY.is_whole(&repo, all[number], number));
            for &old in &tagged {
                HISTORY.is_whole(&repo, all[old], old);
            }
            drop((repo, other));
            check(&disk, &options);
        }
    }
}

/// What was written without a ref, or lost its ref, stays for the grace in whichever part it lies.
#[test]
fn what_the_grace_keeps_stays_in_parts() {
    each_way(|options| {
        let young = limits().grace(86_400);
        let ((_, whole, _), _) = HISTORY.with_sides(options);
        whole.sweep(&[], &young).unwrap();
        let ((disk, repo, _), left) = HISTORY.with_sides(options);
        disk.tell_free(Some(FREE_BYTES));
        repo.sweep(&[], &young).unwrap();
        assert!(states(&disk, options) > 3, "{}", states(&disk, options));
        assert!(objects(&repo).is_superset(&objects(&whole)));
        HISTORY.sides_stay(&repo, &left);
        drop(repo);
        let repo = open(&disk, options);
        repo.sweep(&[], &young).unwrap();
        HISTORY.sides_stay(&repo, &left);
        repo.sweep(&[], &limits()).unwrap();
        assert!(left.iter().all(|(_, id)| repo.checkout(*id).is_err()));
        drop(repo);
        check(&disk, options);
    });
}
