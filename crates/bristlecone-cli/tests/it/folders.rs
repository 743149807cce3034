//! Importing and exporting folders: byte for byte, with what a tree cannot hold left out by name.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs::{self, Permissions},
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::{MetadataExt, PermissionsExt, symlink},
    },
    path::Path,
};

use crate::harness::Place;

/// What is in a folder: kind and bytes by name; empty folders do not count.
fn contents(top: &Path) -> BTreeMap<Vec<u8>, (char, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut stack = vec![top.to_owned()];
    while let Some(dir) = stack.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(top).unwrap().as_os_str().as_bytes().to_vec();
            let kind = fs::symlink_metadata(&path).unwrap();
            if kind.is_dir() {
                stack.push(path);
            } else if kind.is_symlink() {
                found.insert(name, ('l', fs::read_link(&path).unwrap().into_os_string().into_vec()));
            } else {
                let sign = if kind.mode() & 0o111 != 0 { 'x' } else { '-' };
                found.insert(name, (sign, fs::read(&path).unwrap()));
            }
        }
    }
    found
}

/// Fills `files` with all that a folder may hold.
fn fill(place: &Place) {
    place.file("files/empty", "");
    place.file("files/plain", "text\n");
    place.file("files/deep/a/b/c/d/e", "far down");
    place.file("files/large", (0..3_000_000u32).flat_map(|n| (n ^ n << 7).to_le_bytes()).collect::<Vec<u8>>());
    place.file("files/edge", vec![7; 4096]);
    for name in [&b"new\nline"[..], b"\xff\xfe", b"100%", b" ", b"-x", b"\\", "\u{e9}".as_bytes()] {
        place.file(Path::new("files/odd").join(OsStr::from_bytes(name)), name);
    }
    place.file("files/long".to_owned() + &"n".repeat(251), "long name");
    let script = place.file("files/bin/script", "#!/bin/sh\n");
    fs::set_permissions(script, Permissions::from_mode(0o755)).unwrap();
    symlink("../plain", place.path("files/bin/link")).unwrap();
    symlink("/nowhere/at/all", place.path("files/dangling")).unwrap();
    symlink("deep/a", place.path("files/to-folder")).unwrap();
    symlink(OsStr::from_bytes(b"\xff"), place.path("files/odd-link")).unwrap();
    for n in 0..700 {
        place.file(format!("files/wide/{n:03}"), vec![n as u8; n * 16]);
        if n % 7 == 0 {
            place.file(format!("files/many/{n}/x/file"), format!("{n}"));
        }
    }
}

#[test]
fn a_folder_comes_back_as_it_was() {
    let place = Place::with_store();
    fill(&place);
    let imported = place.json(["import", "files", "-m", "all of it"]);
    let wanted = contents(&place.path("files"));
    let count = |sign| wanted.values().filter(|(kind, _)| *kind == sign).count() as u64;
    assert_eq!((&imported["files"], &imported["links"]), (&count('-').into(), &count('l').into()));
    assert_eq!(imported["executables"], 1);
    assert_eq!(imported["left_out"], serde_json::json!([]));
    place.ok(["export", "out"]);
    assert!(contents(&place.path("out")) == wanted, "the folders differ");
    assert_eq!(place.json(["log"])["commits"].as_array().unwrap().len(), 1);
    assert!(place.ok(["check"]).contains("no damage"));
    let again = place.json(["import", "files"]);
    assert_eq!((&again["changed"], &again["root"]), (&false.into(), &imported["root"]));
}

#[test]
fn the_root_is_that_of_the_same_values_set_one_by_one() {
    let place = Place::with_store();
    fill(&place);
    let imported = place.json(["import", "files"]);
    let repo = bristlecone::Repo::memory();
    let mut tree = repo.tree();
    for (name, (sign, bytes)) in contents(&place.path("files")) {
        let kind = match sign {
            'l' => bristlecone::EntryKind::Link,
            'x' => bristlecone::EntryKind::Executable,
            _ => bristlecone::EntryKind::Value,
        };
        tree.set_kind(bristlecone::Path::from_bytes(name).unwrap(), kind, bytes).unwrap();
    }
    assert_eq!(imported["root"], tree.root().unwrap().to_string());
}

