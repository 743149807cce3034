//! Numbers that look random and are the same on every machine: SplitMix64, integers only.

/// The increment of SplitMix64.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A stream of numbers.
#[derive(Clone, Debug)]
pub(super) struct Random {
    state: u64,
}

impl Random {
    /// Returns the stream that belongs to these words, in this order.
    pub(super) fn of(words: &[u64]) -> Self {
        Self { state: words.iter().fold(0, |state, &word| mix(state ^ word).wrapping_add(STEP)) }
    }

    pub(super) const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// Returns a number below `end`, which is not 0.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        debug_assert!(end > 0, "no number is below 0");
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// Returns a number in `low..end`.
    pub(super) fn within(&mut self, low: u64, end: u64) -> u64 {
        low + self.below(end - low)
    }

    /// Returns true with a chance of `millionths`.
    pub(super) fn chance(&mut self, millionths: u64) -> bool {
        self.below(1_000_000) < millionths
    }

    /// Returns a whole number whose mean is `millionths` millionths.
    pub(super) fn about(&mut self, millionths: u64) -> u64 {
        millionths / 1_000_000 + u64::from(self.chance(millionths % 1_000_000))
    }

    /// Returns a number below `end` whose logarithm is spread evenly: small ones are as popular as Zipf has them.
    pub(super) fn popular(&mut self, end: u64) -> u64 {
        let low = 1 << self.below(u64::from(end.ilog2()) + 1);
        let drawn = low - 1 + self.below(low);
        if drawn < end { drawn } else { self.below(end) }
    }

    /// Returns the index of one of the weights, each as likely as it is large.
    pub(super) fn weighted(&mut self, weights: &[u64]) -> usize {
        let mut left = self.below(weights.iter().sum());
        for (index, &weight) in weights.iter().enumerate() {
            if left < weight {
                return index;
            }
            left -= weight;
        }
        unreachable!("less than the sum is left")
    }

    pub(super) fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
    }

    pub(super) fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.fill(&mut bytes);
        bytes
    }
}

/// Spreads a word over all words, one to one.
pub(super) const fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// The inverse of [`mix`].
pub(super) const fn unmix(word: u64) -> u64 {
    let word = (word ^ (word >> 31) ^ (word >> 62)).wrapping_mul(0x3196_42b2_d24d_8ec3);
    let word = (word ^ (word >> 27) ^ (word >> 54)).wrapping_mul(0x96de_1b17_3f11_9089);
    word ^ (word >> 30) ^ (word >> 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_the_published_one() {
        // The first numbers of SplitMix64 from state 0.
        let mut random = Random { state: 0 };
        assert_eq!(random.next(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(random.next(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn mixing_is_undone() {
        for word in (0..1000).chain([u64::MAX, 1 << 63, 0x0123_4567_89ab_cdef]) {
            assert_eq!(unmix(mix(word)), word);
        }
    }

    #[test]
    fn draws_stay_in_their_bounds_and_reach_them() {
        let mut random = Random::of(&[1]);
        for end in [1, 2, 3, 10, 255, 256, 257] {
            let drawn: Vec<u64> = (0..20_000).map(|_| random.popular(end)).collect();
            assert!(drawn.iter().all(|&drawn| drawn < end), "below {end}");
            assert!(drawn.contains(&0) && drawn.contains(&(end - 1)), "all of {end}");
        }
        let mean: u64 = (0..100_000).map(|_| random.about(1_250_000)).sum();
        assert!((124_000..126_000).contains(&mean), "{mean}");
    }
}
