//! Copying what is live in the log to cold segments, and what was appended meanwhile.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use bristlecone_core::{Kind, Location, ObjRef, Object, Oid, RECORD_HEADER_BYTES, Record, RecordHeader};

use super::{Collection, repeated::list_of, rewrite::ROWS_BYTES_MAX};
use crate::{
    Error,
    backend::{AbsentCommits, Cut, MissingFrom, RefTarget},
    disk::{
        files::segment_name,
        frame::put_ref,
        lock::CollectorLock,
        roll::now_seconds,
        segment::COLD,
        state::{ColdMarks, StoreState, WholeLeft},
    },
};

/// Of objects that are being copied, so many at a time have their children at hand.
const OPEN_MAX: usize = 1024;
/// From so many on, each below the one before, it is watched that none is below itself: no writer makes such objects, but a forger does.
const WATCHED_FROM: usize = 4096;

/// An object that is being copied: its children go first.
struct OpenObject {
    oid: Oid,
    at: Location,
    next: usize,
    // `None` while they are not at hand.
    children: Option<Vec<Named>>,
}

/// What an object names that is being copied.
#[derive(Clone, Copy)]
enum Named {
    /// What is cut.
    Nothing,
    /// What is gone through next, by the place that the object knows; or what is not there.
    Child(ObjRef),
    /// What was gone through, and where it was.
    Done(ObjRef),
    /// What is from now on where it says.
    Placed(ObjRef),
}

impl Named {
    const fn oid(&self) -> Option<&Oid> {
        match self {
            Self::Nothing => None,
            Self::Child(child) | Self::Done(child) | Self::Placed(child) => Some(&child.oid),
        }
    }
}

impl Collection<'_, '_> {
    /// Copies what is marked.
    pub(super) fn copy_marked(&mut self) -> Result<(), Error> {
        // What was marked is copied below, so that what names it, too, need not be gone through later.
        self.followed_children = std::mem::take(&mut self.marked).children;
        for at in self.refs.clone().into_iter().chain(std::mem::take(&mut self.kept)) {
            self.copy(at)?;
        }
        Ok(())
    }

    /// Copies an object with all below it, children first, unless that was done.
    fn copy(&mut self, root: ObjRef) -> Result<(), Error> {
        let (mut open, mut watched): (Vec<OpenObject>, HashSet<u64>) = Default::default();
        open.extend(self.open(&root)?.1);
        while let Some(top) = open.last_mut() {
            let Some(children) = &mut top.children else {
                let (oid, at) = (top.oid, top.at);
                let children = self.reopen(&oid, at)?;
                open.last_mut().into_iter().for_each(|top| top.children = Some(children.clone()));
                continue;
            };
            let next = children.get_mut(top.next);
            top.next += 1;
            match next {
                Some(child) => {
                    let Named::Child(wanted) = *child else { continue };
                    let (at, opened) = self.open(&wanted)?;
                    if let Some(at) = at {
                        *child = Named::Done(ObjRef::new(wanted.oid, at));
                    }
                    if let Some(opened) = opened {
                        let depth = open.len();
                        if depth >= WATCHED_FROM && !watched.insert(opened.at.0) {
                            let reason = "the object is below itself; nothing is removed before that is mended";
                            return Err(self.view.damaged(&opened.oid, opened.at, reason.to_owned()));
                        }
                        if depth >= OPEN_MAX {
                            open[depth - OPEN_MAX].children = None;
                        }
                        open.push(opened);
                    }
                }
                None => {
                    let Some(done) = open.pop() else { break };
                    if open.len() >= WATCHED_FROM {
                        watched.remove(&done.at.0);
                    }
                    self.write(&done.oid, done.at, &done.children.unwrap_or_default())?;
                }
            }
        }
        Ok(())
    }

    /// Returns an object that is to be copied; only where it is if it was copied, and neither if it is not there.
    fn open(&self, wanted: &ObjRef) -> Result<(Option<Location>, Option<OpenObject>), Error> {
        if let Some(at) = self.settled.stays(&wanted.oid) {
            return Ok((Some(at), None));
        }
        if self.place(wanted.at).is_some() && self.is_settled(wanted) {
            return Ok((Some(wanted.at), None));
        }
        let Some(object) = self.find(wanted)? else { return Ok((None, None)) };
        let at = object.location();
        if self.place(at).is_some() {
            return Ok((Some(at), None));
        }
        let children = Some(self.named(&wanted.oid, &object)?);
        Ok((Some(at), Some(OpenObject { oid: wanted.oid, at, next: 0, children })))
    }

