//! The bytes of a file, wherever they are: mapped, read whole, or still in the file.

use std::io;
use std::sync::Arc;

use bristlecone::storage::{FileMap, OpenMode, Storage, StorageFile, read_exact_at};

/// Files up to this size are read whole: a map costs more than that, and systems bound how many there are.
pub(crate) const WHOLE_BYTES_MAX: u64 = 64 << 10;
/// How much of a file without a map is read at a time.
const WINDOW_BYTES: usize = 16 << 10;

/// A file to be read, as it was when it was opened.
#[derive(Debug)]
pub(crate) enum Data {
    Map(FileMap),
    Bytes(Vec<u8>),
    File { file: Arc<dyn StorageFile>, bytes: u64 },
}

impl Data {
    /// Opens a file; `whole`: bytes that are not mapped are read at once.
    pub(crate) fn open(storage: &dyn Storage, name: &str, whole: bool) -> io::Result<Self> {
        let file = storage.open(name, OpenMode::Read)?;
        let bytes = file.len()?;
        if bytes > WHOLE_BYTES_MAX {
            if let Some(map) = file.map(bytes)? {
                return Ok(Self::Map(map));
            }
            if !whole {
                return Ok(Self::File { file, bytes });
            }
        }
        let size = usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let mut all = Vec::new();
        all.try_reserve_exact(size).map_err(|_| io::ErrorKind::OutOfMemory)?;
        all.resize(size, 0);
        read_exact_at(&*file, &mut all, 0)?;
        Ok(Self::Bytes(all))
    }

    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Map(map) => map.len() as u64,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File { bytes, .. } => *bytes,
        }
    }

    /// Returns all bytes, if they are in memory.
    pub(crate) fn slice(&self) -> Option<&[u8]> {
        match self {
            Self::Map(map) => Some(map),
            Self::Bytes(bytes) => Some(bytes),
            Self::File { .. } => None,
        }
    }

    /// Returns what follows `offset`: at least `bytes_min` bytes unless the file ends before; often much more.
    pub(crate) fn window<'a>(&'a self, offset: u64, bytes_min: usize, buffer: &'a mut Vec<u8>) -> io::Result<&'a [u8]> {
        if let Some(all) = self.slice() {
            return Ok(all.get(offset.min(all.len() as u64) as usize..).unwrap_or_default());
        }
        let Self::File { file, bytes } = self else { return Ok(&[]) };
        let wanted = bytes.saturating_sub(offset).min(bytes_min.max(WINDOW_BYTES) as u64) as usize;
        buffer.resize(wanted, 0);
        read_exact_at(&**file, buffer, offset)?;
        Ok(buffer)
    }
}
