//! Emptying a long log in parts, from its beginning on.
//!
//! A collection that empties all of the log needs room for a copy of all that is live in it, until its state is durable and the log
//! can be cut. Where that would take most of what is free, as when a large store that kept all gets its first rule, the first
//! segments are emptied for themselves, then the next ones. Each part is a collection in part as of when the part ended: what refs
//! held there stays, and what was appended from there on is gone through as if that had been meanwhile, so that whatever it names
//! stays, with all below it. That keeps more than is live by now, for a while: what the rest of the log names although nothing names
//! that any more. The collection after the last part, or a later one of the whole, finds it dead.

use bristlecone_core::{Location, Object};

use super::{Collection, LiveSet, front::LogFront, run::SweepRun};
use crate::{
    Error,
    backend::{SweepLimits, Swept},
    disk::{log::DiskState, snapshot::DiskSnapshot},
};

/// Where objects went that were in parts of the log that are emptied.
#[derive(Debug, Default)]
pub(super) struct MovedParts(Vec<LiveSet>);

impl MovedParts {
    /// Returns where what was at a location is by now, if that was in one of the parts.
    pub(super) fn place(&self, at: u64) -> Option<u64> {
        self.0.iter().find(|part| part.covers(at)).and_then(|part| part.place(at))
    }

    /// Returns where a child of an object is, as far as the object's record says, or where it went with a part.
    pub(super) fn child_place(&self, object: &Object<'_>, index: usize) -> Location {
        let at = if index < object.children() { object.child(index) } else { Location::NONE };
        self.place(at.0).map_or(at, Location)
    }
}

impl DiskState {
    /// Returns how many bytes of the log are to be emptied at a time, if not all that a collection would: so many that no more is
    /// copied than half of what is free. The rest is for what is appended meanwhile.
    pub(super) fn part_bytes(&self, collection: &Collection<'_, '_>, limits: &SweepLimits) -> Option<u64> {
        if limits.objects < u64::MAX || limits.bytes < u64::MAX {
            return None;
        }
        // Where the system does not tell, the writes will.
        let half = self.storage.free_bytes().ok().flatten()? / 2;
        (collection.room() > half).then(|| half.max(self.header.segment_bytes))
    }

    /// Empties the log up to a segment in parts of so many bytes, but for the last, and counts what is dropped.
    pub(super) fn collect_parts(
        &self,
        run: &mut SweepRun<'_>,
        end: u32,
        part_bytes: u64,
        dropped: &mut Swept,
    ) -> Result<(), Error> {
        for cut in self.cuts_of_parts(end, part_bytes)? {
            let front = self.front_as_of(cut)?;
            let swept = self.collect_part(run, front)?;
            (dropped.objects, dropped.bytes) = (dropped.objects + swept.objects, dropped.bytes + swept.bytes);
            dropped.commits += swept.commits;
            // What readers keep is no room as yet.
            self.readers_let_go(run.roots, &run.pace, 0)?;
        }
        Ok(())
    }

    /// Returns the segments before which parts of so many bytes end.
    fn cuts_of_parts(&self, end: u32, part_bytes: u64) -> Result<Vec<u32>, Error> {
        let table = self.table();
        let (view, mut cuts, mut bytes) = (self.view(&table), Vec::new(), 0);
        for &number in table.numbers().iter().filter(|&&number| number < end) {
            let Some(segment) = view.segment(number)? else { continue };
            // The head of one of version 1 names no state.
            if bytes >= part_bytes && segment.head.is_some_and(|head| head.version >= 2) {
                cuts.push(number);
                bytes = 0;
            }
            bytes += segment.bytes;
        }
        Ok(cuts)
    }

    fn collect_part(&self, run: &mut SweepRun<'_>, front: LogFront) -> Result<Swept, Error> {
        let table = self.table();
        let commits = run.roots.cut.map_or(Ok(None), |rules| rules.cut())?;
        let mut collection = Collection::begin(self.view(&table), run.roots, run, commits.as_ref(), &front, true)?;
        collection.mark_all(front.targets, run.limits)?;
        let mut swept = collection.choose(run.limits)?;
        self.copy_and_announce(&mut collection, run)?;
        swept.commits = collection.cut_count();
        run.take_back(&mut collection);
        run.moved.0.push(std::mem::take(&mut collection.live));
        drop(collection);
        drop(table);
        run.snapshot.as_mut().into_iter().for_each(DiskSnapshot::leave_table);
        Ok(swept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_with_a_part_is_found_by_its_old_place() {
        let at = |number: u64, offset: u64| number << 32 | offset;
        let part = |number: u32, place: u64| {
            let mut live = LiveSet::new(vec![(number, 4096), (number + 1, 4096)]);
            live.mark(at(number.into(), 128));
            live.count(u32::MAX);
            live.put(at(number.into(), 128), place);
            live
        };
        let moved = MovedParts(vec![part(1, 77), part(3, 99)]);
        assert_eq!([1, 3].map(|number| moved.place(at(number, 128))), [Some(77), Some(99)]);
        assert_eq!([(1, 64), (2, 128), (5, 128)].map(|(number, offset)| moved.place(at(number, offset))), [None; 3]);
    }
}
