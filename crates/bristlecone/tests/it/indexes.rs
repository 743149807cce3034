//! Indexes of sealed segments that are missing, old, of another segment or made by hand, beside segments that are whole,
//! damaged or missing: what is there is found, what is lost is called damaged, and only what never was is absent.
//!
//! The files are read and made here from `docs/formats/disk.md`, not by the engine's own code.

use std::{
    collections::BTreeMap,
    fs,
    ops::Range,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use bristlecone::{
    Backend, Batch, Durability, Error, Expected, Location, ObjRef, Object, Oid, OidPrefix, RefMove, RefTarget, Roots,
    SweepLimits,
    disk::{CheckSummary, DiskBackend, DiskOptions},
    storage::RealStorage,
};
use bristlecone_core::{Kind, Sink};
use bristlecone_testkit::crash::step;
use twox_hash::XxHash3_64;

use crate::engine::format_tag;

/// The files of a store, by their names in its folder.
type Files = BTreeMap<String, Vec<u8>>;

/// Objects are this long, so that a segment of 8 KiB takes some twenty.
const BODY_BYTES: usize = 300;
/// Objects in a batch.
const BATCH: u64 = 3;
/// Objects in the store: six sealed segments and a tail.
const OBJECTS: u64 = 150;
/// An id that was never written.
const NEVER: u64 = 1_000_000;

fn options(maps: bool) -> DiskOptions {
    DiskOptions::default().segment_bytes(8192).background(false).maps(maps)
}

fn oid(number: u64) -> Oid {
    let word = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut bytes = [0; 32];
    for (index, chunk) in bytes.chunks_mut(8).enumerate() {
        chunk.copy_from_slice(&word.rotate_left(index as u32 * 7).to_le_bytes());
    }
    Oid::from_array(bytes)
}

fn body(number: u64) -> Vec<u8> {
    (0..BODY_BYTES).map(|index| (number as usize * 31 + index) as u8).collect()
}

fn append(backend: &DiskBackend, numbers: Range<u64>) {
    let mut batch = Batch::new();
    let mut last = Location::NONE;
    for number in numbers.clone() {
        last = batch.put(Kind::Contents, oid(number), &body(number), &[], &[]);
    }
    let target = RefTarget::Object(ObjRef::new(oid(numbers.end - 1), last));
    let moves = [RefMove { name: "refs/heads/main".to_owned(), expected: Expected::Any, to: Some(target) }];
    backend.append(batch, &moves, Durability::None).unwrap();
}

fn append_all(backend: &DiskBackend, numbers: Range<u64>) {
    for first in numbers.clone().step_by(BATCH as usize) {
        append(backend, first..(first + BATCH).min(numbers.end));
    }
}

/// A store on real files, in a folder of its own.
struct Place(tempfile::TempDir);

impl Place {
    /// A store without any index.
    fn new() -> Self {
        static FILES: OnceLock<Files> = OnceLock::new();
        let files = FILES.get_or_init(|| {
            let place = Self(tempfile::tempdir().unwrap());
            let backend = DiskBackend::create(place.storage(), format_tag(), options(true)).unwrap();
            append_all(&backend, 0..OBJECTS);
            backend.close().unwrap();
            drop(backend);
            place.remove_indexes();
            place.files()
        });
        Self::with(files)
    }

    /// A store in which every sealed segment has an index.
    fn indexed() -> Self {
        static FILES: OnceLock<Files> = OnceLock::new();
        let files = FILES.get_or_init(|| {
            let place = Self::new();
            assert!(place.open(true, false).read(&oid(NEVER).into()).unwrap().is_none());
            assert!(!place.indexes().is_empty());
            place.files()
        });
        Self::with(files)
    }

    fn with(files: &Files) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        for dir in ["segments", "derived"] {
            fs::create_dir(place.path(dir)).unwrap();
        }
        for (name, bytes) in files {
            fs::write(place.path(name), bytes).unwrap();
        }
        place
    }

    fn storage(&self) -> Arc<RealStorage> {
        Arc::new(RealStorage::new(self.0.path()))
    }

    fn open(&self, maps: bool, read_only: bool) -> DiskBackend {
        DiskBackend::open(self.storage(), None, options(maps), read_only).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn segment(&self, number: u32) -> PathBuf {
        self.path(&format!("segments/{number:08}.seg"))
    }

    fn index(&self, number: u32, extension: &str) -> PathBuf {
        self.path(&format!("segments/{number:08}.{extension}"))
    }

    fn indexes(&self) -> Vec<PathBuf> {
        let paths = fs::read_dir(self.path("segments")).unwrap().map(|entry| entry.unwrap().path());
        paths.filter(|path| path.extension().is_some_and(|end| end == "idx" || end == "ids")).collect()
    }

    fn remove_indexes(&self) {
        self.indexes().iter().for_each(|path| fs::remove_file(path).unwrap());
    }

    /// Every file with its bytes.
    fn files(&self) -> Files {
        let mut files = Files::new();
        for dir in ["", "segments", "derived"] {
            for entry in fs::read_dir(self.path(dir)).unwrap() {
                let path = entry.unwrap().path();
                if path.is_file() {
                    let name = path.strip_prefix(self.0.path()).unwrap().to_str().unwrap().to_owned();
                    files.insert(name, fs::read(&path).unwrap());
                }
            }
        }
        files
    }

    fn change(&self, number: u32, change: impl FnOnce(&mut [u8])) {
        let mut bytes = fs::read(self.segment(number)).unwrap();
        change(&mut bytes);
        fs::write(self.segment(number), bytes).unwrap();
    }

    fn frames(&self, number: u32) -> Vec<Frame> {
        frames(&fs::read(self.segment(number)).unwrap())
    }

    /// Returns prefix and offset of every record of a segment.
    fn entries(&self, number: u32) -> Vec<(u64, u32)> {
        let records = self.frames(number).into_iter().flat_map(|frame| frame.records);
        records.map(|record| (oid(record.number).prefix(), record.at as u32)).collect()
    }

    /// Writes an index of today's older form over these entries, as they are.
    fn write_old_index(&self, number: u32, entries: &[(u64, u32)]) {
        let segment = fs::read(self.segment(number)).unwrap();
        let mut head = Vec::new();
        head.extend_from_slice(b"BCONEIDX");
        index_head(&mut head, number, entries);
        let head_end = head_bytes(&segment);
        head.extend_from_slice(&segment[head_end - 8..head_end]);
        fs::write(self.index(number, "idx"), with_entries(head, entries)).unwrap();
    }

    /// Writes an index of the newer form in a layout over these entries, as they are.
    fn write_index(&self, number: u32, layout: Layout, entries: &[(u64, u32)]) {
        let next = fs::read(self.segment(number + 1)).unwrap();
        let mut head = Vec::new();
        match layout {
            Layout::Steps => {
                head.extend_from_slice(b"BCONEIDS");
                index_head(&mut head, number, entries);
            }
            Layout::Blocks => {
                head.extend_from_slice(b"BCONEID2");
                head.extend_from_slice(&u64::from(number).to_le_bytes());
                head.extend_from_slice(&(entries.len() as u64).to_le_bytes());
            }
        }
        head.extend_from_slice(&next[32..40]);
        head.extend_from_slice(&(word64(&next, 40) & 0xffff_ffff).to_le_bytes());
        let bytes = match layout {
            Layout::Steps => with_entries(head, entries),
            Layout::Blocks => with_blocks(head, entries),
        };
        fs::write(self.index(number, "ids"), bytes).unwrap();
    }
}

fn word32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn word64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

struct Frame {
    at: usize,
    records: Vec<RecordAt>,
}

#[derive(Clone, Copy)]
struct RecordAt {
    at: usize,
    end: usize,
    number: u64,
}

/// Returns how long the head of a segment is, its refs apart.
fn head_bytes(segment: &[u8]) -> usize {
    match &segment[..8] {
        b"BCONESG2" => 88,
        b"BCONESG3" => 96,
        _ => 64,
    }
}

fn frames(bytes: &[u8]) -> Vec<Frame> {
    let mut at = head_bytes(bytes) + word64(bytes, 48) as usize;
    let mut frames = Vec::new();
    while at + 72 <= bytes.len() && bytes[at..at + 4] == *b"BCF1" {
        let (record_bytes, payload_bytes) = (word32(bytes, at + 40) as usize, word32(bytes, at + 44) as usize);
        let (mut place, mut records) = (at + 64, Vec::new());
        while place < at + 64 + record_bytes {
            let body_bytes = word32(bytes, place + 4) as usize;
            let end = (place + 48 + body_bytes).next_multiple_of(8);
            let number = (0..OBJECTS * 4).find(|&number| oid(number).as_bytes() == &bytes[place + 16..place + 48]);
            records.push(RecordAt { at: place, end, number: number.unwrap() });
            place = end;
        }
        frames.push(Frame { at, records });
        at += 72 + record_bytes + payload_bytes;
    }
    frames
}

fn index_head(head: &mut Vec<u8>, number: u32, entries: &[(u64, u32)]) {
    head.extend_from_slice(&number.to_le_bytes());
    // Two bits of table: enough to be wrong about.
    head.extend_from_slice(&2_u32.to_le_bytes());
    head.extend_from_slice(&(entries.len() as u64).to_le_bytes());
}

fn with_entries(head: Vec<u8>, entries: &[(u64, u32)]) -> Vec<u8> {
    let mut rest = Vec::new();
    for step in 0..=4 {
        let below = entries.iter().filter(|(prefix, _)| step == 4 || (prefix >> 62) < step).count();
        rest.extend_from_slice(&(below as u32).to_le_bytes());
    }
    while !(head.len() + 8 + rest.len()).is_multiple_of(8) {
        rest.push(0);
    }
    entries.iter().for_each(|(prefix, _)| rest.extend_from_slice(&prefix.to_le_bytes()));
    entries.iter().for_each(|(_, offset)| rest.extend_from_slice(&offset.to_le_bytes()));
    checked(head, &rest)
}

/// The two layouts of the newer form.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Layout {
    Steps,
    Blocks,
}

