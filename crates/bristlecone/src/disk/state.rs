//! The state of a store that is not in its log: what the last collection left. `docs/formats/disk.md` section 8 lists the
//! bytes.
//!
//! Each state has a number, the *epoch*, and a file of its own, which is whole before a frame of the log announces it. From
//! that frame on it is the state of the store, for every process that follows the log.

use std::{io, sync::Arc};

use bristlecone_core::{Oid, RECORD_HEADER_BYTES};
use twox_hash::XxHash3_64;

use super::{
    cold::COLD_HEAD_BYTES,
    files::{SEGMENTS, open_aside},
    frame::{word32, word64},
    lock::CollectorLock,
    log::DiskState,
    roll::now_seconds,
    segment::{COLD, COLD_END, SEGMENT_BYTES_MAX},
};
use crate::{
    AbsentCommit, AbsentCommits, AbsentReason, Error, Retention,
    storage::{OpenMode, Storage, read_exact_at, write_all_at},
};

const MAGIC: u64 = u64::from_le_bytes(*b"BCONESTA");
const EPOCH_AT: usize = 8;
const BASE_AT: usize = EPOCH_AT + 8;
const TIME_AT: usize = BASE_AT + 4;
const LENGTH_AT: usize = TIME_AT + 4;
const CHECK_AT: usize = LENGTH_AT + 8;
/// Bytes before the sections: 40 = 8 magic + 8 epoch + 4 base + 4 time + 8 length + 8 check.
const HEAD_BYTES: usize = CHECK_AT + 8;
const _: () = assert!(HEAD_BYTES == 40, "the fields of a state's head add up");
/// No state is longer: it would be of a hundred million absent ids.
const STATE_BYTES_MAX: u64 = 1 << 32;

/// Bytes before what a section holds: 4 tag + 4 zeroes + 8 length.
const SECTION_BYTES: usize = 16;
const COLD_TAG: u32 = 1;
const ABSENT_TAG: u32 = 2;
const RETENTION_TAG: u32 = 3;
const GRACED_TAG: u32 = 4;
const WHOLE_TAG: u32 = 5;
const MARKS_TAG: u32 = 6;
/// Bytes of a cold segment's row: 32 = 4 number + 4 zeroes + 8 length + 8 records + 8 check.
const COLD_ROW_BYTES: usize = 32;
/// Bytes of the row of a cold segment's marks: 40 = 8 number + 8 state + 8 live records + 8 their bytes + 8 check.
const MARKS_ROW_BYTES: usize = 40;
/// Bytes of the row of an object that the grace keeps: 40 = 1 length of the id + 3 zeroes + 4 time + 32 id.
const GRACED_ROW_BYTES: usize = 40;
/// Bytes of the row of an absent commit: 72 = 1 length of the id + 1 reason + 1 length of the next id + 1 zero + 4 missing commits
/// + 32 id + 32 next id.
const ABSENT_ROW_BYTES: usize = 72;
/// The reason of what retention has cut.
const REASON_CUT: u8 = 1;

/// A cold segment, as the state knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ColdSegment {
    pub(super) number: u32,
    /// The length of its file.
    pub(super) bytes: u64,
    /// How many records it has.
    pub(super) records: u64,
    /// The check in its head.
    pub(super) check: u64,
}

/// What is live of a cold segment in which something is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ColdMarks {
    /// The number of the segment.
    pub(super) number: u32,
    /// The state that was the first to name these marks.
    pub(super) epoch: u64,
    /// How many records are live.
    pub(super) records: u64,
    /// Bytes of these records.
    pub(super) bytes: u64,
    /// The check of the file of marks.
    pub(super) check: u64,
}

/// Which state a frame or a head says is that of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StateRef {
    /// The number of the state; 0 before the first one.
    pub(super) epoch: u64,
    /// The check of its file.
    pub(super) check: u64,
    /// The first segment of the log that was not removed.
    pub(super) base: u32,
}

/// What the last collection left that emptied the cold segments, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WholeLeft {
    /// Bytes of cold segments.
    pub(super) bytes: u64,
    /// How many collections there were since, each of the log alone.
    pub(super) since: u32,
    /// When the last of all these ended, in seconds since 1970; 0 where that is not known.
    pub(super) time: u32,
}

