//! The plan of a run: which jobs, in which order.

use crate::{
    job::{Job, Sizes, Target, Way, Work},
    peers,
};

/// What is asked of the suite.
#[derive(Clone)]
pub(crate) struct Plan {
    /// What every job has in common.
    pub(crate) like: Job,
    /// The value sizes, in bytes.
    pub(crate) value_sizes: Vec<usize>,
    /// The backends.
    pub(crate) targets: Vec<Target>,
    /// The scenarios by name; empty: all.
    pub(crate) only: Vec<String>,
    /// Without the long forms, the largest scenarios, and what is slow in Git repositories.
    pub(crate) quick: bool,
    /// Only the unbatched form of `concurrent`.
    pub(crate) no_batch: bool,
    /// The parallel forms were sized by the caller: they run in their own right, also for reads.
    pub(crate) parallel: bool,
}

/// The names that `--only-scenario` takes.
pub(crate) const SCENARIOS: [&str; 9] = [
    "commits",
    "commits-10K-distinct",
    "large-values",
    "incremental",
    "reads",
    "reads-random",
    "concurrent",
    "prepare",
    "group-commit",
];

/// The value size of `large-values` and `commits-10K-distinct`.
const LARGE_BYTES: usize = 10_000;
/// The value size of the rows that exist at one size only.
const SMALL_BYTES: usize = 20;

impl Plan {
    /// Returns the jobs: scenario by scenario, each on every backend, so that what is compared runs close
    /// together in time.
    pub(crate) fn jobs(&self) -> Vec<Job> {
        let mut jobs = Vec::new();
        for (work, value_bytes) in self.works() {
            if !self.wanted(work, value_bytes) {
                continue;
            }
            for &target in &self.targets {
                if runs_on(work, target, value_bytes, &self.targets)
                    && !(self.quick && is_slow(work, target, value_bytes))
                {
                    jobs.push(self.job(work, value_bytes, target));
                }
            }
        }
        jobs
    }

    fn job(&self, work: Work, value_bytes: usize, target: Target) -> Job {
        let mut sizes = self.like.sizes;
        if matches!(work, Work::CommitsParallel | Work::IncrementalParallel | Work::ReadsParallel) && !self.parallel {
            (sizes.domains, sizes.fibers) = (Sizes::default().domains, Sizes::default().fibers);
        }
        Job { work, target, value_bytes, sizes, switches: self.like.switches.on(target), ..self.like.clone() }
    }

    fn wanted(&self, work: Work, value_bytes: usize) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| self.is_called(name, work, value_bytes))
    }

    /// Whether a name is that of a scenario, or of its row at this value size.
    fn is_called(&self, name: &str, work: Work, value_bytes: usize) -> bool {
        name == work.name() || name == self.job(work, value_bytes, Target::Memory).scenario()
    }

    /// Returns a name of `only` that selects nothing, whatever the backends are.
    pub(crate) fn unknown(&self) -> Option<&str> {
        let works = self.works();
        let selects = |name: &str| works.iter().any(|(work, bytes)| self.is_called(name, *work, *bytes));
        self.only.iter().map(String::as_str).find(|name| !selects(name))
    }

    /// Whether only a quick run has nothing of that name.
    pub(crate) fn leaves_out(&self, name: &str) -> bool {
        let whole = Self { quick: false, only: vec![name.to_owned()], ..self.clone() };
        self.quick && whole.unknown().is_none()
    }

    /// Returns the scenarios with their value sizes, in the order of the tables.
    fn works(&self) -> Vec<(Work, usize)> {
        let mut works = Vec::new();
        for &bytes in &self.value_sizes {
            works.push((Work::Commits, bytes));
            if bytes == LARGE_BYTES && !self.quick {
                works.push((Work::CommitsDistinct, bytes));
            }
        }
        works.push((Work::LargeValues, LARGE_BYTES));
        for &bytes in &self.value_sizes {
            works.push((Work::Incremental { long: false, touch_all: false }, bytes));
            if !self.quick {
                works.push((Work::Incremental { long: true, touch_all: false }, bytes));
            }
        }
        for &bytes in &self.value_sizes {
            works.extend(self.reads().into_iter().map(|work| (work, bytes)));
        }
        for &bytes in &self.value_sizes {
            works.extend(self.concurrent(bytes).into_iter().map(|work| (work, bytes)));
        }
        works.extend(self.parallel());
        works
    }

    fn reads(&self) -> Vec<Work> {
        let mut works = vec![
            Work::Reads { way: Way::InOrder, threads: 1, long: false },
            Work::Reads { way: Way::Walk, threads: 1, long: false },
        ];
        if !self.quick {
            for way in [Way::Walk, Way::Reader, Way::Subtree] {
                works.extend([1, 2].map(|threads| Work::Reads { way, threads, long: true }));
            }
        }
        works
    }

    fn concurrent(&self, value_bytes: usize) -> Vec<Work> {
        let each = Work::Concurrent { batched: false, long: false };
        if self.no_batch {
            return vec![each];
        }
        let mut works = vec![Work::Concurrent { batched: true, long: false }];
        if !self.quick && value_bytes <= 1000 {
            works.push(Work::Concurrent { batched: true, long: true });
        }
        works.push(each);
        works
    }

    fn parallel(&self) -> Vec<(Work, usize)> {
        let mut works = Vec::new();
        if self.parallel {
            for &bytes in &self.value_sizes {
                works.extend(
                    [Work::CommitsParallel, Work::IncrementalParallel, Work::ReadsParallel].map(|w| (w, bytes)),
                );
            }
        } else {
            works.extend([Work::CommitsParallel, Work::IncrementalParallel].map(|work| (work, SMALL_BYTES)));
        }
        for whole in [true, false] {
            works.extend([1, 2].map(|threads| (Work::Prepare { whole, threads }, SMALL_BYTES)));
        }
        works.push((Work::GroupCommit { threads: false }, SMALL_BYTES));
        if !self.quick {
            works.push((Work::GroupCommit { threads: true }, SMALL_BYTES));
        }
        works
    }
}

