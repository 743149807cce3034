//! Collecting garbage: live objects go to cold segments, then the segments in which they were are removed.
//!
//! **The order**, on which safety rests:
//!
//! 1. The log goes on in a new segment. Everything before it, and every cold segment, is *emptied*; what is appended
//!    from here on stays where it is.
//! 2. What is live there is marked, and copied to new cold segments, children before parents. Meanwhile other threads and
//!    processes read and append.
//! 3. What they appended is gone through, frame by frame: whatever it names that is to be emptied is copied as well, so an
//!    object that an append left out because the store had it is live, with all below it.
//! 4. Under the store's lock, once nothing more was appended that was not gone through, a frame announces the new state.
//! 5. After that frame is durable, and once no process reads by an older state, the emptied segments are removed.
//!
//! An append that was built by an older state looks again, under the lock, for what it left out (`group.rs`).
//!
//! *Closed.* The children of each record of a segment lie in segments before it, or in cold ones. A collection keeps
//! that so: it looks for the children of what it copies only in what is emptied.

use std::collections::BTreeSet;

use bristlecone_core::{Location, ObjRef, Object, Oid, RECORD_HEADER_BYTES, RecordHeader};

use super::{
    cold::{COLD_BYTES_MAX, ColdWriter},
    files::{COLLECTOR, SEGMENTS, cold_number, segment_name, segment_number},
    frame::{self, Frame, FrameKind, put_ref, put_state, take_refs},
    live::LiveSet,
    lock::DiskLock,
    log::{DiskState, LogWriter},
    read::Probe,
    readers::READERS,
    roll::now_seconds,
    sealed::Form,
    segment::{COLD, COLD_LOCATION, Segment},
    spare::RESERVED_BYTES,
    state::{ColdSegment, StateRef, StoreState, state_epoch},
    survey::each_record,
    view::DiskView,
    walk::{FrameStep, FrameWalk},
};
use crate::{
    Error,
    backend::{RefTarget, Roots, Snapshot, SweepLimits, Swept},
    storage::{OpenMode, StorageFile},
    sync::{Arc, atomic::Ordering::*, lock},
};

/// How often what was appended meanwhile is gone through without the store's lock, before that is done with it.
const ROUNDS_MAX: usize = 8;
/// At most so many bytes of refs get the new places of their objects; others are found by their ids.
const ROWS_BYTES_MAX: usize = 256 << 10;
/// Of objects that are being copied, so many at a time have their children at hand.
const OPEN_MAX: usize = 1024;
/// Up to so many dropped objects are told apart, so that copies of one are counted once.
const APART_MAX: usize = 4 << 20;

impl DiskState {
    /// Drops what nothing leads to.
    pub(super) fn sweep(
        &self,
        snapshot: &dyn Snapshot,
        roots: &Roots<'_>,
        limits: &SweepLimits,
    ) -> Result<Swept, Error> {
        if self.lock.is_none() {
            return Err(Error::ReadOnly);
        }
        let _collector = self.collector()?;
        let mut begun = None;
        self.locked(|log| {
            if log.tail.version < 2 {
                let reason = "this store is of version 1 of the disk engine, which removes nothing; `cone upgrade` makes it one of version 2";
                return Err(Error::Usage { reason });
            }
            if self.holds_records(log)? {
                self.roll(log, 0)?;
            }
            let refs = self.published.refs();
            let targets = refs.values().filter_map(|target| match target {
                RefTarget::Object(at) => Some(*at),
                RefTarget::Symbolic(_) => None,
            });
            begun = Some((log.tail.segment, log.tail.location(), targets.collect::<Vec<_>>()));
            Ok(())
        })?;
        let Some((cut, start, targets)) = begun else { return Err(Error::Unanswered) };
        let table = self.table();
        let mut collection = Collection::begin(self.view(&table), roots, cut, start)?;
        collection.mark_all(targets, limits)?;
        let swept = collection.choose(snapshot, limits)?;
        // Emptied segments that hold nothing live go, too.
        if swept.objects == 0 {
            return Ok(swept);
        }
        collection.live.count();
        collection.copy_marked()?;
        self.announce(&mut collection)?;
        *lock(&self.held) = std::mem::take(&mut collection.held);
        drop(collection);
        drop(table);
        self.remove_emptied()?;
        Ok(swept)
    }

