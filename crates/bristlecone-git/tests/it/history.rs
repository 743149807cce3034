//! Histories whose objects are not what their ids say.

use std::{collections::BTreeMap, ffi::OsStr, os::unix::ffi::OsStrExt as _, sync::Arc};

use bristlecone::{
    Backend, Batch, DiskOptions, Durability, Error, Expected, Format, Kind, MemoryBackend, Native, ObjRef, Oid,
    RefMove, RefTarget, Repo, SweepLimits,
    core::git::{Algorithm, Git},
    disk::DiskBackend,
    engine::FormatTag,
};
use bristlecone_git::{
    backend::GitOptions,
    history::{
        ExportOptions, ImportOptions, ImportReport, Repository, StoreFormat, TransferError, export, import, move_refs,
    },
};
use bristlecone_needs::needs;
use bristlecone_testkit::{
    generate::Rng,
    git::Git as RealGit,
    hooked::{Hooked, Moment},
    sim::SimStorage,
};

pub(crate) const FORMATS: [StoreFormat; 2] =
    [StoreFormat::Git(Git::new(Algorithm::Sha1)), StoreFormat::Native(Native::new())];

fn imported(git: &RealGit, store: StoreFormat, skip_missing: bool) -> Result<ImportReport, TransferError> {
    let backend: Arc<dyn Backend> = Arc::new(MemoryBackend::new());
    let options = ImportOptions::default().skip_missing(skip_missing);
    let done = import(&Repository::open(git.dir())?, store, &backend, &options, &mut |_| {});
    if done.is_err() {
        assert!(backend.list_refs("refs/").unwrap().is_empty());
    }
    done
}

pub(crate) fn file_of(git: &RealGit, oid: &str) -> std::path::PathBuf {
    git.dir().join(".git/objects").join(&oid[..2]).join(&oid[2..])
}

/// A commit whose bytes are those of another one, which leads back to it.
#[needs(git)]
#[test]
fn a_commit_that_leads_to_itself_is_told_as_damaged() {
    for distance in [0, 1, 3] {
        let dir = tempfile::tempdir().unwrap();
        let git = RealGit::init(dir.path(), &[]);
        git.write("file", "first");
        let first = git.commit_all("first");
        git.run(&["branch", "before"]);
        let commits: Vec<String> = (0..5)
            .map(|n| {
                git.write("file", format!("{n}"));
                git.commit_all(&format!("number {n}"))
            })
            .collect();
        // Its parent is the commit itself, or a later one of which it is an ancestor.
        let (bad, bytes) = (&commits[0], &commits[distance + 1]);
        std::fs::remove_file(file_of(&git, bad)).unwrap();
        std::fs::copy(file_of(&git, bytes), file_of(&git, bad)).unwrap();
        for store in FORMATS {
            match imported(&git, store, false) {
                Err(TransferError::Missing(missing)) => {
                    assert_eq!(missing.oid.to_string(), *bad);
                    assert!(missing.damage.is_some(), "{missing}");
                }
                done => panic!("{distance} apart: {done:?}"),
            }
            let report = imported(&git, store, true).unwrap();
            assert_eq!(report.missing.iter().map(|missing| missing.oid.to_string()).collect::<Vec<_>>(), [&**bad]);
            assert_eq!(report.left_out.iter().map(|left| &*left.name).collect::<Vec<_>>(), ["refs/heads/main"]);
            assert_eq!(report.refs.iter().map(|moved| &*moved.name).collect::<Vec<_>>(), ["refs/heads/before"]);
            assert_eq!(report.counts.commits, 1, "{first} alone");
        }
    }
}