const LAYOUTS: [Layout; 2] = [Layout::Steps, Layout::Blocks];

impl Layout {
    fn sorted(self, mut entries: Vec<(u64, u32)>) -> Vec<(u64, u32)> {
        match self {
            Self::Steps => sorted(entries),
            Self::Blocks => {
                entries.sort_by_key(|&(prefix, offset)| (prefix.swap_bytes(), !offset));
                entries
            }
        }
    }
}

fn with_blocks(head: Vec<u8>, entries: &[(u64, u32)]) -> Vec<u8> {
    let fences: Vec<u8> = entries.chunks(84).flat_map(|block| block[0].0.swap_bytes().to_le_bytes()).collect();
    let mut bytes = checked(head, &fences);
    let check = word64(&bytes, 40);
    for (place, block) in entries.chunks(84).enumerate() {
        let mut rest: Vec<u8> = block.iter().flat_map(|entry| entry.0.swap_bytes().to_le_bytes()).collect();
        rest.extend(block.iter().flat_map(|entry| entry.1.to_le_bytes()));
        bytes.extend_from_slice(&XxHash3_64::oneshot_with_seed(check.wrapping_add(place as u64), &rest).to_le_bytes());
        bytes.extend_from_slice(&rest);
    }
    bytes
}

fn checked(head: Vec<u8>, rest: &[u8]) -> Vec<u8> {
    let check = XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot_with_seed(0, &head), rest);
    [&head[..], &check.to_le_bytes(), rest].concat()
}

