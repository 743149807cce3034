//! Scenarios by a library that keeps commits in a Git repository, and what every peer is given.

use std::{
    fs,
    path::{Path, PathBuf},
};

use bristlecone::core::git::Git;

use crate::{
    BenchError,
    check::root_at_once,
    error::Result,
    job::{Job, Way, Work},
    measure::{Laps, Run, folder_bytes},
    peers::program::git,
    rss::Sampler,
    workload::{Workload, changed_entry, changed_value, lookups, message},
};

/// The ref that every commit moves.
pub(super) const MAIN: &str = "refs/heads/main";

/// A library that keeps commits in a repository, used as its users use it.
pub(super) trait Library: Sized {
    /// Makes a bare repository.
    fn create(dir: &Path, synced: bool) -> Result<Self>;
    /// Opens it again, with nothing in memory.
    fn open(dir: &Path) -> Result<Self>;
    /// Checks out the commit that main names, if there is one, makes an edit, commits, and moves main.
    fn commit(&self, paths: &[String], edit: &Edit<'_>, message: &str) -> Result<()>;
    /// Checks main out and looks paths up, each walked whole; returns the sum of what was found, as
    /// [`Workload::sum_of`] has it.
    fn look_up(&self, paths: &[String], lookups: &[u32]) -> Result<u64>;
    /// Returns the ids of the commit that main names and of its tree, in hexadecimal digits.
    fn head(&self) -> Result<(String, String)>;
}

/// What a commit sets.
#[derive(Clone, Copy, Debug)]
pub(super) enum Edit<'a> {
    /// Every entry, to one value.
    All(&'a [u8]),
    /// Every entry, each to a value of its own.
    Each(&'a [Vec<u8>]),
    /// One entry.
    One(usize, &'a [u8]),
}

/// What a scenario does, made before anything is timed.
pub(super) struct Plan {
    pub(super) paths: Vec<String>,
    /// The value of every entry before the timed part; empty: there is no commit.
    pub(super) base: Vec<Vec<u8>>,
    /// The entry that each commit sets, or none for all, and the value.
    pub(super) commits: Vec<(Option<usize>, Vec<u8>)>,
    pub(super) messages: Vec<String>,
    /// The number of the value of each entry at the end.
    pub(super) left: Vec<usize>,
}

impl Plan {
    pub(super) fn new(job: &Job, workload: &Workload) -> Self {
        let (entries, count) = (workload.paths.len(), job.sizes.ncommits);
        let paths = workload.paths.iter().map(ToString::to_string).collect();
        let mut plan = Self {
            paths,
            base: vec![],
            commits: vec![],
            messages: (0..count).map(message).collect(),
            left: (1..=entries).collect(),
        };
        if job.work == Work::Commits {
            plan.commits = (0..count).map(|i| (None, workload.value(i))).collect();
            plan.left = vec![count - 1; entries];
            return plan;
        }
        plan.base = (1..=entries).map(|n| workload.value(n)).collect();
        if job.work.writes() {
            let change = |i| (Some(changed_entry(i, entries)), workload.value(changed_value(i, entries)));
            plan.commits = (0..count).map(change).collect();
            for i in 0..count {
                plan.left[changed_entry(i, entries)] = changed_value(i, entries);
            }
        }
        plan
    }

    pub(super) fn edits(&self) -> impl Iterator<Item = (Edit<'_>, &str)> {
        self.commits.iter().zip(&self.messages).map(|((entry, value), message)| {
            let edit = entry.map_or(Edit::All(value), |entry| Edit::One(entry, value));
            (edit, &message[..])
        })
    }

    /// Compares what is left with what should be; a root that is another goes into the run.
    pub(super) fn check(&self, workload: &Workload, (head, tree): (String, String), run: &mut Run) -> Result<()> {
        let values: Vec<Vec<u8>> = self.left.iter().map(|&number| workload.value(number)).collect();
        let root = root_at_once(&Git::sha1(), workload, &values)?.to_string();
        if tree != root {
            run.wrong = Some(format!("the root {tree} is not that of its contents made at once in memory, {root}"));
        }
        (run.root, run.head) = (Some(tree), Some(head));
        Ok(())
    }
}

#[cfg_attr(not(feature = "git-peers"), expect(dead_code, reason = "no library is built in"))]
pub(super) fn run<L: Library>(job: &Job) -> Result<Vec<Run>> {
    let sampler = Sampler::start();
    let workload = Workload::new(job);
    let plan = Plan::new(job, &workload);
    let home = Home::new(job)?;
    let mut repository = L::create(&home.dir, job.target.is_synced())?;
    if !plan.base.is_empty() {
        repository.commit(&plan.paths, &Edit::Each(&plan.base), &message(0))?;
        drop(repository);
        if !job.work.writes() {
            home.pack();
        }
        repository = L::open(&home.dir)?;
    }
    let mut run = match job.work {
        Work::Reads { way, .. } => read(&repository, job, &workload, &plan, way)?,
        _ => commit(&repository, &plan)?,
    };
    if job.work == Work::Commits {
        run.ops *= workload.paths.len() as u64;
    }
    let peak = sampler.finish();
    (run.rss_anon_kb, run.rss_file_kb, run.maxrss_kb) = (peak.anon_kb, peak.file_kb, peak.max_kb);
    drop(repository);
    plan.check(&workload, L::open(&home.dir)?.head()?, &mut run)?;
    run.file_bytes = home.bytes();
    Ok(vec![run])
}

fn commit<L: Library>(repository: &L, plan: &Plan) -> Result<Run> {
    let mut laps = Laps::start(plan.commits.len());
    for (edit, message) in plan.edits() {
        repository.commit(&plan.paths, &edit, message)?;
        laps.lap();
    }
    let (seconds, latencies) = laps.finish();
    let mut run = Run { ops: latencies.len() as u64, seconds, threads: 1, ..Run::default() };
    run.set_latencies(latencies);
    Ok(run)
}

fn read<L: Library>(repository: &L, job: &Job, workload: &Workload, plan: &Plan, way: Way) -> Result<Run> {
    let lookups = lookups(&job.sizes, job.sizes.nreads, way != Way::InOrder, 1);
    let mut laps = Laps::start(1);
    let sum = repository.look_up(&plan.paths, &lookups)?;
    laps.lap();
    let (seconds, _) = laps.finish();
    let right = sum == workload.sum_of(&lookups);
    let wrong = (!right).then(|| "lookups found other values than were set".into());
    Ok(Run { ops: lookups.len() as u64, seconds, threads: 1, wrong, ..Run::default() })
}

/// The folder of a repository, removed when it is dropped.
pub(super) struct Home {
    pub(super) dir: PathBuf,
}

impl Home {
    pub(super) fn new(job: &Job) -> Result<Self> {
        let dir = job.dir.join(format!("peer-{}-{}", std::process::id(), job.target.name().replace(' ', "-")));
        fs::create_dir_all(&dir).map_err(BenchError::io(&dir))?;
        Ok(Self { dir })
    }

    /// Packs all objects, as `git gc` does now and then to repositories that are read; where git is not installed
    /// they stay loose.
    fn pack(&self) {
        let _ = git(&self.dir).args(["repack", "-a", "-d", "-q"]).status();
    }

    /// Returns the bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        folder_bytes(&self.dir)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // The folder above is removed by whoever made it, should this fail.
        let _ = fs::remove_dir_all(&self.dir);
    }
}
