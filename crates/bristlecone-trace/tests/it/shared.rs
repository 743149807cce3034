//! The shipped traces, which lie beside the repository; and random numbers.

use std::{fs, io::Write, path::PathBuf};

/// The genesis block of mainnet, its last row cut short.
pub(crate) const REAL: &str = "tezos_actions_1commit.repr";
/// The layout of the first years, with two orphaned branches.
pub(crate) const EARLY: &str = "synthetic-early-101commits.repr";
/// The flattened layout.
pub(crate) const FLAT: &str = "synthetic-flat-25commits.repr";

/// Returns where a shipped trace is; `None`, and says so, where there is none.
pub(crate) fn path(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/tezos").join(name);
    if path.exists() {
        return Some(path);
    }
    // Past the harness, which hides what a test that passes prints.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {} is not there, so nothing was tested with it", path.display());
    None
}

/// Returns a shipped trace.
pub(crate) fn bytes(name: &str) -> Option<Vec<u8>> {
    path(name).map(|path| fs::read(path).unwrap())
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
}
