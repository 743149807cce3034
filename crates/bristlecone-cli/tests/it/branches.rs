//! Branches, HEAD, logs and differences.

use crate::harness::Place;

#[test]
fn branches_are_made_moved_to_and_removed() {
    let place = Place::with_store();
    place.ok(["set", "a", "1"]);
    place.ok(["checkout", "-c", "trial"]);
    place.ok(["set", "a", "2"]);
    assert_eq!(place.ok(["get", "a", "-b", "main"]), "1");
    assert_eq!(place.ok(["get", "a"]), "2");
    place.ok(["checkout", "main"]);
    assert_eq!(place.ok(["get", "a"]), "1");
    place.ok(["branches", "third", "--at", "trial"]);
    assert_eq!(place.ok(["get", "a", "--at", "third"]), "2");
    let listed = place.ok(["branches"]);
    let names: Vec<&str> = listed.lines().map(|line| line.rsplit_once(' ').unwrap().0).collect();
    assert_eq!(names, ["* main", "  third", "  trial"]);
    place.ok(["branches", "-d", "trial"]);
    place.fails(1, &["no branch \"trial\"", "cone branches"], ["get", "a", "-b", "trial"]);
    place.fails(1, &["no branch"], ["branches", "-d", "trial"]);
    place.fails(2, &["checked out"], ["branches", "-d", "main"]);
    place.fails(2, &["already"], ["branches", "third"]);
    place.fails(2, &["already"], ["checkout", "-c", "third"]);
}

#[test]
fn a_commit_can_be_checked_out_by_itself() {
    let place = Place::with_store();
    place.ok(["set", "a", "1"]);
    place.ok(["set", "a", "2"]);
    place.ok(["checkout", "HEAD~1"]);
    assert_eq!(place.ok(["get", "a"]), "1");
    place.fails(2, &["no branch is checked out", "-b NAME"], ["set", "a", "3"]);
    place.ok(["set", "-b", "main", "a", "3"]);
    assert_eq!(place.ok(["get", "a"]), "1");
    place.ok(["checkout", "main"]);
    assert_eq!(place.ok(["get", "a"]), "3");
}

#[test]
fn the_first_branch_may_have_another_name() {
    let place = Place::empty();
    place.ok(["init", "-b", "trunk"]);
    assert_eq!(place.ok(["list"]), "");
    assert!(place.run(["log"]).err.contains("no commits yet"));
    place.ok(["set", "a", "1"]);
    assert!(place.ok(["branches"]).starts_with("* trunk "));
}

#[test]
fn a_branch_begins_with_its_first_commit() {
    let place = Place::with_store();
    place.ok(["checkout", "-c", "early"]);
    place.ok(["set", "a", "1"]);
    place.fails(1, &["no branch \"new\"", "-c makes", "--orphan makes"], ["set", "-b", "new", "a", "2"]);
    place.fails(1, &["no branch \"new\""], ["import", ".", "-b", "new"]);
    place.fails(2, &["-b NAME"], ["set", "-c", "a", "2"]);
    place.fails(2, &["already"], ["set", "-c", "-b", "early", "a", "2"]);
    let run = place.run(["set", "-c", "-b", "new", "a", "1"]);
    assert!(run.code == 0 && run.err.contains("began the branch new"), "{run:?}");
    assert_eq!(place.ok(["branches"]).lines().count(), 2);
    assert_eq!(place.ok(["log", "-b", "new"]).matches("commit ").count(), 1, "nothing had changed");
    place.ok(["set", "--orphan", "-b", "bare", "b", "1"]);
    assert_eq!(place.ok(["list", "-b", "bare"]), "b\n");
    place.ok(["set", "-c", "-b", "refs/heads/more", "b", "1"]);
    assert_eq!(place.ok(["list", "-b", "more"]), "a\nb\n");
}

