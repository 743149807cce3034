//! A row: one scenario on one backend, the median of its runs.

use serde::{Deserialize, Serialize};

use super::{
    chain::ChainFigures,
    figures::{GcFigures, ImportFigures, MapFigures, ReplayFigures},
    share,
};
use crate::{
    BenchError,
    error::Result,
    job::{Job, Target, Work},
    limits::{LimitRow, Limits},
    machine::Machine,
    measure::Run,
};

/// One result, as files and standard output have it. `docs/bench.md` lists the keys.
///
/// The first six keys are shared with other suites' files; a file may hold rows with these alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Row {
    /// Whose figure it is: suite, backend, durability, switches, sizes. Unique in a file together with `scenario`.
    pub name: String,
    /// What was done, with the value size.
    pub scenario: String,
    /// Operations.
    pub total_ops: u64,
    /// Seconds of the median run.
    pub total_time: f64,
    /// Operations per second: the median of the runs.
    pub ops_per_sec: f64,
    /// The high-water mark of resident memory in KiB, mapped pages included: the largest of the runs.
    pub maxrss_kb: u64,
    /// The backend; empty for the limits.
    pub backend: String,
    /// When a commit was acknowledged.
    pub durability: String,
    /// The switches that were not as usual, or the step of the table of optimisations.
    pub variant: String,
    /// How much was done where that was not as usual, a word for each size: `tree-add=200`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub sizes: String,
    /// The size of the values in bytes.
    pub value_bytes: u64,
    /// How many threads worked; 0 where that is not known.
    pub threads: u64,
    /// How many tasks shared the work, in the sweep over task counts; else 0.
    #[serde(skip_serializing_if = "is_zero")]
    pub tasks: u64,
    /// How many runs there were.
    pub runs: u64,
    /// The slowest run.
    pub ops_per_sec_min: f64,
    /// The fastest run.
    pub ops_per_sec_max: f64,
    /// Commits in a run.
    pub commits: u64,
    /// Half the commits took no longer, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_p50_us: Option<f64>,
    /// 99 of 100 commits took no longer, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_p99_us: Option<f64>,
    /// Bytes given to the backend for each commit, with framing, where they are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_commit: Option<f64>,
    /// Syncs within the timed part.
    pub syncs: u64,
    /// What a sync of 4 KB into zeroes took just before and after a durable row, on average, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fdatasync_us: Option<f64>,
    /// What the file operations and syncs of one commit took by themselves just after a durable row of a Git repository,
    /// on average, in microseconds: the median of the runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bare_us: Option<f64>,
    /// Bytes of a Git repository's objects after its packs were folded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folded_bytes: Option<u64>,
    /// Bytes of the objects of a copy of it after `git gc`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gc_bytes: Option<u64>,
    /// Of other programs and libraries: which version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Bytes of the store at the end, up to its tail.
    pub store_bytes: u64,
    /// Bytes of its files, pre-allocated space included.
    pub file_bytes: u64,
    /// The most anonymous memory resident at a time, in KiB: the largest of the runs.
    pub rss_anon_kb: u64,
    /// The most pages of mapped files resident at a time, in KiB: the largest of the runs.
    pub rss_file_kb: u64,
    /// Whether contents, answers and roots were checked after every run and were right.
    pub checked: bool,
    /// What was wrong, if anything was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wrong: Option<String>,
    /// How many times as fast or as slow as usual the machine was at the worst while the row was measured, where that was
    /// unusual.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unrest: Option<f64>,
    /// The limit of the same run that comes nearest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// The share of that limit, 0 to 1 and more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// The root at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// The last commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// What a replay of a trace has beside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<Box<ReplayFigures>>,
    /// What an import of a whole history has beside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub import: Option<Box<ImportFigures>>,
    /// What a row of ordered maps has beside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub map: Option<Box<MapFigures>>,
    /// What a replay of a chain has beside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain: Option<Box<ChainFigures>>,
    /// What commits beside collections have beside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gc: Option<Box<GcFigures>>,
    /// The processor.
    pub cpu: String,
    /// How many cores it has for us.
    pub cores: u64,
    /// The kernel.
    pub kernel: String,
    /// The file system of the stores.
    pub filesystem: String,
    /// The day, in UTC.
    pub date: String,
    /// The revision of the sources; `+` if they were changed.
    pub revision: String,
}

