//! `incremental`: one entry changed in a tree of many, committed again and again.

use bristlecone::{Format, Info, Tree};

use super::{
    base::{base_values, commit_base},
    commits::commit_one,
};
use crate::{
    check::Expected,
    engine::Engine,
    error::Result,
    job::Job,
    measure::{Laps, Run, Written},
    workload::{MAIN, Workload, changed_entry, changed_value, infos},
};

/// The long form does so many times the commits.
pub(super) const LONG: usize = 20;

pub(super) fn run<F: Format>(
    engine: &mut Engine<F>,
    job: &Job,
    workload: &Workload,
    long: bool,
    touch_all: bool,
) -> Result<(Run, Expected)> {
    let commits = job.sizes.ncommits * if long { LONG } else { 1 };
    commit_base(engine, job, workload, &[MAIN.into()])?;
    engine.reopen()?;
    let changes = Changes::new(workload, commits);
    let infos = infos(job, commits);
    let run = if touch_all {
        // What every entry holds before each commit, kept up to date by the commit itself.
        let mut held: Vec<Vec<u8>> = base_values(workload).into_iter().map(|n| workload.value(n)).collect();
        timed(engine, &infos, |tree, i| {
            for (path, value) in workload.paths.iter().zip(&held) {
                tree.set(path, value)?;
            }
            let (entry, value) = changes.at(i);
            held[entry].copy_from_slice(value);
            changes.apply(tree, workload, i)
        })?
    } else {
        timed(engine, &infos, |tree, i| changes.apply(tree, workload, i))?
    };
    Ok((run, changes.expected(vec![MAIN.into()], workload)))
}

fn timed<F: Format>(
    engine: &Engine<F>,
    infos: &[Info],
    mut edit: impl FnMut(&mut Tree<F>, usize) -> Result<()>,
) -> Result<Run> {
    let repo = engine.repo();
    let branch = repo.branch(MAIN)?;
    let written = Written::since_now(engine);
    let mut laps = Laps::start(infos.len());
    for (i, info) in infos.iter().enumerate() {
        commit_one(&branch, info, |tree| edit(tree, i))?;
        laps.lap();
    }
    let (seconds, latencies) = laps.finish();
    let mut run = Run { ops: infos.len() as u64, seconds, threads: 1, ..Run::default() };
    written.note(engine, &mut run);
    run.set_latencies(latencies);
    Ok(run)
}

/// The one change of each commit, made beforehand.
pub(super) struct Changes {
    values: Vec<Vec<u8>>,
    entries: usize,
}

impl Changes {
    pub(super) fn new(workload: &Workload, commits: usize) -> Self {
        let entries = workload.paths.len();
        Self { values: (0..commits).map(|i| workload.value(changed_value(i, entries))).collect(), entries }
    }

    /// Returns which entry commit `i` changes, and to what.
    #[inline]
    pub(super) fn at(&self, i: usize) -> (usize, &[u8]) {
        (changed_entry(i, self.entries), &self.values[i])
    }

    #[inline]
    pub(super) fn apply<F: Format>(&self, tree: &mut Tree<F>, workload: &Workload, i: usize) -> Result<()> {
        let (entry, value) = self.at(i);
        Ok(tree.set(&workload.paths[entry], value)?)
    }

    /// Returns what every branch holds once all changes are committed above the base.
    pub(super) fn expected(&self, names: Vec<String>, workload: &Workload) -> Expected {
        let mut values = base_values(workload);
        for i in 0..self.values.len() {
            values[changed_entry(i, self.entries)] = changed_value(i, self.entries);
        }
        Expected::Branches { names, values, commits: self.values.len() + 1 }
    }
}
