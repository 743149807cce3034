//! Replays of a Cardano chain: the command `replay cardano`, and the same for `bench all`.
//!
//! A `ChainJob` is one chain with one index of blocks and one store of unspent outputs. `measure` runs it, each run in a
//! process of its own if there are several, and makes the row. `docs/bench.md` has a section on it.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap::Args;

use crate::{
    BenchError,
    error::Result,
    limits::Limits,
    machine::Machine,
    options::positive,
    replay::{BackendName, DurabilityName, child, process, value},
    report::{self, Row, json, median},
    scratch,
};

pub(crate) mod agree;
mod compare;
mod job;
mod run;
mod show;
mod watch;

pub(crate) use job::{ChainJob, IndexName, Profile, TailName, UtxoName};
pub(crate) use run::ChainRun;

/// Options of `replay cardano`.
#[derive(Args, Clone, Debug)]
pub struct ChainArgs {
    /// The chain: a node's folder `immutable` or the one above it, archives of it (.tar.zst, .tar), chunks, or single blocks
    /// (.cbor, or .block in hexadecimal), in the order of the chain
    #[arg(value_name = "DIR|ARCHIVE", required_unless_present = "child")]
    sources: Vec<PathBuf>,
    /// Genesis files, Byron's or Shelley's, whose outputs are there before the first block; given more than once for both.
    /// Byron's also says how many slots its epochs have
    #[arg(long, value_name = "FILE")]
    genesis: Vec<PathBuf>,
    /// Compare counts and digests of the set with this file after each chunk
    #[arg(long, value_name = "FILE")]
    checkpoints: Option<PathBuf>,
    /// Budgets of memory, and the kind of index
    #[arg(long, value_enum, default_value_t)]
    profile: Profile,
    /// What keeps the index of blocks [default: as the profile has it]
    #[arg(long, value_enum)]
    index: Option<IndexName>,
    /// What keeps the unspent outputs
    #[arg(long, value_enum, default_value_t)]
    utxo: UtxoName,
    /// What keeps the objects of the tree [default: disk]
    #[arg(long, value_enum)]
    backend: Option<BackendName>,
    /// When a commit is acknowledged
    #[arg(long, value_enum, default_value_t = DurabilityName::None)]
    durability: DurabilityName,
    /// Blocks in a commit
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    commit_every: u64,
    /// Commit blocks that change nothing as well
    #[arg(long)]
    commit_unchanged: bool,
    /// Only blocks from this slot on; the chain's start is then absent, and --allow-missing is needed
    #[arg(long, value_name = "SLOT")]
    from: Option<u64>,
    /// What is done about the newest chunk where its end is not whole
    #[arg(long, value_enum, default_value_t)]
    tail: TailName,
    /// Stop after so many blocks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    blocks: Option<u64>,
    /// Stop after so many seconds; a run that goes on counts from the first block that it applies
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<f64>,
    /// Write a line with speed and memory, and take a sample for the chart, this often, in seconds
    #[arg(long, value_name = "S", default_value = "15", value_parser = seconds)]
    sample_every: f64,
    /// Count inputs that name no output of the set and go on, for chains whose start is absent
    #[arg(long)]
    allow_missing: bool,
    /// Replay with both profiles, in turns, and print the differences
    #[arg(long, conflicts_with_all = ["index", "profile"])]
    compare: bool,
    /// Merge the row into this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where a store is made and removed again, without --repo; a real disk
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// What the row is called, before the backend
    #[arg(long, value_name = "NAME", default_value = "bristlecone")]
    name: String,
    /// Runs, of which the median counts, each in a process of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = positive)]
    runs: usize,
    /// Do one replay: what the processes of several runs are started with
    #[arg(long, hide = true, value_name = "JOB")]
    child: Option<String>,
}

