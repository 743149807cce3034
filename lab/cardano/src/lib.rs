//! The chain of a Cardano node: its immutable database, an index of blocks, and the set of unspent outputs as a versioned map.
//!
//! [`ChainReader`] streams blocks from a node's files and checks each; [`Block`] lends what is in one. [`BlockIndex`] says where a
//! block lies, by hash, slot or number. [`utxo`] keeps the set of unspent outputs, every state of it as a commit, and
//! [`replay`] puts a chain into both.
//!
//! ```no_run
//! use bristlecone::{Durability, MemoryBackend, Repo};
//! use bristlecone_cardano::{
//!     ChainReader, Genesis, MemoryIndex, ReadOptions,
//!     replay::{Replay, ReplayOptions},
//!     utxo::{TreeUtxo, UtxoStore},
//! };
//!
//! let repo = Repo::with_backend(TreeUtxo::format(), std::sync::Arc::new(MemoryBackend::new()));
//! let (mut index, mut set) = (MemoryIndex::new()?, TreeUtxo::open(&repo, "main", Durability::None)?);
//! let mut replay = Replay::new(&mut index, &mut set, ReplayOptions::default())?;
//! replay.begin(&[Genesis::read("byron-genesis.json".as_ref())?])?;
//! let mut chain = ChainReader::open(&["db".into()], ReadOptions::default().start_slot(replay.from()))?;
//! replay.run(&mut chain, &mut ())?;
//! println!("{} at {}", set.digest()?.hex(), set.tip());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod block;
mod cbor;
mod era;
mod error;
mod genesis;
mod hash;
pub mod immutable;
mod index;
#[cfg(test)]
mod made_up;
mod place;
mod point;
pub mod replay;
pub mod utxo;

pub use block::{BYRON_EPOCH_SLOTS, Block, BlockError, Created, Spent, Transaction, Transactions};
pub use era::Era;
pub use error::ChainError;
pub use genesis::{Genesis, GenesisError};
pub use hash::{BlockHash, OutputRef, TxId};
pub use immutable::{ChainReader, ReadOptions, StoredBlock, TornTail};
pub use index::{BlockIndex, IndexError, IndexPart, Indexed, MappedIndex, MemoryIndex, Opened, Slots};
pub use place::BlockPlace;
pub use point::Point;