/// Whether a scenario says anything new on a target.
fn runs_on(work: Work, target: Target, value_bytes: usize, targets: &[Target]) -> bool {
    if target.is_peer() {
        return peers::git::does(target, work, value_bytes);
    }
    if target.is_git() {
        let without = if target.is_loose() { Target::GitLooseNone } else { Target::GitPacksNone };
        return on_git(work, target) && (work.writes() || target == without || !targets.contains(&without));
    }
    if target.is_other() {
        let without = match target {
            Target::LsmSynced => Target::LsmNone,
            Target::LmdbSynced => Target::LmdbNone,
            Target::FsSynced => Target::FsNone,
            unsynced => unsynced,
        };
        return on_others(work, target) && (work.writes() || target == without || !targets.contains(&without));
    }
    match work {
        // It is about sharing syncs.
        Work::GroupCommit { .. } => target == Target::DiskSynced,
        // Ten thousand syncs of one object each say what a sync takes, which the first rows say.
        Work::Concurrent { batched: false, .. } => target != Target::DiskSynced,
        // Where nothing is written durability changes nothing.
        _ if !work.writes() => target != Target::DiskSynced || !targets.contains(&Target::DiskNone),
        _ => true,
    }
}

/// Whether a row takes seconds, of which most are spent on files, and says at another size or in another form what it says here.
fn is_slow(work: Work, target: Target, value_bytes: usize) -> bool {
    // A sync for each object says what a sync takes.
    matches!(target, Target::FsSynced | Target::GitLooseSynced | Target::Libgit2Synced)
        || target.is_loose() && value_bytes != SMALL_BYTES
        || target.is_git() && work == Work::LargeValues
}

/// Whether a scenario is tried in other backends than memory, the disk engine and Git repositories.
const fn on_others(work: Work, target: Target) -> bool {
    match work {
        // So many files of one object each say only what a file costs.
        Work::CommitsDistinct | Work::Concurrent { long: true, .. } if target.is_files() => false,
        Work::Incremental { long: true, .. } | Work::GroupCommit { .. } if target.is_files() => false,
        Work::GroupCommit { .. } => target.is_synced(),
        Work::Concurrent { batched: false, .. } => !target.is_synced(),
        // The backend has no part in it.
        Work::Prepare { .. } => false,
        _ => true,
    }
}