/// What the last collection left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoreState {
    /// How many states there were before.
    pub(super) epoch: u64,
    /// The check of the state's file; 0 for the first state, which has none.
    pub(super) check: u64,
    /// The first segment of the log that was not removed.
    pub(super) base: u32,
    /// Ascending by number.
    pub(super) cold: Arc<[ColdSegment]>,
    /// Marks of cold segments in which something is dead, ascending by number.
    pub(super) marks: Arc<[ColdMarks]>,
    /// What something that is kept names and that was cut.
    pub(super) absent: Arc<AbsentCommits>,
    /// What nothing leads to and is kept by the grace: when it was written, in seconds since 1970, and its id.
    pub(super) graced: Arc<[(u32, Oid)]>,
    /// The rules of retention as text.
    pub(super) retention: Arc<str>,
    /// Unknown before the first collection, and after the rules have changed.
    pub(super) whole: Option<WholeLeft>,
    /// When it was made, in seconds since 1970; 0 where that is not known.
    pub(super) time: u32,
}

/// For how long a snapshot keeps what collections emptied, as of now.
#[derive(Clone, Copy, Debug)]
pub(super) struct SnapshotLimit {
    seconds: u32,
    // In seconds since 1970.
    now: u32,
}

impl SnapshotLimit {
    /// Whether it has passed since a time in seconds since 1970; never where that is 0 and so unknown.
    pub(super) const fn has_passed(self, since: u32) -> bool {
        since != 0 && self.now.saturating_sub(since) >= self.seconds
    }

    /// Returns a limit that is no shorter than so many seconds.
    pub(super) fn at_least(self, seconds: u32) -> Self {
        Self { seconds: self.seconds.max(seconds), ..self }
    }
}

impl StateRef {
    /// The first state, which has no file.
    pub(super) const FIRST: Self = Self { epoch: 0, check: 0, base: 1 };
}

impl Default for StoreState {
    fn default() -> Self {
        Self {
            epoch: 0,
            check: 0,
            base: 1,
            cold: Arc::default(),
            marks: Arc::default(),
            absent: Arc::default(),
            graced: Arc::default(),
            retention: "".into(),
            whole: None,
            time: 0,
        }
    }
}

impl StoreState {
    /// Returns what names this state.
    pub(super) const fn reference(&self) -> StateRef {
        StateRef { epoch: self.epoch, check: self.check, base: self.base }
    }

    /// Returns the bytes of all cold segments.
    pub(super) fn cold_bytes(&self) -> u64 {
        self.cold.iter().map(|cold| cold.bytes).sum()
    }

    /// Returns how many records of a cold segment are live, and their bytes, as far as collections have looked.
    pub(super) fn live_of(&self, cold: &ColdSegment) -> (u64, u64) {
        let all = (cold.records, cold.bytes.saturating_sub(COLD_HEAD_BYTES));
        self.marks(cold.number).map_or(all, |marks| (marks.records, marks.bytes))
    }

    /// Returns the bytes of records in cold segments that are live, as far as collections have looked.
    pub(super) fn live_bytes(&self) -> u64 {
        self.cold.iter().map(|cold| self.live_of(cold).1).sum()
    }

    /// Returns how many objects of cold segments are live.
    pub(super) fn live_objects(&self) -> u64 {
        self.cold.iter().map(|cold| self.live_of(cold).0).sum()
    }

    /// Returns the limit of snapshots as of now, if there is one.
    pub(super) fn snapshot_limit(&self) -> Option<SnapshotLimit> {
        let retention: Retention = self.retention.parse().ok()?;
        retention.snapshot_limit().map(|seconds| SnapshotLimit { seconds, now: now_seconds() })
    }

    /// Whether the store still needs the segment of this number where something reads by this state and by any up to the `newest`
    /// one: it is the state's, or it may be that of a later one.
    pub(super) fn needs(&self, number: u32, newest: &Self) -> bool {
        if number < COLD {
            return number >= self.base;
        }
        let may_be_later = self.epoch < newest.epoch && self.cold.last().is_none_or(|last| number > last.number);
        may_be_later || self.cold(number).is_some() || newest.cold(number).is_some()
    }

    /// Returns the cold segment of this number.
    pub(super) fn cold(&self, number: u32) -> Option<&ColdSegment> {
        let place = self.cold.binary_search_by_key(&number, |cold| cold.number).ok()?;
        self.cold.get(place)
    }

