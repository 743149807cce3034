//! What a process has promised and not yet done when it closes the store, or when a call fails, is done all the same.

use std::sync::Arc;

use bristlecone::{
    Backend, Batch, Durability, Error,
    disk::DiskBackend,
    storage::{OpenMode, Storage},
};
use bristlecone_testkit::sim::{Fault, Policy, SimStorage, Times};

use crate::{
    engine::{format_tag, open_tiny, tiny},
    faults::set,
};

/// Asserts that the power takes nothing of these refs.
fn assert_durable(disk: &SimStorage, names: &[&str]) {
    let backend = open_tiny(&disk.reboot(1, Policy::Lost), false).unwrap();
    for name in names {
        assert!(backend.get_ref(name).unwrap().is_some(), "{name} is lost");
    }
}

/// Another process holds the lock, so that the store cannot be closed in an orderly way.
#[test]
fn what_is_to_be_durable_soon_is_so_once_a_store_is_closed_that_another_process_has_locked() {
    for (background, durability) in
        [(true, Durability::Grouped), (false, Durability::Grouped), (true, Durability::None), (false, Durability::None)]
    {
        let disk = SimStorage::new();
        // The thread that syncs would come much later.
        let options = tiny().lock_wait_ms(3).background(background).grouped_ms(600_000);
        let backend = DiskBackend::create(Arc::new(disk.clone()), format_tag(), options).unwrap();
        set(&backend, "first", Durability::Synced).unwrap();
        set(&backend, "second", durability).unwrap();
        let lock = disk.open("lock", OpenMode::Write).unwrap();
        assert!(lock.try_lock().unwrap());
        let closed = backend.close();
        assert!(matches!(closed, Err(Error::Locked { .. })), "{closed:?}");
        assert_durable(&disk, &["first", "second"]);
        drop(backend);
    }
}

/// An append that is nothing but a wish for durability: another process has written what it is about.
#[test]
fn what_another_process_wrote_is_durable_once_who_asked_for_it_has_closed_the_store() {
    let disk = SimStorage::new();
    let other = DiskBackend::create(Arc::new(disk.clone()), format_tag(), tiny()).unwrap();
    let options = tiny().background(true).grouped_ms(600_000);
    let backend = DiskBackend::open(Arc::new(disk.clone()), None, options, false).unwrap();
    set(&other, "first", Durability::None).unwrap();
    assert!(backend.get_ref("first").unwrap().is_some());
    backend.append(Batch::new(), &[], Durability::Grouped).unwrap();
    drop(backend);
    assert_durable(&disk, &["first"]);
    drop(other);
}

#[test]
fn a_flush_that_fails_before_it_syncs_stays_owed() {
    let disk = SimStorage::new();
    disk.number_reads();
    let backend = DiskBackend::create(Arc::new(disk.clone()), format_tag(), tiny()).unwrap();
    set(&backend, "first", Durability::Synced).unwrap();
    set(&backend, "second", Durability::Grouped).unwrap();
    // It looks first at what others have appended.
    disk.fail_at(disk.calls() + 1, Fault::Io, Times::Once);
    let flushed = backend.flush();
    assert!(matches!(flushed, Err(Error::Io { .. })), "{flushed:?}");
    disk.heal();
    set(&backend, "third", Durability::None).unwrap();
    assert_durable(&disk, &["first", "second"]);
}
