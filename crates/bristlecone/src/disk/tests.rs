//! The engine on real files in small segments: what comes back, which writer wins, what a crash leaves, what errors name.

use std::{path::Path, thread, time::Instant};

use bristlecone_core::{Kind, Sink};

use super::{
    files::{STORE, segment_name},
    *,
};
use crate::{
    backend::Expected,
    storage::{OpenMode, RealStorage, read_exact_at, write_all_at},
    sync::lock,
};

mod ahead;
mod collector;
mod due;
mod grace;
mod handles;
mod memory;
mod passed;
mod refs;
mod speed;
mod tail;
mod unreached;
mod unwritten;
mod verified;

fn format() -> FormatTag {
    FormatTag { name: "native".to_owned(), version: 1, options: String::new() }
}

fn small() -> DiskOptions {
    DiskOptions::default().segment_bytes(8192).background(false).lock_wait_ms(200)
}

fn storage(dir: &Path) -> Arc<dyn Storage> {
    Arc::new(RealStorage::new(dir))
}

fn create(dir: &Path, options: DiskOptions) -> DiskBackend {
    DiskBackend::create(storage(dir), format(), options).unwrap()
}

fn open(dir: &Path, options: DiskOptions) -> DiskBackend {
    DiskBackend::open(storage(dir), Some("native"), options, false).unwrap()
}

fn oid(number: u64) -> Oid {
    let word = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut bytes = [0; 32];
    for (index, chunk) in bytes.chunks_mut(8).enumerate() {
        chunk.copy_from_slice(&word.rotate_left(index as u32 * 7).to_le_bytes());
    }
    Oid::from_array(bytes)
}

fn body(number: u64, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| (number as usize * 31 + index) as u8).collect()
}

fn batch(numbers: std::ops::Range<u64>, bytes: usize) -> Batch {
    let mut batch = Batch::new();
    for number in numbers {
        batch.put(Kind::Contents, oid(number), &body(number, bytes), &[], &[]);
    }
    batch
}

fn to(name: &str, number: u64, expected: Expected) -> RefMove {
    let target = RefTarget::Object(ObjRef::new(oid(number), Location::pending(0)));
    RefMove { name: name.to_owned(), expected, to: Some(target) }
}

fn holds(backend: &DiskBackend, name: &str) -> Option<ObjRef> {
    match backend.get_ref(name).unwrap()? {
        RefTarget::Object(object) => Some(object),
        RefTarget::Symbolic(_) => None,
    }
}

/// Asserts that the objects are there, by id and by the locations given.
fn assert_there(backend: &DiskBackend, numbers: std::ops::Range<u64>, bytes: usize) {
    for number in numbers {
        let object = backend.read(&oid(number).into()).unwrap().unwrap_or_else(|| panic!("object {number}"));
        assert_eq!(object.body(), body(number, bytes), "object {number}");
        let again = backend.read(&ObjRef::new(oid(number), object.location())).unwrap().unwrap();
        assert_eq!(again.body(), body(number, bytes));
    }
}

fn commit(backend: &DiskBackend, number: u64, durability: Durability) -> Result<Location, Error> {
    backend.append(batch(number..number + 1, 300), &[to("main", number, Expected::Any)], durability)
}

fn segment_file(dir: &Path, number: u32) -> std::path::PathBuf {
    dir.join(segment_name(number))
}

fn flip(path: &Path, offset: u64) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], offset).unwrap();
}

/// Ends a backend as a killed process would: nothing is written any more.
fn kill(backend: DiskBackend) {
    lock(&backend.shared.log).appended = false;
}

