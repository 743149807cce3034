//! What is kept since it is young: what was written without a ref or lost its ref within the grace, and what was appended since
//! the oldest snapshot was taken.

use bristlecone_core::{Location, ObjRef};

use super::Collection;
use crate::{
    Error,
    backend::RefTarget,
    disk::{
        frame::RefRow,
        refs::Refs,
        roll::now_seconds,
        segment::{COLD, Segment},
    },
};

/// An object that is kept since it is young.
pub(super) struct Young {
    pub(super) object: ObjRef,
    /// When a ref left it, or it was written without one, if the grace keeps it.
    pub(super) time: Option<u32>,
    /// Where it was appended, if a snapshot of before keeps it.
    pub(super) appended: Option<u64>,
}

impl Collection<'_, '_> {
    /// Returns the objects of emptied segments that were appended from a location on, those of frames that are younger than the grace
    /// and moved no ref to an object, and what refs held before such frames moved or removed them.
    pub(super) fn frames_kept(&self, from: Option<u64>, grace_seconds: u32) -> Result<Vec<Young>, Error> {
        let mut kept = Vec::new();
        let youngest = now_seconds().saturating_sub(grace_seconds);
        // What is older than the upgrade counts as written then.
        let mut upgraded = None;
        let numbers = self.view.table.numbers();
        for &number in &*numbers {
            let head = self.view.segment(number)?.and_then(|segment| segment.head);
            upgraded = upgraded.or(head.filter(|head| head.version >= 2).map(|head| head.time));
        }
        for (index, &number) in numbers.iter().enumerate() {
            let Some(segment) = self.view.segment(number)? else { continue };
            // What is in the first that stays, before the collection began, moves refs alone.
            if number > self.cut || (grace_seconds == 0 && from.is_none_or(|from| from >> 32 > u64::from(number))) {
                continue;
            }
            let two = segment.head.is_some_and(|head| head.version >= 2);
            let to = if number == self.cut { self.followed & 0xffff_ffff } else { self.view.frames_end(segment)? };
            let mut refs = match self.ended(&numbers, index)? {
                ended if grace_seconds > 0 && ended >= youngest => Some(self.refs_at_head(segment)?),
                _ => None,
            };
            self.each_frame(segment, segment.frames_at(), to, &mut |offset, frame, rows| {
                let time = if two { frame.time() } else { upgraded.unwrap_or(u32::MAX) };
                let young = grace_seconds > 0 && time >= youngest;
                let location = segment.location(offset);
                let after = from.is_some_and(|from| location >= from);
                let unnamed = young && !rows.iter().any(|(_, to)| matches!(to, Some(RefTarget::Object(_))));
                if after || unnamed {
                    let (time, appended) = (unnamed.then_some(time), after.then_some(location));
                    self.each_record(segment, offset, frame, &mut |object| {
                        let young = Young { object, time, appended };
                        kept.extend(self.is_undecided(&young).then_some(young));
                    })?;
                }
                let Some(refs) = &mut refs else { return Ok(()) };
                for object in left_by(refs, rows, young)? {
                    let young = Young { object, time: Some(time), appended: appended_after(object.at, from) };
                    kept.extend(self.is_undecided(&young).then_some(young));
                }
                Ok(())
            })?;
        }
        Ok(kept)
    }

    /// Returns when the last frame of a segment was written, or later; a segment of version 1 does not say so.
    fn ended(&self, numbers: &[u32], index: usize) -> Result<u32, Error> {
        let next = numbers.get(index + 1).map_or(Ok(None), |&next| self.view.segment(next))?;
        let head = next.and_then(|next| next.head).filter(|head| head.version >= 2);
        Ok(head.map_or(u32::MAX, |head| head.time))
    }

    /// Returns what refs held where a segment begins.
    fn refs_at_head(&self, segment: &Segment) -> Result<Refs, Error> {
        let salt = self.view.header.salt;
        let head = segment.read_head(salt).map_err(|error| self.view.io(&segment.name, error))?;
        let (_, refs) = head.ok_or_else(|| segment.head_error(salt))?;
        self.view.refs_of(refs)
    }

    /// Whether what is young is not marked, and no rule cuts it: that has no grace.
    pub(super) fn is_undecided(&self, young: &Young) -> bool {
        let dropped = || young.appended.is_none() && self.commits.is_some_and(|cut| cut.drops(&young.object.oid));
        !self.live.is_marked(young.object.at.0) && !dropped()
    }
}

/// Makes moves of refs, and returns the objects that these refs held before, if that is `wanted`.
fn left_by(refs: &mut Refs, rows: Vec<RefRow>, wanted: bool) -> Result<Vec<ObjRef>, Error> {
    let mut left = Vec::new();
    for (name, to) in rows {
        if !wanted {
            refs.put(&name, to);
        } else if let Some(RefTarget::Object(object)) = refs.replace(&name, to)? {
            left.push(object);
        }
    }
    Ok(left)
}

/// Returns where an object is, if that is in the log, at a location or behind it.
fn appended_after(at: Location, from: Option<u64>) -> Option<u64> {
    let in_log = at.is_some() && at.pending_offset().is_none() && at.0 >> 32 < u64::from(COLD);
    from.filter(|&from| in_log && at.0 >= from).map(|_| at.0)
}
