//! One writer at a time, also where the lock's file is removed, the process is forked, or a leader panics.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
        mpsc,
    },
    time::Duration,
};

use bristlecone::{
    Backend, Batch, Durability, Error, Expected, Kind, Location, ObjRef, Oid, RefMove, RefTarget, Sink,
    disk::{DiskBackend, DiskOptions},
    storage::{OpenMode, RealStorage, Storage, write_all_at},
};
use bristlecone_testkit::sim::{Fault, Hooked, Policy, SimStorage, Times};

use crate::engine::{format_tag, tiny};

fn impatient() -> DiskOptions {
    tiny().lock_wait_ms(3)
}

/// As the product runs: a busy writer keeps the header locked between two appends.
fn busy() -> DiskOptions {
    tiny().background(true)
}

/// Commits one object and a ref of that name to it.
fn commit(backend: &dyn Backend, name: &str, bytes: usize) -> Result<(), Error> {
    let mut id = [0; 32];
    id[..name.len()].copy_from_slice(name.as_bytes());
    let mut batch = Batch::new();
    let at = batch.put(Kind::Contents, Oid::from_array(id), &vec![7; bytes], &[], &[]);
    let to = Some(RefTarget::Object(ObjRef::new(Oid::from_array(id), at)));
    let wanted = RefMove { name: name.to_owned(), expected: Expected::Any, to };
    backend.append(batch, &[wanted], Durability::Synced).map(drop)
}

/// Asserts that a store holds every commit that was acknowledged, whole, and is not damaged.
fn assert_holds(storage: Arc<dyn Storage>, acknowledged: &[String]) {
    let backend = DiskBackend::open(storage, None, tiny(), false).unwrap();
    for name in acknowledged {
        let Some(RefTarget::Object(at)) = backend.get_ref(name).unwrap() else { panic!("{name} was acknowledged") };
        assert!(backend.read(&ObjRef::new(at.oid, Location::NONE)).unwrap().is_some(), "the object of {name}");
    }
    let mut damages = Vec::new();
    backend.check(&mut |damage| damages.push(damage)).unwrap();
    assert!(damages.is_empty(), "{damages:?}");
}

