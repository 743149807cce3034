//! The disk engine, opened on files that were changed.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use bristlecone::{
    Backend, Error, Format, Info, Kind, LogOptions, Native, ObjRef, Object, Oid, RefTarget, Repo,
    disk::{DiskBackend, DiskOptions, FormatTag},
};
use bristlecone_testkit::sim::SimStorage;

use crate::{edits, input::Input, seal::seal};

/// The longest input, in bytes.
const BYTES_MAX: usize = 64 << 10;
/// Files that an input can make.
const NAMES: &[&str] = &[
    "segments/00000009.seg",
    "segments/00000002.idx",
    "segments/next-1",
    "segments/behind-1-64-x",
    "derived/@unreached-0000000000000001",
    "derived/@reclaimable",
];

/// A store, and what is in it.
struct Sound {
    disk: SimStorage,
    objects: HashMap<Oid, (Kind, Vec<u8>)>,
}

/// A store of several segments, the sealed ones with indexes. The first byte chooses whether it is read through maps (1), opened for
/// reading only (2), and whether checksums are made right (4) after the changes that follow.
pub fn disk_store(data: &[u8]) {
    let input = &mut Input::new(data, BYTES_MAX);
    let choice = input.byte();
    let (maps, read_only, sealed) = (choice & 1 != 0, choice & 2 != 0, choice & 4 != 0);
    let sound = sound();
    let disk = sound.disk.fork();
    edits::apply(&disk, input, NAMES);
    if sealed {
        seal(&disk);
    }
    let Some(backend) = open(&disk, maps, read_only) else { return };
    // Where checksums were made right, an object may be anything.
    look(&backend, (!sealed).then_some(&sound.objects));
    drop(backend);
    if !read_only {
        go_on(&disk, maps);
    }
}

fn options(maps: bool) -> DiskOptions {
    let options = DiskOptions::default().segment_bytes(4096).background(false).prezero(false);
    options.maps(maps).lock_wait_ms(0).grouped_ms(0).cache_bytes(1 << 16)
}

fn open(disk: &SimStorage, maps: bool, read_only: bool) -> Option<Arc<DiskBackend>> {
    told(DiskBackend::open(Arc::new(disk.clone()), None, options(maps), read_only)).map(Arc::new)
}

/// An error on changed files says which file.
pub(crate) fn told<T>(done: Result<T, Error>) -> Option<T> {
    match done {
        Ok(done) => return Some(done),
        Err(
            Error::Corrupt { file, .. }
            | Error::Lost { file, .. }
            | Error::Incompatible { file, .. }
            | Error::NoStore { file },
        ) => assert!(!file.is_empty(), "an error names its file"),
        Err(_) => {}
    }
    None
}

/// Makes the store from which every input begins: the same one in every process.
fn sound() -> &'static Sound {
    static SOUND: OnceLock<Sound> = OnceLock::new();
    SOUND.get_or_init(|| {
        let disk = SimStorage::new();
        let tag = FormatTag { name: "native".to_owned(), version: 1, options: Native::new().options() };
        let backend = DiskBackend::create(Arc::new(disk.clone()), tag, options(false)).expect("a new store");
        let backend = Arc::new(backend);
        let repo = Repo::with_backend(Native::new(), backend.clone());
        for number in 0..9_usize {
            let branch = repo.branch(if number % 3 == 2 { "side" } else { "main" }).expect("a branch");
            let mut tree = branch.tree().expect("the tree of a branch");
            for name in 0..4 {
                tree.set(format!("dir/{number}{name}"), vec![b'a' + number as u8; 20 + 97 * name].as_slice())
                    .expect("a path");
            }
            branch.commit(&mut tree, &Info::unsigned(format!("commit {number}"))).expect("a commit");
        }
        backend.write_derived("history", b"something that was derived").expect("a derived file");
        // Who asks for what is not there has indexes made.
        assert!(backend.read(&Oid::from_array([7; 32]).into()).expect("a sound store").is_none());
        let mut objects = HashMap::new();
        let keep = &mut |oid, object: &Object<'_>| {
            objects.insert(oid, (object.kind(), object.body().to_vec()));
            Ok(())
        };
        backend.each_object(keep, &mut |_| panic!("damage in a sound store")).expect("a sound store");
        backend.close().expect("a sound store");
        drop((repo, backend));
        seal(&disk);
        // What is sealed opens: a search over a store that is refused at once would find nothing.
        let sealed = DiskBackend::open(Arc::new(disk.fork()), None, options(false), true).expect("a sound store");
        sealed.check(&mut |damage| panic!("damage in a sound store: {damage:?}")).expect("a sound store");
        Sound { disk, objects }
    })
}

