//! What a store refuses to open, and what is noticed of damage.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::{fs::PermissionsExt, process::ExitStatusExt},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

use bristlecone::{
    Backend, Batch, Durability, Error, Expected, Oid, RefMove, RefTarget,
    engine::StoreLock,
    report,
    storage::{RealStorage, Storage},
};
use bristlecone_lmdb::backend::{LmdbBackend, LmdbOptions};
use bristlecone_testkit::generate::Rng;

use super::{
    children::{raise_count, read_count, say, start},
    create, format_tag, open,
};

fn try_open(dir: &Path) -> Result<LmdbBackend, Error> {
    LmdbBackend::open(dir, LmdbOptions::default(), false)
}

fn data(dir: &Path) -> PathBuf {
    dir.join("lmdb/data.mdb")
}

/// Makes a store with some commits, and closes it.
fn some_commits(dir: &Path, count: u64) {
    let backend = create(dir, &LmdbOptions::default());
    for number in 0..count {
        raise_count(&backend, number, Durability::None).unwrap();
    }
}

/// Asserts that an error is typed and names a file.
fn names(error: &Error, file: &str) {
    let text = report(error);
    assert!(text.contains(file), "{file} is not named: {text}");
}

#[test]
fn a_store_is_made_once_and_found_where_it_is() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(try_open(dir.path()), Err(Error::NoStore { .. })));
    assert!(matches!(try_open(&dir.path().join("nowhere")), Err(Error::NoStore { .. })));
    let place = dir.path().join("deep/down");
    drop(create(&place, &LmdbOptions::default()));
    let again = LmdbBackend::create(&place, format_tag(), LmdbOptions::default());
    assert!(matches!(again, Err(Error::Exists { .. })), "{again:?}");
    assert_eq!(try_open(&place).unwrap().header().format, format_tag());
}

#[test]
fn who_makes_a_store_a_moment_later_is_told_that_there_is_one() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    drop(create(other.path(), &LmdbOptions::default()));
    let storage: Arc<dyn Storage> = Arc::new(RealStorage::new(dir.path()));
    let lock = StoreLock::new(storage, "lock", 0);
    let guard = lock.take().unwrap();
    let place = dir.path().to_owned();
    let slow = thread::spawn(move || LmdbBackend::create(place, format_tag(), LmdbOptions::default()));
    // It has seen that there is no store by then, and waits. If it has not yet, the test shows nothing, and does not fail.
    thread::sleep(Duration::from_millis(100));
    fs::create_dir(dir.path().join("lmdb")).unwrap();
    for file in ["lmdb/data.mdb", "store"] {
        fs::copy(other.path().join(file), dir.path().join(file)).unwrap();
    }
    drop(guard);
    let told = slow.join().unwrap();
    assert!(matches!(told, Err(Error::Exists { .. })), "{told:?}");
}

/// What a process left that died while it wrote a derived file goes when the store is opened to be written.
#[test]
fn what_is_left_of_a_derived_file_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    drop(create(dir.path(), &LmdbOptions::default()));
    bristlecone_testkit::conformance::what_is_left_of_a_derived_file_is_removed(
        &dir.path().join("derived"),
        &|read_only| Arc::new(LmdbBackend::open(dir.path(), LmdbOptions::default(), read_only).unwrap()),
    );
}

#[test]
fn handles_of_one_process_share_what_is_open() {
    let dir = tempfile::tempdir().unwrap();
    let one = create(dir.path(), &LmdbOptions::default());
    let other = try_open(dir.path()).unwrap();
    let reader = LmdbBackend::open(dir.path(), LmdbOptions::default(), true).unwrap();
    raise_count(&one, 0, Durability::None).unwrap();
    drop(one);
    raise_count(&other, 1, Durability::None).unwrap();
    assert_eq!(read_count(&reader, 2), 2);
    assert!(matches!(raise_count(&reader, 2, Durability::None), Err(Error::ReadOnly)));
    assert!(matches!(reader.write_derived("x", b""), Err(Error::ReadOnly)));
    drop((other, reader));
    let reader = LmdbBackend::open(dir.path(), LmdbOptions::default(), true).unwrap();
    assert_eq!(read_count(&reader, 2), 2);
    assert!(matches!(raise_count(&reader, 2, Durability::None), Err(Error::ReadOnly)));
    assert!(matches!(try_open(dir.path()), Err(Error::Usage { .. })), "it is open for reading only");
    drop(reader);
    raise_count(&try_open(dir.path()).unwrap(), 2, Durability::Synced).unwrap();
    // Threads that open and close it all get the one that is open, or open it anew.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..30).for_each(|_| assert_eq!(read_count(&try_open(dir.path()).unwrap(), 0), 3)));
        }
    });
}

