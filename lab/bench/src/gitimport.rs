//! `cone bench git-import`: how fast a whole Git history comes into a store, beside what git takes for the same.
//!
//! **The idea.** One repository is brought into stores on disk, of Git's format and of the native one, by
//! [`history`](bristlecone_git::history), as `cone import --git` does it; and into fresh repositories by `git
//! fast-export | git fast-import` and by `git clone`. Each time it is a process of its own, in turns, so that memory is
//! that of the import alone and a drift of the machine meets all alike. What came in is compared with what was there.
//!
//! `docs/bench.md`, section 10, says what the figures mean.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use clap::Args;

use crate::{
    BenchError,
    error::Result,
    job::Target,
    machine::Machine,
    measure::{Run, folder_bytes},
    options::positive,
    peers::{self, program},
    report::{self, ImportFigures, Row, json, table},
    scratch::{self, Scratch},
};

mod job;
mod ours;
mod source;
mod theirs;

use job::{By, ImportJob};
use source::Repository;

/// Imports a whole Git history again and again, and has git do the same.
#[derive(Args, Clone, Debug)]
pub struct GitImportArgs {
    /// The repository: its folder, with a working tree or bare
    #[arg(value_name = "PATH", required_unless_present = "child")]
    pub path: Option<PathBuf>,
    /// Where stores are made and removed again; a real disk
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Runs of each, in turns, of which the median counts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = positive)]
    pub runs: usize,
    /// What our rows are called, before the format
    #[arg(long, value_name = "NAME", default_value = "bristlecone")]
    pub name: String,
    /// Merge the rows into this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Do our imports in this process: for profilers. Memory is then that of all together
    #[arg(long)]
    pub in_process: bool,
    /// Do one import: what the processes are started with
    #[arg(long, hide = true, value_name = "JOB")]
    child: Option<String>,
}

/// Does what the options ask for. The table, or with `json` the rows, go to standard output.
///
/// # Errors
/// [`BenchError::Usage`] for a path that is no repository, and where git is not installed;
/// [`BenchError::Wrong`] after everything was reported, if what came in is not what was there.
pub(crate) fn run(args: &GitImportArgs, json: bool) -> Result<()> {
    if let Some(job) = &args.child {
        return child(job);
    }
    let path = args.path.as_deref().ok_or_else(|| BenchError::usage("which repository? git-import needs its path"))?;
    if program::find("git").is_none() {
        return Err(BenchError::usage("git is not installed: there is nobody to compare with and to count objects"));
    }
    if let Some(file) = &args.json {
        json::read(file)?;
    }
    let rows = measure(args, path)?;
    report::show_checked(&rows, json)
}

fn measure(args: &GitImportArgs, path: &Path) -> Result<Vec<Row>> {
    let source = Repository::read(path)?;
    let scratch = Scratch::new(args.dir.as_deref())?;
    let machine = Machine::here(&scratch.dir);
    let mut results = By::ALL.map(|by| Results { by, runs: vec![], refs_same: 0 });
    for round in 0..args.runs {
        for results in &mut results {
            say_part!("[{}/{}] {} … ", round + 1, args.runs, results.by.row_name(&args.name));
            let dest = scratch.dir.join("import");
            results.once(args, &source, &dest, round == 0);
            fs::remove_dir_all(&dest).or_else(|error| match error.kind() {
                std::io::ErrorKind::NotFound => Ok(()),
                _ => Err(BenchError::io(&dest)(error)),
            })?;
        }
        // What is measured stays, whatever happens in the next round.
        if let Some(file) = &args.json {
            json::merge(file, &rows(args, &source, &results, &machine))?;
        }
    }
    Ok(rows(args, &source, &results, &machine))
}

/// The runs of one way to import.
struct Results {
    by: By,
    runs: Vec<Run>,
    refs_same: u64,
}

impl Results {
    /// Imports once, and in the first round compares what came in. A way of git's that fails in the first round is named and not
    /// tried again; what fails else is wrong in the row.
    fn once(&mut self, args: &GitImportArgs, source: &Repository, dest: &Path, first: bool) {
        if !first && self.runs.is_empty() {
            say!("left out");
            return;
        }
        match self.import(args, source, dest).and_then(|mut run| {
            if first {
                self.compare(source, dest, &mut run)?;
            }
            Ok(run)
        }) {
            Ok(run) => {
                say!("{}", table::time(run.seconds * 1e6));
                self.runs.push(run);
            }
            Err(error) => {
                let reason = bristlecone::report(&error);
                say!("failed: {reason}");
                if self.by.is_ours() || !first {
                    self.runs.push(Run { wrong: Some(reason), ..Run::default() });
                }
            }
        }
    }

