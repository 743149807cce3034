//! Of many edits, what threads make is appended as soon as it is made: nothing is seen of it before the commit, a power cut
//! leaves whole commits, and a failure leaves the edits.

use std::sync::Arc;

use bristlecone::{Durability, Error, Info, Map, MemoryBackend, Native, Repo, Result, SweepLimits, disk::DiskOptions};
use bristlecone_testkit::{
    generate::Rng,
    sim::{Fault, SimStorage, Times},
};

use crate::{
    engine::tiny_as_shipped,
    parts::{every_cut_leaves_a_whole_commit, options},
    retention::{create, open},
};

fn info(durability: Durability) -> Info {
    Info::unsigned("many entries").durability(durability)
}

/// Returns a repository in which a few changes of a directory are many.
fn with_few(disk: &SimStorage, options: &DiskOptions, threads: usize) -> Repo {
    let repo = create(disk, options);
    repo.set_threads(threads);
    repo.set_shared_min(40);
    repo
}

/// Sets and removes many entries of a map.
fn edit(map: &mut Map, seed: u64) -> Result<()> {
    let mut rng = Rng::new(seed);
    let mut edits = Vec::new();
    for n in 0..1500 {
        // In part within the directory, in part objects of their own: new ones, and some that may be there already.
        let length = rng.below(140) as usize;
        let value = if n % 2 == 0 { vec![n as u8; length] } else { format!("{seed} {n:0length$}").into_bytes() };
        edits.push((format!("{:08x}", rng.below(4000)), if rng.chance(1, 4) { None } else { Some(value) }));
    }
    map.apply(edits.iter().map(|(key, value)| (key, value.as_deref())))
}

/// Returns the roots that commits of such edits have, by one thread in memory.
fn roots(commits: u64) -> Vec<String> {
    let repo = Repo::with_backend(Native::new(), Arc::new(MemoryBackend::new()));
    let mut map = repo.map();
    let root = |seed| {
        edit(&mut map, seed).unwrap();
        map.root().unwrap().to_string()
    };
    (0..commits).map(root).collect()
}

#[test]
fn what_is_made_is_appended_before_the_commit_is_and_is_the_same() -> Result<()> {
    let wanted = roots(4);
    for (threads, options) in [(1, options()), (2, options()), (3, options()), (2, tiny_as_shipped())] {
        let disk = SimStorage::new();
        let repo = with_few(&disk, &options, threads);
        let backend = repo.backend().clone();
        let main = repo.branch("main")?;
        let mut map = main.map()?;
        for (seed, wanted) in wanted.iter().enumerate() {
            edit(&mut map, seed as u64)?;
            let before = backend.stats();
            map.commit(&main, &info(Durability::None))?;
            let after = backend.stats();
            assert!(
                after.batches - before.batches > 5,
                "{threads} threads: {} batches",
                after.batches - before.batches
            );
            assert_eq!(&map.root()?.to_string(), wanted);
            assert_eq!(&main.map()?.root()?.to_string(), wanted);
        }
        // As another process finds it.
        drop((map, main, repo, backend));
        let found = open(&disk, &options).branch("main")?.map()?;
        assert_eq!(&found.root()?.to_string(), wanted.last().unwrap());
        let mut model = Repo::memory().map();
        (0..4).try_for_each(|seed| edit(&mut model, seed))?;
        let entries = |map: &Map| {
            map.iter().unwrap().map(|entry| entry.unwrap()).map(|(k, v)| (k.to_vec(), v.to_vec())).collect::<Vec<_>>()
        };
        assert_eq!(entries(&found), entries(&model));
    }
    Ok(())
}

#[test]
fn where_the_branch_has_moved_nothing_is_appended() -> Result<()> {
    let repo = with_few(&SimStorage::new(), &options(), 2);
    let backend = repo.backend();
    let main = repo.branch("main")?;
    let mut map = main.map()?;
    edit(&mut map, 1)?;
    main.edit(&info(Durability::None), |tree| tree.set("x", "1"))?;
    let before = backend.stats().bytes_written;
    assert!(matches!(map.commit(&main, &info(Durability::None)), Err(Error::RefMoved { .. })));
    assert_eq!(backend.stats().bytes_written, before);
    let mut again = Repo::memory().map();
    edit(&mut again, 1)?;
    assert_eq!(map.root()?, again.root()?, "the map keeps its edits");
    Ok(())
}

