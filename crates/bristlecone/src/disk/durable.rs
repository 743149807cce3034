//! The file `segments/durable`: how far the log was durable at least. `docs/formats/disk.md` section 7 lists the bytes.
//!
//! The log cannot tell its own end from one that was cut back to whole frames. So a process that closes the store, or goes
//! on to the next segment, or is the first to sync one that was begun ahead, or removes what a collection emptied, notes how far
//! everything was synced by then, alternating between two slots. A log that is shorter has lost what was acknowledged. No commit waits for a
//! note. It may be old or missing: then nothing is claimed.

use std::{io, sync::Arc};

use twox_hash::XxHash3_64;

use super::{
    files::{DURABLE, SEGMENTS, open_empty, segment_name},
    frame::word64,
    log::{DiskState, Tail},
};
use crate::{
    Error,
    backend::Damage,
    storage::{OpenMode, Storage, StorageFile, read_exact_at, write_all_at},
};

const MAGIC: u64 = u64::from_le_bytes(*b"BCONEEND");
const SERIAL_AT: usize = 8;
const END_AT: usize = SERIAL_AT + 8;
const CHECK_AT: usize = END_AT + 8;
/// Bytes of a slot: 32 = 8 magic + 8 serial number + 8 end + 8 check.
const SLOT_BYTES: usize = CHECK_AT + 8;
const _: () = assert!(SLOT_BYTES == 32, "the fields of a slot add up");
/// Slots lie so far apart that no sector holds both.
const SLOT_STEP: u64 = 512;
const SLOTS: u64 = 2;

/// What one slot says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DurableSlot {
    /// The higher one is the newer.
    serial: u64,
    /// The location up to which the log was durable.
    end: u64,
}

impl DurableSlot {
    fn encode(&self, salt: u64) -> [u8; SLOT_BYTES] {
        let mut bytes = [0; SLOT_BYTES];
        bytes[..SERIAL_AT].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[SERIAL_AT..END_AT].copy_from_slice(&self.serial.to_le_bytes());
        bytes[END_AT..CHECK_AT].copy_from_slice(&self.end.to_le_bytes());
        let check = XxHash3_64::oneshot_with_seed(salt, &bytes[..CHECK_AT]);
        bytes[CHECK_AT..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; SLOT_BYTES], salt: u64) -> Option<Self> {
        let right = word64(bytes, 0) == MAGIC
            && word64(bytes, CHECK_AT) == XxHash3_64::oneshot_with_seed(salt, &bytes[..CHECK_AT]);
        right.then(|| Self { serial: word64(bytes, SERIAL_AT), end: word64(bytes, END_AT) })
    }
}

/// Makes the file, without any claim, unless it is there. Its name is durable once its folder is synced.
pub(super) fn prepare(storage: &Arc<dyn Storage>) -> Result<bool, Error> {
    match storage.open(DURABLE, OpenMode::Read) {
        Ok(_) => return Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(Error::io(storage.describe(DURABLE), error)),
    }
    let file = open_empty(storage, DURABLE)?;
    let zeroes = [0; (SLOT_STEP * SLOTS) as usize];
    let written = write_all_at(&*file, &zeroes, 0).and_then(|()| file.sync_data());
    written.map_err(|error| Error::io(storage.describe(DURABLE), error))?;
    Ok(true)
}

/// Returns the location up to which the log was durable at least, if the file says.
pub(super) fn claimed_end(storage: &Arc<dyn Storage>, salt: u64) -> Option<u64> {
    // What cannot be read claims nothing.
    let file = storage.open(DURABLE, OpenMode::Read).ok()?;
    Some(newest(&slots(&*file, salt))?.end)
}

fn slots(file: &dyn StorageFile, salt: u64) -> [Option<DurableSlot>; SLOTS as usize] {
    let read = |index: u64| {
        let mut bytes = [0; SLOT_BYTES];
        read_exact_at(file, &mut bytes, index * SLOT_STEP).ok()?;
        DurableSlot::decode(&bytes, salt)
    };
    [read(0), read(1)]
}

