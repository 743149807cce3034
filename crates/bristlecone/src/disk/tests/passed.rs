//! A thread that looks at the end of the log while another goes on behind a collection.

use super::*;
use crate::backend::{Roots, Snapshot, SweepLimits};

#[test]
fn a_sync_of_a_segment_that_was_removed_meanwhile_goes_on_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let one = create(dir.path(), small());
    commit(&one, 0, Durability::None).unwrap();
    let before = one.shared.published.end();
    let other = open(dir.path(), small());
    while other.shared.published.end() >> 32 < 4 {
        commit(&other, 1, Durability::None).unwrap();
    }
    other.sweep(&Roots::new(&[], &|_, _, _| Ok(())), &SweepLimits::default()).unwrap();
    commit(&other, 2, Durability::None).unwrap();
    // The other thread of this process: it meets what the other process wrote.
    one.shared.refresh().unwrap();
    assert!(one.shared.current_segment((before >> 32) as u32).unwrap().is_none(), "the collection removed it");
    assert!(!one.shared.sync_tail_at(before).unwrap());
    one.shared.sync_to(one.shared.published.end()).unwrap();
    assert!(one.shared.sync.durable_end() >= one.shared.published.end());
    commit(&one, 3, Durability::Synced).unwrap();
}

#[test]
fn a_writer_that_was_passed_loses_nothing_where_its_segment_is_there_and_the_next_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let one = create(dir.path(), small());
    commit(&one, 0, Durability::None).unwrap();
    let other = open(dir.path(), small());
    remove_notes(dir.path());
    let segment = segment_file(dir.path(), (one.shared.published.end() >> 32) as u32);
    while other.shared.published.end() >> 32 < 5 {
        commit(&other, 1, Durability::None).unwrap();
    }
    let sealed = std::fs::read(&segment).unwrap();
    sweep(&other);
    assert!(!segment.exists(), "the collection removed it");
    // As where the process that removed the next one was killed before it came to this one.
    std::fs::write(&segment, sealed).unwrap();
    commit(&one, 2, Durability::Synced).unwrap();
    assert_eq!(holds(&other, "main").map(|at| at.oid), Some(oid(2)));
    drop((one, other));
    assert_eq!(holds(&open(dir.path(), small()), "main").map(|at| at.oid), Some(oid(2)));
}

/// Removes the files that say who reads, as where they could not be written.
fn remove_notes(dir: &Path) {
    let notes = std::fs::read_dir(dir.join(readers::READERS)).unwrap();
    notes.for_each(|note| std::fs::remove_file(note.unwrap().path()).unwrap());
}

/// A store with ten objects in one cold segment, and a snapshot of another process that the next collection does not wait for.
fn passed(dir: &Path, options: DiskOptions) -> (DiskBackend, DiskBackend, Arc<dyn Snapshot>) {
    let one = create(dir, small());
    (0..10).for_each(|number| set(&one, &format!("refs/{number}"), number));
    sweep(&one);
    let other = open(dir, options);
    remove_notes(dir);
    let snapshot = other.snapshot(&[]);
    (one, other, snapshot)
}

fn set(backend: &DiskBackend, name: &str, number: u64) {
    backend.append(batch(number..number + 1, 300), &[to(name, number, Expected::Any)], Durability::None).unwrap();
}

fn sweep(backend: &DiskBackend) {
    backend.sweep(&Roots::new(&[], &|_, _, _| Ok(())), &SweepLimits::default().slack(0)).unwrap();
}

/// Drops refs, and collects until what they led to is gone.
fn drop_refs(backend: &DiskBackend, numbers: std::ops::Range<u64>) {
    let removed = |number| RefMove { name: format!("refs/{number}"), expected: Expected::Any, to: None };
    let moves: Vec<RefMove> = numbers.map(removed).collect();
    backend.append(Batch::new(), &moves, Durability::None).unwrap();
    sweep(backend);
    set(backend, "refs/20", 20);
    sweep(backend);
}

fn expect_expired(snapshot: &Arc<dyn Snapshot>, number: u64) {
    let found = snapshot.read(&oid(number).into()).map(|found| found.map(|found| found.body().len()));
    assert!(matches!(found, Err(Error::Expired { .. })), "{number}: {found:?}");
}

#[test]
fn a_reader_is_told_that_it_was_passed_while_another_thread_goes_on_behind_the_collection() {
    let dir = tempfile::tempdir().unwrap();
    let (one, other, snapshot) = passed(dir.path(), small());
    drop_refs(&one, 0..9);
    let table = other.shared.table();
    let going_on = lock(&other.shared.log);
    assert!(other.shared.view(&table).is_passed());
    drop(going_on);
    assert_eq!(other.shared.tables.epoch(), table.state.epoch, "it was not met yet");
    expect_expired(&snapshot, 9);
}

#[test]
fn a_reader_is_told_that_it_was_passed_where_an_empty_file_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let (one, other, snapshot) = passed(dir.path(), small());
    let moves = (0..10).map(|number| RefMove { name: format!("refs/{number}"), expected: Expected::Any, to: None });
    one.append(Batch::new(), &moves.collect::<Vec<_>>(), Durability::None).unwrap();
    sweep(&one);
    set(&one, "refs/20", 20);
    let removed = RefMove { name: "refs/20".to_owned(), expected: Expected::Any, to: None };
    one.append(Batch::new(), &[removed], Durability::Synced).unwrap();
    sweep(&one);
    // As a collection leaves the one with the highest number, so that none is used twice.
    let cold = segment_file(dir.path(), segment::COLD + 1);
    assert!(!cold.exists());
    std::fs::write(cold, []).unwrap();
    expect_expired(&snapshot, 9);
    drop(other);
}

#[test]
fn a_reader_is_told_that_it_was_passed_where_it_opens_a_file_for_each_read() {
    let dir = tempfile::tempdir().unwrap();
    let options = DiskOptions { handles: Handles::new(0, 0), ..small().maps(false).cache_bytes(0) };
    let (one, _other, snapshot) = passed(dir.path(), options);
    let at = snapshot.read(&oid(9).into()).unwrap().unwrap().location();
    drop_refs(&one, 0..9);
    let found = snapshot.read(&ObjRef::new(oid(9), at));
    assert!(matches!(found, Err(Error::Expired { .. })), "{found:?}");
    expect_expired(&snapshot, 8);
}

/// Segments that a collection has removed are no damage.
#[test]
fn a_reader_that_was_passed_is_told_so_and_not_that_segments_are_missing() {
    let dir = tempfile::tempdir().unwrap();
    let (one, other, _snapshot) = passed(dir.path(), small());
    let objects = other.objects().unwrap();
    drop_refs(&one, 0..9);
    let threads = std::num::NonZero::<usize>::MIN;
    let work = |part: &ObjectPart<'_>| part.each_object(&mut |_, _| Ok(()), &mut |damage| panic!("{damage:?}"));
    let gone = objects.each_part(threads, &work, &mut |()| Ok(()));
    assert!(matches!(gone, Err(Error::Expired { .. })), "{gone:?}");
    // From where the collection left it, all is there.
    let checked = other.check(&mut |damage| panic!("{damage:?}")).unwrap();
    assert_eq!(checked.damages, 0);
}
