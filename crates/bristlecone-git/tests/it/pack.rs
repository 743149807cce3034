//! Packs that we write are what Git expects, and read back.

use std::path::Path;
use std::sync::Arc;

use bristlecone::core::git::{Algorithm, type_name};
use bristlecone::storage::{RealStorage, Storage};
use bristlecone::{Kind, Oid};
use bristlecone_git::odb::{Odb, OdbOptions};
use bristlecone_git::pack::{BaseCache, Builder, BuiltPack, Compression, Index, Pack};
use bristlecone_needs::needs;
use bristlecone_testkit::git::Git;

/// Blobs, trees, a commit and a tag of many sizes, children first.
pub(crate) fn sample(algorithm: Algorithm) -> Vec<(Kind, Oid, Vec<u8>)> {
    let mut objects: Vec<(Kind, Oid, Vec<u8>)> = Vec::new();
    let mut add = |kind, raw: Vec<u8>| {
        let oid = algorithm.object_id(kind, &raw);
        objects.push((kind, oid, raw));
        oid
    };
    let mut tree = Vec::new();
    for (i, size) in [0_usize, 1, 15, 16, 127, 128, 5000, 65_535, 65_536, 140_000].into_iter().enumerate() {
        let raw = (0..size).map(|at| (at * at / 7 + i) as u8).collect();
        let blob = add(Kind::Contents, raw);
        tree.extend_from_slice(format!("100644 file{i}\0").as_bytes());
        tree.extend_from_slice(blob.as_bytes());
    }
    let tree = add(Kind::Node, tree);
    let commit = format!("tree {tree}\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nhello\n");
    let commit = add(Kind::Commit, commit.into_bytes());
    let tag = format!("object {commit}\ntype commit\ntag one\ntagger A <a@b> 1 +0000\n\nhello\n");
    add(Kind::Tag, tag.into_bytes());
    objects
}

pub(crate) fn write_pack(dir: &Path, pack: &BuiltPack) {
    std::fs::write(dir.join(format!("objects/pack/{}.pack", pack.name)), &pack.pack).unwrap();
    std::fs::write(dir.join(format!("objects/pack/{}.idx", pack.name)), &pack.index).unwrap();
}

fn algorithms() -> [Algorithm; 2] {
    [Algorithm::Sha1, Algorithm::Sha256]
}

fn init(dir: &Path, algorithm: Algorithm) -> Git {
    Git::init(dir, &["--bare", &format!("--object-format={}", algorithm.name())])
}

#[needs(git)]
#[test]
fn git_accepts_built_packs() {
    for algorithm in algorithms() {
        for compression in [Compression::Stored, Compression::Level(1), Compression::Level(6)] {
            let dir = tempfile::tempdir().unwrap();
            let git = init(dir.path(), algorithm);
            let objects = sample(algorithm);
            let mut builder = Builder::new(algorithm);
            assert!(builder.is_empty());
            let mut offsets = Vec::new();
            for (kind, oid, raw) in &objects {
                offsets.push(builder.add(*kind, *oid, raw, compression));
            }
            assert!(offsets.is_sorted());
            // Two deltas against the second blob: by offset and by id. 0x90 0x01: copy 1 byte from the beginning.
            let raw = [objects[1].2[0], b'x', b'y'];
            let oid = algorithm.object_id(Kind::Contents, &raw);
            builder.add_delta(oid, offsets[1], &[1, 3, 0x90, 1, 2, b'x', b'y'], compression);
            let other = [objects[1].2[0], b'z'];
            let other_oid = algorithm.object_id(Kind::Contents, &other);
            builder.add_ref_delta(other_oid, objects[1].1, &[1, 2, 0x90, 1, 1, b'z'], compression);
            assert_eq!(builder.len(), objects.len() + 2);
            let built = builder.finish();
            write_pack(dir.path(), &built);

            let file = format!("objects/pack/{}.pack", built.name);
            git.run(&["verify-pack", "-v", &format!("objects/pack/{}.idx", built.name)]);
            git.run(&["index-pack", "--strict", "-o", "other.idx", &file]);
            assert!(std::fs::read(dir.path().join("other.idx")).unwrap() == built.index);
            git.run(&["update-ref", "refs/tags/one", &objects[objects.len() - 1].1.to_string()]);
            git.fsck();
            let found = git.objects();
            assert_eq!(found.len(), objects.len() + 2);
            let extra = [(Kind::Contents, oid, raw.to_vec()), (Kind::Contents, other_oid, other.to_vec())];
            let storage: Arc<dyn Storage> = Arc::new(RealStorage::new(dir.path()));
            let pack = Pack::open(&storage, "objects/pack", &built.name, algorithm).unwrap();
            pack.check().unwrap();
            let odb = Odb::open(storage, algorithm, OdbOptions::default()).unwrap();
            assert_eq!(odb.pack_names(), [built.name]);
            for (kind, oid, raw) in objects.iter().chain(&extra) {
                let there = found.iter().find(|object| object.0 == oid.to_string()).unwrap();
                assert_eq!(Some(&*there.1), type_name(*kind));
                assert!(there.2 == *raw);
                let mut out = Vec::new();
                assert_eq!(odb.read(oid, &mut out).unwrap(), Some(*kind));
                assert!(out == *raw);
                assert_eq!(odb.header(oid).unwrap(), Some((*kind, raw.len() as u64)));
            }
        }
    }
}

#[test]
fn an_empty_pack_is_a_pack() {
    for algorithm in algorithms() {
        let built = Builder::new(algorithm).finish();
        let index = Index::from_bytes("empty", algorithm, built.index).unwrap();
        index.check().unwrap();
        assert!(index.is_empty());
        assert_eq!(index.find(&algorithm.digest(&[])), None);
        assert_eq!(built.pack.len(), 12 + algorithm.oid_bytes());
    }
}

#[needs(git)]
#[test]
fn indexes_of_version_1_and_far_offsets_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let git = init(dir.path(), Algorithm::Sha1);
    let objects = sample(Algorithm::Sha1);
    let mut builder = Builder::new(Algorithm::Sha1);
    for (kind, oid, raw) in &objects {
        builder.add(*kind, *oid, raw, Compression::Level(1));
    }
    let built = builder.finish();
    write_pack(dir.path(), &built);
    let name = format!("objects/pack/{}", built.name);
    // From the limit on, offsets go to the far table.
    for version in ["1", "2,0x100", "2"] {
        let index = dir.path().join(format!("{name}.idx"));
        std::fs::remove_file(&index).unwrap();
        let argument = format!("--index-version={version}");
        git.run(&["index-pack", &argument, &format!("{name}.pack")]);
        let bytes = std::fs::read(&index).unwrap();
        assert_eq!(bytes == built.index, version == "2");
        let storage: Arc<dyn Storage> = Arc::new(RealStorage::new(dir.path()));
        let pack = Pack::open(&storage, "objects/pack", &built.name, Algorithm::Sha1).unwrap();
        pack.check().unwrap();
        assert_eq!(pack.index().crc(0).is_none(), version == "1");
        let cache = BaseCache::new(0);
        for (kind, oid, raw) in &objects {
            let n = pack.index().find(oid).unwrap();
            assert_eq!(pack.index().oid(n), *oid);
            let mut out = Vec::new();
            assert_eq!(pack.read(n, &cache, &mut out).unwrap(), *kind);
            assert!(out == *raw);
        }
    }
}
