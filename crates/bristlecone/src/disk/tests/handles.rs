//! Stores with more segments than there may be maps and open files.

use bristlecone_needs::needs;

use super::*;

/// Returns how many maps and open files this process has of segments and indexes in a folder.
fn held(dir: &Path) -> (usize, usize) {
    let dir = dir.join(SEGMENTS);
    let dir = dir.to_str().unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let files = std::fs::read_dir("/proc/self/fd").unwrap();
    let files = files.filter_map(|file| std::fs::read_link(file.unwrap().path()).ok());
    (
        maps.lines().filter(|line| line.contains(dir)).count(),
        files.filter(|name| name.to_str().is_some_and(|name| name.starts_with(dir))).count(),
    )
}

fn fill(backend: &DiskBackend, numbers: std::ops::Range<u64>) {
    numbers.for_each(|number| _ = commit(backend, number, Durability::None).unwrap());
    // Segments that are not durable yet have their files open.
    backend.flush().unwrap();
}

#[needs(linux)]
#[test]
fn many_segments_are_read_with_few_maps_and_files() {
    for (maps, files) in [(7, 3), (0, 2), (1, 0), (7, 0)] {
        let options = DiskOptions { handles: Handles::new(maps, files), ..small() };
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let [first, second] = [one.path(), other.path()];
        // The segment in which the log ends is open whatever is held beside it.
        let bounded = |stores: usize| {
            let held: Vec<_> = [first, second].into_iter().map(held).collect();
            let (mapped, open) = (held[0].0 + held[1].0, held[0].1 + held[1].1);
            assert!(mapped <= maps as usize && open <= files as usize + stores, "{held:?} of {maps} and {files}");
            held
        };
        let backend = create(first, options.clone());
        fill(&backend, 0..60);
        let snapshot = backend.snapshot(&[]);
        let lent: Vec<Object<'_>> =
            (0..60).map(|number| snapshot.read(&oid(number).into()).unwrap().unwrap()).collect();
        fill(&backend, 60..600);
        assert!(backend.shared.table().numbers().len() > 25, "many segments");
        assert_there(&backend, 0..600, 300);
        assert!(backend.read(&oid(1000).into()).unwrap().is_none());
        let held = bounded(1);
        assert_eq!(held[0].0, maps as usize, "what may be mapped is");
        // A store beside it gets what is left: nothing.
        let beside = create(second, options.clone());
        fill(&beside, 0..200);
        assert_there(&beside, 0..200, 300);
        assert_eq!(bounded(2)[1].0, 0);
        for (object, number) in lent.iter().zip(0..) {
            assert_eq!(object.body(), body(number, 300), "what was lent stays");
        }
        drop(lent);
        drop(snapshot);
        drop(backend);
        drop(beside);
        assert_eq!(bounded(0), [(0, 0), (0, 0)]);
        // What they had is free again.
        for read_only in [false, true] {
            let again = DiskBackend::open(storage(second), None, options.clone(), read_only).unwrap();
            assert_there(&again, 0..200, 300);
            assert_eq!(bounded(1)[1].0, maps as usize);
            let mut damages = Vec::new();
            assert_eq!(again.check(&mut |damage| damages.push(damage)).unwrap().records, 200);
            assert_eq!(damages, []);
            bounded(1);
        }
    }
}

/// Where there may be no maps and files, what lookups search is read whole; nobody reads a terabyte.
#[needs(linux)]
#[test]
fn a_long_file_in_the_place_of_a_filter_is_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let options = DiskOptions { handles: Handles::new(0, 0), ..small() };
    let backend = create(dir.path(), options.clone());
    fill(&backend, 0..400);
    assert!(backend.shared.table().numbers().len() > 17, "a run and more");
    drop(backend);
    for first in [0, 16] {
        let path = dir.path().join(SEGMENTS).join(format!("{first:08}-16.flt"));
        std::fs::File::create(path).unwrap().set_len(1 << 40).unwrap();
    }
    let again = DiskBackend::open(storage(dir.path()), None, options, true).unwrap();
    assert_there(&again, 0..400, 300);
    assert!(again.read(&oid(1000).into()).unwrap().is_none());
}

/// As above, where the head says that the file is so long, since it is of so many objects.
#[needs(linux)]
#[test]
fn a_filter_of_more_objects_than_its_segments_have_room_for_is_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let options = DiskOptions { handles: Handles::new(0, 0), ..small() };
    let backend = create(dir.path(), options.clone());
    fill(&backend, 0..400);
    let table = backend.shared.table();
    let numbers: Vec<u32> = (1..16).collect();
    let room: u64 = numbers.iter().map(|&number| segment_file(dir.path(), number).metadata().unwrap().len() / 48).sum();
    let view = backend.shared.view(&table);
    assert_eq!([0, room, room + 1].map(|records| view.may_have(&numbers, records)), [true, true, false]);
    drop(table);
    drop(backend);
    let (objects, members) = (u64::from(u32::MAX), 1);
    let buckets = objects.div_ceil(64);
    for first in [0_u32, 16] {
        let mut head = b"BCONEFLT".to_vec();
        head.extend_from_slice(&first.to_le_bytes());
        head.extend_from_slice(&(members as u32).to_le_bytes());
        head.extend_from_slice(&objects.to_le_bytes());
        head.extend_from_slice(&buckets.to_le_bytes());
        let path = dir.path().join(SEGMENTS).join(format!("{first:08}-16.flt"));
        std::fs::write(&path, head).unwrap();
        let bytes = 40 + members * 24 + (buckets + 1) * 4 + buckets * 8 + objects * 3;
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(bytes).unwrap();
    }
    let again = DiskBackend::open(storage(dir.path()), None, options, true).unwrap();
    assert_there(&again, 0..400, 300);
    assert!(again.read(&oid(1000).into()).unwrap().is_none());
}

#[test]
fn what_is_read_without_a_map_is_checked_and_told() {
    let dir = tempfile::tempdir().unwrap();
    let options = DiskOptions { handles: Handles::new(0, 0), ..small() };
    let backend = create(dir.path(), options);
    fill(&backend, 0..100);
    let at = backend.read(&oid(3).into()).unwrap().unwrap().location();
    backend.clear_caches();
    flip(&segment_file(dir.path(), (at.0 >> 32) as u32), (at.0 & 0xffff_ffff) + 60);
    let told = backend.read(&ObjRef::new(oid(3), at));
    assert!(matches!(&told, Err(Error::Corrupt { oid: Some(found), .. }) if *found == oid(3)), "{told:?}");
    // One whose file is gone is an error, too.
    let at = backend.read(&oid(30).into()).unwrap().unwrap().location();
    backend.clear_caches();
    std::fs::remove_file(segment_file(dir.path(), (at.0 >> 32) as u32)).unwrap();
    let told = backend.read(&ObjRef::new(oid(30), at));
    assert!(matches!(told, Err(Error::Io { .. })), "{told:?}");
    kill(backend);
}
