//! What of the emptied segments is live, and what of the rest is dropped.

use std::{cmp::Reverse, collections::BTreeSet, ops::RangeInclusive};

use bristlecone_core::{Kind, Location, ObjRef, Object, Oid, RECORD_HEADER_BYTES, RecordHeader};

use super::{Collection, LiveSet, RecentOids, RepeatedChildren, young::Young};
use crate::{
    Error,
    backend::{SweepLimits, Swept},
    disk::{
        frame::{Frame, FrameKind, RefRow, take_refs},
        roll::now_seconds,
        segment::Segment,
        survey::each_record,
        walk::{FrameStep, FrameWalk},
    },
    sync::lock,
};

/// So many dropped objects at a time are told apart, so that copies of one are counted once.
const APART_MAX: usize = 1 << 20;
/// Of about so many live objects at a time the first digits are held: 8 bytes each. Tests have several times with few objects.
const LIVE_MAX: u64 = if cfg!(test) { 256 } else { 4 << 20 };

/// Calls its argument with the offset of a frame, its head, and its moves of refs.
pub(super) type EachFrame<'e> = dyn FnMut(u64, &Frame, Vec<RefRow>) -> Result<(), Error> + 'e;

/// What a collection has come to when it marked.
#[derive(Default)]
pub(super) struct Marked {
    // What must be found by its id: what one tree names, many may name.
    seen: RecentOids,
    pub(super) children: RepeatedChildren,
}

impl Marked {
    /// Returns one that remembers about so many ids.
    pub(super) fn with_places(places: usize) -> Self {
        Self { seen: RecentOids::with_places(places), children: RepeatedChildren::default() }
    }
}

impl Collection<'_, '_> {
    /// Marks what is live as far as is known at the beginning.
    pub(super) fn mark_all(&mut self, targets: Vec<ObjRef>, limits: &SweepLimits) -> Result<(), Error> {
        self.refs = targets;
        // The newest first: its objects come to lie together.
        self.refs.sort_unstable_by_key(|at| Reverse(at.at.0));
        self.mark(self.refs.clone())?;
        let pins = &self.view.state.pins;
        let from = pins.appended();
        if limits.grace > 0 {
            // Before what snapshots and the caller keep: they may have let go of it by the next collection.
            let youngest = now_seconds().saturating_sub(limits.grace);
            let graced = self.view.table.state.graced.iter().filter(|(time, _)| *time >= youngest);
            let graced = graced.map(|&(time, oid)| Young { object: oid.into(), time: Some(time), appended: None });
            let graced: Vec<Young> = graced.collect();
            self.mark_young(graced, from, Some(youngest))?;
        }
        let roots = pins.roots().into_iter().chain(self.roots.oids.iter().copied()).map(ObjRef::from);
        let roots: Vec<ObjRef> = roots.collect();
        self.kept.extend(roots.iter().copied());
        self.mark(roots)?;
        let held = lock(&self.view.state.held).clone();
        let held = held.into_iter().filter(|held| from.is_some_and(|from| held.appended >= from));
        let held = held.map(|held| Young { object: held.oid.into(), time: None, appended: Some(held.appended) });
        self.mark_young(held.collect(), from, None)
    }

    /// Returns what the commits that a rule cuts lead to, beside what is live. It had a ref once, so it is nothing that a writer is
    /// about to use.
    pub(super) fn reached_by_cut(&mut self) -> Result<LiveSet, Error> {
        let Some(cut) = self.commits else { return Ok(LiveSet::default()) };
        let mut reached = self.live.unmarked();
        let (mut open, mut seen) = (Vec::new(), RecentOids::with_places(self.places));
        let mut repeated = RepeatedChildren::default();
        for oid in cut.dropped() {
            open.push(ObjRef::from(*oid));
            while let Some(at) = open.pop() {
                let Some(object) = self.find(&at)? else { continue };
                let place = object.location().0;
                if self.live.is_marked(place) || !reached.mark(place) {
                    continue;
                }
                let (mut index, is_commit) = (0, object.kind() == Kind::Commit);
                repeated.begin();
                (self.roots.children)(&at.oid, &object, &mut |child| {
                    let place = self.parts.child_place(&object, index);
                    index += 1;
                    if !is_commit && repeated.note(&ObjRef::new(child, place)) {
                        return;
                    }
                    // Most of what a tree names, the tree before it named, too. Of two copies of an object each is reached by its place.
                    let is_marked = self.live.is_marked(place.0) || reached.is_marked(place.0);
                    if !is_marked && (reached.covers(place.0) || seen.note(child)) {
                        open.push(ObjRef::new(child, place));
                    }
                })?;
                self.pace.spend(self.roots, object.read_bytes() as u64)?;
            }
        }
        Ok(reached)
    }

