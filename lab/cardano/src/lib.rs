//! The chain of a Cardano node: its immutable database, an index of blocks, and the set of unspent outputs as a
//! versioned map.

mod block;
mod cbor;
mod era;
mod hash;
mod point;

pub use block::{Block, BlockError, Created, Spent, Transaction, Transactions};
pub use era::Era;
pub use hash::{BlockHash, OutputRef, TxId};
pub use point::Point;
