//! Doing the reads of a job, by system call or from a map, and timing them.
//!
//! Places are drawn beforehand, some thousand at a time, outside of the time that counts. Every byte read is
//! added to a checksum, so that nothing can be left out. A job is done twice: with the clock read after
//! each read, which gives latencies, and without, which shows what the clock itself costs.

use std::{
    fs::File,
    hint::black_box,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use bristlecone::storage::{FileMap, OpenMode, RealStorage, Storage};
use rustix::fs::{Advice, fadvise};

use super::{
    iolog::Recording,
    job::{Engine, Job, Pattern, Source},
    latency::Latencies,
    pattern::{RandomReads, Read},
};
use crate::{BenchError, error::Result, measure::together};

/// Reads that are drawn at a time: 32 KiB of places, which fit beside what is read in any cache.
const CHUNK: usize = 2048;

/// What one pass over a job did.
#[derive(Clone, Debug)]
pub(crate) struct Pass {
    pub(crate) reads: u64,
    pub(crate) bytes: u64,
    /// The time within reads, of the thread that took longest.
    pub(crate) seconds: f64,
    /// Of all bytes read, in whatever order; equal for equal work.
    pub(crate) checksum: u64,
    pub(crate) latencies: Latencies,
}

/// Both passes over a job by one engine.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) timed: Pass,
    /// The same without a clock; absent where the cache is cold, where the clock is nothing.
    pub(crate) untimed: Option<Pass>,
}

/// The files of a job and its longest read, in bytes.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) bytes_max: u64,
}

/// Does a job by one engine: one loop that does not count, then all of it timed, then all of it untimed.
///
/// # Errors
/// [`BenchError::Io`].
pub(crate) fn measure(job: &Job, files: &Files, engine: Engine) -> Result<Measured> {
    match engine {
        Engine::Psync => passes::<Calls>(job, files),
        Engine::Mmap => passes::<Maps>(job, files),
    }
}

fn passes<R: Reader>(job: &Job, files: &Files) -> Result<Measured> {
    if job.cold {
        return Ok(Measured { timed: pass::<R, true>(job, files)?, untimed: None });
    }
    if let Source::Random(pattern) = &job.source {
        read_through(pattern).map_err(BenchError::io(&pattern.file))?;
    }
    let once = Job { loops: 1, time_based: false, ..job.clone() };
    pass::<R, false>(&once, files)?;
    Ok(Measured { timed: pass::<R, true>(job, files)?, untimed: Some(pass::<R, false>(job, files)?) })
}

fn pass<R: Reader, const TIMED: bool>(job: &Job, files: &Files) -> Result<Pass> {
    let (_, passes) = together(job.threads, |thread| one_thread::<R, TIMED>(job, files, thread))?;
    let mut passes = passes.into_iter();
    let mut whole = passes.next().expect("a job has threads");
    for pass in passes {
        whole.reads += pass.reads;
        whole.bytes += pass.bytes;
        whole.seconds = whole.seconds.max(pass.seconds);
        whole.checksum = whole.checksum.wrapping_add(pass.checksum);
        whole.latencies.merge(&pass.latencies);
    }
    Ok(whole)
}

fn one_thread<R: Reader, const TIMED: bool>(job: &Job, files: &Files, thread: usize) -> Result<Pass> {
    let mut plan = Plan::new(job, thread)?;
    let mut pass = Pass { reads: 0, bytes: 0, seconds: 0.0, checksum: 0, latencies: Latencies::new() };
    let mut buffer = vec![0; files.bytes_max as usize];
    let mut chunk = Vec::with_capacity(CHUNK);
    let limit = job.seconds.map_or(Duration::MAX, Duration::from_secs);
    let mut time = Duration::ZERO;
    let mut reader = R::open(&files.paths)?;
    let mut loops = 0;
    while (job.time_based || loops < job.loops) && time < limit {
        if job.cold {
            drop(reader);
            forget(&files.paths)?;
            reader = R::open(&files.paths)?;
        }
        plan.restart()?;
        while time < limit {
            plan.fill(&mut chunk)?;
            if chunk.is_empty() {
                break;
            }
            time += if TIMED {
                timed(&reader, &chunk, &mut buffer, &mut pass)
            } else {
                untimed(&reader, &chunk, &mut buffer, &mut pass)
            }
            .map_err(|(file, error)| BenchError::io(&files.paths[file as usize])(error))?;
            pass.reads += chunk.len() as u64;
            pass.bytes += chunk.iter().map(|read| u64::from(read.bytes)).sum::<u64>();
        }
        loops += 1;
    }
    pass.seconds = time.as_secs_f64();
    Ok(pass)
}

