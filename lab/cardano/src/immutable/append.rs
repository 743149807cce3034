//! Writing blocks as a node does.
//!
//! Every byte goes through the byte seam. Blocks are synced before the secondary index, and that before the primary one; a
//! chunk is whole and durable before the next one begins. So after a crash only the newest chunk can be wrong, and
//! opening makes both of its indexes again from the whole blocks that it holds.

use std::{io, sync::Arc};

use bristlecone::storage::{OpenMode, Storage, StorageFile};

use super::{
    Link, ReadOptions, TornTail,
    chunk::Chunk,
    layout::{ENTRY_BYTES, Entry, PRIMARY_VERSION, Part, file_name, parse_name},
    sources::{FILE_BYTES_MAX, Files},
};
use crate::{Block, BlockPlace, ChainError, Point};

/// How many chunks are begun for one block, at most: between it and the last one all others are made, without blocks. On mainnet,
/// whose chunks are six hours long, they are eleven years.
const AHEAD_MAX: u32 = 1 << 14;

/// Appends blocks to an immutable database, in the layout that a node reads.
///
/// One process appends at a time; the appender takes no lock.
#[derive(Debug)]
pub struct Appender {
    storage: Arc<dyn Storage>,
    slots_in_chunk: u64,
    open: Option<Growing>,
    last: Option<Link>,
    cut: Option<String>,
    /// A write or a sync failed: what the files hold is not known.
    failed: bool,
}

/// The chunk that grows.
#[derive(Debug)]
struct Growing {
    number: u32,
    files: [Arc<dyn StorageFile>; 3],
    chunk_bytes: u64,
    entries: u64,
    /// The relative slots whose offsets are in the primary index, with the one behind the last block.
    slots: u64,
    unsynced: bool,
}

impl Appender {
    /// Opens the database in a folder, or begins one, for a network whose chunks, as its epochs of Byron, have so many slots each:
    /// 21,600 on mainnet and preprod, 4,320 on preview. What a crash left behind the last whole block of the newest chunk is cut off.
    ///
    /// # Errors
    /// [`ChainError::Order`] where the last blocks are in another chunk than their slots say, as where the chunks of another network
    /// are opened, or the newest chunk does not follow the one before: nothing is written then. [`ChainError::Damaged`] where the
    /// chunk before the newest one does not end in a block; [`ChainError::Io`].
    ///
    /// # Panics
    /// If a chunk has no slots.
    pub fn open(storage: Arc<dyn Storage>, slots_in_chunk: u64) -> Result<Self, ChainError> {
        assert!(slots_in_chunk > 0, "a chunk has slots");
        let mut appender = Self { storage, slots_in_chunk, open: None, last: None, cut: None, failed: false };
        appender.storage.create_dir("").map_err(appender.io(""))?;
        let names = appender.storage.list("").map_err(appender.io(""))?;
        let numbers = names.iter().filter_map(|name| parse_name(name)).map(|(number, _)| number);
        let Some(newest) = numbers.max() else { return Ok(appender) };
        let last = appender.find_last(newest)?;
        appender.recover(newest)?;
        appender.last = appender.last.or(last);
        Ok(appender)
    }

    /// Returns the last block of the database. Looks whether its chunk is the one for slots like its blocks have, and follows the
    /// chunk with blocks before it.
    fn find_last(&self, newest: u32) -> Result<Option<Link>, ChainError> {
        let is_absent = |error: &ChainError| matches!(error, ChainError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound);
        // The chunk with the last block, with its first and its last one.
        let mut found: Option<(u32, [Link; 2])> = None;
        for number in (0..=newest).rev() {
            let tail = if number == newest { TornTail::Cut } else { TornTail::Refuse };
            let ends = match self.load(number, tail) {
                Ok(mut chunk) => self.ends_of(&mut chunk)?,
                // A newest chunk has only indexes where nothing was written to it; of a later part earlier ones are absent.
                Err(error) if is_absent(&error) && number == newest => None,
                Err(error) if is_absent(&error) => break,
                Err(error) => return Err(error),
            };
            match (ends, found) {
                (None, _) => {}
                (Some(ends), None) => found = Some((number, ends)),
                (Some([_, before]), Some((chunk, [first, last]))) => {
                    let Some(reason) = before.breaks(&first) else { return Ok(Some(last)) };
                    let file = self.storage.describe(&file_name(chunk, Part::Chunk));
                    return Err(ChainError::Order { file, chunk, offset: 0, slot: first.point.slot, reason });
                }
            }
        }
        Ok(found.map(|(_, [_, last])| last))
    }