/// Makes a writer append a few times, and before its call number `strike` runs `intrude`. Returns whether it came so far.
fn with_intruder(
    options: &DiskOptions,
    strike: u64,
    intrude: impl Fn(&SimStorage, &Mutex<Vec<String>>) + Send + Sync + 'static,
) -> bool {
    let disk = SimStorage::new();
    drop(DiskBackend::create(Arc::new(disk.clone()), format_tag(), tiny()).unwrap());
    let acknowledged: Arc<Mutex<Vec<String>>> = Arc::default();
    let (count, armed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let hooked = {
        let (disk, acknowledged, count, armed) = (disk.clone(), acknowledged.clone(), count.clone(), armed.clone());
        Hooked::new(Arc::new(disk.clone()), move |_| {
            if armed.load(SeqCst) && count.fetch_add(1, SeqCst) + 1 == strike {
                intrude(&disk, &acknowledged);
            }
        })
    };
    let writer = DiskBackend::open(Arc::new(hooked), None, options.clone(), false).unwrap();
    for name in ["first", "second", "third"] {
        commit(&writer, name, 10).unwrap();
    }
    armed.store(true, SeqCst);
    for (n, bytes) in [100, 1500, 900, 2000, 50].into_iter().enumerate() {
        if commit(&writer, &format!("writer{n}"), bytes).is_ok() {
            acknowledged.lock().unwrap().push(format!("writer{n}"));
        }
    }
    drop(writer);
    let acknowledged = acknowledged.lock().unwrap().clone();
    assert!(acknowledged.iter().filter(|name| name.starts_with("writer")).count() == 5, "the writer goes on");
    assert_holds(Arc::new(disk), &acknowledged);
    count.load(SeqCst) >= strike
}

#[test]
fn a_process_that_commits_once_syncs_once() {
    let disk = SimStorage::new();
    let made = DiskBackend::create(Arc::new(disk.clone()), format_tag(), tiny()).unwrap();
    commit(&made, "zeroth", 10).unwrap();
    drop(made);
    let syncs = Arc::new(AtomicU64::new(0));
    for name in ["first", "second", "third"] {
        let (counting, before) = (syncs.clone(), syncs.load(SeqCst));
        let hooked = Hooked::new(Arc::new(disk.clone()), move |coming| {
            if matches!(coming.method, "sync_data" | "sync_dir") {
                counting.fetch_add(1, SeqCst);
            }
        });
        let writer = DiskBackend::open(Arc::new(hooked), None, tiny(), false).unwrap();
        commit(&writer, name, 10).unwrap();
        drop(writer);
        assert_eq!(syncs.load(SeqCst) - before, 1, "{name}");
    }
    assert_holds(Arc::new(disk), &["zeroth", "first", "second", "third"].map(str::to_owned));
}

/// Opens the store as another process would, and commits if it gets in.
fn intrude(disk: &SimStorage, acknowledged: &Mutex<Vec<String>>, name: &str) {
    match DiskBackend::open(Arc::new(disk.clone()), None, impatient(), false) {
        Ok(other) => match commit(&other, name, 700) {
            Ok(()) => acknowledged.lock().unwrap().push(name.to_owned()),
            Err(Error::Locked { .. }) => {}
            Err(error) => panic!("{error}"),
        },
        Err(Error::Locked { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_lock_that_is_removed_between_any_two_calls_lets_nobody_in() {
    for options in [tiny(), busy()] {
        let mut strike = 1;
        while with_intruder(&options, strike, |disk, acknowledged| {
            disk.remove("lock").unwrap();
            intrude(disk, acknowledged, "other1");
            // And once more: the lock of the second one is gone as well.
            let _ = disk.remove("lock");
            intrude(disk, acknowledged, "other2");
        }) {
            strike += 1;
        }
        assert!(strike > 30, "{strike} calls");
    }
}

/// Commits without a sync, which takes microseconds.
fn commit_at_once(backend: &dyn Backend, name: &str) {
    let to = Some(RefTarget::Symbolic(name.to_owned()));
    let wanted = RefMove { name: "at".to_owned(), expected: Expected::Any, to };
    backend.append(Batch::new(), &[wanted], Durability::None).unwrap();
}

#[test]
fn a_busy_writer_keeps_the_header_locked_and_gives_it_back() {
    let disk = SimStorage::new();
    drop(DiskBackend::create(Arc::new(disk.clone()), format_tag(), tiny()).unwrap());
    let locked = Arc::new(AtomicU64::new(0));
    let count = locked.clone();
    let hooked = Hooked::new(Arc::new(disk.clone()), move |coming| {
        if coming.method == "try_lock" && coming.name == "store" {
            count.fetch_add(1, SeqCst);
        }
    });
    let writer = DiskBackend::open(Arc::new(hooked), None, busy(), false).unwrap();
    for n in 0..1000 {
        commit_at_once(&writer, &n.to_string());
    }
    assert!(locked.load(SeqCst) < 500, "{locked:?} times of 1,000");

    // Another one has to wait for the writer's thread at most, although the writer itself does nothing.
    for n in 0..3 {
        let options = tiny().lock_wait_ms(5_000);
        commit(&DiskBackend::open(Arc::new(disk.clone()), None, options, false).unwrap(), &format!("o{n}"), 9).unwrap();
        commit_at_once(&writer, "again");
        commit_at_once(&writer, "and again");
    }
    // A writer that is dropped leaves nothing locked.
    drop(writer);
    let header = disk.open("store", OpenMode::Read).unwrap();
    assert!(header.try_lock().unwrap());
}

#[test]
fn two_busy_writers_take_turns() {
    let dir = tempfile::tempdir().unwrap();
    let storage: Arc<dyn Storage> = Arc::new(RealStorage::new(dir.path()));
    drop(DiskBackend::create(storage.clone(), format_tag(), tiny()).unwrap());
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let storage = storage.clone();
            scope.spawn(move || {
                let backend = DiskBackend::open(storage, None, busy(), false).unwrap();
                for n in 0..2000 {
                    commit_at_once(&backend, &format!("w{writer}n{n}"));
                }
            });
        }
    });
    assert_holds(storage, &[]);
}

#[test]
fn a_writer_goes_on_while_the_lock_and_the_header_are_put_back_by_a_repair() {
    let mut strike = 1;
    while with_intruder(&tiny(), strike, |disk, acknowledged| {
        disk.remove("store").unwrap();
        assert!(matches!(DiskBackend::open(Arc::new(disk.clone()), None, impatient(), false), Err(Error::Lost { .. })));
        match DiskBackend::repair(Arc::new(disk.clone()), impatient(), false) {
            Ok(repaired) => {
                assert!(repaired.header_restored);
                intrude(disk, acknowledged, "other");
            }
            // Held by the writer: once it is out of the way the header comes back.
            Err(Error::Locked { .. }) => {
                let header = disk.contents("segments/store.copy").unwrap();
                let file = disk.open("store", OpenMode::CreateNew).unwrap();
                write_all_at(&*file, &header, 0).unwrap();
            }
            Err(error) => panic!("{error}"),
        }
    }) {
        strike += 1;
    }
    assert!(strike > 30, "{strike} calls");
}

#[test]
fn those_who_wait_for_a_leader_that_panics_are_answered() {
    let disk = SimStorage::new();
    drop(DiskBackend::create(Arc::new(disk.clone()), format_tag(), tiny()).unwrap());
    let mut answered = 0;
    for strike in 1..40_u64 {
        let (count, armed) = (AtomicU64::new(0), Arc::new(AtomicBool::new(false)));
        let arm = armed.clone();
        let hooked = Hooked::new(Arc::new(disk.fork()), move |coming| {
            if arm.load(SeqCst) && matches!(coming.method, "write_at" | "sync_data" | "try_lock") {
                // The others come while this one leads.
                std::thread::sleep(Duration::from_millis(2));
                if count.fetch_add(1, SeqCst) + 1 == strike {
                    panic!("a storage that panics");
                }
            }
        });
        let backend = Arc::new(DiskBackend::open(Arc::new(hooked), None, tiny(), false).unwrap());
        armed.store(true, SeqCst);
        let (done, all) = mpsc::channel();
        for thread in 0..4 {
            let (backend, done) = (backend.clone(), done.clone());
            std::thread::spawn(move || {
                let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    (0..3)
                        .map(|n| commit(&*backend, &format!("t{thread}n{n}"), 60).is_err())
                        .filter(|&failed| failed)
                        .count()
                }));
                drop(backend);
                let _ = done.send(outcome.unwrap_or(0));
            });
        }
        for _ in 0..4 {
            answered += all.recv_timeout(Duration::from_secs(20)).expect("every thread goes on");
        }
        armed.store(false, SeqCst);
        commit(&*backend, "afterwards", 10).unwrap();
        assert!(backend.get_ref("afterwards").unwrap().is_some());
    }
    assert!(answered > 10, "{answered} were told of a panic");
}

