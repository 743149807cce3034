//! A made-up chain: hashes as evenly spread as real ones, and every twentieth slot filled on average.

use bristlecone_cardano::{BlockHash, BlockPlace, Indexed, Point};

/// Slots of a chunk, as on mainnet.
const CHUNK_SLOTS: u64 = 21_600;
/// Slots from one block to the next, on average.
const SLOTS: u64 = 20;

/// The blocks of a chain.
pub(super) struct MadeUp {
    pub(super) blocks: Vec<Indexed>,
}

impl MadeUp {
    pub(super) fn new(count: u64) -> Self {
        let block = |number: u64| {
            let hash = hash(number);
            let slot = number * SLOTS + u64::from(hash.0[0]) % SLOTS;
            let place =
                BlockPlace { chunk: (slot / CHUNK_SLOTS) as u32, offset: number % 1000 * 2000 + 1, bytes: 2000 };
            Indexed { point: Point { slot, number, hash }, place }
        };
        Self { blocks: (0..count).map(block).collect() }
    }

    /// Returns the hash of a block that the chain does not have.
    pub(super) fn absent(&self, number: u64) -> BlockHash {
        hash(number + self.blocks.len() as u64)
    }
}

fn hash(number: u64) -> BlockHash {
    BlockHash::of(&[&number.to_le_bytes()])
}
