//! Several repositories in one process: what is of one is not taken for what is of another.

use bristlecone::{Error, Info, Repo, Value};

#[test]
fn a_tree_is_committed_in_the_repository_that_it_is_of() {
    let (one, other) = (Repo::memory(), Repo::memory());
    let info = Info::message("first");
    let mut tree = one.tree();
    tree.set("big", vec![7; 10_000]).unwrap();
    let main = other.branch("main").unwrap();
    let errors = [
        other.commit_tree(&mut tree, &[], &info).unwrap_err(),
        other.prepare(&tree, &[], &info).unwrap_err(),
        main.commit(&mut tree, &info).unwrap_err(),
        main.prepare(&tree, &info).unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, Error::Usage { reason } if reason.contains("set_tree")), "{error:?}");
    }
    assert!(tree.is_edited() && main.head().unwrap().is_none());
    // As the error says.
    let mut own = other.tree();
    own.set_tree("", &tree).unwrap();
    main.commit(&mut own, &info).unwrap();
    assert_eq!(main.tree().unwrap().get("big").unwrap().unwrap(), [7; 10_000]);
    // Another handle of the same store is no other repository.
    let again = Repo::with_backend(*one.format(), one.backend().clone());
    again.branch("main").unwrap().commit(&mut tree, &info).unwrap();
}

#[test]
fn a_commit_is_submitted_in_the_repository_that_prepared_it() {
    let (one, other) = (Repo::memory(), Repo::memory());
    let prepare = |repo: &Repo, value: &str| {
        let mut tree = repo.tree();
        tree.set("a/b", value).unwrap();
        // What is written by now the commit leaves out.
        tree.write().unwrap();
        tree.set("c", value).unwrap();
        repo.prepare(&tree, &[], &Info::unsigned(value)).unwrap()
    };
    let commits = vec![prepare(&other, "1"), prepare(&one, "2"), prepare(&other, "3")];
    let ids: Vec<_> = commits.iter().map(|prepared| prepared.id()).collect();
    let done = one.submit(commits);
    assert!(matches!(done[0], Err(Error::Usage { .. })) && matches!(done[2], Err(Error::Usage { .. })), "{done:?}");
    assert_eq!(*done[1].as_ref().unwrap(), ids[1]);
    assert_eq!(one.checkout(ids[1]).unwrap().get("a/b").unwrap().unwrap(), b"2");
    assert!(matches!(one.read_commit(ids[0]), Err(Error::Missing { .. })));
}

#[test]
fn a_value_is_written_to_every_store_that_it_is_set_in() {
    let value = Value::new(vec![7; 10_000]);
    for round in 0..1000 {
        // Where the store of the last round was there may be this one.
        let repo = Repo::memory();
        let branch = repo.branch("main").unwrap();
        branch.edit(&Info::message("first"), |tree| tree.set("a", &value)).unwrap();
        let tree = branch.tree().unwrap();
        assert!(matches!(tree.get("a"), Ok(Some(found)) if found == [7; 10_000]), "round {round}");
    }
}
