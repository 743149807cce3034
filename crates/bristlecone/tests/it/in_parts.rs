//! Where there is no room for a copy of all that is live in the log, it is emptied in parts: what stays and what goes is the same as at
//! once, in less room, and whatever comes between two parts.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    ops::ControlFlow,
    sync::Arc,
};

use bristlecone::{
    CommitId, Durability, Error, Expected, Object, Oid, RefMove, RefTarget, Repo, SweepLimits, Swept, Tree,
    disk::{DiskBackend, DiskOptions},
};
use bristlecone_testkit::{crash::step, sim::SimStorage};

use crate::{
    engine::{tiny, tiny_as_shipped, tiny_with_maps},
    retention::{check, create, info, messages, open, point, set},
};

/// How many commits the stores have. Each adds a value, and the last three are to stay.
const COMMITS: usize = 90;
const RULES: &str = "last 3 refs/heads/*\nlast 2 refs/tags/*\n";

fn path(number: usize) -> String {
    format!("d{}/n{number}", number % 7)
}

fn value(number: usize) -> String {
    format!("{number} {}", "x".repeat(2500 + number))
}

fn add(repo: &Repo, branch: &str, number: usize) -> CommitId {
    let edit = |tree: &mut Tree| tree.set(&*path(number), &*value(number));
    repo.branch(branch).unwrap().edit(&info(number), edit).unwrap()
}

/// A store that kept all so far, of which nearly all is live, and its commits.
fn grown(options: &DiskOptions) -> (SimStorage, Repo, Vec<CommitId>) {
    let disk = SimStorage::new();
    let repo = create(&disk, options);
    let ids = (0..COMMITS).map(|number| add(&repo, "main", number)).collect();
    set(&repo, RULES);
    (disk, repo, ids)
}

/// Limits by which nothing that is dead is rewritten, so that each state is that of a part.
fn limits() -> SweepLimits {
    SweepLimits::default().slack(100)
}

/// What the system says is free, about half of what a copy of all takes.
const FREE_BYTES: u64 = 160_000;

/// Returns how many states collections have made: one was made when the rules were set.
pub(crate) fn states(disk: &SimStorage, options: &DiskOptions) -> u64 {
    let backend = DiskBackend::open(Arc::new(disk.clone()), None, options.clone(), true).unwrap();
    backend.collected().unwrap().states - 1
}

pub(crate) fn objects(repo: &Repo) -> BTreeSet<Oid> {
    let mut all = BTreeSet::new();
    let each = &mut |oid: Oid, _: &Object<'_>| {
        all.insert(oid);
        Ok(())
    };
    repo.backend().each_object(each, &mut |damage| panic!("{damage:?}")).unwrap();
    all
}

/// Checks that a commit has all that was added by then.
fn is_whole(repo: &Repo, id: CommitId, number: usize) {
    let tree = repo.checkout(id).unwrap();
    (0..=number).for_each(|added| {
        let found = tree.get(&*path(added)).unwrap().unwrap_or_else(|| panic!("{added} of {number}"));
        assert_eq!(found.as_ref(), value(added).as_bytes());
    });
}

/// Segments of several commits: what is lost at their ends is no part of what is live.
pub(crate) fn options() -> [DiskOptions; 4] {
    [tiny(), tiny_with_maps(), tiny_as_shipped(), tiny().locations(false)]
        .map(|options| options.segment_bytes(16 << 10).cold_bytes(8 << 10))
}

pub(crate) fn each_way(test: impl Fn(&DiskOptions)) {
    options().iter().for_each(test);
}

#[test]
fn what_stays_and_what_goes_is_the_same_in_parts() {
    each_way(|options| {
        let (whole_disk, whole, _) = grown(options);
        let at_once = whole.sweep(&[], &limits()).unwrap();
        assert_eq!(states(&whole_disk, options), 1);
        let (disk, repo, ids) = grown(options);
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
            (COMMITS - 3..COMMITS).for_each(|number| is_whole(repo, ids[number], number));
        }
        assert_eq!(repo.sweep(&[], &limits()).unwrap(), Swept::default());
        // The tree that goes on has the root of one that was never collected.
        let (_, uncollected, _) = grown(options);
        let root = |repo: &Repo| repo.read_commit(add(repo, "main", COMMITS)).unwrap().tree.oid();
        assert_eq!(root(&repo), root(&uncollected));
        drop(repo);
        check(&disk, options);
    });
}

