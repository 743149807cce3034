//! From version 1 of the engine's files to version 2: the log goes on in a segment of version 2, then the header says so.
//!
//! A program that knows only version 1 and has the store open meets a segment whose head it does not know, and ends with an
//! error. An upgrade that was cut short between the two steps is completed by the next process that opens the store for
//! writing.

use super::{
    DiskBackend, StoreHeader,
    files::SEGMENTS,
    header::ENGINE_VERSION,
    log::{DiskState, LogWriter},
};
use crate::Error;

impl DiskBackend {
    /// Makes the store one of the newest version of the engine's files, unless it is; returns whether it was not. Programs
    /// that know only version 1 cannot open it any more.
    ///
    /// # Errors
    /// As [`crate::Backend::append`].
    pub fn upgrade(&self) -> Result<bool, Error> {
        let mut upgraded = false;
        self.shared.locked(|log| {
            if log.tail.version < ENGINE_VERSION {
                self.shared.roll_as(log, 0, ENGINE_VERSION, false)?;
                upgraded = true;
            }
            self.shared.end_upgrade(log)
        })?;
        Ok(upgraded)
    }

    /// Returns the version of the engine's files that the store is written in.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.shared.version.load(std::sync::atomic::Ordering::Relaxed)
    }
}

impl DiskState {
    /// Lets the header say the version of the log, where that is newer. The caller holds the store's lock.
    pub(super) fn end_upgrade(&self, log: &LogWriter) -> Result<(), Error> {
        if log.tail.version <= self.header.engine_version {
            return Ok(());
        }
        let header = StoreHeader::read(&self.storage)?;
        if header.engine_version >= log.tail.version {
            return Ok(());
        }
        let header = StoreHeader { engine_version: log.tail.version, ..header };
        header.keep_copy(&self.storage)?;
        self.sync_names(SEGMENTS)?;
        header.write(&self.storage)
    }
}