fn newest(slots: &[Option<DurableSlot>]) -> Option<DurableSlot> {
    slots.iter().flatten().max_by_key(|slot| slot.serial).copied()
}

impl DiskState {
    /// Notes that the log is durable up to a location, which the caller has synced; `sync`: the note is made durable, too, also one
    /// that is there.
    ///
    /// It is a note: where it cannot be written, or two processes write it at a time, less is claimed.
    pub(super) fn note_end(&self, end: u64, sync: bool) {
        let mut synced = self.sync.noting();
        let mut noted = || -> io::Result<()> {
            let file = self.storage.open(DURABLE, OpenMode::Write)?;
            let slots = slots(&*file, self.header.salt);
            let newest = newest(&slots);
            // Without a slot nothing is claimed, as by one that says 0.
            let is_there = newest.map_or(0, |slot| slot.end) >= end;
            if !is_there {
                let older = slots.iter().position(|slot| slot.is_none() || *slot != newest).unwrap_or(0);
                let slot = DurableSlot { serial: newest.map_or(1, |slot| slot.serial.saturating_add(1)), end };
                write_all_at(&*file, &slot.encode(self.header.salt), older as u64 * SLOT_STEP)?;
            }
            // Whoever wrote what is there may not have synced it.
            if sync && (!is_there || *synced < end) {
                file.sync_data()?;
                *synced = end.max(*synced);
            }
            Ok(())
        };
        let _ = noted();
    }

    /// Claims no more than that the log was durable up to `end`, whatever was claimed before, in both slots, durably.
    pub(super) fn claim_anew(&self, end: u64) -> Result<(), Error> {
        let failed = |error| self.io(DURABLE, error);
        prepare(&self.storage)?;
        let file = self.storage.open(DURABLE, OpenMode::Write).map_err(failed)?;
        let serial = newest(&slots(&*file, self.header.salt)).map_or(0, |slot| slot.serial);
        for index in 0..SLOTS {
            let slot = DurableSlot { serial: serial.saturating_add(1 + index), end };
            write_all_at(&*file, &slot.encode(self.header.salt), index * SLOT_STEP).map_err(failed)?;
            file.sync_data().map_err(failed)?;
        }
        self.storage.sync_dir(SEGMENTS).map_err(|error| self.io(SEGMENTS, error))
    }

    /// Returns what is wrong if the log ends before `claimed`, the location up to which it was durable.
    pub(super) fn shortfall(&self, tail: &Tail, claimed: Option<u64>) -> Option<Damage> {
        let claimed = claimed.filter(|&claimed| claimed > tail.location())?;
        let (number, offset) = ((claimed >> 32) as u32, claimed & 0xffff_ffff);
        let missing = tail.segment + 1;
        let (name, at, reason) = if number == tail.segment {
            let reason = format!("the log ends here, but was durable up to byte {offset}: what lay behind is lost");
            (segment_name(number), tail.end, reason)
        } else if tail.next != 0 && number == tail.next {
            (segment_name(number), 0, "the segment is missing, and with it the end of the log".to_owned())
        } else if tail.next != 0 {
            let reason = format!("the segments {missing} to {number} are missing, and with them the end of the log");
            (segment_name(missing), 0, reason)
        } else {
            let reason = format!(
                "the log ends here, but went on up to byte {offset} of segment {number}: what lay behind is lost"
            );
            (segment_name(tail.segment), tail.end, reason)
        };
        Some(Damage { file: self.storage.describe(&name), offset: at, oid: None, reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_round_trips_and_every_flip_is_found() {
        let slot = DurableSlot { serial: 7, end: 3 << 32 | 640 };
        let bytes = slot.encode(5);
        assert_eq!(DurableSlot::decode(&bytes, 5), Some(slot));
        assert_eq!(DurableSlot::decode(&bytes, 6), None);
        assert_eq!(DurableSlot::decode(&[0; SLOT_BYTES], 5), None);
        for bit in 0..SLOT_BYTES * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(DurableSlot::decode(&flipped, 5), None, "bit {bit}");
        }
    }
}
