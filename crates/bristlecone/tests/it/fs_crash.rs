//! The backend `fs` under power cuts, failing calls, a full disk and stopped processes: the suites that the disk engine passes.
//!
//! A change cuts after every call, by turns with some of the policies; with `BRISTLECONE_THOROUGH` (`.ci/lane crash`) with all.
//! `BRISTLECONE_CRASH_WORKLOAD` runs the workloads alone whose names hold its value.

use std::sync::Arc;

use bristlecone::{Backend, Durability, Error, storage::Storage};
use bristlecone_testkit::{
    crash::{CrashRun, Engine, Options, Report, Workload, deaths, explore, explore_deaths, step, workloads},
    sim::{Fault, Lie, Lying, Times},
};

use crate::{
    faults::{fail_one, new_disk, set, small_store},
    fs::FsEngine,
};

/// Returns the workloads, but for those of hundreds of refs: every object is a file, so that they take minutes here.
fn chosen() -> Vec<Workload> {
    let part = std::env::var("BRISTLECONE_CRASH_WORKLOAD").ok();
    let is_chosen = |name: &str| match &part {
        Some(part) => name.contains(&**part),
        None => step(0, 1) == 1 || !name.starts_with("hundreds"),
    };
    workloads().into_iter().filter(|workload| is_chosen(workload.name)).collect()
}

fn run(engine: &dyn Engine, workloads: &[Workload], options: Options) -> Report {
    let report = explore(engine, workloads, options);
    println!("{report}");
    report
}

#[test]
fn a_crash_at_any_call_loses_nothing_synced() {
    let report = run(
        &FsEngine,
        &chosen(),
        Options { seeds: 1, draw_step: step(8, 1), call_step: step(3, 1), nested_seeds: 0, ..Options::default() },
    );
    report.assert_sound();
}

#[test]
fn a_crash_within_a_recovery_loses_nothing_synced() {
    // With every durability, with several refs, with two processes, and with objects that nothing leads to.
    let few = ["mixed durabilities", "removals of refs", "two handles taking turns", "values appended early"];
    let chosen: Vec<Workload> = match std::env::var_os("BRISTLECONE_CRASH_WORKLOAD") {
        None if step(0, 1) == 0 => chosen().into_iter().filter(|workload| few.contains(&workload.name)).collect(),
        _ => chosen(),
    };
    assert!(!chosen.is_empty());
    let options =
        Options { seeds: 1, seed_first: 7, draw_step: step(4, 1), nested_step: step(32, 3), ..Options::default() };
    run(&FsEngine, &chosen, options).assert_sound();
}

#[test]
fn one_process_is_stopped_another_goes_on_and_then_the_power_goes() {
    let options = Options { seeds: 1, nested_seeds: 0, ..Options::default() };
    let report = explore_deaths(&FsEngine, &deaths(), step(300, 6), options);
    println!("{report}");
    report.assert_sound();
    assert!(report.deaths >= 150, "{report}");
}

/// The backend over a storage that lies.
struct LyingFs(Lie, u64);

impl Engine for LyingFs {
    fn create(&self, storage: Arc<dyn Storage>) -> Result<Arc<dyn Backend>, Error> {
        FsEngine.create(Arc::new(Lying::after(storage, self.0, self.1)))
    }

    fn open(&self, storage: Arc<dyn Storage>) -> Result<Arc<dyn Backend>, Error> {
        FsEngine.open(Arc::new(Lying::after(storage, self.0, self.1)))
    }
}

#[test]
fn the_suite_catches_a_backend_that_does_not_sync() {
    let few: Vec<Workload> = workloads().into_iter().filter(|one| one.name == "synced commits").collect();
    for (lie, honest) in [(Lie::Syncs, 0), (Lie::Syncs, 6), (Lie::DirSyncs, 0), (Lie::DirSyncs, 4)] {
        let report = run(&LyingFs(lie, honest), &few, Options { seeds: 1, nested_seeds: 0, ..Options::default() });
        assert!(!report.failures.is_empty(), "{lie:?} after {honest} honest ones go unnoticed: {report}");
    }
}

/// Lets every `step`-th call of some workloads fail in every one of these ways.
fn fail_calls(faults: &[(Fault, Times)], reads: bool) {
    let few = ["mixed durabilities", "several refs in one step", "two handles taking turns", "values appended early"];
    for (index, workload) in workloads().iter().filter(|workload| few.contains(&workload.name)).enumerate() {
        let (disk, step) = (new_disk(reads), step(11, 1));
        CrashRun::of(&FsEngine, disk.clone(), workload).unwrap();
        for number in (1 + index as u64 % step..=disk.calls()).step_by(step as usize) {
            faults.iter().for_each(|&fault| fail_one(&FsEngine, workload, number, fault, reads));
        }
    }
}

#[test]
fn any_call_may_fail() {
    fail_calls(&[(Fault::Io, Times::Once), (Fault::Io, Times::Forever), (Fault::NoSpace, Times::Once)], false);
}

#[test]
fn any_call_may_be_interrupted_or_short() {
    fail_calls(
        &[(Fault::Interrupted, Times::Forever), (Fault::Short, Times::Once), (Fault::Short, Times::Forever)],
        false,
    );
}

#[test]
fn any_read_may_fail_or_be_short() {
    fail_calls(&[(Fault::Io, Times::Once), (Fault::Interrupted, Times::Once), (Fault::Short, Times::Forever)], true);
}

#[test]
fn a_full_disk_is_an_error_and_room_ends_it() {
    for room in (0..12_000).step_by(197) {
        let (disk, run) = small_store(&FsEngine);
        let backend = FsEngine.open(Arc::new(disk.clone())).unwrap();
        disk.limit_space(Some(disk.bytes() + room));
        let durability = [Durability::Synced, Durability::None][room as usize % 2];
        let mut last = 0;
        let failed = (0..2000).find_map(|n| match set(&*backend, &format!("ref{n}"), durability) {
            Ok(()) => {
                last = n + 1;
                None
            }
            Err(error) => Some(error),
        });
        let failed = failed.expect("space runs out");
        assert!(matches!(failed, Error::NoSpace { .. }), "room {room}: {failed:?}");
        assert_eq!(backend.list_refs("ref").unwrap().len(), last, "room {room}");
        disk.limit_space(None);
        set(&*backend, "more", durability).unwrap();
        drop(backend);
        let backend = FsEngine.open(Arc::new(disk)).unwrap();
        assert_eq!(backend.list_refs("ref").unwrap().len(), last, "room {room}");
        assert!(backend.get_ref("main").unwrap().is_some() && backend.get_ref("more").unwrap().is_some());
        run.samples.expect_sound(&*backend).unwrap();
    }
}
