//! Collections of the disk engine, and what comes between their steps: nothing that is reused while it is being collected is lost,
//! and nothing that is gone is built upon.

use std::{cell::Cell, sync::Arc};

use bristlecone::{
    Backend, Batch, Durability, Error, Expected, Info, Kind, Location, Native, ObjRef, Object, Oid, RefMove, RefTarget,
    Repo, Roots, Sink, SweepLimits, Swept,
    disk::{DiskBackend, DiskOptions},
    storage::{OpenMode, RealStorage, Storage},
};
use bristlecone_testkit::{
    crash,
    sim::{Fault, Policy, SimStorage, Times},
};

use crate::engine::{format_tag, tiny, tiny_as_shipped, tiny_with_maps};

pub(crate) fn oid(number: u64) -> Oid {
    let mut id = [9; 32];
    id[..8].copy_from_slice(&number.to_le_bytes());
    Oid::from_array(id)
}

/// What an object of these tests holds: the numbers of its children.
pub(crate) fn body(children: &[u64]) -> Vec<u8> {
    children.iter().flat_map(|child| child.to_le_bytes()).collect()
}

pub(crate) fn children_of(object: &Object<'_>) -> Vec<u64> {
    object.body().chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
}

/// Returns a batch with an object, made now.
pub(crate) fn batch(backend: &DiskBackend, number: u64, children: &[u64]) -> Batch {
    let mut batch = Batch::since(backend.sweeps());
    let places = vec![Location::NONE; children.len()];
    batch.put(Kind::Node, oid(number), &body(children), &places, &[]);
    children.iter().for_each(|&child| batch.leave_out(oid(child)));
    batch
}

pub(crate) fn move_to(name: &str, number: Option<u64>) -> RefMove {
    let to = number.map(|number| RefTarget::Object(oid(number).into()));
    RefMove { name: name.to_owned(), expected: Expected::Any, to }
}

pub(crate) fn append(
    backend: &DiskBackend,
    number: u64,
    children: &[u64],
    name: Option<&str>,
) -> Result<Location, Error> {
    let moves: Vec<RefMove> = name.map(|name| move_to(name, Some(number))).into_iter().collect();
    backend.append(batch(backend, number, children), &moves, Durability::None)
}

/// Collects, and calls `between` when the first object is looked at.
pub(crate) fn sweep(backend: &DiskBackend, between: &dyn Fn()) -> Swept {
    sweep_by(backend, &SweepLimits::default(), between)
}

fn sweep_by(backend: &DiskBackend, limits: &SweepLimits, between: &dyn Fn()) -> Swept {
    try_sweep(backend, limits, between).unwrap()
}

fn try_sweep(backend: &DiskBackend, limits: &SweepLimits, between: &dyn Fn()) -> Result<Swept, Error> {
    let called = Cell::new(false);
    let children = |_: &Oid, object: &Object<'_>, each: &mut dyn FnMut(Oid)| {
        if !called.replace(true) {
            between();
        }
        children_of(object).into_iter().for_each(|child| each(oid(child)));
        Ok(())
    };
    backend.sweep(&Roots::new(&[], &children), limits)
}

/// Returns the numbers of all that a ref leads to, each of which must be there.
pub(crate) fn reached(backend: &DiskBackend, name: &str) -> Vec<u64> {
    let Some(RefTarget::Object(at)) = backend.get_ref(name).unwrap() else { return Vec::new() };
    let (mut open, mut all) = (vec![at], Vec::new());
    while let Some(at) = open.pop() {
        let object = backend.read(&at).unwrap().unwrap_or_else(|| panic!("{at:?} is gone"));
        all.push(u64::from_le_bytes(at.oid.as_bytes()[..8].try_into().unwrap()));
        open.extend(children_of(&object).into_iter().map(|child| ObjRef::from(oid(child))));
    }
    all.sort_unstable();
    all
}

/// A store in which a ref leads to 3 and 2 below it, and nothing to 5, which has 4 below it, or to 7 above 6.
pub(crate) fn store(options: &DiskOptions) -> (SimStorage, DiskBackend) {
    let disk = SimStorage::new();
    let backend = DiskBackend::create(Arc::new(disk.clone()), format_tag(), options.clone()).unwrap();
    for (number, children) in [(2, &[][..]), (3, &[2]), (4, &[]), (5, &[4]), (6, &[]), (7, &[6])] {
        append(&backend, number, children, Some("all")).unwrap();
    }
    backend.append(Batch::new(), &[move_to("all", None), move_to("main", Some(3))], Durability::None).unwrap();
    (disk, backend)
}

