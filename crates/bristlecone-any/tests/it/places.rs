//! Finding, opening and making stores.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Barrier},
    thread,
};

use bristlecone::{
    Error as StoreError,
    core::git::Algorithm,
    disk::{DiskBackend, DiskOptions, FormatTag},
    engine::StoreLock,
    fs::FsOptions,
    storage::RealStorage,
};
use bristlecone_any::{
    AnyBackend, AnyFormat, AnyRepo, Error, ErrorKind, FIRST_BRANCH, Found, Head, OpenOptions, Place, STORE_DIR,
    check::Report, check_new_branch,
};
use bristlecone_needs::needs;
use bristlecone_testkit::git::Git;

use super::{commit, value};

fn url(scheme: &str, path: &Path) -> String {
    format!("{scheme}://{}", bristlecone::escape(path.as_os_str().as_encoded_bytes()))
}

/// All files below a folder with their bytes.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => all.extend(files(&entry.path())),
            false => _ = all.insert(entry.path(), fs::read(entry.path()).unwrap()),
        }
    }
    all
}

#[test]
fn a_store_is_opened_by_path_and_by_url() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("100% mine");
    let made = AnyRepo::create(&place, AnyFormat::default()).unwrap();
    commit(&made, "main", &[("a", "1")]);
    made.close().unwrap();
    drop(made);
    let inner = place.join(STORE_DIR);
    let (place_url, inner_url) = (url("file", &place), url("disk+file", &inner));
    assert!(place_url.ends_with("/100%25 mine"), "{place_url}");
    let places = [
        Place::from(&*place),
        Place::from(inner.clone()),
        Place::parse(&place_url).unwrap(),
        Place::parse(&inner_url).unwrap(),
        Place::parse(&place_url.replace("file:", "FILE:").replace(' ', "%20")).unwrap(),
    ];
    for place in places {
        let repo = AnyRepo::open(place.clone()).unwrap();
        assert_eq!(value(&repo, "main", "a").as_deref(), Some(&b"1"[..]), "{place:?}");
        assert_eq!((repo.dir(), repo.backend().name()), (Some(&*inner), "disk"), "{place:?}");
        assert!(repo.disk().is_some() && repo.git().is_none() && repo.notes().is_empty());
    }
    let by_text = AnyRepo::open(&*place_url).unwrap();
    assert_eq!(value(&by_text, "main", "a").as_deref(), Some(&b"1"[..]));
}

#[test]
fn what_is_not_there_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let gone = dir.path().join("gone");
    for place in [Place::Folder(gone.clone()), Place::Disk(gone.clone()), Place::Git(gone.clone())] {
        let error = AnyRepo::open(place).unwrap_err();
        assert!(matches!(&error, Error::NoStore { dir, or_above: false } if *dir == gone), "{error:?}");
        assert_eq!((error.kind(), error.to_string()), (ErrorKind::NotFound, format!("no store in {}", gone.display())));
    }
    assert!(!gone.exists(), "looking makes nothing");
    // A folder of the right name with nothing in it.
    fs::create_dir(dir.path().join(STORE_DIR)).unwrap();
    let error = AnyRepo::open(dir.path()).unwrap_err();
    assert!(matches!(error, Error::Store(StoreError::NoStore { .. })), "{error:?}");
}

#[test]
fn urls_that_name_no_store_are_refused_with_those_that_do() {
    for text in ["lsm:///srv/data", "s3://bucket/data"] {
        let error = Place::parse(text).unwrap_err();
        let shown = error.to_string();
        let known = ["memory:", "file://", "disk+file://", "fs+file://", "git+file://", "lmdb+file://", "lsm+file://"];
        assert!(matches!(error, Error::Url { .. }) && known.iter().all(|known| shown.contains(known)), "{shown}");
    }
    for text in ["file://host/srv", "git+file://", "file:///a%2", "file:///a%zz/b"] {
        let error = Place::parse(text).unwrap_err();
        assert!(matches!(&error, Error::Url { url, .. } if url == text), "{error:?}");
        assert_eq!(error.kind(), ErrorKind::Mistake);
    }
    for text in ["data", "/data", "./file:///x", "memory", "a:b", "", "1://x", "://x"] {
        assert_eq!(Place::parse(text).unwrap(), Place::Folder(text.into()), "{text}");
    }
    assert_eq!(Place::parse("file:///").unwrap(), Place::Folder("/".into()));
    assert_eq!(Place::from(Path::new("file:///x")), Place::Folder("file:///x".into()), "a path is no url");
}

