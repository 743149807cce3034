//! Edits that take more memory than a tree may have are written in parts: the root is that of one commit, nothing is seen of
//! the parts, and a failure leaves the edits.

use std::sync::Arc;

use bristlecone::{
    Backend, Durability, EntryKind, Error, Format, Info, MemoryBackend, Native, Repo, Tree, TreeId,
    disk::{DiskBackend, DiskOptions},
};
use bristlecone_testkit::{
    crash::step,
    generate::Rng,
    sim::{Fault, Policy, SimStorage, Times},
};

use crate::engine::format_tag;

/// What a tree may have; a part has less than one edit, some edits, and many.
const LIMITS: [usize; 4] = [500, 8_000, 60_000, 400_000];

fn info(durability: Durability) -> Info {
    Info::unsigned("many edits").durability(durability)
}

fn memory<F: Format>(format: F) -> Repo<F> {
    Repo::with_backend(format, Arc::new(MemoryBackend::new()))
}

pub(crate) fn options() -> DiskOptions {
    DiskOptions::default().segment_bytes(1 << 16).maps(false).background(false).collect(false)
}

fn create(disk: &SimStorage) -> Arc<dyn Backend> {
    Arc::new(DiskBackend::create(Arc::new(disk.clone()), format_tag(), options()).unwrap())
}

fn open(disk: &SimStorage) -> Repo {
    let backend = DiskBackend::open(Arc::new(disk.clone()), None, options(), false).unwrap();
    Repo::with_backend(Native::new(), Arc::new(backend))
}

/// Fills directories, wide and deep ones, and the root itself.
fn fill<F: Format>(tree: &mut Tree<F>, entries: u64, seed: u64) -> Result<(), Error> {
    let mut rng = Rng::new(seed);
    for n in 0..entries {
        let value = vec![n as u8; 1 + rng.below(if n % 50 == 0 { 400 } else { 60 }) as usize];
        match n % 4 {
            0 => tree.set(format!("wide/{:08x}", rng.below(1 << 30)), &value[..])?,
            1 => tree.set(format!("{:02x}/{:06x}", rng.below(40), rng.below(1 << 20)), &value[..])?,
            2 => tree.set(format!("deep/a/b/{}/c/d/{}", rng.below(9), rng.below(1 << 20)), &value[..])?,
            _ => tree.set(format!("z{:08x}", rng.below(1 << 30)), &value[..])?,
        }
    }
    Ok(())
}

/// Changes what [`fill`] made, in every way.
fn change<F: Format>(tree: &mut Tree<F>, seed: u64) -> Result<(), Error> {
    let other = tree.get_tree("wide")?.expect("it was filled");
    fill(tree, 500, seed + 1)?;
    for n in 0..20 {
        tree.remove(format!("{n:02x}"))?;
        tree.set(format!("{n:02x}/again/{n}"), "1")?;
    }
    tree.replace("wide", "a value")?;
    tree.replace("deep/a/b/1", "a value, and then a directory")?;
    for n in 0..300 {
        tree.set(format!("deep/a/b/1/{n}"), "below it")?;
    }
    // Of a directory that is put in, some goes and some comes.
    tree.set_tree("moved/here", &other)?;
    let names: Vec<_> =
        other.list("")?.map(|entry| entry.map(|entry| entry.step().to_vec())).collect::<Result<_, _>>()?;
    for name in names.iter().step_by(3) {
        tree.remove(format!("moved/here/{}", String::from_utf8_lossy(name)))?;
    }
    for n in 0..300 {
        tree.set(format!("moved/here/new{n}"), "1")?;
        tree.set_kind(format!("moved/beside/{n}"), EntryKind::Value, "2")?;
        tree.remove(format!("nothing/here/{n}"))?;
    }
    Ok(())
}

fn roots<F: Format>(repo: &Repo<F>, seed: u64) -> Vec<String> {
    let main = repo.branch("main").unwrap();
    let mut tree = repo.tree();
    let mut roots = Vec::new();
    fill(&mut tree, 3000, seed).unwrap();
    main.commit(&mut tree, &info(Durability::None)).unwrap();
    roots.push(main.tree().unwrap().root().unwrap().to_string());
    change(&mut tree, seed).unwrap();
    roots.push(tree.root().unwrap().to_string());
    assert!(tree.is_edited());
    // A copy goes on by itself, whichever of the two is written.
    let mut copy = tree.clone();
    fill(&mut copy, 100, seed + 2).unwrap();
    main.commit(&mut tree, &info(Durability::None)).unwrap();
    roots.push(main.tree().unwrap().root().unwrap().to_string());
    main.commit_over(main.head().unwrap(), &mut copy, &[], &info(Durability::None)).unwrap();
    roots.push(main.tree().unwrap().root().unwrap().to_string());
    roots
}

