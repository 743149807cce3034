//! Cold segments that stay with garbage in them: nothing finds it, nothing is built on it, and what is damaged of the marks that
//! hide it is named.

use std::{cell::Cell, sync::Arc};

use bristlecone::{
    Backend, Batch, Durability, Error, Kind, Location, ObjRef, Object, Oid, OidPrefix, Roots, Sink, SweepLimits,
    SweepStatus, Swept,
    disk::{DiskBackend, DiskOptions},
    storage::Storage,
};
use bristlecone_testkit::sim::{Fault, SimStorage, Times};

use crate::{
    collect::{append, batch, body, children_of, move_to, oid, reached},
    engine::{count_with_digits, format_tag, is_soon, tiny, tiny_as_shipped, tiny_with_maps},
};

/// Cold segments of a handful of the objects of these tests.
const COLD_BYTES: u64 = 600;
/// How many refs the store has at first. Ref `n` leads to `100 + n`, which has `200 + n` below it.
const REFS: u64 = 24;

fn options() -> [DiskOptions; 4] {
    [tiny(), tiny_with_maps(), tiny_as_shipped(), tiny().locations(false)].map(|options| options.cold_bytes(COLD_BYTES))
}

fn sweep_by(backend: &DiskBackend, limits: &SweepLimits) -> Result<Swept, Error> {
    let children = |_: &Oid, object: &Object<'_>, each: &mut dyn FnMut(Oid)| {
        children_of(object).into_iter().for_each(|child| each(oid(child)));
        Ok(())
    };
    backend.sweep(&Roots::new(&[], &children), limits)
}

/// Collects and leaves all garbage in cold segments where it is, hidden.
fn hide(backend: &DiskBackend) -> Swept {
    sweep_by(backend, &SweepLimits::default().slack(100)).unwrap()
}

fn files(disk: &SimStorage, ending: &str) -> Vec<String> {
    let mut names = disk.list("segments").unwrap();
    names.retain(|name| name.ends_with(ending));
    names.sort_unstable();
    names
}

fn name(number: u64) -> String {
    format!("r{number}")
}

fn open(disk: &SimStorage, options: &DiskOptions) -> DiskBackend {
    DiskBackend::open(Arc::new(disk.clone()), None, options.clone(), false).unwrap()
}

/// A store whose objects lie in several cold segments; `below`: what lies below, in cold segments of its own.
fn store(options: &DiskOptions) -> (SimStorage, DiskBackend) {
    let disk = SimStorage::new();
    let backend = DiskBackend::create(Arc::new(disk.clone()), format_tag(), options.clone()).unwrap();
    // What is below is kept by a ref of its own first, and so copied first, to other segments.
    let all: Vec<u64> = (0..REFS).map(|number| 200 + number).collect();
    all.iter().for_each(|&number| _ = append(&backend, number, &[], None).unwrap());
    append(&backend, 300, &all, Some("all")).unwrap();
    sweep_by(&backend, &SweepLimits::default()).unwrap();
    for number in 0..REFS {
        append(&backend, 100 + number, &[200 + number], Some(&name(number))).unwrap();
    }
    drop_refs(&backend, &["all".to_owned()]);
    append_garbage(&backend, 301);
    sweep_by(&backend, &SweepLimits::default().partial(true)).unwrap();
    assert!(files(&disk, ".cold").len() >= 6, "{:?}", files(&disk, ".cold"));
    assert_eq!(files(&disk, ".live"), [""; 0]);
    (disk, backend)
}

fn drop_refs(backend: &DiskBackend, names: &[String]) {
    let moves: Vec<_> = names.iter().map(|name| move_to(name, None)).collect();
    backend.append(Batch::new(), &moves, Durability::None).unwrap();
}

fn append_garbage(backend: &DiskBackend, number: u64) {
    append(backend, number, &[], Some("dropped")).unwrap();
    drop_refs(backend, &["dropped".to_owned()]);
}

fn is_dropped(number: u64) -> bool {
    number % 3 != 1
}