    fn import(&self, args: &GitImportArgs, source: &Repository, dest: &Path) -> Result<Run> {
        let mut run = match self.by {
            By::FastImport => theirs::fast_import(source, dest)?,
            By::Clone => theirs::clone(source, dest)?,
            by => {
                let job = ImportJob { by, source: source.path.clone(), dest: dest.to_owned() };
                if args.in_process { ours::import(&job)? } else { in_process_of_its_own(&job)? }
            }
        };
        // How many threads work is not known: each takes as many as it likes.
        run.ops = source.objects;
        run.file_bytes = folder_bytes(dest);
        Ok(run)
    }

    /// Compares the refs of what came in with those that were there.
    fn compare(&mut self, source: &Repository, dest: &Path, run: &mut Run) -> Result<()> {
        let refs = if self.by.is_ours() {
            let exported = dest.with_extension("exported");
            let refs = ours::export(dest, source.algorithm, &exported).and_then(|()| {
                // A repository that git accepts, and not refs alone.
                let sound = program::said_by_git(&exported, &["fsck", "--connectivity-only", "--no-dangling"]);
                run.wrong = run.wrong.take().or_else(|| Some(format!("after an export: {}", sound.err()?)));
                source::refs(&exported)
            });
            let _ = fs::remove_dir_all(&exported);
            refs?
        } else {
            source::refs(dest)?
        };
        let differs = source.refs.iter().find(|(name, oid)| refs.get(*name) != Some(oid));
        self.refs_same = source.refs.iter().filter(|(name, oid)| refs.get(*name) == Some(oid)).count() as u64;
        // What fast-export drops, such as signatures of commits, is no fault of this run.
        if let Some((name, oid)) = differs.filter(|_| self.by != By::FastImport) {
            let found = refs.get(name).map_or("nothing", |oid| &oid[..]);
            run.wrong.get_or_insert_with(|| format!("{name} is {found}, not {oid}"));
        }
        Ok(())
    }

    /// Returns how many times as fast this way is as another one in the same round: the median of the rounds. There is no ratio
    /// to or of what is wrong.
    fn times(&self, other: &Self) -> Option<f64> {
        let is_right = |run: &Run| run.wrong.is_none() && run.seconds > 0.0;
        if !self.runs.iter().chain(&other.runs).all(is_right) {
            return None;
        }
        let rounds = self.runs.iter().zip(&other.runs);
        report::middle(rounds.map(|(run, other)| other.seconds / run.seconds).collect())
    }
}

fn rows(args: &GitImportArgs, source: &Repository, all: &[Results], machine: &Machine) -> Vec<Row> {
    let row = |results: &Results| {
        let run = report::median(&results.runs)?;
        let mut row = Row::of_runs(run, &results.runs, machine);
        let times = |by: By| {
            let other = all.iter().find(|other| results.by.is_ours() && other.by == by);
            other.and_then(|other| results.times(other))
        };
        row.name = results.by.row_name(&args.name);
        row.scenario = format!("git-import-{}", source.name);
        row.backend = if results.by.is_ours() { "disk".into() } else { row.name.clone() };
        row.version = (!results.by.is_ours()).then(|| peers::git::version(Target::FastImport)).flatten();
        row.checked = row.wrong.is_none() && results.refs_same == source.refs.len() as u64;
        row.import = Some(Box::new(ImportFigures {
            objects: source.objects,
            commits: source.commits,
            refs: source.refs.len() as u64,
            refs_same: results.refs_same,
            pack_bytes: source.bytes,
            times_fast_import: times(By::FastImport),
            times_clone: times(By::Clone),
        }));
        Some(row)
    };
    all.iter().filter_map(row).collect()
}

/// Does an import of ours in a process of its own.
fn in_process_of_its_own(job: &ImportJob) -> Result<Run> {
    let failed = |reason: String| BenchError::Child { scenario: "git-import".into(), reason };
    let program = env::current_exe().map_err(|error| failed(error.to_string()))?;
    let text = serde_json::to_string(job).map_err(|error| failed(error.to_string()))?;
    let output = Command::new(&program)
        .args(["bench", "git-import", "--child", &text])
        .stdin(Stdio::null())
        .output()
        .map_err(BenchError::io(&program))?;
    if !output.status.success() {
        return Err(failed(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim())));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))
}

fn child(job: &str) -> Result<()> {
    scratch::end_with_parent();
    let job: ImportJob = serde_json::from_str(job).map_err(|error| BenchError::usage(format!("--child: {error}")))?;
    let run = ours::import(&job)?;
    println!("{}", serde_json::to_string(&run).map_err(|error| BenchError::usage(error.to_string()))?);
    Ok(())
}

#[cfg(test)]
mod tests;