fn each_way(test: impl Fn(&DiskBackend, &DiskBackend)) {
    for options in [tiny(), tiny_with_maps(), tiny_as_shipped(), tiny().locations(false)] {
        let (disk, backend) = store(&options);
        test(&backend, &backend);
        let (disk_of_two, backend) = store(&options);
        let other = DiskBackend::open(Arc::new(disk_of_two), None, options.clone(), false).unwrap();
        test(&backend, &other);
        drop((backend, other));
        let again = DiskBackend::open(Arc::new(disk), None, options, false).unwrap();
        again.check(&mut |damage| panic!("{damage:?}")).unwrap();
    }
}

#[test]
fn what_an_append_reuses_while_it_is_collected_stays_with_all_below_it() {
    each_way(|collector, writer| {
        let swept = sweep(collector, &|| {
            append(writer, 10, &[5], Some("side")).unwrap();
        });
        for backend in [collector, writer] {
            assert_eq!(reached(backend, "side"), [4, 5, 10]);
            assert_eq!(reached(backend, "main"), [2, 3]);
            assert!(backend.read(&oid(7).into()).unwrap().is_none());
        }
        // It was chosen before, and is reported so.
        assert!(swept.objects >= 2);
        assert_eq!(sweep(collector, &|| ()).objects, 0);
        assert_eq!(reached(writer, "side"), [4, 5, 10]);
    });
}

/// No writer makes objects that are below themselves, and whoever forges them does not keep a collection busy for ever. A chain that is
/// as deep, and deeper, is none.
#[test]
fn objects_that_are_below_themselves_end_a_collection() {
    for options in [tiny(), tiny_with_maps()] {
        let (_disk, backend) = store(&options.cold_bytes(1 << 20));
        let chain: Vec<u64> = (0..5000).map(|number| 100 + number).collect();
        let mut batch = Batch::since(backend.sweeps());
        for &number in &chain {
            let children = if number > 100 { vec![number - 1] } else { Vec::new() };
            batch.put(Kind::Node, oid(number), &body(&children), &vec![Location::NONE; children.len()], &[]);
        }
        backend.append(batch, &[move_to("deep", chain.last().copied())], Durability::None).unwrap();
        assert!(sweep(&backend, &|| ()).objects > 0);
        assert_eq!(reached(&backend, "deep"), chain);
        append(&backend, 20, &[21], None).unwrap();
        append(&backend, 21, &[22], None).unwrap();
        append(&backend, 22, &[20], Some("circle")).unwrap();
        append_garbage(&backend, 30);
        let swept = try_sweep(&backend, &SweepLimits::default(), &|| ());
        assert!(matches!(&swept, Err(Error::Corrupt { oid: Some(_), .. })), "{swept:?}");
        assert_eq!(reached(&backend, "main"), [2, 3]);
    }
}

/// A collection remembers what it found to stay in cold segments; another one may have dropped that since.
#[test]
fn what_was_dropped_since_and_written_again_is_not_taken_for_what_stays() {
    let part = SweepLimits::default().partial(true);
    each_way(|collector, other| {
        for _ in 0..2 {
            append(collector, 20, &[], None).unwrap();
            append(collector, 21, &[20], Some("side")).unwrap();
            for _ in 0..2 {
                append(collector, 22, &[], None).unwrap();
                assert!(sweep_by(collector, &part, &|| ()).objects >= 1);
            }
            other.append(Batch::new(), &[move_to("side", None)], Durability::None).unwrap();
            sweep(other, &|| ());
            assert!(other.read(&oid(20).into()).unwrap().is_none());
            append(other, 20, &[], Some("below")).unwrap();
            append(other, 21, &[20], Some("side")).unwrap();
            // Something to drop, or else all stays where it is.
            append(other, 22, &[], None).unwrap();
            assert!(sweep_by(collector, &part, &|| ()).objects >= 1);
            for backend in [collector, other] {
                assert_eq!((reached(backend, "below"), reached(backend, "side")), (vec![20], vec![20, 21]));
                assert_eq!(reached(backend, "main"), [2, 3]);
            }
            other.append(Batch::new(), &[move_to("below", None)], Durability::None).unwrap();
        }
    });
}