#[test]
fn a_power_cut_leaves_a_whole_commit() -> Result<()> {
    let disk = SimStorage::new();
    let repo = with_few(&disk, &options(), 2);
    disk.keep_moments();
    let main = repo.branch("main")?;
    let mut map = main.map()?;
    let mut acknowledged = Vec::new();
    for seed in 0..3 {
        edit(&mut map, seed)?;
        map.commit(&main, &info(Durability::Synced))?;
        acknowledged.push((disk.calls(), map.root()?));
    }
    every_cut_leaves_a_whole_commit(&disk, &acknowledged);
    Ok(())
}

#[test]
fn a_full_disk_leaves_the_edits_wherever_it_is_met() -> Result<()> {
    let wanted = roots(1);
    let (mut refused, mut poisoned) = (0, 0);
    for call in (1..40).chain(1..40) {
        let disk = SimStorage::new();
        let repo = with_few(&disk, &options(), 2);
        let main = repo.branch("main")?;
        let mut map = main.map()?;
        edit(&mut map, 0)?;
        disk.fail_at(disk.calls() + call, Fault::NoSpace, Times::Once);
        let done = map.commit(&main, &info(Durability::None));
        disk.heal();
        if let Err(error) = done {
            assert!(matches!(error, Error::NoSpace { .. } | Error::Poisoned { .. }), "call {call}: {error}");
            refused += 1;
            assert_eq!(main.head()?, None);
            match map.commit(&main, &info(Durability::Synced)) {
                // Where it was a sync that failed, the store is opened anew.
                Err(Error::Poisoned { .. }) => {
                    let repo = open(&disk, &options());
                    let mut again = repo.map();
                    edit(&mut again, 0)?;
                    again.commit(&repo.branch("main")?, &info(Durability::Synced))?;
                    poisoned += 1;
                }
                done => drop(done?),
            }
        }
        assert_eq!(map.root()?.to_string(), wanted[0]);
        let found = open(&disk, &options()).branch("main")?.map()?;
        assert_eq!((found.root()?.to_string(), found.iter()?.all(|entry| entry.is_ok())), (wanted[0].clone(), true));
    }
    assert!(refused > 10 && poisoned < refused / 2, "{refused} calls, of which {poisoned} were syncs");
    Ok(())
}

#[test]
fn equal_values_all_over_a_directory_are_appended_hardly_more_often_than_once() -> Result<()> {
    let values = |shared_min| {
        let repo = with_few(&SimStorage::new(), &options(), 2);
        repo.set_shared_min(shared_min);
        let main = repo.branch("main")?;
        let mut map = main.map()?;
        let edits: Vec<_> = (0..3000).map(|n| (format!("{n:05}"), vec![(n % 50) as u8; 100])).collect();
        map.apply(edits.iter().map(|(key, value)| (key, Some(&value[..]))))?;
        map.commit(&main, &info(Durability::None))?;
        let mut values = 0;
        let count = &mut |_, object: &bristlecone::Object<'_>| {
            values += u64::from(object.kind() == bristlecone::Kind::Contents);
            Ok(())
        };
        repo.backend().each_object(count, &mut |damage| panic!("{damage:?}"))?;
        Ok::<_, Error>((values, map.root()?))
    };
    let (whole, early) = (values(usize::MAX)?, values(40)?);
    assert_eq!((whole.0, early.1), (50, whole.1));
    // Two threads may append the same one at the same time.
    assert!(early.0 <= 150, "{} values", early.0);
    Ok(())
}

#[test]
fn what_was_appended_early_goes_with_its_commit() {
    let left = |shared_min: usize| {
        let disk = SimStorage::new();
        let repo = with_few(&disk, &options(), 2);
        repo.set_shared_min(shared_min);
        repo.set_retention(&"last 2 refs/heads/*\n".parse().unwrap()).unwrap();
        let main = repo.branch("main").unwrap();
        let mut map = main.map().unwrap();
        for seed in 0..12 {
            edit(&mut map, seed).unwrap();
            map.commit(&main, &info(Durability::None)).unwrap();
        }
        let root = map.root().unwrap();
        drop(map);
        // Within a day of all of it.
        repo.sweep(&[], &SweepLimits::default().grace(86_400)).unwrap();
        assert_eq!(main.map().unwrap().root().unwrap(), root);
        let mut objects = 0;
        let count = &mut |_, _: &bristlecone::Object<'_>| {
            objects += 1;
            Ok(())
        };
        repo.backend().each_object(count, &mut |damage| panic!("{damage:?}")).unwrap();
        objects
    };
    let (whole, early) = (left(usize::MAX), left(40));
    assert!(early <= whole + whole / 50, "{early} objects are left, {whole} where all is appended at the end");
}
