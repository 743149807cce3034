//! `cone subtree` between stores, and between Git repositories with Git as the judge.

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use bristlecone_needs::needs;
use serde_json::{Value, json};

use crate::harness::Place;

/// Runs Git in a folder and returns what it says; it must succeed.
#[track_caller]
fn git(dir: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command
        .args(arguments)
        .current_dir(dir)
        .env("HOME", dir)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("LC_ALL", "C")
        .env("TZ", "UTC");
    for (who, mail) in [("AUTHOR", "ann@example.org"), ("COMMITTER", "ann@example.org")] {
        command.env(format!("GIT_{who}_NAME"), "Ann").env(format!("GIT_{who}_EMAIL"), mail);
        command.env(format!("GIT_{who}_DATE"), "1700000000 +0000");
    }
    let output = command.output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?}: {message}");
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

#[track_caller]
fn commit(dir: &Path, path: &str, text: &str) {
    let file = dir.join(path);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
    git(dir, &["add", "-A"]);
    git(dir, &["commit", "-q", "-m", &format!("{path} is {text}")]);
}

/// A program and a library, each a Git repository with a working tree.
fn two(place: &Place) -> (std::path::PathBuf, std::path::PathBuf) {
    let (app, lib) = (place.path("app"), place.path("lib"));
    for dir in [&app, &lib] {
        fs::create_dir_all(dir).unwrap();
        git(dir, &["init", "-q", "-b", "main"]);
    }
    commit(&app, "start", "1");
    commit(&lib, "code", "1");
    commit(&lib, "src/more", "1");
    (app, lib)
}

#[track_caller]
fn sound(dir: &Path) {
    git(dir, &["fsck", "--strict"]);
    assert_eq!(git(dir, &["status", "--porcelain"]), "");
}

#[needs(git_subtree)]
#[test]
fn working_trees_follow_and_git_goes_on_from_there() {
    for squash in [false, true] {
        let place = Place::empty();
        let (app, lib) = two(&place);
        let cone = |verb: &str, more: &[&str]| -> Vec<String> {
            let mut all = vec!["-r".to_owned(), "app".to_owned(), "subtree".to_owned(), verb.to_owned()];
            all.extend(["-P", "vendor/lib"].iter().chain(more).map(|&word| word.to_owned()));
            if squash && matches!(verb, "add" | "pull") {
                all.push("--squash".to_owned());
            }
            all
        };
        place.fails(2, &["checked out", "--worktree"], cone("add", &["lib", "main"]));
        assert_eq!(git(&app, &["rev-list", "--count", "--all"]), "1");
        place.ok(cone("add", &["lib", "main", "--worktree"]));
        sound(&app);
        assert_eq!(fs::read_to_string(app.join("vendor/lib/src/more")).unwrap(), "1");
        // Both sides go on.
        commit(&app, "vendor/lib/ours", "1");
        commit(&app, "start", "2");
        commit(&lib, "code", "2");
        let message = place.ok(cone("status", &["lib", "main"]));
        assert!(message.contains("differs from") && message.contains("1 ahead, 1 behind"), "{message}");
        place.ok(cone("pull", &["lib", "main", "--worktree"]));
        sound(&app);
        assert_eq!(fs::read_to_string(app.join("vendor/lib/code")).unwrap(), "2");
        assert!(place.ok(cone("pull", &["lib", "main", "--worktree"])).contains("already"));
        let split = place.ok(cone("split", &[]));
        assert_eq!(split.trim(), git(&app, &["subtree", "split", "-q", "-P", "vendor/lib"]), "squash: {squash}");
        // Their branch is checked out there, so another one takes what is new here.
        let before = git(&lib, &["rev-parse", "main"]);
        place.fails(2, &["checked out"], cone("push", &["lib", "main"]));
        assert_eq!(git(&lib, &["rev-parse", "main"]), before);
        place.ok(cone("push", &["lib", "from-app"]));
        git(&lib, &["merge", "-q", "--ff-only", "from-app"]);
        sound(&lib);
        assert_eq!(git(&lib, &["rev-parse", "main:"]), git(&app, &["rev-parse", "main:vendor/lib"]));
        // Git joins something itself, packs all, and we go on from that.
        commit(&lib, "code", "3");
        let flag: &[&str] = if squash { &["--squash"] } else { &[] };
        git(&app, &[&["subtree", "pull", "-q", "-P", "vendor/lib"], flag, &["../lib", "main"]].concat());
        git(&app, &["gc", "-q", "--prune=now"]);
        git(&lib, &["gc", "-q", "--prune=now"]);
        commit(&app, "vendor/lib/ours", "2");
        place.ok(cone("push", &["lib", "from-app"]));
        git(&lib, &["merge", "-q", "--ff-only", "from-app"]);
        sound(&lib);
        assert_eq!(git(&lib, &["rev-parse", "main:"]), git(&app, &["rev-parse", "main:vendor/lib"]));
        let status = place.json(cone("status", &["lib", "main"]));
        assert_eq!((&status["compared"]["same"], &status["compared"]["behind"]), (&json!(true), &json!(0)));
    }
}

