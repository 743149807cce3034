//! The command `bench`: its options, and what it does with them.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use clap::Args;

use crate::{
    BenchError,
    error::Result,
    job::{Big, Job, Sizes, Switches, Target, Work},
    limits::{Effort, Limits},
    machine::{Machine, filesystem, is_memory},
    measure::Run,
    optims,
    report::{Row, json, readme, sections, table::rate},
    runner::{Runner, run_child},
    suite::{Plan, SCENARIOS},
};

/// Runs the tree suite on the embedded backends and prints tables.
#[derive(Args, Clone, Debug)]
pub struct BenchArgs {
    /// Commits of a scenario
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = positive)]
    pub ncommits: usize,
    /// Entries of the wide directory
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = positive)]
    pub tree_add: usize,
    /// Directories above an entry
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub depth: usize,
    /// Lookups of `reads`, and rounds of `concurrent`
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = positive)]
    pub nreads: usize,
    /// Run everything at this value size too, beside 20 and 10,000 bytes
    #[arg(long, value_name = "BYTES")]
    pub value_size: Option<usize>,
    /// The budget of the object cache, used where there are no maps; 0: none
    #[arg(long, value_name = "BYTES")]
    pub cache: Option<u64>,
    /// Wide directories stay one object
    #[arg(long)]
    pub no_inode: bool,
    /// Short values are objects of their own
    #[arg(long)]
    pub no_inline: bool,
    /// Read files without memory maps
    #[arg(long)]
    pub no_maps: bool,
    /// Find every object by its id, not by its location
    #[arg(long)]
    pub no_direct: bool,
    /// In `concurrent`, give every object to the backend by itself
    #[arg(long)]
    pub no_batch: bool,
    /// What rows are called, before the backend
    #[arg(long, value_name = "NAME", default_value = "bristlecone")]
    pub name: String,
    /// Merge the rows into this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the results between the markers of this page
    #[arg(long, value_name = "FILE")]
    pub readme: Option<PathBuf>,
    /// Measure nothing: make the tables from the rows of --json
    #[arg(long, requires = "json")]
    pub regen: bool,
    /// Not the memory backend
    #[arg(long)]
    pub skip_memory: bool,
    /// Not the disk engine
    #[arg(long)]
    pub skip_disk: bool,
    /// Accepted; there is no such backend yet
    #[arg(long)]
    pub skip_lsm: bool,
    /// Accepted; there is no such backend yet
    #[arg(long)]
    pub skip_git: bool,
    /// Only this backend: memory or disk
    #[arg(long, value_name = "NAME")]
    pub only_backend: Option<String>,
    /// Only these scenarios: a name (`commits`) or a row (`commits-20B`), separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub only_scenario: Vec<String>,
    /// Threads of the parallel forms
    #[arg(long, value_name = "D", value_parser = positive)]
    pub parallel_domains: Option<usize>,
    /// Branches for each thread of the parallel forms
    #[arg(long, value_name = "F", value_parser = positive)]
    pub parallel_fibers: Option<usize>,
    /// Where stores are made and removed again; a real disk
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Runs of each row, of which the median counts
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = positive)]
    pub runs: usize,
    /// One run of each row, and not the longest rows
    #[arg(long)]
    pub quick: bool,
    /// Also the table of optimisations, each by itself
    #[arg(long)]
    pub optims: bool,
    /// Only the long forms: opening large stores, reading beyond the budget, very wide directories
    #[arg(long)]
    pub big: bool,
    /// Bytes of values in the smaller of the stores that are opened; the larger has ten times as many
    #[arg(long, value_name = "BYTES", default_value_t = 1_000_000_000)]
    pub big_bytes: u64,
    /// Entries of the very wide directory
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    pub big_entries: u64,
    /// Traces belong to a later version
    #[arg(long, value_name = "FILE", hide = true)]
    pub trace: Option<PathBuf>,
    /// Traces belong to a later version
    #[arg(long, value_name = "N", hide = true)]
    pub trace_commits: Option<u64>,
    /// Traces belong to a later version
    #[arg(long, hide = true)]
    pub trace_empty_blobs: bool,
    /// Traces belong to a later version
    #[arg(long, hide = true)]
    pub no_flatten: bool,
    /// Do every run in this process: for profilers. Memory is then that of all runs together
    #[arg(long)]
    pub in_process: bool,
    /// Do one run of a job: what the processes of the suite are started with
    #[arg(long, hide = true, value_name = "JOB")]
    pub child: Option<String>,
}

