//! The tree suite by itself: `bench` without the name of a part.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::{
    BenchError,
    error::Result,
    job::{Big, Job, Switches, Target, Work},
    optims,
    options::{Common, positive},
    peers,
    report::{self, Row, json, readme},
    runner::run_child,
    scenario::last_value,
    session::Session,
    suite::{Plan, SCENARIOS},
    workload::value_bytes_min,
};

/// Runs the tree suite on the embedded backends and prints tables.
#[derive(Args, Clone, Debug)]
pub struct BenchArgs {
    /// How much is done, and where
    #[command(flatten)]
    pub common: Common,
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
    /// Not the log-structured merge tree
    #[arg(long)]
    pub skip_lsm: bool,
    /// Not LMDB
    #[arg(long)]
    pub skip_lmdb: bool,
    /// Not one file an object
    #[arg(long)]
    pub skip_fs: bool,
    /// Not the Git repositories, nor other programs that keep some
    #[arg(long)]
    pub skip_git: bool,
    /// Not libgit2, gitoxide and git fast-import
    #[arg(long)]
    pub skip_peers: bool,
    /// Only this backend: memory, disk, lsm, lmdb, fs or git
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
    /// Also the table of optimisations, each by itself
    #[arg(long)]
    pub optims: bool,
    /// Only the long forms: opening large stores, reading beyond the budget, very wide directories
    #[arg(long, conflicts_with_all = ["value_size", "no_batch", "parallel_domains", "parallel_fibers", "optims"])]
    pub big: bool,
    /// Bytes of values in the smaller of the stores that are opened; the larger has ten times as many
    #[arg(long, value_name = "BYTES", default_value_t = 1_000_000_000)]
    pub big_bytes: u64,
    /// Entries of the very wide directory
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    pub big_entries: u64,
    /// Traces are replayed by `all`
    #[arg(long, value_name = "FILE", hide = true)]
    pub trace: Option<PathBuf>,
    /// Traces are replayed by `all`
    #[arg(long, value_name = "N", hide = true)]
    pub trace_commits: Option<u64>,
    /// Traces are replayed by `all`
    #[arg(long, hide = true)]
    pub trace_empty_blobs: bool,
    /// Traces are replayed by `all`
    #[arg(long, hide = true)]
    pub no_flatten: bool,
    /// Do one run of a job: what the processes of the suite are started with
    #[arg(long, hide = true, value_name = "JOB")]
    pub child: Option<String>,
}

pub(super) fn run(args: &BenchArgs, json: bool) -> Result<()> {
    if let Some(job) = &args.child {
        return run_child(job);
    }
    refuse_traces(args)?;
    if args.regen {
        let file = args.json.as_deref().ok_or_else(|| BenchError::usage("--regen needs --json FILE"))?;
        return publish(args, &json::rows(file)?, json);
    }
    // What is refused at the end should not cost the minutes of a run.
    if let Some(page) = &args.readme {
        readme::check_page(page)?;
        if !args.common.allow_dirty {
            readme::check_this_build()?;
        }
    }
    if let Some(file) = &args.json {
        json::read(file)?;
    }
    let session = measure(args)?;
    let published = publish(args, &session.rows, json);
    session.verdict().and(published)
}

fn measure(args: &BenchArgs) -> Result<Session> {
    // Options that leave nothing to measure should not cost the measuring of the limits.
    jobs(args, Path::new(""))?;
    let mut session = Session::start(&args.common, args.json.as_deref())?;
    let mut jobs = jobs(args, session.dir())?;
    peers::git::leave_out(&mut jobs);
    session.measure(&jobs, if args.common.quick || args.big { 1 } else { args.common.runs });
    Ok(session)
}

fn refuse_traces(args: &BenchArgs) -> Result<()> {
    if args.trace.is_some() || args.trace_commits.is_some() || args.trace_empty_blobs || args.no_flatten {
        return Err(BenchError::usage(
            "traces are replayed by `bench all --trace FILE`, which takes --trace-commits, --trace-empty-blobs and \
             --no-flatten, and by `replay tezos FILE`",
        ));
    }
    Ok(())
}

/// Shows rows, and writes the page if there is one to write.
fn publish(args: &BenchArgs, rows: &[Row], json: bool) -> Result<()> {
    // First of all, so that a page which is refused takes no rows with it.
    let shown = report::show(rows, json);
    if let Some(page) = &args.readme {
        // The page shows the whole file, not this run's part of it.
        let all = args.json.as_deref().map(json::rows).transpose()?;
        let rows = all.as_deref().unwrap_or(rows);
        if !args.common.allow_dirty {
            readme::check_committed(rows)?;
        }
        readme::write(page, rows)?;
    }
    shown
}

