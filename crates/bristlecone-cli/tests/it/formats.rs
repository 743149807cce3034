//! The whole life of a store in each format, and what only some of them can hold.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, symlink},
    process::Command,
    str::FromStr,
};

use bristlecone_needs::needs;

use crate::harness::{Place, Run};

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
    let done = place.json(["import", "in", "-b", "folder", "--orphan"]);
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
fn a_tezos_store_from_its_first_day_to_its_last() {
    life("tezos");
}

#[test]
fn a_git_store_from_its_first_day_to_its_last() {
    life("git");
}

/// A folder becomes the tree that Git makes of it, and commits have the ids that Git gives them.
#[needs(git)]
#[test]
fn ids_are_those_of_git() {
    for hash in ["sha1", "sha256"] {
        let place = Place::empty();
        let made = place.json(["init", "--format", "git", "--hash", hash]);
        assert_eq!(made["options"], format!("hash={hash}"));
        folder_of_all_kinds(&place);
        for name in ["in/bin.d", "in/bin-x", "in/bin0", "in/a b\n", "in/\u{e9}t\u{e9}/x"] {
            place.file(name, name);
        }
        for n in 0..300 {
            place.file(format!("in/wide/{n}"), format!("value {n}"));
        }
        let done = place.json(["import", "in"]);
        let git = |arguments: &[&str]| {
            let mut command = Command::new("git");
            command.args(arguments).current_dir(place.path("in")).env("GIT_CONFIG_GLOBAL", "/dev/null");
            for role in ["AUTHOR", "COMMITTER"] {
                command.env(format!("GIT_{role}_NAME"), "Ann").env(format!("GIT_{role}_EMAIL"), "ann@example.org");
                command.env(format!("GIT_{role}_DATE"), "1700000000 +0000");
            }
            let run = Run::of(command);
            assert_eq!(run.code, 0, "{run:?}");
            String::from_utf8(run.out).unwrap().trim().to_owned()
        };
        git(&["init", "-q", "--object-format", hash]);
        git(&["add", "."]);
        let tree = git(&["write-tree"]);
        assert_eq!(done["root"], tree);
        let commit = place.json(["show"]);
        let message = commit["message"].as_str().unwrap();
        place.file("message", message);
        assert_eq!(commit["commit"], git(&["commit-tree", &tree, "-F", "../message"]));

        let listed = place.json(["list", "-l", "bin"]);
        assert_eq!((&listed["entries"][1]["kind"], &listed["entries"][1]["bytes"]), (&"executable".into(), &2.into()));
        let names = place.ok(["list"]);
        assert!(names.starts_with("a b%0A\nbin/\nbin-x\nbin.d\nbin0\n"), "in the order of names: {names}");
        place.ok(["export", "out"]);
        fs::remove_dir_all(place.path("in/.git")).unwrap();
        place.ok(["import", "out"]);
        assert_eq!(place.json(["show"])["root"], tree, "out and in again");
        assert!(place.ok(["check"]).contains("no damage"));
        place.fails(2, &["git cannot hold", ".git"], ["set", "a/.GIT/b", "1"]);
        place.fails(2, &["git cannot hold", "before 1970"], ["set", "a", "1", "--date", "-5"]);
    }
}

/// The context of the genesis block, with the hash that every Tezos node has for it.
#[test]
fn hashes_are_those_of_tezos() {
    let place = store("tezos");
    let protocol =
        bristlecone::Oid::from_str("38ecdef0cd08640f318a9b055f6b0d0c9ae030913a871d9b9d86fb846317da21").unwrap();
    for (path, value) in [("data/version", &b"genesis"[..]), ("protocol", protocol.as_bytes()), ("test_chain", &[0])] {
        assert_eq!(place.feed(["set", path, "-"], value).code, 0);
    }
    let commit = place.json(["show"]);
    assert_eq!(commit["root"], "940d07190d7d141d8d534beff66086a1ab7142b1ac16c20be337b07405fbfe4e");
    let (id, text) = (commit["commit"].as_str().unwrap(), commit["commit_text"].as_str().unwrap());
    assert!(text.len() == 52 && text.starts_with("Co"), "{text}");
    assert!(place.ok(["log"]).starts_with(&format!("commit {id} {text}\n")));
    for again in [&["show", text][..], &["show", &format!("{text}~0")], &["log", "-n", "1", "--at", text]] {
        assert!(place.ok(again).starts_with(&format!("commit {id} {text}\n")));
    }
    assert_eq!(place.ok(["list", "--at", &format!("{text}~2")]), "data/\n");
    place.ok(["checkout", text]);
    let mut wrong = text.to_owned();
    wrong.replace_range(51.., if text.ends_with('1') { "2" } else { "1" });
    place.fails(1, &["there is no", &wrong], ["show", &wrong]);
}