#[test]
fn what_a_killed_creation_left_does_not_stop_the_next() {
    for left in [&b""[..], b"half a page", &[0; 8192]] {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("lmdb")).unwrap();
        fs::write(dir.path().join("lmdb/creating"), b"").unwrap();
        fs::write(data(dir.path()), left).unwrap();
        fs::write(dir.path().join("lmdb/lock.mdb"), left).unwrap();
        raise_count(&create(dir.path(), &LmdbOptions::default()), 0, Durability::None).unwrap();
        assert_eq!(read_count(&open(dir.path(), &LmdbOptions::default()), 1), 1);
        assert!(!dir.path().join("lmdb/creating").exists());
    }
    // Pages of a store that lost its header are not replaced.
    let dir = tempfile::tempdir().unwrap();
    some_commits(dir.path(), 3);
    let (header, bytes) = (fs::read(dir.path().join("store")).unwrap(), fs::read(data(dir.path())).unwrap());
    fs::remove_file(dir.path().join("store")).unwrap();
    let refused = LmdbBackend::create(dir.path(), format_tag(), LmdbOptions::default()).unwrap_err();
    assert!(matches!(refused, Error::Lost { .. }), "{refused:?}");
    names(&refused, "data.mdb");
    assert!(fs::read(data(dir.path())).unwrap() == bytes);
    fs::write(dir.path().join("store"), header).unwrap();
    assert_eq!(read_count(&try_open(dir.path()).unwrap(), 3), 3);
}

#[test]
fn files_that_are_not_the_stores_are_named() {
    let dir = tempfile::tempdir().unwrap();
    some_commits(dir.path(), 10);
    let sound = fs::read(data(dir.path())).unwrap();
    let refused = |bytes: Option<&[u8]>| {
        match bytes {
            Some(bytes) => fs::write(data(dir.path()), bytes).unwrap(),
            None => fs::remove_file(data(dir.path())).unwrap(),
        }
        let error = try_open(dir.path()).expect_err("it is not the store's");
        names(&error, "data.mdb");
        error
    };
    assert!(matches!(refused(None), Error::Lost { .. }));
    for bytes in [&b""[..], b"SQLite format 3\0", &[0; 20_000], &sound[..100], &[0xFF; 9000]] {
        assert!(matches!(refused(Some(bytes)), Error::Corrupt { .. }));
    }
    let mut newer = sound.clone();
    newer[20] = 2;
    assert!(matches!(refused(Some(&newer)), Error::Incompatible { .. }));
    // Another program's file, which LMDB opens.
    let other = tempfile::tempdir().unwrap();
    // SAFETY: no other handle has the folder open.
    let env = unsafe { heed::EnvOpenOptions::new().max_dbs(1).map_size(1 << 20).open(other.path()).unwrap() };
    let txn = env.write_txn().unwrap();
    let made: Result<_, heed::Error> = env.create_databases_and_commit(txn, |open, txn| {
        open.create_database::<heed::types::Bytes, heed::types::Bytes>(txn, Some("theirs"))
            .map(heed::CommitOrAbort::<_, ()>::Commit)
    });
    assert!(made.is_ok());
    let theirs = fs::read(other.path().join("data.mdb")).unwrap();
    assert!(matches!(refused(Some(&theirs)), Error::Corrupt { .. }));
    fs::write(data(dir.path()), &sound).unwrap();
    assert_eq!(read_count(&try_open(dir.path()).unwrap(), 10), 10);
    // A store of another backend, and one of a newer version.
    for (from, to) in [(12, b'f'), (16, 9)] {
        let header = fs::read(dir.path().join("store")).unwrap();
        let mut changed = header.clone();
        changed[from] = to;
        let end = changed.len() - 8;
        let check = twox_hash::XxHash3_64::oneshot(&changed[..end]).to_le_bytes();
        changed[end..].copy_from_slice(&check);
        fs::write(dir.path().join("store"), &changed).unwrap();
        assert!(matches!(try_open(dir.path()), Err(Error::Incompatible { .. })));
        fs::write(dir.path().join("store"), &header).unwrap();
    }
    assert_eq!(read_count(&try_open(dir.path()).unwrap(), 10), 10);
}

