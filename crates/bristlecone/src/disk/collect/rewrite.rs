//! Rewriting cold segments in which much is dead, and putting small ones together, one after the other.
//!
//! What is live stays so, and nothing else changes: a state says which of the records are live before the first of them is
//! rewritten, and an append reuses no others. So nothing is marked here, and nothing that was appended is gone through. Each step
//! copies what is live of a few segments to a new one, announces a state that has that in their place, and removes them as far as
//! nothing reads by an older state. A process that is killed leaves a sound store, and the next collection goes on.

use std::{
    collections::VecDeque,
    thread,
    time::{Duration, Instant},
};

use bristlecone_core::{Bytes, Location, ObjRef, Object, Oid, RECORD_HEADER_BYTES, Record, RecordHeader};

use super::{COPIED_BYTES, SettledOids, files::NewFiles, pace::Pace, run::SweepRun};
use crate::{
    Error,
    backend::{RefTarget, Roots, SweepLimits, SweepStep},
    disk::{
        cold::COLD_HEAD_BYTES,
        files::segment_name,
        frame::put_ref,
        lock::CollectorLock,
        log::DiskState,
        roll::now_seconds,
        segment::SEGMENT_BYTES_MAX,
        state::{ColdSegment, StoreState},
        view::DiskView,
    },
    sync::atomic::Ordering::*,
};

/// A share of this of what is live, and a segment of the log at least, is rewritten at a time.
const STEP_SHARE: u64 = 8;
/// So many steps are done at a time while another collection is due.
const STEPS_IN_TURN: usize = 2;
/// A segment joins those that are put together unless it is longer than so many times what they have so far.
const JOINED_TIMES: u64 = 4;
/// So many small segments are put together at least where nobody asked for it.
const JOINED_MIN: usize = 4;
/// A collection in part leaves this share of garbage at least, in percent.
const SLACK_IN_PART: u8 = 15;
/// Of so many objects it is known at a time where they went: 12 bytes each.
const MOVED_MAX: usize = 4 << 20;
/// For how long it is waited for readers of what was emptied before no more is; and before more is that leaves enough room.
const READERS_WAIT: Duration = Duration::from_secs(1);
const READERS_WAIT_MIN: Duration = Duration::from_millis(30);
const READERS_PAUSE: Duration = Duration::from_millis(10);
/// At most so many bytes of refs get the new places of their objects; others are found by their ids.
pub(super) const ROWS_BYTES_MAX: usize = 256 << 10;

/// Where objects went that were in segments rewritten lately.
#[derive(Debug, Default)]
struct MovedObjects {
    segments: VecDeque<MovedSegment>,
    objects: usize,
}

#[derive(Debug)]
struct MovedSegment {
    number: u32,
    // Ascending, and where each went.
    from: Vec<u32>,
    to: Vec<u64>,
}

impl MovedObjects {
    fn begin(&mut self, number: u32) {
        while self.objects > MOVED_MAX
            && let Some(oldest) = self.segments.pop_front()
        {
            self.objects -= oldest.from.len();
        }
        self.segments.push_back(MovedSegment { number, from: Vec::new(), to: Vec::new() });
    }

    fn put(&mut self, offset: u64, to: Location) {
        if let Some(segment) = self.segments.back_mut() {
            segment.from.push(offset as u32);
            segment.to.push(to.0);
            self.objects += 1;
        }
    }

    /// Returns where what was at a location is by now, if it moved.
    fn place(&self, at: Location) -> Option<Location> {
        let mut place = None;
        let mut next = at;
        // Each move is to a segment with a higher number.
        while let Some(segment) = self.segments.iter().find(|segment| u64::from(segment.number) == next.0 >> 32)
            && let Ok(index) = segment.from.binary_search(&(next.0 as u32))
        {
            next = Location(segment.to[index]);
            place = Some(next);
        }
        place
    }
}

