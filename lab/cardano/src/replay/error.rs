//! What ends a replay early.

use thiserror::Error;

use crate::{
    BlockError, BlockHash, BlockPlace, ChainError, OutputRef, Point, TxId, error::of_chunk, index::IndexError,
    utxo::UtxoError,
};

/// What ends a replay early.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The chain is damaged, or cannot be read.
    #[error(transparent)]
    Chain(#[from] ChainError),
    /// A block whose header is sound has contents that are not.
    #[error("{}, byte {offset}: the block of slot {} is wrong {source}", of_chunk(*chunk), point.slot)]
    Block {
        /// The chunk.
        chunk: u32,
        /// The offset of the block in it.
        offset: u64,
        /// The block.
        point: Point,
        /// What is wrong, and where in the block.
        source: BlockError,
    },
    /// A chain that does not go on from where the set stands.
    #[error("{}{point} is not of this chain: {reason}; replay the same chain, or into another store", at_place(*place))]
    NotThisChain {
        /// Where the block lies; `None` for one that is known and was not read.
        place: Option<BlockPlace>,
        /// The first block that does not fit.
        point: Point,
        /// Why.
        reason: String,
    },
    /// A block of Byron of another network than the genesis files.
    #[error(
        "{}, byte {offset}: {point} is of the network {magic}, and the genesis file of the network {genesis}; name the \
         genesis files of this chain",
        of_chunk(*chunk)
    )]
    OtherNetwork {
        /// The chunk.
        chunk: u32,
        /// The offset of the block in it.
        offset: u64,
        /// The block.
        point: Point,
        /// The magic of its network.
        magic: u64,
        /// The magic that the genesis file has.
        genesis: u64,
    },
    /// The first block of a chain names another genesis file as its predecessor.
    #[error(
        "{}, byte {offset}: {point} begins the chain of the genesis file with the hash {named}, and the file that was named has \
         {genesis}; name the genesis files of this chain, into another store or branch",
        of_chunk(*chunk)
    )]
    OtherGenesis {
        /// The chunk.
        chunk: u32,
        /// The offset of the block in it.
        offset: u64,
        /// The block.
        point: Box<Point>,
        /// The hash of the file that the block names.
        named: BlockHash,
        /// The hash of the Byron genesis file that was given.
        genesis: BlockHash,
    },
    /// The set holds the outputs of genesis files, and the first block is not that of a chain.
    #[error(
        "{}{point} is not the first block of a chain, and the set holds only the outputs of genesis files; name all chunks from \
         the first one on, or go on without them with --allow-missing",
        at_place(Some(*place))
    )]
    NotFirst {
        /// Where the block lies.
        place: BlockPlace,
        /// The first block that was read.
        point: Point,
    },
    /// An input names an output that is not in the set.
    #[error(
        "{}, byte {offset}: {point}: transaction {tx} spends {input}, which is not in the set; name the genesis files with \
         --genesis, in another store or branch, if the chain begins there, or go on past missing inputs with --allow-missing",
        of_chunk(*chunk)
    )]
    Missing {
        /// The chunk.
        chunk: u32,
        /// The offset of the block in it.
        offset: u64,
        /// The block.
        point: Box<Point>,
        /// The transaction.
        tx: TxId,
        /// What it spends.
        input: OutputRef,
    },
    /// The set is not what it is known to be after a chunk.
    #[error("after chunk {chunk} the {what} of the set is {found}, and should be {known}")]
    Wrong {
        /// The chunk.
        chunk: u32,
        /// What differs.
        what: &'static str,
        /// What it is.
        found: String,
        /// What it should be.
        known: String,
    },
    /// A file of checkpoints that is none.
    #[error("{file}: these are no checkpoints: {reason}")]
    Checkpoints {
        /// The file.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The index failed.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The set failed.
    #[error(transparent)]
    Utxo(#[from] UtxoError),
}

/// Returns how messages about a block that was read begin.
fn at_place(place: Option<BlockPlace>) -> String {
    place.map_or_else(String::new, |BlockPlace { chunk, offset, .. }| format!("{}, byte {offset}: ", of_chunk(chunk)))
}

impl ReplayError {
    /// Whether the replay worked and found an answer that is wrong.
    #[must_use]
    pub const fn is_wrong(&self) -> bool {
        matches!(self, Self::Wrong { .. })
    }
}
