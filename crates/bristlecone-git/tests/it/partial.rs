//! Objects in a repository may lack what they name: after a power cut, or since Git dropped what nothing led to.

use std::sync::Arc;

use bristlecone::{
    Backend, CommitId, Durability, Error, Expected, Format, Layered, MemoryBackend, ObjRef, Object, Oid, RefMove,
    RefTarget, Repo, Roots,
    core::git::{Algorithm, Git},
};
use bristlecone_git::{backend::GitOptions, layout::Layout};
use bristlecone_needs::needs;
use bristlecone_testkit::git::Git as RealGit;

use crate::backend::{info, open};

/// Returns a store of three commits, and the last one.
fn source() -> (Repo<Git>, CommitId) {
    let repo = Repo::with_backend(Git::new(Algorithm::Sha1), Arc::new(MemoryBackend::new()));
    let main = repo.branch("main").unwrap();
    for number in 0..3 {
        let info = info(&number.to_string(), Durability::None);
        main.edit(&info, |tree| tree.set(&*format!("a/n{number}"), number.to_string())).unwrap();
    }
    let head = main.head().unwrap().unwrap();
    (repo, head)
}

fn lead_to(repo: &Repo<Git>, head: Oid) {
    let to = Some(RefTarget::Object(ObjRef::from(head)));
    let wanted = RefMove { name: "refs/heads/main".to_owned(), expected: Expected::Any, to };
    repo.move_refs(&[wanted], Durability::Synced).unwrap();
}

#[needs(git)]
#[test]
fn a_copy_brings_what_objects_lack_that_no_ref_leads_to() {
    let (from, head) = source();
    let mut objects = Vec::new();
    let found = from.backend().each_object(
        &mut |oid, _| {
            objects.push(oid);
            Ok(())
        },
        &mut |_| (),
    );
    found.unwrap();
    assert!(objects.len() >= 12, "{}", objects.len());
    for missing in objects {
        let dir = tempfile::tempdir().unwrap();
        Layout::init(dir.path(), true, Algorithm::Sha1).unwrap();
        let options = GitOptions::default().background(false).loose(true);
        let (_, to) = open(dir.path(), options.clone());
        to.copy_objects(&from, &[head]).unwrap();
        drop(to);
        let name = missing.to_string();
        std::fs::remove_file(dir.path().join("objects").join(&name[..2]).join(&name[2..])).unwrap();
        let (_, to) = open(dir.path(), options);
        assert_eq!(to.copy_objects(&from, &[head]).unwrap().objects, 1, "{missing}");
        lead_to(&to, head.oid());
        RealGit::new(dir.path()).fsck();
        assert_eq!(to.copy_objects(&from, &[head]).unwrap().objects, 0);
    }
}

/// It is read also where nobody wrote it, and `git fsck` asks for it all the same.
#[needs(git)]
#[test]
fn a_copy_brings_the_tree_without_entries() {
    let from = Repo::with_backend(Git::new(Algorithm::Sha1), Arc::new(MemoryBackend::new()));
    let head = from.branch("main").unwrap().commit(&mut from.tree(), &info("empty", Durability::None)).unwrap();
    let dir = tempfile::tempdir().unwrap();
    Layout::init(dir.path(), true, Algorithm::Sha1).unwrap();
    let (backend, to) = open(dir.path(), GitOptions::default());
    let tree = from.read_commit(head).unwrap().tree.oid();
    assert!(backend.read(&ObjRef::from(tree)).unwrap().is_some());
    assert_eq!(to.copy_objects(&from, &[head]).unwrap().objects, 2);
    lead_to(&to, head.oid());
    RealGit::new(dir.path()).fsck();
}

/// Says what an object names.
fn children(oid: &Oid, object: &Object<'_>, each: &mut dyn FnMut(Oid)) -> Result<(), Error> {
    let named = Git::new(Algorithm::Sha1).children(object.kind(), object.body(), &mut |_, child| each(child));
    named.map_err(|source| Error::BadObject { oid: *oid, source })
}

/// An upper store seems to have it from the beginning.
#[needs(git)]
#[test]
fn a_repository_over_another_store_gets_the_tree_without_entries() {
    let lower = Arc::new(MemoryBackend::new());
    let from = Repo::with_backend(Git::new(Algorithm::Sha1), lower.clone());
    let head = from.branch("main").unwrap().commit(&mut from.tree(), &info("empty", Durability::None)).unwrap();
    for (loose, read) in [(false, false), (true, false), (false, true), (true, true)] {
        let dir = tempfile::tempdir().unwrap();
        Layout::init(dir.path(), true, Algorithm::Sha1).unwrap();
        let (upper, to) = open(dir.path(), GitOptions::default().loose(loose));
        let layers = Layered::over(upper, [lower.clone() as Arc<dyn Backend>]);
        if read {
            let layers = layers.promoting(children);
            assert!(layers.read(&ObjRef::from(head.oid())).unwrap().is_some());
            layers.flush().unwrap();
            lead_to(&to, head.oid());
        } else {
            layers.promote_all(&Roots::new(&[], &children)).unwrap();
        }
        RealGit::new(dir.path()).fsck();
    }
}
