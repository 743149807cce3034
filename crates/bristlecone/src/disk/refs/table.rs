//! A table of refs: their rows by name, in blocks that are read and checked one by one. `docs/formats/disk.md` section 12 lists
//! the bytes.

use std::{sync::Arc, vec};

use twox_hash::XxHash3_64;

use crate::{
    Error,
    backend::RefTarget,
    disk::{
        files::{SEGMENTS, numbered, open_aside},
        frame::{ROW_BYTES, RefRow, find_ref, put_ref, ref_bytes, take_refs, word32, word64},
    },
    storage::{OpenMode, Storage, StorageFile, read_exact_at, write_all_at},
};

const MAGIC: u64 = u64::from_le_bytes(*b"BCONEREF");
const NUMBER_AT: usize = 8;
const BLOCKS_AT: usize = NUMBER_AT + 4;
const ROWS_AT: usize = BLOCKS_AT + 4;
const INDEX_AT: usize = ROWS_AT + 8;
const BYTES_AT: usize = INDEX_AT + 8;
const INDEX_CHECK_AT: usize = BYTES_AT + 8;
const CHECK_AT: usize = INDEX_CHECK_AT + 8;
/// Bytes before the blocks: 56 = 8 magic + 4 number + 4 blocks + 8 rows + 8 offset of the index + 8 length of the file + 8 check of
/// the index + 8 check.
const HEAD_BYTES: usize = CHECK_AT + 8;
const _: () = assert!(HEAD_BYTES == 56, "the fields of a table's head add up");
/// Bytes of a block's entry in the index: 24 = 8 offset + 8 check + 4 offset of its first name + 4 length of that.
const ENTRY_BYTES: usize = 24;

/// A block ends with the row with which it has so many bytes.
const BLOCK_BYTES: usize = 4 << 10;
/// No block is longer: a row is shorter than this.
const BLOCK_BYTES_MAX: u64 = (BLOCK_BYTES + (16 + 2 * (u16::MAX as usize + 1))).next_multiple_of(8) as u64;
/// No index is longer: it is read whole, and one of this length is of a thousand million refs.
const INDEX_BYTES_MAX: u64 = 1 << 30;
/// How much is written at a time.
const WRITE_BYTES: usize = 1 << 20;

/// Which table a segment's head means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::disk) struct RefTableName {
    /// The number of the segment that began with it.
    pub(in crate::disk) number: u32,
    /// The check of its head.
    pub(in crate::disk) check: u64,
}

impl RefTableName {
    /// Returns the name of the file.
    fn file(self) -> String {
        format!("{SEGMENTS}/{:08}.refs", self.number)
    }
}

/// Returns the number of the table of refs with this name in its folder.
pub(in crate::disk) fn table_number(name: &str) -> Option<u32> {
    numbered(name.strip_suffix(".refs")?)
}

/// A table that is open.
#[derive(Debug)]
pub(in crate::disk) struct RefTable {
    storage: Arc<dyn Storage>,
    name: RefTableName,
    file: Arc<dyn StorageFile>,
    bytes: u64,
    blocks: Vec<Block>,
    /// The first names of the blocks, one after the other.
    names: Vec<u8>,
    /// Where the blocks end.
    end: u64,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    at: u64,
    check: u64,
    name_at: u32,
    name_bytes: u32,
}

