//! What a replay has done and what it took.

use bristlecone::CommitId;

use super::CommitHash;
use crate::RowKind;

/// What a replay has done so far.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Rows by kind. With a thread behind that commits, these may be beyond the commits that were made.
    pub rows: RowCounts,
    /// Commits that were made.
    pub commits: u64,
    /// Seconds from the first row to the last.
    pub seconds: f64,
    /// Answers of Find, Mem and Mem_tree that were compared with the recorded ones.
    pub answers_checked: u64,
    /// Those that were others. The replay ends with the first.
    pub answers_wrong: u64,
    /// Commit hashes that were compared with the recorded ones.
    pub hashes_checked: u64,
    /// Those that were others. The replay ends with the first.
    pub hashes_wrong: u64,
    /// What commits took: from the edited tree to the acknowledgement.
    pub commit_latency: Latency,
    /// What blocks took: all rows up to and with a commit. Where a thread behind commits they overlap.
    pub block_time: Latency,
    /// The blocks with 10,000 Adds and more.
    pub giants: Vec<Giant>,
    /// Bytes given to the backend, with framing.
    pub bytes_written: u64,
    /// Bytes of the store up to its tail.
    pub store_bytes: u64,
    /// Bytes of its files, with what is pre-allocated.
    pub file_bytes: u64,
    /// Syncs.
    pub syncs: u64,
    /// Bytes of the values that Find has read.
    pub value_bytes: u64,
    /// The sum of these bytes, modulo 2^64.
    pub value_sum: u64,
    /// Resident memory at the end.
    pub memory: Memory,
    /// The most that was seen of each, in samples.
    pub memory_max: Memory,
    /// Contexts and commits that the trace may still mention.
    pub open: (usize, usize),
    /// The last commit, and its recorded hash.
    pub head: Option<(CommitId, CommitHash)>,
    /// How it went, in steps of a hundredth of the trace or 0.25 s; longer ones in a long replay.
    pub samples: Vec<Sample>,
    /// Where the trace ends within a row: which row that is, and how many bytes of it are there.
    pub cut: Option<String>,
    /// Why it ended.
    pub end: End,
}

impl Report {
    /// Returns the rows per second.
    #[must_use]
    pub fn rows_per_s(&self) -> f64 {
        per_second(self.rows.total(), self.seconds)
    }

    /// Returns the commits per second.
    #[must_use]
    pub fn commits_per_s(&self) -> f64 {
        per_second(self.commits, self.seconds)
    }
}

pub(super) fn per_second(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

/// Rows by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowCounts([u64; 8]);

impl RowCounts {
    /// Counts one row.
    #[inline]
    pub(crate) const fn add(&mut self, kind: RowKind) {
        self.0[kind as usize] += 1;
    }

    /// Adds the counts of another part.
    pub(super) fn add_all(&mut self, part: &Self) {
        self.0.iter_mut().zip(part.0).for_each(|(all, more)| *all += more);
    }

    /// Returns the rows of a kind.
    #[must_use]
    pub const fn of(&self, kind: RowKind) -> u64 {
        self.0[kind as usize]
    }

    /// Returns all rows.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// What something took, in microseconds; percentiles are at most 1 % too high.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Latency {
    /// Half took no longer.
    pub p50_us: f64,
    /// 99 of 100 took no longer.
    pub p99_us: f64,
    /// The longest.
    pub max_us: f64,
}

/// A block with at least [`GIANT_ADDS`] Adds, as the activation of a protocol is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Giant {
    /// Which commit, the first being 1.
    pub commit: u64,
    /// Its Adds.
    pub adds: u64,
    /// All its rows.
    pub rows: u64,
    /// What they took, in seconds.
    pub seconds: f64,
}

impl Giant {
    /// Returns the microseconds of the whole block for each Add.
    #[must_use]
    pub fn us_per_add(&self) -> f64 {
        self.seconds * 1e6 / self.adds as f64
    }
}

/// Blocks with at least this many Adds are listed one by one.
pub const GIANT_ADDS: u64 = 10_000;

/// Resident memory, in KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Anonymous pages: heap and stacks.
    pub anon_kb: u64,
    /// Pages of mapped files.
    pub file_kb: u64,
}

impl Memory {
    /// Returns the larger of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self { anon_kb: self.anon_kb.max(other.anon_kb), file_kb: self.file_kb.max(other.file_kb) }
    }
}

/// A moment of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Seconds since the first row.
    pub seconds: f64,
    /// Rows so far.
    pub rows: u64,
    /// Commits so far.
    pub commits: u64,
    /// Rows per second since the sample before.
    pub rows_per_s: f64,
    /// Resident memory.
    pub memory: Memory,
    /// What the commits since the sample before took.
    pub commit_latency: Latency,
}

/// Why a replay ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// It has not ended, or an error has ended it.
    #[default]
    Open,
    /// The trace ended.
    Trace,
    /// All commits that were asked for are made.
    Commits,
    /// The observer ended it.
    Stopped,
}