fn jobs(args: &BenchArgs, dir: &Path) -> Result<Vec<Job>> {
    let like = like(args, dir);
    let targets = targets(args)?;
    if args.big {
        return big_jobs(args, &like, &targets);
    }
    let mut value_sizes = vec![20, 10_000];
    value_sizes.extend(args.value_size.filter(|bytes| !value_sizes.contains(bytes)));
    let parallel = args.parallel_domains.is_some() || args.parallel_fibers.is_some();
    let only = args.only_scenario.clone();
    let plan = Plan { like, value_sizes, targets, only, quick: args.common.quick, no_batch: args.no_batch, parallel };
    if let Some(name) = plan.unknown() {
        if plan.leaves_out(name) {
            let way = "leave --quick out, or choose other scenarios";
            return Err(BenchError::usage(format!("--quick leaves {name} out; {way}")));
        }
        let known = SCENARIOS.join(", ");
        return Err(BenchError::usage(format!("there is no scenario or row {name} here; scenarios are {known}")));
    }
    let mut jobs = plan.jobs();
    if jobs.iter().all(|job| job.target.is_peer()) {
        return Err(BenchError::usage(format!("nothing is left to measure; scenarios are {}", SCENARIOS.join(", "))));
    }
    check_switches(&plan.like, &jobs)?;
    if let Some((job, least)) = jobs.iter().find_map(|job| Some((job, too_short(job)?))) {
        return Err(BenchError::usage(format!(
            "--value-size {} is too small for {}, whose values would not all differ: it takes {least}; --only-scenario \
             selects others",
            job.value_bytes,
            job.scenario(),
        )));
    }
    if args.optims {
        let wanted = |job: &Job| plan.targets.contains(&job.target);
        jobs.extend(optims::jobs(&plan.like).into_iter().filter(wanted));
    }
    Ok(jobs)
}

/// Refuses a switch that means nothing in any of the jobs.
fn check_switches(like: &Job, jobs: &[Job]) -> Result<()> {
    let is_idle = |word: &String| !jobs.iter().any(|job| job.switches.words().contains(word));
    match like.switches.words().into_iter().find(is_idle) {
        Some(word) => {
            let way = "leave it out, or take in the disk engine";
            Err(BenchError::usage(format!("--{word} means nothing on the backends that are measured; {way}")))
        }
        None => Ok(()),
    }
}

/// Returns how many bytes the values of a job need to differ from each other, where they have fewer.
fn too_short(job: &Job) -> Option<usize> {
    Some(value_bytes_min(last_value(job))).filter(|least| job.value_bytes < *least)
}

fn like(args: &BenchArgs, dir: &Path) -> Job {
    let mut like = args.common.job(dir);
    like.sizes.domains = args.parallel_domains.unwrap_or(1);
    like.sizes.fibers = args.parallel_fibers.unwrap_or(1);
    like.switches = Switches {
        inline: !args.no_inline,
        split: !args.no_inode,
        maps: !args.no_maps,
        direct: !args.no_direct,
        cache_bytes: args.cache,
    };
    like
}

fn targets(args: &BenchArgs) -> Result<Vec<Target>> {
    let only = args.only_backend.as_deref();
    if let Some(name) = only
        && !["memory", "disk", "lsm", "lmdb", "fs", "git"].contains(&name)
    {
        let known = "backends are memory, disk, lsm, lmdb, fs and git";
        return Err(BenchError::usage(format!("there is no backend {name}; {known}")));
    }
    let skipped = |target: &Target| match target {
        Target::Memory => args.skip_memory,
        Target::LsmNone | Target::LsmSynced => args.skip_lsm,
        Target::LmdbNone | Target::LmdbSynced => args.skip_lmdb,
        Target::FsNone | Target::FsSynced => args.skip_fs,
        target if target.is_peer() => args.skip_git || args.skip_peers,
        target if target.is_git() => args.skip_git,
        _ => args.skip_disk,
    };
    // Others are measured beside the backend that they are compared with.
    let backend = |target: &Target| if target.is_peer() { "git" } else { target.backend() };
    let wanted = |target: &Target| !skipped(target) && only.is_none_or(|name| name == backend(target));
    let targets: Vec<Target> = Target::all().filter(wanted).collect();
    if targets.is_empty() {
        return Err(BenchError::usage("every backend is skipped: nothing is left to measure"));
    }
    Ok(targets)
}

/// A directory of so many entries is what the very wide one is compared with.
const WIDE_ENTRIES: u64 = 100_000;

const LONG_FORMS: &str = "long forms are open, over-budget, wide and one-commit, on disk, and wide in memory";

fn big_jobs(args: &BenchArgs, like: &Job, targets: &[Target]) -> Result<Vec<Job>> {
    let mut jobs = Vec::new();
    let mut push = |work: Big, target: Target, switches: Switches| {
        let (work, switches) = (Work::Big(work), switches.on(target));
        jobs.push(Job { work, target, value_bytes: 1000, switches, ..like.clone() });
    };
    push(Big::Open { bytes: args.big_bytes }, Target::DiskNone, like.switches);
    push(Big::Open { bytes: args.big_bytes.saturating_mul(10) }, Target::DiskNone, like.switches);
    let cache_bytes = Some(like.switches.cache_bytes.unwrap_or(64 << 20));
    let without_maps = Switches { maps: false, cache_bytes, ..like.switches };
    push(Big::Budget { bytes: args.big_bytes }, Target::DiskNone, without_maps);
    for target in [Target::Memory, Target::DiskNone] {
        push(Big::Wide { entries: WIDE_ENTRIES }, target, like.switches);
        push(Big::Wide { entries: args.big_entries }, target, like.switches);
    }
    push(Big::Large { entries: args.big_entries }, Target::DiskNone, like.switches);
    let only = &args.only_scenario;
    let is_called = |job: &Job, name: &str| job.scenario().starts_with(name);
    if let Some(name) = only.iter().find(|name| !jobs.iter().any(|job| is_called(job, name))) {
        return Err(BenchError::usage(format!("there is no long form {name} here; {LONG_FORMS}")));
    }
    jobs.retain(|job| {
        targets.contains(&job.target) && (only.is_empty() || only.iter().any(|name| is_called(job, name)))
    });
    if jobs.is_empty() {
        return Err(BenchError::usage(format!("nothing is left to measure; {LONG_FORMS}")));
    }
    check_switches(like, &jobs)?;
    Ok(jobs)
}

#[cfg(test)]
mod tests;
