//! `cone bench utxo`: a made-up set of unspent outputs, the workload that the Haskell library `lsm-tree` set for such a table.
//!
//! **The idea.** Entry `n` has a key of 34 bytes, a hash of `n`, and a value of 60. The set holds the entries from `first` up to
//! `last`; a batch looks up 256 of them at random, adds the next 256, and removes the 256 that are oldest, which lie anywhere in the
//! order of keys. So every lookup and removal is of an entry that is there, every addition of a new one, and what is in
//! the set is known without being remembered. A batch is a commit. `docs/bench.md`, section 14, says what the figures mean.

use std::path::{Path, PathBuf};

use bristlecone::Durability;
use clap::Args;

use crate::{
    BenchError,
    error::Result,
    machine::Machine,
    measure::Run,
    options::positive,
    replay::DurabilityName,
    report::{self, Row, json, views::utxo::BESIDE_FJALL},
    rss::Sampler,
    scratch::Scratch,
};

mod made_up;
mod native;
#[cfg(feature = "rust-peers")]
mod plain;

use made_up::Set;
use native::NativeSet;

/// Every entry is compared at the end, up to so many.
const COMPARED_MAX: u64 = 2_000_000;
/// Entries that a batch looks up, adds and removes: of each so many.
const BATCH: u64 = 256;
/// Lookups alone, after the batches.
const LOOKUPS: u64 = 1_000_000;
/// The rate of the first batches, at most so many, is compared with that of as many at the end.
const COMPARED: usize = 2000;
/// So many lookups are one snapshot.
const LOOKUPS_EACH: u64 = 1000;

/// Measures a made-up set of unspent outputs.
#[derive(Args, Clone, Debug)]
pub struct UtxoArgs {
    /// How many entries the set has, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1000..=1_000_000_000), default_values_t = [1_000_000, 10_000_000])]
    pub entries: Vec<u64>,
    /// Batches after the load
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = positive)]
    pub batches: usize,
    /// When a batch is acknowledged
    #[arg(long, value_enum, default_value_t = DurabilityName::None)]
    pub durability: DurabilityName,
    /// The store keeps the last so many states alone, and collects by itself
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub retain: Option<u32>,
    /// Also fjall, plain keys and values without history or hashes, in turns with ours; needs the feature `rust-peers`
    #[arg(long)]
    pub peers: bool,
    /// Where sets are made and removed again; a real disk
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Merge the rows into this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// A store of the set.
trait UtxoTable {
    /// What rows call it.
    fn name(&self) -> &'static str;
    /// Loads the entries of a set, in the order of their keys.
    fn load(&mut self, set: &Set) -> Result<()>;
    /// Looks entries up, adds some and removes some, as one commit; returns the sum of what was found.
    fn batch(&mut self, batch: &made_up::Batch) -> Result<u64>;
    /// Looks entries up in one snapshot; returns the sum of what was found.
    fn look_up(&mut self, keys: &[made_up::Key]) -> Result<u64>;
    /// Returns what a store that forgets has kept, once it has collected all.
    fn retained(&mut self) -> Result<Option<Retained>> {
        Ok(None)
    }
    /// Notes sizes, the bytes that were written, and the root.
    fn finish(&mut self, run: &mut Run) -> Result<()>;
    /// Compares the set with the entries that it should hold; returns what is wrong.
    fn check(&mut self, set: &Set) -> Result<Option<String>>;
}

/// What a store that forgets has kept.
struct Retained {
    /// The largest size of its files after a batch.
    largest: u64,
    /// The largest after a batch of the second half: the first collection moves all that was loaded.
    later: u64,
    /// Bytes that are live at the end.
    live: u64,
    /// Bytes of a full-grown segment.
    segment_bytes: u64,
}

