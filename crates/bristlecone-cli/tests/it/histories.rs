//! Whole histories from Git repositories into stores and out again, with real `git` as the judge.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use bristlecone::{Info, Signature};
use bristlecone_needs::needs;
use bristlecone_testkit::{
    crash::step,
    git::{Git, Shapes, long_chain, shapes},
};
use serde_json::Value;

use crate::harness::{Place, Run};

const FORMATS: [&str; 2] = ["git", "native"];

/// Makes a store of a format in the folder `name`.
fn store(place: &Place, name: &str, format: &str, sha256: bool) {
    let mut arguments = vec!["init", name, "--format", format];
    if sha256 && format == "git" {
        arguments.extend(["--hash", "sha256"]);
    }
    place.ok(arguments);
}

fn import(place: &Place, name: &str, from: &Path) -> Value {
    place.json(["-r", name, "import", "--git", from.to_str().unwrap()])
}

fn export(place: &Place, name: &str, to: &Path, more: &[&str]) -> Value {
    place.json([&["-r", name, "export", "--git", to.to_str().unwrap()], more].concat())
}

fn objects(report: &Value) -> u64 {
    ["commits", "trees", "blobs", "tags"].iter().map(|key| report[key].as_u64().unwrap()).sum()
}

/// Checks that a repository holds the same as another, and that Git is content with it.
#[track_caller]
fn assert_same(one: &Git, other: &Git) {
    for arguments in [
        &["for-each-ref", "--format=%(objectname) %(objecttype) %(refname) %(symref)"][..],
        &["log", "--all", "--format=raw", "--date-order"],
    ] {
        let (one, other) = (one.run(arguments), other.run(arguments));
        assert!(!one.is_empty());
        assert_eq!(String::from_utf8_lossy(&one), String::from_utf8_lossy(&other), "git {arguments:?}");
    }
    let ids = |git: &Git| -> Vec<String> {
        let text = git.text(&["rev-list", "--all", "--objects", "--no-object-names"]);
        let mut ids: Vec<String> = text.lines().map(str::to_owned).collect();
        ids.sort();
        ids
    };
    assert_eq!(ids(one), ids(other));
    other.fsck();
}

/// Returns a copy of a repository that holds what refs lead to, and nothing else.
fn reachable(place: &Place, git: &Git, name: &str) -> Git {
    let to = place.path(name);
    git.run(&["clone", "-q", "--mirror", "--no-local", ".", to.to_str().unwrap()]);
    Git::new(to)
}

/// Imports a repository into both formats, exports it, and compares; then does both again.
fn round_trip(place: &Place, from: &Git, sha256: bool) {
    let all = reachable(place, from, "reachable.git").objects();
    for format in FORMATS {
        store(place, format, format, sha256);
        let report = import(place, format, from.dir());
        assert_eq!(objects(&report), all.len() as u64, "{format}: {report}");
        assert!(report["refs"].as_array().unwrap().iter().all(|moved| moved["state"] == "new"), "{report}");
        let again = import(place, format, from.dir());
        assert_eq!(objects(&again), 0, "{format}: {again}");
        assert!(again["refs"].as_array().unwrap().iter().all(|moved| moved["state"] == "same"), "{again}");

        let to = place.path(format!("{format}-out.git"));
        let hash: &[&str] = if sha256 && format == "native" { &["--hash", "sha256"] } else { &[] };
        let report = export(place, format, &to, hash);
        assert_eq!(objects(&report), all.len() as u64, "{format}: {report}");
        let out = Git::new(&to);
        assert_same(from, &out);
        assert_eq!(all, out.objects(), "{format}");
        let again = export(place, format, &to, &[]);
        assert_eq!((objects(&again), again["packs"].as_u64()), (0, Some(0)), "{format}: {again}");
        assert!(again["refs"].as_array().unwrap().iter().all(|moved| moved["state"] == "same"), "{again}");
        let check = place.run(["-r", format, "check"]);
        assert_eq!(check.code, 0, "{format}: {}", String::from_utf8_lossy(&check.out));
    }
}