fn same_roots<F: Format>(format: &F, seed: u64) {
    let whole = roots(&memory(format.clone()), seed);
    for limit in LIMITS {
        let repo = memory(format.clone());
        repo.set_pending_max(limit);
        repo.set_shared_min(limit / 1000);
        assert_eq!(roots(&repo, seed), whole, "{} with {limit} bytes, seed {seed}", F::NAME);
    }
}

#[test]
fn roots_do_not_depend_on_how_much_may_be_pending() {
    for seed in 0..step(2, 4) {
        same_roots(&Native::new(), seed);
        #[cfg(feature = "tezos")]
        same_roots(&bristlecone::Tezos::new(), seed);
    }
    #[cfg(feature = "git")]
    same_roots(&bristlecone::Git::sha1(), 9);
}

#[test]
fn with_little_pending_little_is_written_at_once() {
    let written = |limit: usize| {
        let disk = SimStorage::new();
        let repo = Repo::with_backend(Native::new(), create(&disk));
        repo.set_pending_max(limit);
        let mut tree = repo.tree();
        let before = disk.calls();
        fill(&mut tree, 2000, 5).unwrap();
        let set = disk.calls() - before;
        repo.branch("main").unwrap().commit(&mut tree, &info(Durability::None)).unwrap();
        (set, disk.calls() - before - set)
    };
    let (set, commit) = written(usize::MAX);
    assert_eq!(set, 0);
    let (set_little, commit_little) = written(100_000);
    assert!(set_little >= 3, "{set_little} calls while edits were made");
    assert!(commit_little > commit, "{commit_little} calls in parts, {commit} for the whole");
}

#[test]
fn what_a_power_cut_leaves_is_a_whole_commit() {
    let disk = SimStorage::new();
    let backend = create(&disk);
    disk.keep_moments();
    let repo = Repo::with_backend(Native::new(), backend);
    repo.set_pending_max(20_000);
    let main = repo.branch("main").unwrap();
    let mut acknowledged = Vec::new();
    for seed in 0..3 {
        let mut tree = main.tree().unwrap();
        fill(&mut tree, 400, seed).unwrap();
        main.commit(&mut tree, &info(Durability::Synced)).unwrap();
        acknowledged.push((disk.calls(), main.tree().unwrap().root().unwrap()));
    }
    every_cut_leaves_a_whole_commit(&disk, &acknowledged);
}

/// Cuts the power behind every call, three ways each: what is found is nothing or one of three commits, whole, and no earlier one than
/// was acknowledged by that call.
pub(crate) fn every_cut_leaves_a_whole_commit(disk: &SimStorage, acknowledged: &[(u64, TreeId)]) {
    let (mut seen, mut cuts) = ([0; 4], 0);
    for call in 1..=disk.calls() {
        let Some(moment) = disk.moment(call) else { continue };
        for (policy, seed) in [(Policy::Lost, 1), (Policy::Kept, 2), (Policy::Sectors, call)] {
            let repo = open(&moment.reboot(seed, policy));
            let least = acknowledged.iter().filter(|(calls, _)| *calls < call).count();
            let at = match repo.branch("main").unwrap().head().unwrap() {
                None => 0,
                Some(head) => {
                    let tree = repo.checkout(head).unwrap();
                    let entries = tree.walk_all("").unwrap().try_for_each(|entry| entry.map(drop));
                    entries.unwrap_or_else(|error| panic!("after call {call}, {policy:?}: {error}"));
                    let root = tree.root().unwrap();
                    1 + acknowledged.iter().position(|(_, known)| *known == root).expect("a root that was committed")
                }
            };
            assert!(at >= least, "after call {call}, {policy:?}: commit {at} of {least} that were acknowledged");
            seen[at] += 1;
            cuts += 1;
        }
    }
    assert!(cuts > 100 && seen.iter().all(|&seen| seen > 0), "{cuts} cuts, {seen:?}");
}

#[test]
fn a_full_disk_leaves_the_edits() {
    let disk = SimStorage::new();
    let repo = Repo::with_backend(Native::new(), create(&disk));
    repo.set_pending_max(20_000);
    let mut tree = repo.tree();
    fill(&mut tree, 50, 3).unwrap();
    disk.limit_space(Some(disk.bytes()));
    let mut kept = Vec::new();
    let refused = (0..2000).find_map(|n| match tree.set(format!("full/{n}"), &[7; 60][..]) {
        Ok(()) => {
            kept.push(n);
            None
        }
        Err(error) => Some((n, error)),
    });
    let (n, error) = refused.expect("nothing can be written");
    assert!(matches!(error, Error::NoSpace { .. }), "{error}");
    // The edit that was refused was not made, and those before are there.
    assert_eq!(tree.get(format!("full/{n}")).unwrap(), None);
    assert!(kept.iter().all(|n| tree.contains(format!("full/{n}")).unwrap()));
    disk.limit_space(None);
    tree.set(format!("full/{n}"), &[7; 60][..]).unwrap();
    let root = tree.root().unwrap();
    repo.branch("main").unwrap().commit(&mut tree, &info(Durability::Synced)).unwrap();
    assert_eq!(open(&disk).branch("main").unwrap().tree().unwrap().root().unwrap(), root);
}

