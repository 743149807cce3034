//! Revisions, paths, and who commits.

use std::ffi::{OsStr, OsString};

use bristlecone::{Durability, Error as StoreError, Kind, ObjRef, Signature, Tag, Zone, core::git::Algorithm};
use bristlecone_any::{
    AnyFormat, AnyRepo, Error, ErrorKind, OpenOptions, Place,
    identity::{Identity, Moment},
    path,
    revision::{self, RevisionError},
};
use bristlecone_needs::needs;
use bristlecone_testkit::git::Git;

use super::commit;

fn repo(format: AnyFormat) -> AnyRepo {
    OpenOptions::new().format(format).open("memory:").unwrap()
}

fn formats() -> impl Iterator<Item = AnyFormat> {
    AnyFormat::ALL.iter().map(|(name, _)| AnyFormat::standard(name).unwrap())
}

fn word(text: &str) -> &OsStr {
    OsStr::new(text)
}

#[test]
fn revisions_lead_to_commits_and_trees_in_every_format() {
    for format in formats() {
        let repo = repo(format);
        let first = commit(&repo, "main", &[("fruit/apple", "green")]);
        let second = commit(&repo, "main", &[("fruit/plum", "blue")]);
        let third = commit(&repo, "main", &[("nut", "brown")]);
        for (text, wanted) in [
            ("HEAD", third),
            ("main", third),
            ("@", third),
            ("main~1", second),
            ("main~2", first),
            ("main^^", first),
            ("HEAD^{commit}~1", second),
            (":/set fruit/pl", second),
            (&second.oid.to_string(), second),
            (&first.oid.to_string()[..10], first),
        ] {
            let found = revision::commit(&repo, word(text)).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(found.oid(), wanted.oid, "{text} in {}", repo.format().name());
        }
        let tree = revision::tree(&repo, word("main~1:fruit")).unwrap();
        assert_eq!(tree.get("plum").unwrap().as_deref(), Some(&b"blue"[..]));
        assert_eq!(revision::object(&repo, word("main^{tree}")).unwrap().0, Kind::Node);
        let heads = revision::every_head(&repo).unwrap();
        assert_eq!(heads.iter().map(|at| at.oid()).collect::<Vec<_>>(), [third.oid, third.oid]);
    }
}

#[test]
fn tags_of_tags_are_followed_however_many_there_are() {
    let repo = repo(AnyFormat::git(Algorithm::Sha1));
    let first = commit(&repo, "main", &[("apple", "green")]);
    let (mut kind, mut target) = (Kind::Commit, first);
    for number in 0..40 {
        let name = format!("t{number}").into_bytes();
        let tagger = Some(Signature::new("T <t@x>", 1_700_000_000));
        let tag = Tag { target, kind, name, tagger, headers: Vec::new(), message: b"why\n".to_vec() };
        (kind, target) = (Kind::Tag, ObjRef::from(repo.write_tag(&tag, Durability::None).unwrap()));
    }
    let tag = target.oid;
    for text in [format!("{tag}"), format!("{tag}^0"), format!("{tag}^{{}}"), format!("{tag}^{{commit}}")] {
        assert_eq!(revision::commit(&repo, word(&text)).unwrap().oid(), first.oid, "{text}");
    }
    assert_eq!(revision::object(&repo, word(&format!("{tag}^{{tree}}"))).unwrap().0, Kind::Node);
}

#[test]
fn ids_of_a_git_repository_may_be_cut_to_any_length() {
    let dir = tempfile::tempdir().unwrap();
    for algorithm in [Algorithm::Sha1, Algorithm::Sha256] {
        let place = Place::Git(dir.path().join(format!("{}.git", algorithm.name())));
        let repo = AnyRepo::create(place, AnyFormat::git(algorithm)).unwrap();
        let head = commit(&repo, "main", &[("a", "1")]);
        let text = head.oid.to_string();
        for digits in [8, 39, 40, 41, 63, 64].into_iter().filter(|digits| *digits <= text.len()) {
            let cut = &text[..digits];
            assert_eq!(revision::commit(&repo, word(cut)).unwrap().oid(), head.oid, "{cut}");
            assert_eq!(revision::object(&repo, word(&format!("{cut}^{{tree}}"))).unwrap().0, Kind::Node, "{cut}");
        }
    }
}

/// As `git log --all` does it.
#[needs(git)]
#[test]
fn every_head_is_also_what_other_working_trees_have_checked_out() {
    let dir = tempfile::tempdir().unwrap();
    let git = Git::init(dir.path().join("r"), &[]);
    git.commit_all("first");
    git.run(&["worktree", "add", "-q", "--detach", "../tree"]);
    git.run(&["-C", "../tree", "commit", "-q", "--allow-empty", "-m", "alone"]);
    let alone = git.text(&["-C", "../tree", "rev-parse", "HEAD"]);
    let repo = AnyRepo::open_read_only(Place::Git(git.dir().to_owned())).unwrap();
    let heads = revision::every_head(&repo).unwrap();
    assert!(heads.iter().any(|at| at.oid().to_string() == alone), "{heads:?}");
}