/// Beside synced commits a collection waits until each part is written; the system tells it of a failure then, and not again.
#[test]
fn what_could_not_be_written_beside_synced_commits_is_not_relied_on() {
    // Whether the medium has a sector in spite of a failure depends on the calls before.
    for earlier in 0..4 {
        let mut told = 0;
        for call in 1.. {
            let (disk, backend) = store(&tiny());
            (0..earlier).for_each(|number| _ = append(&backend, 100 + number, &[], None).unwrap());
            // More than fits in the sector that the segment's head writes again.
            for number in 200..220 {
                let below = if number == 200 { vec![] } else { vec![number - 1] };
                append(&backend, number, &below, Some("long")).unwrap();
            }
            let begun = Cell::new(0);
            let swept = try_sweep(&backend, &SweepLimits::default(), &|| {
                backend.append(batch(&backend, 8, &[3]), &[move_to("side", Some(8))], Durability::Synced).unwrap();
                begun.set(disk.calls());
                disk.fail_at(begun.get() + call, Fault::Io, Times::Once);
            });
            let is_over = disk.calls() < begun.get() + call;
            disk.heal();
            told += u64::from(swept.is_err());
            let backend = DiskBackend::open(Arc::new(disk.reboot(1, Policy::Lost)), None, tiny(), false).unwrap();
            assert_eq!((reached(&backend, "main"), reached(&backend, "side")), (vec![2, 3], vec![2, 3, 8]));
            assert_eq!(reached(&backend, "long"), (200..220).collect::<Vec<_>>(), "call {call} after {earlier} more");
            backend.check(&mut |damage| panic!("call {call} after {earlier} more: {damage:?}")).unwrap();
            if is_over {
                swept.unwrap();
                break;
            }
        }
        assert!(told > 5, "{told}");
    }
}

#[test]
fn a_ref_that_moves_to_what_is_being_collected_keeps_it() {
    each_way(|collector, writer| {
        sweep(collector, &|| {
            writer.append(Batch::new(), &[move_to("side", Some(7))], Durability::None).unwrap();
        });
        for backend in [collector, writer] {
            assert_eq!((reached(backend, "side"), reached(backend, "main")), (vec![6, 7], vec![2, 3]));
        }
    });
}

#[test]
fn what_is_appended_without_a_ref_while_others_are_collected_stays() {
    each_way(|collector, writer| {
        sweep(collector, &|| {
            append(writer, 10, &[7], None).unwrap();
        });
        assert!(append(writer, 11, &[10], Some("side")).is_ok());
        assert_eq!(reached(collector, "side"), [6, 7, 10, 11]);
    });
}

#[test]
fn a_batch_of_before_a_collection_of_another_process_is_refused_where_it_lacks_something() {
    each_way(|collector, writer| {
        let before = batch(writer, 10, &[5]);
        let fine = batch(writer, 11, &[3]);
        sweep(collector, &|| ());
        match writer.append(before, &[move_to("side", Some(10))], Durability::None) {
            Err(Error::Gone { oids }) => assert_eq!(oids, [oid(5)]),
            other => panic!("{other:?}"),
        }
        writer.append(fine, &[move_to("side", Some(11))], Durability::None).unwrap();
        assert_eq!(reached(collector, "side"), [2, 3, 11]);
    });
}

#[test]
fn a_snapshot_reads_on_through_ten_collections_by_another_process() {
    for maps in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let storage = || Arc::new(RealStorage::new(dir.path()));
        let options = tiny().maps(maps);
        let writer = DiskBackend::create(storage(), format_tag(), options.clone()).unwrap();
        (0..60).for_each(|number| _ = append(&writer, number, &[], Some("main")).unwrap());
        let reader = DiskBackend::open(storage(), None, options.clone(), true).unwrap();
        let snapshot = reader.snapshot(&[]);
        for round in 1..=10 {
            append(&writer, 100 + round, &[], Some("main")).unwrap();
            assert!(sweep(&writer, &|| ()).objects > 0);
            // It goes on from ref to ref, and the snapshot stays where it is.
            assert_eq!(reached(&reader, "main"), [100 + round]);
        }
        for number in 0..60 {
            let object = snapshot.read(&oid(number).into()).unwrap();
            assert!(object.is_some(), "{number}, maps {maps}");
        }
        // Who holds what is told by name.
        let collected = writer.collected().unwrap();
        let behind: Vec<_> = collected.behind.iter().map(|reader| (reader.process, reader.state)).collect();
        assert_eq!((behind, collected.processes), (vec![(Some(std::process::id()), 0)], 2));
        assert!(collected.emptied_bytes > 10 * 4096 && collected.behind[0].since.is_some());
        let files = || std::fs::read_dir(dir.path().join("segments")).unwrap().count();
        let before = files();
        drop((snapshot, reader));
        drop(writer);
        // A process that another test forks off holds the locks of the reader until it runs its own program.
        for _ in 0..100 {
            if files() + 10 < before {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
            drop(DiskBackend::open(storage(), None, options.clone(), false).unwrap());
        }
        assert!(files() + 10 < before, "{} files of {before}", files());
    }
}