    /// Returns the marks of the cold segment of this number, if something in it is dead.
    pub(super) fn marks(&self, number: u32) -> Option<&ColdMarks> {
        let place = self.marks.binary_search_by_key(&number, |marks| marks.number).ok()?;
        self.marks.get(place)
    }

    /// Whether two states have the same cold segment under a number, with the same of it live.
    pub(super) fn shares_cold(&self, other: &Self, number: u32) -> bool {
        self.cold(number) == other.cold(number) && self.marks(number) == other.marks(number)
    }

    /// Completes the state and returns the bytes of its file.
    pub(super) fn encode(&mut self, salt: u64) -> Vec<u8> {
        let mut sections = Vec::new();
        put_section(&mut sections, COLD_TAG, |out| {
            for cold in &*self.cold {
                out.extend_from_slice(&u64::from(cold.number).to_le_bytes());
                out.extend_from_slice(&cold.bytes.to_le_bytes());
                out.extend_from_slice(&cold.records.to_le_bytes());
                out.extend_from_slice(&cold.check.to_le_bytes());
            }
        });
        put_section(&mut sections, ABSENT_TAG, |out| {
            for (oid, absent) in &*self.absent {
                let mut row = [0; ABSENT_ROW_BYTES];
                row[0] = oid.as_bytes().len() as u8;
                row[1] = match absent.reason {
                    AbsentReason::Cut => REASON_CUT,
                };
                row[4..8].copy_from_slice(&absent.missing.to_le_bytes());
                row[8..8 + oid.as_bytes().len()].copy_from_slice(oid.as_bytes());
                if let Some(next) = &absent.next {
                    row[2] = next.as_bytes().len() as u8;
                    row[40..40 + next.as_bytes().len()].copy_from_slice(next.as_bytes());
                }
                out.extend_from_slice(&row);
            }
        });
        put_section(&mut sections, GRACED_TAG, |out| {
            for (time, oid) in &*self.graced {
                let mut row = [0; GRACED_ROW_BYTES];
                row[0] = oid.as_bytes().len() as u8;
                row[4..8].copy_from_slice(&time.to_le_bytes());
                row[8..8 + oid.as_bytes().len()].copy_from_slice(oid.as_bytes());
                out.extend_from_slice(&row);
            }
        });
        put_section(&mut sections, RETENTION_TAG, |out| out.extend_from_slice(self.retention.as_bytes()));
        if let Some(whole) = &self.whole {
            put_section(&mut sections, WHOLE_TAG, |out| {
                out.extend_from_slice(&whole.bytes.to_le_bytes());
                out.extend_from_slice(&whole.since.to_le_bytes());
                out.extend_from_slice(&whole.time.to_le_bytes());
            });
        }
        if !self.marks.is_empty() {
            put_section(&mut sections, MARKS_TAG, |out| {
                for marks in &*self.marks {
                    let number = u64::from(marks.number);
                    for word in [number, marks.epoch, marks.records, marks.bytes, marks.check] {
                        out.extend_from_slice(&word.to_le_bytes());
                    }
                }
            });
        }
        let mut out = MAGIC.to_le_bytes().to_vec();
        out.extend_from_slice(&self.epoch.to_le_bytes());
        out.extend_from_slice(&self.base.to_le_bytes());
        out.extend_from_slice(&self.time.to_le_bytes());
        out.extend_from_slice(&(sections.len() as u64).to_le_bytes());
        self.check = check(&out, &sections, salt);
        out.extend_from_slice(&self.check.to_le_bytes());
        out.extend_from_slice(&sections);
        out
    }

