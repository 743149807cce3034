//! What can be wrong with a chain.

use std::{io, path::Path};

use thiserror::Error;

use crate::immutable::NO_CHUNK;

/// What can be wrong with a chain that is read or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ChainError {
    /// Bytes that are not as they must be.
    #[error("{file}: {} is damaged at byte {offset}{}: {reason}", of_chunk(*chunk), of_slot(*slot))]
    Damaged {
        /// The file, or the archive with the file in it.
        file: String,
        /// The number of the chunk; of a single block [`NO_CHUNK`](crate::immutable::NO_CHUNK).
        chunk: u32,
        /// The offset in the chunk, in bytes.
        offset: u64,
        /// The slot of the block there, where it is known.
        slot: Option<u64>,
        /// What is wrong.
        reason: String,
    },
    /// Blocks that do not follow each other.
    #[error(
        "{file}: {}, byte {offset}: the block of slot {slot} does not continue the chain: {reason}",
        of_chunk(*chunk)
    )]
    Order {
        /// The file, or the archive with the file in it.
        file: String,
        /// The number of the chunk; of a single block [`NO_CHUNK`](crate::immutable::NO_CHUNK).
        chunk: u32,
        /// The offset of the block in the chunk, in bytes.
        offset: u64,
        /// Its slot.
        slot: u64,
        /// What differs.
        reason: String,
    },
    /// A file or folder that holds no chain.
    #[error("{file}: {reason}")]
    NoChain {
        /// The file or folder.
        file: String,
        /// What is there, or is not.
        reason: String,
    },
    /// A file that is larger than what is held in memory.
    #[error("{file} has {bytes} bytes; at most {bytes_max} are read")]
    TooLarge {
        /// The file, or the archive with the file in it.
        file: String,
        /// Its length.
        bytes: u64,
        /// The bound.
        bytes_max: u64,
    },
    /// The system failed.
    #[error("{file} cannot be read or written")]
    Io {
        /// The file.
        file: String,
        /// What the system says.
        source: io::Error,
    },
}

impl ChainError {
    pub(crate) fn io(file: &Path) -> impl FnOnce(io::Error) -> Self {
        let file = file.display().to_string();
        move |source| Self::Io { file, source }
    }
}

/// Returns how messages call a chunk, or a block that stands in none.
pub(crate) fn of_chunk(chunk: u32) -> String {
    if chunk == NO_CHUNK { "a single block".to_owned() } else { format!("chunk {chunk}") }
}

fn of_slot(slot: Option<u64>) -> String {
    slot.map_or_else(String::new, |slot| format!(", in the block of slot {slot}"))
}
