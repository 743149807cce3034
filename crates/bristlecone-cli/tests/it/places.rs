//! Where stores are made: several processes at once, folders of other stores, names that are none.

use std::{ffi::OsStr, fs, os::unix::fs::symlink, thread};

use bristlecone_needs::needs;

use crate::harness::{Place, Run};

const BACKENDS: [&str; 4] = ["disk", "fs", "lmdb", "lsm"];

/// Runs a command line in so many processes at once.
fn at_once(place: &Place, processes: usize, arguments: &[&str]) -> Vec<Run> {
    thread::scope(|scope| {
        let runs: Vec<_> = (0..processes).map(|_| scope.spawn(|| place.run(arguments))).collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    })
}

#[test]
fn of_several_processes_that_make_a_store_one_does() {
    for backend in BACKENDS {
        for round in 0..4 {
            let place = Place::empty();
            if round % 2 == 1 {
                fs::create_dir_all(place.path("deep/data/.bristlecone")).unwrap();
            }
            let runs = at_once(&place, 5, &["init", "deep/data", "--backend", backend]);
            let made = runs.iter().filter(|run| run.code == 0).count();
            assert_eq!(made, 1, "{backend}: {runs:?}");
            for run in runs.iter().filter(|run| run.code != 0) {
                run.failed(2, &["there is a store already"]);
            }
            place.ok(["-r", "deep/data", "set", "a", "1"]);
            place.ok(["-r", "deep/data", "check"]);
        }
    }
}

#[needs(git)]
#[test]
fn of_several_copies_to_a_new_place_none_takes_it_from_another() {
    let place = Place::with_store();
    place.ok(["set", "a", "1"]);
    for (to, arguments) in [
        ("copy", &["copy", ".", "copy"][..]),
        ("lsm", &["copy", ".", "lsm", "--backend", "lsm"]),
        ("to.git", &["export", "--git", "to.git"]),
    ] {
        for _ in 0..3 {
            let runs = at_once(&place, 4, arguments);
            assert!(runs.iter().any(|run| run.code == 0), "{runs:?}");
            assert_eq!(place.ok(["-r", to, "get", "a"]), "1", "{runs:?}");
            fs::remove_dir_all(place.path(to)).unwrap();
        }
    }
}

#[test]
fn a_store_that_another_process_makes_is_waited_for() {
    let place = Place::empty();
    fs::create_dir_all(place.path("data/.bristlecone")).unwrap();
    let folder = fs::File::open(place.path("data/.bristlecone")).unwrap();
    folder.lock().unwrap();
    place.fails(3, &["another process is making a store", "--wait"], ["init", "data", "--wait", "0.1"]);
    let source = Place::with_store();
    let (from, to) = (source.path("."), place.path("data"));
    let copy = [from.as_os_str(), to.as_os_str()];
    let arguments = [&["--wait", "0.1", "copy"].map(OsStr::new)[..], &copy].concat();
    place.fails(3, &["another process is making a store", "--wait"], &arguments);
    fs::create_dir(place.path("data/.bristlecone/segments")).unwrap();
    place.fails(3, &["another process is making a store", "--wait"], &arguments);
    fs::remove_dir(place.path("data/.bristlecone/segments")).unwrap();
    drop(folder);
    place.ok(["init", "data"]);
}

#[test]
fn a_folder_of_a_store_takes_nothing_else() {
    let place = Place::with_store();
    place.ok(["set", "segments/00000000.seg", "overwritten"]);
    place.ok(["set", "store", "overwritten"]);
    fs::create_dir(place.path("link")).unwrap();
    symlink("../.bristlecone", place.path("link/to")).unwrap();
    for arguments in [
        &["export", ".bristlecone", "--force"][..],
        &["export", ".bristlecone/segments", "--force"],
        &["export", ".bristlecone/new/deep"],
        &["export", "link/to/segments", "--force"],
        &["export", "--git", ".bristlecone/new.git"],
        &["init", ".bristlecone/new"],
        &["init", "link/to/new"],
        &["copy", ".", ".bristlecone/new"],
        &["copy", ".", ".bristlecone/new.git", "--backend", "fs"],
    ] {
        place.fails(2, &["the folder of a store", "choose another folder"], arguments);
    }
    assert!(!place.path(".bristlecone/new").exists());
    // Nor does that of another store, to which the tree has a way.
    place.ok(["set", "deep/.bristlecone/store", "overwritten"]);
    place.ok(["init", "other/deep"]);
    place.fails(2, &["a store's own", "another folder"], ["export", "other", "--force"]);
    fs::create_dir_all(place.path("work/deep/.git")).unwrap();
    place.ok(["del", "deep/.bristlecone/store"]);
    place.ok(["set", "deep/.git/config", "overwritten"]);
    place.fails(2, &["a Git repository's own"], ["export", "work", "--force"]);
    assert!(!place.path("work/deep/.git/config").exists());
    place.ok(["check"]);
    place.ok(["-r", "other/deep", "check"]);
    // Where nothing is, such names are as any other.
    place.ok(["export", "fresh"]);
    assert_eq!(fs::read(place.path("fresh/deep/.git/config")).unwrap(), b"overwritten");
}

#[test]
fn an_empty_name_is_no_folder() {
    let place = Place::with_store();
    place.ok(["set", "a", "1"]);
    for arguments in [["copy", ".", ""], ["copy", "", "x"]] {
        place.fails(2, &["is empty", "write ."], arguments);
    }
}

#[test]
fn an_okra_map_is_told_from_a_store() {
    let place = Place::empty();
    place.ok(["map", "init", "fruit", "--kind", "okra"]);
    place.ok(["-r", "fruit", "map", "set", "apple", "red"]);
    place.fails(2, &["there is an Okra map", "hide"], ["init", "fruit"]);
    for verb in ["check", "info", "log"] {
        place.fails(3, &["is an Okra map", "cone -r fruit map"], ["-r", "fruit", verb]);
    }
    place.fails(3, &["is an Okra map", "cone -r fruit map"], ["copy", "fruit", "new"]);
    assert!(!place.path("new").exists());
    let there = Place::at(&place.path("fruit"));
    there.fails(3, &["an Okra map here", "cone map"], ["info"]);
    assert_eq!(place.ok(["-r", "fruit", "map", "get", "apple"]), "red\n");
}
