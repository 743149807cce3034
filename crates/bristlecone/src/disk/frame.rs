//! Frames: what one append writes. `docs/formats/disk.md` section 4 lists the bytes.
//!
//! A frame's head is bound to its place and its store by the seed of its check, so that no bytes of a user's
//! value, and no copy of a frame elsewhere, can be taken for one. The trailer is seeded by the head, which
//! holds the trailer of the frame before: the frames of a store are one chain.

use bristlecone_core::{Location, ObjRef, Oid};
use twox_hash::XxHash3_64;

use super::{refs::RefTableName, state::StateRef};
use crate::backend::RefTarget;

/// Marks a frame.
pub(super) const MAGIC: u32 = u32::from_le_bytes(*b"BCF1");
/// Bytes before the records: 64 = 4 magic + 4 kind + 8 sequence + 8 durable end + 8 previous + 8 nonce
/// + 4 record bytes + 4 payload bytes + 8 records check + 8 head check.
pub(super) const HEAD_BYTES: usize = 64;
/// Bytes after the payload: the trailer.
pub(super) const TRAILER_BYTES: usize = 8;
/// Bytes of a frame that holds nothing.
pub(super) const EMPTY_BYTES: u64 = (HEAD_BYTES + TRAILER_BYTES) as u64;
/// Bytes of the frame that seals a segment; its payload is the number of the next one.
pub(super) const SEAL_BYTES: u64 = EMPTY_BYTES + 8;

/// No frame has a longer payload: as many bytes of refs as the head of a segment has room for.
pub(super) const PAYLOAD_BYTES_MAX: u32 = 1 << 30;

const KIND_AT: usize = 4;
const SEQUENCE_AT: usize = KIND_AT + 4;
const DURABLE_AT: usize = SEQUENCE_AT + 8;
/// Where a head repeats the trailer before it.
pub(super) const PREVIOUS_AT: usize = DURABLE_AT + 8;
const NONCE_AT: usize = PREVIOUS_AT + 8;
const RECORDS_AT: usize = NONCE_AT + 8;
const PAYLOAD_AT: usize = RECORDS_AT + 4;
const RECORDS_CHECK_AT: usize = PAYLOAD_AT + 4;
const CHECK_AT: usize = RECORDS_CHECK_AT + 8;
const _: () = assert!(CHECK_AT + 8 == HEAD_BYTES, "the fields of a frame's head add up");

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameKind {
    /// Records and moves of refs.
    Batch = 1,
    /// The last of its segment.
    Seal = 2,
    /// Says that everything before it is durable; a clean close writes one.
    Checkpoint = 3,
    /// Names the state of the store from then on; since version 2.
    State = 4,
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) kind: FrameKind,
    /// Counts the frames of the store.
    pub(super) sequence: u64,
    /// What was known to be durable when the frame was written: the location of its end.
    pub(super) durable_end: u64,
    /// The trailer of the frame before, or the check of the segment's head.
    pub(super) previous: u64,
    /// Every opening chooses another one, so that no two histories make the same chain. In segments of version 2 the lower
    /// half is the time.
    pub(super) nonce: u64,
    pub(super) record_bytes: u32,
    /// Moves of refs, or the next segment's number; padded to 8 bytes.
    pub(super) payload_bytes: u32,
    /// XXH3-64 of the records.
    pub(super) records_check: u64,
}

impl Frame {
    /// Returns the length of the whole frame in bytes, a multiple of 8.
    pub(super) const fn bytes(&self) -> u64 {
        EMPTY_BYTES + self.record_bytes as u64 + self.payload_bytes as u64
    }

    /// Returns when the frame was written, in seconds since 1970, if its segment is of version 2.
    pub(super) const fn time(&self) -> u32 {
        self.nonce as u32
    }

