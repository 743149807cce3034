//! Clones without all objects (`git clone --filter`), beside real Git.

use bristlecone_needs::needs;

use crate::git_harness::GitPlace;

/// A repository with some history, and a clone of it with a filter, which is where commands run.
fn clone(filter: &str) -> GitPlace {
    let mut place = GitPlace::new();
    for number in 0..5 {
        place.file("fruit/apple", format!("green {number}\n"));
        place.file(format!("roots/{number}"), "beet\n");
        place.git(["add", "-A"]);
        place.git(["commit", "-q", "-m", &format!("number {number}")]);
    }
    place.git(["config", "uploadpack.allowFilter", "true"]);
    place.git(["config", "uploadpack.allowAnySHA1InWant", "true"]);
    let from = format!("file://{}", place.path(".").display());
    place.git(["clone", "-q", "--no-checkout", &format!("--filter={filter}"), &from, "../partial"]);
    place.go("partial");
    place.git(["config", "user.name", "Grace"]);
    place.git(["config", "user.email", "grace@example.org"]);
    place
}

/// How many objects Git says are promised and not here.
fn absent(place: &GitPlace) -> usize {
    let all = place.git(["rev-list", "--objects", "--all", "--missing=print"]);
    all.lines().filter(|line| line.starts_with('?')).count()
}

/// Runs the first command between backticks that a message has.
fn follow(place: &GitPlace, message: &str) {
    let command = message.split('`').nth(1).unwrap();
    let words = command.strip_prefix("git ").unwrap().split(' ');
    place.git(words);
}

#[needs(git)]
#[test]
fn what_a_remote_promised_is_no_damage() {
    let place = clone("blob:none");
    let promised = absent(&place);
    assert!(promised > 5);
    let check = place.json(["check"]);
    assert_eq!((&check["sound"], &check["promised"]), (&true.into(), &promised.into()), "{check}");
    let message = place.ok(["check"]);
    assert!(message.contains(&format!("{promised} objects promised by the remote and not here\n")), "{message}");
    // Nothing of this needs a value.
    for line in [&["log"][..], &["log", "--", "fruit"], &["log", "-2", "--", "roots"]] {
        let commits = place.json(line)["commits"].as_array().unwrap().len();
        let theirs = place.git(["log", "--format=%H"].iter().chain(&line[1..]));
        assert_eq!(commits, theirs.lines().count(), "{line:?}");
    }
    assert_eq!(place.ok(["diff", "HEAD~1"]), "M fruit/apple\nA roots/4\n");
    assert!(place.ok(["list", "-l", "fruit"]).contains("apple"));
    assert_eq!(absent(&place), promised);

    let run = place.run(["get", "fruit/apple"]);
    run.failed(3, &["a clone without all objects", "cat-file -e"]);
    follow(&place, &run.err);
    assert_eq!(place.ok(["get", "fruit/apple"]), "green 4\n");
    assert_eq!(place.json(["check"])["promised"], absent(&place));
    let out = place.path("../out");
    let run = place.run(["export", out.to_str().unwrap()]);
    run.failed(3, &["a clone without all objects", "archive -o /dev/null REV"]);
    place.git(["archive", "-o", "/dev/null", "HEAD"]);
    place.ok(["export", out.to_str().unwrap(), "--force"]);
    assert_eq!(std::fs::read_to_string(out.join("roots/4")).unwrap(), "beet\n");

    place.git(["branch", "new"]);
    place.ok(["set", "-b", "new", "fruit/plum", "black"]);
    assert_eq!(place.git(["show", "new:fruit/plum"]), "black");
    assert_eq!(place.json(["check"])["sound"], true);
    place.sound();
}

#[needs(git)]
#[test]
fn what_nobody_promised_is_damage_in_a_partial_clone_too() {
    let place = clone("blob:none");
    place.git(["checkout", "-q", "main"]);
    place.file("own", "own\n");
    place.git(["add", "own"]);
    place.git(["commit", "-q", "-m", "own"]);
    let lost = place.git(["rev-parse", "HEAD:own"]);
    let lost = lost.trim();
    std::fs::remove_file(place.path(format!(".git/objects/{}/{}", &lost[..2], &lost[2..]))).unwrap();
    let run = crate::harness::Run::of(place.git_command(["fsck"]));
    assert_ne!(run.code, 0, "{run:?}");
    let run = place.run(["-o", "json", "check"]);
    let check: serde_json::Value = serde_json::from_slice(&run.out).unwrap();
    assert_eq!((run.code, check["damage"].as_array().unwrap().len()), (1, 1), "{check}");
    assert_eq!(check["damage"][0]["oid"], lost);
    assert_eq!(check["affected"], serde_json::json!(["refs/heads/main"]));
}

#[needs(git)]
#[test]
fn clones_without_trees_list_commits_and_say_how_to_get_the_rest() {
    let place = clone("tree:0");
    let check = place.json(["check"]);
    assert_eq!(check["sound"], true, "{check}");
    assert_eq!(check["promised"], absent(&place));
    assert_eq!(place.json(["log"])["commits"].as_array().unwrap().len(), 6);
    for line in [&["list"][..], &["log", "--", "fruit"], &["diff", "HEAD~1"], &["get", "fruit/apple"]] {
        place.run(line).failed(3, &["a clone without all objects", "cat-file -e"]);
    }
    let run = place.run(["list"]);
    follow(&place, &run.err);
    assert!(place.ok(["list"]).contains("fruit/\n"));
}
