//! `commits`, `large-values` and `commits-10K-distinct`: whole directories committed again and again.

use bristlecone::{Branch, Format, Info, NewValue, Repo, Tree, Value};

use crate::{
    check::Expected,
    engine::Engine,
    error::Result,
    job::Job,
    measure::{Laps, Run, Written, commit_threads},
    workload::{MAIN, RisingValues, Workload, infos},
};

/// Values of up to so many bytes are given as bytes; longer ones as one shared value for each commit.
const PLAIN_BYTES_MAX: usize = 48;

/// Every entry of a commit has the same value.
pub(super) fn shared<F: Format>(engine: &mut Engine<F>, job: &Job, workload: &Workload) -> Result<(Run, Expected)> {
    let commits = job.sizes.ncommits;
    let values = CommitValues::new(workload, commits);
    let repo = engine.repo();
    let last = commits.saturating_sub(1);
    let run = timed(engine, job, workload, &repo, |tree, i| values.add_all(tree, workload, i))?;
    let expected = Expected::Branches { names: vec![MAIN.into()], values: vec![last; workload.paths.len()], commits };
    Ok((run, expected))
}

/// Every value differs from every other.
pub(super) fn distinct<F: Format>(engine: &mut Engine<F>, job: &Job, workload: &Workload) -> Result<(Run, Expected)> {
    let (commits, entries) = (job.sizes.ncommits, workload.paths.len());
    let mut values = RisingValues::new(job.value_bytes);
    let repo = engine.repo();
    let run = timed(engine, job, workload, &repo, |tree, i| {
        for (n, path) in workload.paths.iter().enumerate() {
            tree.set(path, values.get(i * entries + n))?;
        }
        Ok(())
    })?;
    let first = commits.saturating_sub(1) * entries;
    let expected = Expected::Branches { names: vec![MAIN.into()], values: (first..first + entries).collect(), commits };
    Ok((run, expected))
}

/// The values of each commit, made beforehand.
pub(super) struct CommitValues {
    plain: Vec<Vec<u8>>,
    shared: Vec<Value>,
}

impl CommitValues {
    pub(super) fn new(workload: &Workload, commits: usize) -> Self {
        let values = (0..commits).map(|i| workload.value(i));
        if workload.value_bytes <= PLAIN_BYTES_MAX {
            Self { plain: values.collect(), shared: Vec::new() }
        } else {
            Self { plain: Vec::new(), shared: values.map(Value::new).collect() }
        }
    }

    /// Adds every entry with the value of commit `i`.
    #[inline]
    pub(super) fn add_all<F: Format>(&self, tree: &mut Tree<F>, workload: &Workload, i: usize) -> Result<()> {
        match self.plain.get(i) {
            Some(value) => add_all(tree, workload, || NewValue::Bytes(value)),
            None => add_all(tree, workload, || NewValue::Value(self.shared[i].clone())),
        }
    }
}

#[inline]
fn add_all<'v, F: Format>(tree: &mut Tree<F>, workload: &Workload, value: impl Fn() -> NewValue<'v>) -> Result<()> {
    for path in &workload.paths {
        tree.set(path, value())?;
    }
    Ok(())
}

/// Checks out, edits and commits `ncommits` times.
fn timed<F: Format>(
    engine: &Engine<F>,
    job: &Job,
    workload: &Workload,
    repo: &Repo<F>,
    mut edit: impl FnMut(&mut Tree<F>, usize) -> Result<()>,
) -> Result<Run> {
    let commits = job.sizes.ncommits;
    let infos = infos(job, commits);
    let branch = repo.branch(MAIN)?;
    let written = Written::since_now(engine);
    let mut laps = Laps::start(commits);
    for (i, info) in infos.iter().enumerate() {
        commit_one(&branch, info, |tree| edit(tree, i))?;
        laps.lap();
    }
    let (seconds, latencies) = laps.finish();
    let entries = workload.paths.len();
    let threads = commit_threads(entries as u64, entries as u64);
    let mut run = Run { ops: (commits * entries) as u64, seconds, threads, ..Run::default() };
    written.note(engine, &mut run);
    run.set_latencies(latencies);
    Ok(run)
}

#[inline]
pub(super) fn commit_one<F: Format>(
    branch: &Branch<F>,
    info: &Info,
    edit: impl FnOnce(&mut Tree<F>) -> Result<()>,
) -> Result<()> {
    let mut tree = branch.tree()?;
    edit(&mut tree)?;
    branch.commit(&mut tree, info)?;
    Ok(())
}
