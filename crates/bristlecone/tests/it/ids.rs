//! Hints of ids: what a store does with its own, and with those of others.

use bristlecone::{CommitId, Durability, Error, Info, Kind, Location, ObjRef, Repo};

/// Two stores that hold the same commit at different places.
fn pair() -> Result<(Repo, Repo, CommitId), Error> {
    let (one, other) = (Repo::memory(), Repo::memory());
    other.branch("else")?.edit(&Info::unsigned("before it"), |tree| tree.set("padding", vec![7; 10_000]))?;
    let head = one.branch("main")?.edit(&Info::unsigned("first"), |tree| tree.set("a", "1"))?;
    other.copy_objects(&one, &[head])?;
    Ok((one, other, head))
}

/// The places that a commit's record has for its tree and its parents.
fn places(repo: &Repo, id: CommitId) -> Result<Vec<Location>, Error> {
    let object = repo.backend().read(&id.into())?.expect("it was written");
    Ok((0..=repo.read_commit(id)?.parents.len()).map(|index| object.child(index)).collect())
}

#[test]
fn a_hint_of_another_store_is_not_written() -> Result<(), Error> {
    let (one, other, head) = pair()?;
    let place = ObjRef::from(head).at;
    assert!(place.is_some());
    let next = |repo: &Repo, tree_of: CommitId| {
        let mut tree = repo.checkout(tree_of)?;
        tree.set("b", "2")?;
        repo.commit_tree(&mut tree, &[head], &Info::unsigned("second"))
    };
    let (own, foreign) = (next(&one, head)?, next(&other, head)?);
    assert_eq!(own, foreign);
    assert_eq!(places(&one, own)?[1], place);
    assert_eq!(places(&other, foreign)?[1], Location::NONE);

    // Nor where a whole commit comes from elsewhere.
    let commit = one.read_commit(own)?;
    let root = other.read_commit(foreign)?.tree;
    let third = Repo::memory();
    assert_eq!(third.write_commit(&commit, 2, Durability::None)?, own);
    assert_eq!(places(&third, own)?, [Location::NONE; 2]);
    assert_eq!(root, commit.tree);
    Ok(())
}

#[test]
fn refs_that_a_branch_moves_have_hints_of_their_own_store() -> Result<(), Error> {
    let (one, other, head) = pair()?;
    let held = |repo: &Repo| match repo.backend().get_ref("refs/heads/copy") {
        Ok(Some(bristlecone::RefTarget::Object(at))) => at.at,
        found => panic!("{found:?}"),
    };
    one.branch("copy")?.compare_and_set(None, Some(head), Durability::None)?;
    other.branch("copy")?.compare_and_set(None, Some(head), Durability::None)?;
    assert_eq!((held(&one), held(&other)), (ObjRef::from(head).at, Location::NONE));
    Ok(())
}

#[test]
fn ids_that_a_store_gave_have_its_hints() -> Result<(), Error> {
    let repo = Repo::memory();
    let main = repo.branch("main")?;
    for n in 0..5 {
        main.edit(&Info::unsigned("one more"), |tree| tree.set(format!("dir/{n}"), vec![n; 100]))?;
    }
    let head = main.head()?.expect("a head");
    let hinted = |at: ObjRef| at.at.is_some();
    for entry in repo.log(&[head], Default::default()) {
        let entry = entry?;
        assert!(hinted(entry.id.into()), "{}", entry.id);
        assert!(entry.commit.parents.iter().all(|&parent| hinted(parent.into())));
        let tree = repo.tree_at(entry.commit.tree);
        assert!(hinted(tree.root()?.into()) && hinted(entry.commit.tree.into()));
    }
    let bare = CommitId::new(head.oid());
    assert_eq!(repo.checkout(bare)?.root()?, repo.checkout(head)?.root()?);
    Ok(())
}

#[test]
fn a_wrong_hint_of_ones_own_costs_a_lookup_and_no_more() -> Result<(), Error> {
    let repo = Repo::memory();
    let main = repo.branch("main")?;
    let first = main.edit(&Info::unsigned("first"), |tree| tree.set("a", "1"))?;
    let second = main.edit(&Info::unsigned("second"), |tree| tree.set("a", "2"))?;
    let astray = repo.commit_id(ObjRef::new(first.oid(), ObjRef::from(second).at));
    assert_eq!(repo.read_commit(astray)?.message, b"first");
    assert_eq!(repo.checkout(astray)?.get("a")?.as_deref(), Some(&b"1"[..]));
    Ok(())
}

#[test]
fn an_id_of_another_kind_is_told_apart_when_it_is_read() -> Result<(), Error> {
    let repo = Repo::memory();
    let head = repo.branch("main")?.edit(&Info::unsigned("first"), |tree| tree.set("a", "1"))?;
    let root = repo.read_commit(head)?.tree;
    match repo.read_commit(root.oid().into()) {
        Err(Error::WrongKind { oid, found: Kind::Node, expected: Kind::Commit }) => assert_eq!(oid, root.oid()),
        other => panic!("{other:?}"),
    }
    Ok(())
}
