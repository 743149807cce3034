//! Replays of traces: the command `replay`, and the same for whoever measures several things.
//!
//! A [`ReplayJob`] is one trace on one backend. [`measure`] runs it, each run in a process of its own if there are
//! several, and makes the row. `docs/bench.md` has a section on it.

use std::path::{Path, PathBuf};

use bristlecone_tezos::PathConversion;
use clap::Args;

use crate::{
    BenchError,
    error::Result,
    job::Switches,
    limits::Limits,
    machine::Machine,
    report::{self, Row, json, same_machine},
    scratch,
};

pub(crate) mod agree;
mod job;
mod process;
mod record;
mod run;
mod show;
mod watch;

pub(crate) use process::{child, process, value};
pub(crate) use watch::{clock, is_stopped, stop_on_interrupt};

pub use job::{BackendName, Chunking, DurabilityName, FormatName, ReplayJob};
pub use record::{Recorded, Recorder};
pub use run::ReplayRun;

/// Options of `replay tezos`.
#[derive(Args, Clone, Debug)]
pub struct ReplayArgs {
    /// The trace
    #[arg(value_name = "FILE", required_unless_present = "child")]
    file: Option<PathBuf>,
    /// Only the first so many commits
    #[arg(long, value_name = "N")]
    commits: Option<u64>,
    /// How directories become objects
    #[arg(long, value_enum, default_value_t)]
    format: FormatName,
    /// What keeps the objects [default: disk where a store is named with --repo, else memory]
    #[arg(long, value_enum)]
    backend: Option<BackendName>,
    /// When a commit is acknowledged
    #[arg(long, value_enum, default_value_t = DurabilityName::None)]
    durability: DurabilityName,
    /// Write the empty value in every Add; commit hashes are then not checked
    #[arg(long)]
    empty_blobs: bool,
    /// Rewrite keys, and measure that too: none, v0, v1, v0+v1; commit hashes are then not checked
    #[arg(long, value_name = "HOW", default_value_t)]
    path_conversion: PathConversion,
    /// How many threads work: with 2, one applies rows while the other hashes and writes commits
    #[arg(long, value_name = "T", default_value_t = 1, value_parser = threads)]
    threads: usize,
    /// Cut the trace into D × F pieces, each replayed on an empty tree, F after another on each of D threads; checks
    /// nothing and does not do the work of the trace
    #[arg(long, value_name = "DxF")]
    chunked: Option<Chunking>,
    /// Merge the row into this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where a store is made and removed again, without --repo; a real disk
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Short values are objects of their own
    #[arg(long)]
    no_inline: bool,
    /// Wide directories stay one object
    #[arg(long)]
    no_inode: bool,
    /// Read files without memory maps; needs --backend disk
    #[arg(long)]
    no_maps: bool,
    /// The budget of the object cache, used where there are no maps; 0: none; needs --backend disk
    #[arg(long, value_name = "BYTES")]
    cache: Option<u64>,
    /// Record places and sizes of the store's reads in this file, which `cone bench io --job` has fio do again; needs
    /// the disk engine with --repo, one run and no --json, since recording takes time
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// The store keeps the last so many commits alone, and collects by itself; needs --backend disk
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    retain: Option<u32>,
    /// A trace that ends within a row is an error, not a note
    #[arg(long)]
    strict: bool,
    /// What the row is called, before the backend
    #[arg(long, value_name = "NAME", default_value = "bristlecone")]
    name: String,
    /// Runs, of which the median counts, each in a process of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Do one replay: what the processes of several runs are started with
    #[arg(long, hide = true, value_name = "JOB")]
    child: Option<String>,
}

/// Runs what the options ask for. The table, or with `json` the row, goes to standard output, everything else to
/// standard error. `keep` names the folder of a store that stays.
///
/// # Errors
/// [`BenchError::Usage`] for options that make no sense; [`BenchError::Replay`] for what ends a replay early, among it
/// answers and hashes that are wrong; [`BenchError::Stopped`] after the summary of a replay that was interrupted.
pub fn run(args: &ReplayArgs, keep: Option<&Path>, branch: Option<&str>, json: bool) -> Result<()> {
    if let Some(job) = &args.child {
        return child(job, run::run);
    }
    let job = job(args, keep, branch)?;
    // A broken file should not cost the hours of a replay.
    if let Some(file) = &args.json {
        json::read(file)?;
    }
    let mut row = measure(&job, args.runs as usize, args.runs == 1)?;
    let stopped = row.replay.as_ref().is_some_and(|replay| replay.stopped);
    if let Some(file) = &args.json
        && !stopped
    {
        set_floor(&mut row, &job, &json::rows(file)?);
        json::merge(file, std::slice::from_ref(&row))?;
    }
    let text = if json { format!("{}\n", value(&row)?) } else { show::table(&row).text() };
    let printed = report::print(&text);
    if stopped { Err(BenchError::Stopped) } else { row.verdict().and(printed) }
}

