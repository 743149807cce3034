//! Going on to the next segment where a call fails.

use std::sync::Arc;

use bristlecone::{Backend, Batch, Durability, Error, Kind, Oid, Sink, disk::DiskBackend};
use bristlecone_testkit::sim::{Fault, SimStorage, Times};

use crate::{
    engine::{format_tag, open_tiny, tiny},
    faults::{is_typed, set},
};

/// Appends an object of which a segment has room for one.
fn append(backend: &DiskBackend, durability: Durability) -> Result<(), Error> {
    let mut batch = Batch::new();
    batch.put(Kind::Contents, Oid::from_array([1; 32]), &[7; 3500], &[], &[]);
    backend.append(batch, &[], durability).map(drop)
}

/// Where the disk is full, a file that became no segment would keep what room there is.
#[test]
fn a_segment_that_could_not_be_begun_leaves_no_file() {
    // Ahead, and with everything before durable.
    for durability in [Durability::None, Durability::Synced] {
        let mut failed = 0;
        for call in 1.. {
            let disk = SimStorage::new();
            let backend = DiskBackend::create(Arc::new(disk.clone()), format_tag(), tiny()).unwrap();
            set(&backend, "main", durability).unwrap();
            append(&backend, durability).unwrap();
            let begun = disk.calls();
            disk.fail_at(begun + call, Fault::NoSpace, Times::Once);
            let done = append(&backend, durability);
            let is_over = disk.calls() < begun + call;
            disk.heal();
            if let Err(error) = &done {
                assert!(is_typed(error), "{error:?}");
                let files = disk.files();
                let left: Vec<_> = files.iter().filter(|(name, _)| name.starts_with("segments/next-")).collect();
                assert!(left.is_empty(), "{durability:?}, call {call}: {left:?}");
                failed += 1;
            }
            drop(backend);
            let backend = open_tiny(&disk, false).unwrap();
            append(&backend, durability).unwrap();
            assert!(backend.get_ref("main").unwrap().is_some());
            if is_over {
                done.unwrap();
                break;
            }
        }
        assert!(failed > 5, "{durability:?}: {failed}");
    }
}