#[test]
fn an_import_replaces_what_was_there_and_nothing_else() {
    let place = Place::with_store();
    place.ok(["set", "keep", "1"]);
    place.ok(["set", "in/old", "1"]);
    place.file("d/new", "2");
    place.ok(["import", "d", "--path", "in"]);
    assert_eq!(place.ok(["tree"]), ".\n├── in/\n│   └── new\n└── keep\n\n1 directory, 2 values\n");
    place.ok(["import", "d", "-b", "side", "--orphan"]);
    assert_eq!(place.ok(["list", "-b", "side"]), "new\n");
    place.ok(["import", "d"]);
    assert_eq!(place.ok(["list"]), "new\n");
    place.ok(["export", "part", "--at", "HEAD~1", "--path", "in"]);
    assert_eq!(contents(&place.path("part")), contents(&place.path("d")));
}

#[test]
fn what_a_tree_cannot_hold_is_left_out_by_name() {
    let place = Place::with_store();
    place.file("d/file", "1");
    fs::create_dir_all(place.path("d/hollow/inner")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, place.path("d/pipe"), 0o644.into()).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(place.path("d/socket")).unwrap();
    let imported = place.json(["import", "d"]);
    let left_out: Vec<String> = imported["left_out"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| format!("{} {}", one["path"].as_str().unwrap(), one["what"].as_str().unwrap()))
        .collect();
    assert_eq!(left_out, ["hollow empty folder", "hollow/inner empty folder", "pipe pipe", "socket socket"]);
    let run = place.run(["import", "d", "--allow-empty"]);
    assert!(run.err.contains("left out: pipe (pipe)"), "{run:?}");
}

#[test]
fn what_a_killed_export_left_is_left_out() {
    let place = Place::with_store();
    for name in [".cone-12-0.part", ".cone-12-x.part", "deep/.cone-99999-17.part", "whole"] {
        place.file(Path::new("d").join(name), "1");
    }
    let imported = place.json(["import", "d"]);
    let unfinished = |path: &str| serde_json::json!({ "path": path, "what": "unfinished file" });
    let both = [unfinished(".cone-12-0.part"), unfinished("deep/.cone-99999-17.part")];
    assert_eq!((&imported["left_out"], &imported["files"]), (&serde_json::json!(both), &serde_json::json!(2)));
    assert_eq!(place.ok(["list"]), ".cone-12-x.part\nwhole\n");
    place.ok(["import", "d", "--all"]);
    place.ok(["export", "out"]);
    assert_eq!(contents(&place.path("out")), contents(&place.path("d")));
}

#[test]
fn the_store_does_not_swallow_itself() {
    let place = Place::with_store();
    place.file("a", "1");
    let imported = place.json(["import", "."]);
    assert_eq!(imported["left_out"], serde_json::json!([{"path": ".bristlecone", "what": "store"}]));
    assert_eq!(place.ok(["list"]), "a\n");
    // Nor when it is named itself, by whatever name.
    symlink(".bristlecone/segments", place.path("link")).unwrap();
    for dir in [".bristlecone", "./.bristlecone/segments", "link"] {
        place.fails(2, &["in the store itself", "another folder"], ["import", dir]);
    }
    assert_eq!(place.ok(["list"]), "a\n");
    // Another store's folder is one as any other.
    place.ok(["init", "other", "--backend", "fs"]);
    place.ok(["import", "other/.bristlecone", "--path", "backup"]);
    assert!(place.ok(["list", "backup"]).lines().any(|name| name == "store"));
}

#[test]
fn an_empty_folder_is_an_empty_tree() {
    let place = Place::with_store();
    fs::create_dir(place.path("d")).unwrap();
    place.ok(["import", "d", "--allow-empty"]);
    assert_eq!(place.ok(["list"]), "");
    place.ok(["export", "out"]);
    assert_eq!(contents(&place.path("out")).len(), 0);
}

#[test]
fn exports_go_into_empty_folders_unless_forced() {
    let place = Place::with_store();
    place.ok(["set", "d/a", "new"]);
    place.ok(["set", "d/run", "new"]);
    place.file("out/d/a", "old");
    place.file("out/other", "stays");
    place.fails(2, &["not empty", "--force"], ["export", "out"]);
    assert_eq!(fs::read(place.path("out/d/a")).unwrap(), b"old");
    place.ok(["export", "out", "--force"]);
    assert_eq!(fs::read(place.path("out/d/a")).unwrap(), b"new");
    assert_eq!(fs::read(place.path("out/other")).unwrap(), b"stays");
    fs::remove_file(place.path("out/d/a")).unwrap();
    fs::create_dir(place.path("out/d/a")).unwrap();
    place.fails(3, &["out/d/a is a folder", "remove it"], ["export", "out", "--force"]);
    place.file("plain", "1");
    place.fails(2, &["plain is no folder"], ["export", "plain"]);
    place.fails(1, &["nothing at x"], ["export", "elsewhere", "--path", "x"]);
}

