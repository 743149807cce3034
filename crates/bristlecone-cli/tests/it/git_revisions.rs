//! Revisions and logs beside real Git, over a made-up history with merges, tags and a reflog.

use bristlecone_needs::needs;

use crate::{git_harness::GitPlace, harness::Place};

/// A history with two merges, three people, a tag of each kind and dates a day apart.
fn history() -> GitPlace {
    let place = GitPlace::new();
    let mut day = 0;
    let mut commit = |branch: &str, path: &str, text: &str, who: &str| {
        place.git(["checkout", "-q", branch]);
        place.file(path, text);
        place.git(["add", "-A"]);
        day += 1;
        let date = format!("{} +0100", 1_700_000_000 + day * 86_400);
        let message = format!("{text} in {path}\n\nBy {who}, on day {day}.");
        let mut command = place.git_command(["commit", "-q", "-m", &message]);
        command.env("GIT_COMMITTER_DATE", &date).env("GIT_AUTHOR_DATE", &date).env("GIT_AUTHOR_NAME", who);
        assert!(command.status().unwrap().success());
    };
    place.git(["branch", "side"]);
    place.git(["branch", "other"]);
    commit("main", "fruit/apple", "green", "Ann");
    commit("side", "fruit/plum", "black", "Ben");
    commit("other", "roots/beet", "red", "Cid");
    commit("side", "fruit/apple", "green", "Ben");
    commit("main", "roots/leek", "white", "Ann");
    let merge = |from: &str, seconds: u64| {
        place.git(["checkout", "-q", "main"]);
        let mut command = place.git_command(["merge", "-q", "--no-ff", "--no-edit", from]);
        assert!(command.env("GIT_COMMITTER_DATE", format!("{seconds} +0000")).status().unwrap().success());
    };
    merge("side", 1_700_000_000 + 6 * 86_400);
    commit("other", "fruit/apple", "brown", "Cid");
    merge("other~1", 1_700_000_000 + 8 * 86_400);
    place.git(["tag", "light", "main~1"]);
    place.git(["tag", "-a", "-m", "The first", "v1", "side"]);
    place.git(["tag", "-a", "-m", "Of a tag", "v1-again", "v1"]);
    place.git(["tag", "of-a-tree", "main^{tree}"]);
    place.git(["checkout", "-q", "main"]);
    place
}

/// Ids as `cone log` lists them.
fn ours(place: &GitPlace, arguments: &[&str]) -> Vec<String> {
    let log = place.json(["log"].iter().chain(arguments));
    log["commits"].as_array().unwrap().iter().map(|one| one["commit"].as_str().unwrap().to_owned()).collect()
}

/// Ids as `git log` lists them.
fn theirs(place: &GitPlace, arguments: &[&str]) -> Vec<String> {
    let log = place.git(["log", "--format=%H"].iter().chain(arguments));
    log.lines().map(str::to_owned).collect()
}

#[needs(git)]
#[test]
fn logs_take_what_git_log_takes() {
    let place = history();
    for line in [
        "",
        "main",
        "HEAD~1",
        "side other",
        "main..other",
        "other..",
        "..other",
        "main...other",
        "side...other",
        "other ^main",
        "^side main ^other~1",
        "v1",
        "v1-again^{}",
        "light~1",
        "main^2",
        "-2",
        "-n 3 other",
        "--all",
        "--all ^main",
        "--first-parent",
        "--first-parent main other",
        "--no-merges main other",
        "--topo-order --all",
        "--date-order --all",
        "fruit",
        "other fruit/apple",
        "main..other fruit",
        "main -- fruit/apple roots",
        "--all --first-parent -- fruit",
        "-- fruit roots/leek",
        "main --",
        "--author Ann",
        "--author ^Ben --author Cid --all",
        "--grep black --grep white main",
        "--grep day.[35] --author Ann",
        "--grep ^green",
        "--since @1700172800",
        "--until @1700172800 --all",
        "--since 2023-11-16T22:13:20Z --until 2023-11-19T22:13:20Z --all",
        "--after @1700172800 -- fruit",
        "--no-merges -1 --author Ann main",
        "main@{0}",
        "main@{1}",
        "@{2}",
        "HEAD@{3}",
        ":/black",
        "^HEAD",
    ] {
        let arguments: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(ours(&place, &arguments), theirs(&place, &arguments), "{line}");
    }
    let lines = place.ok(["log", "--oneline", "-2"]);
    assert_eq!(lines, place.git(["log", "--format=%h %s", "--abbrev=12", "-2"]));
    let recent = ours(&place, &["--since", "2 weeks ago"]);
    assert_eq!(recent, theirs(&place, &["--since", "2 weeks ago"]));
    assert_eq!(ours(&place, &["--until", "1.day.ago"]), theirs(&place, &["--until", "1.day.ago"]));
    place.clean();
}