    /// Takes the lock of the collector: one at a time.
    fn collector(&self) -> Result<Arc<dyn StorageFile>, Error> {
        let failed = |error| self.io(COLLECTOR, error);
        let file = self.storage.open(COLLECTOR, OpenMode::Create).map_err(failed)?;
        if file.try_lock().map_err(failed)? {
            return Ok(file);
        }
        let holder = file.lock_holder().unwrap_or_else(|| "another collection".to_owned());
        Err(Error::Locked { file: self.storage.describe(COLLECTOR), holder, waited_ms: 0 })
    }

    /// Whether the segment in which the log ends holds a record.
    fn holds_records(&self, log: &LogWriter) -> Result<bool, Error> {
        let segment = self.tail_segment(&log.tail)?;
        let mut walk = FrameWalk::new(&segment, self.header.salt, segment.frames_at(), log.tail.end);
        while let Some(step) = walk.step().map_err(|error| self.io(&segment.name, error))? {
            if let FrameStep::Frame { frame, .. } = step
                && frame.record_bytes > 0
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Makes what was copied the state of the store.
    fn announce(&self, collection: &mut Collection<'_, '_>) -> Result<(), Error> {
        let mut end = None;
        for round in 0.. {
            collection.follow(self.published.end())?;
            collection.finish_segment()?;
            let mut state = collection.state();
            self.write_state(&mut state)?;
            let last = round >= ROUNDS_MAX;
            self.locked(|log| {
                if self.tables.epoch() + 1 != state.epoch {
                    return Err(Error::Usage { reason: "another collection came between" });
                }
                collection.follow(log.tail.location())?;
                if collection.writer.is_some() {
                    if !last {
                        return Ok(());
                    }
                    collection.finish_segment()?;
                    state = collection.state();
                    self.write_state(&mut state)?;
                }
                let rows = collection.moved_refs();
                self.write_named(log, state.reference(), &rows)?;
                end = Some(log.tail.location());
                Ok(())
            })?;
            if let Some(end) = end {
                return self.sync_to(end);
            }
        }
        Ok(())
    }

    /// Appends the frame that names a state, and goes on by it. The caller holds the store's lock.
    pub(super) fn write_named(&self, log: &mut LogWriter, named: StateRef, rows: &[u8]) -> Result<(), Error> {
        let payload = put_state(named, rows);
        let bytes = frame::EMPTY_BYTES + payload.len() as u64;
        let mut segment = self.tail_segment(&log.tail)?;
        if log.tail.next != 0 || log.tail.end + bytes + RESERVED_BYTES > segment.bytes {
            self.roll(log, bytes)?;
            segment = self.tail_segment(&log.tail)?;
        }
        let (bytes, after) = self.small_frame(&log.tail, FrameKind::State, &payload, self.sync.durable_end());
        self.write_frame(&segment, &bytes, log.tail.end)?;
        log.tail = after;
        log.appended = true;
        log.named = Some(named);
        self.named_at.store(after.location(), Release);
        let rows = take_refs(rows).unwrap_or_default();
        self.publish_with(&after, |refs| {
            for (name, target) in rows {
                target.into_iter().for_each(|target| _ = refs.insert(name.clone(), target));
            }
        });
        self.follow_state(log)
    }

    /// Removes the files of segments that a collection emptied, once its state is durable and no process reads by an
    /// older one. The caller holds the lock of the collector.
    fn remove_emptied(&self) -> Result<bool, Error> {
        let table = self.table();
        if self.sync.durable_end() < self.named_at.load(Acquire) {
            return Ok(false);
        }
        self.tell_readers();
        let readers = self.readers().map_err(|error| self.io(READERS, error))?;
        if readers.oldest.min(self.tables.oldest_epoch()) < table.state.epoch {
            return Ok(false);
        }
        for name in self.storage.list(SEGMENTS).map_err(|error| self.io(SEGMENTS, error))? {
            let number = segment_number(&name).or_else(|| cold_number(&name));
            let number = number.or_else(|| Form::of_name(&name).map(|(number, _)| number));
            let old_state = state_epoch(&name).is_some_and(|epoch| epoch < table.state.epoch);
            if old_state || number.is_some_and(|number| !table.has(number)) {
                let path = format!("{SEGMENTS}/{name}");
                self.storage.remove(&path).map_err(|error| self.io(&path, error))?;
            }
        }
        Ok(true)
    }

    /// Removes what an earlier collection emptied, if that can be done now. A failure is ignored: the next one tries again.
    pub(super) fn tidy(&self) {
        if self.emptied.load(Relaxed)
            && self.lock.as_ref().is_some_and(DiskLock::is_own)
            && let Ok(_collector) = self.collector()
        {
            let removed = self.remove_emptied();
            self.emptied.store(!matches!(removed, Ok(true)), Relaxed);
        }
    }
}

/// Calls its argument with the offset of a frame, its head, and the objects that its moves of refs name.
type EachFrame<'e> = dyn FnMut(u64, &Frame, Vec<ObjRef>) -> Result<(), Error> + 'e;

/// A collection under way.
struct Collection<'a, 'r> {
    view: DiskView<'a>,
    roots: &'r Roots<'r>,
    // The first segment of the log that stays.
    cut: u32,
    // How far what was appended since is gone through.
    followed: u64,
    live: LiveSet,
    writer: Option<ColdWriter>,
    done: Vec<ColdSegment>,
    next_number: u32,
    refs: Vec<ObjRef>,
    // Bytes of the records that were marked.
    live_bytes: u64,
    // What is copied beside what is live, since limits leave it.
    kept: Vec<ObjRef>,
    // What the grace keeps, and when it was written.
    graced: Vec<(u32, Oid)>,
    // What is kept for snapshots alone.
    held: Vec<Held>,
}

/// An object that is kept since it is young.
struct Young {
    object: ObjRef,
    /// When it was written, if the grace keeps it.
    time: Option<u32>,
    /// Where it was appended, if a snapshot of before keeps it.
    appended: Option<u64>,
}

/// An object that a collection kept for a snapshot that is older than it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    /// Where it was appended.
    appended: u64,
    oid: Oid,
}

/// An object that is being copied: its children go first.
struct OpenObject {
    oid: Oid,
    at: Location,
    next: usize,
    // `None` while they are not at hand.
    children: Option<Vec<ObjRef>>,
}

impl<'a, 'r> Collection<'a, 'r> {
    fn begin(view: DiskView<'a>, roots: &'r Roots<'r>, cut: u32, start: u64) -> Result<Self, Error> {
        let mut emptied = Vec::new();
        for number in view.table.all_numbers().into_iter().filter(|&number| number < cut || number >= COLD) {
            let Some(segment) = view.segment(number)? else {
                let name = segment_name(number);
                return Err(view.corrupt(&name, 0, "the segment is missing; nothing is removed before that is mended"));
            };
            emptied.push((number, segment.bytes));
        }
        let names = view.storage.list(SEGMENTS).map_err(|error| view.io(SEGMENTS, error))?;
        let known = view.table.state.cold.iter().map(|cold| cold.number);
        let next_number = names.iter().filter_map(|name| cold_number(name)).chain(known).max().unwrap_or(COLD) + 1;
        Ok(Self {
            view,
            roots,
            cut,
            followed: start,
            live: LiveSet::new(emptied),
            writer: None,
            done: Vec::new(),
            next_number,
            refs: Vec::new(),
            live_bytes: 0,
            kept: Vec::new(),
            graced: Vec::new(),
            held: Vec::new(),
        })
    }

