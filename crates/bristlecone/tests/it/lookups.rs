//! What lookups answer where files change, are cut or go while a store is open: what is there is found, and what was is not
//! called absent.

use std::{io::Write as _, os::unix::fs::FileExt as _, process::Command, sync::Arc};

use bristlecone::{
    Backend, Batch, Durability, Error, Location, ObjRef, Object, Oid, Roots, SweepLimits,
    disk::{DiskBackend, DiskOptions},
    storage::{RealStorage, Storage},
};
use bristlecone_core::{Kind, RECORD_HEADER_BYTES, Sink};
use bristlecone_needs::needs;
use bristlecone_testkit::sim::{Fault, SimStorage, Times};

use crate::engine::{count_with_digits, format_tag, tiny, tiny_with_maps};

/// Bytes of a frame before its records.
const FRAME_HEAD_BYTES: u64 = 64;

fn oid(number: u8) -> Oid {
    Oid::from_array(std::array::from_fn(|index| number.wrapping_mul(31).wrapping_add(index as u8 * 7)))
}

fn body(number: u8) -> [u8; 300] {
    [number; 300]
}

fn create(options: &DiskOptions) -> (SimStorage, DiskBackend) {
    let disk = SimStorage::new();
    let backend = DiskBackend::create(Arc::new(disk.clone()), format_tag(), options.clone()).unwrap();
    (disk, backend)
}

/// Appends objects in one frame, and returns where they are.
fn append(backend: &DiskBackend, numbers: &[u8]) -> Vec<Location> {
    let mut batch = Batch::new();
    let mut put = |&number: &u8| batch.put(Kind::Contents, oid(number), &body(number), &[], &[]).pending_offset();
    let offsets: Vec<u64> = numbers.iter().map(|number| put(number).unwrap()).collect();
    let base = backend.append(batch, &[], Durability::None).unwrap();
    offsets.into_iter().map(|offset| Location(base.0 + offset)).collect()
}

fn segment(at: Location) -> String {
    format!("segments/{:08}.seg", at.0 >> 32)
}

fn expect_found(backend: &DiskBackend, number: u8, what: &str) {
    let found = backend.read(&oid(number).into());
    let Ok(Some(found)) = &found else { panic!("{what}: object {number}: {found:?}") };
    assert_eq!(found.body(), body(number), "{what}: object {number}");
}

#[test]
fn objects_of_the_last_frame_are_found_though_its_head_is_damaged() {
    for options in [tiny(), tiny_with_maps()] {
        for byte in (0..FRAME_HEAD_BYTES).step_by(5) {
            let what = format!("byte {byte}, maps: {options:?}");
            let (disk, backend) = create(&options);
            append(&backend, &[1, 2]);
            let places = append(&backend, &[3, 4, 5]);
            let first = places[0].0 & 0xffff_ffff;
            disk.flip(&segment(places[0]), first - FRAME_HEAD_BYTES + byte, 8);
            for number in 1..=5 {
                let found = count_with_digits(&backend, oid(number), 16);
                assert_eq!(found, 1, "{what}: object {number} by its first digits");
                expect_found(&backend, number, &what);
            }
            assert!(matches!(backend.read(&oid(9).into()), Ok(None)), "{what}");
        }
    }
}

#[test]
fn an_object_of_the_last_frame_is_damaged_and_not_absent_if_head_and_record_are() {
    for options in [tiny(), tiny_with_maps()] {
        let (disk, backend) = create(&options);
        append(&backend, &[1, 2]);
        let places = append(&backend, &[3, 4, 5]);
        let (name, first) = (segment(places[0]), places[0].0 & 0xffff_ffff);
        disk.flip(&name, first - FRAME_HEAD_BYTES + 20, 8);
        disk.overwrite(&name, places[1].0 & 0xffff_ffff, &[0x55; RECORD_HEADER_BYTES]);
        for at in [oid(4).into(), ObjRef::new(oid(4), places[1])] {
            let found = backend.read(&at);
            assert!(matches!(found, Err(Error::Corrupt { .. })), "{at:?}: {found:?}");
        }
        [1, 2, 3, 5].into_iter().for_each(|number| expect_found(&backend, number, "the others"));
    }
}

/// The log goes on to a segment that a snapshot has not opened, and that file is removed.
#[test]
fn an_object_of_a_tail_that_is_gone_is_not_absent() {
    for options in [tiny(), tiny_with_maps()] {
        let (disk, backend) = create(&options);
        append(&backend, &[1, 2]);
        let snapshot = backend.snapshot(&[]);
        let children = |_: &Oid, _: &Object<'_>, _: &mut dyn FnMut(Oid)| Ok(());
        backend.sweep(&Roots::new(&[], &children), &SweepLimits::default()).unwrap();
        let before = segment(append(&backend, &[3])[0]);
        let mut appended = (4..100).map(|number| (number, append(&backend, &[number])[0]));
        let (number, at) = appended.find(|&(_, at)| segment(at) != before).unwrap();
        disk.remove(&segment(at)).unwrap();
        for at in [oid(number).into(), ObjRef::new(oid(number), at)] {
            let found = snapshot.read(&at);
            assert!(!matches!(found, Ok(None)), "{at:?}: {found:?}");
        }
    }
}

