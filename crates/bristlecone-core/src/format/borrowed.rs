//! A node's record, borrowed from where a backend has it: what fast lookups of several formats walk.

use crate::{Kind, Location, RECORD_HEADER_BYTES, RecordHeader};

/// The record of a node. No more of its header is read than lookups need.
#[derive(Clone, Copy)]
pub(super) struct Borrowed<'a> {
    record: &'a [u8],
    /// The format's bytes.
    pub(super) body: &'a [u8],
    own: Location,
}

impl<'a> Borrowed<'a> {
    /// Takes the bytes of a record that stands at `own`; `None` if it is not a node's.
    #[inline(always)]
    pub(super) fn node(record: &'a [u8], own: Location) -> Option<Self> {
        let header = RecordHeader::first(record)?;
        if !header.is_kind(Kind::Node) {
            return None;
        }
        let body = record.get(header.body_at() as usize..)?;
        Some(Self { record, body, own })
    }

    /// Returns how many child locations are recorded.
    #[cfg(feature = "git")]
    #[inline(always)]
    pub(super) fn children(&self) -> usize {
        RecordHeader::first(self.record).map_or(0, |header| header.children() as usize)
    }

    /// Returns where child `index` is.
    #[inline(always)]
    pub(super) fn child(&self, index: usize) -> Location {
        match self.record.get(RECORD_HEADER_BYTES + index * 8..).and_then(|rest| rest.first_chunk()) {
            Some(word) => Location::from_stored(u64::from_le_bytes(*word), self.own),
            None => Location::NONE,
        }
    }
}
