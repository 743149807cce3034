//! Which bytes a job reads, in which order: fio's rules, so that both do the same work.
//!
//! The span is cut into blocks of the smallest size. A read begins at a random block that was not read in this loop, the
//! next such if that one was, and is as long as a random multiple of the block, but ends before a block that was read
//! already. A loop ends when every block was read once, so reads become shorter towards its end: sizes of 50 to 300 bytes
//! come out at 136 on average. A rest of the span shorter than a block is not read. Every loop is the same.
//!
//! Source: fio, HOWTO, "norandommap", "bsrange", "blocksize_unaligned", "loops".

use super::job::ReadJob;
use crate::workload::Random;

/// The reads of one loop: where each begins, and how many bytes it has.
#[derive(Debug)]
pub(crate) struct Places<'a> {
    job: &'a ReadJob,
    random: Random,
    blocks: u64,
    /// A bit for each block: whether it was read in this loop. Empty where places may repeat.
    taken: Vec<u64>,
    /// Blocks, or where places may repeat bytes, that this loop has still to read.
    left: u64,
    /// The block after the last read.
    end: u64,
}

impl<'a> Places<'a> {
    /// Begins a loop. Threads draw different places.
    pub(crate) fn new(job: &'a ReadJob, thread: usize) -> Self {
        let blocks = job.span / job.sizes.0;
        let (words, left) = if job.norandommap { (0, job.span) } else { (blocks.div_ceil(64), blocks) };
        let random = Random::new(job.seed.wrapping_add(thread as u64));
        Self { job, random, blocks, taken: vec![0; words as usize], left, end: 0 }
    }

    /// Returns the first block from `from` on that was not read in this loop, going on at the start. There is one.
    fn free(&self, from: u64) -> u64 {
        let first = (from / 64) as usize;
        let bits = |index: usize| {
            // What the last word has beyond the last block is never free.
            let beyond = (index as u64 * 64 + 64).saturating_sub(self.blocks);
            !self.taken[index] & (u64::MAX >> beyond)
        };
        let here = (first, bits(first) & (u64::MAX << (from % 64)));
        let others = (first + 1..self.taken.len()).chain(0..=first).map(|index| (index, bits(index)));
        let (index, word) = std::iter::once(here).chain(others).find(|(_, word)| *word != 0).unwrap_or_default();
        index as u64 * 64 + u64::from(word.trailing_zeros())
    }

    /// Takes up to `count` blocks from `block` on, up to one that was read, and returns how many these are.
    fn take(&mut self, block: u64, count: u64) -> u64 {
        let is_taken = |at: &u64| self.taken[(at / 64) as usize] >> (at % 64) & 1 != 0;
        let end = (block..block + count).find(is_taken).unwrap_or(block + count);
        (block..end).for_each(|at| self.taken[(at / 64) as usize] |= 1 << (at % 64));
        end - block
    }
}

impl Iterator for Places<'_> {
    type Item = (u64, u32);

    fn next(&mut self) -> Option<(u64, u32)> {
        let (min, max) = self.job.sizes;
        if self.left == 0 || self.blocks == 0 {
            return None;
        }
        let any = if self.job.sequential { self.end % self.blocks } else { self.random.below(self.blocks) };
        let block = if self.job.norandommap { any } else { self.free(any) };
        // As fio draws it: even over the multiples of the smallest size, the largest size included.
        let drawn = if min == max { min } else { (min + self.random.below(max)).min(max) };
        let wanted = if self.job.unaligned { drawn } else { drawn - drawn % min };
        let count = wanted.div_ceil(min).min(self.blocks - block);
        let count = if self.job.norandommap { count } else { self.take(block, count) };
        let bytes = wanted.min(count * min);
        self.end = block + count;
        self.left = self.left.saturating_sub(if self.job.norandommap { bytes } else { count });
        Some((self.job.offset + block * min, bytes as u32))
    }
}