/// Whether a scenario is tried in Git repositories.
const fn on_git(work: Work, target: Target) -> bool {
    match work {
        Work::Commits | Work::LargeValues | Work::Incremental { long: false, .. } => true,
        Work::Reads { threads: 1, long: false, .. } => true,
        // So many loose objects say only what a file costs.
        Work::CommitsDistinct | Work::Incremental { .. } | Work::Reads { .. } => !target.is_loose(),
        Work::Concurrent { batched: true, long: false } => matches!(target, Target::GitPacksNone),
        // Git moves one ref at a time, each with files of its own: there is nothing for many writers to share.
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, path::PathBuf};

    use super::*;
    use crate::job::Switches;

    fn plan() -> Plan {
        let like = Job {
            work: Work::Commits,
            target: Target::Memory,
            value_bytes: 20,
            sizes: Sizes::default(),
            switches: Switches::default(),
            dir: PathBuf::new(),
            name: "bristlecone".into(),
            label: None,
            judged: false,
        };
        let targets = Target::all().collect();
        Plan {
            like,
            value_sizes: vec![20, 10_000],
            targets,
            only: vec![],
            quick: false,
            no_batch: false,
            parallel: false,
        }
    }

    #[test]
    fn every_row_has_a_name_of_its_own() {
        let jobs = plan().jobs();
        let names: HashSet<(String, String)> = jobs.iter().map(|job| (job.row_name(), job.scenario())).collect();
        assert_eq!(names.len(), jobs.len());
        for name in ["commits-20B", "commits-10K", "commits-10K-distinct", "reads-random-subtree-long-10K-2t"] {
            assert!(jobs.iter().any(|job| job.scenario() == name), "{name}");
        }
        let on = |target: Target, name: &str| jobs.iter().any(|job| job.target == target && job.scenario() == name);
        for target in Target::GIT.into_iter().chain([Target::FastImport]) {
            assert!(on(target, "commits-20B") && on(target, "incremental-20B"), "{target:?}");
            assert!(!on(target, "group-commit-20B") && !on(target, "concurrent-each-20B"), "{target:?}");
        }
        assert!(on(Target::GitPacksNone, "reads-random-20B-1t") && !on(Target::GitPacksSynced, "reads-20B"));
        for name in SCENARIOS {
            assert!(jobs.iter().any(|job| job.work.name() == name), "{name}");
        }
    }

    #[test]
    fn rows_of_other_sizes_have_other_names() {
        let mut other = plan();
        other.like.sizes = Sizes { ncommits: 5, tree_add: 200, depth: 3, nreads: 10, ..Sizes::default() };
        for (usual, sized) in plan().jobs().iter().zip(other.jobs()) {
            assert_eq!(usual.scenario(), sized.scenario());
            assert_eq!(usual.unusual_sizes(), "");
            assert_eq!(sized.row_name(), format!("{} ncommits=5 tree-add=200 depth=3 nreads=10", usual.row_name()));
        }
        let wide = |work: Work| Job { work, ..plan().like }.entries();
        assert_eq!((wide(Work::Commits), wide(Work::LargeValues)), (1000, 200));
    }

    #[test]
    fn a_quick_run_has_each_scenario_and_not_the_longest_rows() {
        let jobs = Plan { quick: true, ..plan() }.jobs();
        let all = plan().jobs().len();
        assert!(jobs.len() * 3 < all * 2, "{} of {all}", jobs.len());
        for name in SCENARIOS.iter().filter(|name| **name != "commits-10K-distinct") {
            assert!(jobs.iter().any(|job| job.work.name() == *name), "{name}");
        }
        for target in Target::all() {
            let left_out = matches!(target, Target::FsSynced | Target::GitLooseSynced | Target::Libgit2Synced);
            assert_eq!(jobs.iter().any(|job| job.target == target), !left_out, "{target:?}");
        }
        assert!(jobs.iter().all(|job| !job.target.is_loose() || job.value_bytes == SMALL_BYTES));
    }

    #[test]
    fn a_scenario_is_selected_by_name_or_row() {
        let only = |name: &str| Plan { only: vec![name.into()], targets: Target::NATIVE.to_vec(), ..plan() }.jobs();
        assert_eq!(only("large-values").len(), 3);
        assert_eq!(only("commits-20B").len(), 3);
        assert!(only("commits").iter().all(|job| job.work.name() == "commits"));
        assert_eq!(only("nothing").len(), 0);
    }

    #[test]
    fn a_name_that_selects_nothing_is_found_among_others() {
        let unknown = |names: &[&str]| {
            let only = names.iter().map(|name| (*name).to_owned()).collect();
            Plan { only, ..plan() }.unknown().map(str::to_owned)
        };
        assert_eq!(unknown(&["commits", "lookups", "reads"]), Some("lookups".into()));
        assert_eq!(unknown(&["commits-21B"]), Some("commits-21B".into()));
        assert_eq!(unknown(&["incremental-long-10K", "group-commit", "prepare-one-20B-2t"]), None);
        // A quick run leaves them out, but there are such.
        for name in ["commits-10K-distinct", "incremental-long-10K", "reads-random-long-20B-2t"] {
            let quick = Plan { quick: true, only: vec!["commits".into(), name.into()], ..plan() };
            assert_eq!(quick.unknown(), Some(name));
            assert!(quick.leaves_out(name) && !quick.leaves_out("lookups") && !plan().leaves_out("lookups"));
        }
    }

    #[test]
    fn switches_are_in_the_names_of_rows_where_they_mean_something() {
        let mut other = plan();
        other.like.switches =
            Switches { inline: false, maps: false, direct: false, cache_bytes: Some(7), ..Switches::default() };
        for job in other.jobs() {
            let words = match job.target {
                target if target.is_peer() => "",
                target if target.is_git() => "cache=7",
                Target::DiskNone | Target::DiskSynced => "no-inline no-maps no-direct cache=7",
                _ => "no-inline",
            };
            assert_eq!(job.variant(), words, "{:?}", job.target);
        }
    }
}
