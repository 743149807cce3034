//! Segments: the files that frames are appended to. `docs/formats/disk.md` section 3 lists the bytes.
//!
//! A segment appears whole: its head, with all refs as they were, is written under another name before the file gets its
//! own. Its length never changes afterwards, so a map of it is never cut off. The head is synced before that, too, unless
//! the segment is begun *ahead*: while what is before it is still being made durable.
//! Segments are opened when first touched and stay as long as the backend: mapped, or with their file open, or with its name
//! alone where there are many (`handles.rs`).

use std::{
    borrow::Cow,
    fmt, io,
    sync::{Arc, Mutex, OnceLock},
};

use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

use super::{
    files::{CHUNK_BYTES, segment_name},
    frame::{self, Frame, HEAD_BYTES, TRAILER_BYTES, word32, word64},
    handles::{CountedMap, Handles, SegmentAccess, Share},
    ids::SegmentIds,
    marks::LiveMarks,
    refs::HeadRefs,
    state::StateRef,
    verified::{BitMemory, Verified},
};
use crate::{
    storage::{OpenMode, Storage, StorageFile, read_exact_at, write_all_at},
    sync::lock,
};

/// So many segments there may be at a time, of the log and of cold ones: 2^24 segments of 32 MiB are 512 TiB. Collections
/// remove them, so numbers grow beyond that, up to [`COLD`].
pub(super) const SEGMENTS_MAX: u32 = 1 << 24;
/// The longest segment: offsets have 32 bits.
pub(super) const SEGMENT_BYTES_MAX: u64 = u32::MAX as u64 & !7;

/// What a power cut leaves whole.
const SECTOR_BYTES: usize = 512;

/// Cold segments have numbers from here on: they are beside the log, and never meet a number of it.
pub(super) const COLD: u32 = 1 << 30;
/// The first byte of a location in a cold segment.
pub(super) const COLD_LOCATION: u64 = (COLD as u64) << 32;

const MAGIC: u64 = u64::from_le_bytes(*b"BCONESEG");
/// Marks a segment of version 2: programs that know only version 1 end with an error there.
const MAGIC_2: u64 = u64::from_le_bytes(*b"BCONESG2");
/// Marks one of version 2 that was begun ahead: programs that take all before it for durable end with an error there.
const MAGIC_AHEAD: u64 = u64::from_le_bytes(*b"BCONESG3");
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
pub(super) const SEGMENT_HEAD_BYTES: usize = DURABLE_AT + 8 + 8;
const _: () = assert!(SEGMENT_HEAD_BYTES == 96, "the fields of a segment's head add up");

/// Returns the bytes of a segment's head that begins with this word, its refs apart; `None` if no head does.
const fn head_bytes(magic: u64) -> Option<usize> {
    match magic {
        MAGIC => Some(HEAD_1_BYTES),
        MAGIC_2 => Some(HEAD_2_BYTES),
        MAGIC_AHEAD => Some(SEGMENT_HEAD_BYTES),
        _ => None,
    }
}

/// Returns where the refs of a segment begin that starts with this word; `version` is the store's, if the word does not say.
pub(super) const fn rows_at(magic: u64, version: u32) -> u64 {
    match head_bytes(magic) {
        Some(bytes) => bytes as u64,
        None if version < 2 => HEAD_1_BYTES as u64,
        None => HEAD_2_BYTES as u64,
    }
}

/// What a segment starts with, the refs apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHead {
    pub(super) number: u32,
    /// The segment before, 0 for none.
    pub(super) previous: u32,
    /// The length of the file.
    pub(super) bytes: u64,
    /// The number of the first frame.
    pub(super) sequence: u64,
    /// The trailer of the seal before, 0 for none.
    pub(super) seed: u64,
    /// The location of the end of the segment before.
    pub(super) previous_end: u64,
    /// How far the log was durable when the segment began: up to the end of the segment before, unless it was begun ahead.
    pub(super) durable_end: u64,
    /// Whether it was begun ahead: then the power may take the head, too.
    pub(super) ahead: bool,
    /// Bytes of the refs that follow.
    pub(super) ref_bytes: u64,
    /// The check over head and refs, from which the chain of frames goes on.
    pub(super) check: u64,
    /// The version of the engine that the segment is written in: 1 or 2.
    pub(super) version: u32,
    /// The state of the store when the segment began; that of a segment of version 1 is the first.
    pub(super) state: StateRef,
    /// When the frame before was written, in seconds since 1970; 0 in version 1.
    pub(super) time: u32,
}

