//! Where a block lies.

/// Where a block lies in a node's immutable database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockPlace {
    /// The number of the chunk.
    pub chunk: u32,
    /// The offset of the block's first byte in the chunk.
    pub offset: u64,
    /// The length of the block in bytes.
    pub bytes: u32,
}
