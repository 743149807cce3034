//! Which packs Git's indexes over several packs list. A pack that one of them lists has to stay: Git looks for objects
//! in the index, and fails where their pack is gone.
//!
//! There is `multi-pack-index`, or a chain of files below `multi-pack-index.d`, whose names another file there has in
//! lines. Each file has a table of chunks, and one of these has the names of packs:
//!
//! ```text
//! file  = "MIDX" version hash chunks bases packs(u32) (id(u32) offset(u64))*chunks 0(u32) end(u64) …
//! PNAM  = (name 0)*packs padding                numbers are big-endian, and of one byte where nothing else is said
//! ```

use std::collections::HashSet;

use bristlecone::{
    Result,
    storage::{Stat, StorageFile},
};

use super::pack_files::PACKS;
use crate::repository::files::{DAY, Files, age, read_to_end};

const HEADER_BYTES: usize = 12;
/// Bytes of an entry of the table of chunks.
const ENTRY_BYTES: usize = 12;
/// More bytes of names are damage: they would be of a million packs.
const NAMES_BYTES_MAX: u64 = 64 << 20;
/// Files that a chain may have.
const CHAIN_MAX: usize = 10_000;

/// The files whose changes show that something else is listed, and the locks with which Git changes them.
const FILES: [&str; 2] = ["objects/pack/multi-pack-index", "objects/pack/multi-pack-index.d/multi-pack-index-chain"];

/// The packs that are listed.
#[derive(Debug, Default)]
pub(super) struct ListedPacks {
    // The files as they were read; `None` before the first time.
    read: Option<[Option<Stat>; 2]>,
    // Names without ending; `None` where a file makes no sense, so that any pack may be listed.
    names: Option<HashSet<String>>,
    // A Git is about to replace a file, with packs that it found before.
    changing: bool,
}

impl ListedPacks {
    /// Reads the files again if they changed.
    pub(super) fn refresh(&mut self, files: &Files) -> Result<()> {
        self.changing = false;
        for name in FILES {
            // One that is older was left by a Git that was killed.
            self.changing |= files.stat(&format!("{name}.lock"))?.is_some_and(|stat| age(&stat) <= DAY);
        }
        // The state before the bytes: what is replaced in between is read once more next time.
        let now = [files.stat(FILES[0])?, files.stat(FILES[1])?];
        if self.read != Some(now) {
            self.names = if now == [None, None] { Some(HashSet::new()) } else { listed(files)? };
            self.read = Some(now);
        }
        Ok(())
    }

    /// Whether a pack is listed, or may be.
    pub(super) fn may_have(&self, pack: &str) -> bool {
        self.changing || self.names.as_ref().is_none_or(|names| names.contains(pack))
    }
}

/// Returns the names of all packs that are listed; `None` where a file makes no sense.
fn listed(files: &Files) -> Result<Option<HashSet<String>>> {
    let mut names = HashSet::new();
    let mut indexes = vec![FILES[0].to_owned()];
    let chain = files.read(FILES[1])?.unwrap_or_default();
    let Ok(chain) = str::from_utf8(&chain) else { return Ok(None) };
    indexes.extend(chain.lines().map(|id| format!("{PACKS}/multi-pack-index.d/multi-pack-index-{id}.midx")));
    if indexes.len() > CHAIN_MAX {
        return Ok(None);
    }
    for index in indexes {
        let Some(file) = files.open_if_there(&index)? else { continue };
        match files.named(&index, names_in(&*file))? {
            Some(found) => names.extend(found),
            None => return Ok(None),
        }
    }
    Ok(Some(names))
}

