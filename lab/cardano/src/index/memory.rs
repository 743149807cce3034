//! The index in memory.

use std::ops::RangeInclusive;

use super::{BlockIndex, IndexError, Indexed, Slots, chain::Chain};
use crate::{BlockHash, BlockPlace, Point};

/// An index in memory: 64 bytes for a block, and 11 to 23 for its hash in the table.
///
/// ```
/// use bristlecone_cardano::{BlockHash, BlockIndex, BlockPlace, MemoryIndex, Point};
///
/// let mut index = MemoryIndex::new()?;
/// let point = Point { slot: 20, number: 1, hash: BlockHash([7; 32]) };
/// index.insert(&point, BlockPlace { chunk: 0, offset: 0, bytes: 863 })?;
/// assert_eq!(index.by_slot(20)?, index.by_hash(&point.hash)?);
/// assert_eq!(index.by_number(2)?, None);
/// # Ok::<(), bristlecone_cardano::IndexError>(())
/// ```
pub struct MemoryIndex(pub(super) Chain);

impl MemoryIndex {
    /// Makes an empty index.
    ///
    /// # Errors
    /// [`IndexError::Io`] if the system has no memory for it.
    pub fn new() -> Result<Self, IndexError> {
        Chain::create(None).map(Self)
    }
}

/// Passes the calls of the trait on to the chain within.
macro_rules! through_chain {
    ($name:ident) => {
        impl BlockIndex for $name {
            fn insert(&mut self, point: &Point, place: BlockPlace) -> Result<(), IndexError> {
                self.0.insert(point, place)
            }

            #[inline]
            fn by_hash(&self, hash: &BlockHash) -> Result<Option<Indexed>, IndexError> {
                self.0.by_hash(hash)
            }

            fn by_slot(&self, slot: u64) -> Result<Option<Indexed>, IndexError> {
                self.0.by_slot(slot)
            }

            fn by_number(&self, number: u64) -> Result<Option<Indexed>, IndexError> {
                self.0.by_number(number)
            }

            fn slots(&self, range: RangeInclusive<u64>) -> Slots<'_> {
                self.0.slots(&range)
            }

            #[inline]
            fn has(&self, hash: &BlockHash) -> Result<bool, IndexError> {
                self.0.has(hash)
            }

            fn tip(&self) -> Option<Indexed> {
                self.0.tip()
            }

            fn len(&self) -> u64 {
                u64::from(self.0.records.count)
            }

            fn truncate(&mut self, to: Option<&Point>) -> Result<(), IndexError> {
                self.0.truncate(to)
            }

            fn sync(&mut self) -> Result<(), IndexError> {
                self.0.sync()
            }
        }
    };
}
pub(super) use through_chain;

through_chain!(MemoryIndex);
