//! What is kept since it is young: what was written without a ref or lost its ref within the grace, and what was appended since
//! the oldest snapshot was taken.

use bristlecone_core::ObjRef;

use super::{Collection, Held, LiveSet, front::refs_at_head};
use crate::{
    Error,
    backend::RefTarget,
    disk::{frame::RefRow, refs::Refs},
    oid_map::OidSet,
};

/// An object that is kept since it is young.
pub(super) struct Young {
    pub(super) object: ObjRef,
    /// When a ref left it, or it was written without one, if the grace keeps it.
    pub(super) time: Option<u32>,
    /// Where it was appended, if a snapshot of before keeps it.
    pub(super) appended: Option<u64>,
}

/// Which objects of emptied segments are young.
struct YoungScan {
    /// Where the first of them was appended that a snapshot of before keeps.
    from: Option<u64>,
    /// The time of the oldest that the grace keeps; where there is none, those are meant that a snapshot keeps.
    youngest: Option<u32>,
    /// When frames of version 1 count as written.
    upgraded: u32,
}

/// What the marking of young objects has found out.
#[derive(Default)]
struct YoungMarking {
    /// Those of cold segments that stay.
    seen: OidSet,
    /// What only the commits lead to that a rule cuts, once that is asked.
    cut: Option<LiveSet>,
}

impl Collection<'_, '_> {
    /// Marks what is young and not marked, and keeps in mind why it stays: what is `known` to be young, and of emptied segments what
    /// the grace keeps from the time `youngest` on; or without that, what was appended `from` a location on.
    pub(super) fn mark_young(
        &mut self,
        mut known: Vec<Young>,
        from: Option<u64>,
        youngest: Option<u32>,
    ) -> Result<(), Error> {
        let numbers = self.view.table.numbers();
        let mut scan = YoungScan { from, youngest, upgraded: u32::MAX };
        for &number in &*numbers {
            let head = self.view.segment(number)?.and_then(|segment| segment.head);
            if let Some(head) = head.filter(|head| head.version >= 2) {
                scan.upgraded = head.time;
                break;
            }
        }
        let mut marking = YoungMarking::default();
        // The last first: it stays for longest, and by it is kept what is below, for as long. What names others comes after them, so
        // of what hangs together only the last is kept by name. What is known was there before any segment that is looked at.
        for index in (0..numbers.len()).rev() {
            let young = self.young_of(&numbers, index, &scan)?;
            self.mark_last_first(young, &mut marking)?;
        }
        known.sort_by_key(|young| young.time);
        self.mark_last_first(known, &mut marking)
    }

    fn mark_last_first(&mut self, young: Vec<Young>, marking: &mut YoungMarking) -> Result<(), Error> {
        for young in young.into_iter().rev() {
            if !self.is_undecided(&young) {
                continue;
            }
            let oid = young.object.oid;
            let Some(found) = self.find(&young.object)? else { continue };
            let at = found.location();
            if self.live.is_marked(at.0) || self.stays(at) && !marking.seen.insert(oid) {
                continue;
            }
            if young.time.is_some() {
                if marking.cut.is_none() {
                    marking.cut = Some(self.reached_by_cut()?);
                }
                if marking.cut.as_ref().is_some_and(|cut| cut.is_marked(at.0)) {
                    continue;
                }
            }
            self.graced.extend(young.time.map(|time| (time, oid)));
            self.held.extend(young.appended.map(|appended| Held { appended, oid }));
            self.kept.push(ObjRef::new(oid, at));
            self.mark(vec![ObjRef::new(oid, at)])?;
        }
        Ok(())
    }

    /// Returns the young objects of a segment, if that is emptied, in the order of its frames: those of frames that are younger than
    /// the grace and moved no ref to an object, and what refs held before such frames moved or removed them; or those that were
    /// appended from a location on.
    fn young_of(&self, numbers: &[u32], index: usize, scan: &YoungScan) -> Result<Vec<Young>, Error> {
        let (mut kept, number) = (Vec::new(), numbers[index]);
        let is_before = scan.from.is_none_or(|from| from >> 32 > u64::from(number));
        // What is in the first that stays, before the collection began, moves refs alone.
        if number > self.cut || scan.youngest.is_none() && is_before {
            return Ok(kept);
        }
        let Some(segment) = self.view.segment(number)? else { return Ok(kept) };
        let is_young = |time: u32| scan.youngest.is_some_and(|youngest| time >= youngest);
        let two = segment.head.is_some_and(|head| head.version >= 2);
        let to = if number == self.cut { self.followed & 0xffff_ffff } else { self.view.frames_end(segment)? };
        let mut refs =
            if is_young(self.ended(numbers, index)?) { Some(refs_at_head(&self.view, segment)?) } else { None };
        self.each_frame(segment, segment.frames_at(), to, &mut |offset, frame, rows| {
            let time = if two { frame.time() } else { scan.upgraded };
            let young = is_young(time);
            let location = segment.location(offset);
            let after = scan.from.is_some_and(|from| location >= from);
            let unnamed = young && !rows.iter().any(|(_, to)| matches!(to, Some(RefTarget::Object(_))));
            if unnamed || after && scan.youngest.is_none() {
                let (time, appended) = (unnamed.then_some(time), after.then_some(location));
                self.each_record(segment, offset, frame, &mut |object| {
                    let young = Young { object, time, appended };
                    kept.extend(self.is_undecided(&young).then_some(young));
                })?;
            }
            let Some(refs) = &mut refs else { return Ok(()) };
            for object in left_by(refs, rows, young)? {
                let young = Young { object, time: Some(time), appended: None };
                kept.extend(self.is_undecided(&young).then_some(young));
            }
            Ok(())
        })?;
        Ok(kept)
    }

    /// Returns when the last frame of a segment was written, or later; a segment of version 1 does not say so.
    fn ended(&self, numbers: &[u32], index: usize) -> Result<u32, Error> {
        let next = numbers.get(index + 1).map_or(Ok(None), |&next| self.view.segment(next))?;
        let head = next.and_then(|next| next.head).filter(|head| head.version >= 2);
        Ok(head.map_or(u32::MAX, |head| head.time))
    }

    /// Whether what is young is not marked, and is not cut by a rule, where the grace is to keep it.
    fn is_undecided(&self, young: &Young) -> bool {
        let dropped = || young.time.is_some() && self.commits.is_some_and(|cut| cut.drops(&young.object.oid));
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
