//! A point of the sweep over task counts.

use bristlecone::Format;

use super::{
    concurrent,
    parallel::{self, Tasks},
};
use crate::{
    check::Expected,
    engine::Engine,
    error::Result,
    job::{Job, Sweep},
    measure::Run,
    workload::Workload,
};

pub(super) fn run<F: Format>(
    engine: &mut Engine<F>,
    job: &Job,
    workload: &Workload,
    kind: Sweep,
) -> Result<(Run, Expected)> {
    let mut each = job.clone();
    let tasks = Tasks { threads: job.sizes.domains, count: job.sizes.tasks };
    each.sizes.ncommits = job.sizes.ncommits.div_ceil(tasks.count);
    each.sizes.nreads = job.sizes.nreads.div_ceil(tasks.count);
    match kind {
        // It divides by the number of tasks itself.
        Sweep::Concurrent => concurrent::run(engine, job, workload, true, false, tasks.threads),
        Sweep::Commits => parallel::commits(engine, &each, workload, tasks),
        Sweep::Incremental => parallel::incremental(engine, &each, workload, tasks),
        Sweep::Reads => parallel::reads(engine, &each, workload, tasks),
    }
}
