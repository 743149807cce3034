//! Commits of one entry each to a store of ours that keeps its last commits, in slices with collections and without in turn.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use bristlecone::{Branch, Durability, Info, LogOptions, Map, Native, Repo, SweepLimits, disk::DiskOptions};

use super::{FORMAT, GcArgs, VALUE_BYTES, key, lines, load, mega, samples::Samples, value};
use crate::{
    error::Result,
    machine::Machine,
    measure::{Run, folder_disk_bytes},
    report::{GcFigures, GcSample, Row},
    rss::{Peak, Sampler},
    workload::Random,
};

/// After so many commits the sizes of files are looked at.
const SAMPLED_EVERY: u64 = 256;
/// What files may take beyond 1.3 times what is live: so many segments.
const SEGMENTS: u64 = 5;

/// A store that is committed to.
pub(super) struct Churn {
    dir: PathBuf,
    repo: Repo<Native>,
    branch: Branch<Native>,
    map: Map,
    durability: Durability,
    entries: u64,
    retain: usize,
    segment_bytes: u64,
    // How often each entry was replaced.
    values: Vec<u32>,
    // All commits, that of the load among them.
    commits: u64,
    random: Random,
}

/// What slices of one kind found.
#[derive(Default)]
struct Slices {
    // What each commit took, unless there are samples, which know: of an hour that would be more memory than the store takes.
    nanoseconds: Vec<u64>,
    seconds: f64,
    largest: u64,
    largest_on_disk: u64,
    memory: Peak,
    // Commits per second of each slice.
    rates: Vec<f64>,
    // How it went over time, where that is kept.
    samples: Option<Samples>,
}

impl Churn {
    pub(super) fn new(dir: &Path, entries: u64, durability: Durability, retain: usize) -> Result<Self> {
        let options = DiskOptions::default();
        let segment_bytes = options.segment_bytes;
        let repo = Repo::create(dir, FORMAT, options)?;
        repo.set_retention(&format!("last {retain} refs/heads/*").parse()?)?;
        let branch = repo.branch("main")?;
        let mut map = load(&repo, entries)?;
        map.commit(&branch, &Info::unsigned("loaded"))?;
        let values = vec![0; entries as usize];
        let commits = 1;
        Ok(Self {
            dir: dir.to_owned(),
            repo,
            branch,
            map,
            durability,
            entries,
            retain,
            segment_bytes,
            values,
            commits,
            random: Random::new(entries),
        })
    }

    pub(super) fn measure(mut self, args: &GcArgs, machine: &Machine) -> Result<Vec<Row>> {
        let durability = self.durability.name();
        say_part!("{} entries, {durability}: ", self.entries);
        // Sizes and memory are those of collections alone: slices without them leave what takes a while to go.
        let (mut bare, mut sized) = (Slices::default(), Slices::default());
        self.repo.set_collecting(false);
        self.slice(Duration::from_secs(args.slice), u64::MAX, &mut bare)?;
        self.settle()?;
        self.repo.set_collecting(true);
        let time = Duration::from_secs(args.alone);
        sized.samples = Some(Samples::over(time));
        self.slice(time, args.alone_commits, &mut sized)?;
        let mut series = sized.samples.take().map(|samples| samples.finish(|| self.file_bytes())).unwrap_or_default();
        say_part!(", ");
        let (mut with, mut without) = (Slices::default(), Slices::default());
        for pair in 0..args.pairs {
            // In which order they come matters less if it changes.
            for on in [pair % 2 == 0, pair % 2 == 1] {
                self.repo.set_collecting(on);
                if !on {
                    self.repo.wait_for_collection()?;
                }
                let slices = if on { &mut with } else { &mut without };
                self.slice(Duration::from_secs(args.slice), u64::MAX, slices)?;
                if !on {
                    self.settle()?;
                }
            }
            say_part!(".");
        }
        self.repo.wait_for_collection()?;
        // It reads by a snapshot, and what that reads is kept.
        self.repo.wait_for_indexing();
        let started = Instant::now();
        let swept = self.repo.sweep(&[], &SweepLimits::default())?;
        let took = started.elapsed().as_secs_f64();
        let stats = self.repo.backend().stats();
        let live = stats.store_bytes;
        let bound = live * 13 / 10 + SEGMENTS * self.segment_bytes;
        say!(" check");
        let wrong = self.check()?;
        let told = [
            alone(&sized, &series),
            format!(
                "live {:.1} MB, largest files {:.1} MB with collections ({} 1.3 × live + {SEGMENTS} segments = {:.1} MB), of the disk {:.1} MB",
                mega(live),
                mega(sized.largest),
                if sized.largest <= bound { "within" } else { "beyond" },
                mega(bound),
                mega(sized.largest_on_disk),
            ),
            format!(
                "anonymous memory at most {:.1} MiB with collections alone, {:.1} MiB more than without any",
                sized.memory.anon_kb as f64 / 1024.0,
                sized.memory.anon_kb.saturating_sub(bare.memory.anon_kb) as f64 / 1024.0,
            ),
            format!(
                "commits/s with collections {:.2} × those without; p99.9 {:.0} and {:.0} µs; a full collection removed {:.1} MB in {took:.2} s",
                ratios(&with.rates, &without.rates),
                tail(&mut with.nanoseconds),
                tail(&mut without.nanoseconds),
                mega(swept.bytes),
            ),
        ];
        for line in lines(wrong.as_deref(), told) {
            say!("  {line}");
        }
        let mut rows = Vec::new();
        for (part, slices) in [("collected", with), ("uncollected", without)] {
            let mut run =
                Run { ops: slices.nanoseconds.len() as u64, seconds: slices.seconds, threads: 1, ..Run::default() };
            run.set_latencies(slices.nanoseconds);
            let peak = if part == "collected" { sized.memory } else { bare.memory };
            (run.store_bytes, run.file_bytes) =
                (live, if part == "collected" { sized.largest } else { slices.largest });
            (run.rss_anon_kb, run.rss_file_kb, run.maxrss_kb) = (peak.anon_kb, peak.file_kb, peak.max_kb);
            run.wrong.clone_from(&wrong);
            run.root = Some(self.map.root()?.to_string());
            let mut row = Row::of_runs(&run, std::slice::from_ref(&run), machine);
            row.backend = "disk".into();
            row.durability = durability.into();
            row.name = format!("disk {durability}");
            row.scenario = format!("gc-{part}-{}", self.entries);
            row.value_bytes = VALUE_BYTES as u64;
            row.checked = row.wrong.is_none();
            if part == "collected" {
                let series = std::mem::take(&mut series);
                row.gc = Some(Box::new(GcFigures { live_bytes: live, bound_bytes: Some(bound), series }));
            }
            rows.push(row);
        }
        Ok(rows)
    }

