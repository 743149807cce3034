//! Durations, of which percentiles are asked: any number of them in little memory.

/// Durations of more than 2^46 ns, which is 19 hours, count as that.
const LONGEST_NS: u64 = 1 << 46;
/// Percentiles have two digits: they are at most 1 % too high.
const DIGITS: u8 = 2;

/// Durations in nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Durations {
    counts: hdrhistogram::Histogram<u64>,
    max: u64,
}

impl Durations {
    pub(super) fn new() -> Self {
        let counts = hdrhistogram::Histogram::new_with_bounds(1, LONGEST_NS, DIGITS);
        Self { counts: counts.expect("the bounds are in order"), max: 0 }
    }

    /// Counts one duration.
    pub(super) fn add(&mut self, nanoseconds: u64) {
        self.counts.saturating_record(nanoseconds);
        self.max = self.max.max(nanoseconds);
    }

    /// Returns what `percent` of the durations do not exceed, in nanoseconds; 0 if there are none.
    pub(super) fn percentile(&self, percent: u64) -> u64 {
        self.counts.value_at_percentile(percent as f64).min(self.max)
    }

    /// Returns the longest duration.
    pub(super) const fn max(&self) -> u64 {
        self.max
    }

    /// Forgets all durations.
    pub(super) fn clear(&mut self) {
        self.counts.reset();
        self.max = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_ranks() {
        let mut all = Durations::new();
        assert_eq!((all.percentile(50), all.max()), (0, 0));
        (1..=100).for_each(|value| all.add(value));
        assert_eq!((all.percentile(50), all.percentile(99), all.max()), (50, 99, 100));
        all.clear();
        all.add(1_000_003);
        assert_eq!((all.percentile(1), all.percentile(99)), (1_000_003, 1_000_003));
        all.add(u64::MAX);
        assert_eq!(all.max(), u64::MAX);
        assert!(all.percentile(99) >= LONGEST_NS, "what is too long counts as the longest");
        let one_of = |value: u64| {
            let mut all = Durations::new();
            all.add(value);
            all.add(u64::MAX);
            all.percentile(50)
        };
        for value in (10..46).map(|bits| (1 << bits) + 12_345 % (1 << bits)) {
            assert!(one_of(value) >= value && one_of(value) - value <= value / 100, "{value}: {}", one_of(value));
        }
    }
}
