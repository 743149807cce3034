//! Segments: the files that frames are appended to. `docs/formats/disk.md` section 3 lists the bytes.
//!
//! A segment appears whole: its head, with all refs as they were, is written under another name before the file gets its
//! own. Its length never changes afterwards, so a map of it is never cut off. The head is synced before that, too, unless
//! the segment is begun *ahead*: while what is before it is still being made durable.
//! Segments are opened when first touched and stay as long as the backend: mapped, or with their file open, or with its name
//! alone where there are many (`handles.rs`).

mod frames;
mod head;

use std::{
    borrow::Cow,
    fmt, io,
    sync::{Arc, Mutex, OnceLock},
};

use twox_hash::XxHash3_64;

use self::head::{later_kind, may_be_begun_ahead};
pub(super) use self::{
    frames::PAGE_BYTES,
    head::{KINDS, SEGMENT_HEAD_BYTES, SegmentHead, head_bytes, rows_at},
};
use super::{
    files::{CHUNK_BYTES, segment_name},
    frame::{PAYLOAD_BYTES_MAX, word64},
    handles::{CountedMap, Handles, SegmentAccess, Share},
    ids::SegmentIds,
    marks::LiveMarks,
    refs::HeadRefs,
    verified::{BitMemory, Verified},
};
use crate::{
    Error,
    storage::{OpenMode, Storage, StorageFile, read_exact_at, write_all_at},
    sync::lock,
};

/// So many segments there may be at a time, of the log and of cold ones: 2^24 segments of 32 MiB are 512 TiB. Collections
/// remove them, so numbers grow beyond that, up to [`COLD`].
pub(super) const SEGMENTS_MAX: u32 = 1 << 24;
/// The longest segment: offsets have 32 bits.
pub(super) const SEGMENT_BYTES_MAX: u64 = u32::MAX as u64 & !7;
/// The smallest size of a full-grown segment.
pub(super) const SEGMENT_BYTES_MIN: u64 = 4096;

/// What a power cut leaves whole.
const SECTOR_BYTES: usize = 512;