#[test]
fn branches_have_names_that_git_takes() {
    let place = Place::with_store();
    place.ok(["set", "a", "1"]);
    for name in ["HEAD", "@", "refs/heads/HEAD"] {
        place.fails(2, &["cannot be the name of a branch"], ["branches", name]);
        place.fails(2, &["cannot be the name of a branch"], ["checkout", "-c", name]);
        place.fails(2, &["cannot be the name of a branch"], ["set", "-c", "-b", name, "a", "2"]);
    }
    place.fails(2, &["cannot be the name of a branch"], ["branches", "--", "-dash"]);
    place.fails(2, &["cannot be the name of a branch"], ["set", "--orphan", "-b=-dash", "a", "2"]);
    place.fails(2, &["cannot be the name of a branch"], ["init", "other", "-b", "HEAD"]);
}

#[test]
fn control_characters_of_a_branch_are_shown_in_digits() {
    let place = Place::with_store();
    place.ok(["set", "a", "1"]);
    // Git takes it, and some terminals take it for the beginning of a command.
    let name = "x\u{9b}31m";
    let lines = [
        &["set", "-b", name, "-c", "a", "2"][..],
        &["set", "-b", name, "a", "2"],
        &["set", "-b", name, "a", "3"],
        &["branches"],
        &["checkout", name],
        &["info"],
    ];
    for words in lines {
        let run = place.run(words);
        assert_eq!(run.code, 0, "{run:?}");
        let said = String::from_utf8(run.out).unwrap() + &run.err;
        assert!(said.contains("x%C2%9B31m") && !said.contains('\u{9b}'), "{words:?}: {said:?}");
    }
}

#[test]
fn a_branch_goes_only_if_another_has_its_commits() {
    let place = Place::with_store();
    place.ok(["set", "a", "1"]);
    place.ok(["branches", "same"]);
    place.ok(["branches", "-d", "same"]);
    place.ok(["set", "-c", "-b", "ahead", "a", "2"]);
    place.fails(2, &["ahead", "no other branch has", "--force"], ["branches", "-d", "ahead"]);
    place.ok(["branches", "copy", "--at", "ahead"]);
    place.ok(["branches", "-d", "refs/heads/ahead"]);
    place.ok(["branches", "-d", "copy", "--force"]);
    assert_eq!(place.ok(["branches"]).lines().count(), 1);
}

