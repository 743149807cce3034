//! Histories as old and odd repositories have them, into stores and out again.

use std::sync::Arc;

use bristlecone::{Backend, Durability, Info, Kind, MemoryBackend, Native, RefTarget, Repo, Signature};
use bristlecone_git::{
    backend::GitOptions,
    history::{ExportOptions, ImportOptions, Origin, Repository, TransferError, export, import},
};
use bristlecone_needs::needs;
use bristlecone_testkit::{generate::Rng, git::Git as RealGit};

use crate::history::{FORMATS, file_of, hex};

/// A delta is taken for what its base is.
#[needs(git)]
#[test]
fn a_file_is_no_delta_against_the_folder_that_came_in_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let from = RealGit::init(dir.path().join("from"), &[]);
    let one = hex(&from.hash_object("blob", b"one"));
    let mut bytes = Vec::new();
    for number in 0..8 {
        bytes.extend_from_slice(format!("100644 file{number}\0").as_bytes());
        bytes.extend_from_slice(&one);
    }
    // What the folder's tree will be, and a little more.
    bytes.extend_from_slice(b"and more");
    from.write("x", &bytes);
    from.commit_all("a file");
    std::fs::remove_file(from.dir().join("x")).unwrap();
    for number in 0..8 {
        from.write(format!("x/file{number}"), "one");
    }
    from.commit_all("a folder");
    for (number, store) in FORMATS.into_iter().enumerate() {
        let backend: Arc<dyn Backend> = Arc::new(MemoryBackend::new());
        let opened = Repository::open(from.dir()).unwrap();
        import(&opened, store, &backend, &ImportOptions::default(), &mut |_| {}).unwrap();
        let to = dir.path().join(number.to_string());
        export(store, &backend, &to, &ExportOptions::default(), &mut |_| {}).unwrap();
        let to = RealGit::new(&to);
        to.fsck();
        assert!(to.run(&["cat-file", "blob", "main~1:x"]) == bytes, "{store:?}");
    }
}

/// `git commit-tree` takes the id of the tree without entries, and writes no object for it.
#[needs(git)]
#[test]
fn the_tree_without_entries_is_there_though_nobody_wrote_it() {
    let dir = tempfile::tempdir().unwrap();
    let from = RealGit::init(dir.path().join("from"), &[]);
    let empty = String::from_utf8(from.feed(&["hash-object", "-t", "tree", "--stdin"], b"")).unwrap();
    let root = from.text(&["commit-tree", empty.trim_end(), "-m", "root"]);
    from.run(&["update-ref", "refs/heads/main", &root]);
    assert!(!file_of(&from, empty.trim_end()).exists());
    for (number, store) in FORMATS.into_iter().enumerate() {
        let backend: Arc<dyn Backend> = Arc::new(MemoryBackend::new());
        let opened = Repository::open(from.dir()).unwrap();
        let report = import(&opened, store, &backend, &ImportOptions::default(), &mut |_| {}).unwrap();
        assert_eq!((report.counts.commits, report.counts.trees), (1, 1));
        let to = dir.path().join(number.to_string());
        export(store, &backend, &to, &ExportOptions::default(), &mut |_| {}).unwrap();
        let to = RealGit::new(&to);
        to.fsck();
        assert_eq!(to.text(&["rev-parse", "main"]), root);
    }
    // The store may be such a repository itself.
    let (_backend, repo) = crate::backend::open(from.dir(), GitOptions::default());
    let to = dir.path().join("to");
    export(FORMATS[0], repo.backend(), &to, &ExportOptions::default(), &mut |_| {}).unwrap();
    RealGit::new(&to).fsck();
    // A ref of a repository that takes a history may lead to it, too.
    let to = RealGit::init(dir.path().join("other"), &[]);
    let theirs = to.text(&["commit-tree", empty.trim_end(), "-m", "theirs"]);
    to.run(&["update-ref", "refs/heads/theirs", &theirs]);
    from.run(&["update-ref", "refs/heads/ours", &root]);
    let (_backend, repo) = crate::backend::open(to.dir(), GitOptions::default());
    let opened = Repository::open(from.dir()).unwrap();
    let options = ImportOptions::default().refs(vec!["refs/heads/ours".to_owned()]);
    import(&opened, FORMATS[0], repo.backend(), &options, &mut |_| {}).unwrap();
    assert_eq!(to.text(&["rev-parse", "ours"]), root);
    to.fsck();
}

