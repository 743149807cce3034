//! Values that hold whatever looks like records: nothing within a record is taken for one, also where it is damaged.

use std::{fs, path::PathBuf, sync::Arc};

use bristlecone::{
    Backend, Batch, Durability, Error, Location, Oid,
    disk::{DiskBackend, DiskOptions},
    storage::RealStorage,
};
use bristlecone_core::{Kind, RECORD_HEADER_BYTES, Sink, write_record};

use crate::engine::format_tag;

const SEGMENT_BYTES: u64 = 1 << 16;

fn oid(number: u8) -> Oid {
    Oid::from_array(std::array::from_fn(|index| number.wrapping_mul(31).wrapping_add(index as u8 * 7)))
}

/// The object whose value holds others, the one before and the ones behind it in its frame.
const OUTER: u8 = 1;
const BEFORE: u8 = 2;
const BEHIND: [u8; 3] = [3, 4, 5];
/// What is forged, and was never written or stands elsewhere.
const NEVER: u8 = 9;
const ELSEWHERE: u8 = 10;

/// A store with a value that holds `inner`, in its tail or in a sealed segment.
struct Place {
    dir: tempfile::TempDir,
    sound: Vec<u8>,
    outer: usize,
    maps: bool,
}

impl Place {
    fn new(value: &[u8], sealed: bool, indexed: bool, maps: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let place = Self { dir, sound: Vec::new(), outer: 0, maps };
        let backend = DiskBackend::create(place.storage(), format_tag(), place.options()).unwrap();
        let put = |objects: &[(u8, &[u8])]| {
            let mut batch = Batch::new();
            for &(number, body) in objects {
                batch.put(Kind::Contents, oid(number), body, &[], &[]);
            }
            backend.append(batch, &[], Durability::None).unwrap();
        };
        put(&[(ELSEWHERE, b"right")]);
        put(&[(BEFORE, b"before"), (OUTER, value), (BEHIND[0], b"behind"), (BEHIND[1], &[7; 99]), (BEHIND[2], b"")]);
        put(&[(BEHIND[0] + 100, b"another frame")]);
        if sealed {
            for number in 0..3 {
                put(&[(200 + number, &[number; SEGMENT_BYTES as usize / 2])]);
            }
        }
        let outer = backend.read(&oid(OUTER).into()).unwrap().unwrap().location().0;
        assert_eq!(outer >> 32, 1);
        backend.close().unwrap();
        drop(backend);
        if indexed {
            // A lookup of what is not there makes the index.
            assert!(place.open(false).read(&oid(NEVER).into()).unwrap().is_none());
        } else if place.file("ids").exists() {
            fs::remove_file(place.file("ids")).unwrap();
        }
        assert_eq!(place.file("ids").exists(), sealed && indexed);
        let sound = fs::read(place.file("seg")).unwrap();
        Self { sound, outer: outer as u32 as usize, ..place }
    }

    fn options(&self) -> DiskOptions {
        DiskOptions::default().segment_bytes(SEGMENT_BYTES).background(false).maps(self.maps)
    }

    fn storage(&self) -> Arc<RealStorage> {
        Arc::new(RealStorage::new(self.dir.path()))
    }

    fn file(&self, extension: &str) -> PathBuf {
        self.dir.path().join(format!("segments/00000001.{extension}"))
    }

    fn open(&self, read_only: bool) -> DiskBackend {
        DiskBackend::open(self.storage(), None, self.options(), read_only).unwrap()
    }

    /// Opens the store with a bit of the outer record flipped.
    fn flipped(&self, at: usize, bit: usize) -> DiskBackend {
        let mut bytes = self.sound.clone();
        bytes[self.outer + at] ^= 1 << bit;
        fs::write(self.file("seg"), bytes).unwrap();
        self.open(true)
    }
}

