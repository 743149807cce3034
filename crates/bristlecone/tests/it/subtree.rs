//! Subtrees: split, add, pull and push, with `git subtree` as the judge of ids.

use std::sync::Arc;

use bristlecone::{
    CommitId, Error, Format, Info, MemoryBackend, Oid, RefTarget, Repo, Signature, SweepLimits,
    core::git::Git,
    subtree::{Joined, Pulled, PushOptions, Pushed},
};
use bristlecone_needs::needs;
use bristlecone_testkit::{generate::Rng, sim::SimStorage};

use crate::{engine::tiny, real_git::RealGit, retention};

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn memory() -> Repo<Git> {
    Repo::with_backend(Git::sha1(), Arc::new(MemoryBackend::new()))
}

fn info(message: impl Into<Vec<u8>>, seconds: i64) -> Info {
    Info::message(message).by(Signature::new("A U Thor <a@x>", seconds))
}

/// A random history whose commits have up to `parents_max` parents; every commit has the directory.
fn random_history(repo: &Repo<Git>, seed: u64, count: usize, parents_max: usize) -> CommitId {
    let random = &mut Rng::new(seed);
    let mut all: Vec<CommitId> = Vec::new();
    for n in 0..count {
        let mut parents: Vec<CommitId> = all.last().copied().into_iter().collect();
        if parents_max > 1 && n > 3 && random.index(3) == 0 {
            // A line of its own, to be merged later.
            parents = vec![all[all.len() - 1 - random.index(3)]];
        }
        while parents.len() < parents_max && n > 3 && random.index(3) == 0 {
            let other = all[all.len() - 1 - random.index(4)];
            if !parents.contains(&other) {
                parents.push(other);
            }
        }
        let mut tree = match parents.get(random.index(parents.len().max(1))) {
            Some(at) => repo.checkout(*at).unwrap(),
            None => repo.tree(),
        };
        if n == 0 || random.index(2) == 0 {
            let path = ["lib/sub/a", "lib/sub/b/c", "lib/sub/b/d"][random.index(3)];
            tree.set(path, ["1", "2", "3"][random.index(3)]).unwrap();
        }
        if random.index(2) == 0 {
            tree.set(["other", "lib/x"][random.index(2)], format!("{n}")).unwrap();
        }
        let info = info(format!("commit {n}\n"), 1_700_000_000 + 60 * n as i64);
        all.push(repo.commit_tree(&mut tree, &parents, &info).unwrap());
    }
    *all.last().unwrap()
}

fn compare_with_git(seed: u64, count: usize, parents_max: usize) {
    let repo = memory();
    let head = random_history(&repo, seed, count, parents_max);
    let split = repo.subtree("lib/sub").unwrap().split(head, None, None).unwrap().unwrap();
    let again = repo.subtree("lib/sub").unwrap().split(head, None, None).unwrap().unwrap();
    assert_eq!((again.head, again.written), (split.head, 0), "seed {seed}");
    let git = RealGit::new();
    git.take(&repo, "main", head.oid());
    assert_eq!(split.head.oid(), git.split("lib/sub", "main"), "seed {seed}");
    git.run(&["update-ref", "refs/heads/split", &split.head.oid().to_string()], b"");
    git.run(&["fsck", "--strict"], b"");
}

#[needs(git_subtree)]
#[test]
fn linear_histories_are_split_as_git_does() {
    for seed in 0..3 {
        compare_with_git(seed, 40, 1);
    }
}

#[needs(git_subtree)]
#[test]
fn merged_histories_are_split_as_git_does() {
    for seed in 100..106 {
        compare_with_git(seed, 40, 2);
    }
}

#[needs(git)]
#[test]
fn merges_of_many_parents_are_split_to_sound_histories() {
    for seed in 200..204 {
        let repo = memory();
        let head = random_history(&repo, seed, 60, 4);
        let split = repo.subtree("lib/sub").unwrap().split(head, None, None).unwrap().unwrap();
        let dir = repo.checkout(head).unwrap().get_tree("lib/sub").unwrap().unwrap();
        assert!(repo.checkout(split.head).unwrap().same(&dir).unwrap(), "seed {seed}");
        let git = RealGit::new();
        git.take(&repo, "split", split.head.oid());
        git.run(&["fsck", "--strict"], b"");
    }
}

