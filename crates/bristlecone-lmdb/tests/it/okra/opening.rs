//! Opening: what is there, what is not a map, and what must not be touched.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use bristlecone_lmdb::okra::{Mode, OkraError, OkraMap, OkraOptions};
use heed::{EnvOpenOptions, types::Bytes};

use super::{create, in_a_child, model, set_many};

/// Writes entries into an environment with another crate.
fn write_stored(dir: &Path, entries: &[(&[u8], &[u8])]) {
    fs::create_dir_all(dir).unwrap();
    // SAFETY: nobody else has the environment open.
    let env = unsafe { EnvOpenOptions::new().map_size(1 << 24).open(dir) }.unwrap();
    let database = env
        .create_databases_and_commit(env.write_txn().unwrap(), |opener, txn| {
            opener.create_database::<Bytes, Bytes>(txn, None).map(heed::CommitOrAbort::<_, ()>::Commit)
        })
        .unwrap()
        .unwrap_commit();
    let mut txn = env.write_txn().unwrap();
    entries.iter().for_each(|(key, value)| database.put(&mut txn, key, value).unwrap());
    txn.commit().unwrap();
}

/// The metadata of a map, with another byte at an offset.
fn metadata(offset: usize, byte: u8) -> [u8; 11] {
    let mut metadata = *b"okra\x03\x10\x00\x00\x00\x20\x01";
    metadata[offset] = byte;
    metadata
}

#[test]
fn another_map_or_program_is_refused_with_what_it_is() {
    let rows: [(&[u8], &str); 7] = [
        (&metadata(0, b'x'), "another program, whose entry ff begins with 786b7261"),
        (&metadata(4, 2), "an Okra map of version 2"),
        (&metadata(5, 32), "an Okra map with K 32, Q 32"),
        (&metadata(9, 4), "an Okra map with K 16, Q 4"),
        (&metadata(10, 7), "an Okra map in the unknown mode 7"),
        (b"okra\x03\x10\x00\x00\x00\x20", "another program, whose entry ff holds 10 bytes"),
        (b"", "another program, whose entry ff holds 0 bytes"),
    ];
    for (metadata, expected) in rows {
        let dir = tempfile::tempdir().unwrap();
        write_stored(dir.path(), &[(&[0], &[7; 16]), (&[0xff], metadata)]);
        let before = fs::read(dir.path().join("data.mdb")).unwrap();
        let options = OkraOptions::default();
        for opened in [OkraMap::open(dir.path(), &options), OkraMap::create(dir.path(), &options)] {
            let Err(OkraError::Incompatible { file, found, .. }) = opened else { panic!("{opened:?}") };
            assert!(file.ends_with("data.mdb") && found.contains(expected), "{found}");
        }
        assert!(fs::read(dir.path().join("data.mdb")).unwrap() == before, "it was changed");
    }
    let dir = tempfile::tempdir().unwrap();
    write_stored(dir.path(), &[(b"somebody", b"else")]);
    for opened in
        [OkraMap::open(dir.path(), &OkraOptions::default()), OkraMap::create(dir.path(), &OkraOptions::default())]
    {
        let Err(OkraError::Incompatible { found, .. }) = opened else { panic!("{opened:?}") };
        assert!(found.contains("with 1 entries and none at ff"), "{found}");
    }
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("data.mdb"), [1; 9000]).unwrap();
    let opened = OkraMap::open(dir.path(), &OkraOptions::default());
    assert!(matches!(opened, Err(OkraError::Incompatible { .. })), "{opened:?}");
}

#[test]
fn a_map_is_where_it_was_made_and_in_its_mode() {
    let dir = tempfile::tempdir().unwrap();
    let options = OkraOptions::default();
    assert!(matches!(OkraMap::open(dir.path(), &options), Err(OkraError::NoMap { .. })));
    assert!(matches!(OkraMap::open(dir.path().join("nowhere"), &options), Err(OkraError::NoMap { .. })));
    // Where the system does not say what is there, nothing is said of a map.
    let (data, alone) = (dir.path().join("data.mdb"), dir.path().join("alone.mdb"));
    for (link, opened) in [(&data, dir.path()), (&alone, &*alone)] {
        std::os::unix::fs::symlink(link, link).unwrap();
        let refused = OkraMap::open(opened, &options);
        assert!(matches!(refused, Err(OkraError::Io { .. })), "{refused:?}");
        fs::remove_file(link).unwrap();
    }
    // An environment in which nothing was written is no map, and can become one.
    write_stored(dir.path(), &[]);
    assert!(matches!(OkraMap::open(dir.path(), &options), Err(OkraError::NoMap { .. })));

    let map = OkraMap::create(dir.path(), &options.clone().mode(Mode::Index)).unwrap();
    assert!(matches!(OkraMap::open(dir.path(), &options), Err(OkraError::AlreadyOpen { .. })));
    drop(map);
    assert!(matches!(OkraMap::create(dir.path(), &options), Err(OkraError::Exists { .. })));
    let refused = OkraMap::open(dir.path(), &options.clone().mode(Mode::Store)).unwrap_err();
    assert!(refused.to_string().contains("there is an Okra map in index mode"), "{refused}");
    assert_eq!(OkraMap::open(dir.path(), &options).unwrap().mode(), Mode::Index);

    let map = OkraMap::open(dir.path(), &options.clone().read_only(true)).unwrap();
    assert!(matches!(map.write(), Err(OkraError::ReadOnly { .. })));
    assert_eq!(map.read().unwrap().root().unwrap().level, 0);
    let elsewhere = dir.path().join("b");
    assert!(matches!(OkraMap::create(&elsewhere, &options.read_only(true)), Err(OkraError::ReadOnly { .. })));
    assert!(!elsewhere.exists());
}

