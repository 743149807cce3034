//! History that grows behind commits with which it had ended: what descends from what is answered as in a store that had all of it
//! from the first.

use bristlecone::{CommitId, DEEPENED, LogOptions, LogOrder, Repo};
use bristlecone_testkit::sim::SimStorage;

use crate::{
    engine::tiny,
    retention::{commit, create, info, open, point, set},
};

const COMMITS: usize = 40;

/// Returns a store with a line of commits, with a merge of a short side line in the middle, and their ids.
fn whole() -> (Repo, Vec<CommitId>) {
    let repo = create(&SimStorage::new(), &tiny());
    let mut ids: Vec<CommitId> = (0..10).map(|number| commit(&repo, "main", number)).collect();
    point(&repo, "refs/heads/side", Some(ids[5]));
    let side = commit(&repo, "side", 100);
    let mut tree = repo.checkout(ids[9]).unwrap();
    tree.set("merged", "yes").unwrap();
    ids.push(repo.commit_tree(&mut tree, &[ids[9], side], &info(10)).unwrap());
    point(&repo, "refs/heads/main", Some(ids[10]));
    point(&repo, "refs/heads/side", None);
    ids.extend((11..COMMITS).map(|number| commit(&repo, "main", number)));
    (repo, ids)
}

/// Returns a copy of a store whose retention has cut all but the last commits.
fn cut_copy(whole: &Repo, head: CommitId) -> Repo {
    let repo = create(&SimStorage::new(), &tiny());
    repo.copy_objects(whole, &[head]).unwrap();
    point(&repo, "refs/heads/main", Some(head));
    set(&repo, "last 5 refs/heads/*\n");
    assert!(sweep(&repo) > 30);
    repo
}

fn sweep(repo: &Repo) -> u64 {
    repo.sweep(&[], &bristlecone::SweepLimits::default().grace(0)).unwrap().commits
}

/// Whatever is asked of history, both stores answer alike.
fn expect_alike(whole: &Repo, repo: &Repo, ids: &[CommitId], what: &str) {
    let local = |id: &CommitId| CommitId::new(id.oid());
    let ids: Vec<CommitId> = ids.iter().map(local).collect();
    for (one, a) in ids.iter().enumerate() {
        assert_eq!(repo.generation(*a).unwrap(), whole.generation(*a).unwrap(), "{what}: {one}");
        for (other, b) in ids.iter().enumerate() {
            let what = format!("{what}: {one} and {other}");
            assert_eq!(repo.is_ancestor(*a, *b).unwrap(), whole.is_ancestor(*a, *b).unwrap(), "{what}");
            assert_eq!(repo.merge_bases(*a, *b).unwrap(), whole.merge_bases(*a, *b).unwrap(), "{what}");
            assert_eq!(repo.ahead_behind(*a, *b).unwrap(), whole.ahead_behind(*a, *b).unwrap(), "{what}");
        }
    }
    let orders = [LogOrder::Date, LogOrder::Topological, LogOrder::TopologicalByDate];
    for (order, exclude) in orders.into_iter().flat_map(|order| ids.iter().step_by(3).map(move |id| (order, *id))) {
        let mut options = LogOptions::default();
        (options.order, options.exclude) = (order, vec![exclude]);
        let listed = |repo: &Repo| -> Vec<CommitId> {
            repo.log(&ids[ids.len() - 1..], options.clone()).map(|entry| local(&entry.unwrap().id)).collect()
        };
        assert_eq!(listed(repo), listed(whole), "{what}: {order:?} without {exclude}");
    }
}