#[test]
fn what_was_appended_comes_back_whatever_the_options() {
    let variants = [
        small(),
        small().maps(false),
        small().maps(false).cache_bytes(0),
        small().locations(false),
        small().prezero(false),
        small().background(true),
    ];
    for options in variants {
        let dir = tempfile::tempdir().unwrap();
        let backend = create(dir.path(), options.clone());
        for number in 0..100 {
            let durability = [Durability::None, Durability::Grouped, Durability::Synced][number as usize % 3];
            commit(&backend, number, durability).unwrap();
        }
        assert_there(&backend, 0..100, 300);
        let head = holds(&backend, "main").unwrap();
        assert_eq!(backend.read(&head).unwrap().unwrap().location(), head.at);
        assert!(backend.read(&oid(1000).into()).unwrap().is_none());
        assert!(head.at.0 >> 32 > 4, "several segments");
        backend.close().unwrap();
        drop(backend);
        for read_only in [false, true] {
            let backend = DiskBackend::open(storage(dir.path()), None, options.clone(), read_only).unwrap();
            assert_there(&backend, 0..100, 300);
            assert_eq!(holds(&backend, "main"), Some(head));
            assert_eq!(holds(&backend, "main").unwrap().at, head.at);
            let mut damages = Vec::new();
            let summary = backend.check(&mut |damage| damages.push(damage)).unwrap();
            assert_eq!(damages, []);
            assert_eq!((summary.records, summary.stale_indexes, summary.torn_tail), (100, 0, None));
            let mut seen = 0;
            backend
                .each_object(
                    &mut |_, _| {
                        seen += 1;
                        Ok(())
                    },
                    &mut |damage| panic!("{damage:?}"),
                )
                .unwrap();
            assert_eq!(seen, 100);
        }
    }
}

#[test]
fn children_are_found_by_their_locations_in_every_segment() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), small());
    let mut last: Option<ObjRef> = None;
    for number in 0..60 {
        let mut batch = Batch::new();
        let value = batch.put(Kind::Contents, oid(1000 + number), &body(number, 100), &[], &[]);
        let parent = last.map_or(Location::NONE, |parent| parent.at);
        let own = batch.put(Kind::Node, oid(number), b"node", &[value, parent], &[number]);
        let target = ObjRef::new(oid(number), own);
        let moves = [RefMove { name: "r".into(), expected: Expected::Any, to: Some(RefTarget::Object(target)) }];
        let base = backend.append(batch, &moves, Durability::None).unwrap();
        last = Some(ObjRef::new(oid(number), own.resolve(base)));
        assert_eq!(holds(&backend, "r").unwrap().at, last.unwrap().at);
    }
    let mut at = last.unwrap();
    for number in (0..60).rev() {
        let object = backend.read(&at).unwrap().unwrap();
        assert_eq!((object.location(), object.metadata_word(0)), (at.at, Some(number)));
        let value = ObjRef::new(oid(1000 + number), object.child(0));
        assert_eq!(backend.read(&value).unwrap().unwrap().location(), value.at);
        if number > 0 {
            at = ObjRef::new(oid(number - 1), object.child(1));
        }
    }
}

#[test]
fn a_batch_larger_than_a_segment_gets_one_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), small());
    commit(&backend, 0, Durability::Synced).unwrap();
    backend.append(batch(1..50, 5000), &[], Durability::Synced).unwrap();
    commit(&backend, 50, Durability::Synced).unwrap();
    assert_there(&backend, 1..50, 5000);
    drop(backend);
    let backend = open(dir.path(), small());
    assert_there(&backend, 0..1, 300);
    assert_there(&backend, 1..50, 5000);
    assert_there(&backend, 50..51, 300);
}

#[test]
fn one_of_two_processes_wins_and_the_other_sees_it() {
    let dir = tempfile::tempdir().unwrap();
    let one = create(dir.path(), small());
    let two = open(dir.path(), small().maps(false));
    let reader = DiskBackend::open(storage(dir.path()), None, small(), true).unwrap();
    one.append(batch(0..1, 10), &[to("main", 0, Expected::Absent)], Durability::None).unwrap();
    let lost = two.append(batch(1..2, 10), &[to("main", 1, Expected::Absent)], Durability::None);
    assert!(matches!(lost, Err(Error::RefMoved { found: Some(_), .. })), "{lost:?}");
    assert!(one.read(&oid(1).into()).unwrap().is_none());
    for number in 2..200 {
        let (writer, other) = if number % 2 == 0 { (&one, &two) } else { (&two, &one) };
        let before = other.get_ref("main").unwrap().unwrap();
        writer
            .append(batch(number..number + 1, 100), &[to("main", number, Expected::Is(before))], Durability::None)
            .unwrap();
        assert_eq!(holds(other, "main").unwrap().oid, oid(number));
        assert_there(other, number..number + 1, 100);
        assert_eq!(reader.list_refs("").unwrap().len(), 1);
    }
    assert_there(&reader, 2..200, 100);
    assert_there(&one, 2..200, 100);
    assert!(matches!(commit(&reader, 0, Durability::None), Err(Error::ReadOnly)));
}