#[test]
fn who_closes_the_store_by_an_older_state_removes_nothing_of_a_newer_one() {
    for options in [tiny(), tiny_with_maps(), tiny_as_shipped()] {
        let (disk, backend) = store(&options);
        let other = DiskBackend::open(Arc::new(disk.clone()), None, options.clone(), false).unwrap();
        let mut snapshot = None;
        for number in [20, 21] {
            // The other one reads by the state before, and by that of the first collection as soon as the snapshot goes.
            assert_eq!(reached(&other, "main"), [2, 3]);
            other.flush().unwrap();
            snapshot.get_or_insert_with(|| other.snapshot(&[]));
            append(&backend, number, &[], Some("dropped")).unwrap();
            backend.append(Batch::new(), &[move_to("dropped", None)], Durability::None).unwrap();
            assert!(sweep(&backend, &|| ()).objects > 0);
        }
        drop(snapshot);
        assert_eq!(reached(&backend, "main"), [2, 3]);
        drop(other);
        assert_eq!(reached(&backend, "main"), [2, 3]);
        drop(backend);
        let again = DiskBackend::open(Arc::new(disk), None, options, false).unwrap();
        assert_eq!(reached(&again, "main"), [2, 3]);
        again.check(&mut |damage| panic!("{damage:?}")).unwrap();
    }
}

/// Opens the store such that no other process learns of it: the file that says so cannot be made.
fn open_unnoticed(disk: &SimStorage, options: &DiskOptions, read_only: bool) -> DiskBackend {
    disk.fail_at(disk.calls() + 1, Fault::Io, Times::Once);
    let backend = DiskBackend::open(Arc::new(disk.clone()), None, options.clone(), read_only).unwrap();
    disk.heal();
    assert_eq!(disk.list("readers").unwrap().len(), 1, "only the other one's");
    backend
}

#[test]
fn who_could_not_say_that_it_reads_for_want_of_room_says_so_later() {
    let (disk, backend) = store(&tiny());
    disk.fail_at(disk.calls() + 1, Fault::NoSpace, Times::Forever);
    let reader = DiskBackend::open(Arc::new(disk.clone()), None, tiny(), true).unwrap();
    disk.heal();
    let said = || disk.list("readers").unwrap().len();
    assert_eq!(said(), 1, "only the other one's");
    // It is tried again a tenth of a second later, and once more where that fails for another reason.
    for (number, fails) in [(20, true), (21, false)] {
        std::thread::sleep(std::time::Duration::from_millis(150));
        append(&backend, number, &[], Some("side")).unwrap();
        if fails {
            disk.fail_at(disk.calls() + 1, Fault::Io, Times::Forever);
        }
        assert_eq!(reached(&reader, "side"), [number]);
        disk.heal();
        assert_eq!(said(), if fails { 1 } else { 2 });
    }
    drop(reader);
    assert_eq!(said(), 1);
}