    /// Marks everything to which these lead.
    pub(super) fn mark(&mut self, roots: Vec<ObjRef>) -> Result<(), Error> {
        // What is named by an object of a cold segment, and only lies in the log, is not met by way of what is copied.
        let mut open: Vec<(ObjRef, bool)> = roots.into_iter().map(|root| (root, false)).collect();
        let mut marked = std::mem::take(&mut self.marked);
        while let Some((wanted, below_cold)) = open.pop() {
            if self.mark_childless(&wanted.oid)? {
                continue;
            }
            let Some(object) = self.find(&wanted)? else { continue };
            let at = object.location();
            if self.live.mark(at.0) {
                let bytes = (object.read_bytes() as u64).next_multiple_of(8);
                self.live.add_bytes(at.0, bytes);
                (self.live_objects, self.live_bytes) = (self.live_objects + 1, self.live_bytes + bytes);
                let cold = self.is_cold(at);
                let childless =
                    !self.open_children(&wanted.oid, &object, &mut marked, &mut |child| open.push((child, cold)))?;
                if cold {
                    // What is below it comes to be marked, too, before anything relies on that.
                    self.settled.note(wanted.oid, at, childless);
                } else {
                    (self.copied_objects, self.copied_bytes) = (self.copied_objects + 1, self.copied_bytes + bytes);
                    self.kept.extend(below_cold.then(|| ObjRef::new(wanted.oid, at)));
                }
                self.pace.spend(self.roots, bytes)?;
            } else if self.stays(at) {
                self.settled.note(wanted.oid, at, false);
            }
        }
        self.marked = marked;
        Ok(())
    }

    /// Calls `open` for what an object names, but for that of which nothing is left to mark; returns whether it names anything.
    fn open_children(
        &self,
        oid: &Oid,
        object: &Object<'_>,
        marked: &mut Marked,
        open: &mut dyn FnMut(ObjRef),
    ) -> Result<bool, Error> {
        let done = |child: &ObjRef| {
            let is_marked = self.live.is_marked(child.at.0) || self.stays(child.at);
            self.settled.has(&child.oid) || is_marked && self.view.is_at(&child.oid, child.at)
        };
        let seen = &mut marked.seen;
        let mut each = |child: ObjRef| {
            if !done(&child) && (self.live.covers(child.at.0) || seen.note(child.oid)) {
                open(child);
            }
        };
        if object.kind() == Kind::Commit {
            let children = self.children(oid, object)?;
            let any = !children.is_empty();
            children.into_iter().flatten().for_each(each);
            return Ok(any);
        }
        // Most of what a directory names, the version of it that was marked before named, too.
        let (repeated, mut index) = (&mut marked.children, 0);
        repeated.begin();
        (self.roots.children)(oid, object, &mut |child| {
            let child = ObjRef::new(child, self.parts.child_place(object, index));
            index += 1;
            if !repeated.note(&child) {
                each(child);
            }
        })?;
        Ok(index > 0)
    }

    /// Marks an object of a cold segment of which an earlier collection has found that it names nothing: its header alone is read.
    /// Returns whether it is one.
    fn mark_childless(&mut self, oid: &Oid) -> Result<bool, Error> {
        if self.partial {
            return Ok(false);
        }
        let known = self.settled.childless(oid).filter(|at| self.is_cold(*at));
        let known = known.and_then(|at| Some((at, self.view.span_at(oid, at)?.next_multiple_of(8))));
        let Some((at, bytes)) = known else { return Ok(false) };
        if self.live.mark(at.0) {
            self.live.add_bytes(at.0, bytes);
            (self.live_objects, self.live_bytes) = (self.live_objects + 1, self.live_bytes + bytes);
            self.settled.note(*oid, at, true);
            self.pace.spend(self.roots, bytes)?;
        }
        Ok(true)
    }