/// Does what the options ask for. The table, or with `json` the rows, go to standard output.
///
/// # Errors
/// [`BenchError::Wrong`] after everything was reported, if a set did not hold what it should; others of stores and the
/// system.
pub(crate) fn run(args: &UtxoArgs, json: bool) -> Result<()> {
    if args.peers && args.durability == DurabilityName::Grouped {
        return Err(BenchError::usage(
            "fjall would sync each batch where ours share syncs: leave out --peers, or grouped",
        ));
    }
    if args.peers && !cfg!(feature = "rust-peers") {
        return Err(BenchError::usage("this program has no fjall: build it with the feature rust-peers"));
    }
    if let Some(file) = &args.json {
        json::read(file)?;
    }
    let scratch = Scratch::new(args.dir.as_deref())?;
    let machine = Machine::here(&scratch.dir);
    let durability = args.durability.durability();
    let mut rows = Vec::new();
    for &entries in &args.entries {
        let table = TableOptions { durability, retain: args.retain, peers: args.peers };
        let new = measure(entries, args.batches, table, &scratch.dir, &machine)?;
        if let Some(file) = &args.json {
            json::merge(file, &new)?;
        }
        rows.extend(new);
    }
    report::show_checked(&rows, json)
}

/// How sets are kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableOptions {
    pub(crate) durability: Durability,
    /// How many states the store keeps; `None`: all.
    pub(crate) retain: Option<u32>,
    /// Whether fjall is measured beside.
    pub(crate) peers: bool,
}

/// Measures batches and lookups over so many entries.
///
/// # Errors
/// Those of the stores and the system.
pub(crate) fn measure(
    entries: u64,
    batches: usize,
    options: TableOptions,
    dir: &Path,
    machine: &Machine,
) -> Result<Vec<Row>> {
    let TableOptions { durability, retain, peers } = options;
    let ours = NativeSet::create(&dir.join(format!("utxo-{entries}")), durability, retain)?;
    let mut tables: Vec<Box<dyn UtxoTable>> = vec![Box::new(ours)];
    #[cfg(feature = "rust-peers")]
    if peers {
        tables.push(Box::new(plain::FjallSet::create(&dir.join(format!("utxo-fjall-{entries}")), durability)?));
    }
    #[cfg(not(feature = "rust-peers"))]
    let _ = peers;
    let mut set = Set::new(entries);
    say_part!("{entries} entries: load ");
    for table in &mut tables {
        table.load(&set)?;
    }
    let sampler = Sampler::start();
    let mut runs = in_turns(&mut tables, &mut set, batches)?;
    say_part!("lookups ");
    let mut lookups = lookups(&mut tables, &set)?;
    let peak = sampler.finish_sampled();
    say!("check");
    let mut rows = Vec::new();
    for (table, (run, lookup)) in tables.iter_mut().zip(runs.iter_mut().zip(&mut lookups)) {
        let wrong = table.check(&set)?;
        if let Some(retained) = table.retained()? {
            if wrong.is_none() {
                retained.say();
            }
            (run.store_bytes, run.file_bytes) = (retained.live, retained.largest);
        }
        for (part, run) in [("batches", run), ("lookups", lookup)] {
            // Two tables in one process share its memory.
            if !peers {
                (run.rss_anon_kb, run.rss_file_kb, run.maxrss_kb) = (peak.anon_kb, peak.file_kb, peak.max_kb);
            }
            run.wrong = run.wrong.take().or_else(|| wrong.clone());
            let mut row = Row::of_runs(run, std::slice::from_ref(run), machine);
            row.backend = table.name().into();
            row.durability = if part == "batches" { durability.name().into() } else { String::new() };
            let beside = peers.then(|| BESIDE_FJALL.to_owned());
            let variant: Vec<String> =
                retain.map(|retain| format!("retain={retain}")).into_iter().chain(beside).collect();
            row.variant = variant.join(" ");
            row.name = format!("utxo {} {} {}", table.name(), row.durability, row.variant).trim_end().to_owned();
            row.scenario = format!("utxo-{part}-{entries}");
            row.value_bytes = made_up::VALUE_BYTES as u64;
            row.checked = row.wrong.is_none();
            rows.push(row);
        }
    }
    Ok(rows)
}

