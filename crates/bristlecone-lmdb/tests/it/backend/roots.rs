//! The same work gives the same roots as in memory, whatever is swept or opened again in between.

use std::{path::Path, sync::Arc};

use bristlecone::{Backend, Durability, Info, MemoryBackend, Native, Repo, TreeId};
use bristlecone_lmdb::backend::LmdbOptions;
use bristlecone_testkit::generate::Rng;

use super::{create, open};

/// Commits at random, opens the store anew now and then, and returns the roots.
fn work(seed: u64, reopen: &mut dyn FnMut() -> Arc<dyn Backend>) -> Vec<TreeId> {
    let mut rng = Rng::new(seed);
    let mut roots = Vec::new();
    for _ in 0..4 {
        let repo = Repo::with_backend(Native::new(), reopen());
        let main = repo.branch("main").unwrap();
        for _ in 0..12 {
            let mut tree = main.tree().unwrap();
            for _ in 0..rng.below(60) {
                let path = format!("{}/{}/{}", rng.below(4), rng.below(9), rng.below(300));
                let bytes = if rng.chance(1, 20) { 9000 } else { rng.index(90) };
                match rng.below(4) {
                    0 => drop(tree.remove(path.as_str())),
                    _ => tree.set(path.as_str(), rng.bytes(bytes)).unwrap(),
                }
            }
            roots.push(tree.root().unwrap());
            main.commit(&mut tree, &Info::message("a step")).unwrap();
        }
    }
    roots
}

fn lmdb_work(dir: &Path, seed: u64, options: &LmdbOptions) -> Vec<TreeId> {
    drop(create(dir, options));
    work(seed, &mut || Arc::new(open(dir, options)))
}

#[test]
fn the_same_work_gives_the_same_roots_as_in_memory() {
    for seed in 0..4 {
        let memory: Arc<dyn Backend> = Arc::new(MemoryBackend::new());
        let wanted = work(seed, &mut || memory.clone());
        let dir = tempfile::tempdir().unwrap();
        let found = lmdb_work(dir.path(), seed, &LmdbOptions::default().map_bytes(1 << (20 + seed)));
        assert_eq!(found, wanted);
        let backend = open(dir.path(), &LmdbOptions::default());
        assert!(backend.each_object(&mut |_, _| Ok(()), &mut |damage| panic!("{damage:?}")).is_ok());
    }
}

#[test]
fn a_group_shares_syncs_and_they_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), &LmdbOptions::default().background(false));
    let syncs = |durability| {
        let before = backend.stats().syncs;
        super::children::raise_count(&backend, super::children::read_count(&backend, 0), durability).unwrap();
        backend.stats().syncs - before
    };
    assert_eq!(syncs(Durability::None), 1, "the data");
    assert_eq!(syncs(Durability::Synced), 2, "the data, and the page that makes them count");
    assert_eq!(syncs(Durability::Grouped), 2, "no thread syncs later");
    let before = backend.stats();
    backend.append_many(vec![Default::default(); 5], Durability::None).into_iter().for_each(|one| assert!(one.is_ok()));
    assert_eq!(backend.stats().writes, before.writes, "nothing is written for nothing");
}