#[test]
fn first_pages_of_another_commit_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    some_commits(dir.path(), 10);
    let sound = fs::read(data(dir.path())).unwrap();
    let refused = |bytes: &[u8], what: &str| {
        fs::write(data(dir.path()), bytes).unwrap();
        let opened = try_open(dir.path());
        assert!(matches!(opened, Err(Error::Corrupt { .. })), "{what}: {opened:?}");
    };
    // The number of the commit: of the two pages the one with the higher counts.
    let number_at = [144, 4096 + 144];
    for (at, bit) in number_at.into_iter().flat_map(|at| (0..64).map(move |bit| (at, bit))) {
        let mut bytes = sound.clone();
        bytes[at + bit / 8] ^= 1 << (bit % 8);
        refused(&bytes, &format!("bit {bit} at {at}"));
    }
    let mut later = sound.clone();
    for at in number_at {
        later[at] += 2;
    }
    refused(&later, "two pages that agree, and are not of what the store counts");
    fs::write(data(dir.path()), &sound).unwrap();
    assert_eq!(read_count(&try_open(dir.path()).unwrap(), 10), 10);
}

/// The body of a child that may write neither the folder nor a file in it.
pub(super) fn read_without_rights(dir: &Path) {
    // SAFETY: the call changes who this process is, which has one thread that does something.
    let _ = unsafe { libc::setuid(65534) };
    let refused = try_open(dir).unwrap_err();
    assert!(matches!(refused, Error::Io { .. }), "{refused:?}");
    names(&refused, "lock");
    let backend = LmdbBackend::open(dir, LmdbOptions::default(), true).unwrap();
    assert_eq!(read_count(&backend, 10), 10);
    backend.each_object(&mut |_, _| Ok(()), &mut |damage| panic!("{damage:?}")).unwrap();
    assert!(matches!(raise_count(&backend, 10, Durability::None), Err(Error::ReadOnly)));
    backend.flush().unwrap();
}

#[test]
fn a_folder_that_cannot_be_written_is_read() {
    let dir = tempfile::tempdir().unwrap();
    some_commits(dir.path(), 10);
    let rights = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let lmdb = dir.path().join("lmdb");
    for file in ["lmdb/data.mdb", "lmdb/lock.mdb", "lock", "store"] {
        rights(&dir.path().join(file), 0o444);
    }
    rights(&lmdb, 0o555);
    rights(dir.path(), 0o555);
    start("no-rights", dir.path()).succeed();
    rights(dir.path(), 0o755);
    rights(&lmdb, 0o755);
}

#[test]
fn a_file_that_was_cut_is_refused_unless_only_free_pages_are_missing() {
    let dir = tempfile::tempdir().unwrap();
    some_commits(dir.path(), 60);
    let sound = fs::read(data(dir.path())).unwrap();
    let mut opened = 0;
    for bytes in (0..sound.len()).step_by(4096).chain([1, 5000, sound.len() - 1]) {
        fs::write(data(dir.path()), &sound[..bytes]).unwrap();
        match try_open(dir.path()) {
            Ok(backend) => {
                assert_eq!(read_count(&backend, 60), 60);
                opened += 1;
            }
            Err(error) => {
                assert!(matches!(error, Error::Lost { .. } | Error::Corrupt { .. }), "{error:?}");
                names(&error, "data.mdb");
            }
        }
    }
    println!("{opened} cuts took free pages only, of {}", sound.len() / 4096);
}

#[test]
fn a_held_lock_is_waited_for_and_its_holder_named() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), &LmdbOptions::default().lock_wait_ms(30));
    let other = StoreLock::new(Arc::new(RealStorage::new(dir.path())), "lock", 0);
    let guard = other.take().unwrap();
    match raise_count(&backend, 0, Durability::None) {
        Err(Error::Locked { file, waited_ms, .. }) => assert!(file.ends_with("lock") && waited_ms >= 30),
        other => panic!("{other:?}"),
    }
    assert_eq!(read_count(&backend, 0), 0, "readers wait for no lock");
    drop(guard);
    raise_count(&backend, 0, Durability::None).unwrap();
}

#[test]
fn readers_are_listed() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), &LmdbOptions::default());
    let readers = backend.readers().unwrap();
    assert!(readers.iter().any(|reader| reader.process == std::process::id() && reader.txn.is_none()), "{readers:?}");
    assert_eq!(backend.clear_dead_readers().unwrap(), 0);
}

