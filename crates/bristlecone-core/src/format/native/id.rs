//! Ids: keyed BLAKE3, one key for each kind of hashed bytes. Section 2 of the format's page.

use alloc::vec::Vec;

use smallvec::SmallVec;

use super::lanes;
use crate::Oid;

const CONTENTS: &[u8; 32] = b"bristlecone native 1: contents..";
const PIECES: &[u8; 32] = b"bristlecone native 1: pieces....";
const COMMIT: &[u8; 32] = b"bristlecone native 1: commit....";
const TAG: &[u8; 32] = b"bristlecone native 1: tag.......";
const NODE: &[u8; 32] = b"bristlecone native 1: node......";
const GROUP: &[u8; 32] = b"bristlecone native 1: group.....";
const PAIR: &[u8; 32] = b"bristlecone native 1: pair......";

pub(super) fn contents(value: &[u8]) -> Oid {
    hash(CONTENTS, value)
}

/// Adds the ids of values whose lengths are within [`lanes::WHOLE_BYTES`].
pub(super) fn all_contents(values: &[&[u8]], ids: &mut Vec<Oid>) {
    lanes::hash_whole(CONTENTS, values, ids);
}

pub(super) fn pieces(body: &[u8]) -> Oid {
    hash(PIECES, body)
}

pub(super) fn commit(body: &[u8]) -> Oid {
    hash(COMMIT, body)
}

pub(super) fn tag(body: &[u8]) -> Oid {
    hash(TAG, body)
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
    let mut hashed: SmallVec<[u8; 256]> = SmallVec::from_slice(&head);
    if group == 0 || count <= group {
        hashed.extend_from_slice(items);
        return hash(NODE, &hashed);
    }
    let mut start = 0;
    let groups: SmallVec<[&[u8]; 24]> = (0..count)
        .step_by(group)
        .map(|first| {
            let bytes = &items[start..end((first + group).min(count) - 1)];
            start += bytes.len();
            bytes
        })
        .collect();
    let mut digests = lanes::Digests::from_elem([0; 32], groups.len());
    lanes::hash_padded(GROUP, &groups, &mut digests);
    hashed.extend_from_slice(&root(&mut digests));
    hash(NODE, &hashed)
}

/// Folds digests pairwise, level by level; an odd last one moves up as it is.
fn root(digests: &mut lanes::Digests) -> [u8; 32] {
    while digests.len() > 1 {
        let odd = if digests.len() % 2 == 1 { digests.last().copied() } else { None };
        let pairs: SmallVec<[[u8; 64]; 16]> = digests
            .chunks_exact(2)
            .map(|pair| {
                let mut both = [0; 64];
                both[..32].copy_from_slice(&pair[0]);
                both[32..].copy_from_slice(&pair[1]);
                both
            })
            .collect();
        digests.truncate(pairs.len());
        lanes::hash_blocks(PAIR, &pairs, digests);
        digests.extend(odd);
    }
    digests[0]
}

fn hash(key: &[u8; 32], bytes: &[u8]) -> Oid {
    Oid::from_array(*blake3::keyed_hash(key, bytes).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, by the plain hash alone.
    fn plain(level: u8, items: &[Vec<u8>], group: usize) -> Oid {
        let head = [&[level], &(items.len() as u32).to_le_bytes()[..]].concat();
        if items.len() <= group {
            return hash(NODE, &[head, items.concat()].concat());
        }
        let padded = |group: &[Vec<u8>]| {
            let mut bytes = group.concat();
            bytes.resize(bytes.len().next_multiple_of(64).max(64), 0);
            *blake3::keyed_hash(GROUP, &bytes).as_bytes()
        };
        let mut digests: Vec<[u8; 32]> = items.chunks(group).map(padded).collect();
        while digests.len() > 1 {
            digests = digests
                .chunks(2)
                .map(|pair| match pair {
                    [one, other] => *blake3::keyed_hash(PAIR, &[*one, *other].concat()).as_bytes(),
                    _ => pair[0],
                })
                .collect();
        }
        hash(NODE, &[head, digests[0].to_vec()].concat())
    }

    /// Keys are part of the format: no id may change with a name.
    #[test]
    fn each_kind_of_hashed_bytes_has_the_key_of_the_format() {
        let keyed = |key: &[u8; 32], bytes: &[u8]| *blake3::keyed_hash(key, bytes).as_bytes();
        let id = |key: &[u8; 32], bytes: &[u8]| Oid::from_array(keyed(key, bytes));
        assert_eq!(contents(b"value"), id(b"bristlecone native 1: contents..", b"value"));
        assert_eq!(pieces(b"list"), id(b"bristlecone native 1: pieces....", b"list"));
        assert_eq!(commit(b"commit"), id(b"bristlecone native 1: commit....", b"commit"));
        assert_eq!(tag(b"tag"), id(b"bristlecone native 1: tag.......", b"tag"));
        // Two items of one byte: as one run, and in groups of one each.
        let items = [3, 4];
        let head = [1, 2, 0, 0, 0];
        let flat = [&head[..], &items].concat();
        assert_eq!(node(1, &items, 2, 0, |index| index + 1), id(b"bristlecone native 1: node......", &flat));
        let group = |item: u8| {
            let mut padded = [0; 64];
            padded[0] = item;
            keyed(b"bristlecone native 1: group.....", &padded)
        };
        let root = keyed(b"bristlecone native 1: pair......", &[group(3), group(4)].concat());
        let grouped = [&head[..], &root].concat();
        assert_eq!(node(1, &items, 2, 1, |index| index + 1), id(b"bristlecone native 1: node......", &grouped));
    }

    #[test]
    fn hashing_in_lanes_is_hashing() {
        for count in 0..150usize {
            for scale in [0, 1, 3, 40, 300] {
                let items: Vec<Vec<u8>> = (0..count).map(|n| alloc::vec![n as u8; 1 + n * scale % 313]).collect();
                let ends: Vec<usize> = items
                    .iter()
                    .scan(0, |sum, item| {
                        *sum += item.len();
                        Some(*sum)
                    })
                    .collect();
                for group in [1, 2, 4] {
                    let found = node(3, &items.concat(), count, group, |index| ends[index]);
                    assert_eq!(found, plain(3, &items, group.into()), "{count} items, scale {scale}");
                }
            }
        }
    }
}
