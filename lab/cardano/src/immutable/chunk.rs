//! One chunk: which blocks it holds, and whether they are what both indexes say.

use std::ops::Range;

use super::{
    TornTail,
    layout::{ENTRY_BYTES, Entry, entries, filled_slots},
    sources::Files,
};
use crate::{Block, ChainError, cbor};

/// A chunk whose blocks are known by their places.
pub(super) struct Chunk {
    pub(super) files: Files,
    /// Of each block where it lies, and what the secondary index says of it.
    blocks: Vec<(Range<usize>, Option<Entry>)>,
    next: usize,
    /// What is not there, or not whole, behind the blocks.
    pub(super) cut: Option<String>,
    check: bool,
}

impl Chunk {
    /// Finds the blocks of a chunk. Of the `newest` one the end may be missing.
    pub(super) fn open(files: Files, newest: bool, tail: TornTail, check: bool) -> Result<Self, ChainError> {
        let mut chunk = Self { files, blocks: Vec::new(), next: 0, cut: None, check };
        if chunk.files.single {
            chunk.blocks.push((0..chunk.files.chunk.len(), None));
        } else if newest {
            chunk.find_in_newest(tail)?;
        } else {
            chunk.find()?;
        }
        Ok(chunk)
    }

    fn damaged(&self, offset: u64, slot: Option<u64>, reason: impl Into<String>) -> ChainError {
        let (file, chunk) = (self.files.name.clone(), self.files.number);
        ChainError::Damaged { file, chunk, offset, slot, reason: reason.into() }
    }

    /// Finds the blocks of a chunk that another follows: all three files are whole and agree.
    fn find(&mut self) -> Result<(), ChainError> {
        let (Some(primary), Some(secondary)) = (&self.files.primary, &self.files.secondary) else {
            let missing = if self.files.primary.is_none() { "primary" } else { "secondary" };
            return Err(self.damaged(0, None, format!("its {missing} index is missing, and chunks follow it")));
        };
        let (listed, rest) = entries(secondary);
        if rest != 0 {
            return Err(self.damaged(0, None, "its secondary index ends within an entry"));
        }
        let listed: Vec<Entry> = listed.collect();
        let bytes = self.files.chunk.len() as u64;
        if listed.is_empty() && bytes > 0 {
            return Err(self.damaged(0, None, format!("{bytes} bytes, and its secondary index is empty")));
        }
        let mut blocks = Vec::with_capacity(listed.len());
        for (index, entry) in listed.iter().enumerate() {
            let begin = blocks.last().map_or(0, |(at, _): &(Range<usize>, _)| at.end as u64);
            let end = listed.get(index + 1).map_or(bytes, |next| next.offset);
            if entry.offset != begin || end <= begin || end > bytes {
                let reason = format!("entry {index} of its secondary index has a block at {} to {end}", entry.offset);
                return Err(self.damaged(begin, Some(entry.slot), reason));
            }
            blocks.push((begin as usize..end as usize, Some(*entry)));
        }
        if self.check {
            let filled = filled_slots(primary)
                .map_err(|(at, reason)| self.damaged(0, None, format!("its primary index at byte {at}: {reason}")))?;
            self.compare(&filled, &listed)?;
        }
        self.blocks = blocks;
        Ok(())
    }

    /// Compares the relative slots of the primary index with the slots of the secondary one.
    fn compare(&self, filled: &[u32], listed: &[Entry]) -> Result<(), ChainError> {
        if filled.len() != listed.len() {
            let (filled, listed) = (filled.len(), listed.len());
            let reason = format!("its primary index has {filled} blocks, its secondary index {listed}");
            return Err(self.damaged(0, None, reason));
        }
        // Relative slot 0 is that of a boundary block, whose entry has an epoch for a slot.
        let start =
            |(relative, entry): (&u32, &Entry)| (*relative > 0).then(|| entry.slot.wrapping_sub(u64::from(*relative)));
        let mut starts = filled.iter().zip(listed).map(start);
        let first = starts.clone().flatten().next();
        if let Some(index) = starts.position(|start| start.is_some() && start != first) {
            let entry = &listed[index];
            let reason = format!("its indexes disagree about the slot of entry {index}");
            return Err(self.damaged(entry.offset, Some(entry.slot), reason));
        }
        Ok(())
    }

