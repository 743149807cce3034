//! The limits of this run: what the disk, the hash and the memory of the machine do right now.
//!
//! They are the first rows of every run, so that each result can be read as a share of the one that bounds
//! it. Durable figures do not carry over between machines, nor between hours of one.

use std::{
    fs::{self, File, OpenOptions},
    hint::black_box,
    os::unix::fs::FileExt,
    path::Path,
    time::{Duration, Instant},
};

use bristlecone::{
    Kind,
    core::git::Algorithm,
    storage::{OpenMode, RealStorage, Storage},
};

use crate::{
    BenchError,
    error::Result,
    measure::{Run, percentile},
    workload::Random,
};

pub(crate) mod bare;

/// What is written for each sync.
const SYNCED_BYTES: usize = 4096;
/// Syncs measured, unless the time is up before.
const SYNCS: usize = 400;
/// Mapped reads go to random places of a file of this size.
const MAPPED_BYTES: u64 = 20 << 20;
const MAPPED_READ_BYTES: usize = 100;
const MAPPED_READS_BURST: usize = 10_000;
/// Copies beyond every cache, and within the second level's.
const COPY_BYTES: usize = 64 << 20;
/// Sizes whose hashing is measured.
const HASHED_BYTES: [usize; 4] = [64, 1 << 10, 10_000, 64 << 10];

/// How long limits are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// The longest time for syncs of one kind.
    syncs: Duration,
    /// The time for each figure of processor and memory.
    each: Duration,
}

impl Effort {
    /// For figures that results are shared by.
    pub const FULL: Self = Self { syncs: Duration::from_millis(1500), each: Duration::from_millis(100) };
    /// For a first look.
    pub const QUICK: Self = Self { syncs: Duration::from_millis(60), each: Duration::from_millis(10) };
}

/// One limit, as it is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitRow {
    /// What was measured.
    pub scenario: String,
    /// The bytes of one operation.
    pub bytes: usize,
    /// The measurement.
    pub run: Run,
}

/// What bounds results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// Mean seconds to append 4 KB and sync.
    pub sync_append: f64,
    /// Mean seconds to write 4 KB into a file of zeroes and sync.
    pub sync_prezeroed: f64,
    /// Seconds to hash, for each of the sizes measured, in bytes.
    pub hash: Vec<(usize, f64)>,
    /// Seconds to hash a Git object by SHA-1, for each of the sizes measured, in bytes.
    pub sha1: Vec<(usize, f64)>,
    /// Bytes copied in a second.
    pub copy: f64,
    /// Seconds to read 100 bytes at a random place of a mapped file of 20 MiB.
    pub mapped_read: f64,
}

impl Limits {
    /// Measures everything in `dir`, and returns it with the rows to be shown.
    ///
    /// # Errors
    /// [`BenchError::Io`].
    pub fn measure(dir: &Path, effort: Effort) -> Result<(Self, Vec<LimitRow>)> {
        let mut limits = Self::default();
        let mut rows = Vec::new();
        let mut push = |scenario: String, bytes, run| rows.push(LimitRow { scenario, bytes, run });
        let append = syncs(dir, false, effort)?;
        limits.sync_append = append.seconds / append.ops as f64;
        push("fdatasync-append-4KB".into(), SYNCED_BYTES, append);
        let prezeroed = syncs(dir, true, effort)?;
        limits.sync_prezeroed = prezeroed.seconds / prezeroed.ops as f64;
        push("fdatasync-prezeroed-4KB".into(), SYNCED_BYTES, prezeroed);
        for bytes in HASHED_BYTES {
            let input = vec![7_u8; bytes];
            let run = repeat(effort, || _ = black_box(blake3::hash(black_box(&input))));
            limits.hash.push((bytes, run.seconds / run.ops as f64));
            push(format!("blake3-{}", binary_size(bytes)), bytes, run);
        }
        for bytes in HASHED_BYTES {
            let input = vec![7_u8; bytes];
            let id = || Algorithm::Sha1.object_id(Kind::Contents, black_box(&input));
            let run = repeat(effort, || _ = black_box(id()));
            limits.sha1.push((bytes, run.seconds / run.ops as f64));
            push(format!("sha1-{}", binary_size(bytes)), bytes, run);
        }
        let (from, mut to) = (vec![1_u8; COPY_BYTES], vec![2_u8; COPY_BYTES]);
        let run = repeat(effort, || to.copy_from_slice(black_box(&from)));
        black_box(&to);
        limits.copy = COPY_BYTES as f64 * run.ops as f64 / run.seconds;
        push("memory-copy-64MB".into(), COPY_BYTES, run);
        let run = mapped_reads(dir, effort)?;
        limits.mapped_read = run.seconds / run.ops as f64;
        push("mapped-read-100B-of-20MiB".into(), MAPPED_READ_BYTES, run);
        Ok((limits, rows))
    }

    /// Returns these limits with the mean time of a sync into zeroes as it is now: what a disk takes drifts
    /// within a run, and a durable row is read beside what syncs took just before and after it.
    ///
    /// # Errors
    /// [`BenchError::Io`].
    pub fn with_sync_now(&self, dir: &Path) -> Result<Self> {
        Ok(Self { sync_prezeroed: sync_now(dir)?, ..self.clone() })
    }

    /// Returns the seconds that hashing takes for each byte of objects of about this size.
    #[must_use]
    pub fn hash_per_byte(&self, bytes: usize) -> f64 {
        per_byte(&self.hash, bytes)
    }

    /// Returns the seconds that hashing by SHA-1 takes for each byte of Git objects of about this size.
    #[must_use]
    pub fn sha1_per_byte(&self, bytes: usize) -> f64 {
        per_byte(&self.sha1, bytes)
    }
}