/// Makes commits by script, in Git, of every shape that a commit of one line has.
fn odd_history(git: &RealGit) {
    let commit = |directory: &str, header: &str, message: &[u8]| {
        let parent = git.command(&["rev-parse", "-q", "--verify", "HEAD"]).output().unwrap();
        let parent = String::from_utf8(parent.stdout).unwrap();
        let parent = if parent.is_empty() { String::new() } else { format!("parent {parent}") };
        let path = git.dir.path().join(directory);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, message).unwrap();
        git.run(&["add", "."], b"");
        let tree = git.line(&["write-tree"]);
        let raw = [format!("tree {tree}\n{parent}{header}\n").as_bytes(), message].concat();
        let made = git.run(&["hash-object", "-t", "commit", "-w", "--stdin", "--literally"], &raw);
        git.run(&["update-ref", "refs/heads/main", String::from_utf8(made).unwrap().trim()], b"");
    };
    let plain = "author A <a@x> 1700000005 +0530\ncommitter C O Mitter <c@x> 1700000006 -0330\n";
    for message in [&b"first\n\nbody\n"[..], b"", b"\n", b"\n\nleading\n", b"trailing\n\n\n", b"none", b"x\r\ny\n"] {
        commit("lib/a b", plain, message);
        commit("elsewhere", plain, b"not below the prefix\n");
    }
    commit("lib/deep/er", plain, b"no UTF-8: caf\xe9 \xc3\xa9 \xed\xa0\x80 \xef\xbf\xbf\n");
    commit("lib/deep/er", &format!("{plain}encoding ISO-8859-1\n"), b"caf\xe9\n");
    commit("lib/deep/er", &format!("{plain}encoding UTF-8\n"), "caf\u{e9}\n".as_bytes());
    let odd = "author  .A  B;  <a@x> 1700000005 -0000\ncommitter  <c@x> 1700000006 +0000\n";
    commit("lib/deep/er", &odd.replace("committer ", "committer C"), b"odd names\n");
    let signed = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n abc\n -----END PGP SIGNATURE-----\n";
    commit("lib/deep/er", &format!("{plain}{signed}x-more this\n and that\n"), b"signed\n");
}

#[needs(git_subtree)]
#[test]
fn odd_commits_are_split_as_git_does() {
    let git = RealGit::new();
    odd_history(&git);
    // The directory goes and comes back, in one commit and with others between.
    git.run(&["checkout", "-q", "-f", "main"], b"");
    for (step, change) in [("gone", None), ("between", None), ("back", Some("lib/new")), ("last", Some("lib/more"))] {
        match change {
            None if step == "gone" => drop(git.run(&["rm", "-rq", "lib"], b"")),
            None => std::fs::write(git.dir.path().join("elsewhere"), step).unwrap(),
            Some(path) => {
                std::fs::create_dir_all(git.dir.path().join("lib")).unwrap();
                std::fs::write(git.dir.path().join(path), step).unwrap();
            }
        }
        git.run(&["add", "-A"], b"");
        git.run(&["commit", "-q", "-m", step], b"");
    }
    let repo = git.load();
    for rev in ["main", "main~1", "main~4", "main~6"] {
        let head: Oid = git.line(&["rev-parse", rev]).parse().unwrap();
        let split = repo.subtree("lib").unwrap().split(head.into(), None, None).unwrap().unwrap();
        assert_eq!(split.head.oid(), git.split("lib", rev), "{rev}");
    }
    let gone: Oid = git.line(&["rev-parse", "main~2"]).parse().unwrap();
    assert_eq!(repo.subtree("lib").unwrap().split(gone.into(), None, None).unwrap(), None);
}

/// Commits of tests have the same author and committer as those that Git makes for them.
fn git_info(message: &[u8]) -> Info {
    let zone = bristlecone::Zone::from_bytes(b"+0100");
    let who = |name: &str, mail: &str| Signature {
        zone: zone.clone(),
        ..Signature::new(format!("{name} <{mail}>"), 1_700_000_000)
    };
    Info::message(message).author(who("AUTHOR", "a@x")).committer(who("COMMITTER", "c@x"))
}

