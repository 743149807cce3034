//! What reads took: counts by nanoseconds, in fio's buckets, so that our percentiles are cut where fio's are.
//!
//! Up to 127 ns each nanosecond has its bucket; beyond, each power of two has 64, so that a bucket is at most
//! 1/64 of its value wide. Memory is the same for any number of reads.
//!
//! Source: fio, `stat.h`, "Aggregate clat samples to report percentile(s) of them".

use serde::{Deserialize, Serialize};

/// The percentiles that fio reports.
pub(crate) const PERCENTILES: [f64; 17] =
    [1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99];

const BITS: u32 = 6;
const PER_GROUP: usize = 1 << BITS;
/// Powers of two that are told apart: up to 2^35 ns, 34 s.
const GROUPS: usize = 30;
const BUCKETS: usize = GROUPS * PER_GROUP;

/// Counts of latencies.
#[derive(Clone, Debug)]
pub(crate) struct Latencies {
    counts: Box<[u64]>,
    count: u64,
    min: u64,
    max: u64,
    sum: u64,
    squares: u128,
}

impl Latencies {
    pub(crate) fn new() -> Self {
        Self { counts: vec![0; BUCKETS].into(), count: 0, min: u64::MAX, max: 0, sum: 0, squares: 0 }
    }

    #[inline]
    pub(crate) fn add(&mut self, nanoseconds: u64) {
        self.counts[bucket(nanoseconds)] += 1;
        self.count += 1;
        self.min = self.min.min(nanoseconds);
        self.max = self.max.max(nanoseconds);
        self.sum += nanoseconds;
        self.squares += u128::from(nanoseconds) * u128::from(nanoseconds);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.count += other.count;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
        self.squares += other.squares;
    }

    /// Returns the figures of these latencies; all zero if there are none.
    pub(crate) fn summary(&self) -> Latency {
        let (count, sum) = (self.count as f64, self.sum as f64);
        if self.count == 0 {
            return Latency::default();
        }
        let variance = (self.squares as f64 - sum * sum / count) / (count - 1.0).max(1.0);
        let percentile = PERCENTILES.map(|percent| (percent, self.percentile(percent)));
        Latency {
            min: self.min,
            max: self.max,
            mean: sum / count,
            stddev: variance.max(0.0).sqrt(),
            samples: self.count,
            percentile: percentile.into(),
        }
    }

    /// Returns the bucket that this share of the latencies does not exceed.
    fn percentile(&self, percent: f64) -> u64 {
        let wanted = percent / 100.0 * self.count as f64;
        let mut seen = 0;
        let reached = |count: &u64| {
            seen += count;
            seen as f64 >= wanted
        };
        middle(self.counts.iter().position(reached).unwrap_or(BUCKETS - 1))
    }
}

#[inline]
fn bucket(nanoseconds: u64) -> usize {
    let group = (nanoseconds | 1).ilog2().saturating_sub(BITS);
    if group == 0 {
        return nanoseconds as usize;
    }
    let within = (nanoseconds >> group) as usize & (PER_GROUP - 1);
    (((group as usize + 1) << BITS) + within).min(BUCKETS - 1)
}

/// Returns the value that stands for all of a bucket: its middle.
const fn middle(bucket: usize) -> u64 {
    if bucket < 2 * PER_GROUP {
        return bucket as u64;
    }
    let group = (bucket >> BITS) - 1;
    let first = (PER_GROUP + bucket % PER_GROUP) as u64;
    (first << group) + (1 << (group - 1))
}

/// The figures of latencies, in nanoseconds: keys as in fio's JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Latency {
    pub(crate) min: u64,
    pub(crate) max: u64,
    pub(crate) mean: f64,
    pub(crate) stddev: f64,
    #[serde(rename = "N")]
    pub(crate) samples: u64,
    /// Percents and what they do not exceed, the smallest first.
    #[serde(with = "percentiles")]
    pub(crate) percentile: Vec<(f64, u64)>,
}

