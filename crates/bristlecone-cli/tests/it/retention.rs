//! `cone retention`: rules are kept, collections follow them, and every command says what is missing.

use std::process::Command;

use crate::harness::Place;

/// A store with 20 commits, and a tag at the sixth.
fn place() -> Place {
    let place = Place::with_store();
    for number in 1..=20 {
        place.ok(["set", "fruit/apple", &number.to_string(), "-m", &format!("number {number}")]);
    }
    place.ok(["tag", "v1", "HEAD~14"]);
    place
}

#[test]
fn rules_cut_history_and_the_log_says_where() {
    let place = place();
    assert!(place.ok(["retention", "list"]).contains("no rules"));
    let head = place.ok(["log", "--oneline", "-1"]);
    place.ok(["retention", "set", "tags/*", "last", "1"]);
    let planned = place.ok(["retention", "set", "*", "last 5", "--dry-run"]);
    assert!(planned.starts_with("14 commits and ") && planned.contains("would go"), "{planned}");
    assert!(place.ok(["retention", "set", "*", "last", "5"]).contains("14 commits will go"));
    assert_eq!(place.ok(["retention", "list"]), "* last 5\ntags/* last 1\n");
    assert_eq!(place.ok(["log", "--oneline"]).lines().count(), 20);
    assert!(place.ok(["gc", "--dry-run"]).starts_with("14 commits and "));
    assert_eq!(place.json(["gc"])["commits"], 14);
    let log = place.ok(["log", "--oneline"]);
    assert!(log.starts_with(&head));
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.len(), 8, "{log}");
    assert!(lines[5].contains("9 commits are missing") && lines[6].ends_with("number 6"), "{log}");
    assert!(lines[7].contains("5 commits are missing"), "{log}");
    let gap = place.json(["log", "-n", "5"])["commits"][4]["missing"][0].clone();
    assert_eq!(gap["commits"], 9);
    let cut = gap["parent"].as_str().unwrap();
    for id in [cut, &cut[..12]] {
        place.fails(1, &["retention has cut"], ["get", "fruit/apple", "--at", id]);
    }
    assert_eq!(place.ok(["get", "fruit/apple", "--at", "v1"]), "6");
    assert_eq!(place.ok(["get", "fruit/apple", "--at", "HEAD~4"]), "16");
    place.fails(1, &["retention has cut"], ["get", "fruit/apple", "--at", "HEAD~5"]);
    assert!(place.ok(["check"]).contains("no damage"));
    assert!(place.ok(["info"]).contains("retention     * last 5, tags/* last 1"));
    // What is kept is copied with its gaps, into a store that can say so.
    place.ok(["copy", ".", "copy"]);
    assert_eq!(place.ok(["-r", "copy", "log", "--oneline"]), log);
    assert!(place.ok(["-r", "copy", "check"]).contains("no damage"));
    // Another format cannot say so: what is lost is told, before anything is written if that is asked for.
    for to in ["conv", "git"] {
        let format: &[&str] = if to == "conv" { &["--format", "tezos"] } else { &["--format", "git"] };
        let strict = [&["copy", ".", to, "--strict"], format].concat();
        place.fails(1, &["gaps that retention left: 2"], strict);
        assert!(!place.path(to).join(".bristlecone/segments").exists());
        let report = place.json([&["copy", ".", to], format].concat());
        let gaps = |loss: &&serde_json::Value| loss["what"] == "gaps that retention left";
        assert_eq!(report["lost"].as_array().unwrap().iter().find(gaps).unwrap()["count"], 2, "{report}");
    }
    let url = format!("git+file://{}", place.path("out.git").display());
    place.fails(1, &["gaps that retention left: 2"], ["copy", ".", &url, "--strict"]);
    assert_eq!(place.json(["copy", ".", &url])["lost"][0]["count"], 2);
    place.ok(["init", "--backend", "lsm", "lsm"]);
    place.fails(2, &["retention", "disk engine"], ["copy", ".", "lsm"]);
}