#[test]
fn who_could_not_say_that_it_reads_is_told_when_a_collection_has_passed_it_and_goes_on() {
    let mut expired = 0;
    for (options, read_only) in
        [tiny(), tiny_with_maps(), tiny_as_shipped()].iter().flat_map(|options| [(options, false), (options, true)])
    {
        let (disk, backend) = store(options);
        // What is to be dropped lies beside what stays.
        [20, 21, 22].iter().for_each(|&number| _ = append(&backend, number, &[], Some(&number.to_string())).unwrap());
        sweep(&backend, &|| ());
        let other = open_unnoticed(&disk, options, read_only);
        let snapshot = other.snapshot(&[]);
        for number in [20, 21, 22] {
            backend.append(Batch::new(), &[move_to(&number.to_string(), None)], Durability::None).unwrap();
            assert!(sweep(&backend, &|| ()).objects > 0);
            for number in [2, 3, 99] {
                match snapshot.read(&oid(number).into()) {
                    // What was open already is read on.
                    Ok(found) => assert_eq!(found.is_some(), number != 99),
                    Err(Error::Expired { .. }) => expired += 1,
                    Err(error) => panic!("{number}: {error:?}"),
                }
            }
        }
        drop(snapshot);
        assert_eq!(reached(&other, "main"), [2, 3]);
        if !read_only {
            append(&other, 30, &[3], Some("side")).unwrap();
            assert_eq!(reached(&backend, "side"), [2, 3, 30]);
        }
        drop(other);
        drop(backend);
        let again = DiskBackend::open(Arc::new(disk), None, options.clone(), false).unwrap();
        assert_eq!(reached(&again, "main"), [2, 3]);
        again.check(&mut |damage| panic!("{damage:?}")).unwrap();
    }
    assert!(expired > 0);
}

/// Appends an object that no ref leads to any more.
fn append_garbage(backend: &DiskBackend, number: u64) {
    append(backend, number, &[], Some("dropped")).unwrap();
    backend.append(Batch::new(), &[move_to("dropped", None)], Durability::None).unwrap();
}

#[test]
fn snapshots_that_overlap_for_ever_do_not_keep_what_the_first_of_them_needed() {
    for two_processes in [false, true] {
        let (disk, backend) = store(&tiny());
        sweep(&backend, &|| ());
        let open = || DiskBackend::open(Arc::new(disk.clone()), None, tiny(), false).unwrap();
        let other = two_processes.then(open);
        let reader = other.as_ref().unwrap_or(&backend);
        let mut snapshots: Vec<_> = (0..3).map(|_| reader.snapshot(&[])).collect();
        let mut files = Vec::new();
        for round in 0..30 {
            append_garbage(&backend, 100 + round);
            // What came since the oldest snapshot of the same process stays.
            assert!(sweep(&backend, &|| ()).objects > 0 || !two_processes && round < 4, "round {round}");
            reader.position().unwrap();
            // At any time, one of them is of before the last collection.
            snapshots.push(reader.snapshot(&[]));
            let oldest = snapshots.remove(0);
            assert_eq!(children_of(&oldest.read(&oid(3).into()).unwrap().unwrap()), [2]);
            drop(oldest);
            assert!(backend.collected().unwrap().emptied_bytes > 0 || round < 4);
            files.push(disk.list("segments").unwrap().len());
        }
        assert!(files[29] <= files[5] + 1, "{files:?}");
        drop(snapshots);
        append_garbage(&backend, 1000);
        sweep(&backend, &|| ());
        reader.position().unwrap();
        sweep(&backend, &|| ());
        assert_eq!(backend.collected().unwrap().emptied_bytes, 0);
        backend.check(&mut |damage| panic!("{damage:?}")).unwrap();
    }
}