/// A program with a library beside it, each with a history.
fn two<F: Format>(make: impl Fn() -> Repo<F>) -> Result<(Repo<F>, Repo<F>), Error> {
    let (app, lib) = (make(), make());
    for (repo, path) in [(&app, "start"), (&lib, "code"), (&lib, "src/more")] {
        repo.branch("main")?.edit(&git_info(format!("add {path}\n").as_bytes()), |tree| tree.set(path, "1\n"))?;
    }
    Ok((app, lib))
}

fn head<F: Format>(repo: &Repo<F>) -> CommitId {
    repo.revparse("main").unwrap()
}

fn set<F: Format>(repo: &Repo<F>, path: &str, value: &str) -> CommitId {
    let info = git_info(format!("{path} is {value}\n").as_bytes());
    repo.branch("main").unwrap().edit(&info, |tree| tree.set(path, format!("{value}\n"))).unwrap()
}

fn commit<F: Format>(repo: &Repo<F>, mut joined: Joined<F>) -> CommitId {
    let info = git_info(&joined.message);
    repo.branch("main").unwrap().commit_with_parents(&mut joined.tree, &joined.parents, &info).unwrap()
}

fn add<F: Format>(app: &Repo<F>, lib: &Repo<F>, squash: bool) -> CommitId {
    app.copy_objects(lib, &[head(lib)]).unwrap();
    let squash = squash.then(|| git_info(b""));
    let joined = app.subtree("vendor/lib").unwrap().add(head(app), head(lib).oid().into(), squash.as_ref(), None);
    commit(app, joined.unwrap())
}

fn pull<F: Format>(app: &Repo<F>, lib: &Repo<F>, squash: bool) -> Result<Pulled<F>, Error> {
    app.copy_objects(lib, &[head(lib)])?;
    let squash = squash.then(|| git_info(b""));
    app.subtree("vendor/lib")?.pull(head(app), head(lib).oid().into(), squash.as_ref(), None)
}

fn pulled<F: Format>(app: &Repo<F>, lib: &Repo<F>, squash: bool) -> CommitId {
    match pull(app, lib, squash).unwrap() {
        Pulled::Joined(joined) => commit(app, *joined),
        other => panic!("{other:?}"),
    }
}

fn push<F: Format>(app: &Repo<F>, lib: &Repo<F>) -> Pushed {
    app.subtree("vendor/lib").unwrap().push(head(app), lib, "main", PushOptions::default()).unwrap()
}

fn same<F: Format>(app: &Repo<F>, lib: &Repo<F>) -> bool {
    let dir = app.checkout(head(app)).unwrap().get_tree("vendor/lib").unwrap().unwrap();
    dir.root().unwrap() == lib.checkout(head(lib)).unwrap().root().unwrap()
}

/// A branch had it here, and its rule has cut it since: that is as if it had never been here.
#[test]
fn what_was_squashed_and_cut_is_asked_for_elsewhere() -> Outcome {
    let (app, lib) = two(|| retention::create(&SimStorage::new(), &tiny()))?;
    add(&app, &lib, true);
    let squashed = head(&lib);
    set(&lib, "code", "2");
    app.copy_objects(&lib, &[head(&lib)])?;
    retention::point(&app, "refs/heads/vendor", Some(head(&lib).oid().into()));
    retention::set(&app, "last 1 refs/heads/vendor\n");
    app.sweep(&[], &SweepLimits::default())?;
    assert!(matches!(app.checkout(squashed.oid().into()), Err(Error::Absent { .. })));
    set(&app, "vendor/lib/src/more", "3");
    assert!(matches!(app.subtree("vendor/lib")?.split(head(&app), None, None), Err(Error::Absent { .. })));
    pulled(&app, &lib, true);
    assert!(matches!(push(&app, &lib), Pushed::Moved { .. }));
    assert!(same(&app, &lib));
    Ok(())
}

