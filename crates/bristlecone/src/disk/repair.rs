//! What a person decides after a loss: the header from its copy, and a log that ends before what was durable.
//!
//! Nothing here happens by itself. What stands behind an accepted end is copied to another file before it is erased.

use std::{io, sync::Arc, thread};

use super::{
    DiskBackend, DiskLock, DiskOptions, StoreHeader,
    files::{BEHIND, CHUNK_BYTES, SEGMENTS, STORE, STORE_COPY, random_word},
    header::verified_copy,
    lock::NOTICED,
    log::{DiskState, LogWriter},
    readers::READERS,
    segment::Segment,
};
use crate::{
    Error,
    backend::Damage,
    storage::{OpenMode, Storage, write_all_at},
};

/// What a repair changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// The header was restored from its copy.
    pub header_restored: bool,
    /// The header's copy was missing or damaged, and was written again.
    pub copy_restored: bool,
    /// How many frames of the log, a part of which was damaged, are whole again.
    pub frames_restored: u64,
    /// How many heads of segments, a byte of which was damaged, are whole again.
    pub heads_restored: u64,
    /// The segments whose files were cut, and are as long as they were: what stood behind the cut is lost, and zeroes are in its place.
    pub segments_lengthened: Vec<String>,
    /// Where the log was taken to end, if that was asked for and something was lost.
    pub accepted: Option<AcceptedEnd>,
}

/// A log that goes on from where it ends, though it was durable beyond.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedEnd {
    /// What was lost.
    pub lost: Damage,
    /// The files in which what stood behind the end is kept, in its order; none if nothing did.
    pub kept_in: Vec<String>,
    /// The number of those bytes.
    pub bytes: u64,
}

/// How a store is opened whose log may have lost its end.
#[derive(Debug)]
pub(super) enum RecoveryMode {
    /// A loss is an error, and nothing is written after it.
    Usual,
    /// The log is taken to end where it does; what stands behind is kept aside, and told here.
    AcceptEnd(Option<AcceptedEnd>),
}

impl DiskBackend {
    /// Restores what can be restored without a choice, and with `accept_end` takes the log to end where it does.
    ///
    /// The header comes from its copy, if that is the one of these segments; a segment's head of which a byte is damaged, from its
    /// check; a frame of which head and trailer are damaged at most, or the trailer and a byte of the moves of refs in it, from what
    /// stands around it, if another one follows. Accepting the end gives up what was acknowledged and is lost: whatever stands
    /// behind the end is copied to a file beside the segments first.
    ///
    /// # Errors
    /// [`Error::NoStore`]; [`Error::Lost`] if there is no copy of the header, or without `accept_end` if the end of the
    /// log is lost; [`Error::Locked`], also where an end is to be accepted while another process has the store open;
    /// [`Error::Corrupt`], [`Error::NoSpace`], [`Error::Io`].
    pub fn repair(storage: Arc<dyn Storage>, options: DiskOptions, accept_end: bool) -> Result<Repaired, Error> {
        let mut repaired = Repaired::default();
        let header = match StoreHeader::read(&storage) {
            // That of another store would otherwise take the place of the right copy.
            Ok(header) if header.fits_segments(&storage)? => header,
            found => {
                let wrong = match found {
                    Ok(_) => foreign_header(&storage),
                    Err(error @ (Error::Lost { .. } | Error::Corrupt { .. })) => error,
                    Err(error) => return Err(error),
                };
                repaired.header_restored = true;
                restore_header(&storage, &options, wrong)?
            }
        };
        let store_lock = DiskLock::open(&storage, &options)?;
        {
            let _guard = store_lock.take()?;
            repaired.segments_lengthened = header.lengthen_segments(&storage)?;
            repaired.heads_restored = header.mend_heads(&storage)?;
            repaired.frames_restored = header.mend_frames(&storage)?;
            repaired.copy_restored = header.keep_copy(&storage)?;
            if repaired.copy_restored {
                storage.sync_dir(SEGMENTS).map_err(|error| Error::io(storage.describe(SEGMENTS), error))?;
            }
        }
        let mut recovery = if accept_end { RecoveryMode::AcceptEnd(None) } else { RecoveryMode::Usual };
        let shared = Self::load(storage, header, Some(store_lock), options, random_word(), &mut recovery)?;
        Self::of(shared).close()?;
        if let RecoveryMode::AcceptEnd(accepted) = recovery {
            repaired.accepted = accepted;
        }
        Ok(repaired)
    }
}

