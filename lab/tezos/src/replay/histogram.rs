//! Durations in buckets, so that percentiles of any number of them take little memory.

/// Each power of two has this many buckets: a percentile is at most 1/128 too high.
const PARTS: usize = 128;
const PARTS_LOG: u32 = PARTS.trailing_zeros();
/// Durations of more than 2^46 ns, which is 19 hours, count as that.
const SHIFT_MAX: u32 = 46 - PARTS_LOG;

/// Durations in nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    buckets: Box<[u32]>,
    count: u64,
    max: u64,
}

impl Histogram {
    pub(super) fn new() -> Self {
        let buckets = vec![0; PARTS * (SHIFT_MAX as usize + 2)].into_boxed_slice();
        Self { buckets, count: 0, max: 0 }
    }

    /// Counts one duration.
    pub(super) fn add(&mut self, nanoseconds: u64) {
        let bucket = &mut self.buckets[bucket(nanoseconds)];
        *bucket = bucket.saturating_add(1);
        self.count += 1;
        self.max = self.max.max(nanoseconds);
    }

    /// Returns what `percent` of the durations do not exceed, in nanoseconds; 0 if there are none.
    pub(super) fn percentile(&self, percent: u64) -> u64 {
        let rank = (self.count * percent).div_ceil(100).max(1);
        let mut below = 0;
        for (index, &count) in self.buckets.iter().enumerate() {
            below += u64::from(count);
            if below >= rank {
                return top(index).min(self.max);
            }
        }
        self.max
    }

    /// Returns the longest duration.
    pub(super) const fn max(&self) -> u64 {
        self.max
    }

    /// Forgets all durations.
    pub(super) fn clear(&mut self) {
        self.buckets.fill(0);
        (self.count, self.max) = (0, 0);
    }
}

/// Returns the bucket of a duration: the first ones are of 1 ns, those of each further power of two twice as wide.
fn bucket(nanoseconds: u64) -> usize {
    let capped = nanoseconds.min((1 << (SHIFT_MAX + PARTS_LOG)) - 1);
    let shift = (u64::BITS - capped.leading_zeros()).saturating_sub(PARTS_LOG + 1);
    (shift as usize) * PARTS + (capped >> shift) as usize
}

/// Returns the longest duration of a bucket.
fn top(bucket: usize) -> u64 {
    let shift = (bucket / PARTS).saturating_sub(1);
    let part = (bucket - shift * PARTS) as u64;
    ((part + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_and_are_narrow() {
        let mut last = 0;
        for value in
            (0..4096).chain((12..46).flat_map(|bits| [(1 << bits) - 1, 1 << bits, (1 << bits) + 12345 % (1 << bits)]))
        {
            let at = bucket(value);
            assert!(at >= last || value < 4096, "{value}");
            last = at;
            assert!(top(at) >= value && top(at) - value <= value / 128 + 1, "{value} in the bucket up to {}", top(at));
        }
        assert!(bucket(u64::MAX) < Histogram::new().buckets.len());
    }

    #[test]
    fn percentiles_are_ranks() {
        let mut all = Histogram::new();
        assert_eq!((all.percentile(50), all.max()), (0, 0));
        (1..=100).for_each(|value| all.add(value));
        assert_eq!((all.percentile(50), all.percentile(99), all.max()), (50, 99, 100));
        all.clear();
        all.add(1_000_003);
        assert_eq!((all.percentile(1), all.percentile(99)), (1_000_003, 1_000_003));
    }
}