#[test]
fn no_room_is_needed_for_a_copy_of_all_that_is_live() {
    each_way(|options| {
        let (disk, repo, ids) = grown(options);
        let before = disk.bytes();
        let live = (0..COMMITS).map(|number| value(number).len() as u64).sum::<u64>();
        disk.limit_space(Some(before + live / 2));
        // One with a limit, though it leaves nothing, is done at once.
        let full = repo.sweep(&[], &limits().objects(u64::MAX - 1));
        assert!(matches!(full, Err(Error::NoRoom { .. } | Error::NoSpace { .. })), "{full:?}");
        assert!(repo.sweep(&[], &SweepLimits::default()).unwrap().commits > 80);
        is_whole(&repo, ids[COMMITS - 1], COMMITS - 1);
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
    let (_, whole, _) = grown(&options);
    whole.sweep(&[], &limits()).unwrap();
    let wanted = objects(&whole);
    let grown = || {
        let grown = grown(&options);
        grown.0.tell_free(Some(FREE_BYTES));
        grown
    };
    let finish = |disk: &SimStorage, ids: &[CommitId]| {
        check(disk, &options);
        let repo = open(disk, &options);
        (COMMITS - 3..COMMITS).for_each(|number| is_whole(&repo, ids[number], number));
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
    let mut between = BTreeSet::new();
    for last in (0..).step_by(step(3, 1) as usize) {
        let (disk, repo, ids) = grown();
        let asked = Cell::new(0);
        let watch = |_: &_| {
            asked.set(asked.get() + 1);
            if asked.get() > last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        match repo.sweep_watched(&RULES.parse().unwrap(), &[], &limits(), &watch) {
            Ok(swept) if !swept.more => break,
            stopped => {
                // What went is told, and where nothing did, that it was ended.
                let is_told = states(&disk, &options) > 0;
                assert_eq!(stopped.is_ok(), is_told, "{stopped:?}");
            }
        }
        drop(repo);
        between.insert(finish(&disk, &ids));
    }
    assert!(between.len() > 3, "{between:?}");
    let mut between = BTreeSet::new();
    for call in (1..).step_by(step(7, 1) as usize) {
        let (disk, repo, ids) = grown();
        drop(repo);
        let process = disk.process();
        let killed = open(&process, &options);
        process.stop_after(process.process_calls() + call);
        let swept = killed.sweep(&[], &limits());
        drop(killed);
        between.insert(finish(&disk, &ids));
        if swept.is_ok() {
            break;
        }
    }
    assert!(between.len() > 3, "{between:?}");
}

/// Another process commits, and points at commits that are about to go, before each step of a collection.
#[test]
fn what_refs_keep_that_move_between_parts_stays() {
    for options in options() {
        for turn in (0..40).step_by(step(5, 2) as usize) {
            let (disk, repo, ids) = grown(&options);
            disk.tell_free(Some(FREE_BYTES));
            let other = open(&disk, &options);
            let (asked, made, tagged) = (Cell::new(0), RefCell::new(Vec::new()), RefCell::new(Vec::new()));
            let watch = |_: &_| {
                asked.set(asked.get() + 1);
                if asked.get() % 9 == turn % 9 && asked.get() >= turn {
                    let number = COMMITS + made.borrow().len();
                    made.borrow_mut().push(add(&other, "main", number));
                    // What is there has all below it, and keeps it.
                    let old = (asked.get() * 7 + turn) % COMMITS;
                    if tag(&other, number, ids[old]) {
                        tagged.borrow_mut().push(old);
                    }
                }
                ControlFlow::Continue(())
            };
            repo.sweep_watched(&RULES.parse().unwrap(), &[], &limits(), &watch).unwrap();
            let all: Vec<CommitId> = ids.iter().copied().chain(made.take()).collect();
            for repo in [&repo, &other, &open(&disk, &options)] {
                (all.len() - 3..all.len()).for_each(|number| is_whole(repo, all[number], number));
                for &old in &*tagged.borrow() {
                    is_whole(repo, all[old], old);
                }
            }
            repo.sweep(&[], &SweepLimits::default()).unwrap();
            (all.len() - 3..all.len()).for_each(|number| is_whole(&repo, all[number], number));
            for &old in &*tagged.borrow() {
                is_whole(&repo, all[old], old);
            }
            drop((repo, other));
            check(&disk, &options);
        }
    }
}

/// Makes a tag lead to a commit, unless that is gone.
pub(crate) fn tag(repo: &Repo, number: usize, to: CommitId) -> bool {
    let name = format!("refs/tags/t{number}");
    let moved = RefMove { name, expected: Expected::Any, to: Some(RefTarget::from(to)) };
    match repo.checkout(to).and_then(|_| repo.move_refs(&[moved], Durability::None)) {
        Ok(()) => true,
        Err(Error::Absent { .. } | Error::Missing { .. } | Error::Gone { .. }) => false,
        Err(error) => panic!("{error:?}"),
    }
}

/// What was written without a ref, or lost its ref, stays for the grace in whichever part it lies.
#[test]
fn what_the_grace_keeps_stays_in_parts() {
    each_way(|options| {
        let young = limits().grace(86_400);
        let store = || {
            let disk = SimStorage::new();
            let repo = create(&disk, options);
            let mut left = Vec::new();
            for number in 0..COMMITS {
                add(&repo, "main", number);
                if number % 5 == 0 {
                    let name = format!("side{number}");
                    left.push((number, add(&repo, &name, 1000 + number)));
                    if number % 2 == 0 {
                        point(&repo, &format!("refs/heads/{name}"), None);
                    }
                }
            }
            (0..COMMITS).step_by(5).for_each(|number| point(&repo, &format!("refs/heads/side{number}"), None));
            set(&repo, RULES);
            (disk, repo, left)
        };
        let (_, whole, _) = store();
        whole.sweep(&[], &young).unwrap();
        let (disk, repo, left) = store();
        disk.tell_free(Some(FREE_BYTES));
        repo.sweep(&[], &young).unwrap();
        assert!(states(&disk, options) > 3, "{}", states(&disk, options));
        assert!(objects(&repo).is_superset(&objects(&whole)));
        let stays = |repo: &Repo| {
            for (number, id) in &left {
                let tree = repo.checkout(*id).unwrap();
                assert_eq!(tree.get(&*path(1000 + number)).unwrap().unwrap().len(), value(1000 + number).len());
            }
        };
        stays(&repo);
        drop(repo);
        let repo = open(&disk, options);
        repo.sweep(&[], &young).unwrap();
        stays(&repo);
        repo.sweep(&[], &limits()).unwrap();
        assert!(left.iter().all(|(_, id)| repo.checkout(*id).is_err()));
        drop(repo);
        check(&disk, options);
    });
}
