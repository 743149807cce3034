//! Filling an empty map with sorted entries: level by level, each written once and none read again.

use super::{
    Mode,
    error::{OkraError, Result},
    keys::KeyList,
    lmdb::{At, WriteCursors},
    metadata::Metadata,
    node::{ChildrenHasher, LEVEL_MAX, METADATA_KEY, NodeHash, NodeKey},
    snapshot::check_key,
    writer::{check_value, encode_entry},
};

/// Appends the entries and all levels above them to a map that has its anchor and its metadata alone.
pub(super) fn load_sorted<K: AsRef<[u8]>, V: AsRef<[u8]>>(
    cursors: &mut WriteCursors<'_>,
    file: &str,
    mode: Mode,
    entries: impl IntoIterator<Item = (K, V)>,
) -> Result<u64> {
    // Metadata come behind all levels, and LMDB appends behind everything.
    while cursors.seek(At::Children, &[1])?.is_some() {
        cursors.remove(At::Children)?;
    }
    let mut level = Level::begin(NodeHash::of_empty());
    let (mut at, mut bytes, mut count) = (NodeKey::new(0, &[]), Vec::new(), 0);
    for (key, value) in entries {
        let (key, value) = (key.as_ref(), value.as_ref());
        check_key(key)?;
        check_value(mode, value)?;
        if key <= at.key() {
            return Err(OkraError::Unsorted { key: key.to_vec() });
        }
        encode_entry(mode, key, value, &mut bytes);
        at.set(0, key);
        cursors.append(At::Children, at.bytes(), &bytes)?;
        let hash = NodeHash::at(&bytes).ok_or(OkraError::NoHash { bytes: bytes.len() })?;
        level.push(key, hash);
        count += 1;
    }
    if count > 0 {
        append_levels(cursors, file, level)?;
    }
    cursors.append(At::Children, &METADATA_KEY, &Metadata::new(mode).encode())?;
    Ok(count)
}

/// Appends the levels from the first above the entries up to the root.
fn append_levels(cursors: &mut WriteCursors<'_>, file: &str, mut below: Level) -> Result<()> {
    for level in 1..LEVEL_MAX {
        let nodes = below.finish();
        let Some(anchor) = nodes.hashes.first() else { break };
        let mut above = Level::begin(*anchor);
        for (index, hash) in nodes.hashes.iter().enumerate() {
            let key = nodes.keys.get(index).unwrap_or_default();
            cursors.append(At::Children, NodeKey::new(level, key).bytes(), &hash.0)?;
            if index > 0 {
                above.push(key, *hash);
            }
        }
        if nodes.hashes.len() == 1 {
            return Ok(());
        }
        below = above;
    }
    Err(OkraError::damaged(file, LEVEL_MAX, &[], "the levels do not end"))
}

/// The nodes that a level makes in the one above it.
struct Level {
    nodes: Nodes,
    /// The children of the last one.
    children: ChildrenHasher,
}

/// Keys and hashes of a level; those of the anchor come first.
#[derive(Default)]
struct Nodes {
    keys: KeyList,
    hashes: Vec<NodeHash>,
}

impl Level {
    /// Begins with the anchor.
    fn begin(anchor: NodeHash) -> Self {
        let mut new = Self { nodes: Nodes::default(), children: ChildrenHasher::new() };
        new.nodes.keys.push(&[]);
        new.children.push(anchor);
        new
    }

    /// Adds the next node of the level below.
    #[inline]
    fn push(&mut self, key: &[u8], hash: NodeHash) {
        if hash.is_boundary() {
            self.nodes.hashes.push(self.children.finish());
            self.nodes.keys.push(key);
        }
        self.children.push(hash);
    }

    fn finish(mut self) -> Nodes {
        self.nodes.hashes.push(self.children.finish());
        self.nodes
    }
}
