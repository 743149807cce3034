//! What a run found, and what it is measured with: time of a stretch of work, of its commits and of threads that start
//! together; sizes of stores and folders.

use std::{fs, path::Path, sync::Barrier, thread, time::Instant};

use bristlecone::{BackendStats, Format};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::{engine::Engine, error::Result, rss::Peak};

/// What one run of a job found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Which of several results of one run this is, put after the scenario's name; empty if there is one.
    pub part: String,
    /// Operations, as the scenario counts them.
    pub ops: u64,
    /// How long they took, in seconds.
    pub seconds: f64,
    /// Commits among them.
    pub commits: u64,
    /// Half the commits took no longer, in microseconds.
    pub p50_us: Option<f64>,
    /// 99 of 100 commits took no longer, in microseconds.
    pub p99_us: Option<f64>,
    /// Bytes given to the backend within the timed part, with framing.
    pub bytes_written: u64,
    /// Syncs within the timed part.
    pub syncs: u64,
    /// Bytes of the store at the end, up to its tail.
    pub store_bytes: u64,
    /// Bytes of its files, with what is pre-allocated.
    pub file_bytes: u64,
    /// The most anonymous memory that was resident, in KiB.
    pub rss_anon_kb: u64,
    /// The most pages of mapped files that were resident, in KiB.
    pub rss_file_kb: u64,
    /// The high-water mark of all resident memory, in KiB.
    pub maxrss_kb: u64,
    /// What the file operations and syncs of one commit take by themselves, on average, in microseconds: of durable
    /// commits to Git repositories.
    pub bare_us: Option<f64>,
    /// Bytes of a Git repository's objects after its packs were folded.
    pub folded_bytes: Option<u64>,
    /// Bytes of the objects of a copy of it after `git gc`.
    pub gc_bytes: Option<u64>,
    /// How many threads worked.
    pub threads: u64,
    /// The root of the tree at the end, where there is one.
    pub root: Option<String>,
    /// The last commit, where there is one.
    pub head: Option<String>,
    /// What the check found wrong; `None` if everything was as it should be.
    pub wrong: Option<String>,
}

impl Run {
    /// Notes the sizes of a store as they are now, and the most memory that was resident.
    pub(crate) fn set_sizes<F: Format>(&mut self, engine: &Engine<F>, peak: Peak) {
        let stats = engine.stats();
        (self.store_bytes, self.file_bytes) = (stats.store_bytes, stats.file_bytes);
        (self.rss_anon_kb, self.rss_file_kb, self.maxrss_kb) = (peak.anon_kb, peak.file_kb, peak.max_kb);
    }

    /// Notes what the commits took, each in nanoseconds.
    pub(crate) fn set_latencies(&mut self, mut nanoseconds: Vec<u64>) {
        nanoseconds.sort_unstable();
        self.commits = nanoseconds.len() as u64;
        self.p50_us = percentile(&nanoseconds, 50).map(|ns| ns as f64 / 1e3);
        self.p99_us = percentile(&nanoseconds, 99).map(|ns| ns as f64 / 1e3);
    }

    /// Notes what operations took that are no commits, each in nanoseconds.
    pub(crate) fn set_latencies_of_others(&mut self, nanoseconds: Vec<u64>) {
        self.set_latencies(nanoseconds);
        self.commits = 0;
    }
}

/// Returns the value that `percent` of the sorted values do not exceed.
pub(crate) fn percentile(sorted: &[u64], percent: usize) -> Option<u64> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

/// Notes how long each of a run of things takes, without allocating.
pub(crate) struct Laps {
    started: Instant,
    last: Instant,
    nanoseconds: Vec<u64>,
}

impl Laps {
    /// Starts now; there will be `count` laps.
    pub(crate) fn start(count: usize) -> Self {
        let nanoseconds = Vec::with_capacity(count);
        let now = Instant::now();
        Self { started: now, last: now, nanoseconds }
    }

    /// Ends a lap and begins the next one.
    #[inline]
    pub(crate) fn lap(&mut self) {
        let now = Instant::now();
        self.nanoseconds.push((now - self.last).as_nanos() as u64);
        self.last = now;
    }

    /// Returns the seconds from the start to the end of the last lap, and what each lap took.
    pub(crate) fn finish(self) -> (f64, Vec<u64>) {
        ((self.last - self.started).as_secs_f64(), self.nanoseconds)
    }

    /// Ends as [`finish`](Self::finish) does, and makes a part of a run of it whose operations are the laps.
    pub(crate) fn into_part(self, part: &str) -> Run {
        let (seconds, latencies) = self.finish();
        let mut run = Run { part: part.into(), ops: latencies.len() as u64, seconds, threads: 1, ..Run::default() };
        run.set_latencies_of_others(latencies);
        run
    }
}

/// What the backend did during a stretch of work.
pub(crate) struct Written(BackendStats);

impl Written {
    pub(crate) fn since_now<F: Format>(engine: &Engine<F>) -> Self {
        Self(engine.stats())
    }

