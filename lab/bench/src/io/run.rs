//! Doing the reads of a job, by system call or from a map, and timing them.
//!
//! Places are drawn beforehand, some thousand at a time, outside of the time that counts. Every byte read is added to a
//! checksum, so that nothing can be left out. A job is done twice: with the clock read after each read, which gives
//! latencies, and without, which shows what the clock itself costs.

use std::{
    fs::File,
    hint::black_box,
    io,
    os::unix::fs::FileExt,
    time::{Duration, Instant},
};

use bristlecone::storage::{FileMap, OpenMode, RealStorage, Storage};
use hdrhistogram::Histogram;
use rustix::fs::{Advice, fadvise};

use super::{
    job::{Engine, ReadJob},
    reads::Places,
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
    /// What each read took, in nanoseconds, within 1 %; up to a minute.
    pub(crate) latencies: Histogram<u64>,
}

/// Does a job by one engine: one loop that does not count, then all of it timed, then all of it untimed. Where the cache is
/// cold there is no untimed pass: beside the disk the clock is nothing.
///
/// # Errors
/// [`BenchError::Io`].
pub(crate) fn measure(job: &ReadJob, engine: Engine) -> Result<(Pass, Option<Pass>)> {
    match engine {
        Engine::Psync => passes::<File>(job),
        Engine::Mmap => passes::<FileMap>(job),
    }
}

fn passes<R: Reader>(job: &ReadJob) -> Result<(Pass, Option<Pass>)> {
    if job.cold {
        return Ok((pass::<R, true>(job)?, None));
    }
    read_through(job).map_err(BenchError::io(&job.file))?;
    pass::<R, false>(&ReadJob { loops: 1, seconds: None, ..job.clone() })?;
    Ok((pass::<R, true>(job)?, Some(pass::<R, false>(job)?)))
}

fn pass<R: Reader, const TIMED: bool>(job: &ReadJob) -> Result<Pass> {
    let one = |thread| one_thread::<R, TIMED>(job, thread).map_err(BenchError::io(&job.file));
    let (_, passes) = together(job.threads, one)?;
    let add = |mut whole: Pass, pass: Pass| {
        whole.reads += pass.reads;
        whole.bytes += pass.bytes;
        whole.seconds = whole.seconds.max(pass.seconds);
        whole.checksum = whole.checksum.wrapping_add(pass.checksum);
        whole.latencies.add(&pass.latencies).expect("all have the same bounds");
        whole
    };
    Ok(passes.into_iter().reduce(add).expect("a job has threads"))
}

fn one_thread<R: Reader, const TIMED: bool>(job: &ReadJob, thread: usize) -> io::Result<Pass> {
    let latencies = Histogram::new_with_bounds(1, 60_000_000_000, 2).expect("these are bounds");
    let mut pass = Pass { reads: 0, bytes: 0, seconds: 0.0, checksum: 0, latencies };
    let mut buffer = vec![0; job.sizes.1 as usize];
    let mut chunk = Vec::with_capacity(CHUNK);
    let limit = job.seconds.map_or(Duration::MAX, Duration::from_secs);
    let (mut time, mut loops) = (Duration::ZERO, 0);
    let mut reader = R::open(job)?;
    while time < limit && (job.seconds.is_some() || loops < job.loops) {
        if job.cold {
            drop(reader);
            // Apart from what other processes have mapped, or has still to be written.
            fadvise(File::open(&job.file)?, 0, None, Advice::DontNeed)?;
            reader = R::open(job)?;
        }
        let mut places = Places::new(job, thread);
        while time < limit {
            chunk.clear();
            chunk.extend(places.by_ref().take(CHUNK));
            if chunk.is_empty() {
                break;
            }
            time += read_all::<R, TIMED>(&reader, &chunk, &mut buffer, &mut pass)?;
        }
        loops += 1;
    }
    pass.seconds = time.as_secs_f64();
    Ok(pass)
}

/// Does some reads; with the clock read once after each, a latency is all that was done since the one before.
#[inline(never)]
fn read_all<R: Reader, const TIMED: bool>(
    reader: &R,
    chunk: &[(u64, u32)],
    buffer: &mut [u8],
    pass: &mut Pass,
) -> io::Result<Duration> {
    let started = Instant::now();
    let (mut last, mut checksum) = (started, pass.checksum);
    for &(offset, bytes) in chunk {
        checksum = checksum.wrapping_add(reader.sum_at(offset, bytes as usize, buffer)?);
        if TIMED {
            let now = Instant::now();
            pass.latencies.saturating_record((now - last).as_nanos() as u64);
            last = now;
        }
    }
    pass.checksum = black_box(checksum);
    let time = if TIMED { last - started } else { started.elapsed() };
    pass.reads += chunk.len() as u64;
    pass.bytes += chunk.iter().map(|(_, bytes)| u64::from(*bytes)).sum::<u64>();
    Ok(time)
}

/// An open file that is read from.
trait Reader: Sized {
    fn open(job: &ReadJob) -> io::Result<Self>;

    /// Reads, and returns the sum of what was read.
    fn sum_at(&self, offset: u64, bytes: usize, buffer: &mut [u8]) -> io::Result<u64>;
}

impl Reader for File {
    fn open(job: &ReadJob) -> io::Result<Self> {
        let file = Self::open(&job.file)?;
        // As fio does: at random places the system reads nothing ahead.
        fadvise(&file, 0, None, if job.sequential { Advice::Sequential } else { Advice::Random })?;
        Ok(file)
    }

    #[inline]
    fn sum_at(&self, offset: u64, bytes: usize, buffer: &mut [u8]) -> io::Result<u64> {
        self.read_exact_at(&mut buffer[..bytes], offset)?;
        Ok(sum(&buffer[..bytes]))
    }
}

/// A map as the disk engine makes it, without advice.
impl Reader for FileMap {
    fn open(job: &ReadJob) -> io::Result<Self> {
        let (Some(dir), Some(name)) = (job.file.parent(), job.file.file_name().and_then(|name| name.to_str())) else {
            return Err(io::ErrorKind::InvalidFilename.into());
        };
        let file = RealStorage::new(dir).open(name, OpenMode::Read)?;
        file.map(file.len()?)?.ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    #[inline]
    fn sum_at(&self, offset: u64, bytes: usize, _: &mut [u8]) -> io::Result<u64> {
        let start = offset as usize;
        self.get(start..start.saturating_add(bytes)).map(sum).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

/// Adds bytes up, eight at a time.
#[inline(always)]
fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let words = words.iter().fold(0_u64, |sum, word| sum.wrapping_add(u64::from_le_bytes(*word)));
    rest.iter().fold(words, |sum, byte| sum.wrapping_add(u64::from(*byte)))
}

/// Brings a span into the page cache from its start to its end, as fio's `pre_read` does. Read at random it would be cached
/// in single pages, which are found more slowly.
fn read_through(job: &ReadJob) -> io::Result<()> {
    let file = File::open(&job.file)?;
    let mut buffer = vec![0; 1 << 20];
    for done in (0..job.span).step_by(1 << 20) {
        let bytes = (job.span - done).min(1 << 20) as usize;
        file.read_exact_at(&mut buffer[..bytes], job.offset + done)?;
    }
    Ok(())
}
