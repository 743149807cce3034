//! How a store goes over time: its files, and what commits took.

use std::time::{Duration, Instant};

use crate::{measure::percentile, report::GcSample};

/// About so many samples are taken, none sooner after another than this, and none later.
const SAMPLES: u32 = 120;
const EVERY_MIN: Duration = Duration::from_millis(10);
const EVERY_MAX: Duration = Duration::from_secs(10);

/// Samples at even distances.
pub(super) struct Samples {
    began: Instant,
    every: Duration,
    last: Duration,
    nanoseconds: Vec<u64>,
    series: Vec<GcSample>,
}

impl Samples {
    /// Begins; it goes on for so long.
    pub(super) fn over(time: Duration) -> Self {
        let every = (time / SAMPLES).clamp(EVERY_MIN, EVERY_MAX);
        Self { began: Instant::now(), every, last: Duration::ZERO, nanoseconds: Vec::new(), series: Vec::new() }
    }

    /// Counts a commit, and takes a sample if it is time; `files` tells how many bytes they have.
    pub(super) fn commit(&mut self, nanoseconds: u64, files: impl FnOnce() -> u64) {
        self.nanoseconds.push(nanoseconds);
        let now = self.began.elapsed();
        if now - self.last >= self.every {
            self.sample(now, files());
        }
    }

    fn sample(&mut self, now: Duration, file_bytes: u64) {
        self.last = now;
        self.nanoseconds.sort_unstable();
        let us = |percent| percentile(&self.nanoseconds, percent).map_or(0.0, |ns| ns as f64 / 1e3);
        self.series.push(GcSample {
            seconds: now.as_secs_f64(),
            commits: self.nanoseconds.len() as u64,
            file_bytes,
            commit_p50_us: us(50),
            commit_p99_us: us(99),
            commit_max_us: us(100),
        });
        self.nanoseconds.clear();
    }

    /// Returns the samples, with a last one of the commits behind them: the longest commit of all may be there.
    pub(super) fn finish(mut self, files: impl FnOnce() -> u64) -> Vec<GcSample> {
        if !self.nanoseconds.is_empty() {
            self.sample(self.began.elapsed(), files());
        }
        self.series
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_sample_has_the_commits_since_the_last_one() {
        let mut samples = Samples::over(Duration::ZERO);
        samples.commit(7_000, || panic!("it is too soon"));
        thread::sleep(EVERY_MIN);
        samples.commit(3_000, || 500);
        let [sample] = &samples.finish(|| panic!("no commit is left"))[..] else { panic!("one sample") };
        assert_eq!((sample.commits, sample.file_bytes), (2, 500));
        assert_eq!((sample.commit_p50_us, sample.commit_p99_us, sample.commit_max_us), (3.0, 7.0, 7.0));
        assert!(sample.seconds >= 0.01);
    }
    #[test]
    fn commits_behind_the_last_sample_are_in_one_of_their_own() {
        let mut samples = Samples::over(Duration::from_secs(1_000_000));
        samples.commit(3_000, || panic!("it is too soon"));
        samples.commit(9_000, || panic!("it is too soon"));
        let [sample] = &samples.finish(|| 700)[..] else { panic!("one sample") };
        assert_eq!((sample.commits, sample.file_bytes, sample.commit_max_us), (2, 700, 9.0));
    }
}
