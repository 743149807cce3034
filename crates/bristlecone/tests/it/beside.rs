//! A thread that reads does not wait for one that appends: neither for its writes nor for its syncs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use bristlecone::{
    Backend, Durability,
    disk::DiskBackend,
    storage::{OpenMode, Storage, write_all_at},
};
use bristlecone_testkit::sim::{Coming, Hooked, SimStorage};

use crate::{
    engine::{format_tag, open_tiny, tiny},
    faults::set,
};

/// The thread whose calls are stopped.
const LEADER: &str = "leader";

/// How long the leader is stopped at most, and how long the test waits, in milliseconds: a thread that hangs must not hang the test.
const STOPPED: u64 = 60_000;
const PATIENCE: u64 = 10_000;

/// Waits until it is so.
fn comes(patience: u64, is_so: impl Fn() -> bool) -> bool {
    (0..patience).any(|_| {
        thread::sleep(Duration::from_millis(1));
        is_so()
    })
}

/// Where the leader is, and how far it may go.
#[derive(Clone, Default)]
struct Stages {
    at: Arc<AtomicU64>,
    upto: Arc<AtomicU64>,
}

impl Stages {
    /// Comes to a stage from the one before, and waits there until it may go on.
    fn stop_at(&self, stage: u64) {
        if self.at.compare_exchange(stage - 1, stage, SeqCst, SeqCst).is_ok() {
            comes(STOPPED, || self.upto.load(SeqCst) >= stage);
        }
    }

    fn is_at(&self, stage: u64) -> bool {
        self.at.load(SeqCst) == stage
    }

    /// Lets the leader go on from a stage.
    fn pass(&self, stage: u64) {
        self.upto.store(stage, SeqCst);
    }
}

fn is_segment(coming: Coming<'_>, method: &str) -> bool {
    coming.method == method && coming.name.ends_with(".seg")
}

/// Opens the store; `hook` is called before each call of the leader.
fn open(disk: &SimStorage, hook: impl Fn(Coming<'_>) + Send + Sync + 'static) -> DiskBackend {
    let hooked = Hooked::new(Arc::new(disk.clone()), move |coming| {
        if thread::current().name() == Some(LEADER) {
            hook(coming);
        }
    });
    DiskBackend::open(Arc::new(hooked), None, tiny(), false).unwrap()
}

/// Makes a commit on a thread that is the leader.
fn lead<'s>(scope: &'s thread::Scope<'s, '_>, backend: &'s DiskBackend) -> thread::ScopedJoinHandle<'s, ()> {
    let commit = move || set(backend, "leader", Durability::Synced).unwrap();
    thread::Builder::new().name(LEADER.to_owned()).spawn_scoped(scope, commit).unwrap()
}

/// The leader learns what another process has committed when the reader comes, which sees the same.
#[test]
fn a_reader_that_comes_while_a_leader_catches_up_does_not_wait_for_its_write() {
    let disk = SimStorage::new();
    drop(DiskBackend::create(Arc::new(disk.clone()), format_tag(), tiny()).unwrap());
    let (other, stages) = (open_tiny(&disk, false).unwrap(), Stages::default());
    let (hooked, committed) = (stages.clone(), AtomicU64::new(0));
    let backend = open(&disk, move |coming| {
        if (coming.method, coming.name) == ("try_lock", "lock") && committed.fetch_add(1, SeqCst) == 0 {
            set(&other, "other", Durability::None).unwrap();
        } else if committed.load(SeqCst) > 0 && is_segment(coming, "read_at") {
            hooked.stop_at(1);
        } else if is_segment(coming, "write_at") {
            hooked.stop_at(2);
        }
    });
    thread::scope(|scope| {
        let leader = lead(scope, &backend);
        assert!(comes(PATIENCE, || stages.is_at(1)), "the leader reads what was committed");
        let reader = scope.spawn(|| backend.get_ref("other").unwrap().is_some());
        // It meets a leader that does not write yet.
        thread::sleep(Duration::from_millis(100));
        stages.pass(1);
        assert!(comes(PATIENCE, || stages.is_at(2)), "the leader writes");
        assert!(comes(PATIENCE, || reader.is_finished()), "the reader waits for the leader's write");
        stages.pass(2);
        assert!(reader.join().unwrap(), "what another process had committed is seen");
        leader.join().unwrap();
    });
    assert!(backend.get_ref("leader").unwrap().is_some());
}

/// A process that was killed in the middle of a write left something behind the end, which the leader zeroes and syncs.
#[test]
fn a_reader_does_not_wait_while_a_leader_cuts_what_a_dead_process_left() {
    let disk = SimStorage::new();
    let other = DiskBackend::create(Arc::new(disk.clone()), format_tag(), tiny()).unwrap();
    set(&other, "other", Durability::Synced).unwrap();
    let stages = Stages::default();
    let hooked = stages.clone();
    let backend = open(&disk, move |coming| {
        if is_segment(coming, "write_at") {
            hooked.stop_at(1);
        }
    });
    let name = "segments/00000001.seg";
    let last = disk.contents(name).unwrap().iter().rposition(|&byte| byte != 0).unwrap() as u64;
    let file = disk.open(name, OpenMode::Write).unwrap();
    write_all_at(&*file, &[7; 200], (last + 1).next_multiple_of(8)).unwrap();
    thread::scope(|scope| {
        let leader = lead(scope, &backend);
        assert!(comes(PATIENCE, || stages.is_at(1)), "the leader zeroes what is there");
        let reader = scope.spawn(|| backend.get_ref("other").unwrap().is_some());
        assert!(comes(PATIENCE, || reader.is_finished()), "the reader waits for the leader's zeroes");
        stages.pass(1);
        assert!(reader.join().unwrap());
        leader.join().unwrap();
    });
    assert!(backend.get_ref("leader").unwrap().is_some());
}
