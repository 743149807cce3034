//! The set of unspent outputs, which blocks change.
//!
//! [`Changes`] collects what blocks remove and add; a [`UtxoStore`] takes it as one commit that has the chain's point in it.
//! [`TreeUtxo`] keeps every commit, [`LsmUtxo`] the last state alone. Both count the entries and have the same digest.

use std::{fmt, time::Instant};

use thiserror::Error;

use self::digest::Digester;
pub(crate) use self::redeemable::is_of_genesis;
pub use self::{
    changes::Changes,
    digest::{UtxoDigest, lovelace},
    lsm::LsmUtxo,
    tree::{TreeUtxo, output_path},
};
use crate::{BlockError, BlockHash, OutputRef, Point};

mod changes;
mod digest;
mod lsm;
mod redeemable;
mod syncer;
mod tree;

/// How far a set is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UtxoTip {
    /// Nothing was committed.
    #[default]
    Empty,
    /// The outputs of the genesis files are there, and no block.
    Genesis,
    /// All blocks up to and with this one were applied.
    Block(Point),
}

impl UtxoTip {
    /// Returns the block; `None` before the first one.
    #[must_use]
    pub const fn point(self) -> Option<Point> {
        match self {
            Self::Block(point) => Some(point),
            Self::Empty | Self::Genesis => None,
        }
    }

    /// Returns how many blocks the chain has up to it, by the number of its block.
    #[must_use]
    pub const fn height(self) -> u64 {
        match self {
            Self::Block(point) => point.number.saturating_add(1),
            Self::Empty | Self::Genesis => 0,
        }
    }

    /// Reads what [`UtxoTip::fmt`] writes.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut words = text.lines().next()?.split(' ');
        let mut named = |name: &str| words.next().filter(|word| *word == name).and_then(|_| words.next());
        if text.trim_end() == "genesis" {
            return Some(Self::Genesis);
        }
        let number = named("block")?.parse().ok()?;
        let slot = named("slot")?.parse().ok()?;
        let hash: BlockHash = named("hash")?.parse().ok()?;
        words.next().is_none().then_some(Self::Block(Point { slot, number, hash }))
    }
}

impl fmt::Display for UtxoTip {
    /// Writes the line that commits have: `block 1 slot 20 hash 30…`, or `genesis`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("empty"),
            Self::Genesis => f.write_str("genesis"),
            Self::Block(Point { slot, number, hash }) => write!(f, "block {number} slot {slot} hash {hash}"),
        }
    }
}

/// A store of the set of unspent outputs.
pub trait UtxoStore: Send {
    /// Whether an output is in the set, changes that wait for a commit left aside.
    ///
    /// # Errors
    /// Those of the store.
    fn contains(&self, output: &OutputRef) -> Result<bool, UtxoError>;

    /// Returns an output's CBOR, as it stands in its block.
    ///
    /// # Errors
    /// Those of the store.
    fn get(&self, output: &OutputRef) -> Result<Option<Vec<u8>>, UtxoError>;

    /// Applies changes as one commit, after which the set is at `tip`, and leaves `changes` empty. An error leaves the set as it
    /// was, but for that of a sync behind ([`TreeUtxo::sync_behind`]), after which no commit succeeds.
    ///
    /// # Errors
    /// Those of the store.
    fn commit(&mut self, changes: &mut Changes, tip: UtxoTip) -> Result<(), UtxoError>;

    /// Waits until every commit is as durable as was asked for.
    ///
    /// # Errors
    /// Those of the store.
    fn settle(&mut self) -> Result<(), UtxoError> {
        Ok(())
    }

    /// Returns how many of the last commits are not yet as durable as was asked for, by what was waited for so far.
    fn unsettled(&self) -> usize {
        0
    }

    /// Returns when the oldest commit became so, of those that are and were not asked for: now, where commits return once they are.
    fn settled_at(&mut self) -> Instant {
        Instant::now()
    }

    /// Returns how far the set is.
    fn tip(&self) -> UtxoTip;

    /// Returns how far the set was after its first commit: [`UtxoTip::Genesis`] where it began with the outputs of genesis files.
    /// `None` where nothing says it: in a set without commits, where history was cut, and in a store that kept no record of it.
    ///
    /// # Errors
    /// Those of the store.
    fn began(&self) -> Result<Option<UtxoTip>, UtxoError>;

    /// Returns how many outputs are in the set.
    ///
    /// # Errors
    /// Those of the store.
    fn entries(&self) -> Result<u64, UtxoError>;

    /// Calls `each` for every output in the set and its CBOR, transaction by transaction in ascending order.
    ///
    /// # Errors
    /// Those of the store; whatever `each` returns.
    fn each(&self, each: &mut EachOutput<'_>) -> Result<(), UtxoError>;

    /// Returns the digest of the set, which reads all of it.
    ///
    /// # Errors
    /// Those of the store; [`UtxoError::Output`].
    fn digest(&self) -> Result<UtxoDigest, UtxoError> {
        digest_by(|each| self.each(each))
    }

    /// Returns the outputs whose addresses are of redemption, as those of `avvmDistr` in a Byron genesis file. Reads the whole set.
    ///
    /// # Errors
    /// Those of the store.
    fn redeemable(&self) -> Result<Vec<OutputRef>, UtxoError> {
        let mut found = Vec::new();
        self.each(&mut |output, cbor| {
            if redeemable::is_redeemable(cbor) {
                found.push(output);
            }
            Ok(())
        })?;
        Ok(found)
    }
}

/// What is called with each output and its CBOR.
pub type EachOutput<'a> = dyn FnMut(OutputRef, &[u8]) -> Result<(), UtxoError> + 'a;

/// Returns the digest of the outputs with which `walk` calls what it is given.
fn digest_by(walk: impl FnOnce(&mut EachOutput<'_>) -> Result<(), UtxoError>) -> Result<UtxoDigest, UtxoError> {
    let mut digester = Digester::new();
    walk(&mut |output, cbor| {
        digester.add(output, cbor).map_err(|source| UtxoError::Output { entry: output.to_string(), source })
    })?;
    Ok(digester.finish())
}

/// Why a set did not do what it was asked for.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UtxoError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] bristlecone::Error),
    /// The database of [`LsmUtxo`] failed.
    #[error("{file}: the database failed")]
    Lsm {
        /// Its folder.
        file: String,
        /// What it says.
        source: fjall::Error,
    },
    /// A store with other contents.
    #[error("{reason}; name another store or branch")]
    OtherStore {
        /// What is there.
        reason: String,
    },
    /// No kept commit is at or before a slot.
    #[error("the set is not kept at slot {slot}: its first commit is later")]
    NotKept {
        /// The slot.
        slot: u64,
    },
    /// No commit is kept from so many blocks ago.
    #[error("the set is not kept as it was {blocks} blocks ago: its first commit is later")]
    NotSoFar {
        /// How many blocks.
        blocks: u64,
    },
    /// An entry that is no output.
    #[error("the entry {entry} of the set is no output: {source}")]
    Output {
        /// Its key.
        entry: String,
        /// What is wrong.
        source: BlockError,
    },
}
