//! Opening and making stores: what is refused, and what a creation that was killed leaves.

use std::{fs, path::Path, sync::Arc};

use bristlecone::{
    Backend as _, Batch, Durability, Error, Expected, RefMove,
    engine::Header,
    storage::{RealStorage, Storage as _},
};
use bristlecone_lsm::{LsmBackend, LsmOptions};

use crate::{
    create, format_tag,
    history::{REFS, check, commit, head, litter, sweep},
    tiny,
};

fn open(dir: &Path, read_only: bool) -> Result<LsmBackend, Error> {
    LsmBackend::open(dir, LsmOptions::default().lock_wait_ms(50), read_only)
}

#[test]
fn the_header_tells_what_a_store_is() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(open(dir.path(), false), Err(Error::NoStore { .. })));
    assert!(!dir.path().join("lock").exists(), "nothing is made where there is no store");
    let backend = create(dir.path(), LsmOptions::default());
    assert_eq!((&backend.header().format, backend.header().version), (&format_tag(), 1));
    assert_eq!(&LsmBackend::header_in(dir.path()).unwrap(), backend.header());
    let again = LsmBackend::create(dir.path(), format_tag(), LsmOptions::default());
    assert!(matches!(again, Err(Error::Exists { .. })), "{again:?}");
}

#[test]
fn options_may_say_that_something_never_comes() {
    let dir = tempfile::tempdir().unwrap();
    let never = LsmOptions::default().grouped_ms(u64::MAX).index_bytes(u64::MAX).memtable_bytes(u64::MAX);
    let backend = create(dir.path(), never.clone());
    assert_eq!(commit(&backend, Durability::Grouped).unwrap(), 1);
    drop(backend);
    let backend = LsmBackend::open(dir.path(), never, false).unwrap();
    assert_eq!(head(&backend).unwrap(), 1);
    backend.close().unwrap();
}

#[test]
fn stores_of_others_and_of_later_versions_are_refused_and_left_alone() {
    for (backend, version) in [("fs", 1), ("lsm", 2)] {
        let dir = tempfile::tempdir().unwrap();
        Header { backend, version, format: format_tag() }.write(&RealStorage::new(dir.path())).unwrap();
        let refused = open(dir.path(), false);
        assert!(matches!(refused, Err(Error::Incompatible { .. })), "{refused:?}");
        let made = LsmBackend::create(dir.path(), format_tag(), LsmOptions::default());
        assert!(matches!(made, Err(Error::Exists { .. })), "{made:?}");
        assert_eq!(RealStorage::new(dir.path()).list("").unwrap(), ["store"]);
    }
}

#[test]
fn one_process_at_a_time_has_it_open_and_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), LsmOptions::default());
    match open(dir.path(), true) {
        Err(Error::Locked { file, holder, waited_ms }) => {
            assert!(file.ends_with("lock") && waited_ms >= 50, "{file}, {waited_ms} ms");
            assert!(holder.contains(&std::process::id().to_string()), "{holder}");
        }
        other => panic!("{other:?}"),
    }
    // A snapshot holds the store, too.
    let snapshot = backend.snapshot(&[]);
    drop(backend);
    assert!(matches!(open(dir.path(), false), Err(Error::Locked { .. })));
    drop(snapshot);
    open(dir.path(), false).unwrap();
}

#[test]
fn what_is_open_for_reading_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), LsmOptions::default());
    for _ in 0..20 {
        commit(&backend, Durability::None).unwrap();
    }
    drop(backend);
    let backend = open(dir.path(), true).unwrap();
    check(&backend, 20).unwrap();
    assert!(matches!(commit(&backend, Durability::None), Err(Error::ReadOnly)));
    assert!(matches!(litter(&backend, 1), Err(Error::ReadOnly)));
    assert!(matches!(sweep(&backend), Err(Error::ReadOnly)));
    assert!(matches!(backend.write_derived("name", b"bytes"), Err(Error::ReadOnly)));
    backend.flush().unwrap();
    backend.close().unwrap();
}

