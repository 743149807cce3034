//! A history that tests can check: commits with numbers, two refs that move together, and garbage that nothing leads to.

use bristlecone::{
    Backend, Batch, Durability, Error, Expected, Kind, Location, ObjRef, Object, Oid, RefMove, RefTarget, Roots,
    Sink as _, SweepLimits, Swept,
};
use bristlecone_testkit::generate::Rng;

/// The refs, which move together.
pub(crate) const REFS: [&str; 2] = ["heads/main", "heads/other"];
/// Added to the number of a commit, this is that of the garbage beside it.
const GARBAGE: u64 = 1 << 40;

/// Returns the id of the object with this number.
pub(crate) fn oid(number: u64) -> Oid {
    let mut id = [0; 32];
    Rng::new(number).fill(&mut id);
    Oid::from_array(id)
}

/// Returns the body of the object with this number.
fn body(number: u64) -> Vec<u8> {
    let mut rng = Rng::new(number ^ 0xb0d7);
    let length = if rng.chance(1, 40) { 70_000 } else { rng.index(3000) };
    let mut body = number.to_le_bytes().to_vec();
    body.extend(rng.bytes(length));
    body
}

fn number_of(object: &Object<'_>) -> u64 {
    u64::from_le_bytes(*object.body().first_chunk().expect("a body begins with a number"))
}

/// Commits the next number after that of the refs, and returns it.
pub(crate) fn commit(backend: &dyn Backend, durability: Durability) -> Result<u64, Error> {
    let head = backend.get_ref(REFS[0])?;
    let (before, at) = match &head {
        Some(RefTarget::Object(at)) => (number_of(&backend.read(at)?.expect("the head is there")), at.at),
        _ => (0, Location::NONE),
    };
    let number = before + 1;
    let mut batch = Batch::since(backend.sweeps());
    let to = batch.put(Kind::Commit, oid(number), &body(number), &[at], &[number]);
    let expected = head.map_or(Expected::Absent, Expected::Is);
    let moves = REFS.map(|name| RefMove {
        name: name.to_owned(),
        expected: expected.clone(),
        to: Some(RefTarget::Object(ObjRef::new(oid(number), to))),
    });
    backend.append(batch, &moves, durability)?;
    Ok(number)
}

/// Appends an object that nothing leads to.
pub(crate) fn litter(backend: &dyn Backend, number: u64) -> Result<(), Error> {
    let mut batch = Batch::since(backend.sweeps());
    batch.put(Kind::Contents, oid(GARBAGE + number), &body(GARBAGE + number), &[], &[]);
    backend.append_keeping(&mut batch).map(drop)
}

/// Sweeps the garbage.
pub(crate) fn sweep(backend: &dyn Backend) -> Result<Swept, Error> {
    let children = |_: &Oid, object: &Object<'_>, each: &mut dyn FnMut(Oid)| {
        let number = number_of(object);
        if (2..GARBAGE).contains(&number) {
            each(oid(number - 1));
        }
        Ok(())
    };
    backend.sweep(&Roots::new(&[], &children), &SweepLimits::default())
}

/// Returns the number that both refs are at.
pub(crate) fn head(backend: &dyn Backend) -> Result<u64, Error> {
    let [one, other] = REFS.map(|name| backend.get_ref(name));
    let (one, other) = (one?, other?);
    assert_eq!(one, other, "the refs move together");
    match one {
        Some(RefTarget::Object(at)) => {
            let object = backend.read(&at)?.expect("what a ref names is there");
            Ok(number_of(&object))
        }
        _ => Ok(0),
    }
}

/// Reads every commit up to one, by its id and by the place that its child has noted.
pub(crate) fn check(backend: &dyn Backend, head: u64) -> Result<(), Error> {
    let snapshot = backend.snapshot(&[]);
    let mut hint = Location::NONE;
    for number in (1..=head).rev() {
        for at in [ObjRef::new(oid(number), hint), ObjRef::from(oid(number))] {
            let object = snapshot.read(&at)?.unwrap_or_else(|| panic!("commit {number} of {head} is missing"));
            assert!(object.body() == body(number), "commit {number} has other bytes");
            assert_eq!((object.kind(), object.metadata_word(0)), (Kind::Commit, Some(number)));
        }
        hint = snapshot.read(&oid(number).into())?.expect("just read").child(0);
    }
    Ok(())
}
