//! Maps against sorted maps of the standard library, and against trees: any keys, any order of edits, one root.

use std::{
    collections::BTreeMap,
    ops::Bound::{self, Excluded, Included, Unbounded},
    sync::{Arc, atomic::Ordering::Relaxed},
};

use bristlecone::{
    CommitId, Counted, DiskOptions, Durability, Error, Info, Map, MapCursor, MapKey, MemoryBackend, Native, PathError,
    Repo, SweepLimits, TypedMap, core::FormatError,
};
use bristlecone_testkit::generate::Rng;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A key of any bytes, from few enough that some come again.
fn key(rng: &mut Rng) -> Vec<u8> {
    match rng.below(12) {
        0 => Vec::new(),
        1 => vec![b'/'; rng.below(4) as usize],
        2 => vec![0; rng.below(5) as usize],
        3 => vec![7; [100, 127, 128, 129, 1000, 4096][rng.below(6) as usize]],
        4 => {
            let bytes = 60 + rng.below(80) as usize;
            rng.bytes(bytes)
        }
        5 => (rng.below(40) as u32).to_be_bytes().to_vec(),
        _ => (rng.below(3000) as u16).to_be_bytes().to_vec(),
    }
}

fn value(rng: &mut Rng) -> Vec<u8> {
    let bytes = match rng.below(20) {
        0 => 49 + rng.below(300),
        1 => 5000,
        n => n,
    };
    rng.bytes(bytes as usize)
}

fn pairs(map: &Map) -> Vec<(Vec<u8>, Vec<u8>)> {
    map.iter().unwrap().map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect()
}

fn bound(rng: &mut Rng) -> Bound<Vec<u8>> {
    match rng.below(5) {
        0 => Unbounded,
        1 | 2 => Included(key(rng)),
        _ => Excluded(key(rng)),
    }
}

/// The entries of the model within bounds; a sorted map panics at bounds the wrong way round.
fn within<'m>(model: &'m Model, from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>) -> Vec<(&'m Vec<u8>, &'m Vec<u8>)> {
    let after = |key: &Vec<u8>| match from {
        Unbounded => true,
        Included(from) => key >= from,
        Excluded(from) => key > from,
    };
    let before = |key: &Vec<u8>| match to {
        Unbounded => true,
        Included(to) => key <= to,
        Excluded(to) => key < to,
    };
    model.iter().filter(|(key, _)| after(key) && before(key)).collect()
}

/// Compares all that can be asked of a map with the model.
fn compare(map: &Map, model: &Model, rng: &mut Rng) {
    let all: Vec<_> = model.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    assert_eq!(pairs(map), all);
    assert_eq!(map.len().unwrap(), model.len() as u64);
    assert_eq!(map.is_empty().unwrap(), model.is_empty());
    let owned = |entry: Option<(bristlecone::Bytes<'_>, bristlecone::Bytes<'_>)>| {
        entry.map(|(key, value)| (key.to_vec(), value.to_vec()))
    };
    assert_eq!(owned(map.first().unwrap()), all.first().cloned());
    assert_eq!(owned(map.last().unwrap()), all.last().cloned());
    for _ in 0..30 {
        let key = key(rng);
        assert_eq!(map.get(&key).unwrap().as_deref(), model.get(&key).map(Vec::as_slice));
        assert_eq!(map.contains(&key).unwrap(), model.contains_key(&key));
        assert_eq!(map.rank(&key).unwrap(), model.range(..key).count() as u64);
        let index = rng.below(model.len() as u64 + 2);
        assert_eq!(owned(map.nth(index).unwrap()), all.get(index as usize).cloned(), "entry {index}");
        let (from, to) = (bound(rng), bound(rng));
        let expected = within(model, &from, &to);
        assert_eq!(map.count((from.clone(), to.clone())).unwrap(), expected.len() as u64, "{from:?} {to:?}");
        let mut range = map.range((from, to)).unwrap();
        let mut left = expected.into_iter();
        loop {
            let (found, wanted) =
                if rng.below(2) == 0 { (range.next(), left.next()) } else { (range.next_back(), left.next_back()) };
            let found = found.transpose().unwrap();
            assert_eq!(found.as_ref().map(|(key, _)| key.to_vec()), wanted.map(|(key, _)| key.clone()));
            assert_eq!(found.map(|(_, value)| value.to_vec()), wanted.map(|(_, value)| value.clone()));
            if wanted.is_none() {
                break;
            }
        }
    }
    walk(&mut map.cursor().unwrap(), &all, rng);
}

