//! Verbs that read, in repositories made by real Git.

use bristlecone_needs::needs;

use crate::git_harness::GitPlace;

#[needs(git)]
#[test]
fn what_git_committed_is_read() {
    for options in [&[][..], &["--object-format=sha256"]] {
        let place = GitPlace::with(options);
        let head = place.git(["rev-parse", "HEAD"]).trim().to_owned();
        assert_eq!(place.ok(["get", "fruit/apple"]), "red\n");
        assert_eq!(place.ok(["get", "link"]), "fruit/apple");
        assert_eq!(place.ok(["list"]), "deep/\nfruit/\nlink@\nodd name%0A\u{e9}\nrun*\n");
        assert!(place.ok(["tree", "deep"]).contains("er/"));
        let log = place.json(["log"]);
        let commit = &log["commits"][0];
        assert_eq!(commit["commit"], head.as_str());
        assert_eq!(commit["root"], place.git(["rev-parse", "HEAD^{tree}"]).trim());
        assert_eq!(commit["author"]["ident"], "Grace <grace@example.org>");
        assert_eq!(commit["message"], "one\n");
        let entry = &place.json(["list", "fruit"])["entries"][0];
        assert_eq!(entry["oid"], place.git(["rev-parse", "HEAD:fruit/apple"]).trim());
        assert_eq!(entry["bytes"], 4);
        // By the first digits of an id, whatever it is.
        assert_eq!(place.json(["show", &head[..7]])["commit"], head.as_str());
        let blob = place.git(["rev-parse", "HEAD:fruit/plum"]);
        assert_eq!(place.ok(["show", &blob[..10]]), "blue\n");
        assert!(place.ok(["show", place.git(["rev-parse", "HEAD:fruit"]).trim()]).contains("plum"));
        place.fails(1, &["there is no \"00000000\""], ["show", "00000000"]);
        let check = place.ok(["check"]);
        assert!(check.contains("no damage"), "{check}");
        let exported = place.path("../out");
        place.ok(["export", exported.to_str().unwrap()]);
        assert!(
            exported
                .join("run")
                .metadata()
                .is_ok_and(|found| std::os::unix::fs::MetadataExt::mode(&found) & 0o100 != 0)
        );
        assert_eq!(std::fs::read_link(exported.join("link")).unwrap().to_str(), Some("fruit/apple"));
        // Nothing of ours is left by reading.
        assert!(!place.path(".git/bristlecone").exists());
        place.clean();
    }
}

#[needs(git)]
#[test]
fn the_repository_itself_is_not_exported_into() {
    let mut place = GitPlace::new();
    place.git(["clone", "-q", "--bare", ".", "../bare.git"]);
    let says = ["is a Git repository's own", "export to another folder"];
    for to in [".git", ".git/refs/new", ".git/hooks"] {
        for more in [&[][..], &["--force"]] {
            place.fails(2, &says, [&["export", to], more].concat());
        }
    }
    assert!(!place.path(".git/refs/new").exists());
    place.go("bare.git");
    place.fails(2, &says, ["export", "out"]);
    assert!(!place.path("out").exists());
    // A working tree in there is none of it.
    place.git(["worktree", "add", "-q", "inner", "-b", "side"]);
    place.ok(["export", "inner/new"]);
    assert_eq!(place.text("inner/new/fruit/apple"), "red\n");
    place.go("bare.git/inner");
    place.ok(["export", "out"]);
    assert_eq!(place.text("out/fruit/apple"), "red\n");
}

