//! Points of the chain.

use std::fmt;

use crate::BlockHash;

/// A block of the chain, named by its slot, its number and its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Point {
    /// The absolute slot; of an epoch boundary block the first slot of its epoch.
    pub slot: u64,
    /// The number of the block, counted from the first one; an epoch boundary block has that of its predecessor.
    pub number: u64,
    /// The hash.
    pub hash: BlockHash,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {} in slot {}, {}", self.number, self.slot, self.hash)
    }
}