/// Goes to and fro with a cursor. The model's cursor is a gap before an entry, or on it.
fn walk(cursor: &mut MapCursor<'_>, all: &[(Vec<u8>, Vec<u8>)], rng: &mut Rng) {
    let (mut at, mut on) = (0, false);
    for _ in 0..300 {
        let found = match rng.below(40) {
            0 => {
                let key = key(rng);
                cursor.seek(&key).unwrap();
                (at, on) = (all.partition_point(|(known, _)| *known < key), false);
                cursor.item().unwrap()
            }
            1 => {
                cursor.seek_start();
                (at, on) = (0, false);
                cursor.item().unwrap()
            }
            2 => {
                cursor.seek_end().unwrap();
                (at, on) = (all.len(), false);
                cursor.item().unwrap()
            }
            3..25 => {
                at = (at + usize::from(on)).min(all.len());
                on = at < all.len();
                cursor.next().unwrap()
            }
            _ => {
                on = at > 0;
                at = at.saturating_sub(1);
                cursor.previous().unwrap()
            }
        };
        // What is lent twice is the same, and as what is kept.
        let found = found.map(|item| {
            let value = item.value().unwrap();
            assert_eq!(item.value().unwrap(), value);
            assert_eq!(&item.contents().unwrap()[..], value);
            (item.key().to_vec(), value.to_vec())
        });
        assert_eq!(found, all.get(at).filter(|_| on).cloned());
    }
}

fn edit(map: &mut Map, model: &mut Model, rng: &mut Rng) {
    let made: Vec<_> =
        (0..1 + rng.below(200)).map(|_| (key(rng), if rng.below(3) == 0 { None } else { Some(value(rng)) })).collect();
    let set = |model: &mut Model, key: &Vec<u8>, value: &Option<Vec<u8>>| match value {
        Some(value) => _ = model.insert(key.clone(), value.clone()),
        None => _ = model.remove(key),
    };
    made.iter().for_each(|(key, value)| set(model, key, value));
    if rng.below(2) == 0 {
        return map.apply(made.iter().map(|(key, value)| (key, value.as_deref()))).unwrap();
    }
    for (key, value) in &made {
        match value {
            Some(value) if rng.below(2) == 0 => map.insert(key, value).unwrap(),
            Some(value) => map.entry(key).unwrap().insert(value).unwrap(),
            None if rng.below(2) == 0 => map.remove(key).unwrap(),
            None => map.entry(key).unwrap().remove().unwrap(),
        }
    }
}

/// Every way to make a map of these entries.
fn roots(repo: &Repo, model: &Model) {
    let loaded = repo.load_map(model).unwrap();
    assert_eq!(pairs(&loaded), model.clone().into_iter().collect::<Vec<_>>());
    let mut applied = repo.map();
    applied.apply(model.iter().rev().map(|(key, value)| (key, Some(value)))).unwrap();
    assert_eq!(loaded.root().unwrap(), applied.root().unwrap());
    let mut inserted = repo.map();
    model.iter().for_each(|(key, value)| inserted.insert(key, value).unwrap());
    assert_eq!(loaded.root().unwrap(), inserted.root().unwrap());
    if model.keys().all(|key| !key.is_empty() && !key.contains(&b'/')) {
        let mut tree = repo.tree();
        model
            .iter()
            .for_each(|(key, value)| tree.set(bristlecone::Path::from_bytes(key.clone()).unwrap(), value).unwrap());
        assert_eq!(loaded.root().unwrap(), tree.root().unwrap());
    }
}