/// A Git that prunes takes the line of a shallow commit away before the commit itself, which it keeps for two weeks.
#[needs(git)]
#[test]
fn a_shallow_commit_that_git_has_given_up_does_not_count_as_deepened() {
    for store in FORMATS {
        let dir = tempfile::tempdir().unwrap();
        let git = RealGit::init(dir.path(), &[]);
        let (first, second) = (git.commit_all("first"), git.commit_all("second"));
        let line = dir.path().join(".git/shallow");
        std::fs::write(&line, format!("{second}\n")).unwrap();
        std::fs::remove_file(file_of(&git, &first)).unwrap();
        let backend: Arc<dyn Backend> = Arc::new(MemoryBackend::new());
        let import_all = || {
            let from = Repository::open(git.dir()).unwrap();
            import(&from, store, &backend, &ImportOptions::default(), &mut |_| {}).unwrap()
        };
        assert_eq!(import_all().shallow.len(), 1);
        git.run(&["checkout", "-q", "--orphan", "other"]);
        git.commit_all("third");
        git.run(&["branch", "-D", "main"]);
        std::fs::remove_file(&line).unwrap();
        assert_eq!((import_all().counts.commits, import_all().counts.commits), (1, 0));
        assert_eq!(backend.shallow().unwrap().len(), 1, "its parents are as absent as before");
    }
}

/// What one object names as a directory or a commit is a value elsewhere in the history.
#[needs(git)]
#[test]
fn an_object_that_is_named_as_what_it_is_not_is_told() {
    for named_by in ["commit", "tag", "tree"] {
        let dir = tempfile::tempdir().unwrap();
        let git = RealGit::init(dir.path(), &[]);
        git.write("file", "short");
        git.commit_all("first");
        let import_to = |store, backend: &Arc<dyn Backend>| {
            import(&Repository::open(git.dir())?, store, backend, &ImportOptions::default(), &mut |_| {})
        };
        let before = FORMATS.map(|store| {
            let backend: Arc<dyn Backend> = Arc::new(MemoryBackend::new());
            import_to(store, &backend).unwrap();
            (store, backend)
        });
        let value = git.hash_object("blob", b"short");
        let who = "A <a@example.org> 1700000000 +0000";
        let bad = match named_by {
            "commit" => {
                let raw = format!("tree {value}\nauthor {who}\ncommitter {who}\n\nbad\n");
                let bad = git.hash_object("commit", raw.as_bytes());
                let tree = git.text(&["rev-parse", "HEAD^{tree}"]);
                let head = git.text(&["rev-parse", "HEAD"]);
                git.text(&["commit-tree", tree.trim(), "-p", head.trim(), "-p", &bad, "-m", "merge"])
            }
            "tag" => {
                let raw = format!("object {value}\ntype tree\ntag bad\ntagger {who}\n\nbad\n");
                git.hash_object("tag", raw.as_bytes())
            }
            _ => {
                let raw = [&b"40000 dir\0"[..], &hex(&value), b"100644 file\0", &hex(&value)].concat();
                let tree = git.hash_object("tree", &raw);
                git.text(&["commit-tree", &tree, "-p", "HEAD", "-m", "bad"])
            }
        };
        let name = if named_by == "tag" { "refs/tags/bad" } else { "refs/heads/main" };
        std::fs::write(dir.path().join(".git").join(name), format!("{}\n", bad.trim())).unwrap();
        for store in FORMATS {
            match imported(&git, store, false) {
                Err(TransferError::Missing(missing)) => {
                    assert_eq!(missing.oid.to_string(), value, "{named_by}");
                    assert!(missing.damage.is_some(), "{named_by}: {missing}");
                }
                done => panic!("{named_by}: {done:?}"),
            }
            // What leads there is left out, or nothing is taken at all.
            if let Ok(report) = imported(&git, store, true) {
                assert!(report.left_out.iter().any(|left| left.name == name), "{named_by}: {report:?}");
            }
        }
        // A store that has the value takes it for nothing else either.
        for (store, backend) in before {
            match import_to(store, &backend) {
                Err(TransferError::Missing(missing)) => assert_eq!(missing.oid.to_string(), value, "{named_by}"),
                done => panic!("{named_by}: {done:?}"),
            }
        }
    }
}

pub(crate) fn hex(text: &str) -> Vec<u8> {
    text.parse::<Oid>().unwrap().as_bytes().to_vec()
}

