//! `cone import` of a folder takes what `git add -A` takes: Git is the judge.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
};

use bristlecone_needs::needs;
use serde_json::json;

use crate::{git_harness::GitPlace, harness::Place};

/// A repository with a first commit and a branch `other` to import to.
fn begun() -> GitPlace {
    let place = GitPlace::unborn(&[]);
    place.file("keep", "1");
    place.git(["add", "-A"]);
    place.git(["commit", "-q", "-m", "one"]);
    place.git(["branch", "other"]);
    place
}

/// The tree that Git makes of everything.
#[track_caller]
fn added(place: &GitPlace) -> String {
    place.git(["-c", "advice.addEmbeddedRepo=false", "add", "-A"]);
    place.git(["write-tree"])
}

/// Numbers that look like chance, and are the same in each run.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % bound
    }

    fn one<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    fn path(&mut self) -> String {
        let names = ["a", "b", "ab", "ba.o", "x.o", "build", "a b", "[x]", "A", "logs"];
        let steps = 1 + self.below(4);
        (0..steps).map(|_| self.one(&names)).collect::<Vec<_>>().join("/")
    }

    fn patterns(&mut self) -> String {
        let whole =
            ["*.o", "!*.o", "build/", "/a", "a/", "b/*", "!b/a", "**/ab", "a/**", "a**/b", "*", "!*/", "# a", "a\\ b"];
        let parts = [
            "*",
            "**",
            "?",
            "/",
            "a",
            "b",
            "[a-b]",
            "[!a]",
            "\\",
            "[",
            "]",
            ".o",
            "**/",
            "/**",
            " ",
            "[[:alpha:]]",
            "A",
        ];
        let line = |draw: &mut Self| match draw.below(2) {
            0 => draw.one(&whole).to_owned(),
            _ => (0..1 + draw.below(4)).map(|_| draw.one(&parts)).collect(),
        };
        (0..1 + self.below(4)).map(|_| line(self) + self.one(&["\n", "\r\n", " \n"])).collect()
    }
}

/// Writes a file unless something else is there.
fn try_file(place: &GitPlace, path: &str, text: &str) {
    let path = place.path(path);
    if fs::create_dir_all(path.parent().unwrap()).is_ok() && !path.is_dir() {
        fs::write(path, text).unwrap();
    }
}

/// A repository with files, ignore files and an index that are drawn.
fn drawn(seed: u64) -> GitPlace {
    let mut draw = Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let place = begun();
    // Git adds no two names then that differ by capital letters alone.
    let fold = draw.below(8) == 0;
    if fold {
        place.git(["config", "core.ignoreCase", "true"]);
    }
    if draw.below(4) == 0 {
        place.git(["config", "core.fileMode", "false"]);
    }
    for _ in 0..20 {
        let path = draw.path();
        let path = if fold { path.replace('A', "C") } else { path };
        try_file(&place, &path, &path);
        if draw.below(5) == 0 && place.path(&path).is_file() {
            fs::set_permissions(place.path(&path), PermissionsExt::from_mode(draw.one(&[0o755, 0o654]))).unwrap();
        }
        // Some are in the index, ignored or not.
        if draw.below(4) == 0 && place.path(&path).is_file() {
            place.git(["add", "-f", "--", &path]);
        }
    }
    place.file(".git/info/exclude", draw.patterns());
    match draw.below(3) {
        0 => place.file("../home/.config/git/ignore", draw.patterns()),
        1 => {
            place.git(["config", "core.excludesFile", "~/own"]);
            place.file("../home/own", draw.patterns());
        }
        _ => {}
    }
    for _ in 0..1 + draw.below(3) {
        let folder = draw.path();
        let folder = if draw.below(2) == 0 { "" } else { &folder };
        try_file(&place, format!("{folder}/.gitignore").trim_start_matches('/'), &draw.patterns());
    }
    if draw.below(3) == 0 {
        let nested = place.path(draw.path());
        if fs::create_dir_all(&nested).is_ok() {
            let nested = nested.to_str().unwrap();
            place.git(["init", "-q", nested]);
            place.git([
                "-C",
                nested,
                "-c",
                "user.name=a",
                "-c",
                "user.email=a@b",
                "commit",
                "-q",
                "--allow-empty",
                "-m",
                "1",
            ]);
        }
    }
    // And some of those go, or become something else.
    for path in place.git(["ls-files"]).lines().filter(|path| *path != "keep") {
        if draw.below(6) == 0 && fs::remove_file(place.path(path)).is_ok() && draw.below(2) == 0 {
            try_file(&place, &format!("{path}/a"), "in place of a file");
        }
    }
    place
}

