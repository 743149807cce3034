//! Filters over runs of segments: with and without them, and whatever is wrong with them, what is there is found, what is lost is
//! called damaged, and only what never was is absent.

use std::{
    fs,
    ops::Range,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use bristlecone::{
    Backend, Batch, Durability, Error, Expected, Location, ObjRef, Oid, RefMove, RefTarget, Roots, SweepLimits,
    disk::{DiskBackend, DiskOptions},
    storage::RealStorage,
};
use bristlecone_core::{Kind, Sink};
use bristlecone_testkit::sim::Hooked;
use twox_hash::XxHash3_64;

use crate::engine::format_tag;

/// Objects of a store with some 40 segments, of which two runs of 16 have filters.
const OBJECTS: u64 = 800;
const BATCH: u64 = 20;
const NEVER: Range<u64> = 1_000_000..1_000_200;

fn options() -> DiskOptions {
    DiskOptions::default().segment_bytes(8192).background(false)
}

fn oid(number: u64) -> Oid {
    let mut bytes = [0; 32];
    for (place, chunk) in bytes.chunks_mut(8).enumerate() {
        chunk.copy_from_slice(&XxHash3_64::oneshot_with_seed(place as u64, &number.to_le_bytes()).to_le_bytes());
    }
    Oid::from_array(bytes)
}

fn append_all(backend: &DiskBackend, numbers: Range<u64>) {
    for first in numbers.clone().step_by(BATCH as usize) {
        let mut batch = Batch::new();
        let mut last = (oid(0), Location::NONE);
        for number in first..(first + BATCH).min(numbers.end) {
            last = (oid(number), batch.put(Kind::Contents, oid(number), &[number as u8; 300], &[], &[]));
        }
        let to = Some(RefTarget::Object(ObjRef::new(last.0, last.1)));
        let moves = [RefMove { name: "refs/heads/main".to_owned(), expected: Expected::Any, to }];
        backend.append(batch, &moves, Durability::None).unwrap();
    }
}

fn open(dir: &Path, read_only: bool, options: DiskOptions) -> DiskBackend {
    DiskBackend::open(Arc::new(RealStorage::new(dir)), None, options, read_only).unwrap()
}

fn store(objects: u64) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let backend = DiskBackend::create(Arc::new(RealStorage::new(dir.path())), format_tag(), options()).unwrap();
    append_all(&backend, 0..objects);
    backend.close().unwrap();
    dir
}

/// Returns the files of filters, ascending by name.
fn filters(dir: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(dir.join("segments")).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|end| end == "flt")).collect();
    paths.sort();
    paths
}

fn names(dir: &Path) -> Vec<String> {
    filters(dir).iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect()
}

fn expect_all(backend: &DiskBackend, objects: u64, what: &str) {
    // Filters of late segments are asked first, and those that are met damaged are not asked again: by what they should know first.
    for number in (0..objects).rev() {
        let object = backend.read(&oid(number).into()).unwrap_or_else(|error| panic!("{what}: {number}: {error}"));
        assert_eq!(object.unwrap_or_else(|| panic!("{what}: no {number}")).body(), [number as u8; 300], "{what}");
    }
    for number in NEVER {
        assert!(backend.read(&oid(number).into()).unwrap().is_none(), "{what}: {number}");
    }
}

#[test]
fn lookups_make_filters_of_complete_runs_and_readers_none() {
    let dir = store(OBJECTS);
    expect_all(&open(dir.path(), true, options()), OBJECTS, "a reader");
    assert_eq!(names(dir.path()), [""; 0]);
    let writer = open(dir.path(), false, options());
    expect_all(&writer, OBJECTS, "a writer");
    assert_eq!(names(dir.path()), ["00000000-16.flt", "00000016-16.flt"]);
    for maps in [true, false] {
        expect_all(&open(dir.path(), true, options().maps(maps)), OBJECTS, "a reader of filters");
    }
    // What comes later is found, too.
    append_all(&writer, OBJECTS..2 * OBJECTS);
    expect_all(&writer, 2 * OBJECTS, "later");
    assert!(names(dir.path()).len() > 3, "{:?}", names(dir.path()));
    assert_eq!(writer.check(&mut |damage| panic!("{damage:?}")).unwrap().stale_indexes, 0);
}

#[test]
fn a_filter_of_256_segments_takes_the_place_of_those_of_16() {
    let objects = 5_600;
    let dir = store(objects);
    let writer = open(dir.path(), false, options());
    expect_all(&writer, objects, "a writer");
    let names = names(dir.path());
    assert_eq!(names[0], "00000000-256.flt", "{names:?}");
    assert!(names[1..].iter().all(|name| name.as_str() > "00000256"), "{names:?}");
    drop(writer);
    expect_all(&open(dir.path(), true, options()), objects, "a reader");
}

