//! Bytes of an index: a map of memory or of a file, which readers and writers see as a slice.

use std::{
    fs::{File, OpenOptions},
    io,
    ops::{Deref, DerefMut, Range},
    path::{Path, PathBuf},
};

use memmap2::{MmapMut, MmapOptions};

use super::IndexError;

/// A map of memory, or of a file that this process has locked.
pub(super) struct Bytes {
    map: MmapMut,
    file: Option<(File, PathBuf)>,
}

impl Bytes {
    /// Makes zeros; in memory without a path, else in a new file, which takes the place of one that is there.
    pub(super) fn zeros(path: Option<&Path>, bytes: usize) -> Result<Self, IndexError> {
        let Some(path) = path else {
            let map = MmapMut::map_anon(bytes).map_err(failed(None))?;
            let bytes = Self { map, file: None };
            bytes.expect_lookups();
            return Ok(bytes);
        };
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path);
        let file = options.map_err(failed(Some(path)))?;
        reserve(&file, 0, bytes).map_err(failed(Some(path)))?;
        Self::of_file(file, path, bytes)
    }

    /// Maps a file as it is.
    pub(super) fn open(path: &Path) -> Result<Self, IndexError> {
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(failed(Some(path)))?;
        let bytes = file.metadata().map_err(failed(Some(path)))?.len();
        let bytes = usize::try_from(bytes).map_err(|error| failed(Some(path))(io::Error::other(error)))?;
        Self::of_file(file, path, bytes)
    }

    fn of_file(file: File, path: &Path, bytes: usize) -> Result<Self, IndexError> {
        // SAFETY: the file has `bytes` bytes: `reserve` gave it as many, or its metadata said so. It stays so long and no
        // other map of it is written: every process that opens an index takes the lock of its folder first, and this one
        // shortens a file nowhere. A process that heeds no lock and shortens the file ends this one by SIGBUS; one that
        // writes to it makes lines whose checksums fail. Lines are copied or compared as bytes, which may have any value.
        let map = unsafe { MmapOptions::new().len(bytes).map_mut(&file) }.map_err(failed(Some(path)))?;
        Ok(Self { map, file: Some((file, path.to_owned())) })
    }

    /// Says that all parts will be read before long, in no order: huge pages are right where the system has them.
    pub(super) fn expect_lookups(&self) {
        #[cfg(target_os = "linux")]
        let _ = self.map.advise(memmap2::Advice::HugePage);
    }

    /// Adds zeros up to a length.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), IndexError> {
        match &self.file {
            None => {
                let mut grown = Self::zeros(None, bytes)?;
                grown[..self.map.len()].copy_from_slice(&self.map);
                *self = grown;
            }
            Some((file, path)) => {
                let file = file.try_clone().map_err(failed(Some(path)))?;
                reserve(&file, self.map.len(), bytes).map_err(failed(Some(path)))?;
                *self = Self::of_file(file, &path.clone(), bytes)?;
            }
        }
        Ok(())
    }

    /// Makes a range durable. In memory there is nothing to do.
    pub(super) fn flush(&self, range: Range<usize>) -> Result<(), IndexError> {
        let Some((_, path)) = &self.file else { return Ok(()) };
        #[cfg(test)]
        super::tests::disk::before_flush(path);
        self.map.flush_range(range.start, range.len()).map_err(failed(Some(path)))?;
        #[cfg(test)]
        super::tests::disk::flushed(path, &range);
        Ok(())
    }

    /// Returns how errors call it.
    pub(super) fn name(&self) -> String {
        self.file.as_ref().map_or_else(|| "memory".to_owned(), |(_, path)| path.display().to_string())
    }

    pub(super) fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|(_, path)| &**path)
    }

    /// Says that the file has another name now.
    pub(super) fn renamed(&mut self, to: &Path) {
        if let Some((_, path)) = &mut self.file {
            to.clone_into(path);
        }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.map
    }
}

impl DerefMut for Bytes {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.map
    }
}

/// Gives a file its blocks on the disk, so that no write through a map meets a full disk, which would end the process.
fn reserve(file: &File, from: usize, to: usize) -> io::Result<()> {
    use rustix::{
        fs::{FallocateFlags, fallocate},
        io::Errno,
    };
    match fallocate(file, FallocateFlags::empty(), from as u64, (to - from) as u64) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeros(file, from as u64, to as u64),
        other => other.map_err(Into::into),
    }
}

fn write_zeros(file: &File, from: u64, to: u64) -> io::Result<()> {
    use std::os::unix::fs::FileExt;
    let zeros = vec![0; 1 << 16];
    let mut at = from;
    while at < to {
        let bytes = (to - at).min(zeros.len() as u64) as usize;
        file.write_all_at(&zeros[..bytes], at)?;
        at += bytes as u64;
    }
    Ok(())
}

/// Makes an error of one of the system.
pub(super) fn failed(path: Option<&Path>) -> impl FnOnce(io::Error) -> IndexError {
    let name = path.map_or_else(|| "memory".to_owned(), |path| path.display().to_string());
    move |source| IndexError::Io { name, source }
}