#[needs(git)]
#[test]
fn an_import_takes_what_git_adds() {
    for seed in 0..60 {
        let place = drawn(seed);
        place.ok(["import", ".", "-b", "other", "--allow-empty"]);
        let ours = place.git(["rev-parse", "other^{tree}"]);
        let wanted = added(&place);
        if ours != wanted {
            let difference = place.git(["diff-tree", "-r", "--name-only", wanted.trim(), ours.trim()]);
            let mut why = place.git_command(["check-ignore", "-v", "-n", "--no-index"]);
            why.args(difference.lines());
            panic!("seed {seed}: {difference}\n{}", String::from_utf8_lossy(&why.output().unwrap().stdout));
        }
    }
}

#[needs(git)]
#[test]
fn what_is_ignored_is_told_and_taken_with_all() {
    let place = begun();
    place.file(".gitignore", "secret\nbuild/\n!d/secret\n");
    place.file("sub/.gitignore", "*.log\n");
    place.file("d/build/out", "1");
    for name in ["secret", "d/secret", "build/a", "build/b", "sub/x.log", "sub/x", "sub/tracked.log", "excluded"] {
        place.file(name, name);
    }
    place.file(".git/info/exclude", "excluded\n");
    place.git(["add", "-f", "sub/tracked.log"]);
    let run = place.run(["import", ".", "-b", "other"]);
    let output = "ignored: 1 file by .git/info/exclude; 1 file and 2 folders by .gitignore; 1 file by sub/.gitignore";
    assert!(run.code == 0 && run.err.contains(output), "{run:?}");
    assert_eq!(place.git(["rev-parse", "other^{tree}"]), added(&place));
    let output = place.json(["import", ".", "-b", "other", "--allow-empty"]);
    let by = |by: &str, files: u64, dirs: u64| json!({"by": by, "files": files, "dirs": dirs});
    let wanted = json!([by(".git/info/exclude", 1, 0), by(".gitignore", 1, 2), by("sub/.gitignore", 1, 0)]);
    assert_eq!(output["ignored"], wanted);
    // What a folder above says counts, too, and one that is ignored itself is refused.
    place.ok(["import", "sub", "-b", "other", "--path", "alone"]);
    assert_eq!(place.git(["ls-tree", "-r", "--name-only", "other", "alone/"]).lines().count(), 3);
    place.fails(2, &["build is ignored", ".gitignore", "--all"], ["import", "build", "-b", "other"]);
    place.file("hidden/.gitignore", "*\n");
    place.fails(
        2,
        &["all of hidden is left out: 1 file by hidden/.gitignore", "--all"],
        ["import", "hidden", "-b", "other"],
    );
    std::fs::remove_dir_all(place.path("hidden")).unwrap();
    place.ok(["import", "build", "-b", "other", "--path", "b", "--all"]);
    assert_eq!(place.git(["ls-tree", "--name-only", "other", "b/"]), "b/a\nb/b\n");
    // All is all, but for what is excluded here and now.
    place.ok(["import", ".", "-b", "other", "--all", "--exclude", "/build/", "--exclude", "tracked.*"]);
    let wanted = added_all(&place, &["build", "sub/tracked.log"]);
    assert_eq!(place.git(["rev-parse", "other^{tree}"]), wanted);
    place.sound();
}

/// The tree that Git makes of all files but some.
fn added_all(place: &GitPlace, but: &[&str]) -> String {
    place.git(["add", "-A", "-f"]);
    for path in but {
        place.git(["rm", "-r", "-q", "--cached", path]);
    }
    place.git(["write-tree"])
}

