//! What a sweep chose, and how it is removed: in steps, between which others go first.

use std::{thread, time::Duration, vec};

use bristlecone_core::{Object, Oid};

use super::{Reached, Roots, SweepLimits, SweepStatus, SweepStep, Swept};
use crate::Error;

/// How long others go first between two steps: who waits for a lock looks each millisecond.
const STEP_PAUSE: Duration = Duration::from_millis(2);

/// The objects that a sweep chose and did not remove yet, and what it removed: for backends that remove in steps.
///
/// A sweep chooses beside appends ([`SweepList::choose`]). Each step takes some of the list ([`SweepList::next_step`]) and notes what it
/// removed; [`SweepList::after_step`] tells who watches, lets others go first, and says when the sweep has ended.
#[derive(Debug, Default)]
pub struct SweepList {
    /// With the bytes of each, no object before those that name it.
    rest: vec::IntoIter<(Oid, u64)>,
    swept: Swept,
}

impl SweepList {
    /// One step looks at this many objects at most.
    pub const STEP_OBJECTS: usize = 4096;

    /// Chooses what goes of `dead`, as [`Roots::choose`] does, in place of what was chosen before.
    ///
    /// # Errors
    /// Those of [`Roots::choose`].
    pub fn choose<'o>(
        &mut self,
        roots: &Roots<'_>,
        read: impl Fn(&Oid) -> Result<Option<Object<'o>>, Error>,
        dead: &[Oid],
        limits: &SweepLimits,
    ) -> Result<(), Error> {
        let (chosen, swept) = roots.choose(read, dead, limits)?;
        (self.rest, self.swept.more) = (chosen.into_iter(), swept.more);
        Ok(())
    }

    /// Takes the objects of the next step and returns those that were not reached by now, and how many bytes they have.
    pub fn next_step(&mut self, reached: &Reached) -> (Vec<Oid>, u64) {
        let (mut dead, mut dead_bytes) = (Vec::new(), 0);
        for (oid, bytes) in self.rest.by_ref().take(Self::STEP_OBJECTS) {
            if !reached.contains(&oid) {
                dead.push(oid);
                dead_bytes += bytes;
            }
        }
        (dead, dead_bytes)
    }

    /// Notes what a step removed.
    pub fn note_removed(&mut self, objects: usize, bytes: u64) {
        self.swept.objects += objects as u64;
        self.swept.bytes += bytes;
    }

    /// Counts what would be removed in place of removing it.
    pub fn count_rest(&mut self, reached: &Reached) {
        while !self.rest.as_slice().is_empty() {
            let (dead, bytes) = self.next_step(reached);
            self.note_removed(dead.len(), bytes);
        }
    }

    /// Leaves to the next sweep what was not removed yet.
    pub fn leave_rest(&mut self) {
        self.rest = Vec::new().into_iter();
        self.swept.more = true;
    }

    /// Tells what was removed by now, also where the step failed; returns it once nothing is left, or who watches ends the sweep. Else
    /// others go first, and another step is due.
    ///
    /// # Errors
    /// That of the step; what [`Roots::tell`] fails with, if nothing was removed.
    pub fn after_step(
        &mut self,
        stepped: Result<(), Error>,
        roots: &Roots<'_>,
        limits: &SweepLimits,
    ) -> Result<Option<Swept>, Error> {
        let Swept { objects, bytes, .. } = self.swept;
        let status = SweepStatus::new(SweepStep::Remove, objects, bytes);
        let told = if limits.dry_run { Ok(()) } else { roots.tell(&status) };
        stepped?;
        if self.rest.as_slice().is_empty() {
            return Ok(Some(self.swept));
        }
        match told {
            Err(error) if objects == 0 => Err(error),
            Err(_) => {
                self.leave_rest();
                Ok(Some(self.swept))
            }
            Ok(()) => {
                thread::sleep(STEP_PAUSE);
                Ok(None)
            }
        }
    }
}
