//! Maps that are too small, and disks that are full.

use std::path::Path;

use bristlecone::{Backend, Batch, Durability, Error, Kind, Oid, Sink};
use bristlecone_lmdb::backend::{LmdbBackend, LmdbError, LmdbOptions};
use bristlecone_testkit::generate::Rng;

use super::{
    children::{raise_count, read_count, say, start},
    create, open,
};

fn object(number: u64, bytes: usize) -> (Oid, Vec<u8>) {
    let mut rng = Rng::new(number);
    (Oid::new(&rng.bytes(32)).unwrap(), rng.bytes(bytes))
}

fn append(backend: &LmdbBackend, number: u64, bytes: usize) -> Result<(), Error> {
    let (oid, body) = object(number, bytes);
    let mut batch = Batch::new();
    batch.put(Kind::Contents, oid, &body, &[], &[]);
    backend.append(batch, &[], Durability::None).map(drop)
}

#[test]
fn a_map_grows_while_a_snapshot_is_held_and_what_it_lent_stays() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), &LmdbOptions::default().map_bytes(1 << 20));
    append(&backend, 0, 300 << 10).unwrap();
    let snapshot = backend.snapshot(&[]);
    let (oid, body) = object(0, 300 << 10);
    let lent = snapshot.read(&oid.into()).unwrap().unwrap();
    for number in 1..60 {
        append(&backend, number, 300 << 10).unwrap();
        assert!(lent.body() == body);
        let (oid, body) = object(number, 300 << 10);
        assert!(snapshot.read(&oid.into()).unwrap().unwrap().body() == body, "what came later is found, too");
    }
    assert!(backend.stats().file_bytes > 16 << 20);
}

#[test]
fn threads_read_while_the_map_grows() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), &LmdbOptions::default().map_bytes(1 << 20));
    let done = std::sync::atomic::AtomicBool::new(false);
    raise_count(&backend, 0, Durability::None).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Acquire) {
                    read_count(&backend, 2);
                }
            });
        }
        for number in 0..40 {
            append(&backend, number, 500 << 10).unwrap();
            raise_count(&backend, number + 1, Durability::None).unwrap();
        }
        done.store(true, std::sync::atomic::Ordering::Release);
    });
    assert_eq!(read_count(&backend, 50), 41);
}

/// Returns the limit of a resource, set to `bytes`; the hard one stays.
fn set_limit(resource: libc::__rlimit_resource_t, bytes: u64) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is only written to, and only read.
    unsafe {
        assert_eq!(libc::getrlimit(resource, &raw mut limit), 0);
        let before = std::mem::replace(&mut limit.rlim_cur, bytes);
        assert_eq!(libc::setrlimit(resource, &raw const limit), 0);
        before
    }
}

/// The body of a child: the process may have little address space, and its map cannot grow.
pub(super) fn fill_the_address_space(dir: &Path) {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = status.split(' ').next().unwrap().parse().unwrap();
    set_limit(libc::RLIMIT_AS, pages * 4096 + (96 << 20));
    let backend = open(dir, &LmdbOptions::default());
    let mut number = 0;
    let refused = loop {
        match append(&backend, number, 1 << 20) {
            Ok(()) => number += 1,
            Err(error) => break error,
        }
        assert!(number < 1000, "it never ends");
    };
    let Error::Backend { place, source } = &refused else { panic!("{refused:?}") };
    assert!(place.ends_with("data.mdb"), "{place}");
    assert!(matches!(source.downcast_ref(), Some(LmdbError::MapTooSmall { .. })), "{source}");
    for number in 0..number {
        assert!(backend.read(&object(number, 1 << 20).0.into()).unwrap().is_some());
    }
    say(&number.to_string());
}

#[test]
fn a_process_with_little_address_space_has_a_small_map_and_is_told_when_it_is_full() {
    let dir = tempfile::tempdir().unwrap();
    drop(create(dir.path(), &LmdbOptions::default()));
    let said = start("little-space", dir.path()).succeed();
    let count: u64 = said[0].parse().unwrap();
    let backend = open(dir.path(), &LmdbOptions::default());
    for number in 0..count {
        let (oid, body) = object(number, 1 << 20);
        assert!(backend.read(&oid.into()).unwrap().unwrap().body() == body);
    }
    append(&backend, count, 1 << 20).unwrap();
}

/// Keeps this process from making files longer than `bytes`, as a full disk would; returns the limit before.
pub(crate) fn limit_files(bytes: u64) -> u64 {
    // SAFETY: the signal, which ends a process whose file is too long, is ignored: the call fails then.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    set_limit(libc::RLIMIT_FSIZE, bytes)
}

/// The body of a child: files may not become longer than a bound, as on a disk that is full.
pub(super) fn fill_the_disk(dir: &Path) {
    let backend = open(dir, &LmdbOptions::default());
    let mut count = read_count(&backend, 0);
    for durability in [Durability::None, Durability::Grouped, Durability::Synced] {
        let before = limit_files(backend.stats().file_bytes + (1 << 20) + 777);
        let refused = loop {
            match raise_count(&backend, count, durability) {
                Ok(next) => count = next,
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, Error::NoSpace { .. }), "{refused:?}");
        for _ in 0..3 {
            let again = append(&backend, 1, 3 << 20);
            assert!(matches!(again, Err(Error::NoSpace { .. })), "{again:?}");
        }
        assert_eq!(read_count(&backend, 100), count, "what was committed is there");
        limit_files(before);
        count = raise_count(&backend, count, durability).expect("there is room again");
    }
    say(&count.to_string());
}

#[test]
fn a_full_disk_loses_nothing_and_is_told() {
    let dir = tempfile::tempdir().unwrap();
    drop(create(dir.path(), &LmdbOptions::default()));
    let said = start("full", dir.path()).succeed();
    let backend = open(dir.path(), &LmdbOptions::default());
    assert_eq!(read_count(&backend, u64::MAX).to_string(), said[0]);
    backend.each_object(&mut |_, _| Ok(()), &mut |damage| panic!("{damage:?}")).unwrap();
}
