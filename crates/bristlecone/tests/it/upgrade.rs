//! From version 1 of the disk engine's files to version 2: with a handle open beside, cut off at every call, and what version 1
//! refuses.

use std::sync::Arc;

use bristlecone::{
    Backend, Batch, Durability, Error, Expected, Kind, Location, ObjRef, Object, Oid, RefMove, RefTarget, Roots, Sink,
    SweepLimits,
    disk::{DiskBackend, DiskOptions},
};
use bristlecone_testkit::sim::{Policy, SimStorage};

use crate::engine::{format_tag, tiny, tiny_with_maps};

fn oid(number: u64) -> Oid {
    let mut id = [7; 32];
    id[..8].copy_from_slice(&number.to_le_bytes());
    Oid::from_array(id)
}

/// Appends a value, and moves a ref of its own to it.
fn set(backend: &DiskBackend, number: u64) {
    let mut batch = Batch::new();
    let at = batch.put(Kind::Contents, oid(number), &[number as u8; 500], &[], &[]);
    let to = Some(RefTarget::Object(ObjRef::new(oid(number), at)));
    let wanted = RefMove { name: format!("r{number}"), expected: Expected::Any, to };
    backend.append(batch, &[wanted], Durability::Synced).unwrap();
}

fn remove(backend: &DiskBackend, number: u64) {
    let wanted = RefMove { name: format!("r{number}"), expected: Expected::Any, to: None };
    backend.append(Batch::new(), &[wanted], Durability::Synced).unwrap();
}

fn sweep(backend: &DiskBackend) -> Result<u64, Error> {
    let children = |_: &Oid, _: &Object<'_>, _: &mut dyn FnMut(Oid)| Ok(());
    Ok(backend.sweep(&Roots::new(&[], &children), &SweepLimits::default())?.objects)
}

/// A store of version 1 with twenty values in several segments.
fn store_of_version_1() -> SimStorage {
    let disk = SimStorage::new();
    let backend = DiskBackend::create(Arc::new(disk.clone()), format_tag(), tiny().version(1)).unwrap();
    (0..20).for_each(|number| set(&backend, number));
    drop(backend);
    disk
}

fn open(disk: &SimStorage, options: DiskOptions) -> DiskBackend {
    DiskBackend::open(Arc::new(disk.clone()), None, options, false).unwrap()
}

fn expect(backend: &DiskBackend, numbers: impl Iterator<Item = u64>) {
    for number in numbers {
        let object = backend.read(&ObjRef::new(oid(number), Location::NONE)).unwrap().expect("the value");
        assert_eq!(object.body(), [number as u8; 500]);
        assert!(backend.get_ref(&format!("r{number}")).unwrap().is_some(), "r{number}");
    }
    backend.check(&mut |damage| panic!("{damage:?}")).unwrap();
}

#[test]
fn version_1_removes_nothing_until_it_is_upgraded() {
    for options in [tiny(), tiny_with_maps()] {
        let disk = store_of_version_1();
        let backend = open(&disk, options.clone());
        assert!(backend.version() == 1 && !backend.capabilities().sweep);
        remove(&backend, 3);
        assert!(matches!(sweep(&backend), Err(Error::Usage { .. })));
        assert!(disk.contents("segments/00000001.seg").unwrap().starts_with(b"BCONESEG"));
        // One that has the store open goes on.
        let beside = open(&disk, options.clone());
        assert!(backend.upgrade().unwrap() && !backend.upgrade().unwrap());
        set(&beside, 20);
        assert_eq!((backend.version(), beside.version()), (2, 2));
        let later = open(&disk, options.clone());
        assert_eq!(later.header().engine_version, 2);
        assert_eq!(sweep(&later).unwrap(), 1);
        for backend in [&backend, &beside, &later] {
            expect(backend, (0..3).chain(4..21));
        }
        set(&backend, 21);
        drop((backend, beside, later));
        assert!(disk.contents("segments/00000001.seg").is_none(), "what was emptied is removed");
        expect(&open(&disk, options), (0..3).chain(4..22));
    }
}

#[test]
fn an_upgrade_that_is_cut_short_is_completed_by_the_next_writer() {
    let whole = store_of_version_1();
    let (mut upgraded, mut done) = (0, false);
    for calls in 0.. {
        let disk = whole.fork();
        let process = disk.process();
        let backend = DiskBackend::open(Arc::new(process.clone()), None, tiny(), false).unwrap();
        process.stop_after(disk.calls() + calls);
        done |= backend.upgrade().is_ok();
        drop(backend);
        // The process is gone; the power, too.
        for (seed, disk) in [(None, disk.clone()), (Some(1), disk.reboot(1, Policy::Writes))] {
            let backend = open(&disk, tiny());
            let header = DiskBackend::header_in(&(Arc::new(disk.clone()) as Arc<dyn bristlecone::storage::Storage>));
            assert_eq!(header.unwrap().engine_version, backend.version(), "after call {calls}, {seed:?}");
            upgraded += backend.version() - 1;
            set(&backend, 20);
            expect(&backend, 0..21);
        }
        if done {
            break;
        }
    }
    assert!(upgraded > 2, "some are cut between the segment and the header");
}

/// What a log of version 2 may leave counts where the header still says version 1.
#[test]
fn the_log_goes_on_ahead_while_the_header_is_behind() {
    let whole = store_of_version_1();
    let mut behind = 0;
    for calls in 0.. {
        let disk = whole.fork();
        let (process, beside) = (disk.process(), disk.process());
        let upgrader = DiskBackend::open(Arc::new(process.clone()), None, tiny(), false).unwrap();
        let beside = DiskBackend::open(Arc::new(beside), None, tiny(), false).unwrap();
        process.stop_after(process.process_calls() + calls);
        let done = upgrader.upgrade().is_ok();
        for number in 20..40 {
            let mut batch = Batch::new();
            batch.put(Kind::Contents, oid(number), &[number as u8; 900], &[], &[]);
            beside.append(batch, &[], Durability::None).unwrap();
        }
        for (seed, policy) in (0..30).flat_map(|seed| [Policy::Sectors, Policy::Writes].map(|policy| (seed, policy))) {
            let disk = disk.reboot(seed, policy);
            let header = DiskBackend::header_in(&(Arc::new(disk.clone()) as Arc<dyn bristlecone::storage::Storage>));
            let version = header.unwrap().engine_version;
            let backend = DiskBackend::open(Arc::new(disk.clone()), None, tiny(), false)
                .unwrap_or_else(|error| panic!("after call {calls}, seed {seed}: {error}"));
            behind += backend.version() - version;
            expect(&backend, 0..20);
        }
        if done {
            break;
        }
    }
    assert!(behind > 50, "{behind}");
}