#[test]
fn what_is_no_revision_says_why() {
    let git = AnyFormat::git(Algorithm::Sha1);
    let repo = repo(git);
    let at = commit(&repo, "main", &[("fruit/apple", "green")]);
    let error = |text: &str| match revision::object(&repo, word(text)) {
        Err(error) => error,
        Ok(found) => panic!("{text} is {found:?}"),
    };
    let revision_error = |text: &str| match error(text) {
        Error::Revision(error) => error,
        error => panic!("{text}: {error:?}"),
    };
    for text in ["gone", "main~7", "abcdef", "main:gone~"] {
        let error = error(text);
        assert_eq!(error.kind(), ErrorKind::NotFound, "{text}: {error:?}");
    }
    assert!(matches!(error("gone"), Error::Store(StoreError::NoRef { name }) if name == "gone"));
    for text in ["main~x", "main^{", "main@{x}", ":fruit"] {
        assert!(matches!(revision_error(text), RevisionError::Syntax { .. }), "{text}");
    }
    assert_eq!(revision_error("main@{1}"), RevisionError::NoReflog);
    assert!(matches!(revision_error(":/never"), RevisionError::NoMessage { .. }));
    assert!(matches!(revision_error(":/("), RevisionError::Pattern { .. }));
    let peeled = RevisionError::Peel { text: "main^{blob}".to_owned(), found: Kind::Commit, wanted: Kind::Contents };
    assert_eq!(revision_error("main^{blob}"), peeled);
    let nothing = error("main:fruit/apple/core");
    assert!(matches!(nothing, Error::NothingAt { value_above: Some(above), .. } if above.to_string() == "fruit/apple"));
    let tree = repo.read_commit(at.into()).unwrap().tree.oid().to_string();
    let no_commit = revision::commit(&repo, word(&tree)).unwrap_err();
    let wanted = |error: &Error| matches!(error, Error::Revision(RevisionError::WrongKind { found: Kind::Node, .. }));
    assert!(wanted(&no_commit) && no_commit.kind() == ErrorKind::Mistake, "{no_commit:?}");
    let no_dir = path::check_dir(&repo.checkout(at.into()).unwrap(), &"fruit/apple".parse().unwrap()).unwrap_err();
    assert!(matches!(no_dir, Error::NotADirectory { .. }), "{no_dir:?}");
}

#[test]
fn words_are_revisions_ranges_or_paths() {
    let repo = repo(AnyFormat::default());
    let first = commit(&repo, "main", &[("fruit/apple", "green")]);
    let second = commit(&repo, "main", &[("both/x", "1")]);
    repo.branch("both").unwrap().compare_and_set(None, Some(second.into()), Default::default()).unwrap();
    let select = |words: &[&str], rest: Option<&[&str]>| {
        let os = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        revision::select(&repo, &[], &os(words), rest.map(os).as_deref(), Some(second.into()))
    };
    let found = select(&["main", "^main~1", "fruit/apple"], None).unwrap();
    assert_eq!((found.heads[0].oid(), found.exclude[0].oid(), found.heads_before), (second.oid, first.oid, 1));
    assert_eq!(found.paths.iter().map(ToString::to_string).collect::<Vec<_>>(), ["fruit/apple"]);
    let range = select(&["main~1..main"], None).unwrap();
    assert_eq!((range.heads[0].oid(), range.exclude[0].oid(), range.heads_before), (second.oid, first.oid, 0));
    assert!(matches!(select(&["both"], None), Err(Error::Revision(RevisionError::Both { .. }))));
    assert!(matches!(select(&["neither"], None), Err(Error::Revision(RevisionError::Neither { .. }))));
    assert!(matches!(select(&["main~x"], None), Err(Error::Revision(RevisionError::Syntax { .. }))));
    assert_eq!(select(&["both"], Some(&["gone/x"])).unwrap().paths.len(), 1, "behind -- there are paths");
    // What can only be a revision is none by being a path, and may be both.
    let from = |revision: &str| {
        let words = [revision, "fruit/apple"].map(OsString::from);
        revision::select(&repo, &words[..1], &words[1..], None, Some(second.into()))
    };
    assert_eq!((from("main~1").unwrap().heads[0].oid(), from("both").unwrap().paths.len()), (first.oid, 1));
    assert_eq!(from("fruit").unwrap_err().kind(), ErrorKind::NotFound);
    let pair = revision::pair(&repo, word("main~1...main")).unwrap().unwrap();
    assert_eq!((pair.0.oid(), pair.1.oid()), (first.oid, second.oid));
    let lone = repo.branch("lone").unwrap();
    let mut tree = repo.tree();
    tree.set("z", "1").unwrap();
    lone.commit(&mut tree, &bristlecone::Info::message("alone")).unwrap();
    let apart = revision::pair(&repo, word("lone...main"));
    assert!(matches!(apart, Err(Error::Revision(RevisionError::NoAncestor { .. }))), "{apart:?}");
}

#[test]
fn commits_are_signed_as_the_format_can() {
    let at = Moment::parse("1700000000 +0130").unwrap();
    let who = || Identity::named(b"A B <a@b>").unwrap();
    let git = who().info(&AnyFormat::git(Algorithm::Sha1), &at, b"message").unwrap();
    let author = git.author.clone().unwrap();
    assert_eq!((&git.message[..], &author.ident[..]), (&b"message\n"[..], &b"A B <a@b>"[..]));
    assert_eq!((author.seconds, git.committer), (1_700_000_000, git.author));
    let native = who().info(&AnyFormat::default(), &at, b"message").unwrap();
    assert_eq!((&native.message[..], native.author.unwrap().zone.minutes()), (&b"message"[..], 90));
    let error = Identity::named(b"nobody").unwrap_err();
    assert!(matches!(error, Error::Ident { .. }) && error.kind() == ErrorKind::Mistake, "{error:?}");
    if let Some(tezos) = AnyFormat::standard("tezos") {
        let error = who().info(&tezos, &at, b"message").unwrap_err();
        assert!(matches!(&error, Error::Zone { format: "tezos", when } if *when == at), "{error:?}");
        let utc = Moment { zone: Zone::default(), ..at };
        assert_eq!(who().info(&tezos, &utc, b"message").unwrap().author.unwrap().seconds, utc.seconds);
    }
}
