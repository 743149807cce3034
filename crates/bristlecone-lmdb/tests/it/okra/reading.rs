//! Reading: ranges from both ends, cursors, snapshots.

use std::ops::Bound::{Excluded, Included, Unbounded};

use bristlecone_lmdb::okra::{Entry, Mode, OkraSnapshot};

use super::{Numbers, create, model::Contents, set_many};

fn sample(count: u32) -> Contents {
    (0..count).map(|n| ((n * 3).to_be_bytes()[2..].to_vec(), format!("value {n}").into_bytes())).collect()
}

fn owned((key, value): Entry<'_>) -> (Vec<u8>, Vec<u8>) {
    (key.to_vec(), value.to_vec())
}

#[test]
fn ranges_are_those_of_an_ordered_map_from_both_ends() {
    let dir = tempfile::tempdir().unwrap();
    let map = create(dir.path(), Mode::Store);
    let contents = sample(400);
    set_many(&map, &contents);
    let reader = map.read().unwrap();
    let mut numbers = Numbers(5);
    for round in 0..2000 {
        let mut bound = || {
            let key = (numbers.below(1300) as u16).to_be_bytes().to_vec();
            match numbers.below(5) {
                0 => Unbounded,
                1 | 2 => Included(key),
                _ => Excluded(key),
            }
        };
        let (from, to) = (bound(), bound());
        let within = |key: &[u8]| {
            (match &from {
                Included(from) => key >= from.as_slice(),
                Excluded(from) => key > from.as_slice(),
                Unbounded => true,
            }) && match &to {
                Included(to) => key <= to.as_slice(),
                Excluded(to) => key < to.as_slice(),
                Unbounded => true,
            }
        };
        let mut expected: std::collections::VecDeque<_> =
            contents.iter().filter(|(key, _)| within(key)).map(|(key, value)| (key.clone(), value.clone())).collect();
        let mut range = reader.range((from.clone(), to.clone())).unwrap();
        let way = numbers.below(3);
        loop {
            let front = way == 0 || (way == 2 && numbers.below(2) == 0);
            let (found, wanted) =
                if front { (range.next(), expected.pop_front()) } else { (range.next_back(), expected.pop_back()) };
            assert_eq!(found.map(|entry| owned(entry.unwrap())), wanted, "round {round}: {from:?} {to:?}");
            if wanted.is_none() {
                break;
            }
        }
        assert!(range.next().is_none() && range.next_back().is_none());
    }
}

