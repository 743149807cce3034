//! The parallel forms: many tasks, each with a branch of its own, spread over a few threads.
//!
//! A thread takes its branches in turn, one commit each. Synced commits of one turn are submitted together
//! and share a sync, as fibers that wait for the same flush do.

use std::ops::Range;

use bristlecone::{Branch, Durability, Format, Info, Prepared, Repo, Tree};

use super::{
    base::{base_values, branch_names, commit_base},
    commits::{CommitValues, commit_one},
    incremental::Changes,
    reads,
};
use crate::{
    check::Expected,
    engine::Engine,
    error::Result,
    job::{Job, Way},
    measure::{Run, Written, together},
    workload::{MAIN, Workload, infos, lookups},
};

/// Prepared commits of so many branches are submitted together at most: they are all in memory until then.
const TURN_MAX: usize = 1000;

/// How many tasks there are, and how many threads share them.
#[derive(Clone, Copy)]
pub(super) struct Tasks {
    pub(super) threads: usize,
    pub(super) count: usize,
}

impl Tasks {
    /// Returns `domains` threads with `fibers` tasks each.
    pub(super) const fn of(job: &Job) -> Self {
        Self { threads: job.sizes.domains, count: job.sizes.domains * job.sizes.fibers }
    }

    /// Returns the tasks of a thread.
    fn of_thread(self, thread: usize) -> Range<usize> {
        self.count * thread / self.threads..self.count * (thread + 1) / self.threads
    }
}

/// `commits`, each task on its own branch.
pub(super) fn commits<F: Format>(
    engine: &mut Engine<F>,
    job: &Job,
    workload: &Workload,
    tasks: Tasks,
) -> Result<(Run, Expected)> {
    let commits = job.sizes.ncommits;
    let values = CommitValues::new(workload, commits);
    let names = branch_names(tasks.count);
    let mut run = timed(engine, job, tasks, &names, |tree, i| values.add_all(tree, workload, i))?;
    run.ops *= workload.paths.len() as u64;
    let values = vec![commits.saturating_sub(1); workload.paths.len()];
    Ok((run, Expected::Branches { names, values, commits }))
}

/// `incremental`, each task on its own branch.
pub(super) fn incremental<F: Format>(
    engine: &mut Engine<F>,
    job: &Job,
    workload: &Workload,
    tasks: Tasks,
) -> Result<(Run, Expected)> {
    let names = branch_names(tasks.count);
    commit_base(engine, job, workload, &names)?;
    engine.reopen()?;
    let changes = Changes::new(workload, job.sizes.ncommits);
    let run = timed(engine, job, tasks, &names, |tree, i| changes.apply(tree, workload, i))?;
    Ok((run, changes.expected(names, workload)))
}

/// `reads`, each task with a checkout of its own.
pub(super) fn reads<F: Format>(
    engine: &mut Engine<F>,
    job: &Job,
    workload: &Workload,
    tasks: Tasks,
) -> Result<(Run, Expected)> {
    commit_base(engine, job, workload, &[MAIN.into()])?;
    engine.reopen()?;
    let lookups = lookups(&job.sizes, job.sizes.nreads, false, 0);
    let repo = engine.repo();
    let branch = repo.branch(MAIN)?;
    let (seconds, sums) = together(tasks.threads, |thread| {
        let mut sums = Vec::with_capacity(tasks.of_thread(thread).len());
        for _ in tasks.of_thread(thread) {
            sums.push(reads::look_up(&branch.tree()?, workload, Way::InOrder, &lookups)?);
        }
        Ok(sums)
    })?;
    let count = lookups.len() * tasks.count;
    let wanted = workload.sum_of(&lookups);
    let right = sums.iter().flatten().all(|sum| *sum == wanted);
    let stats = engine.stats();
    let run = Run {
        ops: count as u64,
        seconds,
        threads: tasks.threads as u64,
        store_bytes: stats.store_bytes,
        file_bytes: stats.file_bytes,
        wrong: (!right).then(|| "lookups found other values than were set".into()),
        ..Run::default()
    };
    Ok((run, Expected::Branches { names: vec![MAIN.into()], values: base_values(workload), commits: 1 }))
}

/// Commits `ncommits` times on every branch; an operation is a commit.
fn timed<F: Format>(
    engine: &Engine<F>,
    job: &Job,
    tasks: Tasks,
    names: &[String],
    edit: impl Fn(&mut Tree<F>, usize) -> Result<()> + Sync,
) -> Result<Run> {
    let commits = job.sizes.ncommits;
    let infos = infos(job, commits);
    let repo = engine.repo();
    let branches: Result<Vec<Branch<F>>> = names.iter().map(|name| Ok(repo.branch(name)?)).collect();
    let branches = branches?;
    let together_synced = tasks.count > tasks.threads && job.target.durability() == Durability::Synced;
    let written = Written::since_now(engine);
    let (seconds, latencies) = together(tasks.threads, |thread| {
        let own = &branches[tasks.of_thread(thread)];
        let mut latencies = Vec::with_capacity(commits * own.len());
        for (i, info) in infos.iter().enumerate() {
            if together_synced {
                for own in own.chunks(TURN_MAX) {
                    turn(&repo, own, info, |tree| edit(tree, i), &mut latencies)?;
                }
                continue;
            }
            for branch in own {
                let started = std::time::Instant::now();
                commit_one(branch, info, |tree| edit(tree, i))?;
                latencies.push(started.elapsed().as_nanos() as u64);
            }
        }
        Ok(latencies)
    })?;
    let ops = (commits * tasks.count) as u64;
    let mut run = Run { ops, seconds, threads: tasks.threads as u64, ..Run::default() };
    written.note(engine, &mut run);
    run.set_latencies(latencies.into_iter().flatten().collect());
    Ok(run)
}

/// Prepares one commit on every branch and submits them together.
fn turn<F: Format>(
    repo: &Repo<F>,
    branches: &[Branch<F>],
    info: &Info,
    edit: impl Fn(&mut Tree<F>) -> Result<()>,
    latencies: &mut Vec<u64>,
) -> Result<()> {
    let started = std::time::Instant::now();
    let prepared = prepare_all(branches, info, edit)?;
    for submitted in repo.submit(prepared) {
        submitted?;
    }
    let elapsed = started.elapsed().as_nanos() as u64;
    latencies.extend(branches.iter().map(|_| elapsed));
    Ok(())
}

/// Checks every branch out, edits it and prepares its commit.
pub(super) fn prepare_all<F: Format>(
    branches: &[Branch<F>],
    info: &Info,
    edit: impl Fn(&mut Tree<F>) -> Result<()>,
) -> Result<Vec<Prepared<F>>> {
    let mut prepared = Vec::with_capacity(branches.len());
    for branch in branches {
        let mut tree = branch.tree()?;
        edit(&mut tree)?;
        prepared.push(branch.prepare(&tree, info)?);
    }
    Ok(prepared)
}
