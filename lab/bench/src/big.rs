//! The long forms: opening large stores, reading beyond the cache's budget, very wide directories, very large commits.

use std::time::Instant;

use bristlecone::{Durability, Info, Path, disk::DiskOptions};

use crate::{
    BenchError,
    engine::{Engine, native},
    error::Result,
    job::{Big, Job, Work},
    measure::Run,
    rss::{Peak, Sampler},
    workload::{MAIN, Random, RisingValues, add_up, value, weight},
};

mod large;
mod wide;

/// Entries of one directory of a large store, and of one commit.
const DIR_ENTRIES: u64 = 1000;
/// How often a store is opened.
const OPENS: usize = 11;
/// Lookups beyond the budget, and where their numbers start from.
const LOOKUPS: u64 = 200_000;
const SEED: u64 = 5;
/// Entries compared at the end.
const CHECKED: u64 = 1000;
/// Anonymous memory beside the budget of a store that is larger than it, in KiB.
const BESIDE_BUDGET_KB: u64 = 64 << 10;

/// Does one run of a long form.
pub(crate) fn run(job: &Job, work: Big) -> Result<Vec<Run>> {
    match work {
        Big::Open { bytes } => open(job, bytes),
        Big::Budget { bytes } => over_budget(job, bytes),
        Big::Wide { entries } => wide::run(job, entries),
        Big::Large { entries } => large::run(job, entries),
    }
}

/// Opens a store of so many bytes again and again; each time the head of the branch is read, too.
fn open(job: &Job, bytes: u64) -> Result<Vec<Run>> {
    let mut engine = Engine::create(job, native(&job.switches))?;
    let entries = fill(&engine, job, bytes)?;
    engine.close()?;
    let sampler = Sampler::start();
    let mut seconds = 0.0;
    let mut latencies = Vec::with_capacity(OPENS);
    for _ in 0..OPENS {
        let started = Instant::now();
        engine.open()?;
        let head = engine.repo().branch(MAIN)?.head()?;
        let elapsed = started.elapsed();
        seconds += elapsed.as_secs_f64();
        latencies.push(elapsed.as_nanos() as u64);
        if head.is_none() {
            return Err(BenchError::Wrong { scenario: job.scenario(), reason: "the branch is gone".into() });
        }
        engine.close()?;
    }
    let peak = sampler.finish();
    engine.open()?;
    let mut run = Run { ops: OPENS as u64, seconds, threads: 1, ..Run::default() };
    run.set_latencies_of_others(latencies);
    finish(&engine, job, entries, peak, &mut run)?;
    Ok(vec![run])
}

/// Looks entries up at random in a store larger than the budget. What is found is added up, and the sum compared when the clock
/// has stopped.
fn over_budget(job: &Job, bytes: u64) -> Result<Vec<Run>> {
    let mut engine = Engine::create(job, native(&job.switches))?;
    let entries = fill(&engine, job, bytes)?;
    engine.reopen()?;
    let sampler = Sampler::start();
    let mut run = Run { ops: LOOKUPS, threads: 1, ..Run::default() };
    let mut random = Random::new(SEED);
    let tree = engine.repo().branch(MAIN)?.tree()?;
    let mut sum = 0;
    let started = Instant::now();
    for _ in 0..LOOKUPS {
        let found = tree.get(path_of(random.below(entries)))?;
        sum = add_up(sum, found.map_or(0, |found| weight(&found)));
    }
    run.seconds = started.elapsed().as_secs_f64();
    drop(tree);
    let peak = sampler.finish();
    let mut random = Random::new(SEED);
    let weights = (0..LOOKUPS).map(|_| weight(&value(random.below(entries) as usize, job.value_bytes)));
    let wanted = weights.fold(0, add_up);
    run.wrong = (sum != wanted).then(|| "lookups found other values than were set".into());
    finish(&engine, job, entries, peak, &mut run)?;
    Ok(vec![run])
}

/// Looks whether lookups beyond the budget took more memory than they may, in a process that did nothing else.
pub(crate) fn judge_memory(job: &Job, runs: &mut [Run]) {
    if matches!(job.work, Work::Big(Big::Budget { .. })) {
        let budget = job.switches.cache_bytes.unwrap_or_else(|| DiskOptions::default().cache_bytes);
        for run in runs {
            run.wrong = run.wrong.take().or_else(|| beyond(budget, run.rss_anon_kb));
        }
    }
}

/// Returns what is wrong where lookups took more anonymous memory than the cache's budget and a little beside it.
fn beyond(cache_bytes: u64, anon_kb: u64) -> Option<String> {
    let max_kb = (cache_bytes >> 10) + BESIDE_BUDGET_KB;
    (anon_kb > max_kb).then(|| format!("{anon_kb} KiB of anonymous memory, and at most {max_kb} KiB were to be taken"))
}

/// Fills a store with so many bytes of values, all different, and returns how many there are.
fn fill(engine: &Engine, job: &Job, bytes: u64) -> Result<u64> {
    let dirs = bytes.div_ceil(job.value_bytes.max(1) as u64).div_ceil(DIR_ENTRIES).max(1);
    let repo = engine.repo();
    let branch = repo.branch(MAIN)?;
    let mut values = RisingValues::new(job.value_bytes);
    for dir in 0..dirs {
        let mut tree = branch.tree()?;
        for n in dir * DIR_ENTRIES..(dir + 1) * DIR_ENTRIES {
            tree.set(path_of(n), values.get(n as usize))?;
        }
        branch.commit(&mut tree, &Info::unsigned(format!("directory {dir}")).durability(Durability::None))?;
    }
    repo.flush()?;
    Ok(dirs * DIR_ENTRIES)
}

fn path_of(n: u64) -> Path {
    Path::from_bytes(format!("{:06}/{:03}", n / DIR_ENTRIES, n % DIR_ENTRIES)).expect("numbers are steps")
}

/// Notes sizes and memory, and compares entries spread over the whole store.
fn finish(engine: &Engine, job: &Job, entries: u64, peak: Peak, run: &mut Run) -> Result<()> {
    run.set_sizes(engine, peak);
    let tree = engine.repo().branch(MAIN)?.tree()?;
    for n in (0..entries).step_by((entries / CHECKED).max(1) as usize) {
        if tree.get(path_of(n))?.as_deref() != Some(&value(n as usize, job.value_bytes)[..]) {
            run.wrong = Some(format!("entry {n} does not hold its value"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_beyond_the_budget_and_64_mib_is_wrong() {
        assert_eq!(beyond(64 << 20, 128 << 10), None);
        let wrong = beyond(64 << 20, (128 << 10) + 1).unwrap();
        assert!(wrong.starts_with("131073 KiB") && wrong.contains("131072 KiB"), "{wrong}");
        assert_eq!((beyond(0, 64 << 10), beyond(0, (64 << 10) + 4).is_some()), (None, true));
    }
}