#[needs(git)]
#[test]
fn every_shape_of_repository_comes_back_with_the_same_ids() {
    let place = Place::empty();
    let from = shapes(place.path("from.git"), &Shapes::default());
    round_trip(&place, &from, false);
}

#[needs(git)]
#[test]
fn a_working_tree_with_long_chains_of_deltas_comes_back_with_the_same_ids() {
    let place = Place::empty();
    let from = shapes(place.path("from"), &Shapes { bare: false, linear: 300, refs: 4, ..Shapes::default() });
    long_chain(&from);
    round_trip(&place, &from, false);
}

#[needs(git)]
#[test]
fn repositories_of_sha256_come_back_with_the_same_ids() {
    let place = Place::empty();
    let from = shapes(place.path("from.git"), &Shapes { sha256: true, refs: 4, ..Shapes::default() });
    round_trip(&place, &from, true);
    // A store of another hash cannot have the same ids.
    place.ok(["init", "sha1", "--format", "git"]);
    place.fails(2, &["sha256", "sha1"], ["-r", "sha1", "import", "--git", "from.git"]);
}

/// The native root of a commit is that of a store into which the same files were put by hand, whatever the order was in
/// which histories came.
#[needs(git)]
#[test]
fn roots_do_not_depend_on_how_a_tree_was_made() {
    let place = Place::empty();
    let from = Git::init(place.path("from"), &[]);
    for round in 0..30 {
        for entry in 0..200 {
            if (entry * 7 + round) % (round + 2) == 0 {
                from.write(format!("d{}/f{entry}", entry % 3), format!("{round} {}", "x".repeat(entry)));
            }
        }
        if round % 5 == 4 {
            fs::remove_dir_all(from.dir().join("d1")).unwrap();
            from.write("d1", "a file where a folder was");
        } else if from.dir().join("d1").is_file() {
            fs::remove_file(from.dir().join("d1")).unwrap();
        }
        from.commit_all(&format!("round {round}"));
        if round % 5 == 4 {
            fs::remove_file(from.dir().join("d1")).unwrap();
        }
    }
    place.ok(["init", "all", "--format", "native"]);
    import(&place, "all", from.dir());
    for back in [0, 7, 20] {
        let at = from.text(&["rev-parse", &format!("HEAD~{back}")]);
        let name = format!("one{back}");
        place.ok(["init", &name, "--format", "native"]);
        let files = place.path(format!("files{back}"));
        fs::create_dir(&files).unwrap();
        let archive = from.run(&["archive", &at]);
        let tar = place.file(format!("{back}.tar"), &archive);
        let extracted = std::process::Command::new("tar").arg("xf").arg(tar).current_dir(&files).status().unwrap();
        assert!(extracted.success());
        let alone = place.json(["-r", &name, "import", files.to_str().unwrap()]);
        let shown = place.json(["-r", "all", "show", &format!("main~{back}")]);
        assert_eq!(shown["root"], alone["root"], "{back}: {shown}");
    }
}

#[needs(git)]
#[test]
fn only_what_is_new_comes_and_goes() {
    let place = Place::empty();
    let from = shapes(place.path("from"), &Shapes { bare: false, wide: 50, refs: 4, ..Shapes::default() });
    for format in FORMATS {
        store(&place, format, format, false);
        import(&place, format, from.dir());
        export(&place, format, &place.path(format!("{format}.git")), &[]);
    }
    from.write("wide/000003", "changed");
    from.write("new", "new");
    from.commit_all("one more");
    from.run(&["tag", "-a", "-m", "later", "later"]);
    for format in FORMATS {
        let report = import(&place, format, from.dir());
        let counts = ["commits", "trees", "blobs", "tags"].map(|key| report[key].as_u64().unwrap());
        assert_eq!(counts, [1, 2, 2, 1], "{format}: {report}");
        let to = place.path(format!("{format}.git"));
        let report = export(&place, format, &to, &[]);
        let counts = ["commits", "trees", "blobs", "tags"].map(|key| report[key].as_u64().unwrap());
        assert_eq!(counts, [1, 2, 2, 1], "{format}: {report}");
        assert_same(&from, &Git::new(&to));
    }
    // Without the files that tell what was imported before, the same comes of it, and nothing twice.
    for entry in fs::read_dir(place.path("native/.bristlecone/derived")).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    let before = place.json(["-r", "native", "info"])["store_bytes"].as_u64().unwrap();
    let report = import(&place, "native", from.dir());
    assert!(report["refs"].as_array().unwrap().iter().all(|moved| moved["state"] == "same"), "{report}");
    let after = place.json(["-r", "native", "info"])["store_bytes"].as_u64().unwrap();
    assert!(after - before < before / 20, "{before} {after}");
    // Those of another store do no harm either.
    place.ok(["init", "other", "--format", "native"]);
    fs::create_dir_all(place.path("other/.bristlecone/derived")).unwrap();
    for entry in fs::read_dir(place.path("native/.bristlecone/derived")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), place.path("other/.bristlecone/derived").join(entry.file_name())).unwrap();
    }
    import(&place, "other", from.dir());
    let to = place.path("other.git");
    export(&place, "other", &to, &[]);
    assert_same(&from, &Git::new(&to));
}

