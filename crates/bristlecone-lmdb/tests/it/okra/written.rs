//! Files that Okra's own code wrote: `tests/data/okra/README.md` says how.

use std::{fs, path::Path};

use bristlecone_lmdb::okra::{Mode, OkraError, OkraMap, OkraOptions};

use super::model::{self, Contents};

fn key(number: u32) -> Vec<u8> {
    (number * 7919 % 100_003).to_be_bytes().to_vec()
}

/// The value of a number, as it was set first (`version` 0) or later (1).
fn value(mode: Mode, number: u32, version: u32) -> Vec<u8> {
    match mode {
        Mode::Store => (0..number % 24).map(|index| (number * 31 + version * 17 + index * 7) as u8).collect(),
        Mode::Index => (0..16)
            .map(|index| (number * number * (index + 3) + version * 29 + index * 101 + (number >> 3)) as u8)
            .collect(),
    }
}

/// What the maps hold: each number was set, then each third one again, and then each fifth one deleted.
fn contents(mode: Mode, numbers: u32) -> Contents {
    let kept = (0..numbers).filter(|number| number % 5 != 0);
    kept.map(|number| (key(number), value(mode, number, u32::from(number % 3 == 0)))).collect()
}

#[test]
fn files_of_okra_hold_what_ours_would() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/okra/written");
    let rows = fs::read_to_string(data.join("roots.csv")).unwrap();
    assert_eq!(rows.lines().count(), 4);
    for row in rows.lines().skip(1) {
        let columns: Vec<_> = row.split(',').collect();
        let mode = if columns[1] == "index" { Mode::Index } else { Mode::Store };
        let contents = contents(mode, columns[2].parse().unwrap());
        let dir = tempfile::tempdir().unwrap();
        fs::copy(data.join(columns[0]), dir.path().join("data.mdb")).unwrap();

        let (expected, level, hash) = model::build(mode, &contents);
        let is_emptied = contents.is_empty();
        assert_eq!(model::stored(dir.path()) == expected, !is_emptied, "{row}");
        let map = OkraMap::open(dir.path(), &OkraOptions::default()).unwrap();
        assert_eq!(map.mode(), mode);
        let reader = map.read().unwrap();
        let root = reader.root().unwrap();
        assert_eq!((root.level, root.hash.0), (level, hash), "{row}");
        // Okra says the same of it, unless it deleted the last entry.
        assert_eq!(format!("{},{}", root.level, root.hash) == columns[3..].join(","), !is_emptied, "{row}");
        let entries = reader.entries().unwrap().map(|entry| entry.unwrap());
        assert!(entries.eq(contents.iter().map(|(key, value)| (key.as_slice(), value.as_slice()))), "{row}");
        match reader.check() {
            Ok(_) => assert!(!is_emptied, "{row}"),
            Err(OkraError::Damaged { level: 1, key: None, .. }) => assert!(is_emptied, "{row}"),
            Err(error) => panic!("{row}: {error}"),
        }
        drop(reader);

        // A change leaves what it would leave in a map of our own.
        let mut changed = contents;
        let mut writer = map.write().unwrap();
        for number in 1000..1040 {
            writer.insert(&key(number), &value(mode, number, 0)).unwrap();
            changed.insert(key(number), value(mode, number, 0));
        }
        if let Some((first, _)) = changed.pop_first() {
            writer.remove(&first).unwrap();
        }
        writer.commit().unwrap();
        map.read().unwrap().check().unwrap();
        drop(map);
        assert!(model::stored(dir.path()) == model::build(mode, &changed).0, "{row}");
    }
}