#[test]
fn each_file_has_one_lock_whatever_path_leads_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let options = OkraOptions::default();
    let map = OkraMap::create(dir.path(), &options).unwrap();
    let data = dir.path().join("data.mdb");
    let link = dir.path().join("link.mdb");
    std::os::unix::fs::symlink(&data, &link).unwrap();
    for path in [&data, &link] {
        let again = OkraMap::open(path, &options);
        assert!(matches!(again, Err(OkraError::AlreadyOpen { .. })), "{again:?}");
    }
    drop(map);
    for path in [&data, &link] {
        let map = OkraMap::open(path, &options).unwrap();
        assert!(matches!(OkraMap::open(dir.path(), &options), Err(OkraError::AlreadyOpen { .. })));
        drop(map);
    }
    // A file of another name stands alone, whichever link leads to it.
    let alone = dir.path().join("alone.mdb");
    fs::rename(&data, &alone).unwrap();
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(&alone, &link).unwrap();
    drop(OkraMap::open(&link, &options).unwrap());
    let mut names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["alone.mdb", "alone.mdb-lock", "link.mdb", "lock.mdb"]);
}

#[test]
fn a_file_that_stands_alone_and_a_named_database_are_maps_too() {
    let dir = tempfile::tempdir().unwrap();
    let map = create(dir.path(), Mode::Store);
    let root = set_many(&map, [(b"a", b"foo")]);
    drop(map);
    let file = dir.path().join("alone.mdb");
    fs::rename(dir.path().join("data.mdb"), &file).unwrap();
    assert_eq!(OkraMap::open(&file, &OkraOptions::default()).unwrap().read().unwrap().root().unwrap(), root);

    let dir = tempfile::tempdir().unwrap();
    let options = |name: &str| OkraOptions::default().sync(false).database(name);
    let map = OkraMap::create(dir.path(), &options("one")).unwrap();
    assert_eq!(set_many(&map, [(b"a", b"foo")]), root);
    drop(map);
    assert!(matches!(OkraMap::open(dir.path(), &options("two")), Err(OkraError::NoMap { .. })));
    let map = OkraMap::open(dir.path(), &options("one").read_only(true)).unwrap();
    assert_eq!(map.read().unwrap().check().unwrap().root, root);
    drop(map);
    // The names of databases are entries of the unnamed one, which is no map then.
    let unnamed = OkraMap::create(dir.path(), &OkraOptions::default());
    assert!(matches!(unnamed, Err(OkraError::Incompatible { .. })), "{unnamed:?}");
    drop(OkraMap::create(dir.path(), &options("two")).unwrap());
    assert_eq!(OkraMap::open(dir.path(), &options("one")).unwrap().read().unwrap().check().unwrap().root, root);
}

#[test]
fn a_file_that_was_made_alone_opens_again() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("alone.mdb");
    fs::write(&file, []).unwrap();
    let map = OkraMap::create(&file, &OkraOptions::default()).unwrap();
    let root = set_many(&map, [(b"a", b"foo")]);
    assert_eq!(map.read().unwrap().check().unwrap().root, root);
    drop(map);
    let map = OkraMap::open(&file, &OkraOptions::default()).unwrap();
    assert_eq!(map.read().unwrap().check().unwrap().root, root);
}