/// Why a read failed, with the index of its file.
type Failed = (u32, io::Error);

/// Reads with the clock read once after each: a latency is all that was done since the one before.
#[inline(never)]
fn timed<R: Reader>(reader: &R, chunk: &[Read], buffer: &mut [u8], pass: &mut Pass) -> Result<Duration, Failed> {
    let started = Instant::now();
    let (mut last, mut checksum) = (started, pass.checksum);
    for read in chunk {
        checksum = checksum.wrapping_add(reader.read(read, buffer).map_err(|error| (read.file, error))?);
        let now = Instant::now();
        pass.latencies.add((now - last).as_nanos() as u64);
        last = now;
    }
    pass.checksum = checksum;
    Ok(last - started)
}

#[inline(never)]
fn untimed<R: Reader>(reader: &R, chunk: &[Read], buffer: &mut [u8], pass: &mut Pass) -> Result<Duration, Failed> {
    let started = Instant::now();
    let mut checksum = pass.checksum;
    for read in chunk {
        checksum = checksum.wrapping_add(reader.read(read, buffer).map_err(|error| (read.file, error))?);
    }
    pass.checksum = black_box(checksum);
    Ok(started.elapsed())
}

/// The reads of a job, loop by loop.
enum Plan {
    Random(RandomReads),
    Recorded(Recording),
}

impl Plan {
    /// Threads draw different places, and repeat the same recording.
    fn new(job: &Job, thread: usize) -> Result<Self> {
        Ok(match &job.source {
            Source::Random(pattern) => Self::Random(RandomReads::new(pattern, job.seed.wrapping_add(thread as u64))),
            Source::Recorded(file) => Self::Recorded(Recording::open(file)?),
        })
    }

    fn restart(&mut self) -> Result<()> {
        match self {
            Self::Random(reads) => reads.restart(),
            Self::Recorded(recording) => recording.restart()?,
        }
        Ok(())
    }

    /// Replaces the chunk by the next reads; none are left at the end of the loop.
    fn fill(&mut self, chunk: &mut Vec<Read>) -> Result<()> {
        chunk.clear();
        while chunk.len() < CHUNK {
            let read = match self {
                Self::Random(reads) => reads.next(),
                Self::Recorded(recording) => recording.next()?,
            };
            match read {
                Some(read) => chunk.push(read),
                None => break,
            }
        }
        Ok(())
    }
}

/// Open files that are read from.
trait Reader: Sized {
    fn open(paths: &[PathBuf]) -> Result<Self>;

    /// Reads, and returns the sum of what was read.
    fn read(&self, read: &Read, buffer: &mut [u8]) -> io::Result<u64>;
}

struct Calls(Vec<File>);

impl Reader for Calls {
    fn open(paths: &[PathBuf]) -> Result<Self> {
        let open = |path: &PathBuf| -> io::Result<File> {
            let file = File::open(path)?;
            // As fio does: nothing is read ahead that nobody asked for.
            fadvise(&file, 0, None, Advice::Random)?;
            Ok(file)
        };
        paths.iter().map(|path| open(path).map_err(BenchError::io(path))).collect::<Result<_>>().map(Self)
    }

    #[inline]
    fn read(&self, read: &Read, buffer: &mut [u8]) -> io::Result<u64> {
        let buffer = &mut buffer[..read.bytes as usize];
        self.0[read.file as usize].read_exact_at(buffer, read.offset)?;
        Ok(sum(buffer))
    }
}

/// Maps as the disk engine makes them, without advice.
struct Maps(Vec<FileMap>);

impl Reader for Maps {
    fn open(paths: &[PathBuf]) -> Result<Self> {
        let map = |path: &Path| -> io::Result<FileMap> {
            let (Some(dir), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
                return Err(io::ErrorKind::InvalidFilename.into());
            };
            let file = RealStorage::new(dir).open(name, OpenMode::Read)?;
            file.map(file.len()?)?.ok_or_else(|| io::ErrorKind::Unsupported.into())
        };
        paths.iter().map(|path| map(path).map_err(BenchError::io(path))).collect::<Result<_>>().map(Self)
    }

