//! The root and the bytes are a function of the entries: random changes against the model.

use std::{fs, panic::AssertUnwindSafe, path::Path};

use bristlecone_lmdb::okra::{Mode, OkraError, OkraMap, OkraOptions, OkraWriter};

use super::{
    Numbers, create, in_a_child,
    model::{self, Contents},
    set_many,
};
use crate::backend::growth::limit_files;

/// How random changes are made.
struct Plan {
    seed: u64,
    mode: Mode,
    /// Keys are numbers below this one, of one to four bytes.
    keys: u64,
    /// Of 100 entries, about so many are boundaries.
    boundaries: u64,
    /// Of 100 changes, so many are removals.
    removals: u64,
    batches: u64,
    changes_max: u64,
}

/// A key; short ones are beginnings of longer ones.
fn key(number: u64) -> Vec<u8> {
    let bytes = (number as u32).to_be_bytes();
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count().min(3);
    bytes[zeros..].to_vec()
}

/// A value, such that the entry is a boundary or is not.
fn value(mode: Mode, key: &[u8], boundary: bool, numbers: &mut Numbers) -> Vec<u8> {
    let first = |hash: &[u8]| hash[0] < 8;
    if mode == Mode::Index {
        let mut hash = [0; 16].map(|_: u8| numbers.below(256) as u8);
        hash[0] = if boundary { numbers.below(8) as u8 } else { 8 + numbers.below(248) as u8 };
        return hash.to_vec();
    }
    loop {
        let len = numbers.below(9) as usize;
        let value = numbers.below(u64::MAX).to_le_bytes()[..len].to_vec();
        let lens = [key, &value].map(|bytes| (bytes.len() as u32).to_be_bytes());
        let hash = blake3::hash(&[&lens[0], key, &lens[1], &value].concat());
        if first(hash.as_bytes()) == boundary {
            return value;
        }
    }
}

/// Makes one change in both.
fn change(plan: &Plan, numbers: &mut Numbers, writer: &mut OkraWriter<'_>, contents: &mut Contents) {
    let key = key(numbers.below(plan.keys));
    if numbers.below(100) < plan.removals {
        contents.remove(&key);
        return writer.remove(&key).unwrap();
    }
    let boundary = numbers.below(100) < plan.boundaries;
    let value = value(plan.mode, &key, boundary, numbers);
    writer.insert(&key, &value).unwrap();
    contents.insert(key, value);
}

fn run(plan: &Plan) {
    let dir = tempfile::tempdir().unwrap();
    let mut numbers = Numbers(plan.seed);
    let mut contents = Contents::new();
    let mut map = create(dir.path(), plan.mode);
    for batch in 0..plan.batches {
        let place = || format!("seed {}, boundaries {}, batch {batch}", plan.seed, plan.boundaries);
        let mut writer = map.write().unwrap();
        let before = contents.clone();
        for _ in 0..1 + numbers.below(plan.changes_max) {
            change(plan, &mut numbers, &mut writer, &mut contents);
            match numbers.below(60) {
                // What is read meanwhile has the changes, and does not change what comes out.
                0 => {
                    let key = key(numbers.below(plan.keys));
                    assert_eq!(writer.entries().unwrap().get(&key).unwrap(), contents.get(&key).map(Vec::as_slice));
                }
                1 => assert_eq!(writer.root().unwrap().hash.0, model::build(plan.mode, &contents).2, "{}", place()),
                _ => {}
            }
        }
        if numbers.below(8) == 0 {
            writer.abort();
            contents = before;
        } else {
            let root = writer.commit().unwrap();
            let (_, level, hash) = model::build(plan.mode, &contents);
            assert_eq!((root.level, root.hash.0), (level, hash), "{}", place());
        }
        if batch % 8 == 7 || batch + 1 == plan.batches {
            drop(map);
            assert!(model::stored(dir.path()) == model::build(plan.mode, &contents).0, "{}", place());
            map = OkraMap::open(dir.path(), &OkraOptions::default().sync(false)).unwrap();
            let checked = map.read().unwrap().check().unwrap();
            assert_eq!(checked.nodes[0], contents.len() as u64 + 1);
        }
    }
}

