//! What lies in a store's files and is not its own: indexes that other programs made, records that do not count yet.

use std::sync::Arc;

use bristlecone::{
    Backend, Batch, Durability, Error, Expected, Kind, ObjRef, Oid, RefMove, RefTarget, Sink,
    disk::{DiskBackend, DiskOptions},
};
use bristlecone_testkit::{
    crash::{CrashRun, CrashStep, Workload},
    sim::SimStorage,
};

use crate::engine::{DiskEngine, format_tag, tiny, tiny_with_maps};

/// A store of some segments with an index for each sealed one. The same number of values and commits gives others with
/// other `bytes`.
fn indexed_store(bytes: usize) -> (SimStorage, CrashRun) {
    let commit = |n: usize| CrashStep::Commit {
        handle: 0,
        refs: vec!["main".to_owned()],
        sizes: vec![bytes + n, 600],
        durability: Durability::Synced,
    };
    let disk = SimStorage::new();
    let workload = Workload { name: "indexes", steps: (0..12).map(commit).collect() };
    let run = CrashRun::of(&DiskEngine::new(tiny()), disk.clone(), &workload).unwrap();
    let backend = DiskBackend::open(Arc::new(disk.clone()), None, tiny(), false).unwrap();
    assert!(backend.read(&Oid::from_array([0xee; 32]).into()).unwrap().is_none());
    drop(backend);
    (disk, run)
}

/// Returns the names of the indexes, whatever their extension.
fn indexes(disk: &SimStorage) -> Vec<String> {
    let names = disk.files().into_iter().map(|(name, _)| name);
    let of_segment = |name: &String| {
        let stem = name.strip_prefix("segments/").and_then(|name| name.split_once('.'));
        stem.is_some_and(|(stem, extension)| stem.parse::<u32>().is_ok() && extension != "seg")
    };
    names.filter(of_segment).collect()
}

/// Puts these bytes in place of a file.
fn replace(disk: &SimStorage, name: &str, bytes: &[u8]) {
    disk.cut_file(name, 0);
    disk.overwrite(name, 0, bytes);
}

/// Asserts that every object is found by its id, and that no damage is seen.
fn assert_whole(disk: &SimStorage, run: &CrashRun, read_only: bool, options: DiskOptions, what: &str) {
    let backend = DiskBackend::open(Arc::new(disk.fork()), None, options, read_only).unwrap();
    for sample in run.events.iter().flat_map(|event| &event.samples) {
        let found = backend.read(&sample.oid.into()).unwrap_or_else(|error| panic!("{what}: {error}"));
        let found = found.unwrap_or_else(|| panic!("{what}: {} is absent", sample.oid));
        assert_eq!(sample.mismatch(&found), None, "{what}");
    }
    let mut damages = Vec::new();
    backend.check(&mut |damage| damages.push(damage)).unwrap();
    assert!(damages.is_empty(), "{what}: {damages:?}");
}

#[test]
fn an_index_of_another_making_is_not_taken_for_the_segments_own() {
    let (disk, run) = indexed_store(700);
    let (other, _) = indexed_store(900);
    let (own, foreign) = (indexes(&disk), indexes(&other));
    assert!(own.len() >= 4 && foreign.len() >= own.len(), "{own:?} {foreign:?}");
    for options in [tiny(), tiny_with_maps()] {
        for read_only in [true, false] {
            for (index, name) in own.iter().enumerate() {
                let copy = disk.fork();
                replace(&copy, name, &other.contents(name).unwrap());
                assert_whole(&copy, &run, read_only, options.clone(), &format!("{name} of another store"));
                let beside = &own[(index + 1) % own.len()];
                replace(&copy, name, &disk.contents(beside).unwrap());
                assert_whole(&copy, &run, read_only, options.clone(), &format!("{beside} as {name}"));
            }
        }
    }
}

/// Appends one value with a ref to it; returns where it is.
fn put(backend: &dyn Backend, oid: Oid, body: &[u8]) -> ObjRef {
    let mut batch = Batch::new();
    let at = batch.put(Kind::Contents, oid, body, &[], &[]);
    let to = Some(RefTarget::Object(ObjRef::new(oid, at)));
    let wanted = RefMove { name: "value".to_owned(), expected: Expected::Any, to };
    ObjRef::new(oid, at.resolve(backend.append(batch, &[wanted], Durability::Synced).unwrap()))
}

#[test]
fn a_record_that_was_read_before_it_counted_is_verified_again() {
    let roomy = || tiny_with_maps().segment_bytes(1 << 14);
    let disk = SimStorage::new();
    let first = DiskBackend::create(Arc::new(disk.clone()), format_tag(), roomy()).unwrap();
    put(&first, Oid::from_array([1; 32]), b"first");
    drop(first);
    let (oid, body) = (Oid::from_array([0x5a; 32]), [0x11; 200]);
    // Where the next append will be, and its bytes, as a copy of the disk tells.
    let ahead = disk.fork();
    let at = put(&DiskBackend::open(Arc::new(ahead.clone()), None, roomy(), false).unwrap(), oid, &body);
    let (name, offset) = (format!("segments/{:08}.seg", at.at.0 >> 32), at.at.0 & 0xffff_ffff);
    let bytes = ahead.contents(&name).unwrap();
    let record = &bytes[offset as usize..][..48 + body.len()];
    // A writer died before the head of its frame was written: the record shows, and does not count.
    let reader = DiskBackend::open(Arc::new(disk.clone()), None, roomy(), true).unwrap();
    disk.overwrite(&name, offset, record);
    drop(reader.read(&at));
    assert_ne!(reader.get_ref("value").unwrap(), Some(RefTarget::Object(at)));
    // Another puts the same value there, which the medium then damages.
    let writer = DiskBackend::open(Arc::new(disk.clone()), None, roomy(), false).unwrap();
    assert_eq!(put(&writer, oid, &body), at);
    assert_eq!(reader.get_ref("value").unwrap(), Some(RefTarget::Object(at)));
    disk.flip(&name, offset + 100, 0x40);
    match reader.read(&at) {
        Err(Error::Corrupt { .. }) => {}
        Ok(found) => panic!("damage is not seen: {:?}", found.map(|found| found.body().to_vec())),
        Err(error) => panic!("{error}"),
    }
}