impl RefTable {
    /// Opens a table.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is missing or damaged, blocks apart.
    pub(in crate::disk) fn open(storage: &Arc<dyn Storage>, salt: u64, name: RefTableName) -> Result<Self, Error> {
        let path = name.file();
        let failed = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::NotFound => damaged(storage, name, 0, "the table of refs is missing"),
            std::io::ErrorKind::UnexpectedEof => damaged(storage, name, 0, "the table of refs is cut short"),
            _ => Error::io(storage.describe(&path), error),
        };
        let file = storage.open(&path, OpenMode::Read).map_err(failed)?;
        let bytes = file.len().map_err(failed)?;
        let mut head = [0; HEAD_BYTES];
        read_exact_at(&*file, &mut head, 0).map_err(failed)?;
        let check = XxHash3_64::oneshot_with_seed(salt, &head[..CHECK_AT]);
        let is_right = word64(&head, 0) == MAGIC
            && word32(&head, NUMBER_AT) == name.number
            && word64(&head, BYTES_AT) == bytes
            && word64(&head, CHECK_AT) == check
            && check == name.check;
        let index_at = word64(&head, INDEX_AT);
        if !is_right || !(HEAD_BYTES as u64..=bytes).contains(&index_at) {
            return Err(damaged(storage, name, 0, "this is not the table of refs that the log names"));
        }
        let index_bytes = bytes - index_at;
        if !may_index(word32(&head, BLOCKS_AT), index_at, index_bytes) {
            return Err(damaged(storage, name, index_at, "the index of the table of refs is damaged"));
        }
        let mut index = vec![0; index_bytes as usize];
        read_exact_at(&*file, &mut index, index_at).map_err(failed)?;
        let index = (XxHash3_64::oneshot(&index) == word64(&head, INDEX_CHECK_AT)).then_some(index);
        let parts = index.and_then(|index| decode_index(&index, word32(&head, BLOCKS_AT), index_at));
        let Some((blocks, names)) = parts else {
            return Err(damaged(storage, name, index_at, "the index of the table of refs is damaged"));
        };
        Ok(Self { storage: storage.clone(), name, file, bytes, blocks, names, end: index_at })
    }

    pub(in crate::disk) const fn name(&self) -> RefTableName {
        self.name
    }

    /// Returns the length of the file.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        (self.blocks.capacity() * size_of::<Block>() + self.names.capacity()) as u64
    }

    /// Returns what the table says of a ref, if anything.
    pub(super) fn get(&self, name: &str) -> Result<Option<Option<RefTarget>>, Error> {
        let Some((block, bytes)) = self.block_bytes(self.block_of(name))? else { return Ok(None) };
        let found = find_ref(&bytes, name).ok_or_else(|| self.damaged(block))?;
        Ok(found.map(|(_, target)| target))
    }

    /// Reads every block, and calls `each` with what is wrong.
    pub(in crate::disk) fn check(&self, each: &mut dyn FnMut(Error)) {
        (0..self.blocks.len()).filter_map(|index| self.block(index).err()).for_each(each);
    }

    /// Returns in which block a ref is, if it is in any.
    fn block_of(&self, name: &str) -> usize {
        let later = self.blocks.partition_point(|block| self.first_name(block) <= name.as_bytes());
        later.saturating_sub(1)
    }

    fn first_name(&self, block: &Block) -> &[u8] {
        &self.names[block.name_at as usize..][..block.name_bytes as usize]
    }

    /// Returns the rows of a block; none, if there is no such block.
    fn block(&self, index: usize) -> Result<Vec<RefRow>, Error> {
        match self.block_bytes(index)? {
            Some((block, bytes)) => take_refs(&bytes).ok_or_else(|| self.damaged(block)),
            None => Ok(Vec::new()),
        }
    }

    /// Reads a block and compares its checksum.
    fn block_bytes(&self, index: usize) -> Result<Option<(&Block, Vec<u8>)>, Error> {
        let Some(block) = self.blocks.get(index) else { return Ok(None) };
        let end = self.blocks.get(index + 1).map_or(self.end, |next| next.at);
        let mut bytes = vec![0; (end - block.at) as usize];
        read_exact_at(&*self.file, &mut bytes, block.at)
            .map_err(|error| Error::io(self.storage.describe(&self.name.file()), error))?;
        if XxHash3_64::oneshot(&bytes) == block.check { Ok(Some((block, bytes))) } else { Err(self.damaged(block)) }
    }

    fn damaged(&self, block: &Block) -> Error {
        damaged(&self.storage, self.name, block.at, "a block of refs is damaged")
    }
}

fn damaged(storage: &Arc<dyn Storage>, name: RefTableName, offset: u64, reason: &str) -> Error {
    let reason = format!("{reason}; put it back from a backup of this store");
    Error::Corrupt { file: storage.describe(&name.file()), offset, oid: None, reason }
}

/// Whether the index of so many blocks, which end where it begins, may have so many bytes. Memory is taken for these, and a file may
/// be long and hold nothing.
fn may_index(blocks: u32, index_at: u64, index_bytes: u64) -> bool {
    let entry_bytes_max = (ENTRY_BYTES + usize::from(u16::MAX)) as u64;
    u64::from(blocks) <= (index_at - HEAD_BYTES as u64) / ROW_BYTES as u64
        && index_bytes <= (u64::from(blocks) * entry_bytes_max).min(INDEX_BYTES_MAX)
}