/// Returns the error of a header under which no segment was written.
fn foreign_header(storage: &Arc<dyn Storage>) -> Error {
    let reason = "no segment here was written by the store that this header is of; put the right one back".to_owned();
    Error::Lost { file: storage.describe(STORE), reason }
}

/// Whether the header and its copy are whole and of one store.
fn agree(storage: &Arc<dyn Storage>) -> bool {
    let salt = |found: Result<StoreHeader, Error>| found.ok().map(|header| header.salt);
    let header = salt(StoreHeader::read(storage));
    header.is_some() && header == salt(StoreHeader::read_file(storage, STORE_COPY))
}

/// Puts the header back from its copy; without a copy, `wrong` is what is the matter with the header.
fn restore_header(storage: &Arc<dyn Storage>, options: &DiskOptions, wrong: Error) -> Result<StoreHeader, Error> {
    let store_lock = DiskLock::open(storage, options)?;
    let _guard = store_lock.take()?;
    let header = match verified_copy(storage) {
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Err(wrong),
        Err(Error::Lost { .. }) if agree(storage) => {
            let reason = "no segment has a head that goes with the store's header, which is whole, as its copy is: the segments are \
                          damaged or missing; put them back from a backup";
            return Err(Error::Lost { file: storage.describe(SEGMENTS), reason: reason.to_owned() });
        }
        found => found?,
    };
    header.write(storage)?;
    // Writers that had the store open before the header was lost look for it by its name within this time, and meet the
    // lock.
    thread::sleep(NOTICED);
    Ok(header)
}

/// Returns the error that refuses to write after a loss.
pub(super) fn refusal(damage: &Damage) -> Error {
    let Damage { file, offset, reason, .. } = damage;
    let at = if *offset == 0 { String::new() } else { format!("at byte {offset}: ") };
    let way = "it can still be read; put the file back from a backup, or go on without what is lost by a repair that accepts the end";
    Error::Lost { file: file.clone(), reason: format!("{at}{reason}; {way}") }
}

impl DiskState {
    /// Takes the log to end where it does, or where following it `stopped` for what is damaged. Returns what was given up, if
    /// anything. The caller holds the store's lock.
    pub(super) fn accept_end(
        &self,
        log: &mut LogWriter,
        claimed: Option<u64>,
        stopped: Result<(), Error>,
    ) -> Result<Option<AcceptedEnd>, Error> {
        let damaged = match stopped {
            Ok(()) => None,
            // Nothing of a segment counts before it was entered, nor of a frame before it was accepted.
            Err(error) => Some(Damage::of(error)?),
        };
        self.follow_state(log)?;
        let mut accepted = None;
        let segment = self.tail_segment(&log.tail)?;
        let later = self.later_claim(&log.tail)?;
        let lost = self.shortfall(&log.tail, claimed).or_else(|| {
            let (name, reason) = self.claim_text(&log.tail, later.as_ref()?);
            let offset = if log.tail.next == 0 { log.tail.end } else { 0 };
            Some(Damage { file: self.storage.describe(&name), offset, oid: None, reason })
        });
        if let Some(lost) = lost.or(damaged) {
            self.refuse_others()?;
            let kept = if log.tail.next == 0 { self.keep_behind(&segment, log.tail.end)? } else { None };
            let kept = kept.into_iter().chain(self.keep_segments_behind(log.tail.segment)?);
            let (kept_in, bytes): (Vec<_>, Vec<_>) = kept.unzip();
            accepted = Some(AcceptedEnd { lost, kept_in, bytes: bytes.iter().sum() });
            // Segments without a byte are left, and what says that more was durable is kept aside.
            let mut blank = self.listed_segments()?;
            blank.retain(|&number| number > log.tail.segment);
            self.remove_segments(&blank)?;
        }
        self.remove_behind(log)?;
        for end in self.sync.undurable() {
            if let Some(sealed) = self.current_segment((end >> 32) as u32)? {
                self.write_again(&sealed, 0, end & 0xffff_ffff)?;
            }
        }
        self.sync_sealed(segment.number, 0)?;
        if log.tail.next == 0 {
            let failed = |error| self.io(&segment.name, error);
            segment.zero_shown(log.tail.end, segment.bytes).map_err(failed)?;
        }
        // Also where it is sealed: a sync of it may have failed before.
        self.write_again(&segment, 0, log.tail.end)?;
        self.sync_segment(&segment)?;
        self.sync.note_durable(log.tail.location());
        if accepted.is_some() {
            self.claim_anew(log.tail.location())?;
        }
        Ok(accepted)
    }

