//! What was appended since the last commit that rules cut stays in the log where a collection is told so, and whatever it names stays
//! with it, wherever that is.

use std::collections::BTreeSet;

use bristlecone::{CommitId, Repo, SweepLimits, storage::Storage};
use bristlecone_testkit::{crash::step, sim::SimStorage};

use crate::{
    grown::{COMMITS, Ended, History, each_way, limits as exact, objects, options, states, value},
    retention::{check, create, info, messages, open, point, set},
};

/// How many of the last commits stay.
const KEPT: usize = 20;
/// Each commit replaces one of thirty values.
const HISTORY: History = History { values: 30, rules: "last 20 refs/heads/*\nlast 2 refs/tags/*\n" };

fn recent() -> SweepLimits {
    exact().recent_stays(true)
}

/// The segments of the log.
fn log(disk: &SimStorage) -> BTreeSet<String> {
    disk.list("segments").unwrap().into_iter().filter(|name| name.ends_with(".seg")).collect()
}

/// Checks that the last commits are there and listed, without a gap; returns how many are.
fn listed(repo: &Repo, ids: &[CommitId]) -> usize {
    let listed = messages(repo, &[ids[ids.len() - 1]]);
    let wanted: Vec<String> = (0..ids.len()).rev().map(|number| number.to_string()).take(listed.len()).collect();
    assert_eq!(listed, wanted);
    (ids.len() - listed.len()..ids.len()).for_each(|number| HISTORY.is_whole(repo, ids[number], number));
    let absent = repo.backend().absent().unwrap();
    assert!(absent.keys().all(|oid| repo.backend().read(&(*oid).into()).unwrap().is_none()));
    listed.len()
}

#[test]
fn the_log_is_emptied_up_to_the_last_commit_that_is_cut() {
    each_way(|options| {
        let (_, whole, _) = HISTORY.grown(options);
        whole.sweep(&[], &exact()).unwrap();
        let (disk, repo, mut ids) = HISTORY.grown(options);
        let before = log(&disk);
        let planned = repo.sweep(&[], &recent().dry_run(true)).unwrap();
        let swept = repo.sweep(&[], &recent()).unwrap();
        assert_eq!((planned, states(&disk, options)), (swept, 1));
        assert!(swept.objects > 100 && swept.commits > 50, "{swept:?}");
        // Four commits take a segment.
        let after = log(&disk);
        let stay = before.intersection(&after).count();
        assert!((KEPT / 4..=KEPT / 4 + 3).contains(&stay) && !after.contains(before.first().unwrap()), "{stay}");
        for repo in [&repo, &open(&disk, options)] {
            let listed = listed(repo, &ids);
            assert!((KEPT..KEPT + 8).contains(&listed) && listed as u64 == COMMITS as u64 - swept.commits, "{listed}");
        }
        // Nothing is cut any more, and nothing moves.
        let cold = disk.list("segments").unwrap().iter().filter(|name| name.ends_with(".cold")).count();
        repo.sweep(&[], &recent()).unwrap();
        assert_eq!(disk.list("segments").unwrap().iter().filter(|name| name.ends_with(".cold")).count(), cold);
        assert!(log(&disk).is_superset(&before.intersection(&after).cloned().collect()));
        // History goes on, and so does what is left.
        for round in 0..4 {
            (0..17).for_each(|_| ids.push(HISTORY.add(&repo, "main", ids.len())));
            let swept = repo.sweep(&[], &recent().partial(round % 2 == 0)).unwrap();
            assert!(swept.objects > 0 && (KEPT..KEPT + 8).contains(&listed(&repo, &ids)), "{swept:?}");
        }
        repo.sweep(&[], &exact()).unwrap();
        assert_eq!(listed(&repo, &ids), KEPT);
        let (_, other, _) = HISTORY.grown(options);
        (COMMITS..ids.len()).for_each(|number| _ = HISTORY.add(&other, "main", number));
        other.sweep(&[], &exact()).unwrap();
        assert_eq!(objects(&repo), objects(&other));
        assert_eq!(repo.backend().absent().unwrap(), other.backend().absent().unwrap());
        drop(repo);
        check(&disk, options);
    });
}

/// Garbage that no rule cuts stays with what was appended lately; so there is a bound for that.
#[test]
fn no_more_than_a_share_of_a_store_stays() {
    each_way(|options| {
        let disk = SimStorage::new();
        let repo = create(&disk, options);
        set(&repo, "last 1000 refs/heads/*\n");
        let ids: Vec<CommitId> = (0..COMMITS).map(|number| HISTORY.add(&repo, "main", number)).collect();
        let all = log(&disk).len();
        // Nothing is cut, and of what is before the share nothing is dead.
        repo.sweep(&[], &recent()).unwrap();
        assert!(log(&disk).len() >= all);
        for number in 0..COMMITS {
            HISTORY.add(&repo, "side", 1000 + number);
            point(&repo, "refs/heads/side", None);
        }
        repo.sweep(&[], &recent()).unwrap();
        // Five segments and a bit more than a third: some of main's own is dead in none of these.
        let left = log(&disk).len();
        assert!(left > all / 3 && left <= 6 + (2 * all + 4) / 3, "{left} of {all} and as many");
        assert_eq!(listed(&repo, &ids), COMMITS);
        drop(repo);
        check(&disk, options);
    });
}

