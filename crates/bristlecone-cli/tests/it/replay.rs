//! `cone replay tezos`: shipped traces, stores that stay, rows, damage, interruption.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    path::PathBuf,
    process::Stdio,
    thread,
    time::Duration,
};

use bristlecone_needs::needs;
use serde_json::Value;

use crate::harness::{Place, Run};

const EARLY: &str = "synthetic-early-101commits.repr";
const FLAT: &str = "synthetic-flat-25commits.repr";
const EARLY_HEAD: &str = "CoW9m6VF3jknTgvBcGrRFBZFUxWnpNo3MH1uC1zwZGwoNdixKfXZ";

/// Returns where a trace of the repository is.
fn trace(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/tezos").join(name);
    path.to_str().unwrap().to_owned()
}

fn row(run: &Run) -> Value {
    assert_eq!(run.code, 0, "{run:?}");
    serde_json::from_slice(&run.out).unwrap()
}

#[test]
fn a_replay_says_what_it_checked_and_leaves_nothing() {
    let trace = trace(EARLY);
    let place = Place::empty();
    let run = place.run(["replay", "tezos", &trace]);
    assert_eq!(run.code, 0, "{run:?}");
    let text = String::from_utf8(run.out).unwrap();
    for part in ["tezos-101commits", "31955, 0 wrong", "101, 0 wrong", EARLY_HEAD] {
        assert!(text.contains(part), "{text:?} lacks {part:?}");
    }
    assert!(run.err.contains("answers and commit hashes are checked"), "{}", run.err);
    fs::create_dir(place.path("scratch")).unwrap();
    place.ok(["replay", "tezos", &trace, "--backend", "disk", "--commits", "3", "--dir", "scratch"]);
    assert_eq!(fs::read_dir(place.path("scratch")).unwrap().count(), 0, "the store is removed again");
    place.fails(2, &["leave out --repo or --dir"], ["-r", "kept", "replay", "tezos", &trace, "--dir", "scratch"]);
    for what in ["tezos", "cardano"] {
        place.fails(2, &["--repo DIR", "leave -b out"], ["-b", "other", "replay", what, &trace]);
    }
}

#[needs(linux)]
#[test]
fn a_report_that_cannot_be_written_is_3() {
    let place = Place::empty();
    let mut command = place.command(["replay", "tezos", &trace(EARLY), "--commits", "2"]);
    command.stdout(OpenOptions::new().write(true).open("/dev/full").unwrap()).stderr(Stdio::piped());
    let run = Run::from(command.spawn().unwrap().wait_with_output().unwrap());
    assert!(run.code == 3 && run.err.contains("standard output"), "{run:?}");
}