#[test]
fn a_limit_ends_what_snapshots_keep_with_an_error_and_never_with_other_bytes() {
    let mut expired = 0;
    for options in [tiny(), tiny_with_maps(), tiny_as_shipped()] {
        let (disk, backend) = store(&options);
        sweep(&backend, &|| ());
        let other = DiskBackend::open(Arc::new(disk.clone()), None, options.clone(), false).unwrap();
        append(&backend, 50, &[], Some("gone")).unwrap();
        other.position().unwrap();
        append_garbage(&backend, 51);
        let (own, others) = (backend.snapshot(&[oid(50)]), other.snapshot(&[oid(50)]));
        backend.append(Batch::new(), &[move_to("gone", None)], Durability::None).unwrap();
        // What is within the limit keeps what it needs.
        let none = backend.retention().unwrap();
        let mut retention = none.clone();
        retention.set_snapshot_limit(Some(3600));
        assert!(backend.replace_retention(Some(&none), &retention).unwrap());
        assert_eq!(other.retention().unwrap().snapshot_limit(), Some(3600));
        assert!(sweep(&backend, &|| ()).objects > 0);
        for snapshot in [&own, &others] {
            assert!(snapshot.read(&oid(50).into()).unwrap().is_some());
        }
        assert!(backend.collected().unwrap().emptied_bytes > 0);
        // What is not, does not.
        let before = retention.clone();
        retention.set_snapshot_limit(Some(0));
        assert!(backend.replace_retention(Some(&before), &retention).unwrap());
        // Except for a process that is still opening the store, and has said nothing yet.
        let opening = disk.open("readers/opening", OpenMode::CreateNew).unwrap();
        assert!(opening.try_lock().unwrap());
        assert!(sweep(&backend, &|| ()).objects > 0);
        assert!(backend.collected().unwrap().emptied_bytes > 0);
        drop(opening);
        append_garbage(&backend, 52);
        assert!(sweep(&backend, &|| ()).objects > 0);
        assert_eq!(backend.collected().unwrap().emptied_bytes, 0);
        assert!(backend.read(&oid(50).into()).unwrap().is_none(), "the expired snapshot's root");
        for snapshot in [&own, &others] {
            for number in [2, 3, 50, 99] {
                match snapshot.read(&oid(number).into()) {
                    Ok(Some(object)) => assert_eq!(object.body(), body(if number == 3 { &[2] } else { &[] })),
                    Ok(None) => assert_eq!(number, 99),
                    Err(Error::Expired { .. }) => expired += 1,
                    Err(error) => panic!("{number}: {error:?}"),
                }
            }
        }
        // Both go on, and what they took for being there is looked at again.
        for (backend, number) in [(&backend, 70), (&other, 71)] {
            append(backend, number, &[3], Some("side")).unwrap();
            assert_eq!(reached(backend, "side"), [2, 3, number]);
        }
        drop((own, others));
        drop((backend, other));
        let again = DiskBackend::open(Arc::new(disk), None, options.clone(), false).unwrap();
        assert_eq!(reached(&again, "main"), [2, 3]);
        again.check(&mut |damage| panic!("{damage:?}")).unwrap();
    }
    assert!(expired > 0);
}

/// Every call of a collection fails once: what it had copied goes again, unless the frame is there that names it.
#[test]
fn a_collection_that_fails_gives_back_the_room_that_it_took() {
    let (mut removed, mut named) = (0, 0);
    for fault in [Fault::Io, Fault::NoSpace] {
        for call in 1.. {
            let (disk, backend) = store(&tiny());
            let begun = disk.calls();
            disk.fail_at(begun + call, fault, Times::Once);
            let children = |_: &Oid, object: &Object<'_>, each: &mut dyn FnMut(Oid)| {
                children_of(object).into_iter().for_each(|child| each(oid(child)));
                Ok(())
            };
            let swept = backend.sweep(&Roots::new(&[], &children), &SweepLimits::default());
            let is_over = disk.calls() < begun + call;
            disk.heal();
            let other = DiskBackend::open(Arc::new(disk.clone()), None, tiny(), true).unwrap();
            let is_named = other.collected().unwrap().states > 0;
            let cold = disk.list("segments").unwrap().iter().filter(|name| name.ends_with(".cold")).count();
            assert_eq!(reached(&other, "main"), [2, 3]);
            if is_over {
                swept.unwrap();
                break;
            }
            if is_named {
                named += 1;
            } else if swept.is_err() {
                assert_eq!(cold, 0, "{fault:?} at call {call}: {swept:?}");
                removed += 1;
            }
        }
    }
    assert!(removed > 10 && named > 0, "{removed} removed, {named} named");
}

