//! Where recovery begins: mostly at the last segment; if that was begun ahead and may not be durable, further back.

use std::sync::Arc;

use crate::{
    Error,
    disk::{
        files::segment_name,
        log::{DiskState, Tail},
        refs::HeadRefs,
        segment::{Segment, SegmentHead},
    },
};

/// Where recovery begins.
pub(in crate::disk) struct RecoveryStart {
    pub(in crate::disk) segment: Arc<Segment>,
    pub(in crate::disk) head: SegmentHead,
    pub(in crate::disk) refs: HeadRefs,
    /// A location up to which everything is known to be durable.
    pub(in crate::disk) known: u64,
    /// The last location that something says was durable. It may be beyond the end of the log, which is damaged then.
    pub(in crate::disk) claimed: u64,
}

impl DiskState {
    /// Returns where recovery begins: in the last segment whose head is sound if all before that is durable, or else in the one in
    /// which what was durable ends.
    pub(in crate::disk) fn find_start(&self) -> Result<RecoveryStart, Error> {
        let numbers = self.listed_segments()?;
        let last = self.last_sound(&numbers)?;
        let Some((number, head, claimed)) = last else {
            let number = numbers.last().copied().unwrap_or(1);
            let reason = if numbers.is_empty() { "the store has no segment" } else { "the segment's head is damaged" };
            return Err(self.corrupt(&segment_name(number), 0, reason));
        };
        let durable = if claimed >= head.previous_end { number } else { (claimed >> 32) as u32 };
        let mut between = numbers.iter().copied().filter(|between| (durable..=number).contains(between));
        // A collection may be removing the first ones.
        let mut next = || -> Result<Option<Segment>, Error> {
            for number in between.by_ref() {
                if let Some(segment) = self.segment_file(number)? {
                    return Ok(Some(segment));
                }
            }
            Ok(None)
        };
        let vanished = || self.corrupt(&segment_name(number), 0, "the segment has vanished");
        let mut segment = next()?.ok_or_else(vanished)?;
        if segment.number == durable
            && let Some(second) = next()?.filter(|second| second.head.is_some_and(|head| head.previous_end == claimed))
        {
            // The first was durable to its end, and a collection may have removed what it names.
            segment = second;
        }
        let sound = segment.read_head(self.header.salt).map_err(|error| self.io(&segment.name, error))?;
        let (begin, refs) = sound.ok_or_else(|| segment.head_error(self.header.salt))?;
        self.tables.note(&numbers[..numbers.partition_point(|&number| number <= begin.number)]);
        let start = Tail::start(&begin).location();
        // The head itself was durable if all before it was before it had its name.
        let known = if begin.ahead { claimed.min(start) } else { start };
        let table = self.table();
        let kept = table.keep(Arc::new(segment)).cloned();
        let segment = kept.ok_or_else(|| self.corrupt(&segment_name(begin.number), 0, "too many segments"))?;
        Ok(RecoveryStart { segment, head: begin, refs, known, claimed })
    }

    /// Returns the last segment whose head is sound, with the last location of which it or a frame in it says that it was durable.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the head of a later one is damaged, and not by a power cut; [`Error::Incompatible`] if it is of a kind
    /// that only later programs know.
    fn last_sound(&self, numbers: &[u32]) -> Result<Option<(u32, SegmentHead, u64)>, Error> {
        let mut torn = None;
        for &number in numbers.iter().rev() {
            let Some(segment) = self.segment_file(number)? else { continue };
            let Some(head) = segment.head else {
                let wrong = segment.head_error(self.header.salt);
                if !segment.may_be_torn().map_err(|error| self.io(&segment.name, error))? {
                    return Err(wrong);
                }
                torn.get_or_insert(wrong);
                continue;
            };
            // What follows on a segment of version 1 is durable before it has its name. The header does not tell: an upgrade may
            // have been cut short before that says what version the log is.
            if let Some(torn) = torn.filter(|_| head.version < 2) {
                return Err(torn);
            }
            let claimed = self.last_durable(&segment, Tail::start(&head), head.durable_end)?;
            return Ok(Some((number, head, claimed)));
        }
        Ok(None)
    }

    /// Hops over the frames and returns the last location that one of them says is durable.
    fn last_durable(&self, segment: &Segment, mut tail: Tail, mut durable: u64) -> Result<u64, Error> {
        while let Some(found) = tail.find(segment, self.header.salt, false).map_err(|e| self.io(&segment.name, e))? {
            durable = durable.max(found.frame.durable_end);
            tail.pass(&found);
        }
        Ok(durable)
    }
}