/// What a store held before it was damaged.
struct Sound {
    objects: BTreeMap<Oid, Vec<u8>>,
    refs: BTreeMap<String, RefTarget>,
}

impl Sound {
    fn read(backend: &LmdbBackend) -> Self {
        let mut objects = BTreeMap::new();
        let mut each = |oid: Oid, object: &bristlecone::Object<'_>| {
            objects.insert(oid, object.body().to_vec());
            Ok(())
        };
        backend.each_object(&mut each, &mut |damage| panic!("{damage:?}")).unwrap();
        Self { objects, refs: backend.list_refs("").unwrap() }
    }

    /// Opens the store as a check does; returns whether damage was noticed. Panics at wrong answers.
    fn is_noticed(&self, dir: &Path) -> bool {
        let backend = match try_open(dir) {
            Ok(backend) => backend,
            Err(error) => {
                names(&error, "data.mdb");
                return true;
            }
        };
        let (mut met, mut damages) = (0, 0);
        let mut each = |oid: Oid, object: &bristlecone::Object<'_>| {
            assert!(self.objects.get(&oid).is_some_and(|body| body == object.body()), "{oid} has other bytes");
            met += 1;
            Ok(())
        };
        backend.each_object(&mut each, &mut |_| damages += 1).unwrap();
        if damages > 0 {
            return true;
        }
        assert_eq!(met, self.objects.len(), "an object is missing, and no damage was told");
        for (oid, body) in &self.objects {
            let found = backend.read(&(*oid).into()).unwrap().expect("it was met");
            assert!(found.body() == body, "{oid} has other bytes");
        }
        match backend.list_refs("") {
            Ok(refs) => assert!(refs == self.refs, "refs are others, and no damage was told"),
            Err(error) => {
                names(&error, "data.mdb");
                return true;
            }
        }
        let moves = [RefMove { name: "new".to_owned(), expected: Expected::Any, to: Some(self.refs["count"].clone()) }];
        backend.append(Batch::new(), &moves, Durability::None).unwrap();
        false
    }
}

/// The body of a child: flips bits of the data file, one at a time, from the one on whose number the file `from` has.
pub(super) fn read_flipped(dir: &Path) {
    let store = dir.join("store");
    let sound = Sound::read(&open(&store, &LmdbOptions::default()));
    let bytes = fs::read(data(&store)).unwrap();
    let from: usize = fs::read_to_string(dir.join("from")).unwrap().parse().unwrap();
    let thorough = std::env::var_os("BRISTLECONE_THOROUGH").is_some();
    let mut rng = Rng::new(5);
    // The fields of the first two pages, the heads of pages and of their entries, and anything.
    let mut bits: Vec<usize> =
        (0..2).flat_map(|page| (page * 32768..).take(152 * 8)).step_by(if thorough { 1 } else { 13 }).collect();
    for _ in 0..if thorough { 5000 } else { 300 } {
        let page = rng.index(bytes.len() / 4096) * 32768;
        bits.push(page + rng.index(64 * 8));
        bits.push(rng.index(bytes.len() * 8));
    }
    let mut noticed = 0;
    for (number, bit) in bits.iter().enumerate().skip(from) {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        fs::write(data(&store), flipped).unwrap();
        fs::write(dir.join("from"), (number + 1).to_string()).unwrap();
        noticed += usize::from(sound.is_noticed(&store));
    }
    fs::write(data(&store), bytes).unwrap();
    say(&format!("{noticed} of {}", bits.len()));
}

#[test]
fn flips_of_bits_are_noticed_or_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    some_commits(&dir.path().join("store"), 120);
    let bytes = fs::read(data(&dir.path().join("store"))).unwrap();
    fs::write(dir.path().join("from"), "0").unwrap();
    let mut signals = Vec::new();
    loop {
        let (status, said, rest) = start("flips", dir.path()).join();
        if status.success() {
            println!("{} flips were noticed", said[0]);
            break;
        }
        assert!(status.signal().is_some(), "{}", rest.join("\n"));
        signals.push((status.to_string(), fs::read_to_string(dir.path().join("from")).unwrap(), rest));
        fs::write(data(&dir.path().join("store")), &bytes).unwrap();
        assert!(signals.len() < 100, "{signals:?}");
    }
    assert!(signals.is_empty(), "{} signals: {signals:?}", signals.len());
}
