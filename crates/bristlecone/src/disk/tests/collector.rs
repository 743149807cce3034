//! The collector and what may be in its way: its lock, stray files, damage.

use super::*;
use crate::backend::{Roots, SweepLimits, SweepStatus, Swept};

fn sweep(backend: &DiskBackend, limits: &SweepLimits, watch: &dyn Fn()) -> Result<Swept, Error> {
    let watch = |_: &SweepStatus| {
        watch();
        Ok(())
    };
    backend.sweep(&Roots::new(&[], &|_, _, _| Ok(())).watch(&watch), limits)
}

/// A store with a branch, and much to which nothing leads.
fn with_garbage(dir: &Path) -> DiskBackend {
    let backend = create(dir, small());
    (0..40).for_each(|number| _ = commit(&backend, number, Durability::None).unwrap());
    backend
}

fn is_whole(backend: &DiskBackend) {
    assert_eq!(backend.check(&mut |damage| panic!("{damage:?}")).unwrap().damages, 0);
    let at = holds(backend, "main").unwrap();
    assert!(backend.read(&at.oid.into()).unwrap().is_some());
}

#[test]
fn of_two_collections_at_once_the_one_whose_lock_was_removed_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let one = with_garbage(dir.path());
    let other = open(dir.path(), small());
    let done = std::cell::Cell::new(false);
    let failed = sweep(&one, &SweepLimits::default(), &|| {
        if !done.replace(true) {
            std::fs::remove_file(dir.path().join(files::COLLECTOR)).unwrap();
            assert!(sweep(&other, &SweepLimits::default(), &|| ()).unwrap().objects > 0);
        }
    });
    assert!(matches!(&failed, Err(Error::Lost { file, .. }) if file.ends_with("collector")), "{failed:?}");
    is_whole(&one);
    is_whole(&other);
    drop((one, other));
    let again = open(dir.path(), small());
    is_whole(&again);
    commit(&again, 99, Durability::Synced).unwrap();
    sweep(&again, &SweepLimits::default(), &|| ()).unwrap();
    is_whole(&again);
}

/// Both mark what is live of one cold segment, each something else, in a file of the same name.
#[test]
fn marks_of_a_collection_are_let_be_by_one_whose_lock_was_removed() {
    let dir = tempfile::tempdir().unwrap();
    let one = with_garbage(dir.path());
    for (number, name) in [(100, "side"), (101, "third")] {
        one.append(batch(number..number + 1, 300), &[to(name, number, Expected::Any)], Durability::None).unwrap();
    }
    assert!(sweep(&one, &SweepLimits::default(), &|| ()).unwrap().objects > 0);
    let other = open(dir.path(), small());
    let remove = |backend: &DiskBackend, name: &str| {
        let gone = RefMove { name: name.to_owned(), expected: Expected::Any, to: None };
        backend.append(Batch::new(), &[gone], Durability::None).unwrap();
    };
    remove(&one, "side");
    let hides = SweepLimits::default().slack(100);
    let done = std::cell::Cell::new(false);
    let failed = sweep(&one, &hides, &|| {
        if !done.replace(true) {
            std::fs::remove_file(dir.path().join(files::COLLECTOR)).unwrap();
            remove(&other, "third");
            assert_eq!(sweep(&other, &hides, &|| ()).unwrap().objects, 2);
        }
    });
    assert!(matches!(&failed, Err(Error::Lost { file, .. }) if file.ends_with("collector")), "{failed:?}");
    assert!(dir.path().join("segments/00000001-00000002.live").exists());
    is_whole(&one);
    is_whole(&other);
    drop((one, other));
    let again = open(dir.path(), small());
    is_whole(&again);
    assert!((100..102).all(|number| again.read(&oid(number).into()).unwrap().is_none()));
}

