//! What a segment starts with: its head and the refs. `docs/formats/disk.md` section 3 lists the bytes.

use twox_hash::XxHash3_64;

use super::{
    super::{
        frame::{word32, word64},
        state::StateRef,
    },
    SECTOR_BYTES,
};

const MAGIC: u64 = u64::from_le_bytes(*b"BCONESEG");
/// Marks a segment of version 2: programs that know only version 1 end with an error there.
const MAGIC_2: u64 = u64::from_le_bytes(*b"BCONESG2");
/// Marks one of version 2 that was begun ahead: programs that take all before it for durable end with an error there.
const MAGIC_AHEAD: u64 = u64::from_le_bytes(*b"BCONESG3");
/// What heads begin with.
pub(in crate::disk) const KINDS: [u64; 3] = [MAGIC, MAGIC_2, MAGIC_AHEAD];
const NUMBER_AT: usize = 8;
const PREVIOUS_AT: usize = NUMBER_AT + 4;
const BYTES_AT: usize = PREVIOUS_AT + 4;
const SEQUENCE_AT: usize = BYTES_AT + 8;
const SEED_AT: usize = SEQUENCE_AT + 8;
const PREVIOUS_END_AT: usize = SEED_AT + 8;
const REFS_AT: usize = PREVIOUS_END_AT + 8;
const CHECK_AT: usize = REFS_AT + 8;
/// Bytes before the refs in version 1: 64 = 8 magic + 4 number + 4 previous number + 8 file bytes + 8 sequence + 8 seed
/// + 8 end of the segment before + 8 ref bytes + 8 check.
const HEAD_1_BYTES: usize = CHECK_AT + 8;
const _: () = assert!(HEAD_1_BYTES == 64, "the fields of a segment's head add up");
// In version 2 the check is last, too.
const EPOCH_AT: usize = CHECK_AT;
const STATE_AT: usize = EPOCH_AT + 8;
const BASE_AT: usize = STATE_AT + 8;
const TIME_AT: usize = BASE_AT + 4;
/// Bytes before the refs in version 2: 24 more = 8 epoch + 8 check of the state + 4 first segment + 4 time.
const HEAD_2_BYTES: usize = TIME_AT + 4 + 8;
const _: () = assert!(HEAD_2_BYTES == 88, "the fields of a segment's head add up");
const DURABLE_AT: usize = TIME_AT + 4;
/// Bytes before the refs where the segment was begun ahead, and at most: 8 more = 8 durable end.
pub(in crate::disk) const SEGMENT_HEAD_BYTES: usize = DURABLE_AT + 8 + 8;
const _: () = assert!(SEGMENT_HEAD_BYTES == 96, "the fields of a segment's head add up");

/// Returns the bytes of a segment's head that begins with this word, its refs apart; `None` if no head does.
pub(in crate::disk) const fn head_bytes(magic: u64) -> Option<usize> {
    match magic {
        MAGIC => Some(HEAD_1_BYTES),
        MAGIC_2 => Some(HEAD_2_BYTES),
        MAGIC_AHEAD => Some(SEGMENT_HEAD_BYTES),
        _ => None,
    }
}

/// Returns where the refs of a segment begin that starts with this word; `version` is the store's, if the word does not say.
pub(in crate::disk) const fn rows_at(magic: u64, version: u32) -> u64 {
    match head_bytes(magic) {
        Some(bytes) => bytes as u64,
        None if version < 2 => HEAD_1_BYTES as u64,
        None => HEAD_2_BYTES as u64,
    }
}

/// Whether a file that starts with these bytes, its first sector or all of it, may be a segment that was begun ahead, of whose head
/// nothing was written or any number of bytes: a write may end anywhere. The file has its length before that.
pub(super) fn may_be_begun_ahead(first: &[u8]) -> bool {
    let word = MAGIC_AHEAD.to_le_bytes();
    let same = first.iter().zip(&word).take_while(|(byte, of_word)| byte == of_word).count();
    let begun = if first.len() < SECTOR_BYTES { 0 } else { same };
    same == word.len() || first[begun..].iter().all(|&byte| byte == 0)
}

/// Returns the word as text if it is one that marks a kind of head, and none of today.
pub(super) fn later_kind(magic: u64) -> Option<String> {
    let bytes = magic.to_le_bytes();
    let is_later = bytes.starts_with(b"BCONESG") && bytes[7].is_ascii_digit() && !KINDS.contains(&magic);
    is_later.then(|| String::from_utf8_lossy(&bytes).into_owned())
}

