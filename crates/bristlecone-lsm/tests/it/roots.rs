//! The same edits give the same commits here and in memory, across reopening and sweeps.

use std::{collections::HashSet, sync::Arc};

use bristlecone::{
    Backend as _, Durability, EntryKind, Error, Format as _, Info, MemoryBackend, Native, Object, Oid, Path, Repo,
    Roots, SweepLimits,
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
        // A commit that nothing leads to has objects in its batch that the next one needs.
        let mut beside = tree.clone();
        beside.set("beside", b"garbage")?;
        repo.commit_tree(&mut beside, &[], &Info::unsigned("beside"))?;
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
        let children = |_: &Oid, object: &Object<'_>, each: &mut dyn FnMut(Oid)| {
            Ok(format.children(object.kind(), object.body(), &mut |_, child| each(child))?)
        };
        let roots = Roots::new(&[], &children);
        let swept = backend.sweep(&roots, &SweepLimits::default()).unwrap();
        assert!(swept.objects >= 80, "{swept:?}");
        let mut open: Vec<Oid> = wanted.iter().map(|id| id.oid()).collect();
        let mut seen = HashSet::new();
        while let Some(oid) = open.pop() {
            if seen.insert(oid) {
                let (ours, theirs) = (backend.read(&oid.into()).unwrap(), memory.backend().read(&oid.into()).unwrap());
                let (ours, theirs) = (ours.expect("what is reached stays"), theirs.expect("memory has it"));
                assert_eq!((ours.kind(), ours.body()), (theirs.kind(), theirs.body()));
                children(&oid, &ours, &mut |child| open.push(child)).unwrap();
            }
        }
        let mut met = 0;
        let mut count = |oid: Oid, _: &Object<'_>| {
            met += usize::from(seen.contains(&oid));
            assert!(seen.contains(&oid), "{oid} was to go");
            Ok(())
        };
        backend.each_object(&mut count, &mut |damage| panic!("{damage:?}")).unwrap();
        assert_eq!(met, seen.len());
    }
}
