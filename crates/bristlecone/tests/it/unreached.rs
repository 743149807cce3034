//! What nothing leads to on disks that fail: counted where the disk is full, counted once wherever the power goes, and
//! never in the way of anything.

use std::{collections::BTreeMap, sync::Arc};

use bristlecone::{
    Backend, Batch, Durability, Error, Expected, Kind, Location, ObjRef, Oid, RefMove, RefTarget, Sink,
    disk::{DiskBackend, DiskOptions},
};
use bristlecone_testkit::sim::{Fault, Policy, SimStorage, Times};

use crate::engine::format_tag;

fn options() -> DiskOptions {
    DiskOptions::default().segment_bytes(1 << 18).background(false).maps(false)
}

fn open(disk: &SimStorage) -> DiskBackend {
    DiskBackend::open(Arc::new(disk.clone()), None, options(), false).unwrap()
}

fn reclaimable(disk: &SimStorage) -> u64 {
    DiskBackend::open(Arc::new(disk.clone()), None, options(), true).unwrap().stats().reclaimable_bytes
}

fn batch(number: u8, bytes: usize) -> Batch {
    let mut batch = Batch::new();
    batch.put(Kind::Contents, Oid::from_array([number; 32]), &vec![number; bytes], &[], &[]);
    batch
}

fn commit(backend: &DiskBackend, number: u8) -> Result<Location, Error> {
    let to = Some(RefTarget::Object(ObjRef::new(Oid::from_array([number; 32]), Location::pending(0))));
    let wanted = RefMove { name: "main".to_owned(), expected: Expected::Any, to };
    backend.append(batch(number, 100), &[wanted], Durability::Synced)
}

/// A store with one commit.
fn store() -> SimStorage {
    let disk = SimStorage::new();
    let backend = DiskBackend::create(Arc::new(disk.clone()), format_tag(), options()).unwrap();
    commit(&backend, 1).unwrap();
    drop(backend);
    disk
}

#[test]
fn a_full_disk_ends_the_work_and_what_it_left_is_counted_without_more_room() {
    let disk = store();
    disk.limit_space(Some(disk.bytes() + (5 << 20)));
    let backend = open(&disk);
    let failed = (0..200).find_map(|n| backend.append(batch(n, 100_000), &[], Durability::None).err());
    assert!(matches!(failed, Some(Error::NoSpace { .. })), "{failed:?}");
    let left = backend.unreached_bytes();
    assert!(left > 3 << 20, "{left}");
    // Not one byte is free: what is counted is written over.
    disk.limit_space(Some(disk.bytes()));
    drop(backend);
    assert_eq!(reclaimable(&disk), left);
    drop(open(&disk));
    assert_eq!(reclaimable(&disk), left);
    // What is missing is said before anything is written.
    let backend = open(&disk);
    let before = disk.bytes();
    let refused = backend.check_room(10 << 20);
    assert!(matches!(&refused, Err(Error::NoRoom { bytes, free, .. }) if *bytes == 10 << 20 && *free < 2 << 20));
    assert_eq!(disk.bytes(), before);
    disk.limit_space(Some(disk.bytes() + (11 << 20)));
    backend.check_room(10 << 20).unwrap();
    commit(&backend, 2).unwrap();
    drop(backend);
    assert_eq!(reclaimable(&disk), left);
    let sound = open(&disk).check(&mut |damage| panic!("{damage:?}")).unwrap();
    assert!(sound.records > 40, "{sound:?}");
}

/// A store with a count and two notes of writers that are gone, and what they say together.
fn with_notes() -> (SimStorage, u64) {
    let disk = store();
    let mut left = 0;
    let mut leave = |backend: DiskBackend, number| {
        backend.append(batch(number, 1000), &[], Durability::None).unwrap();
        left += backend.unreached_bytes();
        drop(backend);
    };
    leave(open(&disk), 2);
    let (one, other) = (open(&disk), open(&disk));
    leave(one, 3);
    leave(other, 4);
    assert_eq!(reclaimable(&disk), left);
    (disk, left)
}

#[test]
fn wherever_the_power_goes_nothing_is_counted_twice_and_the_store_opens() {
    let (disk, left) = with_notes();
    let work = |disk: &SimStorage| -> Result<(), Error> {
        let backend = DiskBackend::open(Arc::new(disk.clone()), None, options(), false)?;
        backend.append(batch(5, 2_000_000), &[], Durability::None)?;
        commit(&backend, 6).map(drop)
    };
    let copy = disk.fork();
    work(&copy).unwrap();
    let calls = copy.calls();
    assert!(calls > 10, "{calls}");
    let mut seen = BTreeMap::new();
    for cut in 0..calls {
        let disk = disk.fork();
        disk.cut_after(cut);
        let _ = work(&disk);
        for disk in [disk.fork(), disk.reboot(cut, Policy::Kept), disk.reboot(cut, Policy::Writes)] {
            let now = reclaimable(&disk);
            // What the last writer appended counts, too, if it was killed; no note of the others counts twice.
            assert!(now <= left + 2_100_000, "cut after {cut}: {now} of {left}");
            assert!(now <= left || now - left > 1_900_000, "cut after {cut}: {now} of {left}");
            *seen.entry(now).or_insert(0) += 1;
            let backend = open(&disk);
            assert_eq!(backend.stats().reclaimable_bytes, now, "cut after {cut}");
            commit(&backend, 7).unwrap();
            drop(backend);
            assert_eq!(reclaimable(&disk), now, "cut after {cut}");
        }
    }
    assert!(seen.contains_key(&left), "{seen:?}");
}

#[test]
fn a_call_that_fails_for_the_count_fails_nothing_else() {
    let (disk, left) = with_notes();
    let copy = disk.fork();
    copy.keep_trace();
    let from = copy.calls();
    drop(open(&copy));
    let calls = (from + 1..=copy.calls()).filter(|&n| copy.call(n).is_some_and(|call| call.name.contains('@')));
    let calls: Vec<u64> = calls.collect();
    assert!(calls.len() >= 5, "{calls:?}");
    for number in calls {
        let disk = disk.fork();
        disk.fail_at(number, Fault::Io, Times::Once);
        let backend = open(&disk);
        commit(&backend, 7).unwrap();
        drop(backend);
        disk.heal();
        assert_eq!(reclaimable(&disk), left, "call {number}");
        drop(open(&disk));
        assert_eq!(reclaimable(&disk), left, "call {number}");
    }
}
