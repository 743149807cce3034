//! The frames of a segment, each by its offset.

use std::{borrow::Cow, hash::Hasher, io, sync::Arc};

use twox_hash::XxHash3_64;

use super::Segment;
use crate::{
    disk::{
        files::CHUNK_BYTES,
        frame::{self, Frame, HEAD_BYTES, TRAILER_BYTES, word64},
    },
    storage::{StorageFile, read_exact_at},
};

/// What the system maps at least at a time.
pub(in crate::disk) const PAGE_BYTES: u64 = 4096;

/// Whether bytes at an offset are in the page of the byte before, which was written.
const fn is_shown(offset: u64, bytes: u64) -> bool {
    !offset.is_multiple_of(PAGE_BYTES) && offset % PAGE_BYTES + bytes <= PAGE_BYTES
}

impl Segment {
    /// Returns the head of the frame at `offset`, if there is one and it fits the file.
    pub(in crate::disk) fn frame(&self, offset: u64, salt: u64) -> io::Result<Option<(Frame, [u8; HEAD_BYTES])>> {
        if offset + frame::EMPTY_BYTES > self.bytes {
            return Ok(None);
        }
        let mut head = [0; HEAD_BYTES];
        match self.mapped() {
            Some(map) => head.copy_from_slice(&map[offset as usize..offset as usize + HEAD_BYTES]),
            None => self.read_exact_at(&mut head, offset)?,
        }
        Ok(self.decoded_frame(&head, offset, salt).map(|frame| (frame, head)))
    }

    /// As [`Segment::frame`], where it may be that nothing was written but what shows at the offset or before it: read by a call
    /// though there may be a map. `opened` keeps the file that is opened for it.
    pub(in crate::disk) fn unwritten_frame(
        &self,
        offset: u64,
        salt: u64,
        opened: &mut Option<Arc<dyn StorageFile>>,
    ) -> io::Result<Option<(Frame, [u8; HEAD_BYTES])>> {
        if offset + frame::EMPTY_BYTES > self.bytes {
            return Ok(None);
        }
        if is_shown(offset, HEAD_BYTES as u64) {
            return self.frame(offset, salt);
        }
        let mut head = [0; HEAD_BYTES];
        if opened.is_none() {
            *opened = self.readable()?;
        }
        match opened {
            Some(file) => read_exact_at(&**file, &mut head, offset)?,
            None => self.read_exact_at(&mut head, offset)?,
        }
        Ok(self.decoded_frame(&head, offset, salt).map(|frame| (frame, head)))
    }

    fn decoded_frame(&self, head: &[u8; HEAD_BYTES], offset: u64, salt: u64) -> Option<Frame> {
        Frame::decode(head, self.location(offset), salt).filter(|frame| frame.bytes() <= self.bytes - offset)
    }

    /// Whether a frame behind one that is there may be looked at through a map, if there is one: its trailer, which is written last, is
    /// read by a call before, unless all of it is in a page that shows something.
    pub(in crate::disk) fn may_be_shown(
        &self,
        offset: u64,
        frame: &Frame,
        head: &[u8; HEAD_BYTES],
    ) -> io::Result<bool> {
        if self.mapped().is_none() || is_shown(offset, frame.bytes()) {
            return Ok(true);
        }
        let (split, mut buffer) = (frame.payload_bytes as usize, Vec::new());
        let at = offset + HEAD_BYTES as u64 + u64::from(frame.record_bytes);
        let rest = self.unwritten(at, (split + TRAILER_BYTES) as u64, &mut buffer)?;
        Ok(word64(rest, split) == frame::trailer(head, &rest[..split]))
    }

    /// Returns payload and trailer of the frame at `offset` if they are right.
    pub(in crate::disk) fn payload(
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
    pub(in crate::disk) fn records_right(&self, offset: u64, frame: &Frame) -> io::Result<bool> {
        let found = self.records_check(offset + HEAD_BYTES as u64, u64::from(frame.record_bytes))?;
        Ok(found == frame.records_check)
    }

    /// Returns the checksum over so many bytes of records from an offset on.
    pub(in crate::disk) fn records_check(&self, from: u64, bytes: u64) -> io::Result<u64> {
        if self.map.is_some() || bytes <= CHUNK_BYTES {
            return Ok(frame::records_check(&self.bytes_at(from, bytes)?));
        }
        let (mut state, mut buffer) = (XxHash3_64::new(), Vec::new());
        let (mut at, end) = (from, from + bytes);
        while at < end {
            let chunk = self.window(at, CHUNK_BYTES.min(end - at), &mut buffer)?;
            state.write(chunk);
            at += chunk.len() as u64;
        }
        Ok(state.finish())
    }
}
