//! `--worktree`: files and index follow a commit, or nothing changes at all. `git status` is the judge.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    process::Stdio,
};

use bristlecone_needs::needs;

use crate::{git_harness::GitPlace, harness::Run};

#[needs(git)]
#[test]
fn files_and_index_follow_a_commit() {
    for options in [&[][..], &["--object-format=sha256"]] {
        let place = GitPlace::with(options);
        for version in ["2", "4"] {
            place.git(["update-index", "--index-version", version]);
            place.ok(["set", "--worktree", "fruit/apple", &format!("green {version}")]);
            place.clean();
            assert_eq!(place.text("fruit/apple"), format!("green {version}"));
            assert_eq!(place.git(["show", "HEAD:fruit/apple"]), format!("green {version}"));
            place.ok(["set", "--worktree", "new/folder/file", version]);
            place.clean();
            assert_eq!(place.text("new/folder/file"), version);
            place.ok(["set", "--worktree", "run", version]);
            assert_ne!(place.path("run").metadata().unwrap().mode() & 0o100, 0);
            place.clean();
            place.ok(["del", "--worktree", "new"]);
            assert!(!place.path("new").exists());
            place.clean();
            let kept = place.git(["ls-files", "--debug"]).contains("fruit/plum");
            assert!(kept);
        }
        // Git goes on from the index as it is.
        place.file("fruit/plum", "violet\n");
        place.git(["commit", "-qam", "by git"]);
        place.ok(["del", "--worktree", "fruit/plum"]);
        place.clean();
        assert_eq!(place.git(["log", "--format=%s", "-2"]), "Remove fruit/plum\nby git\n");
        assert!(place.ok(["check"]).contains("no damage"));
    }
}

#[needs(git)]
#[test]
fn paths_are_from_the_top_wherever_one_is() {
    let place = GitPlace::new().at("deep/er");
    place.ok(["set", "--worktree", "fruit/apple", "green"]);
    assert_eq!(place.text("../../fruit/apple"), "green");
    // The folder one is in stays, though it is empty.
    place.ok(["del", "--worktree", "deep/er/file"]);
    assert!(place.path(".").exists());
    assert_eq!(place.ok(["get", "fruit/apple"]), "green");
    place.clean();
}

