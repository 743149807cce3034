//! Files that collections emptied are removed once nothing reads them, also where nothing takes their place.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use bristlecone::{
    Backend, Batch, Damage, Durability, Error, Object, Oid, Roots, SweepLimits, Swept, disk::DiskBackend,
    storage::Storage,
};
use bristlecone_testkit::sim::{Fault, Hooked, Policy, SimStorage, Times};

use crate::{
    collect::{append, children_of, move_to, oid, reached, store},
    engine::{check, format_tag, is_soon, tiny, tiny_as_shipped, tiny_with_maps},
};

fn sweep(backend: &DiskBackend, partial: bool) -> Swept {
    let children = |_: &Oid, object: &Object<'_>, each: &mut dyn FnMut(Oid)| {
        children_of(object).into_iter().for_each(|child| each(oid(child)));
        Ok(())
    };
    backend.sweep(&Roots::new(&[], &children), &SweepLimits::default().slack(100).partial(partial)).unwrap()
}

fn drop_ref(backend: &DiskBackend, name: &str) {
    backend.append(Batch::new(), &[move_to(name, None)], Durability::None).unwrap();
}

/// Leads a ref to an object, and collects so that it lies in a cold segment of its own.
fn settle(backend: &DiskBackend, name: &str, number: u64, partial: bool) {
    append(backend, number, &[], Some(name)).unwrap();
    append(backend, number + 1000, &[], Some("garbage")).unwrap();
    drop_ref(backend, "garbage");
    assert!(sweep(backend, partial).objects > 0);
}

/// Returns the cold segments in which there is something.
fn cold(disk: &SimStorage) -> Vec<String> {
    // A thread beside appends may just be removing it.
    let bytes = |name: &String| disk.stat(&format!("segments/{name}")).map_or(0, |file| file.bytes);
    let mut names = disk.list("segments").unwrap();
    names.retain(|name| name.ends_with(".cold") && bytes(name) > 0);
    names.sort_unstable();
    names
}

#[test]
fn the_highest_cold_segment_is_removed_when_all_of_it_is_dead_and_its_number_is_not_used_again() {
    for options in [tiny(), tiny_with_maps(), tiny_as_shipped()] {
        let disk = SimStorage::new();
        let backend = DiskBackend::create(Arc::new(disk.clone()), format_tag(), options.clone()).unwrap();
        settle(&backend, "a", 1, false);
        settle(&backend, "b", 2, true);
        assert_eq!(cold(&disk), ["00000001.cold", "00000002.cold"]);
        // A snapshot of before reads it, in this process or in another one.
        let other = DiskBackend::open(Arc::new(disk.clone()), None, options.clone(), false).unwrap();
        let snapshot = other.snapshot(&[]);
        drop_ref(&backend, "b");
        assert!(sweep(&backend, false).objects > 0);
        assert_eq!(cold(&disk), ["00000001.cold", "00000002.cold"]);
        assert!(snapshot.read(&oid(2).into()).unwrap().is_some());
        assert!(backend.collected().unwrap().emptied_bytes > 0);
        drop((snapshot, other));
        sweep(&backend, false);
        // A thread beside appends may have read by an older state, and then removes what is left itself.
        let is_gone = |name: &str| !disk.list("segments").unwrap().iter().any(|file| file == name);
        assert!(is_soon(|| cold(&disk) == ["00000001.cold"] && is_gone("00000002.cids")), "{:?}", cold(&disk));
        assert!(is_soon(|| backend.collected().unwrap().emptied_bytes == 0));
        // The number stays taken until there is a higher one.
        for number in [3, 4] {
            settle(&backend, &format!("c{number}"), number, true);
        }
        assert_eq!(cold(&disk), ["00000001.cold", "00000003.cold", "00000004.cold"]);
        assert!(is_soon(|| is_gone("00000002.cold")));
        let again = DiskBackend::open(Arc::new(disk.clone()), None, options, false).unwrap();
        for backend in [&backend, &again] {
            assert_eq!(["a", "c3", "c4"].map(|name| reached(backend, name)), [vec![1], vec![3], vec![4]]);
            assert_eq!(check(backend), []);
        }
    }
}

