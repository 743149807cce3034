//! The store that a trace is generated over: in a folder of its own, which goes when the trace is done.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use bristlecone::{Repo, core::tezos::Tezos, disk::DiskOptions};

use super::{GenerateError, Result};

/// Tells the folders of one process apart.
static MADE: AtomicU64 = AtomicU64::new(0);

/// Folders of stores, below one folder.
#[derive(Debug)]
pub(super) struct Scratch {
    dir: PathBuf,
    stores: u64,
    room_bytes: u64,
}

impl Scratch {
    /// Makes a folder in `parent`. A store may grow by `room_bytes` and by eight times what lives in it.
    pub(super) fn new(parent: &Path, room_bytes: u64) -> Result<Self> {
        let name = format!("cone-trace-{}-{}", std::process::id(), MADE.fetch_add(1, Relaxed));
        let dir = parent.join(name);
        fs::create_dir_all(&dir).map_err(|source| GenerateError::scratch(&dir, source))?;
        Ok(Self { dir, stores: 0, room_bytes })
    }

    /// Returns a new empty store.
    pub(super) fn fresh(&mut self) -> Result<Repo<Tezos>> {
        self.stores += 1;
        // Nothing here outlives the process: nothing need be ready for a sync.
        let options = DiskOptions::default().prezero(false);
        Ok(Repo::create(self.store(self.stores), Tezos::new(), options)?)
    }

    /// Returns how large a store may grow that holds `live_bytes` of use.
    pub(super) const fn room_bytes(&self, live_bytes: u64) -> u64 {
        self.room_bytes.saturating_add(live_bytes.saturating_mul(8))
    }

    /// Removes the store before the newest one.
    pub(super) fn forget_old(&mut self) -> Result {
        let old = self.store(self.stores - 1);
        fs::remove_dir_all(&old).map_err(|source| GenerateError::scratch(&old, source))
    }

    #[cfg(test)]
    pub(super) const fn stores(&self) -> u64 {
        self.stores
    }

    fn store(&self, number: u64) -> PathBuf {
        self.dir.join(number.to_string())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is left to the system's temporary folder.
        let _ = fs::remove_dir_all(&self.dir);
    }
}
