//! Folders of files into a store and out of it.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    thread,
};

use bristlecone::{Info, core::git::Algorithm};
use bristlecone_any::{
    AnyFormat, AnyRepo, Error, Place,
    folder::{self, FolderError, ImportOptions, Step},
};
use tempfile::TempDir;

use super::commit;

/// What an import keeps of a file: its bytes and whether it is an executable, or where a link leads.
#[derive(Debug, PartialEq, Eq)]
enum Kept {
    File(Vec<u8>, bool),
    Link(PathBuf),
}

fn kept(dir: &Path) -> BTreeMap<PathBuf, Kept> {
    let mut all = BTreeMap::new();
    let mut stack = vec![dir.to_owned()];
    while let Some(folder) = stack.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            let found = match kind {
                _ if kind.is_dir() => {
                    stack.push(path);
                    continue;
                }
                _ if kind.is_symlink() => Kept::Link(fs::read_link(&path).unwrap()),
                _ => {
                    let executable = entry.metadata().unwrap().permissions().mode() & 0o111 != 0;
                    Kept::File(fs::read(&path).unwrap(), executable)
                }
            };
            all.insert(path.strip_prefix(dir).unwrap().to_owned(), found);
        }
    }
    all
}

/// A folder with a bit of everything: 1500 files in one folder, a large one, an executable, a link, a name of odd bytes.
fn folder() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir_all(at("many/below")).unwrap();
    fs::create_dir_all(at("empty")).unwrap();
    for n in 0..1500 {
        fs::write(at(&format!("many/{n}")), format!("value {n}")).unwrap();
    }
    fs::write(at("many/below/large"), vec![7; 3 << 20]).unwrap();
    fs::write(at("100%"), "").unwrap();
    fs::write(at("run"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(at("run"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("many/1", at("link")).unwrap();
    dir
}

fn formats() -> [AnyFormat; 3] {
    [AnyFormat::default(), AnyFormat::git(Algorithm::Sha1), AnyFormat::git(Algorithm::Sha256)]
}

#[test]
fn a_folder_comes_out_as_it_went_in() {
    let from = folder();
    for format in formats() {
        let (store, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let repo = AnyRepo::create(store.path(), format).unwrap();
        let mut steps = Vec::new();
        let (mut tree, imported) =
            folder::import(&repo, from.path(), &ImportOptions::default(), &mut |status| steps.push(status)).unwrap();
        assert_eq!((imported.files, imported.executables, imported.links, imported.dirs), (1502, 1, 1, 2));
        let left_out: Vec<_> = imported.left_out.iter().map(|one| (one.path.to_string(), one.what)).collect();
        assert_eq!(left_out, [("empty".to_owned(), "empty folder")]);
        assert_eq!(steps.first().unwrap().step, Step::Scan);
        let last = steps.last().unwrap();
        assert_eq!((last.step, last.items_total), (Step::Import, Some(1504)));
        let main = repo.branch("main").unwrap();
        main.commit(&mut tree, &Info::message("a folder")).unwrap();
        let tree = main.tree().unwrap();
        let out = to.path().join("new");
        let exported = folder::export(&repo, &tree, &out, false, &mut |_| {}).unwrap();
        assert_eq!(exported.files + exported.executables + exported.links, 1504);
        assert_eq!(exported.bytes, imported.bytes);
        assert_eq!(kept(&out), kept(from.path()));
    }
}

#[test]
fn the_same_folder_in_a_git_repository_is_the_same_tree() {
    let from = folder();
    let dir = tempfile::tempdir().unwrap();
    let git = AnyRepo::create(Place::Git(dir.path().join("git")), AnyFormat::git(Algorithm::Sha1)).unwrap();
    let disk = AnyRepo::create(dir.path().join("disk"), AnyFormat::git(Algorithm::Sha1)).unwrap();
    let roots = [git, disk].map(|repo| {
        let (mut tree, _) = folder::import(&repo, from.path(), &ImportOptions::default(), &mut |_| {}).unwrap();
        tree.write().unwrap();
        tree.root().unwrap()
    });
    assert_eq!(roots[0], roots[1]);
}

#[test]
fn a_folder_whose_ignore_file_would_have_too_long_a_name_has_none() {
    let dir = tempfile::tempdir().unwrap();
    let git = AnyRepo::create(Place::Git(dir.path().join("git")), AnyFormat::git(Algorithm::Sha1)).unwrap();
    let top = dir.path().join("top");
    let mut folder = top.clone();
    while folder.as_os_str().len() < 3900 {
        folder.push("d".repeat(100));
    }
    // The system takes names of 4,095 bytes.
    folder.push("e".repeat(4091 - folder.as_os_str().len()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("v"), "far down").unwrap();
    let (_, imported) = folder::import(&git, &top, &ImportOptions::default(), &mut |_| {}).unwrap();
    assert_eq!(imported.files, 1);
}

#[test]
fn what_patterns_leave_out_is_counted_by_who_says_so() {
    let from = tempfile::tempdir().unwrap();
    fs::create_dir(from.path().join("cache")).unwrap();
    for name in ["keep", "a.tmp", "b.tmp", "c.log", "cache/x"] {
        fs::write(from.path().join(name), name).unwrap();
    }
    fs::write(from.path().join(".coneignore"), "*.log\n").unwrap();
    let repo = AnyRepo::open("memory:").unwrap();
    let options = ImportOptions::default().exclude(vec!["*.tmp".into(), "cache/".into()]);
    let (tree, imported) = folder::import(&repo, from.path(), &options, &mut |_| {}).unwrap();
    let ignored: Vec<_> = imported.ignored.iter().map(|(by, count)| (by.as_deref(), count.files, count.dirs)).collect();
    assert_eq!(ignored, [(None, 2, 1), (Some(".coneignore"), 1, 0)]);
    assert!(tree.contains("keep").unwrap() && !tree.contains("c.log").unwrap() && !tree.contains("a.tmp").unwrap());
    let (tree, _) = folder::import(&repo, from.path(), &options.all(true), &mut |_| {}).unwrap();
    assert!(tree.contains("c.log").unwrap() && !tree.contains("a.tmp").unwrap());
}

#[cfg(feature = "tezos")]
#[test]
fn what_a_format_does_not_keep_is_refused_or_taken_plain() {
    use bristlecone_any::{ErrorKind, OpenOptions};
    let from = folder();
    let tezos = OpenOptions::new().format(AnyFormat::standard("tezos").unwrap());
    let repo = tezos.open("memory:").unwrap();
    let error = folder::import(&repo, from.path(), &ImportOptions::default(), &mut |_| {}).unwrap_err();
    let Error::Folder(FolderError::NotKept { executables: 1, links: 1, places, format: "tezos" }) = &error else {
        panic!("{error:?}")
    };
    assert_eq!((places.len(), error.kind()), (2, ErrorKind::Mistake));
    let plain = ImportOptions::default().plain(true);
    let (tree, imported) = folder::import(&repo, from.path(), &plain, &mut |_| {}).unwrap();
    assert_eq!((imported.plain, imported.links), (2, 0));
    assert_eq!(tree.get("link").unwrap().as_deref(), Some(&b"many/1"[..]));
}

#[test]
fn an_export_goes_where_it_may() {
    let store = tempfile::tempdir().unwrap();
    let repo = AnyRepo::create(store.path(), AnyFormat::default()).unwrap();
    let mut tree = repo.tree();
    tree.set("a/b", "new").unwrap();
    let to = tempfile::tempdir().unwrap();
    let export = |tree: &_, dir: &Path, replace| folder::export(&repo, tree, dir, replace, &mut |_| {});
    fs::create_dir(to.path().join("a")).unwrap();
    fs::write(to.path().join("a/b"), "old").unwrap();
    fs::write(to.path().join("other"), "stays").unwrap();
    let error = export(&tree, to.path(), false).unwrap_err();
    assert!(matches!(error, Error::Folder(FolderError::NotEmpty { .. })), "{error:?}");
    assert_eq!(fs::read(to.path().join("a/b")).unwrap(), b"old");
    export(&tree, to.path(), true).unwrap();
    assert_eq!(fs::read(to.path().join("a/b")).unwrap(), b"new");
    assert_eq!(fs::read(to.path().join("other")).unwrap(), b"stays");
    let error = export(&tree, &to.path().join("other"), true).unwrap_err();
    assert!(matches!(error, Error::Folder(FolderError::NotAFolder { .. })), "{error:?}");
    let error = export(&tree, repo.dir().unwrap(), true).unwrap_err();
    assert!(matches!(error, Error::Folder(FolderError::TheStore { .. })), "{error:?}");
    // A link on the way is not followed.
    let elsewhere = tempfile::tempdir().unwrap();
    let trap = tempfile::tempdir().unwrap();
    symlink(elsewhere.path(), trap.path().join("a")).unwrap();
    let error = export(&tree, trap.path(), true).unwrap_err();
    assert!(matches!(error, Error::Folder(FolderError::InTheWay { .. })), "{error:?}");
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    // A name that no file has is refused before anything is written.
    tree.set("z/..", "no").unwrap();
    let out = to.path().join("none");
    let error = export(&tree, &out, false).unwrap_err();
    assert!(matches!(error, Error::Folder(FolderError::FileName { .. })), "{error:?}");
    assert!(!out.exists());
}

#[test]
fn an_export_that_is_stopped_leaves_no_part_of_a_value() {
    let dir = tempfile::tempdir().unwrap();
    let repo = AnyRepo::create(dir.path(), AnyFormat::default()).unwrap();
    let large = "large ".repeat(5 << 20);
    commit(&repo, "main", &[("large", &large)]);
    let tree = repo.branch("main").unwrap().tree().unwrap();
    // When the tree is looked at, before the file, before its first part, and then no more.
    let stopped = |to: &Path, replace| {
        let asked = AtomicUsize::new(0);
        let goes_on = || asked.fetch_add(1, Relaxed) < 3;
        let error = folder::export_while(&repo, &tree, to, replace, &goes_on, &mut |_| {}).unwrap_err();
        assert!(matches!(error, Error::Folder(FolderError::Stopped)), "{error:?}");
    };
    let to = tempfile::tempdir().unwrap();
    stopped(to.path(), false);
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 0);
    fs::write(to.path().join("large"), "old").unwrap();
    stopped(to.path(), true);
    assert_eq!(fs::read(to.path().join("large")).unwrap(), b"old");
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 1);
    folder::export(&repo, &tree, to.path(), true, &mut |_| {}).unwrap();
    assert_eq!(fs::read(to.path().join("large")).unwrap(), large.as_bytes());
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 1);
}

#[test]
fn an_export_that_is_stopped_while_the_tree_is_looked_at_makes_nothing() {
    let repo = AnyRepo::open("memory:").unwrap();
    let mut tree = repo.tree();
    tree.set("a/b", "1").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let error = folder::export_while(&repo, &tree, &out, false, &|| false, &mut |_| {}).unwrap_err();
    assert!(matches!(error, Error::Folder(FolderError::Stopped)), "{error:?}");
    assert!(!out.exists());
}

#[test]
fn a_file_that_is_exported_has_its_name_once_it_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let repo = AnyRepo::create(dir.path(), AnyFormat::default()).unwrap();
    let large = "large ".repeat(5 << 20);
    commit(&repo, "main", &[("large", &large)]);
    let tree = repo.branch("main").unwrap().tree().unwrap();
    let to = tempfile::tempdir().unwrap();
    let (asked, early) = (AtomicUsize::new(0), AtomicBool::new(false));
    let goes_on = || {
        asked.fetch_add(1, Relaxed);
        early.fetch_or(to.path().join("large").exists(), Relaxed);
        true
    };
    folder::export_while(&repo, &tree, to.path(), false, &goes_on, &mut |_| {}).unwrap();
    assert!(asked.load(Relaxed) > 2 && !early.load(Relaxed));
    assert_eq!(fs::read(to.path().join("large")).unwrap(), large.as_bytes());
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 1);
}

#[test]
fn a_file_that_a_link_replaces_is_there_until_the_link_is() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    symlink("target", from.path().join("link")).unwrap();
    let repo = AnyRepo::open("memory:").unwrap();
    let (tree, _) = folder::import(&repo, from.path(), &ImportOptions::default(), &mut |_| {}).unwrap();
    let (link, done) = (to.path().join("link"), AtomicBool::new(false));
    fs::write(&link, "old").unwrap();
    let (exported, missed) = thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut missed = 0;
            while !done.load(Relaxed) {
                missed += usize::from(fs::symlink_metadata(&link).is_err());
            }
            missed
        });
        let export = |_| folder::export(&repo, &tree, to.path(), true, &mut |_| {}).map(drop);
        let exported = (0..300).try_for_each(export);
        done.store(true, Relaxed);
        (exported, watch.join().unwrap())
    });
    exported.unwrap();
    assert_eq!((missed, fs::read_link(&link).unwrap()), (0, "target".into()));
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 1);
}