#[test]
fn a_filter_is_made_in_the_background() {
    let dir = store(OBJECTS);
    let writer = open(dir.path(), false, options().background(true));
    let start = Instant::now();
    while filters(dir.path()).len() < 2 {
        assert!(writer.read(&oid(NEVER.start).into()).unwrap().is_none());
        assert!(start.elapsed() < Duration::from_secs(20), "there is no filter");
        std::thread::sleep(Duration::from_millis(5));
    }
    expect_all(&writer, OBJECTS, "in the background");
}

#[test]
fn a_damaged_filter_hides_nothing_and_is_made_anew() {
    let dir = store(OBJECTS);
    expect_all(&open(dir.path(), false, options()), OBJECTS, "a writer");
    let path = &filters(dir.path())[1];
    let sound = fs::read(path).unwrap();
    for byte in (0..sound.len()).step_by(19) {
        let mut flipped = sound.clone();
        flipped[byte] ^= 0x20;
        fs::write(path, &flipped).unwrap();
        for maps in [true, false] {
            let reader = open(dir.path(), true, options().maps(maps));
            expect_all(&reader, OBJECTS, &format!("byte {byte}, maps: {maps}"));
        }
        assert!(fs::read(path).unwrap() == flipped, "a reader wrote");
        let writer = open(dir.path(), false, options());
        expect_all(&writer, OBJECTS, &format!("byte {byte}, a writer"));
        expect_all(&writer, OBJECTS, &format!("byte {byte}, a writer again"));
        assert!(fs::read(path).unwrap() == sound, "byte {byte} is still wrong");
    }
    for cut in [0, 1, 39, 100, sound.len() - 1] {
        fs::write(path, &sound[..cut]).unwrap();
        expect_all(&open(dir.path(), true, options()), OBJECTS, "cut");
    }
}

/// Returns a store that begins as this one.
fn copy(early: &Path) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("segments")).unwrap();
    fs::create_dir(dir.path().join("derived")).unwrap();
    for from in [early.to_owned(), early.join("segments")] {
        for entry in fs::read_dir(&from).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
            fs::copy(&entry, dir.path().join(entry.strip_prefix(early).unwrap())).unwrap();
        }
    }
    dir
}

#[test]
fn a_filter_of_another_history_is_not_believed() {
    // The same store up to a point, and other objects from there on.
    let (one, other) = (store(OBJECTS), copy(store(60).path()));
    let writer = open(other.path(), false, options());
    append_all(&writer, 5_000..5_000 + OBJECTS);
    writer.read(&oid(NEVER.start).into()).unwrap();
    drop(writer);
    for name in names(other.path()) {
        fs::copy(other.path().join("segments").join(&name), one.path().join("segments").join(&name)).unwrap();
    }
    assert_eq!(filters(one.path()).len(), 2);
    expect_all(&open(one.path(), true, options()), OBJECTS, "filters of another store");
}

#[test]
fn no_filter_is_made_over_a_segment_of_another_history() {
    let early = store(60);
    let [one, other] = [60..OBJECTS, 5_000..5_000 + OBJECTS].map(|numbers| {
        let dir = copy(early.path());
        let writer = open(dir.path(), false, options());
        append_all(&writer, numbers);
        drop(writer);
        dir
    });
    let (segment, own) = ("segments/00000020.seg", one.path().join("segments/00000020.seg"));
    let sound = fs::read(&own).unwrap();
    fs::copy(other.path().join(segment), &own).unwrap();
    // It is whole by itself, so it gets an index of its own; the others do not go on from it.
    let writer = open(one.path(), false, options());
    for number in NEVER {
        let _ = writer.read(&oid(number).into());
    }
    drop(writer);
    assert_eq!(names(one.path()), ["00000000-16.flt"]);
    fs::write(&own, sound).unwrap();
    expect_all(&open(one.path(), true, options()), OBJECTS, "the segment is back");
}

#[test]
fn what_is_damaged_after_its_filter_was_made_is_never_absent() {
    let dir = store(OBJECTS);
    let writer = open(dir.path(), false, options());
    expect_all(&writer, OBJECTS, "a writer");
    drop(writer);
    let path = dir.path().join("segments/00000009.seg");
    let sound = fs::read(&path).unwrap();
    for byte in (100..sound.len()).step_by(97) {
        let mut flipped = sound.clone();
        flipped[byte] ^= 1;
        fs::write(&path, &flipped).unwrap();
        let reader = open(dir.path(), true, options());
        for number in 0..OBJECTS {
            match reader.read(&oid(number).into()) {
                Ok(Some(object)) => assert_eq!(object.body(), [number as u8; 300]),
                Err(Error::Corrupt { oid: Some(id), .. }) => assert_eq!(id, oid(number)),
                other => panic!("byte {byte}: object {number}: {other:?}"),
            }
        }
        for number in NEVER {
            assert!(reader.read(&oid(number).into()).unwrap().is_none(), "byte {byte}");
        }
    }
    fs::remove_file(&path).unwrap();
    let reader = open(dir.path(), true, options());
    for number in 0..OBJECTS {
        let read = reader.read(&oid(number).into());
        assert!(matches!(read, Ok(Some(_)) | Err(Error::Corrupt { .. })), "object {number}: {read:?}");
    }
}