/// Drops most refs, and hides what they led to.
fn drop_most(backend: &DiskBackend) -> Vec<(u64, Location)> {
    let dropped: Vec<u64> = (0..REFS).filter(|&number| is_dropped(number)).collect();
    let places = |&number: &u64| {
        let at = backend.read(&oid(100 + number).into()).unwrap().unwrap().location();
        let below = backend.read(&oid(200 + number).into()).unwrap().unwrap().location();
        [(100 + number, at), (200 + number, below)]
    };
    let places = dropped.iter().flat_map(places).collect();
    drop_refs(backend, &dropped.iter().map(|&number| name(number)).collect::<Vec<_>>());
    let swept = hide(backend);
    assert!(swept.objects >= 2 * dropped.len() as u64, "{swept:?}");
    places
}

/// Compares all ways to look for an object with whether it is there.
fn assert_there(backend: &DiskBackend, number: u64, at: Location, there: bool) {
    for at in [oid(number).into(), ObjRef::new(oid(number), at)] {
        assert_eq!(backend.read(&at).unwrap().is_some(), there, "{number} at {at:?}");
        let snapshot = backend.snapshot(&[]);
        assert_eq!(snapshot.read(&at).unwrap().is_some(), there, "{number} at {at:?}, in a snapshot");
    }
    let prefix: OidPrefix = oid(number).to_string()[..20].parse().unwrap();
    let mut found = false;
    let found_one = |_, _: &Object<'_>| {
        found = true;
        Ok(())
    };
    backend.each_with_prefix(&prefix, &mut { found_one }).unwrap();
    assert_eq!(found, there, "{number} by its first digits");
}

fn assert_kept(backend: &DiskBackend) {
    for number in (0..REFS).filter(|&number| !is_dropped(number)) {
        assert_eq!(reached(backend, &name(number)), [100 + number, 200 + number]);
    }
}

fn walked(backend: &DiskBackend) -> Vec<u64> {
    let mut all = Vec::new();
    let each = &mut |oid: Oid, _: &Object<'_>| {
        all.push(u64::from_le_bytes(oid.as_bytes()[..8].try_into().unwrap()));
        Ok(())
    };
    backend.each_object(each, &mut |damage| panic!("{damage:?}")).unwrap();
    all.sort_unstable();
    all
}

fn check(backend: &DiskBackend) {
    let summary = backend.check(&mut |damage| panic!("{damage:?}")).unwrap();
    assert_eq!(summary.stale_index_files, [""; 0]);
}

#[test]
fn a_place_of_before_collections_leads_to_what_they_moved_as_long_as_it_lives() {
    for options in options() {
        let disk = SimStorage::new();
        let backend = DiskBackend::create(Arc::new(disk), format_tag(), options.clone()).unwrap();
        for (number, name) in [(500, "stays"), (501, "goes")] {
            append(&backend, number, &[], Some(name)).unwrap();
        }
        let [stays, goes] = [500, 501].map(|number| backend.read(&oid(number).into()).unwrap().unwrap().location());
        let before = backend.stats().memory_bytes;
        for round in 0..5 {
            append_garbage(&backend, 600 + round);
            if round == 3 {
                drop_refs(&backend, &["goes".to_owned()]);
            }
            sweep_by(&backend, &SweepLimits::default()).unwrap();
            assert_ne!(backend.read(&oid(500).into()).unwrap().unwrap().location(), stays);
            // What was found once is remembered.
            for _ in 0..2 {
                assert_there(&backend, 500, stays, true);
                assert_there(&backend, 501, goes, round < 3);
                // Another object was there.
                assert_there(&backend, 500, goes, true);
            }
        }
        // It is counted: 1 MiB, and little else comes and goes.
        assert_eq!(backend.stats().memory_bytes > before + (1 << 19), options.locations);
    }
}

#[test]
fn what_is_dead_in_a_cold_segment_that_stays_is_found_by_nothing() {
    for options in options() {
        let (disk, backend) = store(&options);
        let other = open(&disk, &options);
        let cold = files(&disk, ".cold");
        let old = other.snapshot(&[]);
        let dropped = drop_most(&backend);
        let stay = files(&disk, ".cold");
        assert!(stay.len() > 3 && cold.iter().all(|name| stay.contains(name)), "{stay:?} of {cold:?}");
        assert!(!files(&disk, ".live").is_empty());
        // What reads by the state before, reads on.
        for &(number, at) in &dropped {
            assert!(old.read(&ObjRef::new(oid(number), at)).unwrap().is_some());
            assert!(old.read(&oid(number).into()).unwrap().is_some());
        }
        drop(old);
        let kept: Vec<u64> = (0..REFS).filter(|&number| !is_dropped(number)).collect();
        let kept: Vec<u64> = [100, 200].iter().flat_map(|base| kept.iter().map(move |number| base + number)).collect();
        for backend in [&backend, &other, &open(&disk, &options)] {
            dropped.iter().for_each(|&(number, at)| assert_there(backend, number, at, false));
            assert_kept(backend);
            assert_eq!(walked(backend), kept);
            check(backend);
        }
        // Indexes and filters that are made anew know them again, and lookups do not.
        for name in files(&disk, ".cids") {
            disk.remove(&format!("segments/{name}")).unwrap();
        }
        drop((backend, other));
        let backend = open(&disk, &options);
        dropped.iter().for_each(|&(number, at)| assert_there(&backend, number, at, false));
        assert_eq!(walked(&backend), kept);
        check(&backend);
    }
}

