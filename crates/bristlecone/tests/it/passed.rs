//! Readers of which a collection does not know, so that it removes what they read by.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use bristlecone::{
    Backend, Batch, Durability,
    disk::{DiskBackend, DiskOptions},
    storage::Storage as _,
};
use bristlecone_testkit::sim::{Fault, Hooked, Times};

use crate::{
    collect::{append, move_to, oid, store, sweep},
    engine::{count_with_digits, tiny, tiny_as_shipped, tiny_with_maps},
};

/// A reader of whom the other process does not know, which collects once the reader opens a segment that it is about to remove.
struct Passed {
    reader: DiskBackend,
    // Whether it is to collect still.
    armed: Arc<AtomicBool>,
}

impl Passed {
    fn new(options: &DiskOptions) -> Self {
        let (disk, backend) = store(options);
        append(&backend, 20, &[], Some("20")).unwrap();
        sweep(&backend, &|| ());
        let armed = Arc::new(AtomicBool::new(false));
        let is_armed = armed.clone();
        let hooked = Hooked::new(Arc::new(disk.clone()), move |coming| {
            if coming.method == "open" && coming.name.ends_with(".cold") && is_armed.swap(false, Relaxed) {
                backend.append(Batch::new(), &[move_to("20", None)], Durability::None).unwrap();
                assert!(sweep(&backend, &|| ()).objects > 0);
            }
        });
        // The file that would say so cannot be made.
        disk.fail_at(disk.calls() + 1, Fault::Io, Times::Once);
        let reader = DiskBackend::open(Arc::new(hooked), None, options.clone(), true).unwrap();
        disk.heal();
        assert_eq!(disk.list("readers").unwrap().len(), 1, "only the other one's");
        armed.store(true, Relaxed);
        Self { reader, armed }
    }
}

/// Another process collects after the reader has looked at the store's state and before it opens the first segment.
#[test]
fn an_id_is_found_by_its_first_digits_while_another_process_collects() {
    for options in [tiny(), tiny_with_maps(), tiny_as_shipped()] {
        let passed = Passed::new(&options);
        for number in [2, 3] {
            assert!(count_with_digits(&passed.reader, oid(number), 20) > 0, "{number}");
        }
        assert!(!passed.armed.load(Relaxed), "a collection came in between");
    }
}

#[test]
fn an_object_is_read_while_another_process_collects() {
    for options in [tiny(), tiny_with_maps(), tiny_as_shipped()] {
        let passed = Passed::new(&options);
        for number in [2, 3] {
            let found = passed.reader.read(&oid(number).into()).unwrap();
            assert!(found.is_some(), "{number}");
        }
        assert!(!passed.armed.load(Relaxed), "a collection came in between");
    }
}

/// Writes an object that a ref leads to and leaves, and collects.
fn drop_and_sweep(backend: &DiskBackend, number: u64) {
    append(backend, number, &[], Some("short")).unwrap();
    backend.append(Batch::new(), &[move_to("short", None)], Durability::None).unwrap();
    assert!(sweep(backend, &|| ()).objects > 0);
}

/// A state that the log names gives way to a later one before the reader looks at its file.
#[test]
fn a_state_that_is_gone_when_it_is_looked_at_gives_way_to_the_next_one() {
    for options in [tiny(), tiny_with_maps(), tiny_as_shipped()] {
        let (disk, backend) = store(&options);
        let (backend, armed) = (Arc::new(backend), Arc::new(AtomicBool::new(false)));
        let (other, is_armed) = (backend.clone(), armed.clone());
        let hooked = Hooked::new(Arc::new(disk.clone()), move |coming| {
            if coming.method == "open" && coming.name.ends_with(".state") && is_armed.swap(false, Relaxed) {
                drop_and_sweep(&other, 21);
            }
        });
        // The file that would say so cannot be made.
        disk.fail_at(disk.calls() + 1, Fault::Io, Times::Once);
        let reader = DiskBackend::open(Arc::new(hooked), None, options.clone(), true).unwrap();
        disk.heal();
        assert_eq!(disk.list("readers").unwrap().len(), 1, "only the other one's");
        drop_and_sweep(&backend, 20);
        armed.store(true, Relaxed);
        assert_eq!(reader.list_refs("").unwrap(), backend.list_refs("").unwrap());
        assert!(!armed.load(Relaxed), "a collection came in between");
        assert!(reader.read(&oid(2).into()).unwrap().is_some());
    }
}
