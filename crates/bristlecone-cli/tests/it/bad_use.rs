//! Bad use: each gets one sentence that says what and what to do, and the right exit code.

use std::{
    ffi::OsStr,
    fs::{self, File, Permissions},
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
};

use bristlecone_needs::needs;
use rustix::fs::{FlockOperation, flock};

use crate::harness::{Place, Run};

#[test]
fn no_store() {
    let place = Place::empty();
    for verb in [&["list"][..], &["set", "a", "1"], &["check"], &["info"], &["import", "."]] {
        place.fails(3, &["no store in", "cone init", "--repo"], verb);
    }
    place.fails(3, &["no store in nowhere", "cone init"], ["-r", "nowhere", "list"]);
    fs::create_dir(place.path(".bristlecone")).unwrap();
    place.fails(3, &["no store here"], ["list"]);
}

#[test]
fn no_repository_of_git() {
    let place = Place::with_store();
    let file = place.file("notes", "words\n");
    for from in ["nowhere", "notes", "."] {
        place.fails(3, &["there is no Git repository here", from, "a working tree"], ["import", "--git", from]);
    }
    place.fails(3, &["notes", "it is a file"], ["export", "--git", "notes"]);
    assert_eq!(fs::read(file).unwrap(), b"words\n");
    let file = place.file("full/notes", "words\n");
    place.fails(2, &["the folder full holds something", "name a new folder"], ["export", "--git", "full"]);
    assert_eq!(fs::read(file).unwrap(), b"words\n");
}

#[test]
fn a_store_where_one_should_be_made() {
    let place = Place::with_store();
    place.ok(["set", "a", "1"]);
    place.fails(2, &["there is a store already"], ["init"]);
    assert_eq!(place.ok(["get", "a"]), "1");
}

#[test]
fn another_format_or_version() {
    let place = Place::empty();
    let dir = place.path(".bristlecone");
    use bristlecone::disk::{DiskBackend, DiskOptions, FormatTag};
    let storage = std::sync::Arc::new(bristlecone::storage::RealStorage::new(&dir));
    let tag = FormatTag { name: "other".to_owned(), version: 7, options: String::new() };
    drop(DiskBackend::create(storage.clone(), tag, DiskOptions::default()).unwrap());
    place.fails(3, &["other", "native", "use the version of cone"], ["list"]);
    fs::remove_dir_all(&dir).unwrap();
    for version in [0, 99] {
        let tag = FormatTag { name: "native".to_owned(), version, options: String::new() };
        drop(DiskBackend::create(storage.clone(), tag, DiskOptions::default()).unwrap());
        for verb in [&["list"][..], &["set", "a", "1"], &["check"], &["info"]] {
            place.fails(3, &[&format!("format native version {version}, "), "expects native version 1;"], verb);
        }
        fs::remove_dir_all(&dir).unwrap();
    }
}

#[test]
fn unknown_branches_and_revisions() {
    let place = Place::with_store();
    place.ok(["set", "a", "1"]);
    place.fails(1, &["no branch \"nope\"", "cone branches"], ["-b", "nope", "list"]);
    for rev in ["nope", "HEAD~9", "HEAD^2", "0123456789"] {
        place.fails(1, &["there is no", rev], ["list", "--at", rev]);
    }
    place.fails(2, &["names no revision"], ["list", "--at", "HEAD~x"]);
    place.fails(2, &["cannot be the name of a branch"], ["checkout", "-c", "a b"]);
    place.fails(2, &["cannot be the name of a branch"], ["-b", "a..b", "set", "a", "1"]);
    place.fails(2, &["cannot be the name of a branch"], ["-b", "", "list"]);
}

#[test]
fn paths_that_are_none() {
    let place = Place::with_store();
    for path in ["a//b", "/a", "a//", "/"] {
        place.fails(2, &["empty step", "single slashes"], ["set", path, "1"]);
        place.fails(2, &["empty step"], ["get", path]);
        place.fails(2, &["empty step"], ["list", path]);
    }
    place.fails(2, &["root", "name an entry"], ["set", "", "1"]);
    place.fails(2, &["root", "name an entry"], ["del", ""]);
    place.fails(2, &["percent", "%25"], ["get", "100%"]);
    place.fails(2, &["slash"], ["set", "a%2Fb", "1"]);
    place.fails(2, &["4096"], ["set", &"a".repeat(5000), "1"]);
    place.fails(2, &["more than one step"], ["list", "--prefix", "a/b"]);
    place.fails(2, &["step is empty"], ["list", "--after", ""]);
}

#[test]
fn every_step_begins_with_nothing() {
    let place = Place::with_store();
    place.ok(["set", "a=1", "b=2"]);
    assert_eq!(place.ok(["list", "--prefix", ""]), "a\nb\n");
}

