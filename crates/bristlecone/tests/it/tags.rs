//! Annotated tags: from Git's to the commit that they mean.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use bristlecone::{
    Backend, Counted, DiskOptions, Durability, Error, Info, Kind, MemoryBackend, ObjRef, Oid, PeeledTags, RefTarget,
    Repo, Roots, Signature, SweepLimits, Tag, core::git::Git, disk::DiskBackend, storage::RealStorage,
};
use bristlecone_needs::needs;

use crate::real_git::RealGit;

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn tag(target: ObjRef, kind: Kind, name: &str) -> Tag {
    let tagger = Some(Signature::new("T <t@x>", 1_700_000_000));
    Tag { target, kind, name: name.into(), tagger, headers: vec![], message: b"why\n".to_vec() }
}

fn point(repo: &Repo<Git>, name: &str, at: ObjRef) {
    repo.compare_and_set(name, None, Some(RefTarget::Object(at)), Durability::None).unwrap();
}

#[test]
fn tags_lead_to_commits() -> Outcome {
    let repo = Repo::with_backend(Git::sha1(), Arc::new(MemoryBackend::new()));
    let main = repo.branch("main")?;
    let commit = |text: &str| main.edit(&Info::unsigned(text), |tree| tree.set("a", text));
    let (one, two) = (commit("1")?, commit("2")?);
    let v1 = repo.write_tag(&tag(one.into(), Kind::Commit, "v1"), Durability::None)?;
    point(&repo, "refs/tags/v1", v1.into());
    point(&repo, "refs/tags/light", two.into());
    let digits = v1.oid().to_string();
    for text in ["v1", "tags/v1", "refs/tags/v1", "v1^0", "light~1", &digits, &digits[..10]] {
        assert_eq!(repo.revparse(text)?, one, "{text}");
    }
    assert_eq!(
        (repo.tags()?, repo.read_tag(v1)?),
        (vec!["light".to_owned(), "v1".to_owned()], tag(one.into(), Kind::Commit, "v1"))
    );
    // However many tags of tags there are.
    let mut last = ObjRef::from(one);
    for depth in 1..=100 {
        let kind = if depth == 1 { Kind::Commit } else { Kind::Tag };
        last = repo.write_tag(&tag(last, kind, &format!("t{depth}")), Durability::None)?.into();
        assert_eq!(repo.peel(last)?, one, "{depth}");
    }
    // What tags name need not be a commit, nor be here.
    let root = repo.read_commit(one)?.tree;
    let of_root = repo.write_tag(&tag(root.into(), Kind::Node, "root"), Durability::None)?;
    point(&repo, "refs/tags/root", of_root.into());
    assert!(matches!(repo.revparse("root"), Err(Error::WrongKind { oid, .. }) if oid == root.oid()));
    let nowhere = Oid::new(&[9; 20])?;
    let of_nothing = repo.write_tag(&tag(nowhere.into(), Kind::Commit, "gone"), Durability::None)?;
    assert!(matches!(repo.peel(of_nothing), Err(Error::Missing { oid, .. }) if oid == nowhere));
    // They are copied with what they name.
    let other = Repo::with_backend(Git::sha1(), Arc::new(MemoryBackend::new()));
    other.copy_objects(&repo, &[last.oid])?;
    assert_eq!(other.read_tag(last.oid.into())?, repo.read_tag(last.into())?);
    assert_eq!(other.checkout(one.oid().into())?.get("a")?.as_deref(), Some(&b"1"[..]));
    Ok(())
}