/// Cold segments have numbers from here on: they are beside the log, and never meet a number of it.
pub(super) const COLD: u32 = 1 << 30;
/// No cold segment has this number or a higher one: locations in these would be taken for such as are not yet known.
pub(super) const COLD_END: u32 = 1 << 31;
/// The first byte of a location in a cold segment.
pub(super) const COLD_LOCATION: u64 = (COLD as u64) << 32;

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

    /// Reads from the file, whether it is mapped or not: what is behind the seal may never have been written. Through the map where
    /// the file was closed and its name is gone.
    pub(super) fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        match (self.readable()?, self.mapped()) {
            (Some(file), _) => read_exact_at(&*file, buffer, offset),
            (None, map) => {
                let bytes = map.and_then(|map| map.get(offset as usize..)).and_then(|bytes| bytes.get(..buffer.len()));
                buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
        }
    }

    /// Returns the file, open for reading also where it was closed since; `None` if its name is gone and there is a map.
    pub(super) fn readable(&self) -> io::Result<Option<Arc<dyn StorageFile>>> {
        let handle = lock(&self.handle).clone();
        match handle.map_or_else(|| self.storage.open(&self.name, OpenMode::Read), Ok) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.map.is_some() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes to the file.
    pub(super) fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        write_all_at(&*self.file()?, bytes, offset)
    }

    /// Returns the file, open for writing also where it was closed since.
    pub(super) fn writable(&self) -> io::Result<Arc<dyn StorageFile>> {
        let handle = lock(&self.handle).clone();
        handle.map_or_else(|| self.storage.open(&self.name, OpenMode::Write), Ok)
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

    /// As [`Segment::is_live`], for one record after another; see [`LiveMarks::has_next`](super::marks::LiveMarks::has_next).
    pub(super) fn is_next_live(&self, offset: u64, checked: &mut Option<u64>) -> io::Result<bool> {
        self.live.as_ref().map_or(Ok(true), |live| live.has_next(offset, checked))
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
        self.sound_head(&self.bytes_at(0, SEGMENT_HEAD_BYTES as u64)?, salt)
    }

    /// Returns the head that these first bytes are, and the refs, unless they are damaged.
    fn sound_head(&self, bytes: &[u8], salt: u64) -> io::Result<Option<(SegmentHead, HeadRefs)>> {
        Ok(self.right_head(bytes, salt)?.filter(|(head, _)| head.bytes == self.bytes))
    }

    /// As [`Segment::sound_head`], of a file that may have another length than its head says.
    fn right_head(&self, bytes: &[u8], salt: u64) -> io::Result<Option<(SegmentHead, HeadRefs)>> {
        let Some(head) = SegmentHead::read(bytes) else { return Ok(None) };
        let head_bytes = head.fixed_bytes();
        // Refs take a quarter of a segment at most.
        let bytes_max = (self.bytes - head_bytes as u64).min(u64::from(PAYLOAD_BYTES_MAX));
        let fits = head.ref_bytes.is_multiple_of(8) && head.ref_bytes <= bytes_max;
        if head.number != self.number || !fits || !head.follows() {
            return Ok(None);
        }
        let rows = self.bytes_at(head_bytes as u64, head.ref_bytes)?;
        if head.check
            != XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot_with_seed(salt, &bytes[..head_bytes - 8]), &rows)
        {
            return Ok(None);
        }
        Ok(HeadRefs::decode(&rows).map(|refs| (head, refs)))
    }

    /// Whether these bytes are the head of the segment with the refs, whole and right.
    pub(super) fn begins_with(&self, bytes: &[u8], salt: u64) -> bool {
        // Heads of version 1 are shorter.
        let mut first = [0; SEGMENT_HEAD_BYTES];
        let there = bytes.len().min(SEGMENT_HEAD_BYTES);
        first[..there].copy_from_slice(&bytes[..there]);
        let Some(head) = SegmentHead::read(&first) else { return false };
        let Some((fixed, rows)) = bytes.split_at_checked(head.fixed_bytes()) else { return false };
        head.number == self.number
            && head.bytes == self.bytes
            && head.follows()
            && rows.len().is_multiple_of(8)
            && head.ref_bytes == rows.len() as u64
            && head.check
                == XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot_with_seed(salt, &fixed[..fixed.len() - 8]), rows)
            && HeadRefs::decode(rows).is_some()
    }

    /// Returns how long the file was, if it was cut behind a head that is right.
    pub(super) fn bytes_before_cut(&self, salt: u64) -> io::Result<Option<u64>> {
        Ok(self.head_before_cut(salt)?.map(|(head, _)| head.bytes))
    }

    /// Returns the head and the refs, if they are right and the file was cut behind them.
    pub(super) fn head_before_cut(&self, salt: u64) -> io::Result<Option<(SegmentHead, HeadRefs)>> {
        if self.bytes < SEGMENT_HEAD_BYTES as u64 {
            return Ok(None);
        }
        let head = self.right_head(&self.bytes_at(0, SEGMENT_HEAD_BYTES as u64)?, salt)?;
        Ok(head.filter(|(head, _)| head.bytes > self.bytes && head.bytes <= SEGMENT_BYTES_MAX))
    }

    /// Whether the power may have taken the head of the segment, where that is not sound: it may not have been synced, or never have
    /// been written, or only its first bytes.
    pub(super) fn may_be_torn(&self) -> io::Result<bool> {
        let mut first = vec![0; (self.bytes as usize).min(SECTOR_BYTES)];
        self.read_exact_at(&mut first, 0)?;
        Ok(may_be_begun_ahead(&first))
    }

    /// Returns the error for a head that is not sound: [`Error::Incompatible`] if only later programs know its kind, or else
    /// [`Error::Corrupt`].
    pub(super) fn head_error(&self, salt: u64) -> Error {
        let file = self.storage.describe(&self.name);
        let damaged = |offset, reason: String| Error::Corrupt { file: file.clone(), offset, oid: None, reason };
        match self.bytes_before_cut(salt) {
            Err(error) => return Error::io(file, error),
            Ok(Some(bytes)) => {
                let reason = format!(
                    "the file has {} of {bytes} bytes: it was cut; a repair makes it as long as it was, with zeroes",
                    self.bytes
                );
                return damaged(self.bytes, reason);
            }
            Ok(None) => {}
        }
        match self.later_kind(salt) {
            Err(error) => Error::io(file, error),
            Ok(Some(kind)) => Error::Incompatible {
                file,
                found: format!("a segment of a later version, which begins with {kind}"),
                expected: "one that this program knows".to_owned(),
            },
            Ok(None) => damaged(0, "the segment's head is damaged".to_owned()),
        }
    }

    /// Returns what the head begins with, if only later programs know its kind. With another first word it is no head of today,
    /// or else that word alone is damaged.
    fn later_kind(&self, salt: u64) -> io::Result<Option<String>> {
        if self.bytes < SEGMENT_HEAD_BYTES as u64 {
            return Ok(None);
        }
        let mut bytes = self.bytes_at(0, SEGMENT_HEAD_BYTES as u64)?.into_owned();
        let Some(kind) = later_kind(word64(&bytes, 0)) else { return Ok(None) };
        for known in KINDS {
            bytes[..8].copy_from_slice(&known.to_le_bytes());
            if self.sound_head(&bytes, salt)?.is_some() {
                return Ok(None);
            }
        }
        Ok(Some(kind))
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