    /// Returns an object of what is emptied; `None` if it is not there.
    fn find(&self, wanted: &ObjRef) -> Result<Option<Object<'a>>, Error> {
        let hint = wanted.at;
        if hint.is_some() && hint.pending_offset().is_none() && self.live.covers(hint.0) {
            match self.view.probe(&wanted.oid, hint)? {
                Probe::Found(object) => return Ok(Some(object)),
                Probe::Other => {}
                Probe::Bad(reason) => {
                    let again = self.view.find_below(&wanted.oid, self.cut).ok().flatten();
                    return again.map(Some).ok_or_else(|| self.view.damaged(&wanted.oid, hint, reason));
                }
            }
        }
        self.view.find_below(&wanted.oid, self.cut)
    }

    /// Returns what an object names, with the places that it knows.
    fn children(&self, oid: &Oid, object: &Object<'_>) -> Result<Vec<ObjRef>, Error> {
        let mut children = Vec::with_capacity(object.children());
        let mut each = |child: Oid| {
            let at = if children.len() < object.children() { object.child(children.len()) } else { Location::NONE };
            children.push(ObjRef::new(child, at));
        };
        (self.roots.children)(oid, object, &mut each)?;
        Ok(children)
    }

    /// Marks what is live as far as is known at the beginning.
    fn mark_all(&mut self, targets: Vec<ObjRef>, limits: &SweepLimits) -> Result<(), Error> {
        self.refs = targets;
        // The newest first: its objects come to lie together.
        self.refs.sort_unstable_by_key(|at| std::cmp::Reverse(at.at.0));
        let pins = &self.view.state.pins;
        let held = pins.roots().into_iter().chain(self.roots.oids.iter().copied()).map(ObjRef::from);
        self.kept = held.collect();
        let mut roots = self.kept.clone();
        roots.extend(self.refs.iter().copied());
        self.mark(roots)?;
        // What of the rest was kept before for a snapshot or the grace, and what is to be from now on.
        let (from, youngest) = (pins.appended(), now_seconds().saturating_sub(limits.grace));
        let mut young = self.frames_kept(from, limits.grace)?;
        let held = lock(&self.view.state.held).clone();
        let held = held.into_iter().filter(|held| from.is_some_and(|from| held.appended >= from));
        let graced = self.view.table.state.graced.iter().filter(|(time, _)| limits.grace > 0 && *time >= youngest);
        let before = graced.map(|&(time, oid)| Young { object: oid.into(), time: Some(time), appended: None });
        let before =
            held.map(|held| Young { object: held.oid.into(), time: None, appended: Some(held.appended) }).chain(before);
        young.splice(0..0, before.collect::<Vec<_>>());
        // What names others comes after them: of what hangs together only the last is kept by name.
        for young in young.into_iter().rev() {
            let Some(found) = self.find(&young.object)? else { continue };
            if self.live.is_marked(found.location().0) {
                continue;
            }
            let oid = young.object.oid;
            self.graced.extend(young.time.map(|time| (time, oid)));
            self.held.extend(young.appended.map(|appended| Held { appended, oid }));
            self.kept.push(ObjRef::new(oid, found.location()));
            self.mark(vec![ObjRef::new(oid, found.location())])?;
        }
        Ok(())
    }

