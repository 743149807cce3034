//! The file `durable`: how far the store is known to be durable.
//!
//! fjall cuts a damaged journal where the damage begins, and says nothing. A store that ends before what was synced once has
//! lost it, and this file is the witness. It is written after a sync and never synced itself: after a power cut it may say
//! less than is so, and never more. A file that is absent or torn says nothing.

use std::sync::{Arc, Mutex};

use bristlecone::{
    Error, Result,
    storage::{OpenMode, Storage, StorageFile, read_exact_at, retry, write_all_at},
};
use twox_hash::XxHash3_64;

use super::{lock, refs::State};

const NAME: &str = "durable";
const MAGIC: &[u8; 8] = b"BCONELSM";
/// 32 = 8 magic + 8 position + 8 end + 8 checksum.
const BYTES: usize = 32;

/// The file, and the last of what it says.
#[derive(Debug)]
pub(super) struct Durable {
    file: Arc<dyn StorageFile>,
    noted: Mutex<(u64, u64)>,
}

impl Durable {
    /// Opens the file, and makes it if need be.
    pub(super) fn open(storage: &dyn Storage) -> Result<Self> {
        let file = retry(|| storage.open(NAME, OpenMode::Create));
        let file = file.map_err(|error| Error::io(storage.describe(NAME), error))?;
        Ok(Self { file, noted: Mutex::default() })
    }

    /// Whether there is a file, so that a store was made here once.
    pub(super) fn is_in(storage: &dyn Storage) -> bool {
        retry(|| storage.open(NAME, OpenMode::Read)).is_ok()
    }

    /// Notes that everything up to here is durable. A failure is no failure of the store: the file may say less.
    pub(super) fn note(&self, state: &State) {
        let mut noted = lock(&self.noted);
        let now = (state.position.max(noted.0), state.end.max(noted.1));
        if now != *noted {
            *noted = now;
            let mut bytes = [0; BYTES];
            bytes[..8].copy_from_slice(MAGIC);
            bytes[8..16].copy_from_slice(&now.0.to_le_bytes());
            bytes[16..24].copy_from_slice(&now.1.to_le_bytes());
            let check = XxHash3_64::oneshot(&bytes[..24]);
            bytes[24..].copy_from_slice(&check.to_le_bytes());
            let _ = write_all_at(&*self.file, &bytes, 0);
        }
    }

    /// Fails if a store that was found as `state` ends before what was durable.
    pub(super) fn check(storage: &dyn Storage, state: &State, database: &str) -> Result<()> {
        let mut bytes = [0; BYTES];
        let read = retry(|| storage.open(NAME, OpenMode::Read)).and_then(|file| read_exact_at(&*file, &mut bytes, 0));
        let word = |at: usize| bytes[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        if read.is_err() || bytes[..8] != MAGIC[..] || word(24) != XxHash3_64::oneshot(&bytes[..24]) {
            return Ok(());
        }
        let (position, end) = (word(8), word(16));
        if state.position >= position && state.end >= end {
            return Ok(());
        }
        let reason = format!(
            "the store ends at move {} and page {}, and was durable up to move {position} and page {end}: its journal is \
             damaged, or files are of an earlier time; put the folder back from a backup of this store",
            state.position, state.end
        );
        Err(Error::Lost { file: database.to_owned(), reason })
    }
}
