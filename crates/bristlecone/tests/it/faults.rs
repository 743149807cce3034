//! The n-th call fails, for every n: the error is typed, nothing acknowledged as synced is lost, and after a failed
//! sync the store refuses to write until it is opened again.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    panic::AssertUnwindSafe,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
};

use bristlecone::{
    Backend, Batch, Durability, Error, Expected, Kind, Oid, RefMove, RefTarget, Retention, Sink,
    disk::{DiskBackend, DiskOptions},
    storage::{RealStorage, Storage},
};
use bristlecone_testkit::{
    crash::{CrashRun, CrashStep, Engine, Workload, step, workloads},
    sim::{CallKind, Fault, Hooked, Policy, SimStorage, Times},
};

use crate::engine::{DiskEngine, check, format_tag, tiny, tiny_as_shipped, tiny_with_maps};

/// What a program may be told when a call of the system fails.
pub(crate) fn is_typed(error: &Error) -> bool {
    matches!(error, Error::Io { .. } | Error::NoSpace { .. } | Error::Poisoned { .. })
}

/// Checks that the store is in a state that the run may have left, reads whole, and takes commits.
fn expect_state(engine: &dyn Engine, run: &CrashRun, disk: &SimStorage, what: &str) {
    // Everything acknowledged as durable is there; the step that failed may be.
    let first = run.events.iter().rposition(|event| event.durable && event.acknowledged != u64::MAX);
    let backend = match engine.open(Arc::new(disk.clone())) {
        Ok(backend) => backend,
        Err(Error::NoStore { .. }) if first.is_none() => engine
            .create(Arc::new(disk.clone()))
            .unwrap_or_else(|error| panic!("{what}: no store can be made after a failed creation: {error}")),
        Err(error) => panic!("{what}: the store does not open: {error}"),
    };
    let state = backend.list_refs("").unwrap_or_else(|error| panic!("{what}: {error}"));
    let allowed = &run.events[first.unwrap_or(0)..];
    assert!(allowed.iter().any(|event| event.state == state), "{what}: the refs are of no state there was: {state:?}");
    let heads: Vec<_> = state
        .values()
        .filter_map(|target| match target {
            RefTarget::Object(at) => Some(*at),
            RefTarget::Symbolic(_) => None,
        })
        .collect();
    run.samples.expect_reachable(&*backend, &heads).unwrap_or_else(|wrong| panic!("{what}: {wrong}"));
    run.samples.expect_sound(&*backend).unwrap_or_else(|wrong| panic!("{what}: {wrong}"));
    let wanted = RefMove {
        name: "after".to_owned(),
        expected: Expected::Absent,
        to: Some(RefTarget::Symbolic("main".to_owned())),
    };
    let moved = backend.append(Batch::new(), &[wanted], Durability::Synced);
    assert!(moved.is_ok(), "{what}: the reopened store takes no commit: {moved:?}");
    // That commit is durable, and so is what it builds upon, whichever writer wrote that and whatever became of its syncs.
    let after = disk.reboot(disk.calls(), Policy::Lost);
    let backend = engine.open(Arc::new(after)).unwrap_or_else(|error| panic!("{what}, then a power cut: {error}"));
    let mut built_upon = backend.list_refs("").unwrap_or_else(|error| panic!("{what}, then a power cut: {error}"));
    assert!(built_upon.remove("after").is_some(), "{what}: a synced commit of the reopened store is lost");
    assert!(built_upon == state, "{what}: a synced commit outlives what it was built upon: {built_upon:?}");
    run.samples.expect_reachable(&*backend, &heads).unwrap_or_else(|wrong| panic!("{what}, then a cut: {wrong}"));
}