#[test]
fn rules_that_several_processes_set_at_once_all_stay() {
    let place = place();
    place.ok(["upgrade"]);
    let set = |number: usize| place.command(["retention", "set", &format!("b{number}"), "last", "9"]).spawn().unwrap();
    let setting: Vec<_> = (0..12).map(set).collect();
    setting.into_iter().for_each(|mut child| assert!(child.wait().unwrap().success()));
    assert_eq!(place.ok(["retention", "list"]).lines().count(), 12);
}

#[test]
fn snapshots_have_a_limit_if_they_are_given_one() {
    let place = place();
    assert_eq!(place.json(["retention", "list"])["snapshot_limit"], serde_json::Value::Null);
    assert!(place.ok(["retention", "snapshots", "90s"]).ends_with("for 1 min 30 s at most\n"));
    assert!(place.ok(["info"]).contains("for 1 min 30 s at most"));
    assert!(place.ok(["retention", "snapshots", "1h"]).ends_with("for 1 h at most\n"));
    assert!(place.ok(["retention", "list"]).ends_with("snapshots keep what collections empty for 1 h at most\n"));
    assert!(place.ok(["info"]).contains("snapshots     keep what a collection empties for 1 h at most"));
    assert_eq!(place.json(["info"])["retention"][0], "snapshots 1h");
    // Rules leave it as it is.
    place.ok(["retention", "set", "main", "last", "5"]);
    assert_eq!(place.json(["retention", "list"])["snapshot_limit"], 3600);
    place.ok(["gc"]);
    assert!(place.ok(["info"]).lines().any(|line| line.starts_with("collected ") && line.contains(" s ago, ")));
    assert!(place.json(["info"])["collected"].as_u64().is_some_and(|time| time > 1_700_000_000));
    assert_eq!(place.json(["retention", "snapshots", "none"])["snapshot_limit"], serde_json::Value::Null);
    for wrong in ["0s", "1", "1w", "ever", "last 1h"] {
        place.fails(2, &["`1h`, or `none`"], ["retention", "snapshots", wrong]);
    }
}

#[test]
fn rules_that_are_none_and_those_that_cut_all_are_refused() {
    let place = place();
    for rule in ["last 0", "last", "first 3", "last 3w", "last -1"] {
        place.fails(2, &["last N"], ["retention", "set", "main", "--", rule]);
    }
    place.fails(2, &["pattern"], ["retention", "set", "a b", "all"]);
    place.ok(["retention", "set", "tags/*", "last", "1"]);
    place.fails(2, &["cut all of history", "--force"], ["retention", "set", "main", "last", "1"]);
    assert_eq!(place.json(["retention", "set", "main", "last", "1", "--force"])["commits"], 18);
    place.fails(1, &["no rule for trial"], ["retention", "unset", "trial"]);
    assert!(place.ok(["retention", "unset", "main"]).contains("no longer"));
    assert_eq!(place.json(["retention", "list"])["rules"].as_array().unwrap().len(), 1);
    assert_eq!(place.json(["gc"])["commits"], 0);
    for backend in ["fs", "lmdb", "lsm"] {
        place.ok(["init", "--backend", backend, backend]);
        place.ok(["-r", backend, "set", "a", "1"]);
        for option in [&[][..], &["--dry-run"]] {
            let words = [&["-r", backend, "retention", "set", "main", "last", "3"][..], option].concat();
            place.fails(2, &["keeps all commits", "disk engine"], words);
        }
        let says = [backend, "has no limit of snapshots", "disk engine"];
        place.fails(2, &says, ["-r", backend, "retention", "snapshots", "1h"]);
        assert_eq!(place.ok(["-r", backend, "gc", "--dry-run"]), "nothing would go\n");
    }
}