/// The bytes of a map are those that its entries make, however they came about.
#[test]
fn random_batches_leave_the_bytes_of_the_model() {
    for seed in 0..6 {
        for (boundaries, mode) in
            [(0, Mode::Index), (3, Mode::Store), (40, Mode::Index), (95, Mode::Index), (50, Mode::Store)]
        {
            // Few keys: every change meets another one, and the map is emptied now and then.
            run(&Plan { seed, mode, keys: 60, boundaries, removals: 55, batches: 40, changes_max: 25 });
            run(&Plan { seed, mode, keys: 3000, boundaries, removals: 30, batches: 16, changes_max: 500 });
        }
    }
}

/// Many nodes on the higher levels, so that those split and merge too.
#[test]
fn tall_trees_keep_the_bytes_of_the_model() {
    for (seed, boundaries, changes_max) in [(1, 100, 1), (2, 97, 40), (3, 100, 3000)] {
        let dir = tempfile::tempdir().unwrap();
        let mut numbers = Numbers(seed);
        let mut contents = Contents::new();
        let map = create(dir.path(), Mode::Index);
        for number in 0..20_000 {
            let key = key(number);
            let boundary = numbers.below(100) < boundaries;
            contents.insert(key.clone(), value(Mode::Index, &key, boundary, &mut numbers));
        }
        let mut writer = map.write().unwrap();
        writer.load_sorted(&contents).unwrap();
        assert!(writer.commit().unwrap().level >= 4);
        let plan = Plan { seed, mode: Mode::Index, keys: 20_000, boundaries, removals: 30, batches: 30, changes_max };
        for batch in 0..plan.batches {
            let mut writer = map.write().unwrap();
            for _ in 0..changes_max {
                change(&plan, &mut numbers, &mut writer, &mut contents);
            }
            let root = writer.commit().unwrap();
            let (_, level, hash) = model::build(Mode::Index, &contents);
            assert_eq!((root.level, root.hash.0), (level, hash), "seed {seed}, batch {batch}");
        }
        drop(map);
        assert!(model::stored(dir.path()) == model::build(Mode::Index, &contents).0, "seed {seed}");
    }
}

#[test]
fn what_cannot_be_an_entry_is_refused_and_harms_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let map = create(dir.path(), Mode::Store);
    let mut writer = map.write().unwrap();
    writer.insert(&[1; 510], b"as long as it may be").unwrap();
    assert!(matches!(writer.insert(&[1; 511], b""), Err(OkraError::KeyTooLong { bytes: 511 })));
    assert!(matches!(writer.insert(b"", b"the anchor's"), Err(OkraError::KeyEmpty)));
    assert!(matches!(writer.remove(&[1; 600]), Err(OkraError::KeyTooLong { bytes: 600 })));
    // LMDB could not write it. It is zeroes that nobody looks at, and so takes no memory.
    let long = writer.insert(b"long", &vec![0; 2 << 30]).unwrap_err();
    assert!(matches!(long, OkraError::ValueTooLong { bytes: 0x8000_0000 }), "{long:?}");
    assert!(long.to_string().contains("and this one 2147483648: LMDB's own bound is 4294967295"), "{long}");
    writer.commit().unwrap();
    let reader = map.read().unwrap();
    assert_eq!(reader.get(&[1; 510]).unwrap(), Some(&b"as long as it may be"[..]));
    assert!(matches!(reader.get(&[1; 511]), Err(OkraError::KeyTooLong { bytes: 511 })));
    assert!(matches!(reader.get(b""), Err(OkraError::KeyEmpty)));

    let dir = tempfile::tempdir().unwrap();
    let map = create(dir.path(), Mode::Index);
    let mut writer = map.write().unwrap();
    assert!(matches!(writer.insert(b"a", &[0; 17]), Err(OkraError::NoHash { bytes: 17 })));
    assert!(matches!(writer.insert(b"a", &[0; 15]), Err(OkraError::NoHash { bytes: 15 })));
    writer.insert(b"a", &[7; 16]).unwrap();
    writer.commit().unwrap();
    assert_eq!(map.read().unwrap().get(b"a").unwrap(), Some(&[7; 16][..]));
}