#[needs(git)]
#[test]
fn the_repository_is_found_from_wherever_one_is() {
    let mut place = GitPlace::new();
    place.git(["clone", "-q", "--bare", ".", "../bare.git"]);
    place.git(["worktree", "add", "-q", "../linked", "-b", "side"]);
    std::fs::create_dir(place.path("../elsewhere")).unwrap();
    for folder in
        ["work", "work/deep/er", "work/.git", "work/.git/refs", "bare.git", "bare.git/objects", "linked/fruit"]
    {
        place.go(folder);
        assert_eq!(place.ok(["get", "fruit/apple"]), "red\n", "{folder}");
    }
    place.go("elsewhere");
    for named in ["../work", "../work/.git", "../bare.git", "../linked", "../linked/.git"] {
        assert_eq!(place.ok(["get", "fruit/apple", "--repo", named]), "red\n", "{named}");
    }
    let run = place.run(["log"]);
    run.failed(3, &["no store in", "git init"]);
    place.run(["log", "-r", "../home-less"]).failed(3, &["no store in ../home-less"]);
    // What was found shows.
    let info = place.json(["info", "-r", "../linked"]);
    assert_eq!((&info["backend"], &info["head"], &info["git_head"]), (&"git".into(), &"side".into(), &"side".into()));
    assert!(info["store"].as_str().unwrap().ends_with("/work/.git/worktrees/linked"), "{info}");
    assert!(info["worktree"].as_str().unwrap().ends_with("linked"), "{info}");
    assert_eq!(place.json(["info", "-r", "../bare.git"])["worktree"], serde_json::Value::Null);
    // A store of our own comes first, where both are in one folder.
    place.go("work");
    place.ok(["init", "--here"]);
    assert_eq!(place.json(["info"])["backend"], "disk");
    assert_eq!(place.json(["info", "-r", ".git"])["backend"], "git");
}

#[needs(git)]
#[test]
fn head_is_gits_until_cone_has_one_of_its_own() {
    let place = GitPlace::new();
    place.git(["checkout", "-q", "-b", "side"]);
    place.file("fruit/apple", "green\n");
    place.git(["commit", "-qam", "two"]);
    assert_eq!(place.ok(["get", "fruit/apple"]), "green\n");
    assert_eq!(place.ok(["get", "fruit/apple", "--at", "HEAD~1"]), "red\n");
    assert_eq!(place.ok(["get", "fruit/apple", "--at", "@^"]), "red\n");
    place.git(["checkout", "-q", "--detach", "main"]);
    let listed = place.json(["branches"]);
    assert_eq!(listed["head"], serde_json::Value::Null);
    assert_eq!(listed["detached"], place.git(["rev-parse", "main"]).trim());
    assert_eq!(place.ok(["get", "fruit/apple", "--at", "HEAD"]), "red\n");
    place.fails(2, &["no branch is checked out"], ["set", "a", "b"]);

    place.ok(["checkout", "side"]);
    assert_eq!(place.ok(["get", "fruit/apple"]), "green\n");
    assert_eq!(place.ok(["show", "HEAD"]), place.ok(["show", "side"]));
    assert_eq!(place.git(["rev-parse", "--abbrev-ref", "HEAD"]), "HEAD\n");
    place.git(["checkout", "-q", "main"]);
    let listed = place.json(["branches"]);
    let marks: Vec<_> = listed["branches"].as_array().unwrap().iter().collect();
    assert_eq!((&marks[0]["name"], &marks[0]["checked_out"]), (&"main".into(), &false.into()));
    assert_eq!((&marks[0]["git_checked_out"], &marks[1]["git_checked_out"]), (&true.into(), &false.into()));
    assert_eq!((&marks[1]["name"], &marks[1]["checked_out"]), (&"side".into(), &true.into()));
    assert!(place.ok(["branches"]).contains("(checked out by Git)"));
    place.ok(["checkout", "--git"]);
    assert_eq!(place.ok(["get", "fruit/apple"]), "red\n");
    place.clean();

    // Each working tree has a HEAD of cone's own, too.
    let mut place = place;
    place.git(["worktree", "add", "-q", "../linked", "side"]);
    place.ok(["checkout", "HEAD~0"]);
    place.go("linked");
    assert_eq!(place.json(["info"])["head"], "side");
    place.ok(["checkout", "main"]);
    assert!(place.path("../work/.git/worktrees/linked/bristlecone/HEAD").exists());
    place.go("work");
    assert_eq!(place.json(["info"])["head"], serde_json::Value::Null);
    place.sound();
}

