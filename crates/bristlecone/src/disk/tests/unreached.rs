//! What nothing leads to is counted: over backends and processes, once, and whatever the files of the count hold.

use std::{fs, mem, path::PathBuf};

use super::*;

/// Returns the count as another process would learn it.
fn reclaimable(dir: &Path) -> u64 {
    DiskBackend::open(storage(dir), None, small(), true).unwrap().stats().reclaimable_bytes
}

/// Appends objects that no ref leads to, and returns the bytes of the frame.
fn ahead(backend: &DiskBackend, number: u64, bytes: usize) -> u64 {
    let before = backend.unreached_bytes();
    backend.append(batch(number..number + 1, bytes), &[], Durability::None).unwrap();
    let frame = (frame::EMPTY_BYTES as usize + 48 + bytes).next_multiple_of(8) as u64;
    assert_eq!(backend.unreached_bytes() - before, frame);
    frame
}

fn files(dir: &Path, part: &str) -> Vec<PathBuf> {
    let names = fs::read_dir(dir.join("derived")).unwrap().map(|entry| entry.unwrap().path());
    names.filter(|path| path.file_name().unwrap().to_str().unwrap().contains(part)).collect()
}

/// Ends a backend as a killed process ends: its locks go, and nothing is written.
fn die(backend: DiskBackend) {
    drop(mem::take(&mut *lock(&backend.shared.unreached.note)));
    lock(&backend.shared.log).appended = false;
    backend.shared.stop_background();
    mem::forget(backend);
}

#[test]
fn who_opens_the_store_to_write_removes_what_a_killed_process_left_of_a_derived_file() {
    let dir = tempfile::tempdir().unwrap();
    drop(create(dir.path(), small()));
    let left = dir.path().join("derived/history.new-0123456789abcdef");
    fs::write(&left, "a part").unwrap();
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    fs::File::options().write(true).open(&left).unwrap().set_modified(old).unwrap();
    drop(DiskBackend::open(storage(dir.path()), None, small(), true).unwrap());
    assert!(left.exists(), "who reads changes nothing");
    drop(open(dir.path(), small()));
    assert!(!left.exists());
}

#[test]
fn what_no_ref_move_follows_is_counted_once_the_backend_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), small());
    commit(&backend, 0, Durability::Synced).unwrap();
    assert_eq!(backend.unreached_bytes(), 0);
    let left = ahead(&backend, 1, 300) + ahead(&backend, 2, 7001);
    assert_eq!((reclaimable(dir.path()), backend.stats().reclaimable_bytes), (0, 0), "it is under way");
    drop(backend);
    assert_eq!(reclaimable(dir.path()), left);
    // Opening for reading changes nothing; opening for writing brings it into the count, and keeps it.
    assert_eq!((files(dir.path(), "@unreached-").len(), files(dir.path(), "@reclaimable").len()), (1, 0));
    for _ in 0..3 {
        let backend = open(dir.path(), small());
        assert_eq!(backend.stats().reclaimable_bytes, left);
        commit(&backend, 3, Durability::None).unwrap();
        drop(backend);
        assert_eq!(reclaimable(dir.path()), left);
        assert_eq!((files(dir.path(), "@unreached-").len(), files(dir.path(), "@reclaimable").len()), (0, 1));
    }
}

#[test]
fn a_ref_that_moves_to_what_was_appended_takes_the_count_back() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), small());
    commit(&backend, 0, Durability::None).unwrap();
    let Some(RefTarget::Object(old)) = backend.get_ref("main").unwrap() else { panic!("main was moved") };
    let left = ahead(&backend, 1, 300);
    // None of these leads to it.
    let moves = [
        RefMove { name: "old".to_owned(), expected: Expected::Absent, to: Some(RefTarget::Object(old)) },
        RefMove { name: "HEAD".to_owned(), expected: Expected::Any, to: Some(RefTarget::Symbolic("main".to_owned())) },
        RefMove { name: "main".to_owned(), expected: Expected::Any, to: None },
    ];
    for wanted in moves {
        backend.append(Batch::new(), &[wanted], Durability::None).unwrap();
        assert_eq!(backend.unreached_bytes(), left);
    }
    // The next commit may.
    commit(&backend, 2, Durability::None).unwrap();
    assert_eq!(backend.unreached_bytes(), 0);
    // So may a move to an object that was appended before, by its place or without one.
    for at in [true, false] {
        let base = backend.append(batch(3..4, 100), &[], Durability::None).unwrap();
        let at = ObjRef::new(oid(3), if at { base } else { Location::NONE });
        let wanted = RefMove { name: "main".to_owned(), expected: Expected::Any, to: Some(RefTarget::Object(at)) };
        backend.append(Batch::new(), &[wanted], Durability::None).unwrap();
        assert_eq!(backend.unreached_bytes(), 0);
    }
    drop(backend);
    assert_eq!((reclaimable(dir.path()), files(dir.path(), "@").len()), (0, 0));
}