impl Retained {
    fn say(&self) {
        let bound = self.live / 10 * 13 + 5 * self.segment_bytes;
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        say!(
            "  live {:.1} MB, largest files {:.1} MB, {:.1} MB in the second half ({} 1.3 × live + 5 segments = {:.1} MB)",
            megabytes(self.live),
            megabytes(self.largest),
            megabytes(self.later),
            if self.largest <= bound { "within" } else { "beyond" },
            megabytes(bound)
        );
    }
}

/// Does the batches, a tenth of them on one table after the other.
fn in_turns(tables: &mut [Box<dyn UtxoTable>], set: &mut Set, batches: usize) -> Result<Vec<Run>> {
    let mut laps: Vec<Vec<u64>> = vec![Vec::with_capacity(batches); tables.len()];
    let mut wrong = vec![None; tables.len()];
    let turn = batches.div_ceil(10);
    let mut done = 0;
    say_part!("batches ");
    while done < batches {
        let count = turn.min(batches - done);
        let made: Vec<made_up::Batch> = (0..count).map(|_| set.next_batch(BATCH)).collect();
        for (index, table) in tables.iter_mut().enumerate() {
            for batch in &made {
                let started = std::time::Instant::now();
                let found = table.batch(batch)?;
                laps[index].push(started.elapsed().as_nanos() as u64);
                if found != batch.sum && wrong[index].is_none() {
                    wrong[index] = Some("a lookup of a batch found another value".to_owned());
                }
            }
        }
        done += count;
        say_part!(".");
    }
    say_part!(" ");
    let mut runs = Vec::new();
    for ((table, laps), wrong) in tables.iter_mut().zip(laps).zip(wrong) {
        let seconds = laps.iter().sum::<u64>() as f64 / 1e9;
        let compared = COMPARED.min(laps.len() / 2);
        let rate = |laps: &[u64]| (laps.len() as u64 * BATCH) as f64 / (laps.iter().sum::<u64>() as f64 / 1e9);
        if compared > 0 {
            let (first, last) = (rate(&laps[..compared]), rate(&laps[laps.len() - compared..]));
            say!(
                "{}: {first:.0} operations/s in the first {compared} batches, {last:.0} in the last ({:.2} ×)",
                table.name(),
                last / first
            );
        }
        let mut run = Run { ops: laps.len() as u64 * BATCH, seconds, threads: 1, wrong, ..Run::default() };
        run.set_latencies(laps);
        table.finish(&mut run)?;
        runs.push(run);
    }
    Ok(runs)
}

fn lookups(tables: &mut [Box<dyn UtxoTable>], set: &Set) -> Result<Vec<Run>> {
    let mut runs: Vec<Run> = tables.iter().map(|_| Run { threads: 1, ..Run::default() }).collect();
    for round in 0..LOOKUPS / LOOKUPS_EACH {
        let (keys, sum) = set.random_keys(round, LOOKUPS_EACH);
        for (table, run) in tables.iter_mut().zip(&mut runs) {
            let started = std::time::Instant::now();
            let found = table.look_up(&keys)?;
            run.seconds += started.elapsed().as_secs_f64();
            run.ops += LOOKUPS_EACH;
            if found != sum {
                run.wrong = Some("a lookup found another value".into());
            }
        }
    }
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_that_share_syncs_are_not_compared_with_batches_that_do_not() {
        let args = UtxoArgs {
            entries: vec![1000],
            batches: 1,
            durability: DurabilityName::Grouped,
            retain: None,
            peers: true,
            dir: None,
            json: None,
        };
        let error = run(&args, true).unwrap_err();
        assert!(error.is_usage() && error.to_string().contains("share syncs"), "{error}");
    }
}
