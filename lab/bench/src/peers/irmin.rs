//! Irmin, by the program `bristlecone-irmin` of `lab/peers/irmin`. Each run of a scenario or of a replay is a process
//! of its own, which checks what it did and prints a row.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use super::program;
use crate::{
    BenchError,
    error::Result,
    job::{Job, Target, Way, Work},
    replay::ReplayJob,
    report::Row,
    rss::Sampler,
};

/// The program's name in the folders of `PATH`.
const PROGRAM: &str = "bristlecone-irmin";
/// Where a build leaves it, seen from the root of the repository.
const BUILT: &str = "lab/peers/irmin/_build/install/default/bin/bristlecone-irmin";
/// What to do where there is no such program.
pub(crate) const MISSING: &str = "there is no program `bristlecone-irmin`. Where opam has installed Irmin, `dune build --root lab/peers/irmin` \
                                  makes it; lab/peers/irmin/README.md says what it needs, and `--irmin FILE` names one that is elsewhere";

/// A store of Irmin, and the store of ours beside which it is measured.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct IrminStore {
    /// What its rows are called.
    pub(crate) name: &'static str,
    pub(crate) beside: Target,
    /// Whether irmin-pack indexes commits alone, and not every object.
    pub(crate) minimal_index: bool,
    options: &'static [&'static str],
}

/// Every store that is measured.
pub(crate) const STORES: [IrminStore; 5] = [
    store("irmin memory", Target::Memory, false, &["--backend", "memory"]),
    store("irmin pack none", Target::DiskNone, false, &["--backend", "pack"]),
    store("irmin pack none minimal-index", Target::DiskNone, true, &["--backend", "pack", "--index", "minimal"]),
    store("irmin pack synced", Target::DiskSynced, false, &["--backend", "pack", "--durability", "synced"]),
    store(
        "irmin pack synced minimal-index",
        Target::DiskSynced,
        true,
        &["--backend", "pack", "--durability", "synced", "--index", "minimal"],
    ),
];

const fn store(
    name: &'static str,
    beside: Target,
    minimal_index: bool,
    options: &'static [&'static str],
) -> IrminStore {
    IrminStore { name, beside, minimal_index, options }
}

/// The program that does runs on Irmin.
#[derive(Clone, Debug)]
pub(crate) struct Irmin {
    program: PathBuf,
    /// What comes before the arguments of a run.
    arguments: Vec<String>,
}

impl Irmin {
    /// Returns the program that is named, or else the one that was built in the repository, or the one on `PATH`.
    ///
    /// # Errors
    /// [`BenchError::Usage`] if there is no file of the name.
    pub(crate) fn find(named: Option<&Path>) -> Result<Option<Self>> {
        let built = || Some(PathBuf::from(BUILT)).filter(|file| file.is_file());
        let program = match named {
            Some(file) if file.is_file() => Some(file.to_owned()),
            Some(file) => return Err(BenchError::usage(format!("{}: {MISSING}", file.display()))),
            None => built().or_else(|| program::find(PROGRAM)),
        };
        // A relative name without a folder would be looked for on `PATH`.
        Ok(program.map(|file| Self { program: std::path::absolute(&file).unwrap_or(file), arguments: vec![] }))
    }

    /// Returns the file of the program.
    pub(crate) fn file(&self) -> &Path {
        &self.program
    }

    /// Does one run of a job of the tree suite.
    ///
    /// # Errors
    /// [`BenchError::Peer`] if the program fails or prints another row than that of this job.
    pub(crate) fn run(&self, store: &IrminStore, job: &Job) -> Result<Row> {
        let scenario = job.scenario();
        let Some((command, long)) = command(job.work) else {
            return Err(failed(format!("{scenario} has no counterpart on Irmin")));
        };
        let mut arguments = vec![command.to_owned()];
        for (option, count) in [
            ("--value-size", job.value_bytes),
            ("--ncommits", job.sizes.ncommits),
            ("--tree-add", job.sizes.tree_add),
            ("--depth", job.sizes.depth),
            ("--nreads", job.sizes.nreads),
        ] {
            arguments.extend([option.to_owned(), count.to_string()]);
        }
        arguments.extend(long.then(|| "--long".to_owned()));
        let row = self.row(store, &job.dir, arguments)?;
        if row.scenario != scenario {
            return Err(failed(format!("it printed a row of {:?} in place of {scenario:?}", row.scenario)));
        }
        Ok(row)
    }

    /// Replays a trace once.
    ///
    /// # Errors
    /// As [`run`](Self::run); an answer or a hash that is wrong is a failure, too.
    pub(crate) fn replay(&self, store: &IrminStore, job: &ReplayJob) -> Result<Row> {
        let mut arguments = vec!["replay".to_owned(), job.trace.display().to_string()];
        arguments.extend(["--commits".to_owned(), job.commits.unwrap_or(0).to_string()]);
        arguments.extend(job.empty_blobs.then(|| "--empty-blobs".to_owned()));
        let row = self.row(store, &job.dir, arguments)?;
        if row.replay.is_none() {
            return Err(failed("it printed a row of a replay without the key \"replay\"".into()));
        }
        Ok(Row { scenario: job.scenario(row.commits), ..row })
    }

    /// Runs the program and returns its row, with the memory that it took.
    fn row(&self, store: &IrminStore, dir: &Path, arguments: Vec<String>) -> Result<Row> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).args(arguments).args(store.options).arg("--dir").arg(dir);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(|error| failed(format!("{}: {error}", self.program.display())))?;
        let sampler = Sampler::others(vec![child.id()]);
        let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
        let peak = sampler.finish_sampled();
        let mut row = parse(&output)?;
        if row.name != store.name {
            return Err(failed(format!("it printed a row of {:?} in place of {:?}", row.name, store.name)));
        }
        (row.rss_anon_kb, row.rss_file_kb) = (peak.anon_kb, peak.file_kb);
        row.maxrss_kb = row.maxrss_kb.max(peak.max_kb);
        Ok(row)
    }
}

/// Returns the program's word for a scenario, and whether it is the long form; `None` for what Irmin is not measured for.
fn command(work: Work) -> Option<(&'static str, bool)> {
    match work {
        Work::Commits => Some(("commits", false)),
        Work::Incremental { long, touch_all: false } => Some(("incremental", long)),
        Work::Reads { way: Way::InOrder, threads: 1, long: false } => Some(("reads", false)),
        Work::Reads { way: Way::Walk, threads: 1, long } => Some(("reads-random", long)),
        _ => None,
    }
}

/// Returns the row that the program printed. It ends with code 1 after a row that is wrong, too.
fn parse(output: &Output) -> Result<Row> {
    let printed = String::from_utf8_lossy(&output.stdout);
    let row = printed.lines().last().map(serde_json::from_str::<Row>);
    let mut row = match row {
        Some(Ok(row)) if output.status.success() || row.wrong.is_some() => row,
        Some(Err(error)) if output.status.success() => return Err(failed(format!("its row cannot be read: {error}"))),
        _ => {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(failed(format!("{}: {}", output.status, said.trim())));
        }
    };
    if row.total_ops == 0 || !(row.total_time > 0.0 && row.total_time.is_finite()) {
        return Err(failed("its row has no operations or took no time".into()));
    }
    row.ops_per_sec = row.total_ops as f64 / row.total_time;
    if !row.checked {
        row.wrong.get_or_insert_with(|| "the program has not checked it".into());
    }
    row.checked = row.wrong.is_none();
    Ok(row)
}

fn failed(reason: String) -> BenchError {
    BenchError::Peer { peer: "Irmin", reason }
}

#[cfg(test)]
pub(crate) mod tests;