fn follows_the_model(repo: &Repo, seed: u64, rounds: usize) {
    let mut rng = Rng::new(seed);
    let branch = repo.branch("map").unwrap();
    let (mut map, mut model) = (branch.map().unwrap(), Model::new());
    compare(&map, &model, &mut rng);
    for round in 0..rounds {
        edit(&mut map, &mut model, &mut rng);
        compare(&map, &model, &mut rng);
        if round % 2 == 0 {
            map.commit(&branch, &Info::message("a round")).unwrap();
            compare(&map, &model, &mut rng);
            map = branch.map().unwrap();
            compare(&map, &model, &mut rng);
        }
        assert_eq!(map.root().unwrap(), repo.load_map(&model).unwrap().root().unwrap());
    }
    roots(repo, &model);
    for key in model.keys() {
        map.remove(key).unwrap();
    }
    compare(&map, &Model::new(), &mut rng);
    assert_eq!(map.root().unwrap(), repo.tree().root().unwrap());
}

#[test]
fn a_map_is_a_sorted_map() {
    for seed in 0..4 {
        follows_the_model(&Repo::memory(), seed, 8);
        // The same where threads share what little there is.
        let repo = Repo::memory();
        repo.set_shared_min([2, 50][seed as usize % 2]);
        follows_the_model(&repo, seed, 8);
    }
    let dir = tempfile::tempdir().unwrap();
    let repo = Repo::create(dir.path().join("store"), Native::new(), DiskOptions::default()).unwrap();
    follows_the_model(&repo, 9, 8);
}

#[test]
fn options_of_the_format_hold_for_maps() {
    for native in [Native::new().inline(0), Native::new().split(false), Native::new().group(0).inline(512)] {
        let backend = std::sync::Arc::new(bristlecone::MemoryBackend::new());
        follows_the_model(&Repo::with_backend(native, backend), 5, 4);
    }
}

/// Keys that order by nothing but what is behind their first bytes, and keys of which each takes a piece.
#[test]
fn a_load_of_many_entries_is_their_insertion() {
    let repo = Repo::memory();
    let mut rng = Rng::new(3);
    let numbers = |count: u32| (0..count).map(|n| (n.to_be_bytes().to_vec(), n.to_le_bytes().to_vec())).collect();
    let long = |rng: &mut Rng| (rng.bytes(4000), Vec::new());
    let models: [Model; 5] = [
        numbers(1),
        numbers(2000),
        numbers(40_000),
        (0..3000).map(|_| long(&mut rng)).collect(),
        (0..20_000).map(|n| (vec![b'x'; (n % 70) as usize], rng.bytes(3))).chain(numbers(9000)).collect(),
    ];
    for model in &models {
        roots(&repo, model);
    }
}

/// Batches that only replace, of which some pieces get several edits: values as long as before, longer, and far ones.
#[test]
fn what_is_replaced_is_as_if_loaded() {
    let repo = Repo::memory();
    let mut rng = Rng::new(8);
    let mut model: Model = (0..30_000_u32).map(|n| (n.to_be_bytes().to_vec(), vec![0; 8])).collect();
    let mut map = repo.load_map(&model).unwrap();
    for (count, sizes) in
        [(5, [8, 8, 8]), (300, [8, 8, 8]), (9000, [8, 8, 8]), (300, [8, 9, 200]), (9000, [200, 8, 70])]
    {
        let edits: Vec<_> = (0..count)
            .map(|_| {
                let size = *rng.pick(&sizes);
                ((rng.below(30_000) as u32).to_be_bytes().to_vec(), rng.bytes(size))
            })
            .collect();
        map.apply(edits.iter().map(|(key, value)| (key, Some(value)))).unwrap();
        map.tree_mut().write().unwrap();
        model.extend(edits);
        assert_eq!(map.root().unwrap(), repo.load_map(&model).unwrap().root().unwrap());
        assert_eq!(map.len().unwrap(), 30_000);
        assert_eq!(pairs(&map), model.clone().into_iter().collect::<Vec<_>>());
    }
}

