//! Collections that a store begins by itself: after a commit, when enough was appended since the last one.

use std::{
    ops::ControlFlow,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::*},
    },
    thread,
    time::{Duration, Instant},
};

use bristlecone_core::Format;

use super::{Repo, beside::BesideThread};
use crate::{Result, SweepDue, SweepLimits, Swept};

/// For how long what no ref leads to stays where a store collects by itself: a day, as with `cone gc`.
const GRACE_SECONDS: u32 = 86_400;

/// How much of a file that a collection keeps may be garbage, in percent.
const SLACK: u8 = 15;

/// For how long a commit waits at least and at most while a collection does not keep up; in between, for as long as it took from the
/// last one that waited, so that commits have half of the time.
const PAUSE_MIN: Duration = Duration::from_micros(100);
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// Returns for how long a commit waits that comes so long after the last one that waited.
fn pause_after(worked: Duration) -> Duration {
    worked.clamp(PAUSE_MIN, PAUSE_MAX)
}

/// Says that a collection runs, until this is dropped: whatever becomes of the collection.
struct RunningCollection(Arc<AtomicBool>);

impl Drop for RunningCollection {
    fn drop(&mut self) {
        self.0.store(false, Release);
    }
}

/// What runs the collections of a store.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    off: AtomicBool,
    running: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    thread: BesideThread<Result<Swept>>,
    // When a commit waited last for the collection that is running.
    paused: Mutex<Option<Instant>>,
}

impl Collector {
    /// Says that a collection runs; `None` if one does already.
    fn enter(&self) -> Option<RunningCollection> {
        let is_other = self.running.swap(true, AcqRel);
        (!is_other).then(|| RunningCollection(self.running.clone()))
    }

    /// Has the thread collect. Where there is none, the next commit tries again.
    fn begin(&self, running: RunningCollection, collection: impl FnOnce() -> Result<Swept> + Send + 'static) {
        let job = move || {
            let _running = running;
            collection()
        };
        let _ = self.thread.begin("cone-collect", job);
    }

    /// Lets a commit wait.
    fn pause(&self) {
        let worked = self.set_paused(None).map_or(Duration::ZERO, |at| at.elapsed());
        thread::sleep(pause_after(worked));
        self.set_paused(Some(Instant::now()));
    }

    /// Notes when a commit waited last during this collection, and returns what was noted.
    fn set_paused(&self, at: Option<Instant>) -> Option<Instant> {
        std::mem::replace(&mut *self.paused.lock().unwrap_or_else(PoisonError::into_inner), at)
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        // The thread is waited for with the part that it is.
        self.stop.store(true, Relaxed);
    }
}

impl<F: Format> Repo<F> {
    /// Sets whether the store collects by itself: where its retention does not keep everything, and enough was appended
    /// since the last collection, the next commit through this repository begins one beside. Where it keeps everything, one
    /// begins once a quarter of the store is what operations that were given up have left, and once a day at most. It is so
    /// unless it is switched off, here or by the backend's options; the disk engine alone does it.
    pub fn set_collecting(&self, on: bool) {
        self.shared.collector.off.store(!on, Relaxed);
    }

    /// Waits for a collection that the store began by itself through this repository, and returns what the last one did;
    /// `None` if there was none since this was asked last.
    ///
    /// # Errors
    /// Those of [`Repo::sweep`].
    pub fn wait_for_collection(&self) -> Result<Option<Swept>> {
        self.shared.collector.thread.wait().transpose()
    }

    /// Begins a collection if one is due. A failure of the collection is none of the commit that was made.
    #[inline]
    pub(super) fn collect_if_due(&self) {
        let due = self.shared.backend.sweep_due();
        if due != SweepDue::No && !self.shared.collector.off.load(Relaxed) {
            self.collect(due);
        }
    }

    #[cold]
    fn collect(&self, due: SweepDue) {
        let collector = &self.shared.collector;
        let Some(running) = collector.enter() else {
            if due == SweepDue::Overdue {
                collector.pause();
            } else {
                // It keeps up again: what commits do from now on counts for no pause.
                collector.set_paused(None);
            }
            return;
        };
        // The time since a commit waited for an earlier collection says nothing of how long commits take.
        collector.set_paused(None);
        let limits = SweepLimits::default().grace(GRACE_SECONDS).if_due(true).recent_stays(true).slack(SLACK);
        if due == SweepDue::Now {
            let _ = self.sweep(&[], &limits);
            return;
        }
        // The thread holds the backend, and not what ends it.
        let (stop, shared) = (collector.stop.clone(), self.shared.beside());
        let collection = move || {
            let repo = Self::of(shared);
            let watch = |_: &_| if stop.load(Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
            repo.retention().and_then(|retention| repo.sweep_watched(&retention, &[], &limits, &watch))
        };
        collector.begin(running, collection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_waits_for_as_long_as_commits_worked_within_bounds() {
        let work = Duration::from_millis(7);
        assert_eq!([Duration::ZERO, work, 99 * work].map(pause_after), [PAUSE_MIN, work, PAUSE_MAX]);
        // A machine that is busy sleeps longer, and never shorter.
        let (collector, began) = (Collector::default(), Instant::now());
        collector.pause();
        let first = began.elapsed();
        assert!(first >= PAUSE_MIN, "{first:?}");
        thread::sleep(work);
        let second = Instant::now();
        collector.pause();
        let waited = second.elapsed();
        assert!(waited >= work, "{waited:?}");
        // The next one counts from the end of that, or from nothing where another collection has begun.
        let noted = collector.set_paused(None).expect("a commit has waited");
        assert!(noted >= second + work);
        assert!(collector.set_paused(None).is_none());
    }

    /// What commits did while a collection kept up counts for no pause, or else one commit waits a tenth of a second.
    #[test]
    fn commits_that_did_not_wait_count_for_no_pause() {
        let repo = Repo::memory();
        let collector = &repo.shared.collector;
        collector.running.store(true, Relaxed);
        repo.collect(SweepDue::Overdue);
        assert!(collector.paused.lock().unwrap().is_some());
        repo.collect(SweepDue::Beside);
        assert!(collector.paused.lock().unwrap().is_none());
        let began = Instant::now();
        repo.collect(SweepDue::Overdue);
        assert!(began.elapsed() < PAUSE_MAX / 2, "{:?}", began.elapsed());
    }

    #[test]
    fn a_collection_that_panics_is_over() {
        let repo = Repo::memory();
        let collector = &repo.shared.collector;
        let running = collector.enter().expect("none runs");
        assert!(collector.enter().is_none());
        collector.begin(running, || panic!("a collection that panics"));
        assert!(collector.thread.wait().is_none());
        assert!(!collector.running.load(Acquire) && collector.enter().is_some());
    }
}
