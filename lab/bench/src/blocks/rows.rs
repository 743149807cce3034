//! What is done with an index, and the ones that it is done with.

use std::{fs, hint::black_box, ops::RangeInclusive, path::PathBuf, time::Instant};

use bristlecone_cardano::{BlockHash, BlockIndex, Indexed, MappedIndex, MemoryIndex, Opened};

#[cfg(feature = "rust-peers")]
use super::peers::PeerIndex;
use super::{failed, made_up::MadeUp};
use crate::{BenchError, error::Result, measure::Run};

/// Keys that are looked up again and again.
const HOT_KEYS: u64 = 500;
/// Lookups of a round.
const LOOKUPS: u64 = 100_000;
/// Blocks that are looked up in an index which was filled or opened, and as many absent ones; no clock runs then.
const COMPARED: usize = 1000;
/// Slots of a range.
const RANGE_SLOTS: u64 = 100;

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    HitHot,
    MissHot,
    HitRandom,
    MissRandom,
    Slot,
    Number,
    Range,
    Insert,
    OpenClean,
    OpenCrashed,
}

impl Operation {
    /// Every row, in the order of the table.
    pub(super) const ALL: [Self; 10] = [
        Self::HitHot,
        Self::MissHot,
        Self::HitRandom,
        Self::MissRandom,
        Self::Slot,
        Self::Number,
        Self::Range,
        Self::Insert,
        Self::OpenClean,
        Self::OpenCrashed,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::HitHot => "hit-hot",
            Self::MissHot => "miss-hot",
            Self::HitRandom => "hit-random",
            Self::MissRandom => "miss-random",
            Self::Slot => "slot",
            Self::Number => "number",
            Self::Range => "range-100",
            Self::Insert => "insert",
            Self::OpenClean => "open-clean",
            Self::OpenCrashed => "open-crashed",
        }
    }

    /// Whether an index does it in this round: only the mapped one is opened, and a database is filled three times at most.
    pub(super) const fn is_of(self, kept: &Kept, round: usize) -> bool {
        match self {
            Self::OpenClean | Self::OpenCrashed => kept.dir.is_some(),
            Self::Insert => round <= 3 || !kept.is_peer(),
            _ => true,
        }
    }
}

/// An index with what is needed to make it again.
pub(super) struct Kept {
    dir: Option<PathBuf>,
    index: Index,
}

enum Index {
    Memory(MemoryIndex),
    Mapped(MappedIndex),
    Closed,
    #[cfg(feature = "rust-peers")]
    Peer(&'static str, Box<dyn PeerIndex>),
}

/// What rows look up, of our indexes and of others. Lookups give the mark of a block, so that no block is copied on its way.
pub(super) trait Lookups {
    fn hash(&self, hash: &BlockHash) -> Result<Option<u64>>;
    fn slot(&self, slot: u64) -> Result<Option<u64>>;
    fn number(&self, number: u64) -> Result<Option<u64>>;
    /// Gives each block in a range of slots to `take`, in order.
    fn each(&self, slots: RangeInclusive<u64>, take: &mut dyn FnMut(Indexed)) -> Result<()>;
}

/// Returns what counts of a block in the sum of a round: its place and its number.
#[inline]
pub(super) const fn mark(block: &Indexed) -> u64 {
    block.place.offset ^ block.point.number << 20
}

#[inline]
fn marked(found: core::result::Result<Option<Indexed>, bristlecone_cardano::IndexError>) -> Result<Option<u64>> {
    match &found {
        Ok(Some(block)) => Ok(Some(mark(block))),
        Ok(None) => Ok(None),
        Err(_) => found.map(|_| None).map_err(failed),
    }
}

impl Lookups for dyn BlockIndex + '_ {
    #[inline]
    fn hash(&self, hash: &BlockHash) -> Result<Option<u64>> {
        marked(self.by_hash(hash))
    }

    #[inline]
    fn slot(&self, slot: u64) -> Result<Option<u64>> {
        marked(self.by_slot(slot))
    }

    #[inline]
    fn number(&self, number: u64) -> Result<Option<u64>> {
        marked(self.by_number(number))
    }

    fn each(&self, slots: RangeInclusive<u64>, take: &mut dyn FnMut(Indexed)) -> Result<()> {
        for block in self.slots(slots) {
            take(block.map_err(failed)?);
        }
        Ok(())
    }
}

impl Kept {
    #[cfg(feature = "rust-peers")]
    pub(super) fn peer(name: &'static str, index: Box<dyn PeerIndex>) -> Self {
        Self { dir: None, index: Index::Peer(name, index) }
    }

