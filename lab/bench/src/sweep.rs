//! The sweep over task counts: one amount of work, cut into more and more tasks.
//!
//! Tasks are spread over the threads; each has its own share of the operations, and of commits its own branch.
//! What changes along a line is only into how many pieces the work is cut, until there are more tasks than
//! operations: then every task does one.

use crate::job::{Job, Sizes, Sweep, Target, Work};

/// The counts that are tried unless others are asked for.
pub(crate) const COUNTS: [usize; 6] = [1, 10, 100, 1000, 10_000, 100_000];

/// Each point does so many times what a scenario of the suite does: long enough to time, short enough that
/// the whole sweep takes minutes.
const TIMES: usize = 100;
/// `concurrent` does less, as its operations are the shortest and each of its tasks that is synced waits alone.
const TIMES_CONCURRENT: usize = 10;
/// `concurrent` is not tried synced with more tasks.
const SYNCS_MAX: usize = 1000;
/// Directories of `commits` are so many times smaller, as every task has its own.
const NARROWER: usize = 100;

/// Returns the jobs: scenario by scenario, each count on each backend.
pub(crate) fn jobs(like: &Job, targets: &[Target], counts: &[usize], threads: usize, quick: bool) -> Vec<Job> {
    let mut jobs = Vec::new();
    for kind in Sweep::ALL {
        let work = Work::Sweep(kind);
        for &tasks in counts {
            let sizes = sizes(kind, &like.sizes, tasks, threads, quick);
            let tried = targets.iter().filter(|target| !target.is_synced() || says_more_synced(kind, tasks));
            jobs.extend(tried.map(|&target| Job { work, target, sizes, ..like.clone() }));
        }
    }
    jobs
}

/// Whether a point says anything that one without syncs and the limits do not.
fn says_more_synced(kind: Sweep, tasks: usize) -> bool {
    match kind {
        // Nothing is written.
        Sweep::Reads => false,
        // Each task waits for a sync of its own: more of them say only what a sync takes.
        Sweep::Concurrent => tasks <= SYNCS_MAX,
        Sweep::Commits | Sweep::Incremental => true,
    }
}

/// Returns how much a point does in all: at least one operation for each task.
fn sizes(kind: Sweep, usual: &Sizes, tasks: usize, threads: usize, quick: bool) -> Sizes {
    let times = |times: usize| if quick { times / 10 } else { times };
    let mut sizes = Sizes { tasks, domains: threads.clamp(1, tasks.max(1)), fibers: 1, ..*usual };
    match kind {
        Sweep::Concurrent => sizes.nreads *= times(TIMES_CONCURRENT),
        Sweep::Reads => sizes.nreads *= times(TIMES),
        Sweep::Incremental => sizes.ncommits *= times(TIMES),
        Sweep::Commits => {
            sizes.ncommits *= times(TIMES);
            sizes.tree_add = (sizes.tree_add / NARROWER).max(1);
        }
    }
    (sizes.nreads, sizes.ncommits) = (sizes.nreads.max(tasks), sizes.ncommits.max(tasks));
    sizes
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use clap::Parser;

    use super::*;
    use crate::cli::Common;

    #[derive(Parser)]
    struct Options {
        #[command(flatten)]
        common: Common,
    }

    fn like() -> Job {
        Options::parse_from(["bench"]).common.job(std::path::Path::new(""))
    }

    #[test]
    fn every_point_has_a_name_of_its_own_and_work_for_every_task() {
        let jobs = jobs(&like(), &Target::NATIVE, &COUNTS, 2, false);
        assert_eq!(jobs.len(), 3 * 3 * 6 - 2 + 2 * 6);
        let names: HashSet<(String, String)> = jobs.iter().map(|job| (job.row_name(), job.scenario())).collect();
        assert_eq!(names.len(), jobs.len());
        for job in &jobs {
            assert!(job.sizes.ncommits >= job.sizes.tasks && job.sizes.nreads >= job.sizes.tasks, "{job:?}");
            assert!(job.sizes.domains <= job.sizes.tasks, "{job:?}");
        }
        assert!(jobs.iter().any(|job| job.scenario() == "commits-20B-10000-tasks"));
    }
}