#[test]
fn stores_of_every_format_open_as_what_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let short = AnyFormat::default().set_option("inline", "7").unwrap().unwrap();
    let standard = AnyFormat::ALL.iter().map(|(name, _)| AnyFormat::standard(name).unwrap());
    for (n, format) in standard.chain([short, AnyFormat::git(Algorithm::Sha256)]).enumerate() {
        let place = dir.path().join(n.to_string());
        let made = AnyRepo::create(&place, format.clone()).unwrap();
        let head = commit(&made, "main", &[("fruit/apple", "red")]);
        made.close().unwrap();
        drop(made);
        let repo = AnyRepo::open_read_only(&place).unwrap();
        assert_eq!(repo.format(), &format);
        assert_eq!(repo.branch("main").unwrap().head().unwrap().map(|at| at.oid()), Some(head.oid));
        assert_eq!(value(&repo, "main", "fruit/apple").as_deref(), Some(&b"red"[..]), "{}", format.name());
    }
}

/// The backends that keep folders of their own.
const BACKENDS: [Kept; 4] = [("disk", Place::Disk), ("fs", Place::Fs), ("lmdb", Place::Lmdb), ("lsm", Place::Lsm)];
/// A backend with what makes a place of a folder.
type Kept = (&'static str, fn(PathBuf) -> Place);

#[test]
fn stores_of_every_format_live_in_every_backend_and_are_recognised() {
    let dir = tempfile::tempdir().unwrap();
    for (format, _) in AnyFormat::ALL {
        let mut roots = Vec::new();
        for (backend, place) in BACKENDS {
            let top = dir.path().join(format!("{format}-{backend}"));
            let inner = top.join(STORE_DIR);
            let options = OpenOptions::new().format(AnyFormat::standard(format).unwrap());
            let made = options.create(place(inner.clone())).unwrap();
            commit(&made, "main", &[("fruit/apple", "red")]);
            // Commits have the time at which they were made.
            roots.push(made.branch("main").unwrap().tree().unwrap().root().unwrap());
            made.close().unwrap();
            drop(made);
            for found in [Place::from(&*top), Place::from(&*inner), place(inner.clone())] {
                let repo = AnyRepo::open(found.clone()).unwrap();
                assert_eq!((repo.backend().name(), repo.format().name()), (backend, *format), "{found:?}");
                assert_eq!(value(&repo, "main", "fruit/apple").as_deref(), Some(&b"red"[..]), "{found:?}");
                repo.close().unwrap();
            }
            assert_eq!(AnyRepo::find(&top).unwrap().backend().name(), backend);
            let by_url = AnyRepo::open_read_only(&*url(&format!("{backend}+file"), &inner)).unwrap();
            assert_eq!(value(&by_url, "main", "fruit/apple").as_deref(), Some(&b"red"[..]), "{backend}");
            let again = options.create(place(inner.clone())).unwrap_err();
            assert!(matches!(again, Error::Store(StoreError::Exists { .. })), "{backend}: {again:?}");
        }
        roots.dedup();
        assert_eq!(roots.len(), 1, "the same root in every backend: {format}");
    }
}

#[test]
fn a_folder_of_another_backend_is_named_and_stays() {
    let dir = tempfile::tempdir().unwrap();
    for (backend, place) in BACKENDS {
        let inner = dir.path().join(backend);
        AnyRepo::create(place(inner.clone()), AnyFormat::default()).unwrap().close().unwrap();
        let before = files(&inner);
        for (other, elsewhere) in BACKENDS.iter().filter(|(other, _)| *other != backend) {
            let error = AnyRepo::open(elsewhere(inner.clone())).unwrap_err();
            let Error::Store(StoreError::Incompatible { found, expected, .. }) = &error else { panic!("{error:?}") };
            assert!(found.contains(backend) && expected.contains(other), "{error}");
            let error = OpenOptions::new().create(elsewhere(inner.clone())).unwrap_err();
            assert!(matches!(error, Error::Store(StoreError::Exists { .. })), "{error:?}");
            assert_eq!(files(&inner), before, "{backend} as {other}");
        }
    }
}

#[test]
fn a_store_that_lost_its_header_is_told_whatever_its_backend_and_nothing_is_made_over_it() {
    let dir = tempfile::tempdir().unwrap();
    for (backend, place) in BACKENDS {
        let top = dir.path().join(backend);
        let inner = top.join(STORE_DIR);
        let made = AnyRepo::create(place(inner.clone()), AnyFormat::default()).unwrap();
        commit(&made, "main", &[("a", "1")]);
        made.close().unwrap();
        drop(made);
        let header = fs::read(inner.join("store")).unwrap();
        fs::remove_file(inner.join("store")).unwrap();
        let before = files(&inner);
        let lost =
            |error: Error| assert!(matches!(error, Error::Store(StoreError::Lost { .. })), "{backend}: {error:?}");
        lost(AnyRepo::open(&*top).unwrap_err());
        lost(AnyRepo::find(&top).unwrap_err());
        lost(AnyRepo::open_or_create(&*top).unwrap_err());
        for (other, elsewhere) in BACKENDS.iter().filter(|(other, _)| backend != "disk" || *other == "disk") {
            let error = OpenOptions::new().create(elsewhere(inner.clone())).unwrap_err();
            assert!(matches!(error, Error::Store(StoreError::Lost { .. })), "{backend} as {other}: {error:?}");
        }
        assert_eq!(files(&inner), before, "{backend}");
        fs::write(inner.join("store"), header).unwrap();
        assert_eq!(value(&AnyRepo::open(&*top).unwrap(), "main", "a").as_deref(), Some(&b"1"[..]), "{backend}");
    }
}

#[test]
fn a_format_that_is_not_known_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    for (name, version, expects) in [("cuneiform", 1, "native"), ("native", 99, "native version 1")] {
        let inner = dir.path().join(name).join(STORE_DIR);
        let tag = FormatTag { name: name.to_owned(), version, options: String::new() };
        drop(DiskBackend::create(Arc::new(RealStorage::new(&inner)), tag, DiskOptions::default()).unwrap());
        let error = AnyRepo::open(dir.path().join(name)).unwrap_err();
        let Error::Store(StoreError::Incompatible { file, found, expected }) = &error else { panic!("{error:?}") };
        assert_eq!(*file, inner.display().to_string());
        assert!(found.contains(name) && found.contains(&version.to_string()) && expected.contains(expects), "{error}");
        // What is there stays, whichever backend is asked for.
        let again = AnyRepo::open_or_create(dir.path().join(name)).unwrap_err();
        assert!(matches!(again, Error::Store(StoreError::Incompatible { .. })), "{again:?}");
    }
}