/// Lets call `number` fail in a run, and checks what the run was told and what it left.
pub(crate) fn fail_one(
    engine: &dyn Engine,
    workload: &Workload,
    number: u64,
    (fault, times): (Fault, Times),
    reads: bool,
) {
    let what = format!("workload \"{}\", call {number} (reads counted: {reads}): {fault:?} {times:?}", workload.name);
    let disk = new_disk(reads);
    disk.keep_trace();
    disk.fail_at(number, fault, times);
    let ran = std::panic::catch_unwind(AssertUnwindSafe(|| CrashRun::until_error(engine, disk.clone(), workload)));
    let Ok((run, failed)) = ran else { panic!("{what}: panic") };
    if let Some((step, error)) = &failed {
        assert!(is_typed(error), "{what}: step {step} fails with {error:?}");
        assert!(!error.to_string().is_empty());
    }
    if fault == Fault::Short || fault == Fault::Interrupted {
        // With threads the next calls, which are interrupted too, may be others than the same one again.
        let mut struck = (number..number + if times == Times::Forever { 3 } else { 1 }).map_while(|n| disk.call(n));
        let again = struck.all(|call| matches!(call.kind, CallKind::Write | CallKind::Read));
        let retried = fault == Fault::Short || again;
        assert!(failed.is_none() || !retried, "{what}: a short or interrupted write is no failure: {failed:?}");
    }
    disk.heal();
    let seed = number;
    expect_state(engine, &run, &disk.fork(), &format!("{what}, opened again"));
    let dropped = disk.fork();
    dropped.forget_cache();
    expect_state(engine, &run, &dropped, &format!("{what}, opened again with a cold cache"));
    // A change tries a third of the policies after each call, others after its neighbours.
    for (_, policy) in (number..).zip(Policy::ALL).filter(|(turn, _)| turn.is_multiple_of(step(3, 1))) {
        expect_state(
            engine,
            &run,
            &disk.reboot(seed, policy),
            &format!("{what}, after a power cut ({policy:?}, seed {seed})"),
        );
    }
}

pub(crate) fn new_disk(reads: bool) -> SimStorage {
    let disk = SimStorage::new();
    if reads {
        disk.number_reads();
    }
    disk
}

/// Lets calls of the workloads fail in every one of these ways: of an engine without maps and threads, and a
/// smaller share of those that engines with maps, and with threads too, make; the more ways, the fewer calls. With
/// `BRISTLECONE_THOROUGH` every call of the first fails.
fn fail_calls(faults: &[(Fault, Times)], reads: bool) {
    let of = |short, long| step(short * faults.len().max(2) as u64 / 2, long);
    // In a short run those with maps take every third workload.
    let few = step(3, 1);
    let engines = [(tiny(), 1, of(48, 1)), (tiny_with_maps(), few, of(80, 3)), (tiny_as_shipped(), few, of(100, 4))];
    for (options, every, step) in engines {
        let every = if reads { 5 } else { every };
        fail_every((every, step), &DiskEngine::new(options), faults, reads);
    }
}

/// Lets every `step`-th call of every so many-th workload fail in every one of these ways, another share of each workload. With
/// `reads` they count too.
fn fail_every((every, step): (u64, u64), engine: &DiskEngine, faults: &[(Fault, Times)], reads: bool) {
    let workloads: Vec<Workload> = workloads().into_iter().step_by(every as usize).collect();
    let next = AtomicUsize::new(0);
    let struck = Mutex::new(BTreeMap::<CallKind, usize>::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Relaxed);
                    let Some(workload) = workloads.get(index) else { break };
                    let disk = new_disk(reads);
                    disk.keep_trace();
                    CrashRun::of(engine, disk.clone(), workload).unwrap();
                    let mut numbers: BTreeSet<u64> =
                        (1 + index as u64 % step..=disk.calls()).step_by(step as usize).collect();
                    // No kind of call is left out, however few there are.
                    let mut kinds = BTreeSet::new();
                    let kind_of = |number| disk.call(number).expect("calls are traced").kind;
                    numbers.extend((1..=disk.calls()).filter(|&number| kinds.insert(kind_of(number))));
                    for number in numbers {
                        let kind = kind_of(number);
                        *struck.lock().unwrap().entry(kind).or_default() += faults.len();
                        for &fault in faults {
                            fail_one(engine, workload, number, fault, reads);
                        }
                    }
                }
            });
        }
    });
    let struck = struck.into_inner().unwrap();
    let DiskOptions { maps, background, .. } = engine.options;
    println!("{faults:?}, maps {maps}, threads {background}: {struck:?}");
    assert_eq!(reads && maps, struck.contains_key(&CallKind::Map));
    assert!(struck.len() >= 7, "not every kind of call has failed: {struck:?}");
}

#[test]
fn any_call_may_fail_with_an_input_output_error() {
    fail_calls(&[(Fault::Io, Times::Once), (Fault::Io, Times::Forever)], false);
}

#[test]
fn space_may_run_out_at_any_call() {
    fail_calls(&[(Fault::NoSpace, Times::Once), (Fault::NoSpace, Times::Forever)], false);
}

#[test]
fn any_call_may_be_interrupted_or_short() {
    fail_calls(
        &[
            (Fault::Interrupted, Times::Once),
            (Fault::Interrupted, Times::Forever),
            (Fault::Short, Times::Once),
            (Fault::Short, Times::Forever),
        ],
        false,
    );
}

