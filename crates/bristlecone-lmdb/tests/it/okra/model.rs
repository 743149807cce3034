//! A slow model of a map: it makes all levels from the sorted entries, as docs/formats/okra.md says and with nothing of
//! the code under test. And what the file holds, read by another crate.

use std::{collections::BTreeMap, path::Path};

use bristlecone_lmdb::okra::Mode;
use heed::{EnvFlags, EnvOpenOptions, types::Bytes};

/// Keys and values of LMDB.
pub(super) type Stored = BTreeMap<Vec<u8>, Vec<u8>>;

/// The entries of a map.
pub(super) type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

fn digest(bytes: &[u8]) -> [u8; 16] {
    blake3::hash(bytes).as_bytes()[..16].try_into().unwrap()
}

fn is_boundary(hash: &[u8; 16]) -> bool {
    u32::from_be_bytes(hash[..4].try_into().unwrap()) < 0x0800_0000
}

/// Returns all that LMDB has to hold for these entries, and the level and hash of the root.
pub(super) fn build(mode: Mode, contents: &Contents) -> (Stored, u8, [u8; 16]) {
    let mut stored = Stored::new();
    let mode_byte = if mode == Mode::Store { 1 } else { 0 };
    stored.insert(vec![0xff], [b"okra", &[3, 16, 0, 0, 0, 32, mode_byte][..]].concat());
    // A node is its key, which is empty for the anchor, and its hash.
    let mut nodes = vec![(Vec::new(), digest(b""))];
    stored.insert(vec![0], digest(b"").to_vec());
    for (key, value) in contents {
        let (hash, bytes) = match mode {
            Mode::Index => (value.as_slice().try_into().unwrap(), value.clone()),
            Mode::Store => {
                let (key_len, value_len) = ((key.len() as u32).to_be_bytes(), (value.len() as u32).to_be_bytes());
                let hash = digest(&[&key_len, key.as_slice(), &value_len, value].concat());
                (hash, [&hash[..], value].concat())
            }
        };
        stored.insert([&[0], key.as_slice()].concat(), bytes);
        nodes.push((key.clone(), hash));
    }
    let mut level = 0;
    while nodes.len() > 1 {
        level += 1;
        let mut groups: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        for (index, (key, hash)) in nodes.iter().enumerate() {
            if index == 0 || is_boundary(hash) {
                groups.push((key.clone(), Vec::new()));
            }
            groups.last_mut().unwrap().1.extend_from_slice(hash);
        }
        nodes = groups.into_iter().map(|(key, children)| (key, digest(&children))).collect();
        for (key, hash) in &nodes {
            stored.insert([&[level], key.as_slice()].concat(), hash.to_vec());
        }
    }
    (stored, level, nodes[0].1)
}

/// Reads all that a file holds. The map must be closed.
pub(super) fn stored(dir: &Path) -> Stored {
    let mut options = EnvOpenOptions::new();
    // SAFETY: nobody else has the environment open, and nothing writes to it.
    let env = unsafe { options.flags(EnvFlags::READ_ONLY).map_size(1 << 30).open(dir) }.unwrap();
    let database = env
        .open_databases_and_commit(env.read_txn().unwrap(), |opener, txn| {
            opener.open_database::<Bytes, Bytes>(txn, None).map(heed::CommitOrAbort::<_, ()>::Commit)
        })
        .unwrap()
        .unwrap_commit()
        .unwrap();
    let txn = env.read_txn().unwrap();
    let all = database.iter(&txn).unwrap().map(|item| item.map(|(key, value)| (key.to_vec(), value.to_vec())));
    all.collect::<Result<_, _>>().unwrap()
}