#[test]
fn of_many_who_open_or_create_at_a_time_one_creates() {
    const THREADS: usize = 8;
    let dir = tempfile::tempdir().unwrap();
    for round in 0..10 {
        let (place, barrier) = (dir.path().join(round.to_string()), Barrier::new(THREADS));
        thread::scope(|scope| {
            for n in 0..THREADS {
                let (place, barrier) = (&place, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    let repo = AnyRepo::open_or_create(place).unwrap();
                    commit(&repo, &format!("b{n}"), &[("mine", "1")]);
                    repo.close().unwrap();
                });
            }
        });
        let again = AnyRepo::open_or_create(&place).unwrap();
        assert_eq!(again.branches().unwrap().len(), THREADS, "every one of them wrote to the same store");
    }
}

#[test]
fn nothing_is_made_over_a_store() {
    let dir = tempfile::tempdir().unwrap();
    let made = AnyRepo::create(dir.path(), AnyFormat::default()).unwrap();
    commit(&made, "main", &[("a", "1")]);
    let other = OpenOptions::new().format(AnyFormat::git(Algorithm::Sha1));
    for place in [Place::from(dir.path()), Place::Disk(dir.path().join(STORE_DIR))] {
        let error = other.create(place).unwrap_err();
        assert!(matches!(error, Error::Store(StoreError::Exists { .. })), "{error:?}");
    }
    let opened = other.open_or_create(dir.path()).unwrap();
    assert_eq!(opened.format().name(), "native", "what is there keeps its format");
    assert_eq!(value(&opened, "main", "a").as_deref(), Some(&b"1"[..]));
}

