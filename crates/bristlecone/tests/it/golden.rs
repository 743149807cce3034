//! A store of version 1 of the native format, as it was written when the version was frozen, is read, checked and
//! written on; and the objects in it are those that are written today.
//!
//! `golden/native-1/` is that store: two commits, one of them by an import with unusual modes, an empty directory, and
//! an annotated tag. It never changes; a later version gets a folder of its own.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use bristlecone::{
    Batch, Commit, Durability, EntryKind, Expected, Format, Info, Kind, LogOptions, Native, ObjRef, Oid, RefMove,
    RefTarget, Repo, Signature, Tag, Zone,
    core::{Change, ChangeTarget, Mode, NoSource},
    disk::{DiskBackend, DiskOptions},
};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/native-1")
}

fn options() -> DiskOptions {
    DiskOptions::default().segment_bytes(16 << 10).background(false)
}

fn who() -> Signature {
    Signature { ident: b"Ada <ada@example.org>".to_vec(), seconds: 1_700_000_000, zone: Zone::from_bytes(b"-0000") }
}

const LARGE_BYTES: usize = 3000;

/// Makes the store.
fn write(dir: &Path) {
    let repo = Repo::create(dir, Native::new(), options()).unwrap();
    let native = *repo.format();
    let mut batch = Batch::new();
    let empty = native.empty_dir(&mut batch).unwrap();
    let value = |step, digits| Change {
        step,
        mode: Mode::spelled(EntryKind::Value, digits).unwrap(),
        to: Some((EntryKind::Value, ChangeTarget::Inline(b"1"))),
    };
    let below = [value(b"odd", b"100664"), value(b"usual", b"100644")];
    let below = native.update(&NoSource, &mut batch, None, &below).unwrap().unwrap();
    let dir = |step, at, digits| Change {
        step,
        mode: Mode::spelled(EntryKind::Dir, digits).unwrap(),
        to: Some((EntryKind::Dir, ChangeTarget::Object { at, bytes: 0 })),
    };
    let module = ChangeTarget::Foreign(Oid::new(&[0x51; 20]).unwrap());
    let entries = [
        dir(b"dir", below, b"040000"),
        dir(b"empty", empty, b"40000"),
        Change { step: b"module", mode: Mode::USUAL, to: Some((EntryKind::Foreign, module)) },
    ];
    let tree = native.update(&NoSource, &mut batch, None, &entries).unwrap().unwrap();
    let raw = (b"git-raw".to_vec(), b"tree 0\n".to_vec());
    let imported = Commit { headers: vec![raw], ..Commit::new(tree.into(), vec![], who(), "imported\n") };
    let commit = native.put_commit(&mut batch, &imported, 1).unwrap();
    let tag = Tag {
        target: commit,
        kind: Kind::Commit,
        name: b"v1".to_vec(),
        tagger: Some(who()),
        headers: vec![],
        message: b"one\n".to_vec(),
    };
    let tag = native.put_tag(&mut batch, &tag).unwrap();
    let to =
        |name: &str, at| RefMove { name: name.to_owned(), expected: Expected::Absent, to: Some(RefTarget::Object(at)) };
    let moves = [to("refs/heads/main", commit), to("refs/tags/v1", tag)];
    repo.backend().append(batch, &moves, Durability::Synced).unwrap();
    let main = repo.branch("main").unwrap();
    let mut tree = main.tree().unwrap();
    (0..200).for_each(|number| tree.set(format!("wide/{number}"), format!("value {number}")).unwrap());
    tree.set("large", vec![b'l'; LARGE_BYTES]).unwrap();
    tree.set_kind("link", EntryKind::Link, "wide/7").unwrap();
    main.commit(&mut tree, &Info::message("second\n").by(who())).unwrap();
}