    /// Decodes a state. An error says why these bytes are not one.
    pub(super) fn decode(bytes: &[u8], salt: u64) -> Result<Self, &'static str> {
        let head = bytes.get(..HEAD_BYTES).filter(|head| word64(head, 0) == MAGIC).ok_or("this is no state")?;
        let sections = &bytes[HEAD_BYTES..];
        let right = word64(head, LENGTH_AT) == sections.len() as u64
            && word64(head, CHECK_AT) == check(&head[..CHECK_AT], sections, salt);
        if !right {
            return Err("the state's checksum is wrong");
        }
        let mut state = Self {
            epoch: word64(head, EPOCH_AT),
            check: word64(head, CHECK_AT),
            base: word32(head, BASE_AT),
            time: word32(head, TIME_AT),
            ..Self::default()
        };
        // The next collection adds one.
        if state.epoch == u64::MAX {
            return Err("the state has a number that none can follow");
        }
        let mut rest = sections;
        while !rest.is_empty() {
            let (tag, body, next) = take_section(rest).ok_or("the state's sections do not add up")?;
            match tag {
                COLD_TAG => state.cold = cold_rows(body).ok_or("a row of the cold segments is wrong")?,
                ABSENT_TAG => state.absent = absent_rows(body).ok_or("a row of the absent ids is wrong")?,
                GRACED_TAG => state.graced = graced_rows(body).ok_or("a row of the kept ids is wrong")?,
                MARKS_TAG => state.marks = marks_rows(body).ok_or("a row of the marks is wrong")?,
                RETENTION_TAG => {
                    state.retention = std::str::from_utf8(body).map_err(|_| "the retention is not UTF-8")?.into();
                }
                WHOLE_TAG if body.len() == 16 => {
                    let (bytes, since, time) = (word64(body, 0), word32(body, 8), word32(body, 12));
                    state.whole = Some(WholeLeft { bytes, since, time });
                }
                _ => return Err("the state has a section that this version does not know"),
            }
            rest = next;
        }
        let of_cold = |marks: &ColdMarks| {
            let cold = state.cold(marks.number);
            cold.is_some_and(|cold| marks.records <= cold.records && marks.bytes <= cold.bytes)
        };
        if !state.marks.iter().all(of_cold) {
            return Err("there are marks of no cold segment");
        }
        Ok(state)
    }
}

fn check(head: &[u8], sections: &[u8], salt: u64) -> u64 {
    XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot_with_seed(salt, head), sections)
}

fn put_section(out: &mut Vec<u8>, tag: u32, put: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.resize(at + SECTION_BYTES, 0);
    put(out);
    let bytes = (out.len() - at - SECTION_BYTES) as u64;
    out[at..at + 4].copy_from_slice(&tag.to_le_bytes());
    out[at + 8..at + SECTION_BYTES].copy_from_slice(&bytes.to_le_bytes());
    out.resize(out.len().next_multiple_of(8), 0);
}

/// Returns tag and body of the first section, and what is behind it.
fn take_section(bytes: &[u8]) -> Option<(u32, &[u8], &[u8])> {
    let (head, rest) = bytes.split_at_checked(SECTION_BYTES)?;
    let length = usize::try_from(word64(head, 8)).ok()?;
    let body = rest.get(..length)?;
    Some((word32(head, 0), body, rest.get(length.checked_next_multiple_of(8)?..)?))
}

fn cold_rows(body: &[u8]) -> Option<Arc<[ColdSegment]>> {
    let row = |row: &[u8]| ColdSegment {
        number: word32(row, 0),
        bytes: word64(row, 8),
        records: word64(row, 16),
        check: word64(row, 24),
    };
    let rows: Arc<[ColdSegment]> = body.chunks_exact(COLD_ROW_BYTES).map(row).collect();
    let ascending = rows.is_sorted_by(|one, next| one.number < next.number);
    let fits = |row: &ColdSegment| {
        let records_max = row.bytes.saturating_sub(COLD_HEAD_BYTES) / RECORD_HEADER_BYTES as u64;
        row.bytes <= SEGMENT_BYTES_MAX && row.records <= records_max
    };
    let cold = rows.iter().all(|row| (COLD + 1..COLD_END).contains(&row.number) && fits(row));
    (body.len().is_multiple_of(COLD_ROW_BYTES) && ascending && cold).then_some(rows)
}

fn marks_rows(body: &[u8]) -> Option<Arc<[ColdMarks]>> {
    let row = |row: &[u8]| ColdMarks {
        number: word32(row, 0),
        epoch: word64(row, 8),
        records: word64(row, 16),
        bytes: word64(row, 24),
        check: word64(row, 32),
    };
    let rows: Arc<[ColdMarks]> = body.chunks_exact(MARKS_ROW_BYTES).map(row).collect();
    let ascending = rows.is_sorted_by(|one, next| one.number < next.number);
    (body.len().is_multiple_of(MARKS_ROW_BYTES) && ascending).then_some(rows)
}

