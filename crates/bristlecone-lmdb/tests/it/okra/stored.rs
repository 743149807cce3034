//! Damage: a check names the first wrong node, and nothing panics.

use std::path::Path;

use bristlecone_lmdb::okra::{Mode, OkraError, OkraMap, OkraOptions};
use heed::{EnvOpenOptions, types::Bytes};

use super::{
    Numbers, create,
    model::{self, Stored},
    set_many,
};

/// Makes the unnamed database hold exactly `wanted`, with another crate.
fn write_over(dir: &Path, wanted: &Stored) {
    // SAFETY: nobody else has the environment open.
    let env = unsafe { EnvOpenOptions::new().map_size(1 << 26).open(dir) }.unwrap();
    let database = env
        .open_databases_and_commit(env.read_txn().unwrap(), |opener, txn| {
            opener.open_database::<Bytes, Bytes>(txn, None).map(heed::CommitOrAbort::<_, ()>::Commit)
        })
        .unwrap()
        .unwrap_commit()
        .unwrap();
    let mut txn = env.write_txn().unwrap();
    database.clear(&mut txn).unwrap();
    wanted.iter().for_each(|(key, value)| database.put(&mut txn, key, value).unwrap());
    txn.commit().unwrap();
}

fn fill(dir: &Path) -> Stored {
    let map = create(dir, Mode::Store);
    set_many(&map, (0..3000_u32).map(|n| (n.to_be_bytes(), format!("value {n}"))));
    drop(map);
    model::stored(dir)
}

#[test]
fn a_check_names_the_first_node_that_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let sound = fill(dir.path());
    let mut numbers = Numbers(11);
    let keys: Vec<_> = sound.keys().filter(|key| key[0] != 0xff).cloned().collect();
    let (tops, lower): (Vec<_>, Vec<_>) = keys.into_iter().partition(|key| key[0] >= 2);
    for round in 0..150 {
        let from = if round % 3 == 0 { &tops } else { &lower };
        let key = from[numbers.below(from.len() as u64) as usize].clone();
        let mut damaged = sound.clone();
        match numbers.below(4) {
            // A hash that is no boundary and was none, so that the node itself is what is wrong.
            0 => damaged.get_mut(&key).unwrap()[15] ^= 1,
            1 => drop(damaged.remove(&key)),
            2 => damaged.get_mut(&key).unwrap().truncate(15),
            _ => {
                let more = [&key[..], b"more"].concat();
                drop(damaged.insert(more, vec![0xff; 16]));
            }
        }
        write_over(dir.path(), &damaged);
        let map = OkraMap::open(dir.path(), &OkraOptions::default().sync(false)).unwrap();
        let reader = map.read().unwrap();
        let checked = reader.check();
        let Err(OkraError::Damaged { file, level, key: found, .. }) = &checked else {
            panic!("round {round}, {key:?}: {checked:?}");
        };
        assert!(file.ends_with("data.mdb"));
        // The node is the one that was changed, or the one above it where an entry is missing.
        let place = found.clone().unwrap_or_default();
        let is_near = (*level == key[0] && place.starts_with(&key[1..])) || *level == key[0] + 1;
        assert!(is_near, "round {round}, {key:?}: {checked:?}");
        // Whatever else is asked of it gives an answer or an error.
        let _ = (reader.root(), reader.children(1, None), reader.entries().unwrap().count());
        drop(reader);
        let mut writer = map.write().unwrap();
        for n in (0..3000_u32).step_by(100) {
            writer.insert(&n.to_be_bytes(), b"another").unwrap();
            writer.remove(&(n + 7).to_be_bytes()).unwrap();
        }
        let _ = writer.commit();
    }
    write_over(dir.path(), &sound);
    OkraMap::open(dir.path(), &OkraOptions::default()).unwrap().read().unwrap().check().unwrap();
}

#[test]
fn hostile_levels_end() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path());
    // All anchors and each with a sibling: there is no root.
    let mut hostile = Stored::from([(vec![0xff], b"okra\x03\x10\x00\x00\x00\x20\x01".to_vec())]);
    for level in 0..0xff {
        hostile.insert(vec![level], vec![0; 16]);
        hostile.insert(vec![level, 7], vec![0; 16]);
    }
    write_over(dir.path(), &hostile);
    let map = OkraMap::open(dir.path(), &OkraOptions::default().sync(false)).unwrap();
    let reader = map.read().unwrap();
    assert!(matches!(reader.check(), Err(OkraError::Damaged { .. })));
    assert!(matches!(reader.root(), Err(OkraError::Damaged { .. })));
    let mut writer = map.write().unwrap();
    writer.insert(b"a", b"b").unwrap();
    let _ = writer.commit();
    // No anchor at all.
    drop(reader);
    drop(map);
    write_over(dir.path(), &Stored::from([(vec![0xff], b"okra\x03\x10\x00\x00\x00\x20\x01".to_vec())]));
    let map = OkraMap::open(dir.path(), &OkraOptions::default().sync(false)).unwrap();
    assert!(matches!(map.read().unwrap().root(), Err(OkraError::Damaged { .. })));
    let mut writer = map.write().unwrap();
    writer.insert(b"a", b"b").unwrap();
    assert!(matches!(writer.commit(), Err(OkraError::Damaged { level: 0, key: None, .. })));
}
