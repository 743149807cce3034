//! `group-commit`: one-entry commits on 100 branches that share writes and syncs.

use std::time::Instant;

use bristlecone::{Branch, Format};

use super::{
    base::{branch_names, commit_base},
    commits::commit_one,
    incremental::Changes,
    parallel::prepare_all,
};
use crate::{
    check::Expected,
    engine::Engine,
    error::Result,
    job::Job,
    measure::{Run, Written, cores, together},
    workload::{Workload, infos},
};

/// Branches that commit at a time.
const BRANCHES: usize = 100;

/// One preparer for each core. In every round each prepares a commit on all of its branches and submits them
/// together: one write and one sync for them. While one waits for its sync, the other prepares.
pub(super) fn pipeline<F: Format>(engine: &mut Engine<F>, job: &Job, workload: &Workload) -> Result<(Run, Expected)> {
    let names = branch_names(BRANCHES);
    commit_base(engine, job, workload, &names)?;
    engine.reopen()?;
    let rounds = job.sizes.ncommits;
    let changes = Changes::new(workload, rounds);
    let infos = infos(job, rounds);
    let repo = engine.repo();
    let branches: Result<Vec<Branch<F>>> = names.iter().map(|name| Ok(repo.branch(name)?)).collect();
    let branches = branches?;
    let threads = cores().min(BRANCHES);
    let written = Written::since_now(engine);
    let (seconds, latencies) = together(threads, |thread| {
        let own = &branches[thread * BRANCHES / threads..(thread + 1) * BRANCHES / threads];
        let mut latencies = Vec::with_capacity(rounds * own.len());
        for (i, info) in infos.iter().enumerate() {
            let started = Instant::now();
            let prepared = prepare_all(own, info, |tree| changes.apply(tree, workload, i))?;
            for acknowledged in repo.submit(prepared) {
                acknowledged?;
            }
            let elapsed = started.elapsed().as_nanos() as u64;
            latencies.extend(own.iter().map(|_| elapsed));
        }
        Ok(latencies)
    })?;
    let mut run = Run { ops: (rounds * BRANCHES) as u64, seconds, threads: threads as u64, ..Run::default() };
    written.note(engine, &mut run);
    run.set_latencies(latencies.into_iter().flatten().collect());
    Ok((run, changes.expected(names, workload)))
}

/// A thread for each branch, which commits and waits: what the pipeline is compared with.
pub(super) fn thread_per_writer<F: Format>(
    engine: &mut Engine<F>,
    job: &Job,
    workload: &Workload,
) -> Result<(Run, Expected)> {
    let names = branch_names(BRANCHES);
    commit_base(engine, job, workload, &names)?;
    engine.reopen()?;
    let rounds = job.sizes.ncommits;
    let changes = Changes::new(workload, rounds);
    let infos = infos(job, rounds);
    let repo = engine.repo();
    let written = Written::since_now(engine);
    let (seconds, latencies) = together(BRANCHES, |thread| {
        let branch = repo.branch(&names[thread])?;
        let mut latencies = Vec::with_capacity(rounds);
        for (i, info) in infos.iter().enumerate() {
            let started = Instant::now();
            commit_one(&branch, info, |tree| changes.apply(tree, workload, i))?;
            latencies.push(started.elapsed().as_nanos() as u64);
        }
        Ok(latencies)
    })?;
    let mut run = Run { ops: (rounds * BRANCHES) as u64, seconds, threads: BRANCHES as u64, ..Run::default() };
    written.note(engine, &mut run);
    run.set_latencies(latencies.into_iter().flatten().collect());
    Ok((run, changes.expected(names, workload)))
}
