//! One chunk: which blocks it holds, and whether they are what both indexes say.
//!
//! Blocks are checked one after another, as they are asked for. What is wrong is told behind the blocks before it.

use std::ops::Range;

use super::{
    ReadOptions, TornTail,
    layout::{ENTRY_BYTES, Entry, entries, filled_slots},
    sources::Files,
};
use crate::{Block, ChainError, Era, cbor};

/// A chunk that is read block by block.
pub(super) struct Chunk {
    pub(super) files: Files,
    blocks: Blocks,
    /// How many blocks were asked for.
    next: usize,
    /// What is not there, or not whole, behind the blocks: known when they are all read.
    pub(super) cut: Option<String>,
    options: ReadOptions,
}

/// How the blocks of a chunk are found.
enum Blocks {
    /// One block that stands for itself.
    Single,
    /// In a chunk that another follows: where each lies and what the secondary index says of it, up to the first that both
    /// indexes do not agree on.
    Listed { places: Vec<(Range<usize>, Entry)>, fault: Option<ChainError> },
    /// In the newest chunk: one behind another.
    Newest(Newest),
}

impl Chunk {
    /// Begins to read a chunk. Of the newest one, which has none `following`, the end may be missing.
    pub(super) fn open(files: Files, following: Option<&Result<Files, ChainError>>, options: &ReadOptions) -> Self {
        let blocks = match following {
            _ if files.single => Blocks::Single,
            None => Blocks::Newest(Newest { at: 0, entries: written(&files), agreed: 0, ended: false }),
            Some(following) => {
                let mut places = Vec::new();
                let mut listed = list(&files, options, &mut places);
                if let Some(following) = following.as_ref().ok().filter(|_| options.check) {
                    listed = listed.and_then(|()| goes_on_to_its_end(&files, following));
                }
                Blocks::Listed { places, fault: listed.err() }
            }
        };
        Self { files, blocks, next: 0, cut: None, options: options.clone() }
    }

    /// Returns the next block, checked against its entry, and its offset.
    pub(super) fn next(&mut self) -> Result<Option<(Block<'_>, usize)>, ChainError> {
        let index = self.next;
        self.next += 1;
        match &mut self.blocks {
            Blocks::Single if index > 0 => Ok(None),
            Blocks::Single => read(&self.files, 0..self.files.chunk.len(), None, &self.options).map(Some),
            Blocks::Listed { places, fault } => match places.get(index) {
                Some((at, entry)) => read(&self.files, at.clone(), Some(entry), &self.options).map(Some),
                None => fault.take().map_or(Ok(None), Err),
            },
            Blocks::Newest(newest) => newest.next(&self.files, index, &self.options, &mut self.cut),
        }
    }
}

/// Reads a block whose place is known.
fn read<'f>(
    files: &'f Files,
    at: Range<usize>,
    entry: Option<&Entry>,
    options: &ReadOptions,
) -> Result<(Block<'f>, usize), ChainError> {
    let (check, slots) = (options.check, options.byron_epoch_slots);
    let bytes = &files.chunk[at.clone()];
    let slot = entry.map(|entry| entry_slot(entry, bytes, slots));
    if let Some(reason) = entry.filter(|_| check).and_then(|entry| crc_differs(bytes, entry)) {
        return Err(files.damaged(at.start as u64, slot, reason));
    }
    let block = Block::parse_with(bytes, slots).map_err(|error| {
        let slot = slot.or_else(|| Block::slot_of_first(bytes, slots));
        files.damaged(at.start as u64 + error.offset as u64, slot, error.reason)
    })?;
    let slot = slot.or(Some(block.slot()));
    let wrong = match entry {
        _ if !check => None,
        entry => entry.and_then(|entry| differs(&block, at.start, entry, slots)).or_else(|| body_differs(&block)),
    };
    wrong.map_or(Ok((block, at.start)), |reason| Err(files.damaged(at.start as u64, slot, reason)))
}