/// Replays `runs` times and returns the row of the run in the middle. Runs are processes of this program, which must
/// know the command `replay tezos`, unless all are to be in this process.
///
/// # Errors
/// As [`run`], but a replay that was interrupted gives a row that says so.
pub fn measure(job: &ReplayJob, runs: usize, in_process: bool) -> Result<Row> {
    match run::why_unchecked(job) {
        _ if job.chunked.is_some() => say!("neither answers nor hashes are checked: {}", CHUNKED),
        Some(why) => say!("answers are checked, commit hashes are not, because {why}"),
        None => say!("answers and commit hashes are checked"),
    }
    watch::stop_on_interrupt();
    let durable = job.durability() != bristlecone::Durability::None;
    let sync = || -> Result<f64> { Ok(Limits::default().with_sync_now(&job.dir)?.sync_prezeroed) };
    let before = if durable { Some(sync()?) } else { None };
    let mut all: Vec<ReplayRun> = Vec::new();
    while all.len() < runs.max(1) && !all.last().is_some_and(|run| run.figures.stopped) {
        all.push(if in_process { run::run(job)? } else { process("tezos", job)? });
    }
    if runs > 1 && all.last().is_some_and(|run| run.figures.stopped) {
        // Half a replay is no run among whole ones; if it is all there is, it is shown.
        let whole: Vec<ReplayRun> = all.iter().filter(|run| !run.figures.stopped).cloned().collect();
        all = if whole.is_empty() { all } else { whole };
    }
    let mut row = row(job, &all, &Machine::here(&job.dir));
    row.fdatasync_us = match before {
        Some(before) => Some(f64::midpoint(before, sync()?) * 1e6),
        None => None,
    };
    Ok(row)
}

/// What a replay in pieces is not.
const CHUNKED: &str = "does not do the work of the trace: its pieces start from empty trees; answers and hashes not \
                       checked";

fn threads(text: &str) -> std::result::Result<usize, String> {
    match text.parse() {
        Ok(threads @ 1..=64) => Ok(threads),
        _ => Err("1 to 64".into()),
    }
}

fn job(args: &ReplayArgs, keep: Option<&Path>, branch: Option<&str>) -> Result<ReplayJob> {
    let trace = args.file.clone().ok_or_else(|| BenchError::usage("name a trace"))?;
    let backend = args.backend.unwrap_or(if keep.is_some() { BackendName::Disk } else { BackendName::Memory });
    if backend == BackendName::Memory && keep.is_some() {
        return Err(BenchError::usage("a store in memory cannot be kept: leave out --repo or --backend memory"));
    }
    if backend == BackendName::Memory && args.durability != DurabilityName::None {
        return Err(BenchError::usage("nothing in memory is durable: add --backend disk, or leave out --durability"));
    }
    if backend != BackendName::Disk && (args.no_maps || args.cache.is_some()) {
        return Err(BenchError::usage(
            "maps and the budget without them are the disk engine's: add --backend disk, or leave out --no-maps and --cache",
        ));
    }
    if keep.is_some() && args.chunked.is_some() {
        return Err(BenchError::usage(
            "a replay in pieces leaves no history to be kept: leave out --repo or --chunked",
        ));
    }
    if args.threads != 1 && args.chunked.is_some() {
        return Err(BenchError::usage("the first number of --chunked says how many threads work: leave out --threads"));
    }
    if keep.is_some() && args.dir.is_some() {
        return Err(BenchError::usage("--dir is for a store that is removed again: leave out --repo or --dir"));
    }
    if keep.is_some() && args.runs > 1 {
        return Err(BenchError::usage("several runs cannot be kept in one store: leave out --repo or --runs"));
    }
    if args.record.is_some() && (keep.is_none() || args.runs > 1 || args.json.is_some()) {
        return Err(BenchError::usage("--record needs the store to stay (--repo DIR), one run, and no --json"));
    }
    if args.record.is_some() && backend != BackendName::Disk {
        return Err(BenchError::usage(
            "places of reads are the disk engine's segments: leave out --record, or --backend with another one",
        ));
    }
    if args.retain.is_some() && (backend != BackendName::Disk || args.chunked.is_some()) {
        return Err(BenchError::usage(
            "only the disk engine cuts history: add --backend disk, and leave out --chunked",
        ));
    }
    let dir = match keep {
        // The disk is that of the store that stays.
        Some(keep) => keep.ancestors().find(|dir| dir.is_dir()).unwrap_or(Path::new(".")).to_owned(),
        None if backend != BackendName::Memory || args.dir.is_some() => scratch::place(args.dir.as_deref())?,
        None => PathBuf::from("."),
    };
    Ok(ReplayJob {
        trace,
        commits: args.commits,
        format: args.format,
        backend,
        durability: args.durability,
        empty_blobs: args.empty_blobs,
        path_conversion: args.path_conversion.to_string(),
        chunked: args.chunked,
        threads: args.threads,
        record: args.record.clone(),
        retain: args.retain,
        strict: args.strict,
        switches: Switches {
            inline: !args.no_inline,
            split: !args.no_inode,
            maps: !args.no_maps,
            direct: true,
            cache_bytes: args.cache,
        },
        branch: branch.unwrap_or("main").to_owned(),
        dir,
        keep: keep.map(Path::to_owned),
        name: args.name.clone(),
    })
}

