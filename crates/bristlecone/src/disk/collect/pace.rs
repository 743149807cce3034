//! How fast a collection goes.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::{
    Error,
    backend::{Roots, SweepStatus, SweepStep, TOLD_EVERY},
};

/// The longest pause between two looks at whether the collection is to end.
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// Keeps a collection below a rate, and tells how far it is.
#[derive(Debug)]
pub(super) struct Pace {
    rate: u64,
    began: Instant,
    // What was read or written since then.
    spent: u64,
    status: SweepStatus,
    hurry: bool,
}

impl Pace {
    /// Begins, at so many bytes a second at most.
    pub(super) fn new(rate: u64) -> Self {
        let status = SweepStatus::new(SweepStep::Mark, 0, 0);
        Self { rate: rate.max(1), began: Instant::now(), spent: 0, status, hurry: false }
    }

    /// Goes on to the next step.
    pub(super) fn begin(&mut self, step: SweepStep) {
        self.status = SweepStatus::new(step, 0, 0);
    }

    /// Sets whether there are to be no pauses, since others wait.
    pub(super) fn hurry(&mut self, hurry: bool) {
        self.hurry = hurry;
    }

    /// Returns how far the collection is.
    pub(super) const fn status(&self) -> &SweepStatus {
        &self.status
    }

    /// Counts an object of so many bytes, and waits if that was too fast.
    ///
    /// # Errors
    /// Those by which the watcher ends the collection.
    #[inline]
    pub(super) fn spend(&mut self, roots: &Roots<'_>, bytes: u64) -> Result<(), Error> {
        self.spent += bytes;
        (self.status.objects, self.status.bytes) = (self.status.objects + 1, self.status.bytes + bytes);
        if self.status.objects.is_multiple_of(TOLD_EVERY as u64) { self.rest(roots) } else { Ok(()) }
    }

    /// Tells how far the collection is, unless others wait: the watcher might be one of them.
    ///
    /// # Errors
    /// As [`Pace::spend`].
    pub(super) fn tell(&self, roots: &Roots<'_>) -> Result<(), Error> {
        if self.hurry { Ok(()) } else { roots.tell(&self.status) }
    }

    fn rest(&self, roots: &Roots<'_>) -> Result<(), Error> {
        self.tell(roots)?;
        if self.hurry {
            return Ok(());
        }
        let wanted = u128::from(self.spent) * 1_000_000_000 / u128::from(self.rate);
        let wanted = Duration::from_nanos(u64::try_from(wanted).unwrap_or(u64::MAX));
        loop {
            let Some(ahead) = wanted.checked_sub(self.began.elapsed()).filter(|ahead| !ahead.is_zero()) else {
                return Ok(());
            };
            thread::sleep(ahead.min(PAUSE_MAX));
            roots.tell(&self.status)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use bristlecone_core::{Object, Oid};

    use super::*;

    #[test]
    fn a_rate_is_kept_and_a_watcher_ends_the_work_meanwhile() {
        let told = Cell::new(0_u64);
        let watch = |status: &SweepStatus| {
            told.set(status.objects);
            if status.bytes > 3 << 20 { Err(Error::Stopped) } else { Ok(()) }
        };
        let children = |_: &Oid, _: &Object<'_>, _: &mut dyn FnMut(Oid)| Ok(());
        let roots = Roots::new(&[], &children).watch(&watch);
        let mut pace = Pace::new(20 << 20);
        let work = |pace: &mut Pace, objects: u64| (0..objects).try_for_each(|_| pace.spend(&roots, 4096));
        work(&mut pace, 512).unwrap();
        // 2 MiB at 20 MiB a second.
        assert!(pace.began.elapsed() >= Duration::from_millis(100) && told.get() == 512);
        pace.hurry(true);
        let began = Instant::now();
        work(&mut pace, 256).unwrap();
        assert!(began.elapsed() < Duration::from_millis(40), "{:?}", began.elapsed());
        pace.hurry(false);
        assert!(matches!(work(&mut pace, 512), Err(Error::Stopped)));
    }
}