    /// Calls `each` for every frame between two offsets of a segment, or up to its seal, with its moves of refs.
    pub(super) fn each_frame(
        &self,
        segment: &Segment,
        from: u64,
        to: u64,
        each: &mut EachFrame<'_>,
    ) -> Result<(), Error> {
        self.pace.tell(self.roots)?;
        let failed = |error| self.view.io(&segment.name, error);
        let damaged = |at| {
            let reason = "there is no sound frame here; nothing is removed before that is mended";
            Err(self.view.corrupt(&segment.name, at, reason))
        };
        let mut walk = FrameWalk::new(segment, self.view.header.salt, from, to);
        while let Some(step) = walk.step().map_err(failed)? {
            let (offset, frame, head) = match step {
                FrameStep::Frame { offset, frame, head } => (offset, frame, head),
                FrameStep::Gap { offset, .. } => return damaged(offset),
            };
            let mut rows = Vec::new();
            if frame.kind == FrameKind::Batch && frame.payload_bytes > 0 {
                // What refs were moved to cannot be told without it, and they may lead to what nothing else does.
                let payload = segment.payload(offset, &frame, &head).map_err(failed)?;
                match payload.and_then(|(payload, _)| take_refs(&payload)) {
                    Some(found) => rows = found,
                    None => return damaged(offset),
                }
            }
            each(offset, &frame, rows)?;
        }
        // The walk ends, too, where no frame follows. At the end of the file nobody knows whether one should.
        if walk.sealed || walk.at >= to || to == segment.bytes { Ok(()) } else { damaged(walk.at) }
    }

    /// Calls `each` for every record of a frame. No checksum is looked at: who reads the object does that.
    pub(super) fn each_record(
        &self,
        segment: &Segment,
        offset: u64,
        frame: &Frame,
        each: &mut dyn FnMut(ObjRef),
    ) -> Result<(), Error> {
        let failed = |error| self.view.io(&segment.name, error);
        let mut damaged = None;
        let stopped = each_record(segment, offset, u64::from(frame.record_bytes), &mut |at, record, _| match Oid::new(
            record.oid,
        ) {
            Ok(oid) => each(ObjRef::new(oid, Location(segment.location(at)))),
            Err(_) => damaged = Some(at),
        });
        match stopped.map_err(failed)?.or(damaged) {
            None => Ok(()),
            Some(at) => {
                let reason = "there is no sound record here; nothing is removed before that is mended";
                Err(self.view.corrupt(&segment.name, at, reason))
            }
        }
    }

    /// Returns what is dropped. Where limits leave some of it, that is marked, too.
    pub(super) fn choose(&mut self, limits: &SweepLimits) -> Result<Swept, Error> {
        if limits.if_due && limits.objects == u64::MAX && limits.bytes == u64::MAX {
            return self.estimate();
        }
        let mut all = Swept::default();
        let mut apart: Vec<(u64, u64)> = Vec::new();
        let mut add = |apart: &mut Vec<(u64, u64)>| {
            apart.sort_unstable();
            apart.dedup_by_key(|dead| dead.0);
            all.objects += apart.len() as u64;
            all.bytes += apart.drain(..).map(|dead| dead.1).sum::<u64>();
        };
        self.each_dead(&mut |oid, _, bytes| {
            apart.push((oid.prefix(), bytes));
            if apart.len() >= APART_MAX {
                add(&mut apart);
            }
        })?;
        add(&mut apart);
        if all.objects <= limits.objects && all.bytes <= limits.bytes {
            return Ok(all);
        }
        let mut dead = Vec::new();
        self.each_dead(&mut |oid, at, _| dead.push((oid, at)))?;
        dead.sort_unstable();
        dead.dedup_by_key(|dead| dead.0);
        let oids: Vec<Oid> = dead.iter().map(|dead| dead.0).collect();
        let view = self.view;
        let (chosen, swept) = self.roots.choose(|oid| view.read(&ObjRef::from(*oid)), &oids, limits)?;
        let chosen: BTreeSet<Oid> = chosen.into_iter().map(|(oid, _)| oid).collect();
        let left = dead.iter().filter(|dead| !chosen.contains(&dead.0)).map(|dead| ObjRef::new(dead.0, dead.1));
        let left: Vec<ObjRef> = left.collect();
        self.kept.extend(left.iter().copied());
        self.mark(left)?;
        Ok(swept)
    }