impl SegmentHead {
    /// Returns where the first frame starts.
    pub(super) const fn frames_at(&self) -> u64 {
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
    const fn fixed_bytes(&self) -> usize {
        match head_bytes(self.magic()) {
            Some(bytes) => bytes,
            None => HEAD_2_BYTES,
        }
    }

    /// Reads a head from the first bytes of a segment, which are enough; `None` if this is none. Its check is not checked.
    fn read(bytes: &[u8]) -> Option<Self> {
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
    const fn follows(&self) -> bool {
        self.previous < self.number
            && self.previous_end >> 32 == self.previous as u64
            && self.durable_end <= self.previous_end
    }

    /// Completes the head and returns its bytes with those of the refs.
    pub(super) fn encode(&mut self, rows: &[u8], salt: u64) -> Vec<u8> {
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
        self.check = xxh3_64_with_seed(rows, xxh3_64_with_seed(&out, salt));
        out.extend_from_slice(&self.check.to_le_bytes());
        out.extend_from_slice(rows);
        out
    }
}

/// One open segment.
pub(super) struct Segment {
    pub(super) number: u32,
    pub(super) name: String,
    storage: Arc<dyn Storage>,
    // `None` once the segment is sealed, if it is mapped or there are many: a store may have more segments than a process
    // may have files.
    handle: Mutex<Option<Arc<dyn StorageFile>>>,
    // The right to keep the file of a sealed segment open.
    kept_open: OnceLock<Share>,
    handles: Handles,
    map: Option<CountedMap>,
    /// The length of the file.
    pub(super) bytes: u64,
    /// `None` if it is damaged: records can still be read by their locations.
    pub(super) head: Option<SegmentHead>,
    /// Where its refs begin, as far as its first bytes tell.
    pub(super) rows_at: u64,
    /// Which of its records were found right. None are remembered where there is no map.
    pub(super) verified: Verified,
    /// Which records of a cold segment are live, where others are dead.
    pub(super) live: Option<LiveMarks>,
    /// What is known of the ids in it, once the segment is sealed and a lookup asked.
    pub(super) ids: OnceLock<SegmentIds>,
    /// Held by the thread that goes over the whole segment, so that one does it for all.
    pub(super) surveying: Mutex<()>,
}

impl Segment {
    /// Opens the segment, if it exists.
    pub(super) fn open(access: &SegmentAccess<'_>, number: u32, writable: bool) -> io::Result<Option<Self>> {
        let mode = if writable { OpenMode::Write } else { OpenMode::Read };
        match access.storage.open(&segment_name(number), mode) {
            Ok(file) => Self::with_file(access, file, number).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Wraps a file that is open already.
    pub(super) fn with_file(access: &SegmentAccess<'_>, file: Arc<dyn StorageFile>, number: u32) -> io::Result<Self> {
        let bytes = file.len()?.min(SEGMENT_BYTES_MAX);
        let map = if access.bits.is_some() { access.handles.map(&*file, bytes)? } else { None };
        let memory = access.bits.cloned().unwrap_or_else(|| Arc::new(BitMemory::new(0)));
        let verified = Verified::new(&memory, if map.is_some() { bytes } else { 0 });
        let mut segment = Self {
            number,
            name: segment_name(number),
            storage: access.storage.clone(),
            handle: Mutex::new(Some(file)),
            kept_open: OnceLock::new(),
            handles: access.handles.clone(),
            map,
            bytes,
            head: None,
            rows_at: 0,
            verified,
            live: None,
            ids: OnceLock::new(),
            surveying: Mutex::default(),
        };
        if number < COLD {
            segment.head = segment.read_head(access.salt)?.map(|(head, _)| head);
            let magic = if bytes < 8 { 0 } else { word64(&segment.bytes_at(0, 8)?, 0) };
            segment.rows_at = rows_at(magic, access.version);
        }
        Ok(segment)
    }

    /// Returns the open file.
    pub(super) fn file(&self) -> io::Result<Arc<dyn StorageFile>> {
        lock(&self.handle).clone().ok_or_else(|| io::Error::other("the segment is sealed"))
    }

    /// Closes the file of a sealed segment, unless it is read through that and there are not too many.
    pub(super) fn release(&self) {
        let mut handle = lock(&self.handle);
        if self.map.is_none() && self.kept_open.get().is_none() {
            self.handles.file().into_iter().for_each(|share| _ = self.kept_open.set(share));
        }
        if self.kept_open.get().is_none() {
            *handle = None;
        }
    }

    /// Lets go of the memory that shows the segment and its index, and of that which remembers what of it was found right, until it
    /// is read again.
    pub(super) fn forget_pages(&self) {
        if let Some(map) = &self.map {
            map.forget();
        }
        if let Some(ids) = self.ids.get() {
            ids.forget_pages();
        }
        if let Some(live) = &self.live {
            live.forget_pages();
        }
        self.verified.forget();
    }

    /// Reads from the file, whether it is mapped or not; once it was closed through the map, since a sealed segment has been
    /// written to its end, or else through the file opened anew.
    pub(super) fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let handle = lock(&self.handle).clone();
        match (handle, self.mapped()) {
            (Some(file), _) => read_exact_at(&*file, buffer, offset),
            (None, Some(map)) => {
                let bytes = map.get(offset as usize..).and_then(|bytes| bytes.get(..buffer.len()));
                buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
            (None, None) => read_exact_at(&*self.storage.open(&self.name, OpenMode::Read)?, buffer, offset),
        }
    }

    /// Writes to the file.
    pub(super) fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        write_all_at(&*self.file()?, bytes, offset)
    }

    /// Makes the file's bytes durable.
    pub(super) fn sync_data(&self) -> io::Result<()> {
        let handle = lock(&self.handle).clone();
        match handle {
            Some(file) => file.sync_data(),
            None => self.storage.open(&self.name, OpenMode::Write)?.sync_data(),
        }
    }

    /// Returns the whole file's bytes, where it is mapped.
    #[inline]
    pub(super) fn mapped(&self) -> Option<&[u8]> {
        self.map.as_ref().map(|map| &map[..])
    }

    /// Whether a record that begins at an offset is none that a collection found to be dead and left here.
    #[inline]
    pub(super) fn is_live(&self, offset: u64) -> io::Result<bool> {
        self.live.as_ref().map_or(Ok(true), |live| live.has(offset))
    }

    /// Returns bytes of the file, which must lie within its length.
    pub(super) fn bytes_at(&self, offset: u64, bytes: u64) -> io::Result<Cow<'_, [u8]>> {
        let end = offset.checked_add(bytes).filter(|&end| end <= self.bytes).ok_or(io::ErrorKind::UnexpectedEof)?;
        if let Some(map) = self.mapped() {
            return Ok(Cow::Borrowed(&map[offset as usize..end as usize]));
        }
        let mut buffer = vec![0; bytes as usize];
        self.read_exact_at(&mut buffer, offset)?;
        Ok(Cow::Owned(buffer))
    }

    /// Returns bytes of the file, fewer at its end, read into `buffer` though there may be a map: through one, what was
    /// never written needs room, which a full file system in memory has not.
    pub(super) fn unwritten<'a>(&self, offset: u64, bytes: u64, buffer: &'a mut Vec<u8>) -> io::Result<&'a [u8]> {
        let end = offset.saturating_add(bytes).min(self.bytes);
        let start = offset.min(end);
        buffer.resize((end - start) as usize, 0);
        self.read_exact_at(buffer, start)?;
        Ok(buffer)
    }