fn goes_round<F: Format>(make: impl Fn() -> Repo<F>, squash: bool) -> Outcome {
    let (app, lib) = two(&make)?;
    add(&app, &lib, squash);
    assert!(same(&app, &lib));
    assert!(matches!(pull(&app, &lib, squash)?, Pulled::Already));
    assert!(matches!(push(&app, &lib), Pushed::Already(_)));
    for round in 0..4 {
        let theirs = set(&lib, "code", &format!("theirs {round}"));
        set(&app, "vendor/lib/src/more", &format!("ours {round}"));
        set(&app, "start", &format!("{round}"));
        let before = (head(&app), head(&lib));
        assert!(matches!(push(&app, &lib), Pushed::Behind(at) if at == theirs));
        assert_eq!((head(&app), head(&lib)), before);
        let batches = app.backend().stats().batches;
        let status = |theirs: Option<CommitId>| {
            app.subtree("vendor/lib").unwrap().status(head(&app), theirs.map(|at| (&lib, at))).unwrap().unwrap()
        };
        let now = status(Some(theirs)).compared.unwrap();
        assert_eq!(app.backend().stats().batches, batches, "nothing is written");
        assert_eq!((now.same, now.ahead, now.behind), (false, 1, 1), "round {round}");
        pulled(&app, &lib, squash);
        let joint = status(None).joint.unwrap();
        assert_eq!((joint.theirs, joint.by, status(None).since), (theirs.oid(), head(&app), 2), "round {round}");
        assert!(!same(&app, &lib));
        let Pushed::Moved { from, .. } = push(&app, &lib) else { panic!("the branch has to move") };
        assert_eq!(from, Some(theirs));
        assert!(same(&app, &lib), "round {round}");
        assert_eq!(lib.checkout(head(&lib))?.get("src/more")?.as_deref(), Some(format!("ours {round}\n").as_bytes()));
        assert!(matches!(push(&app, &lib), Pushed::Already(_)));
        let now = status(Some(head(&lib))).compared.unwrap();
        assert_eq!((now.same, now.ahead, now.behind), (true, 0, 0));
    }
    Ok(())
}

#[test]
fn changes_go_round() -> Outcome {
    for squash in [false, true] {
        goes_round(memory, squash)?;
        goes_round(Repo::memory, squash)?;
    }
    Ok(())
}

#[needs(git_subtree)]
#[test]
fn git_subtree_makes_the_same_commits_and_splits_ours() -> Outcome {
    for squash in [false, true] {
        let (app, lib) = two(memory)?;
        let git = RealGit::new();
        let flag: &[&str] = if squash { &["--squash"] } else { &[] };
        // The same in Git, from the same start.
        git.take(&lib, "lib", head(&lib).oid());
        git.take(&app, "main", head(&app).oid());
        git.run(&["checkout", "-q", "-f", "main"], b"");
        git.run(&[&["subtree", "add", "-q", "-P", "vendor/lib"], flag, &["lib"]].concat(), b"");
        let added = add(&app, &lib, squash);
        assert_eq!(git.line(&["rev-parse", "main"]), added.oid().to_string(), "squash: {squash}");
        set(&app, "vendor/lib/ours", "1");
        set(&lib, "code", "2");
        set(&lib, "code", "3");
        git.take(&lib, "lib", head(&lib).oid());
        git.take(&app, "main", head(&app).oid());
        git.run(&["checkout", "-q", "-f", "main"], b"");
        git.run(&[&["subtree", "merge", "-q", "-P", "vendor/lib", "-m", "a pull"], flag, &["lib"]].concat(), b"");
        let ours = pulled(&app, &lib, squash);
        for what in ["^{tree}", "^1", "^2"] {
            let theirs = git.line(&["rev-parse", &format!("main{what}")]);
            let commit = app.read_commit(ours)?;
            let wanted = match what {
                "^{tree}" => commit.tree.oid(),
                "^1" => commit.parents[0].oid(),
                _ => commit.parents[1].oid(),
            };
            assert_eq!(theirs, wanted.to_string(), "{what}, squash: {squash}");
        }
        if squash {
            // Back to an older commit, which takes away what came later.
            git.take(&app, "main", head(&app).oid());
            git.run(&["checkout", "-q", "-f", "main"], b"");
            git.run(&["subtree", "merge", "-q", "-P", "vendor/lib", "-m", "back", "--squash", "lib~1"], b"");
            let older = lib.revparse("main~1")?.oid();
            let back =
                app.subtree("vendor/lib")?.pull(head(&app), older.into(), Some(&git_info(b"")), Some(b"back\n"))?;
            let Pulled::Joined(joined) = back else { panic!("{back:?}") };
            let back = commit(&app, *joined);
            assert_eq!(git.line(&["rev-parse", "main"]), back.oid().to_string());
            assert_eq!(app.checkout(back)?.get("vendor/lib/code")?.as_deref(), Some(&b"2\n"[..]));
        }
        // Git splits what we joined, and we split what it joined.
        set(&app, "vendor/lib/ours", "2");
        git.take(&app, "ours", head(&app).oid());
        let subtree = app.subtree("vendor/lib")?;
        let split = subtree.split(head(&app), None, None)?.ok_or("a split")?;
        assert_eq!(git.split("vendor/lib", "ours"), split.head.oid(), "squash: {squash}");
        let theirs = git.load();
        let main: Oid = git.line(&["rev-parse", "main"]).parse()?;
        let split = theirs.subtree("vendor/lib")?.split(main.into(), None, None)?.ok_or("a split")?;
        assert_eq!(git.split("vendor/lib", "main"), split.head.oid(), "squash: {squash}");
        git.run(&["fsck", "--strict"], b"");
    }
    Ok(())
}

