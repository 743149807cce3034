//! The backend `fs` under power cuts, failing calls, a full disk and stopped processes: the suites that the disk engine passes.

use bristlecone_testkit::crash::{Engine, Options, Report, Workload, explore, step, workloads};

use crate::fs::FsEngine;

/// Workloads with hundreds of refs and long ones make thousands of calls here: they are tried in the thorough lane.
fn chosen() -> Vec<Workload> {
    let name = std::env::var("BRISTLECONE_CRASH_WORKLOAD").unwrap_or_default();
    workloads().into_iter().filter(|workload| workload.name.contains(&name)).collect()
}

fn run(engine: &dyn Engine, options: Options) -> Report {
    let report = explore(engine, &chosen(), options);
    println!("{report}");
    report
}

#[test]
fn a_crash_at_any_call_loses_nothing_synced() {
    let report = run(&FsEngine, Options { seeds: 1, nested_seeds: 0, ..Options::default() });
    report.assert_sound();
}

#[test]
fn a_crash_within_a_recovery_loses_nothing_synced() {
    let nested_step = step(24, 4);
    let options = Options { seeds: 1, seed_first: 7, nested_seeds: 1, nested_step, ..Options::default() };
    run(&FsEngine, options).assert_sound();
}