#[test]
fn what_is_dead_is_written_whole_again_and_found_where_it_is_live() {
    for options in options() {
        let (disk, backend) = store(&options);
        let dropped = drop_most(&backend);
        let (parent, at) = dropped[0];
        let (child, below) = dropped[1];
        append(&backend, child, &[], None).unwrap();
        append(&backend, parent, &[child], Some("again")).unwrap();
        let swept = |limits: &SweepLimits| sweep_by(&backend, limits).unwrap().objects;
        for limits in [SweepLimits::default().slack(100), SweepLimits::default().partial(true), SweepLimits::default()]
        {
            for backend in [&backend, &open(&disk, &options)] {
                assert_there(backend, parent, at, true);
                assert_there(backend, child, below, true);
                assert_eq!(reached(backend, "again"), [parent, child]);
                assert_kept(backend);
                dropped[2..].iter().for_each(|&(number, at)| assert_there(backend, number, at, false));
                check(backend);
            }
            append_garbage(&backend, 900);
            assert!(swept(&limits) > 0);
        }
        assert_eq!((files(&disk, ".live"), swept(&SweepLimits::default())), (Vec::new(), 0));
        assert_eq!(reached(&backend, "again"), [parent, child]);
        // Once more, and it is dead again, in two places by then.
        drop_refs(&backend, &["again".to_owned()]);
        hide(&backend);
        assert_there(&backend, parent, at, false);
        assert_kept(&backend);
    }
}

#[test]
fn who_reuses_what_died_is_refused_and_builds_it_anew() {
    for (options, two) in options().into_iter().flat_map(|options| [(options.clone(), false), (options, true)]) {
        let (disk, backend) = store(&options);
        let other = two.then(|| open(&disk, &options));
        let writer = other.as_ref().unwrap_or(&backend);
        // By the state before, all that these leave out is there.
        let parents: Vec<u64> = (0..REFS).filter(|&number| is_dropped(number)).map(|number| 100 + number).collect();
        let before = batch(writer, 400, &parents);
        let lone = batch(writer, 401, &[parents[0]]);
        let fine = batch(writer, 402, &[101, 201]);
        // A snapshot of the process that collects would keep what refs left.
        let old = two.then(|| writer.snapshot(&[]));
        drop_most(&backend);
        // The children of some are in no file any more, though they themselves are.
        for (batch, number) in [(before, 400), (lone, 401)] {
            match writer.append(batch, &[move_to("side", Some(number))], Durability::None) {
                Err(Error::Gone { oids }) => assert!(oids.contains(&oid(parents[0])), "{oids:?}"),
                other => panic!("{other:?}"),
            }
        }
        let moved = writer.append(Batch::since(0), &[move_to("side", Some(parents[1]))], Durability::None);
        assert!(matches!(moved, Err(Error::Gone { .. })), "{moved:?}");
        writer.append(fine, &[move_to("side", Some(402))], Durability::None).unwrap();
        assert_eq!(reached(&backend, "side"), [101, 201, 201, 402]);
        for &parent in &parents {
            append(writer, parent + 100, &[], None).unwrap();
            append(writer, parent, &[parent + 100], Some("anew")).unwrap();
            assert_eq!(reached(&backend, "anew"), [parent, parent + 100]);
        }
        drop(old);
        hide(&backend);
        let last = *parents.last().unwrap();
        assert_eq!(reached(writer, "anew"), [last, last + 100]);
        check(&backend);
    }
}