#[needs(git_subtree)]
#[test]
fn linear_histories_are_split_as_git_does_it() {
    let place = Place::empty();
    let dir = place.path("r");
    fs::create_dir_all(&dir).unwrap();
    git(&dir, &["init", "-q", "-b", "main"]);
    for n in 0..12 {
        let path = ["deep/in it/a", "deep/in it/b/c", "other"][n % 3];
        commit(&dir, path, &format!("{n}"));
    }
    git(&dir, &["repack", "-qad"]);
    let wanted = git(&dir, &["subtree", "split", "-q", "-P", "deep/in it"]);
    for _ in 0..2 {
        assert_eq!(place.ok(["-r", "r", "subtree", "split", "-P", "deep/in it/"]).trim(), wanted);
    }
    assert_eq!(place.ok(["-r", "r", "subtree", "split", "-P", "deep/in it", "HEAD~1", "-b", "out"]).trim().len(), 40);
    place.ok(["-r", "r", "subtree", "split", "-P", "deep/in it", "-b", "out"]);
    assert_eq!(git(&dir, &["rev-parse", "out"]), wanted);
    sound(&dir);
    place.fails(2, &["checked out"], ["-r", "r", "subtree", "split", "-P", "deep", "-b", "main"]);
    place.fails(2, &["lacks"], ["-r", "r", "subtree", "split", "-P", "deep", "-b", "out"]);
    place.fails(1, &["no directory"], ["-r", "r", "subtree", "split", "-P", "nowhere"]);
    place.fails(1, &["no directory"], ["-r", "r", "subtree", "split", "-P", "other"]);
}

/// Writes a commit with these bytes behind its tree and parent, in which `d/f` holds `text`, as the head of `main`.
fn commit_raw(dir: &Path, text: &str, parent: Option<&str>, raw: &[u8]) -> String {
    let written = |arguments: &[&str], bytes: &[u8]| {
        let mut command = Command::new("git");
        command.args(arguments).current_dir(dir).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(bytes).unwrap();
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap().trim_end().to_owned()
    };
    let blob = written(&["hash-object", "-w", "--stdin"], text.as_bytes());
    let inner = written(&["mktree"], format!("100644 blob {blob}\tf\n").as_bytes());
    let tree = written(&["mktree"], format!("040000 tree {inner}\td\n").as_bytes());
    let parent = parent.map(|parent| format!("parent {parent}\n")).unwrap_or_default();
    let bytes = [format!("tree {tree}\n{parent}").as_bytes(), raw].concat();
    let oid = written(&["hash-object", "-t", "commit", "--literally", "-w", "--stdin"], &bytes);
    git(dir, &["update-ref", "refs/heads/main", &oid]);
    oid
}

