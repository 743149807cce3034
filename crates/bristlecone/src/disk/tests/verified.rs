//! What remembers which records were found right: it takes memory where it is touched, keeps to its budget, and what it
//! forgot is verified again.

use super::*;
use crate::backend::{Roots, SweepLimits};

const MB: usize = 1 << 20;
const OBJECTS: u64 = 48;

/// Segments of 8 MiB, and memory for bits of a third of the objects, each of which has a page of them to itself.
fn options() -> DiskOptions {
    let budget = rustix::param::page_size() as u64 * OBJECTS / 3;
    DiskOptions::default().segment_bytes(8 << 20).cache_bytes(budget).prezero(false).background(false)
}

/// Makes a store of objects of 1 MiB, several segments of them, and returns where they are.
fn fill(dir: &Path) -> Vec<ObjRef> {
    let backend = create(dir, options());
    let append = |number| backend.append(batch(number..number + 1, MB), &[], Durability::None).unwrap();
    (0..OBJECTS).map(|number| ObjRef::new(oid(number), append(number))).collect()
}

fn read(backend: &DiskBackend, at: &ObjRef) {
    // As fast lookups do, and as all others do.
    let peeked = backend.shared.view(&backend.shared.table()).peek(at.oid.as_bytes(), at.at).map(<[u8]>::len);
    assert!(peeked.is_none_or(|bytes| bytes > MB), "{peeked:?}");
    assert_eq!(backend.read(at).unwrap().unwrap().body().len(), MB);
}

#[test]
fn memory_for_bits_is_taken_where_records_are_read_and_kept_to_the_budget() {
    let (dir, page) = (tempfile::tempdir().unwrap(), rustix::param::page_size() as u64);
    let places = fill(dir.path());
    let backend = open(dir.path(), options());
    let bits = || backend.shared.bits.bytes();
    assert!(places[OBJECTS as usize - 1].at.0 >> 32 > 6, "there are many segments");
    assert_eq!(bits(), 0);
    let before = backend.stats().memory_bytes;
    let few = [3, 20, 40].map(|index| places[index]);
    few.iter().for_each(|at| read(&backend, at));
    few.iter().for_each(|at| read(&backend, at));
    assert_eq!((bits(), backend.stats().memory_bytes - before), (3 * page, 3 * page));
    assert!(few.iter().all(|at| backend.shared.view(&backend.shared.table()).peek(at.oid.as_bytes(), at.at).is_some()));
    for round in 0..3 {
        for at in &places {
            read(&backend, at);
            assert!(bits() <= options().cache_bytes, "round {round}: {} bytes", bits());
        }
    }
    assert!(bits() >= options().cache_bytes / 4, "the budget is made use of: {} bytes", bits());
    let last = &places[OBJECTS as usize - 1];
    assert!(
        backend.shared.view(&backend.shared.table()).peek(last.oid.as_bytes(), last.at).is_some(),
        "what was read last is remembered"
    );
}

#[test]
fn what_only_a_snapshot_reads_is_within_the_budget_too() {
    let dir = tempfile::tempdir().unwrap();
    let places = fill(dir.path());
    let backend = open(dir.path(), options());
    let snapshot = backend.snapshot(&[]);
    backend.sweep(&Roots::new(&[], &|_, _, _| Ok(())), &SweepLimits::default()).unwrap();
    let append = |number| backend.append(batch(number..number + 1, MB), &[], Durability::None).unwrap();
    let later: Vec<ObjRef> = (100..105).map(|number| ObjRef::new(oid(number), append(number))).collect();
    assert!(backend.read(&places[0]).unwrap().is_none(), "it is dropped");
    places.iter().for_each(|at| assert!(snapshot.read(at).unwrap().is_some()));
    assert!(backend.shared.bits.bytes() > options().cache_bytes / 2);
    assert!(backend.stats().mapped_bytes > OBJECTS * MB as u64, "what the snapshot has mapped counts");
    later.iter().for_each(|at| read(&backend, at));
    for at in &later {
        let segment = backend.shared.current_segment((at.at.0 >> 32) as u32).unwrap().unwrap();
        assert!(segment.verified.has(at.at.0 as u32 as usize), "{at:?} is remembered");
    }
    drop(snapshot);
    assert!(backend.stats().mapped_bytes < OBJECTS * MB as u64 / 2, "until it is gone");
}

#[test]
fn what_was_forgotten_is_verified_again() {
    let dir = tempfile::tempdir().unwrap();
    let places = fill(dir.path());
    let backend = open(dir.path(), options());
    let (at, other) = (places[2], places[3]);
    let (number, offset) = ((at.at.0 >> 32) as u32, at.at.0 & 0xffff_ffff);
    assert_eq!(other.at.0 >> 32, u64::from(number), "both are in one segment");
    [at, other].iter().for_each(|at| read(&backend, at));
    flip(&segment_file(dir.path(), number), offset + 5000);
    read(&backend, &at);
    backend.shared.current_segment(number).unwrap().unwrap().forget_pages();
    assert_eq!(backend.shared.bits.bytes(), 0);
    assert!(backend.shared.view(&backend.shared.table()).peek(at.oid.as_bytes(), at.at).is_none());
    assert!(matches!(backend.read(&at), Err(Error::Corrupt { .. })));
    read(&backend, &other);
}

#[test]
fn threads_that_read_while_others_forget_read_what_is_there() {
    let (dir, page) = (tempfile::tempdir().unwrap(), rustix::param::page_size() as u64);
    let places = fill(dir.path());
    let backend = open(dir.path(), options());
    let threads = 4;
    thread::scope(|scope| {
        for thread in 0..threads {
            let (places, backend) = (&places, &backend);
            scope.spawn(move || {
                for round in 0..300 {
                    let at = &places[(round * 7 + thread * 13) % places.len()];
                    read(backend, at);
                    let bytes = backend.shared.bits.bytes();
                    let most = options().cache_bytes / 8 * 9 + threads as u64 * page;
                    assert!(bytes <= most, "{bytes} bytes");
                    if round % 50 == 49 {
                        backend.shared.current_segment((at.at.0 >> 32) as u32).unwrap().unwrap().forget_pages();
                    }
                }
            });
        }
    });
}