    const fn is_peer(&self) -> bool {
        #[cfg(feature = "rust-peers")]
        if matches!(self.index, Index::Peer(..)) {
            return true;
        }
        false
    }

    pub(super) fn new(dir: Option<PathBuf>) -> Result<Self> {
        let mut kept = Self { dir, index: Index::Closed };
        kept.renew()?;
        Ok(kept)
    }

    pub(super) const fn name(&self) -> &'static str {
        #[cfg(feature = "rust-peers")]
        if let Index::Peer(name, _) = &self.index {
            return name;
        }
        if self.dir.is_some() { "mapped index" } else { "memory index" }
    }

    pub(super) fn fill(&mut self, chain: &MadeUp) -> Result<()> {
        self.add(chain)?;
        self.sync()
    }

    fn add(&mut self, chain: &MadeUp) -> Result<()> {
        #[cfg(feature = "rust-peers")]
        if let Index::Peer(_, index) = &mut self.index {
            return index.fill(&chain.blocks);
        }
        let index = self.get_mut()?;
        for block in &chain.blocks {
            index.insert(&block.point, block.place).map_err(failed)?;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        #[cfg(feature = "rust-peers")]
        if let Index::Peer(_, index) = &mut self.index {
            return index.sync();
        }
        self.get_mut()?.sync().map_err(failed)
    }

    /// Does a round of a row.
    pub(super) fn round(&mut self, operation: Operation, chain: &MadeUp, round: u64) -> Result<Run> {
        match operation {
            Operation::Insert => self.insert(chain),
            Operation::OpenClean => self.open(chain, true),
            Operation::OpenCrashed => self.open(chain, false),
            _ => match &self.index {
                #[cfg(feature = "rust-peers")]
                Index::Peer(_, index) => lookups(&**index, operation, chain, round),
                _ => lookups(self.get()?, operation, chain, round),
            },
        }
    }

    fn renew(&mut self) -> Result<()> {
        #[cfg(feature = "rust-peers")]
        if let Index::Peer(_, index) = &mut self.index {
            return index.clear();
        }
        self.index = Index::Closed;
        self.index = match &self.dir {
            None => Index::Memory(MemoryIndex::new().map_err(failed)?),
            Some(dir) => {
                fs::create_dir_all(dir).map_err(BenchError::io(dir))?;
                Index::Mapped(MappedIndex::create(dir).map_err(failed)?)
            }
        };
        Ok(())
    }

    fn get(&self) -> Result<&dyn BlockIndex> {
        match &self.index {
            Index::Memory(index) => Ok(index),
            Index::Mapped(index) => Ok(index),
            _ => Err(BenchError::usage("the index is closed")),
        }
    }

    fn get_mut(&mut self) -> Result<&mut dyn BlockIndex> {
        match &mut self.index {
            Index::Memory(index) => Ok(index),
            Index::Mapped(index) => Ok(index),
            _ => Err(BenchError::usage("the index is closed")),
        }
    }

    fn insert(&mut self, chain: &MadeUp) -> Result<Run> {
        self.renew()?;
        let started = Instant::now();
        self.add(chain)?;
        let seconds = started.elapsed().as_secs_f64();
        self.sync()?;
        let wrong = self.differs(chain)?;
        Ok(Run { ops: chain.blocks.len() as u64, seconds, wrong, threads: 1, ..Run::default() })
    }

    fn open(&mut self, chain: &MadeUp, clean: bool) -> Result<Run> {
        let Some(dir) = &self.dir else { return Err(BenchError::usage("an index in memory is not opened")) };
        match std::mem::replace(&mut self.index, Index::Closed) {
            Index::Mapped(index) if clean => index.close().map_err(failed)?,
            Index::Mapped(mut index) => {
                // A change that is taken back leaves an index that is not clean.
                let tip = index.tip().map(|tip| tip.point);
                let before = chain.blocks.iter().rev().nth(1).map(|block| &block.point);
                index.truncate(before).map_err(failed)?;
                if let (Some(tip), Some(last)) = (tip, chain.blocks.last()) {
                    index.insert(&tip, last.place).map_err(failed)?;
                }
                index.sync().map_err(failed)?;
            }
            _ => {}
        }
        let started = Instant::now();
        let (index, how) = MappedIndex::open(dir).map_err(failed)?;
        let seconds = started.elapsed().as_secs_f64();
        self.index = Index::Mapped(index);
        let wrong = if matches!(how, Opened::Clean) == clean { self.differs(chain)? } else { Some(format!("{how:?}")) };
        Ok(Run { ops: 1, seconds, wrong, threads: 1, ..Run::default() })
    }

    /// Compares all that the index holds with the chain, and looks some of it up.
    fn differs(&self, chain: &MadeUp) -> Result<Option<String>> {
        match &self.index {
            #[cfg(feature = "rust-peers")]
            Index::Peer(_, index) => differs(&**index, chain),
            _ => differs(self.get()?, chain),
        }
    }
}