#[test]
fn a_trace_goes_into_every_backend() {
    let trace = trace(EARLY);
    let place = Place::empty();
    fs::create_dir(place.path("scratch")).unwrap();
    for backend in ["lsm", "lmdb", "fs"] {
        let options = ["--backend", backend, "--commits", "40", "--dir", "scratch"];
        let run = place.run(["-o", "json", "replay", "tezos", &trace].iter().chain(&options));
        let row = row(&run);
        assert_eq!((&row["backend"], &row["checked"]), (&backend.into(), &true.into()));
        assert_eq!((&row["replay"]["hashes_checked"], &row["replay"]["hashes_wrong"]), (&40.into(), &0.into()));
        assert_eq!(fs::read_dir(place.path("scratch")).unwrap().count(), 0, "the store is removed again");
    }
    // One that stays is recognised.
    let run = place.run(["-r", "kept", "replay", "tezos", &trace, "--backend", "lsm", "--commits", "3"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(place.json(["-r", "kept", "info"])["backend"], "lsm");
    assert!(place.ok(["-r", "kept", "check"]).contains("no damage"));
}

#[test]
fn hashes_are_checked_only_where_they_can_be() {
    let trace = trace(EARLY);
    let place = Place::empty();
    for (options, why, variant) in [
        (&["--format", "native"][..], "the format hashes in its own way", "native"),
        (&["--empty-blobs"], "every value is empty", "empty-blobs"),
        (&["--path-conversion", "v0+v1"], "keys are rewritten", "paths=v0+v1"),
    ] {
        let run = place.run(["-o", "json", "replay", "tezos", &trace].iter().chain(options));
        assert!(run.err.contains(why), "{}", run.err);
        let row = row(&run);
        assert_eq!(row["replay"]["hashes_unchecked"], why);
        assert_eq!((&row["variant"], &row["checked"]), (&variant.into(), &false.into()), "nothing says the same");
        assert_eq!((&row["replay"]["hashes_checked"], &row["replay"]["answers_checked"]), (&0.into(), &31955.into()));
    }
    // Two runs that agree say something.
    let words = ["-o", "json", "replay", "tezos", &trace, "--format", "native", "--commits", "20", "--runs", "2"];
    let row_of_two = row(&place.run(words));
    assert_eq!((&row_of_two["checked"], &row_of_two["replay"]["hashes_checked"]), (&true.into(), &0.into()));
    // Where and how short values and directories are stored changes no hash.
    let run = place.run(["-o", "json", "replay", "tezos", &trace, "--no-inline", "--no-inode"]);
    assert_eq!(row(&run)["replay"]["hashes_checked"], 101);
}

#[test]
fn a_store_that_is_named_stays_and_can_be_used() {
    let trace = trace(EARLY);
    let place = Place::empty();
    let run =
        place.run(["-r", "chain", "-b", "blocks", "-o", "json", "replay", "tezos", &trace, "--durability", "synced"]);
    let row = row(&run);
    assert_eq!((&row["backend"], &row["durability"]), (&"disk".into(), &"synced".into()));
    assert!(row["syncs"].as_u64().unwrap() >= 101 && row["fdatasync_us"].as_f64().unwrap() > 0.0);
    let log = place.json(["-r", "chain", "log", "-n", "1"]);
    assert!(log.to_string().contains(row["head"].as_str().unwrap()), "{log}");
    place.ok(["-r", "chain", "check"]);
    // A store with commits is refused, one without is not, if it is of the format.
    let refused = |options: &[&str], says: &str| {
        let run = place.run(["replay", "tezos", &trace, "--commits", "1"].iter().chain(options));
        assert!(run.code == 2 && run.err.contains(says), "{run:?}");
    };
    refused(&["-r", "chain"], "has commits already");
    place.ok(["init", "new", "--format", "tezos"]);
    refused(&["-r", "new", "--format", "native"], "is a store of the format tezos");
    place.ok(["-r", "new", "replay", "tezos", &trace, "--commits", "1"]);
    place.ok(["-r", "new", "log"]);
}

#[test]
fn rows_are_merged_and_runs_are_processes() {
    let trace = trace(FLAT);
    let place = Place::empty();
    let replay = |more: &[&str]| {
        let all =
            ["replay", "tezos", &trace, "--backend", "disk", "--commits", "2", "--json", "rows.json", "--dir", "."];
        place.ok(all.iter().chain(more))
    };
    replay(&["--runs", "2"]);
    replay(&["--durability", "grouped"]);
    let text = replay(&["--durability", "synced"]);
    assert!(text.contains("without syncs, and one for each commit"), "{text}");
    replay(&["--durability", "synced", "--name", "other"]);
    replay(&["--runs", "1"]);
    let rows: Value = serde_json::from_slice(&fs::read(place.path("rows.json")).unwrap()).unwrap();
    let rows = rows.as_array().unwrap();
    let names: Vec<_> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        ["bristlecone disk none", "bristlecone disk grouped", "bristlecone disk synced", "other disk synced"]
    );
    for row in rows {
        assert_eq!((&row["scenario"], &row["commits"]), (&"tezos-2commits-synthetic-flat-25commits".into(), &2.into()));
        assert_eq!(row["total_ops"].as_u64().unwrap(), {
            let rows = row["replay"]["rows"].as_object().unwrap();
            rows.values().map(|count| count.as_u64().unwrap()).sum::<u64>()
        });
        assert!(!row["replay"]["series"].as_array().unwrap().is_empty());
    }
    let (none, synced) = (&rows[0], &rows[2]);
    let floor = synced["replay"]["synced_floor_s"].as_f64().unwrap();
    assert!(floor > 0.0 && none["replay"]["synced_floor_s"].is_null());
}

#[test]
fn a_wrong_answer_is_1_and_damage_is_3() {
    let trace = trace(EARLY);
    let place = Place::empty();
    let mut bytes = fs::read(trace).unwrap();
    // The first row is a Find: length, tag, key, and whether it was found before the input's scope and id.
    let end = 13 + 1 + usize::from(bytes[13]);
    assert_eq!(bytes[14], 4);
    let flag = end - 10;
    let flipped = if bytes[flag] == 0 { 0xff } else { 0 };
    let right = std::mem::replace(&mut bytes[flag], flipped);
    let wrong = place.file("wrong.repr", &bytes);
    let run = place.run(["-r", "chain", "replay", "tezos", wrong.to_str().unwrap()]);
    assert_eq!(run.code, 1, "{run:?}");
    for part in ["error: ", "commit 1, row 1 (at byte 13), Find", "the trace has"] {
        assert!(run.err.contains(part), "{}", run.err);
    }
    place.ok(["-r", "chain", "log"]);
    bytes[flag] = right;
    bytes[14] = 9;
    let damaged = place.file("damaged.repr", &bytes);
    let run = place.run(["replay", "tezos", damaged.to_str().unwrap()]);
    assert!(run.code == 3 && run.err.contains("damaged at byte"), "{run:?}");
    let run = place.run(["replay", "tezos", "nothing.repr"]);
    assert!(run.code == 3 && run.err.contains("nothing.repr"), "{run:?}");
    // In a process of its own it is the same.
    let run = place.run(["replay", "tezos", wrong.to_str().unwrap(), "--runs", "2"]);
    assert!(run.code == 1 && run.err.contains("commit 1, row 1"), "{run:?}");
}

#[test]
fn a_cut_trace_ends_before_its_last_row_and_with_strict_is_3() {
    let place = Place::empty();
    let bytes = fs::read(trace("tezos_actions_1commit.repr")).unwrap();
    let cut = place.file("cut.repr", &bytes);
    let cut = cut.to_str().unwrap();
    let says = ["cut.repr is cut within row 6", "at byte 296", "4 bytes", "replayed 1 commits and 6 rows before that"];
    let fails = |says: &[&str], options: &[&str]| {
        let run = place.run(["replay", "tezos", cut, "--strict"].iter().chain(options));
        assert!(run.code == 3 && says.iter().all(|part| run.err.contains(part)), "{run:?}");
    };
    let ends = |options: &[&str]| {
        let run = place.run(["-o", "json", "replay", "tezos", cut].iter().chain(options));
        let noted =
            run.err.lines().any(|line| line.starts_with("note: ") && says[..3].iter().all(|part| line.contains(part)));
        assert!(noted && !run.err.contains("error: "), "{run:?}");
        let row = row(&run);
        assert!(row["replay"]["cut"].as_str().unwrap().contains("4 bytes"), "{row}");
        (row["commits"].clone(), row["total_ops"].clone())
    };
    for (threads, stores) in [("1", ["one", "two"]), ("2", ["three", "four"])] {
        fails(&says, &["-r", stores[0], "--threads", threads]);
        // All checks of the end are made.
        assert_eq!(ends(&["-r", stores[1], "--threads", threads]), (1.into(), 6.into()));
        for store in stores {
            assert!(place.ok(["-r", store, "log"]).contains("Genesis"));
        }
    }
    fails(&says, &["--runs", "2"]);
    fails(&says[..2], &["--chunked", "1x1"]);
    assert_eq!(ends(&["--runs", "2"]), (1.into(), 6.into()));
    assert_eq!(ends(&["--chunked", "1x1"]), (1.into(), 6.into()));
    let table = place.ok(["replay", "tezos", cut]);
    assert!(says[..3].iter().all(|part| table.contains(part)) && table.contains("1, 0 wrong"), "{table}");
    // Whoever stops before the cut, or has none, hears of none.
    let whole = place.file("whole.repr", &bytes[..296]);
    for options in [&[cut, "--commits", "1"][..], &[whole.to_str().unwrap()]] {
        let run = place.run(["-o", "json", "replay", "tezos", "--strict"].iter().chain(options));
        assert!(!run.err.contains("is cut"), "{run:?}");
        assert_eq!(row(&run)["replay"]["cut"], Value::Null);
    }
}

#[test]
fn a_store_that_forgets_keeps_the_line_of_the_branch_alone() {
    let trace = trace(EARLY);
    let place = Place::empty();
    fs::create_dir(place.path("scratch")).unwrap();
    // Two of the 101 commits are on lines that were left behind.
    for retain in ["101", "10"] {
        let options = ["--backend", "disk", "--retain", retain, "--dir", "scratch"];
        let run = place.run(["-o", "json", "replay", "tezos", &trace].iter().chain(&options));
        let row = row(&run);
        assert_eq!((&row["wrong"], &row["checked"]), (&Value::Null, &true.into()), "{retain}");
    }
    // One that is over at once has files, too.
    let options = ["--backend", "disk", "--retain", "10", "--commits", "2", "--dir", "scratch"];
    let row = row(&place.run(["-o", "json", "replay", "tezos", &trace].iter().chain(&options)));
    assert!(row["file_bytes"].as_u64().unwrap() > 0, "{row}");
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let place = Place::empty();
    for (says, options) in [
        ("nothing in memory is durable", &["--durability", "synced"][..]),
        ("cannot be kept", &["--backend", "memory", "-r", "x"]),
        ("are the disk engine's", &["--no-maps"]),
        ("are the disk engine's", &["--backend", "lsm", "--cache", "0"]),
        ("several runs", &["--runs", "2", "-r", "x"]),
        ("the disk engine's segments", &["--record", "reads.log", "--backend", "lsm", "-r", "x"]),
        ("in pieces", &["--chunked", "2x2", "-r", "x"]),
        ("leave out --threads", &["--chunked", "2x2", "--threads", "2"]),
        ("v0+v1", &["--path-conversion", "v9"]),
        ("12x50000", &["--chunked", "many"]),
    ] {
        let run = place.run(["replay", "tezos", "x.repr"].iter().chain(options));
        assert!(run.code == 2 && run.err.contains(says), "{says}: {run:?}");
    }
}

#[test]
fn pieces_are_labelled_as_what_they_are() {
    let trace = trace(EARLY);
    let place = Place::empty();
    let text = place.ok(["replay", "tezos", &trace, "--chunked", "2×100", "--json", "rows.json"]);
    assert!(text.contains("does not do the work of the trace"), "{text}");
    let rows: Value = serde_json::from_slice(&fs::read(place.path("rows.json")).unwrap()).unwrap();
    let row = &rows[0];
    assert_eq!((&row["checked"], &row["threads"], &row["total_ops"]), (&false.into(), &2.into(), &40_617.into()));
    assert!(row["name"].as_str().unwrap().contains("chunked=2x100"), "{row}");
    assert!(row["replay"]["caveat"].as_str().unwrap().contains("does not do the work"), "{row}");
}

#[test]
fn an_interrupt_ends_with_a_summary() {
    let trace = trace(EARLY);
    let place = Place::empty();
    let bytes = fs::read(trace).unwrap();
    // A trace that comes in as slowly as we like.
    let pipe = place.path("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o644.into()).unwrap();
    let mut command = place.command(["-r", "chain", "replay", "tezos", "pipe", "--json", "rows.json"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut feed = OpenOptions::new().write(true).open(&pipe).unwrap();
    let half = bytes.len() / 2;
    feed.write_all(&bytes[..half]).unwrap();
    thread::sleep(Duration::from_millis(400));
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    thread::sleep(Duration::from_millis(400));
    // The reader may have gone.
    let _ = feed.write_all(&bytes[half..]);
    drop(feed);
    let run = Run::from(child.wait_with_output().unwrap());
    assert_eq!(run.code, 130, "{run:?}");
    let text = String::from_utf8(run.out).unwrap();
    assert!(text.contains("stopped before its end") && !text.contains("tezos-101commits"), "{text}");
    assert!(!place.path("rows.json").exists(), "half a replay is no result");
    place.ok(["-r", "chain", "log", "-n", "1"]);
    place.ok(["-r", "chain", "check"]);
}