#[needs(git)]
#[test]
fn refs_are_chosen_by_name_and_move_only_forward() {
    let place = Place::empty();
    let from = Git::init(place.path("from"), &[]);
    from.write("a", "1");
    from.commit_all("one");
    from.run(&["branch", "side"]);
    from.run(&["tag", "v1"]);
    from.write("a", "2");
    from.commit_all("two");
    from.run(&["update-ref", "refs/remotes/origin/main", "HEAD"]);
    from.run(&["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main"]);
    for format in FORMATS {
        store(&place, format, format, false);
        let names = |report: &Value| -> Vec<String> {
            let refs = report["refs"].as_array().unwrap();
            refs.iter().map(|moved| moved["name"].as_str().unwrap().to_owned()).collect()
        };
        let chosen = place.json(["-r", format, "import", "--git", "from", "--ref", "side", "--ref", "refs/tags/*"]);
        assert_eq!(names(&chosen), ["refs/heads/side", "refs/tags/v1"]);
        assert_eq!(chosen["head"], Value::Null, "the repository's branch did not come");
        let one = place.json(["-r", format, "import", "--git", "from", "-b", "side"]);
        assert_eq!(names(&one), ["refs/heads/side"]);
        place.fails(1, &["refs/heads/gone"], ["-r", format, "import", "--git", "from", "-b", "gone"]);
        place.fails(1, &["nothing", "for-each-ref"], ["-r", format, "import", "--git", "from", "--ref", "nothing"]);
        let all = import(&place, format, from.dir());
        assert_eq!(
            names(&all),
            [
                "refs/heads/main",
                "refs/heads/side",
                "refs/remotes/origin/HEAD",
                "refs/remotes/origin/main",
                "refs/tags/v1"
            ]
        );
        let to = place.path(format!("{format}-out"));
        let out = to.to_str().unwrap();
        place.fails(1, &["\"nothing\"", "cone branches"], ["-r", format, "export", "--git", out, "--ref", "nothing"]);
        assert!(!to.exists());
        export(&place, format, &to, &["--ref", "main"]);
        assert_eq!(Git::new(&to).text(&["for-each-ref", "--format=%(refname)"]), "refs/heads/main");
        // A branch that is checked out stays, and so does one that is somewhere else.
        let git = Git::new(&to);
        git.run(&["reset", "-q", "--hard"]);
        git.run(&["branch", "side", "main"]);
        git.run(&["update-ref", "refs/heads/main", "main~1"]);
        let run = place.run(["-r", format, "export", "--git", to.to_str().unwrap()]);
        assert_eq!(run.code, 1, "{run:?}");
        assert!(run.err.contains("refs/heads/main (Git has it checked out"), "{run:?}");
        assert!(run.err.contains("refs/heads/side (what it names would be let go of"), "{run:?}");
        let run = place.run(["-r", format, "export", "--git", to.to_str().unwrap(), "--force"]);
        assert_eq!(run.code, 1, "{run:?}");
        git.run(&["checkout", "-q", "--detach"]);
        let run = place.run(["-r", format, "export", "--git", to.to_str().unwrap(), "--force"]);
        assert_eq!(run.code, 0, "{run:?}");
        git.run(&["symbolic-ref", "HEAD", "refs/heads/main"]);
        assert_same(&from, &git);
    }
    // The repository goes another way.
    from.run(&["reset", "-q", "--hard", "HEAD~1"]);
    from.write("a", "3");
    let other = from.commit_all("another two");
    for format in FORMATS {
        let run = place.run(["-r", format, "import", "--git", "from"]);
        assert_eq!(run.code, 1, "{run:?}");
        assert!(run.err.contains("left where it is: refs/heads/main"), "{run:?}");
        assert_eq!(place.run(["-r", format, "import", "--git", "from", "--force"]).code, 0);
        export(&place, format, &place.path(format!("{format}-forced.git")), &[]);
        let exported = Git::new(place.path(format!("{format}-forced.git"))).text(&["rev-parse", "main"]);
        assert_eq!(exported, other);
    }
}

