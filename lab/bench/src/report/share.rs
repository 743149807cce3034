//! Results as shares of the limits of the same run.
//!
//! A share is how much of a run's time the limit alone would take: 100 % means that nothing but the limit is
//! left. Of the limits that apply to a scenario the nearest is shown.

use crate::{
    job::{Job, Sweep, Target, Work},
    limits::Limits,
    measure::Run,
};

/// Directories are hashed in pieces of about this size.
const PIECE_BYTES: usize = 1024;
/// Values of more bytes are objects, whose hashing is what takes time.
const LARGE_BYTES: usize = 1000;

/// Returns the limit that comes nearest to explaining what a run took, and its share.
#[must_use]
pub fn nearest(job: &Job, run: &Run, limits: &Limits) -> Option<(&'static str, f64)> {
    if job.target.is_peer() {
        return None;
    }
    let hash = if job.target.is_git() { hash_git(job, run, limits) } else { hash(job, run, limits) };
    let shares = [sync(job, run, limits), bare(run), hash, map(job, run, limits)];
    shares.into_iter().flatten().max_by(|one, other| one.1.total_cmp(&other.1))
}

/// Every sync that somebody waits for takes as long as one of 4 KB into zeroes.
fn sync(job: &Job, run: &Run, limits: &Limits) -> Option<(&'static str, f64)> {
    (matches!(job.target, Target::DiskSynced | Target::LsmSynced) && run.syncs > 0)
        .then(|| ("fdatasync", run.syncs as f64 * limits.sync_prezeroed / run.seconds))
}

/// Every durable commit to a Git repository makes, writes and syncs its files and moves its ref.
fn bare(run: &Run) -> Option<(&'static str, f64)> {
    run.bare_us.map(|us| ("bare syncs", run.commits as f64 * us / 1e6 / run.seconds))
}

/// What a Git commit hashes at least: the wide directory, its value or values, and the chain of directories.
fn hash_git(job: &Job, run: &Run, limits: &Limits) -> Option<(&'static str, f64)> {
    let blobs = match job.work {
        Work::Commits | Work::LargeValues | Work::Incremental { .. } => 1,
        Work::CommitsDistinct => job.entries(),
        _ => return None,
    };
    let entry = |n: usize| GIT_ENTRY_BYTES + n.to_string().len();
    let wide: usize = (1..=job.entries()).map(entry).sum();
    let hashed = |bytes: usize| bytes as f64 * limits.sha1_per_byte(bytes);
    let chain = job.sizes.depth as f64 * hashed(GIT_ENTRY_BYTES + 1);
    let commit = hashed(wide) + chain + blobs as f64 * hashed(job.value_bytes);
    Some(("SHA-1", run.commits as f64 * commit / run.seconds))
}

/// An entry of a Git tree without its name: mode, a space, a zero and 20 bytes of id.
const GIT_ENTRY_BYTES: usize = 28;

/// Everything written is hashed once, on as many threads as work.
fn hash(job: &Job, run: &Run, limits: &Limits) -> Option<(&'static str, f64)> {
    if run.bytes_written == 0 {
        return None;
    }
    let object = match job.work {
        Work::Concurrent { .. } | Work::Sweep(Sweep::Concurrent) => job.value_bytes,
        Work::CommitsDistinct | Work::LargeValues => job.value_bytes,
        _ if job.value_bytes >= LARGE_BYTES && job.work.counts_commits() => job.value_bytes,
        _ => PIECE_BYTES,
    };
    // Of small objects the record's header is not hashed; the value is.
    let bytes = match job.work {
        Work::Concurrent { .. } | Work::Sweep(Sweep::Concurrent) => run.ops / 2 * job.value_bytes.max(64) as u64,
        _ => run.bytes_written,
    };
    let threads = run.threads.clamp(1, crate::measure::cores() as u64) as f64;
    Some(("BLAKE3", bytes as f64 * limits.hash_per_byte(object) / threads / run.seconds))
}

/// Every lookup reads the map at least once.
fn map(job: &Job, run: &Run, limits: &Limits) -> Option<(&'static str, f64)> {
    if !matches!(job.work, Work::Reads { .. } | Work::ReadsParallel | Work::Sweep(Sweep::Reads)) {
        return None;
    }
    Some(("mapped read", run.ops as f64 * limits.mapped_read / run.threads.max(1) as f64 / run.seconds))
}
