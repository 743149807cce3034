//! Verbs that change branches which Git does not have checked out, or that no working tree shows.

use std::process::Stdio;

use bristlecone_needs::needs;

use crate::{
    git_harness::GitPlace,
    harness::{Place, Run},
};

#[needs(git)]
#[test]
fn commits_of_cone_are_commits_of_git() {
    for options in [&[][..], &["--object-format=sha256"]] {
        let place = GitPlace::with(options);
        place.git(["branch", "side"]);
        let done =
            place.json(["set", "-b", "side", "fruit/apple", "green", "-m", "Greener", "--date", "1700000001 +0130"]);
        assert_eq!(done["commit"], place.git(["rev-parse", "side"]).trim());
        let raw = place.git(["cat-file", "commit", "side"]);
        let tree = place.git(["rev-parse", "side^{tree}"]);
        let parent = place.git(["rev-parse", "main"]);
        let who = "Grace <grace@example.org> 1700000001 +0130";
        assert_eq!(raw, format!("tree {tree}parent {parent}author {who}\ncommitter {who}\n\nGreener\n"));
        assert_eq!(place.git(["diff", "--name-status", "main", "side"]), "M\tfruit/apple\n");
        place.ok(["del", "-b", "side", "deep/er/file"]);
        place.ok(["set", "-b", "side", "run", "echo"]);
        assert!(place.git(["ls-tree", "side", "run"]).starts_with("100755 "));
        assert_eq!(place.git(["diff", "--name-status", "main", "side"]), "D\tdeep/er/file\nM\tfruit/apple\nM\trun\n");
        place.clean();
        // Reflogs say who did it.
        let reflog = place.git(["reflog", "show", "--format=%gn", "side"]);
        assert!(reflog.lines().filter(|line| *line == "Grace").count() >= 3, "{reflog}");
        // Git goes on from there, and cone after it.
        place.git(["checkout", "-q", "side"]);
        place.file("fruit/pear", "yellow\n");
        place.git(["add", "."]);
        place.git(["commit", "-qm", "pear"]);
        place.git(["checkout", "-q", "main"]);
        place.git(["gc", "-q", "--prune=now"]);
        assert_eq!(place.ok(["get", "fruit/pear", "--at", "side"]), "yellow\n");
        place.ok(["set", "-b", "side", "fruit/pear", "brown"]);
        place.git(["gc", "-q", "--prune=now"]);
        assert_eq!(place.git(["show", "side:fruit/pear"]), "brown");
        assert_eq!(place.ok(["get", "fruit/pear", "--at", "side"]), "brown");
        assert_eq!(place.ok(["get", "fruit/pear", "--at", "side~1"]), "yellow\n");
        place.clean();
    }
}

#[needs(git)]
#[test]
fn a_lock_of_gits_is_waited_for_as_long_as_told_and_stays() {
    let place = GitPlace::new();
    place.git(["branch", "side"]);
    place.file(".git/refs/heads/side.lock", "");
    let began = std::time::Instant::now();
    let says = ["refs/heads/side.lock is locked by another program", "is empty", "0 s old", "`rm '", "--wait SECONDS"];
    place.run(["set", "-b", "side", "--wait", "0.3", "a", "b"]).failed(3, &says);
    assert!(began.elapsed() < std::time::Duration::from_secs(8));
    assert!(place.path(".git/refs/heads/side.lock").exists());
    std::fs::remove_file(place.path(".git/refs/heads/side.lock")).unwrap();
    place.ok(["set", "-b", "side", "a", "b"]);
    place.sound();
}