#[test]
fn a_held_lock_is_waited_for_and_then_named() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), small().lock_wait_ms(30));
    let other = storage(dir.path()).open("lock", OpenMode::Write).unwrap();
    assert!(other.try_lock().unwrap());
    let error = commit(&backend, 0, Durability::None).unwrap_err();
    assert!(matches!(&error, Error::Locked { holder, .. } if holder.starts_with("process ")), "{error}");
    other.unlock().unwrap();
    commit(&backend, 0, Durability::None).unwrap();
}

#[test]
fn concurrent_committers_each_win_once_per_round() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), small().segment_bytes(64 << 10).background(true));
    let second = open(dir.path(), small().segment_bytes(64 << 10).lock_wait_ms(10_000));
    const THREADS: u64 = 6;
    const ROUNDS: u64 = 60;
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let backend = if thread < 4 { &backend } else { &second };
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let number = 1000 * (thread + 1) + round;
                    let durability = if thread % 2 == 0 { Durability::Synced } else { Durability::Grouped };
                    loop {
                        let before = backend.get_ref("main").unwrap();
                        let expected = before.map_or(Expected::Absent, Expected::Is);
                        let moves = [to("main", number, expected)];
                        match backend.append(batch(number..number + 1, 50), &moves, durability) {
                            Ok(_) => break,
                            Err(Error::RefMoved { .. }) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            });
        }
    });
    drop((backend, second));
    let backend = open(dir.path(), small());
    for thread in 0..THREADS {
        assert_there(&backend, 1000 * (thread + 1)..1000 * (thread + 1) + ROUNDS, 50);
    }
    let mut damages = 0;
    let summary = backend.check(&mut |_| damages += 1).unwrap();
    // Only a move that was let through adds a record.
    assert_eq!((summary.records, damages), (THREADS * ROUNDS, 0));
}

#[test]
fn many_appends_share_a_sync_and_count_one_after_another() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), small());
    let mut appends = Vec::new();
    for number in 0..100 {
        appends.push((batch(number..number + 1, 100), vec![to(&format!("b{number}"), number, Expected::Absent)]));
    }
    appends.push((batch(100..101, 100), vec![to("b7", 100, Expected::Absent)]));
    let outcomes = backend.append_many(appends, Durability::Synced);
    assert!(outcomes[..100].iter().all(Result::is_ok));
    assert!(matches!(outcomes[100], Err(Error::RefMoved { .. })));
    assert_eq!(backend.list_refs("b").unwrap().len(), 100);
    for number in 0..100 {
        let object = holds(&backend, &format!("b{number}")).unwrap();
        assert_eq!(object.at, *outcomes[number as usize].as_ref().unwrap());
        assert_eq!(backend.read(&object).unwrap().unwrap().location(), object.at);
    }
    assert!(backend.stats().writes < 30, "{:?}", backend.stats());
}

