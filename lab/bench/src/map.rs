//! `cone bench map`: Okra's table, ordered maps beside plain LMDB and the databases that people use.
//!
//! **The idea.** Every engine is a process of its own that makes its map and then does what it is told. A round of a row is
//! done by one engine after the other, within the same second, so that what else the machine does meets all alike; the next
//! round begins with another engine. What is compared is the ratio to plain LMDB of the same round, and its median over the
//! rounds. Each process compares what it reads with a model, and every entry, the root and the versions of each map before that
//! map is renewed.
//!
//! `docs/bench.md`, section 12, says what the figures mean.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::{
    BenchError,
    error::Result,
    machine::Machine,
    options::positive,
    report::{self, Row, json},
    scratch::Scratch,
};

mod child;
mod engine;
mod engines;
mod plan;
mod random;
mod turns;

pub(crate) use engine::{EngineName, MapEngine};
pub(crate) use random::{Key, Sum, key};

use plan::{Operation, SIZES};
use turns::Turns;

/// Measures ordered maps: ours, plain LMDB, and with the feature `peers` redb, fjall, SQLite and RocksDB.
#[derive(Args, Clone, Debug)]
pub struct MapArgs {
    /// How many entries the maps have, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=100_000_000), default_values_t = SIZES)]
    pub entries: Vec<u64>,
    /// When a transaction is acknowledged
    #[arg(long, value_enum, default_value_t = When::Both)]
    pub durability: When,
    /// Only these rows, separated by commas: get-1, get-100, iterate, set-1, set-100, set-1000, set-50000, load,
    /// batches-ascending, batches-random
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Only these engines beside plain LMDB, separated by commas: okra, native, redb, fjall, sqlite, rocksdb
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub engines: Vec<String>,
    /// Rounds of each row, of which the median counts
    #[arg(long, value_name = "N", default_value_t = 11, value_parser = positive)]
    pub rounds: usize,
    /// Three rounds of a tenth
    #[arg(long)]
    pub quick: bool,
    /// Where maps are made and removed again; a real disk
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Merge the rows into this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Be the process of an engine: what the processes are started with
    #[arg(long, hide = true, value_name = "TASK")]
    child: Option<String>,
}

/// The durabilities that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// After the write.
    None,
    /// After the sync.
    Synced,
    /// Both, one after the other.
    Both,
}

impl When {
    const fn synced(self) -> &'static [bool] {
        match self {
            Self::None => &[false],
            Self::Synced => &[true],
            Self::Both => &[true, false],
        }
    }
}

/// What is measured in one run.
pub(crate) struct MapPlan {
    entries: Vec<u64>,
    synced: &'static [bool],
    operations: Vec<Operation>,
    engines: Vec<EngineName>,
    rounds: usize,
    quick: bool,
}

impl MapPlan {
    /// Returns what `bench all` measures: the largest map, synced, with the engines that this program was built with.
    pub(crate) fn of_all(quick: bool) -> Self {
        let entries = if quick { 50_000 } else { 1_000_000 };
        let (rounds, engines) = (if quick { 3 } else { 11 }, all_engines());
        Self { entries: vec![entries], synced: &[true], operations: Operation::ALL.to_vec(), engines, rounds, quick }
    }

    fn new(args: &MapArgs) -> Result<Self> {
        let unknown = |what: &str, name: &str, known: Vec<String>| {
            BenchError::usage(format!("there is no {what} \"{name}\"; there are {}", known.join(", ")))
        };
        for name in &args.only {
            if Operation::ALL.iter().all(|operation| operation.name() != *name) {
                return Err(unknown("row", name, Operation::ALL.iter().map(|one| one.name()).collect()));
            }
        }
        let engines = all_engines();
        for name in &args.engines {
            if !engines.iter().any(|engine| engine.is_called(name)) {
                return Err(unknown("engine", name, engines.iter().map(|one| one.short_name().to_owned()).collect()));
            }
        }
        let wanted = |engine: &EngineName| {
            *engine == EngineName::Lmdb
                || args.engines.is_empty()
                || args.engines.iter().any(|name| engine.is_called(name))
        };
        let named = |operation: &Operation| args.only.is_empty() || args.only.contains(&operation.name());
        Ok(Self {
            entries: args.entries.clone(),
            synced: args.durability.synced(),
            operations: Operation::ALL.into_iter().filter(named).collect(),
            engines: engines.into_iter().filter(wanted).collect(),
            rounds: if args.quick { 3.min(args.rounds) } else { args.rounds },
            quick: args.quick,
        })
    }
}

fn all_engines() -> Vec<EngineName> {
    let peers: &[EngineName] = if cfg!(feature = "peers") { &EngineName::PEERS } else { &[] };
    EngineName::OURS.into_iter().chain(peers.iter().copied()).collect()
}

/// Does what the options ask for. The tables, or with `json` the rows, go to standard output.
///
/// # Errors
/// [`BenchError::Usage`] for engines and rows that there are not; [`BenchError::Wrong`] after everything was reported, if a
/// map did not hold what was written to it.
pub(crate) fn run(args: &MapArgs, json: bool) -> Result<()> {
    if let Some(task) = &args.child {
        return child::run(task);
    }
    let plan = MapPlan::new(args)?;
    if let Some(file) = &args.json {
        json::read(file)?;
    }
    let scratch = Scratch::new(args.dir.as_deref())?;
    let machine = Machine::here(&scratch.dir);
    let mut rows = Vec::new();
    let measured = measure(&plan, &scratch.dir, &machine, &mut |new| {
        if let Some(file) = &args.json {
            json::merge(file, &new)?;
        }
        new.into_iter().for_each(|row| row.put(&mut rows));
        Ok(())
    });
    // What was measured before an engine failed is shown, and that nobody checked it.
    let shown = if rows.is_empty() { Ok(()) } else { report::show_checked(&rows, json) };
    measured.and(shown)
}

