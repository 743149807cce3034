//! Whatever is damaged: the right object, or an error; never a panic, never another object.

use std::sync::Arc;

use bristlecone::core::git::Algorithm;
use bristlecone::storage::Storage;
use bristlecone::{Batch, Durability, Error, Expected, Kind, Oid, RefMove, RefTarget};
use bristlecone_git::backend::GitOptions;
use bristlecone_git::layout::Layout;
use bristlecone_git::odb::{Odb, OdbOptions, loose};
use bristlecone_git::pack::{BaseCache, Builder, BuiltPack, Compression, Index, Pack};
use bristlecone_testkit::{crash::Engine, sim::SimStorage};

use crate::{sim::write, sims::SimGit};

/// A few objects, three of them in a chain of deltas by offset and by id.
fn small() -> (BuiltPack, Vec<(Kind, Oid, Vec<u8>)>) {
    let algorithm = Algorithm::Sha1;
    let mut builder = Builder::new(algorithm);
    let mut objects = Vec::new();
    let mut one = |kind, raw: Vec<u8>| {
        let oid = algorithm.object_id(kind, &raw);
        objects.push((kind, oid, raw));
        oid
    };
    let base: Vec<u8> = (0..90).collect();
    let id = one(Kind::Contents, base.clone());
    let at = builder.add(Kind::Contents, id, &base, Compression::Stored);
    // 0xb0: a copy of a size of two bytes from 0.
    let next = [&base[..], b"!"].concat();
    let second = one(Kind::Contents, next.clone());
    let at = builder.add_delta(second, at, &[90, 91, 0xb0, 90, 0, 1, b'!'], Compression::Level(6));
    let last = [&next[..], b"?"].concat();
    let third = one(Kind::Contents, last);
    builder.add_ref_delta(third, second, &[91, 92, 0x90, 91, 1, b'?'], Compression::Stored);
    let _ = at;
    for (kind, raw) in
        [(Kind::Commit, b"a commit, more or less".to_vec()), (Kind::Node, vec![7; 90]), (Kind::Contents, vec![])]
    {
        let id = one(kind, raw.clone());
        builder.add(kind, id, &raw, Compression::Level(1));
    }
    (builder.finish(), objects)
}

fn odb(pack: &[u8], index: &[u8]) -> Odb {
    let storage: Arc<dyn Storage> = Arc::new(SimStorage::new());
    write(&*storage, "objects/pack/pack-1.pack", pack);
    write(&*storage, "objects/pack/pack-1.idx", index);
    Odb::open(storage, Algorithm::Sha1, OdbOptions::default()).unwrap()
}

/// Anybody may have made them, and an opening looks for what processes of ours left.
#[test]
fn what_only_begins_like_files_of_ours_keeps_no_repository_from_being_opened() {
    let dir = tempfile::tempdir().unwrap();
    Layout::init(dir.path(), true, Algorithm::Sha1).unwrap();
    let (backend, repo) = crate::backend::open(dir.path(), GitOptions::default());
    let info = crate::backend::info("one", Durability::None);
    let at = repo.branch("main").unwrap().edit(&info, |tree| tree.set("n", "1")).unwrap();
    drop((backend, repo));
    let packs = dir.path().join("objects/pack");
    for (number, named) in ["\0", "\u{e9}", "folder"].into_iter().enumerate() {
        let words = format!("bristlecone bristlecone/keep-{named}\n");
        std::fs::write(packs.join(format!("pack-{number}.keep")), words).unwrap();
    }
    std::fs::create_dir(dir.path().join("bristlecone/keep-folder")).unwrap();
    std::fs::create_dir(packs.join("tmp_fold_folder")).unwrap();
    let (_backend, repo) = crate::backend::open(dir.path(), GitOptions::default());
    assert_eq!(repo.branch("main").unwrap().head().unwrap(), Some(at));
}

/// As a power cut leaves what a Git wrote and did not sync.
#[test]
fn a_loose_object_that_lost_its_bytes_is_written_again_when_it_comes_again() {
    let dir = tempfile::tempdir().unwrap();
    Layout::init(dir.path(), true, Algorithm::Sha1).unwrap();
    let oid = Algorithm::Sha1.object_id(Kind::Contents, b"same");
    let path = dir.path().join("objects").join(loose::name(&oid));
    let commit = |name: &str| {
        let (_backend, repo) = crate::backend::open(dir.path(), GitOptions::default().loose(true));
        let info = crate::backend::info(name, Durability::Synced);
        repo.branch("main").unwrap().edit(&info, |tree| tree.set(name, "same")).unwrap();
    };
    commit("one");
    for torn in [Vec::new(), vec![0; 20], std::fs::read(&path).unwrap()[..8].to_vec()] {
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, &torn).unwrap();
        commit(&format!("two{}", torn.len()));
        let (_backend, repo) = crate::backend::open(dir.path(), GitOptions::default());
        let head = repo.branch("main").unwrap().head().unwrap().unwrap();
        assert_eq!(repo.checkout(head).unwrap().get("one").unwrap().as_deref(), Some(&b"same"[..]));
    }
}

