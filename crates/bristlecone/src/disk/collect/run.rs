//! A sweep from its beginning to its end: one collection, or several where the log is emptied in parts, and what is rewritten.

use std::cell::Cell;

use super::{Collection, LogFront, SettledOids, pace::Pace, parts::MovedParts};
use crate::{
    Error,
    backend::{Position, Roots, SweepLimits, SweepStatus, SweepStep, Swept},
    disk::{
        lock::CollectorLock,
        log::{DiskState, LogWriter},
        segment::COLD,
        snapshot::DiskSnapshot,
        walk::{FrameStep, FrameWalk},
    },
    sync::{
        atomic::{AtomicU32, Ordering::*},
        lock,
    },
};

/// Ends what counts as a collection that is under way.
struct Over<'s>(&'s AtomicU32);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(0, Relaxed);
    }
}

/// What the collections of one sweep share.
pub(super) struct SweepRun<'s> {
    // Until the log is emptied.
    pub(super) snapshot: Option<DiskSnapshot>,
    pub(super) roots: &'s Roots<'s>,
    pub(super) limits: &'s SweepLimits,
    pub(super) collector: &'s CollectorLock,
    pub(super) pace: Pace,
    pub(super) settled: SettledOids,
    pub(super) moved: MovedParts,
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
    pub(super) fn take_back(&mut self, collection: &mut Collection<'_, '_>) {
        self.settled = std::mem::take(&mut collection.settled);
        self.moved = std::mem::take(&mut collection.parts);
        self.pace = std::mem::replace(&mut collection.pace, Pace::new(u64::MAX));
        self.pace.hurry(false);
    }
}

impl DiskState {
    /// Drops what nothing leads to.
    pub(in crate::disk) fn sweep(
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
        self.swept_to.store(front.cut, Relaxed);
        let _over = Over(&self.swept_to);
        let ended = Cell::new(false);
        let watch = |status: &SweepStatus| roots.tell(status).inspect_err(|_| ended.set(true));
        let roots = roots.unwatched().watch(&watch);
        let mut run = SweepRun::new(snapshot, &roots, limits, &collector);
        let mut dropped = Swept::default();
        match self.run_sweep(&mut run, front, &mut dropped) {
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
        let (cut, start, refs) = begun.ok_or(Error::Unanswered)?;
        LogFront::new(cut, start, refs)
    }

    /// Collects, in parts if need be, and rewrites cold segments with much garbage; `dropped` is what went so far.
    fn run_sweep(&self, run: &mut SweepRun<'_>, mut front: LogFront, dropped: &mut Swept) -> Result<(), Error> {
        run.settled = self.take_settled();
        self.expire_snapshots();
        let (all, part_bytes) = self.collect(run, &mut front, true)?;
        if let Some(part_bytes) = part_bytes {
            self.collect_parts(run, front.cut, part_bytes, dropped)?;
            self.collect(run, &mut front, false)?;
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
    fn collect(
        &self,
        run: &mut SweepRun<'_>,
        front: &mut LogFront,
        may_part: bool,
    ) -> Result<(Swept, Option<u64>), Error> {
        let (table, limits) = (self.table(), run.limits);
        let partial = limits.partial && table.state.whole.is_some() || limits.if_due && !self.wants_whole();
        // Under the lock of the collector, so what is absent stays as it is, and so do the rules. Refs that move from here on are met
        // in frames.
        let commits = run.roots.cut.map_or(Ok(None), |rules| rules.cut())?;
        if limits.recent_stays
            && let Some(cut) = &commits
            && let Some(older) = self.older_front(cut, front.cut)?
        {
            *front = older;
        }
        let mut collection = Collection::begin(self.view(&table), run.roots, run, commits.as_ref(), front, partial)?;
        collection.mark_all(std::mem::take(&mut front.targets), limits)?;
        let mut swept = collection.choose(limits)?;
        swept.commits = collection.cut_count();
        let nothing = swept.objects == 0 && (partial || collection.absent(&|_| Ok(false))? == table.state.absent);
        let part_bytes =
            if may_part && !nothing && !limits.dry_run { self.part_bytes(&collection, limits) } else { None };
        if limits.dry_run || part_bytes.is_some() {
            front.targets = std::mem::take(&mut collection.refs);
            run.take_back(&mut collection);
            return Ok((swept, part_bytes));
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
    pub(super) fn copy_and_announce(
        &self,
        collection: &mut Collection<'_, '_>,
        run: &SweepRun<'_>,
    ) -> Result<(), Error> {
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
    fn take_settled(&self) -> SettledOids {
        let (known, settled) = std::mem::take(&mut *lock(&self.settled));
        if known == self.tables.epoch() { settled } else { SettledOids::default() }
    }

    /// Ends what snapshots keep for longer than their limit.
    fn expire_snapshots(&self) {
        if let Some(limit) = self.table().state.snapshot_limit() {
            let before = self.tables.expired_before(&|time| limit.has_passed(time));
            self.pins.expire(Position(before));
        }
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