/// Runs what the options ask for. Tables, or with `json` the rows, go to standard output, everything else to standard
/// error. `keep` names the folder of a store that stays.
///
/// # Errors
/// [`BenchError::Usage`] for options that make no sense; [`BenchError::Chain`] for what ends a replay early, among it
/// missing inputs and digests that are wrong; [`BenchError::Stopped`] after the summary of a replay that was interrupted.
pub fn run(args: &ChainArgs, keep: Option<&Path>, branch: Option<&str>, json: bool) -> Result<()> {
    if let Some(job) = &args.child {
        return child(job, run::run);
    }
    let job = job(args, keep, branch)?;
    // A broken file should not cost the hours of a replay.
    if let Some(file) = &args.json {
        json::read(file)?;
    }
    let of = |profile: Profile| ChainJob { profile, index: profile.index(), ..job.clone() };
    let jobs = if args.compare { [Profile::HighMemory, Profile::LowMemory].map(of).to_vec() } else { vec![job] };
    let rows = measure_all(&jobs, args.runs, args.runs == 1 && !args.compare)?;
    let is_stopped = |row: &Row| row.chain.as_ref().is_some_and(|chain| chain.stopped);
    let stopped = rows.len() < jobs.len() || rows.iter().any(is_stopped);
    if let Some(file) = args.json.as_ref().filter(|_| !stopped) {
        json::merge(file, &rows)?;
    }
    let text = match (json, &rows[..]) {
        (true, rows) if args.compare => {
            format!("{{\"rows\":[\n{}\n]}}\n", rows.iter().map(value).collect::<Result<Vec<_>>>()?.join(",\n"))
        }
        (true, rows) => rows.iter().map(|row| Ok(value(row)? + "\n")).collect::<Result<String>>()?,
        (false, [high, low]) => compare::table(high, low).text(),
        (false, rows) => rows.iter().map(|row| show::table(row).text()).collect(),
    };
    let printed = report::print(&text);
    if stopped { Err(BenchError::Stopped) } else { rows.iter().try_for_each(Row::verdict).and(printed) }
}

/// Replays `runs` times and returns the row of the run in the middle. Runs are processes of this program, which must
/// know the command `replay cardano`, unless all are to be in this process.
///
/// # Errors
/// As [`run`], but a replay that was interrupted gives a row that says so.
pub(crate) fn measure(job: &ChainJob, runs: usize, in_process: bool) -> Result<Row> {
    Ok(measure_all(std::slice::from_ref(job), runs, in_process)?.pop().unwrap_or_default())
}

/// Does the same for several jobs on one disk. Where a replay was interrupted, the jobs behind it have no rows.
fn measure_all(jobs: &[ChainJob], runs: usize, in_process: bool) -> Result<Vec<Row>> {
    crate::replay::stop_on_interrupt();
    let Some(first) = jobs.first() else { return Ok(Vec::new()) };
    let durable = first.durability() != bristlecone::Durability::None;
    let sync = || -> Result<f64> { Ok(Limits::default().with_sync_now(&first.dir)?.sync_prezeroed) };
    let before = if durable { Some(sync()?) } else { None };
    if jobs.len() > 1 {
        let bytes = read_once(&first.sources)?;
        say!("read the chain once, {bytes} bytes");
    }
    let all = runs_of(jobs.len(), runs, &mut |index| {
        if jobs.len() > 1 {
            say!("profile {}:", jobs[index].profile.name());
        }
        if in_process { run::run(&jobs[index]) } else { process("cardano", &jobs[index]) }
    })?;
    let fdatasync_us = match before {
        Some(before) => Some(f64::midpoint(before, sync()?) * 1e6),
        None => None,
    };
    let machine = Machine::here(&first.dir);
    let mut rows: Vec<Row> = Vec::new();
    for (job, runs) in jobs.iter().zip(&all).filter(|(_, runs)| !runs.is_empty()) {
        let mut row = Row { fdatasync_us, ..row(job, runs, &machine) };
        agree::row(&mut row, &mut rows, job.seconds.is_some());
        rows.push(row);
    }
    Ok(rows)
}

/// Does the runs of so many jobs until a run is interrupted: a round is a run of each, and every other round has them the other
/// way round, so that what else the machine does over time meets all alike. Half a replay is no run among whole ones; if it
/// is all there is of its job, it is kept.
fn runs_of(jobs: usize, runs: usize, run: &mut dyn FnMut(usize) -> Result<ChainRun>) -> Result<Vec<Vec<ChainRun>>> {
    let mut all = vec![Vec::new(); jobs];
    for round in 0..runs.max(1) {
        for turn in 0..jobs {
            let job = if round.is_multiple_of(2) { turn } else { jobs - 1 - turn };
            let done = run(job)?;
            let stopped = done.figures.stopped;
            if !stopped || all[job].is_empty() {
                all[job].push(done);
            }
            if stopped {
                return Ok(all);
            }
        }
    }
    Ok(all)
}