/// What a segment starts with, the refs apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::disk) struct SegmentHead {
    pub(in crate::disk) number: u32,
    /// The segment before, 0 for none.
    pub(in crate::disk) previous: u32,
    /// The length of the file.
    pub(in crate::disk) bytes: u64,
    /// The number of the first frame.
    pub(in crate::disk) sequence: u64,
    /// The trailer of the seal before, 0 for none.
    pub(in crate::disk) seed: u64,
    /// The location of the end of the segment before.
    pub(in crate::disk) previous_end: u64,
    /// How far the log was durable when the segment began: up to the end of the segment before, unless it was begun ahead.
    pub(in crate::disk) durable_end: u64,
    /// Whether it was begun ahead: then the power may take the head, too.
    pub(in crate::disk) ahead: bool,
    /// Bytes of the refs that follow.
    pub(in crate::disk) ref_bytes: u64,
    /// The check over head and refs, from which the chain of frames goes on.
    pub(in crate::disk) check: u64,
    /// The version of the engine that the segment is written in: 1 or 2.
    pub(in crate::disk) version: u32,
    /// The state of the store when the segment began; that of a segment of version 1 is the first.
    pub(in crate::disk) state: StateRef,
    /// When the frame before was written, in seconds since 1970; 0 in version 1.
    pub(in crate::disk) time: u32,
}

impl SegmentHead {
    /// Returns where the first frame starts.
    pub(in crate::disk) const fn frames_at(&self) -> u64 {
        self.fixed_bytes() as u64 + self.ref_bytes
    }

    const fn magic(&self) -> u64 {
        match (self.version, self.ahead) {
            (..2, _) => MAGIC,
            (_, false) => MAGIC_2,
            (_, true) => MAGIC_AHEAD,
        }
    }

    /// Returns the bytes before the refs.
    pub(super) const fn fixed_bytes(&self) -> usize {
        match head_bytes(self.magic()) {
            Some(bytes) => bytes,
            None => HEAD_2_BYTES,
        }
    }

    /// Reads a head from the first bytes of a segment, which are enough; `None` if this is none. Its check is not checked.
    pub(in crate::disk) fn read(bytes: &[u8]) -> Option<Self> {
        let magic = word64(bytes, 0);
        let head_bytes = head_bytes(magic)?;
        let (two, ahead) = (magic != MAGIC, magic == MAGIC_AHEAD);
        let state =
            StateRef { epoch: word64(bytes, EPOCH_AT), check: word64(bytes, STATE_AT), base: word32(bytes, BASE_AT) };
        Some(Self {
            number: word32(bytes, NUMBER_AT),
            previous: word32(bytes, PREVIOUS_AT),
            bytes: word64(bytes, BYTES_AT),
            sequence: word64(bytes, SEQUENCE_AT),
            seed: word64(bytes, SEED_AT),
            previous_end: word64(bytes, PREVIOUS_END_AT),
            durable_end: word64(bytes, if ahead { DURABLE_AT } else { PREVIOUS_END_AT }),
            ahead,
            ref_bytes: word64(bytes, REFS_AT),
            check: word64(bytes, head_bytes - 8),
            version: if two { 2 } else { 1 },
            state: if two { state } else { StateRef::FIRST },
            time: if two { word32(bytes, TIME_AT) } else { 0 },
        })
    }

    /// Whether what it says of the segment before can be so: that ended before this one began, and no later was what was durable.
    pub(super) const fn follows(&self) -> bool {
        self.previous < self.number
            && self.previous_end >> 32 == self.previous as u64
            && self.durable_end <= self.previous_end
    }