impl Row {
    /// Makes a row of the runs of a job.
    pub(crate) fn of_job(job: &Job, runs: &[Run], machine: &Machine, limits: Option<&Limits>) -> Self {
        let Some(run) = median(runs) else { return Self::default() };
        let part = &run.part;
        let mut row = Self::of_runs(run, runs, machine);
        row.name = job.row_name();
        row.scenario = if part.is_empty() { job.scenario() } else { format!("{}-{part}", job.scenario()) };
        row.backend = job.target.backend().into();
        row.durability = if job.work.writes() { job.target.durability().name().into() } else { String::new() };
        (row.variant, row.sizes) = (job.variant(), job.unusual_sizes());
        row.value_bytes = job.value_bytes as u64;
        row.checked = row.wrong.is_none();
        if matches!(job.work, Work::Sweep(_)) {
            row.tasks = job.sizes.tasks as u64;
        }
        if job.target.is_synced() && !job.target.has_git_ids() {
            row.fdatasync_us = limits.map(|limits| limits.sync_prezeroed * 1e6);
        }
        // What others write is not counted.
        row.bytes_per_commit = row.bytes_per_commit.filter(|_| !job.target.is_peer());
        row.bare_us = middle(runs.iter().filter_map(|run| run.bare_us).collect());
        row.folded_bytes = runs.iter().find_map(|run| run.folded_bytes);
        row.gc_bytes = runs.iter().find_map(|run| run.gc_bytes);
        if let Some((limit, share)) = limits.and_then(|limits| share::nearest(job, run, limits)) {
            (row.limit, row.share) = (Some(limit.into()), Some(share));
        }
        row
    }

    /// Makes a row of a limit of the machine.
    pub(crate) fn of_limit(limit: &LimitRow, machine: &Machine) -> Self {
        let mut row = Self::of_runs(&limit.run, std::slice::from_ref(&limit.run), machine);
        row.name = LIMITS.into();
        row.scenario.clone_from(&limit.scenario);
        row.value_bytes = limit.bytes as u64;
        row
    }

    /// Makes a row of raw reads, of `bytes` bytes on average.
    pub(crate) fn of_reads(scenario: String, bytes: u64, run: &Run, machine: &Machine) -> Self {
        let mut row = Self::of_runs(run, std::slice::from_ref(run), machine);
        (row.name, row.scenario, row.value_bytes) = (RAW_READS.into(), scenario, bytes);
        row
    }

    /// Makes a row of runs, of which `run` is the one to tell of. What is wrong in any is wrong in the row; the caller says
    /// whether it checked.
    pub(crate) fn of_runs(run: &Run, runs: &[Run], machine: &Machine) -> Self {
        let rates = || runs.iter().map(rate);
        Self {
            total_ops: run.ops,
            total_time: run.seconds,
            ops_per_sec: rate(run),
            ops_per_sec_min: rates().fold(f64::INFINITY, f64::min),
            ops_per_sec_max: rates().fold(0.0, f64::max),
            maxrss_kb: runs.iter().map(|run| run.maxrss_kb).max().unwrap_or(0),
            rss_anon_kb: runs.iter().map(|run| run.rss_anon_kb).max().unwrap_or(0),
            rss_file_kb: runs.iter().map(|run| run.rss_file_kb).max().unwrap_or(0),
            threads: run.threads,
            runs: runs.len() as u64,
            commits: run.commits,
            latency_p50_us: run.p50_us,
            latency_p99_us: run.p99_us,
            // A commit writes something: where there is nothing it was not counted.
            bytes_per_commit: (run.commits > 0 && run.bytes_written > 0)
                .then(|| run.bytes_written as f64 / run.commits as f64),
            syncs: run.syncs,
            store_bytes: run.store_bytes,
            file_bytes: run.file_bytes,
            root: run.root.clone(),
            head: run.head.clone(),
            wrong: runs.iter().find_map(|run| run.wrong.clone()),
            ..Self::default()
        }
        .on(machine)
    }