#[needs(git)]
#[test]
fn an_import_that_was_killed_goes_on() {
    let place = Place::empty();
    let from =
        shapes(place.path("from.git"), &Shapes { linear: step(400, 700) as usize, refs: 4, ..Shapes::default() });
    from.run(&["repack", "-adq"]);
    let all = from.text(&["for-each-ref", "--format=x", "refs/heads"]).lines().count();
    for format in FORMATS {
        // Later each time, until one ends before it is killed.
        let mut wait = Duration::from_millis(20);
        for round in 0.. {
            let name = format!("{format}{round}");
            store(&place, &name, format, false);
            let mut command = place.command(["-r", &name, "import", "--git", "from.git"]);
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            let began = Instant::now();
            while began.elapsed() < wait && child.try_wait().unwrap().is_none() {
                std::thread::sleep(Duration::from_millis(2));
            }
            let ended = child.try_wait().unwrap().is_some();
            child.kill().unwrap();
            child.wait().unwrap();
            if !ended {
                let branches = place.json(["-r", &name, "branches"]);
                let branches = branches["branches"].as_array().unwrap().len();
                assert!(branches == 0 || branches == all, "refs move together: {branches}");
            }
            import(&place, &name, from.dir());
            let to = place.path(format!("{name}.git"));
            export(&place, &name, &to, &[]);
            assert_same(&from, &Git::new(&to));
            if ended || round == 4 {
                break;
            }
            wait *= 3;
        }
    }
}

/// Removes the file of a loose object.
fn remove(git: &Git, id: &str) -> PathBuf {
    let path = git.dir().join(".git/objects").join(&id[..2]).join(&id[2..]);
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    fs::remove_file(&path).unwrap();
    path
}

