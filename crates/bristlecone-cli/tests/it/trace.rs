//! `cone trace`: what is in a trace, and traces written again.

use std::{fs, io::Read, path::PathBuf};

use serde_json::{Value, json};

use crate::harness::{Place, Run};

const REAL: &str = "tezos_actions_1commit.repr";
const EARLY: &str = "synthetic-early-101commits.repr";

/// Returns where a trace of the repository is.
fn shipped(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/tezos").join(name)
}

/// Puts a trace of the repository into the folder.
fn with(name: &str) -> Place {
    let place = Place::empty();
    place.file("trace.repr", fs::read(shipped(name)).unwrap());
    place
}

/// Checks that it went well, and that a note says all of this.
#[track_caller]
fn noted(run: &Run, says: &[&str]) {
    assert_eq!(run.code, 0, "{run:?}");
    let note = run.err.lines().find(|line| line.starts_with("note: ")).unwrap_or_else(|| panic!("{run:?}"));
    assert!(says.iter().all(|part| note.contains(part)) && !run.err.contains("error: "), "{run:?}");
}

fn rows(info: &Value) -> Vec<u64> {
    info["kinds"].as_array().unwrap().iter().map(|kind| kind["rows"].as_u64().unwrap()).collect()
}

#[test]
fn info_of_the_real_trace() {
    let place = with(REAL);
    // Its last row is cut: what is whole is told, and that.
    let cut = ["trace.repr is cut within row 6", "at byte 296", "4 bytes", "the rows before it are whole"];
    let run = place.run(["trace", "info", "trace.repr"]);
    noted(&run, &cut);
    place.fails(3, &cut, ["trace", "info", "trace.repr", "--strict"]);
    let shown = String::from_utf8(run.out).unwrap();
    for line in [
        "rows          6, of 47.2 bytes each",
        "commits       1, of 6.0 rows each",
        "from          2018-06-30 16:07:32 +0000",
        "last commit   CoV8SQumiVU9saiu3FVNeDNewJaJH8yWdsGF3WLdsRr2P9S7MzCj",
        "at the end    4 bytes of a row that is cut",
        "Find          2  33.3 %     2.000      0          2",
        "data/version               2  33.3 %    1       0     1    0         0",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{shown}\nlacks {line:?}");
    }
    let info = place.json(["trace", "info", "trace.repr"]);
    let run = place.fails(3, &cut, ["-o", "json", "trace", "info", "trace.repr", "--strict"]);
    assert_eq!(serde_json::from_slice::<Value>(&run.out).unwrap(), info);
    let keys: Vec<&String> = info.as_object().unwrap().keys().collect();
    let documented = "file rows row_bytes commits rows_uncommitted partial_bytes first_date last_date last_commit \
                      old_checkouts contexts_max contexts_left kinds rows_per_commit largest depths values shapes \
                      shapes_were_dropped";
    assert_eq!(keys, documented.split(' ').collect::<Vec<_>>());
    assert_eq!(rows(&info), [0, 3, 0, 0, 2, 0, 0, 1]);
    assert_eq!(info["kinds"][4], json!({"kind": "Find", "rows": 2, "found": 0}));
    assert_eq!(info["rows_per_commit"], json!({"min": 6, "mean": 6.0, "p50": 6, "p99": 6, "max": 6}));
    assert_eq!(
        (&info["partial_bytes"], &info["row_bytes"], &info["first_date"]),
        (&4.into(), &283.into(), &1_530_374_852.into())
    );
    assert_eq!(info["largest"][0]["message"], "Genesis");
    assert_eq!(info["depths"], json!([{"steps": 1, "added": 2, "others": 0}, {"steps": 2, "added": 1, "others": 2}]));
    assert_eq!(info["values"][1], json!({"from": 32, "to": 127, "added": 1, "bytes": 32}));
    assert_eq!(info["shapes"][0], json!({"pattern": "data/version", "rows": 2, "Add": 1, "Find": 1}));
}

#[test]
fn info_of_a_longer_trace() {
    let place = with(EARLY);
    let info = place.json(["trace", "info", "trace.repr", "--shapes", "3"]);
    assert_eq!(rows(&info), [100, 8314, 145, 2, 22_923, 5765, 3267, 101]);
    assert_eq!((&info["rows"], &info["old_checkouts"]), (&40_617.into(), &2.into()));
    assert_eq!(info["shapes"].as_array().unwrap().len(), 3);
    assert_eq!(info["shapes"][0]["pattern"], "data/contracts/index/ed25519/*/*/*/*/*/*/balance");
    assert_eq!(info["largest"][0]["rows"], 1764);
    assert_eq!(
        (&info["contexts_max"], &info["contexts_left"], &info["partial_bytes"]),
        (&1.into(), &0.into(), &0.into())
    );
}