/// What stays may be garbage, and name what nothing else does any more.
#[test]
fn what_garbage_names_stays_as_long_as_that() {
    each_way(|options| {
        let (disk, repo, ids) = HISTORY.grown(options);
        // A tree of long ago: it is there, so it is not written again.
        let old = repo.checkout(ids[8]).unwrap();
        let side = repo.branch("side").unwrap().edit(&info(1000), |tree| tree.set_tree("old", &old)).unwrap();
        drop(old);
        point(&repo, "refs/heads/side", None);
        for limits in [recent(), recent().partial(true)] {
            assert_eq!(repo.sweep(&[], &limits).unwrap().objects > 0, !limits.partial);
            let repo = open(&disk, options);
            listed(&repo, &ids);
            let tree = repo.checkout(side).unwrap();
            for number in 0..9 {
                let found = tree.get(&*format!("old/{}", HISTORY.path(number))).unwrap();
                assert_eq!(found.expect("it is there").as_ref(), value(number).as_bytes());
            }
        }
        repo.sweep(&[], &exact()).unwrap();
        assert!(repo.checkout(side).is_err());
        drop(repo);
        check(&disk, options);
    });
}

/// Who watches ends the collection after any number of steps, or the process is killed after any call.
#[test]
fn a_collection_that_ends_anywhere_leaves_a_whole_store() {
    let [options, ..] = options();
    let (_, whole, _) = HISTORY.grown(&options);
    whole.sweep(&[], &exact()).unwrap();
    let wanted = objects(&whole);
    let make = || HISTORY.grown(&options);
    HISTORY.end_anywhere(&options, &recent(), (step(5, 1), step(7, 1)), make, |disk, ids, by, swept| {
        check(disk, &options);
        let repo = open(disk, &options);
        let there = listed(&repo, ids);
        let is_done = (KEPT..KEPT + 8).contains(&there);
        assert!(if by == Ended::Stopped { is_done == swept.is_ok() } else { is_done || there == COMMITS }, "{there}");
        repo.sweep(&[], &recent()).unwrap();
        assert!((KEPT..KEPT + 8).contains(&listed(&repo, ids)));
        repo.sweep(&[], &exact()).unwrap();
        assert_eq!((listed(&repo, ids), objects(&repo) == wanted), (KEPT, true));
    });
}

/// Another process commits, and points at commits that are about to go, before each step of a collection.
#[test]
fn what_refs_keep_that_move_meanwhile_stays() {
    for options in options() {
        for turn in (0..60).step_by(step(7, 2) as usize) {
            let store = HISTORY.grown(&options);
            let limits = recent().partial(turn % 2 == 0);
            let (other, all, tagged) = HISTORY.collect_with_moves(&store, &options, &limits, turn);
            let (disk, repo, _) = store;
            for limits in [None, Some(recent().partial(true)), Some(exact())] {
                limits.into_iter().for_each(|limits| _ = repo.sweep(&[], &limits).unwrap());
                for repo in [&repo, &other, &open(&disk, &options)] {
                    assert!(messages(repo, &[all[all.len() - 1]]).len() >= KEPT, "turn {turn}");
                    let kept = all.len() - KEPT..all.len();
                    kept.chain(tagged.iter().copied()).for_each(|number| HISTORY.is_whole(repo, all[number], number));
                }
            }
            drop((repo, other));
            check(&disk, &options);
        }
    }
}

/// What lost its ref lately stays for the grace, whether it is where the log is emptied or behind that.
#[test]
fn what_the_grace_keeps_stays() {
    each_way(|options| {
        let ((disk, repo, mut ids), left) = HISTORY.with_sides(options);
        for limits in [recent(), recent().partial(true), recent()].map(|limits| limits.grace(86_400)) {
            repo.sweep(&[], &limits).unwrap();
            let repo = open(&disk, options);
            HISTORY.sides_stay(&repo, &left);
            (0..9).for_each(|_| ids.push(HISTORY.add(&repo, "main", ids.len())));
        }
        repo.sweep(&[], &exact()).unwrap();
        assert!(left.iter().all(|(_, id)| repo.checkout(*id).is_err()));
        assert_eq!(listed(&repo, &ids), KEPT);
        drop(repo);
        check(&disk, options);
    });
}