/// Returns the mean seconds of a sync of 4 KB into zeroes as it is now.
///
/// # Errors
/// [`BenchError::Io`].
pub(crate) fn sync_now(dir: &Path) -> Result<f64> {
    let run = syncs(dir, true, Effort::QUICK)?;
    Ok(run.seconds / run.ops as f64)
}

fn per_byte(hash: &[(usize, f64)], bytes: usize) -> f64 {
    let nearest = hash.iter().min_by_key(|(measured, _)| measured.abs_diff(bytes));
    nearest.map_or(0.0, |(measured, seconds)| seconds / *measured as f64)
}

fn binary_size(bytes: usize) -> String {
    if bytes.is_multiple_of(1024) { format!("{}KB", bytes / 1024) } else { format!("{bytes}B") }
}

/// Writes 4 KB and syncs, again and again.
fn syncs(dir: &Path, prezeroed: bool, effort: Effort) -> Result<Run> {
    let path = dir.join(format!("limits-{}.tmp", std::process::id()));
    let run = sync_file(&path, prezeroed, effort).map_err(BenchError::io(&path));
    let _ = fs::remove_file(&path);
    run
}

fn sync_file(path: &Path, prezeroed: bool, effort: Effort) -> std::io::Result<Run> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
    if prezeroed {
        file.write_all_at(&vec![0; SYNCS * SYNCED_BYTES], 0)?;
    }
    file.sync_all()?;
    let bytes = vec![0xa5; SYNCED_BYTES];
    let mut nanoseconds = Vec::with_capacity(SYNCS);
    let started = Instant::now();
    let mut last = started;
    for i in 0..SYNCS {
        file.write_all_at(&bytes, (i * SYNCED_BYTES) as u64)?;
        file.sync_data()?;
        let now = Instant::now();
        nanoseconds.push((now - last).as_nanos() as u64);
        last = now;
        if now - started > effort.syncs {
            break;
        }
    }
    let mut run = Run { ops: nanoseconds.len() as u64, seconds: (last - started).as_secs_f64(), ..Run::default() };
    nanoseconds.sort_unstable();
    run.p50_us = percentile(&nanoseconds, 50).map(|ns| ns as f64 / 1e3);
    run.p99_us = percentile(&nanoseconds, 99).map(|ns| ns as f64 / 1e3);
    run.threads = 1;
    Ok(run)
}

/// Repeats something for a while, in bursts so that the clock is read seldom.
fn repeat(effort: Effort, mut each: impl FnMut()) -> Run {
    each();
    let mut burst = 1;
    let (mut ops, started) = (0_u64, Instant::now());
    loop {
        for _ in 0..burst {
            each();
        }
        ops += burst;
        let elapsed = started.elapsed();
        if elapsed > effort.each {
            return Run { ops, seconds: elapsed.as_secs_f64(), threads: 1, ..Run::default() };
        }
        if elapsed < effort.each / 16 {
            burst *= 2;
        }
    }
}

/// Reads 100 bytes at random places of a mapped file.
fn mapped_reads(dir: &Path, effort: Effort) -> Result<Run> {
    let name = format!("limits-map-{}.tmp", std::process::id());
    let path = dir.join(&name);
    let run = read_map(dir, &name, effort).map_err(BenchError::io(&path));
    let _ = fs::remove_file(&path);
    run
}

fn read_map(dir: &Path, name: &str, effort: Effort) -> std::io::Result<Run> {
    File::create(dir.join(name))?.write_all_at(&vec![3; MAPPED_BYTES as usize], 0)?;
    let file = RealStorage::new(dir).open(name, OpenMode::Read)?;
    let Some(map) = file.map(MAPPED_BYTES)? else { return Err(std::io::ErrorKind::Unsupported.into()) };
    // The first touch of each page is not what is measured.
    let mut sum: u64 = map.chunks(4096).map(|page| u64::from(page[0])).sum();
    let mut random = Random::new(1);
    let mut buffer = [0; MAPPED_READ_BYTES];
    let mut run = repeat(effort, || {
        for _ in 0..MAPPED_READS_BURST {
            // The place depends on what was read before, as it does in a tree.
            let place = random.below(MAPPED_BYTES - MAPPED_READ_BYTES as u64 - 1) as usize + usize::from(buffer[7] & 1);
            buffer.copy_from_slice(&map[place..place + MAPPED_READ_BYTES]);
            sum += u64::from(black_box(&buffer)[50]);
        }
    });
    black_box(sum);
    run.ops *= MAPPED_READS_BURST as u64;
    Ok(run)
}

/// Returns what one look at the clock costs, in nanoseconds, on average.
pub(crate) fn clock_cost() -> f64 {
    const LOOKS: u32 = 100_000;
    let started = Instant::now();
    (0..LOOKS).for_each(|_| _ = black_box(Instant::now()));
    started.elapsed().as_nanos() as f64 / f64::from(LOOKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_figures() {
        let dir = tempfile::tempdir().unwrap();
        let (limits, rows) = Limits::measure(dir.path(), Effort::QUICK).unwrap();
        assert!(limits.sync_append > 0.0 && limits.sync_prezeroed > 0.0 && limits.copy > 0.0);
        assert!(limits.mapped_read > 0.0 && limits.mapped_read < 1e-4);
        assert!(limits.hash_per_byte(20) > limits.hash_per_byte(65_536));
        for name in ["blake3-64KB", "sha1-64KB"] {
            assert!(rows.iter().any(|row| row.scenario == name), "{name}");
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "no file is left");
    }
}
