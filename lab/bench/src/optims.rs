//! Each optimisation by itself: the same scenarios with everything off, with one thing on, with all on.

use crate::job::{Job, Switches, Target, Way, Work};

/// Returns the jobs of the table of optimisations, made from `like` at 20 B.
pub(crate) fn jobs(like: &Job) -> Vec<Job> {
    let mut jobs = Vec::new();
    for target in [Target::Memory, Target::DiskNone] {
        for (label, switches) in steps() {
            for work in works() {
                let job =
                    Job { work, target, switches, value_bytes: 20, label: Some(label.to_owned()), ..like.clone() };
                jobs.push(job);
            }
        }
        // The dirty check cannot be switched off; its effect shows where every entry is set again to what it
        // is and one is changed.
        let work = Work::Incremental { long: false, touch_all: true };
        let label = Some("all-touched".to_owned());
        jobs.push(Job { work, target, switches: Switches::default(), value_bytes: 20, label, ..like.clone() });
    }
    jobs
}

/// Whether a row's switches are those of a step of this table.
pub(crate) fn is_step(variant: &str) -> bool {
    variant == "all-touched" || steps().iter().any(|(label, _)| *label == variant)
}

/// Returns the scenarios that the steps are tried on.
const fn works() -> [Work; 3] {
    [
        Work::Commits,
        Work::Reads { way: Way::Walk, threads: 1, long: false },
        Work::Incremental { long: false, touch_all: false },
    ]
}

const CACHE_BYTES: u64 = 64 << 20;

pub(crate) fn steps() -> [(&'static str, Switches); 7] {
    let none = Switches { inline: false, split: false, maps: false, direct: false, cache_bytes: Some(0) };
    [
        ("baseline", none),
        ("+inline", Switches { inline: true, ..none }),
        ("+inode", Switches { split: true, ..none }),
        ("+cache", Switches { cache_bytes: Some(CACHE_BYTES), ..none }),
        ("+direct", Switches { direct: true, ..none }),
        ("+maps", Switches { maps: true, ..none }),
        ("+all", Switches::default()),
    ]
}