    /// Fails while another process, or another handle of this one, has the store open: it may know more of the log than that
    /// has by now, and would append behind it.
    fn refuse_others(&self) -> Result<(), Error> {
        let mut others = Vec::new();
        self.each_reader(&mut |_, who| others.push(who))?;
        // The note of this process is among them.
        if others.len() <= usize::from(self.reader.get().is_some()) {
            return Ok(());
        }
        let own = std::process::id();
        let other = others.into_iter().flatten().map(|who| who.process).find(|&process| process != own);
        let holder = match other {
            Some(process) => format!("process {process}, which has the store open"),
            None => "another process or handle, which has the store open".to_owned(),
        };
        Err(Error::Locked { file: self.storage.describe(READERS), holder, waited_ms: 0 })
    }

    /// Gives the segments behind the one in which the log ends other names, durably; returns these, and the lengths of the files.
    fn keep_segments_behind(&self, number: u32) -> Result<Vec<(String, u64)>, Error> {
        let mut kept = Vec::new();
        for number in self.listed_segments()?.into_iter().filter(|&later| later > number) {
            let Some(segment) = self.segment_file(number)? else { continue };
            if !self.shows_any(&segment, 0, segment.bytes)? {
                continue;
            }
            let name = format!("{SEGMENTS}/{BEHIND}{number:08}-0-{:08x}", random_word() as u32);
            self.storage.rename(&segment.name, &name).map_err(|error| self.io(&name, error))?;
            kept.push((self.storage.describe(&name), segment.bytes));
        }
        if !kept.is_empty() {
            self.storage.sync_dir(SEGMENTS).map_err(|error| self.io(SEGMENTS, error))?;
        }
        Ok(kept)
    }

    /// Copies what stands behind the end of the log to a file of its own, durably; returns its name and length.
    fn keep_behind(&self, segment: &Segment, end: u64) -> Result<Option<(String, u64)>, Error> {
        if !self.shows_any(segment, end, segment.bytes)? {
            return Ok(None);
        }
        let name = format!("{SEGMENTS}/{BEHIND}{:08}-{end}-{:08x}", segment.number, random_word() as u32);
        let failed = |error| self.io(&name, error);
        let file = self.storage.open(&name, OpenMode::CreateNew).map_err(failed)?;
        let (mut at, mut kept, mut buffer) = (end, 0, Vec::new());
        let mut copy = || -> Result<(), Error> {
            while at < segment.bytes {
                let chunk = segment.unwritten(at, CHUNK_BYTES, &mut buffer).map_err(|e| self.io(&segment.name, e))?;
                // Zeroes are what the rest of a segment is made of: they become holes, and none is kept at the end.
                if let Some(last) = chunk.iter().rposition(|&byte| byte != 0) {
                    write_all_at(&*file, &chunk[..=last], at - end).map_err(failed)?;
                    kept = at - end + last as u64 + 1;
                }
                at += chunk.len() as u64;
            }
            file.sync_data().map_err(failed)?;
            self.storage.sync_dir(SEGMENTS).map_err(|error| self.io(SEGMENTS, error))
        };
        if let Err(error) = copy() {
            let _ = self.storage.remove(&name);
            return Err(error);
        }
        Ok(Some((self.storage.describe(&name), kept)))
    }
}
