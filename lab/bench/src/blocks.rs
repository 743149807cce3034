//! `cone bench blocks`: the indexes of a chain's blocks, in memory and mapped.
//!
//! **The idea.** Both kinds hold the same made-up chain, and each round of a row is done by one after the other, so that what
//! else the machine does meets both. Keys are chosen before the clock starts, and what was found within it is added up and
//! compared with the chain after it.
//!
//! `docs/bench.md`, section 13, says what the figures mean.

use std::path::{Path, PathBuf};

use bristlecone_cardano::IndexError;
use clap::Args;

use crate::{
    BenchError,
    error::Result,
    machine::Machine,
    measure::Run,
    options::positive,
    report::{self, Row, json},
    scratch::Scratch,
    unrest::worse,
};

mod made_up;
#[cfg(feature = "rust-peers")]
mod peers;
mod rows;

use made_up::MadeUp;
use rows::{Kept, Operation};

/// Measures the indexes of a chain's blocks: lookups, ranges, insertion, opening.
#[derive(Args, Clone, Debug)]
pub struct BlocksArgs {
    /// How many blocks the chains have, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1000..=100_000_000), default_values_t = [10_000, 100_000, 1_000_000, 4_000_000])]
    pub blocks: Vec<u64>,
    /// Rounds of each row, of which the median counts
    #[arg(long, value_name = "N", default_value_t = 11, value_parser = positive)]
    pub rounds: usize,
    /// Also redb and fjall, holding the same in three tables; needs the feature `rust-peers`
    #[arg(long)]
    pub peers: bool,
    /// Where indexes are made and removed again; a real disk
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Merge the rows into this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Does what the options ask for. The table, or with `json` the rows, go to standard output.
///
/// # Errors
/// [`BenchError::Wrong`] after everything was reported, if an index gave an answer that is not that of the chain; others of
/// the system.
pub(crate) fn run(args: &BlocksArgs, json: bool) -> Result<()> {
    if args.peers && !cfg!(feature = "rust-peers") {
        return Err(BenchError::usage("this program has no redb and no fjall: build it with the feature rust-peers"));
    }
    if let Some(file) = &args.json {
        json::read(file)?;
    }
    let scratch = Scratch::new(args.dir.as_deref())?;
    let machine = Machine::here(&scratch.dir);
    let mut rows = Vec::new();
    for &blocks in &args.blocks {
        let new = measure(blocks, args.rounds, args.peers, &scratch.dir, &machine, &mut || Ok(None))?;
        if let Some(file) = &args.json {
            json::merge(file, &new)?;
        }
        rows.extend(new);
    }
    report::show_checked(&rows, json)
}

/// Measures both kinds of index with so many blocks, and the databases beside them. `probe` is asked before and after the rounds
/// of each row how unusual the machine is.
///
/// # Errors
/// Those of the index, of the system and of a probe.
pub(crate) fn measure(
    blocks: u64,
    rounds: usize,
    peers: bool,
    dir: &Path,
    machine: &Machine,
    probe: &mut dyn FnMut() -> Result<Option<f64>>,
) -> Result<Vec<Row>> {
    let chain = MadeUp::new(blocks);
    let mut all = Vec::new();
    say_part!("{blocks} blocks: ");
    let mut kept = vec![Kept::new(None)?, Kept::new(Some(dir.join(format!("blocks-{blocks}"))))?];
    #[cfg(feature = "rust-peers")]
    if peers {
        let redb = peers::RedbIndex::create(&dir.join(format!("blocks-redb-{blocks}")))?;
        let fjall = peers::FjallIndex::create(&dir.join(format!("blocks-fjall-{blocks}")))?;
        kept.extend([Kept::peer("redb", Box::new(redb)), Kept::peer("fjall", Box::new(fjall))]);
    }
    #[cfg(not(feature = "rust-peers"))]
    let _ = peers;
    for index in &mut kept {
        index.fill(&chain)?;
    }
    let mut before = probe()?;
    for operation in Operation::ALL {
        say_part!("{} ", operation.name());
        let mut runs = vec![Vec::new(); kept.len()];
        // The first round is not counted: caches fill.
        for round in 0..=rounds {
            for turn in 0..kept.len() {
                let index = (turn + round) % kept.len();
                if operation.is_of(&kept[index], round) {
                    let run = kept[index].round(operation, &chain, round as u64)?;
                    if round > 0 {
                        runs[index].push(run);
                    }
                }
            }
        }
        let after = probe()?;
        let unrest = worse(before, after);
        let rows = kept.iter().zip(&runs).filter_map(|(kept, runs)| row(kept, operation, blocks, runs, machine));
        all.extend(rows.map(|row| Row { unrest, ..row }));
        before = after;
    }
    say!("");
    Ok(all)
}

fn row(kept: &Kept, operation: Operation, blocks: u64, runs: &[Run], machine: &Machine) -> Option<Row> {
    let mut row = Row::of_runs(report::median(runs)?, runs, machine);
    row.name = format!("blocks {}", kept.name());
    row.scenario = format!("blocks-{}-{blocks}", operation.name());
    row.backend = kept.name().to_owned();
    row.checked = row.wrong.is_none();
    Some(row)
}

/// Makes an error of one of an index.
fn failed(error: IndexError) -> BenchError {
    BenchError::Wrong { scenario: "the index of blocks".to_owned(), reason: bristlecone::report(&error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_say_how_unusual_the_machine_was_around_their_rounds() {
        let dir = tempfile::tempdir().unwrap();
        let mut probes = 0;
        // Between the rounds of the first row and those of the second something else was at work.
        let mut probe = || -> Result<Option<f64>> {
            probes += 1;
            Ok((probes == 2).then_some(3.0))
        };
        let rows = measure(1000, 1, false, dir.path(), &Machine::default(), &mut probe).unwrap();
        assert_eq!(probes, 1 + Operation::ALL.len());
        for row in rows {
            let beside = ["blocks-hit-hot-1000", "blocks-miss-hot-1000"].contains(&row.scenario.as_str());
            assert_eq!(row.unrest, beside.then_some(3.0), "{}", row.scenario);
        }
    }
}