fn sorted(mut entries: Vec<(u64, u32)>) -> Vec<(u64, u32)> {
    entries.sort_by_key(|&(prefix, offset)| (prefix, !offset));
    entries
}

/// Asserts that each object is found by its id alone, but for those that are to be damaged.
fn expect_all(backend: &DiskBackend, damaged: &[u64], what: &str) {
    for number in 0..OBJECTS {
        match backend.read(&oid(number).into()) {
            Ok(Some(object)) if !damaged.contains(&number) => assert_eq!(object.body(), body(number), "{what}"),
            Err(Error::Corrupt { oid: Some(id), .. }) if damaged.contains(&number) => assert_eq!(id, oid(number)),
            other => panic!("{what}: object {number}: {other:?}"),
        }
        for digits in [16, 4 + number as usize % 9, 64] {
            let prefix: OidPrefix = oid(number).to_string()[..digits].parse().unwrap();
            let mut found = false;
            let mut each = |id: Oid, object: &Object<'_>| {
                assert!(id.to_string().starts_with(&oid(number).to_string()[..digits]), "{what}: {id}");
                if id == oid(number) {
                    assert_eq!(object.body(), body(number), "{what}");
                    found = true;
                }
                Ok(())
            };
            backend.each_with_prefix(&prefix, &mut each).unwrap();
            assert_eq!(found, !damaged.contains(&number), "{what}: object {number} by {digits} digits");
        }
    }
}

