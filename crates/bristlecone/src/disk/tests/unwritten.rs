//! What is behind the last frame of a segment that is mapped and was closed: a map of what was never written, or was cut off, ends the
//! process that looks at it.

use super::*;

#[test]
fn behind_a_damaged_seal_nothing_is_looked_at_through_a_map() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), small().segment_bytes(1 << 16));
    commit(&backend, 0, Durability::Synced).unwrap();
    // No room is left for it, so that the first segment ends in its first page.
    backend.append(batch(1..2, 65_000), &[], Durability::Synced).unwrap();
    backend.close().unwrap();
    drop(backend);
    let backend = open(dir.path(), small());
    let table = backend.shared.table();
    let segment = backend.shared.view(&table).segment(1).unwrap().unwrap();
    let mut walk = walk::FrameWalk::new(segment, backend.shared.header.salt, segment.frames_at(), segment.bytes);
    let mut seal_at = 0;
    while let Some(walk::FrameStep::Frame { offset, .. }) = walk.step().unwrap() {
        seal_at = offset;
    }
    assert!(walk.sealed && walk.at < segment::PAGE_BYTES && segment.mapped().is_some());
    assert_eq!(segment.bytes, 1 << 16);
    let path = segment_file(dir.path(), 1);
    flip(&path, seal_at + 20);
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(segment::PAGE_BYTES).unwrap();
    let checked = backend.check(&mut |_| ());
    assert!(matches!(checked, Err(Error::Io { .. })), "{checked:?}");
}