/// Returns every object with its kind and bytes, each checked against its id.
fn objects(repo: &Repo) -> BTreeMap<String, (Kind, Vec<u8>)> {
    let mut objects = BTreeMap::new();
    let mut each = |oid: Oid, object: &bristlecone::Object<'_>| {
        assert_eq!(repo.hash_object(object)?, oid);
        repo.format().children(object.kind(), object.body(), &mut |_, _| ())?;
        objects.insert(oid.to_string(), (object.kind(), object.body().to_vec()));
        Ok(())
    };
    repo.backend().each_object(&mut each, &mut |damage| panic!("{damage:?}")).unwrap();
    objects
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn object_of(repo: &Repo, name: &str) -> ObjRef {
    repo.resolve(name).unwrap().unwrap_or_else(|| panic!("{name} is there"))
}

#[test]
fn a_store_of_version_1_holds_what_is_written_today() {
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    copy(&golden(), old.path());
    let old = Repo::<Native>::open_read_only(old.path(), options()).unwrap();
    write(&new.path().join("store"));
    let new = Repo::<Native>::open_read_only(new.path().join("store"), options()).unwrap();
    assert_eq!(objects(&old), objects(&new));
    assert_eq!(old.backend().list_refs("").unwrap(), new.backend().list_refs("").unwrap());
    for name in ["refs/heads/main", "refs/tags/v1"] {
        assert_eq!(object_of(&old, name), object_of(&new, name));
    }
}

#[test]
fn a_store_of_version_1_is_read_and_written_on() {
    let dir = tempfile::tempdir().unwrap();
    copy(&golden(), dir.path());
    let repo = Repo::<Native>::open(dir.path(), options()).unwrap();
    let main = repo.branch("main").unwrap();
    let mut tree = main.tree().unwrap();
    let text = |path: &str| tree.get(path).unwrap().map(|bytes| String::from_utf8(bytes.to_vec()).unwrap());
    assert_eq!((text("dir/odd"), text("wide/199")), (Some("1".to_owned()), Some("value 199".to_owned())));
    assert_eq!((text("large").unwrap().len(), text("link")), (LARGE_BYTES, Some("wide/7".to_owned())));
    assert_eq!((tree.count("wide").unwrap(), tree.contains_tree("empty").unwrap()), (200, true));
    let tag = object_of(&repo, "refs/tags/v1");
    let tag = repo.format().decode_tag(&repo.backend().read(&tag).unwrap().unwrap()).unwrap();
    assert_eq!((tag.kind, &tag.name[..], &tag.message[..]), (Kind::Commit, &b"v1"[..], &b"one\n"[..]));
    let first = repo.read_commit(tag.target.into()).unwrap();
    assert_eq!((first.author, first.headers[0].0.clone()), (who(), b"git-raw".to_vec()));
    // Bound back to what it was, the root is what it was; the modes beside it too.
    let root = tree.root().unwrap();
    tree.set("wide/new", b"new").unwrap();
    tree.set("dir/usual", b"2").unwrap();
    main.commit(&mut tree, &Info::message("third\n").by(who())).unwrap();
    let grown = tree.root().unwrap();
    tree.remove("wide/new").unwrap();
    tree.set("dir/usual", b"1").unwrap();
    assert!(grown != root && tree.root().unwrap() != root, "the directory was set anew, and so its mode is usual");
    let dir_id = |tree: &bristlecone::Tree| tree.get_tree("dir").unwrap().unwrap().root().unwrap();
    assert_eq!(dir_id(&tree), dir_id(&repo.checkout(tag.target.into()).unwrap()), "but the mode in it is kept");
    assert_eq!(repo.log(&[object_of(&repo, "refs/heads/main").into()], LogOptions::default()).count(), 3);
    drop((tree, main, repo));
    let storage = std::sync::Arc::new(bristlecone::storage::RealStorage::new(dir.path()));
    let disk = DiskBackend::open(storage, Some(Native::NAME), options(), false).unwrap();
    let checked = disk.check(&mut |damage| panic!("{damage:?}")).unwrap();
    assert_eq!(checked.damages, 0);
}

#[test]
#[ignore = "makes the folder for a version that has none"]
fn write_the_store() {
    assert!(!golden().exists(), "a frozen version's store is not written again");
    write(&golden());
}