/// Removing files of which the system is just writing parts takes tens of milliseconds: no caller that lets go of a snapshot waits for
/// it, unless there are no threads, or the backend is gone.
#[test]
fn a_thread_beside_removes_what_the_last_snapshot_of_before_kept() {
    for (background, is_last) in [(true, false), (true, true), (false, false), (false, true)] {
        let disk = SimStorage::new();
        let removers = Arc::new(Mutex::new(Vec::new()));
        let told = removers.clone();
        let storage = Hooked::new(Arc::new(disk.clone()), move |coming| {
            if coming.method == "remove" && coming.name.ends_with(".seg") {
                told.lock().unwrap().push(thread::current().id());
            }
        });
        let options = tiny_with_maps().background(background);
        let backend = DiskBackend::create(Arc::new(storage), format_tag(), options.clone()).unwrap();
        settle(&backend, "a", 1, false);
        append(&backend, 3, &[], Some("garbage")).unwrap();
        drop_ref(&backend, "garbage");
        let snapshot = backend.snapshot(&[]);
        assert!(sweep(&backend, false).objects > 0);
        let segments = || disk.list("segments").unwrap().iter().filter(|name| name.ends_with(".seg")).count();
        assert!(segments() > 1, "a snapshot of before keeps them");
        let backend = (!is_last).then_some(backend);
        removers.lock().unwrap().clear();
        drop(snapshot);
        let beside = background && !is_last;
        let waited = (0..if beside { 2000 } else { 1 }).any(|_| {
            thread::sleep(Duration::from_millis(5));
            segments() == 1
        });
        assert!(waited, "nothing keeps them");
        let told = removers.lock().unwrap().clone();
        let here = told.iter().filter(|&&id| id == thread::current().id()).count();
        assert_eq!((told.is_empty(), here), (false, if beside { 0 } else { told.len() }));
        let open = || DiskBackend::open(Arc::new(disk.clone()), None, options, false).unwrap();
        let backend = backend.unwrap_or_else(open);
        assert_eq!((reached(&backend, "a"), check(&backend)), (vec![1], vec![]));
    }
}

/// The file that takes the place of the highest cold segment cannot be made: all else goes, and so does that once there is room.
#[test]
fn a_full_disk_keeps_no_more_than_the_highest_cold_segment() {
    let disk = SimStorage::new();
    let full = Arc::new(AtomicBool::new(false));
    let (hooked, is_full) = (disk.clone(), full.clone());
    let storage = Hooked::new(Arc::new(disk.clone()), move |coming| {
        if coming.method == "open" && coming.name.starts_with("segments/next-") && is_full.load(Relaxed) {
            hooked.fail_at(hooked.calls() + 1, Fault::NoSpace, Times::Once);
        }
    });
    let backend = DiskBackend::create(Arc::new(storage), format_tag(), tiny()).unwrap();
    settle(&backend, "a", 1, false);
    settle(&backend, "b", 2, true);
    let other = DiskBackend::open(Arc::new(disk.clone()), None, tiny(), false).unwrap();
    let snapshot = other.snapshot(&[]);
    append(&backend, 3, &[], Some("garbage")).unwrap();
    ["b", "garbage"].into_iter().for_each(|name| drop_ref(&backend, name));
    assert!(sweep(&backend, false).objects > 0);
    let segments = || disk.list("segments").unwrap().iter().filter(|name| name.ends_with(".seg")).count();
    assert!(segments() > 1, "a snapshot of before keeps them");
    drop((snapshot, other));
    full.store(true, Relaxed);
    sweep(&backend, false);
    assert_eq!((segments(), cold(&disk)), (1, vec!["00000001.cold".to_owned(), "00000002.cold".to_owned()]));
    assert!(backend.collected().unwrap().emptied_bytes > 0);
    full.store(false, Relaxed);
    sweep(&backend, false);
    assert_eq!((cold(&disk), backend.collected().unwrap().emptied_bytes), (vec!["00000001.cold".to_owned()], 0));
    assert_eq!((reached(&backend, "a"), check(&backend)), (vec![1], vec![]));
}

