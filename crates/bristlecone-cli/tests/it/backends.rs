//! Stores in every backend that `cone init --backend` makes, from making one to copying it.

use std::fs;

use crate::{git_harness::GitPlace, harness::Place};
use bristlecone::{Native, Repo, disk::DiskOptions};
use bristlecone_needs::needs;

const BACKENDS: [&str; 4] = ["disk", "fs", "lmdb", "lsm"];

#[test]
fn every_backend_does_what_the_command_line_asks() {
    let place = Place::empty();
    for backend in BACKENDS {
        let made = place.json(["init", "--backend", backend, backend]);
        assert_eq!(made["backend"], backend);
        for (path, value) in [("fruit/apple", "red"), ("fruit/plum", "blue"), ("fruit/apple", "green")] {
            place.ok(["-r", backend, "set", path, value, "-m", path]);
        }
        assert_eq!(place.ok(["-r", backend, "get", "fruit/apple"]), "green");
        assert_eq!(place.ok(["-r", backend, "get", "fruit/apple", "--at", "HEAD~1"]), "red");
        place.ok(["-r", backend, "checkout", "-c", "side"]);
        place.ok(["-r", backend, "del", "fruit/plum"]);
        assert_eq!(place.json(["-r", backend, "info"])["branches"], 2);
        assert!(place.ok(["-r", backend, "check"]).contains("no damage"));
        let again = place.run(["init", "--backend", backend, backend]);
        assert_eq!(again.code, 2, "{again:?}");
    }
    let trees = BACKENDS.map(|backend| place.json(["-r", backend, "show", "main"])["root"].clone());
    assert!(trees.iter().all(|tree| tree.is_string() && *tree == trees[0]), "{trees:?}");
}

#[test]
fn stores_are_copied_between_any_two_backends() {
    let place = Place::empty();
    place.ok(["init", "--backend", "lsm", "first"]);
    for value in ["red", "green"] {
        place.ok(["-r", "first", "set", "fruit/apple", value, "-m", value]);
    }
    place.ok(["-r", "first", "tag", "v1"]);
    let mut from = "first".to_owned();
    for (index, backend) in ["fs", "lmdb", "disk", "lsm", "lmdb", "fs"].into_iter().enumerate() {
        let to = format!("{index}-{backend}");
        let copied = place.json(["copy", &from, &to, "--backend", backend]);
        assert_eq!(
            (&copied["made"], &copied["commits"], &copied["converted"]),
            (&true.into(), &2.into(), &false.into())
        );
        assert_eq!(place.json(["-r", &to, "info"])["backend"], backend);
        assert_eq!(place.ok(["-r", &to, "log", "--oneline"]), place.ok(["-r", "first", "log", "--oneline"]));
        assert!(place.ok(["-r", &to, "check"]).contains("no damage"));
        from = to;
    }
    // What is new since comes into the one that is there; one of another backend is named.
    place.ok(["-r", "first", "set", "fruit/plum", "blue"]);
    assert_eq!(place.json(["copy", "first", "0-fs", "--backend", "fs"])["commits"], 1);
    let other = place.run(["copy", "first", "0-fs", "--backend", "lsm"]);
    assert_eq!(other.code, 3, "{other:?}");
    assert!(other.err.contains("fs") && other.err.contains("lsm"), "{}", other.err);
    assert_eq!(place.run(["copy", "first", "memory:", "--backend", "lsm"]).code, 2);
}

#[test]
fn an_object_of_a_store_of_files_can_be_read_by_cat() {
    let place = Place::empty();
    place.ok(["init", "--backend", "fs", "."]);
    let text = "a value that is longer than what a directory keeps of it within itself";
    place.ok(["set", "note", text]);
    let objects = place.path(".bristlecone/objects");
    let folders = fs::read_dir(objects).unwrap().map(|folder| folder.unwrap().path());
    let files = folders.flat_map(|folder| fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()));
    assert_eq!(files.filter(|file| fs::read(file).unwrap().starts_with(text.as_bytes())).count(), 1);
    assert!(fs::read_to_string(place.path(".bristlecone/refs")).unwrap().contains("refs/heads/main "));
}

#[needs(git)]
#[test]
fn a_git_history_goes_into_every_backend_and_comes_out_the_same() {
    let git = GitPlace::new();
    let head = git.git(["rev-parse", "HEAD"]);
    let place = Place::empty();
    for backend in BACKENDS {
        for format in ["git", "native"] {
            let name = format!("{backend}-{format}");
            place.ok(["init", "--backend", backend, "--format", format, &name]);
            place.ok(["-r", &name, "import", "--git", git.path("").to_str().unwrap()]);
            let out = format!("{name}-out.git");
            place.ok(["-r", &name, "export", "--git", &out]);
            let same = git.git(["--git-dir", place.path(&out).to_str().unwrap(), "rev-parse", "HEAD"]);
            assert_eq!(same, head, "{name}");
        }
    }
}