/// Imports a history of which the store has a part that no ref leads to, while another process collects before each of the first
/// appends, without a grace; returns whether everything that refs lead to is there.
fn imported_beside_collections<F: Format + Copy>(git: &RealGit, store: StoreFormat, format: F) {
    let (disk, tag) =
        (SimStorage::new(), FormatTag { name: F::NAME.to_owned(), version: F::VERSION, options: format.options() });
    let options = DiskOptions::default().background(false).collect(false);
    let backend: Arc<dyn Backend> =
        Arc::new(DiskBackend::create(Arc::new(disk.clone()), tag, options.clone()).unwrap());
    let from = Repository::open(git.dir()).unwrap();
    let only = |name: &str| ImportOptions::default().refs(vec![name.to_owned()]);
    import(&from, store, &backend, &only("first"), &mut |_| {}).unwrap();
    let gone = RefMove { name: "refs/heads/first".to_owned(), expected: Expected::Any, to: None };
    backend.append(Batch::new(), &[gone], Durability::None).unwrap();
    let sweeps = move |moment| {
        if matches!(moment, Moment::Before(0..4)) {
            let other = DiskBackend::open(Arc::new(disk.clone()), None, options.clone(), false).unwrap();
            Repo::with_backend(format, Arc::new(other)).sweep(&[], &SweepLimits::default()).unwrap();
        }
    };
    let hooked: Arc<dyn Backend> = Arc::new(Hooked::new(backend.clone(), sweeps));
    import(&from, store, &hooked, &only("main"), &mut |_| {}).unwrap();
    let Some(RefTarget::Object(head)) = backend.get_ref("refs/heads/main").unwrap() else { panic!("no branch") };
    let (mut open, mut met) = (vec![(Kind::Commit, head.oid)], std::collections::HashSet::<Oid>::new());
    while let Some((kind, oid)) = open.pop() {
        if met.insert(oid) {
            let object = backend.read(&oid.into()).unwrap();
            let object = object.unwrap_or_else(|| panic!("{}: {kind:?} {oid} is missing", F::NAME));
            format.children(object.kind(), object.body(), &mut |kind, oid| open.push((kind, oid))).unwrap();
        }
    }
    assert!(met.len() > 40, "{}", met.len());
}

#[needs(git)]
#[test]
fn what_is_imported_is_whole_whatever_another_process_collects_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let git = RealGit::init(dir.path(), &[]);
    git.run(&["config", "core.compression", "0"]);
    let mut rng = Rng::stream(5, 5);
    for number in 0..10 {
        git.write(format!("first/{number}"), rng.bytes(1000));
    }
    git.commit_all("first");
    git.run(&["branch", "first"]);
    for number in 0..36 {
        git.write(format!("then/{number}"), rng.bytes(512 << 10));
    }
    git.commit_all("then");
    imported_beside_collections(&git, StoreFormat::Git(Git::new(Algorithm::Sha1)), Git::new(Algorithm::Sha1));
    imported_beside_collections(&git, StoreFormat::Native(Native::new()), Native::new());
}

#[needs(git)]
#[test]
fn a_tag_that_names_itself_keeps_no_import_busy_forever() {
    let dir = tempfile::tempdir().unwrap();
    let from = RealGit::init(dir.path().join("from"), &[]);
    from.commit_all("copied");
    from.run(&["branch", "-m", "copied"]);
    let to = RealGit::init(dir.path().join("to"), &[]);
    let own = "1".repeat(40);
    let raw = format!("object {own}\ntype tag\ntag loop\ntagger A <a@example.org> 1700000000 +0000\n\nloop\n");
    let tag = file_of(&to, &to.hash_object("tag", raw.as_bytes()));
    std::fs::create_dir_all(file_of(&to, &own).parent().unwrap()).unwrap();
    std::fs::copy(tag, file_of(&to, &own)).unwrap();
    std::fs::write(to.dir().join(".git/refs/tags/loop"), format!("{own}\n")).unwrap();
    let (_backend, repo) = crate::backend::open(to.dir(), GitOptions::default());
    let opened = Repository::open(from.dir()).unwrap();
    let report = import(&opened, FORMATS[0], repo.backend(), &ImportOptions::default(), &mut |_| {}).unwrap();
    assert_eq!(report.counts.commits, 1);
}