const COMMITTER: &[u8] = b"committer C <c@d> 1700000000 +0200\n";
const MESSAGE: &[u8] = b"\nwhy\n";

#[needs(git_subtree)]
#[test]
fn odd_authors_and_dates_are_split_as_git_does_it() {
    for hash in ["sha1", "sha256"] {
        let place = Place::empty();
        let dir = place.path("r");
        fs::create_dir_all(dir.join("d")).unwrap();
        git(&dir, &["init", "-q", "-b", "main", "--object-format", hash]);
        let mut all = Vec::new();
        for date in [
            "1700000000 +051800",
            "1700000000 -051800",
            "1700000000 +2400",
            "1700000000 +0060",
            "1700000000 -0000",
            "1700000000 +01",
            "1700000000 +00530",
            "1700000000 +99999999999",
            "1700000000 +2147483646",
            "1700000000 -2147483647",
            "017 +0100",
            "99999999999999999999 +0100",
            "9223372036854775807 +0000",
            "67768036191676800 +0000",
            "4102444800 -0001",
            "4102444799 +0000",
            "0 +0000",
            "50000000 -2359",
            "1700000000 +0100 more",
            " 1700000000\t+0100",
        ] {
            all.push(format!("author A <a@b> {date}\ncommitter C <c@d> 1700000000 +0200\n\n{date}\n").into_bytes());
            all.push(format!("author A <a@b> 1600000000 +0200\ncommitter C <c@d> {date}\n\n{date}\n").into_bytes());
        }
        for name in
            ["A\\nB <a@b>", "A\\\\B <a\\@b>", ".A, < a@b. >", "A <a@b> <c@d>", "A <>", "A <.>", "A > <d@e>", ".A. <>"]
        {
            let line = format!("author {name} 1700000000 +0100\n");
            all.push([line.as_bytes(), COMMITTER, MESSAGE].concat());
        }
        let (one, other) = ("author A <a@b> 1 +0100\n", "author B <b@c> 2 +0200\n");
        all.push([one.as_bytes(), other.as_bytes(), COMMITTER, MESSAGE].concat());
        all.push([one.as_bytes(), COMMITTER, other.as_bytes(), COMMITTER, MESSAGE].concat());
        all.push([COMMITTER, one.as_bytes(), MESSAGE].concat());
        all.push([one.as_bytes(), COMMITTER, b"\nbefore\0behind\n"].concat());
        all.push([one.as_bytes(), COMMITTER].concat());
        let mut parent: Option<String> = None;
        for (number, raw) in all.iter().enumerate() {
            parent = Some(commit_raw(&dir, &number.to_string(), parent.as_deref(), raw));
        }
        let wanted = git(&dir, &["subtree", "split", "-q", "-P", "d"]);
        let ours = place.ok(["-r", "r", "subtree", "split", "-P", "d", "-b", "out"]);
        let log = |oid: &str| git(&dir, &["log", "--format=raw", oid]);
        assert_eq!(log(ours.trim()), log(&wanted), "{hash}");
        assert_eq!(ours.trim(), wanted);
        // They go elsewhere as they are.
        git(place.path("").as_path(), &["init", "-q", "--bare", "--object-format", hash, "other.git"]);
        place.ok(["-r", "r", "subtree", "push", "-P", "d", "other.git", "theirs"]);
        assert_eq!(git(&place.path("other.git"), &["rev-parse", "theirs"]), wanted);
    }
}