fn expect_absent(backend: &DiskBackend, what: &str) {
    let never = backend.read(&oid(NEVER).into());
    assert!(matches!(never, Ok(None)), "{what}: {never:?}");
}

/// Checks the store and returns what was found: damages as file name and reason.
fn check(backend: &DiskBackend) -> (CheckSummary, Vec<String>) {
    let mut damages = Vec::new();
    let summary = backend.check(&mut |damage| {
        let file = Path::new(&damage.file).file_name().unwrap().to_str().unwrap().to_owned();
        damages.push(format!("{file}: {}", damage.reason));
    });
    (summary.unwrap(), damages)
}

/// In every way in which a store may be opened to be read, with and without indexes.
fn each_way(damage: impl Fn(&Place), expect: impl Fn(&DiskBackend, bool, &str)) {
    for indexed in [false, true] {
        for (maps, read_only) in [(true, true), (true, false), (false, true)] {
            let place = if indexed { Place::indexed() } else { Place::new() };
            damage(&place);
            let what = format!("indexed: {indexed}, maps: {maps}, read only: {read_only}");
            expect(&place.open(maps, read_only), indexed, &what);
        }
    }
}

#[test]
fn a_damaged_frame_head_in_a_sealed_segment_costs_no_object() {
    let count = Place::new().frames(2).len();
    for index in [0, 1, count / 2, count - 2, count - 1] {
        for byte in [0, 4, 20, 43, 63] {
            let damage = |place: &Place| {
                let at = place.frames(2)[index].at + byte;
                place.change(2, |bytes| bytes[at] ^= 0x10);
            };
            each_way(damage, |backend, _, what| {
                let what = format!("byte {byte} of the head of frame {index}, {what}");
                expect_all(backend, &[], &what);
                expect_absent(backend, &what);
                let (summary, damages) = check(backend);
                assert!(damages.iter().any(|damage| damage.starts_with("00000002.seg: ")), "{what}: {damages:?}");
                assert_eq!(summary.records, OBJECTS, "{what}: {damages:?}");
                let mut walked = 0;
                let mut each = |_: Oid, _: &bristlecone::Object<'_>| {
                    walked += 1;
                    Ok(())
                };
                backend.each_object(&mut each, &mut |_| {}).unwrap();
                assert_eq!(walked, OBJECTS, "{what}");
            });
        }
    }
}

#[test]
fn a_record_that_cannot_be_read_is_damaged_and_its_neighbours_are_found() {
    let frame = &Place::new().frames(3)[1];
    for record in &frame.records {
        for byte in (0..48).step_by(5).chain([60]) {
            // In a short run the head of the frame is damaged, too, by turns.
            for head in [false, true].into_iter().cycle().skip(byte).take(step(1, 2) as usize) {
                let damage = |place: &Place| {
                    place.change(3, |bytes| {
                        bytes[record.at + byte] ^= 0x10;
                        bytes[frame.at + 8] ^= u8::from(head);
                    });
                };
                each_way(damage, |backend, indexed, what| {
                    let what = format!("object {}, byte {byte}, head too: {head}, {what}", record.number);
                    expect_all(backend, &[record.number], &what);
                    // Nothing of it is readable where it cannot be told from the payload behind.
                    if indexed || !head {
                        expect_absent(backend, &what);
                    }
                });
            }
        }
    }
}