#[test]
fn reading_only_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let made = AnyRepo::create(dir.path(), AnyFormat::default()).unwrap();
    commit(&made, "main", &[("a", "1")]);
    made.close().unwrap();
    drop(made);
    let git = AnyRepo::create(Place::Git(dir.path().join("git")), AnyFormat::git(Algorithm::Sha1)).unwrap();
    drop(git);
    let before = files(dir.path());
    let places = [Place::from(dir.path()), Place::Git(dir.path().join("git")), Place::Memory];
    for place in places {
        let repo = AnyRepo::open_read_only(place.clone()).unwrap();
        let main = repo.branch("main").unwrap();
        let mut tree = main.tree().unwrap();
        tree.set("a", "2").unwrap();
        let refused = main.commit(&mut tree, &bristlecone::Info::message("no"));
        assert!(matches!(refused, Err(StoreError::ReadOnly)), "{place:?}: {refused:?}");
    }
    let error = OpenOptions::new().read_only(true).open_or_create(dir.path().join("new")).unwrap_err();
    assert!(matches!(error, Error::Store(StoreError::ReadOnly)), "{error:?}");
    assert_eq!(files(dir.path()), before);
    assert!(!dir.path().join("new").exists());
}

#[test]
fn options_of_one_file_an_object_are_taken_as_those_of_others_are() {
    let dir = tempfile::tempdir().unwrap();
    let options = OpenOptions::new().fs(FsOptions::default().lock_wait_ms(20));
    let repo = options.create(Place::Fs(dir.path().to_owned())).unwrap();
    let lock = StoreLock::new(Arc::new(RealStorage::new(dir.path())), "lock", 1000);
    let held = lock.take().unwrap();
    let main = repo.branch("main").unwrap();
    let refused = main.edit(&bristlecone::Info::message("no"), |tree| tree.set("a", "1"));
    let Err(StoreError::Locked { waited_ms, .. }) = refused else { panic!("{refused:?}") };
    assert!((20..10_000).contains(&waited_ms), "{waited_ms} ms");
    drop(held);
    commit(&repo, "main", &[("a", "1")]);
    assert_eq!(value(&repo, "main", "a").as_deref(), Some(&b"1"[..]));
}

#[test]
fn when_grouped_commits_are_synced_is_said_for_whichever_backend() {
    let syncs = |options: OpenOptions| {
        let dir = tempfile::tempdir().unwrap();
        let repo = options.create(Place::Lmdb(dir.path().to_owned())).unwrap();
        let before = repo.backend().stats().syncs;
        let info = bristlecone::Info::message("grouped").durability(bristlecone::Durability::Grouped);
        repo.branch("main").unwrap().edit(&info, |tree| tree.set("a", "1")).unwrap();
        let after = repo.backend().stats().syncs;
        repo.close().unwrap();
        after - before
    };
    let late = OpenOptions::new().grouped_ms(600_000);
    assert_eq!(syncs(late.clone()), 1, "a thread syncs later what makes the data count");
    assert_eq!(syncs(late.background(false)), 2, "no thread syncs later");
}

