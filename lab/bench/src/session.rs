//! A session of measuring: where stores are made, the machine with its limits, and the rows so far.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::{
    BenchError,
    error::Result,
    job::Job,
    limits::{Effort, Limits},
    machine::Machine,
    measure::Run,
    options::Common,
    peers, replay,
    report::{Row, json, table::rate},
    runner::Runner,
    scratch::Scratch,
    unrest::{Unrest, worse},
};

/// A job that was measured in unrest is measured once more unless it took longer than this.
const AGAIN_TIME_MAX: Duration = Duration::from_secs(30);

/// What the runs of a job found.
struct Measured {
    runs: Vec<Vec<Run>>,
    /// The limits, in which syncs take what they took around a durable job.
    limits: Limits,
    /// How unusual the machine was meanwhile, if it was.
    unrest: Option<f64>,
}

impl Measured {
    fn is_wrong(&self) -> bool {
        self.runs.iter().flatten().any(|run| run.wrong.is_some())
    }

    /// Returns which of two measurements of a job counts: the quieter one, but one that found something wrong in any case.
    fn or_again(self, again: Self) -> Self {
        let is_quieter = match (self.unrest, again.unrest) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(first), Some(again)) => again < first,
        };
        if again.is_wrong() || (is_quieter && !self.is_wrong()) { again } else { self }
    }
}

/// Measures jobs and collects their rows. The folder in which it makes stores is removed when it is dropped.
pub(crate) struct Session {
    runner: Runner,
    pub(crate) machine: Machine,
    limits: Limits,
    unrest: Unrest,
    /// Nothing is measured twice.
    quick: bool,
    /// Into which rows are merged as they come.
    file: Option<PathBuf>,
    /// The limits, and a row for each job or part of a job, in order.
    pub(crate) rows: Vec<Row>,
    /// The first failure of a job; the others were measured none the less.
    pub(crate) failed: Option<BenchError>,
    scratch: Scratch,
}