#[test]
fn what_is_overwritten_is_absent_only_where_an_index_says_so() {
    let frame = &Place::new().frames(3)[1];
    let lost = &frame.records[1];
    for fill in [0, 0xff, b'x'] {
        let damage = |place: &Place| place.change(3, |bytes| bytes[lost.at..lost.end].fill(fill));
        each_way(damage, |backend, indexed, what| {
            expect_all(backend, &[lost.number], what);
            let never = backend.read(&oid(NEVER).into());
            if indexed {
                assert!(matches!(never, Ok(None)), "{what}: {never:?}");
            } else {
                assert!(matches!(never, Err(Error::Corrupt { .. })), "{what}: {never:?}");
            }
            // Appended again, it is whole; nothing else changed.
            if what.ends_with("read only: false") {
                append(backend, lost.number..lost.number + 1);
                expect_all(backend, &[], what);
            }
        });
    }
}

#[test]
fn objects_of_a_missing_segment_are_damaged_and_the_others_are_found() {
    let gone: Vec<u64> =
        Place::new().frames(2).iter().flat_map(|frame| frame.records.iter().map(|record| record.number)).collect();
    assert!(gone.len() > 10);
    each_way(
        |place| fs::remove_file(place.segment(2)).unwrap(),
        |backend, _, what| {
            expect_all(backend, &gone, what);
            let (_, damages) = check(backend);
            assert_eq!(damages, ["00000002.seg: the segment is missing"], "{what}");
        },
    );
    let place = Place::new();
    fs::remove_file(place.segment(1)).unwrap();
    let (_, damages) = check(&place.open(true, true));
    assert_eq!(damages, ["00000001.seg: the segment is missing"], "the first one");
}

#[test]
fn a_number_far_away_takes_no_time_and_the_missing_ones_are_named_together() {
    [(1 << 24) - 1, 1 << 24, 123_456_789, (1 << 30) - 1].into_iter().for_each(check_far);
}

fn check_far(far: u32) {
    let place = Place::new();
    let salt = word64(&fs::read(place.path("store")).unwrap(), 32);
    let mut head = b"BCONESEG".to_vec();
    head.extend_from_slice(&far.to_le_bytes());
    head.extend_from_slice(&1_u32.to_le_bytes());
    for word in [4096_u64, 1000, 77, 1 << 32 | 4096, 0] {
        head.extend_from_slice(&word.to_le_bytes());
    }
    let check_word = XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot_with_seed(salt, &head), &[]);
    head.extend_from_slice(&check_word.to_le_bytes());
    head.resize(4096, 0);
    fs::write(place.segment(far), head).unwrap();
    for number in 2..=5 {
        fs::remove_file(place.segment(number)).unwrap();
    }
    let start = Instant::now();
    let backend = place.open(true, true);
    let never = backend.read(&oid(NEVER).into());
    assert!(matches!(never, Err(Error::Corrupt { .. })), "{never:?}");
    assert!(backend.read(&oid(0).into()).unwrap().is_some());
    let (_, damages) = check(&backend);
    let named: Vec<_> = damages.iter().filter(|damage| damage.contains("missing")).collect();
    assert_eq!(named.len(), 1, "{damages:?}");
    assert!(named[0].starts_with("00000002.seg: the segments 2 to 5, "), "{named:?}");
    assert!(named[0].ends_with(&format!("to {} are missing", far - 1)), "{named:?}");
    let mut named = 0;
    backend
        .each_object(&mut |_, _| Ok(()), &mut |damage| named += u32::from(damage.reason.contains("missing")))
        .unwrap();
    assert_eq!(named, 1);
    let _ = backend.stats();
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