    /// Zeroes every stretch of the range that is not zero; returns whether there was one.
    pub(super) fn zero_shown(&self, from: u64, to: u64) -> io::Result<bool> {
        let (mut at, mut shown, mut buffer) = (from, false, Vec::new());
        while at < to.min(self.bytes) {
            let chunk = self.unwritten(at, CHUNK_BYTES.min(to - at), &mut buffer)?;
            let bytes = chunk.len();
            let first = chunk.iter().position(|&byte| byte != 0);
            if let Some(first) = first {
                let last = chunk.iter().rposition(|&byte| byte != 0).unwrap_or(first);
                self.write_all_at(&vec![0; last + 1 - first], at + first as u64)?;
                shown = true;
            }
            at += bytes as u64;
        }
        Ok(shown)
    }

    /// Returns bytes of the file, fewer at its end, read into `buffer` where there is no map.
    pub(super) fn window<'a>(&'a self, offset: u64, bytes: u64, buffer: &'a mut Vec<u8>) -> io::Result<&'a [u8]> {
        match self.mapped() {
            Some(map) => {
                let end = offset.saturating_add(bytes).min(self.bytes);
                Ok(&map[offset.min(end) as usize..end as usize])
            }
            None => self.unwritten(offset, bytes, buffer),
        }
    }