#[test]
fn a_file_that_cannot_be_read_leaves_the_store_as_it_was() {
    let place = Place::with_store();
    place.ok(["set", "a", "1"]);
    for n in 0..200 {
        place.file(format!("d/{n}"), "x");
    }
    let deep = ["n"; 1100].join("/");
    // A folder deeper than a path may be: made step by step, since its name is too long for the system.
    let mut handle = fs::File::open(place.path("d")).map(rustix::fd::OwnedFd::from).unwrap();
    for step in deep.split('/') {
        use rustix::fs::{Mode, OFlags, mkdirat, openat};
        mkdirat(&handle, step, Mode::from_raw_mode(0o755)).unwrap();
        handle = openat(&handle, step, OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
    place.fails(2, &["cannot import", "1024 steps"], ["import", "d"]);
    assert_eq!(place.ok(["list"]), "a\n");
    assert_eq!(place.json(["log"])["commits"].as_array().unwrap().len(), 1);
}

#[test]
fn an_import_that_is_stopped_leaves_the_store_as_it_was() {
    let place = Place::with_store();
    place.ok(["set", "a", "1"]);
    let before = place.json(["branches"]);
    for n in 0..3000 {
        place.file(format!("d/{}/{n}", n % 50), vec![n as u8; 20_000]);
    }
    let (mut stopped, mut delay_ms, mut done) = (0, 1, false);
    while stopped < 3 && delay_ms < 2000 {
        let mut child = place.command(["import", "d", "-b", "side", "--orphan"]).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(delay_ms));
        let pid = rustix::process::Pid::from_child(&child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        done = child.wait().unwrap().success();
        if done {
            break;
        }
        stopped += 1;
        delay_ms += 8;
        assert_eq!(place.json(["branches"]), before);
        assert!(place.ok(["check"]).contains("no damage"));
    }
    if !done {
        place.ok(["import", "d", "-b", "side", "--orphan"]);
    }
    assert_eq!(place.ok(["list", "-b", "side"]).lines().count(), 50);
}

#[test]
fn folders_as_deep_as_paths_go_come_and_go_on_a_small_stack() {
    let place = Place::with_store();
    // As many steps as a path may have, and the system takes names of 4,096 bytes.
    let dir = vec!["d"; 1023].join("/");
    let deep = format!("{dir}/v");
    place.ok(["set", &deep, "far down"]);
    let small = |arguments: &[&str]| {
        let mut command = std::process::Command::new("sh");
        command.arg("-c").arg("ulimit -s 512; exec \"$0\" \"$@\"").arg(env!("CARGO_BIN_EXE_cone")).args(arguments);
        // Of all threads but the first.
        command.current_dir(place.path("")).env("RUST_MIN_STACK", "262144");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(small(&["list", &dir]), "v\n");
    assert_eq!(small(&["diff"]), format!("A {deep}\n"));
    assert!(small(&["tree"]).contains("v\n"));
    small(&["check"]);
    small(&["export", "out"]);
    assert_eq!(fs::read(place.path("out").join(&deep)).unwrap(), b"far down");
    small(&["import", "out", "-b", "again", "--orphan"]);
    assert_eq!(small(&["get", &deep, "--at", "again"]), "far down");
    assert_eq!(small(&["diff", "main", "again"]), "");
}

#[test]
fn a_path_that_is_too_long_for_the_system_is_refused_before_anything_is_written() {
    let place = Place::with_store();
    // With the folder's name before it, as many bytes as the system takes, and one more.
    let long = |last: usize| format!("{}/{}", vec!["d".repeat(199); 20].join("/"), "v".repeat(last));
    let (fits, longer) = (long(91), long(92));
    place.ok(["set", &fits, "far down"]);
    place.ok(["export", "out"]);
    place.ok(["import", "out", "-b", "again", "--orphan"]);
    assert_eq!(place.ok(["get", &fits, "--at", "again"]), "far down");
    place.ok(["set", &longer, "further down"]);
    place.fails(3, &[&*longer, "4096 bytes", "takes 4095", "nothing was written", "--path"], ["export", "two"]);
    assert!(!place.path("two").exists());
    place.ok(["export", "two", "--path", &"d".repeat(199)]);
}