    /// Finds the blocks of the newest chunk, which may have been written to when the node stopped.
    fn find_in_newest(&mut self, tail: TornTail) -> Result<(), ChainError> {
        let secondary = self.files.secondary.take().unwrap_or_default();
        let listed: Vec<Entry> = entries(&secondary).0.collect();
        let bytes = self.files.chunk.len();
        let mut at = 0;
        let mut wrong = None;
        while at < bytes {
            let entry = listed.get(self.blocks.len()).copied();
            match self.look(at, entry.as_ref()) {
                Ok(end) => {
                    self.blocks.push((at..end, entry));
                    at = end;
                }
                Err(found) => {
                    wrong = Some(found);
                    break;
                }
            }
        }
        let count = self.blocks.len();
        if let Some((torn, reason)) = wrong {
            // A block behind which others begin was whole once.
            let torn = torn && listed.get(count + 1).is_none_or(|next| next.offset >= bytes as u64);
            let slot = listed.get(count).map(|entry| entry.slot);
            let error = self.damaged(at as u64, slot, reason);
            if tail == TornTail::Refuse || (tail == TornTail::Incomplete && !torn) {
                return Err(error);
            }
            self.cut = Some(format!("{error}; {} bytes behind {count} whole blocks are left out", bytes - at));
        } else if secondary.len() != count * ENTRY_BYTES {
            let reason = format!("{count} blocks, and a secondary index of {} bytes", secondary.len());
            if tail == TornTail::Refuse {
                return Err(self.damaged(bytes as u64, None, reason));
            }
            self.cut = Some(format!("{}: the indexes end elsewhere than the blocks: {reason}", self.files.name));
        }
        self.files.secondary = Some(secondary);
        Ok(())
    }

    /// Reads a block of the newest chunk and returns where it ends; else what is wrong, and whether it looks torn.
    fn look(&self, at: usize, entry: Option<&Entry>) -> Result<usize, (bool, String)> {
        let block = Block::first(&self.files.chunk[at..])
            .map_err(|error| (cbor::ENDS_EARLY.contains(&error.reason), error.to_string()))?;
        match entry {
            Some(entry) => {
                let wrong = crc_differs(block.bytes(), entry).or_else(|| differs(&block, at, entry));
                wrong.map_or(Ok(()), |reason| Err((false, reason)))?;
            }
            None if block.is_body_sound() == Some(false) => {
                return Err((false, "the body of the block is not the one that its header names".into()));
            }
            None => {}
        }
        Ok(at + block.bytes().len())
    }

    /// Returns the next block, checked against its entry, and its offset.
    pub(super) fn next(&mut self) -> Result<Option<(Block<'_>, usize)>, ChainError> {
        let Some((at, entry)) = self.blocks.get(self.next).cloned() else { return Ok(None) };
        self.next += 1;
        let slot = entry.map(|entry| entry.slot);
        if let Some(entry) = entry.as_ref().filter(|_| self.check)
            && let Some(reason) = crc_differs(&self.files.chunk[at.clone()], entry)
        {
            return Err(self.damaged(at.start as u64, slot, reason));
        }
        let block = Block::parse(&self.files.chunk[at.clone()])
            .map_err(|error| self.damaged(at.start as u64 + error.offset as u64, slot, error.reason))?;
        if self.check {
            let wrong = match &entry {
                Some(entry) => differs(&block, at.start, entry),
                None if self.files.single && block.is_body_sound() == Some(false) => {
                    Some("the body of the block is not the one that its header names".into())
                }
                None => None,
            };
            if let Some(reason) = wrong {
                return Err(self.damaged(at.start as u64, slot, reason));
            }
        }
        Ok(Some((block, at.start)))
    }
}

/// Returns how the bytes of a block differ from the checksum that the secondary index has of them, if it has one.
fn crc_differs(bytes: &[u8], entry: &Entry) -> Option<String> {
    let crc = crc32fast::hash(bytes);
    (entry.crc != 0 && crc != entry.crc)
        .then(|| format!("the block's CRC-32 is {crc:08x}, the secondary index has {:08x}", entry.crc))
}

/// Returns how a block differs from what the secondary index says of it.
fn differs(block: &Block<'_>, at: usize, entry: &Entry) -> Option<String> {
    if entry.offset != at as u64 {
        return Some(format!("the secondary index has the block at byte {}", entry.offset));
    }
    if block.hash() != entry.hash {
        return Some(format!("the block's header hashes to {}, the secondary index has {}", block.hash(), entry.hash));
    }
    let header = block.header_range();
    if (header.start, header.len()) != (usize::from(entry.header_offset), usize::from(entry.header_bytes)) {
        return Some("the secondary index has the block's header elsewhere".into());
    }
    let slot = block.boundary_epoch().unwrap_or_else(|| block.slot());
    (slot != entry.slot).then(|| format!("the block is of slot {slot}, the secondary index has {}", entry.slot))
}
