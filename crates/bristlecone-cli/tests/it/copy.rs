//! `cone copy`: stores copied into each other as people do it.

use std::{fs, process::Stdio, thread, time::Duration};

use bristlecone::{Durability, Info, Repo, Signature, disk::DiskOptions};
use bristlecone_needs::needs;
use bristlecone_testkit::{
    crash::step,
    generate::Rng,
    git::{Git, Shapes, shapes},
};
use serde_json::Value;

use crate::{
    git_harness::GitPlace,
    harness::{Place, Run},
};

/// A folder with a store `a` of some commits, two branches and a tag.
fn with_history() -> Place {
    let place = Place::empty();
    place.ok(["init", "a"]);
    place.ok(["-r", "a", "set", "fruit/apple", "red"]);
    place.ok(["-r", "a", "set", "fruit/plum", "blue"]);
    place.ok(["-r", "a", "branches", "side", "--at", "HEAD~1"]);
    place.ok(["-r", "a", "tag", "-a", "-m", "first", "v1"]);
    place
}

fn log(place: &Place, store: &str) -> Value {
    place.json(["-r", store, "log", "--all"])["commits"].clone()
}

fn states(report: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    report["refs"].as_array().unwrap().iter().map(|one| (text(&one["name"]), text(&one["state"]))).collect()
}

fn all_are(report: &Value, state: &str) -> bool {
    !states(report).is_empty() && states(report).iter().all(|(_, found)| found == state)
}

#[test]
fn a_store_is_copied_into_one_that_is_made_and_then_what_is_new() {
    let place = with_history();
    let report = place.json(["copy", "a", "b"]);
    assert_eq!((&report["made"], &report["converted"], &report["commits"]), (&true.into(), &false.into(), &2.into()));
    assert!(all_are(&report, "new") && report["head"] == "refs/heads/main", "{report}");
    assert_eq!((report["from"].as_str(), report["to"].as_str()), (Some("a"), Some("b")));
    assert_eq!(log(&place, "b"), log(&place, "a"));
    assert_eq!(place.ok(["-r", "b", "show", "v1"]), place.ok(["-r", "a", "show", "v1"]));
    place.ok(["-r", "b", "check"]);
    place.ok(["-r", "a", "set", "fruit/pear", "green"]);
    let planned = place.json(["copy", "a", "b", "--dry-run"]);
    assert_eq!((&planned["commits"], &planned["dry_run"]), (&1.into(), &true.into()));
    assert_ne!(log(&place, "b"), log(&place, "a"), "nothing was written");
    let report = place.json(["copy", "a", "b"]);
    assert_eq!((&report["made"], &report["commits"], &report["refs"]), (&false.into(), &1.into(), &planned["refs"]));
    assert_eq!(log(&place, "b"), log(&place, "a"));
    let again = place.json(["copy", "a", "b"]);
    assert!(again["commits"] == 0 && again["objects"] == 0 && all_are(&again, "same"), "{again}");
    // As people see it.
    let run = place.run(["copy", "a", "c"]);
    assert!(run.code == 0 && run.out == b"copied a to c\n", "{run:?}");
    assert!(run.err.contains("HEAD is main\n3 commits, ") && run.err.contains("3 refs in "), "{}", run.err);
    // What would be made is not.
    let run = place.run(["copy", "a", "d", "--dry-run"]);
    assert!(run.code == 0 && run.err.contains("3 commits, 3 refs; nothing was written"), "{run:?}");
    assert!(!place.path("d").exists());
}

#[test]
fn chosen_refs_are_copied_alone() {
    let place = with_history();
    place.ok(["copy", "a", "b", "-b", "side"]);
    assert_eq!(place.json(["-r", "b", "branches"])["branches"].as_array().unwrap().len(), 1);
    assert_eq!(log(&place, "b").as_array().unwrap().len(), 1);
    let report = place.json(["copy", "a", "b", "--ref", "v1", "--ref", "refs/heads/m*"]);
    let names: Vec<_> = states(&report).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["refs/heads/main", "refs/tags/v1"]);
    place.fails(1, &["no ref of", "matches \"nothing\"", "`cone branches`"], ["copy", "a", "b", "--ref", "nothing"]);
    place.fails(1, &["no ref of", "refs/heads/gone"], ["copy", "a", "b", "-b", "gone"]);
}