#[needs(git)]
#[test]
fn revisions_are_what_git_rev_parse_says() {
    let place = history();
    for rev in [
        "main",
        "@",
        "HEAD~2",
        "main^2~1",
        "v1",
        "v1^{}",
        "v1^{commit}",
        "v1^{tree}",
        "v1^{tag}",
        "v1-again^{}",
        "v1-again^{object}",
        "light^{tree}",
        "main^{tree}",
        "main~1^{tree}",
        "of-a-tree",
        "of-a-tree^{tree}",
        "main:",
        "main:fruit",
        "main:fruit/",
        "main:fruit/apple",
        "v1:fruit/apple",
        "side^:fruit/plum",
        "main^{tree}:fruit/apple",
        "main:fruit/apple^{blob}",
        "main@{0}",
        "main@{2}",
        "@{1}",
        "HEAD@{2}",
        "main@{1}~1",
        "main@{1}:fruit",
        ":/green",
        ":/^black",
        "refs/tags/v1",
        "heads/side",
    ] {
        // Names of tags lead to their commits; as objects they are shown themselves.
        let wanted = match rev {
            "v1" | "refs/tags/v1" | "v1^{tag}" => place.git(["rev-parse", "v1"]),
            "main:fruit/apple^{blob}" => continue,
            _ => place.git(["rev-parse", rev]),
        };
        let shown = place.json(["show", rev]);
        let id = shown["commit"].as_str().or_else(|| shown["oid"].as_str());
        assert_eq!(id, Some(wanted.trim()), "{rev}");
    }
    let blob = place.git(["cat-file", "blob", "v1:fruit/plum"]);
    assert_eq!(place.ok(["show", "v1:fruit/plum"]), blob);
    assert_eq!(place.ok(["get", "plum", "--at", "v1:fruit"]), blob);
    assert_eq!(place.ok(["get", "fruit/plum", "--at", "main@{2}^{tree}"]), place.git(["show", "main@{2}:fruit/plum"]));
    assert_eq!(place.ok(["list", "--at", "main:roots"]), place.git(["ls-tree", "--name-only", "main:roots"]));
    let out = place.path("../out");
    place.ok(["export", out.to_str().unwrap(), "--at", "v1^{tree}", "--path", "fruit"]);
    assert_eq!(std::fs::read_to_string(out.join("plum")).unwrap(), blob);
    place.ok(["branches", "new", "--at", "v1-again"]);
    assert_eq!(place.git(["rev-parse", "new"]), place.git(["rev-parse", "side"]));
    for (range, two) in [("side..main", ["side", "main"]), ("main...other", ["main", "other"])] {
        let names = place.git(["diff", "--name-only", range]);
        let ours = place.ok(["diff", range]);
        let ours: Vec<&str> = ours.lines().map(|line| &line[2..]).collect();
        assert_eq!(ours, names.lines().collect::<Vec<_>>(), "{range} of {two:?}");
    }
}

#[needs(git)]
#[test]
fn what_is_no_revision_is_refused_as_in_git() {
    let place = history();
    place.git(["branch", "fruit"]);
    let git_fails = |line: &[&str]| {
        let run = crate::harness::Run::of(place.git_command(["log"].iter().chain(line)));
        assert_eq!(run.code, 128, "{line:?}");
    };
    git_fails(&["fruit"]);
    place.fails(2, &["a revision and a path", "`fruit --`", "`-- fruit`"], ["log", "fruit"]);
    assert_eq!(ours(&place, &["fruit", "--"]), theirs(&place, &["fruit", "--"]));
    assert_eq!(ours(&place, &["--", "fruit"]), theirs(&place, &["--", "fruit"]));
    git_fails(&["nowhere"]);
    place.fails(1, &["no revision and no path", "-- nowhere"], ["log", "nowhere"]);
    git_fails(&["nowhere..main"]);
    place.fails(1, &["\"nowhere..main\""], ["log", "nowhere..main"]);
    git_fails(&["nowhere", "--"]);
    place.fails(1, &["there is no \"nowhere\""], ["log", "nowhere", "--"]);
    place.fails(1, &["no commit changed"], ["log", "--", "nowhere"]);
    git_fails(&["main@{9}"]);
    place.fails(1, &["goes back"], ["log", "main@{9}", "--"]);
    place.fails(2, &["names no revision"], ["show", "main@{-1}"]);
    place.fails(2, &["names no revision", "HEAD:fruit"], ["show", ":fruit"]);
    place.fails(1, &["leads to a dir"], ["show", "main^{tree}^{commit}"]);
    place.fails(1, &["nothing at nowhere"], ["show", "main:nowhere"]);
    place.fails(1, &["no commit has \"purple\""], ["show", ":/purple"]);
    place.fails(2, &["no regular expression"], ["log", "--grep", "("]);
    place.fails(2, &["is no date", "2 weeks ago"], ["log", "--since", "soon"]);
    place.fails(2, &["no commit"], ["log", "main^{tree}", "--"]);
}