/// Between any two steps of hiding, a writer reuses something: it stays with all below it, or is refused.
#[test]
fn what_is_reused_while_it_is_marked_stays_with_all_below_it() {
    for (options, two) in options().into_iter().flat_map(|options| [(options.clone(), false), (options, true)]) {
        let (disk, backend) = store(&options);
        let other = two.then(|| open(&disk, &options));
        let writer = other.as_ref().unwrap_or(&backend);
        drop_refs(&backend, &(0..REFS).filter(|&number| is_dropped(number)).map(name).collect::<Vec<_>>());
        let called = Cell::new(0);
        let children = |_: &Oid, object: &Object<'_>, each: &mut dyn FnMut(Oid)| {
            let turn = called.replace(called.get() + 1);
            if turn < 3 {
                append(writer, 500 + turn, &[100 + 3 * turn], (turn > 0).then_some(&*format!("side{turn}"))).unwrap();
            }
            if turn == 3 {
                writer.append(Batch::new(), &[move_to("ref", Some(112))], Durability::None).unwrap();
            }
            children_of(object).into_iter().for_each(|child| each(oid(child)));
            Ok(())
        };
        backend.sweep(&Roots::new(&[], &children), &SweepLimits::default().slack(100)).unwrap();
        append(writer, 510, &[500], Some("side0")).unwrap();
        for backend in [&backend, writer, &open(&disk, &options)] {
            assert_eq!(reached(backend, "side0"), [100, 200, 500, 510]);
            assert_eq!(reached(backend, "side1"), [103, 203, 501]);
            assert_eq!(reached(backend, "side2"), [106, 206, 502]);
            assert_eq!(reached(backend, "ref"), [112, 212]);
            assert!(backend.read(&oid(109).into()).unwrap().is_none());
            assert_kept(backend);
            check(backend);
        }
    }
}

#[test]
fn segments_with_much_garbage_are_rewritten_one_at_a_time_and_others_stay() {
    for options in options() {
        let (disk, backend) = store(&options);
        let dropped = drop_most(&backend);
        let before = files(&disk, ".cold");
        assert_eq!(sweep_by(&backend, &SweepLimits::default().slack(100)).unwrap(), Swept::default());
        assert_eq!(files(&disk, ".cold"), before);
        let states = backend.sweeps();
        assert_eq!(sweep_by(&backend, &SweepLimits::default().slack(40)).unwrap(), Swept::default());
        let after = files(&disk, ".cold");
        assert!(after != before && backend.sweeps() > states + 1, "{after:?} of {before:?}");
        assert_kept(&backend);
        check(&backend);
        assert_eq!(sweep_by(&backend, &SweepLimits::default()).unwrap(), Swept::default());
        assert_eq!(files(&disk, ".live"), [""; 0]);
        for backend in [&backend, &open(&disk, &options)] {
            assert_kept(backend);
            dropped.iter().for_each(|&(number, at)| assert_there(backend, number, at, false));
            check(backend);
        }
        // Nothing is left to do.
        let states = backend.sweeps();
        sweep_by(&backend, &SweepLimits::default()).unwrap();
        assert_eq!(backend.sweeps(), states);
        assert_eq!(backend.collected().unwrap().emptied_bytes, 0);
    }
}

#[test]
fn a_snapshot_reads_on_while_segments_are_rewritten() {
    for options in options() {
        let (disk, backend) = store(&options);
        let other = open(&disk, &options);
        let before = other.snapshot(&[]);
        let dropped = drop_most(&backend);
        let later = other.snapshot(&[]);
        sweep_by(&backend, &SweepLimits::default()).unwrap();
        for &(number, at) in &dropped {
            assert!(before.read(&ObjRef::new(oid(number), at)).unwrap().is_some());
            assert!(before.read(&oid(number).into()).unwrap().is_some());
        }
        for number in (0..REFS).filter(|&number| !is_dropped(number)) {
            [&before, &later].iter().for_each(|snapshot| {
                assert!(snapshot.read(&oid(200 + number).into()).unwrap().is_some());
            });
        }
        drop((before, later));
        drop(other);
        drop(backend);
        let backend = open(&disk, &options);
        append_garbage(&backend, 900);
        sweep_by(&backend, &SweepLimits::default()).unwrap();
        // A thread beside appends may have read by an older state, and then removes what is left itself.
        let left = || (backend.collected().unwrap().emptied_bytes, files(&disk, ".live").len());
        assert!(is_soon(|| left() == (0, 0)), "{:?}", left());
        assert_kept(&backend);
    }
}