#[test]
fn a_file_with_the_last_number_of_cold_segments_is_named_and_nothing_changes() {
    let dir = tempfile::tempdir().unwrap();
    let backend = with_garbage(dir.path());
    let stray = segment_file(dir.path(), segment::COLD_END - 1);
    std::fs::write(&stray, []).unwrap();
    let refused = sweep(&backend, &SweepLimits::default(), &|| ());
    assert!(matches!(&refused, Err(Error::Corrupt { file, .. }) if Path::new(file) == stray), "{refused:?}");
    drop(backend);
    let backend = open(dir.path(), small());
    is_whole(&backend);
    std::fs::remove_file(stray).unwrap();
    assert!(sweep(&backend, &SweepLimits::default(), &|| ()).unwrap().objects > 0);
    is_whole(&backend);
}

#[test]
fn nothing_is_removed_where_the_last_frames_of_a_segment_are_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), small());
    let name = |number: u64| format!("refs/{number}");
    for number in 0..300 {
        let wanted = to(&name(number), number, Expected::Absent);
        backend.append(batch(number..number + 1, 8), &[wanted], Durability::None).unwrap();
    }
    let mut number = 0;
    for removed in 0..300 {
        let gone = RefMove { name: name(removed), expected: Expected::Any, to: None };
        backend.append(Batch::new(), &[gone], Durability::None).unwrap();
        if removed == 100 {
            number = (backend.shared.published.end() >> 32) as u32;
        }
    }
    // The last frames of a segment in which refs were removed, the seal among them: what these led to is kept for a while.
    let table = backend.shared.table();
    let segment = backend.shared.view(&table).segment(number).unwrap().unwrap();
    let mut walk = walk::FrameWalk::new(segment, backend.shared.header.salt, segment.frames_at(), segment.bytes);
    let mut starts = Vec::new();
    while let Some(walk::FrameStep::Frame { offset, .. }) = walk.step().unwrap() {
        starts.push(offset);
    }
    assert!(walk.sealed && starts.len() > 5);
    assert_eq!(backend.shared.view(&table).frames_end(segment).unwrap(), walk.at);
    let from = starts[starts.len() - 3];
    drop((table, backend));
    let file = segment_file(dir.path(), number);
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[from as usize..].fill(0);
    std::fs::write(&file, bytes).unwrap();
    let backend = open(dir.path(), small());
    let refused = sweep(&backend, &SweepLimits::default().grace(3600), &|| ());
    assert!(matches!(&refused, Err(Error::Corrupt { offset, .. }) if *offset == from), "{refused:?}");
    assert!((0..300).all(|number| backend.read(&oid(number).into()).unwrap().is_some()));
}

/// A ref may have moved by a frame to what nothing else leads to.
#[test]
fn nothing_is_removed_where_the_moves_of_a_frame_are_damaged() {
    for maps in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let backend = create(dir.path(), small().maps(maps));
        (0..40).for_each(|number| _ = commit(&backend, number, Durability::None).unwrap());
        let moved = std::cell::Cell::new(0);
        let refused = sweep(&backend, &SweepLimits::default(), &|| {
            if moved.get() == 0 {
                let end = backend.shared.published.end();
                let target = Some(RefTarget::Object(oid(5).into()));
                let wanted = RefMove { name: "side".to_owned(), expected: Expected::Any, to: target };
                backend.append(Batch::new(), &[wanted], Durability::None).unwrap();
                flip(
                    &segment_file(dir.path(), (end >> 32) as u32),
                    (end & 0xffff_ffff) + frame::HEAD_BYTES as u64 + 24,
                );
                moved.set(end & 0xffff_ffff);
            }
        });
        assert!(matches!(&refused, Err(Error::Corrupt { offset, .. }) if *offset == moved.get()), "{refused:?}");
        assert!(backend.read(&oid(5).into()).unwrap().is_some(), "maps {maps}");
        kill(backend);
    }
}