#[needs(git)]
#[test]
fn tags_packed_refs_and_full_names_are_revisions() {
    let place = GitPlace::new();
    place.git(["tag", "light"]);
    place.git(["tag", "-a", "v1", "-m", "The first\n\nwith more"]);
    place.git(["tag", "-a", "v1-again", "v1", "-m", "again"]);
    place.git(["tag", "tree-tag", "HEAD^{tree}"]);
    place.git(["update-ref", "refs/remotes/origin/main", "HEAD"]);
    place.file("fruit/apple", "green\n");
    place.git(["commit", "-qam", "two"]);
    for packed in [false, true] {
        if packed {
            place.git(["pack-refs", "--all"]);
            place.git(["gc", "-q", "--prune=now"]);
        }
        for rev in ["light", "v1", "v1-again", "tags/v1", "refs/tags/v1", "origin/main", "main~1", "v1-again^0"] {
            assert_eq!(place.ok(["get", "fruit/apple", "--at", rev]), "red\n", "{rev}");
        }
        let tag = place.json(["show", "v1-again"]);
        assert_eq!(
            (&tag["kind"], &tag["name"], &tag["target_kind"]),
            (&"tag".into(), &"v1-again".into(), &"tag".into())
        );
        assert_eq!(tag["target"], place.git(["rev-parse", "v1"]).trim());
        assert_eq!(tag["tagger"]["ident"], "Grace <grace@example.org>");
        let text = place.ok(["show", "v1"]);
        assert!(text.starts_with("tag v1 ") && text.contains("    with more"), "{text}");
        assert!(place.ok(["show", place.git(["rev-parse", "v1"]).trim()]).starts_with("tag v1 "));
        assert!(place.ok(["show", "tree-tag"]).contains("fruit/"));
        assert_eq!(place.ok(["get", "run", "--at", "tree-tag"]), "#!/bin/sh\n");
        place.fails(2, &["no commit"], ["branches", "here", "--at", "tree-tag"]);
        assert!(place.ok(["check"]).contains("no damage"));
    }
}

#[needs(git)]
#[test]
fn merges_submodules_and_signatures_are_shown() {
    let place = GitPlace::new();
    place.git(["checkout", "-q", "-b", "side"]);
    place.file("side", "s\n");
    place.git(["add", "."]);
    place.git(["commit", "-qm", "side"]);
    place.git(["checkout", "-q", "main"]);
    place.file("main", "m\n");
    place.git(["add", "."]);
    place.git(["commit", "-qm", "main"]);
    place.git(["merge", "-q", "--no-edit", "side"]);
    let other = place.git(["rev-parse", "side"]).trim().to_owned();
    place.git(["update-index", "--add", "--cacheinfo", &format!("160000,{other},sub")]);
    std::fs::create_dir(place.path("sub")).unwrap();
    place.git(["commit", "-qm", "a submodule"]);
    let entry = &place.json(["list", "--prefix", "sub"])["entries"][0];
    assert_eq!((&entry["kind"], &entry["oid"]), (&"foreign".into(), &other.as_str().into()));
    place.fails(2, &["a submodule"], ["get", "sub"]);
    let logged: Vec<_> = place.json(["log", "--topo"])["commits"].as_array().unwrap().clone();
    assert_eq!(logged.len(), place.git(["rev-list", "HEAD"]).lines().count());
    assert_eq!(logged[1]["parents"].as_array().unwrap().len(), 2);
    let differences = &place.json(["diff", "main~2", "main"])["differences"];
    let paths: Vec<_> = differences.as_array().unwrap().iter().map(|one| one["path"].as_str().unwrap()).collect();
    assert_eq!(paths, place.git(["diff", "--name-only", "main~2", "main", "--"]).lines().collect::<Vec<_>>());
    assert!(place.ok(["check"]).contains("no damage"));
    // The submodule stays what it is when something else changes.
    place.ok(["set", "--worktree", "fruit/apple", "green"]);
    assert_eq!(place.git(["rev-parse", "HEAD:sub"]).trim(), other);
    place.sound();
}