#[test]
fn a_store_of_which_nothing_is_left_gives_back_all_of_its_cold_segments() {
    let disk = SimStorage::new();
    let backend = DiskBackend::create(Arc::new(disk.clone()), format_tag(), tiny()).unwrap();
    settle(&backend, "a", 1, false);
    settle(&backend, "b", 2, true);
    ["a", "b"].into_iter().for_each(|name| drop_ref(&backend, name));
    assert!(sweep(&backend, false).objects > 0);
    assert_eq!((cold(&disk), backend.collected().unwrap().emptied_bytes), (vec![], 0));
    settle(&backend, "c", 3, false);
    assert_eq!((cold(&disk), reached(&backend, "c")), (vec!["00000003.cold".to_owned()], vec![3]));
}

/// A process that only reads learns of a collection while it looks for what is nowhere; then it reads by the state of before no more.
#[test]
fn who_learns_of_a_collection_while_it_looks_for_an_object_keeps_no_files() {
    for options in [tiny(), tiny_with_maps()] {
        let (disk, backend) = store(&options);
        append(&backend, 20, &[], Some("20")).unwrap();
        sweep(&backend, false);
        let (backend, armed) = (Arc::new(backend), Arc::new(AtomicBool::new(false)));
        let (other, is_armed) = (backend.clone(), armed.clone());
        let hooked = Hooked::new(Arc::new(disk.clone()), move |coming| {
            if coming.method == "open" && coming.name.ends_with(".cold") && is_armed.swap(false, Relaxed) {
                drop_ref(&other, "20");
                assert!(sweep(&other, false).objects > 0);
            }
        });
        let reader = DiskBackend::open(Arc::new(hooked), None, options.clone(), true).unwrap();
        armed.store(true, Relaxed);
        assert!(reader.read(&oid(99).into()).unwrap().is_none());
        assert!(!armed.load(Relaxed), "a collection came in between");
        sweep(&backend, false);
        let collected = backend.collected().unwrap();
        assert_eq!((collected.processes, collected.behind, collected.emptied_bytes), (2, vec![], 0));
    }
}

/// The same where the collection did not wait, since snapshots keep nothing here: the process begins again by the state that it met.
#[test]
fn who_begins_again_since_a_collection_passed_it_keeps_no_files() {
    for options in [tiny(), tiny_with_maps()] {
        let (disk, backend) = store(&options);
        let none = backend.retention().unwrap();
        let mut retention = none.clone();
        retention.set_snapshot_limit(Some(0));
        assert!(backend.replace_retention(Some(&none), &retention).unwrap());
        settle(&backend, "20", 20, false);
        let (backend, armed) = (Arc::new(backend), Arc::new(AtomicBool::new(false)));
        let (other, is_armed) = (backend.clone(), armed.clone());
        let hooked = Hooked::new(Arc::new(disk.clone()), move |coming| {
            if coming.method == "open" && coming.name.ends_with(".cold") && is_armed.swap(false, Relaxed) {
                ["20", "main"].into_iter().for_each(|name| drop_ref(&other, name));
                assert!(sweep(&other, false).objects > 0);
            }
        });
        let reader = DiskBackend::open(Arc::new(hooked), None, options.clone(), true).unwrap();
        assert!(backend.collected().unwrap().behind.is_empty());
        armed.store(true, Relaxed);
        assert!(reader.read(&oid(20).into()).unwrap().is_none());
        assert!(!armed.load(Relaxed), "a collection came in between");
        assert_eq!(cold(&disk), [""; 0], "what it was about to read is gone");
        assert!(backend.collected().unwrap().behind.is_empty());
    }
}

/// A process collects and is killed, and the last frame of the log, which names the state, decays. What the collection emptied is gone
/// by then, so the log does not end before that frame as after a crash, and nothing that the frame speaks of is taken for waste.
#[test]
fn a_log_without_the_frame_that_names_the_state_is_refused() {
    for options in [tiny(), tiny_with_maps()] {
        let (disk, backend) = store(&options);
        assert!(sweep(&backend, false).objects > 0);
        let disk = disk.fork();
        let name = disk.files().into_iter().map(|(name, _)| name).rfind(|name| name.ends_with(".seg")).unwrap();
        let bytes = disk.contents(&name).unwrap();
        let at = (0..bytes.len()).step_by(8).rfind(|&at| bytes[at..].starts_with(b"BCF1")).unwrap();
        assert_eq!(bytes[at + 4..at + 8], [4, 0, 0, 0], "the frame names a state");
        let segments = disk.list("segments").unwrap();
        disk.flip(&name, at as u64 + 64, 1);
        let refused = DiskBackend::open(Arc::new(disk.clone()), None, options.clone(), false);
        assert!(matches!(&refused, Err(Error::Lost { file, .. }) if *file == name), "{refused:?}");
        let reader = DiskBackend::open(Arc::new(disk.clone()), None, options.clone(), true).unwrap();
        assert_eq!(reader.lost_end().map(|lost| lost.offset), Some(at as u64));
        drop(reader);
        assert_eq!(disk.list("segments").unwrap(), segments);
        disk.flip(&name, at as u64 + 64, 1);
        let again = DiskBackend::open(Arc::new(disk), None, options, false).unwrap();
        assert_eq!((reached(&again, "main"), check(&again)), (vec![2, 3], vec![]));
    }
}