/// Exports to `repository`, which `git fsck` is content with, and returns the messages that Git has.
fn exported(place: &Place, repository: &str) -> Vec<String> {
    let said = place.ok(["export", "--git", repository]);
    let git = |arguments: &[&str]| {
        let run = Command::new("git").arg("-C").arg(place.path(repository)).args(arguments).output().unwrap();
        let errors = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "git {arguments:?}: {errors}{said}");
        String::from_utf8(run.stdout).unwrap()
    };
    git(&["fsck", "--strict"]);
    git(&["log", "--format=%s", "main"]).lines().map(str::to_owned).collect()
}

#[test]
fn a_history_that_was_cut_is_shallow_in_git() {
    for format in ["git", "native"] {
        let place = Place::empty();
        place.ok(["init", "--format", format]);
        let commit = |number: usize| {
            place.ok(["set", "fruit/apple", &number.to_string(), "-m", &format!("number {number}")]);
        };
        let numbers = |all: std::ops::RangeInclusive<usize>| -> Vec<String> {
            all.rev().map(|number| format!("number {number}")).collect()
        };
        (1..=10).for_each(commit);
        assert_eq!(exported(&place, "whole.git"), numbers(1..=10));
        place.ok(["retention", "set", "*", "last", "4"]);
        place.ok(["gc"]);
        assert_eq!(exported(&place, "cut.git"), numbers(7..=10), "{format}");
        let said = place.run(["export", "--git", "again.git"]).err;
        assert!(said.contains("the history is cut off at 1 commit,"), "{said}");
        // What the repository has goes on, also where its parent is gone by now.
        if format == "git" {
            place.fails(2, &["leave --hash out"], ["export", "--git", "other.git", "--hash", "sha256"]);
            commit(11);
            assert_eq!(exported(&place, "whole.git"), numbers(1..=11));
            assert_eq!(exported(&place, "cut.git"), numbers(7..=11));
            (12..=16).for_each(commit);
            place.ok(["gc"]);
            let said = place.run(["export", "--git", "whole.git"]);
            assert_eq!(said.code, 1, "{said:?}");
            assert!(said.err.contains("left where it is: refs/heads/main"), "{said:?}");
            place.ok(["export", "--git", "whole.git", "--force"]);
            assert_eq!(exported(&place, "whole.git"), numbers(13..=16));
        }
    }
}

#[test]
fn a_conversion_of_a_cut_history_hides_nothing_of_the_whole_one() {
    let place = place();
    place.ok(["copy", ".", "cut"]);
    place.ok(["-r", "cut", "retention", "set", "*", "last", "2"]);
    place.ok(["-r", "cut", "retention", "set", "tags/*", "last", "1"]);
    place.ok(["-r", "cut", "gc"]);
    place.ok(["init", "--format", "git", "to"]);
    place.ok(["copy", "cut", "to"]);
    let commits = || place.ok(["-r", "to", "log", "--oneline"]).lines().count();
    assert_eq!(commits(), 3);
    place.ok(["copy", ".", "to", "--force"]);
    assert_eq!(commits(), 20);
    // What was converted of the cut one is known as well.
    assert_eq!(place.run(["copy", "cut", "to"]).code, 1);
    assert_eq!(commits(), 20);
}

#[test]
fn the_last_commit_before_a_gap_is_shown_and_compared_with_nothing() {
    let place = place();
    place.ok(["retention", "set", "*", "last", "2"]);
    place.ok(["retention", "set", "tags/*", "last", "1"]);
    place.ok(["gc"]);
    let all = place.ok(["list"]).lines().count();
    assert!(all > 0);
    let shown = place.ok(["show", "HEAD~1"]);
    assert!(shown.lines().any(|line| line.starts_with("A ")), "{shown}");
    place.ok(["retention", "set", "*", "last", "1", "--force"]);
    place.ok(["gc"]);
    place.ok(["show"]);
    place.ok(["diff"]);
}