/// Finds the blocks of a chunk that another follows: all three files are whole and agree. After an error `places` has the
/// blocks before it.
fn list(files: &Files, options: &ReadOptions, places: &mut Vec<(Range<usize>, Entry)>) -> Result<(), ChainError> {
    let damaged = |offset: u64, entry: Option<&Entry>, reason: String| {
        files.damaged(offset, slot_at(files, offset, entry, options.byron_epoch_slots), reason)
    };
    let (Some(primary), Some(secondary)) = (&files.primary, &files.secondary) else {
        let missing = if files.primary.is_none() { "primary" } else { "secondary" };
        return Err(damaged(0, None, format!("its {missing} index is missing, and chunks follow it")));
    };
    let (listed, rest) = entries(secondary);
    let listed: Vec<Entry> = listed.collect();
    let bytes = files.chunk.len() as u64;
    if listed.is_empty() && bytes > 0 && rest == 0 {
        return Err(damaged(0, None, format!("{bytes} bytes, and its secondary index is empty")));
    }
    let (agreed, mut wrong) = if options.check { agreed(primary, &listed, &files.chunk) } else { (listed.len(), None) };
    if rest != 0 && agreed == listed.len() {
        wrong = Some("its secondary index ends within an entry".to_owned());
    }
    let mut begin = 0;
    for (index, entry) in listed.iter().take(agreed).enumerate() {
        let end = match listed.get(index + 1) {
            Some(next) => next.offset,
            // What would say where the block ends may be missing.
            None if wrong.is_some() => own_end(files, begin).unwrap_or(bytes),
            None => bytes,
        };
        if entry.offset != begin || end <= begin || end > bytes {
            let reason = format!(
                "entry {index} of its secondary index has a block at {} to {end} of {bytes} bytes",
                entry.offset
            );
            return Err(damaged(begin, Some(entry), reason));
        }
        places.push((begin as usize..end as usize, *entry));
        begin = end;
    }
    wrong.map_or(Ok(()), |reason| Err(damaged(begin, listed.get(agreed), reason)))
}

/// Returns the slot of the block that begins somewhere: that of its entry, and without one what its header says.
fn slot_at(files: &Files, begin: u64, entry: Option<&Entry>, byron_epoch_slots: u64) -> Option<u64> {
    let rest = usize::try_from(begin).ok().and_then(|begin| files.chunk.get(begin..)).unwrap_or(&[]);
    let Some(entry) = entry else { return Block::slot_of_first(rest, byron_epoch_slots) };
    // Where not even its era is there, a boundary block is told by its relative slot, 0.
    let first = || files.primary.as_deref().and_then(|primary| filled_slots(primary).0.first().copied());
    if begin == 0 && rest.len() < 2 && first() == Some(0) {
        return Some(entry.slot.saturating_mul(byron_epoch_slots));
    }
    Some(entry_slot(entry, rest, byron_epoch_slots))
}

/// Returns the slot of an entry, beside the bytes of its block: an epoch boundary block, which its era tells, has an epoch there.
fn entry_slot(entry: &Entry, bytes: &[u8], byron_epoch_slots: u64) -> u64 {
    let is_boundary = bytes.starts_with(&[0x82, Era::ByronBoundary as u8]);
    if is_boundary { entry.slot.saturating_mul(byron_epoch_slots) } else { entry.slot }
}

/// Returns where the block ends that begins somewhere, if there is one.
fn own_end(files: &Files, begin: u64) -> Option<u64> {
    let rest = files.chunk.get(usize::try_from(begin).ok()?..)?;
    Some(begin + Block::first(rest).ok()?.bytes().len() as u64)
}