/// Every call of a collection that hides and then rewrites fails once; what is left is sound, and the next one ends the work.
#[test]
fn a_collection_that_fails_anywhere_leaves_a_sound_store_and_the_next_one_goes_on() {
    let (mut hidden, mut rewritten) = (0, 0);
    for fault in [Fault::Io, Fault::NoSpace] {
        for call in 1.. {
            let options = tiny().cold_bytes(COLD_BYTES);
            let (disk, backend) = store(&options);
            let dropped: Vec<u64> = (0..REFS).filter(|&number| is_dropped(number)).collect();
            drop_refs(&backend, &dropped.iter().map(|&number| name(number)).collect::<Vec<_>>());
            let (begun, states) = (disk.calls(), backend.sweeps());
            disk.fail_at(begun + call, fault, Times::Once);
            let swept = sweep_by(&backend, &SweepLimits::default());
            let is_over = disk.calls() < begun + call;
            disk.heal();
            let done = backend.sweeps() - states;
            hidden += u64::from(swept.is_err() && done == 1);
            rewritten += u64::from(swept.is_err() && done > 1);
            drop(backend);
            let backend = open(&disk, &options);
            assert_kept(&backend);
            check(&backend);
            sweep_by(&backend, &SweepLimits::default()).unwrap();
            assert_kept(&backend);
            check(&backend);
            for &number in &dropped {
                assert!(backend.read(&oid(100 + number).into()).unwrap().is_none());
            }
            append_garbage(&backend, 900);
            sweep_by(&backend, &SweepLimits::default()).unwrap();
            assert_eq!(files(&disk, ".live"), [""; 0], "{fault:?} at call {call}");
            if is_over {
                swept.unwrap();
                break;
            }
        }
    }
    assert!(hidden > 0 && rewritten > 5, "{hidden} hidden, {rewritten} rewritten");
}

/// A collection is stopped at every place where it asks: between two steps, too, and the next one goes on from there.
#[test]
fn a_collection_that_is_stopped_between_steps_leaves_a_sound_store() {
    let options = tiny().cold_bytes(COLD_BYTES);
    let (mut before, mut between) = (0, 0);
    for last in 0.. {
        let (disk, backend) = store(&options);
        let dropped: Vec<u64> = (0..REFS).filter(|&number| is_dropped(number)).collect();
        drop_refs(&backend, &dropped.iter().map(|&number| name(number)).collect::<Vec<_>>());
        let (states, asked) = (backend.sweeps(), Cell::new(0));
        let watch = |_: &SweepStatus| {
            asked.set(asked.get() + 1);
            if asked.get() > last { Err(Error::Stopped) } else { Ok(()) }
        };
        let children = |_: &Oid, object: &Object<'_>, each: &mut dyn FnMut(Oid)| {
            children_of(object).into_iter().for_each(|child| each(oid(child)));
            Ok(())
        };
        let swept = backend.sweep(&Roots::new(&[], &children).watch(&watch), &SweepLimits::default());
        match (&swept, backend.sweeps() - states) {
            (Err(Error::Stopped), 0) => before += 1,
            // What was dropped by then is told.
            (Ok(swept), states) if swept.more => {
                assert!(states > 0 && swept.objects > 0, "{swept:?}");
                between += 1;
            }
            (swept, _) => assert!(swept.is_ok(), "{swept:?}"),
        }
        assert_eq!(disk.list("segments").unwrap().iter().filter(|name| name.starts_with("next-")).count(), 0);
        assert_kept(&backend);
        check(&backend);
        sweep_by(&backend, &SweepLimits::default()).unwrap();
        assert_kept(&backend);
        check(&backend);
        assert_eq!(backend.collected().unwrap().emptied_bytes, 0);
        if swept.is_ok_and(|swept| !swept.more) {
            break;
        }
    }
    assert!(before > 0 && between > 1, "{before} before the first state, {between} between others");
}

