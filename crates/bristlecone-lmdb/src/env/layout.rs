//! The first two pages of the data file, read before LMDB maps it: LMDB believes what they say.

use bristlecone::{
    Error,
    storage::{OpenMode, Storage, StorageFile, read_exact_at, retry},
};

/// Bytes of a page's head.
pub(crate) const HEAD_BYTES: usize = 16;
/// Bytes of the head and the fields of a meta page.
const META_BYTES: usize = HEAD_BYTES + 136;
const FLAGS_AT: usize = 10;
const META_FLAG: u16 = 8;
const MAGIC_AT: usize = HEAD_BYTES;
const MAGIC: u32 = 0xBEEF_C0DE;
const VERSION_AT: usize = MAGIC_AT + 4;
const VERSION: u32 = 1;
/// The two trees: that of free pages, and that of all else. 24: after magic, version, address and the map's size.
const TREES_AT: usize = HEAD_BYTES + 24;
const TREE_BYTES: usize = 48;
const LAST_PAGE_AT: usize = TREES_AT + 2 * TREE_BYTES;
const TXN_AT: usize = LAST_PAGE_AT + 8;
const _: () = assert!(TXN_AT + 8 == META_BYTES, "the fields of a meta page add up");
/// The page number that stands for an empty tree.
pub(crate) const NO_PAGE: u64 = u64::MAX;
/// The flag of a tree whose keys are numbers.
const NUMBER_KEYS: u16 = 8;
/// With the flags of the tree of free pages LMDB keeps how the file was made, for ever: standing alone (`MDB_NOSUBDIR`), at a
/// fixed address (`MDB_FIXEDMAP`).
const MADE_FLAGS: u16 = 0x4000 | 1;
/// All flags that a tree can have.
const TREE_FLAGS: u16 = 0x7e;
/// LMDB has room for this many levels.
pub(crate) const DEPTH_MAX: u16 = 32;

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |word| u16::from_le_bytes(word.try_into().unwrap_or_default()))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |word| u32::from_le_bytes(word.try_into().unwrap_or_default()))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).map_or(0, |word| u64::from_le_bytes(word.try_into().unwrap_or_default()))
}

/// What a page says of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TreeHead {
    pub(crate) flags: u16,
    pub(crate) depth: u16,
    pub(crate) root: u64,
}

impl TreeHead {
    pub(crate) const BYTES: usize = TREE_BYTES;

    pub(crate) fn decode(bytes: &[u8]) -> Self {
        Self { flags: u16_at(bytes, 4), depth: u16_at(bytes, 6), root: u64_at(bytes, 40) }
    }

    /// Whether a tree can have this head, in a file whose last page is `last_page`. Only the tree of free pages has flags:
    /// its keys are numbers.
    pub(crate) fn is_sound(self, last_page: u64, is_free: bool) -> bool {
        let flags = if is_free { self.flags & !MADE_FLAGS } else { self.flags };
        flags == if is_free { NUMBER_KEYS } else { 0 }
            && match self.root {
                NO_PAGE => self.depth == 0,
                root => (2..=last_page).contains(&root) && (1..=DEPTH_MAX).contains(&self.depth),
            }
    }
}

/// How often the first pages are read before they count as damaged: others may write them meanwhile.
pub(crate) const TRIES: usize = 8;

/// A meta page: a commit begins to exist with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) page_bytes: u32,
    /// The trees of free pages and of all else.
    pub(crate) trees: [TreeHead; 2],
    pub(crate) last_page: u64,
    pub(crate) txn: u64,
}

/// Why the first pages are refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BadMeta {
    /// No LMDB file.
    Foreign,
    /// One of another version.
    Version(u32),
    /// The tree of all else has flags that a store's does not have: another program's keys are sorted in another way.
    Flags(u16),
    /// Damage, at an offset.
    Damaged(u64, String),
}