/// Compares the relative slots of the primary index with the slots of the secondary one: returns for how many entries they
/// agree, and what is wrong behind those.
fn agreed(primary: &[u8], listed: &[Entry], chunk: &[u8]) -> (usize, Option<String>) {
    let (filled, fault) = filled_slots(primary);
    // Relative slot 0 is that of a boundary block, whose entry has an epoch for a slot. Another block there has its own, and
    // should begin its chunk where the others do.
    let is_ordinary = begins_ordinary(chunk);
    let start = |(relative, entry): (&u32, &Entry)| {
        (*relative > 0 || is_ordinary).then(|| entry.slot.wrapping_sub(u64::from(*relative)))
    };
    let mut starts = filled.iter().zip(listed).map(start);
    let first = starts.clone().flatten().next();
    if let Some(index) = starts.position(|start| start.is_some() && start != first) {
        return (index, Some(format!("its indexes disagree about the slot of entry {index}")));
    }
    let reason = match fault {
        Some((at, reason)) => Some(format!("its primary index at byte {at}: {reason}")),
        None if filled.len() != listed.len() => {
            Some(format!("its primary index has {} blocks, its secondary index {}", filled.len(), listed.len()))
        }
        None => None,
    };
    (filled.len().min(listed.len()), reason)
}

/// Whether the first block of a chunk begins as one that is no boundary block.
fn begins_ordinary(chunk: &[u8]) -> bool {
    let Some([0x82, era]) = chunk.first_chunk::<2>() else { return false };
    Era::from_tag(u64::from(*era)).is_some_and(|era| era != Era::ByronBoundary)
}

/// Looks whether the primary index has an offset for every slot of its chunk, which a node adds before it begins the next chunk.
/// How many slots that are the two chunks tell: one follows the other, and the first has the number by which it lies there. Where
/// they do not tell it, as those of programs with another numbering, any length will do.
fn goes_on_to_its_end(files: &Files, following: &Files) -> Result<(), ChainError> {
    let (Some(primary), Some(first), Some(next)) = (&files.primary, first_slot(files), first_slot(following)) else {
        return Ok(());
    };
    let slots = next.saturating_sub(first);
    let follows = slots > 0 && files.number.checked_add(1) == Some(following.number);
    let is_numbered = follows && u64::from(files.number).checked_mul(slots) == Some(first);
    // Behind the version.
    let (offsets, whole) = ((primary.len() / 4) as u64, slots.saturating_add(2));
    if !is_numbered || offsets == whole {
        return Ok(());
    }
    let reason = format!("its primary index has {offsets} offsets, and a chunk of {slots} slots has {whole}");
    Err(files.damaged(files.chunk.len() as u64, None, reason))
}

/// Returns the slot with which the slots of a chunk begin, where several ordinary blocks have the same in both indexes.
fn first_slot(files: &Files) -> Option<u64> {
    let (filled, _) = filled_slots(files.primary.as_ref()?);
    let (listed, _) = entries(files.secondary.as_ref()?);
    let ordinary = filled.iter().zip(listed).filter(|(relative, _)| **relative > 0);
    let mut starts = ordinary.map(|(relative, entry)| entry.slot.checked_sub(u64::from(*relative) - 1));
    let (first, second) = (starts.next()??, starts.next()??);
    (first == second && starts.all(|start| start == Some(first))).then_some(first)
}

/// The newest chunk, which may have been written to when the node stopped. The entries of its secondary index are compared
/// as far as they go, and its primary index behind the last block.
struct Newest {
    /// Where the next block begins.
    at: usize,
    /// How many entries of the secondary index were written, the last one perhaps in part.
    entries: usize,
    /// How many of them agreed with their blocks.
    agreed: usize,
    /// What follows the last whole block was told.
    ended: bool,
}

