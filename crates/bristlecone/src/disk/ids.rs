//! What is known of the ids in a segment.

use std::{ops::Range, sync::OnceLock};

use super::sealed::SealedIndex;

/// What is known of the ids in a sealed segment.
#[derive(Debug)]
pub(super) struct SegmentIds {
    /// From a file, else made from the segment.
    pub(super) index: SealedIndex,
    /// Whether it was made of this very segment while that was whole: then it says what is absent, and what is lost.
    pub(super) bound: bool,
    /// What a survey of the segment showed, once a lookup needed one.
    pub(super) surveyed: OnceLock<Surveyed>,
}

#[derive(Debug)]
pub(super) struct Surveyed {
    /// What serves in place of an index that is wrong.
    pub(super) instead: Option<SealedIndex>,
    pub(super) lost: Vec<LostRange>,
}

impl SegmentIds {
    /// Returns the bytes of memory that this takes, maps left out.
    pub(super) fn memory_bytes(&self) -> u64 {
        let instead = self.surveyed.get().and_then(|surveyed| surveyed.instead.as_ref());
        self.index.memory_bytes() + instead.map_or(0, SealedIndex::memory_bytes)
    }

    /// Lets go of the memory that shows the index's file, until it is read again.
    pub(super) fn forget_pages(&self) {
        self.index.forget_pages();
    }

    /// Returns the bytes of indexes that are mapped.
    pub(super) fn mapped_bytes(&self) -> u64 {
        self.index.mapped_bytes()
    }
}

/// A stretch of a segment in which records may have been that cannot be read any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LostRange {
    pub(super) range: Range<u64>,
    /// The offsets of the records that were there; `None` if that cannot be told.
    pub(super) records: Option<Vec<u64>>,
}
