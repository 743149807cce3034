//! When a store collects by itself.
//!
//! Where a rule cuts commits, or something is absent, that depends on what was appended since the last collection. A store that
//! keeps all has garbage only where imports and the like were given up, or where refs were deleted or moved elsewhere. The first is known
//! without a walk: the notes of `notes.rs` count it. So such a store collects once they count a share of it. The second
//! is known by a walk alone, and left to a collection that somebody asks for.

use super::{files::COLLECTED, frame::word64, log::DiskState, roll::now_seconds, state::WholeLeft};
use crate::{Retention, sync::atomic::Ordering::*};

/// A collection is due once a share of this of what cold segments hold has been appended, and a segment at least.
const APPENDED_SHARE: u64 = 8;
/// A collection does not keep up once so many segments, and a share of this of what cold segments hold, have been appended
/// since it began: then commits wait.
const OVERDUE_SEGMENTS: u64 = 3;
const OVERDUE_SHARE: u64 = 16;
/// A collection looks at the cold segments, too, once they have grown by a share of this since the last that did.
const GROWN_SHARE: u64 = 8;
/// Of so many collections at least one looks at the cold segments, too: garbage in them shows nowhere else.
const PARTIAL_MAX: u32 = 8;
/// A collection in part is not worth it where the last collection copied more than so much of what it emptied, in percent: garbage
/// is spread over all of the store, and what is copied once more adds to that in cold segments, which such a one leaves.
pub(super) const COPIED_PERCENT_MAX: u8 = 50;
/// A store that keeps all collects once a share of this of it, and a segment at least, is known to be garbage.
const GARBAGE_SHARE: u64 = 4;
/// And no more often than once in so many seconds: what is younger than the grace stays anyway.
const GARBAGE_SECONDS: u64 = 24 * 60 * 60;
/// While another process collects, this one tries again after so many bytes, and an eighth of a segment at most.
const LEFT_BYTES: u64 = 1 << 20;

/// Lets commits wait for the collection that is under way, from when that begins until this is dropped.
pub(super) struct SlowedCommits<'a> {
    state: &'a DiskState,
    has_begun: bool,
}

impl<'a> SlowedCommits<'a> {
    pub(super) const fn of(state: &'a DiskState) -> Self {
        Self { state, has_begun: false }
    }

    /// Begins; returns whether it had not.
    pub(super) fn begin(&mut self) -> bool {
        self.state.due_from(0, 0);
        !std::mem::replace(&mut self.has_begun, true)
    }
}

impl Drop for SlowedCommits<'_> {
    fn drop(&mut self) {
        // Mostly a new state has decided when the next one is due.
        if self.has_begun && self.state.overdue_at.load(Relaxed) == 0 {
            self.state.next_due(|| (self.state.published.end() >> 32) as u32);
        }
    }
}

impl DiskState {
    /// Returns the segment from which on the log was appended to since the last collection. That leaves what is live for the most part
    /// where it is; before the first of the whole, all of the log counts.
    pub(super) fn appended_from(&self) -> u32 {
        let (table, begun) = (self.table(), self.swept_to.load(Relaxed));
        let state = &table.state;
        if begun > 0 || state.whole.is_none() {
            return begun.max(state.base);
        }
        let (view, numbers) = (self.view(&table), table.numbers());
        let is_before = |&number: &u32| {
            let head = view.segment(number).ok().flatten().and_then(|segment| segment.head);
            head.is_none_or(|head| head.state.epoch < state.epoch)
        };
        // The last one before the state was named has the frame that names it.
        let before = numbers.partition_point(is_before);
        numbers.get(before.saturating_sub(1)).copied().unwrap_or(state.base)
    }