/// Returns which cold segments to rewrite next, together: those with the least of them live whose garbage is more than so many
/// percent, or else small ones; none if all are fine. What is live of them takes no more than `room`, or else there is one.
fn next_step(state: &StoreState, limits: &SweepLimits, bytes_max: u64, room: u64) -> Vec<ColdSegment> {
    let live = |cold: &ColdSegment| state.live_of(cold).1;
    let all = |cold: &ColdSegment| cold.bytes.saturating_sub(COLD_HEAD_BYTES);
    // What is looked at in part costs what is new, and goes on with what a collection of the whole did not come to.
    let slack = u128::from(if limits.partial { limits.slack.max(SLACK_IN_PART) } else { limits.slack });
    if slack >= 100 {
        return Vec::new();
    }
    let is_worth_it = |cold: &&ColdSegment| {
        let dead = all(cold).saturating_sub(live(cold));
        u128::from(dead) * 100 > u128::from(all(cold)) * slack
    };
    let take = |sorted: Vec<ColdSegment>, times: u64, sum_max: u64| {
        let (mut taken, mut sum) = (Vec::new(), 0);
        for cold in sorted {
            let bytes = live(&cold);
            if taken.is_empty() || sum + bytes <= sum_max.min(room) && bytes <= sum.saturating_mul(times) {
                taken.push(cold);
                sum += bytes;
            }
        }
        taken
    };
    let mut worst: Vec<ColdSegment> = state.cold.iter().filter(is_worth_it).copied().collect();
    if worst.iter().any(|cold| live(cold) <= room) {
        worst.retain(|cold| live(cold) <= room);
    }
    worst.sort_unstable_by_key(|cold| u128::from(live(cold)) * 1_000_000 / u128::from(all(cold).max(1)));
    if !worst.is_empty() {
        return take(worst, u64::MAX, bytes_max);
    }
    // They fit in one segment, so there are fewer in the end.
    let mut small: Vec<ColdSegment> = state.cold.iter().filter(|cold| live(cold) <= bytes_max / 2).copied().collect();
    small.sort_unstable_by_key(live);
    let joined = take(small, JOINED_TIMES, bytes_max.saturating_sub(COLD_HEAD_BYTES));
    let enough = if limits.if_due || limits.partial { JOINED_MIN } else { 2 };
    if joined.len() >= enough { joined } else { Vec::new() }
}

/// Returns how much is rewritten at a time of a store with so much in cold segments, where a segment of the log and a cold one are
/// so long: until a step is done, what it copies is there twice.
fn step_bytes(live: u64, segment: u64, cold_max: u64) -> u64 {
    (live / STEP_SHARE).max(segment).min(cold_max)
}

impl DiskState {
    /// Returns how long a cold segment becomes at most, unless one record is longer.
    pub(super) fn cold_bytes_max(&self) -> u64 {
        self.options.cold_bytes.clamp(1, SEGMENT_BYTES_MAX)
    }

    /// Rewrites cold segments with more garbage than limits leave. The caller holds the lock of the collector.
    pub(super) fn rewrite(&self, run: &mut SweepRun<'_>) -> Result<(), Error> {
        let (roots, limits, mut moved) = (run.roots, run.limits, MovedObjects::default());
        let (pace, settled) = (&mut run.pace, &mut run.settled);
        pace.begin(SweepStep::Copy);
        for done in 0.. {
            // What is left is for the collection after the one that is due.
            if limits.if_due && done >= STEPS_IN_TURN && self.published.end() >= self.due_at.load(Relaxed) {
                return Ok(());
            }
            let room = self.storage.free_bytes().ok().flatten().unwrap_or(u64::MAX);
            let state = &self.table().state;
            let bytes_max = step_bytes(state.live_bytes(), self.header.segment_bytes, self.cold_bytes_max());
            let step = next_step(state, limits, bytes_max, room);
            if step.is_empty() || limits.if_due && !self.readers_let_go(roots, pace, self.cold_bytes_max())? {
                return Ok(());
            }
            roots.tell(pace.status())?;
            self.rewrite_step(step, roots, run.collector, (&mut *pace, &mut moved, &mut *settled))?;
            self.remove_emptied()?;
        }
        Ok(())
    }

