//! Collecting garbage: live objects go to cold segments, then the segments in which they were are removed.
//!
//! **The order**, on which safety rests:
//!
//! 1. The log goes on in a new segment. Everything before it is *emptied*; what is appended from here on stays where it is.
//! 2. What is live there and in cold segments is marked; what of it is in the log is copied to new cold segments, children
//!    before parents. Meanwhile other threads and processes read and append.
//! 3. What they appended is gone through, frame by frame: whatever it names that is to be emptied is copied as well, and what it
//!    names in cold segments marked, so an object that an append left out because the store had it is live, with all below it.
//! 4. Cold segments stay, each with a file that says what of it is live: the rest is *dead*. It may name what is gone, so from the
//!    new state on no lookup finds it (`marks.rs`).
//! 5. Under the store's lock, once nothing more was appended that was not gone through, a frame announces the new state.
//! 6. After that frame is durable, and once no process reads by an older state, the emptied segments are removed.
//! 7. Cold segments with much garbage are rewritten, one after the other, each by a state of its own (`rewrite.rs`).
//!
//! *In parts.* Where a copy of all that is live in the log would take most of the room that is free, the log is emptied from its
//! beginning, a part at a time, each as of when it ended (`parts.rs`).
//!
//! An append that was built by an older state looks again, under the lock, for what it left out (`group.rs`).
//!
//! *In part or whole.* A collection that the store begins by itself lets the cold segments be, with all that is live in them so
//! far: it costs what is new. Once these have grown by a share, or now and then, and whenever somebody asks, a collection marks
//! what is in them, too.
//!
//! *Closed.* The children of each record of the log lie in segments before it, or in cold ones; those of a live record of a cold
//! segment are live, there or in any other cold one. A collection keeps that so: it looks for the children of what it copies only
//! in what is emptied and in cold segments.

mod announce;
mod copy;
mod emptied;
mod files;
mod mark;
mod pace;
mod parts;
mod recent;
mod repeated;
mod rewrite;
mod settled;
mod young;

use std::cell::{Cell, RefCell};

use bristlecone_core::{Kind, Location, ObjRef, Object, Oid};

pub(super) use self::settled::SettledOids;
use self::{
    files::NewFiles, mark::Marked, pace::Pace, parts::MovedParts, recent::RecentOids, repeated::RepeatedChildren,
    settled::places,
};
use super::{
    files::segment_name,
    live::{LIVE_WORD_BYTES, LiveSet},
    lock::CollectorLock,
    log::{DiskState, LogWriter},
    read::Probe,
    roll::now_seconds,
    segment::COLD,
    snapshot::DiskSnapshot,
    state::StoreState,
    view::DiskView,
    walk::{FrameStep, FrameWalk},
};
use crate::{
    Error,
    backend::{Cut, Position, Roots, SweepLimits, SweepStatus, SweepStep, Swept},
    oid_map::OidMap,
    sync::{atomic::Ordering::*, lock},
};

/// Of so many objects that were found by their ids it is remembered where they are.
const MOVED_MAX: usize = 1 << 18;
/// Bytes that the copy of an object takes beside its record: in the index of its segment.
const COPIED_BYTES: u64 = 16;

impl DiskState {
    /// Drops what nothing leads to.
    pub(super) fn sweep(
        &self,
        snapshot: DiskSnapshot,
        roots: &Roots<'_>,
        limits: &SweepLimits,
    ) -> Result<Swept, Error> {
        if self.lock.is_none() {
            return Err(Error::ReadOnly);
        }
        let collector = self.collector(if limits.if_due { 0 } else { self.options.lock_wait_ms });
        let collector = match collector {
            Err(Error::Locked { .. }) if limits.if_due => {
                self.leave_to_other();
                return Ok(Swept::default());
            }
            collector => collector?,
        };
        if limits.if_due {
            self.refresh()?;
            if self.published.end() < self.due_at.load(Relaxed) {
                return Ok(Swept::default());
            }
            self.begin_due();
        }
        let front = self.begin_sweep(limits)?;
        let ended = Cell::new(false);
        let watch = |status: &SweepStatus| roots.tell(status).inspect_err(|_| ended.set(true));
        let roots = roots.unwatched().watch(&watch);
        let mut run = SweepRun::new(snapshot, &roots, limits, &collector);
        let mut dropped = Swept::default();
        match self.run_sweep(&mut run, &front, &mut dropped) {
            // What was dropped stays so, and what is left is for the next collection.
            Err(_) if ended.get() && dropped.objects > 0 => dropped.more = true,
            done => done?,
        }
        Ok(dropped)
    }

