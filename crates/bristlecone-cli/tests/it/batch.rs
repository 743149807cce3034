//! `cone batch`: many changes from standard input.

use std::{
    io::{BufRead, BufReader, Write},
    process::Stdio,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use bristlecone_needs::needs;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{
    git_harness::GitPlace,
    harness::{Place, Run},
};

fn commits(place: &Place) -> usize {
    place.ok(["log"]).matches("commit ").count()
}

/// As [`Place::feed`], in a Git repository.
fn feed_git(place: &GitPlace, arguments: &[&str], input: &str) -> Run {
    let mut command = place.command(arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    Run::from(child.wait_with_output().unwrap())
}

#[test]
fn many_changes_are_one_commit() {
    let place = Place::with_store();
    place.ok(["set", "old", "x"]);
    let input =
        b"# a comment\nset a/b  spaces stay \n\n{\"set\":\"c\",\"value_hex\":\"00ff0a\"}\nset empty \ndel old\n";
    let run = place.feed(["batch", "-m", "Many"], input);
    assert_eq!((run.code, commits(&place)), (0, 2), "{run:?}");
    assert!(String::from_utf8_lossy(&run.out).starts_with("made 4 changes on main as commit "), "{run:?}");
    assert_eq!(place.ok(["get", "a/b"]), " spaces stay ");
    assert_eq!(place.run(["get", "c"]).out, b"\0\xff\n");
    assert_eq!(place.ok(["get", "empty"]), "");
    assert_eq!(place.ok(["list"]), "a/\nc\nempty\n");
    assert!(place.ok(["log", "-n", "1"]).contains("Many"));
}

#[test]
fn commits_are_ended_by_hand_or_each_change_is_one() {
    let place = Place::with_store();
    let run = place
        .feed(["-o", "json", "batch"], b"set a 1\nset b 1\ncommit First\nset a 2\n{\"commit\":\"Second\"}\nset c 1\n");
    assert_eq!(run.code, 0, "{run:?}");
    let output: Value = serde_json::from_slice(&run.out).unwrap();
    assert_eq!(output["commits"].as_array().unwrap().len(), 3);
    assert_eq!((&output["changes"], &output["moves"]), (&json!(4), &json!(0)));
    assert_eq!(output["commits"][2]["commit"], place.json(["log", "-n", "1"])["commits"][0]["commit"]);
    let log = place.ok(["log"]);
    assert!(log.contains("First") && log.contains("Second") && log.contains("Make 1 change"), "{log}");
    assert_eq!(place.feed(["batch", "--each"], b"set d 1\ntest d 1\nset d 2\ndel d\n").code, 0);
    assert_eq!(commits(&place), 6);
}

#[test]
fn all_of_a_commit_is_made_or_nothing() {
    let place = Place::with_store();
    place.ok(["set", "count", "41"]);
    let count = b"test count 41\nabsent note\nset count 42\nset note x\n";
    assert_eq!(place.feed(["batch"], count).code, 0);
    place.feed(["batch"], count).failed(1, &["line 1", "nothing was committed", "count has another value"]);
    place.feed(["batch"], b"set x 1\nabsent note\n").failed(1, &["line 2", "something at note"]);
    place.feed(["batch"], b"set x 1\ntest y 1\n").failed(1, &["line 2", "nothing at y"]);
    place.feed(["batch"], b"set x 1\ndel y\n").failed(1, &["line 2", "nothing at y"]);
    place.feed(["batch"], b"set x 1\nset count/y 1\n").failed(2, &["line 2", "count is a value"]);
    place.feed(["batch"], b"set x 1\nput x 1\n").failed(2, &["line 2", "\"put\" is no verb"]);
    // What is no batch at all is not shown whole.
    let run = place.feed(["batch"], &"\u{e9}".repeat(1 << 20).into_bytes());
    run.failed(2, &["line 1", "is no verb; there are set, del"]);
    assert!(run.err.len() < 10_000, "{} bytes", run.err.len());
    assert_eq!(place.ok(["list"]), "count\nnote\n");
    // What was committed before stays, and that is said.
    let run = place.feed(["batch"], b"set x 1\ncommit\ndel y\n");
    run.failed(1, &["line 3", "1 commit before it stays;"]);
    // So do branches that moved.
    let run = place.feed(["batch"], b"branch new HEAD\nbranch newer HEAD\ncommit\nset d 1\ncommit\ndel nothing\n");
    run.failed(1, &["line 6", "1 commit and 2 moves of branches before it stay;"]);
    let run = place.feed(["batch"], b"drop newer\ncommit\ndel nothing\n");
    run.failed(1, &["line 3", "1 move of a branch before it stays;"]);
    assert_eq!(place.ok(["get", "x"]), "1");
    Run::of(place.shell("\"$0\" \"$@\" <&-", &["batch"])).failed(2, &["standard input is closed"]);
    assert_eq!(place.run(["batch"]).code, 0, "nothing to do");
    // The last line needs no end; of an object a part is none.
    assert_eq!(place.feed(["batch"], b"set y 1\nset x 2").code, 0);
    assert_eq!(place.ok(["get", "x"]), "2");
    place.feed(["batch"], b"set y 2\n{\"set\":\"x\",\"value\":\"3").failed(2, &["line 2", "no JSON object"]);
    assert_eq!(place.ok(["get", "y"]), "1");
}

#[test]
fn branches_move_with_the_commit() {
    let place = Place::with_store();
    place.ok(["set", "a", "1"]);
    place.ok(["set", "a", "2"]);
    place.ok(["branches", "gone"]);
    let input = b"set b 1\nbranch old HEAD~1 -\ndrop gone HEAD\n";
    assert_eq!(place.feed(["batch"], input).code, 0);
    assert_eq!(place.ok(["get", "a", "--at", "old"]), "1");
    place.fails(1, &["no branch"], ["list", "-b", "gone"]);
    // One that is not where it should be stops all of it.
    place.feed(["batch"], b"set c 1\nbranch old HEAD -\n").failed(1, &["the branch old is not where it was expected"]);
    place.fails(1, &["nothing at c"], ["get", "c"]);
    assert_eq!(place.feed(["batch"], b"branch old HEAD HEAD~2\n").code, 0);
    assert_eq!(place.ok(["list", "--at", "old"]), "a\nb\n");
    place.feed(["batch"], b"branch HEAD old\n").failed(2, &["line 1", "cannot be the name"]);
    place.feed(["batch"], b"branch x nowhere\n").failed(1, &["line 1", "there is no \"nowhere\""]);
    place.feed(["batch"], b"\nbranch old HEAD -\n").failed(1, &["line 2", "not where it was expected"]);
}

#[test]
fn branches_go_as_they_are_removed_by_name() {
    let place = Place::with_store();
    place.ok(["set", "a", "1"]);
    place.ok(["set", "a", "2", "-b", "side", "-c"]);
    place.feed(["batch"], b"drop main\n").failed(2, &["line 1", "is checked out", "cone checkout"]);
    place.feed(["batch"], b"drop nosuch\n").failed(1, &["line 1", "there is no branch \"nosuch\""]);
    place.feed(["batch"], b"drop side\n").failed(2, &["line 1", "no other branch has", "--force"]);
    place.feed(["batch"], b"drop side main\n").failed(2, &["no other branch has"]);
    // A branch gets another name in one step.
    assert_eq!(place.feed(["batch"], b"branch other side -\ndrop side\n").code, 0);
    assert_eq!(place.ok(["get", "a", "-b", "other"]), "2");
    assert_eq!(place.feed(["batch", "--force"], b"drop other\n").code, 0);
    assert_eq!(place.ok(["branches"]).lines().count(), 1);
}

#[test]
fn that_nothing_changed_is_told_once() {
    let place = Place::with_store();
    assert_eq!(place.feed(["batch"], b"set a 1\n").code, 0);
    let same = "nothing changed on main, so nothing was committed\n";
    let nothing = "nothing changed, so nothing was committed\n";
    for (input, wanted) in [("set a 1\n", same), ("test a 1\n", same), ("# set a 2\n", nothing), ("", nothing)] {
        let run = place.feed(["batch"], input.as_bytes());
        assert_eq!((run.code, String::from_utf8(run.out).unwrap()), (0, wanted.to_owned()), "{input}");
    }
}

#[test]
fn what_stays_is_told_also_where_no_line_is_wrong() {
    let place = Place::empty();
    place.ok(["init", "--format", "tezos"]);
    // The format has no empty tree, which shows when the commit is made.
    let nothing = place.feed(["batch"], b"set a 1\nset a 2\n");
    assert_eq!(nothing.code, 0, "{nothing:?}");
    let run = place.feed(["batch"], b"set a 3\nbranch side HEAD\ncommit\n\ndel a\n# all of it\n");
    let stays = "the batch ends with line 5; 1 commit and 1 move of a branch before it stay";
    run.failed(2, &[stays, "because nothing would be left"]);
    assert_eq!(place.ok(["get", "a"]), "3");
    let run = place.feed(["batch"], b"del a\n");
    run.failed(2, &["nothing would be left"]);
    assert!(!run.err.contains("the batch ends"), "{run:?}");
}

#[needs(git)]
#[test]
fn in_a_git_repository_what_is_checked_out_stays() {
    let place = GitPlace::new();
    place.git(["branch", "side"]);
    let feed = |arguments: &[&str], input: &str| feed_git(&place, arguments, input);
    feed(&["batch", "-b", "side"], "set a 1\nbranch main side\n").failed(2, &["main checked out in"]);
    assert_eq!(feed(&["batch", "-b", "side"], "set a 1\nbranch more main -\n").code, 0);
    assert_eq!(place.git(["show", "side:a"]), "1");
    assert_eq!(place.git(["rev-parse", "more"]), place.git(["rev-parse", "main"]));
    feed(&["batch"], "set a 1\n").failed(2, &["main checked out in", "--worktree"]);
    assert_eq!(feed(&["batch", "--worktree"], "set a 1\ndel fruit/plum\n").code, 0);
    place.clean();
    // The commit is there before another branch turns out not to move: files follow it, and the message says so.
    let half = feed(&["batch", "--worktree"], "set a 2\nbranch main/x HEAD\n");
    half.failed(3, &["is made on the branch main", "main/x"]);
    assert_eq!(place.git(["show", "HEAD:a"]), "2");
    place.clean();
}

#[needs(git)]
#[test]
fn in_a_git_repository_it_is_told_which_branches_moved_before_one_did_not() {
    let place = GitPlace::new();
    let run = feed_git(&place, &["batch"], "branch one main\nbranch two main\nbranch one/x main\nbranch late main\n");
    run.failed(3, &["one/x did not move", "before it one, two moved", "because refs/heads/one/x cannot be made"]);
    assert_eq!(place.git(["for-each-ref", "--format=%(refname:short)", "refs/heads/"]), "main\none\ntwo\n");
    // With the first one nothing has changed.
    let run = feed_git(&place, &["batch"], "branch one/x main\nbranch late main\n");
    run.failed(2, &["error: refs/heads/one/x cannot be made"]);
}

#[test]
fn a_commit_and_a_line_do_not_move_the_same_branch() {
    let place = Place::with_store();
    place.ok(["set", "old", "x"]);
    place.ok(["branches", "side"]);
    let before = place.ok(["branches"]);
    for (input, line) in
        [("set a 1\nbranch side main\n", 2), ("branch more main\nbranch other main\nbranch more main\n", 3)]
    {
        let run = place.feed(["batch", "-b", "side"], input.as_bytes());
        run.failed(2, &[&format!("line {line} of the batch"), "moves that branch"]);
        assert_eq!(place.ok(["branches"]), before);
    }
    // Tests alone make no commit.
    place.ok(["set", "old", "y"]);
    let run = place.feed(["batch", "-b", "side"], b"test old x\nbranch side main\n");
    assert_eq!((run.code, place.ok(["-b", "side", "get", "old"]).trim()), (0, "y"), "{run:?}");
}

#[test]
fn all_is_done_also_where_nobody_reads_the_output() {
    let place = Place::with_store();
    place.ok(["set", "old", "x"]);
    for full in [false, true] {
        let input: String = (0..3000).map(|number| format!("set k{number} {full}\n")).collect();
        let mut command = place.command(["batch", "--each", "--durability", "none"]);
        command.stdin(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        if full {
            command.stdout(std::fs::File::options().write(true).open("/dev/full").unwrap());
        } else {
            command.stdout(std::process::Stdio::piped());
        }
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes()).unwrap();
        let run = Run::from(child.wait_with_output().unwrap());
        assert_eq!(run.code, if full { 3 } else { 0 }, "{run:?}");
        assert_eq!(place.ok(["get", "k2999"]).trim(), full.to_string());
    }
    for json in [false, true] {
        place.ok(["tag", "v1"]);
        place.ok(["tag", "v2"]);
        let mut command =
            place.command(if json { &["-o", "json", "tag", "-d", "v1", "v2"][..] } else { &["tag", "-d", "v1", "v2"] });
        command.stdout(std::fs::File::options().write(true).open("/dev/full").unwrap());
        let run = Run::from(command.stderr(std::process::Stdio::piped()).output().unwrap());
        run.failed(3, &["it need not be run again"]);
        assert_eq!(place.ok(["tag"]), "");
    }
}

#[needs(git)]
#[test]
fn a_batch_that_waits_after_files_followed_is_ended_by_a_signal() {
    let place = GitPlace::new();
    let mut command = place.command(["batch", "--each", "--worktree"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let input = child.stdin.as_mut().unwrap();
    input.write_all(b"set a/b 1\n").unwrap();
    input.flush().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while !place.path("a/b").exists() || place.path(".git/index.lock").exists() {
        assert!(Instant::now() < until && child.try_wait().unwrap().is_none());
        thread::sleep(Duration::from_millis(1));
    }
    // Its input stays open.
    let held = child.stdin.take();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < until, "it waits for its input for ever");
        thread::sleep(Duration::from_millis(1));
    }
    drop(held);
    let run = Run::from(child.wait_with_output().unwrap());
    run.failed(143, &["asked to end"]);
    place.clean();
    assert_eq!(place.git(["show", "HEAD:a/b"]), "1");
}

#[test]
fn a_batch_whose_test_fails_is_a_document_all_the_same() {
    let place = Place::with_store();
    let run = place.feed(["-o", "json", "batch", "--each"], b"set a 1\ntest a 2\nset b 1\n");
    assert_eq!(run.code, 1, "{run:?}");
    let document: Value = serde_json::from_slice(&run.out).unwrap();
    assert_eq!(document["commits"].as_array().unwrap().len(), 1);
}

#[test]
fn a_branch_that_moves_lets_go_of_no_commits_unless_told() {
    let place = Place::with_store();
    place.ok(["set", "a", "1"]);
    place.ok(["set", "-b", "keep", "-c", "z", "unique"]);
    let keep = place.json(["log", "-b", "keep", "-n", "1"])["commits"][0]["commit"].as_str().unwrap().to_owned();
    let moves = |line: &str, options: &[&str]| place.feed([&["batch"], options].concat(), line.as_bytes());
    moves("branch keep main\n", &[]).failed(2, &["keep", "has commits that no other branch has", "OLD"]);
    let moved = moves(&format!("branch keep main {keep}\n"), &[]);
    assert_eq!(
        (moved.code, String::from_utf8(moved.out).unwrap()),
        (0, format!("moved the branch keep, which was at commit {keep}\n"))
    );
    assert_eq!(moves(&format!("branch keep {keep}\n"), &[]).code, 0);
    assert_eq!(moves("branch keep main\n", &["--force"]).code, 0);
    // What is checked out is no other branch.
    moves("branch main HEAD~1\n", &[]).failed(1, &["HEAD~1"]);
    place.ok(["branches", "-d", "keep"]);
    place.ok(["set", "a", "2"]);
    moves("branch main HEAD~1\n", &[]).failed(2, &["main", "has commits that no other branch has"]);
    // A message alone is a commit where that may be empty.
    assert_eq!(place.feed(["batch", "--allow-empty"], b"commit alone\n").code, 0);
    assert!(place.ok(["log", "--oneline", "-1"]).trim_end().ends_with("alone"));
}

#[needs(git)]
#[test]
fn commits_go_with_no_branch_that_only_symbolic_ones_lead_to() {
    let place = GitPlace::new();
    place.git(["branch", "side"]);
    place.ok(["set", "-b", "side", "own", "1"]);
    place.git(["symbolic-ref", "refs/heads/alias", "refs/heads/side"]);
    place.fails(2, &["side", "has commits that no other branch has"], ["branches", "-d", "side"]);
    let refs = place.git(["for-each-ref"]);
    for (line, name) in [("drop side\n", "side"), ("branch alias main\n", "alias"), ("branch side main\n", "side")] {
        feed_git(&place, &["batch"], line).failed(2, &[name, "has commits that no other branch has"]);
        assert_eq!(place.git(["for-each-ref"]), refs, "{line}");
    }
    // Who is on the symbolic one is on the other.
    place.ok(["checkout", "alias"]);
    place.fails(2, &["\"side\" is checked out"], ["branches", "-d", "side", "--force"]);
    feed_git(&place, &["batch", "--force"], "drop side\n").failed(2, &["\"side\" is checked out"]);
    feed_git(&place, &["batch"], "branch side main\n").failed(2, &["has commits that no other branch has"]);
    place.ok(["checkout", "--git"]);
    // The symbolic one goes alone, and a branch that is none has the commits.
    place.ok(["branches", "-d", "alias"]);
    place.git(["branch", "twin", "side"]);
    place.git(["symbolic-ref", "refs/heads/alias", "refs/heads/side"]);
    assert_eq!(feed_git(&place, &["batch"], "branch alias main\n").code, 0);
    assert_eq!(place.git(["rev-parse", "side"]), place.git(["rev-parse", "main"]));
    assert_eq!(place.git(["show", "twin:own"]), "1");
}

#[test]
fn branches_that_go_in_one_step_do_not_keep_each_others_commits() {
    let place = Place::with_store();
    place.ok(["set", "a", "1"]);
    place.ok(["set", "a", "2", "-b", "one", "-c"]);
    place.ok(["branches", "other", "--at", "one"]);
    let refused = place.feed(["batch"], b"drop one\ndrop other\n");
    refused.failed(2, &["line 1", "one", "has commits that no other branch has"]);
    place.feed(["batch"], b"branch one main\ndrop other\n").failed(2, &["line 1", "no other branch has"]);
    assert_eq!(place.ok(["branches"]).lines().count(), 3);
    // Each is as good as the other.
    assert_eq!(place.feed(["batch"], b"drop one\n").code, 0);
    assert_eq!(place.ok(["get", "a", "-b", "other"]), "2");
}

#[test]
fn a_branch_that_a_batch_begins_goes_on() {
    let place = Place::with_store();
    place.ok(["set", "old", "x"]);
    let input = b"set a 1\nset b 2\ncommit\nset c 3\n";
    for (option, name, wanted) in [("-c", "trial", 4), ("--orphan", "bare", 3)] {
        let run = place.feed(["batch", "--each", "-b", name, option], input);
        assert_eq!(run.code, 0, "{run:?}");
        assert_eq!(place.ok(["log", "--oneline", "-b", name]).lines().count(), wanted);
        assert_eq!(place.ok(["get", "b", "-b", name]), "2");
        place.feed(["batch", "-b", name, option], input).failed(2, &["already"]);
    }
    // What only looks, or moves other branches, begins none.
    let run =
        place.feed(["batch", "-b", "late", "--orphan"], b"absent old\ncommit\nbranch more main\ncommit\nset a 1\n");
    assert_eq!((run.code, place.ok(["list", "-b", "late"])), (0, "a\n".to_owned()), "{run:?}");
}

#[test]
fn the_line_of_a_commit_comes_as_soon_as_it_is_made() {
    let place = Place::with_store();
    let mut command = place.command(["batch"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let (sender, lines) = mpsc::channel();
    let reader = thread::spawn(move || BufReader::new(output).lines().try_for_each(|line| sender.send(line.unwrap())));
    for number in ["1", "2"] {
        input.write_all(format!("set a {number}\ncommit\n").as_bytes()).unwrap();
        input.flush().unwrap();
        let line = lines.recv_timeout(Duration::from_secs(60)).expect("the line of a commit, while the batch goes on");
        assert!(line.starts_with("made 1 change on main as commit "), "{line}");
    }
    drop(input);
    assert!(child.wait().unwrap().success());
    reader.join().unwrap().unwrap();
}

#[test]
fn a_commit_is_told_in_json_by_whole_lines_while_the_batch_goes_on() {
    let place = Place::with_store();
    let mut command = place.command(["-o", "json", "batch"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let (sender, lines) = mpsc::channel();
    let reader = thread::spawn(move || BufReader::new(output).lines().try_for_each(|line| sender.send(line.unwrap())));
    let next = || lines.recv_timeout(Duration::from_secs(60)).expect("a line, while the batch goes on");
    let mut all = String::new();
    for number in 1..=2 {
        input.write_all(format!("set a {number}\ncommit\n").as_bytes()).unwrap();
        input.flush().unwrap();
        if number == 1 {
            all = next();
            assert_eq!(all, "{\"commits\":[");
        }
        let line = next();
        let item: Value = serde_json::from_str(line.trim_start_matches(',')).unwrap();
        assert_eq!((&item["branch"], &item["changed"]), (&"main".into(), &true.into()));
        all += &line;
    }
    drop(input);
    all += &next();
    let document: Value = serde_json::from_str(&all).unwrap();
    assert_eq!((document["commits"].as_array().unwrap().len(), &document["changes"]), (2, &json!(2)));
    assert!(child.wait().unwrap().success());
    reader.join().unwrap().unwrap();
}

#[test]
fn where_the_input_cannot_be_read_further_it_is_told_what_was_committed() {
    let place = Place::with_store();
    let (reader, mut writer) = std::io::pipe().unwrap();
    // To read what has not come yet is an error then.
    rustix::fs::fcntl_setfl(&reader, rustix::fs::OFlags::NONBLOCK).unwrap();
    writer.write_all(b"set a 1\ncommit\nset b 2\n").unwrap();
    let mut command = place.command(["batch"]);
    let run = Run::from(command.stdin(reader).output().unwrap());
    drop(writer);
    run.failed(3, &["ends with line 4", "1 commit before it stays", "cannot read standard input"]);
    assert_eq!(place.ok(["get", "a"]), "1");
    place.fails(1, &["nothing at b"], ["get", "b"]);
}
