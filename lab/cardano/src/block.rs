//! Blocks as they lie on disk, of every era. `docs/formats/cardano.md` has the bytes.
//!
//! Nothing is encoded anew: ids are hashes of the bytes as they stand in the block.

use std::ops::Range;

use thiserror::Error;

pub use self::transaction::{Created, Spent, Transaction, Transactions};
use crate::{
    BlockHash, Era, Point,
    cbor::{Cbor, Count},
    hash::blake2b_256,
};

mod byron;
mod header;
mod proof;
mod transaction;

use self::header::Header;

/// How many slots an epoch of Byron has on the public networks that had that era. A network has ten times the number of blocks
/// that its genesis file calls `k`.
pub const BYRON_EPOCH_SLOTS: u64 = 21_600;

/// Why bytes are no block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("at byte {offset} of the block: {reason}")]
pub struct BlockError {
    /// Where, counted from the block's first byte.
    pub offset: usize,
    /// What is wrong there.
    pub reason: &'static str,
}

/// A block: its header is read, its shape is checked, its transactions are read when they are asked for.
#[derive(Clone, Debug)]
pub struct Block<'b> {
    bytes: &'b [u8],
    era: Era,
    header: Range<usize>,
    head: Header,
    hash: BlockHash,
    /// The transactions: of Shelley and later the array of bodies, of Byron that of transactions with their witnesses.
    bodies: Range<usize>,
    /// The parts behind the header, which it names: transactions, witnesses, auxiliary data, and from Alonzo on the places of
    /// failed transactions; in Byron the body, and what comes behind it.
    parts: [Range<usize>; 4],
}

impl<'b> Block<'b> {
    /// Reads a block that takes all of `bytes`.
    ///
    /// ```
    /// use bristlecone_cardano::{Block, Era};
    ///
    /// let error = Block::parse(&[0x82, 0x09, 0x80]).unwrap_err();
    /// assert_eq!((error.offset, error.reason), (1, "an era that is not known"));
    /// ```
    ///
    /// # Errors
    /// [`BlockError`] where the bytes are no block of a known era, or go on behind it.
    pub fn parse(bytes: &'b [u8]) -> Result<Self, BlockError> {
        Self::parse_with(bytes, BYRON_EPOCH_SLOTS)
    }

    /// Reads the block with which `bytes` begin.
    ///
    /// # Errors
    /// As [`Block::parse`], but for what follows.
    pub fn first(bytes: &'b [u8]) -> Result<Self, BlockError> {
        Self::first_with(bytes, BYRON_EPOCH_SLOTS)
    }

    /// Does the same as [`Block::parse`], for a network whose epochs of Byron have so many slots.
    pub(crate) fn parse_with(bytes: &'b [u8], byron_epoch_slots: u64) -> Result<Self, BlockError> {
        let block = Self::first_with(bytes, byron_epoch_slots)?;
        if block.bytes.len() != bytes.len() {
            return Err(BlockError { offset: block.bytes.len(), reason: "bytes follow the block" });
        }
        Ok(block)
    }

    /// Does the same as [`Block::first`], for a network whose epochs of Byron have so many slots.
    pub(crate) fn first_with(bytes: &'b [u8], byron_epoch_slots: u64) -> Result<Self, BlockError> {
        let Start { mut cbor, outer, mut inner, era, header, head } = Start::read(bytes, byron_epoch_slots)?;
        let mut parts: [Range<usize>; 4] = Default::default();
        for part in &mut parts[..body_parts(era)] {
            cbor.next(&mut inner, SHAPE)?;
            *part = cbor.item()?;
        }
        let bodies = if era.is_byron() { byron::transactions(era, bytes, &parts[0])? } else { parts[0].clone() };
        end(&mut cbor, inner, SHAPE)?;
        end(&mut cbor, outer, SHAPE)?;
        let hash = header::hash(era, &bytes[header.clone()]);
        Ok(Self { bytes: &bytes[..cbor.at()], era, header, head, hash, bodies, parts })
    }

    /// Returns the slot of the block with which `bytes` begin by its header, whatever is wrong behind that.
    pub(crate) fn slot_of_first(bytes: &'b [u8], byron_epoch_slots: u64) -> Option<u64> {
        Some(Start::read(bytes, byron_epoch_slots).ok()?.head.slot)
    }

    /// Returns how many bytes the block has with which `bytes` begin, as its header says; `None` in Byron, whose headers do not.
    pub(crate) fn length_of_first(bytes: &'b [u8], byron_epoch_slots: u64) -> Option<u64> {
        let Start { header, head, .. } = Start::read(bytes, byron_epoch_slots).ok()?;
        (header.end as u64).checked_add(head.body_bytes?)
    }

    /// Returns the hash of the block with which `bytes` begin if its header lies at a place, whatever stands there; `None` where the
    /// bytes end before that does, or are of no known era.
    pub(crate) fn hash_of_first(bytes: &'b [u8], header: Range<usize>) -> Option<BlockHash> {
        let era = Era::from_tag(u64::from(*bytes.get(1)?))?;
        Some(header::hash(era, bytes.get(header)?))
    }