#[test]
fn a_value_where_a_directory_is_and_the_other_way_round() {
    let place = Place::with_store();
    place.ok(["set", "a/b", "1"]);
    place.fails(2, &["a/b is a value", "cone del a/b", "--force"], ["set", "a/b/c", "2"]);
    place.fails(2, &["a is a directory", "--force"], ["set", "a", "2"]);
    place.fails(2, &["a is a directory", "cone list a"], ["get", "a"]);
    for verb in ["list", "tree"] {
        place.fails(2, &["a/b is a value", "cone get a/b"], [verb, "a/b"]);
    }
    place.fails(2, &["a/b is a value", "cone get a/b"], ["export", "out", "--path", "a/b"]);
    place.fails(1, &["a/b is a value, not a directory"], ["get", "a/b/c"]);
    place.fails(1, &["nothing at"], ["list", "x"]);
    place.fails(1, &["nothing at"], ["del", "x"]);
    fs::create_dir(place.path("d")).unwrap();
    place.fails(2, &["a/b is a value"], ["import", "d", "--path", "a/b/c"]);
    place.fails(2, &["a/b is a value"], ["import", "d", "--path", "a/b"]);
    assert_eq!(place.ok(["get", "a/b"]), "1", "nothing was changed");
    place.ok(["set", "a", "2", "--force"]);
    place.ok(["set", "a/b/c", "3", "--force"]);
    assert_eq!(place.ok(["get", "a/b/c"]), "3");
}

#[test]
fn arguments_that_make_no_sense() {
    let place = Place::with_store();
    for arguments in [
        &["nope"][..],
        &["set"],
        &["list", "--limit", "x"],
        &["init", "--format", "nope"],
        &["init", "--backend", "nope"],
        &["-o", "xml", "list"],
        &["set", "a", "1", "--durability", "often"],
    ] {
        let run = place.run(arguments);
        assert_eq!(run.code, 2, "{run:?}");
        assert!(run.err.starts_with("error: "), "{run:?}");
    }
    place.fails(2, &["512"], ["init", "x", "--inline", "513"]);
    place.fails(2, &["names no author", "Name <mail>"], ["set", "a", "1", "--author", "Ann"]);
    for ident in ["Ann", ""] {
        let mut command = place.command(["set", "a", "1"]);
        command.env("BRISTLECONE_AUTHOR", ident);
        Run::of(command).failed(2, &[&format!("BRISTLECONE_AUTHOR is \"{ident}\""), "Name <mail>", "unset it"]);
    }
    place.fails(2, &["is no date", "seconds since 1970"], ["set", "a", "1", "--date", "yesterday"]);
    for seconds in [&b"x"[..], b"\xff"] {
        let mut command = place.command(["set", "a", "1"]);
        command.env("SOURCE_DATE_EPOCH", OsStr::from_bytes(seconds));
        Run::of(command).failed(2, &["SOURCE_DATE_EPOCH"]);
    }
    place.fails(2, &["is no folder"], ["import", ".bristlecone/store"]);
    place.fails(3, &["nowhere", "no such file"], ["import", "nowhere"]);
    assert_eq!(place.run(["check", "--help"]).code, 0);
    // A number below 0 is taken for the option's, and refused as such.
    for words in [
        &["list", "--limit", "-1"][..],
        &["tree", "--depth", "-1"],
        &["log", "-n", "-1"],
        &["map", "list", "-n", "-1"],
        &["map", "init", "--map-bytes", "-1"],
        &["map", "set", "a", "1", "--map-bytes", "-1"],
        &["map", "tree", "--depth", "-1"],
        &["init", "x", "--inline", "-1"],
        &["check", "--threads", "-1"],
        &["gc", "--grace", "-1"],
        &["gc", "--max-rate", "-1"],
    ] {
        place.fails(2, &["invalid value '-1' for"], words);
    }
    place.fails(2, &["a rule is", "last 30d"], ["retention", "set", "main", "last", "-1"]);
    place.fails(2, &["the limit is a number"], ["retention", "snapshots", "-1"]);
    place.fails(2, &["seconds from 0", "not -1"], ["--wait", "-1", "list"]);
}