    fn reopen(&self, oid: &Oid, at: Location) -> Result<Vec<Named>, Error> {
        match self.find(&ObjRef::new(*oid, at))? {
            Some(object) => self.named(oid, &object),
            None => Ok(Vec::new()),
        }
    }

    /// Returns what an object names; of what the version before it named, it may be known where it went.
    fn named(&self, oid: &Oid, object: &Object<'_>) -> Result<Vec<Named>, Error> {
        let children = self.children(oid, object)?;
        let list = children.first().and_then(Option::as_ref).map(|first| list_of(&first.oid));
        let named = |(index, child): (usize, Option<ObjRef>)| {
            let Some(child) = child else { return Named::Nothing };
            let place = list.and_then(|list| self.copied_children.place(list, index, &child.oid));
            place.map_or(Named::Child(child), |place| Named::Placed(ObjRef::new(child.oid, place)))
        };
        Ok(children.into_iter().enumerate().map(named).collect())
    }

    /// Returns where a child of something that was copied is from now on.
    fn place_of(&self, child: &ObjRef) -> Result<Location, Error> {
        // Should another object be there, the place is a wrong hint, which readers find out.
        if let Some(place) = self.place(child.at) {
            return Ok(place);
        }
        if let Some(place) = self.settled.stays(&child.oid) {
            return Ok(place);
        }
        let found = self.find(child)?.and_then(|object| self.place(object.location()));
        Ok(found.unwrap_or(Location::NONE))
    }

    /// Returns where what was at a location is from now on.
    pub(super) fn place(&self, at: Location) -> Option<Location> {
        if self.is_cold(at) {
            return (self.partial || self.live.is_marked(at.0)).then_some(at);
        }
        self.live.place(at.0).map(Location)
    }

    /// Writes the copy of an object whose children were copied; what is in a cold segment is marked there.
    fn write(&mut self, oid: &Oid, at: Location, children: &[Named]) -> Result<(), Error> {
        let missing = || self.view.damaged(oid, at, "the segment has vanished".to_owned());
        let segment = self.view.segment((at.0 >> 32) as u32)?.ok_or_else(missing)?;
        let failed = |error| self.view.io(&segment.name, error);
        let offset = at.0 & 0xffff_ffff;
        let header = segment.bytes_at(offset, RECORD_HEADER_BYTES as u64).map_err(failed)?;
        let span = RecordHeader::first(&header).ok_or_else(missing)?;
        let (bytes, named) = (span.bytes(), span.children() as usize);
        let childless = named == 0 && children.is_empty();
        if self.is_cold(at) {
            if self.live.mark(at.0) {
                self.live.add_bytes(at.0, bytes.next_multiple_of(8));
                self.revived = true;
            }
            self.settled.note(*oid, at, childless);
            return self.pace.spend(self.roots, bytes);
        }
        let record = segment.bytes_at(offset, bytes).map_err(failed)?;
        // It was right when it was first read, which may be long ago, and the copy gets a checksum of its own.
        let right = Record::parse(&record).ok().filter(|found| found.verify(&record).is_ok());
        if right.is_none_or(|found| found.oid != oid.as_bytes() || found.bytes() != bytes) {
            // Whoever looks at it next finds that out, too.
            segment.verified.forget();
            let reason = "the object's record is damaged; nothing is removed before that is mended";
            return Err(self.view.damaged(oid, at, reason.to_owned()));
        }
        let places = self.places(children, named)?;
        let place = self.files.put(oid, &record, &places)?;
        self.live.put(at.0, place.0);
        self.settled.note(*oid, place, childless);
        self.pace.spend(self.roots, bytes)
    }

    /// Returns where so many of the children of an object are from now on, and keeps that in mind for the next version of it.
    fn places(&mut self, children: &[Named], count: usize) -> Result<Vec<Location>, Error> {
        let list = children.first().and_then(Named::oid).map(list_of);
        let mut places = Vec::with_capacity(count);
        for (index, child) in children.iter().take(count).enumerate() {
            places.push(match child {
                Named::Nothing => Location::NONE,
                Named::Placed(child) => child.at,
                Named::Child(child) => self.place_of(child)?,
                Named::Done(child) => {
                    let place = self.place_of(child)?;
                    if let Some(list) = list.filter(|_| place.is_some()) {
                        self.copied_children.put(list, index, ObjRef::new(child.oid, place));
                    }
                    place
                }
            });
        }
        Ok(places)
    }

