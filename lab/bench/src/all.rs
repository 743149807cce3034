//! `bench all`: everything in one command, in nine steps, each of which can be skipped.
//!
//! Rows are merged into the file of results as they come, so that a step that fails or is interrupted costs no other. Charts and
//! pages are made from that file alone.

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::Args;

use crate::{
    BenchError,
    error::Result,
    job::{Job, Target},
    measure::cores,
    optims,
    options::{Common, positive},
    peers::{self, irmin::Irmin},
    report::{self, charts, json, page::Contents, published, readme},
    session::Session,
    suite::Plan,
    sweep,
};

mod chain;
mod irmin;
mod maps;
mod trace;

pub use chain::ChainSources;
pub use trace::TraceArgs;

/// Everything in one command, in nine steps: 1 the tree suite on every backend; 2 each optimisation by itself; 3 the
/// replay of a trace; 4 one amount of work cut into more and more tasks; 5 Irmin in turns with ours, where it is
/// installed (what keeps Git repositories runs within step 1); 6 ordered maps beside plain LMDB; 7 the Cardano chain and its index
/// of blocks; 8 charts; 9 the results page and the section of the README.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  cone bench all                               everything but the trace, into lab/results when run in the repository
  cone bench all --quick --out /tmp/results    each row once
  cone bench all --skip-suite --skip-optims    only task counts, peers, charts and pages
  cone bench all --regen                       only charts and pages, from the file of results