fn positive(text: &str) -> std::result::Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("at least 1".into()),
        Ok(count) => Ok(count),
        Err(error) => Err(format!("{error}")),
    }
}

/// Runs what the options ask for. Tables, or with `json` the rows, go to standard output, progress to
/// standard error.
///
/// # Errors
/// [`BenchError::Usage`] for options that make no sense; [`BenchError::Wrong`] after everything was reported, if a
/// check found something wrong; others of the stores and the system.
pub fn run(args: &BenchArgs, json: bool) -> Result<()> {
    if let Some(job) = &args.child {
        return run_child(job);
    }
    refuse_traces(args)?;
    if args.regen {
        let file = args.json.as_deref().ok_or_else(|| BenchError::usage("--regen needs --json FILE"))?;
        return publish(args, &json::rows(file)?, json);
    }
    // A broken file should not cost the minutes of a run.
    if let Some(file) = &args.json {
        json::read(file)?;
    }
    let home = Home::new(args)?;
    let (rows, failed) = measure(args, &home)?;
    if let Some(file) = &args.json {
        json::merge(file, &rows)?;
    }
    publish(args, &rows, json)?;
    if let Some(error) = failed {
        return Err(error);
    }
    match rows.iter().find(|row| row.wrong.is_some()) {
        Some(row) => Err(BenchError::Wrong {
            scenario: format!("{}, {}", row.scenario, row.name),
            reason: row.wrong.clone().unwrap_or_default(),
        }),
        None => Ok(()),
    }
}

fn refuse_traces(args: &BenchArgs) -> Result<()> {
    if args.trace.is_some() || args.trace_commits.is_some() || args.trace_empty_blobs || args.no_flatten {
        return Err(BenchError::usage(
            "this version replays no traces: leave out --trace, --trace-commits, --trace-empty-blobs and --no-flatten",
        ));
    }
    if args.skip_lsm || args.skip_git {
        eprintln!("this version has no lsm and no git backend: there is nothing to skip");
    }
    Ok(())
}

/// Shows rows, and writes the page if there is one to write.
fn publish(args: &BenchArgs, rows: &[Row], json: bool) -> Result<()> {
    if let Some(page) = &args.readme {
        // The page shows the whole file, not this run's part of it.
        match &args.json {
            Some(file) => readme::write(page, &json::rows(file)?)?,
            None => readme::write(page, rows)?,
        }
    }
    let text = if json {
        let values: Vec<_> = rows.iter().filter_map(|row| serde_json::to_value(row).ok()).collect();
        json::to_text(&values)
    } else {
        sections(rows).iter().map(|table| table.text() + "\n").collect()
    };
    // Whoever closes the pipe early has seen enough.
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(())
}

/// The folder in which stores are made; removed at the end.
struct Home {
    dir: PathBuf,
}

