//! The immutable database of a node: chunks of blocks with two indexes each. `docs/formats/cardano.md` has the bytes.
//!
//! [`ChainReader`] streams blocks from folders and archives, one chunk in memory at a time (of archives two more are unpacked
//! ahead), and checks each: CRC, header hash, body, place in both indexes, link to the block before. [`Appender`] writes blocks as
//! a node does, and [`ImmutableDb`] reads single ones by their places.

use std::{path::PathBuf, sync::atomic::Ordering::Relaxed};

pub use self::{
    append::Appender,
    database::{ImmutableDb, Listed},
};
use self::{
    chunk::Chunk,
    sources::{Files, Sources},
};
use crate::{BYRON_EPOCH_SLOTS, Block, BlockHash, BlockPlace, ChainError, Era, Point};

mod append;
mod archive;
mod chunk;
mod database;
mod layout;
mod sources;

/// What is done about the newest chunk where its end is not whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TornTail {
    /// Whole blocks are read, and a note tells what follows them, where the end is missing as after a crash: a block that is
    /// cut off, zeros, or indexes that end elsewhere. Altered bytes are an error behind the blocks before them.
    #[default]
    Incomplete,
    /// The blocks before the first that is not sound are read, whatever is wrong with it.
    Cut,
    /// Whatever is wrong is an error behind the blocks before it.
    Refuse,
}

/// How a chain is read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReadOptions {
    /// Blocks before this slot are left out, and whole chunks of them not looked at.
    pub start_slot: Option<u64>,
    /// Whether CRCs, hashes, indexes and links are checked.
    pub check: bool,
    /// What is done about the newest chunk where its end is not whole.
    pub tail: TornTail,
    /// How many slots an epoch of Byron has: [`BYRON_EPOCH_SLOTS`], unless a genesis file says another number
    /// ([`Genesis`](crate::Genesis)).
    pub byron_epoch_slots: u64,
}

bristlecone::setters! {
    ReadOptions {
        start_slot: into Option<u64>,
        check: bool,
        tail: TornTail,
        byron_epoch_slots: u64,
    }
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { start_slot: None, check: true, tail: TornTail::default(), byron_epoch_slots: BYRON_EPOCH_SLOTS }
    }
}

/// A block with the place where it lies. A block that stands in no chunk lies at byte 0 of chunk
/// [`NO_CHUNK`].
#[derive(Clone, Debug)]
pub struct StoredBlock<'r> {
    /// The block.
    pub block: Block<'r>,
    /// Where it lies.
    pub place: BlockPlace,
}

/// The number of the chunk of a block that stands in none.
pub const NO_CHUNK: u32 = u32::MAX;

/// Streams the blocks of a chain.
///
/// A path is a node's folder, its folder `immutable`, an archive of that (`.tar.zst`, `.tar`), a single chunk with the
/// indexes beside it, or a file with one block, as bytes or in hexadecimal.
pub struct ChainReader {
    sources: Sources,
    options: ReadOptions,
    chunk: Option<Chunk>,
    /// Read ahead, since the newest chunk is the one that no other follows. What cannot be read follows too.
    following: Option<Result<Files, ChainError>>,
    last: Option<Link>,
    tail: Option<String>,
}

impl std::fmt::Debug for ChainReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChainReader").field("last", &self.last).finish_non_exhaustive()
    }
}

impl ChainReader {
    /// Opens the places that hold a chain, in its order.
    ///
    /// # Errors
    /// [`ChainError::NoChain`], [`ChainError::Io`].
    pub fn open(paths: &[PathBuf], options: ReadOptions) -> Result<Self, ChainError> {
        let mut sources = Sources::new(paths, options.start_slot)?;
        let following = sources.next()?.map(Ok);
        Ok(Self { sources, options, chunk: None, following, last: None, tail: None })
    }

