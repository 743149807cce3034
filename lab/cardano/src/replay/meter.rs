//! The clocks and counters of a replay.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::{
    Observer,
    apply::Decoded,
    report::{Memory, Progress, Report, Sample},
};
use crate::{Point, utxo::UtxoStore};

/// The observer is asked so often whether to go on.
const OBSERVED_EVERY: Duration = Duration::from_millis(100);
/// Within that the clock is looked at after this many blocks.
const BLOCKS_BETWEEN: u32 = 16;
/// Marks of the number of blocks over time: as many, at most, before every second one goes.
const MARKS_MAX: usize = 4096;

pub(super) struct Meter {
    pub(super) report: Report,
    began: Instant,
    left_out: Duration,
    observed: Instant,
    until_look: u32,
    latencies: Histogram<u64>,
    marks: Vec<(f64, u64)>,
    mark_every: f64,
    sampled: (f64, u64, Memory),
    sampled_at: Instant,
    sample_every: f64,
    /// How far in time the next sample is.
    next_sample: f64,
}

impl Meter {
    pub(super) fn new(sample_every: Duration) -> Self {
        let now = Instant::now();
        Self {
            report: Report::default(),
            began: now,
            left_out: Duration::ZERO,
            observed: now,
            until_look: 0,
            // 1 ns to 100 s; these bounds are always right.
            latencies: Histogram::new_with_bounds(1, 100_000_000_000, 3)
                .unwrap_or_else(|_| unreachable!("sound bounds")),
            marks: vec![(0.0, 0)],
            mark_every: 0.001,
            sampled: Default::default(),
            sampled_at: now,
            sample_every: sample_every.as_secs_f64(),
            next_sample: sample_every.as_secs_f64(),
        }
    }

    pub(super) fn start(&mut self, memory: Memory) {
        self.sampled.2 = memory;
        self.began = Instant::now();
        self.sampled_at = self.began;
        self.observed = self.began;
    }

    /// Begins the time anew, before any block was applied.
    pub(super) fn begin_again(&mut self) {
        (self.began, self.left_out) = (Instant::now(), Duration::ZERO);
    }

    fn seconds(&self) -> f64 {
        self.began.elapsed().saturating_sub(self.left_out).as_secs_f64()
    }

    /// Takes no part in the time.
    pub(super) fn leave_out(&mut self, time: Duration) {
        self.left_out += time;
    }

    pub(super) fn block(&mut self, bytes: usize, block: &Decoded) {
        let report = &mut self.report;
        report.blocks += 1;
        report.block_bytes += bytes as u64;
        report.transactions += block.transactions;
        report.failed += block.failed;
        report.spent += block.spent;
        report.created += block.created;
        report.missing += block.missing;
    }

    pub(super) fn commit(&mut self, took: Duration) {
        self.report.commits += 1;
        self.latencies.saturating_record(took.as_nanos() as u64);
    }

    /// Whether the observer is to be asked; looks at the clock now and then.
    pub(super) fn is_due(&mut self) -> bool {
        if self.until_look > 0 {
            self.until_look -= 1;
            return false;
        }
        self.until_look = BLOCKS_BETWEEN;
        self.report.seconds = self.seconds();
        self.mark();
        if self.observed.elapsed() < OBSERVED_EVERY && self.report.seconds < self.next_sample {
            return false;
        }
        self.observed = Instant::now();
        true
    }

    fn mark(&mut self) {
        let seconds = self.report.seconds;
        if self.marks.last().is_none_or(|last| seconds - last.0 >= self.mark_every) {
            if self.marks.len() == MARKS_MAX {
                let mut index = 0;
                self.marks.retain(|_| {
                    index += 1;
                    index % 2 == 1
                });
                self.mark_every *= 2.0;
            }
            self.marks.push((seconds, self.report.blocks));
        }
    }

    pub(super) fn progress(&self, entries: u64, last: Option<Point>, bytes: (u64, Option<u64>)) -> Progress {
        let Report { seconds, blocks, indexed, missing, .. } = self.report;
        let done = bytes.1.filter(|total| *total > 0).map(|total| bytes.0 as f64 / total as f64);
        Progress { seconds, blocks, indexed, last, entries, missing, done }
    }

    pub(super) fn sample_due(&mut self) -> bool {
        let due = self.report.seconds >= self.next_sample;
        if due {
            self.next_sample = self.report.seconds + self.sample_every;
        }
        due
    }

    pub(super) fn sample(&mut self, now: &Progress, memory: Memory) -> Sample {
        let (seconds, blocks, before) = self.sampled;
        let passed = (now.seconds - seconds).max(1e-9);
        let sample = Sample {
            seconds: now.seconds,
            slot: now.last.map_or(0, |last| last.slot),
            blocks: now.blocks,
            blocks_per_s: (now.blocks - blocks) as f64 / passed,
            entries: now.entries,
            memory,
            cpu_percent: memory.cpu_us.saturating_sub(before.cpu_us) as f64
                / 1e4
                / self.sampled_at.elapsed().as_secs_f64().max(1e-6),
        };
        self.sampled = (now.seconds, now.blocks, memory);
        self.sampled_at = Instant::now();
        self.report.samples.push(sample);
        sample
    }

    pub(super) fn finish(&mut self, set: &dyn UtxoStore, last: Option<Point>, observer: &mut dyn Observer) {
        self.report.seconds = self.seconds();
        self.marks.push((self.report.seconds, self.report.blocks));
        let at = |share: f64| {
            let time = self.report.seconds * share;
            let next = self.marks.partition_point(|mark| mark.0 < time);
            self.marks.get(next).copied().unwrap_or_default()
        };
        let rate = |from: (f64, u64), to: (f64, u64)| (to.1 - from.1) as f64 / (to.0 - from.0).max(1e-9);
        let (tenth, half, end) = (at(0.1), at(0.5), at(1.0));
        (self.report.start_blocks_per_s, self.report.steady_blocks_per_s) = (rate((0.0, 0), tenth), rate(half, end));
        let quantile = |share| self.latencies.value_at_quantile(share) as f64 / 1e3;
        (self.report.commit_p50_us, self.report.commit_p99_us) = (quantile(0.5), quantile(0.99));
        // A set that fails has said so already.
        self.report.entries = set.entries().unwrap_or(0);
        (self.report.tip, self.report.last) = (set.tip(), last);
        if self.report.seconds > self.sampled.0 {
            let progress = self.progress(self.report.entries, last, (0, None));
            let sample = self.sample(&progress, observer.memory());
            observer.sample(&sample);
        }
    }
}