/// A system tells of a write that failed once: the thread that syncs in the background is told, and one that seals the
/// segment meanwhile must not take what it hears for the truth.
#[test]
fn a_sync_that_failed_in_one_thread_is_no_success_in_another() {
    let disk = SimStorage::new();
    drop(DiskBackend::create(Arc::new(disk.clone()), format_tag(), tiny()).unwrap());
    let (stage, seen) = (Arc::new(AtomicU64::new(0)), disk.clone());
    let hooked = {
        let stage = stage.clone();
        Hooked::new(Arc::new(disk.clone()), move |coming| {
            if std::thread::current().name() != Some("cone-flush") || !coming.name.ends_with(".seg") {
                return;
            }
            if coming.method == "sync_data" && stage.compare_exchange(1, 2, SeqCst, SeqCst).is_ok() {
                seen.fail_at(seen.calls() + 1, Fault::Io, Times::Once);
            } else if coming.method == "write_at" && stage.compare_exchange(2, 3, SeqCst, SeqCst).is_ok() {
                // The sync has failed, and no other thread knows it yet.
                std::thread::sleep(Duration::from_millis(300));
            }
        })
    };
    let writer = DiskBackend::open(Arc::new(hooked), None, busy(), false).unwrap();
    commit(&writer, "first", 10).unwrap();
    let mut acknowledged = vec!["first".to_owned()];
    stage.store(1, SeqCst);
    let mut batch = Batch::new();
    batch.put(Kind::Contents, Oid::from_array([5; 32]), &[5; 900], &[], &[]);
    writer.append(batch, &[], Durability::Grouped).unwrap();
    let waited = (0..5000).any(|_| {
        std::thread::sleep(Duration::from_millis(1));
        stage.load(SeqCst) == 3
    });
    assert!(waited, "the thread syncs");
    // It does not fit into the segment, which is sealed.
    if commit(&writer, "next", 3500).is_ok() {
        acknowledged.push("next".to_owned());
    }
    drop(writer);
    assert_holds(Arc::new(disk.reboot(1, Policy::Lost)), &acknowledged);
}

/// What a child that was forked may not do, and what the parent still can.
#[test]
fn a_forked_process_is_refused_and_takes_nothing_away() {
    let dir = tempfile::tempdir().unwrap();
    let storage: Arc<dyn Storage> = Arc::new(RealStorage::new(dir.path()));
    let options = DiskOptions::default().background(true);
    let backend = DiskBackend::create(storage.clone(), format_tag(), options).unwrap();
    commit(&backend, "before", 100).unwrap();
    // SAFETY: the child calls nothing but the store, which takes no lock of the other threads here before it
    // refuses, and ends without running destructors or handlers of the parent's.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let refused = |outcome: Result<(), Error>| matches!(outcome, Err(Error::Usage { .. }));
        let appends = refused(commit(&backend, "child", 100));
        let reads = refused(backend.get_ref("before").map(drop));
        let flushes = refused(backend.flush());
        let closes = backend.close().is_ok();
        drop(backend);
        let code = i32::from(!appends) | i32::from(!reads) << 1 | i32::from(!flushes) << 2 | i32::from(!closes) << 3;
        // SAFETY: ends this process.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    let ended = (0..2000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        // SAFETY: the child is ours, and the status is written to where it may be.
        unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) == child }
    });
    assert!(ended, "the child hangs");
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "the child ended with {status:#x}");
    commit(&backend, "after", 100).unwrap();
    backend.close().unwrap();
    drop(backend);
    assert_holds(storage, &["before".to_owned(), "after".to_owned()]);
}