#[test]
fn a_torn_tail_is_cut_and_passed_over_when_reading() {
    for torn in [1, 40, 64, 65, 200, 431] {
        let dir = tempfile::tempdir().unwrap();
        let options = small().segment_bytes(1 << 16);
        let backend = create(dir.path(), options.clone());
        for number in 0..5 {
            commit(&backend, number, Durability::Synced).unwrap();
        }
        let end = backend.shared.published.end();
        commit(&backend, 5, Durability::None).unwrap();
        let whole = backend.shared.published.end() - end;
        kill(backend);
        let file = storage(dir.path()).open(&segment_name(1), OpenMode::Write).unwrap();
        write_all_at(&*file, &vec![0; (whole - torn.min(whole - 1)) as usize], (end & 0xffff_ffff) + torn).unwrap();
        let reader = DiskBackend::open(storage(dir.path()), None, options.clone(), true).unwrap();
        assert_eq!(holds(&reader, "main").unwrap().oid, oid(4));
        let summary = reader.check(&mut |damage| panic!("{damage:?}")).unwrap();
        assert!(summary.torn_tail.is_some());
        let backend = open(dir.path(), options.clone());
        assert_eq!(holds(&backend, "main").unwrap().oid, oid(4));
        let mut rest = vec![1; 1000];
        read_exact_at(&*file, &mut rest, end & 0xffff_ffff).unwrap();
        assert!(rest.iter().all(|&byte| byte == 0));
        commit(&backend, 6, Durability::Synced).unwrap();
        assert_eq!(holds(&reader, "main").unwrap().oid, oid(6));
        assert!(backend.read(&oid(5).into()).unwrap().is_none());
    }
}

#[test]
fn a_living_process_cuts_what_a_dead_one_left() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), small());
    commit(&backend, 0, Durability::None).unwrap();
    let end = backend.shared.published.end() & 0xffff_ffff;
    let file = storage(dir.path()).open(&segment_name(1), OpenMode::Write).unwrap();
    write_all_at(&*file, &[7; 500], end).unwrap();
    assert_eq!(holds(&backend, "main").unwrap().oid, oid(0));
    commit(&backend, 1, Durability::None).unwrap();
    assert_eq!(holds(&open(dir.path(), small()), "main").unwrap().oid, oid(1));
}

#[test]
fn damage_before_the_durable_end_is_named_and_no_tail() {
    let dir = tempfile::tempdir().unwrap();
    let options = small().segment_bytes(1 << 16);
    let backend = create(dir.path(), options.clone());
    let start = backend.shared.published.end() & 0xffff_ffff;
    let mut ends = Vec::new();
    for number in 0..6 {
        commit(&backend, number, Durability::Synced).unwrap();
        ends.push(backend.shared.published.end() & 0xffff_ffff);
    }
    drop(backend);
    let path = segment_file(dir.path(), 1);
    // A flip in the head or the moves of any commit, the last one too: the clean close says it was there.
    for (begin, end) in [start].iter().chain(&ends).zip(&ends) {
        for place in [begin + 3, begin + 20, end - 3, end - 20] {
            flip(&path, place);
            for read_only in [false, true] {
                let error = DiskBackend::open(storage(dir.path()), None, options.clone(), read_only).unwrap_err();
                assert!(matches!(&error, Error::Corrupt { offset, .. } if offset == begin), "{place}: {error}");
            }
            flip(&path, place);
        }
        // A flip in a record is found when it is read, whatever led there.
        flip(&path, begin + 64 + 48 + 100);
        let backend = DiskBackend::open(storage(dir.path()), None, options.clone(), true).unwrap();
        let bad = (0..6).filter(|&number| {
            matches!(backend.read(&oid(number).into()), Err(Error::Corrupt { oid: Some(found), .. }) if found == oid(number))
        });
        assert_eq!(bad.count(), 1);
        let (mut damages, mut objects) = (Vec::new(), 0);
        backend
            .each_object(
                &mut |_, _| {
                    objects += 1;
                    Ok(())
                },
                &mut |damage| damages.push(damage),
            )
            .unwrap();
        assert_eq!((objects, damages.len()), (5, 1));
        assert_eq!(damages[0].offset, begin + 64);
        damages.clear();
        backend.check(&mut |damage| damages.push(damage)).unwrap();
        assert!(!damages.is_empty());
        flip(&path, begin + 64 + 48 + 100);
    }
    open(dir.path(), options);
}