#[test]
fn a_fault_while_parts_are_written_leaves_the_edits() {
    let disk = SimStorage::new();
    let repo = Repo::with_backend(Native::new(), create(&disk));
    let main = repo.branch("main").unwrap();
    let mut tree = repo.tree();
    fill(&mut tree, 1000, 3).unwrap();
    let root = tree.root().unwrap();
    repo.set_pending_max(tree_bytes(1000));
    let before = disk.calls();
    disk.fail_at(before + 5, Fault::NoSpace, Times::Once);
    let error = main.commit(&mut tree, &info(Durability::None)).unwrap_err();
    assert!(matches!(error, Error::NoSpace { .. }), "{error}");
    assert_eq!(main.head().unwrap(), None);
    assert_eq!(tree.root().unwrap(), root);
    main.commit(&mut tree, &info(Durability::Synced)).unwrap();
    assert_eq!(main.tree().unwrap().root().unwrap(), root);
}

/// More than so many edits take, so that only the commit writes.
fn tree_bytes(edits: usize) -> usize {
    edits * 2000
}

#[test]
fn a_directory_in_the_way_is_said_by_the_commit() {
    let repo = memory(Native::new());
    repo.set_pending_max(8_000);
    let main = repo.branch("main").unwrap();
    main.edit(&info(Durability::None), |tree| tree.set("taken/by", "a directory")).unwrap();
    let mut tree = main.tree().unwrap();
    tree.set("taken", "1").unwrap();
    fill(&mut tree, 1000, 3).unwrap();
    let error = main.commit(&mut tree, &info(Durability::None)).unwrap_err();
    assert!(matches!(&error, Error::IsDirectory { path } if path.to_string() == "taken"), "{error}");
    tree.replace("taken", "1").unwrap();
    main.commit(&mut tree, &info(Durability::None)).unwrap();
    let mut other = memory(Native::new()).tree();
    fill(&mut other, 1000, 3).unwrap();
    other.set("taken", "1").unwrap();
    assert_eq!(main.tree().unwrap().root().unwrap(), other.root().unwrap());
}

#[test]
fn edits_are_written_in_parts_behind_a_commit_in_flight_once_it_is_made() {
    let repo = memory(Native::new());
    repo.set_pending_max(60_000);
    let main = repo.branch("main").unwrap();
    let mut tree = main.tree().unwrap();
    tree.set("first", "1").unwrap();
    let mut frozen = tree.fork_for_commit().unwrap();
    main.commit(&mut frozen, &info(Durability::None)).unwrap();
    let before = repo.backend().stats().bytes_written;
    fill(&mut tree, 3000, 7).unwrap();
    assert!(repo.backend().stats().bytes_written > before, "nothing was written though there are many edits");
    let mut twin = repo.tree();
    twin.set("first", "1").unwrap();
    fill(&mut twin, 3000, 7).unwrap();
    main.commit(&mut tree, &info(Durability::None)).unwrap();
    assert_eq!(tree.root().unwrap(), twin.root().unwrap());
}

#[test]
fn removals_from_a_map_are_written_in_parts_as_other_edits_are() {
    let repo = memory(Native::new());
    let key = |n: u32| n.to_be_bytes();
    let mut map = repo.load_map((0..2000).map(|n| (key(n), [1_u8]))).unwrap();
    repo.set_pending_max(20_000);
    let before = repo.backend().stats().bytes_written;
    for n in 0..1500 {
        map.remove(&key(n)).unwrap();
    }
    assert!(repo.backend().stats().bytes_written > before, "nothing was written though there are many edits");
    assert_eq!(map.len().unwrap(), 500);
    let rest = repo.load_map((1500..2000).map(|n| (key(n), [1_u8]))).unwrap();
    assert_eq!(map.root().unwrap(), rest.root().unwrap());
}

#[test]
fn what_is_put_in_of_a_store_with_other_options_counts_as_pending() {
    let mut other = memory(Native::new().inline(0)).tree();
    (0..100).for_each(|n| other.set(format!("{n}"), "1").unwrap());
    other.write().unwrap();
    let (repo, whole) = (memory(Native::new()), memory(Native::new()));
    repo.set_pending_max(60_000);
    let (mut tree, mut twin) = (repo.tree(), whole.tree());
    let before = repo.backend().stats().bytes_written;
    for n in 0..10 {
        tree.set_tree(format!("{n}"), &other).unwrap();
        (0..100).for_each(|entry| twin.set(format!("{n}/{entry}"), "1").unwrap());
    }
    assert!(repo.backend().stats().bytes_written > before, "nothing was written though there are many edits");
    assert_eq!(tree.root().unwrap(), twin.root().unwrap());
}
