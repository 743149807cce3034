//! Mending the head of a segment of which a byte is damaged. Its check tells when it is right again, and the first frame repeats
//! that check.

use std::{io, sync::Arc};

use super::{PAYLOAD_MENDED_MAX, mend_byte};
use crate::{
    Error,
    disk::{
        StoreHeader,
        frame::{Frame, word64},
        segment::{KINDS, SEGMENT_HEAD_BYTES, Segment, SegmentHead, head_bytes},
        walk::next_frame,
    },
    storage::Storage,
};

/// No head is shorter, so no frame begins before.
const HEAD_BYTES_MIN: u64 = 64;

impl StoreHeader {
    /// Writes the heads of segments of which one byte is damaged, durably; returns how many heads these are. The caller holds the
    /// store's lock.
    pub(in crate::disk) fn mend_heads(&self, storage: &Arc<dyn Storage>) -> Result<u64, Error> {
        let mut mended = 0;
        self.each_segment(storage, true, &mut |segment| {
            if segment.head.is_none()
                && let Some(head) = mended_head(segment, self.salt)?
            {
                segment.write_all_at(&head, 0)?;
                segment.file()?.sync_data()?;
                mended += 1;
            }
            Ok(false)
        })?;
        Ok(mended)
    }
}

/// Returns the first frame of a segment, if that begins soon. Under another header than that of its store there is none.
pub(in crate::disk) fn first_frame(segment: &Segment, salt: u64) -> io::Result<Option<(u64, Frame)>> {
    next_frame(segment, HEAD_BYTES_MIN, segment.bytes.min(PAYLOAD_MENDED_MAX as u64), salt)
}

/// Returns the head of a segment and the refs as they were, if no more than a byte of them is damaged, or the word with which the head
/// begins, or its check.
fn mended_head(segment: &Segment, salt: u64) -> io::Result<Option<Vec<u8>>> {
    let most = segment.bytes.min(PAYLOAD_MENDED_MAX as u64);
    if most < SEGMENT_HEAD_BYTES as u64 {
        return Ok(None);
    }
    let first = first_frame(segment, salt)?;
    let found = segment.bytes_at(0, most)?;
    for kind in KINDS {
        let mut bytes = found.to_vec();
        bytes[..8].copy_from_slice(&kind.to_le_bytes());
        let (Some(fixed), Some(head)) = (head_bytes(kind), SegmentHead::read(&bytes)) else { continue };
        let end = first.map(|(at, _)| at).or_else(|| head.ref_bytes.checked_add(fixed as u64));
        let Some(end) = end.filter(|end| (fixed as u64..=most).contains(end)) else { continue };
        bytes.truncate(end as usize);
        if let Some((_, frame)) = first {
            bytes[fixed - 8..fixed].copy_from_slice(&frame.previous.to_le_bytes());
        }
        let is_right = |bytes: &[u8]| segment.begins_with(bytes, salt);
        // Where it began with another word, that is what is damaged.
        let is_mended = if word64(&found, 0) == kind { mend_byte(&mut bytes, is_right) } else { is_right(&bytes) };
        if is_mended {
            return Ok(Some(bytes));
        }
    }
    Ok(None)
}
