//! Making durable: one sync at a time, which covers all threads that wait when it starts.

use std::{io, sync::atomic::Ordering::*};

use super::{
    files::{SEGMENTS, segment_name},
    log::{DiskState, Tail},
    segment::Segment,
};
use crate::{Error, storage::Unopened};

impl DiskState {
    /// Returns once everything up to the location `end`, which must have been published, is durable.
    ///
    /// # Errors
    /// [`Error::Poisoned`] if a sync failed, now or earlier.
    pub(super) fn sync_to(&self, end: u64) -> Result<(), Error> {
        match self.sync.wait(end, &self.poison)? {
            Some(_busy) => self.sync_tail(),
            None => Ok(()),
        }
    }

    /// Syncs the segment in which the log ends, and before it those that were sealed since.
    fn sync_tail(&self) -> Result<(), Error> {
        while !self.sync_tail_at(self.published.end())? {}
        Ok(())
    }

    /// Syncs the segment in which the log ended, and those before it. Returns whether it did: the log may have gone on since, by
    /// threads that met what other processes wrote, and a collection may have removed the segment.
    pub(super) fn sync_tail_at(&self, end: u64) -> Result<bool, Error> {
        let number = (end >> 32) as u32;
        self.sync_sealed(number, 0)?;
        let Some(segment) = self.current_segment(number)? else {
            if (self.published.end() >> 32) as u32 > number {
                return Ok(false);
            }
            return Err(self.poison.set("the last segment has vanished".to_owned()));
        };
        let is_named = self.sync.named() >= number;
        self.sync_segment(&segment)?;
        let before = self.sync.durable_end();
        self.sync.note_sync_bytes(end.saturating_sub(before.max(u64::from(number) << 32)));
        self.sync.note_durable(end);
        if let (false, Some(head)) = (is_named, &segment.head) {
            // Should the segment's head be lost, or all of it, this tells that something was durable there.
            self.note_end(Tail::start(head).location(), false);
        }
        self.release_durable();
        Ok(true)
    }

    /// Syncs segments that the log has left and that are not durable yet, in their order, as far as they are below `number`, but
    /// the last `left` of them.
    pub(super) fn sync_sealed(&self, number: u32, left: usize) -> Result<(), Error> {
        let ends = self.sync.undurable();
        for &end in ends[..ends.len().saturating_sub(left)].iter().take_while(|&&end| end >> 32 < u64::from(number)) {
            let sealed = (end >> 32) as u32;
            match self.current_segment(sealed)? {
                Some(segment) => self.sync_segment(&segment)?,
                // What a collection removes was durable before.
                None if sealed < self.table().state.base => {}
                None => return Err(self.poison.set(format!("{} has vanished", segment_name(sealed)))),
            }
            self.sync.note_durable(end);
        }
        self.release_durable();
        Ok(())
    }

    /// Releases the segments that the log has left and that are durable.
    pub(super) fn release_durable(&self) {
        for number in self.sync.take_durable() {
            if let Some(segment) = self.table().get(number) {
                segment.release();
            }
        }
    }

    /// Writes again what of a segment is not known to be durable.
    ///
    /// After a sync that failed here, so that one by another process covers what this one did not: not every system tells the
    /// other process that something is amiss. And before the first sync here of a segment that another process began, where it may
    /// have met such a failure and died.
    fn write_undurable(&self, segment: &Segment) -> Result<(), Error> {
        let (durable, end) = (self.sync.durable_end(), self.published.end());
        let inside = |location: u64| location >> 32 == u64::from(segment.number);
        let from = if inside(durable) { durable & 0xffff_ffff } else { 0 };
        let sealed = || self.sync.undurable().into_iter().find(|&end| inside(end));
        let to = if inside(end) { end & 0xffff_ffff } else { sealed().map_or(segment.bytes, |end| end & 0xffff_ffff) };
        self.write_again(segment, from, to)
    }

    /// Makes a segment's bytes durable.
    ///
    /// One thread at a time, and none after one that failed: a system reports a failed write once, and the next sync of
    /// the same file reports success.
    ///
    /// # Errors
    /// [`Error::Poisoned`], from now on; [`Error::Io`] where the file cannot be opened or read.
    pub(super) fn sync_bytes(&self, segment: &Segment) -> Result<(), Error> {
        let _one = self.sync.one();
        self.poison.check()?;
        let followed = self.sync.is_followed(segment.number);
        if followed {
            // The process that began it may have synced all of it meanwhile, and a collection removed it.
            if self.sync.durable_end() >> 32 > u64::from(segment.number) {
                return Ok(());
            }
            self.write_undurable(segment)?;
        }
        let file = match segment.writable() {
            // No sync was tried; a file that is gone will not come back.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(self.io(&segment.name, error)),
            opened => opened,
        };
        self.counters.syncs.fetch_add(1, Relaxed);
        match file.and_then(|file| file.sync_data()) {
            Ok(()) => {
                if followed {
                    self.sync.note_synced(segment.number);
                }
                Ok(())
            }
            Err(error) => {
                let _ = self.write_undurable(segment);
                Err(self.poison.set(format!("{}: {error}", self.storage.describe(&segment.name))))
            }
        }
    }

    /// Makes durable which segments openings removed, once in a process and before it seals one: a process may have died between
    /// the removal and its sync, and a file that comes back would stand where the seal says that another goes on.
    ///
    /// # Errors
    /// As [`DiskState::sync_names`].
    pub(super) fn settle_names(&self) -> Result<(), Error> {
        if !self.sync.is_settled() {
            self.sync_names(SEGMENTS)?;
            self.sync.note_settled();
        }
        Ok(())
    }

    /// Makes the names in a folder durable.
    ///
    /// # Errors
    /// [`Error::Poisoned`], from now on: names that changed before may be lost, and the next sync of the folder reports success.
    /// [`Error::Io`] where the folder cannot be opened: no sync was tried.
    pub(super) fn sync_names(&self, dir: &str) -> Result<(), Error> {
        self.storage.sync_dir(dir).map_err(|error| match Unopened::is(&error) {
            true => self.io(dir, error),
            false => self.poison.set(format!("{}: {error}", self.storage.describe(dir))),
        })
    }

    /// Makes a segment's bytes durable, and its name.
    ///
    /// # Errors
    /// As [`DiskState::sync_bytes`] and [`DiskState::sync_names`].
    pub(super) fn sync_segment(&self, segment: &Segment) -> Result<(), Error> {
        self.sync_bytes(segment)?;
        // Another process may have begun the segment and died before its name was durable, or made the store and died
        // before the header's was.
        let named = self.sync.named();
        if named < segment.number {
            let dirs: &[&str] = if named == 0 { &["", SEGMENTS] } else { &[SEGMENTS] };
            dirs.iter().try_for_each(|dir| self.sync_names(dir))?;
            self.sync.note_named(segment.number);
        }
        Ok(())
    }
}