#[needs(git_subtree)]
#[test]
fn what_git_cannot_split_is_copied_as_it_is() {
    let place = Place::empty();
    let dir = place.path("r");
    fs::create_dir_all(dir.join("d")).unwrap();
    git(&dir, &["init", "-q", "-b", "main"]);
    // Git takes the present date for some, and fails on the others.
    for author in [
        "A <a@b>",
        "A <a@b> 1700000000",
        "A <a@b> ",
        "A <a@b> +0100",
        "A <a@b> -1 +0000",
        "A <a@b> -1700000000 +0100",
        "A <a@b> 1700000000 UTC",
        "A <a@b> 1800 -0100",
        "A <a@b> 4102444800 +0000",
        "A <a@b> 253402300800 +0000",
        "Nobody 1700000000 +0100",
        "<a@b> 1700000000 +0100",
        "A <a@b 1700000000 +0100",
        "., <a@b> 1700000000 +0100",
        "A\\ <a@b> 1700000000 +0100",
        "",
    ] {
        let rest = [format!("author {author}\n").as_bytes(), COMMITTER, MESSAGE].concat();
        commit_raw(&dir, author, None, &rest);
        let split = place.ok(["-r", "r", "subtree", "split", "-P", "d"]);
        let wanted = format!("tree {}\n{}", git(&dir, &["rev-parse", "main:d"]), String::from_utf8(rest).unwrap());
        assert_eq!(git(&dir, &["cat-file", "commit", split.trim()]), wanted.trim_end(), "{author}");
        assert_eq!(place.ok(["-r", "r", "subtree", "split", "-P", "d", "--onto", split.trim()]), split, "{author}");
    }
}

#[needs(git)]
#[test]
fn a_history_that_is_cut_off_says_so() {
    let place = Place::with_store();
    for number in ["1", "2", "3"] {
        place.ok(["set", "lib/code", number]);
    }
    place.ok(["retention", "set", "*", "last", "2"]);
    place.ok(["gc"]);
    for verb in ["split", "status"] {
        place.fails(
            3,
            &["retention has cut", "takes all of it", "a store that keeps it"],
            ["subtree", verb, "-P", "lib"],
        );
    }
    let (app, _) = two(&place);
    commit(&app, "lib/code", "1");
    commit(&app, "lib/code", "2");
    let url = format!("file://{}", app.display());
    git(&place.path(""), &["clone", "-q", "--depth", "2", &url, "shallow"]);
    for verb in ["split", "status"] {
        place.fails(3, &["shallow", "git fetch --unshallow"], ["-r", "shallow", "subtree", verb, "-P", "lib"]);
    }
}