    /// Makes all that was appended durable, and the log go on in a segment before which all is to be emptied.
    fn begin_sweep(&self, limits: &SweepLimits) -> Result<LogFront, Error> {
        // Much may wait to be synced, and commits do not wait for that.
        self.sync_to(self.published.end())?;
        let mut begun = None;
        self.locked(|log| {
            if log.tail.version < 2 {
                let reason = "this store is of version 1 of the disk engine, which removes nothing; an upgrade makes it one of version 2";
                return Err(Error::Usage { reason });
            }
            // Whoever recovers the store may begin no further back than at the first segment that stays, so all before that is made
            // durable first.
            let ahead = self.tail_segment(&log.tail)?.head.is_some_and(|head| head.ahead);
            if ahead || self.holds_records(log)? {
                self.roll_durably(log)?;
            }
            begun = Some((log.tail.segment, log.tail.location(), self.published.refs().rows("")));
            Ok(())
        })?;
        if !limits.dry_run {
            // What one that was killed has copied takes room, which this one may lack. What cannot be removed now is tried again.
            let _ = self.remove_emptied();
        }
        let (cut, start, mut refs) = begun.ok_or(Error::Unanswered)?;
        let mut front = LogFront { cut, start, targets: Vec::new() };
        while let Some(target) = refs.next_object()? {
            front.targets.push(target);
        }
        Ok(front)
    }

    /// Collects, in parts if need be, and rewrites cold segments with much garbage; `dropped` is what went so far.
    fn run_sweep(&self, run: &mut SweepRun<'_>, front: &LogFront, dropped: &mut Swept) -> Result<(), Error> {
        {
            let table = self.table();
            run.settled = self.take_settled(&table.state);
            if let Some(limit) = table.state.snapshot_limit() {
                let before = self.tables.expired_before(&|time| limit.has_passed(time));
                self.pins.expire(Position(before));
            }
        }
        let (all, part_bytes) = self.collect(run, front, true)?;
        if let Some(part_bytes) = part_bytes {
            self.collect_parts(run, front.cut, part_bytes, dropped)?;
            self.collect(run, front, false)?;
        }
        *dropped = all;
        if !run.limits.dry_run {
            self.rewrite(run)?;
            // What is live of cold segments is now what this collection found so.
            *lock(&self.settled) = (self.tables.epoch(), std::mem::take(&mut run.settled));
        }
        Ok(())
    }

    /// Empties the log, and marks what is live of cold segments unless limits have that left; returns what was dropped. Where the
    /// log is to be emptied in parts before, and that may be, it is said how many bytes at a time, and nothing else is done.
    fn collect(&self, run: &mut SweepRun<'_>, front: &LogFront, may_part: bool) -> Result<(Swept, Option<u64>), Error> {
        let (table, limits) = (self.table(), run.limits);
        let partial = limits.partial && table.state.whole.is_some() || limits.if_due && !self.wants_whole();
        // Under the lock of the collector, so what is absent stays as it is, and so do the rules. Refs that move from here on are met
        // in frames.
        let commits = run.roots.cut.map_or(Ok(None), |rules| rules.cut())?;
        let mut collection = Collection::begin(self.view(&table), run.roots, run, commits.as_ref(), front, partial)?;
        collection.mark_all(front.targets.clone(), limits)?;
        let mut swept = collection.choose(limits)?;
        swept.commits = collection.cut_count();
        let nothing = swept.objects == 0 && (partial || collection.absent(&|_| Ok(false))? == table.state.absent);
        let part_bytes = if may_part && !nothing { self.part_bytes(&collection, limits) } else { None };
        if limits.dry_run || part_bytes.is_some() {
            run.take_back(&mut collection);
            return Ok((swept, part_bytes.filter(|_| !limits.dry_run)));
        }
        if !nothing {
            self.copy_and_announce(&mut collection, run)?;
            swept.commits = collection.cut_count();
        }
        run.take_back(&mut collection);
        drop(collection);
        drop(table);
        // By it, too, something is read that was emptied.
        run.snapshot.take().into_iter().for_each(DiskSnapshot::end);
        if !nothing {
            // It is an estimate, and an old one does no harm.
            let _ = self.forget_bytes(if limits.grace == 0 { u64::MAX } else { swept.bytes });
            // When the state was named, it was still counted.
            self.look_for_garbage();
            self.remove_emptied()?;
        }
        Ok((swept, None))
    }

