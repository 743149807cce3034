//! The same commits by what people use for Git today: libgit2, gitoxide, and `git fast-import` fed the same history.
//!
//! Each does the work in the way its own documentation shows, into a bare repository of its own, and is not told more
//! than we are told: the paths, and of every commit its values. Where a commit has one value, its blob is written once,
//! which is in their favour. What they leave is compared with ours by root and by commit.

use std::{
    fs,
    path::{Path, PathBuf},
};

use bristlecone::core::git::Git;

use crate::{
    BenchError,
    check::root_at_once,
    error::Result,
    job::{Job, Target, Way, Work},
    measure::{Laps, Run},
    rss::Sampler,
    workload::{Workload, changed_entry, changed_value, lookups, message},
};

mod fast_import;
#[cfg(feature = "git-peers")]
mod gitoxide;
#[cfg(feature = "git-peers")]
mod libgit2;

/// The ref that every commit moves.
const MAIN: &str = "refs/heads/main";

/// Whether a peer does a scenario.
pub(crate) fn does(target: Target, work: Work, value_bytes: usize) -> bool {
    match work {
        // A sync for each of its objects: what that costs shows at one size.
        _ if target == Target::Libgit2Synced && value_bytes != 20 => false,
        Work::Commits | Work::Incremental { long: false, touch_all: false } => true,
        Work::Reads { way: Way::InOrder | Way::Walk, threads: 1, long: false } => {
            matches!(target, Target::Libgit2 | Target::Gitoxide)
        }
        _ => false,
    }
}

/// Whether a peer is built in, or installed.
pub(crate) fn is_there(target: Target) -> bool {
    match target {
        Target::FastImport => super::find("git").is_some(),
        _ => cfg!(feature = "git-peers"),
    }
}

/// Takes the jobs of peers that are not there out of a plan, and says so.
pub(crate) fn leave_out(jobs: &mut Vec<Job>) {
    let targets: Vec<Target> = jobs.iter().map(|job| job.target).collect();
    for line in left_out(&targets) {
        say!("{line}");
    }
    if targets.iter().any(|target| target.is_git()) && super::find("git").is_none() {
        say!("git is not installed: it is not asked what it thinks of our repositories");
    }
    jobs.retain(|job| !job.target.is_peer() || is_there(job.target));
}

/// Returns what to say of the peers among these targets that are not there, and how to get them.
fn left_out(targets: &[Target]) -> Vec<String> {
    let missing = |target: Target| targets.contains(&target) && !is_there(target);
    let mut said = Vec::new();
    if [Target::Libgit2, Target::Libgit2Synced, Target::Gitoxide].into_iter().any(missing) {
        said.push(
            "rows of libgit2 and gitoxide are left out: this program was built without them; build it with `--features git-peers`"
                .into(),
        );
    }
    if missing(Target::FastImport) {
        said.push("rows of git fast-import are left out: git is not installed".into());
    }
    said
}

/// Returns which version of a peer is measured.
pub(crate) fn version(target: Target) -> Option<String> {
    match target {
        Target::FastImport => super::find("git").and_then(|file| super::version(&file, &["--version"])),
        #[cfg(feature = "git-peers")]
        Target::Libgit2 | Target::Libgit2Synced => Some(libgit2::version()),
        #[cfg(feature = "git-peers")]
        Target::Gitoxide => Some(gitoxide::VERSION.into()),
        _ => None,
    }
}

/// Does one run of a job by a peer, in this process or in one that it starts.
pub(crate) fn run(job: &Job) -> Result<Vec<Run>> {
    match job.target {
        Target::FastImport => fast_import::run(job),
        #[cfg(feature = "git-peers")]
        Target::Libgit2 | Target::Libgit2Synced => by_library::<libgit2::Libgit2>(job),
        #[cfg(feature = "git-peers")]
        Target::Gitoxide => by_library::<gitoxide::Gitoxide>(job),
        _ => Err(BenchError::usage(left_out(&[job.target]).join("; "))),
    }
}