/// Returns the blocks and their first names; `None` if this is no index.
fn decode_index(index: &[u8], blocks: u32, end: u64) -> Option<(Vec<Block>, Vec<u8>)> {
    let (entries, names) = index.split_at_checked(ENTRY_BYTES.checked_mul(blocks as usize)?)?;
    let decode = |entry: &[u8]| Block {
        at: word64(entry, 0),
        check: word64(entry, 8),
        name_at: word32(entry, 16),
        name_bytes: word32(entry, 20),
    };
    let blocks: Vec<Block> = entries.chunks_exact(ENTRY_BYTES).map(decode).collect();
    let ends = blocks.iter().skip(1).map(|block| block.at).chain([end]);
    let is_right = blocks.iter().zip(ends).all(|(block, end)| {
        let bytes = end.checked_sub(block.at);
        let name_end = u64::from(block.name_at) + u64::from(block.name_bytes);
        bytes.is_some_and(|bytes| bytes <= BLOCK_BYTES_MAX) && name_end <= names.len() as u64
    });
    is_right.then(|| (blocks, names.to_vec()))
}

/// The rows of a table from one of its names on.
pub(super) struct RefTableRows {
    table: Arc<RefTable>,
    next: usize,
    rows: vec::IntoIter<RefRow>,
}

impl RefTableRows {
    /// Begins with the first row whose name is not less than `from`.
    pub(super) fn from(table: Arc<RefTable>, from: &str) -> Result<Self, Error> {
        let block = table.block_of(from);
        let mut rows = table.block(block)?;
        rows.retain(|(name, _)| &**name >= from);
        Ok(Self { table, next: block + 1, rows: rows.into_iter() })
    }

    pub(super) fn next(&mut self) -> Result<Option<RefRow>, Error> {
        loop {
            match self.rows.next() {
                Some(row) => return Ok(Some(row)),
                None if self.next >= self.table.blocks.len() => return Ok(None),
                None => {
                    self.rows = self.table.block(self.next)?.into_iter();
                    self.next += 1;
                }
            }
        }
    }
}

/// A table that is being written: whole and durably before it has its name.
pub(super) struct RefTableWriter {
    storage: Arc<dyn Storage>,
    salt: u64,
    number: u32,
    file: Arc<dyn StorageFile>,
    aside: String,
    /// What is to be written at `at`; the last block begins at `block` in it.
    buffer: Vec<u8>,
    at: u64,
    block: usize,
    rows: u64,
    entries: Vec<u8>,
    names: Vec<u8>,
}

impl RefTableWriter {
    pub(super) fn new(storage: &Arc<dyn Storage>, salt: u64, number: u32) -> Result<Self, Error> {
        let (file, aside) = open_aside(storage)?;
        Ok(Self {
            storage: storage.clone(),
            salt,
            number,
            file,
            aside,
            buffer: Vec::new(),
            at: HEAD_BYTES as u64,
            block: 0,
            rows: 0,
            entries: Vec::new(),
            names: Vec::new(),
        })
    }

    /// Adds a row. `name`: greater than the one before.
    pub(super) fn put(&mut self, name: &str, target: Option<&RefTarget>) -> Result<(), Error> {
        if self.buffer.len() == self.block {
            self.entries.extend_from_slice(&(self.at + self.block as u64).to_le_bytes());
            // The check comes with the block's end.
            self.entries.extend_from_slice(&[0; 8]);
            self.entries.extend_from_slice(&(self.names.len() as u32).to_le_bytes());
            self.entries.extend_from_slice(&(name.len() as u32).to_le_bytes());
            self.names.extend_from_slice(name.as_bytes());
        }
        debug_assert!((ref_bytes(name, target) as u64) < BLOCK_BYTES_MAX - BLOCK_BYTES as u64, "a block has room");
        put_ref(&mut self.buffer, name, target);
        self.rows += 1;
        if self.buffer.len() - self.block >= BLOCK_BYTES {
            self.end_block()?;
        }
        Ok(())
    }

    fn end_block(&mut self) -> Result<(), Error> {
        if self.buffer.len() == self.block {
            return Ok(());
        }
        let end = self.buffer[self.block..].len().next_multiple_of(8);
        self.buffer.resize(self.block + end, 0);
        let check = XxHash3_64::oneshot(&self.buffer[self.block..]);
        let entry = self.entries.len() - ENTRY_BYTES;
        self.entries[entry + 8..entry + 16].copy_from_slice(&check.to_le_bytes());
        self.block = self.buffer.len();
        if self.block >= WRITE_BYTES { self.write_out() } else { Ok(()) }
    }

    fn write_out(&mut self) -> Result<(), Error> {
        let written = write_all_at(&*self.file, &self.buffer, self.at);
        written.map_err(|error| Error::io(self.storage.describe(&self.aside), error))?;
        self.file.begin_sync();
        self.at += self.buffer.len() as u64;
        self.buffer.clear();
        self.block = 0;
        Ok(())
    }