/// Keys ground so that their hashes rise, or fall: the poorest pieces.
#[test]
fn a_load_of_ground_keys_is_their_insertion() {
    let repo = Repo::memory();
    for rising in [true, false] {
        let mut best = if rising { 0 } else { u64::MAX };
        let mut model = Model::new();
        for n in 0..2_000_000_u32 {
            let key = n.to_be_bytes();
            let hash = bristlecone::core::native::step_hash(&key);
            let gap = u64::MAX / 3000;
            if (rising && hash > best && hash - best < gap) || (!rising && hash < best && best - hash < gap) {
                best = hash;
                model.insert(key.to_vec(), vec![1]);
            }
        }
        assert!(model.len() > 500, "{} keys", model.len());
        roots(&repo, &model);
    }
}

#[test]
fn what_is_not_sorted_is_refused_where_it_is() {
    let repo = Repo::memory();
    let mut loader = repo.map_loader();
    loader.push(b"", b"1").unwrap();
    loader.push(b"b", b"1").unwrap();
    for wrong in [&b"b"[..], b"a", b""] {
        match loader.push(wrong, b"2") {
            Err(Error::Format(FormatError::Unsorted { index: 2, step })) => {
                assert_eq!(step, bristlecone::escape(wrong));
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(loader.push(&[b'c'; 4097], b"2"), Err(Error::TooLarge { bytes: 4097, .. })));
    loader.push(b"c", b"3").unwrap();
    assert_eq!(loader.count(), 3);
    assert_eq!(loader.finish().unwrap().len().unwrap(), 3);
    let stored = |refused: bool| {
        let repo = Repo::memory();
        let mut loader = repo.map_loader();
        loader.push(b"b", vec![1; 5000]).unwrap();
        if refused {
            let unsorted = loader.push(b"a", vec![2; 9000]);
            assert!(matches!(unsorted, Err(Error::Format(FormatError::Unsorted { index: 1, .. }))), "{unsorted:?}");
        }
        loader.finish().unwrap();
        repo.backend().stats().store_bytes
    };
    assert_eq!(stored(true), stored(false), "a large value that was refused is not stored");
    let mut map = repo.map();
    assert!(matches!(map.insert(&[0; 4097], b""), Err(Error::TooLarge { bytes: 4097, bytes_max: 4096, .. })));
    assert!(map.apply([(vec![1], Some(b"1")), (vec![0; 5000], None)]).is_err());
    assert!(map.is_empty().unwrap() && !map.tree().is_edited(), "a batch is applied as a whole");
}

#[test]
fn differences_are_those_of_the_models() {
    let repo = Repo::memory();
    for seed in 0..6 {
        let mut rng = Rng::new(seed);
        let (mut map, mut model) = (repo.map(), Model::new());
        for _ in 0..5 {
            edit(&mut map, &mut model, &mut rng);
        }
        if seed % 2 == 0 {
            map.tree_mut().write().unwrap();
        }
        let (mut after, mut changed) = (map.clone(), model.clone());
        edit(&mut after, &mut changed, &mut rng);
        if seed % 3 == 0 {
            after.tree_mut().write().unwrap();
        }
        let found: Vec<_> = map
            .diff(&after)
            .unwrap()
            .map(|found| found.unwrap())
            .map(|found| (found.key.to_vec(), found.before.map(|b| b.to_vec()), found.after.map(|b| b.to_vec())))
            .collect();
        let keys: std::collections::BTreeSet<_> = model.keys().chain(changed.keys()).collect();
        let expected: Vec<_> = keys
            .into_iter()
            .filter(|key| model.get(*key) != changed.get(*key))
            .map(|key| (key.clone(), model.get(key).cloned(), changed.get(key).cloned()))
            .collect();
        assert_eq!(found, expected);
        assert_eq!(map.diff(&map.clone()).unwrap().count(), 0);
    }
}

#[test]
fn a_directory_that_edits_leave_the_same_is_no_difference() {
    let mut tree = Repo::memory().tree();
    tree.set("dir/x", "1").unwrap();
    tree.set("a", "1").unwrap();
    for written in [false, true] {
        if written {
            tree.write().unwrap();
        }
        let before = Map::from(tree.clone());
        let mut after = before.clone();
        after.tree_mut().set("dir/x", "1").unwrap();
        after.insert(b"a", b"2").unwrap();
        for (one, other) in [(&before, &after), (&after, &before)] {
            let keys: Vec<_> = one.diff(other).unwrap().map(|found| found.unwrap().key.to_vec()).collect();
            assert_eq!(keys, [b"a"]);
        }
        after.tree_mut().set("dir/x", "2").unwrap();
        let found: Vec<_> = before.diff(&after).unwrap().collect();
        assert!(matches!(&found[..], [Ok(_), Err(Error::NotAValue { key })] if key == "dir"), "{found:?}");
    }
}

#[test]
fn merges_are_those_of_the_models() {
    let repo = Repo::memory();
    for seed in 0..6 {
        let mut rng = Rng::new(seed);
        let (mut base, mut model) = (repo.map(), Model::new());
        edit(&mut base, &mut model, &mut rng);
        let (mut ours, mut our_model) = (base.clone(), model.clone());
        let (mut theirs, mut their_model) = (base.clone(), model.clone());
        edit(&mut ours, &mut our_model, &mut rng);
        edit(&mut theirs, &mut their_model, &mut rng);
        let (mut merged_model, mut conflicts) = (our_model.clone(), Vec::new());
        for key in model.keys().chain(our_model.keys()).chain(their_model.keys()) {
            let (before, here, there) = (model.get(key), our_model.get(key), their_model.get(key));
            if here == before {
                match there {
                    Some(value) => _ = merged_model.insert(key.clone(), value.clone()),
                    None => _ = merged_model.remove(key),
                }
            } else if there != before && here != there {
                conflicts.push(key.clone());
            }
        }
        conflicts.sort();
        conflicts.dedup();
        let merged = ours.merge(Some(&base), &theirs).unwrap();
        assert_eq!(merged.conflicts.iter().map(|conflict| conflict.key.clone()).collect::<Vec<_>>(), conflicts);
        assert_eq!(pairs(&merged.map), merged_model.into_iter().collect::<Vec<_>>());
        let other = theirs.merge(Some(&base), &ours).unwrap();
        assert_eq!(other.conflicts.iter().map(|conflict| conflict.key.clone()).collect::<Vec<_>>(), conflicts);
        assert_eq!(base.merge(Some(&base), &theirs).unwrap().map.root().unwrap(), theirs.root().unwrap());
        assert_eq!(ours.merge(Some(&base), &base).unwrap().map.root().unwrap(), ours.root().unwrap());
        let apart = ours.merge(None, &theirs).unwrap();
        let differ = our_model.iter().filter(|(key, value)| their_model.get(*key).is_some_and(|other| other != *value));
        assert_eq!(apart.conflicts.len(), differ.count());
    }
}

#[test]
fn what_is_no_value_is_named() {
    let repo = Repo::memory();
    let mut tree = repo.tree();
    tree.set("dir/x", "1").unwrap();
    tree.set("a", "1").unwrap();
    for written in [false, true] {
        if written {
            tree.write().unwrap();
        }
        let mut map = Map::from(tree.clone());
        assert!(matches!(map.get(b"dir"), Err(Error::NotAValue { key }) if key == "dir"));
        assert!(matches!(map.contains(b"dir"), Err(Error::NotAValue { .. })));
        assert!(matches!(map.last(), Err(Error::NotAValue { .. })));
        assert_eq!(map.len().unwrap(), 2);
        let mut cursor = map.cursor().unwrap();
        cursor.seek(b"b").unwrap();
        assert!(matches!(cursor.next().unwrap().unwrap().value(), Err(Error::NotAValue { .. })));
        drop(cursor);
        // A directory is not replaced without being removed first.
        let over = map.insert(b"dir", b"2").and_then(|()| map.root().map(drop));
        assert!(matches!(over, Err(Error::IsDirectory { path }) if path.to_string() == "dir"));
        let mut map = Map::from(tree.clone());
        map.insert(b"/", b"slash").unwrap();
        let over = map.apply([(b"dir", Some(b"2"))]).and_then(|()| map.root().map(drop));
        assert!(matches!(over, Err(Error::IsDirectory { path }) if path.to_string() == "dir"));
        let mut map = Map::from(tree.clone());
        map.apply([(b"dir", None), (b"dir", Some(b"2"))]).unwrap();
        assert_eq!(map.get(b"dir").unwrap().as_deref(), Some(&b"2"[..]));
        map.root().unwrap();
    }
}

#[test]
fn a_stored_directory_is_not_replaced_after_edits_below_it_that_came_to_nothing() {
    let mut tree = Repo::memory().tree();
    tree.set("dir/x", "1").unwrap();
    tree.write().unwrap();
    let mut map = Map::from(tree);
    map.insert(b"dir", b"2").unwrap();
    map.tree_mut().set("dir/y", "3").unwrap();
    map.tree_mut().remove("dir/y").unwrap();
    map.insert(b"dir", b"2").unwrap();
    let over = map.root();
    assert!(matches!(&over, Err(Error::IsDirectory { path }) if path.to_string() == "dir"), "{over:?}");
}

/// Checks the laws of a type of keys: the order of the bytes, and the way back.
fn keys_are_ordered<K: MapKey + Ord + Clone + std::fmt::Debug>(mut keys: Vec<K>) {
    keys.sort();
    keys.dedup();
    let mut map: TypedMap<K, u64> = Repo::memory().map().into();
    let numbered: Vec<(K, u64)> = keys.iter().cloned().zip(0..).collect();
    map.apply(numbered.iter().rev().cloned().map(|(key, n)| (key, Some(n)))).unwrap();
    let found: Vec<_> = map.iter().unwrap().map(|entry| entry.unwrap()).collect();
    assert_eq!(found, numbered);
    for pair in keys.windows(2) {
        let part = |key: &K| {
            let mut out = Vec::new();
            key.write_part(&mut out);
            out
        };
        assert!(part(&pair[0]) < part(&pair[1]), "{pair:?}");
        let both = [part(&pair[0]), part(&pair[1])].concat();
        let mut rest = &both[..];
        assert_eq!(K::read_part(&mut rest).unwrap(), pair[0]);
        assert_eq!(K::read_part(&mut rest).unwrap(), pair[1]);
        assert!(rest.is_empty());
    }
    if let Some(middle) = keys.get(keys.len() / 2) {
        assert_eq!(map.rank(middle).unwrap(), keys.len() as u64 / 2);
        assert_eq!(map.count(..middle.clone()).unwrap(), keys.len() as u64 / 2);
        assert_eq!(map.nth(keys.len() as u64 / 2).unwrap().unwrap().0, *middle);
        assert_eq!(map.last().unwrap().map(|(key, _)| key), keys.last().cloned());
    }
}

#[test]
fn typed_keys_are_in_order() {
    let mut rng = Rng::new(1);
    macro_rules! integers {
        ($($type:ident)*) => {$({
            let mut keys = vec![$type::MIN, $type::MIN + 1, 0, 1, $type::MAX - 1, $type::MAX];
            keys.extend((0..50).map(|n| (rng.below(u64::MAX) as $type) >> (n % 7)));
            keys_are_ordered(keys);
        })*};
    }
    integers!(u8 u16 u32 u64 u128 i8 i16 i32 i64 i128);
    let strings: Vec<Vec<u8>> =
        (0..300).map(|_| (0..rng.below(4)).map(|_| [0, 1, 2, 254, 255][rng.below(5) as usize]).collect()).collect();
    let texts = strings.iter().map(|bytes| bytes.iter().map(|&byte| char::from(byte)).collect::<String>());
    keys_are_ordered(strings.clone());
    keys_are_ordered(texts.collect());
    let tuples = strings.iter().map(|bytes| (bytes.clone(), rng.below(3) as i16 - 1, bytes.clone())).collect();
    keys_are_ordered::<(Vec<u8>, i16, Vec<u8>)>(tuples);
}

#[test]
fn entries_of_other_types_are_named() {
    let mut map = Repo::memory().map();
    map.insert(&5_u32.to_be_bytes(), b"seven b").unwrap();
    let typed: TypedMap<u32, u64> = map.into();
    match typed.get(&5) {
        Err(error @ Error::Codec { .. }) => {
            let said = bristlecone::report(&error);
            assert_eq!(said, "the entry at \"%00%00%00%05\" is not of the map's types: 7 bytes are no u64");
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(typed.iter().unwrap().next(), Some(Err(Error::Codec { .. }))));
    assert!(<(String, u8)>::from_bytes(b"no end").is_err());
    assert!(<(String, u8)>::from_bytes(b"a\0\x01bc").is_err());
    assert!(String::from_bytes(b"\xff").is_err());
}

/// Looks at a branch through a handle that is kept and through one that is new each time, while the branch moves.
fn looks_like_a_new_handle(repo: &Repo, seed: u64) {
    let mut rng = Rng::new(seed);
    let kept = repo.branch("main").unwrap();
    let mut commits: Vec<(CommitId, Model)> = Vec::new();
    for round in 0..200 {
        let head = kept.head().unwrap();
        match rng.below(8) {
            0 => kept.compare_and_set(head, None, Durability::None).unwrap(),
            1 | 2 if !commits.is_empty() => {
                let (to, _) = commits[rng.below(commits.len() as u64) as usize];
                repo.branch("main").unwrap().compare_and_set(head, Some(to), Durability::None).unwrap();
            }
            3 if repo.backend().capabilities().sweep => {
                repo.sweep(&[], &SweepLimits::default()).unwrap();
                commits.retain(|(at, _)| repo.read_commit(*at).is_ok());
            }
            4 | 5 => {}
            writer => {
                let mut map = kept.map().unwrap();
                let mut model: Model = pairs(&map).into_iter().collect();
                edit(&mut map, &mut model, &mut rng);
                map.insert(b"round", u32::to_le_bytes(round)).unwrap();
                model.insert(b"round".to_vec(), u32::to_le_bytes(round).to_vec());
                let by = if writer == 6 { kept.clone() } else { repo.branch("main").unwrap() };
                commits.push((map.commit(&by, &Info::unsigned("a round")).unwrap(), model));
            }
        }
        for _ in 0..2 {
            let (mut seen, new) = (kept.map().unwrap(), repo.branch("main").unwrap().map().unwrap());
            assert_eq!((seen.tree().origin(), seen.root().unwrap()), (new.tree().origin(), new.root().unwrap()));
            let head = kept.head().unwrap();
            assert_eq!(seen.tree().origin(), head);
            let model = head.map(|head| commits.iter().find(|(at, _)| *at == head).unwrap().1.clone());
            assert_eq!(pairs(&seen), model.unwrap_or_default().into_iter().collect::<Vec<_>>());
            // Edits that wait in one look are not seen in the next.
            seen.insert(b"pending", b"").unwrap();
        }
    }
}

#[test]
fn a_branch_that_was_looked_at_is_looked_at_anew() {
    looks_like_a_new_handle(&Repo::memory(), 31);
    let dir = tempfile::tempdir().unwrap();
    looks_like_a_new_handle(
        &Repo::create(dir.path().join("store"), Native::new(), DiskOptions::default()).unwrap(),
        32,
    );
}

#[test]
fn a_branch_that_another_repository_moves_is_looked_at_anew() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Repo::create(dir.path().join("store"), Native::new(), DiskOptions::default()).unwrap();
    let reader = Repo::open_read_only(dir.path().join("store"), DiskOptions::default()).unwrap();
    let (writer, reader) = (writer.branch("main").unwrap(), reader.branch("main").unwrap());
    for round in 0_u32..50 {
        let mut map = writer.map().unwrap();
        map.insert(b"round", round.to_le_bytes()).unwrap();
        map.commit(&writer, &Info::unsigned("a round")).unwrap();
        for _ in 0..2 {
            assert_eq!(reader.map().unwrap().get(b"round").unwrap().as_deref(), Some(&round.to_le_bytes()[..]));
        }
    }
}

#[test]
fn there_is_no_entry_at_the_last_place_of_all() {
    let mut map = Repo::memory().map();
    for key in [b"a", b"b", b"c"] {
        map.insert(key, b"1").unwrap();
    }
    assert_eq!(map.nth(u64::MAX).unwrap(), None);
    map.tree_mut().write().unwrap();
    map.remove(b"b").unwrap();
    for index in [2, u64::MAX - 1, u64::MAX] {
        assert_eq!(map.nth(index).unwrap(), None);
    }
    assert_eq!(&*map.nth(1).unwrap().unwrap().0, b"c");
}

#[test]
fn an_entry_by_its_place_is_found_on_one_way_down() {
    let backend = Counted::new(Arc::new(MemoryBackend::new()));
    let counts = backend.counts();
    let mut map = Repo::with_backend(Native::new(), Arc::new(backend)).map();
    map.apply((0..20_000_u32).map(|n| (n.to_be_bytes(), Some([7_u8])))).unwrap();
    map.tree_mut().write().unwrap();
    let since = |before: u64| counts.reads.load(Relaxed) - before;
    for n in [0_u32, 1, 7777, 19_999] {
        let before = counts.reads.load(Relaxed);
        assert_eq!(map.rank(&n.to_be_bytes()).unwrap(), u64::from(n));
        let (levels, before) = (since(before), counts.reads.load(Relaxed));
        let (key, value) = map.nth(n.into()).unwrap().unwrap();
        assert_eq!((&*key, &*value), (&n.to_be_bytes()[..], &[7][..]));
        assert!(levels > 1 && since(before) == levels, "{} of {levels}", since(before));
        // Of one that was edited the place is looked up, and nothing else.
        let mut edited = map.clone();
        edited.insert(&n.to_be_bytes(), b"8").unwrap();
        let before = counts.reads.load(Relaxed);
        let (key, value) = edited.nth(n.into()).unwrap().unwrap();
        assert_eq!((&*key, &*value), (&n.to_be_bytes()[..], &b"8"[..]));
        assert_eq!(since(before), levels);
    }
}

#[test]
fn a_map_of_another_store_is_set_whatever_its_keys_are() {
    let (mut map, to) = (Repo::memory().map(), Repo::memory());
    for key in [&b"x/y"[..], b"", b"z", b".."] {
        map.insert(key, key).unwrap();
    }
    let mut tree = to.tree();
    tree.set_tree("maps/one", map.tree()).unwrap();
    let id = to.branch("main").unwrap().commit(&mut tree, &Info::unsigned("set")).unwrap();
    let copy = Map::from(to.checkout(id).unwrap().get_tree("maps/one").unwrap().unwrap());
    assert_eq!(copy.root().unwrap(), map.root().unwrap());
    assert_eq!(pairs(&copy), pairs(&map));
}

#[test]
fn a_map_is_set_at_a_long_path_whatever_its_keys_are() {
    let repo = Repo::memory();
    let mut map = repo.map();
    for key in [&b"x/y"[..], b"", b"z"] {
        map.insert(key, key).unwrap();
    }
    // Read from the store, it does not know how deep it is.
    let map = Map::from(repo.tree_at(map.tree_mut().write().unwrap()));
    let path = |steps: usize| vec!["a"; steps].join("/");
    let mut tree = repo.tree();
    tree.set_tree(path(1023), map.tree()).unwrap();
    assert_eq!(pairs(&tree.map(path(1023)).unwrap()), pairs(&map));
    let refused = tree.set_tree(path(1024), map.tree());
    assert!(matches!(refused, Err(Error::Path(PathError::TooDeep { steps: 1025 }))), "{refused:?}");
}