#[test]
fn a_bulk_load_wants_an_empty_map_and_ascending_keys() {
    let dir = tempfile::tempdir().unwrap();
    let map = create(dir.path(), Mode::Store);
    let mut writer = map.write().unwrap();
    let failed = writer.load_sorted([("a", "1"), ("c", "2"), ("b", "3")]);
    assert!(matches!(failed, Err(OkraError::Unsorted { key }) if key == b"b"));
    assert!(matches!(writer.insert(b"d", b"4"), Err(OkraError::Failed { .. })));
    assert!(matches!(writer.remove(b"d"), Err(OkraError::Failed { .. })));
    assert!(matches!(writer.root(), Err(OkraError::Failed { .. })));
    assert!(matches!(writer.commit(), Err(OkraError::Failed { .. })));
    assert_eq!(map.read().unwrap().first().unwrap(), None, "nothing of the failed load is there");

    let mut writer = map.write().unwrap();
    let mut entries = [("a", "1"), ("b", "2")].into_iter();
    let ends = std::iter::from_fn(|| Some(entries.next().expect("a third entry")));
    assert!(std::panic::catch_unwind(AssertUnwindSafe(|| writer.load_sorted(ends))).is_err());
    assert!(matches!(writer.commit(), Err(OkraError::Failed { .. })), "a load that did not end is no map");
    assert_eq!(map.read().unwrap().first().unwrap(), None);

    let mut writer = map.write().unwrap();
    assert!(matches!(writer.load_sorted([("a", "1"), ("a", "2")]), Err(OkraError::Unsorted { .. })));
    drop(writer);
    let mut writer = map.write().unwrap();
    writer.insert(b"a", b"1").unwrap();
    assert!(matches!(writer.load_sorted([("b", "1")]), Err(OkraError::NotEmpty { .. })));
    drop(writer);
    let mut writer = map.write().unwrap();
    assert_eq!(writer.load_sorted(Vec::<(&str, &str)>::new()).unwrap(), 0);
    assert_eq!(writer.load_sorted([("a", "foo"), ("c", "baz")]).unwrap(), 2);
    assert_eq!(writer.commit().unwrap().hash.to_string(), "bcc54f494ba524b62accf2c03cfe2d1b");
}

#[test]
fn a_full_map_says_so_and_stays_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let options = OkraOptions::default().sync(false).map_bytes_max(1 << 20);
    let map = OkraMap::create(dir.path(), &options).unwrap();
    let root = set_many(&map, [(b"a", b"foo")]);
    let mut writer = map.write().unwrap();
    for number in 0..100_000_u32 {
        writer.insert(&number.to_be_bytes(), b"a value of a few bytes").unwrap();
    }
    assert!(matches!(writer.commit(), Err(OkraError::MapFull { bytes_max: 0x10_0000, .. })));
    assert_eq!(map.read().unwrap().root().unwrap(), root);
    map.read().unwrap().check().unwrap();
}

/// The body of a child, whose files may not become longer than a bound.
fn fill_the_disk(dir: &Path) {
    let map = OkraMap::open(dir, &OkraOptions::default()).unwrap();
    let root = map.read().unwrap().root().unwrap();
    let bytes = fs::metadata(map.file()).unwrap().len();
    let set_all = || {
        let mut writer = map.write().unwrap();
        (0..20_000_u32).for_each(|number| writer.insert(&number.to_be_bytes(), &[7; 100]).unwrap());
        writer.commit()
    };
    // Within a write of LMDB's, and right before one.
    for room in [777, (1 << 18) + 777, 1 << 19] {
        let before = limit_files(bytes + room);
        let refused = set_all();
        assert!(matches!(refused, Err(OkraError::NoSpace { .. })), "{room}: {refused:?}");
        assert_eq!(map.read().unwrap().check().unwrap().root, root);
        limit_files(before);
    }
    assert_ne!(set_all().unwrap(), root);
    map.read().unwrap().check().unwrap();
}

#[test]
fn a_full_disk_says_so_and_the_map_stays_as_it_was() {
    const DIR: &str = "BRISTLECONE_TEST_OKRA_FULL";
    if let Ok(dir) = std::env::var(DIR) {
        fill_the_disk(Path::new(&dir));
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let map = create(dir.path(), Mode::Store);
    set_many(&map, [(b"a", b"foo")]);
    drop(map);
    let child = in_a_child("batches::a_full_disk_says_so_and_the_map_stays_as_it_was", DIR, dir.path());
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
}
