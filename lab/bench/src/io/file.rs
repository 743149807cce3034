//! The file that is read where none is given.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::PathBuf,
};

use crate::{BenchError, error::Result, workload::Random};

/// A file that was made, and is removed when this is dropped unless it is to be kept.
#[derive(Debug)]
pub(crate) struct MadeFile {
    pub(crate) path: PathBuf,
    pub(crate) keep: bool,
}

impl MadeFile {
    /// Makes a file of bytes that do not compress, and syncs it. `progress` is told the share that is done.
    ///
    /// # Errors
    /// [`BenchError::Io`]; nothing is left then.
    pub(crate) fn create(path: PathBuf, bytes: u64, keep: bool, progress: impl FnMut(f64)) -> Result<Self> {
        let file = File::create_new(&path).map_err(BenchError::io(&path))?;
        let mut made = Self { path, keep: false };
        fill(file, bytes, progress).map_err(BenchError::io(&made.path))?;
        made.keep = keep;
        Ok(made)
    }
}

impl Drop for MadeFile {
    fn drop(&mut self) {
        if !self.keep {
            // What cannot be removed stays behind under a name that says what it is.
            let _ = fs::remove_file(&self.path);
        }
    }
}

const CHUNK_BYTES: usize = 1 << 20;

fn fill(mut file: File, bytes: u64, mut progress: impl FnMut(f64)) -> io::Result<()> {
    let mut random = Random::new(bytes);
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut written = 0;
    while written < bytes {
        for word in chunk.as_chunks_mut::<8>().0 {
            *word = random.next().to_le_bytes();
        }
        let length = (bytes - written).min(CHUNK_BYTES as u64);
        file.write_all(&chunk[..length as usize])?;
        written += length;
        progress(written as f64 / bytes as f64);
    }
    // Pages that wait to be written cannot be dropped from the cache, and would be written while we measure.
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_filled_and_removed_unless_kept() {
        let dir = tempfile::tempdir().unwrap();
        for keep in [false, true] {
            let path = dir.path().join("made");
            let mut shares = Vec::new();
            let made = MadeFile::create(path.clone(), 2_500_001, keep, |share| shares.push(share)).unwrap();
            assert_eq!((shares.len(), shares.last()), (3, Some(&1.0)));
            let bytes = fs::read(&path).unwrap();
            assert_eq!(bytes.len(), 2_500_001);
            // Any value of a byte is about as frequent as any other, in any part.
            for part in bytes.chunks_exact(500_000) {
                let mut counts = [0_u32; 256];
                part.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
                assert!(counts.iter().all(|count| (1600..2300).contains(count)), "{counts:?}");
            }
            drop(made);
            assert_eq!(path.exists(), keep);
        }
        assert!(MadeFile::create(dir.path().join("made"), 1, false, |_| ()).is_err(), "nothing is overwritten");
        assert_eq!(fs::metadata(dir.path().join("made")).unwrap().len(), 2_500_001);
    }
}
