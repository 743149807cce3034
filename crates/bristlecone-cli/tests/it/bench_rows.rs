//! What is left of `cone bench` when it is interrupted or killed: every row that was measured, and no store.

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::harness::Place;

/// A bench that measures the limits, and then a row of very many commits.
fn long(place: &Place) -> Child {
    let words = "bench --quick --skip-git --dir stores --only-scenario incremental-20B --ncommits 10000000 \
                 --tree-add 50 --nreads 10 --depth 1 --json rows.json";
    place.command(words.split_whitespace()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn scenarios(place: &Place) -> Vec<String> {
    let Ok(bytes) = fs::read(place.path("rows.json")) else { return vec![] };
    let rows: Vec<Value> = serde_json::from_slice(&bytes).expect("the file is whole at any time");
    rows.iter().map(|row| row["scenario"].as_str().unwrap().to_owned()).collect()
}

fn folders(place: &Place) -> Vec<PathBuf> {
    fs::read_dir(place.path("stores")).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// Waits until something holds.
fn wait(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(120), "waited too long until {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Starts a bench, and ends it by a signal while it measures its first row; returns how it ended.
fn ended_by(place: &Place, signal: Signal) -> std::process::ExitStatus {
    let mut child = long(place);
    wait("a store is made", || folders(place).iter().any(|dir| fs::read_dir(dir).unwrap().count() > 0));
    wait("the limits are in the file", || !scenarios(place).is_empty());
    kill_process(Pid::from_child(&child), signal).unwrap();
    child.wait().unwrap()
}

#[test]
fn an_interrupt_leaves_the_rows_and_no_store() {
    let place = Place::empty();
    fs::create_dir(place.path("stores")).unwrap();
    let status = ended_by(&place, Signal::INT);
    assert_eq!(status.code(), Some(130));
    assert!(scenarios(&place).contains(&"mapped-read-100B-of-20MiB".to_owned()));
    assert_eq!(folders(&place), Vec::<PathBuf>::new(), "nothing is left");
}

#[test]
fn the_next_run_sweeps_what_a_killed_one_left() {
    let place = Place::empty();
    fs::create_dir(place.path("stores")).unwrap();
    let status = ended_by(&place, Signal::KILL);
    assert_eq!(status.signal(), Some(9));
    let left = folders(&place);
    assert_eq!(left.len(), 1, "a killed process removes nothing");
    let words =
        "bench --quick --skip-git --dir stores --only-scenario reads-20B --tree-add 50 --nreads 10 --in-process";
    let run = place.run(words.split_whitespace());
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.err.contains("which a process that was killed had left"), "{}", run.err);
    wait("everything is gone", || folders(&place).is_empty());
}

#[test]
fn a_folder_that_is_not_there_is_refused() {
    let place = Place::empty();
    for words in ["bench", "bench all", "bench io"] {
        place.fails(2, &["--dir missing: there is no such folder"], words.split(' ').chain(["--dir", "missing"]));
    }
    assert!(!place.path("missing").exists());
}