    /// Removes what came together without collections: that is no work of the next slice.
    fn settle(&mut self) -> Result<()> {
        self.repo.sweep(&[], &SweepLimits::default())?;
        // What this map reads by is let go with its next commit, and files then.
        for _ in 0..2 {
            self.slice(Duration::ZERO, 1, &mut Slices::default())?;
            self.repo.sweep(&[], &SweepLimits::default())?;
        }
        Ok(())
    }

    /// Commits for a while, once at least and so many times at most.
    fn slice(&mut self, time: Duration, commits_max: u64, slices: &mut Slices) -> Result<()> {
        let info = Info::unsigned("one entry").durability(self.durability);
        let sampler = Sampler::start();
        let began = Instant::now();
        let mut commits = 0;
        loop {
            let entry = self.random.below(self.entries);
            let number = &mut self.values[entry as usize];
            *number += 1;
            let value = value(entry, *number);
            let started = Instant::now();
            self.map.apply([(&key(entry)[..], Some(&value[..]))])?;
            self.map.commit(&self.branch, &info)?;
            let took = started.elapsed().as_nanos() as u64;
            commits += 1;
            match &mut slices.samples {
                Some(samples) => samples.commit(took, || self.file_bytes()),
                None => slices.nanoseconds.push(took),
            }
            if commits % SAMPLED_EVERY == 0 {
                self.look(slices);
            }
            if commits >= commits_max || began.elapsed() >= time {
                break;
            }
        }
        let seconds = began.elapsed().as_secs_f64();
        // Where commits are slow a slice has few of them.
        self.look(slices);
        self.commits += commits;
        slices.seconds += seconds;
        slices.memory = slices.memory.most(sampler.finish_sampled());
        slices.rates.push(commits as f64 / seconds);
        Ok(())
    }

    /// Looks at how large the files are.
    fn look(&self, slices: &mut Slices) {
        slices.largest = slices.largest.max(self.file_bytes());
        // It is told of commits with collections alone, and takes time.
        if slices.samples.is_none() {
            return;
        }
        slices.largest_on_disk = slices.largest_on_disk.max(folder_disk_bytes(&self.dir));
    }

    fn file_bytes(&self) -> u64 {
        self.repo.backend().stats().file_bytes
    }

    /// Compares every entry with what it should hold, and what is kept of history with the rule; returns what is wrong.
    fn check(&self) -> Result<Option<String>> {
        let map = self.branch.map()?;
        if map.len()? != self.entries {
            return Ok(Some(format!("{} entries, and there should be {}", map.len()?, self.entries)));
        }
        for entry in 0..self.entries {
            let wanted = value(entry, self.values[entry as usize]);
            if map.get(&key(entry))?.as_deref() != Some(&wanted[..]) {
                return Ok(Some(format!("entry {entry} holds something else")));
            }
        }
        let Some(head) = self.branch.head()? else { return Ok(Some("there is no head".into())) };
        let mut log = self.repo.log(&[head], LogOptions::default());
        let listed = log.try_fold(0, |count, commit| commit.map(|_| count + 1))?;
        let wanted = self.commits.min(self.retain as u64);
        if listed != wanted {
            return Ok(Some(format!("{listed} commits are kept, and there should be {wanted}")));
        }
        Ok(None)
    }
}