    /// Goes through what was appended meanwhile up to a location, and copies what it names; returns how many bytes that were.
    pub(super) fn follow(&mut self, end: u64) -> Result<u64, Error> {
        let mut bytes = 0;
        let (mut named, mut moved) = (Vec::new(), BTreeMap::new());
        while self.followed < end {
            let number = (self.followed >> 32) as u32;
            let last = end >> 32 == u64::from(number);
            let Some(segment) = self.view.segment(number)? else {
                let name = segment_name(number);
                return Err(self.view.corrupt(&name, 0, "the segment has vanished"));
            };
            let from = (self.followed & 0xffff_ffff).max(segment.frames_at());
            let to = if last { end & 0xffff_ffff } else { self.view.frames_end(segment)? };
            bytes += to.saturating_sub(from);
            let mut objects = Vec::new();
            self.each_frame(segment, from, to, &mut |offset, frame, rows| {
                for (name, to) in rows {
                    match to {
                        Some(RefTarget::Object(at)) => {
                            named.push(at);
                            moved.insert(name, at);
                        }
                        _ => _ = moved.remove(&name),
                    }
                }
                self.each_record(segment, offset, frame, &mut |object| objects.push(object))
            })?;
            for object in objects {
                let gone = || self.view.damaged(&object.oid, object.at, "the record is no longer there".to_owned());
                let found = self.view.find_at(&object)?.ok_or_else(gone)?;
                self.name_children(&object.oid, &found, &mut named)?;
            }
            for at in std::mem::take(&mut named) {
                self.followed_oids.note(at.oid);
                self.keep(at)?;
            }
            self.followed = if last { end } else { self.view.after(number)? << 32 };
        }
        self.keep_moved(&moved)?;
        // Last: what refs left meanwhile, frames brought, mostly.
        for root in self.view.state.pins.roots() {
            if !self.settled.has(&root) && self.followed_oids.note(root) {
                self.keep(root.into())?;
            }
        }
        Ok(bytes)
    }

    /// Puts what an object names that was appended meanwhile with what else is named, unless it was gone through before.
    fn name_children(&mut self, oid: &Oid, object: &Object<'_>, named: &mut Vec<ObjRef>) -> Result<(), Error> {
        if object.kind() == Kind::Commit {
            // It was to go, perhaps, and does with the segment in which it is.
            self.commits.into_iter().for_each(|cut| _ = cut.restore(oid));
            let children = self.children(oid, object)?.into_iter().flatten();
            named.extend(children.filter(|child| !self.settled.has(&child.oid) && self.followed_oids.note(child.oid)));
            return Ok(());
        }
        // Most of what a directory names, the one before it named, too, and most of the rest was just appended.
        let (repeated, mut index) = (&mut self.followed_children, 0);
        let (view, stays) = (self.view, u64::from(self.cut) << 32..u64::from(COLD) << 32);
        repeated.begin();
        (self.roots.children)(oid, object, &mut |child| {
            let child = ObjRef::new(child, self.parts.child_place(object, index));
            index += 1;
            let is_done = repeated.note(&child)
                || stays.contains(&child.at.0) && view.is_at(&child.oid, child.at)
                || self.settled.has(&child.oid);
            if !is_done && self.followed_oids.note(child.oid) {
                named.push(child);
            }
        })
    }

    /// Keeps the commits that were to be cut and that refs keep by now which moved meanwhile.
    fn keep_moved(&mut self, moved: &BTreeMap<String, ObjRef>) -> Result<(), Error> {
        let (Some(rules), Some(cut)) = (self.roots.cut, self.commits) else { return Ok(()) };
        let mut restored = Vec::new();
        for (name, at) in moved {
            restored.append(&mut rules.keep(cut, name, at)?);
        }
        if !restored.is_empty() {
            // Commits that name them may have been copied: no child is behind its parent in a segment.
            self.files.finish_segment()?;
        }
        restored.into_iter().try_for_each(|oid| self.keep(oid.into()))
    }

    /// Copies an object with all below it unless it stays where it is.
    fn keep(&mut self, at: ObjRef) -> Result<(), Error> {
        if !self.is_settled(&at) {
            return self.copy(at);
        }
        if self.is_cold(at.at) {
            self.settled.note(at.oid, at.at, false);
        }
        Ok(())
    }

