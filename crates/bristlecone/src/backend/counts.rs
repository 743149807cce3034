//! What a counting backend counts: how often, how much, and how long it took.

use std::{
    array, fmt,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

/// What went through a [`Counted`](crate::Counted) backend so far. All of it can be read while the backend works.
///
/// `Display` writes a table of it.
#[derive(Debug, Default)]
pub struct Counts {
    /// Objects read, those that were absent included.
    pub reads: AtomicU64,
    /// Reads that found no object, or failed.
    pub absent: AtomicU64,
    /// Bytes of the objects that were read: bodies with what their records say besides.
    pub read_bytes: AtomicU64,
    /// Batches appended; those that were refused are not counted.
    pub appends: AtomicU64,
    /// Objects in them.
    pub objects: AtomicU64,
    /// Bytes of their records.
    pub appended_bytes: AtomicU64,
    /// Objects asked for by [`Backend::locate`](crate::Backend::locate): formats ask for values that they have hashed, that
    /// of Git for trees, too.
    pub located: AtomicU64,
    /// How long reads took: each of the first 1,024, and then one of 64. A call that reads several counts once.
    pub read_times: Latencies,
    /// How long appends took that do not wait for a sync.
    pub append_times: Latencies,
    /// How long those took that wait for a sync, and flushes.
    pub sync_times: Latencies,
}

/// The first reads are all timed.
const TIMED_FIRST: u64 = 1024;
/// Of the later ones one of so many is: a read in memory takes no longer than two looks at the clock.
const TIMED_ONE_OF: u64 = 64;

impl Counts {
    /// Counts one read, that `read` makes, and what it says of its result: the bytes of the object, if it found one.
    #[inline]
    pub(super) fn read<T>(&self, read: impl FnOnce() -> T, found_bytes: impl FnOnce(&T) -> Option<u64>) -> T {
        let number = self.reads.fetch_add(1, Relaxed);
        let began = Self::began(number);
        let result = read();
        if let Some(began) = began {
            self.read_times.record(began.elapsed());
        }
        match found_bytes(&result) {
            Some(bytes) => _ = self.read_bytes.fetch_add(bytes, Relaxed),
            None => _ = self.absent.fetch_add(1, Relaxed),
        }
        result
    }

    /// Counts a read that is one only if `peek` borrows a record.
    #[inline]
    pub(super) fn peek<'b>(&self, peek: impl FnOnce() -> Option<&'b [u8]>) -> Option<&'b [u8]> {
        let began = Self::began(self.reads.load(Relaxed));
        let record = peek()?;
        if let Some(began) = began {
            self.read_times.record(began.elapsed());
        }
        self.reads.fetch_add(1, Relaxed);
        self.read_bytes.fetch_add(record.len() as u64, Relaxed);
        Some(record)
    }

    /// Returns the time if the read with this number is one that is timed.
    #[inline]
    fn began(number: u64) -> Option<Instant> {
        (number < TIMED_FIRST || number.is_multiple_of(TIMED_ONE_OF)).then(Instant::now)
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |counter: &AtomicU64| counter.load(Relaxed);
        let (reads, absent) = (of(&self.reads), of(&self.absent));
        writeln!(f, "read          {} objects, {} bytes", reads - absent.min(reads), of(&self.read_bytes))?;
        writeln!(f, "absent        {absent} objects")?;
        writeln!(f, "located       {} objects", of(&self.located))?;
        let (batches, objects) = (of(&self.appends), of(&self.objects));
        writeln!(f, "appended      {objects} objects, {} bytes, in {batches} batches", of(&self.appended_bytes))?;
        writeln!(f, "reads         {}", self.read_times)?;
        writeln!(f, "appends       {}", self.append_times)?;
        write!(f, "syncs         {}", self.sync_times)
    }
}

/// Parts of each power of two: what a histogram says is at most a quarter above what was measured.
const PARTS: u64 = 4;
/// Every number of nanoseconds in 64 bits has a bucket: 0 to 3 one each, and four for each power of two from 4 on.
const BUCKETS: usize = 252;