    /// Completes the head and returns its bytes with those of the refs.
    pub(in crate::disk) fn encode(&mut self, rows: &[u8], salt: u64) -> Vec<u8> {
        debug_assert!(rows.len().is_multiple_of(8));
        self.ref_bytes = rows.len() as u64;
        let mut out = Vec::with_capacity(SEGMENT_HEAD_BYTES + rows.len());
        out.extend_from_slice(&self.magic().to_le_bytes());
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.previous.to_le_bytes());
        out.extend_from_slice(&self.bytes.to_le_bytes());
        out.extend_from_slice(&self.sequence.to_le_bytes());
        out.extend_from_slice(&self.seed.to_le_bytes());
        out.extend_from_slice(&self.previous_end.to_le_bytes());
        out.extend_from_slice(&self.ref_bytes.to_le_bytes());
        if self.version >= 2 {
            out.extend_from_slice(&self.state.epoch.to_le_bytes());
            out.extend_from_slice(&self.state.check.to_le_bytes());
            out.extend_from_slice(&self.state.base.to_le_bytes());
            out.extend_from_slice(&self.time.to_le_bytes());
        }
        if self.ahead {
            out.extend_from_slice(&self.durable_end.to_le_bytes());
        }
        self.check = XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot_with_seed(salt, &out), rows);
        out.extend_from_slice(&self.check.to_le_bytes());
        out.extend_from_slice(rows);
        out
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        disk::{
            files::{SEGMENTS, segment_name},
            handles::{Handles, SegmentAccess},
            segment::Segment,
        },
        storage::{OpenMode, RealStorage, Storage, write_all_at},
    };

    const SALT: u64 = 0x1234;

    #[test]
    fn a_head_may_be_torn_at_any_byte() {
        let whole = *b"BCONESG3\x07\0\0\0\x06\0\0\0";
        for written in 0..=whole.len() {
            let mut first = [0; 512];
            first[..written].copy_from_slice(&whole[..written]);
            assert!(may_be_begun_ahead(&first), "{written} bytes");
            // A shorter file was cut, but for one without a byte.
            assert_eq!(
                may_be_begun_ahead(&first[..written]),
                written == 0 || written >= 8,
                "a file of {written} bytes"
            );
            // What is behind the first word does not count, but where that is not whole.
            first[300] = 1;
            assert_eq!(may_be_begun_ahead(&first), written >= 8, "{written} bytes, and one behind them");
        }
        for other in [&b"BCONESG2"[..], b"BCONESEG", b"BCONESG4", b"BCONESG3"[1..].as_ref(), b"x"] {
            assert!(!may_be_begun_ahead(other), "{other:?}");
            let mut sector = [0; SECTOR_BYTES];
            sector[..other.len()].copy_from_slice(other);
            assert!(!may_be_begun_ahead(&sector), "{other:?} and zeroes");
        }
    }

    /// Writes a segment of 8 KiB with the number 7 in its name, whose head has these words at these places, and a check that
    /// is right; returns whether it is believed.
    fn believed(words: &[(usize, u64, usize)]) -> bool {
        let dir = tempfile::tempdir().unwrap();
        let storage: Arc<dyn Storage> = Arc::new(RealStorage::new(dir.path()));
        let mut bytes = vec![0; 8192];
        let right = [
            (0, MAGIC, 8),
            (NUMBER_AT, 7, 4),
            (PREVIOUS_AT, 6, 4),
            (BYTES_AT, 8192, 8),
            (SEQUENCE_AT, 40, 8),
            (SEED_AT, 99, 8),
            (PREVIOUS_END_AT, 6 << 32 | 4096, 8),
        ];
        for &(at, word, width) in right.iter().chain(words) {
            bytes[at..at + width].copy_from_slice(&word.to_le_bytes()[..width]);
        }
        let head_bytes = rows_at(word64(&bytes, 0), 1) as usize;
        let refs_end = word64(&bytes, REFS_AT).saturating_add(head_bytes as u64).min(bytes.len() as u64);
        let (refs, check_at) = (head_bytes..refs_end as usize, head_bytes - 8);
        let check =
            XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot_with_seed(SALT, &bytes[..check_at]), &bytes[refs]);
        bytes[check_at..head_bytes].copy_from_slice(&check.to_le_bytes());
        storage.create_dir(SEGMENTS).unwrap();
        let file = storage.open(&segment_name(7), OpenMode::CreateNew).unwrap();
        write_all_at(&*file, &bytes, 0).unwrap();
        let access =
            SegmentAccess { storage: &storage, salt: SALT, version: 1, bits: None, handles: &Handles::default() };
        Segment::open(&access, 7, false).unwrap().is_some_and(|segment| segment.head.is_some())
    }

    #[test]
    fn a_head_is_believed_whole_or_not_at_all() {
        assert!(believed(&[]));
        assert!(believed(&[(PREVIOUS_AT, 3, 4), (PREVIOUS_END_AT, 3 << 32, 8)]));
        for durable_end in [6 << 32 | 4096, 6 << 32 | 4088, 2 << 32 | 64] {
            assert!(believed(&[(0, MAGIC_AHEAD, 8), (DURABLE_AT, durable_end, 8)]), "{durable_end:x}");
        }
        for wrong in [
            &[(0, MAGIC + 1, 8)][..],
            &[(NUMBER_AT, 8, 4)],
            &[(BYTES_AT, 8184, 8)],
            &[(BYTES_AT, 8200, 8)],
            &[(REFS_AT, 4, 8)],
            &[(REFS_AT, 8192, 8)],
            &[(REFS_AT, !7, 8)],
            // It follows itself, or what was durable lies in another segment than the one before.
            &[(PREVIOUS_AT, 7, 4), (PREVIOUS_END_AT, 7 << 32, 8)],
            &[(PREVIOUS_END_AT, 5 << 32, 8)],
            &[(PREVIOUS_END_AT, 7 << 32, 8)],
            // More was durable than there was before.
            &[(0, MAGIC_AHEAD, 8), (DURABLE_AT, 6 << 32 | 4104, 8)],
            &[(0, MAGIC_AHEAD, 8), (DURABLE_AT, u64::MAX, 8)],
        ] {
            assert!(!believed(wrong), "{wrong:?}");
        }
    }
}