#[needs(git)]
#[test]
fn tags_are_gits_own() {
    for options in [&[][..], &["--object-format=sha256"]] {
        let place = GitPlace::with(options);
        place.git(["branch", "new"]);
        place.ok(["set", "-b", "new", "a", "b"]);
        place.ok(["tag", "light"]);
        place.ok(["tag", "there", "new"]);
        place.ok(["tag", "-a", "v1", "-m", "The first", "new~1"]);
        place.ok(["tag", "v1.1", "-m", "By its message alone\n\nand more"]);
        place.ok(["tag", "-a", "-m", "Of a tag", "v2", "v1"]);
        place.ok(["tag", "tree", "HEAD^{tree}"]);
        assert_eq!(place.ok(["tag"]), place.git(["tag"]));
        assert_eq!(place.ok(["tag", "-l", "v*", "t?ee"]), place.git(["tag", "-l", "v*", "t?ee"]));
        assert_eq!(place.git(["cat-file", "-t", "light"]), "commit\n");
        assert_eq!(place.git(["rev-parse", "there"]), place.git(["rev-parse", "new"]));
        let tag = place.git(["cat-file", "-p", "v1"]);
        let head = place.git(["rev-parse", "HEAD"]);
        let wanted = format!(
            "object {head}type commit\ntag v1\ntagger Grace <grace@example.org> 1700000000 +0000\n\nThe first\n"
        );
        assert_eq!(tag, wanted);
        assert_eq!(place.git(["tag", "-l", "--format=%(contents)", "v1.1"]), "By its message alone\n\nand more\n\n");
        assert_eq!(place.git(["rev-parse", "v2^{tag}"]), place.git(["rev-parse", "v2"]));
        assert_eq!(place.git(["cat-file", "-p", "v2"]).lines().nth(1), Some("type tag"));
        assert_eq!(place.git(["cat-file", "-t", "tree"]), "tree\n");
        assert_eq!(place.json(["tag", "-l", "v1"])["tags"][0]["commit"], head.trim());

        place.fails(2, &["a tag \"v1\" already", "--force"], ["tag", "v1"]);
        place.ok(["tag", "--force", "v1", "new"]);
        assert_eq!(place.git(["rev-parse", "v1"]), place.git(["rev-parse", "new"]));
        for name in ["-dash", "a..b", "a b", "a~1", "", "a.lock"] {
            let run = crate::harness::Run::of(place.git_command(["tag", "--", name]));
            assert_eq!(run.code, 128, "{name}");
            place.fails(2, &["cannot be the name of a tag"], ["tag", "--", name]);
        }
        place.ok(["tag", "-d", "light", "v2"]);
        place.fails(1, &["no tag \"light\""], ["tag", "-d", "light"]);
        assert_eq!(place.ok(["tag"]), place.git(["tag"]));
        place.clean();
    }
}

#[needs(git)]
#[test]
fn moves_of_branches_are_those_of_gits_reflogs() {
    let place = GitPlace::new();
    place.ok(["set", "--worktree", "fruit/apple", "green", "-m", "Green"]);
    place.git(["commit", "-q", "--allow-empty", "-m", "by Git"]);
    for name in ["main", "HEAD"] {
        let ours = place.json(["branches", name, "--moves"]);
        let moves = ours["moves"].as_array().unwrap();
        let reasons: Vec<&str> = moves.iter().map(|one| one["reason"].as_str().unwrap()).collect();
        let theirs = place.git(["reflog", "show", "--format=%gs", name]);
        assert_eq!(reasons, theirs.lines().collect::<Vec<_>>());
        assert!(reasons.len() == 3 && reasons.contains(&"commit: Green"), "{reasons:?}");
        assert_eq!(moves[0]["after"].as_str().unwrap(), place.git(["rev-parse", "HEAD"]).trim());
        assert_eq!((&moves[0]["before"], &moves[2]["before"]), (&moves[1]["after"], &().into()));
        assert_eq!(moves[0]["who"]["ident"], "Grace <grace@example.org>");
    }
    let lines = place.ok(["branches", "--moves"]);
    assert!(lines.starts_with("main@{0} ") && lines.ends_with(" commit (initial): one\n"), "{lines}");
    assert_eq!(place.ok(["branches", "--moves", "-b", "main"]), lines);
    place.fails(1, &["no branch \"nope\""], ["branches", "nope", "--moves"]);
    place.fails(2, &["leave it out"], ["branches", "main", "--moves", "-b", "main"]);
    Place::with_store().fails(2, &["only Git repositories"], ["branches", "--moves"]);
}
