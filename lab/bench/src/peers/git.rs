//! The same commits by what people use for Git today: libgit2, gitoxide, and `git fast-import` fed the same history.
//!
//! Each does the work in the way its own documentation shows, into a bare repository of its own, and is not told more
//! than we are told: the paths, and of every commit its values. Where a commit has one value, its blob is written once,
//! which is in their favour. What they leave is compared with ours by root and by commit.

use crate::{
    BenchError,
    error::Result,
    job::{Job, Target, Way, Work},
    measure::Run,
    peers::program,
};

mod fast_import;
#[cfg(feature = "git-peers")]
mod gitoxide;
#[cfg(feature = "git-peers")]
mod libgit2;
mod library;

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
        Target::FastImport => program::find("git").is_some(),
        _ => cfg!(feature = "git-peers"),
    }
}

/// Takes the jobs of peers that are not there out of a plan, and says so.
pub(crate) fn leave_out(jobs: &mut Vec<Job>) {
    let targets: Vec<Target> = jobs.iter().map(|job| job.target).collect();
    for line in left_out(&targets) {
        say!("{line}");
    }
    if targets.iter().any(|target| target.is_git()) && program::find("git").is_none() {
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
        Target::FastImport => program::find("git").and_then(|file| program::version(&file, &["--version"])),
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
        Target::Libgit2 | Target::Libgit2Synced => library::run::<libgit2::Libgit2>(job),
        #[cfg(feature = "git-peers")]
        Target::Gitoxide => library::run::<gitoxide::Gitoxide>(job),
        _ => Err(BenchError::usage(left_out(&[job.target]).join("; "))),
    }
}

#[cfg(test)]
mod tests;
