//! `git repack -ad` drops what no ref leads to: objects that were written and that a ref comes to lead to stay.

use bristlecone::{
    Backend, Batch, Durability, Expected, Kind, ObjRef, Oid, RefMove, RefTarget, Repo, Sink as _,
    core::git::{Algorithm, Git},
};
use bristlecone_git::{
    backend::{GitBackend, GitOptions},
    history::{ImportOptions, Repository, StoreFormat, import},
    layout::Layout,
    odb::loose,
};
use bristlecone_needs::needs;
use bristlecone_testkit::git::Git as RealGit;

use crate::backend::{info, open};

fn init(loose: bool) -> (tempfile::TempDir, RealGit, GitOptions) {
    let dir = tempfile::tempdir().unwrap();
    Layout::init(dir.path(), true, Algorithm::Sha1).unwrap();
    let git = RealGit::new(dir.path());
    (dir, git, GitOptions::default().background(false).loose(loose))
}

fn commit(repo: &Repo<Git>, branch: &str) {
    let info = info(branch, Durability::None);
    repo.branch(branch).unwrap().edit(&info, |tree| tree.set("a/b", b"the value")).unwrap();
}

/// Returns a batch with one value.
fn value(text: &str) -> (Batch, Oid) {
    let mut batch = Batch::new();
    let oid = Algorithm::Sha1.object_id(Kind::Contents, text.as_bytes());
    batch.put(Kind::Contents, oid, text.as_bytes(), &[], &[]);
    (batch, oid)
}

fn tag(name: &str, oid: Oid) -> RefMove {
    let to = Some(RefTarget::Object(ObjRef::from(oid)));
    RefMove { name: format!("refs/tags/{name}"), expected: Expected::Absent, to }
}

fn keeps(git: &RealGit) -> usize {
    let names = std::fs::read_dir(git.dir().join("objects/pack")).unwrap();
    names.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|ending| ending == "keep")).count()
}

#[needs(git)]
#[test]
fn what_git_dropped_since_is_written_again() {
    for loose in [false, true] {
        let (dir, git, options) = init(loose);
        let (_backend, repo) = open(dir.path(), options);
        commit(&repo, "x");
        if loose {
            git.run(&["repack", "-adq"]);
        }
        git.run(&["update-ref", "-d", "refs/heads/x"]);
        git.run(&["repack", "-adq"]);
        git.run(&["prune-packed"]);
        commit(&repo, "y");
        git.fsck();
        assert_eq!(git.text(&["show", "y:a/b"]), "the value");
    }
}

/// A Git that prunes keeps what was written within the last two weeks.
#[needs(git)]
#[test]
fn loose_objects_that_come_again_are_as_young_as_new_ones() {
    let (dir, git, options) = init(true);
    let (backend, _repo) = open(dir.path(), options);
    let (batch, one) = value("one");
    backend.append(batch, &[], Durability::None).unwrap();
    let file = dir.path().join("objects").join(loose::name(&one));
    let before = std::time::SystemTime::now() - std::time::Duration::from_secs(30 * 86_400);
    std::fs::File::open(&file).unwrap().set_modified(before).unwrap();
    backend.append(value("one").0, &[], Durability::None).unwrap();
    git.run(&["prune", "--expire=2.weeks.ago"]);
    assert!(file.exists());
    backend.append(Batch::new(), &[tag("one", one)], Durability::None).unwrap();
    git.fsck();
    assert_eq!(git.text(&["cat-file", "-p", "one"]), "one");
}

/// As in an import, whose refs move one by one, while another thread commits.
#[needs(git)]
#[test]
fn the_move_of_one_ref_gives_up_nothing_that_others_will_lead_to() {
    let (dir, git, options) = init(false);
    let (backend, _repo) = open(dir.path(), options);
    let (mut batch, one) = value("one");
    let (_, two) = value("two");
    batch.put(Kind::Contents, two, b"two", &[], &[]);
    backend.append(batch, &[], Durability::None).unwrap();
    let (third, three) = value("three");
    for (name, batch, oid) in [("three", third, three), ("one", Batch::new(), one), ("two", Batch::new(), two)] {
        backend.append(batch, &[tag(name, oid)], Durability::None).unwrap();
        git.run(&["repack", "-adq"]);
    }
    assert_eq!(git.text(&["cat-file", "-p", "two"]), "two");
    // Nobody writes it a second time while it is certainly there.
    let packs = backend.odb().pack_names().len();
    backend.append(value("two").0, &[], Durability::None).unwrap();
    assert_eq!(backend.odb().pack_names().len(), packs);
    git.fsck();
    backend.close().unwrap();
    assert_eq!(keeps(&git), 0);
}

/// Appends of several callers become one pack.
#[needs(git)]
#[test]
fn the_move_of_one_caller_gives_up_nothing_that_another_appended_with_it() {
    let (dir, git, options) = init(false);
    let (backend, _repo) = open(dir.path(), options);
    let ((first, one), (second, two)) = (value("one"), value("two"));
    let appends = vec![(first, vec![tag("one", one)]), (second, vec![])];
    assert!(backend.append_many(appends, Durability::None).iter().all(Result::is_ok));
    git.run(&["repack", "-adq"]);
    backend.append(Batch::new(), &[tag("two", two)], Durability::None).unwrap();
    git.fsck();
    assert_eq!(git.text(&["cat-file", "-p", "two"]), "two");
}

