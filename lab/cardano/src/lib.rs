//! The chain of a Cardano node: its immutable database, an index of blocks, and the set of unspent outputs as a
//! versioned map.

mod era;
mod hash;
mod index;
mod place;
mod point;

pub use era::Era;
pub use hash::{BlockHash, OutputRef, TxId};
pub use index::{BlockIndex, IndexError, IndexPart, Indexed, MappedIndex, MemoryIndex, Opened, Slots};
pub use place::BlockPlace;
pub use point::Point;