/// What may stand in an index whose form and check are right.
fn forgeries(entries: &[(u64, u32)], segment_bytes: u32, layout: Layout) -> Vec<(&'static str, Vec<(u64, u32)>)> {
    let sound = layout.sorted(entries.to_vec());
    let changed = |change: &dyn Fn(&mut (u64, u32))| {
        let mut entries = sound.clone();
        entries.iter_mut().for_each(change);
        entries
    };
    let unsorted = sound.iter().rev().copied().collect();
    let twice = layout.sorted(sound.iter().flat_map(|&entry| [entry; 5]).collect());
    let next = sound.iter().map(|entry| entry.1).cycle().skip(1);
    vec![
        ("other offsets", sound.iter().zip(next).map(|(entry, offset)| (entry.0, offset)).collect()),
        ("in the middle of records", changed(&|entry| entry.1 += 8)),
        ("between the places of records", changed(&|entry| entry.1 += 3)),
        ("before the end", changed(&|entry| entry.1 = segment_bytes - 8)),
        ("at the end", changed(&|entry| entry.1 = segment_bytes)),
        ("beyond the end", changed(&|entry| entry.1 = u32::MAX - 7)),
        ("at the head", changed(&|entry| entry.1 = 0)),
        ("unsorted", unsorted),
        ("each five times", twice),
        ("one prefix for all", changed(&|entry| entry.0 = 5)),
    ]
}

#[test]
fn an_old_index_that_is_wrong_hides_nothing_and_is_replaced() {
    let entries = Place::new().entries(2);
    let mut cases = forgeries(&entries, 8192, Layout::Steps);
    let half = entries.iter().copied().step_by(2).collect();
    cases.extend([("empty", Vec::new()), ("one missing", sorted(entries[1..].to_vec())), ("half", sorted(half))]);
    for (case, forged) in &cases {
        for maps in [true, false] {
            let place = Place::new();
            place.write_old_index(2, forged);
            let what = format!("{case}, maps: {maps}");
            let before = place.files();
            let reader = place.open(maps, true);
            expect_all(&reader, &[], &what);
            expect_absent(&reader, &what);
            let (summary, damages) = check(&reader);
            assert_eq!((summary.stale_indexes, damages), (1, vec![]), "{what}");
            assert!(place.files() == before, "{what}: reading wrote something");
            let writer = place.open(maps, false);
            expect_all(&writer, &[], &what);
            expect_absent(&writer, &what);
            assert_eq!(check(&writer).0.stale_indexes, 0, "{what}");
            drop(writer);
            assert!(!place.index(2, "idx").exists() && place.index(2, "ids").exists(), "{what}");
            expect_all(&place.open(maps, true), &[], &what);
        }
    }
}

/// A collection goes by what there is, and not by what an index of the older form has of it.
#[test]
fn a_collection_counts_what_an_old_index_lacks() {
    let place = Place::new();
    place.write_old_index(2, &sorted(place.entries(2).into_iter().step_by(2).collect()));
    let writer = place.open(true, false);
    let limits = SweepLimits::default().dry_run(true);
    let swept = writer.sweep(&Roots::new(&[], &|_, _, _| Ok(())), &limits).unwrap();
    assert_eq!(swept.objects, OBJECTS - 1, "all but the one that the ref leads to");
}

#[test]
fn a_newer_index_that_leads_astray_hides_nothing() {
    for layout in LAYOUTS {
        for (case, forged) in forgeries(&Place::new().entries(2), 8192, layout) {
            for maps in [true, false] {
                let place = Place::new();
                place.write_index(2, layout, &forged);
                let what = format!("{layout:?}, {case}, maps: {maps}");
                let reader = place.open(maps, true);
                // Entries under other ids than those of the records are as good as missing, which only a check can tell.
                if case != "one prefix for all" {
                    expect_all(&reader, &[], &what);
                }
                expect_absent(&reader, &what);
                let (summary, damages) = check(&reader);
                assert_eq!((summary.stale_indexes, damages), (1, vec![]), "{what}");
                assert!(summary.stale_index_files[0].ends_with("00000002.ids"), "{what}");
            }
        }
    }
}

