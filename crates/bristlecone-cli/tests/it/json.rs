//! The shapes of JSON that `docs/cli.md` promises.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use serde_json::{Value, json};

use crate::harness::Place;

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn every_command_prints_one_document() {
    let place = Place::empty();
    let made = place.json(["init"]);
    assert_eq!(keys(&made), ["store", "format", "format_version", "options", "backend", "branch"]);
    let set = place.json(["set", "a/b", "1"]);
    assert_eq!(keys(&set), ["branch", "commit", "root", "changed", "path", "values", "bytes"]);
    assert_eq!(keys(&place.json(["set", "a/c", "1"])), keys(&set));
    assert_eq!(keys(&place.json(["del", "a/c"])), ["branch", "commit", "root", "changed", "path"]);
    let got = place.json(["get", "a/b"]);
    assert_eq!(got, json!({"path": "a/b", "kind": "value", "bytes": 1, "value": "1"}));
    let list = place.json(["list", "a"]);
    assert_eq!(list, json!({"path": "a", "entries": [{"step": "b", "kind": "value", "bytes": 1}]}));
    let tree = place.json(["tree"]);
    assert_eq!(keys(&tree), ["path", "entries", "dirs", "values"]);
    assert_eq!(tree["entries"][1], json!({"depth": 2, "path": "a/b", "kind": "value", "bytes": 1}));
    let log = place.json(["log", "-n", "1"]);
    let fields = ["commit", "root", "parents", "generation", "author", "committer", "headers", "message"];
    assert_eq!(keys(&log["commits"][0]), fields);
    assert_eq!(
        log["commits"][0]["author"],
        json!({
            "ident": "Ann <ann@example.org>", "seconds": 1_700_000_000, "zone": "+0000"
        })
    );
    assert_eq!(keys(&place.json(["show"])), [&["kind"], &fields[..], &["differences"]].concat());
    let diff = place.json(["diff", "HEAD~2", "HEAD~1"]);
    assert_eq!(keys(&diff), ["before", "after", "path", "differences"]);
    let added = json!({"change": "added", "path": "a/c", "before": null, "after": {"kind": "value", "bytes": 1}});
    assert_eq!(diff["differences"], json!([added]));
    let branches = place.json(["branches"]);
    assert_eq!(keys(&branches), ["head", "detached", "branches"]);
    assert_eq!(keys(&branches["branches"][0]), ["name", "commit", "checked_out"]);
    assert_eq!(keys(&place.json(["branches", "x"])), ["branch", "commit"]);
    assert_eq!(keys(&place.json(["checkout", "x"])), ["head", "detached", "commit"]);
    assert_eq!(place.json(["check"])["sound"], true);
    assert_eq!(place.json(["info"])["durability"], json!(["none", "grouped", "synced"]));
    let counted = place.json(["info", "--stats"]);
    let plain = keys(&place.json(["info"])).len();
    assert_eq!((keys(&counted).len(), keys(&counted)[plain]), (plain + 1, "stats"));
    let counted = &counted["stats"];
    let fields = [
        "reads",
        "absent",
        "read_bytes",
        "located",
        "appends",
        "objects",
        "appended_bytes",
        "read_ns",
        "append_ns",
        "sync_ns",
    ];
    assert_eq!(keys(counted), fields);
    // Commits, a directory or two, and values.
    let (reads, bytes) = (counted["reads"].as_u64().unwrap(), counted["read_bytes"].as_u64().unwrap());
    assert!(reads >= 3 && bytes > reads && counted["absent"] == 0 && counted["appends"] == 0, "{counted}");
    assert_eq!((&counted["read_ns"]["timed"], &counted["sync_ns"]["p50"]), (&reads.into(), &().into()));
    let (half, max) = (counted["read_ns"]["p50"].as_u64().unwrap(), counted["read_ns"]["max"].as_u64().unwrap());
    assert!(half > 0 && half <= max);
    assert!(place.ok(["info", "--stats"]).contains("\nread          "));
}

#[test]
fn what_is_not_utf8_is_in_hexadecimal_beside() {
    let place = Place::with_store();
    place.ok([OsStr::new("set"), OsStr::from_bytes(b"\xff"), OsStr::from_bytes(b"\xfe")]);
    let got = place.json(["get", "%FF"]);
    let wanted = json!({"path": "%FF", "path_hex": "ff", "kind": "value", "bytes": 1, "value_hex": "fe"});
    assert_eq!(got, wanted);
    assert_eq!(place.json(["list"])["entries"][0]["step_hex"], "ff");
    assert_eq!(place.json(["diff"])["differences"][0]["path_hex"], "ff");
}

#[test]
fn empty_lists_are_lists() {
    let place = Place::with_store();
    assert_eq!(place.json(["list"]), json!({"path": "", "entries": []}));
    assert_eq!(place.json(["log"]), json!({"commits": []}));
    assert_eq!(place.json(["branches"])["branches"], json!([]));
    assert_eq!(place.json(["diff"])["differences"], json!([]));
}