#[test]
fn a_flipped_bit_anywhere_gives_the_right_object_or_an_error() {
    let (built, objects) = small();
    let mut errors = 0;
    let mut check = |odb: Odb| {
        for (kind, oid, raw) in &objects {
            let mut out = Vec::new();
            match odb.read(oid, &mut out) {
                Ok(found) => assert_eq!((found, &out), (Some(*kind), raw)),
                Err(Error::Corrupt { file, reason, .. }) => {
                    assert!(file.contains("pack-1") && !reason.is_empty());
                    errors += 1;
                }
                Err(other) => panic!("{other}"),
            }
            match odb.header(oid) {
                Ok(found) => assert_eq!(found, Some((*kind, raw.len() as u64))),
                Err(error) => assert!(matches!(error, Error::Corrupt { .. }), "{error}"),
            }
        }
    };
    check(odb(&built.pack, &built.index));
    for at in 0..built.pack.len() {
        let mut pack = built.pack.clone();
        pack[at] ^= 1 << (at % 8);
        check(odb(&pack, &built.index));
        check(odb(&pack[..at], &built.index));
    }
    // Of the fan-out, a part is as good as all.
    for at in (0..built.index.len()).filter(|at| !(40..1000).contains(at)) {
        let mut index = built.index.clone();
        index[at] ^= 1 << (at % 8);
        check(odb(&built.pack, &index));
        check(odb(&built.pack, &index[..at]));
    }
    assert!(errors > 1000);
}

/// Makes the digests right again, so that damage is met where it lies.
fn seal(pack: &mut [u8], index: &mut [u8]) {
    let digest = |bytes: &[u8]| Algorithm::Sha1.digest(&[bytes]);
    let end = pack.len() - 20;
    let of_pack = digest(&pack[..end]);
    pack[end..].copy_from_slice(of_pack.as_bytes());
    let end = index.len() - 40;
    index[end..end + 20].copy_from_slice(of_pack.as_bytes());
    let own = digest(&index[..end + 20]);
    index[end + 20..].copy_from_slice(own.as_bytes());
}

#[test]
fn hostile_packs_with_sound_digests_do_no_harm() {
    let (built, objects) = small();
    let read = |pack: &[u8], index: &[u8]| {
        let odb = odb(pack, index);
        for (kind, oid, raw) in &objects {
            let mut out = Vec::new();
            // Only the id tells, so it is asked.
            if let Ok(Some(found)) = odb.read(oid, &mut out)
                && odb.check(oid, found, &out).is_ok()
            {
                assert_eq!((found, &out), (*kind, raw));
            }
            let _ = odb.header(oid);
            assert!(out.capacity() < 1 << 22);
        }
    };
    for at in 0..built.pack.len() - 20 {
        for change in 0..8 {
            let (mut pack, mut index) = (built.pack.clone(), built.index.clone());
            pack[at] ^= 1 << change;
            seal(&mut pack, &mut index);
            read(&pack, &index);
        }
    }
    for at in 0..built.index.len() - 40 {
        let (mut pack, mut index) = (built.pack.clone(), built.index.clone());
        index[at] ^= 0x81;
        seal(&mut pack, &mut index);
        read(&pack, &index);
        if let Ok(index) = Index::from_bytes("index", Algorithm::Sha1, index) {
            assert!(index.check().is_err() || (1000..).contains(&at), "damage at {at} is found");
        }
    }
}

#[test]
fn deltas_in_a_circle_are_an_error() {
    let algorithm = Algorithm::Sha1;
    let (one, other) = (Oid::new(&[1; 20]).unwrap(), Oid::new(&[2; 20]).unwrap());
    for (first, second) in [(one, other), (one, one)] {
        let mut builder = Builder::new(algorithm);
        builder.add_ref_delta(first, second, &[1, 1, 0x90, 1], Compression::Stored);
        builder.add_ref_delta(other, first, &[1, 1, 0x90, 1], Compression::Stored);
        let built = builder.finish();
        let odb = odb(&built.pack, &built.index);
        for oid in [first, other] {
            assert!(matches!(odb.read(&oid, &mut Vec::new()), Err(Error::Corrupt { .. })));
            assert!(matches!(odb.header(&oid), Err(Error::Corrupt { .. })));
        }
    }
}