#[needs(git)]
#[test]
fn a_ref_that_has_no_place_beside_another_moves_none() {
    let dir = tempfile::tempdir().unwrap();
    let from = RealGit::init(dir.path().join("from"), &[]);
    from.commit_all("copied");
    from.run(&["branch", "-m", "a"]);
    from.run(&["branch", "b/c"]);
    let to = RealGit::init(dir.path().join("to"), &[]);
    to.commit_all("its own");
    to.run(&["branch", "b"]);
    let opened = Repository::open(from.dir()).unwrap();
    let backend: Arc<dyn Backend> = Arc::new(MemoryBackend::new());
    import(&opened, FORMATS[0], &backend, &ImportOptions::default(), &mut |_| {}).unwrap();
    let (_backend, repo) = crate::backend::open(to.dir(), GitOptions::default());
    let imported = import(&opened, FORMATS[0], repo.backend(), &ImportOptions::default(), &mut |_| {}).map(drop);
    let exported = export(FORMATS[0], &backend, to.dir(), &ExportOptions::default(), &mut |_| {}).map(drop);
    for done in [imported, exported] {
        let Err(TransferError::Store(Error::RefClash { name, other })) = done else { panic!("{done:?}") };
        assert_eq!((&*name, &*other), ("refs/heads/b/c", "refs/heads/b"));
        assert!(!to.attempt(&["rev-parse", "--verify", "-q", "refs/heads/a"]).0);
    }
}

/// One folder would have both, in the letters of the first.
#[needs(git)]
#[test]
fn refs_whose_folders_differ_by_case_alone_move_none_where_files_ignore_it() {
    let dir = tempfile::tempdir().unwrap();
    let from = RealGit::init(dir.path().join("from"), &[]);
    from.commit_all("copied");
    for name in ["Fix/x", "a", "fix/y"] {
        from.run(&["branch", name]);
        // Also where the files of this test are on a system that ignores case.
        from.run(&["pack-refs", "--all"]);
    }
    let opened = Repository::open(from.dir()).unwrap();
    let backend: Arc<dyn Backend> = Arc::new(MemoryBackend::new());
    import(&opened, FORMATS[0], &backend, &ImportOptions::default(), &mut |_| {}).unwrap();
    for ignore_case in [false, true] {
        let to = RealGit::init(dir.path().join(format!("to-{ignore_case}")), &[]);
        to.commit_all("its own");
        to.run(&["config", "core.ignoreCase", &ignore_case.to_string()]);
        let names = ["Fix/x", "a", "fix/y"].map(|name| format!("refs/heads/{name}"));
        let exported = ExportOptions::default().refs(names.to_vec());
        let done = export(FORMATS[0], &backend, to.dir(), &exported, &mut |_| {}).map(drop);
        let there = to.attempt(&["rev-parse", "--verify", "-q", "refs/heads/a"]).0;
        match done {
            Err(TransferError::Store(Error::RefClash { name, other })) => {
                assert_eq!((ignore_case, there), (true, false));
                assert_eq!((&*name, &*other), ("refs/heads/Fix/x", "refs/heads/fix"));
            }
            done => assert!(done.is_ok() && there && !ignore_case, "{done:?}"),
        }
    }
}

/// A store may have a name and one below it, and longer ones than a file system takes.
#[needs(git)]
#[test]
fn a_ref_that_no_git_repository_can_have_moves_none() {
    let dir = tempfile::tempdir().unwrap();
    let to = RealGit::init(dir.path(), &[]);
    let head: Oid = to.commit_all("its own").parse().unwrap();
    let (_backend, repo) = crate::backend::open(to.dir(), GitOptions::default());
    let long = "x".repeat(251);
    let own = Repo::with_backend(Native::new(), Arc::new(MemoryBackend::new()));
    for name in ["b", &long] {
        let info = crate::backend::info(name, Durability::None);
        own.branch(name).unwrap().edit(&info, |tree| tree.set("file", name)).unwrap();
    }
    let moved = |name: &str| {
        let names = ["refs/heads/b".to_owned(), format!("refs/heads/{name}")];
        let wanted = BTreeMap::from(names.map(|name| (name, RefTarget::Object(ObjRef::from(head)))));
        move_refs(&repo, &wanted, false, None).map(drop)
    };
    let exported = export(FORMATS[1], own.backend(), to.dir(), &ExportOptions::default(), &mut |_| {}).map(drop);
    for done in [moved("b/c"), moved(&long), exported] {
        let refused = matches!(done, Err(TransferError::Store(Error::RefClash { .. } | Error::RefName { .. })));
        assert!(refused, "{done:?}");
    }
    assert!(!to.attempt(&["rev-parse", "--verify", "-q", "refs/heads/b"]).0);
}