#[test]
fn any_read_may_fail_or_be_short() {
    let once = [Fault::Io, Fault::Interrupted, Fault::Short].map(|fault| (fault, Times::Once));
    fail_calls(&[once[0], once[1], once[2], (Fault::Io, Times::Forever), (Fault::Short, Times::Forever)], true);
}

/// Makes a store with one synced commit.
pub(crate) fn small_store(engine: &dyn Engine) -> (SimStorage, CrashRun) {
    let disk = SimStorage::new();
    let commit = CrashStep::Commit {
        handle: 0,
        refs: vec!["main".to_owned()],
        sizes: vec![100, 200],
        durability: Durability::Synced,
    };
    let workload = Workload { name: "small", steps: vec![commit] };
    let run = CrashRun::of(engine, disk.clone(), &workload).unwrap();
    (disk, run)
}

pub(crate) fn set(backend: &dyn Backend, name: &str, durability: Durability) -> Result<(), Error> {
    let to = Some(RefTarget::Symbolic("main".to_owned()));
    let wanted = RefMove { name: name.to_owned(), expected: Expected::Any, to };
    backend.append(Batch::new(), &[wanted], durability).map(drop)
}

#[test]
fn after_a_failed_sync_the_store_refuses_writes_until_reopened() {
    let engine = DiskEngine::new(tiny());
    let (disk, _) = small_store(&engine);
    let backend = engine.open(Arc::new(disk.clone())).unwrap();
    disk.keep_trace();
    set(&*backend, "one", Durability::None).unwrap();
    let synced = (1..20).find_map(|ahead| {
        // Finds the call that is the sync of a synced append, on a copy of the disk.
        let copy = disk.fork();
        copy.keep_trace();
        let other = engine.open(Arc::new(copy.clone())).unwrap();
        let before = copy.calls();
        set(&*other, "two", Durability::Synced).unwrap();
        let call = copy.call(before + ahead)?;
        (call.kind == CallKind::Sync).then_some(ahead)
    });
    disk.fail_at(disk.calls() + synced.expect("a synced append syncs"), Fault::Io, Times::Once);
    let failed = set(&*backend, "two", Durability::Synced).unwrap_err();
    assert!(is_typed(&failed), "{failed:?}");
    for durability in [Durability::None, Durability::Grouped, Durability::Synced] {
        let refused = set(&*backend, "three", durability).unwrap_err();
        assert!(matches!(refused, Error::Poisoned { .. }), "{refused:?}");
    }
    assert!(matches!(backend.flush(), Err(Error::Poisoned { .. })));
    // What was there can still be read.
    assert!(backend.get_ref("main").unwrap().is_some());
    drop(backend);
    disk.heal();
    let backend = engine.open(Arc::new(disk)).unwrap();
    assert!(backend.get_ref("main").unwrap().is_some() && backend.get_ref("three").unwrap().is_none());
    set(&*backend, "three", Durability::Synced).unwrap();
}

#[test]
fn a_full_disk_is_an_error_and_room_ends_it() {
    let engine = DiskEngine::new(tiny());
    for room in (0..20_000).step_by(97) {
        let (disk, run) = small_store(&engine);
        let backend = engine.open(Arc::new(disk.clone())).unwrap();
        disk.limit_space(Some(disk.bytes() + room));
        let mut last = 0;
        let failed = (0..2000).find_map(|n| match set(&*backend, &format!("ref{n}"), Durability::Synced) {
            Ok(()) => {
                last = n + 1;
                None
            }
            Err(error) => Some(error),
        });
        let failed = failed.expect("space runs out");
        assert!(matches!(failed, Error::NoSpace { .. } | Error::Poisoned { .. }), "room {room}: {failed:?}");
        assert!(backend.get_ref("main").unwrap().is_some());
        drop(backend);
        disk.limit_space(None);
        let backend = engine.open(Arc::new(disk)).unwrap();
        let refs = backend.list_refs("ref").unwrap();
        assert!((last..=last + 1).contains(&refs.len()), "room {room}: {} refs of {last}", refs.len());
        set(&*backend, "more", Durability::Synced).unwrap();
        run.samples.expect_sound(&*backend).unwrap();
    }
}

/// Gives the folder of segments its name back, if it has another.
fn put_back(store: &Path) {
    let away = store.join("away");
    if away.exists() {
        fs::rename(away, store.join("segments")).unwrap();
    }
}

