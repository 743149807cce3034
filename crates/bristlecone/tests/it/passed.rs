//! Readers of which a collection does not know, so that it removes what they read by.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use bristlecone::{Backend, Batch, Durability, disk::DiskBackend, storage::Storage as _};
use bristlecone_testkit::sim::{Fault, Hooked, Times};

use crate::{
    collect::{append, move_to, oid, store, sweep},
    engine::{count_with_digits, tiny, tiny_as_shipped, tiny_with_maps},
};

/// Another process collects after the reader has looked at the store's state and before it opens the first segment.
#[test]
fn an_id_is_found_by_its_first_digits_while_another_process_collects() {
    for options in [tiny(), tiny_with_maps(), tiny_as_shipped()] {
        let (disk, backend) = store(&options);
        append(&backend, 20, &[], Some("20")).unwrap();
        sweep(&backend, &|| ());
        let backend = Arc::new(backend);
        let (beside, armed) = (backend.clone(), Arc::new(AtomicBool::new(false)));
        let is_armed = armed.clone();
        let hooked = Hooked::new(Arc::new(disk.clone()), move |coming| {
            if coming.method == "open" && coming.name.ends_with(".cold") && is_armed.swap(false, Relaxed) {
                beside.append(Batch::new(), &[move_to("20", None)], Durability::None).unwrap();
                assert!(sweep(&beside, &|| ()).objects > 0);
            }
        });
        // The file that would say so cannot be made.
        disk.fail_at(disk.calls() + 1, Fault::Io, Times::Once);
        let other = DiskBackend::open(Arc::new(hooked), None, options.clone(), true).unwrap();
        disk.heal();
        assert_eq!(disk.list("readers").unwrap().len(), 1, "only the other one's");
        armed.store(true, Relaxed);
        for number in [2, 3] {
            assert!(count_with_digits(&other, oid(number), 20) > 0, "{number}");
        }
        assert!(!armed.load(Relaxed), "a collection came in between");
    }
}