/// Returns the bytes of a record, and of its padding.
fn record(number: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_record(&mut bytes, Kind::Contents, &oid(number), body, &[], &[]);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

/// Asserts that the neighbours of the outer record are found, and that it is called damaged.
fn expect_neighbours(backend: &DiskBackend, what: &str) {
    for number in BEHIND.into_iter().chain([BEFORE, BEHIND[0] + 100]) {
        let found = backend.read(&oid(number).into());
        assert!(matches!(found, Ok(Some(_))), "{what}: object {number}: {found:?}");
    }
    let outer = backend.read(&oid(OUTER).into());
    assert!(matches!(outer, Err(Error::Corrupt { .. })), "{what}: {outer:?}");
}

fn each_place(value: &[u8], each: impl Fn(&Place, &str)) {
    for (sealed, indexed) in [(false, false), (true, false), (true, true)] {
        for maps in [true, false] {
            each(
                &Place::new(value, sealed, indexed, maps),
                &format!("sealed: {sealed}, indexed: {indexed}, maps: {maps}"),
            );
        }
    }
}

#[test]
fn what_a_damaged_value_holds_is_no_record() {
    let mut value = b"sixteen bytes...".to_vec();
    let from = value.len();
    value.extend(record(NEVER, b"forged"));
    value.extend(record(ELSEWHERE, b"wrong"));
    let to = value.len();
    value.extend([0xab; 24]);
    each_place(&value, |place, what| {
        let whole = RECORD_HEADER_BYTES + value.len();
        let outside = (0..whole).filter(|at| !(RECORD_HEADER_BYTES + from..RECORD_HEADER_BYTES + to).contains(at));
        let header_bits = (0..RECORD_HEADER_BYTES).flat_map(|at| (0..8).map(move |bit| (at, bit)));
        for (at, bit) in header_bits.chain(outside.map(|at| (at, at % 8))) {
            let what = format!("bit {bit} of byte {at}, {what}");
            let backend = place.flipped(at, bit);
            expect_neighbours(&backend, &what);
            let never = backend.read(&oid(NEVER).into());
            assert!(!matches!(never, Ok(Some(_))), "{what}: {never:?}");
            let elsewhere = backend.read(&oid(ELSEWHERE).into()).unwrap().unwrap();
            assert_eq!(elsewhere.body(), b"right", "{what}");
            let mut each = |oid_of: Oid, object: &bristlecone::Object<'_>| {
                assert!(oid_of != oid(NEVER) && object.body() != b"wrong", "{what}");
                Ok(())
            };
            backend.each_object(&mut each, &mut |_| {}).unwrap();
        }
    });
}

/// Where the header of a damaged value tells nothing, an index that was made before does.
#[test]
fn what_an_overwritten_value_holds_is_no_record_where_an_index_tells() {
    let value = [b"eight...", &record(NEVER, b"forged")[..], &[0xab; 24]].concat();
    for maps in [true, false] {
        let place = Place::new(&value, true, true, maps);
        let mut bytes = place.sound.clone();
        bytes[place.outer..place.outer + RECORD_HEADER_BYTES + 1].fill(0);
        fs::write(place.file("seg"), bytes).unwrap();
        let backend = place.open(true);
        expect_neighbours(&backend, "overwritten");
        assert!(backend.read(&oid(NEVER).into()).unwrap().is_none());
    }
}

#[test]
fn what_looks_like_headers_in_a_damaged_value_hides_nothing_behind_it() {
    const FAKES: usize = 200;
    let mut value = Vec::new();
    for place in 0..FAKES {
        let mut header = record(place as u8, b"");
        let left = (FAKES - place - 1) * RECORD_HEADER_BYTES;
        header[4..8].copy_from_slice(&(left as u32 + 200).to_le_bytes());
        value.extend(header);
    }
    each_place(&value, |place, what| {
        let last = RECORD_HEADER_BYTES + value.len() - 1;
        for (at, bytes) in [(5, 1), (15, 1), (40, 1), (0, RECORD_HEADER_BYTES), (last, 1)] {
            let what = format!("{bytes} bytes from {at}, {what}");
            let mut damaged = place.sound.clone();
            damaged[place.outer + at..place.outer + at + bytes].iter_mut().for_each(|byte| *byte ^= 0xff);
            fs::write(place.file("seg"), damaged).unwrap();
            let backend = place.open(true);
            expect_neighbours(&backend, &what);
            let mut found = Vec::<Location>::new();
            let mut each = |_: Oid, object: &bristlecone::Object<'_>| {
                found.push(object.location());
                Ok(())
            };
            backend.each_object(&mut each, &mut |_| {}).unwrap();
            assert!(found.len() >= BEHIND.len() + 3, "{what}: {found:?}");
        }
    });
}