    /// Returns the head's bytes, for a frame at the location `at` of the store with this salt.
    pub(super) fn encode(&self, at: u64, salt: u64) -> [u8; HEAD_BYTES] {
        let mut head = [0; HEAD_BYTES];
        head[..KIND_AT].copy_from_slice(&MAGIC.to_le_bytes());
        head[KIND_AT..SEQUENCE_AT].copy_from_slice(&(self.kind as u32).to_le_bytes());
        head[SEQUENCE_AT..DURABLE_AT].copy_from_slice(&self.sequence.to_le_bytes());
        head[DURABLE_AT..PREVIOUS_AT].copy_from_slice(&self.durable_end.to_le_bytes());
        head[PREVIOUS_AT..NONCE_AT].copy_from_slice(&self.previous.to_le_bytes());
        head[NONCE_AT..RECORDS_AT].copy_from_slice(&self.nonce.to_le_bytes());
        head[RECORDS_AT..PAYLOAD_AT].copy_from_slice(&self.record_bytes.to_le_bytes());
        head[PAYLOAD_AT..RECORDS_CHECK_AT].copy_from_slice(&self.payload_bytes.to_le_bytes());
        head[RECORDS_CHECK_AT..CHECK_AT].copy_from_slice(&self.records_check.to_le_bytes());
        let check = head_check(&head, at, salt);
        head[CHECK_AT..].copy_from_slice(&check.to_le_bytes());
        head
    }

    /// Returns the head that these bytes are, if they are one written for this place of this store.
    pub(super) fn decode(head: &[u8; HEAD_BYTES], at: u64, salt: u64) -> Option<Self> {
        if word32(head, 0) != MAGIC || word64(head, CHECK_AT) != head_check(head, at, salt) {
            return None;
        }
        let kind = match word32(head, KIND_AT) {
            1 => FrameKind::Batch,
            2 => FrameKind::Seal,
            3 => FrameKind::Checkpoint,
            4 => FrameKind::State,
            _ => return None,
        };
        let frame = Self {
            kind,
            sequence: word64(head, SEQUENCE_AT),
            durable_end: word64(head, DURABLE_AT),
            previous: word64(head, PREVIOUS_AT),
            nonce: word64(head, NONCE_AT),
            record_bytes: word32(head, RECORDS_AT),
            payload_bytes: word32(head, PAYLOAD_AT),
            records_check: word64(head, RECORDS_CHECK_AT),
        };
        let fits = frame.payload_bytes <= PAYLOAD_BYTES_MAX;
        (fits && frame.record_bytes.is_multiple_of(8) && frame.payload_bytes.is_multiple_of(8)).then_some(frame)
    }
}

/// Returns the trailer of the frame with this encoded head and payload.
pub(super) fn trailer(head: &[u8; HEAD_BYTES], payload: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(word64(head, CHECK_AT), payload)
}

/// Returns the check over a frame's records.
pub(super) fn records_check(records: &[u8]) -> u64 {
    XxHash3_64::oneshot(records)
}

fn head_check(head: &[u8; HEAD_BYTES], at: u64, salt: u64) -> u64 {
    XxHash3_64::oneshot_with_seed(salt.wrapping_add(at), &head[..CHECK_AT])
}

/// Bytes of a state's name: 24 = 8 epoch + 8 check + 4 first segment + 4 zeroes.
const STATE_BYTES: usize = 24;

/// Returns the payload of a frame that names a state, and moves refs.
pub(super) fn put_state(state: StateRef, rows: &[u8]) -> Vec<u8> {
    let mut out = state.epoch.to_le_bytes().to_vec();
    out.extend_from_slice(&state.check.to_le_bytes());
    out.extend_from_slice(&u64::from(state.base).to_le_bytes());
    out.extend_from_slice(rows);
    out.resize(out.len().next_multiple_of(8), 0);
    out
}

/// Returns the state that a payload names, and the moves of refs; `None` if it holds anything else.
pub(super) fn take_state(payload: &[u8]) -> Option<(StateRef, Vec<RefRow>)> {
    let (named, rows) = payload.split_at_checked(STATE_BYTES)?;
    let state = StateRef { epoch: word64(named, 0), check: word64(named, 8), base: word32(named, 16) };
    (state.epoch > 0 && word32(named, 20) == 0).then_some((state, take_refs(rows)?))
}