    /// Waits a little for readers of what was emptied; returns whether they keep no more than so many bytes of cold segments, and
    /// nothing at all if that is 0.
    pub(super) fn readers_let_go(&self, roots: &Roots<'_>, pace: &Pace, bytes_max: u64) -> Result<bool, Error> {
        let began = Instant::now();
        loop {
            let (kept, waited) = (self.remove_emptied()?, began.elapsed());
            let is_enough = kept <= bytes_max;
            let wait = if is_enough { READERS_WAIT_MIN } else { READERS_WAIT };
            if kept == 0 || !self.options.background || waited >= wait {
                return Ok(is_enough);
            }
            thread::sleep(READERS_PAUSE);
            roots.tell(pace.status())?;
        }
    }

    fn rewrite_step(
        &self,
        mut step: Vec<ColdSegment>,
        roots: &Roots<'_>,
        collector: &CollectorLock,
        (pace, moved, settled): (&mut Pace, &mut MovedObjects, &mut SettledOids),
    ) -> Result<(), Error> {
        let table = self.table();
        let view = self.view(&table);
        let live = step.iter().map(|cold| table.state.live_of(cold));
        let (records, bytes) = live.fold((0, 0), |sum, (records, bytes)| (sum.0 + records, sum.1 + bytes));
        self.check_free(bytes + COPIED_BYTES * records, || 0)?;
        // Children come before their parents, mostly.
        step.sort_unstable_by_key(|cold| cold.number);
        let mut rewrite = Rewrite { view, roots, pace, files: NewFiles::new(view)?, moved, settled };
        step.iter().try_for_each(|cold| rewrite.segment(cold))?;
        rewrite.files.finish_segment()?;
        let mut state = rewrite.state(&step);
        self.write_state(collector, &mut state)?;
        let mut end = 0;
        self.locked(|log| {
            if self.tables.epoch() + 1 != state.epoch {
                return Err(Error::Usage { reason: "another collection came between" });
            }
            collector.check()?;
            let rows = rewrite.moved_refs();
            self.name_state(log, state.reference(), &rows, &mut rewrite.files.announced)?;
            end = log.tail.location();
            Ok(())
        })?;
        self.sync_to(end)
    }
}

/// One step.
struct Rewrite<'a, 's> {
    view: DiskView<'a>,
    roots: &'s Roots<'s>,
    pace: &'s mut Pace,
    files: NewFiles<'a>,
    moved: &'s mut MovedObjects,
    settled: &'s mut SettledOids,
}

impl Rewrite<'_, '_> {
    /// Copies what is live of a segment.
    fn segment(&mut self, cold: &ColdSegment) -> Result<(), Error> {
        let view = self.view;
        let Some(segment) = view.segment(cold.number)? else {
            let name = segment_name(cold.number);
            return Err(view.corrupt(&name, 0, "the segment is missing; nothing is removed before that is mended"));
        };
        let failed = |error| view.io(&segment.name, error);
        let damaged = |at| {
            let reason = "there is no sound record here; nothing is removed before that is mended";
            view.corrupt(&segment.name, at, reason)
        };
        self.moved.begin(cold.number);
        let (mut at, mut copied, mut checked) = (COLD_HEAD_BYTES, 0, None);
        while at < segment.bytes {
            if segment.bytes - at < RECORD_HEADER_BYTES as u64 {
                return Err(damaged(at));
            }
            let header = segment.bytes_at(at, RECORD_HEADER_BYTES as u64).map_err(failed)?;
            let span = RecordHeader::first(&header).map(|header| header.bytes());
            let span = span.filter(|&span| span <= segment.bytes - at).ok_or_else(|| damaged(at))?;
            let is_live = segment.is_next_live(at, &mut checked);
            if is_live.map_err(|error| view.unmarked(segment, error))? {
                let bytes = segment.bytes_at(at, span).map_err(failed)?;
                let record = Record::parse(&bytes).ok().filter(|record| record.verify(&bytes).is_ok());
                let record = record.filter(|record| record.bytes() == span).ok_or_else(|| damaged(at))?;
                let oid = Oid::new(record.oid).map_err(|_| damaged(at))?;
                let object = Object::from_record(&record, Bytes::Borrowed(&bytes), Location(segment.location(at)));
                let places = self.places(&oid, &object)?;
                let place = self.files.put(&oid, &bytes, &places)?;
                self.moved.put(at, place);
                self.settled.moved(&oid, place);
                copied += 1;
                self.pace.spend(self.roots, span)?;
            }
            at += span.next_multiple_of(8);
        }
        if copied != view.table.state.live_of(cold).0 {
            let reason =
                "there are other records than the store's state says; nothing is removed before that is mended";
            return Err(view.corrupt(&segment.name, 0, reason));
        }
        Ok(())
    }

