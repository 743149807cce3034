//! The table of the tail, which is made from the segment and from what is appended.

use super::*;
use crate::sync::{read_lock, write_lock};

/// Returns where the table of the tail leads for each id, as far as it goes, and how far that is.
fn table(backend: &DiskBackend, numbers: std::ops::Range<u64>) -> (Vec<Vec<u32>>, u64) {
    let index = read_lock(&backend.shared.tail_index);
    let offsets = |number: u64| {
        let mut offsets = Vec::new();
        index.find(oid(number).prefix(), |offset| {
            offsets.push(offset);
            false
        });
        offsets.sort_unstable();
        offsets
    };
    (numbers.map(offsets).collect(), index.upto)
}

#[test]
fn what_is_appended_is_in_the_table_as_if_it_had_been_read() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), small().segment_bytes(1 << 20));
    let other = open(dir.path(), small());
    let end = || backend.shared.published.end() & 0xffff_ffff;
    let snapshot = backend.snapshot(&[]);
    let (mut at_once, mut later) = (0, 0);
    for number in 0..400 {
        // Some are there twice, some come in a frame that has others, too, or from another process.
        let numbers = number * 7 % 390..number * 7 % 390 + number % 4;
        let through = if number % 23 == 5 { &other } else { &backend };
        through.append(batch(numbers, 40 + number as usize), &[], Durability::None).unwrap();
        let upto = read_lock(&backend.shared.tail_index).upto;
        at_once += usize::from(upto == end());
        if number % 3 > 0 {
            let found = snapshot.locate(&oid(number * 7 % 390));
            assert!(found.is_some() || number % 4 == 0 || number % 23 == 5, "{number}");
            later += usize::from(upto < end());
        }
    }
    assert!(at_once > 200 && later > 50, "{at_once}, {later}");
    let followed = {
        snapshot.locate(&oid(1));
        table(&backend, 0..400)
    };
    write_lock(&backend.shared.tail_index).reset(0, 0);
    snapshot.locate(&oid(1));
    assert_eq!(followed, table(&backend, 0..400));
    assert!(followed.1 == end() && followed.0.iter().filter(|offsets| !offsets.is_empty()).count() > 300);
}

#[test]
fn the_records_of_a_segment_are_known_as_long_as_one_process_writes_it() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), small().segment_bytes(1 << 20));
    let shared = &backend.shared;
    let take = || {
        let mut log = lock(&shared.log);
        let tail = log.tail;
        log.written.take(&tail)
    };
    assert!(take().is_none(), "nothing is kept where no thread makes indexes");
    {
        let mut log = lock(&shared.log);
        let tail = log.tail;
        log.written.begin(&tail, true);
    }
    for number in 0..50 {
        let moves = [to("main", number, Expected::Any)];
        let moves = if number % 5 == 0 { &moves[..] } else { &[] };
        backend.append(batch(number..number + number % 4 + 1, 40), moves, Durability::None).unwrap();
    }
    let written = take().unwrap();
    let tail = lock(&shared.log).tail;
    let segment = shared.tail_segment(&tail).unwrap();
    let (salt, from) = (shared.header.salt, segment.frames_at());
    let mut read = survey::SegmentSurvey::of_frames(&segment, salt, from, tail.end).unwrap().entries;
    let mut known = written.entries;
    read.sort_unstable();
    known.sort_unstable();
    assert_eq!(known, read);
    assert_eq!((known.len(), written.tie.end), (123, tail.end));
    // Another process comes between.
    lock(&shared.log).written.begin(&tail, true);
    let other = open(dir.path(), small());
    commit(&backend, 100, Durability::None).unwrap();
    commit(&other, 101, Durability::None).unwrap();
    commit(&backend, 102, Durability::None).unwrap();
    assert!(take().is_none());
}

#[test]
fn the_worker_makes_the_index_that_the_segment_gives() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), small().background(true).segment_bytes(1 << 16));
    let mut number = 0;
    while lock(&backend.shared.log).tail.segment < 6 {
        commit(&backend, number % 700, Durability::None).unwrap();
        number += 1;
    }
    let sealed = 2..6;
    let file = |number: u32| dir.path().join(format!("segments/{number:08}.ids"));
    let start = Instant::now();
    while !sealed.clone().all(|number| file(number).exists()) {
        assert!(start.elapsed().as_secs() < 60, "indexes come soon");
        thread::sleep(std::time::Duration::from_millis(5));
    }
    let made: Vec<_> = sealed.clone().map(|number| std::fs::read(file(number)).unwrap()).collect();
    backend.close().unwrap();
    let table = backend.shared.table();
    let view = backend.shared.view(&table);
    for (number, made) in sealed.zip(made) {
        std::fs::remove_file(file(number)).unwrap();
        view.renew_index(view.segment(number).unwrap().unwrap(), None).unwrap();
        assert!(std::fs::read(file(number)).unwrap() == made, "segment {number}");
    }
}

/// The table has the newest record of an id. Once that has decayed, an older one is found; where there is none, the object is damaged.
#[test]
fn an_older_record_is_found_where_the_newest_has_decayed_since_it_was_indexed() {
    // In the body, in the id, in the checksum, in the kind.
    for (maps, place) in [true, false].into_iter().flat_map(|maps| [100, 20, 1, 12].map(|place| (maps, place))) {
        let dir = tempfile::tempdir().unwrap();
        let backend = create(dir.path(), small().segment_bytes(1 << 20).maps(maps));
        let append = |number| backend.append(batch(number..number + 1, 300), &[], Durability::None).unwrap();
        let (older, alone, newer) = (append(0), append(1), append(0));
        // Another id is looked up, so that the table is made and none of the records was read.
        append(2);
        assert!(backend.locate(&oid(2)).is_some());
        for at in [alone, newer] {
            flip(&segment_file(dir.path(), 1), (at.0 & 0xffff_ffff) + place);
        }
        for _ in 0..2 {
            let found = backend.read(&oid(0).into()).unwrap().unwrap();
            assert_eq!((found.location(), found.body()), (older, &*body(0, 300)), "maps {maps}, byte {place}");
            let lost = backend.read(&oid(1).into());
            assert!(matches!(lost, Err(Error::Corrupt { .. })), "maps {maps}, byte {place}: {lost:?}");
            assert!(backend.read(&oid(3).into()).unwrap().is_none(), "maps {maps}, byte {place}");
        }
        kill(backend);
    }
}