impl Latency {
    /// Returns what this share of the reads did not exceed, if it is among the percentiles.
    pub(crate) fn at(&self, percent: f64) -> Option<u64> {
        self.percentile.iter().find(|(at, _)| *at == percent).map(|(_, nanoseconds)| *nanoseconds)
    }
}

/// fio's way to write percentiles: an object whose keys are percents with six decimals.
mod percentiles {
    use serde::{Deserialize, Deserializer, Serializer, de::Error, ser::SerializeMap};
    use serde_json::{Map, Value};

    pub(super) fn serialize<S: Serializer>(list: &[(f64, u64)], serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(list.len()))?;
        for (percent, nanoseconds) in list {
            map.serialize_entry(&format!("{percent:.6}"), nanoseconds)?;
        }
        map.end()
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(f64, u64)>, D::Error> {
        let entry = |(key, value): (String, Value)| {
            let percent = key.parse().map_err(|_| D::Error::custom(format!("{key:?} is no percent")))?;
            let nanoseconds = value.as_u64().ok_or_else(|| D::Error::custom(format!("{value} is no latency")))?;
            Ok((percent, nanoseconds))
        };
        let mut list: Vec<(f64, u64)> =
            Map::deserialize(deserializer)?.into_iter().map(entry).collect::<Result<_, _>>()?;
        list.sort_by(|one, other| one.0.total_cmp(&other.0));
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_narrow_and_in_order() {
        let large = (17..35).flat_map(|power| [(1 << power) - 1, 1 << power, 3 << (power - 1)]);
        for nanoseconds in (0..100_000).chain(large) {
            let at = bucket(nanoseconds);
            assert!(middle(at).abs_diff(nanoseconds) <= nanoseconds / 64, "{nanoseconds} is in {}", middle(at));
            assert_eq!(bucket(middle(at)), at, "{nanoseconds}");
            assert!((at..=at + 1).contains(&bucket(nanoseconds + 1)), "{nanoseconds}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    /// 1 to 1,000 ns once each: percentiles are known but for a bucket's width.
    #[test]
    fn figures_of_a_known_sample() {
        let mut latencies = Latencies::new();
        let mut half = Latencies::new();
        for nanoseconds in 1..=1000 {
            if nanoseconds % 2 == 0 { latencies.add(nanoseconds) } else { half.add(nanoseconds) }
        }
        latencies.merge(&half);
        let latency = latencies.summary();
        assert_eq!((latency.min, latency.max, latency.samples), (1, 1000, 1000));
        assert_eq!(latency.mean, 500.5);
        assert!((latency.stddev - 288.819).abs() < 0.001, "{}", latency.stddev);
        let found: Vec<u64> = latency.percentile.iter().map(|(_, at)| *at).collect();
        // 10, 50 and 100 have their own buckets; 200 is in the one of 200 and 201, 300 in that of 300 to 303.
        assert_eq!(found, [10, 50, 100, 201, 302, 402, 502, 604, 700, 804, 900, 948, 988, 996, 1004, 1004, 1004]);
        assert_eq!(latency.at(99.9), Some(1004));
        assert_eq!(Latencies::new().summary(), Latency::default());
    }

    #[test]
    fn figures_go_through_json() {
        let mut latencies = Latencies::new();
        (0..5000).for_each(|nanoseconds| latencies.add(nanoseconds * 7));
        let latency = latencies.summary();
        let text = serde_json::to_string(&latency).unwrap();
        assert!(text.contains(r#""percentile":{"1.000000":"#) && text.contains(r#""99.990000":"#), "{text}");
        assert_eq!(serde_json::from_str::<Latency>(&text).unwrap(), latency);
        assert!(serde_json::from_str::<Latency>(r#"{"percentile":{"x":1}}"#).is_err());
        assert!(serde_json::from_str::<Latency>(r#"{"percentile":{"1.0":-1}}"#).is_err());
    }
}
