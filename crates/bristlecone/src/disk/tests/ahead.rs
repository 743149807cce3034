//! Where recovery begins once segments were begun ahead.

use super::*;

/// Commits without durability until the log ends in segment `number`.
fn fill(backend: &DiskBackend, number: u32) {
    for at in u64::from(number) * 1000.. {
        if lock(&backend.shared.log).tail.segment >= number {
            break;
        }
        commit(backend, at, Durability::None).unwrap();
    }
}

fn begins_at(backend: &DiskBackend) -> u32 {
    backend.shared.find_start().unwrap().head.number
}

#[test]
fn recovery_begins_in_the_segment_in_which_what_was_durable_ends_or_behind_it() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), small());
    let shared = &backend.shared;
    fill(&backend, 3);
    assert_eq!((begins_at(&backend), shared.sync.undurable().len()), (1, 2));
    // What was durable ends within a segment, and the heads behind say so.
    backend.flush().unwrap();
    assert_eq!((begins_at(&backend), shared.sync.undurable().len()), (1, 0), "nothing has told it yet");
    fill(&backend, 5);
    assert_eq!((begins_at(&backend), shared.sync.undurable().len()), (3, 2));
    // It ends where a segment ends: that is not read again.
    shared.sync_sealed(4, 0).unwrap();
    fill(&backend, 6);
    assert_eq!(shared.sync.durable_end() >> 32, 3);
    assert_eq!((begins_at(&backend), shared.sync.undurable().len()), (4, 2));
    // Once a frame says that it was durable, that of its own segment will do.
    commit(&backend, 1, Durability::Synced).unwrap();
    commit(&backend, 2, Durability::None).unwrap();
    assert_eq!(begins_at(&backend), 6);
    drop(backend);
    let opened = open(dir.path(), small());
    assert_eq!(begins_at(&opened), 6);
    assert_there(&opened, 1..3, 300);
}

#[test]
fn a_segment_that_waits_is_synced_through_its_name_if_its_file_was_closed() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), small());
    fill(&backend, 3);
    let shared = &backend.shared;
    for number in [1, 2] {
        shared.table().get(number).unwrap().release();
    }
    backend.flush().unwrap();
    assert_eq!(shared.sync.durable_end(), lock(&shared.log).tail.location());
    fill(&backend, 5);
    let tail = lock(&shared.log).tail.segment;
    shared.table().get(tail - 1).unwrap().release();
    std::fs::remove_file(segment_file(dir.path(), tail - 1)).unwrap();
    let failed = backend.flush().unwrap_err();
    assert!(matches!(&failed, Error::Poisoned { .. }), "{failed:?}");
    assert!(matches!(commit(&backend, 1, Durability::None), Err(Error::Poisoned { .. })));
    kill(backend);
}