    /// Returns the first and the last block of a chunk, all blocks of which must be of its slots.
    fn ends_of(&self, chunk: &mut Chunk) -> Result<Option<[Link; 2]>, ChainError> {
        let mut ends: Option<[Link; 2]> = None;
        let (file, number, slots) = (chunk.files.name.clone(), chunk.files.number, self.slots_in_chunk);
        while let Some((block, offset)) = chunk.next()? {
            let slot = block.slot();
            if block.boundary_epoch().is_none() && slot / slots != u64::from(number) {
                let reason = format!(
                    "with {slots} slots a chunk it would be in chunk {}; name those of this network",
                    slot / slots
                );
                return Err(ChainError::Order { file, chunk: number, offset: offset as u64, slot, reason });
            }
            let link = Link::of(&block);
            ends = Some([ends.map_or(link, |[first, _]| first), link]);
        }
        Ok(ends)
    }

    /// Returns the last block; `None` in an empty database.
    #[must_use]
    pub fn tip(&self) -> Option<Point> {
        self.last.map(|last| last.point)
    }

    /// Returns what was cut off when the database was opened.
    #[must_use]
    pub fn cut(&self) -> Option<&str> {
        self.cut.as_deref()
    }

    /// Appends a block and returns where it lies. It is durable after [`Appender::sync`].
    ///
    /// # Errors
    /// [`ChainError::Order`] for a block that does not continue the chain; [`ChainError::Io`], after which everything is refused until
    /// the database is opened again.
    pub fn append(&mut self, block: &Block<'_>) -> Result<BlockPlace, ChainError> {
        let (link, slots) = (Link::of(block), self.slots_in_chunk);
        let slot = link.point.slot;
        let number = u32::try_from(slot / slots);
        let reason = match (&self.last, number) {
            (_, Err(_)) => Some("its slot is beyond all chunks".to_owned()),
            (Some(last), _) => last.breaks(&link),
            _ => None,
        };
        let number = number.unwrap_or(u32::MAX);
        let late = self.open.as_ref().is_some_and(|open| number < open.number);
        let reason = reason.or_else(|| late.then(|| "its chunk is complete".to_owned()));
        let ahead = number.saturating_sub(self.chunk_to_begin_at(block, number));
        let far = || format!("chunk {number} is {ahead} behind the newest; at most {AHEAD_MAX} are made at once");
        let reason = reason.or_else(|| (ahead > AHEAD_MAX).then(far));
        // Of a boundary block the primary index has no other place than the first one.
        let amid = link.is_boundary && !slot.is_multiple_of(slots);
        let reason = reason.or_else(|| {
            amid.then(|| format!("it is a boundary block, and with {slots} slots a chunk its slot begins no chunk"))
        });
        if let Some(reason) = reason {
            let file = self.storage.describe(&file_name(number, Part::Chunk));
            return Err(ChainError::Order { file, chunk: number, offset: 0, slot, reason });
        }
        self.refuse_failed()?;
        let placed = self.append_to(number, block, &link);
        self.failed |= placed.is_err();
        placed
    }

    /// Returns the chunk from which all up to that of a block are made: the open one, or the first one.
    fn chunk_to_begin_at(&self, block: &Block<'_>, number: u32) -> u32 {
        // A chain from its start has all chunks; of a later part the first one is that of its first block.
        let first = if block.previous().is_none() { 0 } else { number };
        self.open.as_ref().map_or(first, |open| open.number)
    }

    /// Appends a block that continues the chain, in the chunk with a number.
    fn append_to(&mut self, number: u32, block: &Block<'_>, link: &Link) -> Result<BlockPlace, ChainError> {
        if self.open.is_none() {
            self.begin(self.chunk_to_begin_at(block, number))?;
        }
        while let Some(open) = self.open.as_ref().map(|open| open.number).filter(|open| *open < number) {
            self.complete()?;
            self.begin(open + 1)?;
        }
        let place = self.write(block, self.relative(link))?;
        self.last = Some(*link);
        Ok(place)
    }