/// Makes the row of the runs of a replay.
fn row(job: &ReplayJob, all: &[ReplayRun], machine: &Machine) -> Row {
    let runs: Vec<_> = all.iter().map(|run| run.run.clone()).collect();
    let Some(middle) = crate::report::median(&runs) else { return Row::default() };
    let mut row = Row::of_runs(middle, &runs, machine);
    row.name = job.row_name();
    row.scenario = job.scenario(middle.commits);
    row.backend = job.backend.name().into();
    row.durability = job.durability().name().into();
    row.variant = job.variant();
    if job.chunked.is_none() {
        let (differs, compared) = agree::runs(all);
        row.wrong = row.wrong.or(differs);
        row.checked = row.wrong.is_none() && (compared || all.iter().all(|run| run.figures.hashes_checked > 0));
    }
    let mut figures = all.iter().find(|run| run.run == *middle).map(|run| run.figures.clone());
    if let Some(figures) = figures.as_mut().filter(|_| job.chunked.is_some()) {
        figures.caveat = Some(CHUNKED.into());
        figures.hashes_unchecked = Some("the trace is cut into pieces".into());
    }
    row.replay = figures.map(Box::new);
    row
}

/// Notes for a synced row what its work takes without syncs, with one sync for each commit on top. What is wrong, or was
/// measured on another machine, says nothing of it.
pub(crate) fn set_floor(row: &mut Row, job: &ReplayJob, others: &[Row]) {
    let unsynced = ReplayJob { durability: DurabilityName::None, ..job.clone() }.row_name();
    let is_it = |other: &&Row| other.name == unsynced && other.scenario == row.scenario;
    let other = others.iter().find(is_it).filter(|other| other.is_right() && same_machine(row, other));
    let Some(other) = other else { return };
    if let (DurabilityName::Synced, Some(us), Some(replay)) = (job.durability, row.fdatasync_us, &mut row.replay) {
        replay.synced_floor_s = Some(other.total_time + row.commits as f64 * us / 1e6);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_floor_is_made_of_a_row_that_is_right_and_of_the_same_machine() {
        let mut job = ReplayJob::new("made.repr", ".");
        (job.backend, job.durability) = (BackendName::Disk, DurabilityName::Synced);
        let unsynced = Row {
            name: "bristlecone disk none".into(),
            scenario: job.scenario(9),
            total_time: 2.0,
            cpu: "one".into(),
            ..Row::default()
        };
        let floor = |other: Row| {
            let replay = Some(Box::default());
            let mut row = Row { name: job.row_name(), commits: 9, fdatasync_us: Some(1e6), replay, ..unsynced.clone() };
            set_floor(&mut row, &job, &[other]);
            row.replay.unwrap().synced_floor_s
        };
        assert_eq!(floor(unsynced.clone()), Some(11.0));
        assert_eq!(floor(Row { wrong: Some("the root is another".into()), ..unsynced.clone() }), None);
        assert_eq!(floor(Row { cpu: "two".into(), ..unsynced.clone() }), None);
        assert_eq!(floor(Row { scenario: job.scenario(10), ..unsynced.clone() }), None);
    }
}