#[test]
fn a_damaged_record_header_is_damage_to_whoever_knows_where_it_should_be() {
    for maps in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let options = small().maps(maps);
        let backend = create(dir.path(), options.clone());
        let base = commit(&backend, 0, Durability::Synced).unwrap();
        let other = commit(&backend, 1, Durability::Synced).unwrap();
        drop(backend);
        for byte in 0..48 {
            flip(&segment_file(dir.path(), 1), (base.0 & 0xffff_ffff) + byte);
            let backend = open(dir.path(), options.clone());
            let read = backend.read(&ObjRef::new(oid(0), base));
            assert!(matches!(read, Err(Error::Corrupt { .. })), "byte {byte}: {read:?}");
            // A wrong hint alone is no damage.
            assert!(backend.read(&ObjRef::new(oid(77), Location(other.0 + 8))).unwrap().is_none());
            flip(&segment_file(dir.path(), 1), (base.0 & 0xffff_ffff) + byte);
        }
    }
}

#[test]
fn indexes_are_made_again_when_lost_or_damaged() {
    for damage in 0..3 {
        let dir = tempfile::tempdir().unwrap();
        let backend = create(dir.path(), small());
        for number in 0..80 {
            commit(&backend, number, Durability::None).unwrap();
        }
        assert_there(&backend, 0..80, 300);
        drop(backend);
        for number in 1..4 {
            let path = dir.path().join(sealed::Form::Seal.name(number));
            match damage {
                0 => std::fs::remove_file(path).unwrap(),
                1 => flip(&path, 70),
                _ => std::fs::write(path, b"short").unwrap(),
            }
        }
        let reader = DiskBackend::open(storage(dir.path()), None, small(), true).unwrap();
        assert_there(&reader, 0..80, 300);
        assert_eq!(reader.check(&mut |damage| panic!("{damage:?}")).unwrap().stale_indexes, [0, 3, 3][damage]);
        let backend = open(dir.path(), small());
        assert_there(&backend, 0..80, 300);
        assert_eq!(backend.check(&mut |damage| panic!("{damage:?}")).unwrap().stale_indexes, 0);
    }
}

#[test]
fn a_store_is_made_once_and_opened_with_its_own_format() {
    let dir = tempfile::tempdir().unwrap();
    let missing = DiskBackend::open(storage(dir.path()), None, small(), false);
    assert!(matches!(missing, Err(Error::NoStore { .. })));
    let backend = create(dir.path(), small());
    assert_eq!(backend.header().format, format());
    assert_eq!(DiskBackend::header_in(&storage(dir.path())).unwrap().segment_bytes, 8192);
    assert!(matches!(DiskBackend::create(storage(dir.path()), format(), small()), Err(Error::Exists { .. })));
    assert!(matches!(
        DiskBackend::open(storage(dir.path()), Some("git"), small(), false),
        Err(Error::Incompatible { .. })
    ));
    drop(backend);
    // What a crash during the making leaves: everything but the header.
    std::fs::remove_file(dir.path().join(STORE)).unwrap();
    let backend = create(dir.path(), small());
    commit(&backend, 0, Durability::Synced).unwrap();
    flip(&dir.path().join(STORE), 50);
    assert!(matches!(DiskBackend::header_in(&storage(dir.path())), Err(Error::Corrupt { .. })));
}

#[test]
fn a_crash_between_seal_and_next_segment_is_no_loss() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), small());
    let mut number = 0;
    while backend.shared.published.end() >> 32 < 3 {
        commit(&backend, number, Durability::Synced).unwrap();
        number += 1;
    }
    kill(backend);
    // The commit that began segment 3 is lost with it, as if the power had gone before its name was durable; nothing was
    // noted of it by then.
    std::fs::remove_file(segment_file(dir.path(), 3)).unwrap();
    std::fs::remove_file(dir.path().join(files::DURABLE)).unwrap();
    let reader = DiskBackend::open(storage(dir.path()), None, small(), true).unwrap();
    assert_eq!(holds(&reader, "main").unwrap().oid, oid(number - 2));
    let backend = open(dir.path(), small());
    assert_eq!(holds(&backend, "main").unwrap().oid, oid(number - 2));
    commit(&backend, 500, Durability::Synced).unwrap();
    assert_eq!(holds(&backend, "main").unwrap().at.0 >> 32, 3);
    assert_eq!(holds(&reader, "main").unwrap().oid, oid(500));
    assert_there(&reader, 0..number - 1, 300);
}