/// What such a record names may be in what is to be emptied, and nobody can tell.
#[test]
fn nothing_is_removed_where_a_record_that_was_appended_meanwhile_is_damaged() {
    for (maps, place) in [(true, 20), (true, 100), (false, 20), (false, 100)] {
        let dir = tempfile::tempdir().unwrap();
        let backend = create(dir.path(), small().maps(maps));
        (0..40).for_each(|number| _ = commit(&backend, number, Durability::None).unwrap());
        let damaged = std::cell::Cell::new(None);
        let refused = sweep(&backend, &SweepLimits::default(), &|| {
            if damaged.get().is_none() {
                let moved = [to("side", 50, Expected::Any)];
                let at = backend.append(batch(50..51, 300), &moved, Durability::None).unwrap();
                flip(&segment_file(dir.path(), (at.0 >> 32) as u32), (at.0 & 0xffff_ffff) + place);
                damaged.set(Some(at.0 & 0xffff_ffff));
            }
        });
        let is_there = |offset: u64| damaged.get() == Some(offset);
        assert!(
            matches!(&refused, Err(Error::Corrupt { offset, .. }) if is_there(*offset)),
            "maps {maps}, {place}: {refused:?}"
        );
        assert!((0..40).all(|number| backend.read(&oid(number).into()).unwrap().is_some()), "maps {maps}, {place}");
        kill(backend);
    }
}

#[test]
fn a_folder_among_the_files_of_readers_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let backend = with_garbage(dir.path());
    let stray = dir.path().join(readers::READERS).join("old");
    std::fs::create_dir(&stray).unwrap();
    let refused = sweep(&backend, &SweepLimits::default(), &|| ());
    assert!(matches!(&refused, Err(Error::Corrupt { file, .. }) if Path::new(file) == stray), "{refused:?}");
    is_whole(&backend);
    std::fs::remove_dir(stray).unwrap();
    sweep(&backend, &SweepLimits::default(), &|| ()).unwrap();
    is_whole(&backend);
}

/// A copy would make what has decayed look right, since it has a checksum of its own.
#[test]
fn a_record_that_has_decayed_since_it_was_read_is_not_copied() {
    for maps in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let backend = create(dir.path(), small().maps(maps));
        (0..3).for_each(|number| _ = commit(&backend, number, Durability::Synced).unwrap());
        let at = backend.read(&oid(2).into()).unwrap().unwrap().location();
        flip(&segment_file(dir.path(), (at.0 >> 32) as u32), (at.0 & 0xffff_ffff) + 100);
        for _ in 0..2 {
            let swept = sweep(&backend, &SweepLimits::default(), &|| ());
            assert!(matches!(swept, Err(Error::Corrupt { oid: Some(id), .. }) if id == oid(2)), "{maps}: {swept:?}");
        }
        drop(backend);
        let read = open(dir.path(), small().maps(maps)).read(&oid(2).into()).map(|found| found.is_some());
        assert!(matches!(read, Err(Error::Corrupt { .. })), "maps {maps}: {read:?}");
    }
}

/// The first digits of all live objects are not held at once, and an object is counted once however many copies there are.
#[test]
fn what_goes_is_counted_in_parts_and_each_object_once() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), small());
    for number in 0..600 {
        let moved = [to(&format!("ref-{number}"), number, Expected::Any)];
        backend.append(batch(number..number + 1, 20), &moved, Durability::None).unwrap();
    }
    for numbers in [1000..1600, 100..200, 1100..1200] {
        backend.append(batch(numbers, 20), &[], Durability::None).unwrap();
    }
    let planned = sweep(&backend, &SweepLimits::default().dry_run(true), &|| ()).unwrap();
    let swept = sweep(&backend, &SweepLimits::default(), &|| ()).unwrap();
    assert_eq!((planned.objects, swept), (600, planned));
    assert_there(&backend, 0..600, 20);
    assert!((1000..1600).all(|number| backend.read(&oid(number).into()).unwrap().is_none()));
    assert_eq!(backend.check(&mut |damage| panic!("{damage:?}")).unwrap().damages, 0);
}
