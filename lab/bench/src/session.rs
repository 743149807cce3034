//! A session of measuring: where stores are made, the machine with its limits, and the rows so far.

use std::path::Path;

use crate::{
    BenchError,
    error::Result,
    job::{Job, Target},
    limits::{Effort, Limits},
    machine::Machine,
    measure::Run,
    options::Common,
    peers,
    report::{Row, table::rate},
    runner::Runner,
    scratch::Scratch,
};

/// Measures jobs and collects their rows. The folder in which it makes stores is removed when it is dropped.
pub(crate) struct Session {
    runner: Runner,
    pub(crate) machine: Machine,
    limits: Limits,
    /// The limits, and a row for each job or part of a job, in order.
    pub(crate) rows: Vec<Row>,
    /// The first failure of a job; the others were measured none the less.
    pub(crate) failed: Option<BenchError>,
    scratch: Scratch,
}

impl Session {
    /// Makes the folder of the stores and measures the limits.
    ///
    /// # Errors
    /// [`BenchError::Io`]; [`BenchError::Usage`] if this program cannot be found.
    pub(crate) fn start(common: &Common) -> Result<Self> {
        let scratch = Scratch::new(common.dir.as_deref())?;
        let runner = if common.in_process { Runner::Here } else { Runner::this_program()? };
        let machine = Machine::here(&scratch.dir);
        say!("measuring the limits of this machine …");
        let (limits, limit_rows) =
            Limits::measure(&scratch.dir, if common.quick { Effort::QUICK } else { Effort::FULL })?;
        let rows = limit_rows.iter().map(|limit| Row::of_limit(limit, &machine)).collect();
        Ok(Self { runner, machine, limits, rows, failed: None, scratch })
    }

    /// Whether all runs take place in this process.
    pub(crate) const fn in_process(&self) -> bool {
        matches!(self.runner, Runner::Here)
    }

    /// Returns the folder in which stores are made.
    pub(crate) fn dir(&self) -> &Path {
        &self.scratch.dir
    }

    /// Measures jobs, each up to `runs` times. One that fails is named and left out.
    pub(crate) fn measure(&mut self, jobs: &[Job], runs: usize) {
        for (index, job) in jobs.iter().enumerate() {
            say_part!("[{}/{}] {}, {} … ", index + 1, jobs.len(), job.scenario(), job.row_name());
            match self.runs_beside_syncs(job, runs) {
                Ok((all, limits)) => {
                    for runs in by_part(&all) {
                        let mut row = Row::of_job(job, &runs, &self.machine, Some(&limits));
                        row.version = job.target.is_peer().then(|| peers::git::version(job.target)).flatten();
                        compare_heads(&mut row, &self.rows);
                        progress(&row, &runs[0].part);
                        self.rows.push(row);
                    }
                    say!("");
                }
                Err(error) => self.fail(error),
            }
        }
    }

    /// Runs a job; returns its runs with the limits, in which syncs take what they took around a durable job.
    fn runs_beside_syncs(&self, job: &Job, runs: usize) -> Result<(Vec<Vec<Run>>, Limits)> {
        if job.target != Target::DiskSynced {
            return Ok((self.runner.runs(job, runs)?, self.limits.clone()));
        }
        let before = self.limits.with_sync_now(&job.dir)?;
        let all = self.runner.runs(job, runs)?;
        let mut around = self.limits.with_sync_now(&job.dir)?;
        around.sync_prezeroed = f64::midpoint(before.sync_prezeroed, around.sync_prezeroed);
        Ok((all, around))
    }

    /// Does one run of a job and returns its row, which is not taken in.
    ///
    /// # Errors
    /// Those of the scenario.
    pub(crate) fn once(&self, job: &Job) -> Result<Row> {
        let (all, limits) = self.runs_beside_syncs(job, 1)?;
        let runs: Vec<Run> = all.into_iter().flatten().collect();
        Ok(Row::of_job(job, &runs, &self.machine, Some(&limits)))
    }

    /// Takes in a row that was measured elsewhere, and compares its last commit with those of the rows before it.
    pub(crate) fn add(&mut self, mut row: Row) {
        compare_heads(&mut row, &self.rows);
        progress(&row, "");
        say!("");
        self.rows.push(row);
    }

    /// Names a failure, which the command ends with; what is left is measured none the less.
    pub(crate) fn fail(&mut self, error: BenchError) {
        say!("failed: {}", bristlecone::report(&error));
        self.failed.get_or_insert(error);
    }

    /// Returns what the command ends with: a failure, or a row that is wrong.
    ///
    /// # Errors
    /// The first failure; [`BenchError::Wrong`].
    pub(crate) fn verdict(self) -> Result<()> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        match self.rows.iter().find(|row| row.wrong.is_some()) {
            Some(row) => Err(BenchError::Wrong {
                scenario: format!("{}, {}", row.scenario, row.name),
                reason: row.wrong.clone().unwrap_or_default(),
            }),
            None => Ok(()),
        }
    }
}

/// Returns the runs of each part of a scenario.
fn by_part(all: &[Vec<Run>]) -> Vec<Vec<Run>> {
    let parts = all.iter().map(Vec::len).min().unwrap_or(0);
    (0..parts).map(|part| all.iter().map(|runs| runs[part].clone()).collect()).collect()
}

fn progress(row: &Row, part: &str) {
    let part = if part.is_empty() { String::new() } else { format!("{part} ") };
    say_part!("{part}{}/s ", rate(row.ops_per_sec));
    if let Some(wrong) = &row.wrong {
        say_part!("WRONG: {wrong} ");
    }
}

/// Compares the last commit, and so every commit before it, with what the other backends made of the same
/// scenario.
fn compare_heads(row: &mut Row, rows: &[Row]) {
    let same = |other: &&Row| {
        other.scenario == row.scenario
            && other.variant == row.variant
            && other.has_git_ids() == row.has_git_ids()
            && other.head.is_some()
    };
    let Some(other) = rows.iter().find(same) else { return };
    if row.head.is_some() && other.head != row.head {
        row.checked = false;
        row.wrong = Some(format!("the last commit is not that of {}", other.name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_last_commit_than_on_another_backend_is_found() {
        let row = |name: &str, head: &str| Row {
            name: name.into(),
            scenario: "commits-20B".into(),
            head: Some(head.into()),
            checked: true,
            ..Row::default()
        };
        let mut other = row("disk", "b");
        compare_heads(&mut other, &[row("memory", "a")]);
        assert!(!other.checked && other.wrong.unwrap().contains("memory"));
        let mut same = row("disk", "a");
        compare_heads(&mut same, &[row("memory", "a")]);
        assert!(same.checked);
    }
}
