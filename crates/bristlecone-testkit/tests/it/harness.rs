//! The crash suite passes a sound engine and catches every unsound variant of it.

use bristlecone_testkit::crash::{Options, Report, explore, workloads};

use crate::toy::{Bug, ToyEngine};

fn try_with(bug: Bug) -> Report {
    let report = explore(&ToyEngine(bug), &workloads(), Options::default());
    println!("{bug:?}: {report}");
    report
}

#[test]
fn a_sound_engine_passes() {
    let report = try_with(Bug::None);
    report.assert_sound();
    assert!(report.crash_points() > 10_000, "{report}");
    assert!(report.workloads >= 20, "{report}");
}

#[test]
fn every_bug_is_caught() {
    for bug in [Bug::NoSync, Bug::NoDirSync, Bug::NoChecksum, Bug::NoErasing, Bug::NoFlush, Bug::Rewriting] {
        assert!(!try_with(bug).failures.is_empty(), "{bug:?} goes unnoticed");
    }
}

#[test]
fn failures_name_what_reproduces_them() {
    let report = try_with(Bug::NoSync);
    let text = report.failures[0].to_string();
    assert!(text.contains("workload \"") && text.contains("policy") && text.contains("seed"), "{text}");
    let again = try_with(Bug::NoSync);
    assert!(again.failures.iter().any(|failure| failure.to_string() == text), "{text}");
}