    /// Makes durable what was appended.
    ///
    /// # Errors
    /// [`ChainError::Io`], as for [`Appender::append`]: a later sync would not know what this one has lost.
    pub fn sync(&mut self) -> Result<(), ChainError> {
        self.refuse_failed()?;
        let Some(open) = self.open.as_ref().filter(|open| open.unsynced) else { return Ok(()) };
        let synced = [Part::Chunk, Part::Secondary, Part::Primary]
            .into_iter()
            .try_for_each(|part| open.files[part as usize].sync_data().map_err(self.io(&file_name(open.number, part))));
        self.failed = synced.is_err();
        if let Some(open) = &mut self.open {
            open.unsynced = synced.is_err();
        }
        synced
    }

    fn refuse_failed(&self) -> Result<(), ChainError> {
        if !self.failed {
            return Ok(());
        }
        Err(self.io("")(io::Error::other("a write or a sync failed before; open the database again")))
    }

    fn io(&self, name: &str) -> impl FnOnce(io::Error) -> ChainError + use<> {
        let file = self.storage.describe(name);
        move |source| ChainError::Io { file, source }
    }

    /// Begins a chunk.
    fn begin(&mut self, number: u32) -> Result<(), ChainError> {
        let create = |part| {
            let name = file_name(number, part);
            self.storage.open(&name, OpenMode::Create).map_err(self.io(&name))
        };
        let files = [create(Part::Chunk)?, create(Part::Primary)?, create(Part::Secondary)?];
        let open = Growing { number, files, chunk_bytes: 0, entries: 0, slots: 0, unsynced: true };
        // What a crash left of a beginning is written anew.
        for part in Part::ALL {
            open.files[part as usize].set_len(0).map_err(self.io(&file_name(number, part)))?;
        }
        self.open = Some(open);
        self.put(Part::Primary, &[PRIMARY_VERSION, 0, 0, 0, 0], 0)?;
        self.sync()?;
        self.storage.sync_dir("").map_err(self.io(""))
    }

    /// Writes to a file of the open chunk.
    fn put(&self, part: Part, bytes: &[u8], at: u64) -> Result<(), ChainError> {
        let Some(open) = &self.open else { return Ok(()) };
        let (mut rest, mut at) = (bytes, at);
        while !rest.is_empty() {
            let written =
                open.files[part as usize].write_at(rest, at).map_err(self.io(&file_name(open.number, part)))?;
            if written == 0 {
                return Err(self.io(&file_name(open.number, part))(io::ErrorKind::WriteZero.into()));
            }
            (rest, at) = (&rest[written..], at + written as u64);
        }
        Ok(())
    }

    /// Returns the relative slot of a block, by which the primary index has it.
    const fn relative(&self, link: &Link) -> u64 {
        if link.is_boundary { 0 } else { link.point.slot % self.slots_in_chunk + 1 }
    }

    fn write(&mut self, block: &Block<'_>, relative: u64) -> Result<BlockPlace, ChainError> {
        let Some(open) = &self.open else { return Ok(BlockPlace { chunk: 0, offset: 0, bytes: 0 }) };
        let (number, offset, entries, slots) = (open.number, open.chunk_bytes, open.entries, open.slots);
        self.put(Part::Chunk, block.bytes(), offset)?;
        self.put(Part::Secondary, &Entry::of(block, offset).write(), entries * ENTRY_BYTES as u64)?;
        // The offsets of empty slots up to this one, and the one behind it.
        let (before, behind) = (entries * ENTRY_BYTES as u64, (entries + 1) * ENTRY_BYTES as u64);
        let mut offsets = Vec::new();
        for slot in slots + 1..=relative + 1 {
            offsets.extend_from_slice(&((if slot <= relative { before } else { behind }) as u32).to_be_bytes());
        }
        self.put(Part::Primary, &offsets, 1 + 4 * (slots + 1))?;
        if let Some(open) = &mut self.open {
            open.chunk_bytes += block.bytes().len() as u64;
            open.entries += 1;
            open.slots = relative + 1;
            open.unsynced = true;
        }
        Ok(BlockPlace { chunk: number, offset, bytes: block.bytes().len() as u32 })
    }