#[needs(git)]
#[test]
fn the_branch_that_is_checked_out_follows_without_what_is_ignored() {
    let place = begun();
    place.file(".gitignore", "secret\n");
    place.file("secret", "1");
    place.file("new", "1");
    place.ok(["import", ".", "--worktree"]);
    place.clean();
    assert_eq!(place.git(["ls-files"]), ".gitignore\nkeep\nnew\n");
    assert_eq!(place.text("secret"), "1");
}

#[needs(git)]
#[test]
fn repositories_inside_become_the_ids_of_their_commits() {
    let place = begun();
    for name in ["nested", "known", "deep/empty"] {
        fs::create_dir_all(place.path(name)).unwrap();
        place.git(["init", "-q", name]);
        place.file(format!("{name}/file"), name);
    }
    for name in ["nested", "known"] {
        place.git(["-C", name, "add", "-A"]);
        place.git(["-C", name, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "1"]);
    }
    place.git(["-c", "advice.addEmbeddedRepo=false", "add", "known"]);
    // A submodule whose files were never fetched keeps its id.
    let commit = place.git(["rev-parse", "HEAD"]);
    place.git(["update-index", "--add", "--cacheinfo", &format!("160000,{},unfetched", commit.trim())]);
    fs::create_dir(place.path("unfetched")).unwrap();
    place.file("bare.git/.git/config", "no repository");
    place.file("bare.git/file", "1");
    let output = place.json(["import", ".", "-b", "other"]);
    let id = |name: &str| place.git(["-C", name, "rev-parse", "HEAD"]).trim().to_owned();
    assert_eq!(
        output["submodules"],
        json!([
            {"path": "known", "oid": id("known"), "registered": true},
            {"path": "nested", "oid": id("nested"), "registered": false},
            {"path": "unfetched", "oid": commit.trim(), "registered": true},
        ])
    );
    let empty = json!({"path": "deep/empty", "what": "repository without a commit"});
    assert!(output["left_out"].as_array().unwrap().contains(&empty), "{output}");
    let run = place.run(["import", ".", "-b", "other", "--all"]);
    assert!(run.err.contains("id of its commit: nested (") && !run.err.contains(": known ("), "{run:?}");
    fs::remove_dir_all(place.path("deep")).unwrap();
    assert_eq!(place.git(["rev-parse", "other^{tree}"]), added(&place));
    place.sound();
}

#[needs(git)]
#[test]
fn modes_and_links_come_from_the_index_where_files_have_none() {
    let place = begun();
    place.file("run", "1");
    place.file("link", "keep");
    place.git(["update-index", "--add", "--chmod=+x", "run"]);
    let link = place.git(["hash-object", "-w", "link"]);
    place.git(["update-index", "--add", "--cacheinfo", &format!("120000,{},link", link.trim())]);
    place.git(["config", "core.symlinks", "false"]);
    place.git(["config", "core.fileMode", "false"]);
    place.file("link", "run");
    place.file("new", "1");
    for name in ["keep", "new"] {
        fs::set_permissions(place.path(name), PermissionsExt::from_mode(0o755)).unwrap();
    }
    symlink("keep", place.path("real")).unwrap();
    place.ok(["import", ".", "-b", "other"]);
    assert_eq!(place.git(["rev-parse", "other^{tree}"]), added(&place));
    assert!(place.git(["ls-tree", "other", "link"]).starts_with("120000"));
    place.ok(["import", ".", "-b", "other", "--plain"]);
    assert!(place.git(["ls-tree", "other", "link"]).starts_with("100644"));
}

#[needs(git)]
#[test]
fn files_that_a_sparse_checkout_leaves_out_stay() {
    let place = begun();
    place.file("in/a", "1");
    place.file("out/b", "1");
    place.git(["add", "-A"]);
    place.git(["commit", "-q", "-m", "two"]);
    place.git(["sparse-checkout", "set", "--no-cone", "/in/", "/keep"]);
    assert!(!place.path("out").exists());
    place.file("in/a", "2");
    let run = place.run(["import", ".", "-b", "other"]);
    assert!(run.code == 0 && run.err.contains("1 file that the sparse checkout leaves out"), "{run:?}");
    assert_eq!(place.git(["rev-parse", "other^{tree}"]), added(&place));
}

