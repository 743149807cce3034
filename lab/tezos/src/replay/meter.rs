//! Clocks and counters of a replay.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::{
    behind::Made,
    durations::Durations,
    report::{GIANT_ADDS, Giant, Latency, Memory, Report, RowCounts, Sample, per_second},
};
use crate::RowKind;

/// A sample is taken after each hundredth of the trace …
const PARTS: f64 = 100.0;
/// … and after so much time, twice as much whenever another …
const EVERY: Duration = Duration::from_millis(250);
/// … this many samples were taken.
const SAMPLES_EACH: usize = 256;

/// A block whose commit is on its way.
#[derive(Debug)]
struct OpenBlock {
    commit: u64,
    started: Instant,
    adds: u64,
    rows: u64,
}

/// Clocks and counters.
#[derive(Debug)]
pub(super) struct Meter {
    started: Instant,
    block_started: Instant,
    last: Instant,
    rows: RowCounts,
    commits: u64,
    block_adds: u64,
    block_rows: u64,
    // Those that follow each other while a thread behind commits, in order.
    open: VecDeque<OpenBlock>,
    commit_latency: Durations,
    block_time: Durations,
    interval: Durations,
    giants: Vec<Giant>,
    samples: Vec<Sample>,
    memory_max: Memory,
    next_part: f64,
    next_time: Duration,
}

impl Meter {
    pub(super) fn start() -> Self {
        let now = Instant::now();
        Self {
            started: now,
            block_started: now,
            last: now,
            rows: RowCounts::default(),
            commits: 0,
            block_adds: 0,
            block_rows: 0,
            open: VecDeque::new(),
            commit_latency: Durations::new(),
            block_time: Durations::new(),
            interval: Durations::new(),
            giants: Vec::new(),
            samples: Vec::new(),
            memory_max: Memory::default(),
            next_part: 1.0,
            next_time: EVERY,
        }
    }

    /// Counts a row that was replayed.
    #[inline]
    pub(super) fn row(&mut self, kind: RowKind) {
        self.rows.add(kind);
        self.block_rows += 1;
        self.block_adds += u64::from(kind == RowKind::Add);
    }

    /// Counts a commit that was made or is on its way.
    pub(super) const fn commit(&mut self) {
        self.commits += 1;
    }

    /// Ends the rows of a block with its commit, which is made or on its way. The next block begins.
    pub(super) fn block(&mut self) {
        let now = Instant::now();
        let (commit, started, adds, rows) = (self.commits, self.block_started, self.block_adds, self.block_rows);
        self.open.push_back(OpenBlock { commit, started, adds, rows });
        (self.block_started, self.block_adds, self.block_rows) = (now, 0, 0);
        self.last = now;
    }

    /// Notes what a commit took, and its block, which ends with it: commits are made in the order of their blocks.
    pub(super) fn made(&mut self, made: Made) {
        let commit = nanoseconds(made.took);
        self.commit_latency.add(commit);
        self.interval.add(commit);
        let Some(OpenBlock { commit, started, adds, rows }) = self.open.pop_front() else { return };
        let took = made.at.saturating_duration_since(started);
        self.block_time.add(nanoseconds(took));
        if adds >= GIANT_ADDS {
            self.giants.push(Giant { commit, adds, rows, seconds: took.as_secs_f64() });
        }
    }

    /// Returns how many commits were made or are on their way.
    pub(super) const fn commits(&self) -> u64 {
        self.commits
    }

    /// Returns how many rows of the block were replayed.
    pub(super) const fn block_rows(&self) -> u64 {
        self.block_rows
    }

    /// Returns all rows that were replayed.
    pub(super) fn rows(&self) -> u64 {
        self.rows.total()
    }

    /// Looks at the clock, and returns the time since the start.
    pub(super) fn elapsed(&mut self) -> Duration {
        self.last = Instant::now();
        self.last - self.started
    }

    /// Takes a sample if it is time to; `done`: the share of the work that is done, where it is known.
    pub(super) fn sample(&mut self, done: Option<f64>, memory: impl FnOnce() -> Memory) {
        let elapsed = self.last - self.started;
        let parts = done.unwrap_or(0.0) * PARTS;
        if parts < self.next_part && elapsed < self.next_time {
            return;
        }
        self.next_part = self.next_part.max(parts.floor() + 1.0);
        let doublings = (self.samples.len() / SAMPLES_EACH).min(20) as u32;
        self.next_time = elapsed + EVERY * (1 << doublings);
        self.push(memory());
    }

    /// Takes the last sample.
    pub(super) fn finish(&mut self, memory: Memory) {
        self.elapsed();
        if self.samples.last().is_none_or(|last| last.rows < self.rows.total()) {
            self.push(memory);
        }
        self.memory_max = self.memory_max.max(memory);
    }

    fn push(&mut self, memory: Memory) {
        let (seconds, rows) = ((self.last - self.started).as_secs_f64(), self.rows.total());
        let before = self.samples.last().copied().unwrap_or_default();
        self.samples.push(Sample {
            seconds,
            rows,
            commits: self.commits,
            rows_per_s: per_second(rows - before.rows, seconds - before.seconds),
            memory,
            commit_latency: latency(&self.interval),
        });
        self.interval.clear();
        self.memory_max = self.memory_max.max(memory);
    }

    /// Returns what clocks and counters say.
    pub(super) fn report(&self) -> Report {
        Report {
            rows: self.rows,
            // Those on their way are not made, and are not once one has failed.
            commits: self.commits - self.open.len() as u64,
            seconds: (self.last - self.started).as_secs_f64(),
            commit_latency: latency(&self.commit_latency),
            block_time: latency(&self.block_time),
            giants: self.giants.clone(),
            samples: self.samples.clone(),
            memory: self.samples.last().map_or(Memory::default(), |last| last.memory),
            memory_max: self.memory_max,
            ..Report::default()
        }
    }
}

fn nanoseconds(took: Duration) -> u64 {
    u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)
}

fn latency(all: &Durations) -> Latency {
    let us = |nanoseconds: u64| nanoseconds as f64 / 1e3;
    Latency { p50_us: us(all.percentile(50)), p99_us: us(all.percentile(99)), max_us: us(all.max()) }
}