/// A value of more than 256 KiB is in pieces there, which are of a kind of their own.
#[needs(git)]
#[test]
fn a_tag_of_a_long_value_goes_into_a_native_store_and_out_again() {
    let dir = tempfile::tempdir().unwrap();
    let from = RealGit::init(dir.path().join("from"), &[]);
    from.commit_all("usual");
    let long = from.hash_object("blob", &Rng::stream(2, 0).bytes(600_000));
    // The second one is kept as it is.
    for (name, seconds) in [("usual", "7"), ("odd", "007")] {
        let tagger = format!("A <a@example.org> {seconds} +0000");
        let raw = format!("object {long}\ntype blob\ntag {name}\ntagger {tagger}\n\nlong\n");
        from.run(&["update-ref", &format!("refs/tags/{name}"), &from.hash_object("tag", raw.as_bytes())]);
    }
    let backend: Arc<dyn Backend> = Arc::new(MemoryBackend::new());
    let opened = Repository::open(from.dir()).unwrap();
    import(&opened, FORMATS[1], &backend, &ImportOptions::default(), &mut |_| {}).unwrap();
    let repo = Repo::with_backend(Native::new(), backend.clone());
    for name in ["refs/tags/usual", "refs/tags/odd"] {
        let Some(RefTarget::Object(at)) = backend.get_ref(name).unwrap() else { panic!("no {name}") };
        assert_eq!(repo.read_tag(at.into()).unwrap().kind, Kind::Pieces, "{name}");
    }
    let to = dir.path().join("to");
    export(FORMATS[1], &backend, &to, &ExportOptions::default(), &mut |_| {}).unwrap();
    let to = RealGit::new(&to);
    for name in ["usual", "odd"] {
        assert_eq!(to.text(&["rev-parse", name]), from.text(&["rev-parse", name]));
    }
}

/// A name without an address gets an empty one in Git.
#[needs(git)]
#[test]
fn two_commits_that_are_one_in_git_are_written_once() {
    let repo = Repo::with_backend(Native::new(), Arc::new(MemoryBackend::new()));
    for (branch, name) in [("one", "Ann"), ("other", "Ann <>")] {
        let info = Info::message("same").by(Signature::new(name, 1_700_000_000)).durability(Durability::None);
        repo.branch(branch).unwrap().edit(&info, |tree| tree.set("file", "same")).unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("to");
    let report = export(FORMATS[1], repo.backend(), &to, &ExportOptions::default(), &mut |_| {}).unwrap();
    assert_eq!((report.counts.commits, report.refs.len()), (1, 2));
    let to = RealGit::new(&to);
    assert_eq!(to.text(&["rev-parse", "one"]), to.text(&["rev-parse", "other"]));
    to.fsck();
}

#[needs(git)]
#[test]
fn a_damaged_tag_is_not_said_to_name_itself() {
    let dir = tempfile::tempdir().unwrap();
    let from = RealGit::init(dir.path(), &[]);
    from.commit_all("one");
    let [bad, other] = ["bad", "other"].map(|name| {
        from.run(&["tag", "-a", "-m", name, name]);
        from.text(&["rev-parse", name])
    });
    std::fs::remove_file(file_of(&from, &bad)).unwrap();
    std::fs::copy(file_of(&from, &other), file_of(&from, &bad)).unwrap();
    for store in FORMATS {
        let backend: Arc<dyn Backend> = Arc::new(MemoryBackend::new());
        let opened = Repository::open(from.dir()).unwrap();
        match import(&opened, store, &backend, &ImportOptions::default(), &mut |_| {}) {
            Err(TransferError::Missing(missing)) => {
                assert_eq!((missing.oid.to_string(), &missing.from), (bad.clone(), &Origin::History));
                assert!(missing.damage.is_some(), "{missing}");
            }
            done => panic!("{done:?}"),
        }
    }
}

/// Where a store has both, as Git cannot, each goes out by itself.
#[needs(git)]
#[test]
fn a_branch_is_exported_without_those_that_have_no_place_beside_it() {
    let repo = Repo::with_backend(Native::new(), Arc::new(MemoryBackend::new()));
    for name in ["a", "a/b"] {
        let info = crate::backend::info(name, Durability::None);
        repo.branch(name).unwrap().edit(&info, |tree| tree.set("file", name)).unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let exported = |to: &str, names: &[&str]| {
        let options = ExportOptions::default().refs(names.iter().map(|name| format!("refs/heads/{name}")).collect());
        export(FORMATS[1], repo.backend(), &dir.path().join(to), &options, &mut |_| {})
    };
    for (to, name) in [("one", "a"), ("other", "a/b")] {
        assert_eq!(exported(to, &[name]).unwrap().refs.len(), 1, "{name}");
    }
    assert!(matches!(exported("both", &["a", "a/b"]), Err(TransferError::Refused { .. })));
}
