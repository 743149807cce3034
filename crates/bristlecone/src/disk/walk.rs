//! Walking over the frames of a segment, whatever state they are in.

use std::{io, sync::Arc};

use super::{
    files::CHUNK_BYTES,
    frame::{Frame, FrameKind, HEAD_BYTES, MAGIC, word32},
    segment::Segment,
};
use crate::storage::StorageFile;

/// What a walk meets.
#[derive(Clone, Copy, Debug)]
pub(super) enum FrameStep {
    /// The head of a frame that is one for its place; records and payload are not checked yet.
    Frame { offset: u64, frame: Frame, head: [u8; HEAD_BYTES] },
    /// Bytes that are no frame, though one follows at `end`.
    Gap { offset: u64, end: u64 },
}

/// Walks over the frames between two offsets. It ends behind the seal, or where no frame follows.
#[derive(Debug)]
pub(super) struct FrameWalk<'a> {
    segment: &'a Segment,
    /// Its file, once that is read.
    opened: Option<Arc<dyn StorageFile>>,
    salt: u64,
    /// Where the walk is: at its end, behind the last frame.
    pub(super) at: u64,
    to: u64,
    /// Whether the last frame was the seal.
    pub(super) sealed: bool,
}

impl<'a> FrameWalk<'a> {
    /// Starts a walk at the offset `from`.
    pub(super) const fn new(segment: &'a Segment, salt: u64, from: u64, to: u64) -> Self {
        Self { segment, opened: None, salt, at: from, to, sealed: false }
    }

    /// Returns the next step; `None` at the end.
    pub(super) fn step(&mut self) -> io::Result<Option<FrameStep>> {
        let offset = self.at;
        if self.sealed || offset >= self.to {
            return Ok(None);
        }
        // Behind the last frame nothing may have been written, also where that should be the seal.
        if let Some((frame, head)) = self.segment.unwritten_frame(offset, self.salt, &mut self.opened)? {
            self.at += frame.bytes();
            self.sealed = frame.kind == FrameKind::Seal;
            return Ok(Some(FrameStep::Frame { offset, frame, head }));
        }
        match next_frame(self.segment, offset + 8, self.to, self.salt)? {
            Some((end, _)) => {
                self.at = end;
                Ok(Some(FrameStep::Gap { offset, end }))
            }
            None => Ok(None),
        }
    }
}

/// Returns the first place from `from` on, before `to`, where the head of a frame is.
pub(super) fn next_frame(segment: &Segment, from: u64, to: u64, salt: u64) -> io::Result<Option<(u64, Frame)>> {
    find_frame(segment, from, to, salt, |_| true)
}

/// As [`next_frame`], where the head says what is `wanted`. Reads each byte once, however many heads there are.
pub(super) fn find_frame(
    segment: &Segment,
    from: u64,
    to: u64,
    salt: u64,
    wanted: impl Fn(&Frame) -> bool,
) -> io::Result<Option<(u64, Frame)>> {
    let (mut at, mut buffer, mut opened) = (from.next_multiple_of(8), Vec::new(), None);
    while at < to {
        let chunk = segment.unwritten(at, CHUNK_BYTES.min(to - at), &mut buffer)?;
        let bytes = chunk.len() as u64;
        for (index, word) in chunk.chunks_exact(8).enumerate() {
            if word32(word, 0) != MAGIC {
                continue;
            }
            let offset = at + index as u64 * 8;
            if let Some((frame, _)) = segment.unwritten_frame(offset, salt, &mut opened)?
                && wanted(&frame)
            {
                return Ok(Some((offset, frame)));
            }
        }
        at += bytes;
    }
    Ok(None)
}