#[needs(git)]
#[test]
fn names_that_are_no_text_are_read_and_written() {
    let place = GitPlace::new();
    let name = std::ffi::OsStr::from_bytes(b"\xff \"x\"\t");
    use std::os::unix::ffi::OsStrExt;
    place.file(name, "odd\n");
    place.git(["add", "-A"]);
    place.git(["commit", "-qm", "odd"]);
    assert_eq!(place.ok(["get", "%FF \"x\"%09"]), "odd\n");
    place.ok(["set", "--worktree", "%FF \"x\"%09", "odder"]);
    place.ok(["set", "--worktree", "dir%0A/\u{e9}%FE", "new"]);
    assert_eq!(std::fs::read(place.path(name)).unwrap(), b"odder");
    assert_eq!(std::fs::read(place.path(std::ffi::OsStr::from_bytes(b"dir\n/\xc3\xa9\xfe"))).unwrap(), b"new");
    place.clean();
}

#[needs(git)]
#[test]
fn a_value_is_not_read_to_tell_its_length() {
    let place = GitPlace::new();
    let mut random = 1_u32;
    // Bytes that do not deflate, so that the end of the file is far from its head.
    let bytes = (0..100_000).map(|_| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 24) as u8
    });
    place.file("large", bytes.collect::<Vec<_>>());
    place.git(["add", "large"]);
    place.git(["commit", "-q", "-m", "large"]);
    let blob = place.git(["rev-parse", "HEAD:large"]).trim().to_owned();
    let file = place.path(format!(".git/objects/{}/{}", &blob[..2], &blob[2..]));
    let mut damaged = std::fs::read(&file).unwrap();
    *damaged.last_mut().unwrap() ^= 1;
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, damaged).unwrap();
    place.run(["get", "large"]).failed(3, &["damaged"]);
    let long = place.ok(["list", "-l"]);
    assert!(long.lines().any(|line| line.contains(" 100000 ") && line.ends_with(" large")), "{long}");
    for arguments in [&["list"][..], &["tree"], &["show", "HEAD^{tree}"]] {
        let found = place.json(arguments);
        assert!(found["entries"].as_array().unwrap().iter().any(|entry| entry["bytes"] == 100_000), "{found}");
    }
    assert_eq!(place.json(["diff"])["differences"][0]["after"]["bytes"], 100_000);
}

#[needs(git)]
#[test]
fn damage_and_what_is_missing_are_found() {
    let place = GitPlace::new();
    place.git(["branch", "side", "HEAD"]);
    let blob = place.git(["rev-parse", "HEAD:fruit/apple"]).trim().to_owned();
    let file = place.path(format!(".git/objects/{}/{}", &blob[..2], &blob[2..]));
    let bytes = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let run = place.run(["check"]);
    let out = String::from_utf8_lossy(&run.out).into_owned();
    assert_eq!(run.code, 1, "{run:?}");
    assert!(out.contains(&blob) && out.contains("missing"), "{out}");
    assert!(out.contains("affected: refs/heads/main") && out.contains("affected: refs/heads/side"), "{out}");
    place.run(["get", "fruit/apple"]).failed(3, &[&blob, "missing"]);
    // Another object under its name.
    let other = place.git(["rev-parse", "HEAD:fruit/plum"]).trim().to_owned();
    std::fs::copy(place.path(format!(".git/objects/{}/{}", &other[..2], &other[2..])), &file).unwrap();
    let run = place.run(["check"]);
    assert!(run.code == 1 && String::from_utf8_lossy(&run.out).contains(&blob), "{run:?}");
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, bytes).unwrap();
    assert_eq!(place.json(["check"])["sound"], true);
    // A pack that is damaged as a whole is one place, with all its objects.
    place.git(["repack", "-adq"]);
    let packs = std::fs::read_dir(place.path(".git/objects/pack")).unwrap().map(|entry| entry.unwrap().path());
    let pack = packs.filter(|path| path.extension().is_some_and(|ending| ending == "pack")).last().unwrap();
    let bytes = std::fs::read(&pack).unwrap();
    let mut flipped = bytes.clone();
    flipped[20] ^= 1;
    std::fs::remove_file(&pack).unwrap();
    std::fs::write(&pack, flipped).unwrap();
    let run = place.run(["check"]);
    let out = String::from_utf8_lossy(&run.out).into_owned();
    assert_eq!(run.code, 1, "{run:?}");
    let of_pack: Vec<&str> = out.lines().filter(|line| line.contains("digest")).collect();
    assert!(of_pack.len() == 1 && of_pack[0].contains(" objects: "), "{out}");
    assert!(out.contains("affected: refs/heads/main"), "{out}");
    std::fs::write(&pack, bytes).unwrap();
    assert_eq!(place.json(["check"])["sound"], true);
    // What nothing leads to may lack what it names.
    let lost = place.git(["commit-tree", "-p", "HEAD", "-m", "lost", "HEAD^{tree}"]).trim().to_owned();
    let lost_child = place.git(["commit-tree", "-p", &lost, "-m", "lost", "HEAD^{tree}"]);
    std::fs::remove_file(place.path(format!(".git/objects/{}/{}", &lost[..2], &lost[2..]))).unwrap();
    assert_eq!(place.json(["check"])["sound"], true, "{lost_child}");
}

