//! The index of blocks: where the block of a hash, a slot or a number lies.
//!
//! **The idea.** Blocks come in the order of the chain, so an array of records in that order is sorted by slot and by number
//! at once. A table of buckets, a cache line each, leads from a hash to the number of its record, and a record is a cache
//! line too: a lookup by hash reads two lines, and that of a hash which is absent mostly one.
//!
//! Both kinds have this one layout: [`MemoryIndex`] in memory of its own, [`MappedIndex`] in two files that are mapped.
//! `docs/formats/block-index.md` has the bytes, and says why no crash and no altered byte leads to a wrong answer.
//!
//! It reads no blocks: whoever opens an index compares its [tip](BlockIndex::tip) with the chain, and inserts what is missing.

use std::{io, ops::RangeInclusive, path::PathBuf};

use crate::{BlockHash, BlockPlace, Point};

mod bytes;
mod chain;
mod line;
mod mapped;
mod memory;
mod records;
mod table;
#[cfg(test)]
mod tests;

pub use mapped::{MappedIndex, Opened};
pub use memory::MemoryIndex;
pub use records::Slots;

/// An index of the blocks of one chain, in its order.
///
/// A block that was inserted is found by its hash, slot and number until a truncation removes it:
/// `index.insert(&point, place)?` makes `index.by_hash(&point.hash)? == Some(Indexed { point, place })`.
///
/// # Errors
/// Any lookup gives [`IndexError::Damaged`] where bytes were altered, and never a wrong answer. A change gives it for a record
/// alone; where a bucket was altered, it makes the table anew from the records and goes on.
pub trait BlockIndex: Send {
    /// Adds the block that follows the tip. Slots and numbers do not descend, and one of them ascends: an epoch boundary
    /// block has the number of its predecessor, and its successor can have its slot.
    ///
    /// # Errors
    /// [`IndexError::OutOfOrder`], [`IndexError::Duplicate`], [`IndexError::TooLarge`] and [`IndexError::Crowded`] for what
    /// cannot be in a chain;
    /// [`IndexError::Io`] and [`IndexError::Failed`]. The index is then as before.
    fn insert(&mut self, point: &Point, place: BlockPlace) -> Result<(), IndexError>;

    /// Returns the block with a hash.
    fn by_hash(&self, hash: &BlockHash) -> Result<Option<Indexed>, IndexError>;

    /// Returns the block in a slot; the last one, where an epoch boundary block shares it with its successor.
    fn by_slot(&self, slot: u64) -> Result<Option<Indexed>, IndexError>;

    /// Returns the block with a number; the first one, where an epoch boundary block shares it with its predecessor.
    fn by_number(&self, number: u64) -> Result<Option<Indexed>, IndexError>;

    /// Returns the blocks in a range of slots, in the order of the chain.
    fn slots(&self, range: RangeInclusive<u64>) -> Slots<'_>;

    /// Whether a block with a hash is there.
    fn has(&self, hash: &BlockHash) -> Result<bool, IndexError>;

    /// Returns the last block.
    fn tip(&self) -> Option<Indexed>;

    /// Returns how many blocks there are.
    fn len(&self) -> u64;

    /// Whether there are no blocks.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all blocks after `to`, which becomes the tip; with `None` all blocks.
    ///
    /// # Errors
    /// [`IndexError::NotIndexed`] if `to` is not there, and then nothing is removed.
    fn truncate(&mut self, to: Option<&Point>) -> Result<(), IndexError>;

    /// Makes what was inserted and removed so far durable. In memory there is nothing to do.
    ///
    /// # Errors
    /// [`IndexError::Io`]; after it every change is refused with [`IndexError::Failed`] until the index is opened again.
    fn sync(&mut self) -> Result<(), IndexError>;
}

/// A block of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Indexed {
    /// Which block it is.
    pub point: Point,
    /// Where it lies.
    pub place: BlockPlace,
}

/// A part of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexPart {
    /// What says how many records there are.
    Header,
    /// The records, in the order of the chain.
    Records,
    /// The table of hashes.
    Table,
}

impl std::fmt::Display for IndexPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Header => "header",
            Self::Records => "record",
            Self::Table => "bucket",
        })
    }
}

/// Why an index did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// A block does not follow the tip.
    #[error("{point} does not follow {tip}; truncate the index to the block's predecessor first")]
    OutOfOrder {
        /// The block.
        point: Point,
        /// The last block of the index.
        tip: Point,
    },
    /// A hash is there already.
    #[error("{point} has the hash of a block that is in the index, {other}")]
    Duplicate {
        /// The block.
        point: Point,
        /// The block with its hash.
        other: Point,
    },
    /// A place is beyond what a record holds, or there are 2^32 - 1 blocks.
    #[error(
        "{point} at {offset} of its chunk is too far; chunks have at most 4 GiB, and an index fewer than 2^32 blocks"
    )]
    TooLarge {
        /// The block.
        point: Point,
        /// Where it begins in its chunk.
        offset: u64,
    },
    /// The hashes of hundreds of blocks begin alike, as those of no real chain do.
    #[error("{point} has a hash that begins as those of hundreds of other blocks; check where the hashes come from")]
    Crowded {
        /// The block.
        point: Point,
    },
    /// A block that should stay as the tip is not there.
    #[error("{point} is not in the index; truncate to a block that is")]
    NotIndexed {
        /// The block.
        point: Point,
    },
    /// There is no index in a folder.
    #[error("there is no index in {dir}; build it from the chain")]
    Missing {
        /// The folder.
        dir: PathBuf,
    },
    /// Another process has the index open, or another handle of this one.
    #[error("the index in {dir} is open elsewhere; close it there, or take another folder")]
    Locked {
        /// The folder.
        dir: PathBuf,
    },
    /// Bytes were altered.
    #[error("{part} {number} of {name} is damaged: {reason}; build the index again from the chain")]
    Damaged {
        /// The file; `memory` for an index in memory.
        name: String,
        /// The part.
        part: IndexPart,
        /// Which record or bucket, counted from 0.
        number: u64,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The system refused.
    #[error("{name} cannot be read or written")]
    Io {
        /// The file; `memory` for an index in memory.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// A sync failed before, so that what is durable is not known.
    #[error("a sync of {name} failed; open the index again")]
    Failed {
        /// The file.
        name: String,
    },
}