#[test]
fn a_lock_that_is_held() {
    let place = Place::with_store();
    place.ok(["set", "a", "1"]);
    let lock = File::options().read(true).write(true).open(place.path(".bristlecone/lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    place.fails(3, &["locked by", "try again", "--wait"], ["--wait", "0.1", "set", "a", "2"]);
    assert_eq!(place.ok(["get", "a"]), "1", "readers need no lock");
    drop(lock);
    place.ok(["set", "a", "2"]);
}

#[needs(somebody_else)]
#[test]
fn a_store_that_may_not_be_written() {
    let place = Place::with_store();
    place.ok(["set", "a", "1"]);
    let set = |dirs: u32, files: u32| {
        let mut stack = vec![place.path(".bristlecone")];
        while let Some(path) = stack.pop() {
            let dir = path.is_dir();
            fs::set_permissions(&path, Permissions::from_mode(if dir { dirs } else { files })).unwrap();
            if dir {
                stack.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
        }
    };
    set(0o555, 0o444);
    let [read, write] =
        [&["get", "a"][..], &["set", "a", "2"]].map(|words| place.run_as_somebody(place.command(words)));
    set(0o755, 0o644);
    assert_eq!(read.out, b"1", "{read:?}");
    write.failed(3, &["permission denied", "check its owner"]);
    assert_eq!(place.ok(["get", "a"]), "1");
}

#[test]
fn options_that_mean_nothing_here_are_refused() {
    let place = Place::with_store();
    place.ok(["set", "a", "1"]);
    std::fs::create_dir(place.path("files")).unwrap();
    place.file("files/one", "1");
    for words in [
        &["export", "out", "--bare"][..],
        &["export", "out", "--hash", "sha256"],
        &["export", "out", "--ref", "main"],
        &["import", "files", "--ref", "main"],
        &["import", "files", "--skip-missing"],
    ] {
        place.fails(2, &["give --git PATH"], words);
    }
    for words in [&["branches", "new", "--force"][..], &["branches", "--moves", "--force"]] {
        place.fails(2, &["--force is for removing", "give -d NAME"], words);
    }
    place.fails(2, &["leave out"], ["import", "--git", "files", "--date", "1"]);
    place.fails(2, &["--worktree", "leave it out"], ["import", "--git", "files", "--worktree"]);
    for words in [&["export", "--git", "out", "--worktree"][..], &["copy", ".", "out", "--worktree"]] {
        place.fails(2, &["--worktree", "leave it out"], words);
    }
    for verb in ["check", "gc", "repair", "upgrade"] {
        place.fails(2, &[verb, "leave -b out"], [verb, "-b", "main"]);
    }
    place.fails(2, &["retention", "leave -b out"], ["retention", "list", "-b", "main"]);
    for words in [&["get", "a"][..], &["tag", "v1"], &["branches", "x"], &["checkout", "main"], &["retention", "list"]]
    {
        place.fails(2, &["--worktree", words[0], "leave it out"], [words, &["--worktree"]].concat());
    }
    for words in [&["branches"][..], &["branches", "-d", "x"], &["tag"], &["tag", "-d", "v1"], &["tag", "v1", "HEAD"]] {
        place.fails(2, &["-b says at the head of which branch", "leave it out"], [words, &["-b", "main"]].concat());
    }
    for words in [
        &["get", "a", "--at", "HEAD"][..],
        &["export", "out", "--at", "HEAD"],
        &["show", "HEAD"],
        &["log", "HEAD"],
        &["log", "--all"],
        &["diff", "HEAD", "HEAD"],
        &["diff", "HEAD..HEAD"],
        &["map", "list", "--at", "HEAD"],
    ] {
        place.fails(2, &["and -b main both say what is read", "main~1"], [words, &["-b", "main"]].concat());
    }
    assert_eq!(place.ok(["diff", "HEAD", "-b", "main"]), "");
    for (words, option) in [(["-r", ".", "man"], "-r"), (["-b", "main", "man"], "-b")] {
        place.fails(2, &["opens no store", &format!("leave {option} out")], words);
    }
    // A url is not taken for the name of a folder.
    place.fails(2, &["git clone --mirror"], ["import", "--git", "https://example.org/project.git"]);
    place.fails(2, &["cone copy"], ["export", "--git", "git+file:///srv/project.git"]);
    place.fails(2, &["is a url", "cone copy"], ["export", "git+file:///srv/project"]);
    place.fails(2, &["is a url", "Okra"], ["map", "init", "lmdb+file:///srv/map", "--kind", "okra"]);
    assert!(!place.path("git+file:").exists() && !place.path("lmdb+file:").exists());
    // Nor does a map come into the folder of a store.
    place.fails(2, &["the folder of a store"], ["map", "init", ".bristlecone/map", "--kind", "okra"]);
    assert!(!place.path(".bristlecone/map").exists());
    place.fails(2, &["name the tag"], ["tag", "-a", "-m", "message"]);
    assert!(!place.path("out").exists());
    for backend in ["fs", "lmdb", "lsm"] {
        place.ok(["init", "--backend", backend, backend]);
        for option in ["--grace=1h", "--partial", "--max-rate=1MB"] {
            place.fails(2, &["disk engine", option.split('=').next().unwrap()], ["-r", backend, "gc", option]);
        }
        place.ok(["-r", backend, "gc"]);
        place.fails(2, &["--threads is for", backend], ["-r", backend, "check", "--threads=2"]);
        place.ok(["-r", backend, "check", "--threads=1"]);
    }
    place.ok(["check", "--threads=2"]);
    place.fails(2, &["--backend"], ["init", "lsm+file:///x"]);
    let url = format!("lsm+file://{}", place.path("lsm/.bristlecone").display());
    place.ok(["-r", &url, "set", "b", "2"]);
    assert_eq!(place.ok(["-r", "lsm", "get", "b"]), "2");
}