#[test]
fn a_lost_compare_and_set_leaves_what_was_appended_ahead_of_it_and_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), small());
    commit(&backend, 0, Durability::None).unwrap();
    let mut early = batch(1..2, 300);
    backend.append_keeping(&mut early).unwrap();
    let left = backend.unreached_bytes();
    assert!(left > 300);
    let lost = backend.append(batch(2..3, 500), &[to("main", 2, Expected::Absent)], Durability::None);
    assert!(matches!(lost, Err(Error::RefMoved { .. })), "{lost:?}");
    drop(backend);
    assert_eq!(reclaimable(dir.path()), left);
}

#[test]
fn a_killed_writer_is_counted_to_the_last_mebibyte() {
    let dir = tempfile::tempdir().unwrap();
    let options = small().segment_bytes(1 << 20);
    let backend = create(dir.path(), options.clone());
    let left: u64 = (0..40).map(|number| ahead(&backend, number, 100_000)).sum();
    let living = open(dir.path(), options.clone());
    assert_eq!(living.stats().reclaimable_bytes, 0, "the writer lives");
    die(backend);
    let told = reclaimable(dir.path());
    assert!(told <= left && left - told < 1 << 20, "{told} of {left}");
    assert_eq!(open(dir.path(), options).stats().reclaimable_bytes, told);
    assert_eq!(reclaimable(dir.path()), told);
}

#[test]
fn many_who_give_up_at_once_and_one_after_another_are_all_counted() {
    let dir = tempfile::tempdir().unwrap();
    drop(create(dir.path(), small()));
    let mut left = 0;
    for round in 0..90_u64 {
        let (one, other) = (open(dir.path(), small()), open(dir.path(), small()));
        left += ahead(&one, round, 100) + ahead(&other, 1000 + round, 10 + round as usize);
        drop((one, other));
        assert_eq!(reclaimable(dir.path()), left, "round {round}");
    }
    // The count is bounded.
    drop(open(dir.path(), small()));
    let [count] = &files(dir.path(), "@")[..] else { panic!("{:?}", files(dir.path(), "@")) };
    assert!(fs::metadata(count).unwrap().len() <= 2000);
    assert_eq!(reclaimable(dir.path()), left);
}

#[test]
fn what_was_given_up_is_counted_at_once_and_nothing_more_is_appended() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), small());
    let left = ahead(&backend, 1, 300);
    backend.abandon().unwrap();
    assert_eq!(reclaimable(dir.path()), left);
    let refused = commit(&backend, 2, Durability::None);
    assert!(matches!(refused, Err(Error::Usage { .. })), "{refused:?}");
    assert!(backend.append_keeping(&mut batch(3..4, 10)).is_err());
    assert!(backend.append_many(vec![(batch(3..4, 10), Vec::new())], Durability::None)[0].is_err());
    drop(backend);
    assert_eq!(reclaimable(dir.path()), left);
    let backend = open(dir.path(), small());
    commit(&backend, 2, Durability::Synced).unwrap();
    assert_there(&backend, 1..2, 300);
}

#[test]
fn work_that_is_done_after_all_takes_back_what_it_left_before() {
    let dir = tempfile::tempdir().unwrap();
    drop(create(dir.path(), small()));
    let mut left = Vec::new();
    for source in ["git /one", "git /two", "git /one"] {
        let backend = open(dir.path(), small());
        backend.begin_work(source);
        left.push(ahead(&backend, left.len() as u64, 100 * (left.len() + 1)));
    }
    assert_eq!(reclaimable(dir.path()), left.iter().sum::<u64>());
    let backend = open(dir.path(), small());
    backend.forget_work("git /three").unwrap();
    assert_eq!(reclaimable(dir.path()), left.iter().sum::<u64>());
    backend.forget_work("git /one").unwrap();
    assert_eq!(reclaimable(dir.path()), left[1]);
}

#[test]
fn damage_to_the_files_of_the_count_loses_the_count_alone() {
    let dir = tempfile::tempdir().unwrap();
    drop(create(dir.path(), small()));
    let (one, other) = (open(dir.path(), small()), open(dir.path(), small()));
    let counted = ahead(&one, 1, 100);
    drop(one);
    drop(open(dir.path(), small()));
    let noted = ahead(&other, 2, 200);
    drop(other);
    let (count, note) = (files(dir.path(), "@reclaimable").remove(0), files(dir.path(), "@unreached-").remove(0));
    for (file, rest) in [(count, noted), (note, counted)] {
        let whole = fs::read(&file).unwrap();
        for at in 0..whole.len() as u64 {
            flip(&file, at);
            assert_eq!(reclaimable(dir.path()), rest, "{} flipped at {at}", file.display());
            fs::write(&file, &whole[..at as usize]).unwrap();
            assert_eq!(reclaimable(dir.path()), rest, "{} cut at {at}", file.display());
            fs::write(&file, &whole).unwrap();
        }
        // A file that claims a gigabyte is not read.
        fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(1 << 30).unwrap();
        assert!([rest, counted + noted].contains(&reclaimable(dir.path())));
        fs::write(&file, &whole).unwrap();
        assert_eq!(reclaimable(dir.path()), counted + noted);
    }
    for file in files(dir.path(), "@") {
        fs::write(file, b"").unwrap();
    }
    let backend = open(dir.path(), small());
    assert_eq!(backend.stats().reclaimable_bytes, 0);
    commit(&backend, 3, Durability::Synced).unwrap();
    assert_eq!(files(dir.path(), "@unreached-").len(), 0, "what says nothing is cleared away");
}