#[test]
fn a_gap_that_is_filled_is_older_than_what_stands_above_it() {
    let (whole, ids) = whole();
    let cut = cut_copy(&whole, ids[COMMITS - 1]);
    let disk = SimStorage::new();
    let repo = create(&disk, &tiny());
    repo.copy_objects(&cut, &ids[COMMITS - 1..]).unwrap();
    point(&repo, "refs/heads/main", Some(ids[COMMITS - 1]));
    let own = commit(&repo, "main", 1000);
    assert!(repo.is_numbered().unwrap());
    repo.copy_objects(&whole, &[ids[COMMITS - 6]]).unwrap();
    assert!(!repo.is_numbered().unwrap());
    point(&repo, "refs/tags/old", Some(ids[COMMITS - 6]));
    expect_alike(&whole, &repo, &ids, "just filled");
    assert!(repo.is_ancestor(ids[0], own).unwrap());
    // Nor is it otherwise after a collection and in another process.
    sweep(&repo);
    let later = commit(&repo, "main", 1001);
    drop(repo);
    let repo = open(&disk, &tiny());
    expect_alike(&whole, &repo, &ids, "opened again");
    assert!(repo.is_ancestor(ids[0], later).unwrap() && !repo.is_ancestor(later, ids[0]).unwrap());
}

#[test]
fn a_commit_that_is_made_again_fills_a_gap_too() {
    let (whole, ids) = whole();
    let cut = cut_copy(&whole, ids[COMMITS - 1]);
    let repo = create(&SimStorage::new(), &tiny());
    repo.copy_objects(&cut, &ids[COMMITS - 1..]).unwrap();
    point(&repo, "refs/heads/main", Some(ids[COMMITS - 1]));
    let (parents, last) = ids[..COMMITS - 5].split_at(COMMITS - 6);
    repo.copy_objects(&whole, &parents[parents.len() - 1..]).unwrap();
    // Nobody knew of these as absent.
    assert!(repo.is_numbered().unwrap());
    let mut tree = repo.checkout(parents[parents.len() - 1]).unwrap();
    let number = COMMITS - 6;
    tree.set(&*format!("d{}/n{number}", number % 7), number.to_string()).unwrap();
    let again = repo.commit_tree(&mut tree, &parents[parents.len() - 1..], &info(number)).unwrap();
    assert_eq!(again.oid(), last[0].oid());
    assert!(!repo.is_numbered().unwrap());
    expect_alike(&whole, &repo, &ids, "made again");
}

#[test]
fn a_commit_fills_a_gap_that_another_process_has_made_meanwhile() {
    let (whole, ids) = whole();
    let cut = cut_copy(&whole, ids[COMMITS - 1]);
    let disk = SimStorage::new();
    let repo = create(&disk, &tiny());
    let (parent, number) = (ids[COMMITS - 7], COMMITS - 6);
    repo.copy_objects(&whole, &[parent]).unwrap();
    point(&repo, "refs/heads/old", Some(parent));
    let mut tree = repo.checkout(parent).unwrap();
    tree.set(&*format!("d{}/n{number}", number % 7), number.to_string()).unwrap();
    let other = open(&disk, &tiny());
    other.copy_objects(&cut, &ids[COMMITS - 1..]).unwrap();
    point(&other, "refs/heads/main", Some(ids[COMMITS - 1]));
    let again = repo.commit_tree(&mut tree, &[parent], &info(number)).unwrap();
    assert_eq!(again.oid(), ids[number].oid());
    assert!(!repo.is_numbered().unwrap() && !other.is_numbered().unwrap());
    expect_alike(&whole, &repo, &ids, "made again");
    expect_alike(&whole, &other, &ids, "made again elsewhere");
}

#[test]
fn what_is_copied_from_a_cut_store_stands_above_what_is_here() {
    let (whole, ids) = whole();
    let cut = cut_copy(&whole, ids[COMMITS - 1]);
    let repo = create(&SimStorage::new(), &tiny());
    repo.copy_objects(&whole, &[ids[COMMITS - 6]]).unwrap();
    point(&repo, "refs/heads/main", Some(ids[COMMITS - 6]));
    repo.copy_objects(&cut, &ids[COMMITS - 1..]).unwrap();
    point(&repo, "refs/heads/main", Some(ids[COMMITS - 1]));
    assert!(repo.backend().get_ref(DEEPENED).unwrap().is_none());
    expect_alike(&whole, &repo, &ids, "copied upon");
}