/// The ids of tags need not be those of their bytes.
#[test]
fn a_ref_moves_to_a_tag_in_a_long_circle_of_tags() {
    let (algorithm, count) = (Algorithm::Sha1, 5000_u32);
    let id = |n: u32| algorithm.object_id(Kind::Tag, &(n % count).to_be_bytes());
    let mut builder = Builder::new(algorithm);
    for n in 0..count {
        let raw = format!("object {}\ntype tag\ntag t\n\n", id(n + 1));
        builder.add(Kind::Tag, id(n), raw.as_bytes(), Compression::Stored);
    }
    let built = builder.finish();
    let sim = Arc::new(SimStorage::new());
    drop(SimGit::default().create(sim.clone()).unwrap());
    write(&*sim, &format!("objects/pack/{}.pack", built.name), &built.pack);
    write(&*sim, &format!("objects/pack/{}.idx", built.name), &built.index);
    let backend = SimGit::default().open(sim).unwrap();
    let to = Some(RefTarget::Object(id(0).into()));
    let moved = RefMove { name: "refs/tags/t".to_owned(), expected: Expected::Absent, to };
    backend.append(Batch::new(), &[moved], Durability::None).unwrap();
}

/// A stream may begin with blocks that hold nothing, as a program writes that flushes often.
#[test]
fn heads_of_objects_are_read_behind_blocks_that_hold_nothing() {
    let algorithm = Algorithm::Sha1;
    let base: Vec<u8> = (0..90).collect();
    let raw = [&base[..], b"!"].concat();
    let (id, oid) = (algorithm.object_id(Kind::Contents, &base), algorithm.object_id(Kind::Contents, &raw));
    let mut builder = Builder::new(algorithm);
    let at = builder.add(Kind::Contents, id, &base, Compression::Stored);
    // Behind a head of two bytes, and those of the stream.
    let stream = builder.add_delta(oid, at, &[90, 91, 0xb0, 90, 0, 1, b'!'], Compression::Stored) as usize + 2;
    let built = builder.finish();
    assert_eq!(built.pack[stream..stream + 2], [0x78, 1]);
    let mut file = Vec::new();
    loose::encode(Kind::Contents, b"loose", Compression::Stored, &mut file);
    let loose_id = algorithm.object_id(Kind::Contents, b"loose");
    for blocks in [0, 40, 1000] {
        let nothing = [0, 0, 0, 0xff, 0xff].repeat(blocks);
        let (mut pack, mut index, mut file) = (built.pack.clone(), built.index.clone(), file.clone());
        pack.splice(stream + 2..stream + 2, nothing.iter().copied());
        file.splice(2..2, nothing.iter().copied());
        seal(&mut pack, &mut index);
        let storage: Arc<dyn Storage> = Arc::new(SimStorage::new());
        write(&*storage, "objects/pack/pack-1.pack", &pack);
        write(&*storage, "objects/pack/pack-1.idx", &index);
        write(&*storage, &format!("objects/{}", loose::name(&loose_id)), &file);
        let odb = Odb::open(storage, algorithm, OdbOptions::default()).unwrap();
        for (oid, raw) in [(oid, &raw[..]), (loose_id, b"loose")] {
            assert_eq!(odb.header(&oid).unwrap(), Some((Kind::Contents, raw.len() as u64)), "{blocks} blocks");
            let mut out = Vec::new();
            assert_eq!(odb.read(&oid, &mut out).unwrap(), Some(Kind::Contents));
            assert_eq!(out, raw);
        }
    }
}

#[test]
fn a_sound_copy_is_read_where_another_is_damaged() {
    let (built, objects) = small();
    let storage: Arc<dyn Storage> = Arc::new(SimStorage::new());
    let mut bad = built.pack.clone();
    bad[20] ^= 1;
    for (name, pack) in [("pack-1", &bad), ("pack-2", &bad), ("pack-3", &built.pack)] {
        write(&*storage, &format!("objects/pack/{name}.pack"), pack);
        write(&*storage, &format!("objects/pack/{name}.idx"), &built.index);
    }
    let odb = Odb::open(storage.clone(), Algorithm::Sha1, OdbOptions::default()).unwrap();
    let mut out = Vec::new();
    for (kind, oid, raw) in &objects {
        assert_eq!(odb.read(oid, &mut out).unwrap(), Some(*kind));
        assert_eq!(out, *raw);
    }
    // A pack that is there still would be found again.
    storage.rename("objects/pack/pack-3.idx", "objects/pack/hidden").unwrap();
    odb.forget_pack("pack-3");
    assert!(matches!(odb.read(&objects[0].1, &mut out), Err(Error::Corrupt { oid: Some(_), .. })));
    storage.rename("objects/pack/hidden", "objects/pack/pack-3.idx").unwrap();
    assert!(Pack::open(&storage, "objects/pack", "pack-1", Algorithm::Sha1).unwrap().check().is_err());
    let sound = Pack::open(&storage, "objects/pack", "pack-3", Algorithm::Sha1).unwrap();
    sound.check().unwrap();
    assert_eq!(sound.read(0, &BaseCache::new(0), &mut out).unwrap(), sound.header(0, &BaseCache::new(0)).unwrap().0);
}