#[needs(git)]
#[test]
fn whoever_git_says_it_is_commits() {
    let place = GitPlace::new();
    place.git(["branch", "side"]);
    let author = |place: &GitPlace, variables: &[(&str, &str)], arguments: &[&str]| {
        let mut command = place.command(["set", "-b", "side", "--allow-empty", "a", "b"]);
        command.args(arguments).envs(variables.iter().copied());
        assert!(command.output().unwrap().status.success());
        place.git(["log", "-1", "--format=%an <%ae> %cn <%ce>", "side"]).trim().to_owned()
    };
    let grace = "Grace <grace@example.org>";
    assert_eq!(author(&place, &[], &[]), format!("{grace} {grace}"));
    let named = [("GIT_AUTHOR_NAME", "Ada"), ("GIT_COMMITTER_EMAIL", "c@x")];
    assert_eq!(author(&place, &named, &[]), "Ada <grace@example.org> Grace <c@x>");
    assert_eq!(author(&place, &named, &["--author", "Eve <e@x>"]), "Eve <e@x> Eve <e@x>");
    assert_eq!(author(&place, &[("BRISTLECONE_AUTHOR", "Bob <b@x>")], &[]), "Bob <b@x> Bob <b@x>");
    place.git(["config", "author.name", "Alice"]);
    assert_eq!(author(&place, &[], &[]), format!("Alice <grace@example.org> {grace}"));
    // The user's own file, where the repository does not say.
    place.git(["config", "--unset", "author.name"]);
    place.git(["config", "--remove-section", "user"]);
    place.file("../home/.gitconfig", "[user]\n\tname = Home\n\temail = home@x\n");
    assert_eq!(author(&place, &[], &[]), "Home <home@x> Home <home@x>");
    // With what it includes, where the conditions hold.
    place.file(
        "../home/.gitconfig",
        "[user]\n\tname = Home\n\temail = home@x\n[include]\n\tpath = more\n[includeIf \"gitdir:**/other/\"]\n\tpath = no\n",
    );
    place.file("../home/more", "[user]\n\temail = more@x\n[includeIf \"gitdir:work/\"]\n\tpath = ~/here\n");
    place.file("../home/no", "[user]\n\tname = No\n");
    place.file("../home/here", "[user]\n\tname = Here\n");
    assert_eq!(author(&place, &[], &[]), "Here <more@x> Here <more@x>");
    place.file("../home/more", "[includeIf \"onbranch:ma*\"]\n\tpath = here\n");
    assert_eq!(author(&place, &[], &[]), "Here <home@x> Here <home@x>");
    assert_eq!(place.git(["config", "user.name"]), "Here\n");
}

#[needs(git)]
#[test]
fn the_branch_that_git_has_checked_out_is_refused() {
    let mut place = GitPlace::new();
    let says = &["Git has the branch main checked out in", "/work", "--worktree", "-b"][..];
    place.fails(2, says, ["set", "fruit/apple", "green"]);
    place.fails(2, says, ["del", "fruit"]);
    place.fails(2, says, ["import", "deep", "--path", "x"]);
    place.fails(2, says, ["set", "-b", "main", "fruit/apple", "green"]);
    place.fails(2, &["checked out"], ["branches", "-d", "main"]);
    // What would change nothing is refused as well: it depends on nothing but the branch.
    place.fails(2, says, ["set", "fruit/apple", "red\n"]);
    // In a linked working tree, too: from there, from here, and from a bare repository.
    place.git(["worktree", "add", "-q", "../linked", "-b", "side"]);
    place.fails(2, &["side checked out in", "/linked"], ["set", "-b", "side", "a", "b"]);
    place.fails(
        2,
        &["side checked out in", "/linked", "run cone there"],
        ["set", "-b", "side", "a", "b", "--worktree"],
    );
    place.go("linked");
    place.fails(2, says, ["set", "-b", "main", "a", "b"]);
    place.fails(2, &["side checked out in", "/linked"], ["set", "a", "b"]);
    place.go("work");
    // A rebase comes back to its branch.
    place.git(["worktree", "remove", "../linked"]);
    place.git(["checkout", "-q", "side"]);
    place.file(".git/rebase-merge/head-name", "refs/heads/main\n");
    place.fails(2, &["main checked out in", "rebase"], ["set", "-b", "main", "a", "b", "--worktree"]);
    std::fs::remove_dir_all(place.path(".git/rebase-merge")).unwrap();
    // A branch that is a name for another one.
    place.git(["symbolic-ref", "refs/heads/alias", "refs/heads/main"]);
    place.git(["symbolic-ref", "HEAD", "refs/heads/alias"]);
    place.fails(2, &["main checked out in"], ["set", "-b", "main", "a", "b"]);
}