#[test]
fn what_a_killed_process_left_for_a_source_is_taken_back_by_the_next_one() {
    let dir = tempfile::tempdir().unwrap();
    let killed = create(dir.path(), small());
    killed.begin_work("git /there");
    ahead(&killed, 1, 1 << 20);
    die(killed);
    assert!(reclaimable(dir.path()) >= 1 << 20);
    // Open before the other one is counted, as one that works beside it is.
    let backend = open(dir.path(), small());
    let killed = open(dir.path(), small());
    killed.begin_work("git /there");
    ahead(&killed, 2, 1 << 20);
    die(killed);
    backend.forget_work("git /there").unwrap();
    drop(backend);
    assert_eq!(reclaimable(dir.path()), 0);
}

/// Opens a store in which some bytes were left, with threads or without, and asks whether a collection is due.
fn due(dir: &Path, options: DiskOptions) -> SweepDue {
    open(dir, options).sweep_due()
}

#[test]
fn a_store_that_keeps_all_collects_once_a_share_is_known_to_be_garbage_and_once_a_day() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), small());
    commit(&backend, 0, Durability::Synced).unwrap();
    drop(backend);
    // Less than a segment, and less than a quarter of the store, is let be.
    let leave = |first: u64, count: u64| {
        let backend = open(dir.path(), small());
        (first..first + count).for_each(|number| _ = ahead(&backend, number, 3000));
    };
    leave(100, 2);
    assert_eq!(due(dir.path(), small()), SweepDue::No);
    let backend = open(dir.path(), small());
    for number in 1..41 {
        let moved = [to(&format!("ref-{number}"), number, Expected::Any)];
        backend.append(batch(number..number + 1, 3000), &moved, Durability::None).unwrap();
    }
    let kept = backend.stats().store_bytes;
    drop(backend);
    leave(200, 2);
    let reclaimable_now = reclaimable(dir.path());
    assert!(reclaimable_now > 8192 && reclaimable_now < kept / 4, "{reclaimable_now} of {kept}");
    assert_eq!(due(dir.path(), small()), SweepDue::No);
    leave(300, 40);
    assert!(reclaimable(dir.path()) > kept / 2);
    assert_eq!(due(dir.path(), small()), SweepDue::Now);
    assert_eq!(due(dir.path(), small().collect(false)), SweepDue::No);
    // With the grace, all of it stays, and the next collection begins a day later.
    let none = |_: &Oid, _: &Object<'_>, _: &mut dyn FnMut(Oid)| Ok(());
    let by_itself = SweepLimits::default().if_due(true);
    let backend = open(dir.path(), small());
    let swept = backend.sweep(&Roots::new(&[], &none), &by_itself.grace(1000)).unwrap();
    assert_eq!((swept.objects, backend.sweep_due()), (0, SweepDue::No));
    drop(backend);
    assert_eq!(due(dir.path(), small()), SweepDue::No);
    let began = files(dir.path(), "@collected");
    assert_eq!(began.len(), 1);
    fs::remove_file(&began[0]).unwrap();
    let backend = open(dir.path(), small());
    assert_eq!(backend.sweep_due(), SweepDue::Now);
    let swept = backend.sweep(&Roots::new(&[], &none), &by_itself.grace(0)).unwrap();
    assert!(swept.objects >= 44, "{swept:?}");
    assert_eq!((backend.sweep_due(), backend.stats().reclaimable_bytes), (SweepDue::No, 0));
    assert!((0..41).all(|number| backend.read(&oid(number).into()).unwrap().is_some()));
    assert!(backend.read(&oid(300).into()).unwrap().is_none());
}

#[test]
fn what_a_collection_dropped_that_was_asked_for_makes_no_other_one_due() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), small());
    commit(&backend, 0, Durability::Synced).unwrap();
    (100..140).for_each(|number| _ = ahead(&backend, number, 3000));
    drop(backend);
    let backend = open(dir.path(), small());
    assert_eq!(backend.sweep_due(), SweepDue::Now);
    let none = |_: &Oid, _: &Object<'_>, _: &mut dyn FnMut(Oid)| Ok(());
    let swept = backend.sweep(&Roots::new(&[], &none), &SweepLimits::default()).unwrap();
    assert!(swept.objects >= 40, "{swept:?}");
    assert_eq!((backend.sweep_due(), backend.stats().reclaimable_bytes), (SweepDue::No, 0));
}

#[test]
fn a_store_of_version_1_collects_nothing_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), small().version(1));
    commit(&backend, 0, Durability::Synced).unwrap();
    (100..140).for_each(|number| _ = ahead(&backend, number, 3000));
    drop(backend);
    assert!(reclaimable(dir.path()) > 100_000);
    assert_eq!(due(dir.path(), small()), SweepDue::No);
}
