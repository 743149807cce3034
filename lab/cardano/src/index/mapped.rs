//! The index in a folder, whose files are mapped.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    ops::RangeInclusive,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use super::{
    BlockIndex, IndexError, Indexed, Slots,
    bytes::failed,
    chain::{Chain, RECORDS},
    memory::through_chain,
};
use crate::{BlockHash, BlockPlace, Point};

/// The file whose lock a process holds as long as it has the index open.
const LOCK: &str = "lock";
/// How long a lock that another process holds is waited for.
const LOCK_WAIT: Duration = Duration::from_millis(500);

/// An index in a folder of its own: files of records and of a table, both mapped.
///
/// After a crash it has the blocks of the last [`BlockIndex::sync`], and opening it makes the table anew from their
/// records. After [`MappedIndex::close`] opening reads three lines, however many blocks there are.
///
/// One process has an index open at a time, by a lock. A process that heeds no lock and shortens a file ends the one that
/// has it mapped, by SIGBUS; so does a disk that cannot be read.
pub struct MappedIndex(Chain, #[expect(dead_code, reason = "holds the lock")] File);

/// How an index was found.
#[derive(Debug)]
pub enum Opened {
    /// As it was closed.
    Clean,
    /// It had not been closed: the table was made anew, of the blocks of the last sync.
    Recovered,
    /// It was missing or damaged, for this reason, and was built from the chain.
    Rebuilt(IndexError),
}

impl MappedIndex {
    /// Makes an empty index in a folder, and the folder if need be; an index that is there is replaced.
    ///
    /// # Errors
    /// [`IndexError::Locked`]; [`IndexError::Io`].
    pub fn create(dir: &Path) -> Result<Self, IndexError> {
        fs::create_dir_all(dir).map_err(failed(Some(dir)))?;
        let lock = lock(dir)?;
        Self::replace(dir, lock)
    }

    /// Opens the index of a folder.
    ///
    /// # Errors
    /// [`IndexError::Missing`] and [`IndexError::Damaged`] if it must be built anew, as [`MappedIndex::open_or_rebuild`]
    /// does; [`IndexError::Locked`]; [`IndexError::Io`].
    pub fn open(dir: &Path) -> Result<(Self, Opened), IndexError> {
        if !dir.join(RECORDS).exists() {
            return Err(IndexError::Missing { dir: dir.to_owned() });
        }
        Self::open_locked(dir, lock(dir)?).map_err(|(error, _)| error)
    }

    /// Opens the index of a folder; where it is missing or damaged, makes it anew of the blocks that `blocks` gives, and
    /// syncs it.
    ///
    /// # Errors
    /// [`IndexError::Locked`] and [`IndexError::Io`]; those of the blocks and of inserting them.
    pub fn open_or_rebuild<E, B>(dir: &Path, blocks: impl FnOnce() -> B) -> Result<(Self, Opened), E>
    where
        E: From<IndexError>,
        B: IntoIterator<Item = Result<(Point, BlockPlace), E>>,
    {
        fs::create_dir_all(dir).map_err(failed(Some(dir)))?;
        let lock = lock(dir)?;
        let (why, lock) = if dir.join(RECORDS).exists() {
            match Self::open_locked(dir, lock) {
                Ok(opened) => return Ok(opened),
                Err((why @ IndexError::Damaged { .. }, lock)) => (why, lock),
                Err((error, _)) => return Err(error.into()),
            }
        } else {
            (IndexError::Missing { dir: dir.to_owned() }, lock)
        };
        let mut index = Self::replace(dir, lock)?;
        for block in blocks() {
            let (point, place) = block?;
            index.insert(&point, place)?;
        }
        index.sync()?;
        Ok((index, Opened::Rebuilt(why)))
    }

    /// Returns the damage in a bucket for which a change made the table anew since the index was opened.
    #[must_use]
    pub const fn repaired(&self) -> Option<&IndexError> {
        self.0.repaired()
    }

    /// Makes the table anew from the records, after [`IndexError::Damaged`] in a bucket. A change that meets such a bucket
    /// does that by itself, a lookup does not.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] if a record is damaged too; [`IndexError::Io`].
    pub fn repair(&mut self) -> Result<(), IndexError> {
        self.0.rebuild_table(0)
    }

    /// Makes everything durable and says so, so that the index is opened at once the next time. An index that is dropped
    /// instead is opened as after a crash, and so is one in which a change met a damaged record.
    ///
    /// # Errors
    /// [`IndexError::Io`]; [`IndexError::Failed`].
    pub fn close(mut self) -> Result<(), IndexError> {
        self.0.close()
    }

    fn open_locked(dir: &Path, lock: File) -> Result<(Self, Opened), (IndexError, File)> {
        match Chain::open(dir) {
            Ok((chain, true)) => Ok((Self(chain, lock), Opened::Clean)),
            Ok((chain, false)) => Ok((Self(chain, lock), Opened::Recovered)),
            Err(error) => Err((error, lock)),
        }
    }

    /// Puts an empty index in the place of what is there. A table that is left of the old one has another identity.
    fn replace(dir: &Path, lock: File) -> Result<Self, IndexError> {
        let chain = Chain::create(Some(dir))?;
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(failed(Some(dir)))?;
        Ok(Self(chain, lock))
    }
}

fn lock(dir: &Path) -> Result<File, IndexError> {
    let path = dir.join(LOCK);
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(failed(Some(&path)))?;
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            // A process that is being started has the lock of whoever started it until it runs its own program.
            Err(TryLockError::WouldBlock) if began.elapsed() < LOCK_WAIT => thread::sleep(LOCK_WAIT / 50),
            Err(TryLockError::WouldBlock) => return Err(IndexError::Locked { dir: dir.to_owned() }),
            Err(TryLockError::Error(error)) => return Err(failed(Some(&path))(io::Error::other(error))),
        }
    }
}

through_chain!(MappedIndex);