#[test]
fn what_cannot_be_done_is_refused_and_changes_nothing() -> Outcome {
    let (app, lib) = two(memory)?;
    let theirs: CommitId = head(&lib).oid().into();
    app.copy_objects(&lib, &[theirs])?;
    let before = set(&app, "file", "1");
    for prefix in ["file", "file/below"] {
        assert!(matches!(app.subtree(prefix)?.add(before, theirs, None, None), Err(Error::Usage { .. })), "{prefix}");
    }
    assert!(matches!(app.subtree(""), Err(Error::RootPath)));
    assert!(matches!(pull(&app, &lib, false), Err(Error::Usage { .. })), "no such directory");
    add(&app, &lib, false);
    assert!(matches!(app.subtree("vendor")?.add(head(&app), theirs, None, None), Err(Error::Usage { .. })));
    // Both sides change one value.
    set(&app, "vendor/lib/code", "ours");
    set(&lib, "code", "theirs");
    let heads = (head(&app), head(&lib));
    for squash in [false, true] {
        let Pulled::Conflicts(conflicts) = pull(&app, &lib, squash)? else { panic!("a conflict") };
        assert_eq!(conflicts.iter().map(|one| one.path.to_string()).collect::<Vec<_>>(), ["code"]);
    }
    assert!(matches!(push(&app, &lib), Pushed::Behind(_)));
    assert_eq!((head(&app), head(&lib)), heads);
    let force = PushOptions::default().force(true);
    let forced = app.subtree("vendor/lib")?.push(head(&app), &lib, "main", force)?;
    assert!(matches!(forced, Pushed::Moved { .. }) && same(&app, &lib));
    // A directory that was made here has nothing in common with a repository elsewhere.
    set(&app, "own/a", "1");
    let own = app.subtree("own")?;
    assert!(matches!(own.pull(head(&app), theirs, None, None), Err(Error::Usage { .. })));
    assert!(matches!(own.pull(head(&app), theirs, Some(&git_info(b"")), None), Err(Error::Usage { .. })));
    Ok(())
}

#[test]
fn squashed_commits_that_are_not_here_are_brought() -> Outcome {
    let (app, lib) = two(memory)?;
    add(&app, &lib, true);
    set(&app, "vendor/lib/ours", "1");
    // As after a clone: the squashed commit is here, what it stands for is not.
    let clone = memory();
    clone.copy_objects(&app, &[head(&app)])?;
    let at = CommitId::from(head(&app).oid());
    clone.compare_and_set("refs/heads/main", None, Some(RefTarget::Object(at.into())), Default::default())?;
    let subtree = clone.subtree("vendor/lib")?;
    let squashed = head(&lib).oid();
    assert!(matches!(subtree.split(at, None, None), Err(Error::Missing { oid, .. }) if oid == squashed));
    assert!(matches!(push(&clone, &lib), Pushed::Moved { .. }));
    assert!(same(&clone, &lib));
    // It is known what was joined, wherever that is.
    set(&lib, "code", "5");
    pulled(&clone, &lib, true);
    Ok(())
}

#[test]
fn histories_that_crossed_each_other_bring_nothing_back_silently() -> Outcome {
    crossed(Some("base"))?;
    crossed(None)
}

