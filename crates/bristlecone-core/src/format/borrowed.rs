//! A node's record, borrowed from where a backend has it: what fast lookups of several formats walk.

use crate::{Kind, Location, RECORD_HEADER_BYTES};

/// The record of a node, of whose header no more is read than lookups need.
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
        let header: &[u8; 16] = record.first_chunk()?;
        if header[12] != Kind::Node as u8 {
            return None;
        }
        let children = u32::from_le_bytes([header[8], header[9], header[10], header[11]]) as usize;
        let body = record.get(RECORD_HEADER_BYTES + (children + usize::from(header[14])) * 8..)?;
        Some(Self { record, body, own })
    }

    /// Returns how many child locations are recorded.
    #[cfg(feature = "git")]
    #[inline(always)]
    pub(super) fn children(&self) -> usize {
        self.record.get(8..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u32::from_le_bytes(*word) as usize)
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