    /// Marks everything to which these lead.
    fn mark(&mut self, mut open: Vec<ObjRef>) -> Result<(), Error> {
        while let Some(wanted) = open.pop() {
            let Some(object) = self.find(&wanted)? else { continue };
            if self.live.mark(object.location().0) {
                self.live_bytes += (object.read_bytes() as u64).next_multiple_of(8);
                open.extend(self.children(&wanted.oid, &object)?);
            }
        }
        Ok(())
    }

    /// Returns the objects of emptied segments that were appended from a location on, and of frames that moved no ref and are
    /// younger than the grace.
    fn frames_kept(&self, from: Option<u64>, grace_seconds: u32) -> Result<Vec<Young>, Error> {
        let mut kept = Vec::new();
        let youngest = now_seconds().saturating_sub(grace_seconds);
        // What is older than the upgrade counts as written then.
        let mut upgraded = None;
        let numbers = self.view.table.numbers();
        for &number in &*numbers {
            let head = self.view.segment(number)?.and_then(|segment| segment.head);
            upgraded = upgraded.or(head.filter(|head| head.version >= 2).map(|head| head.time));
        }
        for &number in &*numbers {
            let Some(segment) = self.view.segment(number)? else { continue };
            if number >= self.cut || (grace_seconds == 0 && from.is_none_or(|from| from >> 32 > u64::from(number))) {
                continue;
            }
            let two = segment.head.is_some_and(|head| head.version >= 2);
            self.each_frame(segment, segment.frames_at(), segment.bytes, &mut |offset, frame, rows| {
                let time = if two { frame.time() } else { upgraded.unwrap_or(u32::MAX) };
                let young = grace_seconds > 0 && time >= youngest;
                let location = segment.location(offset);
                let after = from.is_some_and(|from| location >= from);
                let keep = |object, time: Option<u32>| Young { object, time, appended: after.then_some(location) };
                if after || young && rows.is_empty() {
                    let time = (young && rows.is_empty()).then_some(time);
                    self.each_record(segment, offset, frame, &mut |object| kept.push(keep(object, time)))?;
                }
                if young {
                    kept.extend(rows.into_iter().map(|object| keep(object, Some(time))));
                }
                Ok(())
            })?;
        }
        Ok(kept)
    }