    /// Returns where the children of an object are from now on, as far as its record has places for them.
    fn places(&self, oid: &Oid, object: &Object<'_>) -> Result<Vec<Location>, Error> {
        let view = self.view;
        let leads_nowhere = |at: Location| {
            let number = (at.0 >> 32) as u32;
            !view.table.has(number) && number < self.files.first_number()
        };
        let mut places: Vec<Location> = (0..object.children()).map(|index| object.child(index)).collect();
        let mut is_stale = false;
        for place in places.iter_mut().filter(|place| place.is_some()) {
            *place = self.moved.place(*place).unwrap_or(*place);
            is_stale |= leads_nowhere(*place);
        }
        if !is_stale {
            return Ok(places);
        }
        let mut index = 0;
        (self.roots.children)(oid, object, &mut |child| {
            if let Some(place) = places.get_mut(index).filter(|place| place.is_some())
                && leads_nowhere(*place)
                && let Some(found) = view.find_moved(&ObjRef::new(child, *place))
            {
                *place = self.moved.place(found.location()).unwrap_or(found.location());
            }
            index += 1;
        })?;
        Ok(places)
    }

    /// Returns the state in which what was copied takes the place of these segments.
    fn state(&self, step: &[ColdSegment]) -> StoreState {
        let before = &self.view.table.state;
        let goes = |number: u32| step.iter().any(|cold| cold.number == number);
        let stay = before.cold.iter().filter(|cold| !goes(cold.number));
        let marks = before.marks.iter().filter(|marks| !goes(marks.number));
        StoreState {
            epoch: before.epoch + 1,
            check: 0,
            cold: stay.chain(self.files.segments()).copied().collect(),
            marks: marks.copied().collect(),
            time: now_seconds(),
            ..before.clone()
        }
    }