#[test]
fn marks_that_are_damaged_or_missing_are_named_and_never_believed() {
    for options in options() {
        let (disk, backend) = store(&options);
        let dropped = drop_most(&backend);
        drop(backend);
        let marks = files(&disk, ".live");
        for name in &marks {
            let path = format!("segments/{name}");
            let length = disk.files().into_iter().find(|(file, _)| *file == path).unwrap().1;
            let damages = (0..length * 8).step_by(7).map(Some).chain([None]);
            for damage in damages {
                let copy = disk.fork();
                match damage {
                    Some(bit) => copy.flip(&path, bit / 8, 1 << (bit % 8)),
                    None => copy.remove(&path).unwrap(),
                }
                let backend = open(&copy, &options);
                let mut refused = 0;
                let mut read = |number: u64, there: bool| match backend.read(&oid(number).into()) {
                    Ok(found) => assert_eq!(found.is_some(), there, "{number}"),
                    Err(Error::Corrupt { file, .. }) => {
                        assert!(file.contains(name), "{file}");
                        refused += 1;
                    }
                    Err(error) => panic!("{error}"),
                };
                dropped.iter().for_each(|&(number, _)| read(number, false));
                (0..REFS).filter(|&number| !is_dropped(number)).for_each(|number| read(100 + number, true));
                assert!(refused > 0, "{damage:?} of {name}");
                let mut damages = Vec::new();
                backend.check(&mut |damage| damages.push(damage.file)).unwrap();
                assert!(damages.iter().any(|file| file.contains(name)), "{damages:?}");
                assert!(sweep_by(&backend, &SweepLimits::default()).is_err());
                let mut walked = Vec::new();
                backend.each_object(&mut |_, _| Ok(()), &mut |damage| walked.push(damage.file)).unwrap();
                assert!(walked.iter().any(|file| file.contains(name)), "{walked:?}");
            }
        }
    }
}

/// Marks change under an open store: what they hid is never given, since it may name what is gone, and what is live is never absent.
#[test]
fn marks_that_are_damaged_later_make_nothing_absent_and_give_nothing_back() {
    for options in options() {
        let (disk, backend) = store(&options);
        let dropped = drop_most(&backend);
        let kept = || (0..REFS).filter(|&number| !is_dropped(number));
        for name in files(&disk, ".live") {
            let path = format!("segments/{name}");
            let length = disk.files().into_iter().find(|(file, _)| *file == path).unwrap().1;
            for at in 48..length {
                let copy = disk.fork();
                let backend = open(&copy, &options);
                assert!(backend.read(&oid(7777).into()).unwrap().is_none());
                kept().for_each(|number| assert!(backend.read(&oid(100 + number).into()).unwrap().is_some()));
                copy.flip(&path, at, 0xff);
                for number in kept().flat_map(|number| [100 + number, 200 + number]) {
                    let found = backend.read(&oid(number).into());
                    assert!(matches!(found, Ok(Some(_)) | Err(Error::Corrupt { .. })), "{number}: {found:?}");
                }
                for &(number, at) in &dropped {
                    for at in [oid(number).into(), ObjRef::new(oid(number), at)] {
                        let found = backend.read(&at);
                        assert!(matches!(found, Ok(None) | Err(Error::Corrupt { .. })), "{number}: {found:?}");
                    }
                }
            }
        }
    }
}

/// They change while all objects are gone through, and in the middle of a collection, between any two of its steps.
#[test]
fn marks_that_are_damaged_later_are_named_by_who_walks_checks_and_collects() {
    for options in options() {
        let (disk, backend) = store(&options);
        drop_most(&backend);
        drop(backend);
        let damage_all = |disk: &SimStorage| {
            files(disk, ".live").iter().for_each(|name| disk.flip(&format!("segments/{name}"), 50, 0xff));
        };
        let copy = disk.fork();
        let backend = open(&copy, &options);
        walked(&backend);
        damage_all(&copy);
        let (mut walked, mut checked) = (Vec::new(), Vec::new());
        backend.each_object(&mut |_, _| Ok(()), &mut |damage| walked.push(damage.file)).unwrap();
        backend.check(&mut |damage| checked.push(damage.file)).unwrap();
        for name in files(&copy, ".live") {
            let count = |files: &[String]| files.iter().filter(|file| file.contains(&name)).count();
            assert_eq!((count(&walked), count(&checked)), (1, 1), "{name}: {walked:?}, {checked:?}");
        }
        let mut named = 0;
        for last in 0.. {
            let copy = disk.fork();
            let (backend, asked) = (open(&copy, &options), Cell::new(0));
            let watch = |_: &SweepStatus| {
                if asked.replace(asked.get() + 1) == last {
                    damage_all(&copy);
                }
                Ok(())
            };
            let children = |_: &Oid, object: &Object<'_>, each: &mut dyn FnMut(Oid)| {
                children_of(object).into_iter().for_each(|child| each(oid(child)));
                Ok(())
            };
            match backend.sweep(&Roots::new(&[], &children).watch(&watch), &SweepLimits::default()) {
                Ok(_) if asked.get() <= last => break,
                Ok(_) => {}
                Err(Error::Corrupt { file, .. }) if file.contains(".live") => named += 1,
                Err(error) => panic!("damaged at {last}: {error}"),
            }
        }
        assert!(named > 1, "{named}");
    }
}