#[test]
fn a_cursor_goes_where_it_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    let map = create(dir.path(), Mode::Store);
    let empty = map.read().unwrap();
    assert_eq!((empty.first().unwrap(), empty.last().unwrap()), (None, None));
    let mut cursor = empty.cursor().unwrap();
    assert_eq!(cursor.next().unwrap(), None);
    assert_eq!(cursor.previous().unwrap(), None);
    cursor.seek(b"a").unwrap();
    assert_eq!(cursor.next().unwrap(), None);

    let contents = sample(300);
    set_many(&map, &contents);
    assert_eq!(empty.entries().unwrap().count(), 0, "a snapshot stays as it is");
    let reader = map.read().unwrap();
    let all: Vec<_> = contents.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    assert_eq!(reader.first().unwrap().map(owned).as_ref(), all.first());
    assert_eq!(reader.last().unwrap().map(owned).as_ref(), all.last());
    let mut cursor = reader.cursor().unwrap();
    let mut there = Vec::new();
    while let Some(entry) = cursor.next().unwrap() {
        there.push(owned(entry));
    }
    assert_eq!(there, all);
    let mut back = Vec::new();
    while let Some(entry) = cursor.previous().unwrap() {
        back.push(owned(entry));
    }
    back.reverse();
    assert_eq!(back, all);
    assert_eq!(cursor.next().unwrap().map(owned).as_ref(), all.first(), "it turned round before the first one");
    for key in [&[0, 4][..], &[0, 6]] {
        cursor.seek(key).unwrap();
        assert_eq!(cursor.next().unwrap().unwrap().0, [0, 6], "it went before the entry");
        assert_eq!(cursor.next().unwrap().unwrap().0, [0, 9]);
        cursor.seek(key).unwrap();
        assert_eq!(cursor.previous().unwrap().unwrap().0, [0, 3]);
        assert_eq!(cursor.next().unwrap().unwrap().0, [0, 6]);
    }
    cursor.seek(&[]).unwrap();
    assert_eq!(cursor.next().unwrap().map(owned).as_ref(), all.first());
    cursor.seek(&[]).unwrap();
    assert_eq!(cursor.previous().unwrap(), None);
    cursor.seek(&[0xff]).unwrap();
    assert_eq!(cursor.next().unwrap(), None);
    assert_eq!(cursor.previous().unwrap().map(owned).as_ref(), all.last());
    assert!(cursor.seek(&[0; 1000]).is_err());
    assert_eq!(cursor.next().unwrap().map(owned).as_ref(), all.first(), "it went before the first one");
    cursor.seek_end();
    assert_eq!(cursor.previous().unwrap().map(owned).as_ref(), all.last());
    cursor.seek_start();
    assert_eq!(cursor.next().unwrap().map(owned).as_ref(), all.first());
    for (key, value) in &contents {
        assert_eq!(reader.get(key).unwrap(), Some(value.as_slice()));
        assert!(reader.contains(key).unwrap());
    }
    assert!(!reader.contains(&[0, 4]).unwrap());
    let long = [9; 300];
    set_many(&map, &Contents::from([(long.to_vec(), b"long".to_vec())]));
    assert_eq!(map.read().unwrap().get(&long).unwrap(), Some(&b"long"[..]));
}

/// Follows the nodes from the root down and returns the entries.
fn descend(reader: &OkraSnapshot<'_>, level: u8, key: Option<&[u8]>, entries: &mut Contents) {
    for child in reader.children(level, key).unwrap().unwrap() {
        assert_eq!(reader.node(level - 1, child.key.as_deref()).unwrap(), Some(child.hash));
        match (child.key, child.value) {
            (key, _) if level > 1 => descend(reader, level - 1, key.as_deref(), entries),
            (Some(key), Some(value)) => drop(entries.insert(key, value)),
            (key, value) => assert_eq!((key, value), (None, None)),
        }
    }
}

#[test]
fn the_nodes_below_the_root_lead_to_all_entries() {
    let dir = tempfile::tempdir().unwrap();
    let map = create(dir.path(), Mode::Store);
    let contents = sample(2000);
    set_many(&map, &contents);
    let reader = map.read().unwrap();
    let root = reader.root().unwrap();
    assert_eq!(reader.node(root.level, None).unwrap(), Some(root.hash));
    let mut found = Contents::new();
    descend(&reader, root.level, None, &mut found);
    assert_eq!(found, contents);
    assert_eq!(reader.children(0, None).unwrap(), None);
    assert_eq!(reader.children(root.level + 1, None).unwrap(), None);
    assert_eq!(reader.children(1, Some(b"nothing here")).unwrap(), None);
    assert_eq!(reader.node(0xff, None).unwrap(), None);
    let checked = reader.check().unwrap();
    assert_eq!(checked.root, root);
    assert_eq!(reader.node_count().unwrap().0, checked.nodes.iter().sum::<u64>());
}

#[test]
fn many_readers_and_a_writer_do_not_disturb_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let map = create(dir.path(), Mode::Store);
    set_many(&map, &sample(100));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..300 {
                    let reader = map.read().unwrap();
                    let checked = reader.check().unwrap();
                    assert_eq!(checked.root, reader.root().unwrap());
                }
            });
        }
        for number in 0..100_u32 {
            let mut writer = map.write().unwrap();
            writer.insert(&number.to_le_bytes(), b"changed").unwrap();
            writer.remove(&(number * 3).to_be_bytes()[2..]).unwrap();
            writer.commit().unwrap();
        }
    });
}
