//! The objects written last, against which the next is tried.
//!
//! Versions of one thing stand one after another, so the last is tried first, and a delta that is small enough ends the
//! search. Each being a delta against the one before, the chain soon is as long as it may be. Then an *anchor* is
//! taken: an object near the beginning of its chain, from a while ago. The delta is longer, since more has changed
//! since, but far shorter than the whole, and the new chain begins there. What was made against an anchor is the next
//! anchor.

use std::collections::VecDeque;

use bristlecone::Result;

use super::options::RepackOptions;
use super::plan::{EntrySource, PlannedObject, RepackPlan};
use crate::repository::pack::delta::BaseIndex;

/// How many anchors are kept: as many things as take turns.
const ANCHORS_MAX: usize = 3;
/// A delta this many times smaller than its target is good enough.
const GOOD_RATIO: usize = 32;
/// Delta and target both have overheads; a delta must spare more than this.
const SPARED_BYTES_MIN: usize = 20;
/// An object is not tried against one this many times as large.
const LARGER_RATIO: u64 = 32;

pub(super) struct DeltaWindow {
    count_max: usize,
    bytes_max: usize,
    depth_max: u32,
    /// The newest last.
    recent: VecDeque<WindowSlot>,
    /// The newest last.
    anchors: VecDeque<WindowSlot>,
    bytes: usize,
}

/// An object that was written.
struct WindowSlot {
    number: u32,
    depth: u32,
    /// Its bytes, once they are needed.
    raw: Option<Vec<u8>>,
    index: BaseIndex,
    /// Whether it shall be an anchor when it falls out of the window.
    anchor: bool,
}

impl WindowSlot {
    fn bytes(&self) -> usize {
        self.raw.as_ref().map_or(0, |raw| raw.len() + self.index.bytes())
    }
}

impl DeltaWindow {
    pub(super) fn new(options: &RepackOptions) -> Self {
        Self {
            count_max: options.window,
            bytes_max: options.window_bytes,
            depth_max: options.depth,
            recent: VecDeque::new(),
            anchors: VecDeque::new(),
            bytes: 0,
        }
    }

    /// Takes in an object that was written, with its bytes if they are at hand.
    pub(super) fn push(&mut self, number: u32, record: &PlannedObject, depth: u32, raw: Option<Vec<u8>>) {
        debug_assert!(raw.as_ref().is_none_or(|raw| raw.len() as u64 == record.size));
        // One in a chain of its own length begins a new one; so does what is whole.
        let anchor = depth == 0 || self.recent.back().is_some_and(|last| depth < last.depth);
        let slot = WindowSlot { number, depth, raw, index: BaseIndex::new(), anchor };
        self.bytes += slot.bytes();
        self.recent.push_back(slot);
        while self.recent.len() > self.count_max || (self.bytes > self.bytes_max && self.recent.len() > 1) {
            let Some(slot) = self.recent.pop_front() else { break };
            if slot.anchor {
                self.anchors.push_back(slot);
            } else {
                self.bytes -= slot.bytes();
            }
        }
        while self.anchors.len() > ANCHORS_MAX || (self.bytes > self.bytes_max && !self.anchors.is_empty()) {
            let Some(slot) = self.anchors.pop_front() else { break };
            self.bytes -= slot.bytes();
        }
    }

    /// Whether there is anything that an object could be a delta against.
    pub(super) fn has_candidates(&self, record: &PlannedObject, plan: &RepackPlan) -> bool {
        self.recent.iter().chain(&self.anchors).any(|slot| self.is_candidate(slot, record, plan))
    }

    fn is_candidate(&self, slot: &WindowSlot, record: &PlannedObject, plan: &RepackPlan) -> bool {
        let base = &plan.records[slot.number as usize];
        let deflated = |record: &PlannedObject| record.source != EntrySource::Whole { deflated: false };
        base.kind == record.kind
            && base.size / LARGER_RATIO <= record.size
            && slot.depth + 1 + record.height <= self.depth_max
            // The program that deflated both has compared them, and found a better base.
            && !(base.pack == record.pack && plan.compared[base.pack as usize] && deflated(base) && deflated(record))
    }

    /// Returns the number of a record and a delta against it that makes `raw`, if one is worth it. `load` reads an
    /// object.
    pub(super) fn find_base(
        &mut self,
        record: &PlannedObject,
        raw: &[u8],
        plan: &RepackPlan,
        load: &mut dyn FnMut(u32) -> Result<Vec<u8>>,
    ) -> Result<Option<(u32, Vec<u8>)>> {
        let mut best: Option<(u32, Vec<u8>)> = None;
        // The newest first, the anchors last.
        for at in (0..self.anchors.len() + self.recent.len()).rev() {
            let place = at.checked_sub(self.anchors.len());
            let slot = place.map_or_else(|| &self.anchors[at], |at| &self.recent[at]);
            if !self.is_candidate(slot, record, plan) {
                continue;
            }
            let slot = match place {
                Some(at) => &mut self.recent[at],
                None => &mut self.anchors[at],
            };
            let before = slot.bytes();
            if slot.raw.is_none() {
                slot.raw = Some(load(slot.number)?);
            }
            let base = slot.raw.as_deref().unwrap_or_default();
            let bytes_max = match &best {
                Some((_, delta)) => delta.len() - 1,
                None => (raw.len() / 2).saturating_sub(SPARED_BYTES_MIN),
            };
            let delta = slot.index.create(base, raw, bytes_max);
            self.bytes += slot.bytes() - before;
            let Some(delta) = delta else { continue };
            let good = delta.len() <= (raw.len() / GOOD_RATIO).max(64);
            best = Some((slot.number, delta));
            if good {
                break;
            }
        }
        Ok(best)
    }
}
