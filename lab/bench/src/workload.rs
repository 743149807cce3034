//! Paths and values as the tree suite defines them, made before anything is timed.

use std::{fs::File, io, io::Write as _};

use bristlecone::{Info, Path, Signature};

use crate::job::{Job, Sizes};

/// The branch that scenarios of one task work on.
pub(crate) const MAIN: &str = "main";

/// What a scenario works on.
pub(crate) struct Workload {
    /// The path of entry `n` at index `n - 1`.
    pub(crate) paths: Vec<Path>,
    /// Its last step alone.
    pub(crate) names: Vec<Path>,
    /// The directory that holds them all.
    pub(crate) dir: Path,
    pub(crate) value_bytes: usize,
}

impl Workload {
    pub(crate) fn new(job: &Job) -> Self {
        Self::sized(job.sizes.depth, job.entries(), job.value_bytes)
    }

    pub(crate) fn sized(depth: usize, entries: usize, value_bytes: usize) -> Self {
        let mut dir = Path::root();
        for level in 0..depth {
            dir.push(level.to_string().as_bytes()).expect("a number is a step");
        }
        let name = |n: usize| Path::from_bytes(n.to_string()).expect("a number is a step");
        let names: Vec<Path> = (1..=entries).map(name).collect();
        let paths = names.iter().map(|name| dir.join(name.as_bytes()).expect("a number is a step")).collect();
        Self { paths, names, dir, value_bytes }
    }

    /// Returns value `i`.
    pub(crate) fn value(&self, i: usize) -> Vec<u8> {
        value(i, self.value_bytes)
    }

    /// Returns what lookups of these entries, counted from 0, add up to where the first one holds value 1, and so on.
    pub(crate) fn sum_of(&self, lookups: &[u32]) -> u64 {
        let weights: Vec<u64> = (1..=self.paths.len()).map(|n| weight(&self.value(n))).collect();
        lookups.iter().fold(0, |sum, &n| add_up(sum, weights[n as usize]))
    }
}

/// Adds what a lookup found to the sum of those before it. The same in another order is another sum.
#[inline]
pub(crate) const fn add_up(sum: u64, weight: u64) -> u64 {
    sum.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(weight)
}

/// Returns what a value adds to a sum: its length, and eight of its bytes, those of its number.
#[inline]
pub(crate) fn weight(value: &[u8]) -> u64 {
    let number = value.get(NUMBER_AT..).and_then(<[u8]>::first_chunk::<8>).or_else(|| value.last_chunk::<8>());
    let word = match number {
        Some(word) => u64::from_le_bytes(*word),
        None => value.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    };
    word.wrapping_add(value.len() as u64)
}

/// Where a value has its number, behind `value-`.
const NUMBER_AT: usize = 6;

/// Returns value `i` of `bytes` bytes: `value-{i}-`, cut or padded with `x`.
pub(crate) fn value(i: usize, bytes: usize) -> Vec<u8> {
    let mut value = format!("value-{i}-").into_bytes();
    value.resize(bytes, b'x');
    value
}

/// Returns how many bytes values need so that none up to `last` is equal to another.
pub(crate) fn value_bytes_min(last: usize) -> usize {
    format!("value-{last}").len()
}

/// Writes values of rising numbers into one buffer, without allocating.
pub(crate) struct RisingValues {
    buffer: Vec<u8>,
}

impl RisingValues {
    pub(crate) fn new(bytes: usize) -> Self {
        Self { buffer: vec![b'x'; bytes] }
    }

    /// Returns value `i`, which must not be less than that of the call before: its text is never shorter, so
    /// that it covers the one before.
    #[inline]
    pub(crate) fn get(&mut self, i: usize) -> &[u8] {
        use std::io::Write;
        let mut head: &mut [u8] = &mut self.buffer;
        // Cut where the value is shorter than its text: that is what the definition says.
        let _ = write!(head, "value-{i}-");
        &self.buffer
    }
}

/// Returns what commit `i` records. The same for every backend with the same ids, so that heads can be compared. Git
/// wants to know who made a commit.
pub(crate) fn info(job: &Job, i: usize) -> Info {
    let info = Info::unsigned(message(i)).durability(job.target.durability());
    if job.target.has_git_ids() {
        info.by(Signature::new(format!("{} <{}>", Who::NAME, Who::ADDRESS), Who::SECONDS))
    } else {
        info
    }
}

/// Returns the message of commit `i`.
pub(crate) fn message(i: usize) -> String {
    format!("commit {i}")
}

