//! Processes share a store; some are killed, some fork.

use std::{io::Read, path::Path, time::Duration};

use bristlecone::{Backend, Batch, Durability, Error, Kind, Object, Oid, Roots, Sink, SweepLimits};
use bristlecone_lmdb::backend::{LmdbBackend, LmdbOptions};
use bristlecone_testkit::generate::Rng;

use super::{
    children::{raise_count, read_count, say, start},
    create, open,
};

fn options() -> LmdbOptions {
    // So small that growing is a part of every run.
    LmdbOptions::default().map_bytes(1 << 20)
}

pub(super) fn count_for_ever(dir: &Path) {
    let backend = open(dir, &options());
    let mut rng = Rng::of_this_process();
    let mut count = read_count(&backend, 0);
    loop {
        let durability = *rng.pick(&[Durability::None, Durability::Grouped, Durability::Synced]);
        count = raise_count(&backend, count, durability).expect("no other process writes");
        say(&count.to_string());
    }
}

pub(super) fn count_some(dir: &Path) {
    let backend = open(dir, &options());
    for _ in 0..100 {
        loop {
            match raise_count(&backend, read_count(&backend, 2), Durability::None) {
                Ok(_) => break,
                Err(Error::RefMoved { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// Opens the store and waits until the parent closes the pipe.
pub(super) fn hold_open(dir: &Path) {
    let _backend = open(dir, &options());
    say("open");
    let _ = std::io::stdin().read(&mut [0]);
}

fn large(number: u8) -> Batch {
    let mut batch = Batch::new();
    batch.put(Kind::Contents, Oid::new(&[number; 32]).unwrap(), &vec![number; 3 << 20], &[], &[]);
    batch
}

pub(super) fn append_much(dir: &Path) {
    let backend = open(dir, &options());
    for number in 1..4 {
        backend.append(large(number), &[], Durability::None).unwrap();
    }
}

/// Forks this process and returns the number of the child. In the child it is 0: that calls what a test is about, and ends by
/// [`end_child`], without going on as a test.
pub(crate) fn fork_child() -> i32 {
    // SAFETY: as the callers have it.
    unsafe { libc::fork() }
}

/// Ends the child, which says whether all is well.
pub(crate) fn end_child(is_well: bool) -> ! {
    // SAFETY: this ends the child, and nothing else.
    unsafe { libc::_exit(if is_well { 0 } else { 1 }) }
}

/// Waits until the child has ended, and said that all is well.
pub(crate) fn wait_for_child(child: i32) {
    let mut status = 1;
    // SAFETY: the child is one of this process, and a number is written to `status`.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child ended so");
}

pub(super) fn fork(dir: &Path) {
    let backend = open(dir, &options());
    let count = read_count(&backend, 0);
    let child = fork_child();
    if child == 0 {
        let refused = [
            backend.get_ref("count").map(drop),
            backend.append(Batch::new(), &[], Durability::None).map(drop),
            backend.flush(),
            backend.readers().map(drop),
        ];
        let refused = refused.iter().all(|call| matches!(call, Err(Error::Usage { .. })));
        drop(backend);
        let anew = open(dir, &options());
        let works = raise_count(&anew, count, Durability::Synced).is_ok();
        drop(anew);
        end_child(refused && works);
    }
    wait_for_child(child);
    assert_eq!(read_count(&backend, 9), count + 1, "what the child wrote is seen");
    raise_count(&backend, count + 1, Durability::Synced).unwrap();
}

#[test]
fn a_flush_makes_durable_what_another_process_appended() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), &options());
    backend.flush().unwrap();
    let before = backend.stats().syncs;
    backend.flush().unwrap();
    assert_eq!(backend.stats().syncs, before, "nothing was appended");
    start("count-to", dir.path()).succeed();
    assert_eq!(read_count(&backend, 2), 100);
    backend.flush().unwrap();
    assert_eq!(backend.stats().syncs, before + 1);
}

#[test]
fn a_killed_writer_loses_nothing_that_was_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    drop(create(dir.path(), &options()));
    let mut rng = Rng::new(1);
    let mut acknowledged = 0;
    let kills = if std::env::var_os("BRISTLECONE_THOROUGH").is_some() { 200 } else { 20 };
    for round in 0..kills {
        let mut writer = start("count", dir.path());
        std::thread::sleep(Duration::from_micros(20_000 + rng.below(40_000)));
        writer.child.kill().unwrap();
        let (_, said, rest) = writer.join();
        assert!(rest.iter().all(|line| !line.contains("panicked")), "{}", rest.join("\n"));
        acknowledged = said.last().map_or(acknowledged, |line| line.parse().unwrap());
        let backend = open(dir.path(), &options());
        let count = read_count(&backend, 50);
        assert!(
            count == acknowledged || count == acknowledged + 1,
            "round {round}: {count}, {acknowledged} acknowledged"
        );
        acknowledged = count;
    }
    let backend = open(dir.path(), &options());
    assert!(read_count(&backend, u64::MAX) > 0, "no writer got anywhere");
    backend.each_object(&mut |_, _| Ok(()), &mut |damage| panic!("{damage:?}")).unwrap();
}

#[test]
fn processes_write_and_read_beside_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), &options());
    let children = ["count-to", "count-to"].map(|role| start(role, dir.path()));
    let mut last = 0;
    while last < 200 {
        let count = read_count(&backend, 3);
        assert!(count >= last, "the counter went back");
        last = count;
    }
    children.into_iter().for_each(|child| drop(child.succeed()));
    assert_eq!(read_count(&backend, 200), 200);
    assert_eq!(backend.position().unwrap().unwrap().0, 200);
}