    /// Makes the table durable and gives it its name, which is durable after a sync of the folder. `None`: it has no rows.
    pub(super) fn finish(mut self) -> Result<Option<RefTable>, Error> {
        if self.rows == 0 {
            return Ok(None);
        }
        self.end_block()?;
        let index_at = self.at + self.buffer.len() as u64;
        let blocks = (self.entries.len() / ENTRY_BYTES) as u32;
        let index = [&self.entries[..], &self.names].concat();
        if index.len() as u64 > INDEX_BYTES_MAX {
            let (bytes, bytes_max) = (index.len() as u64, INDEX_BYTES_MAX);
            return Err(Error::TooLarge { what: "the index of a table of refs", bytes, bytes_max });
        }
        self.buffer.extend_from_slice(&index);
        let bytes = self.at + self.buffer.len() as u64;
        let mut head = [0; HEAD_BYTES];
        head[..8].copy_from_slice(&MAGIC.to_le_bytes());
        head[NUMBER_AT..BLOCKS_AT].copy_from_slice(&self.number.to_le_bytes());
        head[BLOCKS_AT..ROWS_AT].copy_from_slice(&blocks.to_le_bytes());
        head[ROWS_AT..INDEX_AT].copy_from_slice(&self.rows.to_le_bytes());
        head[INDEX_AT..BYTES_AT].copy_from_slice(&index_at.to_le_bytes());
        head[BYTES_AT..INDEX_CHECK_AT].copy_from_slice(&bytes.to_le_bytes());
        head[INDEX_CHECK_AT..CHECK_AT].copy_from_slice(&XxHash3_64::oneshot(&index).to_le_bytes());
        let check = XxHash3_64::oneshot_with_seed(self.salt, &head[..CHECK_AT]);
        head[CHECK_AT..].copy_from_slice(&check.to_le_bytes());
        self.write_out()?;
        let name = RefTableName { number: self.number, check };
        let named = (|| {
            write_all_at(&*self.file, &head, 0)?;
            self.file.sync_data()?;
            self.storage.rename(&self.aside, &name.file())?;
            self.file.unlock()
        })();
        named.map_err(|error| Error::io(self.storage.describe(&name.file()), error))?;
        RefTable::open(&self.storage, self.salt, name).map(Some)
    }
}

impl Drop for RefTableWriter {
    fn drop(&mut self) {
        // Nothing has this name once the table has its own.
        let _ = self.storage.remove(&self.aside);
    }
}

#[cfg(test)]
mod tests {
    use bristlecone_needs::needs;

    use super::*;
    use crate::storage::RealStorage;

    /// A file of a tebibyte that holds nothing but a head, whose check is right.
    #[needs(linux)]
    #[test]
    fn no_memory_is_taken_for_what_a_head_alone_speaks_of() {
        const BYTES: u64 = 1 << 40;
        let dir = tempfile::tempdir().unwrap();
        let storage: Arc<dyn Storage> = Arc::new(RealStorage::new(dir.path()));
        storage.create_dir(SEGMENTS).unwrap();
        // More than the blocks can need, more blocks than there is room for, and more than any store has.
        let wrong = [(1, HEAD_BYTES as u64 + 16), (u32::MAX, HEAD_BYTES as u64), (1 << 24, BYTES / 2), (0, BYTES - 8)];
        for (number, (blocks, index_at)) in (1_u32..).zip(wrong) {
            let mut head = [0; HEAD_BYTES];
            head[..8].copy_from_slice(&MAGIC.to_le_bytes());
            head[NUMBER_AT..BLOCKS_AT].copy_from_slice(&number.to_le_bytes());
            head[BLOCKS_AT..ROWS_AT].copy_from_slice(&blocks.to_le_bytes());
            head[INDEX_AT..BYTES_AT].copy_from_slice(&index_at.to_le_bytes());
            head[BYTES_AT..INDEX_CHECK_AT].copy_from_slice(&BYTES.to_le_bytes());
            let check = XxHash3_64::oneshot_with_seed(5, &head[..CHECK_AT]);
            head[CHECK_AT..].copy_from_slice(&check.to_le_bytes());
            let name = RefTableName { number, check };
            let file = storage.open(&name.file(), OpenMode::CreateNew).unwrap();
            file.set_len(BYTES).unwrap();
            write_all_at(&*file, &head, 0).unwrap();
            let opened = RefTable::open(&storage, 5, name);
            assert!(matches!(&opened, Err(Error::Corrupt { offset, .. }) if *offset == index_at), "{opened:?}");
        }
    }
}