    /// Copies what is marked, and makes that the state of the store.
    fn copy_and_announce(&self, collection: &mut Collection<'_, '_>, run: &SweepRun<'_>) -> Result<(), Error> {
        self.check_free(collection.room(), || 0)?;
        collection.live.count(COLD);
        collection.settled.make_room(collection.live_objects);
        collection.pace.begin(SweepStep::Copy);
        let done = collection.copy_marked().and_then(|()| self.announce(collection, run.collector, run.limits.if_due));
        if let Err(error) = done {
            // Another collection may be what was in the way, and files of these names may be its own by now.
            let lost = run.collector.check().err();
            collection.files.announced |= lost.is_some();
            return Err(lost.unwrap_or(error));
        }
        *lock(&self.held) = std::mem::take(&mut collection.held);
        self.copied_percent.store(collection.copied_percent(), Relaxed);
        Ok(())
    }

    /// Takes what the last collection remembered, if nothing has changed the store's state since.
    fn take_settled(&self, state: &StoreState) -> SettledOids {
        let (known, settled) = std::mem::take(&mut *lock(&self.settled));
        if known == state.epoch { settled } else { SettledOids::default() }
    }

    /// Changes what of the state says nothing of segments, durably; nothing if `change` returns false. Returns what it returned.
    pub(super) fn change_state(&self, change: impl FnOnce(&mut StoreState) -> bool) -> Result<bool, Error> {
        if self.lock.is_none() {
            return Err(Error::ReadOnly);
        }
        let collector = self.collector(self.options.lock_wait_ms)?;
        let mut end = None;
        self.locked(|log| {
            if log.tail.version < 2 {
                let reason = "this store is of version 1 of the disk engine, which keeps everything; an upgrade makes it one of version 2";
                return Err(Error::Usage { reason });
            }
            let mut state = self.table().state.clone();
            (state.epoch, state.check, state.time) = (state.epoch + 1, 0, now_seconds());
            if change(&mut state) {
                self.write_state(&collector, &mut state)?;
                self.write_named(log, state.reference(), &[])?;
                end = Some(log.tail.location());
            }
            Ok(())
        })?;
        end.map_or(Ok(false), |end| self.sync_to(end).map(|()| true))
    }

    /// Takes the lock of the collector: one at a time, and others wait for their turn as long as for the store's lock.
    fn collector(&self, wait_ms: u64) -> Result<CollectorLock, Error> {
        CollectorLock::take(&self.storage, wait_ms)
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
}

/// A part of the log, from its beginning on, as of a moment.
struct LogFront {
    /// The first segment that stays.
    cut: u32,
    /// Where what is appended later begins.
    start: u64,
    /// What refs held.
    targets: Vec<ObjRef>,
}

/// What the collections of one sweep share.
struct SweepRun<'s> {
    // Until the log is emptied.
    snapshot: Option<DiskSnapshot>,
    roots: &'s Roots<'s>,
    limits: &'s SweepLimits,
    collector: &'s CollectorLock,
    pace: Pace,
    settled: SettledOids,
    moved: MovedParts,
}

impl<'s> SweepRun<'s> {
    fn new(
        snapshot: DiskSnapshot,
        roots: &'s Roots<'s>,
        limits: &'s SweepLimits,
        collector: &'s CollectorLock,
    ) -> Self {
        let (settled, moved) = Default::default();
        Self { snapshot: Some(snapshot), roots, limits, collector, pace: Pace::new(limits.rate), settled, moved }
    }

