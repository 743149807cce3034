//! The files of a chunk: their names, and the entries of both indexes.

use crate::{Block, BlockHash};

/// The bytes of an entry of the secondary index.
pub(crate) const ENTRY_BYTES: usize = 56;
/// The version with which a primary index begins.
pub(crate) const PRIMARY_VERSION: u8 = 1;

const _: () = assert!(8 + 2 + 2 + 4 + 32 + 8 == ENTRY_BYTES);

/// Which of a chunk's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Chunk,
    Primary,
    Secondary,
}

impl Part {
    pub(crate) const ALL: [Self; 3] = [Self::Chunk, Self::Primary, Self::Secondary];

    pub(crate) const fn extension(self) -> &'static str {
        match self {
            Self::Chunk => "chunk",
            Self::Primary => "primary",
            Self::Secondary => "secondary",
        }
    }
}

/// Returns a file's name.
pub(crate) fn file_name(chunk: u32, part: Part) -> String {
    format!("{chunk:05}.{}", part.extension())
}

/// Returns which chunk's which file a name is of; `None` for other files.
pub(crate) fn parse_name(name: &str) -> Option<(u32, Part)> {
    let (number, extension) = name.split_once('.')?;
    let part = Part::ALL.into_iter().find(|part| part.extension() == extension)?;
    let digits = number.len() >= 5 && number.bytes().all(|byte| byte.is_ascii_digit());
    Some((number.parse().ok().filter(|_| digits)?, part))
}

/// An entry of the secondary index: a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) offset: u64,
    pub(crate) header_offset: u16,
    pub(crate) header_bytes: u16,
    /// 0 from tools that have none.
    pub(crate) crc: u32,
    pub(crate) hash: BlockHash,
    /// The slot; of an epoch boundary block its epoch.
    pub(crate) slot: u64,
}

impl Entry {
    /// Returns the entry of a block that lies at an offset.
    pub(crate) fn of(block: &Block<'_>, offset: u64) -> Self {
        let header = block.header_range();
        Self {
            offset,
            header_offset: header.start as u16,
            header_bytes: header.len() as u16,
            crc: crc32fast::hash(block.bytes()),
            hash: block.hash(),
            slot: block.boundary_epoch().unwrap_or_else(|| block.slot()),
        }
    }

    pub(crate) fn read(bytes: &[u8; ENTRY_BYTES]) -> Self {
        fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
            bytes[at..at + N].try_into().unwrap_or([0; N])
        }
        Self {
            offset: u64::from_be_bytes(part(bytes, 0)),
            header_offset: u16::from_be_bytes(part(bytes, 8)),
            header_bytes: u16::from_be_bytes(part(bytes, 10)),
            crc: u32::from_be_bytes(part(bytes, 12)),
            hash: BlockHash(part(bytes, 16)),
            slot: u64::from_be_bytes(part(bytes, 48)),
        }
    }

    pub(crate) fn write(&self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..8].copy_from_slice(&self.offset.to_be_bytes());
        bytes[8..10].copy_from_slice(&self.header_offset.to_be_bytes());
        bytes[10..12].copy_from_slice(&self.header_bytes.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.crc.to_be_bytes());
        bytes[16..48].copy_from_slice(&self.hash.0);
        bytes[48..].copy_from_slice(&self.slot.to_be_bytes());
        bytes
    }
}

/// Returns the whole entries of a secondary index, and how many bytes follow them.
pub(crate) fn entries(secondary: &[u8]) -> (impl ExactSizeIterator<Item = Entry> + '_, usize) {
    let (entries, rest) = secondary.as_chunks::<ENTRY_BYTES>();
    (entries.iter().map(Entry::read), rest.len())
}

/// Returns the relative slots of a primary index that are filled, in order; where something is wrong with it, those before
/// that, with the byte and what is wrong.
pub(crate) fn filled_slots(primary: &[u8]) -> (Vec<u32>, Option<(usize, &'static str)>) {
    let mut filled = Vec::new();
    let fault = fill(primary, &mut filled).err();
    (filled, fault)
}

fn fill(primary: &[u8], filled: &mut Vec<u32>) -> Result<(), (usize, &'static str)> {
    let Some((&version, offsets)) = primary.split_first() else { return Err((0, "it is empty")) };
    if version != PRIMARY_VERSION {
        return Err((0, "its version is not 1"));
    }
    let (offsets, rest) = offsets.as_chunks::<4>();
    let mut last = 0;
    for (index, offset) in offsets.iter().enumerate() {
        let offset = u32::from_be_bytes(*offset);
        let at = 1 + 4 * index;
        if index == 0 && offset != 0 {
            return Err((at, "its first offset is not 0"));
        }
        if offset != last {
            if offset.checked_sub(last) != Some(ENTRY_BYTES as u32) {
                return Err((at, "its offsets are no multiples of 56 that ascend by one entry"));
            }
            filled.push(index as u32 - 1);
            last = offset;
        }
    }
    if rest.is_empty() { Ok(()) } else { Err((primary.len() - rest.len(), "it ends within an offset")) }
}
