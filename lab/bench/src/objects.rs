//! `cone bench objects`: what objects cost by themselves: looked up by their ids in very many segments, checked and committed
//! by one thread and by all cores, and read where one is large.
//!
//! **The idea.** These figures need no history and no wide directory, and belong to no scenario of the tree suite: each
//! part makes the store that it needs. `docs/bench.md`, section 19, says what the figures mean.

use std::{fs, path::PathBuf};

use clap::{Args, ValueEnum};

use crate::{
    BenchError,
    error::Result,
    machine::Machine,
    measure::Run,
    options::positive,
    report::{self, Row, json, median},
    scratch::Scratch,
};

mod ids;
mod threads;
mod value;

/// A part of the bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ObjectsPart {
    /// Lookups by id in a store of many segments
    Ids,
    /// A check of a whole store, on one thread and on all cores
    Check,
    /// One large commit, on one thread and on all cores
    Commit,
    /// Reading one large value
    Value,
}

/// Measures objects by themselves.
#[derive(Args, Clone, Debug)]
pub struct ObjectsArgs {
    /// The parts, separated by commas
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',')]
    pub only: Vec<ObjectsPart>,
    /// How many segments of 1 MiB the store has in which ids are looked up
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(2..=10_000))]
    pub segments: u64,
    /// How many entries are checked, and committed at once
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1000..=100_000_000))]
    pub entries: u64,
    /// How many bytes the large value has
    #[arg(long, value_name = "N", default_value_t = 100_000_000, value_parser = clap::value_parser!(u64).range(1000..=1_000_000_000))]
    pub value_bytes: u64,
    /// Rounds, of which the median counts; in each, what is compared runs in turns
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = positive)]
    pub rounds: usize,
    /// Where stores are made and removed again; a real disk
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Merge the rows into this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// The runs of one row.
struct Measured {
    scenario: String,
    backend: &'static str,
    /// Of rows that write.
    durability: &'static str,
    value_bytes: u64,
    runs: Vec<Run>,
}

impl Measured {
    fn new(scenario: String, backend: &'static str, value_bytes: u64) -> Self {
        Self { scenario, backend, durability: "", value_bytes, runs: Vec::new() }
    }

    fn rate(&self) -> f64 {
        median(&self.runs).map_or(0.0, |run| run.ops as f64 / run.seconds.max(1e-9))
    }

    /// Returns how many times as fast as another this is, as it is told; of what is wrong nothing but that.
    fn times(&self, other: &Self) -> String {
        if self.runs.iter().chain(&other.runs).any(|run| run.wrong.is_some()) {
            return "WRONG".into();
        }
        format!("{:.2}", self.rate() / other.rate().max(f64::MIN_POSITIVE))
    }

    fn row(&self, machine: &Machine) -> Row {
        let Some(run) = median(&self.runs) else { return Row::default() };
        let mut row = Row::of_runs(run, &self.runs, machine);
        row.backend = self.backend.into();
        row.durability = self.durability.into();
        row.value_bytes = self.value_bytes;
        row.name = format!("{} {}", self.backend, if self.backend == "disk" { "none" } else { "" }).trim_end().into();
        row.scenario.clone_from(&self.scenario);
        row.checked = row.wrong.is_none();
        row
    }
}

/// Does what the options ask for. The table, or with `json` the rows, go to standard output.
///
/// # Errors
/// [`BenchError::Wrong`] after everything was reported, if an answer or a root was wrong; others of stores and the system.
pub(crate) fn run(args: &ObjectsArgs, json: bool) -> Result<()> {
    if let Some(file) = &args.json {
        json::read(file)?;
    }
    let scratch = Scratch::new(args.dir.as_deref())?;
    let machine = Machine::here(&scratch.dir);
    let mut rows = Vec::new();
    for part in ObjectsPart::value_variants() {
        if !args.only.is_empty() && !args.only.contains(part) {
            continue;
        }
        let dir = scratch.dir.join("objects");
        fs::create_dir_all(&dir).map_err(BenchError::io(&dir))?;
        let measured = match part {
            ObjectsPart::Ids => ids::run(args, &dir)?,
            ObjectsPart::Check => threads::check(args, &dir)?,
            ObjectsPart::Commit => threads::commit(args)?,
            ObjectsPart::Value => value::run(args, &dir)?,
        };
        fs::remove_dir_all(&dir).map_err(BenchError::io(&dir))?;
        let new: Vec<Row> = measured.iter().map(|measured| measured.row(&machine)).collect();
        if let Some(file) = &args.json {
            json::merge(file, &new)?;
        }
        rows.extend(new);
    }
    report::show_checked(&rows, json)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::cores;

    #[test]
    fn what_is_wrong_is_told_in_no_ratio() {
        let mut rows = [2.0, 1.0].map(|seconds| {
            let runs = vec![Run { ops: 1, seconds, ..Run::default() }];
            Measured { runs, ..Measured::new("value".into(), "disk", 1) }
        });
        assert_eq!(rows[1].times(&rows[0]), "2.00");
        rows[0].runs[0].wrong = Some("what was read is not the value".into());
        assert_eq!(rows[1].times(&rows[0]), "WRONG");
    }

    #[test]
    fn every_part_is_checked_and_says_how_many_threads_worked() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rows.json");
        let args = ObjectsArgs {
            only: Vec::new(),
            segments: 2,
            entries: 2000,
            value_bytes: 100_000,
            rounds: 2,
            dir: Some(dir.path().to_owned()),
            json: Some(file.clone()),
        };
        run(&args, true).unwrap();
        let rows: Vec<Row> =
            json::read(&file).unwrap().into_iter().map(|row| serde_json::from_value(row).unwrap()).collect();
        let parts = 4 + 3;
        let in_turns = 5 * if cores() > 1 { 2 } else { 1 };
        assert_eq!(rows.len(), parts + in_turns);
        assert!(rows.iter().all(|row| row.checked && row.runs == 2 && row.total_ops > 0), "{rows:?}");
        let threads = |end: &str| {
            rows.iter().filter(|row| row.scenario.ends_with(end)).map(|row| row.threads).collect::<Vec<_>>()
        };
        assert_eq!(threads("-1t"), [1; 5]);
        let roots: std::collections::BTreeSet<_> = rows.iter().filter_map(|row| row.root.clone()).collect();
        // Two layouts, two sizes of values.
        assert_eq!(roots.len(), 4);
    }
}