#[needs(git)]
#[test]
fn missing_objects_are_named_and_the_rest_can_come() {
    for (kind, what) in [("blob", "HEAD~2:dir/file"), ("tree", "HEAD~2:dir"), ("commit", "HEAD~3")] {
        for damage in [false, true] {
            let place = Place::empty();
            let from = Git::init(place.path("from"), &[]);
            for round in 0..6 {
                from.write("dir/file", format!("version {round}"));
                from.write(format!("other{round}"), "other");
                from.commit_all(&format!("commit {round}"));
                if round == 1 {
                    from.run(&["tag", "early"]);
                }
            }
            from.run(&["tag", "-a", "-m", "late", "late"]);
            let (id, commit) = (from.text(&["rev-parse", what]), from.text(&["rev-parse", "HEAD~2"]));
            let other = from.text(&["rev-parse", "HEAD:other0"]);
            let path = remove(&from, &id);
            if damage {
                // Another object under its name.
                let other = from.dir().join(".git/objects").join(&other[..2]).join(&other[2..]);
                fs::copy(other, path).unwrap();
            }
            let word = if damage { "is damaged" } else { "is missing" };
            for format in FORMATS {
                store(&place, format, format, false);
                let words = [&format!("{kind} {id} {word}"), &commit, "--skip-missing"];
                place.fails(3, &[words[0], words[1], words[2]], ["-r", format, "import", "--git", "from"]);
                assert_eq!(place.ok(["-r", format, "branches"]), "", "no ref has moved");
                let run = place.run(["-o", "json", "-r", format, "import", "--git", "from", "--skip-missing"]);
                assert_eq!(run.code, 1, "{run:?}");
                assert!(run.err.contains("left out: refs/heads/main"), "{run:?}");
                assert!(run.err.contains(&format!("{kind} {id} {word}")), "{run:?}");
                if kind == "blob" {
                    assert!(run.err.contains("at dir/file"), "{run:?}");
                }
                let report: Value = serde_json::from_slice(&run.out).unwrap();
                let left_out = report["left_out"].as_array().unwrap();
                let names: Vec<_> = left_out.iter().map(|one| one["name"].as_str().unwrap()).collect();
                assert_eq!(names, ["refs/heads/main", "refs/tags/late"], "{report}");
                assert_eq!(report["missing"][0]["oid"], id.as_str(), "{report}");
                let to = place.path(format!("{format}.git"));
                export(&place, format, &to, &[]);
                let early = Git::new(&to);
                early.fsck();
                assert_eq!(early.text(&["rev-parse", "early"]), from.text(&["rev-parse", "early"]));
                let check = place.run(["-r", format, "check"]);
                assert_eq!(check.code, 0, "what is there is whole: {check:?}");
            }
        }
    }
}

/// Exports a store of three shallow commits into a copy of the whole repository, with its branch at `at`. What that has
/// of the history before stays in it.
fn exports_to_whole(place: &Place, format: &str, whole: &Git, name: &str, at: &str) {
    let to = place.path(format!("{format}-{name}.git"));
    whole.run(&["clone", "-q", "--bare", ".", to.to_str().unwrap()]);
    let git = Git::new(&to);
    git.run(&["update-ref", "refs/heads/main", at]);
    git.run(&["repack", "-adq"]);
    let report = export(place, format, &to, &[]);
    assert_eq!(report["cut"], serde_json::json!([]), "{report}");
    assert!(!to.join("shallow").exists(), "{format} {name}");
    assert_eq!(git.text(&["rev-list", "--count", "main"]), "8", "{format} {name}");
    git.fsck();
}

#[needs(git)]
#[test]
fn shallow_clones_come_as_far_as_they_go_and_later_the_rest() {
    let place = Place::empty();
    let whole = Git::init(place.path("whole"), &[]);
    for round in 0..8 {
        whole.write("file", format!("version {round}"));
        whole.commit_all(&format!("commit {round}"));
    }
    let url = format!("file://{}", whole.dir().display());
    whole.run(&["clone", "-q", "--bare", "--depth=3", &url, place.path("shallow.git").to_str().unwrap()]);
    let shallow = Git::new(place.path("shallow.git"));
    for format in FORMATS {
        store(&place, format, format, false);
        let report = import(&place, format, shallow.dir());
        assert_eq!((report["commits"].as_u64(), report["cut"].as_array().unwrap().len()), (Some(3), 1), "{report}");
        assert_eq!(objects(&import(&place, format, shallow.dir())), 0);
        let to = place.path(format!("{format}-shallow.git"));
        export(&place, format, &to, &[]);
        assert_same(&shallow, &Git::new(&to));
        for (name, branch) in [("older", "main~3"), ("newest", "main")] {
            exports_to_whole(&place, format, &whole, name, branch);
        }
        assert_eq!(place.json(["-r", format, "log"])["commits"].as_array().unwrap().len(), 3);
        assert_eq!(place.run(["-r", format, "check"]).code, 0, "{format}");
    }
    shallow.run(&["fetch", "-q", "--unshallow", &url]);
    for format in FORMATS {
        let run: Run = place.run(["-r", format, "import", "--git", "shallow.git", "--force"]);
        assert_eq!(run.code, 0, "{run:?}");
        let to = place.path(format!("{format}-whole.git"));
        export(&place, format, &to, &[]);
        assert_same(&shallow, &Git::new(&to));
        // What came first was numbered from where history ended then.
        for (range, commits) in [("main~4..main", 4), ("main~6..main~1", 5), ("main..main~4", 0)] {
            let log = place.json(["-r", format, "log", range]);
            assert_eq!(log["commits"].as_array().unwrap().len(), commits, "{format}: {range}");
        }
        // Numbers from before are told no more.
        let shown = place.json(["-r", format, "show", "main"]);
        assert!(format != "git" || shown["generation"].is_null(), "{shown}");
    }
}