    /// Calls `each` for every frame between two offsets of a segment, with the objects that its moves of refs name.
    fn each_frame(&self, segment: &Segment, from: u64, to: u64, each: &mut EachFrame<'_>) -> Result<(), Error> {
        let failed = |error| self.view.io(&segment.name, error);
        let mut walk = FrameWalk::new(segment, self.view.header.salt, from, to);
        while let Some(step) = walk.step().map_err(failed)? {
            let FrameStep::Frame { offset, frame, head } = step else {
                let reason = "there is no sound frame here; nothing is removed before that is mended";
                return Err(self.view.corrupt(&segment.name, from, reason));
            };
            let payload = if frame.kind == FrameKind::Batch && frame.payload_bytes > 0 {
                segment.payload(offset, &frame, &head).map_err(failed)?
            } else {
                None
            };
            let rows = payload.and_then(|(payload, _)| take_refs(&payload)).unwrap_or_default();
            let targets = rows.into_iter().filter_map(|(_, target)| match target {
                Some(RefTarget::Object(at)) => Some(at),
                _ => None,
            });
            each(offset, &frame, targets.collect())?;
        }
        Ok(())
    }

    /// Calls `each` for every record of a frame.
    fn each_record(
        &self,
        segment: &Segment,
        offset: u64,
        frame: &Frame,
        each: &mut dyn FnMut(ObjRef),
    ) -> Result<(), Error> {
        let failed = |error| self.view.io(&segment.name, error);
        let mut damaged = None;
        let stopped = each_record(segment, offset, u64::from(frame.record_bytes), &mut |at, record, bytes| match (
            Oid::new(record.oid),
            record.verify(bytes),
        ) {
            (Ok(oid), Ok(())) => each(ObjRef::new(oid, Location(segment.location(at)))),
            _ => damaged = Some(at),
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
    fn choose(&mut self, snapshot: &dyn Snapshot, limits: &SweepLimits) -> Result<Swept, Error> {
        let dead = self.dead()?;
        let all = Swept { objects: dead.len() as u64, bytes: dead.iter().map(|dead| dead.2).sum(), more: false };
        if all.objects <= limits.objects && all.bytes <= limits.bytes {
            return Ok(all);
        }
        let oids: Vec<Oid> = dead.iter().map(|dead| dead.0).collect();
        let (chosen, swept) = self.roots.choose(snapshot, &oids, limits)?;
        let chosen: BTreeSet<Oid> = chosen.into_iter().collect();
        let left = dead.iter().filter(|dead| !chosen.contains(&dead.0)).map(|dead| ObjRef::new(dead.0, dead.1));
        let left: Vec<ObjRef> = left.collect();
        self.kept.extend(left.iter().copied());
        self.mark(left)?;
        Ok(swept)
    }

    /// Returns the objects of emptied segments that are not marked, each once: id, place, and bytes of the record.
    fn dead(&self) -> Result<Vec<(Oid, Location, u64)>, Error> {
        let (mut dead, mut live) = (Vec::new(), Vec::new());
        for number in self.view.table.all_numbers().into_iter().filter(|&number| number < self.cut || number >= COLD) {
            let Some(segment) = self.view.segment(number)? else { continue };
            let failed = |error| self.view.io(&segment.name, error);
            let ids = self.view.ids(segment)?;
            let index = ids.surveyed.get().and_then(|known| known.instead.as_ref()).unwrap_or(&ids.index);
            for (prefix, offset) in index.entries().map_err(failed)? {
                let at = segment.location(u64::from(offset));
                if self.live.is_marked(at) {
                    live.push(prefix);
                    continue;
                }
                let header = segment.bytes_at(u64::from(offset), RECORD_HEADER_BYTES as u64).map_err(failed)?;
                if let Some(header) = RecordHeader::first(&header)
                    && let Some(oid) = header.oid().and_then(|oid| Oid::new(oid).ok())
                {
                    dead.push((oid, Location(at), header.bytes()));
                }
            }
        }
        // Copies of what is live, and of each other, are no objects that go.
        live.sort_unstable();
        dead.retain(|dead| live.binary_search(&dead.0.prefix()).is_err());
        if dead.len() <= APART_MAX {
            dead.sort_unstable();
            dead.dedup_by_key(|dead| dead.0);
        }
        Ok(dead)
    }

    /// Copies what is marked.
    fn copy_marked(&mut self) -> Result<(), Error> {
        for at in self.refs.clone().into_iter().chain(std::mem::take(&mut self.kept)) {
            self.copy(at)?;
        }
        Ok(())
    }

    /// Copies an object with all below it, children first, unless that was done.
    fn copy(&mut self, root: ObjRef) -> Result<(), Error> {
        let mut open: Vec<OpenObject> = Vec::new();
        open.extend(self.open(&root)?);
        while let Some(top) = open.last_mut() {
            if top.children.is_none() {
                let (oid, at) = (top.oid, top.at);
                let children = self.reopen(&oid, at)?;
                open.last_mut().into_iter().for_each(|top| top.children = Some(children.clone()));
                continue;
            }
            let next = top.children.as_ref().and_then(|children| children.get(top.next)).copied();
            top.next += 1;
            match next {
                Some(child) => {
                    if let Some(child) = self.open(&child)? {
                        let depth = open.len();
                        if depth >= OPEN_MAX {
                            open[depth - OPEN_MAX].children = None;
                        }
                        open.push(child);
                    }
                }
                None => {
                    let Some(done) = open.pop() else { break };
                    self.write(&done.oid, done.at, &done.children.unwrap_or_default())?;
                }
            }
        }
        Ok(())
    }

    /// Returns an object that is to be copied; `None` if it was copied, stays where it is or is not there.
    fn open(&self, wanted: &ObjRef) -> Result<Option<OpenObject>, Error> {
        let Some(object) = self.find(wanted)? else { return Ok(None) };
        let at = object.location();
        if self.live.place(at.0).is_some() {
            return Ok(None);
        }
        let children = Some(self.children(&wanted.oid, &object)?);
        Ok(Some(OpenObject { oid: wanted.oid, at, next: 0, children }))
    }

    fn reopen(&self, oid: &Oid, at: Location) -> Result<Vec<ObjRef>, Error> {
        match self.find(&ObjRef::new(*oid, at))? {
            Some(object) => self.children(oid, &object),
            None => Ok(Vec::new()),
        }
    }

    /// Returns where a child of something that was copied is from now on.
    fn place_of(&self, child: &ObjRef) -> Result<Location, Error> {
        let place = |at: Location| self.live.place(at.0).map(Location);
        let hinted = child.at.is_some() && child.at.pending_offset().is_none() && self.live.covers(child.at.0);
        if hinted && let Some(object) = self.view.find_at(child)? {
            return Ok(place(object.location()).unwrap_or(Location::NONE));
        }
        Ok(self
            .view
            .find_below(&child.oid, self.cut)?
            .and_then(|object| place(object.location()))
            .unwrap_or(Location::NONE))
    }

    /// Writes the copy of an object whose children were copied.
    fn write(&mut self, oid: &Oid, at: Location, children: &[ObjRef]) -> Result<(), Error> {
        let missing = || self.view.damaged(oid, at, "the segment has vanished".to_owned());
        let segment = self.view.segment((at.0 >> 32) as u32)?.ok_or_else(missing)?;
        let failed = |error| self.view.io(&segment.name, error);
        let offset = at.0 & 0xffff_ffff;
        let header = segment.bytes_at(offset, RECORD_HEADER_BYTES as u64).map_err(failed)?;
        let span = RecordHeader::first(&header).ok_or_else(missing)?;
        let (bytes, named) = (span.bytes(), span.children() as usize);
        let record = segment.bytes_at(offset, bytes).map_err(failed)?;
        let places: Result<Vec<Location>, Error> =
            children.iter().take(named).map(|child| self.place_of(child)).collect();
        let places = places?;
        if self.writer.as_ref().is_some_and(|writer| writer.bytes() + bytes > COLD_BYTES_MAX) {
            self.finish_segment()?;
        }
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => {
                let writer = ColdWriter::new(&self.view.storage, self.view.header.salt, self.next_number)?;
                self.next_number += 1;
                none.insert(writer)
            }
        };
        let place = writer.put(oid, &record, &places)?;
        self.live.put(at.0, place.0);
        Ok(())
    }

    /// Ends the cold segment that is being written, if one is.
    fn finish_segment(&mut self) -> Result<(), Error> {
        if let Some(writer) = self.writer.take() {
            self.done.push(writer.finish()?);
        }
        Ok(())
    }

    /// Goes through what was appended meanwhile up to a location, and copies what it names.
    fn follow(&mut self, end: u64) -> Result<(), Error> {
        let mut named: Vec<ObjRef> = self.view.state.pins.roots().into_iter().map(ObjRef::from).collect();
        while self.followed < end {
            let number = (self.followed >> 32) as u32;
            let last = end >> 32 == u64::from(number);
            let Some(segment) = self.view.segment(number)? else {
                let name = segment_name(number);
                return Err(self.view.corrupt(&name, 0, "the segment has vanished"));
            };
            let from = (self.followed & 0xffff_ffff).max(segment.frames_at());
            let to = if last { end & 0xffff_ffff } else { segment.bytes };
            let mut objects = Vec::new();
            self.each_frame(segment, from, to, &mut |offset, frame, rows| {
                named.extend(rows);
                self.each_record(segment, offset, frame, &mut |object| objects.push(object))
            })?;
            for object in objects {
                let Some(found) = self.view.find_at(&object)? else { continue };
                named.extend(self.children(&object.oid, &found)?);
            }
            self.followed = if last { end } else { self.view.after(number)? << 32 };
        }
        for at in named {
            // What was appended since the collection began stays where it is.
            let here = at.at.is_some() && at.at.pending_offset().is_none() && at.at.0 < COLD_LOCATION;
            if here && (at.at.0 >> 32) as u32 >= self.cut && self.view.find_at(&at)?.is_some() {
                continue;
            }
            self.copy(at)?;
        }
        Ok(())
    }

    /// Returns the state that the collection leaves.
    fn state(&self) -> StoreState {
        let before = &self.view.table.state;
        StoreState {
            epoch: before.epoch + 1,
            check: 0,
            base: self.cut,
            cold: self.done.clone().into(),
            graced: self.graced.clone().into(),
            ..before.clone()
        }
    }

    /// Returns moves of refs to where their objects are now.
    fn moved_refs(&self) -> Vec<u8> {
        let mut rows = Vec::new();
        for (name, target) in &*self.view.published.refs() {
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
