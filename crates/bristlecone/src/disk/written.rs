//! Where the records of a segment are that this process wrote from its head on: its index is made of that once the segment is
//! sealed, and the segment need not be read for it.

use super::{append::AppendedFrame, frame::HEAD_BYTES, log::Tail, sealed::IndexEntry, sealed::Tie};

/// Of more records than that nothing is kept: the index is made from the segment.
const ENTRIES_MAX: usize = 1 << 18;

/// The records of the segment in which the log ends, as long as all are of this process.
#[derive(Debug, Default)]
pub(super) struct WrittenRecords {
    // How far the log is known; 0: nothing is kept until the next segment begins.
    upto: u64,
    entries: Vec<IndexEntry>,
}

impl WrittenRecords {
    /// Starts with a new segment, if an index will be made of it.
    pub(super) fn begin(&mut self, start: &Tail, kept: bool) {
        *self = Self { upto: if kept { start.location() } else { 0 }, entries: Vec::new() };
    }

    /// Takes in a frame of a segment. One that does not follow ends it: another process has appended.
    pub(super) fn pass(&mut self, segment: u32, frame: &AppendedFrame<'_>) {
        if !self.pass_small(segment, frame.at, frame.end) {
            return;
        }
        let records_at = frame.at as u32 + HEAD_BYTES as u32;
        self.entries.extend(frame.batch.prefixes().map(|(prefix, offset)| (prefix, records_at + offset)));
        if self.entries.len() > ENTRIES_MAX {
            *self = Self::default();
        }
    }

    /// Goes on behind a frame without records; returns whether it follows.
    pub(super) fn pass_small(&mut self, segment: u32, from: u64, to: u64) -> bool {
        let location = |offset: u64| u64::from(segment) << 32 | offset;
        if self.upto == 0 || self.upto != location(from) {
            *self = Self::default();
            return false;
        }
        self.upto = location(to);
        true
    }

    /// Returns all records of the segment that ends in this seal, if they are known.
    pub(super) fn take(&mut self, sealed: &Tail) -> Option<WrittenSegment> {
        let Self { upto, entries } = std::mem::take(self);
        let tie = Tie { word: sealed.chain, end: sealed.end };
        (upto != 0 && upto == sealed.location()).then_some(WrittenSegment { tie, entries })
    }
}

/// The records of a sealed segment, and what its index is bound to.
#[derive(Debug)]
pub(super) struct WrittenSegment {
    pub(super) tie: Tie,
    pub(super) entries: Vec<IndexEntry>,
}