#[needs(git)]
#[test]
fn an_import_tells_of_refs_whose_names_are_no_text() {
    let dir = tempfile::tempdir().unwrap();
    let from = RealGit::init(dir.path(), &[]);
    let head = from.commit_all("one");
    let loose = OsStr::from_bytes(b".git/refs/heads/deep\xff/caf\xe9");
    from.write(loose, format!("{head}\n"));
    from.write(OsStr::from_bytes(b".git/refs/heads/caf\xe9.lock"), "");
    let packed = [format!("{head} refs/tags/caf").as_bytes(), b"\xe9\n"].concat();
    from.write(".git/packed-refs", packed);
    // As a clone writes it. Git does not look at a packed value of one that has a file.
    from.write(".git/refs/remotes/origin/HEAD", b"ref: refs/remotes/origin/caf\xe9\n");
    let (_backend, repo) = crate::backend::open(from.dir(), GitOptions::default());
    assert_eq!(repo.backend().list_refs("refs/").unwrap().into_keys().collect::<Vec<_>>(), ["refs/heads/main"]);
    let left_out = [&b"refs/heads/deep\xff/caf\xe9"[..], b"refs/remotes/origin/HEAD", b"refs/tags/caf\xe9"];
    let heads = [&b"ref: refs/heads/main\n"[..], b"ref: refs/heads/caf\xe9\n"];
    for (store, head) in FORMATS.into_iter().flat_map(|store| heads.map(|head| (store, head))) {
        from.write(".git/HEAD", head);
        let report = imported(&from, store, false).unwrap();
        assert_eq!(report.refs.len(), 1, "{report:?}");
        assert_eq!(report.unnamed, left_out);
    }
    let backend: Arc<dyn Backend> = Arc::new(MemoryBackend::new());
    let options = ImportOptions::default().refs(vec!["refs/heads/*".to_owned()]);
    let opened = Repository::open(from.dir()).unwrap();
    let report = import(&opened, FORMATS[0], &backend, &options, &mut |_| {}).unwrap();
    assert_eq!(report.unnamed, [b"refs/heads/deep\xff/caf\xe9"]);
}

/// Loose objects are what a power cut leaves empty, and what a Git that prunes drops.
#[needs(git)]
#[test]
fn an_export_builds_on_nothing_that_is_damaged_or_to_which_no_ref_leads() {
    let long = "long".repeat(1000);
    for (store, reached) in FORMATS.into_iter().flat_map(|store| [(store, false), (store, true)]) {
        let dir = tempfile::tempdir().unwrap();
        let from = RealGit::init(dir.path().join("from"), &[]);
        from.write("file", &long);
        from.write("other", "short");
        from.commit_all("copied");
        from.run(&["branch", "-m", "copied"]);
        from.run(&["tag", "value", "HEAD:other"]);
        from.run(&["tag", "dir", "HEAD^{tree}"]);
        let backend: Arc<dyn Backend> = Arc::new(MemoryBackend::new());
        let opened = Repository::open(from.dir()).unwrap();
        import(&opened, store, &backend, &ImportOptions::default(), &mut |_| {}).unwrap();
        let to = RealGit::init(dir.path().join("to"), &[]);
        if reached {
            to.write("file", &long);
        }
        to.commit_all("its own");
        let file = file_of(&to, &to.hash_object("blob", long.as_bytes()));
        if reached {
            std::fs::remove_file(&file).unwrap();
            std::fs::write(&file, "").unwrap();
        }
        export(store, &backend, to.dir(), &ExportOptions::default(), &mut |_| {}).unwrap();
        std::fs::remove_file(&file).unwrap();
        to.fsck();
        assert_eq!(to.text(&["cat-file", "-p", "copied:file"]), long);
        let again = export(store, &backend, to.dir(), &ExportOptions::default(), &mut |_| {}).unwrap();
        assert_eq!((again.packs, again.counts.commits), (0, 0), "{store:?}");
    }
}