#[test]
fn a_map_that_another_process_outgrew_is_followed() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), &options());
    let snapshot = backend.snapshot(&[]);
    start("large", dir.path()).succeed();
    for number in 1..4 {
        let object = snapshot.read(&Oid::new(&[number; 32]).unwrap().into()).unwrap().unwrap();
        assert_eq!(object.body(), vec![number; 3 << 20]);
    }
    backend.append(large(9), &[], Durability::Synced).unwrap();
}

fn sweep(backend: &LmdbBackend) -> Result<u64, Error> {
    let children = |_: &Oid, _: &Object<'_>, _: &mut dyn FnMut(Oid)| Ok(());
    backend.sweep(&Roots::new(&[], &children), &SweepLimits::default()).map(|swept| swept.objects)
}

#[test]
fn a_sweep_needs_the_store_to_itself_among_processes() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), &options());
    backend.append(large(1), &[], Durability::None).unwrap();
    let holder = start("hold", dir.path());
    let id = holder.child.id();
    // The child registers as soon as it has opened the store.
    while !backend.readers().unwrap().iter().any(|reader| reader.process == id) {
        std::thread::sleep(Duration::from_millis(1));
    }
    match sweep(&backend) {
        Err(Error::Locked { holder, .. }) => assert!(holder.contains(&id.to_string()), "{holder}"),
        other => panic!("{other:?}"),
    }
    holder.succeed();
    assert_eq!(sweep(&backend).unwrap(), 1);
    // A process that was killed does not count.
    backend.append(large(1), &[], Durability::None).unwrap();
    let mut holder = start("hold", dir.path());
    let id = holder.child.id();
    while !backend.readers().unwrap().iter().any(|reader| reader.process == id) {
        std::thread::sleep(Duration::from_millis(1));
    }
    holder.child.kill().unwrap();
    holder.join();
    assert_eq!(sweep(&backend).unwrap(), 1);
}

#[test]
fn a_snapshot_older_than_what_another_process_wrote_is_not_swept_under() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), &options());
    raise_count(&backend, 0, Durability::None).unwrap();
    let mut snapshot = backend.snapshot(&[]);
    start("count-to", dir.path()).succeed();
    assert!(matches!(sweep(&backend), Err(Error::Usage { .. })), "what refs left is not known here");
    assert!(std::sync::Arc::get_mut(&mut snapshot).unwrap().refresh(&[]));
    assert_eq!(sweep(&backend).unwrap(), 200, "all but the last commit");
    assert_eq!(read_count(&backend, 0), 101);
}

#[test]
fn a_forked_process_opens_the_store_anew() {
    let dir = tempfile::tempdir().unwrap();
    raise_count(&create(dir.path(), &options()), 0, Durability::None).unwrap();
    start("fork", dir.path()).succeed();
    assert_eq!(read_count(&open(dir.path(), &options()), 9), 3);
}
