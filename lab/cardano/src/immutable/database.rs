//! Blocks of a database by their places.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use super::{
    layout::{Part, entries, file_name},
    sources,
};
use crate::{BlockHash, BlockPlace, ChainError};

/// A node's immutable database, read block by block.
#[derive(Debug)]
pub struct ImmutableDb {
    dir: PathBuf,
    /// The chunk that was read last.
    open: Option<(u32, File)>,
}

/// What a secondary index says of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The block's hash.
    pub hash: BlockHash,
    /// Its slot; of an epoch boundary block its epoch.
    pub slot: u64,
    /// Where it lies.
    pub place: BlockPlace,
}

impl ImmutableDb {
    /// Opens a node's folder, or its folder `immutable`.
    ///
    /// # Errors
    /// [`ChainError::NoChain`] for a folder without chunks; [`ChainError::Io`].
    pub fn open(dir: &Path) -> Result<Self, ChainError> {
        let inner = dir.join("immutable");
        let dir = if inner.is_dir() { inner } else { dir.to_owned() };
        sources::numbers(&dir)?;
        Ok(Self { dir, open: None })
    }

    /// Returns the numbers of the chunks, ascending.
    ///
    /// # Errors
    /// [`ChainError::Io`].
    pub fn chunks(&self) -> Result<Vec<u32>, ChainError> {
        sources::numbers(&self.dir)
    }

    /// Returns what the secondary index of a chunk lists: of a chunk that is being written only whole entries.
    ///
    /// # Errors
    /// [`ChainError::TooLarge`]; [`ChainError::Io`].
    pub fn listed(&self, chunk: u32) -> Result<Vec<Listed>, ChainError> {
        let secondary = self.dir.join(file_name(chunk, Part::Secondary));
        let bytes = sources::read_file(&secondary)?;
        let file = self.dir.join(file_name(chunk, Part::Chunk));
        let end = fs::metadata(&file).map_err(ChainError::io(&file))?.len();
        let all: Vec<_> = entries(&bytes).0.collect();
        let ends = all.iter().skip(1).map(|entry| entry.offset).chain([end]);
        let listed = all.iter().zip(ends).map(|(entry, end)| Listed {
            hash: entry.hash,
            slot: entry.slot,
            place: BlockPlace {
                chunk,
                offset: entry.offset,
                bytes: u32::try_from(end.saturating_sub(entry.offset)).unwrap_or(0),
            },
        });
        Ok(listed.collect())
    }

    /// Returns the bytes of the block at a place.
    ///
    /// # Errors
    /// [`ChainError::Damaged`] where the chunk ends before the block does; [`ChainError::Io`].
    pub fn read(&mut self, place: BlockPlace) -> Result<Vec<u8>, ChainError> {
        let path = self.dir.join(file_name(place.chunk, Part::Chunk));
        if self.open.as_ref().is_none_or(|(open, _)| *open != place.chunk) {
            self.open = Some((place.chunk, File::open(&path).map_err(ChainError::io(&path))?));
        }
        let Some((_, file)) = &self.open else { return Ok(Vec::new()) };
        let damaged = |reason: &str| ChainError::Damaged {
            file: path.display().to_string(),
            chunk: place.chunk,
            offset: place.offset,
            slot: None,
            reason: reason.into(),
        };
        let length = file.metadata().map_err(ChainError::io(&path))?.len();
        if place.offset.checked_add(u64::from(place.bytes)).is_none_or(|end| end > length) {
            return Err(damaged("the chunk ends before the block does"));
        }
        let mut bytes = vec![0; place.bytes as usize];
        match file.read_exact_at(&mut bytes, place.offset) {
            Ok(()) => Ok(bytes),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(damaged("the chunk ends before the block does"))
            }
            Err(error) => Err(ChainError::io(&path)(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secondary_index_that_is_too_large_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = |part| dir.path().join(file_name(1, part));
        fs::write(file(Part::Chunk), [7_u8; 10]).unwrap();
        fs::write(file(Part::Secondary), [0_u8; 56]).unwrap();
        let db = ImmutableDb::open(dir.path()).unwrap();
        assert_eq!(db.listed(1).unwrap()[0].place, BlockPlace { chunk: 1, offset: 0, bytes: 10 });
        let secondary = File::options().write(true).open(file(Part::Secondary)).unwrap();
        secondary.set_len((256 << 20) + 1).unwrap();
        let error = db.listed(1).unwrap_err();
        assert!(matches!(error, ChainError::TooLarge { bytes: 268_435_457, .. }), "{error}");
    }
}
