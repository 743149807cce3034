//! Ids: keyed BLAKE3, one key for each kind of hashed bytes. Section 2 of the format's page.

use alloc::vec::Vec;

use crate::Oid;

const CONTENTS: &[u8; 32] = b"bristlecone native 0: contents..";
const PIECES: &[u8; 32] = b"bristlecone native 0: pieces....";
const COMMIT: &[u8; 32] = b"bristlecone native 0: commit....";
const NODE: &[u8; 32] = b"bristlecone native 0: node......";
const GROUP: &[u8; 32] = b"bristlecone native 0: group.....";
const PAIR: &[u8; 32] = b"bristlecone native 0: pair......";

pub(super) fn contents(value: &[u8]) -> Oid {
    hash(CONTENTS, value)
}

pub(super) fn pieces(body: &[u8]) -> Oid {
    hash(PIECES, body)
}

pub(super) fn commit(body: &[u8]) -> Oid {
    hash(COMMIT, body)
}

/// Returns the id of a node: the root of a hash tree over groups of its items.
///
/// `ends` are the ends of the items in `items`. With `group` 0, or no more items than one group, the items
/// are hashed as one run.
pub(super) fn node(level: u8, items: &[u8], count: usize, group: u8, end: impl Fn(usize) -> usize) -> Oid {
    let mut head = [0; 5];
    head[0] = level;
    head[1..].copy_from_slice(&(count as u32).to_le_bytes());
    let group = usize::from(group);
    let mut hasher = Small::new();
    hasher.add(&head);
    if group == 0 || count <= group {
        hasher.add(items);
        return hasher.finish(NODE);
    }
    let mut digests = Vec::with_capacity(count.div_ceil(group));
    let mut start = 0;
    for last in (0..count).step_by(group).map(|first| (first + group).min(count) - 1) {
        let stop = end(last);
        digests.push(*blake3::keyed_hash(GROUP, &items[start..stop]).as_bytes());
        start = stop;
    }
    hasher.add(&root(&mut digests));
    hasher.finish(NODE)
}

/// Folds digests pairwise, level by level; an odd last one moves up as it is.
fn root(digests: &mut [[u8; 32]]) -> [u8; 32] {
    let mut count = digests.len();
    while count > 1 {
        for pair in 0..count / 2 {
            let mut both = [0; 64];
            both[..32].copy_from_slice(&digests[2 * pair]);
            both[32..].copy_from_slice(&digests[2 * pair + 1]);
            digests[pair] = *blake3::keyed_hash(PAIR, &both).as_bytes();
        }
        if count % 2 == 1 {
            digests[count / 2] = digests[count - 1];
        }
        count = count.div_ceil(2);
    }
    digests[0]
}

fn hash(key: &[u8; 32], bytes: &[u8]) -> Oid {
    Oid::from_array(*blake3::keyed_hash(key, bytes).as_bytes())
}

/// Two runs of bytes joined on the stack where they are short, which is nearly always: the incremental
/// hasher costs more than the hash of a small node.
struct Small {
    buffer: [u8; 512],
    filled: usize,
    long: Vec<u8>,
}

impl Small {
    fn new() -> Self {
        Self { buffer: [0; 512], filled: 0, long: Vec::new() }
    }

    fn add(&mut self, bytes: &[u8]) {
        let end = self.filled + bytes.len();
        if self.long.is_empty() && end <= self.buffer.len() {
            self.buffer[self.filled..end].copy_from_slice(bytes);
            self.filled = end;
            return;
        }
        if self.long.is_empty() {
            self.long.extend_from_slice(&self.buffer[..self.filled]);
        }
        self.long.extend_from_slice(bytes);
    }

    fn finish(self, key: &[u8; 32]) -> Oid {
        let bytes = if self.long.is_empty() { &self.buffer[..self.filled] } else { &self.long };
        hash(key, bytes)
    }
}