fn absent_rows(body: &[u8]) -> Option<Arc<AbsentCommits>> {
    let row = |row: &[u8]| {
        let oid = Oid::new(row.get(8..8 + usize::from(row[0]))?).ok()?;
        let next = match row[2] {
            0 => None,
            length => Some(Oid::new(row.get(40..40 + usize::from(length))?).ok()?),
        };
        let right = row[1] == REASON_CUT;
        right.then(|| (oid, AbsentCommit { reason: AbsentReason::Cut, missing: word32(row, 4), next }))
    };
    let rows: Option<AbsentCommits> = body.chunks_exact(ABSENT_ROW_BYTES).map(row).collect();
    rows.filter(|_| body.len().is_multiple_of(ABSENT_ROW_BYTES)).map(Arc::new)
}

fn graced_rows(body: &[u8]) -> Option<Arc<[(u32, Oid)]>> {
    let row = |row: &[u8]| Some((word32(row, 4), Oid::new(row.get(8..8 + usize::from(row[0]))?).ok()?));
    let rows: Option<Arc<[(u32, Oid)]>> = body.chunks_exact(GRACED_ROW_BYTES).map(row).collect();
    rows.filter(|_| body.len().is_multiple_of(GRACED_ROW_BYTES))
}

/// Returns the name of a state's file.
pub(super) fn state_name(epoch: u64) -> String {
    format!("{SEGMENTS}/{epoch:08}.state")
}

/// Returns the epoch of the state with this name in the folder of segments.
pub(super) fn state_epoch(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".state")?;
    digits.parse().ok().filter(|epoch: &u64| format!("{epoch:08}") == digits)
}

impl DiskState {
    /// Reads the state that a frame or a head names; `None` if its file is not there.
    pub(super) fn read_state(&self, wanted: StateRef) -> Result<Option<StoreState>, Error> {
        let state = self.read_state_file(wanted.epoch)?;
        if state.as_ref().is_some_and(|state| state.reference() != wanted) {
            return Err(self.corrupt(&state_name(wanted.epoch), 0, "this is not the state that the log names"));
        }
        Ok(state)
    }