/// A process that has no handle left cannot open the folder that it is to sync. No sync has failed then: the call does, and the
/// store goes on.
#[test]
fn a_folder_that_cannot_be_opened_fails_one_call_alone() {
    let mut failed = 0;
    for strike in 1.. {
        let dir = tempfile::tempdir().unwrap();
        let storage: Arc<dyn Storage> = Arc::new(RealStorage::new(dir.path()));
        drop(DiskBackend::create(storage.clone(), format_tag(), tiny()).unwrap());
        let (syncs, path) = (Arc::new(AtomicUsize::new(0)), dir.path().to_owned());
        // An opening that cannot sync the folder is refused.
        let opened = Arc::new(AtomicBool::new(false));
        let (count, is_open) = (syncs.clone(), opened.clone());
        let hooked = Hooked::new(storage.clone(), move |coming| {
            put_back(&path);
            let is_it = (coming.method, coming.name) == ("sync_dir", "segments");
            if is_it && is_open.load(Relaxed) && count.fetch_add(1, Relaxed) + 1 == strike {
                fs::rename(path.join("segments"), path.join("away")).unwrap();
            }
        });
        let backend = DiskBackend::open(Arc::new(hooked), None, tiny(), false).unwrap();
        opened.store(true, Relaxed);
        let mut kept = Vec::new();
        for number in 0..120 {
            let name = format!("branch/with/a/long/name/{number:03}");
            match set(&backend, &name, if number % 5 == 0 { Durability::Synced } else { Durability::None }) {
                Ok(()) => kept.push(name),
                Err(error) => {
                    assert!(matches!(error, Error::Io { .. }), "sync {strike}: {error:?}");
                    failed += 1;
                }
            }
        }
        drop(backend);
        put_back(dir.path());
        let backend = DiskBackend::open(storage, None, tiny(), false).unwrap();
        let refs = backend.list_refs("").unwrap();
        assert!(kept.iter().all(|name| refs.contains_key(name)), "sync {strike}: {} refs", refs.len());
        assert_eq!(check(&backend), []);
        if syncs.load(Relaxed) < strike {
            assert_eq!(kept.len(), 120);
            break;
        }
    }
    assert!(failed > 5, "{failed}");
}

/// A sync of the folder that failed may have lost the names of segments that waited for one, and the next sync says nothing of it:
/// no commit may rely on them, whether the sync was for a table of refs or for the store's state.
#[test]
fn after_a_failed_sync_of_names_no_commit_relies_on_them() {
    for by_rules in [false, true] {
        let (disk, armed) = (SimStorage::new(), Arc::new(AtomicBool::new(false)));
        let (failing, is_armed) = (disk.clone(), armed.clone());
        let hooked = Hooked::new(Arc::new(disk.clone()), move |coming| {
            if coming.method == "sync_dir" && is_armed.swap(false, Relaxed) {
                failing.fail_at(failing.calls() + 1, Fault::Forgotten, Times::Once);
            }
        });
        let backend = DiskBackend::create(Arc::new(hooked), format_tag(), tiny()).unwrap();
        let append = |name: &str, refs: usize, bytes: usize, durability| {
            let mut batch = Batch::new();
            batch.put(Kind::Contents, Oid::from_array([7; 32]), &vec![7; bytes], &[], &[]);
            let to = || Some(RefTarget::Symbolic("main".to_owned()));
            let one = |n: usize| RefMove { name: format!("{name}/{n:03}"), expected: Expected::Any, to: to() };
            backend.append(batch, &(0..refs).map(one).collect::<Vec<_>>(), durability).map(drop)
        };
        // Three segments, the last two without durable names; the head of a fourth would name a table of refs.
        append("one", 1, 3000, Durability::None).unwrap();
        append("two", 1, 3000, Durability::None).unwrap();
        append("many/refs/with/long/names", 30, 10, Durability::None).unwrap();
        armed.store(true, Relaxed);
        let rules: Retention = "last 3 *\n".parse().unwrap();
        let failed = match by_rules {
            true => backend.replace_retention(None, &rules).map(drop),
            false => append("three", 1, 3000, Durability::None),
        };
        assert!(failed.is_err() && !armed.load(Relaxed), "{failed:?}");
        let after = append("after", 1, 10, Durability::Synced);
        let left = DiskBackend::open(Arc::new(disk.reboot(1, Policy::Lost)), None, tiny(), false).unwrap();
        assert!(after.is_err() || left.get_ref("after/000").unwrap().is_some(), "a synced commit is lost");
        assert!(matches!(after, Err(Error::Poisoned { .. })), "{after:?}");
    }
}