/// A linked working tree may name its repository by a relative path.
#[needs(git)]
#[test]
fn the_branch_of_a_linked_working_tree_is_meant_however_its_path_is_spelled() {
    let mut place = GitPlace::new();
    place.git(["clone", "-q", "--bare", ".", "../bare.git"]);
    place.go("bare.git");
    place.git(["worktree", "add", "-q", "-b", "other", "../linked"]);
    let main = place.git(["rev-parse", "main"]);
    place.go("linked");
    place.file(".git", "gitdir: ../bare.git/worktrees/linked\n");
    place.fails(2, &["other checked out in", "/linked"], ["set", "a", "b"]);
    place.ok(["set", "a", "b", "--worktree"]);
    assert_eq!(place.git(["rev-parse", "main"]), main);
    assert_eq!(place.git(["show", "other:a"]), "b");
}

#[needs(git)]
#[test]
fn an_import_of_another_repository_moves_no_branch_that_is_checked_out() {
    let mut place = GitPlace::new();
    place.git(["branch", "side"]);
    place.git(["branch", "free"]);
    place.git(["worktree", "add", "-q", "../linked", "side"]);
    place.git(["clone", "-q", "--bare", ".", "../other.git"]);
    place.go("other.git");
    for branch in ["main", "side", "free"] {
        let mut commit = place.command(["set", "fruit/apple", "green", "-b", branch]);
        commit.env("BRISTLECONE_AUTHOR", "Ann <ann@example.org>");
        assert!(commit.status().unwrap().success());
    }
    // Its HEAD is another branch: ours must not follow.
    place.git(["symbolic-ref", "HEAD", "refs/heads/free"]);
    place.go("work");
    let before = place.git(["for-each-ref", "refs/heads/main", "refs/heads/side"]);
    for force in [&[][..], &["--force"]] {
        let run = place.run([&["import", "--git", "../other.git"], force].concat());
        assert_eq!(run.code, 1, "{run:?}");
        for branch in ["main", "side"] {
            let says = format!("left where it is: refs/heads/{branch} (Git has it checked out");
            assert!(run.err.contains(&says), "{run:?}");
        }
        assert_eq!(place.git(["for-each-ref", "refs/heads/main", "refs/heads/side"]), before);
        assert_eq!(place.git(["show", "free:fruit/apple"]), "green");
        place.clean();
        assert!(place.ok(["branches"]).contains("* main"));
        // Back again, which moves nothing forward.
        place.git(["reset", "-q", "--hard", "HEAD"]);
    }
    place.go("linked");
    place.clean();
}

#[needs(git)]
#[test]
fn a_store_in_a_working_tree_is_asked_for_and_hidden() {
    let mut place = GitPlace::new();
    place.run(["init"]).failed(2, &["is a Git repository", "--here"]);
    place.run(["init", "deep/er"]).failed(2, &["is a Git repository", "--here"]);
    place.run(["init", "new/folder"]).failed(2, &["is a Git repository", "--here"]);
    place.clean();
    place.ok(["init", "new/folder", "--here"]);
    place.clean();
    place.git(["add", "-A"]);
    assert_eq!(place.git(["diff", "--cached", "--name-only"]), "");
    place.go("work/new/folder");
    place.ok(["set", "a", "b"]);
    assert_eq!(place.ok(["list"]), "a\n");
    place.ok(["check"]);
}

