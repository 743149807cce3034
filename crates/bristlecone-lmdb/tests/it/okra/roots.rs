//! Known roots: those of Okra, for maps that are filled in every way there is.

use bristlecone_lmdb::okra::{Mode, OkraRoot};

use super::{create, model, set_many};

/// The entries of a row: keys are numbers, and values the first bytes of their hashes.
fn entries(count: u32, value_bytes: usize) -> Vec<([u8; 4], Vec<u8>)> {
    let keys = (0..count).map(u32::to_be_bytes);
    keys.map(|key| (key, blake3::hash(&key).as_bytes()[..value_bytes].to_vec())).collect()
}

fn text(root: OkraRoot) -> String {
    format!("{},{}", root.level, root.hash)
}

#[test]
fn roots_are_those_of_okra_whichever_way_a_map_is_filled() {
    let rows = include_str!("../../data/okra/roots.csv");
    for row in rows.lines().skip(1) {
        let columns: Vec<_> = row.split(',').collect();
        let value_bytes = match columns[1] {
            "blake3(key)[..8]" => 8,
            "blake3(key)[..16]" => 16,
            value => {
                assert_eq!(value, "none");
                0
            }
        };
        let entries = entries(columns[0].parse().unwrap(), value_bytes);
        let expected = format!("{},{}", columns[2], columns[3]);

        let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let maps = dirs.each_ref().map(|dir| create(dir.path(), Mode::Store));
        let mut writer = maps[0].write().unwrap();
        assert_eq!(writer.load_sorted(entries.iter().map(|(key, value)| (key, value))).unwrap(), entries.len() as u64);
        assert_eq!(text(writer.commit().unwrap()), expected, "loaded: {row}");

        let root = set_many(&maps[1], entries.iter().rev().map(|(key, value)| (key, value)));
        assert_eq!(text(root), expected, "in one batch: {row}");

        for batch in entries.chunks(entries.len().div_ceil(40).max(1)) {
            set_many(&maps[2], batch.iter().map(|(key, value)| (key, value)));
        }
        assert_eq!(text(maps[2].read().unwrap().root().unwrap()), expected, "in many batches: {row}");

        let contents = entries.into_iter().map(|(key, value)| (key.to_vec(), value)).collect();
        let (stored, ..) = model::build(Mode::Store, &contents);
        for (map, dir) in maps.into_iter().zip(&dirs) {
            map.read().unwrap().check().unwrap();
            drop(map);
            assert!(model::stored(dir.path()) == stored, "{row}");
        }
    }
}

#[test]
fn small_maps_of_text_have_the_roots_of_okra() {
    let rows: [(&[(&str, &str)], &str); 3] = [
        (&[("a", "foo")], "1,4673dadad02d3f337faf434904407d4e"),
        (&[("a", "foo"), ("c", "baz")], "1,bcc54f494ba524b62accf2c03cfe2d1b"),
        (&[("a", "foo"), ("b", "bar"), ("c", "baz")], "1,6246b94074d09feb644be1a1c12c1f50"),
    ];
    for (entries, expected) in rows {
        let dir = tempfile::tempdir().unwrap();
        let map = create(dir.path(), Mode::Store);
        assert_eq!(text(set_many(&map, entries.iter().copied())), expected);
    }
}

#[test]
fn a_map_whose_entries_were_all_removed_is_the_empty_one() {
    for count in [1, 2, 40, 3000] {
        let dir = tempfile::tempdir().unwrap();
        let map = create(dir.path(), Mode::Store);
        let entries = entries(count, 8);
        assert!(set_many(&map, entries.iter().map(|(key, value)| (key, value))).level > 0);
        let mut writer = map.write().unwrap();
        entries.iter().for_each(|(key, _)| writer.remove(key).unwrap());
        assert_eq!(text(writer.commit().unwrap()), "0,af1349b9f5f9a1a6a0404dea36dcc949");
        map.read().unwrap().check().unwrap();
        drop(map);
        assert_eq!(model::stored(dir.path()), model::build(Mode::Store, &model::Contents::new()).0);
    }
}