#[test]
fn stores_share_a_directory() {
    let place = Place::empty();
    for format in ["native", "git"] {
        let (app, lib) = (format!("{format}-app"), format!("{format}-lib"));
        let run = |arguments: &[&str]| -> Vec<String> { arguments.iter().map(|&word| word.to_owned()).collect() };
        let (a, l) = (app.as_str(), lib.as_str());
        if place.run(["init", a, "--format", format]).code != 0 {
            // What has no store of its own is tested in Git repositories.
            continue;
        }
        place.ok(["init", l, "--format", format]);
        place.fails(2, &["no commit"], run(&["-r", a, "subtree", "add", "-P", "d", l, "main"]));
        place.ok(["-r", a, "set", "start", "1"]);
        place.ok(["-r", l, "set", "code", "1"]);
        place.ok(["-r", l, "set", "more", "1"]);
        let added = place.json(run(&["-r", a, "subtree", "add", "-P", "d/lib", l, "main", "-m", "Take it"]));
        assert_eq!(
            (&added["changed"], &added["squashed"], &added["prefix"]),
            (&json!(true), &json!(false), &json!("d/lib"))
        );
        let log = place.ok(["-r", a, "log", "-n", "1"]);
        assert!(log.contains("Take it") && log.contains("git-subtree-dir: d/lib"), "{log}");
        place.fails(2, &["already"], run(&["-r", a, "subtree", "add", "-P", "d/lib", l, "main"]));
        let says = ["no branch \"gone\"", "cone branches"];
        place.fails(1, &says, run(&["-r", a, "-b", "gone", "subtree", "add", "-P", "e", l, "main"]));
        place.fails(2, &["already"], run(&["-r", a, "subtree", "add", "-P", "d", l, "main"]));
        place.fails(2, &["value"], run(&["-r", a, "subtree", "add", "-P", "start/x", l, "main"]));
        // Both sides change one value: named, and nothing is changed.
        place.ok(["-r", a, "set", "d/lib/code", "ours"]);
        place.ok(["-r", l, "set", "code", "theirs"]);
        let before = place.ok(["-r", a, "log"]);
        let refused = place.fails(
            1,
            &["1 path", "nothing was changed"],
            run(&["-r", a, "subtree", "pull", "-P", "d/lib", l, "main"]),
        );
        assert_eq!(String::from_utf8(refused.out).unwrap(), "conflict: d/lib/code\n");
        let refused = place.run(run(&["-o", "json", "-r", a, "subtree", "pull", "-P", "d/lib", l, "main"]));
        let output: Value = serde_json::from_slice(&refused.out).unwrap();
        assert_eq!((refused.code, &output["conflicts"][0]["path"]), (1, &json!("d/lib/code")));
        assert_eq!(place.ok(["-r", a, "log"]), before);
        place.fails(1, &["pull", "--force"], run(&["-r", a, "subtree", "push", "-P", "d/lib", l, "main"]));
        // Made the same, they merge; what is new here goes there.
        place.ok(["-r", a, "set", "d/lib/code", "theirs"]);
        place.ok(["-r", a, "set", "d/lib/new", "1"]);
        place.ok(run(&["-r", a, "subtree", "pull", "-P", "d/lib", l, "main"]));
        let status = place.json(run(&["-r", a, "subtree", "status", "-P", "d/lib", l, "main"]));
        assert_eq!(status["compared"]["behind"], json!(0));
        let pushed = place.json(run(&["-r", a, "subtree", "push", "-P", "d/lib", l, "main"]));
        assert_eq!((&pushed["changed"], &pushed["branch"]), (&json!(true), &json!("main")));
        assert_eq!(place.ok(["-r", l, "get", "new"]), "1");
        place.ok(["-r", l, "check"]);
        place.ok(["-r", a, "check"]);
        place.fails(2, &["HEAD"], run(&["-r", a, "subtree", "push", "-P", "d/lib", l, "HEAD"]));
        place.fails(2, &["HEAD"], run(&["-r", a, "subtree", "split", "-P", "d/lib", "-b", "HEAD"]));
        let again = place.json(run(&["-r", a, "subtree", "push", "-P", "d/lib", l, "refs/heads/main"]));
        assert_eq!((&again["changed"], &again["objects"]), (&json!(false), &json!(0)));
        let status = place.json(run(&["-r", a, "subtree", "status", "-P", "d/lib", l, "main"]));
        assert_eq!((&status["compared"]["same"], &status["compared"]["ahead"]), (&json!(true), &json!(0)));
        // A branch of the same store is as good as one of another.
        place.ok(run(&["-r", a, "subtree", "split", "-P", "d/lib", "-b", "alone"]));
        place.ok(run(&["-r", a, "subtree", "add", "-P", "again", a, "alone", "--squash"]));
        place.ok(run(&["-r", a, "subtree", "push", "-P", "again", a, "elsewhere"]));
        assert_eq!(place.ok(["-r", a, "get", "code", "-b", "elsewhere"]), "theirs");
    }
}

#[test]
fn formats_are_not_mixed() {
    let place = Place::with_store();
    place.ok(["set", "a", "1"]);
    place.ok(["init", "tezos", "--format", "tezos"]);
    place.ok(["-r", "tezos", "set", "a", "1"]);
    let other = place.fails(2, &["tezos", "native"], ["subtree", "add", "-P", "d", "tezos", "main"]);
    assert!(other.out.is_empty());
    place.fails(3, &["no store"], ["subtree", "add", "-P", "d", "nowhere", "main"]);
    place.fails(2, &["root"], ["subtree", "split", "-P", "/"]);
    place.fails(1, &["no directory"], ["subtree", "split", "-P", "a"]);
}
