//! Which bytes a random job reads, in which order: fio's rules, so that both do the same work.
//!
//! The span is cut into blocks of the smallest size. A read begins at a random block that was not read yet,
//! the next such if that one was, and is as long as a random multiple of the block, but ends before a block
//! that was read already. A loop ends when every block was read once, so reads become shorter towards its
//! end: sizes of 50 to 300 bytes come out at 136 on average. A rest of the span shorter than a block is not
//! read. Every loop is the same, as with fio's `randrepeat`.
//!
//! Source: fio, HOWTO, "norandommap", "bsrange", "blocksize_unaligned", "loops".

use super::job::Pattern;
use crate::workload::Random;

/// One read of one of a job's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Read {
    /// Where it begins, in bytes.
    pub(crate) offset: u64,
    /// How long it is.
    pub(crate) bytes: u32,
    /// The index of the file among those of the job.
    pub(crate) file: u32,
}

/// The reads of one loop after the other.
#[derive(Debug)]
pub(crate) struct RandomReads {
    pattern: Pattern,
    seed: u64,
    random: Random,
    blocks: u64,
    map: Option<BlockMap>,
    /// Bytes still to be read in this loop, where there is no map.
    left: u64,
}

impl RandomReads {
    pub(crate) fn new(pattern: &Pattern, seed: u64) -> Self {
        let blocks = pattern.span / pattern.sizes.min;
        let map = pattern.map.then(|| BlockMap::new(blocks));
        Self { pattern: pattern.clone(), seed, random: Random::new(seed), blocks, map, left: pattern.span }
    }

    /// Begins a loop.
    pub(crate) fn restart(&mut self) {
        self.random = Random::new(self.seed);
        self.left = self.pattern.span;
        if let Some(map) = &mut self.map {
            map.clear();
        }
    }

    /// Returns the next read; `None` at the end of the loop.
    pub(crate) fn next(&mut self) -> Option<Read> {
        let (min, max) = (self.pattern.sizes.min, self.pattern.sizes.max);
        let any = self.random.below(self.blocks);
        let block = match &self.map {
            Some(map) => map.next_free(any)?,
            None if self.left == 0 => return None,
            None => any,
        };
        // As fio draws it: even over the multiples of the smallest size, the largest size included.
        let drawn = if min == max { min } else { (min + self.random.below(max)).min(max) };
        let wanted = if self.pattern.unaligned { drawn } else { drawn - drawn % min };
        let count = wanted.div_ceil(min).min(self.blocks - block);
        let free = self.map.as_mut().map_or(count, |map| map.take(block, count));
        let bytes = wanted.min(free * min);
        self.left = self.left.saturating_sub(bytes);
        Some(Read { offset: self.pattern.offset + block * min, bytes: bytes as u32, file: 0 })
    }
}

/// One bit for each block: whether it was read.
#[derive(Debug)]
struct BlockMap {
    words: Vec<u64>,
    blocks: u64,
    free: u64,
}

impl BlockMap {
    fn new(blocks: u64) -> Self {
        let mut map = Self { words: vec![0; blocks.div_ceil(64) as usize], blocks, free: 0 };
        map.clear();
        map
    }

    fn clear(&mut self) {
        self.words.fill(0);
        self.free = self.blocks;
        // What the last word has beyond the last block is never free.
        if let Some(last) = self.words.last_mut()
            && !self.blocks.is_multiple_of(64)
        {
            *last = !0 << (self.blocks % 64);
        }
    }

    /// Returns the first free block from `from` on, going on at the start; `None` if there is none.
    fn next_free(&self, from: u64) -> Option<u64> {
        if self.free == 0 {
            return None;
        }
        let first = (from / 64) as usize;
        let free = |index: usize| !self.words[index];
        let here = free(first) & (!0 << (from % 64));
        if here != 0 {
            return Some(first as u64 * 64 + u64::from(here.trailing_zeros()));
        }
        let found = (first + 1..self.words.len()).chain(0..=first).find(|index| free(*index) != 0)?;
        Some(found as u64 * 64 + u64::from(free(found).trailing_zeros()))
    }

    /// Takes up to `count` blocks from `block` on, up to one that was taken, and returns how many these are.
    fn take(&mut self, block: u64, count: u64) -> u64 {
        let mut taken = 0;
        while taken < count && block + taken < self.blocks {
            let at = block + taken;
            let word = &mut self.words[(at / 64) as usize];
            if *word >> (at % 64) & 1 != 0 {
                break;
            }
            *word |= 1 << (at % 64);
            taken += 1;
        }
        self.free -= taken;
        taken
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::io::size::Sizes;

    fn pattern(span: u64, min: u64, max: u64) -> Pattern {
        Pattern { file: PathBuf::new(), offset: 1000, span, sizes: Sizes { min, max }, unaligned: false, map: true }
    }

    fn one_loop(reads: &mut RandomReads) -> Vec<Read> {
        std::iter::from_fn(|| reads.next()).collect()
    }

    #[test]
    fn every_block_is_read_once_a_loop() {
        for (span, min, max) in [(20 << 20, 50, 300), (4096, 64, 64), (6401, 100, 700), (50, 50, 300), (12_800, 1, 9)] {
            let mut reads = RandomReads::new(&pattern(span, min, max), 3);
            let blocks = (span / min) as usize;
            let mut orders = Vec::new();
            for _ in 0..2 {
                let order = one_loop(&mut reads);
                let mut seen = vec![0; blocks];
                for read in &order {
                    assert!(u64::from(read.bytes) >= min && u64::from(read.bytes) <= max, "{read:?}");
                    let first = (read.offset - 1000) / min;
                    assert_eq!((read.offset - 1000) % min, 0);
                    for block in first..first + u64::from(read.bytes) / min {
                        seen[block as usize] += 1;
                    }
                }
                assert!(seen.iter().all(|count| *count == 1), "{span} {min} {max}");
                assert_eq!(reads.next(), None, "the loop is over until the next begins");
                reads.restart();
                orders.push(order);
            }
            assert!(orders[0] == orders[1], "every loop is the same");
            assert!(blocks < 100 || orders[0][..50].windows(2).any(|two| two[0].offset > two[1].offset), "no order");
        }
    }

    /// fio 3.33 makes 1,540,000 reads of ten loops over 20 MiB, 136 bytes on average.
    #[test]
    fn reads_are_as_many_and_as_long_as_those_of_fio() {
        let count = one_loop(&mut RandomReads::new(&pattern(20 << 20, 50, 300), 1)).len();
        assert!((153_000..155_000).contains(&count), "{count}");
    }

    #[test]
    fn without_a_map_places_repeat_and_sizes_are_even() {
        let random = Pattern { map: false, unaligned: true, ..pattern(1 << 20, 50, 300) };
        let order = one_loop(&mut RandomReads::new(&random, 1));
        let bytes: u64 = order.iter().map(|read| u64::from(read.bytes)).sum();
        assert!((1 << 20..(1 << 20) + 300).contains(&bytes), "{bytes}");
        assert!(order.iter().all(|read| read.offset + u64::from(read.bytes) <= 1000 + (1 << 20)));
        let mean = bytes / order.len() as u64;
        assert!((190..200).contains(&mean), "fio 3.33 has 195: {mean}");
        let mut places: Vec<u64> = order.iter().map(|read| read.offset).collect();
        places.sort_unstable();
        assert!(places.windows(2).any(|two| two[0] == two[1]));
    }
}