/// A library that keeps commits in a repository, used as its users use it.
trait Library: Sized {
    /// Makes a bare repository.
    fn create(dir: &Path, synced: bool) -> Result<Self>;
    /// Opens it again, with nothing in memory.
    fn open(dir: &Path) -> Result<Self>;
    /// Checks out the commit that main names, if there is one, makes an edit, commits, and moves main.
    fn commit(&self, paths: &[String], edit: &Edit<'_>, message: &str) -> Result<()>;
    /// Checks main out and looks paths up, each walked whole; returns of all values length and first byte together.
    fn look_up(&self, paths: &[String], lookups: &[u32]) -> Result<u64>;
    /// Returns the ids of the commit that main names and of its tree, in hexadecimal digits.
    fn head(&self) -> Result<(String, String)>;
}

/// What a commit sets.
#[derive(Clone, Copy, Debug)]
enum Edit<'a> {
    /// Every entry, to one value.
    All(&'a [u8]),
    /// Every entry, each to a value of its own.
    Each(&'a [Vec<u8>]),
    /// One entry.
    One(usize, &'a [u8]),
}

/// What a scenario does, made before anything is timed.
struct Plan {
    paths: Vec<String>,
    /// The value of every entry before the timed part; empty: there is no commit.
    base: Vec<Vec<u8>>,
    /// The entry that each commit sets, or none for all, and the value.
    commits: Vec<(Option<usize>, Vec<u8>)>,
    messages: Vec<String>,
    /// The number of the value of each entry at the end.
    left: Vec<usize>,
}

impl Plan {
    fn new(job: &Job, workload: &Workload) -> Self {
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

    fn edits(&self) -> impl Iterator<Item = (Edit<'_>, &str)> {
        self.commits.iter().zip(&self.messages).map(|((entry, value), message)| {
            let edit = entry.map_or(Edit::All(value), |entry| Edit::One(entry, value));
            (edit, &message[..])
        })
    }

    /// Compares what is left with what should be; a root that is another goes into the run.
    fn check(&self, workload: &Workload, (head, tree): (String, String), run: &mut Run) -> Result<()> {
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
fn by_library<L: Library>(job: &Job) -> Result<Vec<Run>> {
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
    let first = workload.value(1).first().copied().unwrap_or(0);
    let right = sum == lookups.len() as u64 * (workload.value_bytes as u64 + u64::from(first));
    let wrong = (!right).then(|| "lookups found other values than were set".into());
    Ok(Run { ops: lookups.len() as u64, seconds, threads: 1, wrong, ..Run::default() })
}

/// The folder of a repository, removed when it is dropped.
struct Home {
    dir: PathBuf,
}

impl Home {
    fn new(job: &Job) -> Result<Self> {
        let dir = job.dir.join(format!("peer-{}-{}", std::process::id(), job.target.name().replace(' ', "-")));
        fs::create_dir_all(&dir).map_err(BenchError::io(&dir))?;
        Ok(Self { dir })
    }

    /// Packs all objects, as `git gc` does now and then to repositories that are read; where git is not installed
    /// they stay loose.
    fn pack(&self) {
        let _ = super::git(&self.dir).args(["repack", "-a", "-d", "-q"]).status();
    }

    /// Returns the bytes of all files.
    fn bytes(&self) -> u64 {
        folder_bytes(&self.dir)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // The folder above is removed by whoever made it, should this fail.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Returns the bytes of the files in a folder and below; what cannot be read counts for nothing.
pub(crate) fn folder_bytes(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let bytes = |entry: fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => folder_bytes(&entry.path()),
        Ok(kind) if kind.is_file() => entry.metadata().map_or(0, |metadata| metadata.len()),
        _ => 0,
    };
    entries.map(bytes).sum()
}

#[cfg(test)]
mod tests;