    /// Returns moves of refs to where their objects are now. The caller holds the store's lock.
    fn moved_refs(&self) -> Vec<u8> {
        let mut rows = Vec::new();
        for (name, target) in self.view.published.refs().moved_rows() {
            if let RefTarget::Object(at) = target
                && rows.len() < ROWS_BYTES_MAX
                && let Some(place) = self.moved.place(at.at)
                && self.view.is_at(&at.oid, at.at)
            {
                put_ref(&mut rows, name, Some(&RefTarget::Object(ObjRef::new(at.oid, place))));
            }
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{segment::COLD, state::ColdMarks};

    /// Returns a state with cold segments of these lengths, the live bytes of each in percent.
    fn state(segments: &[(u64, u64)]) -> StoreState {
        let number = |place: usize| COLD + 1 + place as u32;
        let cold = segments.iter().enumerate().map(|(place, &(bytes, _))| ColdSegment {
            number: number(place),
            bytes: bytes + COLD_HEAD_BYTES,
            records: 100,
            check: 0,
        });
        let marks = segments.iter().enumerate().filter(|(_, segment)| segment.1 < 100);
        let marks = marks.map(|(place, &(bytes, live))| ColdMarks {
            number: number(place),
            epoch: 1,
            records: live,
            bytes: bytes * live / 100,
            check: 0,
        });
        StoreState { cold: cold.collect(), marks: marks.collect(), ..StoreState::default() }
    }

    fn chosen(segments: &[(u64, u64)], limits: &SweepLimits, room: u64) -> Vec<u32> {
        next_step(&state(segments), limits, 1000, room).iter().map(|cold| cold.number - COLD - 1).collect()
    }

    #[test]
    fn a_step_takes_a_share_of_what_is_live_a_segment_at_least_and_a_cold_one_at_most() {
        let step = |live| step_bytes(live, 32 << 20, 256 << 20);
        assert_eq!([0, 122 << 20, 1 << 30, 1 << 40].map(step), [32 << 20, 32 << 20, 128 << 20, 256 << 20]);
        // Cold segments may be chosen shorter than those of the log.
        assert_eq!(step_bytes(1 << 30, 32 << 20, 1 << 20), 1 << 20);
    }

    #[test]
    fn the_worst_segments_come_first_as_many_as_fill_one() {
        let asked = SweepLimits::default();
        let segments = [(1000, 90), (1000, 30), (1000, 100), (1000, 10), (1000, 60), (1000, 70)];
        assert_eq!(chosen(&segments, &asked, u64::MAX), [3, 1, 4]);
        // With little room, those that fit.
        assert_eq!(chosen(&segments, &asked, 400), [3, 1]);
        assert_eq!(chosen(&segments, &asked, 200), [3]);
        assert_eq!(chosen(&segments[..3], &asked, 200), [1], "none fits, and one is tried");
        assert_eq!(chosen(&segments, &asked.slack(65), u64::MAX), [3, 1]);
        assert_eq!(chosen(&segments, &asked.slack(90).if_due(true), u64::MAX), [0; 0]);
        assert_eq!(chosen(&segments, &asked.slack(100), u64::MAX), [0; 0]);
        assert_eq!(chosen(&[(1000, 90), (1000, 100)], &asked.partial(true), u64::MAX), [0; 0]);
        assert_eq!(chosen(&[(1000, 80), (1000, 100)], &asked.partial(true), u64::MAX), [0]);
        assert_eq!(chosen(&[(5000, 90)], &asked, u64::MAX), [0], "one record may be longer than a segment");
    }

    #[test]
    fn small_segments_are_put_together_if_none_is_much_longer_than_the_others() {
        let (asked, due) = (SweepLimits::default(), SweepLimits::default().if_due(true));
        let segments = [(400, 100), (1000, 100), (10, 100), (20, 100), (100, 100)];
        assert_eq!(chosen(&segments, &asked, u64::MAX), [2, 3, 4, 0]);
        assert_eq!(chosen(&segments, &due, u64::MAX), [2, 3, 4, 0]);
        assert_eq!(chosen(&segments[..4], &asked, u64::MAX), [2, 3]);
        assert_eq!(chosen(&segments[..4], &due, u64::MAX), [0; 0]);
        assert_eq!(chosen(&segments[1..2], &asked, u64::MAX), [0; 0]);
        assert_eq!(chosen(&[], &asked, u64::MAX), [0; 0]);
        assert_eq!(chosen(&[(480, 100), (480, 100)], &asked, u64::MAX), [0; 0], "with a head they are longer than one");
    }

    #[test]
    fn what_moved_twice_is_found_where_it_is_now() {
        let at = |number: u64, offset: u64| Location((u64::from(COLD) + number) << 32 | offset);
        let mut moved = MovedObjects::default();
        moved.begin(COLD + 1);
        moved.put(64, at(3, 64));
        moved.put(128, at(3, 200));
        moved.begin(COLD + 3);
        moved.put(200, at(5, 64));
        assert_eq!(moved.place(at(1, 64)), Some(at(3, 64)));
        assert_eq!(moved.place(at(1, 128)), Some(at(5, 64)));
        assert_eq!((moved.place(at(1, 96)), moved.place(at(2, 64))), (None, None));
    }
}