#[test]
fn a_ref_that_would_let_go_of_commits_stays_and_the_others_are_copied() {
    let place = with_history();
    place.ok(["copy", "a", "b"]);
    place.ok(["-r", "b", "set", "own", "1"]);
    place.ok(["-r", "a", "set", "other", "1"]);
    place.ok(["-r", "a", "-b", "side", "set", "other", "2"]);
    let run = place.run(["copy", "a", "b"]);
    assert_eq!(run.code, 1);
    assert!(run.err.contains("left where it is: refs/heads/main (") && run.err.contains("--force"), "{}", run.err);
    assert_eq!(place.ok(["-r", "b", "get", "own"]), "1");
    assert_eq!(place.ok(["-r", "b", "get", "other", "--at", "side"]), "2");
    place.ok(["copy", "a", "b", "--force"]);
    place.fails(1, &["nothing at own"], ["-r", "b", "get", "own"]);
    assert_eq!(log(&place, "b"), log(&place, "a"));
}

#[test]
fn what_another_format_cannot_keep_is_said_and_strict_writes_nothing() {
    let place = with_history();
    let file = place.file("folder/run", "#!/bin/sh\n");
    fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink("run", place.path("folder/link")).unwrap();
    place.ok(["-r", "a", "import", "folder", "--path", "bin"]);
    let says = ["the format tezos cannot keep", "executable bits: 1, first bin/run in commit", "links: 1", "--strict"];
    place.fails(1, &says, ["copy", "a", "t", "--format", "tezos", "--strict"]);
    assert!(!place.path("t").exists(), "what was made is gone again");
    let run = place.run(["-o", "json", "copy", "a", "t", "--format", "tezos"]);
    let report: Value = serde_json::from_slice(&run.out).unwrap();
    assert!(run.code == 0 && report["converted"] == true && report["format"] == "tezos", "{run:?}");
    let lost = report["lost"].as_array().unwrap();
    let found: Vec<_> =
        lost.iter().map(|one| (one["what"].as_str().unwrap(), one["count"].as_u64().unwrap())).collect();
    assert_eq!(found, [("executable bits", 1), ("links", 1), ("annotated tags", 1)]);
    assert_eq!((&lost[1]["place"], lost[1]["commit"].as_str().map(str::len)), (&"bin/link".into(), Some(64)));
    assert_eq!((&lost[2]["place"], &lost[2]["commit"]), (&"refs/tags/v1".into(), &Value::Null));
    assert!(run.err.contains("not kept: links: 1, first bin/link in commit "), "{}", run.err);
    assert_eq!(place.ok(["-r", "t", "get", "bin/link"]), "run");
    place.ok(["-r", "t", "check"]);
    // Only what is new is converted, and told.
    place.ok(["-r", "a", "set", "more", "1"]);
    let report = place.json(["copy", "a", "t"]);
    assert_eq!((&report["commits"], report["lost"].as_array().unwrap().len()), (&1.into(), 1), "the tag again");
}

#[test]
fn a_name_of_a_git_repository_makes_a_store_and_that_is_told() {
    let place = with_history();
    let note = "note: this makes a store in b.git, no Git repository, which the url git+file:///PATH makes\n";
    for more in [&["--dry-run"][..], &[]] {
        let run = place.run([&["copy", "a", "b.git"], more].concat());
        assert!(run.code == 0 && run.err.contains(note), "{run:?}");
    }
    // What is there, and what a url makes, is known.
    let url = format!("git+file://{}", place.path("c.git").display());
    for to in ["b.git", &url, "d"] {
        let run = place.run(["copy", "a", to]);
        assert!(run.code == 0 && !run.err.contains("note: this makes"), "{run:?}");
    }
}

