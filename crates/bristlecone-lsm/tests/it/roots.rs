//! The same edits give the same commits here and in memory, across reopening and sweeps.

use std::sync::Arc;

use bristlecone::{
    Backend as _, Durability, EntryKind, Error, Format as _, Info, MemoryBackend, Native, Path, Repo, Roots,
    SweepLimits,
};
use bristlecone_lsm::LsmBackend;
use bristlecone_testkit::generate::{Edit, Rng, Shape, Universe};

use crate::{create, tiny};

/// Makes edits and commits, and returns the commits.
fn work(repo: &Repo<Native>, seed: u64) -> Result<Vec<bristlecone::CommitId>, Error> {
    let mut rng = Rng::new(seed);
    let universe = Universe::new(Shape::ALL[seed as usize % 3], 50);
    let main = repo.branch("main")?;
    let mut commits = Vec::new();
    for round in 0..40u64 {
        let mut tree = main.tree()?;
        for _ in 0..rng.below(60) {
            match universe.edit(&mut rng) {
                Edit::Add(at, value) => tree.replace(path(&at), &value[..])?,
                Edit::Remove(at) => tree.remove(path(&at))?,
                Edit::Find(at) => _ = tree.get(path(&at))?,
                _ => {}
            }
        }
        tree.set("round", round.to_le_bytes())?;
        assert_eq!(tree.kind("round")?, Some(EntryKind::Value));
        let durability = [Durability::None, Durability::Grouped, Durability::Synced][round as usize % 3];
        commits.push(main.commit(&mut tree, &Info::unsigned("a round").durability(durability))?);
    }
    Ok(commits)
}

fn path(bytes: &[u8]) -> Path {
    Path::from_bytes(bytes).expect("a path")
}

#[test]
fn the_same_work_gives_the_same_commits_as_in_memory() {
    for seed in 0..6 {
        let dir = tempfile::tempdir().unwrap();
        let memory = Repo::with_backend(Native::default(), Arc::new(MemoryBackend::new()));
        let wanted = work(&memory, seed).unwrap();
        let repo = Repo::with_backend(Native::default(), Arc::new(create(dir.path(), tiny())));
        assert_eq!(work(&repo, seed).unwrap(), wanted);
        drop(repo);
        let backend = Arc::new(LsmBackend::open(dir.path(), tiny(), false).unwrap());
        let format = Native::default();
        let children = |_: &bristlecone::Oid, object: &bristlecone::Object<'_>, each: &mut dyn FnMut(_)| {
            Ok(format.children(object.kind(), object.body(), &mut |_, child| each(child))?)
        };
        backend.sweep(&Roots { oids: &[], children: &children }, &SweepLimits::default()).unwrap();
        let repo = Repo::with_backend(Native::default(), backend);
        for (ours, theirs) in wanted.iter().zip(&wanted) {
            let (ours, theirs) = (repo.checkout(*ours).unwrap(), memory.checkout(*theirs).unwrap());
            assert_eq!(ours.root().unwrap(), theirs.root().unwrap());
            assert_eq!(ours.get("round").unwrap(), theirs.get("round").unwrap());
        }
    }
}