#[test]
fn grouped_appends_become_durable_soon() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), small().background(true));
    let start = Instant::now();
    commit(&backend, 0, Durability::Grouped).unwrap();
    let end = backend.shared.published.end();
    while backend.shared.sync.durable_end() < end {
        assert!(start.elapsed().as_secs() < 5);
        thread::yield_now();
    }
}

#[test]
fn derived_files_come_back_whole_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), small());
    assert_eq!(backend.read_derived("a/b").unwrap(), None);
    backend.write_derived("a/b", b"cache").unwrap();
    backend.write_derived("a/b", b"newer").unwrap();
    assert_eq!(backend.read_derived("a/b").unwrap().as_deref(), Some(&b"newer"[..]));
    flip(&dir.path().join("derived/a%2Fb"), 26);
    assert_eq!(backend.read_derived("a/b").unwrap(), None);
}

#[test]
fn names_targets_and_sizes_that_do_not_fit_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), small());
    let long = "x".repeat(2000);
    let refused = backend.append(Batch::new(), &[to(&long, 0, Expected::Any)], Durability::None);
    assert!(matches!(refused, Err(Error::RefName { .. })));
    let symbolic =
        RefMove { name: "HEAD".into(), expected: Expected::Absent, to: Some(RefTarget::Symbolic("main".into())) };
    backend.append(Batch::new(), std::slice::from_ref(&symbolic), Durability::Synced).unwrap();
    let again = RefMove { expected: Expected::Any, ..symbolic };
    let twice = [again.clone(), again];
    assert!(matches!(backend.append(Batch::new(), &twice, Durability::None), Err(Error::RefName { .. })));
    drop(backend);
    let backend = open(dir.path(), small());
    assert_eq!(backend.get_ref("HEAD").unwrap(), Some(RefTarget::Symbolic("main".into())));
    let gone = RefMove { name: "HEAD".into(), expected: Expected::Any, to: None };
    backend.append(Batch::new(), &[gone], Durability::Synced).unwrap();
    assert_eq!(backend.get_ref("HEAD").unwrap(), None);
    assert_eq!(open(dir.path(), small()).get_ref("HEAD").unwrap(), None);
}

#[test]
fn the_example_in_the_format_page_is_what_is_written() {
    let page = include_str!("../../../../docs/formats/disk.md");
    let dir = tempfile::tempdir().unwrap();
    let mut header = StoreHeader::new(format(), 4096, 1);
    header.salt = 0x0123_4567_89ab_cdef;
    let backend = DiskBackend::create_as(storage(dir.path()), header, small(), 0x1122_3344_5566_7788).unwrap();
    let mut batch = Batch::new();
    let value = batch.put(Kind::Contents, Oid::from_array([0xaa; 32]), b"red", &[], &[]);
    let own = batch.put(Kind::Commit, Oid::from_array([0xbb; 32]), b"first", &[value], &[1]);
    let target = RefTarget::Object(ObjRef::new(Oid::from_array([0xbb; 32]), own));
    let moves = [RefMove { name: "main".to_owned(), expected: Expected::Absent, to: Some(target) }];
    backend.append(batch, &moves, Durability::Synced).unwrap();
    backend.close().unwrap();
    let end = (backend.shared.published.end() & 0xffff_ffff) as usize;
    for (name, end) in [(STORE.to_owned(), usize::MAX), (segment_name(1), end)] {
        let bytes = std::fs::read(dir.path().join(&name)).unwrap();
        let dump = dump(&bytes[..end.min(bytes.len())]);
        assert!(page.contains(&dump), "{name} is\n{dump}");
    }
}

fn dump(bytes: &[u8]) -> String {
    let lines = bytes.chunks(16).enumerate().map(|(line, bytes)| {
        let words: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{:04x}  {}\n", line * 16, words.join(" "))
    });
    lines.collect()
}

