//! Where blocks lie.

/// Where the bytes of a block lie in an immutable database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockPlace {
    /// The number of the chunk.
    pub chunk: u32,
    /// Where the block begins in the chunk, in bytes.
    pub offset: u64,
    /// How many bytes it has.
    pub bytes: u32,
}