impl Meta {
    fn decode(bytes: &[u8; META_BYTES], at: u64) -> Result<Self, BadMeta> {
        if u32_at(bytes, MAGIC_AT) != MAGIC || u16_at(bytes, FLAGS_AT) & META_FLAG == 0 {
            return Err(BadMeta::Foreign);
        }
        let version = u32_at(bytes, VERSION_AT);
        if version != VERSION {
            return Err(BadMeta::Version(version));
        }
        // The word of flags of a tree's page size is that of the tree of free pages.
        let page_bytes = u32_at(bytes, TREES_AT);
        let trees = [0, 1].map(|tree| TreeHead::decode(&bytes[TREES_AT + tree * TREE_BYTES..]));
        let meta = Self { page_bytes, trees, last_page: u64_at(bytes, LAST_PAGE_AT), txn: u64_at(bytes, TXN_AT) };
        let damaged = |field: usize, reason: &str| {
            Err(BadMeta::Damaged(at + field as u64, format!("{reason}; put the file back from a backup")))
        };
        if !page_bytes.is_power_of_two() || !(512..=1 << 15).contains(&page_bytes) {
            return damaged(TREES_AT, "pages cannot have the size that the first page says");
        }
        if meta.last_page < 1 || meta.last_page > u64::MAX / u64::from(page_bytes) - 1 {
            return damaged(LAST_PAGE_AT, "the number of the last page cannot be right");
        }
        let [free, main] = trees;
        if main.flags != 0
            && main.flags & !TREE_FLAGS == 0
            && free.is_sound(meta.last_page, true)
            && (TreeHead { flags: 0, ..main }).is_sound(meta.last_page, false)
        {
            return Err(BadMeta::Flags(main.flags));
        }
        if let Some(tree) = (0..2).find(|&tree| !trees[tree].is_sound(meta.last_page, tree == 0)) {
            return damaged(TREES_AT + tree * TREE_BYTES, "the root of a tree cannot be where the first page says");
        }
        Ok(meta)
    }

    /// Reads both meta pages, of which the newer counts. Other threads and processes may commit meanwhile, so that the two
    /// are not of commits in turn: what looks damaged is read again, [`TRIES`] times in all.
    pub(crate) fn read_both(file: &dyn StorageFile) -> std::io::Result<Result<[Self; 2], BadMeta>> {
        let mut read = Self::read_both_once(file);
        for _ in 1..TRIES {
            if !matches!(read, Ok(Err(BadMeta::Foreign | BadMeta::Flags(_) | BadMeta::Damaged(..)))) {
                break;
            }
            read = Self::read_both_once(file);
        }
        read
    }

    fn read_both_once(file: &dyn StorageFile) -> std::io::Result<Result<[Self; 2], BadMeta>> {
        let bytes = file.len()?;
        let mut page = [0; META_BYTES];
        if bytes < META_BYTES as u64 {
            return Ok(Err(BadMeta::Foreign));
        }
        read_exact_at(file, &mut page, 0)?;
        let first = match Self::decode(&page, 0) {
            Ok(first) => first,
            Err(bad) => return Ok(Err(bad)),
        };
        let second_at = u64::from(first.page_bytes);
        if bytes < second_at * 2 {
            let reason = "the file ends within its first two pages; put it back from a backup".to_owned();
            return Ok(Err(BadMeta::Damaged(bytes, reason)));
        }
        read_exact_at(file, &mut page, second_at)?;
        Ok(Self::decode(&page, second_at).and_then(|second| {
            let damaged = |field: usize, reason: &str| {
                Err(BadMeta::Damaged(second_at + field as u64, format!("{reason}; put the file back from a backup")))
            };
            // Each commit writes the page that the last one did not, and syncs that one: so they are neighbours. A new file
            // has two of number 0.
            let in_turns = first.txn.is_multiple_of(2) && first.txn.abs_diff(second.txn) == 1;
            if second.page_bytes != first.page_bytes {
                damaged(TREES_AT, "the first two pages disagree on the size of pages")
            } else if !in_turns && (first.txn, second.txn) != (0, 0) {
                damaged(TXN_AT, "the first two pages are not of two commits in turn")
            } else {
                Ok([first, second])
            }
        }))
    }
}

/// The data file as its first pages describe it.
#[derive(Debug)]
pub(crate) struct DataFile {
    /// The newer meta page.
    pub(crate) meta: Meta,
    /// That of the commit before. Pages of it are used again by the next commit, and no sooner.
    pub(crate) older: Meta,
    /// The length in bytes.
    pub(crate) bytes: u64,
}

impl DataFile {
    /// Reads the first pages of a file.
    pub(crate) fn read(file: &dyn StorageFile) -> std::io::Result<Result<Self, BadMeta>> {
        let [first, second] = match Meta::read_both(file)? {
            Ok(metas) => metas,
            Err(bad) => return Ok(Err(bad)),
        };
        // Asked for afterwards: another process may make the file longer, and commit then.
        let bytes = file.len()?;
        let (meta, older) = if second.txn > first.txn { (second, first) } else { (first, second) };
        Ok(Ok(Self { meta, older, bytes }))
    }