#[test]
fn a_prepared_segment_that_somebody_removed_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), small());
    commit(&backend, 0, Durability::Synced).unwrap();
    let spare = spare::make_spare(&backend.shared.storage, 8192, &spare::Zeroes::Now).unwrap().unwrap();
    backend.shared.storage.remove(&spare.name).unwrap();
    backend.shared.background.put_spare(spare);
    for number in 1..60 {
        commit(&backend, number, Durability::Synced).unwrap();
    }
    assert_there(&backend, 0..60, 300);
}

#[test]
fn a_frame_that_claims_more_to_be_durable_than_there_is_is_damage() {
    for beyond in [0, 1, 8, 1 << 20, 1 << 40] {
        let dir = tempfile::tempdir().unwrap();
        let backend = create(dir.path(), small());
        commit(&backend, 1, Durability::Synced).unwrap();
        let shared = &backend.shared;
        let tail = lock(&shared.log).tail;
        // A checkpoint, except that it claims another durable end.
        let own_end = tail.location() + frame::EMPTY_BYTES;
        let (bytes, _) = shared.small_frame(&tail, FrameKind::Checkpoint, &[], own_end + beyond);
        shared.tail_segment(&tail).unwrap().write_all_at(&bytes, tail.end).unwrap();
        kill(backend);
        let opened = DiskBackend::open(storage(dir.path()), None, small(), false);
        if beyond > 0 {
            assert!(
                matches!(&opened, Err(Error::Corrupt { offset, .. }) if *offset == tail.end),
                "{beyond}: {opened:?}"
            );
            continue;
        }
        // Its own end, which only it can have reached: it is taken, and believed no further than where it begins.
        let opened = opened.unwrap();
        let before = opened.stats().syncs;
        commit(&opened, 2, Durability::Synced).unwrap();
        assert!(opened.stats().syncs > before, "a synced commit syncs");
    }
}

#[test]
fn a_segment_that_claims_more_to_be_durable_than_went_before_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), small());
    for number in 0..40 {
        commit(&backend, number, Durability::Synced).unwrap();
    }
    let (salt, tail) = (backend.shared.header.salt, lock(&backend.shared.log).tail);
    let segment = backend.shared.current_segment(tail.segment).unwrap().unwrap();
    let (head, refs) = segment.read_head(salt).unwrap().unwrap();
    assert!(tail.segment > 2 && head.previous_end >> 32 == u64::from(tail.segment - 1) && !head.ahead);
    assert_eq!(refs.tables, []);
    let rows = backend.shared.refs_of(refs).unwrap().head_rows();
    for previous_end in [u64::from(tail.segment) << 32 | 8000, u64::MAX, 0, head.previous_end - (1 << 32)] {
        let mut crafted = SegmentHead { previous_end, ..head };
        segment.write_all_at(&crafted.encode(&rows, salt), 0).unwrap();
        assert!(segment.read_head(salt).unwrap().is_none(), "{previous_end:x}");
    }
    kill(backend);
    let opened = DiskBackend::open(storage(dir.path()), None, small(), false);
    assert!(matches!(&opened, Err(Error::Corrupt { offset: 0, .. })), "{opened:?}");
}

#[test]
fn rules_that_cannot_be_read_are_refused_and_replaced_where_a_store_has_them() {
    let dir = tempfile::tempdir().unwrap();
    let backend = Arc::new(create(dir.path(), small()));
    let repo = crate::Repo::with_backend(crate::Native::new(), backend.clone());
    let (rules, mut wrong) = ("last 3 refs/heads/*\n".parse::<Retention>().unwrap(), Retention::default());
    wrong.set("refs/heads/a\nb", Some("last 3".parse().unwrap()));
    assert!(matches!(repo.set_retention(&wrong), Err(Error::Usage { .. })));
    assert!(repo.retention().unwrap().is_all());
    // As a later version may write them.
    let later = |state: &mut state::StoreState| {
        state.retention = "thin 3 refs/heads/*\n".into();
        true
    };
    assert!(backend.shared.change_state(later).unwrap());
    assert!(repo.retention().is_err());
    assert!(!repo.replace_retention(&Retention::default(), &rules).unwrap());
    repo.set_retention(&rules).unwrap();
    assert_eq!(repo.retention().unwrap(), rules);
}