/// Returns the little-endian integer at `at`, which must be within the bytes.
pub(super) fn word32(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

/// Returns the little-endian integer at `at`, which must be within the bytes.
pub(super) fn word64(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// Bytes of a ref's row before its name: 16 = 1 what + 1 zero + 2 name length + 2 target length + 2 zero
/// + 8 location.
pub(super) const ROW_BYTES: usize = 16;
const REMOVED: u8 = 0;
const OBJECT: u8 = 1;
const SYMBOLIC: u8 = 2;
const TABLE: u8 = 3;

/// Appends a ref's row: its name and what it holds from then on.
pub(super) fn put_ref(out: &mut Vec<u8>, name: &str, target: Option<&RefTarget>) {
    let (what, at, bytes): (u8, u64, &[u8]) = match target {
        None => (REMOVED, 0, &[]),
        Some(RefTarget::Object(object)) => (OBJECT, object.at.0, object.oid.as_bytes()),
        Some(RefTarget::Symbolic(other)) => (SYMBOLIC, 0, other.as_bytes()),
    };
    let mut row = [0; ROW_BYTES];
    row[0] = what;
    row[2..4].copy_from_slice(&(name.len() as u16).to_le_bytes());
    row[4..6].copy_from_slice(&(bytes.len() as u16).to_le_bytes());
    row[8..].copy_from_slice(&at.to_le_bytes());
    out.extend_from_slice(&row);
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(bytes);
}

/// Appends a row that stands for a table of refs.
pub(super) fn put_table(out: &mut Vec<u8>, table: RefTableName) {
    let mut row = [0; ROW_BYTES];
    row[0] = TABLE;
    row[4..6].copy_from_slice(&8_u16.to_le_bytes());
    row[8..].copy_from_slice(&u64::from(table.number).to_le_bytes());
    out.extend_from_slice(&row);
    out.extend_from_slice(&table.check.to_le_bytes());
}

/// Returns the table for which the first row stands, and the rows behind it; `None` if it is another row.
pub(super) fn take_table(rows: &[u8]) -> Option<(RefTableName, &[u8])> {
    let (row, rest) = rows.split_at_checked(ROW_BYTES + 8)?;
    let is_table = row[..8] == [TABLE, 0, 0, 0, 8, 0, 0, 0] && word32(row, 12) == 0;
    is_table.then(|| (RefTableName { number: word32(row, 8), check: word64(row, ROW_BYTES) }, rest))
}

/// Returns the length of a ref's row in bytes.
pub(super) fn ref_bytes(name: &str, target: Option<&RefTarget>) -> usize {
    let target = match target {
        None => 0,
        Some(RefTarget::Object(object)) => object.oid.as_bytes().len(),
        Some(RefTarget::Symbolic(other)) => other.len(),
    };
    ROW_BYTES + name.len() + target
}

/// A ref and what it holds.
pub(super) type RefRow = (String, Option<RefTarget>);

/// The bytes of a row.
struct RowBytes<'a> {
    row: &'a [u8],
    name: &'a [u8],
    target: &'a [u8],
}

impl<'a> RowBytes<'a> {
    /// Returns the first row and what is behind it; `None` if there is no whole one.
    fn take(payload: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (row, rest) = payload.split_at_checked(ROW_BYTES)?;
        let name_bytes = usize::from(u16::from_le_bytes([row[2], row[3]]));
        let target_bytes = usize::from(u16::from_le_bytes([row[4], row[5]]));
        let (name, rest) = rest.split_at_checked(name_bytes)?;
        let (target, rest) = rest.split_at_checked(target_bytes)?;
        Some((Self { row, name, target }, rest))
    }

    /// Returns the ref, which has a name: a file may be long and hold nothing but zeroes.
    fn decode(&self) -> Option<RefRow> {
        if self.name.is_empty() {
            return None;
        }
        let target = match self.row[0] {
            REMOVED => None,
            OBJECT => Some(RefTarget::Object(ObjRef::new(Oid::new(self.target).ok()?, Location(word64(self.row, 8))))),
            SYMBOLIC => Some(RefTarget::Symbolic(std::str::from_utf8(self.target).ok()?.to_owned())),
            _ => return None,
        };
        Some((std::str::from_utf8(self.name).ok()?.to_owned(), target))
    }
}

/// Returns the rows in a payload; `None` if it holds anything else.
pub(super) fn take_refs(mut payload: &[u8]) -> Option<Vec<RefRow>> {
    let mut rows = Vec::new();
    // Padding is at most 7 zero bytes, less than a row.
    while payload.len() >= ROW_BYTES {
        let (row, rest) = RowBytes::take(payload)?;
        rows.push(row.decode()?);
        payload = rest;
    }
    is_padding(payload).then_some(rows)
}

/// Returns the row of a ref, if there is one; `None` if the payload holds anything but rows.
pub(super) fn find_ref(mut payload: &[u8], name: &str) -> Option<Option<RefRow>> {
    while payload.len() >= ROW_BYTES {
        let (row, rest) = RowBytes::take(payload)?;
        if row.name == name.as_bytes() {
            return row.decode().map(Some);
        }
        payload = rest;
    }
    is_padding(payload).then_some(None)
}

fn is_padding(bytes: &[u8]) -> bool {
    bytes.len() < 8 && bytes.iter().all(|&byte| byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::refs::HeadRefs;

    fn frame() -> Frame {
        Frame {
            kind: FrameKind::Batch,
            sequence: 3,
            durable_end: 4,
            previous: 5,
            nonce: 6,
            record_bytes: 48,
            payload_bytes: 16,
            records_check: 7,
        }
    }

    #[test]
    fn a_head_is_one_only_at_its_place_in_its_store() {
        let head = frame().encode(100, 9);
        assert_eq!(Frame::decode(&head, 100, 9), Some(frame()));
        assert_eq!(Frame::decode(&head, 108, 9), None);
        assert_eq!(Frame::decode(&head, 100, 8), None);
        for bit in 0..HEAD_BYTES * 8 {
            let mut flipped = head;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Frame::decode(&flipped, 100, 9), None, "bit {bit}");
        }
    }

    #[test]
    fn rows_of_refs_round_trip_and_cuts_are_refused() {
        let oid = Oid::from_array([7; 32]);
        let rows: Vec<RefRow> = vec![
            ("heads/main".to_owned(), Some(RefTarget::Object(ObjRef::new(oid, Location(77))))),
            ("HEAD".to_owned(), Some(RefTarget::Symbolic("heads/main".to_owned()))),
            ("gone".to_owned(), None),
        ];
        let mut out = Vec::new();
        for (name, target) in &rows {
            let before = out.len();
            put_ref(&mut out, name, target.as_ref());
            assert_eq!(out.len() - before, ref_bytes(name, target.as_ref()));
        }
        let whole = out.len();
        out.resize(out.len().next_multiple_of(8), 0);
        assert_eq!(take_refs(&out), Some(rows));
        for cut in 1..whole {
            // Cutting whole rows off leaves whole rows.
            if let Some(fewer) = take_refs(&out[..cut]) {
                assert!(fewer.len() < 3);
            }
        }
        out.push(1);
        assert_eq!(take_refs(&out), None);
    }

    /// Whoever writes a right checksum over zeroes makes no rows of them: each would take more memory than it has bytes.
    #[test]
    fn zeroes_are_no_rows() {
        let state = StateRef { epoch: 1, check: 2, base: 3 };
        for bytes in [16, 24, 4096] {
            let zeroes = vec![0; bytes];
            assert_eq!((take_refs(&zeroes), find_ref(&zeroes, "")), (None, None), "{bytes} bytes");
            assert_eq!(HeadRefs::decode(&zeroes), None, "{bytes} bytes");
            assert_eq!(take_state(&put_state(state, &zeroes)), None, "{bytes} bytes");
        }
        assert_eq!(take_refs(&[0; 7]), Some(vec![]), "padding");
    }

    #[test]
    fn a_head_with_a_payload_that_no_frame_has_is_none() {
        for (payload_bytes, right) in [(PAYLOAD_BYTES_MAX, true), (PAYLOAD_BYTES_MAX + 8, false), (!7, false)] {
            let head = Frame { payload_bytes, ..frame() }.encode(100, 9);
            assert_eq!(Frame::decode(&head, 100, 9).is_some(), right, "{payload_bytes} bytes");
        }
    }
}