#[test]
fn a_damaged_block_of_an_index_is_no_answer_and_is_written_again() {
    let place = Place::new();
    let entries = Layout::Blocks.sorted(place.entries(2));
    place.write_index(2, Layout::Blocks, &entries);
    let sound = fs::read(place.index(2, "ids")).unwrap();
    for byte in (0..sound.len()).step_by(7) {
        for maps in [true, false] {
            let mut flipped = sound.clone();
            flipped[byte] ^= 16;
            fs::write(place.index(2, "ids"), &flipped).unwrap();
            let what = format!("byte {byte}, maps: {maps}");
            let reader = place.open(maps, true);
            expect_all(&reader, &[], &what);
            expect_absent(&reader, &what);
            assert_eq!(check(&reader).0.stale_indexes, 1, "{what}");
            drop(reader);
            expect_all(&place.open(maps, false), &[], &what);
            assert!(fs::read(place.index(2, "ids")).unwrap() == sound, "{what}");
        }
    }
}

/// An index that decays once it is open, in either layout, is no answer either.
#[test]
fn an_index_that_decays_after_it_was_opened_hides_nothing() {
    use std::os::unix::fs::FileExt;
    for (layout, maps) in LAYOUTS.into_iter().flat_map(|layout| [(layout, true), (layout, false)]) {
        let place = Place::new();
        place.write_index(2, layout, &layout.sorted(place.entries(2)));
        let path = place.index(2, "ids");
        let (sound, numbers) = (fs::read(&path).unwrap(), place.frames(2));
        let numbers: Vec<u64> = numbers.iter().flat_map(|frame| &frame.records).map(|record| record.number).collect();
        // In place: a file that was written anew would be another one.
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        for byte in (0..sound.len()).step_by(5) {
            let what = format!("{layout:?}, byte {byte}, maps: {maps}");
            file.write_all_at(&sound, 0).unwrap();
            let reader = place.open(maps, true);
            // Those of the first segment are looked for in the second before.
            assert!(reader.read(&oid(0).into()).unwrap().is_some(), "{what}");
            file.write_all_at(&[sound[byte] ^ 16], byte as u64).unwrap();
            for &number in &numbers {
                let object = reader.read(&oid(number).into()).unwrap();
                assert_eq!(object.unwrap_or_else(|| panic!("{what}: no {number}")).body(), body(number), "{what}");
            }
            expect_absent(&reader, &what);
        }
    }
}

#[test]
fn heads_of_indexes_that_make_no_sense_are_passed_over() {
    for (extension, layout) in [("idx", None), ("ids", Some(Layout::Steps)), ("ids", Some(Layout::Blocks))] {
        let place = Place::new();
        let entries = place.entries(2);
        match layout {
            None => place.write_old_index(2, &sorted(entries.clone())),
            Some(layout) => place.write_index(2, layout, &layout.sorted(entries.clone())),
        }
        let path = place.index(2, extension);
        let sound = fs::read(&path).unwrap();
        let head_bytes = if layout.is_none() { 32 } else { 40 };
        assert_eq!(check(&place.open(true, true)).0.stale_indexes, 0, "{extension} by hand is right");
        let bits = [0, 1, 3, 24, 25, 63, 64, u32::MAX].map(|bits| (12, bits.to_le_bytes().to_vec()));
        let counts = [0, 1, 1 << 32, 1 << 61, u64::MAX].map(|count: u64| (16, count.to_le_bytes().to_vec()));
        for (at, bytes) in bits.into_iter().chain(counts) {
            // The bits of a table that the layout does not have.
            if layout == Some(Layout::Blocks) && bytes == [0; 4] {
                continue;
            }
            let mut head = sound[..head_bytes].to_vec();
            head[at..at + bytes.len()].copy_from_slice(&bytes);
            let forged = match layout {
                Some(Layout::Blocks) => with_blocks(head, &Layout::Blocks.sorted(entries.clone())),
                _ => checked(head, &sound[head_bytes + 8..]),
            };
            fs::write(&path, forged).unwrap();
            for maps in [true, false] {
                let what = format!("{extension}, {layout:?}, {bytes:?} at {at}, maps: {maps}");
                let reader = place.open(maps, true);
                expect_all(&reader, &[], &what);
                expect_absent(&reader, &what);
                assert_eq!(check(&reader).0.stale_indexes, 1, "{what}");
            }
        }
    }
}