/// Measures a plan in a folder. `keep` gets the rows of each table line as they come, and once more when all processes have
/// compared their maps: as checked ones, or as wrong ones.
///
/// # Errors
/// [`BenchError::Child`] for a process that ended; [`BenchError::Stopped`] for one that the user interrupted; those of `keep`.
pub(crate) fn measure(
    plan: &MapPlan,
    dir: &std::path::Path,
    machine: &Machine,
    keep: &mut dyn FnMut(Vec<Row>) -> Result<()>,
) -> Result<()> {
    for &synced in plan.synced {
        for &entries in &plan.entries {
            let mut turns = Turns::start(plan, dir, synced, entries)?;
            let mut rows = Vec::new();
            for &operation in &plan.operations {
                // Neither the size of the table nor that of its values matters to the batches: they are measured once.
                let once = matches!(operation, Operation::Batches { .. }) && Some(&entries) != plan.entries.last();
                // Where nothing is written durability changes nothing.
                let needless = !operation.writes() && !synced && plan.synced.len() > 1;
                if !once && !needless {
                    let mut new = turns.row(plan, operation, machine)?;
                    drop_ratios(&mut new);
                    rows.extend(new.clone());
                    keep(new)?;
                }
            }
            judge(&mut rows, &turns.finish()?);
            keep(rows)?;
        }
    }
    Ok(())
}

/// Notes in rows what was wrong with their engines in the end; the others are checked.
fn judge(rows: &mut [Row], wrong: &[(EngineName, String)]) {
    for row in rows.iter_mut() {
        if let Some((_, reason)) = wrong.iter().find(|(engine, _)| engine.name() == row.backend) {
            row.wrong.get_or_insert_with(|| format!("at the end: {reason}"));
        }
        row.checked = row.wrong.is_none();
    }
    drop_ratios(rows);
}

/// Takes the ratios from rows that are wrong, and from those beside which the row of plain LMDB is.
fn drop_ratios(rows: &mut [Row]) {
    let is_base = |row: &&Row| row.backend == EngineName::Lmdb.name() && !row.is_right();
    let wrong: Vec<String> = rows.iter().filter(is_base).map(|row| row.scenario.clone()).collect();
    for row in rows {
        let is_wrong = !row.is_right() || wrong.contains(&row.scenario);
        if let Some(map) = row.map.as_mut().filter(|_| is_wrong) {
            (map.ratio, map.ratio_min, map.ratio_max) = (0.0, 0.0, 0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::MapFigures;

    #[test]
    fn wrong_rows_have_no_ratio_and_none_is_to_them() {
        let row = |engine: EngineName, scenario: &str| {
            let map = MapFigures { ratio: 2.0, ratio_min: 1.0, ratio_max: 3.0, ..MapFigures::default() };
            let (backend, scenario) = (engine.name().to_owned(), scenario.to_owned());
            Row { backend, scenario, map: Some(Box::new(map)), ..Row::default() }
        };
        let mut rows = [
            row(EngineName::Lmdb, "map-get-1-1000"),
            row(EngineName::Okra, "map-get-1-1000"),
            row(EngineName::Native, "map-get-1-1000"),
            row(EngineName::Lmdb, "map-set-1-1000"),
            row(EngineName::Native, "map-set-1-1000"),
        ];
        let ratios = |rows: &[Row]| rows.iter().map(|row| row.map.as_ref().unwrap().ratio).collect::<Vec<_>>();
        drop_ratios(&mut rows);
        assert_eq!(ratios(&rows), [2.0; 5]);
        rows[1].wrong = Some("a round failed".into());
        drop_ratios(&mut rows);
        assert_eq!(ratios(&rows), [2.0, 0.0, 2.0, 2.0, 2.0]);
        rows[3].wrong = Some("a round failed".into());
        judge(&mut rows, &[]);
        assert_eq!(ratios(&rows), [2.0, 0.0, 2.0, 0.0, 0.0]);
    }

    #[test]
    fn what_is_wrong_with_a_map_in_the_end_is_wrong_in_every_row_of_its_engine() {
        let row = |engine: EngineName, wrong: Option<&str>| Row {
            backend: engine.name().to_owned(),
            wrong: wrong.map(str::to_owned),
            ..Row::default()
        };
        let mut rows = [
            row(EngineName::Lmdb, None),
            row(EngineName::Native, None),
            row(EngineName::Okra, Some("a round failed")),
            row(EngineName::Native, Some("a round failed")),
        ];
        judge(&mut rows, &[(EngineName::Native, "the root is another".to_owned())]);
        let found: Vec<_> = rows.iter().map(|row| (row.checked, row.wrong.as_deref())).collect();
        let wrong = [Some("at the end: the root is another"), Some("a round failed"), Some("a round failed")];
        assert_eq!(found, [(true, None), (false, wrong[0]), (false, wrong[1]), (false, wrong[2])]);
    }
}