impl Newest {
    /// Reads the block with this index; where there is none, looks what is there in its place.
    fn next<'f>(
        &mut self,
        files: &'f Files,
        index: usize,
        options: &ReadOptions,
        cut: &mut Option<String>,
    ) -> Result<Option<(Block<'f>, usize)>, ChainError> {
        if self.ended {
            return Ok(None);
        }
        let at = self.at;
        if at < files.chunk.len() {
            let entry = self.entry(files, index).map(|entry| (entry, index + 1 == self.entries));
            match look(&files.chunk, at, entry, options.byron_epoch_slots) {
                Ok((block, has_entry)) => {
                    self.at += block.bytes().len();
                    self.agreed += usize::from(has_entry);
                    return Ok(Some((block, at)));
                }
                Err(wrong) => *cut = Some(self.ends_with(files, index, options, wrong)?),
            }
        } else if let Some(reason) = self.indexes_differ(files, index) {
            // The index may have a block that is not there at all.
            let entry = self.entry(files, index).map(Entry::read);
            let slot = slot_at(files, at as u64, entry.as_ref(), options.byron_epoch_slots);
            let error = files.damaged(at as u64, slot, reason);
            if options.tail == TornTail::Refuse {
                self.ended = true;
                return Err(error);
            }
            *cut = Some(error.to_string());
        }
        self.ended = true;
        Ok(None)
    }

    /// Returns a note about what stands in the place of a block, or the error that it is.
    fn ends_with(
        &mut self,
        files: &Files,
        index: usize,
        options: &ReadOptions,
        wrong: Wrong,
    ) -> Result<String, ChainError> {
        let (bytes, slots) = (files.chunk.len(), options.byron_epoch_slots);
        self.ended = true;
        let entry = |index| self.entry(files, index).map(Entry::read);
        // A block behind which others begin was whole once, and one of which there is as much as its header says.
        let last = || entry(index + 1).is_none_or(|next| next.offset >= bytes as u64);
        let rest = files.chunk.get(self.at..).unwrap_or(&[]);
        let is_there = || Block::length_of_first(rest, slots).is_some_and(|length| length <= rest.len() as u64);
        // So was one whose header is all there and is not the one that the index has.
        let is_another = || entry(index).is_some_and(|entry| header_differs(rest, self.at, &entry));
        let torn = wrong.zeros || (wrong.ends_early && last() && !is_there() && !is_another());
        let slot = slot_at(files, self.at as u64, entry(index).as_ref(), slots);
        let error = files.damaged(self.at as u64, slot, wrong.reason);
        if options.tail == TornTail::Refuse || (options.tail == TornTail::Incomplete && !torn) {
            return Err(error);
        }
        Ok(format!("{error}; {} bytes behind {index} whole blocks are left out", bytes - self.at))
    }

    /// Returns an entry of the secondary index that was written.
    fn entry<'f>(&self, files: &'f Files, index: usize) -> Option<&'f [u8; ENTRY_BYTES]> {
        let secondary = files.secondary.as_deref().unwrap_or(&[]);
        secondary.as_chunks().0.get(index).filter(|_| index < self.entries)
    }

    /// Returns how the indexes differ from the blocks, which are `count` and all whole.
    fn indexes_differ(&self, files: &Files, count: usize) -> Option<String> {
        let secondary = files.secondary.as_deref().unwrap_or(&[]);
        if secondary.len() != count * ENTRY_BYTES {
            let bytes = secondary.len();
            return Some(format!(
                "the indexes end elsewhere than the blocks: {count} blocks, and a secondary index of {bytes} bytes"
            ));
        }
        if self.agreed != count {
            return Some(format!("its secondary index ends in zeros: {count} blocks, and {} entries", self.agreed));
        }
        let Some(primary) = &files.primary else { return Some("its primary index is missing".to_owned()) };
        let listed: Vec<Entry> = entries(secondary).0.collect();
        agreed(primary, &listed, &files.chunk).1
    }
}

/// Returns how many entries the secondary index has before zeros that go on to its end, as where the file grew and lost power
/// before its bytes were written.
fn written(files: &Files) -> usize {
    let (entries, _) = files.secondary.as_deref().unwrap_or(&[]).as_chunks::<ENTRY_BYTES>();
    entries.iter().rposition(|entry| *entry != [0; ENTRY_BYTES]).map_or(0, |last| last + 1)
}

/// Whether an entry begins as that of a block and goes on with zeros: the rest of it was not written.
fn is_cut(entry: &[u8; ENTRY_BYTES], block: &Block<'_>, at: usize) -> bool {
    let whole = Entry::of(block, at as u64).write();
    let written = entry.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    *entry != whole && whole.starts_with(&entry[..written])
}