    /// Returns what is absent on purpose from now on; `stays` says of a commit that was to be cut whether it is kept.
    pub(super) fn absent(&self, stays: &dyn Fn(&Oid) -> Result<bool, Error>) -> Result<Arc<AbsentCommits>, Error> {
        match self.commits {
            Some(cut) => Ok(Arc::new(cut.absent(stays)?)),
            None => Ok(self.view.table.state.absent.clone()),
        }
    }

    /// Returns what is absent on purpose once the cold segments stay: what they name stays absent, and what is in them is there.
    fn absent_besides(&self, stays: &dyn Fn(&Oid) -> Result<bool, Error>) -> Result<Arc<AbsentCommits>, Error> {
        let before = &self.view.table.state.absent;
        let Some(cut) = self.commits else { return Ok(before.clone()) };
        let mut absent = cut.absent(stays)?;
        let (mut there, mut changed) = (Vec::new(), false);
        for oid in absent.keys().filter(|oid| !before.contains_key(oid)) {
            if stays(oid)? { there.push(*oid) } else { changed = true }
        }
        there.iter().for_each(|oid| _ = absent.remove(oid));
        let mut rows = MissingFrom::default();
        for (oid, row) in &**before {
            let goes = match &row.next {
                Some(next) => cut.passes(next) && !stays(next)?,
                None => false,
            };
            changed |= goes;
            absent.insert(*oid, if goes { cut.row(oid, &mut rows) } else { *row });
        }
        Ok(if changed { Arc::new(absent) } else { before.clone() })
    }

    /// Returns what is live of the cold segments from now on, and their numbers; one of which nothing is, is left out.
    fn cold_marks(&mut self, collector: &CollectorLock) -> Result<(Vec<u32>, Vec<ColdMarks>), Error> {
        let before = &self.view.table.state;
        let (mut numbers, mut marks) = (Vec::new(), Vec::new());
        for cold in &*before.cold {
            let live = self.live.marks(cold.number).filter(|_| !self.partial);
            let known = before.marks(cold.number);
            match live {
                Some((_, 0, _)) => continue,
                // What is dead stays so: as many are the same ones.
                Some(live) if live.1 != before.live_of(cold).0 => marks.push(self.files.marks(collector, cold, live)?),
                _ => marks.extend(known),
            }
            numbers.push(cold.number);
        }
        self.revived = false;
        Ok((numbers, marks))
    }

    /// Returns the state that the collection leaves, and writes the marks that it names.
    pub(super) fn state(&mut self, collector: &CollectorLock) -> Result<StoreState, Error> {
        let (numbers, marks) = self.cold_marks(collector)?;
        self.changes = self.commits.map_or(0, Cut::changes);
        let before = &self.view.table.state;
        let stays = |oid: &Oid| -> Result<bool, Error> {
            let found = self.find(&ObjRef::from(*oid))?;
            Ok(found.is_some_and(|found| self.place(found.location()).is_some()))
        };
        let absent = if self.partial { self.absent_besides(&stays)? } else { self.absent(&stays)? };
        let stay = before.cold.iter().filter(|cold| numbers.binary_search(&cold.number).is_ok());
        let cold = stay.chain(self.files.segments()).copied().collect();
        let time = now_seconds();
        let mut state = StoreState {
            absent,
            epoch: before.epoch + 1,
            check: 0,
            base: self.cut,
            cold,
            marks: marks.into(),
            graced: self.graced.clone().into(),
            time,
            ..before.clone()
        };
        state.whole = match before.whole {
            Some(whole) if self.partial => Some(WholeLeft { since: whole.since.saturating_add(1), time, ..whole }),
            // Parts of the log may be emptied before the first of the whole.
            None if self.partial => None,
            _ => Some(WholeLeft { bytes: state.live_bytes(), since: 0, time }),
        };
        Ok(state)
    }

    /// Returns moves of refs to where their objects are now.
    pub(super) fn moved_refs(&self) -> Vec<u8> {
        let mut rows = Vec::new();
        for (name, target) in self.view.published.refs().moved_rows() {
            let RefTarget::Object(at) = target else { continue };
            let Ok(Some(found)) = self.find(at) else { continue };
            if let Some(place) = self.live.place(found.location().0)
                && rows.len() < ROWS_BYTES_MAX
            {
                put_ref(&mut rows, name, Some(&RefTarget::Object(ObjRef::new(at.oid, Location(place)))));
            }
        }
        rows
    }
}