/// Compares all that an index holds with the chain, looks a sample up by hash, slot and number, and what the chain does not have.
fn differs<L: Lookups + ?Sized>(index: &L, chain: &MadeUp) -> Result<Option<String>> {
    let (mut blocks, mut wrong) = (chain.blocks.iter(), None);
    index.each(0..=u64::MAX, &mut |found| {
        let expected = blocks.next();
        if expected != Some(&found) {
            wrong.get_or_insert_with(|| format!("{found:?} is there in the place of {expected:?}"));
        }
    })?;
    if let Some(missing) = blocks.next().filter(|_| wrong.is_none()) {
        return Ok(Some(format!("{missing:?} is missing")));
    }
    let step = (chain.blocks.len() / COMPARED).max(1);
    for block in chain.blocks.iter().step_by(step).chain(chain.blocks.last()) {
        let point = &block.point;
        let absent = chain.absent(point.number);
        let found = [index.hash(&point.hash)?, index.slot(point.slot)?, index.number(point.number)?];
        let none = [index.hash(&absent)?, index.number(point.number + chain.blocks.len() as u64)?];
        if found != [Some(mark(block)); 3] || none != [None; 2] {
            wrong.get_or_insert_with(|| format!("lookups of {block:?} find {found:?}, and of what is absent {none:?}"));
        }
    }
    Ok(wrong)
}

/// Does a round of lookups.
fn lookups<L: Lookups + ?Sized>(index: &L, operation: Operation, chain: &MadeUp, round: u64) -> Result<Run> {
    let count = chain.blocks.len() as u64;
    let is_hot = matches!(operation, Operation::HitHot | Operation::MissHot);
    // Odd multiples of a large number go over all blocks in no order that a processor foresees.
    let chosen = |n: u64| ((n + 1 + round * LOOKUPS).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20) % count;
    let blocks: Vec<&Indexed> =
        (0..if is_hot { HOT_KEYS } else { LOOKUPS }).map(|n| &chain.blocks[chosen(n) as usize]).collect();
    let hashes: Vec<BlockHash> = match operation {
        Operation::MissHot | Operation::MissRandom => {
            blocks.iter().map(|block| chain.absent(block.point.number)).collect()
        }
        _ => blocks.iter().map(|block| block.point.hash).collect(),
    };
    let repeats = LOOKUPS / blocks.len() as u64;
    let mut found = 0_u64;
    let started = Instant::now();
    for _ in 0..repeats {
        match operation {
            Operation::Slot => {
                for block in &blocks {
                    add(&mut found, index.slot(block.point.slot)?);
                }
            }
            Operation::Number => {
                for block in &blocks {
                    add(&mut found, index.number(block.point.number)?);
                }
            }
            Operation::Range => {
                for block in &blocks {
                    let slots = block.point.slot..=block.point.slot + RANGE_SLOTS - 1;
                    index.each(slots, &mut |block| add(&mut found, Some(mark(&block))))?;
                }
            }
            _ => {
                for hash in &hashes {
                    add(&mut found, index.hash(hash)?);
                }
            }
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    let expected = expected(operation, chain, &blocks).wrapping_mul(repeats);
    let wrong = (black_box(found) != expected).then(|| format!("the answers add up to {found}, not {expected}"));
    Ok(Run { ops: repeats * blocks.len() as u64, seconds, wrong, threads: 1, ..Run::default() })
}

/// Returns the sum of what a round finds, from the chain alone.
fn expected(operation: Operation, chain: &MadeUp, blocks: &[&Indexed]) -> u64 {
    let mut sum = 0;
    for block in blocks {
        match operation {
            Operation::MissHot | Operation::MissRandom => {}
            Operation::Range => {
                let last = block.point.slot + RANGE_SLOTS - 1;
                let from = chain.blocks[block.point.number as usize..].iter();
                from.take_while(|block| block.point.slot <= last).for_each(|block| add(&mut sum, Some(mark(block))));
            }
            _ => add(&mut sum, Some(mark(block))),
        }
    }
    sum
}

/// Takes in an answer.
#[inline]
fn add(sum: &mut u64, found: Option<u64>) {
    if let Some(mark) = found {
        *sum = sum.wrapping_add(mark);
    }
}

#[cfg(test)]
mod tests;