    /// Takes back from a collection that is done what it had of this.
    fn take_back(&mut self, collection: &mut Collection<'_, '_>) {
        self.settled = std::mem::take(&mut collection.settled);
        self.moved = std::mem::take(&mut collection.parts);
        self.pace = std::mem::replace(&mut collection.pace, Pace::new(u64::MAX));
        self.pace.hurry(false);
    }
}

/// A collection under way.
struct Collection<'a, 'r> {
    view: DiskView<'a>,
    roots: &'r Roots<'r>,
    // The commits that go although others name them.
    commits: Option<&'r Cut>,
    // The first segment of the log that stays.
    cut: u32,
    // Whether the cold segments stay with all that is live in them so far.
    partial: bool,
    // How far what was appended since is gone through.
    followed: u64,
    // What was named there and gone through, as far as it is remembered.
    followed_oids: RecentOids,
    followed_children: RepeatedChildren,
    // What marking came to, until copying begins.
    marked: Marked,
    // What objects name that were copied, and where that went.
    copied_children: RepeatedChildren,
    // How many ids are remembered at a time.
    places: usize,
    // What is known to lie in cold segments and to stay.
    settled: SettledOids,
    // Where objects went that were in parts of the log that this sweep has emptied.
    parts: MovedParts,
    // Where other objects are that were found by their ids.
    moved: RefCell<OidMap<Location>>,
    live: LiveSet,
    files: NewFiles<'a>,
    // Whether something in cold segments was found to be live since the last state was made.
    revived: bool,
    // What the cut had told when the last state was made: `Cut::changes`.
    changes: usize,
    refs: Vec<ObjRef>,
    // The objects that were marked, and the bytes of their records; and what of that is to be copied.
    live_objects: u64,
    live_bytes: u64,
    copied_objects: u64,
    copied_bytes: u64,
    // What is copied beside what is live, since limits leave it.
    kept: Vec<ObjRef>,
    // What the grace keeps, and when it was written.
    graced: Vec<(u32, Oid)>,
    // What is kept for snapshots alone.
    held: Vec<Held>,
    pace: Pace,
}

/// An object that a collection kept for a snapshot that is older than it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    /// Where it was appended.
    appended: u64,
    oid: Oid,
}

impl<'a, 'r> Collection<'a, 'r> {
    /// Begins the collection of a part of the log, and of cold segments unless it is `partial`; what it needs of a sweep goes back by
    /// [`SweepRun::take_back`].
    fn begin(
        view: DiskView<'a>,
        roots: &'r Roots<'r>,
        run: &mut SweepRun<'_>,
        commits: Option<&'r Cut>,
        front: &LogFront,
        partial: bool,
    ) -> Result<Self, Error> {
        let (mut emptied, places) = (Vec::new(), places(view.table.state.live_objects()));
        let goes = |number: &u32| *number < front.cut || *number >= COLD && !partial;
        for number in view.table.all_numbers().into_iter().filter(goes) {
            let Some(segment) = view.segment(number)? else {
                let name = segment_name(number);
                return Err(view.corrupt(&name, 0, "the segment is missing; nothing is removed before that is mended"));
            };
            emptied.push((number, segment.bytes));
        }
        let mut settled = std::mem::take(&mut run.settled);
        settled.begin(!partial, view.table.state.live_objects());
        let mut pace = std::mem::replace(&mut run.pace, Pace::new(u64::MAX));
        pace.begin(SweepStep::Mark);
        Ok(Self {
            view,
            roots,
            commits,
            cut: front.cut,
            partial,
            followed: front.start,
            followed_oids: RecentOids::with_places(places),
            followed_children: RepeatedChildren::default(),
            marked: Marked::with_places(places),
            copied_children: RepeatedChildren::default(),
            places,
            settled,
            parts: std::mem::take(&mut run.moved),
            moved: RefCell::default(),
            live: LiveSet::new(emptied),
            files: NewFiles::new(view)?,
            revived: false,
            changes: 0,
            refs: Vec::new(),
            live_objects: 0,
            live_bytes: 0,
            copied_objects: 0,
            copied_bytes: 0,
            kept: Vec::new(),
            graced: Vec::new(),
            held: Vec::new(),
            pace,
        })
    }