/// Who makes the commits of Git repositories, and when, in UTC.
pub(crate) struct Who;

impl Who {
    pub(crate) const NAME: &str = "Laboratory";
    pub(crate) const ADDRESS: &str = "laboratory@example.org";
    pub(crate) const SECONDS: i64 = 1_750_000_000;
}

/// Returns the records of `count` commits.
pub(crate) fn infos(job: &Job, count: usize) -> Vec<Info> {
    (0..count).map(|i| info(job, i)).collect()
}

/// Returns which entry commit `i` of `incremental` changes, counted from 0.
#[inline]
pub(crate) const fn changed_entry(i: usize, entries: usize) -> usize {
    // A step that shares no factor with the usual sizes visits every entry.
    i.wrapping_mul(7919) % entries
}

/// Returns the number of the value that commit `i` of `incremental` sets: one that no entry had before.
#[inline]
pub(crate) const fn changed_value(i: usize, entries: usize) -> usize {
    entries + 1 + i
}

/// Returns the lookups of a scenario, counted from 0: `i mod tree_add`, or as many at random.
pub(crate) fn lookups(sizes: &Sizes, count: usize, random: bool, seed: u64) -> Vec<u32> {
    let entries = sizes.tree_add;
    let mut random_numbers = Random::new(seed);
    let next = |i: usize| if random { random_numbers.below(entries as u64) as u32 } else { (i % entries) as u32 };
    (0..count).map(next).collect()
}

/// A small generator of pseudo-random numbers (xorshift64*), the same on every run.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    #[inline]
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number below `end`.
    #[inline]
    pub(crate) const fn below(&mut self, end: u64) -> u64 {
        ((self.next() as u128 * end as u128) >> 64) as u64
    }
}

/// Makes a file of bytes that do not compress, and syncs it: pages that wait to be written cannot be dropped from the cache,
/// and would be written while reads are measured.
pub(crate) fn write_noise(path: &std::path::Path, bytes: u64) -> io::Result<()> {
    let (mut file, mut random, mut chunk) = (File::create_new(path)?, Random::new(bytes), vec![0; 1 << 20]);
    for written in (0..bytes).step_by(chunk.len()) {
        chunk.as_chunks_mut::<8>().0.iter_mut().for_each(|word| *word = random.next().to_le_bytes());
        let length = (bytes - written).min(chunk.len() as u64);
        file.write_all(&chunk[..length as usize])?;
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_cut_or_padded() {
        assert_eq!(value(7, 20), b"value-7-xxxxxxxxxxxx");
        assert_eq!(value(123, 6), b"value-");
        let bytes = value_bytes_min(123);
        let all: std::collections::BTreeSet<Vec<u8>> = (0..=123).map(|i| value(i, bytes)).collect();
        assert_eq!((bytes, all.len()), (9, 124));
        assert_eq!(value(12, bytes - 1), value(123, bytes - 1));
        let mut rising = RisingValues::new(12);
        for i in [0, 9, 10, 99, 100, 123_456_789] {
            assert_eq!(rising.get(i), value(i, 12), "{i}");
        }
    }

    #[test]
    fn every_value_weighs_something_else_and_their_order_counts() {
        for bytes in [value_bytes_min(2000), 12, 13, 14, 20, 10_000] {
            let weights: std::collections::BTreeSet<u64> = (0..=2000).map(|i| weight(&value(i, bytes))).collect();
            assert_eq!(weights.len(), 2001, "{bytes}");
        }
        assert_eq!(weight(b"value-7"), weight(&value(7, 7)));
        assert_ne!(weight(&value(7, 20)), weight(&value(7, 21)));
        let workload = Workload::sized(1, 9, 20);
        let of = |lookups: &[u32]| workload.sum_of(lookups);
        assert_eq!(of(&[0, 8]), add_up(add_up(0, weight(&value(1, 20))), weight(&value(9, 20))));
        assert!(of(&[0, 8]) != of(&[8, 0]) && of(&[0, 8]) != of(&[0, 7]) && of(&[0, 0]) != of(&[0]));
    }

    #[test]
    fn paths_are_a_chain_and_a_wide_directory() {
        let workload = Workload::sized(3, 12, 20);
        assert_eq!(workload.paths[0].to_string(), "0/1/2/1");
        assert_eq!(workload.paths[11].to_string(), "0/1/2/12");
        assert_eq!(workload.names[11].to_string(), "12");
        assert_eq!(Workload::sized(0, 1, 20).paths[0].to_string(), "1");
    }
}
