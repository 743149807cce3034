//! How numbers spread, without keeping them.

/// Numbers below this have a counter each; above, 128 counters share each power of two.
const EXACT: u64 = 256;

/// A histogram whose counters are as wide as 1/128 of the number.
#[derive(Debug, Default)]
pub(super) struct Spread {
    counters: Vec<u64>,
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
}

/// Where numbers lie. The percentiles are exact below 256 and at most 1 % too low above.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percentiles {
    /// The least.
    pub min: u64,
    /// The mean.
    pub mean: f64,
    /// Half of them are not above this.
    pub p50: u64,
    /// 99 of 100 are not above this.
    pub p99: u64,
    /// The greatest.
    pub max: u64,
}

impl Spread {
    pub(super) fn count(&mut self, number: u64) {
        let counter = counter(number);
        if counter >= self.counters.len() {
            self.counters.resize(counter + 1, 0);
        }
        self.counters[counter] += 1;
        self.min = if self.count == 0 { number } else { self.min.min(number) };
        self.max = self.max.max(number);
        self.count += 1;
        self.sum += number;
    }

    pub(super) fn percentiles(&self) -> Option<Percentiles> {
        (self.count > 0).then(|| Percentiles {
            min: self.min,
            mean: self.sum as f64 / self.count as f64,
            p50: self.at_percent(50),
            p99: self.at_percent(99),
            max: self.max,
        })
    }

    /// Returns the least number that `percent` of the numbers do not exceed.
    fn at_percent(&self, percent: u64) -> u64 {
        let rank = (u128::from(self.count) * u128::from(percent)).div_ceil(100) as u64;
        let mut below = 0;
        let found = self.counters.iter().position(|count| {
            below += count;
            below >= rank
        });
        found.map_or(self.max, first).max(self.min)
    }
}

/// Returns the counter of a number.
fn counter(number: u64) -> usize {
    if number < EXACT {
        return number as usize;
    }
    // The seven bits after the highest one tell counters of one power of two apart.
    let shift = number.ilog2() - 7;
    ((shift as usize) << 7) + (number >> shift) as usize
}

/// Returns the first number of a counter.
fn first(counter: usize) -> u64 {
    if counter < EXACT as usize {
        return counter as u64;
    }
    let shift = (counter >> 7) - 1;
    ((counter & 127 | 128) as u64) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_next_to_each_other_and_narrow() {
        let mut last = 0;
        for number in (0..100_000).chain([u64::MAX / 3, u64::MAX]) {
            let at = counter(number);
            assert!(first(at) <= number && number - first(at) <= number / 128, "{number}");
            assert!(at == last || at == last + 1 || number > 100_000, "{number}");
            last = at;
        }
    }

    #[test]
    fn percentiles_are_by_rank() {
        let mut spread = Spread::default();
        assert_eq!(spread.percentiles(), None);
        (1..=200).for_each(|number| spread.count(number));
        assert_eq!(spread.percentiles(), Some(Percentiles { min: 1, mean: 100.5, p50: 100, p99: 198, max: 200 }));
        let mut one = Spread::default();
        one.count(100_001);
        let got = one.percentiles().unwrap();
        assert_eq!((got.min, got.p50, got.max), (100_001, 100_001, 100_001));
    }
}