/// Returns the names in one file; `None` where it makes no sense.
fn names_in(file: &dyn StorageFile) -> std::io::Result<Option<Vec<String>>> {
    let header = read_to_end(file, 0, HEADER_BYTES)?;
    let Some((b"MIDX", &[_, _, chunks, _, ref packs @ ..])) = header.split_first_chunk::<4>() else { return Ok(None) };
    let Ok(packs) = <[u8; 4]>::try_from(packs).map(u32::from_be_bytes) else { return Ok(None) };
    let table = read_to_end(file, HEADER_BYTES as u64, (usize::from(chunks) + 1) * ENTRY_BYTES)?;
    let entries: Vec<([u8; 4], u64)> = table.chunks_exact(ENTRY_BYTES).filter_map(entry).collect();
    let range = entries.windows(2).find(|two| &two[0].0 == b"PNAM").map(|two| (two[0].1, two[1].1));
    let Some((start, end)) = range.filter(|(start, end)| start <= end && end - start <= NAMES_BYTES_MAX) else {
        return Ok(None);
    };
    let bytes = read_to_end(file, start, (end - start) as usize)?;
    let names = bytes.split_inclusive(|&byte| byte == 0).take(packs as usize).map(|name| {
        let name = str::from_utf8(name.strip_suffix(b"\0")?).ok()?;
        name.strip_suffix(".idx").or_else(|| name.strip_suffix(".pack")).map(str::to_owned)
    });
    let names: Option<Vec<String>> = names.collect();
    Ok(names.filter(|names| names.len() == packs as usize))
}

/// Returns an entry of the table of chunks: which chunk it is, and where that begins.
fn entry(bytes: &[u8]) -> Option<([u8; 4], u64)> {
    let (id, offset) = bytes.split_first_chunk::<4>()?;
    Some((*id, u64::from_be_bytes(offset.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bristlecone::storage::{OpenMode, Storage, write_all_at};
    use bristlecone_testkit::sim::SimStorage;

    use super::*;

    fn index(names: &[&str]) -> Vec<u8> {
        let text: String = names.iter().map(|name| format!("{name}\0")).collect();
        let start = (HEADER_BYTES + 3 * ENTRY_BYTES) as u64;
        let mut bytes = b"MIDX\x01\x01\x02\0".to_vec();
        bytes.extend((names.len() as u32).to_be_bytes());
        for (id, offset) in [(*b"PNAM", start), (*b"OIDF", start + 100), ([0; 4], start + 100)] {
            bytes.extend(id);
            bytes.extend(offset.to_be_bytes());
        }
        bytes.extend(text.as_bytes());
        bytes.resize(start as usize + 100, 0);
        bytes
    }

    fn put(storage: &SimStorage, name: &str, bytes: &[u8]) {
        let _ = storage.remove(name);
        let file = storage.open(name, OpenMode::CreateNew).unwrap();
        write_all_at(&*file, bytes, 0).unwrap();
    }

    #[test]
    fn listed_packs_are_found_in_both_kinds_of_files_as_they_are_now() {
        let storage = SimStorage::new();
        storage.create_dir("objects/pack/multi-pack-index.d").unwrap();
        let (files, mut listed) = (Files::new(Arc::new(storage.clone())), ListedPacks::default());
        let mut found = |names: &[&str]| {
            listed.refresh(&files).unwrap();
            names.iter().filter(|name| listed.may_have(name)).count()
        };
        assert_eq!(found(&["pack-a", "pack-b"]), 0);
        put(&storage, FILES[0], &index(&["pack-a.idx", "pack-b.idx"]));
        assert_eq!((found(&["pack-a", "pack-b"]), found(&["pack-c", "pack-"])), (2, 0));
        put(&storage, FILES[0], &index(&["pack-b.idx"]));
        assert_eq!((found(&["pack-b"]), found(&["pack-a"])), (1, 0));
        put(&storage, "objects/pack/multi-pack-index.d/multi-pack-index-77.midx", &index(&["pack-c.idx"]));
        assert_eq!(found(&["pack-c"]), 0);
        put(&storage, FILES[1], b"77\n");
        assert_eq!((found(&["pack-b", "pack-c"]), found(&["pack-a"])), (2, 0));
    }

    #[test]
    fn where_a_file_makes_no_sense_any_pack_may_be_listed() {
        let whole = index(&["pack-a.idx", "pack-b.idx"]);
        let mut bad: Vec<Vec<u8>> = (0..whole.len() - 100 + 22).map(|end| whole[..end].to_vec()).collect();
        bad.extend([0, 12, 11, 22].map(|at| {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x40;
            bytes
        }));
        for bytes in bad {
            let storage = SimStorage::new();
            storage.create_dir("objects/pack").unwrap();
            put(&storage, FILES[0], &bytes);
            let mut listed = ListedPacks::default();
            listed.refresh(&Files::new(Arc::new(storage))).unwrap();
            assert!(listed.may_have("pack-z"), "{}", bytes.escape_ascii());
        }
    }
}