#[needs(git)]
#[test]
fn a_folder_comes_in_with_links_and_executables() {
    let place = GitPlace::new();
    place.file("../from/script", "#!/bin/sh\n");
    fs::set_permissions(place.path("../from/script"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("script", place.path("../from/to script")).unwrap();
    place.file("../from/a/b/c", "c");
    place.ok(["import", "--worktree", "../from", "--path", "in"]);
    place.clean();
    assert_eq!(fs::read_link(place.path("in/to script")).unwrap().to_str(), Some("script"));
    assert_ne!(place.path("in/script").metadata().unwrap().mode() & 0o100, 0);
    // Everything at once: what is no longer there goes, a file becomes a folder and a folder a file.
    fs::remove_dir_all(place.path("../from/a")).unwrap();
    fs::remove_file(place.path("../from/to script")).unwrap();
    place.file("../from/a", "now a file");
    place.file("../from/to script/file", "now a folder");
    place.ok(["import", "--worktree", "../from", "--path", "in"]);
    place.clean();
    assert_eq!((place.text("in/a"), place.text("in/to script/file")), ("now a file".into(), "now a folder".into()));
    place.ok(["import", "--worktree", "../from"]);
    place.clean();
    assert!(!place.path("fruit").exists());
}

#[needs(git)]
#[test]
fn what_is_there_already_is_taken_in() {
    let place = GitPlace::new();
    // As `git add -A && git commit`: files are as after the commit, whatever is staged of them.
    place.file("fruit/apple", "green");
    place.git(["add", "."]);
    place.file("fruit/pear", "yellow");
    fs::remove_file(place.path("deep/er/file")).unwrap();
    place.ok(["import", "--worktree", "."]);
    place.clean();
    assert_eq!(place.git(["diff", "--name-status", "HEAD~1"]), "D\tdeep/er/file\nM\tfruit/apple\nA\tfruit/pear\n");
}

/// `git rm --cached` takes a file out of the index, and leaves it to the user.
#[needs(git)]
#[test]
fn a_file_that_was_taken_out_of_the_index_stays() {
    let place = GitPlace::new();
    place.git(["rm", "-q", "--cached", "fruit/apple", "deep/er/file"]);
    // It makes no room for another one.
    place.file("../from/er", "a file");
    let says = "deep/er (a folder is there with deep/er/file, which is not in the last commit";
    place.fails_after_import(&[says], ["import", "--worktree", "../from", "--path", "deep"]);
    place.ok(["del", "--worktree", "fruit/apple"]);
    place.ok(["del", "--worktree", "deep"]);
    assert_eq!((place.text("fruit/apple"), place.text("deep/er/file")), ("red\n".into(), "x\n".into()));
    let untracked = place.git(["status", "--porcelain", "--untracked-files=all"]);
    assert_eq!(untracked, "?? deep/er/file\n?? fruit/apple\n");
    place.sound();
}

#[needs(git)]
#[test]
fn a_branch_that_is_not_born_yet_begins() {
    let place = GitPlace::unborn(&[]);
    place.fails(2, &["main checked out in"], ["set", "a/b", "1"]);
    place.fails(2, &["checked out"], ["set", "-b", "main", "a/b", "1"]);
    place.ok(["set", "--worktree", "a/b", "1"]);
    place.clean();
    assert_eq!((place.text("a/b"), place.git(["log", "--format=%s"])), ("1".to_owned(), "Set a/b\n".to_owned()));
}

#[needs(git)]
#[test]
fn what_is_not_committed_is_never_lost() {
    let place = GitPlace::new();
    let set = |path: &str, says: &str| {
        place.fails(2, &["cannot follow", says, "nothing was changed"], ["set", "--worktree", path, "new"])
    };

    place.file("fruit/apple", "mine\n");
    set("fruit/apple", "fruit/apple (its file has changes that are not committed)");
    place.fails(2, &["fruit/apple (its file"], ["del", "--worktree", "fruit"]);
    place.git(["add", "fruit/apple"]);
    set("fruit/apple", "fruit/apple (what is staged differs");
    place.file("fruit/apple", "red\n");
    set("fruit/apple", "fruit/apple (what is staged differs");
    place.git(["reset", "-q", "--hard"]);
    fs::remove_file(place.path("fruit/apple")).unwrap();
    set("fruit/apple", "fruit/apple (its file was removed");
    place.git(["rm", "-q", "fruit/apple"]);
    set("fruit/apple", "fruit/apple (its removal is staged");
    place.git(["reset", "-q", "--hard"]);
    place.file("new", "mine");
    set("new/file", "new/file (new is no folder");
    place.file("newer", "mine");
    set("newer", "newer (a file is there that is not in the last commit");
    place.file("newest/file", "mine");
    set("newest", "newest (a folder is there with newest/file");
    fs::remove_file(place.path("deep/er/file")).unwrap();
    place.file("deep/er/file/x", "mine");
    set("deep/er/file", "deep/er/file (a folder is there in place of its file");
    place.git(["clean", "-qfd"]);
    place.git(["reset", "-q", "--hard"]);
    place.file("staged/file", "mine");
    place.git(["add", "staged"]);
    fs::remove_dir_all(place.path("staged")).unwrap();
    set("staged", "staged (staged/file is staged below it");
    place.git(["reset", "-q", "--hard"]);
    place.file("staged", "mine");
    place.git(["add", "staged"]);
    fs::remove_file(place.path("staged")).unwrap();
    set("staged/file", "staged/file (staged is staged as a file");
    place.git(["reset", "-q", "--hard"]);
    place.file("announced", "mine");
    place.git(["add", "-N", "announced"]);
    set("announced", "git add -N");
    place.git(["reset", "-q", "--hard"]);
    // Another mode is a change, too, unless the repository says that modes mean nothing.
    fs::set_permissions(place.path("fruit/plum"), fs::Permissions::from_mode(0o755)).unwrap();
    set("fruit/plum", "fruit/plum (its file has changes");
    place.git(["config", "core.fileMode", "false"]);
    place.ok(["set", "--worktree", "fruit/plum", "new"]);
    place.ok(["set", "--worktree", "run", "new"]);
    assert!(place.git(["ls-tree", "HEAD", "run"]).starts_with("100755"));
    place.git(["config", "core.fileMode", "true"]);
    // All paths are named, and other changes stay what they are.
    place.git(["reset", "-q", "--hard"]);
    place.file("fruit/apple", "mine\n");
    place.file("mine", "mine");
    place.ok(["set", "--worktree", "fruit/plum", "newer"]);
    assert_eq!(place.git(["status", "--porcelain"]), " M fruit/apple\n?? mine\n");
}

#[needs(git)]
#[test]
fn no_link_leads_out_of_the_working_tree() {
    let place = GitPlace::new();
    fs::create_dir(place.path("../outside")).unwrap();
    place.file("../outside/file", "theirs");
    symlink("../outside", place.path("way")).unwrap();
    place.fails(2, &["way is no folder, but a file or link"], ["set", "--worktree", "way/new", "x"]);
    fs::remove_dir_all(place.path("fruit")).unwrap();
    symlink("../outside", place.path("fruit")).unwrap();
    place.fails(2, &["fruit is no folder"], ["set", "--worktree", "fruit/apple", "x"]);
    place.file("../outside/apple", "red\n");
    place.fails(2, &["fruit is no folder"], ["set", "--worktree", "fruit/apple", "x"]);
    fs::remove_file(place.path("fruit")).unwrap();
    place.git(["reset", "-q", "--hard"]);
    // A link that is committed is replaced, and not followed.
    place.ok(["set", "--worktree", "link", "a file now", "--force"]);
    assert_eq!(place.text("fruit/apple"), "red\n");
    // A value stays the kind that it was but for links.
    assert!(place.path("link").symlink_metadata().unwrap().is_file());
    fs::remove_file(place.path("way")).unwrap();
    place.clean();
    assert_eq!(fs::read_dir(place.path("../outside")).unwrap().count(), 2);
}

#[needs(git)]
#[test]
fn what_git_would_convert_is_left_to_git() {
    let place = GitPlace::new();
    let set = |path: &str, value: &str| place.run(["set", "--worktree", path, value]);
    let refused = |path: &str, value: &str, says: &str| {
        place.fails(2, &["cannot follow", path, says], ["set", "--worktree", path, value]);
    };
    place.file(".gitattributes", "* text=auto\n*.win text eol=crlf\n*.big filter=lfs\n*.id ident\n*.bin binary\n");
    place.git(["add", "."]);
    place.git(["commit", "-qm", "attributes"]);
    refused("a.win", "x\n", "eol asks for other bytes");
    refused("a.big", "x\n", "filter asks for other bytes");
    refused("a.id", "x\n", "ident asks for other bytes");
    refused("a.txt", "x\r\n", "carriage returns");
    assert_eq!(set("a.txt", "x\n").code, 0);
    assert_eq!(set("a.bin", "x\r\n").code, 0);
    place.clean();
    place.git(["config", "core.autocrlf", "true"]);
    refused("a.txt", "y\n", "core.autocrlf asks for other bytes");
    assert_eq!(set("a.bin", "y\r\n").code, 0);
    place.git(["config", "core.autocrlf", "input"]);
    assert_eq!(set("a.txt", "y\n").code, 0);
    place.git(["config", "--unset", "core.autocrlf"]);
    // Attributes that are not committed count, and so do those of the commit itself, and those beside the repository.
    place.file("fruit/.gitattributes", "apple filter=x\n");
    refused("fruit/apple", "y\n", "filter");
    fs::remove_file(place.path("fruit/.gitattributes")).unwrap();
    place.file("../from/.gitattributes", "*.c working-tree-encoding=UTF-16\n");
    place.file("../from/x.c", "x");
    place.fails_after_import(&["in/x.c (working-tree-encoding"], ["import", "--worktree", "../from", "--path", "in"]);
    place.file(".git/info/attributes", "run ident\n");
    refused("run", "y\n", "ident");
    fs::remove_file(place.path(".git/info/attributes")).unwrap();
    place.file("../home/.config/git/attributes", "run ident\n");
    refused("run", "y\n", "ident");
    place.clean();
}

#[needs(git)]
#[test]
fn indexes_that_are_not_understood_are_refused() {
    let place = GitPlace::new();
    let set = |says: &str| place.fails(2, &["cannot follow", says], ["set", "--worktree", "fruit/apple", "new"]);
    place.git(["update-index", "--split-index"]);
    set("the index is split in two");
    place.git(["update-index", "--no-split-index"]);
    place.git(["sparse-checkout", "set", "--no-cone", "/deep/"]);
    set("a sparse checkout leaves it out");
    place.git(["sparse-checkout", "set", "--cone", "--sparse-index", "deep"]);
    set("sparse checkout");
    place.git(["sparse-checkout", "disable"]);
    // A merge under way, with and without conflicts.
    place.git(["checkout", "-q", "-b", "side"]);
    place.file("fruit/apple", "side\n");
    place.git(["commit", "-qam", "side"]);
    place.git(["checkout", "-q", "main"]);
    place.git(["merge", "-q", "--no-commit", "--no-ff", "side"]);
    set("a merge is under way");
    place.git(["merge", "--abort"]);
    place.file("fruit/apple", "main\n");
    place.git(["commit", "-qam", "main"]);
    assert!(!place.git_command(["merge", "-q", "side"]).output().unwrap().status.success());
    fs::remove_file(place.path(".git/MERGE_HEAD")).unwrap();
    set("the index has conflicts");
    place.git(["reset", "-q", "--hard"]);
    // Another process has the lock.
    place.file(".git/index.lock", "");
    place.run(["set", "--worktree", "--wait", "0.05", "fruit/apple", "new"]).failed(3, &["index.lock is locked"]);
    assert!(place.path(".git/index.lock").exists());
    fs::remove_file(place.path(".git/index.lock")).unwrap();
    let index = fs::read(place.path(".git/index")).unwrap();
    let mut damaged = index.clone();
    damaged[40] ^= 1;
    place.file(".git/index", damaged);
    place.run(["set", "--worktree", "fruit/apple", "new"]).failed(3, &["index", "damaged"]);
    place.file(".git/index", index);
    // Submodules are Git's own affair.
    let commit = place.git(["rev-parse", "side"]).trim().to_owned();
    place.git(["update-index", "--add", "--cacheinfo", &format!("160000,{commit},sub")]);
    fs::create_dir(place.path("sub")).unwrap();
    place.git(["commit", "-qm", "sub"]);
    place.fails(2, &["sub (it is a submodule"], ["del", "--worktree", "sub"]);
    place.ok(["set", "--worktree", "fruit/apple", "new"]);
    place.clean();
    place.run(["set", "--worktree", "a", "b", "-r", "../nowhere"]).failed(3, &["no store"]);
}

#[needs(git)]
#[test]
fn what_git_keeps_in_the_index_survives() {
    let place = GitPlace::new();
    place.git(["update-index", "--assume-unchanged", "fruit/plum"]);
    place.file("fruit/pear", "yellow");
    place.git(["add", "-N", "fruit/pear"]);
    place.git(["config", "core.untrackedCache", "true"]);
    place.git(["config", "core.fsmonitor", "false"]);
    place.git(["status"]);
    place.ok(["set", "--worktree", "fruit/apple", "green"]);
    assert!(place.git(["ls-files", "-v"]).contains("h fruit/plum"));
    assert_eq!(place.git(["status", "--porcelain"]), " A fruit/pear\n");
    place.file("untracked", "x");
    assert_eq!(place.git(["status", "--porcelain"]), " A fruit/pear\n?? untracked\n");
    place.sound();
}

/// A file that changes in the second in which the index was written, without changing its size, is found by Git because
/// the index is too young to vouch for it. A new index must not vouch for it either.
#[needs(git)]
#[test]
fn changes_in_the_same_second_are_still_seen() {
    let place = GitPlace::new();
    for round in 0..3 {
        place.file("fruit/plum", format!("a{round}"));
        place.git(["commit", "-qam", "plum"]);
        place.file("fruit/plum", format!("b{round}"));
        let metadata = place.path("fruit/plum").metadata().unwrap();
        // The index says of the file what the system says of it: only its contents tell.
        let index = place.git(["ls-files", "--debug", "fruit/plum"]);
        place.ok(["set", "--worktree", "fruit/apple", &round.to_string()]);
        assert_eq!(place.git(["status", "--porcelain"]), " M fruit/plum\n", "{index} {metadata:?}");
        place.git(["reset", "-q", "--hard"]);
    }
}

#[needs(git)]
#[test]
fn verbs_at_once_follow_one_after_the_other() {
    let place = GitPlace::new();
    let mut children: Vec<_> = (0..6)
        .map(|number| {
            let mut command = place.command(["set", "--worktree", &format!("many/file{number}"), "x"]);
            command.stdout(Stdio::null()).spawn().unwrap()
        })
        .collect();
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    place.clean();
    assert_eq!(fs::read_dir(place.path("many")).unwrap().count(), 6);
    assert_eq!(place.git(["rev-list", "--count", "HEAD"]), "7\n");
}

/// Whenever it comes: before the commit nothing has changed, and after it everything follows.
#[needs(git)]
#[test]
fn an_interruption_leaves_no_lock_and_nothing_half_done() {
    let place = GitPlace::new();
    for round in 0..12 {
        for number in 0..150 {
            place.file(format!("../from/{}/{number}", number % 7), format!("{round} {number}"));
        }
        let mut command = place.command(["import", "--worktree", "../from", "--path", "in"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(6 * round));
        let pid = rustix::process::Pid::from_child(&child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        child.wait().unwrap();
        assert!(!place.path(".git/index.lock").exists(), "{round}");
        assert_eq!(place.git(["status", "--porcelain"]), "", "{round}");
    }
    place.ok(["import", "--worktree", "../from", "--path", "in"]);
    place.clean();
}

/// In a container each process may have the number of the one before.
#[needs(git)]
#[test]
fn unfinished_files_of_a_process_with_the_same_number_are_in_nobodys_way() {
    let place = GitPlace::new();
    let script = "for n in 0 1; do echo left > fruit/.cone-$$-$n.part; done; exec \"$0\" \"$@\"";
    let run = Run::of(place.shell(script, &["set", "--worktree", "fruit/apple", "green"]));
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(place.text("fruit/apple"), "green");
    let status = place.git(["status", "--porcelain", "--untracked-files=all"]);
    let left = status.lines().filter(|line| line.starts_with("?? fruit/.cone-")).count();
    assert_eq!((left, status.lines().count()), (2, 2), "{status}");
}

#[needs(git, somebody_else)]
#[test]
fn files_that_cannot_follow_are_told_with_the_way_out() {
    let place = GitPlace::new();
    fs::set_permissions(place.path("fruit"), fs::Permissions::from_mode(0o555)).unwrap();
    let run = place.run_as_somebody(&["set", "--worktree", "fruit/apple", "green"]);
    fs::set_permissions(place.path("fruit"), fs::Permissions::from_mode(0o755)).unwrap();
    run.failed(3, &["is made, but files could not follow: fruit/apple", "git restore --staged --worktree"]);
    assert_eq!(place.git(["show", "HEAD:fruit/apple"]), "green");
    place.git(["restore", "--staged", "--worktree", "fruit/apple"]);
    // The files' owner was another for so long, which the index does not know.
    place.git(["update-index", "--refresh"]);
    place.clean();
}

#[test]
fn other_stores_have_no_working_tree() {
    let place = crate::harness::Place::with_store();
    place.fails(2, &["--worktree is for Git repositories"], ["set", "--worktree", "a", "b"]);
    place.fails(2, &["--git is for Git repositories"], ["checkout", "--git"]);
}