/// Reads all there is. With `wanted`, no object is another one.
fn look(backend: &Arc<DiskBackend>, wanted: Option<&HashMap<Oid, (Kind, Vec<u8>)>>) {
    let judge = |oid: &Oid, object: &Object<'_>| {
        let Some(wanted) = wanted else { return };
        let (kind, body) = wanted.get(oid).expect("an object that was written");
        assert!(*kind == object.kind() && body == object.body(), "another object is read as {oid}");
    };
    let refs = told(backend.list_refs("")).unwrap_or_default();
    for target in refs.values() {
        if let RefTarget::Object(at) = target
            && let Some(Some(object)) = told(backend.read(at))
        {
            judge(&at.oid, &object);
        }
    }
    let mut ids = Vec::new();
    let each = &mut |oid, object: &Object<'_>| {
        judge(&oid, object);
        ids.push(oid);
        Ok(())
    };
    told(backend.each_object(each, &mut |_| ()));
    for oid in ids.iter().take(100) {
        if let Some(Some(object)) = told(backend.read(&ObjRef::from(*oid))) {
            judge(oid, &object);
        }
    }
    told(backend.read(&Oid::from_array([7; 32]).into()));
    told(backend.read_derived("history"));
    told(backend.position());
    told(backend.check(&mut |_| ()));
    history(&Repo::with_backend(Native::new(), backend.clone()));
}

/// Follows the history, and reads the trees.
fn history(repo: &Repo<Native>) {
    for name in ["main", "side"] {
        let Some(branch) = told(repo.branch(name)) else { continue };
        let Some(Some(head)) = told(branch.head()) else { continue };
        let mut entries = 0;
        for entry in repo.log(&[head], LogOptions::default()).take(20) {
            let Some(entry) = told(entry) else { break };
            entries += usize::from(entry.id.oid() == head.oid());
        }
        assert!(entries <= 1, "a commit is listed once");
        let Some(tree) = told(branch.tree()) else { continue };
        let Some(listing) = told(tree.list("dir")) else { continue };
        let names: Vec<_> =
            listing.take(100).map_while(|entry| told(entry).map(|entry| entry.step().to_vec())).collect();
        for name in names {
            told(tree.get(["dir", &String::from_utf8_lossy(&name)].concat().as_str()));
        }
    }
}

/// Where a store opens and takes a commit, the commit is there when it is opened again.
fn go_on(disk: &SimStorage, maps: bool) {
    let Some(backend) = open(disk, maps, false) else { return };
    let repo = Repo::with_backend(Native::new(), backend.clone());
    let Some(branch) = told(repo.branch("other")) else { return };
    let mut tree = repo.tree();
    tree.set("a", b"new").expect("a path");
    if told(branch.commit(&mut tree, &Info::unsigned("new"))).is_none() || told(backend.close()).is_none() {
        return;
    }
    drop((branch, tree, repo, backend));
    let backend = DiskBackend::open(Arc::new(disk.clone()), None, options(maps), false).expect("it was opened before");
    let repo = Repo::with_backend(Native::new(), Arc::new(backend));
    let tree = repo.branch("other").and_then(|branch| branch.tree()).expect("the branch was moved");
    assert_eq!(tree.get("a").expect("the value was committed").as_deref(), Some(&b"new"[..]));
}