    /// Reads the state of a number, whether or not the log names it; `None` if its file is not there.
    pub(super) fn read_state_file(&self, epoch: u64) -> Result<Option<StoreState>, Error> {
        if epoch == 0 {
            return Ok(Some(StoreState::default()));
        }
        let name = state_name(epoch);
        let failed = |error| self.io(&name, error);
        let file = match self.storage.open(&name, OpenMode::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let bytes = file.len().map_err(failed)?;
        if bytes > STATE_BYTES_MAX {
            return Err(self.corrupt(&name, 0, "the state is too long"));
        }
        let mut buffer = vec![0; HEAD_BYTES.min(bytes as usize)];
        read_exact_at(&*file, &mut buffer, 0).map_err(failed)?;
        // Memory is taken for what the head speaks of.
        if buffer.len() == HEAD_BYTES && word64(&buffer, LENGTH_AT) == bytes - HEAD_BYTES as u64 {
            buffer.resize(bytes as usize, 0);
            read_exact_at(&*file, &mut buffer[HEAD_BYTES..], HEAD_BYTES as u64).map_err(failed)?;
        }
        let state = StoreState::decode(&buffer, self.header.salt).map_err(|reason| self.corrupt(&name, 0, reason))?;
        if state.epoch != epoch {
            return Err(self.corrupt(&name, 0, "this is another state than its name says"));
        }
        Ok(Some(state))
    }

    /// Writes a state's file, durably with its name. It is the store's once a frame names it. Nobody else makes one meanwhile: the
    /// caller holds the lock of the collector.
    pub(super) fn write_state(&self, collector: &CollectorLock, state: &mut StoreState) -> Result<(), Error> {
        let bytes = state.encode(self.header.salt);
        write_whole_if(&self.storage, &state_name(state.epoch), &bytes, || collector.check())?;
        self.sync_names(SEGMENTS)
    }
}

/// Writes a file whole and durably before it has its name. The name is durable after a sync of the folder.
pub(super) fn write_whole(storage: &Arc<dyn Storage>, name: &str, bytes: &[u8]) -> Result<(), Error> {
    write_whole_if(storage, name, bytes, || Ok(()))
}

/// As [`write_whole`], unless `check` fails, which is called last before the file gets its name.
pub(super) fn write_whole_if(
    storage: &Arc<dyn Storage>,
    name: &str,
    bytes: &[u8],
    check: impl FnOnce() -> Result<(), Error>,
) -> Result<(), Error> {
    let (file, aside) = open_aside(storage)?;
    let failed = |error: io::Error| Error::io(storage.describe(name), error);
    let written = write_all_at(&*file, bytes, 0).and_then(|()| file.sync_data()).map_err(failed);
    let named = written
        .and_then(|()| check())
        .and_then(|()| storage.rename(&aside, name).and_then(|()| file.unlock()).map_err(failed));
    named.inspect_err(|_| _ = storage.remove(&aside))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> StoreState {
        let cut = |missing, next| AbsentCommit { reason: AbsentReason::Cut, missing, next };
        let next = Oid::from_array([8; 32]);
        let cold = |number| ColdSegment { number: COLD + number, bytes: 4096, records: 3, check: 9 };
        StoreState {
            epoch: 7,
            check: 0,
            base: 12,
            cold: [cold(1), cold(5)].into(),
            marks: [ColdMarks { number: COLD + 5, epoch: 7, records: 2, bytes: 4000, check: 6 }].into(),
            absent: Arc::new(
                [(Oid::from_array([1; 32]), cut(7, None)), (Oid::new(&[2; 20]).unwrap(), cut(u32::MAX, Some(next)))]
                    .into(),
            ),
            graced: [(5, Oid::from_array([3; 32]))].into(),
            retention: "last 100 heads/*".into(),
            whole: Some(WholeLeft { bytes: 1 << 40, since: 3, time: 8 }),
            time: 9,
        }
    }

    #[test]
    fn a_state_round_trips_and_every_flip_and_cut_is_found() {
        let mut state = state();
        let bytes = state.encode(5);
        assert_eq!(StoreState::decode(&bytes, 5), Ok(state));
        assert!(StoreState::decode(&bytes, 6).is_err());
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(StoreState::decode(&flipped, 5).is_err(), "bit {bit}");
        }
        (0..bytes.len()).for_each(|cut| assert!(StoreState::decode(&bytes[..cut], 5).is_err(), "cut at {cut}"));
    }

    /// Whoever writes a right checksum over a cold segment that no store has is refused too.
    #[test]
    fn cold_segments_that_no_store_has_are_refused() {
        let of = |number, bytes, records| {
            let mut state = state();
            state.marks = [].into();
            state.cold = [ColdSegment { number, bytes, records, check: 9 }].into();
            StoreState::decode(&state.encode(5), 5).is_ok()
        };
        let with = |number, bytes| of(number, bytes, 3);
        assert!(with(COLD + 1, 4096) && with((1 << 31) - 1, SEGMENT_BYTES_MAX));
        for (number, bytes) in [(COLD, 8), (1 << 31, 8), (u32::MAX, 8), (COLD + 1, SEGMENT_BYTES_MAX + 8)] {
            assert!(!with(number, bytes), "{number}, {bytes} bytes");
        }
        // Numbers of records are added up, and none is shorter than its header.
        for (bytes, records, right) in [(64, 0, true), (112, 1, true), (112, 2, false), (4096, u64::MAX, false)] {
            assert_eq!(of(COLD + 1, bytes, records), right, "{records} records in {bytes} bytes");
        }
    }

    #[test]
    fn a_number_that_none_can_follow_is_refused() {
        for (epoch, right) in [(1, true), (u64::MAX - 1, true), (u64::MAX, false)] {
            let bytes = StoreState { epoch, ..state() }.encode(5);
            assert_eq!(StoreState::decode(&bytes, 5).is_ok(), right, "{epoch}");
        }
    }

    #[test]
    fn names_of_states_are_those_of_their_epochs() {
        for epoch in [1, 99_999_999, 100_000_000, u64::MAX] {
            let name = state_name(epoch);
            assert_eq!(state_epoch(name.strip_prefix("segments/").unwrap()), Some(epoch));
        }
        for wrong in ["1.state", "00000001.seg", "+0000001.state", "x.state", "000000001.state"] {
            assert_eq!(state_epoch(wrong), None, "{wrong}");
        }
    }
}
