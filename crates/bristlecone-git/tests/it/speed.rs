//! Measurements, run by hand: `cargo test --release -p bristlecone-git --test it speed -- --ignored --nocapture`.

use std::sync::Arc;
use std::time::Instant;

use bristlecone::core::git::Algorithm;
use bristlecone::storage::{RealStorage, Storage};
use bristlecone::{Kind, Oid};
use bristlecone_git::odb::{Odb, OdbOptions};
use bristlecone_git::pack::{Builder, BuiltPack, Compression, RepackOptions, repack};

/// Time of the clock, and of this thread on a processor: the latter counts where others work beside us.
fn start() -> (Instant, f64) {
    (Instant::now(), processor_seconds())
}

fn processor_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn report(what: &str, count: usize, (clock, processor): (Instant, f64)) {
    let micros = |seconds: f64| seconds * 1e6 / count as f64;
    let (clock, processor) = (micros(clock.elapsed().as_secs_f64()), micros(processor_seconds() - processor));
    println!("{what}: {processor:.2} µs each on the processor, {clock:.2} µs by the clock");
}

/// A folder of entries whose ids change with `salt` at one place each time: 31 KB for 1,000 entries.
pub(crate) fn wide_tree(entries: usize, changes: &[usize]) -> Vec<u8> {
    let mut tree = Vec::new();
    for i in 0..entries {
        tree.extend_from_slice(format!("100644 {i:04}\0").as_bytes());
        let version = changes.iter().rposition(|change| *change == i).map_or(0, |at| at + 1);
        let id = Algorithm::Sha1.digest(&[&i.to_le_bytes(), &version.to_le_bytes()]);
        tree.extend_from_slice(id.as_bytes());
    }
    tree
}

/// The objects of a commit that changes one entry of a folder of 1,000 at depth 10: a blob, 11 trees, a commit.
pub(crate) fn commit_objects(version: usize, changes: &[usize]) -> Vec<(Kind, Oid, Vec<u8>)> {
    let mut objects = Vec::new();
    let mut add = |kind, raw: Vec<u8>| {
        let oid = Algorithm::Sha1.object_id(kind, &raw);
        objects.push((kind, oid, raw));
        oid
    };
    add(Kind::Contents, format!("value {version:014}").into_bytes());
    let mut tree = add(Kind::Node, wide_tree(1000, changes));
    for depth in 0..10 {
        let raw = [format!("40000 d{depth}\0").as_bytes(), tree.as_bytes()].concat();
        tree = add(Kind::Node, raw);
    }
    let commit = format!(
        "tree {tree}\nparent {tree}\nauthor A U Thor <a@example.com> {version} +0000\n\
         committer A U Thor <a@example.com> {version} +0000\n\nversion {version}\n"
    );
    add(Kind::Commit, commit.into_bytes());
    objects
}

pub(crate) fn build(objects: &[(Kind, Oid, Vec<u8>)], compression: Compression) -> BuiltPack {
    let mut builder = Builder::new(Algorithm::Sha1);
    for (kind, oid, raw) in objects {
        builder.add(*kind, *oid, raw, compression);
    }
    builder.finish()
}

#[test]
#[ignore = "a measurement"]
fn packs_are_built() {
    let objects = commit_objects(1, &[3]);
    assert_eq!(objects.len(), 13);
    for compression in [Compression::Stored, Compression::Level(1), Compression::Level(6)] {
        let count = 2000;
        let since = start();
        let mut bytes = 0;
        for _ in 0..count {
            bytes += build(&objects, compression).pack.len();
        }
        report(&format!("a pack of 13 objects, {compression:?}, {} bytes", bytes / count), count, since);
    }
    let blobs: Vec<_> = (0..1000)
        .map(|i| {
            let raw = format!("value {i:014}").into_bytes();
            (Kind::Contents, Algorithm::Sha1.object_id(Kind::Contents, &raw), raw)
        })
        .collect();
    for compression in [Compression::Stored, Compression::Level(1)] {
        let since = start();
        for _ in 0..100 {
            build(&blobs, compression);
        }
        report(&format!("blobs of 20 bytes in packs of 1,000, {compression:?}"), 100_000, since);
    }
}

#[test]
#[ignore = "a measurement"]
fn objects_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let storage: Arc<dyn Storage> = Arc::new(RealStorage::new(dir.path()));
    storage.create_dir("objects/pack").unwrap();
    let blobs: Vec<_> = (0..100_000)
        .map(|i| {
            let raw = format!("value {i:014}").into_bytes();
            (Kind::Contents, Algorithm::Sha1.object_id(Kind::Contents, &raw), raw)
        })
        .collect();
    for compression in [Compression::Stored, Compression::Level(1)] {
        crate::pack::write_pack(dir.path(), &build(&blobs, compression));
        let odb = Odb::open(storage.clone(), Algorithm::Sha1, OdbOptions::default()).unwrap();
        let mut out = Vec::new();
        let since = start();
        for i in 0..blobs.len() {
            let blob = &blobs[i * 7919 % blobs.len()];
            odb.read(&blob.1, &mut out).unwrap().unwrap();
        }
        report(&format!("read a blob of 20 bytes out of 100,000, {compression:?}"), blobs.len(), since);
        for name in odb.pack_names() {
            std::fs::remove_file(dir.path().join(format!("objects/pack/{name}.idx"))).unwrap();
        }
    }
    // As many packs as a second of commits leaves.
    let mut ids = Vec::new();
    let since = start();
    for version in 0..3000 {
        let objects = commit_objects(version, &[version % 1000]);
        ids.extend(objects.iter().map(|object| object.1));
        crate::pack::write_pack(dir.path(), &build(&objects, Compression::Stored));
    }
    report("make, build and write a pack of 13 objects", 3000, since);
    let since = start();
    let odb = Odb::open(storage, Algorithm::Sha1, OdbOptions::default()).unwrap();
    report("open one of 3,000 packs", 3000, since);
    let mut out = Vec::new();
    let since = start();
    for i in 0..ids.len() {
        odb.read(&ids[i * 7919 % ids.len()], &mut out).unwrap().unwrap();
    }
    report("read an object out of 3,000 packs", ids.len(), since);
}

#[test]
#[ignore = "a measurement"]
fn packs_are_repacked() {
    for count in [100, 1000] {
        let dir = tempfile::tempdir().unwrap();
        let storage: Arc<dyn Storage> = Arc::new(RealStorage::new(dir.path()));
        storage.create_dir("objects/pack").unwrap();
        let mut changes = Vec::new();
        let mut names = Vec::new();
        for version in 0..count {
            changes.push(version * 379 % 1000);
            let built = build(&commit_objects(version, &changes), Compression::Stored);
            crate::pack::write_pack(dir.path(), &built);
            names.push(built.name);
        }
        let since = start();
        let mut bytes = 0;
        for _ in 0..5 {
            let options = RepackOptions::default();
            bytes = repack(&storage, Algorithm::Sha1, &names, &options, &|| false).unwrap().unwrap().pack_bytes;
        }
        report(&format!("repack {count} packs of 13 objects to {bytes} bytes: a pack"), 5 * count, since);
    }
}