#[needs(git)]
#[test]
fn folders_from_elsewhere_have_ignore_files_of_their_own() {
    let place = begun();
    place.file(".gitignore", "*.here\n");
    place.file("../elsewhere/.gitignore", "*.o\n");
    for name in ["a.o", "a.here", "d/b.o", "d/c", "keep"] {
        place.file(format!("../elsewhere/{name}"), "1");
    }
    place.ok(["import", "../elsewhere", "-b", "other"]);
    assert_eq!(place.git(["ls-tree", "-r", "--name-only", "other"]), ".gitignore\na.here\nd/c\nkeep\n");
}

#[test]
fn stores_have_ignore_files_of_their_own() {
    let place = Place::with_store();
    place.file("files/.coneignore", "*.o\n!keep.o\n/build/\n");
    place.file("files/.gitignore", "c\n");
    for name in ["a.o", "keep.o", "build/x", "d/build", "c", "d/t.tmp"] {
        place.file(format!("files/{name}"), name);
    }
    let output = place.json(["import", "files", "--exclude", "*.tmp"]);
    let (excluded, ignored) =
        (json!({"by": "--exclude", "files": 1, "dirs": 0}), json!({"by": ".coneignore", "files": 1, "dirs": 1}));
    assert_eq!((&output["ignored"], &output["left_out"]), (&json!([excluded, ignored]), &json!([])));
    let listed = |place: &Place| place.ok(["tree"]);
    assert_eq!(listed(&place).matches(".o").count(), 1);
    place.ok(["import", "files", "--exclude", "!*.o", "--exclude", "d/"]);
    let now = listed(&place);
    assert!(now.contains("a.o") && !now.contains("t.tmp") && !now.contains("build"), "{now}");
    place.ok(["import", "files", "--all"]);
    assert_eq!(place.json(["tree"])["values"], 8);
    // Where nothing is left, the message says what takes it in.
    place.file("none/.coneignore", "*\n");
    place.file("none/a", "1");
    for (more, way) in [
        (&["--exclude", "a"][..], "take it with --all and without --exclude, or"),
        (&["--exclude", "*", "--all"], "take it without --exclude, or"),
        (&[], "take it with --all, or"),
    ] {
        place.fails(2, &["all of none is left out", way], [&["import", "none"], more].concat());
    }
}

#[needs(somebody_else)]
#[test]
fn what_cannot_be_read_is_left_out_by_name() {
    let place = Place::empty();
    place.file("work/files/a", "1");
    place.file("work/files/d/secret", "1");
    place.file("work/files/closed/b", "1");
    let run = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.current_dir(place.path("work"));
        place.run_as_somebody(command)
    };
    assert_eq!(run(&["init"]).code, 0);
    for name in ["files/d/secret", "files/closed"] {
        fs::set_permissions(place.path("work").join(name), PermissionsExt::from_mode(0o000)).unwrap();
    }
    run(&["import", "files"]).failed(3, &["files/", "permission"]);
    let done = run(&["-o", "json", "import", "files", "--skip-unreadable"]);
    assert_eq!(done.code, 1, "{done:?}");
    let output: serde_json::Value = serde_json::from_slice(&done.out).unwrap();
    let unreadable = |path: &str| json!({"path": path, "what": "unreadable"});
    assert_eq!(output["left_out"], json!([unreadable("closed"), unreadable("d/secret")]));
    assert_eq!((&output["changed"], &output["files"]), (&json!(true), &json!(1)));
    let done = run(&["import", "files", "--skip-unreadable"]);
    assert!(done.code == 1 && done.err.contains("left out: d/secret (unreadable)"), "{done:?}");
    fs::set_permissions(place.path("work/files/closed"), PermissionsExt::from_mode(0o755)).unwrap();
}
