//! The whole life of a store in each format, and what only some of them can hold.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, symlink},
};

use crate::harness::Place;

/// A folder with an empty store of this format.
fn store(format: &str) -> Place {
    let place = Place::empty();
    assert_eq!(place.json(["init", "--format", format])["format"], format);
    place
}

/// Every command, from an empty store to a damaged one.
fn life(format: &str) {
    let place = store(format);
    begin(&place, format);
    values(&place);
    history(&place);
    folders(&place);
    assert!(place.ok(["check"]).contains("no damage"));
    damage(&place);
}

/// Nothing is there, and every command says so.
fn begin(place: &Place, format: &str) {
    let info = place.json(["info"]);
    assert_eq!((&info["format"], &info["commit"]), (&format.into(), &().into()));
    assert!(place.ok(["info"]).contains(&format!("format        {format} version ")));
    for quiet in [&["list"][..], &["branches"], &["diff"], &["log"]] {
        assert_eq!(place.ok(quiet), "", "{quiet:?}");
    }
    assert_eq!(place.ok(["tree"]), ".\n\n0 directories, 0 values\n");
    assert!(place.ok(["check"]).contains("no damage"));
    place.fails(1, &["no commits yet"], ["show"]);
    place.fails(1, &["nothing at a"], ["get", "a"]);
    place.fails(1, &["nothing at a"], ["del", "a"]);
    place.ok(["export", "nothing"]);
    assert_eq!(fs::read_dir(place.path("nothing")).unwrap().count(), 0);
}

fn values(place: &Place) {
    let large: Vec<u8> = (0..500_000u32).flat_map(|n| (n ^ n << 9).to_le_bytes()).collect();
    assert_eq!(place.feed(["set", "large", "-"], &large).code, 0);
    assert!(place.run(["get", "large"]).out == large);
    for n in 0..300 {
        place.file(format!("wide/{n:03}"), format!("value {n}"));
    }
    place.ok(["import", "wide", "--path", "wide"]);
    assert_eq!(place.ok(["list", "wide", "--after", "123", "--limit", "2"]), "124\n125\n");
    assert_eq!(place.ok(["list", "wide", "--prefix", "29", "--reverse", "--limit", "1"]), "299\n");
    assert_eq!(place.ok(["get", "wide/077"]), "value 77");
    let before = place.json(["show"])["root"].clone();
    place.ok(["set", "a/b/c", "1"]);
    assert!(place.ok(["set", "a/b/c", "1"]).contains("nothing changed"));
    assert_eq!(place.ok(["tree", "a"]), "a\n└── b/\n    └── c\n\n1 directory, 1 value\n");
    place.ok(["del", "a/b/c"]);
    assert_eq!(place.json(["show"])["root"], before, "roots are a matter of what is there");
    assert_eq!(place.ok(["list"]), "large\nwide/\n");
    assert_eq!(place.ok(["get", "a/b/c", "--at", "HEAD~1"]), "1");
}

fn history(place: &Place) {
    place.ok(["checkout", "-c", "trial"]);
    place.ok(["set", "wide/077", "other", "-m", "another value"]);
    place.ok(["set", "new", "1"]);
    place.ok(["del", "large"]);
    assert_eq!(place.ok(["diff", "main", "trial"]), "D large\nA new\nM wide/077\n");
    assert_eq!(place.run(["diff", "main", "trial", "--exit-code"]).code, 1);
    assert!(place.ok(["log", "wide/077", "-n", "1"]).contains("another value"));
    assert_eq!(place.json(["log", "wide"])["commits"].as_array().unwrap().len(), 2);
    let commit = place.json(["show", "trial~1"]);
    assert_eq!(commit["differences"][0]["path"], "new");
    assert_eq!(commit["author"]["ident"], "Ann <ann@example.org>");
    let id = commit["commit"].as_str().unwrap();
    assert!(place.ok(["show", &id[..10]]).starts_with(&format!("commit {id}")));
    let dir = place.json(["list"])["entries"][1]["oid"].as_str().unwrap().to_owned();
    assert!(place.ok(["show", &dir]).contains(" 123\n"));
    place.ok(["checkout", "main"]);
    assert_eq!(place.ok(["get", "wide/077"]), "value 77");
    place.ok(["checkout", "trial~1"]);
    place.ok(["branches", "back"]);
    place.ok(["checkout", "trial"]);
    assert_eq!(place.ok(["branches"]).lines().count(), 3);
    place.ok(["branches", "-d", "back"]);
}

fn folders(place: &Place) {
    for (name, bytes) in [("in/plain", &b"text\n"[..]), ("in/deep/er/odd\n", b"\xff"), ("in/empty", b"")] {
        place.file(name, bytes);
    }
    let done = place.json(["import", "in", "-b", "folder"]);
    assert_eq!((&done["files"], &done["dirs"], &done["left_out"]), (&3.into(), &2.into(), &serde_json::json!([])));
    place.ok(["export", "out", "--at", "folder"]);
    for name in ["plain", "deep/er/odd\n", "empty"] {
        assert_eq!(fs::read(place.path("in").join(name)).unwrap(), fs::read(place.path("out").join(name)).unwrap());
    }
}

fn damage(place: &Place) {
    place.ok(["checkout", "-c", "hurt"]);
    place.ok(["set", "bad", &"target of a flipped bit ".repeat(40)]);
    place.flip(b"target of a flipped bit");
    let run = place.run(["check"]);
    let text = String::from_utf8(run.out).unwrap();
    assert!(run.code == 1 && text.contains("damage: ") && text.contains("affected: refs/heads/hurt\n"), "{text}");
    assert!(!text.contains("affected: refs/heads/trial"), "{text}");
    place.fails(3, &["cone check"], ["get", "bad"]);
    assert_eq!(place.ok(["get", "new"]), "1");
}

#[test]
fn a_native_store_from_its_first_day_to_its_last() {
    life("native");
}

#[test]
fn executables_and_links_are_plain_values_where_that_is_wanted() {
    let place = store("native");
    folder_of_all_kinds(&place);
    let done = place.json(["import", "in", "--plain"]);
    assert_eq!((&done["files"], &done["plain"], &done["links"]), (&4.into(), &3.into(), &0.into()));
    assert_eq!(
        place.ok(["tree"]),
        ".\n├── bin/\n│   ├── link\n│   └── run\n├── latest\n└── plain\n\n1 directory, 4 values\n"
    );
    assert_eq!(place.ok(["get", "bin/link"]), "../plain");
}

/// A file, an executable and two links.
fn folder_of_all_kinds(place: &Place) {
    place.file("in/plain", "text");
    fs::set_permissions(place.file("in/bin/run", "#!"), Permissions::from_mode(0o755)).unwrap();
    symlink("../plain", place.path("in/bin/link")).unwrap();
    symlink("plain", place.path("in/latest")).unwrap();
}

#[test]
fn options_that_a_format_does_not_have_are_refused() {
    let place = Place::empty();
    place.fails(2, &["nope", "native"], ["init", "--format", "nope"]);
    place.fails(2, &["512"], ["init", "--inline", "513"]);
    assert!(!place.path(".bristlecone").exists());
}