#[test]
fn what_cannot_be_copied_is_named() {
    let place = with_history();
    place.fails(2, &["a/.bristlecone is the store that is to be copied"], ["copy", "a", "a/.bristlecone"]);
    place.ok(["init", "empty"]);
    place.fails(1, &["has no branch and no tag", "nothing to copy"], ["copy", "empty", "new"]);
    place.fails(1, &["nothing to copy"], ["copy", "memory:", "new"]);
    assert!(!place.path("new").exists());
    place.fails(3, &["no store in gone"], ["copy", "gone", "new"]);
    place.file("full/notes.txt", "mine");
    place.fails(2, &["full holds something that is no store", "cone init"], ["copy", "a", "full"]);
    for more in [&["--backend", "lsm"][..], &["--backend", "disk"], &["--dry-run"]] {
        place.fails(2, &["full holds something that is no store"], [&["copy", "a", "full"], more].concat());
    }
    assert_eq!(fs::read_dir(place.path("full")).unwrap().count(), 1);
    place.file("file", "mine");
    place.fails(3, &["file"], ["copy", "a", "file"]);
    assert_eq!(fs::read(place.path("file")).unwrap(), b"mine");
    place.ok(["init", "t", "--format", "tezos"]);
    let says = ["is a store of the format tezos, and git was asked for"];
    place.fails(2, &says, ["copy", "a", "t", "--format", "git"]);
    // Another backend than was named.
    let says = ["this is a store of the backend disk, and one of lsm was asked for", "another place"];
    place.fails(3, &says, ["copy", "a", "t", "--backend", "lsm"]);
    let url = format!("lsm+file://{}", place.path("a/.bristlecone").display());
    place.fails(3, &["a store of the backend disk, and one of lsm was asked for"], ["-r", &url, "list"]);
    let says = ["lsm:///x names no store", "memory:"];
    place.fails(2, &says, ["copy", "a", "lsm:///x"]);
    place.fails(2, &["cone copy FROM TO"], ["-r", "a", "copy", "a", "b"]);
    place.fails(2, &[], ["copy", "a"]);
    // Locked by another process.
    place.ok(["copy", "a", "b"]);
    place.ok(["-r", "a", "set", "x", "1"]);
    let lock = fs::File::options().write(true).open(place.path("b/.bristlecone/lock")).unwrap();
    lock.lock().unwrap();
    place.fails(3, &["locked by", "b/.bristlecone"], ["--wait", "0.1", "copy", "a", "b"]);
    drop(lock);
    place.ok(["copy", "a", "b"]);
    // Damage is met on the way, and no ref moves.
    place.ok(["-r", "a", "set", "damaged", &"this value will be flipped".repeat(9)]);
    Place::at(&place.path("a")).flip(b"will be flipped");
    let before = log(&place, "b");
    place.fails(3, &["damaged"], ["copy", "a", "b"]);
    assert_eq!(log(&place, "b"), before);
}

/// A store of many commits, each of some values.
fn long_history(place: &Place, name: &str, commits: usize) {
    place.ok(["init", name]);
    let repo = Repo::open(place.path(name).join(".bristlecone"), DiskOptions::default()).unwrap();
    let main = repo.branch("main").unwrap();
    let (mut tree, mut rng) = (repo.tree(), Rng::new(9));
    for number in 0..commits {
        for _ in 0..3 {
            tree.set(format!("{}/{}", rng.below(20), rng.below(50)), rng.bytes(300)).unwrap();
        }
        let who = Signature::new("Ann <ann@example.org>", number as i64);
        main.commit(&mut tree, &Info::message("m").by(who).durability(Durability::None)).unwrap();
    }
    repo.flush().unwrap();
}

