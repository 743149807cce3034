//! The scenarios: each makes its store, does its timed work, and says what it should have left.

use bristlecone::{Format, core::git::Git};
use bristlecone_any::AnyFormat;

use crate::{
    big,
    check::{self, Expected},
    engine::{Engine, native},
    error::Result,
    job::{Job, Work},
    judge,
    limits::bare::{self, Files},
    measure::{Run, cores},
    peers,
    rss::Sampler,
    workload::Workload,
};

mod base;
mod commits;
mod concurrent;
mod group;
mod incremental;
mod parallel;
mod prepare;
mod reads;
mod sweep;

use parallel::Tasks;

/// Does one run of a job in this process.
pub(crate) fn run(job: &Job) -> Result<Vec<Run>> {
    if let Work::Big(work) = job.work {
        return big::run(job, work);
    }
    if job.target.is_peer() {
        return peers::git::run(job);
    }
    if job.target.is_git() { measured(job, Git::sha1()) } else { measured(job, native(&job.switches)) }
}

/// Returns the number of the last value that a job sets. Long forms have values of their own.
pub(crate) fn last_value(job: &Job) -> usize {
    let (commits, entries) = (job.sizes.ncommits, job.entries());
    let times = |count: usize, long: bool, times: usize| if long { count.saturating_mul(times) } else { count };
    match job.work {
        Work::Commits | Work::CommitsParallel | Work::LargeValues => commits.saturating_sub(1),
        Work::CommitsDistinct => commits.saturating_mul(entries).saturating_sub(1),
        Work::Reads { .. } | Work::ReadsParallel => entries,
        Work::Concurrent { long, .. } => {
            times(job.sizes.nreads, long, concurrent::LONG).saturating_add(concurrent::STORED).saturating_sub(1)
        }
        Work::Incremental { long, .. } => times(commits, long, incremental::LONG).saturating_add(entries),
        Work::IncrementalParallel | Work::Prepare { .. } | Work::GroupCommit { .. } | Work::Sweep(_) => {
            commits.saturating_add(entries)
        }
        Work::Big(_) => 0,
    }
}

fn measured<F: Format + Into<AnyFormat>>(job: &Job, format: F) -> Result<Vec<Run>> {
    let sampler = Sampler::start();
    let workload = Workload::new(job);
    let mut engine = Engine::create(job, format)?;
    let (mut run, expected) = timed(&mut engine, job, &workload)?;
    let peak = sampler.finish();
    (run.rss_anon_kb, run.rss_file_kb, run.maxrss_kb) = (peak.anon_kb, peak.file_kb, peak.max_kb);
    measure_bare(job, &mut run)?;
    check::check(&mut engine, &workload, &expected, &mut run)?;
    judge::judge(&mut engine, job, &mut run)?;
    Ok(vec![run])
}

/// Measures the files and syncs of one of a run's commits by themselves, where commits to a Git repository are durable.
fn measure_bare(job: &Job, run: &mut Run) -> Result<()> {
    if !job.target.is_git() || !job.target.is_synced() || run.commits == 0 {
        return Ok(());
    }
    // The value or values, the chain of directories with the wide one below, and the commit.
    let values = if job.work == Work::CommitsDistinct { job.entries() } else { 1 };
    let objects = values + job.sizes.depth + 2;
    let bytes = (run.bytes_written / run.commits) as usize;
    let files = if job.target.is_loose() {
        Files::Loose { objects, bytes: bytes / objects }
    } else {
        let index = bytes.min(INDEX_BYTES + INDEX_ENTRY_BYTES * objects);
        Files::Pack { pack: bytes - index, index }
    };
    run.bare_us = Some(bare::sequence(&job.dir, files)? * 1e6);
    Ok(())
}

/// An index of version 2 without its entries: header, fan-out table and two checksums.
const INDEX_BYTES: usize = 8 + 1024 + 40;
/// An entry of it: id, checksum and offset.
const INDEX_ENTRY_BYTES: usize = 20 + 4 + 4;

fn timed<F: Format>(engine: &mut Engine<F>, job: &Job, workload: &Workload) -> Result<(Run, Expected)> {
    match job.work {
        Work::Commits | Work::LargeValues => commits::shared(engine, job, workload),
        Work::CommitsDistinct => commits::distinct(engine, job, workload),
        Work::Incremental { long, touch_all } => incremental::run(engine, job, workload, long, touch_all),
        Work::Reads { way, threads, long } => reads::run(engine, job, workload, way, threads, long),
        Work::ReadsParallel => parallel::reads(engine, job, workload, Tasks::of(job)),
        Work::CommitsParallel => parallel::commits(engine, job, workload, Tasks::of(job)),
        Work::IncrementalParallel => parallel::incremental(engine, job, workload, Tasks::of(job)),
        Work::Concurrent { batched, long } => concurrent::run(engine, job, workload, batched, long, cores()),
        Work::Prepare { whole, threads } => prepare::run(engine, job, workload, whole, threads),
        Work::GroupCommit { threads: false } => group::pipeline(engine, job, workload),
        Work::GroupCommit { threads: true } => group::thread_per_writer(engine, job, workload),
        Work::Sweep(kind) => sweep::run(engine, job, workload, kind),
        Work::Big(_) => unreachable!("long forms make their own stores"),
    }
}