#[needs(git)]
#[test]
fn branches_that_a_rebase_takes_along_stay() {
    let place = GitPlace::new();
    place.git(["branch", "base"]);
    place.git(["checkout", "-q", "-b", "low"]);
    place.git(["commit", "-q", "--allow-empty", "-m", "two"]);
    place.git(["checkout", "-q", "-b", "high"]);
    place.git(["commit", "-q", "--allow-empty", "-m", "three"]);
    let mut rebase = place.git_command(["rebase", "-q", "-i", "--update-refs", "--keep-empty", "base"]);
    rebase.env("GIT_SEQUENCE_EDITOR", "sed -i '1s/^/break\\n/'");
    assert!(rebase.output().unwrap().status.success());
    for branch in ["low", "high"] {
        let held = format!("{branch} checked out in");
        let says = [held.as_str(), "rebase"];
        place.fails(2, &says, ["set", "-b", branch, "a", "b"]);
        place.fails(2, &says, ["branches", "--force", "-d", branch]);
    }
    place.git(["rebase", "--continue"]);
    place.ok(["set", "-b", "low", "a", "b"]);
}

#[needs(git)]
#[test]
fn a_branch_that_is_a_name_for_another_moves_that_one() {
    let place = GitPlace::new();
    place.git(["branch", "side"]);
    place.git(["symbolic-ref", "refs/heads/alias", "refs/heads/side"]);
    place.ok(["set", "-b", "alias", "a", "b"]);
    assert_eq!(place.git(["show", "side:a"]), "b");
    assert_eq!(place.git(["symbolic-ref", "refs/heads/alias"]), "refs/heads/side\n");
    // The name goes alone.
    place.ok(["branches", "-d", "alias"]);
    assert_eq!(place.git(["show", "side:a"]), "b");
    // What it leads to may be checked out.
    place.git(["symbolic-ref", "refs/heads/here", "refs/heads/main"]);
    place.fails(2, &["main checked out in"], ["set", "-b", "here", "a", "b"]);
    place.clean();
}

#[needs(git, mounts)]
#[test]
fn a_repository_of_somebody_else_is_trusted_where_git_is_told_so() {
    let place = GitPlace::new();
    let top = place.path("").canonicalize().unwrap();
    std::os::unix::fs::lchown(place.path(".git"), Some(65534), None).unwrap();
    place.run(["list"]).failed(3, &["belongs to another user (65534)", "safe.directory"]);
    assert_ne!(Run::of(place.git_command(["status"])).code, 0, "Git says so, too");
    let mut trust = place.git_command(["config", "--global", "--add", "safe.directory"]);
    std::fs::create_dir_all(place.path("../home")).unwrap();
    assert!(trust.arg(&top).status().unwrap().success());
    place.git(["status"]);
    place.ok(["list"]);
    let mut none = place.git_command(["config", "--global", "--add", "safe.directory", ""]);
    assert!(none.status().unwrap().success());
    place.run(["list"]).failed(3, &["belongs to another user"]);
    std::os::unix::fs::lchown(place.path(".git"), Some(0), None).unwrap();
}

#[needs(git)]
#[test]
fn bare_repositories_and_detached_heads_stand_against_nothing() {
    let mut place = GitPlace::new();
    place.git(["clone", "-q", "--bare", ".", "../bare.git"]);
    place.go("bare.git");
    place.git(["config", "user.name", "Grace"]);
    place.git(["config", "user.email", "grace@example.org"]);
    place.ok(["set", "fruit/apple", "green"]);
    assert_eq!(place.git(["show", "main:fruit/apple"]), "green");
    place.ok(["set", "fruit/apple", "blue", "--worktree"]);
    assert_eq!(place.git(["show", "main:fruit/apple"]), "blue");
    place.sound();
    // A linked working tree of a bare one shows its branch all the same.
    place.git(["worktree", "add", "-q", "../linked", "main"]);
    place.fails(2, &["main checked out in", "/linked"], ["set", "a", "b"]);
    place.go("linked");
    place.ok(["set", "a", "b", "--worktree"]);
    place.clean();

    place.go("work");
    place.git(["checkout", "-q", "--detach"]);
    place.ok(["set", "-b", "main", "fruit/apple", "green"]);
    place.clean();
    assert_eq!(place.git(["show", "main:fruit/apple"]), "green");
}

