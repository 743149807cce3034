//! Power is cut after every call of every workload, and again within every recovery: nothing synced is lost.
//!
//! Each call is always cut, by turns with a third of the policies. `BRISTLECONE_CRASH_WORKLOAD` runs the workloads alone whose
//! names hold its value. With `BRISTLECONE_THOROUGH` in the environment (`.ci/lane git-crash`) every policy has its turn at each
//! call, more workloads are run, and more calls within recoveries are cut.

use std::{sync::Arc, time::Duration};

use bristlecone::{
    Backend, Durability, Oid, RefTarget, Repo,
    core::git::{Algorithm, Git},
};
use bristlecone_testkit::{
    crash::{Engine, Options, Report, Workload, explore, step, workloads},
    sim::{Policy, SimStorage},
};

use crate::{backend::info, sims::SimGit};

fn chosen(step: u64) -> Vec<Workload> {
    match std::env::var("BRISTLECONE_CRASH_WORKLOAD") {
        Ok(part) => workloads().into_iter().filter(|workload| workload.name.contains(&part)).collect(),
        Err(_) => workloads().into_iter().step_by(step as usize).collect(),
    }
}

fn run(engine: &SimGit, workloads: &[Workload], options: Options) -> Report {
    let report = explore(engine, workloads, options);
    println!("{report}");
    report.assert_sound();
    report
}

#[test]
fn a_crash_at_any_call_loses_nothing_synced() {
    let engine = SimGit::default();
    run(
        &engine,
        &chosen(1),
        Options { seeds: 1, draw_step: step(6, 1), call_step: step(5, 1), nested_seeds: 0, ..Options::default() },
    );
}

#[test]
fn a_crash_within_a_recovery_loses_nothing_synced() {
    // A recovery reads whole packs, so that cutting into all of them takes hours: two workloads stand for all, one of
    // them with every durability. `BRISTLECONE_CRASH_WORKLOAD` takes any.
    let few = ["one synced commit", "mixed durabilities"];
    let chosen: Vec<Workload> = match std::env::var_os("BRISTLECONE_CRASH_WORKLOAD") {
        Some(_) => chosen(1),
        None => workloads().into_iter().filter(|workload| few.contains(&workload.name)).collect(),
    };
    assert!(!chosen.is_empty());
    let engine = SimGit::default();
    run(
        &engine,
        &chosen,
        Options { seeds: 1, seed_first: 7, nested_seeds: 1, nested_step: step(36, 1), ..Options::default() },
    );
}

#[test]
fn a_crash_at_any_call_loses_nothing_synced_of_loose_objects() {
    let engine = SimGit { loose: true, ..SimGit::default() };
    // Another process that opens the repository recovers what the first has not made durable.
    let several: Vec<Workload> =
        chosen(1).into_iter().filter(|workload| workload.name.contains("two handles")).collect();
    let mut chosen = chosen(step(6, 1));
    chosen.extend(several);
    chosen.sort_by_key(|workload| workload.name);
    chosen.dedup_by_key(|workload| workload.name);
    let options = Options {
        seeds: 1,
        seed_first: 3,
        draw_step: step(8, 1),
        call_step: step(3, 1),
        nested_seeds: 0,
        ..Options::default()
    };
    run(&engine, &chosen, options);
}

#[test]
fn a_crash_while_packs_are_folded_loses_nothing_synced() {
    let engine = SimGit { repack_min: 4, ..SimGit::default() };
    run(
        &engine,
        &chosen(step(8, 4)),
        Options {
            seeds: 1,
            seed_first: 5,
            draw_step: step(3, 1),
            call_step: step(2, 1),
            nested_seeds: 0,
            ..Options::default()
        },
    );
}

/// What a commit of the test below was when it was acknowledged.
struct Acked {
    oid: Oid,
    /// Calls to the disk until then.
    calls: u64,
    synced: bool,
}

#[test]
fn a_crash_while_the_thread_folds_loses_nothing_synced() {
    let engine = SimGit { repack_min: 4, background: true, ..SimGit::default() };
    let storage = Arc::new(SimStorage::new());
    let backend = engine.create(storage.clone()).unwrap();
    storage.keep_moments();
    let acked = commit_beside_repacks(&backend, &storage, 60);
    drop(backend);
    let last = storage.calls();
    assert!(!engine.open(storage.clone()).unwrap().list_refs("refs/").unwrap().is_empty());
    let mut seed = 0;
    for call in (acked[0].calls..=last).step_by(step(24, 3) as usize) {
        let Some(moment) = storage.moment(call) else { continue };
        for policy in [Policy::Lost, Policy::Kept, Policy::Writes, Policy::Sectors] {
            seed += 1;
            let place = format!("after call {call} of {last}, {policy:?}, seed {seed}");
            check_after(&engine, moment.reboot(seed, policy), &acked, call, &place);
        }
    }
}

/// Commits, now and then synced, while the thread repacks; returns the commits.
fn commit_beside_repacks(backend: &Arc<dyn Backend>, storage: &SimStorage, commits: usize) -> Vec<Acked> {
    let repo = Repo::with_backend(Git::new(Algorithm::Sha1), backend.clone());
    let branch = repo.branch("main").unwrap();
    let mut tree = branch.tree().unwrap();
    (0..commits)
        .map(|n| {
            tree.set(format!("d{}/f{n}", n % 3), format!("value {n}").as_bytes()).unwrap();
            let synced = n % 6 == 5;
            let durability = if synced { Durability::Synced } else { Durability::None };
            let oid = branch.commit(&mut tree, &info(&format!("number {n}"), durability)).unwrap().oid();
            // The thread gets to work at several places of what comes next.
            std::thread::sleep(Duration::from_micros(100 * (n as u64 % 5)));
            Acked { oid, calls: storage.calls(), synced }
        })
        .collect()
}

/// Checks that a store opens after the cut on a commit that is whole, and on none before the last synced one.
fn check_after(engine: &SimGit, disk: SimStorage, acked: &[Acked], call: u64, place: &str) {
    let backend = engine.open(Arc::new(disk)).unwrap_or_else(|error| panic!("{place}: {error}"));
    let found = match backend.get_ref("refs/heads/main").unwrap_or_else(|error| panic!("{place}: {error}")) {
        Some(RefTarget::Object(at)) => acked.iter().position(|commit| commit.oid == at.oid).map(|n| n + 1),
        _ => Some(0),
    };
    let needed = acked.iter().rposition(|commit| commit.synced && commit.calls <= call).map_or(0, |n| n + 1);
    let found = found.unwrap_or_else(|| panic!("{place}: the branch is on a commit that was never made"));
    assert!(found >= needed, "{place}: commit {found} instead of {needed} or later");
    let repo = Repo::with_backend(Git::new(Algorithm::Sha1), backend.clone());
    let tree = repo.branch("main").unwrap().tree().unwrap();
    for n in 0..found {
        let value = tree.get(format!("d{}/f{n}", n % 3)).unwrap_or_else(|error| panic!("{place}: {error}"));
        assert_eq!(value.as_deref(), Some(format!("value {n}").as_bytes()), "{place}");
    }
    let mut damaged = Vec::new();
    backend.each_object(&mut |_, _| Ok(()), &mut |damage| damaged.push(damage)).unwrap();
    assert!(damaged.is_empty(), "{place}: {damaged:?}");
}
