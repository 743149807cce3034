//! `prepare`: commits edited, encoded and hashed on separate branches, but not appended. What it shows is how
//! far preparing scales with threads.

use bristlecone::Format;

use super::{
    base::{base_values, branch_names, commit_base},
    commits::CommitValues,
    incremental::Changes,
};
use crate::{
    check::Expected,
    engine::Engine,
    error::Result,
    job::Job,
    measure::{Run, together},
    workload::{Workload, info},
};

/// Commits prepared, as a multiple of `ncommits`.
const WHOLE: usize = 2;
const ONE_ENTRY: usize = 100;

pub(super) fn run<F: Format>(
    engine: &mut Engine<F>,
    job: &Job,
    workload: &Workload,
    whole: bool,
    threads: usize,
) -> Result<(Run, Expected)> {
    let names = branch_names(threads);
    commit_base(engine, job, workload, &names)?;
    engine.reopen()?;
    let commits = (job.sizes.ncommits * if whole { WHOLE } else { ONE_ENTRY }).div_ceil(threads);
    // As many different values as the scenarios have; they repeat, the work does not get less.
    let numbers = commits.min(job.sizes.ncommits);
    let values = CommitValues::new(workload, if whole { numbers } else { 0 });
    let changes = Changes::new(workload, if whole { 0 } else { numbers });
    let info = info(job, 1);
    let repo = engine.repo();
    let (seconds, prepared) = together(threads, |thread| {
        let branch = repo.branch(&names[thread])?;
        let mut last = None;
        for i in 0..commits {
            let mut tree = branch.tree()?;
            match whole {
                true => values.add_all(&mut tree, workload, i % numbers)?,
                false => changes.apply(&mut tree, workload, i % numbers)?,
            }
            last = Some(branch.prepare(&tree, &info)?);
        }
        Ok(last)
    })?;
    // The last of each is appended after all, so that it can be checked.
    for submitted in repo.submit(prepared.into_iter().flatten().collect()) {
        submitted?;
    }
    let last = (commits - 1) % numbers;
    let (per_commit, values) = if whole {
        (workload.paths.len(), vec![last; workload.paths.len()])
    } else {
        let mut values = base_values(workload);
        let entry = changes.at(last).0;
        values[entry] = crate::workload::changed_value(last, workload.paths.len());
        (1, values)
    };
    let (ops, stats) = ((commits * threads * per_commit) as u64, engine.stats());
    let (store_bytes, file_bytes) = (stats.store_bytes, stats.file_bytes);
    let run = Run { ops, seconds, threads: threads as u64, store_bytes, file_bytes, ..Run::default() };
    Ok((run, Expected::Branches { names, values, commits: 2 }))
}