    /// Returns the block with other bytes, which must be the same as those that were read.
    pub(crate) fn with_bytes(self, bytes: &[u8]) -> Block<'_> {
        let Self { bytes: _, era, header, head, hash, bodies, parts } = self;
        Block { bytes, era, header, head, hash, bodies, parts }
    }

    /// Returns the bytes of the block.
    #[must_use]
    pub const fn bytes(&self) -> &'b [u8] {
        self.bytes
    }

    /// Returns the era.
    #[must_use]
    pub const fn era(&self) -> Era {
        self.era
    }

    /// Returns the slot, counted from the start of the chain; of an epoch boundary block the first slot of its epoch.
    ///
    /// Byron counts slots within epochs. They have [`BYRON_EPOCH_SLOTS`], unless the block was read with
    /// [another number](crate::ReadOptions#structfield.byron_epoch_slots).
    #[must_use]
    pub const fn slot(&self) -> u64 {
        self.head.slot
    }

    /// Returns the epoch of an epoch boundary block.
    #[must_use]
    pub const fn boundary_epoch(&self) -> Option<u64> {
        self.head.boundary_epoch
    }

    /// Returns the magic of the network; `None` in Shelley and later, where no header has it.
    #[must_use]
    pub const fn magic(&self) -> Option<u64> {
        self.head.magic
    }

    /// Returns the number of the block; an epoch boundary block has that of its predecessor.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.head.number
    }

    /// Returns the hash of the block before; `None` in the first block of a chain that begins with Shelley or later. The
    /// first block of Byron has the hash of the genesis file here.
    #[must_use]
    pub const fn previous(&self) -> Option<BlockHash> {
        self.head.previous
    }

    /// Returns the hash of the block.
    #[must_use]
    pub const fn hash(&self) -> BlockHash {
        self.hash
    }

    /// Returns slot, number and hash.
    #[must_use]
    pub const fn point(&self) -> Point {
        Point { slot: self.head.slot, number: self.head.number, hash: self.hash }
    }

    /// Returns the bytes of the header.
    #[must_use]
    pub fn header(&self) -> &'b [u8] {
        self.bytes.get(self.header.clone()).unwrap_or(&[])
    }

    /// Returns where the header lies in the block.
    #[must_use]
    pub fn header_range(&self) -> Range<usize> {
        self.header.clone()
    }

    /// Whether the body is the one that the header names: by its hash, in Byron by a proof.
    #[must_use]
    pub fn is_body_sound(&self) -> bool {
        let Some(named) = self.head.body_hash else {
            let [body, extra, ..] = &self.parts;
            return proof::holds(self.era, self.bytes, &self.header, body, extra).unwrap_or(false);
        };
        let count = body_parts(self.era);
        let mut hashes = [[0; 32]; 4];
        for (hash, part) in hashes.iter_mut().zip(&self.parts[..count]) {
            *hash = blake2b_256(&[&self.bytes[part.clone()]]);
        }
        blake2b_256(&[hashes[..count].as_flattened()]) == named
    }

    /// Returns the transactions, in order.
    ///
    /// # Errors
    /// [`BlockError`] where the list of transactions that failed is no such list.
    pub fn transactions(&self) -> Result<Transactions<'b>, BlockError> {
        Transactions::new(self.bytes, self.era, &self.bodies, &self.parts[3])
    }
}

const SHAPE: &str = "a block is an array of an era and its contents";

/// A block that is read up to the end of its header.
struct Start<'b> {
    cbor: Cbor<'b>,
    /// What is left of the array of era and contents, and of the contents.
    outer: Count,
    inner: Count,
    era: Era,
    header: Range<usize>,
    head: Header,
}

impl<'b> Start<'b> {
    #[inline]
    fn read(bytes: &'b [u8], byron_epoch_slots: u64) -> Result<Self, BlockError> {
        let mut cbor = Cbor::new(bytes);
        let mut outer = cbor.array_of(2..3, SHAPE)?;
        cbor.next(&mut outer, SHAPE)?;
        let at = cbor.at();
        let era = Era::from_tag(cbor.unsigned(SHAPE)?);
        let era = era.ok_or(BlockError { offset: at, reason: "an era that is not known" })?;
        cbor.next(&mut outer, SHAPE)?;
        let length = body_parts(era) as u64 + 1;
        let mut inner = cbor.array_of(length..length + 1, "a block has not as many parts as its era says")?;
        cbor.next(&mut inner, SHAPE)?;
        let header = cbor.item()?;
        if header.len() > usize::from(u16::MAX) {
            let reason = "a header of more than 65,535 bytes";
            return Err(BlockError { offset: header.start, reason });
        }
        let head = Header::read(era, bytes, &header, byron_epoch_slots)?;
        Ok(Self { cbor, outer, inner, era, header, head })
    }
}

/// Returns how many parts a block has behind its header.
fn body_parts(era: Era) -> usize {
    match era {
        Era::ByronBoundary | Era::Byron => 2,
        Era::Shelley | Era::Allegra | Era::Mary => 3,
        Era::Alonzo | Era::Babbage | Era::Conway => 4,
    }
}

/// Reads the end of an array all items of which were read.
fn end(cbor: &mut Cbor<'_>, mut count: Count, reason: &'static str) -> Result<(), BlockError> {
    let at = cbor.at();
    if cbor.done(&mut count)? { Ok(()) } else { Err(BlockError { offset: at, reason }) }
}

#[cfg(test)]
mod tests;