#[test]
fn a_process_that_keeps_files_from_being_removed_is_named() {
    let place = Place::empty();
    place.ok(["init", "--backend", "disk", "store"]);
    let cone = |args: &[&str]| place.ok(["-r", "store"].iter().chain(args));
    let large = "x".repeat(90_000);
    cone(&["set", "large", &large]);
    let holder = Repo::<Native>::open(place.path("store").join(".bristlecone"), DiskOptions::default()).unwrap();
    let tree = holder.branch("main").unwrap().tree().unwrap();
    cone(&["retention", "set", "*", "last", "1"]);
    cone(&["set", "large", "small"]);
    cone(&["gc", "--full"]);
    let told = place.json(["-r", "store", "info"]);
    assert!(told["emptied_bytes"].as_u64().unwrap() > 90_000, "{told}");
    assert_eq!(told["readers"][0]["process"], std::process::id());
    let named = format!("process {} has read by state 0 of ", std::process::id());
    assert!(cone(&["info"]).contains(&named), "{}", cone(&["info"]));
    assert_eq!(tree.get("large").unwrap().as_deref(), Some(large.as_bytes()));
    drop((tree, holder));
    cone(&["gc"]);
    let told = place.json(["-r", "store", "info"]);
    assert_eq!((&told["emptied_bytes"], &told["readers"]), (&0.into(), &serde_json::json!([])));
}

#[test]
fn what_no_ref_leads_to_is_removed_and_nothing_else() {
    let place = Place::empty();
    for backend in ["disk", "fs", "lmdb", "lsm"] {
        place.ok(["init", "--backend", backend, backend]);
        let cone = |args: &[&str]| place.ok(["-r", backend].iter().chain(args));
        let gc = || place.json(["-r", backend, "gc", "--grace", "0"]);
        cone(&["set", "fruit/apple", "red"]);
        cone(&["set", "fruit/apple", "green"]);
        assert_eq!((&gc()["objects"], &gc()["repacked"]), (&0.into(), &false.into()), "{backend}");
        cone(&["checkout", "-c", "trial"]);
        cone(&["set", "large", &"x".repeat(70_000)]);
        cone(&["checkout", "main"]);
        assert_eq!(gc()["objects"], 0, "{backend}: a branch leads there");
        let kept = cone(&["log"]);
        cone(&["branches", "--delete", "trial", "--force"]);
        if backend == "disk" {
            assert_eq!(place.json(["-r", backend, "gc"])["objects"], 0, "it may be wanted again within a day");
        }
        let removed = gc();
        // The commit, its root and the value.
        assert_eq!(removed["objects"], 3, "{backend}: {removed}");
        assert!(removed["bytes"].as_u64().unwrap() > 70_000, "{backend}: {removed}");
        assert!(place.ok(["-r", backend, "gc", "--grace", "0"]).contains("nothing to remove"));
        assert_eq!(cone(&["log"]), kept);
        assert_eq!(cone(&["get", "fruit/apple", "--at", "HEAD~1"]), "red");
        assert!(cone(&["check"]).contains("no damage"));
    }
    place.fails(2, &["such as 90m"], ["-r", "disk", "gc", "--grace", "soon"]);
    assert_eq!(place.json(["-r", "disk", "upgrade"])["upgraded"], false);
}

#[needs(git)]
#[test]
fn in_a_git_repository_packs_are_put_together() {
    let place = GitPlace::new();
    place.git(["branch", "side"]);
    for value in ["red", "green", "blue"] {
        place.ok(["set", "fruit/apple", value, "-m", value, "-b", "side"]);
        place.git(["repack", "-q"]);
    }
    let packs = || {
        let files = fs::read_dir(place.path(".git/objects/pack")).unwrap();
        files.filter(|file| file.as_ref().unwrap().path().extension().is_some_and(|end| end == "pack")).count()
    };
    let log = place.ok(["log", "--oneline", "-b", "side"]);
    assert!(packs() > 1);
    place.fails(2, &["`git gc` removes", "leave --dry-run out"], ["gc", "--dry-run"]);
    assert_eq!(place.json(["gc"])["repacked"], true);
    assert_eq!(packs(), 1);
    place.git(["fsck", "--strict"]);
    assert_eq!(place.ok(["log", "--oneline", "-b", "side"]), log);
}