#[test]
fn memory_is_a_new_store_each_time() {
    let git = OpenOptions::new().format(AnyFormat::git(Algorithm::Sha256));
    let (one, other) = (AnyRepo::open("memory:").unwrap(), git.open_or_create("memory:").unwrap());
    commit(&one, "main", &[("a", "1")]);
    assert_eq!((value(&one, "main", "a"), value(&other, "main", "a")), (Some(b"1".to_vec()), None));
    assert_eq!((one.dir(), one.backend().name()), (None, "memory"));
    assert!(matches!(other.any_backend(), AnyBackend::Memory(_)));
    assert_eq!(other.format().name(), "git");
    assert_eq!(one.clone().branches().unwrap(), ["main"], "clones share everything");
    one.close().unwrap();
}

#[test]
fn a_header_that_is_damaged_is_found_and_told() {
    let dir = tempfile::tempdir().unwrap();
    commit(&AnyRepo::create(dir.path(), AnyFormat::default()).unwrap(), "main", &[("a", "1")]);
    let (store, copy) = (dir.path().join(".bristlecone/store"), dir.path().join(".bristlecone/segments/store.copy"));
    let mut header = fs::read(&store).unwrap();
    header[9] ^= 4;
    fs::write(&store, header).unwrap();
    let error = AnyRepo::open(dir.path()).unwrap_err();
    let report = Report::unopened(&error).unwrap_or_else(|| panic!("{error:?}"));
    let place = report.findings.first().unwrap().place.clone().unwrap();
    assert!(!report.opened && place.0.ends_with("store"), "{place:?}");
    assert!(Report::unopened(&AnyRepo::open(dir.path().join("gone")).unwrap_err()).is_none());
    fs::remove_file(store).unwrap();
    let found = Place::from(dir.path()).find().unwrap();
    assert!(copy.exists() && OpenOptions::new().repair(found, false).unwrap().header_restored);
    AnyRepo::open(dir.path()).unwrap();
}

#[test]
fn the_nearest_store_is_found_from_below() {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    let (outer, inner) = (top.clone(), top.join("a/inner"));
    fs::create_dir_all(inner.join("deep/down")).unwrap();
    drop(AnyRepo::create(Place::Git(outer.clone()), AnyFormat::git(Algorithm::Sha1)).unwrap());
    drop(AnyRepo::create(&*inner, AnyFormat::default()).unwrap());
    let found = |from: &Path| AnyRepo::find(from).unwrap().dir().map(Path::to_owned);
    assert_eq!(found(&inner.join("deep/down")), Some(inner.join(STORE_DIR)));
    assert_eq!(found(&inner), Some(inner.join(STORE_DIR)));
    assert_eq!(found(&top.join("a")), Some(outer.join(".git")));
    assert_eq!(found(&inner.join("..")), Some(outer.join(".git")), "the folder above, and not that of the name");
    let error = AnyRepo::find("/").unwrap_err();
    assert!(matches!(error, Error::NoStore { or_above: true, .. }), "{error:?}");
}

#[test]
fn a_git_repository_takes_objects_of_git_alone() {
    let dir = tempfile::tempdir().unwrap();
    let place = Place::Git(dir.path().join("r"));
    let error = AnyRepo::create(place.clone(), AnyFormat::default()).unwrap_err();
    assert!(matches!(error, Error::Unfit { format: "native", backend: "git" }), "{error:?}");
    assert!(!dir.path().join("r").exists(), "nothing was made");
    let repo = AnyRepo::create(place.clone(), AnyFormat::git(Algorithm::Sha256)).unwrap();
    assert_eq!(repo.format(), &AnyFormat::git(Algorithm::Sha256));
    let error = OpenOptions::new().create(place.clone()).unwrap_err();
    assert!(matches!(error, Error::Store(StoreError::Exists { .. })), "{error:?}");
    let bare = AnyRepo::create(Place::Git(dir.path().join("b.git")), AnyFormat::git(Algorithm::Sha1)).unwrap();
    assert_eq!(bare.dir(), Some(&*dir.path().join("b.git")), "as its name says");
    let found = Place::from(dir.path().join("r")).find().unwrap();
    assert!(matches!(found, Found::Git(_)));
    let error = OpenOptions::new().repair(found, false).unwrap_err();
    assert!(matches!(error, Error::GitRepository { .. }), "{error:?}");
    let error = OpenOptions::new().create(dir.path().join("r")).unwrap_err();
    assert!(matches!(error, Error::Store(StoreError::Exists { .. })), "a folder that is one: {error:?}");
}

