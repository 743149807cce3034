//! Announcing a state: a frame names it, once nothing more was appended that a collection did not go through.

use super::Collection;
use crate::{
    Error,
    disk::{
        due::SlowedCommits,
        frame::{self, FrameKind, PAYLOAD_BYTES_MAX, put_state, take_refs},
        lock::CollectorLock,
        log::{DiskState, LogWriter},
        segment::Segment,
        spare::RESERVED_BYTES,
        state::StateRef,
    },
    sync::{Arc, atomic::Ordering::*},
};

/// How often a state is made without the store's lock, before that is done with it.
const ROUNDS_MAX: usize = 8;
/// How often what was appended meanwhile is gone through before the store's lock is taken, and how little of it is left to that:
/// half a millisecond's work. Where commits append as fast, they are slowed unless it is less than the larger figure.
const PASSES_MAX: usize = 16;
const LEFT_BYTES: u64 = 128 << 10;
const LEFT_BYTES_MAX: u64 = 1 << 20;

impl DiskState {
    /// Makes what was copied the state of the store; `by_itself`: the store began the collection, so that its commits may wait.
    pub(super) fn announce(
        &self,
        collection: &mut Collection<'_, '_>,
        collector: &CollectorLock,
        by_itself: bool,
    ) -> Result<(), Error> {
        let mut end = None;
        for round in 0.. {
            self.go_through(collection, None)?;
            collection.files.finish_segment()?;
            let mut state = collection.state(collector)?;
            self.write_state(collector, &mut state)?;
            let last = round >= ROUNDS_MAX;
            // What came while that was written.
            let mut slowed = SlowedCommits::of(self);
            self.go_through(collection, by_itself.then_some(&mut slowed))?;
            if collection.has_more() && !last {
                continue;
            }
            // Commits wait for the store's lock.
            collection.pace.hurry(true);
            self.locked(|log| {
                if self.tables.epoch() + 1 != state.epoch {
                    return Err(Error::Usage { reason: "another collection came between" });
                }
                collection.follow(log.tail.location())?;
                if collection.has_more() {
                    if !last {
                        return Ok(());
                    }
                    collection.files.finish_segment()?;
                    state = collection.state(collector)?;
                    self.write_state(collector, &mut state)?;
                }
                collector.check()?;
                let rows = collection.moved_refs();
                self.name_state(log, state.reference(), &rows, &mut collection.files.announced)?;
                end = Some(log.tail.location());
                Ok(())
            })?;
            if let Some(end) = end {
                return self.sync_to(end);
            }
            collection.pace.hurry(false);
        }
        Ok(())
    }

    /// Goes through what was appended meanwhile, and through what was appended during that, until little is left: commits go on.
    /// Where they append as fast as this, it is of no use to go on unless they are slowed.
    fn go_through(
        &self,
        collection: &mut Collection<'_, '_>,
        mut slowed: Option<&mut SlowedCommits<'_>>,
    ) -> Result<(), Error> {
        let mut before = u64::MAX;
        for _ in 0..PASSES_MAX {
            let bytes = collection.follow(self.published.end())?;
            if bytes <= LEFT_BYTES {
                break;
            }
            let is_slower = bytes < before / 4 * 3;
            if !is_slower && (bytes <= LEFT_BYTES_MAX || !slowed.as_mut().is_some_and(|slowed| slowed.begin())) {
                break;
            }
            before = bytes;
        }
        Ok(())
    }

    /// Appends the frame that names a state, and goes on by it; `announced`: whether there may be such a frame. The caller holds the
    /// store's lock.
    pub(super) fn name_state(
        &self,
        log: &mut LogWriter,
        named: StateRef,
        rows: &[u8],
        announced: &mut bool,
    ) -> Result<(), Error> {
        self.state_segment(log, &put_state(named, rows))?;
        *announced = true;
        let result = self.write_named(log, named, rows);
        // Where the frame was not written, zeroes are in its place, and a sync says so; or else nothing is written any more.
        *announced = result.is_ok() || log.named.is_some() || self.poison.check().is_err();
        result
    }

    /// Returns the segment in which a frame that names a state has room: begins one if need be.
    fn state_segment(&self, log: &mut LogWriter, payload: &[u8]) -> Result<Arc<Segment>, Error> {
        let (payload_bytes, bytes_max) = (payload.len() as u64, u64::from(PAYLOAD_BYTES_MAX));
        if payload_bytes > bytes_max {
            return Err(Error::TooLarge { what: "a list of moved refs", bytes: payload_bytes, bytes_max });
        }
        let bytes = frame::EMPTY_BYTES + payload_bytes;
        let segment = self.tail_segment(&log.tail)?;
        if log.tail.next == 0 && log.tail.end + bytes + RESERVED_BYTES <= segment.bytes {
            return Ok(segment);
        }
        self.roll(log, bytes)?;
        self.tail_segment(&log.tail)
    }

    /// Appends the frame that names a state, and goes on by it. The caller holds the store's lock.
    pub(in crate::disk) fn write_named(&self, log: &mut LogWriter, named: StateRef, rows: &[u8]) -> Result<(), Error> {
        let payload = put_state(named, rows);
        let segment = self.state_segment(log, &payload)?;
        let (bytes, after) = self.small_frame(&log.tail, FrameKind::State, &payload, self.sync.durable_end());
        self.write_frame(&segment, &bytes, log.tail.end)?;
        log.written.pass_small(segment.number, log.tail.end, after.end);
        log.tail = after;
        log.appended = true;
        log.named = Some(named);
        self.named_at.store(after.location(), Release);
        let rows = take_refs(rows).unwrap_or_default();
        self.publish_with(&after, |refs| rows.into_iter().for_each(|(name, target)| _ = refs.put(&name, target)));
        self.follow_state(log)
    }
}