/// The close of a store notes without a sync how far the log is durable, and then removes what the state before needed: by then the
/// note is durable, too.
#[test]
fn what_says_how_far_the_log_is_durable_outlasts_the_power_before_anything_is_removed() {
    for options in [tiny(), tiny_with_maps()] {
        let (disk, backend) = store(&options);
        assert!(sweep(&backend, false).objects > 0);
        let none = backend.retention().unwrap();
        let mut retention = none.clone();
        retention.set_snapshot_limit(Some(3600));
        assert!(backend.replace_retention(Some(&none), &retention).unwrap());
        drop(backend);
        let states = disk.list("segments").unwrap().into_iter().filter(|name| name.ends_with(".state")).count();
        assert_eq!(states, 1, "the state before is gone");
        let disk = disk.reboot(1, Policy::Lost);
        let name = disk.files().into_iter().map(|(name, _)| name).rfind(|name| name.ends_with(".seg")).unwrap();
        let bytes = disk.contents(&name).unwrap();
        let names_state = |at: &usize| bytes[*at..].starts_with(b"BCF1\x04\0\0\0");
        let at = (0..bytes.len()).step_by(8).rfind(names_state).unwrap();
        disk.flip(&name, at as u64 + 64, 1);
        let refused = DiskBackend::open(Arc::new(disk), None, options, false);
        assert!(matches!(&refused, Err(Error::Lost { file, .. }) if *file == name), "{refused:?}");
    }
}

/// A cold segment that the state has is missing, and one is there that no state has: so it is where the log has lost the frame of a later
/// state, or where somebody put a file back under a wrong name.
#[test]
fn what_may_be_of_a_later_state_stays_while_one_of_this_state_is_missing() {
    for options in [tiny(), tiny_with_maps()] {
        let disk = SimStorage::new();
        let open = || DiskBackend::open(Arc::new(disk.clone()), None, options.clone(), false).unwrap();
        let backend = DiskBackend::create(Arc::new(disk.clone()), format_tag(), options.clone()).unwrap();
        settle(&backend, "a", 1, false);
        settle(&backend, "b", 2, true);
        drop(backend);
        disk.rename("segments/00000001.cold", "segments/00000009.cold").unwrap();
        let backend = open();
        assert!(backend.read(&oid(1).into()).is_err());
        drop(backend);
        assert_eq!(cold(&disk), ["00000002.cold", "00000009.cold"]);
        disk.rename("segments/00000009.cold", "segments/00000001.cold").unwrap();
        let backend = open();
        assert_eq!(["a", "b"].map(|name| reached(&backend, name)), [vec![1], vec![2]]);
        assert_eq!(check(&backend), []);
    }
}

#[test]
fn a_cold_segment_that_was_cut_is_named_where_it_ends() {
    let whole = SimStorage::new();
    let backend = DiskBackend::create(Arc::new(whole.clone()), format_tag(), tiny()).unwrap();
    settle(&backend, "a", 1, false);
    drop(backend);
    let name = "segments/00000001.cold";
    let bytes = whole.stat(name).unwrap().bytes;
    // Between its head and its records, and within one.
    for left in [64, bytes - 8] {
        let disk = whole.fork();
        disk.cut_file(name, left);
        let damages = check(&DiskBackend::open(Arc::new(disk), None, tiny(), true).unwrap());
        let reason = format!("the file has {left} of {bytes} bytes");
        let is_cut = |damage: &Damage| damage.file == name && damage.offset == left && damage.reason.contains(&reason);
        assert!(damages.iter().any(is_cut), "{damages:?}");
    }
}