    /// Whether the file ends before the last page in use. A sound file may: pages at its end that are free were never
    /// written.
    pub(crate) fn is_short(&self) -> bool {
        self.bytes / u64::from(self.meta.page_bytes) <= self.meta.last_page
    }
}

/// Checks the first pages of a data file; `None` if there is no file.
///
/// # Errors
/// [`Error::Corrupt`]; [`Error::Incompatible`] for another version of LMDB's format; [`Error::Io`].
pub(crate) fn check(storage: &dyn Storage, name: &str) -> Result<Option<DataFile>, Error> {
    let file = storage.describe(name);
    let failed = |error| Error::io(file.clone(), error);
    let opened = match retry(|| storage.open(name, OpenMode::Read)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(failed)?,
    };
    match DataFile::read(&*opened).map_err(failed)? {
        Ok(found) => Ok(Some(found)),
        Err(BadMeta::Foreign) => {
            let reason = "it does not begin as an LMDB file does; put the file back from a backup".to_owned();
            Err(Error::Corrupt { file, offset: 0, oid: None, reason })
        }
        Err(BadMeta::Version(version)) => {
            let (found, expected) = (format!("LMDB's format {version}"), format!("format {VERSION}"));
            Err(Error::Incompatible { file, found, expected })
        }
        Err(BadMeta::Flags(flags)) => {
            let reason = format!("the tree of all names has the flags {flags:#x}; put the file back from a backup");
            Err(Error::Corrupt { file, offset: 0, oid: None, reason })
        }
        Err(BadMeta::Damaged(offset, reason)) => Err(Error::Corrupt { file, offset, oid: None, reason }),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// A file whose writer commits between any two reads, so many times.
    #[derive(Debug)]
    struct Busy(Mutex<(Vec<u8>, u32)>);

    impl StorageFile for Busy {
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<usize> {
            let mut file = self.0.lock().unwrap();
            let at = offset as usize;
            buffer.copy_from_slice(&file.0[at..at + buffer.len()]);
            // Two whole turns: each page is written twice.
            if file.1 > 0 {
                file.1 -= 1;
                for page in 0..2 {
                    let at = page * 4096 + TXN_AT;
                    let txn = u64_at(&file.0, at) + 4;
                    file.0[at..at + 8].copy_from_slice(&txn.to_le_bytes());
                }
            }
            Ok(buffer.len())
        }

        fn write_at(&self, _: &[u8], _: u64) -> std::io::Result<usize> {
            unreachable!()
        }

        fn len(&self) -> std::io::Result<u64> {
            Ok(self.0.lock().unwrap().0.len() as u64)
        }

        fn map(&self, _: u64) -> std::io::Result<Option<bristlecone::storage::FileMap>> {
            unreachable!()
        }

        fn try_lock(&self) -> std::io::Result<bool> {
            unreachable!()
        }

        fn unlock(&self) -> std::io::Result<()> {
            unreachable!()
        }

        fn lock_holder(&self) -> Option<String> {
            unreachable!()
        }

        fn set_len(&self, _: u64) -> std::io::Result<()> {
            unreachable!()
        }

        fn sync_data(&self) -> std::io::Result<()> {
            unreachable!()
        }
    }

    #[test]
    fn pages_that_are_written_while_they_are_read_are_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let options = crate::env::EnvOptions { map_bytes: 1 << 24, read_only: false, databases_max: 1 };
        let env = crate::env::Env::open(dir.path(), &options).unwrap();
        for number in 0..3_u32 {
            let mut txn = env.write(true).unwrap();
            let [database] = txn.create_databases(["objects"]).unwrap();
            txn.put(database, &number.to_be_bytes(), b"value").unwrap();
            txn.commit().unwrap();
        }
        drop(env);
        let bytes = std::fs::read(dir.path().join(crate::env::DATA)).unwrap();
        let read = |turns| Meta::read_both(&Busy(Mutex::new((bytes.clone(), turns)))).unwrap();
        for turns in 0..2 * TRIES as u32 - 2 {
            let [first, second] = read(turns).unwrap();
            assert_eq!(first.txn.abs_diff(second.txn), 1, "{turns}");
        }
        // One that never rests is no endless loop.
        assert!(matches!(read(u32::MAX), Err(BadMeta::Damaged(..))));
    }
}
