//! Commits that are synced while the next block is applied.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use bristlecone::{
    Backend, Batch, Durability, Error, Format, Location, MemoryBackend, Native, RefMove, Repo,
    disk::{DiskBackend, DiskOptions, FormatTag},
    pass_backend,
};
use bristlecone_testkit::sim::{Fault, Policy, SimStorage, Times};

use super::*;
use crate::{
    BlockHash, TxId,
    utxo::{TreeUtxo, UtxoError, UtxoTip},
};

fn options() -> DiskOptions {
    DiskOptions::default().segment_bytes(1 << 16).maps(false).background(false).collect(false)
}

fn create(disk: &SimStorage) -> Repo<Native> {
    let format = TreeUtxo::format();
    let tag = FormatTag { name: Native::NAME.to_owned(), version: Native::VERSION, options: format.options() };
    let backend = DiskBackend::create(Arc::new(disk.clone()), tag, options()).unwrap();
    Repo::with_backend(TreeUtxo::format(), Arc::new(backend))
}

fn open(disk: &SimStorage) -> TreeUtxo {
    let backend = DiskBackend::open(Arc::new(disk.clone()), None, options(), false).unwrap();
    let repo = Repo::with_backend(TreeUtxo::format(), Arc::new(backend));
    TreeUtxo::open(&repo, "main", Durability::Synced).unwrap()
}

fn behind(repo: &Repo<Native>) -> TreeUtxo {
    TreeUtxo::open(repo, "main", Durability::Synced).unwrap().sync_behind().unwrap()
}

/// Creates an output, and spends that of three blocks before.
fn commit(set: &mut TreeUtxo, number: u64) -> Result<(), UtxoError> {
    let output = |number: u64| OutputRef { tx: TxId([number as u8; 32]), index: 0 };
    let mut changes = Changes::default();
    changes.create(output(number), &[0x82, 0x40, number as u8]);
    if number >= 3 {
        changes.spend(output(number - 3));
    }
    let hash = BlockHash([number as u8; 32]);
    set.commit(&mut changes, UtxoTip::Block(Point { slot: 20 * number, number, hash }))
}

#[test]
fn a_replay_that_syncs_behind_ends_on_the_same_commit() {
    let options = ReplayOptions::default().commit_unchanged(true);
    let reference = repo();
    let report = done(&mut tree(&reference), "devnet", options.clone().allow_missing(true), &[]);
    let dir = tempfile::tempdir().unwrap();
    let disk = Repo::create(dir.path().join("set"), TreeUtxo::format(), DiskOptions::default()).unwrap();
    let before = disk.backend().stats().syncs;
    let same = done(&mut behind(&disk), "devnet", options.allow_missing(true), &[]);
    assert_eq!((same.commits, same.tip, same.entries), (report.commits, report.tip, report.entries));
    assert!(same.commits > 300 && same.commit_p50_us > 0.0, "{same:?}");
    let syncs = disk.backend().stats().syncs - before;
    // At most four commits wait and share a sync, with one that was just appended.
    assert!(syncs >= same.commits / 5, "{syncs} syncs for {} commits", same.commits);
    let head = |repo: &Repo<Native>| repo.branch("main").unwrap().head().unwrap();
    assert_eq!(head(&disk), head(&reference));
}

#[test]
fn wherever_the_power_goes_what_was_acknowledged_is_there() {
    let disk = SimStorage::new();
    let repo = create(&disk);
    disk.keep_moments();
    let mut set = behind(&repo);
    let mut acknowledged = vec![(disk.calls(), 0)];
    for number in 0..24 {
        commit(&mut set, number).unwrap();
        assert!((1..=4).contains(&set.unsettled()), "{}", set.unsettled());
        acknowledged.push((disk.calls(), number + 1 - set.unsettled() as u64));
    }
    set.settle().unwrap();
    assert_eq!(set.unsettled(), 0);
    acknowledged.push((disk.calls(), 24));
    let settled = Instant::now();
    let times: Vec<Instant> = (0..24).map(|_| set.settled_at()).collect();
    assert!(times.is_sorted() && times[23] < settled && set.settled_at() > settled);
    drop(set);
    let mut cuts = 0;
    for call in 1..=disk.calls() {
        let Some(moment) = disk.moment(call) else { continue };
        for (policy, seed) in [(Policy::Lost, 1), (Policy::Kept, 2), (Policy::Sectors, call)] {
            let least = acknowledged.iter().rev().find(|(calls, _)| *calls <= call).map_or(0, |(_, height)| *height);
            let set = open(&moment.reboot(seed, policy));
            let height = set.tip().height();
            assert!(height >= least, "after call {call}, {policy:?}: {height} of {least} that were acknowledged");
            assert_eq!(set.entries().unwrap(), height.min(3), "after call {call}, {policy:?}");
            cuts += 1;
        }
    }
    assert!(cuts > 50, "{cuts}");
}

#[test]
fn a_sync_that_fails_behind_ends_the_commits() {
    let disk = SimStorage::new();
    let repo = create(&disk);
    let mut set = behind(&repo);
    commit(&mut set, 0).unwrap();
    set.settle().unwrap();
    disk.fail_at(disk.calls() + 1, Fault::Io, Times::Forever);
    // Whichever call meets it first.
    let failed = (1..4).find_map(|number| commit(&mut set, number).and_then(|()| set.settle()).err());
    assert!(matches!(failed, Some(UtxoError::Store(_))), "{failed:?}");
    assert!(commit(&mut set, 9).is_err());
    assert_eq!(set.unsettled(), 0);
}

/// A store whose first sync finds it locked by another process, and which goes on.
#[derive(Debug)]
struct LockedOnce {
    inner: MemoryBackend,
    was_locked: AtomicBool,
}

impl Backend for LockedOnce {
    fn append(&self, batch: Batch, moves: &[RefMove], durability: Durability) -> Result<Location, Error> {
        if durability == Durability::Synced && !self.was_locked.swap(true, Relaxed) {
            return Err(Error::Locked { file: "lock".to_owned(), holder: "a process".to_owned(), waited_ms: 1 });
        }
        self.inner.append(batch, moves, durability)
    }

    pass_backend! {
        inner: name, capabilities, snapshot, read, locate, position, sweeps, sweep, sweep_due, append_keeping,
        append_many, get_ref, list_refs, shallow, absent, note_absent, retention, replace_retention, promised_to, flush,
        each_object, each_with_prefix, clear_caches, stats, read_derived, write_derived
    }
}

#[test]
fn behind_a_sync_that_failed_nothing_is_committed_although_the_store_goes_on() {
    let store = LockedOnce { inner: MemoryBackend::new(), was_locked: AtomicBool::new(false) };
    let mut set = behind(&Repo::with_backend(TreeUtxo::format(), Arc::new(store)));
    commit(&mut set, 0).unwrap();
    let is_locked = |done: Result<(), UtxoError>| matches!(done, Err(UtxoError::Store(Error::Locked { .. })));
    assert!(is_locked(set.settle()));
    let head = set.head().unwrap();
    assert!(is_locked(commit(&mut set, 1)));
    assert_eq!((set.head().unwrap(), set.unsettled()), (head, 0));
    assert!(is_locked(set.settle()));
}

#[test]
fn without_syncs_there_is_nothing_behind() {
    let repo = Repo::with_backend(TreeUtxo::format(), Arc::new(MemoryBackend::new()));
    let mut set = TreeUtxo::open(&repo, "main", Durability::None).unwrap().sync_behind().unwrap();
    commit(&mut set, 0).unwrap();
    assert_eq!(set.unsettled(), 0);
    set.settle().unwrap();
}
