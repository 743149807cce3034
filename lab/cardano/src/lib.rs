//! The chain of a Cardano node: its immutable database, an index of blocks, and the set of unspent outputs as a
//! versioned map.

mod block;
mod cbor;
mod era;
mod error;
mod hash;
pub mod immutable;
mod index;
mod place;
mod point;

pub use block::{Block, BlockError, Created, Spent, Transaction, Transactions};
pub use era::Era;
pub use error::ChainError;
pub use hash::{BlockHash, OutputRef, TxId};
pub use immutable::{ChainReader, ReadOptions, StoredBlock, TornTail};
pub use index::{BlockIndex, IndexError, IndexPart, Indexed, MappedIndex, MemoryIndex, Opened, Slots};
pub use place::BlockPlace;
pub use point::Point;