    /// Decides when the next collection is due, where so far the last one has seen to everything before the segment `from`: once a
    /// segment is full, and more where more would have to be copied.
    pub(super) fn next_due(&self, from: impl FnOnce() -> u32) {
        if !self.options.collect || self.lock.is_none() {
            return self.due_from(u64::MAX, u64::MAX);
        }
        if self.keeps_all() {
            return self.due_from(if self.is_garbage_due() { 0 } else { u64::MAX }, u64::MAX);
        }
        // Near the end of a segment: where a collection begins another one, what is left of the last is lost.
        let due = self.cold_share_from(from(), APPENDED_SHARE) | (self.header.segment_bytes / 8 * 7);
        self.due_from(due, due.saturating_add(OVERDUE_SEGMENTS << 32));
    }

    /// Returns the location of a segment so far behind another one as a share of what is live in cold segments takes.
    fn cold_share_from(&self, from: u32, share: u64) -> u64 {
        let segments = self.table().state.live_bytes() / share / self.header.segment_bytes;
        u64::from(from).saturating_add(segments) << 32
    }

    fn due_from(&self, due: u64, overdue: u64) {
        self.due_at.store(due, Relaxed);
        self.overdue_at.store(overdue, Relaxed);
    }

    /// Decides the same anew by what processes have left, where the store keeps all.
    pub(super) fn look_for_garbage(&self) {
        if self.keeps_all() {
            self.next_due(|| 0);
            // Another thread may have followed a change of the rules.
            if !self.keeps_all() {
                self.next_due(|| self.appended_from());
            }
        }
    }

    /// Whether no rule cuts anything, and nothing is absent.
    fn keeps_all(&self) -> bool {
        let table = self.table();
        table.state.absent.is_empty() && table.state.retention.parse().is_ok_and(|rules: Retention| rules.is_all())
    }

    /// Whether enough of the store is known to be garbage, and the last collection for its sake began long enough ago.
    fn is_garbage_due(&self) -> bool {
        // One of version 1 is not upgraded unasked.
        if self.version.load(Relaxed) < 2 {
            return false;
        }
        let garbage = self.reclaimable_bytes();
        if garbage < self.header.segment_bytes || garbage < self.sizes().0 / GARBAGE_SHARE {
            return false;
        }
        let begun = self.derived.read_at(COLLECTED, 8).ok().flatten().filter(|bytes| bytes.len() == 8);
        let now = u64::from(now_seconds());
        // A clock that was put back says nothing.
        begun.is_none_or(|begun| !(word64(&begun, 0)..word64(&begun, 0).saturating_add(GARBAGE_SECONDS)).contains(&now))
    }

    /// Notes that a collection begins by itself: if it is of no use, the next is not due at once.
    pub(super) fn begin_due(&self) {
        if !self.keeps_all() {
            let end = (self.published.end() >> 32) as u32;
            let overdue = self.cold_share_from(end, OVERDUE_SHARE).saturating_add(OVERDUE_SEGMENTS << 32);
            return self.due_from(overdue, overdue);
        }
        // Where it cannot be noted, another one may begin once this process looks again.
        let _ = self.derived.write_at(COLLECTED, &u64::from(now_seconds()).to_le_bytes());
        self.due_from(u64::MAX, u64::MAX);
    }

    /// Notes that another process collects: not every commit is to try in vain. Where commits are to wait, they go on trying.
    pub(super) fn leave_to_other(&self) {
        let again = self.published.end().saturating_add(LEFT_BYTES.min(self.header.segment_bytes / 8));
        // The other one may have ended meanwhile, and it is known when the next is due.
        self.due_at.fetch_max(again.min(self.overdue_at.load(Relaxed)), Relaxed);
    }

    /// Returns whether the next collection that the store begins by itself is to look at the cold segments, too.
    pub(super) fn wants_whole(&self) -> bool {
        let table = self.table();
        let cold = table.state.live_bytes();
        let few = |whole: &WholeLeft| {
            whole.since < PARTIAL_MAX && cold <= whole.bytes.saturating_add(whole.bytes / GROWN_SHARE)
        };
        let copies_most = self.copied_percent.load(Relaxed) > COPIED_PERCENT_MAX;
        self.keeps_all() || copies_most || !table.state.whole.as_ref().is_some_and(few)
    }
}