    /// Returns what is dropped, where each copy of an object counts: without a look at any of it.
    fn estimate(&self) -> Result<Swept, Error> {
        let mut swept = Swept::default();
        for (number, bytes) in self.live.segments() {
            if let Some(cold) = self.view.table.state.cold(number) {
                let (objects, bytes) = self.view.table.state.live_of(cold);
                (swept.objects, swept.bytes) = (swept.objects + objects, swept.bytes + bytes);
                continue;
            }
            let Some(segment) = self.view.segment(number)? else { continue };
            let ids = self.view.ids(segment)?;
            let index = ids.surveyed.get().and_then(|known| known.instead.as_ref()).unwrap_or(&ids.index);
            (swept.objects, swept.bytes) = (swept.objects + index.count(), swept.bytes + bytes);
        }
        swept.objects = swept.objects.saturating_sub(self.live_objects);
        swept.bytes = swept.bytes.saturating_sub(self.live_bytes);
        Ok(swept)
    }

    /// Calls `each` with id, place, and bytes of the record, for the objects of emptied segments that are not marked, each copy
    /// for itself; copies of what is marked are passed over.
    fn each_dead(&self, each: &mut dyn FnMut(Oid, Location, u64)) -> Result<(), Error> {
        let numbers: Vec<u32> = self.live.segments().map(|(number, _)| number).collect();
        let times = self.live_objects.div_ceil(LIVE_MAX).max(1);
        let span = u64::MAX / times;
        for time in 0..times {
            let last = if time + 1 == times { u64::MAX } else { (time + 1) * span - 1 };
            self.each_dead_of(&numbers, &(time * span..=last), each)?;
        }
        Ok(())
    }

    /// As [`Collection::each_dead`], for ids that begin so.
    fn each_dead_of(
        &self,
        numbers: &[u32],
        prefixes: &RangeInclusive<u64>,
        each: &mut dyn FnMut(Oid, Location, u64),
    ) -> Result<(), Error> {
        let mut live = Vec::new();
        for &number in numbers {
            self.each_entry(number, &mut |segment, prefix, offset| {
                let is_live = prefixes.contains(&prefix) && self.live.is_marked(segment.location(u64::from(offset)));
                live.extend(is_live.then_some(prefix));
                Ok(())
            })?;
        }
        live.sort_unstable();
        for &number in numbers {
            self.each_entry(number, &mut |segment, prefix, offset| {
                if !prefixes.contains(&prefix) {
                    return Ok(());
                }
                let at = segment.location(u64::from(offset));
                let is_live = segment.is_live(u64::from(offset));
                if !is_live.map_err(|error| self.view.unmarked(segment, error))? {
                    return Ok(());
                }
                if self.live.is_marked(at) || live.binary_search(&prefix).is_ok() {
                    return Ok(());
                }
                let header = segment.bytes_at(u64::from(offset), RECORD_HEADER_BYTES as u64);
                let header = header.map_err(|error| self.view.io(&segment.name, error))?;
                if let Some(header) = RecordHeader::first(&header)
                    && let Some(oid) = header.oid().and_then(|oid| Oid::new(oid).ok())
                {
                    each(oid, Location(at), header.bytes());
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Calls `each` for every entry of a segment's index, with the first bytes of an id and the offset of its record.
    fn each_entry(
        &self,
        number: u32,
        each: &mut dyn FnMut(&Segment, u64, u32) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.pace.tell(self.roots)?;
        let Some(segment) = self.view.segment(number)? else { return Ok(()) };
        for (prefix, offset) in self.view.entries_of(segment)? {
            each(segment, prefix, offset)?;
        }
        Ok(())
    }
}