#[needs(git)]
#[test]
fn branches_are_made_and_removed_beside_gits() {
    let place = GitPlace::new();
    place.ok(["branches", "one", "--at", "HEAD"]);
    place.ok(["checkout", "-c", "two/deep"]);
    place.ok(["set", "a", "b"]);
    assert_eq!(place.git(["for-each-ref", "--format=%(refname)", "refs/heads"]).lines().count(), 3);
    place.fails(2, &["already"], ["branches", "one"]);
    for name in ["main/below", "two"] {
        place.fails(2, &["one name cannot lie below another", "choose another name"], ["branches", name]);
    }
    place.fails(2, &["main checked out in"], ["branches", "-d", "main"]);
    place.ok(["branches", "-d", "one"]);
    place.git(["branch", "-q", "-D", "two/deep"]);
    assert_eq!(place.json(["branches"])["branches"].as_array().unwrap().len(), 1);
    place.clean();
}

#[needs(git)]
#[test]
fn names_that_git_would_not_have_are_refused_everywhere() {
    let place = GitPlace::new();
    place.git(["branch", "side"]);
    for path in [".git/config", "a/.GIT/b", "git~1", "a/../b", "x/.git./y"] {
        place.fails(2, &["cannot hold"], ["set", "-b", "side", path, "x"]);
    }
    // What has Git's name in a folder is left out, and so is a repository that has nothing yet.
    place.git(["init", "-q", "deep/inner"]);
    place.file("deep/inner/file", "x");
    place.file("deep/odd/.GIT", "x");
    let done = place.json(["import", ".", "-b", "side"]);
    let left: Vec<_> = done["left_out"].as_array().unwrap().iter().map(|one| one["path"].as_str().unwrap()).collect();
    assert_eq!(left, [".git", "deep/inner", "deep/odd/.GIT"]);
    place.sound();
}

#[needs(git)]
#[test]
fn two_verbs_and_a_git_at_once_lose_nothing() {
    let place = GitPlace::new();
    place.git(["branch", "side"]);
    let mut children: Vec<_> = (0..8)
        .map(|number| {
            let mut command = place.command(["set", "-b", "side", &format!("file{number}"), &number.to_string()]);
            command.stdout(Stdio::null()).spawn().unwrap()
        })
        .collect();
    for number in 0..4 {
        place.file(format!("git{number}"), "x");
        place.git(["add", "."]);
        place.git(["commit", "-qm", "beside"]);
    }
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(place.git(["rev-list", "--count", "side"]), "9\n");
    assert_eq!(place.git(["rev-list", "--count", "main"]), "5\n");
    assert_eq!(
        place.git(["ls-tree", "--name-only", "side"]).lines().filter(|line| line.starts_with("file")).count(),
        8
    );
    place.clean();
}

#[needs(git)]
#[test]
fn a_repository_that_an_export_makes_has_the_files_of_its_branch() {
    let place = Place::with_store();
    place.ok(["set", "fruit/apple=red", "plum=blue"]);
    place.ok(["export", "--git", "project"]);
    let git = bristlecone_testkit::git::Git::new(place.path("project"));
    assert_eq!(git.text(&["status", "--porcelain"]), "");
    assert_eq!(std::fs::read(place.path("project/fruit/apple")).unwrap(), b"red");
    place.ok(["set", "pear", "green"]);
    let again = place.run(["export", "--git", "project", "--force"]);
    assert!(again.code == 1 && again.err.contains("has it checked out"), "{again:?}");
    place.ok(["export", "--git", "bare.git"]);
    assert!(!place.path("bare.git/fruit").exists());
}