    pub(crate) fn note<F: Format>(self, engine: &Engine<F>, run: &mut Run) {
        let now = engine.stats();
        run.bytes_written = now.bytes_written - self.0.bytes_written;
        run.syncs = now.syncs - self.0.syncs;
        run.store_bytes = now.store_bytes;
        run.file_bytes = now.file_bytes;
    }
}

/// Returns the processor time that this process has used, in microseconds.
pub(crate) fn cpu_us() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1000
}

/// Runs `work` on `threads` threads that start together, and returns the seconds from the first start to the
/// last end with what each returned. One thread is the caller's own.
pub(crate) fn together<T: Send>(threads: usize, work: impl Fn(usize) -> Result<T> + Sync) -> Result<(f64, Vec<T>)> {
    if threads <= 1 {
        let started = Instant::now();
        let done = work(0)?;
        return Ok((started.elapsed().as_secs_f64(), vec![done]));
    }
    let barrier = Barrier::new(threads);
    let timed = |index: usize| {
        barrier.wait();
        let started = Instant::now();
        let done = work(index);
        (started, Instant::now(), done)
    };
    let timed = &timed;
    let all: Vec<(Instant, Instant, Result<T>)> = thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|index| scope.spawn(move || timed(index))).collect();
        handles.into_iter().map(|handle| handle.join().expect("a worker of a scenario does not panic")).collect()
    });
    let first = all.iter().map(|(started, ..)| *started).min().expect("there are threads");
    let last = all.iter().map(|(_, ended, _)| *ended).max().expect("there are threads");
    let done: Result<Vec<T>> = all.into_iter().map(|(.., done)| done).collect();
    Ok(((last - first).as_secs_f64(), done?))
}

/// Returns how many cores this process may use.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// A commit of so many edits is shared out among threads …
const SHARED_EDITS: u64 = 16_384;
/// … where its widest directory changes in so many entries.
const SHARED_ENTRIES: u64 = 8_192;

/// Returns how many threads make a commit of so many edits of one directory, of which so many are of different entries, in a repository
/// that was not told: all cores from some size on.
pub(crate) fn commit_threads(edits: u64, entries: u64) -> u64 {
    if edits >= SHARED_EDITS && entries >= SHARED_ENTRIES { cores() as u64 } else { 1 }
}

/// Returns the bytes of the files in a folder and below; what cannot be read counts for nothing.
pub(crate) fn folder_bytes(dir: &Path) -> u64 {
    sum_of_files(dir, fs::Metadata::len)
}

/// Returns the bytes of the disk that the files in a folder and below take, as far as the system tells: parts that were never
/// written take none.
pub(crate) fn folder_disk_bytes(dir: &Path) -> u64 {
    #[cfg(unix)]
    let bytes = |metadata: &fs::Metadata| std::os::unix::fs::MetadataExt::blocks(metadata) * 512;
    #[cfg(not(unix))]
    let bytes = fs::Metadata::len;
    sum_of_files(dir, bytes)
}

fn sum_of_files(dir: &Path, of: fn(&fs::Metadata) -> u64) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let bytes = |entry: fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => sum_of_files(&entry.path(), of),
        Ok(kind) if kind.is_file() => entry.metadata().map_or(0, |metadata| of(&metadata)),
        _ => 0,
    };
    entries.map(bytes).sum()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_was_never_written_of_a_file_takes_nothing_of_the_disk() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("below")).unwrap();
        fs::write(dir.path().join("below/written"), [1; 100_000]).unwrap();
        fs::File::create(dir.path().join("sparse")).unwrap().set_len(10_000_000).unwrap();
        assert_eq!(folder_bytes(dir.path()), 10_100_000);
        if cfg!(target_os = "linux") {
            let taken = folder_disk_bytes(dir.path());
            assert!((100_000..1_000_000).contains(&taken), "{taken}");
        }
    }

    #[test]
    fn percentiles_are_ranks() {
        let sorted: Vec<u64> = (1..=100).collect();
        assert_eq!(percentile(&sorted, 50), Some(50));
        assert_eq!(percentile(&sorted, 99), Some(99));
        assert_eq!(percentile(&[7], 99), Some(7));
        assert_eq!(percentile(&[], 99), None);
    }

    #[test]
    fn large_commits_have_all_cores() {
        let all = cores() as u64;
        let found = [(16_383, 16_383), (16_384, 8_191), (16_384, 8_192), (50_000, 50_000)];
        assert_eq!(found.map(|(edits, entries)| commit_threads(edits, entries)), [1, 1, all, all]);
    }

    #[test]
    fn threads_return_in_order_and_the_last_one_ends_the_time() {
        let longest = Duration::from_millis(60);
        let (seconds, done) = together(3, |index| {
            // The first thread is the last to end.
            thread::sleep(longest / (index as u32 + 1));
            Ok(index * 10)
        })
        .unwrap();
        assert_eq!(done, [0, 10, 20]);
        assert!(seconds >= longest.as_secs_f64(), "{seconds}");
    }
}