/// Reads the files of a chain once, so that the first replay finds them in memory as those after it do. Returns their bytes.
fn read_once(sources: &[PathBuf]) -> Result<u64> {
    let mut bytes = 0;
    for source in sources {
        let mut files = vec![source.clone()];
        for dir in [source.clone(), source.join("immutable")].into_iter().filter(|dir| dir.is_dir()) {
            for entry in fs::read_dir(&dir).map_err(BenchError::io(&dir))? {
                files.push(entry.map_err(BenchError::io(&dir))?.path());
            }
        }
        for path in files.iter().filter(|path| path.is_file()) {
            let mut file = fs::File::open(path).map_err(BenchError::io(path))?;
            bytes += io::copy(&mut file, &mut io::sink()).map_err(BenchError::io(path))?;
        }
    }
    Ok(bytes)
}

fn job(args: &ChainArgs, keep: Option<&Path>, branch: Option<&str>) -> Result<ChainJob> {
    if args.utxo == UtxoName::Lsm && (args.backend.is_some() || branch.is_some()) {
        return Err(BenchError::usage(
            "a plain log-structured merge tree is its own store and has no branches: leave out --backend and -b, or --utxo lsm",
        ));
    }
    if args.utxo == UtxoName::Lsm && args.durability == DurabilityName::Grouped {
        return Err(BenchError::usage(
            "a plain log-structured merge tree syncs each commit or none: name --durability none or synced, or leave out --utxo lsm",
        ));
    }
    let backend = args.backend.unwrap_or(BackendName::Disk);
    if backend == BackendName::Memory {
        if keep.is_some() {
            return Err(BenchError::usage("a store in memory cannot be kept: leave out --repo or --backend memory"));
        }
        if args.durability != DurabilityName::None {
            return Err(BenchError::usage("nothing in memory is durable: leave out --backend memory or --durability"));
        }
    }
    if keep.is_some() && (args.runs > 1 || args.compare) {
        return Err(BenchError::usage(
            "several replays cannot be kept in one store: leave out --repo, or --runs and --compare",
        ));
    }
    if keep.is_some() && args.dir.is_some() {
        return Err(BenchError::usage("--dir is for a store that is removed again: leave out --repo or --dir"));
    }
    let dir = match keep {
        // The disk is that of the store that stays.
        Some(keep) => keep.ancestors().find(|dir| dir.is_dir()).unwrap_or(Path::new(".")).to_owned(),
        None => scratch::place(args.dir.as_deref())?,
    };
    Ok(ChainJob {
        sources: args.sources.clone(),
        genesis: args.genesis.clone(),
        checkpoints: args.checkpoints.clone(),
        profile: args.profile,
        index: args.index.unwrap_or_else(|| args.profile.index()),
        utxo: args.utxo,
        backend,
        durability: args.durability,
        commit_every: args.commit_every,
        commit_unchanged: args.commit_unchanged,
        from: args.from,
        blocks: args.blocks,
        seconds: args.seconds,
        sample_every: args.sample_every,
        tail: args.tail,
        allow_missing: args.allow_missing,
        branch: branch.unwrap_or("main").to_owned(),
        dir,
        keep: keep.map(Path::to_owned),
        name: args.name.clone(),
    })
}

/// Makes the row of the runs of a replay.
fn row(job: &ChainJob, all: &[ChainRun], machine: &Machine) -> Row {
    let runs: Vec<_> = all.iter().map(|run| run.run.clone()).collect();
    let Some(middle) = median(&runs) else { return Row::default() };
    let mut row = Row::of_runs(middle, &runs, machine);
    row.name = job.row_name();
    row.scenario = format!("cardano-{}blocks", middle.ops);
    row.backend = if job.utxo == UtxoName::Lsm { "plain lsm".into() } else { job.backend.name().into() };
    row.durability = job.durability().name().into();
    row.variant = job.variant();
    let (differs, compared) = agree::runs(all, job.seconds.is_some());
    row.wrong = row.wrong.or(differs);
    row.checked = row.wrong.is_none() && (compared || all.iter().all(|run| run.figures.ends_with_checkpoint()));
    let figures = all.iter().find(|run| run.run == *middle).map(|run| run.figures.clone());
    row.chain = figures.map(Box::new);
    row
}

fn seconds(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(seconds) if seconds > 0.0 && seconds <= 1e6 => Ok(seconds),
        _ => Err("a number of seconds above 0".into()),
    }
}

#[cfg(test)]
mod tests;