/// Any read of a lookup fails once: the object is found, or the error is told.
#[test]
fn a_read_that_fails_once_hides_nothing() {
    let (disk, backend) = create(&tiny());
    let first = append(&backend, &[1])[0];
    (2..60).for_each(|number| _ = append(&backend, &[number]));
    let last = append(&backend, &[60])[0];
    assert!((first.0 >> 32) + 1 < last.0 >> 32);
    assert!(backend.read(&oid(200).into()).unwrap().is_none(), "now every sealed segment has its index");
    backend.close().unwrap();
    drop(backend);
    disk.number_reads();
    let mut call = 0;
    loop {
        call += 1;
        let reader = DiskBackend::open(Arc::new(disk.clone()), None, tiny(), true).unwrap();
        assert!(reader.read(&oid(200).into()).unwrap().is_none(), "call {call}: with all indexes open");
        let failing = disk.calls() + call;
        disk.fail_at(failing, Fault::Io, Times::Once);
        let found = reader.read(&oid(1).into());
        disk.heal();
        assert!(!matches!(found, Ok(None)), "call {call}: {found:?}");
        if disk.calls() < failing {
            break;
        }
    }
    assert!(call > 3, "{call}");
}

/// An index that was open is cut: the segment is gone over in its place, and no other one is in the way.
#[test]
fn an_index_that_cannot_be_read_hides_nothing() {
    for bytes in [0, 40, 64] {
        let (disk, backend) = create(&tiny());
        (1..=60).for_each(|number| _ = append(&backend, &[number]));
        assert!(backend.read(&oid(200).into()).unwrap().is_none());
        let names = disk.list("segments").unwrap();
        let indexes: Vec<_> = names.iter().filter(|name| name.ends_with(".ids")).collect();
        assert!(indexes.len() > 3, "{names:?}");
        indexes.iter().step_by(2).for_each(|name| disk.cut_file(&format!("segments/{name}"), bytes));
        (1..=60).for_each(|number| expect_found(&backend, number, &format!("cut to {bytes} bytes")));
        assert!(backend.read(&oid(200).into()).unwrap().is_none());
    }
}

/// The fences of an index are compared with their check when it is opened, and what a map of the file shows later counts no more.
#[test]
fn fences_that_change_under_an_open_store_hide_nothing() {
    const FENCES_AT: u64 = 48;
    let id =
        |number: u32| Oid::from_array(std::array::from_fn(|index| ((number * (2 * index as u32 + 77)) >> 3) as u8));
    let dir = tempfile::tempdir().unwrap();
    let options = || DiskOptions::default().segment_bytes(1 << 16).background(false);
    let storage = || Arc::new(RealStorage::new(dir.path()));
    let backend = DiskBackend::create(storage(), format_tag(), options()).unwrap();
    for number in 0..1000 {
        let mut batch = Batch::new();
        batch.put(Kind::Contents, id(number), &number.to_le_bytes(), &[], &[]);
        backend.append(batch, &[], Durability::None).unwrap();
    }
    drop(backend);
    let backend = DiskBackend::open(storage(), None, options(), false).unwrap();
    assert!(backend.read(&oid(200).into()).unwrap().is_none());
    let index = std::fs::OpenOptions::new().write(true).open(dir.path().join("segments/00000001.ids")).unwrap();
    for block in 1..4 {
        index.write_all_at(&[0xff; 8], FENCES_AT + 8 * block).unwrap();
        for number in 0..1000 {
            let found = backend.read(&id(number).into()).unwrap();
            assert!(found.is_some(), "{number}, with fence {block} raised");
        }
    }
}

/// A file system in memory, unmounted when this is dropped.
struct Mounted(tempfile::TempDir);

impl Mounted {
    fn new(size: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(dir.path());
        assert!(command.status().unwrap().success(), "this test mounts a file system: it needs root");
        Self(dir)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// A write ended where a file system in memory was full. Reading what is missing through a map would end the process.
#[needs(mounts)]
#[test]
fn a_frame_of_which_a_full_file_system_has_the_head_is_none() {
    const PAGE_BYTES: usize = 4096;
    let dir = tempfile::tempdir().unwrap();
    let options = || DiskOptions::default().segment_bytes(1 << 20).background(false).prezero(false);
    let backend = DiskBackend::create(Arc::new(RealStorage::new(dir.path())), format_tag(), options()).unwrap();
    append(&backend, &[1]);
    let mut batch = Batch::new();
    batch.put(Kind::Contents, oid(2), &[2; 300_000], &[], &[]);
    let base = backend.append(batch, &[], Durability::None).unwrap();
    let mounted = Mounted::new("1m");
    std::fs::create_dir(mounted.0.path().join("segments")).unwrap();
    let head_end = base.0 as u32 as usize;
    for name in ["store".to_owned(), "segments/store.copy".to_owned(), segment(base)] {
        let bytes = std::fs::read(dir.path().join(&name)).unwrap();
        let file = std::fs::File::create(mounted.0.path().join(&name)).unwrap();
        file.set_len(bytes.len() as u64).unwrap();
        let written = if name.ends_with(".seg") { head_end.next_multiple_of(PAGE_BYTES) } else { bytes.len() };
        file.write_all_at(&bytes[..written], 0).unwrap();
    }
    let mut full = std::fs::File::create(mounted.0.path().join("full")).unwrap();
    while full.write(&[1; PAGE_BYTES]).is_ok() {}
    let opened = DiskBackend::open(Arc::new(RealStorage::new(mounted.0.path())), None, options(), true).unwrap();
    expect_found(&opened, 1, "before it");
    assert!(opened.read(&oid(2).into()).unwrap().is_none());
}