/// Returns what is told of commits with collections alone: a rate that falls, or files that grow, show in the thirds.
fn alone(sized: &Slices, series: &[GcSample]) -> String {
    let commits: u64 = series.iter().map(|sample| sample.commits).sum();
    let longest = series.iter().map(|sample| sample.commit_max_us).fold(0.0, f64::max) / 1e3;
    let third = |part: usize| {
        // The last sample may be a moment behind the last commit.
        let of = |sample: &&GcSample| ((sample.seconds * 3.0 / sized.seconds).ceil() as usize).clamp(1, 3) == part;
        let (commits, largest) = series
            .iter()
            .filter(of)
            .fold((0, 0), |(commits, largest), sample| (commits + sample.commits, sample.file_bytes.max(largest)));
        format!("{:.1} k/s, {:.0} MB", commits as f64 * 3.0 / sized.seconds / 1e3, mega(largest))
    };
    format!(
        "{commits} commits in {:.0} s with collections alone, the longest {longest:.1} ms; rate and largest sample by thirds: {}; {}; {}",
        sized.seconds,
        third(1),
        third(2),
        third(3),
    )
}

/// Returns the median of the ratios of rates, pair by pair; of two in the middle the smaller, as medians of rates are.
fn ratios(with: &[f64], without: &[f64]) -> f64 {
    let mut ratios: Vec<f64> = with.iter().zip(without).map(|(with, without)| with / without).collect();
    ratios.sort_unstable_by(f64::total_cmp);
    ratios.get(ratios.len().saturating_sub(1) / 2).copied().unwrap_or_default()
}

/// Returns what 999 of 1000 commits did not exceed, in microseconds.
fn tail(nanoseconds: &mut [u64]) -> f64 {
    nanoseconds.sort_unstable();
    let rank = (nanoseconds.len() * 999).div_ceil(1000).max(1);
    nanoseconds.get(rank - 1).map_or(0.0, |&ns| ns as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_of_fewer_commits_than_it_keeps_has_all_of_them() {
        let dir = tempfile::tempdir().unwrap();
        for retain in [100, 4] {
            let dir = dir.path().join(retain.to_string());
            let mut churn = Churn::new(&dir, 100, Durability::None, retain).unwrap();
            for _ in 0..3 {
                churn.slice(Duration::ZERO, 1, &mut Slices::default()).unwrap();
            }
            assert_eq!((churn.commits, churn.check().unwrap()), (4, None), "{retain}");
            churn.commits = 3;
            let wrong = "4 commits are kept, and there should be 3";
            assert_eq!(churn.check().unwrap().as_deref(), Some(wrong), "{retain}");
        }
    }

    #[test]
    fn slices_of_few_commits_have_looked_at_the_files() {
        let dir = tempfile::tempdir().unwrap();
        let mut churn = Churn::new(&dir.path().join("store"), 100, Durability::None, 4).unwrap();
        let mut slices = Slices::default();
        churn.slice(Duration::ZERO, 1, &mut slices).unwrap();
        assert_eq!(slices.nanoseconds.len(), 1);
        assert!(slices.largest > 0);
    }

    #[test]
    fn commits_alone_end_after_as_many_as_asked_for_and_are_told_by_thirds() {
        let dir = tempfile::tempdir().unwrap();
        let mut churn = Churn::new(&dir.path().join("store"), 100, Durability::None, 4).unwrap();
        let mut slices = Slices { samples: Some(Samples::over(Duration::from_secs(3600))), ..Slices::default() };
        churn.slice(Duration::from_secs(3600), 300, &mut slices).unwrap();
        assert!(slices.largest > 0 && slices.largest_on_disk > 0);
        let series = slices.samples.take().unwrap().finish(|| 0);
        let commits: u64 = series.iter().map(|sample| sample.commits).sum();
        assert_eq!((commits, slices.nanoseconds.len()), (300, 0));
        let sample = |seconds, commits, file_bytes, commit_max_us| GcSample {
            seconds,
            commits,
            file_bytes,
            commit_p50_us: 1.0,
            commit_p99_us: 2.0,
            commit_max_us,
        };
        let series = [
            sample(10.0, 20_000, 3_000_000, 4_000.0),
            sample(20.0, 10_000, 2_000_000, 9_500.0),
            sample(30.0, 5_000, 1_000_000, 3_000.0),
        ];
        let sized = Slices { seconds: 30.0, ..Slices::default() };
        assert_eq!(
            alone(&sized, &series),
            "35000 commits in 30 s with collections alone, the longest 9.5 ms; rate and largest sample by thirds: 2.0 k/s, 3 MB; 1.0 k/s, 2 MB; 0.5 k/s, 1 MB"
        );
    }

    #[test]
    fn of_two_ratios_in_the_middle_the_smaller_counts() {
        assert_eq!(ratios(&[9.0, 2.0, 3.0, 1.0], &[1.0; 4]), 2.0);
        assert_eq!(ratios(&[4.0, 2.0, 3.0], &[2.0; 3]), 1.5);
        assert_eq!(ratios(&[], &[]), 0.0);
    }
}