impl Home {
    fn new(args: &BenchArgs) -> Result<Self> {
        let above = args.dir.clone().unwrap_or_else(default_dir);
        fs::create_dir_all(&above).map_err(BenchError::io(&above))?;
        if let Some(kind) = filesystem(&above).filter(|kind| is_memory(kind)) {
            eprintln!(
                "warning: {} is a {kind}, which is memory: durable figures mean nothing here; use --dir",
                above.display()
            );
        }
        let dir = above.join(format!("bristlecone-bench-{}", std::process::id()));
        fs::create_dir(&dir).map_err(BenchError::io(&dir))?;
        Ok(Self { dir })
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // What cannot be removed stays behind under a name that says what it is.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Returns the folder `target` here, where a build has made one, or else the system's temporary folder.
pub(crate) fn default_dir() -> PathBuf {
    let target = Path::new("target");
    if target.is_dir() { target.join("bench") } else { std::env::temp_dir() }
}

/// Measures the limits and then every job. A job that fails is named and left out; the first such failure is
/// returned beside the rows of the others.
fn measure(args: &BenchArgs, home: &Home) -> Result<(Vec<Row>, Option<BenchError>)> {
    let runner = if args.in_process { Runner::Here } else { Runner::this_program()? };
    let machine = Machine::here(&home.dir);
    let jobs = jobs(args, &home.dir)?;
    eprintln!("measuring the limits of this machine …");
    let (limits, limit_rows) = Limits::measure(&home.dir, if args.quick { Effort::QUICK } else { Effort::FULL })?;
    let mut rows: Vec<Row> = limit_rows.iter().map(|limit| Row::of_limit(limit, &machine)).collect();
    let runs = if args.quick || args.big { 1 } else { args.runs };
    let mut failed = None;
    for (index, job) in jobs.iter().enumerate() {
        eprint!("[{}/{}] {}, {} … ", index + 1, jobs.len(), job.scenario(), job.row_name());
        match runs_beside_syncs(&runner, job, runs, &limits) {
            Ok((all, limits)) => {
                for runs in by_part(&all) {
                    let mut row = Row::of_job(job, &runs, &machine, Some(&limits));
                    compare_heads(&mut row, &rows);
                    progress(&row, &runs[0].part);
                    rows.push(row);
                }
                eprintln!();
            }
            Err(error) => {
                eprintln!("failed: {error}");
                failed = failed.or(Some(error));
            }
        }
    }
    Ok((rows, failed))
}

/// Runs a job; returns its runs with the limits, in which syncs take what they took around a durable job.
fn runs_beside_syncs(runner: &Runner, job: &Job, runs: usize, limits: &Limits) -> Result<(Vec<Vec<Run>>, Limits)> {
    if job.target != Target::DiskSynced {
        return Ok((runner.runs(job, runs)?, limits.clone()));
    }
    let before = limits.with_sync_now(&job.dir)?;
    let all = runner.runs(job, runs)?;
    let mut around = limits.with_sync_now(&job.dir)?;
    around.sync_prezeroed = f64::midpoint(before.sync_prezeroed, around.sync_prezeroed);
    Ok((all, around))
}

/// Returns the runs of each part of a scenario.
fn by_part(all: &[Vec<Run>]) -> Vec<Vec<Run>> {
    let parts = all.iter().map(Vec::len).min().unwrap_or(0);
    (0..parts).map(|part| all.iter().map(|runs| runs[part].clone()).collect()).collect()
}

fn progress(row: &Row, part: &str) {
    let part = if part.is_empty() { String::new() } else { format!("{part} ") };
    eprint!("{part}{}/s ", rate(row.ops_per_sec));
    if let Some(wrong) = &row.wrong {
        eprint!("WRONG: {wrong} ");
    }
}

/// Compares the last commit, and so every commit before it, with what the other backends made of the same
/// scenario.
fn compare_heads(row: &mut Row, rows: &[Row]) {
    let same = |other: &&Row| other.scenario == row.scenario && other.variant == row.variant && other.head.is_some();
    let Some(other) = rows.iter().find(same) else { return };
    if row.head.is_some() && other.head != row.head {
        row.checked = false;
        row.wrong = Some(format!("the last commit is not that of {}", other.name));
    }
}

fn jobs(args: &BenchArgs, dir: &Path) -> Result<Vec<Job>> {
    let like = like(args, dir);
    let targets = targets(args)?;
    if args.big {
        return Ok(big_jobs(args, &like, &targets));
    }
    let mut value_sizes = vec![20, 10_000];
    value_sizes.extend(args.value_size.filter(|bytes| !value_sizes.contains(bytes)));
    let parallel = args.parallel_domains.is_some() || args.parallel_fibers.is_some();
    let only = args.only_scenario.clone();
    let plan = Plan { like, value_sizes, targets, only, quick: args.quick, no_batch: args.no_batch, parallel };
    let mut jobs = plan.jobs();
    if jobs.is_empty() {
        return Err(BenchError::usage(format!("nothing is left to measure; scenarios are {}", SCENARIOS.join(", "))));
    }
    if args.optims {
        let wanted = |job: &Job| plan.targets.contains(&job.target);
        jobs.extend(optims::jobs(&plan.like).into_iter().filter(wanted));
    }
    Ok(jobs)
}

fn like(args: &BenchArgs, dir: &Path) -> Job {
    let sizes = Sizes {
        ncommits: args.ncommits,
        tree_add: args.tree_add,
        depth: args.depth,
        nreads: args.nreads,
        domains: args.parallel_domains.unwrap_or(1),
        fibers: args.parallel_fibers.unwrap_or(1),
        ..Sizes::default()
    };
    let switches = Switches {
        inline: !args.no_inline,
        split: !args.no_inode,
        maps: !args.no_maps,
        direct: !args.no_direct,
        cache_bytes: args.cache,
    };
    Job {
        work: Work::Commits,
        target: Target::Memory,
        value_bytes: 20,
        sizes,
        switches,
        dir: dir.to_owned(),
        name: args.name.clone(),
        label: None,
    }
}

fn targets(args: &BenchArgs) -> Result<Vec<Target>> {
    let only = args.only_backend.as_deref();
    if let Some(name) = only
        && !["memory", "disk"].contains(&name)
    {
        return Err(BenchError::usage(format!("there is no backend {name}; backends are memory and disk")));
    }
    let skipped = |target: &Target| match target {
        Target::Memory => args.skip_memory,
        _ => args.skip_disk,
    };
    let wanted = |target: &Target| !skipped(target) && only.is_none_or(|name| name == target.backend());
    let targets: Vec<Target> = Target::ALL.into_iter().filter(wanted).collect();
    if targets.is_empty() {
        return Err(BenchError::usage("every backend is skipped: nothing is left to measure"));
    }
    Ok(targets)
}

/// A directory of so many entries is what the very wide one is compared with.
const WIDE_ENTRIES: u64 = 100_000;

fn big_jobs(args: &BenchArgs, like: &Job, targets: &[Target]) -> Vec<Job> {
    let mut jobs = Vec::new();
    let mut push = |work: Big, target: Target, switches: Switches| {
        let job = Job { work: Work::Big(work), target, value_bytes: 1000, switches, ..like.clone() };
        let selected =
            args.only_scenario.is_empty() || args.only_scenario.iter().any(|n| job.scenario().starts_with(n));
        if targets.contains(&target) && selected {
            jobs.push(job);
        }
    };
    push(Big::Open { bytes: args.big_bytes }, Target::DiskNone, like.switches);
    push(Big::Open { bytes: args.big_bytes * 10 }, Target::DiskNone, like.switches);
    let cache_bytes = Some(like.switches.cache_bytes.unwrap_or(64 << 20));
    let without_maps = Switches { maps: false, cache_bytes, ..like.switches };
    push(Big::Budget { bytes: args.big_bytes }, Target::DiskNone, without_maps);
    for target in [Target::Memory, Target::DiskNone] {
        push(Big::Wide { entries: WIDE_ENTRIES }, target, like.switches);
        push(Big::Wide { entries: args.big_entries }, target, like.switches);
    }
    jobs
}

#[cfg(test)]
mod tests;