/// A process is killed after each call of the first collection: what it has copied goes before another collection needs the room, and
/// when the store is opened.
#[test]
fn what_a_killed_collection_copied_is_given_back() {
    let children = |_: &Oid, _: &Object<'_>, _: &mut dyn FnMut(Oid)| Ok(());
    let sweep = |backend: &DiskBackend| backend.sweep(&Roots::new(&[], &children), &SweepLimits::default());
    let copied = |disk: &SimStorage| {
        let files = disk.files();
        files.iter().filter(|(name, bytes)| name.ends_with(".cold") && *bytes > 0).count()
    };
    let mut left = 0;
    for call in 1.. {
        let disk = SimStorage::new();
        let backend = DiskBackend::create(Arc::new(disk.clone()), format_tag(), tiny()).unwrap();
        let mut large = Batch::new();
        large.put(Kind::Contents, oid(1), &vec![7; 64 << 10], &[], &[]);
        backend.append(large, &[move_to("large", Some(1))], Durability::None).unwrap();
        append_garbage(&backend, 2);
        let process = disk.process();
        let killed = DiskBackend::open(Arc::new(process.clone()), None, tiny(), false).unwrap();
        process.stop_after(process.process_calls() + call);
        let swept = sweep(&killed);
        drop(killed);
        backend.position().unwrap();
        if swept.is_ok() {
            break;
        }
        if backend.sweeps() > 0 || copied(&disk) == 0 {
            continue;
        }
        left += 1;
        let later = disk.fork();
        drop(DiskBackend::open(Arc::new(later.clone()), None, tiny(), false).unwrap());
        assert_eq!(copied(&later), 0, "opened after call {call}");
        disk.limit_space(Some(disk.bytes() + (16 << 10)));
        assert_eq!(sweep(&backend).unwrap().objects, 1, "after call {call}");
        assert_eq!(copied(&disk), 1, "after call {call}");
        assert_eq!(backend.read(&oid(1).into()).unwrap().unwrap().body(), [7; 64 << 10]);
        backend.check(&mut |damage| panic!("{damage:?}")).unwrap();
    }
    assert!(left > 1, "{left}");
}

#[test]
fn what_aborted_work_left_is_given_back() {
    let disk = SimStorage::new();
    let open = || DiskBackend::open(Arc::new(disk.clone()), None, tiny(), false).unwrap();
    drop(DiskBackend::create(Arc::new(disk.clone()), format_tag(), tiny()).unwrap());
    let backend = open();
    append(&backend, 1, &[], Some("main")).unwrap();
    for number in 2..40 {
        let mut batch = Batch::new();
        batch.put(Kind::Contents, oid(number), &vec![0; 64 << 10], &[], &[]);
        backend.append(batch, &[], Durability::None).unwrap();
    }
    drop(backend);
    let backend = open();
    assert!(backend.stats().reclaimable_bytes > 2 << 20);
    let young = SweepLimits::default().grace(3600);
    let children = |_: &Oid, _: &Object<'_>, _: &mut dyn FnMut(Oid)| Ok(());
    let roots = Roots::new(&[], &children);
    assert_eq!(backend.sweep(&roots, &young).unwrap().objects, 0, "it may be wanted again");
    append(&backend, 50, &[], Some("main")).unwrap();
    assert_eq!(backend.sweep(&roots, &young).unwrap().objects, 0, "what a ref left may be, too");
    assert_eq!(sweep(&backend, &|| ()).objects, 39);
    let stats = backend.stats();
    assert!(stats.reclaimable_bytes == 0 && stats.store_bytes < 100_000, "{stats:?}");
    assert_eq!(reached(&backend, "main"), [50]);
}

#[test]
fn a_tree_of_what_another_process_has_dropped_is_committed_whole_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let one = Repo::create(&store, Native::default(), DiskOptions::default()).unwrap();
    let edit = |repo: &Repo, branch: &str, number: u32| {
        let edit = |tree: &mut bristlecone::Tree| {
            (0..200).try_for_each(|entry| tree.set(format!("{}/{entry}", entry % 9), vec![number as u8; 90]))
        };
        repo.branch(branch).unwrap().edit(&Info::message("an edit"), edit).unwrap();
    };
    edit(&one, "main", 1);
    edit(&one, "trial", 2);
    let other = Repo::open(&store, DiskOptions::default()).unwrap();
    let mut tree = other.branch("trial").unwrap().tree().unwrap();
    one.branch("trial").unwrap().compare_and_set(tree.origin(), None, Default::default()).unwrap();
    assert!(one.sweep(&[], &SweepLimits::default()).unwrap().objects > 0);
    // The other process reads what it holds, and may not build on it unseen.
    assert_eq!(tree.get("3/12").unwrap().unwrap().len(), 90);
    tree.set("new", "value").unwrap();
    match other.commit_tree(&mut tree, &[], &Info::message("on what is gone")) {
        Err(Error::Gone { oids }) => assert!(!oids.is_empty()),
        Ok(commit) => {
            let again = one.branch("again").unwrap();
            again.compare_and_set(None, Some(commit), Default::default()).unwrap();
            let tree = again.tree().unwrap();
            (0..200).for_each(|entry| assert!(tree.get(format!("{}/{entry}", entry % 9)).unwrap().is_some()));
        }
        Err(error) => panic!("{error}"),
    }
}