    #[inline]
    fn read(&self, read: &Read, _: &mut [u8]) -> io::Result<u64> {
        let (start, bytes) = (read.offset as usize, read.bytes as usize);
        let bytes = self.0[read.file as usize].get(start..start.saturating_add(bytes));
        bytes.map(sum).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

/// Adds bytes up, eight at a time.
#[inline(always)]
fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let words = words.iter().fold(0_u64, |sum, word| sum.wrapping_add(u64::from_le_bytes(*word)));
    rest.iter().fold(words, |sum, byte| sum.wrapping_add(u64::from(*byte)))
}

/// Brings a span into the page cache from its start to its end, as fio's `pre_read` does. Read at random it would
/// be cached in single pages, which are found more slowly.
fn read_through(pattern: &Pattern) -> io::Result<()> {
    let file = File::open(&pattern.file)?;
    let mut buffer = vec![0; 1 << 20];
    let mut done = 0;
    while done < pattern.span {
        let bytes = (pattern.span - done).min(buffer.len() as u64) as usize;
        file.read_exact_at(&mut buffer[..bytes], pattern.offset + done)?;
        done += bytes as u64;
    }
    Ok(())
}

/// Drops files from the page cache, as far as nobody else has them mapped or has written to them.
fn forget(paths: &[PathBuf]) -> Result<()> {
    for path in paths {
        let dropped = File::open(path).and_then(|file| Ok(fadvise(&file, 0, None, Advice::DontNeed)?));
        dropped.map_err(BenchError::io(path))?;
    }
    Ok(())
}

/// Returns what one look at the clock costs, in nanoseconds: the best of some bursts.
pub(crate) fn clock_cost() -> f64 {
    const LOOKS: u32 = 10_000;
    let burst = |_| {
        let started = Instant::now();
        for _ in 0..LOOKS {
            black_box(Instant::now());
        }
        started.elapsed().as_nanos() as f64 / f64::from(LOOKS)
    };
    (0..10).map(burst).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::size::Sizes;

    fn job(file: &Path) -> Job {
        let pattern = Pattern {
            file: file.to_owned(),
            offset: 0,
            span: 100_000,
            sizes: Sizes { min: 50, max: 300 },
            unaligned: false,
            map: true,
        };
        Job {
            source: Source::Random(pattern),
            engines: Engine::ALL.to_vec(),
            loops: 3,
            seconds: None,
            time_based: false,
            threads: 1,
            seed: 1,
            cold: false,
        }
    }

    #[test]
    fn both_engines_read_every_byte_of_the_span_in_every_loop() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("data");
        std::fs::write(&file, vec![1; 120_000]).unwrap();
        let files = Files { paths: vec![file.clone()], bytes_max: 300 };
        for threads in [1, 2] {
            for cold in [false, true] {
                let job = Job { threads, cold, ..job(&file) };
                let [calls, maps] = Engine::ALL.map(|engine| measure(&job, &files, engine).unwrap());
                assert_eq!(calls.timed.checksum, maps.timed.checksum);
                for measured in [&calls, &maps] {
                    assert_eq!(measured.timed.bytes, 3 * 100_000 * threads as u64);
                    assert_eq!(measured.timed.latencies.summary().samples, measured.timed.reads);
                    assert!(measured.timed.seconds > 0.0);
                    assert_eq!(measured.untimed.is_none(), cold);
                    assert!(measured.untimed.as_ref().is_none_or(|pass| pass.checksum == measured.timed.checksum));
                }
            }
        }
    }

    #[test]
    fn time_ends_a_job_and_keeps_it_going() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("data");
        std::fs::write(&file, vec![1; 120_000]).unwrap();
        let files = Files { paths: vec![file.clone()], bytes_max: 300 };
        let job = Job { loops: 1, seconds: Some(1), time_based: true, cold: true, ..job(&file) };
        let measured = measure(&job, &files, Engine::Mmap).unwrap();
        assert!(measured.timed.seconds >= 1.0 && measured.timed.bytes > 100_000);
    }

    #[test]
    fn a_file_that_became_shorter_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("data");
        std::fs::write(&file, vec![1; 50_000]).unwrap();
        let files = Files { paths: vec![file.clone()], bytes_max: 300 };
        for engine in Engine::ALL {
            let error = measure(&job(&file), &files, engine).unwrap_err();
            assert!(matches!(error, BenchError::Io { .. }), "{error}");
        }
    }

    #[test]
    fn sums_count_every_byte() {
        let bytes: Vec<u8> = (0..=255).collect();
        for length in 0..100 {
            let one = sum(&bytes[..length]);
            let mut changed = bytes[..length].to_vec();
            for at in 0..length {
                changed[at] ^= 1;
                assert_ne!(sum(&changed), one, "{length} {at}");
                changed[at] ^= 1;
            }
        }
    }
}
