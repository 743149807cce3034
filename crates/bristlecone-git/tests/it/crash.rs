//! Power is cut after every call of every workload, and again within every recovery: nothing synced is lost.
//!
//! `BRISTLECONE_CRASH_WORKLOAD` runs the workloads alone whose names hold its value.

use bristlecone_testkit::crash::{Options, Report, Workload, explore, workloads};

use crate::sims::SimGit;

fn chosen(step: usize) -> Vec<Workload> {
    match std::env::var("BRISTLECONE_CRASH_WORKLOAD") {
        Ok(part) => workloads().into_iter().filter(|workload| workload.name.contains(&part)).collect(),
        Err(_) => workloads().into_iter().step_by(step).collect(),
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
    run(&engine, &chosen(1), Options { seeds: 1, nested_seeds: 0, ..Options::default() });
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
    run(&engine, &chosen, Options { seeds: 1, seed_first: 7, nested_seeds: 1, ..Options::default() });
}

#[test]
fn a_crash_at_any_call_loses_nothing_synced_of_loose_objects() {
    let engine = SimGit { loose: true, ..SimGit::default() };
    run(&engine, &chosen(3), Options { seeds: 1, seed_first: 3, nested_seeds: 0, ..Options::default() });
}

#[test]
fn a_crash_while_packs_are_folded_loses_nothing_synced() {
    let engine = SimGit { fold_min: 4, ..SimGit::default() };
    run(&engine, &chosen(4), Options { seeds: 1, seed_first: 5, nested_seeds: 0, ..Options::default() });
}