/// `before`: what there was before one side changed it, and the other takes it back to.
fn crossed(before: Option<&str>) -> Outcome {
    let (app, lib) = two(memory)?;
    add(&app, &lib, false);
    let base = set(&lib, if before.is_some() { "code" } else { "beside" }, "base");
    pulled(&app, &lib, false);
    // Each takes in what the other did before: two common ancestors, of which none leads to the other.
    let ours = set(&app, "vendor/lib/code", "changed");
    let split = app.subtree("vendor/lib")?.split(ours, None, None)?.ok_or("a split")?;
    let theirs = set(&lib, "other", "theirs");
    lib.copy_objects(&app, &[split.head])?;
    let mut crossed = lib.checkout(theirs)?;
    crossed.set("code", "changed\n")?;
    let info = git_info(b"crossed\n");
    lib.branch("main")?.commit_with_parents(&mut crossed, &[theirs, split.head.oid().into()], &info)?;
    app.copy_objects(&lib, &[theirs])?;
    match app.subtree("vendor/lib")?.pull(ours, theirs.oid().into(), None, None)? {
        Pulled::Joined(joined) => commit(&app, *joined),
        other => panic!("{other:?}"),
    };
    // They take the change back; ours did not touch it after.
    match before {
        Some(before) => _ = set(&lib, "code", before),
        None => {
            let mut tree = lib.checkout(head(&lib))?;
            tree.remove("code")?;
            lib.branch("main")?.commit(&mut tree, &git_info(b"gone\n"))?;
        }
    }
    let status = app.subtree("vendor/lib")?.split(head(&app), None, None)?.ok_or("a split")?;
    app.copy_objects(&lib, &[head(&lib)])?;
    assert_eq!(app.merge_bases(status.head, head(&lib).oid().into())?.len(), 2);
    let Pulled::Conflicts(conflicts) = pull(&app, &lib, false)? else { panic!("bases that disagree are a conflict") };
    assert_eq!(conflicts.iter().map(|one| one.path.to_string()).collect::<Vec<_>>(), ["code"]);
    assert!(lib.is_ancestor(base, head(&lib))?);
    Ok(())
}

#[test]
fn the_other_history_is_told_apart() -> Outcome {
    let (app, lib) = two(memory)?;
    let before = head(&app);
    // Theirs has a directory of the prefix's name, which does not concern ours.
    set(&lib, "vendor/lib/trap", "1");
    add(&app, &lib, false);
    let theirs = set(&lib, "vendor/lib/trap", "2");
    pulled(&app, &lib, false);
    let ours = set(&app, "vendor/lib/ours", "1");
    let subtree = app.subtree("vendor/lib")?;
    let split = subtree.split(ours, None, None)?.ok_or("a split")?;
    assert_eq!(app.read_commit(split.head)?.parents.len(), 1);
    assert!(app.is_ancestor(CommitId::from(theirs.oid()), split.head)?);
    assert_eq!(app.merge_bases(split.head, CommitId::from(theirs.oid()))?, [theirs]);
    // A line that began before the subtree was added, and joins later, has nothing to do with it.
    let mut topic = app.checkout(before)?;
    topic.set("topic", "1")?;
    let topic = app.commit_tree(&mut topic, &[before], &git_info(b"topic\n"))?;
    let mut merged = app.checkout(ours)?;
    merged.set("topic", "1")?;
    let merged = app.commit_tree(&mut merged, &[ours, topic], &git_info(b"merge topic\n"))?;
    let again = subtree.split(merged, None, None)?.ok_or("a split")?;
    assert_eq!((again.head, again.written), (split.head, 0));
    // One of ours whose message quotes a squashed commit's is still ours, whether or not that one is here.
    for quoted in [theirs.oid().to_string(), "7".repeat(40), "77".to_owned()] {
        let message = format!("Quote\n\ngit-subtree-dir: vendor/lib\ngit-subtree-split: {quoted}\n");
        let mut tree = app.checkout(merged)?;
        tree.set("vendor/lib/quoted", "1")?;
        let quoting = app.commit_tree(&mut tree, &[merged], &git_info(message.as_bytes()))?;
        let split = subtree.split(quoting, None, None)?.ok_or("a split")?;
        assert_eq!(app.read_commit(split.head)?.parents, [again.head], "{quoted}");
        assert!(app.checkout(split.head)?.contains("quoted")?);
    }
    Ok(())
}
