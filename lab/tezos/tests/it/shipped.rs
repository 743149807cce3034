//! The traces of the repository; and random numbers.

use std::{fs, path::PathBuf};

/// The genesis block of mainnet, its last row cut short.
pub(crate) const REAL: &str = "tezos_actions_1commit.repr";
/// The layout of the first years, with two orphaned branches.
pub(crate) const EARLY: &str = "synthetic-early-101commits.repr";
/// The flattened layout.
pub(crate) const FLAT: &str = "synthetic-flat-25commits.repr";

/// Returns where a trace of the repository is.
pub(crate) fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/tezos").join(name)
}

/// Returns a trace of the repository up to the end of its last whole row.
pub(crate) fn whole(name: &str) -> Vec<u8> {
    let mut bytes = bytes(name);
    if name == REAL {
        bytes.truncate(0x128);
    }
    bytes
}

/// Returns a trace of the repository.
pub(crate) fn bytes(name: &str) -> Vec<u8> {
    fs::read(path(name)).unwrap()
}

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    /// Changes, cuts or stretches a sound trace behind its first bytes, or makes noise there.
    pub(crate) fn mutate(&mut self, sound: &[u8]) -> Vec<u8> {
        let mut bytes = sound.to_vec();
        let start = if self.below(20) == 0 { 0 } else { 13 };
        match self.below(8) {
            0 => {
                bytes.truncate(start);
                bytes.extend((0..self.below(200)).map(|_| self.next() as u8));
            }
            1 => bytes.truncate(self.below(bytes.len() + 1)),
            2 => {
                let at = start + self.below(bytes.len() - start);
                bytes.splice(at..at, (0..=self.below(20)).map(|n| n as u8));
            }
            3 => {
                let at = start + self.below(bytes.len() - start);
                bytes.drain(at..(at + self.below(40)).min(bytes.len()));
            }
            _ => {}
        }
        for _ in 0..self.below(4) {
            let at = start + self.below(bytes.len().saturating_sub(start));
            if let Some(byte) = bytes.get_mut(at) {
                *byte = [0, 1, 0x7f, 0x80, 0xff, *byte ^ 1, self.next() as u8][self.below(7)];
            }
        }
        bytes
    }
}
