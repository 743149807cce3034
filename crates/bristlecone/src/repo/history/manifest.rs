//! The manifest of the index of history: which runs there are, and a filter over each.
//!
//! `docs/formats/history.md` section 1 lists the bytes.

use std::collections::BTreeSet;

use bristlecone_core::Oid;

use super::run::{COMMITS_MAX, checksum, stored_check, word32, word64};

const MAGIC: &[u8; 8] = b"BCONEHS1";
/// 24 = 8 magic + 8 check + 4 runs + 4 zero.
const HEADER_BYTES: usize = 24;
/// 104 = 4 file + 4 commits + 2 x 8 generations + 8 check + 2 x 1 lengths of ids + 2 zero + 4 filter + 2 x 32 ids.
const RUN_BYTES: usize = 104;

const _: () = assert!(HEADER_BYTES == 8 + 8 + 4 + 4 && RUN_BYTES == 4 + 4 + 16 + 8 + 2 + 2 + 4 + 64);

/// What the manifest says of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RunHead {
    /// The number of its file.
    pub(super) file: u32,
    /// Commits in it.
    pub(super) count: u32,
    /// The generation number of the oldest.
    pub(super) first: u64,
    /// That of the newest.
    pub(super) last: u64,
    /// The check of the file, so that a file by which another process replaced it is not taken for it.
    pub(super) check: u64,
    /// The newest commit.
    pub(super) top: Oid,
    /// The first parent of the oldest.
    pub(super) below: Option<Oid>,
    /// Over everything that changed in the run.
    pub(super) filter: Vec<u8>,
}

/// Encodes the manifest.
pub(super) fn encode(runs: &[RunHead]) -> Vec<u8> {
    let mut bytes = [&MAGIC[..], &[0; 8]].concat();
    bytes.extend_from_slice(&(runs.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    for run in runs {
        bytes.extend_from_slice(&run.file.to_le_bytes());
        bytes.extend_from_slice(&run.count.to_le_bytes());
        for word in [run.first, run.last, run.check] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        let below = run.below.as_ref();
        bytes.extend_from_slice(&[id_bytes(Some(&run.top)), id_bytes(below), 0, 0]);
        bytes.extend_from_slice(&(run.filter.len() as u32).to_le_bytes());
        bytes.extend_from_slice(run.top.padded());
        bytes.extend_from_slice(below.map_or(&[0; Oid::BYTES_MAX][..], |oid| oid.padded()));
        bytes.extend_from_slice(&run.filter);
    }
    let check = checksum(&bytes).to_le_bytes();
    bytes[8..16].copy_from_slice(&check);
    bytes
}

fn id_bytes(oid: Option<&Oid>) -> u8 {
    oid.map_or(0, |oid| oid.as_bytes().len() as u8)
}

/// Decodes a manifest; `None` if it is damaged or of another version.
pub(super) fn decode(bytes: &[u8]) -> Option<Vec<RunHead>> {
    if bytes.len() < HEADER_BYTES || bytes[..8] != MAGIC[..] || checksum(bytes) != stored_check(bytes) {
        return None;
    }
    let mut rest = &bytes[HEADER_BYTES..];
    let mut runs = Vec::new();
    for _ in 0..word32(bytes, 16) {
        let (head, after) = rest.split_at_checked(RUN_BYTES)?;
        let (filter, after) = after.split_at_checked(word32(head, 36) as usize)?;
        let oid = |at: usize, len: u8| Oid::new(head[at..at + 32].get(..usize::from(len))?).ok();
        let below = if head[33] == 0 { None } else { Some(oid(72, head[33])?) };
        runs.push(RunHead {
            file: word32(head, 0),
            count: word32(head, 4),
            first: word64(head, 8),
            last: word64(head, 16),
            check: word64(head, 24),
            top: oid(40, head[32])?,
            below,
            filter: filter.to_vec(),
        });
        rest = after;
    }
    let sound = rest.is_empty() && runs.iter().all(|run| (1..=COMMITS_MAX as u32).contains(&run.count));
    let files: BTreeSet<u32> = runs.iter().map(|run| run.file).collect();
    (sound && files.len() == runs.len()).then_some(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_and_notices_damage() {
        let run = |n: u32, below| RunHead {
            file: n,
            count: 7 + n,
            first: 100,
            last: 1 << 40,
            check: 0xdead,
            top: Oid::new(&[n as u8 + 1; 20]).unwrap(),
            below,
            filter: vec![9; 3 * n as usize],
        };
        let runs = [run(0, None), run(1, Some(Oid::from_array([8; 32]))), run(2, None)];
        let bytes = encode(&runs);
        assert_eq!(decode(&bytes).as_deref(), Some(&runs[..]));
        assert_eq!(decode(&encode(&[])), Some(vec![]));
        assert_eq!(decode(&encode(&[run(1, None), run(1, None)])), None, "two runs in one file");
        for at in 0..bytes.len() {
            let mut broken = bytes.clone();
            broken[at] ^= 16;
            assert_eq!(decode(&broken), None, "byte {at}");
            assert_eq!(decode(&bytes[..at]), None);
        }
    }
}