/// Roots are the same however a Tezos store keeps its directories and values.
#[test]
fn options_of_tezos_change_no_hash() {
    let place = Place::empty();
    for n in 0..400 {
        place.file(format!("in/wide/{n}"), format!("value {n}").repeat(n % 9));
    }
    for (dir, options) in [("one", &[][..]), ("two", &["--inline", "0", "--no-split"])] {
        place.ok([&["init", dir, "--format", "tezos"], options].concat());
        place.ok(["-r", dir, "import", "in"]);
        assert!(place.ok(["-r", dir, "check"]).contains("no damage"));
    }
    assert!(place.json(["-r", "two", "info"])["options"].as_str().unwrap().ends_with("inline=0 split=off"));
    assert_eq!(place.json(["-r", "one", "show"])["commit"], place.json(["-r", "two", "show"])["commit"]);
}

/// The hash of a directory that is stored in pieces takes all of them.
#[test]
fn damage_in_a_piece_of_a_directory_is_told_from_the_directory() {
    let place = store("tezos");
    for n in 0..200 {
        place.file(format!("in/wide/step-{n:03}"), format!("value {n}"));
    }
    place.ok(["import", "in"]);
    place.flip(b"step-123");
    let run = place.run(["check"]);
    let text = String::from_utf8(run.out).unwrap();
    assert_eq!(run.code, 1, "{text}");
    let says =
        ["the node object's hash takes objects that are", "it names the node object", "which is damaged", "affected"];
    assert!(says.iter().all(|says| text.contains(says)) && !text.contains("`check`"), "{text}");
}

#[test]
fn what_a_tezos_store_cannot_keep_is_refused() {
    let place = store("tezos");
    place.file("none/here", "");
    fs::remove_file(place.path("none/here")).unwrap();
    let nothing = place.json(["import", "none"]);
    assert_eq!((&nothing["changed"], &nothing["root"]), (&false.into(), &().into()));
    place.fails(2, &["nothing would be left", "empty tree"], ["import", "none", "--allow-empty"]);
    place.ok(["set", "a/b", "1"]);
    for verb in [&["del", "a"][..], &["del", "a/b"], &["import", "none"]] {
        place.fails(2, &["nothing would be left", "tezos", "empty tree"], verb);
    }
    assert_eq!(place.ok(["get", "a/b"]), "1");

    place.fails(2, &["zone +0100", "--date 12"], ["set", "a/b", "2", "--date", "12 +0100"]);
    let mut command = place.command(["set", "a/b", "2"]);
    command.env_remove("BRISTLECONE_AUTHOR").env("GIT_AUTHOR_NAME", "Cy").env("GIT_COMMITTER_NAME", "Di");
    assert_eq!(Run::of(command).code, 0);
    let commit = place.json(["show"]);
    assert_eq!((&commit["author"]["ident"], &commit["committer"]["ident"]), (&"Cy <>".into(), &"Cy <>".into()));

    folder_of_all_kinds(&place);
    let says = ["1 executable and 2 links (in/latest, in/bin/link, in/bin/run)", "tezos", "--plain"];
    place.fails(2, &says, ["import", "in"]);
    place.ok(["import", "in", "--plain"]);
    assert_eq!(place.ok(["list", "bin"]), "link\nrun\n");
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
    place.fails(2, &["nope", "native", "tezos"], ["init", "--format", "nope"]);
    place.fails(2, &["512"], ["init", "--inline", "513"]);
    place.fails(2, &["native", "--hash"], ["init", "--hash", "sha256"]);
    place.fails(2, &["git", "--inline"], ["init", "--format", "git", "--inline", "7"]);
    place.fails(2, &["md5"], ["init", "--format", "git", "--hash", "md5"]);
    assert!(!place.path(".bristlecone").exists());
}