#[test]
fn a_copy_that_is_killed_at_any_moment_goes_on_when_it_is_run_again() {
    let place = Place::empty();
    long_history(&place, "a", 1500);
    let mut rng = Rng::new(4);
    for (format, seed) in [("native", 1), ("tezos", 2), ("native", 3), ("git", 4)] {
        let to = format!("to-{seed}");
        place.ok(["init", &to, "--format", format]);
        let mut killed = 0;
        loop {
            let mut child =
                place.command(["copy", "a", &to]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            thread::sleep(Duration::from_millis(5 + rng.below(120)));
            if killed >= step(6, 12) {
                assert!(child.wait().unwrap().success());
                break;
            }
            if child.try_wait().unwrap().is_some() {
                break;
            }
            child.kill().unwrap();
            child.wait().unwrap();
            killed += 1;
            place.ok(["-r", &to, "check"]);
        }
        assert!(killed > 0, "{format}: it was never killed");
        assert!(all_are(&place.json(["copy", "a", &to]), "same"));
        place.ok(["-r", &to, "check"]);
        assert_eq!(log(&place, &to).as_array().unwrap().len(), 1500);
        let trees: Vec<_> = ["a", &to].map(|store| place.ok(["-r", store, "tree"])).into();
        assert!(trees[0] == trees[1] && trees[0].len() > 1000, "{format}");
    }
}

#[needs(git)]
#[test]
fn git_goes_over_and_comes_back_with_the_same_ids() {
    let place = Place::empty();
    let small = Shapes { linear: 20, wide: 100, deep: 20, refs: 10, ..Shapes::default() };
    let git = shapes(place.path("git"), &small);
    let refs = ["for-each-ref", "--format=%(objectname) %(refname) %(symref)"];
    for format in ["native", "git"] {
        let (store, back) = (format!("{format}-store"), format!("git+file://{}", place.path(format).display()));
        let report = place.json(["copy", "git", &store, "--format", format, "--strict"]);
        assert_eq!((&report["converted"], report["lost"].as_array().unwrap().len()), (&(format == "native").into(), 0));
        place.ok(["copy", &store, &back]);
        let made = Git::new(place.path(format));
        assert_eq!(made.text(&refs), git.text(&refs));
        assert_eq!(made.text(&["symbolic-ref", "HEAD"]), git.text(&["symbolic-ref", "HEAD"]));
        made.fsck();
        let again = place.json(["copy", &store, &back]);
        assert!(again["commits"] == 0 && all_are(&again, "same"), "{again}");
    }
}

#[needs(git)]
#[test]
fn a_branch_that_git_has_checked_out_stays() {
    let place = GitPlace::new();
    let name = place.path("").display().to_string();
    let copied = Place::empty();
    copied.ok(["copy", &name, "b"]);
    copied.ok(["-r", "b", "set", "fruit/apple", "green"]);
    copied.ok(["-r", "b", "branches", "new"]);
    let run = copied.run(["copy", "b", &name]);
    assert!(run.code == 1 && run.err.contains("left where it is: refs/heads/main (Git has it checked out"), "{run:?}");
    assert_eq!(place.git(["show", "new:fruit/apple"]), "green");
    assert_eq!(place.text("fruit/apple"), "red\n");
    assert_eq!(place.git(["status", "--porcelain"]), "");
}

#[needs(git)]
#[test]
fn a_ref_of_git_whose_name_is_no_text_is_left_out_and_named() {
    let place = GitPlace::new();
    let head = place.git(["rev-parse", "HEAD"]);
    let packed = [format!("{} refs/tags/caf", head.trim()).as_bytes(), b"\xe9\n"].concat();
    fs::write(place.path(".git/packed-refs"), packed).unwrap();
    let (copied, name) = (Place::empty(), place.path("").display().to_string());
    let run = copied.run(["-o", "json", "copy", &name, "b"]);
    assert!(run.code == 1 && run.err.contains("left out: refs/tags/caf%E9 (its name is not UTF-8"), "{run:?}");
    let report: Value = serde_json::from_slice(&run.out).unwrap();
    assert!(report["unnamed"].as_array().unwrap().len() == 1 && all_are(&report, "new"), "{report}");
}

#[cfg(feature = "lab")]
#[test]
fn a_tezos_chain_becomes_a_history_of_another_format_entry_by_entry() {
    let place = Place::empty();
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/tezos/synthetic-early-101commits.repr");
    place.ok(["-r", "chain", "replay", "tezos", trace]);
    let listing = |store: &str, at: &str| {
        let entries = place.json(["-r", store, "tree", "--at", at])["entries"].clone();
        let entries = entries.as_array().unwrap().iter().map(|entry| (entry["path"].clone(), entry["kind"].clone()));
        entries.collect::<Vec<_>>()
    };
    let values = |store: &str| {
        let out = format!("{store}-files");
        place.ok(["-r", store, "export", &out]);
        Run::of(place.shell("cd \"$2\" && find . -type f | sort | xargs sha256sum", &["-", &out])).out
    };
    let expected = listing("chain", "HEAD");
    // Commits that the chain went back on are in no branch.
    let commits = log(&place, "chain").as_array().unwrap().len();
    assert!(expected.len() > 100, "{}", expected.len());
    for format in ["native", "git"] {
        let report = place.json(["copy", "chain", format, "--format", format]);
        assert_eq!((&report["commits"], &report["lost"]), (&commits.into(), &Value::Array(Vec::new())), "{report}");
        place.ok(["-r", format, "check"]);
        for at in ["HEAD", "HEAD~50"] {
            assert!(listing(format, at) == listing("chain", at), "{format} {at}");
        }
        assert!(values(format) == values("chain"), "{format}");
        fs::remove_dir_all(place.path("chain-files")).unwrap();
        let told = |store: &str| -> Vec<(Value, Value)> {
            let log = log(&place, store);
            log.as_array().unwrap().iter().map(|one| (one["message"].clone(), one["author"].clone())).collect()
        };
        assert_eq!(told(format), told("chain"));
    }
}

#[test]
fn a_copy_that_leaves_entries_out_ends_with_a_negative_answer() {
    let place = Place::with_store();
    place.ok(["set", ".git/config=1", "ok=3"]);
    let run = place.run(["-o", "json", "copy", ".", "other", "--format", "git"]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.err.contains("entries of such names: 1 left out, first .git in"), "{}", run.err);
    assert_eq!(place.ok(["-r", "other", "list"]), "ok\n");
}

#[test]
fn urls_in_the_help_are_taken() {
    let help = Place::empty().ok(["copy", "--help"]);
    let urls = help.split_whitespace().filter(|word| word.contains("://")).map(|word| word.trim_end_matches(','));
    let urls: Vec<&str> = urls.collect();
    assert!(urls.len() > 2, "{help}");
    for url in urls {
        bristlecone_any::Place::parse(url).unwrap();
    }
}
