//! `cone trace generate`: traces made up.

use std::fs;

use crate::harness::Place;

#[test]
fn a_trace_is_made_up_and_nothing_else_is_left() {
    let place = Place::empty();
    let made = place.json(["trace", "generate", "--commits", "3", "--seed", "9", "--out", "made.repr"]);
    let keys: Vec<&String> = made.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["out", "seed", "commits", "rows", "bytes", "seconds", "kinds"]);
    assert_eq!((made["commits"].as_u64(), made["kinds"][7]["rows"].as_u64()), (Some(3), Some(3)));
    assert_eq!(made["bytes"].as_u64(), Some(fs::metadata(place.path("made.repr")).unwrap().len()));
    let left: Vec<_> = fs::read_dir(place.path(".")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["made.repr"], "the store and the unfinished file are gone");
    let info = place.json(["trace", "info", "made.repr"]);
    assert_eq!((&info["rows"], &info["partial_bytes"]), (&made["rows"], &0.into()));
    assert_eq!(info["kinds"][0]["rows"], made["kinds"][0]["rows"]);
}

#[test]
fn a_file_that_is_there_stays_unless_forced() {
    let place = Place::empty();
    place.file("made.repr", "mine");
    let generate = ["trace", "generate", "--commits", "1", "--out", "made.repr"];
    place.fails(2, &["made.repr is there already", "--force"], generate);
    assert_eq!(fs::read(place.path("made.repr")).unwrap(), b"mine");
    let shown = place.ok(generate.iter().chain(&["--force", "--dir", "elsewhere/below"]));
    assert!(shown.starts_with("wrote 1 commit, 6 rows and "), "{shown}");
    assert_eq!(fs::read_dir(place.path("elsewhere/below")).unwrap().count(), 0);
    let info = place.json(["trace", "info", "made.repr"]);
    assert_eq!(info["last_commit"], "CoV8SQumiVU9saiu3FVNeDNewJaJH8yWdsGF3WLdsRr2P9S7MzCj");
}

#[test]
fn what_cannot_be_made_is_said() {
    let place = Place::empty();
    assert_eq!(place.run(["trace", "generate", "--commits", "0", "--out", "made.repr"]).code, 2);
    place.file("file", "");
    place.fails(3, &["file"], ["trace", "generate", "--commits", "1", "--out", "made.repr", "--dir", "file"]);
    assert!(!place.path("made.repr").exists());
}