#[needs(git)]
#[test]
fn reftables_and_unknown_extensions_are_refused_by_name() {
    let place = GitPlace::new();
    place.git(["config", "core.repositoryformatversion", "1"]);
    place.git(["config", "extensions.refstorage", "reftable"]);
    place.run(["log"]).failed(3, &["git refs migrate"]);
    place.run(["set", "a", "b"]).failed(3, &["git refs migrate"]);
    let config = place.text(".git/config").replace("refstorage = reftable", "shiny = true");
    place.file(".git/config", config);
    place.run(["log"]).failed(3, &["shiny"]);
}

#[needs(git)]
#[test]
fn logs_are_in_gits_order_and_end_where_a_shallow_clone_does() {
    let mut place = GitPlace::new();
    for number in 0..6 {
        if number % 2 == 0 {
            place.git(["checkout", "-q", "-b", &format!("side{number}"), "HEAD"]);
        }
        place.file(format!("file{number}"), "x");
        place.git(["add", "."]);
        let date = format!("{} +0000", 1_700_000_100 + number * 100 / 3);
        let mut commit = place.git_command(["commit", "-qm", &format!("number {number}")]);
        assert!(commit.env("GIT_COMMITTER_DATE", date).status().unwrap().success());
    }
    place.git(["checkout", "-q", "main"]);
    place.git(["merge", "-q", "--no-ff", "--no-edit", "side2"]);
    place.git(["merge", "-q", "--no-ff", "--no-edit", "side4"]);
    let ours = |place: &GitPlace, arguments: &[&str]| {
        let log = place.json(["log"].iter().chain(arguments));
        let commits = log["commits"].as_array().unwrap().iter().map(|one| one["commit"].as_str().unwrap().to_owned());
        commits.collect::<Vec<_>>()
    };
    let theirs = |place: &GitPlace, arguments: &[&str]| {
        let log = place.git(["log", "--format=%H"].iter().chain(arguments));
        log.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(ours(&place, &[]), theirs(&place, &[]));
    assert_eq!(ours(&place, &["-n", "3"]), theirs(&place, &["-n", "3"]));
    assert_eq!(ours(&place, &["file3"]), theirs(&place, &["--", "file3"]));
    assert_eq!(ours(&place, &["file3", "-n", "1"]), theirs(&place, &["-n", "1", "--", "file3"]));

    let from = format!("file://{}", place.path(".").display());
    place.git(["clone", "-q", "--depth", "2", &from, "../shallow"]);
    place.go("shallow");
    let all = theirs(&place, &[]);
    assert!(all.len() > 1);
    assert_eq!(ours(&place, &[]), all);
    for line in
        [&["--topo-order"][..], &["--", "file5"], &["-1", "--", "file0"], &["--topo-order", "--", "file2", "file5"]]
    {
        assert_eq!(ours(&place, line), theirs(&place, line), "{line:?}");
    }
    let last = all.last().unwrap();
    let past = format!("{last}~1");
    place.fails(1, &["there is no"], ["show", &past]);
    let shown = place.json(["show", last]);
    let paths = shown["differences"].as_array().unwrap().len();
    assert_eq!(paths, place.git(["ls-tree", "-r", "--name-only", last]).lines().count());
    assert_eq!(place.json(["check"])["sound"], true);
    place.ok(["set", "--orphan", "-b", "new", "a", "b"]);
    assert_eq!(ours(&place, &["--at", "new"]), theirs(&place, &["new"]));
    place.sound();
}
