//! A session of measuring: where stores are made, the machine with its limits, and the rows so far.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    BenchError,
    cli::Common,
    error::Result,
    job::{Job, Target},
    limits::{Effort, Limits},
    machine::{Machine, filesystem, is_memory},
    measure::Run,
    replay::{self, ReplayJob},
    report::{Row, table::rate},
    runner::Runner,
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
    home: Home,
}

impl Session {
    /// Makes the folder of the stores and measures the limits.
    ///
    /// # Errors
    /// [`BenchError::Io`]; [`BenchError::Usage`] if this program cannot be found.
    pub(crate) fn start(common: &Common) -> Result<Self> {
        let home = Home::new(common.dir.as_deref())?;
        let runner = if common.in_process { Runner::Here } else { Runner::this_program()? };
        let machine = Machine::here(&home.dir);
        say!("measuring the limits of this machine …");
        let (limits, limit_rows) = Limits::measure(&home.dir, if common.quick { Effort::QUICK } else { Effort::FULL })?;
        let rows = limit_rows.iter().map(|limit| Row::of_limit(limit, &machine)).collect();
        Ok(Self { runner, machine, limits, rows, failed: None, home })
    }

    /// Returns the folder in which stores are made.
    pub(crate) fn dir(&self) -> &Path {
        &self.home.dir
    }

    /// Measures jobs, each up to `runs` times. One that fails is named and left out.
    pub(crate) fn measure(&mut self, jobs: &[Job], runs: usize) {
        for (index, job) in jobs.iter().enumerate() {
            say_part!("[{}/{}] {}, {} … ", index + 1, jobs.len(), job.scenario(), job.row_name());
            match self.runs_beside_syncs(job, runs) {
                Ok((all, limits)) => {
                    for runs in by_part(&all) {
                        let mut row = Row::of_job(job, &runs, &self.machine, Some(&limits));
                        compare_heads(&mut row, &self.rows);
                        progress(&row, &runs[0].part);
                        self.rows.push(row);
                    }
                    say!("");
                }
                Err(error) => {
                    say!("failed: {}", bristlecone::report(&error));
                    self.failed.get_or_insert(error);
                }
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

    /// Measures a replay up to `runs` times; `label` names its switches in the table of optimisations. One that fails
    /// is named and left out.
    ///
    /// # Errors
    /// [`BenchError::Stopped`] if somebody interrupted it: nothing else should be begun.
    pub(crate) fn replay(&mut self, job: &ReplayJob, runs: usize, label: Option<&str>) -> Result<()> {
        let name = label.map_or_else(|| job.row_name(), |label| format!("{} {label}", job.backend.name()));
        say!("{}, {name}", job.trace.display());
        match replay::measure(job, runs, matches!(self.runner, Runner::Here)) {
            Ok(row) if row.replay.as_ref().is_some_and(|replay| replay.stopped) => return Err(BenchError::Stopped),
            Err(BenchError::Stopped) => return Err(BenchError::Stopped),
            Ok(mut row) => {
                if let Some(label) = label {
                    // The words of its switches are one step of the table.
                    let plain = row.name.strip_suffix(&row.variant).unwrap_or(&row.name).trim_end().to_owned();
                    (row.name, row.variant) = (format!("{plain} {label}"), label.to_owned());
                }
                replay::set_floor(&mut row, job, &self.rows);
                compare_heads(&mut row, &self.rows);
                progress(&row, "");
                say!("");
                self.rows.push(row);
            }
            Err(error) => {
                say!("failed: {}", bristlecone::report(&error));
                self.failed.get_or_insert(error);
            }
        }
        Ok(())
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

/// The folder in which stores are made; removed at the end.
pub(crate) struct Home {
    pub(crate) dir: PathBuf,
}

impl Home {
    /// Makes it in `above`, or where [`default_dir`] says.
    ///
    /// # Errors
    /// [`BenchError::Io`].
    pub(crate) fn new(above: Option<&Path>) -> Result<Self> {
        let above = above.map_or_else(default_dir, Path::to_owned);
        fs::create_dir_all(&above).map_err(BenchError::io(&above))?;
        if let Some(kind) = filesystem(&above).filter(|kind| is_memory(kind)) {
            say!(
                "warning: {} is a {kind}, which is memory: durable figures mean nothing here; use --dir",
                above.display()
            );
        }
        let dir = above.join(format!("bristlecone-bench-{}", std::process::id()));
        fs::create_dir(&dir).map_err(BenchError::io(&dir))?;
        spread(&dir);
        Ok(Self { dir })
    }
}

/// Has ext4 begin each folder in `dir` in a part of the disk of its own, as it does below the root (`chattr +T`). Without a
/// journal it looks, for minutes, at every file that was removed in a part before it makes another one there: each row
/// would be measured in what the rows before it removed. Other file systems have no such flag, and no such need.
fn spread(dir: &Path) {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
        let Ok(folder) = fs::File::open(dir) else { return };
        let _ = ioctl_getflags(&folder).and_then(|flags| ioctl_setflags(&folder, flags | IFlags::TOPDIR));
    }
    #[cfg(not(target_os = "linux"))]
    let _ = dir;
}

impl Drop for Home {
    fn drop(&mut self) {
        // What cannot be removed stays behind under a name that says what it is.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Returns the folder `target` here, where a build has made one, or else the system's temporary folder.
pub(crate) fn default_dir() -> PathBuf {
    let target = Path::new("target");
    if target.is_dir() { target.join("bench") } else { std::env::temp_dir() }
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