/// How long calls took: a histogram of some 2 KB, which threads write to and read at the same time.
pub struct Latencies {
    buckets: [AtomicU64; BUCKETS],
    max_ns: AtomicU64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { buckets: array::from_fn(|_| AtomicU64::new(0)), max_ns: AtomicU64::new(0) }
    }
}

/// Returns the bucket of a number of nanoseconds.
const fn bucket_of(ns: u64) -> usize {
    if ns < PARTS {
        return ns as usize;
    }
    let power = 63 - ns.leading_zeros() as u64;
    ((power - 1) * PARTS + (ns >> (power - 2)) % PARTS) as usize
}

/// Returns the most nanoseconds in a bucket.
const fn last_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < PARTS {
        return bucket;
    }
    let (power, part) = (bucket / PARTS + 1, bucket % PARTS);
    // In the last bucket the sum wraps to 0, and the result to what is wanted.
    ((PARTS + part + 1) << (power - 2)).wrapping_sub(1)
}

impl Latencies {
    /// Counts one call.
    pub fn record(&self, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket_of(ns)].fetch_add(1, Relaxed);
        self.max_ns.fetch_max(ns, Relaxed);
    }

    /// Makes a call and counts it.
    pub(super) fn time<T>(&self, call: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let result = call();
        self.record(began.elapsed());
        result
    }

    /// Returns how many calls were timed.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Relaxed)).sum()
    }

    /// Returns within which time this part of the calls ended, `0.5` for the median: never less than it was, and at most a
    /// quarter more. `None` if no call was timed. `part`: from 0 to 1.
    #[must_use]
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        let counts: [u64; BUCKETS] = array::from_fn(|bucket| self.buckets[bucket].load(Relaxed));
        let wanted = ((counts.iter().sum::<u64>() as f64 * part).ceil() as u64).max(1);
        let mut seen = 0;
        let reaches = |count: &u64| {
            seen += count;
            seen >= wanted
        };
        let bucket = counts.iter().position(reaches)?;
        Some(Duration::from_nanos(last_of(bucket)).min(self.max()))
    }

    /// Returns the longest time; zero if no call was timed.
    #[must_use]
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max_ns.load(Relaxed))
    }
}

impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Some(half), Some(most), Some(nearly)) = (self.quantile(0.5), self.quantile(0.99), self.quantile(0.999))
        else {
            return f.write_str("none timed");
        };
        write!(f, "p50 {half:.1?}, p99 {most:.1?}, p99.9 {nearly:.1?}, max {:.1?}, of {}", self.max(), self.count())
    }
}

impl fmt::Debug for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Latencies({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_and_end_where_the_next_begins() {
        assert_eq!((bucket_of(0), bucket_of(u64::MAX)), (0, BUCKETS - 1));
        assert_eq!(last_of(BUCKETS - 1), u64::MAX);
        for bucket in 0..BUCKETS - 1 {
            let last = last_of(bucket);
            assert_eq!((bucket_of(last), bucket_of(last + 1)), (bucket, bucket + 1));
        }
    }

    #[test]
    fn quantiles_are_at_most_a_quarter_too_long() {
        let times = Latencies::default();
        assert_eq!((times.quantile(0.5), times.count(), times.to_string()), (None, 0, "none timed".to_owned()));
        (1..=1000).for_each(|us| times.record(Duration::from_micros(us)));
        for (part, us) in [(0.0, 1), (0.001, 1), (0.25, 250), (0.5, 500), (0.99, 990), (1.0, 1000)] {
            let (found, right) = (times.quantile(part).unwrap(), Duration::from_micros(us));
            assert!(found >= right && found <= right * 5 / 4, "{found:?} for {right:?}");
        }
        assert_eq!((times.max(), times.count()), (Duration::from_millis(1), 1000));
        times.record(Duration::MAX);
        assert_eq!(times.quantile(1.0), Some(Duration::from_nanos(u64::MAX)));
    }
}
