//! What comes between the steps of a collection that cuts history: what refs keep by then stays, and what is missing is absent on
//! purpose.

use std::{
    cell::{Cell, RefCell},
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::*},
    },
};

use bristlecone::{
    AbsentReason, CommitId, Error, LogOptions, Native, Repo, Retention, SweepLimits, Swept,
    disk::{DiskBackend, DiskOptions},
    storage::Storage,
};
use bristlecone_testkit::sim::{Coming, Hooked, SimStorage};

use crate::{
    engine::{tiny, tiny_as_shipped, tiny_with_maps},
    retention::{check, commit, create, info, messages, open, point, set},
};

/// Opens a store such that `between` is called once before a call of which `is_it` is true, from when the answer is set.
fn open_hooked(
    disk: &SimStorage,
    options: &DiskOptions,
    is_it: impl Fn(Coming<'_>) -> bool + Send + Sync + 'static,
    between: impl Fn() + Send + Sync + 'static,
) -> (Repo, Arc<AtomicBool>) {
    let armed = Arc::new(AtomicBool::new(false));
    let is_armed = armed.clone();
    let storage = Hooked::new(Arc::new(disk.clone()), move |coming| {
        if is_armed.load(SeqCst) && is_it(coming) && is_armed.swap(false, SeqCst) {
            between();
        }
    });
    let backend = DiskBackend::open(Arc::new(storage), None, options.clone(), false).unwrap();
    (Repo::with_backend(Native::new(), Arc::new(backend)), armed)
}

fn sweep(repo: &Repo) -> Swept {
    repo.sweep(&[], &SweepLimits::default()).unwrap()
}

fn descending(from: usize, to: usize) -> Vec<String> {
    (to..=from).rev().map(|number| number.to_string()).collect()
}

fn is_absent(repo: &Repo, id: CommitId) -> bool {
    matches!(repo.checkout(id), Err(Error::Absent { reason: AbsentReason::Cut, .. }))
}

fn commits(repo: &Repo, range: std::ops::Range<usize>) -> Vec<CommitId> {
    range.map(|number| commit(repo, "main", number)).collect()
}

/// Another process collects, after this one has begun and before it has the lock.
#[test]
fn what_another_collection_has_cut_meanwhile_stays_absent_on_purpose() {
    for options in [tiny(), tiny_with_maps(), tiny_as_shipped()] {
        let disk = SimStorage::new();
        let first = create(&disk, &options);
        set(&first, "last 5 refs/heads/*\n");
        let ids = commits(&first, 0..10);
        // The other collection leaves this by its grace, so that there is something to drop.
        commit(&first, "garbage", 100);
        point(&first, "refs/heads/garbage", None);
        let ids: Arc<std::sync::Mutex<Vec<CommitId>>> = Arc::new(ids.into());
        let made = ids.clone();
        let between = move || {
            made.lock().unwrap().append(&mut commits(&first, 10..20));
            assert!(first.sweep(&[], &SweepLimits::default().grace(86_400)).unwrap().commits > 0);
        };
        let (repo, armed) = open_hooked(&disk, &options, |coming| coming.name == "collector", between);
        armed.store(true, SeqCst);
        let swept = sweep(&repo);
        assert!(!armed.load(SeqCst));
        assert!(swept.objects > 0, "{swept:?}");
        let ids = ids.lock().unwrap().clone();
        assert!(is_absent(&repo, ids[14]));
        assert_eq!(messages(&repo, &[ids[19]]), descending(19, 15));
        drop(repo);
        check(&disk, &options);
    }
}

#[test]
fn rules_that_were_set_before_a_collection_began_its_work_are_those_that_count() {
    let disk = SimStorage::new();
    let first = create(&disk, &tiny());
    set(&first, "last 3 refs/heads/*\n");
    let ids = commits(&first, 0..30);
    let head = ids[29];
    let between = move || first.set_retention(&Retention::default()).unwrap();
    let (repo, armed) = open_hooked(&disk, &tiny(), |coming| coming.name == "collector", between);
    armed.store(true, SeqCst);
    assert_eq!(sweep(&repo).commits, 0);
    assert!(!armed.load(SeqCst));
    assert_eq!(messages(&repo, &[head]), descending(29, 0));
    // Rules that are given count whatever those of the store are.
    repo.sweep_by(&"last 2 refs/heads/*".parse().unwrap(), &[], &SweepLimits::default()).unwrap();
    assert_eq!(messages(&repo, &[head]), descending(29, 28));
}

/// Another collection marks something else of the same cold segment, while the file of the marks is being written.
#[test]
fn marks_are_let_be_where_the_lock_was_removed_while_others_were_being_written() {
    let (disk, options) = (SimStorage::new(), tiny().cold_bytes(1 << 20));
    let first = create(&disk, &options);
    let ids = commits(&first, 0..10);
    for (number, branch) in [(100, "side"), (101, "third"), (102, "gone")] {
        commit(&first, branch, number);
    }
    point(&first, "refs/heads/gone", None);
    assert!(sweep(&first).objects > 0);
    point(&first, "refs/heads/side", None);
    let hides = SweepLimits::default().slack(100);
    let files = disk.clone();
    let between = move || {
        files.remove("collector").unwrap();
        point(&first, "refs/heads/third", None);
        assert!(first.sweep(&[], &hides).unwrap().objects > 0);
    };
    let is_it = |coming: Coming<'_>| coming.method == "sync_data" && coming.name.starts_with("segments/next-");
    let (repo, armed) = open_hooked(&disk, &options, is_it, between);
    armed.store(true, SeqCst);
    let failed = repo.sweep(&[], &hides);
    assert!(!armed.load(SeqCst));
    assert!(matches!(&failed, Err(Error::Lost { file, .. }) if file.ends_with("collector")), "{failed:?}");
    assert_eq!(messages(&repo, &[ids[9]]), descending(9, 0));
    drop(repo);
    check(&disk, &options);
}

/// A log goes on by what was there when it began, also where the last commit that was there then is not the last one by now.
#[test]
fn a_log_that_began_before_a_collection_goes_on_to_where_history_ended_then() {
    for options in [tiny(), tiny_with_maps(), tiny_as_shipped()].map(|options| options.collect(false)) {
        let disk = SimStorage::new();
        let repo = create(&disk, &options);
        set(&repo, "last 10 refs/heads/*\n");
        commits(&repo, 0..30);
        sweep(&repo);
        let other = open(&disk, &options);
        for (reader, gone) in [(&repo, 25), (&other, 30)] {
            let head = reader.branch("main").unwrap().head().unwrap().unwrap();
            let log = reader.log(&[head], LogOptions::default());
            let before = messages(reader, &[head]);
            assert_eq!(before.len(), 10);
            (gone..gone + 5).for_each(|number| _ = commit(&repo, "main", 5 + number));
            sweep(&repo);
            let logged = log.map(|entry| String::from_utf8(entry.unwrap().commit.message).unwrap());
            assert_eq!(logged.collect::<Vec<_>>(), before);
            // One that begins now, and may know as yet what was then.
            let listed = messages(reader, &[head]);
            assert!(listed[..] == before[..] || listed[..] == before[..5], "{listed:?}");
        }
        drop((repo, other));
        check(&disk, &options);
    }
}

/// Calls `between` at the call of the watcher with this number; returns whether there was one.
fn sweep_with(repo: &Repo, limits: &SweepLimits, turn: usize, between: &dyn Fn()) -> bool {
    let asked = Cell::new(0);
    let watch = |_: &_| {
        if asked.replace(asked.get() + 1) == turn {
            between();
        }
        ControlFlow::Continue(())
    };
    repo.sweep_watched(&repo.retention().unwrap(), &[], limits, &watch).unwrap();
    asked.get() > turn
}

/// At each step of a collection, refs are moved that keep what it is about to cut.
#[test]
fn what_a_ref_keeps_that_moved_during_a_collection_stays() {
    for (options, two, partial) in
        [(tiny(), false, false), (tiny_as_shipped(), true, false), (tiny_with_maps(), true, true)]
    {
        for turn in 0.. {
            let disk = SimStorage::new();
            let repo = create(&disk, &options);
            let other = two.then(|| open(&disk, &options));
            let writer = other.as_ref().unwrap_or(&repo);
            set(&repo, "last 3 refs/heads/*\nlast 6 refs/heads/long\n");
            // A first collection of the whole, after which one may be in part.
            commit(&repo, "garbage", 100);
            point(&repo, "refs/heads/garbage", None);
            sweep(&repo);
            let ids = commits(&repo, 0..30);
            let made = RefCell::new(None);
            let between = || {
                point(writer, "refs/tags/all", Some(ids[27]));
                point(writer, "refs/heads/back", Some(ids[20]));
                point(writer, "refs/heads/long", Some(ids[14]));
                // It goes again, and keeps nothing.
                point(writer, "refs/tags/gone", Some(ids[9]));
                point(writer, "refs/tags/gone", None);
                let mut tree = writer.checkout(ids[10]).unwrap();
                tree.set("new", "1").unwrap();
                let id = writer.commit_tree(&mut tree, &[ids[10]], &info(50)).unwrap();
                point(writer, "refs/heads/side", Some(id));
                made.replace(Some(id));
                commit(writer, "main", 30);
            };
            let limits = SweepLimits::default().partial(partial);
            if !sweep_with(&repo, &limits, turn, &between) {
                assert!(turn > 6, "{turn} calls");
                break;
            }
            let side = made.take().unwrap();
            for repo in [&repo, writer, &open(&disk, &options)] {
                assert_eq!(messages(repo, &[ids[27]]), descending(27, 0), "turn {turn}");
                for (number, id) in ids.iter().enumerate().take(28) {
                    let tree = repo.checkout(*id).unwrap();
                    assert!(tree.get(&*format!("d{}/n{number}", number % 7)).unwrap().is_some());
                }
                assert_eq!(messages(repo, &[side])[..2], ["50", "10"]);
            }
            drop((repo, other));
            check(&disk, &options);
        }
    }
}

#[test]
fn a_line_that_moved_during_a_collection_stays_as_far_as_its_rule_goes() {
    for turn in 0.. {
        let disk = SimStorage::new();
        let repo = create(&disk, &tiny());
        set(&repo, "last 3 *\nlast 6 refs/heads/long\n");
        let ids = commits(&repo, 0..30);
        let side = Cell::new(None);
        let between = || {
            point(&repo, "refs/heads/long", Some(ids[14]));
            let mut tree = repo.checkout(ids[20]).unwrap();
            tree.set("new", "1").unwrap();
            side.set(Some(repo.commit_tree(&mut tree, &[ids[20]], &info(50)).unwrap()));
            point(&repo, "refs/heads/side", side.get());
            commit(&repo, "main", 30);
        };
        if !sweep_with(&repo, &SweepLimits::default(), turn, &between) {
            break;
        }
        let long = messages(&repo, &[ids[14]]);
        assert_eq!(long[..6], descending(14, 9), "turn {turn}");
        assert_eq!(messages(&repo, &[side.get().unwrap()])[..3], ["50", "20", "19"], "turn {turn}");
        // Refs that move from one commit to the next keep no more than before.
        let there =
            (0..30).filter(|&number| repo.backend().read(&ids[number].into()).unwrap().is_some()).collect::<Vec<_>>();
        assert_eq!(there, [9, 10, 11, 12, 13, 14, 19, 20, 27, 28, 29], "turn {turn}");
        for gone in [8, 18, 26] {
            assert!(is_absent(&repo, ids[gone]), "turn {turn}, {gone}");
        }
        drop(repo);
        check(&disk, &tiny());
    }
}

/// A commit over the last one names an older one that is cut and that no other commit that stays names, after the state was made and
/// before a frame names it.
#[test]
fn a_parent_that_is_cut_and_was_named_last_of_all_is_absent_on_purpose() {
    for options in [tiny(), tiny_with_maps()] {
        let disk = SimStorage::new();
        let first = create(&disk, &options);
        set(&first, "last 1 refs/heads/*\n");
        let ids = commits(&first, 0..11);
        let (old, head) = (ids[5], ids[10]);
        let between = move || {
            let branch = first.branch("main").unwrap();
            let mut tree = branch.tree().unwrap();
            tree.set("new", "1").unwrap();
            branch.commit_over(Some(head), &mut tree, &[old], &info(50)).unwrap();
        };
        let states = {
            let disk = disk.clone();
            move || {
                disk.list("segments").unwrap().iter().filter_map(|name| name.strip_suffix(".state")?.parse().ok()).max()
            }
        };
        let before: Option<u64> = states();
        // The state has its name by then.
        let is_it =
            move |coming: Coming<'_>| coming.method == "sync_dir" && coming.name == "segments" && states() > before;
        let (repo, armed) = open_hooked(&disk, &options, is_it, between);
        armed.store(true, SeqCst);
        assert!(sweep(&repo).commits > 0 && !armed.load(SeqCst));
        let head = repo.branch("main").unwrap().head().unwrap().unwrap();
        assert!(head != ids[10] && is_absent(&repo, old));
        assert_eq!(messages(&repo, &[head]), ["50"]);
        drop(repo);
        check(&disk, &options);
    }
}

#[test]
fn a_row_whose_next_commit_a_collection_in_part_drops_leads_past_it() {
    for options in [tiny(), tiny_with_maps(), tiny_as_shipped()] {
        let disk = SimStorage::new();
        let (repo, copy) = (create(&SimStorage::new(), &options), create(&disk, &options));
        let ids = commits(&repo, 0..30);
        point(&repo, "refs/tags/v1", Some(ids[4]));
        set(&repo, "last 3 refs/heads/*\nlast 1 refs/tags/*\n");
        sweep(&repo);
        // After one collection of the whole there may be one in part.
        commit(&copy, "garbage", 100);
        point(&copy, "refs/heads/garbage", None);
        sweep(&copy);
        copy.copy_objects(&repo, &[ids[29]]).unwrap();
        point(&copy, "refs/heads/main", Some(ids[29]));
        assert_eq!(messages(&copy, &[ids[29]]), ["29", "28", "27", "4"]);
        // No ref leads to the commit behind the gap.
        assert!(copy.sweep(&[], &SweepLimits::default().partial(true)).unwrap().objects > 0);
        assert!(copy.backend().read(&ids[4].into()).unwrap().is_none());
        assert_eq!(messages(&copy, &[ids[29]]), ["29", "28", "27"]);
        let absent = copy.backend().absent().unwrap();
        let row = absent.get(&ids[26].oid()).unwrap();
        assert_eq!((row.missing, row.next), (27, None));
        drop(copy);
        check(&disk, &options);
    }
}
