//! What a synced commit to a Git repository costs in file operations and syncs alone: the same files, of the same
//! sizes, made, written, synced and moved in the same order, with no object in them.
//!
//! Durable rows of Git repositories are read beside this, measured in the same process just after them.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::{BenchError, error::Result};

/// Sequences measured, unless the time is up before.
const SEQUENCES: usize = 100;
const TIME: Duration = Duration::from_millis(1500);
/// What a ref's file holds: an id in hexadecimal digits and the end of the line.
const REF_BYTES: usize = 41;

/// The files of one commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Files {
    /// A pack and its index, of so many bytes.
    Pack { pack: usize, index: usize },
    /// So many loose objects of so many bytes each.
    Loose { objects: usize, bytes: usize },
}

/// Returns the mean seconds of the file operations and syncs of one commit with these files, done in `dir`, where
/// nothing is left of them.
///
/// # Errors
/// [`BenchError::Io`].
pub(crate) fn sequence(dir: &Path, files: Files) -> Result<f64> {
    let home = dir.join(format!("bare-{}", std::process::id()));
    let measured = Repository::create(&home).and_then(|repository| repository.measure(files));
    let _ = fs::remove_dir_all(&home);
    measured.map_err(BenchError::io(&home))
}

struct Repository {
    objects: PathBuf,
    heads: PathBuf,
}

impl Repository {
    fn create(home: &Path) -> io::Result<Self> {
        let repository = Self { objects: home.join("objects/pack"), heads: home.join("refs/heads") };
        fs::create_dir_all(&repository.objects)?;
        fs::create_dir_all(&repository.heads)?;
        // The ref is there: a commit that moves one exchanges it.
        written(&repository.heads.join("main"), &[b'0'; REF_BYTES])?;
        Ok(repository)
    }

    fn measure(&self, files: Files) -> io::Result<f64> {
        let bytes = vec![7_u8; files.largest()];
        self.once(files, usize::MAX, &bytes)?;
        let started = Instant::now();
        for number in 0..SEQUENCES {
            self.once(files, number, &bytes)?;
            if started.elapsed() > TIME {
                return Ok(started.elapsed().as_secs_f64() / (number + 1) as f64);
            }
        }
        Ok(started.elapsed().as_secs_f64() / SEQUENCES as f64)
    }

    fn once(&self, files: Files, number: usize, bytes: &[u8]) -> io::Result<()> {
        match files {
            Files::Pack { pack, index } => {
                written(&self.objects.join(format!("pack-{number}.pack")), &bytes[..pack])?;
                written(&self.objects.join(format!("pack-{number}.idx")), &bytes[..index])?;
                synced(&self.objects)?;
            }
            Files::Loose { objects, bytes: each } => {
                for object in 0..objects {
                    // Objects lie in 256 folders by their ids, each first under a name that is not one of an object.
                    let folder = self.objects.join(format!("{:02x}", (number.wrapping_mul(objects) + object) % 256));
                    match fs::create_dir(&folder) {
                        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                        _ => {}
                    }
                    let passing = folder.join("new");
                    written(&passing, &bytes[..each])?;
                    fs::rename(&passing, folder.join(format!("{number}-{object}")))?;
                    synced(&folder)?;
                }
            }
        }
        self.move_ref(&bytes[..REF_BYTES.min(bytes.len())])
    }

    fn move_ref(&self, bytes: &[u8]) -> io::Result<()> {
        let (main, lock) = (self.heads.join("main"), self.heads.join("main.lock"));
        written(&lock, bytes)?;
        // Where a file system cannot exchange two names, one takes the other's place.
        match renameat_with(CWD, &lock, CWD, &main, RenameFlags::EXCHANGE) {
            Ok(()) => fs::remove_file(&lock)?,
            Err(_) => fs::rename(&lock, &main)?,
        }
        synced(&self.heads)
    }
}

impl Files {
    const fn largest(self) -> usize {
        let (one, other) = match self {
            Self::Pack { pack, index } => (pack, index),
            Self::Loose { bytes, .. } => (bytes, REF_BYTES),
        };
        if one > other { one } else { other }
    }
}

fn written(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create_new(file)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn synced(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_takes_time_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        for files in [Files::Pack { pack: 2000, index: 1436 }, Files::Loose { objects: 3, bytes: 10 }] {
            let seconds = sequence(dir.path(), files).unwrap();
            assert!(seconds > 0.0 && seconds < 1.0, "{seconds}");
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "no file is left");
    }
}
