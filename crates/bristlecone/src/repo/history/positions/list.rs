//! The list of the parts of the commit graph.
//!
//! `docs/formats/history.md` section 4 lists the bytes.

use twox_hash::XxHash3_64;

use super::{
    super::run::{stored_check, word32, word64},
    part::{PART_COMMITS, POSITIONS_MAX},
};

const MAGIC: &[u8; 8] = b"BCONEGL1";
/// 32 = 8 magic + 8 check + 8 ends of history + 4 parts + 4 zero.
const HEADER_BYTES: usize = 32;
/// 24 = 8 check + 4 commits + 2 x 4 generation numbers + 4 zero.
const HEAD_BYTES: usize = 24;

const _: () = assert!(HEADER_BYTES == 8 + 8 + 8 + 4 + 4 && HEAD_BYTES == 8 + 4 + 8 + 4);

/// What the list says of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartHead {
    /// The check in its file.
    pub(super) check: u64,
    /// Commits in it.
    pub(super) commits: u32,
    /// The lowest generation number.
    pub(super) lowest: u32,
    /// The highest.
    pub(super) highest: u32,
}

/// Encodes the list, with a check of what ends history.
pub(super) fn encode(ends: u64, heads: &[PartHead]) -> Vec<u8> {
    let mut bytes = [&MAGIC[..], &[0; 8], &ends.to_le_bytes()].concat();
    bytes.extend_from_slice(&(heads.len() as u64).to_le_bytes());
    for head in heads {
        bytes.extend_from_slice(&head.check.to_le_bytes());
        for word in [head.commits, head.lowest, head.highest, 0] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
    }
    let check = XxHash3_64::oneshot(&bytes[16..]).to_le_bytes();
    bytes[8..16].copy_from_slice(&check);
    bytes
}

/// Decodes a list; `None` where it is damaged or of another version.
pub(super) fn decode(bytes: &[u8]) -> Option<(u64, Vec<PartHead>)> {
    if bytes.len() < HEADER_BYTES || bytes[..8] != MAGIC[..] || XxHash3_64::oneshot(&bytes[16..]) != stored_check(bytes)
    {
        return None;
    }
    let rows = bytes[HEADER_BYTES..].chunks_exact(HEAD_BYTES);
    let right = rows.remainder().is_empty() && word64(bytes, 24) == rows.len() as u64;
    let heads: Vec<PartHead> = rows
        .map(|row| PartHead {
            check: word64(row, 0),
            commits: word32(row, 8),
            lowest: word32(row, 12),
            highest: word32(row, 16),
        })
        .collect();
    let full = |head: &PartHead| head.commits as usize == PART_COMMITS;
    let sound = match heads.split_last() {
        Some((last, before)) => before.iter().all(full) && (1..=PART_COMMITS).contains(&(last.commits as usize)),
        None => true,
    };
    let fits = heads.len() <= POSITIONS_MAX as usize / PART_COMMITS;
    (right && sound && fits).then_some((word64(bytes, 16), heads))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_round_trips_and_damage_is_noticed() {
        let head = |commits| PartHead { check: 5, commits, lowest: 1, highest: 9 };
        for heads in [vec![], vec![head(1)], vec![head(4096); 7], vec![head(4096), head(17)]] {
            let bytes = encode(11, &heads);
            assert_eq!(decode(&bytes), Some((11, heads)));
            for at in 0..bytes.len() {
                let mut broken = bytes.clone();
                broken[at] ^= 4;
                assert_eq!(decode(&broken), None, "byte {at}");
                assert_eq!(decode(&bytes[..at]), None);
            }
        }
        for heads in [vec![head(0)], vec![head(4097)], vec![head(4095), head(1)]] {
            assert_eq!(decode(&encode(11, &heads)), None);
        }
    }
}