/// The head of an entry does not show what has decayed behind it.
#[needs(git)]
#[test]
fn an_export_writes_again_what_is_damaged_in_a_pack() {
    // A pack of up to 64 KiB is checked as a whole.
    let long = Rng::stream(1, 0).bytes(200_000);
    for store in FORMATS {
        let dir = tempfile::tempdir().unwrap();
        let from = RealGit::init(dir.path().join("from"), &[]);
        from.write("file", &long);
        from.write("other", "short");
        from.commit_all("copied");
        from.run(&["branch", "-m", "copied"]);
        let backend: Arc<dyn Backend> = Arc::new(MemoryBackend::new());
        let opened = Repository::open(from.dir()).unwrap();
        import(&opened, store, &backend, &ImportOptions::default(), &mut |_| {}).unwrap();
        let to = RealGit::init(dir.path().join("to"), &[]);
        to.write("file", &long);
        to.commit_all("its own");
        to.run(&["repack", "-adq"]);
        let files = std::fs::read_dir(to.dir().join(".git/objects/pack")).unwrap();
        let mut paths = files.map(|file| file.unwrap().path());
        let pack = paths.find(|path| path.extension().is_some_and(|ending| ending == "pack")).unwrap();
        let mut bytes = std::fs::read(&pack).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::remove_file(&pack).unwrap();
        std::fs::write(&pack, bytes).unwrap();
        export(store, &backend, to.dir(), &ExportOptions::default(), &mut |_| {}).unwrap();
        for ending in ["idx", "pack"] {
            std::fs::remove_file(pack.with_extension(ending)).unwrap();
        }
        assert!(to.run(&["cat-file", "blob", "copied:file"]) == long, "{store:?}");
    }
}

/// Old repositories have them. A store of Git's format gives back what it got.
#[needs(git)]
#[test]
fn names_that_git_refuses_come_back_from_stores_of_its_own_format_alone() {
    let dir = tempfile::tempdir().unwrap();
    let from = RealGit::init(dir.path().join("from"), &[]);
    from.commit_all("usual");
    let link = from.hash_object("blob", b"elsewhere");
    let tree = from.feed(&["mktree"], format!("120000 blob {link}\t.gitmodules\n").as_bytes());
    let odd = from.text(&["commit-tree", String::from_utf8(tree).unwrap().trim_end(), "-m", "odd"]);
    from.run(&["update-ref", "refs/heads/odd", &odd]);
    for (number, store) in FORMATS.into_iter().enumerate() {
        let backend: Arc<dyn Backend> = Arc::new(MemoryBackend::new());
        let opened = Repository::open(from.dir()).unwrap();
        import(&opened, store, &backend, &ImportOptions::default(), &mut |_| {}).unwrap();
        let to = dir.path().join(number.to_string());
        match export(store, &backend, &to, &ExportOptions::default(), &mut |_| {}) {
            Ok(_) => assert_eq!(RealGit::new(&to).text(&["rev-parse", "odd"]), odd),
            Err(TransferError::Refused { what, reason }) => {
                assert!(matches!(store, StoreFormat::Native(_)) && what.contains(".gitmodules"), "{what}: {reason}");
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// A store of the format native walks all of its history in each export, and what its commits hold is there.
#[needs(git)]
#[test]
fn a_second_export_writes_nothing_of_older_commits() {
    let repo = Repo::with_backend(Native::new(), Arc::new(MemoryBackend::new()));
    let main = repo.branch("main").unwrap();
    for number in 0..4 {
        let info = crate::backend::info(&number.to_string(), Durability::None);
        main.edit(&info, |tree| tree.set("dir/file", format!("{number}").repeat(1000))).unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let to = RealGit::init(dir.path(), &[]);
    to.commit_all("its own");
    to.run(&["branch", "-m", "own"]);
    let export_all = || {
        let store = StoreFormat::Native(Native::new());
        export(store, repo.backend(), to.dir(), &ExportOptions::default(), &mut |_| {}).unwrap()
    };
    assert_eq!((export_all().counts.commits, export_all().packs), (4, 0));
    to.fsck();
}