    /// Returns the head and the refs, unless they are damaged.
    pub(super) fn read_head(&self, salt: u64) -> io::Result<Option<(SegmentHead, HeadRefs)>> {
        if self.bytes < SEGMENT_HEAD_BYTES as u64 {
            return Ok(None);
        }
        let bytes = self.bytes_at(0, SEGMENT_HEAD_BYTES as u64)?;
        let Some(head) = SegmentHead::read(&bytes) else { return Ok(None) };
        let head_bytes = head.fixed_bytes();
        let fits = head.ref_bytes.is_multiple_of(8) && head.ref_bytes <= self.bytes - head_bytes as u64;
        if head.number != self.number || head.bytes != self.bytes || !fits || !head.follows() {
            return Ok(None);
        }
        let rows = self.bytes_at(head_bytes as u64, head.ref_bytes)?;
        if head.check != xxh3_64_with_seed(&rows, xxh3_64_with_seed(&bytes[..head_bytes - 8], salt)) {
            return Ok(None);
        }
        Ok(HeadRefs::decode(&rows).map(|refs| (head, refs)))
    }

    /// Whether the power may have taken the head of the segment, where that is not sound: it may not have been synced, or never have
    /// been written.
    pub(super) fn may_be_torn(&self) -> io::Result<bool> {
        let mut first = vec![0; (self.bytes as usize).min(SECTOR_BYTES)];
        self.read_exact_at(&mut first, 0)?;
        let is_blank = first.iter().all(|&byte| byte == 0);
        Ok(is_blank || first.len() >= 8 && word64(&first, 0) == MAGIC_AHEAD)
    }

    /// Returns the head of the frame at `offset`, if there is one and it fits the file.
    pub(super) fn frame(&self, offset: u64, salt: u64) -> io::Result<Option<(Frame, [u8; HEAD_BYTES])>> {
        if offset + frame::EMPTY_BYTES > self.bytes {
            return Ok(None);
        }
        let mut head = [0; HEAD_BYTES];
        match self.mapped() {
            Some(map) => head.copy_from_slice(&map[offset as usize..offset as usize + HEAD_BYTES]),
            None => self.read_exact_at(&mut head, offset)?,
        }
        let frame = Frame::decode(&head, self.location(offset), salt);
        Ok(frame.filter(|frame| frame.bytes() <= self.bytes - offset).map(|frame| (frame, head)))
    }

    /// Returns payload and trailer of the frame at `offset` if they are right.
    pub(super) fn payload(
        &self,
        offset: u64,
        frame: &Frame,
        head: &[u8; HEAD_BYTES],
    ) -> io::Result<Option<(Cow<'_, [u8]>, u64)>> {
        let at = offset + (HEAD_BYTES as u64) + u64::from(frame.record_bytes);
        let bytes = self.bytes_at(at, u64::from(frame.payload_bytes) + TRAILER_BYTES as u64)?;
        let split = frame.payload_bytes as usize;
        let trailer = word64(&bytes, split);
        if trailer != frame::trailer(head, &bytes[..split]) {
            return Ok(None);
        }
        let payload = match bytes {
            Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[..split]),
            Cow::Owned(mut bytes) => {
                bytes.truncate(split);
                Cow::Owned(bytes)
            }
        };
        Ok(Some((payload, trailer)))
    }

    /// Whether the records of the frame at `offset` are what its head says.
    pub(super) fn records_right(&self, offset: u64, frame: &Frame) -> io::Result<bool> {
        let (mut at, bytes) = (offset + HEAD_BYTES as u64, u64::from(frame.record_bytes));
        if self.map.is_some() || bytes <= CHUNK_BYTES {
            return Ok(frame::records_check(&self.bytes_at(at, bytes)?) == frame.records_check);
        }
        let (mut state, mut buffer) = (Xxh3::new(), Vec::new());
        let end = at + bytes;
        while at < end {
            let chunk = self.window(at, CHUNK_BYTES.min(end - at), &mut buffer)?;
            state.update(chunk);
            at += chunk.len() as u64;
        }
        Ok(state.digest() == frame.records_check)
    }

    /// Returns where its first frame starts, or where one would if it had no refs.
    pub(super) fn frames_at(&self) -> u64 {
        self.head.map_or(self.rows_at, |head| head.frames_at())
    }

    /// Whether the segment is beside the log.
    pub(super) const fn is_cold(&self) -> bool {
        self.number >= COLD
    }

    /// Returns the location of an offset in this segment.
    pub(super) fn location(&self, offset: u64) -> u64 {
        u64::from(self.number) << 32 | offset
    }

    /// Returns the bytes of memory that the segment takes, its map and its verified bits left out.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.ids.get().map_or(0, SegmentIds::memory_bytes) + self.live.as_ref().map_or(0, LiveMarks::memory_bytes)
    }
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Segment({}, {} bytes)", self.number, self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{disk::files::SEGMENTS, storage::RealStorage};

    const SALT: u64 = 0x1234;

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
        let check = xxh3_64_with_seed(&bytes[refs], xxh3_64_with_seed(&bytes[..check_at], SALT));
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