    /// Puts the row in the place of the one with its name and scenario, or behind all.
    pub(crate) fn put(self, rows: &mut Vec<Self>) {
        match rows.iter_mut().find(|row| row.name == self.name && row.scenario == self.scenario) {
            Some(row) => *row = self,
            None => rows.push(self),
        }
    }

    /// Returns the row with the machine that it was measured on.
    pub(crate) fn on(self, machine: &Machine) -> Self {
        Self {
            cpu: machine.cpu.clone(),
            cores: machine.cores,
            kernel: machine.kernel.clone(),
            filesystem: machine.filesystem.clone(),
            date: machine.date.clone(),
            revision: machine.revision.clone(),
            ..self
        }
    }

    /// Fails if the row is wrong.
    ///
    /// # Errors
    /// [`BenchError::Wrong`].
    pub(crate) fn verdict(&self) -> Result<()> {
        match &self.wrong {
            Some(reason) => {
                let scenario = format!("{}, {}", self.scenario, self.name);
                Err(BenchError::Wrong { scenario, reason: reason.clone() })
            }
            None => Ok(()),
        }
    }

    /// Whether nothing is wrong with the row, so that it may stand beside others.
    #[must_use]
    pub(crate) const fn is_right(&self) -> bool {
        self.wrong.is_none()
    }

    /// Whether the objects have Git's ids, so that roots and commits are to be the same as in other such rows.
    #[must_use]
    pub(crate) fn has_git_ids(&self) -> bool {
        Target::all().any(|target| target.has_git_ids() && target.backend() == self.backend)
    }

    /// Whether this is a limit of the machine and no result of a store.
    #[must_use]
    pub fn is_limit(&self) -> bool {
        self.name == LIMITS
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The name of rows that are limits of the machine.
const LIMITS: &str = "limits";
/// The name of rows of raw reads.
const RAW_READS: &str = "raw reads";

/// Returns the run in the middle by its rate; of two in the middle the slower.
#[must_use]
pub fn median(runs: &[Run]) -> Option<&Run> {
    let mut sorted: Vec<&Run> = runs.iter().collect();
    sorted.sort_by(|one, other| rate(one).total_cmp(&rate(other)));
    sorted.get(sorted.len().saturating_sub(1) / 2).copied()
}

/// Returns the value in the middle; of two in the middle the smaller.
pub(crate) fn middle(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied()
}

fn rate(run: &Run) -> f64 {
    if run.seconds > 0.0 { run.ops as f64 / run.seconds } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_in_one_run_is_wrong_in_the_row() {
        let machine = Machine::here(std::path::Path::new("."));
        let right = Run { seconds: 1.0, ops: 1, ..Run::default() };
        let wrong = Run { wrong: Some("an entry holds something else".into()), ..right.clone() };
        assert_eq!(Row::of_runs(&right, std::slice::from_ref(&right), &machine).wrong, None);
        assert_eq!(Row::of_runs(&right, &[right.clone(), wrong.clone()], &machine).wrong, wrong.wrong);
    }

    #[test]
    fn what_was_not_counted_is_not_written_as_nothing() {
        let run = |bytes_written| Run { commits: 4, bytes_written, seconds: 1.0, ..Run::default() };
        let each = |run: Run| Row::of_runs(&run, std::slice::from_ref(&run), &Machine::default()).bytes_per_commit;
        assert_eq!((each(run(100)), each(run(0))), (Some(25.0), None));
    }
}