#[test]
fn logs_follow_paths() {
    let place = Place::with_store();
    for (path, message) in [("a/x", "first"), ("b", "second"), ("a/y", "third"), ("b", "fourth")] {
        place.ok(["set", path, message, "-m", message]);
    }
    let messages = |arguments: &[&str]| -> Vec<String> {
        let log = place.json([&["log"], arguments].concat());
        let commits = log["commits"].as_array().unwrap().iter();
        commits.map(|commit| commit["message"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(messages(&[]), ["fourth", "third", "second", "first"]);
    assert_eq!(messages(&["--topo", "-n", "2"]), ["fourth", "third"]);
    assert_eq!(messages(&["a"]), ["third", "first"]);
    assert_eq!(messages(&["b", "HEAD~1"]), ["second"]);
    assert_eq!(messages(&["--at", "main~2"]), ["second", "first"]);
    assert_eq!(messages(&["-n", "1", "a"]), ["third"]);
    assert_eq!(messages(&["-n", "0"]), [""; 0]);
    place.fails(1, &["no commit changed"], ["log", "--", "nowhere"]);
    place.fails(1, &["no revision and no path"], ["log", "nowhere"]);
    assert_eq!(messages(&["--at", "main~2", "a"]), ["first"]);
    // A path is no revision, and one that changed nowhere behind a revision is no answer.
    place.fails(1, &["there is no \"a\"", "`cone branches`"], ["log", "--at", "a"]);
    place.fails(1, &["no commit changed what is at nowhere"], ["log", "main~2", "--", "nowhere"]);
    assert_eq!(messages(&["main~2..main", "--", "nowhere"]), [""; 0]);
    assert!(place.ok(["log", "-n", "1"]).contains("\n    fourth\n"));
}

#[test]
fn logs_take_revisions_and_paths() {
    let place = Place::with_store();
    place.ok(["set", "a", "1", "-m", "one"]);
    place.ok(["checkout", "-c", "trial"]);
    place.ok(["set", "b", "2", "-m", "two"]);
    place.ok(["set", "a", "3", "-m", "three", "--author", "Ben <ben@example.org>"]);
    place.ok(["tag", "-a", "v1", "-m", "A tag", "main"]);
    let lines = |arguments: &[&str]| -> Vec<String> {
        let lines = place.ok([&["log", "--oneline"], arguments].concat());
        lines.lines().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect()
    };
    assert_eq!(lines(&["main"]), ["one"]);
    assert_eq!(lines(&["main..trial"]), ["three", "two"]);
    assert_eq!(lines(&["trial", "^v1", "--", "a"]), ["three"]);
    assert_eq!(lines(&["v1...trial", "-1"]), ["three"]);
    assert_eq!(lines(&["a", "b", "-b", "trial"]), ["three", "two", "one"]);
    assert_eq!(lines(&["--all", "--author", "ben@"]), ["three"]);
    assert_eq!(lines(&["--grep", "t(w|h)"]), ["three", "two"]);
    assert_eq!(lines(&["--since", "2023-11-14", "--until", "2023-11-15 23:00:00 +0000", ":/two"]), ["two", "one"]);
    assert_eq!(lines(&["--since", "1 hour ago"]), [""; 0]);
    assert_eq!(place.ok(["get", "a", "--at", "v1^{tree}"]), "1");
    assert_eq!(place.ok(["show", "trial:a"]), "3");
    assert_eq!(place.ok(["diff", "main..trial"]), "M a\nA b\n");
    assert!(place.ok(["show", "v1"]).contains("A tag"));
    assert_eq!(place.ok(["tag"]), "v1\n");
    place.fails(2, &["only Git repositories keep one"], ["show", "trial@{1}"]);
    place.ok(["tag", "-d", "v1"]);
    assert_eq!(place.ok(["tag"]), "");
    place.fails(2, &["the format tezos has no annotated tags"], ["-r", &tezos(&place), "tag", "v1", "-m", "x"]);
}

#[test]
fn names_and_people_are_shown_with_their_percent_signs() {
    let place = Place::with_store();
    place.ok(["set", "a", "1", "--author", "Ann 50% <ann%example.org@gateway>"]);
    let person = "Ann 50% <ann%example.org@gateway>";
    assert!(place.ok(["log"]).contains(&format!("\nAuthor: {person}\n")));
    place.ok(["tag", "-a", "v50%", "-m", "half", "--author", person]);
    // What is listed can be given back.
    assert_eq!(place.ok(["tag"]), "v50%\n");
    let shown = place.ok(["show", "v50%"]);
    assert!(shown.starts_with("tag v50% ") && shown.contains(&format!("\nTagger: {person}\n")), "{shown}");
    place.fails(1, &["no tag \"w50%\""], ["tag", "-d", "w50%"]);
}

/// A store of a format without annotated tags.
fn tezos(place: &Place) -> String {
    place.ok(["init", "chain", "--format", "tezos"]);
    place.ok(["-r", "chain", "set", "a", "1"]);
    place.ok(["-r", "chain", "tag", "light"]);
    "chain".to_owned()
}

#[test]
fn differences_are_listed() {
    let place = Place::with_store();
    place.ok(["set", "a/x", "1"]);
    place.ok(["set", "b", "1"]);
    place.ok(["checkout", "-c", "trial"]);
    place.ok(["set", "a/x", "2"]);
    place.ok(["del", "b"]);
    place.ok(["set", "c/d", "3"]);
    assert_eq!(place.ok(["diff"]), "A c/d\n");
    assert_eq!(place.ok(["diff", "main"]), "M a/x\nD b\nA c/d\n");
    assert_eq!(place.ok(["diff", "main", "trial", "--path", "a"]), "M a/x\n");
    assert_eq!(place.ok(["diff", "main", "trial", "--path", "b"]), "D b\n");
    assert_eq!(place.ok(["diff", "main", "trial", "--path", "c"]), "A c/d\n");
    assert_eq!(place.ok(["diff", "trial", "main", "--path", "c"]), "D c/d\n");
    assert_eq!(place.run(["diff", "main", "trial", "--exit-code"]).code, 1);
    assert_eq!(place.run(["diff", "main", "main", "--exit-code"]).code, 0);
    assert_eq!(place.ok(["diff", "main~1", "main~1"]), "");
    assert!(place.ok(["show", "main~1"]).ends_with("\nA a/x\n"), "the first commit against nothing");
}

#[test]
fn objects_are_shown_by_their_ids() {
    let place = Place::with_store();
    let value = "v".repeat(300);
    place.ok(["set", "d/v", &value]);
    let entry = place.json(["list", "d"])["entries"][0].clone();
    let oid = entry["oid"].as_str().unwrap();
    assert_eq!(place.ok(["show", &oid[..8]]), value);
    let dir = place.json(["list"])["entries"][0]["oid"].as_str().unwrap().to_owned();
    assert!(place.ok(["show", &dir]).contains(" v\n"));
    assert_eq!(place.json(["show", oid])["kind"], "value");
    assert_eq!(place.ok(["list", "--at", &dir]), "v\n");
    place.fails(2, &["no commit and no directory"], ["list", "--at", oid]);
    place.fails(1, &["there is no \"feedfeed\""], ["show", "feedfeed"]);
    let large: Vec<u8> = (0..1_000_000u32).flat_map(u32::to_le_bytes).collect();
    place.feed(["set", "large"], &large);
    let entries = place.json(["list"]);
    let oid = entries["entries"][1]["oid"].as_str().unwrap();
    assert_eq!(place.run(["show", oid]).out, large);
}

#[test]
fn verbs_of_what_is_checked_out_take_no_branch() {
    let place = Place::with_store();
    place.ok(["set", "a", "1"]);
    place.ok(["set", "a", "2", "-b", "side", "-c"]);
    place.fails(2, &["what is checked out", "leave -b out", "`cone branches`"], ["info", "-b", "side"]);
    for words in [
        &["checkout", "-b", "new", "side"][..],
        &["checkout", "main", "-b", "side"],
        &["checkout", "-c", "new", "main", "-b", "side"],
        &["checkout", "--git", "-b", "side"],
    ] {
        place.fails(2, &["make a branch with -c NAME [START]"], words);
    }
    assert_eq!(place.ok(["branches"]).lines().count(), 2);
    // A new branch begins where the one that is named stands.
    place.ok(["checkout", "-c", "new", "-b", "side"]);
    assert_eq!(place.ok(["get", "a"]), "2");
    assert_eq!(place.json(["info"])["commit"], place.json(["log", "-1"])["commits"][0]["commit"]);
}

#[test]
fn a_light_tag_has_no_author_and_no_date() {
    let place = Place::with_store();
    place.ok(["set", "a", "1"]);
    for option in [["--author", "Ben <ben@example.org>"], ["--date", "1"]] {
        place.fails(2, &["a light tag has no author and no date", "-m MSG"], [&["tag", "v1"][..], &option].concat());
        for verb in [&["tag", "-l"][..], &["tag", "-d", "v1"]] {
            place.fails(2, &["cannot be used with", option[0]], [verb, &option].concat());
        }
    }
    assert_eq!(place.ok(["tag"]), "");
    place.ok(["tag", "v1", "-m", "The first", "--author", "Ben <ben@example.org>"]);
    assert_eq!(place.json(["show", "v1"])["tagger"]["ident"], "Ben <ben@example.org>");
}
