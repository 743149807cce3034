//! `group-commit`: one-entry commits on 100 branches that share writes and syncs.

use std::{
    mem,
    sync::{Barrier, Mutex},
    time::Instant,
};

use bristlecone::{Branch, ObjRef};

use super::{branch_names, commit_base, commits::commit_one, incremental::Changes, parallel::prepare_all};
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

/// One preparer for each core. In every round each prepares a commit on all of its branches, and the last
/// to be done submits all 100 together: one write, one sync.
pub(super) fn pipeline(engine: &mut Engine, job: &Job, workload: &Workload) -> Result<(Run, Expected)> {
    let names = branch_names(BRANCHES);
    commit_base(engine, job, workload, &names)?;
    engine.reopen()?;
    let rounds = job.sizes.ncommits;
    let changes = Changes::new(workload, rounds);
    let infos = infos(job, rounds);
    let repo = engine.repo();
    let branches: Result<Vec<Branch>> = names.iter().map(|name| Ok(repo.branch(name)?)).collect();
    let branches = branches?;
    let threads = cores().min(BRANCHES);
    let gathered = Mutex::new(Vec::with_capacity(BRANCHES));
    let (prepared_all, acknowledged) = (Barrier::new(threads), Barrier::new(threads));
    let written = Written::since_now(engine);
    let (seconds, latencies) = together(threads, |thread| {
        let own = &branches[thread * BRANCHES / threads..(thread + 1) * BRANCHES / threads];
        let mut latencies = Vec::with_capacity(rounds * own.len());
        let mut outcome = Ok(());
        for (i, info) in infos.iter().enumerate() {
            let started = Instant::now();
            // A failure must not keep the others waiting: everybody goes through every barrier.
            match prepare_all(own, info, |tree| changes.apply(tree, workload, i)) {
                Ok(prepared) => gathered.lock().expect("no worker panics").extend(prepared),
                Err(error) => outcome = outcome.and(Err(error)),
            }
            if prepared_all.wait().is_leader() {
                let all = mem::take(&mut *gathered.lock().expect("no worker panics"));
                let submitted: bristlecone::Result<Vec<ObjRef>> =
                    repo.submit(all, info.durability).into_iter().collect();
                outcome = outcome.and(submitted.map(|_| ()).map_err(Into::into));
            }
            acknowledged.wait();
            let elapsed = started.elapsed().as_nanos() as u64;
            latencies.extend(own.iter().map(|_| elapsed));
        }
        outcome.map(|()| latencies)
    })?;
    let mut run = Run { ops: (rounds * BRANCHES) as u64, seconds, threads: threads as u64, ..Run::default() };
    written.note(engine, &mut run);
    run.set_latencies(latencies.into_iter().flatten().collect());
    Ok((run, changes.expected(names, workload)))
}

/// A thread for each branch, which commits and waits: what the pipeline is compared with.
pub(super) fn thread_per_writer(engine: &mut Engine, job: &Job, workload: &Workload) -> Result<(Run, Expected)> {
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