/// Each tag of a long line has a ref, which may come in any order.
#[test]
fn of_many_refs_on_one_line_of_tags_each_tag_is_read_once() -> Outcome {
    let counted = Counted::new(Arc::new(MemoryBackend::new()));
    let counts = counted.counts();
    let repo = Repo::with_backend(Git::sha1(), Arc::new(counted));
    let one = repo.branch("main")?.edit(&Info::unsigned("1"), |tree| tree.set("a", "1"))?;
    let root = ObjRef::from(repo.read_commit(one)?.tree);
    let nowhere = ObjRef::from(Oid::new(&[9; 20])?);
    let ends = [(ObjRef::from(one), Kind::Commit), (root, Kind::Node), (nowhere, Kind::Commit)];
    for (end, kind) in ends {
        let (mut line, mut last) = (Vec::new(), (end, kind));
        for depth in 0..300 {
            let written = repo.write_tag(&tag(last.0, last.1, &format!("t{depth}")), Durability::None)?;
            last = (written.into(), Kind::Tag);
            line.push(last.0);
        }
        for step in [1, 299, 7] {
            let (before, mut tags) = (counts.reads.load(Relaxed), PeeledTags::default());
            for place in (0..300).map(|place| place * step % 300) {
                match repo.peel_noting(line[place], &mut tags) {
                    Ok(at) => assert_eq!((at.oid(), kind), (end.oid, Kind::Commit)),
                    Err(Error::WrongKind { oid, .. } | Error::Missing { oid, .. }) => assert_eq!(oid, end.oid),
                    Err(error) => return Err(error.into()),
                }
            }
            let reads = counts.reads.load(Relaxed) - before;
            assert!(reads <= 600, "{reads} reads for 300 tags");
        }
    }
    Ok(())
}

/// The tag and its ref come in one step: at no time is there the one without the other.
#[test]
fn a_tag_that_is_written_with_its_ref_is_kept_by_it() -> Outcome {
    let dir = tempfile::tempdir()?;
    let storage = || Arc::new(RealStorage::new(dir.path()));
    let options = || DiskOptions::default().background(false);
    let repo = Repo::create(dir.path(), Git::sha1(), options())?;
    let one = repo.branch("main")?.edit(&Info::unsigned("one"), |tree| tree.set("a", "1"))?;
    let name = "refs/tags/v1";
    let v1 = repo.write_tag_at(name, None, &tag(one.into(), Kind::Commit, "v1"), Durability::None)?;
    // Another process collects.
    let other = DiskBackend::open(storage(), None, options(), false)?;
    other.sweep(&Roots::new(&[], &|_, _, _| Ok(())), &SweepLimits::default())?;
    assert_eq!((repo.resolve(name)?.map(|at| at.oid), repo.read_tag(v1)?.name), (Some(v1.oid()), b"v1".to_vec()));
    let second = tag(one.into(), Kind::Commit, "v2");
    for wrong in [None, Some(RefTarget::Object(one.into()))] {
        let refused = repo.write_tag_at(name, wrong, &second, Durability::None);
        assert!(matches!(refused, Err(Error::RefMoved { .. })), "{refused:?}");
    }
    assert!(matches!(repo.write_tag_at("a..b", None, &second, Durability::None), Err(Error::RefName { .. })));
    let v2 = repo.write_tag_at(name, Some(RefTarget::Object(v1.into())), &second, Durability::None)?;
    assert_eq!(repo.resolve(name)?.map(|at| at.oid), Some(v2.oid()));
    Ok(())
}

#[needs(git)]
#[test]
fn tags_of_git_are_followed() -> Outcome {
    let git = RealGit::new();
    git.run(&["commit", "-q", "--allow-empty", "-m", "one"], b"");
    git.run(&["tag", "-a", "-m", "first", "v1"], b"");
    git.run(&["tag", "-a", "-m", "of a tag", "v2", "v1"], b"");
    let repo = git.load();
    let commit: Oid = git.line(&["rev-parse", "HEAD"]).parse()?;
    for name in ["v1", "v2"] {
        let at: Oid = git.line(&["rev-parse", name]).parse()?;
        assert_eq!(repo.peel(at)?.oid(), commit, "{name}");
        assert_eq!(repo.read_tag(at.into())?.name, name.as_bytes());
    }
    Ok(())
}