/// What was appended again is found, also by who knows it at its place in a segment whose marks are damaged.
#[test]
fn an_object_elsewhere_is_found_though_its_place_has_damaged_marks() {
    for options in options() {
        let (disk, backend) = store(&options);
        drop_most(&backend);
        let kept: Vec<u64> = (0..REFS).filter(|&number| !is_dropped(number)).map(|number| 200 + number).collect();
        let at = |&number: &u64| backend.read(&oid(number).into()).unwrap().unwrap().location();
        let places: Vec<Location> = kept.iter().map(at).collect();
        drop(backend);
        files(&disk, ".live").iter().for_each(|name| disk.flip(&format!("segments/{name}"), 50, 1));
        let backend = open(&disk, &options);
        let mut refused = 0;
        for (&number, &at) in kept.iter().zip(&places) {
            refused += usize::from(backend.read(&ObjRef::new(oid(number), at)).is_err());
            count_with_digits(&backend, oid(number), 20);
            append(&backend, number, &[], None).unwrap();
            assert!(count_with_digits(&backend, oid(number), 20) > 0, "{number} by its first digits");
            for at in [oid(number).into(), ObjRef::new(oid(number), at)] {
                let found = backend.read(&at).unwrap_or_else(|error| panic!("{number} at {at:?}: {error}"));
                assert!(found.is_some(), "{number} at {at:?}");
            }
        }
        assert!(refused > 0);
    }
}

#[test]
fn a_damaged_record_is_not_copied_and_its_segment_stays() {
    let options = tiny().cold_bytes(COLD_BYTES);
    let (disk, backend) = store(&options);
    drop_most(&backend);
    let at = backend.read(&oid(101).into()).unwrap().unwrap().location();
    drop(backend);
    let file = format!("segments/{:08}.cold", (at.0 >> 32) - (1 << 30));
    disk.flip(&file, (at.0 & 0xffff_ffff) + 60, 4);
    let backend = open(&disk, &options);
    assert!(matches!(sweep_by(&backend, &SweepLimits::default()), Err(Error::Corrupt { .. })));
    assert!(files(&disk, ".cold").contains(&file.trim_start_matches("segments/").to_owned()));
    assert!(backend.read(&oid(101).into()).is_err());
}

/// A batch by hand: an object that names others at places where they were.
#[test]
fn children_at_places_that_were_rewritten_are_found() {
    for options in options() {
        let (disk, backend) = store(&options);
        // What names kept objects, at their places of now.
        let kept: Vec<u64> = (0..REFS).filter(|&number| !is_dropped(number)).map(|number| 200 + number).collect();
        let places: Vec<Location> =
            kept.iter().map(|&number| backend.read(&oid(number).into()).unwrap().unwrap().location()).collect();
        let mut batch = Batch::since(backend.sweeps());
        batch.put(Kind::Node, oid(600), &body(&kept), &places, &[]);
        kept.iter().for_each(|&child| batch.leave_out(oid(child)));
        backend.append(batch, &[move_to("names", Some(600))], Durability::None).unwrap();
        append_garbage(&backend, 900);
        sweep_by(&backend, &SweepLimits::default().partial(true)).unwrap();
        drop_most(&backend);
        sweep_by(&backend, &SweepLimits::default()).unwrap();
        for backend in [&backend, &open(&disk, &options)] {
            let object = backend.read(&oid(600).into()).unwrap().unwrap();
            for (index, &number) in kept.iter().enumerate() {
                let at = ObjRef::new(oid(number), object.child(index));
                assert!(backend.read(&at).unwrap().is_some(), "{number}");
            }
            assert_kept(backend);
        }
    }
}