#[needs(git)]
#[test]
fn git_repositories_of_any_shape_are_stores() {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    let git = Git::init(top.join("work"), &[]);
    git.write("deep/er/apple", "red");
    git.commit_all("first");
    let (work, linked, bare) = (top.join("work"), top.join("linked"), top.join("bare.git"));
    git.run(&["worktree", "add", "-q", "-b", "side", linked.to_str().unwrap()]);
    git.run(&["clone", "-q", "--bare", ".", bare.to_str().unwrap()]);
    let head = |place: Place| {
        let repo = AnyRepo::open(place).unwrap();
        assert_eq!((repo.format().name(), repo.backend().name()), ("git", "git"));
        (repo.dir().unwrap().to_owned(), repo.checked_out().unwrap())
    };
    let main = Head::Branch("main".to_owned());
    assert_eq!(head(Place::from(&*work)), (work.join(".git"), main.clone()));
    assert_eq!(head(Place::Git(work.join(".git"))), (work.join(".git"), main.clone()));
    assert_eq!(head(Place::parse(&url("git+file", &bare)).unwrap()), (bare.clone(), main.clone()));
    assert_eq!(head(Place::from(&*linked)), (work.join(".git/worktrees/linked"), Head::Branch("side".to_owned())));
    let from_below = AnyRepo::find(work.join("deep/er")).unwrap();
    assert_eq!(value(&from_below, "main", "deep/er/apple").as_deref(), Some(&b"red"[..]));
    let options = OpenOptions::new().committer("Any Body <any@example.com>");
    let repo = options.open(&bare).unwrap();
    repo.set_head("trial").unwrap();
    commit(&repo, "trial", &[("fruit/plum", "blue")]);
    assert_eq!(repo.checked_out().unwrap(), Head::Branch("trial".to_owned()), "a HEAD of its own");
    repo.close().unwrap();
    let bare = Git::new(&bare);
    assert_eq!(bare.text(&["show", "trial:fruit/plum"]), "blue");
    bare.fsck();
    // What is made here is one to Git, with its ids and the one who moves refs.
    let made = options.create(Place::Git(top.join("made"))).unwrap();
    commit(&made, "main", &[("a", "1")]);
    made.close().unwrap();
    let made = Git::new(top.join("made"));
    made.fsck();
    assert_eq!(made.text(&["show", "main:a"]), "1");
    assert_eq!(made.text(&["log", "-1", "--format=%an <%ae>", "main"]), "Any Body <any@example.com>");
    assert!(
        fs::read_to_string(top.join("made/.git/logs/refs/heads/main")).unwrap().contains("Any Body <any@example.com>")
    );
}

#[test]
fn what_is_checked_out_is_a_branch_or_a_commit() {
    let repo = AnyRepo::open("memory:").unwrap();
    assert_eq!(repo.checked_out().unwrap(), Head::Branch(FIRST_BRANCH.to_owned()));
    assert_eq!(repo.checked_out_commit().unwrap(), None);
    let at = commit(&repo, "main", &[("a", "1")]);
    assert_eq!(repo.checked_out_commit().unwrap().map(|at| at.oid()), Some(at.oid));
    repo.detach_head(at.into()).unwrap();
    assert!(matches!(repo.checked_out().unwrap(), Head::Detached(found) if found.oid() == at.oid));
    assert_eq!(check_new_branch("refs/heads/trial").unwrap(), "trial");
    for name in ["HEAD", "@", "-x", "refs/heads/-x"] {
        assert!(matches!(check_new_branch(name), Err(Error::BranchName { .. })), "{name}");
    }
}