    /// Whether a location lies in a cold segment.
    fn is_cold(&self, at: Location) -> bool {
        let number = (at.0 >> 32) as u32;
        at.is_some() && number >= COLD && self.view.table.has(number)
    }

    /// Whether a location lies in a cold segment that stays with all that is live in it so far.
    fn stays(&self, at: Location) -> bool {
        self.partial && self.is_cold(at)
    }

    /// Returns how many bytes the collection takes until what it empties is removed.
    fn room(&self) -> u64 {
        let cold = if self.partial { 0 } else { self.view.table.state.cold_bytes() };
        self.copied_bytes + COPIED_BYTES * self.copied_objects + cold.div_ceil(LIVE_WORD_BYTES) * 8
    }

    /// Whether something is to be kept that the last state did not say, or something may be absent that it did not.
    fn has_more(&self) -> bool {
        self.files.is_writing() || self.revived || self.commits.is_some_and(|cut| cut.changes() != self.changes)
    }

    /// Returns the segments of the log that it empties, and their lengths.
    fn log_segments(&self) -> impl Iterator<Item = (u32, u64)> {
        self.live.segments().filter(|(number, _)| *number < COLD)
    }

    /// Returns how much of what it empties of the log a collection copies, in percent.
    fn copied_percent(&self) -> u8 {
        let emptied: u64 = self.log_segments().map(|(_, bytes)| bytes).sum();
        (self.copied_bytes.min(emptied) * 100).checked_div(emptied).unwrap_or(0) as u8
    }

    /// Returns how many commits go although others name them.
    fn cut_count(&self) -> u64 {
        self.commits.map_or(0, |cut| cut.dropped().count() as u64)
    }

    /// Whether nothing is left to do about an object: it was copied, or stays where it is.
    fn is_settled(&self, object: &ObjRef) -> bool {
        let at = object.at;
        if !at.is_some() || at.pending_offset().is_some() {
            return false;
        }
        let number = (at.0 >> 32) as u32;
        let settled = (self.cut..COLD).contains(&number) || self.place(at).is_some();
        settled && self.view.is_at(&object.oid, at)
    }

    /// Returns an object of what was there before the collection began; `None` if it is not there.
    fn find(&self, wanted: &ObjRef) -> Result<Option<Object<'a>>, Error> {
        let hint = wanted.at;
        let covered = hint.is_some() && hint.pending_offset().is_none() && self.live.covers(hint.0);
        let elsewhere = || {
            let moved = || self.moved.borrow().get(&wanted.oid).copied();
            self.parts.place(hint.0).map(Location).or_else(|| self.settled.place(&wanted.oid)).or_else(moved)
        };
        let known = if covered || self.stays(hint) { Some(hint) } else { elsewhere() };
        if let Some(at) = known {
            match self.view.probe(&wanted.oid, at)? {
                Probe::Found(object) => return Ok(Some(object)),
                Probe::Other | Probe::Dead => {}
                Probe::Bad(reason) => {
                    let again = self.view.find_below(wanted, self.cut).ok().flatten();
                    return again.map(Some).ok_or_else(|| self.view.damaged(&wanted.oid, at, reason));
                }
            }
        }
        let found = self.view.find_below(wanted, self.cut)?;
        if let Some(found) = &found {
            let mut moved = self.moved.borrow_mut();
            if moved.len() >= MOVED_MAX {
                moved.clear();
            }
            moved.insert(wanted.oid, found.location());
        }
        Ok(found)
    }

    /// Returns what an object names, with the places that it knows; `None` for what is cut.
    fn children(&self, oid: &Oid, object: &Object<'_>) -> Result<Vec<Option<ObjRef>>, Error> {
        let mut children = Vec::with_capacity(object.children());
        let cut = self.commits.filter(|_| object.kind() == Kind::Commit);
        let mut each = |child: Oid| {
            let at = self.parts.child_place(object, children.len());
            let stays = cut.is_none_or(|cut| !cut.passes_over(oid, &child));
            children.push(stays.then(|| ObjRef::new(child, at)));
        };
        (self.roots.children)(oid, object, &mut each)?;
        Ok(children)
    }
}