    /// Fills the primary index of the open chunk up, and makes the chunk durable.
    fn complete(&mut self) -> Result<(), ChainError> {
        let Some(open) = &self.open else { return Ok(()) };
        let last = ((open.entries * ENTRY_BYTES as u64) as u32).to_be_bytes();
        let missing = (self.slots_in_chunk + 1).saturating_sub(open.slots);
        self.put(Part::Primary, &last.repeat(missing as usize), 1 + 4 * (open.slots + 1))?;
        if let Some(open) = &mut self.open {
            open.unsynced = true;
        }
        self.sync()
    }

    /// Reads a chunk.
    fn load(&self, number: u32, tail: TornTail) -> Result<Chunk, ChainError> {
        let read = |part| {
            let name = file_name(number, part);
            let file = self.storage.open(&name, OpenMode::Read).map_err(self.io(&name))?;
            let bytes = file.len().map_err(self.io(&name))?;
            if bytes > FILE_BYTES_MAX {
                let file = self.storage.describe(&name);
                return Err(ChainError::TooLarge { file, bytes, bytes_max: FILE_BYTES_MAX });
            }
            let mut read = vec![0; bytes as usize];
            let mut at = 0;
            while at < read.len() {
                match file.read_at(&mut read[at..], at as u64).map_err(self.io(&name))? {
                    0 => break,
                    count => at += count,
                }
            }
            read.truncate(at);
            Ok(read)
        };
        let name = self.storage.describe(&file_name(number, Part::Chunk));
        // A crash may leave a new chunk without its indexes.
        let chunk = read(Part::Chunk)?;
        let (primary, secondary) = (read(Part::Primary).ok(), read(Part::Secondary).ok());
        let files = Files { number, name, chunk, primary, secondary, single: false };
        // A node has made its chunks as long as the epochs of Byron.
        let options = ReadOptions::default().tail(tail).byron_epoch_slots(self.slots_in_chunk);
        Ok(Chunk::open(files, None, &options))
    }

    /// Writes the newest chunk again as far as its blocks are whole.
    fn recover(&mut self, number: u32) -> Result<(), ChainError> {
        let mut chunk = match self.load(number, TornTail::Cut) {
            Err(ChainError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                // Its indexes have names and it has none: nothing was written to it.
                return self.begin(number);
            }
            chunk => chunk?,
        };
        self.begin_again(number)?;
        while let Some((block, _)) = chunk.next()? {
            let link = Link::of(&block);
            if let Some(reason) = self.last.and_then(|last| last.breaks(&link)) {
                self.cut = Some(format!("chunk {number}: the block of slot {} was cut off: {reason}", link.point.slot));
                break;
            }
            self.write(&block, self.relative(&link))?;
            self.last = Some(link);
        }
        self.cut = self.cut.take().or_else(|| chunk.cut.take());
        let Some(open) = &self.open else { return Ok(()) };
        let ends = [open.chunk_bytes, 1 + 4 * (open.slots + 1), open.entries * ENTRY_BYTES as u64];
        for (part, end) in Part::ALL.into_iter().zip(ends) {
            open.files[part as usize].set_len(end).map_err(self.io(&file_name(number, part)))?;
        }
        self.sync()?;
        self.storage.sync_dir("").map_err(self.io(""))
    }

    /// Opens the files of a chunk to write what they have once more, which changes nothing where they are whole.
    fn begin_again(&mut self, number: u32) -> Result<(), ChainError> {
        let create = |part| {
            let name = file_name(number, part);
            self.storage.open(&name, OpenMode::Create).map_err(self.io(&name))
        };
        let files = [create(Part::Chunk)?, create(Part::Primary)?, create(Part::Secondary)?];
        self.open = Some(Growing { number, files, chunk_bytes: 0, entries: 0, slots: 0, unsynced: true });
        self.put(Part::Primary, &[PRIMARY_VERSION, 0, 0, 0, 0], 0)
    }
}