impl Session {
    /// Makes the folder of the stores and measures the limits. Rows are merged into `file` as they come.
    ///
    /// # Errors
    /// [`BenchError::Io`]; [`BenchError::Usage`] if this program cannot be found.
    pub(crate) fn start(common: &Common, file: Option<&Path>) -> Result<Self> {
        let scratch = Scratch::new(common.dir.as_deref())?;
        let runner = if common.in_process { Runner::Here } else { Runner::this_program()? };
        let machine = Machine::here(&scratch.dir);
        say!("measuring the limits of this machine …");
        let (limits, limit_rows) =
            Limits::measure(&scratch.dir, if common.quick { Effort::QUICK } else { Effort::FULL })?;
        let rows: Vec<Row> = limit_rows.iter().map(|limit| Row::of_limit(limit, &machine)).collect();
        if let Some(file) = file {
            json::merge(file, &rows)?;
        }
        let unrest = Unrest::start(&scratch.dir)?;
        Ok(Self {
            runner,
            machine,
            limits,
            unrest,
            quick: common.quick,
            rows,
            file: file.map(Path::to_owned),
            failed: None,
            scratch,
        })
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
            match self.on_quiet_machine(job, runs) {
                Ok(measured) => {
                    for runs in by_part(&measured.runs) {
                        let mut row = Row::of_job(job, &runs, &self.machine, Some(&measured.limits));
                        row.version = job.target.is_peer().then(|| peers::git::version(job.target)).flatten();
                        row.unrest = measured.unrest;
                        self.push(row, &runs[0].part);
                    }
                    say!("");
                }
                Err(error) => self.fail(error),
            }
        }
    }

    /// Measures a job, and if the machine was not quiet meanwhile, and it did not take long, once more; the quieter of the two counts,
    /// unless one was wrong.
    fn on_quiet_machine(&mut self, job: &Job, runs: usize) -> Result<Measured> {
        let started = Instant::now();
        let first = self.measured(job, runs)?;
        let Some(ratio) = first.unrest.filter(|_| !self.quick && started.elapsed() < AGAIN_TIME_MAX) else {
            return Ok(first);
        };
        say_part!("unrest ×{ratio:.1}, once more … ");
        let again = self.measured(job, runs)?;
        Ok(first.or_again(again))
    }

    fn measured(&mut self, job: &Job, runs: usize) -> Result<Measured> {
        let synced = job.target.is_synced().then_some(&*job.dir);
        let before = (job.target.is_synced() && !job.target.has_git_ids())
            .then(|| self.limits.with_sync_now(&job.dir))
            .transpose()?;
        let mut worst = self.unrest.probe(synced)?;
        let probe = &mut self.unrest;
        let runs = self.runner.runs(job, runs, || {
            worst = worse(worst, probe.probe(None)?);
            Ok(())
        })?;
        let mut limits = self.limits.clone();
        if let Some(before) = before {
            // What a sync takes drifts: a durable row is read beside what syncs took around it.
            let after = self.limits.with_sync_now(&job.dir)?;
            limits.sync_prezeroed = f64::midpoint(before.sync_prezeroed, after.sync_prezeroed);
        }
        let unrest = worse(worst, self.unrest.probe(synced)?);
        Ok(Measured { runs, limits, unrest })
    }

    /// Does one run of a job and returns its row, which is not taken in.
    ///
    /// # Errors
    /// Those of the scenario.
    pub(crate) fn once(&mut self, job: &Job) -> Result<Row> {
        let measured = self.measured(job, 1)?;
        let runs: Vec<Run> = measured.runs.into_iter().flatten().collect();
        Ok(Row { unrest: measured.unrest, ..Row::of_job(job, &runs, &self.machine, Some(&measured.limits)) })
    }

    /// Does something, and returns with its result how unusual the machine was just before and after it. Syncs are probed
    /// where the work is `synced`.
    ///
    /// # Errors
    /// Those of a probe.
    pub(crate) fn beside_probes<T>(&mut self, synced: bool, work: impl FnOnce() -> T) -> Result<(T, Option<f64>)> {
        let before = self.probe(synced)?;
        let done = work();
        Ok((done, worse(before, self.probe(synced)?)))
    }

    /// Returns how unusual the machine is, if it is; syncs are probed where the work is `synced`.
    ///
    /// # Errors
    /// Those of a probe.
    pub(crate) fn probe(&mut self, synced: bool) -> Result<Option<f64>> {
        let dir = synced.then(|| self.dir().to_owned());
        self.unrest.probe(dir.as_deref())
    }

    /// Takes in a row that is measured: it is compared with the others, shown, and written to the file of results at once,
    /// so that an interruption costs no row but the one that is being measured.
    fn push(&mut self, mut row: Row, part: &str) {
        let changed = compare_heads(&mut row, &mut self.rows).cloned();
        progress(&row, part);
        self.keep(row);
        // What it was compared with had nothing to be compared with until now.
        changed.iter().for_each(|other| self.replace(other));
    }

    /// Takes in a row that is compared and shown, and writes it to the file of results.
    pub(crate) fn keep(&mut self, row: Row) {
        if let Some(file) = &self.file
            && let Err(error) = json::merge(file, std::slice::from_ref(&row))
        {
            self.fail(error);
        }
        self.rows.push(row);
    }

    /// Takes in a row that was measured elsewhere.
    pub(crate) fn add(&mut self, row: Row) {
        self.push(row, "");
        say!("");
    }

    /// Puts a row in the place of the one with its name and scenario.
    pub(crate) fn replace(&mut self, row: &Row) {
        if let Some(file) = &self.file
            && let Err(error) = json::merge(file, std::slice::from_ref(row))
        {
            self.fail(error);
        }
        row.clone().put(&mut self.rows);
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
        self.rows.iter().try_for_each(Row::verdict)
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
    if let Some(ratio) = row.unrest {
        say_part!("unrest ×{ratio:.1} ");
    }
    if let Some(wrong) = &row.wrong {
        say_part!("WRONG: {wrong} ");
    }
}

/// Compares the last commit, and so every commit before it, with what the other backends made of the same
/// scenario; of replays also what was done and read. Returns the row of another one that is shown by this to be right, or is
/// not known any more to be.
fn compare_heads<'r>(row: &mut Row, rows: &'r mut [Row]) -> Option<&'r Row> {
    let format = |row: &Row| row.replay.as_ref().map(|replay| replay.format.clone());
    let same = |other: &&mut Row| {
        other.scenario == row.scenario
            && ids_of(&other.variant).eq(ids_of(&row.variant))
            && other.has_git_ids() == row.has_git_ids()
            && format(other) == format(row)
            && other.head.is_some()
    };
    let other = rows.iter_mut().find(same)?;
    if row.replay.is_some() {
        return replay::agree::row(row, other).then_some(&*other);
    }
    if row.head.is_none() || other.head == row.head {
        return None;
    }
    // Nobody knows which of the two is wrong.
    let (ours, theirs) = (row.name.clone(), other.name.clone());
    for (one, name) in [(row, theirs), (&mut *other, ours)] {
        one.checked = false;
        one.wrong.get_or_insert_with(|| format!("the last commit is not that of {name}"));
    }
    Some(&*other)
}

