//! Forged histories that go in a circle, and tags that do: each question about one has an end.

use bristlecone::{
    Batch, Commit, CommitId, Durability, Error, Format, Kind, Location, LogOptions, Native, Oid, Repo, Signature, Sink,
    Tag,
};

/// Keeps the body of what is put last.
#[derive(Default)]
struct LastBody(Vec<u8>);

impl Sink for LastBody {
    fn put(&mut self, _: Kind, _: Oid, body: &[u8], _: &[Location], _: &[u64]) -> Location {
        self.0 = body.to_vec();
        Location::NONE
    }

    fn known(&self, _: &Oid) -> Option<Location> {
        None
    }
}

/// Returns an id that is made up.
fn id(number: u32) -> Oid {
    let mut bytes = [7; 32];
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    Oid::from_array(bytes)
}

/// Returns a store with commits of one tree, each of which names the one before as its parent, and the first the last; with
/// generation numbers or without. The id of each is made up.
fn circle(length: u32, numbered: bool) -> (Repo, Vec<CommitId>) {
    let repo = Repo::memory();
    let mut tree = repo.tree();
    tree.set("fruit/apple", "red").unwrap();
    let root = tree.write().unwrap();
    let mut batch = Batch::new();
    for number in 0..length {
        let parent = CommitId::new(id(number.checked_sub(1).unwrap_or(length - 1)));
        let commit = Commit::new(root, vec![parent], Signature::new("Ann", 0), "forged");
        let mut body = LastBody::default();
        Native::new().put_commit(&mut body, &commit, 0).unwrap();
        let words = [u64::from(number) + 1];
        batch.put(Kind::Commit, id(number), &body.0, &[Location::NONE; 2], if numbered { &words } else { &[] });
    }
    repo.backend().append(batch, &[], Durability::None).unwrap();
    (repo, (0..length).map(|number| CommitId::new(id(number))).collect())
}

fn is_circular<T: std::fmt::Debug>(answer: Result<T, Error>) {
    assert!(matches!(&answer, Err(Error::BadObject { .. })), "{answer:?}");
}

#[test]
fn generation_numbers_of_a_circle_are_an_error_each_time_they_are_asked_for() {
    for length in [1, 2, 100] {
        let (repo, ids) = circle(length, false);
        let (first, last) = (ids[0], ids[ids.len() - 1]);
        for _ in 0..2 {
            is_circular(repo.generation(first));
            is_circular(repo.is_ancestor(first, last));
            is_circular(repo.merge_bases(first, last));
            is_circular(repo.last_change(last, "fruit/apple"));
            is_circular(repo.index_history(last));
            is_circular(repo.log(&[last], LogOptions::default()).collect::<Result<Vec<_>, _>>());
        }
    }
}

#[test]
fn a_circle_with_generation_numbers_is_followed_once() {
    for length in [1, 2, 100, 5000] {
        let (repo, ids) = circle(length, true);
        let last = ids[ids.len() - 1];
        is_circular(repo.last_change(last, "fruit/apple"));
        is_circular(repo.index_history(last));
        assert_eq!(repo.log(&[last], LogOptions::default()).count(), ids.len());
    }
}

/// More commits than are looked at without positions, and than wait for their parents together.
#[test]
fn a_long_circle_gets_no_positions() {
    for length in [10_000, 20_000] {
        let (repo, ids) = circle(length, true);
        let main = repo.branch("main").unwrap();
        let other = main.edit(&bristlecone::Info::unsigned("other"), |tree| tree.set("a", "b")).unwrap();
        // With its place, as one that is near: what is far gets no positions for a question alone.
        let last = repo.log(&ids[ids.len() - 1..], LogOptions::default()).next().unwrap().unwrap().id;
        assert!(!repo.is_ancestor(other, last).unwrap());
        assert_eq!(repo.indexed_commits().unwrap().graph, 0);
    }
}

#[test]
fn tags_in_a_circle_lead_to_no_commit() {
    for length in [1_u32, 2, 100] {
        let repo = Repo::memory();
        let mut batch = Batch::new();
        for number in 0..length {
            let target = id(number.checked_sub(1).unwrap_or(length - 1)).into();
            let (name, message) = (b"forged".to_vec(), b"forged".to_vec());
            let tag = Tag { target, kind: Kind::Tag, name, tagger: None, headers: Vec::new(), message };
            let mut body = LastBody::default();
            Native::new().put_tag(&mut body, &tag).unwrap();
            batch.put(Kind::Tag, id(number), &body.0, &[Location::NONE], &[]);
        }
        repo.backend().append(batch, &[], Durability::None).unwrap();
        is_circular(repo.peel(id(0)));
    }
}