/// What was never Git's becomes Git's: names are made such that Git takes them.
#[needs(git)]
#[test]
fn stores_that_were_never_gits_are_exported_and_what_git_cannot_hold_is_refused() {
    let place = Place::with_store();
    for (path, value) in [("a/b", "1"), ("a-b", "2"), ("long", &"x".repeat(400_000))] {
        let odd = Info::message("message").by(Signature::new(&b"A >nobody< <ma\0il"[..], 77));
        let branch = place.repo().branch("main").unwrap();
        branch.edit(&odd, |tree| tree.set(path, value)).unwrap();
    }
    place.ok(["set", "empty", "", "--author", "Ann <ann@example.org>"]);
    let to = place.path("out.git");
    let report = place.json(["export", "--git", to.to_str().unwrap()]);
    assert_eq!(report["commits"], 4, "{report}");
    let git = Git::new(&to);
    git.fsck();
    assert_eq!(git.text(&["show", "main:a-b"]), "2");
    assert_eq!(git.text(&["cat-file", "-s", "main:long"]), "400000");
    // Brought back, and out again, it is the same.
    place.ok(["init", "back", "--format", "git"]);
    import(&place, "back", &to);
    export(&place, "back", &place.path("again.git"), &[]);
    assert_same(&git, &Git::new(place.path("again.git")));
    place.ok(["set", "dir/.git/config", "x"]);
    let refused = place.path("refused.git");
    place.fails(3, &["dir/.git", "Git refuses", "no ref has moved"], ["export", "--git", refused.to_str().unwrap()]);
    // The repository that it was making is gone.
    assert!(!refused.exists());
    place.fails(2, &["cannot be used with"], ["export", "folder", "--git", "x"]);
    place.fails(2, &["cannot be used with"], ["import", "folder", "--git", "x"]);
    place.fails(3, &["nowhere"], ["import", "--git", "nowhere"]);
}

/// The store may be a repository itself.
#[needs(git)]
#[test]
fn a_repository_takes_in_another_and_gives_it_back() {
    let place = Place::empty();
    let from = shapes(place.path("from.git"), &Shapes { refs: 4, wide: 100, ..Shapes::default() });
    let into = Git::init(place.path("into.git"), &["--bare"]);
    let report = import(&place, "into.git", from.dir());
    assert!(objects(&report) > 100, "{report}");
    assert_same(&from, &into);
    assert_eq!(objects(&import(&place, "into.git", from.dir())), 0);
    let to = place.path("out.git");
    export(&place, "into.git", &to, &[]);
    assert_same(&from, &Git::new(&to));
}

/// The history of this very project, where the tests run in a checkout of it.
#[needs(git, checkout)]
#[test]
fn the_projects_own_history_comes_back_with_the_same_ids() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let here = Git::new(&top);
    let place = Place::empty();
    let clone = place.path("clone.git");
    here.run(&["clone", "-q", "--mirror", top.to_str().unwrap(), clone.to_str().unwrap()]);
    let here = Git::new(&clone);
    // Where a commit is checked out rather than a branch: what no ref leads to does not come along.
    if here.text(&["rev-parse", "--symbolic-full-name", "HEAD"]) == "HEAD" {
        here.run(&["update-ref", "refs/heads/checked-out", "HEAD"]);
        here.run(&["symbolic-ref", "HEAD", "refs/heads/checked-out"]);
    }
    for format in FORMATS {
        store(&place, format, format, false);
        import(&place, format, here.dir());
        let to = place.path(format!("{format}.git"));
        export(&place, format, &to, &[]);
        assert_same(&here, &Git::new(&to));
        assert_eq!(objects(&import(&place, format, &to)), 0, "{format}");
    }
}