    /// Returns the next block; `None` at the end of the chain.
    ///
    /// # Errors
    /// [`ChainError::Damaged`] and [`ChainError::Order`], which name chunk, offset and slot; [`ChainError::TooLarge`],
    /// [`ChainError::Io`]. Blocks before the error were sound, and were all returned.
    pub fn next_block(&mut self) -> Result<Option<StoredBlock<'_>>, ChainError> {
        loop {
            if !self.open_chunk()? {
                return Ok(None);
            }
            let Some(chunk) = &mut self.chunk else { return Ok(None) };
            let number = chunk.files.number;
            let Some((block, offset)) = chunk.next()? else {
                self.tail = chunk.cut.take();
                self.chunk = None;
                continue;
            };
            let link = Link::of(&block);
            let place = BlockPlace { chunk: number, offset: offset as u64, bytes: block.bytes().len() as u32 };
            let wrong = self.last.filter(|_| self.options.check);
            if let Some(reason) = wrong.and_then(|last| last.breaks(&link)) {
                let (file, offset, slot) = (chunk.files.name.clone(), place.offset, link.point.slot);
                return Err(ChainError::Order { file, chunk: number, offset, slot, reason });
            }
            self.last = Some(link);
            if self.options.start_slot.is_some_and(|start| link.point.slot < start) {
                continue;
            }
            // What is lent of the chunk could not be given back within the loop.
            let block = block.with_bytes(&[]);
            let Some(chunk) = &self.chunk else { return Ok(None) };
            let from = place.offset as usize;
            let bytes = chunk.files.chunk.get(from..from + place.bytes as usize).unwrap_or(&[]);
            return Ok(Some(StoredBlock { block: block.with_bytes(bytes), place }));
        }
    }

    /// Makes sure that there is a chunk with blocks left; returns whether there is one.
    fn open_chunk(&mut self) -> Result<bool, ChainError> {
        if self.chunk.is_none() {
            let Some(files) = self.following.take().transpose()? else { return Ok(false) };
            self.following = self.sources.next().transpose();
            self.chunk = Some(Chunk::open(files, self.following.as_ref(), &self.options));
        }
        Ok(true)
    }

    /// Returns how many bytes of the places were read, and how many there are.
    #[must_use]
    pub fn progress(&self) -> (u64, Option<u64>) {
        (self.sources.read.load(Relaxed), self.sources.total)
    }

    /// Returns what was found behind the last whole block, where something was: once the last block is read.
    #[must_use]
    pub fn tail(&self) -> Option<&str> {
        self.tail.as_deref()
    }
}

/// A block as the order of the chain knows it.
#[derive(Clone, Copy, Debug)]
struct Link {
    point: Point,
    previous: Option<BlockHash>,
    era: Era,
    is_boundary: bool,
}

impl Link {
    fn of(block: &Block<'_>) -> Self {
        let is_boundary = block.boundary_epoch().is_some();
        Self { point: block.point(), previous: block.previous(), era: block.era(), is_boundary }
    }

    /// Returns why another block cannot follow this one.
    fn breaks(&self, next: &Self) -> Option<String> {
        let (last, point) = (&self.point, &next.point);
        if next.previous != Some(last.hash) {
            let named = next.previous.map_or_else(|| "no block".to_owned(), |hash| hash.to_string());
            return Some(format!("it follows {named}, and the block before it is {last}"));
        }
        // Boundary blocks stand among others of Byron.
        if next.era < self.era && !self.era.is_byron() {
            return Some(format!("it is of the era {}, and the block before it is of {}", next.era, self.era));
        }
        let Some(following) = last.number.checked_add(1) else {
            return Some("the block before it has the greatest number that there is".to_owned());
        };
        // A boundary block has the first slot of its epoch, and so may the block behind it.
        let shares_slot = self.is_boundary && !next.is_boundary && point.slot == last.slot;
        if point.slot <= last.slot && !shares_slot {
            return Some(format!("the block before it is of slot {}", last.slot));
        }
        let number = if next.is_boundary { last.number } else { following };
        (point.number != number).then(|| format!("its number is {}, not {number}", point.number))
    }
}

#[cfg(test)]
mod tests;