#[test]
fn a_copy_is_the_same_and_a_cut_is_a_prefix() {
    let place = with(EARLY);
    let original = fs::read(place.path("trace.repr")).unwrap();
    place.ok(["trace", "convert", "trace.repr", "--out", "same.repr"]);
    assert!(fs::read(place.path("same.repr")).unwrap() == original);
    let done = place.json(["trace", "convert", "trace.repr", "--out", "cut.repr", "--commits", "10"]);
    let cut = fs::read(place.path("cut.repr")).unwrap();
    assert!(original.starts_with(&cut));
    let wanted = json!({
        "file": "trace.repr", "out": "cut.repr", "path_conversion": "none", "commits": 10, "rows": 4496,
        "keys_changed": 0, "bytes": cut.len(), "partial_bytes": 0,
    });
    assert_eq!(done, wanted);
    assert_eq!(place.json(["trace", "info", "cut.repr"])["rows_uncommitted"], 0);
    // Only these: nothing is left beside them.
    let mut names: Vec<_> = fs::read_dir(place.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["cut.repr", "same.repr", "trace.repr"]);
}

#[test]
fn keys_are_converted() {
    let place = with(EARLY);
    let convert = |name: &str| {
        let out = format!("{name}.repr");
        let done = place.json(["trace", "convert", "trace.repr", "--out", &out, "--path-conversion", name]);
        assert_eq!(done["path_conversion"], *name);
        (done["keys_changed"].as_u64().unwrap(), place.json(["trace", "info", &out, "--shapes", "1000"]))
    };
    let original = rows(&place.json(["trace", "info", "trace.repr"]));
    let shapes = |info: &Value| -> Vec<String> {
        info["shapes"].as_array().unwrap().iter().map(|shape| shape["pattern"].as_str().unwrap().to_owned()).collect()
    };
    let (v0_keys, v0) = convert("v0");
    assert!(shapes(&v0).contains(&"data/contracts/index/ed25519/*/balance".to_owned()));
    assert!(shapes(&v0).contains(&"data/rolls/index/*/*/*/successor".to_owned()));
    assert!(!shapes(&v0).iter().any(|shape| shape.contains("*/*/*/*/*/*")));
    let (v1_keys, v1) = convert("v1");
    assert!(shapes(&v1).contains(&"data/rolls/index/*/successor".to_owned()));
    assert!(shapes(&v1).contains(&"data/contracts/index/ed25519/*/*/*/*/*/*/balance".to_owned()));
    let (both_keys, both) = convert("v0+v1");
    // Here no key is changed by both.
    assert_eq!(both_keys, v0_keys + v1_keys);
    for info in [&v0, &v1, &both] {
        assert_eq!(rows(info), original);
    }
}

#[test]
fn what_is_whole_of_a_cut_trace_is_written_and_the_cut_is_told() {
    let place = with(REAL);
    let says = ["trace.repr is cut within row 6", "at byte 296", "are whole, and are now in whole.repr"];
    let convert = ["trace", "convert", "trace.repr", "--out", "whole.repr"];
    let run = place.run(convert);
    noted(&run, &says);
    assert!(String::from_utf8(run.out).unwrap().starts_with("wrote 1 commit, 6 rows and "));
    let run = place.fails(3, &says, convert.iter().chain(&["--strict", "--force"]));
    assert!(String::from_utf8(run.out).unwrap().starts_with("wrote 1 commit, 6 rows and "));
    assert_eq!(fs::read(place.path("whole.repr")).unwrap().len(), 296);
    place.ok(["trace", "info", "whole.repr"]);
    // The cut lies behind what is wanted.
    place.ok(["trace", "convert", "trace.repr", "--out", "first.repr", "--commits", "1"]);
    assert_eq!(fs::read(place.path("first.repr")).unwrap(), fs::read(place.path("whole.repr")).unwrap());
}