Exit code 1 if a check of the results fails.")]
pub struct AllArgs {
    /// How much is done, and where
    #[command(flatten)]
    pub common: Common,
    /// Not step 1: the tree suite
    #[arg(long)]
    pub skip_suite: bool,
    /// Not step 2: each optimisation by itself
    #[arg(long)]
    pub skip_optims: bool,
    /// Not step 3: the replay of a trace
    #[arg(long)]
    pub skip_trace: bool,
    /// Not step 4: the sweep over task counts
    #[arg(long)]
    pub skip_parallel: bool,
    /// Not step 5, nor in step 1: other programs and libraries
    #[arg(long)]
    pub skip_peers: bool,
    /// Not step 6: ordered maps
    #[arg(long)]
    pub skip_maps: bool,
    /// Not step 7: the Cardano chain
    #[arg(long)]
    pub skip_chain: bool,
    /// Not step 8: charts
    #[arg(long)]
    pub skip_charts: bool,
    /// Not step 9: the results page and the README
    #[arg(long)]
    pub skip_readme: bool,
    /// Measure nothing: steps 8 and 9 alone, from the file of results
    #[arg(long)]
    pub regen: bool,
    /// The task counts of step 4, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = positive, default_values_t = sweep::COUNTS)]
    pub parallel_fibers: Vec<usize>,
    /// The threads that share the tasks of step 4; as many as there are cores if not given
    #[arg(long, value_name = "N", value_parser = positive)]
    pub parallel_domains: Option<usize>,
    /// The trace
    #[command(flatten)]
    pub trace: TraceArgs,
    /// The chain
    #[command(flatten)]
    pub chain: ChainSources,
    /// The program of step 5 [default: as built in lab/peers/irmin, else bristlecone-irmin on PATH]
    #[arg(long, value_name = "FILE")]
    pub irmin: Option<PathBuf>,
    /// The file of results, into which rows are merged [default: lab/results/results.json in the repository, else
    /// results.json]
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Where charts and the page results.md go, which is made if there is none; the README is left alone
    /// [default: lab/results in the repository, else results]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Does what the options ask for.
///
/// # Errors
/// As [`cli::run`](crate::cli::run).
pub(crate) fn run(args: &AllArgs, json: bool) -> Result<()> {
    let places = Places::new(args);
    // A broken file should not cost the minutes of a run.
    if let Some(trace) = args.trace.trace.as_ref().filter(|trace| !trace.is_file()) {
        return Err(BenchError::usage(format!("{}: there is no such trace", trace.display())));
    }
    if let Some(file) = args.chain.named().find(|file| !file.exists()) {
        return Err(BenchError::usage(format!(
            "{}: there is no such chain, genesis file or checkpoints",
            file.display()
        )));
    }
    if json::read(&places.rows)?.is_empty() && args.regen {
        let file = places.rows.display();
        return Err(BenchError::usage(format!(
            "{file} has no rows to make charts and pages of; name another with --json"
        )));
    }
    published::read(&places.published)?;
    let irmin = if args.skip_peers { None } else { Irmin::find(args.irmin.as_deref())? };
    if args.regen {
        return publish(args, &places);
    }
    if places.readme.is_some() && !args.common.allow_dirty {
        readme::check_this_build()?;
    }
    // The results page is made where there is none; one without a place for results should not cost a run.
    let pages = std::iter::once(&places.page).filter(|page| page.exists()).chain(&places.readme);
    for page in pages.filter(|_| !args.skip_readme) {
        readme::check_page(page)?;
    }
    let session = measure(args, &places, irmin.as_ref())?;
    let shown = report::show(&session.rows, json);
    let published = publish(args, &places);
    session.verdict().and(shown).and(published)
}

/// Task counts, and replays, are tried so often at most.
const LONG_RUNS_MAX: usize = 3;

/// Steps 1 to 7. Each row is kept before the next is measured.
fn measure(args: &AllArgs, places: &Places, irmin: Option<&Irmin>) -> Result<Session> {
    let mut session = Session::start(&args.common, Some(&places.rows))?;
    let quick = args.common.quick;
    let runs = if quick { 1 } else { args.common.runs };
    let long_runs = runs.min(LONG_RUNS_MAX);
    let like = args.common.job(session.dir());
    let replay = trace::job(&args.trace, &args.common, session.dir());
    if !args.skip_suite {
        say!("step 1: the tree suite");
        let mut jobs = suite(&like, quick, !args.skip_peers);
        peers::git::leave_out(&mut jobs);
        session.measure(&jobs, runs);
    }
    if !args.skip_optims {
        say!("step 2: each optimisation by itself");
        session.measure(&optims::jobs(&like), runs);
        if let Some(job) = replay.as_ref().filter(|_| !args.skip_trace) {
            trace::optimisations(&mut session, job, 1)?;
        }
    }
    if !args.skip_trace {
        match &replay {
            None => say!("step 3 is left out: --trace names a trace to replay"),
            Some(job) => {
                say!("step 3: the replay of a trace");
                trace::replays(&mut session, job, long_runs, !args.trace.no_flatten)?;
            }
        }
    }
    if !args.skip_parallel {
        say!("step 4: one amount of work, cut into more and more tasks");
        let threads = args.parallel_domains.unwrap_or_else(cores);
        // Files of one object each, and syncs of them, say at every count what they say at one.
        let targets: Vec<Target> =
            Target::NATIVE.into_iter().chain(Target::OTHERS).filter(|target| !target.is_files()).collect();
        let jobs = sweep::jobs(&like, &targets, &args.parallel_fibers, threads, quick);
        session.measure(&jobs, long_runs);
    }
    match irmin {
        _ if args.skip_peers => {}
        None => say!("step 5 is left out: {}", peers::irmin::MISSING),
        Some(irmin) => {
            say!("step 5: Irmin, in turns with ours: {}", irmin.file().display());
            irmin::suite(&mut session, irmin, &like, runs, quick);
            if let Some(job) = replay.as_ref().filter(|_| !args.skip_trace) {
                irmin::replays(&mut session, irmin, job, long_runs, quick)?;
            }
        }
    }
    if session.in_process() && !args.skip_maps {
        say!("step 6 is left out: engines of ordered maps are processes, so leave out --in-process");
    } else if !args.skip_maps {
        say!("step 6: ordered maps beside plain LMDB");
        match maps::measure(&mut session, quick) {
            Err(BenchError::Stopped) => return Err(BenchError::Stopped),
            Err(error) => session.fail(error),
            Ok(()) => {}
        }
    }
    if !args.skip_chain {
        say!("step 7: indexes of blocks, and the Cardano chain");
        chain::indexes(&mut session, quick);
        match chain::job(&args.chain, &args.common, session.dir()) {
            None => say!("step 7 leaves the replay of a chain out: --chain names one"),
            Some(job) => chain::replays(&mut session, &job, long_runs)?,
        }
    }
    Ok(session)
}

fn suite(like: &Job, quick: bool, peers: bool) -> Vec<Job> {
    let plan = Plan {
        like: like.clone(),
        value_sizes: vec![20, 10_000],
        targets: Target::all().filter(|target| peers || !target.is_peer()).collect(),
        only: vec![],
        quick,
        no_batch: false,
        parallel: false,
    };
    plan.jobs()
}

/// Steps 8 and 9, from the file of results.
fn publish(args: &AllArgs, places: &Places) -> Result<()> {
    let rows = json::rows(&places.rows)?;
    if places.readme.is_some() && !args.common.allow_dirty {
        readme::check_committed(&rows)?;
    }
    let mut charts = charts::draw(&rows);
    fs::create_dir_all(&places.charts).map_err(BenchError::io(&places.charts))?;
    if args.skip_charts {
        // Pages show what there is from an earlier time.
        charts.retain(|chart| places.charts.join(chart.file).is_file());
    } else {
        for chart in &charts {
            json::write(&places.charts.join(chart.file), &chart.svg)?;
        }
        say!("{} charts are in {}", charts.len(), places.charts.display());
    }
    if args.skip_readme {
        return Ok(());
    }
    let published = published::read(&places.published)?;
    let contents = |page: &Path| Contents {
        rows: &rows,
        charts: &charts,
        published: &published,
        charts_at: relative(page, &places.charts) + "/",
        rows_at: relative(page, &places.rows),
    };
    if !places.page.exists() {
        let begin = format!("# Results\n\n{}\n{}\n", readme::BEGIN, readme::END);
        json::write(&places.page, &begin)?;
    }
    readme::replace(&places.page, &contents(&places.page).page())?;
    say!("the results are in {}", places.page.display());
    if let Some(readme) = &places.readme {
        readme::replace(readme, &contents(readme).summary(&relative(readme, &places.page)))?;
        say!("the section of {} is written", readme.display());
    }
    Ok(())
}

/// Which files are read and written.
struct Places {
    rows: PathBuf,
    charts: PathBuf,
    page: PathBuf,
    published: PathBuf,
    readme: Option<PathBuf>,
}

impl Places {
    fn new(args: &AllArgs) -> Self {
        // One run of each row is nothing to publish: it goes where it would go outside of the repository.
        let home = Path::new("lab/results/README.md").is_file() && Path::new("lab/bench").is_dir();
        let home = home && (args.regen || !args.common.quick);
        let rows = args.json.clone();
        let rows = rows.unwrap_or_else(|| if home { "lab/results/results.json" } else { "results.json" }.into());
        let published = rows.with_file_name("peers.csv");
        match (&args.out, home) {
            (None, true) => Self {
                rows,
                charts: "lab/results".into(),
                page: "lab/results/README.md".into(),
                published,
                readme: Some("README.md".into()),
            },
            (out, _) => {
                let charts = out.clone().unwrap_or_else(|| "results".into());
                Self { rows, page: charts.join("results.md"), charts, published, readme: None }
            }
        }
    }
}

/// Returns what leads from a page to a file or folder: relative if that lies beside the page or below, else as
/// it is.
fn relative(page: &Path, to: &Path) -> String {
    let from = page.parent().unwrap_or(Path::new(""));
    match to.strip_prefix(from) {
        Ok(rest) if rest.as_os_str().is_empty() => ".".into(),
        Ok(rest) => rest.display().to_string(),
        Err(_) => to.display().to_string(),
    }
}

#[cfg(test)]
mod tests;