/// What a request brought that was refused is in the pack of its group, and no ref leads to it.
#[needs(git)]
#[test]
fn what_a_refused_append_brought_is_written_again() {
    let (dir, git, options) = init(false);
    let (backend, _repo) = open(dir.path(), options);
    let ((first, one), (second, two)) = (value("one"), value("two"));
    let refused = RefMove { expected: Expected::Is(RefTarget::Object(ObjRef::from(two))), ..tag("two", two) };
    // Both expectations hold when the group is planned: the second move fails as a folder is in its way.
    std::fs::create_dir_all(dir.path().join("refs/tags/two/in the way")).unwrap();
    std::fs::write(dir.path().join("refs/tags/two/in the way/file"), format!("{one}\n")).unwrap();
    let appends = vec![(first, vec![tag("one", one)]), (second, vec![RefMove { expected: Expected::Any, ..refused }])];
    let outcomes = backend.append_many(appends, Durability::None);
    assert!(outcomes[0].is_ok() && outcomes[1].is_err(), "{outcomes:?}");
    std::fs::remove_dir_all(dir.path().join("refs/tags/two")).unwrap();
    git.run(&["repack", "-adq"]);
    backend.append(value("two").0, &[tag("two", two)], Durability::None).unwrap();
    git.fsck();
    let kept: &GitBackend = &backend;
    kept.close().unwrap();
}

/// As in an import that takes long enough for a repack of ours.
#[needs(git)]
#[test]
fn a_repack_leaves_packs_alone_that_no_ref_leads_to_yet() {
    // Commits between them have a repack that only leaves the protected packs out.
    for commits in [0, 5] {
        let (dir, git, options) = init(false);
        let (backend, repo) = open(dir.path(), options.repack_min(4));
        let mut values = Vec::new();
        for n in 0..5 {
            let (batch, oid) = value(&format!("number {n}"));
            backend.append(batch, &[], Durability::None).unwrap();
            values.push(oid);
            (0..commits).for_each(|m| commit(&repo, &format!("x{n}-{m}")));
        }
        assert_eq!(keeps(&git), 5);
        git.run(&["repack", "-adq"]);
        for (n, oid) in values.into_iter().enumerate() {
            backend.append(Batch::new(), &[tag(&n.to_string(), oid)], Durability::None).unwrap();
        }
        git.fsck();
        assert_eq!(git.text(&["cat-file", "-p", "3"]), "number 3");
        backend.close().unwrap();
        git.fsck();
    }
}

/// What is in memory, or in a removed file that is open, is not in the repository.
#[needs(git)]
#[test]
fn an_import_writes_what_no_ref_leads_to_again() {
    let (dir, git, options) = init(false);
    let (backend, repo) = open(dir.path(), options);
    commit(&repo, "x");
    let tree = repo.branch("x").unwrap().tree().unwrap();
    assert_eq!(tree.get("a/b").unwrap().as_deref(), Some(&b"the value"[..]));
    git.run(&["update-ref", "-d", "refs/heads/x"]);
    git.run(&["repack", "-adq"]);
    git.run(&["prune-packed"]);
    git.run(&["prune", "--expire=now"]);
    let other = RealGit::init(dir.path().join("other"), &[]);
    other.write("a/b", "the value");
    other.commit_all("of another repository");
    let from = Repository::open(other.dir()).unwrap();
    let backend: std::sync::Arc<dyn Backend> = backend;
    let store = StoreFormat::Git(Git::new(Algorithm::Sha1));
    let report = import(&from, store, &backend, &ImportOptions::default(), &mut |_| {}).unwrap();
    assert_eq!((report.counts.blobs, report.counts.trees, report.counts.commits), (1, 2, 1));
    git.fsck();
    assert_eq!(git.text(&["show", "main:a/b"]), "the value");
    // What refs lead to is not written twice.
    other.write("c", "one more");
    other.commit_all("the next");
    let from = Repository::open(other.dir()).unwrap();
    let report = import(&from, store, &backend, &ImportOptions::default(), &mut |_| {}).unwrap();
    assert_eq!((report.counts.blobs, report.counts.trees, report.counts.commits), (1, 1, 1));
    git.fsck();
}

/// A user protects packs with files of that name, too.
#[needs(git)]
#[test]
fn a_pack_that_a_user_protects_stays_also_without_its_index() {
    let (dir, git, options) = init(false);
    let (backend, repo) = open(dir.path(), options.clone());
    commit(&repo, "x");
    drop((backend, repo));
    git.run(&["repack", "-adq"]);
    let packs = dir.path().join("objects/pack");
    let names = std::fs::read_dir(&packs).unwrap().map(|entry| entry.unwrap().path());
    let index = names.into_iter().find(|path| path.extension().is_some_and(|ending| ending == "idx")).unwrap();
    std::fs::remove_file(&index).unwrap();
    // As `git index-pack --keep` makes it before it writes the index.
    let keep = std::fs::File::create(index.with_extension("keep")).unwrap();
    keep.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(172_800)).unwrap();
    drop(keep);
    // A name in which no pack of ours could end.
    let odd = packs.join(format!("é{}.keep", "x".repeat(39)));
    std::fs::write(&odd, "bristlecone\n").unwrap();
    drop(open(dir.path(), options));
    assert!(index.with_extension("pack").exists() && index.with_extension("keep").exists());
    assert!(!odd.exists(), "what says that it is ours protects nothing");
}