#[test]
fn an_index_left_over_from_another_segment_of_the_same_number_is_not_believed() {
    // Two histories part within segment 3.
    let one = Place(tempfile::tempdir().unwrap());
    let backend = DiskBackend::create(one.storage(), format_tag(), options(true)).unwrap();
    let mut next = 0;
    while !one.segment(3).exists() {
        append(&backend, next..next + BATCH);
        next += BATCH;
    }
    backend.close().unwrap();
    drop(backend);
    let other = Place::with(&one.files());
    append_all(&one.open(true, false), next..OBJECTS);
    append_all(&other.open(true, false), 2 * OBJECTS..3 * OBJECTS);
    for extension in ["idx", "ids"] {
        one.remove_indexes();
        assert!(other.open(true, false).read(&oid(NEVER).into()).unwrap().is_none());
        if extension == "idx" {
            other.write_old_index(3, &sorted(other.entries(3)));
        } else if !other.index(3, "ids").exists() {
            other.write_index(3, Layout::Blocks, &Layout::Blocks.sorted(other.entries(3)));
        }
        fs::copy(other.index(3, extension), one.index(3, extension)).unwrap();
        let reader = one.open(true, true);
        expect_all(&reader, &[], extension);
        expect_absent(&reader, extension);
        let (summary, damages) = check(&reader);
        assert_eq!((summary.stale_indexes, damages), (1, vec![]), "{extension}");
    }
}

#[test]
fn reading_writes_nothing_and_a_writer_leaves_nothing_behind() {
    for state in ["none", "old", "newer", "newest", "short"] {
        let place = Place::new();
        for number in 1..=3 {
            match state {
                "none" => {}
                "old" => place.write_old_index(number, &sorted(place.entries(number))),
                "newer" => place.write_index(number, Layout::Steps, &sorted(place.entries(number))),
                "newest" => place.write_index(number, Layout::Blocks, &Layout::Blocks.sorted(place.entries(number))),
                _ => fs::write(place.index(number, "ids"), "short").unwrap(),
            }
        }
        // What another process was writing when it died.
        fs::write(place.path("segments/next-ids-0000000000000001"), "cut off").unwrap();
        let before = place.files();
        let reader = place.open(true, true);
        expect_all(&reader, &[], state);
        expect_absent(&reader, state);
        check(&reader);
        reader.close().unwrap();
        drop(reader);
        assert!(place.files() == before, "{state}: reading wrote something");
        let writer = place.open(true, false);
        expect_absent(&writer, state);
        drop(writer);
        let sealed = (1..).take_while(|&number| place.segment(number + 1).exists()).count();
        assert!(!place.path("segments/next-ids-0000000000000001").exists(), "{state}");
        let names = place.indexes();
        assert!(names.iter().all(|name| name.extension().is_some_and(|end| end == "ids")), "{state}: {names:?}");
        assert_eq!(names.len(), sealed, "{state}: {names:?}");
        assert_eq!(check(&place.open(true, true)).0.stale_indexes, 0, "{state}");
    }
}

#[test]
fn an_old_index_is_replaced_in_the_background() {
    for right in [true, false] {
        let place = Place::new();
        let entries = sorted(place.entries(2));
        place.write_old_index(2, if right { &entries } else { &entries[1..] });
        let options = options(true).background(true);
        let backend = DiskBackend::open(place.storage(), None, options, false).unwrap();
        expect_all(&backend, &[], "in the background");
        expect_absent(&backend, "in the background");
        let start = Instant::now();
        while place.index(2, "idx").exists() {
            assert!(start.elapsed() < Duration::from_secs(20), "the old index is still there");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(check(&backend).0.stale_indexes, 0);
        expect_all(&backend, &[], "afterwards");
    }
}

#[test]
fn no_index_is_written_over_damage() {
    let place = Place::new();
    let at = place.frames(2)[1].at + 9;
    place.change(2, |bytes| bytes[at] ^= 1);
    expect_all(&place.open(true, false), &[], "damaged");
    expect_absent(&place.open(true, false), "damaged");
    assert!(!place.index(2, "ids").exists() && place.index(1, "ids").exists());
    place.change(2, |bytes| bytes[at] ^= 1);
    expect_absent(&place.open(true, false), "mended");
    assert!(place.index(2, "ids").exists());
}