/// Returns what a row's variant says that may change ids: other switches change how objects are reached.
fn ids_of(variant: &str) -> impl Iterator<Item = &str> {
    let reaches = |word: &str| matches!(word, "" | "no-maps" | "no-direct") || word.starts_with("cache=");
    variant.split(' ').filter(move |word| !reaches(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::ReplayFigures;

    #[test]
    fn what_was_wrong_counts_however_quiet_the_machine_was_the_other_time() {
        let measured = |unrest: Option<f64>, wrong: Option<&str>| {
            let run = Run { wrong: wrong.map(str::to_owned), ..Run::default() };
            Measured { runs: vec![vec![Run::default()], vec![run]], limits: Limits::default(), unrest }
        };
        let counts = |first: Measured, again: Measured| {
            let counted = first.or_again(again);
            (counted.unrest, counted.is_wrong())
        };
        let right = |unrest| measured(unrest, None);
        let wrong = |unrest| measured(unrest, Some("the root is another"));
        assert_eq!(counts(right(Some(3.0)), right(None)), (None, false));
        assert_eq!(counts(right(Some(3.0)), right(Some(2.0))), (Some(2.0), false));
        assert_eq!(counts(right(Some(2.0)), right(Some(3.0))), (Some(2.0), false));
        assert_eq!(counts(wrong(Some(3.0)), right(None)), (Some(3.0), true));
        assert_eq!(counts(right(Some(2.0)), wrong(Some(3.0))), (Some(3.0), true));
        assert_eq!(counts(wrong(Some(3.0)), wrong(None)), (None, true));
    }

    #[test]
    fn another_last_commit_than_on_another_backend_is_found() {
        let row = |name: &str, head: &str| Row {
            name: name.into(),
            scenario: "commits-20B".into(),
            head: Some(head.into()),
            checked: true,
            ..Row::default()
        };
        let (mut other, mut rows) = (row("disk", "b"), [row("memory", "a")]);
        assert_eq!(compare_heads(&mut other, &mut rows).map(|row| &row.name[..]), Some("memory"));
        assert!(!other.checked && other.wrong.unwrap().contains("memory"));
        // Either may be the wrong one.
        assert!(!rows[0].checked && rows[0].wrong.as_ref().unwrap().contains("disk"));
        let mut same = row("disk", "a");
        compare_heads(&mut same, &mut [row("memory", "a")]);
        assert!(same.checked);
        // Only switches that change ids tell rows apart.
        for (variant, checked) in [("no-inline", true), ("no-maps cache=0", false), ("no-inline no-direct", true)] {
            let mut other = Row { variant: variant.into(), ..row("disk", "b") };
            compare_heads(&mut other, &mut [row("memory", "a")]);
            assert_eq!(other.checked, checked, "{variant}");
        }
    }

    #[test]
    fn replays_without_hashes_are_checked_once_two_backends_agree() {
        let row = |name: &str, value_sum: u64, format: &str| {
            let figures = ReplayFigures { value_sum, format: format.into(), ..ReplayFigures::default() };
            let (scenario, head) = ("tezos-9commits".into(), Some("a".into()));
            Row { name: name.into(), scenario, head, replay: Some(Box::new(figures)), ..Row::default() }
        };
        let mut rows = [row("tezos", 7, "tezos"), row("memory", 7, "native")];
        let mut same = row("disk", 7, "native");
        assert_eq!(compare_heads(&mut same, &mut rows).map(|row| &row.name[..]), Some("memory"));
        assert!(same.checked && rows[1].checked && !rows[0].checked);
        assert_eq!(compare_heads(&mut row("disk", 7, "native"), &mut rows), None, "nothing new");
        let mut other = row("disk", 8, "native");
        compare_heads(&mut other, &mut rows);
        assert!(!other.checked && !rows[1].checked && other.wrong.unwrap().contains("8, and 7 in memory"));
    }
}
