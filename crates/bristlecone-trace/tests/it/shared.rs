//! The shipped traces, which lie beside the repository.

use std::{fs, path::PathBuf};

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
    eprintln!("SKIPPED: {} is not there, so nothing was tested with it", path.display());
    None
}

/// Returns a shipped trace.
pub(crate) fn bytes(name: &str) -> Option<Vec<u8>> {
    path(name).map(|path| fs::read(path).unwrap())
}