/// Whether all bytes of the header are there which an entry has, and they are not that header's.
fn header_differs(rest: &[u8], at: usize, entry: &Entry) -> bool {
    let from = usize::from(entry.header_offset);
    let header = from..from + usize::from(entry.header_bytes);
    // The slot stands behind the hash: where it was not written, the hash may not have been either.
    let is_whole = entry.offset == at as u64 && entry.slot > 0;
    is_whole && Block::hash_of_first(rest, header).is_some_and(|hash| hash != entry.hash)
}

/// What is wrong with what stands in the place of a block.
struct Wrong {
    /// The chunk ends within the block.
    ends_early: bool,
    /// Zeros go on up to the end of the chunk, as where a file grew and lost power before its bytes were written.
    zeros: bool,
    reason: String,
}

/// Reads a block of the newest chunk; returns beside it whether it has an entry with which it agrees. Of the last entry, which is
/// said beside it, the end may be missing: then it is no entry.
fn look<'f>(
    chunk: &'f [u8],
    at: usize,
    entry: Option<(&[u8; ENTRY_BYTES], bool)>,
    byron_epoch_slots: u64,
) -> Result<(Block<'f>, bool), Wrong> {
    let rest = &chunk[at..];
    let zeros = |from: usize| {
        let behind = rest.get(from..).unwrap_or(&[]);
        !behind.is_empty() && behind.iter().all(|byte| *byte == 0)
    };
    let block = Block::first_with(rest, byron_epoch_slots).map_err(|error| Wrong {
        ends_early: cbor::ENDS_EARLY.contains(&error.reason),
        zeros: zeros(error.offset),
        reason: error.to_string(),
    })?;
    let entry = entry.filter(|(entry, is_last)| !(*is_last && is_cut(entry, &block, at)));
    let entry = entry.map(|(entry, _)| Entry::read(entry));
    let entry = entry.as_ref();
    let wrong = entry
        .and_then(|entry| crc_differs(block.bytes(), entry).or_else(|| differs(&block, at, entry, byron_epoch_slots)));
    let wrong = wrong.or_else(|| body_differs(&block));
    // Zeros from within the block on may be read as just its last parts. One byte could be altered as well.
    let within = block.bytes().len() == rest.len() && rest.ends_with(&[0; 2]);
    let zeros = || within || zeros(block.bytes().len());
    wrong.map_or(Ok(()), |reason| Err(Wrong { ends_early: false, zeros: zeros(), reason }))?;
    Ok((block, entry.is_some()))
}

/// Returns how the bytes of a block differ from the checksum that the secondary index has of them, if it has one.
fn crc_differs(bytes: &[u8], entry: &Entry) -> Option<String> {
    let crc = crc32fast::hash(bytes);
    (entry.crc != 0 && crc != entry.crc)
        .then(|| format!("the block's CRC-32 is {crc:08x}, the secondary index has {:08x}", entry.crc))
}

/// Returns how the body of a block differs from what its header says of it. A checksum says less: whoever alters a body can
/// alter that too.
fn body_differs(block: &Block<'_>) -> Option<String> {
    (!block.is_body_sound()).then(|| "the body of the block is not the one that its header names".to_owned())
}

/// Returns how a block differs from what the secondary index says of it.
fn differs(block: &Block<'_>, at: usize, entry: &Entry, byron_epoch_slots: u64) -> Option<String> {
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
    if slot == entry.slot {
        return None;
    }
    let mut reason = format!("the block is of slot {slot}, the secondary index has {}", entry.slot);
    if block.era() == Era::Byron {
        // The index has the slot itself, the block an epoch and a slot in it.
        reason += &format!(
            "; an epoch of Byron is taken to have {byron_epoch_slots} slots: if this network has another number, name Byron's \
             genesis file with --genesis"
        );
    }
    Some(reason)
}