/// Drops all but some objects: of the log alone, or of cold segments too.
fn keep(backend: &DiskBackend, numbers: Range<u64>, partial: bool) {
    let oids: Vec<Oid> = numbers.map(oid).collect();
    let limits = SweepLimits::default().partial(partial);
    backend.sweep(&Roots::new(&oids, &|_, _, _| Ok(())), &limits).unwrap();
}

fn cold_filters(dir: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(dir.join("segments")).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|end| end == "cflt")).collect();
    paths.sort();
    paths
}

#[test]
fn a_filter_that_another_thread_removed_first_fails_no_collection() {
    let dir = store(OBJECTS);
    let taken = Arc::new(AtomicUsize::new(0));
    let (folder, count) = (dir.path().to_owned(), taken.clone());
    let storage = Hooked::new(Arc::new(RealStorage::new(dir.path())), move |coming| {
        if coming.method == "remove" && coming.name.ends_with(".flt") {
            fs::remove_file(folder.join(coming.name)).unwrap();
            count.fetch_add(1, Relaxed);
        }
    });
    let writer = DiskBackend::open(Arc::new(storage), None, options(), false).unwrap();
    expect_all(&writer, OBJECTS, "a writer");
    assert_eq!(names(dir.path()).len(), 2);
    for _ in 0..2 {
        keep(&writer, 0..10, false);
        append_all(&writer, 60_000..60_100);
    }
    assert_eq!((taken.load(Relaxed), filters(dir.path()).len()), (2, 0));
    for number in 0..OBJECTS {
        assert_eq!(writer.read(&oid(number).into()).unwrap().is_some(), number < 10, "object {number}");
    }
}

/// So many collections leave a cold segment each: two runs of 16 are complete.
const COLLECTIONS: u64 = 33;

#[test]
fn cold_segments_have_filters_which_are_theirs_and_go_with_them() {
    // Segments that are so full are not put together.
    let options = || options().cold_bytes(6 << 10);
    // Stores whose cold segments have the same numbers and other objects: of each 20 objects, 15 are kept.
    let kept = |from: u64| (0..COLLECTIONS).flat_map(move |part| from + part * 20..from + part * 20 + 15);
    let expect = |backend: &DiskBackend, from: u64, what: &str| {
        for number in from..from + COLLECTIONS * 20 {
            let there = kept(from).any(|kept| kept == number);
            let found = backend.read(&oid(number).into()).unwrap();
            assert_eq!(found.is_some(), there, "{what}: object {number}");
            assert!(found.is_none_or(|object| object.body() == [number as u8; 300]), "{what}: object {number}");
        }
    };
    let stores = [0, 10_000].map(|from| {
        let dir = tempfile::tempdir().unwrap();
        let backend = DiskBackend::create(Arc::new(RealStorage::new(dir.path())), format_tag(), options()).unwrap();
        for part in 0..COLLECTIONS {
            append_all(&backend, from + part * 20..from + part * 20 + 20);
            // The ref stands elsewhere, so that it keeps none of these.
            append_all(&backend, 50_000 + part..50_001 + part);
            keep(&backend, from + part * 20..from + part * 20 + 15, true);
        }
        expect(&backend, from, "a writer");
        assert_eq!(cold_filters(dir.path()).len(), 2);
        drop(backend);
        expect(&open(dir.path(), true, options()), from, "a reader");
        dir
    });
    let [one, other] = &stores;
    let own: Vec<Vec<u8>> = cold_filters(one.path()).iter().map(|path| fs::read(path).unwrap()).collect();
    for (path, theirs) in cold_filters(one.path()).iter().zip(cold_filters(other.path())) {
        assert_eq!(path.file_name(), theirs.file_name());
        fs::copy(theirs, path).unwrap();
    }
    for read_only in [true, false, true] {
        expect(&open(one.path(), read_only, options()), 0, "filters of another store");
    }
    let again: Vec<Vec<u8>> = cold_filters(one.path()).iter().map(|path| fs::read(path).unwrap()).collect();
    assert!(again == own, "a writer makes filters of its own segments");

    // What a collection leaves of cold segments is found, and a run that nothing is left of has no filter.
    let backend = open(one.path(), false, options());
    for _ in 0..3 {
        keep(&backend, 600..610, false);
        append_all(&backend, 60_000..60_100);
    }
    drop(backend);
    let backend = open(one.path(), false, options());
    keep(&backend, 600..610, false);
    for number in 0..COLLECTIONS * 20 {
        let found = backend.read(&oid(number).into()).unwrap();
        assert_eq!(found.is_some(), (600..610).contains(&number), "object {number}");
    }
    let names: Vec<_> = fs::read_dir(one.path().join("segments")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(cold_filters(one.path()).is_empty(), "{names:?}");
}
