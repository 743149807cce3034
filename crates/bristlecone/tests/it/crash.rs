//! Power is cut after every call of every workload, and within every recovery: nothing synced is lost, nothing
//! torn is shown, and the store goes on.
//!
//! A third of the calls is cut, of each workload another; without threads by turns with an eighth of the policies, with threads
//! with one of them. Of the calls within recoveries the suites try a share, each recovery another. With `BRISTLECONE_THOROUGH` in
//! the environment (`.ci/lane crash`) each call is cut, every policy has its turn at each, and the share is several times as large.

use bristlecone::disk::DiskOptions;
use bristlecone_testkit::{
    crash::{Options, Report, deaths, explore, explore_deaths, step, workloads},
    sim::{CallKind, Lie},
};

use crate::engine::{DiskEngine, tiny, tiny_as_shipped, tiny_with_maps};

fn explore_with(engine: &DiskEngine, options: Options) -> Report {
    let report = explore(engine, &workloads(), options);
    let DiskOptions { segment_bytes, maps, background, .. } = engine.options;
    println!("segments of {segment_bytes} bytes, maps {maps}, threads {background}: {report}");
    report
}

#[test]
fn a_crash_at_any_call_loses_nothing_synced() {
    let mut crash_points = 0;
    for (segment_bytes, seeds) in [(4096, 2), (1 << 14, 1)] {
        let engine = DiskEngine::new(tiny().segment_bytes(segment_bytes));
        let report = explore_with(
            &engine,
            Options {
                seeds,
                draw_step: step(8, 1),
                call_step: step(3, 1),
                nested_step: step(160, 1),
                ..Options::default()
            },
        );
        report.assert_sound();
        assert!(report.workloads >= 20);
        crash_points += report.crash_points();
    }
    assert!(crash_points >= 10_000 / step(3, 1), "only {crash_points} crash points");
}

#[test]
fn a_crash_at_any_call_loses_nothing_synced_without_zeroing_ahead() {
    let engine = DiskEngine::new(tiny().prezero(false));
    let (draw_step, call_step) = (step(8, 1), step(3, 1));
    explore_with(&engine, Options { seeds: 1, draw_step, call_step, nested_seeds: 0, ..Options::default() })
        .assert_sound();
}

/// Collections that hide what is dead, rewrite cold segments of one or two objects and put small ones together.
#[test]
fn a_crash_at_any_call_of_a_collection_loses_nothing_synced() {
    let collecting: Vec<_> = workloads().into_iter().filter(|workload| workload.name.starts_with("sweep")).collect();
    assert!(collecting.len() >= 3);
    for (options, cold_bytes) in [(tiny(), 600), (tiny_with_maps(), 1200)] {
        let engine = DiskEngine::new(options.cold_bytes(cold_bytes));
        let (draw_step, nested_step) = (step(4, 1), step(320, 4));
        let options = Options { seeds: 1, seed_first: 21, draw_step, nested_step, ..Options::default() };
        let report = explore(&engine, &collecting, options);
        println!("cold segments of {cold_bytes} bytes: {report}");
        report.assert_sound();
        assert!(report.crash_points() >= 1000, "{report}");
    }
}

/// Every kind of call that the engine makes on the way of a commit.
const KINDS: [CallKind; 8] = {
    use CallKind::*;
    [Write, SetLen, Sync, SyncDir, Create, CreateDir, Rename, Remove]
};

#[test]
fn a_crash_at_any_call_loses_nothing_synced_with_maps() {
    let engine = DiskEngine::new(tiny_with_maps());
    let options = Options {
        seeds: 1,
        seed_first: 5,
        draw_step: step(8, 1),
        call_step: step(3, 1),
        nested_step: step(160, 4),
        ..Options::default()
    };
    let report = explore_with(&engine, options);
    report.assert_sound();
    assert!(report.crash_points() >= 8_000 / step(3, 1), "{report}");
}

/// In a short run each of the three takes a third of the workloads.
#[test]
fn a_crash_at_any_call_loses_nothing_synced_with_maps_and_threads() {
    let mut missed: Vec<CallKind> = KINDS.to_vec();
    let three = [(4096, true, 1), (1 << 14, true, 0), (4096, false, 0)];
    for (turn, (segment_bytes, prezero, nested_seeds)) in three.into_iter().enumerate() {
        let engine = DiskEngine::new(tiny_as_shipped().segment_bytes(segment_bytes).prezero(prezero));
        let (draw_step, call_step, nested_step) = (step(16, 1), step(3, 1), step(160, 6));
        let options =
            Options { seeds: 1, seed_first: 11, draw_step, call_step, nested_seeds, nested_step, ..Options::default() };
        let share = step(3, 1) as usize;
        let chosen: Vec<_> = workloads().into_iter().skip(turn % share).step_by(share).collect();
        let report = explore(&engine, &chosen, options);
        println!("segments of {segment_bytes} bytes, zeroes ahead {prezero}: {report}");
        report.assert_sound();
        missed.retain(|kind| !report.kinds.contains_key(kind));
    }
    assert!(missed.is_empty(), "no cut after any {missed:?}");
}

/// In a short run the engine with threads takes every third workload.
#[test]
fn one_process_is_stopped_another_goes_on_and_then_the_power_goes() {
    let deaths = deaths();
    for (options, every, step) in [(tiny(), 1, step(160, 2)), (tiny_as_shipped(), step(3, 1), step(200, 5))] {
        let engine = DiskEngine::new(options);
        let options = Options { seeds: 1, nested_seeds: 0, ..Options::default() };
        let chosen: Vec<_> = deaths.iter().step_by(every as usize).cloned().collect();
        let report = explore_deaths(&engine, &chosen, step, options);
        println!("{report}");
        report.assert_sound();
        assert!(report.deaths * every >= 150 && report.reboots * every >= 2_000, "{report}");
    }
}

#[test]
#[ignore = "takes long; BRISTLECONE_CRASH_POINTS sets how many crash points, a million unless set"]
fn a_crash_at_any_call_loses_nothing_synced_for_long() {
    let wanted = std::env::var("BRISTLECONE_CRASH_POINTS").ok().and_then(|text| text.parse().ok());
    let wanted: u64 = wanted.unwrap_or(1_000_000);
    let (mut crash_points, mut seed_first) = (0, 1000);
    while crash_points < wanted {
        for segment_bytes in [4096, 6000, 1 << 14] {
            let engine = DiskEngine::new(tiny().segment_bytes(segment_bytes));
            let options = Options { seeds: 4, seed_first, nested_seeds: 2, ..Options::default() };
            let report = explore_with(&engine, options);
            report.assert_sound();
            crash_points += report.crash_points();
        }
        seed_first += 4;
    }
    println!("{crash_points} crash points");
}

#[test]
fn the_suite_catches_an_engine_that_does_not_sync() {
    // Honest while the store is made, so that it is commits and new segments that go wrong.
    for (lie, honest) in [(Lie::Syncs, 0), (Lie::Syncs, 8), (Lie::Syncs, 12), (Lie::DirSyncs, 0), (Lie::DirSyncs, 5)] {
        for options in [Some(tiny()), (honest == 8).then(tiny_as_shipped)].into_iter().flatten() {
            let engine = DiskEngine { options, lie: Some((lie, honest)) };
            let options = Options { seeds: 1, nested_seeds: 0, until_failure: true, ..Options::default() };
            let report = explore_with(&engine, options);
            assert!(!report.failures.is_empty(), "{lie:?} after {honest} honest ones go unnoticed: {report}");
        }
    }
}