/// `cargo test --release -p bristlecone --test it collections_of -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn collections_of_a_store_of_which_half_is_live() {
    let dir = tempfile::tempdir().unwrap();
    let repo = Repo::create(dir.path(), Native::default(), DiskOptions::default()).unwrap();
    for (branch, seed) in [("main", 0), ("trial", 1)] {
        for part in 0..10_u32 {
            let edit = |tree: &mut bristlecone::Tree| {
                (0..40_000_u32).try_for_each(|entry| {
                    let value: Vec<u8> =
                        (0..1000_u32).map(|at| (at * 31 + entry * 7 + part * 3 + seed) as u8).collect();
                    let value = [&entry.to_le_bytes()[..], &part.to_le_bytes(), &value].concat();
                    tree.set(format!("{seed}/{part}/{}/{entry}", entry % 97), value)
                })
            };
            repo.branch(branch).unwrap().edit(&Info::message("a part"), edit).unwrap();
        }
    }
    let head = repo.branch("trial").unwrap().head().unwrap();
    repo.branch("trial").unwrap().compare_and_set(head, None, Default::default()).unwrap();
    let before = repo.backend().stats().store_bytes;
    let start = std::time::Instant::now();
    let swept = repo.sweep(&[], &SweepLimits::default()).unwrap();
    let (took, after) = (start.elapsed(), repo.backend().stats().store_bytes);
    let rate = after as f64 / took.as_secs_f64() / 1e6;
    println!("{before} to {after} bytes, {swept:?} in {took:?}: {rate:.0} MB of live bytes/s");
    let start = std::time::Instant::now();
    let swept = repo.sweep(&[], &SweepLimits::default()).unwrap();
    println!("again, with nothing to drop: {swept:?} in {:?}", start.elapsed());
}

/// Hundreds of refs, moved, removed and made anew by two handles between collections: each leads to its own object, with all below
/// it, and tables of refs that no segment names any more are removed.
#[test]
fn many_refs_are_kept_through_collections_and_their_tables_do_not_grow_for_ever() {
    for options in [tiny(), tiny_as_shipped()] {
        let disk = SimStorage::new();
        let first = DiskBackend::create(Arc::new(disk.clone()), format_tag(), options.clone()).unwrap();
        let other = DiskBackend::open(Arc::new(disk.clone()), None, options.clone(), false).unwrap();
        let mut model = std::collections::BTreeMap::new();
        let name = |number: u64| format!("heads/{number:03}");
        let (mut number, mut tables_max, mut segments_max) = (0, 0, 0);
        for round in 0..crash::step(12, 25) {
            for step in 0..120 {
                let backend = if (round + step) % 3 == 0 { &other } else { &first };
                let place = (round * 7919 + step * 31) % 400;
                if step % 11 == 10 {
                    backend.append(Batch::new(), &[move_to(&name(place), None)], Durability::None).unwrap();
                    model.remove(&place);
                } else {
                    number += 2;
                    append(backend, number, &[], None).unwrap();
                    append(backend, number + 1, &[number], Some(&name(place))).unwrap();
                    model.insert(place, number + 1);
                }
            }
            sweep(if round % 2 == 0 { &first } else { &other }, &|| ());
            let files = disk.list("segments").unwrap();
            let count = |ending| files.iter().filter(|name| name.ends_with(ending)).count();
            (tables_max, segments_max) = (tables_max.max(count(".refs")), segments_max.max(count(".seg")));
            for backend in [&first, &other] {
                let names: Vec<_> = backend.list_refs("heads/").unwrap().into_keys().collect();
                assert_eq!(names, model.keys().map(|place| name(*place)).collect::<Vec<_>>(), "round {round}");
            }
            for (place, number) in &model {
                assert_eq!(reached(&first, &name(*place)), [number - 1, *number], "round {round}");
            }
        }
        // Two rounds are there at a time: what one collection emptied is removed by the next, when both handles have gone on.
        assert!((1..20).contains(&tables_max) && segments_max < 40, "{tables_max} tables, {segments_max} segments");
        drop((first, other));
        let again = DiskBackend::open(Arc::new(disk), None, options, false).unwrap();
        assert_eq!(again.list_refs("").unwrap().len(), model.len());
        again.check(&mut |damage| panic!("{damage:?}")).unwrap();
    }
}