/// What a process left that died while it wrote a derived file goes when the store is opened to be written.
#[test]
fn what_is_left_of_a_derived_file_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    drop(create(dir.path(), LsmOptions::default()));
    bristlecone_testkit::conformance::what_is_left_of_a_derived_file_is_removed(
        &dir.path().join("derived"),
        &|read_only| Arc::new(open(dir.path(), read_only).unwrap()),
    );
}

#[test]
fn what_a_killed_creation_left_is_replaced_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    drop(create(dir.path(), LsmOptions::default()));
    // As if it had been killed before the header was written.
    fs::remove_file(dir.path().join("store")).unwrap();
    fs::remove_file(dir.path().join("durable")).unwrap();
    let backend = create(dir.path(), LsmOptions::default());
    commit(&backend, Durability::Synced).unwrap();
    drop(backend);
    // A store that lost its header is no such thing.
    let header = fs::read(dir.path().join("store")).unwrap();
    fs::remove_file(dir.path().join("store")).unwrap();
    let made = LsmBackend::create(dir.path(), format_tag(), LsmOptions::default());
    assert!(matches!(made, Err(Error::Lost { .. })), "{made:?}");
    fs::write(dir.path().join("store"), header).unwrap();
    assert_eq!(head(&open(dir.path(), false).unwrap()).unwrap(), 1);
}

#[test]
fn a_database_that_is_not_there_is_told_and_not_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    drop(create(dir.path(), LsmOptions::default()));
    fs::remove_file(dir.path().join("lsm/version")).unwrap();
    let opened = open(dir.path(), false);
    assert!(matches!(opened, Err(Error::Lost { .. })), "{opened:?}");
    assert!(!dir.path().join("lsm/version").exists());
}

#[test]
fn grouped_appends_are_synced_soon_and_without_threads_by_the_next_call() {
    for background in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let backend = create(dir.path(), LsmOptions::default().background(background));
        let before = backend.stats().syncs;
        commit(&backend, Durability::Grouped).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert_eq!(backend.stats().syncs - before, u64::from(background));
        backend.append(Batch::new(), &[], Durability::None).unwrap();
        assert_eq!(backend.stats().syncs - before, 1);
    }
}

#[test]
fn statistics_follow_what_is_appended_and_swept() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), tiny());
    let empty = backend.stats();
    for number in 0..50 {
        commit(&backend, Durability::None).unwrap();
        litter(&backend, number).unwrap();
    }
    let full = backend.stats();
    assert_eq!((full.batches - empty.batches, full.bytes_written), (100, full.store_bytes));
    assert!(full.file_bytes > full.store_bytes && full.memory_bytes > 0, "{full:?}");
    let swept = sweep(&backend).unwrap();
    assert_eq!(swept.objects, 50);
    let after = backend.stats();
    assert!(after.store_bytes + swept.bytes <= full.store_bytes, "{after:?}, {swept:?}");
    drop(backend);
    let backend = LsmBackend::open(dir.path(), tiny(), false).unwrap();
    assert_eq!(backend.stats().store_bytes, after.store_bytes);
    check(&backend, 50).unwrap();
}

#[test]
fn what_is_refused_and_what_is_empty_is_no_write() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), tiny());
    commit(&backend, Durability::None).unwrap();
    let before = backend.stats().writes;
    let wanted = RefMove { name: REFS[0].to_owned(), expected: Expected::Absent, to: None };
    for durability in [Durability::None, Durability::Synced] {
        assert!(backend.append(Batch::new(), std::slice::from_ref(&wanted), durability).is_err());
        backend.append(Batch::new(), &[], durability).unwrap();
    }
    assert_eq!(backend.stats().writes, before);
    commit(&backend, Durability::None).unwrap();
    assert_eq!(backend.stats().writes, before + 1);
}

#[test]
fn a_sweep_without_threads_does_not_wait_for_what_is_owed() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), LsmOptions::default().background(false).index_bytes(1));
    for number in 0..3 {
        commit(&backend, Durability::None).unwrap();
        litter(&backend, number).unwrap();
    }
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(sweep(&backend).map(|swept| swept.objects)));
    let swept = receiver.recv_timeout(std::time::Duration::from_secs(20)).expect("the sweep ends");
    assert_eq!(swept.unwrap(), 3);
}
