//! `cone bench gc`: a store that keeps its last commits and collects by itself, under commits of one entry each.
//!
//! **The idea.** Each commit replaces the value of one entry at random, so all but a path of the tree is shared with
//! the commit before, and after some commits almost everything that was ever appended is garbage. The same process
//! commits in slices, with collections and without in turn, so both meet the same machine. What each entry should hold
//! is known, and compared at the end. Others take the same commits for as long; and one store is collected whole, and read
//! before and after. `docs/bench.md`, section 16, says what the figures mean.

use std::{fs, path::PathBuf};

use bristlecone::{Map, Native, Repo};
use clap::{Args, ValueEnum};

use crate::{
    BenchError,
    error::Result,
    machine::Machine,
    options::positive,
    replay::DurabilityName,
    report::{self, Row, charts, json},
    scratch::Scratch,
};

mod churn;
mod git;
mod others;
mod samples;
mod whole;

use churn::Churn;
pub use others::Other;

const FORMAT: Native = Native::new().inline(128);
const VALUE_BYTES: usize = 100;

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GcPart {
    /// Commits beside collections, and without any in turn
    Churn,
    /// The same commits to others
    Others,
    /// One store, collected whole, and read before and after
    Whole,
}

/// Measures collections beside commits.
#[derive(Args, Clone, Debug)]
pub struct GcArgs {
    /// How many entries the store has, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(100..=100_000_000), default_values_t = [1000, 1_000_000])]
    pub entries: Vec<u64>,
    /// Pairs of slices, one with collections and one without
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = positive)]
    pub pairs: usize,
    /// How long a slice takes, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub slice: u64,
    /// How long commits go on with collections alone, before the pairs, in seconds; files and memory are sampled meanwhile
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=604_800))]
    pub alone: u64,
    /// How many commits these are at most
    #[arg(long, value_name = "N", default_value_t = 5_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub alone_commits: u64,
    /// How many commits the store keeps
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = positive)]
    pub retain: usize,
    /// When a commit is acknowledged, separated by commas
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',', default_values_t = [DurabilityName::None, DurabilityName::Synced])]
    pub durability: Vec<DurabilityName>,
    /// These parts alone, separated by commas
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',', default_values_t = [GcPart::Churn, GcPart::Others, GcPart::Whole])]
    pub only: Vec<GcPart>,
    /// Which others take the same commits, separated by commas: plain LMDB, `git fast-import` with `git gc`, and redb, which needs
    /// the feature `rust-peers`; what is not there is left out
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',', default_values_t = [Other::Lmdb, Other::Git, Other::Redb])]
    pub others: Vec<Other>,
    /// How many entries the store has that is collected whole; its files take some 700 bytes an entry
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1000..=100_000_000), default_value_t = 5_000_000)]
    pub whole: u64,
    /// Where stores are made and removed again; a real disk
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Merge the rows into this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Draw files and commits over time into this file
    #[arg(long, value_name = "FILE.svg")]
    pub chart: Option<PathBuf>,
}

/// Does what the options ask for. The table, or with `json` the rows, go to standard output.
///
/// # Errors
/// [`BenchError::Wrong`] after everything was reported, if a store did not hold what it should; others of stores and the system.
pub(crate) fn run(args: &GcArgs, json: bool) -> Result<()> {
    if let Some(file) = &args.json {
        json::read(file)?;
    }
    // It is drawn at the end, and should not cost a run.
    if let Some(file) = &args.chart
        && let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir())
    {
        return Err(BenchError::usage(format!(
            "--chart {}: there is no folder {}; make it, or name another",
            file.display(),
            folder.display()
        )));
    }
    let scratch = Scratch::new(args.dir.as_deref())?;
    let machine = Machine::here(&scratch.dir);
    let mut rows = Vec::new();
    let mut keep = |new: Vec<Row>| -> Result<()> {
        if let Some(file) = &args.json {
            json::merge(file, &new)?;
        }
        rows.extend(new);
        Ok(())
    };
    for &entries in &args.entries {
        for &durability in &args.durability {
            let durability = durability.durability();
            let dir = |name: &str| scratch.dir.join(format!("gc-{name}-{entries}-{}", durability.name()));
            if args.only.contains(&GcPart::Churn) {
                let dir = dir("disk");
                keep(Churn::new(&dir, entries, durability, args.retain)?.measure(args, &machine)?)?;
                fs::remove_dir_all(&dir).map_err(BenchError::io(&dir))?;
            }
            for &other in args.others.iter().filter(|_| args.only.contains(&GcPart::Others)) {
                let dir = dir(other.name());
                if let Some(row) = others::measure(other, &dir, (entries, durability), args, &machine)? {
                    keep(vec![row])?;
                    fs::remove_dir_all(&dir).map_err(BenchError::io(&dir))?;
                }
            }
        }
    }
    if args.only.contains(&GcPart::Whole) {
        let dir = scratch.dir.join("gc-whole");
        keep(whole::measure(&dir, args.whole, &machine)?)?;
        fs::remove_dir_all(&dir).map_err(BenchError::io(&dir))?;
    }
    if let Some(file) = &args.chart {
        match charts::collections(&rows) {
            Some(svg) => {
                json::write(file, &svg)?;
                say!("{} shows files and commits over time", file.display());
            }
            None => say!("there is nothing to draw: no commits beside collections were measured that went right"),
        }
    }
    report::show_checked(&rows, json)
}

fn key(entry: u64) -> [u8; 16] {
    let mut key = [0; 16];
    // Spreads entries over the order of keys.
    key[..8].copy_from_slice(&entry.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key[8..].copy_from_slice(&entry.to_be_bytes());
    key
}

fn value(entry: u64, number: u32) -> Vec<u8> {
    let mut value = Vec::with_capacity(VALUE_BYTES);
    let mut word = entry << 32 | u64::from(number);
    while value.len() < VALUE_BYTES {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        value.extend_from_slice(&word.to_le_bytes());
    }
    value.truncate(VALUE_BYTES);
    value
}

/// Returns a map of all entries as they are before any was replaced.
fn load(repo: &Repo<Native>, entries: u64) -> Result<Map> {
    let mut keys: Vec<u64> = (0..entries).collect();
    keys.sort_unstable_by_key(|&entry| key(entry));
    let mut loader = repo.map_loader();
    for entry in keys {
        loader.push(&key(entry), &value(entry, 0)[..])?;
    }
    Ok(loader.finish()?)
}

/// Returns what is told of a store: of one that is wrong nothing but that.
fn lines<const N: usize>(wrong: Option<&str>, told: [String; N]) -> Vec<String> {
    wrong.map_or_else(|| told.into(), |reason| vec![format!("WRONG: {reason}")])
}

fn mega(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_store_that_is_wrong_no_figure_is_told() {
        let told = || ["live 1 MB".to_owned(), "p99.9 1 µs".to_owned()];
        assert_eq!(lines(None, told()), told());
        assert_eq!(lines(Some("entry 7 holds something else"), told()), ["WRONG: entry 7 holds something else"]);
    }
}