#[test]
fn a_named_map_is_refused_beside_an_unnamed_one() {
    let dir = tempfile::tempdir().unwrap();
    let options = OkraOptions::default();
    let map = OkraMap::create(dir.path(), &options).unwrap();
    let root = set_many(&map, [(b"a", b"foo")]);
    drop(map);
    let before = fs::read(dir.path().join("data.mdb")).unwrap();
    let named = OkraMap::create(dir.path(), &options.clone().database("x"));
    assert!(matches!(named, Err(OkraError::Incompatible { .. })), "{named:?}");
    assert!(fs::read(dir.path().join("data.mdb")).unwrap() == before, "it was changed");
    assert_eq!(OkraMap::open(dir.path(), &options).unwrap().read().unwrap().check().unwrap().root, root);
    // As an earlier version left it: no root is told of a map that a database's name is in.
    // SAFETY: nobody else has the environment open.
    let env = unsafe { EnvOpenOptions::new().map_size(1 << 24).max_dbs(1).open(dir.path()) }.unwrap();
    let made = env.create_databases_and_commit(env.write_txn().unwrap(), |opener, txn| {
        opener.create_database::<Bytes, Bytes>(txn, Some("x")).map(heed::CommitOrAbort::<_, ()>::Commit)
    });
    let _ = made.unwrap().unwrap_commit();
    drop(env);
    let map = OkraMap::open(dir.path(), &options).unwrap();
    let reader = map.read().unwrap();
    assert!(matches!(reader.root(), Err(OkraError::Damaged { .. })), "{:?}", reader.root());
    assert!(reader.check().is_err());
}

/// Okra leaves a level above the anchor when it deletes the last entry of a map.
#[test]
fn an_empty_map_as_okra_leaves_it_has_the_empty_root_and_is_mended_by_a_change() {
    let dir = tempfile::tempdir().unwrap();
    let empty = blake3::hash(b"").as_bytes()[..16].to_vec();
    let above = blake3::hash(&empty).as_bytes()[..16].to_vec();
    write_stored(dir.path(), &[(&[0], &empty), (&[1], &above), (&[0xff], &metadata(10, 1))]);
    let map = OkraMap::open(dir.path(), &OkraOptions::default()).unwrap();
    let root = map.read().unwrap().root().unwrap();
    assert_eq!((root.level, root.hash.to_string().as_str()), (0, "af1349b9f5f9a1a6a0404dea36dcc949"));
    let refused = map.read().unwrap().check().unwrap_err().to_string();
    assert!(
        refused.contains("level 1, the anchor: it is above the root of an empty map, as Okra leaves it"),
        "{refused}"
    );
    let mut writer = map.write().unwrap();
    writer.insert(b"a", b"foo").unwrap();
    assert_eq!(writer.root().unwrap().hash.to_string(), "4673dadad02d3f337faf434904407d4e");
    writer.remove(b"a").unwrap();
    assert_eq!(writer.commit().unwrap(), root);
    map.read().unwrap().check().unwrap();
    drop(map);
    assert_eq!(model::stored(dir.path()), model::build(Mode::Store, &model::Contents::new()).0);
}

/// The body of a child that may write neither the folder nor a file in it, and so not the table of readers.
fn read_without_rights(dir: &Path) {
    // SAFETY: the call changes who this process is, which has one thread that does something.
    let _ = unsafe { libc::setuid(65534) };
    let refused = OkraMap::open(dir, &OkraOptions::default());
    assert!(matches!(refused, Err(OkraError::Io { .. })), "{refused:?}");
    let map = OkraMap::open(dir, &OkraOptions::default().read_only(true)).unwrap();
    for _ in 0..3 {
        let readers = [map.read().unwrap(), map.read().unwrap()];
        readers.iter().for_each(|reader| assert_eq!(reader.get(b"a").unwrap(), Some(&b"foo"[..])));
        assert_eq!(readers[0].check().unwrap().root, readers[1].root().unwrap());
    }
    assert!(matches!(map.write(), Err(OkraError::ReadOnly { .. })));
    map.flush().unwrap();
}

#[test]
fn a_map_whose_table_of_readers_cannot_be_written_is_read() {
    const DIR: &str = "BRISTLECONE_TEST_OKRA_READ_ONLY";
    if let Ok(dir) = std::env::var(DIR) {
        read_without_rights(Path::new(&dir));
        return;
    }
    for has_table in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let map = create(dir.path(), Mode::Store);
        set_many(&map, [(b"a", b"foo")]);
        drop(map);
        let rights = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let table = dir.path().join("lock.mdb");
        if has_table {
            rights(&table, 0o444);
        } else {
            fs::remove_file(&table).unwrap();
        }
        rights(&dir.path().join("data.mdb"), 0o444);
        rights(dir.path(), 0o555);
        let child = in_a_child("opening::a_map_whose_table_of_readers_cannot_be_written_is_read", DIR, dir.path());
        rights(dir.path(), 0o755);
        assert!(child.status.success(), "{has_table}: {}", String::from_utf8_lossy(&child.stderr));
        assert_eq!(table.exists(), has_table);
    }
}