#[test]
fn nothing_is_overwritten_by_mistake() {
    let place = with(REAL);
    place.file("there", "precious");
    let convert = ["trace", "convert", "trace.repr", "--out", "there"];
    place.fails(2, &["there is there already", "--force"], convert);
    assert_eq!(fs::read(place.path("there")).unwrap(), b"precious");
    noted(&place.run(convert.iter().chain(&["--force"])), &["is cut"]);
    assert_eq!(fs::read(place.path("there")).unwrap().len(), 296);
    // Onto itself, too.
    noted(&place.run(["trace", "convert", "trace.repr", "--out", "trace.repr", "--force"]), &["is cut"]);
    assert_eq!(fs::read(place.path("trace.repr")).unwrap().len(), 296);
    place.fails(2, &["cannot be the name of a file"], ["trace", "convert", "trace.repr", "--out", "..", "--force"]);
    place.fails(
        3,
        &["cannot write nowhere/x", "no such file"],
        ["trace", "convert", "trace.repr", "--out", "nowhere/x"],
    );
}

#[test]
fn damage_is_named_with_its_offset() {
    let place = with(REAL);
    let mut bytes = fs::read(place.path("trace.repr")).unwrap();
    // The operation of the third row.
    bytes[0x52] = 9;
    place.file("bad.repr", &bytes);
    let says = ["bad.repr is damaged at byte 82, in row 2", "no operation of this number"];
    place.fails(3, &says, ["trace", "info", "bad.repr"]);
    place.file("out.repr", "precious");
    place.fails(3, &says, ["trace", "convert", "bad.repr", "--out", "out.repr", "--force"]);
    place.fails(3, &says, ["trace", "convert", "bad.repr", "--out", "new.repr"]);
    assert_eq!(fs::read(place.path("out.repr")).unwrap(), b"precious");
    assert_eq!(fs::read_dir(place.path("")).unwrap().count(), 3, "nothing is left of what failed");
    // The damage lies behind the commits that are wanted, if none are.
    place.ok(["trace", "convert", "bad.repr", "--out", "new.repr", "--commits", "0"]);
}

#[test]
fn files_that_are_no_traces() {
    let place = Place::empty();
    let info = |name: &str, bytes: &[u8], says: &[&str]| {
        place.file(name, bytes);
        place.fails(3, says, ["trace", "info", name]);
        place.fails(3, says, ["trace", "convert", name, "--out", "out"]);
        assert!(!place.path("out").exists());
    };
    info("short", b"IrmRep", &["short is no replayable trace", "fewer than 12 bytes"]);
    info("header", b"IrmRepBT\0\0\0\0", &["header is no replayable trace", "ends within its header"]);
    info("text", b"some text or other", &["text is no replayable trace", "IrmRepBT"]);
    info("later", b"TezosRep\0\0\0\0\0", &["later format \"TezosRep\""]);
    info("version", b"IrmRepBT\0\0\0\x07\0", &["version 7"]);
    place.fails(3, &["cannot access nope", "check the name"], ["trace", "info", "nope"]);
    place.file("empty", b"IrmRepBT\0\0\0\0\0");
    assert_eq!(place.json(["trace", "info", "empty"])["rows"], 0);
    place.ok(["trace", "info", "empty"]);
}

#[test]
fn wrong_usage() {
    let place = Place::empty();
    let convert = ["trace", "convert", "a", "--out", "b", "--path-conversion", "v2"];
    place.fails(2, &["v2", "none, v0, v1, v0+v1"], convert);
    place.fails(2, &["--out"], ["trace", "convert", "a"]);
    for help in [&["trace", "info", "--help"][..], &["trace", "convert", "--help"]] {
        assert!(place.ok(help).contains("Examples:\n"));
    }
}

#[test]
fn a_trace_may_come_through_a_pipe() {
    let path = shipped(REAL);
    let mut bytes = Vec::new();
    fs::File::open(path).unwrap().read_to_end(&mut bytes).unwrap();
    let run = Place::empty().feed(["trace", "info", "/dev/stdin"], &bytes);
    noted(&run, &["/dev/stdin is cut within row 6"]);
    assert!(String::from_utf8(run.out).unwrap().contains("\nrows          6,"));
}

#[test]
fn only_plain_files_are_replaced() {
    let place = Place::empty();
    place.ok(["trace", "generate", "--commits", "2", "--out", "trace.repr"]);
    let convert = |out: &str| place.run(["trace", "convert", "trace.repr", "--out", out, "--force"]);
    rustix::fs::mknodat(rustix::fs::CWD, place.path("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    convert("pipe").failed(2, &["no plain file"]);
    place.file("real", "old");
    std::os::unix::fs::symlink("real", place.path("link")).unwrap();
    assert_eq!(convert("link").code, 0);
    assert!(place.path("link").is_symlink());
    assert!(fs::read(place.path("real")).unwrap().len() > 3);
}
